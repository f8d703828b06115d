// SPDX-License-Identifier: GPL-2.0-or-later
#include "endpoint.h"

#include "../common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKLOG 64
#define RESOLVE_MS 2000
#define POLL_BATCH 32
#define POST_BATCH 16
/*
 * Of the connection manager, in one round. The lock is held for a round, and a peer that
 * never stops must not keep it from everybody else.
 */
#define ROUND_EVENTS 64
/*
 * 4.096 us << 16 = 268 ms, seven times: a dead peer is known after about two
 * seconds. Not 7 retries, which some devices (soft-RoCE) take for no limit, as all
 * do for a peer that has nothing to receive into.
 */
#define ACK_TIMEOUT 16
#define RETRIES 6
/* What the connection manager calls "consumer defined": somebody listens, and said no. */
#define STATUS_REFUSED 28

enum kind {
	KIND_RECEIVE,
	KIND_SEND,
	KIND_READ,
};

struct memory_endpoint {
	struct memory_endpoint_setup setup;
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t (*buffers)[MEMORY_WIRE_MAX]; /* to receive, then to send */
	uint32_t sends[MEMORY_ENDPOINT_MESSAGES]; /* free ones */
	uint32_t send_count;
	uint32_t silent; /* READs since the last one that reports its completion */
	bool connected, dead;
	struct memory_endpoint *next; /* among the dying */
	struct memory_endpoint *sibling; /* among those with a completion queue */
	char reason[MEMORY_REASON_LEN];
};

/* What an id's context points to. */
struct context {
	struct memory_endpoint *endpoint;
	struct memory_listener *listener;
};

static uint64_t wr_id(enum kind kind, uint32_t index)
{
	return (uint64_t)kind << 32 | index;
}

void memory_endpoint_fail(struct memory_endpoint *endpoint, const char *reason)
{
	if (endpoint->dead)
		return;
	endpoint->dead = true;
	snprintf(endpoint->reason, sizeof(endpoint->reason), "%s", reason);
	endpoint->next = endpoint->setup.fabric->dying;
	endpoint->setup.fabric->dying = endpoint;
}

static void fail_errno(struct memory_endpoint *endpoint, const char *what, int err)
{
	char reason[MEMORY_REASON_LEN];

	snprintf(reason, sizeof(reason), "%s: %s", what, strerror(err));
	memory_endpoint_fail(endpoint, reason);
}

static void enlist(struct memory_endpoint *endpoint)
{
	struct memory_fabric *fabric = endpoint->setup.fabric;

	endpoint->sibling = fabric->endpoints;
	fabric->endpoints = endpoint;
	fabric->completion_queues++;
}

static void delist(struct memory_endpoint *endpoint)
{
	struct memory_fabric *fabric = endpoint->setup.fabric;
	struct memory_endpoint **at = &fabric->endpoints;

	while (*at != endpoint)
		at = &(*at)->sibling;
	*at = endpoint->sibling;
	fabric->completion_queues--;
}

static void destroy(struct memory_endpoint *endpoint)
{
	if (endpoint->id) {
		if (endpoint->connected)
			rdma_disconnect(endpoint->id);
		if (endpoint->id->qp)
			rdma_destroy_qp(endpoint->id);
		free(endpoint->id->context);
		rdma_destroy_id(endpoint->id);
	}
	if (endpoint->cq) {
		ibv_destroy_cq(endpoint->cq);
		delist(endpoint);
	}
	if (endpoint->mr)
		ibv_dereg_mr(endpoint->mr);
	free(endpoint->buffers);
	free(endpoint);
}

bool memory_endpoint_bury(struct memory_fabric *fabric)
{
	bool any = fabric->dying;
	struct memory_endpoint *endpoint;
	const struct memory_endpoint_ops *ops;
	char reason[MEMORY_REASON_LEN];
	void *arg;

	/* gone() may let others die. */
	while (fabric->dying) {
		endpoint = fabric->dying;
		fabric->dying = endpoint->next;
		ops = endpoint->setup.ops;
		arg = endpoint->setup.arg;
		memcpy(reason, endpoint->reason, sizeof(reason));
		destroy(endpoint);
		ops->gone(arg, reason);
	}
	return any;
}

static struct context *context_create(struct memory_endpoint *endpoint,
				      struct memory_listener *listener)
{
	struct context *context = malloc(sizeof(*context));

	if (context)
		*context = (struct context){ .endpoint = endpoint, .listener = listener };
	return context;
}

static int post_receive(struct memory_endpoint *endpoint, uint32_t index)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)endpoint->buffers[index], .length = MEMORY_WIRE_MAX,
		.lkey = endpoint->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = {
		.wr_id = wr_id(KIND_RECEIVE, index), .sg_list = &sge, .num_sge = 1,
	};

	return ibv_post_recv(endpoint->id->qp, &wr, &bad);
}

/* Queue pair, buffers, and something to receive into before the peer can send. */
static int build(struct memory_endpoint *endpoint)
{
	const struct memory_endpoint_setup *setup = &endpoint->setup;
	size_t size = 2 * MEMORY_ENDPOINT_MESSAGES * sizeof(*endpoint->buffers);
	struct ibv_qp_init_attr init = {
		.cap = {
			.max_send_wr = setup->read_depth + MEMORY_ENDPOINT_MESSAGES,
			.max_recv_wr = MEMORY_ENDPOINT_MESSAGES,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	int err;

	endpoint->buffers = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
	if (!endpoint->buffers)
		return ENOMEM;
	memset(endpoint->buffers, 0, size);
	endpoint->mr = ibv_reg_mr(setup->pd, endpoint->buffers, size, IBV_ACCESS_LOCAL_WRITE);
	if (!endpoint->mr)
		return errno;
	endpoint->cq = ibv_create_cq(setup->fabric->verbs,
				     init.cap.max_send_wr + init.cap.max_recv_wr, endpoint,
				     setup->fabric->completions, 0);
	if (!endpoint->cq)
		return errno;
	enlist(endpoint);
	err = ibv_req_notify_cq(endpoint->cq, 0);
	if (err)
		return err;
	init.send_cq = init.recv_cq = endpoint->cq;
	if (rdma_create_qp(endpoint->id, setup->pd, &init))
		return errno;
	for (uint32_t i = 0; i < MEMORY_ENDPOINT_MESSAGES; i++) {
		endpoint->sends[endpoint->send_count++] = MEMORY_ENDPOINT_MESSAGES + i;
		err = post_receive(endpoint, i);
		if (err)
			return err;
	}
	return 0;
}

static void connection_param(const struct memory_endpoint *endpoint, struct rdma_conn_param *param)
{
	uint32_t depth = endpoint->setup.read_depth, max = endpoint->setup.fabric->read_depth_max;

	/* What is posted above that waits in the queue. */
	*param = (struct rdma_conn_param){
		.initiator_depth = depth < max ? depth : max,
		.responder_resources = endpoint->setup.serve_depth,
		.retry_count = RETRIES,
		.rnr_retry_count = RETRIES,
	};
}

static void limit_retries(struct rdma_cm_id *id)
{
	uint8_t timeout = ACK_TIMEOUT;

	/* A device that cannot only notices a dead peer later. */
	rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
}

struct memory_endpoint *memory_endpoint_connect(const struct memory_endpoint_setup *setup,
						const struct sockaddr *address,
						char reason[MEMORY_REASON_LEN])
{
	struct memory_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct context *context = context_create(endpoint, NULL);

	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	if (!endpoint || !context)
		goto fail;
	endpoint->setup = *setup;
	if (rdma_create_id(setup->fabric->events, &endpoint->id, context, RDMA_PS_TCP)) {
		snprintf(reason, MEMORY_REASON_LEN, "no connection manager: %s; load rdma_ucm",
			 strerror(errno));
		goto fail;
	}
	limit_retries(endpoint->id);
	if (rdma_resolve_addr(endpoint->id, NULL, (struct sockaddr *)address, RESOLVE_MS)) {
		snprintf(reason, MEMORY_REASON_LEN, "no way to its address: %s", strerror(errno));
		destroy(endpoint);
		return NULL;
	}
	return endpoint;
fail:
	free(context);
	free(endpoint);
	return NULL;
}

struct memory_endpoint *memory_endpoint_accept(const struct memory_endpoint_setup *setup,
					       struct rdma_cm_id *id,
					       char reason[MEMORY_REASON_LEN])
{
	struct memory_endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct context *context = context_create(endpoint, NULL);
	struct rdma_conn_param param;
	int err;

	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	if (!endpoint || !context) {
		free(context);
		free(endpoint);
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return NULL;
	}
	endpoint->setup = *setup;
	endpoint->id = id;
	id->context = context;
	limit_retries(id);
	err = build(endpoint);
	if (!err) {
		connection_param(endpoint, &param);
		err = rdma_accept(id, &param) ? errno : 0;
	} else {
		rdma_reject(id, NULL, 0);
	}
	if (err) {
		snprintf(reason, MEMORY_REASON_LEN, "cannot accept a connection: %s",
			 strerror(err));
		destroy(endpoint);
		return NULL;
	}
	return endpoint;
}

int memory_endpoint_send(struct memory_endpoint *endpoint,
			 const struct memory_wire_message *message)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND, .num_sge = 1,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge = { 0 };
	uint32_t index;
	int err;

	if (endpoint->dead)
		return -ENOTCONN;
	if (!endpoint->send_count)
		return -EAGAIN;
	index = endpoint->sends[--endpoint->send_count];
	sge.addr = (uintptr_t)endpoint->buffers[index];
	sge.length = memory_wire_encode(message, endpoint->buffers[index]);
	sge.lkey = endpoint->mr->lkey;
	wr.wr_id = wr_id(KIND_SEND, index);
	wr.sg_list = &sge;
	err = ibv_post_send(endpoint->id->qp, &wr, &bad);
	if (err)
		fail_errno(endpoint, "cannot send", err);
	return -err;
}

uint32_t memory_endpoint_pending(const struct memory_endpoint *endpoint)
{
	return MEMORY_ENDPOINT_MESSAGES - endpoint->send_count;
}

/*
 * One completion for several READs, half of what may be in flight at most: the
 * other half keeps the wire busy meanwhile.
 */
static void describe(struct memory_endpoint *endpoint, const struct memory_read *read, bool last,
		     struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	*sge = (struct ibv_sge){ .addr = read->local, .length = read->length, .lkey = read->lkey };
	*wr = (struct ibv_send_wr){
		.opcode = IBV_WR_RDMA_READ, .sg_list = sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = read->remote, .rkey = read->rkey },
	};
	endpoint->silent++;
	if (!last && !read->awaited && endpoint->silent < endpoint->setup.read_depth / 2)
		return;
	wr->wr_id = wr_id(KIND_READ, endpoint->silent);
	wr->send_flags = IBV_SEND_SIGNALED;
	endpoint->silent = 0;
}

int memory_endpoint_read(struct memory_endpoint *endpoint, const struct memory_read *reads,
			 uint32_t count)
{
	struct ibv_send_wr *bad, wr[POST_BATCH];
	struct ibv_sge sge[POST_BATCH];
	uint32_t batch;
	int err;

	for (; count && !endpoint->dead; reads += batch, count -= batch) {
		batch = count < POST_BATCH ? count : POST_BATCH;
		for (uint32_t i = 0; i < batch; i++) {
			describe(endpoint, &reads[i], i + 1 == count, &wr[i], &sge[i]);
			wr[i].next = i + 1 < batch ? &wr[i + 1] : NULL;
		}
		err = ibv_post_send(endpoint->id->qp, wr, &bad);
		if (err)
			fail_errno(endpoint, "cannot post a READ", err);
	}
	return endpoint->dead ? -ENOTCONN : 0;
}

static void received(struct memory_endpoint *endpoint, uint32_t index, uint32_t len)
{
	int err;

	endpoint->setup.ops->received(endpoint->setup.arg, endpoint->buffers[index], len);
	if (endpoint->dead)
		return;
	err = post_receive(endpoint, index);
	if (err)
		fail_errno(endpoint, "cannot receive", err);
}

static void complete(struct memory_endpoint *endpoint, const struct ibv_wc *wc, uint32_t *reads)
{
	static const char *const what[] = { "receiving", "sending", "reading" };
	uint32_t kind = wc->wr_id >> 32, index = (uint32_t)wc->wr_id;
	char reason[MEMORY_REASON_LEN];

	if (wc->status != IBV_WC_SUCCESS) {
		/* The first says why, others are only flushed. */
		snprintf(reason, sizeof(reason), "connection lost while %s: %s", what[kind],
			 ibv_wc_status_str(wc->status));
		memory_endpoint_fail(endpoint, reason);
	} else if (kind == KIND_READ) {
		*reads += index;
	} else if (kind == KIND_SEND) {
		endpoint->sends[endpoint->send_count++] = index;
	} else {
		received(endpoint, index, wc->byte_len);
	}
}

/*
 * True: there was something in its completion queue. No more is taken than it can hold:
 * what is left came after it was armed, so there is an event for it.
 */
static bool empty(struct memory_endpoint *endpoint)
{
	struct ibv_wc wc[POLL_BATCH];
	uint32_t reads = 0;
	int left = endpoint->cq->cqe, count;
	bool any = false;

	while (left > 0 && !endpoint->dead &&
	       (count = ibv_poll_cq(endpoint->cq, POLL_BATCH, wc))) {
		any = true;
		left -= count;
		if (count < 0)
			memory_endpoint_fail(endpoint, "the completion queue is broken");
		for (int i = 0; i < count && !endpoint->dead; i++)
			complete(endpoint, &wc[i], &reads);
	}
	/* READs that succeeded before an error did succeed. */
	if (reads)
		endpoint->setup.ops->read_done(endpoint->setup.arg, reads, clock_ns());
	return any;
}

/* Armed before it is emptied, so that nothing is missed. */
static void drain(struct memory_endpoint *endpoint)
{
	if (ibv_req_notify_cq(endpoint->cq, 0))
		memory_endpoint_fail(endpoint, "the completion queue is broken");
	empty(endpoint);
}

void memory_endpoint_poll(struct memory_fabric *fabric)
{
	struct ibv_cq *cq;
	void *endpoint;

	/* No more than there can be: to ask for another is a system call. */
	for (uint32_t i = 0; i < fabric->completion_queues; i++) {
		if (ibv_get_cq_event(fabric->completions, &cq, &endpoint))
			return;
		ibv_ack_cq_events(cq, 1);
		drain(endpoint);
	}
}

/* Queues stay armed, or have an event waiting: poll is never missed by that. */
bool memory_endpoint_look(struct memory_fabric *fabric)
{
	struct memory_endpoint *endpoint;
	bool any = false;

	for (endpoint = fabric->endpoints; endpoint; endpoint = endpoint->sibling)
		any |= empty(endpoint);
	return any;
}

static void resolved(struct memory_endpoint *endpoint)
{
	if (endpoint->id->verbs != endpoint->setup.fabric->verbs)
		memory_endpoint_fail(endpoint, "its address is reached by another RDMA device");
	else if (rdma_resolve_route(endpoint->id, RESOLVE_MS))
		fail_errno(endpoint, "no route to its address", errno);
}

static void routed(struct memory_endpoint *endpoint)
{
	struct rdma_conn_param param;
	int err = build(endpoint);

	connection_param(endpoint, &param);
	if (err)
		fail_errno(endpoint, "cannot create a queue pair", err);
	else if (rdma_connect(endpoint->id, &param))
		fail_errno(endpoint, "cannot connect", errno);
}

static void endpoint_event(struct memory_endpoint *endpoint, const struct rdma_cm_event *event)
{
	char reason[MEMORY_REASON_LEN];

	if (endpoint->dead)
		return;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		resolved(endpoint);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		routed(endpoint);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		endpoint->connected = true;
		endpoint->setup.ops->established(endpoint->setup.arg);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		memory_endpoint_fail(endpoint, "no way to its address");
		break;
	case RDMA_CM_EVENT_REJECTED:
		memory_endpoint_fail(endpoint,
				     event->status == STATUS_REFUSED ?
					     "the donor is busy: it has as many readers as it "
					     "takes, of this host or in all" :
					     "connection refused: no donor there");
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		memory_endpoint_fail(endpoint, "the peer has closed the connection");
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		memory_endpoint_fail(endpoint, "it does not answer");
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
	case RDMA_CM_EVENT_ADDR_CHANGE:
		break;
	default:
		snprintf(reason, sizeof(reason), "%s: %s", rdma_event_str(event->event),
			 strerror(abs(event->status)));
		memory_endpoint_fail(endpoint, reason);
	}
}

static void device_removed(struct memory_fabric *fabric, const struct rdma_cm_id *id)
{
	if (fabric->removed || (id->verbs && id->verbs != fabric->verbs))
		return;
	fabric->removed = true;
	memory_fabric_tell(fabric);
}

void memory_endpoint_events(struct memory_fabric *fabric)
{
	struct rdma_cm_event *event, copy;
	struct context *context;

	/* What is left keeps the descriptor readable. */
	for (int i = 0; i < ROUND_EVENTS && !rdma_get_cm_event(fabric->events, &event); i++) {
		/* Acknowledged first: an id cannot be destroyed before. */
		copy = *event;
		rdma_ack_cm_event(event);
		context = copy.event == RDMA_CM_EVENT_CONNECT_REQUEST ? copy.listen_id->context :
									copy.id->context;
		if (copy.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
			device_removed(fabric, copy.id);
		/* Of the anchor nothing else is heard. */
		if (!context)
			continue;
		if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST)
			context->listener->requested(context->listener, copy.id,
						     copy.param.conn.responder_resources);
		else if (context->endpoint)
			endpoint_event(context->endpoint, &copy);
	}
}

int memory_endpoint_listen(struct memory_fabric *fabric, struct memory_listener *listener,
			   const struct sockaddr *address, char reason[MEMORY_REASON_LEN])
{
	struct context *context = context_create(NULL, listener);
	int err;

	if (!context) {
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	if (rdma_create_id(fabric->events, &listener->id, context, RDMA_PS_TCP)) {
		err = -errno;
		snprintf(reason, MEMORY_REASON_LEN, "no connection manager: %s; load rdma_ucm",
			 strerror(-err));
		free(context);
		return err;
	}
	if (rdma_bind_addr(listener->id, (struct sockaddr *)address) ||
	    rdma_listen(listener->id, BACKLOG)) {
		err = -errno;
		snprintf(reason, MEMORY_REASON_LEN, "cannot listen: %s", strerror(-err));
		memory_endpoint_unlisten(listener);
		return err;
	}
	return 0;
}

void memory_endpoint_unlisten(struct memory_listener *listener)
{
	free(listener->id->context);
	rdma_destroy_id(listener->id);
	listener->id = NULL;
}
