// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pushes to a host with a spool: acknowledged when they are on disk, which nobody else waits
 * for.
 */
#include "disk_fake.h"
#include "service_bed.h"

#include "../../userspace/memory/check.h"

#include <fcntl.h>

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

static void send_batch(int fd, struct sample *sample, const uint32_t *missing)
{
	int bytes = chunk_fd(sample, missing, 0, BATCH, false);

	say(fd, chunk_op(0, BATCH), &bytes, 1);
	close(bytes);
}

/* A batch has been sent, and the disk hangs with the call after those that it allows. */
static void begin_batch(struct pushing *net, unsigned int allowed)
{
	pushing_begin(net);
	disk_hang(allowed);
	send_batch(net->fd, &net->sample, net->missing);
	wait_until(disk_begun() == allowed + 1);
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
	struct pushing net;
	struct message reply;
	int other;

	(void)state;
	begin_batch(&net, 0);
	other = connect_client();
	reply = ask(other, json_pack("{s:s}", "op", "list"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	/* It is in memory, but nobody is told so. */
	assert_true(arena_bytes() > 0);
	assert_false(is_held(&net.sample, net.missing[0]));
	assert_false(has_answer(net.fd));
	disk_reset();
	expect_answer(net.fd);
	for (uint32_t i = 0; i < BATCH; i++)
		assert_true(is_held(&net.sample, net.missing[i]));
	hang_up(other);
	pushing_end(&net);
}

static void a_batch_is_acknowledged_with_its_last_chunk(void **state)
{
	struct pushing net;
	unsigned int held = 0;

	(void)state;
	/* The names of the first hang; whatever is stored together comes with them. */
	begin_batch(&net, 1);
	for (uint32_t i = 0; i < BATCH; i++)
		assert_false(is_held(&net.sample, net.missing[i]));
	assert_false(has_answer(net.fd));
	disk_allow(1000);
	expect_answer(net.fd);
	for (uint32_t i = 0; i < BATCH; i++)
		held += is_held(&net.sample, net.missing[i]);
	assert_int_equal(held, BATCH);
	pushing_end(&net);
}

/* Started again, with all reads of the spool hanging but so many. */
static void restart_slowly(unsigned int reads)
{
	stop_daemon();
	disk_hang_reads(reads);
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
}

static void others_are_served_while_the_spool_is_restored(void **state)
{
	struct sample net;
	struct message reply;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	restart_slowly(2);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	expect_refusal(fd, load_op("net"), NULL, 0, "EAGAIN", "reads its spool: try again");
	/* What has been read counts already, and more can be pushed. */
	assert_true(bed.models->chunks.restore.under_way);
	disk_allow_reads();
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(bed.models->chunks.restore.skipped, 0);
	load_sample(fd, &net);
	hang_up(fd);
	free_sample(&net);
}

static bool is_whole(const struct sample *sample, uint32_t chunk)
{
	struct memory_chunk *copy;
	bool whole;

	if (memory_arena_pin(bed.models->chunks.arena,
			     sample->image.manifest.chunks[chunk].digest.bytes, &copy))
		return false;
	whole = memory_checksum(copy->data, copy->length) == copy->checksum;
	memory_arena_unpin(bed.models->chunks.arena, copy);
	return whole && is_held(sample, chunk);
}

static void what_is_damaged_in_memory_is_taken_from_the_spool(void **state)
{
	struct sample net;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	damage_chunk(&net, 3);
	fd = connect_client();
	load_sample(fd, &net);
	wait_until(is_whole(&net, 3));
	wait_until(catalog_host_find(bed.models->catalog, "a")->damaged == 1);
	hang_up(fd);
	free_sample(&net);
}

/* A byte of the file of a chunk. */
static void damage_file(const struct sample *sample, uint32_t chunk)
{
	char text[MODEL_DIGEST_TEXT_LEN], path[sizeof(bed.config.spool) + sizeof(text)];
	int fd;

	model_digest_format(&sample->image.manifest.chunks[chunk].digest, text);
	snprintf(path, sizeof(path), "%s/%s", bed.config.spool, text);
	fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "\xff\x00", 2, 100), 2);
	close(fd);
}

static void what_is_damaged_in_the_spool_is_not_restored(void **state)
{
	struct sample net, again;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	damage_file(&net, 3);
	restart_slowly(0);
	disk_allow_reads();
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(bed.models->chunks.restore.skipped, 1);
	wait_until(catalog_host_find(bed.models->catalog, "a")->damaged == 1);
	assert_false(is_held(&net, 3));
	/* Whoever has it makes it good. */
	make_sample(&again, "again", 1, 300000, LAYERS);
	push(&again);
	assert_true(is_whole(&net, 3));
	fd = connect_client();
	load_sample(fd, &net);
	hang_up(fd);
	free_sample(&net);
	free_sample(&again);
}

static void the_same_is_pushed_while_the_spool_is_restored(void **state)
{
	struct sample net, again;
	uint64_t bytes;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	bytes = arena_bytes();
	restart_slowly(0);
	disk_allow_reads();
	make_sample(&again, "again", 1, 300000, LAYERS);
	push(&again);
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(arena_bytes(), bytes);
	fd = connect_client();
	load_sample(fd, &again);
	hang_up(fd);
	free_sample(&net);
	free_sample(&again);
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
	send_batch(one, &a, missing);
	wait_until(disk_begun());
	send_batch(two, &b, missing);
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
	struct pushing net;
	struct message reply;
	int bytes;

	(void)state;
	pushing_begin(&net);
	bytes = chunk_fd(&net.sample, net.missing, 0, 1, false);
	disk_fail(ENOSPC);
	expect_refusal(net.fd, chunk_op(0, 1), &bytes, 1, "ENOSPC",
		       "the spool of this host cannot keep it: No space left on device: make room");
	close(bytes);
	assert_int_equal(arena_bytes(), 0);
	assert_false(is_held(&net.sample, net.missing[0]));
	expect_refusal(net.fd, json_pack("{s:s}", "op", "commit"), NULL, 0, "EINVAL",
		       "were not sent");
	/* It can still be made good. */
	send_chunks(net.fd, &net.sample, net.missing, net.count);
	reply = ask(net.fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	pushing_end(&net);
}

static void a_client_that_goes_while_the_disk_hangs_leaves_nothing(void **state)
{
	struct pushing net;

	(void)state;
	begin_batch(&net, 0);
	assert_true(arena_bytes() > 0);
	pushing_end(&net);
	disk_reset();
	wait_until(!arena_bytes());
}

static void a_daemon_that_stops_while_it_stores_can_go_on(void **state)
{
	struct pushing net;
	int fd;

	(void)state;
	begin_batch(&net, 1);
	/* Some are on disk, of which none has been told, and the rest is dropped. */
	disk_reset();
	stop_daemon();
	close(net.fd);
	free(net.missing);
	start_daemon();
	push(&net.sample);
	fd = connect_client();
	load_sample(fd, &net.sample);
	hang_up(fd);
	free_sample(&net.sample);
}

#define SPOOL_TEST(name) cmocka_unit_test_setup_teardown(name, setup_spool, teardown_spool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SPOOL_TEST(others_are_served_while_the_disk_hangs),
		SPOOL_TEST(a_batch_is_acknowledged_with_its_last_chunk),
		SPOOL_TEST(others_are_served_while_the_spool_is_restored),
		SPOOL_TEST(what_is_damaged_in_memory_is_taken_from_the_spool),
		SPOOL_TEST(what_is_damaged_in_the_spool_is_not_restored),
		SPOOL_TEST(the_same_is_pushed_while_the_spool_is_restored),
		SPOOL_TEST(a_chunk_that_two_push_is_on_disk_for_both),
		SPOOL_TEST(a_full_disk_refuses_the_push_and_says_so),
		SPOOL_TEST(a_client_that_goes_while_the_disk_hangs_leaves_nothing),
		SPOOL_TEST(a_daemon_that_stops_while_it_stores_can_go_on),
	};

	return cmocka_run_group_tests_name("service_spool", tests, NULL, NULL);
}
