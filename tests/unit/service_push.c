// SPDX-License-Identifier: GPL-2.0-or-later
/* Pushes: what is pushed can be loaded, what is wrong is refused, who goes leaves nothing. */
#include "service_bed.h"

static void what_is_pushed_is_listed_and_loaded_bit_for_bit(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *list, *model;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	assert_int_equal(push(&sample), LAYERS * 300000);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	list = document(&reply);
	model = json_array_get(json_object_get(list, "models"), 0);
	assert_string_equal(json_string_value(json_object_get(model, "name")), "net");
	assert_string_equal(json_string_value(json_object_get(model, "state")), "available");
	assert_int_equal(json_integer_value(json_object_get(list, "stored_bytes")),
			 LAYERS * 300000);
	json_decref(list);
	reply = ask(fd, load_op("net"), NULL, 0);
	check_weights(&reply, &sample);
	assert_false(json_is_true(json_object_get(reply.body, "cached")));
	assert_int_equal(fake.last->value, field(&reply, "final"));
	/* One for each group. */
	assert_int_equal(fake.extents, field(&reply, "groups"));
	message_clear(&reply);
	hang_up(fd);
	free_sample(&sample);
}

static void chunks_of_another_model_are_not_sent_again(void **state)
{
	struct sample base, tuned;
	struct message reply;
	uint32_t *missing;
	size_t count;
	int fd;

	(void)state;
	make_sample(&base, "base", 1, 300000, LAYERS);
	make_sample(&tuned, "tuned", 1, 300000, LAYERS - 1);
	push(&base);
	fd = connect_client();
	missing = begin_push(fd, &tuned, &count);
	free(missing);
	assert_int_equal(count, (tuned.image.manifest.chunk_count + LAYERS - 1) / LAYERS);
	hang_up(fd);
	assert_int_equal(push(&tuned), 300000);
	/* Deleting one leaves what the other needs. */
	fd = connect_client();
	reply = ask(fd, op("delete", "base"), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "freed_bytes"), 300000);
	message_clear(&reply);
	wait_until(arena_bytes() == LAYERS * 300000);
	load_sample(fd, &tuned);
	hang_up(fd);
	free_sample(&base);
	free_sample(&tuned);
}

static void bytes_that_are_not_those_of_the_digest_are_refused(void **state)
{
	struct pushing net;
	int bytes;

	(void)state;
	pushing_begin(&net);
	bytes = chunk_fd(&net.sample, net.missing, 0, 1, true);
	expect_refusal(net.fd, chunk_op(0, 1), &bytes, 1, "EBADMSG",
		       "chunk 0: the bytes are not those");
	expect_refusal(net.fd, chunk_op(0, 2), &bytes, 1, "EINVAL", "bytes: these chunks have");
	expect_refusal(net.fd, chunk_op(net.count, 1), &bytes, 1, "EINVAL", "first, count:");
	expect_refusal(net.fd, chunk_op(1, UINT32_MAX), &bytes, 1, "EINVAL", "first, count:");
	close(bytes);
	expect_refusal(net.fd, json_pack("{s:s}", "op", "commit"), NULL, 0, "EINVAL",
		       "were not sent");
	/* It can still be made good. */
	send_chunks(net.fd, &net.sample, net.missing, net.count);
	pushing_end(&net);
	wait_until(!arena_bytes());
}

/* A manifest that says so is not believed: neither of bytes that come nor of such that are here. */
static void a_checksum_that_is_not_that_of_the_bytes_is_refused(void **state)
{
	struct sample net, again;
	uint32_t *missing;
	size_t count;
	int fd = connect_client(), bytes, manifest;

	(void)state;
	make_sample(&net, "net", 1, 300000, LAYERS);
	net.image.manifest.chunks[0].checksum ^= 1;
	missing = begin_push(fd, &net, &count);
	bytes = chunk_fd(&net, missing, 0, 1, false);
	expect_refusal(fd, chunk_op(0, 1), &bytes, 1, "EBADMSG", "chunk 0: the bytes are not those");
	close(bytes);
	free(missing);
	hang_up(fd);
	net.image.manifest.chunks[0].checksum ^= 1;
	push(&net);
	make_sample(&again, "again", 1, 300000, LAYERS);
	again.image.manifest.chunks[3].checksum ^= 1;
	manifest = manifest_fd(&again);
	fd = connect_client();
	expect_refusal(fd, op("push", "again"), &manifest, 1, "EBADMSG", "xxh3");
	close(manifest);
	hang_up(fd);
	free_sample(&net);
	free_sample(&again);
}

static void a_push_whose_client_goes_leaves_nothing(void **state)
{
	struct sample sample;
	uint32_t *missing;
	size_t count;
	int fd, bytes;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	/* At once, before the catalog has answered. */
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	fd = connect_client();
	bytes = manifest_fd(&sample);
	say(fd, op("push", "net"), &bytes, 1);
	close(bytes);
	hang_up(fd);
	/* With some chunks sent, and some on their way. */
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	send_chunks(fd, &sample, missing, 8);
	assert_true(arena_bytes() > 0);
	bytes = chunk_fd(&sample, missing, 8, 8, false);
	say(fd, chunk_op(8, 8), &bytes, 1);
	close(bytes);
	hang_up(fd);
	free(missing);
	wait_until(!arena_bytes());
	/* And the name is free. */
	assert_int_equal(push(&sample), LAYERS * 300000);
	fd = connect_client();
	bytes = manifest_fd(&sample);
	expect_refusal(fd, op("push", "net"), &bytes, 1, "EEXIST", "already");
	expect_refusal(fd, op("push", "other"), &bytes, 1, "EINVAL", "the manifest is of \"net\"");
	close(bytes);
	hang_up(fd);
	free_sample(&sample);
}

static void a_push_that_does_not_fit_the_donors_is_refused(void **state)
{
	struct sample net;
	int fd, manifest;

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 1U << 20;
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED &&
		   catalog_host_find(bed.models->catalog, "a"));
	make_sample(&net, "net", 1, 300000, LAYERS);
	fd = connect_client();
	/* Asked before anything was hashed, and before anything is sent. */
	expect_refusal(fd, json_pack("{s:s, s:i}", "op", "room", "bytes", 2000000), NULL, 0,
		       "ENOSPC", "all donors together give 1048576");
	manifest = manifest_fd(&net);
	expect_refusal(fd, op("push", "net"), &manifest, 1, "ENOSPC",
		       "bytes are new, and 1048576 of 1048576 are free");
	close(manifest);
	hang_up(fd);
	free_sample(&net);
}

/* Enough is free, but no chunk fits anywhere. */
static void a_push_that_finds_only_pieces_says_so(void **state)
{
	enum { COUNT = 4096 };
	struct chunks *chunks = &bed.models->chunks;
	struct memory_chunk **pieces = calloc(COUNT, sizeof(struct memory_chunk *));
	struct pushing pushing;
	int bytes;

	(void)state;
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(memory_arena_allocate(chunks->arena, 4096, &pieces[i]), 0);
	for (int i = 0; i < COUNT; i += 2)
		memory_arena_abandon(chunks->arena, pieces[i]);
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	chunks_report(chunks);
	wait_until(catalog_host_find(bed.models->catalog, "a")->memory_longest == 4096);
	assert_int_equal(catalog_host_find(bed.models->catalog, "a")->memory_free, COUNT / 2 * 4096);
	pushing_begin(&pushing);
	bytes = chunk_fd(&pushing.sample, pushing.missing, 0, 1, false);
	expect_refusal(pushing.fd, chunk_op(0, 1), &bytes, 1, "ENOSPC", "free is in pieces");
	close(bytes);
	pushing_end(&pushing);
	for (int i = 1; i < COUNT; i += 2)
		memory_arena_abandon(chunks->arena, pieces[i]);
	free(pieces);
}

static void a_push_that_fits_when_others_are_gone_waits_for_that(void **state)
{
	struct sample first, second;
	int fd;

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 3U << 20;
	start_daemon();
	push_sample(&first, "first", 1);
	fd = connect_client();
	ask_ok(fd, op("delete", "first"));
	hang_up(fd);
	/* What it had is not free yet. */
	push_sample(&second, "second", 2);
	free_sample(&first);
	free_sample(&second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(what_is_pushed_is_listed_and_loaded_bit_for_bit),
		SERVICE_TEST(chunks_of_another_model_are_not_sent_again),
		SERVICE_TEST(bytes_that_are_not_those_of_the_digest_are_refused),
		SERVICE_TEST(a_checksum_that_is_not_that_of_the_bytes_is_refused),
		SERVICE_TEST(a_push_whose_client_goes_leaves_nothing),
		SERVICE_TEST(a_push_that_does_not_fit_the_donors_is_refused),
		SERVICE_TEST(a_push_that_finds_only_pieces_says_so),
		SERVICE_TEST(a_push_that_fits_when_others_are_gone_waits_for_that),
	};

	return cmocka_run_group_tests_name("service_push", tests, NULL, NULL);
}
