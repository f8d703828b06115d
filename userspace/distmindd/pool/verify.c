// SPDX-License-Identifier: GPL-2.0-or-later
#include "verify.h"

#include "models.h"
#include "../common/turn.h"
#include "../common/turns.h"

#include "../../memory/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define READ_NS 10000000000ULL

struct verify {
	struct exchange exchange;
	struct worker_job job; /* of a copy on this host */
	struct memory_chunk *copy; /* pinned while a thread looks at it; NULL: none does */
	bool good; /* what it found */
	struct models *models;
	uint64_t payer;
	bool begun; /* else it waits for another one of the same user */
	bool busy; /* a thread or the device has a copy: looked() or on_read() follows */
	struct verify *next; /* of all, in the order in which they were asked for */
	struct manifest *manifest; /* a reference */
	uint32_t chunk;		   /* the one that is being checked */
	uint32_t holder;	   /* of it */
	json_t *bad; /* the first ones */
	uint32_t bad_chunks;
	bool is_bad; /* the one that is being checked: a copy of it */
	uint64_t done;
	sd_event_source *turn;
	uint8_t *scratch; /* a chunk of another host; NULL: none was read yet */
	struct memory_registration registration; /* of the scratch, with the device of now */
	char host[CATALOG_HOST_LEN]; /* that is being read from */
	uint32_t donor; /* its index */
	/*
	 * By index: it took all the time that a chunk may take, so from then on nobody waits for it
	 * to be connected. While it is, it has that time for each chunk all the same.
	 */
	bool silent[MEMORY_DONORS_MAX];
};

/* The first of a user's is the one that goes on. */
static void begin_first(struct models *models, uint64_t payer)
{
	struct verify *verify = models->verifies;

	while (verify && verify->payer != payer)
		verify = verify->next;
	if (!verify || verify->begun)
		return;
	verify->begun = true;
	sd_event_source_set_enabled(verify->turn, SD_EVENT_ON);
}

static void destroy(struct verify *verify)
{
	struct chunks *chunks = &verify->models->chunks;
	struct verify **at = &verify->models->verifies;

	while (*at != verify)
		at = &(*at)->next;
	*at = verify->next;
	begin_first(verify->models, verify->payer);
	if (verify->copy)
		memory_arena_unpin(chunks->arena, verify->copy);
	memory_registration_end(&verify->registration);
	if (verify->scratch)
		munmap(verify->scratch, MODEL_CHUNK_MAX);
	sd_event_source_disable_unref(verify->turn);
	manifest_put(verify->manifest);
	json_decref(verify->bad);
	free(verify);
}

static const struct model_chunk *current(const struct verify *verify)
{
	return &verify->manifest->model.chunks[verify->chunk];
}

static void complain(struct verify *verify, const char *host, const char *reason)
{
	char text[MODEL_DIGEST_TEXT_LEN];

	verify->bad_chunks += !verify->is_bad;
	verify->is_bad = true;
	model_digest_format(&current(verify)->digest, text);
	/* The answer has to fit a message: what is wrong at the beginning is enough. */
	if (json_array_size(verify->bad) < 64)
		json_array_append_new(verify->bad, json_pack("{s:s, s:s, s:s}", "chunk", text,
							     "host", host, "reason", reason));
}

/* The copy has been looked at. */
static void go_on(struct verify *verify)
{
	verify->busy = false;
	if (verify->exchange.client)
		sd_event_source_set_enabled(verify->turn, SD_EVENT_ON);
	else
		destroy(verify);
}

static void look(struct worker_job *job)
{
	struct verify *verify = (struct verify *)((char *)job - offsetof(struct verify, job));
	const struct memory_chunk *copy = verify->copy;

	verify->good = memory_digest_matches(copy->data, copy->length, copy->digest);
}

/* A verify that is dropped is destroyed by verify_close(). */
static void looked(struct worker_job *job, bool dropped)
{
	struct verify *verify = (struct verify *)((char *)job - offsetof(struct verify, job));

	if (dropped)
		return;
	memory_arena_unpin(verify->models->chunks.arena, verify->copy);
	verify->copy = NULL;
	if (!verify->good) {
		complain(verify, verify->models->chunks.host.name, "its bytes are damaged");
		chunks_suspect(&verify->models->chunks, current(verify)->digest.bytes, true);
	}
	go_on(verify);
}

/* True: looked() follows. */
static bool check_local(struct verify *verify, const char *host, const char *lacking)
{
	struct chunks *chunks = &verify->models->chunks;

	if (memory_arena_pin(chunks->arena, current(verify)->digest.bytes, &verify->copy)) {
		complain(verify, host, lacking);
		return false;
	}
	verify->job = (struct worker_job){ .work = look, .done = looked,
					  .background = true };
	worker_add(chunks->worker, &verify->job);
	return true;
}

static void on_read(void *arg, const struct memory_load_progress *progress)
{
	struct verify *verify = arg;

	if (progress->err == -ETIMEDOUT)
		verify->silent[verify->donor] = true;
	if (progress->state != MEMORY_LOAD_DONE)
		complain(verify, verify->host, progress->reason);
	go_on(verify);
}

/* A device that went has taken its registration along. */
static int open_scratch(struct verify *verify, char *reason)
{
	void *memory = verify->scratch;

	if (verify->registration.mr)
		return 0;
	if (!memory)
		memory = mmap(NULL, MODEL_CHUNK_MAX, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	verify->scratch = memory;
	return memory_registration_begin(&verify->registration,
					 verify->models->chunks.network.fabric, memory,
					 MODEL_CHUNK_MAX, -1, reason);
}

/* True: on_read() follows. */
static bool check_remote(struct verify *verify, const char *host)
{
	static const struct memory_transfer_ops ops = { .quiet = on_read };
	struct memory_piece piece = { .length = current(verify)->size, .donor_count = 1 };
	struct memory_load_request request = {
		.pieces = &piece, .piece_count = 1, .group_count = 1, .deadline_ns = READ_NS,
		.class = MEMORY_BACKGROUND, .check = MEMORY_CHECK_DIGEST,
	};
	int donor = peers_find(&verify->models->peers, host);
	char reason[MEMORY_REASON_LEN] = "it cannot be read from: there is no RDMA device";

	snprintf(verify->host, sizeof(verify->host), "%s", host);
	memcpy(piece.digest, current(verify)->digest.bytes, MEMORY_DIGEST_LEN);
	if (donor < 0 || !verify->models->chunks.network.fabric || open_scratch(verify, reason)) {
		complain(verify, host, reason);
		return false;
	}
	verify->donor = (uint32_t)donor;
	piece.donors[0] = verify->donor;
	request.partial = verify->silent[donor];
	piece.address = (uintptr_t)verify->scratch;
	piece.lkey = verify->registration.lkey;
	if (memory_loader_load(verify->models->chunks.network.loader, &request, &ops, verify,
			       reason))
		return true;
	complain(verify, host, reason);
	return false;
}

static void answer(struct verify *verify)
{
	client_answer(verify->exchange.client,
		      json_pack("{s:I, s:I, s:O}", "chunks",
				(json_int_t)verify->manifest->model.chunk_count, "bad_chunks",
				(json_int_t)verify->bad_chunks, "bad", verify->bad),
		      NULL, 0);
	destroy(verify);
}

/* One copy of one chunk in each turn. */
static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	struct verify *verify = arg;
	struct models *models = verify->models;
	size_t count;

	(void)us;
	turns_name("verify");
	if (verify->chunk == verify->manifest->model.chunk_count) {
		answer(verify);
		return 0;
	}
	count = catalog_chunk_holders(models->catalog, current(verify)->digest.bytes, holders,
				      CATALOG_REPLICAS_MAX);
	if (!count && !verify->holder) {
		/* What this host has got a moment ago the catalog may not know yet. */
		verify->holder++;
		verify->busy = check_local(verify, "", "nobody holds it");
	} else if (verify->holder < count && verify->holder < CATALOG_REPLICAS_MAX) {
		const struct catalog_holder *holder = &holders[verify->holder++];

		/* This host is here, whatever the catalog knows of it yet. */
		if (!strcmp(holder->host, models->chunks.host.name))
			verify->busy = check_local(verify, holder->host, "it is not there");
		else if (!holder->live)
			complain(verify, holder->host, "the host is away");
		else
			verify->busy = check_remote(verify, holder->host);
	} else {
		verify->done += current(verify)->size;
		verify->chunk++;
		verify->holder = 0;
		verify->is_bad = false;
		if (verify->chunk % 64 == 0)
			client_progress(verify->exchange.client, verify->done,
					verify->manifest->model.size);
	}
	if (verify->busy)
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

/* While a copy is read its memory is needed: then on_read() or looked() ends it. */
static void on_gone(struct exchange *exchange)
{
	struct verify *verify = (struct verify *)exchange;

	if (!verify->busy)
		destroy(verify);
}

void verify_close(struct models *models)
{
	while (models->verifies)
		destroy(models->verifies);
}

void verify_begin(struct client *client, struct manifest *manifest)
{
	struct verify *verify, **last = &client->models->verifies;
	char reason[MEMORY_REASON_LEN] = "out of memory";
	int err = -ENOMEM;

	/* What is not found may be there all the same. */
	if (client->models->chunks.restore.under_way) {
		client_refuse(client, -EAGAIN,
			      "this host has just started, and reads its spool: try again");
		return;
	}
	verify = calloc(1, sizeof(*verify));
	if (!verify) {
		client_refuse(client, err, "%s", reason);
		return;
	}
	verify->models = client->models;
	verify->payer = client->payer;
	while (*last)
		last = &(*last)->next;
	*last = verify;
	verify->manifest = manifest_get(manifest);
	verify->bad = json_array();
	verify->exchange.gone = on_gone;
	err = turn_begin(client->models->loop, &verify->turn, on_turn, verify);
	if (err < 0) {
		snprintf(reason, sizeof(reason), "%s", strerror(-err));
		destroy(verify);
		client_refuse(client, err, "verify: %s", reason);
		return;
	}
	sd_event_source_set_enabled(verify->turn, SD_EVENT_OFF);
	client_begin(client, &verify->exchange);
	begin_first(verify->models, verify->payer);
}
