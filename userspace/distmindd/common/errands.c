// SPDX-License-Identifier: GPL-2.0-or-later
#include "errands.h"

#include "turns.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define RETRY_US 100000

STAILQ_HEAD(queue, errand);

/*
 * There while it has an errand that is not done. Its thread ends when nothing is left to
 * run. Changed by the loop's thread, but for what the lock guards.
 */
struct payer {
	struct errands *errands;
	uint64_t id;
	unsigned int pending; /* errands that are not done */
	/* Under the lock: */
	struct queue waiting;
	struct queue ended; /* done() has not been called */
	bool running; /* it has a thread */
	LIST_ENTRY(payer) link;
};

struct errands {
	pthread_mutex_t lock;
	pthread_cond_t idle; /* a thread has ended */
	unsigned int threads; /* under the lock */
	bool closing; /* under the lock: no errand is begun any more */
	int event; /* some have ended */
	sd_event_source *source, *retry;
	LIST_HEAD(, payer) payers;
	/* For an errand whose payer could not be made: then it is everybody's. */
	struct payer common;
};

static void *run(void *arg)
{
	struct payer *payer = arg;
	struct errands *errands = payer->errands;
	struct errand *errand;

	pthread_mutex_lock(&errands->lock);
	while (!errands->closing && (errand = STAILQ_FIRST(&payer->waiting))) {
		STAILQ_REMOVE_HEAD(&payer->waiting, link);
		pthread_mutex_unlock(&errands->lock);
		errand->work(errand);
		pthread_mutex_lock(&errands->lock);
		STAILQ_INSERT_TAIL(&payer->ended, errand, link);
		pthread_mutex_unlock(&errands->lock);
		/* Without the lock, which the loop wants then. Full it is readable all the same. */
		eventfd_write(errands->event, 1);
		pthread_mutex_lock(&errands->lock);
	}
	payer->running = false;
	errands->threads--;
	pthread_cond_signal(&errands->idle);
	pthread_mutex_unlock(&errands->lock);
	return NULL;
}

/* Under the lock. False: there can be no thread now. */
static bool start(struct payer *payer)
{
	struct errands *errands = payer->errands;
	pthread_attr_t attributes;
	pthread_t thread;
	int err;

	if (payer->running || STAILQ_EMPTY(&payer->waiting))
		return true;
	err = pthread_attr_init(&attributes);
	if (err)
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	err = pthread_create(&thread, &attributes, run, payer);
	pthread_attr_destroy(&attributes);
	payer->running = !err;
	errands->threads += !err;
	return !err;
}

static void start_or_retry(struct payer *payer)
{
	struct errands *errands = payer->errands;
	bool started;

	pthread_mutex_lock(&errands->lock);
	started = start(payer);
	pthread_mutex_unlock(&errands->lock);
	if (started)
		return;
	sd_event_source_set_time_relative(errands->retry, RETRY_US);
	sd_event_source_set_enabled(errands->retry, SD_EVENT_ONESHOT);
}

static int on_retry(sd_event_source *source, uint64_t us, void *arg)
{
	struct errands *errands = arg;
	struct payer *payer;

	(void)source;
	(void)us;
	LIST_FOREACH(payer, &errands->payers, link)
		start_or_retry(payer);
	start_or_retry(&errands->common);
	return 0;
}

static void payer_init(struct payer *payer, struct errands *errands, uint64_t id)
{
	*payer = (struct payer){ .errands = errands, .id = id };
	STAILQ_INIT(&payer->waiting);
	STAILQ_INIT(&payer->ended);
}

/* done() may add others, also of this payer. */
static struct errand *next_ended(struct payer *payer)
{
	struct errand *errand;

	pthread_mutex_lock(&payer->errands->lock);
	errand = STAILQ_FIRST(&payer->ended);
	if (errand)
		STAILQ_REMOVE_HEAD(&payer->ended, link);
	pthread_mutex_unlock(&payer->errands->lock);
	return errand;
}

/* False: there is more, for the next turn. */
static bool finish(struct payer *payer)
{
	struct errand *errand;

	while ((errand = next_ended(payer))) {
		errand->done(errand);
		payer->pending--;
		if (turns_over())
			return false;
	}
	return true;
}

/* A thread that has run its last errand may not have ended yet. */
static bool is_over(struct payer *payer)
{
	bool over;

	pthread_mutex_lock(&payer->errands->lock);
	over = !payer->pending && !payer->running;
	pthread_mutex_unlock(&payer->errands->lock);
	return over;
}

static void finish_all(struct errands *errands)
{
	struct payer *payer, *next;
	bool all = finish(&errands->common);

	for (payer = LIST_FIRST(&errands->payers); payer && all; payer = next) {
		all = finish(payer);
		next = LIST_NEXT(payer, link);
		if (!is_over(payer))
			continue;
		LIST_REMOVE(payer, link);
		free(payer);
	}
	if (!all)
		eventfd_write(errands->event, 1);
}

static int on_ended(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	eventfd_t count;

	(void)source;
	(void)revents;
	turns_name("errands");
	eventfd_read(fd, &count);
	finish_all(arg);
	return 0;
}

struct errands *errands_open(sd_event *loop)
{
	struct errands *errands = calloc(1, sizeof(*errands));
	int err = ENOMEM;

	if (!errands)
		goto err_errno;
	pthread_mutex_init(&errands->lock, NULL);
	pthread_cond_init(&errands->idle, NULL);
	LIST_INIT(&errands->payers);
	payer_init(&errands->common, errands, ERRANDS_DAEMON);
	errands->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (errands->event < 0) {
		err = errno;
		goto err_free;
	}
	err = -sd_event_add_io(loop, &errands->source, errands->event, EPOLLIN, on_ended, errands);
	if (err <= 0)
		err = -sd_event_add_time(loop, &errands->retry, CLOCK_MONOTONIC, UINT64_MAX, 0,
					 on_retry, errands);
	if (err <= 0)
		err = -sd_event_source_set_enabled(errands->retry, SD_EVENT_OFF);
	if (err <= 0)
		return errands;
	sd_event_source_disable_unref(errands->source);
	sd_event_source_disable_unref(errands->retry);
	close(errands->event);
err_free:
	free(errands);
err_errno:
	errno = err;
	return NULL;
}

static struct timespec deadline(unsigned int ms)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	time.tv_sec += ms / 1000;
	time.tv_nsec += (long)(ms % 1000) * 1000000;
	if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

/* All threads have ended, or it takes too long. */
static bool wait_for_threads(struct errands *errands, const struct timespec *until)
{
	int err = 0;
	bool idle;

	pthread_mutex_lock(&errands->lock);
	while (errands->threads && !err)
		err = pthread_cond_timedwait(&errands->idle, &errands->lock, until);
	idle = !errands->threads;
	pthread_mutex_unlock(&errands->lock);
	return idle;
}

static bool passed(const struct timespec *until)
{
	struct timespec now = deadline(0);

	return now.tv_sec > until->tv_sec ||
	       (now.tv_sec == until->tv_sec && now.tv_nsec >= until->tv_nsec);
}

static bool is_empty(const struct errands *errands)
{
	return LIST_EMPTY(&errands->payers) && !errands->common.pending;
}

bool errands_drain(struct errands *errands, unsigned int ms)
{
	struct timespec until = deadline(ms);

	/* done() adds some at times, and there was no memory for a thread. */
	do {
		on_retry(errands->retry, 0, errands);
		if (wait_for_threads(errands, &until))
			finish_all(errands);
	} while (!is_empty(errands) && !passed(&until));
	return is_empty(errands);
}

bool errands_close(struct errands *errands, unsigned int ms)
{
	bool empty;

	if (!errands)
		return true;
	errands->source = sd_event_source_disable_unref(errands->source);
	empty = errands_drain(errands, ms);
	sd_event_source_disable_unref(errands->retry);
	if (!empty) {
		pthread_mutex_lock(&errands->lock);
		errands->closing = true;
		pthread_mutex_unlock(&errands->lock);
		finish_all(errands);
		return false;
	}
	close(errands->event);
	pthread_cond_destroy(&errands->idle);
	pthread_mutex_destroy(&errands->lock);
	free(errands);
	return true;
}

static struct payer *find(const struct errands *errands, uint64_t id)
{
	struct payer *payer;

	LIST_FOREACH(payer, &errands->payers, link)
		if (payer->id == id)
			break;
	return payer;
}

void errands_add(struct errands *errands, uint64_t id, struct errand *errand)
{
	struct payer *payer = find(errands, id);

	if (!payer) {
		payer = malloc(sizeof(*payer));
		if (payer) {
			payer_init(payer, errands, id);
			LIST_INSERT_HEAD(&errands->payers, payer, link);
		} else {
			payer = &errands->common;
		}
	}
	payer->pending++;
	pthread_mutex_lock(&errands->lock);
	if (!errand->work)
		STAILQ_INSERT_TAIL(&payer->ended, errand, link);
	else if (errand->first)
		STAILQ_INSERT_HEAD(&payer->waiting, errand, link);
	else
		STAILQ_INSERT_TAIL(&payer->waiting, errand, link);
	pthread_mutex_unlock(&errands->lock);
	if (errand->work)
		start_or_retry(payer);
	else
		eventfd_write(errands->event, 1);
}

/* Under the lock. */
static bool take_back(struct payer *payer, struct errand *errand)
{
	struct errand *one;

	STAILQ_FOREACH(one, &payer->waiting, link)
		if (one == errand)
			break;
	if (!one)
		return false;
	STAILQ_REMOVE(&payer->waiting, errand, errand, link);
	STAILQ_INSERT_TAIL(&payer->ended, errand, link);
	return true;
}

void errands_skip(struct errands *errands, uint64_t id, struct errand *errand)
{
	struct payer *payer = find(errands, id);
	bool taken;

	pthread_mutex_lock(&errands->lock);
	taken = (payer && take_back(payer, errand)) || take_back(&errands->common, errand);
	pthread_mutex_unlock(&errands->lock);
	if (taken)
		eventfd_write(errands->event, 1);
}

struct disposal {
	struct errand errand;
	int fd;
};

static void dispose(struct errand *errand)
{
	close(errand_in(errand, struct disposal, errand)->fd);
}

static void on_disposed(struct errand *errand)
{
	free(errand_in(errand, struct disposal, errand));
}

void errands_dispose(struct errands *errands, uint64_t payer, int fd)
{
	struct disposal *disposal = malloc(sizeof(*disposal));

	if (!disposal) {
		close(fd);
		return;
	}
	*disposal = (struct disposal){
		.errand = { .work = dispose, .done = on_disposed }, .fd = fd,
	};
	errands_add(errands, payer, &disposal->errand);
}

unsigned int errands_of(const struct errands *errands, uint64_t id)
{
	const struct payer *payer = find(errands, id);

	return payer ? payer->pending : 0;
}
