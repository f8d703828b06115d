// SPDX-License-Identifier: MIT
#include "pool.h"

#include <errno.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <stdlib.h>
#include <string.h>

/* A message is a round trip to the kernel: one has many, each of at most EXTENT_LEN bytes. */
#define EXTENTS_IN_A_MESSAGE 256
#define EXTENT_LEN 64

static int put_extent(struct nl_msg *msg, const struct distmind_extent_record *extent)
{
	struct nlattr *nest = nla_nest_start(msg, DISTMIND_A_EXTENTS_EXTENT | NLA_F_NESTED);

	if (!nest || nla_put_u64(msg, DISTMIND_A_EXTENT_OFFSET, extent->offset) < 0 ||
	    nla_put_u64(msg, DISTMIND_A_EXTENT_SIZE, extent->size) < 0 ||
	    nla_put_u64(msg, DISTMIND_A_EXTENT_VALUE, extent->value) < 0)
		return -ENOMEM;
	nla_nest_end(msg, nest);
	return 0;
}

int distmind_pool_extents_add(struct distmind_pool *pool, uint32_t buffer, int timeline,
			      const struct distmind_extent_record *extents, size_t count)
{
	size_t done = 0;
	int err = 0;

	while (!err && done < count) {
		struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_EXTENTS_ADD, buffer);
		int put = msg ? nlmsg_expand(msg, (EXTENTS_IN_A_MESSAGE + 1) * EXTENT_LEN) : 0;

		if (msg && put >= 0)
			put = nla_put_s32(msg, DISTMIND_A_EXTENTS_TIMELINE, timeline);
		for (int i = 0; msg && put >= 0 && done < count && i < EXTENTS_IN_A_MESSAGE; i++)
			put = put_extent(msg, &extents[done++]);
		err = distmind_pool_exchange(pool, msg, put, NULL, NULL);
	}
	return err;
}

/* What has been shown so far. */
struct listing {
	struct distmind_extent_record *records;
	uint32_t count;
	uint32_t room;
	uint32_t total;
};

static int add_record(struct listing *listing, struct nlattr *nest)
{
	static struct nla_policy policy[DISTMIND_A_EXTENT_MAX + 1] = {
		[DISTMIND_A_EXTENT_OFFSET] = { .type = NLA_U64 },
		[DISTMIND_A_EXTENT_SIZE] = { .type = NLA_U64 },
		[DISTMIND_A_EXTENT_VALUE] = { .type = NLA_U64 },
		[DISTMIND_A_EXTENT_STATE] = { .type = NLA_U32 },
	};
	struct nlattr *table[DISTMIND_A_EXTENT_MAX + 1];
	struct distmind_extent_record *record;

	if (nla_parse_nested(table, DISTMIND_A_EXTENT_MAX, nest, policy) < 0)
		return -EBADMSG;
	for (int i = DISTMIND_A_EXTENT_OFFSET; i <= DISTMIND_A_EXTENT_STATE; i++)
		if (!table[i])
			return -EBADMSG;
	if (listing->count == listing->room) {
		uint32_t room = listing->room ? listing->room * 2 : 64;

		record = realloc(listing->records, room * sizeof(*record));
		if (!record)
			return -ENOMEM;
		listing->records = record;
		listing->room = room;
	}
	record = &listing->records[listing->count++];
	record->offset = nla_get_u64(table[DISTMIND_A_EXTENT_OFFSET]);
	record->size = nla_get_u64(table[DISTMIND_A_EXTENT_SIZE]);
	record->value = nla_get_u64(table[DISTMIND_A_EXTENT_VALUE]);
	record->state = nla_get_u32(table[DISTMIND_A_EXTENT_STATE]);
	return 0;
}

static int take(const struct distmind_message *message, void *arg)
{
	struct listing *listing = arg;
	struct nlattr *attr;
	int left, err = 0;

	nla_for_each_attr(attr, message->head, message->len, left) {
		if (nla_type(attr) == DISTMIND_A_EXTENTS_COUNT &&
		    nla_len(attr) == sizeof(uint32_t))
			listing->total = nla_get_u32(attr);
		else if (nla_type(attr) == DISTMIND_A_EXTENTS_EXTENT && !err)
			err = add_record(listing, attr);
	}
	return err;
}

int distmind_pool_extents(struct distmind_pool *pool, uint32_t buffer,
			  int (*each)(const struct distmind_extent_record *extent, void *arg),
			  void *arg)
{
	struct listing listing = { 0 };
	uint32_t before;
	int ret;

	do {
		struct nl_msg *msg = distmind_pool_about(pool, DISTMIND_CMD_EXTENTS_GET, buffer);
		int put = msg ? nla_put_u32(msg, DISTMIND_A_EXTENTS_FIRST, listing.count) : 0;

		before = listing.count;
		ret = distmind_pool_exchange(pool, msg, put, take, &listing);
	} while (!ret && listing.count < listing.total && listing.count > before);
	for (uint32_t i = 0; i < listing.count && !ret; i++)
		ret = each(&listing.records[i], arg);
	free(listing.records);
	return ret;
}
