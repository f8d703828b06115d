/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pool without a kernel, for tests of distmindctl: these functions stand in
 * for libdistmind's at link time. Included by the one file of a test program.
 */
#ifndef TESTS_UNIT_CTL_FAKE_H
#define TESTS_UNIT_CTL_FAKE_H

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../userspace/distmindctl/ctl.h"

struct distmind_pool {
	int unused;
};

struct distmind_vgpu {
	int fd;
};

static struct {
	struct distmind_gpu_record gpus[4];
	unsigned int gpu_count;
	struct distmind_vgpu_record vgpus[8];
	unsigned int vgpu_count;
	struct distmind_buffer_record buffers[4];
	unsigned int buffer_count;
	struct distmind_claim_record claims[4];
	unsigned int claim_count;
	struct distmind_limit_record limits[4];
	unsigned int limit_count;
	struct distmind_query query;

	int open_error;
	/* Before each list of gpus; the calls so far. A failure of the list, or 0. */
	int (*look)(unsigned int looks);
	unsigned int looks;
	int change_error;	/* of every call that changes something */
	const char *error_text;
	const char *reason;	/* of a refused acquire */
	int acquire_error;

	unsigned int changes;	/* calls that would have changed the pool */
	struct distmind_vgpu_record set;
	uint32_t set_fields;
	struct distmind_claim asked;
	unsigned int dispatched;
} fake;

int distmind_query(struct distmind_query *query)
{
	*query = fake.query;
	return fake.open_error;
}

int distmind_pool_open(struct distmind_pool **pool)
{
	static struct distmind_pool the_pool;

	*pool = &the_pool;
	return fake.open_error;
}

void distmind_pool_close(struct distmind_pool *pool)
{
	(void)pool;
}

const char *distmind_pool_error(const struct distmind_pool *pool)
{
	(void)pool;
	return fake.error_text ? fake.error_text : "";
}

static inline int fake_look_gpu(void)
{
	return fake.look ? fake.look(fake.looks++) : 0;
}

static inline int fake_look_vgpu(void)
{
	return 0;
}

#define fake_look_buffer  fake_look_vgpu
#define fake_look_claim fake_look_vgpu
#define fake_look_limit fake_look_vgpu

#define FAKE_LIST(noun)                                                                    \
	int distmind_pool_##noun##s(struct distmind_pool *pool,                            \
				    int (*each)(const struct distmind_##noun##_record *,   \
						void *),                                   \
				    void *arg)                                             \
	{                                                                                  \
		int ret = fake_look_##noun();                                              \
		unsigned int i;                                                            \
                                                                                           \
		(void)pool;                                                                \
		for (i = 0; i < fake.noun##_count && !ret; i++)                            \
			ret = each(&fake.noun##s[i], arg);                                 \
		return ret;                                                                \
	}

FAKE_LIST(gpu)
FAKE_LIST(vgpu)
FAKE_LIST(buffer)
FAKE_LIST(claim)
FAKE_LIST(limit)

int distmind_pool_gpu(struct distmind_pool *pool, uint32_t id, struct distmind_gpu_record *gpu)
{
	unsigned int i;

	(void)pool;
	for (i = 0; i < fake.gpu_count; i++) {
		if (fake.gpus[i].id != id)
			continue;
		*gpu = fake.gpus[i];
		return 0;
	}
	return -ENOENT;
}

int distmind_pool_vgpu(struct distmind_pool *pool, uint32_t id, struct distmind_vgpu_record *vgpu)
{
	unsigned int i;

	(void)pool;
	for (i = 0; i < fake.vgpu_count; i++) {
		if (fake.vgpus[i].id != id)
			continue;
		*vgpu = fake.vgpus[i];
		return 0;
	}
	return -ENOENT;
}

int distmind_pool_gpu_drain(struct distmind_pool *pool, uint32_t id, bool drain)
{
	(void)pool;
	fake.changes++;
	fake.gpus[id].state = drain ? DISTMIND_GPU_STATE_DRAINING : DISTMIND_GPU_STATE_READY;
	return fake.change_error;
}

int distmind_pool_gpu_remove(struct distmind_pool *pool, uint32_t id)
{
	(void)pool;
	(void)id;
	fake.changes++;
	return fake.change_error;
}

int distmind_pool_gpu_policy(struct distmind_pool *pool, uint32_t id, const char *policy)
{
	(void)pool;
	fake.changes++;
	strcpy(fake.gpus[id].policy, policy);
	return fake.change_error;
}

int distmind_pool_gpu_grace(struct distmind_pool *pool, uint32_t id, uint64_t grace_ns)
{
	(void)pool;
	fake.changes++;
	fake.gpus[id].grace_ns = grace_ns;
	return fake.change_error;
}

int distmind_pool_gpu_hang(struct distmind_pool *pool, uint32_t id, uint64_t hang_ns)
{
	(void)pool;
	fake.changes++;
	fake.gpus[id].hang_ns = hang_ns;
	return fake.change_error;
}

int distmind_pool_vgpu_create(struct distmind_pool *pool, struct distmind_vgpu_record *record)
{
	(void)pool;
	fake.changes++;
	record->id = 7;
	fake.set = *record;
	return fake.change_error;
}

int distmind_pool_vgpu_set(struct distmind_pool *pool, const struct distmind_vgpu_record *record,
			   uint32_t fields)
{
	(void)pool;
	fake.changes++;
	fake.set = *record;
	fake.set_fields = fields;
	return fake.change_error;
}

int distmind_pool_vgpu_delete(struct distmind_pool *pool, uint32_t id)
{
	(void)pool;
	(void)id;
	fake.changes++;
	return fake.change_error;
}

int distmind_pool_subscribe(struct distmind_pool *pool)
{
	(void)pool;
	return fake.change_error;
}

int distmind_pool_subscribe_preempt(struct distmind_pool *pool)
{
	return distmind_pool_subscribe(pool);
}

int distmind_pool_event_fd(const struct distmind_pool *pool)
{
	static int fd = -1;

	(void)pool;
	/* Always readable. */
	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	return fd;
}

int distmind_pool_dispatch(struct distmind_pool *pool,
			   void (*each)(const struct distmind_event *event, void *arg), void *arg)
{
	struct distmind_event event = { .type = fake.dispatched };

	(void)pool;
	if (fake.dispatched++ > DISTMIND_EVENT_OVERRUN)
		return -ENOBUFS;
	if (event.type <= DISTMIND_EVENT_GPU_DEL)
		event.gpu = fake.gpus[0];
	else if (event.type <= DISTMIND_EVENT_VGPU_DEL)
		event.vgpu = fake.vgpus[0];
	else
		event.claim = fake.claims[0];
	each(&event, arg);
	return 1;
}

int distmind_acquire(const struct distmind_claim *claim, struct distmind_vgpu **vgpus,
		     char *reason)
{
	unsigned int i;

	fake.changes++;
	fake.asked = *claim;
	if (fake.acquire_error) {
		strcpy(reason, fake.reason ? fake.reason : "");
		return fake.acquire_error;
	}
	for (i = 0; i < claim->count; i++) {
		vgpus[i] = calloc(1, sizeof(*vgpus[i]));
		vgpus[i]->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	}
	return 0;
}

void distmind_vgpu_close(struct distmind_vgpu *vgpu)
{
	close(vgpu->fd);
	free(vgpu);
}

int distmind_vgpu_fd(const struct distmind_vgpu *vgpu)
{
	return vgpu->fd;
}

int distmind_vgpu_info(struct distmind_vgpu *vgpu, struct distmind_vgpu_info *info)
{
	(void)vgpu;
	*info = (struct distmind_vgpu_info){ .id = 3 };
	return 0;
}

/*
 * Two gpus, of which the second is lost, and two vgpus, of which the second is
 * parked.
 */
static inline int fake_setup(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.query.version = DISTMIND_ABI_VERSION;
	fake.gpus[0] = (struct distmind_gpu_record){ .id = 0, .name = "cpu0", .kind = "cpu",
		.state = DISTMIND_GPU_STATE_READY, .numa_node = DISTMIND_NUMA_ANY,
		.memory = 1ULL << 30, .memory_used = 64 << 20, .vgpus = 1, .engine_pid = 311,
		.policy = "slo", .compute_lanes = 2, .copy_lanes = 1, .lanes_out = 1, .grace_ns = 100000000, .hang_ns = 10000000000,
		.jobs = 12345, .failed_jobs = 2, .busy_ns = 61500000000, .preemptions = 101,
		.hangs = 1, .preempt_latency = { [5] = 60, [7] = 40, [23] = 1 } };
	fake.gpus[1] = (struct distmind_gpu_record){ .id = 1, .name = "cpu1", .kind = "cpu",
		.state = DISTMIND_GPU_STATE_LOST, .box = 1, .memory = 2ULL << 30,
		.engine_pid = 312, .policy = "fifo", .compute_lanes = 1, .grace_ns = 50000000, .hang_ns = 1500000000 };
	fake.gpu_count = 2;
	fake.vgpus[0] = (struct distmind_vgpu_record){ .id = 3, .name = "train", .gpu = 0,
		.state = DISTMIND_VGPU_STATE_BOUND, .uid = 0, .pid = 400, .memory = 512 << 20,
		.memory_used = 64 << 20, .share = 125, .sched_class = DISTMIND_CLASS_LATENCY,
		.objective_ns = 10000000, .clients = 1, .buffers = 1 };
	fake.vgpus[1] = (struct distmind_vgpu_record){ .id = 4, .gpu = DISTMIND_GPU_NONE,
		.state = DISTMIND_VGPU_STATE_PARKED, .lease = DISTMIND_VGPU_LEASE_ADMIN,
		.uid = 4242424, .memory = 4096, .share = 1000,
		.sched_class = DISTMIND_CLASS_STANDARD };
	fake.vgpu_count = 2;
	fake.buffers[0] = (struct distmind_buffer_record){ .id = 9, .vgpu = 3, .size = 64 << 20,
		.offset = 4096, .kind = DISTMIND_BUFFER_WEIGHTS, .pins = 2, .exports = 3,
		.payer_count = 2, .payers_known = 2, .payers = { { 4, 1000 }, { DISTMIND_VGPU_ENDED, 0 } } };
	fake.buffer_count = 1;
	fake.claims[0] = (struct distmind_claim_record){ .id = 5, .name = "batch", .pid = 500,
		.memory = 1 << 20, .share = 500, .sched_class = DISTMIND_CLASS_BEST_EFFORT, .count = 2,
		.flags = DISTMIND_CLAIM_FLAGS_SAME_BOX, .remaining_ms = 1500 };
	fake.claim_count = 1;
	fake.limits[0] = (struct distmind_limit_record){ .uid = 0, .what = "queues", .used = 3,
		.allowed = UINT32_MAX };
	fake.limits[1] = (struct distmind_limit_record){ .uid = 4242424, .what = "jobs",
		.used = 100, .allowed = 131072, .refused = 2 };
	fake.limit_count = 2;
	return 0;
}

/* What a run of the tool left behind. */
struct outcome {
	int status;
	char *out;
	char *err;
};

static inline void outcome_free(struct outcome *outcome)
{
	free(outcome->out);
	free(outcome->err);
	*outcome = (struct outcome){ 0 };
}

/*
 * The tool with the words of a line; usually as root, and without a terminal. What it writes is
 * kept, unless it has an output of its own.
 */
static inline struct outcome ctl_with(struct ctl ctl, const char *line)
{
	size_t out_len, err_len;
	struct outcome outcome = { 0 };
	char *copy = strdup(line);
	char *words[32] = { "distmindctl" };
	char *word, *state;
	int count = 1;

	for (word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state))
		words[count++] = word;
	if (!ctl.out)
		ctl.out = open_memstream(&outcome.out, &out_len);
	ctl.err = open_memstream(&outcome.err, &err_len);
	outcome.status = ctl_main(&ctl, count, words);
	ctl_close(&ctl);
	fclose(ctl.out);
	fclose(ctl.err);
	free(copy);
	return outcome;
}

static inline struct outcome ctl_as(bool admin, const char *line)
{
	return ctl_with((struct ctl){ .admin = admin }, line);
}

static inline struct outcome ctl(const char *line)
{
	return ctl_as(true, line);
}

/* What it writes goes to a file. */
static inline struct outcome ctl_to(const char *path, const char *line)
{
	return ctl_with((struct ctl){ .admin = true, .out = fopen(path, "w") }, line);
}

/* It has these words, and nothing is said where there are none. */
static inline void assert_says(const char *text, const char *words)
{
	if (*words ? !strstr(text, words) : *text)
		fail_msg("not \"%s\" but: %s", words, text);
}

#endif /* TESTS_UNIT_CTL_FAKE_H */
