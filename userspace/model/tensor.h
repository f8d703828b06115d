/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tensors: types of elements, shapes, names. The types and their names are
 * those of safetensors.
 */
#ifndef DISTMIND_MODEL_TENSOR_H
#define DISTMIND_MODEL_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_RANK_MAX 8
#define MODEL_TENSOR_NAME_MAX 1000

enum model_dtype {
	MODEL_BOOL,
	MODEL_U8,
	MODEL_I8,
	MODEL_F8_E5M2,
	MODEL_F8_E4M3,
	MODEL_F8_E8M0,
	MODEL_U16,
	MODEL_I16,
	MODEL_F16,
	MODEL_BF16,
	MODEL_U32,
	MODEL_I32,
	MODEL_F32,
	MODEL_U64,
	MODEL_I64,
	MODEL_F64,
	MODEL_C64,
	MODEL_DTYPE__COUNT
};

struct model_shape {
	enum model_dtype dtype;
	uint32_t rank; /* 0: a single number */
	uint64_t extent[MODEL_RANK_MAX];
};

/* A tensor in a file; who has the file owns the name and what data points to. */
struct model_tensor {
	char *name;
	struct model_shape shape;
	uint64_t size;
	const uint8_t *data;
};

const char *model_dtype_name(enum model_dtype dtype);
/* -ENOENT */
int model_dtype_find(const char *name, enum model_dtype *dtype);

/* All names, separated by spaces, for messages. */
const char *model_dtype_list(void);

/* -ERANGE: does not fit 64 bits. */
int model_shape_size(const struct model_shape *shape, uint64_t *bytes);
bool model_shape_equal(const struct model_shape *a, const struct model_shape *b);

/* Not empty, not too long, nothing in it that would disturb a terminal or a line. */
bool model_tensor_name_valid(const char *name);

#endif
