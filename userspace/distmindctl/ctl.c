// SPDX-License-Identifier: GPL-2.0-or-later
#include "ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define PROGRAM "distmindctl"

#define NOT_PERMITTED ": not permitted; run it as root (it needs CAP_NET_ADMIN)"

/*
 * What is complained about may be from anywhere, a file that was fetched for instance, and does
 * not command the terminal: neither by C0 nor by C1, which UTF-8 writes as two bytes.
 */
static void defuse(char *text)
{
	unsigned char *c = (unsigned char *)text;

	for (; *c; c++) {
		if (*c < 0x20 || *c == 0x7f)
			*c = '?';
		else if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0)
			c[0] = c[1] = '?';
	}
}

__attribute__((format(printf, 3, 0))) static void complain(struct ctl *ctl, const char *tail,
							   const char *format, va_list args)
{
	char *text, *all;

	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	if (!text || asprintf(&all, "%s%s", text, tail) < 0)
		all = NULL;
	if (all)
		defuse(all);
	fprintf(ctl->err, PROGRAM ": %s\n", all ? all : "out of memory");
	free(all);
	free(text);
}

int ctl_fail(struct ctl *ctl, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	complain(ctl, "", format, args);
	va_end(args);
	return CTL_FAILED;
}

int ctl_usage(struct ctl *ctl, const char *format, ...)
{
	const char *topic = ctl->noun ? ctl->noun : ctl->command ? ctl->command->name : "";
	char tail[64];
	va_list args;

	snprintf(tail, sizeof(tail), "; see: " PROGRAM " help%s%s", *topic ? " " : "", topic);
	va_start(args, format);
	complain(ctl, tail, format, args);
	va_end(args);
	return CTL_USAGE;
}

static const char *remedy(int error)
{
	switch (error) {
	case -ENOENT:
	case -ENODEV:
		return "; see what there is: " PROGRAM;
	case -EBUSY:
		return "; see who uses it: " PROGRAM " vgpu list";
	case -ENOMEM:
		return "; free memory and try again";
	default:
		return "; check the set-up: " PROGRAM " doctor";
	}
}

int ctl_fail_pool(struct ctl *ctl, int error, const char *format, ...)
{
	const char *why = ctl->pool ? distmind_pool_error(ctl->pool) : NULL;
	char tail[DISTMIND_REASON_LEN + 128];
	va_list args;

	if (!why || !*why)
		why = strerror(-error);
	if (error == -EPERM || error == -EACCES)
		snprintf(tail, sizeof(tail), NOT_PERMITTED);
	else
		snprintf(tail, sizeof(tail), ": %s%s", why, remedy(error));
	va_start(args, format);
	complain(ctl, tail, format, args);
	va_end(args);
	return CTL_FAILED;
}

int ctl_need_admin(struct ctl *ctl, const char *format, ...)
{
	va_list args;

	if (ctl->admin)
		return CTL_OK;
	va_start(args, format);
	complain(ctl, NOT_PERMITTED, format, args);
	va_end(args);
	return CTL_FAILED;
}

int ctl_would(struct ctl *ctl, const char *action, const char *object, int64_t id,
	      const char *format, ...)
{
	struct print print;
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!ctl->json) {
		fprintf(ctl->out, "would %s\n", text);
		return CTL_OK;
	}
	ctl_print_open(ctl, &print);
	print_list_open(&print, "changes", PRINT_PLAIN);
	print_row_open(&print);
	print_text(&print, "action", NULL, action);
	print_text(&print, "object", NULL, object);
	if (id < 0)
		print_none(&print, "id", NULL);
	else
		print_number(&print, "id", NULL, id);
	print_text(&print, "text", NULL, text);
	print_row_close(&print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

void ctl_hint(struct ctl *ctl, const char *text)
{
	if (!ctl->json)
		fprintf(ctl->err, "%s\n", text);
}

void ctl_print_open(struct ctl *ctl, struct print *print)
{
	print_open(print, ctl->out, ctl->json, ctl->colour);
}

static int fail_output(struct ctl *ctl, int error)
{
	return ctl_fail(ctl, "cannot write the output: %s; check where it goes", strerror(-error));
}

int ctl_print_close(struct ctl *ctl, struct print *print)
{
	int ret = print_close(print);

	return ret ? fail_output(ctl, ret) : CTL_OK;
}

int ctl_flush(struct ctl *ctl)
{
	errno = 0;
	if (!fflush(ctl->out) && !ferror(ctl->out))
		return CTL_OK;
	return fail_output(ctl, errno ? -errno : -EIO);
}

struct distmind_pool *ctl_pool(struct ctl *ctl)
{
	int ret;

	if (ctl->pool)
		return ctl->pool;
	ret = distmind_pool_open(&ctl->pool);
	if (!ret)
		return ctl->pool;
	ctl->pool = NULL;
	if (ret == -ENOENT)
		ctl_fail(ctl, "cannot open the pool: the module distmind is not loaded; "
			      "run: modprobe distmind");
	else
		ctl_fail(ctl, "cannot open the pool: %s; check the set-up: " PROGRAM " doctor",
			 strerror(-ret));
	return NULL;
}

void ctl_close(struct ctl *ctl)
{
	if (ctl->pool)
		distmind_pool_close(ctl->pool);
	ctl->pool = NULL;
}

const struct command *ctl_command(struct ctl *ctl, const struct command *commands, const char *word)
{
	const struct command *found = NULL;
	const struct command *command;
	size_t len = strlen(word);
	char candidates[128] = "";
	int matches = 0;

	for (command = commands; command->name; command++) {
		if (strncmp(command->name, word, len))
			continue;
		if (!command->name[len])
			return command;
		found = command;
		snprintf(candidates + strlen(candidates), sizeof(candidates) - strlen(candidates),
			 "%s%s", matches++ ? ", " : "", command->name);
	}
	if (matches == 1 && len)
		return found;
	if (matches && len)
		ctl_usage(ctl, "'%s' is ambiguous: %s", word, candidates);
	else
		ctl_usage(ctl, "there is no command '%s%s%s'", ctl->noun ? ctl->noun : "",
			  ctl->noun ? " " : "", word);
	return NULL;
}

int ctl_noun(struct ctl *ctl, const struct command *verbs, int argc, char **argv)
{
	const struct command *verb = verbs;

	ctl->command = NULL;
	argc = ctl_options_first(ctl, argc, &argv, NULL);
	if (argc < 0)
		return ctl->status;
	if (argc) {
		verb = ctl_command(ctl, verbs, argv[0]);
		if (!verb)
			return CTL_USAGE;
	} else {
		/* A list has no arguments; the noun stands where the verb would. */
		argc = 1;
		argv--;
	}
	ctl->command = verb;
	return verb->run(ctl, argc, argv);
}
