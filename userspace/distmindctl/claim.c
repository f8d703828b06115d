// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"
#include "noun.h"
#include "parse.h"

void claim_print(struct print *print, const struct distmind_claim_record *claim)
{
	print_number(print, "id", "ID", claim->id);
	print_text(print, "name", "NAME", claim->name);
	print_number(print, "count", "COUNT", claim->count);
	print_size(print, "memory", "MEMORY", claim->memory);
	print_share(print, "share", "SHARE", claim->share);
	print_text(print, "class", "CLASS", distmind_class_name(claim->sched_class));
	if (claim->objective_ns)
		print_duration(print, "objective_ns", "OBJECTIVE", claim->objective_ns, 1);
	else
		print_none(print, "objective_ns", "OBJECTIVE");
	print_text(print, "kind", "KIND", claim->kind);
	print_user(print, "uid", "USER", claim->uid);
	print_number(print, "pid", "PID", claim->pid);
	print_duration(print, "remaining_ms", "REMAINING", claim->remaining_ms, NSEC_PER_MSEC);
	print_detail(print);
	print_bool(print, "capped", "CAPPED", claim->flags & DISTMIND_CLAIM_FLAGS_CAPPED);
	print_bool(print, "same_box", "SAME-BOX", claim->flags & DISTMIND_CLAIM_FLAGS_SAME_BOX);
	print_group(print, "gid", "GROUP", claim->gid);
}

static int print_row(const struct distmind_claim_record *claim, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	claim_print(print, claim);
	print_row_close(print);
	return 0;
}

static int claim_rows(struct distmind_pool *pool, struct print *print)
{
	return distmind_pool_claims(pool, print_row, print);
}

static int claim_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct listing claims = {
		"claims", claim_rows, "no claims wait",
		"no claims of yours wait; root sees all of them",
	};

	return listing_run(ctl, argc, argv, &claims);
}

const struct command claim_verbs[] = {
	{ "list", "", "Show the claims that wait for an answer.", claim_list },
	{ 0 },
};

int claim_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, claim_verbs, argc, argv);
}
