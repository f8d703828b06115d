/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause) */
/* Do not edit directly, auto-generated from: */
/*	uapi/distmind.yaml */
/* YNL-GEN kernel header */

#ifndef _LINUX_DISTMIND_GEN_H
#define _LINUX_DISTMIND_GEN_H

#include <net/netlink.h>
#include <net/genetlink.h>

#include <uapi/linux/distmind_netlink.h>

/* Common nested types */
extern const struct nla_policy distmind_extent_nl_policy[DISTMIND_A_EXTENT_STATE + 1];

extern const struct nla_policy distmind_gpu_get_nl_policy[DISTMIND_A_GPU_ID + 1];

extern const struct nla_policy distmind_gpu_set_nl_policy[DISTMIND_A_GPU_GRACE + 1];

extern const struct nla_policy distmind_gpu_del_nl_policy[DISTMIND_A_GPU_ID + 1];

extern const struct nla_policy distmind_vgpu_get_nl_policy[DISTMIND_A_VGPU_ID + 1];

extern const struct nla_policy distmind_vgpu_new_nl_policy[DISTMIND_A_VGPU_CAPPED + 1];

extern const struct nla_policy distmind_vgpu_set_nl_policy[DISTMIND_A_VGPU_CAPPED + 1];

extern const struct nla_policy distmind_vgpu_del_nl_policy[DISTMIND_A_VGPU_ID + 1];

extern const struct nla_policy distmind_buffer_get_nl_policy[DISTMIND_A_BUFFER_ID + 1];

extern const struct nla_policy distmind_claim_get_nl_policy[DISTMIND_A_CLAIM_ID + 1];

extern const struct nla_policy distmind_claim_answer_nl_policy[DISTMIND_A_CLAIM_REASON + 1];

extern const struct nla_policy distmind_extents_get_nl_policy[DISTMIND_A_EXTENTS_FIRST + 1];

extern const struct nla_policy distmind_extents_add_nl_policy[DISTMIND_A_EXTENTS_EXTENT + 1];

extern const struct nla_policy distmind_limit_get_nl_policy[DISTMIND_A_LIMIT_WHAT + 1];

/* Ops table for distmind */
extern const struct genl_ops distmind_nl_ops[13];

int distmind_nl_gpu_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_gpu_get_dumpit(struct sk_buff *skb,
			       struct netlink_callback *cb);
int distmind_nl_gpu_set_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_gpu_del_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_vgpu_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_vgpu_get_dumpit(struct sk_buff *skb,
				struct netlink_callback *cb);
int distmind_nl_vgpu_new_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_vgpu_set_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_vgpu_del_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_buffer_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_buffer_get_dumpit(struct sk_buff *skb,
				  struct netlink_callback *cb);
int distmind_nl_claim_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_claim_get_dumpit(struct sk_buff *skb,
				 struct netlink_callback *cb);
int distmind_nl_claim_answer_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_extents_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_extents_add_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_limit_get_doit(struct sk_buff *skb, struct genl_info *info);
int distmind_nl_limit_get_dumpit(struct sk_buff *skb,
				 struct netlink_callback *cb);

enum {
	DISTMIND_NLGRP_POOL,
	DISTMIND_NLGRP_CLAIMS,
	DISTMIND_NLGRP_PREEMPT,
};

#endif /* _LINUX_DISTMIND_GEN_H */
