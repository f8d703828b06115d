// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"
#include "noun.h"

static int print_row(const struct distmind_limit_record *limit, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	print_user(print, "uid", "USER", limit->uid);
	print_bool(print, "container", "CONTAINER", limit->container);
	print_text(print, "what", "WHAT", limit->what);
	print_number(print, "used", "USED", limit->used);
	if (limit->allowed == UINT32_MAX)
		print_none(print, "allowed", "ALLOWED");
	else
		print_number(print, "allowed", "ALLOWED", limit->allowed);
	print_number(print, "refused", "REFUSED", limit->refused);
	print_row_close(print);
	return 0;
}

static int limit_rows(struct distmind_pool *pool, struct print *print)
{
	return distmind_pool_limits(pool, print_row, print);
}

static int limit_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct listing limits = {
		"limits", limit_rows, "no user has anything",
		"you have nothing, so there is no account of it; root sees all users",
	};

	return listing_run(ctl, argc, argv, &limits);
}

const struct command limit_verbs[] = {
	{ "list", "", "Show what users have of everything that is limited, and may have.",
	  limit_list },
	{ 0 },
};

int limit_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, limit_verbs, argc, argv);
}
