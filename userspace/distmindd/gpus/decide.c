// SPDX-License-Identifier: GPL-2.0-or-later
#include "decide.h"

#include "../../placement/records.h"
#include "../common/log.h"
#include "../common/turns.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Changes in one turn of the event loop: signals and the watchdog wait so long. */
#define TURN_CHANGES 256
/* How often a decision is taken anew because the pool changed under it. */
#define DECISION_TRIES 4
/* How long a gpu that cannot be removed is left in peace. */
#define REMOVE_RETRY_US 10000000

/* One call of decide(). */
struct turn {
	struct inventory *inventory;
	const struct config *config;
	unsigned int changes;
};

/* The rest is for the next turn. */
static bool over(const struct turn *turn)
{
	return turn->changes >= TURN_CHANGES || (turn->changes && turns_over());
}

/* Take in what came of a change. */
static int update(struct turn *turn)
{
	turn->changes++;
	view_forget(&turn->inventory->view);
	return inventory_update(turn->inventory);
}

static int place(struct turn *turn, const struct placement_claim *claim, const char *kind,
		 bool observe, struct placement_answer *answer)
{
	return view_place(&turn->inventory->view, turn->inventory, turn->config, claim, kind, observe,
			  answer);
}

/*
 * Claims
 */

static struct inventory_claim *first_waiting(const struct inventory *inventory)
{
	struct inventory_claim *claim;

	table_each(&inventory->claims, claim)
		if (!claim->answered)
			return claim;
	return NULL;
}

static void describe_claim(const struct distmind_claim_record *record,
			     struct placement_claim *claim)
{
	*claim = (struct placement_claim){
		.need = {
			.gpu_memory = record->memory,
			.objective_ns = record->objective_ns,
			.share = record->share,
			.count = record->count,
			.same_box = record->flags & DISTMIND_CLAIM_FLAGS_SAME_BOX,
		},
	};
}

static void log_grant(const struct distmind_claim_record *record,
		      const struct placement_answer *answer)
{
	char gpus[DISTMIND_ACQUIRE_MAX * 11 + 1];
	size_t len = 0;

	for (uint32_t i = 0; i < record->count; i++)
		len += (size_t)snprintf(gpus + len, sizeof(gpus) - len, "%s%u", i ? "," : "",
					answer->gpus[i]);
	log_info("claim-granted", LOG_U("claim", record->id), LOG_S("name", record->name),
		 LOG_U("pid", record->pid), LOG_U("uid", record->uid),
		 LOG_U("memory", record->memory), LOG_U("share", record->share),
		 LOG_U("count", record->count), LOG_S("gpus", gpus));
}

static void refuse(struct inventory *inventory, const struct distmind_claim_record *record, int error,
		   const char *reason)
{
	int err = distmind_pool_claim_refuse(inventory->kernel, record->id, error, reason);

	if (err && err != -ENOENT) {
		log_error("claim-not-answered", LOG_U("claim", record->id),
			  LOG_S("reason", distmind_pool_error(inventory->kernel)));
		return;
	}
	if (!err)
		log_info("claim-refused", LOG_U("claim", record->id),
			 LOG_S("name", record->name), LOG_U("pid", record->pid),
			 LOG_U("uid", record->uid), LOG_U("memory", record->memory),
			 LOG_U("share", record->share), LOG_U("count", record->count),
			 LOG_S("reason", reason));
}

/* Marks the claim, so that it is not decided again before its end is reported. */
static void mark_answered(struct inventory *inventory, uint32_t id)
{
	struct inventory_claim *claim = table_find(&inventory->claims, id);

	if (claim)
		claim->answered = true;
}

/*
 * Answers one claim and takes in what came of it. A grant that fails is
 * decided again with what the events say: the gpu went, or the claim did.
 */
static int answer(struct turn *turn, const struct distmind_claim_record *record)
{
	char reason[DISTMIND_REASON_LEN] = "";
	struct inventory *inventory = turn->inventory;
	struct placement_claim claim;
	struct placement_answer placed;
	int err, ret;

	describe_claim(record, &claim);
	for (int tries = 0; tries < DECISION_TRIES; tries++) {
		err = place(turn, &claim, record->kind, !tries, &placed);
		if (err) {
			refuse(inventory, record, -err, placed.reason);
			mark_answered(inventory, record->id);
			return update(turn);
		}
		err = distmind_pool_claim_grant(inventory->kernel, record->id, placed.gpus,
						  record->count);
		if (!err) {
			log_grant(record, &placed);
			mark_answered(inventory, record->id);
			return update(turn);
		}
		snprintf(reason, sizeof(reason), "gpu %u was chosen, but the kernel says: %s",
			 placed.gpus[0], distmind_pool_error(inventory->kernel));
		ret = update(turn);
		if (ret)
			return ret;
		if (!table_find(&inventory->claims, record->id))
			return 0;
	}
	/* ENOENT is about the gpu here, and would tell the tenant something else. */
	refuse(inventory, record, err == -ENOENT ? EAGAIN : -err, reason);
	mark_answered(inventory, record->id);
	return update(turn);
}

/*
 * vgpus without a gpu
 */

static struct inventory_vgpu *next_unbound(const struct inventory *inventory, uint64_t from)
{
	struct inventory_vgpu *vgpu;

	table_each(&inventory->vgpus, vgpu)
		if (vgpu->record.id >= from && !vgpu->stuck && !vgpu->parked_on_purpose &&
		    !placement_records_is_weights(&vgpu->record) &&
		    !inventory_vgpu_bound(inventory, vgpu))
			return vgpu;
	return NULL;
}

static bool is_ready(const struct inventory *inventory, uint32_t id)
{
	const struct inventory_gpu *gpu = table_find(&inventory->gpus, id);

	return gpu && gpu->record.state == DISTMIND_GPU_STATE_READY;
}

/*
 * Binds a vgpu and takes in what came of it. If the kernel will not, it is not tried again
 * until something changes; but for a gpu that went meanwhile, for then another may do.
 */
static int bind_to(struct turn *turn, struct inventory_vgpu *vgpu, uint32_t gpu)
{
	struct distmind_vgpu_record record = vgpu->record;
	struct inventory *inventory = turn->inventory;
	struct inventory_vgpu *after;
	int err, ret;

	record.gpu = gpu;
	err = distmind_pool_vgpu_set(inventory->kernel, &record, DISTMIND_SET_GPU);
	if (!err) {
		log_info("vgpu-bound", LOG_U("vgpu", record.id), LOG_S("name", record.name),
			 LOG_U("gpu", gpu));
		/* Should its event get lost, it is at least not bound twice. */
		vgpu->record.gpu = gpu;
		return update(turn);
	}
	log_warning("vgpu-not-bound", LOG_U("vgpu", record.id), LOG_U("gpu", gpu),
		    LOG_S("reason", distmind_pool_error(inventory->kernel)));
	ret = update(turn);
	after = table_find(&inventory->vgpus, record.id);
	if (after)
		after->stuck = is_ready(inventory, gpu);
	return ret;
}

static int bind(struct turn *turn, struct inventory_vgpu *vgpu)
{
	struct distmind_vgpu_record record = vgpu->record;
	struct placement_claim claim = {
		.need = {
			.gpu_memory = record.memory,
			.objective_ns = record.objective_ns,
			.share = record.share,
			.count = 1,
		},
	};
	struct placement_answer placed;
	int err;

	err = place(turn, &claim, vgpu->kind, false, &placed);
	if (err) {
		if (!vgpu->waits)
			log_warning("vgpu-waits", LOG_U("vgpu", record.id),
				    LOG_S("name", record.name), LOG_S("reason", placed.reason));
		vgpu->waits = true;
		return 0;
	}
	return bind_to(turn, vgpu, placed.gpus[0]);
}

static bool any_lost(const struct inventory *inventory)
{
	struct inventory_vgpu *vgpu;

	table_each(&inventory->vgpus, vgpu)
		if (!vgpu->stuck && vgpu->record.gpu != DISTMIND_GPU_NONE &&
		    !placement_records_is_weights(&vgpu->record) &&
		    !inventory_vgpu_bound(inventory, vgpu))
			return true;
	return false;
}

/* As it is done: a plan that takes longer than a turn is made again, with what is left of it. */
static void log_move(const struct view_move *move)
{
	char text[DISTMIND_REASON_LEN + 96];

	snprintf(text, sizeof(text), "vgpu %u goes from gpu %u, which is lost, to gpu %u: %s",
		 move->vgpu, move->from, move->to, move->why);
	log_info("recovery-move", LOG_S("plan", text));
}

/*
 * All vgpus of lost gpus, by one plan, move by move. What the plan has no place for, and what
 * changes under it, is left to bind(). Returns as take_turn().
 */
static int recover(struct turn *turn)
{
	struct view_recovery recovery;
	struct inventory *inventory = turn->inventory;
	struct inventory_vgpu *vgpu;
	int ret;

	if (!any_lost(inventory))
		return 0;
	ret = view_recover(&inventory->view, inventory, turn->config, &recovery);
	if (ret) {
		/* It goes on one by one, which needs less. */
		log_error("recovery-not-planned", LOG_S("reason", "out of memory"));
		return 0;
	}
	if (recovery.count)
		log_warning("recovery-planned", LOG_U("vgpus", recovery.count + recovery.waiting),
			    LOG_U("moves", recovery.count), LOG_U("waiting", recovery.waiting));
	for (uint32_t i = 0; i < recovery.count && !ret; i++) {
		const struct view_move *move = &recovery.moves[i];

		if (over(turn)) {
			ret = 1;
			break;
		}
		vgpu = table_find(&inventory->vgpus, move->vgpu);
		if (!vgpu || vgpu->record.gpu != move->from ||
		    inventory_vgpu_bound(inventory, vgpu) || !is_ready(inventory, move->to))
			continue;
		log_move(move);
		ret = bind_to(turn, vgpu, move->to);
	}
	free(recovery.moves);
	return ret;
}

static int take_turn(struct turn *turn)
{
	struct distmind_claim_record record;
	struct inventory_claim *claim;
	struct inventory_vgpu *vgpu;
	uint64_t from = 0;
	int err;

	/* Those who were promised something come before those who ask. */
	err = recover(turn);
	if (err)
		return err;
	while ((vgpu = next_unbound(turn->inventory, from))) {
		if (over(turn))
			return 1;
		from = (uint64_t)vgpu->record.id + 1;
		err = bind(turn, vgpu);
		if (err)
			return err;
	}
	while ((claim = first_waiting(turn->inventory))) {
		if (over(turn))
			return 1;
		record = claim->record;
		err = answer(turn, &record);
		if (err)
			return err;
	}
	return 0;
}

int decide(struct inventory *inventory, const struct config *config)
{
	struct turn turn = { .inventory = inventory, .config = config };

	if (inventory->stale)
		return -EAGAIN;
	/* What has come since, and the configuration may be another. */
	view_forget(&inventory->view);
	return take_turn(&turn);
}

/*
 * Lost gpus
 */

uint64_t decide_expiry(struct inventory *inventory, const struct config *config)
{
	uint64_t now = inventory->clock_us(), next = UINT64_MAX, due;
	struct inventory_gpu *gpu;
	int err;

	if (config->lost_gpu_keep_us == CONFIG_FOREVER)
		return UINT64_MAX;
	table_each(&inventory->gpus, gpu) {
		if (!gpu->lost_since_us)
			continue;
		due = gpu->lost_since_us + config->lost_gpu_keep_us;
		if (due <= now) {
			err = distmind_pool_gpu_remove(inventory->kernel, gpu->record.id);
			/* Its end is taken from the event, like everybody's. */
			due = now + REMOVE_RETRY_US;
			gpu->lost_since_us = due - config->lost_gpu_keep_us;
			if (err && err != -ENOENT)
				log_warning("gpu-not-removed", LOG_U("gpu", gpu->record.id),
					    LOG_S("reason", distmind_pool_error(inventory->kernel)));
		}
		if (due < next)
			next = due;
	}
	return next;
}
