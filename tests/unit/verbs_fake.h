/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A device that is not there: the functions of libibverbs and librdmacm that are defined here
 * take the place of the libraries'. Nothing fails and nothing happens; what comes from peers
 * is the test's: rdma_listen(), rdma_get_cm_event(), rdma_accept(), and what it receives.
 */
#ifndef TESTS_UNIT_VERBS_FAKE_H
#define TESTS_UNIT_VERBS_FAKE_H

#include "../../userspace/memory/endpoint.h"

#include <stdlib.h>

#undef ibv_reg_mr

static struct verbs {
	struct ibv_context context;
	struct ibv_cq cq;
	struct ibv_qp qp;
	struct ibv_mr mr;
	struct ibv_pd pd;
	void *cq_context;
} verbs;

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	(void)ps;
	*id = calloc(1, sizeof(**id));
	(*id)->channel = channel;
	(*id)->context = context;
	(*id)->verbs = &verbs.context;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)id;
	(void)address;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
	(void)id;
	(void)level;
	(void)name;
	(void)value;
	(void)len;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	(void)attr;
	id->qp = &verbs.qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	(void)context;
	return &verbs.pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
	(void)pd;
	(void)address;
	(void)length;
	(void)access;
	return &verbs.mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int room, void *arg,
			     struct ibv_comp_channel *channel, int vector)
{
	(void)channel;
	(void)vector;
	verbs.cq_context = arg;
	verbs.cq = (struct ibv_cq){ .context = context, .cqe = room };
	return &verbs.cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	return 0;
}

static inline int verbs_request_notification(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

/* What completes is the test's to say. */
static inline void verbs_open(int (*post)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
					  struct ibv_recv_wr **bad),
			      int (*poll)(struct ibv_cq *cq, int room, struct ibv_wc *wc))
{
	verbs = (struct verbs){ .context.ops = {
		.poll_cq = poll, .post_recv = post, .req_notify_cq = verbs_request_notification,
	} };
	verbs.qp.context = &verbs.context;
}

#endif
