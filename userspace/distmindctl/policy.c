// SPDX-License-Identifier: GPL-2.0-or-later
/* Who runs next on the gpus: of each of them, or set for one or for all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "noun.h"
#include "options.h"

struct options {
	const char *policy; /* NULL: show */
	const char *gpu;
	bool all;
};

/* The gpus to set. */
struct choice {
	struct distmind_gpu_record *gpus;
	size_t count;
};

static bool is_policy(const char *word)
{
	static const char *const policies[] = { "fifo", "fair", "slo", "srpt" };
	size_t i;

	for (i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		if (!strcmp(word, policies[i]))
			return true;
	}
	return false;
}

static int print_row(const struct distmind_gpu_record *gpu, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	print_number(print, "id", "ID", gpu->id);
	print_text(print, "name", "NAME", gpu->name);
	print_state(print, "state", "STATE", distmind_gpu_state_name(gpu->state),
		    gpu_colour(gpu->state));
	print_text(print, "policy", "POLICY", gpu->policy);
	print_row_close(print);
	return 0;
}

static int show(struct ctl *ctl)
{
	struct print print;
	int ret;

	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "gpus", PRINT_TABLE);
	ret = distmind_pool_gpus(ctl->pool, print_row, &print);
	if (!print_list_close(&print) && !ret)
		ctl_hint(ctl, GPU_HINT);
	if (ret) {
		print_close(&print);
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	}
	return ctl_print_close(ctl, &print);
}

static int choose_ready(const struct distmind_gpu_record *gpu, void *arg)
{
	struct choice *choice = arg;
	struct distmind_gpu_record *grown;

	/* Nothing runs there any more. */
	if (gpu->state == DISTMIND_GPU_STATE_LOST)
		return 0;
	grown = reallocarray(choice->gpus, choice->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	choice->gpus = grown;
	grown[choice->count++] = *gpu;
	return 0;
}

/* Without a word about it, the only one that there is. */
static int choose(struct ctl *ctl, const struct options *options, struct choice *choice)
{
	struct distmind_gpu_record gpu;
	int ret;

	if (options->gpu) {
		ret = gpu_find(ctl, options->gpu, &gpu);
		if (!ret)
			ret = gpu_may_set(ctl, &gpu, "set the policy of");
		if (!ret && choose_ready(&gpu, choice))
			ret = ctl_fail(ctl, "cannot set the policy: out of memory; try again");
		return ret;
	}
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ret = distmind_pool_gpus(ctl->pool, choose_ready, choice);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	if (!choice->count)
		return ctl_fail(ctl, GPU_HINT);
	if (choice->count > 1 && !options->all)
		return ctl_usage(ctl, "there are %zu gpus; say which with --gpu GPU, or --all",
				 choice->count);
	return ctl_need_admin(ctl, "cannot set the policy");
}

static int would(struct ctl *ctl, const char *policy, const struct choice *choice)
{
	const struct distmind_gpu_record *gpu = choice->gpus;
	size_t i, count = 0;

	for (i = 0; i < choice->count; i++)
		count += strcmp(choice->gpus[i].policy, policy) != 0;
	if (choice->count > 1)
		return ctl_would(ctl, "policy", "gpu", -1,
				 "change the policy of %zu of %zu gpus to %s", count,
				 choice->count, policy);
	if (!count)
		return ctl_would(ctl, "policy", "gpu", gpu->id,
				 "change nothing: the policy of gpu %u (%s) is %s already", gpu->id,
				 gpu->name, policy);
	return ctl_would(ctl, "policy", "gpu", gpu->id,
			 "change the policy of gpu %u (%s) from %s to %s", gpu->id, gpu->name,
			 gpu->policy, policy);
}

static int set(struct ctl *ctl, const char *policy, const struct choice *choice)
{
	size_t i;
	int ret;

	for (i = 0; i < choice->count; i++) {
		const struct distmind_gpu_record *gpu = &choice->gpus[i];

		ret = distmind_pool_gpu_policy(ctl->pool, gpu->id, policy);
		if (ret)
			return ctl_fail_pool(ctl, ret, "cannot set the policy of gpu %u (%s)",
					     gpu->id, gpu->name);
	}
	return CTL_OK;
}

/* Do the options go together? An exit code. */
static int check(struct ctl *ctl, const struct options *options)
{
	if (options->policy && !is_policy(options->policy))
		return ctl_usage(ctl, "%s is not one of fifo, fair, slo, srpt", options->policy);
	if (options->gpu && options->all)
		return ctl_usage(ctl, "--gpu and --all exclude each other");
	if (!options->policy && (options->gpu || options->all))
		return ctl_usage(ctl, "which policy? one of fifo, fair, slo, srpt");
	return CTL_OK;
}

int policy_command(struct ctl *ctl, int argc, char **argv)
{
	struct options options = { 0 };
	const struct ctl_option known[] = {
		{ "all", option_flag, .to = &options.all },
		{ "gpu", option_text, .to = &options.gpu },
		{ 0 },
	};
	struct choice choice = { 0 };
	int ret;

	if (ctl_options(ctl, argc, &argv, known, 1) < 0)
		return ctl->status;
	options.policy = argv[0];
	ret = check(ctl, &options);
	if (ret)
		return ret;
	if (!options.policy)
		return show(ctl);
	ret = choose(ctl, &options, &choice);
	if (!ret)
		ret = ctl->dry_run ? would(ctl, options.policy, &choice) :
				     set(ctl, options.policy, &choice);
	free(choice.gpus);
	return ret;
}
