// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who holds which chunk. The digests of a host are spread over buckets
 * by their first bits, so that a change writes a 64th of the list, and the list of a big
 * host stays below what a store takes: 2 million chunks.
 */
#include "state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t catalog_bucket_of(const uint8_t *digest)
{
	return digest[0] / (256 / BUCKETS);
}

size_t catalog_part_of(const uint8_t *digest)
{
	return ((size_t)digest[0] << 8 | digest[1]) / (65536 / CATALOG_PARTS);
}

uint64_t catalog_bucket_generation(const void *value)
{
	const uint8_t *bytes = value;
	uint64_t generation = 0;

	for (int i = BUCKET_HEADER; i-- > 0;)
		generation = generation << 8 | bytes[i];
	return generation;
}

/* HOST/NN */
bool catalog_bucket_split(const char *key, char *host, size_t *bucket)
{
	const char *number = strrchr(key, '/'), *name;

	if (!number || strlen(number) != 3 || strspn(number + 1, "0123456789") != 2)
		return false;
	*bucket = (size_t)strtoul(number + 1, NULL, 10);
	name = memrchr(key, '/', (size_t)(number - key));
	if (!name || *bucket >= BUCKETS || number - name > CATALOG_HOST_LEN)
		return false;
	memcpy(host, name + 1, (size_t)(number - name - 1));
	host[number - name - 1] = '\0';
	return catalog_name_is_good(host, CATALOG_HOST_LEN, "");
}

bool catalog_bucket_is_good(const struct catalog_entry *entry)
{
	const uint8_t *digests = (const uint8_t *)entry->value + BUCKET_HEADER;
	char host[CATALOG_HOST_LEN];
	struct catalog_bucket parts;
	size_t bucket;

	if (!catalog_bucket_split(entry->key, host, &bucket) || entry->size < BUCKET_HEADER ||
	    (entry->size - BUCKET_HEADER) % CATALOG_DIGEST)
		return false;
	parts = catalog_bucket_parse(entry);
	for (size_t i = 0; i < parts.held_count + parts.before_count; i++) {
		const uint8_t *digest = digests + i * CATALOG_DIGEST;

		if (catalog_bucket_of(digest) != bucket ||
		    (i && i != parts.held_count &&
		     memcmp(digest - CATALOG_DIGEST, digest, CATALOG_DIGEST) >= 0))
			return false;
	}
	return true;
}

struct catalog_bucket catalog_bucket_parse(const struct catalog_entry *entry)
{
	static const uint8_t zeroes[BUCKET_MARK];
	const uint8_t *digests = (const uint8_t *)entry->value + BUCKET_HEADER;
	size_t count = (entry->size - BUCKET_HEADER) / CATALOG_DIGEST;
	struct catalog_bucket bucket = { .held = digests, .held_count = count };
	const uint8_t *mark = digests + (count - 1) * CATALOG_DIGEST;
	uint64_t held;

	if (!count || memcmp(mark, zeroes, BUCKET_MARK))
		return bucket;
	held = catalog_bucket_generation(mark + BUCKET_MARK);
	/* The mark itself is none. */
	bucket.held_count = held < count ? (size_t)held : count - 1;
	bucket.before_count = count - 1 - bucket.held_count;
	bucket.before = digests + bucket.held_count * CATALOG_DIGEST;
	return bucket;
}

size_t catalog_digest_place(const uint8_t *digests, size_t count, const uint8_t *digest,
			    bool *found)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(digests + middle * CATALOG_DIGEST, digest, CATALOG_DIGEST) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	*found = low < count && !memcmp(digests + low * CATALOG_DIGEST, digest, CATALOG_DIGEST);
	return low;
}

struct catalog_span catalog_digests_of_part(const uint8_t *digests, size_t count, size_t part)
{
	uint8_t first[CATALOG_DIGEST] = { 0 };
	size_t from, to = count, number = part * (65536 / CATALOG_PARTS);
	bool found;

	first[0] = (uint8_t)(number >> 8);
	first[1] = (uint8_t)number;
	from = catalog_digest_place(digests, count, first, &found);
	if (part + 1 < CATALOG_PARTS) {
		number += 65536 / CATALOG_PARTS;
		first[0] = (uint8_t)(number >> 8);
		first[1] = (uint8_t)number;
		to = from + catalog_digest_place(digests + from * CATALOG_DIGEST, count - from,
						 first, &found);
	}
	return (struct catalog_span){ digests + from * CATALOG_DIGEST, to - from };
}

/* The keys of a host stand together. */
void catalog_host_each_away(const struct catalog *catalog,
			    void (*each)(const char *name, void *arg), void *arg)
{
	char prefix[CATALOG_KEY_MAX], host[CATALOG_HOST_LEN], last[CATALOG_HOST_LEN] = "";
	const struct catalog_entry *entry;
	size_t bucket;

	catalog_prefix(catalog, "chunk", prefix);
	catalog_entries_each(&catalog->view.entries, prefix, entry) {
		if (!entry->noun || entry->lease ||
		    !catalog_bucket_split(entry->key, host, &bucket) || !strcmp(host, last))
			continue;
		strcpy(last, host);
		if (!catalog_host_find(catalog, host))
			each(host, arg);
	}
}

size_t catalog_chunk_holders(struct catalog *catalog, const uint8_t *digest,
			     struct catalog_holder *holders, size_t room)
{
	const struct catalog_chunk *chunk = catalog_chunk_find(catalog, digest);
	size_t count = chunk ? chunk->live + chunk->away : 0;

	for (size_t i = 0; i < count && i < room; i++)
		holders[i] = (struct catalog_holder){
			.host = catalog->holders[chunk->holders[i]], .live = i < chunk->live,
		};
	return count;
}

size_t catalog_chunk_references(struct catalog *catalog, const uint8_t *digest)
{
	const struct catalog_chunk *chunk = catalog_chunk_find(catalog, digest);

	return chunk ? chunk->references : 0;
}

int catalog_model_availability(struct catalog *catalog, const char *name,
			       struct catalog_availability *availability,
			       void (*each)(const uint8_t *digest, bool away, void *arg), void *arg)
{
	const struct catalog_model *model = catalog_model_find(catalog, name);

	*availability = (struct catalog_availability){ 0 };
	if (!model)
		return -ENOENT;
	if (!model->known)
		return model->error[0] ? -EBADMSG : -EAGAIN;
	availability->chunks = model->digest_count;
	availability->copies = model->digest_count ? SIZE_MAX : 0;
	for (size_t i = 0; i < model->digest_count; i++) {
		const uint8_t *digest = model->digests + i * CATALOG_DIGEST;
		const struct catalog_chunk *chunk = catalog_chunk_find(catalog, digest);
		size_t live, away;

		/* The index knows all chunks of all models. */
		if (!chunk)
			return -ENOMEM;
		live = chunk->live;
		away = chunk->away;
		if (live < availability->copies)
			availability->copies = live;
		if (live) {
			availability->scarce += live < model->replicas;
			continue;
		}
		if (away)
			availability->away++;
		else
			availability->missing++;
		if (each)
			each(digest, away, arg);
	}
	return 0;
}

int catalog_references_known(const struct catalog *catalog)
{
	static const char *const kinds[] = { "model", "upload" };
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];
	/* What is being taken over may name the epoch, and not yet what was uploaded with it. */
	bool steady = catalog->view.listed_us && catalog->view.step == CATALOG_VIEW_STEADY;
	int err = steady ? 0 : -EAGAIN;

	for (size_t i = 0; i < 2; i++)
		catalog_entries_each(&catalog->view.entries,
				     catalog_prefix(catalog, kinds[i], prefix), entry) {
			const struct catalog_model *model = entry->noun;

			if (model && model->error[0])
				return -EBADMSG;
			/* An upload that is not complete has promised nothing yet. */
			if (!model || (!model->known && model->complete))
				err = -EAGAIN;
		}
	return err;
}

int catalog_garbage(struct catalog *catalog, size_t part,
		    void (*each)(const uint8_t *digest, void *arg), void *arg)
{
	const struct bucket *bucket = &catalog->member.buckets[part / (CATALOG_PARTS / BUCKETS)];
	struct catalog_span span = catalog_digests_of_part(bucket->digests, bucket->count, part);
	int err = catalog_references_known(catalog);

	if (!err)
		err = catalog_index(catalog, part);
	for (size_t i = 0; i < span.count && !err; i++) {
		const uint8_t *digest = span.digests + i * CATALOG_DIGEST;

		if (!catalog_chunk_references(catalog, digest))
			each(digest, arg);
	}
	return err;
}
