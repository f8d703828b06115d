// SPDX-License-Identifier: GPL-2.0-or-later
/* What can go wrong between the catalog and etcd. */
#include "../catalog/host.h"

#include "../../userspace/catalog/encode.h"
#include "../../userspace/catalog/etcd.h"
#include "../../userspace/catalog/http.h"

static void put(struct catalog_store *store, const char *key, struct outcome *outcome)
{
	struct catalog_compare compare = { key, 0 };
	struct catalog_write write = { key, "value", 5, 0 };
	struct catalog_txn txn = { &compare, 1, &write, 1 };

	forget(outcome);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
}

static struct catalog_store *open_at(const char *endpoints, unsigned int timeout_ms)
{
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store;

	store = catalog_etcd_open(bed.loop, endpoints, &no_tls, timeout_ms, error);
	if (!store)
		fail_msg("%s", error);
	return store;
}

static void range(struct catalog_store *store, const char *key, struct outcome *outcome)
{
	forget(outcome);
	assert_int_equal(catalog_store_range(store, key, CATALOG_BELOW, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
}

static void addresses_are_checked(void **state)
{
	static const char *const bad[] = {
		"", "localhost:2379", "http://", "ftp://x", "http://a,", "http://a,b", ",http://a",
		"http://a,,http://b", "http://a b:1", "http://a:99999", "http://a:port",
	};
	char error[CATALOG_ERROR_LEN];
	struct catalog_store *store;

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_null(catalog_etcd_open(bed.loop, bad[i], &no_tls, 100, error));
		assert_contains(error, "write http://HOST:2379");
		assert_int_equal(catalog_etcd_check(bad[i], error), -EINVAL);
		assert_contains(error, "endpoints: ");
	}
	assert_int_equal(catalog_etcd_check("http://a:1/,https://b:2", error), 0);
	store = catalog_etcd_open(bed.loop, "http://a:1/,https://b:2", &no_tls, 100, error);
	assert_non_null(store);
	catalog_store_close(store);
}

/* A port on which nobody listens. */
static void dead_address(char *url, size_t room)
{
	uint16_t port;

	close(listen_somewhere(&port));
	snprintf(url, room, "http://127.0.0.1:%u", port);
}

static void a_server_that_is_not_there_is_named(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	char url[64];

	(void)state;
	dead_address(url, sizeof(url));
	store = open_at(url, 500);
	range(store, "x", &outcome);
	assert_int_equal(outcome.err, -EHOSTUNREACH);
	assert_contains(outcome.error, url);
	/* It was not even sent, so it is known that nothing was written. */
	put(store, "x", &outcome);
	assert_int_equal(outcome.err, -EHOSTUNREACH);
	catalog_store_close(store);
}

static void another_server_is_asked_when_one_is_gone(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	char url[64], urls[256];

	(void)state;
	SKIP_WITHOUT_ETCD();
	dead_address(url, sizeof(url));
	snprintf(urls, sizeof(urls), "%s,%s", url, bed.server.client);
	store = open_at(urls, 1000);
	put(store, "gone/a", &outcome);
	assert_int_equal(outcome.err, 0);
	range(store, "gone/", &outcome);
	assert_int_equal(outcome.entries.count, 1);
	forget(&outcome);
	catalog_store_close(store);
}

static void a_server_that_hangs_takes_its_time_limit(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	char urls[256];
	uint16_t port;
	uint64_t start;
	int fd = listen_somewhere(&port);

	(void)state;
	SKIP_WITHOUT_ETCD();
	snprintf(urls, sizeof(urls), "http://127.0.0.1:%u,%s", port, bed.server.client);
	store = open_at(urls, 300);
	start = now_us();
	/* It may have been carried out, so it is not sent to the other one. */
	put(store, "hang/a", &outcome);
	assert_int_equal(outcome.err, -ETIMEDOUT);
	assert_contains(outcome.error, "not known");
	assert_true(now_us() - start >= 290000 && now_us() - start < 5000000);
	catalog_store_close(store);
	store = open_at(urls, 300);
	range(store, "hang/", &outcome);
	assert_int_equal(outcome.err, 0);
	assert_int_equal(outcome.entries.count, 0);
	catalog_store_close(store);
	close(fd);
}

/*
 * A proxy that loses answers: two of five connections are closed when the answer to a
 * transaction comes.
 */
static void relay(int client, uint16_t port, bool lossy)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int server = socket(AF_INET, SOCK_STREAM, 0);
	static char buffer[65536];
	bool lose = false;

	if (connect(server, (struct sockaddr *)&address, sizeof(address)))
		_exit(1);
	for (;;) {
		struct pollfd fds[2] = { { client, POLLIN, 0 }, { server, POLLIN, 0 } };

		if (poll(fds, 2, -1) < 0)
			_exit(1);
		for (int i = 0; i < 2; i++) {
			ssize_t len;

			if (!fds[i].revents)
				continue;
			len = read(fds[i].fd, buffer, sizeof(buffer) - 1);
			if (len <= 0 || (i && lose))
				_exit(0);
			buffer[len] = '\0';
			if (!i && lossy && strstr(buffer, "/v3/kv/txn"))
				lose = true;
			if (write(fds[1 - i].fd, buffer, (size_t)len) != len)
				_exit(0);
		}
	}
}

static pid_t start_proxy(char *url, size_t room)
{
	pid_t parent = getpid(), child;
	uint16_t port;
	int fd = listen_somewhere(&port);

	snprintf(url, room, "http://127.0.0.1:%u", port);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		signal(SIGCHLD, SIG_IGN);
		for (unsigned int n = 0;; n++) {
			int client = accept(fd, NULL, NULL);

			if (client < 0)
				_exit(1);
			if (!fork()) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				relay(client, bed.server.port, n % 5 % 2);
			}
			close(client);
		}
	}
	close(fd);
	return child;
}

static void an_answer_that_was_lost_does_not_mislead(void **state)
{
	struct outcome outcome = { 0 };
	unsigned int lost = 0;
	struct catalog_store *store;
	struct host host;
	char url[64], name[32];
	pid_t proxy;

	(void)state;
	SKIP_WITHOUT_ETCD();
	proxy = start_proxy(url, sizeof(url));
	store = open_at(url, 2000);
	/* The store says that it does not know. */
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "lost/%d", i);
		put(store, name, &outcome);
		assert_true(!outcome.err || outcome.err == -ETIMEDOUT);
		lost += outcome.err != 0;
		range(store, name, &outcome);
		assert_int_equal(outcome.entries.count, 1);
	}
	assert_true(lost > 0);
	/* The catalog finds out. */
	host_open_store(&host, "lossy", store, LIST_MS);
	host_join(&host, "a", 60, false);
	assert_int_equal(catalog_member_generation(host.catalog), 1);
	for (int i = 0; i < 6; i++) {
		struct outcome deleted = { 0 };

		assert_int_equal(host_push(&host, "m", "x\n", 1), 0);
		assert_int_equal(host_push(&host, "m", "x\n", 1), -EEXIST);
		assert_int_equal(catalog_model_delete(host.catalog, "m", 0, keep_outcome, &deleted),
				 0);
		wait_until(deleted.calls);
		assert_int_equal(deleted.err, 0);
	}
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_flush(&host), 0);
	wait_until(holders(&host, "x", true) == 1);
	forget(&outcome);
	catalog_close(host.catalog);
	kill(proxy, SIGKILL);
	waitpid(proxy, NULL, 0);
}

/* Each of three is killed once, beginning with the one that is asked first. */
static void a_cluster_goes_on_without_one_of_its_servers(void **state)
{
	struct etcd_server servers[3] = { 0 };
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	char urls[256], key[32];
	unsigned int count = 0;

	(void)state;
	SKIP_WITHOUT_ETCD();
	etcd_server_create(servers, 3, bed.directory);
	snprintf(urls, sizeof(urls), "%s,%s,%s", servers[0].client, servers[1].client,
		 servers[2].client);
	store = open_at(urls, 2000);
	for (unsigned int victim = 0; victim < 3; victim++) {
		uint64_t end = now_us() + WAIT_S * 1000000ULL;

		etcd_server_end(&servers[victim]); /* SIGKILL */
		snprintf(key, sizeof(key), "cluster/%u", victim);
		/* An election takes its time; a conflict is the answer to what was written. */
		do {
			put(store, key, &outcome);
			assert_true(now_us() < end);
		} while (outcome.err && outcome.err != -ESTALE);
		count++;
		range(store, "cluster/", &outcome);
		assert_int_equal(outcome.err, 0);
		assert_int_equal(outcome.entries.count, count);
		etcd_server_start(&servers[victim]);
	}
	forget(&outcome);
	catalog_store_close(store);
	for (unsigned int i = 0; i < 3; i++)
		etcd_server_end(&servers[i]);
}

static void note_answer(const struct catalog_http_answer *answer, void *arg)
{
	assert_int_equal(answer->status, 200);
	*(bool *)arg = true;
}

static void a_watch_of_what_was_compacted_says_so(void **state)
{
	struct catalog_http *http;
	struct outcome outcome = { 0 }, changes = { 0 };
	struct catalog_watch *watch;
	char url[128], body[64];
	bool compacted = false;
	struct catalog_http_post post = {
		.url = url, .body = body, .connect_ms = 1000, .timeout_ms = 2000,
		.done = note_answer, .arg = &compacted,
	};

	(void)state;
	SKIP_WITHOUT_ETCD();
	put(bed.store, "compact/a", &outcome);
	put(bed.store, "compact/b", &outcome);
	http = catalog_http_open(bed.loop, &no_tls);
	snprintf(url, sizeof(url), "%s/v3/kv/compaction", bed.server.client);
	snprintf(body, sizeof(body), "{\"revision\":\"%llu\"}",
		 (unsigned long long)outcome.revision);
	assert_non_null(catalog_http_post(http, &post));
	wait_until(compacted);
	watch = catalog_store_watch(bed.store, "compact/", 1, keep_outcome, &changes);
	wait_until(changes.err);
	assert_int_equal(changes.err, -ESTALE);
	catalog_store_unwatch(bed.store, watch);
	catalog_http_close(http);
}

/*
 * A server of FAT keys, whose values are empty at first and as large as they can be from then on,
 * and from which no more than THROUGH bytes come through at once.
 */

#define FAT 40
#define FAT_FROM 8
#define THROUGH (16UL << 20)

/* The keys behind the one that was asked for, at most so many. */
static void answer_fat(int fd, const char *question)
{
	json_t *root = json_loads(question, 0, NULL);
	size_t limit = (size_t)json_integer_value(json_object_get(root, "limit")), size, first;
	char *key = catalog_base64_decode(json_object_get(root, "key"), &size), name[16];
	char *value = calloc(1, CATALOG_VALUE_MAX), *text;
	json_t *kvs = json_array();

	first = key[4] ? (size_t)atoi(key + 4) + 1 : 0;
	for (size_t i = first; i < FAT && i < first + limit; i++) {
		snprintf(name, sizeof(name), "fat/%04zu", i);
		json_array_append_new(kvs, json_pack("{s:o, s:s, s:o}", "key",
						     catalog_base64(name, strlen(name)),
						     "mod_revision", "7", "value",
						     catalog_base64(value, i < FAT_FROM ? 0 :
								    CATALOG_VALUE_MAX)));
	}
	json_decref(root);
	root = json_pack("{s:{s:s}, s:o, s:b}", "header", "revision", "7", "kvs", kvs, "more",
			 first + limit < FAT);
	text = json_dumps(root, JSON_COMPACT);
	size = strlen(text);
	dprintf(fd, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
		size);
	for (size_t sent = 0; sent < size && sent < THROUGH;) {
		size_t rest = size < THROUGH ? size - sent : THROUGH - sent;
		ssize_t len = write(fd, text + sent, rest);

		if (len <= 0)
			break;
		sent += (size_t)len;
	}
	json_decref(root);
	free(text);
	free(value);
	free(key);
}

static pid_t start_fat_server(char *url, size_t room)
{
	pid_t parent = getpid(), child;
	uint16_t port;
	int fd = listen_somewhere(&port);

	snprintf(url, room, "http://127.0.0.1:%u", port);
	child = fork();
	assert_true(child >= 0);
	if (child) {
		close(fd);
		return child;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	while (getppid() == parent) {
		int client = accept(fd, NULL, NULL);
		char question[4096], *body;
		size_t len = 0;
		ssize_t more;

		/* It ends with its JSON. */
		while ((more = read(client, question + len, sizeof(question) - 1 - len)) > 0) {
			len += (size_t)more;
			question[len] = '\0';
			body = strstr(question, "\r\n\r\n");
			if (body && strchr(body, '}'))
				break;
		}
		if (more > 0)
			answer_fat(client, body + 4);
		close(client);
	}
	_exit(1);
}

static void a_range_comes_in_pages_that_fit(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	pid_t server;
	char url[64];

	(void)state;
	server = start_fat_server(url, sizeof(url));
	store = open_at(url, WAIT_S * 1000);
	range(store, "fat/", &outcome);
	assert_string_equal(outcome.error, "");
	assert_int_equal(outcome.entries.count, FAT);
	for (size_t i = 0; i < FAT; i++)
		assert_int_equal(outcome.entries.rows[i].size,
				 i < FAT_FROM ? 0 : CATALOG_VALUE_MAX);
	forget(&outcome);
	catalog_store_close(store);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

/* Every beginning of every answer, and every byte of it changed. */
static void answers_without_sense_are_refused(void **state)
{
	static const struct {
		const char *text;
		int (*parse)(const char *text, size_t size, struct etcd_answer *answer,
			     char *error);
	} good[] = {
		{ "{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"key\":\"YQ==\",\"mod_revision\":"
		  "\"2\",\"value\":\"aGk=\",\"lease\":\"12\"}],\"more\":true,\"count\":\"2\"}",
		  etcd_range_parse },
		{ "{\"header\":{\"revision\":\"7\"},\"succeeded\":true}", etcd_txn_parse },
		{ "{\"header\":{\"revision\":\"7\"},\"ID\":\"9\",\"TTL\":\"2\"}",
		  etcd_grant_parse },
		{ "{\"result\":{\"header\":{\"revision\":\"7\"},\"ID\":\"9\",\"TTL\":\"2\"}}",
		  etcd_keep_parse },
		{ "{\"result\":{\"header\":{\"revision\":\"7\"},\"events\":[{\"type\":\"DELETE\","
		  "\"kv\":{\"key\":\"YQ==\",\"mod_revision\":\"7\"}}]}}", etcd_watch_parse },
	};
	static const char *const bad[] = {
		"", "null", "[]", "7", "{\"header\":{\"revision\":\"x\"}}",
		"{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"key\":\"Y\"}]}",
		"{\"header\":{\"revision\":\"7\"},\"kvs\":[{\"key\":\"YQA=\"}]}",
		"{\"header\":{\"revision\":\"7\"},\"kvs\":[7]}",
		"{\"header\":{\"revision\":\"7\"},\"more\":true}",
		"{\"header\":{\"revision\":\"99999999999999999999\"}}",
		"{\"header\":{\"revision\":-1}}",
	};
	char error[CATALOG_ERROR_LEN], text[512];
	struct etcd_answer answer = { 0 };

	(void)state;
	for (size_t i = 0; i < COUNT(good); i++) {
		size_t size = strlen(good[i].text);

		assert_int_equal(good[i].parse(good[i].text, size, &answer, error), 0);
		assert_int_equal(answer.revision, 7);
		for (size_t cut = 0; cut < size; cut++)
			assert_int_equal(good[i].parse(good[i].text, cut, &answer, error), -EPROTO);
		for (size_t at = 0; at < size; at++) {
			memcpy(text, good[i].text, size);
			text[at] ^= 4;
			good[i].parse(text, size, &answer, error);
		}
		catalog_entries_clear(&answer.entries);
	}
	for (size_t i = 0; i < COUNT(bad); i++) {
		assert_int_equal(etcd_range_parse(bad[i], strlen(bad[i]), &answer, error), -EPROTO);
		assert_contains(error, "without sense");
		catalog_entries_clear(&answer.entries);
	}
}

static void refusals_are_told_in_words(void **state)
{
	static const struct {
		long status;
		const char *text, *words;
		int err;
	} cases[] = {
		{ 400, "{\"error\":\"etcdserver: request is too large\",\"message\":\"etcdserver: "
		       "request is too large\",\"code\":3}", "request is too large", -EMSGSIZE },
		{ 404, "{\"message\":\"etcdserver: requested lease not found\",\"code\":5}",
		  "lease not found", -ENOENT },
		{ 503, "{\"message\":\"etcdserver: no leader\",\"code\":14}", "no leader",
		  -EAGAIN },
		{ 429, "{\"message\":\"etcdserver: mvcc: database space exceeded\",\"code\":8}",
		  "space exceeded (HTTP status 429): compact and defragment etcd, or raise its "
		  "--quota-backend-bytes; then: etcdctl alarm disarm", -ENOSPC },
		{ 401, "{\"message\":\"etcdserver: user name is empty\",\"code\":16}", "user name",
		  -EACCES },
		{ 502, "<html>Bad gateway</html>", "502", -EAGAIN },
		{ 404, "404 page not found", "404", -EPROTO },
		{ 200, "{\"error\":{\"grpc_code\":14,\"message\":\"unavailable\"}}", "unavailable",
		  -EAGAIN },
	};
	char error[CATALOG_ERROR_LEN];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(etcd_refusal_parse(cases[i].status, cases[i].text,
						    strlen(cases[i].text), error), cases[i].err);
		assert_contains(error, cases[i].words);
	}
}

/* What whoever has a catalog was told of alarms. */
struct alarms {
	unsigned int raised, ended;
};

static void on_alarm(int alarm, const char *why, void *arg)
{
	struct alarms *alarms = arg;

	(void)why;
	alarms->raised += alarm == -ENOSPC;
	alarms->ended += !alarm;
}

static struct catalog *open_catalog(const char *endpoints, struct alarms *alarms)
{
	const struct catalog_options options = {
		.pool = "alarm", .list_ms = LIST_MS, .digests = manifest_digests,
		.alarm = on_alarm, .arg = alarms,
	};
	struct catalog *catalog = catalog_open(bed.loop, open_at(endpoints, TIMEOUT_MS), &options);

	assert_non_null(catalog);
	return catalog;
}

/* The same key again and again: what it was before stays in the history. */
static void fill_up(struct catalog_store *store)
{
	static char value[1 << 20];
	struct outcome outcome = { 0 };
	struct catalog_write write = { "filler", value, sizeof(value), 0 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };

	for (int i = 0; i < 64 && !outcome.err; i++) {
		forget(&outcome);
		assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, &outcome), 0);
		wait_until(outcome.calls);
	}
	assert_int_equal(outcome.err, -ENOSPC);
	assert_contains(outcome.error, "etcdctl alarm disarm");
}

static void compact_and_disarm(const char *endpoint)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "export ETCDCTL_API=3 ETCDCTL_ENDPOINTS=%s; { etcdctl compact --physical "
		 "$(etcdctl endpoint status -w json | "
		 "sed 's/.*\"revision\":\\([0-9]*\\).*/\\1/') && "
		 "etcdctl defrag && etcdctl alarm disarm; } >/dev/null 2>&1",
		 endpoint);
	assert_int_equal(system(command), 0);
}

static void a_server_without_space_is_told_once_until_it_has_some(void **state)
{
	struct etcd_server server = { .quota = "4194304" };
	struct alarms alarms = { 0 };
	struct outcome outcome = { 0 };
	struct catalog_store *store;
	struct catalog *catalog;
	char directory[128];
	const char *why;

	(void)state;
	SKIP_WITHOUT_ETCD();
	if (access("/usr/bin/etcdctl", X_OK))
		skip(); /* nobody could disarm it */
	snprintf(directory, sizeof(directory), "%s/full", bed.directory);
	assert_int_equal(mkdir(directory, 0700), 0);
	etcd_server_create(&server, 1, directory);
	store = open_at(server.client, TIMEOUT_MS);
	catalog = open_catalog(server.client, &alarms);
	wait_until(catalog_age_us(catalog) != UINT64_MAX);
	assert_int_equal(catalog_alarm(catalog, &why), 0);
	assert_string_equal(why, "");
	fill_up(store);
	wait_until(catalog_alarm(catalog, &why));
	assert_int_equal(catalog_alarm(catalog, &why), -ENOSPC);
	assert_contains(why, "NOSPACE alarm");
	/* It answers, so it is not silent. */
	assert_int_equal(catalog_sync(catalog, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	assert_int_equal(catalog_silent_us(catalog), 0);
	compact_and_disarm(server.client);
	wait_until(!catalog_alarm(catalog, &why));
	assert_int_equal(alarms.raised, 1);
	assert_int_equal(alarms.ended, 1);
	put(store, "alarm-ended", &outcome);
	assert_int_equal(outcome.err, 0);
	catalog_close(catalog);
	catalog_store_close(store);
	etcd_server_end(&server);
}

#define ALARMS(list) "{\"header\":{\"revision\":\"7\"},\"alarms\":[" list "]}"

static void alarms_are_understood(void **state)
{
	static const struct {
		const char *text;
		int err;
	} cases[] = {
		{ "{\"header\":{\"revision\":\"7\"}}", 0 },
		{ ALARMS(""), 0 },
		{ ALARMS("{\"memberID\":\"1\",\"alarm\":\"NOSPACE\"}"), -ENOSPC },
		{ ALARMS("{\"alarm\":\"NOSPACE\"},{\"alarm\":\"CORRUPT\"},"
			 "{\"alarm\":\"NOSPACE\"}"), -EBADMSG },
		{ ALARMS("{\"alarm\":\"ANOTHER\"},7"), 0 },
		{ "[]", -EPROTO },
		{ "x", -EPROTO },
	};
	char error[CATALOG_ERROR_LEN];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct etcd_answer answer = { 0 };

		assert_int_equal(etcd_alarm_parse(cases[i].text, strlen(cases[i].text), &answer,
						  error), cases[i].err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_are_checked),
		cmocka_unit_test(a_server_that_is_not_there_is_named),
		ON_ETCD(another_server_is_asked_when_one_is_gone),
		ON_ETCD(a_server_that_hangs_takes_its_time_limit),
		ON_ETCD(an_answer_that_was_lost_does_not_mislead),
		ON_ETCD(a_cluster_goes_on_without_one_of_its_servers),
		ON_ETCD(a_watch_of_what_was_compacted_says_so),
		ON_ETCD(a_server_without_space_is_told_once_until_it_has_some),
		cmocka_unit_test(a_range_comes_in_pages_that_fit),
		cmocka_unit_test(alarms_are_understood),
		cmocka_unit_test(answers_without_sense_are_refused),
		cmocka_unit_test(refusals_are_told_in_words),
	};

	return cmocka_run_group_tests_name("catalog_etcd", tests, setup_bed, teardown_bed);
}
