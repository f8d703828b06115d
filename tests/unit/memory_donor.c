// SPDX-License-Identifier: GPL-2.0-or-later
/* Who a donor lets in, on a device that is not there. */
#include "unit.h"

#include "verbs_fake.h"

#include "../../userspace/memory/donor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#define PEERS 6
#define HOST_PEERS 2

static struct device {
	struct rdma_cm_id *listener;
	struct rdma_cm_event event; /* that comes next, if there is an id */
	uint32_t accepted, rejected;
} device;

static struct memory_fabric fabric;
static struct memory_donor *donor;
static struct memory_arena *arena;

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	device.listener = id;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int ms)
{
	(void)from;
	(void)to;
	(void)ms;
	device.event.id = id;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	static struct rdma_cm_event given;

	(void)channel;
	if (!device.event.id) {
		errno = EAGAIN;
		return -1;
	}
	given = device.event;
	device.event.id = NULL;
	*event = &given;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	device.accepted++;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void)id;
	(void)data;
	(void)len;
	device.rejected++;
	return 0;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)wr;
	(void)bad;
	return 0;
}

static int setup(void **state)
{
	const struct memory_donor_options options = {
		.peers = PEERS, .host_peers = HOST_PEERS, .pins = 4,
	};
	char reason[MEMORY_REASON_LEN];

	(void)state;
	device = (struct device){ 0 };
	verbs_open(post_receive, NULL);
	fabric = (struct memory_fabric){
		.verbs = &verbs.context, .lock = PTHREAD_MUTEX_INITIALIZER,
	};
	assert_int_equal(memory_arena_create(&arena, 1U << 20), 0);
	assert_int_equal(memory_donor_start(&donor, &fabric, arena, &options, reason), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	memory_donor_stop(donor);
	memory_arena_destroy(arena);
	return 0;
}

/* A reader at that address asks; the port is another one every time. NULL: refused. */
static struct rdma_cm_id *ask(const char *address)
{
	static in_port_t port;
	struct rdma_cm_id *id;
	struct sockaddr_storage *from;
	uint32_t before = device.accepted;

	rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP);
	from = &id->route.addr.dst_storage;
	if (inet_pton(AF_INET, address, &((struct sockaddr_in *)from)->sin_addr) == 1) {
		from->ss_family = AF_INET;
		((struct sockaddr_in *)from)->sin_port = ++port;
	} else {
		assert_int_equal(inet_pton(AF_INET6, address,
					   &((struct sockaddr_in6 *)from)->sin6_addr), 1);
		from->ss_family = AF_INET6;
		((struct sockaddr_in6 *)from)->sin6_port = ++port;
	}
	device.event = (struct rdma_cm_event){
		.id = id, .listen_id = device.listener, .event = RDMA_CM_EVENT_CONNECT_REQUEST,
	};
	memory_endpoint_events(&fabric);
	return device.accepted > before ? id : NULL;
}

static void hang_up(struct rdma_cm_id *id)
{
	device.event = (struct rdma_cm_event){ .id = id, .event = RDMA_CM_EVENT_DISCONNECTED };
	memory_endpoint_events(&fabric);
	assert_true(memory_endpoint_bury(&fabric));
}

static void one_host_does_not_keep_others_out(void **state)
{
	struct memory_donor_stats stats;
	struct rdma_cm_id *first;

	(void)state;
	first = ask("10.0.0.1");
	assert_non_null(first);
	assert_non_null(ask("10.0.0.1"));
	for (int i = 0; i < PEERS; i++)
		assert_null(ask("10.0.0.1"));
	assert_non_null(ask("10.0.0.2"));
	assert_non_null(ask("fd00::1"));
	assert_non_null(ask("fd00::1"));
	assert_null(ask("fd00::1"));
	memory_donor_stats(donor, &stats);
	assert_int_equal(stats.peers, 5);
	assert_int_equal(stats.refused, PEERS + 1);
	assert_int_equal(device.rejected, PEERS + 1);
	/* When one ends there is room for another one. */
	hang_up(first);
	assert_non_null(ask("10.0.0.1"));
	assert_null(ask("10.0.0.1"));
}

static void there_are_no_more_readers_than_allowed(void **state)
{
	char address[32];

	(void)state;
	for (int i = 0; i < PEERS; i++) {
		snprintf(address, sizeof(address), "10.0.0.%d", i + 1);
		assert_non_null(ask(address));
	}
	assert_null(ask("10.0.1.1"));
}

static void note_reason(void *arg, const char *reason)
{
	snprintf(arg, MEMORY_REASON_LEN, "%s", reason);
}

/* As the connection manager tells a reader. */
static void expect_reason(int status, const char *expected)
{
	static const struct memory_endpoint_ops ops = { .gone = note_reason };
	char reason[MEMORY_REASON_LEN];
	const struct sockaddr address = { 0 };

	device.event = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_REJECTED, .status = status };
	assert_non_null(memory_endpoint_connect(&(struct memory_endpoint_setup){
		.fabric = &fabric, .ops = &ops, .arg = reason, .pd = &verbs.pd,
	}, &address, reason));
	memory_endpoint_events(&fabric);
	assert_true(memory_endpoint_bury(&fabric));
	assert_contains(reason, expected);
}

static void a_reader_learns_whether_the_donor_is_busy_or_not_there(void **state)
{
	(void)state;
	expect_reason(28, "the donor is busy");
	expect_reason(8, "no donor there");
}

#define DONOR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DONOR_TEST(one_host_does_not_keep_others_out),
		DONOR_TEST(there_are_no_more_readers_than_allowed),
		DONOR_TEST(a_reader_learns_whether_the_donor_is_busy_or_not_there),
	};

	return cmocka_run_group_tests_name("memory_donor", tests, NULL, NULL);
}
