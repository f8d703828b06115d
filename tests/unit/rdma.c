// SPDX-License-Identifier: GPL-2.0-or-later
/* A device that goes, in the place of which there is a fake that takes long to close. */
#include "rdma_fake.h"

#include "../../userspace/distmindd/pool/rdma.h"

#include <pthread.h>

static struct memory_fabric fabric;

static struct device {
	pthread_mutex_t lock; /* hangs and shut */
	pthread_cond_t changed;
	bool lost;
	bool hangs; /* to shut it does not end */
	unsigned int shut;
	bool shut_by_loop;
	pthread_t loop;
	unsigned int closed; /* by the loop, which alone has this */
} device = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

const char *memory_fabric_device(const struct memory_fabric *of)
{
	(void)of;
	return "fake0";
}

bool memory_fabric_removed(struct memory_fabric *of)
{
	(void)of;
	return device.lost;
}

bool memory_fabric_lost(struct memory_fabric *of)
{
	(void)of;
	return device.lost;
}

int memory_fabric_fd(const struct memory_fabric *of)
{
	(void)of;
	return -1;
}

void memory_fabric_dispatch(struct memory_fabric *of)
{
	(void)of;
}

void memory_fabric_hold(struct memory_fabric *of)
{
	of->holds++;
}

void memory_fabric_release(struct memory_fabric *of)
{
	of->holds--;
}

int network_open(struct network *network, const struct network_request *request,
		 char reason[MEMORY_REASON_LEN])
{
	(void)network;
	(void)request;
	snprintf(reason, MEMORY_REASON_LEN, "the test has one device");
	return -ENODEV;
}

void network_move(struct network *from, struct network *to)
{
	*to = *from;
	*from = (struct network){ 0 };
}

void network_stop(struct network *network)
{
	if (network->loader)
		memory_loader_close(network->loader);
	network->loader = NULL;
}

void network_detach(struct network *network, struct network *to)
{
	network_move(network, to);
}

void network_shut(struct network *network)
{
	network_stop(network);
	pthread_mutex_lock(&device.lock);
	device.shut++;
	device.shut_by_loop = pthread_equal(pthread_self(), device.loop);
	while (device.hangs)
		pthread_cond_wait(&device.changed, &device.lock);
	pthread_mutex_unlock(&device.lock);
}

void network_close(struct network *network)
{
	device.closed += network->fabric != NULL;
	network_stop(network);
	*network = (struct network){ 0 };
}

static bool is_shut(void)
{
	bool shut;

	pthread_mutex_lock(&device.lock);
	shut = device.shut;
	pthread_mutex_unlock(&device.lock);
	return shut;
}

static void hang(bool hangs)
{
	pthread_mutex_lock(&device.lock);
	device.hangs = hangs;
	pthread_cond_broadcast(&device.changed);
	pthread_mutex_unlock(&device.lock);
}

static int setup_device(void **state)
{
	donor = (struct donor){ .damaged = UINT32_MAX, .lacks = UINT32_MAX };
	device.lost = device.shut_by_loop = false;
	device.shut = device.closed = 0;
	device.loop = pthread_self();
	hang(true);
	setup(state);
	bed.models->chunks.network.fabric = &fabric;
	bed.models->chunks.network.loader = (struct memory_loader *)&donor;
	return 0;
}

static int teardown_device(void **state)
{
	hang(false);
	return teardown(state);
}

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	*(bool *)arg = progress->quiet;
}

static struct memory_transfer *begin_transfer(bool *quiet)
{
	static const struct memory_transfer_ops ops = { .quiet = on_quiet };
	static const struct memory_piece piece = { .length = 1, .donor_count = 1 };
	const struct memory_load_request request = {
		.pieces = &piece, .piece_count = 1, .group_count = 1,
	};
	char reason[MEMORY_REASON_LEN];

	donor.holds = true;
	return memory_loader_load(bed.models->chunks.network.loader, &request, &ops, quiet, reason);
}

static void the_loop_goes_on_while_a_lost_device_is_closed(void **state)
{
	struct chunks *chunks = &bed.models->chunks;
	const char *reason;
	int fd;

	(void)state;
	device.lost = true;
	wait_until(is_shut());
	assert_false(device.shut_by_loop);
	assert_null(chunks->network.fabric);
	assert_null(chunks->network.loader);
	assert_null(rdma_device(chunks, &reason));
	assert_contains(reason, "RDMA device fake0 is gone");
	/* It is still being closed, and whoever asks is answered. */
	fd = connect_client();
	ask_ok(fd, json_pack("{s:s}", "op", "status"));
	hang_up(fd);
	assert_int_equal(device.closed, 0);
	hang(false);
	wait_until(device.closed == 1);
	assert_int_equal(device.shut, 1);
}

static void a_device_is_not_closed_before_its_transfers_have_ended(void **state)
{
	struct chunks *chunks = &bed.models->chunks;
	struct memory_transfer *transfer;
	bool quiet = false;

	(void)state;
	hang(false);
	transfer = begin_transfer(&quiet);
	device.lost = true;
	wait_until(donor.failed);
	/* Whoever has a transfer may still cancel it. */
	assert_non_null(chunks->network.loader);
	assert_false(is_shut());
	donor.holds = false;
	memory_loader_cancel(chunks->network.loader, transfer);
	wait_until(device.closed == 1);
	assert_true(quiet);
	assert_null(chunks->network.loader);
}

static void a_daemon_that_stops_closes_a_lost_device_once(void **state)
{
	(void)state;
	device.lost = true;
	wait_until(is_shut());
	hang(false);
	stop_daemon();
	assert_int_equal(device.shut, 1);
	assert_int_equal(device.closed, 1);
	start_daemon();
}

#define DEVICE_TEST(name) cmocka_unit_test_setup_teardown(name, setup_device, teardown_device)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(the_loop_goes_on_while_a_lost_device_is_closed),
		DEVICE_TEST(a_device_is_not_closed_before_its_transfers_have_ended),
		DEVICE_TEST(a_daemon_that_stops_closes_a_lost_device_once),
	};

	return cmocka_run_group_tests_name("rdma", tests, NULL, NULL);
}
