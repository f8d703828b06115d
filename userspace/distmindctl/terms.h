/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The terms of a vgpu, as options give them: memory, share, class, objective. */
#ifndef DISTMINDCTL_TERMS_H
#define DISTMINDCTL_TERMS_H

#include "ctl.h"

struct terms {
	uint64_t memory;
	uint64_t objective_ns;
	uint32_t share;
	uint32_t sched_class;
	uint32_t fields;	/* DISTMIND_SET_*: those that were given */
};

#define TERMS_OPTIONS                                                     \
	{ "memory", required_argument, NULL, CTL_OPTION_MEMORY },         \
	{ "share", required_argument, NULL, CTL_OPTION_SHARE },           \
	{ "class", required_argument, NULL, CTL_OPTION_CLASS },           \
	{ "objective", required_argument, NULL, CTL_OPTION_OBJECTIVE }

/* Take one of TERMS_OPTIONS. An exit code. */
int terms_option(struct ctl *ctl, struct terms *terms, int option, const char *value);

/* The terms of a new vgpu: what was not given is filled in. An exit code. */
int terms_complete(struct ctl *ctl, struct terms *terms);

/* In words: "512M, 50% of a gpu, latency (10ms)". */
void terms_format(const struct terms *terms, char *buf, size_t len);

#endif /* DISTMINDCTL_TERMS_H */
