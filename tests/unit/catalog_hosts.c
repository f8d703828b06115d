// SPDX-License-Identifier: GPL-2.0-or-later
/* Hosts in the catalog: leases, generations, and what they say they hold. */
#include "../catalog/host.h"

#include "../../userspace/catalog/batch.h"
#include "../../userspace/catalog/state.h"

/* A store whose watches never tell anything. */
static struct catalog_watch *deaf_watch(struct catalog_store *store, const char *prefix,
					uint64_t from, catalog_done changed, void *arg)
{
	static int nothing;

	(void)store;
	(void)prefix;
	(void)from;
	(void)changed;
	(void)arg;
	return (struct catalog_watch *)&nothing;
}

static void deaf_unwatch(struct catalog_watch *watch)
{
	(void)watch;
}

/* ops has to live as long as the host. */
static void host_open_deaf(struct host *host, const char *pool, struct catalog_store_ops *ops,
			   unsigned int list_ms)
{
	struct catalog_store *store = bed_open();

	*ops = *store->ops;
	ops->watch = deaf_watch;
	ops->unwatch = deaf_unwatch;
	store->ops = ops;
	host_open_store(host, pool, store, list_ms);
}

static uint64_t lease_of(struct host *host, const char *name)
{
	struct outcome outcome = { 0 };
	char key[128];
	uint64_t lease;

	snprintf(key, sizeof(key), "%s/view/host/%s", host->pool, name);
	assert_int_equal(catalog_store_range(host->store, key, CATALOG_ONE, keep_outcome,
					     &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.entries.count, 1);
	lease = outcome.entries.rows[0].lease;
	forget(&outcome);
	return lease;
}

static void a_host_that_joins_is_seen_until_it_leaves(void **state)
{
	const struct catalog_host *record;
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "join");
	assert_int_equal(catalog_age_us(host.catalog), UINT64_MAX);
	assert_int_equal(host_sync(&host), 0);
	assert_null(catalog_host_find(host.catalog, "a"));
	host_join(&host, "a", 60, false);
	wait_until(catalog_host_find(host.catalog, "a"));
	record = catalog_host_find(host.catalog, "a");
	assert_string_equal(record->address, "10.0.0.1:7070");
	assert_string_equal(record->rdma_address, "10.1.0.1");
	assert_int_equal(record->rdma_port, 7471);
	assert_int_equal(record->memory_total, 8ULL << 30);
	assert_int_equal(record->generation, 1);
	assert_int_equal(catalog_member_generation(host.catalog), 1);
	catalog_set_memory_free(host.catalog, 5);
	catalog_set_memory_longest(host.catalog, 3);
	wait_until(catalog_host_find(host.catalog, "a")->memory_free == 5 &&
		   catalog_host_find(host.catalog, "a")->memory_longest == 3);
	assert_int_equal(catalog_leave(host.catalog, keep_outcome, &outcome), 0);
	wait_until(outcome.calls && !catalog_host_find(host.catalog, "a"));
	assert_int_equal(outcome.err, 0);
	assert_int_equal(host_flush(&host), -ENOTCONN);
	catalog_close(host.catalog);
}

static void every_life_of_a_host_has_the_next_generation(void **state)
{
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	for (uint64_t life = 1; life <= 3; life++) {
		host_open(&host, "lives");
		host_join(&host, "a", 60, false);
		assert_int_equal(catalog_member_generation(host.catalog), life);
		host_die(&host);
	}
}

static void what_a_host_holds_is_found(void **state)
{
	struct catalog_holder holder;
	struct host host;
	char name[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "holds");
	assert_int_equal(catalog_hold(host.catalog, digest_of("before")), 0);
	host_join(&host, "a", 60, false);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "chunk-%d", i);
		assert_int_equal(catalog_hold(host.catalog, digest_of(name)), 0);
	}
	assert_int_equal(catalog_lose(host.catalog, digest_of("chunk-7")), 0);
	assert_int_equal(catalog_lose(host.catalog, digest_of("chunk-7")), -ENOENT);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(catalog_chunk_holders(host.catalog, digest_of("before"), &holder, 1), 1);
	assert_string_equal(holder.host, "a");
	assert_true(holder.live);
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "chunk-%d", i);
		assert_int_equal(holders(&host, name, true), i != 7);
	}
	/* A few keys, not one for each. */
	assert_true(keys(&host, "view/chunk/") <= 64);
	catalog_close(host.catalog);
}

static bool is_hot(struct host *host, const char *first, size_t count)
{
	const struct catalog_host *record = catalog_host_find(host->catalog, "a");

	return record && record->hot_count == count && (!count || !strcmp(record->hot[0], first));
}

static void what_a_host_calls_hot_is_seen_while_it_is_there(void **state)
{
	static const char *const names[] = {
		"not good", "org/net:v1", "b", "c", "d", "e", "f", "g", "h", "too-many",
	};
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "hot");
	host_join(&host, "a", 60, false);
	wait_until(is_hot(&host, "", 0));
	catalog_set_hot(host.catalog, &names[1], 2);
	wait_until(is_hot(&host, "org/net:v1", 2));
	assert_string_equal(catalog_host_find(host.catalog, "a")->hot[1], "b");
	catalog_set_hot(host.catalog, names, COUNT(names));
	wait_until(is_hot(&host, "org/net:v1", CATALOG_HOT_MAX));
	assert_string_equal(catalog_host_find(host.catalog, "a")->hot[CATALOG_HOT_MAX - 1], "h");
	/* A new lease does not forget it. */
	assert_int_equal(catalog_store_lease_revoke(host.store, lease_of(&host, "a"), keep_outcome,
						    &outcome), 0);
	wait_until(outcome.calls && !catalog_host_find(host.catalog, "a"));
	catalog_set_memory_free(host.catalog, 5);
	wait_until(host.joined == 2 && is_hot(&host, "org/net:v1", CATALOG_HOT_MAX));
	catalog_set_hot(host.catalog, NULL, 0);
	wait_until(is_hot(&host, "", 0));
	catalog_close(host.catalog);
}

static void a_lease_that_was_lost_is_replaced_and_everything_said_again(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "replaced");
	host_join(&host, "a", 1, false);
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_flush(&host), 0);
	wait_until(holders(&host, "x", true) == 1);
	assert_int_equal(catalog_store_lease_revoke(host.store, lease_of(&host, "a"), keep_outcome,
						    &outcome), 0);
	wait_until(outcome.calls && host.lost);
	wait_until(host.joined == 2);
	assert_int_equal(catalog_member_generation(host.catalog), 2);
	assert_int_equal(host_flush(&host), 0);
	wait_until(holders(&host, "x", true) == 1);
	assert_int_equal(catalog_host_find(host.catalog, "a")->generation, 2);
	catalog_close(host.catalog);
}

static void a_host_that_dies_goes_with_what_it_held(void **state)
{
	struct host dead, witness;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&witness, "dies");
	host_open(&dead, "dies");
	host_join(&dead, "a", 1, false);
	catalog_hold(dead.catalog, digest_of("x"));
	assert_int_equal(host_flush(&dead), 0);
	wait_until(holders(&witness, "x", true) == 1);
	host_die(&dead);
	wait_until(!catalog_host_find(witness.catalog, "a"));
	wait_until(!holders(&witness, "x", true));
	assert_int_equal(holders(&witness, "x", false), 0);
	wait_until(!keys(&witness, "view/chunk/"));
	catalog_close(witness.catalog);
}

static void a_spool_is_remembered_while_its_host_is_away(void **state)
{
	struct catalog_holder holder;
	struct host host, witness;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&witness, "spool");
	host_open(&host, "spool");
	catalog_hold(host.catalog, digest_of("kept"));
	catalog_hold(host.catalog, digest_of("damaged"));
	host_join(&host, "a", 1, true);
	assert_int_equal(host_flush(&host), 0);
	wait_until(holders(&witness, "kept", true) == 1 && holders(&witness, "damaged", true) == 1);
	host_die(&host);
	wait_until(!holders(&witness, "kept", true));
	assert_int_equal(holders(&witness, "kept", false), 1);
	assert_int_equal(catalog_chunk_holders(witness.catalog, digest_of("kept"), &holder, 1), 1);
	assert_string_equal(holder.host, "a");
	/* It comes back, and one file was damaged. */
	host_open(&host, "spool");
	catalog_hold(host.catalog, digest_of("kept"));
	host_join(&host, "a", 60, true);
	wait_until(holders(&witness, "kept", true) == 1);
	wait_until(!holders(&witness, "damaged", false));
	assert_int_equal(holders(&witness, "damaged", true), 0);
	catalog_close(host.catalog);
	catalog_close(witness.catalog);
}

#define SPOOLED 300 /* chunks, some in each bucket */

static const char *spooled(int i)
{
	static char name[32];

	snprintf(name, sizeof(name), "spooled-%d", i);
	return name;
}

static void hold_spooled(struct host *host, int begin, int end)
{
	for (int i = begin; i < end; i++)
		assert_int_equal(catalog_hold(host->catalog, digest_of(spooled(i))), 0);
}

/* Each is noted once: that many as live, and as away. */
static bool are_noted(struct host *witness, size_t live, size_t away)
{
	size_t lives = 0, aways = 0;

	for (int i = 0; i < SPOOLED; i++) {
		lives += holders(witness, spooled(i), true);
		aways += holders(witness, spooled(i), false);
	}
	return lives == live && aways == away;
}

static void begin_restore(struct host *host, const char *pool)
{
	host_open(host, pool);
	catalog_set_restoring(host->catalog, true);
	host_join(host, "a", 1, true);
	assert_int_equal(host_flush(host), 0);
}

static void what_a_spool_had_is_noted_until_it_is_read(void **state)
{
	struct host host, witness;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&witness, "restoring");
	host_open(&host, "restoring");
	hold_spooled(&host, 0, SPOOLED);
	host_join(&host, "a", 1, true);
	wait_until(are_noted(&witness, SPOOLED, 0));
	host_die(&host);
	/* Twice it dies before it has read all of it. */
	for (int i = 0; i < 2; i++) {
		begin_restore(&host, "restoring");
		assert_int_equal(host_sync(&witness), 0);
		assert_true(are_noted(&witness, 0, SPOOLED));
		hold_spooled(&host, 100 * i, 100 * i + 100);
		assert_int_equal(catalog_hold(host.catalog, digest_of("new")), 0);
		assert_int_equal(host_flush(&host), 0);
		assert_int_equal(host_sync(&witness), 0);
		assert_true(are_noted(&witness, 100, SPOOLED - 100));
		assert_int_equal(holders(&witness, "new", true), 1);
		assert_int_equal(holders(&witness, "new", false), 0);
		/* What it gives up meanwhile is not noted any more. */
		assert_int_equal(catalog_lose(host.catalog, digest_of("new")), 0);
		assert_int_equal(host_flush(&host), 0);
		assert_int_equal(host_sync(&witness), 0);
		assert_int_equal(holders(&witness, "new", true), 0);
		assert_int_equal(holders(&witness, "new", false), 0);
		host_die(&host);
		wait_until(!catalog_host_find(witness.catalog, "a"));
		assert_true(are_noted(&witness, 0, SPOOLED));
	}
	/* One is damaged. */
	begin_restore(&host, "restoring");
	hold_spooled(&host, 0, SPOOLED - 1);
	catalog_set_restoring(host.catalog, false);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&witness), 0);
	assert_true(are_noted(&witness, SPOOLED - 1, 0));
	catalog_close(host.catalog);
	catalog_close(witness.catalog);
}

static void a_lease_that_is_lost_while_a_spool_is_read_loses_nothing(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "restoring-twice");
	hold_spooled(&host, 0, SPOOLED);
	host_join(&host, "a", 1, true);
	assert_int_equal(host_flush(&host), 0);
	host_die(&host);
	begin_restore(&host, "restoring-twice");
	hold_spooled(&host, 0, 100);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(catalog_store_lease_revoke(host.store, lease_of(&host, "a"), keep_outcome,
						    &outcome), 0);
	wait_until(outcome.calls && host.joined == 2);
	hold_spooled(&host, 100, 200);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_true(are_noted(&host, 200, SPOOLED - 200));
	catalog_set_restoring(host.catalog, false);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_true(are_noted(&host, 200, 0));
	catalog_close(host.catalog);
}

static void who_was_replaced_cannot_write(void **state)
{
	struct catalog_store_ops deaf;
	struct host old, new;

	(void)state;
	SKIP_WITHOUT_ETCD();
	/* It does not hear that it was. */
	host_open_deaf(&old, "fence", &deaf, 1000000);
	host_join(&old, "a", 60, true);
	catalog_hold(old.catalog, digest_of("old"));
	assert_int_equal(host_flush(&old), 0);
	host_open(&new, "fence");
	host_join(&new, "a", 60, true);
	assert_int_equal(catalog_member_state(old.catalog), CATALOG_JOINED);
	catalog_hold(old.catalog, digest_of("late"));
	assert_int_equal(host_flush(&old), -EOWNERDEAD);
	wait_until(old.fenced == 1);
	assert_int_equal(catalog_member_state(old.catalog), CATALOG_FENCED);
	assert_int_equal(host_flush(&new), 0);
	assert_int_equal(host_sync(&new), 0);
	assert_int_equal(holders(&new, "late", true) + holders(&new, "late", false), 0);
	assert_int_equal(holders(&new, "old", true) + holders(&new, "old", false), 0);
	assert_int_equal(catalog_host_find(new.catalog, "a")->generation, 2);
	assert_int_equal(new.fenced, 0);
	catalog_close(old.catalog);
	catalog_close(new.catalog);
}

static void who_was_replaced_hears_of_it(void **state)
{
	struct host old, new;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&old, "hear");
	host_join(&old, "a", 60, false);
	host_open(&new, "hear");
	host_join(&new, "a", 60, false);
	wait_until(old.fenced == 1);
	assert_int_equal(new.fenced, 0);
	catalog_close(old.catalog);
	catalog_close(new.catalog);
}

static void a_broken_watch_only_delays(void **state)
{
	struct catalog_store_ops deaf;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open_deaf(&host, "deaf", &deaf, LIST_MS);
	assert_int_equal(host_sync(&host), 0);
	host_join(&host, "a", 60, false);
	catalog_hold(host.catalog, digest_of("x"));
	wait_until(catalog_host_find(host.catalog, "a"));
	wait_until(holders(&host, "x", true) == 1);
	catalog_close(host.catalog);
}

static void put_bucket(struct host *host, const char *name, const char *chunk, uint64_t generation,
		       uint64_t lease)
{
	uint8_t value[8 + CATALOG_DIGEST] = { (uint8_t)generation };
	const uint8_t *digest = digest_of(chunk);
	char key[128];
	struct catalog_write write = { key, value, sizeof(value), lease };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };

	memcpy(value + 8, digest, CATALOG_DIGEST);
	snprintf(key, sizeof(key), "%s/view/chunk/%s/%02u", host->pool, name, digest[0] / 4);
	assert_int_equal(catalog_store_txn(host->store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
}

/* Its successor has joined, and has not yet said what it holds. */
static void what_an_earlier_life_held_in_memory_is_not_counted_on(void **state)
{
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "earlier");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_flush(&host), 0);
	put_bucket(&host, "a", "memory", 7, lease_of(&host, "a"));
	put_bucket(&host, "a", "spool", 7, 0);
	put_bucket(&host, "a", "now", 1, lease_of(&host, "a"));
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(holders(&host, "now", true), 1);
	assert_int_equal(holders(&host, "memory", true), 0);
	assert_int_equal(holders(&host, "memory", false), 0);
	assert_int_equal(holders(&host, "spool", true), 0);
	assert_int_equal(holders(&host, "spool", false), 1);
	catalog_close(host.catalog);
}

/* A network that holds a report back, until after its sender has given up on it. */
static struct {
	const struct catalog_store_ops *real;
	bool armed;
	struct catalog_batch held;
	catalog_done done;
	void *arg;
} late;

static void no_answer(const struct catalog_result *result, void *arg)
{
	struct catalog_result lost = { .err = -ETIMEDOUT, .error = "no answer" };

	(void)result;
	(void)arg;
	late.done(&lost, late.arg);
}

static int late_txn(struct catalog_store *store, const struct catalog_txn *txn, catalog_done done,
		    void *arg)
{
	if (!late.armed || !strstr(txn->writes[0].key, "/view/chunk/"))
		return late.real->txn(store, txn, done, arg);
	late.armed = false;
	for (size_t i = 0; i < txn->compare_count; i++)
		catalog_batch_compare(&late.held, txn->compares[i].revision, "%s",
				      txn->compares[i].key);
	for (size_t i = 0; i < txn->write_count; i++)
		catalog_batch_put(&late.held, txn->writes[i].value, txn->writes[i].size,
				  txn->writes[i].lease, "%s", txn->writes[i].key);
	late.done = done;
	late.arg = arg;
	return late.real->range(store, "nothing", CATALOG_ONE, no_answer, NULL);
}

static void a_report_that_comes_late_changes_nothing(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_store_ops ops;
	struct catalog_store *store;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	store = bed_open();
	late.real = store->ops;
	ops = *store->ops;
	ops.txn = late_txn;
	store->ops = &ops;
	host_open_store(&host, "late", store, LIST_MS);
	host_join(&host, "a", 60, false);
	assert_int_equal(host_flush(&host), 0);
	late.armed = true;
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_flush(&host), 0);
	assert_false(late.armed);
	assert_int_equal(catalog_batch_send(store, &late.held, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -ESTALE);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(holders(&host, "x", true), 1);
	/* It is still the same life. */
	assert_int_equal(catalog_member_generation(host.catalog), 1);
	assert_int_equal(host.fenced + host.lost, 0);
	catalog_batch_clear(&late.held);
	catalog_close(host.catalog);
}

static void many_hosts_are_seen_by_all(void **state)
{
	enum { HOSTS = 12 };
	struct host hosts[HOSTS];
	char name[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	for (int i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "host-%d", i);
		host_open(&hosts[i], "many");
		host_join(&hosts[i], name, 60, false);
		catalog_hold(hosts[i].catalog, digest_of("everywhere"));
		catalog_hold(hosts[i].catalog, digest_of(name));
	}
	for (int i = 0; i < HOSTS; i++)
		wait_until(holders(&hosts[i], "everywhere", true) == HOSTS);
	for (int i = 0; i < HOSTS; i++) {
		snprintf(name, sizeof(name), "host-%d", i);
		wait_until(holders(&hosts[(i + 1) % HOSTS], name, true) == 1);
	}
	for (int i = 0; i < HOSTS; i++)
		catalog_close(hosts[i].catalog);
}

static void an_etcd_that_was_killed_loses_nothing(void **state)
{
	struct host a, b;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&a, "killed");
	host_open(&b, "killed");
	host_join(&a, "a", 5, false);
	host_join(&b, "b", 5, true);
	catalog_hold(a.catalog, digest_of("x"));
	assert_int_equal(host_flush(&a), 0);
	assert_int_equal(host_push(&a, "model", "x\ny\n", 2), 0);
	wait_until(host_knows(&b, "model") && holders(&b, "x", true) == 1);
	etcd_server_end(&bed.server); /* SIGKILL */
	catalog_hold(b.catalog, digest_of("y"));
	wait_until(catalog_trouble(b.catalog)[0]);
	assert_contains(catalog_trouble(b.catalog), bed.server.client);
	/* What is known stays known. */
	assert_true(host_knows(&b, "model"));
	assert_int_equal(holders(&b, "x", true), 1);
	assert_int_not_equal(host_sync(&b), 0);
	etcd_server_start(&bed.server);
	assert_int_equal(host_flush(&b), 0);
	wait_until(holders(&a, "y", true) == 1 && holders(&b, "x", true) == 1);
	wait_until(!catalog_trouble(b.catalog)[0]);
	host_die(&b);
	host_open(&b, "killed");
	wait_until(host_knows(&b, "model") && holders(&b, "x", true) == 1);
	catalog_close(a.catalog);
	catalog_close(b.catalog);
}

/* What the catalog has said of its store. */
static struct {
	unsigned int silent, answers;
	uint64_t silent_us;
	char why[CATALOG_ERROR_LEN];
} said;

static void on_silent(const char *why, void *arg)
{
	(void)arg;
	said.silent++;
	snprintf(said.why, sizeof(said.why), "%s", why);
}

static void on_answers(uint64_t silent_us, void *arg)
{
	(void)arg;
	said.answers++;
	said.silent_us = silent_us;
}

/* It takes connections, since the kernel does that for it, and says nothing. */
static void an_etcd_that_is_paused_is_noticed_once(void **state)
{
	struct host a;
	uint64_t begin;

	(void)state;
	SKIP_WITHOUT_ETCD();
	memset(&said, 0, sizeof(said));
	host_open(&a, "paused");
	a.catalog->options.silent = on_silent;
	a.catalog->options.answers = on_answers;
	host_join(&a, "a", 5, false);
	assert_int_equal(host_sync(&a), 0);
	assert_string_equal(catalog_trouble(a.catalog), "");
	assert_int_equal(catalog_silent_us(a.catalog), 0);
	begin = now_us();
	assert_int_equal(kill(bed.server.pid, SIGSTOP), 0);
	wait_until(said.silent);
	assert_true(now_us() - begin < 10000000);
	assert_contains(said.why, bed.server.client);
	/* Other requests fail too, and are no news. */
	begin = now_us();
	wait_until(now_us() - begin > 3000000);
	assert_int_equal(said.silent, 1);
	assert_int_equal(said.answers, 0);
	assert_true(catalog_silent_us(a.catalog) >= 3000000);
	assert_contains(catalog_trouble(a.catalog), bed.server.client);
	assert_int_equal(kill(bed.server.pid, SIGCONT), 0);
	wait_until(said.answers);
	assert_true(said.silent_us >= 3000000);
	assert_int_equal(catalog_silent_us(a.catalog), 0);
	assert_string_equal(catalog_trouble(a.catalog), "");
	/* A lease that ended meanwhile is replaced. */
	wait_until(catalog_member_state(a.catalog) == CATALOG_JOINED &&
		   catalog_host_find(a.catalog, "a"));
	assert_string_equal(catalog_member_trouble(a.catalog), "");
	assert_int_equal(said.silent, 1);
	assert_int_equal(said.answers, 1);
	catalog_close(a.catalog);
}

#define EMBEDDED(test) { #test " (embedded)", test, setup_file, NULL, NULL }
#define ETCD(test) { #test " (etcd)", test, setup_no_store, NULL, NULL }
static uint64_t memory_free_of(struct host *host, const char *name)
{
	const struct catalog_host *record = catalog_host_find(host->catalog, name);

	return record ? record->memory_free : UINT64_MAX;
}

static unsigned int filled, emptied; /* how often that was told */

static void on_full(bool full, void *arg)
{
	(void)arg;
	filled += full;
	emptied += !full;
}

/* Of one bucket, in order. */
static const uint8_t *digest_number(uint32_t number)
{
	static uint8_t digest[CATALOG_DIGEST];

	digest[1] = (uint8_t)(number >> 16);
	digest[2] = (uint8_t)(number >> 8);
	digest[3] = (uint8_t)number;
	return digest;
}

/* Else others would place chunks there that it fetches and cannot keep, again and again. */
static void a_host_that_can_note_no_more_chunks_offers_no_memory(void **state)
{
	struct host host;
	uint64_t offered;
	uint32_t count = 0;

	(void)state;
	SKIP_WITHOUT_ETCD();
	filled = emptied = 0;
	host_open(&host, "full");
	host.catalog->options.full = on_full;
	host_join(&host, "a", 60, false);
	wait_until(memory_free_of(&host, "a") != UINT64_MAX);
	offered = memory_free_of(&host, "a");
	assert_true(offered > 0);
	while (!catalog_hold(host.catalog, digest_number(count)))
		count++;
	assert_int_equal(catalog_hold(host.catalog, digest_number(count)), -ENOSPC);
	assert_int_equal(filled, 1);
	wait_until(!memory_free_of(&host, "a"));
	/* What it says of itself does not change that, nor does a place for a few. */
	catalog_set_memory_free(host.catalog, offered - 1);
	assert_int_equal(catalog_lose(host.catalog, digest_number(--count)), 0);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(memory_free_of(&host, "a"), 0);
	assert_int_equal(emptied, 0);
	while (!emptied)
		assert_int_equal(catalog_lose(host.catalog, digest_number(--count)), 0);
	wait_until(memory_free_of(&host, "a") == offered - 1);
	assert_int_equal(filled, 1);
	catalog_close(host.catalog);
}

#define BOTH(test) EMBEDDED(test), ETCD(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_host_that_joins_is_seen_until_it_leaves),
		BOTH(every_life_of_a_host_has_the_next_generation),
		BOTH(what_a_host_holds_is_found),
		BOTH(what_a_host_calls_hot_is_seen_while_it_is_there),
		BOTH(a_lease_that_was_lost_is_replaced_and_everything_said_again),
		ETCD(a_host_that_dies_goes_with_what_it_held),
		ETCD(a_spool_is_remembered_while_its_host_is_away),
		ETCD(what_a_spool_had_is_noted_until_it_is_read),
		BOTH(a_lease_that_is_lost_while_a_spool_is_read_loses_nothing),
		ETCD(who_was_replaced_cannot_write),
		ETCD(who_was_replaced_hears_of_it),
		BOTH(a_broken_watch_only_delays),
		BOTH(what_an_earlier_life_held_in_memory_is_not_counted_on),
		BOTH(a_report_that_comes_late_changes_nothing),
		BOTH(a_host_that_can_note_no_more_chunks_offers_no_memory),
		ETCD(many_hosts_are_seen_by_all),
		ETCD(an_etcd_that_was_killed_loses_nothing),
		ETCD(an_etcd_that_is_paused_is_noticed_once),
	};

	return cmocka_run_group_tests_name("catalog_hosts", tests, setup_bed, teardown_bed);
}
