// SPDX-License-Identifier: GPL-2.0-or-later
#include "audit.h"

#include <errno.h>
#include <stdlib.h>

#define STEP_BYTES (1U << 20) /* between two looks whether it was cancelled, and a chunk at most */

struct audit {
	struct worker_job job;
	struct worker *worker; /* NULL: it is gone, and nobody works at this any more */
	_Atomic bool cancelled; /* the loop's; the thread looks at it */
	const struct model_manifest *manifest;
	const uint8_t *image;
	uint32_t next; /* chunk */
	int err;
	void (*done)(void *arg, int err);
	void *arg;
};

static int check(const struct audit *audit, const struct model_chunk *chunk)
{
	struct model_digest digest;
	int err = model_digest_make(audit->image + chunk->offset, chunk->size, &digest);

	return err ? err : model_digest_equal(&digest, &chunk->digest) ? 0 : -EBADMSG;
}

static void step(struct worker_job *job)
{
	struct audit *audit = (struct audit *)job;
	const struct model_manifest *manifest = audit->manifest;
	uint64_t bytes = 0;

	while (!audit->err && !audit->cancelled && audit->next < manifest->chunk_count && bytes < STEP_BYTES) {
		const struct model_chunk *chunk = &manifest->chunks[audit->next++];

		audit->err = check(audit, chunk);
		bytes += chunk->size;
	}
}

static void stepped(struct worker_job *job, bool dropped)
{
	struct audit *audit = (struct audit *)job;
	void (*done)(void *arg, int err) = audit->done;
	void *arg = audit->arg;
	int err = audit->cancelled ? -ECANCELED : audit->err;

	if (dropped && !audit->cancelled) {
		audit->worker = NULL;
		return;
	}
	if (!err && audit->next < audit->manifest->chunk_count) {
		worker_add(audit->worker, job);
		return;
	}
	free(audit);
	done(arg, err);
}

bool audit_cancel(struct audit *audit)
{
	if (!audit)
		return true;
	audit->cancelled = true;
	if (audit->worker)
		return false;
	free(audit);
	return true;
}

struct audit *audit_begin(struct worker *worker, const struct model_manifest *manifest,
			  const uint8_t *image, void (*done)(void *arg, int err), void *arg)
{
	struct audit *audit = calloc(1, sizeof(*audit));

	if (!audit)
		return NULL;
	audit->job.work = step;
	audit->job.done = stepped;
	audit->worker = worker;
	audit->manifest = manifest;
	audit->image = image;
	audit->done = done;
	audit->arg = arg;
	worker_add(worker, &audit->job);
	return audit;
}
