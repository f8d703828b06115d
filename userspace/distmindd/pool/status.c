// SPDX-License-Identifier: GPL-2.0-or-later
#include "status.h"

#include "models.h"
#include "rdma.h"

#include <errno.h>
#include <string.h>

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

const char *status_alarm_fix(const struct models *models, int alarm, char *text)
{
	if (alarm == -ENOSPC)
		snprintf(text, STATUS_FIX_LEN,
			 "with etcdctl --endpoints=%s: compact REVISION (of endpoint status -w "
			 "json), then defrag; or give etcd more --quota-backend-bytes; then: alarm "
			 "disarm",
			 models->store);
	else
		snprintf(text, STATUS_FIX_LEN,
			 "with etcdctl --endpoints=%s: alarm list names the server; replace it, or "
			 "restore etcd from a snapshot; then: alarm disarm",
			 models->store);
	return text;
}

const char *status_unreadable_fix(const struct catalog_model *model, char *text)
{
	snprintf(text, STATUS_FIX_LEN,
		 "if a newer distmindd pushed it, update this one; else, as root: distmindctl model "
		 "delete %s", model->name);
	return text;
}

struct former {
	const char *self;
	char *name;
};

/* This host itself is away until it is known to have joined. */
static void note_away(const char *name, void *arg)
{
	const struct former *former = arg;

	if (!former->name[0] && strcmp(name, former->self))
		snprintf(former->name, CATALOG_HOST_LEN, "%s", name);
}

const char *status_former(const struct models *models, char *name)
{
	struct former former = { .self = models->chunks.host.name, .name = name };

	name[0] = '\0';
	if (!models->etcd)
		catalog_host_each_away(models->catalog, note_away, &former);
	return name;
}

const char *status_former_fix(const char *former, char *text)
{
	snprintf(text, STATUS_FIX_LEN,
		 "if the name was changed by mistake: name = %s in [host] of distmindd.conf, and "
		 "restart distmindd; if on purpose: distmindctl host forget %s, which names what "
		 "has to be pushed again",
		 former, former);
	return text;
}

static json_t *describe_catalog(const struct models *models)
{
	const char *trouble = catalog_trouble(models->catalog), *why;
	int alarm = catalog_alarm(models->catalog, &why);
	char fix[STATUS_FIX_LEN] = "", former[CATALOG_HOST_LEN];

	status_former(models, former);
	if (trouble[0])
		status_catalog_fix(models, fix);
	else if (alarm)
		status_alarm_fix(models, alarm, fix);
	else if (former[0])
		status_former_fix(former, fix);
	return json_pack("{s:s, s:s, s:b, s:I, s:s, s:s, s:s, s:s, s:s, s:s}", "kind",
			 models->etcd ? "etcd" : "embedded", "store", models->store, "answers",
			 !trouble[0], "silent_ms",
			 (json_int_t)(catalog_silent_us(models->catalog) / 1000), "reason", trouble,
			 "alarm", why, "former", former, "fix", fix, "member",
			 member_names[catalog_member_state(models->catalog)], "member_reason",
			 catalog_member_trouble(models->catalog));
}

json_t *status_memory(const struct models *models)
{
	struct memory_arena_stats stats;

	if (!models->chunks.arena)
		return json_null();
	memory_arena_stats(models->chunks.arena, &stats);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "size", (json_int_t)stats.size, "used",
			 (json_int_t)stats.used, "chunks", (json_int_t)stats.chunks, "bytes",
			 (json_int_t)stats.bytes, "kept_chunks", (json_int_t)stats.doomed,
			 "kept_bytes", (json_int_t)stats.doomed_bytes);
}

json_t *status_describe(struct models *models)
{
	const char *reason, *device = rdma_device(&models->chunks, &reason);

	return json_pack("{s:s, s:o, s:o, s:o, s:{s:s, s:s, s:s}}", "host",
			 models->chunks.host.name, "catalog", describe_catalog(models), "spool",
			 disk_describe(&models->chunks), "memory", status_memory(models), "rdma",
			 "device", device ? device : "", "address",
			 models->chunks.host.rdma_address, "reason", reason);
}
