// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event.h"
#include "serve.h"

#define TICK_NS 250000000ULL

struct waiting {
	struct sim_job *jobs; /* owned */
	size_t head, count, size;
};

struct run {
	const struct sim_serve_config *config;
	const struct sim_system *system;
	struct sim_serve_result *result;
	struct router *router;
	struct router_model *models;
	uint64_t *objectives; /* of each model */
	struct sim_gpu *gpus;
	uint32_t gpu_count;
	struct sim_event event;
	struct waiting waiting; /* those that no gpu may take yet */
	double ns_per_byte;	/* of the network */

	uint64_t from_ns;  /* what arrives before is not counted */
	uint64_t until_ns; /* when the last one ended */
	uint64_t interval_ns;
};

static int waiting_push(struct waiting *waiting, const struct sim_job *job)
{
	size_t size = waiting->size ? 2 * waiting->size : 64;
	struct sim_job *jobs;

	if (waiting->count == waiting->size) {
		jobs = malloc(size * sizeof(*jobs));
		if (!jobs)
			return -ENOMEM;
		for (size_t i = 0; i < waiting->count; i++)
			jobs[i] = waiting->jobs[(waiting->head + i) % waiting->size];
		free(waiting->jobs);
		waiting->jobs = jobs;
		waiting->head = 0;
		waiting->size = size;
	}
	waiting->jobs[(waiting->head + waiting->count++) % waiting->size] = *job;
	return 0;
}

/* Only what is in the time that counts. */
static void account(struct run *run, double *sum, double *over_time, uint64_t from, uint64_t to)
{
	uint64_t interval, end;

	if (from < run->from_ns)
		from = run->from_ns;
	if (to <= from)
		return;
	*sum += (double)(to - from) / 1e9;
	while (from < to) {
		interval = (from - run->from_ns) / run->interval_ns;
		if (interval >= SIM_SERVE_INTERVALS)
			return;
		end = run->from_ns + (interval + 1) * run->interval_ns;
		if (end > to)
			end = to;
		over_time[interval] += (double)(end - from) / 1e9;
		from = end;
	}
}

static struct router_request request_of(const struct sim_job *job)
{
	return (struct router_request){
		.model = job->model,
		.compute_ns = job->compute_ns,
		.extra_ns = job->extra_ns,
		.deadline_ns = job->deadline_ns,
	};
}

/* A gpu that runs nothing takes its next job, if one is ready. */
static void start_next(struct run *run, uint32_t index, uint64_t now)
{
	struct sim_serve_result *result = run->result;
	struct sim_gpu *gpu = &run->gpus[index];
	struct router_request request;
	struct sim_gap gap;

	if (sim_gpu_pick(gpu, now, run->system->policy->deadline_order, &gpu->job)) {
		sim_gpu_gap(gpu, &run->config->training, now, &gpu->job, &gap);
		account(run, &result->training, result->training_over_time,
			gap.start_ns - gap.trained_ns, gap.start_ns);
		if (gpu->job.arrival_ns >= run->from_ns)
			result->preemptions += gap.preempted;
		if (!run->system->ahead) {
			request = request_of(&gpu->job);
			if (gpu->job.arrival_ns >= run->from_ns)
				result->from[router_tier(run->router, index, request.model)]++;
			gpu->job.ready_ns = router_load(run->router, index, &request, now);
			if (gpu->job.ready_ns > gap.start_ns)
				gap.start_ns = gpu->job.ready_ns;
		}
		gpu->running = true;
		gpu->next_ns = gap.start_ns + gpu->job.compute_ns;
	}
	sim_event_set(&run->event, index, gpu->next_ns);
}

/* 0; -EAGAIN: no gpu may take it yet; -ENOMEM. */
static int place(struct run *run, struct sim_job *job, uint64_t now)
{
	struct router_request request = request_of(job);
	struct sim_serve_result *result = run->result;
	struct router_decision decision;
	int err = router_route(run->router, &request, now, &decision);

	if (err == -ETIME) {
		if (!*result->refusal)
			router_explain(run->router, &request, now, &decision, result->refusal,
				       sizeof(result->refusal));
		if (job->arrival_ns >= run->from_ns) {
			result->refused++;
			result->latency.never++;
		}
		return 0;
	}
	if (err)
		return err;
	job->ready_ns = job->arrival_ns;
	if (run->system->ahead) {
		if (job->arrival_ns >= run->from_ns)
			result->from[decision.tier]++;
		job->ready_ns = router_load(run->router, decision.gpu, &request, now);
	}
	router_assign(run->router, decision.gpu, &request, job->ready_ns);
	err = sim_gpu_enqueue(&run->gpus[decision.gpu], job);
	if (!err && !run->gpus[decision.gpu].running)
		start_next(run, decision.gpu, now);
	return err;
}

static int arrive(struct run *run, const struct sim_request *request)
{
	struct sim_job job = {
		.arrival_ns = request->arrival_ns,
		.deadline_ns = request->arrival_ns + run->objectives[request->model],
		.compute_ns = request->compute_ns,
		.extra_ns = (uint64_t)((double)request->extra_bytes * run->ns_per_byte),
		.model = request->model,
	};
	int err = -EAGAIN;

	/* A request longer than usual may take longer. */
	if (job.compute_ns > run->models[job.model].compute_ns)
		job.deadline_ns += (uint64_t)(run->config->objective *
					      (double)(job.compute_ns -
						       run->models[job.model].compute_ns));
	job.deadline_ns += (uint64_t)(run->config->objective * (double)job.extra_ns);
	job.order = run->system->policy->deadline_order ? job.deadline_ns : job.arrival_ns;
	run->result->requests += job.arrival_ns >= run->from_ns;
	if (!run->waiting.count)
		err = place(run, &job, job.arrival_ns);
	return err == -EAGAIN ? waiting_push(&run->waiting, &job) : err;
}

static int finish(struct run *run, uint32_t index, uint64_t now)
{
	struct sim_gpu *gpu = &run->gpus[index];
	struct waiting *waiting = &run->waiting;
	struct sim_serve_result *result = run->result;
	int err = 0;

	account(run, &result->inference, result->inference_over_time, now - gpu->job.compute_ns,
		now);
	if (gpu->job.arrival_ns >= run->from_ns) {
		sim_histogram_add(&result->latency, now - gpu->job.arrival_ns);
		result->late += now > gpu->job.deadline_ns;
	}
	run->until_ns = now;
	gpu->running = false;
	gpu->idle_ns = now;
	router_finish(run->router, index, gpu->job.model, now);
	start_next(run, index, now);
	while (waiting->count && !err) {
		err = place(run, &waiting->jobs[waiting->head], now);
		if (err)
			break;
		waiting->head = (waiting->head + 1) % waiting->size;
		waiting->count--;
	}
	return err == -EAGAIN ? 0 : err;
}

static int act(struct run *run)
{
	uint32_t index = sim_event_first(&run->event);
	uint64_t now = sim_event_time(&run->event);

	if (run->gpus[index].running)
		return finish(run, index, now);
	start_next(run, index, now);
	return 0;
}

static void tick(struct run *run, uint64_t now)
{
	uint32_t model, gpu;

	router_tick(run->router, now);
	/* As many as there are links to load them. */
	for (uint32_t i = 0; i < run->config->hosts; i++)
		run->result->replicas += router_replicate(run->router, now, &model, &gpu);
}

static int loop(struct run *run, struct sim_workload *workload)
{
	uint64_t warm_up = run->config->warm_up, next_tick = TICK_NS;
	struct sim_request request;
	bool more = sim_workload_next(workload, &request);
	int err = 0;

	run->from_ns = warm_up ? UINT64_MAX : 0;
	while (!err && (more || sim_event_time(&run->event) != SIM_EVENT_NEVER)) {
		if (more && request.arrival_ns < sim_event_time(&run->event)) {
			while (request.arrival_ns >= next_tick) {
				tick(run, next_tick);
				next_tick += TICK_NS;
			}
			if (warm_up && !--warm_up)
				run->from_ns = request.arrival_ns;
			err = arrive(run, &request);
			more = sim_workload_next(workload, &request);
		} else {
			err = act(run);
		}
	}
	return err;
}

/* The gpus that are idle at the end have been training. */
static void settle(struct run *run)
{
	struct sim_serve_result *result = run->result;

	for (uint32_t i = 0; i < run->gpu_count; i++)
		if (run->config->training.preemption != SIM_PREEMPT_NONE)
			account(run, &result->training, result->training_over_time,
				run->gpus[i].idle_ns + run->config->training.resume_ns,
				run->until_ns);
	if (run->until_ns > run->from_ns)
		result->seconds = (double)(run->until_ns - run->from_ns) / 1e9;
	result->gpu_seconds = result->seconds * run->gpu_count;
	result->rate = result->seconds ? (double)result->latency.count / result->seconds : 0;
	result->interval_seconds = (double)run->interval_ns / 1e9;
	for (int i = 0; i < SIM_SERVE_INTERVALS; i++) {
		result->inference_over_time[i] /= result->interval_seconds * run->gpu_count;
		result->training_over_time[i] /= result->interval_seconds * run->gpu_count;
	}
}

static int prepare(struct run *run, struct sim_workload *workload)
{
	const struct sim_serve_config *config = run->config;
	struct sim_serve_config alone = *config;
	struct router_config router = {
		.policy = config->system->policy,
		.model_count = workload->model_count,
		.gpu_count = run->gpu_count,
		.host_count = config->hosts,
		.gpu_cache = config->gpu_cache,
		.host_cache = config->host_cache,
		.seed = config->seed,
	};
	struct router_model *reference = NULL;
	uint32_t *hosts = calloc(run->gpu_count, sizeof(*hosts));
	int err = sim_profile(workload, config, &run->models);

	/* The objective is the same whatever the system can do. */
	alone.system = sim_system_at(0);
	if (!err)
		err = sim_profile(workload, &alone, &reference);
	run->objectives = calloc(workload->model_count, sizeof(*run->objectives));
	run->gpus = calloc(run->gpu_count, sizeof(*run->gpus));
	if (!err && (!hosts || !run->objectives || !run->gpus))
		err = -ENOMEM;
	for (uint32_t i = 0; !err && i < workload->model_count; i++)
		run->objectives[i] = (uint64_t)(config->objective *
						(double)(reference[i].lead_ns[ROUTER_TIER_POOL] +
							 reference[i].compute_ns));
	for (uint32_t i = 0; !err && i < run->gpu_count; i++) {
		hosts[i] = i / config->gpus;
		run->gpus[i].next_ns = SIM_EVENT_NEVER;
	}
	router.models = run->models;
	router.gpu_hosts = hosts;
	if (!err)
		err = router_create(&router, &run->router);
	if (!err)
		err = sim_event_create(&run->event, run->gpu_count);
	free(reference);
	free(hosts);
	return err;
}

int sim_serve_run(const struct sim_serve_config *config, struct sim_workload *workload,
		  struct sim_serve_result *result)
{
	struct run run = {
		.config = config, .system = config->system, .result = result,
		.ns_per_byte = 1e9 / config->rates.network,
	};
	int err;

	memset(result, 0, sizeof(*result));
	if (!config->hosts || !config->gpus || !(config->load > 0) || !(config->objective > 0) ||
	    (!config->requests && !workload->trace) ||
	    __builtin_mul_overflow(config->hosts, config->gpus, &run.gpu_count) ||
	    (config->training.preemption == SIM_PREEMPT_ITERATION &&
	     !config->training.iteration_ns))
		return -EINVAL;
	sim_workload_start(workload, config->load * run.gpu_count, config->requests, config->seed);
	if (config->warm_up >= workload->last)
		return -EINVAL;
	/* Some of it is after the last arrival, or the last interval would be cut. */
	run.interval_ns = (uint64_t)((double)sim_workload_length(workload) *
				     (1 - (double)config->warm_up / (double)workload->last) /
				     SIM_SERVE_INTERVALS) + 1;
	err = prepare(&run, workload);
	if (!err)
		err = loop(&run, workload);
	if (!err)
		settle(&run);
	for (uint32_t i = 0; run.gpus && i < run.gpu_count; i++)
		free(run.gpus[i].queue);
	free(run.gpus);
	free(run.models);
	free(run.objectives);
	free(run.waiting.jobs);
	sim_event_destroy(&run.event);
	router_destroy(run.router);
	return err;
}

double sim_serve_misses(const struct sim_serve_result *result)
{
	return result->requests ? (double)(result->refused + result->late) /
					  (double)result->requests : 0;
}

double sim_serve_harvest(const struct sim_serve_result *result)
{
	double left = result->gpu_seconds - result->inference;

	return left > 0 ? result->training / left : 1;
}

double sim_serve_utilisation(const struct sim_serve_result *result)
{
	return result->gpu_seconds ? (result->inference + result->training) / result->gpu_seconds :
				     0;
}

#define CAPACITY_STEPS 9
#define CAPACITY_MOST 1.5

int sim_serve_capacity(const struct sim_serve_config *config, struct sim_workload *workload,
		       double misses, struct sim_serve_result *result, double *load)
{
	struct sim_serve_config try = *config;
	double low = 0, high = CAPACITY_MOST;
	int err = 0;

	for (int i = 0; !err && i < CAPACITY_STEPS; i++) {
		try.load = (low + high) / 2;
		err = sim_serve_run(&try, workload, result);
		if (err)
			break;
		if (sim_serve_misses(result) <= misses)
			low = try.load;
		else
			high = try.load;
	}
	*load = low;
	if (err || !low)
		return err;
	try.load = low;
	return sim_serve_run(&try, workload, result);
}
