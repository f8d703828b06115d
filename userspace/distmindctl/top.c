// SPDX-License-Identifier: GPL-2.0-or-later
/* How busy the gpus are: what their counters did between two looks at them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/clock.h"
#include "latency.h"
#include "noun.h"
#include "options.h"
#include "parse.h"
#include "screen.h"

#define INTERVAL_MIN   (10 * NSEC_PER_MSEC)
#define INTERVAL_MAX   (3600 * NSEC_PER_SEC)
/* Nobody likes to wait in front of an empty screen. */
#define INTERVAL_FIRST (250 * NSEC_PER_MSEC)

/* The pool at a time. Its memory serves the sample after the next again. */
struct sample {
	uint64_t time;
	struct distmind_gpu_record *gpus;
	size_t gpu_count, gpu_room;
	struct distmind_vgpu_record *vgpus;
	size_t vgpu_count, vgpu_room;
};

struct options {
	uint64_t interval;
	bool once;
};

static int make_room(void **array, size_t *room, size_t count, size_t size)
{
	void *grown;

	if (count < *room)
		return 0;
	grown = reallocarray(*array, 2 * count + 16, size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*room = 2 * count + 16;
	return 0;
}

static int add_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct sample *sample = arg;

	if (make_room((void **)&sample->gpus, &sample->gpu_room, sample->gpu_count, sizeof(*gpu)))
		return -ENOMEM;
	sample->gpus[sample->gpu_count++] = *gpu;
	return 0;
}

static int add_vgpu(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct sample *sample = arg;

	if (make_room((void **)&sample->vgpus, &sample->vgpu_room, sample->vgpu_count,
		      sizeof(*vgpu)))
		return -ENOMEM;
	sample->vgpus[sample->vgpu_count++] = *vgpu;
	return 0;
}

static int take(struct ctl *ctl, struct sample *sample)
{
	int ret;

	sample->gpu_count = 0;
	sample->vgpu_count = 0;
	sample->time = clock_ns();
	ret = distmind_pool_gpus(ctl->pool, add_gpu, sample);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	ret = distmind_pool_vgpus(ctl->pool, add_vgpu, sample);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the vgpus");
	return CTL_OK;
}

static void release(struct sample *sample)
{
	free(sample->gpus);
	free(sample->vgpus);
}

/* The gpu as it was; one that was not there, or was another, began with nothing. */
static const struct distmind_gpu_record *find_before(const struct sample *before,
						     const struct distmind_gpu_record *gpu)
{
	static const struct distmind_gpu_record nothing;
	const struct distmind_gpu_record *old;
	size_t i;

	for (i = 0; i < before->gpu_count; i++) {
		old = &before->gpus[i];
		if (old->id != gpu->id)
			continue;
		if (old->jobs > gpu->jobs || old->busy_ns > gpu->busy_ns ||
		    old->preemptions > gpu->preemptions)
			break;
		return old;
	}
	return &nothing;
}

/* The vgpu as it was. */
static const struct distmind_vgpu_record *find_vgpu(const struct sample *before,
						    const struct distmind_vgpu_record *vgpu)
{
	static const struct distmind_vgpu_record nothing;
	size_t i;

	for (i = 0; i < before->vgpu_count; i++) {
		const struct distmind_vgpu_record *old = &before->vgpus[i];

		if (old->id == vgpu->id && old->jobs <= vgpu->jobs &&
		    old->busy_ns <= vgpu->busy_ns && old->wait_ns <= vgpu->wait_ns &&
		    old->preemptions <= vgpu->preemptions && old->requests <= vgpu->requests)
			return old;
	}
	return &nothing;
}

/*
 * Thousandths of the time that so many lanes had. A vgpu may have several lanes, and a wait
 * is counted when it is over, so that more may be counted than there was.
 */
static uint32_t part(uint64_t ns, uint64_t elapsed, uint32_t lanes)
{
	double lane_time = (double)elapsed * lanes;
	double used = lane_time > 0 ? ns / lane_time : 0;

	return used < 1 ? used * DISTMIND_SHARE_WHOLE + 0.5 : DISTMIND_SHARE_WHOLE;
}

/* Jobs of the vgpus on a gpu: those that have not ended, and those on its lanes. */
struct depth {
	uint64_t queued, running;
};

static struct depth depth_of(const struct sample *sample, uint32_t gpu)
{
	struct depth depth = { 0 };
	size_t i;

	for (i = 0; i < sample->vgpu_count; i++) {
		if (sample->vgpus[i].gpu != gpu)
			continue;
		depth.queued += sample->vgpus[i].queued;
		depth.running += sample->vgpus[i].running;
	}
	return depth;
}

static void print_gpu(struct print *print, const struct distmind_gpu_record *gpu,
		      const struct distmind_gpu_record *old, struct depth depth, uint64_t elapsed)
{
	print_row_open(print);
	print_number(print, "id", "ID", gpu->id);
	print_text(print, "name", "NAME", gpu->name);
	print_state(print, "state", "STATE", distmind_gpu_state_name(gpu->state),
		    gpu_colour(gpu->state));
	print_text(print, "policy", "POLICY", gpu->policy);
	print_number(print, "compute_lanes", "LANES", gpu->compute_lanes);
	print_number(print, "copy_lanes", "COPY", gpu->copy_lanes);
	print_number(print, "lanes_out", "OUT", gpu->lanes_out);
	print_share(print, "utilisation", "UTIL",
		    part(gpu->busy_ns - old->busy_ns, elapsed, gpu->compute_lanes));
	print_number(print, "running", "RUN", depth.running);
	print_number(print, "queued", "QUEUED", depth.queued);
	print_rate(print, "jobs_per_s", "JOBS/S", gpu->jobs - old->jobs, elapsed);
	print_rate(print, "preemptions_per_s", "PREEMPT/S", gpu->preemptions - old->preemptions,
		   elapsed);
	print_number(print, "failed_jobs", "FAILED", gpu->failed_jobs);
	print_number(print, "hangs", "HANGS", gpu->hangs);
	print_size(print, "memory", "MEMORY", gpu->memory);
	print_size(print, "memory_used", "USED", gpu->memory_used);
	print_row_close(print);
}

/* What happened to its requests since then, or an empty column each if there were none. */
static void print_requests(struct print *print, const struct distmind_vgpu_record *vgpu,
			   const struct distmind_vgpu_record *old, uint64_t elapsed)
{
	uint64_t latency[DISTMIND_LATENCY_BUCKETS], spent[DISTMIND_REQUEST_PHASE_MAX + 1];
	uint64_t all = 0, most = 0;
	unsigned int i, where = 0;
	char text[64];

	for (i = 0; i < DISTMIND_LATENCY_BUCKETS; i++)
		latency[i] = vgpu->request_latency[i] - old->request_latency[i];
	for (i = 0; i <= DISTMIND_REQUEST_PHASE_MAX; i++) {
		spent[i] = vgpu->request_ns[i] - old->request_ns[i];
		all += spent[i];
		if (spent[i] > most) {
			most = spent[i];
			where = i;
		}
	}
	print_rate(print, "requests_per_s", "REQ/S", vgpu->requests - old->requests, elapsed);
	if (vgpu->requests == old->requests || !all) {
		print_none(print, "request_p99_ns", "P99");
		print_none(print, "request_mostly", "MOSTLY");
		return;
	}
	print_duration(print, "request_p99_ns", "P99",
		       latency_percentile(latency, DISTMIND_LATENCY_BUCKETS, 99), 1);
	snprintf(text, sizeof(text), "%s %.0f%%", distmind_request_phase_name(where),
		 100.0 * (double)most / (double)all);
	print_text(print, "request_mostly", "MOSTLY", text);
}

/* Where the time of requests went, each by itself; for who reads JSON. */
static void print_request_times(struct print *print, const struct distmind_vgpu_record *vgpu)
{
	char key[32];

	print_number(print, "requests", "REQUESTS", (int64_t)vgpu->requests);
	print_number(print, "failed_requests", "FAILED", (int64_t)vgpu->failed_requests);
	print_number(print, "open_requests", "OPEN", vgpu->open_requests);
	for (unsigned int i = 0; i <= DISTMIND_REQUEST_PHASE_MAX; i++) {
		snprintf(key, sizeof(key), "request_%s_ns", distmind_request_phase_name(i));
		print_number(print, key, "TIME", (int64_t)vgpu->request_ns[i]);
	}
	print_latency(print, "request_latency", "LATENCY", vgpu->request_latency,
		      DISTMIND_LATENCY_BUCKETS);
}

/* What a vgpu has in its own list, and this table has no room for. */
static void print_vgpu_rest(struct print *print, const struct distmind_vgpu_record *vgpu)
{
	print_text(print, "state", "STATE", distmind_vgpu_state_name(vgpu->state));
	if (vgpu->objective_ns)
		print_duration(print, "objective_ns", "OBJECTIVE", vgpu->objective_ns, 1);
	else
		print_none(print, "objective_ns", "OBJECTIVE");
	if (vgpu->pid)
		print_number(print, "pid", "PID", vgpu->pid);
	else
		print_none(print, "pid", "PID");
	print_group(print, "gid", "GROUP", vgpu->gid);
	print_text(print, "lease", "LEASE",
		   vgpu->lease == DISTMIND_VGPU_LEASE_ADMIN ? "admin" : "file");
	print_number(print, "clients", "CLIENTS", vgpu->clients);
	print_number(print, "buffers", "BUFFERS", vgpu->buffers);
	print_number(print, "preemptions", "PREEMPTED", vgpu->preemptions);
	print_request_times(print, vgpu);
}

static void print_vgpu(struct print *print, const struct distmind_vgpu_record *vgpu,
		       const struct distmind_vgpu_record *old, uint64_t elapsed)
{
	print_row_open(print);
	print_number(print, "id", "ID", vgpu->id);
	print_text(print, "name", "NAME", vgpu->name);
	if (vgpu->gpu == DISTMIND_GPU_NONE)
		print_none(print, "gpu", "GPU");
	else
		print_number(print, "gpu", "GPU", vgpu->gpu);
	print_text(print, "class", "CLASS", distmind_class_name(vgpu->sched_class));
	print_share(print, "share", "SHARE", vgpu->share);
	print_share(print, "utilisation", "UTIL", part(vgpu->busy_ns - old->busy_ns, elapsed, 1));
	print_share(print, "pressure", "WAIT", part(vgpu->wait_ns - old->wait_ns, elapsed, 1));
	print_number(print, "running", "RUN", vgpu->running);
	print_number(print, "queued", "QUEUED", vgpu->queued);
	print_rate(print, "jobs_per_s", "JOBS/S", vgpu->jobs - old->jobs, elapsed);
	print_rate(print, "preemptions_per_s", "PREEMPT/S", vgpu->preemptions - old->preemptions,
		   elapsed);
	print_requests(print, vgpu, old, elapsed);
	print_number(print, "misses", "MISSED", vgpu->misses);
	print_size(print, "memory", "MEMORY", vgpu->memory);
	print_size(print, "memory_used", "USED", vgpu->memory_used);
	print_user(print, "uid", "USER", vgpu->uid);
	print_detail(print);
	print_bool(print, "capped", "CAPPED", vgpu->capped);
	print_vgpu_rest(print, vgpu);
	print_row_close(print);
}

static void print_sample(struct print *print, const struct sample *before,
			 const struct sample *sample)
{
	uint64_t elapsed = sample->time - before->time;
	size_t i;

	print_head_open(print);
	print_time(print);
	print_duration(print, "interval_ns", "INTERVAL", elapsed, 1);
	print_head_close(print);
	if (sample->gpu_count || print->json) {
		print_list_open(print, "gpus", PRINT_TABLE);
		for (i = 0; i < sample->gpu_count; i++)
			print_gpu(print, &sample->gpus[i], find_before(before, &sample->gpus[i]),
				  depth_of(sample, sample->gpus[i].id), elapsed);
		print_list_close(print);
	}
	if (sample->vgpu_count || print->json) {
		print_list_open(print, "vgpus", PRINT_TABLE);
		for (i = 0; i < sample->vgpu_count; i++)
			print_vgpu(print, &sample->vgpus[i], find_vgpu(before, &sample->vgpus[i]),
				   elapsed);
		print_list_close(print);
	}
}

static int show(struct ctl *ctl, struct screen *screen, const struct sample *before,
		const struct sample *sample)
{
	struct print print;
	FILE *picture;
	char *text;
	size_t len;
	int ret;

	if (!screen->live) {
		ctl_print_open(ctl, &print);
		print_sample(&print, before, sample);
		return ctl_print_close(ctl, &print);
	}
	picture = open_memstream(&text, &len);
	if (!picture)
		return ctl_fail(ctl, "cannot draw: %s; free memory and try again",
				strerror(errno));
	print_open(&print, picture, false, ctl->colour);
	print_sample(&print, before, sample);
	if (!sample->gpu_count)
		fputs("\n" GPU_HINT "\n", picture);
	ret = print_close(&print);
	fclose(picture);
	if (!ret)
		screen_draw(screen, text);
	free(text);
	if (ret || ferror(ctl->out))
		return ctl_fail(ctl, "cannot write the output: %s; check where it goes",
				strerror(ret ? -ret : EIO));
	return CTL_OK;
}

static int watch(struct ctl *ctl, struct screen *screen, const struct options *options)
{
	struct sample samples[2] = { 0 };
	uint64_t interval = options->interval;
	uint64_t next = clock_ns();
	unsigned int shown = 0;
	unsigned int i = 0;
	int ret;

	if (screen->live && interval > INTERVAL_FIRST)
		interval = INTERVAL_FIRST;
	ret = take(ctl, &samples[0]);
	while (!ret) {
		/* At even times, except after somebody has stopped us. */
		next += interval;
		if (next < clock_ns())
			next = clock_ns() + interval;
		if (!screen_wait(screen, next))
			break;
		i ^= 1;
		ret = take(ctl, &samples[i]);
		if (ret)
			break;
		if (!samples[i].gpu_count && !screen->live)
			ctl_hint(ctl, GPU_HINT);
		if (shown++ && !screen->live && !ctl->json)
			fputc('\n', ctl->out);
		ret = show(ctl, screen, &samples[i ^ 1], &samples[i]);
		if (ret || options->once)
			break;
		interval = options->interval;
	}
	release(&samples[0]);
	release(&samples[1]);
	return ret;
}

int top_command(struct ctl *ctl, int argc, char **argv)
{
	struct options options = { .interval = NSEC_PER_SEC };
	const struct ctl_option known[] = {
		{ "interval", option_duration, .to = &options.interval,
		  .min = INTERVAL_MIN, .max = INTERVAL_MAX },
		{ "once", option_flag, .to = &options.once },
		{ 0 },
	};
	struct screen screen = { 0 };
	int ret;

	if (ctl_options(ctl, argc, &argv, known, 0) < 0)
		return ctl->status;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	if (options.once) {
		/* One sample is for keeping. */
		screen.out = ctl->out;
		return watch(ctl, &screen, &options);
	}
	ret = screen_open(&screen, ctl);
	if (ret)
		return ret;
	ret = watch(ctl, &screen, &options);
	screen_close(&screen);
	return ret;
}
