// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whatever the text is, it is refused with a reason, or it is a manifest whose
 * layers have all chunks and whose own text is a manifest with the same text.
 */
#include "../../userspace/model/manifest.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_chunks(const struct model_manifest *manifest)
{
	uint32_t tensor = 0, chunk = 0, next;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < manifest->layer_count; i++) {
		next = model_manifest_chunk_from(manifest, tensor);
		if (next < chunk)
			abort();
		chunk = next;
		tensor += manifest->layers[i].tensors;
	}
	if (model_manifest_chunk_from(manifest, 0) ||
	    model_manifest_chunk_from(manifest, tensor) != manifest->chunk_count)
		abort();
	for (uint32_t i = 0; i < manifest->chunk_count; i++)
		bytes += manifest->chunks[i].size;
	if (bytes > manifest->size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char error[MODEL_ERROR_LEN] = "", *text, *again;
	struct model_manifest manifest, second;
	size_t len, again_len;

	if (model_manifest_parse(&manifest, (const char *)data, size, error)) {
		if (!*error)
			abort();
		return 0;
	}
	check_chunks(&manifest);
	if (model_manifest_encode(&manifest, &text, &len) ||
	    model_manifest_parse(&second, text, len, error) ||
	    model_manifest_encode(&second, &again, &again_len) || len != again_len ||
	    memcmp(text, again, len))
		abort();
	model_manifest_destroy(&manifest);
	model_manifest_destroy(&second);
	free(text);
	free(again);
	return 0;
}
