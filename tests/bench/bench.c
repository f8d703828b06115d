// SPDX-License-Identifier: GPL-2.0-or-later
#include <distmind.h>
#include <errno.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "bench.h"

void bench_die(const char *format, ...)
{
	va_list args;

	fputs("bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

double bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, int count)
{
	qsort(values, count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

void bench_report(const char *name, double value, const char *unit, const char *baseline,
		  double baseline_value, double ratio)
{
	const char *guest = getenv("DISTMIND_GUEST");

	printf("{\"name\": \"%s\", \"kernel\": \"%s\", \"value\": %.6g, \"unit\": \"%s\", "
	       "\"baseline\": \"%s\", \"baseline_value\": %.6g, \"ratio\": %.5f}\n",
	       name, guest ? guest : "native", value, unit, baseline, baseline_value, ratio);
	fflush(stdout);
}

static void measure_both(const struct bench *bench, double *ours, double *theirs, bool swapped)
{
	if (swapped)
		*theirs = bench->theirs(bench->arg);
	*ours = bench->ours(bench->arg);
	if (!swapped)
		*theirs = bench->theirs(bench->arg);
}

/*
 * The ratio is that of each round, of which the median counts: a machine whose speed changes
 * from one second to the next changes both sides of a round alike. Who goes first alternates.
 */
void bench_run(const struct bench *bench)
{
	double *ours = calloc(bench->rounds, sizeof(*ours));
	double *theirs = calloc(bench->rounds, sizeof(*theirs));
	double *ratios = calloc(bench->rounds, sizeof(*ratios));
	double allowance = bench->allowance ? bench->allowance : 1, a, b;

	if (!ours || !theirs || !ratios)
		bench_die("out of memory");
	/* The first round warms up and does not count. */
	measure_both(bench, &a, &b, false);
	for (int i = 0; i < bench->rounds; i++) {
		measure_both(bench, &ours[i], &theirs[i], i % 2);
		ratios[i] = theirs[i] * allowance / ours[i];
	}
	a = median(ours, bench->rounds);
	b = median(theirs, bench->rounds) * allowance;
	if (bench->rate) {
		a = bench->work / a;
		b = bench->work / b;
	} else {
		a *= bench->scale / bench->work;
		b *= bench->scale / bench->work;
	}
	bench_report(bench->name, a, bench->unit, bench->baseline, b,
		     median(ratios, bench->rounds));
	free(ours);
	free(theirs);
	free(ratios);
}

struct distmind_engine *bench_engine(uint64_t memory)
{
	struct distmind_engine_params params = {
		.name = "bench", .kind = "bench", .memory = memory, .numa_node = DISTMIND_NUMA_ANY,
	};
	struct distmind_engine *engine;
	int err = distmind_engine_register(&params, &engine);

	if (err)
		bench_die("cannot register a gpu: %s", strerror(-err));
	return engine;
}

struct distmind_vgpu *bench_vgpu(struct distmind_engine *engine, uint64_t memory)
{
	struct distmind_vgpu_record record = {
		.gpu = distmind_engine_gpu(engine), .memory = memory, .share = 1000,
	};
	struct distmind_pool *pool;
	struct distmind_vgpu *vgpu;
	char path[64];
	int err = distmind_pool_open(&pool);

	if (!err)
		err = distmind_pool_vgpu_create(pool, &record);
	if (err)
		bench_die("cannot create a vgpu: %s", strerror(-err));
	distmind_pool_close(pool);
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", record.id);
	err = distmind_vgpu_open(path, &vgpu);
	if (err)
		bench_die("%s: %s", path, strerror(-err));
	return vgpu;
}

void bench_leave(struct distmind_engine *engine, struct distmind_vgpu *vgpu)
{
	uint32_t gpu = distmind_engine_gpu(engine);
	struct distmind_vgpu_info info;
	struct distmind_pool *pool;

	if (distmind_vgpu_info(vgpu, &info) || distmind_pool_open(&pool))
		bench_die("cannot ask what to delete");
	distmind_vgpu_close(vgpu);
	distmind_engine_close(engine);
	if (distmind_pool_vgpu_delete(pool, info.id) || distmind_pool_gpu_remove(pool, gpu))
		bench_die("cannot clean up: %s", distmind_pool_error(pool));
	distmind_pool_close(pool);
}
