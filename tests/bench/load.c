// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * load.goodput           a model read from a donor into a vgpu's weights, as the daemon
 *                        does it, against bare READs of the same chunks from the same
 *                        donor by a process that polls for their completions
 * load.goodput.waiting   the same, but the bare READs' process sleeps until there is a
 *                        completion, as the daemon does, which has others beside it
 * load.verified          the same load, of which every chunk is checked, as all loads are,
 *                        against one that is not
 *
 * The bare READs go over a connection of their own, from the addresses that the
 * donor gave for the chunks, with as many in flight, and nobody decides, counts or
 * tells anything.
 *
 * usage: load serve ADDRESS          a donor, until its input ends
 *        load read ADDRESS DONOR     the benchmark
 *
 * ADDRESS is one of this host that an RDMA device has; not of loopback.
 */
#include <arpa/inet.h>
#include <distmind.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../userspace/common/checksum.h"
#include "../../userspace/memory/loader.h"
#include "../../userspace/memory/donor.h"
#include "../../userspace/memory/registration.h"
#include "../../userspace/model/chunk.h"
#include "bench.h"

#define MiB	   (1UL << 20)
#define ARENA	   (64 * MiB)
#define PORT	   7481
#define DEPTH	   16 /* as the daemon has it, and the largest READ too */
#define READ_SIZE  MiB
#define GROUP	   (4 * MiB)
#define BLOCKS	   2
#define TENSORS	   (BLOCKS * 12)
#define CHUNKS_MAX 1024
#define SLOTS	   4 /* to receive into, 4 KiB each, and one to send */
#define TIMEOUT_NS 60000000000ULL

/* The model: blocks of a transformer, in the order in which they compute. */
struct image {
	struct model_chunk *chunks;
	uint32_t count;
	uint64_t size;
	uint8_t *bytes;
};

struct bare {
	struct rdma_cm_id *id;
	struct ibv_mr *messages, *mr;
	uint8_t *talk; /* SLOTS, then what is sent */
	uint8_t *memory;
	bool waits; /* sleeps until there is a completion */
	struct memory_wire_location where[CHUNKS_MAX];
};

struct load {
	struct image image;
	struct memory_fabric *fabric;
	struct memory_loader *loader;
	struct memory_registration registration;
	struct memory_piece pieces[CHUNKS_MAX];
	uint32_t groups;
	uint8_t *memory;
	bool quiet;
	struct bare bare;
};

static struct sockaddr_storage address_of(const char *text)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&address;

	in->sin_family = AF_INET;
	in->sin_port = htons(PORT);
	if (inet_pton(AF_INET, text, &in->sin_addr) != 1)
		bench_die("%s is no IPv4 address", text);
	return address;
}

static void image_make(struct image *image)
{
	static const uint64_t block[] = {
		3072, 3072, 768 * 768 * 4, 768 * 768 * 4, 768 * 768 * 4, 768 * 768 * 4,
		3072, 3072, 768 * 3072 * 4, 3072 * 4, 768 * 3072 * 4, 768 * 4,
	};
	uint64_t random = 88172645463325252ULL, sizes[TENSORS], offsets[TENSORS];

	for (int i = 0; i < TENSORS; i++)
		sizes[i] = block[i % 12];
	if (model_chunk_cut(sizes, TENSORS, offsets, &image->chunks, &image->count) ||
	    image->count > CHUNKS_MAX)
		bench_die("cannot cut the model");
	image->size = offsets[TENSORS - 1] + sizes[TENSORS - 1];
	image->bytes = calloc(1, image->size + sizeof(random));
	if (!image->bytes)
		bench_die("out of memory");
	for (uint64_t at = 0; at < image->size; at += sizeof(random)) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		memcpy(image->bytes + at, &random, sizeof(random));
	}
	for (uint32_t i = 0; i < image->count; i++)
		model_digest_make(image->bytes + image->chunks[i].offset, image->chunks[i].size,
				  &image->chunks[i].digest);
}

static bool same_bytes(const struct image *image, const uint8_t *memory)
{
	for (uint32_t i = 0; i < image->count; i++) {
		const struct model_chunk *chunk = &image->chunks[i];

		if (memcmp(image->bytes + chunk->offset, memory + chunk->offset, chunk->size))
			return false;
	}
	return true;
}

/* The donor */

static int serve(const char *address)
{
	struct memory_donor_options options = {
		.address = address_of(address), .id = { 1 }, .peers = 4, .host_peers = 4,
		.pins = CHUNKS_MAX,
	};
	char reason[MEMORY_REASON_LEN] = "", byte;
	struct memory_fabric *fabric;
	struct memory_arena *arena;
	struct memory_donor *donor;
	struct memory_chunk *chunk;
	struct image image;

	image_make(&image);
	if (memory_arena_create(&arena, ARENA))
		bench_die("no memory for the donor");
	for (uint32_t i = 0; i < image.count; i++) {
		if (memory_arena_allocate(arena, image.chunks[i].size, &chunk))
			bench_die("the donor has no room");
		memcpy(chunk->data, image.bytes + image.chunks[i].offset, image.chunks[i].size);
		if (memory_arena_seal(arena, chunk, image.chunks[i].digest.bytes,
				      chunk_checksum(chunk->data, chunk->length)))
			bench_die("the donor refuses a chunk");
	}
	if (memory_fabric_open(&fabric, address, reason) ||
	    memory_donor_start(&donor, fabric, arena, &options, reason))
		bench_die("donor: %s", reason);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	memory_donor_stop(donor);
	memory_fabric_close(fabric);
	memory_arena_destroy(arena);
	return 0;
}

/* The load */

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	struct load *load = arg;

	if (progress->state != MEMORY_LOAD_DONE)
		bench_die("the load failed: %s", progress->reason);
	load->quiet = true;
}

static double load_checked(struct load *load, enum memory_check check)
{
	static const struct memory_transfer_ops ops = { .quiet = on_quiet };
	struct memory_load_request request = {
		.pieces = load->pieces, .piece_count = load->image.count,
		.group_count = load->groups, .deadline_ns = TIMEOUT_NS, .check = check,
	};
	struct pollfd news = { .fd = memory_fabric_fd(load->fabric), .events = POLLIN };
	char reason[MEMORY_REASON_LEN];
	double begin = bench_now();

	load->quiet = false;
	if (!memory_loader_load(load->loader, &request, &ops, load, reason))
		bench_die("%s", reason);
	while (!load->quiet) {
		if (poll(&news, 1, -1) < 0)
			bench_die("poll");
		memory_fabric_dispatch(load->fabric);
	}
	return bench_now() - begin;
}

static double load_ours(void *arg)
{
	return load_checked(arg, MEMORY_CHECK_CHECKSUM);
}

static double load_unchecked(void *arg)
{
	return load_checked(arg, MEMORY_CHECK_NOTHING);
}

static void describe_pieces(struct load *load)
{
	uint64_t begin = 0;

	for (uint32_t i = 0; i < load->image.count; i++) {
		const struct model_chunk *chunk = &load->image.chunks[i];
		struct memory_piece *piece = &load->pieces[i];

		if (chunk->offset - begin >= GROUP) {
			load->groups++;
			begin = chunk->offset;
		}
		memcpy(piece->digest, chunk->digest.bytes, MEMORY_DIGEST_LEN);
		piece->length = chunk->size;
		piece->checksum = chunk_checksum(load->image.bytes + chunk->offset, chunk->size);
		piece->address = (uintptr_t)load->memory + chunk->offset;
		piece->lkey = load->registration.lkey;
		piece->group = load->groups;
		piece->donor_count = 1;
	}
	load->groups++;
}

static void load_open(struct load *load, const char *address, const char *donor_address)
{
	const struct memory_loader_options options = { .depth = DEPTH, .read_size = READ_SIZE };
	struct sockaddr_storage donor = address_of(donor_address);
	char reason[MEMORY_REASON_LEN];

	if (memory_fabric_open(&load->fabric, address, reason) ||
	    memory_loader_open(&load->loader, load->fabric, &options, reason))
		bench_die("%s", reason);
	if (memory_registration_begin(&load->registration, load->fabric, load->memory,
				      load->image.size, -1, reason))
		bench_die("%s", reason);
	if (memory_loader_donor_add(load->loader, "donor", &donor) != 0)
		bench_die("cannot add the donor");
	describe_pieces(load);
}

/* Bare READs */

static void bare_listen(struct bare *bare, uint8_t *slot)
{
	if (rdma_post_recv(bare->id, slot, slot, MEMORY_WIRE_MAX, bare->messages))
		bench_die("cannot receive");
}

static void bare_connect(struct bare *bare, const char *address)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = SLOTS, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
	};
	struct rdma_conn_param param = {
		.initiator_depth = DEPTH, .retry_count = 6, .rnr_retry_count = 6,
	};
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	bare->talk = aligned_alloc(4096, (SLOTS + 1) * 4096);
	if (!bare->talk || rdma_getaddrinfo(address, port, &hints, &info) ||
	    rdma_create_ep(&bare->id, info, NULL, &init))
		bench_die("no way to the donor");
	rdma_freeaddrinfo(info);
	bare->messages = rdma_reg_msgs(bare->id, bare->talk, (SLOTS + 1) * 4096);
	if (!bare->messages)
		bench_die("cannot register memory");
	for (int i = 0; i < SLOTS; i++)
		bare_listen(bare, bare->talk + i * 4096);
	if (rdma_connect(bare->id, &param))
		bench_die("cannot connect to the donor");
}

/* A donor greets whoever has been silent for seconds, and gives up who cannot hear it. */
static void bare_hear(struct bare *bare)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(bare->id->recv_cq, 1, &wc) == 1)
		bare_listen(bare, (uint8_t *)(uintptr_t)wc.wr_id);
}

static void bare_ask(struct bare *bare, const struct memory_wire_message *question,
		     struct memory_wire_message *answer)
{
	uint8_t *send = bare->talk + SLOTS * 4096, *slot;
	size_t length = memory_wire_encode(question, send);
	struct ibv_wc wc;

	if (rdma_post_send(bare->id, NULL, send, length, bare->messages, 0) ||
	    rdma_get_send_comp(bare->id, &wc) != 1)
		bench_die("cannot ask the donor");
	do {
		if (rdma_get_recv_comp(bare->id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
			bench_die("the donor does not answer");
		slot = (uint8_t *)(uintptr_t)wc.wr_id;
		if (memory_wire_decode(slot, wc.byte_len, answer))
			bench_die("the donor's answer is none");
		bare_listen(bare, slot);
	} while (answer->type != MEMORY_WIRE_LOCATIONS);
}

static void bare_open(struct bare *bare, const struct image *image, const char *address)
{
	struct memory_wire_message question = { .type = MEMORY_WIRE_RESOLVE }, answer;

	bare_connect(bare, address);
	for (uint32_t i = 0; i < image->count; i += question.count) {
		question.count = image->count - i;
		if (question.count > MEMORY_WIRE_RESOLVE_MAX)
			question.count = MEMORY_WIRE_RESOLVE_MAX;
		for (uint32_t j = 0; j < question.count; j++)
			memcpy(question.digests[j], image->chunks[i + j].digest.bytes,
			       MEMORY_DIGEST_LEN);
		bare_ask(bare, &question, &answer);
		for (uint32_t j = 0; j < question.count; j++) {
			if (answer.locations[j].state != MEMORY_WIRE_PRESENT ||
			    image->chunks[i + j].size > READ_SIZE)
				bench_die("chunk %u is not one READ", i + j);
			bare->where[i + j] = answer.locations[j];
		}
	}
	bare->memory = aligned_alloc(4096, ARENA);
	if (!bare->memory)
		bench_die("out of memory");
	memset(bare->memory, 0xee, ARENA);
	bare->mr = ibv_reg_mr(bare->id->pd, bare->memory, ARENA, IBV_ACCESS_LOCAL_WRITE);
	if (!bare->mr)
		bench_die("cannot register memory");
}

static void bare_complete(struct bare *bare)
{
	struct ibv_wc wc;
	int count;

	if (bare->waits) {
		count = rdma_get_send_comp(bare->id, &wc);
	} else {
		/* A spinning poller would starve soft-RoCE's workers. */
		while (!(count = ibv_poll_cq(bare->id->send_cq, 1, &wc)))
			sched_yield();
	}
	if (count < 0)
		bench_die("the completion queue is broken");
	if (wc.status != IBV_WC_SUCCESS)
		bench_die("READ: %s", ibv_wc_status_str(wc.status));
}

static double load_theirs(void *arg)
{
	struct load *load = arg;
	struct bare *bare = &load->bare;
	const struct model_chunk *chunks = load->image.chunks;
	uint32_t posted = 0, done = 0;
	double begin;

	bare_hear(bare);
	begin = bench_now();
	while (done < load->image.count) {
		for (; posted < load->image.count && posted - done < DEPTH; posted++)
			if (rdma_post_read(bare->id, NULL, bare->memory + chunks[posted].offset,
					   chunks[posted].size, bare->mr, 0,
					   bare->where[posted].address, bare->where[posted].rkey))
				bench_die("cannot post a READ");
		bare_complete(bare);
		done++;
	}
	return bench_now() - begin;
}

static void measure(struct load *load, const char *name, const char *baseline,
		    double (*theirs)(void *arg))
{
	bench_run(&(struct bench){
		.name = name, .unit = "MB/s", .baseline = baseline, .rate = true,
		.work = load->image.size / 1e6, .rounds = 41, .ours = load_ours,
		.theirs = theirs, .arg = load,
	});
}

int main(int argc, char **argv)
{
	struct distmind_engine *engine;
	struct distmind_vgpu *vgpu;
	struct distmind_buffer *buffer;
	static struct load load;
	void *memory;

	if (argc == 3 && !strcmp(argv[1], "serve"))
		return serve(argv[2]);
	if (argc != 4 || strcmp(argv[1], "read"))
		bench_die("usage: load serve ADDRESS, or load read ADDRESS DONOR");
	image_make(&load.image);
	engine = bench_engine(ARENA);
	vgpu = bench_vgpu(engine, ARENA);
	if (distmind_buffer_create(vgpu, load.image.size, DISTMIND_BUFFER_WEIGHTS, &buffer) ||
	    distmind_buffer_map(buffer, &memory))
		bench_die("cannot create a buffer");
	load.memory = memory;
	load_open(&load, argv[2], argv[3]);
	bare_open(&load.bare, &load.image, argv[3]);
	measure(&load, "load.goodput", "bare READs, polled", load_theirs);
	load.bare.waits = true;
	measure(&load, "load.goodput.waiting", "bare READs, waited for", load_theirs);
	measure(&load, "load.verified", "without checksums", load_unchecked);
	if (!same_bytes(&load.image, load.memory) || !same_bytes(&load.image, load.bare.memory))
		bench_die("the bytes that were read differ");
	rdma_disconnect(load.bare.id);
	ibv_dereg_mr(load.bare.mr);
	rdma_dereg_mr(load.bare.messages);
	rdma_destroy_ep(load.bare.id);
	memory_loader_close(load.loader);
	memory_registration_end(&load.registration);
	memory_fabric_close(load.fabric);
	distmind_buffer_destroy(buffer);
	bench_leave(engine, vgpu);
	return 0;
}
