// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/placement/placement.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define G (1ULL << 30)

#define GPU(id_, box_, memory_, promised_, share_)                                             \
	{                                                                                      \
		.id = (id_), .box = (box_), .memory = (memory_), .memory_promised = (promised_), \
		.share_promised = (share_), .kind = "cpu",                                     \
	}

static struct placement_pool pool_of(const struct placement_gpu *gpus, size_t count)
{
	return (struct placement_pool){
		.gpus = gpus,
		.count = count,
		.share_percent = 100,
		.memory_percent = 100,
	};
}

static struct placement_request request_of(uint64_t memory, uint32_t share, uint32_t count)
{
	return (struct placement_request){ .memory = memory, .share = share, .count = count };
}

static int pick(const struct placement_pool *pool, const struct placement_request *request,
		struct placement_answer *answer)
{
	memset(answer, 0xff, sizeof(*answer));
	answer->reason[0] = '\0';
	return placement_best_fit.pick(pool, request, answer);
}

static void takes_the_tightest_gpu(void **state)
{
	const struct placement_gpu gpus[] = {
		GPU(1, 0, 8 * G, 0, 0),
		GPU(2, 0, 4 * G, 2 * G, 0),
		GPU(3, 0, 4 * G, 0, 0),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 1);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 2);
	request.memory = 3 * G;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 3);
}

static void breaks_ties_by_share_then_id(void **state)
{
	const struct placement_gpu gpus[] = {
		GPU(9, 0, 4 * G, 0, 500),
		GPU(4, 0, 4 * G, 0, 100),
		GPU(7, 0, 4 * G, 0, 500),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 1);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 7);
}

static void several_vgpus_get_a_gpu_each(void **state)
{
	const struct placement_gpu gpus[] = {
		GPU(1, 0, 8 * G, 0, 0),
		GPU(2, 1, 4 * G, 0, 0),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 2);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 2);
	assert_int_equal(answer.gpus[1], 1);
	request.count = 3;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "3 gpus wanted, 2 of the pool's 2 fit");
}

static void same_box_takes_the_tightest_box(void **state)
{
	const struct placement_gpu gpus[] = {
		GPU(1, 5, 2 * G, 0, 0),	 GPU(2, 6, 4 * G, 0, 0), GPU(3, 6, 4 * G, 0, 0),
		GPU(4, 7, 3 * G, 0, 0),	 GPU(5, 7, 4 * G, 0, 0), GPU(6, 7, 8 * G, 0, 0),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 2);
	struct placement_answer answer;

	(void)state;
	request.same_box = true;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 4);
	assert_int_equal(answer.gpus[1], 5);
	request.count = 4;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "no box has 4 gpus that fit; the best is box 7 with 3");
}

static void overcommit_stretches_what_may_be_promised(void **state)
{
	const struct placement_gpu gpus[] = { GPU(1, 0, 4 * G, 4 * G, 1000) };
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(2 * G, 500, 1);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	pool.memory_percent = 150;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "share of 50 %");
	pool.share_percent = 150;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	/* A vgpu larger than the gpu could never use what it was promised. */
	pool.memory_percent = 1000;
	request.memory = 5 * G;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "no gpu has 5G of memory; the largest has 4G (gpu 1)");
}

static void only_ready_gpus_of_the_kind_count(void **state)
{
	struct placement_gpu gpus[] = {
		GPU(1, 0, 4 * G, 0, 0),
		GPU(2, 0, 4 * G, 0, 0),
		GPU(3, 0, 4 * G, 0, 0),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 1);
	struct placement_answer answer;

	(void)state;
	gpus[0].state = DISTMIND_GPU_STATE_LOST;
	gpus[1].state = DISTMIND_GPU_STATE_DRAINING;
	strcpy(gpus[2].kind, "A100");
	assert_int_equal(pick(&pool, &request, &answer), 0);
	assert_int_equal(answer.gpus[0], 3);
	strcpy(request.kind, "cpu");
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no gpu of kind cpu is ready: 1 draining, 1 lost; "
					   "undrain one or start an engine");
}

static void refusals_name_what_is_missing(void **state)
{
	struct placement_gpu gpus[] = {
		GPU(0, 0, 4 * G, 3 * G, 300),
		GPU(1, 0, 8 * G, 6 * G, 900),
	};
	struct placement_pool pool = pool_of(gpus, 0);
	struct placement_request request = request_of(1 * G, 100, 1);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "the pool has no gpus: start an engine");

	pool.count = 2;
	strcpy(request.kind, "A100");
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no gpu of kind A100; the pool has: cpu");
	request.kind[0] = '\0';

	request.memory = 9 * G;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "no gpu has 9G of memory; the largest has 8G (gpu 1)");

	request.memory = 3 * G;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason,
			"no gpu has 3G of unpromised memory; the largest has 2G (gpu 1)");

	request.memory = 1 * G;
	request.share = 800;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_contains(answer.reason, "share of 80 % left; the most is 70 % (gpu 0)");

	gpus[0].state = DISTMIND_GPU_STATE_LOST;
	gpus[1].state = DISTMIND_GPU_STATE_LOST;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no gpu is ready: 0 draining, 2 lost; start an engine");
}

static void many_kinds_are_listed_as_far_as_there_is_room(void **state)
{
	struct placement_gpu gpus[64];
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(1 * G, 100, 1);
	struct placement_answer answer;

	(void)state;
	memset(gpus, 0, sizeof(gpus));
	for (size_t i = 0; i < COUNT(gpus); i++)
		snprintf(gpus[i].kind, sizeof(gpus[i].kind), "a-kind-with-a-long-name-%zu", i / 2);
	memset(request.kind, 'k', sizeof(request.kind) - 1);
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	assert_true(strlen(answer.reason) < DISTMIND_REASON_LEN);
	assert_contains(answer.reason, "a-kind-with-a-long-name-0, a-kind-with-a-long-name-1");
}

static void huge_numbers_do_not_overflow(void **state)
{
	const struct placement_gpu gpus[] = {
		GPU(1, 0, UINT64_MAX, UINT64_MAX - 4096, UINT32_MAX),
	};
	struct placement_pool pool = pool_of(gpus, COUNT(gpus));
	struct placement_request request = request_of(4096, 1, 1);
	struct placement_answer answer;

	(void)state;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	pool.share_percent = UINT32_MAX;
	assert_int_equal(pick(&pool, &request, &answer), 0);
	pool.memory_percent = 10000;
	request.memory = UINT64_MAX;
	assert_int_equal(pick(&pool, &request, &answer), -ENOSPC);
	request.count = 0;
	assert_int_equal(pick(&pool, &request, &answer), -EINVAL);
	request.count = DISTMIND_ACQUIRE_MAX + 1;
	assert_int_equal(pick(&pool, &request, &answer), -EINVAL);
}

/*
 * Random pools against a brute-force reading of the rule
 */

static uint64_t left_over(const struct placement_pool *pool,
			  const struct placement_request *request, uint32_t id, uint32_t *share,
			  uint32_t *box)
{
	for (size_t i = 0; i < pool->count; i++) {
		const struct placement_gpu *gpu = &pool->gpus[i];
		uint64_t limit = gpu->memory * pool->memory_percent / 100;
		uint64_t shares = 1000ULL * pool->share_percent / 100;

		if (gpu->id != id)
			continue;
		/* Never more than there is, never on a gpu that is not asked for. */
		assert_int_equal(gpu->state, DISTMIND_GPU_STATE_READY);
		assert_true(gpu->memory_promised + request->memory <= limit);
		assert_true(request->memory <= gpu->memory);
		assert_true(gpu->share_promised + request->share <= shares);
		if (request->kind[0])
			assert_string_equal(gpu->kind, request->kind);
		*share = (uint32_t)(shares - gpu->share_promised - request->share);
		*box = gpu->box;
		return limit - gpu->memory_promised - request->memory;
	}
	fail_msg("gpu %u is not in the pool", id);
	return 0;
}

static bool could_be(const struct placement_pool *pool, const struct placement_gpu *gpu,
		     const struct placement_request *request)
{
	return gpu->state == DISTMIND_GPU_STATE_READY &&
	       (!request->kind[0] || !strcmp(gpu->kind, request->kind)) &&
	       request->memory <= gpu->memory &&
	       gpu->memory_promised + request->memory <= gpu->memory * pool->memory_percent / 100 &&
	       gpu->share_promised + request->share <= 1000ULL * pool->share_percent / 100;
}

/* The least memory that any subset of the right size leaves over; UINT64_MAX: none. */
static uint64_t brute_force(const struct placement_pool *pool,
			    const struct placement_request *request)
{
	uint64_t best = UINT64_MAX, sum;
	uint32_t box = 0;
	bool good;

	for (uint32_t set = 1; set < 1U << pool->count; set++) {
		if ((uint32_t)__builtin_popcount(set) != request->count)
			continue;
		good = true;
		sum = 0;
		for (size_t i = 0; i < pool->count && good; i++) {
			const struct placement_gpu *gpu = &pool->gpus[i];

			if (!(set & 1U << i))
				continue;
			if (request->same_box && set & ((1U << i) - 1) && gpu->box != box)
				good = false;
			box = gpu->box;
			good = good && could_be(pool, gpu, request);
			sum += gpu->memory * pool->memory_percent / 100 - gpu->memory_promised -
			       request->memory;
		}
		if (good && sum < best)
			best = sum;
	}
	return best;
}

static void random_pool(struct placement_gpu *gpus, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		memset(&gpus[i], 0, sizeof(gpus[i]));
		/* Unique, not in order. */
		gpus[i].id = (uint32_t)((i * 7 + 3) % 11 + 11 * (i / 11));
		gpus[i].state = random() % 8 ? DISTMIND_GPU_STATE_READY : (uint32_t)(random() % 3);
		gpus[i].box = (uint32_t)(random() % 3);
		gpus[i].memory = (uint64_t)(random() % 16) * 100;
		gpus[i].memory_promised =
			gpus[i].memory ? (uint64_t)random() % (gpus[i].memory + 1) : 0;
		gpus[i].share_promised = (uint32_t)(random() % 1001);
		strcpy(gpus[i].kind, random() % 3 ? "cpu" : "A100");
	}
}

static void random_pools_agree_with_brute_force(void **state)
{
	struct placement_gpu gpus[9];
	struct placement_request request;
	struct placement_answer answer;
	struct placement_pool pool;
	uint64_t best, sum;
	uint32_t share, box, first_box = 0;
	unsigned int granted = 0;
	int err;

	(void)state;
	srandom(1);
	for (int round = 0; round < 20000; round++) {
		pool = pool_of(gpus, (size_t)random() % (COUNT(gpus) + 1));
		pool.memory_percent = random() % 2 ? 100 : 150;
		pool.share_percent = random() % 2 ? 100 : 200;
		random_pool(gpus, pool.count);
		request = request_of((uint64_t)(random() % 800), (uint32_t)(random() % 1000 + 1),
				     (uint32_t)(random() % 3 + 1));
		request.same_box = random() % 2;
		if (random() % 4 == 0)
			strcpy(request.kind, "A100");

		err = pick(&pool, &request, &answer);
		best = brute_force(&pool, &request);
		if (err) {
			assert_int_equal(err, -ENOSPC);
			assert_true(answer.reason[0]);
			if (best != UINT64_MAX)
				fail_msg("round %d: it fits, but: %s", round, answer.reason);
			/* The last resort of the texts is not to be needed. */
			assert_null(strstr(answer.reason, "nothing in the pool"));
			continue;
		}
		granted++;
		sum = 0;
		for (uint32_t i = 0; i < request.count; i++) {
			sum += left_over(&pool, &request, answer.gpus[i], &share, &box);
			if (!i)
				first_box = box;
			else if (request.same_box)
				assert_int_equal(box, first_box);
			for (uint32_t k = 0; k < i; k++)
				assert_int_not_equal(answer.gpus[k], answer.gpus[i]);
		}
		assert_int_equal(sum, best);
	}
	/* Both outcomes must have been seen for this to mean something. */
	assert_in_range(granted, 2000, 18000);
}

static void policies_are_found_by_name(void **state)
{
	(void)state;
	assert_ptr_equal(placement_policy_find("best-fit"), &placement_best_fit);
	assert_null(placement_policy_find("worst-fit"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_tightest_gpu),
		cmocka_unit_test(breaks_ties_by_share_then_id),
		cmocka_unit_test(several_vgpus_get_a_gpu_each),
		cmocka_unit_test(same_box_takes_the_tightest_box),
		cmocka_unit_test(overcommit_stretches_what_may_be_promised),
		cmocka_unit_test(only_ready_gpus_of_the_kind_count),
		cmocka_unit_test(refusals_name_what_is_missing),
		cmocka_unit_test(many_kinds_are_listed_as_far_as_there_is_room),
		cmocka_unit_test(huge_numbers_do_not_overflow),
		cmocka_unit_test(random_pools_agree_with_brute_force),
		cmocka_unit_test(policies_are_found_by_name),
	};

	return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
