// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * acquire.latency   from acquire to descriptor, through the kernel, the daemon
 *                   and back, against four eventfd ping-pongs between processes
 *
 * Needs a running distmindd and a gpu.
 */
#include <distmind.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define BATCH 20

struct ends {
	int ping, pong;
};

static double acquire(void *arg)
{
	struct distmind_claim claim = { .memory = 1 << 20, .share = 10, .name = "bench" };
	struct distmind_vgpu *vgpu[BATCH];
	char reason[DISTMIND_REASON_LEN];
	double begin = bench_now(), took;

	(void)arg;
	for (int i = 0; i < BATCH; i++) {
		if (distmind_acquire(&claim, &vgpu[i], reason))
			bench_die("acquire: %s", reason);
	}
	took = bench_now() - begin;
	for (int i = 0; i < BATCH; i++)
		distmind_vgpu_close(vgpu[i]);
	return took;
}

static double ping_pong(void *arg)
{
	struct ends *ends = arg;
	uint64_t value = 1;
	double begin = bench_now();

	for (int i = 0; i < BATCH; i++) {
		if (write(ends->ping, &value, 8) != 8 || read(ends->pong, &value, 8) != 8)
			bench_die("eventfd");
	}
	return bench_now() - begin;
}

static pid_t answerer(struct ends *ends)
{
	pid_t pid = fork();
	uint64_t value;

	while (!pid) {
		if (read(ends->ping, &value, 8) != 8 || write(ends->pong, &value, 8) != 8)
			_exit(1);
	}
	return pid;
}

int main(void)
{
	struct ends ends = { eventfd(0, 0), eventfd(0, 0) };
	pid_t pid = answerer(&ends);

	bench_run(&(struct bench){
		.name = "acquire.latency", .unit = "us", .baseline = "4 eventfd ping-pongs",
		.work = BATCH, .rounds = 21, .scale = 1e6, .allowance = 4,
		.ours = acquire, .theirs = ping_pong, .arg = &ends,
	});
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return 0;
}
