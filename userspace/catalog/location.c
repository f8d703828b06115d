// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who holds which chunk, and who needs it. The digests of a host are spread over buckets
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

uint64_t catalog_bucket_generation(const void *value)
{
	const uint8_t *bytes = value;
	uint64_t generation = 0;

	for (int i = BUCKET_HEADER; i-- > 0;)
		generation = generation << 8 | bytes[i];
	return generation;
}

/* HOST/NN */
static bool split_key(const char *key, char *host, size_t *bucket)
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
	size_t bucket, count;

	if (!split_key(entry->key, host, &bucket) || entry->size < BUCKET_HEADER ||
	    (entry->size - BUCKET_HEADER) % CATALOG_DIGEST)
		return false;
	count = (entry->size - BUCKET_HEADER) / CATALOG_DIGEST;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *digest = digests + i * CATALOG_DIGEST;

		if (catalog_bucket_of(digest) != bucket ||
		    (i && memcmp(digest - CATALOG_DIGEST, digest, CATALOG_DIGEST) >= 0))
			return false;
	}
	return true;
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

static bool has(const uint8_t *digests, size_t count, const uint8_t *digest)
{
	bool found;

	catalog_digest_place(digests, count, digest, &found);
	return found;
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
		if (!entry->noun || entry->lease || !split_key(entry->key, host, &bucket) ||
		    !strcmp(host, last))
			continue;
		strcpy(last, host);
		if (!catalog_host_find(catalog, host))
			each(host, arg);
	}
}

/*
 * The index
 */

static void clear_index(struct catalog *catalog)
{
	for (size_t i = 0; i < BUCKETS; i++) {
		free(catalog->locations[i].rows);
		catalog->locations[i] = (struct locations){ 0 };
	}
	free(catalog->references);
	catalog->references = NULL;
	catalog->reference_count = 0;
	catalog->indexed = false;
}

void catalog_index_drop(struct catalog *catalog)
{
	clear_index(catalog);
	catalog->changes++;
}

uint64_t catalog_changes(const struct catalog *catalog)
{
	return catalog->changes;
}

static int index_bucket(struct catalog *catalog, const struct catalog_entry *entry)
{
	const struct catalog_host *host;
	struct location location = { 0 };
	struct locations *locations;
	size_t bucket;

	if (!split_key(entry->key, location.host, &bucket))
		return 0;
	host = catalog_host_find(catalog, location.host);
	location.live = host && host->generation == catalog_bucket_generation(entry->value);
	/* What only memory held went with the process; its lease has just not run out. */
	if (!location.live && entry->lease)
		return 0;
	location.digests = (const uint8_t *)entry->value + BUCKET_HEADER;
	location.count = (entry->size - BUCKET_HEADER) / CATALOG_DIGEST;
	locations = &catalog->locations[bucket];
	if (locations->count == locations->room) {
		size_t room = locations->room ? 2 * locations->room : 4;
		void *rows = reallocarray(locations->rows, room, sizeof(location));

		if (!rows)
			return -ENOMEM;
		locations->rows = rows;
		locations->room = room;
	}
	locations->rows[locations->count++] = location;
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

static void count_digests(const struct catalog_model *model, void *arg)
{
	*(size_t *)arg += model->digest_count;
}

static void copy_digests(const struct catalog_model *model, void *arg)
{
	struct catalog *catalog = arg;

	if (model->digest_count)
		memcpy(catalog->references + catalog->reference_count * CATALOG_DIGEST,
		       model->digests, model->digest_count * CATALOG_DIGEST);
	catalog->reference_count += model->digest_count;
}

static int index_all(struct catalog *catalog)
{
	const struct catalog_entry *entry;
	char prefix[CATALOG_KEY_MAX];
	size_t count = 0;
	int err = 0;

	if (catalog->indexed)
		return 0;
	clear_index(catalog);
	catalog_prefix(catalog, "chunk", prefix);
	catalog_entries_each(&catalog->view.entries, prefix, entry)
		if (entry->noun && !err)
			err = index_bucket(catalog, entry);
	catalog_model_each(catalog, count_digests, &count);
	if (!err) {
		catalog->references = calloc(count + 1, CATALOG_DIGEST);
		err = catalog->references ? 0 : -ENOMEM;
	}
	if (err) {
		clear_index(catalog);
		return err;
	}
	catalog_model_each(catalog, copy_digests, catalog);
	qsort(catalog->references, catalog->reference_count, CATALOG_DIGEST, by_bytes);
	catalog->indexed = true;
	return 0;
}

size_t catalog_chunk_holders(struct catalog *catalog, const uint8_t *digest,
			     struct catalog_holder *holders, size_t room)
{
	const struct locations *locations = &catalog->locations[catalog_bucket_of(digest)];
	size_t count = 0;

	if (index_all(catalog))
		return 0;
	for (int live = 1; live >= 0; live--)
		for (size_t i = 0; i < locations->count; i++) {
			const struct location *location = &locations->rows[i];

			if (location->live != live ||
			    !has(location->digests, location->count, digest))
				continue;
			if (count < room)
				holders[count] = (struct catalog_holder){ location->host, live };
			count++;
		}
	return count;
}

size_t catalog_chunk_references(struct catalog *catalog, const uint8_t *digest)
{
	size_t first, low, high, count = 1;
	bool found;

	if (index_all(catalog))
		return 0;
	first = catalog_digest_place(catalog->references, catalog->reference_count, digest, &found);
	if (!found)
		return 0;
	/* Most are needed once, and some by nearly all: their end is not walked to. */
	while (first + count < catalog->reference_count &&
	       !memcmp(catalog->references + (first + count) * CATALOG_DIGEST, digest,
		       CATALOG_DIGEST))
		count *= 2;
	low = first + count / 2;
	high = first + count < catalog->reference_count ? first + count : catalog->reference_count;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (memcmp(catalog->references + middle * CATALOG_DIGEST, digest, CATALOG_DIGEST))
			high = middle;
		else
			low = middle;
	}
	return high - first;
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
	if (index_all(catalog))
		return -ENOMEM;
	availability->chunks = model->digest_count;
	availability->copies = model->digest_count ? SIZE_MAX : 0;
	for (size_t i = 0; i < model->digest_count; i++) {
		const uint8_t *digest = model->digests + i * CATALOG_DIGEST;
		const struct locations *locations = &catalog->locations[catalog_bucket_of(digest)];
		size_t live = 0, away = 0;

		for (size_t j = 0; j < locations->count; j++)
			if (has(locations->rows[j].digests, locations->rows[j].count, digest))
				(*(locations->rows[j].live ? &live : &away))++;
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
	int err = catalog->view.listed_us ? 0 : -EAGAIN;

	for (size_t i = 0; i < 2; i++)
		catalog_entries_each(&catalog->view.entries,
				     catalog_prefix(catalog, kinds[i], prefix), entry) {
			const struct catalog_model *model = entry->noun;

			if (!model || model->error[0])
				return -EBADMSG;
			/* An upload that is not complete has promised nothing yet. */
			if (!model->known && model->complete)
				err = -EAGAIN;
		}
	return err;
}

int catalog_garbage(struct catalog *catalog, uint8_t **digests, size_t *count)
{
	size_t held = 0;
	int err = catalog_references_known(catalog);

	*digests = NULL;
	*count = 0;
	if (!err)
		err = index_all(catalog);
	if (err)
		return err;
	for (size_t i = 0; i < BUCKETS; i++)
		held += catalog->member.buckets[i].count;
	*digests = calloc(held + 1, CATALOG_DIGEST);
	if (!*digests)
		return -ENOMEM;
	for (size_t i = 0; i < BUCKETS; i++) {
		const struct bucket *bucket = &catalog->member.buckets[i];

		for (size_t j = 0; j < bucket->count; j++) {
			const uint8_t *digest = bucket->digests + j * CATALOG_DIGEST;

			if (has(catalog->references, catalog->reference_count, digest))
				continue;
			memcpy(*digests + *count * CATALOG_DIGEST, digest, CATALOG_DIGEST);
			(*count)++;
		}
	}
	return 0;
}
