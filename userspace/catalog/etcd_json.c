// SPDX-License-Identifier: GPL-2.0-or-later
#include "etcd.h"

#include "encode.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Codes of gRPC that the gateway passes on. */
enum {
	GRPC_INVALID_ARGUMENT = 3,
	GRPC_DEADLINE_EXCEEDED = 4,
	GRPC_NOT_FOUND = 5,
	GRPC_PERMISSION_DENIED = 7,
	GRPC_RESOURCE_EXHAUSTED = 8,
	GRPC_OUT_OF_RANGE = 11,
	GRPC_UNAVAILABLE = 14,
	GRPC_UNAUTHENTICATED = 16,
};

static json_t *number(uint64_t value)
{
	return json_sprintf("%" PRIu64, value);
}

/* Takes the request. */
static char *text_of(json_t *request)
{
	char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;

	json_decref(request);
	return text;
}

static json_t *key_of(const char *key)
{
	return catalog_base64(key, strlen(key));
}

/* The first key after all those with the prefix: no key of ours has a byte 0xff. */
static json_t *end_of(const char *prefix)
{
	size_t len = strlen(prefix);
	char end[CATALOG_KEY_MAX + 1];

	memcpy(end, prefix, len);
	end[len - 1]++;
	return catalog_base64(end, len);
}

char *etcd_range_text(const char *key, enum catalog_scope scope, size_t limit, const char *after,
		      uint64_t revision)
{
	json_t *request;

	if (scope == CATALOG_ONE)
		return text_of(json_pack("{s:o}", "key", key_of(key)));
	/* The key that follows another is that one and a NUL. */
	request = json_pack("{s:o,s:o,s:i,s:b}", "key",
			    after ? catalog_base64(after, strlen(after) + 1) : key_of(key),
			    "range_end", end_of(key), "limit", (int)limit, "keys_only",
			    scope == CATALOG_NAMES);
	if (request && revision && json_object_set_new(request, "revision", number(revision))) {
		json_decref(request);
		request = NULL;
	}
	return text_of(request);
}

static json_t *put_of(const struct catalog_write *write)
{
	if (!write->value)
		return json_pack("{s:{s:o}}", "request_delete_range", "key", key_of(write->key));
	return json_pack("{s:{s:o,s:o,s:o}}", "request_put", "key", key_of(write->key), "value",
			 catalog_base64(write->value, write->size), "lease", number(write->lease));
}

char *etcd_txn_text(const struct catalog_txn *txn)
{
	json_t *compares = json_array(), *writes = json_array();
	int err = 0;

	for (size_t i = 0; i < txn->compare_count && !err; i++)
		err = json_array_append_new(compares,
					    json_pack("{s:o,s:s,s:s,s:o}", "key",
						      key_of(txn->compares[i].key), "target", "MOD",
						      "result", "EQUAL", "mod_revision",
						      number(txn->compares[i].revision)));
	for (size_t i = 0; i < txn->write_count && !err; i++)
		err = json_array_append_new(writes, put_of(&txn->writes[i]));
	if (err) {
		json_decref(compares);
		json_decref(writes);
		return NULL;
	}
	return text_of(json_pack("{s:o,s:o}", "compare", compares, "success", writes));
}

char *etcd_grant_text(unsigned int ttl_s)
{
	return text_of(json_pack("{s:i}", "TTL", (int)ttl_s));
}

char *etcd_lease_text(uint64_t lease)
{
	return text_of(json_pack("{s:o}", "ID", number(lease)));
}

char *etcd_alarm_text(void)
{
	return text_of(json_pack("{s:s}", "action", "GET"));
}

char *etcd_watch_text(const char *prefix, uint64_t from)
{
	return text_of(json_pack("{s:{s:o,s:o,s:o}}", "create_request", "key", key_of(prefix),
				 "range_end", end_of(prefix), "start_revision", number(from)));
}

static int senseless(char *error, const char *what)
{
	snprintf(error, CATALOG_ERROR_LEN, "an answer without sense: %s: is it an etcd of version "
		 "3.4 or later?", what);
	return -EPROTO;
}

/* An object with a header, whose revision is noted; NULL: error says why. */
static json_t *load(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_error_t where;
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);

	if (!root) {
		senseless(error, where.text);
		return NULL;
	}
	if (!json_is_object(root) || !catalog_json_u64(json_object_get(root, "header"), "revision",
						       &answer->revision)) {
		senseless(error, "no header");
		json_decref(root);
		return NULL;
	}
	return root;
}

static int append_entry(const json_t *kv, bool deleted, struct etcd_answer *answer, char *error)
{
	struct catalog_entry *entry = NULL;
	const json_t *text = json_object_get(kv, "value");
	uint64_t revision, lease;
	size_t key_size, size = 0;
	char *key = catalog_base64_decode(json_object_get(kv, "key"), &key_size);
	/* An empty value is left out. */
	char *value = text ? catalog_base64_decode(text, &size) : calloc(1, 1);
	int err = 0;

	if (!key || !value || strlen(key) != key_size ||
	    !catalog_json_u64(kv, "mod_revision", &revision) ||
	    !catalog_json_u64(kv, "lease", &lease))
		err = senseless(error, "a key, value, revision or lease");
	if (!err) {
		entry = catalog_entries_append(&answer->entries, key, deleted ? NULL : value,
					       deleted ? 0 : size);
		err = entry ? 0 : -ENOMEM;
	}
	if (entry) {
		entry->revision = revision;
		entry->lease = lease;
	}
	free(key);
	free(value);
	return err;
}

int etcd_range_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = load(text, size, answer, error), *kv;
	int err = 0;
	size_t i;

	if (!root)
		return -EPROTO;
	json_array_foreach(json_object_get(root, "kvs"), i, kv) {
		err = append_entry(kv, false, answer, error);
		if (err)
			break;
	}
	answer->more = json_is_true(json_object_get(root, "more"));
	if (!err && answer->more && !i)
		err = senseless(error, "more keys, but none here");
	json_decref(root);
	return err;
}

int etcd_txn_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = load(text, size, answer, error);

	if (!root)
		return -EPROTO;
	answer->succeeded = json_is_true(json_object_get(root, "succeeded"));
	json_decref(root);
	return 0;
}

int etcd_grant_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = load(text, size, answer, error);
	int err = 0;

	if (!root)
		return -EPROTO;
	if (!catalog_json_u64(root, "ID", &answer->lease) || !answer->lease)
		err = senseless(error, "a lease without an ID");
	json_decref(root);
	return err;
}

int etcd_keep_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	const json_t *result = json_object_get(root, "result");
	uint64_t ttl;
	int err = 0;

	/* What has no time left is left out of the answer. */
	if (!json_is_object(result) || !catalog_json_u64(result, "TTL", &ttl) ||
	    !catalog_json_u64(json_object_get(result, "header"), "revision", &answer->revision))
		err = senseless(error, "a lease without a time");
	else
		answer->alive = ttl > 0;
	json_decref(root);
	return err;
}

int etcd_revoke_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = load(text, size, answer, error);

	json_decref(root);
	return root ? 0 : -EPROTO;
}

int etcd_alarm_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = load(text, size, answer, error), *alarm;
	int err = 0;
	size_t i;

	if (!root)
		return -EPROTO;
	/* Of any member. Damage is worse than a lack of space. */
	json_array_foreach(json_object_get(root, "alarms"), i, alarm) {
		const char *kind = json_string_value(json_object_get(alarm, "alarm"));

		if (kind && !strcmp(kind, "CORRUPT")) {
			snprintf(error, CATALOG_ERROR_LEN, "etcd has raised its CORRUPT alarm: "
							   "data of its servers are damaged");
			err = -EBADMSG;
		} else if (kind && !strcmp(kind, "NOSPACE") && !err) {
			snprintf(error, CATALOG_ERROR_LEN, "etcd has raised its NOSPACE alarm: it "
							   "has no space left and refuses writes");
			err = -ENOSPC;
		}
	}
	json_decref(root);
	return err;
}

int etcd_watch_parse(const char *text, size_t size, struct etcd_answer *answer, char *error)
{
	json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL), *event;
	const json_t *result = json_object_get(root, "result");
	int err = 0;
	size_t i;

	if (!json_is_object(result) ||
	    !catalog_json_u64(json_object_get(result, "header"), "revision", &answer->revision)) {
		err = senseless(error, "neither changes nor a header");
		goto out;
	}
	answer->canceled = json_is_true(json_object_get(result, "canceled"));
	json_array_foreach(json_object_get(result, "events"), i, event) {
		const char *type = json_string_value(json_object_get(event, "type"));

		err = append_entry(json_object_get(event, "kv"), type && !strcmp(type, "DELETE"),
				   answer, error);
		if (err)
			break;
	}
out:
	json_decref(root);
	return err;
}

int etcd_refusal_parse(long status, const char *text, size_t size, char *error)
{
	json_t *root = json_loadb(text, size, 0, NULL);
	const json_t *details = json_object_get(root, "error");
	const char *message;
	uint64_t code;
	int err;

	/* A stream wraps it once more. */
	if (!json_is_object(details))
		details = root;
	message = json_string_value(json_object_get(details, "message"));
	if (!catalog_json_u64(details, "code", &code))
		code = 0;
	if (!code)
		catalog_json_u64(details, "grpc_code", &code);
	snprintf(error, CATALOG_ERROR_LEN, "%s (HTTP status %ld)%s",
		 message ? message : "refused without a reason", status,
		 message && strstr(message, "space exceeded") ?
			 ": compact and defragment etcd, or raise its --quota-backend-bytes; then: "
			 "etcdctl alarm disarm" :
			 "");
	switch (code) {
	case GRPC_NOT_FOUND:
		err = -ENOENT;
		break;
	case GRPC_INVALID_ARGUMENT:
		err = message && strstr(message, "too large") ? -EMSGSIZE : -EPROTO;
		break;
	case GRPC_PERMISSION_DENIED:
	case GRPC_UNAUTHENTICATED:
		err = -EACCES;
		break;
	case GRPC_RESOURCE_EXHAUSTED:
		err = message && strstr(message, "too many requests") ? -EAGAIN : -ENOSPC;
		break;
	case GRPC_OUT_OF_RANGE:
		err = -ESTALE;
		break;
	case GRPC_DEADLINE_EXCEEDED:
	case GRPC_UNAVAILABLE:
		err = -EAGAIN;
		break;
	default:
		err = status >= 500 ? -EAGAIN : -EPROTO;
	}
	json_decref(root);
	return err;
}
