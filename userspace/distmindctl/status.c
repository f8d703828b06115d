// SPDX-License-Identifier: GPL-2.0-or-later
#include "status.h"

#include <string.h>

#include "../libdistmind/service.h"
#include "reply.h"

#define TIMEOUT_MS 5000

/* 0: the reply, which is to be cleared; else service says why there is none. */
static int ask(struct distmind_service *service, const char *op, struct message *reply)
{
	struct distmind_service_request request = {
		.body = json_pack("{s:s}", "op", op), .timeout_ms = TIMEOUT_MS,
	};
	int err = distmind_service_open(service);

	*reply = (struct message){ 0 };
	if (!err)
		return distmind_service_ask(service, &request, reply);
	json_decref(request.body);
	return err;
}

json_t *status_ask(char *reason)
{
	struct distmind_service service = { .fd = -1 };
	struct message reply;
	json_t *status = NULL;
	int err = ask(&service, "status", &reply);

	if (!err)
		status = json_incref(reply.body);
	snprintf(reason, DISTMIND_SERVICE_REASON_LEN, "%s", err ? service.reason : "");
	message_clear(&reply);
	distmind_service_close(&service);
	return status;
}

json_t *status_ask_models(void)
{
	struct distmind_service service = { .fd = -1 };
	struct message reply;
	json_t *document = NULL;

	if (!ask(&service, "list", &reply) &&
	    distmind_service_object(&service, &reply, 0, &document))
		document = NULL;
	message_clear(&reply);
	distmind_service_close(&service);
	return document;
}

static void judge_member(const json_t *status, const json_t *catalog, struct finding *finding)
{
	const char *member = reply_text(catalog, "member"), *host = reply_text(status, "host");
	const char *reason = reply_text(catalog, "member_reason");

	if (!strcmp(member, "joined") && json_string_length(json_object_get(catalog, "former")))
		doctor_find(finding, DOCTOR_WARN, reply_text(catalog, "fix"),
			    "this host is in it as %s, and was as %s before: what it had is noted "
			    "under that name",
			    host, reply_text(catalog, "former"));
	else if (!strcmp(member, "joined"))
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
			    "wait a moment; else: journalctl -u distmindd DISTMIND_EVENT=pool-left "
			    "DISTMIND_EVENT=pool-not-joined",
			    "this host is not in the pool%s%s", *reason ? ": " : "", reason);
}

void status_judge_catalog(const json_t *status, struct finding *finding)
{
	const json_t *catalog = json_object_get(status, "catalog");

	if (!json_is_true(json_object_get(catalog, "answers")))
		doctor_find(finding, DOCTOR_FAIL, reply_text(catalog, "fix"),
			    "no answer for %llu s, who is live is not known: %s",
			    (unsigned long long)reply_number(catalog, "silent_ms") / 1000,
			    reply_text(catalog, "reason"));
	else if (json_string_length(json_object_get(catalog, "alarm")))
		doctor_find(finding, DOCTOR_FAIL, reply_text(catalog, "fix"),
			    "%s: nothing can be pushed, and no host can join",
			    reply_text(catalog, "alarm"));
	else
		judge_member(status, catalog, finding);
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

void status_judge_spool(const json_t *status, struct finding *finding)
{
	const json_t *spool = json_object_get(status, "spool");
	const char *path = reply_text(spool, "path"), *reason = reply_text(spool, "reason");
	unsigned long long refused = reply_number(spool, "refused");
	unsigned long long restored = reply_number(spool, "restored");

	if (!*path)
		doctor_find(finding, DOCTOR_OK, NULL,
			    "none: what this host holds is gone when distmindd ends");
	else if (refused)
		doctor_find(finding, DOCTOR_FAIL, reply_text(spool, "fix"),
			    "%s takes no chunks, %llu were refused: %s", path, refused, reason);
	else if (*reason)
		doctor_find(finding, DOCTOR_WARN, reply_text(spool, "fix"), "%s: %s", path, reason);
	else if (json_is_true(json_object_get(spool, "restoring")))
		doctor_find(finding, DOCTOR_OK, NULL, "%s is read: %llu of %llu chunks are there",
			    path, restored, (unsigned long long)reply_number(spool, "files"));
	else
		doctor_find(finding, DOCTOR_OK, NULL, "%s, of which %llu chunks were restored", path,
			    restored);
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
