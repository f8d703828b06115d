// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory pool over RDMA: chunks of donors arrive bit by bit as they are,
 * whoever dies meanwhile. One guest; donors are processes of their own, so that
 * they can be killed. time-limit: 600
 * part: userspace
 */
#include <errno.h>
#include <poll.h>

#include "../../userspace/memory/loader.h"
#include "../../userspace/memory/registration.h"
#include "kselftest_harness.h"
#include "memory_test.h"

#define GROUP 4
#define DONORS 3

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
	struct memory_loader *loader;
	struct memory_registration registration;
	uint8_t *target;
	struct story story;
	char reason[MEMORY_REASON_LEN];
};

/* A donor of these chunks, until its input is closed. */
static int role_main(int index, uint32_t which)
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

FIXTURE_SETUP(memory)
{
	memset(self, 0, sizeof(*self));
	if (!has_device())
		SKIP(return, NO_DEVICE);
	make_chunks(&self->chunks);
}

FIXTURE_TEARDOWN(memory)
{
	memory_loader_close(self->loader);
	memory_registration_end(&self->registration);
	memory_fabric_close(self->fabric);
	for (int i = 0; i < DONORS; i++)
		EXPECT_EQ(0, role_end(&self->donors[i], false));
	free(self->chunks.bytes);
	free(self->target);
}

static int reader_start(FIXTURE_DATA(memory) *self)
{
	const struct memory_loader_options options = { .depth = 4, .read_size = READ_SIZE };
	char name[] = "host0";
	struct sockaddr_storage address;

	self->target = aligned_alloc(4096, (self->chunks.total + 4095) / 4096 * 4096);
	memset(self->target, 0xEE, self->chunks.total);
	if (memory_fabric_open(&self->fabric, local, self->reason) ||
	    memory_loader_open(&self->loader, self->fabric, &options, self->reason))
		return -1;
	if (memory_registration_begin(&self->registration, self->fabric, self->target,
				      self->chunks.total, -1, self->reason))
		return -1;
	for (int i = 0; i < DONORS; i++, name[4]++) {
		address = address_of(i);
		if (memory_loader_donor_add(self->loader, name, &address) != i)
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
		pieces[i].checksum = chunk_checksum(self->chunks.bytes + self->chunks.offsets[i],
						    self->chunks.lengths[i]);
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
	return memory_loader_load(self->loader, &request, &story_ops, &self->story, self->reason);
}

/* Until it is quiet, or so many groups are there. */
static bool wait_for(FIXTURE_DATA(memory) *self, uint32_t groups)
{
	uint64_t end = clock_ns() + 25000 * NS_PER_MS;
	struct pollfd fd = { .fd = memory_fabric_fd(self->fabric), .events = POLLIN };

	while (!self->story.quiet && self->story.groups < groups) {
		if (clock_ns() > end || poll(&fd, 1, 25000) < 0)
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

TEST_F_TIMEOUT(memory, chunks_of_several_donors_arrive_group_by_group, 150)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, role_start(&self->donors[i], i, 0x249249U << i));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	for (int verify = 0; verify < 2; verify++) {
		const struct memory_load_request request = {
			.check = verify ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM,
		};

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

		ASSERT_EQ(0, memory_loader_donor_stats(self->loader, i, &stats));
		EXPECT_TRUE(stats.connected);
		EXPECT_NE(0, stats.bytes);
		EXPECT_EQ(0, stats.failures);
	}
}

TEST_F_TIMEOUT(memory, a_donor_killed_in_mid_load_is_replaced_by_a_replica, 200)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, role_start(&self->donors[i], i, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	for (int round = 0; round < 6; round++) {
		int victim = round % DONORS;

		memset(self->target, 0xEE, self->chunks.total);
		ASSERT_NE(NULL, load(self, mirrored, 3, (struct memory_load_request){
			.check = round % 2 ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM }));
		ASSERT_TRUE(wait_for(self, 1 + round % 3));
		role_end(&self->donors[victim], true);
		ASSERT_TRUE(wait_for(self, ALL));
		EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
			TH_LOG("round %d: %s", round, self->story.progress.reason);
		EXPECT_TRUE(arrived(self));
		ASSERT_EQ(0, role_start(&self->donors[victim], victim, ALL));
	}
}

static bool count_missing(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	++*(int *)arg;
	return true;
}

TEST_F_TIMEOUT(memory, without_a_replica_it_fails_by_its_deadline_and_names_what_is_missing, 150)
{
	const struct memory_load_request soon = { .deadline_ns = 1500 * NS_PER_MS };
	struct memory_transfer *transfer;
	unsigned int told = 0;
	uint64_t begin;
	int missing = 0;

	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, role_start(&self->donors[i], i, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	/* Connections are there, a donor is not: its chunks cannot come. */
	ASSERT_NE(NULL, load(self, spread, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	role_end(&self->donors[1], true);
	begin = clock_ns();
	transfer = load(self, spread, 3, soon);
	ASSERT_NE(NULL, transfer);
	while (!self->story.ended) {
		struct pollfd fd = { .fd = memory_fabric_fd(self->fabric), .events = POLLIN };

		ASSERT_EQ(1, poll(&fd, 1, 10000));
		memory_fabric_dispatch(self->fabric);
		if (self->story.ended && !self->story.quiet)
			memory_loader_missing(self->loader, transfer, count_missing, &missing);
	}
	EXPECT_EQ(-ETIMEDOUT, self->story.progress.err);
	EXPECT_LE(clock_ns() - begin, 3000 * NS_PER_MS);
	/* All of that donor's; on a slow kernel some of another's have not come yet. */
	EXPECT_EQ(1, sscanf(self->story.progress.reason, "%u of 24 chunks missing", &told))
		TH_LOG("%s", self->story.progress.reason);
	EXPECT_LE(8, told);
	EXPECT_NE(NULL, strstr(self->story.progress.reason, "donor host1 "));
	ASSERT_TRUE(wait_for(self, ALL));
	/* And when it is back, so is the model. */
	ASSERT_EQ(0, role_start(&self->donors[1], 1, ALL));
	ASSERT_NE(NULL, load(self, spread, 3, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_EQ(MEMORY_LOAD_DONE, self->story.progress.state)
		TH_LOG("%s", self->story.progress.reason);
	EXPECT_TRUE(arrived(self));
}

TEST_F_TIMEOUT(memory, a_donor_that_hangs_is_overtaken, 150)
{
	for (int i = 0; i < DONORS; i++)
		ASSERT_EQ(0, role_start(&self->donors[i], i, ALL));
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

TEST_F_TIMEOUT(memory, a_cancelled_load_becomes_quiet_and_leaves_no_pins, 150)
{
	struct memory_reader_donor stats;
	struct memory_transfer *transfer;

	ASSERT_EQ(0, role_start(&self->donors[0], 0, ALL));
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	/* Donor 1 does not run: it cannot have ended before it is cancelled. */
	transfer = load(self, all_but_the_last, CHUNKS, (struct memory_load_request){ 0 });
	ASSERT_NE(NULL, transfer);
	ASSERT_TRUE(wait_for(self, 1));
	ASSERT_FALSE(self->story.ended);
	memory_loader_cancel(self->loader, transfer);
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_EQ(-ECANCELED, self->story.progress.err);
	ASSERT_NE(NULL, load(self, spread, 1, (struct memory_load_request){ 0 }));
	ASSERT_TRUE(wait_for(self, ALL));
	EXPECT_TRUE(arrived(self));
	memory_loader_donor_stats(self->loader, 0, &stats);
	EXPECT_EQ(0, stats.in_flight);
}

TEST_F_TIMEOUT(memory, registrations_end_with_the_fabric_at_the_latest, 120)
{
	struct memory_registration other = { 0 };

	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	ASSERT_EQ(0, memory_registration_begin(&other, self->fabric, self->target, MiB, -1,
					       self->reason));
	EXPECT_NE(NULL, other.mr);
	EXPECT_FALSE(other.dmabuf);
	memory_registration_end(&other);
	EXPECT_EQ(NULL, other.mr);
	memory_registration_end(&other);
	ASSERT_NE(0, memory_registration_begin(&other, self->fabric, NULL, MiB, -1, self->reason));
	EXPECT_NE(NULL, strstr(self->reason, "cannot register"));
	EXPECT_EQ(NULL, other.mr);
	ASSERT_EQ(0, memory_registration_begin(&other, self->fabric, self->target, MiB, -1,
					       self->reason));
	memory_loader_close(self->loader);
	self->loader = NULL;
	memory_fabric_close(self->fabric);
	self->fabric = NULL;
	EXPECT_EQ(NULL, other.mr);
	EXPECT_EQ(NULL, self->registration.mr);
}

/* As when the device goes: whoever waits is told, and nothing new begins. */
TEST_F_TIMEOUT(memory, a_loader_that_fails_ends_what_is_under_way, 120)
{
	ASSERT_EQ(0, reader_start(self)) TH_LOG("%s", self->reason);
	/* Of donors that are not there. */
	ASSERT_NE(NULL, load(self, spread, 1, (struct memory_load_request){ 0 }));
	memory_loader_fail(self->loader, -ENODEV, "the device is gone");
	EXPECT_FALSE(memory_loader_over(self->loader));
	while (!memory_loader_over(self->loader)) {
		struct pollfd fd = { .fd = memory_fabric_fd(self->fabric), .events = POLLIN };

		ASSERT_EQ(1, poll(&fd, 1, 10000));
		memory_fabric_dispatch(self->fabric);
	}
	EXPECT_EQ(MEMORY_LOAD_FAILED, self->story.progress.state);
	EXPECT_EQ(-ENODEV, self->story.progress.err);
	EXPECT_STREQ("the device is gone", self->story.progress.reason);
	EXPECT_TRUE(self->story.progress.quiet);
	EXPECT_EQ(NULL, load(self, spread, 1, (struct memory_load_request){ 0 }));
}

TEST_HARNESS_MAIN
