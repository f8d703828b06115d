// SPDX-License-Identifier: GPL-2.0-or-later
/* What every store must do, on a file and on a real etcd. */
#include "../catalog/bed.h"

static void put_if(struct catalog_store *store, const char *key, const char *value,
		   uint64_t revision, struct outcome *outcome)
{
	struct catalog_compare compare = { key, revision };
	struct catalog_write write = { .key = key, .value = value, .size = strlen(value) };
	struct catalog_txn txn = { &compare, 1, &write, 1 };

	forget(outcome);
	assert_int_equal(catalog_store_txn(store, &txn, keep_outcome, outcome), 0);
}

static uint64_t put(const char *key, const void *value, size_t size, uint64_t lease)
{
	struct catalog_write write = { key, value, size, lease };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_string_equal(outcome.error, "");
	assert_int_equal(outcome.err, 0);
	return outcome.revision;
}

static void get(const char *key, enum catalog_scope scope, struct outcome *outcome)
{
	forget(outcome);
	assert_int_equal(catalog_store_range(bed.store, key, scope, keep_outcome, outcome), 0);
	/* Never from within the request. */
	assert_int_equal(outcome->calls, 0);
	wait_until(outcome->calls);
	assert_string_equal(outcome->error, "");
}

static void expect(const char *key, const char *value)
{
	struct outcome outcome = { 0 };

	get(key, CATALOG_ONE, &outcome);
	assert_int_equal(outcome.entries.count, value ? 1 : 0);
	if (value)
		assert_string_equal(outcome.entries.rows[0].value, value);
	forget(&outcome);
}

static uint64_t grant(unsigned int ttl_s)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_store_lease_grant(bed.store, ttl_s, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	assert_int_not_equal(outcome.lease, 0);
	return outcome.lease;
}

static void what_is_written_is_read_with_its_revision(void **state)
{
	static const char *const keys[] = { "rw/empty", "rw/bytes", "rw/large" };
	struct outcome outcome = { 0 };
	char *large = malloc(CATALOG_VALUE_MAX);
	const void *values[] = { "", "\0\xff\n\"", large };
	size_t sizes[] = { 0, 4, CATALOG_VALUE_MAX };

	(void)state;
	SKIP_WITHOUT_ETCD();
	memset(large, 0x9a, CATALOG_VALUE_MAX);
	for (size_t i = 0; i < COUNT(keys); i++) {
		uint64_t revision = put(keys[i], values[i], sizes[i], 0);

		get(keys[i], CATALOG_ONE, &outcome);
		assert_int_equal(outcome.entries.count, 1);
		assert_string_equal(outcome.entries.rows[0].key, keys[i]);
		assert_int_equal(outcome.entries.rows[0].size, sizes[i]);
		assert_memory_equal(outcome.entries.rows[0].value, values[i], sizes[i]);
		assert_int_equal(outcome.entries.rows[0].revision, revision);
		assert_true(outcome.revision >= revision);
	}
	free(large);
	forget(&outcome);
}

static void a_write_needs_the_revision_that_was_read(void **state)
{
	struct outcome outcome = { 0 };
	uint64_t created;

	(void)state;
	SKIP_WITHOUT_ETCD();
	put_if(bed.store, "if/a", "one", 7, &outcome);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -ESTALE);
	expect("if/a", NULL);
	put_if(bed.store, "if/a", "one", 0, &outcome);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	created = outcome.revision;
	put_if(bed.store, "if/a", "two", 0, &outcome);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -ESTALE);
	assert_string_equal(outcome.error, "another write came first");
	expect("if/a", "one");
	put_if(bed.store, "if/a", "two", created, &outcome);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	assert_true(outcome.revision > created);
	expect("if/a", "two");
	forget(&outcome);
}

static void of_two_writers_exactly_one_wins(void **state)
{
	struct catalog_store *other = bed.store;
	struct outcome a = { 0 }, b = { 0 };
	char key[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	/* A file has one process, but it may ask twice. */
	if (bed.etcd)
		other = bed_open();
	for (int round = 0; round < 20; round++) {
		snprintf(key, sizeof(key), "race/%d", round);
		put_if(bed.store, key, "a", 0, &a);
		put_if(other, key, "b", 0, &b);
		wait_until(a.calls && b.calls);
		assert_true((a.err == 0 && b.err == -ESTALE) || (a.err == -ESTALE && b.err == 0));
		expect(key, a.err ? "b" : "a");
	}
	if (bed.etcd)
		catalog_store_close(other);
	forget(&a);
	forget(&b);
}

static void a_transaction_is_all_or_nothing(void **state)
{
	struct catalog_compare compares[] = { { "txn/a", 0 }, { "txn/b", 0 } };
	struct catalog_write writes[] = {
		{ "txn/a", "1", 1, 0 },
		{ "txn/b", NULL, 0, 0 },
		{ "txn/c", "3", 1, 0 },
	};
	struct catalog_txn txn = { compares, 2, writes, 3 };
	struct outcome outcome = { 0 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	put("txn/b", "old", 3, 0);
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -ESTALE);
	expect("txn/a", NULL);
	expect("txn/b", "old");
	expect("txn/c", NULL);
	txn.compare_count = 1;
	forget(&outcome);
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	expect("txn/a", "1");
	expect("txn/b", NULL);
	get("txn/", CATALOG_BELOW, &outcome);
	assert_int_equal(outcome.entries.count, 2);
	assert_int_equal(outcome.entries.rows[0].revision, outcome.entries.rows[1].revision);
	forget(&outcome);
}

static void what_no_store_takes_is_refused_at_once(void **state)
{
	char key[CATALOG_KEY_MAX + 2];
	char *large = calloc(1, CATALOG_VALUE_MAX + 1);
	struct catalog_write writes[CATALOG_TXN_MAX + 1] = {
		{ "a", large, CATALOG_VALUE_MAX + 1, 0 },
	};
	struct catalog_txn txn = { .writes = writes, .write_count = 1 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	memset(key, 'k', sizeof(key));
	key[sizeof(key) - 1] = '\0';
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, NULL), -EMSGSIZE);
	txn.write_count = CATALOG_TXN_MAX + 1;
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, NULL), -EMSGSIZE);
	writes[0] = writes[1] = (struct catalog_write){ .key = "twice" };
	txn.write_count = 2;
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, NULL), -EINVAL);
	assert_int_equal(catalog_store_range(bed.store, key, CATALOG_ONE, keep_outcome, NULL),
			 -EINVAL);
	assert_int_equal(catalog_store_range(bed.store, "", CATALOG_BELOW, keep_outcome, NULL),
			 -EINVAL);
	assert_int_equal(catalog_store_lease_grant(bed.store, 0, keep_outcome, NULL), -EINVAL);
	free(large);
}

/* More keys than fit one page of etcd's answer. */
static void a_listing_is_complete_and_sorted(void **state)
{
	enum { KEYS = 600 };
	struct catalog_write writes[CATALOG_TXN_MAX];
	char keys[CATALOG_TXN_MAX][32];
	struct catalog_txn txn = { .writes = writes };
	struct outcome outcome = { 0 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	put("list.", "before", 6, 0);
	put("list0", "after", 5, 0);
	for (int i = KEYS; i-- > 0;) {
		snprintf(keys[txn.write_count], sizeof(keys[0]), "list/%04d", i);
		writes[txn.write_count] =
			(struct catalog_write){ keys[txn.write_count], "x", 1, 0 };
		txn.write_count++;
		if (txn.write_count < CATALOG_TXN_MAX)
			continue;
		forget(&outcome);
		assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
		wait_until(outcome.calls);
		assert_int_equal(outcome.err, 0);
		txn.write_count = 0;
	}
	assert_int_equal(txn.write_count, 0);
	get("list/", CATALOG_BELOW, &outcome);
	assert_int_equal(outcome.entries.count, KEYS);
	for (int i = 0; i < KEYS; i++) {
		snprintf(keys[0], sizeof(keys[0]), "list/%04d", i);
		assert_string_equal(outcome.entries.rows[i].key, keys[0]);
	}
	get("list/", CATALOG_NAMES, &outcome);
	assert_int_equal(outcome.entries.count, KEYS);
	for (int i = 0; i < KEYS; i++) {
		snprintf(keys[0], sizeof(keys[0]), "list/%04d", i);
		assert_string_equal(outcome.entries.rows[i].key, keys[0]);
		assert_int_equal(outcome.entries.rows[i].size, 0);
		assert_true(outcome.entries.rows[i].revision > 0);
	}
	forget(&outcome);
}

static void a_lease_that_is_not_kept_takes_its_keys_along(void **state)
{
	struct outcome outcome = { 0 }, keep = { 0 };
	uint64_t start = now_us(), kept, lost;

	(void)state;
	SKIP_WITHOUT_ETCD();
	kept = grant(1);
	lost = grant(1);
	put("lease/kept", "1", 1, kept);
	put("lease/lost/a", "2", 1, lost);
	put("lease/lost/b", "3", 1, lost);
	put("lease/none", "4", 1, 0);
	do {
		forget(&keep);
		assert_int_equal(catalog_store_lease_keep(bed.store, kept, keep_outcome, &keep), 0);
		wait_until(keep.calls);
		assert_int_equal(keep.err, 0);
		get("lease/lost/", CATALOG_BELOW, &outcome);
		sd_event_run(bed.loop, 50000);
	} while (outcome.entries.count);
	assert_true(now_us() - start >= 900000);
	assert_true(now_us() - start < 8000000);
	expect("lease/kept", "1");
	expect("lease/none", "4");
	forget(&keep);
	assert_int_equal(catalog_store_lease_keep(bed.store, lost, keep_outcome, &keep), 0);
	wait_until(keep.calls);
	assert_int_equal(keep.err, -ENOENT);
	forget(&keep);
	assert_int_equal(catalog_store_lease_revoke(bed.store, kept, keep_outcome, &keep), 0);
	wait_until(keep.calls);
	assert_int_equal(keep.err, 0);
	expect("lease/kept", NULL);
	forget(&outcome);
}

static void a_write_with_a_dead_lease_is_refused(void **state)
{
	struct catalog_write write = { "dead/a", "x", 1, 4711 };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, -ENOENT);
	assert_true(strlen(outcome.error) > 0);
	expect("dead/a", NULL);
}

static void a_key_changes_its_lease(void **state)
{
	struct outcome outcome = { 0 };
	uint64_t lease, other;

	(void)state;
	SKIP_WITHOUT_ETCD();
	lease = grant(60);
	other = grant(60);
	put("move/a", "1", 1, lease);
	put("move/a", "2", 1, other);
	put("move/b", "1", 1, lease);
	put("move/b", "2", 1, 0);
	assert_int_equal(catalog_store_lease_revoke(bed.store, lease, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	expect("move/a", "2");
	expect("move/b", "2");
	forget(&outcome);
	assert_int_equal(catalog_store_lease_revoke(bed.store, other, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	expect("move/a", NULL);
}

static void a_watch_tells_changes_in_order(void **state)
{
	struct outcome changes = { 0 };
	struct catalog_write removal = { .key = "watch/a" };
	struct catalog_txn txn = { .writes = &removal, .write_count = 1 };
	struct outcome outcome = { 0 };
	struct catalog_watch *watch;
	uint64_t revision;

	(void)state;
	SKIP_WITHOUT_ETCD();
	revision = put("watch/before", "0", 1, 0);
	watch = catalog_store_watch(bed.store, "watch/", revision + 1, keep_outcome, &changes);
	assert_non_null(watch);
	put("watch/a", "1", 1, 0);
	put("elsewhere", "1", 1, 0);
	put("watch/b", "", 0, 0);
	assert_int_equal(catalog_store_txn(bed.store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls && changes.entries.count >= 3);
	assert_int_equal(changes.err, 0);
	assert_int_equal(changes.entries.count, 3);
	assert_string_equal(changes.entries.rows[0].key, "watch/a");
	assert_string_equal(changes.entries.rows[0].value, "1");
	assert_int_equal(changes.entries.rows[0].revision, revision + 1);
	assert_string_equal(changes.entries.rows[1].key, "watch/b");
	assert_non_null(changes.entries.rows[1].value);
	assert_string_equal(changes.entries.rows[2].key, "watch/a");
	assert_null(changes.entries.rows[2].value);
	assert_int_equal(changes.entries.rows[2].revision, revision + 4);
	catalog_store_unwatch(bed.store, watch);
	changes.calls = 0;
	put("watch/c", "1", 1, 0);
	expect("watch/c", "1");
	assert_int_equal(changes.calls, 0);
	forget(&changes);
}

static void a_lease_that_ends_is_a_change(void **state)
{
	struct outcome changes = { 0 }, outcome = { 0 };
	struct catalog_watch *watch;
	uint64_t lease, revision;

	(void)state;
	SKIP_WITHOUT_ETCD();
	lease = grant(60);
	revision = put("mourn/a", "1", 1, lease);
	watch = catalog_store_watch(bed.store, "mourn/", revision + 1, keep_outcome, &changes);
	assert_int_equal(catalog_store_lease_revoke(bed.store, lease, keep_outcome, &outcome), 0);
	wait_until(outcome.calls && changes.entries.count);
	assert_string_equal(changes.entries.rows[0].key, "mourn/a");
	assert_null(changes.entries.rows[0].value);
	catalog_store_unwatch(bed.store, watch);
	forget(&changes);
}

static void what_was_acknowledged_survives_a_crash(void **state)
{
	struct outcome outcome = { 0 };
	uint64_t revisions[20];
	char key[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	for (int i = 0; i < 20; i++) {
		snprintf(key, sizeof(key), "crash/%02d", i);
		revisions[i] = put(key, key, strlen(key), 0);
	}
	put("crash/19", NULL, 0, 0);
	if (bed.etcd) {
		etcd_server_end(&bed.server); /* SIGKILL */
		etcd_server_start(&bed.server);
	} else {
		catalog_store_close(bed.store);
		bed.store = bed_open();
	}
	get("crash/", CATALOG_BELOW, &outcome);
	assert_int_equal(outcome.entries.count, 19);
	for (int i = 0; i < 19; i++) {
		snprintf(key, sizeof(key), "crash/%02d", i);
		assert_string_equal(outcome.entries.rows[i].key, key);
		assert_string_equal(outcome.entries.rows[i].value, key);
		assert_int_equal(outcome.entries.rows[i].revision, revisions[i]);
	}
	/* And the next write is a later one. */
	assert_true(put("crash/next", "1", 1, 0) > outcome.revision);
	forget(&outcome);
}

static void closing_ends_what_is_pending(void **state)
{
	struct outcome range = { 0 }, grant = { 0 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	assert_int_equal(catalog_store_range(bed.store, "x", CATALOG_BELOW, keep_outcome, &range),
			 0);
	assert_int_equal(catalog_store_lease_grant(bed.store, 5, keep_outcome, &grant), 0);
	assert_non_null(catalog_store_watch(bed.store, "x", 1, keep_outcome, NULL));
	catalog_store_close(bed.store);
	bed.store = NULL;
	assert_int_equal(range.calls, 1);
	assert_int_equal(range.err, -ECANCELED);
	assert_int_equal(grant.calls, 1);
	assert_int_equal(grant.err, -ECANCELED);
}

static const struct CMUnitTest tests[] = {
	ON_BOTH(what_is_written_is_read_with_its_revision),
	ON_BOTH(a_write_needs_the_revision_that_was_read),
	ON_BOTH(of_two_writers_exactly_one_wins),
	ON_BOTH(a_transaction_is_all_or_nothing),
	ON_BOTH(what_no_store_takes_is_refused_at_once),
	ON_BOTH(a_listing_is_complete_and_sorted),
	ON_BOTH(a_lease_that_is_not_kept_takes_its_keys_along),
	ON_BOTH(a_write_with_a_dead_lease_is_refused),
	ON_BOTH(a_key_changes_its_lease),
	ON_BOTH(a_watch_tells_changes_in_order),
	ON_BOTH(a_lease_that_ends_is_a_change),
	ON_BOTH(what_was_acknowledged_survives_a_crash),
	ON_BOTH(closing_ends_what_is_pending),
};

int main(void)
{
	return cmocka_run_group_tests_name("catalog_store", tests, setup_bed, teardown_bed);
}
