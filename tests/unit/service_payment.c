// SPDX-License-Identifier: GPL-2.0-or-later
/* Who pays for the weights that are used. */
#include "service_bed.h"

static json_t *shown_users(int fd, const char *name)
{
	struct message reply = ask(fd, op("show", name), NULL, 0);
	json_t *shown = document(&reply), *users = json_incref(json_object_get(shown, "users"));

	json_decref(shown);
	return users;
}

static void expect_evicted(int fd, const char *model)
{
	struct message reply = ask(fd, op("evict", model), NULL, 0);

	expect_ok(&reply);
	message_clear(&reply);
}

static void whoever_uses_models_pays_for_them(void **state)
{
	struct sample first, second;
	json_t *users;
	int fds[3];

	(void)state;
	push_sample(&first, "first", 1);
	push_sample(&second, "second", 2);
	fake.tenant_uid = 1000;
	fake.tenant_memory = 2 << 20;
	for (int i = 0; i < 3; i++) {
		fds[i] = connect_client();
		be_somebody(1000);
	}
	/* 1.8 MB each. */
	load_sample(fds[0], &first);
	expect_refusal(fds[1], load_op("second"), NULL, 0, "EDQUOT", "give it more");
	/* Another use of the same copy by the same vgpu costs nothing. */
	load_sample(fds[1], &first);
	users = shown_users(fds[2], "first");
	assert_int_equal(json_array_size(users), 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(users, 0), "vgpu")),
			 FAKE_TENANT);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(users, 0), "uid")), 1000);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(users, 0), "uses")), 2);
	json_decref(users);
	/* Who has closed his descriptors pays for as long as he uses it. */
	expect_refusal(fds[2], load_op("second"), NULL, 0, "EDQUOT", "give it more");
	/* When nobody uses it any more it costs nothing, though it may still be there. */
	hang_up(fds[0]);
	expect_refusal(fds[2], load_op("second"), NULL, 0, "EDQUOT", "give it more");
	hang_up(fds[1]);
	users = shown_users(fds[2], "first");
	assert_int_equal(json_array_size(users), 0);
	json_decref(users);
	/* Its own buffers count too. */
	fake.tenant_used = 1 << 20;
	expect_refusal(fds[2], load_op("second"), NULL, 0, "EDQUOT", "give it more");
	fake.tenant_used = 0;
	load_sample(fds[2], &second);
	hang_up(fds[2]);
	free_sample(&first);
	free_sample(&second);
}

/* The use has ended, the model has been evicted, and there is a descriptor left. */
static void who_keeps_weights_pays_for_them(void **state)
{
	struct sample first, second;
	struct message reply;
	int fd;

	(void)state;
	push_sample(&first, "first", 1);
	push_sample(&second, "second", 2);
	fake.tenant_memory = 2 << 20;
	fd = connect_client();
	reply = ask(fd, load_op("first"), NULL, 0);
	expect_ok(&reply);
	hang_up(fd);
	fd = connect_client();
	expect_refusal(fd, load_op("second"), NULL, 0, "EDQUOT", "give it more");
	expect_evicted(fd, "first");
	expect_refusal(fd, load_op("second"), NULL, 0, "EDQUOT", "give it more");
	message_clear(&reply);
	load_sample(fd, &second);
	hang_up(fd);
	free_sample(&first);
	free_sample(&second);
}

/* Each of them could be paid for, but not both; who knows before the memory is there? */
static void loads_at_once_are_paid_for_together(void **state)
{
	struct sample samples[2];
	struct message reply;
	int fds[2];

	(void)state;
	push_sample(&samples[0], "first", 1);
	push_sample(&samples[1], "second", 2);
	fake.tenant_memory = 2 << 20;
	fds[0] = connect_client();
	fds[1] = connect_client();
	say(fds[0], load_op("first"), NULL, 0);
	say(fds[1], load_op("second"), NULL, 0);
	/* Which of the two the loop hears of first is its own affair. */
	reply = receive(fds[0]);
	if (json_is_true(json_object_get(reply.body, "ok"))) {
		check_weights(&reply, &samples[0]);
		message_clear(&reply);
		expect_refused(fds[1], "EDQUOT", "give it more");
	} else {
		expect_refused_by(&reply, "EDQUOT", "give it more");
		receive_weights(fds[1], &samples[1]);
	}
	for (int i = 0; i < 2; i++) {
		hang_up(fds[i]);
		free_sample(&samples[i]);
	}
}

/* Numbers of vgpus come again: it is another user's when the memory is there. */
static void nobody_pays_for_what_the_last_owner_of_the_number_loads(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fake.tenant_uid = 1000;
	fd = connect_client();
	be_somebody(1000);
	pthread_mutex_lock(&fake_making);
	say(fd, load_op("net"), NULL, 0);
	wait_until(bed.models->service.clients->use);
	fake.tenant_uid = 1001;
	pthread_mutex_unlock(&fake_making);
	expect_refused(fd, "ENXIO", "has ended");
	assert_int_equal(fake.paid_exports, 0);
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	hang_up(fd);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(whoever_uses_models_pays_for_them),
		SERVICE_TEST(who_keeps_weights_pays_for_them),
		SERVICE_TEST(loads_at_once_are_paid_for_together),
		SERVICE_TEST(nobody_pays_for_what_the_last_owner_of_the_number_loads),
	};

	return cmocka_run_group_tests_name("service_payment", tests, NULL, NULL);
}
