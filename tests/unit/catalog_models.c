// SPDX-License-Identifier: GPL-2.0-or-later
/* Models in the catalog: pushing, changing, deleting; chunks that are needed, or garbage. */
#include "../catalog/host.h"

static void put_raw(struct host *host, const char *rest, const char *value)
{
	char key[256];
	struct catalog_write write = { .key = key, .value = value, .size = strlen(value) };
	struct catalog_txn txn = { .writes = &write, .write_count = 1 };
	struct outcome outcome = { 0 };

	snprintf(key, sizeof(key), "%s/%s", host->pool, rest);
	assert_int_equal(catalog_store_txn(host->store, &txn, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
}

/* A model's record under another key. */
static void put_record(struct host *host, const char *model, const char *rest)
{
	struct outcome outcome = { 0 };
	char key[256];

	snprintf(key, sizeof(key), "%s/view/model/%s", host->pool, model);
	assert_int_equal(catalog_store_range(host->store, key, CATALOG_ONE, keep_outcome, &outcome),
			 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.entries.count, 1);
	put_raw(host, rest, outcome.entries.rows[0].value);
	forget(&outcome);
}

static int read_manifest(struct host *host, const char *name, struct outcome *outcome)
{
	forget(outcome);
	assert_int_equal(catalog_manifest_read(host->catalog, name, keep_outcome, outcome), 0);
	wait_until(outcome->calls);
	assert_int_equal(outcome->calls, 1);
	return outcome->err;
}

static int delete_model(struct host *host, const char *name, uint64_t revision)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_model_delete(host->catalog, name, revision, keep_outcome,
					      &outcome), 0);
	wait_until(outcome.calls);
	return outcome.err;
}

struct pile {
	uint8_t digests[1024 * CATALOG_DIGEST];
	size_t count;
};

static void pile_up(const uint8_t *digest, void *arg)
{
	struct pile *pile = arg;

	assert_true(pile->count < 1024);
	memcpy(pile->digests + pile->count++ * CATALOG_DIGEST, digest, CATALOG_DIGEST);
}

static int look_for_garbage(struct host *host, struct pile *pile)
{
	int err = 0;

	pile->count = 0;
	for (size_t i = 0; i < CATALOG_PARTS && !err; i++)
		err = catalog_garbage(host->catalog, i, pile_up, pile);
	return err;
}

static size_t garbage(struct host *host)
{
	static struct pile pile;

	assert_int_equal(look_for_garbage(host, &pile), 0);
	return pile.count;
}

static void a_model_is_there_from_push_to_delete(void **state)
{
	const struct catalog_model *model;
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "push");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "org/net:v1", "x\ny\nx\n", 3), 0);
	wait_until(host_knows(&host, "org/net:v1"));
	model = catalog_model_find(host.catalog, "org/net:v1");
	assert_int_equal(model->replicas, 3);
	assert_int_equal(model->size, 6);
	assert_false(model->uploading);
	assert_int_equal(read_manifest(&host, "org/net:v1", &outcome), 0);
	assert_int_equal(outcome.entries.count, 1);
	assert_string_equal(outcome.entries.rows[0].key, "org/net:v1");
	assert_string_equal(outcome.entries.rows[0].value, "x\ny\nx\n");
	assert_int_equal(keys(&host, "view/upload/"), 0);
	/* The name is taken, and the second push leaves nothing behind. */
	assert_int_equal(host_push(&host, "org/net:v1", "z\n", 1), -EEXIST);
	wait_until(keys(&host, "part/") == 1);
	assert_int_equal(read_manifest(&host, "org/net:v1", &outcome), 0);
	assert_string_equal(outcome.entries.rows[0].value, "x\ny\nx\n");
	assert_int_equal(delete_model(&host, "org/net:v1", 0), 0);
	assert_int_equal(delete_model(&host, "org/net:v1", 0), -ENOENT);
	assert_int_equal(read_manifest(&host, "org/net:v1", &outcome), -ENOENT);
	wait_until(!catalog_model_find(host.catalog, "org/net:v1"));
	assert_int_equal(keys(&host, "part/"), 0);
	assert_int_equal(keys(&host, "view/model/"), 0);
	forget(&outcome);
	catalog_close(host.catalog);
}

static void a_manifest_may_be_larger_than_a_value(void **state)
{
	size_t size = 5 * (CATALOG_VALUE_MAX / 2) + 3;
	struct outcome outcome = { 0 };
	char *text = malloc(size + 1);
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	for (size_t i = 0; i < size; i++)
		text[i] = i % 4096 == 4095 || i + 1 == size ? '\n' : (char)('a' + i % 23);
	text[size] = '\0';
	host_open(&host, "large");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "large", text, 1), 0);
	assert_int_equal(keys(&host, "part/"), 3);
	assert_int_equal(read_manifest(&host, "large", &outcome), 0);
	assert_int_equal(outcome.entries.rows[0].size, size);
	assert_memory_equal(outcome.entries.rows[0].value, text, size);
	wait_until(host_knows(&host, "large"));
	assert_int_equal(delete_model(&host, "large", 0), 0);
	assert_int_equal(keys(&host, "part/"), 0);
	free(text);
	forget(&outcome);
	catalog_close(host.catalog);
}

static int set_replicas(struct host *host, const char *name, unsigned int replicas)
{
	struct outcome outcome = { 0 };

	assert_int_equal(catalog_model_change(host->catalog, name,
					      &(struct catalog_model_change){ .replicas = replicas },
					      keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	return outcome.err;
}

static void a_change_that_was_not_seen_is_not_undone(void **state)
{
	struct catalog_model_change too_many = { .replicas = CATALOG_REPLICAS_MAX + 1 };
	uint64_t revision;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "unseen");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "m", "x\n", 1), 0);
	wait_until(host_knows(&host, "m"));
	revision = catalog_model_find(host.catalog, "m")->revision;
	assert_int_equal(set_replicas(&host, "m", 2), 0);
	assert_int_equal(delete_model(&host, "m", revision), -ESTALE);
	wait_until(catalog_model_find(host.catalog, "m")->replicas == 2);
	revision = catalog_model_find(host.catalog, "m")->revision;
	assert_int_equal(delete_model(&host, "m", revision), 0);
	assert_int_equal(set_replicas(&host, "m", 3), -ENOENT);
	assert_int_equal(catalog_model_change(host.catalog, "m", &too_many, keep_outcome, NULL),
			 -EINVAL);
	catalog_close(host.catalog);
}

static void of_two_pushes_of_a_name_exactly_one_wins(void **state)
{
	struct outcome a_done = { 0 }, b_done = { 0 }, manifest = { 0 };
	struct host a, b;
	char name[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&a, "twice");
	host_open(&b, "twice");
	host_join(&a, "a", 60, false);
	host_join(&b, "b", 60, false);
	for (int round = 0; round < 10; round++) {
		struct catalog_upload *from_a, *from_b;

		snprintf(name, sizeof(name), "m%d", round);
		forget(&a_done);
		forget(&b_done);
		from_a = host_begin(&a, name, "a\n", 1);
		from_b = host_begin(&b, name, "b\n", 1);
		assert_int_equal(catalog_upload_commit(from_a, keep_outcome, &a_done), 0);
		assert_int_equal(catalog_upload_commit(from_b, keep_outcome, &b_done), 0);
		wait_until(a_done.calls && b_done.calls);
		assert_true((!a_done.err && b_done.err == -EEXIST) ||
			    (a_done.err == -EEXIST && !b_done.err));
		assert_int_equal(read_manifest(&a, name, &manifest), 0);
		assert_string_equal(manifest.entries.rows[0].value, a_done.err ? "b\n" : "a\n");
	}
	wait_until(keys(&a, "part/") == 10);
	forget(&manifest);
	catalog_close(a.catalog);
	catalog_close(b.catalog);
}

static void changes_at_the_same_time_are_all_made(void **state)
{
	enum { CHANGES = 6 };
	struct outcome done[CHANGES] = { 0 }, manifest = { 0 };
	struct host hosts[2];

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&hosts[0], "same");
	host_open(&hosts[1], "same");
	host_join(&hosts[0], "a", 60, false);
	assert_int_equal(host_push(&hosts[0], "m", "x\n", 1), 0);
	for (unsigned int i = 0; i < CHANGES; i++)
		assert_int_equal(catalog_model_change(hosts[i % 2].catalog, "m",
				&(struct catalog_model_change){ .replicas = i + 2 },
				keep_outcome, &done[i]), 0);
	for (unsigned int i = 0; i < CHANGES; i++) {
		wait_until(done[i].calls);
		assert_int_equal(done[i].err, 0);
	}
	assert_int_equal(host_sync(&hosts[0]), 0);
	assert_true(catalog_model_find(hosts[0].catalog, "m")->replicas >= 2);
	assert_int_equal(read_manifest(&hosts[0], "m", &manifest), 0);
	forget(&manifest);
	catalog_close(hosts[0].catalog);
	catalog_close(hosts[1].catalog);
}

static void only_what_no_model_names_is_garbage(void **state)
{
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "garbage");
	host_join(&host, "a", 60, false);
	catalog_hold(host.catalog, digest_of("backbone"));
	catalog_hold(host.catalog, digest_of("head-1"));
	catalog_hold(host.catalog, digest_of("head-2"));
	assert_int_equal(host_push(&host, "one", "backbone\nhead-1\nbackbone\n", 1), 0);
	assert_int_equal(host_push(&host, "two", "backbone\nhead-2\n", 1), 0);
	wait_until(host_knows(&host, "one") && host_knows(&host, "two"));
	assert_int_equal(garbage(&host), 0);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("backbone")), 2);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("head-1")), 1);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("other")), 0);
	assert_int_equal(delete_model(&host, "one", 0), 0);
	wait_until(!catalog_model_find(host.catalog, "one"));
	assert_int_equal(garbage(&host), 1);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("head-1")), 0);
	assert_int_equal(delete_model(&host, "two", 0), 0);
	wait_until(!catalog_model_find(host.catalog, "two"));
	assert_int_equal(garbage(&host), 3);
	catalog_close(host.catalog);
}

#define MANY 1000 /* chunks, so that there are several in each bucket */

static void every_chunk_has_its_holders_and_a_number_of_its_own(void **state)
{
	const struct catalog_chunk *chunk;
	struct catalog_numbers numbers;
	char manifest[MANY * 8] = "", name[16];
	bool seen[2 * MANY] = { 0 };
	struct host hosts[2];

	(void)state;
	SKIP_WITHOUT_ETCD();
	for (int i = 0; i < 2; i++) {
		host_open(&hosts[i], "numbers");
		host_join(&hosts[i], i ? "b" : "a", 60, false);
	}
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		strcat(strcat(manifest, name), "\n");
		/* Of each three, one has it, the other has it, and nobody has it. */
		if (i % 3 < 2)
			catalog_hold(hosts[i % 3].catalog, digest_of(name));
	}
	catalog_hold(hosts[0].catalog, digest_of("more"));
	catalog_hold(hosts[1].catalog, digest_of("more"));
	assert_int_equal(host_push(&hosts[0], "one", manifest, 1), 0);
	assert_int_equal(host_push(&hosts[0], "two", manifest, 1), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(host_flush(&hosts[i]), 0);
	assert_int_equal(host_sync(&hosts[0]), 0);
	wait_until(host_knows(&hosts[0], "one") && host_knows(&hosts[0], "two") &&
		   !keys(&hosts[0], "view/upload/"));
	assert_int_equal(host_sync(&hosts[0]), 0);
	assert_int_equal(catalog_numbers(hosts[0].catalog, &numbers), 0);
	assert_int_equal(numbers.chunks, 2 * MANY);
	assert_int_equal(numbers.hosts, 2);
	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		chunk = catalog_chunk_find(hosts[0].catalog, digest_of(name));
		assert_non_null(chunk);
		assert_memory_equal(chunk->digest, digest_of(name), CATALOG_DIGEST);
		assert_int_equal(chunk->references, 2);
		assert_int_equal(chunk->away, 0);
		assert_int_equal(chunk->live, i % 3 < 2);
		if (chunk->live)
			assert_string_equal(numbers.names[chunk->holders[0]], i % 3 ? "b" : "a");
		assert_in_range(chunk->number, 0, numbers.chunks - 1);
		assert_false(seen[chunk->number]);
		seen[chunk->number] = true;
	}
	chunk = catalog_chunk_find(hosts[0].catalog, digest_of("more"));
	assert_non_null(chunk);
	assert_int_equal(chunk->references, 0);
	assert_int_equal(chunk->live, 2);
	assert_null(catalog_chunk_find(hosts[0].catalog, digest_of("nobody's")));
	catalog_close(hosts[0].catalog);
	catalog_close(hosts[1].catalog);
}

static void what_is_being_pushed_is_not_garbage(void **state)
{
	struct catalog_upload *upload;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "pushing");
	host_join(&host, "a", 60, false);
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(garbage(&host), 1);
	upload = host_begin(&host, "m", "x\n", 1);
	assert_int_equal(host_sync(&host), 0);
	wait_until(catalog_chunk_references(host.catalog, digest_of("x")) == 1);
	assert_int_equal(garbage(&host), 0);
	assert_null(catalog_model_find(host.catalog, "m"));
	catalog_upload_abort(upload);
	wait_until(!catalog_chunk_references(host.catalog, digest_of("x")));
	assert_int_equal(garbage(&host), 1);
	wait_until(!keys(&host, "part/") && !keys(&host, "view/upload/"));
	catalog_close(host.catalog);
}

static void garbage_that_is_released_is_held_no_more(void **state)
{
	struct outcome outcome = { 0 };
	static struct pile pile;
	struct host host;
	char name[32];

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "release");
	host_join(&host, "a", 60, false);
	for (int i = 0; i < 500; i++) {
		snprintf(name, sizeof(name), "g%d", i);
		catalog_hold(host.catalog, digest_of(name));
	}
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_push(&host, "m", "x\ng3\n", 1), 0);
	assert_int_equal(host_flush(&host), 0);
	wait_until(host_knows(&host, "m"));
	assert_int_equal(look_for_garbage(&host, &pile), 0);
	assert_int_equal(pile.count, 499);
	for (size_t i = 1; i < pile.count; i++)
		assert_true(memcmp(pile.digests + (i - 1) * CATALOG_DIGEST,
				   pile.digests + i * CATALOG_DIGEST, CATALOG_DIGEST) < 0);
	assert_int_equal(catalog_release(host.catalog, pile.digests, pile.count, keep_outcome,
					 &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	for (size_t i = 0; i < pile.count; i++)
		assert_false(catalog_holds(host.catalog, pile.digests + i * CATALOG_DIGEST));
	assert_true(catalog_holds(host.catalog, digest_of("x")));
	assert_true(catalog_holds(host.catalog, digest_of("g3")));
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(holders(&host, "g4", true), 0);
	assert_int_equal(holders(&host, "g3", true), 1);
	/* What is needed cannot be released. */
	assert_int_equal(catalog_release(host.catalog, digest_of("x"), 1, keep_outcome, NULL),
			 -ESTALE);
	catalog_close(host.catalog);
}

/* The pusher counts on a chunk that another host is about to throw away. */
static void what_a_push_counts_on_is_not_thrown_away(void **state)
{
	struct catalog_upload *upload = NULL;
	static const struct catalog_result stale = { .err = -ESTALE, .error = "" };
	struct outcome released = { 0 };
	struct host donor, pusher;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&donor, "counts");
	host_open(&pusher, "counts");
	host_join(&donor, "donor", 60, false);
	host_join(&pusher, "pusher", 60, false);
	for (int round = 0; round < 10; round++) {
		/* Both orders. */
		bool pusher_first = round % 2;

		catalog_hold(donor.catalog, digest_of("x"));
		assert_int_equal(host_flush(&donor), 0);
		assert_int_equal(host_sync(&donor), 0);
		assert_int_equal(garbage(&donor), 1);
		forget(&released);
		if (pusher_first)
			upload = host_begin(&pusher, "m", "x\n", 1);
		/* Refused at once, if the donor has heard of the upload. */
		if (catalog_release(donor.catalog, digest_of("x"), 1, keep_outcome, &released))
			keep_outcome(&stale, &released);
		if (!pusher_first)
			upload = host_begin(&pusher, "m", "x\n", 1);
		wait_until(released.calls);
		if (pusher_first)
			assert_int_equal(released.err, -ESTALE);
		assert_int_equal(host_sync(&pusher), 0);
		/* Either it is there, and stays, or the pusher sees that it is not. */
		assert_int_equal(holders(&pusher, "x", true), released.err ? 1 : 0);
		assert_int_equal(catalog_holds(donor.catalog, digest_of("x")), released.err != 0);
		catalog_upload_abort(upload);
		wait_until(!keys(&pusher, "view/upload/"));
		assert_int_equal(host_sync(&donor), 0);
	}
	catalog_close(donor.catalog);
	catalog_close(pusher.catalog);
}

static void the_upload_of_a_dead_host_is_cleared_away(void **state)
{
	struct host dead, other;
	struct catalog_upload *upload;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&other, "cleared");
	host_open(&dead, "cleared");
	host_join(&dead, "dead", 1, false);
	host_join(&other, "other", 60, false);
	catalog_hold(other.catalog, digest_of("x"));
	upload = host_begin(&dead, "m", "x\n", 1);
	wait_until(catalog_chunk_references(other.catalog, digest_of("x")) == 1);
	assert_int_equal(keys(&other, "part/"), 1);
	catalog_upload_abort(upload); /* its memory; the request does not get through */
	host_die(&dead);
	wait_until(!catalog_chunk_references(other.catalog, digest_of("x")));
	wait_until(!keys(&other, "part/") && !keys(&other, "view/upload/"));
	assert_int_equal(garbage(&other), 1);
	catalog_close(other.catalog);
}

static void an_upload_that_was_given_up_cannot_be_committed(void **state)
{
	struct outcome list = { 0 }, deleted = { 0 };
	struct catalog_write removal = { 0 };
	struct catalog_txn txn = { .writes = &removal, .write_count = 1 };
	struct catalog_upload *upload;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "given-up");
	host_join(&host, "a", 60, false);
	upload = host_begin(&host, "m", "x\n", 1);
	assert_int_equal(catalog_store_range(host.store, "given-up/view/upload/", CATALOG_BELOW,
					     keep_outcome, &list), 0);
	wait_until(list.calls);
	assert_int_equal(list.entries.count, 1);
	removal.key = list.entries.rows[0].key;
	assert_int_equal(catalog_store_txn(host.store, &txn, keep_outcome, &deleted), 0);
	wait_until(deleted.calls);
	assert_int_equal(deleted.err, 0);
	assert_int_equal(host_commit(upload), -EOWNERDEAD);
	assert_int_equal(keys(&host, "view/model/"), 0);
	forget(&list);
	catalog_close(host.catalog);
}

static void note_chunk(const uint8_t *digest, bool away, void *arg)
{
	char *seen = arg;

	if (!memcmp(digest, digest_of("nowhere"), CATALOG_DIGEST) && !away)
		seen[0]++;
	if (!memcmp(digest, digest_of("away"), CATALOG_DIGEST) && away)
		seen[1]++;
}

static void what_a_model_lacks_is_told(void **state)
{
	struct catalog_availability available;
	struct outcome left = { 0 };
	struct host a, b;
	char seen[2] = { 0 };

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&a, "lacks");
	host_open(&b, "lacks");
	catalog_hold(a.catalog, digest_of("both"));
	catalog_hold(a.catalog, digest_of("one"));
	catalog_hold(b.catalog, digest_of("both"));
	catalog_hold(b.catalog, digest_of("away"));
	host_join(&a, "a", 60, false);
	host_join(&b, "b", 60, true);
	assert_int_equal(host_flush(&b), 0);
	assert_int_equal(host_push(&a, "m", "both\none\naway\nnowhere\n", 2), 0);
	wait_until(host_knows(&a, "m") && holders(&a, "both", true) == 2);
	assert_int_equal(catalog_model_availability(a.catalog, "m", &available, NULL, NULL), 0);
	assert_int_equal(available.chunks, 4);
	assert_int_equal(available.scarce, 2);
	assert_int_equal(available.missing, 1);
	assert_int_equal(available.away, 0);
	assert_int_equal(available.copies, 0);
	assert_int_equal(catalog_leave(b.catalog, keep_outcome, &left), 0);
	wait_until(left.calls);
	wait_until(holders(&a, "both", true) == 1);
	assert_int_equal(catalog_model_availability(a.catalog, "m", &available, note_chunk, seen),
			 0);
	assert_int_equal(available.scarce, 2);
	assert_int_equal(available.missing, 1);
	assert_int_equal(available.away, 1);
	assert_int_equal(seen[0], 1);
	assert_int_equal(seen[1], 1);
	assert_int_equal(catalog_model_availability(a.catalog, "none", &available, NULL, NULL),
			 -ENOENT);
	/* As often as the chunk that is there least often. */
	assert_int_equal(host_push(&a, "here", "both\none\n", 1), 0);
	wait_until(host_knows(&a, "here"));
	assert_int_equal(catalog_model_availability(a.catalog, "here", &available, NULL, NULL), 0);
	assert_int_equal(available.copies, 1);
	catalog_close(a.catalog);
	catalog_close(b.catalog);
}

#define RAW_HOST                                                                     \
	"{\"address\":\"\",\"rdma_address\":\"\",\"rdma_port\":1,\"memory_total\":1," \
	"\"memory_free\":1,\"generation\":1"

static void what_others_wrote_wrongly_does_no_harm(void **state)
{
	struct catalog_availability available;
	static struct pile pile;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "wrong");
	host_join(&host, "a", 60, false);
	catalog_hold(host.catalog, digest_of("x"));
	assert_int_equal(host_flush(&host), 0);
	put_raw(&host, "view/host/b", "{\"address\":7}");
	put_raw(&host, "view/host/c", "not JSON");
	put_raw(&host, "view/host/old", RAW_HOST "}");
	put_raw(&host, "view/host/d", RAW_HOST ",\"hot\":7}");
	put_raw(&host, "view/host/e", RAW_HOST ",\"hot\":[\"good\",\"not good\"]}");
	put_raw(&host, "view/host/f",
		RAW_HOST ",\"hot\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}");
	put_raw(&host, "view/chunk/a", "");
	put_raw(&host, "view/chunk/b/99", "1234567812345678123456781234567812345678");
	put_raw(&host, "view/chunk/b/03", "12345678123456781234567812345678");
	put_raw(&host, "view/unknown", "");
	assert_int_equal(host_sync(&host), 0);
	assert_null(catalog_host_find(host.catalog, "b"));
	/* Hosts did not speak of hot models in the first version. */
	assert_non_null(catalog_host_find(host.catalog, "old"));
	for (char name[] = "d"; name[0] <= 'f'; name[0]++)
		assert_null(catalog_host_find(host.catalog, name));
	assert_int_equal(holders(&host, "x", true), 1);
	assert_int_equal(garbage(&host), 1);
	/* A model that cannot be read may need anything. */
	put_raw(&host, "view/model/odd", "{}");
	assert_int_equal(host_sync(&host), 0);
	assert_non_null(catalog_model_find(host.catalog, "odd"));
	assert_int_equal(look_for_garbage(&host, &pile), -EBADMSG);
	assert_int_equal(catalog_release(host.catalog, digest_of("x"), 1, keep_outcome, NULL),
			 -EBADMSG);
	assert_int_equal(delete_model(&host, "odd", 0), 0);
	assert_int_equal(host_push(&host, "senseless", "!\n", 1), 0);
	wait_until(catalog_model_find(host.catalog, "senseless") &&
		   catalog_model_find(host.catalog, "senseless")->error[0]);
	assert_int_equal(look_for_garbage(&host, &pile), -EBADMSG);
	assert_int_equal(catalog_model_availability(host.catalog, "senseless", &available, NULL,
						    NULL), -EBADMSG);
	assert_int_equal(delete_model(&host, "senseless", 0), 0);
	wait_until(!catalog_model_find(host.catalog, "senseless"));
	assert_int_equal(garbage(&host), 1);
	catalog_close(host.catalog);
}

static void count_unreadable(const struct catalog_model *model, void *arg)
{
	*(size_t *)arg += model->unreadable && model->error[0];
}

static size_t unreadable(const struct host *host)
{
	size_t count = 0;

	catalog_model_each(host->catalog, count_unreadable, &count);
	return count;
}

#define UPLOAD "0123456789abcdef0123456789abcdef"

static void what_cannot_be_read_is_listed_and_can_be_deleted(void **state)
{
	static const char *const names[] = { "odd", UPLOAD, "other" };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "unreadable");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "m", "x\n", 1), 0);
	wait_until(host_knows(&host, "m"));
	host.unreadable = 0;
	put_raw(&host, "view/model/odd", "not JSON");
	put_raw(&host, "view/upload/" UPLOAD, "{\"name\":\"m\"}");
	put_raw(&host, "part/" UPLOAD "/0000", "x");
	put_record(&host, "m", "view/model/other");
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(host_push(&host, "odd", "y\n", 1), -EEXIST);
	assert_int_equal(unreadable(&host), COUNT(names));
	assert_int_equal(host.unreadable, COUNT(names));
	for (size_t i = 0; i < COUNT(names); i++) {
		const struct catalog_model *model = catalog_model_find(host.catalog, names[i]);

		assert_non_null(model);
		assert_string_equal(model->name, names[i]);
		assert_int_equal(model->access.uid, 0);
		assert_contains(model->error, "makes no sense here");
		assert_int_equal(delete_model(&host, names[i], 0), 0);
		assert_int_equal(host_sync(&host), 0);
		assert_null(catalog_model_find(host.catalog, names[i]));
	}
	assert_int_equal(unreadable(&host), 0);
	/* What another one needs is not deleted with it. */
	assert_int_equal(keys(&host, "part/"), 1);
	assert_int_equal(garbage(&host), 0);
	catalog_close(host.catalog);
}

/* Of a version that keeps more in it. */
static void the_unreadable_upload_of_a_dead_host_is_cleared_away(void **state)
{
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "swept");
	host_join(&host, "a", 60, false);
	put_raw(&host, "view/upload/" UPLOAD, "{\"host\":\"a\",\"generation\":1}");
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(keys(&host, "view/upload/"), 1);
	put_raw(&host, "view/upload/" UPLOAD, "{\"host\":\"b\",\"generation\":1}");
	assert_int_equal(host_sync(&host), 0);
	wait_until(!keys(&host, "view/upload/"));
	wait_until(!host_sync(&host) && !unreadable(&host));
	catalog_close(host.catalog);
}

/* Nobody else's names reach a terminal, or JSON, as they are. */
static void a_key_that_is_no_name_is_listed_all_the_same(void **state)
{
	const struct catalog_model *model;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "key");
	put_raw(&host, "view/model/no \x1b name", "{}");
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(unreadable(&host), 1);
	model = catalog_model_find(host.catalog, "no \x1b name");
	assert_non_null(model);
	assert_string_equal(model->name, "no???name");
	assert_contains(model->error, "its key is no name");
	catalog_close(host.catalog);
}

static void a_listing_that_finds_nothing_new_changes_nothing(void **state)
{
	unsigned int told;
	uint64_t changes;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	/* That there is nothing is news too. */
	host_open(&host, "nothing-new");
	wait_until(host.changed);
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "m", "x\n", 1), 0);
	wait_until(host_knows(&host, "m") && !keys(&host, "view/upload/"));
	assert_int_equal(host_flush(&host), 0);
	assert_int_equal(host_sync(&host), 0);
	/* What is listed is what was seen before. */
	changes = catalog_changes(host.catalog);
	told = host.changed;
	assert_int_equal(host_sync(&host), 0);
	assert_int_equal(catalog_changes(host.catalog), changes);
	assert_int_equal(host.changed, told);
	/* Of no use, and yet it decides whether garbage is known. */
	put_raw(&host, "view/model/odd", "{}");
	assert_int_equal(host_sync(&host), 0);
	assert_int_not_equal(catalog_changes(host.catalog), changes);
	assert_true(host.changed > told);
	changes = catalog_changes(host.catalog);
	told = host.changed;
	assert_int_equal(delete_model(&host, "odd", 0), 0);
	assert_int_equal(host_sync(&host), 0);
	assert_int_not_equal(catalog_changes(host.catalog), changes);
	assert_true(host.changed > told);
	catalog_close(host.catalog);
}

static void names_are_checked(void **state)
{
	static const char *const bad[] = { "", "/a", "a/", "a b", "a\n", "a\"", "\xc3\xa4" };
	const struct catalog_manifest text = { .text = (char []){ "x\n" }, .size = 2 };
	struct catalog_upload *upload;
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "names");
	assert_int_equal(catalog_upload_begin(host.catalog, "m", &text, 1, &upload, keep_outcome,
					      NULL), -ENOTCONN);
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct catalog_host record = { 0 };

		snprintf(record.name, sizeof(record.name), "%s", bad[i]);
		assert_int_equal(catalog_join(host.catalog, &record, 5, false), -EINVAL);
		snprintf(record.name, sizeof(record.name), "good");
		snprintf(record.address, sizeof(record.address), "%s", bad[i]);
		record.memory_free = !bad[i][0]; /* an address may be empty */
		assert_int_equal(catalog_join(host.catalog, &record, 5, false), -EINVAL);
		assert_int_equal(catalog_upload_begin(host.catalog, bad[i], &text, 1, &upload,
						      keep_outcome, NULL), -EINVAL);
		assert_int_equal(catalog_manifest_read(host.catalog, bad[i], keep_outcome, NULL),
				 -EINVAL);
	}
	catalog_close(host.catalog);
}

static void models_survive_a_restart(void **state)
{
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	SKIP_WITHOUT_ETCD();
	host_open(&host, "survive");
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "m", "x\ny\n", 2), 0);
	host_die(&host);
	host_open(&host, "survive");
	wait_until(host_knows(&host, "m"));
	assert_int_equal(catalog_model_find(host.catalog, "m")->replicas, 2);
	assert_int_equal(read_manifest(&host, "m", &outcome), 0);
	assert_string_equal(outcome.entries.rows[0].value, "x\ny\n");
	forget(&outcome);
	catalog_close(host.catalog);
}

#define EMBEDDED(test) { #test " (embedded)", test, setup_file, NULL, NULL }
#define ETCD(test) { #test " (etcd)", test, setup_no_store, NULL, NULL }
#define BOTH(test) EMBEDDED(test), ETCD(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(a_model_is_there_from_push_to_delete),
		BOTH(a_manifest_may_be_larger_than_a_value),
		BOTH(a_change_that_was_not_seen_is_not_undone),
		ETCD(of_two_pushes_of_a_name_exactly_one_wins),
		ETCD(changes_at_the_same_time_are_all_made),
		BOTH(only_what_no_model_names_is_garbage),
		ETCD(every_chunk_has_its_holders_and_a_number_of_its_own),
		BOTH(what_is_being_pushed_is_not_garbage),
		BOTH(garbage_that_is_released_is_held_no_more),
		ETCD(what_a_push_counts_on_is_not_thrown_away),
		ETCD(the_upload_of_a_dead_host_is_cleared_away),
		BOTH(an_upload_that_was_given_up_cannot_be_committed),
		ETCD(what_a_model_lacks_is_told),
		BOTH(what_others_wrote_wrongly_does_no_harm),
		BOTH(what_cannot_be_read_is_listed_and_can_be_deleted),
		BOTH(the_unreadable_upload_of_a_dead_host_is_cleared_away),
		BOTH(a_key_that_is_no_name_is_listed_all_the_same),
		BOTH(a_listing_that_finds_nothing_new_changes_nothing),
		BOTH(names_are_checked),
		BOTH(models_survive_a_restart),
	};

	return cmocka_run_group_tests_name("catalog_models", tests, setup_bed, teardown_bed);
}
