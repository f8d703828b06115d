// SPDX-License-Identifier: GPL-2.0-or-later
/* Who a donor lets in, on a device that is not there. */
#include "unit.h"

#include "verbs_fake.h"

#include "../../userspace/common/clock.h"
#include "../../userspace/memory/donor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define PEERS 6
#define HOST_PEERS 2

static struct device {
	struct rdma_cm_id *listener;
	struct rdma_cm_event event; /* that comes next, if there is an id */
	uint32_t accepted, rejected;
	uint8_t *buffer; /* that is received into next, and its number */
	uint64_t number;
	uint32_t len; /* of what is there; 0: nothing */
	struct memory_wire_message answer;
	uint64_t sent[MEMORY_ENDPOINT_MESSAGES]; /* that the peer acknowledges next */
	int sent_count;
	uint32_t expelled; /* readers that the owner has heard of */
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

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	device.buffer = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	device.number = wr->wr_id;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	assert_null(memory_wire_decode((const uint8_t *)(uintptr_t)wr->sg_list->addr,
				       wr->sg_list->length, &device.answer));
	device.sent[device.sent_count++] = wr->wr_id;
	return 0;
}

static int poll_completions(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	(void)cq;
	(void)room;
	*wc = (struct ibv_wc){ .status = IBV_WC_SUCCESS };
	if (device.sent_count) {
		wc->wr_id = device.sent[--device.sent_count];
		return 1;
	}
	wc->wr_id = device.number;
	wc->byte_len = device.len;
	device.len = 0;
	return wc->byte_len ? 1 : 0;
}

static void on_expelled(void *arg, const struct sockaddr_storage *reader, const char *reason)
{
	(void)arg;
	assert_int_equal(((const struct sockaddr_in *)reader)->sin_addr.s_addr,
			 htonl(0x0a000001));
	assert_contains(reason, "keeps chunks that were freed");
	device.expelled++;
}

static int setup(void **state)
{
	const struct memory_donor_options options = {
		.peers = PEERS, .host_peers = HOST_PEERS, .pins = 4, .expelled = on_expelled,
	};
	char reason[MEMORY_REASON_LEN];

	(void)state;
	device = (struct device){ 0 };
	verbs_open(post_receive, poll_completions);
	verbs.context.ops.post_send = post_send;
	fabric = (struct memory_fabric){
		.verbs = &verbs.context, .lock = PTHREAD_MUTEX_INITIALIZER,
		.news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
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
	close(fabric.news);
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

/* The reader that was accepted last says that. */
static void say(const struct memory_wire_message *message)
{
	device.len = (uint32_t)memory_wire_encode(message, device.buffer);
	assert_true(memory_endpoint_look(&fabric));
}

static void put_chunk(uint8_t name)
{
	uint8_t digest[MEMORY_DIGEST_LEN] = { name };
	struct memory_chunk *chunk;

	assert_int_equal(memory_arena_allocate(arena, 4096, &chunk), 0);
	assert_int_equal(memory_arena_seal(arena, chunk, digest, 0), 0);
}

static void free_chunk(uint8_t name)
{
	uint8_t digest[MEMORY_DIGEST_LEN] = { name };

	assert_int_equal(memory_arena_free(arena, digest), 0);
}

static void resolve_chunk(uint8_t name)
{
	struct memory_wire_message question = {
		.type = MEMORY_WIRE_RESOLVE, .count = 1, .digests = { { name } },
	};

	say(&question);
	assert_int_equal(device.answer.type, MEMORY_WIRE_LOCATIONS);
	assert_int_equal(device.answer.locations[0].state, MEMORY_WIRE_PRESENT);
}

#define SECOND 1000000000ULL

/* So long after now. */
static void run_at(uint64_t seconds)
{
	fabric.parties->run(fabric.parties, clock_ns() + seconds * SECOND);
	memory_endpoint_look(&fabric);
	memory_endpoint_bury(&fabric);
	fabric.parties->dispatch(fabric.parties);
}

static void who_keeps_what_was_freed_is_expelled(void **state)
{
	struct memory_wire_message release = { .type = MEMORY_WIRE_RELEASE, .count = 1 };
	struct memory_donor_stats stats;
	struct memory_arena_stats used;

	(void)state;
	put_chunk(1);
	put_chunk(2);
	assert_non_null(ask("10.0.0.2"));
	assert_non_null(ask("10.0.0.1"));
	resolve_chunk(1);
	release.pins[0] = device.answer.locations[0].pin;
	resolve_chunk(2);
	/* What is not freed may be pinned for as long as it takes. */
	run_at(10);
	free_chunk(1);
	say(&release);
	run_at(20);
	memory_donor_stats(donor, &stats);
	assert_int_equal(stats.peers, 2);
	free_chunk(2);
	memory_arena_stats(arena, &used);
	assert_in_range(used.doomed, 1, 2);
	assert_int_equal(used.doomed_bytes, used.doomed * 4096);
	run_at(50);
	memory_donor_stats(donor, &stats);
	assert_int_equal(stats.peers, 2);
	run_at(61);
	memory_donor_stats(donor, &stats);
	assert_int_equal(stats.peers, 1);
	assert_int_equal(stats.pins, 0);
	assert_int_equal(stats.expelled, 1);
	assert_int_equal(device.expelled, 1);
	do
		memory_arena_stats(arena, &used);
	while (used.doomed);
	assert_int_equal(used.doomed_bytes, 0);
	assert_int_equal(used.used, 0);
	assert_int_equal(memory_arena_doomed_since(arena), 0);
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
		DONOR_TEST(who_keeps_what_was_freed_is_expelled),
		DONOR_TEST(a_reader_learns_whether_the_donor_is_busy_or_not_there),
	};

	return cmocka_run_group_tests_name("memory_donor", tests, NULL, NULL);
}
