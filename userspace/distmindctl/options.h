/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a command, as a table that ends with a NULL name. Those that every
 * command knows (--json, --dry-run, --help) are in none of them.
 */
#ifndef DISTMINDCTL_OPTIONS_H
#define DISTMINDCTL_OPTIONS_H

#include <limits.h>

#include "ctl.h"

struct ctl_option {
	const char *name; /* without its dashes */
	/* Check the value and keep it in *to. An exit code, after what is wrong with it. */
	int (*take)(struct ctl *ctl, const struct ctl_option *option, const char *value);
	void *to;
	uint64_t min, max; /* of a number or duration */
	char letter;	   /* a second name, or 0 */
};

/* What options take, and what they keep. Only a flag has no value. */
int option_flag(struct ctl *ctl, const struct ctl_option *option, const char *value);
/* a const char *, any */
int option_text(struct ctl *ctl, const struct ctl_option *option, const char *value);
/* a const char *, see label_check() */
int option_label(struct ctl *ctl, const struct ctl_option *option, const char *value);
/* a uint32_t */
int option_number(struct ctl *ctl, const struct ctl_option *option, const char *value);
/* a uint64_t, in ns */
int option_duration(struct ctl *ctl, const struct ctl_option *option, const char *value);

/*
 * Take the options, NULL for none, and move argv to the arguments; NULL follows the last
 * one. Returns how many these are, or CTL_STOP: the command ends, with ctl->status.
 * More than most are refused; CTL_ANY: the command says itself what it wants.
 */
#define CTL_STOP (-1)
#define CTL_ANY	 INT_MAX
int ctl_options(struct ctl *ctl, int argc, char ***argv, const struct ctl_option *options,
		int most);
/* The same, if the options end at the first word that is none; there may be any number. */
int ctl_options_first(struct ctl *ctl, int argc, char ***argv,
		      const struct ctl_option *options);

/*
 * For commands without options of their own: the arguments, of which there must be as
 * many as wanted. NULL: the command ends with ctl->status.
 */
char **ctl_arguments(struct ctl *ctl, int argc, char **argv, int wanted);

/* The command was not given what it needs. Returns the exit code. */
int ctl_usage_arguments(struct ctl *ctl);

#endif /* DISTMINDCTL_OPTIONS_H */
