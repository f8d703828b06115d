// SPDX-License-Identifier: GPL-2.0-or-later
/* What a simulation is made of: events, a gpu's queue, histograms. */
#include "unit.h"

#include "../../userspace/planner/planner.h"
#include "../../userspace/sim/event.h"
#include "../../userspace/sim/gpu.h"
#include "../../userspace/sim/histogram.h"
#include "../../userspace/sim/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void the_first_event_is_that_of_a_search(void **state)
{
	static const uint32_t sizes[] = { 1, 2, 3, 7, 16, 33 };
	struct sim_event event;
	uint64_t times[33];
	uint32_t best;

	(void)state;
	srandom(3);
	for (size_t s = 0; s < COUNT(sizes); s++) {
		assert_int_equal(sim_event_create(&event, sizes[s]), 0);
		assert_true(sim_event_time(&event) == SIM_EVENT_NEVER);
		for (uint32_t i = 0; i < sizes[s]; i++)
			times[i] = SIM_EVENT_NEVER;
		for (int round = 0; round < 2000; round++) {
			uint32_t actor = (uint32_t)random() % sizes[s];

			times[actor] = random() % 5 ? (uint64_t)random() % 20 : SIM_EVENT_NEVER;
			sim_event_set(&event, actor, times[actor]);
			best = 0;
			for (uint32_t i = 1; i < sizes[s]; i++)
				if (times[i] < times[best])
					best = i;
			assert_int_equal(sim_event_time(&event), times[best]);
			assert_int_equal(sim_event_first(&event), best);
		}
		sim_event_destroy(&event);
	}
	assert_int_equal(sim_event_create(&event, 0), -EINVAL);
	assert_int_equal(sim_event_create(&event, UINT32_MAX), -EINVAL);
}

static struct sim_job job(uint64_t order, uint64_t ready, uint64_t compute, uint64_t deadline)
{
	return (struct sim_job){
		.order = order, .ready_ns = ready, .compute_ns = compute, .deadline_ns = deadline,
	};
}

static void enqueue(struct sim_gpu *gpu, struct sim_job job)
{
	assert_int_equal(sim_gpu_enqueue(gpu, &job), 0);
}

static void jobs_come_in_their_order_if_they_are_ready(void **state)
{
	struct sim_gpu gpu = { 0 };
	struct sim_job next;

	(void)state;
	enqueue(&gpu, job(30, 0, 5, 1000));
	enqueue(&gpu, job(10, 100, 5, 1000));
	enqueue(&gpu, job(20, 0, 5, 1000));
	enqueue(&gpu, job(20, 0, 7, 1000));
	assert_true(sim_gpu_pick(&gpu, 50, true, &next));
	assert_int_equal(next.order, 20);
	/* Among equals the first come. */
	assert_int_equal(next.compute_ns, 5);
	assert_true(sim_gpu_pick(&gpu, 100, true, &next));
	assert_int_equal(next.order, 10);
	assert_true(sim_gpu_pick(&gpu, 100, true, &next));
	assert_int_equal(next.order, 20);
	assert_true(sim_gpu_pick(&gpu, 100, true, &next));
	assert_int_equal(next.order, 30);
	assert_false(sim_gpu_pick(&gpu, 100, true, &next));
	assert_true(gpu.next_ns == UINT64_MAX);
	enqueue(&gpu, job(1, 300, 5, 1000));
	enqueue(&gpu, job(2, 200, 5, 1000));
	assert_false(sim_gpu_pick(&gpu, 100, true, &next));
	assert_int_equal(gpu.next_ns, 200);
	free(gpu.queue);
}

static void a_long_job_does_not_make_one_late_that_is_still_loading(void **state)
{
	struct sim_gpu gpu = { 0 };
	struct sim_job next;

	(void)state;
	/* Ready at 100, must start by 150. */
	enqueue(&gpu, job(200, 100, 50, 200));
	enqueue(&gpu, job(300, 0, 80, 300));
	assert_false(sim_gpu_pick(&gpu, 90, true, &next));
	assert_int_equal(gpu.next_ns, 100);
	/* There is time enough, or a shorter one, or no one cares about deadlines. */
	enqueue(&gpu, job(400, 0, 60, 400));
	assert_true(sim_gpu_pick(&gpu, 90, true, &next));
	assert_int_equal(next.order, 400);
	assert_true(sim_gpu_pick(&gpu, 90, false, &next));
	assert_int_equal(next.order, 300);
	enqueue(&gpu, next);
	assert_true(sim_gpu_pick(&gpu, 70, true, &next));
	assert_int_equal(next.order, 300);
	free(gpu.queue);
}

static void queues_grow_and_keep_their_order(void **state)
{
	struct sim_gpu gpu = { 0 };
	struct sim_job next;
	uint64_t in = 0, out = 0;

	(void)state;
	srandom(5);
	for (int i = 0; i < 20000; i++) {
		if (random() % 100 < 52) {
			enqueue(&gpu, job(in++, 0, 1, UINT64_MAX));
		} else if (out < in) {
			assert_true(sim_gpu_pick(&gpu, 0, true, &next));
			assert_int_equal(next.order, out++);
		}
	}
	while (out < in) {
		assert_true(sim_gpu_pick(&gpu, 0, true, &next));
		assert_int_equal(next.order, out++);
	}
	free(gpu.queue);
}

static void a_gap_is_shared_between_training_and_the_switch(void **state)
{
	struct sim_training training = {
		.preemption = SIM_PREEMPT_BLOCK, .yield_ns = 40, .resume_ns = 20,
		.iteration_ns = 1000,
	};
	struct sim_job surprise = { .arrival_ns = 1500, .ready_ns = 1500 };
	struct sim_job expected = { .arrival_ns = 1200, .ready_ns = 1500 };
	struct sim_gpu gpu = { .idle_ns = 1000 };
	struct sim_gap gap;

	(void)state;
	sim_gpu_gap(&gpu, &training, 1500, &surprise, &gap);
	assert_int_equal(gap.trained_ns, 480);
	assert_int_equal(gap.start_ns, 1540);
	assert_true(gap.preempted);
	/* Known before, so training has left when the job is ready. */
	sim_gpu_gap(&gpu, &training, 1500, &expected, &gap);
	assert_int_equal(gap.trained_ns, 440);
	assert_int_equal(gap.start_ns, 1500);
	/* Too short for training to come back. */
	gpu.idle_ns = 1490;
	sim_gpu_gap(&gpu, &training, 1500, &surprise, &gap);
	assert_int_equal(gap.trained_ns, 0);
	assert_int_equal(gap.start_ns, 1500);
	assert_false(gap.preempted);

	training.preemption = SIM_PREEMPT_ITERATION;
	gpu.idle_ns = 1000;
	sim_gpu_gap(&gpu, &training, 1500, &surprise, &gap);
	assert_int_equal(gap.trained_ns, 1000);
	assert_int_equal(gap.start_ns, 2020);
	gpu.idle_ns = 480;
	sim_gpu_gap(&gpu, &training, 1500, &surprise, &gap);
	assert_int_equal(gap.trained_ns, 1000);
	assert_int_equal(gap.start_ns, 1500);

	training.preemption = SIM_PREEMPT_NONE;
	sim_gpu_gap(&gpu, &training, 1500, &surprise, &gap);
	assert_int_equal(gap.trained_ns, 0);
	assert_int_equal(gap.start_ns, 1500);
}

/* What profile.c says: a computation that ends with the load finds every group there. */
static void a_computation_that_starts_late_never_waits(void **state)
{
	const struct planner_rates rates = {
		.network = 12.5e9, .copy = 12e9, .compute = 14e12, .transfer_cost = 20e-6,
		.launch_cost = 10e-6,
	};
	int64_t network[40], copy[40], compute[40], start, length;
	struct planner_layer layers[40];
	struct planner_pipeline pipeline;
	struct planner_grouping grouping;

	(void)state;
	srandom(9);
	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < COUNT(layers); i++)
			layers[i] = (struct planner_layer){
				.bytes = (uint64_t)random() % 20000000,
				.flops = (double)(random() % 10000000000),
			};
		assert_int_equal(planner_pipeline_create(&pipeline, layers, COUNT(layers), &rates),
				 0);
		assert_int_equal(planner_optimal(&pipeline, &grouping), 0);
		planner_schedule(&pipeline, &grouping, network, copy, compute);
		start = planner_finish(&pipeline, &grouping);
		assert_int_equal(start, compute[grouping.count - 1]);
		for (size_t g = grouping.count; g--;) {
			length = pipeline.launch_cost + pipeline.compute[grouping.ends[g]] -
				 pipeline.compute[g ? grouping.ends[g - 1] : 0];
			start -= length;
			assert_true(start >= copy[g]);
		}
		planner_grouping_destroy(&grouping);
		planner_pipeline_destroy(&pipeline);
	}
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void quantiles_are_those_of_sorted_values(void **state)
{
	static const double quantiles[] = { 0.001, 0.5, 0.9, 0.99, 0.999, 1 };
	static struct sim_histogram histogram;
	static uint64_t values[5000];
	struct sim_random random;

	(void)state;
	sim_random_seed(&random, 11);
	for (size_t i = 0; i < COUNT(values); i++) {
		values[i] = (uint64_t)sim_random_exponential(&random, 1e7) + 1000;
		sim_histogram_add(&histogram, values[i]);
	}
	qsort(values, COUNT(values), sizeof(*values), compare);
	for (size_t i = 0; i < COUNT(quantiles); i++) {
		double exact = (double)values[(size_t)(quantiles[i] * COUNT(values) - 1e-9)] / 1e9;

		assert_float_equal(sim_histogram_quantile(&histogram, quantiles[i]) / exact, 1,
				   0.004);
	}
	assert_int_equal(histogram.most_ns, values[COUNT(values) - 1]);
	/* Refusing does not improve a percentile. */
	histogram.never = COUNT(values) / 50;
	assert_true(isinf(sim_histogram_quantile(&histogram, 0.99)));
	assert_false(isinf(sim_histogram_quantile(&histogram, 0.98)));
}

static void every_duration_has_a_bin(void **state)
{
	(void)state;
	for (int bit = 0; bit < 64; bit++) {
		for (int by = -1; by <= 1; by++) {
			uint64_t ns = (1ULL << bit) + (uint64_t)by;
			uint32_t bin = sim_histogram_bin(ns);

			assert_true(bin < SIM_HISTOGRAM_BINS);
			assert_true(sim_histogram_floor(bin) <= ns);
			if (bin + 1 < SIM_HISTOGRAM_BINS)
				assert_true(sim_histogram_floor(bin + 1) > ns);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_event_is_that_of_a_search),
		cmocka_unit_test(jobs_come_in_their_order_if_they_are_ready),
		cmocka_unit_test(a_long_job_does_not_make_one_late_that_is_still_loading),
		cmocka_unit_test(queues_grow_and_keep_their_order),
		cmocka_unit_test(a_gap_is_shared_between_training_and_the_switch),
		cmocka_unit_test(a_computation_that_starts_late_never_waits),
		cmocka_unit_test(quantiles_are_those_of_sorted_values),
		cmocka_unit_test(every_duration_has_a_bin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
