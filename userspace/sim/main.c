// SPDX-License-Identifier: GPL-2.0-or-later
#include "sim.h"

#include <locale.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
} commands[] = {
	{ "place", sim_place, "requests on a cluster, one by one: how much of it gets used" },
	{ "serve", sim_serve, "requests for models: latencies, misses, utilisation" },
	{ "group", sim_group, "the layers of a model as groups of a pipeline" },
};

static void usage(FILE *stream)
{
	fputs("usage: distmind-sim COMMAND [OPTION]...\n\n", stream);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		fprintf(stream, "  %-8s%s\n", commands[i].name, commands[i].help);
	fputs("\ndistmind-sim COMMAND --help describes each; see distmind-sim(1).\n", stream);
}

int main(int argc, char **argv)
{
	/* For the width of characters in tables; numbers stay as they are. */
	setlocale(LC_CTYPE, "");
	if (argc < 2) {
		usage(stderr);
		return SIM_USAGE;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return SIM_OK;
	}
	if (!strcmp(argv[1], "--version")) {
		puts("distmind-sim " DISTMIND_VERSION);
		return SIM_OK;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "distmind-sim: there is no command \"%s\": write place, serve or group\n",
		argv[1]);
	return SIM_USAGE;
}
