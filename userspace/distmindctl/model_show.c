// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <string.h>

#include "model_view.h"
#include "options.h"
#include "reply.h"

struct options {
	const char *svg;
	bool map;
};

static void print_time_of(struct print *print, const char *key, const char *heading, uint64_t ns)
{
	if (ns)
		print_duration(print, key, heading, ns, 1);
	else
		print_none(print, key, heading);
}

static void print_model(struct print *print, const struct model_view *view)
{
	const struct model_manifest *manifest = &view->manifest;

	print_list_open(print, "models", PRINT_RECORD);
	print_row_open(print);
	print_text(print, "name", "NAME", manifest->name);
	print_size(print, "bytes", "SIZE", manifest->size);
	print_number(print, "tensors", "TENSORS", manifest->tensor_count);
	print_number(print, "layers", "LAYERS", manifest->layer_count);
	print_number(print, "chunks", "CHUNKS", manifest->chunk_count);
	print_number(print, "groups", "GROUPS", view->group_count);
	print_number(print, "replicas", "REPLICAS", (int64_t)view->replicas);
	print_number(print, "extra_replicas", "EXTRA", (int64_t)view->extra_replicas);
	print_number(print, "copies", "COPIES", (int64_t)view->copies);
	model_print_access(print, view->uid, view->gid, view->mode);
	print_time_of(print, "predicted_ns", "PREDICTED", view->predicted_ns);
	print_time_of(print, "greedy_ns", "GREEDY", view->greedy_ns);
	print_time_of(print, "bound_ns", "BOUND", view->bound_ns);
	print_row_close(print);
	print_list_close(print);
}

/* Who uses it on this host. */
static void print_users(struct print *print, const struct model_view *view)
{
	const json_t *users = json_object_get(view->document, "users"), *user;
	size_t i;

	if (!json_array_size(users) && !print->json)
		return;
	print_list_open(print, "users", PRINT_TABLE);
	json_array_foreach(users, i, user) {
		print_row_open(print);
		print_number(print, "gpu", "GPU", (int64_t)reply_number(user, "gpu"));
		print_number(print, "vgpu", "VGPU", (int64_t)reply_number(user, "vgpu"));
		print_user(print, "uid", "USER", (uint32_t)reply_number(user, "uid"));
		print_number(print, "uses", "USES", (int64_t)reply_number(user, "uses"));
		print_size(print, "bytes", "PAYS FOR", view->manifest.size);
		print_row_close(print);
	}
	print_list_close(print);
}

static void print_groups(struct print *print, const struct model_view *view)
{
	print_list_open(print, "groups", PRINT_TABLE);
	for (uint32_t i = 0; i < view->group_count; i++) {
		const struct model_view_group *group = &view->groups[i];
		bool empty = group->first_layer == group->end_layer;

		print_row_open(print);
		print_number(print, "group", "GROUP", i);
		print_number(print, "layers", "LAYERS", group->end_layer - group->first_layer);
		print_number(print, "chunks", "CHUNKS", group->end_chunk - group->first_chunk);
		print_size(print, "bytes", "SIZE", group->bytes);
		print_text(print, "first", "FIRST LAYER",
			   empty ? "" : view->manifest.layers[group->first_layer].name);
		print_text(print, "last", "LAST LAYER",
			   empty ? "" : view->manifest.layers[group->end_layer - 1].name);
		print_row_close(print);
	}
	print_list_close(print);
}

static int write_svg(struct ctl *ctl, const struct model_view *view, const char *path)
{
	FILE *file = fopen(path, "we");
	bool failed;

	if (!file)
		return ctl_fail(ctl, "cannot write %s: %s; choose another file", path,
				strerror(errno));
	model_map_svg(view, file);
	failed = ferror(file);
	if (fclose(file) || failed)
		return ctl_fail(ctl, "cannot write %s: %s; make room or choose another file", path,
				strerror(errno ? errno : EIO));
	return CTL_OK;
}

static int print_view(struct ctl *ctl, const struct options *options,
		      const struct model_view *view)
{
	struct print print;
	int ret = options->svg ? write_svg(ctl, view, options->svg) : CTL_OK;

	if (ret)
		return ret;
	ctl_print_open(ctl, &print);
	print_model(&print, view);
	print_users(&print, view);
	if (!options->map || ctl->json)
		print_groups(&print, view);
	if (options->map && ctl->json)
		model_map_print(view, &print);
	ret = ctl_print_close(ctl, &print);
	if (options->map && !ctl->json) {
		fputc('\n', ctl->out);
		model_map_draw(view, ctl->out, ctl->colour);
	}
	return ret;
}

int model_show(struct ctl *ctl, int argc, char **argv)
{
	struct options options = { 0 };
	const struct ctl_option known[] = {
		{ "map", option_flag, .to = &options.map },
		{ "svg", option_text, .to = &options.svg },
		{ 0 },
	};
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { 0 };
	struct message reply;
	struct model_view view;
	json_t *document;
	char doing[128];
	int ret;

	argc = ctl_options(ctl, argc, &argv, known, CTL_ANY);
	if (argc < 0)
		return ctl->status;
	ret = argc == 1 ? model_name_check(ctl, argv[0]) : ctl_usage_arguments(ctl);
	if (ret)
		return ret;
	snprintf(doing, sizeof(doing), "show model %s", argv[0]);
	request.body = json_pack("{s:s, s:s}", "op", "show", "model", argv[0]);
	ret = model_ask(ctl, &service, &request, &reply, doing);
	if (!ret) {
		ret = distmind_service_object(&service, &reply, 0, &document);
		if (!ret)
			ret = model_view_create(&view, &service, document);
		if (ret) {
			ret = model_fail(ctl, &service, ret, doing);
		} else {
			ret = print_view(ctl, &options, &view);
			model_view_destroy(&view);
		}
	}
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}
