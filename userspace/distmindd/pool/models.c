// SPDX-License-Identifier: GPL-2.0-or-later
#include "models.h"

#include "../../catalog/tls.h"
#include "../common/log.h"
#include "rdma.h"
#include "status.h"
#include "verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LIST_MS 5000
#define ETCD_MS 2000
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

static void on_silent(const char *why, void *arg)
{
	struct models *models = arg;
	char fix[STATUS_FIX_LEN];

	log_warning("catalog-silent", LOG_S("reason", why),
		    LOG_S("fix", status_catalog_fix(models, fix)));
}

static void on_answers(uint64_t silent_us, void *arg)
{
	(void)arg;
	log_info("catalog-answers", LOG_U("silent_ms", silent_us / 1000));
}

static void on_rdma(void *arg, bool up)
{
	struct models *models = arg;

	if (!up)
		peers_reset(&models->peers);
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
		.changed = on_changed, .member = on_member, .silent = on_silent,
		.answers = on_answers, .arg = models,
	};
	char error[CATALOG_ERROR_LEN] = "";
	struct catalog_store *store = open_store(models->loop, config, error);
	int err;

	models->etcd = config->etcd;
	snprintf(models->store, sizeof(models->store), "%s",
		 config->etcd ? config->endpoints : config->catalog);
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
	/* From here on there are threads, which may be the first to use it. */
	json_object_seed(0);
	models->errands = errands_open(loop);
	if (!models->errands) {
		log_error("no-errands", LOG_S("reason", strerror(errno)));
		goto err_close;
	}
	if (chunks_open(&models->chunks, loop, config) || open_catalog(models, config))
		goto err_close;
	peers_open(&models->peers, &models->chunks);
	rdma_watch(&models->chunks, on_rdma, models);
	heat_init(&models->heat, config->hot_half_life_us);
	if (survey_open(&models->survey, loop, models->catalog) ||
	    showings_open(&models->showings, loop) ||
	    weights_open(&models->weights, loop, kernel, &models->chunks, &models->peers,
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
	/* What is left then goes with the process, and so does what it needs. */
	if (!errands_close(models->errands, END_MS))
		return;
	showings_close(&models->showings);
	survey_close(&models->survey);
	manifests_sweep(NULL);
	free(models);
}

int models_leave(struct models *models, catalog_done done, void *arg)
{
	return catalog_leave(models->catalog, done, arg);
}
