// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Column generation after Gilmore and Gomory: the revised simplex method on the
 * patterns known so far, and a knapsack for the pattern that would help most.
 */
#include "cutting.h"

#include "claim.h"

#include <math.h>
#include <string.h>

#define N PLACEMENT_CUTTING_SIZES
#define EPSILON 1e-9
/* Prices that are nearly those of the optimum are as good; the time is not. */
#define PIVOTS_PER_SIZE 40

struct simplex {
	uint32_t count;
	double inverse[N][N]; /* of the basis */
	double used[N];	      /* how often each pattern of the basis is cut */
	double cost[N];	      /* of each: 1 gpu, or 0 for what is cut in vain */
	uint32_t unit;	      /* that all sizes are multiples of */
	double best[PLACEMENT_WHOLE + 1];
	uint32_t pick[PLACEMENT_WHOLE + 1];
};

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static void start(struct simplex *simplex, const struct placement_cutting *cutting)
{
	simplex->count = cutting->count;
	simplex->unit = PLACEMENT_WHOLE;
	memset(simplex->inverse, 0, sizeof(simplex->inverse));
	for (uint32_t i = 0; i < cutting->count; i++) {
		uint32_t times = PLACEMENT_WHOLE / cutting->size[i];

		simplex->inverse[i][i] = 1.0 / times;
		simplex->used[i] = cutting->demand[i] / times;
		simplex->cost[i] = 1;
		simplex->unit = common_divisor(simplex->unit, cutting->size[i]);
	}
}

static void make_prices(const struct simplex *simplex, double *price)
{
	for (uint32_t j = 0; j < simplex->count; j++) {
		price[j] = 0;
		for (uint32_t i = 0; i < simplex->count; i++)
			price[j] += simplex->cost[i] * simplex->inverse[i][j];
	}
}

/* The most that each number of units can be made worth, and what was cut off last. */
static void fill_knapsack(struct simplex *simplex, const struct placement_cutting *cutting)
{
	uint32_t units = PLACEMENT_WHOLE / simplex->unit;

	simplex->best[0] = 0;
	for (uint32_t r = 1; r <= units; r++) {
		double best = simplex->best[r - 1];
		uint32_t pick = N;

		for (uint32_t j = 0; j < simplex->count; j++) {
			uint32_t size = cutting->size[j] / simplex->unit;

			if (size > r || simplex->best[r - size] + cutting->price[j] <=
						best + EPSILON / 1000)
				continue;
			best = simplex->best[r - size] + cutting->price[j];
			pick = j;
		}
		simplex->best[r] = best;
		simplex->pick[r] = pick;
	}
}

/* The column to bring in and its cost; false: there is none that helps. */
static bool find_column(struct simplex *simplex, const struct placement_cutting *cutting,
			double *column, double *cost)
{
	uint32_t units = PLACEMENT_WHOLE / simplex->unit;

	memset(column, 0, simplex->count * sizeof(*column));
	for (uint32_t j = 0; j < simplex->count; j++)
		if (cutting->price[j] < -EPSILON) {
			column[j] = -1;
			*cost = 0;
			return true;
		}
	fill_knapsack(simplex, cutting);
	if (simplex->best[units] <= 1 + 1e-7)
		return false;
	*cost = 1;
	for (uint32_t r = units; r;) {
		if (simplex->pick[r] == N) {
			r--;
			continue;
		}
		column[simplex->pick[r]]++;
		r -= cutting->size[simplex->pick[r]] / simplex->unit;
	}
	return true;
}

/* False: the column is unbounded, which only errors of rounding can bring about. */
static bool pivot(struct simplex *simplex, const double *column, double cost)
{
	double along[N], ratio, least = INFINITY;
	uint32_t out = N;

	for (uint32_t i = 0; i < simplex->count; i++) {
		along[i] = 0;
		for (uint32_t j = 0; j < simplex->count; j++)
			along[i] += simplex->inverse[i][j] * column[j];
		if (along[i] <= EPSILON)
			continue;
		ratio = simplex->used[i] / along[i];
		if (ratio < least) {
			least = ratio;
			out = i;
		}
	}
	if (out == N)
		return false;
	for (uint32_t j = 0; j < simplex->count; j++)
		simplex->inverse[out][j] /= along[out];
	simplex->used[out] = least;
	simplex->cost[out] = cost;
	for (uint32_t i = 0; i < simplex->count; i++) {
		if (i == out || !along[i])
			continue;
		simplex->used[i] = fmax(simplex->used[i] - along[i] * least, 0);
		for (uint32_t j = 0; j < simplex->count; j++)
			simplex->inverse[i][j] -= along[i] * simplex->inverse[out][j];
	}
	return true;
}

void placement_cutting_solve(struct placement_cutting *cutting, double *values)
{
	struct simplex simplex;
	double column[N], cost;

	start(&simplex, cutting);
	cutting->pivots = 0;
	for (;;) {
		make_prices(&simplex, cutting->price);
		if (cutting->pivots == PIVOTS_PER_SIZE * cutting->count ||
		    !find_column(&simplex, cutting, column, &cost) ||
		    !pivot(&simplex, column, cost))
			break;
		cutting->pivots++;
	}
	cutting->gpus = 0;
	for (uint32_t i = 0; i < cutting->count; i++) {
		cutting->price[i] = fmax(cutting->price[i], 0);
		cutting->gpus += simplex.cost[i] * simplex.used[i];
	}
	fill_knapsack(&simplex, cutting);
	/* Broken off early, a gpu seems to be worth more than one. */
	cost = simplex.best[PLACEMENT_WHOLE / simplex.unit];
	for (uint32_t r = 0; r <= PLACEMENT_WHOLE; r++)
		values[r] = cost > 0 ? simplex.best[r / simplex.unit] / cost : 0;
}
