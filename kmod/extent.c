// SPDX-License-Identifier: GPL-2.0-only
/*
 * Extents: which range of a weights buffer is there from which value of the buffer's
 * timeline on. The daemon installs them, in order, and fills them; the timeline says
 * how far it is. A job that uses a range waits by itself until all of it is
 * present, so that nobody computes with half a model, and fails with the load if
 * that fails.
 *
 * The greatest value of many extents is found without a look at each: the extent with
 * number n of the list, counted from 1, knows that of as many extents, up to itself, as the
 * lowest bit of n says (a tree as Fenwick has it). Any range is O(log^2 n) of such.
 *
 * buffer->extents is set once, by whoever installs the first extent, and freed with
 * the buffer.
 */
#include <linux/err.h>
#include <linux/netlink.h>
#include <linux/slab.h>

#include "buffer.h"
#include "extent.h"
#include "timeline.h"
#include <uapi/linux/distmind_netlink.h>

void distmind_extents_free(struct distmind_extents *extents)
{
	if (!extents)
		return;
	distmind_timeline_put(extents->timeline);
	kvfree(extents->list);
	kfree(extents);
}

static struct distmind_extents *create(int fd, struct netlink_ext_ack *extack)
{
	struct distmind_extents *extents;
	bool writable;
	int err;

	extents = kzalloc(sizeof(*extents), GFP_KERNEL_ACCOUNT);
	if (!extents)
		return ERR_PTR(-ENOMEM);
	extents->timeline = distmind_timeline_import(fd, &writable);
	if (IS_ERR(extents->timeline)) {
		NL_SET_ERR_MSG(extack, "timeline must be a timeline's descriptor");
		err = PTR_ERR(extents->timeline);
		kfree(extents);
		return ERR_PTR(err);
	}
	/* It watches. */
	if (writable)
		distmind_timeline_writer_put(extents->timeline);
	mutex_init(&extents->lock);
	return extents;
}

/* Those of the buffer; made if it has none and a timeline is given. */
static struct distmind_extents *get_extents(struct distmind_buffer *buffer, int fd,
					    struct netlink_ext_ack *extack)
{
	struct distmind_extents *extents, *old = READ_ONCE(buffer->extents);

	if (old)
		return old;
	if (fd < 0) {
		NL_SET_ERR_MSG(extack, "timeline is missing with the buffer's first extents");
		return ERR_PTR(-EINVAL);
	}
	extents = create(fd, extack);
	if (IS_ERR(extents))
		return extents;
	old = cmpxchg(&buffer->extents, NULL, extents);
	if (old) {
		distmind_extents_free(extents);
		return old;
	}
	return extents;
}

static int check(const struct distmind_buffer *buffer, u64 end,
		 const struct distmind_extent *extents, u32 count, struct netlink_ext_ack *extack)
{
	u64 size = distmind_buffer_size(buffer);
	u32 i;

	for (i = 0; i < count; i++) {
		const struct distmind_extent *extent = &extents[i];

		if (extent->offset < end) {
			NL_SET_ERR_MSG(extack,
				       "extents must be in the order of their offsets and not overlap");
			return -EINVAL;
		}
		if (!extent->size || extent->offset > size ||
		    extent->size > size - extent->offset) {
			NL_SET_ERR_MSG(extack,
				       "an extent is empty or goes beyond the end of its buffer");
			return -ERANGE;
		}
		end = extent->offset + extent->size;
	}
	return 0;
}

/* Does it only make the one before longer? */
static bool continues(const struct distmind_extent *before, const struct distmind_extent *extent)
{
	return before->offset + before->size == extent->offset && before->value == extent->value;
}

/* How many more there will be. */
static u32 count_new(const struct distmind_extents *extents, const struct distmind_extent *list,
		     u32 count)
{
	const struct distmind_extent *before;
	u32 i, more = 0;

	before = extents->count ? &extents->list[extents->count - 1] : NULL;
	for (i = 0; i < count; i++) {
		more += !before || !continues(before, &list[i]);
		before = &list[i];
	}
	return more;
}

static int extents_make_room(struct distmind_extents *extents, u32 count,
			     struct netlink_ext_ack *extack)
{
	struct distmind_extent *list;
	u32 room;

	if (count > DISTMIND_EXTENTS_MAX - extents->count) {
		NL_SET_ERR_MSG(extack, "a buffer has at most 65536 extents");
		return -E2BIG;
	}
	if (extents->count + count <= extents->room)
		return 0;
	room = max(extents->count + count, extents->room * 2);
	list = kvmalloc_array(room, sizeof(*list), GFP_KERNEL_ACCOUNT);
	if (!list)
		return -ENOMEM;
	memcpy(list, extents->list, extents->count * sizeof(*list));
	kvfree(extents->list);
	extents->list = list;
	extents->room = room;
	return 0;
}

/* For how many extents that one stands. */
static u32 span(u32 index)
{
	return (index + 1) & ~index;
}

static void append(struct distmind_extents *extents, const struct distmind_extent *list, u32 count)
{
	u32 i, back;

	for (i = 0; i < count; i++) {
		struct distmind_extent *next = &extents->list[extents->count];

		if (extents->count && continues(next - 1, &list[i])) {
			next[-1].size += list[i].size;
			continue;
		}
		*next = list[i];
		next->latest = next->value;
		for (back = 1; back < span(extents->count); back *= 2)
			next->latest = max(next->latest, next[-(s32)back].latest);
		extents->count++;
	}
}

/* After those that are there; @timeline is a descriptor of the caller's, or -1. */
int distmind_extents_add(struct distmind_buffer *buffer, int timeline,
			 const struct distmind_extent *list, u32 count,
			 struct netlink_ext_ack *extack)
{
	struct distmind_extents *extents;
	u64 end = 0;
	int err;

	if (buffer->kind != DISTMIND_BUFFER_WEIGHTS) {
		NL_SET_ERR_MSG(extack, "only a weights buffer has extents");
		return -EINVAL;
	}
	extents = get_extents(buffer, timeline, extack);
	if (IS_ERR(extents))
		return PTR_ERR(extents);
	mutex_lock(&extents->lock);
	if (extents->count) {
		const struct distmind_extent *last = &extents->list[extents->count - 1];

		end = last->offset + last->size;
	}
	err = check(buffer, end, list, count, extack);
	if (!err)
		err = extents_make_room(extents, count_new(extents, list, count), extack);
	if (!err)
		append(extents, list, count);
	mutex_unlock(&extents->lock);
	return err;
}

/* How many extents end at @offset or before. */
static u32 count_before(const struct distmind_extents *extents, u64 offset)
{
	u32 low = 0, high = extents->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;
		const struct distmind_extent *extent = &extents->list[middle];

		if (extent->offset + extent->size > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* The last extent that begins before @end, of those from @first on; @first - 1: none does. */
static s64 last_before(const struct distmind_extents *extents, u32 first, u64 end)
{
	u32 low = first, high = extents->count;

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (extents->list[middle].offset >= end)
			high = middle;
		else
			low = middle + 1;
	}
	return (s64)low - 1;
}

/*
 * From which value of *timeline, which is the buffer's, on a range is present; 0: it is.
 * One submission can ask for many ranges, each of all of the buffer.
 */
u64 distmind_extents_value(struct distmind_buffer *buffer, u64 offset, u64 length,
			   struct distmind_timeline **timeline)
{
	struct distmind_extents *extents = READ_ONCE(buffer->extents);
	u64 value = 0;
	s64 first, i;

	if (!extents)
		return 0;
	mutex_lock(&extents->lock);
	first = count_before(extents, offset);
	i = last_before(extents, first, offset + length);
	while (i >= first) {
		if (i + 1 - span(i) >= first) {
			value = max(value, extents->list[i].latest);
			i -= span(i);
		} else {
			value = max(value, extents->list[i].value);
			i--;
		}
	}
	mutex_unlock(&extents->lock);
	*timeline = extents->timeline;
	return value;
}

u32 distmind_extents_count(struct distmind_buffer *buffer)
{
	struct distmind_extents *extents = READ_ONCE(buffer->extents);

	return extents ? READ_ONCE(extents->count) : 0;
}

/* The extent of that index, and whether it is there. -ENOENT: there are not so many. */
int distmind_extents_get(struct distmind_buffer *buffer, u32 index,
			 struct distmind_extent *extent, u32 *state)
{
	struct distmind_extents *extents = READ_ONCE(buffer->extents);
	int err = -ENOENT;

	if (!extents)
		return -ENOENT;
	mutex_lock(&extents->lock);
	if (index < extents->count) {
		*extent = extents->list[index];
		err = 0;
	}
	mutex_unlock(&extents->lock);
	if (err)
		return err;
	err = distmind_timeline_status(extents->timeline, extent->value);
	*state = !err ? DISTMIND_EXTENT_STATE_PRESENT : err > 0 ?
			DISTMIND_EXTENT_STATE_LOADING : DISTMIND_EXTENT_STATE_ABSENT;
	return 0;
}
