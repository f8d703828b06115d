// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker.h"

#include "turns.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS_MAX 4
#define TOLD_TOGETHER 16 /* jobs that are over, while there are others to do */
#define DONE_MAX 64 /* in one turn of the loop */

TAILQ_HEAD(jobs, worker_job);

struct worker {
	pthread_t threads[THREADS_MAX];
	int thread_count;
	int news;
	sd_event_source *source;
	pthread_cond_t wanted; /* there is work, or an end */
	pthread_cond_t finished; /* a job is over */
	pthread_mutex_t lock; /* everything below */
	struct jobs waiting;
	struct jobs over;
	unsigned int untold; /* of these, the loop does not know yet */
	bool stopping;
};

/* Waking the loop costs more than a small job, so it is told of several together. */
static void finish(struct worker *worker, struct worker_job *job)
{
	bool tell;

	pthread_mutex_lock(&worker->lock);
	job->state = WORKER_OVER;
	TAILQ_INSERT_TAIL(&worker->over, job, link);
	pthread_cond_broadcast(&worker->finished);
	worker->untold++;
	tell = TAILQ_EMPTY(&worker->waiting) || worker->untold >= TOLD_TOGETHER;
	if (tell)
		worker->untold = 0;
	pthread_mutex_unlock(&worker->lock);
	if (tell)
		eventfd_write(worker->news, 1);
}

static void *run(void *arg)
{
	struct worker *worker = arg;
	struct worker_job *job;

	for (;;) {
		pthread_mutex_lock(&worker->lock);
		while (!worker->stopping && TAILQ_EMPTY(&worker->waiting))
			pthread_cond_wait(&worker->wanted, &worker->lock);
		job = worker->stopping ? NULL : TAILQ_FIRST(&worker->waiting);
		if (job) {
			TAILQ_REMOVE(&worker->waiting, job, link);
			job->state = WORKER_WORKING;
		}
		pthread_mutex_unlock(&worker->lock);
		if (!job)
			return NULL;
		job->work(job);
		finish(worker, job);
	}
}

static int on_news(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct worker *worker = arg;
	struct worker_job *job;
	eventfd_t count;

	(void)source;
	(void)revents;
	turns_name("work done");
	eventfd_read(fd, &count);
	for (int i = 0; i < DONE_MAX; i++) {
		pthread_mutex_lock(&worker->lock);
		job = TAILQ_FIRST(&worker->over);
		if (job)
			TAILQ_REMOVE(&worker->over, job, link);
		pthread_mutex_unlock(&worker->lock);
		if (!job)
			return 0;
		job->done(job, false);
	}
	eventfd_write(fd, 1);
	return 0;
}

static int start_threads(struct worker *worker)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int err;

	while (worker->thread_count < THREADS_MAX &&
	       (!worker->thread_count || worker->thread_count < processors)) {
		err = pthread_create(&worker->threads[worker->thread_count], NULL, run, worker);
		if (err)
			return worker->thread_count ? 0 : -err;
		worker->thread_count++;
	}
	return 0;
}

int worker_open(struct worker **result, sd_event *loop)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int err;

	if (!worker)
		return -ENOMEM;
	TAILQ_INIT(&worker->waiting);
	TAILQ_INIT(&worker->over);
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->wanted, NULL);
	pthread_cond_init(&worker->finished, NULL);
	worker->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = worker->news < 0 ? -errno : 0;
	if (!err)
		err = sd_event_add_io(loop, &worker->source, worker->news, EPOLLIN, on_news,
				      worker);
	if (err >= 0)
		err = start_threads(worker);
	if (err < 0) {
		worker_close(worker);
		return err;
	}
	*result = worker;
	return 0;
}

static void drop(struct jobs *jobs)
{
	struct worker_job *job;

	while ((job = TAILQ_FIRST(jobs))) {
		TAILQ_REMOVE(jobs, job, link);
		job->done(job, true);
	}
}

void worker_close(struct worker *worker)
{
	if (!worker)
		return;
	pthread_mutex_lock(&worker->lock);
	worker->stopping = true;
	pthread_cond_broadcast(&worker->wanted);
	pthread_mutex_unlock(&worker->lock);
	for (int i = 0; i < worker->thread_count; i++)
		pthread_join(worker->threads[i], NULL);
	drop(&worker->over);
	drop(&worker->waiting);
	sd_event_source_disable_unref(worker->source);
	pthread_cond_destroy(&worker->wanted);
	pthread_cond_destroy(&worker->finished);
	pthread_mutex_destroy(&worker->lock);
	if (worker->news >= 0)
		close(worker->news);
	free(worker);
}

void worker_add(struct worker *worker, struct worker_job *job)
{
	pthread_mutex_lock(&worker->lock);
	job->state = WORKER_WAITING;
	TAILQ_INSERT_TAIL(&worker->waiting, job, link);
	pthread_cond_signal(&worker->wanted);
	pthread_mutex_unlock(&worker->lock);
}

void worker_cancel(struct worker *worker, struct worker_job *job)
{
	pthread_mutex_lock(&worker->lock);
	while (job->state == WORKER_WORKING)
		pthread_cond_wait(&worker->finished, &worker->lock);
	TAILQ_REMOVE(job->state == WORKER_WAITING ? &worker->waiting : &worker->over, job, link);
	pthread_mutex_unlock(&worker->lock);
}
