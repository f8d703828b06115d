/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Chunks: the unit in which models are placed, checked and shared. A chunk is
 * known by the SHA-256 digest of its bytes, so that models which have tensors in
 * common have their chunks in common. Its checksum, XXH3 of 64 bits, follows from
 * the same bytes and is checked whenever they have been moved: it finds what
 * memory, disks and networks do to them, and costs next to nothing. Who pushes
 * claims both, and both are checked when the bytes arrive.
 *
 * A model's tensors stand one after the other in execution order, each at a
 * multiple of MODEL_ALIGNMENT; this is the model's image, what a weights buffer
 * holds. Zeros stand only between a tensor's end and the next one's beginning.
 * How an image is cut:
 *
 *  - The least piece follows from the size of the image: the smallest power of two
 *    from MODEL_CHUNK_LEAST to MODEL_CHUNK_MAX of which MODEL_CHUNKS_AIM make up the
 *    image. So a small model can be spread over ten donors group by group, and a
 *    large one has a number of chunks that catalog and loads can handle: at most four
 *    times MODEL_CHUNKS_AIM, and one, as long as MODEL_CHUNK_MAX suffices.
 *  - A tensor larger than half of that has chunks of its own: pieces of the same size
 *    and what remains. They are larger than the least where the tensor is so large
 *    that a few hundred are enough to spread it.
 *  - Smaller ones that follow each other share a chunk of up to the least piece: a
 *    changed one costs no more than that.
 *
 * Copies of a model, fine-tuned or with some tensors more, have what did not change in
 * common, unless one is so much larger that its least piece is another.
 */
#ifndef DISTMIND_MODEL_CHUNK_H
#define DISTMIND_MODEL_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_ALIGNMENT 512
#define MODEL_CHUNK_LEAST (64U << 10)
#define MODEL_CHUNK_MAX (4U << 20)
#define MODEL_CHUNKS_AIM 16384
#define MODEL_CHUNKS_MAX 262144 /* of a model; with more it is refused */
#define MODEL_DIGEST_LEN 32
#define MODEL_DIGEST_TEXT_LEN (2 * MODEL_DIGEST_LEN + 1)

struct model_digest {
	uint8_t bytes[MODEL_DIGEST_LEN];
};

struct model_chunk {
	struct model_digest digest;
	uint64_t checksum;
	uint32_t size;
	uint64_t offset; /* in the image */
};

/* -EIO: libcrypto has no SHA-256. */
int model_digest_make(const void *data, size_t size, struct model_digest *digest);
bool model_digest_equal(const struct model_digest *a, const struct model_digest *b);
void model_digest_format(const struct model_digest *digest, char text[MODEL_DIGEST_TEXT_LEN]);
/* 64 digits in lower case. -EINVAL. */
int model_digest_parse(const char *text, struct model_digest *digest);

/*
 * Where tensors of these sizes stand in the image, and its chunks, without
 * digests; *chunks is the caller's to free. -ERANGE: too large; -ENOMEM.
 */
int model_chunk_cut(const uint64_t *sizes, uint32_t count, uint64_t *offsets,
		    struct model_chunk **chunks, uint32_t *chunk_count);

#endif
