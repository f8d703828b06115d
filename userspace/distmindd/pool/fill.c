// SPDX-License-Identifier: GPL-2.0-or-later
#include "fill.h"

#include "../common/log.h"
#include "../common/turn.h"
#include "../common/turns.h"
#include "rdma.h"

#include "../../common/clock.h"
#include "../../memory/check.h"
#include "../../sharding/sharding.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_BYTES (4U << 20)
#define NAMED_CHUNKS 3 /* in the reason of a failure */
#define RELOAD_US 2000 /* until it is looked again whether the spool had it */
#define COPIES_TRIED 4 /* of one chunk on this host: arena, cache, other weights, and one more */

/* A chunk that this host has. */
struct local {
	uint32_t chunk;
	const void *bytes;
	/* One of these, or neither: */
	struct memory_chunk *pin; /* of the arena */
	struct cache_chunk *cached;
};

struct fill {
	struct chunks *chunks;
	struct peers *peers;
	struct fill_request request;
	struct fill_ops ops;
	void *arg;
	struct local *locals;
	uint32_t local_count, local_next;
	struct memory_piece *pieces;
	uint32_t piece_count;
	uint64_t read_bytes, copied_bytes;
	struct memory_transfer *transfer; /* NULL: none, or quiet */
	struct memory_transfer *repair; /* of a chunk whose copy on this host is damaged; so too */
	sd_event_source *turn;
	uint32_t remote_done, remote_clear; /* groups */
	uint32_t told, clear_told;
	bool remote_ended, ended;
	int err;
	char reason[MEMORY_REASON_LEN];
};

static struct memory_client *client_of(const struct fill *fill)
{
	return fill->chunks->network.client;
}

static void unpin(struct fill *fill, struct local *local, bool damaged)
{
	if (local->pin)
		memory_arena_unpin(fill->chunks->arena, local->pin);
	if (local->cached)
		cache_unpin(fill->chunks->cache, local->cached, damaged);
	local->pin = NULL;
	local->cached = NULL;
}

void fill_destroy(struct fill *fill)
{
	if (!fill)
		return;
	for (uint32_t i = 0; i < fill->local_count; i++)
		unpin(fill, &fill->locals[i], false);
	sd_event_source_disable_unref(fill->turn);
	free(fill->locals);
	free(fill->pieces);
	free(fill);
}

/*
 * Where the chunks come from
 */

static bool find_local(struct fill *fill, const struct model_chunk *chunk, struct local *local)
{
	const uint8_t *digest = chunk->digest.bytes;
	struct cache *cache = fill->chunks->cache;

	*local = (struct local){ 0 };
	/* A manifest may be wrong about the size of what has that digest. */
	if (!memory_arena_pin(fill->chunks->arena, digest, &local->pin)) {
		local->bytes = local->pin->data;
		if (local->pin->length == chunk->size)
			return true;
		unpin(fill, local, false);
		local->bytes = NULL;
	}
	local->cached = cache ? cache_pin(cache, chunk, fill->request.begun_us) : NULL;
	if (local->cached)
		local->bytes = cache_data(local->cached);
	else if (fill->request.find)
		local->bytes = fill->request.find(fill->arg, chunk);
	return local->bytes;
}

static int lacking(struct fill *fill, const struct model_chunk *chunk, char *reason)
{
	struct catalog_holder holder = { .host = "nobody" };
	char text[MODEL_DIGEST_TEXT_LEN];
	size_t count = catalog_chunk_holders(fill->chunks->catalog, chunk->digest.bytes, &holder,
					     1);

	model_digest_format(&chunk->digest, text);
	if (fill->chunks->restore.under_way || !rdma_looked(fill->chunks)) {
		snprintf(reason, MEMORY_REASON_LEN,
			 "chunk %s is not here yet: this host has just started, and %s: try again",
			 text,
			 rdma_looked(fill->chunks) ? "reads its spool" : "opens its RDMA device");
		return -EAGAIN;
	}
	/* What the catalog says of this host may be a moment old. */
	if (!count || (count == 1 && !strcmp(holder.host, fill->chunks->host.name)))
		snprintf(reason, MEMORY_REASON_LEN,
			 "chunk %s is held by nobody: push the model again", text);
	else
		snprintf(reason, MEMORY_REASON_LEN, "chunk %s is held by %s, which %s", text,
			 holder.host,
			 holder.live ? "cannot be read from: see no-rdma in the log" :
				       "is away: start distmindd there");
	return -ENODATA;
}

static void add_piece(struct fill *fill, uint32_t chunk, const uint32_t *donors, uint32_t count)
{
	const struct model_chunk *source = &fill->request.manifest->chunks[chunk];
	struct memory_piece *piece = &fill->pieces[fill->piece_count++];

	*piece = (struct memory_piece){
		.length = source->size,
		.address = (uintptr_t)fill->request.place(fill->arg, chunk),
		.lkey = fill->request.lkey, .checksum = source->checksum,
		.group = grouping_find(fill->request.grouping, chunk),
		.donor_count = count,
	};
	memcpy(piece->digest, source->digest.bytes, MEMORY_DIGEST_LEN);
	memcpy(piece->donors, donors, count * sizeof(*donors));
	fill->read_bytes += source->size;
}

static int find_sources(struct fill *fill, char *reason)
{
	const struct model_manifest *manifest = fill->request.manifest;
	uint32_t donors[MEMORY_REPLICAS_MAX], count;

	for (uint32_t i = 0; i < manifest->chunk_count; i++) {
		const uint8_t *digest = manifest->chunks[i].digest.bytes;
		struct local *local = &fill->locals[fill->local_count];

		if (find_local(fill, &manifest->chunks[i], local)) {
			local->chunk = i;
			fill->local_count++;
			fill->copied_bytes += manifest->chunks[i].size;
		} else {
			count = peers_of_chunk(fill->peers, fill->chunks->catalog, digest, donors);
			if (!count)
				return lacking(fill, &manifest->chunks[i], reason);
			add_piece(fill, i, donors, count);
		}
	}
	return 0;
}

static double bandwidth_of(const struct fill *fill, uint32_t donor)
{
	struct memory_reader_donor stats;

	if (memory_client_donor_stats(client_of(fill), donor, &stats) || !stats.bandwidth)
		return 1e9;
	return (double)stats.bandwidth;
}

static void prefer(struct memory_piece *piece, uint32_t donor)
{
	for (uint32_t i = 0; i < piece->donor_count; i++) {
		if (piece->donors[i] != donor)
			continue;
		piece->donors[i] = piece->donors[0];
		piece->donors[0] = donor;
		return;
	}
}

/* In the order that sharding says, and first from the donor that it says. */
static int order_pieces(struct fill *fill)
{
	struct sharding_donor donors[MEMORY_DONORS_MAX];
	struct sharding_chunk *chunks = calloc(fill->piece_count + 1, sizeof(*chunks));
	struct sharding_read *reads = calloc(fill->piece_count + 1, sizeof(*reads));
	struct memory_piece *ordered = calloc(fill->piece_count + 1, sizeof(*ordered));
	bool known[MEMORY_DONORS_MAX] = { false };
	size_t donor_count = 0;
	int err = -ENOMEM;

	if (!chunks || !reads || !ordered)
		goto out;
	for (uint32_t i = 0; i < fill->piece_count; i++) {
		const struct memory_piece *piece = &fill->pieces[i];

		memcpy(&chunks[i].key, piece->digest, sizeof(chunks[i].key));
		chunks[i].size = (uint32_t)piece->length;
		chunks[i].group = piece->group;
		for (uint32_t d = 0; d < piece->donor_count && d < SHARDING_COPIES_MAX; d++) {
			uint32_t donor = piece->donors[d];

			chunks[i].donors[chunks[i].copies++] = donor;
			if (known[donor])
				continue;
			known[donor] = true;
			donors[donor_count++] = (struct sharding_donor){
				.id = donor, .bandwidth = bandwidth_of(fill, donor),
			};
		}
	}
	err = sharding_read_order(donors, donor_count, chunks, fill->piece_count, reads);
	if (err)
		goto out;
	for (uint32_t i = 0; i < fill->piece_count; i++) {
		ordered[i] = fill->pieces[reads[i].chunk];
		prefer(&ordered[i], (uint32_t)donors[reads[i].donor].id);
	}
	free(fill->pieces);
	fill->pieces = ordered;
	ordered = NULL;
out:
	free(chunks);
	free(reads);
	free(ordered);
	return err;
}

struct fill *fill_create(struct chunks *chunks, struct peers *peers,
			 const struct fill_request *request, const struct fill_ops *ops, void *arg,
			 int *err, char *reason)
{
	uint32_t count = request->manifest->chunk_count;
	struct fill *fill = calloc(1, sizeof(*fill));

	*err = -ENOMEM;
	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	if (!fill)
		return NULL;
	fill->chunks = chunks;
	fill->peers = peers;
	fill->request = *request;
	if (!fill->request.allowed)
		fill->request.allowed = request->grouping->count;
	fill->ops = *ops;
	fill->arg = arg;
	fill->locals = calloc(count + 1, sizeof(*fill->locals));
	fill->pieces = calloc(count + 1, sizeof(*fill->pieces));
	if (fill->locals && fill->pieces)
		*err = find_sources(fill, reason);
	if (!*err && fill->piece_count)
		*err = order_pieces(fill);
	if (!*err)
		return fill;
	fill_destroy(fill);
	return NULL;
}

uint64_t fill_read_bytes(const struct fill *fill)
{
	return fill->read_bytes;
}

uint64_t fill_copied_bytes(const struct fill *fill)
{
	return fill->copied_bytes;
}

/*
 * Progress
 */

static uint32_t local_done(const struct fill *fill)
{
	if (fill->local_next == fill->local_count)
		return fill->request.grouping->count;
	return grouping_find(fill->request.grouping, fill->locals[fill->local_next].chunk);
}

/* Is there something to copy, and a place for it? */
static bool may_copy(const struct fill *fill)
{
	return !fill->err && !fill->repair && fill->local_next < fill->local_count &&
	       local_done(fill) < fill->request.allowed;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static void fail(struct fill *fill, int err, const char *reason)
{
	if (fill->err)
		return;
	fill->err = err;
	if (reason != fill->reason)
		snprintf(fill->reason, sizeof(fill->reason), "%s", reason);
	if (fill->transfer && !fill->remote_ended)
		memory_client_cancel(client_of(fill), fill->transfer);
	if (fill->repair)
		memory_client_cancel(client_of(fill), fill->repair);
}

/* May be the end of the fill. */
static void advance(struct fill *fill)
{
	uint32_t done = smaller(local_done(fill), fill->remote_done);
	uint32_t clear = smaller(local_done(fill), fill->remote_clear);

	if (!fill->err && done > fill->told) {
		fill->told = done;
		fill->ops.groups(fill->arg, done);
	}
	if (!fill->err && clear > fill->clear_told && fill->ops.clear) {
		fill->clear_told = clear;
		fill->ops.clear(fill->arg, clear);
	}
	if (!fill->ended && fill->remote_ended &&
	    (fill->err || fill->local_next == fill->local_count)) {
		fill->ended = true;
		fill->ops.ended(fill->arg, fill->err, fill->reason);
	}
	if (!fill->ended || fill->transfer || fill->repair)
		return;
	fill->ops.quiet(fill->arg);
	fill_destroy(fill);
}

static void on_group(void *arg, uint32_t group)
{
	struct fill *fill = arg;

	fill->remote_done = group + 1;
	advance(fill);
}

static void on_clear(void *arg, uint32_t group)
{
	struct fill *fill = arg;

	fill->remote_clear = group + 1;
	advance(fill);
}

struct missing {
	struct fill *fill;
	uint32_t named;
	size_t len;
};

static void name_missing(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	struct missing *missing = arg;
	char *text = missing->fill->reason;
	char hex[MODEL_DIGEST_TEXT_LEN];
	struct model_digest name;

	if (missing->named == NAMED_CHUNKS || missing->len >= MEMORY_REASON_LEN)
		return;
	missing->named++;
	memcpy(name.bytes, digest, MODEL_DIGEST_LEN);
	model_digest_format(&name, hex);
	missing->len += (size_t)snprintf(text + missing->len, MEMORY_REASON_LEN - missing->len,
					 "%schunk %.16s of %s: %s", missing->named > 1 ? "; " : "",
					 hex, donor, reason);
}

static void on_ended(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;
	struct missing missing = { .fill = fill };

	fill->remote_ended = true;
	if (progress->state == MEMORY_LOAD_FAILED && !fill->err) {
		snprintf(fill->reason, sizeof(fill->reason), "%s", progress->reason);
		if (progress->err != -ECANCELED)
			memory_client_missing(client_of(fill), fill->transfer, name_missing,
					      &missing);
		fail(fill, progress->err, fill->reason);
	}
	advance(fill);
}

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;

	if (progress->spoiled && !fill->err)
		fill->ops.spoiled(fill->arg);
	fill->transfer = NULL;
	advance(fill);
}

/*
 * Copies. One that is damaged is not told to anybody: the chunk is looked for elsewhere on this
 * host, and if that is in vain read from others.
 */

static void on_repaired(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;

	fill->repair = NULL;
	if (progress->state == MEMORY_LOAD_DONE)
		fill->local_next++;
	else
		fail(fill, progress->err, progress->reason);
	if (may_copy(fill))
		sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
	advance(fill);
}

/* The current chunk, from another host; on_repaired() follows, or the fill has failed. */
static void repair(struct fill *fill, uint32_t chunk)
{
	static const struct memory_transfer_ops ops = { .quiet = on_repaired };
	const struct model_chunk *source = &fill->request.manifest->chunks[chunk];
	struct memory_piece piece = {
		.length = source->size, .checksum = source->checksum,
		.address = (uintptr_t)fill->request.place(fill->arg, chunk),
		.lkey = fill->request.lkey,
	};
	struct memory_load_request request = {
		.pieces = &piece, .piece_count = 1, .group_count = 1,
		.deadline_ns = fill->request.deadline_ns, .class = fill->request.class,
		.check = fill->request.verify ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM,
	};
	char reason[MEMORY_REASON_LEN], text[MODEL_DIGEST_TEXT_LEN];

	memcpy(piece.digest, source->digest.bytes, MEMORY_DIGEST_LEN);
	piece.donor_count = peers_of_chunk(fill->peers, fill->chunks->catalog,
					   source->digest.bytes, piece.donors);
	if (piece.donor_count) {
		fill->repair = memory_client_load(client_of(fill), &request, &ops,
						  fill, reason);
	} else {
		model_digest_format(&source->digest, text);
		snprintf(reason, sizeof(reason),
			 "chunk %s is damaged on %s, and nobody else has it: push the model again",
			 text, fill->chunks->host.name);
	}
	if (!fill->repair)
		fail(fill, -EBADMSG, reason);
}

static bool is_right(const struct fill *fill, const struct model_chunk *chunk, const void *bytes)
{
	if (fill->request.verify)
		return memory_digest_matches(bytes, chunk->size, chunk->digest.bytes);
	return memory_checksum(bytes, chunk->size) == chunk->checksum;
}

/* Whoever had it does not give it to anybody any more. */
static void accuse(struct fill *fill, struct local *local)
{
	const struct model_chunk *chunk = &fill->request.manifest->chunks[local->chunk];
	const void *bytes = local->bytes;
	bool arena = local->pin, cached = local->cached;

	unpin(fill, local, true);
	if (arena)
		chunks_suspect(fill->chunks, chunk->digest.bytes, fill->request.verify);
	else if (cached)
		log_warning("chunk-damaged", LOG_S("host", fill->chunks->host.name),
			    LOG_S("where", "in the cache"));
	else
		fill->request.lied(fill->arg, bytes);
}

/* False: it is not there yet, or cannot be. */
static bool copy(struct fill *fill, struct local *local)
{
	const struct model_chunk *chunk = &fill->request.manifest->chunks[local->chunk];
	uint8_t *place = fill->request.place(fill->arg, local->chunk);
	uint32_t index = local->chunk;
	bool found = local->bytes;

	for (int i = 0; i < COPIES_TRIED; i++) {
		if (!found)
			found = find_local(fill, chunk, local);
		local->chunk = index;
		if (!found)
			break;
		memcpy(place, local->bytes, chunk->size);
		if (is_right(fill, chunk, place)) {
			unpin(fill, local, false);
			return true;
		}
		accuse(fill, local);
		found = false;
	}
	local->bytes = NULL;
	if (!chunks_reloading(fill->chunks, chunk->digest.bytes))
		repair(fill, index);
	else
		sd_event_source_set_time(fill->turn, clock_us() + RELOAD_US);
	return false;
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	const struct model_manifest *manifest;
	struct fill *fill = arg;
	uint64_t bytes = 0;

	(void)us;
	turns_name("load: copy");
	sd_event_source_set_time(source, 0);
	manifest = fill->request.manifest;
	while (may_copy(fill) && bytes < TURN_BYTES && !(bytes && turns_over())) {
		bytes += manifest->chunks[fill->locals[fill->local_next].chunk].size;
		if (!copy(fill, &fill->locals[fill->local_next]))
			break;
		fill->local_next++;
	}
	if (!may_copy(fill))
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	advance(fill);
	return 0;
}

int fill_start(struct fill *fill, sd_event *loop, char *reason)
{
	static const struct memory_transfer_ops ops = {
		.group_done = on_group, .group_clear = on_clear, .ended = on_ended,
		.quiet = on_quiet,
	};
	struct memory_load_request request = {
		.pieces = fill->pieces, .piece_count = fill->piece_count,
		.group_count = fill->request.grouping->count, .allowed = fill->request.allowed,
		.deadline_ns = fill->request.deadline_ns,
		.class = fill->request.class,
		.check = fill->request.verify ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM,
	};
	int err;

	err = turn_begin(loop, &fill->turn, on_turn, fill);
	if (err < 0) {
		snprintf(reason, MEMORY_REASON_LEN, "%s", strerror(-err));
		goto err_destroy;
	}
	if (fill->piece_count) {
		fill->transfer = memory_client_load(client_of(fill), &request, &ops, fill,
						    reason);
		err = -EINVAL;
		if (!fill->transfer)
			goto err_destroy;
	} else {
		fill->remote_done = fill->remote_clear = fill->request.grouping->count;
		fill->remote_ended = true;
	}
	return 0;

err_destroy:
	fill_destroy(fill);
	return err;
}

void fill_allow(struct fill *fill, uint32_t groups)
{
	if (groups <= fill->request.allowed)
		return;
	fill->request.allowed = groups;
	if (fill->transfer && !fill->remote_ended)
		memory_client_allow(client_of(fill), fill->transfer, groups);
	if (may_copy(fill))
		sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
}

void fill_extend(struct fill *fill, enum memory_class class, uint64_t deadline_ns)
{
	if (fill->transfer && !fill->remote_ended)
		memory_client_extend(client_of(fill), fill->transfer, class, deadline_ns);
	if (fill->repair)
		memory_client_extend(client_of(fill), fill->repair, class, deadline_ns);
}

void fill_cancel(struct fill *fill)
{
	fail(fill, -ECANCELED, "nobody wants it any more");
	/* What is left is said from the loop, not from within this call. */
	sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
}
