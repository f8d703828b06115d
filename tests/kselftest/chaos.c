// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Clients, engines and the daemon are killed at random moments while work runs.
 * No job is lost silently: each one ends, done or with an error that says why.
 * A thousand kills by default; "make check-kills" builds it with more.
 * time-limit: 400
 */
#include <time.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

#ifndef KILLS
#define KILLS 1000
#endif
#define SECONDS (KILLS * 39 / 100)
#define ENGINES 2
#define CLIENTS 4
#define OP_FILL 1
#define BLOCK	4096
#define JOBS	8
#define PATIENCE 150 /* ms until somebody is at work */

enum { LOST_A_JOB = 3, WRONG_BYTES = 4 };

static const char *build(void)
{
	const char *path = getenv("DISTMIND_BUILD");

	return path ? path : "build";
}

static pid_t start_engine(int number)
{
	char path[512], name[32];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(path, sizeof(path), "%s/engine/template", build());
	snprintf(name, sizeof(name), "chaos%d", number);
	dup2(open("/dev/null", O_RDWR), STDOUT_FILENO);
	dup2(STDOUT_FILENO, STDERR_FILENO);
	execl(path, "template", name, NULL);
	_exit(127);
}

static pid_t start_daemon(void)
{
	char path[512];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(path, sizeof(path), "%s/bin/distmindd", build());
	dup2(open("/dev/null", O_RDWR), STDERR_FILENO);
	execl(path, "distmindd", "--foreground", NULL);
	_exit(127);
}

/* What the clients have done so far, in memory that they share with the test. */
struct tally {
	uint64_t done; /* jobs, with the bytes that they were to write */
	uint64_t failed; /* with an error that said so */
	bool busy[CLIENTS]; /* it has submitted, and waits */
};

static struct tally *tally;

/*
 * One round of work, sometimes as a request, which may be left open: jobs in two queues, of
 * which the second goes on where the first ends. Returns 0, or an exit code if something is
 * wrong with it.
 */
static int work(struct distmind_vgpu *vgpu, int client, unsigned int seed)
{
	struct distmind_timeline *timeline = NULL;
	struct distmind_buffer *buffer = NULL;
	struct distmind_queue *first = NULL, *second = NULL;
	struct distmind_batch *batch = NULL;
	uint64_t size = (1 + rand_r(&seed) % 64) * BLOCK;
	struct distmind_request request = { .id = seed + 1 };
	bool asked = rand_r(&seed) % 2;
	void *memory;
	int code = 0, err;

	if (distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, JOBS, &first) ||
	    distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, JOBS, &second) ||
	    distmind_timeline_create(vgpu, 0, &timeline) ||
	    distmind_buffer_create(vgpu, size, DISTMIND_BUFFER_DATA, &buffer) ||
	    distmind_buffer_map(buffer, &memory) || distmind_batch_create(&batch))
		goto out;
	for (int i = 1; i <= JOBS; i++) {
		if (i == JOBS / 2 + 1) {
			if (distmind_queue_submit(first, batch, NULL))
				goto out;
			distmind_batch_clear(batch);
			request.last = rand_r(&seed) % 2;
		}
		if (asked)
			distmind_batch_request(batch, &request);
		distmind_batch_launch(batch, OP_FILL, size / BLOCK);
		distmind_batch_range(batch, buffer, 0, size);
		distmind_batch_number(batch, i);
		if (i > 1)
			distmind_batch_wait(batch, timeline, i - 1);
		distmind_batch_signal(batch, timeline, i);
	}
	if (distmind_queue_submit(second, batch, NULL))
		goto out;
	tally->busy[client] = true;
	err = distmind_timeline_wait(timeline, JOBS, 60000);
	tally->busy[client] = false;
	if (err == -ETIMEDOUT)
		code = LOST_A_JOB;
	else if (!err && !all_bytes(memory, size, JOBS))
		code = WRONG_BYTES;
	__atomic_fetch_add(err ? &tally->failed : &tally->done, JOBS, __ATOMIC_RELAXED);
out:
	distmind_batch_destroy(batch);
	distmind_queue_destroy(second);
	distmind_queue_destroy(first);
	distmind_timeline_destroy(timeline);
	distmind_buffer_destroy(buffer);
	return code;
}

/* Works for ever; ends only if something is wrong. */
static pid_t start_client(int client, unsigned int seed)
{
	struct distmind_claim claim = { .memory = MiB, .share = 10, .timeout_ms = 1000 };
	struct distmind_vgpu *vgpu;
	pid_t pid = fork();

	if (pid)
		return pid;
	for (;;) {
		int code = 0;

		/* Without a daemon or a gpu there is none; ask again. */
		if (distmind_acquire(&claim, &vgpu, NULL)) {
			usleep(1000);
			continue;
		}
		for (int i = 0; i < 20 && !code; i++)
			code = work(vgpu, client, seed++);
		distmind_vgpu_close(vgpu);
		if (code)
			_exit(code);
	}
}

static int remove_lost(const struct distmind_gpu_record *gpu, void *pool)
{
	return distmind_pool_gpu_remove(pool, gpu->id);
}

static int no_vgpus(const struct distmind_vgpu_record *vgpu, void *arg)
{
	return 1;
}

FIXTURE(chaos)
{
	struct distmind_pool *pool, *listing;
};

FIXTURE_SETUP(chaos)
{
	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	ASSERT_EQ(0, distmind_pool_open(&self->listing));
	tally = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, tally);
}

FIXTURE_TEARDOWN(chaos)
{
	distmind_pool_close(self->listing);
	distmind_pool_close(self->pool);
}

static bool any_busy(void)
{
	for (int i = 0; i < CLIENTS; i++) {
		if (tally->busy[i])
			return true;
	}
	return false;
}

TEST_F_TIMEOUT(chaos, kills_lose_no_job, SECONDS)
{
	pid_t engines[ENGINES], clients[CLIENTS], daemon;
	unsigned int seed = 20031;
	/* Kills that hit somebody who waited for a job, or whose job somebody waited for. */
	int clients_hit = 0, engines_hit = 0;

	for (int i = 0; i < ENGINES; i++)
		engines[i] = start_engine(i);
	daemon = start_daemon();
	for (int i = 0; i < CLIENTS; i++)
		clients[i] = start_client(i, i * 1000);
	for (int i = 0; i < KILLS; i++) {
		const struct timespec moment = { .tv_nsec = 1000000 };
		struct timespec nap = { .tv_nsec = rand_r(&seed) % 10000000 };
		unsigned int die = rand_r(&seed) % 100;
		pid_t *victim;
		int status;

		/* Where processes begin slowly, nobody would be at work yet. */
		for (int j = 0; j < PATIENCE && !any_busy(); j++)
			nanosleep(&moment, NULL);
		/* The moment is what is random. */
		nanosleep(&nap, NULL);
		if (die < 70)
			victim = &clients[die % CLIENTS];
		else if (die < 95)
			victim = &engines[die % ENGINES];
		else
			victim = &daemon;
		if (die < 70)
			clients_hit += tally->busy[die % CLIENTS];
		else if (die < 95)
			engines_hit += any_busy();
		kill(*victim, SIGKILL);
		status = child_status(*victim);
		ASSERT_EQ(128 + SIGKILL, status)
			TH_LOG("a client ended by itself, code %d", status);
		if (die < 70) {
			tally->busy[die % CLIENTS] = false;
			*victim = start_client(die % CLIENTS, seed);
		} else if (die < 95) {
			*victim = start_engine(die % ENGINES);
		} else {
			*victim = start_daemon();
		}
	}
	for (int i = 0; i < CLIENTS; i++) {
		kill(clients[i], SIGKILL);
		EXPECT_EQ(128 + SIGKILL, child_status(clients[i]));
	}
	kill(daemon, SIGKILL);
	child_status(daemon);
	for (int i = 0; i < ENGINES; i++) {
		kill(engines[i], SIGKILL);
		child_status(engines[i]);
	}
	TH_LOG("%d kills: %llu jobs done, %llu failed; %d clients and %d engines killed at work",
	       KILLS, tally->done + 0ULL, tally->failed + 0ULL, clients_hit, engines_hit);
	/* Else this has shown nothing. */
	EXPECT_LE(KILLS, tally->done);
	EXPECT_LE(JOBS, tally->failed);
	EXPECT_LE(KILLS / 100, clients_hit);
	EXPECT_LE(KILLS / 100, engines_hit);
	EXPECT_EQ(0, distmind_pool_vgpus(self->pool, no_vgpus, NULL));
	EXPECT_EQ(0, distmind_pool_gpus(self->listing, remove_lost, self->pool));
}

TEST_HARNESS_MAIN
