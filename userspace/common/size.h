/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sizes in bytes as people write them: "512M", "1.5G", "4GiB".
 */
#ifndef DISTMIND_COMMON_SIZE_H
#define DISTMIND_COMMON_SIZE_H

#include <stddef.h>
#include <stdint.h>

#define SIZE_TEXT_LEN 16 /* room for whatever size_format() writes */

/*
 * A number, then K, M, G or T (powers of 1024, in either case), then "B" or
 * "iB" if one likes. A fraction needs a unit; what it leaves of a byte is cut
 * off. -EINVAL: not a size; -ERANGE: does not fit 64 bits.
 */
int size_parse(const char *text, uint64_t *bytes);

/*
 * The largest unit that fits, with one decimal unless the number is whole:
 * "512M", "1.5G", "100B", "0".
 */
void size_format(uint64_t bytes, char *buf, size_t len);

#endif
