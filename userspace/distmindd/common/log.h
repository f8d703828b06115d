/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Structured logs: an event and its fields, as a logfmt line or as fields of
 * the journal.
 *
 *   log_info("request-granted", LOG_U("request", id), LOG_S("kind", kind));
 *   event=request-granted request=7 kind=cpu
 */
#ifndef DISTMINDD_LOG_H
#define DISTMINDD_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <syslog.h>

struct log_field {
	const char *key; /* lower case and dashes; NULL ends a list */
	const char *text; /* NULL: the number */
	int64_t number;
};

#define LOG_S(key_, text_) ((struct log_field){ .key = (key_), .text = (text_) })
#define LOG_U(key_, number_) ((struct log_field){ .key = (key_), .number = (int64_t)(number_) })

enum log_target {
	LOG_TO_STDERR,
	LOG_TO_JOURNAL,
	LOG_TO_SYSLOG,
	LOG_TO_NOTHING, /* for tests */
};

/* Levels are syslog's; what is less urgent than level is dropped. */
void log_set_level(int level);
void log_set_target(enum log_target target);
/* The journal if it is what stderr leads to, else stderr. */
enum log_target log_default_target(void);
/* -EINVAL: not the name of a level. */
int log_level_parse(const char *name);

void log_write(int level, const char *event, const struct log_field *fields);
/* Exposed for tests: the line that log_write() writes, without its newline. */
void log_format(char *buf, size_t len, const char *event, const struct log_field *fields);

#define LOG_FIELDS(...) ((const struct log_field[]){ __VA_ARGS__ __VA_OPT__(,) { .key = NULL } })
#define log_error(event, ...) log_write(LOG_ERR, event, LOG_FIELDS(__VA_ARGS__))
#define log_warning(event, ...) log_write(LOG_WARNING, event, LOG_FIELDS(__VA_ARGS__))
#define log_info(event, ...) log_write(LOG_INFO, event, LOG_FIELDS(__VA_ARGS__))
#define log_debug(event, ...) log_write(LOG_DEBUG, event, LOG_FIELDS(__VA_ARGS__))

#endif
