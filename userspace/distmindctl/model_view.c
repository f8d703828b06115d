// SPDX-License-Identifier: GPL-2.0-or-later
#include "model_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define VERSIONS "use a distmindd of the same version"

static int read_manifest(struct model_view *view, struct distmind_service *service)
{
	const json_t *manifest = json_object_get(view->document, "manifest");
	char *text = json_is_object(manifest) ? json_dumps(manifest, JSON_COMPACT) : NULL;
	char error[MODEL_ERROR_LEN] = "missing";
	int err = -EPROTO;

	if (text)
		err = model_manifest_parse(&view->manifest, text, strlen(text), error);
	free(text);
	if (!err)
		return 0;
	view->manifest = (struct model_manifest){ 0 };
	return distmind_service_fail(service, -EPROTO, "distmindd's reply: manifest.%.900s", error);
}

static int read_index(struct distmind_service *service, const json_t *group, const char *key,
		      uint32_t min, uint32_t max, uint32_t *index)
{
	uint64_t number;
	int err = distmind_service_number(service, group, key, "groups[]", &number);

	if (err)
		return err;
	if (number < min || number > max)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: groups[].%s: not from %u to %u: "
					     VERSIONS, key, min, max);
	*index = (uint32_t)number;
	return 0;
}

/* They follow each other, and have all layers and all chunks. */
static int read_groups(struct model_view *view, struct distmind_service *service)
{
	const struct model_manifest *manifest = &view->manifest;
	const json_t *groups = json_object_get(view->document, "groups");
	size_t count = json_array_size(groups);
	uint32_t layer = 0, chunk = 0;
	int err = 0;

	if (!count || count > manifest->layer_count)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: groups: not from 1 to as many as "
					     "there are layers: " VERSIONS);
	view->groups = calloc(count, sizeof(*view->groups));
	if (!view->groups)
		return distmind_service_fail(service, -ENOMEM, "out of memory");
	view->group_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !err; i++) {
		const json_t *from = json_array_get(groups, i);
		struct model_view_group *group = &view->groups[i];

		err = read_index(service, from, "first_layer", layer, layer, &group->first_layer);
		if (!err)
			err = read_index(service, from, "end_layer", layer,
					 manifest->layer_count, &group->end_layer);
		if (!err)
			err = read_index(service, from, "first_chunk", chunk, chunk,
					 &group->first_chunk);
		if (!err)
			err = read_index(service, from, "end_chunk", chunk,
					 manifest->chunk_count, &group->end_chunk);
		if (!err)
			err = distmind_service_number(service, from, "bytes", "groups[]",
						      &group->bytes);
		layer = group->end_layer;
		chunk = group->end_chunk;
	}
	if (!err && (layer != manifest->layer_count || chunk != manifest->chunk_count))
		err = distmind_service_fail(service, -EPROTO,
					    "distmindd's reply: groups: some of the model belongs "
					    "to none: " VERSIONS);
	return err;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Every name once. names has room for all; returns how many are left. */
static uint32_t unique(const char **names, size_t count)
{
	uint32_t kept = 0;

	qsort(names, count, sizeof(*names), compare);
	for (size_t i = 0; i < count; i++)
		if (!kept || strcmp(names[kept - 1], names[i]))
			names[kept++] = names[i];
	return kept;
}

static int read_holders(struct model_view *view, struct distmind_service *service)
{
	const json_t *holders = json_object_get(view->document, "holders");
	uint32_t chunks = view->manifest.chunk_count;
	size_t total = 0;

	if (!json_is_array(holders) || json_array_size(holders) != chunks)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: holders: not a list per chunk: "
					     VERSIONS);
	for (uint32_t i = 0; i < chunks; i++)
		total += json_array_size(json_array_get(holders, i));
	view->holder_start = calloc((size_t)chunks + 1, sizeof(*view->holder_start));
	view->holders = calloc(total + 1, sizeof(*view->holders));
	view->hosts = calloc(total + 1, sizeof(*view->hosts));
	if (!view->holder_start || !view->holders || !view->hosts || total > UINT32_MAX)
		return distmind_service_fail(service, -ENOMEM, "out of memory");
	total = 0;
	for (uint32_t i = 0; i < chunks; i++) {
		const json_t *list = json_array_get(holders, i);

		for (size_t j = 0; j < json_array_size(list); j++) {
			const char *host = json_string_value(json_array_get(list, j));

			if (!host)
				return distmind_service_fail(service, -EPROTO,
							     "distmindd's reply: holders[%u]: not "
							     "names of hosts: " VERSIONS, i);
			view->hosts[total++] = host;
		}
	}
	view->host_count = unique(view->hosts, total);
	total = 0;
	for (uint32_t i = 0; i < chunks; i++) {
		const json_t *list = json_array_get(holders, i);

		for (size_t j = 0; j < json_array_size(list); j++) {
			const char *host = json_string_value(json_array_get(list, j));
			const char **found = bsearch(&host, view->hosts, view->host_count,
						     sizeof(host), compare);

			view->holders[total++] = (uint32_t)(found - view->hosts);
		}
		view->holder_start[i + 1] = (uint32_t)total;
	}
	return 0;
}

static uint64_t optional(const json_t *document, const char *key)
{
	json_int_t value = json_integer_value(json_object_get(document, key));

	return value > 0 ? (uint64_t)value : 0;
}

int model_view_create(struct model_view *view, struct distmind_service *service,
		      json_t *document)
{
	int err;

	*view = (struct model_view){ .document = document };
	err = read_manifest(view, service);
	if (!err)
		err = read_groups(view, service);
	if (!err)
		err = read_holders(view, service);
	if (err) {
		model_view_destroy(view);
		return err;
	}
	view->replicas = optional(document, "replicas");
	view->extra_replicas = optional(document, "extra_replicas");
	view->copies = optional(document, "copies");
	view->uid = (uint32_t)optional(document, "uid");
	view->gid = (uint32_t)optional(document, "gid");
	view->mode = (unsigned int)optional(document, "mode");
	view->predicted_ns = optional(document, "predicted_ns");
	view->greedy_ns = optional(document, "greedy_ns");
	view->bound_ns = optional(document, "bound_ns");
	return 0;
}

void model_view_destroy(struct model_view *view)
{
	model_manifest_destroy(&view->manifest);
	free(view->groups);
	free(view->hosts);
	free(view->holder_start);
	free(view->holders);
	json_decref(view->document);
	*view = (struct model_view){ 0 };
}

uint64_t model_view_share(const struct model_view *view, uint32_t group, uint32_t host,
			  uint32_t *chunks)
{
	uint64_t bytes = 0;

	*chunks = 0;
	for (uint32_t i = view->groups[group].first_chunk; i < view->groups[group].end_chunk; i++) {
		for (uint32_t j = view->holder_start[i]; j < view->holder_start[i + 1]; j++) {
			if (view->holders[j] != host)
				continue;
			bytes += view->manifest.chunks[i].size;
			++*chunks;
			break;
		}
	}
	return bytes;
}
