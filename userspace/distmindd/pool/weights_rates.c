// SPDX-License-Identifier: GPL-2.0-or-later
/* How fast loads are, by those that were. */
#include "weights_state.h"

#include <math.h>

#define COPY_RATE 4e9 /* bytes/s of a copy lane that was not measured yet */
#define MEASURED_MIN (1U << 20) /* bytes; smaller loads say little about rates */
#define SPREAD 0.1 /* of a rate that was measured once, or never */
#define SPREAD_MAX 0.5

static void average(double *mean, double now)
{
	*mean = *mean > 0 ? *mean * 0.7 + now * 0.3 : now;
}

/* By what a byte takes: it is times that are to be foreseen. */
static void average_rate(double *mean, double now)
{
	double cost = *mean > 0 ? 1 / *mean : 0;

	average(&cost, 1 / now);
	*mean = 1 / cost;
}

/*
 * Three equally likely cases vary as much as what was seen if they are half as far
 * again apart as it was from its mean, on average (for a normal distribution 1.53).
 */
static void learn_spread(struct weights *weights, double rate)
{
	if (weights->read_rate > 0)
		average(&weights->read_spread, 1.5 * fabs(rate / weights->read_rate - 1));
	if (weights->read_spread > SPREAD_MAX)
		weights->read_spread = SPREAD_MAX;
}

/* READs of groups follow each other without a gap: a group costs its signal. */
void weights_learn_rates(struct weights *weights, const struct resident *resident)
{
	bool read = resident->read_bytes > resident->copied_bytes;
	uint64_t bytes = read ? resident->read_bytes : resident->copied_bytes;
	double rate = (double)bytes * 1e6 / (double)(resident->moving_us + 1);

	if (bytes >= MEASURED_MIN) {
		if (read)
			learn_spread(weights, rate);
		average_rate(read ? &weights->read_rate : &weights->copy_rate, rate);
		/* Room and its registration. */
		average(&weights->begin_cost,
			(double)(resident->load_us - resident->moving_us) / 1e6 /
				(double)resident->size);
	}
	if (resident->signals)
		average(&weights->group_cost,
			(double)(resident->signal_us + 1) / 1e6 / (double)resident->signals);
}

void weights_rates(const struct weights *weights, bool staged, struct grouping_rates *rates)
{
	*rates = (struct grouping_rates){
		.network = weights->read_rate > 0 ? weights->read_rate : weights->copy_rate,
		.spread = weights->read_spread > 0 ? weights->read_spread : SPREAD,
		.copy = staged ? (weights->copy_rate > 0 ? weights->copy_rate : COPY_RATE) : 0,
		.transfer_cost = weights->group_cost, .begin_cost = weights->begin_cost,
	};
}
