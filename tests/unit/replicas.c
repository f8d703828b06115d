// SPDX-License-Identifier: GPL-2.0-or-later
/* How many copies models are to have, as it is worked out from the catalog and shown. */
#include "service_host.h"

#include "../../userspace/distmindd/pool/replicas.h"

static uint32_t extra_of(const char *name)
{
	const struct catalog_model *model = catalog_model_find(bed.models->catalog, name);
	struct replicas replicas;
	uint32_t extra;

	assert_non_null(model);
	assert_int_equal(replicas_begin(&replicas, bed.models->catalog), 0);
	assert_int_equal(replicas_look(&replicas), 0);
	extra = replicas_extra(&replicas, name);
	replicas_free(&replicas);
	return extra;
}

static void every_host_that_calls_a_model_hot_asks_for_one_more(void **state)
{
	struct sample a, b;

	(void)state;
	push_sample(&a, "a", 1);
	push_sample(&b, "b", 2);
	assert_int_equal(extra_of("a"), 0);
	put_host("x", 16U << 20, 16U << 20, "[\"a\",\"nobody-has-it\"]");
	wait_until(extra_of("a") == 1);
	assert_int_equal(extra_of("b"), 0);
	put_host("y", 0, 0, "[\"a\",\"a\",\"b\"]");
	put_host("z", 16U << 20, 16U << 20, "[]");
	wait_until(extra_of("a") == 2 && extra_of("b") == 1);
	put_host("x", 16U << 20, 16U << 20, "[]");
	put_host("y", 0, 0, "[]");
	wait_until(!extra_of("a") && !extra_of("b"));
	free_sample(&a);
	free_sample(&b);
}

/* Twice all of it would leave less than half of the memory free. */
static void what_models_have_in_common_takes_room_once(void **state)
{
	struct sample base, tuned, other;

	(void)state;
	make_sample(&base, "base", 1, 600000, LAYERS);
	make_sample(&tuned, "tuned", 1, 600000, LAYERS - 1);
	make_sample(&other, "other", 2, 600000, LAYERS);
	push(&base);
	push(&tuned);
	put_host("x", 1U << 20, 1U << 20, "[\"base\"]");
	wait_until(extra_of("base") == 1);
	push(&other);
	wait_until(!extra_of("base"));
	free_sample(&base);
	free_sample(&tuned);
	free_sample(&other);
}

static void list_and_show_tell_what_is_wanted_and_what_there_is(void **state)
{
	static const char *const keys[] = { "replicas", "extra_replicas", "copies" };
	struct sample sample;
	struct message reply;
	json_t *list, *show;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	put_host("x", 16U << 20, 16U << 20, "[\"net\"]");
	wait_until(extra_of("net") == 1);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	list = document(&reply);
	reply = ask(fd, op("show", "net"), NULL, 0);
	show = document(&reply);
	for (size_t i = 0; i < COUNT(keys); i++) {
		const json_t *row = json_array_get(json_object_get(list, "models"), 0);

		assert_int_equal(json_integer_value(json_object_get(row, keys[i])), 1);
		assert_int_equal(json_integer_value(json_object_get(show, keys[i])), 1);
	}
	json_decref(list);
	json_decref(show);
	hang_up(fd);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(every_host_that_calls_a_model_hot_asks_for_one_more),
		SERVICE_TEST(what_models_have_in_common_takes_room_once),
		SERVICE_TEST(list_and_show_tell_what_is_wanted_and_what_there_is),
	};

	return cmocka_run_group_tests_name("replicas", tests, NULL, NULL);
}
