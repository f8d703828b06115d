// SPDX-License-Identifier: GPL-2.0-or-later
#include "pool.h"

#include "../common/size.h"
#include "noun.h"

struct summary {
	struct print print;
	unsigned int gpus;
	unsigned int lost;
	unsigned int draining;
	unsigned int vgpus;
	unsigned int claims;
	uint64_t memory;
	uint64_t memory_used;
};

static int add_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct summary *summary = arg;

	summary->gpus++;
	if (gpu->state == DISTMIND_GPU_STATE_LOST) {
		summary->lost++;
	} else {
		summary->draining += gpu->state == DISTMIND_GPU_STATE_DRAINING;
		summary->memory += gpu->memory;
		summary->memory_used += gpu->memory_used;
	}
	print_row_open(&summary->print);
	gpu_print(&summary->print, gpu);
	print_row_close(&summary->print);
	return 0;
}

static int add_vgpu(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct summary *summary = arg;

	/* An empty table has no line, so that it needs no line before it either. */
	if (!summary->vgpus++)
		print_list_open(&summary->print, "vgpus", PRINT_TABLE);
	print_row_open(&summary->print);
	vgpu_print(&summary->print, vgpu);
	print_row_close(&summary->print);
	return 0;
}

static int add_claim(const struct distmind_claim_record *claim, void *arg)
{
	struct summary *summary = arg;

	(void)claim;
	summary->claims++;
	return 0;
}

static void print_summary(struct ctl *ctl, const struct summary *summary)
{
	char memory[SIZE_TEXT_LEN], used[SIZE_TEXT_LEN];

	size_format(summary->memory, memory, sizeof(memory));
	size_format(summary->memory_used, used, sizeof(used));
	fprintf(ctl->out, "\n%u gpu%s", summary->gpus, summary->gpus == 1 ? "" : "s");
	if (summary->lost)
		fprintf(ctl->out, ", %u lost", summary->lost);
	if (summary->draining)
		fprintf(ctl->out, ", %u draining", summary->draining);
	fprintf(ctl->out, "; %s of %s used; %u vgpu%s", used, memory, summary->vgpus,
		summary->vgpus == 1 ? "" : "s");
	if (summary->claims)
		fprintf(ctl->out, "; %u claim%s", summary->claims,
			summary->claims == 1 ? " waits" : "s wait");
	fputc('\n', ctl->out);
}

int pool_show(struct ctl *ctl)
{
	struct summary summary = { 0 };
	const char *what = "gpus";
	int ret;

	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ctl_print_open(ctl, &summary.print);
	print_list_open(&summary.print, "gpus", PRINT_TABLE);
	ret = distmind_pool_gpus(ctl->pool, add_gpu, &summary);
	print_list_close(&summary.print);
	if (!ret) {
		what = "vgpus";
		ret = distmind_pool_vgpus(ctl->pool, add_vgpu, &summary);
		if (!summary.vgpus && ctl->json)
			print_list_open(&summary.print, "vgpus", PRINT_TABLE);
		print_list_close(&summary.print);
	}
	if (!ret && !ctl->json) {
		what = "claims";
		ret = distmind_pool_claims(ctl->pool, add_claim, &summary);
	}
	if (ret) {
		print_close(&summary.print);
		return ctl_fail_pool(ctl, ret, "cannot list the %s", what);
	}
	if (!summary.gpus)
		ctl_hint(ctl, GPU_HINT);
	else if (!ctl->json)
		print_summary(ctl, &summary);
	return ctl_print_close(ctl, &summary.print);
}
