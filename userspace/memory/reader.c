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
/*
 * Bytes that are checked before the network is looked at again, by what the check costs. On one
 * processor that soft-RoCE shares, a load was 9 % slower than an unchecked one with 256 KiB, and
 * 0 to 5 % from 512 KiB on, where runs differ by as much as that: the exact number matters little.
 */
#define CHECKSUMS_TOGETHER (2U << 20)
#define DIGESTS_TOGETHER (512U << 10)
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
	if (load->progress.state == MEMORY_LOAD_RUNNING || load->flying || load->checking)
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

void reader_release(struct memory_reader *reader, struct memory_source *source)
{
	struct reader_donor *donor = reader->donors[source->donor];

	if (source->state == MEMORY_SOURCE_READY)
		source->state = MEMORY_SOURCE_IDLE;
	source->pinned = false;
	donor->releases[donor->release_count++] = source->pin;
}

/*
 * A pinned source is let go when no READ of it is in flight and none will be: its piece is
 * there, or the load has ended, or its bytes are damaged.
 */
static void release_unused(struct memory_reader *reader, struct memory_load *load,
			   const struct memory_load_piece *piece)
{
	bool over = piece->done || load->progress.state != MEMORY_LOAD_RUNNING;
	struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->pinned && !source->users &&
		    (over || source->state == MEMORY_SOURCE_DAMAGED))
			reader_release(reader, source);
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
	if (!donor->link)
		return donor->stats.reason;
	if (source->users)
		return "has not sent in time what was read from it";
	if (source->state == MEMORY_SOURCE_ASKED)
		return "has not answered in time";
	return piece->left ? "was not read from in time" : "was read from, but not checked in time";
}

void memory_reader_missing(struct memory_reader *reader, const struct memory_load *load,
			   bool (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg)
{
	const struct memory_source *source;

	for (uint32_t i = 0; i < load->piece_count; i++) {
		if (load->pieces[i].done)
			continue;
		source = &load->sources[load->pieces[i].source];
		for (uint32_t s = 0; s < load->pieces[i].sources; s++, source++)
			if (!tell(arg, load->pieces[i].digest,
				  reader->donors[source->donor]->stats.name,
				  reason_of(reader, load, &load->pieces[i], source)))
				return;
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
	load->check_first = load->check_last = MEMORY_NONE;
	load->check_bytes = 0;
	load->check_due = false;
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
	else if (hopeless(load, piece) && !load->partial)
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
	if (load)
		memory_reader_start(reader, load, request, now);
	return load;
}

void memory_reader_start(struct memory_reader *reader, struct memory_load *load,
			 const struct memory_load_request *request, uint64_t now)
{
	load->progress.begun_ns = now;
	load->deadline = deadline_at(request->deadline_ns, now);
	link_load(reader, load);
	memory_reader_allow(reader, load, request->allowed ? request->allowed : load->group_count,
			    now);
	if (load->progress.groups_done)
		reader_tell(reader, load);
}

void memory_reader_shape(const struct memory_reader *reader, uint32_t *lane_count,
			 uint32_t *segment_size)
{
	*lane_count = reader->donor_count;
	*segment_size = reader->segment_size;
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

static uint64_t checked_together(const struct memory_load *load)
{
	return load->check == MEMORY_CHECK_DIGEST ? DIGESTS_TOGETHER : CHECKSUMS_TOGETHER;
}

static void queue_check(struct memory_load *load, uint32_t index)
{
	struct memory_load_piece *piece = &load->pieces[index];

	piece->next = MEMORY_NONE;
	if (load->check_last == MEMORY_NONE)
		load->check_first = index;
	else
		load->pieces[load->check_last].next = index;
	load->check_last = index;
	load->check_bytes += piece->length;
	if (!--load->group_unread[piece->group] || load->check_bytes >= checked_together(load))
		load->check_due = true;
}

/* The first of them is taken out. */
static void unqueue_check(struct memory_load *load)
{
	const struct memory_load_piece *piece = &load->pieces[load->check_first];

	load->check_bytes -= piece->length;
	load->check_first = piece->next;
	if (load->check_first != MEMORY_NONE)
		return;
	load->check_last = MEMORY_NONE;
	load->check_due = false;
}

static bool is_in_flight(const struct memory_load *load, const struct memory_load_piece *piece)
{
	const struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->users)
			return true;
	return false;
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

/* A READ of the piece is over: was it what the piece still waited for? */
static void collect(struct memory_reader *reader, struct memory_load *load, uint32_t index,
		    uint64_t now)
{
	struct memory_load_piece *piece = &load->pieces[index];

	if (load->progress.state != MEMORY_LOAD_RUNNING || piece->left ||
	    is_in_flight(load, piece))
		return;
	if (load->check == MEMORY_CHECK_NOTHING)
		complete(reader, load, piece, now);
	else
		queue_check(load, index);
}

/* One that has been asked already, if there is such: from it nothing has to be waited for. */
static int choose_single(const struct memory_reader *reader, const struct memory_load *load,
			 const struct memory_load_piece *piece)
{
	const struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->state == MEMORY_SOURCE_READY && reader->donors[source->donor]->link)
			return i;
	return reader_choose(reader, load, piece, MEMORY_NONE);
}

/* A piece with wrong bytes is read anew, from one source. */
static void restart(struct memory_reader *reader, struct memory_load *load,
		    struct memory_load_piece *piece, uint64_t now)
{
	int replica = choose_single(reader, load, piece);

	piece->single = true;
	piece->touched = 0;
	piece->left = piece->segments;
	load->group_unread[piece->group]++;
	load->progress.bytes -= piece->length;
	for (uint32_t i = piece->segment; i < piece->segment + piece->segments; i++) {
		load->segments[i].done = false;
		/* The rival in a race that is over may still wait in a lane. */
		memory_load_withdraw(load, i);
		if (replica < 0) {
			reader_place(reader, load, i, now);
		} else {
			memory_load_queue(load, i, replica);
			reader->moved = true;
		}
	}
}

/* One READ is over, well or not; its segment is not done by that. */
static void unfly(const struct reader_slot *slot)
{
	struct memory_load *load = slot->load;
	struct memory_load_piece *piece = &load->pieces[load->segments[slot->segment].piece];

	load->sources[piece->source + slot->replica].users--;
	memory_load_unfly(load, slot->segment);
}

/* What the donor knew of us is gone, its answers and pins included. */
static void reset_sources(struct memory_load *load, uint32_t donor)
{
	struct memory_source *source = load->sources;

	for (uint32_t i = 0; i < load->source_count; i++, source++) {
		if (source->donor != donor)
			continue;
		source->pinned = false;
		if (source->state != MEMORY_SOURCE_DAMAGED)
			source->state = MEMORY_SOURCE_IDLE;
	}
}

static void empty_lane(struct memory_reader *reader, struct memory_load *load, uint32_t donor,
		       uint64_t now)
{
	struct memory_lane *lane = &load->lanes[donor];
	uint32_t segment;

	while (load->progress.state == MEMORY_LOAD_RUNNING && lane->first != MEMORY_NONE) {
		segment = lane->first;
		memory_load_unqueue(load, segment, MEMORY_NONE);
		if (!load->segments[segment].done && !load->segments[segment].flying)
			reader_place(reader, load, segment, now);
	}
}

void memory_reader_link_down(struct memory_reader *reader, uint32_t index, const char *reason,
			     uint64_t now)
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

		unfly(slot);
		collect(reader, slot->load, segment->piece, now);
		if (slot->load->progress.state != MEMORY_LOAD_RUNNING || segment->done)
			continue;
		slot->load->progress.rereads++;
		/* A hedge may already be elsewhere. */
		if (!segment->flying && !segment->queued)
			reader_place(reader, slot->load, slot->segment, now);
	}
	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = next) {
			next = load->next;
			if (index < load->lane_count)
				empty_lane(reader, load, index, now);
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
	source->pinned = true;
	source->remote = location->address;
	source->rkey = location->rkey;
	source->pin = location->pin;
	if (location->length != load->pieces[piece].length) {
		source->state = MEMORY_SOURCE_DAMAGED;
		donor->stats.damaged++;
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

static void land(struct memory_reader *reader, struct reader_donor *donor, uint64_t now)
{
	struct reader_slot *slot = &donor->slots[donor->completed++ % donor->depth];
	struct memory_load *load = slot->load;
	struct memory_segment *segment = &load->segments[slot->segment];
	struct memory_load_piece *piece = &load->pieces[segment->piece];
	uint32_t length = memory_load_length(load, slot->segment);

	unfly(slot);
	memory_rate_sample(&donor->rate, now - slot->posted);
	memory_rate_done(&donor->rate, length, now);
	donor->stats.reads++;
	donor->stats.bytes += length;
	if (load->progress.state != MEMORY_LOAD_RUNNING) {
		release_unused(reader, load, piece);
		settle(reader, load);
		return;
	}
	if (segment->done) {
		load->progress.wasted += length;
	} else {
		segment->done = true;
		load->progress.bytes += length;
		load->progress.hedges_won += slot->hedge;
		piece->left--;
	}
	collect(reader, load, segment->piece, now);
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

/* Without READs in flight nothing comes that they could be checked together with. */
static bool checks_are_due(const struct memory_load *load)
{
	return load->check_first != MEMORY_NONE && !load->checking &&
	       (load->check_due || !load->flying);
}

uint32_t memory_reader_to_check(struct memory_reader *reader,
				struct memory_reader_check checks[MEMORY_CHECKS_MAX])
{
	const struct memory_load_piece *piece;
	struct memory_load *load = NULL;
	uint64_t bytes = 0;
	uint32_t count = 0;

	for (int class = 0; class < MEMORY_CLASSES && !load; class++)
		for (load = reader->loads[class]; load && !checks_are_due(load); load = load->next)
			;
	if (!load)
		return 0;
	while (load->check_first != MEMORY_NONE && count < MEMORY_CHECKS_MAX &&
	       bytes < checked_together(load)) {
		piece = &load->pieces[load->check_first];
		checks[count++] = (struct memory_reader_check){
			.load = load, .piece = load->check_first, .kind = load->check,
			.data = (const void *)(uintptr_t)piece->address,
			.length = piece->length, .digest = piece->digest,
			.checksum = piece->checksum,
		};
		bytes += piece->length;
		unqueue_check(load);
	}
	load->checking = count;
	return count;
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

	source->state = MEMORY_SOURCE_DAMAGED;
	release_unused(reader, load, piece);
	donor->stats.damaged++;
	if (donor->suspect_count < SUSPECTS_MAX)
		memcpy(donor->suspects[donor->suspect_count++], piece->digest, MEMORY_DIGEST_LEN);
	if (reader->reported - reader->report_taken == REPORTS_MAX)
		reader->report_taken++;
	report = &reader->reports[reader->reported++ % REPORTS_MAX];
	report->donor = source->donor;
	memcpy(report->digest, piece->digest, MEMORY_DIGEST_LEN);
}

/* Whose bytes they are is only known if nobody else can have written: else nobody is accused. */
static void reread(struct memory_reader *reader, struct memory_load *load,
		   struct memory_load_piece *piece, uint64_t now)
{
	uint8_t touched = piece->touched;

	load->progress.rereads++;
	if (touched && !(touched & (touched - 1)))
		accuse(reader, load, piece, __builtin_ctz(touched));
	restart(reader, load, piece, now);
}

void memory_reader_checked(struct memory_reader *reader, const struct memory_reader_check *check,
			   uint64_t now)
{
	struct memory_load *load = check->load;
	struct memory_load_piece *piece = &load->pieces[check->piece];

	load->checking--;
	if (load->progress.state != MEMORY_LOAD_RUNNING)
		settle(reader, load);
	else if (check->good)
		complete(reader, load, piece, now);
	else
		reread(reader, load, piece, now);
}
