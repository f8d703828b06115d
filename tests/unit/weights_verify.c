// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Weights for who asks that they be verified: also if a copy is there, or on its way, that
 * somebody else loaded without.
 */
#include "../../userspace/distmindd/pool/weights_state.h"
#include "service_bed.h"

#define LAYER_BYTES 2000000 /* more than one turn of the loop copies, or hashes */

static json_t *verified_op(const char *model)
{
	json_t *body = load_op(model);

	json_object_set_new(body, "verify", json_true());
	return body;
}

/* Of what the gpu has: that is not looked at once it is there, unless somebody asks. */
static void flip_a_bit(void)
{
	fake.last_buffer->bytes[fake.last_buffer->size / 2] ^= 1;
}

/* Somebody's use of it, who did not want to know; damaged since, or not. */
static int load_unverified(const char *model, bool damaged)
{
	int fd = connect_client();
	struct message reply = ask(fd, load_op(model), NULL, 0);

	expect_ok(&reply);
	if (damaged)
		flip_a_bit();
	message_clear(&reply);
	return fd;
}

static void an_intact_copy_is_shared_once_it_is_verified(void **state)
{
	struct sample sample;
	struct message reply;
	int fds[3];

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	push(&sample);
	fds[0] = load_unverified("net", false);
	for (int i = 1; i < 3; i++) {
		fds[i] = connect_client();
		reply = ask(fds[i], verified_op("net"), NULL, 0);
		check_weights(&reply, &sample);
		assert_true(json_is_true(json_object_get(reply.body, "cached")));
		message_clear(&reply);
		let_memory_go();
		assert_int_equal(fake.buffers, 1);
	}
	for (int i = 0; i < 3; i++)
		hang_up(fds[i]);
	free_sample(&sample);
}

static void a_damaged_copy_is_left_to_those_who_have_it(void **state)
{
	struct sample sample;
	struct message reply;
	int other, fd;

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	push(&sample);
	other = load_unverified("net", true);
	fd = connect_client();
	expect_refusal(fd, verified_op("net"), NULL, 0, "EBADMSG", "is damaged: load it again");
	expect_refusal(fd, op("state", "net"), NULL, 0, "EBADMSG", "is damaged");
	/* Its user goes on; whoever comes gets another one. */
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	reply = ask(fd, verified_op("net"), NULL, 0);
	check_weights(&reply, &sample);
	assert_true(json_is_false(json_object_get(reply.body, "cached")));
	message_clear(&reply);
	let_memory_go();
	assert_int_equal(fake.buffers, 2);
	hang_up(other);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	hang_up(fd);
	free_sample(&sample);
}

static void a_damaged_copy_that_nobody_uses_goes_at_once(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	push(&sample);
	hang_up(load_unverified("net", true));
	fd = connect_client();
	expect_refusal(fd, verified_op("net"), NULL, 0, "EBADMSG", "is damaged: load it again");
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	hang_up(fd);
	free_sample(&sample);
}

static void who_joins_a_load_gets_what_was_verified_after_it(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *body;
	int other, fd;

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	push(&sample);
	other = connect_client();
	fd = connect_client();
	say(other, load_op("net"), NULL, 0);
	wait_until(fake.buffers);
	/* Without waiting for all of it, there would be nothing to say. */
	body = verified_op("net");
	json_object_set_new(body, "wait", json_false());
	say(fd, body, NULL, 0);
	reply = receive(other);
	expect_ok(&reply);
	/* Between the end of the load and that of the verification. */
	flip_a_bit();
	message_clear(&reply);
	reply = receive(fd);
	assert_true(json_is_false(json_object_get(reply.body, "ok")));
	message_clear(&reply);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	hang_up(fd);
	hang_up(other);
	free_sample(&sample);
}

static void a_client_that_goes_meanwhile_leaves_the_copy(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, LAYER_BYTES, LAYERS);
	push(&sample);
	hang_up(load_unverified("net", false));
	fd = connect_client();
	say(fd, verified_op("net"), NULL, 0);
	wait_until(bed.models->service.clients->exchange);
	hang_up(fd);
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	/* Nor does it matter to who hashes that the copy goes. */
	fd = connect_client();
	ask_ok(fd, op("evict", "net"));
	wait_until(!fake.buffers);
	hang_up(fd);
	free_sample(&sample);
}

/* Whoever ends it goes on, and the memory stays for as long as a worker may look at it. */
static void nobody_waits_for_the_end_of_a_verification(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	load_once(&sample);
	let_memory_go();
	fd = connect_client();
	hold_workers();
	say(fd, verified_op("net"), NULL, 0);
	wait_until(bed.models->service.clients->use);
	hang_up(fd);
	fd = connect_client();
	ask_ok(fd, op("evict", "net"));
	let_memory_go();
	assert_int_equal(fake.buffers, 1);
	let_workers_go();
	wait_until(!fake.buffers);
	hang_up(fd);
	free_sample(&sample);
}

/* As when a load that copies from it finds damage where the verification has looked already. */
static void damage_that_is_found_meanwhile_is_not_forgotten(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	load_once(&sample);
	let_memory_go();
	fd = connect_client();
	hold_workers();
	say(fd, verified_op("net"), NULL, 0);
	wait_until(bed.models->service.clients->use);
	bed.models->weights.devices->residents->damaged = true;
	let_workers_go();
	expect_refused(fd, "EBADMSG", "is damaged: load it again");
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	hang_up(fd);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(an_intact_copy_is_shared_once_it_is_verified),
		SERVICE_TEST(a_damaged_copy_is_left_to_those_who_have_it),
		SERVICE_TEST(a_damaged_copy_that_nobody_uses_goes_at_once),
		SERVICE_TEST(who_joins_a_load_gets_what_was_verified_after_it),
		SERVICE_TEST(a_client_that_goes_meanwhile_leaves_the_copy),
		SERVICE_TEST(nobody_waits_for_the_end_of_a_verification),
		SERVICE_TEST(damage_that_is_found_meanwhile_is_not_forgotten),
	};

	return cmocka_run_group_tests_name("weights_verify", tests, NULL, NULL);
}
