// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "latency.h"
#include "listing.h"
#include "noun.h"
#include "options.h"
#include "parse.h"

/* What the kernel takes as a limit of time. */
#define LIMIT_MAX (3600 * NSEC_PER_SEC)

enum print_colour gpu_colour(uint32_t state)
{
	switch (state) {
	case DISTMIND_GPU_STATE_READY:
		return PRINT_COLOUR_GOOD;
	case DISTMIND_GPU_STATE_DRAINING:
		return PRINT_COLOUR_WARN;
	default:
		return PRINT_COLOUR_BAD;
	}
}

static void print_percentile(struct print *print, const struct distmind_gpu_record *gpu,
			     const char *key, const char *heading, unsigned int percent)
{
	uint64_t ns = latency_percentile(gpu->preempt_latency, DISTMIND_LATENCY_BUCKETS, percent);

	if (ns)
		print_duration(print, key, heading, ns, 1);
	else
		print_none(print, key, heading);
}

static void print_execution(struct print *print, const struct distmind_gpu_record *gpu)
{
	print_number(print, "compute_lanes", "LANES", gpu->compute_lanes);
	print_number(print, "copy_lanes", "COPY", gpu->copy_lanes);
	print_number(print, "lanes_out", "OUT", gpu->lanes_out);
	print_duration(print, "grace_ns", "GRACE", gpu->grace_ns, 1);
	print_duration(print, "hang_ns", "HANG", gpu->hang_ns, 1);
	print_statistics(print);
	print_number(print, "jobs", "JOBS", gpu->jobs);
	print_number(print, "failed_jobs", "FAILED", gpu->failed_jobs);
	print_duration(print, "busy_ns", "BUSY", gpu->busy_ns, 1);
	print_number(print, "hangs", "HANGS", gpu->hangs);
	print_number(print, "evictions", "EVICTED", gpu->evictions);
	print_number(print, "memory_evictions", "PUT OUT", gpu->memory_evictions);
	print_number(print, "preemptions", "PREEMPTED", gpu->preemptions);
	print_percentile(print, gpu, "preempt_p50_ns", "YIELD P50", 50);
	print_percentile(print, gpu, "preempt_p99_ns", "YIELD P99", 99);
	print_latency(print, "preempt_latency", "YIELDS", gpu->preempt_latency,
		      DISTMIND_LATENCY_BUCKETS);
}

void gpu_print(struct print *print, const struct distmind_gpu_record *gpu)
{
	print_number(print, "id", "ID", gpu->id);
	print_text(print, "name", "NAME", gpu->name);
	print_text(print, "kind", "KIND", gpu->kind);
	print_state(print, "state", "STATE", distmind_gpu_state_name(gpu->state),
		    gpu_colour(gpu->state));
	print_number(print, "box", "BOX", gpu->box);
	if (gpu->numa_node == DISTMIND_NUMA_ANY)
		print_none(print, "numa_node", "NUMA");
	else
		print_number(print, "numa_node", "NUMA", gpu->numa_node);
	print_size(print, "memory", "MEMORY", gpu->memory);
	print_size(print, "memory_used", "USED", gpu->memory_used);
	print_number(print, "vgpus", "VGPUS", gpu->vgpus);
	print_number(print, "engine_pid", "ENGINE", gpu->engine_pid);
	print_text(print, "policy", "POLICY", gpu->policy);
	print_detail(print);
	print_execution(print, gpu);
}

static int print_row(const struct distmind_gpu_record *gpu, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	gpu_print(print, gpu);
	print_row_close(print);
	return 0;
}

static int gpu_rows(struct distmind_pool *pool, struct print *print)
{
	return distmind_pool_gpus(pool, print_row, print);
}

static int gpu_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct listing gpus = {
		"gpus", gpu_rows, GPU_HINT,
		GPU_HINT,
	};

	return listing_run(ctl, argc, argv, &gpus);
}

struct by_name {
	const char *name;
	struct distmind_gpu_record *gpu;
	bool found;
};

static int match_name(const struct distmind_gpu_record *gpu, void *arg)
{
	struct by_name *search = arg;

	if (strcmp(gpu->name, search->name))
		return 0;
	*search->gpu = *gpu;
	search->found = true;
	return 0;
}

int gpu_find(struct ctl *ctl, const char *word, struct distmind_gpu_record *gpu)
{
	struct by_name search = { .name = word, .gpu = gpu };
	uint32_t id;
	int ret;

	if (!ctl_pool(ctl))
		return CTL_FAILED;
	if (!number_parse(word, 0, UINT32_MAX - 1, &id)) {
		ret = distmind_pool_gpu(ctl->pool, id, gpu);
		search.found = !ret;
		if (ret == -ENOENT || ret == -ENODEV)
			ret = 0;
	} else {
		ret = distmind_pool_gpus(ctl->pool, match_name, &search);
	}
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot look up gpu %s", word);
	if (!search.found)
		return ctl_fail(ctl, "there is no gpu %s; see: distmindctl gpu list", word);
	return CTL_OK;
}

int gpu_accepts(struct ctl *ctl, const struct distmind_gpu_record *gpu, const char *what)
{
	switch (gpu->state) {
	case DISTMIND_GPU_STATE_LOST:
		return ctl_fail(ctl,
				"%s: gpu %u (%s) is lost; restart its engine or choose another",
				what, gpu->id, gpu->name);
	case DISTMIND_GPU_STATE_DRAINING:
		return ctl_fail(ctl, "%s: gpu %u (%s) is draining; run: distmindctl gpu undrain %u",
				what, gpu->id, gpu->name, gpu->id);
	}
	return CTL_OK;
}

static int show(struct ctl *ctl, const struct distmind_gpu_record *gpu)
{
	struct print print;

	ctl_print_open(ctl, &print);
	print_list_open(&print, "gpus", PRINT_RECORD);
	print_row(gpu, &print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

static int gpu_show(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_gpu_record gpu;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = gpu_find(ctl, argv[0], &gpu);
	if (ret)
		return ret;
	return show(ctl, &gpu);
}

int gpu_may_set(struct ctl *ctl, const struct distmind_gpu_record *gpu, const char *what)
{
	if (gpu->state == DISTMIND_GPU_STATE_LOST)
		return ctl_fail(ctl,
				"cannot %s gpu %u (%s): it is lost; restart its engine, or run: "
				"distmindctl gpu remove %u",
				what, gpu->id, gpu->name, gpu->id);
	return ctl_need_admin(ctl, "cannot %s gpu %u (%s)", what, gpu->id, gpu->name);
}

static int set_drain(struct ctl *ctl, int argc, char **argv, bool drain)
{
	const char *verb = drain ? "drain" : "undrain";
	struct distmind_gpu_record gpu;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = gpu_find(ctl, argv[0], &gpu);
	if (ret)
		return ret;
	ret = gpu_may_set(ctl, &gpu, verb);
	if (ret)
		return ret;
	if (ctl->dry_run) {
		if ((gpu.state == DISTMIND_GPU_STATE_DRAINING) == drain)
			return ctl_would(ctl, verb, "gpu", gpu.id,
					 "change nothing: gpu %u (%s) is %s already", gpu.id,
					 gpu.name, distmind_gpu_state_name(gpu.state));
		if (!drain)
			return ctl_would(ctl, verb, "gpu", gpu.id, "take gpu %u (%s) back into use",
					 gpu.id, gpu.name);
		return ctl_would(ctl, verb, "gpu", gpu.id,
				 "drain gpu %u (%s); %u vgpu%s on it would go on", gpu.id, gpu.name,
				 gpu.vgpus, gpu.vgpus == 1 ? "" : "s");
	}
	ret = distmind_pool_gpu_drain(ctl->pool, gpu.id, drain);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot %s gpu %u (%s)", verb, gpu.id, gpu.name);
	return CTL_OK;
}

static int gpu_drain(struct ctl *ctl, int argc, char **argv)
{
	return set_drain(ctl, argc, argv, true);
}

static int gpu_undrain(struct ctl *ctl, int argc, char **argv)
{
	return set_drain(ctl, argc, argv, false);
}

static int gpu_remove(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_gpu_record gpu;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = gpu_find(ctl, argv[0], &gpu);
	if (ret)
		return ret;
	if (gpu.state != DISTMIND_GPU_STATE_LOST && gpu.vgpus)
		return ctl_fail(ctl,
				"cannot remove gpu %u (%s): %u vgpu%s bound to it; drain it and "
				"move or delete its vgpus first: distmindctl vgpu list",
				gpu.id, gpu.name, gpu.vgpus, gpu.vgpus == 1 ? " is" : "s are");
	ret = ctl_need_admin(ctl, "cannot remove gpu %u (%s)", gpu.id, gpu.name);
	if (ret)
		return ret;
	if (ctl->dry_run)
		return ctl_would(ctl, "remove", "gpu", gpu.id,
				 "remove gpu %u (%s), which is %s, and park %u vgpu%s", gpu.id,
				 gpu.name, distmind_gpu_state_name(gpu.state), gpu.vgpus,
				 gpu.vgpus == 1 ? "" : "s");
	ret = distmind_pool_gpu_remove(ctl->pool, gpu.id);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot remove gpu %u (%s)", gpu.id, gpu.name);
	return CTL_OK;
}

/* How long a job may take to leave its lane: two limits, set in the same way. */
struct limit {
	const char *verb;
	const char *text;
	uint64_t least;
	const char *range;
	uint64_t (*get)(const struct distmind_gpu_record *gpu);
	int (*set)(struct distmind_pool *pool, uint32_t id, uint64_t ns);
};

static uint64_t get_grace(const struct distmind_gpu_record *gpu)
{
	return gpu->grace_ns;
}

static uint64_t get_hang(const struct distmind_gpu_record *gpu)
{
	return gpu->hang_ns;
}

static const struct limit grace = {
	"grace", "grace period", 1000, "1us to 1h", get_grace, distmind_pool_gpu_grace,
};

static const struct limit hang = {
	"hang", "hang limit", NSEC_PER_MSEC, "1ms to 1h", get_hang, distmind_pool_gpu_hang,
};

static int set_limit(struct ctl *ctl, int argc, char **argv, const struct limit *limit)
{
	struct distmind_gpu_record gpu;
	char from[32], to[32], what[64];
	uint64_t ns;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 2);
	if (!argv)
		return ctl->status;
	if (duration_parse(argv[1], &ns) || ns < limit->least || ns > LIMIT_MAX)
		return ctl_usage(ctl, "%s is not a duration from %s, write it as 10s", argv[1],
				 limit->range);
	snprintf(what, sizeof(what), "set the %s of", limit->text);
	ret = gpu_find(ctl, argv[0], &gpu);
	if (!ret)
		ret = gpu_may_set(ctl, &gpu, what);
	if (ret)
		return ret;
	if (ctl->dry_run) {
		duration_format(limit->get(&gpu), from, sizeof(from));
		duration_format(ns, to, sizeof(to));
		if (ns == limit->get(&gpu))
			return ctl_would(ctl, limit->verb, "gpu", gpu.id,
					 "change nothing: the %s of gpu %u (%s) is %s already",
					 limit->text, gpu.id, gpu.name, to);
		return ctl_would(ctl, limit->verb, "gpu", gpu.id,
				 "change the %s of gpu %u (%s) from %s to %s", limit->text, gpu.id,
				 gpu.name, from, to);
	}
	ret = limit->set(ctl->pool, gpu.id, ns);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot set the %s of gpu %u (%s)", limit->text,
				     gpu.id, gpu.name);
	return CTL_OK;
}

static int gpu_grace(struct ctl *ctl, int argc, char **argv)
{
	return set_limit(ctl, argc, argv, &grace);
}

static int gpu_hang(struct ctl *ctl, int argc, char **argv)
{
	return set_limit(ctl, argc, argv, &hang);
}

const struct command gpu_verbs[] = {
	{ "list", "", "Show all gpus.", gpu_list },
	{ "show", "GPU", "Show one gpu, by its number or name.", gpu_show },
	{ "drain", "GPU", "Bind no new vgpus to it; those that it has go on.", gpu_drain },
	{ "undrain", "GPU", "Take it back into use.", gpu_undrain },
	{ "remove", "GPU", "Remove a lost or unused gpu from the pool.", gpu_remove },
	{ "grace", "GPU TIME", "Set when a job that was asked to yield meets the vendor's hook.",
	  gpu_grace },
	{ "hang", "GPU TIME", "Set how long a job may go on after it was asked to yield.",
	  gpu_hang },
	{ 0 },
};

int gpu_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, gpu_verbs, argc, argv);
}
