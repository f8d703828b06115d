// SPDX-License-Identifier: GPL-2.0-or-later
/* What whoever looks after this host's part of the pool is told of it. */
#include "../../userspace/distmindd/pool/status.h"
#include "service_host.h"

/* A text of the catalog's part of the status; the caller's. */
static char *catalog_says(const char *key)
{
	int fd = connect_client();
	struct message reply = ask(fd, json_pack("{s:s}", "op", "status"), NULL, 0);
	const char *text;
	char *copy;

	expect_ok(&reply);
	text = json_string_value(json_object_get(json_object_get(reply.body, "catalog"), key));
	assert_non_null(text);
	copy = strdup(text);
	message_clear(&reply);
	hang_up(fd);
	return copy;
}

static void expect_catalog(const char *key, const char *part)
{
	char *text = catalog_says(key);

	if (part[0])
		assert_contains(text, part);
	else
		assert_string_equal(text, "");
	free(text);
}

/* As if the store had said so when it was last asked. */
static void raise_alarm(int alarm, const char *why)
{
	struct catalog *catalog = bed.models->catalog;

	catalog->alarm = alarm;
	snprintf(catalog->alarm_why, sizeof(catalog->alarm_why), "%s", why);
}

static void an_alarm_of_the_store_comes_with_its_fix(void **state)
{
	(void)state;
	expect_catalog("alarm", "");
	expect_catalog("fix", "");
	raise_alarm(-ENOSPC, "no space left");
	expect_catalog("alarm", "no space left");
	expect_catalog("fix", "then defrag; or give etcd more --quota-backend-bytes; then: alarm "
			      "disarm");
	expect_catalog("fix", bed.config.catalog);
	raise_alarm(-EBADMSG, "damaged");
	expect_catalog("alarm", "damaged");
	expect_catalog("fix", "restore etcd from a snapshot");
	raise_alarm(0, "");
	expect_catalog("fix", "");
}

static void restart_as(const char *name, bool spooled)
{
	stop_daemon();
	strcpy(bed.config.host, name);
	if (!spooled)
		bed.config.spool[0] = '\0';
	start_daemon();
	wait_until(bed.models->former_looked_for && !bed.models->chunks.restore.under_way &&
		   !catalog_references_known(bed.models->catalog));
}

/* Whether the catalog knows so many hosts that have each chunk. */
static bool is_held_by(const struct sample *sample, size_t hosts)
{
	const struct model_manifest *manifest = &sample->image.manifest;

	for (uint32_t i = 0; i < manifest->chunk_count; i++) {
		if (catalog_chunk_holders(bed.models->catalog, manifest->chunks[i].digest.bytes,
					  NULL, 0) != hosts)
			return false;
	}
	return true;
}

static void the_same_name_as_before_is_no_news(void **state)
{
	struct sample sample;
	int before, log;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	log = log_to_memory(&before);
	restart_as("a", true);
	assert_int_equal(count_logged(log, before, "event=host-renamed"), 0);
	expect_catalog("former", "");
	expect_catalog("fix", "");
	free_sample(&sample);
}

/* A name that the catalog has something under, and that this host had before. */
static void a_host_that_was_renamed_is_told_so(void **state)
{
	struct sample sample;
	int before, log, fd;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	log = log_to_memory(&before);
	restart_as("b", false);
	assert_int_equal(count_logged(log, before, "event=host-renamed host=b former=a"), 1);
	expect_catalog("former", "a");
	expect_catalog("fix", "name = a in [host]");
	/* Without its spool it does not have what it had: it is named, and can be given up. */
	fd = connect_client();
	expect_refusal(fd, json_pack("{s:s, s:s}", "op", "forget", "host", "a"), NULL, 0,
		       "ENOTEMPTY", "net");
	hang_up(fd);
	free_sample(&sample);
}

static void what_the_spool_has_is_under_the_new_name(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	restart_as("b", true);
	expect_catalog("former", "a");
	load_once(&sample);
	wait_until(is_held_by(&sample, 2));
	/* Nothing is lost with the old one, and then there is nothing more to say. */
	fd = connect_client();
	ask_ok(fd, json_pack("{s:s, s:s}", "op", "forget", "host", "a"));
	hang_up(fd);
	wait_until(!status_former(bed.models, (char[CATALOG_HOST_LEN]){ 0 })[0]);
	expect_catalog("fix", "");
	free_sample(&sample);
}

/* What list says of a model; the caller's, NULL: nothing. */
static json_t *list_model(const char *name)
{
	int fd = connect_client();
	struct message reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	json_t *list = document(&reply), *row = NULL;
	const json_t *models = json_object_get(list, "models");

	for (size_t i = 0; i < json_array_size(models) && !row; i++) {
		row = json_array_get(models, i);
		row = strcmp(json_string_value(json_object_get(row, "name")), name) ?
			      NULL : json_incref(row);
	}
	json_decref(list);
	hang_up(fd);
	return row;
}

static void put_record(const char *rest, const char *text)
{
	char key[128];

	snprintf(key, sizeof(key), "%s/view/%s", bed.config.pool, rest);
	put_key(key, text, strlen(text));
}

static uint64_t arena_chunks(void)
{
	struct memory_arena_stats stats;

	memory_arena_stats(bed.models->chunks.arena, &stats);
	return stats.chunks;
}

#define UPLOAD "0123456789abcdef0123456789abcdef"

static void a_record_that_cannot_be_read_is_told_and_deleted(void **state)
{
	static const char *const names[] = { "odd", UPLOAD };
	struct sample sample;
	int before, log, fd;

	(void)state;
	push_sample(&sample, "net", 1);
	log = log_to_memory(&before);
	put_record("model/odd", "{\"name\":\"odd\",\"replicas\":\"many\"}");
	put_record("upload/" UPLOAD, "{}");
	fd = connect_client();
	ask_ok(fd, op("delete", "net"));
	for (size_t i = 0; i < 2; i++) {
		json_t *row = list_model(names[i]);

		assert_non_null(row);
		assert_string_equal(json_string_value(json_object_get(row, "state")), "unreadable");
		assert_contains(json_string_value(json_object_get(row, "error")),
				"its record makes no sense here");
		json_decref(row);
		expect_refusal(fd, load_op(names[i]), NULL, 0, "EBADMSG", "makes no sense here");
		/* What it needs is not known, so everything stays. */
		assert_true(arena_chunks() > 0);
		be_somebody(1000);
		expect_refusal(fd, op("delete", names[i]), NULL, 0, "EACCES", "may not change it");
		be_somebody(0);
		ask_ok(fd, op("delete", names[i]));
		assert_null(list_model(names[i]));
	}
	wait_until(!arena_chunks());
	assert_int_equal(count_logged(log, before, "event=model-unreadable"), 2);
	hang_up(fd);
	free_sample(&sample);
}

/* A chunk that is freed while somebody reads it. */
static void memory_that_is_kept_is_told(void **state)
{
	const uint8_t *digest;
	struct memory_chunk *chunk;
	struct sample sample;
	struct message reply;
	const json_t *memory;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	digest = sample.image.manifest.chunks[0].digest.bytes;
	assert_int_equal(memory_arena_pin(bed.models->chunks.arena, digest, &chunk), 0);
	fd = connect_client();
	ask_ok(fd, op("delete", "net"));
	wait_until(!arena_chunks());
	reply = ask(fd, json_pack("{s:s}", "op", "status"), NULL, 0);
	memory = json_object_get(reply.body, "memory");
	assert_int_equal(json_integer_value(json_object_get(memory, "kept_chunks")), 1);
	assert_int_equal(json_integer_value(json_object_get(memory, "kept_bytes")), chunk->length);
	message_clear(&reply);
	memory_arena_unpin(bed.models->chunks.arena, chunk);
	hang_up(fd);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(an_alarm_of_the_store_comes_with_its_fix),
		SERVICE_TEST(the_same_name_as_before_is_no_news),
		SERVICE_TEST(a_host_that_was_renamed_is_told_so),
		SERVICE_TEST(what_the_spool_has_is_under_the_new_name),
		SERVICE_TEST(memory_that_is_kept_is_told),
		SERVICE_TEST(a_record_that_cannot_be_read_is_told_and_deleted),
	};

	return cmocka_run_group_tests_name("service_status", tests, NULL, NULL);
}
