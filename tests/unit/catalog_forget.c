// SPDX-License-Identifier: GPL-2.0-or-later
/* Hosts that are gone for good. */
#include "../catalog/host.h"

#include "../../userspace/catalog/batch.h"

#define GENERATION 7 /* of the hosts that are away */

static void carry_out(struct host *host, struct catalog_batch *batch)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_batch_send(host->store, batch, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	catalog_batch_clear(batch);
}

/* A host that had a chunk in its spool when it went. */
static void put_away(struct host *host, const char *name, const char *chunk)
{
	uint8_t value[8 + CATALOG_DIGEST] = { GENERATION };
	const uint8_t *digest = digest_of(chunk);
	struct catalog_batch batch = { 0 };
	char text[64];

	memcpy(value + 8, digest, CATALOG_DIGEST);
	catalog_batch_put(&batch, value, sizeof(value), 0, "%s/view/chunk/%s/%02u", host->pool,
			  name, digest[0] / 4);
	snprintf(text, sizeof(text), "{\"generation\":%d,\"nonce\":\"%032d\"}", GENERATION, 0);
	catalog_batch_put(&batch, text, strlen(text), 0, "%s/generation/%s", host->pool, name);
	carry_out(host, &batch);
}

static int try_forget(struct host *host, const char *name, bool force, struct outcome *outcome)
{
	forget(outcome);
	assert_int_equal(catalog_host_forget(host->catalog, name, force, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
	assert_int_equal(outcome->calls, 1);
	return outcome->err;
}

static void append_name(const char *name, void *arg)
{
	strcat(strcat(arg, name), " ");
}

static void expect_away(struct host *host, const char *names)
{
	char found[256] = "";

	assert_int_equal(host_sync(host), 0);
	catalog_host_each_away(host->catalog, append_name, found);
	assert_string_equal(found, names);
}

static void what_a_host_that_is_away_had_is_forgotten(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "forgotten");
	catalog_hold(host.catalog, digest_of("own"));
	host_join(&host, "a", 60, true);
	assert_int_equal(host_flush(&host), 0);
	/* Names that begin alike, and stand on either side. */
	put_away(&host, "gone", "x");
	put_away(&host, "gone", "y");
	put_away(&host, "gone-2", "x");
	put_away(&host, "gone0", "x");
	expect_away(&host, "gone-2 gone gone0 ");
	assert_int_equal(try_forget(&host, "gone", false, &outcome), 0);
	assert_int_equal(outcome.entries.count, 0);
	expect_away(&host, "gone-2 gone0 ");
	assert_int_equal(holders(&host, "y", false), 0);
	assert_int_equal(holders(&host, "x", false), 2);
	assert_int_equal(holders(&host, "own", true), 1);
	assert_int_equal(keys(&host, "view/chunk/gone/"), 0);
	/* A generation is not given twice. */
	assert_int_equal(keys(&host, "generation/gone"), 3);
	assert_int_equal(try_forget(&host, "gone", false, &outcome), -ENOENT);
	assert_contains(outcome.error, "there is no host gone that is away");
	catalog_close(host.catalog);
}

static void a_report_that_comes_late_changes_nothing(void **state)
{
	struct outcome outcome = { 0 };
	struct catalog_batch late = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "late");
	put_away(&host, "gone", "x");
	assert_int_equal(catalog_store_range(host.store, "late/generation/gone", CATALOG_ONE,
					     keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	/* As report.c writes it. */
	catalog_batch_compare(&late, outcome.entries.rows[0].revision, "late/generation/gone");
	catalog_batch_put(&late, "", 0, 0, "late/view/chunk/gone/00");
	assert_int_equal(try_forget(&host, "gone", false, &outcome), 0);
	assert_int_equal(catalog_batch_send(host.store, &late, keep_outcome, &outcome), 0);
	wait_until(outcome.calls == 2);
	assert_int_equal(outcome.err, -ESTALE);
	assert_int_equal(keys(&host, "view/chunk/gone/"), 0);
	catalog_batch_clear(&late);
	catalog_close(host.catalog);
}

static void a_live_host_is_not_forgotten(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "alive");
	catalog_hold(host.catalog, digest_of("x"));
	host_join(&host, "a", 60, true);
	assert_int_equal(host_flush(&host), 0);
	for (int force = 0; force < 2; force++) {
		assert_int_equal(try_forget(&host, "a", force, &outcome), -EBUSY);
		assert_contains(outcome.error, "host a is live: stop distmindd there first");
	}
	expect_away(&host, "");
	assert_int_equal(holders(&host, "x", true), 1);
	assert_int_equal(catalog_host_forget(host.catalog, "a/b", false, keep_outcome, &outcome),
			 -EINVAL);
	assert_int_equal(catalog_host_forget(host.catalog, "", false, keep_outcome, &outcome),
			 -EINVAL);
	catalog_close(host.catalog);
}

static void models_that_would_lose_chunks_are_named_first(void **state)
{
	struct catalog_availability there;
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "lose");
	catalog_hold(host.catalog, digest_of("y"));
	host_join(&host, "a", 60, true);
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_push(&host, "needs-x", "x\ny\n", 1), 0);
	assert_int_equal(host_push(&host, "needs-y", "y\n", 1), 0);
	wait_until(host_knows(&host, "needs-x") && host_knows(&host, "needs-y"));
	put_away(&host, "gone", "x");
	put_away(&host, "gone", "y");
	assert_int_equal(try_forget(&host, "gone", false, &outcome), -ENOTEMPTY);
	assert_int_equal(outcome.entries.count, 1);
	assert_string_equal(outcome.entries.rows[0].key, "needs-x");
	expect_away(&host, "gone ");
	assert_int_equal(catalog_model_availability(host.catalog, "needs-x", &there, NULL, NULL),
			 0);
	assert_int_equal(there.away, 1);
	/* Nothing is lost while another one has it, be it away. */
	put_away(&host, "other", "x");
	assert_int_equal(try_forget(&host, "other", false, &outcome), 0);
	assert_int_equal(try_forget(&host, "gone", true, &outcome), 0);
	assert_int_equal(outcome.entries.count, 1);
	assert_string_equal(outcome.entries.rows[0].key, "needs-x");
	expect_away(&host, "");
	assert_int_equal(catalog_model_availability(host.catalog, "needs-x", &there, NULL, NULL),
			 0);
	assert_int_equal(there.missing, 1);
	assert_int_equal(catalog_model_availability(host.catalog, "needs-y", &there, NULL, NULL),
			 0);
	assert_int_equal(there.missing + there.away, 0);
	forget(&outcome);
	catalog_close(host.catalog);
}

/* Each is spare because of the other, but not both. */
static void of_two_that_are_forgotten_at_once_one_keeps_the_last_copy(void **state)
{
	struct outcome first = { 0 }, second = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "both");
	host_join(&host, "a", 60, true);
	assert_int_equal(host_push(&host, "needs-x", "x\n", 1), 0);
	wait_until(host_knows(&host, "needs-x"));
	put_away(&host, "gone", "x");
	put_away(&host, "other", "x");
	assert_int_equal(catalog_host_forget(host.catalog, "gone", false, keep_outcome, &first), 0);
	assert_int_equal(catalog_host_forget(host.catalog, "other", false, keep_outcome, &second),
			 0);
	wait_until(first.calls && second.calls);
	assert_int_equal(first.err + second.err, -ENOTEMPTY);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(holders(&host, "x", false), 1);
	forget(&first);
	forget(&second);
	catalog_close(host.catalog);
}

static void a_model_that_cannot_be_read_may_lose_anything(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "unread");
	host_join(&host, "a", 60, true);
	assert_int_equal(host_push(&host, "bad", "!\n", 1), 0);
	wait_until(catalog_model_find(host.catalog, "bad") &&
		   catalog_model_find(host.catalog, "bad")->error[0]);
	put_away(&host, "gone", "x");
	assert_int_equal(try_forget(&host, "gone", false, &outcome), -EBADMSG);
	assert_contains(outcome.error, "what it would lose is not known");
	assert_int_equal(try_forget(&host, "gone", true, &outcome), 0);
	expect_away(&host, "");
	catalog_close(host.catalog);
}

static void a_host_that_was_forgotten_comes_back(void **state)
{
	struct outcome outcome = { 0 };
	struct host host, witness;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&witness, "back");
	host_open(&host, "back");
	catalog_hold(host.catalog, digest_of("kept"));
	host_join(&host, "a", 1, true);
	assert_int_equal(host_flush(&host), 0);
	host_die(&host);
	wait_until(holders(&witness, "kept", false) == 1);
	assert_int_equal(try_forget(&witness, "a", false, &outcome), 0);
	wait_until(!holders(&witness, "kept", false));
	/* With what its spool holds. */
	host_open(&host, "back");
	catalog_hold(host.catalog, digest_of("kept"));
	host_join(&host, "a", 60, true);
	wait_until(holders(&witness, "kept", true) == 1);
	assert_int_equal(catalog_member_generation(host.catalog), 2);
	catalog_close(host.catalog);
	catalog_close(witness.catalog);
}

/* Its lease has ended, but the process lives, and does not know. */
static void a_host_that_was_cut_off_joins_again(void **state)
{
	struct outcome outcome = { 0 };
	struct host host, witness;
	uint64_t lease;
	char key[64];

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&witness, "cut");
	host_open(&host, "cut");
	catalog_hold(host.catalog, digest_of("x"));
	/* It asks for its lease so rarely that its next report comes first. */
	host_join(&host, "a", 60, true);
	assert_int_equal(host_flush(&host), 0);
	snprintf(key, sizeof(key), "cut/view/host/a");
	assert_int_equal(catalog_store_range(host.store, key, CATALOG_ONE, keep_outcome, &outcome),
			 0);
	wait_until(outcome.calls);
	lease = outcome.entries.rows[0].lease;
	forget(&outcome);
	assert_int_equal(catalog_store_lease_revoke(witness.store, lease, keep_outcome, &outcome),
			 0);
	wait_until(outcome.calls);
	assert_int_equal(try_forget(&witness, "a", false, &outcome), 0);
	wait_until(!holders(&witness, "x", false));
	/* The first report finds that it is from before, the second that there is no lease. */
	catalog_hold(host.catalog, digest_of("y"));
	catalog_set_memory_free(host.catalog, 5);
	wait_until(host.joined == 2);
	wait_until(holders(&witness, "x", true) == 1 && holders(&witness, "y", true) == 1);
	assert_int_equal(host.fenced, 0);
	catalog_close(host.catalog);
	catalog_close(witness.catalog);
}

/* A store in which something happens at the moment of the write. */
static struct {
	const struct catalog_store_ops *real;
	struct catalog_store_ops ops;
	enum { NOTHING, COMES_BACK, HAS_MORE, ANSWER_IS_LOST } event;
	struct catalog_store *store;
	struct catalog_batch held;
	catalog_done done;
	void *arg;
} network;

static void now_send_it(const struct catalog_result *result, void *arg)
{
	struct catalog_txn txn = {
		network.held.compares, network.held.compare_count,
		network.held.writes, network.held.write_count,
	};

	(void)arg;
	assert_int_equal(result->err, 0);
	assert_int_equal(network.real->txn(network.store, &txn, network.done, network.arg), 0);
	catalog_batch_clear(&network.held);
}

static void lose_answer(const struct catalog_result *result, void *arg)
{
	struct catalog_result lost = { .err = -ETIMEDOUT, .error = "no answer" };

	(void)arg;
	assert_int_equal(result->err, 0);
	network.done(&lost, network.arg);
}

static int eventful_txn(struct catalog_store *store, const struct catalog_txn *txn,
			catalog_done done, void *arg)
{
	uint8_t more[8 + CATALOG_DIGEST] = { GENERATION };
	struct catalog_write write = { "race/view/host/gone", "{}", 2, 0 };
	struct catalog_txn event = { .writes = &write, .write_count = 1 };
	int what = network.event;

	if (!what || txn->writes[0].value || !strstr(txn->writes[0].key, "/view/chunk/gone/"))
		return network.real->txn(store, txn, done, arg);
	network.event = NOTHING;
	network.store = store;
	network.done = done;
	network.arg = arg;
	if (what == ANSWER_IS_LOST)
		return network.real->txn(store, txn, lose_answer, NULL);
	for (size_t i = 0; i < txn->compare_count; i++)
		catalog_batch_compare(&network.held, txn->compares[i].revision, "%s",
				      txn->compares[i].key);
	for (size_t i = 0; i < txn->write_count; i++)
		if (txn->writes[i].value)
			catalog_batch_put(&network.held, txn->writes[i].value, txn->writes[i].size,
					  0, "%s", txn->writes[i].key);
		else
			catalog_batch_delete(&network.held, "%s", txn->writes[i].key);
	if (what == HAS_MORE) {
		memcpy(more + 8, digest_of("x"), CATALOG_DIGEST);
		write = (struct catalog_write){ txn->writes[0].key, more, sizeof(more), 0 };
	}
	return network.real->txn(store, &event, now_send_it, NULL);
}

static void open_eventful(struct host *host, const char *pool)
{
	struct catalog_store *store = bed_open();

	network.real = store->ops;
	network.ops = *store->ops;
	network.ops.txn = eventful_txn;
	store->ops = &network.ops;
	host_open_store(host, pool, store, LIST_MS);
	put_away(host, "gone", "x");
}

static void a_host_that_comes_back_meanwhile_is_not_forgotten(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	open_eventful(&host, "race");
	network.event = COMES_BACK;
	assert_int_equal(try_forget(&host, "gone", true, &outcome), -EBUSY);
	assert_int_equal(network.event, NOTHING);
	assert_int_equal(keys(&host, "view/chunk/gone/"), 1);
	catalog_close(host.catalog);
}

static void what_changed_meanwhile_is_looked_at_again(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	open_eventful(&host, "again");
	network.event = HAS_MORE;
	assert_int_equal(try_forget(&host, "gone", false, &outcome), 0);
	assert_int_equal(network.event, NOTHING);
	assert_int_equal(keys(&host, "view/chunk/gone/"), 0);
	catalog_close(host.catalog);
}

static void an_answer_that_is_lost_is_found_out(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	open_eventful(&host, "lost");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "model", "x\n", 1), 0);
	wait_until(host_knows(&host, "model"));
	network.event = ANSWER_IS_LOST;
	assert_int_equal(try_forget(&host, "gone", true, &outcome), 0);
	assert_int_equal(network.event, NOTHING);
	/* It still knows who lost. */
	assert_int_equal(outcome.entries.count, 1);
	assert_int_equal(keys(&host, "view/chunk/gone/"), 0);
	forget(&outcome);
	catalog_close(host.catalog);
}

static void closing_ends_it(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "closing");
	assert_int_equal(catalog_host_forget(host.catalog, "gone", true, keep_outcome, &outcome),
			 0);
	catalog_close(host.catalog);
	assert_int_equal(outcome.calls, 1);
	assert_int_equal(outcome.err, -ECANCELED);
}

#define EMBEDDED(test) { #test " (embedded)", test, setup_file, NULL, NULL }
#define ETCD(test) { #test " (etcd)", test, setup_no_store, NULL, NULL }
#define BOTH(test) EMBEDDED(test), ETCD(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(what_a_host_that_is_away_had_is_forgotten),
		BOTH(a_report_that_comes_late_changes_nothing),
		BOTH(a_live_host_is_not_forgotten),
		BOTH(models_that_would_lose_chunks_are_named_first),
		BOTH(of_two_that_are_forgotten_at_once_one_keeps_the_last_copy),
		BOTH(a_model_that_cannot_be_read_may_lose_anything),
		ETCD(a_host_that_was_forgotten_comes_back),
		ETCD(a_host_that_was_cut_off_joins_again),
		BOTH(a_host_that_comes_back_meanwhile_is_not_forgotten),
		BOTH(what_changed_meanwhile_is_looked_at_again),
		BOTH(an_answer_that_is_lost_is_found_out),
		BOTH(closing_ends_it),
	};

	return cmocka_run_group_tests_name("catalog_forget", tests, setup_bed, teardown_bed);
}
