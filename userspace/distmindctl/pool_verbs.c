// SPDX-License-Identifier: GPL-2.0-or-later
/* "distmindctl pool": what is promised, where things go and why, and how to tidy up. */
#include "noun.h"
#include "pool_view.h"

const struct command pool_verbs[] = {
	{ "show", "", "Show what is promised of gpus and boxes, and what is left.",
	  pool_show_command },
	{ "explain",
	  "VGPU | --memory SIZE [--share PERCENT] [--capped yes|no] [--class CLASS]\n"
	  "          [--objective TIME] [--kind KIND] [--count N] [--same-box]",
	  "Say where a claim would go, or why a vgpu is where it is, and what else would do.",
	  pool_explain_command },
	{ "repack", "[--free N]",
	  "Move vgpus together, so that whole gpus become free with few moves.",
	  pool_repack_command },
	{ 0 },
};

int pool_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, pool_verbs, argc, argv);
}
