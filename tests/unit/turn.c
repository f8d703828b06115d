// SPDX-License-Identifier: GPL-2.0-or-later
/* Turns: long work in a real loop, beside somebody who always wants something. */
#include "unit.h"

#include "../../userspace/distmindd/common/turn.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define ROUNDS 100

static unsigned int turns, requests;

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	(void)source;
	(void)us;
	(void)arg;
	turns++;
	return 0;
}

/* Somebody who never stops asking: it is not read, so it stays readable. */
static int on_request(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	(void)source;
	(void)fd;
	(void)revents;
	(void)arg;
	requests++;
	return 0;
}

static void turns_alternate_with_requests_that_never_end(void **state)
{
	sd_event_source *turn;
	sd_event *loop;
	int flood;

	(void)state;
	flood = eventfd(1, EFD_CLOEXEC);
	assert_true(flood >= 0);
	assert_true(sd_event_new(&loop) >= 0);
	assert_true(sd_event_add_io(loop, NULL, flood, EPOLLIN, on_request, NULL) >= 0);
	assert_int_equal(turn_begin(loop, &turn, on_turn, NULL), 0);
	for (int i = 0; i < ROUNDS; i++)
		assert_true(sd_event_run(loop, UINT64_MAX) > 0);
	assert_in_range(turns, ROUNDS / 4, ROUNDS);
	assert_in_range(requests, ROUNDS / 4, ROUNDS);
	assert_int_equal(turns + requests, ROUNDS);

	sd_event_source_set_enabled(turn, SD_EVENT_OFF);
	turns = 0;
	for (int i = 0; i < ROUNDS; i++)
		assert_true(sd_event_run(loop, UINT64_MAX) > 0);
	assert_int_equal(turns, 0);
	sd_event_source_disable_unref(turn);
	sd_event_unref(loop);
	close(flood);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_alternate_with_requests_that_never_end),
	};

	return cmocka_run_group_tests_name("turn", tests, NULL, NULL);
}
