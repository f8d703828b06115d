// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The model service from its socket on: what it shows, verifies and forgets, and that whatever it
 * is asked for is checked.
 */
#include "service_host.h"

#include <fcntl.h>

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
	expect_refusal(fd, load_op("net"), NULL, 0, "ENODATA", "delete the model and push it again");
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
		       "is damaged on a, and nobody else has it: delete the model and push it again");
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

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	stop_daemon();
	start_daemon();
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED &&
		   catalog_model_find(bed.models->catalog, "net") &&
		   manifests_find(catalog_model_find(bed.models->catalog, "net")));
	load_once(&sample);
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
	json_t *told, *lost;
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
	told = document(&reply);
	lost = json_object_get(told, "lost_models");
	assert_int_equal(json_array_size(lost), 1);
	assert_string_equal(json_string_value(json_array_get(lost, 0)), "net");
	json_decref(told);
	wait_until(!catalog_chunk_holders(bed.models->catalog,
					  sample.image.manifest.chunks[0].digest.bytes, NULL, 0));
	/* Nobody has the model, until it is pushed again. */
	expect_listed(fd, "missing", "a", false, false);
	ask_ok(fd, op("delete", "net"));
	hang_up(fd);
	assert_int_equal(push(&sample), LAYERS * 300000);
	free_sample(&sample);
}

/* A model that is another by its name alone. */
static void copy_model(const struct catalog_model *model, const char *name)
{
	struct catalog_model copy = *model;
	char key[CATALOG_KEY_MAX], *text;

	snprintf(copy.name, sizeof(copy.name), "%s", name);
	snprintf(key, sizeof(key), "%s/view/model/%s", bed.config.pool, name);
	text = catalog_model_text(&copy);
	put_key(key, text, strlen(text));
	free(text);
}

/* Their names are more than a message has room for. */
static void many_models_that_a_host_takes_with_it_are_told(void **state)
{
	enum { MODELS = 600 };
	struct sample sample;
	char name[80];
	int before, log, fd;
	struct message reply;
	json_t *told;

	(void)state;
	use_spool();
	push_sample(&sample, "net", 1);
	for (int i = 1; i < MODELS; i++) {
		snprintf(name, sizeof(name),
			 "a-model-with-a-name-that-takes-all-the-room-there-is-%03d",
			 i);
		copy_model(catalog_model_find(bed.models->catalog, "net"), name);
	}
	stop_daemon();
	strcpy(bed.config.host, "b");
	bed.config.spool[0] = '\0';
	start_daemon();
	wait_until(catalog_host_find(bed.models->catalog, "b") &&
		   !catalog_references_known(bed.models->catalog));
	fd = connect_client();
	log = log_to_memory(&before);
	reply = ask(fd, json_pack("{s:s, s:s, s:b}", "op", "forget", "host", "a", "force", 1), NULL,
		    0);
	told = document(&reply);
	assert_int_equal(json_array_size(json_object_get(told, "lost_models")), MODELS);
	json_decref(told);
	assert_int_equal(count_logged(log, before, "room-there-is-"), MODELS - 1);
	hang_up(fd);
	free_sample(&sample);
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
		{ "{\"op\":\"access\",\"model\":\"x\",\"mode\":420}", "ENOENT", "no such model" },
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

static void addresses_of_etcd_are_checked_before_the_start(void **state)
{
	char error[CATALOG_ERROR_LEN] = "";

	(void)state;
	assert_int_equal(models_check(&bed.config, error), 0);
	bed.config.etcd = true;
	strcpy(bed.config.endpoints, "http://10.0.0.1:2379,10.0.0.2:2379");
	assert_int_equal(models_check(&bed.config, error), -EINVAL);
	assert_contains(error, "endpoints: \"10.0.0.2:2379\" is not the address");
	strcpy(bed.config.endpoints, "http://10.0.0.1:2379,http://10.0.0.2:2379");
	assert_int_equal(models_check(&bed.config, error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(show_names_the_groups_and_who_holds_what),
		SERVICE_TEST(verify_finds_what_is_damaged),
		SERVICE_TEST(a_load_finds_what_is_damaged_and_names_the_host),
		SERVICE_TEST(models_survive_the_daemon_in_the_spool),
		SERVICE_TEST(a_host_whose_disk_is_lost_is_forgotten),
		SERVICE_TEST(many_models_that_a_host_takes_with_it_are_told),
		SERVICE_TEST(every_field_is_checked),
		SERVICE_TEST(addresses_of_etcd_are_checked_before_the_start),
	};

	return cmocka_run_group_tests_name("service", tests, NULL, NULL);
}
