// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory pool over RDMA: chunks of donors arrive bit by bit as they are,
 * whoever dies meanwhile, and a donor shows nothing else than chunks.
 *
 * One guest, soft-RoCE on an interface that is not lo, which the connection
 * manager does not do: a dummy one is made where there is no other. Donors are
 * processes of their own, so that they can be killed. time-limit: 300
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/evp.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../userspace/memory/arena.h"
#include "../../userspace/memory/client.h"
#include "../../userspace/memory/donor.h"
#include "../../userspace/memory/registration.h"
#include "../../userspace/memory/wire.h"
#include "kselftest_harness.h"

#define MiB (1ULL << 20)
#define NS_PER_MS 1000000ULL
#define CHUNKS 24
#define GROUP 4
#define ARENA (24 * MiB)
#define DONORS 3
#define PORT 7471
#define ALL UINT32_MAX

static const uint64_t lengths[] = { 1, 4096, 100001, MiB, 2 * MiB + 512 * 1024 + 3, 512 * 1024 };

struct chunks {
	uint8_t digests[CHUNKS][MEMORY_DIGEST_LEN];
	uint64_t lengths[CHUNKS];
	uint64_t offsets[CHUNKS];
	uint64_t total;
	uint8_t *bytes;
};

struct process {
	pid_t pid;
	int control; /* closing it ends a donor */
};

/* What callbacks have said. */
struct story {
	uint32_t groups;
	bool out_of_order, ended, quiet;
	struct memory_load_progress progress;
};

FIXTURE(memory)
{
	struct chunks chunks;
	struct process donors[DONORS];
	struct memory_fabric *fabric;
	struct memory_client *client;
	struct memory_registrations *registrations;
	struct memory_registration registration;
	uint8_t *target;
	struct story story;
	char reason[MEMORY_REASON_LEN];
};

/* A local address that an RDMA device has. */
static char local[INET_ADDRSTRLEN];

static struct sockaddr_storage address_of(int donor)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&address;

	in->sin_family = AF_INET;
	in->sin_port = htons(PORT + donor);
	inet_pton(AF_INET, local, &in->sin_addr);
	return address;
}

static void make_chunks(struct chunks *chunks)
{
	uint64_t random = 88172645463325252ULL;

	chunks->total = 0;
	for (int i = 0; i < CHUNKS; i++) {
		chunks->lengths[i] = lengths[i % 6];
		chunks->offsets[i] = chunks->total;
		chunks->total += (chunks->lengths[i] + 511) / 512 * 512;
	}
	chunks->bytes = calloc(1, chunks->total);
	for (int i = 0; i < CHUNKS; i++) {
		for (uint64_t b = 0; b < chunks->lengths[i]; b++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			chunks->bytes[chunks->offsets[i] + b] = random;
		}
		EVP_Digest(chunks->bytes + chunks->offsets[i], chunks->lengths[i],
			   chunks->digests[i], NULL, EVP_sha256(), NULL);
	}
}

static int fill(struct memory_arena *arena, const struct chunks *chunks, uint32_t which)
{
	struct memory_chunk *chunk;
	int err;

	for (int i = 0; i < CHUNKS; i++) {
		if (!(which & 1U << i))
			continue;
		err = memory_arena_allocate(arena, chunks->lengths[i], &chunk);
		if (err)
			return err;
		memcpy(chunk->data, chunks->bytes + chunks->offsets[i], chunks->lengths[i]);
		err = memory_arena_seal(arena, chunk, chunks->digests[i]);
		if (err)
			return err;
	}
	return 0;
}

static struct memory_donor_options donor_options(int index)
{
	return (struct memory_donor_options){
		.address = address_of(index), .id = { index }, .peers = 4, .pins = 16,
	};
}

static int serve(int index, uint32_t which)
{
	struct memory_donor_options options = donor_options(index);
	struct memory_fabric *fabric;
	struct memory_arena *arena;
	struct memory_donor *donor;
	struct chunks chunks;
	char reason[MEMORY_REASON_LEN] = "arena", byte = 0;

	make_chunks(&chunks);
	if (memory_arena_create(&arena, ARENA) || fill(arena, &chunks, which) ||
	    memory_fabric_open(&fabric, local, reason) ||
	    memory_donor_start(&donor, fabric, arena, &options, reason)) {
		fprintf(stderr, "# donor %d: %s\n", index, reason);
		return 1;
	}
	if (write(STDOUT_FILENO, &byte, 1) != 1 || read(STDIN_FILENO, &byte, 1))
		return 1;
	memory_donor_stop(donor);
	memory_fabric_close(fabric);
	memory_arena_destroy(arena);
	return 0;
}

static int pin_and_wait(void);

/*
 * This program in another role: memory --donor|--reader ADDRESS INDEX CHUNKS. The
 * harness has the main().
 */
static __attribute__((constructor)) void main_of_role(int argc, char **argv)
{
	if (argc != 5)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(local, sizeof(local), "%s", argv[2]);
	if (!strcmp(argv[1], "--donor"))
		_exit(serve(atoi(argv[3]), strtoul(argv[4], NULL, 0)));
	_exit(pin_and_wait());
}

/*
 * Returns when it is ready. A program of its own, as a fork could not use a device
 * that has been opened before.
 */
static int role_start(struct process *process, const char *role, int index, uint32_t which)
{
	int control[2], ready[2];
	char byte, number[16], mask[16];

	snprintf(number, sizeof(number), "%d", index);
	snprintf(mask, sizeof(mask), "%u", which);
	if (pipe2(control, O_CLOEXEC) || pipe2(ready, O_CLOEXEC))
		return -1;
	process->pid = fork();
	if (!process->pid) {
		dup2(control[0], STDIN_FILENO);
		dup2(ready[1], STDOUT_FILENO);
		execl("/proc/self/exe", "memory", role, local, number, mask, NULL);
		_exit(1);
	}
	close(control[0]);
	close(ready[1]);
	process->control = control[1];
	if (process->pid < 0 || read(ready[0], &byte, 1) != 1)
		return -1;
	close(ready[0]);
	return 0;
}

static int donor_start(struct process *process, int index, uint32_t which)
{
	return role_start(process, "--donor", index, which);
}

static int role_end(struct process *process, bool kill_it)
{
	int status = 0;

	if (!process->pid)
		return 0;
	if (kill_it)
		kill(process->pid, SIGKILL);
	close(process->control);
	waitpid(process->pid, &status, 0);
	process->pid = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static bool usable(struct sockaddr *address)
{
	struct rdma_cm_id *id;
	bool has;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return false;
	has = !rdma_bind_addr(id, address) && id->verbs;
	rdma_destroy_id(id);
	return has;
}

static bool find_address(void)
{
	struct ifaddrs *list, *at;

	if (getifaddrs(&list))
		return false;
	for (at = list; at && !*local; at = at->ifa_next) {
		struct sockaddr_in *in = (struct sockaddr_in *)at->ifa_addr;

		if (!in || in->sin_family != AF_INET || at->ifa_flags & IFF_LOOPBACK ||
		    !usable(at->ifa_addr))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, local, sizeof(local));
	}
	freeifaddrs(list);
	return *local;
}

/* In a process of its own: what forks later must not have a device open. */
static bool has_device(void)
{
	int status, fds[2];
	pid_t pid;

	if (pipe(fds))
		return false;
	pid = fork();
	if (!pid) {
		if (!find_address() &&
		    system("modprobe -q dummy; ip link add distmind0 type dummy 2>/dev/null && "
			   "ip addr add 10.78.0.1/24 dev distmind0 && ip link set distmind0 up && "
			   "rdma link add distmind0 type rxe netdev distmind0") == 0)
			find_address();
		_exit(write(fds[1], local, sizeof(local)) != sizeof(local));
	}
	waitpid(pid, &status, 0);
	if (read(fds[0], local, sizeof(local)) != sizeof(local))
		*local = '\0';
	close(fds[0]);
	close(fds[1]);
	return *local;
}

FIXTURE_SETUP(memory)
{
	memset(self, 0, sizeof(*self));
	if (!has_device())
		SKIP(return, "no RDMA device but on lo, and no dummy interface for another");
	make_chunks(&self->chunks);
}

FIXTURE_TEARDOWN(memory)
{
	memory_client_close(self->client);
	if (self->registration.entry)
		memory_registration_put(self->registrations, &self->registration);
	memory_registrations_destroy(self->registrations);
	memory_fabric_close(self->fabric);
	for (int i = 0; i < DONORS; i++)
		EXPECT_EQ(0, role_end(&self->donors[i], false));
	free(self->chunks.bytes);
	free(self->target);
}

static int reader_start(FIXTURE_DATA(memory) *self)
{
	const struct memory_client_options options = { .depth = 4, .read_size = MiB };
	char name[] = "host0";
	struct sockaddr_storage address;

	self->target = aligned_alloc(4096, (self->chunks.total + 4095) / 4096 * 4096);
	memset(self->target, 0xEE, self->chunks.total);
	if (memory_fabric_open(&self->fabric, local, self->reason) ||
	    memory_client_open(&self->client, self->fabric, &options, self->reason))
		return -1;
	self->registrations = memory_registrations_create(self->fabric, 0);
	if (memory_registration_get(self->registrations, 1, self->target, self->chunks.total, -1,
				    &self->registration, self->reason))
		return -1;
	for (int i = 0; i < DONORS; i++, name[4]++) {
		address = address_of(i);
		if (memory_client_donor_add(self->client, name, &address) != i)
			return -1;
	}
	return 0;
}

static void on_group(void *arg, uint32_t group)
{
	struct story *story = arg;

	story->out_of_order |= group != story->groups;
	story->groups++;
}

static void on_end(void *arg, const struct memory_load_progress *progress)
{
	struct story *story = arg;

	story->ended = true;
	story->progress = *progress;
}

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	struct story *story = arg;

	story->out_of_order |= !story->ended;
	story->quiet = true;
	story->progress = *progress;
}

static const struct memory_transfer_ops story_ops = {
	.group_done = on_group,
	.ended = on_end,
	.quiet = on_quiet,
};

/* Chunk i from the donors of row i % rows: digits, the preferred one first. */
static struct memory_transfer *load(FIXTURE_DATA(memory) *self, const char *const *rows, int count,
				    struct memory_load_request request)
{
	struct memory_piece pieces[CHUNKS] = { 0 };

	for (int i = 0; i < CHUNKS; i++) {
		memcpy(pieces[i].digest, self->chunks.digests[i], MEMORY_DIGEST_LEN);
		pieces[i].length = self->chunks.lengths[i];
		pieces[i].address = (uintptr_t)self->target + self->chunks.offsets[i];
		pieces[i].lkey = self->registration.lkey;
		pieces[i].group = i / GROUP;
		for (const char *digit = rows[i % count]; *digit; digit++)
			pieces[i].donors[pieces[i].donor_count++] = *digit - '0';
	}
	request.pieces = pieces;
	request.piece_count = CHUNKS;
	request.group_count = CHUNKS / GROUP;
	if (!request.deadline_ns)
		request.deadline_ns = 20000 * NS_PER_MS;
	self->story = (struct story){ 0 };
	return memory_client_load(self->client, &request, &story_ops, &self->story, self->reason);
}

/* Until it is quiet, or so many groups are there. */
static bool wait_for(FIXTURE_DATA(memory) *self, uint32_t groups)
{
	uint64_t end = memory_fabric_now() + 25000 * NS_PER_MS;
	struct pollfd fd = { .fd = memory_fabric_fd(self->fabric), .events = POLLIN };

	while (!self->story.quiet && self->story.groups < groups) {
		if (memory_fabric_now() > end || poll(&fd, 1, 25000) < 0)
			return false;
		memory_fabric_dispatch(self->fabric);
	}
	return true;
}

static bool arrived(FIXTURE_DATA(memory) *self)
{
	for (int i = 0; i < CHUNKS; i++)
		if (memcmp(self->target + self->chunks.offsets[i],
			   self->chunks.bytes + self->chunks.offsets[i], self->chunks.lengths[i]))
			return false;
	return true;
}

/* What is between chunks in the target is not touched. */
static bool gaps_untouched(FIXTURE_DATA(memory) *self)
{
	for (int i = 0; i < CHUNKS; i++)
		for (uint64_t b = self->chunks.offsets[i] + self->chunks.lengths[i]; b % 512; b++)
			if (self->target[b] != 0xEE)
				return false;
	return true;
}

static const char *const spread[] = { "0", "1", "2" };
static const char *const mirrored[] = { "01", "12", "20" };
static const char *const all_but_the_last[CHUNKS] = {
	[0 ... CHUNKS - 2] = "0", [CHUNKS - 1] = "1",
};

TEST_F_TIMEOUT(memory, chunks_of_several_donors_arrive_group_by_group, 60)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, donor_start(&self->donors[i], i, 0x249249U << i));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	for (int verify = 0; verify < 2; verify++) {
		const struct memory_load_request request = { .verify = verify };

		memset(self->target, 0xEE, self->chunks.total);
		ASSERT_NE(NULL, load(self, spread, 3, request))
			TH_LOG("%s", self->reason);
		ASSERT_TRUE(wait_for(self, ALL));
		EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
			TH_LOG("%s", self->story.progress.reason);
		EXPECT_EQ(CHUNKS / GROUP, self->story.groups);
		EXPECT_FALSE(self->story.out_of_order);
		EXPECT_TRUE(arrived(self));
		EXPECT_TRUE(gaps_untouched(self));
	}
	for (int i = 0; i < DONORS; i++) {
		struct memory_reader_donor stats;

		ASSERT_EQ(0, memory_client_donor_stats(self->client, i, &stats));
		EXPECT_TRUE(stats.connected);
		EXPECT_NE(0, stats.bytes);
		EXPECT_EQ(0, stats.failures);
	}
}

TEST_F_TIMEOUT(memory, a_donor_killed_in_mid_load_is_replaced_by_a_replica, 200)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, donor_start(&self->donors[i], i, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	for (int round = 0; round < 6; round++) {
		int victim = round % DONORS;

		memset(self->target, 0xEE, self->chunks.total);
		ASSERT_NE(NULL, load(self, mirrored, 3, (struct memory_load_request){
			.verify = round % 2 }));
		ASSERT_TRUE(wait_for(self, 1 + round % 3));
		role_end(&self->donors[victim], true);
		ASSERT_TRUE(wait_for(self, ALL));
		EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
			TH_LOG("round %d: %s", round, self->story.progress.reason);
		EXPECT_TRUE(arrived(self));
		ASSERT_EQ(0, donor_start(&self->donors[victim], victim, ALL));
	}
}

static void count_missing(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	++*(int *)arg;
}

TEST_F_TIMEOUT(memory, without_a_replica_it_fails_by_its_deadline_and_names_what_is_missing, 60)
{
	const struct memory_load_request soon = { .deadline_ns = 1500 * NS_PER_MS };
	struct memory_transfer *transfer;
	unsigned int told = 0;
	uint64_t begin;
	int missing = 0;

	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, donor_start(&self->donors[i], i, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	/* Connections are there, a donor is not: its chunks cannot come. */
	ASSERT_NE(NULL, load(self, spread, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	role_end(&self->donors[1], true);
	begin = memory_fabric_now();
	transfer = load(self, spread, 3, soon);
	ASSERT_NE(NULL, transfer);
	while (!self->story.ended) {
		struct pollfd fd = { .fd = memory_fabric_fd(self->fabric), .events = POLLIN };

		ASSERT_EQ(1, poll(&fd, 1, 10000));
		memory_fabric_dispatch(self->fabric);
		if (self->story.ended && !self->story.quiet)
			memory_client_missing(self->client, transfer, count_missing, &missing);
	}
	EXPECT_EQ(-ETIMEDOUT, self->story.progress.err);
	EXPECT_LE(memory_fabric_now() - begin, 3000 * NS_PER_MS);
	/* All of that donor's; on a slow kernel some of another's have not come yet. */
	EXPECT_EQ(1, sscanf(self->story.progress.reason, "%u of 24 chunks missing", &told))
		TH_LOG("%s", self->story.progress.reason);
	EXPECT_LE(8, told);
	EXPECT_NE(NULL, strstr(self->story.progress.reason, "donor host1 "));
	ASSERT_TRUE(wait_for(self, ALL));
	/* And when it is back, so is the model. */
	ASSERT_EQ(0, donor_start(&self->donors[1], 1, ALL));
	ASSERT_NE(NULL, load(self, spread, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
		TH_LOG("%s", self->story.progress.reason);
	EXPECT_TRUE(arrived(self));
}

TEST_F_TIMEOUT(memory, a_donor_that_hangs_is_overtaken, 60)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, donor_start(&self->donors[i], i, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	ASSERT_NE(NULL, load(self, mirrored, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	memset(self->target, 0xEE, self->chunks.total);
	/* It is connected, but answers no question: the kernel takes the message for it. */
	kill(self->donors[0].pid, SIGSTOP);
	ASSERT_NE(NULL, load(self, mirrored, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
		TH_LOG("%s", self->story.progress.reason);
	EXPECT_TRUE(arrived(self));
	kill(self->donors[0].pid, SIGCONT);
}

TEST_F_TIMEOUT(memory, a_cancelled_load_becomes_quiet_and_leaves_no_pins, 60)
{
	struct memory_reader_donor stats;
	struct memory_transfer *transfer;

	ASSERT_EQ(0, donor_start(&self->donors[0], 0, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	/* Donor 1 does not run: it cannot have ended before it is cancelled. */
	transfer = load(self, all_but_the_last, CHUNKS, (struct memory_load_request){ 0 });
	ASSERT_NE(NULL, transfer);
	ASSERT_TRUE(wait_for(self, 1));
	ASSERT_FALSE(self->story.ended);
	memory_client_cancel(self->client, transfer);
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_EQ(-ECANCELED, self->story.progress.err);
	ASSERT_NE(NULL, load(self, spread, 1, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_TRUE(arrived(self));
	memory_client_donor_stats(self->client, 0, &stats);
	EXPECT_EQ(0, stats.in_flight);
}

TEST_F_TIMEOUT(memory, registrations_are_kept_until_they_are_dropped, 120)
{
	struct memory_registration first, second;

	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	memory_registration_put(self->registrations, &self->registration);
	memory_registrations_destroy(self->registrations);
	self->registrations = memory_registrations_create(self->fabric, 2 * MiB);
#define GET(key, offset, length, result)                                                     \
	memory_registration_get(self->registrations, key, self->target + (offset), length, -1, \
				result, self->reason)
	ASSERT_EQ(0, GET(7, 0, MiB, &first));
	ASSERT_EQ(0, GET(7, 0, MiB, &second));
	EXPECT_EQ(first.lkey, second.lkey);
	EXPECT_FALSE(first.dmabuf);
	memory_registration_put(self->registrations, &first);
	EXPECT_EQ(0, memory_registrations_idle(self->registrations));
	memory_registration_put(self->registrations, &second);
	EXPECT_EQ(MiB, memory_registrations_idle(self->registrations));
	/* A third MiB does not fit beside two idle ones: the oldest goes. */
	ASSERT_EQ(0, GET(8, MiB, MiB, &first));
	ASSERT_EQ(0, GET(9, 2 * MiB, MiB, &second));
	memory_registration_put(self->registrations, &first);
	memory_registration_put(self->registrations, &second);
	EXPECT_EQ(2 * MiB, memory_registrations_idle(self->registrations));
	memory_registration_drop(self->registrations, 8);
	EXPECT_EQ(MiB, memory_registrations_idle(self->registrations));
	ASSERT_EQ(0, GET(9, 2 * MiB, MiB, &first));
	memory_registration_drop(self->registrations, 9);
	memory_registration_put(self->registrations, &first);
	EXPECT_EQ(0, memory_registrations_idle(self->registrations));
#undef GET
	ASSERT_NE(0, memory_registration_get(self->registrations, 10, NULL, MiB, -1, &first,
					     self->reason));
	EXPECT_NE(NULL, strstr(self->reason, "cannot register"));
	self->registration.entry = NULL;
}

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

/* The other role of this program: a reader that holds pins until it is killed. */
static int pin_and_wait(void)
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
		SKIP(return, "no RDMA device but on lo, and no dummy interface for another");
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
		uint64_t end = memory_fabric_now() + 10000 * NS_PER_MS;                   \
                                                                                          \
		do {                                                                      \
			memory_donor_stats(self->donor, &now);                            \
			usleep(1000);                                                     \
		} while (!(condition) && memory_fabric_now() < end);                      \
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

	ASSERT_EQ(0, role_start(&reader, "--reader", 0, 0));
	EVENTUALLY(now.pins == 10);
	role_end(&reader, true);
	EVENTUALLY(!now.peers && !now.pins);
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
	EVENTUALLY(now.pins == 4);
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
	rogue_close(&rogues[4]);
	rogue_close(&rogues[0]);
	EVENTUALLY(now.peers == 3 && now.refused == 1);
	ASSERT_EQ(0, rogue_connect(&rogues[0]));
	for (int i = 0; i < 4; i++)
		rogue_close(&rogues[i]);
	EVENTUALLY(!now.peers);
}

TEST_HARNESS_MAIN
