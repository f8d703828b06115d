// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The index: who needs and who holds each chunk, found by its digest. It is in parts, by
 * the buckets that hosts report in, and a part is made when somebody asks for a chunk of
 * it: after a change, a question costs a 64th of what all do, and who asks for everything
 * can do so part by part.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_MIN 64

static void clear_part(struct part *part)
{
	free(part->locations);
	free(part->chunks);
	hash_free(&part->table);
	free(part->holders);
	*part = (struct part){ 0 };
}

static void clear(struct catalog *catalog)
{
	for (size_t i = 0; i < BUCKETS; i++)
		clear_part(&catalog->parts[i]);
	free(catalog->holders);
	catalog->holders = NULL;
	catalog->holder_count = 0;
	catalog->need_count = 0;
	catalog->numbered = 0;
	catalog->indexed = false;
}

void catalog_index_drop(struct catalog *catalog)
{
	clear(catalog);
	catalog->changes++;
}

uint64_t catalog_changes(const struct catalog *catalog)
{
	return catalog->changes;
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

static int add_location(struct catalog *catalog, const struct catalog_entry *entry)
{
	const struct catalog_host *host;
	struct location location = { 0 };
	char name[CATALOG_HOST_LEN];
	struct part *part;
	size_t bucket;
	void *rows;

	if (!catalog_bucket_split(entry->key, name, &bucket))
		return 0;
	host = catalog_host_find(catalog, name);
	location.live = host && host->generation == catalog_bucket_generation(entry->value);
	/* What only memory held went with the process; its lease has just not run out. */
	if (!location.live && entry->lease)
		return 0;
	location.digests = (const uint8_t *)entry->value + BUCKET_HEADER;
	location.count = (entry->size - BUCKET_HEADER) / CATALOG_DIGEST;
	part = &catalog->parts[bucket];
	rows = reallocarray(part->locations, part->location_count + 1, sizeof(location));
	if (!rows)
		return -ENOMEM;
	part->locations = rows;
	if (number_host(catalog, name, &location.host))
		return -ENOMEM;
	part->locations[part->location_count++] = location;
	return 0;
}

static void count_digests(const struct catalog_model *model, void *arg)
{
	*(size_t *)arg += model->digest_count;
}

static int index_hosts(struct catalog *catalog)
{
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];
	int err = 0;

	if (catalog->indexed)
		return 0;
	clear(catalog);
	catalog_prefix(catalog, "chunk", prefix);
	catalog_entries_each(&catalog->view.entries, prefix, entry)
		if (entry->noun && !err)
			err = add_location(catalog, entry);
	if (err) {
		clear(catalog);
		return err;
	}
	catalog_model_each(catalog, count_digests, &catalog->need_count);
	catalog->indexed = true;
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

static int grow(struct part *part)
{
	size_t room = part->room ? 2 * part->room : CHUNKS_MIN;
	void *chunks = reallocarray(part->chunks, room, sizeof(*part->chunks));

	if (!chunks)
		return -ENOMEM;
	part->chunks = chunks;
	part->room = room;
	return 0;
}

/* The digest is that of a model or of a location, and stays. NULL: no memory. */
static struct catalog_chunk *put(struct part *part, const uint8_t *digest)
{
	struct catalog_chunk *chunk = find(part, digest);

	if (chunk)
		return chunk;
	if (part->count == part->room && grow(part))
		return NULL;
	if (hash_add(&part->table, hash_of_digest(digest), part->count + 1))
		return NULL;
	chunk = &part->chunks[part->count++];
	*chunk = (struct catalog_chunk){ .digest = digest };
	return chunk;
}

struct needing {
	struct catalog *catalog;
	struct part *part;
	uint8_t from[CATALOG_DIGEST];
	size_t bucket;
	int err;
};

static void add_needs(const struct catalog_model *model, void *arg)
{
	struct needing *needing = arg;
	bool found;
	size_t i;

	i = catalog_digest_place(model->digests, model->digest_count, needing->from, &found);
	for (; i < model->digest_count; i++) {
		const uint8_t *digest = model->digests + i * CATALOG_DIGEST;
		struct catalog_chunk *chunk;

		if (catalog_bucket_of(digest) != needing->bucket)
			break;
		chunk = put(needing->part, digest);
		if (!chunk) {
			needing->err = -ENOMEM;
			break;
		}
		if (!chunk->references++)
			chunk->number = needing->catalog->numbered++;
	}
}

/* That a host holds a chunk of the part; both by number. */
struct held {
	uint32_t chunk, host;
};

static int find_held(struct part *part, bool live, struct held *held, size_t *count)
{
	for (size_t i = 0; i < part->location_count; i++) {
		const struct location *location = &part->locations[i];

		for (size_t j = 0; j < location->count && location->live == live; j++) {
			struct catalog_chunk *chunk;

			chunk = put(part, location->digests + j * CATALOG_DIGEST);
			if (!chunk)
				return -ENOMEM;
			(*(live ? &chunk->live : &chunk->away))++;
			held[(*count)++] = (struct held){
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

static int add_holders(struct part *part)
{
	size_t room = 0, count = 0;
	struct held *held;
	int err = -ENOMEM;

	for (size_t i = 0; i < part->location_count; i++)
		room += part->locations[i].count;
	held = calloc(room + 1, sizeof(*held));
	part->holders = calloc(room + 1, sizeof(*part->holders));
	if (held && part->holders)
		err = find_held(part, true, held, &count);
	if (!err)
		err = find_held(part, false, held, &count);
	if (!err)
		list_holders(part, held, count);
	free(held);
	return err;
}

int catalog_index(struct catalog *catalog, size_t bucket)
{
	struct part *part = &catalog->parts[bucket];
	struct needing needing = { .catalog = catalog, .part = part, .bucket = bucket };
	int err = index_hosts(catalog);

	if (err || part->made)
		return err;
	needing.from[0] = (uint8_t)(bucket * (256 / BUCKETS));
	catalog_model_each(catalog, add_needs, &needing);
	err = needing.err ? needing.err : add_holders(part);
	if (err)
		clear(catalog);
	else
		part->made = true;
	return err;
}

const struct catalog_chunk *catalog_chunk_find(struct catalog *catalog, const uint8_t *digest)
{
	size_t bucket = catalog_bucket_of(digest);

	return catalog_index(catalog, bucket) ? NULL : find(&catalog->parts[bucket], digest);
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
