// SPDX-License-Identifier: GPL-2.0-or-later
#include "models.h"

#include "../../catalog/tls.h"
#include "../common/log.h"
#include "../common/turns.h"
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

/* Once it is known who else is noted in the catalog. */
static void look_for_former(struct models *models)
{
	char former[CATALOG_HOST_LEN], fix[STATUS_FIX_LEN];

	if (models->former_looked_for || !models->joined ||
	    catalog_age_us(models->catalog) == UINT64_MAX)
		return;
	models->former_looked_for = true;
	if (status_former(models, former)[0])
		log_warning("host-renamed", LOG_S("host", models->chunks.host.name),
			    LOG_S("former", former),
			    LOG_S("fix", status_former_fix(former, fix)));
}

static void on_changed(void *arg)
{
	struct models *models = arg;

	look_for_former(models);
	if (models->donate.timer)
		donate_poke(&models->donate);
}

static void on_member(enum catalog_member_state state, const char *why, void *arg)
{
	struct models *models = arg;

	models->joined |= state == CATALOG_JOINED;
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

static void on_full(bool full, void *arg)
{
	(void)arg;
	if (full)
		log_warning("catalog-full",
			    LOG_S("reason", "this host holds as many chunks as the catalog can "
					    "note of one, and takes no more"),
			    LOG_S("fix", "have more hosts donate memory, or delete models"));
	else
		log_info("catalog-full-ended");
}

static void on_alarm(int alarm, const char *why, void *arg)
{
	struct models *models = arg;
	char fix[STATUS_FIX_LEN];

	if (alarm)
		log_warning("catalog-alarm", LOG_S("reason", why),
			    LOG_S("fix", status_alarm_fix(models, alarm, fix)));
	else
		log_info("catalog-alarm-ended", LOG_S("store", models->store));
}

/* Once for each, not for each pass that gives nothing up because of it. */
static void on_unreadable(const struct catalog_model *model, void *arg)
{
	char fix[STATUS_FIX_LEN];

	(void)arg;
	log_warning("model-unreadable", LOG_S("model", model->name),
		    LOG_S("upload", model->upload), LOG_S("reason", model->error),
		    LOG_S("effect", "no host gives up chunks that nobody needs any more"),
		    LOG_S("fix", status_unreadable_fix(model, fix)));
}

static void on_rdma(void *arg, bool up)
{
	struct models *models = arg;

	if (!up) {
		peers_reset(&models->peers);
		donate_disconnect(&models->donate);
	}
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

	int err;

	if (!config->etcd)
		return 0;
	err = catalog_etcd_check(config->endpoints, error);
	return err ? err : catalog_tls_check(&tls, error);
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

/* What the catalog has others do. */
struct catalog_errand {
	struct errand errand;
	void (*work)(void *job);
	void (*done)(void *job);
	void *job;
};

static void work_for_catalog(struct errand *errand)
{
	struct catalog_errand *aside = errand_in(errand, struct catalog_errand, errand);

	aside->work(aside->job);
}

static void done_for_catalog(struct errand *errand)
{
	struct catalog_errand *aside = errand_in(errand, struct catalog_errand, errand);

	turns_name("catalog: manifest");
	aside->done(aside->job);
	free(aside);
}

static int do_aside(void (*work)(void *job), void (*done)(void *job), void *job, void *arg)
{
	struct catalog_errand *aside = malloc(sizeof(*aside));
	struct models *models = arg;

	if (!aside)
		return -ENOMEM;
	*aside = (struct catalog_errand){
		.errand = { .work = work_for_catalog, .done = done_for_catalog },
		.work = work, .done = done, .job = job,
	};
	errands_add(models->errands, ERRANDS_DAEMON, &aside->errand);
	return 0;
}

static int open_catalog(struct models *models, const struct config_models *config)
{
	const struct catalog_options options = {
		.pool = config->pool, .list_ms = LIST_MS, .digests = manifests_learn,
		.dropped = manifests_drop, .aside = do_aside, .over = turns_over,
		.changed = on_changed, .member = on_member, .silent = on_silent,
		.answers = on_answers, .full = on_full, .alarm = on_alarm,
		.unreadable = on_unreadable, .arg = models,
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
	listings_init(&models->listings);
	/* From here on there are threads, which may be the first to use it. */
	json_object_seed(0);
	models->errands = errands_open(loop);
	if (!models->errands) {
		log_error("no-errands", LOG_S("reason", strerror(errno)));
		goto err_close;
	}
	manifests_use(models->errands);
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
	manifests_use(NULL);
	if (!errands_close(models->errands, END_MS))
		return;
	showings_close(&models->showings);
	survey_close(&models->survey);
	free(models);
}

int models_leave(struct models *models, catalog_done done, void *arg)
{
	return catalog_leave(models->catalog, done, arg);
}
