// SPDX-License-Identifier: GPL-2.0-only
/* The transitions of a lane, see lane_state.h. */
#include <linux/compiler.h>

#include "lane_state.h"

/* The use that an event leads to, and 1: what is 0 cannot happen. */
#define TO(use) (DISTMIND_LANE_##use + 1)

static const unsigned char next_use[DISTMIND_LANE__USES][DISTMIND_LANE__EVENTS] = {
	[DISTMIND_LANE_IDLE] = {
		[DISTMIND_LANE_FETCH] = TO(IDLE),
		[DISTMIND_LANE_LEAVE] = TO(IDLE),
		[DISTMIND_LANE_MISS] = TO(ABSENT),
		[DISTMIND_LANE_OFFER] = TO(OFFERED),
		[DISTMIND_LANE_LEND] = TO(LENT),
	},
	[DISTMIND_LANE_ABSENT] = {
		[DISTMIND_LANE_FETCH] = TO(IDLE),
	},
	[DISTMIND_LANE_OFFERED] = {
		[DISTMIND_LANE_ADMIT] = TO(ADMITTING),
		[DISTMIND_LANE_DELIVER] = TO(RUNNING),
		[DISTMIND_LANE_WITHDRAW] = TO(IDLE),
		[DISTMIND_LANE_ASK] = TO(OFFERED),
	},
	[DISTMIND_LANE_ADMITTING] = {
		[DISTMIND_LANE_DELIVER] = TO(RUNNING),
		[DISTMIND_LANE_WITHDRAW] = TO(IDLE),
		[DISTMIND_LANE_ASK] = TO(ADMITTING),
	},
	[DISTMIND_LANE_RUNNING] = {
		[DISTMIND_LANE_HAND_BACK] = TO(IDLE),
		[DISTMIND_LANE_TAKE_AWAY] = TO(RESET),
		[DISTMIND_LANE_ASK] = TO(RUNNING),
		[DISTMIND_LANE_HOOK] = TO(RUNNING),
	},
	[DISTMIND_LANE_RESET] = {
		[DISTMIND_LANE_ANSWER] = TO(IDLE),
	},
	[DISTMIND_LANE_LENT] = {
		[DISTMIND_LANE_FETCH] = TO(LENT),
		[DISTMIND_LANE_LEAVE] = TO(LENT),
		[DISTMIND_LANE_RETURN] = TO(IDLE),
		[DISTMIND_LANE_EXPIRE] = TO(OVERDUE),
		[DISTMIND_LANE_ASK] = TO(LENT),
		[DISTMIND_LANE_HOOK] = TO(LENT),
	},
	[DISTMIND_LANE_OVERDUE] = {
		[DISTMIND_LANE_FETCH] = TO(OVERDUE),
		[DISTMIND_LANE_LEAVE] = TO(OVERDUE),
		[DISTMIND_LANE_RETURN] = TO(IDLE),
		[DISTMIND_LANE_KILL] = TO(KILLED),
	},
	[DISTMIND_LANE_KILLED] = {
		[DISTMIND_LANE_FETCH] = TO(KILLED),
		[DISTMIND_LANE_LEAVE] = TO(KILLED),
		[DISTMIND_LANE_RETURN] = TO(IDLE),
	},
};

/* Whether a thread of the engine waits after the event; -1: it cannot happen. */
static int next_waiting(const struct distmind_lane_state *state, enum distmind_lane_event event)
{
	switch (event) {
	case DISTMIND_LANE_FETCH:
		return state->waiting ? -1 : true;
	case DISTMIND_LANE_LEAVE:
	case DISTMIND_LANE_ADMIT:
		return state->waiting ? false : -1;
	case DISTMIND_LANE_MISS:
		return state->waiting ? -1 : false;
	case DISTMIND_LANE_DELIVER:
		return false;
	case DISTMIND_LANE_OFFER:
	case DISTMIND_LANE_LEND:
		return state->waiting ? true : -1;
	default:
		return state->waiting;
	}
}

/* How far the job is asked after the event; -1: it cannot happen. */
static int next_asked(const struct distmind_lane_state *state, enum distmind_lane_event event)
{
	switch (event) {
	case DISTMIND_LANE_ASK:
		return state->asked == DISTMIND_LANE_NOT_ASKED ? DISTMIND_LANE_ASKED : -1;
	case DISTMIND_LANE_HOOK:
		return state->asked == DISTMIND_LANE_ASKED ? DISTMIND_LANE_HOOKED : -1;
	case DISTMIND_LANE_WITHDRAW:
	case DISTMIND_LANE_HAND_BACK:
	case DISTMIND_LANE_TAKE_AWAY:
	case DISTMIND_LANE_RETURN:
	case DISTMIND_LANE_EXPIRE:
		return DISTMIND_LANE_NOT_ASKED;
	default:
		return state->asked;
	}
}

bool distmind_lane_state_step(struct distmind_lane_state *state, enum distmind_lane_event event)
{
	int use = next_use[state->use][event] - 1;
	int waiting = next_waiting(state, event);
	int asked = next_asked(state, event);

	if (use < 0 || waiting < 0 || asked < 0)
		return false;
	/* The engine's thread sleeps until this changes, and looks without the lock. */
	WRITE_ONCE(state->use, use);
	state->waiting = waiting;
	state->asked = asked;
	return true;
}
