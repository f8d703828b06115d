// SPDX-License-Identifier: GPL-2.0-or-later
/* distmindctl pool: what is promised, where things go and why, repacking. */
#include "ctl_fake.h"

#define G (1ULL << 30)

static const char *config = "/nonexistent/distmindd.conf";

static struct outcome pool_ctl(const char *line)
{
	return ctl_with((struct ctl){ .admin = true, .daemon_config = config }, line);
}

static json_t *json_of(const char *line)
{
	struct outcome outcome = pool_ctl(line);
	json_error_t error;
	json_t *root;

	assert_string_equal(outcome.err, "");
	assert_int_equal(outcome.status, CTL_OK);
	root = json_loads(outcome.out, JSON_REJECT_DUPLICATES, &error);
	if (!root)
		fail_msg("%s: %s in: %s", line, error.text, outcome.out);
	outcome_free(&outcome);
	return root;
}

static json_t *row_of(const json_t *root, const char *key, size_t row)
{
	json_t *found = json_array_get(json_object_get(root, key), row);

	assert_non_null(found);
	return found;
}

static int64_t number_of(const json_t *row, const char *key)
{
	json_t *value = json_object_get(row, key);

	assert_true(json_is_number(value));
	return (int64_t)json_number_value(value);
}

static const char *text_of(const json_t *row, const char *key)
{
	json_t *value = json_object_get(row, key);

	assert_true(json_is_string(value));
	return json_string_value(value);
}

static void expect(const char *line, int status, const char *out, const char *err)
{
	struct outcome outcome = pool_ctl(line);

	assert_string_equal(outcome.err, err);
	assert_string_equal(outcome.out, out);
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
}

static void expect_words(const char *line, int status, const char *out, const char *err)
{
	struct outcome outcome = pool_ctl(line);

	assert_says(outcome.err, err);
	assert_says(outcome.out, out);
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
}

static void add_gpu(const char *kind, uint32_t box, uint64_t memory)
{
	struct distmind_gpu_record *gpu = &fake.gpus[fake.gpu_count];

	*gpu = (struct distmind_gpu_record){ .id = fake.gpu_count, .box = box, .memory = memory };
	snprintf(gpu->name, sizeof(gpu->name), "gpu%u", gpu->id);
	snprintf(gpu->kind, sizeof(gpu->kind), "%s", kind);
	fake.gpu_count++;
}

static void add_vgpu(const char *name, uint32_t gpu, uint64_t memory, uint32_t share)
{
	struct distmind_vgpu_record *vgpu = &fake.vgpus[fake.vgpu_count];

	*vgpu = (struct distmind_vgpu_record){
		.id = 10 + fake.vgpu_count,
		.gpu = gpu,
		.memory = memory,
		.share = share,
	};
	strcpy(vgpu->name, name);
	fake.vgpu_count++;
	if (gpu != DISTMIND_GPU_NONE)
		fake.gpus[gpu].vgpus++;
}

/* Two boxes of two; three gpus are in use, which two would do for. */
static int setup(void **state)
{
	fake_setup(state);
	fake.gpu_count = fake.vgpu_count = fake.claim_count = fake.buffer_count = 0;
	config = "/nonexistent/distmindd.conf";
	add_gpu("A100", 0, 8 * G);
	add_gpu("A100", 0, 8 * G);
	add_gpu("A100", 1, 8 * G);
	add_gpu("A100", 1, 8 * G);
	add_vgpu("train", 0, 4 * G, 600);
	add_vgpu("serve", 1, 2 * G, 500);
	add_vgpu("", 2, 1 * G, 300);
	return 0;
}

static void show_tells_what_is_promised_and_what_is_left(void **state)
{
	json_t *root, *row;

	(void)state;
	root = json_of("-j pool show");
	assert_int_equal(json_array_size(json_object_get(root, "gpus")), 4);
	row = row_of(root, "gpus", 0);
	assert_int_equal(json_object_size(row), 10);
	assert_int_equal(number_of(row, "share"), 60);
	assert_int_equal(number_of(row, "share_left"), 40);
	assert_int_equal(number_of(row, "memory"), 4 * G);
	assert_int_equal(number_of(row, "memory_left"), 4 * G);
	assert_int_equal(json_array_size(json_object_get(root, "boxes")), 2);
	row = row_of(root, "boxes", 1);
	assert_int_equal(number_of(row, "whole"), 1);
	assert_int_equal(number_of(row, "share_left"), 170);
	/* 70 of 170 percent. */
	assert_int_equal(number_of(row, "fragmentation"), 41);
	row = row_of(root, "pool", 0);
	assert_int_equal(number_of(row, "gpus"), 4);
	assert_int_equal(number_of(row, "share"), 140);
	assert_int_equal(number_of(row, "share_left"), 260);
	assert_int_equal(number_of(row, "memory_left"), 25 * G);
	json_decref(root);
}

static void show_is_for_people_too(void **state)
{
	(void)state;
	fake.gpus[3].state = DISTMIND_GPU_STATE_LOST;
	expect("pool show", CTL_OK,
	       "BOX GPU NAME KIND STATE VGPUS SHARE LEFT MEMORY LEFT\n"
	       "  0   0 gpu0 A100 ready     1   60%  40%     4G   4G\n"
	       "  0   1 gpu1 A100 ready     1   50%  50%     2G   6G\n"
	       "  1   2 gpu2 A100 ready     1   30%  70%     1G   7G\n"
	       "  1   3 gpu3 A100 lost      0    0%    -      0    -\n"
	       "\n"
	       "BOX GPUS READY WHOLE SHARE LEFT MEMORY LEFT IN PIECES\n"
	       "  0    2     2     0  110%  90%     6G  10G      100%\n"
	       "  1    2     1     0   30%  70%     1G   7G      100%\n"
	       "\n"
	       "4 gpus in 2 boxes, 3 ready; promised: 140% of a gpu, 7G; left: 160%, 17G; "
	       "0 whole gpus free, 100% of what is left is in pieces\n",
	       "");
	fake.gpu_count = 0;
	expect("pool", CTL_OK, "",
	       "no gpus in the pool; start one with: distmind-engine-cpu --memory 1G\n");
}

/* What a user sees of others is not enough to tell what is free. */
static void only_root_sees_what_is_promised(void **state)
{
	struct outcome outcome = ctl_as(false, "pool show");

	(void)state;
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_contains(outcome.err, "run it as root");
	outcome_free(&outcome);
}

static void overcommit_is_that_of_the_daemon(void **state)
{
	char path[] = "/tmp/ctl_pool.XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");
	json_t *root;

	(void)state;
	fputs("[placement]\nshare-overcommit = 200%\nmemory-overcommit = 150%\n", file);
	fclose(file);
	config = path;
	root = json_of("-j pool show");
	assert_int_equal(number_of(row_of(root, "gpus", 0), "share_left"), 140);
	assert_int_equal(number_of(row_of(root, "gpus", 0), "memory_left"), 8 * G);
	json_decref(root);
	file = fopen(path, "w");
	fputs("[placement]\nshare-overcommit = much\n", file);
	fclose(file);
	expect_words("pool show", CTL_FAILED, "", ":2:");
	remove(path);
}

static void explain_names_the_choice_and_what_others_cost(void **state)
{
	json_t *root, *row;
	int64_t cost = INT64_MIN;

	(void)state;
	fake.gpus[3].state = DISTMIND_GPU_STATE_DRAINING;
	root = json_of("-j pool explain --memory 1G --share 40");
	assert_int_equal(json_array_size(json_object_get(root, "candidates")), 4);
	for (size_t i = 0; i < 3; i++) {
		row = row_of(root, "candidates", i);
		assert_string_equal(text_of(row, "verdict"), i ? "possible" : "chosen");
		assert_true(number_of(row, "cost_ppm") >= cost);
		cost = number_of(row, "cost_ppm");
		if (i)
			assert_contains(text_of(row, "why"), "most of it for");
	}
	/* It fills the gpu that has just that much left. */
	row = row_of(root, "candidates", 0);
	assert_int_equal(json_integer_value(json_array_get(json_object_get(row, "gpus"), 0)), 0);
	assert_string_equal(text_of(row, "why"), "costs least");
	row = row_of(root, "candidates", 3);
	assert_string_equal(text_of(row, "verdict"), "unfit");
	assert_string_equal(text_of(row, "why"), "is draining");
	assert_true(json_is_null(json_object_get(row, "cost_ppm")));
	row = row_of(root, "answer", 0);
	assert_true(json_is_true(json_object_get(row, "placed")));
	assert_int_equal(json_integer_value(json_array_get(json_object_get(row, "gpus"), 0)), 0);
	json_decref(root);
	expect_words("pool explain --memory 1G --share 40", CTL_OK, "\ngoes to gpu 0\n", "");
}

static void explain_adds_up(void **state)
{
	static const char *const terms[] = { "hole_ppm",     "shortage_ppm", "fragment_ppm",
					     "scarcity_ppm", "packing_ppm",  "distance_ppm",
					     "speed_ppm",    "cache_ppm",    "interference_ppm",
					     "migration_ppm" };
	json_t *root = json_of("-j pool explain serve"), *row;
	int64_t sum;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		sum = 0;
		row = row_of(root, "candidates", i);
		for (size_t k = 0; k < COUNT(terms); k++)
			sum += number_of(row, terms[k]);
		assert_in_range(number_of(row, "cost_ppm") - sum + 10, 0, 20);
	}
	json_decref(root);
}

static void explain_says_why_a_claim_is_refused(void **state)
{
	json_t *root, *row;

	(void)state;
	fake.gpus[0].state = DISTMIND_GPU_STATE_LOST;
	root = json_of("-j pool explain --memory 16G");
	row = row_of(root, "answer", 0);
	assert_true(json_is_false(json_object_get(row, "placed")));
	assert_true(json_is_null(json_object_get(row, "gpus")));
	assert_contains(text_of(row, "reason"), "16G");
	assert_string_equal(text_of(row_of(root, "candidates", 0), "why"), "is lost");
	assert_string_equal(text_of(row_of(root, "candidates", 1), "why"), "has only 8G of memory");
	json_decref(root);

	root = json_of("-j pool explain --memory 8G --share 60");
	assert_string_equal(text_of(row_of(root, "candidates", 1), "why"), "is lost");
	assert_string_equal(text_of(row_of(root, "candidates", 2), "why"),
			    "has 6G of memory left");
	json_decref(root);
	root = json_of("-j pool explain --memory 1G --share 60");
	assert_string_equal(text_of(row_of(root, "candidates", 3), "why"), "has 50% left");
	json_decref(root);

	expect_words("pool explain --memory 1G --kind H100", CTL_OK,
		     "refused: no gpu of kind H100; the pool has: A100\n", "");
	expect_words("pool explain --memory 1G --kind H100", CTL_OK, "is of kind A100", "");
}

static void explain_of_several_gpus_is_by_gpu_or_by_box(void **state)
{
	json_t *root, *row;

	(void)state;
	root = json_of("-j pool explain --memory 1G --share 50 --count 3");
	assert_int_equal(json_array_size(json_object_get(row_of(root, "answer", 0), "gpus")), 3);
	for (size_t i = 0; i < 3; i++)
		assert_string_equal(text_of(row_of(root, "candidates", i), "verdict"), "chosen");
	assert_string_equal(text_of(row_of(root, "candidates", 3), "why"), "has 40% left");
	json_decref(root);

	root = json_of("-j pool explain --memory 1G --share 50 --count 2 --same-box");
	assert_int_equal(json_array_size(json_object_get(root, "candidates")), 2);
	row = row_of(root, "candidates", 0);
	assert_string_equal(text_of(row, "verdict"), "chosen");
	assert_int_equal(number_of(row, "box"), 1);
	assert_int_equal(json_array_size(json_object_get(row, "gpus")), 2);
	row = row_of(root, "candidates", 1);
	assert_string_equal(text_of(row, "why"), "has 1 of 2 gpus that would do");
	json_decref(root);
}

static void explain_of_a_vgpu_compares_where_it_is(void **state)
{
	json_t *root;
	int here = 0;

	(void)state;
	root = json_of("-j pool explain serve");
	for (size_t i = 0; i < 4; i++) {
		json_t *row = row_of(root, "candidates", i);
		json_t *gpus = json_object_get(row, "gpus");

		/* Alone it is there, without a move, and without itself in the way. */
		if (json_integer_value(json_array_get(gpus, 0)) == 1) {
			here++;
			assert_string_equal(text_of(row, "verdict"), "here");
			assert_int_equal(number_of(row, "migration_ppm"), 0);
		}
	}
	assert_int_equal(here, 1);
	json_decref(root);
	add_vgpu("parked", DISTMIND_GPU_NONE, 1 * G, 100);
	expect_words("pool explain vgpu13", CTL_OK, "goes to gpu ", "");
	expect_words("pool explain /dev/distmind/vgpu10", CTL_OK, "gpu 0", "");
	expect_words("pool explain 77", CTL_FAILED, "", "there is no vgpu 77");
	strcpy(fake.vgpus[2].name, "train");
	expect_words("pool explain train", CTL_FAILED, "", "2 vgpus are named train");
}

static void a_vgpu_stays_with_its_kind(void **state)
{
	json_t *root;

	(void)state;
	strcpy(fake.gpus[2].kind, "H100");
	strcpy(fake.gpus[3].kind, "H100");
	root = json_of("-j pool explain serve");
	assert_string_equal(text_of(row_of(root, "candidates", 2), "why"), "is of kind H100");
	json_decref(root);
	/* The only one that could be freed is of another kind than those with room. */
	expect("pool repack --dry-run", CTL_OK, "0 moves would free 0 gpus\n", "");
}

static void explain_wants_a_vgpu_or_terms(void **state)
{
	(void)state;
	expect_words("pool explain", CTL_USAGE, "", "--memory is needed");
	expect_words("pool explain serve --memory 1G", CTL_USAGE, "", "a vgpu has its terms");
	expect_words("pool explain a b", CTL_USAGE, "", "explain needs one vgpu, not 2");
	expect_words("pool explain --memory 1G --count 65", CTL_USAGE, "", "from 1 to 64");
	expect_words("pool explain --memory 1G --kind a/b", CTL_USAGE, "", "is not a name");
}

static void a_repacking_plan_is_printed_and_not_done(void **state)
{
	json_t *root, *row;

	(void)state;
	expect("pool repack --dry-run", CTL_OK,
	       "would move vgpu 12 (1G, 30%) from gpu 2 to gpu 0: frees gpu 2\n"
	       "1 move would free 1 gpu\n",
	       "");
	root = json_of("-j --dry-run pool repack");
	row = row_of(root, "moves", 0);
	assert_int_equal(number_of(row, "vgpu"), 12);
	assert_int_equal(number_of(row, "from"), 2);
	assert_true(json_is_false(json_object_get(row, "done")));
	json_decref(root);
	assert_int_equal(fake.changes, 0);
}

/* They are on their gpu or nowhere, and give way to whoever comes to it. */
static void repacking_leaves_the_daemons_own_vgpus_alone(void **state)
{
	json_t *root;

	(void)state;
	/* Beside a tenant, and alone: as tenants both could be moved, and would free a gpu. */
	add_vgpu(DISTMIND_WEIGHTS_PREFIX "gpu2", 2, 1 * G, 1);
	add_vgpu(DISTMIND_WEIGHTS_PREFIX "gpu3", 3, 1 * G, 1);
	root = json_of("-j --dry-run pool repack");
	assert_int_equal(json_array_size(json_object_get(root, "moves")), 1);
	assert_int_equal(number_of(row_of(root, "moves", 0), "vgpu"), 12);
	json_decref(root);
	expect_words("pool repack", CTL_OK, "1 move freed 1 gpu\n", "");
	assert_int_equal(fake.changes, 1);
	assert_int_equal(fake.set.id, 12);
	/* A user's, whatever its name, is a tenant. */
	fake.vgpus[4].uid = 1000;
	expect_words("pool repack --dry-run", CTL_OK, "would move vgpu 14 ", "");
}

static void repacking_moves_what_it_says(void **state)
{
	(void)state;
	expect_words("pool repack", CTL_OK, "1 move freed 1 gpu\n", "");
	assert_int_equal(fake.changes, 1);
	assert_int_equal(fake.set.id, 12);
	assert_int_equal(fake.set_fields, DISTMIND_SET_GPU);
	assert_true(fake.set.gpu < 2);
}

static void repacking_frees_as_many_as_are_wanted(void **state)
{
	(void)state;
	fake.vgpu_count = 0;
	for (uint32_t i = 0; i < 4; i++) {
		fake.gpus[i].box = 0;
		add_vgpu("", i, 1 * G, 200);
	}
	expect_words("pool repack --dry-run", CTL_OK, "would free 3 gpus\n", "");
	expect_words("pool repack --free 1 --dry-run", CTL_OK, "1 move would free 1 gpu\n", "");
	expect_words("pool repack --free 2", CTL_OK, "2 moves freed 2 gpus\n", "");
	assert_int_equal(fake.changes, 2);
	expect_words("pool repack --free 4", CTL_FAILED, "", "cannot free 4 gpus");
	assert_int_equal(fake.changes, 2);
	expect_words("pool repack --free x", CTL_USAGE, "", "--free x is not a number of gpus");
}

static void repacking_stops_at_the_first_refusal(void **state)
{
	(void)state;
	fake.vgpu_count = 0;
	for (uint32_t i = 0; i < 4; i++)
		add_vgpu("", i, 1 * G, 200);
	fake.change_error = -EBUSY;
	fake.error_text = "the gpu is draining: undrain it first";
	expect_words("pool repack", CTL_FAILED, "0 moves freed 0 gpus\n",
		     "the gpu is draining: undrain it first");
	assert_int_equal(fake.changes, 1);
}

/* Between the plan and the move, somebody was given the room. */
static int take_room(unsigned int looks)
{
	if (looks == 1) {
		fake.vgpus[0].share = 900;
		fake.vgpus[1].share = 900;
	}
	return 0;
}

static void repacking_looks_again_before_it_moves(void **state)
{
	(void)state;
	fake.look = take_room;
	expect_words("pool repack", CTL_FAILED, "0 moves freed 0 gpus\n",
		     "has no room for vgpu 12 any more; run it again");
	assert_int_equal(fake.changes, 0);
}

#define pool_test(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		pool_test(show_tells_what_is_promised_and_what_is_left),
		pool_test(show_is_for_people_too),
		pool_test(only_root_sees_what_is_promised),
		pool_test(overcommit_is_that_of_the_daemon),
		pool_test(explain_names_the_choice_and_what_others_cost),
		pool_test(explain_adds_up),
		pool_test(explain_says_why_a_claim_is_refused),
		pool_test(explain_of_several_gpus_is_by_gpu_or_by_box),
		pool_test(explain_of_a_vgpu_compares_where_it_is),
		pool_test(a_vgpu_stays_with_its_kind),
		pool_test(explain_wants_a_vgpu_or_terms),
		pool_test(a_repacking_plan_is_printed_and_not_done),
		pool_test(repacking_leaves_the_daemons_own_vgpus_alone),
		pool_test(repacking_moves_what_it_says),
		pool_test(repacking_frees_as_many_as_are_wanted),
		pool_test(repacking_stops_at_the_first_refusal),
		pool_test(repacking_looks_again_before_it_moves),
	};

	return cmocka_run_group_tests_name("ctl_pool", tests, NULL, NULL);
}
