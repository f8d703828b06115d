/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * JSON posted over HTTP, by libcurl's multi interface in an event loop. Nothing blocks: names
 * are looked up by threads of libcurl's own, for which nobody waits.
 *
 * A call belongs to the http until its done() returns; whoever cancels it gets no done().
 * Both callbacks come from the event loop, never from within post or cancel, and may post
 * and cancel, but not close.
 */
#ifndef CATALOG_HTTP_H
#define CATALOG_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct sd_event;
struct catalog_tls;
struct catalog_http;
struct catalog_http_call;

struct catalog_http_answer {
	int err; /* -ECONNREFUSED: it was not sent; -ETIMEDOUT: the answer did not come */
	const char *error; /* in words */
	long status;
	const char *body;
	size_t size;
};

struct catalog_http_post {
	const char *url;
	const char *body; /* copied */
	unsigned int connect_ms;
	unsigned int timeout_ms; /* 0: for ever, for a stream */
	/*
	 * Never sent twice. libcurl would send it again when a connection that was kept
	 * open turns out to be dead.
	 */
	bool once;
	/* Not NULL: called for each line as it comes, and done() gets what is left. */
	void (*line)(const char *line, size_t size, void *arg);
	void (*done)(const struct catalog_http_answer *answer, void *arg);
	void *arg;
};

/* Paths of tls are copied. NULL: no memory. */
struct catalog_http *catalog_http_open(struct sd_event *loop, const struct catalog_tls *tls);
/* All calls must have ended. NULL is fine. */
void catalog_http_close(struct catalog_http *http);

/* NULL: no memory. */
struct catalog_http_call *catalog_http_post(struct catalog_http *http,
					    const struct catalog_http_post *post);
void catalog_http_cancel(struct catalog_http_call *call);

#endif
