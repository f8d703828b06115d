// SPDX-License-Identifier: GPL-2.0-or-later
#include "audit.h"

#include "../common/turn.h"
#include "../common/turns.h"

#include <errno.h>
#include <stdlib.h>

#define TURN_BYTES (4U << 20)

struct audit {
	const struct model_manifest *manifest;
	const uint8_t *image;
	uint32_t next; /* chunk */
	sd_event_source *turn;
	void (*done)(void *arg, int err);
	void *arg;
};

void audit_cancel(struct audit *audit)
{
	if (!audit)
		return;
	sd_event_source_disable_unref(audit->turn);
	free(audit);
}

static int check(const struct audit *audit, const struct model_chunk *chunk)
{
	struct model_digest digest;
	int err = model_digest_make(audit->image + chunk->offset, chunk->size, &digest);

	return err ? err : model_digest_equal(&digest, &chunk->digest) ? 0 : -EBADMSG;
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct audit *audit = arg;
	const struct model_manifest *manifest = audit->manifest;
	void (*done)(void *arg, int err) = audit->done;
	uint64_t bytes = 0;
	int err = 0;

	(void)source;
	(void)us;
	turns_name("load: verify");
	while (!err && audit->next < manifest->chunk_count && bytes < TURN_BYTES) {
		const struct model_chunk *chunk = &manifest->chunks[audit->next++];

		err = check(audit, chunk);
		bytes += chunk->size;
	}
	if (!err && audit->next < manifest->chunk_count)
		return 0;
	arg = audit->arg;
	audit_cancel(audit);
	done(arg, err);
	return 0;
}

struct audit *audit_begin(sd_event *loop, const struct model_manifest *manifest,
			  const uint8_t *image, void (*done)(void *arg, int err), void *arg,
			  int *err)
{
	struct audit *audit = calloc(1, sizeof(*audit));

	*err = -ENOMEM;
	if (!audit)
		return NULL;
	audit->manifest = manifest;
	audit->image = image;
	audit->done = done;
	audit->arg = arg;
	*err = turn_begin(loop, &audit->turn, on_turn, audit);
	if (!*err)
		return audit;
	audit_cancel(audit);
	return NULL;
}
