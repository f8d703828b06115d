// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/router/router.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000ULL
#define MB 1000000ULL

#define MODELS 8
#define GPUS 4
#define HOSTS 2

/* Each: 100 MB, computes for 10 ms, comes in 10 ms from the host and 20 from the pool. */
static struct router *pool_of(const struct router_policy *policy, uint64_t gpu_cache,
			      uint64_t host_cache)
{
	static const uint32_t gpu_hosts[GPUS] = { 0, 0, 1, 1 };
	struct router_model models[MODELS];
	struct router_config config = {
		.policy = policy, .models = models, .gpu_hosts = gpu_hosts, .model_count = MODELS,
		.gpu_count = GPUS, .host_count = HOSTS, .gpu_cache = gpu_cache,
		.host_cache = host_cache, .seed = 1,
	};
	struct router *router = NULL;

	for (int i = 0; i < MODELS; i++)
		models[i] = (struct router_model){
			.bytes = 100 * MB, .compute_ns = 10 * MS,
			.lead_ns = { 0, 10 * MS, 20 * MS }, .link_ns = 8 * MS, .copy_ns = 9 * MS,
		};
	assert_int_equal(router_create(&config, &router), 0);
	return router;
}

static struct router_request want(uint32_t model, uint64_t deadline)
{
	return (struct router_request){
		.model = model, .compute_ns = 10 * MS, .deadline_ns = deadline,
	};
}

/* What an owner does with a request that it gives to a gpu. */
static uint64_t give(struct router *router, uint32_t gpu, uint32_t model, uint64_t now)
{
	struct router_request request = want(model, ROUTER_NEVER);
	uint64_t ready = router_load(router, gpu, &request, now);

	router_assign(router, gpu, &request, ready);
	return ready;
}

/* The model is in this gpu's memory, and nothing is going on. */
static void warm(struct router *router, uint32_t gpu, uint32_t model, uint64_t now)
{
	give(router, gpu, model, now);
	router_finish(router, gpu, model, now);
}

static uint32_t route(struct router *router, uint32_t model, uint64_t now)
{
	struct router_request request = want(model, ROUTER_NEVER);
	struct router_decision decision;

	assert_int_equal(router_route(router, &request, now, &decision), 0);
	return decision.gpu;
}

static void aware_prefers_the_nearest_copy(void **state)
{
	struct router *router = pool_of(&router_aware, 1000 * MB, 1000 * MB);
	uint64_t now = 1000 * MS;

	(void)state;
	warm(router, 2, 5, 0);
	assert_int_equal(router_tier(router, 2, 5), ROUTER_TIER_GPU);
	assert_int_equal(router_tier(router, 3, 5), ROUTER_TIER_HOST);
	assert_int_equal(router_tier(router, 0, 5), ROUTER_TIER_POOL);
	assert_int_equal(route(router, 5, now), 2);
	/* 10 ms of queue are better than a load of 10 that takes from others, 30 are not. */
	give(router, 2, 5, now);
	assert_int_equal(route(router, 5, now), 2);
	give(router, 2, 5, now);
	give(router, 2, 5, now);
	assert_int_equal(route(router, 5, now), 3);
	router_destroy(router);
}

static void aware_predicts_queue_load_and_computation(void **state)
{
	struct router *router = pool_of(&router_aware, 1000 * MB, 1000 * MB);
	struct router_request request = want(0, ROUTER_NEVER);
	struct router_decision decision;

	(void)state;
	assert_int_equal(router_route(router, &request, 100 * MS, &decision), 0);
	assert_int_equal(decision.tier, ROUTER_TIER_POOL);
	assert_int_equal(decision.ready_ns, 120 * MS);
	assert_int_equal(decision.finish_ns, 130 * MS);
	assert_int_equal(give(router, decision.gpu, 0, 100 * MS), decision.ready_ns);

	/* What is on its way to the host of gpu 0 is nearer to gpu 1 than the pool. */
	assert_int_equal(router_route(router, &request, 101 * MS, &decision), 0);
	assert_int_equal(decision.gpu, 1);
	assert_int_equal(decision.tier, ROUTER_TIER_HOST);
	assert_int_equal(decision.finish_ns, 121 * MS);
	/* A second one on the same gpu waits for the first, not for another load. */
	assert_int_equal(give(router, 1, 0, 101 * MS), 111 * MS);
	assert_int_equal(router_route(router, &request, 101 * MS, &decision), 0);
	assert_int_equal(decision.tier, ROUTER_TIER_GPU);
	assert_int_equal(decision.ready_ns, 111 * MS);
	assert_int_equal(decision.finish_ns, 131 * MS);

	/* Adapters come over the host's network, after what is on it already. */
	request.extra_ns = 50 * MS;
	assert_int_equal(router_route(router, &request, 101 * MS, &decision), 0);
	assert_int_equal(decision.ready_ns, 158 * MS);
	/* After the model itself, if that comes over the same network. */
	request.model = 1;
	request.extra_ns = 15 * MS;
	assert_int_equal(router_route(router, &request, 200 * MS, &decision), 0);
	assert_int_equal(decision.tier, ROUTER_TIER_POOL);
	assert_int_equal(decision.ready_ns, 223 * MS);
	router_destroy(router);
}

static void what_is_ready_runs_while_another_model_is_on_its_way(void **state)
{
	struct router *router = pool_of(&router_fixed, 1000 * MB, 1000 * MB);
	struct router_request request = want(4, ROUTER_NEVER);
	struct router_decision decision;

	(void)state;
	warm(router, 0, 4, 0);
	/* Model 0 comes from the pool at 1020, so there is time for two before, not for more. */
	assert_int_equal(give(router, 0, 0, 1000 * MS), 1020 * MS);
	for (uint64_t end = 1010; end <= 1020; end += 10) {
		assert_int_equal(router_route(router, &request, 1000 * MS, &decision), 0);
		assert_int_equal(decision.finish_ns, end * MS);
		give(router, 0, 4, 1000 * MS);
	}
	assert_int_equal(router_route(router, &request, 1000 * MS, &decision), 0);
	assert_int_equal(decision.finish_ns, 1040 * MS);
	/* When one is done earlier than was thought, the next comes earlier too. */
	router_finish(router, 0, 4, 1005 * MS);
	router_finish(router, 0, 4, 1012 * MS);
	assert_int_equal(router_route(router, &request, 1012 * MS, &decision), 0);
	assert_int_equal(decision.finish_ns, 1040 * MS);
	request.compute_ns = 8 * MS;
	assert_int_equal(router_route(router, &request, 1012 * MS, &decision), 0);
	assert_int_equal(decision.finish_ns, 1020 * MS);
	/* When one is done later, the next comes later. */
	give(router, 0, 4, 1012 * MS);
	give(router, 0, 4, 1012 * MS);
	router_finish(router, 0, 0, 1035 * MS);
	router_finish(router, 0, 4, 1045 * MS);
	assert_int_equal(router_route(router, &request, 1045 * MS, &decision), 0);
	assert_int_equal(decision.finish_ns, 1063 * MS);
	router_destroy(router);
}

static void more_than_a_plan_holds_comes_after_it(void **state)
{
	struct router *router = pool_of(&router_fixed, 1000 * MB, 1000 * MB);
	struct router_request request = want(0, ROUTER_NEVER);
	struct router_decision decision;

	(void)state;
	warm(router, 0, 0, 0);
	for (uint64_t i = 1; i <= 30; i++) {
		assert_int_equal(router_route(router, &request, 1000 * MS, &decision), 0);
		assert_int_equal(decision.finish_ns, (1000 + 10 * i) * MS);
		give(router, 0, 0, 1000 * MS);
	}
	for (uint64_t i = 1; i <= 30; i++)
		router_finish(router, 0, 0, (1000 + 10 * i) * MS);
	assert_int_equal(router_outstanding(router, 0), 0);
	assert_int_equal(router_route(router, &request, 2000 * MS, &decision), 0);
	assert_int_equal(decision.finish_ns, 2010 * MS);
	router_destroy(router);
}

static void loads_of_one_host_take_turns_on_its_network(void **state)
{
	struct router *router = pool_of(&router_aware, 1000 * MB, 1000 * MB);

	(void)state;
	assert_int_equal(give(router, 0, 0, 0), 20 * MS);
	assert_int_equal(give(router, 1, 1, 0), 28 * MS);
	assert_int_equal(give(router, 2, 2, 0), 20 * MS);
	/* So the next cold model goes where there is less to wait for. */
	assert_int_equal(route(router, 3, 0), 3);
	router_destroy(router);
}

static void aware_refuses_what_cannot_be_in_time_and_says_why(void **state)
{
	struct router *router = pool_of(&router_aware, 1000 * MB, 1000 * MB);
	struct router_request request = want(0, 25 * MS);
	struct router_decision decision;
	char reason[ROUTER_REASON_LEN];

	(void)state;
	assert_int_equal(router_route(router, &request, 0, &decision), -ETIME);
	router_explain(router, &request, 0, &decision, reason, sizeof(reason));
	assert_string_equal(reason, "no gpu can do this in 25.0 ms: the best is gpu 0 in 30.0 ms "
				    "(its queue takes 0.0, the model, in the pool, 20.0, the "
				    "computation 10.0); ask for a longer objective");
	/* With a copy it can, until every gpu has too much to do. */
	for (uint32_t gpu = 0; gpu < GPUS; gpu++)
		warm(router, gpu, 0, 0);
	request.deadline_ns = 1025 * MS;
	assert_int_equal(router_route(router, &request, 1000 * MS, &decision), 0);
	for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
		assert_int_equal(router_route(router, &request, 1000 * MS, &decision), 0);
		give(router, decision.gpu, 0, 1000 * MS);
		give(router, decision.gpu, 0, 1000 * MS);
	}
	assert_int_equal(router_route(router, &request, 1000 * MS, &decision), -ETIME);
	router_explain(router, &request, 1000 * MS, &decision, reason, sizeof(reason));
	assert_contains(reason, "its queue takes 20.0");
	assert_contains(reason, "ask again later or add gpus");
	assert_true(strlen(reason) < ROUTER_REASON_LEN - 1);
	router_destroy(router);
}

static void the_longest_reason_fits(void **state)
{
	struct router *router = pool_of(&router_aware, 1000 * MB, 1000 * MB);
	struct router_request request = want(0, 99999999 * MS);
	struct router_decision decision = {
		.gpu = UINT32_MAX, .tier = ROUTER_TIER_GPU, .free_ns = 99999999 * MS,
		.ready_ns = 99999999 * MS, .finish_ns = 99999999 * MS,
	};
	char reason[ROUTER_REASON_LEN];

	(void)state;
	router_explain(router, &request, 0, &decision, reason, sizeof(reason));
	assert_contains(reason, "add gpus");
	router_destroy(router);
}

static void the_four_steps_come_in_order(void **state)
{
	struct router *router = pool_of(&router_four_step, 1000 * MB, 1000 * MB);
	struct router_request request = want(1, ROUTER_NEVER);
	struct router_decision decision;

	(void)state;
	warm(router, 2, 1, 0);
	/* 1: cached and idle, in the gpu before in the host. */
	assert_int_equal(route(router, 1, 1000 * MS), 2);
	give(router, 2, 1, 1000 * MS);
	assert_int_equal(route(router, 1, 1000 * MS), 3);
	give(router, 3, 2, 1000 * MS);
	/* 2: idle, although others have it. */
	assert_in_range(route(router, 1, 1000 * MS), 0, 1);
	give(router, 0, 3, 1000 * MS);
	give(router, 1, 3, 1000 * MS);
	/* 3: cached, with less than 2 to do. */
	assert_int_equal(route(router, 1, 1000 * MS), 2);
	give(router, 2, 1, 1000 * MS);
	give(router, 3, 2, 1000 * MS);
	/* 4: the least loaded with less than 4. */
	assert_in_range(route(router, 1, 1000 * MS), 0, 1);
	for (uint32_t gpu = 0; gpu < GPUS; gpu++)
		while (router_outstanding(router, gpu) < 4)
			give(router, gpu, 4, 1000 * MS);
	assert_int_equal(router_route(router, &request, 1000 * MS, &decision), -EAGAIN);
	router_finish(router, 1, 4, 1100 * MS);
	assert_int_equal(route(router, 1, 1100 * MS), 1);
	router_destroy(router);
}

static void least_loaded_counts_requests(void **state)
{
	struct router *router = pool_of(&router_least_loaded, 1000 * MB, 1000 * MB);

	(void)state;
	warm(router, 0, 1, 0);
	give(router, 0, 1, 0);
	give(router, 1, 1, 0);
	give(router, 3, 1, 0);
	assert_int_equal(route(router, 1, 0), 2);
	give(router, 2, 1, 0);
	router_finish(router, 3, 1, 5 * MS);
	assert_int_equal(route(router, 1, 6 * MS), 3);
	router_destroy(router);
}

static void random_reaches_all_gpus_and_repeats_with_its_seed(void **state)
{
	struct router *a = pool_of(&router_random, 1000 * MB, 1000 * MB);
	struct router *b = pool_of(&router_random, 1000 * MB, 1000 * MB);
	int count[GPUS] = { 0 };
	uint32_t gpu;

	(void)state;
	for (int i = 0; i < 4000; i++) {
		gpu = route(a, 0, 0);
		assert_int_equal(gpu, route(b, 0, 0));
		assert_true(gpu < GPUS);
		count[gpu]++;
	}
	for (int i = 0; i < GPUS; i++)
		assert_in_range(count[i], 900, 1100);
	router_destroy(a);
	router_destroy(b);
}

static void policies_are_found_by_their_names(void **state)
{
	const struct router_policy *policy;

	(void)state;
	assert_ptr_equal(router_policy_at(0), &router_aware);
	for (size_t i = 0; (policy = router_policy_at(i)); i++)
		assert_ptr_equal(router_policy_find(policy->name), policy);
	assert_null(router_policy_find("no such"));
}

static void contradictory_configurations_are_refused(void **state)
{
	static const uint32_t outside[1] = { 1 };
	struct router_model model = { .bytes = 1 };
	struct router_config good = {
		.policy = &router_aware, .models = &model, .gpu_hosts = (uint32_t[]){ 0 },
		.model_count = 1, .gpu_count = 1, .host_count = 1,
	}, bad;
	struct router *router;

	(void)state;
	assert_int_equal(router_create(&good, &router), 0);
	router_destroy(router);
	bad = good;
	bad.gpu_hosts = outside;
	assert_int_equal(router_create(&bad, &router), -EINVAL);
	bad = good;
	bad.gpu_count = 0;
	assert_int_equal(router_create(&bad, &router), -EINVAL);
	bad = good;
	bad.gpu_count = UINT32_MAX;
	assert_int_equal(router_create(&bad, &router), -EINVAL);
	model.bytes = 0;
	assert_int_equal(router_create(&good, &router), -EINVAL);
	router_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(aware_prefers_the_nearest_copy),
		cmocka_unit_test(aware_predicts_queue_load_and_computation),
		cmocka_unit_test(what_is_ready_runs_while_another_model_is_on_its_way),
		cmocka_unit_test(more_than_a_plan_holds_comes_after_it),
		cmocka_unit_test(loads_of_one_host_take_turns_on_its_network),
		cmocka_unit_test(aware_refuses_what_cannot_be_in_time_and_says_why),
		cmocka_unit_test(the_longest_reason_fits),
		cmocka_unit_test(the_four_steps_come_in_order),
		cmocka_unit_test(least_loaded_counts_requests),
		cmocka_unit_test(random_reaches_all_gpus_and_repeats_with_its_seed),
		cmocka_unit_test(policies_are_found_by_their_names),
		cmocka_unit_test(contradictory_configurations_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
