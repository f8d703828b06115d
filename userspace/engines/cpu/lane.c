// SPDX-License-Identifier: GPL-2.0-or-later
#include "lane.h"

#include "../../common/clock.h"
#include "ops.h"
#include "pacing.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Owned by its thread. */
struct lane {
	struct distmind_engine *engine;
	const struct distmind_lane_page *page;
	const struct profile *profile;
	uint64_t heap_size;
	uint32_t number;
	struct pacing pacing;
};

static void pace_block(void *arg, const struct op_work *work)
{
	struct lane *lane = arg;

	pacing_block_end(&lane->pacing, profile_cost(lane->profile, work));
}

/* What a copy lane is for: from one range of the heap to another. */
static int run_copy(struct lane *lane, const struct distmind_engine_job *job, uint64_t *cookie)
{
	char *heap = distmind_engine_heap(lane->engine);
	uint64_t length = job->arg[0].length;

	while (*cookie < job->blocks) {
		uint64_t at = *cookie * DISTMIND_COPY_BLOCK;
		uint64_t part = length - at < DISTMIND_COPY_BLOCK ? length - at : DISTMIND_COPY_BLOCK;
		struct op_work work = { .copied = part };

		if (!lane->profile->execute)
			part = 0;
		memmove(heap + job->arg[0].value + at, heap + job->arg[1].value + at, part);
		if (profile_is_paced(lane->profile))
			pace_block(lane, &work);
		++*cookie;
		if (*cookie < job->blocks && __atomic_load_n(&lane->page->yield, __ATOMIC_RELAXED))
			return DISTMIND_DONE_YIELDED;
	}
	return 0;
}

static int run_launch(struct lane *lane, const struct distmind_engine_job *job, uint64_t *cookie)
{
	char reason[OP_REASON_LEN] = "";
	struct op_call call = {
		.op = job->operation,
		.blocks = job->blocks,
		.nargs = job->args,
		.heap = distmind_engine_heap(lane->engine),
		.heap_size = lane->heap_size,
		.skip = !lane->profile->execute,
		.reason = reason,
	};
	struct op_yield yield = {
		.asked = &lane->page->yield,
		.block_end = profile_is_paced(lane->profile) ? pace_block : NULL,
		.arg = lane,
	};
	int result;

	if (job->args > DISTMIND_OP_ARGS_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < job->args; i++)
		call.args[i] = (struct op_arg){
			.is_buffer = job->arg[i].length,
			.read_only = job->read_only >> i & 1,
			.value = job->arg[i].value,
			.length = job->arg[i].length,
		};
	result = op_run(&call, cookie, &yield);
	if (result < 0)
		fprintf(stderr, "job %llu of vgpu %u: %s: %s\n", (unsigned long long)job->id,
			job->vgpu, distmind_op_name(job->operation), reason);
	return result == OP_YIELDED ? DISTMIND_DONE_YIELDED : result;
}

/* How often this thread has slept. */
static long sleeps(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) ? 0 : usage.ru_nvcsw;
}

static void *lane_thread(void *arg)
{
	struct lane *lane = arg;
	const bool paced = profile_is_paced(lane->profile);
	struct distmind_engine_exchange exchange = {
		.lane = lane->number,
		.timeout_ms = DISTMIND_TIMEOUT_MAX_MS,
	};

	for (;;) {
		long before = paced ? sleeps() : 0;
		int err = distmind_engine_exchange(lane->engine, &exchange);
		uint64_t begin, cookie;

		if (err == -ENODEV)
			return NULL;
		exchange.done = 0;
		if (err == -ETIMEDOUT || err == -EINTR)
			continue;
		if (err) {
			fprintf(stderr, "lane %u: %s\n", lane->number, strerror(-err));
			exit(EXIT_FAILURE);
		}
		begin = clock_ns();
		if (paced)
			pacing_start(&lane->pacing, sleeps() != before,
				     profile_launch_cost(lane->profile));
		cookie = exchange.job.cookie;
		if (exchange.job.type == DISTMIND_JOB_COPY)
			exchange.status = run_copy(lane, &exchange.job, &cookie);
		else
			exchange.status = run_launch(lane, &exchange.job, &cookie);
		exchange.cookie = cookie;
		exchange.ran_ns = clock_ns() - begin;
		exchange.done = exchange.job.id;
	}
}

int lanes_start(struct distmind_engine *engine, uint64_t heap_size, uint32_t count,
		const struct profile *profile)
{
	struct lane *lanes = calloc(count, sizeof(*lanes));

	if (!lanes)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		struct lane *lane = &lanes[i];
		pthread_t thread;
		int err;

		lane->engine = engine;
		lane->page = distmind_engine_lane(engine, i);
		lane->profile = profile;
		lane->heap_size = heap_size;
		lane->number = i;
		pacing_init(&lane->pacing);
		err = pthread_create(&thread, NULL, lane_thread, lane);
		if (err)
			return -err;
		pthread_detach(thread);
	}
	return 0;
}
