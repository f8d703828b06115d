// SPDX-License-Identifier: GPL-2.0-or-later
#include "chunks.h"

#include "../common/log.h"
#include "../common/turns.h"

#include "../../model/chunk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define STAGING (64ULL << 20) /* of a host that donates nothing */
#define LEASE_S 10
#define PEERS 64
#define HOST_PEERS 4 /* one is enough; more if the ends of others are not known yet */
#define PINS 4096
#define DEPTH 16
#define READ_SIZE (1U << 20)
#define REGISTERED_MAX (16ULL << 30)

struct waiter {
	struct chunks_wait *wait; /* NULL: it was forgotten */
	uint32_t which;
	STAILQ_ENTRY(waiter) link;
};

/* A chunk on its way to the disk. It can be read, but the catalog does not count on it yet. */
struct chunks_store {
	struct chunks *chunks;
	struct memory_chunk *chunk; /* pinned */
	bool freed; /* meanwhile: another one may be on its way after it */
	STAILQ_HEAD(, waiter) waiters; /* owned */
	TAILQ_ENTRY(chunks_store) link;
};

/* The first IPv4 address that is not of a loopback; stays empty if there is none. */
static void find_address(char *address, size_t room)
{
	struct ifaddrs *all, *one;

	if (getifaddrs(&all))
		return;
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
		    (one->ifa_flags & IFF_LOOPBACK) || !(one->ifa_flags & IFF_UP))
			continue;
		inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, address,
			  (socklen_t)room);
		break;
	}
	freeifaddrs(all);
}

static int name_host(struct chunks *chunks, const struct config_models *config)
{
	struct catalog_host *host = &chunks->host;

	if (config->host[0])
		snprintf(host->name, sizeof(host->name), "%s", config->host);
	else if (gethostname(host->name, sizeof(host->name) - 1) || !host->name[0])
		return -errno;
	if (config->address[0])
		snprintf(host->address, sizeof(host->address), "%s", config->address);
	else
		find_address(host->address, sizeof(host->address));
	host->memory_total = config->donor_memory;
	host->memory_free = config->donor_memory;
	chunks->donates = config->donor_memory;
	return 0;
}

static int on_news(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct chunks *chunks = arg;

	(void)source;
	(void)fd;
	(void)revents;
	turns_name("transfers");
	memory_fabric_dispatch(chunks->fabric);
	return 0;
}

static void on_donor(void *arg, uint32_t donor, bool up, const char *reason)
{
	struct memory_reader_donor stats = { 0 };
	struct chunks *chunks = arg;

	/* Every attempt that fails is told; one line is enough. */
	if (donor >= MEMORY_DONORS_MAX || chunks->connected[donor] == up)
		return;
	chunks->connected[donor] = up;
	memory_client_donor_stats(chunks->client, donor, &stats);
	if (up)
		log_info("donor-connected", LOG_S("host", stats.name));
	else
		log_info("donor-disconnected", LOG_S("host", stats.name), LOG_S("reason", reason));
}

static int open_donor(struct chunks *chunks, const struct config_models *config, char *reason)
{
	struct memory_donor_options options = {
		.peers = PEERS, .host_peers = HOST_PEERS, .pins = PINS,
	};
	struct model_digest id;
	int err;

	err = memory_fabric_resolve(chunks->host.address, (uint16_t)config->rdma_port,
				    &options.address, reason);
	if (err)
		return err;
	if (!model_digest_make(chunks->host.name, strlen(chunks->host.name), &id))
		memcpy(options.id, id.bytes, sizeof(options.id));
	err = memory_donor_start(&chunks->donor, chunks->fabric, chunks->arena, &options, reason);
	if (err)
		return err;
	snprintf(chunks->host.rdma_address, sizeof(chunks->host.rdma_address), "%s",
		 chunks->host.address);
	chunks->host.rdma_port = (uint16_t)config->rdma_port;
	return 0;
}

static int open_client(struct chunks *chunks, char *reason)
{
	struct memory_client_options options = {
		.depth = DEPTH, .read_size = READ_SIZE, .donor_changed = on_donor, .arg = chunks,
	};
	int err = memory_client_open(&chunks->client, chunks->fabric, &options, reason);

	if (err)
		return err;
	chunks->registrations = memory_registrations_create(chunks->fabric, REGISTERED_MAX);
	if (!chunks->registrations) {
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	return memory_registration_get(chunks->registrations, UINT64_MAX,
				       memory_arena_base(chunks->arena),
				       memory_arena_size(chunks->arena), -1, &chunks->registration,
				       reason);
}

static void stop_transfers(struct chunks *chunks)
{
	chunks->news = sd_event_source_disable_unref(chunks->news);
	memory_client_close(chunks->client);
	chunks->client = NULL;
}

static void close_fabric(struct chunks *chunks)
{
	stop_transfers(chunks);
	if (chunks->donor)
		memory_donor_stop(chunks->donor);
	if (chunks->registration.entry)
		memory_registration_put(chunks->registrations, &chunks->registration);
	memory_registrations_destroy(chunks->registrations);
	memory_fabric_close(chunks->fabric);
	chunks->donor = NULL;
	chunks->registrations = NULL;
	chunks->fabric = NULL;
	chunks->host.rdma_address[0] = '\0';
	chunks->host.rdma_port = 0;
}

static void open_fabric(struct chunks *chunks, sd_event *loop, const struct config_models *config)
{
	const char *device = config->rdma_device[0] ? config->rdma_device : chunks->host.address;
	char reason[MEMORY_REASON_LEN] = "this host has no address beside loopback: give it one "
					 "in [host]";
	int err = -ENODEV;

	if (chunks->host.address[0])
		err = memory_fabric_open(&chunks->fabric, device, reason);
	if (!err)
		err = open_donor(chunks, config, reason);
	if (!err)
		err = open_client(chunks, reason);
	if (!err) {
		err = sd_event_add_io(loop, &chunks->news, memory_fabric_fd(chunks->fabric),
				      EPOLLIN, on_news, chunks);
		if (err < 0)
			snprintf(reason, sizeof(reason), "%s", strerror(-err));
	}
	if (err >= 0)
		return;
	close_fabric(chunks);
	log_info("no-rdma", LOG_S("reason", reason));
}

static void on_skipped(void *arg, const char *file, const char *reason)
{
	(void)arg;
	log_warning("chunk-not-restored", LOG_S("file", file), LOG_S("reason", reason));
}

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

static int open_spooler(struct chunks *chunks, sd_event *loop)
{
	int err = memory_spooler_open(&chunks->spooler, chunks->spool);

	if (err)
		return err;
	err = sd_event_add_io(loop, &chunks->stored, memory_spooler_fd(chunks->spooler), EPOLLIN,
			      on_stored, chunks);
	return err < 0 ? err : 0;
}

static int open_spool(struct chunks *chunks, sd_event *loop, const char *path)
{
	struct memory_spool_result result = { 0 };
	int err;

	if (!path[0])
		return 0;
	err = memory_spool_open(&chunks->spool, path);
	if (!err)
		err = memory_spool_restore(chunks->spool, chunks->arena, on_skipped, NULL, &result);
	if (!err)
		err = open_spooler(chunks, loop);
	if (err)
		log_error("no-spool", LOG_S("directory", path), LOG_S("reason", strerror(-err)));
	else
		log_info("spool-restored", LOG_U("chunks", result.chunks),
			 LOG_U("bytes", result.bytes), LOG_U("skipped", result.skipped));
	return err;
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

	*chunks = (struct chunks){ 0 };
	TAILQ_INIT(&chunks->stores);
	err = name_host(chunks, config);
	if (!err)
		err = memory_arena_create(&chunks->arena, size);
	if (err) {
		log_error("no-arena", LOG_U("bytes", size), LOG_S("reason", strerror(-err)));
		return err;
	}
	err = open_spool(chunks, loop, config->spool);
	if (err) {
		chunks_close(chunks);
		return err;
	}
	open_cache(chunks, config->cache_memory);
	open_fabric(chunks, loop, config);
	return 0;
}

void chunks_stop(struct chunks *chunks)
{
	stop_transfers(chunks);
	chunks->stored = sd_event_source_disable_unref(chunks->stored);
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
	close_fabric(chunks);
	sd_event_source_disable_unref(chunks->stored);
	memory_spooler_close(chunks->spooler);
	while (!TAILQ_EMPTY(&chunks->stores))
		end_store(TAILQ_FIRST(&chunks->stores));
	memory_spool_close(chunks->spool);
	cache_close(chunks->cache);
	memory_arena_destroy(chunks->arena);
	*chunks = (struct chunks){ 0 };
}

static void hold(void *arg, const struct memory_chunk *chunk)
{
	catalog_hold(arg, chunk->digest);
}

int chunks_join(struct chunks *chunks, struct catalog *catalog)
{
	struct memory_arena_stats stats;

	memory_arena_stats(chunks->arena, &stats);
	if (chunks->donates)
		chunks->host.memory_free = stats.size - stats.used;
	chunks->catalog = catalog;
	memory_arena_each(chunks->arena, hold, catalog);
	return catalog_join(catalog, &chunks->host, LEASE_S, chunks->spool != NULL);
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

	if (err)
		log_warning("chunk-not-spooled", LOG_S("reason", strerror(-err)));
	else if (!store->freed)
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
	struct waiter *waiter = calloc(1, sizeof(*waiter));

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

int chunks_keep(struct chunks *chunks, struct memory_chunk *chunk, const uint8_t *digest,
		struct chunks_wait *wait, uint32_t which)
{
	int err = memory_arena_seal(chunks->arena, chunk, digest);

	if (err)
		memory_arena_abandon(chunks->arena, chunk);
	if (err == -EEXIST)
		return keep_again(chunks, digest, wait, which);
	if (err)
		return err;
	if (chunks->spooler)
		err = begin_store(chunks, digest, wait, which);
	else
		err = catalog_hold(chunks->catalog, digest);
	if (err < 0)
		chunks_free(chunks, digest);
	return err;
}

int chunks_add(struct chunks *chunks, const void *data, uint64_t size, const uint8_t *digest,
	       struct chunks_wait *wait, uint32_t which)
{
	struct memory_chunk *chunk;
	int err;

	if (chunks_have(chunks, digest))
		return keep_again(chunks, digest, wait, which);
	err = memory_arena_allocate(chunks->arena, size, &chunk);
	if (err)
		return err;
	memcpy(chunk->data, data, size);
	return chunks_keep(chunks, chunk, digest, wait, which);
}

void chunks_forget(struct chunks *chunks, struct chunks_wait *wait)
{
	struct chunks_store *store;
	struct waiter *waiter;

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

void chunks_report(struct chunks *chunks)
{
	struct memory_arena_stats stats;

	memory_arena_stats(chunks->arena, &stats);
	if (chunks->donates)
		catalog_set_memory_free(chunks->catalog, stats.size - stats.used);
}
