// SPDX-License-Identifier: GPL-2.0-or-later
/* What a host holds for the pool, beside another one that is a fake. */
#include "disk_fake.h"
#include "rdma_fake.h"
#include "service_host.h"

#include <dirent.h>

#define MEMORY (16U << 20) /* of each host */

static int setup_donor(void **state)
{
	donor = (struct donor){ .damaged = UINT32_MAX, .lacks = UINT32_MAX };
	disk_reset();
	return setup(state);
}

static int teardown_donor(void **state)
{
	disk_reset();
	return teardown(state);
}

static void set_replicas(const char *model, int replicas)
{
	int fd = connect_client();
	struct message reply = ask(fd,
				   json_pack("{s:s, s:s, s:i}", "op", "replicas", "model", model,
					     "replicas", replicas),
				   NULL, 0);

	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
}

static uint32_t chunks_here(const struct sample *sample)
{
	const struct model_manifest *model = &sample->image.manifest;
	uint32_t count = 0;

	for (uint32_t i = 0; i < model->chunk_count; i++)
		count += chunks_have(&bed.models->chunks, model->chunks[i].digest.bytes);
	return count;
}

static uint32_t chunks_held(const struct sample *sample)
{
	const struct model_manifest *model = &sample->image.manifest;
	uint32_t count = 0;

	for (uint32_t i = 0; i < model->chunk_count; i++)
		count += catalog_holds(bed.models->catalog, model->chunks[i].digest.bytes);
	return count;
}

/* One that begins now, under which nothing changes, and what it gives up has gone. */
static void pass(void)
{
	struct donate *donate = &bed.models->donate;
	uint64_t this, changes;

	do {
		this = donate->passes;
		changes = catalog_changes(bed.models->catalog);
		donate_poke(donate);
		wait_until(donate->passes > this && !donate->pass);
	} while (changes != catalog_changes(bed.models->catalog));
	wait_until(giving_is_over(&donate->giving));
}

static void further_copies_go_when_a_replica_has_no_room(void **state)
{
	struct sample hot, plain;
	uint32_t all;

	(void)state;
	push_sample(&hot, "hot", 1);
	push_sample(&plain, "plain", 2);
	all = hot.image.manifest.chunk_count;
	/* Both hosts have the hot one, of which one copy would do. */
	put_host("x", MEMORY, MEMORY, "[\"hot\"]");
	put_chunks("x", &hot);
	pass();
	assert_int_equal(chunks_here(&hot), all);
	/* The other host is to have the plain one too, and has room for it. */
	set_replicas("plain", 2);
	pass();
	assert_int_equal(chunks_here(&hot), all);
	/* Now it has none, and everything is there once. */
	put_host("x", MEMORY, 0, "[\"hot\"]");
	pass();
	assert_in_range(chunks_here(&hot), 1, all - 1);
	assert_int_equal(chunks_held(&hot), chunks_here(&hot));
	/* Replicas are not what goes. */
	assert_int_equal(chunks_here(&plain), plain.image.manifest.chunk_count);
	free_sample(&hot);
	free_sample(&plain);
}

static void what_one_of_two_models_wants_here_is_not_given_up(void **state)
{
	struct sample once, twice;

	(void)state;
	/* Both have all layers but the last one in common. */
	make_sample(&once, "once", 1, 300000, LAYERS);
	make_sample(&twice, "twice", 1, 300000, LAYERS - 1);
	push(&once);
	push(&twice);
	set_replicas("twice", 2);
	put_host("x", MEMORY, MEMORY, "[]");
	put_chunks("x", &once);
	pass();
	assert_true(chunks_here(&once) < once.image.manifest.chunk_count);
	assert_int_equal(chunks_here(&twice), twice.image.manifest.chunk_count);
	free_sample(&once);
	free_sample(&twice);
}

static void what_is_on_its_way_to_the_disk_is_not_given_up(void **state)
{
	struct pushing net;
	int bytes;

	(void)state;
	use_spool();
	pushing_begin(&net);
	bytes = chunk_fd(&net.sample, net.missing, 0, 8, false);
	disk_hang(0);
	say(net.fd, chunk_op(0, 8), &bytes, 1);
	close(bytes);
	wait_until(disk_begun() && chunks_here(&net.sample) == 8);
	/* Who has all of it, so that this host need not. */
	put_host("x", MEMORY, MEMORY, "[]");
	put_chunks("x", &net.sample);
	pass();
	assert_int_equal(chunks_here(&net.sample), 8);
	disk_reset();
	wait_until(chunks_here(&net.sample) < 8);
	assert_int_equal(chunks_held(&net.sample), chunks_here(&net.sample));
	pushing_end(&net);
}

static void what_the_next_pass_wants_here_is_not_given_up(void **state)
{
	const struct model_manifest *model;
	struct donate *donate;
	struct sample sample;

	(void)state;
	push_sample(&sample, "net", 1);
	model = &sample.image.manifest;
	donate = &bed.models->donate;
	set_replicas("net", 2);
	put_host("x", MEMORY, MEMORY, "[]");
	put_chunks("x", &sample);
	pass();
	assert_int_equal(chunks_here(&sample), model->chunk_count);
	/* As if it had begun before what the last one left is given up. */
	for (uint32_t i = 0; i < model->chunk_count; i++)
		memory_arena_mark(bed.models->chunks.arena, model->chunks[i].digest.bytes,
				  donate->passes + 1);
	giving_begin(&donate->giving, donate->passes, catalog_changes(bed.models->catalog));
	wait_until(giving_is_over(&donate->giving));
	assert_int_equal(chunks_here(&sample), model->chunk_count);
	free_sample(&sample);
}

/* Another host has what this one has had, and is to have again. */
static void give_away(const char *host, struct sample *sample, int replicas)
{
	const struct model_manifest *model = &sample->image.manifest;

	set_replicas(model->name, replicas);
	put_host(host, MEMORY, MEMORY, "[]");
	put_chunks(host, sample);
	for (uint32_t i = 0; i < model->chunk_count; i++) {
		catalog_lose(bed.models->catalog, model->chunks[i].digest.bytes);
		memory_arena_free(bed.models->chunks.arena, model->chunks[i].digest.bytes);
	}
}

/* This host is to have a model, with a spool, and the other one has it. */
static void be_without(struct sample *sample)
{
	use_spool();
	push_sample(sample, "net", 1);
	give_away("x", sample, 2);
	donor.samples[0] = sample;
}

/* From now on it can read. */
static void connect_hosts(void)
{
	bed.models->chunks.network.loader = (struct memory_loader *)&donor;
	bed.models->chunks.connected[0] = true;
	donate_poke(&bed.models->donate);
}

static void what_is_fetched_is_held_when_it_is_on_disk(void **state)
{
	struct sample sample;

	(void)state;
	be_without(&sample);
	disk_hang(0);
	connect_hosts();
	wait_until(disk_begun());
	assert_true(chunks_here(&sample) > 0);
	assert_int_equal(chunks_held(&sample), 0);
	disk_reset();
	wait_until(chunks_held(&sample) == sample.image.manifest.chunk_count);
	wait_until(!bed.models->donate.pull);
	free_sample(&sample);
}

static void what_the_disk_has_no_room_for_is_fetched_later(void **state)
{
	struct donate *donate;
	struct sample sample;

	(void)state;
	be_without(&sample);
	donate = &bed.models->donate;
	disk_fail(ENOSPC);
	connect_hosts();
	wait_until(donate->not_before_us);
	assert_null(donate->pull);
	/* Those that were to be stored with the one that failed are not held either. */
	assert_true(chunks_held(&sample) < sample.image.manifest.chunk_count);
	assert_int_equal(chunks_here(&sample), chunks_held(&sample));
	/* As if the time had passed. */
	assert_true(sd_event_source_set_time(bed.models->chunks.disk.probe, 0) >= 0);
	wait_until(!bed.models->chunks.disk.err);
	donate->not_before_us = 0;
	donate_poke(donate);
	wait_until(chunks_held(&sample) == sample.image.manifest.chunk_count);
	free_sample(&sample);
}

static void what_a_pass_wanted_goes_with_the_device(void **state)
{
	struct donate *donate;
	struct sample sample;
	uint64_t before;

	(void)state;
	be_without(&sample);
	donate = &bed.models->donate;
	wait_until(!donate->pass);
	hold_workers();
	before = donate->passes;
	connect_hosts();
	/* It has a device to fetch with, and waits for a thread that says what is to be here. */
	wait_until(donate->passes > before);
	bed.models->chunks.network.loader = NULL;
	donate_disconnect(donate);
	donor.holds = true;
	let_workers_go();
	wait_until(!donate->pass);
	assert_null(donate->pull);
	assert_null(donor.transfer);
	/* The next device is for the next pass. */
	donor.holds = false;
	connect_hosts();
	wait_until(chunks_held(&sample) == sample.image.manifest.chunk_count);
	wait_until(!donate->pull);
	free_sample(&sample);
}

/* What it would be given nobody would have. */
static void a_host_without_rdma_is_given_nothing(void **state)
{
	struct sample sample;

	(void)state;
	be_without(&sample);
	/* The one that has it gives no memory, and the one that gives some cannot fetch it. */
	set_replicas("net", 1);
	put_host("x", 0, 0, "[]");
	put_host_at("y", MEMORY, MEMORY, "[]", "");
	connect_hosts();
	wait_until(chunks_held(&sample) == sample.image.manifest.chunk_count);
	wait_until(!bed.models->donate.pull);
	free_sample(&sample);
}

/* Each model is at one of two other hosts, and is to be here; that of the second comes first. */
static void be_without_two(struct sample *near, struct sample *far, size_t far_layer)
{
	stop_daemon();
	bed.config.donor_memory = 3 * MEMORY;
	start_daemon();
	make_sample(far, "far", 2, far_layer, LAYERS);
	push(far);
	push_sample(near, "near", 1);
	give_away("y", far, 3);
	give_away("x", near, 3);
	donor.samples[0] = near;
	donor.far = far;
}

static void a_host_that_is_not_connected_does_not_keep_chunks_of_others_away(void **state)
{
	struct sample near, far;

	(void)state;
	be_without_two(&near, &far, 300000);
	connect_hosts();
	wait_until(chunks_held(&near) == near.image.manifest.chunk_count);
	assert_int_equal(donor.far_asked, 0);
	assert_int_equal(chunks_here(&far), 0);
	wait_until(!bed.models->donate.pull);
	free_sample(&near);
	free_sample(&far);
}

static void what_has_come_is_kept_if_the_rest_has_not(void **state)
{
	struct donate *donate;
	struct sample sample;
	uint32_t all;

	(void)state;
	be_without(&sample);
	donate = &bed.models->donate;
	all = sample.image.manifest.chunk_count;
	donor.lacks = all / 2;
	connect_hosts();
	wait_until(chunks_held(&sample) == all - 1);
	/* The last one is not forgotten. */
	donor.lacks = UINT32_MAX;
	wait_until(chunks_held(&sample) == all && !donate->pull);
	free_sample(&sample);
}

static void more_than_a_fetch_that_fails_does_not_hold_up_what_comes_after_it(void **state)
{
	struct sample near, far;

	(void)state;
	/* More than is fetched at a time, from a host that says of each chunk that it is lost. */
	be_without_two(&near, &far, 3000000);
	bed.models->chunks.connected[FAR] = true;
	connect_hosts();
	wait_until(chunks_held(&near) == near.image.manifest.chunk_count);
	assert_true(donor.far_asked > 0);
	assert_int_equal(chunks_here(&far), 0);
	wait_until(!bed.models->donate.pull);
	free_sample(&near);
	free_sample(&far);
}

/* Files of the spool that are no whole chunk. */
static unsigned int partial_files(void)
{
	unsigned int count = 0;
	struct dirent *entry;
	DIR *spool = opendir(bed.config.spool);

	assert_non_null(spool);
	while ((entry = readdir(spool)))
		count += entry->d_name[0] != '.' && strchr(entry->d_name, '.');
	closedir(spool);
	return count;
}

static void a_daemon_that_stops_while_it_fetches_leaves_nothing_behind(void **state)
{
	struct memory_arena_stats stats;
	struct sample sample;

	(void)state;
	be_without(&sample);
	disk_hang(0);
	connect_hosts();
	wait_until(disk_begun());
	assert_non_null(bed.models->donate.pull);
	disk_reset();
	stop_daemon();
	start_daemon();
	/* What is there is whole, is told, and nothing else is kept. */
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_equal(partial_files(), 0);
	wait_until(chunks_held(&sample) == chunks_here(&sample));
	memory_arena_stats(bed.models->chunks.arena, &stats);
	assert_int_equal(stats.filling + stats.doomed + stats.pins, 0);
	assert_int_equal(stats.chunks, chunks_here(&sample));
	free_sample(&sample);
}

#define DONATE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_donor, teardown_donor)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DONATE_TEST(further_copies_go_when_a_replica_has_no_room),
		DONATE_TEST(what_one_of_two_models_wants_here_is_not_given_up),
		DONATE_TEST(what_is_on_its_way_to_the_disk_is_not_given_up),
		DONATE_TEST(what_the_next_pass_wants_here_is_not_given_up),
		DONATE_TEST(what_is_fetched_is_held_when_it_is_on_disk),
		DONATE_TEST(what_the_disk_has_no_room_for_is_fetched_later),
		DONATE_TEST(a_host_without_rdma_is_given_nothing),
		DONATE_TEST(what_a_pass_wanted_goes_with_the_device),
		DONATE_TEST(a_host_that_is_not_connected_does_not_keep_chunks_of_others_away),
		DONATE_TEST(what_has_come_is_kept_if_the_rest_has_not),
		DONATE_TEST(more_than_a_fetch_that_fails_does_not_hold_up_what_comes_after_it),
		DONATE_TEST(a_daemon_that_stops_while_it_fetches_leaves_nothing_behind),
	};

	return cmocka_run_group_tests_name("donate", tests, NULL, NULL);
}
