// SPDX-License-Identifier: GPL-2.0-or-later
#include "worker.h"

#include "turn.h"
#include "turns.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS_MAX 4
#define TOLD_TOGETHER 16 /* jobs that are over, while there are others to do */
#define DONE_MAX 64 /* in one turn of the loop */
#define AHEAD_MAX 16 /* jobs that begin before one in the background does */

TAILQ_HEAD(jobs, worker_job);

struct worker {
	pthread_t threads[THREADS_MAX];
	int thread_count;
	int news;
	sd_event_source *source;
	/*
	 * The loop's own: jobs that threads have not been given yet, and those that they have given
	 * back. A thread that has the lock may have lost its processor: the loop does not wait for
	 * it, but tries again in another turn.
	 */
	struct jobs added, told;
	sd_event_source *retry;
	/*
	 * So many jobs are waiting, or it is the end. Not a condition: to signal one can wait for
	 * those who were woken before and have not got a processor yet.
	 */
	sem_t wanted;
	pthread_cond_t finished; /* a job is over */
	pthread_mutex_t lock; /* everything below */
	struct jobs waiting;
	struct jobs background; /* those that wait too */
	unsigned int ahead; /* jobs that have begun in a row while one of these waited */
	struct jobs over;
	unsigned int untold; /* of these, the loop does not know yet */
	bool stopping;
};

static struct jobs *queue_of(struct worker *worker, const struct worker_job *job)
{
	return job->background ? &worker->background : &worker->waiting;
}

/* Under the lock. NULL: none waits. */
static struct worker_job *take(struct worker *worker)
{
	struct worker_job *job = TAILQ_FIRST(&worker->waiting);
	struct worker_job *behind = TAILQ_FIRST(&worker->background);

	if (behind && (!job || worker->ahead == AHEAD_MAX))
		job = behind;
	if (!job)
		return NULL;
	TAILQ_REMOVE(queue_of(worker, job), job, link);
	worker->ahead = behind && job != behind ? worker->ahead + 1 : 0;
	job->state = WORKER_WORKING;
	return job;
}

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
	bool stop;

	for (;;) {
		while (sem_wait(&worker->wanted))
			; /* a signal */
		pthread_mutex_lock(&worker->lock);
		stop = worker->stopping;
		job = stop ? NULL : take(worker);
		pthread_mutex_unlock(&worker->lock);
		if (stop)
			return NULL;
		/* One that was cancelled has been counted. */
		if (!job)
			continue;
		job->work(job);
		finish(worker, job);
	}
}

/* Under the lock: what either side has for the other. */
static void exchange(struct worker *worker)
{
	struct worker_job *job;

	while ((job = TAILQ_FIRST(&worker->added))) {
		TAILQ_REMOVE(&worker->added, job, link);
		TAILQ_INSERT_TAIL(queue_of(worker, job), job, link);
		sem_post(&worker->wanted);
	}
	TAILQ_CONCAT(&worker->told, &worker->over, link);
}

static bool try_exchange(struct worker *worker)
{
	if (pthread_mutex_trylock(&worker->lock))
		return false;
	exchange(worker);
	pthread_mutex_unlock(&worker->lock);
	return true;
}

static int on_news(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct worker *worker = arg;
	struct worker_job *job;
	eventfd_t count;
	bool more;

	(void)source;
	(void)revents;
	turns_name("work done");
	eventfd_read(fd, &count);
	more = !try_exchange(worker);
	for (int i = 0; i < DONE_MAX && (job = TAILQ_FIRST(&worker->told)); i++) {
		TAILQ_REMOVE(&worker->told, job, link);
		job->done(job, false);
	}
	if (more || !TAILQ_EMPTY(&worker->told))
		eventfd_write(fd, 1);
	return 0;
}

static int on_retry(sd_event_source *source, uint64_t us, void *arg)
{
	struct worker *worker = arg;

	(void)us;
	turns_name("work");
	return sd_event_source_set_enabled(source, try_exchange(worker) ? SD_EVENT_OFF :
									  SD_EVENT_ON);
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
	TAILQ_INIT(&worker->added);
	TAILQ_INIT(&worker->told);
	TAILQ_INIT(&worker->waiting);
	TAILQ_INIT(&worker->background);
	TAILQ_INIT(&worker->over);
	pthread_mutex_init(&worker->lock, NULL);
	sem_init(&worker->wanted, 0, 0);
	pthread_cond_init(&worker->finished, NULL);
	worker->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = worker->news < 0 ? -errno : 0;
	if (!err)
		err = sd_event_add_io(loop, &worker->source, worker->news, EPOLLIN, on_news,
				      worker);
	if (err >= 0)
		err = turn_begin(loop, &worker->retry, on_retry, worker);
	if (err >= 0)
		err = sd_event_source_set_enabled(worker->retry, SD_EVENT_OFF);
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
	pthread_mutex_unlock(&worker->lock);
	for (int i = 0; i < worker->thread_count; i++)
		sem_post(&worker->wanted);
	for (int i = 0; i < worker->thread_count; i++)
		pthread_join(worker->threads[i], NULL);
	/* done() of one may add another. */
	do {
		exchange(worker);
		drop(&worker->told);
		drop(&worker->waiting);
		drop(&worker->background);
	} while (!TAILQ_EMPTY(&worker->added));
	sd_event_source_disable_unref(worker->retry);
	sd_event_source_disable_unref(worker->source);
	sem_destroy(&worker->wanted);
	pthread_cond_destroy(&worker->finished);
	pthread_mutex_destroy(&worker->lock);
	if (worker->news >= 0)
		close(worker->news);
	free(worker);
}

void worker_add(struct worker *worker, struct worker_job *job)
{
	job->state = WORKER_WAITING;
	TAILQ_INSERT_TAIL(&worker->added, job, link);
	if (!try_exchange(worker))
		sd_event_source_set_enabled(worker->retry, SD_EVENT_ON);
	else if (!TAILQ_EMPTY(&worker->told))
		eventfd_write(worker->news, 1);
}

void worker_cancel(struct worker *worker, struct worker_job *job)
{
	pthread_mutex_lock(&worker->lock);
	exchange(worker);
	while (job->state == WORKER_WORKING)
		pthread_cond_wait(&worker->finished, &worker->lock);
	exchange(worker);
	TAILQ_REMOVE(job->state == WORKER_WAITING ? queue_of(worker, job) : &worker->told, job,
		     link);
	if (!TAILQ_EMPTY(&worker->told))
		eventfd_write(worker->news, 1);
	pthread_mutex_unlock(&worker->lock);
}
