// SPDX-License-Identifier: GPL-2.0-or-later
#include "push.h"

#include "../../common/clock.h"
#include "../common/turns.h"
#include "early.h"
#include "missing.h"
#include "models.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WAIT_US 20000
#define FLUSH_LOOK_US 200000
#define STALLED_US 10000000 /* without any progress */
#define ACCURACY_US 1 /* the loop sleeps as long as it is allowed to */
#define CHUNKS_LOOKED 16 /* between two looks at the clock */

/* How far donors are with what was sent, looked at in turns. */
struct donating {
	uint32_t next; /* chunk, by digest */
	uint32_t wanted; /* copies */
	uint64_t done, total; /* bytes */
	bool scarce; /* of some chunk there is no copy */
	uint64_t changes; /* of the catalog when it was looked at */
};

struct push {
	struct exchange exchange;
	struct client *client; /* NULL: it has gone */
	struct models *models;
	uint64_t payer;
	char name[MODEL_NAME_MAX + 1];
	struct model_manifest model;
	uint32_t replicas;
	struct catalog_access access;
	struct errand errand;
	bool working; /* the errand is under way, and what follows up to sent is its own */
	int fd; /* a memfd with the manifest, until it is read */
	struct catalog_manifest manifest; /* its text, until the upload has begun */
	struct missing missing;
	int read_err;
	char error[MODEL_ERROR_LEN]; /* of what is read */
	bool *sent;	   /* of the missing ones */
	uint32_t sent_count;
	struct catalog_upload *upload;
	bool pending; /* the catalog will call */
	sd_event_source *turn; /* the chunks, or the wait for donors */
	uint64_t progress_us; /* when there was some */
	uint64_t progress;
	struct donating donating;
	/* Of the request under way. */
	struct chunks_source *source;
	size_t offset;
	uint32_t next, end;
	struct chunks_wait wait;
	int err; /* what refuses it, when nothing is pending any more */
	uint32_t refused; /* the missing chunk that this is about */
	bool spooling; /* it is the disk's */
};

static const char wrong_checksum[] =
	"chunks: an xxh3 is not that of the bytes that have the sha256: push with the distmindctl "
	"of this version";

static void begin_errand(struct push *push, void (*work)(struct errand *errand),
			 void (*done)(struct errand *errand))
{
	push->errand = (struct errand){ .work = work, .done = done };
	push->working = true;
	errands_add(push->models->errands, push->payer, &push->errand);
}

static void clear(struct errand *errand)
{
	struct push *push = errand_in(errand, struct push, errand);

	missing_clear(&push->missing);
	model_manifest_destroy(&push->model);
	free(push->manifest.text);
	free(push->sent);
}

static void on_cleared(struct errand *errand)
{
	free(errand_in(errand, struct push, errand));
}

static void destroy(struct push *push)
{
	if (push->client)
		push->client->push = NULL;
	push->client = NULL;
	sd_event_source_disable_unref(push->turn);
	chunks_forget(&push->models->chunks, &push->wait);
	chunks_source_put(&push->models->chunks, push->source);
	missing_let_go(&push->missing);
	begin_errand(push, clear, on_cleared);
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
	push->upload = NULL;
	if (!push->working)
		destroy(push);
}

static void refuse(struct push *push, int err, const char *what, const char *why)
{
	client_refuse(push->client, err, "%s: %s", what, why);
	push_end(push);
}

/* When the catalog has not answered for as long as a push waits for it, or longer. */
static bool refuse_silence(struct push *push, const char *what)
{
	const struct catalog *catalog = push->models->catalog;
	char fix[STATUS_FIX_LEN];

	if (catalog_silent_us(catalog) < EARLY_WAIT_US)
		return false;
	client_refuse(push->client, -ENOTCONN, "%s: the catalog does not answer: %s: %s", what,
		      catalog_trouble(catalog), status_catalog_fix(push->models, fix));
	push_end(push);
	return true;
}

/* After an errand's end: the same. */
static bool left_alone(struct push *push)
{
	push->working = false;
	if (push->client)
		return false;
	push_end(push);
	return true;
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

/* What all donors have. */
struct donors {
	uint64_t total, free;
	uint64_t longest; /* chunk that one of them can take */
};

static void see_donor(const struct catalog_host *host, void *arg)
{
	struct donors *donors = arg;

	donors->total += host->memory_total;
	donors->free += host->memory_free;
	if (host->memory_longest > donors->longest)
		donors->longest = host->memory_longest;
}

/* What to do when there is no room for that much. */
static const char *room_fix(struct push *push, uint64_t bytes)
{
	struct donors donors = { 0 };

	if (push->models->chunks.restore.under_way)
		return "this host still reads its spool: try again";
	if (push->models->chunks.disk.err)
		return "the spool of this host cannot be written to: see distmindctl doctor";
	catalog_host_each(push->models->catalog, see_donor, &donors);
	if (bytes > donors.free ||
	    donors.longest >= (bytes < MODEL_CHUNK_MAX ? bytes : MODEL_CHUNK_MAX))
		return "give them more memory, or delete models";
	return "what they have free is in pieces that are too short (LONGEST in 'distmindctl host "
	       "list'): restart distmindd on donors that have a spool, which puts their chunks "
	       "together, or delete models";
}

void push_room(struct client *client, uint64_t bytes)
{
	struct catalog *catalog = client->models->catalog;
	struct donors donors = { 0 };

	catalog_host_each(catalog, see_donor, &donors);
	/*
	 * How much of it is there already nobody knows yet: more than everything cannot be. But
	 * while not even this host is known, nor are the donors.
	 */
	if (catalog_host_find(catalog, client->models->chunks.host.name) && bytes > donors.total)
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
	if (push->missing.bytes > donors.free) {
		if (push->missing.bytes <= donors.total &&
		    clock_us() - push->progress_us < STALLED_US) {
			donate_poke(&push->models->donate);
			wake(push, WAIT_US);
			return 0;
		}
		if (refuse_silence(push, "push"))
			return 0;
		client_refuse(push->client, -ENOSPC,
			      "push: the donors have no room: %llu bytes are new, and %llu of %llu "
			      "are free: %s",
			      (unsigned long long)push->missing.bytes,
			      (unsigned long long)donors.free, (unsigned long long)donors.total,
			      room_fix(push, push->missing.bytes));
		push_end(push);
		return 0;
	}
	fd = message_memfd(push->missing.list, push->missing.count * sizeof(uint32_t));
	if (fd < 0) {
		client_refuse(push->client, fd, "push: %s", strerror(-fd));
		push_end(push);
		return 0;
	}
	client_answer(push->client, json_pack("{s:I}", "missing", (json_int_t)push->missing.count),
		      &fd, 1);
	close(fd);
	return 0;
}

static int on_look(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	int ret;

	(void)source;
	(void)us;
	turns_name("push: missing");
	ret = missing_look(&push->missing, push->models->catalog);
	if (ret > 0) {
		wake(push, 0);
		return 0;
	}
	if (!ret) {
		push->sent = calloc(push->missing.count + 1, sizeof(*push->sent));
		ret = push->sent ? set_turn(push, on_room) : -ENOMEM;
	}
	if (ret)
		refuse(push, ret, "push", strerror(-ret));
	else
		wake(push, 0);
	return 0;
}

static void confirm(struct errand *errand)
{
	struct push *push = errand_in(errand, struct push, errand);

	push->read_err = missing_confirm(&push->missing);
}

static void on_confirmed(struct errand *errand)
{
	struct push *push = errand_in(errand, struct push, errand);
	int err = push->read_err;

	turns_name("push: missing");
	missing_let_go(&push->missing);
	if (left_alone(push))
		return;
	if (!err)
		err = set_turn(push, on_look);
	if (err)
		refuse(push, err, "push", err == -EBADMSG ? wrong_checksum : strerror(-err));
	else
		wake(push, 0);
}

static void on_synced(const struct catalog_result *result, void *arg)
{
	struct push *push = arg;
	int err = result->err;

	if (abandoned(push, result))
		return;
	if (!err)
		err = missing_gather(&push->missing, push->models->catalog);
	if (err)
		refuse(push, err, "push", result->err ? result->error : strerror(-err));
	else
		begin_errand(push, confirm, on_confirmed);
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

/* -ENOTCONN: this host has not joined yet. */
static int begin_upload(struct push *push)
{
	int err = catalog_upload_begin(push->models->catalog, push->name, &push->manifest,
				       push->replicas, &push->upload, on_begun, push);

	if (err)
		return err;
	push->manifest.text = NULL;
	catalog_upload_set_access(push->upload, &push->access);
	push->pending = true;
	return 0;
}

static void refuse_begin(struct push *push, int err)
{
	char reason[EARLY_REASON_LEN];

	refuse(push, err, "push",
	       err == -ENOTCONN ? early_reason(push->models, reason) : strerror(-err));
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
	if (err == -ENOTCONN && clock_us() - push->progress_us < EARLY_WAIT_US) {
		wake(push, WAIT_US);
	} else if (err) {
		refuse_begin(push, err);
	}
	return 0;
}

static void read_manifest(struct errand *errand)
{
	struct push *push = errand_in(errand, struct push, errand);
	struct catalog_manifest *manifest = &push->manifest;
	struct model_digest sha256;
	const char *why = "";
	int err;

	err = message_read(push->fd, CATALOG_MANIFEST_MAX, (void **)&manifest->text,
			   &manifest->size, &why);
	close(push->fd);
	snprintf(push->error, sizeof(push->error), "%s", why);
	if (!err)
		err = model_manifest_parse(&push->model, manifest->text, manifest->size,
					   push->error);
	if (!err) {
		snprintf(push->error, sizeof(push->error), "it cannot be hashed");
		err = model_digest_make(manifest->text, manifest->size, &sha256);
	}
	if (!err) {
		memcpy(manifest->sha256, sha256.bytes, CATALOG_DIGEST);
		err = missing_sort(&push->missing, &push->model);
		snprintf(push->error, sizeof(push->error), "%s",
			 err == -EBADMSG ? wrong_checksum : strerror(-err));
	}
	push->read_err = err;
}

static void on_manifest(struct errand *errand)
{
	struct push *push = errand_in(errand, struct push, errand);
	int err;

	turns_name("push: manifest");
	if (left_alone(push))
		return;
	if (push->read_err) {
		refuse(push, push->read_err, "manifest", push->error);
		return;
	}
	if (strcmp(push->model.name, push->name)) {
		client_refuse(push->client, -EINVAL,
			      "model: the manifest is of \"%s\", not of \"%s\": give both the same "
			      "name",
			      push->model.name, push->name);
		push_end(push);
		return;
	}
	if (catalog_model_find(push->models->catalog, push->name)) {
		client_refuse(push->client, -EEXIST,
			      "model: there is a model %s already: delete it first, or choose "
			      "another name",
			      push->name);
		push_end(push);
		return;
	}
	err = begin_upload(push);
	if (err == -ENOTCONN) {
		err = set_turn(push, on_join);
		if (!err)
			wake(push, WAIT_US);
	}
	if (err)
		refuse_begin(push, err);
}

void push_begin(struct client *client, const char *name, uint32_t replicas,
		const struct catalog_access *access, int manifest)
{
	const char *why = "out of memory";
	struct push *push = calloc(1, sizeof(*push));
	size_t size;
	int err = push ? message_check(manifest, CATALOG_MANIFEST_MAX, &size, &why) : -ENOMEM;

	if (!err) {
		push->fd = fcntl(manifest, F_DUPFD_CLOEXEC, 0);
		err = push->fd < 0 ? -errno : 0;
		why = strerror(-err);
	}
	if (err) {
		free(push);
		client_refuse(client, err, "manifest: %s", why);
		return;
	}
	push->models = client->models;
	push->payer = client->payer;
	push->replicas = replicas;
	push->access = *access;
	snprintf(push->name, sizeof(push->name), "%s", name);
	push->client = client;
	client->push = push;
	client_begin(client, &push->exchange);
	begin_errand(push, read_manifest, on_manifest);
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
	const struct model_chunk *chunk = &push->model.chunks[push->missing.list[push->refused]];
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
			      push->missing.list[push->refused], text);
	else
		client_refuse(client, err, "chunk %s: %s%s", text,
			      err == -ENOSPC ? "the donors have no room: " : strerror(-err),
			      err == -ENOSPC ? room_fix(push, chunk->size) : "");
}

struct room {
	const char *self;
	uint64_t bytes; /* the most that another donor has in one piece */
};

static void see_room(const struct catalog_host *host, void *arg)
{
	struct room *room = arg;

	if (strcmp(host->name, room->self) && host->rdma_address[0] &&
	    host->memory_longest > room->bytes)
		room->bytes = host->memory_longest;
}

/* Can others take what this host has no room for? Or is it on the disk, and read soon? */
static bool room_to_come(struct push *push, uint64_t bytes)
{
	struct room room = { .self = push->models->chunks.host.name };

	catalog_host_each(push->models->catalog, see_room, &room);
	return (room.bytes >= bytes || push->models->chunks.restore.under_way) &&
	       clock_us() - push->progress_us < STALLED_US;
}

static void note_sent(struct push *push, uint32_t which)
{
	push->sent_count += !push->sent[which];
	push->sent[which] = true;
}

/* Several at a time: to go on costs more than to note that one is there. */
static void on_kept(void *arg, uint32_t which, int err)
{
	struct push *push = arg;

	if (err)
		fail(push, which, err, err != -EBADMSG);
	else
		note_sent(push, which);
	if (push->wait.pending <= CHUNKS_PENDING_MAX / 2)
		wake(push, 0);
}

/* False: there is no room for it now. */
static bool store_next(struct push *push)
{
	const struct model_chunk *chunk = &push->model.chunks[push->missing.list[push->next]];
	struct chunks_bytes bytes = {
		.checksum = chunk->checksum, .source = push->source, .offset = push->offset,
	};
	int err;

	memcpy(bytes.digest, chunk->digest.bytes, sizeof(bytes.digest));
	err = chunks_add(&push->models->chunks, &bytes, chunk->size, &push->wait, push->next);
	if (err == -ENOSPC && room_to_come(push, chunk->size)) {
		/* Donors take what is theirs, and then it need not be here any more. */
		donate_poke(&push->models->donate);
		wake(push, WAIT_US);
		return false;
	}
	if (err < 0)
		fail(push, push->next, err, false);
	else if (err != CHUNKS_PENDING)
		note_sent(push, push->next);
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
	chunks_source_put(&push->models->chunks, push->source);
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

	if (!count || first > push->missing.count || count > push->missing.count - first) {
		client_refuse(client, -EINVAL,
			      "first, count: %u chunks are missing, not %u from %u on",
			      push->missing.count, count, first);
		return;
	}
	err = message_check(bytes, PUSH_BATCH_MAX, &size, &why);
	if (err) {
		client_refuse(client, err, "bytes: %s", why);
		return;
	}
	for (uint32_t i = first; i < first + count; i++)
		total += push->model.chunks[push->missing.list[i]].size;
	if (total != size) {
		client_refuse(client, -EINVAL, "bytes: these chunks have %llu bytes, not %zu",
			      (unsigned long long)total, size);
		return;
	}
	push->source = chunks_source_create(bytes);
	err = push->source ? set_turn(push, on_chunks) : -ENOMEM;
	if (err) {
		chunks_source_put(&push->models->chunks, push->source);
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
		      json_pack("{s:I}", "new_bytes", (json_int_t)push->missing.bytes), NULL, 0);
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

static void begin_look(struct push *push)
{
	uint32_t donors = 0;

	catalog_host_each(push->models->catalog, count_donor, &donors);
	push->donating = (struct donating){
		.wanted = push->replicas < donors ? push->replicas : donors,
		.changes = catalog_changes(push->models->catalog),
	};
}

/* False: there is more to see, for another turn. */
static bool look_at_donors(struct push *push)
{
	struct donating *donating = &push->donating;
	uint32_t wanted = donating->wanted, copies;

	while (donating->next < push->missing.order_count) {
		uint32_t index = push->missing.order[donating->next++];
		const struct model_chunk *chunk = &push->model.chunks[index];

		copies = donated_copies(push, chunk->digest.bytes);
		donating->scarce |= !copies;
		donating->total += (uint64_t)chunk->size * wanted;
		donating->done += (uint64_t)chunk->size * (copies < wanted ? copies : wanted);
		if (donating->next % CHUNKS_LOOKED == 0 && turns_over())
			return false;
	}
	return true;
}

static void act_on_donors(struct push *push)
{
	const struct donating *donating = &push->donating;

	if (donating->wanted && donating->done == donating->total) {
		commit(push);
		return;
	}
	if (donating->done != push->progress) {
		push->progress = donating->done;
		push->progress_us = clock_us();
		client_progress(push->client, donating->done, donating->total);
	}
	if (clock_us() - push->progress_us < STALLED_US) {
		donate_poke(&push->models->donate);
		wake(push, WAIT_US);
	} else if (donating->wanted && !donating->scarce) {
		/* Fewer replicas than wanted, which the catalog shows; more when there is room. */
		commit(push);
	} else if (!refuse_silence(push, "commit")) {
		client_refuse(push->client, -ENOSPC,
			      "commit: the donors have no room for %llu bytes: %s",
			      (unsigned long long)(donating->total - donating->done),
			      room_fix(push, donating->total - donating->done));
		push_end(push);
	}
}

static int on_wait(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;
	uint32_t seen = push->donating.next;

	(void)source;
	(void)us;
	turns_name("push: replicas");
	/* What was seen to its end is as it was until something changes. */
	if (!seen || (seen == push->missing.order_count &&
		      push->donating.changes != catalog_changes(push->models->catalog)))
		begin_look(push);
	if (look_at_donors(push))
		act_on_donors(push);
	else
		wake(push, 0);
	return 0;
}

/* What is held is written until the catalog answers, which is too long for a client. */
static int on_flushing(sd_event_source *source, uint64_t us, void *arg)
{
	struct push *push = arg;

	(void)source;
	(void)us;
	turns_name("push: flush");
	/* With or without the client, on_flushed() follows. */
	if (push->client && !refuse_silence(push, "commit"))
		wake(push, FLUSH_LOOK_US);
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
	uint32_t unsent = push->missing.count - push->sent_count;
	int err;

	if (unsent) {
		client_refuse(client, -EINVAL, "commit: %u of the %u missing chunks were not sent",
			      unsent, push->missing.count);
		return;
	}
	err = set_turn(push, on_flushing);
	if (!err)
		err = catalog_flush(client->models->catalog, on_flushed, push);
	if (err) {
		push->turn = sd_event_source_disable_unref(push->turn);
		client_refuse(client, err, "commit: %s", strerror(-err));
		return;
	}
	push->pending = true;
	client_begin(client, &push->exchange);
	wake(push, FLUSH_LOOK_US);
}
