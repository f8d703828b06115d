/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_PIN_H
#define _DISTMIND_PIN_H

#include <linux/types.h>

struct distmind_buffer;
struct distmind_heap;

int distmind_pin_add(struct distmind_buffer *buffer, const char *device);
void distmind_pin_del(struct distmind_buffer *buffer);
bool distmind_pin_leaves_half(const struct distmind_heap *heap,
			      const struct distmind_buffer *buffer, unsigned long start);

#endif /* _DISTMIND_PIN_H */
