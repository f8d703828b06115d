// SPDX-License-Identifier: GPL-2.0-or-later
#include "placement.h"

#include <string.h>

static const struct placement_policy *const policies[] = {
	&placement_best_fit,
};

const struct placement_policy *placement_policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		if (!strcmp(policies[i]->name, name))
			return policies[i];
	return NULL;
}
