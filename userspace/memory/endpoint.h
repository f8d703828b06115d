/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One reliable connection, as both donors and readers have it: queue pair,
 * completion queue, buffers for control messages. It begins as a connection in
 * the making and ends exactly once, with gone(); after that it does not exist.
 *
 * Everything here is called with the fabric's lock. Callbacks may call
 * memory_endpoint_fail(), which only marks: what is marked is buried after the
 * events of a round, so that no event finds an endpoint that is not there.
 */
#ifndef DISTMIND_MEMORY_ENDPOINT_H
#define DISTMIND_MEMORY_ENDPOINT_H

#include "fabric.h"
#include "reader.h"
#include "wire.h"

/* Messages in flight, in each direction: twice what a reader has without an answer. */
#define MEMORY_ENDPOINT_MESSAGES 16

struct memory_endpoint_ops {
	void (*established)(void *arg);
	/* Bytes of the peer: nothing of them is checked. */
	void (*received)(void *arg, const uint8_t *bytes, size_t len);
	/* READs that succeeded, in the order in which they were posted. */
	void (*read_done)(void *arg, uint32_t count, uint64_t now);
	/* No READ of it can touch memory any more, in either direction. */
	void (*gone)(void *arg, const char *reason);
};

struct memory_endpoint_setup {
	struct memory_fabric *fabric;
	const struct memory_endpoint_ops *ops;
	void *arg;
	struct ibv_pd *pd;
	uint32_t read_depth;  /* READs that we have in flight; 0: none ever */
	uint32_t serve_depth; /* and the peer; 0: none ever */
};

/* Begins to connect; the deadline is the caller's. NULL with the reason. */
struct memory_endpoint *memory_endpoint_connect(const struct memory_endpoint_setup *setup,
						const struct sockaddr *address,
						char reason[MEMORY_REASON_LEN]);
/* Takes over the id of a connection request, or NULL with the reason: the id is then refused. */
struct memory_endpoint *memory_endpoint_accept(const struct memory_endpoint_setup *setup,
					       struct rdma_cm_id *id,
					       char reason[MEMORY_REASON_LEN]);
void memory_endpoint_fail(struct memory_endpoint *endpoint, const char *reason);

/* -EAGAIN: too many are on their way; any message or completion may change that. */
int memory_endpoint_send(struct memory_endpoint *endpoint,
			 const struct memory_wire_message *message);
/* Messages that the peer's device has not acknowledged. */
uint32_t memory_endpoint_pending(const struct memory_endpoint *endpoint);
/* No more than read_depth altogether. */
int memory_endpoint_read(struct memory_endpoint *endpoint, const struct memory_read *reads,
			 uint32_t count);

/* A listener: requests come with an id of their own, to be accepted or destroyed. */
struct memory_listener {
	void (*requested)(struct memory_listener *listener, struct rdma_cm_id *id,
			  uint32_t serve_depth);
	struct rdma_cm_id *id;
};
int memory_endpoint_listen(struct memory_fabric *fabric, struct memory_listener *listener,
			   const struct sockaddr *address, char reason[MEMORY_REASON_LEN]);
void memory_endpoint_unlisten(struct memory_listener *listener);

/* For the fabric's thread. */
void memory_endpoint_poll(struct memory_fabric *fabric);
/* The same without an event, and without a system call; true: there was something. */
bool memory_endpoint_look(struct memory_fabric *fabric);
void memory_endpoint_events(struct memory_fabric *fabric);
/* True: somebody was told that it is gone. */
bool memory_endpoint_bury(struct memory_fabric *fabric);

#endif
