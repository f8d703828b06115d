/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_EXTENT_H
#define _DISTMIND_EXTENT_H

#include <linux/mutex.h>
#include <linux/types.h>
#include <uapi/linux/distmind.h>

struct distmind_buffer;
struct distmind_timeline;
struct netlink_ext_ack;

#define DISTMIND_EXTENTS_MAX	65536	/* of one buffer */

/**
 * struct distmind_extent - a range of a weights buffer that is filled at once
 * @offset: where it begins
 * @size: how long it is
 * @value: of the timeline, from which on it is present
 * @latest: in a list, the greatest value of the extents that it stands for, see extent.c
 */
struct distmind_extent {
	u64 offset;
	u64 size;
	u64 value;
	u64 latest;
};

/**
 * struct distmind_extents - how a buffer is being filled
 * @lock: guards the list
 * @timeline: that says how far it is; held
 * @count: how many extents
 * @room: for how many there is memory
 * @list: by offset, none overlaps the next, or touches it and has the same value
 */
struct distmind_extents {
	struct mutex lock; /* see above */
	struct distmind_timeline *timeline;
	u32 count;
	u32 room;
	struct distmind_extent *list;
};

int distmind_extents_add(struct distmind_buffer *buffer, int timeline,
			 const struct distmind_extent *extents, u32 count,
			 struct netlink_ext_ack *extack);
u64 distmind_extents_value(struct distmind_buffer *buffer, u64 offset, u64 length,
			   struct distmind_timeline **timeline);
u32 distmind_extents_count(struct distmind_buffer *buffer);
int distmind_extents_get(struct distmind_buffer *buffer, u32 index,
			 struct distmind_extent *extent, u32 *state);
void distmind_extents_free(struct distmind_extents *extents);

#endif /* _DISTMIND_EXTENT_H */
