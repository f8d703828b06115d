/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Arbitration: which job runs next on a lane, and which one is to yield.
 *
 * Nothing here sleeps, allocates or takes a lock. The caller holds one lock
 * around every call for one sched and passes the time, in nanoseconds of a
 * clock that does not go back. Apart from policy_switch(), policy_set_lanes()
 * and a change of class or objective, a call costs O(log n) of the tenants and
 * entities, policy_victim() in addition O(lanes).
 *
 * The life of an entity:
 *
 *            enqueue              pick               done
 *     idle ----------> runnable ------> running ----------> idle
 *          <----------
 *            remove
 *
 * After anything was enqueued, finished or changed, and at the time that
 * policy_next_event() gave, the caller
 *
 *   1. enqueues what has become ready, before it picks,
 *   2. picks for every lane that is idle, until that gives NULL,
 *   3. asks every entity to yield that policy_victim() gives, until it gives
 *      NULL; that brings tenants up to date, and one that was throttled may be
 *      so no longer: if a lane is idle it goes back to 2,
 *   4. sets its timer to policy_next_event().
 *
 * What the policies promise. J is the longest time from asking a lane to yield
 * until it is free; for a job that never yields, what is left of it. W is
 * POLICY_WINDOW_NS, S is POLICY_SLICE_NS, and P is the sched's patience.
 *
 *  - All: a lane is never idle while an entity of a tenant that is neither
 *    throttled nor barred is runnable, and a tenant is throttled no longer than
 *    it has to be.
 *
 *  - All: a lane that was asked is counted on for P. If it is not free by then,
 *    another one is asked for whoever waits, if there is one that would be asked
 *    without it. So a lane that does not yield when asked holds nobody up for more
 *    than P: with n of them J is at most n * P plus the J of the others. What never
 *    yields (@unyielding) is not asked and not counted on.
 *
 *  - All: who waits for an entity can lend it its own place, see policy_lend().
 *    From then on the entity waits and runs as one of that tenant's does, at that
 *    tenant's expense and by that one's deadline. So a latency entity that waits
 *    for what others do waits, from then on, no longer than one of its own tenant
 *    of the same length would.
 *
 *  - Capped tenants, under every policy: in any W, a tenant gets at most
 *    share * lanes * W of lane time, and beyond that, per lane, only what a job
 *    ran on after it was to yield; that is paid back. A job is not asked to
 *    yield before it has run for POLICY_LIMIT_SLICE_NS. A tenant that wants
 *    more gets 15/16 of its cap, the rest is what lets it run in bursts.
 *
 *  - fifo: in the order of arrival. Nobody is asked to yield; an engine of which nothing
 *    is heard for long may be, see ladder.c, and goes on with what it had.
 *
 *  - fair: between any two times at which tenants i and j both wait, what
 *    they got, each divided by its share, differs by at most (lanes + 1) *
 *    (Li / share i + Lj / share j), L being the tenant's longest stretch on a
 *    lane: its job or, if that yields, S + J. So an entity with k - 1 older
 *    ones of its tenant before it waits for no more than (k + lanes) * L of
 *    its tenant's time and (k + 2 * lanes) * L * share j / share i of each
 *    other's.
 *
 *  - slo: a class with an entity runnable and none running starts one within
 *    W + S + 2 * J, whatever the others do, also if these run and none of them
 *    waits; what is started like this is not asked to yield for S. So standard
 *    and best effort are each sure of 1/POLICY_FLOOR of a lane. Within these two
 *    it is as under fair. Within latency, an entity waits at most for those with
 *    an earlier deadline; deadlines earlier than the beginning of the request
 *    count as that beginning. A latency tenant
 *    that has used more than share * lanes * W over about W counts as standard
 *    until it is within its share again, at most W after it stops.
 *
 *  - All: what is promised to a tenant, and what it is limited to, is so of one that goes
 *    and of who takes over its debt together: whoever leaves with more than its share, or
 *    with an empty bucket, comes back with that, see struct policy_debt.
 *
 *  - srpt: of n tenants, one that waits starts an entity before the lanes have
 *    run for (n + lanes) * (POLICY_DEFICIT_NS + L), L being the longest stretch
 *    of anybody on a lane. Among the entities of a tenant, one is overtaken only
 *    by those whose requests begin within POLICY_SRPT_AGING times what is left of
 *    its own after it.
 *
 * In one place, who may have to wait for somebody that should come after it, and for how
 * long at most:
 *
 *   a class, for higher ones that run           W + S + 2 * J (slo)
 *   anybody, for a lane that ignores its        P, then another lane is asked; after the
 *   request                                     hang limit its job fails, see ladder.c
 *   anybody, for a lane that is lent            J: it is asked as others are, also of an
 *                                               engine that does not yield; see ladder.c
 *   a latency entity, for what it waits for     what one of its own tenant would take
 *   through a timeline
 *   an entity of a tenant that is within its    nothing, if a lane is idle
 *   cap again
 *   a job, for room in the heap that jobs of    J; of the same rank
 *   lower rank have                             DISTMIND_ROOM_PATIENCE_NS + J
 *   a job, for a buffer of its vgpu that an     J of that gpu; or two hang limits, then it
 *   importer's job uses on the gpu that the     fails with EBUSY
 *   vgpu has left
 *
 * The last two are not for the policies to keep: ../room.h states them, with pins and jobs
 * that hang, and has DISTMIND_ROOM_PATIENCE_NS; limits[DISTMIND_ROOM_ELSEWHERE] in
 * ../room.c is the number of hang limits.
 *
 * A request is what an application wants done by a deadline: several jobs, one
 * after the other or side by side. An entity that belongs to none is a request of
 * its own, which begins when it arrives. An entity stands for those behind it in its
 * queue, too, see struct policy_line: where deadlines or what is left are compared, by the
 * most urgent of these. Under fair and in the lower classes of
 * slo, the entities of a tenant are in the order in which their requests began.
 */
#ifndef _DISTMIND_POLICY_H
#define _DISTMIND_POLICY_H

#include "env.h"

#define POLICY_WINDOW_NS	((u64)100000000) /* shares and caps are measured over this */
#define POLICY_SLICE_NS		((u64)5000000)	/* between equals, nobody yields sooner */
#define POLICY_LIMIT_SLICE_NS	((u64)250000)	/* nor at its cap sooner than this */
#define POLICY_FLOOR		20		/* a starved class gets 1/20 of a lane */
#define POLICY_DEFICIT_NS	POLICY_WINDOW_NS /* lane time that srpt may owe a tenant */
#define POLICY_PATIENCE_NS	((u64)100000000) /* until policy_set_patience() */
#define POLICY_SRPT_AGING	16

#define POLICY_LANES_MAX	1024
#define POLICY_RANKS		DISTMIND_CLASS__COUNT
#define POLICY_OPERATIONS	16		/* whose length a tenant remembers */

struct policy;

/**
 * struct policy_estimate - how long an operation takes
 * @operation: which
 * @used: when it was last looked at, in looks
 * @block: nanoseconds per block, times 256; 0 if this entry is free
 */
struct policy_estimate {
	u32 operation;
	u32 used;
	u64 block;
};

/**
 * struct policy_estimates - expected lengths, of a few things
 * @looks: their clock
 * @entries: those that were looked at last
 */
struct policy_estimates {
	u32 looks;
	struct policy_estimate entries[POLICY_OPERATIONS];
};

/**
 * struct policy_settings - what a tenant is entitled to
 * @share: 1 to DISTMIND_SHARE_WHOLE
 * @class: enum distmind_class
 * @objective_ns: latency objective, 0 for none
 * @capped: @share is a limit even when nobody else wants the lanes
 */
struct policy_settings {
	u32 share;
	u32 class;
	u64 objective_ns;
	bool capped;
};

/**
 * struct policy_tenant - a vgpu, as one sched sees it
 * @node: in @rank's tree, by @key, while @runnable
 * @key: its place there
 * @vtime: lane time it was charged, divided by its share; as far ahead of its
 *	rank's as what it got too much
 * @in_order: runnable entities that came in the order of their keys: most do,
 *	and a list touches fewer of them than a tree
 * @ready: the other runnable entities, by their keys
 * @ready_count: how many there are in both
 * @rank: of which rank it is
 * @inverse: 1 / share, times 1000 << 10
 * @epoch: changes when @vtime starts anew
 * @running: how many running entities
 * @runnable: may be picked: has an entity and is neither throttled nor barred
 * @throttled: is at its cap
 * @over: has used more than its share and lost its precedence
 * @barred: is not picked, see policy_bar()
 * @settings: see there
 * @tokens: lane time that it may use, see limit.c
 * @reserved: lane time that was set aside for what is running
 * @depth: most that @tokens and @reserved can be together
 * @rate: tokens per nanosecond
 * @refilled_ns: when @tokens were brought up to date
 * @event_ns: when it may no longer be @throttled or @over, 0 for no event
 * @event_node: in the sched's tree of events, if @event_ns is set
 * @owed_node: srpt: by @owed_base, while @runnable
 * @owed_base: srpt: the sched's @owed at which nothing is owed; what is owed
 *	itself while not @runnable
 * @in_sched: in the sched's list of tenants
 * @estimates: expected lengths of its operations
 */
struct policy_tenant {
	/* What every decision looks at comes first. */
	struct rb_node node;
	u64 key;
	u64 vtime;
	struct list_head in_order;
	struct rb_root_cached ready;
	u32 ready_count;
	u32 rank;
	u32 inverse;
	u32 epoch;
	u32 running;
	bool runnable;
	bool throttled;
	bool over;
	bool barred;
	struct policy_settings settings;
	s64 tokens;
	s64 reserved;
	s64 depth;
	u64 rate;
	u64 refilled_ns;
	u64 event_ns;
	struct rb_node event_node;
	struct rb_node owed_node;
	u64 owed_base;
	struct list_head in_sched;
	struct policy_estimates estimates;
};

enum policy_entity_state {
	POLICY_IDLE = 0,
	POLICY_RUNNABLE,
	POLICY_RUNNING,
};

/**
 * struct policy_entity - the job at the head of a queue
 * @tenant: whose; the caller sets this and the next eight while it is idle, and
 *	policy_lend() and policy_set_behind() change some
 * @arrival_ns: when the job became ready; stays when it yields
 * @request_ns: when its request began, 0 if it is of none
 * @deadline_ns: when its request should be done, 0 for its beginning plus the
 *	tenant's objective
 * @expected_ns: what is left of the job, see policy_estimate_get()
 * @left_ns: what is left of its request, with this job; less counts as @expected_ns
 * @behind_ns: when the request behind it began that is to be done soonest, 0: none
 * @behind_left_ns: what is left of that, with all that is before it
 * @unyielding: runs to its end; may also be changed while it is running
 * @link: in the tenant's list, while it is runnable and @in_order
 * @node: in the tenant's tree, while it is runnable and not @in_order
 * @key: its place there
 * @state: enum policy_entity_state
 * @rank: that it was picked from
 * @in_order: see @link
 * @asked: was asked to yield
 * @asked_ns: when
 * @epoch: of its tenant when it was picked
 * @picked_ns: when it was picked
 * @started_ns: the same, or when it became its tenant's if that was later
 * @protected_ns: not to be asked to yield before
 * @paid_ns: run time that its tenant was charged in advance
 * @charged: that in virtual time
 * @reserved: tokens that were set aside for it
 * @settled_ns: how much of its run time was taken from the tokens already
 * @budget_ns: run time at which it needs more tokens, 0 if none are needed
 */
struct policy_entity {
	union {
		struct list_head link;
		struct rb_node node;
	};
	u64 key;
	struct policy_tenant *tenant;
	u64 arrival_ns;
	u64 request_ns;
	u64 deadline_ns;
	u64 expected_ns;
	u64 left_ns;
	u64 behind_ns;
	u64 behind_left_ns;
	bool unyielding;
	u8 state;
	u8 rank;
	bool in_order;
	bool asked;
	u32 epoch;
	u64 asked_ns;
	u64 picked_ns;
	u64 started_ns;
	u64 protected_ns;
	u64 paid_ns;
	u64 charged;
	s64 reserved;
	u64 settled_ns;
	u64 budget_ns;
};

/**
 * struct policy_hurry - how soon something is to be done; of each, less is sooner
 * @due_ns: when its request should be done, or began if that is later
 * @key: as srpt has it, but for what was done
 */
struct policy_hurry {
	u64 due_ns;
	u64 key;
};

/**
 * struct policy_turn - what was submitted of a request at once
 * @node: in the line
 * @request_ns: when the request began
 * @own: its hurry
 * @least: and the least of all below it
 */
struct policy_turn {
	struct rb_node node;
	u64 request_ns;
	struct policy_hurry own;
	struct policy_hurry least;
};

/**
 * struct policy_line - the requests in a queue
 * @turns: in order
 * @came_ns: expected length of all that ever came
 * @went_ns: of that, what is done
 */
struct policy_line {
	struct rb_root turns;
	u64 came_ns;
	u64 went_ns;
};

/**
 * struct policy_debt - what tenants of somebody have had too much, and left behind
 * @vtime: how far the furthest of them was, in each rank
 * @period: of that rank then, 0: there was none
 * @full_ns: when the last of their buckets will be full, see limit.c
 *
 * Zero is none. It is worth something as long as the others of that rank still wait for
 * what they are owed: if nobody has waited or run for POLICY_WINDOW_NS, nobody is owed
 * anything.
 */
struct policy_debt {
	u64 vtime[POLICY_RANKS];
	u64 period[POLICY_RANKS];
	u64 full_ns;
};

/**
 * struct policy_rank - tenants among which the policy's order decides
 * @tenants: those who may be picked
 * @vtime: virtual time: where the tenant that was picked last stood
 * @waiting: runnable entities of @tenants
 * @running: entities that were picked from here
 * @empty_ns: since when nobody waits or runs, if that is so
 * @period: how often somebody came when that had been so for POLICY_WINDOW_NS
 * @starved_ns: how long entities waited while none was running; a nanosecond
 *	of run time makes up for POLICY_FLOOR of waiting
 * @aged_ns: when @starved_ns was brought up to date
 */
struct policy_rank {
	struct rb_root_cached tenants;
	u64 vtime;
	u32 waiting;
	u32 running;
	u64 empty_ns;
	u64 period;
	u64 starved_ns;
	u64 aged_ns;
};

/**
 * struct policy_sched - arbitration of the lanes of one kind of a gpu
 * @policy: which
 * @lanes: how many
 * @running: entities that were picked and are not done
 * @active: tenants that may be picked
 * @ranks: the higher the more urgent
 * @patience_ns: how long a lane that was asked to yield is counted on
 * @events: tenants by the time at which something changes for them
 * @recheck_ns: when policy_victim() may have a different answer, 0 for never
 * @owed_tree: srpt: tenants, those who are owed most first
 * @owed: srpt: what every tenant was given so far
 * @tenants: all of them
 */
struct policy_sched {
	const struct policy *policy;
	u32 lanes;
	u32 running;
	u32 active;
	struct policy_rank ranks[POLICY_RANKS];
	u64 patience_ns;
	struct rb_root_cached events;
	u64 recheck_ns;
	struct rb_root_cached owed_tree;
	u64 owed;
	struct list_head tenants;
};

extern const struct policy policy_fifo;
extern const struct policy policy_fair;
extern const struct policy policy_slo;
extern const struct policy policy_srpt;

/* NULL if there is none of that name; policy_slo is the default. */
const struct policy *policy_find(const char *name);
const char *policy_name(const struct policy *policy);

void policy_sched_init(struct policy_sched *sched, const struct policy *policy, u32 lanes);
/* A lane has failed, or is back: one that cannot be given away must not be counted. O(n log n). */
void policy_set_lanes(struct policy_sched *sched, u32 lanes, u64 now);
/* How long a lane that was asked to yield is counted on. */
void policy_set_patience(struct policy_sched *sched, u64 patience_ns, u64 now);
/* Every entity stays what it is, runnable or running. O(n log n). */
void policy_switch(struct policy_sched *sched, const struct policy *policy, u64 now);

void policy_tenant_init(struct policy_sched *sched, struct policy_tenant *tenant,
			const struct policy_settings *settings, u64 now);
void policy_tenant_change(struct policy_sched *sched, struct policy_tenant *tenant,
			  const struct policy_settings *settings, u64 now);
/* While it is barred none of its entities is picked; those that run go on. */
void policy_bar(struct policy_sched *sched, struct policy_tenant *tenant, bool barred, u64 now);
/* All of its entities must be idle. */
void policy_tenant_exit(struct policy_sched *sched, struct policy_tenant *tenant);

/*
 * Whoever leaves and comes back as another tenant has had what it has had: note before the
 * one goes, as often as there are some, and take after the other was initialised.
 */
void policy_debt_note(struct policy_sched *sched, struct policy_tenant *tenant,
		      struct policy_debt *debt, u64 now);
void policy_debt_take(struct policy_sched *sched, struct policy_tenant *tenant,
		      const struct policy_debt *debt, u64 now);
/* False: it may be forgotten. */
bool policy_debt_matters(const struct policy_sched *sched, const struct policy_debt *debt, u64 now);

/* The entity is idle and, but for the fields that the caller sets, zero or as it was. */
void policy_enqueue(struct policy_sched *sched, struct policy_entity *entity, u64 now);
/* Take back what is runnable; nothing happens to an idle entity. */
void policy_remove(struct policy_sched *sched, struct policy_entity *entity, u64 now);
/* Whether there is anybody to pick. */
bool policy_is_wanted(const struct policy_sched *sched);
struct policy_entity *policy_pick(struct policy_sched *sched, u64 now);
/*
 * From now on the entity, whatever its state, is @tenant's, to be done by @deadline_ns:
 * somebody of that tenant waits for it. The same call gives it back. What it has run for so
 * far was at the expense of who had it before; if that is another tenant, its @started_ns
 * is anew. How long it has had the lane is not: who lends it its place does not keep it from
 * being asked to yield.
 */
void policy_lend(struct policy_sched *sched, struct policy_entity *entity,
		 struct policy_tenant *tenant, u64 deadline_ns, u64 now);
/* Another request is the shortest behind it, whatever its state. */
void policy_set_behind(struct policy_sched *sched, struct policy_entity *entity, u64 behind_ns,
		       u64 left_ns, u64 now);
/* It ran for @ran_ns, to its end or until it yielded. */
void policy_done(struct policy_sched *sched, struct policy_entity *entity, u64 ran_ns, u64 now);
/*
 * @running are all that run, also those that were asked already and those that never
 * yield; it may give one of them only once. A tenant at its cap yields even if nobody
 * waits.
 */
struct policy_entity *policy_victim(struct policy_sched *sched, struct policy_entity **running,
				    u32 count, u64 now);
/* 0 if nothing will change by itself; a time that has passed means at once. */
u64 policy_next_event(struct policy_sched *sched, u64 now);

/* Expected length of a job, and what it really took, all its stretches together. */
u64 policy_estimate_get(struct policy_tenant *tenant, u32 operation, u32 blocks);
void policy_estimate_update(struct policy_tenant *tenant, u32 operation, u32 blocks, u64 ran_ns);
/* The same of anything that has a number and a size; 0 if nothing is known of it. */
u64 policy_estimates_get(struct policy_estimates *estimates, u32 number, u32 blocks);
void policy_estimates_update(struct policy_estimates *estimates, u32 number, u32 blocks,
			     u64 ran_ns);

void policy_line_init(struct policy_line *line);
/*
 * Behind all others, before what it brings has come: a request that began at @request_ns,
 * should be done by @deadline_ns, and of which @left_ns are left.
 */
void policy_line_add(struct policy_line *line, struct policy_turn *turn, u64 request_ns,
		     u64 deadline_ns, u64 left_ns);
void policy_line_del(struct policy_line *line, struct policy_turn *turn);
/* Its request should be done by another time; U64_MAX: that is for another turn to say. */
void policy_turn_set_deadline(struct policy_turn *turn, u64 deadline_ns);
/* Work of that expected length, of a request or not; what went must have come as such. */
void policy_line_came(struct policy_line *line, u64 work_ns);
void policy_line_went(struct policy_line *line, u64 work_ns);
/* When the first of them is due; U64_MAX: there is none. */
u64 policy_line_due(const struct policy_line *line);
/* The one that is to be done soonest by srpt; false: there is none. */
bool policy_line_shortest(const struct policy_line *line, u64 *request_ns, u64 *left_ns);

#endif /* _DISTMIND_POLICY_H */
