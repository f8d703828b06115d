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
	int other;

	(void)state;
	begin_batch(&net, 0);
	other = connect_client();
	ask_ok(other, json_pack("{s:s}", "op", "list"));
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
	wait_until(catalog_model_find(bed.models->catalog, "net") &&
		   catalog_model_find(bed.models->catalog, "net")->known);
}

static void others_are_served_while_the_spool_is_restored(void **state)
{
	struct sample net;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	restart_slowly(2);
	fd = connect_client();
	ask_ok(fd, json_pack("{s:s}", "op", "list"));
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

/* Also if it dies before it has read all of it. */
static void what_is_being_restored_is_not_missing(void **state)
{
	struct catalog_availability found;
	struct sample net;
	uint32_t all;

	(void)state;
	push_sample(&net, "net", 1);
	all = net.image.manifest.chunk_count;
	for (int i = 0; i < 2; i++) {
		restart_slowly(5);
		wait_until(!catalog_model_availability(bed.models->catalog, "net", &found, NULL,
						       NULL));
		assert_true(found.away >= all - 5 && !found.missing);
		disk_allow_reads();
	}
	wait_until(!bed.models->chunks.restore.under_way);
	wait_until(!catalog_model_availability(bed.models->catalog, "net", &found, NULL, NULL) &&
		   found.copies == 1);
	free_sample(&net);
}

/* What has not been read yet is not lost, and nobody is told to push it again. */
static void a_verify_does_not_judge_what_is_being_restored(void **state)
{
	struct sample net;
	struct message reply;
	int fd;

	(void)state;
	push_sample(&net, "net", 1);
	restart_slowly(2);
	fd = connect_client();
	expect_refusal(fd, op("verify", "net"), NULL, 0, "EAGAIN", "reads its spool: try again");
	disk_allow_reads();
	wait_until(!bed.models->chunks.restore.under_way);
	reply = ask(fd, op("verify", "net"), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(json_array_size(json_object_get(reply.body, "bad")), 0);
	message_clear(&reply);
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
	whole = chunk_checksum(copy->data, copy->length) == copy->checksum;
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
	load_once(&net);
	free_sample(&net);
	free_sample(&again);
}

static void the_same_is_pushed_while_the_spool_is_restored(void **state)
{
	struct sample net, again;
	uint64_t bytes;

	(void)state;
	push_sample(&net, "net", 1);
	bytes = arena_bytes();
	restart_slowly(0);
	disk_allow_reads();
	make_sample(&again, "again", 1, 300000, LAYERS);
	push(&again);
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(arena_bytes(), bytes);
	load_once(&again);
	free_sample(&net);
	free_sample(&again);
}

/* The spool's part of the status; the caller's. */
static json_t *spool_status(void)
{
	int fd = connect_client();
	struct message reply = ask(fd, json_pack("{s:s}", "op", "status"), NULL, 0);
	json_t *spool;

	expect_ok(&reply);
	spool = json_incref(json_object_get(reply.body, "spool"));
	assert_non_null(spool);
	message_clear(&reply);
	hang_up(fd);
	return spool;
}

static void expect_spool(json_int_t refused, const char *reason, const char *fix)
{
	json_t *spool = spool_status();

	assert_string_equal(json_string_value(json_object_get(spool, "path")), bed.config.spool);
	assert_int_equal(json_integer_value(json_object_get(spool, "refused")), refused);
	assert_contains(json_string_value(json_object_get(spool, "reason")), reason);
	assert_contains(json_string_value(json_object_get(spool, "fix")), fix);
	if (!reason[0])
		assert_string_equal(json_string_value(json_object_get(spool, "reason")), "");
	json_decref(spool);
}

/* Half of a host's memory and a bit. */
static void make_large(struct sample *sample, const char *name, uint32_t seed)
{
	make_sample(sample, name, seed, 1500000, LAYERS);
}

static uint64_t offered_bytes(void)
{
	const struct catalog_host *host = catalog_host_find(bed.models->catalog, "a");

	return host ? host->memory_free : UINT64_MAX;
}

/* Else the last copies would have no place, and the spool more than the memory from then on. */
static void what_the_spool_needs_is_neither_offered_nor_taken(void **state)
{
	struct sample net, other;
	uint64_t before;
	int fd, manifest;

	(void)state;
	make_large(&net, "net", 1);
	make_large(&other, "other", 2);
	push(&net);
	wait_until(offered_bytes() < bed.config.donor_memory / 2);
	before = offered_bytes();
	restart_slowly(2);
	wait_until(offered_bytes() == before);
	fd = connect_client();
	manifest = manifest_fd(&other);
	say(fd, op("push", "other"), &manifest, 1);
	close(manifest);
	expect_refused(fd, "ENOSPC", "this host still reads its spool: try again");
	disk_allow_reads();
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(bed.models->chunks.restore.skipped, 0);
	wait_until(offered_bytes() == before);
	load_sample(fd, &net);
	hang_up(fd);
	free_sample(&net);
	free_sample(&other);
}

static void what_found_no_memory_is_restored_when_there_is_some(void **state)
{
	struct sample net, other;
	int fd;

	(void)state;
	/* Chunks of one size: what one of them leaves any other one fills. */
	make_sample(&net, "net", 1, 1 << 20, LAYERS);
	make_sample(&other, "other", 2, 1 << 20, LAYERS);
	push(&net);
	push(&other);
	stop_daemon();
	bed.config.donor_memory = 8U << 20;
	start_daemon();
	wait_until(bed.models->joined && !bed.models->chunks.restore.under_way);
	assert_true(bed.models->chunks.restore.skipped > 0);
	fd = connect_client();
	wait_until(catalog_model_find(bed.models->catalog, "other"));
	ask_ok(fd, op("delete", "other"));
	wait_until(!bed.models->chunks.restore.under_way && !bed.models->chunks.restore.skipped);
	load_sample(fd, &net);
	hang_up(fd);
	expect_spool(0, "", "");
	free_sample(&net);
	free_sample(&other);
}

static void a_spool_that_cannot_be_read_is_tried_again(void **state)
{
	struct sample net;
	int before, log;

	(void)state;
	push_sample(&net, "net", 1);
	stop_daemon();
	disk_fail_lists(1);
	log = log_to_memory(&before);
	start_daemon();
	wait_until(bed.models->chunks.restore.err);
	wait_until(offered_bytes() != UINT64_MAX);
	/* What the spool needs is not known. */
	assert_int_equal(offered_bytes(), 0);
	expect_spool(0, "it could not be read: Input/output error", "see the disk of");
	/* As if the time had passed. */
	assert_true(sd_event_source_set_time(bed.models->chunks.restore.again, 0) >= 0);
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(count_logged(log, before, "event=spool-not-restored"), 1);
	wait_until(offered_bytes());
	expect_spool(0, "", "");
	load_once(&net);
	free_sample(&net);
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
	ask_ok(net.fd, json_pack("{s:s}", "op", "commit"));
	pushing_end(&net);
}

static void a_disk_that_is_full_is_told_once_and_until_it_is_not(void **state)
{
	unsigned int failing, works;
	struct pushing net;
	int before, log;

	(void)state;
	expect_spool(0, "", "");
	pushing_begin(&net);
	disk_fail_always(ENOSPC);
	log = log_to_memory(&before);
	for (int i = 0; i < 2; i++) {
		send_batch(net.fd, &net.sample, net.missing);
		expect_refused(net.fd, "ENOSPC", "No space left on device");
	}
	wait_until(TAILQ_EMPTY(&bed.models->chunks.stores));
	failing = count_logged(log, before, "event=spool-failing");
	assert_int_equal(failing, 1);
	expect_spool(2 * BATCH, "No space left on device", "make room on the file system of");
	disk_reset();
	log = log_to_memory(&before);
	send_chunks(net.fd, &net.sample, net.missing, net.count);
	ask_ok(net.fd, json_pack("{s:s}", "op", "commit"));
	works = count_logged(log, before, "event=spool-works");
	assert_int_equal(works, 1);
	expect_spool(0, "", "");
	pushing_end(&net);
}

/* Until a look at it finds that it works again. */
static void a_disk_that_takes_nothing_is_not_offered_more(void **state)
{
	struct pushing net;
	uint64_t before;
	int manifest;

	(void)state;
	pushing_begin(&net);
	wait_until(offered_bytes() != UINT64_MAX);
	before = offered_bytes();
	assert_true(before > 0);
	disk_fail_always(ENOSPC);
	send_batch(net.fd, &net.sample, net.missing);
	expect_refused(net.fd, "ENOSPC", "No space left on device");
	wait_until(!offered_bytes());
	assert_int_equal(catalog_host_find(bed.models->catalog, "a")->memory_longest, 0);
	/* As if the time had passed. */
	assert_true(sd_event_source_set_time(bed.models->chunks.disk.probe, 0) >= 0);
	wait_until(disk_begun() > 2);
	pushing_end(&net);
	assert_int_equal(offered_bytes(), 0);
	/* Who pushes something else hears what is wrong. */
	make_sample(&net.sample, "other", 2, 300000, LAYERS);
	net.fd = connect_client();
	manifest = manifest_fd(&net.sample);
	expect_refusal(net.fd, op("push", "other"), &manifest, 1, "ENOSPC",
		       "the spool of this host cannot be written to");
	close(manifest);
	disk_reset();
	wait_until(offered_bytes() == before);
	hang_up(net.fd);
	push(&net.sample);
	free_sample(&net.sample);
}

static void it_is_told_how_much_of_the_spool_is_restored(void **state)
{
	struct sample net;
	json_t *spool;

	(void)state;
	push_sample(&net, "net", 1);
	restart_slowly(2);
	wait_until(bed.models->chunks.restore.files);
	spool = spool_status();
	assert_true(json_is_true(json_object_get(spool, "restoring")));
	assert_int_equal(json_integer_value(json_object_get(spool, "files")),
			 net.image.manifest.chunk_count);
	json_decref(spool);
	disk_allow_reads();
	wait_until(!bed.models->chunks.restore.under_way);
	spool = spool_status();
	assert_true(json_is_false(json_object_get(spool, "restoring")));
	assert_int_equal(json_integer_value(json_object_get(spool, "restored")),
			 net.image.manifest.chunk_count);
	json_decref(spool);
	free_sample(&net);
}

static void files_that_were_put_aside_are_told_until_they_are_removed(void **state)
{
	struct sample net;

	(void)state;
	push_sample(&net, "net", 1);
	damage_file(&net, 3);
	/* By the one that finds it, and by the next. */
	for (int i = 0; i < 2; i++) {
		restart_slowly(0);
		disk_allow_reads();
		wait_until(!bed.models->chunks.restore.under_way);
		expect_spool(0, "1 files were damaged, and put aside", "/*.damaged");
	}
	free_sample(&net);
}

static void what_does_not_fit_is_logged_once(void **state)
{
	struct sample net;
	int before, log;

	(void)state;
	push_sample(&net, "net", 1);
	stop_daemon();
	bed.config.donor_memory = 1U << 20;
	log = log_to_memory(&before);
	start_daemon();
	wait_until(!bed.models->chunks.restore.under_way);
	assert_true(bed.models->chunks.restore.skipped > 1);
	assert_int_equal(count_logged(log, before, "event=chunk-not-restored"), 1);
	expect_spool(0, "files were not restored, the last one: does not fit", "[donor] memory");
	free_sample(&net);
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

	(void)state;
	begin_batch(&net, 1);
	/* Some are on disk, of which none has been told, and the rest is dropped. */
	disk_reset();
	stop_daemon();
	close(net.fd);
	free(net.missing);
	start_daemon();
	push(&net.sample);
	load_once(&net.sample);
	free_sample(&net.sample);
}

#define SPOOL_TEST(name) cmocka_unit_test_setup_teardown(name, setup_spool, teardown_spool)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SPOOL_TEST(others_are_served_while_the_disk_hangs),
		SPOOL_TEST(a_batch_is_acknowledged_with_its_last_chunk),
		SPOOL_TEST(others_are_served_while_the_spool_is_restored),
		SPOOL_TEST(what_is_being_restored_is_not_missing),
		SPOOL_TEST(a_verify_does_not_judge_what_is_being_restored),
		SPOOL_TEST(what_is_damaged_in_memory_is_taken_from_the_spool),
		SPOOL_TEST(what_is_damaged_in_the_spool_is_not_restored),
		SPOOL_TEST(the_same_is_pushed_while_the_spool_is_restored),
		SPOOL_TEST(what_the_spool_needs_is_neither_offered_nor_taken),
		SPOOL_TEST(what_found_no_memory_is_restored_when_there_is_some),
		SPOOL_TEST(a_spool_that_cannot_be_read_is_tried_again),
		SPOOL_TEST(a_chunk_that_two_push_is_on_disk_for_both),
		SPOOL_TEST(a_full_disk_refuses_the_push_and_says_so),
		SPOOL_TEST(a_disk_that_is_full_is_told_once_and_until_it_is_not),
		SPOOL_TEST(a_disk_that_takes_nothing_is_not_offered_more),
		SPOOL_TEST(it_is_told_how_much_of_the_spool_is_restored),
		SPOOL_TEST(files_that_were_put_aside_are_told_until_they_are_removed),
		SPOOL_TEST(what_does_not_fit_is_logged_once),
		SPOOL_TEST(a_client_that_goes_while_the_disk_hangs_leaves_nothing),
		SPOOL_TEST(a_daemon_that_stops_while_it_stores_can_go_on),
	};

	return cmocka_run_group_tests_name("service_spool", tests, NULL, NULL);
}
