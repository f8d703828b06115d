// SPDX-License-Identifier: GPL-2.0-or-later
#include "donate.h"

#include "../../common/clock.h"
#include "../common/log.h"
#include "manifests.h"
#include "replicas.h"
#include "../common/turn.h"
#include "../common/turns.h"

#include "../../sharding/sharding.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POKE_US 10000
#define PASS_SHARE 4 /* a pass takes at most one part in so many of the daemon's time */
#define PERIOD_US 2000000
#define ACCURACY_US 1000
#define RETRY_US 500000
#define SPOOL_RETRY_US 5000000 /* a disk that is full is full for a while */
#define PULL_BYTES (16U << 20)
#define PULL_CHUNKS 256
#define PULL_NS 30000000000ULL
#define CHUNKS_LOOKED 16 /* between two looks at the clock */

/* A model to place, which the catalog may have forgotten by then. */
struct pass_model {
	struct manifest *manifest; /* a reference */
	unsigned int replicas;
	uint32_t extra;
};

/*
 * Where a model's chunks are and are to be. The rows are owned, and kept from model to model of
 * a pass: to get, clear and free megabytes for each takes longer than a turn may.
 */
struct placing {
	struct sharding_chunk *now, *then;
	bool *needed; /* by the catalog's account */
	size_t room; /* in each of these; what is in them counts below next only */
	uint32_t next; /* chunk */
	uint32_t copies;
	uint32_t extra; /* of these */
	struct sharding_change change;
	int err;
};

/*
 * One look at all models, one after the other: who holds its chunks, in turns of the loop;
 * who is to, by a thread; and what follows, in turns again.
 */
struct donate_pass {
	struct donate *donate;
	struct sharding_donor donors[MEMORY_DONORS_MAX];
	uint64_t reserves[MEMORY_DONORS_MAX]; /* of each, for replicas only */
	bool cut_off[MEMORY_DONORS_MAX]; /* others that cannot be connected to */
	uint32_t donor_count;
	uint64_t self; /* id */
	uint64_t *ids; /* of holders, by number, as long as the catalog does not change; owned */
	uint64_t ids_changes, changes; /* of the catalog: then, and when it began */
	struct replicas replicas; /* of the models, before they are listed */
	bool listed;
	struct pass_model *models; /* those that are hot come last; owned */
	size_t model_count, room, next;
	bool reserved; /* the donors' rooms are without what is for replicas only */
	bool starved; /* there is no room for all replicas */
	bool passes_over; /* what comes before where the last pull ended */
	struct placing placing;
	enum { PASS_BEGINS, PASS_LOOKS, PASS_PLACES, PASS_ACTS } step; /* of the model */
	struct worker_job job;
	sd_event_source *turn;
	uint64_t us; /* of the loop's time, so far */
	struct donate_pull *pull;
	int err;
};

struct donate_pull {
	struct donate *donate;
	struct memory_transfer *transfer;
	struct memory_chunk *chunks[PULL_CHUNKS];
	struct memory_piece pieces[PULL_CHUNKS];
	uint32_t count;
	uint32_t kept; /* of these, or to be, after they have come */
	uint64_t bytes;
	sd_event_source *turn;
	struct chunks_wait wait;
	uint32_t unkept; /* of these, mostly since the disk did not take them */
	int err;	 /* of the last one */
};

static void wake(struct donate *donate, uint64_t us)
{
	uint64_t at = clock_us() + us, already;
	int enabled;

	if (sd_event_source_get_enabled(donate->timer, &enabled) >= 0 && enabled &&
	    sd_event_source_get_time(donate->timer, &already) >= 0 && already <= at)
		return;
	sd_event_source_set_time(donate->timer, at);
	sd_event_source_set_enabled(donate->timer, SD_EVENT_ONESHOT);
}

void donate_poke(struct donate *donate)
{
	uint64_t rest = donate->pass_us * PASS_SHARE;

	wake(donate, rest > POKE_US ? rest : POKE_US);
}

/*
 * Whose is what
 */

static uint64_t id_of(const char *host)
{
	struct model_digest digest = { 0 };
	uint64_t id;

	model_digest_make(host, strlen(host), &digest);
	memcpy(&id, digest.bytes, sizeof(id));
	return id;
}

static void see_host(const struct catalog_host *host, void *arg)
{
	struct donate_pass *pass = arg;

	if (!host->memory_total || pass->donor_count == MEMORY_DONORS_MAX)
		return;
	pass->reserves[pass->donor_count] = host->memory_total / SHARDING_FREE_TO_STAY;
	pass->cut_off[pass->donor_count] = !host->rdma_address[0] &&
					   strcmp(host->name, pass->donate->chunks->host.name);
	/* All alike: what one host has measured the others do not know. */
	pass->donors[pass->donor_count++] = (struct sharding_donor){
		.id = id_of(host->name), .bandwidth = 1, .room = host->memory_free,
	};
}

/* A host without an RDMA device cannot fetch what it is given: others are to have that. */
static void see_hosts(struct donate_pass *pass)
{
	catalog_host_each(pass->donate->catalog, see_host, pass);
	for (uint32_t i = 0; i < pass->donor_count && pass->donor_count > 1; i++)
		if (pass->cut_off[i])
			pass->donors[i].room = 0;
}

static bool holds(const struct sharding_chunk *chunk, uint64_t id)
{
	for (uint32_t i = 0; i < chunk->copies; i++)
		if (chunk->donors[i] == id)
			return true;
	return false;
}

/* Can it be read now? A host that lives in the catalog may be beyond the reach of RDMA. */
static bool within_reach(const struct donate *donate, const struct memory_piece *piece)
{
	for (uint32_t i = 0; i < piece->donor_count; i++)
		if (donate->chunks->connected[piece->donors[i]])
			return true;
	return false;
}

static void want(struct donate_pass *pass, const struct model_chunk *chunk)
{
	struct donate *donate = pass->donate;
	struct donate_pull *pull = pass->pull;
	const uint8_t *digest = chunk->digest.bytes;
	struct memory_piece *piece;

	if (pass->passes_over) {
		pass->passes_over = memcmp(donate->last, digest, MEMORY_DIGEST_LEN);
		return;
	}
	if (!pull || pull->count == PULL_CHUNKS || pull->bytes + chunk->size > PULL_BYTES ||
	    chunks_have(donate->chunks, digest))
		return;
	for (uint32_t i = 0; i < pull->count; i++)
		if (!memcmp(pull->pieces[i].digest, digest, MEMORY_DIGEST_LEN))
			return;
	piece = &pull->pieces[pull->count];
	*piece = (struct memory_piece){ .length = chunk->size };
	piece->donor_count = peers_of_chunk(donate->peers, donate->catalog, digest, piece->donors);
	if (!within_reach(donate, piece) ||
	    memory_arena_allocate(donate->chunks->arena, chunk->size, &pull->chunks[pull->count]))
		return;
	memcpy(piece->digest, digest, MEMORY_DIGEST_LEN);
	piece->address = (uintptr_t)pull->chunks[pull->count]->data;
	piece->checksum = chunk->checksum;
	piece->lkey = donate->chunks->network.registration.lkey;
	pull->bytes += chunk->size;
	pull->count++;
}

/* Not mine: has whoever is to have it got it? */
static bool settled(const struct sharding_chunk *now, const struct sharding_chunk *then)
{
	for (uint32_t i = 0; i < then->copies; i++)
		if (!holds(now, then->donors[i]))
			return false;
	return then->copies > 0;
}

static void placing_close(struct placing *placing)
{
	free(placing->now);
	free(placing->then);
	free(placing->needed);
	*placing = (struct placing){ 0 };
}

/* For the next model. */
static int placing_begin(struct placing *placing, size_t count)
{
	struct placing kept = {
		.now = placing->now, .then = placing->then, .needed = placing->needed,
		.room = placing->room,
	};

	*placing = kept;
	if (count <= placing->room)
		return 0;
	placing_close(placing);
	placing->now = malloc(count * sizeof(*placing->now));
	placing->then = malloc(count * sizeof(*placing->then));
	placing->needed = malloc(count * sizeof(*placing->needed));
	if (!placing->now || !placing->then || !placing->needed)
		return -ENOMEM;
	placing->room = count;
	return 0;
}

/* What the numbers of holders mean changes with the catalog. */
static int number_hosts(struct donate_pass *pass)
{
	struct catalog *catalog = pass->donate->catalog;
	struct catalog_numbers numbers;
	int err;

	if (pass->ids && pass->ids_changes == catalog_changes(catalog))
		return 0;
	err = catalog_numbers(catalog, &numbers);
	if (err)
		return err;
	free(pass->ids);
	pass->ids_changes = catalog_changes(catalog);
	pass->ids = calloc(numbers.hosts + 1, sizeof(*pass->ids));
	if (!pass->ids)
		return -ENOMEM;
	for (size_t i = 0; i < numbers.hosts; i++)
		pass->ids[i] = id_of(numbers.names[i]);
	return 0;
}

/* Models of which there are further copies come after all others. */
static void add_model(struct donate_pass *pass, const struct catalog_model *model, uint32_t extra)
{
	size_t room = pass->room ? pass->room * 2 : 64;
	struct manifest *manifest = manifests_find(model);
	void *models;

	if (!manifest || pass->err)
		return;
	if (pass->model_count == pass->room) {
		models = reallocarray(pass->models, room, sizeof(*pass->models));
		if (!models) {
			pass->err = -ENOMEM;
			return;
		}
		pass->models = models;
		pass->room = room;
	}
	pass->models[pass->model_count++] = (struct pass_model){
		.manifest = manifest_get(manifest), .replicas = model->replicas, .extra = extra,
	};
}

struct listing_models {
	struct donate_pass *pass;
	bool hot;
};

static void list_model(const struct catalog_model *model, void *arg)
{
	struct listing_models *listing = arg;
	uint32_t extra = 0;

	if (!model->uploading)
		extra = replicas_extra(&listing->pass->replicas, model->name);
	if (!extra == !listing->hot)
		add_model(listing->pass, model, extra);
}

static void list_models(struct donate_pass *pass)
{
	struct listing_models listing = { .pass = pass };

	catalog_model_each(pass->donate->catalog, list_model, &listing);
	listing.hot = true;
	catalog_model_each(pass->donate->catalog, list_model, &listing);
	pass->listed = true;
}

/*
 * Replicas come first: they are fetched before any further copies, have a part of every
 * donor to themselves, and if they lack room all the same there are no further copies.
 */
static void reserve(struct donate_pass *pass)
{
	for (size_t i = 0; i < pass->donor_count && !pass->starved && !pass->reserved; i++) {
		struct sharding_donor *donor = &pass->donors[i];

		donor->room -= donor->room < pass->reserves[i] ? donor->room : pass->reserves[i];
	}
	pass->reserved = true;
}

static int begin_model(struct donate_pass *pass)
{
	const struct pass_model *model = &pass->models[pass->next];
	struct placing *placing = &pass->placing;
	int err = placing_begin(placing, (size_t)model->manifest->model.chunk_count + 1);

	if (err)
		return err;
	if (model->extra)
		reserve(pass);
	placing->extra = pass->starved ? 0 : model->extra;
	placing->copies = model->replicas + placing->extra;
	if (placing->copies > SHARDING_COPIES_MAX)
		placing->copies = SHARDING_COPIES_MAX;
	if (placing->copies > pass->donor_count)
		placing->copies = pass->donor_count;
	return 0;
}

/* True: all chunks of the model were looked at. */
static bool look(struct donate_pass *pass)
{
	const struct manifest *manifest = pass->models[pass->next].manifest;
	struct placing *placing = &pass->placing;
	uint32_t count = manifest->model.chunk_count;

	pass->err = number_hosts(pass);
	while (placing->next < count && !pass->err) {
		uint32_t i = placing->next++;
		const struct model_chunk *chunk = &manifest->model.chunks[i];
		const struct catalog_chunk *known;
		struct sharding_chunk *now = &placing->now[i];

		known = catalog_chunk_find(pass->donate->catalog, chunk->digest.bytes);
		placing->needed[i] = known && known->references;
		*now = (struct sharding_chunk){
			.size = chunk->size, .group = grouping_find(&manifest->placement, i),
		};
		memcpy(&now->key, chunk->digest.bytes, sizeof(now->key));
		while (known && now->copies < known->live && now->copies < SHARDING_COPIES_MAX) {
			now->donors[now->copies] = pass->ids[known->holders[now->copies]];
			now->copies++;
		}
		placing->then[i] = *now;
		if (placing->next % CHUNKS_LOOKED == 0 && turns_over())
			break;
	}
	return placing->next == count;
}

static void place(struct worker_job *job)
{
	struct donate_pass *pass = (struct donate_pass *)((char *)job -
							  offsetof(struct donate_pass, job));
	struct placing *placing = &pass->placing;

	placing->err = sharding_place(pass->donors, pass->donor_count, placing->then,
				      pass->models[pass->next].manifest->model.chunk_count,
				      placing->copies, &placing->change);
}

static void on_placed(struct worker_job *job, bool dropped)
{
	struct donate_pass *pass = (struct donate_pass *)((char *)job -
							  offsetof(struct donate_pass, job));
	struct placing *placing = &pass->placing;

	pass->step = PASS_ACTS;
	placing->next = 0;
	/* No room for all: what could be placed is placed. */
	pass->err = placing->err == -ENOSPC ? 0 : placing->err;
	if (placing->change.short_copies && !placing->extra)
		pass->starved = true;
	if (!dropped)
		sd_event_source_set_enabled(pass->turn, SD_EVENT_ON);
}

/* What is to be here is fetched, and stays; so does what others have not got yet. */
static bool act(struct donate_pass *pass)
{
	const struct model_manifest *model = &pass->models[pass->next].manifest->model;
	struct placing *placing = &pass->placing;

	while (placing->next < model->chunk_count) {
		uint32_t i = placing->next++;
		bool mine = holds(&placing->then[i], pass->self);

		if (mine)
			want(pass, &model->chunks[i]);
		if (placing->needed[i] && (mine || !settled(&placing->now[i], &placing->then[i])))
			memory_arena_mark(pass->donate->chunks->arena,
					  model->chunks[i].digest.bytes, pass->donate->passes);
		if (placing->next % CHUNKS_LOOKED == 0 && turns_over())
			break;
	}
	return placing->next == model->chunk_count;
}

/*
 * Fetching
 */

static void abandon(struct donate_pull *pull)
{
	chunks_forget(pull->donate->chunks, &pull->wait);
	for (uint32_t i = pull->kept; i < pull->count; i++)
		memory_arena_abandon(pull->donate->chunks->arena, pull->chunks[i]);
	sd_event_source_disable_unref(pull->turn);
	free(pull);
}

static void note_unkept(struct donate_pull *pull, int err)
{
	pull->unkept++;
	pull->err = err;
}

static void on_kept(void *arg, uint32_t which, int err)
{
	struct donate_pull *pull = arg;

	(void)which;
	if (err)
		note_unkept(pull, err);
	sd_event_source_set_enabled(pull->turn, SD_EVENT_ON);
}

static void end_pull(struct donate_pull *pull)
{
	struct donate *donate = pull->donate;

	log_debug("chunks-fetched", LOG_U("chunks", pull->count), LOG_U("bytes", pull->bytes));
	if (pull->unkept)
		donate->not_before_us = clock_us() + SPOOL_RETRY_US;
	if (pull->unkept && pull->err != donate->unkept)
		log_warning("chunks-not-kept", LOG_U("chunks", pull->unkept),
			    LOG_S("reason", strerror(-pull->err)));
	donate->unkept = pull->err;
	donate->pull = NULL;
	abandon(pull);
	chunks_report(donate->chunks);
	if (clock_us() >= donate->not_before_us)
		wake(donate, 0);
}

/* Some in each turn of the loop, and as many as the disk is given at a time. */
static int on_keep(sd_event_source *source, uint64_t us, void *arg)
{
	struct donate_pull *pull = arg;
	struct chunks *chunks = pull->donate->chunks;

	(void)us;
	turns_name("donate: keep");
	while (pull->kept < pull->count && pull->wait.pending < CHUNKS_PENDING_MAX) {
		uint32_t i = pull->kept++;
		struct chunks_bytes bytes = { .checksum = pull->pieces[i].checksum };
		int err;

		memcpy(bytes.digest, pull->pieces[i].digest, sizeof(bytes.digest));
		err = chunks_keep(chunks, pull->chunks[i], &bytes, &pull->wait, i);
		if (err < 0)
			note_unkept(pull, err);
	}
	if (pull->kept == pull->count && !pull->wait.pending)
		end_pull(pull);
	else if (pull->kept == pull->count || pull->wait.pending == CHUNKS_PENDING_MAX)
		sd_event_source_set_enabled(source, SD_EVENT_OFF); /* until on_kept() */
	return 0;
}

/* Told once for each donor of the chunk. */
static bool leave_out(void *arg, const uint8_t *digest, const char *donor, const char *reason)
{
	struct donate_pull *pull = arg;
	uint32_t i = 0;

	(void)donor;
	(void)reason;
	while (i < pull->count && memcmp(pull->pieces[i].digest, digest, MEMORY_DIGEST_LEN))
		i++;
	if (i == pull->count)
		return true;
	memory_arena_abandon(pull->donate->chunks->arena, pull->chunks[i]);
	pull->bytes -= pull->pieces[i].length;
	pull->count--;
	pull->chunks[i] = pull->chunks[pull->count];
	pull->pieces[i] = pull->pieces[pull->count];
	return true;
}

/* What has not come is not wanted again before everything else was. */
static void put_off(struct donate *donate)
{
	donate->rotates = true;
	donate->not_before_us = clock_us() + RETRY_US;
	wake(donate, RETRY_US);
}

static void on_pulled(void *arg, const struct memory_load_progress *progress)
{
	struct donate_pull *pull = arg;
	struct donate *donate = pull->donate;
	uint32_t wanted = pull->count;

	if (progress->state != MEMORY_LOAD_DONE) {
		memory_loader_missing(donate->chunks->network.loader, pull->transfer, leave_out,
				      pull);
		log_warning("chunks-not-fetched", LOG_U("chunks", wanted - pull->count),
			    LOG_S("reason", progress->reason));
		put_off(donate);
	}
	if (turn_begin(donate->loop, &pull->turn, on_keep, pull) >= 0)
		return;
	donate->pull = NULL;
	abandon(pull);
	put_off(donate);
}

static void start_pull(struct donate *donate, struct donate_pull *pull)
{
	static const struct memory_transfer_ops ops = { .quiet = on_pulled };
	struct memory_load_request request = {
		.pieces = pull->pieces, .piece_count = pull->count, .group_count = 1,
		.deadline_ns = PULL_NS, .class = MEMORY_BACKGROUND, .partial = true,
	};
	char reason[MEMORY_REASON_LEN];

	if (!pull->count) {
		free(pull);
		if (donate->rotates)
			donate_poke(donate);
		donate->rotates = false;
		return;
	}
	memcpy(donate->last, pull->pieces[pull->count - 1].digest, sizeof(donate->last));
	pull->wait = (struct chunks_wait){ .kept = on_kept, .arg = pull };
	pull->transfer = memory_loader_load(donate->chunks->network.loader, &request, &ops, pull,
					    reason);
	if (pull->transfer) {
		donate->pull = pull;
		return;
	}
	log_warning("chunks-not-fetched", LOG_U("chunks", pull->count), LOG_S("reason", reason));
	abandon(pull);
	put_off(donate);
}

/*
 * The pass
 */

static void free_pass(struct donate_pass *pass)
{
	for (size_t i = 0; i < pass->model_count; i++)
		manifest_put(pass->models[i].manifest);
	placing_close(&pass->placing);
	sd_event_source_disable_unref(pass->turn);
	replicas_free(&pass->replicas);
	free(pass->models);
	free(pass->ids);
	free(pass);
}

static void end_pass(struct donate *donate)
{
	struct donate_pass *pass = donate->pass;

	donate->pass = NULL;
	donate->pass_us = pass->us;
	/* What was freed while others read it is free since nobody knows when. */
	chunks_report(donate->chunks);
	if (pass->pull)
		start_pull(donate, pass->pull);
	/* What has come meanwhile is not marked: it is for the next pass, which follows. */
	giving_begin(&donate->giving,
		     !pass->err && pass->donor_count &&
				     pass->changes == catalog_changes(donate->catalog) ?
			     donate->passes :
			     0,
		     pass->changes);
	free_pass(pass);
	wake(donate, PERIOD_US);
}

/* A step of the model's; true: go on with the next one, if there is time. */
static bool go_on(struct donate_pass *pass)
{
	switch (pass->step) {
	case PASS_BEGINS:
		pass->err = begin_model(pass);
		pass->step = PASS_LOOKS;
		return true;
	case PASS_LOOKS:
		if (!look(pass))
			return !pass->err;
		pass->step = PASS_PLACES;
		pass->job = (struct worker_job){ .work = place, .done = on_placed };
		sd_event_source_set_enabled(pass->turn, SD_EVENT_OFF);
		worker_add(pass->donate->chunks->worker, &pass->job);
		return false;
	case PASS_PLACES:
		return false;
	case PASS_ACTS:
		if (!act(pass))
			return true;
		pass->step = PASS_BEGINS;
		pass->next++;
		return true;
	}
	return false;
}

/* How many copies each model is to have, and then the models. False: not yet. */
static bool list_pass(struct donate_pass *pass)
{
	int ret = pass->listed ? 0 : replicas_look(&pass->replicas);

	if (ret < 0)
		pass->err = ret;
	else if (!ret && !pass->listed)
		list_models(pass);
	return ret <= 0;
}

static int on_pass(sd_event_source *source, uint64_t us, void *arg)
{
	struct donate_pass *pass = arg;
	uint64_t begin = clock_us();

	(void)source;
	(void)us;
	turns_name("donate: models");
	if (!list_pass(pass)) {
		pass->us += clock_us() - begin;
		return 0;
	}
	while (!pass->err && pass->next < pass->model_count && go_on(pass) && !turns_over())
		;
	pass->us += clock_us() - begin;
	if (pass->err || pass->next == pass->model_count)
		end_pass(pass->donate);
	return 0;
}

static void begin_pass(struct donate *donate)
{
	struct donate_pass *pass = calloc(1, sizeof(*pass));

	if (!pass)
		return;
	donate->pass = pass;
	donate->passes++;
	pass->donate = donate;
	pass->changes = catalog_changes(donate->catalog);
	pass->self = id_of(donate->chunks->host.name);
	if (!donate->pull && donate->chunks->network.loader && clock_us() >= donate->not_before_us)
		pass->pull = calloc(1, sizeof(*pass->pull));
	pass->passes_over = pass->pull && donate->rotates;
	if (pass->pull)
		pass->pull->donate = donate;
	see_hosts(pass);
	pass->listed = !pass->donor_count;
	if (pass->donor_count)
		pass->err = replicas_begin(&pass->replicas, donate->catalog);
	if (!pass->err)
		pass->err = turn_begin(donate->loop, &pass->turn, on_pass, pass);
	if (pass->err)
		end_pass(donate);
}

void donate_disconnect(struct donate *donate)
{
	struct donate_pass *pass = donate->pass;

	if (!pass || !pass->pull)
		return;
	abandon(pass->pull);
	pass->pull = NULL;
}

static void tell_heat(struct donate *donate)
{
	const char *names[CATALOG_HOT_MAX];
	size_t count = heat_hot(donate->heat, clock_us(), names);

	catalog_set_hot(donate->catalog, names, count);
}

static int on_time(sd_event_source *source, uint64_t us, void *arg)
{
	struct donate *donate = arg;

	(void)source;
	(void)us;
	turns_name("donate");
	tell_heat(donate);
	peers_update(donate->peers, donate->catalog);
	/* One that is under way may have looked already: there is another one after it. */
	if (donate->pass)
		wake(donate, POKE_US);
	else if (catalog_member_state(donate->catalog) == CATALOG_JOINED)
		begin_pass(donate);
	else
		wake(donate, PERIOD_US);
	return 0;
}

static void on_given(void *arg, int err)
{
	if (err)
		wake(arg, RETRY_US);
}

int donate_open(struct donate *donate, sd_event *loop, struct catalog *catalog,
		struct chunks *chunks, struct peers *peers, struct heat *heat)
{
	int err;

	*donate = (struct donate){
		.loop = loop, .catalog = catalog, .chunks = chunks, .peers = peers, .heat = heat,
	};
	err = giving_open(&donate->giving, loop, catalog, chunks, on_given, donate);
	if (!err)
		err = sd_event_add_time(loop, &donate->timer, CLOCK_MONOTONIC, clock_us(),
					ACCURACY_US, on_time, donate);
	return err < 0 ? err : 0;
}

void donate_close(struct donate *donate)
{
	struct donate_pass *pass = donate->pass;

	if (pass && pass->step == PASS_PLACES)
		worker_cancel(donate->chunks->worker, &pass->job);
	if (pass && pass->pull)
		abandon(pass->pull);
	if (pass)
		free_pass(pass);
	if (donate->pull)
		abandon(donate->pull);
	sd_event_source_disable_unref(donate->timer);
	giving_close(&donate->giving);
	*donate = (struct donate){ 0 };
}
