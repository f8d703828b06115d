// SPDX-License-Identifier: GPL-2.0-or-later
#include "keep.h"

#include "../../common/clock.h"
#include "../common/log.h"
#include "../common/turns.h"

#include <errno.h>
#include <stdlib.h>

#define TURN_US 2000 /* of copying and hashing */

struct keep_job {
	struct manifest *manifest; /* a reference */
	const uint8_t *image;
	uint64_t load_us;
	uint32_t next; /* chunk */
	uint64_t bytes; /* that were kept */
	uint32_t refused, damaged;
	TAILQ_ENTRY(keep_job) link;
};

static void arm(struct keep *keep)
{
	bool work = !keep->loads && !TAILQ_EMPTY(&keep->jobs);

	sd_event_source_set_enabled(keep->turn, work ? SD_EVENT_ON : SD_EVENT_OFF);
}

static void end(struct keep *keep, struct keep_job *job)
{
	TAILQ_REMOVE(&keep->jobs, job, link);
	manifest_put(job->manifest);
	free(job);
	arm(keep);
}

static void log_end(struct keep *keep, const struct keep_job *job)
{
	struct cache_stats stats;

	cache_stats(keep->cache, &stats);
	log_debug("chunks-cached", LOG_S("model", job->manifest->model.name),
		  LOG_U("bytes", job->bytes), LOG_U("refused", job->refused),
		  LOG_U("all-bytes", stats.bytes), LOG_U("hits", stats.hits),
		  LOG_U("misses", stats.misses), LOG_U("evictions", stats.evictions));
	if (job->damaged)
		log_warning("weights-damaged", LOG_S("model", job->manifest->model.name),
			    LOG_U("chunks", job->damaged),
			    LOG_S("fix", "evict the model and load it with verify"));
}

static void keep_chunk(struct keep *keep, struct keep_job *job)
{
	const struct model_chunk *chunk = &job->manifest->model.chunks[job->next++];
	int err = cache_keep(keep->cache, chunk, job->image + chunk->offset, job->load_us,
			     clock_us());

	if (!err)
		job->bytes += chunk->size;
	job->refused += err == -ENOSPC;
	job->damaged += err == -EBADMSG;
}

static int on_turn(sd_event_source *source, void *arg)
{
	struct keep *keep = arg;
	struct keep_job *job = TAILQ_FIRST(&keep->jobs);
	uint64_t begin = clock_us();

	(void)source;
	turns_name("cache");
	while (job->next < job->manifest->model.chunk_count && clock_us() - begin < TURN_US)
		keep_chunk(keep, job);
	if (job->next == job->manifest->model.chunk_count) {
		log_end(keep, job);
		end(keep, job);
	}
	return 0;
}

int keep_open(struct keep *keep, sd_event *loop, struct cache *cache)
{
	int err;

	*keep = (struct keep){ .cache = cache };
	TAILQ_INIT(&keep->jobs);
	err = sd_event_add_defer(loop, &keep->turn, on_turn, keep);
	if (err >= 0)
		err = sd_event_source_set_priority(keep->turn, SD_EVENT_PRIORITY_IDLE);
	if (err < 0)
		return err;
	arm(keep);
	return 0;
}

void keep_close(struct keep *keep)
{
	if (!keep->turn)
		return;
	while (!TAILQ_EMPTY(&keep->jobs))
		end(keep, TAILQ_FIRST(&keep->jobs));
	sd_event_source_disable_unref(keep->turn);
	*keep = (struct keep){ 0 };
}

void keep_load_begins(struct keep *keep)
{
	keep->loads++;
	arm(keep);
}

void keep_load_ends(struct keep *keep)
{
	keep->loads--;
	arm(keep);
}

void keep_add(struct keep *keep, struct manifest *manifest, const uint8_t *image,
	      uint64_t load_us)
{
	struct keep_job *job = keep->cache ? calloc(1, sizeof(*job)) : NULL;

	if (!job)
		return;
	job->manifest = manifest_get(manifest);
	job->image = image;
	job->load_us = load_us;
	TAILQ_INSERT_TAIL(&keep->jobs, job, link);
	arm(keep);
}

void keep_drop(struct keep *keep, const uint8_t *image)
{
	struct keep_job *job;

	TAILQ_FOREACH(job, &keep->jobs, link)
		if (job->image == image)
			break;
	if (job)
		end(keep, job);
}
