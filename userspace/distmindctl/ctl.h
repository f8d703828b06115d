/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the commands of distmindctl share. */
#ifndef DISTMINDCTL_CTL_H
#define DISTMINDCTL_CTL_H

#include <distmind.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "print.h"

#ifndef DISTMIND_VERSION
#define DISTMIND_VERSION "0.1.0"
#endif

/* Exit codes */
enum {
	CTL_OK = 0,
	CTL_FAILED = 1,
	CTL_USAGE = 2,
};

struct ctl {
	FILE *out;
	FILE *err;
	bool json;
	bool dry_run;
	bool colour;
	bool terminal;			/* out is one */
	bool admin;			/* may change the pool */
	const char *daemon_config;	/* of distmindd; NULL: where that is installed */
	struct distmind_pool *pool;	/* from ctl_pool(), until ctl_close() */
	const struct command *command;	/* that parses its options now, if it is known yet */
	const char *noun;		/* of that command, or NULL */
	int status;			/* see ctl_option() */
};

/* A noun, or a verb of one. run() gets the word itself as argv[0]. */
struct command {
	const char *name;
	const char *arguments;
	const char *summary;
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

/* The tool: everything but the set-up of ctl. Returns the exit code. */
int ctl_main(struct ctl *ctl, int argc, char **argv);
void ctl_close(struct ctl *ctl);

/* How the commands are used, or those of ctl->noun. */
int ctl_help(struct ctl *ctl);

/* The pool, opened by the first call. NULL: said why already. */
struct distmind_pool *ctl_pool(struct ctl *ctl);

/* The command that word names or begins; NULL and a message otherwise. */
const struct command *ctl_command(struct ctl *ctl, const struct command *commands,
				  const char *word);

/* Run the verb that argv[1] names; without one, the noun's first. */
int ctl_noun(struct ctl *ctl, const struct command *verbs, int argc, char **argv);

/*
 * getopt_long() with the options that every command knows. Returns an option,
 * -1 after the last one, or CTL_STOP: the command ends, with ctl->status.
 */
#define CTL_STOP (-2)
enum {
	CTL_OPTION_DRY_RUN = 0x100,
	CTL_OPTION_ALL,
	CTL_OPTION_PREEMPT,
	CTL_OPTION_CLASS,
	CTL_OPTION_COUNT,
	CTL_OPTION_DURATION,
	CTL_OPTION_FREE,
	CTL_OPTION_GID,
	CTL_OPTION_GPU,
	CTL_OPTION_INTERVAL,
	CTL_OPTION_KIND,
	CTL_OPTION_MEMORY,
	CTL_OPTION_NAME,
	CTL_OPTION_OBJECTIVE,
	CTL_OPTION_ONCE,
	CTL_OPTION_OUTPUT,
	CTL_OPTION_SAME_BOX,
	CTL_OPTION_SHARE,
	CTL_OPTION_SVG,
	CTL_OPTION_TIMEOUT,
	CTL_OPTION_UID,
};
#define CTL_OPTIONS                                                \
	{ "json", no_argument, NULL, 'j' },                        \
	{ "dry-run", no_argument, NULL, CTL_OPTION_DRY_RUN },      \
	{ "help", no_argument, NULL, 'h' },                        \
	{ NULL, 0, NULL, 0 }
#define CTL_LETTERS	  ":jh"
#define CTL_LETTERS_FIRST "+:jh" /* options end at the first word that is none */
int ctl_option(struct ctl *ctl, int argc, char **argv, const char *letters,
	       const struct option *options);

/*
 * For commands without options of their own: the arguments after them, of
 * which there must be as many as wanted. NULL: the command ends with ctl->status.
 */
char **ctl_arguments(struct ctl *ctl, int argc, char **argv, int wanted);
/* The same with arguments that may be missing; NULL follows the last one. */
char **ctl_arguments_between(struct ctl *ctl, int argc, char **argv, int least, int most);

/* One line on stderr. They return the exit code. */
int ctl_fail(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));
int ctl_usage(struct ctl *ctl, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A call on the pool failed: what could not be done, the kernel's words, what to do. */
int ctl_fail_pool(struct ctl *ctl, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Refuse early what the kernel would refuse for want of CAP_NET_ADMIN. */
int ctl_need_admin(struct ctl *ctl, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* --dry-run: what would change. */
int ctl_would(struct ctl *ctl, const char *action, const char *object, int64_t id,
	      const char *format, ...) __attribute__((format(printf, 5, 6)));

/* A line on stderr that JSON does not get. */
void ctl_hint(struct ctl *ctl, const char *text);

void ctl_print_open(struct ctl *ctl, struct print *print);
int ctl_print_close(struct ctl *ctl, struct print *print);

#endif /* DISTMINDCTL_CTL_H */
