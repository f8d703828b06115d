/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a reply of distmindd says, for people: a field that is missing is no error. */
#ifndef DISTMINDCTL_REPLY_H
#define DISTMINDCTL_REPLY_H

#include <jansson.h>
#include <stdint.h>

/* 0: there is none. */
uint64_t reply_number(const json_t *object, const char *key);
/* "?": there is none. */
const char *reply_text(const json_t *object, const char *key);

#endif /* DISTMINDCTL_REPLY_H */
