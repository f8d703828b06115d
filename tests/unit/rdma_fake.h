/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Another host in the place of RDMA, which has all chunks of the samples. Included by the one
 * file of a test program.
 */
#ifndef TESTS_UNIT_RDMA_FAKE_H
#define TESTS_UNIT_RDMA_FAKE_H

#include "service_bed.h"

#define SAMPLES 2

static struct donor {
	const struct sample *samples[SAMPLES];
	uint32_t damaged; /* this chunk of the first sample arrives so; UINT32_MAX: none */
	bool holds; /* answers later */
	bool races; /* what has lost a race is still to come: no group is clear */
	uint32_t lacks; /* it has lost this chunk of the first sample; UINT32_MAX: none */
	struct memory_transfer *transfer; /* the last that is under way */
} donor;

struct memory_transfer {
	struct memory_piece *pieces;
	uint32_t piece_count, group_count;
	uint32_t allowed, done, clear; /* groups */
	uint32_t next; /* piece */
	bool cancelled;
	enum memory_class class;
	uint64_t deadline_ns;
	struct memory_transfer_ops ops;
	void *arg;
	sd_event_source *turn;
	struct memory_transfer *before; /* which was cancelled, and has not ended */
};

void peers_open(struct peers *peers, struct chunks *chunks)
{
	(void)chunks;
	*peers = (struct peers){ 0 };
}

void peers_close(struct peers *peers)
{
	(void)peers;
}

void peers_reset(struct peers *peers)
{
	(void)peers;
}

void peers_update(struct peers *peers, const struct catalog *catalog)
{
	(void)peers;
	(void)catalog;
}

int peers_find(const struct peers *peers, const char *host)
{
	(void)peers;
	(void)host;
	return 0;
}

uint32_t peers_of_chunk(const struct peers *peers, struct catalog *catalog, const uint8_t *digest,
			uint32_t *donors)
{
	(void)peers;
	(void)catalog;
	(void)digest;
	donors[0] = 0;
	return 1;
}

int memory_client_open(struct memory_client **client, struct memory_fabric *fabric,
		       const struct memory_client_options *options, char reason[MEMORY_REASON_LEN])
{
	(void)client;
	(void)fabric;
	(void)options;
	(void)reason;
	return -ENODEV;
}

static inline void end_transfer(struct memory_transfer *transfer)
{
	struct memory_transfer **at = &donor.transfer;

	while (*at != transfer)
		at = &(*at)->before;
	*at = transfer->before;
	sd_event_source_disable_unref(transfer->turn);
	free(transfer->pieces);
	free(transfer);
}

void memory_client_close(struct memory_client *client)
{
	(void)client;
	while (donor.transfer)
		end_transfer(donor.transfer);
}

void memory_client_fail(struct memory_client *client, int err, const char *reason)
{
	(void)client;
	(void)err;
	(void)reason;
}

int memory_client_donor_add(struct memory_client *client, const char *name,
			    const struct sockaddr_storage *address)
{
	(void)client;
	(void)name;
	(void)address;
	return 0;
}

void memory_client_donor_remove(struct memory_client *client, uint32_t index)
{
	(void)client;
	(void)index;
}

int memory_client_donor_stats(struct memory_client *client, uint32_t index,
			      struct memory_reader_donor *stats)
{
	(void)client;
	(void)index;
	(void)stats;
	return -ENOENT;
}

static inline void answer_piece(const struct memory_piece *piece)
{
	for (size_t s = 0; s < SAMPLES; s++) {
		const struct sample *sample = donor.samples[s];

		for (uint32_t i = 0; sample && i < sample->image.manifest.chunk_count; i++) {
			const struct model_chunk *chunk = &sample->image.manifest.chunks[i];

			if (memcmp(chunk->digest.bytes, piece->digest, MEMORY_DIGEST_LEN))
				continue;
			memcpy((void *)(uintptr_t)piece->address,
			       model_image_chunk((struct model_image *)&sample->image, i),
			       chunk->size);
			*(uint8_t *)(uintptr_t)piece->address ^= !s && i == donor.damaged;
			return;
		}
	}
	fail_msg("asked for a chunk that there is not");
}

static inline bool lacking(const struct memory_piece *piece)
{
	return donor.lacks != UINT32_MAX &&
	       !memcmp(donor.samples[0]->image.manifest.chunks[donor.lacks].digest.bytes,
		       piece->digest, MEMORY_DIGEST_LEN);
}

/* A group; 0, or -ENOENT. */
static inline int answer_group(struct memory_transfer *transfer)
{
	while (transfer->next < transfer->piece_count &&
	       transfer->pieces[transfer->next].group == transfer->done) {
		if (lacking(&transfer->pieces[transfer->next]))
			return -ENOENT;
		answer_piece(&transfer->pieces[transfer->next++]);
	}
	if (transfer->ops.group_done)
		transfer->ops.group_done(transfer->arg, transfer->done);
	transfer->done++;
	return 0;
}

static inline void clear_groups(struct memory_transfer *transfer)
{
	for (; !donor.races && transfer->clear < transfer->done; transfer->clear++)
		if (transfer->ops.group_clear)
			transfer->ops.group_clear(transfer->arg, transfer->clear);
}

static inline int on_answer(sd_event_source *source, void *arg)
{
	struct memory_load_progress progress = { .state = MEMORY_LOAD_DONE, .quiet = true };
	struct memory_transfer *transfer = arg;

	(void)source;
	if (transfer->cancelled)
		progress.err = -ECANCELED;
	while (!progress.err && transfer->done < transfer->allowed)
		progress.err = answer_group(transfer);
	clear_groups(transfer);
	if (!progress.err && (transfer->done < transfer->group_count || donor.races))
		return 0;
	if (progress.err)
		progress.state = MEMORY_LOAD_FAILED;
	if (transfer->ops.ended)
		transfer->ops.ended(transfer->arg, &progress);
	transfer->ops.quiet(transfer->arg, &progress);
	end_transfer(transfer);
	return 0;
}

/* Once more, as soon as the loop runs. */
static inline void go_on(struct memory_transfer *transfer)
{
	if (!donor.holds)
		assert_true(sd_event_source_set_enabled(transfer->turn, SD_EVENT_ONESHOT) >= 0);
}

struct memory_transfer *memory_client_load(struct memory_client *client,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN])
{
	struct memory_transfer *transfer = calloc(1, sizeof(*transfer));

	(void)client;
	(void)reason;
	assert_true(!donor.transfer || donor.transfer->cancelled);
	transfer->before = donor.transfer;
	transfer->pieces = calloc(request->piece_count, sizeof(*transfer->pieces));
	memcpy(transfer->pieces, request->pieces,
	       request->piece_count * sizeof(*transfer->pieces));
	transfer->piece_count = request->piece_count;
	transfer->group_count = request->group_count;
	transfer->class = request->class;
	transfer->deadline_ns = request->deadline_ns;
	transfer->allowed = request->allowed ? request->allowed : request->group_count;
	transfer->ops = *ops;
	transfer->arg = arg;
	assert_true(sd_event_add_defer(bed.loop, &transfer->turn, on_answer, transfer) >= 0);
	if (donor.holds)
		assert_true(sd_event_source_set_enabled(transfer->turn, SD_EVENT_OFF) >= 0);
	donor.transfer = transfer;
	return transfer;
}

void memory_client_cancel(struct memory_client *client, struct memory_transfer *transfer)
{
	(void)client;
	transfer->cancelled = true;
	go_on(transfer);
}

void memory_client_allow(struct memory_client *client, struct memory_transfer *transfer,
			 uint32_t groups)
{
	(void)client;
	transfer->allowed = groups;
	go_on(transfer);
}

void memory_client_extend(struct memory_client *client, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns)
{
	(void)client;
	if (deadline_ns > transfer->deadline_ns)
		transfer->deadline_ns = deadline_ns;
	if (class < transfer->class)
		transfer->class = class;
}

void memory_client_missing(struct memory_client *client, struct memory_transfer *transfer,
			   void (*tell)(void *arg, const uint8_t *digest, const char *host,
					const char *reason),
			   void *arg)
{
	(void)client;
	for (uint32_t i = transfer->next; i < transfer->piece_count; i++)
		tell(arg, transfer->pieces[i].digest, "donor", "does not have it");
}

#endif
