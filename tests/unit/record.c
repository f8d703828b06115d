// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/libdistmind/record.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>

/* A message without header: its attributes are what a parser is given. */
static struct nl_msg *message;

static int make_message(void **state)
{
	(void)state;
	message = nlmsg_alloc();
	return message && nlmsg_put(message, 0, 0, 100, 0, 0) ? 0 : -1;
}

static int free_message(void **state)
{
	(void)state;
	nlmsg_free(message);
	return 0;
}

static struct nlattr *head(void)
{
	return nlmsg_attrdata(nlmsg_hdr(message), 0);
}

static int length(void)
{
	return nlmsg_attrlen(nlmsg_hdr(message), 0);
}

/* On the heap and to the byte, so that ASan sees the first byte too far. */
static int parse_exactly(distmind_record_parser parse, const void *bytes, int len, void *record)
{
	void *copy = malloc(len ? (size_t)len : 1);
	int ret;

	assert_non_null(copy);
	memcpy(copy, bytes, (size_t)len);
	ret = parse(copy, len, record);
	free(copy);
	return ret;
}

static int parse(distmind_record_parser parser, void *record)
{
	return parse_exactly(parser, head(), length(), record);
}

static void a_gpu_has_all_its_fields(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put_string(message, DISTMIND_A_GPU_NAME, "cpu0");
	nla_put_string(message, DISTMIND_A_GPU_KIND, "cpu");
	nla_put_u32(message, DISTMIND_A_GPU_STATE, DISTMIND_GPU_STATE_LOST);
	nla_put_u32(message, DISTMIND_A_GPU_BOX, 7);
	nla_put_u32(message, DISTMIND_A_GPU_NUMA_NODE, (uint32_t)-1);
	nla_put_u64(message, DISTMIND_A_GPU_MEMORY, 1ULL << 40);
	nla_put_u64(message, DISTMIND_A_GPU_MEMORY_USED, 4096);
	nla_put_u32(message, DISTMIND_A_GPU_VGPUS, 5);
	nla_put_u32(message, DISTMIND_A_GPU_ENGINE_PID, 1234);
	memset(&gpu, 0x5a, sizeof(gpu));
	assert_int_equal(parse(distmind_record_gpu, &gpu), 0);
	assert_int_equal(gpu.id, 3);
	assert_string_equal(gpu.name, "cpu0");
	assert_string_equal(gpu.kind, "cpu");
	assert_int_equal(gpu.state, DISTMIND_GPU_STATE_LOST);
	assert_int_equal(gpu.box, 7);
	assert_int_equal(gpu.numa_node, -1);
	assert_int_equal(gpu.memory, 1ULL << 40);
	assert_int_equal(gpu.memory_used, 4096);
	assert_int_equal(gpu.vgpus, 5);
	assert_int_equal(gpu.engine_pid, 1234);
}

static void a_vgpu_is_bound_lost_or_parked(void **state)
{
	struct distmind_vgpu_record vgpu;

	(void)state;
	nla_put_u32(message, DISTMIND_A_VGPU_ID, 4);
	nla_put_u32(message, DISTMIND_A_VGPU_LEASE, DISTMIND_VGPU_LEASE_ADMIN);
	nla_put_u64(message, DISTMIND_A_VGPU_MEMORY, 1 << 20);
	nla_put_u32(message, DISTMIND_A_VGPU_SHARE, 250);
	nla_put_u32(message, DISTMIND_A_VGPU_CLASS, DISTMIND_CLASS_LATENCY);
	nla_put_u64(message, DISTMIND_A_VGPU_OBJECTIVE, 5000000);
	assert_int_equal(parse(distmind_record_vgpu, &vgpu), 0);
	assert_int_equal(vgpu.state, DISTMIND_VGPU_STATE_PARKED);
	assert_int_equal(vgpu.gpu, DISTMIND_GPU_NONE);
	assert_int_equal(vgpu.lease, DISTMIND_VGPU_LEASE_ADMIN);
	assert_int_equal(vgpu.pid, 0);
	assert_int_equal(vgpu.memory, 1 << 20);
	assert_int_equal(vgpu.share, 250);
	assert_int_equal(vgpu.sched_class, DISTMIND_CLASS_LATENCY);
	assert_int_equal(vgpu.objective_ns, 5000000);
	assert_string_equal(vgpu.name, "");

	nla_put_u32(message, DISTMIND_A_VGPU_GPU, 0);
	assert_int_equal(parse(distmind_record_vgpu, &vgpu), 0);
	assert_int_equal(vgpu.state, DISTMIND_VGPU_STATE_BOUND);
	assert_int_equal(vgpu.gpu, 0);

	nla_put_flag(message, DISTMIND_A_VGPU_LOST);
	assert_int_equal(parse(distmind_record_vgpu, &vgpu), 0);
	assert_int_equal(vgpu.state, DISTMIND_VGPU_STATE_LOST);
}

static void a_buffer_has_all_its_fields(void **state)
{
	const uint32_t payers[] = { 4, UINT32_MAX }, uids[] = { 0, 1000 };
	struct distmind_buffer_record buffer;

	(void)state;
	nla_put_u32(message, DISTMIND_A_BUFFER_ID, 9);
	nla_put_u32(message, DISTMIND_A_BUFFER_VGPU, 4);
	nla_put_u32(message, DISTMIND_A_BUFFER_GPU, 3);
	nla_put_u64(message, DISTMIND_A_BUFFER_SIZE, 8192);
	nla_put_u64(message, DISTMIND_A_BUFFER_OFFSET, 1ULL << 33);
	nla_put_u32(message, DISTMIND_A_BUFFER_KIND, DISTMIND_BUFFER_WEIGHTS);
	nla_put_u32(message, DISTMIND_A_BUFFER_PINS, 2);
	nla_put_u32(message, DISTMIND_A_BUFFER_EXPORTS, 6);
	nla_put_u32(message, DISTMIND_A_BUFFER_PAYER_COUNT, 40);
	nla_put(message, DISTMIND_A_BUFFER_PAYERS, sizeof(payers), payers);
	nla_put(message, DISTMIND_A_BUFFER_PAYER_UIDS, sizeof(uids), uids);
	assert_int_equal(parse(distmind_record_buffer, &buffer), 0);
	assert_int_equal(buffer.id, 9);
	assert_int_equal(buffer.vgpu, 4);
	assert_int_equal(buffer.gpu, 3);
	assert_int_equal(buffer.size, 8192);
	assert_int_equal(buffer.offset, 1ULL << 33);
	assert_int_equal(buffer.kind, DISTMIND_BUFFER_WEIGHTS);
	assert_int_equal(buffer.pins, 2);
	assert_int_equal(buffer.exports, 6);
	assert_int_equal(buffer.payer_count, 40);
	assert_int_equal(buffer.payers_known, 2);
	assert_int_equal(buffer.payers[1].vgpu, DISTMIND_VGPU_ENDED);
	assert_int_equal(buffer.payers[1].uid, 1000);
}

/* Of more than there is room for, and of fewer than it says, what is there is taken. */
static void payers_of_any_number_are_taken(void **state)
{
	const uint32_t many[DISTMIND_PAYERS_MAX + 3] = { 7, 8, 9 };
	struct distmind_buffer_record buffer;

	(void)state;
	nla_put_u32(message, DISTMIND_A_BUFFER_ID, 9);
	nla_put(message, DISTMIND_A_BUFFER_PAYERS, sizeof(many), many);
	nla_put(message, DISTMIND_A_BUFFER_PAYER_UIDS, sizeof(many), many);
	assert_int_equal(parse(distmind_record_buffer, &buffer), 0);
	assert_int_equal(buffer.payer_count, DISTMIND_PAYERS_MAX);
	assert_int_equal(buffer.payers[2].vgpu, 9);
}

static void a_claim_has_all_its_fields(void **state)
{
	struct distmind_claim_record claim;

	(void)state;
	nla_put_u32(message, DISTMIND_A_CLAIM_ID, 11);
	nla_put_string(message, DISTMIND_A_CLAIM_NAME, "train");
	nla_put_string(message, DISTMIND_A_CLAIM_KIND, "A100");
	nla_put_u32(message, DISTMIND_A_CLAIM_PID, 1);
	nla_put_u32(message, DISTMIND_A_CLAIM_UID, 1000);
	nla_put_u32(message, DISTMIND_A_CLAIM_GID, 1001);
	nla_put_u64(message, DISTMIND_A_CLAIM_MEMORY, 1ULL << 30);
	nla_put_u32(message, DISTMIND_A_CLAIM_SHARE, 500);
	nla_put_u32(message, DISTMIND_A_CLAIM_COUNT, 2);
	nla_put_u32(message, DISTMIND_A_CLAIM_FLAGS, DISTMIND_CLAIM_FLAGS_SAME_BOX);
	nla_put_u32(message, DISTMIND_A_CLAIM_REMAINING, 30000);
	assert_int_equal(parse(distmind_record_claim, &claim), 0);
	assert_int_equal(claim.id, 11);
	assert_string_equal(claim.name, "train");
	assert_string_equal(claim.kind, "A100");
	assert_int_equal(claim.uid, 1000);
	assert_int_equal(claim.gid, 1001);
	assert_int_equal(claim.memory, 1ULL << 30);
	assert_int_equal(claim.share, 500);
	assert_int_equal(claim.count, 2);
	assert_int_equal(claim.flags, DISTMIND_CLAIM_FLAGS_SAME_BOX);
	assert_int_equal(claim.remaining_ms, 30000);
}

static void a_limit_may_be_none(void **state)
{
	struct distmind_limit_record limit;

	(void)state;
	nla_put_u32(message, DISTMIND_A_LIMIT_UID, 1000);
	nla_put_string(message, DISTMIND_A_LIMIT_WHAT, "queues");
	nla_put_u32(message, DISTMIND_A_LIMIT_USED, 7);
	nla_put_u32(message, DISTMIND_A_LIMIT_REFUSED, 3);
	assert_int_equal(parse(distmind_record_limit, &limit), 0);
	assert_int_equal(limit.uid, 1000);
	assert_false(limit.container);
	assert_string_equal(limit.what, "queues");
	assert_int_equal(limit.used, 7);
	assert_int_equal(limit.allowed, UINT32_MAX);
	assert_int_equal(limit.refused, 3);
	nla_put_u32(message, DISTMIND_A_LIMIT_ALLOWED, 4096);
	nla_put_flag(message, DISTMIND_A_LIMIT_CONTAINER);
	assert_int_equal(parse(distmind_record_limit, &limit), 0);
	assert_int_equal(limit.allowed, 4096);
	assert_true(limit.container);
}

static void unknown_attributes_are_skipped(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u64(message, DISTMIND_A_GPU_MAX + 1, 1);
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put_string(message, DISTMIND_A_GPU_MAX + 100, "from a newer kernel");
	assert_int_equal(parse(distmind_record_gpu, &gpu), 0);
	assert_int_equal(gpu.id, 3);
}

static void a_record_without_id_is_refused(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_string(message, DISTMIND_A_GPU_NAME, "cpu0");
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
	assert_int_equal(parse_exactly(distmind_record_gpu, "", 0, &gpu), -EBADMSG);
}

static void numbers_of_another_width_are_refused(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put_u32(message, DISTMIND_A_GPU_MEMORY, 1);
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
}

static void longer_numbers_are_refused(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u64(message, DISTMIND_A_GPU_ID, 3);
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
}

static void long_names_are_refused(void **state)
{
	struct distmind_gpu_record gpu;
	char name[DISTMIND_NAME_LEN + 1];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[DISTMIND_NAME_LEN - 1] = '\0';
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put_string(message, DISTMIND_A_GPU_NAME, name);
	assert_int_equal(parse(distmind_record_gpu, &gpu), 0);
	assert_string_equal(gpu.name, name);

	name[DISTMIND_NAME_LEN - 1] = 'n';
	name[DISTMIND_NAME_LEN] = '\0';
	nla_put_string(message, DISTMIND_A_GPU_KIND, name);
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
}

static void names_without_an_end_are_refused(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put(message, DISTMIND_A_GPU_NAME, 4, "cpu0");
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
}

static void empty_names_without_an_end_are_refused(void **state)
{
	struct distmind_gpu_record gpu;

	(void)state;
	nla_put_u32(message, DISTMIND_A_GPU_ID, 3);
	nla_put(message, DISTMIND_A_GPU_NAME, 0, "");
	assert_int_equal(parse(distmind_record_gpu, &gpu), -EBADMSG);
}

/* Whatever the bytes, nothing beyond them is touched: ASan watches. */
static void any_bytes_are_safe(void **state)
{
	static const distmind_record_parser parsers[] = {
		distmind_record_gpu,
		distmind_record_vgpu,
		distmind_record_buffer,
		distmind_record_claim,
		distmind_record_limit,
	};
	union {
		struct distmind_gpu_record gpu;
		struct distmind_vgpu_record vgpu;
		struct distmind_buffer_record buffer;
		struct distmind_claim_record claim;
		struct distmind_limit_record limit;
	} record;
	unsigned char bytes[256];
	int len;

	(void)state;
	nla_put_u32(message, 1, 3);
	nla_put_string(message, 2, "name");
	nla_put_u64(message, 9, 1);
	nla_put_u64(message, 6, 1);
	assert_in_range(length(), 1, sizeof(bytes));

	/* Cut off at every length. */
	for (len = 0; len <= length(); len++)
		for (size_t i = 0; i < COUNT(parsers); i++)
			parse_exactly(parsers[i], head(), len, &record);
	/* Well-formed with a few bytes changed, then all random. */
	srandom(1);
	for (int round = 0; round < 40000; round++) {
		len = length();
		memcpy(bytes, head(), (size_t)len);
		for (long flips = random() % 4; flips >= 0; flips--)
			bytes[random() % len] = (unsigned char)random();
		if (round % 4 == 0)
			for (len = 0; len < (int)(random() % 64); len++)
				bytes[len] = (unsigned char)random();
		parse_exactly(parsers[(size_t)round % COUNT(parsers)], bytes, len, &record);
	}
}

#define record_test(name) cmocka_unit_test_setup_teardown(name, make_message, free_message)

int main(void)
{
	const struct CMUnitTest tests[] = {
		record_test(a_gpu_has_all_its_fields),
		record_test(a_vgpu_is_bound_lost_or_parked),
		record_test(a_buffer_has_all_its_fields),
		record_test(payers_of_any_number_are_taken),
		record_test(a_claim_has_all_its_fields),
		record_test(a_limit_may_be_none),
		record_test(unknown_attributes_are_skipped),
		record_test(a_record_without_id_is_refused),
		record_test(numbers_of_another_width_are_refused),
		record_test(longer_numbers_are_refused),
		record_test(long_names_are_refused),
		record_test(names_without_an_end_are_refused),
		record_test(empty_names_without_an_end_are_refused),
		record_test(any_bytes_are_safe),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
