// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(char *reason, uint32_t piece, const char *why)
{
	snprintf(reason, MEMORY_REASON_LEN, "piece %u: %s", piece, why);
	return false;
}

static bool check_piece(const struct memory_load_request *request, uint32_t i, uint32_t lane_count,
			char *reason)
{
	const struct memory_piece *piece = &request->pieces[i];

	if (!piece->length)
		return refuse(reason, i, "has no length");
	if (piece->address + piece->length < piece->address)
		return refuse(reason, i, "goes beyond the end of memory");
	if (piece->group >= request->group_count)
		return refuse(reason, i, "is of a group that the load does not have");
	if (i && piece->group < piece[-1].group)
		return refuse(reason, i, "is of an earlier group than the piece before it");
	if (!piece->donor_count || piece->donor_count > MEMORY_REPLICAS_MAX)
		return refuse(reason, i, "has no donor, or too many");
	for (uint32_t d = 0; d < piece->donor_count; d++) {
		if (piece->donors[d] >= lane_count)
			return refuse(reason, i, "names a donor that is not known");
		for (uint32_t e = 0; e < d; e++)
			if (piece->donors[e] == piece->donors[d])
				return refuse(reason, i, "names a donor twice");
	}
	return true;
}

static bool count(const struct memory_load_request *request, uint32_t lane_count,
		  uint32_t segment_size, struct memory_load *load, char *reason)
{
	uint64_t segments = 0, sources = 0;

	if (!request->group_count || !request->piece_count) {
		snprintf(reason, MEMORY_REASON_LEN, "a load needs a piece and a group");
		return false;
	}
	for (uint32_t i = 0; i < request->piece_count; i++) {
		if (!check_piece(request, i, lane_count, reason))
			return false;
		segments += request->pieces[i].length / segment_size +
			    !!(request->pieces[i].length % segment_size);
		sources += request->pieces[i].donor_count;
		if (segments > INT32_MAX || sources > INT32_MAX)
			return refuse(reason, i, "makes the load too large");
		load->replicated |= request->pieces[i].donor_count > 1;
	}
	load->segment_count = segments;
	load->source_count = sources;
	return true;
}

static void fill(struct memory_load *load, const struct memory_load_request *request)
{
	struct memory_segment *segment = load->segments;
	struct memory_source *source = load->sources;

	for (uint32_t i = 0; i < load->piece_count; i++) {
		const struct memory_piece *from = &request->pieces[i];
		struct memory_load_piece *piece = &load->pieces[i];

		memcpy(piece->digest, from->digest, MEMORY_DIGEST_LEN);
		piece->checksum = from->checksum;
		piece->length = from->length;
		piece->address = from->address;
		piece->lkey = from->lkey;
		piece->group = from->group;
		piece->source = source - load->sources;
		piece->sources = from->donor_count;
		piece->segment = segment - load->segments;
		piece->segments = from->length / load->segment_size +
				  !!(from->length % load->segment_size);
		piece->left = piece->segments;
		piece->next = MEMORY_NONE;
		load->group_left[piece->group]++;
		for (uint32_t d = 0; d < from->donor_count; d++) {
			source++->donor = from->donors[d];
			load->lanes[from->donors[d]].named = true;
		}
		for (uint32_t s = 0; s < piece->segments; s++, segment++)
			*segment = (struct memory_segment){ .piece = i, .next = MEMORY_NONE };
	}
}

static void advance_groups(struct memory_load *load)
{
	struct memory_load_progress *progress = &load->progress;

	while (progress->groups_done < load->group_count &&
	       !load->group_left[progress->groups_done])
		progress->groups_done++;
}

struct memory_load *memory_load_create(const struct memory_load_request *request,
				       uint32_t lane_count, uint32_t segment_size,
				       char reason[MEMORY_REASON_LEN])
{
	struct memory_load *load = calloc(1, sizeof(*load));

	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	if (!load)
		return NULL;
	if (!count(request, lane_count, segment_size, load, reason))
		goto fail;
	load->class = request->class;
	load->check = request->check;
	load->partial = request->partial;
	load->segment_size = segment_size;
	load->piece_count = request->piece_count;
	load->group_count = request->group_count;
	load->lane_count = lane_count;
	load->check_first = load->check_last = MEMORY_NONE;
	load->pieces = calloc(load->piece_count, sizeof(*load->pieces));
	load->sources = calloc(load->source_count, sizeof(*load->sources));
	load->segments = calloc(load->segment_count, sizeof(*load->segments));
	load->group_left = calloc(load->group_count, sizeof(*load->group_left));
	load->group_unread = calloc(load->group_count, sizeof(*load->group_unread));
	load->lanes = calloc(lane_count, sizeof(*load->lanes));
	if (!load->pieces || !load->sources || !load->segments || !load->group_left ||
	    !load->group_unread || !load->lanes)
		goto fail;
	memory_load_empty(load);
	fill(load, request);
	memcpy(load->group_unread, load->group_left,
	       load->group_count * sizeof(*load->group_unread));
	advance_groups(load);
	return load;
fail:
	memory_load_destroy(load);
	return NULL;
}

void memory_load_empty(struct memory_load *load)
{
	struct memory_lane *lane;

	for (uint32_t i = 0; i < load->lane_count; i++) {
		lane = &load->lanes[i];
		lane->first = lane->last = lane->hint = lane->unasked = MEMORY_NONE;
		lane->count = 0;
	}
}

void memory_load_destroy(struct memory_load *load)
{
	if (!load)
		return;
	free(load->pieces);
	free(load->sources);
	free(load->segments);
	free(load->group_left);
	free(load->group_unread);
	free(load->lanes);
	free(load);
}

uint64_t memory_load_offset(const struct memory_load *load, uint32_t segment)
{
	const struct memory_load_piece *piece = &load->pieces[load->segments[segment].piece];

	return (uint64_t)(segment - piece->segment) * load->segment_size;
}

uint32_t memory_load_length(const struct memory_load *load, uint32_t segment)
{
	const struct memory_load_piece *piece = &load->pieces[load->segments[segment].piece];
	uint64_t left = piece->length - memory_load_offset(load, segment);

	return left < load->segment_size ? left : load->segment_size;
}

struct memory_source *memory_load_source(const struct memory_load *load, uint32_t segment)
{
	const struct memory_segment *queued = &load->segments[segment];

	return &load->sources[load->pieces[queued->piece].source + queued->replica];
}

void memory_load_queue(struct memory_load *load, uint32_t segment, uint8_t replica)
{
	struct memory_segment *segments = load->segments, *queued = &segments[segment];
	struct memory_source *source;
	struct memory_lane *lane;
	uint32_t before = MEMORY_NONE;

	queued->replica = replica;
	queued->queued = true;
	source = memory_load_source(load, segment);
	lane = &load->lanes[source->donor];
	if (lane->last != MEMORY_NONE && lane->last < segment) {
		before = lane->last;
	} else if (lane->first != MEMORY_NONE && lane->first < segment) {
		/* MEMORY_NONE is larger than any segment. */
		before = lane->hint < segment ? lane->hint : lane->first;
		while (segments[before].next < segment)
			before = segments[before].next;
		lane->hint = segment;
	}
	if (before == MEMORY_NONE) {
		queued->next = lane->first;
		lane->first = segment;
	} else {
		queued->next = segments[before].next;
		segments[before].next = segment;
	}
	if (queued->next == MEMORY_NONE)
		lane->last = segment;
	lane->count++;
	if (source->state == MEMORY_SOURCE_IDLE && segment < lane->unasked)
		lane->unasked = segment;
}

void memory_load_unqueue(struct memory_load *load, uint32_t segment, uint32_t before)
{
	struct memory_segment *segments = load->segments, *queued = &segments[segment];
	struct memory_lane *lane = &load->lanes[memory_load_source(load, segment)->donor];

	if (before == MEMORY_NONE)
		lane->first = queued->next;
	else
		segments[before].next = queued->next;
	if (lane->last == segment)
		lane->last = before;
	if (lane->hint == segment)
		lane->hint = MEMORY_NONE;
	if (lane->unasked == segment)
		lane->unasked = queued->next;
	lane->count--;
	queued->next = MEMORY_NONE;
	queued->queued = false;
}

void memory_load_withdraw(struct memory_load *load, uint32_t segment)
{
	uint32_t before = MEMORY_NONE, at;

	if (!load->segments[segment].queued)
		return;
	at = load->lanes[memory_load_source(load, segment)->donor].first;
	for (; at != segment; at = load->segments[at].next)
		before = at;
	memory_load_unqueue(load, segment, before);
}

void memory_load_fly(struct memory_load *load, uint32_t segment)
{
	load->segments[segment].flying++;
	load->flying++;
}

void memory_load_unfly(struct memory_load *load, uint32_t segment)
{
	load->segments[segment].flying--;
	load->flying--;
}

void memory_load_piece_done(struct memory_load *load, struct memory_load_piece *piece)
{
	piece->done = true;
	load->group_left[piece->group]--;
	advance_groups(load);
}
