// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index: who needs and who holds each chunk, found by its digest. It is in parts, by
 * the first bits of digests, and a part is made when somebody asks for a chunk of
 * it: after a change, a question costs a 4096th of what all do, and who asks for everything
 * can do so part by part. A change itself costs nothing: what was made before it is told by
 * its number, and only its memory is used again.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_MIN 64

/* That a host holds a chunk of the part; both by number. */
struct held {
	uint32_t chunk, host;
};

void catalog_index_drop(struct catalog *catalog)
{
	catalog->changes++;
}

void catalog_index_free(struct catalog *catalog)
{
	for (size_t i = 0; i < CATALOG_PARTS; i++) {
		struct part *part = &catalog->parts[i];

		free(part->chunks);
		hash_free(&part->table);
		free(part->holders);
		*part = (struct part){ 0 };
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		free(catalog->locations[i].rows);
		catalog->locations[i] = (struct locations){ 0 };
	}
	free(catalog->held);
	free(catalog->holders);
	catalog->held = NULL;
	catalog->holders = NULL;
	catalog->indexed = 0;
}

uint64_t catalog_changes(const struct catalog *catalog)
{
	return catalog->changes;
}

/* So many rows have room then. */
static int make_room(void **rows, size_t *room, size_t count, size_t size)
{
	size_t more = *room ? *room : CHUNKS_MIN;
	void *grown;

	if (count <= *room)
		return 0;
	while (more < count)
		more *= 2;
	grown = reallocarray(*rows, more, size);
	if (!grown)
		return -ENOMEM;
	*rows = grown;
	*room = more;
	return 0;
}

/*
 * What all parts have in common
 */

/* The keys of a host stand together. */
static int number_host(struct catalog *catalog, const char *host, uint32_t *number)
{
	size_t count = catalog->holder_count;
	void *names;

	if (!count || strcmp(catalog->holders[count - 1], host)) {
		names = reallocarray(catalog->holders, count + 1, sizeof(*catalog->holders));
		if (!names)
			return -ENOMEM;
		catalog->holders = names;
		strcpy(catalog->holders[catalog->holder_count++], host);
	}
	*number = (uint32_t)catalog->holder_count - 1;
	return 0;
}

static int append_location(struct locations *locations, const struct location *location)
{
	if (!location->count)
		return 0;
	if (make_room((void **)&locations->rows, &locations->room, locations->count + 1,
		      sizeof(*location)))
		return -ENOMEM;
	locations->rows[locations->count++] = *location;
	return 0;
}

/* The host whose keys are gone through. */
struct holder {
	char name[CATALOG_HOST_LEN];
	const struct catalog_host *host; /* NULL: it is away */
};

static int add_location(struct catalog *catalog, const struct catalog_entry *entry,
			struct holder *holder)
{
	struct location location = { 0 };
	struct catalog_bucket parts;
	char name[CATALOG_HOST_LEN];
	size_t bucket;
	int err;

	if (!catalog_bucket_split(entry->key, name, &bucket))
		return 0;
	if (strcmp(holder->name, name)) {
		strcpy(holder->name, name);
		holder->host = catalog_host_find(catalog, name);
	}
	location.live = holder->host &&
			holder->host->generation == catalog_bucket_generation(entry->value);
	/* What only memory held went with the process; its lease has just not run out. */
	if (!location.live && entry->lease)
		return 0;
	parts = catalog_bucket_parse(entry);
	location.digests = parts.held;
	location.count = parts.held_count;
	err = number_host(catalog, name, &location.host);
	if (!err)
		err = append_location(&catalog->locations[bucket], &location);
	/* What it has not read from its spool yet. */
	location.live = false;
	location.digests = parts.before;
	location.count = parts.before_count;
	return err ? err : append_location(&catalog->locations[bucket], &location);
}

static void count_digests(const struct catalog_model *model, void *arg)
{
	*(size_t *)arg += model->digest_count;
}

static int index_hosts(struct catalog *catalog)
{
	const struct catalog_entry *entry;
	struct holder holder = { 0 };
	char prefix[CATALOG_KEY_MAX];
	int err;

	if (catalog->indexed == catalog->changes)
		return 0;
	catalog->indexed = 0;
	catalog->holder_count = catalog->need_count = catalog->numbered = 0;
	for (size_t i = 0; i < BUCKETS; i++)
		catalog->locations[i].count = 0;
	catalog_prefix(catalog, "chunk", prefix);
	catalog_entries_each(&catalog->view.entries, prefix, entry) {
		err = entry->noun ? add_location(catalog, entry, &holder) : 0;
		if (err)
			return err;
	}
	catalog_model_each(catalog, count_digests, &catalog->need_count);
	catalog->indexed = catalog->changes;
	return 0;
}

/*
 * A part
 */

static struct catalog_chunk *find(const struct part *part, const uint8_t *digest)
{
	const struct hash_slot *slot;

	hash_each_of(&part->table, hash_of_digest(digest), slot) {
		struct catalog_chunk *chunk = &part->chunks[slot->value - 1];

		if (!memcmp(chunk->digest, digest, CATALOG_DIGEST))
			return chunk;
	}
	return NULL;
}

/* The digest is that of a model or of a location, and stays. NULL: no memory. */
static struct catalog_chunk *put(struct part *part, const uint8_t *digest)
{
	struct catalog_chunk *chunk = find(part, digest);

	if (chunk)
		return chunk;
	if (make_room((void **)&part->chunks, &part->room, part->count + 1, sizeof(*chunk)) ||
	    hash_add(&part->table, hash_of_digest(digest), part->count + 1))
		return NULL;
	chunk = &part->chunks[part->count++];
	*chunk = (struct catalog_chunk){ .digest = digest };
	return chunk;
}

struct needing {
	struct catalog *catalog;
	size_t part;
	int err;
};

static void add_needs(const struct catalog_model *model, void *arg)
{
	struct needing *needing = arg;
	struct catalog_span span = catalog_digests_of_part(model->digests, model->digest_count,
							   needing->part);

	for (size_t i = 0; i < span.count && !needing->err; i++) {
		struct catalog_chunk *chunk = put(&needing->catalog->parts[needing->part],
						  span.digests + i * CATALOG_DIGEST);

		if (!chunk)
			needing->err = -ENOMEM;
		else if (!chunk->references++)
			chunk->number = needing->catalog->numbered++;
	}
}

/* Those who are live come first. */
static int find_held(struct catalog *catalog, size_t index, bool live, size_t *count)
{
	struct part *part = &catalog->parts[index];
	struct locations *locations = &catalog->locations[index / (CATALOG_PARTS / BUCKETS)];

	for (size_t i = 0; i < locations->count; i++) {
		const struct location *location = &locations->rows[i];
		struct catalog_span span;

		if (location->live != live)
			continue;
		span = catalog_digests_of_part(location->digests, location->count, index);
		if (make_room((void **)&catalog->held, &catalog->held_room, *count + span.count,
			      sizeof(*catalog->held)))
			return -ENOMEM;
		for (size_t j = 0; j < span.count; j++) {
			struct catalog_chunk *chunk = put(part, span.digests + j * CATALOG_DIGEST);

			if (!chunk)
				return -ENOMEM;
			(*(live ? &chunk->live : &chunk->away))++;
			catalog->held[(*count)++] = (struct held){
				.chunk = (uint32_t)(chunk - part->chunks), .host = location->host,
			};
		}
	}
	return 0;
}

static void list_holders(struct part *part, const struct held *held, size_t count)
{
	uint32_t *end = part->holders;

	for (size_t i = 0; i < part->count; i++) {
		end += part->chunks[i].live + part->chunks[i].away;
		part->chunks[i].holders = end;
	}
	/* Backwards, so that each ends at the beginning of its own. */
	while (count-- > 0)
		*--part->chunks[held[count].chunk].holders = held[count].host;
}

static int add_holders(struct catalog *catalog, size_t index)
{
	struct part *part = &catalog->parts[index];
	size_t count = 0;
	int err = find_held(catalog, index, true, &count);

	if (!err)
		err = find_held(catalog, index, false, &count);
	if (!err)
		err = make_room((void **)&part->holders, &part->holder_room, count + 1,
				sizeof(*part->holders));
	if (!err)
		list_holders(part, catalog->held, count);
	return err;
}

int catalog_index(struct catalog *catalog, size_t index)
{
	struct needing needing = { .catalog = catalog, .part = index };
	struct part *part = &catalog->parts[index];
	int err = index_hosts(catalog);

	if (err || part->made == catalog->changes)
		return err;
	part->made = 0;
	part->count = 0;
	hash_clear(&part->table);
	catalog_model_each(catalog, add_needs, &needing);
	err = needing.err ? needing.err : add_holders(catalog, index);
	/* One that was begun has given out numbers. */
	if (err)
		catalog_index_drop(catalog);
	else
		part->made = catalog->changes;
	return err;
}

const struct catalog_chunk *catalog_chunk_find(struct catalog *catalog, const uint8_t *digest)
{
	size_t part = catalog_part_of(digest);

	return catalog_index(catalog, part) ? NULL : find(&catalog->parts[part], digest);
}

int catalog_numbers(struct catalog *catalog, struct catalog_numbers *numbers)
{
	int err = index_hosts(catalog);

	*numbers = (struct catalog_numbers){
		.chunks = catalog->need_count, .hosts = catalog->holder_count,
		.names = (const char (*)[CATALOG_HOST_LEN])catalog->holders,
	};
	return err;
}
