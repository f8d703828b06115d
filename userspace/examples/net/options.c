// SPDX-License-Identifier: GPL-2.0-or-later
#include "options.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#define OPTIONS_MAX 16
#define EXIT_USAGE  64

static double number(const struct net_option *option, const char *text)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= option->min) || value > 1e9) {
		fprintf(stderr, "%s: --%s %s: write a number from %g to 1e9\n",
			program_invocation_short_name, option->name, text, option->min);
		exit(EXIT_USAGE);
	}
	return value;
}

static void take(const struct net_option *option, const char *value)
{
	if (option->flag)
		*option->flag = true;
	if (option->text)
		*option->text = value;
	if (option->real)
		*option->real = number(option, value);
	if (option->count)
		*option->count = (uint32_t)number(option, value);
}

void net_options(int argc, char **argv, const struct net_option *options, const char *usage)
{
	/* What getopt_long() returns is the number of the option in the table, plus one. */
	struct option known[OPTIONS_MAX + 2] = { 0 };
	int count = 0, found;

	for (; options[count].name; count++) {
		assert(count < OPTIONS_MAX);
		known[count] = (struct option){
			.name = options[count].name,
			.has_arg = options[count].flag ? no_argument : required_argument,
			.val = count + 1,
		};
	}
	known[count] = (struct option){ .name = "help", .val = count + 1 };
	while ((found = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (found == '?')
			exit(EXIT_USAGE);
		if (found == count + 1) {
			fputs(usage, stdout);
			exit(0);
		}
		take(&options[found - 1], optarg);
	}
	if (optind < argc) {
		fputs(usage, stderr);
		exit(EXIT_USAGE);
	}
}
