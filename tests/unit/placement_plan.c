// SPDX-License-Identifier: GPL-2.0-or-later
/* Recovery and repacking: everything that can be re-placed is, and plans can be undone. */
#include "placement_random.h"
#include "unit.h"

#include <string.h>

static struct placement_pool *pool;
static struct placement placement;
static struct placement_plan plan = PLACEMENT_PLAN_EMPTY;

static void start(void)
{
	assert_int_equal(
		placement_init(&placement, pool, placement_policy_by_name("distmind"), 1), 0);
}

static int stop(void **state)
{
	(void)state;
	placement_plan_free(&plan);
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
	for (uint32_t i = 0; i < boxes; i++)
		add_box(pool, 64000, 256 * G, gpus, 0);
	start();
}

static uint32_t put(uint32_t box, uint32_t count, uint32_t share, const uint32_t *gpus)
{
	struct placement_claim claim = {
		.need = { .count = count, .share = share, .cpu = 1000, .same_box = true },
	};
	int number = placement_pool_grant(pool, &claim, box, gpus);

	assert_true(number >= 0);
	return (uint32_t)number;
}

static void what_was_on_a_failed_gpu_is_on_others(void **state)
{
	(void)state;
	small_pool(2, 2);
	put(0, 1, 300, (uint32_t[]){ 0 });
	put(0, 1, 500, (uint32_t[]){ 0 });
	put(0, 1, 700, (uint32_t[]){ 1 });
	assert_int_equal(placement_recover_gpu(&placement, 0, &plan), 0);
	assert_int_equal(plan.count, 2);
	assert_int_equal(plan.stranded, 0);
	/* The largest first. */
	assert_int_equal(plan.moves[0].claim.need.share, 500);
	assert_int_equal(pool->gpus.rows[0].share_used, 0);
	assert_int_equal(pool->gpus.rows[0].state, PLACEMENT_FAILED);
	assert_int_equal(pool->milli_used, 1500);
	assert_int_equal(plan.moves[1].to[0], 1);
	assert_contains(plan.moves[1].why, "costs least");
}

static void spares_come_first_those_of_the_box_before_others(void **state)
{
	(void)state;
	small_pool(3, 3);
	placement_pool_set_state(pool, 5, PLACEMENT_SPARE);
	placement_pool_set_state(pool, 2, PLACEMENT_SPARE);
	put(0, 1, 1000, (uint32_t[]){ 0 });
	put(0, 1, 1000, (uint32_t[]){ 1 });
	assert_int_equal(placement_recover_gpu(&placement, 0, &plan), 0);
	assert_int_equal(plan.moves[0].to[0], 2);
	assert_true(plan.moves[0].spare);
	assert_string_equal(plan.moves[0].why, "a spare of the same box");
	assert_int_equal(pool->gpus.rows[2].state, PLACEMENT_READY);
	assert_int_equal(placement_recover_gpu(&placement, 1, &plan), 0);
	assert_int_equal(plan.moves[1].to[0], 5);
	assert_string_equal(plan.moves[1].why, "a spare of another box");
}

static void spares_are_not_used_for_claims(void **state)
{
	struct placement_claim claim = { .need = { .count = 1, .share = 100 } };
	struct placement_answer answer;

	(void)state;
	small_pool(1, 1);
	placement_pool_set_state(pool, 0, PLACEMENT_SPARE);
	assert_int_equal(placement_decide(&placement, &claim, &answer), -ENOSPC);
	assert_contains(answer.reason, "1 spare");
}

static void several_gpus_of_a_box_stay_together(void **state)
{
	(void)state;
	small_pool(2, 4);
	put(0, 3, 1000, (uint32_t[]){ 0, 1, 2 });
	assert_int_equal(placement_recover_gpu(&placement, 1, &plan), 0);
	assert_int_equal(plan.count, 1);
	assert_int_equal(plan.moves[0].to_box, 0);
	assert_int_equal(plan.moves[0].to[0], 0);
	assert_int_equal(plan.moves[0].to[1], 2);
	assert_int_equal(plan.moves[0].to[2], 3);
	/* With no fourth left, all of them go. */
	assert_int_equal(placement_recover_gpu(&placement, 3, &plan), 0);
	assert_int_equal(plan.count, 2);
	assert_int_equal(plan.moves[1].to_box, 1);
}

static void a_failed_host_takes_everything_with_it(void **state)
{
	struct placement_claim cpu_only = { .need = { .cpu = 2000, .memory = G } };

	(void)state;
	small_pool(2, 2);
	put(0, 1, 400, (uint32_t[]){ 0 });
	put(0, 2, 1000, (uint32_t[]){ 0, 1 });
	placement_pool_grant(pool, &cpu_only, 0, NULL);
	assert_int_equal(placement_recover_host(&placement, 0, &plan), 0);
	assert_int_equal(plan.count, 3);
	/* Two whole gpus fit, the share does not beside them. */
	assert_int_equal(plan.stranded, 1);
	assert_int_equal(plan.moves[1].claim.need.share, 400);
	assert_int_equal(plan.moves[1].to_box, PLACEMENT_NONE);
	assert_contains(plan.moves[1].why, "share of 40 %");
	assert_int_equal(plan.moves[2].to_box, 1);
	assert_int_equal(pool->hosts.rows[0].cpu_used, 0);
}

static void only_what_is_lost_of_several_gpus_anywhere_is_replaced(void **state)
{
	struct placement_claim claim = { .need = { .count = 2, .share = 1000 } };

	(void)state;
	small_pool(3, 1);
	placement_pool_grant(pool, &claim, 0, (uint32_t[]){ 0, 1 });
	assert_int_equal(placement_recover_gpu(&placement, 1, &plan), 0);
	assert_int_equal(plan.moves[0].to[0], 0);
	assert_int_equal(plan.moves[0].to[1], 2);
	assert_string_equal(plan.moves[0].why, "beside those that are left");
}

struct image {
	uint32_t share[GPUS_MAX];
	enum placement_state state[GPUS_MAX];
	uint64_t cpu[BOXES_MAX];
	uint64_t cpu_left[BOXES_MAX]; /* as a decision sees it */
	uint32_t box[512];
};

static void take_image(struct image *image)
{
	memset(image, 0, sizeof(*image));
	for (uint32_t i = 0; i < pool->gpus.count; i++) {
		image->share[i] = pool->gpus.rows[i].share_used;
		image->state[i] = pool->gpus.rows[i].state;
	}
	for (uint32_t i = 0; i < pool->hosts.count; i++)
		image->cpu[i] = pool->hosts.rows[i].cpu_used;
	for (uint32_t i = 0; i < pool->boxes.count; i++)
		image->cpu_left[i] = pool->classes->rows[pool->boxes.rows[i].class].cpu;
	for (uint32_t i = 0; i < pool->grants.count && i < 512; i++)
		image->box[i] = pool->grants.rows[i].box;
}

static void a_plan_that_is_undone_leaves_no_trace(void **state)
{
	struct image before, after;
	struct sim_random random;
	uint32_t moves = 0, stranded = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		pool = random_pool(&random, seed);
		start();
		for (uint32_t i = 0; i < pool->gpus.count; i++)
			if (below(&random, 10) == 0)
				placement_pool_set_state(pool, i, PLACEMENT_SPARE);
		for (int i = 0; i < 80; i++) {
			struct placement_claim claim = random_claim(&random);
			struct placement_answer answer;

			if (!placement_decide(&placement, &claim, &answer))
				placement_pool_grant(pool, &claim, answer.box, answer.gpus);
		}
		take_image(&before);
		for (int what = 0; what < 4; what++) {
			uint32_t box = below(&random, pool->boxes.count);
			int err = what == 0 ? placement_recover_gpu(
						      &placement,
						      below(&random, pool->gpus.count), &plan) :
				  what == 1 ? placement_recover_box(&placement, box, &plan) :
				  what == 2 ? placement_recover_host(&placement, box, &plan) :
					      placement_repack(&placement, 100, &plan);

			assert_int_equal(err, 0);
			moves += plan.count;
			stranded += plan.stranded;
			placement_plan_undo(&plan, &placement);
			take_image(&after);
			assert_memory_equal(&before, &after, sizeof(before));
			placement_plan_free(&plan);
		}
		stop(NULL);
	}
	assert_true(moves > 100);
	assert_true(stranded > 10);
}

static void repacking_frees_whole_gpus_with_few_moves(void **state)
{
	(void)state;
	small_pool(2, 2);
	/* One move frees gpu 2; three shares fill what is left of gpu 0 and 1. */
	put(0, 1, 600, (uint32_t[]){ 0 });
	put(0, 1, 500, (uint32_t[]){ 1 });
	put(1, 1, 300, (uint32_t[]){ 2 });
	assert_int_equal(placement_repack(&placement, 10, &plan), 0);
	assert_int_equal(plan.freed, 1);
	assert_int_equal(plan.count, 1);
	assert_int_equal(plan.moves[0].from[0], 2);
	assert_string_equal(plan.moves[0].why, "frees gpu 2");
	assert_int_equal(pool->gpus.rows[2].share_used, 0);
	assert_int_equal(pool->milli_used, 1400);
}

static void repacking_moves_nothing_twice(void **state)
{
	(void)state;
	small_pool(4, 4);
	for (uint32_t i = 0; i < 16; i++)
		put(i / 4, 1, 200 + 10 * i, &i);
	assert_int_equal(placement_repack(&placement, 100, &plan), 0);
	assert_true(plan.freed >= 6);
	for (uint32_t i = 0; i < plan.count; i++)
		for (uint32_t k = 0; k < i; k++)
			assert_int_not_equal(plan.moves[i].grant, plan.moves[k].grant);
}

static void repacking_stops_at_the_moves_it_may_make(void **state)
{
	(void)state;
	small_pool(1, 3);
	for (uint32_t i = 0; i < 3; i++) {
		put(0, 1, 100, &i);
		put(0, 1, 100, &i);
	}
	assert_int_equal(placement_repack(&placement, 1, &plan), 0);
	assert_int_equal(plan.count, 0);
	assert_int_equal(placement_repack(&placement, 3, &plan), 0);
	assert_int_equal(plan.count, 2);
	assert_int_equal(plan.freed, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_was_on_a_failed_gpu_is_on_others, stop),
		cmocka_unit_test_teardown(spares_come_first_those_of_the_box_before_others, stop),
		cmocka_unit_test_teardown(spares_are_not_used_for_claims, stop),
		cmocka_unit_test_teardown(several_gpus_of_a_box_stay_together, stop),
		cmocka_unit_test_teardown(a_failed_host_takes_everything_with_it, stop),
		cmocka_unit_test_teardown(
			only_what_is_lost_of_several_gpus_anywhere_is_replaced, stop),
		cmocka_unit_test(a_plan_that_is_undone_leaves_no_trace),
		cmocka_unit_test_teardown(repacking_frees_whole_gpus_with_few_moves, stop),
		cmocka_unit_test_teardown(repacking_moves_nothing_twice, stop),
		cmocka_unit_test_teardown(repacking_stops_at_the_moves_it_may_make, stop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
