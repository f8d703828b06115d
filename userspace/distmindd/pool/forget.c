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
	char host[CATALOG_HOST_LEN];
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

static void on_done(const struct catalog_result *result, void *arg)
{
	struct forget *forget = arg;
	json_t *lost;

	if (result->err) {
		refuse(forget, result);
	} else {
		lost = json_array();
		for (size_t i = 0; i < result->count; i++)
			json_array_append_new(lost, json_string(result->entries[i].key));
		log_info("host-forgotten", LOG_S("host", forget->host),
			 LOG_U("models-that-lost-chunks", result->count));
		client_answer(forget->exchange.client, json_pack("{s:o}", "lost_models", lost),
			      NULL, 0);
	}
	free(forget);
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
	client_begin(client, &forget->exchange);
	err = catalog_host_forget(client->models->catalog, host, force, on_done, forget);
	if (!err)
		return;
	client_refuse(client, err, "host: %s",
		      err == -EINVAL ? "this is not a name: see distmindctl host list" :
				       strerror(-err));
	free(forget);
}
