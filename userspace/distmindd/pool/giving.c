// SPDX-License-Identifier: GPL-2.0-or-later
#include "giving.h"

#include "../common/log.h"
#include "../common/turn.h"
#include "../common/turns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHED_MAX 4096 /* after one pass */
#define CHUNKS_LOOKED 16 /* between two looks at the clock */

static const uint8_t *digest_of(const struct giving *giving, size_t which)
{
	return giving->digests + which * CATALOG_DIGEST;
}

static void note(struct giving *giving, const uint8_t *digest)
{
	memcpy(giving->digests + giving->count++ * CATALOG_DIGEST, digest, CATALOG_DIGEST);
}

static void set_step(struct giving *giving, enum giving_step step)
{
	bool waits = step == GIVING_ASKS || step == GIVING_RELEASES || step == GIVING_NOTHING;

	giving->step = step;
	giving->next = 0;
	sd_event_source_set_enabled(giving->turn, waits ? SD_EVENT_OFF : SD_EVENT_ON);
}

static void end(struct giving *giving, int err)
{
	set_step(giving, GIVING_NOTHING);
	if (giving->freed)
		log_info("garbage-freed", LOG_U("chunks", giving->freed));
	giving->ended(giving->arg, err);
}

static void begin_garbage(struct giving *giving)
{
	giving->cursor = 0;
	giving->count = 0;
	set_step(giving, GIVING_SEEKS_GARBAGE);
}

/*
 * Surplus
 */

/*
 * What some model needs and the pass did not mark, nor the next one, which may be under way
 * already: its marks are greater. False: there is no room for more.
 */
static bool see_chunk(void *arg, const struct memory_chunk *chunk)
{
	struct giving *giving = arg;
	const struct catalog_chunk *known;

	if (chunk->mark >= giving->mark)
		return true;
	known = catalog_chunk_find(giving->catalog, chunk->digest);
	if (known && known->references && !chunks_storing(giving->chunks, chunk->digest))
		note(giving, chunk->digest);
	return giving->count < SHED_MAX;
}

/* What comes meanwhile is not marked: it is for the next pass, which follows. */
static bool seek_surplus(struct giving *giving)
{
	bool more = memory_arena_each(giving->chunks->arena, &giving->cursor, CHUNKS_LOOKED,
				      see_chunk, giving);

	if (catalog_changes(giving->catalog) != giving->changes)
		begin_garbage(giving);
	else if (!more && giving->count)
		set_step(giving, GIVING_LOSES_SURPLUS);
	else if (!more)
		begin_garbage(giving);
	return true;
}

static void on_looked(const struct catalog_result *result, void *arg)
{
	struct giving *giving = arg;

	if (result->err == -ECANCELED)
		return;
	giving->err = result->err;
	set_step(giving, GIVING_FREES_SURPLUS);
}

static void on_lost(const struct catalog_result *result, void *arg)
{
	static const struct catalog_result no_memory = { .err = -ENOMEM, .error = "no memory" };
	struct giving *giving = arg;

	if (result->err || catalog_sync(giving->catalog, on_looked, giving))
		on_looked(result->err ? result : &no_memory, giving);
}

static bool lose_surplus(struct giving *giving)
{
	if (giving->next < giving->count) {
		catalog_lose(giving->catalog, digest_of(giving, giving->next++));
		return true;
	}
	set_step(giving, GIVING_ASKS);
	if (catalog_flush(giving->catalog, on_lost, giving))
		on_lost(&(struct catalog_result){ .err = -ENOMEM }, giving);
	return true;
}

static bool held_elsewhere(struct giving *giving, const uint8_t *digest)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	size_t count = catalog_chunk_holders(giving->catalog, digest, holders,
					     CATALOG_REPLICAS_MAX);

	for (size_t i = 0; i < count && i < CATALOG_REPLICAS_MAX; i++)
		if (holders[i].live && strcmp(holders[i].host, giving->chunks->host.name))
			return true;
	return false;
}

static bool free_surplus(struct giving *giving)
{
	const uint8_t *digest;

	if (giving->next == giving->count) {
		chunks_report(giving->chunks);
		begin_garbage(giving);
		return true;
	}
	digest = digest_of(giving, giving->next++);
	/* Somebody who pushed it again meanwhile has said that it is held. */
	if (catalog_holds(giving->catalog, digest))
		return true;
	if (giving->err || !held_elsewhere(giving, digest))
		catalog_hold(giving->catalog, digest);
	else
		chunks_free(giving->chunks, digest);
	return true;
}

/*
 * Garbage
 */

static void on_released(const struct catalog_result *result, void *arg)
{
	struct giving *giving = arg;

	if (result->err == -ECANCELED)
		return;
	giving->err = result->err;
	set_step(giving, GIVING_FREES_GARBAGE);
}

static void see_garbage(const uint8_t *digest, void *arg)
{
	struct giving *giving = arg;

	/* The rest of the part is for the next time. */
	if (giving->count < CATALOG_RELEASE_MAX)
		note(giving, digest);
}

static bool seek_garbage(struct giving *giving)
{
	int err = 0;

	if (giving->cursor < CATALOG_PARTS && giving->count < CATALOG_RELEASE_MAX) {
		err = catalog_garbage(giving->catalog, giving->cursor, see_garbage, giving);
		/* One that was not seen to its end is looked at again. */
		giving->cursor += giving->count < CATALOG_RELEASE_MAX;
		if (!err)
			return true;
	}
	if (err || !giving->count) {
		/* Nothing is known to be garbage, for now: what changes that begins a pass. */
		end(giving, 0);
		return false;
	}
	set_step(giving, GIVING_RELEASES);
	err = catalog_release(giving->catalog, giving->digests, giving->count, on_released, giving);
	if (err)
		end(giving, err);
	return false;
}

static bool free_garbage(struct giving *giving)
{
	const uint8_t *digest;

	if (giving->next < giving->count) {
		digest = digest_of(giving, giving->next++);
		if (!catalog_holds(giving->catalog, digest)) {
			chunks_free(giving->chunks, digest);
			giving->freed++;
		}
		return true;
	}
	chunks_report(giving->chunks);
	if (giving->err) {
		end(giving, giving->err);
		return false;
	}
	giving->count = 0;
	set_step(giving, GIVING_SEEKS_GARBAGE);
	return true;
}

/* A little of it; false: it waits, or is over. */
static bool go_on(struct giving *giving)
{
	switch (giving->step) {
	case GIVING_SEEKS_SURPLUS:
		return seek_surplus(giving);
	case GIVING_LOSES_SURPLUS:
		return lose_surplus(giving);
	case GIVING_FREES_SURPLUS:
		return free_surplus(giving);
	case GIVING_SEEKS_GARBAGE:
		return seek_garbage(giving);
	case GIVING_FREES_GARBAGE:
		return free_garbage(giving);
	case GIVING_NOTHING:
	case GIVING_ASKS:
	case GIVING_RELEASES:
		break;
	}
	return false;
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct giving *giving = arg;

	(void)source;
	(void)us;
	turns_name("giving up chunks");
	while (go_on(giving) && !turns_over())
		;
	return 0;
}

int giving_open(struct giving *giving, sd_event *loop, struct catalog *catalog,
		struct chunks *chunks, void (*ended)(void *arg, int err), void *arg)
{
	int err;

	*giving = (struct giving){
		.catalog = catalog, .chunks = chunks, .ended = ended, .arg = arg,
		.digests = calloc(CATALOG_RELEASE_MAX, CATALOG_DIGEST),
	};
	_Static_assert(SHED_MAX <= CATALOG_RELEASE_MAX, "the digests of both have room");
	if (!giving->digests)
		return -ENOMEM;
	err = turn_begin(loop, &giving->turn, on_turn, giving);
	if (!err)
		set_step(giving, GIVING_NOTHING);
	return err;
}

void giving_close(struct giving *giving)
{
	sd_event_source_disable_unref(giving->turn);
	free(giving->digests);
	*giving = (struct giving){ 0 };
}

void giving_begin(struct giving *giving, uint64_t mark, uint64_t changes)
{
	if (!giving_is_over(giving))
		return;
	giving->mark = mark;
	giving->changes = changes;
	giving->freed = 0;
	giving->count = 0;
	giving->cursor = 0;
	giving->err = 0;
	set_step(giving, mark ? GIVING_SEEKS_SURPLUS : GIVING_SEEKS_GARBAGE);
}

bool giving_is_over(const struct giving *giving)
{
	return giving->step == GIVING_NOTHING;
}
