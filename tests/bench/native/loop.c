// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * loop.turn   how long the daemon's event loop keeps everybody waiting at most, in a pool of a
 *             million chunks: while the daemon starts, and models are pushed, listed and shown
 *             again and again by one user, loaded, evicted and deleted; while somebody sends
 *             descriptors whose close takes long, what is no message, and questions without
 *             reading an answer; while a model of as many chunks as one of 100 GB, and one of
 *             20,000 layers, come, are loaded and go; and while a daemon that was started again
 *             restores its spool. It fails if somebody's list takes longer than a second
 *             meanwhile
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
#define LIST_LIMIT_MS 1000.0

#define BATCH 4096 /* chunks in a message */

/* A model that is pushed, chunk by chunk. */
struct shape {
	const char *name;
	uint32_t chunks, layers;
	uint32_t seed; /* of its bytes */
};

static const struct shape many = { "many", CHUNKS, MODEL_LAYERS, 77777 };
static const struct shape deep = { "deep", 40000, 20000, 1000000 };
static const struct shape spooled = { "spooled", CHUNKS, MODEL_LAYERS, 2000000 };

static double worst, longest_list;
static uint64_t all_turns, all_buckets[TURNS_BUCKETS];

/* What the longest turn was of a phase, which is about something. */
static void phase_of(const char *what, const char *name)
{
	const struct turns *turns = turns_account();
	double ms = (double)turns->longest.us / 1e3;

	fprintf(stderr, "loop.turn: %-7s %-12s %8.2f ms in \"%s\" (of %llu turns %llu were late)\n",
		what, name, ms, turns->longest.what ? turns->longest.what : "",
		(unsigned long long)turns->count, (unsigned long long)turns->late);
	if (ms > worst)
		worst = ms;
	all_turns += turns->count;
	for (unsigned int i = 0; i < TURNS_BUCKETS; i++)
		all_buckets[i] += turns->buckets[i];
	turns_reset();
}

static void phase(const char *name)
{
	phase_of("", name);
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

/* The bytes of a chunk of a model that is pushed. */
static void fill_chunk(uint8_t *bytes, const struct shape *shape, uint32_t chunk)
{
	fill_layer(bytes, CHUNK, shape->seed + chunk);
}

/* As large in number as real ones, and small in bytes. Its chunks are yet to come. */
static void make_manifest(struct model_manifest *model, const struct shape *shape)
{
	uint32_t of_layer = shape->chunks / shape->layers;
	uint64_t each = (uint64_t)of_layer * CHUNK;
	char text[64];

	*model = (struct model_manifest){
		.size = (uint64_t)shape->chunks * CHUNK, .tensor_count = shape->layers,
		.chunk_count = shape->chunks, .layer_count = shape->layers,
		.tensors = calloc(shape->layers, sizeof(*model->tensors)),
		.chunks = calloc(shape->chunks, sizeof(*model->chunks)),
		.layers = calloc(shape->layers, sizeof(*model->layers)),
	};
	model->name = strdup(shape->name);
	for (uint32_t i = 0; i < shape->layers; i++) {
		snprintf(text, sizeof(text), "layer%02u", i);
		model->layers[i].name = strdup(text);
		model->layers[i].tensors = 1;
		model->layers[i].bytes = each;
		snprintf(text, sizeof(text), "layer%02u.w", i);
		model->tensors[i] = (struct model_manifest_tensor){
			.name = strdup(text), .offset = i * each, .size = each,
			.shape = { .dtype = MODEL_U8, .rank = 1, .extent = { each } },
			.chunk = i * of_layer,
		};
	}
	for (uint32_t i = 0; i < shape->chunks; i++) {
		model->chunks[i].offset = (uint64_t)i * CHUNK;
		model->chunks[i].size = CHUNK;
	}
}

/* Of chunks that are nowhere, but for what the catalog says. */
static void make_absent(struct model_manifest *model, const char *name, uint32_t number)
{
	struct shape shape = { name, CHUNKS, MODEL_LAYERS, 0 };

	make_manifest(model, &shape);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint64_t seed = (uint64_t)number * CHUNKS + i;

		model_digest_make(&seed, sizeof(seed), &model->chunks[i].digest);
	}
}

static void make_real(struct model_manifest *model, const struct shape *shape)
{
	uint8_t bytes[CHUNK];

	make_manifest(model, shape);
	for (uint32_t i = 0; i < shape->chunks; i++) {
		fill_chunk(bytes, shape, i);
		model_digest_make(bytes, CHUNK, &model->chunks[i].digest);
		model->chunks[i].checksum = chunk_checksum(bytes, CHUNK);
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

/*
 * Somebody who shows models without end, on several connections: all of them, and one that is of
 * interest as often as all others together.
 */
struct shower {
	int fds[SHOWS];
	const char *interest; /* NULL: none */
	unsigned int asked, answered;
};

static void show_next(struct shower *shower, int fd)
{
	unsigned int number = shower->asked++;
	char name[16];

	snprintf(name, sizeof(name), "model%02u", number % MODELS);
	if (shower->interest && number % 2)
		say(fd, op("show", shower->interest), NULL, 0);
	else
		say(fd, op("show", name), NULL, 0);
}

static void shower_begin(struct shower *shower, const char *interest)
{
	*shower = (struct shower){ .interest = interest };
	for (int i = 0; i < SHOWS; i++) {
		shower->fds[i] = connect_client();
		be_somebody(1000);
		show_next(shower, shower->fds[i]);
	}
}

/* A daemon that has just started may not know a model yet. */
static bool is_shown(const struct message *message)
{
	const char *error = json_string_value(json_object_get(message->body, "errno"));

	if (error && !strcmp(error, "EAGAIN"))
		return false;
	expect_ok(message);
	return true;
}

/* Asks again where there is an answer. */
static void shower_go_on(struct shower *shower)
{
	struct message message;
	const char *why;

	for (int i = 0; i < SHOWS; i++) {
		if (message_receive(shower->fds[i], &message, &why) == -EAGAIN)
			continue;
		shower->answered += is_shown(&message);
		message_clear(&message);
		show_next(shower, shower->fds[i]);
	}
}

static void shower_end(struct shower *shower)
{
	for (int i = 0; i < SHOWS; i++)
		hang_up(shower->fds[i]);
}

/* As turns.c has it: how long this thread has been ready to run and did not. */
static uint64_t waited_us(void)
{
	unsigned long long ns = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (file) {
		if (fscanf(file, "%*u %llu", &ns) != 1)
			ns = 0;
		fclose(file);
	}
	return ns / 1000;
}

/* How long it took to be answered, in ms, while that goes on; not what the loop waited to run. */
static double list_beside(int fd, struct shower *shower)
{
	uint64_t begin = clock_us(), waited = waited_us();
	struct message message;
	const char *why;
	double ms;

	say(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	while (message_receive(fd, &message, &why) == -EAGAIN) {
		assert_true(turns_run(bed.loop, 100000) >= 0);
		shower_go_on(shower);
	}
	ms = ((double)(clock_us() - begin) - (double)(waited_us() - waited)) / 1e3;
	expect_ok(&message);
	message_clear(&message);
	return ms;
}

/*
 * One user asks and asks, another one wants lists, until both have had some and the spool, if
 * there is one, is restored.
 */
static void show_and_list(const char *what, const char *interest)
{
	int list = connect_client();
	unsigned int lists = 0;
	struct shower shower;
	double longest = 0;

	be_somebody(1001);
	shower_begin(&shower, interest);
	while (lists < ROUNDS || shower.answered < SHOWS || bed.models->chunks.restore.under_way) {
		double ms = list_beside(list, &shower);

		if (ms > longest)
			longest = ms;
		lists++;
	}
	fprintf(stderr, "loop.turn: %s: the longest of %u lists took %.0f ms beside %u shows\n", what,
		lists, longest, shower.answered);
	if (longest > longest_list)
		longest_list = longest;
	shower_end(&shower);
	hang_up(list);
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
	phase_of(name, "load");
	hang_up(fd);
	fd = connect_client();
	reply = ask(fd, op("evict", name), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	phase_of(name, "evict");
}

/*
 * A model of many chunks, from the push to the delete
 */

static void send_batch(int fd, const struct shape *shape, uint32_t first)
{
	uint32_t left = shape->chunks - first, count = left < BATCH ? left : BATCH;
	uint8_t *bytes = malloc((size_t)count * CHUNK);
	struct message reply;
	int batch;

	for (uint32_t i = 0; i < count; i++)
		fill_chunk(bytes + (size_t)i * CHUNK, shape, first + i);
	batch = message_memfd(bytes, (size_t)count * CHUNK);
	free(bytes);
	reply = ask(fd, chunk_op(first, count), &batch, 1);
	close(batch);
	expect_ok(&reply);
	message_clear(&reply);
}

static void push_shape(const struct shape *shape)
{
	struct model_manifest model;
	int fd = connect_client(), manifest;
	struct message reply;
	char *text;
	size_t len;

	make_real(&model, shape);
	assert_int_equal(model_manifest_encode(&model, &text, &len), 0);
	model_manifest_destroy(&model);
	manifest = message_memfd(text, len);
	free(text);
	turns_reset();
	reply = ask(fd, op("push", shape->name), &manifest, 1);
	close(manifest);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "missing"), shape->chunks);
	message_clear(&reply);
	phase_of(shape->name, "push begins");
	for (uint32_t i = 0; i < shape->chunks; i += BATCH)
		send_batch(fd, shape, i);
	phase_of(shape->name, "push chunks");
	reply = ask(fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	phase_of(shape->name, "push ends");
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

static void start_and_tell(void)
{
	uint64_t begin = clock_us();

	start_daemon();
	fprintf(stderr, "loop.turn: ready after %.0f ms\n", (double)(clock_us() - begin) / 1e3);
	turns_reset();
}

/* With all of that in the catalog. */
static void start_again(void)
{
	const struct catalog_model *seen;
	char name[16];

	stop_daemon();
	start_and_tell();
	for (uint32_t i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "model%02u", i);
		wait_until((seen = catalog_model_find(bed.models->catalog, name)) && seen->known);
	}
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	show_and_list("start", NULL);
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

/* A model that is pushed comes, is loaded and goes. */
static void come_and_go(const struct shape *shape)
{
	push_shape(shape);
	show_and_list(shape->name, shape->name);
	phase_of(shape->name, "show, list");
	load_and_evict(shape->name);
	delete_model(shape->name);
	wait_until(!arena_bytes() && giving_is_over(&bed.models->donate.giving));
	phase_of(shape->name, "delete");
}

/* What it has on its disk comes back while others ask, with all of the rest in the catalog. */
static void start_with_spool(void)
{
	use_spool();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	push_shape(&spooled);
	stop_daemon();
	start_and_tell();
	assert_true(bed.models->chunks.restore.under_way);
	show_and_list("restore", spooled.name);
	assert_int_equal(bed.models->chunks.restore.chunks, spooled.chunks);
	phase_of("spool", "restore");
	load_and_evict(spooled.name);
	delete_model(spooled.name);
	wait_until(!arena_bytes() && giving_is_over(&bed.models->donate.giving));
	phase_of("spool", "delete");
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
		make_absent(&models[i], name, i);
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
	show_and_list("many models", NULL);
	phase("show, list");
	descriptors();
	phase("descriptors");
	load_and_evict("big");
	delete_model("big");
	wait_until(!arena_bytes());
	phase("delete big");
	come_and_go(&many);
	come_and_go(&deep);
	rude_clients();
	phase("rude clients");
	start_again();
	start_with_spool();
	delete_model("model00");
	wait_until(!catalog_model_find(bed.models->catalog, "model00"));
	phase("delete");
	if (longest_list > LIST_LIMIT_MS)
		fail_msg("somebody waited %.0f ms for a list", longest_list);
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
