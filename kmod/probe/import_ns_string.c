// SPDX-License-Identifier: GPL-2.0-only
/* 6.13: MODULE_IMPORT_NS() takes a string; before, it made one of a name. */
#include <linux/build_bug.h>
#include <linux/module.h>

#undef MODULE_INFO
#define MODULE_INFO(tag, info) static_assert(sizeof(info) == sizeof("DMA_BUF"), #tag)

MODULE_IMPORT_NS("DMA_BUF");
