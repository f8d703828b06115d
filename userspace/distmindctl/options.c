// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <assert.h>
#include <getopt.h>
#include <string.h>

#include "parse.h"

#define OPTIONS_MAX 16 /* of a command */

/* What getopt_long() returns for options without a letter. */
enum {
	DRY_RUN = 0x100,
	OWN, /* and the next ones: those of the command, in its order */
};

static const struct option common[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "dry-run", no_argument, NULL, DRY_RUN },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

int option_flag(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	(void)ctl;
	(void)value;
	*(bool *)option->to = true;
	return CTL_OK;
}

int option_text(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	(void)ctl;
	*(const char **)option->to = value;
	return CTL_OK;
}

int option_label(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	if (label_check(value))
		return ctl_usage(ctl, "--%s %s is not a name: up to %d of A-Z a-z 0-9 . _ -",
				 option->name, value, DISTMIND_NAME_LEN - 1);
	return option_text(ctl, option, value);
}

int option_number(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	uint32_t min = (uint32_t)option->min, max = (uint32_t)option->max;

	if (number_parse(value, min, max, option->to))
		return ctl_usage(ctl, "--%s %s is not a number from %u to %u", option->name, value,
				 min, max);
	return CTL_OK;
}

int option_duration(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	uint64_t *ns = option->to;
	char min[32], max[32];

	if (!duration_parse(value, ns) && *ns >= option->min && *ns <= option->max)
		return CTL_OK;
	duration_format(option->min, min, sizeof(min));
	duration_format(option->max, max, sizeof(max));
	return ctl_usage(ctl, "--%s %s is not a duration from %s to %s, write it as 500ms or 2s",
			 option->name, value, min, max);
}

static bool has_value(const struct ctl_option *option)
{
	return option->take != option_flag;
}

static int show_usage(struct ctl *ctl)
{
	const struct command *command = ctl->command;

	if (!command)
		return ctl_help(ctl);
	fprintf(ctl->out, "usage: distmindctl %s%s%s%s%s\n%s\n", ctl->noun ? ctl->noun : "",
		ctl->noun ? " " : "", command->name, *command->arguments ? " " : "",
		command->arguments, command->summary);
	return CTL_OK;
}

/*
 * Whether the argument is a long option with a value, and the one that getopt_long() complained
 * of: behind short ones that are written together it has not gone on to the next argument.
 */
static bool has_needless_value(const char *argument, const struct option *known, int value)
{
	size_t len = strcspn(argument, "=");

	if (strncmp(argument, "--", 2) || !argument[len])
		return false;
	for (; known->name; known++) {
		if (known->val == value && !strncmp(known->name, argument + 2, len - 2))
			return true;
	}
	return false;
}

/* One option of argv that getopt_long() has found. False: the command ends with ctl->status. */
static bool take(struct ctl *ctl, char **argv, const struct ctl_option *options,
		 const struct option *known, int found)
{
	char letter[3] = "-";
	int i = 0;

	switch (found) {
	case 'j':
		ctl->json = true;
		return true;
	case DRY_RUN:
		ctl->dry_run = true;
		return true;
	case 'h':
		ctl->status = show_usage(ctl);
		return false;
	case ':':
		ctl->status = ctl_usage(ctl, "%s needs a value", argv[optind - 1]);
		return false;
	case '?':
		if (has_needless_value(argv[optind - 1], known, optopt)) {
			ctl->status = ctl_usage(ctl, "%.*s takes no value",
						(int)strcspn(argv[optind - 1], "="),
						argv[optind - 1]);
			return false;
		}
		letter[1] = optopt > 0 && optopt < 0x100 ? optopt : 0;
		ctl->status = ctl_usage(ctl, "%s does not know the option %s",
					ctl->command ? ctl->command->name : "distmindctl",
					letter[1] ? letter : argv[optind - 1]);
		return false;
	}
	while (known[i].val != found)
		i++;
	ctl->status = options[i].take(ctl, &options[i], optarg);
	return ctl->status == CTL_OK;
}

/* As ctl_options() without its limit; mode is how getopt_long() is to treat arguments. */
static int parse(struct ctl *ctl, int argc, char ***argv, const struct ctl_option *options,
		 const char *mode)
{
	struct option known[OPTIONS_MAX + sizeof(common) / sizeof(common[0])];
	char letters[OPTIONS_MAX + 8];
	int count = 0, len, found;

	len = snprintf(letters, sizeof(letters), "%s:jh", mode);
	for (; options && options[count].name; count++) {
		assert(count < OPTIONS_MAX);
		known[count] = (struct option){
			.name = options[count].name,
			.has_arg = has_value(&options[count]) ? required_argument : no_argument,
			.val = options[count].letter ? options[count].letter : OWN + count,
		};
		if (options[count].letter)
			letters[len++] = options[count].letter;
	}
	letters[len] = '\0';
	memcpy(&known[count], common, sizeof(common));
	optind = 0;
	opterr = 0;
	while ((found = getopt_long(argc, *argv, letters, known, NULL)) != -1) {
		if (!take(ctl, *argv, options, known, found))
			return CTL_STOP;
	}
	*argv += optind;
	return argc - optind;
}

int ctl_options(struct ctl *ctl, int argc, char ***argv, const struct ctl_option *options,
		int most)
{
	int count = parse(ctl, argc, argv, options, "");

	if (count <= most)
		return count;
	ctl->status = ctl_usage(ctl, "%s does not know what to do with '%s'", ctl->command->name,
				(*argv)[most]);
	return CTL_STOP;
}

int ctl_options_first(struct ctl *ctl, int argc, char ***argv, const struct ctl_option *options)
{
	return parse(ctl, argc, argv, options, "+");
}

char **ctl_arguments(struct ctl *ctl, int argc, char **argv, int wanted)
{
	int count = ctl_options(ctl, argc, &argv, NULL, wanted);

	if (count == wanted)
		return argv;
	if (count >= 0)
		ctl->status = ctl_usage_arguments(ctl);
	return NULL;
}

/* In one line, however many the help has for them. */
int ctl_usage_arguments(struct ctl *ctl)
{
	const char *from = ctl->command->arguments;
	char line[512];
	size_t len = 0;

	while (*from && len + 1 < sizeof(line)) {
		line[len++] = *from == '\n' ? ' ' : *from;
		from += *from == '\n' ? strspn(from, "\n ") : 1;
	}
	line[len] = 0;
	return ctl_usage(ctl, "%s needs %s", ctl->command->name, line);
}
