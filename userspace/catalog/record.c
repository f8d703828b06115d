// SPDX-License-Identifier: GPL-2.0-or-later
/* Records as JSON. Other programs can write to etcd, so all of it is checked. */
#include "encode.h"
#include "../common/hex.h"
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Takes the record. */
static char *text_of(json_t *record)
{
	char *text = record ? json_dumps(record, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(record);
	return text;
}

static bool get_text(const json_t *record, const char *name, char *text, size_t room)
{
	const char *value = json_string_value(json_object_get(record, name));

	if (!value || strlen(value) >= room)
		return false;
	memcpy(text, value, strlen(value) + 1);
	return true;
}

static bool get_digest(const json_t *record, const char *name, uint8_t *digest)
{
	const char *hex = json_string_value(json_object_get(record, name));

	return hex && hex_parse(hex, digest, CATALOG_DIGEST);
}

char *catalog_host_text(const struct catalog_host *host)
{
	json_t *hot = json_array();

	for (size_t i = 0; i < host->hot_count; i++)
		if (json_array_append_new(hot, json_string(host->hot[i]))) {
			json_decref(hot);
			return NULL;
		}
	return text_of(json_pack("{s:s,s:s,s:i,s:I,s:I,s:I,s:I,s:I,s:o}", "address", host->address,
				 "rdma_address", host->rdma_address, "rdma_port",
				 (int)host->rdma_port, "memory_total",
				 (json_int_t)host->memory_total, "memory_free",
				 (json_int_t)host->memory_free, "memory_longest",
				 (json_int_t)host->memory_longest, "damaged",
				 (json_int_t)host->damaged, "generation",
				 (json_int_t)host->generation, "hot", hot));
}

/* Of hosts that do not say, all that is free may be in one piece. */
static bool get_longest(const json_t *record, struct catalog_host *host)
{
	host->memory_longest = host->memory_free;
	return !json_object_get(record, "memory_longest") ||
	       catalog_json_u64(record, "memory_longest", &host->memory_longest);
}

/* Hosts of the first version have none. */
static bool get_hot(const json_t *record, struct catalog_host *host)
{
	const json_t *hot = json_object_get(record, "hot");

	host->hot_count = json_array_size(hot);
	if ((hot && !json_is_array(hot)) || host->hot_count > CATALOG_HOT_MAX)
		return false;
	for (size_t i = 0; i < host->hot_count; i++) {
		const char *name = json_string_value(json_array_get(hot, i));

		if (!name ||
		    !catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS))
			return false;
		strcpy(host->hot[i], name);
	}
	return true;
}

struct catalog_host *catalog_host_parse(const char *name, const char *text, size_t size)
{
	json_t *record = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	struct catalog_host *host = calloc(1, sizeof(*host));
	uint64_t port = 0;

	if (host && catalog_name_is_good(name, CATALOG_HOST_LEN, "") &&
	    get_text(record, "address", host->address, CATALOG_ADDRESS_LEN) &&
	    get_text(record, "rdma_address", host->rdma_address, CATALOG_ADDRESS_LEN) &&
	    catalog_json_u64(record, "rdma_port", &port) && port <= UINT16_MAX &&
	    catalog_json_u64(record, "memory_total", &host->memory_total) &&
	    catalog_json_u64(record, "memory_free", &host->memory_free) &&
	    catalog_json_u64(record, "generation", &host->generation) && host->generation &&
	    get_longest(record, host) &&
	    (!json_object_get(record, "damaged") ||
	     catalog_json_u64(record, "damaged", &host->damaged)) &&
	    get_hot(record, host)) {
		snprintf(host->name, sizeof(host->name), "%s", name);
		host->rdma_port = (uint16_t)port;
	} else {
		free(host);
		host = NULL;
	}
	json_decref(record);
	return host;
}

char *catalog_model_text(const struct catalog_model *model)
{
	char sha256[2 * CATALOG_DIGEST + 1];

	hex_format(model->sha256, CATALOG_DIGEST, sha256);
	return text_of(json_pack("{s:s,s:s,s:I,s:i,s:s,s:i,s:b,s:s,s:I,s:I,s:I,s:i}", "name", model->name,
				 "upload", model->upload, "size", (json_int_t)model->size, "parts",
				 (int)model->parts, "sha256", sha256, "replicas",
				 (int)model->replicas, "complete", (int)model->complete, "host",
				 model->host, "generation", (json_int_t)model->generation, "uid",
				 (json_int_t)model->access.uid, "gid",
				 (json_int_t)model->access.gid, "mode", (int)model->access.mode));
}

/* Models of the first version belong to nobody in particular. */
static bool get_access(const json_t *record, struct catalog_access *access)
{
	uint64_t uid, gid, mode;

	*access = CATALOG_ACCESS_DEFAULT;
	if (!json_object_get(record, "uid") && !json_object_get(record, "gid") &&
	    !json_object_get(record, "mode"))
		return true;
	if (!catalog_json_u64(record, "uid", &uid) || uid >= UINT32_MAX ||
	    !catalog_json_u64(record, "gid", &gid) || gid >= UINT32_MAX ||
	    !catalog_json_u64(record, "mode", &mode) || mode & ~(uint64_t)CATALOG_MODE_ALL)
		return false;
	*access = (struct catalog_access){
		.uid = (uint32_t)uid, .gid = (uint32_t)gid, .mode = (unsigned int)mode,
	};
	return true;
}

static bool is_number(const char *upload)
{
	return strlen(upload) == 32 && strspn(upload, "0123456789abcdef") == 32;
}

struct catalog_model *catalog_model_parse(const char *text, size_t size)
{
	json_t *record = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	struct catalog_model *model = calloc(1, sizeof(*model));
	uint64_t parts = 0, replicas = 0;

	if (model && get_text(record, "name", model->name, CATALOG_MODEL_LEN) &&
	    catalog_name_is_good(model->name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS) &&
	    get_text(record, "upload", model->upload, sizeof(model->upload)) &&
	    is_number(model->upload) &&
	    catalog_json_u64(record, "size", &model->size) && model->size &&
	    model->size <= CATALOG_MANIFEST_MAX && catalog_json_u64(record, "parts", &parts) &&
	    parts == (model->size + CATALOG_VALUE_MAX - 1) / CATALOG_VALUE_MAX &&
	    get_digest(record, "sha256", model->sha256) &&
	    catalog_json_u64(record, "replicas", &replicas) && replicas &&
	    replicas <= CATALOG_REPLICAS_MAX &&
	    get_text(record, "host", model->host, CATALOG_HOST_LEN) &&
	    catalog_json_u64(record, "generation", &model->generation) &&
	    get_access(record, &model->access)) {
		model->parts = (unsigned int)parts;
		model->replicas = (unsigned int)replicas;
		model->complete = json_is_true(json_object_get(record, "complete"));
	} else {
		free(model);
		model = NULL;
	}
	json_decref(record);
	return model;
}

/* Others may have any key: what is no name is made readable. */
static bool call(struct catalog_model *model, const char *name)
{
	size_t len = strnlen(name, CATALOG_MODEL_LEN - 1);

	for (size_t i = 0; i < len; i++)
		model->name[i] = '?';
	for (size_t i = 0; i < len; i++)
		if (catalog_name_is_good((char []){ name[i], '\0' }, 2, CATALOG_MODEL_OTHERS) ||
		    name[i] == '/')
			model->name[i] = name[i];
	return catalog_name_is_good(name, CATALOG_MODEL_LEN, CATALOG_MODEL_OTHERS);
}

/* Of the manifest; of which upload is what its record, or the key of that, says. */
static void salvage_parts(struct catalog_model *model, const json_t *record)
{
	char name[CATALOG_MODEL_LEN];
	uint64_t parts;

	if (model->uploading)
		snprintf(model->upload, sizeof(model->upload), "%.32s", model->name);
	else if (!get_text(record, "upload", model->upload, sizeof(model->upload)) ||
		 !get_text(record, "name", name, sizeof(name)) || strcmp(name, model->name))
		model->upload[0] = '\0'; /* perhaps another model's, which keeps its parts */
	if (!is_number(model->upload)) {
		model->upload[0] = '\0';
		return;
	}
	/* If it is not known how many there are, all that there can be. */
	model->parts = CATALOG_MANIFEST_MAX / CATALOG_VALUE_MAX;
	if (catalog_json_u64(record, "parts", &parts) && parts && parts < model->parts)
		model->parts = (unsigned int)parts;
}

struct catalog_model *catalog_model_salvage(const char *name, bool uploading, const char *text,
					    size_t size)
{
	struct catalog_model *model = calloc(1, sizeof(*model));
	json_t *record = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);

	if (model) {
		model->uploading = uploading;
		model->unreadable = true;
		snprintf(model->error, sizeof(model->error), "%s",
			 call(model, name) ? CATALOG_SENSELESS " Else delete it" :
					     "its key is no name: delete it in the store");
		salvage_parts(model, record);
		get_access(record, &model->access);
		if (!get_text(record, "host", model->host, CATALOG_HOST_LEN) ||
		    !catalog_json_u64(record, "generation", &model->generation) ||
		    !model->generation)
			model->host[0] = '\0';
	}
	json_decref(record);
	return model;
}

void catalog_model_free(struct catalog_model *model)
{
	if (!model)
		return;
	if (model->learned)
		model->learned->references--;
	free(model);
}
