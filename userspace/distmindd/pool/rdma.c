// SPDX-License-Identifier: GPL-2.0-or-later
#include "rdma.h"

#include "../common/log.h"
#include "../common/turns.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define LOOK_US 1000000
#define ACCURACY_US 100000
#define DEVICES "/sys/class/infiniband"

/* One that was lost, while a thread closes it: that unpins all memory of the arena. */
struct closing {
	struct worker_job job;
	struct network network;
	bool under_way;
};

/* The network while a thread opens it; it is the chunks' when that is done. */
struct opening {
	struct worker_job job;
	struct rdma *rdma;
	struct network network;
	struct network_request request;
	char address[CATALOG_ADDRESS_LEN];
	int err;
	char reason[MEMORY_REASON_LEN];
};

struct rdma {
	struct chunks *chunks;
	sd_event_source *timer, *news;
	struct opening *opening; /* a thread's; NULL: none is under way */
	struct closing closing;	 /* so too; nothing is opened meanwhile */
	bool lost;		 /* the network is, and its transfers are being ended */
	bool looked;		 /* once at least, to the end */
	char device[64]; /* a name; "": by the host's address */
	uint16_t port;
	bool address_given;
	char reason[MEMORY_REASON_LEN]; /* why there is none */
	void (*changed)(void *arg, bool up); /* or NULL */
	void *arg;
};

const char *rdma_device(const struct chunks *chunks, const char **reason)
{
	bool used = chunks->network.fabric && !chunks->rdma->lost;

	*reason = used ? "" : chunks->rdma->reason;
	return used ? memory_fabric_device(chunks->network.fabric) : NULL;
}

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

static bool any_device(void)
{
	const struct dirent *entry;
	DIR *dir = opendir(DEVICES);
	bool any = false;

	while (dir && !any && (entry = readdir(dir)))
		any = entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return any;
}

static void announce(struct chunks *chunks)
{
	if (chunks->catalog && chunks->rdma->looked)
		catalog_set_addresses(chunks->catalog, chunks->host.address,
				      chunks->host.rdma_address, chunks->host.rdma_port);
}

/*
 * A device that is there
 */

static void on_donor(void *arg, uint32_t donor, bool up, const char *reason)
{
	struct memory_reader_donor stats = { 0 };
	struct chunks *chunks = arg;

	/* Every attempt that fails is told; one line is enough. */
	if (donor >= MEMORY_DONORS_MAX || chunks->connected[donor] == up || chunks->rdma->lost)
		return;
	chunks->connected[donor] = up;
	memory_loader_donor_stats(chunks->network.loader, donor, &stats);
	if (up)
		log_info("donor-connected", LOG_S("host", stats.name));
	if (up && chunks->rdma->changed)
		chunks->rdma->changed(chunks->rdma->arg, true);
	if (!up)
		log_info("donor-disconnected", LOG_S("host", stats.name), LOG_S("reason", reason));
}

/* The host has been told, looks for itself, and counts. */
static void on_damaged(void *arg, uint32_t donor, const uint8_t *digest)
{
	struct memory_reader_donor stats = { 0 };
	struct chunks *chunks = arg;

	memory_loader_donor_stats(chunks->network.loader, donor, &stats);
	chunks_tell_damage(stats.name, digest, "as it was read from there");
}

static void on_suspected(void *arg, const uint8_t *digest)
{
	chunks_examine(arg, digest);
}

static void on_expelled(void *arg, const struct sockaddr_storage *reader, const char *reason)
{
	char address[NI_MAXHOST] = "?";

	(void)arg;
	getnameinfo((const struct sockaddr *)reader, sizeof(*reader), address, sizeof(address),
		    NULL, 0, NI_NUMERICHOST);
	log_warning("reader-expelled", LOG_S("address", address), LOG_S("reason", reason));
}

static void lose(struct rdma *rdma)
{
	struct chunks *chunks = rdma->chunks;
	const char *device = memory_fabric_device(chunks->network.fabric);

	snprintf(rdma->reason, sizeof(rdma->reason),
		 "RDMA device %s is gone: add it again, or another one (rdma link add)", device);
	log_warning("rdma-lost", LOG_S("device", device), LOG_S("reason", rdma->reason));
	rdma->lost = true;
	chunks->host.rdma_address[0] = '\0';
	chunks->host.rdma_port = 0;
	memset(chunks->connected, 0, sizeof(chunks->connected));
	announce(chunks);
	memory_loader_fail(chunks->network.loader, -ENODEV, rdma->reason);
}

static void close_work(struct worker_job *job)
{
	network_shut(&((struct closing *)job)->network);
}

static void close_done(struct worker_job *job, bool dropped)
{
	struct closing *closing = (struct closing *)job;

	(void)dropped;
	network_close(&closing->network);
	closing->under_way = false;
}

/* Nobody reads with it any more. */
static void detach(struct rdma *rdma)
{
	struct chunks *chunks = rdma->chunks;
	struct closing *closing = &rdma->closing;

	rdma->news = sd_event_source_disable_unref(rdma->news);
	rdma->lost = false;
	*closing = (struct closing){
		.job = { .work = close_work, .done = close_done }, .under_way = true,
	};
	network_detach(&chunks->network, &closing->network);
	worker_add(chunks->worker, &closing->job);
	if (rdma->changed)
		rdma->changed(rdma->arg, false);
}

static void follow(struct rdma *rdma, bool gone)
{
	if (gone && !rdma->lost)
		lose(rdma);
	if (rdma->lost && memory_loader_over(rdma->chunks->network.loader))
		detach(rdma);
}

static int on_news(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct rdma *rdma = arg;

	(void)source;
	(void)fd;
	(void)revents;
	turns_name("transfers");
	memory_fabric_dispatch(rdma->chunks->network.fabric);
	follow(rdma, memory_fabric_removed(rdma->chunks->network.fabric));
	return 0;
}

/*
 * One that may come
 */

/* Takes what the thread has opened. */
static int use(struct rdma *rdma, struct opening *opening)
{
	struct chunks *chunks = rdma->chunks;
	struct catalog_host *host = &chunks->host;
	int err = sd_event_add_io(chunks->loop, &rdma->news,
				  memory_fabric_fd(opening->network.fabric), EPOLLIN, on_news,
				  rdma);

	if (err < 0) {
		snprintf(opening->reason, sizeof(opening->reason), "%s", strerror(-err));
		network_close(&opening->network);
		return err;
	}
	network_move(&opening->network, &chunks->network);
	snprintf(host->rdma_address, sizeof(host->rdma_address), "%s", opening->address);
	host->rdma_port = rdma->port;
	rdma->reason[0] = '\0';
	log_info("rdma-found", LOG_S("device", memory_fabric_device(chunks->network.fabric)),
		 LOG_S("address", host->rdma_address));
	if (rdma->changed)
		rdma->changed(rdma->arg, true);
	return 0;
}

/* Each reason is told once, not each attempt. */
static void do_without(struct rdma *rdma, const char *reason)
{
	if (strcmp(reason, rdma->reason))
		log_info("no-rdma", LOG_S("reason", reason));
	snprintf(rdma->reason, sizeof(rdma->reason), "%s", reason);
}

static void look_ended(struct rdma *rdma)
{
	struct chunks *chunks = rdma->chunks;
	bool first = !rdma->looked;

	rdma->looked = true;
	if (!first)
		announce(chunks);
	else if (chunks->catalog)
		chunks_join(chunks, chunks->catalog);
}

static void open_work(struct worker_job *job)
{
	struct opening *opening = (struct opening *)job;

	opening->err = network_open(&opening->network, &opening->request, opening->reason);
}

static void open_done(struct worker_job *job, bool dropped)
{
	struct opening *opening = (struct opening *)job;
	struct rdma *rdma = opening->rdma;

	rdma->opening = NULL;
	if (dropped) {
		network_close(&opening->network);
	} else {
		if (!opening->err)
			opening->err = use(rdma, opening);
		if (opening->err)
			do_without(rdma, opening->reason);
		look_ended(rdma);
	}
	free(opening);
}

static const char *open_begin(struct rdma *rdma)
{
	struct chunks *chunks = rdma->chunks;
	struct opening *opening;

	if (!rdma->address_given)
		find_address(chunks->host.address, sizeof(chunks->host.address));
	if (!any_device())
		return "there is no RDMA device: load the driver of the NIC, or: "
		       "rdma link add rxe0 type rxe netdev DEVICE";
	if (!chunks->host.address[0])
		return "this host has no address beside loopback: give it one in [host]";
	opening = calloc(1, sizeof(*opening));
	if (!opening)
		return "out of memory";
	opening->job.work = open_work;
	opening->job.done = open_done;
	opening->rdma = rdma;
	memcpy(opening->address, chunks->host.address, sizeof(opening->address));
	opening->request = (struct network_request){
		.arena = chunks->arena, .name = chunks->host.name, .address = opening->address,
		.device = rdma->device, .port = rdma->port, .donor_changed = on_donor,
		.damaged = on_damaged, .suspected = on_suspected, .expelled = on_expelled,
		.arg = chunks,
	};
	rdma->opening = opening;
	worker_add(chunks->worker, &opening->job);
	return NULL;
}

static void look(struct rdma *rdma)
{
	const char *reason = open_begin(rdma);

	if (!reason)
		return;
	do_without(rdma, reason);
	look_ended(rdma);
}

static int on_look(sd_event_source *source, uint64_t us, void *arg)
{
	struct rdma *rdma = arg;
	int err;

	(void)us;
	turns_name("rdma device");
	if (rdma->chunks->network.fabric)
		follow(rdma, memory_fabric_lost(rdma->chunks->network.fabric));
	else if (!rdma->opening && !rdma->closing.under_way)
		look(rdma);
	err = sd_event_source_set_time_relative(source, LOOK_US);
	return err < 0 ? err : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int rdma_open(struct chunks *chunks, const struct config_models *config)
{
	struct rdma *rdma = calloc(1, sizeof(*rdma));
	int err;

	if (!rdma)
		return -ENOMEM;
	rdma->chunks = chunks;
	rdma->port = (uint16_t)config->rdma_port;
	rdma->address_given = config->address[0];
	snprintf(rdma->device, sizeof(rdma->device), "%s", config->rdma_device);
	if (!rdma->address_given)
		find_address(chunks->host.address, sizeof(chunks->host.address));
	chunks->rdma = rdma;
	err = sd_event_add_time_relative(chunks->loop, &rdma->timer, CLOCK_MONOTONIC, LOOK_US,
					 ACCURACY_US, on_look, rdma);
	return err < 0 ? err : 0;
}

void rdma_begin(struct chunks *chunks)
{
	if (!chunks->rdma->looked && !chunks->rdma->opening)
		look(chunks->rdma);
}

bool rdma_looked(const struct chunks *chunks)
{
	return chunks->rdma->looked;
}

void rdma_watch(struct chunks *chunks, void (*changed)(void *arg, bool up), void *arg)
{
	chunks->rdma->changed = changed;
	chunks->rdma->arg = arg;
}

void rdma_stop(struct chunks *chunks)
{
	struct rdma *rdma = chunks->rdma;

	if (rdma) {
		rdma->timer = sd_event_source_disable_unref(rdma->timer);
		rdma->news = sd_event_source_disable_unref(rdma->news);
	}
	network_stop(&chunks->network);
}

void rdma_close(struct chunks *chunks)
{
	rdma_stop(chunks);
	network_close(&chunks->network);
	free(chunks->rdma);
	chunks->rdma = NULL;
}
