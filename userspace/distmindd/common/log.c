// SPDX-License-Identifier: GPL-2.0-or-later
#define SD_JOURNAL_SUPPRESS_LOCATION
#include "log.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#define LINE_MAX_LEN 1024
#define FIELD_MAX_LEN 320
#define FIELDS_MAX 16

static int log_level = LOG_INFO;
static enum log_target log_target = LOG_TO_STDERR;

void log_set_level(int level)
{
	log_level = level;
}

void log_set_target(enum log_target target)
{
	log_target = target;
	if (target == LOG_TO_SYSLOG)
		openlog("distmindd", LOG_PID, LOG_DAEMON);
}

enum log_target log_default_target(void)
{
	return getenv("JOURNAL_STREAM") ? LOG_TO_JOURNAL : LOG_TO_STDERR;
}

int log_level_parse(const char *name)
{
	static const struct {
		const char *name;
		int level;
	} levels[] = {
		{ "error", LOG_ERR },
		{ "warning", LOG_WARNING },
		{ "info", LOG_INFO },
		{ "debug", LOG_DEBUG },
	};

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		if (!strcmp(levels[i].name, name))
			return levels[i].level;
	return -EINVAL;
}

/* A line under construction; what does not fit is cut off. */
struct line {
	char *text;
	size_t len;
	size_t room;
};

static void put(struct line *line, char c)
{
	if (line->len + 1 < line->room)
		line->text[line->len++] = c;
	line->text[line->len] = '\0';
}

static void put_text(struct line *line, const char *text)
{
	while (*text)
		put(line, *text++);
}

static bool needs_quotes(const char *text)
{
	if (!*text)
		return true;
	for (; *text; text++)
		if (*text == '"' || *text == '=' || *text == '\\' || !isgraph((unsigned char)*text))
			return true;
	return false;
}

/* One line stays one line, whatever a name holds. */
static void put_value(struct line *line, const char *text)
{
	if (!needs_quotes(text)) {
		put_text(line, text);
		return;
	}
	put(line, '"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			put(line, '\\');
		put(line, iscntrl((unsigned char)*text) ? ' ' : *text);
	}
	put(line, '"');
}

void log_format(char *buf, size_t len, const char *event, const struct log_field *fields)
{
	struct line line = { .text = buf, .room = len };
	char number[24];

	put_text(&line, "event=");
	put_value(&line, event);
	for (; fields->key; fields++) {
		put(&line, ' ');
		put_text(&line, fields->key);
		put(&line, '=');
		if (fields->text) {
			put_value(&line, fields->text);
		} else {
			snprintf(number, sizeof(number), "%" PRId64, fields->number);
			put_text(&line, number);
		}
	}
}

/* DISTMIND_KEY=value: the journal's form of a field. */
static void format_journal(char *buf, size_t len, const char *key, const struct log_field *field)
{
	struct line line = { .text = buf, .room = len };
	char number[24];

	put_text(&line, "DISTMIND_");
	for (; *key; key++)
		put(&line, *key == '-' ? '_' : (char)toupper((unsigned char)*key));
	put(&line, '=');
	snprintf(number, sizeof(number), "%" PRId64, field->number);
	put_text(&line, field->text ? field->text : number);
}

static void write_journal(int level, const char *event, const struct log_field *fields,
			  const char *text)
{
	char buf[FIELDS_MAX][FIELD_MAX_LEN], message[LINE_MAX_LEN + 8], priority[16];
	struct log_field named = { .text = event };
	struct iovec iov[FIELDS_MAX + 2];
	int count = 0;

	snprintf(message, sizeof(message), "MESSAGE=%s", text);
	snprintf(priority, sizeof(priority), "PRIORITY=%d", level);
	iov[count++] = (struct iovec){ message, strlen(message) };
	iov[count++] = (struct iovec){ priority, strlen(priority) };
	format_journal(buf[0], FIELD_MAX_LEN, "event", &named);
	iov[count++] = (struct iovec){ buf[0], strlen(buf[0]) };
	for (int i = 1; i < FIELDS_MAX && fields->key; i++, fields++) {
		format_journal(buf[i], FIELD_MAX_LEN, fields->key, fields);
		iov[count++] = (struct iovec){ buf[i], strlen(buf[i]) };
	}
	sd_journal_sendv(iov, count);
}

void log_write(int level, const char *event, const struct log_field *fields)
{
	char text[LINE_MAX_LEN];

	if (level > log_level || log_target == LOG_TO_NOTHING)
		return;
	log_format(text, sizeof(text), event, fields);
	if (log_target == LOG_TO_JOURNAL)
		write_journal(level, event, fields, text);
	else if (log_target == LOG_TO_SYSLOG)
		syslog(level, "%s", text);
	else
		fprintf(stderr, "%s\n", text);
}
