// SPDX-License-Identifier: GPL-2.0-or-later
#include "chunk.h"

#include "../common/hex.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* A tensor has no more pieces than this as long as they are not the largest. */
#define PIECES 192

/* The image ends before this, so that sums of two such sizes fit. */
#define IMAGE_MAX ((uint64_t)INT64_MAX)

int model_digest_make(const void *data, size_t size, struct model_digest *digest)
{
	return EVP_Digest(data, size, digest->bytes, NULL, EVP_sha256(), NULL) ? 0 : -EIO;
}

bool model_digest_equal(const struct model_digest *a, const struct model_digest *b)
{
	return !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

void model_digest_format(const struct model_digest *digest, char text[MODEL_DIGEST_TEXT_LEN])
{
	hex_format(digest->bytes, sizeof(digest->bytes), text);
}

int model_digest_parse(const char *text, struct model_digest *digest)
{
	return hex_parse(text, digest->bytes, sizeof(digest->bytes)) ? 0 : -EINVAL;
}

static uint64_t align(uint64_t offset)
{
	return (offset + MODEL_ALIGNMENT - 1) / MODEL_ALIGNMENT * MODEL_ALIGNMENT;
}

/* -ERANGE: too large. */
static int place(const uint64_t *sizes, uint32_t count, uint64_t *offsets, uint64_t *end)
{
	*end = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t offset = align(*end);

		offsets[i] = offset;
		if (!sizes[i])
			continue;
		if (offset > IMAGE_MAX || sizes[i] > IMAGE_MAX - offset)
			return -ERANGE;
		*end = offset + sizes[i];
	}
	return 0;
}

/* A power of two, of which so many make up the size or the largest there is; at least least. */
static uint32_t piece_size(uint64_t size, uint64_t count, uint32_t least)
{
	while (least < MODEL_CHUNK_MAX && least * count < size)
		least *= 2;
	return least;
}

/* The chunks so far; the array is owned until it is handed out. */
struct cutting {
	struct model_chunk *chunks;
	uint32_t count, room;
};

static int add(struct cutting *cutting, uint64_t offset, uint64_t size)
{
	if (cutting->count == cutting->room) {
		uint32_t room = cutting->room ? cutting->room * 2 : 64;
		struct model_chunk *chunks;

		if (cutting->room > UINT32_MAX / 4)
			return -ERANGE;
		chunks = reallocarray(cutting->chunks, room, sizeof(*chunks));
		if (!chunks)
			return -ENOMEM;
		cutting->chunks = chunks;
		cutting->room = room;
	}
	cutting->chunks[cutting->count++] = (struct model_chunk){
		.offset = offset, .size = (uint32_t)size,
	};
	return 0;
}

static int add_pieces(struct cutting *cutting, uint64_t offset, uint64_t size, uint32_t least)
{
	uint32_t piece = piece_size(size, PIECES, least);

	while (size) {
		uint64_t part = size < piece ? size : piece;
		int err = add(cutting, offset, part);

		if (err)
			return err;
		offset += part;
		size -= part;
	}
	return 0;
}

int model_chunk_cut(const uint64_t *sizes, uint32_t count, uint64_t *offsets,
		    struct model_chunk **chunks, uint32_t *chunk_count)
{
	struct cutting cutting = { 0 };
	bool packing = false; /* the last chunk has small tensors and may get more */
	uint64_t end;
	uint32_t least;
	int err = place(sizes, count, offsets, &end);

	if (err)
		return err;
	least = piece_size(end, MODEL_CHUNKS_AIM, MODEL_CHUNK_LEAST);
	for (uint32_t i = 0; i < count; i++) {
		struct model_chunk *last = packing ? &cutting.chunks[cutting.count - 1] : NULL;

		if (!sizes[i])
			continue;
		if (sizes[i] > least / 2)
			err = add_pieces(&cutting, offsets[i], sizes[i], least);
		else if (last && offsets[i] + sizes[i] - last->offset <= least)
			last->size = (uint32_t)(offsets[i] + sizes[i] - last->offset);
		else
			err = add(&cutting, offsets[i], sizes[i]);
		if (err) {
			free(cutting.chunks);
			return err;
		}
		packing = sizes[i] <= least / 2;
	}
	*chunks = cutting.chunks;
	*chunk_count = cutting.count;
	return 0;
}
