// SPDX-License-Identifier: GPL-2.0-or-later
/* Endpoints on a device that is not there. Its peers never stop. */
#include "unit.h"

#include "verbs_fake.h"

#include <sys/eventfd.h>
#include <unistd.h>

#define TOO_MUCH 100000 /* for one round, whatever it handles */

static struct device {
	struct rdma_cm_id asking;
	struct rdma_cm_event event;
	uint32_t posted[MEMORY_ENDPOINT_MESSAGES]; /* to receive into, a ring */
	uint32_t post_count, completed;
	uint32_t requests;
	uint32_t messages;
} device;

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	device.event = (struct rdma_cm_event){
		.id = &device.asking, .listen_id = id, .event = RDMA_CM_EVENT_CONNECT_REQUEST,
	};
	return 0;
}

/* There is always another one. */
int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	*event = &device.event;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id;
	(void)param;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel;
	*cq = &verbs.cq;
	*context = verbs.cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq;
	(void)count;
}

static int post_receive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp;
	(void)bad;
	device.posted[device.post_count++ % MEMORY_ENDPOINT_MESSAGES] = (uint32_t)wr->wr_id;
	return 0;
}

/* As soon as there is something to receive into, there is something in it. */
static int poll_completions(struct ibv_cq *cq, int room, struct ibv_wc *wc)
{
	int count = 0;

	(void)cq;
	for (; count < room && device.completed < device.post_count; count++) {
		uint32_t index = device.posted[device.completed++ % MEMORY_ENDPOINT_MESSAGES];

		wc[count] = (struct ibv_wc){ .wr_id = index, .status = IBV_WC_SUCCESS };
	}
	return count;
}

static void requested(struct memory_listener *listener, struct rdma_cm_id *id, uint32_t depth)
{
	(void)listener;
	(void)id;
	(void)depth;
	if (++device.requests > TOO_MUCH)
		fail_msg("connection requests keep the thread");
}

static void established(void *arg)
{
	(void)arg;
}

static void received(void *arg, const uint8_t *bytes, size_t len)
{
	(void)arg;
	(void)bytes;
	(void)len;
	if (++device.messages > TOO_MUCH)
		fail_msg("messages keep the thread");
}

static void gone(void *arg, const char *reason)
{
	(void)arg;
	(void)reason;
}

static const struct memory_endpoint_ops ops = {
	.established = established, .received = received, .gone = gone,
};

static int setup(void **state)
{
	static struct memory_fabric fabric;

	device = (struct device){ 0 };
	verbs_open(post_receive, poll_completions);
	fabric = (struct memory_fabric){
		.lock = PTHREAD_MUTEX_INITIALIZER, .verbs = &verbs.context,
	};
	*state = &fabric;
	return 0;
}

/* The thread has the lock for a round, and others wait for it. */
static void requests_without_end_do_not_make_a_round_without_end(void **state)
{
	struct memory_listener listener = { .requested = requested };
	const struct sockaddr address = { 0 };
	char reason[MEMORY_REASON_LEN];

	assert_int_equal(memory_endpoint_listen(*state, &listener, &address, reason), 0);
	memory_endpoint_events(*state);
	assert_true(device.requests > 0);
	memory_endpoint_unlisten(&listener);
}

/* All that were there when it began are handled: no event comes for these. */
static void messages_without_end_do_not_make_a_round_without_end(void **state)
{
	struct memory_fabric *fabric = *state;
	struct memory_endpoint *endpoint;
	char reason[MEMORY_REASON_LEN];
	struct rdma_cm_id *id;

	rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP);
	endpoint = memory_endpoint_accept(&(struct memory_endpoint_setup){
		.fabric = fabric, .ops = &ops, .pd = &verbs.pd,
	}, id, reason);
	assert_non_null(endpoint);
	memory_endpoint_poll(fabric);
	assert_true(device.messages >= MEMORY_ENDPOINT_MESSAGES);
	memory_endpoint_fail(endpoint, "the test is over");
	assert_true(memory_endpoint_bury(fabric));
}

/* Also of an id that is nobody's connection. */
static void a_device_that_is_removed_is_told_to_the_owner(void **state)
{
	struct memory_fabric *fabric = *state;
	uint64_t count = 0;

	fabric->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	device.asking.verbs = &verbs.context;
	device.event = (struct rdma_cm_event){
		.id = &device.asking, .event = RDMA_CM_EVENT_DEVICE_REMOVAL,
	};
	assert_false(memory_fabric_removed(fabric));
	memory_endpoint_events(fabric);
	assert_true(memory_fabric_removed(fabric));
	/* Once, though many say so. */
	assert_int_equal(read(fabric->news, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 1);
	close(fabric->news);
}

/* Another device of the host may go. */
static void a_device_that_is_not_used_may_be_removed(void **state)
{
	struct memory_fabric *fabric = *state;
	struct ibv_context other = { 0 };

	device.asking.verbs = &other;
	device.event = (struct rdma_cm_event){
		.id = &device.asking, .event = RDMA_CM_EVENT_DEVICE_REMOVAL,
	};
	memory_endpoint_events(fabric);
	assert_false(memory_fabric_removed(fabric));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(requests_without_end_do_not_make_a_round_without_end, setup),
		cmocka_unit_test_setup(messages_without_end_do_not_make_a_round_without_end, setup),
		cmocka_unit_test_setup(a_device_that_is_removed_is_told_to_the_owner, setup),
		cmocka_unit_test_setup(a_device_that_is_not_used_may_be_removed, setup),
	};

	return cmocka_run_group_tests_name("memory_endpoint", tests, NULL, NULL);
}
