// SPDX-License-Identifier: GPL-2.0-or-later
/* The catalog takes little of each turn of the event loop, however much there is in it. */
#include "../catalog/host.h"

#include "../../userspace/catalog/batch.h"
#include "../../userspace/catalog/state.h"

#define MODELS 20
#define TELLING 12 /* hosts */
#define CHUNKS 6000

/*
 * What is done aside, by the test: one at a time.
 */

struct chore {
	void (*work)(void *job);
	void (*done)(void *job);
	void *job;
};

static struct chore chores[4 * MODELS];
static size_t chore_count;
static unsigned int parsed, made, dropped; /* manifests */

static int put_aside(void (*work)(void *job), void (*done)(void *job), void *job, void *arg)
{
	(void)arg;
	assert_true(chore_count < sizeof(chores) / sizeof(chores[0]));
	chores[chore_count++] = (struct chore){ work, done, job };
	return 0;
}

static void work_off(void)
{
	while (chore_count) {
		struct chore chore = chores[--chore_count];

		chore.work(chore.job);
		chore.done(chore.job);
	}
}

/* What is read by then is for nobody. */
static void close_host(struct host *host)
{
	host_die(host);
	work_off();
	assert_int_equal(made, dropped);
}

static int parse(const char *manifest, size_t size, uint8_t **digests, size_t *count, void **thing)
{
	int err = manifest_digests(manifest, size, digests, count, thing);

	parsed++;
	if (!err)
		*thing = malloc(1);
	made += !err;
	return err;
}

static void drop(void *thing)
{
	dropped++;
	free(thing);
}

/* As if a turn were over as soon as it has begun. */
static bool always_over(void)
{
	return true;
}

static void open_in_turns(struct host *host, const char *pool, unsigned int list_ms)
{
	struct catalog_store *store = bed_open();

	memset(host, 0, sizeof(*host));
	snprintf(host->pool, sizeof(host->pool), "%s", pool);
	host->options = (struct catalog_options){
		.pool = host->pool, .list_ms = list_ms, .digests = parse, .dropped = drop,
		.aside = put_aside, .over = always_over, .changed = on_changed,
		.member = on_member, .arg = host,
	};
	host->store = store;
	host->catalog = catalog_open(bed.loop, store, &host->options);
	assert_non_null(host->catalog);
}

static int reset(void **state)
{
	int err = setup_file(state);

	chore_count = 0;
	parsed = made = dropped = 0;
	return err;
}

static void ignore_digest(const uint8_t *digest, void *arg)
{
	(void)digest;
	(void)arg;
}

static void a_long_listing_is_taken_over_in_turns(void **state)
{
	char name[32];
	struct host host;
	unsigned int turns = 0;
	int err;

	(void)state;
	host_open(&host, "turns");
	host_join(&host, "a", 60, true);
	for (int i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(host_push(&host, name, "x\n", 1), 0);
	}
	host_die(&host);
	open_in_turns(&host, "turns", LIST_MS);
	wait_until(host.catalog->view.step != CATALOG_VIEW_STEADY);
	/* Nothing is known to be garbage while some of it is as it was. */
	do {
		err = catalog_garbage(host.catalog, 0, ignore_digest, NULL);
		assert_int_equal(err, -EAGAIN);
		assert_true(sd_event_run(bed.loop, 100000) >= 0);
		turns++;
	} while (host.catalog->view.step != CATALOG_VIEW_STEADY);
	assert_true(turns > MODELS);
	for (int i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_non_null(catalog_model_find(host.catalog, name));
	}
	/* One that is closed in the middle of it does not mind. */
	close_host(&host);
	open_in_turns(&host, "turns", LIST_MS);
	wait_until(host.catalog->view.step != CATALOG_VIEW_STEADY);
	close_host(&host);
}

/* As if the watch had missed that it came: the next look at the names lists everything. */
static void lose_sight_of(struct host *host, const char *model)
{
	struct catalog_view *view = &host->catalog->view;
	struct catalog_entry *entry;
	char key[CATALOG_KEY_MAX];

	snprintf(key, sizeof(key), "%s/view/model/%s", host->pool, model);
	entry = catalog_entries_find(&view->entries, key);
	assert_non_null(entry);
	view->forget(entry, view->arg);
	catalog_entries_remove(&view->entries, entry);
}

static void changes_that_come_during_a_long_listing_are_not_lost(void **state)
{
	struct outcome outcome = { 0 }, synced = { 0 };
	struct catalog_view *view;
	struct host host;

	(void)state;
	host_open(&host, "early");
	host_join(&host, "a", 60, true);
	for (int i = 0; i < MODELS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(host_push(&host, name, "x\n", 1), 0);
	}
	host_die(&host);
	/* No later listing repairs what this one loses. */
	open_in_turns(&host, "early", 3600 * 1000);
	view = &host.catalog->view;
	wait_until(view->watch && view->step == CATALOG_VIEW_STEADY);
	lose_sight_of(&host, "m3");
	assert_int_equal(catalog_sync(host.catalog, keep_outcome, &synced), 0);
	wait_until(view->step == CATALOG_VIEW_PUTS);
	sd_event_source_set_enabled(view->turn, SD_EVENT_OFF);
	/* It is listed, and deleted before the listing has come to it. */
	assert_int_equal(catalog_model_delete(host.catalog, "m9", 0, keep_outcome, &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	wait_until(view->early.count);
	assert_int_equal(synced.calls, 0);
	sd_event_source_set_enabled(view->turn, SD_EVENT_ON);
	wait_until(synced.calls);
	assert_int_equal(synced.err, 0);
	assert_null(catalog_model_find(host.catalog, "m9"));
	assert_non_null(catalog_model_find(host.catalog, "m8"));
	assert_non_null(catalog_model_find(host.catalog, "m3"));
	forget(&outcome);
	forget(&synced);
	close_host(&host);
}

/* Buckets of hosts that come all at once, as after a pause of etcd's. */
static void what_the_watch_tells_at_once_is_taken_over_in_turns(void **state)
{
	struct catalog_batch batch = { 0 };
	struct outcome outcome = { 0 }, synced = { 0 };
	uint8_t value[8 + CATALOG_DIGEST] = { 1 };
	const uint8_t *digest = digest_of("x");
	unsigned int turns = 0;
	struct host host;

	(void)state;
	open_in_turns(&host, "told", 3600 * 1000);
	wait_until(host.catalog->view.watch);
	memcpy(value + 8, digest, CATALOG_DIGEST);
	for (int i = 0; i < TELLING; i++)
		catalog_batch_put(&batch, value, sizeof(value), 0, "told/view/chunk/h%d/%02u", i,
				  digest[0] / 4);
	assert_int_equal(catalog_batch_send(host.store, &batch, keep_outcome, &outcome), 0);
	catalog_batch_clear(&batch);
	wait_until(host.catalog->view.step == CATALOG_VIEW_CATCHES_UP);
	/* Who wants to be sure hears of it when all of it is there. */
	assert_int_equal(catalog_sync(host.catalog, keep_outcome, &synced), 0);
	while (!synced.calls) {
		assert_true(sd_event_run(bed.loop, 100000) >= 0);
		turns++;
	}
	assert_true(turns > TELLING);
	assert_int_equal(synced.err, 0);
	assert_int_equal(holders(&host, "x", false), TELLING);
	wait_until(outcome.calls);
	forget(&outcome);
	forget(&synced);
	close_host(&host);
}

static void a_manifest_is_read_aside(void **state)
{
	struct host host;

	(void)state;
	open_in_turns(&host, "aside", LIST_MS);
	host_join(&host, "a", 60, false);
	assert_int_equal(host_push(&host, "m", "x\ny\n", 1), 0);
	wait_until(catalog_model_find(host.catalog, "m") && chore_count);
	assert_false(host_knows(&host, "m"));
	assert_int_equal(parsed, 0);
	assert_int_equal(catalog_garbage(host.catalog, 0, ignore_digest, NULL), -EAGAIN);
	work_off();
	assert_true(host_knows(&host, "m"));
	assert_non_null(catalog_model_find(host.catalog, "m")->manifest);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("x")), 1);
	/* What is not wanted any more when it has been read is dropped. */
	assert_int_equal(host_push(&host, "n", "z\n", 1), 0);
	wait_until(catalog_model_find(host.catalog, "n") && chore_count);
	close_host(&host);
	assert_true(made > 1);
}

static void a_model_whose_record_changes_stays_known(void **state)
{
	const struct catalog_model *model;
	struct catalog_upload *upload;
	struct outcome outcome = { 0 };
	struct host host;

	(void)state;
	open_in_turns(&host, "gap", LIST_MS);
	host_join(&host, "a", 60, false);
	upload = host_begin(&host, "m", "x\n", 1);
	wait_until(chore_count);
	work_off();
	assert_int_equal(parsed, 1);
	/* The upload becomes a model: of the same manifest. */
	assert_int_equal(host_commit(upload), 0);
	wait_until((model = catalog_model_find(host.catalog, "m")));
	assert_true(model->known);
	assert_int_equal(catalog_model_change(host.catalog, "m",
					      &(struct catalog_model_change){ .replicas = 3 },
					      keep_outcome, &outcome), 0);
	wait_until((model = catalog_model_find(host.catalog, "m"))->replicas == 3);
	assert_true(model->known);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("x")), 1);
	wait_until(outcome.calls);
	assert_int_equal(chore_count, 0);
	assert_int_equal(parsed, 1);
	/* With the last model that has it, it goes. */
	forget(&outcome);
	assert_int_equal(catalog_model_delete(host.catalog, "m", 0, keep_outcome, &outcome), 0);
	wait_until(!catalog_model_find(host.catalog, "m"));
	wait_until(dropped == 1);
	assert_int_equal(catalog_chunk_references(host.catalog, digest_of("x")), 0);
	wait_until(outcome.calls);
	close_host(&host);
}

struct pile {
	uint8_t *digests;
	size_t count;
};

static void pile_up(const uint8_t *digest, void *arg)
{
	struct pile *pile = arg;

	memcpy(pile->digests + pile->count++ * CATALOG_DIGEST, digest, CATALOG_DIGEST);
}

/* Some of what is released is in each bucket, and what stays stays in order. */
static void what_is_left_of_a_release_is_what_was_not_given_up(void **state)
{
	struct pile pile = { .digests = malloc(CHUNKS * CATALOG_DIGEST) };
	struct outcome outcome = { 0 };
	char name[32], *manifest = malloc(CHUNKS * 8), *end = manifest;
	struct host host;

	(void)state;
	host_open(&host, "left");
	host_join(&host, "a", 60, false);
	for (int i = 0; i < CHUNKS; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(catalog_hold(host.catalog, digest_of(name)), 0);
		if (i % 3 == 0)
			end += sprintf(end, "%s\n", name);
	}
	assert_int_equal(host_push(&host, "m", manifest, 1), 0);
	assert_int_equal(host_flush(&host), 0);
	wait_until(host_knows(&host, "m"));
	for (size_t i = 0; i < CATALOG_PARTS; i++)
		assert_int_equal(catalog_garbage(host.catalog, i, pile_up, &pile), 0);
	assert_int_equal(pile.count, CHUNKS - CHUNKS / 3);
	assert_int_equal(catalog_release(host.catalog, pile.digests, CATALOG_RELEASE_MAX + 1,
					 keep_outcome, &outcome), -EINVAL);
	assert_int_equal(catalog_release(host.catalog, pile.digests, pile.count, keep_outcome,
					 &outcome), 0);
	wait_until(outcome.calls);
	assert_int_equal(outcome.err, 0);
	for (int i = 0; i < CHUNKS; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(catalog_holds(host.catalog, digest_of(name)), i % 3 == 0);
	}
	assert_int_equal(host_sync(&host), 0);
	for (int i = 0; i < CHUNKS; i += 7) {
		snprintf(name, sizeof(name), "c%d", i);
		assert_int_equal(holders(&host, name, true), i % 3 == 0);
	}
	free(manifest);
	free(pile.digests);
	host_die(&host);
}

/*
 * etcd, whose answers are text
 */

#define TURN_US 20000
#define LARGE 12   /* values of CATALOG_VALUE_MAX: the manifest of a large model */
#define NAMES 4096 /* buckets of 64 hosts */

static uint64_t longest_us; /* turn: what it took of this thread, whatever else runs */

static uint64_t used_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void run_turn(void)
{
	uint64_t begin;
	int ready = sd_event_prepare(bed.loop);

	if (!ready)
		ready = sd_event_wait(bed.loop, 100000);
	assert_true(ready >= 0);
	if (!ready)
		return;
	begin = used_us();
	assert_true(sd_event_dispatch(bed.loop) >= 0);
	begin = used_us() - begin;
	longest_us = begin > longest_us ? begin : longest_us;
}

/* What was heard, of which a copy would be the longest turn. */
struct heard {
	bool over;
	int err;
	size_t count, bytes;
};

static void hear(const struct catalog_result *result, void *arg)
{
	struct heard *heard = arg;

	heard->over = true;
	heard->err = result->err;
	heard->count = result->count;
	for (size_t i = 0; i < result->count; i++)
		heard->bytes += result->entries[i].size;
}

static struct heard listen_to(struct heard *heard)
{
	uint64_t end = now_us() + WAIT_S * 1000000ULL;

	while (!heard->over && now_us() < end)
		run_turn();
	assert_true(heard->over);
	assert_int_equal(heard->err, 0);
	return *heard;
}

static void write_values(struct catalog_write *writes, size_t count)
{
	struct heard heard = { 0 };
	uint64_t begin = used_us();

	assert_int_equal(catalog_store_txn(bed.store, &(struct catalog_txn){
		.writes = writes, .write_count = count,
	}, hear, &heard), 0);
	begin = used_us() - begin;
	longest_us = begin > longest_us ? begin : longest_us;
	listen_to(&heard);
}

static struct heard read_below(const char *prefix, enum catalog_scope scope)
{
	struct heard heard = { 0 };

	assert_int_equal(catalog_store_range(bed.store, prefix, scope, hear, &heard), 0);
	return listen_to(&heard);
}

static void large_values_of_etcd_take_no_long_turn(void **state)
{
	char *value = calloc(1, CATALOG_VALUE_MAX), key[32];
	struct heard heard;

	(void)state;
	SKIP_WITHOUT_ETCD();
	longest_us = 0;
	for (int i = 0; i < LARGE; i++) {
		snprintf(key, sizeof(key), "large/%04d", i);
		write_values(&(struct catalog_write){ key, value, CATALOG_VALUE_MAX, 0 }, 1);
	}
	heard = read_below("large/", CATALOG_BELOW);
	assert_int_equal(heard.count, LARGE);
	assert_int_equal(heard.bytes, LARGE * (size_t)CATALOG_VALUE_MAX);
	assert_in_range(longest_us, 0, TURN_US);
	free(value);
}

static void many_names_of_etcd_take_no_long_turn(void **state)
{
	struct catalog_write writes[CATALOG_TXN_MAX];
	char keys[CATALOG_TXN_MAX][64];

	(void)state;
	SKIP_WITHOUT_ETCD();
	longest_us = 0;
	for (int i = 0; i < NAMES;) {
		size_t count = 0;

		for (; count < CATALOG_TXN_MAX && i < NAMES; i++) {
			snprintf(keys[count], sizeof(keys[count]), "names/host-of-a-rack/%05d", i);
			writes[count] = (struct catalog_write){ keys[count], "x", 1, 0 };
			count++;
		}
		write_values(writes, count);
	}
	assert_int_equal(read_below("names/", CATALOG_NAMES).count, NAMES);
	assert_int_equal(read_below("names/", CATALOG_BELOW).bytes, NAMES);
	assert_in_range(longest_us, 0, TURN_US);
}

#define IN_TURNS(test) cmocka_unit_test_setup(test, reset)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_TURNS(a_long_listing_is_taken_over_in_turns),
		IN_TURNS(changes_that_come_during_a_long_listing_are_not_lost),
		IN_TURNS(what_the_watch_tells_at_once_is_taken_over_in_turns),
		IN_TURNS(a_manifest_is_read_aside),
		IN_TURNS(a_model_whose_record_changes_stays_known),
		IN_TURNS(what_is_left_of_a_release_is_what_was_not_given_up),
		ON_ETCD(large_values_of_etcd_take_no_long_turn),
		ON_ETCD(many_names_of_etcd_take_no_long_turn),
	};

	return cmocka_run_group_tests_name("catalog_turns", tests, setup_bed, teardown_bed);
}
