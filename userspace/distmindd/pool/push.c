// SPDX-License-Identifier: GPL-2.0-or-later
#include "push.h"

#include "../../common/clock.h"
#include "../common/turns.h"
#include "models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WAIT_US 20000
#define STALLED_US 10000000 /* without any progress */
#define ACCURACY_US 1 /* the loop sleeps as long as it is allowed to */

struct push {
	struct exchange exchange;
	struct client *client; /* NULL: it has gone */
	struct models *models;
	struct model_manifest model;
	uint32_t replicas;
	struct catalog_access access;
	const void *text; /* of the manifest, until the upload has begun */
	size_t size;
	struct catalog_upload *upload;
	bool pending; /* the catalog will call */
	uint32_t *missing; /* chunks */
	bool *sent;	   /* of the missing ones */
	uint32_t missing_count;
	uint64_t missing_bytes;
	sd_event_source *turn; /* the chunks, or the wait for donors */
	uint64_t progress_us; /* when there was some */
	uint64_t progress;
	/* Of the request under way. */
	struct chunks_source *source;
	size_t offset;
	uint32_t next, end;
	struct chunks_wait wait;
	int err; /* what refuses it, when nothing is pending any more */
	uint32_t refused; /* the missing chunk that this is about */
	bool spooling; /* it is the disk's */
};

static void forget_text(struct push *push)
{
	if (push->text)
		munmap((void *)push->text, push->size);
	push->text = NULL;
}

static void destroy(struct push *push)
{
	forget_text(push);
	if (push->client)
		push->client->push = NULL;
	sd_event_source_disable_unref(push->turn);
	chunks_forget(&push->models->chunks, &push->wait);
	chunks_source_put(push->source);
	model_manifest_destroy(&push->model);
	free(push->missing);
	free(push->sent);
	free(push);
}

void push_end(struct push *push)
{
	if (!push)
		return;
	if (push->client)
		push->client->push = NULL;
	push->client = NULL;
	if (push->pending)
		return;
	if (push->upload)
		catalog_upload_abort(push->upload);
	destroy(push);
}

/* After a catalog's call: has the client gone meanwhile? */
static bool abandoned(struct push *push, const struct catalog_result *result)
{
	push->pending = false;
	if (push->client)
		return false;
	/* The catalog is being closed: the upload ends with this host's lease. */
	if (result->err == -ECANCELED)
		push->upload = NULL;
	push_end(push);
	return true;
}

static void wake(struct push *push, uint64_t us)
{
	sd_event_source_set_time(push->turn, us ? clock_us() + us : 0);
	sd_event_source_set_enabled(push->turn, SD_EVENT_ONESHOT);
}

static int set_turn(struct push *push, sd_event_time_handler_t handler)
{
	int err;

	push->turn = sd_event_source_disable_unref(push->turn);
	err = sd_event_add_time(push->models->loop, &push->turn, CLOCK_MONOTONIC, 0, ACCURACY_US,
				handler, push);
	push->progress_us = clock_us();
	return err < 0 ? err : 0;
}

/*
 * Begin
 */

static bool held(struct catalog *catalog, const uint8_t *digest)
{
	struct catalog_holder holder;

	return catalog_chunk_holders(catalog, digest, &holder, 1) && holder.live;
}

static int by_digest(const void *a, const void *b, void *arg)
{
	const struct model_chunk *chunks = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	int order = memcmp(chunks[i].digest.bytes, chunks[j].digest.bytes, MODEL_DIGEST_LEN);

	return order ? order : i < j ? -1 : i > j;
}

static int by_number(const void *a, const void *b)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	return i < j ? -1 : i > j;
}

/* Chunks of the model by their digests, and which of them another model has with its checksum. */
struct confirming {
	struct push *push;
	const uint32_t *list;
	bool *confirmed;
	int err;
};

/*
 * What others have pushed was checked when it arrived, so their manifests are right about the
 * checksums of what need not be sent again. Both lists are sorted.
 */
static void confirm(const struct catalog_model *model, void *arg)
{
	struct confirming *confirming = arg;
	const struct model_manifest *pushed = &confirming->push->model;
	const struct manifest *other = model->uploading ? NULL : manifests_find(model);
	uint32_t i = 0, j = 0;

	while (other && i < pushed->chunk_count && j < other->model.chunk_count) {
		const struct model_chunk *mine = &pushed->chunks[confirming->list[i]];
		const struct model_chunk *theirs = manifest_sorted(other, j);
		int order = memcmp(mine->digest.bytes, theirs->digest.bytes, MODEL_DIGEST_LEN);

		if (!order && mine->checksum != theirs->checksum)
			confirming->err = -EBADMSG;
		confirming->confirmed[i] |= !order;
		i += order <= 0;
		j += order > 0;
	}
}

/*
 * Each chunk once, however often the model has it, in execution order. One that is held but
 * whose checksum nobody knows is wanted, too: nobody could check it after a load.
 */
static int find_missing(struct push *push)
{
	struct model_chunk *chunks = push->model.chunks;
	uint32_t count = push->model.chunk_count;
	uint32_t *list = calloc(count + 1, sizeof(*list));
	struct confirming confirming = { .push = push, .list = list };

	push->missing = list;
	confirming.confirmed = calloc(count + 1, sizeof(*confirming.confirmed));
	if (!list || !confirming.confirmed) {
		free(confirming.confirmed);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < count; i++)
		list[i] = i;
	qsort_r(list, count, sizeof(*list), by_digest, chunks);
	catalog_model_each(push->models->catalog, confirm, &confirming);
	for (uint32_t i = 0; i < count; i++) {
		const struct model_chunk *chunk = &chunks[list[i]];

		/* What is written to the list is never in front of what is read. */
		if (i && model_digest_equal(&chunk->digest, &chunks[list[i - 1]].digest)) {
			if (chunk->checksum != chunks[list[i - 1]].checksum)
				confirming.err = -EBADMSG;
			continue;
		}
		if (confirming.confirmed[i] && held(push->models->catalog, chunk->digest.bytes))
			continue;
		push->missing_bytes += chunk->size;
		list[push->missing_count++] = list[i];
	}
	qsort(list, push->missing_count, sizeof(*list), by_number);
	push->sent = calloc(push->missing_count + 1, sizeof(*push->sent));
	free(confirming.confirmed);
	return push->sent ? confirming.err : -ENOMEM;
}

/* What all donors have. */
struct donors {
	uint64_t total, free;
};

static void see_donor(const struct catalog_host *host, void *arg)
{
	struct donors *donors = arg;

	donors->total += host->memory_total;
	donors->free += host->memory_free;
}

void push_room(struct client *client, uint64_t bytes)
{
	struct catalog *catalog = client->models->catalog;
	struct donors donors = { 0 };

	catalog_host_each(catalog, see_donor, &donors);
	/* How much of it is there already nobody knows yet: more than everything cannot be. */
	if (catalog_member_state(catalog) == CATALOG_JOINED && bytes > donors.total)
		client_refuse(client, -ENOSPC,
			      "it has %llu bytes, and all donors together give %llu: give them "
			      "more memory",
			      (unsigned long long)bytes, (unsigned long long)donors.total);
	else
		client_answer(client, json_object(), NULL, 0);
}

/*
 * Nothing is sent before there is room for one copy of what is new. Donors may have to free what
 * was deleted a moment ago.
 */
static int on_room(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	struct donors donors = { 0 };
	int fd;

	(void)source;
	(void)us;
	turns_name("push: room");
	catalog_host_each(push->models->catalog, see_donor, &donors);
	if (push->missing_bytes > donors.free) {
		if (push->missing_bytes <= donors.total &&
		    clock_us() - push->progress_us < STALLED_US) {
			donate_poke(&push->models->donate);
			wake(push, WAIT_US);
			return 0;
		}
		client_refuse(push->client, -ENOSPC,
			      "push: the donors have no room: %llu bytes are new, and %llu of %llu "
			      "are free: give them more memory, or delete models",
			      (unsigned long long)push->missing_bytes,
			      (unsigned long long)donors.free, (unsigned long long)donors.total);
		push_end(push);
		return 0;
	}
	fd = message_memfd(push->missing, push->missing_count * sizeof(uint32_t));
	if (fd < 0) {
		client_refuse(push->client, fd, "push: %s", strerror(-fd));
		push_end(push);
		return 0;
	}
	client_answer(push->client, json_pack("{s:I}", "missing", (json_int_t)push->missing_count),
		      &fd, 1);
	close(fd);
	return 0;
}

static void on_synced(const struct catalog_result *result, void *arg)
{
	struct push *push = arg;
	int err = result->err;

	if (abandoned(push, result))
		return;
	if (!err)
		err = find_missing(push);
	if (!err)
		err = set_turn(push, on_room);
	if (err) {
		const char *why = strerror(-err);

		if (result->err)
			why = result->error;
		else if (err == -EBADMSG)
			why = "chunks: an xxh3 is not that of the bytes that have the sha256: "
			      "push with the distmindctl of this version";
		client_refuse(push->client, err, "push: %s", why);
		push_end(push);
		return;
	}
	wake(push, 0);
}

static void on_begun(const struct catalog_result *result, void *arg)
{
	struct push *push = arg;
	int err = result->err;

	if (err)
		push->upload = NULL;
	if (abandoned(push, result))
		return;
	if (!err)
		err = catalog_sync(push->models->catalog, on_synced, push);
	if (!err) {
		push->pending = true;
		return;
	}
	client_refuse(push->client, err, "push: %s", result->err ? result->error : strerror(-err));
	push_end(push);
}

static struct push *create(struct client *client, const char *name, const void *text, size_t size)
{
	struct push *push = calloc(1, sizeof(*push));
	char error[MODEL_ERROR_LEN];
	int err;

	if (!push) {
		client_refuse(client, -ENOMEM, "out of memory");
		return NULL;
	}
	err = model_manifest_parse(&push->model, text, size, error);
	if (err) {
		client_refuse(client, err, "manifest: %s", error);
		free(push);
		return NULL;
	}
	push->models = client->models;
	if (strcmp(push->model.name, name)) {
		client_refuse(client, -EINVAL,
			      "model: the manifest is of \"%s\", not of \"%s\": give both the same "
			      "name",
			      push->model.name, name);
		destroy(push);
		return NULL;
	}
	if (catalog_model_find(client->models->catalog, name)) {
		client_refuse(client, -EEXIST,
			      "model: there is a model %s already: delete it first, or choose "
			      "another name",
			      name);
		destroy(push);
		return NULL;
	}
	return push;
}

/* -ENOTCONN: this host has not joined yet. */
static int begin_upload(struct push *push)
{
	int err = catalog_upload_begin(push->models->catalog, push->model.name, push->text,
				       push->size, push->replicas, &push->upload, on_begun, push);

	if (err)
		return err;
	catalog_upload_set_access(push->upload, &push->access);
	push->pending = true;
	forget_text(push);
	return 0;
}

static void refuse_begin(struct client *client, int err)
{
	client_refuse(client, err, "push: %s",
		      err == -ENOTCONN ? "this host has not joined the catalog: try again "
					 "soon, or see the log" :
					 strerror(-err));
}

/* A daemon that has just started joins soon. */
static int on_join(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	int err;

	(void)source;
	(void)us;
	turns_name("push: joining");
	err = begin_upload(push);
	if (err == -ENOTCONN && clock_us() - push->progress_us < STALLED_US) {
		wake(push, WAIT_US);
	} else if (err) {
		refuse_begin(push->client, err);
		push_end(push);
	}
	return 0;
}

void push_begin(struct client *client, const char *name, uint32_t replicas,
		const struct catalog_access *access, int manifest)
{
	const char *why;
	const void *text;
	struct push *push;
	size_t size;
	int err;

	err = message_map(manifest, CATALOG_MANIFEST_MAX, &text, &size, &why);
	if (err) {
		client_refuse(client, err, "manifest: %s", why);
		return;
	}
	push = create(client, name, text, size);
	if (!push) {
		munmap((void *)text, size);
		return;
	}
	push->replicas = replicas;
	push->access = *access;
	push->text = text;
	push->size = size;
	err = begin_upload(push);
	if (err == -ENOTCONN) {
		err = set_turn(push, on_join);
		if (!err)
			wake(push, WAIT_US);
	}
	if (err) {
		refuse_begin(client, err);
		destroy(push);
		return;
	}
	push->client = client;
	client->push = push;
	client_begin(client, &push->exchange);
}

/*
 * Chunks
 */

/* Chunks that are on their way to the disk get there first, and then the client is told. */
static void fail(struct push *push, uint32_t which, int err, bool spooling)
{
	if (push->err)
		return;
	push->err = err;
	push->refused = which;
	push->spooling = spooling;
}

static void refuse_chunk(struct push *push)
{
	const struct model_chunk *chunk = &push->model.chunks[push->missing[push->refused]];
	struct client *client = push->client;
	char text[MODEL_DIGEST_TEXT_LEN];
	int err = push->err;

	model_digest_format(&chunk->digest, text);
	if (push->spooling)
		client_refuse(client, err, "chunk %s: the spool of this host cannot keep it: %s%s",
			      text, strerror(-err),
			      err == -ENOSPC ? ": make room there, or put it elsewhere" : "");
	else if (err == -EBADMSG)
		client_refuse(client, err, "chunk %u: the bytes are not those of %s: was the file "
					   "changed meanwhile?",
			      push->missing[push->refused], text);
	else
		client_refuse(client, err, "chunk %s: %s", text,
			      err == -ENOSPC ? "the donors have no room: give them more memory, or "
					       "delete models" :
					       strerror(-err));
}

struct room {
	const char *self;
	uint64_t bytes; /* the most that another donor has */
};

static void see_room(const struct catalog_host *host, void *arg)
{
	struct room *room = arg;

	if (strcmp(host->name, room->self) && host->rdma_address[0] &&
	    host->memory_free > room->bytes)
		room->bytes = host->memory_free;
}

/* Can others take what this host has no room for? */
static bool room_elsewhere(struct push *push, uint64_t bytes)
{
	struct room room = { .self = push->models->chunks.host.name };

	catalog_host_each(push->models->catalog, see_room, &room);
	return room.bytes >= bytes && clock_us() - push->progress_us < STALLED_US;
}

/* Several at a time: to go on costs more than to note that one is there. */
static void on_kept(void *arg, uint32_t which, int err)
{
	struct push *push = arg;

	if (err)
		fail(push, which, err, err != -EBADMSG);
	else
		push->sent[which] = true;
	if (push->wait.pending <= CHUNKS_PENDING_MAX / 2)
		wake(push, 0);
}

/* False: there is no room for it now. */
static bool store_next(struct push *push)
{
	const struct model_chunk *chunk = &push->model.chunks[push->missing[push->next]];
	struct chunks_bytes bytes = {
		.checksum = chunk->checksum, .source = push->source, .offset = push->offset,
	};
	int err;

	memcpy(bytes.digest, chunk->digest.bytes, sizeof(bytes.digest));
	err = chunks_add(&push->models->chunks, &bytes, chunk->size, &push->wait, push->next);
	if (err == -ENOSPC && room_elsewhere(push, chunk->size)) {
		/* Donors take what is theirs, and then it need not be here any more. */
		donate_poke(&push->models->donate);
		wake(push, WAIT_US);
		return false;
	}
	if (err < 0)
		fail(push, push->next, err, false);
	else if (err != CHUNKS_PENDING)
		push->sent[push->next] = true;
	push->next++;
	push->offset += chunk->size;
	return true;
}

static bool more(const struct push *push)
{
	return !push->err && push->next < push->end;
}

static int on_chunks(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	uint32_t begin = push->next;

	(void)source;
	(void)us;
	turns_name("push: chunks");
	while (more(push) && push->wait.pending < CHUNKS_PENDING_MAX &&
	       push->next - begin < CHUNKS_PENDING_MAX)
		if (!store_next(push))
			return 0;
	push->progress_us = clock_us();
	/* With chunks on their way, on_kept() goes on. */
	if (push->wait.pending == CHUNKS_PENDING_MAX || (push->wait.pending && !more(push)))
		return 0;
	if (more(push)) {
		wake(push, 0);
		return 0;
	}
	chunks_source_put(push->source);
	push->source = NULL;
	chunks_report(&push->models->chunks);
	if (push->err)
		refuse_chunk(push);
	else
		client_answer(push->client, json_object(), NULL, 0);
	return 0;
}

void push_chunk(struct client *client, uint32_t first, uint32_t count, int bytes)
{
	struct push *push = client->push;
	uint64_t total = 0;
	const char *why;
	size_t size;
	int err;

	if (!count || first > push->missing_count || count > push->missing_count - first) {
		client_refuse(client, -EINVAL,
			      "first, count: %u chunks are missing, not %u from %u on",
			      push->missing_count, count, first);
		return;
	}
	err = message_check(bytes, PUSH_BATCH_MAX, &size, &why);
	if (err) {
		client_refuse(client, err, "bytes: %s", why);
		return;
	}
	for (uint32_t i = first; i < first + count; i++)
		total += push->model.chunks[push->missing[i]].size;
	if (total != size) {
		client_refuse(client, -EINVAL, "bytes: these chunks have %llu bytes, not %zu",
			      (unsigned long long)total, size);
		return;
	}
	push->source = chunks_source_create(bytes);
	err = push->source ? set_turn(push, on_chunks) : -ENOMEM;
	if (err) {
		chunks_source_put(push->source);
		push->source = NULL;
		client_refuse(client, err, "bytes: %s", strerror(-err));
		return;
	}
	push->offset = 0;
	push->next = first;
	push->end = first + count;
	push->wait = (struct chunks_wait){ .kept = on_kept, .arg = push };
	push->err = 0;
	client_begin(client, &push->exchange);
	wake(push, 0);
}

/*
 * Commit
 */

/* Whoever is told that it is there can load it: the catalog's copy has it by now. */
static int on_known(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	const struct catalog_model *model;

	(void)source;
	(void)us;
	turns_name("push: end");
	model = catalog_model_find(push->models->catalog, push->model.name);
	if (!(model && model->known) && clock_us() - push->progress_us < STALLED_US) {
		wake(push, WAIT_US);
		return 0;
	}
	client_answer(push->client,
		      json_pack("{s:I}", "new_bytes", (json_int_t)push->missing_bytes), NULL, 0);
	destroy(push);
	return 0;
}

static void on_committed(const struct catalog_result *result, void *arg)
{
	struct push *push = arg;
	int err = result->err;

	push->upload = NULL;
	if (abandoned(push, result))
		return;
	donate_poke(&push->models->donate);
	if (!err)
		err = set_turn(push, on_known);
	if (!err) {
		wake(push, 0);
		return;
	}
	client_refuse(push->client, err, "commit: %s",
		      result->err ? result->error : strerror(-err));
	destroy(push);
}

static void commit(struct push *push)
{
	struct catalog_upload *upload = push->upload;
	int err;

	sd_event_source_set_enabled(push->turn, SD_EVENT_OFF);
	push->upload = NULL;
	err = catalog_upload_commit(upload, on_committed, push);
	if (!err) {
		push->pending = true;
		return;
	}
	client_refuse(push->client, err, "commit: %s", strerror(-err));
	destroy(push);
}

/* Live copies on donors; a host that donates nothing only keeps them for a while. */
static uint32_t donated_copies(struct push *push, const uint8_t *digest)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	struct catalog *catalog = push->models->catalog;
	size_t count = catalog_chunk_holders(catalog, digest, holders, CATALOG_REPLICAS_MAX);
	uint32_t copies = 0;

	for (size_t i = 0; i < count && i < CATALOG_REPLICAS_MAX; i++) {
		const struct catalog_host *host = catalog_host_find(catalog, holders[i].host);

		copies += holders[i].live && host && host->memory_total;
	}
	return copies;
}

static void count_donor(const struct catalog_host *host, void *arg)
{
	*(uint32_t *)arg += host->memory_total > 0;
}

static int on_wait(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	uint32_t donors = 0, wanted, copies;
	uint64_t done = 0, total = 0;
	bool scarce = false;

	(void)source;
	(void)us;
	turns_name("push: replicas");
	catalog_host_each(push->models->catalog, count_donor, &donors);
	wanted = push->replicas < donors ? push->replicas : donors;
	for (uint32_t i = 0; i < push->model.chunk_count; i++) {
		const struct model_chunk *chunk = &push->model.chunks[i];

		copies = donated_copies(push, chunk->digest.bytes);
		scarce |= !copies;
		total += (uint64_t)chunk->size * wanted;
		done += (uint64_t)chunk->size * (copies < wanted ? copies : wanted);
	}
	if (wanted && done == total) {
		commit(push);
		return 0;
	}
	if (done != push->progress) {
		push->progress = done;
		push->progress_us = clock_us();
		client_progress(push->client, done, total);
	}
	if (clock_us() - push->progress_us < STALLED_US) {
		donate_poke(&push->models->donate);
		wake(push, WAIT_US);
	} else if (wanted && !scarce) {
		/* Fewer replicas than wanted, which the catalog shows; more when there is room. */
		commit(push);
	} else {
		client_refuse(push->client, -ENOSPC,
			      "commit: the donors have no room for %llu bytes: give them more "
			      "memory, or delete models",
			      (unsigned long long)(total - done));
		push_end(push);
	}
	return 0;
}

static void on_flushed(const struct catalog_result *result, void *arg)
{
	struct push *push = arg;
	int err = result->err;

	if (abandoned(push, result))
		return;
	if (!err)
		err = set_turn(push, on_wait);
	if (!err) {
		wake(push, 0);
		return;
	}
	client_refuse(push->client, err, "commit: %s",
		      result->err ? result->error : strerror(-err));
	push_end(push);
}

void push_commit(struct client *client)
{
	struct push *push = client->push;
	uint32_t unsent = 0;
	int err;

	for (uint32_t i = 0; i < push->missing_count; i++)
		unsent += !push->sent[i];
	if (unsent) {
		client_refuse(client, -EINVAL, "commit: %u of the %u missing chunks were not sent",
			      unsent, push->missing_count);
		return;
	}
	err = catalog_flush(client->models->catalog, on_flushed, push);
	if (err) {
		client_refuse(client, err, "commit: %s", strerror(-err));
		return;
	}
	push->pending = true;
	client_begin(client, &push->exchange);
}
