// SPDX-License-Identifier: GPL-2.0-or-later
#include "tensor.h"

#include <errno.h>
#include <string.h>

static const struct {
	const char *name;
	unsigned int size;
} dtypes[MODEL_DTYPE__COUNT] = {
	[MODEL_BOOL] = { "BOOL", 1 },	    [MODEL_U8] = { "U8", 1 },
	[MODEL_I8] = { "I8", 1 },	    [MODEL_F8_E5M2] = { "F8_E5M2", 1 },
	[MODEL_F8_E4M3] = { "F8_E4M3", 1 }, [MODEL_F8_E8M0] = { "F8_E8M0", 1 },
	[MODEL_U16] = { "U16", 2 },	    [MODEL_I16] = { "I16", 2 },
	[MODEL_F16] = { "F16", 2 },	    [MODEL_BF16] = { "BF16", 2 },
	[MODEL_U32] = { "U32", 4 },	    [MODEL_I32] = { "I32", 4 },
	[MODEL_F32] = { "F32", 4 },	    [MODEL_U64] = { "U64", 8 },
	[MODEL_I64] = { "I64", 8 },	    [MODEL_F64] = { "F64", 8 },
	[MODEL_C64] = { "C64", 8 },
};

const char *model_dtype_name(enum model_dtype dtype)
{
	return dtypes[dtype].name;
}

int model_dtype_find(const char *name, enum model_dtype *dtype)
{
	for (int i = 0; i < MODEL_DTYPE__COUNT; i++)
		if (!strcmp(dtypes[i].name, name)) {
			*dtype = (enum model_dtype)i;
			return 0;
		}
	return -ENOENT;
}

const char *model_dtype_list(void)
{
	return "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 U16 I16 F16 BF16 U32 I32 F32 U64 I64 F64 C64";
}

int model_shape_size(const struct model_shape *shape, uint64_t *bytes)
{
	uint64_t size = dtypes[shape->dtype].size;

	for (uint32_t i = 0; i < shape->rank; i++)
		if (__builtin_mul_overflow(size, shape->extent[i], &size))
			return -ERANGE;
	*bytes = size;
	return 0;
}

bool model_shape_equal(const struct model_shape *a, const struct model_shape *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       !memcmp(a->extent, b->extent, a->rank * sizeof(a->extent[0]));
}

bool model_tensor_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (!len || len > MODEL_TENSOR_NAME_MAX)
		return false;
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			return false;
	return true;
}
