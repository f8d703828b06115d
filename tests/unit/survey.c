// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is counted over all models: once, until the catalog changes.
 */
#include "service_bed.h"

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
		assert_int_equal(survey_make(&bed.models->survey, bed.models->catalog), 0);
		bed.models->survey.stored = 7;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(nothing_is_counted_again_until_the_catalog_changes),
		SERVICE_TEST(what_the_gpus_have_is_not_kept),
		SERVICE_TEST(a_chunk_is_stored_once_however_many_have_it),
	};

	return cmocka_run_group_tests_name("survey", tests, NULL, NULL);
}
