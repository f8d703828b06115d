// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loop.turn   how long the daemon's event loop keeps everybody waiting at most, in a pool of a
 *             million chunks: while models are pushed, listed and shown again and again by one
 *             user, loaded, evicted and deleted, and while somebody sends descriptors whose
 *             close takes long
 *
 * The memory pool's half of distmindd with a fake gpu, in this process. What the loop waited
 * for a processor is not counted.
 */
#include "../../unit/service_host.h"

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

static double worst;

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
	turns_reset();
}

/* As large in number as real ones, and small in bytes. Its bytes are nowhere. */
static void make_manifest(struct model_manifest *model, uint32_t number)
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
	snprintf(text, sizeof(text), "model%02u", number);
	model->name = strdup(text);
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

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 128U << 20;
	fake.memory = 1U << 30;
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	for (uint32_t i = 0; i < MODELS; i++)
		make_manifest(&models[i], i);
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
		bench_report("loop.turn", worst, "ms", "the longest that a turn may take",
			     LIMIT_MS, LIMIT_MS / worst);
	return failed;
}
