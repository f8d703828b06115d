// SPDX-License-Identifier: GPL-2.0-or-later
/* Connections to the model service: what comes along with messages, and who is in whose way. */
#include "service_bed.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define ANSWERS 40 /* that somebody keeps */
#define TURNED_AWAY 200 /* connections of somebody who has too many */

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

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
		assert_in_range(turns_account()->longest.us, 0, TURN_MAX_US);
		close(lingering.other);
		close(fd);
		wait_until(!bed.models->service.count && !errands_of(bed.models->errands, 1000));
	}
}

/* Whose connections are limited: root's are not. */
static uid_t somebody(void)
{
	return geteuid() ? geteuid() : 65534;
}

/* This thread alone: seteuid() sends the others a signal, which ends what they wait for. */
static void be(uid_t uid)
{
	assert_int_equal(syscall(SYS_setresuid, -1, uid, -1), 0);
}

/* Of that user, if root tests, and nobody has accepted it yet. */
static int connect_as(uid_t uid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool root = !geteuid();

	strcpy(address.sun_path, bed.config.socket);
	if (root)
		be(uid);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (root)
		be(0);
	return fd;
}

static int connect_somebody(void)
{
	return connect_as(somebody());
}

/* They are limited together, each has rights of its own, and others are not concerned. */
static void subordinate_users_count_as_one(void **state)
{
	int fds[SERVICE_CLIENTS_USER], fd;
	struct subordinates *subordinates = &bed.models->service.subordinates;
	char path[128];
	FILE *file;

	(void)state;
	if (geteuid())
		skip();
	snprintf(path, sizeof(path), "%s/subuid", bed.directory);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs("1000:100000:65536\n", file);
	fclose(file);
	subordinates->path = path;
	assert_int_equal(chmod(bed.directory, 0711), 0);
	for (unsigned int i = 0; i < SERVICE_CLIENTS_USER; i++) {
		fds[i] = connect_as(i ? 100000 + i : 1000);
		wait_until(bed.models->service.count == i + 1);
		assert_int_equal(bed.models->service.clients->user.uid, i ? 100000 + i : 1000);
		assert_int_equal(bed.models->service.clients->payer, 1000);
	}
	fd = connect_as(165535);
	expect_refused(fd, "EUSERS", "of user 1000");
	close(fd);
	fd = connect_as(165536);
	wait_until(bed.models->service.count == SERVICE_CLIENTS_USER + 1);
	hang_up(fd);
	for (unsigned int i = 0; i < SERVICE_CLIENTS_USER; i++)
		hang_up(fds[i]);
}

/*
 * Who has as many connections as it may have comes again and again, and what it has sent to the
 * first of these takes long to close.
 */
static void who_is_turned_away_often_keeps_nobody_out(void **state)
{
	int fds[SERVICE_CLIENTS_USER], one = 1, fd;
	struct lingering lingering;

	(void)state;
	assert_int_equal(chmod(bed.directory, 0711), 0);
	/* As kernels before 6.16 are. */
	setsockopt(bed.models->service.fd, SOL_SOCKET, SO_PASSRIGHTS, &one, sizeof(one));
	for (unsigned int i = 0; i < SERVICE_CLIENTS_USER; i++) {
		fds[i] = connect_somebody();
		wait_until(bed.models->service.count == i + 1);
	}
	linger(&lingering);
	fd = connect_somebody();
	/* Not only in what is first: that may be nothing. */
	assert_int_equal(send(fd, "", 0, 0), 0);
	assert_int_equal(send(fd, "nonsense", 8, 0), 8);
	send_lingering(fd, &lingering, "", 1);
	close(lingering.socket);
	turns_reset();
	expect_refused(fd, "EUSERS", "too many connections");
	wait_until(errands_of(bed.models->errands, somebody()) == 1);
	for (int i = 0; i < TURNED_AWAY; i++) {
		int other = connect_somebody();

		if (i % 2)
			assert_int_equal(send(other, "nonsense", 8, 0), 8);
		expect_refused(other, "EUSERS", "too many connections");
		close(other);
	}
	/* The first of them is still being closed, and nothing waits for that. */
	assert_int_equal(errands_of(bed.models->errands, somebody()), 1);
	assert_in_range(turns_account()->longest.us, 0, TURN_MAX_US);
	/* Somebody else, and one of root's. */
	be_somebody(1000);
	hang_up(connect_client());
	close(lingering.other);
	close(fd);
	for (unsigned int i = 0; i < SERVICE_CLIENTS_USER; i++)
		hang_up(fds[i]);
}

/* Where the kernel can, it does not let others send any. */
static void others_send_no_descriptors(json_t *list)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), zero = 0;

	if (geteuid() || setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &zero, sizeof(zero))) {
		close(fd);
		return;
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
}

static void descriptors_are_taken_of_root_alone(void **state)
{
	json_t *list = json_pack("{s:s}", "op", "list");
	struct message reply;
	int fd;

	(void)state;
	others_send_no_descriptors(list);
	/* One that a kernel has let pass, as those before 6.16 do. */
	fd = connect_client();
	be_somebody(1000);
	expect_refusal(fd, json_incref(list), &fd, 1, "EPERM", "descriptors");
	/* And it is asked on. */
	reply = ask(fd, json_incref(list), NULL, 0);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
	fd = connect_client();
	reply = ask(fd, list, &fd, 1);
	expect_ok(&reply);
	message_clear(&reply);
	hang_up(fd);
}

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

/* Memory of the daemon's that these descriptors keep. */
static uint64_t kept_bytes(const int *fds, size_t count)
{
	uint64_t bytes = 0;
	struct stat status;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(fstat(fds[i], &status), 0);
		bytes += (uint64_t)status.st_blocks * 512;
	}
	return bytes;
}

/* The caller's. */
static int ask_descriptor(int fd, json_t *body)
{
	struct message reply = ask(fd, body, NULL, 0);
	int descriptor;

	expect_ok(&reply);
	assert_int_equal(reply.fd_count, 1);
	descriptor = reply.fds[0];
	reply.fds[0] = -1;
	message_clear(&reply);
	return descriptor;
}

static void who_keeps_answers_has_the_memory_of_the_last_one(void **state)
{
	int fd, kept[ANSWERS];
	uint64_t one;

	(void)state;
	fd = connect_client();
	be_somebody(1000);
	kept[0] = ask_descriptor(fd, json_pack("{s:s}", "op", "list"));
	one = kept_bytes(kept, 1);
	assert_true(one > 0);
	for (size_t i = 1; i < ANSWERS; i++)
		kept[i] = ask_descriptor(fd, json_pack("{s:s}", "op", "list"));
	wait_until(!errands_of(bed.models->errands, 1000));
	assert_in_range(kept_bytes(kept, ANSWERS), 1, one);
	hang_up(fd);
	wait_until(!errands_of(bed.models->errands, 1000));
	assert_int_equal(kept_bytes(kept, ANSWERS), 0);
	for (size_t i = 0; i < ANSWERS; i++)
		close(kept[i]);
}

/* Several have the same one: none of them can change it, nor does it go with one of them. */
static void an_answer_is_the_same_for_all_who_have_it(void **state)
{
	struct stat first, second;
	struct sample sample;
	int fds[2], kept[2];
	char byte = 'x';

	(void)state;
	push_sample(&sample, "net", 1);
	for (int i = 0; i < 2; i++) {
		fds[i] = connect_client();
		be_somebody(1000);
		kept[i] = ask_descriptor(fds[i], op("show", "net"));
	}
	assert_int_equal(fstat(kept[0], &first), 0);
	assert_int_not_equal(ftruncate(kept[0], 0), 0);
	assert_int_not_equal(pwrite(kept[0], &byte, 1, 0), 1);
	assert_ptr_equal(mmap(NULL, 1, PROT_WRITE, MAP_SHARED, kept[0], 0), MAP_FAILED);
	assert_int_equal(first.st_mode & 0777, 0444);
	hang_up(fds[0]);
	wait_until(!errands_of(bed.models->errands, 1000));
	assert_int_equal(fstat(kept[1], &second), 0);
	assert_int_equal(first.st_size, second.st_size);
	hang_up(fds[1]);
	for (int i = 0; i < 2; i++)
		close(kept[i]);
	free_sample(&sample);
}

/* Who asks for the same again before it is answered has it made once. */
static void what_is_asked_for_at_once_is_one_answer(void **state)
{
	struct stat first, other;
	struct sample sample;
	int fds[ANSWERS];

	(void)state;
	push_sample(&sample, "net", 1);
	for (size_t i = 0; i < ANSWERS; i++) {
		fds[i] = connect_client();
		be_somebody(1000);
	}
	for (size_t i = 0; i < ANSWERS; i++)
		say(fds[i], op("show", "net"), NULL, 0);
	for (size_t i = 0; i < ANSWERS; i++) {
		struct message reply = receive(fds[i]);

		expect_ok(&reply);
		assert_int_equal(fstat(reply.fds[0], i ? &other : &first), 0);
		if (i)
			assert_int_equal(other.st_ino, first.st_ino);
		message_clear(&reply);
	}
	for (size_t i = 0; i < ANSWERS; i++)
		hang_up(fds[i]);
	free_sample(&sample);
}

static bool has_answer(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

/* What is told in a list is copied for it: not for all that one user asks for at once. */
static void one_list_of_a_user_is_made_at_a_time(void **state)
{
	const struct listings *listings = &bed.models->listings;
	struct message reply;
	struct sample sample;
	int fds[ANSWERS], other;
	unsigned int most = 0;

	(void)state;
	push_sample(&sample, "net", 1);
	for (size_t i = 0; i < ANSWERS; i++) {
		fds[i] = connect_client();
		be_somebody(1000);
	}
	other = connect_client();
	for (size_t i = 0; i < ANSWERS; i++)
		say(fds[i], json_pack("{s:s}", "op", "list"), NULL, 0);
	say(other, json_pack("{s:s}", "op", "list"), NULL, 0);
	/* Some of those who wait go, and leave the rest where it is. */
	for (size_t i = 0; i < ANSWERS; i += 4) {
		close(fds[i]);
		fds[i] = -1;
	}
	for (size_t i = 0; i < ANSWERS; i++) {
		if (fds[i] < 0)
			continue;
		wait_until((most = listings->begun > most ? listings->begun : most,
			    has_answer(fds[i])));
		reply = receive(fds[i]);
		expect_ok(&reply);
		message_clear(&reply);
	}
	assert_in_range(most, 1, 2);
	reply = receive(other);
	expect_ok(&reply);
	message_clear(&reply);
	assert_true(TAILQ_EMPTY(&listings->queue));
	assert_int_equal(listings->begun, 0);
	hang_up(other);
	for (size_t i = 0; i < ANSWERS; i++)
		if (fds[i] >= 0)
			hang_up(fds[i]);
	free_sample(&sample);
}

static void what_one_user_is_lent_is_limited(void **state)
{
	struct sample sample;
	int fds[5], root;

	(void)state;
	push_sample(&sample, "net", 1);
	assert_int_equal(bed.models->service.lent_max, 256U << 20);
	for (size_t i = 0; i < COUNT(fds); i++) {
		fds[i] = connect_client();
		be_somebody(1000);
	}
	ask_ok(fds[0], json_pack("{s:s}", "op", "list"));
	/* As large as each of them, but for the digits of numbers in it. */
	bed.models->service.lent_max =
		2 * answer_size(bed.models->service.clients->next->next->next->next->answer) + 64;
	ask_ok(fds[1], json_pack("{s:s}", "op", "list"));
	expect_refusal(fds[2], json_pack("{s:s}", "op", "list"), NULL, 0, "EUSERS",
		       "you hold 0 MB of answers, with this one more than 0 MB: close the "
		       "connections");
	/* Others are not concerned, and root is not limited. */
	root = connect_client();
	ask_ok(root, json_pack("{s:s}", "op", "list"));
	be_somebody(1001);
	ask_ok(root, json_pack("{s:s}", "op", "list"));
	hang_up(root);
	/* Who asks for something else gives it back. */
	ask_ok(fds[0], json_pack("{s:s}", "op", "status"));
	ask_ok(fds[2], json_pack("{s:s}", "op", "list"));
	expect_refusal(fds[3], json_pack("{s:s}", "op", "list"), NULL, 0, "EUSERS", "you hold");
	ask_ok(fds[1], json_pack("{s:s}", "op", "status"));
	ask_ok(fds[2], json_pack("{s:s}", "op", "status"));
	/* What several connections have is one. */
	bed.models->service.lent_max = UINT64_MAX;
	ask_ok(fds[0], op("show", "net"));
	bed.models->service.lent_max =
		answer_size(bed.models->service.clients->next->next->next->next->answer);
	for (size_t i = 1; i < COUNT(fds); i++)
		ask_ok(fds[i], op("show", "net"));
	for (size_t i = 0; i < COUNT(fds); i++)
		hang_up(fds[i]);
	free_sample(&sample);
}

/* Those that are kept for who asks next are few, whatever changes between two of them. */
static void who_loads_and_shows_keeps_few_answers(void **state)
{
	int fd, kept[ANSWERS];
	struct sample sample;
	uint64_t one = 0;

	(void)state;
	push_sample(&sample, "net", 1);
	for (size_t i = 0; i < ANSWERS; i++) {
		load_once(&sample);
		fd = connect_client();
		kept[i] = ask_descriptor(fd, op("show", "net"));
		hang_up(fd);
		if (!i)
			one = kept_bytes(kept, 1);
	}
	wait_until(!errands_of(bed.models->errands, 0));
	assert_in_range(kept_bytes(kept, ANSWERS), 0, (SHOWINGS_KEPT + 1) * one);
	for (size_t i = 0; i < ANSWERS; i++)
		close(kept[i]);
	free_sample(&sample);
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

/* A path that was mistaken costs nobody his file: neither at the start nor at the end. */
static void what_is_not_a_socket_stays(void **state)
{
	char *end = bed.config.socket + strlen(bed.config.socket);
	struct stat status;

	(void)state;
	stop_daemon();
	strcpy(end, "-of-others");
	close(open(bed.config.socket, O_WRONLY | O_CREAT, 0600));
	assert_true(sd_event_new(&bed.loop) >= 0);
	bed.models = models_open(bed.loop, &fake_pool, &bed.config);
	assert_null(bed.models);
	assert_int_equal(stat(bed.config.socket, &status), 0);
	assert_true(S_ISREG(status.st_mode));
	sd_event_unref(bed.loop);
	/* One that a daemon left which was killed is in nobody's way. */
	*end = '\0';
	start_daemon();
	assert_int_equal(link(bed.config.socket, strcat(bed.directory, "/left")), 0);
	strrchr(bed.directory, '/')[0] = '\0';
	stop_daemon();
	strcpy(strrchr(bed.config.socket, '/'), "/left");
	start_daemon();
	assert_int_equal(stat(bed.config.socket, &status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVICE_TEST(descriptors_of_an_empty_message_are_closed),
		SERVICE_TEST(there_are_descriptors_for_all_connections),
		SERVICE_TEST(who_does_not_read_answers_gets_few),
		SERVICE_TEST(who_keeps_answers_has_the_memory_of_the_last_one),
		SERVICE_TEST(an_answer_is_the_same_for_all_who_have_it),
		SERVICE_TEST(what_is_asked_for_at_once_is_one_answer),
		SERVICE_TEST(one_list_of_a_user_is_made_at_a_time),
		SERVICE_TEST(what_one_user_is_lent_is_limited),
		SERVICE_TEST(who_loads_and_shows_keeps_few_answers),
		SERVICE_TEST(a_descriptor_whose_close_takes_long_holds_nobody_up),
		SERVICE_TEST(who_is_turned_away_often_keeps_nobody_out),
		SERVICE_TEST(subordinate_users_count_as_one),
		SERVICE_TEST(descriptors_are_taken_of_root_alone),
		SERVICE_TEST(what_is_not_a_socket_stays),
	};

	return cmocka_run_group_tests_name("service_connection", tests, NULL, NULL);
}
