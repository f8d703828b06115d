/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The model service on one host without RDMA and with a fake gpu, and clients of it in the
 * same event loop. Included by the one file of a test program.
 */
#ifndef TESTS_UNIT_SERVICE_BED_H
#define TESTS_UNIT_SERVICE_BED_H

#include "log_memory.h"
#include "service_fake.h"

#include "../../userspace/distmindd/common/log.h"
#include "../../userspace/distmindd/common/turns.h"
#include "../../userspace/distmindd/pool/models.h"
#include "../../userspace/model/image.h"

#include <fcntl.h>
#include <ftw.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#define LAYERS 6
#define WAIT_S 20
#define PUSH_BYTES (4U << 20)
/*
 * What a turn may take that is to hold nobody up. The account leaves out what the loop waited for a
 * processor; the rest is for the sanitizers, which make all of it several times slower.
 */
#define TURN_MAX_US (5 * TURNS_LIMIT_US)

static struct bed {
	char directory[64];
	struct config_models config;
	sd_event *loop;
	struct models *models;
} bed;

/* A model in memory: every layer's bytes follow from a number. */
struct sample {
	char path[128];
	struct model_checkpoint checkpoint;
	struct model_image image;
};

static inline int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

static inline void start_daemon(void)
{
	assert_true(sd_event_new(&bed.loop) >= 0);
	bed.models = models_open(bed.loop, &fake_pool, &bed.config);
	assert_non_null(bed.models);
}

static inline void stop_daemon(void)
{
	models_close(bed.models);
	sd_event_unref(bed.loop);
}

static inline int setup(void **state)
{
	struct config config;

	(void)state;
	log_set_target(LOG_TO_NOTHING);
	fake = (struct fake){ .memory = 64U << 20 };
	config_default(&config);
	bed.config = config.models;
	strcpy(bed.directory, "/tmp/distmind-service-XXXXXX");
	assert_non_null(mkdtemp(bed.directory));
	bed.config.donor_memory = 16U << 20;
	strcpy(bed.config.host, "a");
	/* Of nobody: the test is about one host. */
	strcpy(bed.config.address, "192.0.2.1");
	snprintf(bed.config.catalog, sizeof(bed.config.catalog), "%s/catalog", bed.directory);
	snprintf(bed.config.socket, sizeof(bed.config.socket), "%s/socket", bed.directory);
	start_daemon();
	return 0;
}

#define WORKERS_MAX 4 /* of worker.c */

struct meeting {
	struct worker_job job;
	pthread_barrier_t *barrier;
	bool over;
};

/*
 * Jobs that keep the threads of the worker from all else, until they are let go: while they are
 * held nothing is copied. A test that fails leaves them where they wait, for teardown().
 */
static struct held {
	struct meeting meetings[WORKERS_MAX];
	int count;
	sem_t arrived, gate;
} held;

static inline int teardown(void **state)
{
	(void)state;
	for (; held.count; held.count--)
		sem_post(&held.gate);
	stop_daemon();
	assert_int_equal(fake.buffers, 0);
	assert_int_equal(fake.timelines, 0);
	assert_int_equal(fake.vgpus, 0);
	return nftw(bed.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#define SERVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* From now on it has a spool. */
static inline void use_spool(void)
{
	stop_daemon();
	snprintf(bed.config.spool, sizeof(bed.config.spool), "%s/spool", bed.directory);
	start_daemon();
}

#define wait_until(condition)                                                         \
	do {                                                                          \
		time_t end_ = time(NULL) + WAIT_S;                                    \
		while (!(condition)) {                                                \
			fake_copy_lane();                                             \
			assert_true(turns_run(bed.loop, 100000) >= 0);                \
			if (time(NULL) > end_)                                        \
				fail_msg("waited too long for: %s", #condition);      \
		}                                                                     \
	} while (0)

/*
 * Clients
 */

static inline int connect_client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	uint64_t before = bed.models->service.accepted;

	strcpy(address.sun_path, bed.config.socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	wait_until(bed.models->service.accepted > before);
	return fd;
}

/* As if somebody else had connected last. */
static inline void be_somebody(uint32_t uid)
{
	bed.models->service.clients->user.uid = uid;
	bed.models->service.clients->user.gid = uid;
	bed.models->service.clients->payer = uid;
}

static inline void hang_up(int fd)
{
	unsigned int before = bed.models->service.count;

	close(fd);
	wait_until(bed.models->service.count < before);
}

/* Loads are over, and memory of the gpu that is being given back has been. */
static inline void let_memory_go(void)
{
	wait_until(!bed.models->weights.keep.loads &&
		   !errands_of(bed.models->weights.errands, ERRANDS_GPU(FAKE_GPU)));
}

/*
 * Workers
 */

static inline void meet(struct worker_job *job)
{
	pthread_barrier_wait(((struct meeting *)job)->barrier);
}

static inline void has_met(struct worker_job *job, bool dropped)
{
	(void)dropped;
	((struct meeting *)job)->over = true;
}

/* All of them at once have nothing else to do: what they had is done. */
static inline void wait_for_workers(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	struct meeting meetings[WORKERS_MAX];
	pthread_barrier_t barrier;

	if (count > WORKERS_MAX)
		count = WORKERS_MAX;
	pthread_barrier_init(&barrier, NULL, (unsigned int)count);
	for (long i = 0; i < count; i++) {
		meetings[i] = (struct meeting){
			.job = { .work = meet, .done = has_met }, .barrier = &barrier,
		};
		worker_add(bed.models->chunks.worker, &meetings[i].job);
	}
	for (long i = 0; i < count; i++)
		wait_until(meetings[i].over);
	pthread_barrier_destroy(&barrier);
}

static inline void wait_at_gate(struct worker_job *job)
{
	(void)job;
	sem_post(&held.arrived);
	while (sem_wait(&held.gate))
		;
}

static inline void hold_workers(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	held.count = count < WORKERS_MAX ? (int)count : WORKERS_MAX;
	sem_init(&held.arrived, 0, 0);
	sem_init(&held.gate, 0, 0);
	for (int i = 0; i < held.count; i++) {
		held.meetings[i] = (struct meeting){
			.job = { .work = wait_at_gate, .done = has_met },
		};
		worker_add(bed.models->chunks.worker, &held.meetings[i].job);
	}
	for (int i = 0; i < held.count; i++)
		while (sem_wait(&held.arrived))
			;
}

static inline void let_workers_go(void)
{
	for (int i = 0; i < held.count; i++)
		sem_post(&held.gate);
	for (int i = 0; i < held.count; i++)
		wait_until(held.meetings[i].over);
	held.count = 0;
}

/* The reply that ends an exchange; what it brings is the caller's. */
static inline struct message receive(int fd)
{
	struct message message;
	const char *why;
	int err;

	for (;;) {
		wait_until((err = message_receive(fd, &message, &why)) != -EAGAIN);
		assert_int_equal(err, 0);
		if (json_object_get(message.body, "ok"))
			return message;
		message_clear(&message);
	}
}

static inline void say(int fd, json_t *body, const int *fds, size_t count)
{
	assert_int_equal(message_send(fd, body, fds, count), 0);
	json_decref(body);
}

static inline struct message ask(int fd, json_t *body, const int *fds, size_t count)
{
	say(fd, body, fds, count);
	return receive(fd);
}

static inline json_int_t field(const struct message *message, const char *name)
{
	return json_integer_value(json_object_get(message->body, name));
}

static inline void expect_ok(const struct message *message)
{
	if (!json_is_true(json_object_get(message->body, "ok")))
		fail_msg("refused: %s",
			 json_string_value(json_object_get(message->body, "reason")));
}

/* It is done, and nothing more is to be known. */
static inline void ask_ok(int fd, json_t *body)
{
	struct message reply = ask(fd, body, NULL, 0);

	expect_ok(&reply);
	message_clear(&reply);
}

/* Clears it. */
static inline void expect_refused_by(struct message *reply, const char *error, const char *reason)
{
	assert_true(json_is_false(json_object_get(reply->body, "ok")));
	assert_string_equal(json_string_value(json_object_get(reply->body, "errno")), error);
	assert_contains(json_string_value(json_object_get(reply->body, "reason")), reason);
	message_clear(reply);
}

static inline void expect_refused(int fd, const char *error, const char *reason)
{
	struct message reply = receive(fd);

	expect_refused_by(&reply, error, reason);
}

static inline void expect_refusal(int fd, json_t *body, const int *fds, size_t count,
				  const char *error, const char *reason)
{
	say(fd, body, fds, count);
	expect_refused(fd, error, reason);
}

static inline json_t *op(const char *name, const char *model)
{
	return json_pack("{s:s, s:s}", "op", name, "model", model);
}

/* The JSON in the memfd of an answer. */
static inline json_t *document(struct message *reply)
{
	const char *why;
	size_t size;
	json_t *root;
	void *text;

	expect_ok(reply);
	assert_int_equal(message_read(reply->fds[0], 64U << 20, &text, &size, &why), 0);
	root = json_loadb(text, size, 0, NULL);
	free(text);
	message_clear(reply);
	assert_non_null(root);
	return root;
}

/*
 * Models
 */

static inline void fill_layer(uint8_t *bytes, size_t size, uint32_t seed)
{
	for (size_t i = 0; i < size; i++) {
		seed = seed * 1664525 + 1013904223;
		bytes[i] = (uint8_t)(seed >> 24);
	}
}

/* Layers from changed on are others than in a model with the same seed. */
static inline void make_sample(struct sample *sample, const char *name, uint32_t seed,
			       size_t layer_bytes, int changed)
{
	char header[2048] = "{", error[MODEL_ERROR_LEN];
	const char *path = sample->path;
	uint8_t *bytes = malloc(layer_bytes);
	uint64_t len;
	FILE *file;

	snprintf(sample->path, sizeof(sample->path), "%s/%s.safetensors", bed.directory, name);
	for (size_t i = 0; i < LAYERS; i++)
		snprintf(header + strlen(header), sizeof(header) - strlen(header),
			 "%s\"l.%zu.w\":{\"dtype\":\"U8\",\"shape\":[%zu],"
			 "\"data_offsets\":[%zu,%zu]}",
			 i ? "," : "", i, layer_bytes, i * layer_bytes, (i + 1) * layer_bytes);
	strcat(header, "}");
	len = strlen(header);
	file = fopen(path, "w");
	assert_non_null(file);
	fwrite(&len, 8, 1, file);
	fwrite(header, len, 1, file);
	for (int i = 0; i < LAYERS; i++) {
		fill_layer(bytes, layer_bytes, seed * 100 + (uint32_t)i + (i >= changed) * 7777);
		fwrite(bytes, layer_bytes, 1, file);
	}
	fclose(file);
	free(bytes);
	if (model_checkpoint_open(&sample->checkpoint, &path, 1, error) ||
	    model_image_create(&sample->image, name, &sample->checkpoint, NULL, error))
		fail_msg("%s", error);
	for (uint32_t i = 0; i < sample->image.manifest.chunk_count; i++)
		assert_int_equal(model_image_digest(&sample->image, i), 0);
}

static inline void free_sample(struct sample *sample)
{
	model_image_destroy(&sample->image);
	model_checkpoint_close(&sample->checkpoint);
}

/* A bit of a chunk that this host holds is not as it was pushed. */
static inline void damage_chunk(const struct sample *sample, uint32_t index)
{
	const struct model_chunk *pushed = &sample->image.manifest.chunks[index];
	struct memory_chunk *chunk;

	assert_int_equal(memory_arena_pin(bed.models->chunks.arena, pushed->digest.bytes, &chunk),
			 0);
	chunk->data[0] ^= 1;
	memory_arena_unpin(bed.models->chunks.arena, chunk);
}

static inline int manifest_fd(const struct sample *sample)
{
	char *text;
	size_t len;
	int fd;

	assert_int_equal(model_manifest_encode(&sample->image.manifest, &text, &len), 0);
	fd = message_memfd(text, len);
	free(text);
	assert_true(fd >= 0);
	return fd;
}

/* Begins a push: the chunks that are missing, the caller's. */
static inline uint32_t *begin_push(int fd, const struct sample *sample, size_t *count)
{
	int manifest = manifest_fd(sample);
	struct message reply;
	uint32_t *missing;

	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	reply = ask(fd, op("push", sample->image.manifest.name), &manifest, 1);
	close(manifest);
	expect_ok(&reply);
	*count = (size_t)field(&reply, "missing");
	missing = calloc(*count + 1, sizeof(*missing));
	assert_int_equal(pread(reply.fds[0], missing, (*count + 1) * sizeof(*missing), 0),
			 (ssize_t)(*count * sizeof(*missing)));
	message_clear(&reply);
	return missing;
}

static inline int chunk_fd(struct sample *sample, const uint32_t *missing, size_t first,
			   size_t count, bool damaged)
{
	uint8_t *bytes = malloc(PUSH_BYTES);
	size_t size = 0;
	int fd;

	for (size_t i = first; i < first + count; i++) {
		memcpy(bytes + size, model_image_chunk(&sample->image, missing[i]),
		       sample->image.manifest.chunks[missing[i]].size);
		size += sample->image.manifest.chunks[missing[i]].size;
	}
	bytes[size - 1] ^= damaged;
	fd = message_memfd(bytes, size);
	free(bytes);
	return fd;
}

static inline json_t *chunk_op(size_t first, size_t count)
{
	return json_pack("{s:s, s:I, s:I}", "op", "chunk", "first", (json_int_t)first, "count",
			 (json_int_t)count);
}

static inline void send_chunks(int fd, struct sample *sample, const uint32_t *missing, size_t count)
{
	for (size_t i = 0; i < count; i += 8) {
		size_t some = count - i < 8 ? count - i : 8;
		int bytes = chunk_fd(sample, missing, i, some, false);
		struct message reply = ask(fd, chunk_op(i, some), &bytes, 1);

		close(bytes);
		expect_ok(&reply);
		message_clear(&reply);
	}
}

/* A client in the middle of a push. */
struct pushing {
	struct sample sample;
	uint32_t *missing;
	size_t count; /* of them */
	int fd;
};

static inline void pushing_begin(struct pushing *pushing)
{
	make_sample(&pushing->sample, "net", 1, 300000, LAYERS);
	pushing->fd = connect_client();
	pushing->missing = begin_push(pushing->fd, &pushing->sample, &pushing->count);
}

static inline void pushing_end(struct pushing *pushing)
{
	hang_up(pushing->fd);
	free(pushing->missing);
	free_sample(&pushing->sample);
}

/* Returns the bytes that had to be stored. */
static inline uint64_t push(struct sample *sample)
{
	int fd = connect_client();
	struct message reply;
	uint64_t stored;
	size_t count;
	uint32_t *missing = begin_push(fd, sample, &count);

	send_chunks(fd, sample, missing, count);
	reply = ask(fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	stored = (uint64_t)field(&reply, "new_bytes");
	message_clear(&reply);
	free(missing);
	hang_up(fd);
	return stored;
}

static inline void push_sample(struct sample *sample, const char *name, uint32_t seed)
{
	make_sample(sample, name, seed, 300000, LAYERS);
	push(sample);
}

static inline json_t *load_op(const char *model)
{
	return json_pack("{s:s, s:s, s:i, s:b}", "op", "load", "model", model, "vgpu", FAKE_TENANT,
			 "wait", 1);
}

static inline json_t *staged_op(const char *model)
{
	json_t *body = load_op(model);

	json_object_set_new(body, "form", json_string("staged"));
	return body;
}

/* A load that is verified after its answer. */
static inline json_t *verified_later(json_t *body)
{
	json_object_set_new(body, "wait", json_false());
	json_object_set_new(body, "verify", json_true());
	return body;
}

/* What the descriptors of a load say is what was pushed. */
static inline void check_weights(struct message *reply, struct sample *sample)
{
	const struct model_manifest *model = &sample->image.manifest;
	json_t *root, *tensors;
	const char *why;
	const void *text;
	uint8_t *bytes;
	size_t len;

	expect_ok(reply);
	assert_int_equal(reply->fd_count, 3);
	assert_int_equal(field(reply, "size"), model->size);
	bytes = mmap(NULL, model->size, PROT_READ, MAP_SHARED, reply->fds[0], 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	for (uint32_t i = 0; i < model->chunk_count; i++)
		assert_memory_equal(bytes + model->chunks[i].offset,
				    model_image_chunk(&sample->image, i), model->chunks[i].size);
	munmap(bytes, model->size);
	assert_int_equal(message_map(reply->fds[2], 64U << 20, &text, &len, &why), 0);
	root = json_loadb(text, len, 0, NULL);
	munmap((void *)text, len);
	tensors = json_object_get(root, "tensors");
	assert_int_equal(json_array_size(tensors), model->tensor_count);
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		json_t *tensor = json_array_get(tensors, i);
		json_int_t value = json_integer_value(json_object_get(tensor, "value"));
		json_int_t offset = json_integer_value(json_object_get(tensor, "offset"));

		assert_string_equal(json_string_value(json_object_get(tensor, "name")),
				    model->tensors[i].name);
		assert_in_range(offset, 0, model->size);
		if (!model->tensors[i].size)
			continue;
		assert_int_equal(offset, model->tensors[i].offset);
		assert_in_range(value, 1, field(reply, "final"));
	}
	json_decref(root);
}

static inline void receive_weights(int fd, struct sample *sample)
{
	struct message reply = receive(fd);

	check_weights(&reply, sample);
	message_clear(&reply);
}

static inline void load_sample(int fd, struct sample *sample)
{
	say(fd, load_op(sample->image.manifest.name), NULL, 0);
	receive_weights(fd, sample);
}

/* And ends the use: it stays as cached. */
static inline void load_once(struct sample *sample)
{
	int fd = connect_client();

	load_sample(fd, sample);
	hang_up(fd);
}

static inline uint64_t arena_bytes(void)
{
	struct memory_arena_stats stats;

	memory_arena_stats(bed.models->chunks.arena, &stats);
	return stats.bytes;
}

#endif
