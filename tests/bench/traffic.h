/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Requests that arrive at random and do not wait for each other: a Poisson
 * process from a seed, so that what is compared gets the very same arrivals. A
 * request is one job or several, in one of many queues of a vgpu, so that requests have
 * no order but the policy's. The kernel is told that they are requests or not. Its latency counts from when it was to arrive, however
 * late it was submitted, until who waits for it has woken up.
 */
#ifndef BENCH_TRAFFIC_H
#define BENCH_TRAFFIC_H

#include <sys/eventfd.h>
#include <unistd.h>

#include "lane.h"

#define TRAFFIC_TICK_NS 10000
#define TRAFFIC_SLOTS	64 /* queues; requests beyond that wait behind another one */

/* Request i is number i / TRAFFIC_SLOTS of slot i % TRAFFIC_SLOTS. */
struct traffic_slot {
	struct distmind_queue *queue;
	struct distmind_timeline *timeline; /* how many of its requests are done */
	uint64_t submitted;		    /* the submitter's */
	uint64_t seen;			    /* how many are done, the waiter's */
};

struct traffic {
	uint32_t blocks; /* of a job */
	uint64_t block_ns;
	uint32_t jobs;	      /* of a request; 0 is 1 */
	bool marked;	      /* the kernel is told what is one request */
	uint64_t first_id;    /* of which these are numbered from here on */
	uint64_t deadline_ns; /* and that it should be done so long after its arrival, if not 0 */
	struct client *client;
	uint64_t begin_ns; /* of the arrivals, on the clock of now_ns() */

	/* What follows belongs to traffic_*(). */
	uint32_t count;
	uint64_t *arrival; /* from begin_ns on */
	double *latency;   /* in seconds */
	struct traffic_slot slots[TRAFFIC_SLOTS];
	int done; /* eventfd: some are */
	pthread_t submitter, waiter;
};

static inline uint64_t traffic_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	/* splitmix64 */
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline void traffic_open_slots(struct traffic *traffic)
{
	struct distmind_vgpu *vgpu = traffic->client->vgpu;

	traffic->done = eventfd(0, EFD_CLOEXEC);
	if (traffic->done < 0)
		bench_die("eventfd: %s", strerror(errno));
	for (int i = 0; i < TRAFFIC_SLOTS; i++) {
		struct traffic_slot *slot = &traffic->slots[i];

		*slot = (struct traffic_slot){ 0 };
		must(distmind_queue_create(vgpu, DISTMIND_LANE_COMPUTE, 1024, &slot->queue),
		     "create a queue");
		must(distmind_timeline_create(vgpu, 0, &slot->timeline), "create a timeline");
	}
}

static inline uint32_t traffic_jobs(const struct traffic *traffic)
{
	return traffic->jobs ? traffic->jobs : 1;
}

/*
 * Requests that keep the lane busy for the given part of the time. In each tick
 * one arrives or not: as good as a Poisson process while ticks are short.
 */
static inline void traffic_open(struct traffic *traffic, double load, uint64_t duration_ns,
				uint64_t seed)
{
	uint64_t work_ns = traffic_jobs(traffic) * traffic->blocks * traffic->block_ns;
	double chance = load * TRAFFIC_TICK_NS / work_ns;
	uint64_t ticks = duration_ns / TRAFFIC_TICK_NS;
	uint64_t below = (uint64_t)(chance * 18446744073709551615.0);

	traffic_open_slots(traffic);
	traffic->count = 0;
	traffic->arrival = calloc(ticks, sizeof(*traffic->arrival));
	if (!traffic->arrival)
		bench_die("out of memory");
	for (uint64_t i = 0; i < ticks; i++) {
		if (traffic_random(&seed) < below)
			traffic->arrival[traffic->count++] = i * TRAFFIC_TICK_NS;
	}
	traffic->latency = calloc(traffic->count, sizeof(*traffic->latency));
	if (!traffic->latency)
		bench_die("out of memory");
}

static inline void *traffic_submit(void *arg)
{
	struct traffic *traffic = arg;
	struct distmind_batch *batch = traffic->client->batch;

	prctl(PR_SET_TIMERSLACK, 1UL);
	for (uint32_t i = 0; i < traffic->count; i++) {
		struct traffic_slot *slot = &traffic->slots[i % TRAFFIC_SLOTS];

		uint64_t arrival = traffic->begin_ns + traffic->arrival[i];
		struct distmind_request request = { .id = traffic->first_id + i + 1,
						    .last = true };

		sleep_until(arrival);
		for (uint32_t job = 0; job < traffic_jobs(traffic); job++) {
			distmind_batch_launch(batch, LANE_OP_REST, traffic->blocks);
			distmind_batch_number(batch, traffic->block_ns);
		}
		if (traffic->deadline_ns)
			request.deadline_ns = arrival + traffic->deadline_ns;
		if (traffic->marked)
			distmind_batch_request(batch, &request);
		distmind_batch_signal(batch, slot->timeline, ++slot->submitted);
		must(distmind_queue_submit(slot->queue, batch, NULL), "submit");
		must(distmind_timeline_watch(slot->timeline, slot->submitted, traffic->done),
		     "watch");
		distmind_batch_clear(batch);
	}
	return NULL;
}

static inline uint32_t traffic_look(struct traffic *traffic)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < TRAFFIC_SLOTS; i++) {
		struct traffic_slot *slot = &traffic->slots[i];
		uint64_t value = distmind_timeline_value(slot->timeline);

		for (; slot->seen < value; slot->seen++) {
			uint64_t request = slot->seen * TRAFFIC_SLOTS + i;
			uint64_t arrival = traffic->begin_ns + traffic->arrival[request];

			traffic->latency[request] = (now_ns() - arrival) * 1e-9;
			done++;
		}
	}
	return done;
}

static inline void *traffic_wait(void *arg)
{
	struct traffic *traffic = arg;
	uint32_t done = 0;
	uint64_t events;

	while (done < traffic->count) {
		if (read(traffic->done, &events, sizeof(events)) != sizeof(events))
			bench_die("eventfd: %s", strerror(errno));
		done += traffic_look(traffic);
	}
	return NULL;
}

static inline void traffic_start(struct traffic *traffic)
{
	must(-pthread_create(&traffic->waiter, NULL, traffic_wait, traffic), "start a thread");
	must(-pthread_create(&traffic->submitter, NULL, traffic_submit, traffic),
	     "start a thread");
}

/* All of them are done then. */
static inline void traffic_finish(struct traffic *traffic)
{
	pthread_join(traffic->submitter, NULL);
	pthread_join(traffic->waiter, NULL);
}

/* How many were done so long after the beginning. */
static inline uint32_t traffic_done(const struct traffic *traffic, uint64_t after_ns)
{
	uint32_t done = 0;

	for (uint32_t i = 0; i < traffic->count; i++)
		done += traffic->arrival[i] * 1e-9 + traffic->latency[i] <= after_ns * 1e-9;
	return done;
}

static inline void traffic_close(struct traffic *traffic)
{
	for (int i = 0; i < TRAFFIC_SLOTS; i++) {
		distmind_queue_destroy(traffic->slots[i].queue);
		distmind_timeline_destroy(traffic->slots[i].timeline);
	}
	close(traffic->done);
	free(traffic->arrival);
	free(traffic->latency);
}

#endif /* BENCH_TRAFFIC_H */
