// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What to post. A segment goes to the first of its donors that is connected; a
 * donor with room in flight takes what waits for it, in the order of the load,
 * and if there is nothing, what waits for a donor that has no room.
 *
 * The race against slow reads follows Dean and Barroso, The Tail at Scale: after
 * the 99th percentile the same is read from another replica, which costs about
 * one read in a hundred; a budget keeps it there when a distribution is odd. The
 * loser cannot be called back, and what it writes is not known before it is over:
 * so nobody gets the bytes before that, and a donor that takes very long for it is
 * disconnected, which ends all that it could write.
 */
#include "reader_state.h"

#include <errno.h>
#include <string.h>

#define BATCH 16
#define STEAL_DEPTH 64
#define RELEASE_BATCH 64
/* Until enough reads are known, and never sooner. */
#define HEDGE_FIRST_NS 50000000ULL
#define HEDGE_MIN_NS 500000ULL
#define HEDGE_BUDGET 16
#define HEDGE_SHARE 20 /* one segment in so many, above the budget */
/* How long who has lost a race may take: so many times the 99th percentile, and not less than. */
#define LOST_TIMES 8
#define LOST_MIN_NS 200000000ULL
/* A question that has not been answered by then does not hold up work. */
#define ASK_STALE_NS 50000000ULL

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t slow_after(struct reader_donor *donor, struct reader_donor *other)
{
	uint64_t mine = memory_rate_p99(&donor->rate), theirs = memory_rate_p99(&other->rate);
	uint64_t threshold = mine && theirs ? earlier(mine, theirs) : mine + theirs;

	if (!threshold)
		return HEDGE_FIRST_NS;
	return threshold < HEDGE_MIN_NS ? HEDGE_MIN_NS : threshold;
}

static uint64_t hedge_slot(struct memory_reader *reader, uint32_t index, struct reader_slot *slot,
			   uint64_t now)
{
	struct memory_load *load = slot->load;
	struct memory_segment *segment = &load->segments[slot->segment];
	struct memory_load_piece *piece = &load->pieces[segment->piece];
	uint64_t due;
	int other;

	if (segment->hedged || segment->queued)
		return UINT64_MAX;
	if (load->progress.hedges >= HEDGE_BUDGET + load->segment_count / HEDGE_SHARE)
		return UINT64_MAX;
	other = reader_choose(reader, load, piece, index);
	if (other < 0)
		return UINT64_MAX;
	due = slot->posted + slow_after(reader->donors[index],
					reader->donors[load->sources[piece->source + other].donor]);
	if (due > now)
		return due;
	segment->hedged = true;
	load->progress.hedges++;
	reader->donors[index]->stats.hedges++;
	memory_load_queue(load, slot->segment, other);
	reader->moved = true;
	return UINT64_MAX;
}

/* The segment has come from elsewhere. */
static uint64_t lost_slot(struct memory_reader *reader, struct reader_donor *donor,
			  const struct reader_slot *slot, uint64_t now)
{
	uint64_t limit = LOST_TIMES * memory_rate_p99(&donor->rate);
	uint64_t due = slot->posted + (limit > LOST_MIN_NS ? limit : LOST_MIN_NS);

	if (due > now)
		return due;
	reader->ops->abandon(donor->link, "it took too long for what another donor had sent");
	return UINT64_MAX;
}

static uint64_t race(struct memory_reader *reader, uint64_t now)
{
	uint64_t next = UINT64_MAX, due;

	for (uint32_t i = 0; i < reader->donor_count; i++) {
		struct reader_donor *donor = reader->donors[i];

		for (uint64_t n = donor->completed; n < donor->posted; n++) {
			struct reader_slot *slot = &donor->slots[n % donor->depth];
			const struct memory_load *load = slot->load;

			if (!load->replicated || load->progress.state != MEMORY_LOAD_RUNNING)
				continue;
			due = load->segments[slot->segment].done ?
				      lost_slot(reader, donor, slot, now) :
				      hedge_slot(reader, i, slot, now);
			next = earlier(next, due);
		}
	}
	return next;
}

static uint64_t expire(struct memory_reader *reader, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct memory_load *load;

	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = load->next) {
			if (load->progress.state != MEMORY_LOAD_RUNNING)
				continue;
			if (load->deadline <= now)
				reader_fail(reader, load, -ETIMEDOUT, now);
			else
				next = earlier(next, load->deadline);
		}
	}
	return next;
}

static bool idle(const struct memory_load *load)
{
	if (load->flying || load->checking || load->check_first != MEMORY_NONE ||
	    load->allowed < load->segment_count)
		return false;
	for (uint32_t i = 0; i < load->lane_count; i++)
		if (load->lanes[i].count)
			return false;
	return true;
}

/* Of partial loads nothing is left that any donor would give now. */
static void leave_out(struct memory_reader *reader, uint64_t now)
{
	struct memory_load *load;

	for (int class = 0; class < MEMORY_CLASSES; class++)
		for (load = reader->loads[class]; load; load = load->next)
			if (load->partial && load->progress.state == MEMORY_LOAD_RUNNING &&
			    idle(load))
				reader_fail(reader, load, -ENOENT, now);
}

/* The next sources of a lane that have not been asked for. */
static void gather(struct memory_load *load, struct memory_lane *lane, struct reader_ask *ask,
		   uint32_t max, uint8_t (*digests)[MEMORY_DIGEST_LEN])
{
	uint32_t segment = lane->unasked;
	struct memory_source *source;

	for (ask->count = 0; segment != MEMORY_NONE && ask->count < max;
	     segment = load->segments[segment].next) {
		source = memory_load_source(load, segment);
		if (source->state != MEMORY_SOURCE_IDLE)
			continue;
		source->state = MEMORY_SOURCE_ASKED;
		ask->sources[ask->count] = source - load->sources;
		ask->pieces[ask->count] = load->segments[segment].piece;
		memcpy(digests[ask->count++], load->pieces[load->segments[segment].piece].digest,
		       MEMORY_DIGEST_LEN);
	}
	lane->unasked = segment;
}

/* False: no use to try more of them now. */
static bool ask_lane(struct memory_reader *reader, struct reader_donor *donor,
		     struct memory_load *load, struct memory_lane *lane, uint64_t now)
{
	uint8_t digests[MEMORY_WIRE_RESOLVE_MAX][MEMORY_DIGEST_LEN];
	uint32_t max = donor->pins_allowed - donor->pins, from = lane->unasked;
	struct reader_ask *ask = &donor->asks[donor->asked % ASKS_MAX];

	if (!max || donor->asked - donor->answered == ASKS_MAX)
		return false;
	gather(load, lane, ask, max < MEMORY_WIRE_RESOLVE_MAX ? max : MEMORY_WIRE_RESOLVE_MAX,
	       digests);
	if (!ask->count)
		return true;
	ask->load = load;
	ask->id = donor->asked;
	ask->asked = now;
	if (reader->ops->resolve(donor->link, ask->id, digests, ask->count)) {
		for (uint32_t i = 0; i < ask->count; i++)
			load->sources[ask->sources[i]].state = MEMORY_SOURCE_IDLE;
		lane->unasked = from;
		return false;
	}
	donor->asked++;
	donor->pins += ask->count;
	load->asks++;
	return true;
}

static void ask(struct memory_reader *reader, uint32_t index, int class, uint64_t now)
{
	struct reader_donor *donor = reader->donors[index];
	struct memory_load *load;

	if (now < donor->busy_until)
		return;
	for (load = reader->loads[class]; load; load = load->next)
		while (index < load->lane_count && load->lanes[index].unasked != MEMORY_NONE)
			if (!ask_lane(reader, donor, load, &load->lanes[index], now))
				return;
}

/* The first of a lane that can be read; MEMORY_NONE: there is none now. */
static uint32_t pick(struct memory_reader *reader, struct memory_load *load, uint32_t index,
		     uint64_t now)
{
	struct memory_lane *lane = &load->lanes[index];
	uint32_t segment;

	while (lane->first != MEMORY_NONE) {
		segment = lane->first;
		switch (memory_load_source(load, segment)->state) {
		case MEMORY_SOURCE_READY:
			memory_load_unqueue(load, segment, MEMORY_NONE);
			if (load->segments[segment].done)
				break;
			return segment;
		case MEMORY_SOURCE_MISSING:
		case MEMORY_SOURCE_DAMAGED:
			memory_load_unqueue(load, segment, MEMORY_NONE);
			if (!load->segments[segment].done && !load->segments[segment].flying)
				reader_place(reader, load, segment, now);
			break;
		default:
			/* The winner of a race leaves its rival behind. */
			if (!load->segments[segment].done)
				return MEMORY_NONE;
			memory_load_unqueue(load, segment, MEMORY_NONE);
		}
	}
	return MEMORY_NONE;
}

static void take_off(struct reader_donor *donor, struct memory_load *load, uint32_t index,
		     struct memory_read *read, uint64_t now)
{
	struct memory_segment *segment = &load->segments[index];
	struct memory_load_piece *piece = &load->pieces[segment->piece];
	struct memory_source *source = memory_load_source(load, index);
	uint32_t next = load->lanes[source->donor].first;
	uint64_t offset = memory_load_offset(load, index);

	*read = (struct memory_read){
		.local = piece->address + offset, .lkey = piece->lkey,
		.remote = source->remote + offset, .rkey = source->rkey,
		.length = memory_load_length(load, index),
		.awaited = next == MEMORY_NONE ||
			   load->pieces[load->segments[next].piece].group != piece->group,
	};
	donor->slots[donor->posted++ % donor->depth] = (struct reader_slot){
		.load = load, .segment = index, .replica = segment->replica,
		.hedge = segment->flying, .posted = now,
	};
	if (reader_in_flight(donor) == 1)
		memory_rate_begin(&donor->rate, now);
	source->users++;
	piece->touched |= 1U << segment->replica;
	memory_load_fly(load, index);
}

static void post(struct memory_reader *reader, uint32_t index, int class, uint64_t now)
{
	struct reader_donor *donor = reader->donors[index];
	struct memory_read reads[BATCH];
	struct memory_load *load = reader->loads[class];
	uint32_t count = 0, segment;

	while (load && reader_room(donor)) {
		segment = index < load->lane_count ? pick(reader, load, index, now) : MEMORY_NONE;
		if (segment == MEMORY_NONE) {
			load = load->next;
			continue;
		}
		take_off(donor, load, segment, &reads[count++], now);
		if (count == BATCH) {
			reader->ops->read(donor->link, reads, count);
			count = 0;
		}
	}
	if (count)
		reader->ops->read(donor->link, reads, count);
}

static int replica_at(const struct memory_load *load, const struct memory_load_piece *piece,
		      uint32_t donor)
{
	const struct memory_source *source = &load->sources[piece->source];

	for (uint32_t i = 0; i < piece->sources; i++, source++)
		if (source->donor == donor && memory_source_hopeful(source))
			return i;
	return -1;
}

/* Can what waits for this donor not be posted soon? */
static bool swamped(const struct reader_donor *donor, uint64_t now)
{
	return !reader_room(donor) || now < donor->busy_until ||
	       (donor->asked != donor->answered &&
		now - donor->asks[donor->answered % ASKS_MAX].asked >= ASK_STALE_NS);
}

static uint32_t steal_lane(struct memory_load *load, uint32_t from, uint32_t to, uint32_t room)
{
	uint32_t before = MEMORY_NONE, next, taken = 0;
	uint32_t segment = load->lanes[from].first;

	for (int seen = 0; segment != MEMORY_NONE && seen < STEAL_DEPTH && taken < room; seen++) {
		struct memory_load_piece *piece = &load->pieces[load->segments[segment].piece];
		int replica = replica_at(load, piece, to);

		next = load->segments[segment].next;
		/* A hedge is where it is because of where it flies. */
		if (replica < 0 || piece->single || load->segments[segment].flying) {
			before = segment;
		} else {
			memory_load_unqueue(load, segment, before);
			memory_load_queue(load, segment, replica);
			taken++;
		}
		segment = next;
	}
	return taken;
}

/* For a donor that has room and nothing to read of a load. */
static bool steal(struct memory_reader *reader, uint32_t index, int class, uint64_t now)
{
	uint32_t room = reader_room(reader->donors[index]), taken = 0;
	struct memory_load *load;

	for (load = reader->loads[class]; load && taken < room; load = load->next) {
		if (!load->replicated || load->progress.state != MEMORY_LOAD_RUNNING ||
		    index >= load->lane_count || !load->lanes[index].named ||
		    load->lanes[index].first != MEMORY_NONE)
			continue;
		for (uint32_t from = 0; from < load->lane_count && taken < room; from++) {
			uint32_t got;

			if (from == index || load->lanes[from].first == MEMORY_NONE ||
			    !swamped(reader->donors[from], now))
				continue;
			got = steal_lane(load, from, index, room - taken);
			load->progress.stolen += got;
			taken += got;
		}
	}
	return taken;
}

static void tell_suspects(struct memory_reader *reader, struct reader_donor *donor)
{
	if (donor->suspect_count &&
	    !reader->ops->suspect(donor->link, donor->suspects, donor->suspect_count))
		donor->suspect_count = 0;
}

static void let_go(struct memory_reader *reader, struct reader_donor *donor)
{
	bool idle = !reader_in_flight(donor) && donor->asked == donor->answered;
	uint32_t first;

	if (donor->release_count < RELEASE_BATCH && !idle && donor->pins <= donor->pins_allowed / 2)
		return;
	while (donor->release_count) {
		first = donor->release_count > MEMORY_WIRE_RELEASE_MAX ?
				donor->release_count - MEMORY_WIRE_RELEASE_MAX : 0;
		if (reader->ops->release(donor->link, donor->releases + first,
					 donor->release_count - first))
			return;
		donor->pins -= donor->release_count - first;
		donor->release_count = first;
	}
}

/*
 * What has to be read again, or is raced, comes to the head of a lane. If those behind it have all
 * the pins, it gets none, and they wait for it.
 */
static bool is_stuck(const struct reader_donor *donor)
{
	return donor->link && donor->pins && donor->pins == donor->pins_allowed &&
	       !donor->release_count && !reader_in_flight(donor) &&
	       donor->asked == donor->answered;
}

/* All are asked for again, in order. True: that gave pins back. */
static bool give_up_pins(struct memory_reader *reader, uint32_t index)
{
	struct memory_load *load;
	bool any = false;

	for (int class = 0; class < MEMORY_CLASSES; class++) {
		for (load = reader->loads[class]; load; load = load->next) {
			if (index >= load->lane_count)
				continue;
			for (uint32_t i = 0; i < load->source_count; i++) {
				struct memory_source *source = &load->sources[i];

				if (source->donor != index || !source->pinned || source->users)
					continue;
				reader_release(reader, source);
				any = true;
			}
			load->lanes[index].unasked = load->lanes[index].first;
		}
	}
	return any;
}

static uint64_t next_of(const struct reader_donor *donor, uint64_t now)
{
	uint64_t next = donor->busy_until > now ? donor->busy_until : UINT64_MAX;
	uint64_t stale;

	if (donor->asked == donor->answered)
		return next;
	stale = donor->asks[donor->answered % ASKS_MAX].asked + ASK_STALE_NS;
	return stale > now ? earlier(next, stale) : next;
}

static void serve(struct memory_reader *reader, uint64_t now)
{
	for (uint32_t i = 0; i < reader->donor_count; i++) {
		if (!reader->donors[i]->link)
			continue;
		tell_suspects(reader, reader->donors[i]);
		/* What has been released makes room for what is asked for. */
		let_go(reader, reader->donors[i]);
		for (int class = 0; class < MEMORY_CLASSES; class++) {
			ask(reader, i, class, now);
			post(reader, i, class, now);
		}
	}
	for (uint32_t i = 0; i < reader->donor_count; i++) {
		for (int class = 0; class < MEMORY_CLASSES; class++) {
			if (!reader_room(reader->donors[i]) || !steal(reader, i, class, now))
				continue;
			ask(reader, i, class, now);
			post(reader, i, class, now);
		}
	}
}

uint64_t memory_reader_run(struct memory_reader *reader, uint64_t now)
{
	uint64_t next = expire(reader, now), slow;

	do {
		reader->moved = false;
		serve(reader, now);
		slow = race(reader, now);
		for (uint32_t i = 0; i < reader->donor_count; i++)
			if (is_stuck(reader->donors[i]) && give_up_pins(reader, i))
				reader->moved = true;
	} while (reader->moved);
	leave_out(reader, now);
	next = earlier(next, slow);
	for (uint32_t i = 0; i < reader->donor_count; i++)
		next = earlier(next, next_of(reader->donors[i], now));
	return next;
}
