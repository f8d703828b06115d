// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pushes to a host with a spool: acknowledged when they are on disk, which nobody else waits
 * for.
 */
#include "disk_fake.h"
#include "service_bed.h"

#define BATCH 4 /* chunks */

static int setup_spool(void **state)
{
	disk_reset();
	setup(state);
	use_spool();
	return 0;
}

static int teardown_spool(void **state)
{
	disk_reset();
	return teardown(state);
}

static void send_batch(int fd, struct sample *sample, const uint32_t *missing, size_t first)
{
	int bytes = chunk_fd(sample, missing, first, BATCH, false);

	say(fd, chunk_op(first, BATCH), &bytes, 1);
	close(bytes);
}

static bool has_answer(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static void expect_answer(int fd)
{
	struct message reply = receive(fd);

	expect_ok(&reply);
	message_clear(&reply);
}

static bool is_held(const struct sample *sample, uint32_t chunk)
{
	return catalog_holds(bed.models->catalog, sample->image.manifest.chunks[chunk].digest.bytes);
}

static void others_are_served_while_the_disk_hangs(void **state)
{
	struct sample sample;
	struct message reply;
	uint32_t *missing;
	size_t count;
	int fd, other;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	fd = connect_client();
	other = connect_client();
	missing = begin_push(fd, &sample, &count);
	disk_hang(0);
	send_batch(fd, &sample, missing, 0);
	wait_until(disk_begun());
	reply = ask(other, json_pack("{s:s}", "op", "list"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	/* It is in memory, but nobody is told so. */
	assert_true(arena_bytes() > 0);
	assert_false(is_held(&sample, missing[0]));
	assert_false(has_answer(fd));
	disk_reset();
	expect_answer(fd);
	for (uint32_t i = 0; i < BATCH; i++)
		assert_true(is_held(&sample, missing[i]));
	free(missing);
	hang_up(fd);
	hang_up(other);
	free_sample(&sample);
}

static void a_batch_is_acknowledged_with_its_last_chunk(void **state)
{
	struct sample sample;
	uint32_t *missing;
	size_t count;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	/* The name of the last one hangs. */
	disk_hang(2 * BATCH - 1);
	send_batch(fd, &sample, missing, 0);
	wait_until(disk_begun() == 2 * BATCH && is_held(&sample, missing[BATCH - 2]));
	assert_false(is_held(&sample, missing[BATCH - 1]));
	assert_false(has_answer(fd));
	disk_allow(1);
	expect_answer(fd);
	free(missing);
	hang_up(fd);
	free_sample(&sample);
}

static void a_chunk_that_two_push_is_on_disk_for_both(void **state)
{
	struct sample a, b;
	uint32_t *missing;
	size_t count;
	int one, two;

	(void)state;
	make_sample(&a, "a", 1, 300000, LAYERS);
	make_sample(&b, "b", 1, 300000, LAYERS);
	one = connect_client();
	two = connect_client();
	free(begin_push(one, &a, &count));
	missing = begin_push(two, &b, &count);
	disk_hang(0);
	send_batch(one, &a, missing, 0);
	wait_until(disk_begun());
	send_batch(two, &b, missing, 0);
	wait_until(bed.models->service.clients->exchange &&
		   bed.models->service.clients->next->exchange);
	/* The second one is looked at in the next turn of the loop, and the one after it. */
	for (int i = 0; i < 3; i++)
		assert_true(sd_event_run(bed.loop, 0) >= 0);
	assert_false(has_answer(one) || has_answer(two));
	disk_reset();
	expect_answer(one);
	expect_answer(two);
	free(missing);
	hang_up(one);
	hang_up(two);
	free_sample(&a);
	free_sample(&b);
}

static void a_full_disk_refuses_the_push_and_says_so(void **state)
{
	struct sample sample;
	struct message reply;
	uint32_t *missing;
	size_t count;
	int fd, bytes;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	bytes = chunk_fd(&sample, missing, 0, 1, false);
	disk_fail(ENOSPC);
	expect_refusal(fd, chunk_op(0, 1), &bytes, 1, "ENOSPC",
		       "the spool of this host cannot keep it: No space left on device: make room");
	close(bytes);
	assert_int_equal(arena_bytes(), 0);
	assert_false(is_held(&sample, missing[0]));
	expect_refusal(fd, json_pack("{s:s}", "op", "commit"), NULL, 0, "EINVAL", "were not sent");
	/* It can still be made good. */
	send_chunks(fd, &sample, missing, count);
	reply = ask(fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	free(missing);
	hang_up(fd);
	free_sample(&sample);
}

static void a_client_that_goes_while_the_disk_hangs_leaves_nothing(void **state)
{
	struct sample sample;
	uint32_t *missing;
	size_t count;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	disk_hang(0);
	send_batch(fd, &sample, missing, 0);
	wait_until(disk_begun());
	hang_up(fd);
	disk_reset();
	wait_until(!arena_bytes());
	free(missing);
	free_sample(&sample);
}

static void a_daemon_that_stops_while_it_stores_can_go_on(void **state)
{
	struct sample sample;
	uint32_t *missing;
	size_t count;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	disk_hang(3);
	send_batch(fd, &sample, missing, 0);
	wait_until(disk_begun() == 4);
	/* Two are on disk, of which one has been told, and the rest is dropped. */
	disk_reset();
	stop_daemon();
	close(fd);
	free(missing);
	start_daemon();
	push(&sample);
	fd = connect_client();
	load_sample(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

#define SPOOL_TEST(name) cmocka_unit_test_setup_teardown(name, setup_spool, teardown_spool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SPOOL_TEST(others_are_served_while_the_disk_hangs),
		SPOOL_TEST(a_batch_is_acknowledged_with_its_last_chunk),
		SPOOL_TEST(a_chunk_that_two_push_is_on_disk_for_both),
		SPOOL_TEST(a_full_disk_refuses_the_push_and_says_so),
		SPOOL_TEST(a_client_that_goes_while_the_disk_hangs_leaves_nothing),
		SPOOL_TEST(a_daemon_that_stops_while_it_stores_can_go_on),
	};

	return cmocka_run_group_tests_name("service_spool", tests, NULL, NULL);
}
