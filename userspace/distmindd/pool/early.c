// SPDX-License-Identifier: GPL-2.0-or-later
#include "early.h"

#include "../common/turns.h"
#include "models.h"
#include "rdma.h"
#include "status.h"

#include "../../common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LOOK_US 20000
#define ACCURACY_US 5000

/* Belongs to its timer, and ends with the exchange. */
struct early {
	struct exchange exchange;
	struct models *models;
	json_t *body;
	void (*begin)(struct client *client, struct message *message);
	sd_event_source *timer;
	uint64_t until_us;
};

static bool is_early(const struct models *models)
{
	if (catalog_age_us(models->catalog) == UINT64_MAX)
		return true;
	return !models->joined && catalog_member_state(models->catalog) != CATALOG_FENCED;
}

/* A model that has been seen for the first time is known a moment later. */
static bool is_unread(const struct models *models, const json_t *body)
{
	const char *name = json_string_value(json_object_get(body, "model"));
	const struct catalog_model *model;

	model = name && model_name_valid(name) ? catalog_model_find(models->catalog, name) : NULL;
	return model && !model->known && !model->error[0];
}

const char *early_reason(const struct models *models, char reason[EARLY_REASON_LEN])
{
	const char *trouble = catalog_member_trouble(models->catalog);
	char fix[STATUS_FIX_LEN];

	if (!trouble[0])
		trouble = catalog_trouble(models->catalog);
	if (trouble[0])
		snprintf(reason, EARLY_REASON_LEN, "this host has not joined the pool: %s: %s",
			 trouble, status_catalog_fix(models, fix));
	else
		snprintf(reason, EARLY_REASON_LEN,
			 "this host has not joined the pool yet: it has just started, and %s: "
			 "try again soon, or see distmindctl doctor",
			 rdma_looked(&models->chunks) ? "waits for the catalog" :
							"opens its RDMA device");
	return reason;
}

static void early_end(struct early *early)
{
	sd_event_source_disable_unref(early->timer);
	json_decref(early->body);
	free(early);
}

static void on_gone(struct exchange *exchange)
{
	early_end((struct early *)exchange);
}

static void refuse(struct early *early)
{
	char reason[EARLY_REASON_LEN] = "its manifest is still being read: try again";
	const char *name = json_string_value(json_object_get(early->body, "model"));
	bool joining = is_early(early->models);

	if (joining)
		early_reason(early->models, reason);
	client_refuse(early->exchange.client, joining ? -ENOTCONN : -EAGAIN, "model %s: %s",
		      name ? name : "?", reason);
}

static int on_look(sd_event_source *source, uint64_t us, void *arg)
{
	struct early *early = arg;
	struct client *client = early->exchange.client;
	struct message message = { .body = early->body };
	int err;

	(void)us;
	turns_name("early");
	if (!is_early(early->models) && !is_unread(early->models, early->body)) {
		client->exchange = NULL;
		early->begin(client, &message);
		early_end(early);
		return 0;
	}
	if (clock_us() >= early->until_us) {
		refuse(early);
		early_end(early);
		return 0;
	}
	err = sd_event_source_set_time_relative(source, LOOK_US);
	return err < 0 ? err : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* Not longer than the client would wait for a load. */
static uint64_t patience_us(const json_t *body)
{
	json_int_t deadline_ms = json_integer_value(json_object_get(body, "deadline_ms"));

	return deadline_ms > 0 && deadline_ms < EARLY_WAIT_US / 1000 ?
		       (uint64_t)deadline_ms * 1000 : EARLY_WAIT_US;
}

bool early_wait(struct client *client, struct message *message,
		void (*begin)(struct client *client, struct message *message))
{
	struct models *models = client->models;
	struct early *early;

	if (message->fd_count || (!is_early(models) && !is_unread(models, message->body)))
		return false;
	early = calloc(1, sizeof(*early));
	if (!early)
		return false;
	early->models = models;
	early->begin = begin;
	early->until_us = clock_us() + patience_us(message->body);
	early->exchange.gone = on_gone;
	if (sd_event_add_time_relative(models->loop, &early->timer, CLOCK_MONOTONIC, LOOK_US,
				       ACCURACY_US, on_look, early) < 0) {
		free(early);
		return false;
	}
	early->body = json_incref(message->body);
	client_begin(client, &early->exchange);
	return true;
}
