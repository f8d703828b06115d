// SPDX-License-Identifier: GPL-2.0-or-later
#include "donors.h"

#include <errno.h>
#include <stdlib.h>

/* A donor while a load is planned. */
struct source {
	double bandwidth;
	uint64_t load;	/* bytes of this group that it is to send */
	uint64_t sent;	/* of those, before the place that is filled next */
	uint32_t first, last; /* its chunks of this group that are not in the order yet */
};

struct reading {
	struct sharding_donors donors;
	const struct sharding_chunk *chunks;
	struct source *sources; /* owned */
	uint32_t *chosen;	/* owned: the donor for each chunk */
	uint32_t *next;		/* owned: the donor's next chunk after each */
	uint32_t *order;	/* owned: a group's chunks, those with least choice first */
};

static int by_choice(const void *a, const void *b, void *arg)
{
	const struct sharding_chunk *chunks = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

	if (chunks[i].copies != chunks[j].copies)
		return chunks[i].copies < chunks[j].copies ? -1 : 1;
	if (chunks[i].size != chunks[j].size)
		return chunks[i].size > chunks[j].size ? -1 : 1;
	return i < j ? -1 : i > j;
}

/* The copy whose donor would have sent it first. */
static int choose(struct reading *reading, uint32_t index)
{
	const struct sharding_chunk *chunk = &reading->chunks[index];
	uint32_t best = SHARDING_NOBODY;
	double best_time = 0;

	for (uint32_t i = 0; i < chunk->copies; i++) {
		uint32_t donor = sharding_donors_find(&reading->donors, chunk->donors[i]);
		double time;

		if (donor == SHARDING_NOBODY)
			continue;
		time = (double)(reading->sources[donor].load + chunk->size) /
		       reading->sources[donor].bandwidth;
		if (best == SHARDING_NOBODY || time < best_time) {
			best = donor;
			best_time = time;
		}
	}
	if (best == SHARDING_NOBODY)
		return -ENODATA;
	reading->chosen[index] = best;
	reading->sources[best].load += chunk->size;
	return 0;
}

/* Each donor's chunks of a group, in their order, as a list. */
static void line_up(struct reading *reading, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++) {
		struct source *source = &reading->sources[reading->chosen[i]];

		if (source->first == SHARDING_NOBODY)
			source->first = i;
		else
			reading->next[source->last] = i;
		source->last = i;
		reading->next[i] = SHARDING_NOBODY;
	}
}

static void read_group(struct reading *reading, uint32_t from, uint32_t to,
		       struct sharding_read *reads)
{
	line_up(reading, from, to);
	for (uint32_t i = from; i < to; i++) {
		uint32_t best = SHARDING_NOBODY;
		double best_time = 0;

		for (uint32_t d = 0; d < reading->donors.count; d++) {
			const struct source *source = &reading->sources[d];
			double time;

			if (source->first == SHARDING_NOBODY)
				continue;
			/* When its next chunk's reading would begin. */
			time = (double)source->sent / source->bandwidth;
			if (best == SHARDING_NOBODY || time < best_time ||
			    (time == best_time && source->first < reading->sources[best].first)) {
				best = d;
				best_time = time;
			}
		}
		reads[i].chunk = reading->sources[best].first;
		reads[i].donor = best;
		reading->sources[best].sent += reading->chunks[reads[i].chunk].size;
		reading->sources[best].first = reading->next[reads[i].chunk];
	}
}

static int read_all(struct reading *reading, uint32_t count, struct sharding_read *reads)
{
	const struct sharding_chunk *chunks = reading->chunks;
	int err;

	for (uint32_t from = 0, to; from < count; from = to) {
		for (uint32_t d = 0; d < reading->donors.count; d++)
			reading->sources[d] = (struct source){
				.bandwidth = reading->donors.list[d].bandwidth,
				.first = SHARDING_NOBODY,
			};
		for (to = from; to < count && chunks[to].group == chunks[from].group; to++)
			reading->order[to] = to;
		qsort_r(reading->order + from, to - from, sizeof(*reading->order), by_choice,
			(void *)chunks);
		for (uint32_t i = from; i < to; i++) {
			err = choose(reading, reading->order[i]);
			if (err) {
				reads[0].chunk = reading->order[i];
				return err;
			}
		}
		read_group(reading, from, to, reads);
	}
	return 0;
}

int sharding_read_order(const struct sharding_donor *donors, size_t donor_count,
			const struct sharding_chunk *chunks, size_t chunk_count,
			struct sharding_read *reads)
{
	struct reading reading = { .chunks = chunks };
	int err = sharding_donors_create(&reading.donors, donors, donor_count, chunks, chunk_count);

	if (err)
		return err;
	reading.sources = calloc(donor_count, sizeof(*reading.sources));
	reading.chosen = calloc(chunk_count + 1, sizeof(*reading.chosen));
	reading.next = calloc(chunk_count + 1, sizeof(*reading.next));
	reading.order = calloc(chunk_count + 1, sizeof(*reading.order));
	if (reading.sources && reading.chosen && reading.next && reading.order)
		err = read_all(&reading, (uint32_t)chunk_count, reads);
	else
		err = -ENOMEM;
	free(reading.sources);
	free(reading.chosen);
	free(reading.next);
	free(reading.order);
	sharding_donors_destroy(&reading.donors);
	return err;
}
