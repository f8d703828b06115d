/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An image: a checkpoint's tensors in execution order, and the manifest that
 * describes them. What is stored when a model is pushed comes from here, chunk
 * by chunk.
 */
#ifndef DISTMIND_MODEL_IMAGE_H
#define DISTMIND_MODEL_IMAGE_H

#include "checkpoint.h"
#include "manifest.h"
#include "order.h"

struct model_image {
	struct model_manifest manifest;
	const struct model_tensor **tensors; /* owned; those of the manifest, in its order */
	uint8_t *scratch;		     /* owned: a chunk of several tensors */
	/* Of which tensor, and up to where, the pages are mapped by now. */
	uint32_t mapped_tensor;
	uint64_t mapped_end;
};

/*
 * The checkpoint must stay until the image is destroyed. order_path NULL: by the
 * names of the tensors. The digests of the chunks are not there yet. What could not
 * be stored or loaded is refused here, before anybody reads all of it.
 */
int model_image_create(struct model_image *image, const char *name,
		       const struct model_checkpoint *checkpoint, const char *order_path,
		       char *error);
void model_image_destroy(struct model_image *image);

/* The bytes of a chunk, until the next call. */
const void *model_image_chunk(struct model_image *image, uint32_t chunk);

/* Puts a chunk's digest and checksum into the manifest. -EIO. */
int model_image_digest(struct model_image *image, uint32_t chunk);

#endif
