// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Grants: lanes that are lent to processes, how they are asked back, and what
 * becomes of those who do not listen. And what an application is told of
 * preemptions. The engine is a thread of the test; the library is the
 * application's, because giving a lane back in time is its work.
 */
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "importer/importer.h"
#include "kselftest_harness.h"
#include "library_test.h"

#define SECOND 1000000000ULL

/* A gpu with one lane, a vgpu that fills it and one that is in a hurry. */
struct bed {
	struct distmind_pool *pool;
	struct gpu gpu;
	struct distmind_vgpu *vgpu, *urgent;
	uint32_t id, urgent_id;
	bool nobodys; /* the vgpu of that id is nobody's, as are those who hold lanes by it */
	volatile uint64_t *shared; /* with children: how far they got */
};

/* A launch is blocks of a millisecond. */
static void run_blocks(struct distmind_engine *engine, struct distmind_engine_exchange *next)
{
	const volatile struct distmind_lane_page *page = distmind_engine_lane(engine, next->lane);

	for (next->cookie = next->job.cookie; next->cookie < next->job.blocks && !page->yield;
	     next->cookie++)
		usleep(1000);
	if (next->cookie < next->job.blocks)
		next->status = DISTMIND_DONE_YIELDED;
}

static int new_vgpu(struct distmind_pool *pool, uint32_t gpu, uint32_t sched_class,
		    struct distmind_vgpu **vgpu, uint32_t *id)
{
	struct distmind_vgpu_record record = {
		.gpu = gpu, .memory = MiB, .share = 500, .sched_class = sched_class,
		.objective_ns = sched_class == DISTMIND_CLASS_LATENCY ? SECOND : 0,
	};
	int err = library_vgpu_create(pool, &record, vgpu);

	*id = record.id;
	return err;
}

static int bed_make_named(struct bed *bed, const char *name, const char *kind,
			  uint32_t capabilities)
{
	struct distmind_engine_params params = {
		.name = name, .kind = kind, .memory = 4 * MiB,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1, .capabilities = capabilities,
	};
	uint32_t gpu;

	bed->nobodys = false;
	if (distmind_pool_open(&bed->pool) || gpu_start(&bed->gpu, &params, run_blocks))
		return -1;
	gpu = distmind_engine_gpu(bed->gpu.engine);
	bed->shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return new_vgpu(bed->pool, gpu, DISTMIND_CLASS_BEST_EFFORT, &bed->vgpu, &bed->id) ||
	       new_vgpu(bed->pool, gpu, DISTMIND_CLASS_LATENCY, &bed->urgent, &bed->urgent_id) ||
	       bed->shared == MAP_FAILED;
}

static int bed_make(struct bed *bed, const char *kind, uint32_t capabilities)
{
	return bed_make_named(bed, "grant", kind, capabilities);
}

static void bed_end(struct bed *bed)
{
	distmind_vgpu_close(bed->vgpu);
	distmind_vgpu_close(bed->urgent);
	distmind_pool_vgpu_delete(bed->pool, bed->id);
	distmind_pool_vgpu_delete(bed->pool, bed->urgent_id);
	gpu_stop(bed->pool, &bed->gpu);
	distmind_pool_close(bed->pool);
	munmap((void *)bed->shared, PAGE);
}

FIXTURE(grant)
{
	struct bed bed;
};

FIXTURE_SETUP(grant)
{
	ASSERT_EQ(0, bed_make(&self->bed, "plain", DISTMIND_ENGINE__ALL));
	EXPECT_EQ(DISTMIND_ENGINE__ALL, distmind_engine_capabilities(self->bed.gpu.engine));
}

FIXTURE_TEARDOWN(grant)
{
	bed_end(&self->bed);
}

/* distmind_test_hook.ko is for this kind. */
FIXTURE(hooked)
{
	struct bed bed;
};

FIXTURE_SETUP(hooked)
{
	ASSERT_EQ(0, access("/sys/module/distmind_test_hook", F_OK));
	ASSERT_EQ(0, bed_make(&self->bed, "hooked", DISTMIND_ENGINE__ALL));
}

FIXTURE_TEARDOWN(hooked)
{
	bed_end(&self->bed);
}

/* An engine that can nothing but run jobs, and something that is not known yet. */
FIXTURE(stubborn)
{
	struct bed bed;
};

FIXTURE_SETUP(stubborn)
{
	ASSERT_EQ(0, bed_make(&self->bed, "stubborn", 0x80000000));
	EXPECT_EQ(0, distmind_engine_capabilities(self->bed.gpu.engine));
}

FIXTURE_TEARDOWN(stubborn)
{
	bed_end(&self->bed);
}

/* A launch of so many blocks; *timeline goes to 1 when it has ended. */
static int launch(struct distmind_vgpu *vgpu, struct distmind_queue *queue, uint32_t blocks,
		  struct distmind_timeline **timeline)
{
	struct distmind_batch *batch;
	int err = distmind_timeline_create(vgpu, 0, timeline);

	if (err)
		return err;
	distmind_batch_create(&batch);
	distmind_batch_launch(batch, 0, blocks);
	distmind_batch_signal(batch, *timeline, 1);
	err = distmind_queue_submit(queue, batch, NULL);
	distmind_batch_destroy(batch);
	return err;
}

/* A short job of the latency class, from submission to its end. */
static int run_urgent(struct distmind_vgpu *urgent)
{
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	int err = distmind_queue_create(urgent, DISTMIND_LANE_COMPUTE, 1, &queue);

	if (err)
		return err;
	err = launch(urgent, queue, 1, &timeline);
	if (!err)
		err = distmind_timeline_wait(timeline, 1, 10000);
	distmind_timeline_destroy(timeline);
	distmind_queue_destroy(queue);
	return err;
}

/* The same, without waiting for it: it ends with its vgpu at the latest. */
static int urgent_begin(struct distmind_vgpu *urgent)
{
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	int err = distmind_queue_create(urgent, DISTMIND_LANE_COMPUTE, 1, &queue);

	return err ? err : launch(urgent, queue, 1, &timeline);
}

static uint64_t busy_ns(struct distmind_pool *pool, uint32_t id)
{
	struct distmind_vgpu_record record;

	return distmind_pool_vgpu(pool, id, &record) ? 0 : record.busy_ns;
}

/*
 * A process that has a lane and works, counting, until limit; what it does when it
 * is asked for the lane is for the caller to say.
 */
enum manners { POLITE, DEAF, ASLEEP };

/* In the kernel, where no signal wakes it. */
static void fall_asleep(void)
{
	struct importer_call sleep = { .op = IMPORTER_SLEEP, .value = 12000 };

	call(open("/dev/distmind-test-importer", O_RDWR | O_CLOEXEC), IMPORTER_CALL, &sleep);
}

static pid_t holder(struct bed *bed, enum manners manners, uint64_t limit)
{
	volatile uint64_t *shared = bed->shared;
	struct distmind_vgpu *vgpu;
	struct distmind_grant *grant;
	pid_t pid;

	shared[0] = shared[1] = 0;
	pid = fork();
	if (pid)
		return pid;
	if ((bed->nobodys && become_nobody()) || library_vgpu_open(bed->id, &vgpu) ||
	    distmind_grant_create(vgpu, DISTMIND_LANE_COMPUTE, &grant) ||
	    distmind_grant_begin(grant, 10000))
		_exit(1);
	shared[1] = 1;
	if (manners == ASLEEP)
		fall_asleep();
	while (shared[0] < limit) {
		usleep(1000);
		shared[0]++;
		if (manners == POLITE && distmind_grant_asked(grant) &&
		    distmind_grant_again(grant, 10000))
			_exit(2);
	}
	_exit(distmind_grant_end(grant) ? 3 : 0);
}

#define WAIT_UNTIL(condition) ({                                \
	int __tries = 10000;                                     \
	while (!(condition) && --__tries)                       \
		usleep(1000);                                   \
	__tries;                                                \
})

TEST_F(grant, a_lane_is_lent_accounted_and_given_back)
{
	struct distmind_vgpu_record record;
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	struct distmind_grant *grant;
	uint64_t before;

	ASSERT_EQ(0, distmind_grant_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, &grant));
	EXPECT_EQ(-EPROTO, distmind_grant_end(grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 1000));
	EXPECT_EQ(-EALREADY, distmind_grant_begin(grant, 1000));
	EXPECT_FALSE(distmind_grant_asked(grant));
	ASSERT_EQ(0, distmind_pool_vgpu(self->bed.pool, self->bed.id, &record));
	EXPECT_EQ(1, record.queued);
	EXPECT_EQ(1, record.running);
	/* It is the process's: jobs of its own class wait. */
	ASSERT_EQ(0, distmind_queue_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, 1, &queue));
	ASSERT_EQ(0, launch(self->bed.vgpu, queue, 1, &timeline));
	EXPECT_EQ(-ETIMEDOUT, distmind_timeline_wait(timeline, 1, 100));
	before = busy_ns(self->bed.pool, self->bed.id);
	EXPECT_LE(SECOND / 10, before);
	ASSERT_EQ(0, distmind_grant_end(grant));
	EXPECT_EQ(0, distmind_timeline_wait(timeline, 1, 10000));
	EXPECT_LE(before, busy_ns(self->bed.pool, self->bed.id));
	/* And again. */
	EXPECT_EQ(0, distmind_grant_begin(grant, 1000));
	distmind_timeline_destroy(timeline);
	distmind_queue_destroy(queue);
	distmind_grant_destroy(grant);
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
	ASSERT_EQ(0, distmind_pool_vgpu(self->bed.pool, self->bed.id, &record));
	EXPECT_EQ(0, record.queued);
	EXPECT_EQ(0, record.running);
}

TEST_F(grant, a_polite_process_makes_room_and_goes_on)
{
	pid_t pid;

	pid = holder(&self->bed, POLITE, 300);
	ASSERT_LT(0, WAIT_UNTIL(self->bed.shared[1]));
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
	EXPECT_GT(300, self->bed.shared[0]);
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(300, self->bed.shared[0]);
}

TEST_F(grant, a_wish_that_is_not_fulfilled_in_time_is_withdrawn)
{
	struct distmind_grant *mine, *theirs;

	ASSERT_EQ(0, distmind_grant_create(self->bed.urgent, DISTMIND_LANE_COMPUTE, &mine));
	ASSERT_EQ(0, distmind_grant_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, &theirs));
	ASSERT_EQ(0, distmind_grant_begin(mine, 1000));
	EXPECT_EQ(-ETIMEDOUT, distmind_grant_begin(theirs, 50));
	ASSERT_EQ(0, distmind_grant_end(mine));
	/* Nobody holds it now, so it is there at once. */
	EXPECT_EQ(0, distmind_grant_begin(mine, 1000));
	distmind_grant_destroy(mine);
	distmind_grant_destroy(theirs);
}

TEST_F(grant, the_death_of_a_holder_gives_the_lane_back)
{
	pid_t pid;

	pid = holder(&self->bed, DEAF, ~0ULL);
	ASSERT_LT(0, WAIT_UNTIL(self->bed.shared[1]));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
}

static unsigned int rungs; /* that were seen, a bit each */

static void note_rung(const struct distmind_event *event, void *arg)
{
	if (event->type == DISTMIND_EVENT_PREEMPT)
		rungs |= 1U << event->preempt.rung;
}

static bool saw_rung(struct distmind_pool *pool, uint32_t rung)
{
	distmind_pool_dispatch(pool, note_rung, NULL);
	return rungs & (1U << rung);
}

/* What every preemption of a deaf process has in common. */
static int meet_deaf(struct bed *bed, uint64_t limit, pid_t *pid)
{
	uint32_t gpu = distmind_engine_gpu(bed->gpu.engine);

	rungs = 0;
	if (distmind_pool_subscribe_preempt(bed->pool) ||
	    distmind_pool_gpu_grace(bed->pool, gpu, SECOND / 100) ||
	    distmind_pool_gpu_hang(bed->pool, gpu, SECOND / 2))
		return -1;
	*pid = holder(bed, DEAF, limit);
	return WAIT_UNTIL(bed->shared[1]) ? 0 : -1;
}

static int survives_killing(struct bed *bed, pid_t pid)
{
	struct distmind_gpu_record gpu;

	return run_urgent(bed->urgent) || child_status(pid) != 128 + SIGKILL ||
	       !saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_ASK) ||
	       !saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_HANG) ||
	       !saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_KILL) ||
	       distmind_pool_gpu(bed->pool, distmind_engine_gpu(bed->gpu.engine), &gpu) ||
	       gpu.state != DISTMIND_GPU_STATE_READY || gpu.hangs != 1;
}

TEST_F(grant, a_deaf_process_is_killed_and_the_gpu_lives)
{
	pid_t pid;

	ASSERT_EQ(0, meet_deaf(&self->bed, ~0ULL, &pid));
	EXPECT_EQ(0, survives_killing(&self->bed, pid));
	EXPECT_FALSE(saw_rung(self->bed.pool, DISTMIND_PREEMPT_RUNG_HOOK));
}

TEST_F(grant, who_cannot_even_be_killed_loses_the_lane_all_the_same)
{
	uint32_t gpu = distmind_engine_gpu(self->bed.gpu.engine);
	pid_t pid;

	ASSERT_EQ(0, distmind_pool_gpu_grace(self->bed.pool, gpu, SECOND / 100));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->bed.pool, gpu, SECOND / 2));
	pid = holder(&self->bed, ASLEEP, ~0ULL);
	ASSERT_LT(0, WAIT_UNTIL(self->bed.shared[1]));
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	/* Nobody has lost anything by its end. */
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
}

/* How long an urgent job takes while a deaf process of nobody's has the lane; 0: it fails. */
static uint64_t meet_nobody(struct bed *bed, uint64_t hang_ns)
{
	struct timespec begun, ended;
	pid_t pid;

	if (meet_deaf(bed, ~0ULL, &pid) ||
	    distmind_pool_gpu_hang(bed->pool, distmind_engine_gpu(bed->gpu.engine), hang_ns))
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	if (run_urgent(bed->urgent) || child_status(pid) != 128 + SIGKILL)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return (ended.tv_sec - begun.tv_sec) * SECOND + ended.tv_nsec - begun.tv_nsec;
}

TEST_F(grant, who_has_kept_a_lane_is_given_less_time_with_the_next)
{
	struct bed *bed = &self->bed;
	struct distmind_vgpu_record record = {
		.gpu = distmind_engine_gpu(bed->gpu.engine), .memory = MiB, .share = 500,
		.uid = 65534, .gid = 65534,
	};
	uint32_t own = bed->id;

	ASSERT_EQ(0, distmind_pool_vgpu_create(bed->pool, &record));
	bed->id = record.id;
	bed->nobodys = true;
	EXPECT_LE(2 * SECOND, meet_nobody(bed, 2 * SECOND));
	/* All that was nobody's has gone meanwhile, and still it is known. */
	EXPECT_GT(2 * SECOND, meet_nobody(bed, 2 * SECOND) - 1);
	/* Others have their time. */
	bed->id = own;
	bed->nobodys = false;
	EXPECT_LE(2 * SECOND, meet_nobody(bed, 2 * SECOND));
	EXPECT_EQ(0, distmind_pool_vgpu_delete(bed->pool, record.id));
}

TEST_F(hooked, a_deaf_process_is_off_the_device_while_others_run_and_then_goes_on)
{
	struct bed *bed = &self->bed;
	struct distmind_gpu_record gpu;
	struct distmind_grant *grant;
	uint64_t stopped;
	pid_t pid;

	ASSERT_EQ(0, meet_deaf(bed, 1000, &pid));
	ASSERT_EQ(0, distmind_grant_create(bed->urgent, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 10000));
	stopped = bed->shared[0];
	/* Long enough for many steps, and within the share of who is in a hurry. */
	usleep(20000);
	EXPECT_GE(stopped + 1, bed->shared[0]);
	EXPECT_GT(1000, bed->shared[0]);
	distmind_grant_destroy(grant);
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(1000, bed->shared[0]);
	EXPECT_TRUE(saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_ASK));
	EXPECT_TRUE(saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_HOOK));
	EXPECT_TRUE(saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_YIELDED));
	EXPECT_FALSE(saw_rung(bed->pool, DISTMIND_PREEMPT_RUNG_HANG));
	ASSERT_EQ(0, distmind_pool_gpu(bed->pool, distmind_engine_gpu(bed->gpu.engine), &gpu));
	EXPECT_EQ(1, gpu.evictions);
	EXPECT_EQ(0, gpu.hangs);
}

static int hook_set(const char *name, int value)
{
	char path[96];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/distmind_test_hook/parameters/%s", name);
	file = fopen(path, "w");
	if (!file)
		return -errno;
	fprintf(file, "%d\n", value);
	return fclose(file);
}

static bool hook_holds(void)
{
	FILE *file = fopen("/sys/module/distmind_test_hook/parameters/held", "r");
	int c = file ? getc(file) : EOF;

	if (file)
		fclose(file);
	return c == 'Y';
}

/* gpus that were made and are not gone. */
static long living_gpus(void)
{
	FILE *file = fopen("/sys/kernel/debug/distmind/ledger", "r");
	long created = -1, destroyed = 0;

	if (!file)
		return -1;
	if (fscanf(file, "gpu %ld %ld", &created, &destroyed) != 2)
		created = -1;
	fclose(file);
	return created - destroyed;
}

/* Takes every lane of a gpu that there is. */
static void hold_both(uint32_t id, volatile uint64_t *ready)
{
	struct distmind_grant *grants[2];
	struct distmind_vgpu *vgpu;

	if (library_vgpu_open(id, &vgpu))
		_exit(1);
	for (int i = 0; i < 2; i++) {
		if (distmind_grant_create(vgpu, DISTMIND_LANE_COMPUTE, &grants[i]) ||
		    distmind_grant_begin(grants[i], 10000))
			_exit(1);
	}
	*ready = 1;
	for (;;)
		pause();
}

struct removal {
	struct distmind_pool *pool;
	struct gpu gpu;
};

static void *remove_gpu(void *arg)
{
	struct removal *removal = arg;

	gpu_stop(removal->pool, &removal->gpu);
	return NULL;
}

/* By a socket of its own: whoever waits for an answer there has the pool's. */
static void *ask_pool(void *arg)
{
	struct distmind_vgpu_record record = *(struct distmind_vgpu_record *)arg;
	struct distmind_pool *pool;
	long err = distmind_pool_open(&pool);

	if (!err)
		err = distmind_pool_vgpu_set(pool, &record, DISTMIND_SET_GPU);
	distmind_pool_close(pool);
	return (void *)err;
}

/* Whether a vgpu can be parked now, whatever else goes on in the pool. */
static bool pool_answers(const struct bed *bed)
{
	struct distmind_vgpu_record record = { .id = bed->urgent_id, .gpu = DISTMIND_GPU_NONE };
	struct timespec limit;
	pthread_t thread;
	void *err = NULL;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += 5;
	if (pthread_create(&thread, NULL, ask_pool, &record))
		return false;
	if (pthread_timedjoin_np(thread, &err, &limit)) {
		hook_set("hold", -1);
		hook_set("hold_resume", 0);
		pthread_join(thread, &err);
		return false;
	}
	return !err;
}

TEST_F(hooked, a_hook_that_takes_its_time_to_resume_keeps_nobody_from_the_pool)
{
	struct distmind_vgpu_record record = { .id = self->bed.id, .gpu = DISTMIND_GPU_NONE };
	struct distmind_grant *grant;
	pthread_t thread;
	void *err;
	pid_t pid;

	/* It is to be stopped long before it is done, however busy the host is. */
	ASSERT_EQ(0, meet_deaf(&self->bed, 1000, &pid));
	ASSERT_EQ(0, distmind_grant_create(self->bed.urgent, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 10000));
	/* It is off the device, and now its vgpu is parked. */
	ASSERT_EQ(0, hook_set("hold_resume", 1));
	ASSERT_EQ(0, pthread_create(&thread, NULL, ask_pool, &record));
	ASSERT_LT(0, WAIT_UNTIL(hook_holds()));
	EXPECT_TRUE(pool_answers(&self->bed));
	ASSERT_EQ(0, hook_set("hold_resume", 0));
	ASSERT_EQ(0, pthread_join(thread, &err));
	EXPECT_EQ(NULL, err);
	/* It goes on, to find that it has no lane any more. */
	EXPECT_EQ(3, child_status(pid));
	EXPECT_EQ(1000, self->bed.shared[0]);
	distmind_grant_destroy(grant);
}

/* The hook has ended one grant and is busy with the other when all else of the gpu goes. */
TEST_F(hooked, a_gpu_goes_while_the_hook_works)
{
	struct distmind_engine_params params = {
		.name = "going", .kind = "hooked", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 2, .capabilities = DISTMIND_ENGINE__ALL,
	};
	struct removal removal = { .pool = self->bed.pool };
	struct distmind_vgpu_record record = { .id = self->bed.id };
	volatile uint64_t *shared = self->bed.shared;
	long before = living_gpus();
	struct timespec soon;
	pthread_t thread;
	bool joined;
	pid_t pid;

	ASSERT_LT(0, before);
	ASSERT_EQ(0, gpu_start(&removal.gpu, &params, run_blocks));
	record.gpu = distmind_engine_gpu(removal.gpu.engine);
	ASSERT_EQ(0, distmind_pool_gpu_grace(self->bed.pool, record.gpu, SECOND / 100));
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->bed.pool, &record, DISTMIND_SET_GPU));
	shared[1] = 0;
	pid = fork();
	if (!pid)
		hold_both(self->bed.id, &shared[1]);
	ASSERT_LT(0, WAIT_UNTIL(shared[1]));
	ASSERT_EQ(0, hook_set("hold", 1));
	record.gpu = DISTMIND_GPU_NONE;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->bed.pool, &record, DISTMIND_SET_GPU));
	ASSERT_LT(0, WAIT_UNTIL(hook_holds()));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	/* Who removes it does not wait for the hook. */
	ASSERT_EQ(0, pthread_create(&thread, NULL, remove_gpu, &removal));
	clock_gettime(CLOCK_REALTIME, &soon);
	soon.tv_sec += 5;
	joined = !pthread_timedjoin_np(thread, NULL, &soon);
	EXPECT_TRUE(joined);
	EXPECT_TRUE(hook_holds());
	EXPECT_TRUE(pool_answers(&self->bed));
	/* What the call needs of it is there until it returns. */
	EXPECT_EQ(before + 1, living_gpus());
	ASSERT_EQ(0, hook_set("hold", -1));
	if (!joined)
		pthread_join(thread, NULL);
	EXPECT_LT(0, WAIT_UNTIL(living_gpus() == before));
}

static long hook_number(const char *name)
{
	char path[96];
	long value = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/distmind_test_hook/parameters/%s", name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%ld", &value) != 1)
		value = -1;
	if (file)
		fclose(file);
	return value;
}

TEST_F(hooked, a_hook_that_goes_leaves_nothing_stopped)
{
	struct bed *bed = &self->bed;
	struct distmind_grant *grant;
	uint64_t stopped;
	pid_t pid;

	ASSERT_EQ(0, meet_deaf(bed, 1000, &pid));
	ASSERT_EQ(0, distmind_grant_create(bed->urgent, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 10000));
	stopped = bed->shared[0];
	usleep(50000);
	ASSERT_GE(stopped + 1, bed->shared[0]);
	/* Nobody gives it a lane, and nobody is left who could resume it later. */
	EXPECT_EQ(0, hook_set("registered", 0));
	EXPECT_LT(0, WAIT_UNTIL(bed->shared[0] > stopped + 1));
	EXPECT_EQ(0, hook_set("registered", 1));
	distmind_grant_destroy(grant);
	EXPECT_EQ(0, child_status(pid));
	EXPECT_EQ(1000, bed->shared[0]);
}

/* One vendor's hook sleeps, another's comes and goes: a third's gpu has nothing to do with it. */
TEST_F(hooked, a_hook_that_sleeps_keeps_no_other_gpu_waiting)
{
	long passed = hook_number("passed");
	struct bed other;
	pid_t slow, quick;

	ASSERT_EQ(0, bed_make_named(&other, "prompt", "prompt", DISTMIND_ENGINE__ALL));
	ASSERT_EQ(0, hook_set("hold", 0));
	ASSERT_EQ(0, meet_deaf(&self->bed, 1000, &slow));
	/* There the next rung is not to come before the hook has ended. */
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->bed.pool,
					    distmind_engine_gpu(self->bed.gpu.engine),
					    60 * SECOND));
	ASSERT_EQ(0, urgent_begin(self->bed.urgent));
	ASSERT_LT(0, WAIT_UNTIL(hook_holds()));
	ASSERT_EQ(0, hook_set("pass", 1));
	usleep(50000);
	ASSERT_EQ(0, meet_deaf(&other, 1000, &quick));
	/* Much less than the hang limit: it is the hook that makes room. */
	EXPECT_EQ(0, run_urgent(other.urgent));
	EXPECT_TRUE(saw_rung(other.pool, DISTMIND_PREEMPT_RUNG_HOOK));
	EXPECT_FALSE(saw_rung(other.pool, DISTMIND_PREEMPT_RUNG_HANG));
	EXPECT_EQ(passed + 1, hook_number("passed"));
	EXPECT_EQ(0, child_status(quick));
	EXPECT_EQ(0, hook_set("hold", -1));
	EXPECT_EQ(0, child_status(slow));
	bed_end(&other);
}

/* Nor does it keep its own gpu waiting: what it does not do in time the next rungs do. */
TEST_F(hooked, a_hook_that_sleeps_leaves_a_deaf_process_to_the_hang_limit)
{
	int err;
	pid_t pid;

	ASSERT_EQ(0, hook_set("hold", 0));
	ASSERT_EQ(0, meet_deaf(&self->bed, ~0ULL, &pid));
	err = survives_killing(&self->bed, pid);
	EXPECT_TRUE(hook_holds());
	EXPECT_EQ(0, hook_set("hold", -1));
	EXPECT_EQ(0, err);
	if (err) {
		kill(pid, SIGKILL);
		child_status(pid);
	}
}

TEST_F(hooked, a_hook_that_fails_leaves_it_to_the_hang_limit)
{
	FILE *refuse = fopen("/sys/module/distmind_test_hook/parameters/refuse", "w");
	pid_t pid;

	ASSERT_NE(NULL, refuse);
	fputs("1\n", refuse);
	fflush(refuse);
	ASSERT_EQ(0, meet_deaf(&self->bed, ~0ULL, &pid));
	EXPECT_EQ(0, survives_killing(&self->bed, pid));
	EXPECT_TRUE(saw_rung(self->bed.pool, DISTMIND_PREEMPT_RUNG_HOOK));
	fputs("0\n", refuse);
	fclose(refuse);
}

/* The queue is not theirs alone: its handle stays when the process is gone. */
static int outlived(struct bed *bed, bool deaf)
{
	struct distmind_grant *grant;
	pid_t pid = fork();
	siginfo_t info;

	if (!pid) {
		if (distmind_grant_create(bed->vgpu, DISTMIND_LANE_COMPUTE, &grant) ||
		    distmind_grant_begin(grant, 10000))
			_exit(1);
		bed->shared[1] = 1;
		while (deaf)
			pause();
		_exit(0);
	}
	/* Dead but not buried, which is all that its parent has to do. */
	if (!WAIT_UNTIL(bed->shared[1]) || (!deaf && waitid(P_PID, pid, &info, WEXITED | WNOWAIT)) ||
	    run_urgent(bed->urgent))
		return -1;
	bed->shared[1] = 0;
	return child_status(pid) != (deaf ? 128 + SIGKILL : 0);
}

TEST_F(grant, the_dead_keep_no_lane_whoever_else_has_the_queue)
{
	uint32_t gpu = distmind_engine_gpu(self->bed.gpu.engine);

	ASSERT_EQ(0, distmind_pool_gpu_grace(self->bed.pool, gpu, SECOND / 100));
	ASSERT_EQ(0, distmind_pool_gpu_hang(self->bed.pool, gpu, SECOND / 10));
	self->bed.shared[1] = 0;
	EXPECT_EQ(0, outlived(&self->bed, false));
	EXPECT_EQ(0, outlived(&self->bed, true));
}

TEST_F(grant, parking_a_vgpu_asks_the_lane_back)
{
	struct distmind_vgpu_record record = { .id = self->bed.id, .gpu = DISTMIND_GPU_NONE };
	struct distmind_grant *grant;

	ASSERT_EQ(0, distmind_grant_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 1000));
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->bed.pool, &record, DISTMIND_SET_GPU));
	EXPECT_TRUE(distmind_grant_asked(grant));
	EXPECT_EQ(-ESTALE, distmind_grant_end(grant));
	EXPECT_EQ(-ENXIO, distmind_grant_begin(grant, 1000));
	EXPECT_EQ(0, run_urgent(self->bed.urgent));
	distmind_grant_destroy(grant);
}

/* Its gpu's number, and one, goes to *number. */
static void mortal_engine(volatile uint64_t *number)
{
	struct distmind_engine_params params = {
		.name = "mortal", .kind = "plain", .memory = MiB, .numa_node = DISTMIND_NUMA_ANY,
		.compute_lanes = 1, .capabilities = DISTMIND_ENGINE__ALL,
	};
	struct gpu gpu;

	if (gpu_start(&gpu, &params, run_blocks))
		_exit(1);
	*number = distmind_engine_gpu(gpu.engine) + 1;
	pthread_join(gpu.lanes[0].thread, NULL);
	_exit(0);
}

TEST_F(grant, a_lost_gpu_takes_the_lane_from_its_holder)
{
	struct distmind_vgpu_record record = { .id = self->bed.id };
	struct distmind_grant *grant;
	pid_t pid;

	self->bed.shared[0] = 0;
	pid = fork();
	if (!pid)
		mortal_engine(&self->bed.shared[0]);
	ASSERT_LT(0, WAIT_UNTIL(self->bed.shared[0]));
	record.gpu = self->bed.shared[0] - 1;
	ASSERT_EQ(0, distmind_pool_vgpu_set(self->bed.pool, &record, DISTMIND_SET_GPU));
	ASSERT_EQ(0, distmind_grant_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, &grant));
	ASSERT_EQ(0, distmind_grant_begin(grant, 1000));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	EXPECT_EQ(128 + SIGKILL, child_status(pid));
	EXPECT_TRUE(distmind_grant_asked(grant));
	EXPECT_EQ(-EOWNERDEAD, distmind_grant_end(grant));
	distmind_grant_destroy(grant);
	record.gpu = DISTMIND_GPU_NONE;
	EXPECT_EQ(0, distmind_pool_vgpu_set(self->bed.pool, &record, DISTMIND_SET_GPU));
	EXPECT_EQ(0, distmind_pool_gpu_remove(self->bed.pool, self->bed.shared[0] - 1));
}

/* A long job, preempted or not by a short one of the latency class. */
static int disturb(struct bed *bed, struct distmind_queue *queue,
		   struct distmind_timeline **timeline)
{
	struct distmind_vgpu_record record;

	return launch(bed->vgpu, queue, 500, timeline) ||
	       !WAIT_UNTIL(!distmind_pool_vgpu(bed->pool, bed->id, &record) && record.running) ||
	       run_urgent(bed->urgent);
}

TEST_F(grant, an_application_is_told_before_and_after_a_preemption)
{
	int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const volatile struct distmind_queue_page *page;
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;
	eventfd_t count, told = 0;

	ASSERT_EQ(0, distmind_queue_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, 1, &queue));
	EXPECT_EQ(NULL, distmind_queue_page(queue));
	ASSERT_EQ(0, distmind_queue_watch(queue, event));
	page = distmind_queue_page(queue);
	ASSERT_NE(NULL, (void *)page);
	EXPECT_EQ(-1, mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE));
	ASSERT_EQ(0, disturb(&self->bed, queue, &timeline));
	/* By a worker, which may take its time. */
	EXPECT_TRUE(WAIT_UNTIL((eventfd_read(event, &count) || (told += count)) && told >= 2));
	EXPECT_EQ(2, told);
	EXPECT_EQ(1, page->asked);
	EXPECT_EQ(1, page->yielded);
	EXPECT_EQ(0, page->yield);
	EXPECT_EQ(0, distmind_timeline_wait(timeline, 1, 10000));
	distmind_timeline_destroy(timeline);
	distmind_queue_destroy(queue);
	close(event);
}

TEST_F(stubborn, an_engine_that_does_not_yield_is_not_asked)
{
	const volatile struct distmind_queue_page *page;
	struct distmind_timeline *timeline;
	struct distmind_queue *queue;

	ASSERT_EQ(0, distmind_queue_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, 1, &queue));
	ASSERT_EQ(0, distmind_queue_watch(queue, -1));
	page = distmind_queue_page(queue);
	ASSERT_EQ(0, disturb(&self->bed, queue, &timeline));
	/* First come, first served. */
	EXPECT_EQ(0, distmind_timeline_status(timeline, 1));
	EXPECT_EQ(0, page->asked);
	distmind_timeline_destroy(timeline);
	distmind_queue_destroy(queue);
}

TEST_F(stubborn, an_engine_that_does_not_lend_has_no_grants)
{
	struct distmind_grant *grant;

	ASSERT_EQ(0, distmind_grant_create(self->bed.vgpu, DISTMIND_LANE_COMPUTE, &grant));
	EXPECT_EQ(-EOPNOTSUPP, distmind_grant_begin(grant, 1000));
	distmind_grant_destroy(grant);
}

TEST_HARNESS_MAIN
