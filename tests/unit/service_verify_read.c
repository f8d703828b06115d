// SPDX-License-Identifier: GPL-2.0-or-later
/* Checking models of which another host has copies. */
#include "rdma_fake.h"
#include "service_host.h"

#include "../../userspace/distmindd/pool/rdma.h"

#define MEMORY (16U << 20) /* of each host */

/* Of which nothing is looked at. */
static struct memory_fabric device;

static int setup_device(void **state)
{
	donor = (struct donor){ .damaged = UINT32_MAX, .lacks = UINT32_MAX };
	if (setup(state))
		return -1;
	rdma_stop(&bed.models->chunks);
	bed.models->chunks.network.fabric = &device;
	return 0;
}

static int teardown_device(void **state)
{
	bed.models->chunks.network.fabric = NULL;
	return teardown(state);
}

static json_int_t count_bad_chunks(void)
{
	int fd = connect_client();
	struct message reply = ask(fd, op("verify", "net"), NULL, 0);
	json_int_t bad;

	expect_ok(&reply);
	bad = field(&reply, "bad_chunks");
	message_clear(&reply);
	hang_up(fd);
	return bad;
}

static void a_host_that_is_not_connected_is_waited_for_once(void **state)
{
	struct sample sample;

	(void)state;
	push_sample(&sample, "net", 1);
	donor.samples[0] = &sample;
	put_host("x", MEMORY, MEMORY, "[]");
	put_chunks("x", &sample);
	donor.silent = true;
	assert_int_equal(count_bad_chunks(), sample.image.manifest.chunk_count);
	assert_int_equal(donor.waited, 1);
	/* And by the next one who asks again. */
	assert_int_equal(count_bad_chunks(), sample.image.manifest.chunk_count);
	assert_int_equal(donor.waited, 2);
	donor.silent = false;
	assert_int_equal(count_bad_chunks(), 0);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_host_that_is_not_connected_is_waited_for_once,
						setup_device, teardown_device),
	};

	return cmocka_run_group_tests_name("service_verify_read", tests, NULL, NULL);
}
