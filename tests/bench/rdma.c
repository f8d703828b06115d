// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * rdma.read   RDMA READ of 1 MiB, four in flight, into a vgpu's buffer, against
 *             the same into memory of malloc
 *
 * Over soft-RoCE on the loopback interface; the queue pair is connected to
 * itself.
 */
#include <distmind.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define SIZE  (1UL << 20)
#define DEPTH 4
#define READS 32

struct link {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *source, *buffer, *malloced;
};

/* The GID of an IPv4 address. */
static int find_gid(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (int i = 0; i < 16; i++) {
		if (!ibv_query_gid(context, 1, i, gid) && !memcmp(gid->raw, mapped, 12))
			return i;
	}
	bench_die("the RDMA device has no IPv4 GID");
}

static void connect_to_self(struct link *link)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	union ibv_gid gid;
	int index = find_gid(link->context, &gid);

	if (ibv_modify_qp(link->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						   IBV_QP_ACCESS_FLAGS))
		bench_die("queue pair to INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = link->qp->qp_num,
		.max_dest_rd_atomic = DEPTH, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = index, .hop_limit = 1 } },
	};
	if (ibv_modify_qp(link->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
						   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						   IBV_QP_MAX_DEST_RD_ATOMIC |
						   IBV_QP_MIN_RNR_TIMER))
		bench_die("queue pair to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = DEPTH,
	};
	if (ibv_modify_qp(link->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						   IBV_QP_MAX_QP_RD_ATOMIC))
		bench_die("queue pair to RTS");
}

static void link_open(struct link *link)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	if (!list || !list[0])
		bench_die("there is no RDMA device");
	link->context = ibv_open_device(list[0]);
	link->pd = ibv_alloc_pd(link->context);
	link->cq = ibv_create_cq(link->context, DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = link->cq;
	link->qp = ibv_create_qp(link->pd, &init);
	if (!link->qp)
		bench_die("cannot create a queue pair");
	ibv_free_device_list(list);
	connect_to_self(link);
}

static struct ibv_mr *reg(struct link *link, void *memory)
{
	struct ibv_mr *mr = ibv_reg_mr(link->pd, memory, DEPTH * SIZE,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	if (!mr)
		bench_die("cannot register memory");
	return mr;
}

static void post(struct link *link, struct ibv_mr *into, int i)
{
	uint64_t offset = i % DEPTH * SIZE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)into->addr + offset, .length = SIZE, .lkey = into->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)link->source->addr + offset,
			     .rkey = link->source->rkey },
	};

	if (ibv_post_send(link->qp, &wr, &bad))
		bench_die("cannot post a READ");
}

static double read_into(struct link *link, struct ibv_mr *into)
{
	double begin = bench_now();
	int posted = 0, done = 0;
	struct ibv_wc wc;

	while (done < READS) {
		while (posted < READS && posted - done < DEPTH)
			post(link, into, posted++);
		/* A spinning poller would starve soft-RoCE's workers. */
		while (!ibv_poll_cq(link->cq, 1, &wc))
			sched_yield();
		if (wc.status != IBV_WC_SUCCESS)
			bench_die("READ: %s", ibv_wc_status_str(wc.status));
		done++;
	}
	return bench_now() - begin;
}

static double read_ours(void *arg)
{
	struct link *link = arg;

	return read_into(link, link->buffer);
}

static double read_theirs(void *arg)
{
	struct link *link = arg;

	return read_into(link, link->malloced);
}

int main(void)
{
	struct distmind_engine *engine = bench_engine(64UL << 20);
	struct distmind_vgpu *vgpu = bench_vgpu(engine, 64UL << 20);
	struct distmind_buffer *buffer;
	void *memory, *source = aligned_alloc(4096, DEPTH * SIZE);
	void *other = aligned_alloc(4096, DEPTH * SIZE);
	struct link link = { 0 };

	if (!source || !other || distmind_buffer_create(vgpu, DEPTH * SIZE, DISTMIND_BUFFER_DATA, &buffer) ||
	    distmind_buffer_map(buffer, &memory))
		bench_die("cannot create a buffer");
	memset(source, 0x5a, DEPTH * SIZE);
	link_open(&link);
	link.source = reg(&link, source);
	link.buffer = reg(&link, memory);
	link.malloced = reg(&link, other);
	bench_run(&(struct bench){
		.name = "rdma.read", .unit = "MB/s", .baseline = "malloc memory", .rate = true,
		.work = READS * SIZE / 1e6, .rounds = 15, .ours = read_ours,
		.theirs = read_theirs, .arg = &link,
	});
	if (memcmp(source, memory, DEPTH * SIZE))
		bench_die("the bytes that were read differ");
	ibv_destroy_qp(link.qp);
	ibv_dereg_mr(link.buffer);
	ibv_dereg_mr(link.malloced);
	ibv_dereg_mr(link.source);
	distmind_buffer_destroy(buffer);
	bench_leave(engine, vgpu);
	return 0;
}
