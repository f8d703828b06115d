// SPDX-License-Identifier: GPL-2.0-or-later
#include "http.h"

#include "store.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>
#include <time.h>

#define BODY_MAX (256UL << 20)

struct catalog_http_call {
	LIST_ENTRY(catalog_http_call) link;
	struct catalog_http *http;
	CURL *easy;
	struct catalog_http_post post;
	char error[2 * CURL_ERROR_SIZE]; /* libcurl's words, and room for advice */
	char *body;
	size_t size, room;
	bool fresh; /* there may be lines that nobody has seen */
	bool *gone; /* set when it is canceled from within line() */
};

struct catalog_http {
	sd_event *loop;
	CURLM *multi;
	struct curl_slist *headers;
	char *ca, *certificate, *key; /* NULL: none */
	sd_event_source *timer;
	LIST_HEAD(, catalog_http_call) calls;
};

static void free_call(struct catalog_http_call *call)
{
	if (call->gone)
		*call->gone = true;
	LIST_REMOVE(call, link);
	curl_multi_remove_handle(call->http->multi, call->easy);
	curl_easy_cleanup(call->easy);
	free(call->body);
	free(call);
}

void catalog_http_cancel(struct catalog_http_call *call)
{
	free_call(call);
}

/* libcurl must not be called from here, so the lines wait. */
static size_t on_body(char *bytes, size_t one, size_t size, void *arg)
{
	struct catalog_http_call *call = arg;

	(void)one;
	if (call->size + size + 1 > call->room) {
		size_t room = (call->size + size + 1) * 2;
		char *body = room > BODY_MAX ? NULL : realloc(call->body, room);

		if (!body)
			return 0;
		call->body = body;
		call->room = room;
	}
	memcpy(call->body + call->size, bytes, size);
	call->size += size;
	call->body[call->size] = '\0';
	call->fresh = true;
	return size;
}

static void tell_lines(struct catalog_http_call *call)
{
	size_t start = 0;
	bool gone = false;
	char *end;

	call->fresh = false;
	call->gone = &gone;
	while ((end = memchr(call->body + start, '\n', call->size - start))) {
		size_t next = (size_t)(end - call->body) + 1;

		*end = '\0';
		call->post.line(call->body + start, next - 1 - start, call->post.arg);
		if (gone)
			return;
		start = next;
	}
	call->gone = NULL;
	call->size -= start;
	memmove(call->body, call->body + start, call->size + 1);
}

static bool was_never_sent(CURLcode code)
{
	return code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ||
	       code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_SSL_CONNECT_ERROR ||
	       code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_URL_MALFORMAT ||
	       code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_SSL_CERTPROBLEM ||
	       code == CURLE_SSL_CACERT_BADFILE;
}

/*
 * Of TLS 1.3 the client has done its part, and sends the request, when the server looks at
 * its certificate. One that does not like it hangs up; whether its alert can still be read
 * is a matter of luck.
 */
static bool was_hung_up_on(struct catalog_http_call *call, CURLcode code, long status)
{
	curl_off_t secured = 0;

	if (code == CURLE_SSL_CONNECT_ERROR)
		return strstr(call->error, " alert ");
	curl_easy_getinfo(call->easy, CURLINFO_APPCONNECT_TIME_T, &secured);
	return secured && !status &&
	       (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING);
}

/* What to do about a certificate follows what libcurl says. */
static void advise(struct catalog_http_call *call, CURLcode code, long status)
{
	const char *advice = "";
	size_t len;

	if (!call->error[0])
		snprintf(call->error, sizeof(call->error), "%s", curl_easy_strerror(code));
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		advice = ": the server's certificate has to be for its address, and of the "
			 "authority that is given as ca";
	else if (was_hung_up_on(call, code, status))
		advice = ": the server hung up, as it does on a host whose certificate it does "
			 "not accept: give one of its authority as certificate";
	len = strlen(call->error);
	snprintf(call->error + len, sizeof(call->error) - len, "%s", advice);
}

static void end_call(struct catalog_http_call *call, CURLcode code)
{
	struct catalog_http_answer answer = { .error = "", .body = "" };
	curl_off_t connected = 0;

	curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	curl_easy_getinfo(call->easy, CURLINFO_CONNECT_TIME_T, &connected);
	if (code) {
		answer.err = was_never_sent(code) || !connected ? -ECONNREFUSED : -ETIMEDOUT;
		advise(call, code, answer.status);
		answer.error = call->error;
	}
	if (call->body) {
		answer.body = call->body;
		answer.size = call->size;
	}
	call->post.done(&answer, call->post.arg);
	free_call(call);
}

/* The callbacks may end any call, so after each the search begins anew. */
static void tell(struct catalog_http *http)
{
	struct catalog_http_call *call;
	CURLMsg *message;
	int left;

again:
	LIST_FOREACH(call, &http->calls, link)
		if (call->fresh && call->post.line) {
			tell_lines(call);
			goto again;
		}
	while ((message = curl_multi_info_read(http->multi, &left)))
		if (message->msg == CURLMSG_DONE) {
			curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call);
			end_call(call, message->data.result);
		}
}

static int on_socket(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct catalog_http *http = arg;
	int mask = 0, running;

	(void)source;
	if (revents & EPOLLIN)
		mask |= CURL_CSELECT_IN;
	if (revents & EPOLLOUT)
		mask |= CURL_CSELECT_OUT;
	if (revents & (EPOLLERR | EPOLLHUP))
		mask |= CURL_CSELECT_ERR;
	curl_multi_socket_action(http->multi, fd, mask, &running);
	tell(http);
	return 0;
}

static int on_timer(sd_event_source *source, uint64_t us, void *arg)
{
	struct catalog_http *http = arg;
	int running;

	(void)source;
	(void)us;
	curl_multi_socket_action(http->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	tell(http);
	return 0;
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned)
{
	struct catalog_http *http = arg;
	sd_event_source *source = assigned;
	uint32_t events = 0;

	(void)easy;
	if (what == CURL_POLL_REMOVE) {
		sd_event_source_disable_unref(source);
		curl_multi_assign(http->multi, fd, NULL);
		return 0;
	}
	if (what & CURL_POLL_IN)
		events |= EPOLLIN;
	if (what & CURL_POLL_OUT)
		events |= EPOLLOUT;
	if (source)
		return sd_event_source_set_io_events(source, events) < 0 ? -1 : 0;
	if (sd_event_add_io(http->loop, &source, fd, events, on_socket, http) < 0)
		return -1;
	curl_multi_assign(http->multi, fd, source);
	return 0;
}

static int set_timer(CURLM *multi, long ms, void *arg)
{
	struct catalog_http *http = arg;

	(void)multi;
	if (ms < 0)
		return sd_event_source_set_enabled(http->timer, SD_EVENT_OFF) < 0 ? -1 : 0;
	if (sd_event_source_set_time_relative(http->timer, (uint64_t)ms * 1000) < 0 ||
	    sd_event_source_set_enabled(http->timer, SD_EVENT_ONESHOT) < 0)
		return -1;
	return 0;
}

/* There is no way to go without verification. */
static void set_tls(const struct catalog_http *http, CURL *easy)
{
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
	if (http->ca) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, http->ca);
		/* Else the system's authorities would do as well. */
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (http->certificate) {
		curl_easy_setopt(easy, CURLOPT_SSLCERT, http->certificate);
		curl_easy_setopt(easy, CURLOPT_SSLKEY, http->key);
		/* Else a new key with a passphrase would ask for it on the terminal. */
		curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
	}
}

struct catalog_http_call *catalog_http_post(struct catalog_http *http,
					    const struct catalog_http_post *post)
{
	struct catalog_http_call *call = calloc(1, sizeof(*call));
	CURL *easy = curl_easy_init();

	if (!call || !easy)
		goto fail;
	call->http = http;
	call->easy = easy;
	call->post = *post;
	if (curl_easy_setopt(easy, CURLOPT_URL, post->url) ||
	    curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, post->body))
		goto fail;
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, http->headers);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	set_tls(http, easy);
	/* Over TLS as without: what was sent, and once, is told from the connection. */
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	/* The environment of a daemon is nobody's idea of a setting. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/*
	 * Else a call that ends while a thread of libcurl's waits for a name server would wait
	 * for that thread. So the thread is left to itself, and frees what it has.
	 */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 10L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)post->connect_ms);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)post->timeout_ms);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, (long)post->once);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
	LIST_INSERT_HEAD(&http->calls, call, link);
	if (curl_multi_add_handle(http->multi, easy)) {
		LIST_REMOVE(call, link);
		goto fail;
	}
	return call;
fail:
	curl_easy_cleanup(easy);
	free(call);
	return NULL;
}

static char *copy(const char *text, bool *failed)
{
	char *copied = text ? strdup(text) : NULL;

	*failed |= text && !copied;
	return copied;
}

struct catalog_http *catalog_http_open(struct sd_event *loop, const struct catalog_tls *tls)
{
	struct catalog_http *http = calloc(1, sizeof(*http));
	bool failed = false;

	if (!http)
		return NULL;
	LIST_INIT(&http->calls);
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		free(http);
		return NULL;
	}
	http->loop = sd_event_ref(loop);
	http->ca = copy(tls->ca, &failed);
	http->certificate = copy(tls->certificate, &failed);
	http->key = copy(tls->key, &failed);
	http->multi = curl_multi_init();
	/* Without "Expect: 100-continue", which costs a round trip. */
	http->headers = curl_slist_append(NULL, "Expect:");
	if (failed || !http->multi || !http->headers ||
	    !curl_slist_append(http->headers, "Content-Type: application/json") ||
	    sd_event_add_time(loop, &http->timer, CLOCK_MONOTONIC, 0, 1000, on_timer, http) < 0) {
		catalog_http_close(http);
		return NULL;
	}
	sd_event_source_set_enabled(http->timer, SD_EVENT_OFF);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
	curl_multi_setopt(http->multi, CURLMOPT_SOCKETDATA, http);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(http->multi, CURLMOPT_TIMERDATA, http);
	return http;
}

void catalog_http_close(struct catalog_http *http)
{
	if (!http)
		return;
	/* Takes connections that were kept open, and their event sources, with it. */
	curl_multi_cleanup(http->multi);
	curl_slist_free_all(http->headers);
	sd_event_source_disable_unref(http->timer);
	sd_event_unref(http->loop);
	curl_global_cleanup();
	free(http->ca);
	free(http->certificate);
	free(http->key);
	free(http);
}
