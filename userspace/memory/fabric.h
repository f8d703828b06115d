/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An RDMA device and the one thread that handles everything it says:
 * completions, connection events, deadlines. Who uses it is a party: a donor, a
 * loader.
 *
 * Two threads. The owner is the one that opened the fabric (the daemon's loop);
 * only it calls functions of this library that take a fabric, donor, loader or
 * registration. The fabric's own thread calls run() and work() of parties
 * and everything of endpoints. One lock covers all that both touch: the fabric's
 * thread has it whenever it is awake, the owner takes it inside of calls. News
 * for the owner go through a descriptor: when it is readable, the owner calls
 * memory_fabric_dispatch(), which calls dispatch() of parties, without the lock
 * and in the owner's thread. So callbacks may call anything, but not start or stop
 * parties.
 *
 * Devices go: a driver that is unloaded, a NIC that is unplugged, `rdma link delete`. Whoever does
 * that may have to wait, in the kernel, until nobody uses the device any more. So the owner asks
 * memory_fabric_removed() after each dispatch and memory_fabric_lost() now and then; if one says
 * so, it fails its loader, and when that is over stops its parties, and closes the fabric. The
 * latter unpins all memory that is registered. Whoever must not be held up by that calls
 * memory_fabric_take(), hands parties and fabric over to a thread of its own, which is the owner
 * until memory_fabric_stop() has returned, and then closes the fabric.
 */
#ifndef DISTMIND_MEMORY_FABRIC_H
#define DISTMIND_MEMORY_FABRIC_H

#include "load.h"

#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

struct memory_endpoint;
struct memory_fabric;
struct memory_registration;

struct memory_party {
	/* Acts on what has happened, with the lock; returns when to be called again. */
	uint64_t (*run)(struct memory_party *party, uint64_t now);
	/* Something long, without the lock for most of it; true: there is more. NULL: none. */
	bool (*work)(struct memory_party *party);
	/* Tells the owner's callbacks, in the owner's thread, without the lock. NULL: none. */
	void (*dispatch)(struct memory_party *party);
	bool urgent; /* said by run(): what happens next is awaited, worth a processor */
	struct memory_party *next;
};

/* Only endpoint.c and parties look inside. */
struct memory_fabric {
	pthread_mutex_t lock;
	struct ibv_context *verbs;
	struct ibv_pd *pd; /* of what is read into; not of what is read from */
	struct ibv_comp_channel *completions;
	struct rdma_event_channel *events;
	uint32_t read_depth_max; /* READs that a connection can have in flight */
	uint32_t serve_depth_max; /* and that a peer's can have */
	uint32_t message_max;
	uint32_t completion_queues;
	struct memory_endpoint *endpoints; /* that have one */
	struct memory_endpoint *dying;
	struct memory_party *parties;
	/* Keeps the device's context, which is the connection manager's own: one of these. */
	struct rdma_cm_id *anchor;
	struct ibv_context **devices;
	LIST_HEAD(, memory_registration) registrations; /* the owner's alone */
	_Atomic bool no_dmabuf; /* the device has said so */
	struct ibv_mr **taken; /* of registrations; owned */
	size_t taken_count;
	unsigned int holds; /* of those who use the device in threads of their own */
	bool closed; /* with some of these left, who are waited for */
	int epoll, kick, news;
	bool removed; /* so the connection manager has said */
	bool stopping;
	pthread_t thread;
};

/*
 * The device of that name, or that has that local address, or the first if it is
 * NULL. Loopback addresses have none: the connection manager does not do them. A
 * negative errno with the reason.
 */
int memory_fabric_open(struct memory_fabric **fabric, const char *device,
		       char reason[MEMORY_REASON_LEN]);
/*
 * All parties must be gone. Ends all registrations. If the device is lost, whoever removes it need
 * not wait any longer.
 */
void memory_fabric_close(struct memory_fabric *fabric);

/* Registrations that are left are the fabric's alone from now on; their memory stays pinned. */
void memory_fabric_take(struct memory_fabric *fabric);
/*
 * What takes long of closing it: all parties must be gone. By whichever thread, beside which only
 * memory_fabric_hold() and memory_fabric_release() may be called.
 */
void memory_fabric_stop(struct memory_fabric *fabric);

/*
 * The device stays usable by other threads (registration.h) until as often released, also if the
 * fabric is closed meanwhile: what is left of it goes with the last release.
 */
void memory_fabric_hold(struct memory_fabric *fabric);
void memory_fabric_release(struct memory_fabric *fabric);

/* Its device. */
const char *memory_fabric_device(const struct memory_fabric *fabric);
/* Is the device gone, or about to go? By what the connection manager says; by a look at sysfs. */
bool memory_fabric_removed(struct memory_fabric *fabric);
bool memory_fabric_lost(struct memory_fabric *fabric);

/* To poll for reading, and what to call then. */
int memory_fabric_fd(const struct memory_fabric *fabric);
void memory_fabric_dispatch(struct memory_fabric *fabric);

/* A host's name or address; may ask a name server. A negative errno with the reason. */
int memory_fabric_resolve(const char *host, uint16_t port, struct sockaddr_storage *address,
			  char reason[MEMORY_REASON_LEN]);

/* For parties, with the lock. */
void memory_fabric_join(struct memory_fabric *fabric, struct memory_party *party);
void memory_fabric_leave(struct memory_fabric *fabric, struct memory_party *party);
/* Wake the other thread: the fabric's, the owner's. */
void memory_fabric_kick(struct memory_fabric *fabric);
void memory_fabric_tell(struct memory_fabric *fabric);

#endif
