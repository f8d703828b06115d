// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The model service from its socket on: what is pushed can be loaded, what is wrong is
 * refused, and who goes leaves nothing behind.
 */
#include "service_bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

static void what_is_pushed_is_listed_and_loaded_bit_for_bit(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *list, *model;
	int fd;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	assert_int_equal(push(&sample), LAYERS * 300000);
	fd = connect_client();
	reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	list = document(&reply);
	model = json_array_get(json_object_get(list, "models"), 0);
	assert_string_equal(json_string_value(json_object_get(model, "name")), "net");
	assert_string_equal(json_string_value(json_object_get(model, "state")), "available");
	assert_int_equal(json_integer_value(json_object_get(list, "stored_bytes")),
			 LAYERS * 300000);
	json_decref(list);
	reply = ask(fd, load_op("net"), NULL, 0);
	check_weights(&reply, &sample);
	assert_false(json_is_true(json_object_get(reply.body, "cached")));
	assert_int_equal(fake.last->value, field(&reply, "final"));
	/* One for each group. */
	assert_int_equal(fake.extents, field(&reply, "groups"));
	message_clear(&reply);
	hang_up(fd);
	free_sample(&sample);
}

static void show_names_the_groups_and_who_holds_what(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *shown, *holders;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	reply = ask(fd, op("show", "net"), NULL, 0);
	shown = document(&reply);
	holders = json_object_get(shown, "holders");
	assert_int_equal(json_array_size(holders), sample.image.manifest.chunk_count);
	assert_string_equal(json_string_value(json_array_get(json_array_get(holders, 0), 0)), "a");
	assert_true(json_array_size(json_object_get(shown, "groups")) > 0);
	assert_in_range(json_integer_value(json_object_get(shown, "predicted_ns")), 1,
			json_integer_value(json_object_get(shown, "greedy_ns")));
	json_decref(shown);
	hang_up(fd);
	free_sample(&sample);
}

static void chunks_of_another_model_are_not_sent_again(void **state)
{
	struct sample base, tuned;
	struct message reply;
	uint32_t *missing;
	size_t count;
	int fd;

	(void)state;
	make_sample(&base, "base", 1, 300000, LAYERS);
	make_sample(&tuned, "tuned", 1, 300000, LAYERS - 1);
	push(&base);
	fd = connect_client();
	missing = begin_push(fd, &tuned, &count);
	free(missing);
	assert_int_equal(count, (tuned.image.manifest.chunk_count + LAYERS - 1) / LAYERS);
	hang_up(fd);
	assert_int_equal(push(&tuned), 300000);
	/* Deleting one leaves what the other needs. */
	fd = connect_client();
	reply = ask(fd, op("delete", "base"), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "freed_bytes"), 300000);
	message_clear(&reply);
	wait_until(arena_bytes() == LAYERS * 300000);
	load_sample(fd, &tuned);
	hang_up(fd);
	free_sample(&base);
	free_sample(&tuned);
}

static void bytes_that_are_not_those_of_the_digest_are_refused(void **state)
{
	struct pushing net;
	int bytes;

	(void)state;
	pushing_begin(&net);
	bytes = chunk_fd(&net.sample, net.missing, 0, 1, true);
	expect_refusal(net.fd, chunk_op(0, 1), &bytes, 1, "EBADMSG",
		       "chunk 0: the bytes are not those");
	expect_refusal(net.fd, chunk_op(0, 2), &bytes, 1, "EINVAL", "bytes: these chunks have");
	expect_refusal(net.fd, chunk_op(net.count, 1), &bytes, 1, "EINVAL", "first, count:");
	expect_refusal(net.fd, chunk_op(1, UINT32_MAX), &bytes, 1, "EINVAL", "first, count:");
	close(bytes);
	expect_refusal(net.fd, json_pack("{s:s}", "op", "commit"), NULL, 0, "EINVAL",
		       "were not sent");
	/* It can still be made good. */
	send_chunks(net.fd, &net.sample, net.missing, net.count);
	pushing_end(&net);
	wait_until(!arena_bytes());
}

/* A manifest that says so is not believed: neither of bytes that come nor of such that are here. */
static void a_checksum_that_is_not_that_of_the_bytes_is_refused(void **state)
{
	struct sample net, again;
	uint32_t *missing;
	size_t count;
	int fd = connect_client(), bytes, manifest;

	(void)state;
	make_sample(&net, "net", 1, 300000, LAYERS);
	net.image.manifest.chunks[0].checksum ^= 1;
	missing = begin_push(fd, &net, &count);
	bytes = chunk_fd(&net, missing, 0, 1, false);
	expect_refusal(fd, chunk_op(0, 1), &bytes, 1, "EBADMSG", "chunk 0: the bytes are not those");
	close(bytes);
	free(missing);
	hang_up(fd);
	net.image.manifest.chunks[0].checksum ^= 1;
	push(&net);
	make_sample(&again, "again", 1, 300000, LAYERS);
	again.image.manifest.chunks[3].checksum ^= 1;
	manifest = manifest_fd(&again);
	fd = connect_client();
	expect_refusal(fd, op("push", "again"), &manifest, 1, "EBADMSG", "xxh3");
	close(manifest);
	hang_up(fd);
	free_sample(&net);
	free_sample(&again);
}

static void a_push_whose_client_goes_leaves_nothing(void **state)
{
	struct sample sample;
	uint32_t *missing;
	size_t count;
	int fd, bytes;

	(void)state;
	make_sample(&sample, "net", 1, 300000, LAYERS);
	/* At once, before the catalog has answered. */
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	fd = connect_client();
	bytes = manifest_fd(&sample);
	say(fd, op("push", "net"), &bytes, 1);
	close(bytes);
	hang_up(fd);
	/* With some chunks sent, and some on their way. */
	fd = connect_client();
	missing = begin_push(fd, &sample, &count);
	send_chunks(fd, &sample, missing, 8);
	assert_true(arena_bytes() > 0);
	bytes = chunk_fd(&sample, missing, 8, 8, false);
	say(fd, chunk_op(8, 8), &bytes, 1);
	close(bytes);
	hang_up(fd);
	free(missing);
	wait_until(!arena_bytes());
	/* And the name is free. */
	assert_int_equal(push(&sample), LAYERS * 300000);
	fd = connect_client();
	bytes = manifest_fd(&sample);
	expect_refusal(fd, op("push", "net"), &bytes, 1, "EEXIST", "already");
	expect_refusal(fd, op("push", "other"), &bytes, 1, "EINVAL", "the manifest is of \"net\"");
	close(bytes);
	hang_up(fd);
	free_sample(&sample);
}

static void a_push_that_does_not_fit_the_donors_is_refused(void **state)
{
	struct sample net;
	int fd, manifest;

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 1U << 20;
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED &&
		   catalog_host_find(bed.models->catalog, "a"));
	make_sample(&net, "net", 1, 300000, LAYERS);
	fd = connect_client();
	/* Asked before anything was hashed, and before anything is sent. */
	expect_refusal(fd, json_pack("{s:s, s:i}", "op", "room", "bytes", 2000000), NULL, 0,
		       "ENOSPC", "all donors together give 1048576");
	manifest = manifest_fd(&net);
	expect_refusal(fd, op("push", "net"), &manifest, 1, "ENOSPC",
		       "bytes are new, and 1048576 of 1048576 are free");
	close(manifest);
	hang_up(fd);
	free_sample(&net);
}

static void a_push_that_fits_when_others_are_gone_waits_for_that(void **state)
{
	struct sample first, second;
	struct message reply;
	int fd;

	(void)state;
	stop_daemon();
	bed.config.donor_memory = 3U << 20;
	start_daemon();
	push_sample(&first, "first", 1);
	fd = connect_client();
	reply = ask(fd, op("delete", "first"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	/* What it had is not free yet. */
	push_sample(&second, "second", 2);
	free_sample(&first);
	free_sample(&second);
}

static void verify_finds_what_is_damaged(void **state)
{
	struct message reply;
	struct sample sample;
	json_t *bad;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	reply = ask(fd, op("verify", "net"), NULL, 0);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "chunks"), sample.image.manifest.chunk_count);
	assert_int_equal(json_array_size(json_object_get(reply.body, "bad")), 0);
	message_clear(&reply);
	damage_chunk(&sample, 3);
	reply = ask(fd, op("verify", "net"), NULL, 0);
	bad = json_object_get(reply.body, "bad");
	assert_int_equal(json_array_size(bad), 1);
	bad = json_array_get(bad, 0);
	assert_string_equal(json_string_value(json_object_get(bad, "host")), "a");
	message_clear(&reply);
	/* Nobody gets it any more, and the pool knows how many this host has had. */
	expect_refusal(fd, load_op("net"), NULL, 0, "ENODATA", "push the model again");
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	wait_until(catalog_host_find(bed.models->catalog, "a")->damaged == 1);
	hang_up(fd);
	free_sample(&sample);
}

/* Without anybody asking, by a plain load: nobody is given wrong bits. */
static void a_load_finds_what_is_damaged_and_names_the_host(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	damage_chunk(&sample, 3);
	fd = connect_client();
	expect_refusal(fd, load_op("net"), NULL, 0, "EBADMSG",
		       "is damaged on a, and nobody else has it: push the model again");
	let_memory_go();
	assert_int_equal(fake.buffers, 0);
	wait_until(catalog_host_find(bed.models->catalog, "a")->damaged == 1);
	assert_false(catalog_holds(bed.models->catalog,
				   sample.image.manifest.chunks[3].digest.bytes));
	hang_up(fd);
	free_sample(&sample);
}

static void models_survive_the_daemon_in_the_spool(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	stop_daemon();
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED &&
		   catalog_model_find(bed.models->catalog, "net") &&
		   manifests_find(catalog_model_find(bed.models->catalog, "net")));
	fd = connect_client();
	load_sample(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

/* The state of the only model, and of the host of that name, as they are listed. */
static void expect_listed(int fd, const char *model, const char *host, bool there, bool live)
{
	struct message reply = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
	json_t *list = document(&reply), *row = NULL, *found = NULL;
	size_t i;

	row = json_array_get(json_object_get(list, "models"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "state")), model);
	json_array_foreach(json_object_get(list, "hosts"), i, row)
		if (!strcmp(json_string_value(json_object_get(row, "name")), host))
			found = row;
	assert_int_equal(found != NULL, there);
	assert_int_equal(found && !strcmp(json_string_value(json_object_get(found, "state")),
					  "live"), live);
	json_decref(list);
}

static void a_host_whose_disk_is_lost_is_forgotten(void **state)
{
	struct sample sample;
	struct message reply;
	json_t *lost;
	int fd;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	fd = connect_client();
	expect_listed(fd, "available", "a", true, true);
	hang_up(fd);
	stop_daemon();
	/* Another one has its place. */
	strcpy(bed.config.host, "b");
	bed.config.spool[0] = '\0';
	start_daemon();
	wait_until(catalog_host_find(bed.models->catalog, "b") &&
		   catalog_model_find(bed.models->catalog, "net") &&
		   manifests_find(catalog_model_find(bed.models->catalog, "net")));
	fd = connect_client();
	expect_listed(fd, "away", "a", true, false);
	expect_listed(fd, "away", "b", true, true);
	expect_refusal(fd, json_pack("{s:s, s:s}", "op", "forget", "host", "a"), NULL, 0,
		       "ENOTEMPTY", "only host a has some chunks of net: say --force");
	expect_listed(fd, "away", "a", true, false);
	reply = ask(fd, json_pack("{s:s, s:s, s:b}", "op", "forget", "host", "a", "force", 1), NULL,
		    0);
	expect_ok(&reply);
	lost = json_object_get(reply.body, "lost_models");
	assert_int_equal(json_array_size(lost), 1);
	assert_string_equal(json_string_value(json_array_get(lost, 0)), "net");
	message_clear(&reply);
	wait_until(!catalog_chunk_holders(bed.models->catalog,
					  sample.image.manifest.chunks[0].digest.bytes, NULL, 0));
	/* Nobody has the model, until it is pushed again. */
	expect_listed(fd, "missing", "a", false, false);
	reply = ask(fd, op("delete", "net"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	assert_int_equal(push(&sample), LAYERS * 300000);
	free_sample(&sample);
}

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
	reply = ask(fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
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
	reply = ask(fd, op("show", "net"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	be_somebody(1000);
	reply = ask(fd, op("delete", "net"), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	wait_until(!arena_bytes());
	free_sample(&sample);
}

static json_t *shown_users(int fd, const char *name)
{
	struct message reply = ask(fd, op("show", name), NULL, 0);
	json_t *shown = document(&reply), *users = json_incref(json_object_get(shown, "users"));

	json_decref(shown);
	return users;
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

static void every_field_is_checked(void **state)
{
	static const struct {
		const char *body, *error, *reason;
	} cases[] = {
		{ "{}", "EINVAL", "op:" },
		{ "{\"op\":7}", "EINVAL", "op:" },
		{ "{\"op\":\"format\"}", "EINVAL", "op:" },
		{ "{\"op\":\"show\"}", "EINVAL", "model:" },
		{ "{\"op\":\"show\",\"model\":\"../x\"}", "EINVAL", "model:" },
		{ "{\"op\":\"show\",\"model\":\"x\"}", "ENOENT", "there is no model x" },
		{ "{\"op\":\"push\",\"model\":\"x\"}", "EINVAL", "a memfd with the manifest" },
		{ "{\"op\":\"push\",\"model\":\"x\",\"replicas\":9}", "EINVAL", "replicas:" },
		{ "{\"op\":\"push\",\"model\":\"x\",\"replicas\":-1}", "EINVAL", "replicas:" },
		{ "{\"op\":\"push\",\"model\":\"x\",\"mode\":73}", "EINVAL", "mode:" },
		{ "{\"op\":\"access\",\"model\":\"x\",\"mode\":420}", "ENOENT", "no model x" },
		{ "{\"op\":\"access\",\"model\":\"net\",\"mode\":511}", "EINVAL", "mode:" },
		{ "{\"op\":\"access\",\"model\":\"net\",\"uid\":4294967295}", "EINVAL", "uid:" },
		{ "{\"op\":\"chunk\",\"first\":0,\"count\":1}", "EINVAL", "no push" },
		{ "{\"op\":\"chunk\",\"first\":0}", "EINVAL", "count:" },
		{ "{\"op\":\"commit\"}", "EINVAL", "no push" },
		{ "{\"op\":\"delete\",\"model\":\"x\"}", "ENOENT", "there is no model x" },
		{ "{\"op\":\"replicas\",\"model\":\"x\"}", "EINVAL", "replicas:" },
		{ "{\"op\":\"forget\"}", "EINVAL", "host: this is not a name" },
		{ "{\"op\":\"forget\",\"host\":\"a/b\"}", "EINVAL", "host: this is not a name" },
		{ "{\"op\":\"forget\",\"host\":\"b\",\"force\":1}", "EINVAL", "force:" },
		{ "{\"op\":\"forget\",\"host\":\"b\"}", "ENOENT", "there is no host b" },
		{ "{\"op\":\"forget\",\"host\":\"a\",\"force\":true}", "EBUSY",
		  "host a is live: stop distmindd there first" },
		{ "{\"op\":\"load\",\"model\":\"x\",\"vgpu\":17}", "ENOENT", "model" },
		{ "{\"op\":\"load\",\"model\":\"net\"}", "EINVAL", "vgpu:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":18}", "ENOENT", "vgpu:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":17,\"class\":\"best\"}", "EINVAL",
		  "class:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":17,\"form\":1}", "EINVAL", "form:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":17,\"wait\":1}", "EINVAL", "wait:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":17,\"deadline_ms\":0}", "EINVAL",
		  "deadline_ms:" },
		{ "{\"op\":\"load\",\"model\":\"net\",\"vgpu\":17,\"form\":\"staged\"}",
		  "EOPNOTSUPP", "no copy lane" },
	};
	struct message reply;
	struct sample sample;
	int fd, pipes[2];

	(void)state;
	push_sample(&sample, "net", 1);
	fd = connect_client();
	for (size_t i = 0; i < COUNT(cases); i++)
		expect_refusal(fd, json_loads(cases[i].body, 0, NULL), NULL, 0, cases[i].error,
			       cases[i].reason);
	assert_int_equal(pipe(pipes), 0);
	expect_refusal(fd, op("push", "x"), pipes, 1, "EINVAL", "not a memfd that is sealed");
	hang_up(fd);
	/* What is no message at all is told, and ends the connection. */
	fd = connect_client();
	assert_int_equal(send(fd, "[1]", 3, 0), 3);
	reply = receive(fd);
	assert_string_equal(json_string_value(json_object_get(reply.body, "errno")), "EBADMSG");
	assert_contains(json_string_value(json_object_get(reply.body, "reason")),
			"no JSON object");
	message_clear(&reply);
	wait_until(!bed.models->service.count);
	close(fd);
	close(pipes[0]);
	close(pipes[1]);
	free_sample(&sample);
}

/* Nothing of what comes along with a message stays, whatever the message is. */
static void descriptors_of_an_empty_message_are_closed(void **state)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .header = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				  .cmsg_len = CMSG_LEN(sizeof(int)) } };
	struct iovec nothing = { 0 };
	struct msghdr empty = { .msg_iov = &nothing, .msg_iovlen = 1, .msg_control = &control,
				.msg_controllen = sizeof(control) };
	int fd, pipes[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	memcpy(CMSG_DATA(&control.header), &pipes[1], sizeof(int));
	fd = connect_client();
	be_somebody(1000);
	assert_int_equal(sendmsg(fd, &empty, 0), 0);
	wait_until(!bed.models->service.count && !errands_of(bed.models->errands, 1000));
	close(pipes[1]);
	/* The end of a pipe comes when nobody has its other end. */
	assert_int_equal(read(pipes[0], &byte, 1), 0);
	close(pipes[0]);
	close(fd);
}

/*
 * A TCP socket whose close waits, for as long as it is told to, because the other side does
 * not read what was written.
 */
struct lingering {
	int socket, other;
};

static void linger(struct lingering *lingering)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct linger time = { .l_onoff = 1, .l_linger = WAIT_S };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);
	char bytes[65536] = { 0 };

	assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
	lingering->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(lingering->socket, (struct sockaddr *)&address, len), 0);
	lingering->other = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(lingering->other >= 0);
	close(listener);
	assert_int_equal(setsockopt(lingering->socket, SOL_SOCKET, SO_LINGER, &time, sizeof(time)),
			 0);
	while (send(lingering->socket, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(errno, EAGAIN);
}

/* So many of it, with a message of these bytes. */
static void send_lingering(int fd, const struct lingering *lingering, const char *text,
			   unsigned int count)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(16 * sizeof(int))];
	} control = { .header = { .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS,
				  .cmsg_len = CMSG_LEN(count * sizeof(int)) } };
	struct iovec part = { .iov_base = (void *)text, .iov_len = strlen(text) };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = CMSG_SPACE(count * sizeof(int)) };

	for (unsigned int i = 0; i < count; i++)
		memcpy(CMSG_DATA(&control.header) + i * sizeof(int), &lingering->socket,
		       sizeof(int));
	assert_int_equal(sendmsg(fd, &message, 0), (ssize_t)strlen(text));
}

/*
 * Whatever the message is, and whether anybody receives it: its descriptors are somebody
 * else's work, and the daemon serves on.
 */
static void a_descriptor_whose_close_takes_long_holds_nobody_up(void **state)
{
	static const struct {
		const char *first, *text;
		unsigned int count;
	} cases[] = {
		{ NULL, "{\"op\": \"list\"}", 1 }, /* nobody wants it */
		{ NULL, "{\"op\": \"push\", \"model\": \"x\"}", 1 }, /* refused */
		{ NULL, "{\"op\": \"list\"}", 16 }, /* too many */
		{ NULL, "nonsense", 1 },
		{ NULL, "", 1 },
		{ "nonsense", "{\"op\": \"list\"}", 1 }, /* the connection ends before it */
	};
	struct lingering lingering;
	struct message reply;
	int fd, other;

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		linger(&lingering);
		fd = connect_client();
		be_somebody(1000);
		turns_reset();
		if (cases[i].first)
			assert_true(send(fd, cases[i].first, strlen(cases[i].first), 0) > 0);
		send_lingering(fd, &lingering, cases[i].text, cases[i].count);
		/* The daemon's are the last ones from here on. */
		close(lingering.socket);
		wait_until(errands_of(bed.models->errands, 1000));
		for (int round = 0; round < 3; round++) {
			other = connect_client();
			reply = ask(other, json_pack("{s:s}", "op", "list"), NULL, 0);
			expect_ok(&reply);
			message_clear(&reply);
			hang_up(other);
		}
		/* It is still being closed, and nobody has waited for that. */
		assert_true(errands_of(bed.models->errands, 1000) > 0);
		assert_true(turns_account()->longest.us < 1000000);
		close(lingering.other);
		close(fd);
		wait_until(!bed.models->service.count && !errands_of(bed.models->errands, 1000));
	}
}

static void descriptors_are_taken_of_root_alone(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), zero = 0;
	json_t *list = json_pack("{s:s}", "op", "list");

	(void)state;
	if (geteuid() || setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &zero, sizeof(zero))) {
		json_decref(list);
		close(fd);
		skip();
	}
	strcpy(address.sun_path, bed.config.socket);
	assert_int_equal(chmod(bed.directory, 0711), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(message_send(fd, list, &fd, 1), -EPERM);
	wait_until(bed.models->service.count);
	assert_int_equal(message_send(fd, list, &fd, 1), -EPERM);
	hang_up(fd);
	fd = connect_client();
	assert_int_equal(message_send(fd, list, &fd, 1), 0);
	hang_up(fd);
	json_decref(list);
}

/* Each is a memfd that may be large. */
static void who_does_not_read_answers_gets_few(void **state)
{
	struct message message;
	uint32_t answers = 0;
	const char *why;
	json_t *list;
	int fd, err;

	(void)state;
	fd = connect_client();
	be_somebody(1000);
	/* One that is answered at once: a second question meanwhile would end the connection. */
	list = json_pack("{s:s}", "op", "turns");
	for (int i = 0; i < 100 && !message_send(fd, list, NULL, 0); i++)
		assert_true(turns_run(bed.loop, 0) >= 0);
	json_decref(list);
	wait_until(!bed.models->service.count);
	/* One error says that questions were left unread; then come the answers. */
	while ((err = message_receive(fd, &message, &why)) != -EPIPE) {
		answers += !err;
		message_clear(&message);
	}
	assert_in_range(answers, 1, 16);
	close(fd);
	/* Who reads them has as many as it likes. */
	fd = connect_client();
	be_somebody(1000);
	for (int i = 0; i < 100; i++) {
		message = ask(fd, json_pack("{s:s}", "op", "list"), NULL, 0);
		expect_ok(&message);
		message_clear(&message);
	}
	hang_up(fd);
}

static void there_are_descriptors_for_all_connections(void **state)
{
	struct rlimit old, few;
	int fds[128];

	(void)state;
	stop_daemon();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = (struct rlimit){ .rlim_cur = 64, .rlim_max = old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	start_daemon();
	for (size_t i = 0; i < COUNT(fds); i++)
		fds[i] = connect_client();
	for (size_t i = 0; i < COUNT(fds); i++)
		hang_up(fds[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(what_is_pushed_is_listed_and_loaded_bit_for_bit),
		SERVICE_TEST(show_names_the_groups_and_who_holds_what),
		SERVICE_TEST(chunks_of_another_model_are_not_sent_again),
		SERVICE_TEST(bytes_that_are_not_those_of_the_digest_are_refused),
		SERVICE_TEST(a_checksum_that_is_not_that_of_the_bytes_is_refused),
		SERVICE_TEST(a_push_whose_client_goes_leaves_nothing),
		SERVICE_TEST(verify_finds_what_is_damaged),
		SERVICE_TEST(a_load_finds_what_is_damaged_and_names_the_host),
		SERVICE_TEST(models_survive_the_daemon_in_the_spool),
		SERVICE_TEST(a_host_whose_disk_is_lost_is_forgotten),
		SERVICE_TEST(what_is_for_root_is_refused_to_others),
		SERVICE_TEST(rights_are_those_of_owner_group_and_others),
		SERVICE_TEST(an_owner_does_with_a_model_what_he_likes),
		SERVICE_TEST(whoever_uses_models_pays_for_them),
		SERVICE_TEST(every_field_is_checked),
		SERVICE_TEST(a_push_that_does_not_fit_the_donors_is_refused),
		SERVICE_TEST(a_push_that_fits_when_others_are_gone_waits_for_that),
		SERVICE_TEST(descriptors_of_an_empty_message_are_closed),
		SERVICE_TEST(there_are_descriptors_for_all_connections),
		SERVICE_TEST(who_does_not_read_answers_gets_few),
		SERVICE_TEST(a_descriptor_whose_close_takes_long_holds_nobody_up),
		SERVICE_TEST(descriptors_are_taken_of_root_alone),
	};

	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
