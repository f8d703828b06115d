// SPDX-License-Identifier: GPL-2.0-or-later
/* Record what the lanes do, and write it down for people and their tools. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "noun.h"
#include "options.h"
#include "parse.h"
#include "trace_record.h"
#include "trace_write.h"

#define DURATION_MIN NSEC_PER_MSEC
#define DURATION_MAX (3600 * NSEC_PER_SEC)

struct options {
	struct trace_wish wish;
	const char *output;
	const char *svg;
};

/* The files, which are there before anything is recorded. */
struct files {
	FILE *output;
	FILE *svg;
};

static int add_name(struct trace_name **names, size_t *count, uint32_t id, uint32_t gpu,
		    const char *name)
{
	struct trace_name *grown;
	size_t i;

	for (i = 0; i < *count; i++) {
		if ((*names)[i].id == id) {
			(*names)[i].gpu = gpu;
			return 0;
		}
	}
	grown = reallocarray(*names, *count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*names = grown;
	grown[*count] = (struct trace_name){ .id = id, .gpu = gpu };
	/* The writers do not quote. */
	if (!label_check(name))
		strcpy(grown[*count].name, name);
	++*count;
	return 0;
}

static int name_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct trace_names *names = arg;

	return add_name(&names->gpus, &names->gpu_count, gpu->id, gpu->id, gpu->name);
}

static int name_vgpu(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct trace_names *names = arg;

	return add_name(&names->vgpus, &names->vgpu_count, vgpu->id, vgpu->gpu,
			vgpu->name);
}

/* Those who are there now. */
static void find_names(struct ctl *ctl, struct trace_names *names)
{
	distmind_pool_gpus(ctl->pool, name_gpu, names);
	distmind_pool_vgpus(ctl->pool, name_vgpu, names);
}

/* Those who came while the trace was recorded, and may be gone. */
static void name_event(const struct distmind_event *event, void *names)
{
	if (event->type == DISTMIND_EVENT_VGPU_ADD || event->type == DISTMIND_EVENT_VGPU_CHANGE)
		name_vgpu(&event->vgpu, names);
	else if (event->type == DISTMIND_EVENT_GPU_ADD)
		name_gpu(&event->gpu, names);
}

/* The vgpu, if it is one of those in which the daemon keeps weights. */
static const struct trace_name *find_weights(const struct trace_names *names, uint32_t vgpu)
{
	const struct trace_name *name = names->vgpus, *end = name + names->vgpu_count;

	while (name < end && name->id != vgpu)
		name++;
	if (name == end || name->gpu == DISTMIND_GPU_NONE ||
	    strncmp(name->name, DISTMIND_WEIGHTS_PREFIX, strlen(DISTMIND_WEIGHTS_PREFIX)))
		return NULL;
	return name;
}

/*
 * Of the signals, keep the daemon's, which say how much of a model has come, and to which
 * gpu. What applications signal means something to them only.
 */
static void keep_weights(struct trace_recording *recording, const struct trace_names *names,
			 uint32_t gpu)
{
	size_t i, kept = 0;

	for (i = 0; i < recording->count; i++) {
		struct trace_event *event = &recording->events[i];

		if (event->kind == TRACE_SIGNAL) {
			const struct trace_name *vgpu = find_weights(names, event->vgpu);

			/* Who loads has gone, mostly because all has come: no group did. */
			if (event->status == -EOWNERDEAD)
				continue;
			if (!vgpu || (gpu != DISTMIND_GPU_NONE && gpu != vgpu->gpu))
				continue;
			event->gpu = vgpu->gpu;
		}
		recording->events[kept++] = *event;
	}
	recording->count = kept;
}

static int open_file(struct ctl *ctl, const char *path, FILE **file)
{
	if (!path)
		return CTL_OK;
	*file = fopen(path, "we");
	if (!*file)
		return ctl_fail(ctl, "cannot write %s: %s; choose another file", path,
				strerror(errno));
	return CTL_OK;
}

static int close_file(struct ctl *ctl, const char *path, FILE *file)
{
	bool failed;

	if (!file)
		return CTL_OK;
	failed = ferror(file);
	if (fclose(file) || failed)
		return ctl_fail(ctl, "cannot write %s: %s; make room or choose another file", path,
				strerror(errno ? errno : EIO));
	return CTL_OK;
}

static int report(struct ctl *ctl, const struct options *options,
		  const struct trace_recording *recording, const struct trace_model *model)
{
	struct print print;
	size_t i, asked = 0;

	for (i = 0; i < model->mark_count; i++)
		asked += model->marks[i].kind == TRACE_ASK;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "traces", PRINT_RECORD);
	print_row_open(&print);
	if (options->output)
		print_text(&print, "output", "OUTPUT", options->output);
	if (options->svg)
		print_text(&print, "svg", "SVG", options->svg);
	print_duration(&print, "duration_ns", "DURATION", model->end_ns - model->begin_ns, 1);
	print_number(&print, "events", "EVENTS", recording->count);
	print_number(&print, "lost_events", "LOST", recording->lost);
	print_number(&print, "runs", "RUNS", model->slice_count);
	print_number(&print, "preemptions", "PREEMPTED", asked);
	print_number(&print, "groups", "GROUPS", model->arrival_count);
	print_row_close(&print);
	print_list_close(&print);
	if (recording->full)
		ctl_hint(ctl, "there were too many events, and the recording ended early; "
			      "try --gpu or a shorter --duration");
	else if (recording->lost)
		ctl_hint(ctl, "events were lost, and what they told is missing; try --gpu");
	return ctl_print_close(ctl, &print);
}

static int trace(struct ctl *ctl, const struct options *options, const struct files *files)
{
	struct trace_recording recording;
	struct trace_names names = { 0 };
	struct trace_model model;
	bool subscribed;
	int ret;

	/* Names are a help and no more: who was missed has to do with a number. */
	subscribed = !distmind_pool_subscribe(ctl->pool);
	find_names(ctl, &names);
	ret = trace_record(ctl, &options->wish, &recording);
	if (ret)
		goto out_names;
	if (subscribed)
		distmind_pool_dispatch(ctl->pool, name_event, &names);
	find_names(ctl, &names);
	keep_weights(&recording, &names, options->wish.gpu);
	ret = trace_model_build(recording.events, recording.count, recording.begin_ns,
				recording.end_ns, &model);
	free(recording.events);
	if (ret) {
		ret = ctl_fail(ctl, "cannot draw the trace: %s; try a shorter one",
			       strerror(-ret));
		goto out_names;
	}
	/* Nobody starts and ends it by hand at the right moment. */
	if (!options->wish.duration_ns)
		trace_model_crop(&model);
	if (files->output)
		trace_json_write(&model, &names, recording.lost, files->output);
	if (files->svg)
		trace_svg_write(&model, &names, recording.lost, files->svg);
	ret = report(ctl, options, &recording, &model);
	trace_model_free(&model);

out_names:
	free(names.gpus);
	free(names.vgpus);
	return ret;
}

static int trace_to_files(struct ctl *ctl, const struct options *options)
{
	struct files files = { 0 };
	int ret, closed;

	ret = open_file(ctl, options->output, &files.output);
	if (!ret)
		ret = open_file(ctl, options->svg, &files.svg);
	if (!ret)
		ret = trace(ctl, options, &files);
	closed = close_file(ctl, options->output, files.output);
	ret = ret ? ret : closed;
	closed = close_file(ctl, options->svg, files.svg);
	return ret ? ret : closed;
}

int trace_command(struct ctl *ctl, int argc, char **argv)
{
	struct options options = { .wish.gpu = DISTMIND_GPU_NONE };
	const char *gpu_word = NULL;
	const struct ctl_option known[] = {
		{ "duration", option_duration, .to = &options.wish.duration_ns,
		  .min = DURATION_MIN, .max = DURATION_MAX },
		{ "gpu", option_text, .to = &gpu_word },
		{ "output", option_text, .to = &options.output },
		{ "svg", option_text, .to = &options.svg },
		{ 0 },
	};
	struct distmind_gpu_record gpu;
	int ret;

	if (ctl_options(ctl, argc, &argv, known, 0) < 0)
		return ctl->status;
	if (!options.output && !options.svg)
		return ctl_usage(ctl, "trace needs --output FILE or --svg FILE");
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	if (gpu_word) {
		ret = gpu_find(ctl, gpu_word, &gpu);
		if (ret)
			return ret;
		options.wish.gpu = gpu.id;
	}
	if (ctl->dry_run)
		return ctl_would(ctl, "trace", "gpu", -1,
				 "record what the lanes do, and write %s%s%s",
				 options.output ? options.output : "",
				 options.output && options.svg ? " and " : "",
				 options.svg ? options.svg : "");
	return trace_to_files(ctl, &options);
}
