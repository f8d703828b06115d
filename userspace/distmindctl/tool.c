// SPDX-License-Identifier: GPL-2.0-or-later
/* The nouns put together: options before them, help, version, dispatch. */
#include <string.h>

#include "noun.h"
#include "options.h"
#include "pool.h"

static int help_command(struct ctl *ctl, int argc, char **argv);
static int version_command(struct ctl *ctl, int argc, char **argv);

static const struct command nouns[] = {
	{ "gpu", "", "the gpus of the pool", gpu_command },
	{ "vgpu", "", "the virtual gpus that tenants have", vgpu_command },
	{ "buffer", "", "the memory of vgpus", buffer_command },
	{ "claim", "", "the claims that wait for an answer", claim_command },
	{ "limit", "", "what users have, and how much that may be", limit_command },
	{ "model", "", "the models of the memory pool", model_command },
	{ "host", "", "the hosts of the memory pool", host_command },
	{ "pool", "", "what is promised, where things go and why", pool_command },
	{ "policy", "[fifo|fair|slo|srpt [--gpu GPU|--all]]", "who runs next on the gpus",
	  policy_command },
	{ "top", "[--interval TIME] [--once]", "how busy the gpus are, again and again", top_command },
	{ "trace", "[--gpu GPU] [--duration TIME] [--output FILE] [--svg FILE]",
	  "what the lanes do, as a file for Perfetto or as a picture", trace_command },
	{ "monitor", "[--preempt]", "what happens, a line per event", monitor_command },
	{ "run", "--memory SIZE [--share PERCENT] [--capped yes|no] [--class CLASS]\n"
	  "          [--objective TIME] [--kind KIND] [--count N] [--same-box]\n"
	  "          [--timeout TIME] [--name NAME] -- COMMAND...",
	  "run a command with a vgpu of its own", run_command },
	{ "doctor", "", "what is wrong with this host, and the fix", doctor_command },
	{ "completion", "", "the completion for bash", completion_command },
	{ "help", "[COMMAND [VERB]]", "how commands are used", help_command },
	{ "version", "", "the version", version_command },
	{ 0 },
};

static const struct command *verbs_of(const struct command *noun)
{
	if (noun->run == gpu_command)
		return gpu_verbs;
	if (noun->run == vgpu_command)
		return vgpu_verbs;
	if (noun->run == buffer_command)
		return buffer_verbs;
	if (noun->run == claim_command)
		return claim_verbs;
	if (noun->run == limit_command)
		return limit_verbs;
	if (noun->run == model_command)
		return model_verbs;
	if (noun->run == host_command)
		return host_verbs;
	if (noun->run == pool_command)
		return pool_verbs;
	return NULL;
}

/* A noun with its verbs. Returns how many characters these are. */
static int words_of(const struct command *noun, char *text, size_t len)
{
	size_t used = snprintf(text, len, "%s", noun->name);
	const struct command *verb;

	for (verb = verbs_of(noun); verb && verb->name && used < len; verb++)
		used += snprintf(text + used, len - used, "%c%s",
				 verb == verbs_of(noun) ? ' ' : '|', verb->name);
	return (int)strlen(text);
}

/* A line per command: enough to remember the rest. */
static void overview(struct ctl *ctl)
{
	const struct command *noun;
	int width = 0, used;
	char text[128];

	for (noun = nouns; noun->name; noun++) {
		used = words_of(noun, text, sizeof(text));
		width = used > width ? used : width;
	}
	fprintf(ctl->out, "  %-*s  the pool, in tables\n", width, "(no command)");
	for (noun = nouns; noun->name; noun++) {
		words_of(noun, text, sizeof(text));
		fprintf(ctl->out, "  %-*s  %s\n", width, text, noun->summary);
	}
}

static void usage_line(struct ctl *ctl, const struct command *noun, const struct command *verb)
{
	const struct command *last = verb ? verb : noun;

	fprintf(ctl->out, "  distmindctl %s%s%s%s%s\n      %s\n", noun->name, verb ? " " : "",
		verb ? verb->name : "", *last->arguments ? " " : "", last->arguments,
		last->summary);
}

/* All of its verbs, or only one. */
static void usage_noun(struct ctl *ctl, const struct command *noun, const struct command *only)
{
	const struct command *verb = verbs_of(noun);

	if (!verb)
		usage_line(ctl, noun, NULL);
	for (; verb && verb->name; verb++)
		if (!only || only == verb)
			usage_line(ctl, noun, verb);
}

static int print_help(struct ctl *ctl, const struct command *verb)
{
	const struct command *noun;

	fprintf(ctl->out, "usage: distmindctl [-j] [--dry-run] [COMMAND]\n\n");
	for (noun = nouns; ctl->noun && noun->name; noun++) {
		if (!strcmp(ctl->noun, noun->name))
			usage_noun(ctl, noun, verb);
	}
	if (!ctl->noun)
		overview(ctl);
	fputs("\n"
	      "  -j, --json     print JSON\n"
	      "  --dry-run      say what would change, and change nothing\n"
	      "  -h, --help     say how a command is used\n"
	      "  -V, --version  print the version; before a command only\n"
	      "\n"
	      "Commands can be shortened as long as they are unambiguous. See distmindctl(8).\n",
	      ctl->out);
	return CTL_OK;
}

int ctl_help(struct ctl *ctl)
{
	return print_help(ctl, NULL);
}

static int help_command(struct ctl *ctl, int argc, char **argv)
{
	const struct command *noun, *verb = NULL;

	argc = ctl_options(ctl, argc, &argv, NULL, 2);
	if (argc < 0)
		return ctl->status;
	if (!argc)
		return ctl_help(ctl);
	noun = ctl_command(ctl, nouns, argv[0]);
	if (!noun)
		return CTL_USAGE;
	if (argc > 1 && !verbs_of(noun))
		return ctl_usage(ctl, "help does not know what to do with '%s'", argv[1]);
	ctl->noun = noun->name;
	if (argc > 1) {
		verb = ctl_command(ctl, verbs_of(noun), argv[1]);
		if (!verb)
			return CTL_USAGE;
	}
	return print_help(ctl, verb);
}

static int print_version(struct ctl *ctl)
{
	fprintf(ctl->out, "distmindctl " DISTMIND_VERSION ", ABI %d\n", DISTMIND_ABI_VERSION);
	return CTL_OK;
}

static int version_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_arguments(ctl, argc, argv, 0) ? print_version(ctl) : ctl->status;
}

static int carry_out(struct ctl *ctl, int argc, char **argv)
{
	bool version = false;
	const struct ctl_option options[] = {
		{ "version", option_flag, .to = &version, .letter = 'V' },
		{ 0 },
	};
	const struct command *noun;

	argc = ctl_options_first(ctl, argc, &argv, options);
	if (argc < 0)
		return ctl->status;
	if (version)
		return print_version(ctl);
	if (!argc)
		return pool_show(ctl);
	noun = ctl_command(ctl, nouns, argv[0]);
	if (!noun)
		return CTL_USAGE;
	ctl->command = noun;
	if (verbs_of(noun))
		ctl->noun = noun->name;
	return noun->run(ctl, argc, argv);
}

int ctl_main(struct ctl *ctl, int argc, char **argv)
{
	int ret = carry_out(ctl, argc, argv);

	return ret == CTL_OK ? ctl_flush(ctl) : ret;
}
