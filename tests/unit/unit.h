/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What cmocka wants included before it, in its order. */
#ifndef TESTS_UNIT_UNIT_H
#define TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* cmocka has no such thing, and it shows the text when it fails. */
#define assert_contains(text, part)                                          \
	do {                                                                 \
		if (!strstr(text, part))                                     \
			fail_msg("\"%s\" is not in \"%s\"", part, text);     \
	} while (0)

#endif
