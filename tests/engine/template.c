// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The smallest complete engine: one compute lane that understands one operation,
 * and one copy lane. A start for an engine of your own; see docs/engine.md.
 *
 *   template NAME
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/distmind.h>

#define HEAP	  (16UL << 20)
#define LANES	  2
#define BLOCK	  4096 /* bytes that the operation fills between two looks */
#define OP_FILL	  1    /* arguments: a range, a byte */

static int engine;
static char *heap;
static const char *pages;
static size_t page_size;

static int asked_to_yield(const struct distmind_lane_page *page)
{
	return __atomic_load_n(&page->yield, __ATOMIC_RELAXED);
}

/*
 * Each runs the job from *cookie on and returns the status to hand back. The
 * kernel has checked ranges, we check everything else.
 */

static int run_fill(const struct distmind_engine_job *job, const struct distmind_lane_page *page,
		    __u64 *cookie)
{
	const struct distmind_engine_arg *range = &job->arg[0], *byte = &job->arg[1];

	if (job->args != 2 || !range->length || byte->length || byte->value > 255 ||
	    job->blocks != (range->length + BLOCK - 1) / BLOCK)
		return -EINVAL;
	while (*cookie < job->blocks) {
		__u64 at = *cookie * BLOCK;
		__u64 left = range->length - at;

		memset(heap + range->value + at, (int)byte->value, left < BLOCK ? left : BLOCK);
		++*cookie;
		if (*cookie < job->blocks && asked_to_yield(page))
			return DISTMIND_DONE_YIELDED;
	}
	return 0;
}

static int run_copy(const struct distmind_engine_job *job, const struct distmind_lane_page *page,
		    __u64 *cookie)
{
	while (*cookie < job->blocks) {
		__u64 at = *cookie * DISTMIND_COPY_BLOCK;
		__u64 left = job->arg[0].length - at;

		memmove(heap + job->arg[0].value + at, heap + job->arg[1].value + at,
			left < DISTMIND_COPY_BLOCK ? left : DISTMIND_COPY_BLOCK);
		++*cookie;
		if (*cookie < job->blocks && asked_to_yield(page))
			return DISTMIND_DONE_YIELDED;
	}
	return 0;
}

static int run(const struct distmind_engine_job *job, const struct distmind_lane_page *page,
	       __u64 *cookie)
{
	if (job->type == DISTMIND_JOB_COPY)
		return run_copy(job, page, cookie);
	return job->operation == OP_FILL ? run_fill(job, page, cookie) : -EOPNOTSUPP;
}

static void *lane_thread(void *arg)
{
	struct distmind_engine_exchange exchange = {
		.lane = (__u32)(long)arg, .timeout_ms = DISTMIND_TIMEOUT_MAX_MS,
	};
	const struct distmind_lane_page *page = (const void *)(pages + exchange.lane * page_size);

	for (;;) {
		if (ioctl(engine, DISTMIND_IOC_ENGINE_EXCHANGE, &exchange)) {
			exchange.done = 0;
			if (errno == ETIMEDOUT || errno == EINTR)
				continue;
			return NULL;
		}
		exchange.cookie = exchange.job.cookie;
		exchange.status = run(&exchange.job, page, &exchange.cookie);
		exchange.done = exchange.job.id;
	}
}

int main(int argc, char **argv)
{
	struct distmind_engine_register reg = {
		.heap_size = HEAP, .numa_node = DISTMIND_NUMA_ANY, .compute_lanes = 1,
		.copy_lanes = 1, .kind = "template", .capabilities = DISTMIND_ENGINE_YIELDS,
	};
	pthread_t threads[LANES];

	if (argc != 2 || strlen(argv[1]) >= sizeof(reg.name)) {
		fprintf(stderr, "usage: template NAME\n");
		return 2;
	}
	strcpy(reg.name, argv[1]);
	page_size = (size_t)sysconf(_SC_PAGESIZE);
	engine = open("/dev/distmind/engine", O_RDWR | O_CLOEXEC);
	if (engine < 0 || ioctl(engine, DISTMIND_IOC_ENGINE_REGISTER, &reg)) {
		perror("template: cannot register");
		return 1;
	}
	heap = mmap(NULL, HEAP, PROT_READ | PROT_WRITE, MAP_SHARED, engine, 0);
	pages = mmap(NULL, LANES * page_size, PROT_READ, MAP_SHARED, engine,
		     (off_t)DISTMIND_LANE_MAP_OFFSET);
	if (heap == MAP_FAILED || pages == MAP_FAILED) {
		perror("template: cannot map");
		return 1;
	}
	printf("gpu %u\n", reg.gpu);
	fflush(stdout);
	for (long i = 0; i < LANES; i++) {
		if (pthread_create(&threads[i], NULL, lane_thread, (void *)i))
			return 1;
	}
	for (int i = 0; i < LANES; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
