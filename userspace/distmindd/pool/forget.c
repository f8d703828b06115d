// SPDX-License-Identifier: GPL-2.0-or-later
#include "forget.h"

#include "../common/log.h"
#include "models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MAX 8 /* models, in an error */

struct forget {
	struct exchange exchange;
	struct models *models;
	uint64_t payer;
	char host[CATALOG_HOST_LEN];
	/* What is told; the errand's while it writes: */
	struct errand errand;
	json_t *lost; /* names of models */
	struct answer *answer; /* a reference, if it could be made */
	int err;
};

/* "a, b and 3 more" */
static void name_models(const struct catalog_result *result, char *text, size_t room)
{
	size_t named = result->count < NAMED_MAX ? result->count : NAMED_MAX;
	size_t len = 0;

	for (size_t i = 0; i < named && len < room; i++)
		len += (size_t)snprintf(text + len, room - len, "%s%s", i ? ", " : "",
					result->entries[i].key);
	if (named < result->count && len < room)
		snprintf(text + len, room - len, " and %zu more", result->count - named);
}

static void refuse(struct forget *forget, const struct catalog_result *result)
{
	struct client *client = forget->exchange.client;
	char models[NAMED_MAX * CATALOG_MODEL_LEN] = "";

	if (result->err != -ENOTEMPTY) {
		client_refuse(client, result->err, "%s", result->error);
		return;
	}
	name_models(result, models, sizeof(models));
	client_refuse(client, result->err,
		      "only host %s has some chunks of %s: say --force to lose them", forget->host,
		      models);
}

/*
 * There may be more names than a message has room for, and when they are told the host is
 * forgotten already: so they are lent as lists are, and logged. Without memory for that it is
 * told how many there are.
 */

static void log_lost(const struct forget *forget)
{
	size_t count = json_array_size(forget->lost);

	log_info("host-forgotten", LOG_S("host", forget->host),
		 LOG_U("models-that-lost-chunks", count));
	for (size_t i = 0; i < count; i++)
		log_warning("model-lost-chunks", LOG_S("host", forget->host),
			    LOG_S("model", json_string_value(json_array_get(forget->lost, i))));
}

static void write_answer(struct errand *errand)
{
	struct forget *forget = errand_in(errand, struct forget, errand);

	log_lost(forget);
	forget->err = answer_make(&forget->answer,
				  json_pack("{s:O}", "lost_models", forget->lost));
}

static void on_written(struct errand *errand)
{
	struct forget *forget = errand_in(errand, struct forget, errand);

	if (!forget->err) {
		client_lend(forget->exchange.client, forget->answer);
		answer_put(forget->answer, forget->models->errands, forget->payer);
	} else {
		client_answer(forget->exchange.client,
			      json_pack("{s:I}", "lost_count",
					(json_int_t)json_array_size(forget->lost)),
			      NULL, 0);
	}
	json_decref(forget->lost);
	free(forget);
}

static void on_done(const struct catalog_result *result, void *arg)
{
	struct forget *forget = arg;

	if (result->err) {
		refuse(forget, result);
		free(forget);
		return;
	}
	forget->lost = json_array();
	for (size_t i = 0; i < result->count; i++)
		json_array_append_new(forget->lost, json_string(result->entries[i].key));
	forget->errand = (struct errand){ .work = write_answer, .done = on_written };
	errands_add(forget->models->errands, forget->payer, &forget->errand);
}

void forget_begin(struct client *client, const char *host, bool force)
{
	struct forget *forget = calloc(1, sizeof(*forget));
	int err;

	if (!forget) {
		client_refuse(client, -ENOMEM, "out of memory");
		return;
	}
	snprintf(forget->host, sizeof(forget->host), "%s", host);
	forget->models = client->models;
	forget->payer = client->payer;
	client_begin(client, &forget->exchange);
	err = catalog_host_forget(client->models->catalog, host, force, on_done, forget);
	if (!err)
		return;
	client_refuse(client, err, "host: %s",
		      err == -EINVAL ? "this is not a name: see distmindctl host list" :
				       strerror(-err));
	free(forget);
}
