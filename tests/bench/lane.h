/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A gpu of one compute lane, served by a thread of this process until the
 * process ends. It computes nothing: a block takes the time that its job says,
 * first asleep, so that the device and its tenants compete less for the guest's
 * CPUs, and at the end spinning, because sleeps in guests end late.
 *
 * A device goes on while its driver does not get the CPU, so the device's clock
 * decides when a block is over: a thread that is late, by at most LANE_CARRY_NS,
 * makes up for it in the blocks that follow, also in those of the next job if
 * that was there already. What the exchange with the kernel takes is lost, and
 * so is the time from the arrival of a job at an idle lane until the thread is
 * awake.
 */
#ifndef BENCH_LANE_H
#define BENCH_LANE_H

#include <errno.h>
#include <pthread.h>
#include <sys/prctl.h>

#include "client.h"

#define LANE_CARRY_NS 50000000
#define LANE_SPIN_NS  200000
#define LANE_OP_REST  1 /* one number: nanoseconds of a block */

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline void sleep_until(uint64_t ns)
{
	struct timespec at = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

/* due_ns is when the device begins, and afterwards when it was done. */
static inline int lane_rest(const struct distmind_engine_job *job,
			    const struct distmind_lane_page *page, uint64_t *cookie,
			    uint64_t *due_ns)
{
	if (job->operation != LANE_OP_REST || job->args != 1)
		return -EINVAL;
	while (*cookie < job->blocks) {
		uint64_t now = now_ns();

		if (*due_ns + LANE_CARRY_NS < now)
			*due_ns = now - LANE_CARRY_NS;
		*due_ns += job->arg[0].value;
		if (now + LANE_SPIN_NS < *due_ns)
			sleep_until(*due_ns - LANE_SPIN_NS);
		while (now_ns() < *due_ns)
			;
		++*cookie;
		if (*cookie < job->blocks && __atomic_load_n(&page->yield, __ATOMIC_RELAXED))
			return DISTMIND_DONE_YIELDED;
	}
	return 0;
}

static inline void *lane_thread(void *arg)
{
	struct distmind_engine *engine = arg;
	const struct distmind_lane_page *page = distmind_engine_lane(engine, 0);
	struct distmind_engine_exchange exchange = { 0 };
	uint64_t late_ns = 0, due_ns, cookie;

	/* By default a thread's timers may be 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1UL);
	for (;;) {
		int err = distmind_engine_exchange(engine, &exchange);

		exchange.done = 0;
		if (err == -ENODEV)
			return NULL;
		if (err == -ETIMEDOUT || err == -EINTR) {
			/* There was none yet: the lane is idle. */
			exchange.timeout_ms = DISTMIND_TIMEOUT_MAX_MS;
			late_ns = 0;
			continue;
		}
		must(err, "lane");
		cookie = exchange.job.cookie;
		due_ns = now_ns() - late_ns;
		exchange.status = lane_rest(&exchange.job, page, &cookie, &due_ns);
		late_ns = now_ns() - due_ns;
		exchange.cookie = cookie;
		exchange.done = exchange.job.id;
		exchange.timeout_ms = 0;
	}
}

/* Returns the gpu's number. */
static inline uint32_t lane_open(void)
{
	struct distmind_engine_params params = {
		.name = "bench", .kind = "bench", .memory = 16 << 20,
		.numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.capabilities = DISTMIND_ENGINE_YIELDS,
	};
	struct distmind_engine *engine;
	pthread_t thread;

	must(distmind_engine_register(&params, &engine), "register a gpu");
	must(-pthread_create(&thread, NULL, lane_thread, engine), "start a lane");
	pthread_detach(thread);
	return distmind_engine_gpu(engine);
}

/* Adds a job of so many blocks of so long to the client's batch. */
static inline void lane_add(struct client *client, uint32_t blocks, uint64_t block_ns)
{
	client_add(client, LANE_OP_REST, blocks);
	distmind_batch_number(client->batch, block_ns);
}

#endif /* BENCH_LANE_H */
