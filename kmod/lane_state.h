/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a lane is at, and what can happen to it: pure code, built into the module and
 * natively for a test that walks the whole of it.
 *
 *            LEND           OFFER             DELIVER           TAKE_AWAY
 *   LENT <--------- IDLE ---------> OFFERED ---------> RUNNING -----------> RESET
 *    | EXPIRE       ^ ^ ^             | ADMIT           ^ |                   |
 *    v              | | |             v      DELIVER    | | HAND_BACK         |
 *   OVERDUE         | | |          ADMITTING -----------' |                   |
 *    | KILL         | | '---------------------------------'                   |
 *    v       RETURN | |                                             ANSWER    |
 *   KILLED ---------' '-------------------------------------------------------'
 *
 * From IDLE a lane becomes ABSENT when a job waits and no thread of the engine comes for
 * it (MISS), until one does (FETCH). A job can be withdrawn from OFFERED and ADMITTING,
 * to IDLE. LENT and OVERDUE return to IDLE as KILLED does.
 *
 * Beside that a thread of the engine waits on the lane or does not. It does while a job
 * is offered to it, and stops to wait when it takes the job. A lane is given away only
 * while one waits; while the lane is lent threads come and go as they like.
 *
 * And the job on the lane can be asked to yield, once, and the vendor's hook called for
 * it, once; both are over when the job leaves the lane.
 */
#ifndef _DISTMIND_LANE_STATE_H
#define _DISTMIND_LANE_STATE_H

#include <linux/types.h>

/**
 * enum distmind_lane_use - what a lane is used for
 * @DISTMIND_LANE_IDLE: nothing
 * @DISTMIND_LANE_ABSENT: nothing; the engine has not come for a job in time
 * @DISTMIND_LANE_OFFERED: a job, of which the engine's thread was told
 * @DISTMIND_LANE_ADMITTING: a job whose buffers the engine's thread brings in
 * @DISTMIND_LANE_RUNNING: a job that the engine has
 * @DISTMIND_LANE_RESET: a job was taken from the engine, which has not answered yet
 * @DISTMIND_LANE_LENT: a process has it, by a grant
 * @DISTMIND_LANE_OVERDUE: the grant has failed, and the process keeps the lane
 * @DISTMIND_LANE_KILLED: and has been killed
 */
enum distmind_lane_use {
	DISTMIND_LANE_IDLE,
	DISTMIND_LANE_ABSENT,
	DISTMIND_LANE_OFFERED,
	DISTMIND_LANE_ADMITTING,
	DISTMIND_LANE_RUNNING,
	DISTMIND_LANE_RESET,
	DISTMIND_LANE_LENT,
	DISTMIND_LANE_OVERDUE,
	DISTMIND_LANE_KILLED,
	DISTMIND_LANE__USES
};

/**
 * enum distmind_lane_asked - how far the job on a lane was asked to leave it
 * @DISTMIND_LANE_NOT_ASKED: it was not
 * @DISTMIND_LANE_ASKED: it was told
 * @DISTMIND_LANE_HOOKED: and the vendor's hook was called
 */
enum distmind_lane_asked {
	DISTMIND_LANE_NOT_ASKED,
	DISTMIND_LANE_ASKED,
	DISTMIND_LANE_HOOKED,
	DISTMIND_LANE__ASKED
};

/**
 * enum distmind_lane_event - what happens to a lane
 * @DISTMIND_LANE_FETCH: a thread of the engine comes to wait
 * @DISTMIND_LANE_LEAVE: it goes without a job
 * @DISTMIND_LANE_MISS: none has come although a job waits
 * @DISTMIND_LANE_OFFER: it is told of a job
 * @DISTMIND_LANE_ADMIT: it takes the job, and brings in what the job needs first
 * @DISTMIND_LANE_DELIVER: it goes with the job
 * @DISTMIND_LANE_WITHDRAW: the job leaves the lane before the engine had it
 * @DISTMIND_LANE_HAND_BACK: the engine is done with the job
 * @DISTMIND_LANE_TAKE_AWAY: the job is taken from the engine
 * @DISTMIND_LANE_ANSWER: the engine has noticed that
 * @DISTMIND_LANE_LEND: a process is given the lane
 * @DISTMIND_LANE_RETURN: it has no claim on it any more
 * @DISTMIND_LANE_EXPIRE: its grant fails, and it keeps the lane
 * @DISTMIND_LANE_KILL: it is killed
 * @DISTMIND_LANE_ASK: the job is asked to yield
 * @DISTMIND_LANE_HOOK: the vendor's hook is called
 */
enum distmind_lane_event {
	DISTMIND_LANE_FETCH,
	DISTMIND_LANE_LEAVE,
	DISTMIND_LANE_MISS,
	DISTMIND_LANE_OFFER,
	DISTMIND_LANE_ADMIT,
	DISTMIND_LANE_DELIVER,
	DISTMIND_LANE_WITHDRAW,
	DISTMIND_LANE_HAND_BACK,
	DISTMIND_LANE_TAKE_AWAY,
	DISTMIND_LANE_ANSWER,
	DISTMIND_LANE_LEND,
	DISTMIND_LANE_RETURN,
	DISTMIND_LANE_EXPIRE,
	DISTMIND_LANE_KILL,
	DISTMIND_LANE_ASK,
	DISTMIND_LANE_HOOK,
	DISTMIND_LANE__EVENTS
};

/**
 * struct distmind_lane_state - all that decides about what can happen next
 * @use: enum distmind_lane_use
 * @asked: enum distmind_lane_asked
 * @waiting: a thread of the engine waits
 */
struct distmind_lane_state {
	unsigned char use;
	unsigned char asked;
	bool waiting;
};

/* Returns false, and changes nothing, if that cannot happen now. */
bool distmind_lane_state_step(struct distmind_lane_state *state, enum distmind_lane_event event);

/* A job is on the lane. */
static inline bool distmind_lane_state_has_job(const struct distmind_lane_state *state)
{
	return state->use == DISTMIND_LANE_OFFERED || state->use == DISTMIND_LANE_ADMITTING ||
	       state->use == DISTMIND_LANE_RUNNING || state->use == DISTMIND_LANE_LENT;
}

/* And its time has begun: somebody has it who can be asked for it. */
static inline bool distmind_lane_state_has_begun(const struct distmind_lane_state *state)
{
	return state->use == DISTMIND_LANE_RUNNING || state->use == DISTMIND_LANE_LENT;
}

/* A process has the lane. */
static inline bool distmind_lane_state_is_lent(const struct distmind_lane_state *state)
{
	return state->use == DISTMIND_LANE_LENT || state->use == DISTMIND_LANE_OVERDUE ||
	       state->use == DISTMIND_LANE_KILLED;
}

/* It can be given a job now or when what is on it leaves. */
static inline bool distmind_lane_state_is_usable(const struct distmind_lane_state *state)
{
	return state->use != DISTMIND_LANE_ABSENT && state->use != DISTMIND_LANE_RESET &&
	       state->use != DISTMIND_LANE_OVERDUE && state->use != DISTMIND_LANE_KILLED;
}

/* Nothing is on it, and somebody waits for a job. */
static inline bool distmind_lane_state_is_free(const struct distmind_lane_state *state)
{
	return state->use == DISTMIND_LANE_IDLE && state->waiting;
}

#endif /* _DISTMIND_LANE_STATE_H */
