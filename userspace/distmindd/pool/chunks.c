// SPDX-License-Identifier: GPL-2.0-or-later
#include "chunks.h"

#include "../common/log.h"
#include "../common/turns.h"
#include "rdma.h"

#include "../../common/hex.h"

#include "../../memory/check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define STAGING (64ULL << 20) /* of a host that donates nothing */
#define LEASE_S 10
#define RESTORE_RETRY_US 5000000

struct waiter {
	struct chunks_wait *wait; /* NULL: it was forgotten */
	uint32_t which;
	STAILQ_ENTRY(waiter) link;
};

struct chunks_source {
	struct worker_job job; /* that closes it */
	int fd;
	unsigned int references;
};

/* What somebody sent. Nobody else sees the chunk until a thread has read and checked it. */
struct chunks_arrival {
	struct worker_job job;
	struct chunks *chunks;
	struct memory_chunk *chunk; /* owned */
	struct chunks_bytes bytes;  /* with a reference to the source */
	struct chunks_wait *wait;   /* NULL: it was forgotten */
	uint32_t which;
	int err;
	TAILQ_ENTRY(chunks_arrival) link;
};

/* A chunk that was damaged in memory, on its way from the disk. */
struct chunks_reload {
	uint8_t digest[MEMORY_DIGEST_LEN];
	STAILQ_ENTRY(chunks_reload) link;
};

/* A chunk on its way to the disk. It can be read, but the catalog does not count on it yet. */
struct chunks_store {
	struct chunks *chunks;
	struct memory_chunk *chunk; /* pinned */
	bool freed; /* meanwhile: another one may be on its way after it */
	STAILQ_HEAD(, waiter) waiters; /* owned */
	TAILQ_ENTRY(chunks_store) link;
};

static int name_host(struct chunks *chunks, const struct config_models *config)
{
	struct catalog_host *host = &chunks->host;

	if (config->host[0])
		snprintf(host->name, sizeof(host->name), "%s", config->host);
	else if (gethostname(host->name, sizeof(host->name) - 1) || !host->name[0])
		return -errno;
	snprintf(host->address, sizeof(host->address), "%s", config->address);
	host->memory_total = config->donor_memory;
	host->memory_free = config->donor_memory;
	host->memory_longest = config->donor_memory;
	chunks->donates = config->donor_memory;
	return 0;
}

void chunks_tell_damage(const char *host, const uint8_t *digest, const char *where)
{
	char text[HEX_LEN(MEMORY_DIGEST_LEN)];

	hex_format(digest, MEMORY_DIGEST_LEN, text);
	log_warning("chunk-damaged", LOG_S("host", host), LOG_S("chunk", text),
		    LOG_S("where", where),
		    LOG_S("fix", "it is replaced by a good copy, if there is one; if this comes "
				 "again, look at the memory and the disks of the host"));
}

/*
 * What this host can take in: neither what its spool needs, nor anything while the disk of that
 * takes nothing. Longest is of it, in one piece.
 */
static uint64_t room(struct chunks *chunks, uint64_t *longest)
{
	struct memory_arena_stats stats;

	memory_arena_stats(chunks->arena, &stats);
	*longest = chunks->disk.err ? 0 : stats.longest;
	return chunks->disk.err ? 0 : stats.size - stats.used - stats.reserved;
}

/* When others can be told how to read from this host. What it has is said one by one. */
static int join(struct chunks *chunks)
{
	int err;

	if (chunks->donates)
		chunks->host.memory_free = room(chunks, &chunks->host.memory_longest);
	catalog_set_restoring(chunks->catalog, chunks->spooler && !chunks->restore.ended);
	err = catalog_join(chunks->catalog, &chunks->host, LEASE_S, chunks->spool != NULL);
	if (err)
		log_error("pool-not-joined", LOG_S("reason", strerror(-err)));
	return err;
}

/*
 * The spool
 */

static int on_stored(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct chunks *chunks = arg;

	(void)source;
	(void)fd;
	(void)revents;
	turns_name("spool");
	memory_spooler_dispatch(chunks->spooler);
	return 0;
}

static void count_damaged(struct chunks *chunks)
{
	chunks->damaged++;
	if (chunks->catalog)
		catalog_set_damaged(chunks->catalog, chunks->damaged);
}

static struct chunks_reload *find_reload(const struct chunks *chunks, const uint8_t *digest)
{
	struct chunks_reload *reload;

	STAILQ_FOREACH(reload, &chunks->reloads, link)
		if (!memcmp(reload->digest, digest, MEMORY_DIGEST_LEN))
			break;
	return reload;
}

bool chunks_reloading(const struct chunks *chunks, const uint8_t *digest)
{
	return find_reload(chunks, digest);
}

static void begin_reload(struct chunks *chunks, const uint8_t *digest)
{
	struct chunks_reload *reload = chunks->spooler ? calloc(1, sizeof(*reload)) : NULL;

	if (!reload)
		return;
	memcpy(reload->digest, digest, MEMORY_DIGEST_LEN);
	if (memory_spooler_reload(chunks->spooler, digest))
		free(reload);
	else
		STAILQ_INSERT_TAIL(&chunks->reloads, reload, link);
}

static void end_reload(struct chunks *chunks, struct chunks_reload *reload)
{
	STAILQ_REMOVE(&chunks->reloads, reload, chunks_reload, link);
	free(reload);
}

static void on_counted(void *arg, const struct memory_spool_count *count)
{
	struct chunks *chunks = arg;

	chunks->restore.files = count->files;
	chunks->disk.damaged = count->damaged;
	chunks_report(chunks);
}

/* It can be read since a moment ago, unless it was freed in this moment. */
static void on_restored(void *arg, const struct memory_spool_restored *file)
{
	struct chunks *chunks = arg;
	struct chunks_reload *reload = find_reload(chunks, file->digest);

	if (reload)
		end_reload(chunks, reload);
	if (file->err == -EEXIST || (reload && file->err == -ENOENT))
		return;
	if (file->err == -EBADMSG) {
		chunks_tell_damage(chunks->host.name, file->digest, "in the spool");
		count_damaged(chunks);
		chunks->disk.damaged++;
	}
	if (file->err == -ENOSPC &&
	    (!chunks->restore.shortest || file->length < chunks->restore.shortest))
		chunks->restore.shortest = file->length;
	if (file->err) {
		chunks->restore.skipped++;
		/* Of many for the same reason the first is named; the end has their number. */
		if (file->err != chunks->restore.err)
			log_warning("chunk-not-restored", LOG_S("file", file->name),
				    LOG_S("reason", memory_spool_reason(file->err)));
		chunks->restore.err = file->err;
		return;
	}
	chunks->restore.chunks++;
	chunks->restore.bytes += file->length;
	if (chunks_have(chunks, file->digest) && chunks->catalog)
		catalog_hold(chunks->catalog, file->digest);
}

static void on_restore_ended(void *arg, int err)
{
	struct chunks *chunks = arg;

	if (err) {
		if (err != chunks->restore.err)
			log_error("spool-not-restored", LOG_S("reason", strerror(-err)));
		chunks->restore.err = err;
		sd_event_source_set_time_relative(chunks->restore.again, RESTORE_RETRY_US);
		sd_event_source_set_enabled(chunks->restore.again, SD_EVENT_ONESHOT);
		return;
	}
	chunks->restore.under_way = false;
	chunks->restore.ended = true;
	if (chunks->catalog)
		catalog_set_restoring(chunks->catalog, false);
	if (!chunks->restore.skipped)
		chunks->restore.err = 0;
	log_info("spool-restored", LOG_U("chunks", chunks->restore.chunks),
		 LOG_U("bytes", chunks->restore.bytes), LOG_U("skipped", chunks->restore.skipped));
	chunks_report(chunks);
}

static void begin_restore(struct chunks *chunks)
{
	int err = memory_spooler_restore(chunks->spooler);

	chunks->restore.under_way = true;
	chunks->restore.skipped = chunks->restore.shortest = 0;
	if (err)
		on_restore_ended(chunks, err);
}

static int on_again(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	turns_name("spool");
	begin_restore(arg);
	return 0;
}

static int open_spool(struct chunks *chunks, const char *path)
{
	static const struct memory_spooler_ops ops = {
		.counted = on_counted, .restored = on_restored, .restore_ended = on_restore_ended,
		.over = turns_over,
	};
	int err;

	if (!path[0])
		return 0;
	err = disk_open(chunks, path);
	if (err >= 0)
		err = memory_spool_open(&chunks->spool, path);
	if (!err)
		err = memory_spooler_open(&chunks->spooler, chunks->spool, chunks->arena, &ops,
					  chunks);
	if (!err) {
		chunks->restore.under_way = true; /* from on_begin() on */
		err = sd_event_add_io(chunks->loop, &chunks->stored,
				      memory_spooler_fd(chunks->spooler), EPOLLIN, on_stored,
				      chunks);
	}
	if (err >= 0)
		err = sd_event_add_time(chunks->loop, &chunks->restore.again, CLOCK_MONOTONIC, 0, 0,
					on_again, chunks);
	if (err >= 0)
		err = sd_event_source_set_enabled(chunks->restore.again, SD_EVENT_OFF);
	if (err < 0)
		log_error("no-spool", LOG_S("directory", path), LOG_S("reason", strerror(-err)),
			  LOG_S("fix", "make it a directory that distmindd may write, or give "
				       "another one ([donor] spool in distmindd.conf)"));
	return err < 0 ? err : 0;
}

/* With the first turn of the loop, so that whoever waits for the daemon need not wait for this. */
static int on_begin(sd_event_source *source, void *arg)
{
	struct chunks *chunks = arg;

	(void)source;
	turns_name("start");
	if (chunks->spooler)
		begin_restore(chunks);
	rdma_begin(chunks);
	return 0;
}

/* Without it everything works, only slower. */
static void open_cache(struct chunks *chunks, uint64_t size)
{
	int err = size ? cache_open(&chunks->cache, size) : 0;

	if (err)
		log_warning("no-cache", LOG_U("bytes", size), LOG_S("reason", strerror(-err)));
}

int chunks_open(struct chunks *chunks, sd_event *loop, const struct config_models *config)
{
	uint64_t size = config->donor_memory ? config->donor_memory : STAGING;
	int err;

	*chunks = (struct chunks){ .loop = loop };
	TAILQ_INIT(&chunks->arrivals);
	TAILQ_INIT(&chunks->stores);
	STAILQ_INIT(&chunks->reloads);
	err = name_host(chunks, config);
	if (!err)
		err = memory_arena_create(&chunks->arena, size);
	if (err) {
		log_error("no-arena", LOG_U("bytes", size), LOG_S("reason", strerror(-err)),
			  LOG_S("fix", "give less ([donor] memory in distmindd.conf)"));
		return err;
	}
	err = worker_open(&chunks->worker, loop);
	if (err)
		log_error("no-thread", LOG_S("reason", strerror(-err)));
	if (!err)
		err = open_spool(chunks, config->spool);
	if (!err)
		err = rdma_open(chunks, config);
	if (!err)
		err = sd_event_add_defer(loop, &chunks->begin, on_begin, chunks);
	if (err < 0) {
		chunks_close(chunks);
		return err;
	}
	open_cache(chunks, config->cache_memory);
	return 0;
}

void chunks_stop(struct chunks *chunks)
{
	chunks->begin = sd_event_source_disable_unref(chunks->begin);
	worker_close(chunks->worker);
	chunks->worker = NULL;
	rdma_stop(chunks);
	chunks->stored = sd_event_source_disable_unref(chunks->stored);
	chunks->restore.again = sd_event_source_disable_unref(chunks->restore.again);
	disk_close(chunks);
	if (chunks->spooler)
		memory_spooler_stop(chunks->spooler);
}

static void end_store(struct chunks_store *store)
{
	struct waiter *waiter;

	while ((waiter = STAILQ_FIRST(&store->waiters))) {
		STAILQ_REMOVE_HEAD(&store->waiters, link);
		free(waiter);
	}
	TAILQ_REMOVE(&store->chunks->stores, store, link);
	memory_arena_unpin(store->chunks->arena, store->chunk);
	free(store);
}

void chunks_close(struct chunks *chunks)
{
	if (!chunks->arena)
		return;
	chunks_stop(chunks);
	rdma_close(chunks);
	memory_spooler_close(chunks->spooler);
	while (!TAILQ_EMPTY(&chunks->stores))
		end_store(TAILQ_FIRST(&chunks->stores));
	while (!STAILQ_EMPTY(&chunks->reloads))
		end_reload(chunks, STAILQ_FIRST(&chunks->reloads));
	memory_spool_close(chunks->spool);
	cache_close(chunks->cache);
	memory_arena_destroy(chunks->arena);
	*chunks = (struct chunks){ 0 };
}

int chunks_join(struct chunks *chunks, struct catalog *catalog)
{
	chunks->catalog = catalog;
	/* Else with the first look for a device, so that others can be told of it at once. */
	return rdma_looked(chunks) ? join(chunks) : 0;
}

bool chunks_have(struct chunks *chunks, const uint8_t *digest)
{
	struct memory_chunk *chunk;

	if (memory_arena_pin(chunks->arena, digest, &chunk))
		return false;
	memory_arena_unpin(chunks->arena, chunk);
	return true;
}

static struct chunks_store *find_store(const struct chunks *chunks, const uint8_t *digest)
{
	struct chunks_store *store;

	TAILQ_FOREACH(store, &chunks->stores, link)
		if (!store->freed && !memcmp(store->chunk->digest, digest, MEMORY_DIGEST_LEN))
			break;
	return store;
}

bool chunks_storing(const struct chunks *chunks, const uint8_t *digest)
{
	return find_store(chunks, digest);
}

static void store_done(void *arg, int err)
{
	struct chunks_store *store = arg;
	struct chunks *chunks = store->chunks;
	struct waiter *waiter;

	disk_stored(chunks, store->chunk->length, err);
	if (!err && !store->freed)
		err = catalog_hold(chunks->catalog, store->chunk->digest);
	if (store->freed)
		err = -ECANCELED;
	else if (err)
		chunks_free(chunks, store->chunk->digest);
	STAILQ_FOREACH(waiter, &store->waiters, link) {
		if (!waiter->wait)
			continue;
		waiter->wait->pending--;
		waiter->wait->kept(waiter->wait->arg, waiter->which, err);
	}
	end_store(store);
}

static int wait_for(struct chunks_store *store, struct chunks_wait *wait, uint32_t which)
{
	struct waiter *waiter;

	if (!wait)
		return CHUNKS_PENDING;
	waiter = calloc(1, sizeof(*waiter));
	if (!waiter)
		return -ENOMEM;
	waiter->wait = wait;
	waiter->which = which;
	wait->pending++;
	STAILQ_INSERT_TAIL(&store->waiters, waiter, link);
	return CHUNKS_PENDING;
}

static int begin_store(struct chunks *chunks, const uint8_t *digest, struct chunks_wait *wait,
		       uint32_t which)
{
	struct chunks_store *store = calloc(1, sizeof(*store));
	int err;

	if (!store)
		return -ENOMEM;
	store->chunks = chunks;
	STAILQ_INIT(&store->waiters);
	err = memory_arena_pin(chunks->arena, digest, &store->chunk);
	if (err) {
		free(store);
		return err;
	}
	TAILQ_INSERT_TAIL(&chunks->stores, store, link);
	err = wait_for(store, wait, which);
	if (err < 0) {
		end_store(store);
		return err;
	}
	err = memory_spooler_store(chunks->spooler, store->chunk, store_done, store);
	if (err) {
		if (wait)
			wait->pending--;
		end_store(store);
		return err;
	}
	return CHUNKS_PENDING;
}

/* A chunk that is in the arena already counts when it is on disk. */
static int keep_again(struct chunks *chunks, const uint8_t *digest, struct chunks_wait *wait,
		      uint32_t which)
{
	struct chunks_store *store = find_store(chunks, digest);

	return store ? wait_for(store, wait, which) : catalog_hold(chunks->catalog, digest);
}

/* Takes a chunk whose bytes are right. */
static int keep(struct chunks *chunks, struct memory_chunk *chunk, const struct chunks_bytes *bytes,
		struct chunks_wait *wait, uint32_t which)
{
	int err = memory_arena_seal(chunks->arena, chunk, bytes->digest, bytes->checksum);

	if (err)
		memory_arena_abandon(chunks->arena, chunk);
	if (err == -EEXIST)
		return keep_again(chunks, bytes->digest, wait, which);
	if (err)
		return err;
	if (chunks->spooler)
		err = begin_store(chunks, bytes->digest, wait, which);
	else
		err = catalog_hold(chunks->catalog, bytes->digest);
	if (err < 0)
		chunks_free(chunks, bytes->digest);
	return err;
}

/*
 * Arrivals
 */

struct chunks_source *chunks_source_create(int fd)
{
	struct chunks_source *source = calloc(1, sizeof(*source));

	if (!source)
		return NULL;
	source->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	source->references = 1;
	if (source->fd >= 0)
		return source;
	free(source);
	return NULL;
}

static void source_close(struct worker_job *job)
{
	struct chunks_source *source = (struct chunks_source *)job;

	close(source->fd);
	source->fd = -1;
}

static void source_closed(struct worker_job *job, bool dropped)
{
	struct chunks_source *source = (struct chunks_source *)job;

	if (dropped && source->fd >= 0)
		close(source->fd);
	free(source);
}

/* Memory that may go with it is much for the loop. */
void chunks_source_put(struct chunks *chunks, struct chunks_source *source)
{
	if (!source || --source->references)
		return;
	source->job = (struct worker_job){ .work = source_close, .done = source_closed };
	if (chunks->worker)
		worker_add(chunks->worker, &source->job);
	else
		source_closed(&source->job, true);
}

/*
 * Read, not copied from a mapping: the pages of the arena may never have been touched, and the
 * kernel makes them more cheaply than faults would. Whoever sent it cannot change it after it
 * was checked.
 */
static int read_bytes(const struct chunks_arrival *arrival)
{
	const struct chunks_bytes *bytes = &arrival->bytes;
	uint64_t done = 0;

	while (done < arrival->chunk->length) {
		ssize_t part = pread(bytes->source->fd, arrival->chunk->data + done,
				     arrival->chunk->length - done,
				     (off_t)(bytes->offset + done));

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		if (!part)
			return -EBADMSG;
		done += (uint64_t)part;
	}
	return 0;
}

static void arrival_work(struct worker_job *job)
{
	struct chunks_arrival *arrival = (struct chunks_arrival *)job;
	const struct memory_chunk *chunk = arrival->chunk;

	arrival->err = arrival->bytes.source ? read_bytes(arrival) : 0;
	if (arrival->err)
		return;
	if (chunk_checksum(chunk->data, chunk->length) != arrival->bytes.checksum ||
	    !memory_digest_matches(chunk->data, chunk->length, arrival->bytes.digest))
		arrival->err = -EBADMSG;
}

static void arrival_done(struct worker_job *job, bool dropped)
{
	struct chunks_arrival *arrival = (struct chunks_arrival *)job;
	struct chunks *chunks = arrival->chunks;
	struct chunks_wait *wait = arrival->wait;
	int err = arrival->err;

	TAILQ_REMOVE(&chunks->arrivals, arrival, link);
	if (dropped || err)
		memory_arena_abandon(chunks->arena, arrival->chunk);
	else
		err = keep(chunks, arrival->chunk, &arrival->bytes, wait, arrival->which);
	if (wait && !dropped) {
		wait->pending--;
		if (err != CHUNKS_PENDING)
			wait->kept(wait->arg, arrival->which, err);
	}
	chunks_source_put(chunks, arrival->bytes.source);
	free(arrival);
}

int chunks_keep(struct chunks *chunks, struct memory_chunk *chunk, const struct chunks_bytes *bytes,
		struct chunks_wait *wait, uint32_t which)
{
	struct chunks_arrival *arrival = calloc(1, sizeof(*arrival));

	if (!arrival) {
		memory_arena_abandon(chunks->arena, chunk);
		return -ENOMEM;
	}
	arrival->job.work = arrival_work;
	arrival->job.done = arrival_done;
	arrival->chunks = chunks;
	arrival->chunk = chunk;
	arrival->bytes = *bytes;
	if (bytes->source)
		bytes->source->references++;
	arrival->wait = wait;
	arrival->which = which;
	wait->pending++;
	TAILQ_INSERT_TAIL(&chunks->arrivals, arrival, link);
	worker_add(chunks->worker, &arrival->job);
	return CHUNKS_PENDING;
}

int chunks_add(struct chunks *chunks, const struct chunks_bytes *bytes, uint64_t size,
	       struct chunks_wait *wait, uint32_t which)
{
	struct memory_chunk *chunk;
	int err;

	if (chunks_have(chunks, bytes->digest))
		return keep_again(chunks, bytes->digest, wait, which);
	err = memory_arena_allocate(chunks->arena, size, &chunk);
	if (err)
		return err;
	return chunks_keep(chunks, chunk, bytes, wait, which);
}

void chunks_forget(struct chunks *chunks, struct chunks_wait *wait)
{
	struct chunks_arrival *arrival;
	struct chunks_store *store;
	struct waiter *waiter;

	TAILQ_FOREACH(arrival, &chunks->arrivals, link)
		if (arrival->wait == wait)
			arrival->wait = NULL;
	TAILQ_FOREACH(store, &chunks->stores, link)
		STAILQ_FOREACH(waiter, &store->waiters, link)
			if (waiter->wait == wait)
				waiter->wait = NULL;
	wait->pending = 0;
}

void chunks_free(struct chunks *chunks, const uint8_t *digest)
{
	struct chunks_store *store = find_store(chunks, digest);

	if (store)
		store->freed = true;
	memory_arena_free(chunks->arena, digest);
	if (chunks->spooler)
		memory_spooler_remove(chunks->spooler, digest);
}

bool chunks_suspect(struct chunks *chunks, const uint8_t *digest, bool sure)
{
	struct chunks_store *store = find_store(chunks, digest);
	struct memory_chunk *chunk;
	bool good;

	if (memory_arena_pin(chunks->arena, digest, &chunk))
		return true;
	good = !sure && chunk_checksum(chunk->data, chunk->length) == chunk->checksum;
	memory_arena_unpin(chunks->arena, chunk);
	if (good)
		return false;
	chunks_tell_damage(chunks->host.name, digest, "in memory");
	count_damaged(chunks);
	catalog_lose(chunks->catalog, digest);
	/* Of one on its way to the disk, what gets there has the checksum of what was meant. */
	if (store)
		store->freed = true;
	memory_arena_free(chunks->arena, digest);
	begin_reload(chunks, digest);
	return true;
}

/*
 * Complaints of other hosts
 */

static void examine(struct worker_job *job)
{
	struct chunks_examination *examination = (struct chunks_examination *)job;
	const struct memory_chunk *chunk = examination->chunks[0];

	examination->good = chunk_checksum(chunk->data, chunk->length) == chunk->checksum;
}

/* Not another one with the same digest, that came when this one was freed. */
static bool is_current(struct chunks *chunks, const struct memory_chunk *chunk)
{
	struct memory_chunk *current;

	if (memory_arena_pin(chunks->arena, chunk->digest, &current))
		return false;
	memory_arena_unpin(chunks->arena, current);
	return current == chunk;
}

static void examined(struct worker_job *job, bool dropped)
{
	struct chunks *chunks =
		(struct chunks *)((char *)job - offsetof(struct chunks, examination.job));
	struct chunks_examination *examination = &chunks->examination;
	struct memory_chunk *chunk = examination->chunks[0];

	if (dropped) {
		while (examination->count)
			memory_arena_unpin(chunks->arena,
					   examination->chunks[--examination->count]);
		return;
	}
	memmove(examination->chunks, examination->chunks + 1,
		--examination->count * sizeof(*examination->chunks));
	if (!examination->good && is_current(chunks, chunk))
		chunks_suspect(chunks, chunk->digest, true);
	memory_arena_unpin(chunks->arena, chunk);
	if (examination->count)
		worker_add(chunks->worker, job);
}

void chunks_examine(struct chunks *chunks, const uint8_t *digest)
{
	struct chunks_examination *examination = &chunks->examination;
	struct memory_chunk *chunk;

	if (!chunks->worker || examination->count == CHUNKS_EXAMINED_MAX ||
	    memory_arena_pin(chunks->arena, digest, &chunk))
		return;
	for (uint32_t i = 0; i < examination->count; i++) {
		if (examination->chunks[i] != chunk)
			continue;
		memory_arena_unpin(chunks->arena, chunk);
		return;
	}
	examination->chunks[examination->count++] = chunk;
	if (examination->count > 1)
		return;
	examination->job = (struct worker_job){ .work = examine, .done = examined };
	worker_add(chunks->worker, &examination->job);
}

void chunks_report(struct chunks *chunks)
{
	struct memory_arena_stats stats;
	uint64_t longest;

	memory_arena_stats(chunks->arena, &stats);
	if (!chunks->restore.under_way && chunks->restore.shortest &&
	    stats.longest >= chunks->restore.shortest)
		begin_restore(chunks);
	if (chunks->donates) {
		catalog_set_memory_free(chunks->catalog, room(chunks, &longest));
		catalog_set_memory_longest(chunks->catalog, longest);
	}
}
