// SPDX-License-Identifier: GPL-2.0-only
/*
 * The scheduler of a gpu: lanes and who gets them.
 *
 * There is no scheduling thread. A decision is taken by whoever changes
 * something: who submits, who hands a job back, whose signal makes a job ready,
 * and a work item for what becomes due by itself. All of that is process
 * context, under sched->lock. Who to pick and whom to ask is the policy's to
 * say; see policy/policy.h. The time is always read under the lock, so that it
 * does not go back from one holder to the next: times are subtracted here.
 *
 * A lane is given a job when a thread of the engine waits on it, and belongs to
 * that job until the engine hands it back, see lane.c and exchange.c; by a grant it is lent to the
 * process that submitted it, and the engine's thread waits on, see grant.c. What
 * becomes of a job that does not yield when asked is in ladder.c.
 *
 * A lane whose job hangs is out until its engine, or the process that it was lent to,
 * answers. For as long, the user whose job that is gets no other lane of this gpu, with
 * whichever vgpu: else the next job that hangs would cost the next lane, and everybody the
 * gpu. Of root, who may be anybody's servant, only that vgpu gets none. Tenants are barred one
 * by one as the policy would have them run, unless another user waits for what they do and
 * lends them its place. But two users who do that for each other get no further: who owes two
 * lanes is barred all the same, and the last lane that is left goes to nobody who owes one.
 *
 * The scheduler is part of its gpu, whose removal waits for the work items, without any
 * lock. So these have the gpu to the end, also if the jobs that they end held it last. It does
 * not wait for calls of vendors' hooks: each of them holds the gpu.
 */
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "compat.h"
#include "debt.h"
#include "gpu.h"
#include "grant.h"
#include "inherit.h"
#include "ioctl.h"
#include "job.h"
#include "ladder.h"
#include "lane.h"
#include "queue.h"
#include "room.h"
#include "sched.h"
#include "tenant.h"
#include "vgpu.h"

/* Queues that a pick sends to wait for room, without a try; see room.c. */
#define KEPT_AT_ONCE	8
/* Tenants whose guests are placed anew in a dispatch; the timer sees to the others at once. */
#define SPENT_AT_ONCE	4

static u64 earlier(u64 a, u64 b)
{
	return a && b ? min(a, b) : a + b;
}

static struct distmind_tenant *first_spent(struct distmind_sched *sched)
{
	return list_first_entry_or_null(&sched->spent, struct distmind_tenant, in_spent);
}

/* When it is to be seen whether the tenant is within its share again. */
static u64 spent_until(const struct distmind_tenant *tenant)
{
	return tenant->spent_ns + POLICY_WINDOW_NS;
}

static void arm_timer(struct distmind_sched *sched, u64 now)
{
	u64 due = 0, look = 0;
	u32 i;

	for (i = 0; i < DISTMIND_LANE__COUNT; i++)
		due = earlier(due, policy_next_event(&sched->policy[i], now));
	for (i = 0; i < sched->lane_count; i++) {
		due = earlier(due, distmind_ladder_due(sched, &sched->lanes[i], now));
		look = earlier(look, distmind_ladder_look_at(sched, &sched->lanes[i], now));
	}
	due = earlier(due, distmind_ladder_lost_at(sched));
	if (first_spent(sched))
		due = earlier(due, spent_until(first_spent(sched)));
	if (sched->room_due_ns)
		due = earlier(due, max(sched->room_due_ns, sched->room_rest_ns));
	/* Every job moves that: a timer that is set for earlier is left alone, and sets this. */
	if (look && (due || !hrtimer_is_queued(&sched->timer) ||
		     ktime_to_ns(hrtimer_get_expires(&sched->timer)) > look))
		due = earlier(due, look);
	if (due)
		hrtimer_start(&sched->timer, ns_to_ktime(max(due, now)), HRTIMER_MODE_ABS);
}

static enum hrtimer_restart timer_due(struct hrtimer *timer)
{
	struct distmind_sched *sched = container_of(timer, struct distmind_sched, timer);

	queue_work(system_highpri_wq, &sched->work);
	return HRTIMER_NORESTART;
}

static void work_due(struct work_struct *work);

int distmind_sched_init(struct distmind_sched *sched, u32 compute, u32 copy, u32 capabilities)
{
	u32 i;

	spin_lock_init(&sched->lock);
	sched->capabilities = capabilities;
	sched->grace_ns = DISTMIND_GRACE_NS;
	sched->hang_ns = DISTMIND_HANG_NS;
	INIT_LIST_HEAD(&sched->tenants);
	INIT_LIST_HEAD(&sched->barred);
	INIT_LIST_HEAD(&sched->kept);
	INIT_LIST_HEAD(&sched->spent);
	INIT_WORK(&sched->work, work_due);
	distmind_room_init(sched);
	hrtimer_setup(&sched->timer, timer_due, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	policy_sched_init(&sched->policy[DISTMIND_LANE_COMPUTE], &policy_slo, compute);
	policy_sched_init(&sched->policy[DISTMIND_LANE_COPY], &policy_slo, copy);
	for (i = 0; i < DISTMIND_LANE__COUNT; i++)
		policy_set_patience(&sched->policy[i], sched->grace_ns, 0);
	sched->lane_count = compute + copy;
	sched->lanes_of[DISTMIND_LANE_COMPUTE] = compute;
	sched->lanes_of[DISTMIND_LANE_COPY] = copy;
	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		lane->sched = sched;
		INIT_WORK(&lane->hook, distmind_ladder_call_hook);
		lane->kind = i < compute ? DISTMIND_LANE_COMPUTE : DISTMIND_LANE_COPY;
		lane->away_ns = ktime_get_ns();
		init_waitqueue_head(&lane->wait);
		lane->page = (void *)get_zeroed_page(GFP_KERNEL);
		if (!lane->page) {
			distmind_sched_destroy(sched);
			return -ENOMEM;
		}
	}
	return 0;
}

void distmind_sched_destroy(struct distmind_sched *sched)
{
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		if (sched->lanes[i].page)
			put_page(virt_to_page(sched->lanes[i].page));
	}
	for (i = 0; i < DISTMIND_KEEPERS_MAX; i++) {
		if (sched->keepers[i].account)
			distmind_account_put(sched->keepers[i].account);
	}
	distmind_debt_forget_all(sched);
}

static struct policy_settings policy_settings(const struct distmind_vgpu_settings *settings)
{
	return (struct policy_settings){
		.share = settings->share,
		.class = settings->class,
		.objective_ns = settings->objective_ns,
		.capped = settings->capped,
	};
}

int distmind_sched_add(struct distmind_sched *sched, struct distmind_tenant *tenant,
		       const struct distmind_vgpu_settings *settings)
{
	struct policy_settings policy = policy_settings(settings);
	int kind, err;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	err = sched->error;
	list_add_tail(&tenant->in_sched, &sched->tenants);
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_init(&sched->policy[kind], &tenant->policy[kind], &policy, now);
	distmind_debt_take(sched, tenant, now);
	spin_unlock(&sched->lock);
	return err;
}

void distmind_sched_del(struct distmind_sched *sched, struct distmind_tenant *tenant)
{
	int kind;

	spin_lock(&sched->lock);
	distmind_debt_note(sched, tenant, ktime_get_ns());
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_exit(&sched->policy[kind], &tenant->policy[kind]);
	list_del(&tenant->in_sched);
	list_del(&tenant->in_barred);
	list_del(&tenant->in_spent);
	spin_unlock(&sched->lock);
}

void distmind_sched_change(struct distmind_sched *sched, struct distmind_tenant *tenant,
			   const struct distmind_vgpu_settings *settings)
{
	struct policy_settings policy = policy_settings(settings);
	int kind;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_tenant_change(&sched->policy[kind], &tenant->policy[kind], &policy, now);
	distmind_inherit_place_guests(tenant, now);
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}

/* Have the job that is on some lane yield. */
void distmind_sched_ask(struct distmind_sched *sched, struct distmind_job *job)
{
	u32 i;

	lockdep_assert_held(&sched->lock);
	for (i = 0; i < sched->lane_count; i++) {
		if (sched->lanes[i].job == job)
			distmind_lane_ask(sched, &sched->lanes[i], ktime_get_ns());
	}
}

/* What was picked goes onto the lane. */
static void fill_lane(struct distmind_sched *sched, struct distmind_lane *lane,
		      struct policy_entity *entity, u64 now)
{
	struct distmind_queue *queue = container_of(entity, struct distmind_queue, entity);

	lane->job = list_first_entry(&queue->jobs, struct distmind_job, link);
	queue->running = true;
	if (lane->job->type == DISTMIND_JOB_GRANT) {
		distmind_grant_lend(sched, lane, now);
		return;
	}
	distmind_lane_step(lane, DISTMIND_LANE_OFFER);
	wake_up_interruptible(&lane->wait);
}

static void ask_victims(struct distmind_sched *sched, u32 kind, u64 now)
{
	struct policy_entity *running[DISTMIND_LANES_MAX], *victim;
	struct distmind_lane *of[DISTMIND_LANES_MAX];
	u32 i, count = 0;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (lane->kind == kind && lane->job) {
			struct policy_entity *entity = &lane->job->queue->entity;

			entity->unyielding = !distmind_lane_can_yield(sched, lane);
			of[count] = lane;
			running[count++] = entity;
		}
	}
	while ((victim = policy_victim(&sched->policy[kind], running, count, now))) {
		for (i = 0; i < count; i++) {
			if (running[i] == victim)
				distmind_lane_ask(sched, of[i], now);
		}
	}
}

/*
 * Whether there is something to do for which the engine would have to come to the lane, or
 * for which it could be asked whether it is still there.
 */
static bool is_missed(const struct distmind_sched *sched, const struct distmind_lane *lane)
{
	u32 kind;

	if (lane->state.use == DISTMIND_LANE_IDLE)
		return !lane->state.waiting && policy_is_wanted(&sched->policy[lane->kind]);
	if (!distmind_lane_state_has_job(&lane->state) || lane->state.asked ||
	    lane->state.use == DISTMIND_LANE_LENT || !distmind_lane_can_yield(sched, lane))
		return false;
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++) {
		if (policy_is_wanted(&sched->policy[kind]))
			return true;
	}
	return false;
}

/* Which lanes have not heard of their engine although there is something to do. */
static void note_absence(struct distmind_sched *sched, u64 now)
{
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (!is_missed(sched, lane))
			lane->wanted_ns = 0;
		else if (!lane->wanted_ns)
			lane->wanted_ns = now;
	}
}

/* How many lanes are out because of jobs of its user. */
static u32 lanes_owed(const struct distmind_sched *sched, const struct distmind_queue *queue)
{
	bool root = distmind_account_is_root(queue->account);
	u32 i, owed = 0, vgpu = queue->tenant->vgpu->id;

	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (distmind_lane_state_is_usable(&lane->state))
			continue;
		if (lane->abandoned && lane->abandoned->account == queue->account &&
		    (!root || lane->failed_vgpu == vgpu))
			owed++;
		else if (lane->lent && lane->lent->account == queue->account &&
			 (!root || lane->lent->tenant->vgpu->id == vgpu))
			owed++;
	}
	return owed;
}

/* Of the kind, on which something can run. */
static u32 lanes_left(const struct distmind_sched *sched, u32 kind)
{
	u32 i, left = 0;

	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		left += lane->kind == kind && distmind_lane_state_is_usable(&lane->state);
	}
	return left;
}

static void bar(struct distmind_sched *sched, struct distmind_tenant *tenant, bool barred, u64 now)
{
	int kind;

	/* One that has ended stays so. */
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
		policy_bar(&sched->policy[kind], &tenant->policy[kind], barred || tenant->error,
			   now);
	distmind_inherit_place_guests(tenant, now);
}

/* It has ended: nothing of it is picked any more, also if not all its queues have. */
void distmind_sched_retire(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now)
{
	lockdep_assert_held(&sched->lock);
	list_del_init(&tenant->in_barred);
	bar(sched, tenant, true, now);
}

/* Those in one of the two lists can be picked again, O(n log n); some may be barred anew. */
void distmind_sched_unbar(struct distmind_sched *sched, struct list_head *tenants, u64 now)
{
	struct distmind_tenant *tenant;

	lockdep_assert_held(&sched->lock);
	while ((tenant = list_first_entry_or_null(tenants, struct distmind_tenant, in_barred))) {
		list_del_init(&tenant->in_barred);
		bar(sched, tenant, false, now);
	}
}

/* In whose place it runs: its own tenant, or one that waits for it. */
static struct distmind_tenant *place_of(const struct distmind_queue *queue)
{
	return container_of(queue->entity.tenant - queue->kind, struct distmind_tenant, policy[0]);
}

/* Whether another user, or another vgpu of root's, waits for what it does. */
static bool serves_another(const struct distmind_queue *queue)
{
	const struct distmind_tenant *place = place_of(queue);
	const struct distmind_vgpu *vgpu = place->vgpu;

	if (place == queue->tenant)
		return false;
	if (distmind_account_is_root(queue->account))
		return true;
	/* One that an operator has made counts for nobody. */
	return vgpu->account ? vgpu->account != queue->account :
			       !uid_eq(vgpu->owner.uid, queue->tenant->vgpu->owner.uid);
}

/* Whether its user gets no lane as long as others are out because of it. */
bool distmind_sched_is_out(const struct distmind_sched *sched, const struct distmind_queue *queue)
{
	u32 owed = sched->lanes_out ? lanes_owed(sched, queue) : 0;

	return owed > 1 || (owed && (!serves_another(queue) || lanes_left(sched, queue->kind) < 2));
}

/* It does not run, as if it had not been picked, and waits with all of the tenant. */
static void send_away(struct distmind_sched *sched, struct distmind_queue *queue,
		      struct list_head *tenants, u64 now)
{
	struct policy_sched *policy = &sched->policy[queue->kind];
	struct distmind_tenant *tenant = place_of(queue);

	policy_done(policy, &queue->entity, 0, now);
	/* Who has lent it its place has done nothing. */
	if (serves_another(queue)) {
		tenant = queue->tenant;
		policy_lend(policy, &queue->entity, &tenant->policy[queue->kind],
			    queue->inherit.deadline_ns, now);
	}
	if (list_empty(&tenant->in_barred)) {
		list_add_tail(&tenant->in_barred, tenants);
		bar(sched, tenant, true, now);
	}
	policy_enqueue(policy, &queue->entity, now);
}

/* Whom the policy would have run next on the lane, of those who may. */
static struct policy_entity *pick(struct distmind_sched *sched, u32 kind, u64 now)
{
	struct policy_entity *entity;
	struct distmind_queue *queue;
	u32 kept = 0;

	while ((entity = policy_pick(&sched->policy[kind], now))) {
		queue = container_of(entity, struct distmind_queue, entity);
		if (distmind_sched_is_out(sched, queue)) {
			send_away(sched, queue, &sched->barred, now);
		} else if (!distmind_room_keeps(sched, queue)) {
			return entity;
		} else if (kept++ < KEPT_AT_ONCE) {
			policy_done(&sched->policy[kind], entity, 0, now);
			distmind_room_wait(sched, queue, false, now);
		} else {
			send_away(sched, queue, &sched->kept, now);
			distmind_room_postpone(sched, now);
		}
	}
	return NULL;
}

/* Returns whether one of the lanes that can be given away was. */
static bool give_lanes(struct distmind_sched *sched, u64 now)
{
	struct policy_entity *entity;
	bool given = false;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		if (!distmind_lane_state_is_free(&lane->state))
			continue;
		entity = pick(sched, lane->kind, now);
		if (!entity)
			continue;
		fill_lane(sched, lane, entity, now);
		given = true;
	}
	return given;
}

static bool tenant_is_over(const struct distmind_tenant *tenant)
{
	int kind;

	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++) {
		if (tenant->policy[kind].over)
			return true;
	}
	return false;
}

static void set_spent(struct distmind_sched *sched, struct distmind_tenant *tenant, u64 now)
{
	tenant->spent_ns = now;
	list_move_tail(&tenant->in_spent, &sched->spent);
}

/*
 * Who uses more than its share does so on lanes. Those that have its place are placed anew,
 * and again when it is within its share: no more often than once in POLICY_WINDOW_NS each,
 * since they may be many.
 */
static void note_spent(struct distmind_sched *sched, u64 now)
{
	struct distmind_tenant *tenant;
	u32 i;

	for (i = 0; i < SPENT_AT_ONCE; i++) {
		tenant = first_spent(sched);
		if (!tenant || now < spent_until(tenant))
			break;
		if (tenant_is_over(tenant)) {
			set_spent(sched, tenant, now);
			continue;
		}
		list_del_init(&tenant->in_spent);
		distmind_inherit_place_guests(tenant, now);
	}
	for (i = 0; i < sched->lane_count; i++) {
		if (!sched->lanes[i].job)
			continue;
		tenant = place_of(sched->lanes[i].job->queue);
		if (!list_empty(&tenant->in_spent) || !tenant_is_over(tenant))
			continue;
		set_spent(sched, tenant, now);
		distmind_inherit_place_guests(tenant, now);
	}
}

/*
 * After anything has changed: give lanes away, ask others to yield, and give away what
 * that has set free. Each turn but the first fills a lane, so there are few of them.
 */
void distmind_sched_dispatch(struct distmind_sched *sched, u64 now)
{
	u32 kind;

	lockdep_assert_held(&sched->lock);
	if (sched->error)
		return;
	distmind_room_advance(sched, now);
	note_spent(sched, now);
	give_lanes(sched, now);
	do {
		for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++)
			ask_victims(sched, kind, now);
	} while (give_lanes(sched, now));
	note_absence(sched, now);
	arm_timer(sched, now);
}

/* Lanes that have failed. */
static u32 count_out(const struct distmind_sched *sched)
{
	u32 i, out = 0;

	for (i = 0; i < sched->lane_count; i++)
		out += !distmind_lane_state_is_usable(&sched->lanes[i].state);
	return out;
}

static void work_due(struct work_struct *work)
{
	struct distmind_sched *sched = container_of(work, struct distmind_sched, work);
	bool answers, changed;
	LIST_HEAD(ended);
	u64 now;
	u32 out;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	answers = sched->error || distmind_ladder_check(sched, now, &ended);
	distmind_sched_dispatch(sched, now);
	out = count_out(sched);
	changed = out != sched->told_out;
	sched->told_out = out;
	spin_unlock(&sched->lock);
	distmind_job_end_all(&ended);
	if (!answers)
		distmind_gpu_lose(distmind_gpu_of(sched));
	else if (changed)
		distmind_gpu_tell(distmind_gpu_of(sched));
}

/* Up to now: with what is on the lanes. */
void distmind_sched_get_stats(struct distmind_sched *sched, struct distmind_sched_stats *stats)
{
	u64 now;
	u32 i;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	*stats = sched->stats;
	stats->lanes_out = count_out(sched);
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (distmind_lane_state_has_begun(&lane->state))
			stats->busy_ns[lane->kind] += now - lane->started_ns;
	}
	spin_unlock(&sched->lock);
}

/*
 * What the jobs of a tenant have used of lanes: those that are on one now, and those of its
 * vgpu that were. A job that stops goes from the one to the other under the lock.
 */
u64 distmind_sched_busy_ns(struct distmind_sched *sched, const struct distmind_tenant *tenant)
{
	u64 now, sum;
	u32 i;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	sum = atomic64_read(&tenant->vgpu->stats.busy_ns);
	for (i = 0; i < sched->lane_count; i++) {
		const struct distmind_lane *lane = &sched->lanes[i];

		if (distmind_lane_state_has_begun(&lane->state) &&
		    lane->job->queue->tenant == tenant)
			sum += now - lane->started_ns;
	}
	spin_unlock(&sched->lock);
	return sum;
}

/* Another policy, or other limits; what is NULL or 0 stays. */
void distmind_sched_configure(struct distmind_sched *sched, const struct policy *policy,
			      u64 grace_ns, u64 hang_ns)
{
	int kind;
	u64 now;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (grace_ns)
		sched->grace_ns = grace_ns;
	if (hang_ns)
		sched->hang_ns = hang_ns;
	for (kind = 0; kind < DISTMIND_LANE__COUNT; kind++) {
		policy_set_patience(&sched->policy[kind], sched->grace_ns, now);
		if (policy)
			policy_switch(&sched->policy[kind], policy, now);
	}
	distmind_sched_dispatch(sched, now);
	spin_unlock(&sched->lock);
}

/*
 * After its end, when the engine reaches the heap no more, by who has a reference to the
 * gpu and no lock: what the engine had on its lanes goes.
 */
void distmind_sched_reclaim(struct distmind_sched *sched)
{
	struct distmind_job *job;
	u32 i;

	for (i = 0; i < sched->lane_count; i++) {
		spin_lock(&sched->lock);
		job = distmind_lane_reclaim(sched, &sched->lanes[i]);
		spin_unlock(&sched->lock);
		if (job)
			distmind_job_put(job);
	}
}

/*
 * After its end, by who has a reference to the gpu and no lock: nothing becomes due by
 * itself any more.
 */
void distmind_sched_quiesce(struct distmind_sched *sched)
{
	hrtimer_cancel(&sched->timer);
	cancel_work_sync(&sched->work);
	distmind_ladder_quiesce(sched);
	distmind_room_quiesce(sched);
}

/* What is on the lane ends; a thread that admits a job does that by itself. */
static void end_lane(struct distmind_sched *sched, struct distmind_lane *lane, int error,
		     u64 now, struct list_head *ended)
{
	struct distmind_job *job = NULL;

	switch (lane->state.use) {
	case DISTMIND_LANE_OFFERED:
		job = distmind_lane_stop(sched, lane, DISTMIND_LANE_WITHDRAW, error, 0, now);
		distmind_room_leave(sched, job->queue);
		break;
	case DISTMIND_LANE_RUNNING:
		job = distmind_lane_stop(sched, lane, DISTMIND_LANE_TAKE_AWAY, error, 0, now);
		distmind_lane_reset(lane, job);
		break;
	case DISTMIND_LANE_LENT:
	case DISTMIND_LANE_OVERDUE:
	case DISTMIND_LANE_KILLED:
		job = distmind_grant_forsake(sched, lane, error, now);
		break;
	}
	if (job)
		distmind_job_end(job, error, ended);
}

/*
 * The gpu is lost or removed: nothing runs any more, and everybody is told, now or soon.
 * Under the pool's lock. A tenant that goes meanwhile leaves whichever of the two lists it is in.
 */
void distmind_sched_end(struct distmind_sched *sched, int error, struct list_head *ended)
{
	struct distmind_tenant *tenant;
	LIST_HEAD(left);
	u64 now;
	u32 i;

	spin_lock(&sched->lock);
	now = ktime_get_ns();
	if (!sched->error)
		sched->error = error;
	for (i = 0; i < sched->lane_count; i++) {
		struct distmind_lane *lane = &sched->lanes[i];

		end_lane(sched, lane, error, now, ended);
		wake_up_interruptible(&lane->wait);
	}
	list_splice_init(&sched->tenants, &left);
	while ((tenant = list_first_entry_or_null(&left, struct distmind_tenant, in_sched))) {
		list_move_tail(&tenant->in_sched, &sched->tenants);
		if (!kref_get_unless_zero(&tenant->ref))
			continue;
		spin_unlock(&sched->lock);
		distmind_tenant_end(tenant, error, ended);
		distmind_tenant_put(tenant);
		spin_lock(&sched->lock);
	}
	spin_unlock(&sched->lock);
}
