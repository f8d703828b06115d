// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The optimal grouping, by a search over prefixes, the most promising first.
 *
 * A state is a grouping of the layers before a cut, reduced to the times at
 * which the three stages are free again. What a grouping of the remaining
 * layers makes of a state is monotone in all three times, being made of sums
 * and maxima only. So the search is exact with these rules:
 *
 *  - Only cuts that are worth it (tails.c) are tried.
 *  - Of two states at the same cut, one that is nowhere earlier is dropped:
 *    whatever follows it can follow the other one.
 *  - The next group's copy cannot begin before the next layer has been read,
 *    nor its compute before that layer has been copied. A stage that is free
 *    earlier than that is as good as one that is free just then; states are
 *    compared after such times have been raised, which makes more of them
 *    comparable.
 *  - A state is dropped if its bound (tails.c) says that it cannot finish before
 *    a grouping that exists.
 *  - A group is not extended further when all layers from its first one on,
 *    computed after its copy, are too late: with more layers the copy only gets
 *    later.
 *
 * States wait in a heap by their bounds. A better grouping than the one that is
 * taken from it first would have a state in the heap, itself or one as good,
 * with a lower bound: hence the first is the optimum. Integers make all of these
 * comparisons exact.
 *
 * How many states that takes depends on the model. planner_bounded() leaves out cuts
 * first, which bounds everything but the search. After so much effort it goes once
 * through the cuts, from the most promising states of each, and takes the best then.
 */
#include "tails.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/* States looked at and numbers of groups tried for them: some ten milliseconds. */
#define EFFORT_MAX 10000000
/* States of each cut from which a search that was given up goes on. */
#define SWEEP_WIDTH 4

struct state {
	struct planner_stages stages;
	int64_t bound;
	uint32_t cut;
	uint32_t before; /* the state that this one follows */
	uint32_t beside; /* the next one at the same cut */
	bool dropped;
};

struct search {
	struct planner_tails tails;
	struct state *states; /* owned, in the order in which they were found */
	uint32_t count, room;
	uint32_t *heap; /* owned, as long as states */
	uint32_t waiting;
	uint32_t *fronts; /* owned: for each cut the first of its states */
	int64_t best;	  /* of the finished ones */
	uint32_t finished; /* that one, or NONE */
	uint64_t effort;   /* that is left */
};

static int64_t longer(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Among equals the one that has come further. */
static bool before(const struct search *search, uint32_t a, uint32_t b)
{
	const struct state *x = &search->states[a], *y = &search->states[b];

	return x->bound < y->bound || (x->bound == y->bound && x->cut > y->cut);
}

static void heap_push(struct search *search, uint32_t which)
{
	uint32_t at = search->waiting++;

	while (at && before(search, which, search->heap[(at - 1) / 2])) {
		search->heap[at] = search->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	search->heap[at] = which;
}

static uint32_t heap_pop(struct search *search)
{
	uint32_t first = search->heap[0], which = search->heap[--search->waiting], at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= search->waiting)
			break;
		if (child + 1 < search->waiting &&
		    before(search, search->heap[child + 1], search->heap[child]))
			child++;
		if (!before(search, search->heap[child], which))
			break;
		search->heap[at] = search->heap[child];
		at = child;
	}
	search->heap[at] = which;
	return first;
}

static int reserve(struct search *search)
{
	uint32_t room = search->room ? search->room * 2 : 1024, *heap;
	struct state *states;

	if (search->count < search->room)
		return 0;
	if (search->room > UINT32_MAX / 4)
		return -ENOMEM;
	states = reallocarray(search->states, room, sizeof(*states));
	if (!states)
		return -ENOMEM;
	search->states = states;
	heap = reallocarray(search->heap, room, sizeof(*heap));
	if (!heap)
		return -ENOMEM;
	search->heap = heap;
	search->room = room;
	return 0;
}

static bool dominates(const struct planner_stages *a, const struct planner_stages *b)
{
	return a->network <= b->network && a->copy <= b->copy && a->compute <= b->compute;
}

static void spend(struct search *search, uint64_t effort)
{
	search->effort = search->effort > effort ? search->effort - effort : 0;
}

/* Is there one at its cut that is nowhere later? Those that are nowhere earlier are dropped. */
static bool outdone(struct search *search, uint32_t cut, const struct planner_stages *stages)
{
	for (uint32_t i = search->fronts[cut]; i != NONE; i = search->states[i].beside) {
		spend(search, 1);
		if (dominates(&search->states[i].stages, stages))
			return true;
	}
	for (uint32_t *link = &search->fronts[cut]; *link != NONE;) {
		struct state *other = &search->states[*link];

		if (dominates(stages, &other->stages)) {
			other->dropped = true;
			*link = other->beside;
		} else {
			link = &other->beside;
		}
	}
	return false;
}

static int add(struct search *search, struct state *state)
{
	const struct planner_tails *tails = &search->tails;
	struct planner_stages *stages = &state->stages;
	uint32_t cut = state->cut;
	int err;

	if (cut == tails->last) {
		state->bound = stages->compute;
	} else {
		stages->copy = longer(stages->copy, stages->network + tails->network_cost +
							    tails->network[cut + 1] -
							    tails->network[cut]);
		stages->compute = longer(stages->compute, stages->copy + tails->copy_cost +
								  tails->copy[cut + 1] -
								  tails->copy[cut]);
		state->bound = planner_tails_bound(tails, *stages, cut);
		spend(search, tails->counted);
	}
	if (state->bound >= search->best || outdone(search, cut, stages))
		return 0;
	err = reserve(search);
	if (err)
		return err;
	if (cut == tails->last) {
		search->best = stages->compute;
		search->finished = search->count;
	}
	state->beside = search->fronts[cut];
	search->fronts[cut] = search->count;
	search->states[search->count] = *state;
	heap_push(search, search->count++);
	return 0;
}

/* All groups that can follow one state. */
static int extend(struct search *search, uint32_t which)
{
	const struct planner_tails *tails = &search->tails;
	const struct state from = search->states[which];
	int64_t left = tails->launch_cost + tails->compute[tails->last] - tails->compute[from.cut];
	int err;

	for (uint32_t cut = from.cut + 1; cut <= tails->last && search->effort; cut++) {
		struct state next = { .cut = cut, .before = which };

		next.stages = planner_tails_step(tails, from.stages, from.cut, cut);
		if (next.stages.copy + left >= search->best)
			break;
		err = add(search, &next);
		if (err)
			return err;
	}
	return 0;
}

static int collect(const struct search *search, uint32_t which, struct planner_grouping *grouping)
{
	size_t count = 0;

	for (uint32_t i = which; search->states[i].cut; i = search->states[i].before)
		count++;
	grouping->ends = calloc(count, sizeof(*grouping->ends));
	if (!grouping->ends)
		return -ENOMEM;
	grouping->count = count;
	for (uint32_t i = which; search->states[i].cut; i = search->states[i].before)
		grouping->ends[--count] = search->tails.cuts[search->states[i].cut];
	return 0;
}

/* -EAGAIN: the effort was not enough. */
static int look(struct search *search, struct planner_grouping *grouping)
{
	int err;

	/* The grouping that gave the limit is never dropped, so the heap is not empty. */
	while (search->effort) {
		uint32_t which = heap_pop(search);

		if (search->states[which].dropped)
			continue;
		if (search->states[which].cut == search->tails.last)
			return collect(search, which, grouping);
		err = extend(search, which);
		if (err)
			return err;
	}
	return -EAGAIN;
}

/* The state of a cut with the lowest bound above that of another; NONE: there is none. */
static uint32_t next_promising(const struct search *search, uint32_t cut, int64_t above)
{
	uint32_t best = NONE;

	for (uint32_t i = search->fronts[cut]; i != NONE; i = search->states[i].beside)
		if (search->states[i].bound > above && search->states[i].bound < search->best &&
		    (best == NONE || search->states[i].bound < search->states[best].bound))
			best = i;
	return best;
}

static int sweep(struct search *search)
{
	search->effort = UINT64_MAX;
	for (uint32_t cut = 0; cut < search->tails.last; cut++) {
		int64_t bound = -1;

		for (int i = 0; i < SWEEP_WIDTH; i++) {
			uint32_t which = next_promising(search, cut, bound);
			int err;

			if (which == NONE)
				break;
			bound = search->states[which].bound;
			err = extend(search, which);
			if (err)
				return err;
		}
	}
	return 0;
}

static int run(struct search *search, struct planner_grouping *grouping)
{
	int err = reserve(search);

	if (err)
		return err;
	for (uint32_t cut = 0; cut <= search->tails.last; cut++)
		search->fronts[cut] = NONE;
	search->best = search->tails.limit;
	search->finished = NONE;
	search->states[search->count] = (struct state){ .beside = NONE };
	heap_push(search, search->count++);
	err = look(search, grouping);
	if (err != -EAGAIN)
		return err;
	err = sweep(search);
	if (err)
		return err;
	return search->finished != NONE ? collect(search, search->finished, grouping) :
					  planner_tails_fallback(&search->tails, grouping);
}

static int find(const struct planner_pipeline *pipeline, bool merge, uint64_t effort,
		struct planner_grouping *grouping)
{
	struct search search = { .effort = effort };
	int err = planner_tails_create(&search.tails, pipeline, merge);

	if (err)
		return err;
	search.fronts = calloc((size_t)search.tails.last + 1, sizeof(*search.fronts));
	err = search.fronts ? run(&search, grouping) : -ENOMEM;
	free(search.states);
	free(search.heap);
	free(search.fronts);
	planner_tails_destroy(&search.tails);
	return err;
}

int planner_optimal(const struct planner_pipeline *pipeline, struct planner_grouping *grouping)
{
	return find(pipeline, false, UINT64_MAX, grouping);
}

int planner_bounded(const struct planner_pipeline *pipeline, struct planner_grouping *grouping)
{
	return find(pipeline, true, EFFORT_MAX, grouping);
}
