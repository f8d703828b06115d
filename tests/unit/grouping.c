// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/distmindd/pool/grouping.h"
#include "../../userspace/distmindd/pool/staging.h"
#include "../../userspace/model/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model of so many tensors of the same size, without their bytes. */
struct model {
	struct model_checkpoint checkpoint;
	struct model_tensor *tensors;
	struct model_image image;
};

static void model_create(struct model *model, uint32_t count, uint64_t size)
{
	char error[MODEL_ERROR_LEN];

	*model = (struct model){ .checkpoint.count = count };
	model->tensors = calloc(count, sizeof(*model->tensors));
	model->checkpoint.tensors = calloc(count, sizeof(*model->checkpoint.tensors));
	assert_true(model->tensors && model->checkpoint.tensors);
	for (uint32_t i = 0; i < count; i++) {
		model->tensors[i] = (struct model_tensor){
			.size = size,
			.shape = { .dtype = MODEL_U8, .rank = 1, .extent = { size } },
		};
		assert_true(asprintf(&model->tensors[i].name, "layers.%u.weight", i) > 0);
		model->checkpoint.tensors[i] = &model->tensors[i];
	}
	if (model_image_create(&model->image, "model", &model->checkpoint, NULL, error))
		fail_msg("%s", error);
}

static void model_destroy(struct model *model)
{
	model_image_destroy(&model->image);
	for (size_t i = 0; i < model->checkpoint.count; i++)
		free(model->tensors[i].name);
	free(model->tensors);
	free(model->checkpoint.tensors);
}

static void the_same_rates_are_grouped_once(void **state)
{
	struct grouping_rates rates[GROUPING_RECENT + 1];
	const struct grouping_group *made[COUNT(rates)];
	struct grouping_recent recent = { 0 };
	struct model model;
	int err = 0;

	(void)state;
	model_create(&model, 1000, 100000);
	for (size_t i = 0; i < COUNT(rates); i++) {
		rates[i] = (struct grouping_rates){ .network = 1e9, .spread = 0.1,
						    .compute_ns = 1000000 * (i + 1) };
		made[i] = grouping_recent_get(&recent, &model.image.manifest, &rates[i],
					      &err)->groups;
		/* So it is again. */
		assert_ptr_equal(grouping_recent_get(&recent, &model.image.manifest, &rates[i],
						     &err)->groups, made[i]);
	}
	/* All but the first are still there. */
	for (size_t i = 1; i < COUNT(rates); i++)
		assert_ptr_equal(grouping_recent_get(&recent, &model.image.manifest, &rates[i],
						     &err)->groups, made[i]);
	assert_int_equal(err, 0);
	grouping_recent_clear(&recent);
	model_destroy(&model);
}

static void every_rate_is_another_grouping(void **state)
{
	const struct grouping_rates usual = {
		.network = 1e9, .spread = 0.1, .copy = 4e9, .transfer_cost = 1e-5,
		.begin_cost = 1e-12, .compute_ns = 1000000,
	};
	struct grouping_rates other[] = { usual, usual, usual, usual, usual, usual };
	struct model model;

	(void)state;
	model_create(&model, 100, 100000);
	other[0].network *= 2;
	other[1].spread *= 2;
	other[2].copy *= 2;
	other[3].transfer_cost *= 2;
	other[4].begin_cost *= 2;
	other[5].compute_ns *= 2;
	for (size_t i = 0; i < COUNT(other); i++) {
		struct grouping_recent recent = { 0 };
		const struct grouping *one, *two;
		int err;

		one = grouping_recent_get(&recent, &model.image.manifest, &usual, &err);
		two = grouping_recent_get(&recent, &model.image.manifest, &other[i], &err);
		assert_ptr_not_equal(one, two);
		grouping_recent_clear(&recent);
	}
	model_destroy(&model);
}

static void who_takes_one_may_change_it(void **state)
{
	const struct grouping_rates rates = { .network = 1e9, .compute_ns = 1 };
	struct grouping_recent recent = { 0 };
	const struct grouping *found;
	struct grouping mine;
	struct model model;
	uint32_t before;
	int err;

	(void)state;
	model_create(&model, 4, 20 << 20);
	found = grouping_recent_get(&recent, &model.image.manifest, &rates, &err);
	before = found->count;
	assert_int_equal(grouping_take(&mine, &recent, &model.image.manifest, &rates), 0);
	assert_int_equal(mine.count, before);
	assert_memory_equal(mine.groups, found->groups, before * sizeof(*mine.groups));
	assert_int_equal(mine.predicted_ns, found->predicted_ns);
	assert_int_equal(grouping_cut(&mine, &model.image.manifest, STAGING_GROUP_LEAST,
				      UINT32_MAX), 0);
	assert_true(mine.count > before);
	assert_int_equal(found->count, before);
	grouping_clear(&mine);
	grouping_recent_clear(&recent);
	model_destroy(&model);
}

/* From a small model to 1 TiB. */
static void parts_of_a_staged_load_fit_a_queue(void **state)
{
	static const struct {
		uint32_t tensors;
		uint64_t size, group;
	} cases[] = {
		{ 4, 20 << 20, 4 << 20 },	 { 18432, 3 << 20, 8 << 20 },
		{ 512, 256 << 20, 16 << 20 },	 { 4096, 256 << 20, 128 << 20 },
	};
	const struct grouping_rates rates = { .network = 1e10, .copy = 1e10 };

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct model_manifest *manifest;
		struct grouping grouping;
		struct model model;
		uint32_t first = 0;
		uint64_t max;

		model_create(&model, cases[i].tensors, cases[i].size);
		manifest = &model.image.manifest;
		max = staging_group_max(manifest);
		assert_int_equal(max, cases[i].group);
		assert_true(staging_size(manifest) <= 4 * max);
		assert_int_equal(grouping_make(&grouping, manifest, &rates), 0);
		assert_int_equal(grouping_cut(&grouping, manifest, max, UINT32_MAX), 0);
		assert_in_range(grouping.count, 1, DISTMIND_QUEUE_DEPTH_MAX / 2);
		for (uint32_t j = 0; j < grouping.count; j++) {
			assert_in_range(grouping.groups[j].bytes, 1, max);
			assert_true(grouping.groups[j].end_chunk > first);
			first = grouping.groups[j].end_chunk;
		}
		assert_int_equal(first, manifest->chunk_count);
		grouping_clear(&grouping);
		model_destroy(&model);
	}
}

static void groups_are_cut_between_so_many_chunks(void **state)
{
	const struct grouping_rates rates = { .network = 1e9, .compute_ns = 1 };
	const struct model_manifest *manifest;
	struct grouping grouping;
	struct model model;
	uint32_t first = 0;

	(void)state;
	model_create(&model, 2, 100 << 20);
	manifest = &model.image.manifest;
	assert_int_equal(grouping_make(&grouping, manifest, &rates), 0);
	assert_true(grouping.count <= 2);
	assert_int_equal(grouping_cut(&grouping, manifest, UINT64_MAX, 7), 0);
	for (uint32_t i = 0; i < grouping.count; i++) {
		assert_in_range(grouping.groups[i].end_chunk - first, 1, 7);
		first = grouping.groups[i].end_chunk;
	}
	assert_int_equal(first, manifest->chunk_count);
	assert_int_equal(grouping.groups[grouping.count - 1].end_layer, 2);
	grouping_clear(&grouping);
	model_destroy(&model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_rates_are_grouped_once),
		cmocka_unit_test(every_rate_is_another_grouping),
		cmocka_unit_test(who_takes_one_may_change_it),
		cmocka_unit_test(parts_of_a_staged_load_fit_a_queue),
		cmocka_unit_test(groups_are_cut_between_so_many_chunks),
	};

	return cmocka_run_group_tests_name("grouping", tests, NULL, NULL);
}
