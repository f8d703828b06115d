// SPDX-License-Identifier: MIT
#include "record.h"

#include <errno.h>
#include <netlink/attr.h>
#include <string.h>

/* Exact lengths: a number of another width would be read wrong. */
#define U32 { .type = NLA_U32, .minlen = 4, .maxlen = 4 }
#define U64 { .type = NLA_U64, .minlen = 8, .maxlen = 8 }
#define TEXT { .type = NLA_STRING, .minlen = 1, .maxlen = DISTMIND_NAME_LEN }

static const struct nla_policy gpu_policy[DISTMIND_A_GPU_MAX + 1] = {
	[DISTMIND_A_GPU_ID] = U32,	    [DISTMIND_A_GPU_NAME] = TEXT,
	[DISTMIND_A_GPU_KIND] = TEXT,	    [DISTMIND_A_GPU_STATE] = U32,
	[DISTMIND_A_GPU_BOX] = U32,	    [DISTMIND_A_GPU_NUMA_NODE] = U32,
	[DISTMIND_A_GPU_MEMORY] = U64,	    [DISTMIND_A_GPU_MEMORY_USED] = U64,
	[DISTMIND_A_GPU_VGPUS] = U32,	    [DISTMIND_A_GPU_ENGINE_PID] = U32,
	[DISTMIND_A_GPU_POLICY] = TEXT,	    [DISTMIND_A_GPU_COMPUTE_LANES] = U32,
	[DISTMIND_A_GPU_COPY_LANES] = U32,  [DISTMIND_A_GPU_HANG] = U64,
	[DISTMIND_A_GPU_JOBS] = U64,	    [DISTMIND_A_GPU_FAILED_JOBS] = U64,
	[DISTMIND_A_GPU_BUSY] = U64,	    [DISTMIND_A_GPU_PREEMPTIONS] = U64,
	[DISTMIND_A_GPU_HANGS] = U64,	    [DISTMIND_A_GPU_COPY_BUSY] = U64,
	[DISTMIND_A_GPU_GRACE] = U64,	    [DISTMIND_A_GPU_CAPABILITIES] = U32,
	[DISTMIND_A_GPU_EVICTIONS] = U64,   [DISTMIND_A_GPU_MEMORY_EVICTIONS] = U64,
};

static const struct nla_policy vgpu_policy[DISTMIND_A_VGPU_MAX + 1] = {
	[DISTMIND_A_VGPU_ID] = U32,	    [DISTMIND_A_VGPU_NAME] = TEXT,
	[DISTMIND_A_VGPU_GPU] = U32,	    [DISTMIND_A_VGPU_LEASE] = U32,
	[DISTMIND_A_VGPU_UID] = U32,	    [DISTMIND_A_VGPU_GID] = U32,
	[DISTMIND_A_VGPU_PID] = U32,	    [DISTMIND_A_VGPU_MEMORY] = U64,
	[DISTMIND_A_VGPU_MEMORY_USED] = U64, [DISTMIND_A_VGPU_SHARE] = U32,
	[DISTMIND_A_VGPU_CLASS] = U32,	    [DISTMIND_A_VGPU_OBJECTIVE] = U64,
	[DISTMIND_A_VGPU_CLIENTS] = U32,    [DISTMIND_A_VGPU_BUFFERS] = U32,
	[DISTMIND_A_VGPU_CAPPED] = U32,	    [DISTMIND_A_VGPU_JOBS] = U64,
	[DISTMIND_A_VGPU_FAILED_JOBS] = U64, [DISTMIND_A_VGPU_BUSY] = U64,
	[DISTMIND_A_VGPU_WAIT] = U64,	    [DISTMIND_A_VGPU_PREEMPTIONS] = U64,
	[DISTMIND_A_VGPU_MISSES] = U64,	    [DISTMIND_A_VGPU_QUEUED] = U32,
	[DISTMIND_A_VGPU_RUNNING] = U32,    [DISTMIND_A_VGPU_REQUESTS] = U64,
	[DISTMIND_A_VGPU_FAILED_REQUESTS] = U64, [DISTMIND_A_VGPU_OPEN_REQUESTS] = U32,
};

static const struct nla_policy buffer_policy[DISTMIND_A_BUFFER_MAX + 1] = {
	[DISTMIND_A_BUFFER_ID] = U32,	  [DISTMIND_A_BUFFER_VGPU] = U32,
	[DISTMIND_A_BUFFER_GPU] = U32,	  [DISTMIND_A_BUFFER_SIZE] = U64,
	[DISTMIND_A_BUFFER_OFFSET] = U64, [DISTMIND_A_BUFFER_KIND] = U32,
	[DISTMIND_A_BUFFER_PINS] = U32,	  [DISTMIND_A_BUFFER_EXPORTS] = U32,
	[DISTMIND_A_BUFFER_PAYER_COUNT] = U32,
};

static const struct nla_policy claim_policy[DISTMIND_A_CLAIM_MAX + 1] = {
	[DISTMIND_A_CLAIM_ID] = U32,	      [DISTMIND_A_CLAIM_NAME] = TEXT,
	[DISTMIND_A_CLAIM_PID] = U32,	      [DISTMIND_A_CLAIM_UID] = U32,
	[DISTMIND_A_CLAIM_GID] = U32,	      [DISTMIND_A_CLAIM_MEMORY] = U64,
	[DISTMIND_A_CLAIM_SHARE] = U32,     [DISTMIND_A_CLAIM_CLASS] = U32,
	[DISTMIND_A_CLAIM_OBJECTIVE] = U64, [DISTMIND_A_CLAIM_COUNT] = U32,
	[DISTMIND_A_CLAIM_FLAGS] = U32,     [DISTMIND_A_CLAIM_KIND] = TEXT,
	[DISTMIND_A_CLAIM_REMAINING] = U32,
};

static const struct nla_policy limit_policy[DISTMIND_A_LIMIT_MAX + 1] = {
	[DISTMIND_A_LIMIT_UID] = U32,	  [DISTMIND_A_LIMIT_WHAT] = TEXT,
	[DISTMIND_A_LIMIT_USED] = U32,	  [DISTMIND_A_LIMIT_ALLOWED] = U32,
	[DISTMIND_A_LIMIT_REFUSED] = U32,
};

static const struct nla_policy preempt_policy[DISTMIND_A_PREEMPT_MAX + 1] = {
	[DISTMIND_A_PREEMPT_RUNG] = U32,   [DISTMIND_A_PREEMPT_GPU] = U32,
	[DISTMIND_A_PREEMPT_LANE] = U32,   [DISTMIND_A_PREEMPT_VGPU] = U32,
	[DISTMIND_A_PREEMPT_JOB] = U64,	   [DISTMIND_A_PREEMPT_LATENCY] = U64,
	[DISTMIND_A_PREEMPT_RESULT] = U32,
};

/* Parses into table; attribute 1 is in every message of a set: mostly the id. */
static int parse(struct nlattr **table, int max, struct nlattr *head, int len,
		 const struct nla_policy *policy)
{
	if (nla_parse(table, max, head, len, (struct nla_policy *)policy) < 0 || !table[1])
		return -EBADMSG;
	return 0;
}

static uint32_t get_u32(struct nlattr *attr)
{
	return attr ? nla_get_u32(attr) : 0;
}

static uint64_t get_u64(struct nlattr *attr)
{
	return attr ? nla_get_u64(attr) : 0;
}

/* The policy has seen to it that there is a NUL within DISTMIND_NAME_LEN. */
static void get_text(char *to, struct nlattr *attr)
{
	if (attr)
		strcpy(to, nla_get_string(attr));
}

/* As many numbers as both sides have. */
static void get_numbers(uint64_t *to, size_t count, struct nlattr *attr)
{
	size_t length = attr ? nla_len(attr) : 0;

	if (length > count * sizeof(*to))
		length = count * sizeof(*to);
	if (length)
		memcpy(to, nla_data(attr), length - length % sizeof(*to));
}

int distmind_record_gpu(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_GPU_MAX + 1];
	struct distmind_gpu_record *gpu = record;

	if (parse(table, DISTMIND_A_GPU_MAX, head, len, gpu_policy))
		return -EBADMSG;
	memset(gpu, 0, sizeof(*gpu));
	gpu->id = get_u32(table[DISTMIND_A_GPU_ID]);
	get_text(gpu->name, table[DISTMIND_A_GPU_NAME]);
	get_text(gpu->kind, table[DISTMIND_A_GPU_KIND]);
	gpu->state = get_u32(table[DISTMIND_A_GPU_STATE]);
	gpu->box = get_u32(table[DISTMIND_A_GPU_BOX]);
	gpu->numa_node = DISTMIND_NUMA_ANY;
	if (table[DISTMIND_A_GPU_NUMA_NODE])
		gpu->numa_node = (int32_t)get_u32(table[DISTMIND_A_GPU_NUMA_NODE]);
	gpu->memory = get_u64(table[DISTMIND_A_GPU_MEMORY]);
	gpu->memory_used = get_u64(table[DISTMIND_A_GPU_MEMORY_USED]);
	gpu->memory_evictions = get_u64(table[DISTMIND_A_GPU_MEMORY_EVICTIONS]);
	gpu->vgpus = get_u32(table[DISTMIND_A_GPU_VGPUS]);
	gpu->engine_pid = get_u32(table[DISTMIND_A_GPU_ENGINE_PID]);
	get_text(gpu->policy, table[DISTMIND_A_GPU_POLICY]);
	gpu->compute_lanes = get_u32(table[DISTMIND_A_GPU_COMPUTE_LANES]);
	gpu->copy_lanes = get_u32(table[DISTMIND_A_GPU_COPY_LANES]);
	gpu->lanes_out = get_u32(table[DISTMIND_A_GPU_LANES_OUT]);
	gpu->grace_ns = get_u64(table[DISTMIND_A_GPU_GRACE]);
	gpu->capabilities = get_u32(table[DISTMIND_A_GPU_CAPABILITIES]);
	gpu->hang_ns = get_u64(table[DISTMIND_A_GPU_HANG]);
	gpu->jobs = get_u64(table[DISTMIND_A_GPU_JOBS]);
	gpu->failed_jobs = get_u64(table[DISTMIND_A_GPU_FAILED_JOBS]);
	gpu->busy_ns = get_u64(table[DISTMIND_A_GPU_BUSY]);
	gpu->copy_busy_ns = get_u64(table[DISTMIND_A_GPU_COPY_BUSY]);
	gpu->preemptions = get_u64(table[DISTMIND_A_GPU_PREEMPTIONS]);
	gpu->evictions = get_u64(table[DISTMIND_A_GPU_EVICTIONS]);
	gpu->hangs = get_u64(table[DISTMIND_A_GPU_HANGS]);
	get_numbers(gpu->preempt_latency, DISTMIND_LATENCY_BUCKETS,
		    table[DISTMIND_A_GPU_PREEMPT_LATENCY]);
	return 0;
}

int distmind_record_vgpu(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_VGPU_MAX + 1];
	struct distmind_vgpu_record *vgpu = record;

	if (parse(table, DISTMIND_A_VGPU_MAX, head, len, vgpu_policy))
		return -EBADMSG;
	memset(vgpu, 0, sizeof(*vgpu));
	vgpu->id = get_u32(table[DISTMIND_A_VGPU_ID]);
	get_text(vgpu->name, table[DISTMIND_A_VGPU_NAME]);
	vgpu->gpu = DISTMIND_GPU_NONE;
	if (table[DISTMIND_A_VGPU_GPU])
		vgpu->gpu = get_u32(table[DISTMIND_A_VGPU_GPU]);
	if (vgpu->gpu == DISTMIND_GPU_NONE)
		vgpu->state = DISTMIND_VGPU_STATE_PARKED;
	else if (table[DISTMIND_A_VGPU_LOST])
		vgpu->state = DISTMIND_VGPU_STATE_LOST;
	else
		vgpu->state = DISTMIND_VGPU_STATE_BOUND;
	vgpu->lease = get_u32(table[DISTMIND_A_VGPU_LEASE]);
	vgpu->uid = get_u32(table[DISTMIND_A_VGPU_UID]);
	vgpu->gid = get_u32(table[DISTMIND_A_VGPU_GID]);
	vgpu->pid = get_u32(table[DISTMIND_A_VGPU_PID]);
	vgpu->memory = get_u64(table[DISTMIND_A_VGPU_MEMORY]);
	vgpu->memory_used = get_u64(table[DISTMIND_A_VGPU_MEMORY_USED]);
	vgpu->share = get_u32(table[DISTMIND_A_VGPU_SHARE]);
	vgpu->sched_class = get_u32(table[DISTMIND_A_VGPU_CLASS]);
	vgpu->objective_ns = get_u64(table[DISTMIND_A_VGPU_OBJECTIVE]);
	vgpu->clients = get_u32(table[DISTMIND_A_VGPU_CLIENTS]);
	vgpu->buffers = get_u32(table[DISTMIND_A_VGPU_BUFFERS]);
	vgpu->capped = get_u32(table[DISTMIND_A_VGPU_CAPPED]);
	vgpu->jobs = get_u64(table[DISTMIND_A_VGPU_JOBS]);
	vgpu->failed_jobs = get_u64(table[DISTMIND_A_VGPU_FAILED_JOBS]);
	vgpu->busy_ns = get_u64(table[DISTMIND_A_VGPU_BUSY]);
	vgpu->wait_ns = get_u64(table[DISTMIND_A_VGPU_WAIT]);
	vgpu->preemptions = get_u64(table[DISTMIND_A_VGPU_PREEMPTIONS]);
	vgpu->misses = get_u64(table[DISTMIND_A_VGPU_MISSES]);
	vgpu->queued = get_u32(table[DISTMIND_A_VGPU_QUEUED]);
	vgpu->running = get_u32(table[DISTMIND_A_VGPU_RUNNING]);
	vgpu->requests = get_u64(table[DISTMIND_A_VGPU_REQUESTS]);
	vgpu->failed_requests = get_u64(table[DISTMIND_A_VGPU_FAILED_REQUESTS]);
	vgpu->open_requests = get_u32(table[DISTMIND_A_VGPU_OPEN_REQUESTS]);
	get_numbers(vgpu->request_latency, DISTMIND_LATENCY_BUCKETS,
		    table[DISTMIND_A_VGPU_REQUEST_LATENCY]);
	get_numbers(vgpu->request_ns, DISTMIND_REQUEST_PHASE_MAX + 1,
		    table[DISTMIND_A_VGPU_REQUEST_TIME]);
	return 0;
}

/* Two arrays, of which the shorter one counts. */
static void get_payers(struct distmind_buffer_record *buffer, const struct nlattr *vgpus,
		       const struct nlattr *uids)
{
	size_t size = sizeof(uint32_t), count = 0;

	if (vgpus && uids)
		count = (size_t)(nla_len(vgpus) < nla_len(uids) ? nla_len(vgpus) : nla_len(uids)) /
			size;
	if (count > DISTMIND_PAYERS_MAX)
		count = DISTMIND_PAYERS_MAX;
	for (size_t i = 0; i < count; i++) {
		memcpy(&buffer->payers[i].vgpu, (char *)nla_data(vgpus) + i * size, size);
		memcpy(&buffer->payers[i].uid, (char *)nla_data(uids) + i * size, size);
	}
	buffer->payers_known = (uint32_t)count;
	/* There cannot be fewer than are told of. */
	if (buffer->payer_count < count)
		buffer->payer_count = (uint32_t)count;
}

int distmind_record_buffer(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_BUFFER_MAX + 1];
	struct distmind_buffer_record *buffer = record;

	if (parse(table, DISTMIND_A_BUFFER_MAX, head, len, buffer_policy))
		return -EBADMSG;
	memset(buffer, 0, sizeof(*buffer));
	buffer->id = get_u32(table[DISTMIND_A_BUFFER_ID]);
	buffer->vgpu = get_u32(table[DISTMIND_A_BUFFER_VGPU]);
	buffer->gpu = get_u32(table[DISTMIND_A_BUFFER_GPU]);
	buffer->size = get_u64(table[DISTMIND_A_BUFFER_SIZE]);
	buffer->offset = get_u64(table[DISTMIND_A_BUFFER_OFFSET]);
	buffer->kind = get_u32(table[DISTMIND_A_BUFFER_KIND]);
	buffer->pins = get_u32(table[DISTMIND_A_BUFFER_PINS]);
	buffer->exports = get_u32(table[DISTMIND_A_BUFFER_EXPORTS]);
	buffer->payer_count = get_u32(table[DISTMIND_A_BUFFER_PAYER_COUNT]);
	get_payers(buffer, table[DISTMIND_A_BUFFER_PAYERS], table[DISTMIND_A_BUFFER_PAYER_UIDS]);
	return 0;
}

int distmind_record_claim(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_CLAIM_MAX + 1];
	struct distmind_claim_record *claim = record;

	if (parse(table, DISTMIND_A_CLAIM_MAX, head, len, claim_policy))
		return -EBADMSG;
	memset(claim, 0, sizeof(*claim));
	claim->id = get_u32(table[DISTMIND_A_CLAIM_ID]);
	get_text(claim->name, table[DISTMIND_A_CLAIM_NAME]);
	get_text(claim->kind, table[DISTMIND_A_CLAIM_KIND]);
	claim->pid = get_u32(table[DISTMIND_A_CLAIM_PID]);
	claim->uid = get_u32(table[DISTMIND_A_CLAIM_UID]);
	claim->gid = get_u32(table[DISTMIND_A_CLAIM_GID]);
	claim->memory = get_u64(table[DISTMIND_A_CLAIM_MEMORY]);
	claim->share = get_u32(table[DISTMIND_A_CLAIM_SHARE]);
	claim->sched_class = get_u32(table[DISTMIND_A_CLAIM_CLASS]);
	claim->objective_ns = get_u64(table[DISTMIND_A_CLAIM_OBJECTIVE]);
	claim->count = get_u32(table[DISTMIND_A_CLAIM_COUNT]);
	claim->flags = get_u32(table[DISTMIND_A_CLAIM_FLAGS]);
	claim->remaining_ms = get_u32(table[DISTMIND_A_CLAIM_REMAINING]);
	return 0;
}

int distmind_record_limit(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_LIMIT_MAX + 1];
	struct distmind_limit_record *limit = record;

	if (parse(table, DISTMIND_A_LIMIT_MAX, head, len, limit_policy))
		return -EBADMSG;
	memset(limit, 0, sizeof(*limit));
	limit->uid = get_u32(table[DISTMIND_A_LIMIT_UID]);
	limit->container = table[DISTMIND_A_LIMIT_CONTAINER];
	get_text(limit->what, table[DISTMIND_A_LIMIT_WHAT]);
	limit->used = get_u32(table[DISTMIND_A_LIMIT_USED]);
	limit->allowed = UINT32_MAX;
	if (table[DISTMIND_A_LIMIT_ALLOWED])
		limit->allowed = get_u32(table[DISTMIND_A_LIMIT_ALLOWED]);
	limit->refused = get_u32(table[DISTMIND_A_LIMIT_REFUSED]);
	return 0;
}

int distmind_record_preempt(struct nlattr *head, int len, void *record)
{
	struct nlattr *table[DISTMIND_A_PREEMPT_MAX + 1];
	struct distmind_preempt_record *preempt = record;

	if (parse(table, DISTMIND_A_PREEMPT_MAX, head, len, preempt_policy))
		return -EBADMSG;
	memset(preempt, 0, sizeof(*preempt));
	preempt->rung = get_u32(table[DISTMIND_A_PREEMPT_RUNG]);
	preempt->gpu = get_u32(table[DISTMIND_A_PREEMPT_GPU]);
	preempt->lane = get_u32(table[DISTMIND_A_PREEMPT_LANE]);
	preempt->vgpu = get_u32(table[DISTMIND_A_PREEMPT_VGPU]);
	preempt->job = get_u64(table[DISTMIND_A_PREEMPT_JOB]);
	preempt->latency_ns = get_u64(table[DISTMIND_A_PREEMPT_LATENCY]);
	preempt->result = (int32_t)get_u32(table[DISTMIND_A_PREEMPT_RESULT]);
	return 0;
}
