// SPDX-License-Identifier: GPL-2.0-or-later
/* "distmindctl pool show": gpus, boxes and all of it, as far as it is promised. */
#include "../common/size.h"
#include "noun.h"
#include "options.h"
#include "parse.h"
#include "pool_view.h"
#include "status.h"

/* Sums over gpus; what is left is of those that are ready. */
struct totals {
	uint32_t gpus, ready, whole;
	uint32_t share, share_left;
	uint32_t pieces; /* of what is left: on gpus with less than a whole gpu left */
	uint64_t memory, memory_left;
};

static void add(struct totals *totals, const struct placement_gpu *gpu)
{
	uint32_t left = placement_gpu_share_left(gpu);

	totals->gpus++;
	totals->share += gpu->share_used;
	totals->memory += gpu->memory_used;
	if (gpu->state != PLACEMENT_READY)
		return;
	totals->ready++;
	totals->share_left += left;
	totals->memory_left += placement_gpu_memory_left(gpu);
	if (left < PLACEMENT_WHOLE)
		totals->pieces += left;
	else
		totals->whole++;
}

static uint32_t fragmentation(const struct totals *totals)
{
	if (!totals->share_left)
		return 0;
	return (uint32_t)((uint64_t)totals->pieces * PLACEMENT_WHOLE / totals->share_left);
}

static void print_gpu(struct print *print, const struct distmind_gpu_record *record,
		      const struct placement_gpu *gpu)
{
	print_number(print, "box", "BOX", record->box);
	print_number(print, "id", "GPU", record->id);
	print_text(print, "name", "NAME", record->name);
	print_text(print, "kind", "KIND", record->kind);
	if (gpu->state == PLACEMENT_SPARE)
		print_state(print, "state", "STATE", "spare", PRINT_COLOUR_GOOD);
	else
		print_state(print, "state", "STATE", distmind_gpu_state_name(record->state),
			    gpu_colour(record->state));
	print_number(print, "vgpus", "VGPUS", record->vgpus);
	print_share(print, "share", "SHARE", gpu->share_used);
	if (gpu->state == PLACEMENT_READY)
		print_share(print, "share_left", "LEFT", placement_gpu_share_left(gpu));
	else
		print_none(print, "share_left", "LEFT");
	print_size(print, "memory", "MEMORY", gpu->memory_used);
	if (gpu->state == PLACEMENT_READY)
		print_size(print, "memory_left", "LEFT", placement_gpu_memory_left(gpu));
	else
		print_none(print, "memory_left", "LEFT");
}

static void print_totals(struct print *print, const struct totals *totals)
{
	print_number(print, "gpus", "GPUS", totals->gpus);
	print_number(print, "ready", "READY", totals->ready);
	print_number(print, "whole", "WHOLE", totals->whole);
	print_share(print, "share", "SHARE", totals->share);
	print_share(print, "share_left", "LEFT", totals->share_left);
	print_size(print, "memory", "MEMORY", totals->memory);
	print_size(print, "memory_left", "LEFT", totals->memory_left);
	print_share(print, "fragmentation", "IN PIECES", fragmentation(totals));
}

static void print_sentence(struct ctl *ctl, const struct totals *totals, uint32_t boxes)
{
	char share[16], left[16], pieces[16], memory[SIZE_TEXT_LEN], memory_left[SIZE_TEXT_LEN];

	share_format(totals->share, share, sizeof(share));
	share_format(totals->share_left, left, sizeof(left));
	share_format(fragmentation(totals), pieces, sizeof(pieces));
	size_format(totals->memory, memory, sizeof(memory));
	size_format(totals->memory_left, memory_left, sizeof(memory_left));
	fprintf(ctl->out,
		"\n%u gpu%s in %u box%s, %u ready; promised: %s of a gpu, %s; left: %s, %s; "
		"%u whole gpu%s free, %s of what is left is in pieces\n",
		totals->gpus, totals->gpus == 1 ? "" : "s", boxes, boxes == 1 ? "" : "es",
		totals->ready, share, memory, left, memory_left, totals->whole,
		totals->whole == 1 ? "" : "s", pieces);
}

/* Gpus stand by their boxes. */
static struct totals print_gpus(struct print *print, const struct pool_view *view)
{
	struct totals all = { 0 };

	print_list_open(print, "gpus", PRINT_TABLE);
	for (uint32_t box = 0; box < view->pool->boxes.count; box++)
		placement_each_gpu(view->pool, box, gpu) {
			print_row_open(print);
			print_gpu(print, &view->gpus[gpu], &view->pool->gpus.rows[gpu]);
			print_row_close(print);
			add(&all, &view->pool->gpus.rows[gpu]);
		}
	print_list_close(print);
	return all;
}

static void print_boxes(struct print *print, const struct pool_view *view)
{
	print_list_open(print, "boxes", PRINT_TABLE);
	for (uint32_t box = 0; box < view->pool->boxes.count; box++) {
		struct totals totals = { 0 };

		placement_each_gpu(view->pool, box, gpu)
			add(&totals, &view->pool->gpus.rows[gpu]);
		print_row_open(print);
		print_number(print, "id", "BOX", view->pool->boxes.rows[box].id);
		print_totals(print, &totals);
		print_row_close(print);
	}
	print_list_close(print);
}

int pool_show_command(struct ctl *ctl, int argc, char **argv)
{
	struct pool_view view;
	struct totals all;
	struct print print;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	ret = pool_view_open(ctl, &view);
	if (ret)
		goto out;
	ctl_print_open(ctl, &print);
	all = print_gpus(&print, &view);
	if (!all.gpus)
		ctl_hint(ctl, GPU_HINT);
	if (all.gpus || ctl->json)
		print_boxes(&print, &view);
	if (all.gpus && !ctl->json)
		print_sentence(ctl, &all, view.pool->boxes.count);
	if (ctl->json) {
		print_list_open(&print, "pool", PRINT_RECORD);
		print_row_open(&print);
		print_totals(&print, &all);
		print_row_close(&print);
		print_list_close(&print);
	}
	ret = ctl_print_close(ctl, &print);
	status_ask_and_warn(ctl);
out:
	pool_view_close(&view);
	return ret;
}
