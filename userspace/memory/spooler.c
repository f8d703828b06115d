// SPDX-License-Identifier: GPL-2.0-or-later
#include "spooler.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

struct job {
	uint8_t digest[MEMORY_DIGEST_LEN];
	const struct memory_chunk *chunk; /* to store; NULL: the file goes */
	void (*stored)(void *arg, int err);
	void *arg;
	int err;
	TAILQ_ENTRY(job) link;
};

TAILQ_HEAD(jobs, job);

struct memory_spooler {
	struct memory_spool *spool;
	pthread_t thread;
	int news;
	pthread_cond_t wanted; /* there is work, or an end */
	pthread_mutex_t lock; /* everything below */
	struct jobs waiting;
	struct jobs over; /* stores only */
	bool stopping;
};

/* NULL: it is the end. */
static struct job *next_job(struct memory_spooler *spooler)
{
	struct job *job = NULL;

	pthread_mutex_lock(&spooler->lock);
	while (!spooler->stopping && TAILQ_EMPTY(&spooler->waiting))
		pthread_cond_wait(&spooler->wanted, &spooler->lock);
	if (!spooler->stopping) {
		job = TAILQ_FIRST(&spooler->waiting);
		TAILQ_REMOVE(&spooler->waiting, job, link);
	}
	pthread_mutex_unlock(&spooler->lock);
	return job;
}

static void *work(void *arg)
{
	struct memory_spooler *spooler = arg;
	struct job *job;

	while ((job = next_job(spooler))) {
		if (!job->chunk) {
			memory_spool_remove(spooler->spool, job->digest);
			free(job);
			continue;
		}
		job->err = memory_spool_store(spooler->spool, job->digest, job->chunk->data,
					      job->chunk->length);
		pthread_mutex_lock(&spooler->lock);
		TAILQ_INSERT_TAIL(&spooler->over, job, link);
		pthread_mutex_unlock(&spooler->lock);
		eventfd_write(spooler->news, 1);
	}
	return NULL;
}

static void dismantle(struct memory_spooler *spooler)
{
	pthread_cond_destroy(&spooler->wanted);
	pthread_mutex_destroy(&spooler->lock);
	if (spooler->news >= 0)
		close(spooler->news);
	free(spooler);
}

int memory_spooler_open(struct memory_spooler **result, struct memory_spool *spool)
{
	struct memory_spooler *spooler = calloc(1, sizeof(*spooler));
	int err = 0;

	if (!spooler)
		return -ENOMEM;
	spooler->spool = spool;
	TAILQ_INIT(&spooler->waiting);
	TAILQ_INIT(&spooler->over);
	pthread_mutex_init(&spooler->lock, NULL);
	pthread_cond_init(&spooler->wanted, NULL);
	spooler->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (spooler->news < 0)
		err = -errno;
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

static void drop(struct jobs *jobs)
{
	struct job *job;

	while ((job = TAILQ_FIRST(jobs))) {
		TAILQ_REMOVE(jobs, job, link);
		free(job);
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
	struct jobs over = TAILQ_HEAD_INITIALIZER(over);
	eventfd_t count;
	struct job *job;

	eventfd_read(spooler->news, &count);
	pthread_mutex_lock(&spooler->lock);
	if (!spooler->stopping)
		TAILQ_CONCAT(&over, &spooler->over, link);
	pthread_mutex_unlock(&spooler->lock);
	while ((job = TAILQ_FIRST(&over))) {
		TAILQ_REMOVE(&over, job, link);
		job->stored(job->arg, job->err);
		free(job);
	}
}

static void queue(struct memory_spooler *spooler, struct job *job)
{
	pthread_mutex_lock(&spooler->lock);
	TAILQ_INSERT_TAIL(&spooler->waiting, job, link);
	pthread_cond_signal(&spooler->wanted);
	pthread_mutex_unlock(&spooler->lock);
}

int memory_spooler_store(struct memory_spooler *spooler, const struct memory_chunk *chunk,
			 void (*stored)(void *arg, int err), void *arg)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	memcpy(job->digest, chunk->digest, MEMORY_DIGEST_LEN);
	job->chunk = chunk;
	job->stored = stored;
	job->arg = arg;
	queue(spooler, job);
	return 0;
}

void memory_spooler_remove(struct memory_spooler *spooler,
			   const uint8_t digest[MEMORY_DIGEST_LEN])
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return;
	memcpy(job->digest, digest, MEMORY_DIGEST_LEN);
	queue(spooler, job);
}
