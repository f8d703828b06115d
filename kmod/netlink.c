// SPDX-License-Identifier: GPL-2.0-only
/*
 * The generic netlink family "distmind"; uapi/distmind.yaml is its
 * specification, and netlink-gen.c is generated from that.
 *
 * Operations run in parallel and take the locks of what they touch. Dumps take
 * the lock for one message at a time, or less if there is much that the reader may
 * not see, and rely on the table's generation to tell the reader when the state has
 * changed in between. Everyone may read, but what belongs to a user is shown to that
 * user and to CAP_NET_ADMIN only; to others it does not exist.
 */
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <net/genetlink.h>

#include "buffer.h"
#include "claim.h"
#include "gpu.h"
#include "ioctl.h"
#include "job.h"
#include "netlink-gen.h"
#include "netlink.h"
#include "payment.h"
#include "preempt.h"
#include "tenant.h"
#include "vgpu.h"

/* Of one buffer. */
#define PAYERS_SHOWN	32
/* Objects that a dump looks at before others get the lock. */
#define LOOKS_AT_ONCE	256

static const struct genl_multicast_group groups[] = {
	[DISTMIND_NLGRP_POOL] = {
		.name = DISTMIND_MCGRP_POOL,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
	[DISTMIND_NLGRP_CLAIMS] = {
		.name = DISTMIND_MCGRP_CLAIMS,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
	[DISTMIND_NLGRP_PREEMPT] = {
		.name = DISTMIND_MCGRP_PREEMPT,
		.flags = GENL_MCAST_CAP_NET_ADMIN,
	},
};

struct genl_family distmind_netlink_family __ro_after_init = {
	.name = DISTMIND_FAMILY_NAME,
	.version = DISTMIND_FAMILY_VERSION,
	.parallel_ops = true,
	.module = THIS_MODULE,
	.ops = distmind_nl_ops,
	.n_ops = ARRAY_SIZE(distmind_nl_ops),
	.mcgrps = groups,
	.n_mcgrps = ARRAY_SIZE(groups),
};

static struct genl_family *const family = &distmind_netlink_family;

/* Whether @asker, a message, comes from somebody who may see what belongs to @uid. */
bool distmind_netlink_may_see(struct sk_buff *asker, kuid_t uid)
{
	return uid_eq(NETLINK_CB(asker).creds.uid, uid) ||
	       netlink_capable(asker, CAP_NET_ADMIN);
}

/*
 * How the objects look in a message. Each returns false if it does not fit. @asker is the
 * message that asks for it, or NULL: those who are told are privileged.
 */

static bool fill_sched(struct sk_buff *skb, struct distmind_sched *sched)
{
	struct distmind_sched_stats stats;
	const struct policy *policy;
	u64 grace_ns, hang_ns;

	distmind_sched_get_stats(sched, &stats);
	spin_lock(&sched->lock);
	policy = sched->policy[DISTMIND_LANE_COMPUTE].policy;
	grace_ns = sched->grace_ns;
	hang_ns = sched->hang_ns;
	spin_unlock(&sched->lock);
	return !(nla_put_string(skb, DISTMIND_A_GPU_POLICY, policy_name(policy)) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_COMPUTE_LANES,
			     sched->lanes_of[DISTMIND_LANE_COMPUTE]) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_COPY_LANES,
			     sched->lanes_of[DISTMIND_LANE_COPY]) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_HANG, hang_ns) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_GRACE, grace_ns) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_CAPABILITIES, sched->capabilities) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_JOBS, stats.jobs) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_FAILED_JOBS, stats.failed) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_BUSY, stats.busy_ns[DISTMIND_LANE_COMPUTE]) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_COPY_BUSY, stats.busy_ns[DISTMIND_LANE_COPY]) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_PREEMPTIONS, stats.preemptions) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_EVICTIONS, stats.evictions) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_HANGS, stats.hangs) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_LANES_OUT, stats.lanes_out) ||
		 nla_put(skb, DISTMIND_A_GPU_PREEMPT_LATENCY, sizeof(stats.latency),
			 stats.latency));
}

static bool fill_gpu(struct sk_buff *skb, void *object, struct sk_buff *asker)
{
	struct distmind_gpu *gpu = object;

	if (!fill_sched(skb, &gpu->sched))
		return false;
	return !(nla_put_u32(skb, DISTMIND_A_GPU_ID, gpu->id) ||
		 nla_put_string(skb, DISTMIND_A_GPU_NAME, gpu->name) ||
		 nla_put_string(skb, DISTMIND_A_GPU_KIND, gpu->kind) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_STATE, gpu->state) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_BOX, gpu->box) ||
		 nla_put_s32(skb, DISTMIND_A_GPU_NUMA_NODE, gpu->heap.node) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_MEMORY, (u64)gpu->heap.pages << PAGE_SHIFT) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_MEMORY_USED,
			    distmind_heap_bytes_used(&gpu->heap)) ||
		 nl_put_u64(skb, DISTMIND_A_GPU_MEMORY_EVICTIONS, READ_ONCE(gpu->heap.evictions)) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_VGPUS, gpu->vgpu_count) ||
		 nla_put_u32(skb, DISTMIND_A_GPU_ENGINE_PID, gpu->engine_pid));
}

static bool fill_vgpu(struct sk_buff *skb, void *object, struct sk_buff *asker)
{
	struct distmind_vgpu *vgpu = object;
	const struct distmind_vgpu_stats *stats = &vgpu->stats;
	struct distmind_request_stats requests;
	struct distmind_vgpu_settings settings;
	u64 used, busy;
	u32 clients, buffers;

	distmind_requests_get_stats(&vgpu->requests, &requests);
	spin_lock(&vgpu->lock);
	busy = vgpu->tenant ? distmind_sched_busy_ns(&vgpu->gpu->sched, vgpu->tenant) :
			      atomic64_read(&stats->busy_ns);
	settings = vgpu->settings;
	used = vgpu->used;
	clients = vgpu->client_count;
	buffers = vgpu->buffer_count;
	spin_unlock(&vgpu->lock);

	if (nla_put_u32(skb, DISTMIND_A_VGPU_ID, vgpu->id) ||
	    nla_put_string(skb, DISTMIND_A_VGPU_NAME, vgpu->owner.name) ||
	    nla_put_u32(skb, DISTMIND_A_VGPU_LEASE, vgpu->owner.lease) ||
	    nla_put_u32(skb, DISTMIND_A_VGPU_UID,
			from_kuid_munged(&init_user_ns, vgpu->owner.uid)) ||
	    nla_put_u32(skb, DISTMIND_A_VGPU_GID,
			from_kgid_munged(&init_user_ns, vgpu->owner.gid)))
		return false;
	if (vgpu->gpu && nla_put_u32(skb, DISTMIND_A_VGPU_GPU, vgpu->gpu->id))
		return false;
	if (distmind_vgpu_state(vgpu) == DISTMIND_VGPU_STATE_LOST &&
	    nla_put_flag(skb, DISTMIND_A_VGPU_LOST))
		return false;
	if (vgpu->owner.pid && nla_put_u32(skb, DISTMIND_A_VGPU_PID, vgpu->owner.pid))
		return false;
	return !(nl_put_u64(skb, DISTMIND_A_VGPU_MEMORY, settings.memory) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_MEMORY_USED, used) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_SHARE, settings.share) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_CLASS, settings.class) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_OBJECTIVE, settings.objective_ns) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_CLIENTS, clients) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_BUFFERS, buffers) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_CAPPED, settings.capped) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_JOBS, atomic64_read(&stats->jobs)) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_FAILED_JOBS, atomic64_read(&stats->failed)) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_BUSY, busy) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_WAIT, atomic64_read(&stats->wait_ns)) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_PREEMPTIONS, atomic64_read(&stats->preemptions)) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_MISSES, atomic64_read(&stats->misses)) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_QUEUED, atomic64_read(&stats->queued)) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_RUNNING, atomic64_read(&stats->running)) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_REQUESTS, requests.ended) ||
		 nl_put_u64(skb, DISTMIND_A_VGPU_FAILED_REQUESTS, requests.failed) ||
		 nla_put_u32(skb, DISTMIND_A_VGPU_OPEN_REQUESTS, requests.open) ||
		 nla_put(skb, DISTMIND_A_VGPU_REQUEST_LATENCY, sizeof(requests.latency),
			 requests.latency) ||
		 nla_put(skb, DISTMIND_A_VGPU_REQUEST_TIME, sizeof(requests.spent_ns),
			 requests.spent_ns));
}

/* Those of a buffer's payers that somebody may see. */
struct payers {
	u32 count;
	u32 vgpus[PAYERS_SHOWN];
	u32 uids[PAYERS_SHOWN];
};

static void find_payers(struct distmind_buffer *buffer, struct sk_buff *asker,
			struct payers *payers)
{
	bool all = !asker || netlink_capable(asker, CAP_NET_ADMIN);
	const struct distmind_payment *payment;

	payers->count = 0;
	spin_lock(&buffer->payments_lock);
	list_for_each_entry(payment, &buffer->payments, in_buffer) {
		const struct distmind_vgpu *vgpu = payment->vgpu;
		u32 uid = from_kuid_munged(&init_user_ns, vgpu->owner.uid);

		if (!all && !uid_eq(NETLINK_CB(asker).creds.uid, vgpu->owner.uid))
			continue;
		if (payers->count < PAYERS_SHOWN) {
			payers->vgpus[payers->count] = READ_ONCE(vgpu->dead) ? U32_MAX : vgpu->id;
			payers->uids[payers->count] = uid;
		}
		payers->count++;
	}
	spin_unlock(&buffer->payments_lock);
}

static bool fill_buffer(struct sk_buff *skb, void *object, struct sk_buff *asker)
{
	struct distmind_buffer *buffer = object;
	/* Who only pays for it does not see what others do with it. */
	bool all = !asker || distmind_netlink_may_see(asker, buffer->vgpu->owner.uid);
	struct payers payers;
	u32 shown;

	find_payers(buffer, asker, &payers);
	shown = min_t(u32, payers.count, PAYERS_SHOWN) * sizeof(u32);
	return !(nla_put_u32(skb, DISTMIND_A_BUFFER_ID, buffer->id) ||
		 nla_put_u32(skb, DISTMIND_A_BUFFER_VGPU, buffer->vgpu->id) ||
		 nla_put_u32(skb, DISTMIND_A_BUFFER_GPU, buffer->gpu_id) ||
		 nl_put_u64(skb, DISTMIND_A_BUFFER_SIZE, distmind_buffer_size(buffer)) ||
		 nl_put_u64(skb, DISTMIND_A_BUFFER_OFFSET, distmind_buffer_offset(buffer)) ||
		 nla_put_u32(skb, DISTMIND_A_BUFFER_KIND, buffer->kind) ||
		 (all && nla_put_u32(skb, DISTMIND_A_BUFFER_PINS, READ_ONCE(buffer->pins))) ||
		 (all && nla_put_u32(skb, DISTMIND_A_BUFFER_EXPORTS,
				     atomic_read(&buffer->exports))) ||
		 nla_put_u32(skb, DISTMIND_A_BUFFER_PAYER_COUNT, payers.count) ||
		 nla_put(skb, DISTMIND_A_BUFFER_PAYERS, shown, payers.vgpus) ||
		 nla_put(skb, DISTMIND_A_BUFFER_PAYER_UIDS, shown, payers.uids));
}

static bool fill_claim(struct sk_buff *skb, void *object, struct sk_buff *asker)
{
	struct distmind_claim *claim = object;
	const struct distmind_vgpu_owner *owner = &claim->owner;
	s64 remaining = ktime_ms_delta(claim->deadline, ktime_get());

	if (claim->kind[0] && nla_put_string(skb, DISTMIND_A_CLAIM_KIND, claim->kind))
		return false;
	return !(nla_put_u32(skb, DISTMIND_A_CLAIM_ID, claim->id) ||
		 nla_put_string(skb, DISTMIND_A_CLAIM_NAME, owner->name) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_PID, owner->pid) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_UID,
			     from_kuid_munged(&init_user_ns, owner->uid)) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_GID,
			     from_kgid_munged(&init_user_ns, owner->gid)) ||
		 nl_put_u64(skb, DISTMIND_A_CLAIM_MEMORY, claim->settings.memory) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_SHARE, claim->settings.share) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_CLASS, claim->settings.class) ||
		 nl_put_u64(skb, DISTMIND_A_CLAIM_OBJECTIVE, claim->settings.objective_ns) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_COUNT, claim->count) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_FLAGS, claim->flags) ||
		 nla_put_u32(skb, DISTMIND_A_CLAIM_REMAINING, max_t(s64, remaining, 0)));
}

/* For one object. Not under a lock if somebody asks for it: it may wait for memory. */
static struct sk_buff *new_message(void)
{
	return genlmsg_new(GENLMSG_DEFAULT_SIZE, GFP_KERNEL);
}

/* One object in @msg, which may be NULL; returns NULL, without a message, if that fails. */
static struct sk_buff *fill_message(struct sk_buff *msg, u32 portid, u32 seq, u8 cmd,
				    bool (*fill)(struct sk_buff *skb, void *object,
						 struct sk_buff *asker),
				    void *object, struct sk_buff *asker)
{
	void *header;

	if (!msg)
		return NULL;
	header = genlmsg_put(msg, portid, seq, family, 0, cmd);
	if (!header || !fill(msg, object, asker)) {
		nlmsg_free(msg);
		return NULL;
	}
	genlmsg_end(msg, header);
	return msg;
}

static int send_reply(struct sk_buff *msg, struct genl_info *info)
{
	return msg ? genlmsg_reply(msg, info) : -ENOMEM;
}

/*
 * A notification that is lost for want of memory is like one that did not fit
 * into the listener's socket: listeners are told and list everything anew.
 */
static void notify(unsigned int group, u8 cmd,
		   bool (*fill)(struct sk_buff *skb, void *object, struct sk_buff *asker),
		   void *object)
{
	struct sk_buff *msg;

	if (genl_has_listeners(family, &init_net, group) <= 0)
		return;
	msg = fill_message(new_message(), 0, 0, cmd, fill, object, NULL);
	if (msg)
		genlmsg_multicast(family, msg, 0, group, GFP_KERNEL);
	else
		genl_set_err(family, &init_net, 0, group, ENOBUFS);
}

/* Under a scheduler's lock: it must not sleep, and mostly nobody listens. */
void distmind_netlink_notify_preempt(const struct distmind_preempt *preempt, u64 latency_ns)
{
	struct sk_buff *msg;
	void *header;

	if (genl_has_listeners(family, &init_net, DISTMIND_NLGRP_PREEMPT) <= 0)
		return;
	msg = genlmsg_new(NLMSG_DEFAULT_SIZE, GFP_ATOMIC);
	header = msg ? genlmsg_put(msg, 0, 0, family, 0, DISTMIND_CMD_PREEMPT_NTF) : NULL;
	if (!header || nla_put_u32(msg, DISTMIND_A_PREEMPT_RUNG, preempt->rung) ||
	    nla_put_u32(msg, DISTMIND_A_PREEMPT_GPU, preempt->gpu) ||
	    nla_put_u32(msg, DISTMIND_A_PREEMPT_LANE, preempt->lane) ||
	    nla_put_u32(msg, DISTMIND_A_PREEMPT_VGPU, preempt->vgpu) ||
	    nl_put_u64(msg, DISTMIND_A_PREEMPT_JOB, preempt->job) ||
	    (preempt->rung == DISTMIND_PREEMPT_RUNG_YIELDED &&
	     nl_put_u64(msg, DISTMIND_A_PREEMPT_LATENCY, latency_ns)) ||
	    (preempt->rung == DISTMIND_PREEMPT_RUNG_HOOK &&
	     nla_put_s32(msg, DISTMIND_A_PREEMPT_RESULT, preempt->result))) {
		nlmsg_free(msg);
		genl_set_err(family, &init_net, 0, DISTMIND_NLGRP_PREEMPT, ENOBUFS);
		return;
	}
	genlmsg_end(msg, header);
	genlmsg_multicast(family, msg, 0, DISTMIND_NLGRP_PREEMPT, GFP_ATOMIC);
}

bool distmind_netlink_has_daemon(void)
{
	return genl_has_listeners(family, &init_net, DISTMIND_NLGRP_CLAIMS) > 0;
}

/* Under distmind_pool_lock. */
void distmind_netlink_notify_gpu(u8 cmd, struct distmind_gpu *gpu)
{
	notify(DISTMIND_NLGRP_POOL, cmd, fill_gpu, gpu);
}

/* Under distmind_pool_lock. */
void distmind_netlink_notify_vgpu(u8 cmd, struct distmind_vgpu *vgpu)
{
	notify(DISTMIND_NLGRP_POOL, cmd, fill_vgpu, vgpu);
}

/* Under distmind_claim_lock. */
void distmind_netlink_notify_claim(u8 cmd, struct distmind_claim *claim)
{
	notify(DISTMIND_NLGRP_CLAIMS, cmd, fill_claim, claim);
}

/**
 * struct kind - a kind of object, as the get commands see it
 * @cmd: the command
 * @missing: what to say when there is none of that number
 * @table: where they are
 * @lock: guards what @from finds; NULL if that is a reference
 * @from: the first object with a number of at least *id
 * @put: gives the reference back
 * @visible: whether the sender of a claim may see it
 * @fill: puts it into a message
 */
struct kind {
	u8 cmd;
	const char *missing;
	struct distmind_table *table;
	struct mutex *lock; /* see above */
	void *(*from)(unsigned long *id);
	void (*put)(void *object);
	bool (*visible)(struct sk_buff *asker, void *object);
	bool (*fill)(struct sk_buff *skb, void *object, struct sk_buff *asker);
};

static void *gpu_from(unsigned long *id)
{
	return distmind_table_from(&distmind_gpus, id);
}

static bool gpu_visible(struct sk_buff *asker, void *object)
{
	return true;
}

static const struct kind gpu_kind = {
	.cmd = DISTMIND_CMD_GPU_GET,
	.missing = "no such gpu",
	.table = &distmind_gpus,
	.lock = &distmind_pool_lock,
	.from = gpu_from,
	.visible = gpu_visible,
	.fill = fill_gpu,
};

static void *vgpu_from(unsigned long *id)
{
	return distmind_table_from(&distmind_vgpus, id);
}

static bool vgpu_visible(struct sk_buff *asker, void *object)
{
	struct distmind_vgpu *vgpu = object;

	return distmind_netlink_may_see(asker, vgpu->owner.uid);
}

static const struct kind vgpu_kind = {
	.cmd = DISTMIND_CMD_VGPU_GET,
	.missing = "no such vgpu",
	.table = &distmind_vgpus,
	.lock = &distmind_pool_lock,
	.from = vgpu_from,
	.visible = vgpu_visible,
	.fill = fill_vgpu,
};

static void *buffer_from(unsigned long *id)
{
	return distmind_buffer_from(id);
}

static void buffer_put(void *object)
{
	distmind_buffer_put_later(object);
}

static bool buffer_visible(struct sk_buff *asker, void *object)
{
	struct distmind_buffer *buffer = object;
	struct payers payers;

	if (distmind_netlink_may_see(asker, buffer->vgpu->owner.uid))
		return true;
	find_payers(buffer, asker, &payers);
	return payers.count;
}

static const struct kind buffer_kind = {
	.cmd = DISTMIND_CMD_BUFFER_GET,
	.missing = "no such buffer",
	.table = &distmind_buffers,
	.from = buffer_from,
	.put = buffer_put,
	.visible = buffer_visible,
	.fill = fill_buffer,
};

static void *claim_from(unsigned long *id)
{
	return distmind_table_from(&distmind_claims, id);
}

static bool claim_visible(struct sk_buff *asker, void *object)
{
	struct distmind_claim *claim = object;

	return distmind_netlink_may_see(asker, claim->owner.uid);
}

static const struct kind claim_kind = {
	.cmd = DISTMIND_CMD_CLAIM_GET,
	.missing = "no such claim: it was answered, timed out or given up",
	.table = &distmind_claims,
	.lock = &distmind_claim_lock,
	.from = claim_from,
	.visible = claim_visible,
	.fill = fill_claim,
};

static bool dump_object(struct sk_buff *skb, struct netlink_callback *cb, const struct kind *kind,
			void *object)
{
	void *header = genlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq, family,
				   NLM_F_MULTI, kind->cmd);

	if (!header)
		return false;
	if (!kind->fill(skb, object, cb->skb)) {
		genlmsg_cancel(skb, header);
		return false;
	}
	genl_dump_check_consistent(cb, header);
	genlmsg_end(skb, header);
	return true;
}

/* Those from *@id on, as many as fit into @skb, or a few; returns whether there are more. */
static bool dump_some(struct sk_buff *skb, struct netlink_callback *cb, const struct kind *kind,
		      unsigned long *id)
{
	bool fits = true;
	void *object = NULL;
	u32 i;

	if (kind->lock)
		mutex_lock(kind->lock);
	cb->seq = distmind_table_generation(kind->table);
	for (i = 0; i < LOOKS_AT_ONCE && fits && (object = kind->from(id)); i++) {
		if (kind->visible(cb->skb, object))
			fits = dump_object(skb, cb, kind, object);
		if (kind->put)
			kind->put(object);
		*id += fits;
	}
	if (kind->lock)
		mutex_unlock(kind->lock);
	return object && fits;
}

/*
 * As many objects as fit into @skb, from where the last call stopped. Who may see few of
 * very many must not keep others from the lock, and can be killed.
 */
static int dump(struct sk_buff *skb, struct netlink_callback *cb, const struct kind *kind)
{
	unsigned long id = cb->args[0];

	while (dump_some(skb, cb, kind, &id)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	cb->args[0] = id;
	return skb->len;
}

/* The number that a command is about, in attribute 1 of every set. */
static int get_id(struct genl_info *info, u32 *id)
{
	BUILD_BUG_ON(DISTMIND_A_GPU_ID != 1 || DISTMIND_A_VGPU_ID != 1 ||
		     DISTMIND_A_BUFFER_ID != 1 || DISTMIND_A_CLAIM_ID != 1);
	if (GENL_REQ_ATTR_CHECK(info, DISTMIND_A_GPU_ID)) {
		NL_SET_ERR_MSG(info->extack, "id is missing");
		return -EINVAL;
	}
	*id = nla_get_u32(info->attrs[DISTMIND_A_GPU_ID]);
	return 0;
}

/* An error about the object that the command names. */
static int bad_id(struct genl_info *info, const char *message)
{
	NL_SET_BAD_ATTR(info->extack, info->attrs[DISTMIND_A_GPU_ID]);
	info->extack->_msg = message;
	return -ENOENT;
}

static int get_one(struct sk_buff *asker, struct genl_info *info, const struct kind *kind)
{
	unsigned long found;
	bool exists = false;
	struct sk_buff *msg;
	void *object;
	u32 id;
	int err;

	err = get_id(info, &id);
	if (err)
		return err;
	msg = new_message();
	if (kind->lock)
		mutex_lock(kind->lock);
	found = id;
	object = kind->from(&found);
	if (object && found == id && kind->visible(asker, object)) {
		exists = true;
		msg = fill_message(msg, info->snd_portid, info->snd_seq, kind->cmd, kind->fill,
				   object, asker);
	}
	if (object && kind->put)
		kind->put(object);
	if (kind->lock)
		mutex_unlock(kind->lock);
	if (exists)
		return send_reply(msg, info);
	nlmsg_free(msg);
	return bad_id(info, kind->missing);
}

int distmind_nl_gpu_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	return get_one(skb, info, &gpu_kind);
}

int distmind_nl_gpu_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, &gpu_kind);
}

int distmind_nl_vgpu_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	return get_one(skb, info, &vgpu_kind);
}

int distmind_nl_vgpu_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, &vgpu_kind);
}

int distmind_nl_buffer_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	return get_one(skb, info, &buffer_kind);
}

int distmind_nl_buffer_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, &buffer_kind);
}

int distmind_nl_claim_get_doit(struct sk_buff *skb, struct genl_info *info)
{
	return get_one(skb, info, &claim_kind);
}

int distmind_nl_claim_get_dumpit(struct sk_buff *skb, struct netlink_callback *cb)
{
	return dump(skb, cb, &claim_kind);
}

/* A limit of a gpu in nanoseconds, if it is there; up to an hour. */
static int get_limit(struct genl_info *info, int type, u64 least, const char *problem, u64 *limit)
{
	struct nlattr *attr = info->attrs[type];

	if (!attr)
		return 0;
	*limit = nla_get_u64(attr);
	if (*limit >= least && *limit <= 3600ULL * NSEC_PER_SEC)
		return 0;
	NL_SET_BAD_ATTR(info->extack, attr);
	if (info->extack)
		info->extack->_msg = problem;
	return -ERANGE;
}

int distmind_nl_gpu_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	struct distmind_gpu_change change = { };
	u32 id, drain;
	int err;

	err = get_id(info, &id);
	if (!err)
		err = get_limit(info, DISTMIND_A_GPU_GRACE, NSEC_PER_USEC,
				"grace must be 1 us to 1 hour", &change.grace_ns);
	if (!err)
		err = get_limit(info, DISTMIND_A_GPU_HANG, NSEC_PER_MSEC,
				"hang must be 1 ms to 1 hour", &change.hang_ns);
	if (err)
		return err;
	if (attrs[DISTMIND_A_GPU_DRAIN]) {
		drain = nla_get_u32(attrs[DISTMIND_A_GPU_DRAIN]);
		change.drain = &drain;
	}
	if (attrs[DISTMIND_A_GPU_POLICY]) {
		change.policy = policy_find(nla_data(attrs[DISTMIND_A_GPU_POLICY]));
		if (!change.policy) {
			NL_SET_ERR_MSG_ATTR(info->extack, attrs[DISTMIND_A_GPU_POLICY],
					    "no such policy: there are fifo, fair, slo and srpt");
			return -EINVAL;
		}
	}
	if (!change.drain && !change.policy && !change.grace_ns && !change.hang_ns) {
		NL_SET_ERR_MSG(info->extack,
			       "nothing to set: drain, policy, grace and hang are missing");
		return -EINVAL;
	}
	NL_SET_BAD_ATTR(info->extack, attrs[DISTMIND_A_GPU_ID]);
	return distmind_gpu_set(id, &change, info->extack);
}

int distmind_nl_gpu_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	u32 id;
	int err;

	err = get_id(info, &id);
	if (err)
		return err;
	NL_SET_BAD_ATTR(info->extack, info->attrs[DISTMIND_A_GPU_ID]);
	return distmind_gpu_remove(id, info->extack);
}

/* Change @settings by the attributes that are there, and check the outcome. */
static int get_settings(struct genl_info *info, struct distmind_vgpu_settings *settings)
{
	struct nlattr **attrs = info->attrs;
	const char *problem;
	int err;

	if (attrs[DISTMIND_A_VGPU_MEMORY])
		settings->memory = nla_get_u64(attrs[DISTMIND_A_VGPU_MEMORY]);
	if (attrs[DISTMIND_A_VGPU_SHARE])
		settings->share = nla_get_u32(attrs[DISTMIND_A_VGPU_SHARE]);
	if (attrs[DISTMIND_A_VGPU_CLASS])
		settings->class = nla_get_u32(attrs[DISTMIND_A_VGPU_CLASS]);
	if (attrs[DISTMIND_A_VGPU_OBJECTIVE])
		settings->objective_ns = nla_get_u64(attrs[DISTMIND_A_VGPU_OBJECTIVE]);
	if (attrs[DISTMIND_A_VGPU_CAPPED])
		settings->capped = nla_get_u32(attrs[DISTMIND_A_VGPU_CAPPED]);
	err = distmind_vgpu_check_settings(settings, &problem);
	if (err)
		info->extack->_msg = problem;
	return err;
}

int distmind_nl_vgpu_new_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct distmind_vgpu_settings settings = { .share = DISTMIND_SHARE_WHOLE };
	struct distmind_vgpu_owner owner = { .lease = DISTMIND_VGPU_LEASE_ADMIN };
	struct nlattr **attrs = info->attrs;
	u32 gpu = DISTMIND_GPU_NONE;
	struct distmind_vgpu *vgpu;
	struct sk_buff *msg;
	int err;

	if (attrs[DISTMIND_A_VGPU_NAME]) {
		nla_strscpy(owner.name, attrs[DISTMIND_A_VGPU_NAME], sizeof(owner.name));
		if (!distmind_ioctl_name_valid(owner.name)) {
			NL_SET_ERR_MSG_ATTR(info->extack, attrs[DISTMIND_A_VGPU_NAME],
					    "name must be up to 31 of A-Z a-z 0-9 . _ -");
			return -EINVAL;
		}
	}
	owner.uid = GLOBAL_ROOT_UID;
	owner.gid = GLOBAL_ROOT_GID;
	if (attrs[DISTMIND_A_VGPU_UID])
		owner.uid = make_kuid(&init_user_ns, nla_get_u32(attrs[DISTMIND_A_VGPU_UID]));
	if (attrs[DISTMIND_A_VGPU_GID])
		owner.gid = make_kgid(&init_user_ns, nla_get_u32(attrs[DISTMIND_A_VGPU_GID]));
	if (!uid_valid(owner.uid) || !gid_valid(owner.gid)) {
		NL_SET_ERR_MSG(info->extack, "uid or gid is not one");
		return -EINVAL;
	}
	err = get_settings(info, &settings);
	if (err)
		return err;
	if (attrs[DISTMIND_A_VGPU_GPU]) {
		gpu = nla_get_u32(attrs[DISTMIND_A_VGPU_GPU]);
		NL_SET_BAD_ATTR(info->extack, attrs[DISTMIND_A_VGPU_GPU]);
	}
	vgpu = distmind_vgpu_create(&owner, &settings, gpu, NULL, info->extack);
	if (IS_ERR(vgpu))
		return PTR_ERR(vgpu);
	msg = new_message();
	mutex_lock(&distmind_pool_lock);
	msg = fill_message(msg, info->snd_portid, info->snd_seq, DISTMIND_CMD_VGPU_NEW, fill_vgpu,
			   vgpu, skb);
	mutex_unlock(&distmind_pool_lock);
	err = send_reply(msg, info);
	distmind_vgpu_put(vgpu);
	return err;
}

static int vgpu_set(struct distmind_vgpu *vgpu, struct genl_info *info, struct list_head *ended)
{
	struct nlattr *attr = info->attrs[DISTMIND_A_VGPU_GPU];
	struct distmind_vgpu_settings settings = vgpu->settings;
	struct distmind_gpu *gpu = vgpu->gpu;
	int err;

	err = get_settings(info, &settings);
	if (err)
		return err;
	if (attr && nla_get_u32(attr) == DISTMIND_GPU_NONE) {
		gpu = NULL;
	} else if (attr && !(gpu && gpu->id == nla_get_u32(attr))) {
		gpu = distmind_vgpu_bindable_gpu(nla_get_u32(attr), info->extack);
		if (IS_ERR(gpu)) {
			NL_SET_BAD_ATTR(info->extack, attr);
			return PTR_ERR(gpu);
		}
	}
	distmind_vgpu_change(vgpu, &settings);
	distmind_vgpu_bind(vgpu, gpu, ended);
	distmind_netlink_notify_vgpu(DISTMIND_CMD_VGPU_CHANGE_NTF, vgpu);
	return 0;
}

int distmind_nl_vgpu_set_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct distmind_vgpu *vgpu;
	LIST_HEAD(ended);
	u32 id;
	int err;

	err = get_id(info, &id);
	if (err)
		return err;
	mutex_lock(&distmind_pool_lock);
	vgpu = distmind_table_find(&distmind_vgpus, id);
	err = vgpu ? vgpu_set(vgpu, info, &ended) : bad_id(info, "no such vgpu");
	mutex_unlock(&distmind_pool_lock);
	distmind_job_end_all(&ended);
	return err;
}

int distmind_nl_vgpu_del_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct distmind_vgpu *vgpu;
	u32 id;
	int err;

	err = get_id(info, &id);
	if (err)
		return err;
	vgpu = distmind_vgpu_find(id);
	if (!vgpu)
		return bad_id(info, "no such vgpu");
	distmind_vgpu_kill(vgpu);
	distmind_vgpu_put(vgpu);
	return 0;
}

int distmind_nl_claim_answer_doit(struct sk_buff *skb, struct genl_info *info)
{
	struct nlattr **attrs = info->attrs;
	char reason[DISTMIND_REASON_LEN] = "";
	u32 gpus[DISTMIND_ACQUIRE_MAX];
	struct nlattr *attr;
	u32 id, count = 0;
	int rem, err;

	err = get_id(info, &id);
	if (err)
		return err;
	nlmsg_for_each_attr(attr, info->nlhdr, GENL_HDRLEN, rem) {
		if (nla_type(attr) != DISTMIND_A_CLAIM_GPU)
			continue;
		if (count == ARRAY_SIZE(gpus)) {
			NL_SET_ERR_MSG_ATTR(info->extack, attr, "too many gpus");
			return -E2BIG;
		}
		gpus[count++] = nla_get_u32(attr);
	}
	if (!!count == !!attrs[DISTMIND_A_CLAIM_ERROR]) {
		NL_SET_ERR_MSG(info->extack, "an answer has either gpu or error");
		return -EINVAL;
	}
	if (count)
		return distmind_claim_grant(id, gpus, count, info->extack);
	if (attrs[DISTMIND_A_CLAIM_REASON])
		nla_strscpy(reason, attrs[DISTMIND_A_CLAIM_REASON], sizeof(reason));
	return distmind_claim_refuse(id, nla_get_u32(attrs[DISTMIND_A_CLAIM_ERROR]), reason,
				       info->extack);
}

int __init distmind_netlink_init(void)
{
	return genl_register_family(family);
}

void distmind_netlink_exit(void)
{
	genl_unregister_family(family);
}

MODULE_ALIAS_GENL_FAMILY(DISTMIND_FAMILY_NAME);
