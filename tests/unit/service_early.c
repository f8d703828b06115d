// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What is asked of a daemon before its host has joined the pool, because the catalog, an etcd,
 * comes later: it waits, and is done when the host has joined, or says what it has waited for.
 */
#include "service_bed.h"

#include "../../userspace/catalog/state.h"
#include "../../userspace/common/clock.h"
#include "../../userspace/distmindd/pool/early.h"
#include "../catalog/etcd_server.h"

static struct etcd_server server;

/* A host with a spool whose catalog runs. */
static int setup_etcd(void **state)
{
	setup(state);
	stop_daemon();
	snprintf(bed.config.spool, sizeof(bed.config.spool), "%s/spool", bed.directory);
	memset(&server, 0, sizeof(server));
	etcd_server_create(&server, 1, bed.directory);
	bed.config.etcd = true;
	snprintf(bed.config.endpoints, sizeof(bed.config.endpoints), "%s", server.client);
	start_daemon();
	return 0;
}

static int teardown_etcd(void **state)
{
	etcd_server_end(&server);
	return teardown(state);
}

#define EARLY_TEST(name) cmocka_unit_test_setup_teardown(name, setup_etcd, teardown_etcd)

/* Started again, while there is no catalog; all that it has itself is there. */
static void restart_without_catalog(void)
{
	stop_daemon();
	etcd_server_end(&server);
	start_daemon();
	wait_until(!bed.models->chunks.restore.under_way);
	assert_int_not_equal(catalog_member_state(bed.models->catalog), CATALOG_JOINED);
}

/* It is asked, and has not answered. */
static void assert_waits(int fd)
{
	struct message message;
	const char *why;

	wait_until(bed.models->service.clients->exchange);
	assert_int_equal(message_receive(fd, &message, &why), -EAGAIN);
	assert_int_not_equal(catalog_member_state(bed.models->catalog), CATALOG_JOINED);
}

/* What this host gives is known a moment after the join, and missed by nobody until then. */
static void room_is_not_denied_before_the_donors_are_known(void **state)
{
	struct message reply;
	struct sample sample;
	uint64_t begun;
	int fd;

	(void)state;
	restart_without_catalog();
	fd = connect_client();
	/* The list of hosts is asked for again less and less often, the join is not. */
	begun = clock_us();
	wait_until(clock_us() - begun > 5500000);
	etcd_server_start(&server);
	wait_until(catalog_member_state(bed.models->catalog) == CATALOG_JOINED);
	reply = ask(fd, json_pack("{s:s, s:i}", "op", "room", "bytes", 2000000), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	push_sample(&sample, "net", 1);
	free_sample(&sample);
	wait_until(catalog_host_find(bed.models->catalog, "a"));
	expect_refusal(fd, json_pack("{s:s, s:i}", "op", "room", "bytes", 2000000000), NULL, 0,
		       "ENOSPC", "all donors together give");
	hang_up(fd);
}

static void a_push_before_the_join_is_done_after_it(void **state)
{
	struct sample sample;
	struct message reply;
	int fd, manifest;

	(void)state;
	restart_without_catalog();
	make_sample(&sample, "net", 1, 300000, LAYERS);
	manifest = manifest_fd(&sample);
	fd = connect_client();
	say(fd, op("push", "net"), &manifest, 1);
	close(manifest);
	assert_waits(fd);
	etcd_server_start(&server);
	reply = receive(fd);
	expect_ok(&reply);
	assert_int_equal(field(&reply, "missing"), sample.image.manifest.chunk_count);
	message_clear(&reply);
	hang_up(fd);
	/* All of it, this time. */
	push(&sample);
	fd = connect_client();
	load_sample(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

static void a_load_before_the_join_is_done_after_it(void **state)
{
	struct sample sample;
	int fd;

	(void)state;
	push_sample(&sample, "net", 1);
	restart_without_catalog();
	fd = connect_client();
	say(fd, load_op("net"), NULL, 0);
	assert_waits(fd);
	etcd_server_start(&server);
	receive_weights(fd, &sample);
	hang_up(fd);
	free_sample(&sample);
}

/* Of a model that is not there, only now is it known. */
static void what_is_wrong_with_an_early_operation_is_said_after_the_join(void **state)
{
	struct message reply;
	int fd;

	(void)state;
	restart_without_catalog();
	fd = connect_client();
	say(fd, op("show", "nothing"), NULL, 0);
	assert_waits(fd);
	etcd_server_start(&server);
	reply = receive(fd);
	assert_string_equal(json_string_value(json_object_get(reply.body, "errno")), "ENOENT");
	message_clear(&reply);
	hang_up(fd);
}

static void a_load_that_cannot_wait_for_the_join_names_the_state(void **state)
{
	json_t *body = load_op("net");
	int fd;

	(void)state;
	restart_without_catalog();
	wait_until(catalog_trouble(bed.models->catalog)[0]);
	fd = connect_client();
	json_object_set_new(body, "deadline_ms", json_integer(100));
	expect_refusal(fd, body, NULL, 0, "ENOTCONN",
		       "model net: this host has not joined the pool: ");
	expect_refusal(fd, json_pack("{s:s, s:s, s:i}", "op", "verify", "model", "net",
				     "deadline_ms", 100),
		       NULL, 0, "ENOTCONN", "see whether etcd runs");
	hang_up(fd);
}

static void who_goes_does_not_wait_for_the_join(void **state)
{
	int fd;

	(void)state;
	restart_without_catalog();
	fd = connect_client();
	say(fd, load_op("net"), NULL, 0);
	assert_waits(fd);
	hang_up(fd);
	/* And a daemon that ends does not either. */
	fd = connect_client();
	say(fd, load_op("net"), NULL, 0);
	assert_waits(fd);
	stop_daemon();
	start_daemon();
	close(fd);
}

/* All chunks of a model have been sent, and the catalog does not answer any more. */
static void push_until_silence(struct pushing *net)
{
	pushing_begin(net);
	send_chunks(net->fd, &net->sample, net->missing, net->count);
	etcd_server_end(&server);
	say(net->fd, json_pack("{s:s}", "op", "commit"), NULL, 0);
	wait_until(catalog_trouble(bed.models->catalog)[0]);
}

static void a_commit_that_the_catalog_does_not_answer_is_refused(void **state)
{
	struct pushing net;

	(void)state;
	push_until_silence(&net);
	/* As if the time had passed. */
	bed.models->catalog->silent_us -= EARLY_WAIT_US;
	expect_refused(net.fd, "ENOTCONN", "commit: the catalog does not answer: ");
	expect_refusal(net.fd, json_pack("{s:s}", "op", "commit"), NULL, 0, "EINVAL", "push");
	/* What was begun ends when it answers again, and the same can be pushed. */
	etcd_server_start(&server);
	wait_until(!catalog_trouble(bed.models->catalog)[0]);
	push(&net.sample);
	load_once(&net.sample);
	pushing_end(&net);
}

static void a_commit_outlasts_a_short_silence(void **state)
{
	struct pushing net;

	(void)state;
	push_until_silence(&net);
	etcd_server_start(&server);
	/* The upload ends with the lease, which may have run out. */
	wait_until(!bed.models->service.clients->exchange);
	assert_string_equal(catalog_trouble(bed.models->catalog), "");
	pushing_end(&net);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		EARLY_TEST(room_is_not_denied_before_the_donors_are_known),
		EARLY_TEST(a_push_before_the_join_is_done_after_it),
		EARLY_TEST(a_load_before_the_join_is_done_after_it),
		EARLY_TEST(what_is_wrong_with_an_early_operation_is_said_after_the_join),
		EARLY_TEST(a_load_that_cannot_wait_for_the_join_names_the_state),
		EARLY_TEST(who_goes_does_not_wait_for_the_join),
		EARLY_TEST(a_commit_that_the_catalog_does_not_answer_is_refused),
		EARLY_TEST(a_commit_outlasts_a_short_silence),
	};

	return cmocka_run_group_tests_name("service_early", tests, NULL, NULL);
}
