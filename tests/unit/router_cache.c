// SPDX-License-Identifier: GPL-2.0-or-later
/* What caches keep, and which models get more copies. */
#include "unit.h"

#include "../../userspace/router/state.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL
#define MB 1000000ULL

#define MODELS 12
#define GPUS 3

static const uint32_t gpu_hosts[GPUS] = { 0, 0, 1 };

static struct router *pool_of(const struct router_policy *policy, const uint64_t *megabytes,
			      uint64_t gpu_cache, uint64_t host_cache)
{
	struct router_model models[MODELS];
	struct router_config config = {
		.policy = policy, .models = models, .gpu_hosts = gpu_hosts, .model_count = MODELS,
		.gpu_count = GPUS, .host_count = 2, .gpu_cache = gpu_cache,
		.host_cache = host_cache, .seed = 1,
	};
	struct router *router = NULL;

	for (int i = 0; i < MODELS; i++) {
		uint64_t size = megabytes ? megabytes[i] : 100;

		models[i] = (struct router_model){
			.bytes = size * MB, .compute_ns = 10 * MS,
			.lead_ns = { 0, size * MS / 10, size * MS / 5 },
			.link_ns = size * MS / 10, .copy_ns = size * MS / 10,
		};
	}
	assert_int_equal(router_create(&config, &router), 0);
	return router;
}

static void give(struct router *router, uint32_t gpu, uint32_t model, uint64_t now)
{
	struct router_request request = {
		.model = model, .compute_ns = 10 * MS, .deadline_ns = ROUTER_NEVER,
	};

	router_assign(router, gpu, &request, router_load(router, gpu, &request, now));
}

static void serve(struct router *router, uint32_t gpu, uint32_t model, uint64_t now)
{
	give(router, gpu, model, now);
	router_finish(router, gpu, model, now);
}

static bool has(const struct router *router, uint32_t gpu, uint32_t model)
{
	return router_tier(router, gpu, model) == ROUTER_TIER_GPU;
}

static void the_oldest_goes_first(void **state)
{
	struct router *router = pool_of(&router_least_loaded, NULL, 300 * MB, 0);

	(void)state;
	serve(router, 0, 0, 1);
	serve(router, 0, 1, 2);
	serve(router, 0, 2, 3);
	serve(router, 0, 0, 4);
	serve(router, 0, 3, 5);
	assert_true(has(router, 0, 0) && has(router, 0, 2) && has(router, 0, 3));
	assert_false(has(router, 0, 1));
	router_destroy(router);
}

static void the_rarest_goes_first(void **state)
{
	struct router *router = pool_of(&router_four_step_lfu, NULL, 300 * MB, 0);

	(void)state;
	serve(router, 0, 0, 1);
	serve(router, 0, 0, 2);
	serve(router, 0, 1, 3);
	serve(router, 0, 1, 4);
	serve(router, 0, 2, 5);
	serve(router, 0, 3, 6);
	assert_true(has(router, 0, 0) && has(router, 0, 1) && has(router, 0, 3));
	assert_false(has(router, 0, 2));
	router_destroy(router);
}

static void a_second_copy_goes_before_the_only_one(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 200 * MB, 0);

	(void)state;
	/* Model 0 is wanted more than 1, but gpu 2 has it too, and has time for it. */
	serve(router, 2, 0, 1);
	serve(router, 0, 0, 2);
	serve(router, 0, 0, 3);
	serve(router, 0, 1, 4);
	serve(router, 0, 1, 5);
	router_tick(router, 1000 * MS);
	serve(router, 0, 2, 1001 * MS);
	assert_true(has(router, 0, 1) && has(router, 0, 2) && has(router, 2, 0));
	assert_false(has(router, 0, 0));
	router_destroy(router);
}

static void a_second_copy_stays_if_the_first_has_no_time(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 200 * MB, 0);

	(void)state;
	serve(router, 2, 0, 1);
	for (int i = 0; i < 50; i++)
		serve(router, 0, 0, 2);
	serve(router, 0, 1, 4);
	/* 510 ms of work in half a second: more than one gpu has. */
	router_tick(router, 500 * MS);
	serve(router, 0, 2, 501 * MS);
	assert_true(has(router, 0, 0) && has(router, 0, 2) && has(router, 2, 0));
	assert_false(has(router, 0, 1));
	router_destroy(router);
}

static void what_is_in_use_stays_and_the_rest_makes_room_later(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 200 * MB, 0);

	(void)state;
	give(router, 0, 0, 1);
	give(router, 0, 1, 2);
	give(router, 0, 2, 3);
	assert_true(has(router, 0, 0) && has(router, 0, 1) && has(router, 0, 2));
	assert_int_equal(router->shelves[0].used, 300 * MB);
	router_finish(router, 0, 1, 4);
	assert_false(has(router, 0, 1));
	assert_int_equal(router->shelves[0].used, 200 * MB);
	router_destroy(router);
}

static void a_cache_of_nothing_keeps_nothing(void **state)
{
	struct router *router = pool_of(&router_four_step, NULL, 0, 200 * MB);

	(void)state;
	serve(router, 0, 0, 1);
	assert_int_equal(router_tier(router, 0, 0), ROUTER_TIER_HOST);
	assert_int_equal(router_tier(router, 1, 0), ROUTER_TIER_HOST);
	assert_int_equal(router_tier(router, 2, 0), ROUTER_TIER_POOL);
	router_destroy(router);
}

static void hot_models_are_replicated_even_if_others_must_go(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 200 * MB, 1000 * MB);
	uint32_t model, gpu;
	uint64_t now;

	(void)state;
	for (gpu = 0; gpu < GPUS; gpu++)
		for (model = 0; model < 2; model++)
			serve(router, gpu, 2 * gpu + model, 0);
	/* Wanted every 10 ms for 10 ms each: a gpu of its own, so more than one copy. */
	for (now = 0; now < 1000 * MS; now += 10 * MS)
		serve(router, 0, 0, now);
	router_tick(router, now);
	assert_true(router_replicate(router, now, &model, &gpu));
	assert_int_equal(model, 0);
	assert_int_not_equal(gpu, 0);
	assert_true(has(router, gpu, 0));
	/* Half a gpu each is still too much, a third is not; and there is no room to fill. */
	assert_true(router_replicate(router, now + 1000 * MS, &model, &gpu));
	assert_int_equal(model, 0);
	assert_false(router_replicate(router, now + 2000 * MS, &model, &gpu));
	router_destroy(router);
}

static void room_that_nothing_uses_gets_copies(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 200 * MB, 1000 * MB);
	uint32_t model, gpu, copies = 0;
	uint64_t now = 1000 * MS;

	(void)state;
	serve(router, 0, 3, 0);
	serve(router, 0, 7, 0);
	serve(router, 0, 7, 0);
	router_tick(router, now);
	/* First the one that is wanted more. */
	assert_true(router_replicate(router, now, &model, &gpu));
	assert_int_equal(model, 7);
	while (router_replicate(router, now += 1000 * MS, &model, &gpu))
		copies++;
	assert_int_equal(copies, 3);
	for (gpu = 0; gpu < GPUS; gpu++)
		assert_true(has(router, gpu, 3) && has(router, gpu, 7));
	router_destroy(router);
}

static void old_demand_counts_less(void **state)
{
	struct router *router = pool_of(&router_aware, NULL, 300 * MB, 0);
	uint64_t now = 0;

	(void)state;
	/* Model 0 was wanted often, then 1 and 2, but not as often in sum. */
	for (int i = 0; i < 1000; i++)
		serve(router, 0, 0, now += MS);
	for (int i = 0; i < 6; i++)
		router_tick(router, now += MS);
	for (int i = 0; i < 200; i++) {
		serve(router, 0, 1, now += MS);
		serve(router, 0, 2, now += MS);
	}
	assert_true(has(router, 0, 0));
	serve(router, 0, 3, now);
	assert_true(has(router, 0, 1) && has(router, 0, 2));
	assert_false(has(router, 0, 0));
	router_destroy(router);
}

static void other_policies_do_not_replicate(void **state)
{
	struct router *router = pool_of(&router_four_step, NULL, 1000 * MB, 1000 * MB);
	uint32_t model, gpu;

	(void)state;
	for (int i = 0; i < 100; i++)
		serve(router, 0, 7, (uint64_t)i * MS);
	router_tick(router, 100 * MS);
	assert_false(router_replicate(router, 100 * MS, &model, &gpu));
	router_destroy(router);
}

/* The invariants of state.h, counted anew. */
static void check(const struct router *router)
{
	uint32_t shelves = router->gpu_count + router->host_count, gpus, hosts;
	uint64_t used;

	for (uint32_t s = 0; s < shelves; s++) {
		const struct shelf *shelf = &router->shelves[s];
		uint32_t pinned = 0;

		used = 0;
		for (uint32_t i = 0; i < shelf->count; i++) {
			used += router->models[shelf->models[i]].bytes;
			pinned += copies_of(router, shelf->models[i])[s].pins != 0;
			assert_true(copies_of(router, shelf->models[i])[s].ready_ns !=
				    ROUTER_NEVER);
			for (uint32_t j = 0; j < i; j++)
				assert_int_not_equal(shelf->models[i], shelf->models[j]);
		}
		assert_int_equal(used, shelf->used);
		/* More than it should only for pinned ones, and the one that came last. */
		if (shelf->used > shelf->capacity)
			assert_true(pinned + 1 >= shelf->count);
	}
	for (uint32_t m = 0; m < router->model_count; m++) {
		gpus = hosts = 0;
		for (uint32_t s = 0; s < shelves; s++)
			*(s < router->gpu_count ? &gpus : &hosts) +=
				copies_of(router, m)[s].ready_ns != ROUTER_NEVER;
		assert_int_equal(router->gpu_copies[m], gpus);
		assert_int_equal(router->host_copies[m], hosts);
	}
}

static void books_balance_whatever_happens(void **state)
{
	static const struct router_policy *const policies[] = {
		&router_aware, &router_four_step, &router_four_step_lfu,
	};
	static const uint64_t sizes[MODELS] = { 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 500, 1 };
	struct { uint32_t gpu, model; } going[64];
	uint32_t model, gpu, count;
	uint64_t now;

	(void)state;
	srandom(7);
	for (size_t p = 0; p < COUNT(policies); p++) {
		struct router *router = pool_of(policies[p], sizes, 200 * MB, 300 * MB);

		count = 0;
		now = 0;
		for (int i = 0; i < 3000; i++) {
			now += (uint64_t)random() % (20 * MS);
			if (count < COUNT(going) && random() % 2) {
				going[count].gpu = (uint32_t)random() % GPUS;
				going[count].model = (uint32_t)random() % MODELS;
				give(router, going[count].gpu, going[count].model, now);
				count++;
			} else if (count) {
				uint32_t at = (uint32_t)random() % count;

				router_finish(router, going[at].gpu, going[at].model, now);
				going[at] = going[--count];
			}
			if (!(random() % 20))
				router_tick(router, now);
			if (!(random() % 20))
				router_replicate(router, now, &model, &gpu);
			check(router);
		}
		router_destroy(router);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_goes_first),
		cmocka_unit_test(the_rarest_goes_first),
		cmocka_unit_test(a_second_copy_goes_before_the_only_one),
		cmocka_unit_test(what_is_in_use_stays_and_the_rest_makes_room_later),
		cmocka_unit_test(a_cache_of_nothing_keeps_nothing),
		cmocka_unit_test(a_second_copy_stays_if_the_first_has_no_time),
		cmocka_unit_test(hot_models_are_replicated_even_if_others_must_go),
		cmocka_unit_test(room_that_nothing_uses_gets_copies),
		cmocka_unit_test(old_demand_counts_less),
		cmocka_unit_test(other_policies_do_not_replicate),
		cmocka_unit_test(books_balance_whatever_happens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
