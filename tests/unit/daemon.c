// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's whole loop, with both halves and real sockets, and a kernel that is a fake: who
 * is served before whom. What the clients do happens in the loop's own thread, from within the
 * look for events, so that it is known in which turn it does.
 */
#include "daemon_fake.h"

#include "../../userspace/common/message.h"
#include "../../userspace/distmindd/common/log.h"
#include "../../userspace/distmindd/common/turns.h"
#include "../../userspace/distmindd/daemon.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FLOOD 64 /* connections that ask at the same time */
#define QUESTIONS 16 /* that follow one another */
/* Turns within which one of those is answered: its share, and what the daemon does beside. */
#define PATIENCE 100

static struct distmind_pool handle;

static struct {
	char directory[64];
	struct config config;
	int events; /* an epoll: the kernel has something to tell if one of its descriptors has */
	int first, flood[FLOOD];
	int always; /* an eventfd that always has */
	bool begun;
	uint64_t asked, answered; /* the turns of these */
	unsigned int unanswered; /* of the flood, when the kernel was asked */
	uint64_t served; /* the turn in which it was */
	unsigned int answers, dispatches, longest, since;
} bed;

/*
 * What of libdistmind the fake does not have
 */

int distmind_pool_open(struct distmind_pool **pool)
{
	*pool = &handle;
	return 0;
}

void distmind_pool_close(struct distmind_pool *pool)
{
	(void)pool;
}

int distmind_pool_subscribe(struct distmind_pool *pool)
{
	(void)pool;
	return 0;
}

int distmind_pool_event_fd(const struct distmind_pool *pool)
{
	(void)pool;
	return bed.events;
}

int distmind_pool_gpu(struct distmind_pool *pool, uint32_t id, struct distmind_gpu_record *gpu)
{
	(void)pool;
	(void)id;
	(void)gpu;
	return -ENOENT;
}

int distmind_pool_vgpu(struct distmind_pool *pool, uint32_t id, struct distmind_vgpu_record *vgpu)
{
	(void)pool;
	(void)id;
	(void)vgpu;
	return -ENOENT;
}

int distmind_pool_vgpu_create(struct distmind_pool *pool, struct distmind_vgpu_record *record)
{
	(void)pool;
	(void)record;
	return -ENOENT;
}

int distmind_pool_vgpu_delete(struct distmind_pool *pool, uint32_t id)
{
	(void)pool;
	(void)id;
	return -ENOENT;
}

int distmind_pool_extents_add(struct distmind_pool *pool, uint32_t buffer, int timeline,
			      const struct distmind_extent_record *extents, size_t count)
{
	(void)pool;
	(void)buffer;
	(void)timeline;
	(void)extents;
	(void)count;
	return -ENOENT;
}

/*
 * Clients
 */

static void watch(int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	assert_int_equal(epoll_ctl(bed.events, EPOLL_CTL_ADD, fd, &event), 0);
}

static void forget(int fd)
{
	assert_int_equal(epoll_ctl(bed.events, EPOLL_CTL_DEL, fd, NULL), 0);
}

static int connect_client(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	strcpy(address.sun_path, bed.config.models.socket);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* Something that is answered at once. */
static void ask(int fd)
{
	json_t *body = json_pack("{s:s}", "op", "turns");

	assert_int_equal(message_send(fd, body, NULL, 0), 0);
	json_decref(body);
	bed.asked = turns_account()->count;
}

static bool has_answer(int fd)
{
	return poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, 0) > 0;
}

/* The turn in which it was answered. */
static uint64_t take_answer(int fd)
{
	struct message message;
	const char *why;
	uint64_t turn;

	assert_int_equal(message_receive(fd, &message, &why), 0);
	assert_true(json_is_true(json_object_get(message.body, "ok")));
	turn = (uint64_t)json_integer_value(
		json_object_get(json_object_get(message.body, "turns"), "count"));
	message_clear(&message);
	return turn;
}

static void end(void)
{
	kernel.before_dispatch = NULL;
	assert_int_equal(raise(SIGTERM), 0);
}

/*
 * The bed
 */

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	(void)stat;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int setup(void **state)
{
	(void)state;
	log_set_target(LOG_TO_NOTHING);
	memset(&kernel, 0, sizeof(kernel));
	memset(&bed, 0, sizeof(bed));
	turns_reset();
	strcpy(bed.directory, "/tmp/distmind-daemon-XXXXXX");
	assert_non_null(mkdtemp(bed.directory));
	config_default(&bed.config);
	bed.config.models.donor_memory = 1U << 20;
	strcpy(bed.config.models.host, "a");
	strcpy(bed.config.models.address, "192.0.2.1");
	snprintf(bed.config.models.catalog, sizeof(bed.config.models.catalog), "%s/catalog",
		 bed.directory);
	snprintf(bed.config.models.socket, sizeof(bed.config.models.socket), "%s/socket",
		 bed.directory);
	bed.events = epoll_create1(EPOLL_CLOEXEC);
	assert_true(bed.events >= 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(bed.events);
	return nftw(bed.directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_daemon(void (*ready)(void *arg))
{
	struct daemon_options options = { .config_path = "", .ready = ready };

	assert_int_equal(daemon_run(&options, &bed.config), 0);
}

/*
 * Questions without end, and one claim
 */

/* The first of the flood that is answered is what the kernel's event comes with. */
static void claim_in_the_flood(void)
{
	struct epoll_event event;

	if (epoll_wait(bed.events, &event, 1, 0) <= 0)
		return;
	if (!bed.begun) {
		/* It came last: all others are accepted. */
		take_answer(bed.first);
		forget(bed.first);
		bed.begun = true;
		for (int i = 0; i < FLOOD; i++) {
			watch(bed.flood[i]);
			ask(bed.flood[i]);
		}
		return;
	}
	bed.answered = take_answer(event.data.fd);
	bed.served = turns_account()->count;
	for (int i = 0; i < FLOOD; i++) {
		forget(bed.flood[i]);
		bed.unanswered += bed.flood[i] != event.data.fd && !has_answer(bed.flood[i]);
	}
	fake_claim(1U << 20, 100, 1);
	end();
}

static void begin_flood(void *arg)
{
	(void)arg;
	for (int i = 0; i < FLOOD; i++)
		bed.flood[i] = connect_client();
	bed.first = connect_client();
	watch(bed.first);
	ask(bed.first);
	kernel.before_dispatch = claim_in_the_flood;
}

static void who_claims_a_vgpu_comes_before_who_asks_about_models(void **state)
{
	(void)state;
	run_daemon(begin_flood);
	assert_int_equal(bed.served, bed.answered + 1);
	/* All others had asked before, and were still to come. */
	assert_int_equal(bed.unanswered, FLOOD - 1);
	/* There is no gpu. */
	assert_int_equal(kernel.refusals, 1);
	for (int i = 0; i < FLOOD; i++)
		close(bed.flood[i]);
	close(bed.first);
}

/*
 * Events without end, and somebody who asks
 */

static void ask_in_the_flood(void)
{
	uint64_t waited = turns_account()->count - bed.asked;

	bed.dispatches++;
	if (waited > bed.longest)
		bed.longest = (unsigned int)waited;
	if (has_answer(bed.first)) {
		take_answer(bed.first);
		bed.answers++;
		ask(bed.first);
	} else if (waited < 100 * PATIENCE) {
		return;
	}
	/* The end would wait, too. */
	if (bed.answers == QUESTIONS || waited >= 100 * PATIENCE) {
		forget(bed.always);
		end();
	}
}

static void begin_events(void *arg)
{
	(void)arg;
	bed.always = eventfd(1, EFD_CLOEXEC);
	watch(bed.always);
	bed.first = connect_client();
	ask(bed.first);
	kernel.before_dispatch = ask_in_the_flood;
}

static void events_without_end_do_not_keep_others_waiting_for_ever(void **state)
{
	(void)state;
	run_daemon(begin_events);
	assert_int_equal(bed.answers, QUESTIONS);
	assert_in_range(bed.longest, 1, PATIENCE);
	/* And have more turns than others all the same. */
	assert_true(bed.dispatches > 2 * bed.answers);
	close(bed.always);
	close(bed.first);
}

#define DAEMON_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(who_claims_a_vgpu_comes_before_who_asks_about_models),
		DAEMON_TEST(events_without_end_do_not_keep_others_waiting_for_ever),
	};

	return cmocka_run_group_tests_name("daemon", tests, NULL, NULL);
}
