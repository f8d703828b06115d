// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whatever the file is, it is refused with a reason, or its tensors are all
 * inside it, one after the other.
 */
#include "../../userspace/model/safetensors.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_file(const uint8_t *data, size_t size)
{
	char error[MODEL_ERROR_LEN] = "";
	struct model_safetensors file;
	uint64_t bytes = 0, header;

	if (model_safetensors_parse(&file, "fuzz", data, size, error)) {
		if (!strstr(error, "byte "))
			abort();
		return;
	}
	memcpy(&header, data, sizeof(header));
	header = le64toh(header);
	for (size_t i = 0; i < file.count; i++) {
		const struct model_tensor *tensor = &file.tensors[i];
		uint64_t needed;

		if (tensor->data != data + 8 + header + bytes ||
		    model_shape_size(&tensor->shape, &needed) || needed != tensor->size)
			abort();
		bytes += tensor->size;
	}
	if (8 + header + bytes != size)
		abort();
	model_safetensors_close(&file);
}

/* As it is, and with the length of the header put right, which chance seldom does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memrchr(data, '}', size);
	uint64_t header;
	uint8_t *copy;

	check_file(data, size);
	if (!end || end - data < 8)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	header = htole64((uint64_t)(end - data) - 7);
	memcpy(copy, data, size);
	memcpy(copy, &header, sizeof(header));
	check_file(copy, size);
	free(copy);
	return 0;
}
