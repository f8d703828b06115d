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

#define COPY_BYTES (4U << 20) /* that a worker copies before the loop hears of it */
#define CHUNKS_LOOKED 16 /* between two looks at the clock */
#define DEVICE_CHANGED "the RDMA device has gone, or another one has come: try again"
#define NAMED_CHUNKS 3 /* in the reason of a failure */
#define RELOAD_US 2000 /* until it is looked again whether the spool had it */
#define COPIES_TRIED 4 /* of one chunk on this host: arena, cache, other weights, and one more */

/* A chunk that this host has. */
struct local {
	uint32_t chunk;
	uint32_t tries; /* copies that were damaged */
	const void *bytes;
	uint8_t *place; /* where it is being copied to */
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
	/*
	 * Where all chunks are is found in turns; in which order to read them is worked out by a
	 * worker; then it is ready, and when it is started bytes move. At its end, what it holds is
	 * let go in turns.
	 */
	enum fill_step { FILL_LOOKS, FILL_ORDERS, FILL_READY, FILL_MOVES, FILL_LEAVES } step;
	uint32_t looked; /* chunks */
	struct local *locals;
	uint32_t local_count, local_next, local_left;
	struct memory_piece *pieces;
	uint32_t piece_count;
	uint64_t read_bytes, copied_bytes;
	struct memory_loader *loader; /* of the network as it was when donors were looked for */
	double bandwidth[MEMORY_DONORS_MAX];
	uint32_t donor_count, segment;
	struct memory_load *load; /* of the pieces, until it is submitted; owned */
	struct worker_job job; /* the worker's, as what it works on: the pieces, or copies */
	bool working;
	uint32_t copies, copied; /* from local_next on: to be copied, and those that were right */
	int order_err;
	char order_reason[MEMORY_REASON_LEN];
	struct memory_transfer *transfer; /* NULL: none, or quiet */
	struct memory_transfer *repair; /* of a chunk whose copy on this host is damaged; so too */
	sd_event_source *turn;
	uint32_t remote_done, told; /* groups */
	bool started, remote_ended, ended;
	int err;
	char reason[MEMORY_REASON_LEN];
};

static struct fill *fill_of(struct worker_job *job)
{
	return (struct fill *)((char *)job - offsetof(struct fill, job));
}

static struct memory_loader *loader_of(const struct fill *fill)
{
	return fill->chunks->network.loader;
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
	if (fill->working)
		worker_cancel(fill->chunks->worker, &fill->job);
	for (uint32_t i = fill->local_left; i < fill->local_count; i++)
		unpin(fill, &fill->locals[i], false);
	sd_event_source_disable_unref(fill->turn);
	memory_load_destroy(fill->load);
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

	local->bytes = NULL;
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
	if (count && !holder.live && catalog_host_find(fill->chunks->catalog, holder.host) &&
	    strcmp(holder.host, fill->chunks->host.name)) {
		snprintf(reason, MEMORY_REASON_LEN,
			 "chunk %s is held by %s, which has just started, and reads its spool: try "
			 "again",
			 text, holder.host);
		return -EAGAIN;
	}
	/* What the catalog says of this host may be a moment old. */
	if (!count || (count == 1 && !strcmp(holder.host, fill->chunks->host.name)))
		snprintf(reason, MEMORY_REASON_LEN,
			 "chunk %s is held by nobody: delete the model and push it again", text);
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
		.lkey = fill->request.registration->lkey, .checksum = source->checksum,
		.group = grouping_find(fill->request.grouping, chunk),
		.donor_count = count,
	};
	memcpy(piece->digest, source->digest.bytes, MEMORY_DIGEST_LEN);
	memcpy(piece->donors, donors, count * sizeof(*donors));
	fill->read_bytes += source->size;
}

/* 0: all is found; 1: there is more to look for, in another turn. */
static int find_sources(struct fill *fill)
{
	const struct model_manifest *manifest = fill->request.manifest;
	uint32_t donors[MEMORY_REPLICAS_MAX], count;

	while (fill->looked < manifest->chunk_count) {
		uint32_t i = fill->looked++;
		const uint8_t *digest = manifest->chunks[i].digest.bytes;
		struct local *local = &fill->locals[fill->local_count];

		*local = (struct local){ .chunk = i };
		if (find_local(fill, &manifest->chunks[i], local)) {
			fill->local_count++;
			fill->copied_bytes += manifest->chunks[i].size;
		} else {
			count = peers_of_chunk(fill->peers, fill->chunks->catalog, digest, donors);
			if (!count)
				return lacking(fill, &manifest->chunks[i], fill->reason);
			add_piece(fill, i, donors, count);
		}
		if (fill->looked % CHUNKS_LOOKED == 0 && turns_over())
			return 1;
	}
	return 0;
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
				.id = donor, .bandwidth = fill->bandwidth[donor],
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

/* What a transfer of the pieces is asked for. */
static struct memory_load_request load_request(const struct fill *fill)
{
	return (struct memory_load_request){
		.pieces = fill->pieces, .piece_count = fill->piece_count,
		.group_count = fill->request.grouping->count, .allowed = fill->request.allowed,
		.deadline_ns = fill->request.deadline_ns,
		.class = fill->request.class,
		.check = fill->request.verify ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM,
	};
}

static void order(struct worker_job *job)
{
	struct fill *fill = fill_of(job);
	struct memory_load_request request;

	fill->order_err = order_pieces(fill);
	snprintf(fill->order_reason, sizeof(fill->order_reason), "%s", strerror(-fill->order_err));
	if (fill->order_err)
		return;
	request = load_request(fill);
	fill->load = memory_load_create(&request, fill->donor_count, fill->segment,
					fill->order_reason);
	fill->order_err = fill->load ? 0 : -EINVAL;
}

/* What it holds is let go, in turns if it is much; then it is gone, and that is said. */
static void leave(struct fill *fill)
{
	fill->step = FILL_LEAVES;
	sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
	while (fill->local_left < fill->local_count) {
		unpin(fill, &fill->locals[fill->local_left++], false);
		if (fill->local_left % CHUNKS_LOOKED == 0 && turns_over())
			return;
	}
	if (fill->started)
		fill->ops.quiet(fill->arg);
	else
		fill->ops.ready(fill->arg, fill->err, fill->reason);
	fill_destroy(fill);
}

static void be_ready(struct fill *fill)
{
	if (fill->err) {
		leave(fill);
		return;
	}
	fill->step = FILL_READY;
	sd_event_source_set_enabled(fill->turn, SD_EVENT_OFF);
	fill->ops.ready(fill->arg, 0, "");
}

static void on_ordered(struct worker_job *job, bool dropped)
{
	struct fill *fill = fill_of(job);

	fill->working = false;
	if (dropped)
		return;
	if (!fill->err && fill->order_err) {
		fill->err = fill->order_err;
		snprintf(fill->reason, sizeof(fill->reason), "%s", fill->order_reason);
	}
	be_ready(fill);
}

static void begin_order(struct fill *fill)
{
	struct memory_reader_donor stats;

	memory_loader_shape(fill->loader, &fill->donor_count, &fill->segment);
	for (uint32_t i = 0; i < fill->donor_count; i++) {
		bool known = !memory_loader_donor_stats(fill->loader, i, &stats);

		fill->bandwidth[i] = known && stats.bandwidth ? (double)stats.bandwidth : 1e9;
	}
	fill->step = FILL_ORDERS;
	sd_event_source_set_enabled(fill->turn, SD_EVENT_OFF);
	fill->job = (struct worker_job){ .work = order, .done = on_ordered };
	fill->working = true;
	worker_add(fill->chunks->worker, &fill->job);
}

/*
 * A device that goes takes its donors along, and the registration. READs into memory that the
 * device of now does not know would fail, and with them all others of the same connection.
 */
static bool may_read(const struct fill *fill)
{
	return fill->loader == loader_of(fill) &&
	       (!fill->chunks->network.fabric || fill->request.registration->mr);
}

static bool is_connected(struct fill *fill)
{
	if (!fill->piece_count || may_read(fill))
		return true;
	fill->err = -ENODEV;
	snprintf(fill->reason, sizeof(fill->reason), "%s", DEVICE_CHANGED);
	return false;
}

static void look(struct fill *fill)
{
	int ret = fill->err ? 0 : find_sources(fill);

	if (ret > 0)
		return;
	if (ret < 0)
		fill->err = ret;
	if (!fill->err && is_connected(fill) && fill->piece_count)
		begin_order(fill);
	else
		be_ready(fill);
}

uint64_t fill_read_bytes(const struct fill *fill)
{
	return fill->read_bytes;
}

uint64_t fill_copied_bytes(const struct fill *fill)
{
	return fill->copied_bytes;
}

bool fill_is_busy(const struct fill *fill)
{
	return fill->working;
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
	return !fill->err && !fill->repair && !fill->working && fill->started &&
	       fill->local_next < fill->local_count && local_done(fill) < fill->request.allowed;
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
		memory_loader_cancel(loader_of(fill), fill->transfer);
	if (fill->repair)
		memory_loader_cancel(loader_of(fill), fill->repair);
}

/* May be the end of the fill. */
static void advance(struct fill *fill)
{
	uint32_t done = smaller(local_done(fill), fill->remote_done);

	if (!fill->err && done > fill->told) {
		fill->told = done;
		fill->ops.groups(fill->arg, done);
	}
	if (!fill->ended && fill->remote_ended && !fill->working &&
	    (fill->err || fill->local_next == fill->local_count)) {
		fill->ended = true;
		fill->ops.ended(fill->arg, fill->err, fill->reason);
	}
	if (fill->ended && !fill->transfer && !fill->repair)
		leave(fill);
}

static void on_group(void *arg, uint32_t group)
{
	struct fill *fill = arg;

	fill->remote_done = group + 1;
	advance(fill);
}

struct missing {
	struct fill *fill;
	uint32_t named;
	size_t len;
};

static bool name_missing(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	struct missing *missing = arg;
	char *text = missing->fill->reason;
	char hex[MODEL_DIGEST_TEXT_LEN];
	struct model_digest name;

	missing->named++;
	memcpy(name.bytes, digest, MODEL_DIGEST_LEN);
	model_digest_format(&name, hex);
	missing->len += (size_t)snprintf(text + missing->len, MEMORY_REASON_LEN - missing->len,
					 "%schunk %.16s of %s: %s", missing->named > 1 ? "; " : "",
					 hex, donor, reason);
	return missing->named < NAMED_CHUNKS && missing->len < MEMORY_REASON_LEN;
}

static void on_ended(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;
	struct missing missing = { .fill = fill };

	fill->remote_ended = true;
	if (progress->state == MEMORY_LOAD_FAILED && !fill->err) {
		snprintf(fill->reason, sizeof(fill->reason), "%s", progress->reason);
		if (progress->err != -ECANCELED)
			memory_loader_missing(loader_of(fill), fill->transfer, name_missing,
					      &missing);
		fail(fill, progress->err, fill->reason);
	}
	advance(fill);
}

static void on_quiet(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;

	(void)progress;
	fill->transfer = NULL;
	advance(fill);
}

/*
 * Copies. One that is damaged is not told to anybody: the chunk is looked for elsewhere on this
 * host, and if that is in vain read from others.
 */

static void copy_some(struct fill *fill);

static void on_repaired(void *arg, const struct memory_load_progress *progress)
{
	struct fill *fill = arg;

	fill->repair = NULL;
	if (progress->state == MEMORY_LOAD_DONE)
		fill->local_next++;
	else
		fail(fill, progress->err, progress->reason);
	copy_some(fill);
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
		.lkey = fill->request.registration->lkey,
	};
	struct memory_load_request request = {
		.pieces = &piece, .piece_count = 1, .group_count = 1,
		.deadline_ns = fill->request.deadline_ns, .class = fill->request.class,
		.check = fill->request.verify ? MEMORY_CHECK_DIGEST : MEMORY_CHECK_CHECKSUM,
	};
	char reason[MEMORY_REASON_LEN], text[MODEL_DIGEST_TEXT_LEN];

	if (!may_read(fill)) {
		fail(fill, -ENODEV, DEVICE_CHANGED);
		return;
	}
	memcpy(piece.digest, source->digest.bytes, MEMORY_DIGEST_LEN);
	piece.donor_count = peers_of_chunk(fill->peers, fill->chunks->catalog,
					   source->digest.bytes, piece.donors);
	if (piece.donor_count) {
		fill->repair = memory_loader_load(loader_of(fill), &request, &ops,
						  fill, reason);
	} else {
		model_digest_format(&source->digest, text);
		snprintf(reason, sizeof(reason),
			 "chunk %s is damaged on %s, and nobody else has it: delete the model and "
			 "push it again",
			 text, fill->chunks->host.name);
	}
	if (!fill->repair)
		fail(fill, -EBADMSG, reason);
}

/* By a worker, as the copies. */
static bool is_right(const struct fill *fill, const struct model_chunk *chunk, const void *bytes)
{
	if (fill->request.verify)
		return memory_digest_matches(bytes, chunk->size, chunk->digest.bytes);
	return chunk_checksum(bytes, chunk->size) == chunk->checksum;
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

static void copy(struct worker_job *job)
{
	struct fill *fill = fill_of(job);

	for (fill->copied = 0; fill->copied < fill->copies; fill->copied++) {
		const struct local *local = &fill->locals[fill->local_next + fill->copied];
		const struct model_chunk *chunk = &fill->request.manifest->chunks[local->chunk];

		memcpy(local->place, local->bytes, chunk->size);
		if (!is_right(fill, chunk, local->place))
			return;
	}
}

static void on_copied(struct worker_job *job, bool dropped)
{
	struct fill *fill = fill_of(job);
	struct local *local;

	fill->working = false;
	if (dropped)
		return;
	turns_name("load: copy");
	for (uint32_t i = 0; i < fill->copied; i++)
		unpin(fill, &fill->locals[fill->local_next++], false);
	if (fill->copied < fill->copies) {
		local = &fill->locals[fill->local_next];
		accuse(fill, local);
		local->bytes = NULL;
		local->tries++;
	}
	copy_some(fill);
	advance(fill);
}

/* Where is the next one, if not where it was? False: it is not there yet, or cannot be. */
static bool find_again(struct fill *fill, struct local *local)
{
	const struct model_chunk *chunk = &fill->request.manifest->chunks[local->chunk];

	if (local->tries < COPIES_TRIED && find_local(fill, chunk, local))
		return true;
	local->tries = 0;
	if (!chunks_reloading(fill->chunks, chunk->digest.bytes)) {
		repair(fill, local->chunk);
	} else {
		sd_event_source_set_time(fill->turn, clock_us() + RELOAD_US);
		sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
	}
	return false;
}

/* A few of those that have a place. */
static void copy_some(struct fill *fill)
{
	const struct fill_request *request = &fill->request;
	uint64_t bytes = 0;
	uint32_t i;

	if (!may_copy(fill))
		return;
	if (!fill->locals[fill->local_next].bytes &&
	    !find_again(fill, &fill->locals[fill->local_next]))
		return;
	for (i = fill->local_next; i < fill->local_count && bytes < COPY_BYTES; i++) {
		struct local *local = &fill->locals[i];

		if (!local->bytes || grouping_find(request->grouping, local->chunk) >=
					     request->allowed)
			break;
		local->place = request->place(fill->arg, local->chunk);
		bytes += request->manifest->chunks[local->chunk].size;
	}
	fill->copies = i - fill->local_next;
	fill->job = (struct worker_job){ .work = copy, .done = on_copied };
	fill->working = true;
	worker_add(fill->chunks->worker, &fill->job);
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct fill *fill = arg;

	(void)us;
	sd_event_source_set_time(source, 0);
	switch (fill->step) {
	case FILL_LOOKS:
		turns_name("load: sources");
		look(fill);
		break;
	case FILL_MOVES:
		turns_name("load: copy");
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		copy_some(fill);
		advance(fill);
		break;
	case FILL_READY: /* and has failed before it was started */
	case FILL_LEAVES:
		turns_name("load: end");
		leave(fill);
		break;
	case FILL_ORDERS:
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		break;
	}
	return 0;
}

struct fill *fill_create(struct chunks *chunks, struct peers *peers, sd_event *loop,
			 const struct fill_request *request, const struct fill_ops *ops, void *arg)
{
	uint32_t count = request->manifest->chunk_count;
	struct fill *fill = calloc(1, sizeof(*fill));

	if (!fill)
		return NULL;
	fill->chunks = chunks;
	fill->peers = peers;
	fill->loader = loader_of(fill);
	fill->request = *request;
	if (!fill->request.allowed)
		fill->request.allowed = request->grouping->count;
	fill->ops = *ops;
	fill->arg = arg;
	fill->locals = calloc(count + 1, sizeof(*fill->locals));
	fill->pieces = calloc(count + 1, sizeof(*fill->pieces));
	if (fill->locals && fill->pieces && !turn_begin(loop, &fill->turn, on_turn, fill))
		return fill;
	fill_destroy(fill);
	return NULL;
}

bool fill_start(struct fill *fill)
{
	static const struct memory_transfer_ops ops = {
		.group_done = on_group, .ended = on_ended, .quiet = on_quiet,
	};
	struct memory_load_request request = load_request(fill);

	if (!fill->err && is_connected(fill) && fill->piece_count) {
		fill->transfer = memory_loader_submit(loader_of(fill), fill->load, &request, &ops,
						      fill, fill->reason);
		fill->load = NULL;
		fill->err = fill->transfer ? 0 : -EINVAL;
		/* Somebody may have come since the load was made. */
		if (!fill->err)
			memory_loader_extend(loader_of(fill), fill->transfer, request.class,
					     request.deadline_ns);
	} else if (!fill->err) {
		fill->remote_done = fill->request.grouping->count;
		fill->remote_ended = true;
	}
	if (!fill->err) {
		fill->step = FILL_MOVES;
		fill->started = true;
	}
	sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
	return fill->started;
}

void fill_allow(struct fill *fill, uint32_t groups)
{
	if (groups <= fill->request.allowed)
		return;
	fill->request.allowed = groups;
	if (fill->transfer && !fill->remote_ended)
		memory_loader_allow(loader_of(fill), fill->transfer, groups);
	if (may_copy(fill))
		sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
}

void fill_extend(struct fill *fill, enum memory_class class, uint64_t deadline_ns)
{
	if (class < fill->request.class)
		fill->request.class = class;
	if (deadline_ns > fill->request.deadline_ns)
		fill->request.deadline_ns = deadline_ns;
	if (fill->transfer && !fill->remote_ended)
		memory_loader_extend(loader_of(fill), fill->transfer, class, deadline_ns);
	if (fill->repair)
		memory_loader_extend(loader_of(fill), fill->repair, class, deadline_ns);
}

void fill_fail(struct fill *fill, int err, const char *reason)
{
	fail(fill, err, reason);
	/* What is left is said from the loop, not from within this call. */
	sd_event_source_set_time(fill->turn, 0);
	sd_event_source_set_enabled(fill->turn, SD_EVENT_ON);
}
