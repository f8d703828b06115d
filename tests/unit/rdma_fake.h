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
	uint32_t lacks; /* it has lost this chunk of the first sample; UINT32_MAX: none */
	/* One that only a second host was said to have, and does not; NULL: none */
	const struct sample *far;
	uint32_t far_asked; /* chunks that were wanted of that host, in all */
	struct memory_transfer *transfer; /* the last that is under way */
	bool failed; /* so the loader was told */
	bool silent; /* it is not connected, and the time that is waited for it passes at once */
	uint32_t waited; /* how often that was */
} donor;

struct memory_transfer {
	struct memory_piece *pieces;
	bool partial, *missing; /* pieces */
	uint32_t piece_count, group_count;
	uint32_t allowed, done; /* groups */
	uint32_t next; /* piece */
	bool cancelled;
	enum memory_class class;
	uint64_t deadline_ns;
	struct memory_transfer_ops ops;
	void *arg;
	sd_event_source *turn;
	struct memory_transfer *before; /* which was cancelled, and has not ended */
};

/* Memory that is registered has this key, whatever the device. */
#define FAKE_LKEY 42

static struct ibv_mr fake_mr;

int memory_registration_make(struct memory_registration *registration,
			     struct memory_fabric *fabric, void *address, uint64_t length,
			     int dmabuf_fd, char reason[MEMORY_REASON_LEN])
{
	(void)fabric;
	(void)address;
	(void)length;
	(void)dmabuf_fd;
	(void)reason;
	*registration = (struct memory_registration){ .mr = &fake_mr, .lkey = FAKE_LKEY };
	return 0;
}

void memory_registration_unmake(struct memory_registration *registration)
{
	*registration = (struct memory_registration){ 0 };
}

void memory_registration_adopt(struct memory_registration *registration,
			       struct memory_fabric *fabric)
{
	(void)fabric;
	registration->owned = registration->mr;
}

void memory_registration_let_go(struct memory_registration *registration)
{
	registration->owned = false;
}

int memory_registration_begin(struct memory_registration *registration,
			      struct memory_fabric *fabric, void *address, uint64_t length,
			      int dmabuf_fd, char reason[MEMORY_REASON_LEN])
{
	return memory_registration_make(registration, fabric, address, length, dmabuf_fd, reason);
}

void memory_registration_move(struct memory_registration *from, struct memory_registration *to)
{
	*to = *from;
	memory_registration_unmake(from);
}

void memory_registration_end(struct memory_registration *registration)
{
	memory_registration_unmake(registration);
}

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

#define FAR 1U /* the index of the second host */

static inline bool is_far(const uint8_t *digest)
{
	const struct model_manifest *model = donor.far ? &donor.far->image.manifest : NULL;

	for (uint32_t i = 0; model && i < model->chunk_count; i++)
		if (!memcmp(model->chunks[i].digest.bytes, digest, MEMORY_DIGEST_LEN))
			return true;
	return false;
}

uint32_t peers_of_chunk(const struct peers *peers, struct catalog *catalog, const uint8_t *digest,
			uint32_t *donors)
{
	(void)peers;
	(void)catalog;
	donors[0] = is_far(digest) ? FAR : 0;
	return 1;
}

int memory_loader_open(struct memory_loader **loader, struct memory_fabric *fabric,
		       const struct memory_loader_options *options, char reason[MEMORY_REASON_LEN])
{
	(void)loader;
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
	free(transfer->missing);
	free(transfer->pieces);
	free(transfer);
}

void memory_loader_close(struct memory_loader *loader)
{
	(void)loader;
	while (donor.transfer)
		end_transfer(donor.transfer);
}

/* Those under way end when the test says so. */
void memory_loader_fail(struct memory_loader *loader, int err, const char *reason)
{
	(void)loader;
	(void)err;
	(void)reason;
	donor.failed = true;
}

bool memory_loader_over(struct memory_loader *loader)
{
	(void)loader;
	return donor.failed && !donor.transfer;
}

int memory_loader_donor_add(struct memory_loader *loader, const char *name,
			    const struct sockaddr_storage *address)
{
	(void)loader;
	(void)name;
	(void)address;
	return 0;
}

void memory_loader_donor_remove(struct memory_loader *loader, uint32_t index)
{
	(void)loader;
	(void)index;
}

int memory_loader_donor_stats(struct memory_loader *loader, uint32_t index,
			      struct memory_reader_donor *stats)
{
	(void)loader;
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
	if (piece->donors[0] == FAR) {
		donor.far_asked++;
		return true;
	}
	return donor.lacks != UINT32_MAX &&
	       !memcmp(donor.samples[0]->image.manifest.chunks[donor.lacks].digest.bytes,
		       piece->digest, MEMORY_DIGEST_LEN);
}

/* A group; 0, or -ENOENT. */
static inline int answer_group(struct memory_transfer *transfer)
{
	int err = 0;

	for (; transfer->next < transfer->piece_count &&
	       transfer->pieces[transfer->next].group == transfer->done; transfer->next++) {
		const struct memory_piece *piece = &transfer->pieces[transfer->next];

		transfer->missing[transfer->next] = lacking(piece);
		if (!transfer->missing[transfer->next])
			answer_piece(piece);
		else if (transfer->partial)
			err = -ENOENT;
		else
			return -ENOENT;
	}
	if (err)
		return err;
	if (transfer->ops.group_done)
		transfer->ops.group_done(transfer->arg, transfer->done);
	transfer->done++;
	return 0;
}

static inline int on_answer(sd_event_source *source, void *arg)
{
	struct memory_load_progress progress = { .state = MEMORY_LOAD_DONE, .quiet = true };
	struct memory_transfer *transfer = arg;

	(void)source;
	if (transfer->cancelled)
		progress.err = -ECANCELED;
	else if (donor.silent)
		progress.err = transfer->partial ? -ENOENT : -ETIMEDOUT;
	donor.waited += progress.err == -ETIMEDOUT;
	while (!progress.err && transfer->done < transfer->allowed)
		progress.err = answer_group(transfer);
	if (!progress.err && transfer->done < transfer->group_count)
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

struct memory_transfer *memory_loader_load(struct memory_loader *loader,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN])
{
	struct memory_transfer *transfer = calloc(1, sizeof(*transfer));

	(void)loader;
	(void)reason;
	assert_true(!donor.transfer || donor.transfer->cancelled);
	transfer->before = donor.transfer;
	transfer->pieces = calloc(request->piece_count, sizeof(*transfer->pieces));
	memcpy(transfer->pieces, request->pieces,
	       request->piece_count * sizeof(*transfer->pieces));
	transfer->missing = calloc(request->piece_count, sizeof(*transfer->missing));
	transfer->partial = request->partial;
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

void memory_loader_shape(struct memory_loader *loader, uint32_t *lane_count,
			 uint32_t *segment_size)
{
	(void)loader;
	*lane_count = 1;
	*segment_size = 1U << 20;
}

struct memory_transfer *memory_loader_submit(struct memory_loader *loader, struct memory_load *load,
					     const struct memory_load_request *request,
					     const struct memory_transfer_ops *ops, void *arg,
					     char reason[MEMORY_REASON_LEN])
{
	memory_load_destroy(load);
	return memory_loader_load(loader, request, ops, arg, reason);
}

void memory_loader_cancel(struct memory_loader *loader, struct memory_transfer *transfer)
{
	(void)loader;
	transfer->cancelled = true;
	go_on(transfer);
}

void memory_loader_allow(struct memory_loader *loader, struct memory_transfer *transfer,
			 uint32_t groups)
{
	(void)loader;
	transfer->allowed = groups;
	go_on(transfer);
}

void memory_loader_extend(struct memory_loader *loader, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns)
{
	(void)loader;
	if (deadline_ns > transfer->deadline_ns)
		transfer->deadline_ns = deadline_ns;
	if (class < transfer->class)
		transfer->class = class;
}

void memory_loader_missing(struct memory_loader *loader, struct memory_transfer *transfer,
			   bool (*tell)(void *arg, const uint8_t *digest, const char *host,
					const char *reason),
			   void *arg)
{
	(void)loader;
	for (uint32_t i = 0; i < transfer->piece_count; i++)
		if ((i >= transfer->next || transfer->missing[i]) &&
		    !tell(arg, transfer->pieces[i].digest, "donor", "does not have it"))
			return;
}

#endif
