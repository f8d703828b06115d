/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the daemon logs, for tests of that. Included by the one file of a test program. */
#ifndef TESTS_UNIT_LOG_MEMORY_H
#define TESTS_UNIT_LOG_MEMORY_H

#include "unit.h"

#include "../../userspace/distmindd/common/log.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What is logged from now on goes there. */
static inline int log_to_memory(int *before)
{
	int memory = memfd_create("log", MFD_CLOEXEC);

	assert_true(memory >= 0);
	*before = dup(STDERR_FILENO);
	assert_int_equal(dup2(memory, STDERR_FILENO), STDERR_FILENO);
	log_set_target(LOG_TO_STDERR);
	return memory;
}

/* And not any more: how often it has that event. */
static inline unsigned int count_logged(int memory, int before, const char *event)
{
	off_t size = lseek(memory, 0, SEEK_END);
	char *text, *at;
	unsigned int count = 0;

	log_set_target(LOG_TO_NOTHING);
	dup2(before, STDERR_FILENO);
	close(before);
	assert_true(size >= 0);
	text = at = calloc(1, (size_t)size + 1);
	assert_int_equal(pread(memory, text, (size_t)size, 0), size);
	close(memory);
	for (; (at = strstr(at, event)); at++)
		count++;
	free(text);
	return count;
}

#endif
