// SPDX-License-Identifier: GPL-2.0-or-later
/* The end of a loader whose device is gone; the test is the fabric's thread. */
#include "unit.h"

#include "verbs_fake.h"

#include "../../userspace/memory/loader.h"
#include "../../userspace/memory/registration.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DONORS 3

static struct memory_fabric fabric;
static struct memory_loader *loader;

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)id;
	(void)from;
	(void)to;
	(void)ms;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	(void)event;
	errno = EAGAIN;
	return -1;
}

static uint64_t run(void)
{
	return fabric.parties->run(fabric.parties, 1);
}

static int setup(void **state)
{
	const struct memory_loader_options options = { .depth = 4, .read_size = 1024 };
	struct sockaddr_storage address = { .ss_family = AF_INET };
	char reason[MEMORY_REASON_LEN], name[] = "host0";

	(void)state;
	verbs_open(NULL, NULL);
	fabric = (struct memory_fabric){
		.verbs = &verbs.context, .lock = PTHREAD_MUTEX_INITIALIZER, .message_max = 1024,
		.kick = eventfd(0, EFD_NONBLOCK), .news = eventfd(0, EFD_NONBLOCK),
	};
	assert_int_equal(memory_loader_open(&loader, &fabric, &options, reason), 0);
	for (int i = 0; i < DONORS; i++, name[4]++)
		assert_int_equal(memory_loader_donor_add(loader, name, &address), i);
	run();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	memory_loader_close(loader);
	close(fabric.kick);
	close(fabric.news);
	return 0;
}

struct story {
	bool quiet;
	struct memory_load_progress progress;
};

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	*(struct story *)arg = (struct story){ .quiet = true, .progress = *progress };
}

static struct memory_transfer *load(struct story *story, char *reason)
{
	static const struct memory_transfer_ops ops = { .quiet = on_quiet };
	static const struct memory_piece piece = { .length = 1, .donor_count = 1 };
	const struct memory_load_request request = {
		.pieces = &piece, .piece_count = 1, .group_count = 1, .deadline_ns = UINT64_MAX,
	};

	return memory_loader_load(loader, &request, &ops, story, reason);
}

static void a_loader_that_fails_leaves_its_links_to_the_thread(void **state)
{
	struct sockaddr_storage address = { .ss_family = AF_INET };
	char reason[MEMORY_REASON_LEN];
	struct story story = { 0 };

	(void)state;
	assert_non_null(load(&story, reason));
	memory_loader_fail(loader, -ENODEV, "the device is gone");
	/* Nothing begins any more, and nothing has been waited for. */
	assert_null(load(&story, reason));
	assert_contains(reason, "the RDMA device is gone");
	assert_int_equal(memory_loader_donor_add(loader, "late", &address), -ENODEV);
	assert_false(memory_loader_over(loader));
	/* One link in each turn. */
	for (int i = 0; i < DONORS; i++) {
		assert_int_equal(run(), 1);
		assert_false(memory_loader_over(loader));
	}
	run();
	memory_fabric_dispatch(&fabric);
	assert_true(story.quiet);
	assert_int_equal(story.progress.err, -ENODEV);
	assert_string_equal(story.progress.reason, "the device is gone");
	assert_true(memory_loader_over(loader));
	assert_int_equal(run(), UINT64_MAX);
}

static void a_loader_whose_links_have_not_all_ended_can_be_closed(void **state)
{
	struct story story = { 0 };
	char reason[MEMORY_REASON_LEN];

	(void)state;
	assert_non_null(load(&story, reason));
	memory_loader_fail(loader, -ENODEV, "the device is gone");
	run();
	/* By the teardown, and nobody is called. */
	assert_false(story.quiet);
}

static void registrations_that_were_taken_are_not_their_owners_any_more(void **state)
{
	struct memory_registration one = { 0 }, other = { 0 };
	char reason[MEMORY_REASON_LEN], memory[64];

	(void)state;
	assert_int_equal(memory_registration_begin(&one, &fabric, memory, 32, -1, reason), 0);
	assert_int_equal(memory_registration_begin(&other, &fabric, memory, 64, -1, reason), 0);
	memory_fabric_take(&fabric);
	assert_null(one.mr);
	assert_null(other.mr);
	assert_int_equal(fabric.taken_count, 2);
	/* As whoever has the memory does. */
	memory_registration_end(&one);
	memory_registration_end(&other);
	free(fabric.taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_loader_that_fails_leaves_its_links_to_the_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_loader_whose_links_have_not_all_ended_can_be_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			registrations_that_were_taken_are_not_their_owners_any_more, setup,
			teardown),
	};

	return cmocka_run_group_tests_name("memory_loader", tests, NULL, NULL);
}
