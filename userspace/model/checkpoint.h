/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A checkpoint: the tensors of one model, in one safetensors file or in several.
 * Several are named one by one or by an index, a file called
 * SOMETHING.index.json, that says which tensor is in which file beside it.
 */
#ifndef DISTMIND_MODEL_CHECKPOINT_H
#define DISTMIND_MODEL_CHECKPOINT_H

#include "safetensors.h"

struct model_checkpoint {
	struct model_safetensors *files; /* owned */
	size_t file_count;
	const struct model_tensor **tensors; /* owned; of all files, by name */
	size_t count;
};

/*
 * A name that two files have is refused, and with an index every difference
 * between it and the files. error says which.
 */
int model_checkpoint_open(struct model_checkpoint *checkpoint, const char *const *paths,
			  size_t count, char *error);
void model_checkpoint_close(struct model_checkpoint *checkpoint);

/* NULL: no such tensor. */
const struct model_tensor *model_checkpoint_find(const struct model_checkpoint *checkpoint,
						 const char *name);

#endif
