// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The heuristic: jobs by size, each to the kind where its fraction costs least while
 * there are gpus of it, into the tightest gpu; then gpus are emptied into others or
 * exchanged for cheaper ones, the least used first. The search goes through all
 * assignments with the heuristic's as the one to beat, jobs by size, gpus in the same
 * state only once, and stops where a bound says that it cannot get better.
 */
#include "fraction.h"

#include "claim.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SEARCH_JOBS_MAX 16
#define SEARCH_STEPS_MAX 2000000
/* Passes over the gpus; a pass that changes nothing is the last. */
#define PASSES_MAX 4

struct gpu {
	uint32_t kind;
	uint32_t left;
	uint32_t jobs;
	uint32_t first; /* job */
};

struct work {
	const struct placement_fractions *problem;
	struct gpu *gpus;
	uint32_t gpu_count;
	uint32_t first_gpu[PLACEMENT_FRACTION_KINDS + 1];
	uint32_t *next; /* job on the same gpu */
	uint32_t *where;
	uint32_t *order; /* of jobs, the largest first */
	/* Gpus in use of each kind by what they have left: a list for each. */
	uint32_t (*by_left)[PLACEMENT_WHOLE + 1];
	uint64_t (*some_left)[PLACEMENT_WHOLE / 64 + 1]; /* bit per list that is not empty */
	uint32_t *list_next, *list_prev;
	uint32_t unused[PLACEMENT_FRACTION_KINDS]; /* all before it are in use */
};

static double cost_of(const struct work *work, uint32_t job, uint32_t kind)
{
	uint32_t share = work->problem->jobs[job].share[kind];

	return share ? work->problem->kinds[kind].cost * share / PLACEMENT_WHOLE : INFINITY;
}

static double cheapest(const struct work *work, uint32_t job)
{
	double best = INFINITY;

	for (uint32_t k = 0; k < work->problem->kind_count; k++)
		best = fmin(best, cost_of(work, job, k));
	return best;
}

struct sized {
	uint32_t job;
	uint32_t share;
	double cost;
};

static int compare_sized(const void *left, const void *right)
{
	const struct sized *a = left, *b = right;

	if (a->share != b->share)
		return a->share > b->share ? -1 : 1;
	if (a->cost != b->cost)
		return a->cost > b->cost ? -1 : 1;
	return a->job < b->job ? -1 : a->job > b->job;
}

/* By the fraction of the kind where it is cheapest. */
static int make_order(struct work *work)
{
	uint32_t count = work->problem->job_count;
	struct sized *sized = calloc(count ? count : 1, sizeof(*sized));

	if (!sized)
		return -ENOMEM;
	for (uint32_t j = 0; j < count; j++) {
		sized[j] = (struct sized){ .job = j, .cost = cheapest(work, j) };
		for (uint32_t k = 0; k < work->problem->kind_count; k++)
			if (cost_of(work, j, k) == sized[j].cost)
				sized[j].share = work->problem->jobs[j].share[k];
	}
	qsort(sized, count, sizeof(*sized), compare_sized);
	for (uint32_t i = 0; i < count; i++)
		work->order[i] = sized[i].job;
	free(sized);
	return 0;
}

static void free_work(struct work *work)
{
	free(work->gpus);
	free(work->next);
	free(work->where);
	free(work->order);
	free(work->by_left);
	free(work->some_left);
	free(work->list_next);
	free(work->list_prev);
}

static int make_work(struct work *work, const struct placement_fractions *problem)
{
	uint32_t jobs = problem->job_count ? problem->job_count : 1, gpu = 0;

	*work = (struct work){ .problem = problem };
	for (uint32_t k = 0; k < problem->kind_count; k++) {
		work->first_gpu[k] = work->unused[k] = work->gpu_count;
		work->gpu_count += problem->kinds[k].gpus;
	}
	work->first_gpu[problem->kind_count] = work->gpu_count;
	work->gpus = calloc(work->gpu_count + 1, sizeof(*work->gpus));
	work->next = calloc(jobs, sizeof(*work->next));
	work->where = calloc(jobs, sizeof(*work->where));
	work->order = calloc(jobs, sizeof(*work->order));
	work->by_left = calloc(problem->kind_count + 1, sizeof(*work->by_left));
	work->some_left = calloc(problem->kind_count + 1, sizeof(*work->some_left));
	work->list_next = calloc(work->gpu_count + 1, sizeof(*work->list_next));
	work->list_prev = calloc(work->gpu_count + 1, sizeof(*work->list_prev));
	if (!work->gpus || !work->next || !work->where || !work->order || !work->by_left ||
	    !work->some_left || !work->list_next || !work->list_prev || make_order(work)) {
		free_work(work);
		return -ENOMEM;
	}
	memset(work->by_left, 0xff, (problem->kind_count + 1) * sizeof(*work->by_left));
	memset(work->where, 0xff, jobs * sizeof(*work->where));
	for (uint32_t k = 0; k < problem->kind_count; k++)
		for (uint32_t i = 0; i < problem->kinds[k].gpus; i++, gpu++)
			work->gpus[gpu] = (struct gpu){ k, PLACEMENT_WHOLE, 0, PLACEMENT_NONE };
	return 0;
}

static void unlist(struct work *work, uint32_t gpu)
{
	uint32_t kind = work->gpus[gpu].kind, left = work->gpus[gpu].left;
	uint32_t next = work->list_next[gpu], prev = work->list_prev[gpu];

	if (prev != PLACEMENT_NONE)
		work->list_next[prev] = next;
	else
		work->by_left[kind][left] = next;
	if (next != PLACEMENT_NONE)
		work->list_prev[next] = prev;
	if (work->by_left[kind][left] == PLACEMENT_NONE)
		work->some_left[kind][left / 64] &= ~(1ULL << left % 64);
}

static void list(struct work *work, uint32_t gpu)
{
	uint32_t kind = work->gpus[gpu].kind, left = work->gpus[gpu].left;

	work->list_prev[gpu] = PLACEMENT_NONE;
	work->list_next[gpu] = work->by_left[kind][left];
	if (work->list_next[gpu] != PLACEMENT_NONE)
		work->list_prev[work->list_next[gpu]] = gpu;
	work->by_left[kind][left] = gpu;
	work->some_left[kind][left / 64] |= 1ULL << left % 64;
}

static void put(struct work *work, uint32_t job, uint32_t number)
{
	struct gpu *gpu = &work->gpus[number];

	if (gpu->jobs++)
		unlist(work, number);
	gpu->left -= work->problem->jobs[job].share[gpu->kind];
	work->next[job] = gpu->first;
	gpu->first = job;
	work->where[job] = number;
	list(work, number);
}

static void take(struct work *work, uint32_t job)
{
	uint32_t number = work->where[job];
	struct gpu *gpu = &work->gpus[number];
	uint32_t *link = &gpu->first;

	unlist(work, number);
	while (*link != job)
		link = &work->next[*link];
	*link = work->next[job];
	gpu->left += work->problem->jobs[job].share[gpu->kind];
	work->where[job] = PLACEMENT_NONE;
	if (--gpu->jobs)
		list(work, number);
	else if (number < work->unused[gpu->kind])
		work->unused[gpu->kind] = number;
}

/* The gpu in use of a kind that has least left, but enough; not except. */
static uint32_t tightest(const struct work *work, uint32_t kind, uint32_t share, uint32_t except)
{
	for (uint32_t word = share / 64; word <= PLACEMENT_WHOLE / 64; word++) {
		uint64_t bits = work->some_left[kind][word];

		if (word == share / 64)
			bits &= ~0ULL << share % 64;
		for (; bits; bits &= bits - 1) {
			uint32_t left = word * 64 + (uint32_t)__builtin_ctzll(bits);
			uint32_t gpu = work->by_left[kind][left];

			if (gpu == except)
				gpu = work->list_next[gpu];
			if (gpu != PLACEMENT_NONE)
				return gpu;
		}
	}
	return PLACEMENT_NONE;
}

static uint32_t unused(struct work *work, uint32_t kind)
{
	while (work->unused[kind] < work->first_gpu[kind + 1] &&
	       work->gpus[work->unused[kind]].jobs)
		work->unused[kind]++;
	return work->unused[kind] < work->first_gpu[kind + 1] ? work->unused[kind] :
								PLACEMENT_NONE;
}

/* Where its fraction costs least; a gpu that is in use before one that is not. */
static uint32_t choose(struct work *work, uint32_t job)
{
	const struct placement_fraction_job *wanted = &work->problem->jobs[job];
	uint32_t best = PLACEMENT_NONE, gpu;
	double least = INFINITY, cost;

	if (wanted->gpu != PLACEMENT_NONE && wanted->gpu < work->gpu_count &&
	    wanted->move_cost > 0) {
		const struct gpu *own = &work->gpus[wanted->gpu];
		uint32_t share = wanted->share[own->kind];

		if (share && share <= own->left)
			return wanted->gpu;
	}
	for (uint32_t k = 0; k < work->problem->kind_count; k++) {
		if (!wanted->share[k] || wanted->share[k] > PLACEMENT_WHOLE)
			continue;
		cost = cost_of(work, job, k);
		gpu = tightest(work, k, wanted->share[k], PLACEMENT_NONE);
		if (gpu == PLACEMENT_NONE)
			gpu = unused(work, k);
		if (gpu == PLACEMENT_NONE || cost >= least)
			continue;
		least = cost;
		best = gpu;
	}
	return best;
}

static double move_cost(const struct work *work, uint32_t job, uint32_t gpu)
{
	const struct placement_fraction_job *wanted = &work->problem->jobs[job];

	return wanted->gpu != PLACEMENT_NONE && wanted->gpu != gpu ? wanted->move_cost : 0;
}

/* By where the jobs are alone: the search does not keep the rest up. */
static int total_cost(const struct work *work, double *cost)
{
	uint8_t *used = calloc(work->gpu_count + 1, 1);

	if (!used)
		return -ENOMEM;
	*cost = 0;
	for (uint32_t j = 0; j < work->problem->job_count; j++) {
		uint32_t gpu = work->where[j];

		if (gpu == PLACEMENT_NONE)
			continue;
		*cost += move_cost(work, j, gpu);
		if (!used[gpu])
			*cost += work->problem->kinds[work->gpus[gpu].kind].cost;
		used[gpu] = 1;
	}
	free(used);
	return 0;
}

/* All jobs of a gpu to others in use; false: it stays as it was. */
static bool empty(struct work *work, uint32_t number)
{
	uint32_t moved[PLACEMENT_WHOLE], count = 0, job, to;
	double gain = work->problem->kinds[work->gpus[number].kind].cost;

	while (work->gpus[number].jobs && count < PLACEMENT_WHOLE) {
		job = work->gpus[number].first;
		to = PLACEMENT_NONE;
		for (uint32_t k = 0; k < work->problem->kind_count && to == PLACEMENT_NONE; k++)
			if (work->problem->jobs[job].share[k])
				to = tightest(work, k, work->problem->jobs[job].share[k], number);
		if (to == PLACEMENT_NONE)
			break;
		gain -= move_cost(work, job, to) - move_cost(work, job, number);
		take(work, job);
		put(work, job, to);
		moved[count++] = job;
	}
	if (!work->gpus[number].jobs && gain > 1e-12)
		return true;
	while (count--) {
		take(work, moved[count]);
		put(work, moved[count], number);
	}
	return false;
}

/* All jobs of a gpu to an unused one that costs less. */
static bool exchange(struct work *work, uint32_t number)
{
	uint32_t kind = work->gpus[number].kind, best = PLACEMENT_NONE, job, next;
	double least = work->problem->kinds[kind].cost - 1e-12;

	for (uint32_t k = 0; k < work->problem->kind_count; k++) {
		double cost = work->problem->kinds[k].cost;
		uint32_t to = unused(work, k);
		uint64_t share = 0;
		bool can = true;

		if (to == PLACEMENT_NONE || k == kind)
			continue;
		for (job = work->gpus[number].first; job != PLACEMENT_NONE; job = work->next[job]) {
			can = can && work->problem->jobs[job].share[k];
			share += work->problem->jobs[job].share[k];
			cost += move_cost(work, job, to) - move_cost(work, job, number);
		}
		if (can && share <= PLACEMENT_WHOLE && cost < least) {
			least = cost;
			best = to;
		}
	}
	if (best == PLACEMENT_NONE)
		return false;
	for (job = work->gpus[number].first; job != PLACEMENT_NONE; job = next) {
		next = work->next[job];
		take(work, job);
		put(work, job, best);
	}
	return true;
}

static void improve(struct work *work)
{
	for (int pass = 0; pass < PASSES_MAX; pass++) {
		bool changed = false;

		for (uint32_t i = work->gpu_count; i--;)
			if (work->gpus[i].jobs && work->gpus[i].left)
				changed |= empty(work, i) || exchange(work, i);
		if (!changed)
			return;
	}
}

/*
 * The search
 */

struct search {
	const struct work *work;
	uint32_t *gpu_left; /* of every gpu */
	uint32_t *gpu_jobs;
	bool *somebodys; /* a job is on it before */
	double rest[SEARCH_JOBS_MAX + 1]; /* that jobs from here on cost at least */
	uint32_t now[SEARCH_JOBS_MAX], best[SEARCH_JOBS_MAX];
	double best_cost;
	uint64_t steps;
};

/* What is open could be had for nothing. */
static double open_value(const struct search *search)
{
	const struct work *work = search->work;
	double value = 0;

	for (uint32_t i = 0; i < work->gpu_count; i++)
		if (search->gpu_jobs[i])
			value += work->problem->kinds[work->gpus[i].kind].cost *
				 search->gpu_left[i] / PLACEMENT_WHOLE;
	return value;
}

/* Has a gpu before it the same kind and state, so that it need not be tried? */
static bool tried(const struct search *search, uint32_t gpu)
{
	const struct work *work = search->work;

	if (search->somebodys[gpu])
		return false;
	for (uint32_t i = work->first_gpu[work->gpus[gpu].kind]; i < gpu; i++)
		if (!search->somebodys[i] && search->gpu_left[i] == search->gpu_left[gpu] &&
		    !search->gpu_jobs[i] == !search->gpu_jobs[gpu])
			return true;
	return false;
}

static void go_on(struct search *search, uint32_t at, double cost)
{
	const struct work *work = search->work;
	uint32_t job, share;
	double more;

	if (cost + fmax(0, search->rest[at] - open_value(search)) >= search->best_cost - 1e-9 ||
	    search->steps++ > SEARCH_STEPS_MAX)
		return;
	if (at == work->problem->job_count) {
		search->best_cost = cost;
		memcpy(search->best, search->now, sizeof(search->best));
		return;
	}
	job = work->order[at];
	/* Those in use first: good ones are found early. */
	for (int opened = 1; opened >= 0; opened--)
		for (uint32_t i = 0; i < work->gpu_count; i++) {
			share = work->problem->jobs[job].share[work->gpus[i].kind];
			if (!share || share > search->gpu_left[i] ||
			    (search->gpu_jobs[i] > 0) != opened || tried(search, i))
				continue;
			more = move_cost(work, job, i);
			if (!opened)
				more += work->problem->kinds[work->gpus[i].kind].cost;
			search->gpu_left[i] -= share;
			search->gpu_jobs[i]++;
			search->now[at] = i;
			go_on(search, at + 1, cost + more);
			search->gpu_left[i] += share;
			search->gpu_jobs[i]--;
		}
}

static int search_best(struct work *work, double cost)
{
	struct search search = { .work = work, .best_cost = cost };
	uint32_t count = work->problem->job_count;
	int err = -ENOMEM;

	search.gpu_left = calloc(work->gpu_count + 1, sizeof(*search.gpu_left));
	search.gpu_jobs = calloc(work->gpu_count + 1, sizeof(*search.gpu_jobs));
	search.somebodys = calloc(work->gpu_count + 1, sizeof(*search.somebodys));
	if (!search.gpu_left || !search.gpu_jobs || !search.somebodys)
		goto out;
	for (uint32_t i = 0; i < work->gpu_count; i++)
		search.gpu_left[i] = PLACEMENT_WHOLE;
	for (uint32_t i = count; i--;) {
		uint32_t own = work->problem->jobs[work->order[i]].gpu;

		search.rest[i] = search.rest[i + 1] + cheapest(work, work->order[i]);
		if (own < work->gpu_count)
			search.somebodys[own] = true;
	}
	go_on(&search, 0, 0);
	if (search.best_cost < cost)
		for (uint32_t i = 0; i < count; i++)
			work->where[work->order[i]] = search.best[i];
	err = 0;
out:
	free(search.gpu_left);
	free(search.gpu_jobs);
	free(search.somebodys);
	return err;
}

static int answer(struct placement_fractions *fractions, const struct work *work)
{
	fractions->left_out = 0;
	for (uint32_t j = 0; j < fractions->job_count; j++) {
		fractions->gpus[j] = work->where[j];
		fractions->left_out += work->where[j] == PLACEMENT_NONE;
	}
	return total_cost(work, &fractions->cost);
}

int placement_fractions_solve(struct placement_fractions *fractions)
{
	struct work work;
	uint32_t left_out = 0, gpu;
	double cost;
	int err;

	err = make_work(&work, fractions);
	if (err)
		return err;
	for (uint32_t i = 0; i < fractions->job_count; i++) {
		gpu = choose(&work, work.order[i]);
		if (gpu == PLACEMENT_NONE)
			left_out++;
		else
			put(&work, work.order[i], gpu);
	}
	improve(&work);
	if (fractions->job_count <= SEARCH_JOBS_MAX) {
		cost = INFINITY;
		if (!left_out)
			err = total_cost(&work, &cost);
		if (!err)
			err = search_best(&work, cost);
	}
	if (!err)
		err = answer(fractions, &work);
	free_work(&work);
	return err;
}

int placement_fractions_first_fit(struct placement_fractions *fractions)
{
	struct work work;
	int err;

	err = make_work(&work, fractions);
	if (err)
		return err;
	for (uint32_t j = 0; j < fractions->job_count; j++)
		for (uint32_t i = 0; i < work.gpu_count; i++) {
			uint32_t share = fractions->jobs[j].share[work.gpus[i].kind];

			if (!share || share > work.gpus[i].left)
				continue;
			put(&work, j, i);
			break;
		}
	err = answer(fractions, &work);
	free_work(&work);
	return err;
}
