// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "listing.h"
#include "noun.h"
#include "parse.h"
#include "terms.h"

#define NODE_PREFIX "/dev/distmind/"

static enum print_colour colour(uint32_t state)
{
	switch (state) {
	case DISTMIND_VGPU_STATE_BOUND:
		return PRINT_COLOUR_GOOD;
	case DISTMIND_VGPU_STATE_PARKED:
		return PRINT_COLOUR_WARN;
	default:
		return PRINT_COLOUR_BAD;
	}
}

void vgpu_print(struct print *print, const struct distmind_vgpu_record *vgpu)
{
	print_number(print, "id", "ID", vgpu->id);
	print_text(print, "name", "NAME", vgpu->name);
	if (vgpu->gpu == DISTMIND_GPU_NONE)
		print_none(print, "gpu", "GPU");
	else
		print_number(print, "gpu", "GPU", vgpu->gpu);
	print_state(print, "state", "STATE", distmind_vgpu_state_name(vgpu->state),
		    colour(vgpu->state));
	print_size(print, "memory", "MEMORY", vgpu->memory);
	print_size(print, "memory_used", "USED", vgpu->memory_used);
	print_share(print, "share", "SHARE", vgpu->share);
	print_text(print, "class", "CLASS", distmind_class_name(vgpu->sched_class));
	if (vgpu->objective_ns)
		print_duration(print, "objective_ns", "OBJECTIVE", vgpu->objective_ns, 1);
	else
		print_none(print, "objective_ns", "OBJECTIVE");
	print_user(print, "uid", "USER", vgpu->uid);
	if (vgpu->pid)
		print_number(print, "pid", "PID", vgpu->pid);
	else
		print_none(print, "pid", "PID");
	print_detail(print);
	print_bool(print, "capped", "CAPPED", vgpu->capped);
	print_group(print, "gid", "GROUP", vgpu->gid);
	print_text(print, "lease", "LEASE",
		   vgpu->lease == DISTMIND_VGPU_LEASE_ADMIN ? "admin" : "file");
	print_number(print, "clients", "CLIENTS", vgpu->clients);
	print_number(print, "buffers", "BUFFERS", vgpu->buffers);
	print_number(print, "queued", "QUEUED", vgpu->queued);
	print_number(print, "running", "RUNNING", vgpu->running);
}

static int print_row(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	vgpu_print(print, vgpu);
	print_row_close(print);
	return 0;
}

static int vgpu_rows(struct distmind_pool *pool, struct print *print)
{
	return distmind_pool_vgpus(pool, print_row, print);
}

static int vgpu_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct listing vgpus = {
		"vgpus", vgpu_rows,
		"no vgpus; get one with: distmindctl run --memory 512M -- COMMAND",
		"no vgpus of yours; root sees all of them",
	};

	return listing_run(ctl, argc, argv, &vgpus);
}

struct by_name {
	const char *name;
	struct distmind_vgpu_record *vgpu;
	unsigned int found;
};

static int match_name(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct by_name *search = arg;

	if (strcmp(vgpu->name, search->name))
		return 0;
	*search->vgpu = *vgpu;
	search->found++;
	return 0;
}

int vgpu_find(struct ctl *ctl, const char *word, struct distmind_vgpu_record *vgpu)
{
	struct by_name search = { .name = word, .vgpu = vgpu };
	const char *number = word;
	uint32_t id;
	int ret;

	if (!ctl_pool(ctl))
		return CTL_FAILED;
	if (!strncmp(number, NODE_PREFIX, strlen(NODE_PREFIX)))
		number += strlen(NODE_PREFIX);
	if (!strncmp(number, "vgpu", strlen("vgpu")))
		number += strlen("vgpu");
	if (!number_parse(number, 0, UINT32_MAX - 1, &id)) {
		ret = distmind_pool_vgpu(ctl->pool, id, vgpu);
		search.found = !ret;
		if (ret == -ENOENT || ret == -ENODEV)
			ret = 0;
	} else {
		ret = distmind_pool_vgpus(ctl->pool, match_name, &search);
	}
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot look up vgpu %s", word);
	if (!search.found)
		return ctl_fail(ctl, "there is no vgpu %s; see: distmindctl vgpu list", word);
	if (search.found > 1)
		return ctl_fail(ctl,
				"%u vgpus are named %s; say which by its number: "
				"distmindctl vgpu list",
				search.found, word);
	return CTL_OK;
}

static int vgpu_show(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_vgpu_record vgpu;
	struct print print;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = vgpu_find(ctl, argv[0], &vgpu);
	if (ret)
		return ret;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "vgpus", PRINT_RECORD);
	print_row(&vgpu, &print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

static int take_user(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	if (user_parse(value, option->to))
		return ctl_usage(ctl, "--uid %s is not a user", value);
	return CTL_OK;
}

static int take_group(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	if (group_parse(value, option->to))
		return ctl_usage(ctl, "--gid %s is not a group", value);
	return CTL_OK;
}

static int vgpu_create(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_vgpu_record vgpu = { .gpu = DISTMIND_GPU_NONE };
	const char *gpu_word = NULL, *name = "";
	struct terms terms = { 0 };
	const struct ctl_option known[] = {
		TERMS_OPTIONS(&terms),
		{ "gpu", option_text, .to = &gpu_word },
		{ "name", option_label, .to = &name },
		{ "uid", take_user, .to = &vgpu.uid },
		{ "gid", take_group, .to = &vgpu.gid },
		{ 0 },
	};
	struct distmind_gpu_record gpu;
	struct print print;
	char text[128];
	int ret;

	vgpu.uid = getuid();
	vgpu.gid = getgid();
	if (ctl_options(ctl, argc, &argv, known, 0) < 0)
		return ctl->status;
	ret = terms_complete(ctl, &terms);
	if (ret)
		return ret;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	if (gpu_word) {
		ret = gpu_find(ctl, gpu_word, &gpu);
		if (!ret)
			ret = gpu_accepts(ctl, &gpu, "cannot create the vgpu");
		if (ret)
			return ret;
		vgpu.gpu = gpu.id;
	}
	ret = ctl_need_admin(ctl, "cannot create the vgpu");
	if (ret)
		return ret;
	strcpy(vgpu.name, name);
	vgpu.memory = terms.memory;
	vgpu.share = terms.share;
	vgpu.sched_class = terms.sched_class;
	vgpu.objective_ns = terms.objective_ns;
	vgpu.capped = terms.capped;
	if (ctl->dry_run) {
		terms_format(&terms, text, sizeof(text));
		if (gpu_word)
			return ctl_would(ctl, "create", "vgpu", -1,
					 "create a vgpu on gpu %u (%s): %s", gpu.id, gpu.name,
					 text);
		return ctl_would(ctl, "create", "vgpu", -1,
				 "create a vgpu for the daemon to bind: %s", text);
	}
	ret = distmind_pool_vgpu_create(ctl->pool, &vgpu);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot create the vgpu");
	if (!ctl->json) {
		/* The one thing that a script needs next. */
		fprintf(ctl->out, NODE_PREFIX "vgpu%u\n", vgpu.id);
		return CTL_OK;
	}
	ctl_print_open(ctl, &print);
	print_list_open(&print, "vgpus", PRINT_RECORD);
	print_row(&vgpu, &print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

/* The record as it will be; an objective comes and goes with its class. */
static int apply(struct ctl *ctl, struct terms *terms, struct distmind_vgpu_record *vgpu)
{
	if (terms->fields & DISTMIND_SET_MEMORY)
		vgpu->memory = terms->memory;
	if (terms->fields & DISTMIND_SET_SHARE)
		vgpu->share = terms->share;
	if (terms->fields & DISTMIND_SET_CAPPED)
		vgpu->capped = terms->capped;
	if (terms->fields & DISTMIND_SET_CLASS)
		vgpu->sched_class = terms->sched_class;
	if (terms->fields & DISTMIND_SET_OBJECTIVE)
		vgpu->objective_ns = terms->objective_ns;
	if (vgpu->sched_class == DISTMIND_CLASS_LATENCY && !vgpu->objective_ns)
		return ctl_usage(ctl,
				 "--class latency needs an objective, such as --objective 10ms");
	if (vgpu->sched_class != DISTMIND_CLASS_LATENCY && vgpu->objective_ns) {
		if (terms->fields & DISTMIND_SET_OBJECTIVE)
			return ctl_usage(ctl,
					 "--objective goes only with --class latency, and vgpu "
					 "%u is %s",
					 vgpu->id, distmind_class_name(vgpu->sched_class));
		vgpu->objective_ns = 0;
		terms->fields |= DISTMIND_SET_OBJECTIVE;
	}
	return CTL_OK;
}

static int vgpu_set(struct ctl *ctl, int argc, char **argv)
{
	const char *gpu_word = NULL;
	struct terms terms = { 0 };
	const struct ctl_option known[] = {
		TERMS_OPTIONS(&terms),
		{ "gpu", option_text, .to = &gpu_word },
		{ 0 },
	};
	struct distmind_vgpu_record vgpu;
	struct distmind_gpu_record gpu;
	char what[64], text[128];
	int ret;

	argc = ctl_options(ctl, argc, &argv, known, CTL_ANY);
	if (argc < 0)
		return ctl->status;
	if (argc != 1)
		return ctl_usage(ctl, "set needs one vgpu, not %d", argc);
	if (gpu_word)
		terms.fields |= DISTMIND_SET_GPU;
	if (!terms.fields)
		return ctl_usage(ctl, "set needs something to change, such as --share 50");
	ret = vgpu_find(ctl, argv[0], &vgpu);
	if (ret)
		return ret;
	ret = apply(ctl, &terms, &vgpu);
	if (ret)
		return ret;
	snprintf(what, sizeof(what), "cannot change vgpu %u", vgpu.id);
	if (gpu_word && !strcmp(gpu_word, "none")) {
		vgpu.gpu = DISTMIND_GPU_NONE;
	} else if (gpu_word) {
		ret = gpu_find(ctl, gpu_word, &gpu);
		if (!ret && gpu.id != vgpu.gpu)
			ret = gpu_accepts(ctl, &gpu, what);
		if (ret)
			return ret;
		vgpu.gpu = gpu.id;
	}
	ret = ctl_need_admin(ctl, "%s", what);
	if (ret)
		return ret;
	if (ctl->dry_run) {
		terms = (struct terms){ .memory = vgpu.memory,
					.share = vgpu.share,
					.capped = vgpu.capped,
					.sched_class = vgpu.sched_class,
					.objective_ns = vgpu.objective_ns };
		terms_format(&terms, text, sizeof(text));
		if (vgpu.gpu == DISTMIND_GPU_NONE)
			return ctl_would(ctl, "set", "vgpu", vgpu.id, "make vgpu %u: parked, %s",
					 vgpu.id, text);
		return ctl_would(ctl, "set", "vgpu", vgpu.id, "make vgpu %u: on gpu %u, %s",
				 vgpu.id, vgpu.gpu, text);
	}
	ret = distmind_pool_vgpu_set(ctl->pool, &vgpu, terms.fields);
	if (ret)
		return ctl_fail_pool(ctl, ret, "%s", what);
	return CTL_OK;
}

static int vgpu_delete(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_vgpu_record vgpu;
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = vgpu_find(ctl, argv[0], &vgpu);
	if (ret)
		return ret;
	ret = ctl_need_admin(ctl, "cannot delete vgpu %u", vgpu.id);
	if (ret)
		return ret;
	if (ctl->dry_run)
		return ctl_would(ctl, "delete", "vgpu", vgpu.id,
				 "delete vgpu %u; it has %u buffer%s and %u open file%s", vgpu.id,
				 vgpu.buffers, vgpu.buffers == 1 ? "" : "s", vgpu.clients,
				 vgpu.clients == 1 ? "" : "s");
	ret = distmind_pool_vgpu_delete(ctl->pool, vgpu.id);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot delete vgpu %u", vgpu.id);
	return CTL_OK;
}

const struct command vgpu_verbs[] = {
	{ "list", "", "Show all vgpus; without privilege your own.", vgpu_list },
	{ "show", "VGPU", "Show one vgpu, by number, node or name.", vgpu_show },
	{ "create",
	  "--memory SIZE [--share PERCENT] [--capped yes|no] [--class CLASS]\n"
	  "          [--objective TIME] [--gpu GPU] [--name NAME] [--uid USER] [--gid GROUP]",
	  "Create a vgpu that lives until it is deleted, and print its node.", vgpu_create },
	{ "set",
	  "VGPU [--memory SIZE] [--share PERCENT] [--capped yes|no]\n"
	  "          [--class CLASS] [--objective TIME] [--gpu GPU|none]",
	  "Change a vgpu, bind it to another gpu or park it.", vgpu_set },
	{ "delete", "VGPU", "Delete a vgpu; whoever has it open gets ENODEV.", vgpu_delete },
	{ 0 },
};

int vgpu_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, vgpu_verbs, argc, argv);
}
