// SPDX-License-Identifier: GPL-2.0-or-later
/* The pool and its classes: what is used is what was granted, whatever happens. */
#include "placement_random.h"
#include "unit.h"

#include <string.h>

/* Recomputed from the grants alone. */
static void check_sums(const struct placement_pool *pool)
{
	static uint64_t share[GPUS_MAX], memory[GPUS_MAX], cpu[BOXES_MAX], host_memory[BOXES_MAX];
	uint64_t used = 0;

	memset(share, 0, sizeof(share));
	memset(memory, 0, sizeof(memory));
	memset(cpu, 0, sizeof(cpu));
	memset(host_memory, 0, sizeof(host_memory));
	for (uint32_t i = 0; i < pool->grants.count; i++) {
		const struct placement_grant *grant = &pool->grants.rows[i];
		const struct placement_need *need = &grant->claim.need;
		uint32_t holds = 0;

		if (grant->box == PLACEMENT_NONE)
			continue;
		for (uint32_t h = grant->first_hold; h != PLACEMENT_NONE;
		     h = pool->holds.rows[h].next_of_grant, holds++) {
			share[pool->holds.rows[h].gpu] += pool->holds.rows[h].share;
			memory[pool->holds.rows[h].gpu] += need->gpu_memory;
		}
		assert_int_equal(holds, need->count);
		if (pool->boxes.rows[grant->box].host != PLACEMENT_NONE) {
			cpu[pool->boxes.rows[grant->box].host] += need->cpu;
			host_memory[pool->boxes.rows[grant->box].host] += need->memory;
		}
		used += placement_need_milli(need);
	}
	assert_int_equal(used, pool->milli_used);
	for (uint32_t i = 0; i < pool->gpus.count; i++) {
		assert_int_equal(pool->gpus.rows[i].share_used, share[i]);
		assert_int_equal(pool->gpus.rows[i].memory_used, memory[i]);
	}
	for (uint32_t i = 0; i < pool->hosts.count; i++) {
		assert_int_equal(pool->hosts.rows[i].cpu_used, cpu[i]);
		assert_int_equal(pool->hosts.rows[i].memory_used, host_memory[i]);
	}
}

/* Each box in one class, which has its state; as many classes as there are states. */
static void check_classes(const struct placement_pool *pool)
{
	const struct placement_classes *classes = pool->classes;
	uint32_t live = 0, boxes = 0, births = 0;

	for (uint32_t c = 0; c < classes->count; c++) {
		uint32_t members = 0;

		if (!classes->rows[c].boxes)
			continue;
		live++;
		for (uint32_t b = classes->rows[c].first_box; b != PLACEMENT_NONE;
		     b = pool->boxes.rows[b].class_next) {
			uint64_t share = 0;

			assert_int_equal(pool->boxes.rows[b].class, c);
			placement_each_gpu(pool, b, g)
				if (pool->gpus.rows[g].state == PLACEMENT_READY &&
				    !pool->gpus.rows[g].isolated)
					share += placement_gpu_share_left(&pool->gpus.rows[g]);
			assert_int_equal(share, classes->rows[c].share);
			members++;
		}
		assert_int_equal(members, classes->rows[c].boxes);
		boxes += members;
	}
	assert_int_equal(live, classes->live);
	assert_int_equal(boxes, pool->boxes.count);
	for (uint32_t i = 0; i < classes->birth_count; i++)
		births += placement_class_alive(classes, classes->births[i].class,
						classes->births[i].generation);
	assert_int_equal(births, live);
}

static void sums_are_those_of_the_grants(void **state)
{
	struct sim_random random;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct placement_pool *pool = random_pool(&random, seed);
		uint32_t grants[64], count = 0;

		for (int i = 0; i < 300; i++) {
			if (count == 64 || (count && below(&random, 3) == 0)) {
				uint32_t k = below(&random, count);

				placement_pool_release(pool, grants[k]);
				grants[k] = grants[--count];
			} else if (below(&random, 8) == 0) {
				placement_pool_set_state(pool, below(&random, pool->gpus.count),
							 below(&random, PLACEMENT_FAILED + 1));
			} else {
				struct placement_claim claim = random_claim(&random);
				uint32_t gpus[PLACEMENT_GPUS_MAX];
				int grant;

				claim.need.count %= 3;
				for (uint32_t k = 0; k < claim.need.count; k++)
					gpus[k] = (below(&random, pool->gpus.count / 2) +
						   k * pool->gpus.count / 2) %
						  pool->gpus.count;
				grant = placement_pool_grant(pool, &claim,
							     below(&random, pool->boxes.count),
							     gpus);
				assert_true(grant >= 0);
				grants[count++] = (uint32_t)grant;
			}
		}
		check_sums(pool);
		check_classes(pool);
		while (count)
			placement_pool_release(pool, grants[--count]);
		check_sums(pool);
		check_classes(pool);
		assert_int_equal(pool->milli_used, 0);
		placement_pool_free(pool);
	}
}

static void boxes_in_the_same_state_are_one_class(void **state)
{
	struct placement_pool *pool = placement_pool_new();
	struct placement_claim claim = { .need = { .count = 1, .share = 300 } };
	int kind = placement_pool_add_kind(pool, "A100");

	(void)state;
	for (int i = 0; i < 100; i++)
		add_box(pool, 64000, 1ULL << 40, 4, (uint32_t)kind);
	assert_int_equal(pool->classes->live, 1);
	for (uint32_t i = 0; i < 10; i++)
		placement_pool_grant(pool, &claim, i, &(uint32_t){ 4 * i + i % 4 });
	/* On whichever gpu of a box it is. */
	assert_int_equal(pool->classes->live, 2);
	check_classes(pool);
	placement_pool_free(pool);
}

static void a_kind_with_shapes_gives_no_less_than_a_shape(void **state)
{
	struct placement_pool *pool = placement_pool_new();
	struct placement_claim claim = { .need = { .count = 1, .share = 150 } };
	uint32_t kind = (uint32_t)placement_pool_add_kind(pool, "A100");
	int grant;

	(void)state;
	memcpy(pool->kinds[kind].shapes, (uint32_t[]){ 142, 285, 1000 }, 3 * sizeof(uint32_t));
	pool->kinds[kind].shape_count = 3;
	add_box(pool, 0, 0, 1, kind);
	grant = placement_pool_grant(pool, &claim, 0, &(uint32_t){ 0 });
	assert_int_equal(placement_gpu_share_left(&pool->gpus.rows[0]), 715);
	assert_int_equal(pool->milli_used, 150);
	placement_pool_release(pool, (uint32_t)grant);
	assert_int_equal(placement_gpu_share_left(&pool->gpus.rows[0]), 1000);
	placement_pool_free(pool);
}

static void boxes_of_one_host_share_its_cpu(void **state)
{
	struct placement_pool *pool = placement_pool_new();
	struct placement_claim claim = { .need = { .cpu = 3000, .memory = 10 } };
	uint32_t host = (uint32_t)placement_pool_add_host(pool, 4000, 100);

	(void)state;
	placement_pool_add_box(pool, host, 0, 0);
	placement_pool_add_box(pool, host, 0, 0);
	placement_pool_grant(pool, &claim, 0, NULL);
	assert_int_equal(pool->classes->rows[pool->boxes.rows[1].class].cpu, 1000);
	check_classes(pool);
	placement_pool_free(pool);
}

static void there_is_no_room_for_a_65th_kind(void **state)
{
	struct placement_pool *pool = placement_pool_new();
	char name[16];

	(void)state;
	for (int i = 0; i < PLACEMENT_KINDS_MAX; i++) {
		snprintf(name, sizeof(name), "kind%d", i);
		assert_int_equal(placement_pool_add_kind(pool, name), i);
	}
	assert_int_equal(placement_pool_add_kind(pool, "kind7"), 7);
	assert_int_equal(placement_pool_add_kind(pool, "other"), -ENOSPC);
	placement_pool_free(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_those_of_the_grants),
		cmocka_unit_test(boxes_in_the_same_state_are_one_class),
		cmocka_unit_test(a_kind_with_shapes_gives_no_less_than_a_shape),
		cmocka_unit_test(boxes_of_one_host_share_its_cpu),
		cmocka_unit_test(there_is_no_room_for_a_65th_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
