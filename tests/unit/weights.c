// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Weights: one copy for all who use a model on a gpu, kept until room is needed, and gone
 * with the load that fails, the client that goes, the gpu that is lost.
 */
#include "../../userspace/distmindd/pool/weights_state.h"
#include "service_bed.h"

static void one_copy_is_shared_until_the_last_use_ends(void **state)
{
	struct sample sample;
	struct message first, second, reply;
	int a, b, c;

	(void)state;
	push_sample(&sample, "net", 1);
	a = connect_client();
	b = connect_client();
	c = connect_client();
	first = ask(a, load_op("net"), NULL, 0);
	second = ask(b, load_op("net"), NULL, 0);
	check_weights(&second, &sample);
	assert_true(json_is_true(json_object_get(second.body, "cached")));
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	message_clear(&first);
	message_clear(&second);
	reply = ask(a, op("state", "net"), NULL, 0);
	assert_true(json_is_false(json_object_get(reply.body, "loading")));
	message_clear(&reply);
	expect_refusal(a, load_op("net"), NULL, 0, "EBUSY", "is the use of a model already");
	expect_refusal(c, op("evict", "net"), NULL, 0, "EBUSY", "2 uses");
	hang_up(a);
	expect_refusal(c, op("evict", "net"), NULL, 0, "EBUSY", "1 uses");
	hang_up(b);
	/* Cached, until somebody says otherwise. */
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	reply = ask(c, op("evict", "net"), NULL, 0);
	expect_ok(&reply);
	assert_true(field(&reply, "freed_bytes") >= LAYERS * 300000);
	message_clear(&reply);
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	assert_int_equal(fake.used, 0);
	hang_up(c);
	free_sample(&sample);
}

/* The only load has given the workers something to copy. */
static bool waits_for_workers(void)
{
	const struct resident *resident = bed.models->weights.devices->residents;

	return resident->fill && fill_is_busy(resident->fill);
}

static void a_load_whose_client_goes_ends(void **state)
{
	struct message reply;
	struct sample sample;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 2000000, LAYERS);
	push(&sample);
	fd = connect_client();
	hold_workers();
	reply = ask(fd,
		    json_pack("{s:s, s:s, s:i}", "op", "load", "model", "net", "vgpu", FAKE_TENANT),
		    NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	wait_until(waits_for_workers());
	hang_up(fd);
	/* Its memory stays as long as somebody copies into it. */
	assert_int_equal(fake.buffers, 1);
	let_workers_go();
	wait_until(!fake.buffers);
	assert_int_equal(fake.failed_error, -ECANCELED);
	free_sample(&sample);
}

static void a_load_that_nobody_wants_before_it_begins_is_none(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 2000000, LAYERS);
	push(&sample);
	fd = connect_client();
	say(fd, load_op("net"), NULL, 0);
	wait_until(fake.buffers);
	hang_up(fd);
	wait_until(!fake.buffers);
	let_memory_go();
	/* The next one is not disturbed by it. */
	load_once(&sample);
	free_sample(&sample);
}

static void the_least_useful_copy_makes_room(void **state)
{
	struct sample a, b;
	struct weights_place places[4];
	int fd;

	(void)state;
	fake.memory = 3U << 20;
	push_sample(&a, "a", 1);
	push_sample(&b, "b", 2);
	load_once(&a);
	/* What a load still has hold of cannot make room, and the answer comes before its end. */
	let_memory_go();
	fd = connect_client();
	load_sample(fd, &b);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	assert_int_equal(weights_places(&bed.models->weights, places, 4), 1);
	assert_ptr_equal(places[0].manifest,
			 manifests_find(catalog_model_find(bed.models->catalog, "b")));
	assert_int_equal(places[0].gpu, FAKE_GPU);
	hang_up(fd);
	free_sample(&a);
	free_sample(&b);
}

/* Each of them takes more than half of what a turn may. */
static void copies_make_room_for_no_longer_than_a_turn(void **state)
{
	struct sample samples[6], large;
	char name[16];

	(void)state;
	for (uint32_t i = 0; i < COUNT(samples); i++) {
		snprintf(name, sizeof(name), "small%u", i);
		make_sample(&samples[i], name, i + 1, 4096, LAYERS);
		push(&samples[i]);
		load_once(&samples[i]);
		free_sample(&samples[i]);
	}
	push_sample(&large, "large", 100);
	let_memory_go();
	assert_int_equal(fake.buffers, COUNT(samples));
	/* All would have to go. */
	fake.memory = large.image.manifest.size + 4096;
	fake.set_us = 3000;
	load_once(&large);
	fake.set_us = 0;
	let_memory_go();
	assert_in_range(fake.buffers, 1 + COUNT(samples) - 3, COUNT(samples));
	free_sample(&large);
}

static void what_comes_before_the_first_byte_is_measured_and_predicted(void **state)
{
	const struct model_manifest *model;
	struct grouping with, without;
	struct grouping_rates rates;
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 2000000, LAYERS);
	push(&sample);
	fd = connect_client();
	reply = ask(fd, load_op("net"), NULL, 0);
	message_clear(&reply);
	wait_until(bed.models->weights.begin_cost > 0);
	weights_rates(&bed.models->weights, false, &rates);
	assert_true(rates.begin_cost > 0);
	model = &manifests_find(catalog_model_find(bed.models->catalog, "net"))->model;
	rates.begin_cost = 1e-6;
	assert_int_equal(grouping_make(&with, model, &rates), 0);
	rates.begin_cost = 0;
	assert_int_equal(grouping_make(&without, model, &rates), 0);
	assert_int_equal(with.predicted_ns - without.predicted_ns, model->size * 1000);
	grouping_clear(&with);
	grouping_clear(&without);
	hang_up(fd);
	free_sample(&sample);
}

static void staged_weights_come_by_the_copy_lane(void **state)
{
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	fake.copy_lanes = 1;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	reply = ask(fd, staged_op("net"), NULL, 0);
	check_weights(&reply, &sample);
	assert_string_equal(json_string_value(json_object_get(reply.body, "form")), "staged");
	message_clear(&reply);
	/* What was only needed on the way is gone, and with it its quota. */
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	assert_int_equal(fake.timelines, 1);
	assert_null(fake_queue);
	assert_int_equal(fake.quota, fake.used);
	hang_up(fd);
	free_sample(&sample);
}

static void a_preload_has_no_use(void **state)
{
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	reply = ask(fd,
		    json_pack("{s:s, s:s, s:i}", "op", "preload", "model", "net", "gpu", FAKE_GPU),
		    NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	ask_ok(fd, op("evict", "net"));
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	expect_refusal(fd, json_pack("{s:s, s:s, s:i}", "op", "preload", "model", "net", "gpu", 9),
		       NULL, 0, "ENOENT", "gpu 9");
	hang_up(fd);
	free_sample(&sample);
}

static void bytes_that_the_gpu_has_are_copied_from_there(void **state)
{
	struct sample base, tuned;
	const struct model_manifest *model;
	struct memory_chunk *chunk;

	(void)state;
	make_sample(&base, "base", 1, 300000, LAYERS);
	make_sample(&tuned, "tuned", 1, 300000, LAYERS - 1);
	push(&base);
	push(&tuned);
	load_once(&base);
	/* The host loses a chunk that both have: only the gpu has it. */
	model = &base.image.manifest;
	assert_int_equal(memory_arena_pin(bed.models->chunks.arena, model->chunks[0].digest.bytes,
					  &chunk),
			 0);
	assert_int_equal(memory_arena_free(bed.models->chunks.arena, model->chunks[0].digest.bytes),
			 0);
	memory_arena_unpin(bed.models->chunks.arena, chunk);
	load_once(&tuned);
	let_memory_go();
	assert_int_equal(fake.buffers, 2);
	free_sample(&base);
	free_sample(&tuned);
}

static void what_nobody_holds_is_named(void **state)
{
	const struct model_chunk *chunk;
	char text[MODEL_DIGEST_TEXT_LEN];
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	chunk = &sample.image.manifest.chunks[2];
	assert_int_equal(memory_arena_free(bed.models->chunks.arena, chunk->digest.bytes), 0);
	catalog_lose(bed.models->catalog, chunk->digest.bytes);
	wait_until(!catalog_chunk_holders(bed.models->catalog, chunk->digest.bytes, NULL, 0));
	model_digest_format(&chunk->digest, text);
	fd = connect_client();
	expect_refusal(fd, load_op("net"), NULL, 0, "ENODATA", text);
	/* Nothing of it is left. */
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	assert_int_equal(fake.timelines, 0);
	hang_up(fd);
	free_sample(&sample);
}

/* What it has pinned is let go in turns, and it has not begun to load. */
static void a_load_whose_extents_are_refused_leaves_nothing_behind(void **state)
{
	struct memory_arena_stats stats;
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	fake.extents_error = -ENOSPC;
	expect_refusal(fd, load_op("net"), NULL, 0, "ENOSPC", "does not take the extents");
	fake.extents_error = 0;
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	load_sample(fd, &sample);
	hang_up(fd);
	memory_arena_stats(bed.models->chunks.arena, &stats);
	assert_int_equal(stats.pins, 0);
	free_sample(&sample);
}

static void the_timeline_of_a_load_that_fails_fails(void **state)
{
	struct sample sample;
	struct message reply;
	int fd;

	(void)state;
	/* Damaged near the end, so that it is found after the answer. */
	make_sample(&sample, "net", 1, 2000000, LAYERS);
	push(&sample);
	damage_chunk(&sample, sample.image.manifest.chunk_count - 1);
	fd = connect_client();
	expect_refusal(fd, op("state", "net"), NULL, 0, "ENOENT", "load one first");
	reply = ask(fd, verified_later(load_op("net")), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(fake.failures, 0);
	wait_until(fake.failures);
	assert_int_equal(fake.failed_error, -EBADMSG);
	assert_in_range(fake.failed_value, 1, field(&reply, "final"));
	wait_until(!fake.buffers);
	message_clear(&reply);
	expect_refusal(fd, op("state", "net"), NULL, 0, "EBADMSG", "is damaged");
	/* The connection can be used for another try. */
	expect_refusal(fd, load_op("other"), NULL, 0, "ENOENT", "model");
	hang_up(fd);
	free_sample(&sample);
}

static void forget_pool(struct inventory *inventory)
{
	table_free(&inventory->gpus);
	table_free(&inventory->vgpus);
	table_free(&inventory->claims);
}

/* As the daemon's pool would be after the kernel's events. */
static void see_pool(struct inventory *inventory, uint32_t gpu_state, uint64_t claim)
{
	struct inventory_gpu *gpu;
	struct inventory_vgpu *vgpu;

	*inventory = (struct inventory){
		.gpus.size = sizeof(struct inventory_gpu), .vgpus.size = sizeof(struct inventory_vgpu),
		.claims.size = sizeof(struct inventory_claim),
	};
	gpu = table_add(&inventory->gpus, FAKE_GPU);
	gpu->record.state = gpu_state;
	gpu->record.memory = fake.memory;
	vgpu = table_add(&inventory->vgpus, 99);
	vgpu->record.gpu = FAKE_GPU;
	vgpu->record.memory = fake.quota;
	if (claim)
		((struct inventory_claim *)table_add(&inventory->claims, 1))->record.memory = claim;
}

/* And what weights_follow() says to it. */
static bool follow(uint32_t gpu_state, uint64_t claim)
{
	struct inventory inventory;
	bool changed;

	see_pool(&inventory, gpu_state, claim);
	changed = weights_follow(&bed.models->weights, &inventory);
	forget_pool(&inventory);
	return changed;
}

static void a_lost_gpu_takes_its_weights_along(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	ask_ok(fd, load_op("net"));
	assert_false(follow(DISTMIND_GPU_STATE_READY, 0));
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	assert_true(follow(DISTMIND_GPU_STATE_LOST, 0));
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	assert_int_equal(fake.vgpus, 0);
	/* Its user is still there, and can load again. */
	load_sample(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

static void who_waits_for_weights_to_be_verified_is_told_of_a_lost_gpu(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *body;
	int fd;

	(void)state;
	/* More than one turn of the loop hashes. */
	make_sample(&sample, "net", 1, 2000000, LAYERS);
	push(&sample);
	load_once(&sample);
	fd = connect_client();
	body = load_op("net");
	json_object_set_new(body, "verify", json_true());
	say(fd, body, NULL, 0);
	wait_until(bed.models->service.clients->exchange);
	assert_true(follow(DISTMIND_GPU_STATE_LOST, 0));
	/* A worker may have been looking at the memory. */
	wait_until(!fake.buffers);
	reply = receive(fd);
	assert_string_equal(json_string_value(json_object_get(reply.body, "errno")), "EOWNERDEAD");
	message_clear(&reply);
	hang_up(fd);
	free_sample(&sample);
}

static void a_gpu_that_is_drained_is_left_when_the_last_use_ends(void **state)
{
	struct sample used, unused;
	int fd;

	(void)state;
	push_sample(&used, "net", 1);
	push_sample(&unused, "other", 2);
	load_once(&unused);
	fd = connect_client();
	ask_ok(fd, load_op("net"));
	let_memory_go();
	assert_int_equal(fake.buffers, 2);
	follow(DISTMIND_GPU_STATE_DRAINING, 0);
	/* It goes on with what it has. */
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	assert_int_equal(fake.vgpus, 1);
	hang_up(fd);
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	assert_int_equal(fake.vgpus, 0);
	free_sample(&unused);
	free_sample(&used);
}

static void a_claim_that_fits_nowhere_gets_the_room_of_the_cache(void **state)
{
	struct sample sample;
	struct inventory inventory;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	load_once(&sample);
	assert_false(follow(DISTMIND_GPU_STATE_READY, fake.memory - fake.quota));
	/* One that is in use stays. */
	fd = connect_client();
	ask_ok(fd, load_op("net"));
	see_pool(&inventory, DISTMIND_GPU_STATE_READY, fake.memory);
	assert_false(weights_follow(&bed.models->weights, &inventory));
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	hang_up(fd);
	assert_true(weights_follow(&bed.models->weights, &inventory));
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	forget_pool(&inventory);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(one_copy_is_shared_until_the_last_use_ends),
		SERVICE_TEST(a_load_whose_client_goes_ends),
		SERVICE_TEST(a_load_that_nobody_wants_before_it_begins_is_none),
		SERVICE_TEST(the_least_useful_copy_makes_room),
		SERVICE_TEST(copies_make_room_for_no_longer_than_a_turn),
		SERVICE_TEST(what_comes_before_the_first_byte_is_measured_and_predicted),
		SERVICE_TEST(staged_weights_come_by_the_copy_lane),
		SERVICE_TEST(a_preload_has_no_use),
		SERVICE_TEST(bytes_that_the_gpu_has_are_copied_from_there),
		SERVICE_TEST(what_nobody_holds_is_named),
		SERVICE_TEST(a_load_whose_extents_are_refused_leaves_nothing_behind),
		SERVICE_TEST(the_timeline_of_a_load_that_fails_fails),
		SERVICE_TEST(a_lost_gpu_takes_its_weights_along),
		SERVICE_TEST(who_waits_for_weights_to_be_verified_is_told_of_a_lost_gpu),
		SERVICE_TEST(a_gpu_that_is_drained_is_left_when_the_last_use_ends),
		SERVICE_TEST(a_claim_that_fits_nowhere_gets_the_room_of_the_cache),
	};

	return cmocka_run_group_tests_name("weights", tests, NULL, NULL);
}
