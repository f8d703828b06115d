// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The store of a cluster: etcd's version 3 JSON gateway.
 *
 * A request goes to the server that answered last, and in turn to the others when that
 * one does not. A transaction is only sent again when it is certain that nobody received
 * it: its compares would make a second one fail although the first one was carried out.
 * etcd's own locks are not used: every write compares revisions.
 *
 * What is sent and what comes is large, and text: so all of this runs in a loop of its own, by
 * the thread of courier.h.
 */
#include "etcd.h"

#include "courier.h"
#include "http.h"
#include "tls.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

#define ENDPOINTS_MAX 16
#define ADDRESS_MAX   300

/*
 * A range comes in pages, of keys: etcd does not know pages of bytes. So the first one is small,
 * and the others have as many keys as make up PAGE_BYTES if their values are as large as those of
 * the page before. If they are not, and it takes too long, the page is small again.
 */
#define PAGE_BYTES (4UL << 20)
#define PAGE_SMALL 8
#define PAGE_LARGE 256
#define PAGE_NAMES 8192

struct etcd {
	struct catalog_store base;
	struct catalog_http *http;
	unsigned int timeout_ms;
	char *endpoints[ENDPOINTS_MAX];
	size_t endpoint_count;
	size_t current; /* the one that answered last */
	LIST_HEAD(, request) requests;
	LIST_HEAD(, catalog_watch) watches;
};

struct kind {
	const char *path;
	bool once;
	int (*parse)(const char *text, size_t size, struct etcd_answer *answer, char *error);
};

static const struct kind range_kind = { "kv/range", false, etcd_range_parse };
static const struct kind txn_kind = { "kv/txn", true, etcd_txn_parse };
static const struct kind grant_kind = { "lease/grant", false, etcd_grant_parse };
static const struct kind keep_kind = { "lease/keepalive", false, etcd_keep_parse };
static const struct kind revoke_kind = { "lease/revoke", false, etcd_revoke_parse };
static const struct kind alarm_kind = { "maintenance/alarm", false, etcd_alarm_parse };

struct request {
	LIST_ENTRY(request) link;
	struct etcd *store;
	const struct kind *kind;
	char *text;
	catalog_done done;
	void *arg;
	char *prefix; /* of a range in pages */
	enum catalog_scope scope;
	size_t limit; /* keys of a page */
	size_t before; /* entries of earlier pages */
	struct catalog_http_call *call;
	size_t endpoint;
	size_t tries;
	struct etcd_answer answer;
	char error[CATALOG_ERROR_LEN];
};

struct catalog_watch {
	LIST_ENTRY(catalog_watch) link;
	struct etcd *store;
	struct catalog_http_call *call;
	catalog_done changed;
	void *arg;
	bool *gone; /* set when it is ended from within changed() */
};

static void free_request(struct request *request)
{
	LIST_REMOVE(request, link);
	if (request->call)
		catalog_http_cancel(request->call);
	catalog_entries_clear(&request->answer.entries);
	free(request->prefix);
	free(request->text);
	free(request);
}

static void finish(struct request *request, int err)
{
	struct catalog_result result = {
		.err = err,
		.error = err ? request->error : "",
		.revision = request->answer.revision,
		.entries = request->answer.entries.rows,
		.count = err ? 0 : request->answer.entries.count,
		.lease = request->answer.lease,
		.owner = err ? NULL : &request->answer.entries,
	};

	if (err && !request->error[0])
		result.error = strerror(-err);
	request->done(&result, request->arg);
	free_request(request);
}

static void on_answer(const struct catalog_http_answer *http_answer, void *arg);

static int send_to(struct etcd *store, size_t endpoint, const char *path,
		   struct catalog_http_post *post, struct catalog_http_call **call)
{
	char url[512];

	snprintf(url, sizeof(url), "%s/v3/%s", store->endpoints[endpoint], path);
	post->url = url;
	post->connect_ms = store->timeout_ms;
	*call = catalog_http_post(store->http, post);
	return *call ? 0 : -ENOMEM;
}

static int send_request(struct request *request)
{
	struct catalog_http_post post = {
		.body = request->text,
		.timeout_ms = request->store->timeout_ms,
		.once = request->kind->once,
		.done = on_answer,
		.arg = request,
	};

	return send_to(request->store, request->endpoint, request->kind->path, &post,
		       &request->call);
}

/* The next page, of the same moment as the first. */
static int ask_for_page(struct request *request)
{
	struct catalog_entries *entries = &request->answer.entries;
	const char *last = entries->count ? entries->rows[entries->count - 1].key : NULL;

	free(request->text);
	request->text = etcd_range_text(request->prefix, request->scope, request->limit, last,
					request->answer.revision);
	return request->text ? send_request(request) : -ENOMEM;
}

static int ask_for_more(struct request *request)
{
	struct catalog_entries *entries = &request->answer.entries;
	size_t bytes = 0, count = entries->count - request->before;

	if (request->scope == CATALOG_BELOW) {
		for (size_t i = request->before; i < entries->count; i++)
			bytes += entries->rows[i].size;
		request->limit = PAGE_BYTES / (bytes / count + 1);
		if (request->limit < PAGE_SMALL)
			request->limit = PAGE_SMALL;
		if (request->limit > PAGE_LARGE)
			request->limit = PAGE_LARGE;
	}
	request->before = entries->count;
	request->tries = 0;
	return ask_for_page(request);
}

static int retry(struct request *request)
{
	struct etcd *store = request->store;

	request->endpoint = (request->endpoint + 1) % store->endpoint_count;
	request->tries++;
	return send_request(request);
}

static void explain(struct request *request, const char *reason)
{
	struct etcd *store = request->store;

	if (store->endpoint_count == 1)
		snprintf(request->error, sizeof(request->error), "etcd at %s: %s",
			 store->endpoints[0], reason);
	else
		snprintf(request->error, sizeof(request->error),
			 "none of %zu etcd servers answers, the last, %s: %s",
			 store->endpoint_count, store->endpoints[request->endpoint], reason);
}

static void on_failure(struct request *request, bool sent, const char *reason)
{
	bool last = request->tries + 1 >= request->store->endpoint_count;
	int err;

	if (sent && request->kind->once) {
		snprintf(request->error, sizeof(request->error),
			 "etcd at %s: %s: whether it was written is not known",
			 request->store->endpoints[request->endpoint], reason);
		/* Not the first one to be asked for what happened. */
		request->store->current = (request->endpoint + 1) % request->store->endpoint_count;
		finish(request, -ETIMEDOUT);
		return;
	}
	if (sent && request->scope == CATALOG_BELOW && request->limit > PAGE_SMALL) {
		request->limit = PAGE_SMALL;
		err = ask_for_page(request);
	} else if (last) {
		explain(request, reason);
		err = -EHOSTUNREACH;
	} else {
		err = retry(request);
	}
	if (err)
		finish(request, err);
}

static int understand(struct request *request, const struct catalog_http_answer *answer)
{
	uint64_t first = request->answer.revision;
	int err;

	err = request->kind->parse(answer->body, answer->size, &request->answer, request->error);
	/* Every page tells the revision of now; that of the first is what is shown. */
	if (first && request->prefix)
		request->answer.revision = first;
	if (err)
		return err;
	if (request->kind == &txn_kind && !request->answer.succeeded) {
		snprintf(request->error, sizeof(request->error), "another write came first");
		return -ESTALE;
	}
	if (request->kind == &keep_kind && !request->answer.alive) {
		snprintf(request->error, sizeof(request->error), "the lease has ended");
		return -ENOENT;
	}
	return 0;
}

static void on_answer(const struct catalog_http_answer *answer, void *arg)
{
	struct request *request = arg;
	char reason[CATALOG_ERROR_LEN];
	int err;

	request->call = NULL;
	if (answer->err) {
		on_failure(request, answer->err != -ECONNREFUSED, answer->error);
		return;
	}
	if (answer->status != 200) {
		err = etcd_refusal_parse(answer->status, answer->body, answer->size, reason);
		if (err == -EAGAIN) {
			on_failure(request, true, reason);
			return;
		}
		snprintf(request->error, sizeof(request->error), "etcd at %s: %.*s",
			 request->store->endpoints[request->endpoint], CATALOG_ERROR_LEN - 200,
			 reason);
		finish(request, err);
		return;
	}
	request->store->current = request->endpoint;
	err = understand(request, answer);
	if (!err && request->prefix && request->answer.more) {
		err = ask_for_more(request);
		if (!err)
			return;
	}
	finish(request, err);
}

static size_t first_limit(enum catalog_scope scope)
{
	return scope == CATALOG_NAMES ? PAGE_NAMES : PAGE_SMALL;
}

/* Takes the text. */
static int start(struct catalog_store *base, const struct kind *kind, char *text,
		 const char *prefix, enum catalog_scope scope, catalog_done done, void *arg)
{
	struct etcd *store = (struct etcd *)base;
	struct request *request = calloc(1, sizeof(*request));
	char *copy = prefix ? strdup(prefix) : NULL;

	if (!request || !text || (prefix && !copy)) {
		free(request);
		free(text);
		free(copy);
		return -ENOMEM;
	}
	*request = (struct request){
		.store = store,
		.kind = kind,
		.text = text,
		.prefix = copy,
		.scope = scope,
		.limit = first_limit(scope),
		.done = done,
		.arg = arg,
		.endpoint = store->current,
	};
	LIST_INSERT_HEAD(&store->requests, request, link);
	if (send_request(request)) {
		free_request(request);
		return -ENOMEM;
	}
	return 0;
}

static int etcd_range(struct catalog_store *base, const char *key, enum catalog_scope scope,
		      catalog_done done, void *arg)
{
	return start(base, &range_kind, etcd_range_text(key, scope, first_limit(scope), NULL, 0),
		     scope == CATALOG_ONE ? NULL : key, scope, done, arg);
}

static int etcd_txn(struct catalog_store *base, const struct catalog_txn *txn, catalog_done done,
		    void *arg)
{
	return start(base, &txn_kind, etcd_txn_text(txn), NULL, CATALOG_ONE, done, arg);
}

static int etcd_grant(struct catalog_store *base, unsigned int ttl_s, catalog_done done, void *arg)
{
	return start(base, &grant_kind, etcd_grant_text(ttl_s), NULL, CATALOG_ONE, done, arg);
}

static int etcd_keep(struct catalog_store *base, uint64_t lease, catalog_done done, void *arg)
{
	return start(base, &keep_kind, etcd_lease_text(lease), NULL, CATALOG_ONE, done, arg);
}

static int etcd_revoke(struct catalog_store *base, uint64_t lease, catalog_done done, void *arg)
{
	return start(base, &revoke_kind, etcd_lease_text(lease), NULL, CATALOG_ONE, done, arg);
}

static int etcd_alarm(struct catalog_store *base, catalog_done done, void *arg)
{
	return start(base, &alarm_kind, etcd_alarm_text(), NULL, CATALOG_ONE, done, arg);
}

/*
 * Watches
 */

static void on_change(const char *line, size_t size, void *arg)
{
	struct catalog_watch *watch = arg;
	struct etcd_answer answer = { 0 };
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_result result = { .error = error };
	bool gone = false;

	result.err = etcd_watch_parse(line, size, &answer, error);
	if (!result.err && answer.canceled) {
		result.err = -ESTALE;
		snprintf(error, sizeof(error), "changes were missed");
	}
	result.revision = answer.revision;
	if (!result.err) {
		result.entries = answer.entries.rows;
		result.count = answer.entries.count;
		result.owner = &answer.entries;
	}
	watch->gone = &gone;
	if (result.err || result.count)
		watch->changed(&result, watch->arg);
	catalog_entries_clear(&answer.entries);
	if (gone)
		return;
	watch->gone = NULL;
	if (result.err) {
		catalog_http_cancel(watch->call);
		watch->call = NULL;
	}
}

static void on_stream_end(const struct catalog_http_answer *answer, void *arg)
{
	struct catalog_watch *watch = arg;
	char error[CATALOG_ERROR_LEN];
	struct catalog_result result = { .err = -EHOSTUNREACH, .error = error };

	watch->call = NULL;
	if (answer->err)
		snprintf(error, sizeof(error), "%s", answer->error);
	else
		etcd_refusal_parse(answer->status, answer->body, answer->size, error);
	watch->changed(&result, watch->arg);
}

static struct catalog_watch *etcd_watch(struct catalog_store *base, const char *prefix,
					uint64_t from, catalog_done changed, void *arg)
{
	struct etcd *store = (struct etcd *)base;
	struct catalog_watch *watch = calloc(1, sizeof(*watch));
	char *text = etcd_watch_text(prefix, from);
	struct catalog_http_post post = {
		.body = text,
		.line = on_change,
		.done = on_stream_end,
		.arg = watch,
	};

	if (!watch || !text || send_to(store, store->current, "watch", &post, &watch->call)) {
		free(watch);
		free(text);
		return NULL;
	}
	free(text);
	watch->store = store;
	watch->changed = changed;
	watch->arg = arg;
	LIST_INSERT_HEAD(&store->watches, watch, link);
	return watch;
}

static void etcd_unwatch(struct catalog_watch *watch)
{
	if (watch->gone)
		*watch->gone = true;
	if (watch->call)
		catalog_http_cancel(watch->call);
	LIST_REMOVE(watch, link);
	free(watch);
}

static void free_endpoints(struct etcd *store)
{
	for (size_t i = 0; i < store->endpoint_count; i++)
		free(store->endpoints[i]);
	store->endpoint_count = 0;
}

static void etcd_close(struct catalog_store *base)
{
	struct etcd *store = (struct etcd *)base;

	/* done() may ask for more, which ends in the same way. */
	while (!LIST_EMPTY(&store->requests)) {
		struct request *request = LIST_FIRST(&store->requests);

		snprintf(request->error, sizeof(request->error), "the catalog is being closed");
		finish(request, -ECANCELED);
	}
	while (!LIST_EMPTY(&store->watches))
		etcd_unwatch(LIST_FIRST(&store->watches));
	catalog_http_close(store->http);
	free_endpoints(store);
	free(store);
}

static const struct catalog_store_ops etcd_ops = {
	.range = etcd_range,
	.txn = etcd_txn,
	.lease_grant = etcd_grant,
	.lease_keep = etcd_keep,
	.lease_revoke = etcd_revoke,
	.watch = etcd_watch,
	.unwatch = etcd_unwatch,
	.alarm = etcd_alarm,
	.close = etcd_close,
};

/* Whether it is one, as far as can be seen from here. */
static bool is_address(const char *text, size_t len)
{
	char copy[ADDRESS_MAX + 1];
	CURLU *url = curl_url();
	bool right;

	if (len >= sizeof(copy) || !url ||
	    (strncmp(text, "http://", 7) && strncmp(text, "https://", 8))) {
		curl_url_cleanup(url);
		return false;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	right = !strpbrk(copy, " \t") && !curl_url_set(url, CURLUPART_URL, copy, 0);
	curl_url_cleanup(url);
	return right;
}

static int split(struct etcd *store, const char *endpoints, char *error)
{
	for (;;) {
		size_t len = strcspn(endpoints, ",");
		size_t room = len;

		while (room && endpoints[room - 1] == '/')
			room--;
		if (!is_address(endpoints, room)) {
			snprintf(error, CATALOG_ERROR_LEN,
				 "endpoints: \"%.*s\" is not the address of an etcd server: write "
				 "http://HOST:2379 or https://HOST:2379, several separated by "
				 "commas",
				 (int)(len < ADDRESS_MAX ? len : ADDRESS_MAX), endpoints);
			return -EINVAL;
		}
		if (store->endpoint_count == ENDPOINTS_MAX) {
			snprintf(error, CATALOG_ERROR_LEN,
				 "endpoints: more than %d etcd servers: name some of them",
				 ENDPOINTS_MAX);
			return -EINVAL;
		}
		store->endpoints[store->endpoint_count] = strndup(endpoints, room);
		if (!store->endpoints[store->endpoint_count])
			return -ENOMEM;
		store->endpoint_count++;
		if (!endpoints[len])
			return 0;
		endpoints += len + 1;
	}
}

int catalog_etcd_check(const char *endpoints, char *error)
{
	struct etcd store = { 0 };
	int err = split(&store, endpoints, error);

	free_endpoints(&store);
	if (err == -ENOMEM)
		snprintf(error, CATALOG_ERROR_LEN, "no memory");
	return err;
}

/* In the loop that runs it. */
static struct catalog_store *open_inside(struct sd_event *inside, const char *endpoints,
					 const struct catalog_tls *tls, unsigned int timeout_ms,
					 char *error)
{
	struct etcd *store = calloc(1, sizeof(*store));
	int err = -ENOMEM;

	if (!store)
		return NULL;
	store->base.ops = &etcd_ops;
	store->timeout_ms = timeout_ms;
	LIST_INIT(&store->requests);
	LIST_INIT(&store->watches);
	err = split(store, endpoints, error);
	if (!err)
		err = catalog_tls_check(tls, error);
	if (!err) {
		store->http = catalog_http_open(inside, tls);
		if (store->http)
			return &store->base;
		err = -ENOMEM;
	}
	etcd_close(&store->base);
	errno = -err;
	return NULL;
}

struct catalog_store *catalog_etcd_open(struct sd_event *loop, const char *endpoints,
					const struct catalog_tls *tls, unsigned int timeout_ms,
					char *error)
{
	struct catalog_store *store = NULL, *inner;
	sd_event *inside = NULL;
	int err;

	snprintf(error, CATALOG_ERROR_LEN, "no memory");
	err = sd_event_new(&inside);
	if (err < 0) {
		errno = -err;
		return NULL;
	}
	inner = open_inside(inside, endpoints, tls, timeout_ms, error);
	if (inner)
		store = catalog_courier_open(loop, inside, inner);
	sd_event_unref(inside);
	return store;
}
