// SPDX-License-Identifier: GPL-2.0-only
/*
 * In the order of arrival, as hardware does it. What others are compared with.
 */
#include "core.h"

static u64 fifo_entity_key(const struct policy_entity *entity)
{
	return entity->arrival_ns;
}

static u64 fifo_tenant_key(const struct policy_tenant *tenant)
{
	return policy_first_entity(tenant)->key;
}

const struct policy policy_fifo = {
	.name = "fifo",
	.entity_key = fifo_entity_key,
	.tenant_key = fifo_tenant_key,
};
