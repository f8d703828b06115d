// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"

#include "options.h"

int listing_run(struct ctl *ctl, int argc, char **argv, const struct listing *listing)
{
	struct print print;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ctl_print_open(ctl, &print);
	print_list_open(&print, listing->nouns, PRINT_TABLE);
	ret = listing->rows(ctl->pool, &print);
	if (!print_list_close(&print) && !ret)
		ctl_hint(ctl, ctl->admin ? listing->none : listing->none_of_yours);
	if (ret) {
		print_close(&print);
		return ctl_fail_pool(ctl, ret, "cannot list the %s", listing->nouns);
	}
	return ctl_print_close(ctl, &print);
}
