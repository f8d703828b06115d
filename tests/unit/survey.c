// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is counted over all models: once, until the catalog changes.
 */
#include "service_host.h"

#define MODELS 5

static json_t *list(void)
{
	int fd = connect_client();
	struct message reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	json_t *root = document(&reply);

	hang_up(fd);
	return root;
}

static json_int_t stored_bytes(void)
{
	json_t *root = list();
	json_int_t stored = json_integer_value(json_object_get(root, "stored_bytes"));

	json_decref(root);
	return stored;
}

static size_t gpus_of_first(void)
{
	json_t *root = list();
	json_t *model = json_array_get(json_object_get(root, "models"), 0);
	size_t count = json_array_size(json_object_get(model, "resident"));

	json_decref(root);
	return count;
}

static unsigned int answers;

static void on_ready(struct survey_wait *wait, int err)
{
	(void)wait;
	assert_int_equal(err, 0);
	answers++;
}

/* Waits until there is one of the catalog as it is. */
static void survey_now(void)
{
	struct survey_wait wait = { .ready = on_ready };

	answers = 0;
	survey_ask(&bed.models->survey, &wait);
	wait_until(answers);
}

static void a_model_that_the_catalog_does_not_have_is_not_found(void **state)
{
	const struct catalog_model stranger = { 0 };
	struct sample a;

	(void)state;
	survey_now();
	assert_null(survey_find(&bed.models->survey, &stranger));
	push_sample(&a, "a", 1);
	survey_now();
	assert_null(survey_find(&bed.models->survey, &stranger));
	assert_non_null(survey_find(&bed.models->survey,
				    catalog_model_find(bed.models->catalog, "a")));
	free_sample(&a);
}

/* Several ask, one of them thinks better of it, and it is made once. */
static void who_asks_meanwhile_gets_the_same(void **state)
{
	struct survey_wait waits[3] = { { .ready = on_ready }, { .ready = on_ready },
					{ .ready = on_ready } };
	struct sample a;

	(void)state;
	push_sample(&a, "a", 1);
	answers = 0;
	for (int i = 0; i < 3; i++)
		survey_ask(&bed.models->survey, &waits[i]);
	if (answers == 3) {
		free_sample(&a);
		skip();
	}
	survey_forget(&bed.models->survey, &waits[1]);
	wait_until(answers == 2);
	free_sample(&a);
}

static uint64_t turns[3];

/* It takes all of the turn. */
static void on_ready_slowly(struct survey_wait *wait, int err)
{
	(void)wait;
	assert_int_equal(err, 0);
	turns[answers++] = turns_account()->count;
	while (!turns_over())
		;
}

/* What they do with it is not done in one turn of the loop. */
static void those_who_wait_are_told_one_after_another(void **state)
{
	struct survey_wait waits[3];
	struct sample a;

	(void)state;
	push_sample(&a, "a", 1);
	answers = 0;
	/* As if the catalog had changed. */
	bed.models->survey.made = false;
	for (int i = 0; i < 3; i++) {
		waits[i] = (struct survey_wait){ .ready = on_ready_slowly };
		survey_ask(&bed.models->survey, &waits[i]);
	}
	wait_until(answers == 3);
	assert_true(turns[0] < turns[1] && turns[1] < turns[2]);
	free_sample(&a);
}

static void nothing_is_counted_again_until_the_catalog_changes(void **state)
{
	struct sample a, b;
	json_int_t stored;
	uint64_t changes;

	(void)state;
	push_sample(&a, "a", 1);
	assert_int_equal(stored_bytes(), arena_bytes());
	/* What nobody would count shows what was kept; a change meanwhile is another try. */
	do {
		changes = catalog_changes(bed.models->catalog);
		survey_now();
		bed.models->survey.rows.stored = 7;
		stored = stored_bytes();
	} while (catalog_changes(bed.models->catalog) != changes);
	assert_int_equal(stored, 7);
	push_sample(&b, "b", 2);
	assert_int_equal(stored_bytes(), arena_bytes());
	free_sample(&a);
	free_sample(&b);
}

static void what_the_gpus_have_is_not_kept(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	assert_int_equal(gpus_of_first(), 0);
	fd = connect_client();
	load_sample(fd, &sample);
	assert_int_equal(gpus_of_first(), 1);
	hang_up(fd);
	free_sample(&sample);
}

static void a_chunk_is_stored_once_however_many_have_it(void **state)
{
	struct sample samples[MODELS];
	const struct model_manifest *model = &samples[0].image.manifest;
	json_t *root, *row;
	char name[16];

	(void)state;
	for (int i = 0; i < MODELS; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		/* Layers from this one on are its own. */
		make_sample(&samples[i], name, 1, 300000, i ? LAYERS - 1 : LAYERS);
		push(&samples[i]);
		assert_int_equal(catalog_chunk_references(bed.models->catalog,
							  model->chunks[0].digest.bytes),
				 i + 1);
		assert_int_equal(stored_bytes(), arena_bytes());
	}
	root = list();
	row = json_array_get(json_object_get(root, "models"), 0);
	assert_in_range(json_integer_value(json_object_get(row, "shared_bytes")), 1,
			model->size - 1);
	json_decref(root);
	for (int i = 0; i < MODELS; i++)
		free_sample(&samples[i]);
}

/* How the first model is. */
static void expect_state(const char *state, json_int_t copies)
{
	json_t *root = list(), *row = json_array_get(json_object_get(root, "models"), 0);

	assert_string_equal(json_string_value(json_object_get(row, "state")), state);
	assert_int_equal(json_integer_value(json_object_get(row, "copies")), copies);
	json_decref(root);
}

static void the_chunk_with_fewest_holders_decides_how_a_model_is(void **state)
{
	struct sample sample;
	const uint8_t *digest;
	struct message reply;
	char key[128];
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	digest = sample.image.manifest.chunks[0].digest.bytes;
	expect_state("available", 1);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s, s:s, s:i}", "op", "replicas", "model", "net", "replicas",
				  2), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	/* For a moment its manifest is being read again. */
	wait_until(catalog_model_find(bed.models->catalog, "net")->known);
	expect_state("scarce", 1);
	put_host("x", 16U << 20, 16U << 20, "[]");
	put_chunks("x", &sample);
	expect_state("available", 2);
	catalog_lose(bed.models->catalog, digest);
	wait_until(catalog_chunk_holders(bed.models->catalog, digest, NULL, 0) == 1);
	expect_state("scarce", 1);
	/* What it had stays noted, as that of a host with a spool. */
	snprintf(key, sizeof(key), "%s/view/host/x", bed.config.pool);
	put_key(key, NULL, 0);
	expect_state("away", 0);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(a_model_that_the_catalog_does_not_have_is_not_found),
		SERVICE_TEST(who_asks_meanwhile_gets_the_same),
		SERVICE_TEST(those_who_wait_are_told_one_after_another),
		SERVICE_TEST(nothing_is_counted_again_until_the_catalog_changes),
		SERVICE_TEST(what_the_gpus_have_is_not_kept),
		SERVICE_TEST(a_chunk_is_stored_once_however_many_have_it),
		SERVICE_TEST(the_chunk_with_fewest_holders_decides_how_a_model_is),
	};

	return cmocka_run_group_tests_name("survey", tests, NULL, NULL);
}
