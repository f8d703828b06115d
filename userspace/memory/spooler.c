// SPDX-License-Identifier: GPL-2.0-or-later
#include "spooler.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#define BATCH 256 /* stores that are waited for together */
#define BATCH_BYTES (64U << 20)
#define TOLD_TOGETHER 64 /* files that were restored */
#define DISPATCHED 256 /* jobs in one call */

enum kind { STORE, PROBE, REMOVE, RELOAD, RESTORE, COUNTED, RESTORED, RESTORE_ENDED };

struct job {
	enum kind kind;
	uint8_t digest[MEMORY_DIGEST_LEN]; /* of one to remove or to reload */
	const struct memory_chunk *chunk; /* to store */
	uint64_t length; /* to probe */
	void (*stored)(void *arg, int err); /* or probed */
	void *arg;
	int err;
	struct memory_spool_restored *restored; /* owned */
	struct memory_spool_count count;
	TAILQ_ENTRY(job) link;
};

TAILQ_HEAD(jobs, job);

struct memory_spooler {
	struct memory_spool *spool;
	struct memory_arena *arena;
	struct memory_spooler_ops ops;
	void *arg;
	pthread_t thread;
	int news;
	pthread_cond_t wanted; /* there is work, or an end */
	pthread_mutex_t lock; /* everything below */
	struct jobs waiting;
	struct jobs over; /* to tell the owner of */
	unsigned int untold; /* restored ones that it has not been woken for */
	bool stopping;
	/* The thread's, while it runs: */
	struct memory_spool_scan *scan; /* NULL: there is nothing to restore */
	struct job *restore; /* what that was asked for by; owned */
	struct job *counting; /* NULL: its files have been counted; owned */
};

/*
 * Takes stores that follow each other, or one of the others; none if all that there is to do is to
 * restore. False: it is the end.
 */
static bool take(struct memory_spooler *spooler, struct jobs *batch, size_t *count)
{
	struct job *job;
	uint64_t bytes = 0;
	bool go_on;

	*count = 0;
	TAILQ_INIT(batch);
	pthread_mutex_lock(&spooler->lock);
	while (!spooler->stopping && !spooler->scan && TAILQ_EMPTY(&spooler->waiting))
		pthread_cond_wait(&spooler->wanted, &spooler->lock);
	go_on = !spooler->stopping;
	while (go_on && *count < BATCH && bytes < BATCH_BYTES &&
	       (job = TAILQ_FIRST(&spooler->waiting))) {
		if (job->kind != STORE && *count)
			break;
		TAILQ_REMOVE(&spooler->waiting, job, link);
		TAILQ_INSERT_TAIL(batch, job, link);
		++*count;
		if (job->kind != STORE)
			break;
		bytes += job->chunk->length;
	}
	pthread_mutex_unlock(&spooler->lock);
	return go_on;
}

static void store(struct memory_spooler *spooler, struct jobs *batch, size_t count)
{
	struct memory_spool_item stores[BATCH];
	struct job *job;
	size_t i = 0;

	TAILQ_FOREACH(job, batch, link)
		stores[i++] = (struct memory_spool_item){ .chunk = job->chunk };
	memory_spool_store(spooler->spool, stores, count);
	i = 0;
	TAILQ_FOREACH(job, batch, link)
		job->err = stores[i++].err;
	pthread_mutex_lock(&spooler->lock);
	TAILQ_CONCAT(&spooler->over, batch, link);
	pthread_mutex_unlock(&spooler->lock);
	eventfd_write(spooler->news, 1);
}

static void tell_restored(struct memory_spooler *spooler, struct job *job)
{
	bool tell;

	pthread_mutex_lock(&spooler->lock);
	TAILQ_INSERT_TAIL(&spooler->over, job, link);
	tell = ++spooler->untold >= TOLD_TOGETHER || job->kind != RESTORED;
	if (tell)
		spooler->untold = 0;
	pthread_mutex_unlock(&spooler->lock);
	if (tell)
		eventfd_write(spooler->news, 1);
}

static void end_restore(struct memory_spooler *spooler, int err)
{
	struct job *job = spooler->restore;

	memory_spool_scan_close(spooler->scan);
	free(spooler->counting);
	spooler->scan = NULL;
	spooler->counting = spooler->restore = NULL;
	memory_arena_reserve(spooler->arena, err ? UINT64_MAX : 0);
	job->kind = RESTORE_ENDED;
	job->err = err;
	tell_restored(spooler, job);
}

static void begin_restore(struct memory_spooler *spooler, struct job *job)
{
	int err;

	spooler->restore = job;
	spooler->counting = calloc(1, sizeof(*spooler->counting));
	err = spooler->counting ? memory_spool_scan_open(spooler->spool, &spooler->scan) : -ENOMEM;
	if (err)
		end_restore(spooler, err);
}

static void count_some(struct memory_spooler *spooler)
{
	struct job *job = spooler->counting;
	int ret = memory_spool_scan_count(spooler->scan, spooler->arena, &job->count);

	if (ret < 0)
		end_restore(spooler, ret);
	if (ret)
		return;
	memory_arena_reserve(spooler->arena, job->count.bytes);
	spooler->counting = NULL;
	job->kind = COUNTED;
	tell_restored(spooler, job);
}

static void restore_one(struct memory_spooler *spooler)
{
	struct job *job = calloc(1, sizeof(*job));
	int ret;

	if (job)
		job->restored = malloc(sizeof(*job->restored));
	if (!job || !job->restored) {
		free(job);
		end_restore(spooler, -ENOMEM);
		return;
	}
	job->kind = RESTORED;
	ret = memory_spool_scan_step(spooler->scan, spooler->arena, job->restored);
	if (ret > 0) {
		tell_restored(spooler, job);
		return;
	}
	free(job->restored);
	free(job);
	end_restore(spooler, ret);
}

static void tell(struct memory_spooler *spooler, struct job *job)
{
	pthread_mutex_lock(&spooler->lock);
	TAILQ_INSERT_TAIL(&spooler->over, job, link);
	pthread_mutex_unlock(&spooler->lock);
	eventfd_write(spooler->news, 1);
}

static void reload(struct memory_spooler *spooler, struct job *job)
{
	memory_spool_reload(spooler->spool, spooler->arena, job->digest, job->restored);
	job->kind = RESTORED;
	tell(spooler, job);
}

static void probe(struct memory_spooler *spooler, struct job *job)
{
	job->err = memory_spool_probe(spooler->spool, job->length);
	tell(spooler, job);
}

static void *work(void *arg)
{
	struct memory_spooler *spooler = arg;
	struct jobs batch;
	struct job *job;
	size_t count;

	while (take(spooler, &batch, &count)) {
		job = TAILQ_FIRST(&batch);
		if (job && job->kind == REMOVE) {
			memory_spool_remove(spooler->spool, job->digest);
			free(job);
		} else if (job && job->kind == RELOAD) {
			reload(spooler, job);
		} else if (job && job->kind == RESTORE) {
			begin_restore(spooler, job);
		} else if (job && job->kind == PROBE) {
			probe(spooler, job);
		} else if (job) {
			store(spooler, &batch, count);
		}
		if (spooler->counting)
			count_some(spooler);
		else if (spooler->scan)
			restore_one(spooler);
	}
	return NULL;
}

static void dismantle(struct memory_spooler *spooler)
{
	memory_spool_scan_close(spooler->scan);
	free(spooler->counting);
	free(spooler->restore);
	pthread_cond_destroy(&spooler->wanted);
	pthread_mutex_destroy(&spooler->lock);
	if (spooler->news >= 0)
		close(spooler->news);
	free(spooler);
}

int memory_spooler_open(struct memory_spooler **result, struct memory_spool *spool,
			struct memory_arena *arena, const struct memory_spooler_ops *ops, void *arg)
{
	struct memory_spooler *spooler = calloc(1, sizeof(*spooler));
	int err;

	if (!spooler)
		return -ENOMEM;
	spooler->spool = spool;
	spooler->arena = arena;
	spooler->ops = *ops;
	spooler->arg = arg;
	TAILQ_INIT(&spooler->waiting);
	TAILQ_INIT(&spooler->over);
	pthread_mutex_init(&spooler->lock, NULL);
	pthread_cond_init(&spooler->wanted, NULL);
	spooler->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = spooler->news < 0 ? -errno : 0;
	if (!err)
		err = -pthread_create(&spooler->thread, NULL, work, spooler);
	if (err) {
		dismantle(spooler);
		return err;
	}
	*result = spooler;
	return 0;
}

void memory_spooler_stop(struct memory_spooler *spooler)
{
	pthread_mutex_lock(&spooler->lock);
	spooler->stopping = true;
	pthread_cond_signal(&spooler->wanted);
	pthread_mutex_unlock(&spooler->lock);
}

static void job_free(struct job *job)
{
	free(job->restored);
	free(job);
}

static void drop(struct jobs *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs))) {
		TAILQ_REMOVE(jobs, job, link);
		job_free(job);
	}
}

void memory_spooler_close(struct memory_spooler *spooler)
{
	if (!spooler)
		return;
	memory_spooler_stop(spooler);
	pthread_join(spooler->thread, NULL);
	drop(&spooler->waiting);
	drop(&spooler->over);
	dismantle(spooler);
}

int memory_spooler_fd(const struct memory_spooler *spooler)
{
	return spooler->news;
}

void memory_spooler_dispatch(struct memory_spooler *spooler)
{
	eventfd_t count;
	struct job *job;

	eventfd_read(spooler->news, &count);
	for (int i = 0; i < DISPATCHED; i++) {
		pthread_mutex_lock(&spooler->lock);
		job = spooler->stopping ? NULL : TAILQ_FIRST(&spooler->over);
		if (job)
			TAILQ_REMOVE(&spooler->over, job, link);
		pthread_mutex_unlock(&spooler->lock);
		if (!job)
			return;
		if (job->kind == STORE || job->kind == PROBE)
			job->stored(job->arg, job->err);
		else if (job->kind == COUNTED)
			spooler->ops.counted(spooler->arg, &job->count);
		else if (job->kind == RESTORED)
			spooler->ops.restored(spooler->arg, job->restored);
		else
			spooler->ops.restore_ended(spooler->arg, job->err);
		job_free(job);
		if (spooler->ops.over && spooler->ops.over())
			break;
	}
	eventfd_write(spooler->news, 1);
}

static void queue(struct memory_spooler *spooler, struct job *job)
{
	pthread_mutex_lock(&spooler->lock);
	TAILQ_INSERT_TAIL(&spooler->waiting, job, link);
	pthread_cond_signal(&spooler->wanted);
	pthread_mutex_unlock(&spooler->lock);
}

int memory_spooler_restore(struct memory_spooler *spooler)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->kind = RESTORE;
	memory_arena_reserve(spooler->arena, UINT64_MAX);
	queue(spooler, job);
	return 0;
}

int memory_spooler_store(struct memory_spooler *spooler, const struct memory_chunk *chunk,
			 void (*stored)(void *arg, int err), void *arg)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->kind = STORE;
	job->chunk = chunk;
	job->stored = stored;
	job->arg = arg;
	queue(spooler, job);
	return 0;
}

int memory_spooler_probe(struct memory_spooler *spooler, uint64_t length,
			 void (*probed)(void *arg, int err), void *arg)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	job->kind = PROBE;
	job->length = length;
	job->stored = probed;
	job->arg = arg;
	queue(spooler, job);
	return 0;
}

int memory_spooler_reload(struct memory_spooler *spooler,
			  const uint8_t digest[MEMORY_DIGEST_LEN])
{
	struct job *job = calloc(1, sizeof(*job));

	if (job)
		job->restored = malloc(sizeof(*job->restored));
	if (!job || !job->restored) {
		free(job);
		return -ENOMEM;
	}
	job->kind = RELOAD;
	memcpy(job->digest, digest, MEMORY_DIGEST_LEN);
	queue(spooler, job);
	return 0;
}

void memory_spooler_remove(struct memory_spooler *spooler,
			   const uint8_t digest[MEMORY_DIGEST_LEN])
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return;
	job->kind = REMOVE;
	memcpy(job->digest, digest, MEMORY_DIGEST_LEN);
	queue(spooler, job);
}
