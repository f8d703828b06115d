// SPDX-License-Identifier: GPL-2.0-or-later
#include "status.h"

#include <string.h>

#include "../libdistmind/service.h"
#include "reply.h"

#define TIMEOUT_MS 5000

json_t *status_ask(char *reason)
{
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = {
		.body = json_pack("{s:s}", "op", "status"), .timeout_ms = TIMEOUT_MS,
	};
	struct message reply = { 0 };
	json_t *status = NULL;
	int err = distmind_service_open(&service);

	if (err)
		json_decref(request.body);
	else
		err = distmind_service_ask(&service, &request, &reply);
	if (!err)
		status = json_incref(reply.body);
	snprintf(reason, DISTMIND_SERVICE_REASON_LEN, "%s", err ? service.reason : "");
	message_clear(&reply);
	distmind_service_close(&service);
	return status;
}

static void judge_member(const json_t *status, const json_t *catalog, struct finding *finding)
{
	const char *member = reply_text(catalog, "member"), *host = reply_text(status, "host");
	const char *reason = reply_text(catalog, "member_reason");

	if (!strcmp(member, "joined"))
		doctor_find(finding, DOCTOR_OK, NULL, "%s, and this host is in it as %s",
			    strcmp(reply_text(catalog, "kind"), "etcd") ? "a file" : "etcd answers",
			    host);
	else if (!strcmp(member, "fenced"))
		doctor_find(finding, DOCTOR_FAIL,
			    "give one of the two another name ([host] name in distmindd.conf), and "
			    "restart its distmindd",
			    "another host has joined as %s: nothing of this one counts", host);
	else
		doctor_find(finding, DOCTOR_FAIL,
			    "wait a moment; else: journalctl -u distmindd DISTMIND_EVENT=pool-left",
			    "this host is not in the pool%s%s", *reason ? ": " : "", reason);
}

void status_judge_catalog(const json_t *status, struct finding *finding)
{
	const json_t *catalog = json_object_get(status, "catalog");

	if (json_is_true(json_object_get(catalog, "answers")))
		judge_member(status, catalog, finding);
	else
		doctor_find(finding, DOCTOR_FAIL, reply_text(catalog, "fix"),
			    "no answer for %llu s, who is live is not known: %s",
			    (unsigned long long)reply_number(catalog, "silent_ms") / 1000,
			    reply_text(catalog, "reason"));
}

void status_judge_rdma(const json_t *status, unsigned int devices, struct finding *finding)
{
	const json_t *rdma = json_object_get(status, "rdma");
	const char *device = reply_text(rdma, "device");

	if (*device)
		doctor_find(finding, DOCTOR_OK, NULL, "%u device%s active, distmindd uses %s",
			    devices, devices == 1 ? "" : "s", device);
	else
		doctor_find(finding, DOCTOR_FAIL,
			    "give this host the address of a device ([host] address in "
			    "distmindd.conf), or name it (rdma-device), and restart distmindd",
			    "%u device%s active, but distmindd uses none: %s", devices,
			    devices == 1 ? "" : "s", reply_text(rdma, "reason"));
}

bool status_warn(struct ctl *ctl, const json_t *status)
{
	const json_t *catalog = json_object_get(status, "catalog");
	bool answers = !catalog || json_is_true(json_object_get(catalog, "answers"));
	struct finding finding;

	/* Joining takes a moment at each start. */
	if (!catalog || !strcmp(reply_text(catalog, "member"), "joining"))
		if (answers)
			return true;
	status_judge_catalog(status, &finding);
	if (finding.status == DOCTOR_FAIL)
		fprintf(ctl->err, "catalog: %s\n  fix: %s\n", finding.text, finding.fix);
	return answers;
}

void status_ask_and_warn(struct ctl *ctl)
{
	char reason[DISTMIND_SERVICE_REASON_LEN];
	json_t *status = status_ask(reason);

	if (status)
		status_warn(ctl, status);
	json_decref(status);
}
