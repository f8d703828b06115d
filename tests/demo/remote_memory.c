// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The demo's application: memory of a virtual GPU that another host reads and
 * writes.
 *
 *   remote_memory serve ADDRESS     acquire a vgpu, fill a buffer, offer it by
 *                                   RDMA; then check the buffer once for each
 *                                   line of standard input
 *   remote_memory visit ADDRESS     read the buffer, check it, write it
 *
 * Each step is a line on standard output; what does not hold is an exit code.
 */
#include <distmind.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT  "7477"
#define SIZE  (16U << 20)
#define BLOCK (1U << 20)

/* What the server tells its visitor when it accepts. */
struct offer {
	uint64_t address;
	uint32_t rkey;
	uint32_t size;
};

static void die(const char *format, ...)
{
	va_list args;

	fputs("remote_memory: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* Every 8 bytes depend on their place and on the seed. */
static void fill(uint64_t *memory, uint64_t seed)
{
	for (size_t i = 0; i < SIZE / 8; i++)
		memory[i] = (i + seed) * 0x9E3779B97F4A7C15ULL;
}

static int holds(const uint64_t *memory, uint64_t seed)
{
	for (size_t i = 0; i < SIZE / 8; i++) {
		if (memory[i] != (i + seed) * 0x9E3779B97F4A7C15ULL)
			return 0;
	}
	return 1;
}

static struct rdma_cm_id *endpoint(const char *address, int passive)
{
	struct rdma_addrinfo hints = { .ai_flags = passive ? RAI_PASSIVE : 0,
				       .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info))
		die("%s: %s", address, strerror(errno));
	if (rdma_create_ep(&id, info, NULL, &attr))
		die("cannot create an RDMA endpoint: %s", strerror(errno));
	rdma_freeaddrinfo(info);
	return id;
}

static void offer_once(const char *address, void *memory)
{
	struct rdma_cm_id *listener = endpoint(address, 1), *id;
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
	struct offer offer = { .address = (uintptr_t)memory, .size = SIZE };
	struct rdma_cm_event *event;
	struct ibv_mr *mr;

	if (rdma_listen(listener, 1))
		die("cannot listen: %s", strerror(errno));
	printf("offering the buffer at %s\n", address);
	fflush(stdout);
	if (rdma_get_request(listener, &id))
		die("nobody came: %s", strerror(errno));
	mr = ibv_reg_mr(id->pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
					      IBV_ACCESS_REMOTE_WRITE);
	if (!mr)
		die("the device cannot register the buffer: %s", strerror(errno));
	offer.rkey = mr->rkey;
	param.private_data = &offer;
	param.private_data_len = sizeof(offer);
	if (rdma_accept(id, &param))
		die("cannot accept: %s", strerror(errno));
	/* Until the visitor leaves. */
	while (!rdma_get_cm_event(id->channel, &event)) {
		enum rdma_cm_event_type type = event->event;

		rdma_ack_cm_event(event);
		if (type == RDMA_CM_EVENT_DISCONNECTED)
			break;
	}
	ibv_dereg_mr(mr);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
}

static int serve(const char *address)
{
	struct distmind_claim claim = {
		.memory = 64 << 20, .share = 500, .sched_class = DISTMIND_CLASS_STANDARD, .name = "app",
	};
	char reason[DISTMIND_REASON_LEN], line[16];
	struct distmind_buffer *buffer;
	struct distmind_vgpu_info info;
	struct distmind_vgpu *vgpu;
	void *memory;

	if (distmind_acquire(&claim, &vgpu, reason))
		die("no vgpu: %s", reason);
	if (distmind_buffer_create(vgpu, SIZE, DISTMIND_BUFFER_DATA, &buffer) ||
	    distmind_buffer_map(buffer, &memory))
		die("no buffer");
	fill(memory, 1);
	distmind_vgpu_info(vgpu, &info);
	printf("acquired vgpu %u on gpu %u, filled a buffer of 16 MiB\n", info.id, info.gpu);
	offer_once(address, memory);
	if (!holds(memory, 2))
		die("the buffer does not hold what the visitor wrote");
	printf("all 16 MiB are what the visitor wrote\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (distmind_vgpu_info(vgpu, &info) || !holds(memory, 2))
			die("the buffer is damaged");
		printf("vgpu %u is %s (gpu %d), its 16 MiB are intact\n", info.id,
		       distmind_vgpu_state_name(info.state), (int)info.gpu);
		fflush(stdout);
	}
	distmind_buffer_destroy(buffer);
	distmind_vgpu_close(vgpu);
	return 0;
}

static void move(struct rdma_cm_id *id, struct ibv_mr *mr, const struct offer *offer, int write)
{
	struct ibv_wc wc;

	for (uint32_t at = 0; at < SIZE; at += BLOCK) {
		char *local = (char *)mr->addr + at;
		int err = write ? rdma_post_write(id, NULL, local, BLOCK, mr, 0,
						  offer->address + at, offer->rkey)
				: rdma_post_read(id, NULL, local, BLOCK, mr, 0,
						 offer->address + at, offer->rkey);

		if (err || rdma_get_send_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			die("RDMA %s at %u: %s", write ? "WRITE" : "READ", at,
			    err ? strerror(errno) : ibv_wc_status_str(wc.status));
	}
}

static int visit(const char *address)
{
	struct rdma_cm_id *id = endpoint(address, 0);
	struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4,
					 .retry_count = 7 };
	void *memory = aligned_alloc(4096, SIZE);
	struct ibv_mr *mr;
	struct offer offer;

	if (rdma_connect(id, &param))
		die("cannot connect to %s: %s", address, strerror(errno));
	if (id->event->param.conn.private_data_len < sizeof(offer))
		die("the server did not say where its buffer is");
	memcpy(&offer, id->event->param.conn.private_data, sizeof(offer));
	mr = memory ? ibv_reg_mr(id->pd, memory, SIZE, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (!mr || offer.size != SIZE)
		die("cannot register memory");
	move(id, mr, &offer, 0);
	if (!holds(memory, 1))
		die("what was read is not what the application wrote");
	printf("read 16 MiB of the vgpu's memory by RDMA, every byte as written there\n");
	fill(memory, 2);
	move(id, mr, &offer, 1);
	printf("wrote 16 MiB into the vgpu's memory by RDMA\n");
	rdma_disconnect(id);
	ibv_dereg_mr(mr);
	rdma_destroy_ep(id);
	free(memory);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "visit"))
		return visit(argv[2]);
	die("usage: remote_memory serve|visit ADDRESS");
}
