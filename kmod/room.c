// SPDX-License-Identifier: GPL-2.0-only
/*
 * Room: jobs whose buffers cannot be brought into the heap at the moment.
 *
 * Such a job is on no lane. Its queue waits in a list of its tenant, and is looked at
 * again whenever somebody stops to use a buffer: by a work item, not by those who run
 * jobs. If there is room for it by then, it becomes ready as if it had just arrived,
 * and is picked for a lane in its turn.
 *
 * So that it gets room at all, one of those who wait has a claim: the first one of the
 * highest rank for which there would be room if those who are to make way did so, unless its
 * tenant is at its cap and it would not be picked for a lane. These are the jobs on lanes
 *
 *   of a lower rank    at once,
 *   of the same rank   after it has waited for DISTMIND_ROOM_PATIENCE_NS,
 *
 * and, unless the policy is fifo, as many of them are asked to yield as it needs; one that has
 * not done so after the grace period is not needed if there are enough others. What
 * is of no higher rank and wants the room as well waits until the claim was served;
 * what is not in the way of it runs. room.h says what that promises.
 *
 * Not everything makes way. A job fails with EBUSY, and DISTMIND_IOC_QUEUE_ROOM says for
 * whom, when it has waited for a multiple of the hang limit, see limits[], because
 *
 *   it does not fit around what is pinned, or a buffer of it is pinned on the gpu that its
 *   vgpu has left,
 *   a job on that gpu uses a buffer of it: that job is asked to yield, and those who have
 *   imported the buffer get it no more, their jobs fail with EXDEV,
 *   it does not fit around what a job used that hangs: its engine may still answer.
 *
 * A tenant whose queues wait may have many more of them, and an engine that found out of
 * each that there is no room would do nothing else. So the others of the tenant wait without
 * a try, unless their buffers are in the heap already, and no more of them are ready to
 * try again at a time than there are lanes.
 *
 * Everything is guarded by sched->lock. Looking at one job takes time by what is held
 * in the heap, see residency.c; the work item gives others the lock after a few, goes on
 * from there the next time, and rests for longer than it looked, so that a crowd that waits
 * does not keep those who run jobs from the lock. Who has a claim does not wait for that.
 */
#include <linux/capability.h>
#include <linux/ktime.h>
#include <linux/mm.h>

#include "buffer.h"
#include "gpu.h"
#include "job.h"
#include "lane.h"
#include "queue.h"
#include "request.h"
#include "residency.h"
#include "room.h"
#include "sched.h"
#include "tenant.h"
#include "trace.h"
#include "vgpu.h"

/* Of one tenant, how many queues are looked at before the next one has its turn. */
#define QUEUES_AT_ONCE		16
/* Of each rank, how many tenants are tried for the claim at a time. */
#define CLAIMS_TRIED		8
/* How many buffers are asked for on other gpus at a time. */
#define ELSEWHERE_MAX		8

/*
 * After it has looked, the work item rests for so many times as long, but not for longer than
 * this: on a processor that others have taken meanwhile, looking takes as long as they do.
 */
#define ROOM_REST		8
#define ROOM_REST_MAX_NS	(50 * NSEC_PER_MSEC)

/* For how many times the hang limit a job waits for what is not given up. */
static const u32 limits[DISTMIND_ROOM__COUNT] = {
	[DISTMIND_ROOM_PINNED] = 1,
	[DISTMIND_ROOM_ELSEWHERE] = 2,
	[DISTMIND_ROOM_HUNG] = 8,
};

static u32 rank_of(const struct distmind_queue *queue)
{
	return queue->entity.tenant->rank;
}

static struct distmind_job *first_job(const struct distmind_queue *queue)
{
	return list_first_entry(&queue->jobs, struct distmind_job, link);
}

static struct distmind_queue *first_in(struct distmind_tenant *tenant, u32 list)
{
	return list_first_entry_or_null(&tenant->room_queues[list], struct distmind_queue,
					room.in_tenant);
}

/* The first of the tenant's lists from this one on that has one, or NULL. */
static struct distmind_queue *first_from(struct distmind_tenant *tenant, u32 list)
{
	struct distmind_queue *queue = NULL;

	for (; !queue && list < DISTMIND_ROOM_LISTS; list++)
		queue = first_in(tenant, list);
	return queue;
}

/*
 * The one of the tenant that can have a claim, or NULL if none waits: of the highest rank, and
 * of several of that, one that others wait for. One that is stuck, if all of them are.
 */
static struct distmind_queue *first_queue(struct distmind_tenant *tenant)
{
	struct distmind_queue *first = NULL, *queue;
	u32 list;

	for (list = 0; list < DISTMIND_ROOM_STUCK; list++) {
		queue = first_in(tenant, list);
		if (queue && (!first || rank_of(queue) > rank_of(first)))
			first = queue;
	}
	return first ? first : first_in(tenant, DISTMIND_ROOM_STUCK);
}

/* Behind it in the lists of its tenant, or NULL. */
static struct distmind_queue *next_queue(struct distmind_queue *queue)
{
	if (list_is_last(&queue->room.in_tenant, &queue->tenant->room_queues[queue->room.list]))
		return first_from(queue->tenant, queue->room.list + 1);
	return list_next_entry(queue, room.in_tenant);
}

/* In which of these it belongs. */
static u32 list_of(const struct distmind_queue *queue)
{
	if (queue->room.stuck_ns)
		return DISTMIND_ROOM_STUCK;
	if (queue->entity.tenant == &queue->tenant->policy[queue->kind])
		return DISTMIND_ROOM_OWN;
	return POLICY_RANKS - 1 - rank_of(queue);
}

/* Until when a lane that was asked to yield is counted on. */
static u64 counted_on_until(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	/* Nobody has the job who could have heard of it. */
	if (!distmind_lane_state_has_begun(&lane->state))
		return U64_MAX;
	return max(lane->asked_ns, lane->started_ns) + sched->grace_ns;
}

/*
 * The lanes whose jobs make way for a claim, or will: bit i for lane i. Those that ignore their
 * request are among them only if the others have not enough.
 */
static u32 making_way(struct distmind_sched *sched, const struct distmind_queue *claim, u64 now)
{
	bool patient = now - first_job(claim)->room_ns < DISTMIND_ROOM_PATIENCE_NS;
	u32 i, rank, mask = 0, deaf = 0;

	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (!lane->job || !READ_ONCE(lane->job->admitted))
			continue;
		rank = rank_of(lane->job->queue);
		if (lane->state.asked || rank < rank_of(claim) ||
		    (rank == rank_of(claim) && !patient))
			mask |= BIT(i);
		if (lane->state.asked && now >= counted_on_until(sched, lane))
			deaf |= BIT(i);
	}
	if (deaf && distmind_residency_fits(distmind_gpu_of(sched), first_job(claim), mask & ~deaf))
		mask &= ~deaf;
	return mask;
}

static void look_again_at(struct distmind_sched *sched, u64 due)
{
	if (!sched->room_due_ns || due < sched->room_due_ns)
		sched->room_due_ns = due;
}

/* When the lane, which was asked, is no longer counted on, others may be to be asked. */
static void look_if_deaf(struct distmind_sched *sched, const struct distmind_lane *lane, u64 now)
{
	u64 until = counted_on_until(sched, lane);

	if (until > now && until != U64_MAX)
		look_again_at(sched, until);
}

/* As few of @lanes as it takes, those of low rank first. */
static void ask_lanes(struct distmind_sched *sched, const struct distmind_queue *claim,
		      u32 lanes, u64 now)
{
	u32 i, rank, gone = 0;

	for (i = 0; i < sched->lane_count; i++) {
		if (lanes & BIT(i) && sched->lanes[i].state.asked) {
			gone |= BIT(i);
			look_if_deaf(sched, &sched->lanes[i], now);
		}
	}
	for (rank = 0; rank <= rank_of(claim); rank++) {
		for (i = 0; i < sched->lane_count; i++) {
			struct distmind_lane *lane = &sched->lanes[i];

			if (!(lanes & ~gone & BIT(i)) || rank_of(lane->job->queue) != rank)
				continue;
			if (distmind_residency_fits(distmind_gpu_of(sched), first_job(claim), gone))
				return;
			gone |= BIT(i);
			if (sched->policy[lane->kind].policy == &policy_fifo)
				continue;
			distmind_lane_ask(sched, lane, now);
			look_if_deaf(sched, lane, now);
		}
	}
}

/* Whether it would not be picked for a lane if it had its room. */
static bool cannot_run(const struct distmind_sched *sched, const struct distmind_queue *queue)
{
	return queue->entity.tenant->throttled || queue->tenant->error ||
	       distmind_sched_is_out(sched, queue);
}

/* The claim, unless who has it cannot use it, or has not within its time. */
static struct distmind_queue *valid_claim(const struct distmind_sched *sched, u64 now)
{
	struct distmind_queue *claim = sched->room_claim;

	if (!claim || cannot_run(sched, claim) ||
	    (!distmind_room_is_waiting(&claim->room) && now >= sched->room_claim_until))
		return NULL;
	return claim;
}

/*
 * Who of those that wait has a claim: tenants that had one lately are last in the list. Who was
 * tried in vain is not tried again before all others of its rank have been, so that a crowd for
 * which nobody can make way keeps neither its own rank nor another from the claim.
 */
static void give_claim(struct distmind_sched *sched, u64 now)
{
	struct distmind_queue *served = valid_claim(sched, now), *claim, *queue;
	u32 lanes, rank, tried[POLICY_RANKS] = { 0 };
	struct distmind_tenant *tenant;

	/* Others have held back for one that is void. */
	if (sched->room_claim && !served) {
		sched->room_claim = NULL;
		distmind_room_changed(sched);
	}
	/* Who has been served is to get its lane, before those of no higher rank. */
	if (served && distmind_room_is_waiting(&served->room))
		served = NULL;
	claim = served;
	list_for_each_entry(tenant, &sched->room_tenants, in_room) {
		queue = first_queue(tenant);
		rank = rank_of(queue);
		if (queue->room.stuck_ns || (claim && rank <= rank_of(claim)) ||
		    tried[rank] > CLAIMS_TRIED || tenant->room_round == sched->room_rounds[rank] ||
		    cannot_run(sched, queue))
			continue;
		lanes = making_way(sched, queue, now);
		if (!lanes || ++tried[rank] > CLAIMS_TRIED)
			continue;
		if (distmind_residency_fits(distmind_gpu_of(sched), first_job(queue), lanes))
			claim = queue;
		else
			tenant->room_round = sched->room_rounds[rank];
	}
	for (rank = 0; rank < POLICY_RANKS; rank++) {
		if (tried[rank] <= CLAIMS_TRIED)
			sched->room_rounds[rank]++;
	}
	sched->room_claim = claim;
	if (claim && claim != served)
		ask_lanes(sched, claim, making_way(sched, claim, now), now);
}

static void set_ready(struct distmind_queue *queue, bool ready)
{
	queue->tenant->room_ready += ready - queue->room.ready;
	queue->room.ready = ready;
}

/* Into the list of its tenant where it belongs, at its end or first of all. */
static void put_in(struct distmind_queue *queue, bool first)
{
	struct list_head *list;

	queue->room.list = list_of(queue);
	list = &queue->tenant->room_queues[queue->room.list];
	if (first)
		list_add(&queue->room.in_tenant, list);
	else
		list_add_tail(&queue->room.in_tenant, list);
}

/* Who looks at the list goes on behind it. */
static void unlink_queue(struct distmind_queue *queue)
{
	struct distmind_tenant *tenant = queue->tenant;

	if (tenant->room_next == queue)
		tenant->room_next = next_queue(queue);
	list_del_init(&queue->room.in_tenant);
}

/* Since then, if it was not, or no longer if that is 0. */
static void set_stuck(struct distmind_queue *queue, u64 since)
{
	if (!queue->room.stuck_ns == !since)
		return;
	unlink_queue(queue);
	queue->room.stuck_ns = since;
	put_in(queue, false);
}

static void queue_take_out(struct distmind_sched *sched, struct distmind_queue *queue)
{
	struct distmind_tenant *tenant = queue->tenant;

	unlink_queue(queue);
	queue->room.stuck_ns = 0;
	if (first_queue(tenant))
		return;
	list_del(&tenant->in_room);
	if (--sched->room_tenant_count)
		return;
	sched->room_due_ns = 0;
	/* Nobody looks any more, and nobody has to wait behind others. */
	distmind_sched_unbar(sched, &sched->kept, ktime_get_ns());
}

/* It waits no longer, or not for that. */
void distmind_room_leave(struct distmind_sched *sched, struct distmind_queue *queue)
{
	lockdep_assert_held(&sched->lock);
	if (distmind_room_is_waiting(&queue->room))
		queue_take_out(sched, queue);
	if (queue->room.ready) {
		set_ready(queue, false);
		distmind_room_changed(sched);
	}
	if (sched->room_claim == queue) {
		sched->room_claim = NULL;
		/* Others may have held back for it. */
		distmind_room_changed(sched);
	}
}

/* As soon as the work item has rested. The caller dispatches, which sets the timer. */
static void look_soon(struct distmind_sched *sched, u64 now)
{
	/* The work item of one that has ended may have been waited for. */
	if (sched->error)
		return;
	if (now >= sched->room_rest_ns)
		queue_work(system_highpri_wq, &sched->room_work);
	else
		look_again_at(sched, sched->room_rest_ns);
}

/* There is room for it now: it is to have a lane, and who has a claim keeps it until then. */
static void make_ready(struct distmind_sched *sched, struct distmind_queue *queue, u64 now)
{
	LIST_HEAD(none);

	queue_take_out(sched, queue);
	set_ready(queue, true);
	if (sched->room_claim == queue) {
		sched->room_claim_until = now + POLICY_WINDOW_NS;
		if (sched->room_tenant_count)
			look_again_at(sched, sched->room_claim_until);
	}
	/* Its first job was ready before, so none ends by that. */
	distmind_queue_advance(queue, now, &none);
}

static bool uses_memory(const struct distmind_job *job)
{
	u32 i;

	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i])
			return true;
	}
	return false;
}

/*
 * Whether its first job, which has not been tried, is to wait behind others of its tenant:
 * some of its buffers are missing, or it may be in the way of who has a claim. Not if others
 * wait for it, and it runs as one of theirs.
 */
bool distmind_room_keeps(const struct distmind_sched *sched, const struct distmind_queue *queue)
{
	const struct distmind_queue *claim = sched->room_claim;
	const struct distmind_job *job = first_job(queue);

	if (!first_queue(queue->tenant) || job->room_ns || !uses_memory(job) ||
	    queue->entity.tenant != &queue->tenant->policy[queue->kind])
		return false;
	return !distmind_residency_is_in(queue->tenant->gpu, job) ||
	       (claim && claim != queue && rank_of(queue) <= rank_of(claim));
}

/* More of the tenant are to wait than can be sent there at once: when it is looked again. */
void distmind_room_postpone(struct distmind_sched *sched, u64 now)
{
	sched->room_is_new = true;
	look_soon(sched, now);
}

/*
 * The queue's first job was on a lane and found no room, or is kept from trying: it is on
 * no lane.
 */
void distmind_room_wait(struct distmind_sched *sched, struct distmind_queue *queue, bool tried,
			u64 now)
{
	struct distmind_job *job = first_job(queue);
	struct distmind_tenant *tenant = queue->tenant;

	lockdep_assert_held(&sched->lock);
	if (!first_queue(tenant)) {
		list_add_tail(&tenant->in_room, &sched->room_tenants);
		sched->room_tenant_count++;
	}
	/* Who has waited before does not queue up anew, among its like. */
	put_in(queue, job->room_ns);
	set_ready(queue, false);
	if (!job->room_ns)
		job->room_ns = now;
	distmind_request_enter(job, DISTMIND_REQUEST_PHASE_ROOM, now);
	queue->room.again_ns = tried ? now + DISTMIND_ROOM_PATIENCE_NS : now;
	/* A tenant's first queue is the one that can have a claim. */
	if (first_queue(tenant) == queue)
		give_claim(sched, now);
	/* What was in its way may have gone since it was looked at. */
	look_soon(sched, now);
}

/* Its place is another, or of another rank: it may be the one that can have a claim now. */
void distmind_room_place(struct distmind_sched *sched, struct distmind_queue *queue, u64 now)
{
	lockdep_assert_held(&sched->lock);
	if (!distmind_room_is_waiting(&queue->room) || queue->room.list == list_of(queue))
		return;
	unlink_queue(queue);
	put_in(queue, true);
	look_soon(sched, now);
}

/* Whether the job on the lane, whose buffers are there, leaves enough for who has a claim. */
bool distmind_room_allows(struct distmind_sched *sched, const struct distmind_lane *lane, u64 now)
{
	const struct distmind_queue *claim = valid_claim(sched, now), *queue = lane->job->queue;
	u32 lanes;

	if (!claim || claim == queue || rank_of(queue) > rank_of(claim))
		return true;
	/* Does it fit without this one, and not with it? */
	lanes = making_way(sched, claim, now) | BIT(distmind_lane_index(sched, lane));
	return !distmind_residency_fits(distmind_gpu_of(sched), first_job(claim), lanes) ||
	       distmind_residency_fits(distmind_gpu_of(sched), first_job(claim),
				       lanes & ~BIT(distmind_lane_index(sched, lane)));
}

/* The job on the lane is its engine's. */
void distmind_room_delivered(struct distmind_sched *sched, const struct distmind_lane *lane)
{
	struct distmind_queue *queue = lane->job->queue;

	lane->job->room_ns = 0;
	if (queue->room.ready) {
		/* The next one of the tenant can try. */
		set_ready(queue, false);
		distmind_room_changed(sched);
	}
	if (sched->room_claim != queue)
		return;
	sched->room_claim = NULL;
	/* Its tenant comes after the others next time. */
	if (first_queue(queue->tenant))
		list_move_tail(&queue->tenant->in_room, &sched->room_tenants);
	distmind_room_changed(sched);
}

/* Somebody has stopped to use a buffer, or a claim was served. */
void distmind_room_changed(struct distmind_sched *sched)
{
	lockdep_assert_held(&sched->lock);
	if (sched->error || !sched->room_tenant_count)
		return;
	sched->room_is_new = true;
	look_soon(sched, ktime_get_ns());
}

/* The same, for those who have neither the lock nor anything else to tell the scheduler. */
void distmind_room_freed(struct distmind_sched *sched)
{
	spin_lock(&sched->lock);
	if (sched->room_tenant_count) {
		distmind_room_changed(sched);
		distmind_sched_dispatch(sched, ktime_get_ns());
	}
	spin_unlock(&sched->lock);
}

/* Before lanes are given away: who has a claim does not wait for the work item. */
void distmind_room_advance(struct distmind_sched *sched, u64 now)
{
	struct distmind_queue *claim = sched->room_claim;

	if (sched->room_due_ns && now >= max(sched->room_due_ns, sched->room_rest_ns)) {
		sched->room_due_ns = 0;
		queue_work(system_highpri_wq, &sched->room_work);
	}
	if (!sched->room_is_new)
		return;
	sched->room_is_new = false;
	if (claim && distmind_room_is_waiting(&claim->room) &&
	    distmind_residency_look(distmind_gpu_of(sched), first_job(claim), false,
				    &claim->room) > 0)
		make_ready(sched, claim, now);
}

/* It has waited for long enough for what nobody gives up. */
static void fail(struct distmind_sched *sched, struct distmind_queue *queue, u64 now,
		 struct list_head *ended)
{
	struct distmind_job *job = first_job(queue);

	queue->room.cause.error = -EBUSY;
	queue->room.cause.waited_ns = now - job->room_ns;
	trace_distmind_job_no_room(job, &queue->room.cause);
	distmind_room_leave(sched, queue);
	distmind_lane_count_end(sched, job, -EBUSY, now);
	distmind_job_end(job, -EBUSY, ended);
	distmind_queue_advance(queue, now, ended);
}

/* Returns false if it still waits. */
static bool look_at_queue(struct distmind_sched *sched, struct distmind_queue *queue, u64 now,
			  struct list_head *ended)
{
	const struct distmind_queue *claim = valid_claim(sched, now);
	struct distmind_room *room = &queue->room;
	u64 due;
	int ret;

	ret = distmind_residency_look(distmind_gpu_of(sched), first_job(queue),
				      now >= room->again_ns, room);
	if (ret > 0 && (!claim || claim == queue || rank_of(queue) > rank_of(claim)) &&
	    (claim == queue || queue->tenant->room_ready < sched->lane_count)) {
		make_ready(sched, queue, now);
		return true;
	}
	if (ret >= 0) {
		set_stuck(queue, 0);
		if (now >= room->again_ns)
			room->again_ns = now + DISTMIND_ROOM_PATIENCE_NS;
		due = room->again_ns;
	} else {
		set_stuck(queue, now);
		due = room->stuck_ns + limits[room->cause.cause] * sched->hang_ns;
		if (now >= due) {
			fail(sched, queue, now, ended);
			return true;
		}
	}
	if (!queue->tenant->room_due_ns || due < queue->tenant->room_due_ns)
		queue->tenant->room_due_ns = due;
	return false;
}

/* The buffer that a job wants which cannot have it because of a job on another gpu. */
static struct distmind_buffer *wanted_elsewhere(const struct distmind_queue *queue)
{
	const struct distmind_job *job = first_job(queue);
	u32 i;

	if (queue->room.cause.cause != DISTMIND_ROOM_ELSEWHERE)
		return NULL;
	for (i = 0; i < job->arg_count; i++) {
		if (job->buffers[i] && job->buffers[i]->id == queue->room.cause.buffer)
			return job->buffers[i];
	}
	return NULL;
}

/*
 * Puts buffers that are to be asked for on other gpus, with a reference, into @wanted. The
 * first queue, which can have a claim, is looked at every time, and the others in turns.
 */
static void look_at_tenant(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now,
			   struct list_head *ended, struct distmind_buffer **wanted, u32 *count)
{
	struct distmind_queue *queue = first_queue(tenant);
	struct distmind_queue *next = tenant->room_next;
	u32 looks;

	/* All of them will have been looked at when that is so again. */
	if (!next) {
		tenant->room_due_ns = 0;
		next = first_from(tenant, 0);
	}
	if (next == queue)
		next = next_queue(queue);
	for (looks = 0; queue && looks < QUEUES_AT_ONCE; looks++) {
		struct distmind_buffer *buffer = NULL;

		tenant->room_next = next;
		if (!look_at_queue(sched, queue, now, ended) && *count < ELSEWHERE_MAX)
			buffer = wanted_elsewhere(queue);
		if (buffer) {
			distmind_buffer_get(buffer);
			wanted[(*count)++] = buffer;
		}
		queue = tenant->room_next;
		next = queue ? next_queue(queue) : NULL;
	}
	tenant->room_next = queue;
	/* The rest, as soon as others have had their turn; then the first that is due. */
	if (queue)
		look_again_at(sched, now);
	else if (tenant->room_due_ns && first_queue(tenant))
		look_again_at(sched, tenant->room_due_ns);
}

/* It has looked since then. */
static void set_rest(struct distmind_sched *sched, u64 begun)
{
	u64 now = ktime_get_ns();

	sched->room_rest_ns = now + min_t(u64, ROOM_REST * (now - begun), ROOM_REST_MAX_NS);
}

static void room_due(struct work_struct *work)
{
	struct distmind_sched *sched = container_of(work, struct distmind_sched, room_work);
	struct distmind_buffer *wanted[ELSEWHERE_MAX];
	struct distmind_tenant *tenant;
	u32 left, i, count = 0;
	LIST_HEAD(ended);
	u64 begun;

	spin_lock(&sched->lock);
	begun = ktime_get_ns();
	sched->room_due_ns = 0;
	if (begun < sched->room_rest_ns) {
		/* It was queued while it ran, and is to rest first. */
		if (sched->room_tenant_count)
			look_again_at(sched, sched->room_rest_ns);
		distmind_sched_dispatch(sched, begun);
		spin_unlock(&sched->lock);
		return;
	}
	distmind_sched_unbar(sched, &sched->kept, begun);
	for (left = sched->room_tenant_count; left && sched->room_tenant_count; left--) {
		tenant = list_first_entry(&sched->room_tenants, struct distmind_tenant, in_room);
		list_move_tail(&tenant->in_room, &sched->room_tenants);
		look_at_tenant(sched, tenant, ktime_get_ns(), &ended, wanted, &count);
		spin_unlock(&sched->lock);
		cond_resched();
		spin_lock(&sched->lock);
	}
	if (!sched->error)
		give_claim(sched, ktime_get_ns());
	set_rest(sched, begun);
	distmind_sched_dispatch(sched, ktime_get_ns());
	/* That may have sent others to wait, and barred those that are too many. */
	set_rest(sched, begun);
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	for (i = 0; i < count; i++) {
		distmind_residency_ask_users(wanted[i]);
		distmind_buffer_put_later(wanted[i]);
	}
}

void distmind_room_init(struct distmind_sched *sched)
{
	u32 rank;

	INIT_LIST_HEAD(&sched->room_tenants);
	INIT_WORK(&sched->room_work, room_due);
	/* 0 is the round of a tenant that was never tried. */
	for (rank = 0; rank < POLICY_RANKS; rank++)
		sched->room_rounds[rank] = 1;
}

/* As distmind_sched_quiesce(). */
void distmind_room_quiesce(struct distmind_sched *sched)
{
	cancel_work_sync(&sched->room_work);
}

static void kick_all(struct work_struct *work)
{
	struct distmind_gpu *gpu;
	unsigned long id;

	mutex_lock(&distmind_pool_lock);
	distmind_table_for_each(&distmind_gpus, id, gpu)
		distmind_room_freed(&gpu->sched);
	mutex_unlock(&distmind_pool_lock);
}

static DECLARE_WORK(kick_work, kick_all);

/* A buffer that jobs on another gpu may wait for can go there. Does not sleep. */
void distmind_room_kick_all(void)
{
	queue_work(system_highpri_wq, &kick_work);
}

/* What the queue's first job waits for, or the last one waited for that failed for it. */
void distmind_room_show(struct distmind_queue *queue, struct distmind_queue_room *room)
{
	struct distmind_sched *sched = &queue->tenant->gpu->sched;
	bool all = ns_capable_noaudit(&init_user_ns, CAP_NET_ADMIN);
	u32 handle = room->queue;

	spin_lock(&sched->lock);
	*room = queue->room.cause;
	if (queue->room.foreign && !all) {
		room->buffer = DISTMIND_ROOM_HIDDEN;
		room->vgpu = DISTMIND_ROOM_HIDDEN;
		room->pid = 0;
		memset(room->device, 0, sizeof(room->device));
	}
	if (distmind_room_is_waiting(&queue->room)) {
		room->waited_ns = ktime_get_ns() - first_job(queue)->room_ns;
		room->error = 0;
	} else if (!room->error) {
		memset(room, 0, sizeof(*room));
	}
	spin_unlock(&sched->lock);
	room->queue = handle;
}

void distmind_room_exit(void)
{
	cancel_work_sync(&kick_work);
}
