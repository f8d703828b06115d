// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A donor of the memory pool, before readers that obey nobody: it shows nothing else
 * than chunks, and what they pinned or broke goes with them. time-limit: 600
 * part: userspace
 */
#include <rdma/rdma_verbs.h>

#include "../../userspace/memory/wire.h"
#include "kselftest_harness.h"
#include "memory_test.h"

/* A reader that obeys nobody, by hand. */
struct rogue {
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	uint8_t *memory; /* to send, to receive, to read into */
	struct memory_wire_message hello;
	bool connected;
};

#define ROGUE_RECEIVE 8192
#define ROGUE_DATA 65536

static int rogue_receive(struct rogue *rogue, struct memory_wire_message *message)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(rogue->id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return -1;
	if (memory_wire_decode(rogue->memory + ROGUE_RECEIVE, wc.byte_len, message))
		return -1;
	return rdma_post_recv(rogue->id, NULL, rogue->memory + ROGUE_RECEIVE, MEMORY_WIRE_MAX,
			      rogue->mr);
}

static int rogue_connect(struct rogue *rogue)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 32, .max_recv_wr = 4,
			 .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
	};
	/* A donor that closes may never acknowledge: not 7 times, which soft-RoCE takes for ever. */
	struct rdma_conn_param param = {
		.initiator_depth = 4, .retry_count = 6, .rnr_retry_count = 6,
	};
	uint8_t timeout = 16; /* 4.096 us << 16 = 268 ms */
	char port[8];

	snprintf(port, sizeof(port), "%d", PORT);
	if (rdma_getaddrinfo(local, port, &hints, &info) ||
	    rdma_create_ep(&rogue->id, info, NULL, &init) ||
	    rdma_set_option(rogue->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			    sizeof(timeout)))
		return -1;
	rdma_freeaddrinfo(info);
	rogue->memory = aligned_alloc(4096, ROGUE_DATA + ARENA);
	rogue->mr = ibv_reg_mr(rogue->id->pd, rogue->memory, ROGUE_DATA + ARENA,
			       IBV_ACCESS_LOCAL_WRITE);
	if (!rogue->mr || rdma_post_recv(rogue->id, NULL, rogue->memory + ROGUE_RECEIVE,
					 MEMORY_WIRE_MAX, rogue->mr) ||
	    rdma_connect(rogue->id, &param))
		return -1;
	rogue->connected = true;
	return rogue_receive(rogue, &rogue->hello);
}

static void rogue_close(struct rogue *rogue)
{
	/* It waits for an answer that only a connection gets. */
	if (rogue->connected)
		rdma_disconnect(rogue->id);
	rogue->connected = false;
	ibv_dereg_mr(rogue->mr);
	rdma_destroy_ep(rogue->id);
	free(rogue->memory);
}

static int rogue_complete(struct rogue *rogue)
{
	struct ibv_wc wc;

	return rdma_get_send_comp(rogue->id, &wc) == 1 ? (int)wc.status : -1;
}

static int rogue_send(struct rogue *rogue, const void *bytes, size_t len)
{
	memcpy(rogue->memory, bytes, len);
	if (rdma_post_send(rogue->id, NULL, rogue->memory, len, rogue->mr, 0))
		return -1;
	return rogue_complete(rogue);
}

static int rogue_say(struct rogue *rogue, const struct memory_wire_message *message)
{
	uint8_t bytes[MEMORY_WIRE_MAX];
	size_t len = memory_wire_encode(message, bytes);

	return rogue_send(rogue, bytes, len);
}

static int rogue_resolve(struct rogue *rogue, const struct chunks *chunks, uint32_t count,
			 struct memory_wire_message *answer)
{
	struct memory_wire_message question = {
		.type = MEMORY_WIRE_RESOLVE, .id = 5, .count = count,
	};

	for (uint32_t i = 0; i < count; i++)
		memcpy(question.digests[i], chunks->digests[i], MEMORY_DIGEST_LEN);
	return rogue_say(rogue, &question) || rogue_receive(rogue, answer);
}

/* A reader that holds pins until it is killed. */
static int role_main(int index, uint32_t which)
{
	struct memory_wire_message answer;
	struct chunks chunks;
	struct rogue rogue;
	char byte = 0;

	make_chunks(&chunks);
	if (rogue_connect(&rogue) || rogue_resolve(&rogue, &chunks, 10, &answer) ||
	    write(STDOUT_FILENO, &byte, 1) != 1)
		return 1;
	pause();
	return 0;
}

/* A donor in this process, so that its memory and counters can be looked at. */
FIXTURE(donor)
{
	struct chunks chunks;
	struct memory_fabric *fabric;
	struct memory_arena *arena;
	struct memory_donor *donor;
	struct rogue rogue;
	char reason[MEMORY_REASON_LEN];
};

FIXTURE_SETUP(donor)
{
	struct memory_donor_options options = donor_options(0);

	memset(self, 0, sizeof(*self));
	if (!has_device())
		SKIP(return, NO_DEVICE);
	make_chunks(&self->chunks);
	ASSERT_EQ(0, memory_fabric_open(&self->fabric, local, self->reason));
	ASSERT_EQ(0, memory_arena_create(&self->arena, ARENA));
	ASSERT_EQ(0, fill(self->arena, &self->chunks, ALL));
	ASSERT_EQ(0, memory_donor_start(&self->donor, self->fabric, self->arena, &options,
					self->reason)) TH_LOG("%s", self->reason);
}

FIXTURE_TEARDOWN(donor)
{
	memory_donor_stop(self->donor);
	memory_fabric_close(self->fabric);
	memory_arena_destroy(self->arena);
	free(self->chunks.bytes);
}

/* The donor learns of things a little later: at most ten seconds. */
#define EVENTUALLY(condition)                                                             \
	do {                                                                              \
		struct memory_donor_stats now;                                            \
		uint64_t end = clock_ns() + 10000 * NS_PER_MS;                   \
                                                                                          \
		do {                                                                      \
			memory_donor_stats(self->donor, &now);                            \
			usleep(1000);                                                     \
		} while (!(condition) && clock_ns() < end);                      \
		EXPECT_TRUE(condition);                                                   \
	} while (0)

TEST_F_TIMEOUT(donor, resolving_pins_and_the_end_of_a_connection_unpins, 120)
{
	struct memory_wire_message answer;
	struct memory_arena_stats stats;

	ASSERT_EQ(0, rogue_connect(&self->rogue));
	EXPECT_EQ(ARENA, self->rogue.hello.hello.arena_size);
	EXPECT_EQ(16, self->rogue.hello.hello.pins);
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 10, &answer));
	memory_arena_stats(self->arena, &stats);
	EXPECT_EQ(10, stats.pins);
	/* More than it may have: the rest is refused, not the connection. */
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 10, &answer));
	EXPECT_EQ(MEMORY_WIRE_PRESENT, answer.locations[5].state);
	EXPECT_EQ(MEMORY_WIRE_BUSY, answer.locations[6].state);
	rogue_close(&self->rogue);
	EVENTUALLY(!now.peers && !now.pins);
	memory_arena_stats(self->arena, &stats);
	EXPECT_EQ(0, stats.pins);
}

TEST_F_TIMEOUT(donor, a_reader_that_is_killed_leaves_no_pins, 120)
{
	struct process reader;

	ASSERT_EQ(0, role_start(&reader, 0, 0));
	EVENTUALLY(now.pins == 10);
	role_end(&reader, true);
	EVENTUALLY(!now.peers && !now.pins);
}

/* Chunks that were freed, and are pinned or not cleared yet. */
static uint64_t doomed(struct memory_arena *arena)
{
	struct memory_arena_stats stats;

	memory_arena_stats(arena, &stats);
	return stats.doomed;
}

TEST_F_TIMEOUT(donor, a_chunk_freed_while_it_is_pinned_is_still_read, 120)
{
	struct memory_wire_message answer, release = { .type = MEMORY_WIRE_RELEASE, .count = 1 };
	uint8_t *data;
	uint64_t length = self->chunks.lengths[4];

	ASSERT_EQ(0, rogue_connect(&self->rogue));
	data = self->rogue.memory + ROGUE_DATA;
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 5, &answer));
	ASSERT_EQ(MEMORY_WIRE_PRESENT, answer.locations[4].state);
	ASSERT_EQ(0, memory_arena_free(self->arena, self->chunks.digests[4]));
	ASSERT_EQ(0, rdma_post_read(self->rogue.id, NULL, data, length, self->rogue.mr, 0,
				    answer.locations[4].address, answer.locations[4].rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, rogue_complete(&self->rogue));
	EXPECT_EQ(0, memcmp(data, self->chunks.bytes + self->chunks.offsets[4], length));
	release.pins[0] = answer.locations[4].pin;
	ASSERT_EQ(0, rogue_say(&self->rogue, &release));
	EVENTUALLY(now.pins == 4 && !doomed(self->arena));
	/* Now it is gone: neither found nor left behind. */
	ASSERT_EQ(0, rdma_post_read(self->rogue.id, NULL, data, length, self->rogue.mr, 0,
				    answer.locations[4].address, answer.locations[4].rkey));
	ASSERT_EQ(IBV_WC_SUCCESS, rogue_complete(&self->rogue));
	for (uint64_t i = 0; i < length; i++)
		ASSERT_EQ(0, data[i]);
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 5, &answer));
	EXPECT_EQ(MEMORY_WIRE_MISSING, answer.locations[4].state);
	rogue_close(&self->rogue);
}

TEST_F_TIMEOUT(donor, all_that_can_be_read_is_chunks_and_zeroes, 120)
{
	struct memory_wire_message answer;
	uint8_t *data;
	uint64_t base, used = 0, lost = 0;

	ASSERT_EQ(0, memory_arena_free(self->arena, self->chunks.digests[3]));
	ASSERT_EQ(0, rogue_connect(&self->rogue));
	data = self->rogue.memory + ROGUE_DATA;
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 1, &answer));
	base = (uintptr_t)memory_arena_base(self->arena);
	for (uint64_t at = 0; at < ARENA; at += MiB) {
		ASSERT_EQ(0, rdma_post_read(self->rogue.id, NULL, data + at, MiB, self->rogue.mr, 0,
					    base + at, answer.locations[0].rkey));
		ASSERT_EQ(IBV_WC_SUCCESS, rogue_complete(&self->rogue));
	}
	for (int i = 0; i < CHUNKS; i++) {
		struct memory_chunk *chunk;
		uint8_t *copy;

		if (memory_arena_pin(self->arena, self->chunks.digests[i], &chunk))
			continue;
		copy = data + ((uintptr_t)chunk->data - base);
		EXPECT_EQ(0, memcmp(copy, chunk->data, chunk->length));
		memset(copy, 0, chunk->length);
		used += chunk->length;
		memory_arena_unpin(self->arena, chunk);
	}
	for (uint64_t i = 0; i < ARENA; i++)
		lost += data[i];
	EXPECT_EQ(0, lost);
	EXPECT_NE(0, used);
	/* And not a byte beyond. */
	ASSERT_EQ(0, rdma_post_read(self->rogue.id, NULL, data, 4096, self->rogue.mr, 0,
				    base + ARENA - 4095, answer.locations[0].rkey));
	EXPECT_NE(IBV_WC_SUCCESS, rogue_complete(&self->rogue));
	rogue_close(&self->rogue);
}

TEST_F_TIMEOUT(donor, nobody_can_write_to_its_memory, 120)
{
	struct memory_wire_message answer;
	uint8_t *base = memory_arena_base(self->arena);
	uint8_t before = base[0];

	ASSERT_EQ(0, rogue_connect(&self->rogue));
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 1, &answer));
	memset(self->rogue.memory + ROGUE_DATA, ~before, 4096);
	ASSERT_EQ(0, rdma_post_write(self->rogue.id, NULL, self->rogue.memory + ROGUE_DATA, 4096,
				     self->rogue.mr, 0, (uintptr_t)base, answer.locations[0].rkey));
	EXPECT_NE(IBV_WC_SUCCESS, rogue_complete(&self->rogue));
	EXPECT_EQ(before, base[0]);
	rogue_close(&self->rogue);
	EVENTUALLY(!now.peers && !now.pins);
}

TEST_F_TIMEOUT(donor, a_reader_that_breaks_the_protocol_is_disconnected, 120)
{
	struct memory_wire_message message, answer;
	struct memory_donor_stats stats;
	uint8_t garbage[64];

	memset(garbage, 0x41, sizeof(garbage));
	ASSERT_EQ(0, rogue_connect(&self->rogue));
	rogue_send(&self->rogue, garbage, sizeof(garbage));
	EVENTUALLY(now.violations == 1 && !now.peers);
	memory_donor_stats(self->donor, &stats);
	EXPECT_NE(NULL, strstr(stats.violation, "not a message"));
	rogue_close(&self->rogue);

	/* A pin twice, another's message, more bytes than fit. */
	ASSERT_EQ(0, rogue_connect(&self->rogue));
	ASSERT_EQ(0, rogue_resolve(&self->rogue, &self->chunks, 2, &answer));
	message = (struct memory_wire_message){ .type = MEMORY_WIRE_RELEASE, .count = 2 };
	message.pins[0] = message.pins[1] = answer.locations[0].pin;
	rogue_say(&self->rogue, &message);
	EVENTUALLY(now.violations == 2 && !now.peers && !now.pins);
	rogue_close(&self->rogue);
	ASSERT_EQ(0, rogue_connect(&self->rogue));
	rogue_say(&self->rogue, &self->rogue.hello);
	EVENTUALLY(now.violations == 3 && !now.peers);
	rogue_close(&self->rogue);
	ASSERT_EQ(0, rogue_connect(&self->rogue));
	memset(self->rogue.memory + ROGUE_DATA, 0x41, 8192);
	rogue_send(&self->rogue, self->rogue.memory + ROGUE_DATA, 4096);
	EVENTUALLY(!now.peers);
	rogue_close(&self->rogue);
}

TEST_F_TIMEOUT(donor, more_readers_than_allowed_are_refused, 120)
{
	struct rogue rogues[5] = { 0 };

	for (int i = 0; i < 4; i++)
		ASSERT_EQ(0, rogue_connect(&rogues[i]));
	EXPECT_NE(0, rogue_connect(&rogues[4]));
	/* By which a reader tells that it is busy: "consumer defined". */
	EXPECT_EQ(28, rogues[4].id->event->status);
	rogue_close(&rogues[4]);
	rogue_close(&rogues[0]);
	EVENTUALLY(now.peers == 3 && now.refused == 1);
	ASSERT_EQ(0, rogue_connect(&rogues[0]));
	for (int i = 0; i < 4; i++)
		rogue_close(&rogues[i]);
	EVENTUALLY(!now.peers);
}

TEST_HARNESS_MAIN
