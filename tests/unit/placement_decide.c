// SPDX-License-Identifier: GPL-2.0-or-later
/* Decisions: nothing is refused that fits, what is chosen is the best, and they say why. */
#include "placement_random.h"
#include "unit.h"

#include <string.h>

static struct placement_pool *pool;
static struct placement placement;

static void start(const char *policy)
{
	assert_int_equal(placement_init(&placement, pool, placement_policy_by_name(policy), 1), 0);
}

static int stop(void **state)
{
	(void)state;
	placement_free(&placement);
	placement_pool_free(pool);
	memset(&placement, 0, sizeof(placement));
	pool = NULL;
	return 0;
}

static void small_pool(uint32_t boxes, uint32_t gpus)
{
	pool = placement_pool_new();
	placement_pool_add_kind(pool, "A100");
	placement_pool_add_kind(pool, "T4");
	for (uint32_t i = 0; i < boxes; i++)
		add_box(pool, 64000, 256 * G, gpus, 0);
}

static int decide(const struct placement_claim *claim, struct placement_answer *answer)
{
	placement_observe(&placement, &claim->need);
	return placement_decide(&placement, claim, answer);
}

static int grant(const struct placement_claim *claim)
{
	struct placement_answer answer;
	int err = decide(claim, &answer);

	return err ? err : placement_pool_grant(pool, claim, answer.box, answer.gpus);
}

/* By the meaning of the words alone. */
static bool box_fits(uint32_t box, const struct placement_need *need)
{
	const struct placement_host *host = &pool->hosts.rows[pool->boxes.rows[box].host];
	uint32_t fits = 0;

	if (host->cpu - host->cpu_used < need->cpu ||
	    host->memory - host->memory_used < need->memory)
		return false;
	placement_each_gpu(pool, box, i) {
		const struct placement_gpu *gpu = &pool->gpus.rows[i];

		fits += gpu->state == PLACEMENT_READY &&
			(!need->kinds || need->kinds & 1ULL << gpu->kind) &&
			gpu->share - gpu->share_used >= need->share &&
			gpu->memory - gpu->memory_used >= need->gpu_memory;
	}
	return fits >= need->count;
}

static bool fits_somewhere(const struct placement_need *need)
{
	for (uint32_t i = 0; i < pool->boxes.count; i++)
		if (box_fits(i, need))
			return true;
	return false;
}

static void check_answer(const struct placement_claim *claim,
			 const struct placement_answer *answer)
{
	assert_int_equal(answer->count, claim->need.count);
	assert_true(box_fits(answer->box, &claim->need));
	for (uint32_t i = 0; i < answer->count; i++) {
		const struct placement_gpu *gpu = &pool->gpus.rows[answer->gpus[i]];

		assert_int_equal(gpu->box, answer->box);
		assert_int_equal(gpu->state, PLACEMENT_READY);
		assert_true(placement_gpu_share_left(gpu) >= claim->need.share);
		assert_true(placement_gpu_memory_left(gpu) >= claim->need.gpu_memory);
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(answer->gpus[i], answer->gpus[k]);
	}
}

/* Claims, releases and failures at random, until the pool is full and beyond. */
static void wander(const char *policy, bool compare)
{
	uint32_t grants[512], count, refused = 0, placed = 0;
	struct placement_candidate best;
	struct placement_answer answer;
	struct sim_random random;

	for (uint64_t seed = 1; seed <= 12; seed++) {
		pool = random_pool(&random, seed);
		start(policy);
		count = 0;
		for (int i = 0; i < 400; i++) {
			struct placement_claim claim = random_claim(&random);
			uint32_t what = below(&random, 20);

			if (what < 5 && count) {
				uint32_t k = below(&random, count);

				placement_pool_release(pool, grants[k]);
				grants[k] = grants[--count];
				continue;
			}
			if (what == 5) {
				placement_pool_set_state(pool, below(&random, pool->gpus.count),
							 below(&random, PLACEMENT_FAILED + 1));
				continue;
			}
			if (decide(&claim, &answer)) {
				assert_false(fits_somewhere(&claim.need));
				assert_true(answer.reason[0]);
				refused++;
				continue;
			}
			check_answer(&claim, &answer);
			if (compare) {
				assert_int_equal(placement_explain(&placement, &claim, &best, 1),
						 1);
				assert_float_equal(best.score.total, answer.score.total, 0.01);
			}
			grants[count] = (uint32_t)placement_pool_grant(pool, &claim, answer.box,
								       answer.gpus);
			count += count < 511;
			placed++;
		}
		stop(NULL);
	}
	/* Both outcomes must have been seen for this to mean something. */
	assert_true(placed > 500);
	assert_true(refused > 100);
}

static void the_index_finds_what_a_scan_of_everything_finds(void **state)
{
	(void)state;
	wander("distmind", true);
}

static void no_policy_refuses_what_fits(void **state)
{
	(void)state;
	for (size_t i = 0; i < placement_policy_count; i++)
		if (!placement_policies[i].fractions)
			wander(placement_policies[i].name, false);
}

static void the_same_calls_give_the_same_answers(void **state)
{
	uint32_t first[200], box;
	struct sim_random random;

	(void)state;
	for (int round = 0; round < 2; round++) {
		pool = random_pool(&random, 99);
		start("distmind");
		for (int i = 0; i < 200; i++) {
			struct placement_claim claim = random_claim(&random);
			int number = grant(&claim);

			box = number < 0 ? PLACEMENT_NONE : pool->grants.rows[number].box;
			if (round)
				assert_int_equal(box, first[i]);
			first[i] = box;
		}
		stop(NULL);
	}
}

static void shares_that_fill_a_gpu_are_put_together(void **state)
{
	struct placement_claim large = { .need = { .count = 1, .share = 650 } };
	struct placement_claim small = { .need = { .count = 1, .share = 320 } };
	int first, second;

	(void)state;
	small_pool(3, 2);
	start("distmind");
	for (int i = 0; i < 40; i++) {
		placement_observe(&placement, &large.need);
		placement_observe(&placement, &small.need);
	}
	for (int i = 0; i < 6; i++) {
		first = grant(&large);
		second = grant(&small);
		assert_true(first >= 0 && second >= 0);
		assert_int_equal(pool->holds.rows[pool->grants.rows[first].first_hold].gpu,
				 pool->holds.rows[pool->grants.rows[second].first_hold].gpu);
	}
}

static void a_hole_is_kept_for_what_fills_it(void **state)
{
	static const uint32_t shares[] = { 500, 680, 320 };
	struct placement_claim claim = { .need = { .count = 1 } };
	struct placement_answer answer;

	(void)state;
	small_pool(1, 2);
	start("distmind");
	for (int i = 0; i < 90; i++) {
		claim.need.share = shares[i % 3];
		placement_observe(&placement, &claim.need);
	}
	claim.need.share = 500;
	placement_pool_grant(pool, &claim, 0, (uint32_t[]){ 0 });
	/* The tightest would be the first, and would waste what is left of it. */
	claim.need.share = 320;
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 1);
	claim.need.share = 500;
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 0);
}

static void a_kind_that_others_insist_on_is_left_to_them(void **state)
{
	struct placement_claim any = { .need = { .count = 1, .share = 1000 } };
	struct placement_claim picky = { .need = { .count = 1, .share = 1000, .kinds = 2 } };
	struct placement_answer answer;

	(void)state;
	small_pool(1, 2);
	add_box(pool, 64000, 256 * G, 2, 1);
	start("distmind");
	for (int i = 0; i < 30; i++)
		placement_observe(&placement, i % 3 ? &any.need : &picky.need);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(decide(&any, &answer), 0);
		assert_int_equal(answer.box, 0);
		assert_true(placement_pool_grant(pool, &any, answer.box, answer.gpus) >= 0);
	}
	/* But nobody is refused for them. */
	assert_int_equal(decide(&any, &answer), 0);
	assert_int_equal(answer.box, 1);
}

static void a_tenant_that_isolates_itself_is_alone(void **state)
{
	struct placement_claim own = {
		.need = { .count = 1, .share = 100 }, .tenant = 1, .isolate = true,
	};
	struct placement_claim other = own, plain = { .need = { .count = 1, .share = 100 } };
	struct placement_answer answer;
	int number;

	(void)state;
	other.tenant = 2;
	small_pool(1, 2);
	start("distmind");
	number = grant(&own);
	assert_true(number >= 0);
	assert_int_equal(decide(&plain, &answer), 0);
	assert_int_not_equal(answer.gpus[0], pool->holds.rows[0].gpu);
	assert_true(grant(&other) >= 0);
	/* To each his own, and nothing for a third. */
	assert_int_equal(decide(&own, &answer), 0);
	assert_int_equal(answer.gpus[0], pool->holds.rows[0].gpu);
	assert_int_equal(decide(&plain, &answer), -ENOSPC);
	placement_pool_release(pool, (uint32_t)number);
	assert_int_equal(decide(&plain, &answer), 0);
}

static void a_group_is_spread(void **state)
{
	struct placement_claim member = { .need = { .count = 1, .share = 100 }, .group = 7 };
	struct placement_answer answer;

	(void)state;
	small_pool(2, 2);
	start("distmind");
	for (int i = 0; i < 4; i++)
		assert_true(grant(&member) >= 0);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(pool->gpus.rows[i].share_used, 100);
	assert_int_equal(decide(&member, &answer), -ENOSPC);
	assert_contains(answer.reason, "apart from");
}

static void a_cached_model_draws_its_claims(void **state)
{
	struct placement_claim claim = { .need = { .count = 1, .share = 500 }, .model = 42 };
	struct placement_candidate best[2];
	struct placement_answer answer;

	(void)state;
	small_pool(2, 2);
	start("distmind");
	placement_pool_cache_model(pool, 2, 42);
	placement_pool_cache_model(pool, 2, 43);
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 2);
	assert_int_equal(placement_explain(&placement, &claim, best, 2), 2);
	assert_true(best[0].score.terms[PLACEMENT_TERM_CACHE] < 0);
	assert_true(best[1].score.terms[PLACEMENT_TERM_CACHE] == 0);
}

static void those_who_disturb_each_other_are_kept_apart(void **state)
{
	struct placement_claim loud = { .need = { .count = 1, .share = 300 }, .profile = 1 };
	struct placement_answer answer;

	(void)state;
	small_pool(1, 2);
	start("distmind");
	assert_true(grant(&loud) >= 0);
	assert_int_equal(decide(&loud, &answer), 0);
	assert_int_equal(answer.gpus[0], 0);
	pool->interference[1][1] = 5;
	assert_int_equal(decide(&loud, &answer), 0);
	assert_int_equal(answer.gpus[0], 1);
}

static void distance_and_speed_follow_the_objective(void **state)
{
	struct placement_claim claim = {
		.need = { .count = 1, .share = 500, .work_ns = 1000000, .launches = 100,
			  .objective_ns = 1500000 },
	};
	struct placement_gpu_offer offer = { .share = PLACEMENT_WHOLE, .kind = 1, .id = 9 };
	struct placement_answer answer;

	(void)state;
	small_pool(1, 1);
	/* A gpu of the same speed, 20 microseconds away: two milliseconds for 100 launches. */
	offer.box = (uint32_t)placement_pool_add_box(pool, PLACEMENT_NONE, 20000, 0);
	placement_pool_add_gpu(pool, &offer);
	start("distmind");
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 0);
	/* Now there it is twice as fast, and nearer: what is local is still enough. */
	pool->kinds[1].speed = 2;
	placement_pool_set_path(pool, 1, 100, 0);
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 0);
	/* Until the objective is tighter. */
	claim.need.objective_ns = 700000;
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.gpus[0], 1);
}

static void several_gpus_need_not_be_in_one_box(void **state)
{
	struct placement_claim claim = { .need = { .count = 3, .share = 1000 } };
	struct placement_answer answer;

	(void)state;
	small_pool(2, 2);
	start("distmind");
	assert_int_equal(decide(&claim, &answer), 0);
	assert_int_equal(answer.count, 3);
	claim.need.same_box = true;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no box has 3 gpus that fit; the best is box 0 with 2: "
					   "ask for fewer, or not for the same box");
	claim.need.same_box = false;
	claim.need.count = 5;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "5 gpus wanted, 4 of the pool's 4 fit");
}

static void refusals_name_what_is_missing(void **state)
{
	struct placement_claim claim = { .need = { .count = 1, .share = 1000 } };
	struct placement_answer answer;

	(void)state;
	pool = placement_pool_new();
	start("distmind");
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "the pool has no gpus: start an engine");
	placement_pool_add_kind(pool, "A100");
	placement_pool_add_kind(pool, "T4");
	add_box(pool, 4000, 8 * G, 2, 0);

	claim.need.kinds = 2;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no gpu of kind T4; the pool has: A100");
	claim.need.kinds = 0;
	claim.need.gpu_memory = 17 * G;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "no gpu has 17G of memory; the largest has 16G (gpu 0)");
	claim.need.gpu_memory = 0;
	claim.need.cpu = 5000;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "no host has 5 cpus left; the most is 4");
	claim.need.cpu = 0;
	claim.need.memory = 9 * G;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "no host has 9G of memory left; the most is 8G");
	claim.need.memory = 0;

	claim.need.share = 400;
	assert_true(grant(&claim) >= 0);
	claim.need.share = 700;
	assert_true(grant(&claim) >= 0);
	claim.need.share = 800;
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "share of 80 % left; the most is 60 % (gpu");

	placement_pool_set_state(pool, 0, PLACEMENT_DRAINING);
	placement_pool_set_state(pool, 1, PLACEMENT_FAILED);
	assert_int_equal(decide(&claim, &answer), -ENOSPC);
	assert_string_equal(answer.reason, "no gpu is ready: 1 draining, 1 lost; "
					   "undrain one or start an engine");

	claim.need.share = 1001;
	assert_int_equal(decide(&claim, &answer), -EINVAL);
	assert_contains(answer.reason, "ask for 1 to 1000");
	claim.need.count = PLACEMENT_GPUS_MAX + 1;
	assert_int_equal(decide(&claim, &answer), -EINVAL);
	claim = (struct placement_claim){ 0 };
	assert_int_equal(decide(&claim, &answer), -EINVAL);
}

/* What the prices are made from fades, and an index that is full gives room. */
static void thousands_of_different_needs_are_no_trouble(void **state)
{
	struct placement_answer answer;

	(void)state;
	small_pool(4, 4);
	start("distmind");
	for (uint32_t i = 0; i < 6000; i++) {
		struct placement_claim claim = {
			.need = { .count = 1, .share = 1 + i % 1000, .cpu = 1 + i },
		};

		assert_int_equal(decide(&claim, &answer), 0);
	}
	assert_true(placement.demand.count <= 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_index_finds_what_a_scan_of_everything_finds),
		cmocka_unit_test(no_policy_refuses_what_fits),
		cmocka_unit_test(the_same_calls_give_the_same_answers),
		cmocka_unit_test_teardown(shares_that_fill_a_gpu_are_put_together, stop),
		cmocka_unit_test_teardown(a_hole_is_kept_for_what_fills_it, stop),
		cmocka_unit_test_teardown(a_kind_that_others_insist_on_is_left_to_them, stop),
		cmocka_unit_test_teardown(a_tenant_that_isolates_itself_is_alone, stop),
		cmocka_unit_test_teardown(a_group_is_spread, stop),
		cmocka_unit_test_teardown(a_cached_model_draws_its_claims, stop),
		cmocka_unit_test_teardown(those_who_disturb_each_other_are_kept_apart, stop),
		cmocka_unit_test_teardown(distance_and_speed_follow_the_objective, stop),
		cmocka_unit_test_teardown(several_gpus_need_not_be_in_one_box, stop),
		cmocka_unit_test_teardown(refusals_name_what_is_missing, stop),
		cmocka_unit_test_teardown(thousands_of_different_needs_are_no_trouble, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
