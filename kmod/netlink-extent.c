// SPDX-License-Identifier: GPL-2.0-only
/*
 * The netlink family's commands about extents. They are shown as many at a time as
 * a message holds; who wants more asks again, from the next one on.
 */
#include <linux/slab.h>
#include <net/genetlink.h>

#include "buffer.h"
#include "extent.h"
#include "netlink-gen.h"
#include "netlink.h"
#include "vgpu.h"

/* Readers have room for at least that much. */
#define REPLY_SIZE 8192

/* Returns a reference, if the sender may see it. */
static struct distmind_buffer *find_buffer(struct sk_buff *asker, const struct nlattr *attr)
{
	unsigned long id = nla_get_u32(attr), found = id;
	struct distmind_buffer *buffer = distmind_buffer_from(&found);

	if (buffer &&
	    (found != id || !distmind_netlink_may_see(asker, buffer->vgpu->owner.uid))) {
		distmind_buffer_put_later(buffer);
		buffer = NULL;
	}
	return buffer;
}

static int read_extent(const struct nlattr *nest, struct distmind_extent *extent,
		       struct netlink_ext_ack *extack)
{
	struct nlattr *attrs[DISTMIND_A_EXTENT_MAX + 1];
	int err;

	err = nla_parse_nested(attrs, DISTMIND_A_EXTENT_MAX, nest, distmind_extent_nl_policy,
			       extack);
	if (err)
		return err;
	if (!attrs[DISTMIND_A_EXTENT_OFFSET] || !attrs[DISTMIND_A_EXTENT_SIZE] ||
	    !attrs[DISTMIND_A_EXTENT_VALUE]) {
		NL_SET_ERR_MSG_ATTR(extack, nest, "an extent needs offset, size and value");
		return -EINVAL;
	}
	extent->offset = nla_get_u64(attrs[DISTMIND_A_EXTENT_OFFSET]);
	extent->size = nla_get_u64(attrs[DISTMIND_A_EXTENT_SIZE]);
	extent->value = nla_get_u64(attrs[DISTMIND_A_EXTENT_VALUE]);
	return 0;
}

static u32 count_extents(const struct genl_info *info)
{
	const struct nlattr *attr;
	u32 count = 0;
	int left;

	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, left)
		count += nla_type(attr) == DISTMIND_A_EXTENTS_EXTENT;
	return count;
}

int distmind_nl_extents_add_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	struct distmind_buffer *buffer;
	struct distmind_extent *list;
	u32 count = count_extents(info);
	const struct nlattr *attr;
	int left, err = 0, timeline = -1;

	if (GENL_REQ_ATTR_CHECK(info, DISTMIND_A_EXTENTS_BUFFER) ||
	    GENL_REQ_ATTR_CHECK(info, DISTMIND_A_EXTENTS_EXTENT)) {
		NL_SET_ERR_MSG(info->extack, "buffer or extent is missing");
		return -EINVAL;
	}
	if (attrs[DISTMIND_A_EXTENTS_TIMELINE])
		timeline = nla_get_s32(attrs[DISTMIND_A_EXTENTS_TIMELINE]);
	if (count > DISTMIND_EXTENTS_MAX) {
		NL_SET_ERR_MSG(info->extack, "a buffer has at most 65536 extents");
		return -E2BIG;
	}
	list = kvcalloc(count, sizeof(*list), GFP_KERNEL);
	if (!list)
		return -ENOMEM;
	count = 0;
	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, left) {
		if (!err && nla_type(attr) == DISTMIND_A_EXTENTS_EXTENT)
			err = read_extent(attr, &list[count++], info->extack);
	}
	if (err)
		goto out;
	buffer = find_buffer(skb, attrs[DISTMIND_A_EXTENTS_BUFFER]);
	if (!buffer) {
		NL_SET_ERR_MSG_ATTR(info->extack, attrs[DISTMIND_A_EXTENTS_BUFFER],
				    "no such buffer");
		err = -ENOENT;
		goto out;
	}
	err = distmind_extents_add(buffer, timeline, list, count, info->extack);
	distmind_buffer_put_later(buffer);
out:
	kvfree(list);
	return err;
}

/* Returns false if it does not fit any more. */
static bool fill_extent(struct sk_buff *skb, const struct distmind_extent *extent, u32 state)
{
	struct nlattr *nest = nla_nest_start(skb, DISTMIND_A_EXTENTS_EXTENT);

	if (!nest)
		return false;
	if (nl_put_u64(skb, DISTMIND_A_EXTENT_OFFSET, extent->offset) ||
	    nl_put_u64(skb, DISTMIND_A_EXTENT_SIZE, extent->size) ||
	    nl_put_u64(skb, DISTMIND_A_EXTENT_VALUE, extent->value) ||
	    nla_put_u32(skb, DISTMIND_A_EXTENT_STATE, state)) {
		nla_nest_cancel(skb, nest);
		return false;
	}
	nla_nest_end(skb, nest);
	return true;
}

int distmind_nl_extents_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr *attr = info->attrs[DISTMIND_A_EXTENTS_BUFFER];
	struct nlattr *first = info->attrs[DISTMIND_A_EXTENTS_FIRST];
	u32 state, index = first ? nla_get_u32(first) : 0;
	struct distmind_buffer *buffer;
	struct distmind_extent extent;
	struct sk_buff *msg;
	void *header;

	buffer = attr ? find_buffer(skb, attr) : NULL;
	if (!buffer) {
		NL_SET_ERR_MSG(info->extack, "no such buffer");
		return -ENOENT;
	}
	msg = genlmsg_new(REPLY_SIZE, GFP_KERNEL);
	header = msg ? genlmsg_put_reply(msg, info, &distmind_netlink_family, 0,
					 DISTMIND_CMD_EXTENTS_GET) : NULL;
	if (!header || nla_put_u32(msg, DISTMIND_A_EXTENTS_BUFFER, buffer->id) ||
	    nla_put_u32(msg, DISTMIND_A_EXTENTS_COUNT, distmind_extents_count(buffer))) {
		distmind_buffer_put_later(buffer);
		nlmsg_free(msg);
		return -ENOMEM;
	}
	while (!distmind_extents_get(buffer, index, &extent, &state) &&
	       fill_extent(msg, &extent, state))
		index++;
	distmind_buffer_put_later(buffer);
	genlmsg_end(msg, header);
	return genlmsg_reply(msg, info);
}
