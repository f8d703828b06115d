/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terms of a vgpu, as options give them: memory, share and whether it is a limit,
 * class, objective.
 */
#ifndef DISTMINDCTL_TERMS_H
#define DISTMINDCTL_TERMS_H

#include "options.h"

struct terms {
	uint64_t memory;
	uint64_t objective_ns;
	uint32_t share;
	uint32_t sched_class;
	bool capped;
	uint32_t fields;	/* DISTMIND_SET_*: those that were given */
};

/* For the table of a command that has them; terms is a struct terms *. */
#define TERMS_OPTIONS(terms)                            \
	{ "memory", terms_memory, .to = terms },        \
	{ "share", terms_share, .to = terms },          \
	{ "capped", terms_capped, .to = terms },        \
	{ "class", terms_class, .to = terms },          \
	{ "objective", terms_objective, .to = terms }

int terms_memory(struct ctl *ctl, const struct ctl_option *option, const char *value);
int terms_share(struct ctl *ctl, const struct ctl_option *option, const char *value);
int terms_capped(struct ctl *ctl, const struct ctl_option *option, const char *value);
int terms_class(struct ctl *ctl, const struct ctl_option *option, const char *value);
int terms_objective(struct ctl *ctl, const struct ctl_option *option, const char *value);

/* The terms of a new vgpu: what was not given is filled in. An exit code. */
int terms_complete(struct ctl *ctl, struct terms *terms);

/* In words: "512M, 50% of a gpu at most, class latency, objective 10ms". */
void terms_format(const struct terms *terms, char *buf, size_t len);

#endif /* DISTMINDCTL_TERMS_H */
