// SPDX-License-Identifier: GPL-2.0-or-later
#include "terms.h"

#include <string.h>
#include <unistd.h>

#include "../common/size.h"
#include "parse.h"

/* To whole pages, which is what the kernel counts in. False: no such size. */
static bool round_up(uint64_t *bytes)
{
	uint64_t mask = sysconf(_SC_PAGESIZE) - 1;

	if (!*bytes || *bytes > UINT64_MAX - mask)
		return false;
	*bytes = (*bytes + mask) & ~mask;
	return true;
}

int terms_memory(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	struct terms *terms = option->to;

	if (size_parse(value, &terms->memory) || !round_up(&terms->memory))
		return ctl_usage(ctl, "--memory %s is not a size, write it as 512M or 1.5G", value);
	terms->fields |= DISTMIND_SET_MEMORY;
	return CTL_OK;
}

int terms_share(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	struct terms *terms = option->to;

	if (share_parse(value, &terms->share))
		return ctl_usage(ctl,
				 "--share %s is not a percentage from 0.1 to 100, write it as 50 "
				 "or 12.5",
				 value);
	terms->fields |= DISTMIND_SET_SHARE;
	return CTL_OK;
}

int terms_capped(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	struct terms *terms = option->to;

	if (strcmp(value, "yes") && strcmp(value, "no"))
		return ctl_usage(ctl, "--capped %s is not yes or no", value);
	terms->capped = *value == 'y';
	terms->fields |= DISTMIND_SET_CAPPED;
	return CTL_OK;
}

int terms_class(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	struct terms *terms = option->to;
	int sched_class = distmind_class_parse(value);

	if (sched_class < 0)
		return ctl_usage(ctl, "--class %s is not one of best-effort, standard, latency",
				 value);
	terms->sched_class = sched_class;
	terms->fields |= DISTMIND_SET_CLASS;
	return CTL_OK;
}

int terms_objective(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	struct terms *terms = option->to;

	if (duration_parse(value, &terms->objective_ns) || !terms->objective_ns)
		return ctl_usage(ctl, "--objective %s is not a duration, write it as 10ms or 2s",
				 value);
	terms->fields |= DISTMIND_SET_OBJECTIVE;
	return CTL_OK;
}

int terms_complete(struct ctl *ctl, struct terms *terms)
{
	if (!(terms->fields & DISTMIND_SET_MEMORY))
		return ctl_usage(ctl, "--memory is needed, such as --memory 512M");
	if (!(terms->fields & DISTMIND_SET_SHARE))
		terms->share = DISTMIND_SHARE_WHOLE;
	if (!(terms->fields & DISTMIND_SET_CLASS))
		terms->sched_class =
			terms->objective_ns ? DISTMIND_CLASS_LATENCY : DISTMIND_CLASS_STANDARD;
	if (terms->sched_class == DISTMIND_CLASS_LATENCY && !terms->objective_ns)
		return ctl_usage(ctl,
				 "--class latency needs an objective, such as --objective 10ms");
	if (terms->sched_class != DISTMIND_CLASS_LATENCY && terms->objective_ns)
		return ctl_usage(ctl, "--objective goes only with --class latency");
	return CTL_OK;
}

void terms_format(const struct terms *terms, char *buf, size_t len)
{
	char memory[32], share[16], objective[32] = "";

	size_format(terms->memory, memory, sizeof(memory));
	share_format(terms->share, share, sizeof(share));
	if (terms->objective_ns)
		duration_format(terms->objective_ns, objective, sizeof(objective));
	snprintf(buf, len, "%s, %s of a gpu%s, class %s%s%s", memory, share,
		 terms->capped ? " at most" : "", distmind_class_name(terms->sched_class), *objective ? ", objective " : "", objective);
}
