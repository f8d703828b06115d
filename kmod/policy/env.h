/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the policies need of their surroundings. They are built into the module
 * and, against the kernel's own tools/include, into native programs.
 */
#ifndef _DISTMIND_POLICY_ENV_H
#define _DISTMIND_POLICY_ENV_H

#ifdef __KERNEL__

#include <linux/bug.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/prefetch.h>
#include <linux/rbtree.h>
#include <linux/rbtree_augmented.h>
#include <linux/string.h>
#include <linux/types.h>
#include <uapi/linux/distmind.h>

/* The caller has broken the rules of policy.h: say so and carry on. */
#define policy_bug_on(condition) WARN_ON_ONCE(condition)

#else

#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/rbtree.h>
#include <linux/rbtree_augmented.h>
#include <linux/types.h>
#include <stdlib.h>
#include <string.h>
#include <linux/distmind.h>

#define U64_MAX UINT64_MAX
#define prefetch(address) __builtin_prefetch(address)
#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)

static inline bool policy_bug_on(bool condition)
{
	if (condition)
		abort();
	return false;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

#endif

#endif /* _DISTMIND_POLICY_ENV_H */
