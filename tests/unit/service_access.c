// SPDX-License-Identifier: GPL-2.0-or-later
/* Who may do what with a model. */
#include "service_bed.h"

/* The catalog's copy has it, and the manifest of what it has. */
static bool access_is(uint32_t uid, uint32_t gid, unsigned int mode)
{
	const struct catalog_model *model = catalog_model_find(bed.models->catalog, "net");

	return model && model->known && model->access.uid == uid && model->access.gid == gid &&
	       model->access.mode == mode;
}

static void what_is_for_root_is_refused_to_others(void **state)
{
	static const char *const operations[] = { "push",    "chunk", "commit",
						  "preload", "evict", "forget" };
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	be_somebody(1000);
	for (size_t i = 0; i < COUNT(operations); i++)
		expect_refusal(fd, op(operations[i], "net"), NULL, 0, "EPERM", "root only");
	expect_refusal(fd, load_op("net"), NULL, 0, "EPERM", "somebody else's");
	fake.tenant_uid = 1000;
	load_sample(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

/* As of a file: each of these does what a user may do with it or is told why not. */
static void rights_are_those_of_owner_group_and_others(void **state)
{
	static const struct {
		uint32_t uid, gid;
		unsigned int mode;
		bool reads, writes;
	} cases[] = {
		{ 0, 0, 0644, true, false },	   { 0, 0, 0640, false, false },
		{ 0, 1000, 0640, true, false },	   { 0, 1000, 0660, true, true },
		{ 1000, 0, 0600, true, true },	   { 1000, 0, 0400, true, false },
		{ 1000, 0, 0066, false, false },   { 0, 1000, 0606, false, false },
		{ 1001, 1001, 0602, false, true }, { 1001, 1001, 0666, true, true },
	};
	struct message reply;
	struct sample sample;
	int fd, root;

	(void)state;
	push_sample(&sample, "net", 1);
	fake.tenant_uid = 1000;
	root = connect_client();
	fd = connect_client();
	be_somebody(1000);
	for (size_t i = 0; i < COUNT(cases); i++) {
		reply = ask(root,
			    json_pack("{s:s, s:s, s:i, s:i, s:i}", "op", "access", "model", "net",
				      "uid", (int)cases[i].uid, "gid", (int)cases[i].gid, "mode",
				      (int)cases[i].mode),
			    NULL, 0);
		expect_ok(&reply);
		message_clear(&reply);
		wait_until(access_is(cases[i].uid, cases[i].gid, cases[i].mode));
		if (cases[i].reads) {
			reply = ask(fd, op("show", "net"), NULL, 0);
			expect_ok(&reply);
			message_clear(&reply);
		} else {
			expect_refusal(fd, op("show", "net"), NULL, 0, "EACCES", "may not read");
			expect_refusal(fd, load_op("net"), NULL, 0, "EACCES", "may not read");
			expect_refusal(fd, op("verify", "net"), NULL, 0, "EACCES", "may not read");
		}
		if (cases[i].writes) {
			reply = ask(fd,
				    json_pack("{s:s, s:s, s:i}", "op", "replicas", "model", "net",
					      "replicas", 1 + (int)i % 2),
				    NULL, 0);
			expect_ok(&reply);
			message_clear(&reply);
		} else {
			expect_refusal(fd,
				       json_pack("{s:s, s:s, s:i}", "op", "replicas", "model",
						 "net", "replicas", 2),
				       NULL, 0, "EACCES", "may not change");
			expect_refusal(fd, op("delete", "net"), NULL, 0, "EACCES", "may not change");
		}
		/* The rest is the owner's and root's. */
		if (cases[i].uid != 1000)
			expect_refusal(fd,
				       json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net",
						 "mode", 0666),
				       NULL, 0, "EPERM", "for its owner to change");
		expect_refusal(fd,
			       json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net", "uid",
					 1002),
			       NULL, 0, "EPERM", "owner and group for root");
	}
	hang_up(fd);
	hang_up(root);
	free_sample(&sample);
}

static void an_owner_does_with_a_model_what_he_likes(void **state)
{
	struct message reply;
	struct sample sample;
	json_t *list, *row;
	uint32_t *missing;
	size_t count;
	int fd, manifest;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	fd = connect_client();
	manifest = manifest_fd(&sample);
	reply = ask(fd,
		    json_pack("{s:s, s:s, s:i, s:i, s:i}", "op", "push", "model", "net", "uid", 1000,
			      "gid", 7, "mode", 0640),
		    &manifest, 1);
	close(manifest);
	expect_ok(&reply);
	count = (size_t)field(&reply, "missing");
	missing = calloc(count + 1, sizeof(*missing));
	assert_true(pread(reply.fds[0], missing, count * sizeof(*missing), 0) > 0);
	message_clear(&reply);
	send_chunks(fd, &sample, missing, count);
	ask_ok(fd, json_pack("{s:s}", "op", "commit"));
	free(missing);
	/* Everybody sees whose it is. */
	be_somebody(1001);
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	list = document(&reply);
	row = json_array_get(json_object_get(list, "models"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "uid")), 1000);
	assert_int_equal(json_integer_value(json_object_get(row, "gid")), 7);
	assert_int_equal(json_integer_value(json_object_get(row, "mode")), 0640);
	json_decref(list);
	expect_refusal(fd, op("show", "net"), NULL, 0, "EACCES", "belongs to user 1000");
	be_somebody(1000);
	reply = ask(fd, json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net", "mode", 0644),
		    NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	wait_until(access_is(1000, 7, 0644));
	be_somebody(1001);
	ask_ok(fd, op("show", "net"));
	be_somebody(1000);
	ask_ok(fd, op("delete", "net"));
	hang_up(fd);
	wait_until(!arena_bytes());
	free_sample(&sample);
}

static json_t *access_op(uint32_t uid, uint32_t gid, unsigned int mode)
{
	return json_pack("{s:s, s:s, s:i, s:i, s:i}", "op", "access", "model", "net", "uid",
			 (int)uid, "gid", (int)gid, "mode", (int)mode);
}

/* The catalog's copy still has the former owner when the requests of both are looked at. */
static void a_former_owner_changes_nothing_that_the_copy_still_calls_his(void **state)
{
	struct sample sample;
	int root, former;

	(void)state;
	push_sample(&sample, "net", 1);
	former = connect_client();
	be_somebody(1000);
	root = connect_client();
	ask_ok(root, access_op(1000, 1000, 0644));
	wait_until(access_is(1000, 1000, 0644));
	for (int i = 0; i < 2; i++) {
		json_t *change = i ? json_pack("{s:s, s:s, s:i}", "op", "replicas", "model", "net",
					       "replicas", 2) :
				     json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net",
					       "mode", 0666);
		struct message reply;

		say(root, access_op(2000, 2000, 0600), NULL, 0);
		wait_until(bed.models->service.clients->exchange);
		say(former, change, NULL, 0);
		expect_refused(former, i ? "EACCES" : "EPERM", "user 2000");
		reply = receive(root);
		expect_ok(&reply);
		message_clear(&reply);
		wait_until(access_is(2000, 2000, 0600));
		assert_int_equal(catalog_model_find(bed.models->catalog, "net")->replicas, 1);
		ask_ok(root, access_op(1000, 1000, 0644));
		wait_until(access_is(1000, 1000, 0644));
	}
	hang_up(former);
	hang_up(root);
	free_sample(&sample);
}

/* Of two changes that are made at the same time neither takes back what the other said. */
static void a_change_of_the_mode_leaves_the_group_as_it_has_become(void **state)
{
	struct message reply;
	struct sample sample;
	int root, owner;

	(void)state;
	push_sample(&sample, "net", 1);
	root = connect_client();
	ask_ok(root, access_op(1000, 1000, 0644));
	wait_until(access_is(1000, 1000, 0644));
	owner = connect_client();
	be_somebody(1000);
	say(root, json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net", "gid", 7), NULL, 0);
	say(owner, json_pack("{s:s, s:s, s:i}", "op", "access", "model", "net", "mode", 0600), NULL,
	    0);
	reply = receive(root);
	expect_ok(&reply);
	message_clear(&reply);
	reply = receive(owner);
	expect_ok(&reply);
	message_clear(&reply);
	wait_until(access_is(1000, 7, 0600));
	hang_up(owner);
	hang_up(root);
	free_sample(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(what_is_for_root_is_refused_to_others),
		SERVICE_TEST(rights_are_those_of_owner_group_and_others),
		SERVICE_TEST(an_owner_does_with_a_model_what_he_likes),
		SERVICE_TEST(a_former_owner_changes_nothing_that_the_copy_still_calls_his),
		SERVICE_TEST(a_change_of_the_mode_leaves_the_group_as_it_has_become),
	};

	return cmocka_run_group_tests_name("service_access", tests, NULL, NULL);
}
