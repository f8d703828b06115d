/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_NETLINK_H
#define _DISTMIND_NETLINK_H

#include <linux/types.h>
#include <net/genetlink.h>

struct distmind_gpu;
struct distmind_preempt;
struct distmind_claim;
struct distmind_vgpu;

extern struct genl_family distmind_netlink_family;

/* Aligned to 4 bytes: who reads it copies it. */
static inline int nl_put_u64(struct sk_buff *skb, int type, u64 value)
{
	return nla_put(skb, type, sizeof(value), &value);
}

bool distmind_netlink_may_see(struct sk_buff *asker, kuid_t uid);

void distmind_netlink_notify_gpu(u8 cmd, struct distmind_gpu *gpu);
void distmind_netlink_notify_vgpu(u8 cmd, struct distmind_vgpu *vgpu);
void distmind_netlink_notify_claim(u8 cmd, struct distmind_claim *claim);
void distmind_netlink_notify_preempt(const struct distmind_preempt *preempt, u64 latency_ns);
bool distmind_netlink_has_daemon(void);

int distmind_netlink_init(void);
void distmind_netlink_exit(void);

#endif /* _DISTMIND_NETLINK_H */
