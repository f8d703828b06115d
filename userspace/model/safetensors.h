/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A safetensors file: 8 bytes of header length, a JSON header that gives each
 * tensor's type, shape and place, and the data. It is read by mapping. Nothing
 * of it is handed out before all of it has been checked: the length, the JSON,
 * every type and shape, that each tensor is as large as its shape says, and that
 * they cover the data without overlap, gap or rest.
 *
 * A file that somebody truncates while it is mapped ends the process by SIGBUS, as
 * with every mapping, unless it catches that, as distmindctl does: a checkpoint is
 * written once and not in place.
 */
#ifndef DISTMIND_MODEL_SAFETENSORS_H
#define DISTMIND_MODEL_SAFETENSORS_H

#include "error.h"
#include "tensor.h"

/* The format's own limit. */
#define MODEL_SAFETENSORS_HEADER_MAX 100000000

struct model_safetensors {
	char *path;
	const uint8_t *data; /* the whole file */
	size_t size;
	bool mapped;		      /* by open(), to be undone by close() */
	struct model_tensor *tensors; /* in the order of their data */
	size_t count;
};

/*
 * Both leave "file: byte N: what is wrong: the fix" in error when they fail.
 * What parse() is given must stay until close().
 */
int model_safetensors_open(struct model_safetensors *file, const char *path, char *error);
int model_safetensors_parse(struct model_safetensors *file, const char *path, const void *data,
			    size_t size, char *error);
void model_safetensors_close(struct model_safetensors *file);

#endif
