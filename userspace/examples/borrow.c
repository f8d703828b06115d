// SPDX-License-Identifier: MIT
/*
 * A program that launches its own work, as a CUDA or OpenCL process does, and
 * still shares the gpu: it borrows a lane by a grant, multiplies matrices itself,
 * looks between two pieces of work whether somebody needs the lane more, and
 * gives it back if so.
 *
 * It ends after so many seconds, or when it is told to by SIGTERM.
 *
 * usage: distmindctl run --memory 16M -- borrow [SECONDS]
 */
#include <distmind.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SIZE 128
#define MINUTE_MS 60000

static volatile sig_atomic_t told_to_end;

static void on_term(int number)
{
	(void)number;
	told_to_end = 1;
}

static void die(const char *what, int err)
{
	fprintf(stderr, "borrow: %s: %s\n", what, strerror(-err));
	exit(1);
}

/* One piece of the program's own work; the result goes on into the next one. */
static void multiply(float *a, const float *b, float *scratch)
{
	for (int i = 0; i < SIZE; i++) {
		for (int j = 0; j < SIZE; j++) {
			float sum = 0;

			for (int k = 0; k < SIZE; k++)
				sum += a[i * SIZE + k] * b[k * SIZE + j];
			scratch[i * SIZE + j] = sum;
		}
	}
	memcpy(a, scratch, sizeof(float) * SIZE * SIZE);
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atol(argv[1]) : 2);
	long pieces = 0, returned = 0;
	static float a[SIZE * SIZE], b[SIZE * SIZE], scratch[SIZE * SIZE];
	struct distmind_vgpu *vgpu;
	struct distmind_grant *grant;
	double trace = 0;
	int err;

	signal(SIGTERM, on_term);
	/* b turns a by one column: its numbers stay the same. */
	for (int i = 0; i < SIZE; i++) {
		a[i * SIZE + i] = (float)i;
		b[i * SIZE + (i + 1) % SIZE] = 1;
	}
	err = distmind_vgpu_inherited(0, &vgpu);
	if (err)
		die("no vgpu: start it by distmindctl run", err);
	err = distmind_grant_create(vgpu, DISTMIND_LANE_COMPUTE, &grant);
	if (!err)
		err = distmind_grant_begin(grant, MINUTE_MS);
	if (err)
		die("cannot borrow a lane", err);
	while (!told_to_end && time(NULL) < end) {
		multiply(a, b, scratch);
		pieces++;
		if (!distmind_grant_asked(grant))
			continue;
		returned++;
		err = distmind_grant_again(grant, MINUTE_MS);
		if (err)
			die("cannot borrow the lane again", err);
	}
	err = distmind_grant_end(grant);
	if (err)
		die("cannot give the lane back", err);
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++)
			trace += a[i * SIZE + j];
	printf("%ld pieces, the lane given back %ld times meanwhile, sum %.0f\n", pieces, returned,
	       trace);
	distmind_grant_destroy(grant);
	distmind_vgpu_close(vgpu);
	return 0;
}
