// SPDX-License-Identifier: GPL-2.0-or-later
#include "models.h"

#include "../../catalog/tls.h"
#include "../common/log.h"
#include "verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MS 5000
#define ETCD_MS 2000
#define GPUS_SHOWN 64
#define END_MS 3000 /* for errands */

static void on_changed(void *arg)
{
	struct models *models = arg;

	if (models->donate.timer)
		donate_poke(&models->donate);
}

static void on_member(enum catalog_member_state state, const char *why, void *arg)
{
	struct models *models = arg;

	if (state == CATALOG_JOINED)
		log_info("pool-joined", LOG_S("host", models->chunks.host.name),
			 LOG_U("generation", catalog_member_generation(models->catalog)));
	else
		log_warning(state == CATALOG_FENCED ? "pool-fenced" : "pool-left",
			    LOG_S("host", models->chunks.host.name), LOG_S("reason", why));
	on_changed(models);
}

/* NULL: it was not given. */
static const char *given(const char *text)
{
	return text[0] ? text : NULL;
}

static struct catalog_tls tls_of(const struct config_models *config)
{
	return (struct catalog_tls){
		.ca = given(config->ca),
		.certificate = given(config->certificate),
		.key = given(config->key),
	};
}

int models_check(const struct config_models *config, char *error)
{
	const struct catalog_tls tls = tls_of(config);

	return config->etcd ? catalog_tls_check(&tls, error) : 0;
}

static struct catalog_store *open_store(sd_event *loop, const struct config_models *config,
					char *error)
{
	char directory[sizeof(config->catalog)], *slash;
	const struct catalog_tls tls = tls_of(config);

	if (config->etcd)
		return catalog_etcd_open(loop, config->endpoints, &tls, ETCD_MS, error);
	strcpy(directory, config->catalog);
	slash = strrchr(directory, '/');
	if (slash && slash != directory) {
		*slash = '\0';
		mkdir(directory, 0700);
	}
	return catalog_embedded_open(loop, config->catalog, error);
}

static int open_catalog(struct models *models, const struct config_models *config)
{
	const struct catalog_options options = {
		.pool = config->pool, .list_ms = LIST_MS, .digests = manifests_learn,
		.changed = on_changed, .member = on_member, .arg = models,
	};
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store = open_store(models->loop, config, error);
	int err;

	if (store)
		models->catalog = catalog_open(models->loop, store, &options);
	if (models->catalog)
		return 0;
	err = errno ? -errno : -EIO;
	log_error("no-catalog", LOG_S("reason", error[0] ? error : strerror(-err)));
	return err;
}

struct models *models_open(sd_event *loop, struct distmind_pool *kernel,
			   const struct config_models *config)
{
	struct models *models = calloc(1, sizeof(*models));

	if (!models)
		return NULL;
	models->loop = loop;
	models->kernel = kernel;
	models->service.fd = -1;
	models->errands = errands_open(loop);
	if (!models->errands) {
		log_error("no-errands", LOG_S("reason", strerror(errno)));
		goto err_close;
	}
	if (chunks_open(&models->chunks, loop, config) || open_catalog(models, config))
		goto err_close;
	peers_open(&models->peers, &models->chunks);
	heat_init(&models->heat, config->hot_half_life_us);
	if (weights_open(&models->weights, loop, kernel, &models->chunks, &models->peers,
			 &models->heat) ||
	    donate_open(&models->donate, loop, models->catalog, &models->chunks, &models->peers,
			&models->heat) ||
	    chunks_join(&models->chunks, models->catalog) ||
	    service_open(&models->service, models, config->socket))
		goto err_close;
	return models;

err_close:
	log_warning("no-models", LOG_S("reason", "this host has no memory pool"));
	models_close(models);
	return NULL;
}

/* Those who use come before what they use; the catalog cancels what is pending with it. */
void models_close(struct models *models)
{
	if (!models)
		return;
	if (models->errands)
		service_close(&models->service);
	catalog_close(models->catalog);
	chunks_stop(&models->chunks);
	verify_close(models);
	weights_close(&models->weights);
	donate_close(&models->donate);
	peers_close(&models->peers);
	chunks_close(&models->chunks);
	survey_clear(&models->survey);
	manifests_sweep(NULL);
	/* What is left then goes with the process, and so does what it needs. */
	if (errands_close(models->errands, END_MS))
		free(models);
}

int models_leave(struct models *models, catalog_done done, void *arg)
{
	return catalog_leave(models->catalog, done, arg);
}

/*
 * What there is
 */

static json_t *describe_model(const struct models *models, const struct survey_model *row)
{
	const struct manifest *manifest = row->manifest;
	json_t *resident = json_array();
	uint32_t gpus[GPUS_SHOWN];
	size_t count = 0;

	if (manifest)
		count = weights_gpus(&models->weights, manifest, gpus, GPUS_SHOWN);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(resident, json_integer(gpus[i]));
	return json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:i, s:i, s:I, s:s, s:o, s:I}", "name",
			 row->model->name, "uid", (json_int_t)row->model->access.uid, "gid",
			 (json_int_t)row->model->access.gid, "mode", (int)row->model->access.mode,
			 "bytes", (json_int_t)(manifest ? manifest->model.size : 0),
			 "chunks", (json_int_t)(manifest ? manifest->model.chunk_count : 0),
			 "layers", (json_int_t)(manifest ? manifest->model.layer_count : 0),
			 "replicas", (int)row->model->replicas, "extra_replicas", (int)row->extra,
			 "copies", (json_int_t)row->copies, "state", row->state, "resident",
			 resident, "shared_bytes", (json_int_t)row->shared);
}

static void list_host(const struct catalog_host *host, void *arg)
{
	json_array_append_new(arg, json_pack("{s:s, s:s, s:I, s:I, s:b}", "name", host->name,
					     "address", host->address, "memory_total",
					     (json_int_t)host->memory_total, "memory_free",
					     (json_int_t)host->memory_free, "live", 1));
}

/* Where it was, and what it gave, went with it. */
static void list_away(const char *name, void *arg)
{
	json_array_append_new(arg, json_pack("{s:s, s:s, s:i, s:i, s:b}", "name", name, "address",
					     "", "memory_total", 0, "memory_free", 0, "live", 0));
}

/* Of this host; null: it has none. */
static json_t *describe_cache(struct cache *cache)
{
	struct cache_stats stats;

	if (!cache)
		return json_null();
	cache_stats(cache, &stats);
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "size", (json_int_t)stats.size, "bytes",
			 (json_int_t)stats.bytes, "chunks", (json_int_t)stats.chunks, "hits",
			 (json_int_t)stats.hits, "misses", (json_int_t)stats.misses, "evictions",
			 (json_int_t)stats.evictions);
}

int models_list(struct models *models)
{
	struct survey *survey = &models->survey;
	json_t *rows, *hosts;
	int err = survey_make(survey, models->catalog);

	if (err)
		return err;
	rows = json_array();
	hosts = json_array();
	for (size_t i = 0; i < survey->count; i++)
		json_array_append_new(rows, describe_model(models, &survey->models[i]));
	catalog_host_each(models->catalog, list_host, hosts);
	catalog_host_each_away(models->catalog, list_away, hosts);
	return message_memfd_json(json_pack("{s:o, s:o, s:I, s:o}", "models", rows, "hosts", hosts,
					    "stored_bytes", (json_int_t)survey->stored, "cache",
					    describe_cache(models->chunks.cache)));
}

static json_t *holders_of(struct models *models, const uint8_t *digest)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	size_t count = catalog_chunk_holders(models->catalog, digest, holders,
					     CATALOG_REPLICAS_MAX);
	json_t *names = json_array();

	for (size_t i = 0; i < count && i < CATALOG_REPLICAS_MAX; i++)
		if (holders[i].live)
			json_array_append_new(names, json_string(holders[i].host));
	return names;
}

static json_t *groups_of(const struct grouping *grouping)
{
	json_t *groups = json_array();
	uint32_t layer = 0, chunk = 0;

	for (uint32_t i = 0; i < grouping->count; i++) {
		const struct grouping_group *group = &grouping->groups[i];

		json_array_append_new(groups,
				      json_pack("{s:I, s:I, s:I, s:I, s:I}", "first_layer",
						(json_int_t)layer, "end_layer",
						(json_int_t)group->end_layer, "first_chunk",
						(json_int_t)chunk, "end_chunk",
						(json_int_t)group->end_chunk, "bytes",
						(json_int_t)group->bytes));
		layer = group->end_layer;
		chunk = group->end_chunk;
	}
	return groups;
}

static void tell_user(const struct weights_user *user, void *arg)
{
	json_array_append_new(arg, json_pack("{s:I, s:I, s:I, s:I, s:b}", "gpu",
					     (json_int_t)user->gpu, "vgpu", (json_int_t)user->vgpu,
					     "uid", (json_int_t)user->uid, "uses",
					     (json_int_t)user->uses, "loading", user->loading));
}

/* Who uses it on this host. */
static json_t *users_of(struct models *models, const struct manifest *manifest)
{
	json_t *users = json_array();

	weights_each_user(&models->weights, manifest, tell_user, users);
	return users;
}

int models_show(struct models *models, const struct catalog_model *model)
{
	const struct manifest *manifest = manifests_find(model);
	const struct survey_model *row;
	struct grouping_rates rates;
	struct grouping grouping;
	json_t *holders;
	int err;

	err = survey_make(&models->survey, models->catalog);
	if (err)
		return err;
	row = survey_find(&models->survey, model);
	if (!row)
		return -ENOENT;
	weights_rates(&models->weights, false, &rates);
	err = grouping_make(&grouping, &manifest->model, &rates);
	if (err) {
		grouping_clear(&grouping);
		return err;
	}
	holders = json_array();
	for (uint32_t i = 0; i < manifest->model.chunk_count; i++)
		json_array_append_new(holders,
				      holders_of(models, manifest->model.chunks[i].digest.bytes));
	err = message_memfd_json(json_pack(
		"{s:o, s:I, s:I, s:i, s:o, s:i, s:i, s:I, s:o, s:I, s:I, s:I, s:{s:f, s:f, s:f, s:f, s:f}, "
		"s:o}",
		"users", users_of(models, manifest), "uid", (json_int_t)model->access.uid, "gid", (json_int_t)model->access.gid, "mode",
		(int)model->access.mode,
		"manifest", model_manifest_tree(&manifest->model), "replicas",
		(int)model->replicas, "extra_replicas", (int)row->extra, "copies",
		(json_int_t)row->copies, "groups", groups_of(&grouping), "predicted_ns",
		(json_int_t)grouping.predicted_ns, "greedy_ns", (json_int_t)grouping.greedy_ns,
		"bound_ns", (json_int_t)grouping.bound_ns, "rates", "network",
		grouping.rates.network, "copy", grouping.rates.copy, "compute",
		grouping.rates.compute, "transfer_cost", grouping.rates.transfer_cost,
		"launch_cost", grouping.rates.launch_cost, "holders", holders));
	grouping_clear(&grouping);
	return err;
}
