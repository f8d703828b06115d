// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Buffers and RDMA: a device registers a mapping, reads and writes it, and what
 * it has registered is nobody else's as long as it is.
 *
 * One guest, soft-RoCE on a local interface, a reliable queue pair connected to
 * itself.
 */
#include <infiniband/verbs.h>

#include "distmind_test.h"
#include "kselftest_harness.h"

#define SIZE (4 * MiB)

FIXTURE(rdma)
{
	struct distmind_pool *pool;
	int engine, vgpu;
	uint32_t gpu, id;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return context;
}

/* The GID of an IPv4 address: the link-local ones of lo lead nowhere. */
static int gid_index(struct ibv_context *context, union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	for (int i = 0; i < 16; i++) {
		if (!ibv_query_gid(context, 1, i, gid) && !memcmp(gid->raw, mapped, 12))
			return i;
	}
	return -1;
}

static int connect_to_self(struct ibv_context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	union ibv_gid gid;
	int index = gid_index(context, &gid);

	if (index < 0 || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS))
		return -1;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 4, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1,
			     .grh = { .dgid = gid, .sgid_index = index, .hop_limit = 1 } },
	};
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER))
		return -1;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
		.max_rd_atomic = 4,
	};
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC);
}

FIXTURE_SETUP(rdma)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	self->context = open_device();
	if (!self->context)
		SKIP(return, "there is no RDMA device");
	self->pd = ibv_alloc_pd(self->context);
	ASSERT_NE(NULL, self->pd);
	self->cq = ibv_create_cq(self->context, 32, NULL, NULL, 0);
	ASSERT_NE(NULL, self->cq);
	init.send_cq = init.recv_cq = self->cq;
	self->qp = ibv_create_qp(self->pd, &init);
	ASSERT_NE(NULL, self->qp);
	ASSERT_EQ(0, connect_to_self(self->context, self->qp));

	ASSERT_EQ(0, distmind_pool_open(&self->pool));
	self->engine = engine_start("rdma", 16 * MiB, &self->gpu);
	ASSERT_LE(0, self->engine);
	self->vgpu = vgpu_start(self->pool, self->gpu, 16 * MiB, &self->id);
	ASSERT_LE(0, self->vgpu);
}

FIXTURE_TEARDOWN(rdma)
{
	if (!self->context)
		return;
	ibv_destroy_qp(self->qp);
	ibv_destroy_cq(self->cq);
	ibv_dealloc_pd(self->pd);
	ibv_close_device(self->context);
	close(self->vgpu);
	close(self->engine);
	distmind_pool_vgpu_delete(self->pool, self->id);
	distmind_pool_gpu_remove(self->pool, self->gpu);
	distmind_pool_close(self->pool);
}

static struct ibv_mr *reg(FIXTURE_DATA(rdma) *self, void *address, size_t size)
{
	return ibv_reg_mr(self->pd, address, size, IBV_ACCESS_LOCAL_WRITE |
			  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static int move(FIXTURE_DATA(rdma) *self, enum ibv_wr_opcode op, struct ibv_mr *local,
		uint64_t local_address, struct ibv_mr *remote, uint64_t remote_address,
		uint32_t size)
{
	struct ibv_sge sge = { .addr = local_address, .length = size, .lkey = local->lkey };
	struct ibv_send_wr *bad, wr = {
		.opcode = op, .send_flags = IBV_SEND_SIGNALED, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = remote_address, .rkey = remote->rkey },
	};
	struct ibv_wc wc;
	int n;

	if (ibv_post_send(self->qp, &wr, &bad))
		return -1;
	while (!(n = ibv_poll_cq(self->cq, 1, &wc)))
		sched_yield();
	return n == 1 ? wc.status : -1;
}

TEST_F(rdma, bytes_go_both_ways)
{
	uint32_t handle;
	char *memory = buffer_new(self->vgpu, SIZE, &handle);
	char *other = aligned_alloc(4096, SIZE);
	struct ibv_mr *mr, *other_mr;

	ASSERT_NE(MAP_FAILED, memory);
	mr = reg(self, memory, SIZE);
	ASSERT_NE(NULL, mr) TH_LOG("ibv_reg_mr: %s", strerror(errno));
	other_mr = reg(self, other, SIZE);
	ASSERT_NE(NULL, other_mr);
	for (uint64_t i = 0; i < SIZE; i++)
		memory[i] = i * 13 + (i >> 12);
	ASSERT_EQ(IBV_WC_SUCCESS, move(self, IBV_WR_RDMA_READ, other_mr, (uintptr_t)other, mr,
				       (uintptr_t)memory, SIZE));
	EXPECT_EQ(0, memcmp(other, memory, SIZE));
	memset(other, 0x5A, SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, move(self, IBV_WR_RDMA_WRITE, other_mr, (uintptr_t)other, mr,
				       (uintptr_t)memory, SIZE));
	EXPECT_TRUE(all_bytes(memory, SIZE, 0x5A));
	ibv_dereg_mr(mr);
	ibv_dereg_mr(other_mr);
	munmap(memory, SIZE);
	free(other);
}

TEST_F(rdma, what_a_device_has_registered_is_not_handed_out_again)
{
	struct distmind_vgpu_info info;
	uint32_t handle, handles[4];
	char *memory = buffer_new(self->vgpu, SIZE, &handle), *others[4];
	char *local = aligned_alloc(4096, SIZE);
	struct ibv_mr *mr, *local_mr;

	ASSERT_NE(MAP_FAILED, memory);
	mr = reg(self, memory, SIZE);
	ASSERT_NE(NULL, mr);
	local_mr = reg(self, local, SIZE);
	ASSERT_NE(NULL, local_mr);
	munmap(memory, SIZE);
	ASSERT_EQ(0, buffer_destroy(self->vgpu, handle));
	ASSERT_EQ(0, call(self->vgpu, DISTMIND_IOC_VGPU_INFO, &info));
	EXPECT_EQ(0, info.memory_used);

	/* The range is free and used again in full, by other pages. */
	for (int i = 0; i < 4; i++) {
		others[i] = buffer_new(self->vgpu, SIZE, &handles[i]);
		ASSERT_NE(MAP_FAILED, others[i]);
		memset(others[i], 0x11, SIZE);
	}
	memset(local, 0x66, SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, move(self, IBV_WR_RDMA_WRITE, local_mr, (uintptr_t)local, mr,
				       (uintptr_t)memory, SIZE));
	for (int i = 0; i < 4; i++)
		EXPECT_TRUE(all_bytes(others[i], SIZE, 0x11));
	/* The device still reaches what it has registered, and only that. */
	memset(local, 0, SIZE);
	ASSERT_EQ(IBV_WC_SUCCESS, move(self, IBV_WR_RDMA_READ, local_mr, (uintptr_t)local, mr,
				       (uintptr_t)memory, SIZE));
	EXPECT_TRUE(all_bytes(local, SIZE, 0x66));
	ibv_dereg_mr(mr);
	ibv_dereg_mr(local_mr);
	for (int i = 0; i < 4; i++)
		munmap(others[i], SIZE);
	free(local);
}

TEST_F(rdma, registered_memory_of_a_lost_gpu_can_still_be_read)
{
	uint32_t handle;
	char *memory = buffer_new(self->vgpu, SIZE, &handle);
	char *local = aligned_alloc(4096, SIZE);
	struct ibv_mr *mr, *local_mr;

	ASSERT_NE(MAP_FAILED, memory);
	memset(memory, 0x77, SIZE);
	mr = reg(self, memory, SIZE);
	local_mr = reg(self, local, SIZE);
	ASSERT_NE(NULL, mr);
	ASSERT_NE(NULL, local_mr);
	close(self->engine);
	ASSERT_EQ(IBV_WC_SUCCESS, move(self, IBV_WR_RDMA_READ, local_mr, (uintptr_t)local, mr,
				       (uintptr_t)memory, SIZE));
	EXPECT_TRUE(all_bytes(local, SIZE, 0x77));
	ibv_dereg_mr(mr);
	ibv_dereg_mr(local_mr);
	munmap(memory, SIZE);
	free(local);
	self->engine = open("/dev/null", O_RDONLY);
}

TEST_HARNESS_MAIN
