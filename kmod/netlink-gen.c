// SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause)
/* Do not edit directly, auto-generated from: */
/*	uapi/distmind.yaml */
/* YNL-GEN kernel source */

#include <net/netlink.h>
#include <net/genetlink.h>

#include "netlink-gen.h"

#include <uapi/linux/distmind_netlink.h>

/* Common nested types */
const struct nla_policy distmind_extent_nl_policy[DISTMIND_A_EXTENT_STATE + 1] = {
	[DISTMIND_A_EXTENT_OFFSET] = { .type = NLA_U64, },
	[DISTMIND_A_EXTENT_SIZE] = { .type = NLA_U64, },
	[DISTMIND_A_EXTENT_VALUE] = { .type = NLA_U64, },
	[DISTMIND_A_EXTENT_STATE] = NLA_POLICY_MAX(NLA_U32, 2),
};

/* DISTMIND_CMD_GPU_GET - do */
const struct nla_policy distmind_gpu_get_nl_policy[DISTMIND_A_GPU_ID + 1] = {
	[DISTMIND_A_GPU_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_GPU_SET - do */
const struct nla_policy distmind_gpu_set_nl_policy[DISTMIND_A_GPU_GRACE + 1] = {
	[DISTMIND_A_GPU_ID] = { .type = NLA_U32, },
	[DISTMIND_A_GPU_DRAIN] = NLA_POLICY_MAX(NLA_U32, 1),
	[DISTMIND_A_GPU_POLICY] = { .type = NLA_NUL_STRING, .len = 15, },
	[DISTMIND_A_GPU_GRACE] = { .type = NLA_U64, },
	[DISTMIND_A_GPU_HANG] = { .type = NLA_U64, },
};

/* DISTMIND_CMD_GPU_DEL - do */
const struct nla_policy distmind_gpu_del_nl_policy[DISTMIND_A_GPU_ID + 1] = {
	[DISTMIND_A_GPU_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_VGPU_GET - do */
const struct nla_policy distmind_vgpu_get_nl_policy[DISTMIND_A_VGPU_ID + 1] = {
	[DISTMIND_A_VGPU_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_VGPU_NEW - do */
const struct nla_policy distmind_vgpu_new_nl_policy[DISTMIND_A_VGPU_CAPPED + 1] = {
	[DISTMIND_A_VGPU_NAME] = { .type = NLA_NUL_STRING, .len = 31, },
	[DISTMIND_A_VGPU_GPU] = { .type = NLA_U32, },
	[DISTMIND_A_VGPU_UID] = { .type = NLA_U32, },
	[DISTMIND_A_VGPU_GID] = { .type = NLA_U32, },
	[DISTMIND_A_VGPU_MEMORY] = { .type = NLA_U64, },
	[DISTMIND_A_VGPU_SHARE] = NLA_POLICY_RANGE(NLA_U32, 1, 1000),
	[DISTMIND_A_VGPU_CLASS] = NLA_POLICY_MAX(NLA_U32, 2),
	[DISTMIND_A_VGPU_OBJECTIVE] = { .type = NLA_U64, },
	[DISTMIND_A_VGPU_CAPPED] = NLA_POLICY_MAX(NLA_U32, 1),
};

/* DISTMIND_CMD_VGPU_SET - do */
const struct nla_policy distmind_vgpu_set_nl_policy[DISTMIND_A_VGPU_CAPPED + 1] = {
	[DISTMIND_A_VGPU_ID] = { .type = NLA_U32, },
	[DISTMIND_A_VGPU_GPU] = { .type = NLA_U32, },
	[DISTMIND_A_VGPU_MEMORY] = { .type = NLA_U64, },
	[DISTMIND_A_VGPU_SHARE] = NLA_POLICY_RANGE(NLA_U32, 1, 1000),
	[DISTMIND_A_VGPU_CLASS] = NLA_POLICY_MAX(NLA_U32, 2),
	[DISTMIND_A_VGPU_OBJECTIVE] = { .type = NLA_U64, },
	[DISTMIND_A_VGPU_CAPPED] = NLA_POLICY_MAX(NLA_U32, 1),
};

/* DISTMIND_CMD_VGPU_DEL - do */
const struct nla_policy distmind_vgpu_del_nl_policy[DISTMIND_A_VGPU_ID + 1] = {
	[DISTMIND_A_VGPU_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_BUFFER_GET - do */
const struct nla_policy distmind_buffer_get_nl_policy[DISTMIND_A_BUFFER_ID + 1] = {
	[DISTMIND_A_BUFFER_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_CLAIM_GET - do */
const struct nla_policy distmind_claim_get_nl_policy[DISTMIND_A_CLAIM_ID + 1] = {
	[DISTMIND_A_CLAIM_ID] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_CLAIM_ANSWER - do */
const struct nla_policy distmind_claim_answer_nl_policy[DISTMIND_A_CLAIM_REASON + 1] = {
	[DISTMIND_A_CLAIM_ID] = { .type = NLA_U32, },
	[DISTMIND_A_CLAIM_GPU] = { .type = NLA_U32, },
	[DISTMIND_A_CLAIM_ERROR] = NLA_POLICY_RANGE(NLA_U32, 1, 133),
	[DISTMIND_A_CLAIM_REASON] = { .type = NLA_NUL_STRING, .len = 159, },
};

/* DISTMIND_CMD_EXTENTS_GET - do */
const struct nla_policy distmind_extents_get_nl_policy[DISTMIND_A_EXTENTS_FIRST + 1] = {
	[DISTMIND_A_EXTENTS_BUFFER] = { .type = NLA_U32, },
	[DISTMIND_A_EXTENTS_FIRST] = { .type = NLA_U32, },
};

/* DISTMIND_CMD_EXTENTS_ADD - do */
const struct nla_policy distmind_extents_add_nl_policy[DISTMIND_A_EXTENTS_EXTENT + 1] = {
	[DISTMIND_A_EXTENTS_BUFFER] = { .type = NLA_U32, },
	[DISTMIND_A_EXTENTS_TIMELINE] = { .type = NLA_S32, },
	[DISTMIND_A_EXTENTS_EXTENT] = NLA_POLICY_NESTED(distmind_extent_nl_policy),
};

/* DISTMIND_CMD_LIMIT_GET - do */
const struct nla_policy distmind_limit_get_nl_policy[DISTMIND_A_LIMIT_WHAT + 1] = {
	[DISTMIND_A_LIMIT_WHAT] = { .type = NLA_NUL_STRING, .len = 31, },
};

/* Ops table for distmind */
const struct genl_ops distmind_nl_ops[13] = {
	{
		.cmd		= DISTMIND_CMD_GPU_GET,
		.doit		= distmind_nl_gpu_get_doit,
		.dumpit		= distmind_nl_gpu_get_dumpit,
		.policy		= distmind_gpu_get_nl_policy,
		.maxattr	= DISTMIND_A_GPU_ID,
	},
	{
		.cmd		= DISTMIND_CMD_GPU_SET,
		.doit		= distmind_nl_gpu_set_doit,
		.policy		= distmind_gpu_set_nl_policy,
		.maxattr	= DISTMIND_A_GPU_GRACE,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_GPU_DEL,
		.doit		= distmind_nl_gpu_del_doit,
		.policy		= distmind_gpu_del_nl_policy,
		.maxattr	= DISTMIND_A_GPU_ID,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_VGPU_GET,
		.doit		= distmind_nl_vgpu_get_doit,
		.dumpit		= distmind_nl_vgpu_get_dumpit,
		.policy		= distmind_vgpu_get_nl_policy,
		.maxattr	= DISTMIND_A_VGPU_ID,
	},
	{
		.cmd		= DISTMIND_CMD_VGPU_NEW,
		.doit		= distmind_nl_vgpu_new_doit,
		.policy		= distmind_vgpu_new_nl_policy,
		.maxattr	= DISTMIND_A_VGPU_CAPPED,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_VGPU_SET,
		.doit		= distmind_nl_vgpu_set_doit,
		.policy		= distmind_vgpu_set_nl_policy,
		.maxattr	= DISTMIND_A_VGPU_CAPPED,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_VGPU_DEL,
		.doit		= distmind_nl_vgpu_del_doit,
		.policy		= distmind_vgpu_del_nl_policy,
		.maxattr	= DISTMIND_A_VGPU_ID,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_BUFFER_GET,
		.doit		= distmind_nl_buffer_get_doit,
		.dumpit		= distmind_nl_buffer_get_dumpit,
		.policy		= distmind_buffer_get_nl_policy,
		.maxattr	= DISTMIND_A_BUFFER_ID,
	},
	{
		.cmd		= DISTMIND_CMD_CLAIM_GET,
		.doit		= distmind_nl_claim_get_doit,
		.dumpit		= distmind_nl_claim_get_dumpit,
		.policy		= distmind_claim_get_nl_policy,
		.maxattr	= DISTMIND_A_CLAIM_ID,
	},
	{
		.cmd		= DISTMIND_CMD_CLAIM_ANSWER,
		.doit		= distmind_nl_claim_answer_doit,
		.policy		= distmind_claim_answer_nl_policy,
		.maxattr	= DISTMIND_A_CLAIM_REASON,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_EXTENTS_GET,
		.doit		= distmind_nl_extents_get_doit,
		.policy		= distmind_extents_get_nl_policy,
		.maxattr	= DISTMIND_A_EXTENTS_FIRST,
	},
	{
		.cmd		= DISTMIND_CMD_EXTENTS_ADD,
		.doit		= distmind_nl_extents_add_doit,
		.policy		= distmind_extents_add_nl_policy,
		.maxattr	= DISTMIND_A_EXTENTS_EXTENT,
		.flags		= GENL_ADMIN_PERM,
	},
	{
		.cmd		= DISTMIND_CMD_LIMIT_GET,
		.doit		= distmind_nl_limit_get_doit,
		.dumpit		= distmind_nl_limit_get_dumpit,
		.policy		= distmind_limit_get_nl_policy,
		.maxattr	= DISTMIND_A_LIMIT_WHAT,
	},
};
