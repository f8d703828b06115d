// SPDX-License-Identifier: GPL-2.0-or-later
#include "answer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct answer {
	unsigned int references;
	uint64_t size;
	int memory; /* the only descriptor with which it can be shortened */
	int reader;
	struct errand errand; /* that frees it */
};

/* Who still has the reader has an empty file then: nothing is sealed against that. */
static void take_back(struct answer *answer)
{
	if (answer->memory < 0)
		return;
	while (ftruncate(answer->memory, 0) && errno == EINTR)
		;
	if (answer->reader >= 0)
		close(answer->reader);
	close(answer->memory);
}

static int write_all(int fd, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t done = write(fd, text, left);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			text += done;
			left -= (size_t)done;
		}
	}
	return 0;
}

/* Nobody but root can open it again for more than reading, and nobody can write to it. */
static int protect(struct answer *answer)
{
	char path[64];

	if (fchmod(answer->memory, 0444) ||
	    fcntl(answer->memory, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", answer->memory);
	answer->reader = open(path, O_RDONLY | O_CLOEXEC);
	return answer->reader < 0 ? -errno : 0;
}

int answer_make(struct answer **result, json_t *body)
{
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct answer *answer = text ? malloc(sizeof(*answer)) : NULL;
	int err = -ENOMEM;

	json_decref(body);
	if (!answer)
		goto out;
	*answer = (struct answer){
		.references = 1, .reader = -1, .size = strlen(text),
		.memory = memfd_create("distmind", MFD_CLOEXEC | MFD_ALLOW_SEALING),
	};
	err = answer->memory < 0 ? -errno : write_all(answer->memory, text);
	if (!err)
		err = protect(answer);
	if (err) {
		take_back(answer);
		free(answer);
	} else {
		*result = answer;
	}
out:
	free(text);
	return err;
}

struct answer *answer_get(struct answer *answer)
{
	answer->references++;
	return answer;
}

static void take_back_aside(struct errand *errand)
{
	take_back(errand_in(errand, struct answer, errand));
}

static void on_taken_back(struct errand *errand)
{
	free(errand_in(errand, struct answer, errand));
}

void answer_put(struct answer *answer, struct errands *errands, uint64_t payer)
{
	if (!answer || --answer->references)
		return;
	answer->errand = (struct errand){ .work = take_back_aside, .done = on_taken_back };
	if (errands) {
		errands_add(errands, payer, &answer->errand);
	} else {
		take_back(answer);
		free(answer);
	}
}

uint64_t answer_size(const struct answer *answer)
{
	return answer->size;
}

int answer_descriptor(const struct answer *answer)
{
	return answer->reader;
}
