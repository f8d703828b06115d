/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A manifest: what the catalog knows of a model. Its tensors and their places in
 * the image, the chunks that the image consists of, the layers in execution
 * order. As JSON it is canonical: the same model is the same bytes.
 *
 * A manifest that was parsed, or made by model_image_create(), is valid:
 *  - tensors stand in the image as chunk.h says, with different names, each as
 *    large as its shape says;
 *  - chunks cover all tensors once, in order, and nothing but tensors and the
 *    zeros between two of them; each begins at a multiple of MODEL_ALIGNMENT;
 *  - layers have all tensors, in order;
 *  - there are at most MODEL_CHUNKS_MAX chunks, and no more layers than that.
 */
#ifndef DISTMIND_MODEL_MANIFEST_H
#define DISTMIND_MODEL_MANIFEST_H

#include "chunk.h"
#include "error.h"
#include "tensor.h"

#include <jansson.h>

#define MODEL_MANIFEST_FORMAT 2
#define MODEL_NAME_MAX 63
/* As text. The catalog keeps no larger one. */
#define MODEL_MANIFEST_MAX (64UL << 20)

struct model_manifest_tensor {
	char *name;
	struct model_shape shape;
	uint64_t offset, size;
	uint32_t chunk; /* the first that it is in; if it is empty, the next after it */
};

struct model_manifest_layer {
	char *name;
	uint32_t tensors; /* how many, after those of the layers before */
	bool flops_known;
	uint64_t bytes; /* of its tensors */
	uint64_t flops;
};

struct model_manifest {
	char *name;
	uint64_t size; /* of the image */
	/* All owned, with the names in them. */
	struct model_manifest_tensor *tensors;
	struct model_chunk *chunks;
	struct model_manifest_layer *layers;
	uint32_t tensor_count, chunk_count, layer_count;
};

/* Letters, digits, '.', '_' and '-', beginning with a letter or a digit. */
bool model_name_valid(const char *name);

/* error says "field: what is wrong: the fix". */
int model_manifest_check(const struct model_manifest *manifest, char *error);
int model_manifest_parse(struct model_manifest *manifest, const char *text, size_t len,
			 char *error);
/* *text is the caller's to free, and has a zero at its end. -ENOMEM. */
int model_manifest_encode(const struct model_manifest *manifest, char **text, size_t *len);
/* The same before it is text. NULL: no memory. */
json_t *model_manifest_tree(const struct model_manifest *manifest);
void model_manifest_destroy(struct model_manifest *manifest);

/* The chunk that has the byte at offset, or the first one after it. */
uint32_t model_manifest_chunk_at(const struct model_manifest *manifest, uint64_t offset);

/*
 * The first chunk that begins at a tensor's data or later; of the tensor after the last one:
 * how many there are. Chunks from that of a layer's first tensor on to that of the next layer's
 * are what the layer needs beyond the layers before: where a chunk has tensors of both, the
 * earlier one has it.
 */
uint32_t model_manifest_chunk_from(const struct model_manifest *manifest, uint32_t tensor);

#endif
