/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the commands of distmindctl share. */
#ifndef DISTMINDCTL_CTL_H
#define DISTMINDCTL_CTL_H

#include <distmind.h>
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
	int status;			/* see ctl_options() */
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
/* Whether all that was written has arrived; an exit code. */
int ctl_flush(struct ctl *ctl);

#endif /* DISTMINDCTL_CTL_H */
