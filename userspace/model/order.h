/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order in which a model's layers execute, and so the order in which its
 * tensors arrive. It comes from a file or from the names of the tensors.
 *
 * The file has a line per layer, in order: its name and, after a tab, its FLOPs
 * if they are known. A layer's tensors are those whose names begin with its name
 * and a dot, or are its name; where two layers match, the longer name has the
 * tensor. A layer with FLOPs may have no tensors. Empty lines and lines that
 * begin with '#' do not count.
 *
 * By names: a tensor's layer is its name up to the last dot, and layers follow
 * each other in natural order, "layer.9" before "layer.10".
 */
#ifndef DISTMIND_MODEL_ORDER_H
#define DISTMIND_MODEL_ORDER_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_ORDER_FILE_MAX (64U << 20) /* bytes */

struct model_order_layer {
	char *name;
	uint32_t tensors; /* how many of the order's, after those of the layers before */
	bool flops_known;
	uint64_t flops;
};

struct model_order {
	uint32_t *tensors; /* owned: indices of the names that were given */
	uint32_t count;
	struct model_order_layer *layers; /* owned, with their names */
	uint32_t layer_count;
};

/* As strcmp(), but numbers in the texts compare by value. */
int model_order_compare(const char *a, const char *b);

/* -ENOMEM */
int model_order_natural(struct model_order *order, const char *const *names, uint32_t count);

/* error says "file:line: what is wrong: the fix". */
int model_order_read(struct model_order *order, const char *path, const char *const *names,
		     uint32_t count, char *error);

void model_order_destroy(struct model_order *order);

#endif
