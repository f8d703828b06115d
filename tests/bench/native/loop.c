// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loop.turn   how long the daemon's event loop keeps everybody waiting at most, in a pool of a
 *             million chunks: while the daemon starts, and models are pushed, listed and shown
 *             again and again by one user, loaded, evicted and deleted; while somebody sends
 *             descriptors whose close takes long, what is no message, and questions without
 *             reading an answer; and while a model of as many chunks as one of 100 GB comes,
 *             is loaded and goes
 *
 * The memory pool's half of distmindd with a fake gpu, in this process. What the loop waited
 * for a processor is not counted.
 */
#include "../../unit/service_host.h"

#include "../../../userspace/common/clock.h"
#include "../../../userspace/memory/check.h"
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#define MODELS 16
#define CHUNKS 65536 /* of each */
#define CHUNK 512
#define MODEL_LAYERS 64
#define LIMIT_MS 20.0
#define BIG_LAYER (8U << 20)
#define SHOWS 8 /* connections that show models without end */
#define ROUNDS 40

#define MANY "many"
#define BATCH 4096 /* chunks in a message */

static double worst;
static uint64_t all_turns, all_buckets[TURNS_BUCKETS];

/* What the phase's longest turn was. */
static void phase(const char *name)
{
	const struct turns *turns = turns_account();
	double ms = (double)turns->longest.us / 1e3;

	fprintf(stderr, "loop.turn: %-12s %8.2f ms in \"%s\" (of %llu turns %llu were late)\n", name,
		ms, turns->longest.what ? turns->longest.what : "",
		(unsigned long long)turns->count, (unsigned long long)turns->late);
	if (ms > worst)
		worst = ms;
	all_turns += turns->count;
	for (unsigned int i = 0; i < TURNS_BUCKETS; i++)
		all_buckets[i] += turns->buckets[i];
	turns_reset();
}

/* All but one in a thousand were shorter than that. */
static void tell_usual(void)
{
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < TURNS_BUCKETS - 1; i++) {
		seen += all_buckets[i];
		if (seen * 1000 >= all_turns * 999)
			break;
	}
	fprintf(stderr, "loop.turn: of %llu turns 99.9 %% were shorter than %.1f ms\n",
		(unsigned long long)all_turns, (double)(1ULL << i) / 1e3);
}

/* The bytes of a chunk of the model that is pushed. */
static void fill_chunk(uint8_t *bytes, uint32_t chunk)
{
	fill_layer(bytes, CHUNK, 77777 + chunk);
}

/* As large in number as real ones, and small in bytes. Those of a number are nowhere. */
static void make_manifest(struct model_manifest *model, const char *name, uint32_t number)
{
	uint64_t each = (uint64_t)CHUNKS / MODEL_LAYERS * CHUNK;
	char text[64];

	*model = (struct model_manifest){
		.size = (uint64_t)CHUNKS * CHUNK, .tensor_count = MODEL_LAYERS,
		.chunk_count = CHUNKS, .layer_count = MODEL_LAYERS,
		.tensors = calloc(MODEL_LAYERS, sizeof(*model->tensors)),
		.chunks = calloc(CHUNKS, sizeof(*model->chunks)),
		.layers = calloc(MODEL_LAYERS, sizeof(*model->layers)),
	};
	model->name = strdup(name);
	for (uint32_t i = 0; i < MODEL_LAYERS; i++) {
		snprintf(text, sizeof(text), "layer%02u", i);
		model->layers[i].name = strdup(text);
		model->layers[i].tensors = 1;
		model->layers[i].bytes = each;
		snprintf(text, sizeof(text), "layer%02u.w", i);
		model->tensors[i] = (struct model_manifest_tensor){
			.name = strdup(text), .offset = i * each, .size = each,
			.shape = { .dtype = MODEL_U8, .rank = 1, .extent = { each } },
			.chunk = i * (CHUNKS / MODEL_LAYERS),
		};
	}
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint64_t seed = (uint64_t)number * CHUNKS + i;

		model->chunks[i].offset = (uint64_t)i * CHUNK;
		model->chunks[i].size = CHUNK;
		model_digest_make(&seed, sizeof(seed), &model->chunks[i].digest);
	}
}

static void make_real(struct model_manifest *model)
{
	uint8_t bytes[CHUNK];

	make_manifest(model, MANY, 0);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		fill_chunk(bytes, i);
		model_digest_make(bytes, CHUNK, &model->chunks[i].digest);
		model->chunks[i].checksum = memory_checksum(bytes, CHUNK);
	}
}

/* The host x has all of them. */
static void put_all(struct model_manifest *models)
{
	struct sample all = { 0 };
	struct model_manifest *union_of = &all.image.manifest;

	union_of->chunk_count = MODELS * CHUNKS;
	union_of->chunks = calloc(union_of->chunk_count, sizeof(*union_of->chunks));
	for (uint32_t i = 0; i < MODELS; i++)
		memcpy(union_of->chunks + i * CHUNKS, models[i].chunks,
		       CHUNKS * sizeof(*union_of->chunks));
	put_host("x", 1ULL << 40, 1ULL << 40, "[]");
	put_chunks("x", &all);
	free(union_of->chunks);
}

/* As if that host had pushed it. The daemon has read it when this returns. */
static void put_model(struct model_manifest *model, uint32_t number)
{
	struct catalog_model record = {
		.replicas = 1, .complete = true, .generation = 1, .host = "x",
		.access = CATALOG_ACCESS_DEFAULT,
	};
	const struct catalog_model *seen;
	struct model_digest sha256;
	char key[256], *text;
	size_t size;

	assert_int_equal(model_manifest_encode(model, &text, &size), 0);
	strcpy(record.name, model->name);
	snprintf(record.upload, sizeof(record.upload), "%032x", number);
	record.size = size;
	record.parts = (unsigned int)((size + CATALOG_VALUE_MAX - 1) / CATALOG_VALUE_MAX);
	assert_int_equal(model_digest_make(text, size, &sha256), 0);
	memcpy(record.sha256, sha256.bytes, sizeof(record.sha256));
	for (unsigned int i = 0; i < record.parts; i++) {
		size_t at = (size_t)i * CATALOG_VALUE_MAX, left = size - at;

		snprintf(key, sizeof(key), "%s/part/%s/%04u", bed.config.pool, record.upload, i);
		put_key(key, text + at, left < CATALOG_VALUE_MAX ? left : CATALOG_VALUE_MAX);
	}
	free(text);
	text = catalog_model_text(&record);
	snprintf(key, sizeof(key), "%s/view/model/%s", bed.config.pool, record.name);
	put_key(key, text, strlen(text));
	free(text);
	wait_until((seen = catalog_model_find(bed.models->catalog, record.name)) && seen->known);
}

/* One user asks and asks, another one wants a list. */
static void show_and_list(void)
{
	int shows[SHOWS], list = connect_client();
	unsigned int answers = 0, lists = 0;
	struct message message;
	char name[16];
	const char *why;

	be_somebody(1001);
	for (int i = 0; i < SHOWS; i++) {
		shows[i] = connect_client();
		be_somebody(1000);
		snprintf(name, sizeof(name), "model%02d", i % MODELS);
		say(shows[i], op("show", name), NULL, 0);
	}
	while (lists < ROUNDS || answers < SHOWS) {
		message = ask(list, json_pack("{s:s}", "op", "list"), NULL, 0);
		expect_ok(&message);
		message_clear(&message);
		lists++;
		for (int i = 0; i < SHOWS; i++) {
			if (message_receive(shows[i], &message, &why) == -EAGAIN)
				continue;
			expect_ok(&message);
			message_clear(&message);
			answers++;
			snprintf(name, sizeof(name), "model%02d", (i + (int)answers) % MODELS);
			say(shows[i], op("show", name), NULL, 0);
		}
	}
	hang_up(list);
	for (int i = 0; i < SHOWS; i++)
		hang_up(shows[i]);
}

static void send_lingering(int fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger time = { .l_onoff = 1, .l_linger = 2 };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), client, server;
	socklen_t len = sizeof(address);
	static const char bytes[65536];
	json_t *body = json_pack("{s:s}", "op", "list");

	assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(client, (struct sockaddr *)&address, len), 0);
	server = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_int_equal(setsockopt(client, SOL_SOCKET, SO_LINGER, &time, sizeof(time)), 0);
	while (send(client, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(message_send(fd, body, &client, 1), 0);
	json_decref(body);
	close(client);
	close(listener);
	/* It stays open, and nobody reads from it, until the process ends. */
	(void)server;
}

static void descriptors(void)
{
	int hostile[4], fd = connect_client();
	struct message reply;

	for (int i = 0; i < 4; i++) {
		hostile[i] = connect_client();
		be_somebody(1002);
		send_lingering(hostile[i]);
	}
	for (int i = 0; i < ROUNDS; i++) {
		reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
		expect_ok(&reply);
		message_clear(&reply);
	}
	assert_true(errands_of(bed.models->errands, 1002) > 0);
	for (int i = 0; i < 4; i++)
		close(hostile[i]);
	hang_up(fd);
	wait_until(!errands_of(bed.models->errands, 1002));
}

static void load_and_evict(const char *name)
{
	int fd = connect_client();
	struct message reply = ask(fd, load_op(name), NULL, 0);

	expect_ok(&reply);
	message_clear(&reply);
	phase("load");
	hang_up(fd);
	fd = connect_client();
	reply = ask(fd, op("evict", name), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	phase("evict");
}

/*
 * A model of many chunks, from the push to the delete
 */

static void send_batch(int fd, uint32_t first)
{
	uint8_t *bytes = malloc(BATCH * CHUNK);
	struct message reply;
	int batch;

	for (uint32_t i = 0; i < BATCH; i++)
		fill_chunk(bytes + (size_t)i * CHUNK, first + i);
	batch = message_memfd(bytes, BATCH * CHUNK);
	free(bytes);
	reply = ask(fd, chunk_op(first, BATCH), &batch, 1);
	close(batch);
	expect_ok(&reply);
	message_clear(&reply);
}

static void push_many(void)
{
	struct model_manifest model;
	int fd = connect_client(), manifest;
	struct message reply;
	char *text;
	size_t len;

	make_real(&model);
	assert_int_equal(model_manifest_encode(&model, &text, &len), 0);
	model_manifest_destroy(&model);
	manifest = message_memfd(text, len);
	free(text);
	turns_reset();
	reply = ask(fd, op("push", MANY), &manifest, 1);
	close(manifest);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "missing"), CHUNKS);
	message_clear(&reply);
	phase("push begins");
	for (uint32_t i = 0; i < CHUNKS; i += BATCH)
		send_batch(fd, i);
	phase("push chunks");
	reply = ask(fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	phase("push ends");
}

/*
 * Those who do not keep to the rules
 */

static void rude_clients(void)
{
	static const char half[] = "{\"op\": \"li";
	int deaf = connect_client(), odd[16], fd = connect_client();
	json_t *body = json_pack("{s:s}", "op", "status");
	struct message reply;

	be_somebody(1003);
	/* It asks, and reads no answer. */
	for (int i = 0; i < 1000 && !message_send(deaf, body, NULL, 0); i++)
		assert_true(turns_run(bed.loop, 0) >= 0);
	json_decref(body);
	for (int i = 0; i < 16; i++) {
		odd[i] = connect_client();
		be_somebody(1004);
		assert_true(send(odd[i], half, sizeof(half) - 1, MSG_NOSIGNAL) > 0);
	}
	for (int i = 0; i < ROUNDS; i++) {
		reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
		expect_ok(&reply);
		message_clear(&reply);
	}
	for (int i = 0; i < 16; i++)
		close(odd[i]);
	close(deaf);
	hang_up(fd);
}

/* With all of that in the catalog. */
static void start_again(void)
{
	uint64_t begin = clock_us();
	const struct catalog_model *seen;
	char name[16];

	stop_daemon();
	begin = clock_us();
	start_daemon();
	fprintf(stderr, "loop.turn: ready after %.0f ms\n", (double)(clock_us() - begin) / 1e3);
	turns_reset();
	for (uint32_t i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "model%02u", i);
		wait_until((seen = catalog_model_find(bed.models->catalog, name)) && seen->known);
	}
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	show_and_list();
	phase("start");
}

static void delete_model(const char *name)
{
	int fd = connect_client();
	struct message reply = ask(fd, op("delete", name), NULL, 0);

	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
}

static void loop_turn(void **state)
{
	static struct model_manifest models[MODELS];
	struct sample big;
	char name[16];

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 512U << 20;
	fake.memory = 1U << 30;
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	for (uint32_t i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "model%02u", i);
		make_manifest(&models[i], name, i);
	}
	turns_reset();
	put_all(models);
	phase("reports");
	for (uint32_t i = 0; i < MODELS; i++)
		put_model(&models[i], i);
	phase("models");
	make_sample(&big, "big", 1, BIG_LAYER, LAYERS);
	push(&big);
	phase("push big");
	show_and_list();
	phase("show, list");
	descriptors();
	phase("descriptors");
	load_and_evict("big");
	delete_model("big");
	wait_until(!arena_bytes());
	phase("delete big");
	push_many();
	load_and_evict(MANY);
	delete_model(MANY);
	wait_until(!arena_bytes() && giving_is_over(&bed.models->donate.giving));
	phase("delete many");
	rude_clients();
	phase("rude clients");
	start_again();
	delete_model("model00");
	wait_until(!catalog_model_find(bed.models->catalog, "model00"));
	phase("delete");
	free_sample(&big);
	for (uint32_t i = 0; i < MODELS; i++)
		model_manifest_destroy(&models[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { SERVICE_TEST(loop_turn) };
	int out = dup(STDOUT_FILENO), failed;

	/* The report alone is for stdout. */
	dup2(STDERR_FILENO, STDOUT_FILENO);
	failed = cmocka_run_group_tests_name("loop", tests, NULL, NULL);
	fflush(stdout);
	dup2(out, STDOUT_FILENO);
	close(out);
	if (!failed)
		tell_usual();
	if (!failed)
		bench_report("loop.turn", worst, "ms", "the longest that a turn may take",
			     LIMIT_MS, LIMIT_MS / worst);
	return failed;
}
