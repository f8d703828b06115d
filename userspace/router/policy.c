// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "router.h"

static const struct router_policy *const policies[] = {
	&router_aware,	      &router_four_step, &router_four_step_lfu,
	&router_least_loaded, &router_random,	 &router_fixed,
};

const struct router_policy *router_policy_at(size_t index)
{
	return index < sizeof(policies) / sizeof(policies[0]) ? policies[index] : NULL;
}

const struct router_policy *router_policy_find(const char *name)
{
	const struct router_policy *policy;

	for (size_t i = 0; (policy = router_policy_at(i)); i++)
		if (!strcmp(policy->name, name))
			return policy;
	return NULL;
}
