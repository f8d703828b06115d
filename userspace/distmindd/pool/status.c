// SPDX-License-Identifier: GPL-2.0-or-later
#include "status.h"

#include "models.h"
#include "rdma.h"

static const char *const member_names[] = {
	[CATALOG_ABSENT] = "absent",
	[CATALOG_JOINING] = "joining",
	[CATALOG_JOINED] = "joined",
	[CATALOG_FENCED] = "fenced",
};

const char *status_catalog_fix(const struct models *models, char *text)
{
	if (models->etcd)
		snprintf(text, STATUS_FIX_LEN,
			 "see whether etcd runs and can be reached: etcdctl --endpoints=%s "
			 "endpoint health", models->store);
	else
		snprintf(text, STATUS_FIX_LEN, "see the disk of %s, and the kernel's log: dmesg",
			 models->store);
	return text;
}

static json_t *describe_catalog(const struct models *models)
{
	const char *trouble = catalog_trouble(models->catalog);
	char fix[STATUS_FIX_LEN] = "";

	if (trouble[0])
		status_catalog_fix(models, fix);
	return json_pack("{s:s, s:s, s:b, s:I, s:s, s:s, s:s, s:s}", "kind",
			 models->etcd ? "etcd" : "embedded", "store", models->store, "answers",
			 !trouble[0], "silent_ms",
			 (json_int_t)(catalog_silent_us(models->catalog) / 1000), "reason", trouble,
			 "fix", fix, "member",
			 member_names[catalog_member_state(models->catalog)], "member_reason",
			 catalog_member_trouble(models->catalog));
}

json_t *status_describe(struct models *models)
{
	const char *reason, *device = rdma_device(&models->chunks, &reason);

	return json_pack("{s:s, s:o, s:{s:s, s:s, s:s}}", "host", models->chunks.host.name,
			 "catalog", describe_catalog(models), "rdma", "device",
			 device ? device : "", "address", models->chunks.host.rdma_address,
			 "reason", reason);
}
