// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What this host says it holds. Changes are gathered and written bucket by bucket, one
 * transaction at a time, so they arrive in order; each is conditional on the host's
 * generation.
 */
#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * A bucket is one value. They fill evenly, so when one is full there is little room in the others,
 * and this host takes no more until there is some in all of them.
 */
#define BUCKET_MAX ((CATALOG_VALUE_MAX - BUCKET_HEADER) / CATALOG_DIGEST)
#define BUCKET_ROOMY (BUCKET_MAX - BUCKET_MAX / 64)
/*
 * Changes within this are written together, unless somebody waits: a bucket is written as
 * a whole, and etcd keeps what it replaces until it is compacted.
 */
#define GATHER_US 250000
#define RETRY_US 500000
#define VIEW_US 20000
#define BATCH_OPS 100
#define BATCH_BYTES (CATALOG_TXN_BYTES / 2)

struct flush {
	TAILQ_ENTRY(flush) link;
	catalog_done done;
	void *arg;
};

struct release {
	TAILQ_ENTRY(release) link;
	uint8_t *digests; /* sorted */
	size_t count, next, sent; /* next to send, and how many are under way */
	uint64_t epoch;
	catalog_done done;
	void *arg;
};

static void arm(sd_event_source *timer, uint64_t us)
{
	sd_event_source_set_time_relative(timer, us);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

/*
 * Waiters
 */

static void tell(catalog_done done, void *arg, int err, const char *error)
{
	struct catalog_result result = { .err = err, .error = error };

	done(&result, arg);
}

static void end_flushes(struct member *member, int err, const char *error)
{
	struct flush *flush;

	while ((flush = TAILQ_FIRST(&member->flushes))) {
		TAILQ_REMOVE(&member->flushes, flush, link);
		tell(flush->done, flush->arg, err, error);
		free(flush);
	}
}

static void end_release(struct member *member, int err, const char *error)
{
	struct release *release = TAILQ_FIRST(&member->releases);

	TAILQ_REMOVE(&member->releases, release, link);
	tell(release->done, release->arg, err, error);
	free(release->digests);
	free(release);
}

static void end_waiters(struct member *member, int err, const char *error)
{
	end_flushes(member, err, error);
	while (!TAILQ_EMPTY(&member->releases))
		end_release(member, err, error);
}

/*
 * Writing
 */

static void put_number(uint8_t *bytes, uint64_t number)
{
	for (int i = 0; i < BUCKET_HEADER; i++)
		bytes[i] = (uint8_t)(number >> 8 * i);
}

/* What was noted before follows, as far as there is room: all of it is read in the end. */
static void put_bucket(struct catalog *catalog, struct catalog_batch *batch, size_t index,
		       const uint8_t *digests, size_t count)
{
	struct member *member = &catalog->member;
	const struct bucket *bucket = &member->buckets[index];
	size_t room = count + 1 < BUCKET_MAX ? BUCKET_MAX - count - 1 : 0;
	size_t before = bucket->before_count < room ? bucket->before_count : room;
	size_t size = BUCKET_HEADER + (count + before + !!before) * CATALOG_DIGEST;
	uint8_t *value, *end;

	if (!count && !before) {
		catalog_batch_delete(batch, "%s/view/chunk/%s/%02zu", catalog->pool,
				     member->host.name, index);
		return;
	}
	value = calloc(1, size);
	if (!value) {
		batch->err = -ENOMEM;
		return;
	}
	put_number(value, member->host.generation);
	end = value + BUCKET_HEADER + count * CATALOG_DIGEST;
	if (count)
		memcpy(value + BUCKET_HEADER, digests, count * CATALOG_DIGEST);
	if (before) {
		memcpy(end, bucket->before, before * CATALOG_DIGEST);
		put_number(end + before * CATALOG_DIGEST + BUCKET_MARK, count);
	}
	catalog_batch_put(batch, value, size, member->spooled ? 0 : member->lease,
			  "%s/view/chunk/%s/%02zu", catalog->pool, member->host.name, index);
	free(value);
}

static bool is_full(const struct catalog_batch *batch, size_t more)
{
	return batch->write_count &&
	       (batch->write_count >= BATCH_OPS || batch->bytes + more > BATCH_BYTES);
}

void catalog_host_put(const struct catalog *catalog, struct catalog_batch *batch,
		      const struct catalog_host *host, uint64_t lease)
{
	char *text = catalog_host_text(host);

	if (text)
		catalog_batch_put(batch, text, strlen(text), lease, "%s/view/host/%s",
				  catalog->pool, host->name);
	else
		batch->err = -ENOMEM;
	free(text);
}

/*
 * All but those, both sorted; to may be from. One by one, each would move all that is behind it.
 * Returns how many are left.
 */
static size_t leave_out(uint8_t *to, const uint8_t *from, size_t count, const uint8_t *out,
			size_t out_count)
{
	size_t kept = 0, next = 0;

	for (size_t i = 0; i < count; i++) {
		const uint8_t *digest = from + i * CATALOG_DIGEST;
		int order = 1;

		while (next < out_count &&
		       (order = memcmp(out + next * CATALOG_DIGEST, digest, CATALOG_DIGEST)) < 0)
			next++;
		if (next < out_count && !order)
			continue;
		if (to + kept * CATALOG_DIGEST != digest)
			memcpy(to + kept * CATALOG_DIGEST, digest, CATALOG_DIGEST);
		kept++;
	}
	return kept;
}

static void forget_before(struct bucket *bucket)
{
	free(bucket->before);
	bucket->before = NULL;
	bucket->before_count = 0;
	bucket->taken = bucket->taking = false;
}

/* Both or the second, in order; to has room for them. Returns how many. */
static size_t join_notes(uint8_t *to, const struct catalog_bucket *notes, bool with_held)
{
	size_t i = with_held ? 0 : notes->held_count, j = 0, count = 0;

	while (i < notes->held_count || j < notes->before_count) {
		const uint8_t *held = notes->held + i * CATALOG_DIGEST;
		const uint8_t *before = notes->before + j * CATALOG_DIGEST;
		bool first = j == notes->before_count ||
			     (i < notes->held_count && memcmp(held, before, CATALOG_DIGEST) < 0);

		memcpy(to + count++ * CATALOG_DIGEST, first ? held : before, CATALOG_DIGEST);
		i += first;
		j += !first;
	}
	return count;
}

/*
 * Before the first write of a bucket while the spool is being read: what was noted of it is
 * written along. On the condition that it is what was seen.
 */
static void take_before(struct catalog *catalog, struct catalog_batch *batch, size_t index)
{
	struct member *member = &catalog->member;
	struct bucket *bucket = &member->buckets[index];
	const struct catalog_entry *entry;
	struct catalog_bucket notes;
	char key[CATALOG_KEY_MAX];

	snprintf(key, sizeof(key), "%s/view/chunk/%s/%02zu", catalog->pool, member->host.name,
		 index);
	entry = catalog_entries_find(&catalog->view.entries, key);
	catalog_batch_compare(batch, entry ? entry->revision : 0, "%s", key);
	bucket->taken = bucket->taking = true;
	/* What only memory held went with the process. */
	if (!entry || !entry->noun || entry->lease)
		return;
	notes = catalog_bucket_parse(entry);
	bucket->before = malloc((notes.held_count + notes.before_count) * CATALOG_DIGEST + 1);
	if (!bucket->before) {
		batch->err = -ENOMEM;
		return;
	}
	bucket->before_count = join_notes(bucket->before, &notes,
					  catalog_bucket_generation(entry->value) !=
						  member->host.generation);
	bucket->before_count = leave_out(bucket->before, bucket->before, bucket->before_count,
					 bucket->digests, bucket->count);
}

static void gather_dirty(struct catalog *catalog, struct catalog_batch *batch)
{
	struct member *member = &catalog->member;

	if (member->host_dirty) {
		catalog_host_put(catalog, batch, &member->host, member->lease);
		member->host_dirty = false;
		member->host_sent = true;
	}
	for (size_t i = 0; i < BUCKETS; i++) {
		struct bucket *bucket = &member->buckets[i];

		if (!bucket->dirty)
			continue;
		if (member->restoring && !bucket->taken)
			take_before(catalog, batch, i);
		if (is_full(batch, (bucket->count + bucket->before_count) * CATALOG_DIGEST))
			break;
		put_bucket(catalog, batch, i, bucket->digests, bucket->count);
		bucket->dirty = false;
		bucket->sent = true;
	}
}

/* Behind the last digest of the release that is in the same bucket as that one. */
static size_t bucket_end(const struct release *release, size_t first, size_t end)
{
	size_t bucket = catalog_bucket_of(release->digests + first * CATALOG_DIGEST);

	while (first < end &&
	       catalog_bucket_of(release->digests + first * CATALOG_DIGEST) == bucket)
		first++;
	return first;
}

/* Bucket by bucket. */
static void gather_release(struct catalog *catalog, struct catalog_batch *batch,
			   struct release *release)
{
	size_t next = release->next;

	catalog_batch_compare(batch, release->epoch, "%s/view/epoch", catalog->pool);
	while (next < release->count) {
		const uint8_t *digests = release->digests + next * CATALOG_DIGEST;
		size_t index = catalog_bucket_of(digests), end;
		const struct bucket *bucket = &catalog->member.buckets[index];
		uint8_t *rest;

		if (is_full(batch, bucket->count * CATALOG_DIGEST))
			break;
		rest = malloc(bucket->count * CATALOG_DIGEST + 1);
		if (!rest) {
			batch->err = -ENOMEM;
			return;
		}
		end = bucket_end(release, next, release->count);
		put_bucket(catalog, batch, index, rest,
			   leave_out(rest, bucket->digests, bucket->count, digests, end - next));
		free(rest);
		next = end;
	}
	release->sent = next - release->next;
}

static void remove_digest(uint8_t *digests, size_t *count, const uint8_t *digest)
{
	bool found;
	size_t place = catalog_digest_place(digests, *count, digest, &found);
	uint8_t *at = digests + place * CATALOG_DIGEST;

	if (!found)
		return;
	--*count;
	memmove(at, at + CATALOG_DIGEST, (*count - place) * CATALOG_DIGEST);
}

static void mark_unsent(struct member *member)
{
	member->host_dirty |= member->host_sent;
	for (size_t i = 0; i < BUCKETS; i++) {
		member->buckets[i].dirty |= member->buckets[i].sent;
		/* It may be something else that was noted. */
		if (member->buckets[i].taking)
			forget_before(&member->buckets[i]);
	}
}

static void mark_sent(struct member *member)
{
	member->host_sent = false;
	for (size_t i = 0; i < BUCKETS; i++)
		member->buckets[i].sent = member->buckets[i].taking = false;
}

static bool is_dirty(const struct member *member)
{
	bool dirty = member->host_dirty;

	for (size_t i = 0; i < BUCKETS; i++)
		dirty |= member->buckets[i].dirty;
	return dirty;
}

static void soon(struct catalog *catalog)
{
	struct member *member = &catalog->member;
	int enabled;

	if (!member->busy && sd_event_source_get_enabled(member->write, &enabled) >= 0 &&
	    enabled == SD_EVENT_OFF)
		arm(member->write, GATHER_US);
}

/* Memory that cannot be made use of is not offered: nobody has this host fetch anything then. */
static void offer_memory(struct catalog *catalog)
{
	struct member *member = &catalog->member;
	uint64_t bytes = member->full ? 0 : member->memory_free;

	if (member->host.memory_free == bytes)
		return;
	member->host.memory_free = bytes;
	member->host_dirty = true;
	soon(catalog);
}

static void set_full(struct catalog *catalog, bool full)
{
	if (catalog->member.full == full)
		return;
	catalog->member.full = full;
	offer_memory(catalog);
	if (catalog->options.full)
		catalog->options.full(full, catalog->options.arg);
}

static void look_for_room(struct catalog *catalog)
{
	for (size_t i = 0; i < BUCKETS; i++)
		if (catalog->member.buckets[i].count > BUCKET_ROOMY)
			return;
	set_full(catalog, false);
}

/* After an error that leaves it open what was written, the next write makes it certain. */
static void after_release(struct member *member, const struct catalog_result *result)
{
	struct release *release = TAILQ_FIRST(&member->releases);
	size_t end = release->next + release->sent, next;

	for (size_t i = release->next; i < end; i = next) {
		const uint8_t *digests = release->digests + i * CATALOG_DIGEST;
		struct bucket *bucket = &member->buckets[catalog_bucket_of(digests)];

		next = bucket_end(release, i, end);
		if (!result->err)
			bucket->count = leave_out(bucket->digests, bucket->digests, bucket->count,
						  digests, next - i);
		else if (result->err != -ESTALE)
			bucket->dirty = true;
	}
	release->next += release->sent;
	release->sent = 0;
	if (result->err || release->next == release->count)
		end_release(member, result->err, result->error);
}

static void on_written(const struct catalog_result *result, void *arg)
{
	struct catalog *catalog = arg;
	struct member *member = &catalog->member;
	bool current = member->written_fence == member->fence && member->state == CATALOG_JOINED;
	struct release *release = TAILQ_FIRST(&member->releases);
	bool releasing = release && release->sent;
	uint64_t delay;

	member->busy = false;
	if (catalog->closing) {
		end_waiters(member, result->err, result->error);
		return;
	}
	if (result->err)
		mark_unsent(member);
	mark_sent(member);
	if (releasing) {
		after_release(member, result);
		look_for_room(catalog);
	}
	if (current && (result->err == -ETIMEDOUT || (result->err == -ESTALE && !releasing)))
		member->uncertain = true;
	else if (result->err == -ENOENT && current)
		catalog_member_rejoin(catalog, result->error);
	catalog_heard(catalog, result);
	delay = TAILQ_EMPTY(&member->flushes) && TAILQ_EMPTY(&member->releases) ? GATHER_US : 0;
	if (result->err && result->err != -ESTALE)
		delay = RETRY_US;
	arm(member->write, member->state == CATALOG_JOINED ? delay : 0);
}

static int on_write(sd_event_source *source, uint64_t us, void *arg)
{
	struct catalog *catalog = arg;
	struct member *member = &catalog->member;
	struct catalog_batch batch = { 0 };
	struct release *release = TAILQ_FIRST(&member->releases);

	(void)source;
	(void)us;
	if (member->state == CATALOG_FENCED)
		end_waiters(member, -EOWNERDEAD,
			    "another process has joined under this host's name");
	if (member->state == CATALOG_ABSENT)
		end_waiters(member, -ENOTCONN, "this host has not joined the pool");
	if (member->state != CATALOG_JOINED || member->busy)
		return 0;
	/* What was noted of the spool has to be known before anything is written in its place. */
	if (member->restoring && is_dirty(member) &&
	    (!catalog->view.listed_us || catalog->view.step != CATALOG_VIEW_STEADY)) {
		arm(member->write, VIEW_US);
		return 0;
	}
	if (member->uncertain) {
		member->busy = !catalog_member_refence(catalog);
		if (!member->busy)
			arm(member->write, RETRY_US);
		return 0;
	}
	catalog_batch_compare(&batch, member->fence, "%s/generation/%s", catalog->pool,
			      member->host.name);
	if (is_dirty(member)) {
		gather_dirty(catalog, &batch);
	} else {
		end_flushes(member, 0, "");
		if (!release)
			goto out;
		gather_release(catalog, &batch, release);
	}
	member->written_fence = member->fence;
	member->busy = true;
	if (catalog_batch_send(catalog->store, &batch, on_written, catalog)) {
		mark_unsent(member);
		mark_sent(member);
		if (release)
			release->sent = 0;
		member->busy = false;
		arm(member->write, RETRY_US);
	}
out:
	catalog_batch_clear(&batch);
	return 0;
}

bool catalog_holds(const struct catalog *catalog, const uint8_t *digest)
{
	const struct bucket *bucket = &catalog->member.buckets[catalog_bucket_of(digest)];
	bool found;

	catalog_digest_place(bucket->digests, bucket->count, digest, &found);
	return found;
}

int catalog_hold(struct catalog *catalog, const uint8_t *digest)
{
	struct bucket *bucket = &catalog->member.buckets[catalog_bucket_of(digest)];
	size_t place;
	uint8_t *at;
	bool found;

	place = catalog_digest_place(bucket->digests, bucket->count, digest, &found);
	if (found)
		return 0;
	if (bucket->count == BUCKET_MAX)
		return -ENOSPC;
	if (bucket->count == bucket->room) {
		size_t room = bucket->room ? 2 * bucket->room : 16;
		void *digests = reallocarray(bucket->digests, room, CATALOG_DIGEST);

		if (!digests)
			return -ENOMEM;
		bucket->digests = digests;
		bucket->room = room;
	}
	at = bucket->digests + place * CATALOG_DIGEST;
	memmove(at + CATALOG_DIGEST, at, (bucket->count - place) * CATALOG_DIGEST);
	memcpy(at, digest, CATALOG_DIGEST);
	bucket->count++;
	if (bucket->before_count)
		remove_digest(bucket->before, &bucket->before_count, digest);
	bucket->dirty = true;
	soon(catalog);
	if (bucket->count == BUCKET_MAX)
		set_full(catalog, true);
	return 0;
}

int catalog_lose(struct catalog *catalog, const uint8_t *digest)
{
	struct bucket *bucket = &catalog->member.buckets[catalog_bucket_of(digest)];

	if (!catalog_holds(catalog, digest))
		return -ENOENT;
	remove_digest(bucket->digests, &bucket->count, digest);
	bucket->dirty = true;
	soon(catalog);
	if (catalog->member.full)
		look_for_room(catalog);
	return 0;
}

void catalog_set_addresses(struct catalog *catalog, const char *address, const char *rdma_address,
			   uint16_t rdma_port)
{
	struct catalog_host *host = &catalog->member.host;

	if (!catalog_address_is_good(address) || !catalog_address_is_good(rdma_address) ||
	    (!strcmp(host->address, address) && !strcmp(host->rdma_address, rdma_address) &&
	     host->rdma_port == rdma_port))
		return;
	snprintf(host->address, sizeof(host->address), "%s", address);
	snprintf(host->rdma_address, sizeof(host->rdma_address), "%s", rdma_address);
	host->rdma_port = rdma_port;
	catalog->member.host_dirty = true;
	soon(catalog);
}

void catalog_set_memory_free(struct catalog *catalog, uint64_t bytes)
{
	struct member *member = &catalog->member;

	member->memory_free = bytes < member->host.memory_total ? bytes : member->host.memory_total;
	offer_memory(catalog);
}

void catalog_set_memory_longest(struct catalog *catalog, uint64_t bytes)
{
	struct member *member = &catalog->member;

	if (bytes > member->host.memory_total)
		bytes = member->host.memory_total;
	if (member->host.memory_longest == bytes)
		return;
	member->host.memory_longest = bytes;
	member->host_dirty = true;
	soon(catalog);
}

void catalog_set_damaged(struct catalog *catalog, uint64_t chunks)
{
	struct member *member = &catalog->member;

	if (member->host.damaged == chunks)
		return;
	member->host.damaged = chunks;
	member->host_dirty = true;
	soon(catalog);
}

void catalog_set_hot(struct catalog *catalog, const char *const *models, size_t count)
{
	struct catalog_host *host = &catalog->member.host;
	size_t kept = 0;
	bool same = true;

	for (size_t i = 0; i < count && kept < CATALOG_HOT_MAX; i++) {
		if (!catalog_name_is_good(models[i], CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS))
			continue;
		same = same && kept < host->hot_count && !strcmp(host->hot[kept], models[i]);
		strcpy(host->hot[kept++], models[i]);
	}
	if (same && kept == host->hot_count)
		return;
	host->hot_count = kept;
	catalog->member.host_dirty = true;
	soon(catalog);
}

int catalog_flush(struct catalog *catalog, catalog_done done, void *arg)
{
	struct flush *flush = calloc(1, sizeof(*flush));

	if (!flush)
		return -ENOMEM;
	flush->done = done;
	flush->arg = arg;
	TAILQ_INSERT_TAIL(&catalog->member.flushes, flush, link);
	if (!catalog->member.busy)
		arm(catalog->member.write, 0);
	return 0;
}

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, CATALOG_DIGEST);
}

int catalog_release(struct catalog *catalog, const uint8_t *digests, size_t count,
		    catalog_done done, void *arg)
{
	const struct catalog_entry *epoch;
	struct release *release;
	char key[CATALOG_KEY_MAX];
	int err = count > CATALOG_RELEASE_MAX ? -EINVAL : catalog_references_known(catalog);

	if (err)
		return err;
	for (size_t i = 0; i < count; i++)
		if (catalog_chunk_references(catalog, digests + i * CATALOG_DIGEST))
			return -ESTALE;
	release = calloc(1, sizeof(*release));
	if (!release)
		return -ENOMEM;
	release->digests = malloc(count * CATALOG_DIGEST + 1);
	if (!release->digests) {
		free(release);
		return -ENOMEM;
	}
	if (count)
		memcpy(release->digests, digests, count * CATALOG_DIGEST);
	qsort(release->digests, count, CATALOG_DIGEST, by_bytes);
	release->count = count;
	snprintf(key, sizeof(key), "%s/view/epoch", catalog->pool);
	epoch = catalog_entries_find(&catalog->view.entries, key);
	release->epoch = epoch ? epoch->revision : 0;
	release->done = done;
	release->arg = arg;
	TAILQ_INSERT_TAIL(&catalog->member.releases, release, link);
	if (!catalog->member.busy)
		arm(catalog->member.write, 0);
	return 0;
}

void catalog_report_fenced(struct catalog *catalog, int err)
{
	catalog->member.busy = false;
	catalog->member.uncertain = catalog->member.uncertain && err;
	arm(catalog->member.write, err ? RETRY_US : 0);
}

void catalog_report_wake(struct catalog *catalog)
{
	arm(catalog->member.write, 0);
}

void catalog_report_all(struct catalog *catalog)
{
	struct member *member = &catalog->member;

	/*
	 * Also empty ones: an earlier generation may have left something. But what it has left of a
	 * spool that is being read is right until that has been.
	 */
	for (size_t i = 0; i < BUCKETS; i++)
		if (!member->restoring || member->buckets[i].count || member->buckets[i].taken)
			member->buckets[i].dirty = true;
	arm(member->write, 0);
}

void catalog_set_restoring(struct catalog *catalog, bool restoring)
{
	struct member *member = &catalog->member;

	if (member->restoring == restoring)
		return;
	member->restoring = restoring;
	if (restoring)
		return;
	for (size_t i = 0; i < BUCKETS; i++)
		forget_before(&member->buckets[i]);
	if (member->state == CATALOG_JOINED)
		catalog_report_all(catalog);
}

int catalog_report_open(struct catalog *catalog)
{
	struct member *member = &catalog->member;
	int err;

	TAILQ_INIT(&member->flushes);
	TAILQ_INIT(&member->releases);
	err = sd_event_add_time(catalog->loop, &member->write, CLOCK_MONOTONIC, 0, 1000, on_write,
				catalog);
	if (err < 0)
		return err;
	sd_event_source_set_enabled(member->write, SD_EVENT_OFF);
	return 0;
}

void catalog_report_close(struct catalog *catalog)
{
	struct member *member = &catalog->member;

	end_waiters(member, -ECANCELED, "the catalog is being closed");
	sd_event_source_disable_unref(member->write);
	for (size_t i = 0; i < BUCKETS; i++) {
		free(member->buckets[i].digests);
		free(member->buckets[i].before);
	}
	memset(member->buckets, 0, sizeof(member->buckets));
}
