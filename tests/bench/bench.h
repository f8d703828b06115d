/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A benchmark compares two ways to do the same work, in the same process, in
 * turns, so that whatever else the machine does hits both. It prints one line
 * of JSON; tests/bench/run collects them.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stdint.h>

struct bench {
	const char *name;
	const char *unit;
	const char *baseline; /* what the other way is */
	bool rate;	      /* more is better: value is work / seconds */
	double work;	      /* of one run, in units; for times: runs per call */
	int rounds;
	/* Each does the work once and returns the seconds it took, or exits. */
	double (*ours)(void *arg);
	double (*theirs)(void *arg);
	void *arg;
	double scale; /* of times: 1e6 for microseconds */
	double allowance; /* the baseline counts this many times; 0 is once */
};

/*
 * Run it, print the median of each, and of the rounds' ratios: above 1 is better than the baseline.
 */
void bench_run(const struct bench *bench);

/* A line of the results. */
void bench_report(const char *name, double value, const char *unit, const char *baseline,
		  double baseline_value, double ratio);

double bench_now(void);
void bench_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* A gpu with a heap of that size, served by this process. */
struct distmind_engine *bench_engine(uint64_t memory);
/* A vgpu on it. */
struct distmind_vgpu *bench_vgpu(struct distmind_engine *engine, uint64_t memory);
/* Neither is left: a daemon that starts later would find the vgpu a place. */
void bench_leave(struct distmind_engine *engine, struct distmind_vgpu *vgpu);

#endif /* BENCH_H */
