// SPDX-License-Identifier: GPL-2.0-or-later
/* The states of a lane: everything that can be reached is walked. */
#include <string.h>

#include "unit.h"

#include "../../kmod/lane_state.h"

#define STATES (DISTMIND_LANE__USES * DISTMIND_LANE__ASKED * 2)

static int number(const struct distmind_lane_state *state)
{
	return (state->use * DISTMIND_LANE__ASKED + state->asked) * 2 + state->waiting;
}

static struct distmind_lane_state numbered(int number)
{
	return (struct distmind_lane_state){
		.use = number / 2 / DISTMIND_LANE__ASKED,
		.asked = number / 2 % DISTMIND_LANE__ASKED,
		.waiting = number % 2,
	};
}

/* Which states can be reached from one, that one included. */
static void reach(struct distmind_lane_state from, bool reached[STATES])
{
	int queue[STATES], head = 0, tail = 0;

	memset(reached, 0, STATES * sizeof(*reached));
	reached[queue[tail++] = number(&from)] = true;
	while (head < tail) {
		int at = queue[head++];

		for (int event = 0; event < DISTMIND_LANE__EVENTS; event++) {
			struct distmind_lane_state state = numbered(at);

			if (distmind_lane_state_step(&state, event) && !reached[number(&state)])
				reached[queue[tail++] = number(&state)] = true;
		}
	}
}

static void what_cannot_happen_changes_nothing(void **unused)
{
	int legal = 0;

	(void)unused;
	for (int i = 0; i < STATES; i++) {
		for (int event = 0; event < DISTMIND_LANE__EVENTS; event++) {
			struct distmind_lane_state state = numbered(i);

			if (distmind_lane_state_step(&state, event))
				legal++;
			else
				assert_int_equal(number(&state), i);
		}
	}
	assert_true(legal > 0);
}

static void every_use_can_be_reached_and_left_for_another_job(void **unused)
{
	bool from_idle[STATES], from_there[STATES], uses[DISTMIND_LANE__USES] = { 0 };
	struct distmind_lane_state idle = { 0 };

	(void)unused;
	reach(idle, from_idle);
	for (int i = 0; i < STATES; i++) {
		if (!from_idle[i])
			continue;
		uses[numbered(i).use] = true;
		reach(numbered(i), from_there);
		for (int j = 0; j < STATES; j++)
			assert_int_equal(from_there[j], from_idle[j]);
	}
	for (size_t i = 0; i < COUNT(uses); i++)
		assert_true(uses[i]);
}

static void what_is_reached_holds_together(void **unused)
{
	struct distmind_lane_state idle = { 0 };
	bool reached[STATES];

	(void)unused;
	reach(idle, reached);
	for (int i = 0; i < STATES; i++) {
		struct distmind_lane_state state = numbered(i);

		if (!reached[i])
			continue;
		/* An offer is made to somebody; who works on a job does not wait for one. */
		if (state.use == DISTMIND_LANE_OFFERED)
			assert_true(state.waiting);
		if (state.use == DISTMIND_LANE_ADMITTING || state.use == DISTMIND_LANE_RUNNING ||
		    state.use == DISTMIND_LANE_RESET)
			assert_false(state.waiting);
		/* Nobody is asked for a lane on which nothing is, or forced before it begins. */
		if (state.asked)
			assert_true(distmind_lane_state_has_job(&state));
		if (state.asked == DISTMIND_LANE_HOOKED)
			assert_true(distmind_lane_state_has_begun(&state));
		if (distmind_lane_state_has_begun(&state))
			assert_true(distmind_lane_state_has_job(&state));
		if (distmind_lane_state_is_free(&state))
			assert_false(distmind_lane_state_has_job(&state));
		/* A lane that has failed has no job, and gets none. */
		if (!distmind_lane_state_is_usable(&state)) {
			assert_false(distmind_lane_state_has_job(&state));
			assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_OFFER));
			assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_LEND));
		}
	}
}

static void walk(struct distmind_lane_state *state, const enum distmind_lane_event *events,
		 size_t count)
{
	for (size_t i = 0; i < count; i++)
		assert_true(distmind_lane_state_step(state, events[i]));
}

#define WALK(state, ...)                                                            \
	walk(state, (const enum distmind_lane_event[]){ __VA_ARGS__ },              \
	     COUNT(((const enum distmind_lane_event[]){ __VA_ARGS__ })))

static void a_job_that_hangs_keeps_its_lane_until_the_engine_answers(void **unused)
{
	struct distmind_lane_state state = { 0 };

	(void)unused;
	WALK(&state, DISTMIND_LANE_FETCH, DISTMIND_LANE_OFFER, DISTMIND_LANE_DELIVER,
	     DISTMIND_LANE_ASK, DISTMIND_LANE_HOOK, DISTMIND_LANE_TAKE_AWAY);
	assert_int_equal(state.use, DISTMIND_LANE_RESET);
	assert_int_equal(state.asked, DISTMIND_LANE_NOT_ASKED);
	for (int event = 0; event < DISTMIND_LANE__EVENTS; event++) {
		struct distmind_lane_state copy = state;

		assert_int_equal(distmind_lane_state_step(&copy, event),
				 event == DISTMIND_LANE_ANSWER);
	}
	WALK(&state, DISTMIND_LANE_ANSWER, DISTMIND_LANE_FETCH, DISTMIND_LANE_OFFER);
}

static void a_lane_for_which_nobody_comes_is_back_when_somebody_does(void **unused)
{
	struct distmind_lane_state state = { 0 };

	(void)unused;
	WALK(&state, DISTMIND_LANE_FETCH);
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_MISS));
	WALK(&state, DISTMIND_LANE_LEAVE, DISTMIND_LANE_MISS);
	assert_false(distmind_lane_state_is_usable(&state));
	WALK(&state, DISTMIND_LANE_FETCH);
	assert_true(distmind_lane_state_is_free(&state));
}

static void threads_come_and_go_while_the_lane_is_lent(void **unused)
{
	struct distmind_lane_state state = { 0 };

	(void)unused;
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_LEND));
	WALK(&state, DISTMIND_LANE_FETCH, DISTMIND_LANE_LEND, DISTMIND_LANE_LEAVE);
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_LEAVE));
	WALK(&state, DISTMIND_LANE_ASK, DISTMIND_LANE_EXPIRE, DISTMIND_LANE_KILL,
	     DISTMIND_LANE_FETCH, DISTMIND_LANE_RETURN);
	assert_true(distmind_lane_state_is_free(&state));
	assert_int_equal(state.asked, DISTMIND_LANE_NOT_ASKED);
}

static void a_job_is_asked_once(void **unused)
{
	struct distmind_lane_state state = { 0 };

	(void)unused;
	WALK(&state, DISTMIND_LANE_FETCH, DISTMIND_LANE_OFFER, DISTMIND_LANE_ASK);
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_ASK));
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_HOOK));
	WALK(&state, DISTMIND_LANE_ADMIT, DISTMIND_LANE_DELIVER, DISTMIND_LANE_HOOK);
	assert_false(distmind_lane_state_step(&state, DISTMIND_LANE_HOOK));
	WALK(&state, DISTMIND_LANE_HAND_BACK, DISTMIND_LANE_FETCH, DISTMIND_LANE_OFFER,
	     DISTMIND_LANE_ASK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_happen_changes_nothing),
		cmocka_unit_test(every_use_can_be_reached_and_left_for_another_job),
		cmocka_unit_test(what_is_reached_holds_together),
		cmocka_unit_test(a_job_that_hangs_keeps_its_lane_until_the_engine_answers),
		cmocka_unit_test(a_lane_for_which_nobody_comes_is_back_when_somebody_does),
		cmocka_unit_test(threads_come_and_go_while_the_lane_is_lent),
		cmocka_unit_test(a_job_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
