// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Weights that come by way of host memory: through a ring that is smaller than the model,
 * whose places are used again when the copy lane is done with them.
 */
#include "service_bed.h"

/* Of a model that is the ring almost twice, in groups longer than a group of it may be. */
#define LAYER_BYTES 4700000

static int setup_staged(void **state)
{
	if (setup(state))
		return -1;
	stop_daemon();
	bed.config.donor_memory = 32U << 20;
	start_daemon();
	fake.copy_lanes = 1;
	return 0;
}

static void push_large(struct sample *sample)
{
	make_sample(sample, "net", 1, LAYER_BYTES, LAYERS);
	push(sample);
}

/* The ring is full, and nothing more can happen. */
static void wait_until_full(void)
{
	uint64_t before;

	wait_until(fake_queue && fake_arrival()->value);
	do {
		before = fake_arrival()->value;
		wait_for_workers();
		for (int turns = 0; turns < 20; turns++)
			assert_true(sd_event_run(bed.loop, 0) >= 0);
	} while (fake_arrival()->value != before);
}

/* The client of a load that has come as far as it can without a copy. */
static int load_without_copies(void)
{
	int fd;

	fake.copies_wait = true;
	fd = connect_client();
	say(fd, staged_op("net"), NULL, 0);
	wait_until_full();
	return fd;
}

static void a_model_of_more_than_half_the_gpu_fits(void **state)
{
	const struct model_manifest *model;
	struct sample sample;
	uint64_t size;
	int fd;

	(void)state;
	push_large(&sample);
	model = &sample.image.manifest;
	size = resident_quota(model, true, false);
	fake.memory = size + STAGING_LEAST;
	assert_true(size > fake.memory / 2);
	assert_int_equal(resident_quota(model, true, true), fake.memory);
	fd = connect_client();
	say(fd, staged_op("net"), NULL, 0);
	receive_weights(fd, &sample);
	let_memory_go();
	assert_int_equal(fake.peak, fake.memory);
	/* The ring is gone, and with it its quota. */
	let_memory_go();
	assert_int_equal(fake.used, size);
	assert_int_equal(fake.quota, size);
	hang_up(fd);
	free_sample(&sample);
}

static void nothing_arrives_in_a_place_that_was_not_copied(void **state)
{
	struct sample sample;
	struct message reply;
	uint64_t arrived;
	int fd;

	(void)state;
	push_large(&sample);
	fd = load_without_copies();
	arrived = fake_arrival()->value;
	assert_in_range(arrived, STAGING_LEAST / STAGING_GROUP_LEAST - 1,
			fake_queue->batch.count - 1);
	assert_int_equal(fake_copied()->value, 0);
	fake.copies_wait = false;
	reply = receive(fd);
	check_weights(&reply, &sample);
	assert_true((uint64_t)field(&reply, "final") > arrived);
	message_clear(&reply);
	hang_up(fd);
	free_sample(&sample);
}

static void a_failure_in_a_later_round_fails_the_rest(void **state)
{
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	push_large(&sample);
	damage_chunk(&sample, sample.image.manifest.chunk_count - 1);
	fd = connect_client();
	reply = ask(fd, verified_later(staged_op("net")), NULL, 0);
	expect_ok(&reply);
	wait_until(fake.failures);
	assert_int_equal(fake.failed_error, -EBADMSG);
	/* Those of the first round had come. */
	assert_in_range(fake.failed_value, STAGING_LEAST / STAGING_GROUP_LEAST,
			field(&reply, "final"));
	message_clear(&reply);
	wait_until(!fake.buffers);
	assert_null(fake_queue);
	expect_refusal(fd, op("state", "net"), NULL, 0, "EBADMSG", "is damaged");
	hang_up(fd);
	free_sample(&sample);
}

static void a_load_that_waits_for_a_place_ends_with_its_client(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_large(&sample);
	fd = load_without_copies();
	hang_up(fd);
	wait_until(!fake.buffers);
	assert_null(fake_queue);
	assert_int_equal(fake.timelines, 0);
	assert_int_equal(fake.failed_error, -ECANCELED);
	free_sample(&sample);
}

static void a_load_that_waits_for_a_place_ends_with_the_copies(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_large(&sample);
	fd = load_without_copies();
	fake_fail_copies(-EIO);
	wait_until(!fake.buffers);
	assert_null(fake_queue);
	hang_up(fd);
	free_sample(&sample);
}

static void a_small_model_takes_no_more_than_itself(void **state)
{
	struct sample sample;
	uint64_t size;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	size = resident_quota(&sample.image.manifest, true, false);
	fd = load_without_copies();
	/* All of it can come at once. */
	assert_int_equal(fake_arrival()->value, fake_queue->batch.count);
	fake.copies_wait = false;
	receive_weights(fd, &sample);
	let_memory_go();
	assert_int_equal(fake.peak, 2 * size);
	hang_up(fd);
	free_sample(&sample);
}

static void a_grouping_is_cut_between_chunks(void **state)
{
	const struct grouping_rates rates = { .network = 1e9, .compute_ns = 1 };
	const struct model_manifest *model;
	struct grouping grouping, whole;
	struct sample sample;
	uint32_t first = 0;

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	model = &sample.image.manifest;
	assert_int_equal(grouping_make(&whole, model, &rates), 0);
	assert_int_equal(grouping_make(&grouping, model, &rates), 0);
	assert_int_equal(grouping_cut(&grouping, model, STAGING_GROUP_LEAST, UINT32_MAX), 0);
	assert_true(grouping.count > whole.count);
	for (uint32_t i = 0, group = 0; i < grouping.count; i++) {
		uint32_t end = grouping.groups[i].end_chunk;

		assert_true(end > first && grouping.groups[i].bytes <= STAGING_GROUP_LEAST);
		/* No part is of two groups. */
		assert_true(end <= whole.groups[group].end_chunk);
		if (end == whole.groups[group].end_chunk) {
			assert_int_equal(grouping.groups[i].end_layer,
					 whole.groups[group].end_layer);
			group++;
		}
		assert_int_equal(grouping_find(&grouping, first), i);
		assert_int_equal(grouping_find(&grouping, end - 1), i);
		first = end;
	}
	assert_int_equal(first, model->chunk_count);
	grouping_clear(&grouping);
	grouping_clear(&whole);
	free_sample(&sample);
}

#define STAGED_TEST(name) cmocka_unit_test_setup_teardown(name, setup_staged, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STAGED_TEST(a_model_of_more_than_half_the_gpu_fits),
		STAGED_TEST(nothing_arrives_in_a_place_that_was_not_copied),
		STAGED_TEST(a_failure_in_a_later_round_fails_the_rest),
		STAGED_TEST(a_load_that_waits_for_a_place_ends_with_its_client),
		STAGED_TEST(a_load_that_waits_for_a_place_ends_with_the_copies),
		STAGED_TEST(a_small_model_takes_no_more_than_itself),
		STAGED_TEST(a_grouping_is_cut_between_chunks),
	};

	return cmocka_run_group_tests_name("weights_staged", tests, NULL, NULL);
}
