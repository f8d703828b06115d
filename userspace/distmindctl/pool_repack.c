// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * "distmindctl pool repack": placement's plan, carried out move by move. The kernel keeps no
 * account of promises, so before each move the pool is looked at again: distmindd may have
 * given the room to somebody else.
 */
#include <string.h>

#include "../common/size.h"
#include "../placement/plan.h"
#include "../placement/score.h"
#include "noun.h"
#include "options.h"
#include "parse.h"
#include "pool_view.h"

/* A move, by the kernel's ids. */
struct move {
	struct distmind_vgpu_record vgpu;
	uint32_t to;
};

static int take_gpus(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	if (number_parse(value, 1, UINT32_MAX, option->to))
		return ctl_usage(ctl, "--free %s is not a number of gpus", value);
	return CTL_OK;
}

/* The moves that free that many gpus: a plan frees one after the other. */
static uint32_t cut(const struct placement_plan *plan, uint32_t wanted)
{
	uint32_t freed = 0;

	for (uint32_t i = 0; i < plan->count; i++) {
		freed += !i || plan->moves[i].from[0] != plan->moves[i - 1].from[0];
		if (freed > wanted)
			return i;
	}
	return plan->count;
}

static uint32_t number_of(const struct pool_view *view, uint32_t id)
{
	uint32_t i = 0;

	while (i < view->gpu_count && view->gpus[i].id != id)
		i++;
	return i;
}

/* Is the vgpu still where it was, and is there still room for it where it goes? */
static int still_good(struct ctl *ctl, const struct move *move)
{
	const struct placement_gpu *to;
	struct placement_hole hole;
	struct pool_view now;
	uint32_t number, grant;
	int ret = pool_view_open(ctl, &now);

	if (ret)
		goto out;
	number = number_of(&now, move->to);
	grant = pool_view_grant(&now, move->vgpu.id);
	if (grant == PLACEMENT_NONE || number == now.gpu_count ||
	    pool_view_holder(&now, grant)->gpu != move->vgpu.gpu) {
		ret = ctl_fail(ctl, "the pool has changed: vgpu %u or gpu %u is no longer what it "
				    "was; run it again",
			       move->vgpu.id, move->to);
		goto out;
	}
	to = &now.pool->gpus.rows[number];
	hole = (struct placement_hole){
		.share = placement_gpu_share_left(to),
		.kind = to->kind,
		.memory = placement_gpu_memory_left(to),
		.memory_one = to->memory_one,
	};
	if (!placement_fits_hole(now.pool, &hole, &now.pool->grants.rows[grant].claim.need))
		ret = ctl_fail(ctl, "the pool has changed: gpu %u has no room for vgpu %u any "
				    "more; run it again",
			       move->to, move->vgpu.id);
out:
	pool_view_close(&now);
	return ret;
}

static int carry_out(struct ctl *ctl, const struct move *move)
{
	struct distmind_vgpu_record vgpu = move->vgpu;
	int ret = still_good(ctl, move);

	if (ret)
		return ret;
	vgpu.gpu = move->to;
	ret = distmind_pool_vgpu_set(ctl->pool, &vgpu, DISTMIND_SET_GPU);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot move vgpu %u to gpu %u", vgpu.id, vgpu.gpu);
	return CTL_OK;
}

static void report(struct ctl *ctl, struct print *print, const struct move *move, const char *why)
{
	char memory[SIZE_TEXT_LEN], share[16];

	if (!ctl->json) {
		size_format(move->vgpu.memory, memory, sizeof(memory));
		share_format(move->vgpu.share, share, sizeof(share));
		fprintf(ctl->out, "%s vgpu %u%s%s%s (%s, %s) from gpu %u to gpu %u: %s\n",
			ctl->dry_run ? "would move" : "moved", move->vgpu.id,
			*move->vgpu.name ? " \"" : "", move->vgpu.name,
			*move->vgpu.name ? "\"" : "", memory, share, move->vgpu.gpu, move->to,
			why);
		fflush(ctl->out);
		return;
	}
	print_row_open(print);
	print_number(print, "vgpu", "VGPU", move->vgpu.id);
	print_text(print, "name", "NAME", move->vgpu.name);
	print_number(print, "from", "FROM", move->vgpu.gpu);
	print_number(print, "to", "TO", move->to);
	print_size(print, "memory", "MEMORY", move->vgpu.memory);
	print_share(print, "share", "SHARE", move->vgpu.share);
	print_text(print, "why", "WHY", why);
	print_bool(print, "done", "DONE", !ctl->dry_run);
	print_row_close(print);
}

static int carry_out_all(struct ctl *ctl, const struct pool_view *view,
			 const struct placement_plan *plan, uint32_t count)
{
	struct print print;
	uint32_t freed = 0, i;
	int ret = CTL_OK, written;

	ctl_print_open(ctl, &print);
	if (ctl->json)
		print_list_open(&print, "moves", PRINT_TABLE);
	for (i = 0; i < count; i++) {
		const struct placement_move *planned = &plan->moves[i];
		struct move move = {
			.vgpu = *pool_view_holder(view, planned->grant),
			.to = view->gpus[planned->to[0]].id,
		};

		ret = ctl->dry_run ? CTL_OK : carry_out(ctl, &move);
		if (ret)
			break;
		report(ctl, &print, &move, planned->why);
		freed += i + 1 == count || planned[1].from[0] != planned->from[0];
	}
	if (ctl->json)
		print_list_close(&print);
	else
		fprintf(ctl->out, "%u move%s %s %u gpu%s\n", i, i == 1 ? "" : "s",
			ctl->dry_run ? "would free" : "freed", freed, freed == 1 ? "" : "s");
	written = ctl_print_close(ctl, &print);
	return ret ? ret : written;
}

int pool_repack_command(struct ctl *ctl, int argc, char **argv)
{
	struct placement_plan plan = PLACEMENT_PLAN_EMPTY;
	uint32_t wanted = 0, count;
	const struct ctl_option known[] = {
		{ "free", take_gpus, .to = &wanted },
		{ 0 },
	};
	struct pool_view view;
	int ret;

	if (ctl_options(ctl, argc, &argv, known, 0) < 0)
		return ctl->status;
	ret = pool_view_open(ctl, &view);
	if (ret)
		goto out;
	ret = placement_repack(&view.placement, UINT32_MAX, &plan);
	if (ret) {
		ret = ctl_fail(ctl, "cannot plan: %s; free memory and try again", strerror(-ret));
		goto out;
	}
	count = wanted ? cut(&plan, wanted) : plan.count;
	if (wanted > plan.freed)
		ret = ctl_fail(ctl, "cannot free %u gpu%s by moving vgpus: %u at most; see what is "
				    "where: distmindctl pool show",
			       wanted, wanted == 1 ? "" : "s", plan.freed);
	else
		ret = carry_out_all(ctl, &view, &plan, count);
out:
	placement_plan_free(&plan);
	pool_view_close(&view);
	return ret;
}
