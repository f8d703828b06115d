// SPDX-License-Identifier: GPL-2.0-or-later
/* Weights that are read from another host, and the cache that keeps what was read. */
#include "../../userspace/distmindd/pool/rdma.h"
#include "rdma_fake.h"

#define CACHE (16U << 20)

static int setup_cache(void **state)
{
	donor = (struct donor){ .damaged = UINT32_MAX, .lacks = UINT32_MAX };
	if (setup(state))
		return -1;
	stop_daemon();
	bed.config.cache_memory = CACHE;
	bed.config.donor_memory = 32U << 20;
	start_daemon();
	fake.copy_lanes = 1;
	return 0;
}

/* A model of which this host has only the first chunks. */
static void give_away(struct sample *sample, size_t number, const char *name, size_t layer_bytes,
		      uint32_t stay)
{
	const struct model_manifest *model = &sample->image.manifest;

	make_sample(sample, name, (uint32_t)number + 1, layer_bytes, LAYERS);
	push(sample);
	donor.samples[number] = sample;
	/* This host, to which they belong, does not fetch them back. */
	bed.models->donate.not_before_us = UINT64_MAX;
	wait_until(!bed.models->donate.pass);
	for (uint32_t i = stay; i < model->chunk_count; i++)
		assert_int_equal(memory_arena_free(bed.models->chunks.arena,
						   model->chunks[i].digest.bytes),
				 0);
}

static uint64_t bytes_from(const struct sample *sample, uint32_t first)
{
	uint64_t bytes = 0;

	for (uint32_t i = first; i < sample->image.manifest.chunk_count; i++)
		bytes += sample->image.manifest.chunks[i].size;
	return bytes;
}

/* Loads, checks what is there, and ends the use. Returns the bytes that were read. */
static uint64_t load(struct sample *sample)
{
	int fd = connect_client();
	struct message reply = ask(fd, load_op(sample->image.manifest.name), NULL, 0);
	uint64_t bytes = (uint64_t)field(&reply, "read_bytes");

	assert_false(json_is_true(json_object_get(reply.body, "cached")));
	if (donor.damaged == UINT32_MAX)
		check_weights(&reply, sample);
	message_clear(&reply);
	hang_up(fd);
	let_memory_go();
	return bytes;
}

static void evict(const struct sample *sample)
{
	int fd = connect_client();
	struct message reply = ask(fd, op("evict", sample->image.manifest.name), NULL, 0);

	expect_ok(&reply);
	assert_true(field(&reply, "freed_bytes") > 0);
	message_clear(&reply);
	hang_up(fd);
}

static bool keeping(void)
{
	return !TAILQ_EMPTY(&bed.models->weights.keep.jobs);
}

static uint64_t cached_bytes(void)
{
	struct cache_stats stats;

	cache_stats(bed.models->chunks.cache, &stats);
	return stats.bytes;
}

static void an_evicted_model_comes_back_without_reads(void **state)
{
	struct sample sample;
	json_t *list, *cache;
	struct message reply;
	int fd;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	assert_int_equal(load(&sample), bytes_from(&sample, 0));
	wait_until(!keeping());
	assert_int_equal(cached_bytes(), bytes_from(&sample, 0));
	evict(&sample);
	assert_int_equal(load(&sample), 0);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	list = document(&reply);
	cache = json_object_get(list, "cache");
	assert_int_equal(json_integer_value(json_object_get(cache, "size")), CACHE);
	assert_int_equal(json_integer_value(json_object_get(cache, "hits")),
			 sample.image.manifest.chunk_count);
	assert_int_equal(json_integer_value(json_object_get(cache, "misses")),
			 sample.image.manifest.chunk_count);
	json_decref(list);
	hang_up(fd);
	free_sample(&sample);
}

static void what_this_host_donates_is_not_cached_too(void **state)
{
	struct sample sample;

	(void)state;
	give_away(&sample, 0, "net", 300000, 3);
	assert_int_equal(load(&sample), bytes_from(&sample, 3));
	wait_until(!keeping());
	assert_int_equal(cached_bytes(), bytes_from(&sample, 3));
	free_sample(&sample);
}

static void keeping_ends_with_the_eviction(void **state)
{
	struct keep *keep = &bed.models->weights.keep;
	struct sample sample;

	(void)state;
	give_away(&sample, 0, "net", 2000000, 0);
	/* As if there were another load: nothing is kept but in the one turn between the two. */
	keep_load_begins(keep);
	load_once(&sample);
	wait_until(keeping());
	keep_load_ends(keep);
	wait_until(cached_bytes());
	keep_load_begins(keep);
	assert_true(keeping());
	evict(&sample);
	assert_false(keeping());
	assert_true(cached_bytes() < bytes_from(&sample, 0));
	keep_load_ends(keep);
	load(&sample);
	wait_until(!keeping());
	assert_int_equal(cached_bytes(), bytes_from(&sample, 0));
	free_sample(&sample);
}

static void keeping_waits_for_loads(void **state)
{
	struct sample a, b;
	int fd, first;

	(void)state;
	give_away(&a, 0, "a", 300000, 0);
	give_away(&b, 1, "b", 300000, 0);
	fd = connect_client();
	first = connect_client();
	/* There is no time to keep anything before the next load. */
	load_sample(first, &a);
	donor.holds = true;
	say(fd, load_op("b"), NULL, 0);
	wait_until(donor.transfer);
	assert_int_equal(cached_bytes(), 0);
	for (int turns = 0; turns < 20; turns++)
		assert_true(sd_event_run(bed.loop, 0) >= 0);
	assert_int_equal(cached_bytes(), 0);
	assert_true(sd_event_source_set_enabled(donor.transfer->turn, SD_EVENT_ONESHOT) >= 0);
	receive_weights(fd, &b);
	wait_until(!keeping());
	assert_int_equal(cached_bytes(), bytes_from(&a, 0) + bytes_from(&b, 0));
	hang_up(first);
	hang_up(fd);
	free_sample(&a);
	free_sample(&b);
}

static void bytes_that_arrived_damaged_are_not_cached(void **state)
{
	struct sample sample;
	uint32_t size;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	donor.damaged = 2;
	load(&sample);
	wait_until(!keeping());
	size = sample.image.manifest.chunks[2].size;
	assert_int_equal(cached_bytes(), bytes_from(&sample, 0) - size);
	evict(&sample);
	donor.damaged = UINT32_MAX;
	assert_int_equal(load(&sample), size);
	free_sample(&sample);
}

static void a_cached_chunk_that_is_damaged_is_read_again(void **state)
{
	const struct model_chunk *chunk;
	struct cache_chunk *cached;
	struct sample sample;
	struct cache_stats before, after;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	load(&sample);
	wait_until(!keeping());
	evict(&sample);
	cache_stats(bed.models->chunks.cache, &before);
	chunk = &sample.image.manifest.chunks[2];
	cached = cache_pin(bed.models->chunks.cache, chunk, 0);
	*(uint8_t *)(uintptr_t)cache_data(cached) ^= 1;
	cache_unpin(bed.models->chunks.cache, cached, false);
	/* By the same load, which nobody asked to look: load() compares the bytes. */
	load(&sample);
	cache_stats(bed.models->chunks.cache, &after);
	assert_int_equal(after.evictions, before.evictions + 1);
	wait_until(!keeping());
	evict(&sample);
	assert_int_equal(load(&sample), 0);
	free_sample(&sample);
}

/* A model that is larger than the ring through which it comes. */
#define STAGED_LAYER 4700000

static void a_chunk_that_is_lacking_in_a_later_round_is_named(void **state)
{
	const struct model_manifest *model;
	char text[MODEL_DIGEST_TEXT_LEN];
	struct sample sample;
	int fd;

	(void)state;
	give_away(&sample, 0, "net", STAGED_LAYER, 0);
	model = &sample.image.manifest;
	donor.lacks = model->chunk_count - 2;
	model_digest_format(&model->chunks[donor.lacks].digest, text);
	text[16] = '\0';
	fd = connect_client();
	expect_refusal(fd, staged_op("net"), NULL, 0, "ENOENT", text);
	/* It was found out after the ring had been filled once. */
	assert_true(fake.failed_value > STAGING_LEAST / STAGING_GROUP_LEAST);
	wait_until(!fake.buffers);
	hang_up(fd);
	free_sample(&sample);
}

static void a_transfer_that_waits_for_a_place_is_cancelled(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	give_away(&sample, 0, "net", STAGED_LAYER, 0);
	fake.copies_wait = true;
	fd = connect_client();
	say(fd, staged_op("net"), NULL, 0);
	wait_until(donor.transfer && donor.transfer->done == donor.transfer->allowed);
	hang_up(fd);
	wait_until(!fake.buffers);
	assert_null(donor.transfer);
	assert_null(fake_queue);
	free_sample(&sample);
}

static json_t *wait_op(const char *model, const char *priority, int deadline_ms)
{
	json_t *body = load_op(model);

	json_object_set_new(body, "class", json_string(priority));
	json_object_set_new(body, "deadline_ms", json_integer(deadline_ms));
	return body;
}

/* The client of a load that the donor has been asked for, and does not answer. */
static int hold_load(json_t *body)
{
	int fd = connect_client();

	donor.holds = true;
	say(fd, body, NULL, 0);
	wait_until(donor.transfer);
	return fd;
}

static void a_load_that_was_given_up_is_not_given_to_the_next(void **state)
{
	struct sample sample;
	int a, b;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	a = hold_load(load_op("net"));
	b = connect_client();
	hang_up(a);
	wait_until(donor.transfer->cancelled);
	/* Somebody else, who need not wait until it is gone. */
	fake.tenant_uid = 1000;
	say(b, load_op("net"), NULL, 0);
	wait_until(!donor.transfer->cancelled);
	donor.holds = false;
	go_on(donor.transfer->before);
	go_on(donor.transfer);
	receive_weights(b, &sample);
	hang_up(b);
	wait_until(!donor.transfer);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	free_sample(&sample);
}

static void who_joins_a_load_does_not_inherit_its_deadline(void **state)
{
	struct sample sample;
	int a, b;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	a = hold_load(wait_op("net", "background", 1));
	b = connect_client();
	say(b, wait_op("net", "latency", 5000), NULL, 0);
	wait_until(donor.transfer->deadline_ns > 1000000);
	assert_int_equal(donor.transfer->deadline_ns, 5000000000);
	assert_int_equal(donor.transfer->class, MEMORY_LATENCY);
	donor.holds = false;
	go_on(donor.transfer);
	receive_weights(b, &sample);
	hang_up(a);
	hang_up(b);
	free_sample(&sample);
}

/* A client of the load, which has been heard of. */
static int begin_load(json_t *body)
{
	int fd = connect_client();

	say(fd, body, NULL, 0);
	wait_until(bed.models->service.clients->use);
	return fd;
}

static void who_joins_a_load_that_has_no_memory_yet_does_not_inherit_its_deadline(void **state)
{
	struct sample sample;
	int fds[3];

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	donor.holds = true;
	pthread_mutex_lock(&fake_making);
	fds[0] = begin_load(wait_op("net", "background", 1));
	fds[1] = begin_load(wait_op("net", "latency", 5000));
	/* Nor does anybody lose by who comes later. */
	fds[2] = begin_load(wait_op("net", "background", 2));
	pthread_mutex_unlock(&fake_making);
	wait_until(donor.transfer);
	assert_int_equal(donor.transfer->deadline_ns, 5000000000);
	assert_int_equal(donor.transfer->class, MEMORY_LATENCY);
	donor.holds = false;
	go_on(donor.transfer);
	for (int i = 0; i < 3; i++) {
		receive_weights(fds[i], &sample);
		hang_up(fds[i]);
	}
	free_sample(&sample);
}

/* As when the gpu is lost. */
static void a_load_whose_copies_fail_before_it_is_prepared_ends_once(void **state)
{
	struct resident *load;
	struct sample sample;
	int fd;

	(void)state;
	give_away(&sample, 0, "net", 300000, 0);
	fd = connect_client();
	hold_workers();
	say(fd, staged_op("net"), NULL, 0);
	/* The order of the READs is being worked out. */
	wait_until((load = TAILQ_FIRST(&bed.models->weights.loads)) && load->fill &&
		   fill_is_busy(load->fill));
	assert_true(load->preparing);
	fake_fail_copies(-EIO);
	for (int turns = 0; turns < 20; turns++)
		assert_true(sd_event_run(bed.loop, 0) >= 0);
	assert_true(load->preparing);
	let_workers_go();
	expect_refused(fd, "EIO", "a copy into the gpu's memory failed");
	wait_until(!fake.buffers);
	assert_null(fake_queue);
	assert_null(donor.transfer);
	hang_up(fd);
	free_sample(&sample);
}

/* The manifest is wrong about a chunk that this host has, and is asked for elsewhere. */
static void a_chunk_of_another_size_is_not_copied(void **state)
{
	struct model_chunk *last;
	struct manifest *manifest;
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	give_away(&sample, 0, "net", 300000, UINT32_MAX);
	manifest = manifests_find(catalog_model_find(bed.models->catalog, "net"));
	last = &manifest->model.chunks[manifest->model.chunk_count - 1];
	last->size--;
	fd = connect_client();
	reply = ask(fd, load_op("net"), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "read_bytes"), last->size);
	message_clear(&reply);
	hang_up(fd);
	free_sample(&sample);
}

#define WEIGHTS_TEST(name) cmocka_unit_test_setup_teardown(name, setup_cache, teardown)

/* Devices of which nothing is looked at. */
static struct memory_fabric devices[2];

/* Nothing is held of it when it goes. */
static void end_device(void)
{
	let_memory_go();
	bed.models->chunks.network.fabric = NULL;
	assert_int_equal(devices[0].holds, 0);
	assert_int_equal(devices[1].holds, 0);
}

static void a_device_that_comes_while_a_load_is_prepared_knows_its_memory(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	rdma_stop(&bed.models->chunks);
	give_away(&sample, 0, "net", 300000, 0);
	fd = connect_client();
	pthread_mutex_lock(&fake_making);
	donor.holds = true;
	say(fd, load_op("net"), NULL, 0);
	wait_until(bed.models->service.clients->use);
	bed.models->chunks.network.fabric = &devices[0];
	pthread_mutex_unlock(&fake_making);
	wait_until(donor.transfer);
	for (uint32_t i = 0; i < donor.transfer->piece_count; i++)
		assert_int_equal(donor.transfer->pieces[i].lkey, FAKE_LKEY);
	donor.holds = false;
	go_on(donor.transfer);
	receive_weights(fd, &sample);
	end_device();
	hang_up(fd);
	free_sample(&sample);
}

/* Its registration went with the device; the next one does not know the memory. */
static void nothing_is_read_by_a_device_that_does_not_know_the_memory(void **state)
{
	struct resident *load;
	struct sample sample;
	int fd;

	(void)state;
	rdma_stop(&bed.models->chunks);
	push_sample(&sample, "net", 1);
	damage_chunk(&sample, 1);
	bed.models->chunks.network.fabric = &devices[0];
	fd = connect_client();
	hold_workers();
	say(fd, load_op("net"), NULL, 0);
	wait_until((load = TAILQ_FIRST(&bed.models->weights.loads)) && load->fill &&
		   fill_is_busy(load->fill));
	memory_registration_end(&load->registration);
	bed.models->chunks.network.fabric = &devices[1];
	let_workers_go();
	expect_refused(fd, "ENODEV", "try again");
	assert_null(donor.transfer);
	end_device();
	hang_up(fd);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WEIGHTS_TEST(an_evicted_model_comes_back_without_reads),
		WEIGHTS_TEST(what_this_host_donates_is_not_cached_too),
		WEIGHTS_TEST(keeping_ends_with_the_eviction),
		WEIGHTS_TEST(keeping_waits_for_loads),
		WEIGHTS_TEST(bytes_that_arrived_damaged_are_not_cached),
		WEIGHTS_TEST(a_cached_chunk_that_is_damaged_is_read_again),
		WEIGHTS_TEST(a_chunk_that_is_lacking_in_a_later_round_is_named),
		WEIGHTS_TEST(a_transfer_that_waits_for_a_place_is_cancelled),
		WEIGHTS_TEST(a_load_that_was_given_up_is_not_given_to_the_next),
		WEIGHTS_TEST(who_joins_a_load_does_not_inherit_its_deadline),
		WEIGHTS_TEST(who_joins_a_load_that_has_no_memory_yet_does_not_inherit_its_deadline),
		WEIGHTS_TEST(a_load_whose_copies_fail_before_it_is_prepared_ends_once),
		WEIGHTS_TEST(a_chunk_of_another_size_is_not_copied),
		WEIGHTS_TEST(a_device_that_comes_while_a_load_is_prepared_knows_its_memory),
		WEIGHTS_TEST(nothing_is_read_by_a_device_that_does_not_know_the_memory),
	};

	return cmocka_run_group_tests_name("weights_read", tests, NULL, NULL);
}
