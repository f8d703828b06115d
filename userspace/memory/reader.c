// SPDX-License-Identifier: GPL-2.0-or-later
#include "reader_state.h"

#include "../common/hex.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUSY_NS 10000000ULL
/* More would only keep donors from freeing what they want to. */
#define PINS_MAX 1024
#define NAMED_BYTES 8 /* of a digest, in a message */

struct memory_reader *memory_reader_create(const struct memory_reader_ops *ops,
					   uint32_t segment_size)
{
	struct memory_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->ops = ops;
	reader->segment_size = segment_size;
	return reader;
}

void memory_reader_destroy(struct memory_reader *reader)
{
	struct memory_load *load, *next;

	if (!reader)
		return;
	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = next) {
			next = load->next;
			memory_load_destroy(load);
		}
	}
	for (uint32_t i = 0; i < reader->donor_count; i++) {
		free(reader->donors[i]->slots);
		free(reader->donors[i]->releases);
		free(reader->donors[i]);
	}
	free(reader);
}

int memory_reader_donor_add(struct memory_reader *reader, const char *name)
{
	struct reader_donor *donor;

	if (reader->donor_count == MEMORY_DONORS_MAX)
		return -ENOSPC;
	donor = calloc(1, sizeof(*donor));
	if (!donor)
		return -ENOMEM;
	snprintf(donor->stats.name, sizeof(donor->stats.name), "%s", name);
	snprintf(donor->stats.reason, sizeof(donor->stats.reason), "not connected yet");
	reader->donors[reader->donor_count] = donor;
	return reader->donor_count++;
}

void memory_reader_donor_stats(struct memory_reader *reader, uint32_t donor,
			       struct memory_reader_donor *stats)
{
	const struct reader_donor *from = reader->donors[donor];

	*stats = from->stats;
	stats->connected = from->link;
	stats->in_flight = reader_in_flight(from);
	stats->pins = from->pins;
	stats->bandwidth = from->rate.bandwidth;
	stats->latency_p50_ns = memory_rate_quantile(&from->rate, 500);
	stats->latency_p99_ns = memory_rate_quantile(&from->rate, 990);
}

void reader_tell(struct memory_reader *reader, struct memory_load *load)
{
	struct memory_load **at;

	if (load->has_news)
		return;
	load->has_news = true;
	for (at = &reader->news; *at; at = &(*at)->news_next)
		;
	load->news_next = NULL;
	*at = load;
}

/* Those of a class in the order in which they came. */
static void link_load(struct memory_reader *reader, struct memory_load *load)
{
	struct memory_load **at;

	for (at = &reader->loads[load->class]; *at; at = &(*at)->next)
		;
	load->next = NULL;
	*at = load;
}

static void unlink_load(struct memory_reader *reader, struct memory_load *load)
{
	struct memory_load **at;

	for (at = &reader->loads[load->class]; *at != load; at = &(*at)->next)
		;
	*at = load->next;
}

static void remove_load(struct memory_reader *reader, struct memory_load *load)
{
	unlink_load(reader, load);
	memory_load_destroy(load);
}

/* Called whenever something that holds a load has let it go. */
static void settle(struct memory_reader *reader, struct memory_load *load)
{
	if (load->progress.state == MEMORY_LOAD_RUNNING || load->flying || load->checking ||
	    load->check_first != MEMORY_NONE)
		return;
	if (!load->progress.quiet) {
		load->progress.quiet = true;
		reader_tell(reader, load);
	}
	if (load->forgotten && !load->asks)
		remove_load(reader, load);
}

bool memory_reader_urgent(const struct memory_reader *reader)
{
	const struct memory_load *load;

	for (load = reader->loads[MEMORY_LATENCY]; load; load = load->next)
		if (load->flying)
			return true;
	return false;
}

bool memory_reader_has_news(const struct memory_reader *reader)
{
	return reader->news || reader->reported != reader->report_taken;
}

struct memory_load *memory_reader_news(struct memory_reader *reader)
{
	struct memory_load *load = reader->news;

	if (!load)
		return NULL;
	reader->news = load->news_next;
	load->has_news = false;
	return load;
}

/* The donor may forget about it; it is told when enough have come together. */
static void release(struct memory_reader *reader, struct memory_source *source)
{
	struct reader_donor *donor = reader->donors[source->donor];

	source->state = MEMORY_SOURCE_IDLE;
	donor->releases[donor->release_count++] = source->pin;
}

/* A pinned source is let go when its piece needs no more READs and none is in flight. */
static void release_unused(struct memory_reader *reader, struct memory_load *load,
			   const struct memory_load_piece *piece)
{
	struct memory_source *source = &load->sources[piece->source];

	if (!piece->done && load->progress.state == MEMORY_LOAD_RUNNING)
		return;
	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->state == MEMORY_SOURCE_READY && !source->users)
			release(reader, source);
}

static const char *reason_of(const struct memory_reader *reader, const struct memory_load *load,
			     const struct memory_load_piece *piece,
			     const struct memory_source *source)
{
	const struct reader_donor *donor = reader->donors[source->donor];

	if (piece->segment >= load->allowed)
		return "was not asked: its place was not free in time";
	if (source->state == MEMORY_SOURCE_MISSING)
		return "does not have it";
	if (source->state == MEMORY_SOURCE_DAMAGED)
		return "has other bytes under its name";
	return donor->link ? "has not answered in time" : donor->stats.reason;
}

void memory_reader_missing(struct memory_reader *reader, const struct memory_load *load,
			   void (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg)
{
	const struct memory_source *source;

	for (uint32_t i = 0; i < load->piece_count; i++) {
		if (load->pieces[i].done)
			continue;
		source = &load->sources[load->pieces[i].source];
		for (uint32_t s = 0; s < load->pieces[i].sources; s++, source++)
			tell(arg, load->pieces[i].digest, reader->donors[source->donor]->stats.name,
			     reason_of(reader, load, &load->pieces[i], source));
	}
}

static bool hopeless(const struct memory_load *load, const struct memory_load_piece *piece)
{
	const struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (memory_source_hopeful(source))
			return false;
	return true;
}

static void describe(struct memory_reader *reader, struct memory_load *load, int err)
{
	const struct memory_load_piece *first = NULL;
	const struct memory_source *source;
	char *reason = load->progress.reason, name[HEX_LEN(NAMED_BYTES)];
	const char *donor;
	uint32_t missing = 0;
	int at;

	for (uint32_t i = load->piece_count; i--;) {
		if (load->pieces[i].done)
			continue;
		missing++;
		/* One that nobody has says more than the first of those that wait. */
		if (!first || err != -ENOENT || hopeless(load, &load->pieces[i]))
			first = &load->pieces[i];
	}
	if (!first)
		return;
	hex_format(first->digest, NAMED_BYTES, name);
	at = snprintf(reason, MEMORY_REASON_LEN, "%u of %u chunks missing%s, the first is %s",
		      missing, load->piece_count, err == -ETIMEDOUT ? " at the deadline" : "", name);
	for (uint32_t s = 0; s < first->sources && at < MEMORY_REASON_LEN; s++) {
		source = &load->sources[first->source + s];
		donor = reader->donors[source->donor]->stats.name;
		at += snprintf(reason + at, MEMORY_REASON_LEN - at, "%s donor %s %s", s ? ";" : ":",
			       donor, reason_of(reader, load, first, source));
	}
}

static void end(struct memory_reader *reader, struct memory_load *load, int err, uint64_t now)
{
	load->progress.state = err ? MEMORY_LOAD_FAILED : MEMORY_LOAD_DONE;
	load->progress.err = err;
	load->progress.ended_ns = now;
	memory_load_empty(load);
	if (err)
		load->check_first = load->check_last = MEMORY_NONE;
	if (err)
		for (uint32_t i = 0; i < load->piece_count; i++)
			release_unused(reader, load, &load->pieces[i]);
	reader_tell(reader, load);
	settle(reader, load);
}

void reader_fail(struct memory_reader *reader, struct memory_load *load, int err, uint64_t now)
{
	if (load->progress.state != MEMORY_LOAD_RUNNING)
		return;
	describe(reader, load, err);
	end(reader, load, err, now);
}

int reader_choose(const struct memory_reader *reader, const struct memory_load *load,
		  const struct memory_load_piece *piece, uint32_t not_donor)
{
	const struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->donor != not_donor && reader->donors[source->donor]->link &&
		    memory_source_hopeful(source))
			return i;
	return -1;
}

void reader_place(struct memory_reader *reader, struct memory_load *load, uint32_t segment,
		  uint64_t now)
{
	const struct memory_load_piece *piece = &load->pieces[load->segments[segment].piece];
	int replica = reader_choose(reader, load, piece, MEMORY_NONE);

	if (load->progress.state != MEMORY_LOAD_RUNNING)
		return;
	reader->moved = true;
	if (replica >= 0)
		memory_load_queue(load, segment, replica);
	else if (hopeless(load, piece))
		reader_fail(reader, load, -ENOENT, now);
	else
		load->stranded++;
}

static uint64_t deadline_at(uint64_t deadline_ns, uint64_t now)
{
	return now + deadline_ns < now ? UINT64_MAX : now + deadline_ns;
}

struct memory_load *memory_reader_submit(struct memory_reader *reader,
					 const struct memory_load_request *request, uint64_t now,
					 char reason[MEMORY_REASON_LEN])
{
	struct memory_load *load;

	load = memory_load_create(request, reader->donor_count, reader->segment_size, reason);
	if (!load)
		return NULL;
	load->progress.begun_ns = now;
	load->deadline = deadline_at(request->deadline_ns, now);
	link_load(reader, load);
	memory_reader_allow(reader, load, request->allowed ? request->allowed : load->group_count,
			    now);
	if (load->progress.groups_done)
		reader_tell(reader, load);
	return load;
}

/* Segments are in the order of their groups. */
void memory_reader_allow(struct memory_reader *reader, struct memory_load *load, uint32_t groups,
			 uint64_t now)
{
	while (load->progress.state == MEMORY_LOAD_RUNNING &&
	       load->allowed < load->segment_count &&
	       load->pieces[load->segments[load->allowed].piece].group < groups)
		reader_place(reader, load, load->allowed++, now);
}

void memory_reader_extend(struct memory_reader *reader, struct memory_load *load,
			  enum memory_class class, uint64_t deadline_ns, uint64_t now)
{
	uint64_t deadline = deadline_at(deadline_ns, now);

	if (load->deadline < deadline)
		load->deadline = deadline;
	if (load->class <= class)
		return;
	unlink_load(reader, load);
	load->class = class;
	link_load(reader, load);
}

void memory_reader_cancel(struct memory_reader *reader, struct memory_load *load, uint64_t now)
{
	if (load->progress.state != MEMORY_LOAD_RUNNING)
		return;
	snprintf(load->progress.reason, MEMORY_REASON_LEN, "cancelled");
	end(reader, load, -ECANCELED, now);
}

void memory_reader_abort(struct memory_reader *reader, struct memory_load *load, int err,
			 const char *reason, uint64_t now)
{
	if (load->progress.state != MEMORY_LOAD_RUNNING)
		return;
	snprintf(load->progress.reason, MEMORY_REASON_LEN, "%s", reason);
	end(reader, load, err, now);
}

void memory_reader_forget(struct memory_reader *reader, struct memory_load *load)
{
	struct memory_load **at;

	load->forgotten = true;
	if (load->has_news) {
		for (at = &reader->news; *at != load; at = &(*at)->news_next)
			;
		*at = load->news_next;
	}
	settle(reader, load);
}

int memory_reader_link_up(struct memory_reader *reader, uint32_t index, void *link,
			  const struct memory_link_limits *limits)
{
	struct reader_donor *donor = reader->donors[index];
	uint32_t pins = limits->pins < PINS_MAX ? limits->pins : PINS_MAX;
	struct reader_slot *slots = calloc(limits->depth, sizeof(*slots));
	uint32_t *releases = calloc(pins, sizeof(*releases));
	struct memory_load *load;

	if (!slots || !releases) {
		free(slots);
		free(releases);
		return -ENOMEM;
	}
	free(donor->slots);
	free(donor->releases);
	donor->slots = slots;
	donor->releases = releases;
	donor->depth = limits->depth;
	donor->pins_allowed = pins;
	donor->busy_until = 0;
	donor->link = link;
	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = load->next) {
			if (!load->stranded || load->progress.state != MEMORY_LOAD_RUNNING)
				continue;
			load->stranded = 0;
			for (uint32_t i = 0; i < load->allowed; i++)
				if (!load->segments[i].done && !load->segments[i].queued &&
				    !load->segments[i].flying)
					reader_place(reader, load, i, 0);
		}
	}
	return 0;
}

/* One READ is over, well or not; its segment is not done by that. */
static void unfly(struct memory_reader *reader, const struct reader_slot *slot)
{
	struct memory_load *load = slot->load;
	struct memory_load_piece *piece = &load->pieces[load->segments[slot->segment].piece];
	uint32_t before = load->progress.groups_clear;

	load->sources[piece->source + slot->replica].users--;
	memory_load_unfly(load, slot->segment);
	if (load->progress.groups_clear != before)
		reader_tell(reader, load);
}

/* What the donor knew of us is gone, its answers and pins included. */
static void reset_sources(struct memory_load *load, uint32_t donor)
{
	for (uint32_t i = 0; i < load->source_count; i++)
		if (load->sources[i].donor == donor &&
		    load->sources[i].state != MEMORY_SOURCE_DAMAGED)
			load->sources[i].state = MEMORY_SOURCE_IDLE;
}

static void empty_lane(struct memory_reader *reader, struct memory_load *load, uint32_t donor)
{
	struct memory_lane *lane = &load->lanes[donor];
	uint32_t segment;

	while (load->progress.state == MEMORY_LOAD_RUNNING && lane->first != MEMORY_NONE) {
		segment = lane->first;
		memory_load_unqueue(load, segment, MEMORY_NONE);
		if (!load->segments[segment].done && !load->segments[segment].flying)
			reader_place(reader, load, segment, 0);
	}
}

void memory_reader_link_down(struct memory_reader *reader, uint32_t index, const char *reason)
{
	struct reader_donor *donor = reader->donors[index];
	struct memory_load *load, *next;

	snprintf(donor->stats.reason, sizeof(donor->stats.reason), "%s", reason);
	if (!donor->link)
		return;
	donor->link = NULL;
	donor->stats.failures++;
	donor->pins = 0;
	donor->release_count = 0;
	memory_rate_end(&donor->rate);
	for (; donor->answered < donor->asked; donor->answered++)
		donor->asks[donor->answered % ASKS_MAX].load->asks--;
	for (int class = 0; class < MEMORY_CLASSES; class++)
		for (load = reader->loads[class]; load; load = load->next)
			if (index < load->lane_count)
				reset_sources(load, index);
	for (; donor->completed < donor->posted; donor->completed++) {
		struct reader_slot *slot = &donor->slots[donor->completed % donor->depth];
		struct memory_segment *segment = &slot->load->segments[slot->segment];

		unfly(reader, slot);
		if (slot->load->progress.state != MEMORY_LOAD_RUNNING || segment->done)
			continue;
		slot->load->progress.rereads++;
		/* A hedge may already be elsewhere. */
		if (!segment->flying && !segment->queued)
			reader_place(reader, slot->load, slot->segment, 0);
	}
	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = next) {
			next = load->next;
			if (index < load->lane_count)
				empty_lane(reader, load, index);
			settle(reader, load);
		}
	}
}

static void take_location(struct memory_reader *reader, struct memory_load *load,
			  uint32_t piece, struct memory_source *source,
			  const struct memory_wire_location *location, uint64_t now)
{
	struct reader_donor *donor = reader->donors[source->donor];
	struct memory_lane *lane = &load->lanes[source->donor];

	if (location->state != MEMORY_WIRE_PRESENT) {
		donor->pins--;
		source->state = MEMORY_SOURCE_MISSING;
		if (location->state == MEMORY_WIRE_BUSY) {
			source->state = MEMORY_SOURCE_IDLE;
			donor->busy_until = now + BUSY_NS;
			if (lane->first < lane->unasked)
				lane->unasked = lane->first;
		}
		return;
	}
	source->state = MEMORY_SOURCE_READY;
	source->remote = location->address;
	source->rkey = location->rkey;
	source->pin = location->pin;
	if (location->length != load->pieces[piece].length) {
		release(reader, source);
		source->state = MEMORY_SOURCE_DAMAGED;
		donor->stats.damaged++;
		return;
	}
	release_unused(reader, load, &load->pieces[piece]);
}

const char *memory_reader_located(struct memory_reader *reader, uint32_t index,
				  const struct memory_wire_message *message, uint64_t now)
{
	struct reader_donor *donor = reader->donors[index];
	struct reader_ask *ask = &donor->asks[donor->answered % ASKS_MAX];
	struct memory_load *load = ask->load;

	if (donor->answered == donor->asked || ask->id != message->id)
		return "an answer to no question";
	if (ask->count != message->count)
		return "an answer to another number of chunks than was asked for";
	for (uint32_t i = 0; i < ask->count; i++)
		take_location(reader, load, ask->pieces[i], &load->sources[ask->sources[i]],
			      &message->locations[i], now);
	donor->answered++;
	load->asks--;
	settle(reader, load);
	return NULL;
}

static void complete(struct memory_reader *reader, struct memory_load *load,
		     struct memory_load_piece *piece, uint64_t now)
{
	uint32_t before = load->progress.groups_done;

	memory_load_piece_done(load, piece);
	release_unused(reader, load, piece);
	if (load->progress.groups_done == load->group_count)
		end(reader, load, 0, now);
	else if (load->progress.groups_done != before)
		reader_tell(reader, load);
}

static void queue_check(struct memory_load *load, uint32_t piece)
{
	load->pieces[piece].next = MEMORY_NONE;
	load->pieces[piece].queued = true;
	if (load->check_last == MEMORY_NONE)
		load->check_first = piece;
	else
		load->pieces[load->check_last].next = piece;
	load->check_last = piece;
}

/*
 * The loser of a race has written to a piece, and nobody knows what. If the piece was found
 * right before, it is looked at again; if that is under way, once more after it.
 */
static void overwritten(struct memory_load *load, uint32_t index, uint8_t replica)
{
	struct memory_load_piece *piece = &load->pieces[index];

	if (load->check == MEMORY_CHECK_NOTHING || load->progress.state == MEMORY_LOAD_FAILED)
		return;
	piece->written = true;
	if (piece->done)
		piece->late |= 1U << replica;
	else
		piece->used |= 1U << replica;
	if (!piece->done || piece->queued || (load->checking && load->checked == index))
		return;
	memory_load_hold(load, piece);
	queue_check(load, index);
}

static void land(struct memory_reader *reader, struct reader_donor *donor, uint64_t now)
{
	struct reader_slot *slot = &donor->slots[donor->completed++ % donor->depth];
	struct memory_load *load = slot->load;
	struct memory_segment *segment = &load->segments[slot->segment];
	struct memory_load_piece *piece = &load->pieces[segment->piece];
	uint32_t length = memory_load_length(load, slot->segment);

	if (segment->done)
		overwritten(load, segment->piece, slot->replica);
	unfly(reader, slot);
	memory_rate_sample(&donor->rate, now - slot->posted);
	memory_rate_done(&donor->rate, length, now);
	donor->stats.reads++;
	donor->stats.bytes += length;
	if (load->progress.state != MEMORY_LOAD_RUNNING || segment->done) {
		load->progress.wasted += segment->done ? length : 0;
		release_unused(reader, load, piece);
		settle(reader, load);
		return;
	}
	segment->done = true;
	piece->used |= 1U << slot->replica;
	load->progress.bytes += length;
	load->progress.hedges_won += slot->hedge;
	if (--piece->left)
		return;
	if (load->check == MEMORY_CHECK_NOTHING)
		complete(reader, load, piece, now);
	else
		queue_check(load, segment->piece);
}

void memory_reader_read_done(struct memory_reader *reader, uint32_t index, uint32_t count,
			     uint64_t now)
{
	struct reader_donor *donor = reader->donors[index];

	while (count--)
		land(reader, donor, now);
	if (!reader_in_flight(donor))
		memory_rate_end(&donor->rate);
}

bool memory_reader_to_check(struct memory_reader *reader, struct memory_reader_check *check)
{
	struct memory_load_piece *piece;
	struct memory_load *load;

	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = load->next) {
			if (load->checking || load->check_first == MEMORY_NONE)
				continue;
			piece = &load->pieces[load->check_first];
			*check = (struct memory_reader_check){
				.load = load, .piece = load->check_first, .kind = load->check,
				.data = (const void *)(uintptr_t)piece->address,
				.length = piece->length, .digest = piece->digest,
				.checksum = piece->checksum,
			};
			load->checked = load->check_first;
			load->check_first = piece->next;
			if (load->check_first == MEMORY_NONE)
				load->check_last = MEMORY_NONE;
			piece->queued = false;
			piece->written = false;
			load->checking = true;
			return true;
		}
	}
	return false;
}

bool memory_reader_report(struct memory_reader *reader, struct memory_reader_report *report)
{
	if (reader->report_taken == reader->reported)
		return false;
	*report = reader->reports[reader->report_taken++ % REPORTS_MAX];
	return true;
}

/* The donor is told, and so is whoever has the reader. */
static void accuse(struct memory_reader *reader, struct memory_load *load,
		   const struct memory_load_piece *piece, uint32_t replica)
{
	struct memory_source *source = &load->sources[piece->source + replica];
	struct reader_donor *donor = reader->donors[source->donor];
	struct memory_reader_report *report;

	if (source->state == MEMORY_SOURCE_READY && !source->users && donor->link)
		release(reader, source);
	source->state = MEMORY_SOURCE_DAMAGED;
	donor->stats.damaged++;
	if (donor->suspect_count < SUSPECTS_MAX)
		memcpy(donor->suspects[donor->suspect_count++], piece->digest, MEMORY_DIGEST_LEN);
	if (reader->reported - reader->report_taken == REPORTS_MAX)
		reader->report_taken++;
	report = &reader->reports[reader->reported++ % REPORTS_MAX];
	report->donor = source->donor;
	memcpy(report->digest, piece->digest, MEMORY_DIGEST_LEN);
}

/* Whose bytes they were is only known if all came from one. */
static void reread(struct memory_reader *reader, struct memory_load *load,
		   struct memory_load_piece *piece, uint64_t now)
{
	int replica = __builtin_ctz(piece->used);

	load->progress.rereads++;
	if (piece->used == 1U << replica)
		accuse(reader, load, piece, replica);
	piece->single = true;
	piece->used = 0;
	piece->left = piece->segments;
	load->progress.bytes -= piece->length;
	for (uint32_t i = 0; i < piece->segments; i++) {
		load->segments[piece->segment + i].done = false;
		reader_place(reader, load, piece->segment + i, now);
	}
}

/*
 * Bytes that were right, and that somebody may have used by now, are not any more. Nothing can
 * undo that: the load fails, or is marked.
 */
static void spoil(struct memory_reader *reader, struct memory_load *load,
		  struct memory_load_piece *piece, uint64_t now)
{
	for (uint32_t i = 0; i < piece->sources; i++)
		if (piece->late & 1U << i)
			accuse(reader, load, piece, i);
	load->progress.spoiled = true;
	snprintf(load->progress.reason, MEMORY_REASON_LEN,
		 "a donor that lost a race has written damaged bytes: load it again");
	if (load->progress.state == MEMORY_LOAD_RUNNING)
		end(reader, load, -EBADMSG, now);
	else
		reader_tell(reader, load);
}

void memory_reader_checked(struct memory_reader *reader, const struct memory_reader_check *check,
			   bool good, uint64_t now)
{
	struct memory_load *load = check->load;
	struct memory_load_piece *piece = &load->pieces[check->piece];
	uint32_t clear = load->progress.groups_clear;

	load->checking = false;
	if (load->progress.state == MEMORY_LOAD_FAILED) {
		settle(reader, load);
		return;
	}
	if (piece->written) {
		queue_check(load, check->piece);
	} else if (piece->done) {
		memory_load_unhold(load, piece);
		if (!good)
			spoil(reader, load, piece, now);
		else if (load->progress.groups_clear != clear)
			reader_tell(reader, load);
	} else if (good) {
		complete(reader, load, piece, now);
	} else {
		reread(reader, load, piece, now);
	}
	settle(reader, load);
}
