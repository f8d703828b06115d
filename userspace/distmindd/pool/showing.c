// SPDX-License-Identifier: GPL-2.0-or-later
#include "showing.h"

#include "../common/turn.h"
#include "../common/turns.h"
#include "models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_LOOKED 16 /* between two looks at the clock */

struct showing {
	struct exchange exchange;
	struct survey_wait wait;
	struct errand errand;
	struct models *models;
	uint64_t payer;
	enum { WAITS, LOOKS, WRITES } step;
	bool begun; /* of those of its payer in the queue, it is the one that is worked on */
	TAILQ_ENTRY(showing) link; /* LOOKS, WRITES */
	struct showing_stamp stamp;
	/* What is told; the errand's while it writes: */
	struct manifest *manifest; /* a reference */
	struct survey_model row;
	json_t *users;
	char (*hosts)[CATALOG_HOST_LEN];
	uint32_t host_count;
	/* Of chunk i: holders[starts[i]] to before holders[starts[i + 1]], numbers of hosts. */
	uint32_t *starts, *holders;
	size_t room;
	uint32_t next; /* chunk */
	struct answer *answer; /* a reference, if it could be made */
	int err;
};

static void destroy(struct showing *showing)
{
	manifest_put(showing->manifest);
	json_decref(showing->users);
	free(showing->hosts);
	free(showing->starts);
	free(showing->holders);
	free(showing);
}

static void fail(struct showing *showing, int err)
{
	client_refuse(showing->exchange.client, err, "model %s: %s",
		      showing->manifest->model.name, strerror(-err));
	destroy(showing);
}

/*
 * What was told before
 */

static void take_stamp(struct showing_stamp *stamp, struct models *models,
		       const struct catalog_model *model)
{
	/* Compared byte by byte. */
	memset(stamp, 0, sizeof(*stamp));
	memcpy(stamp->sha256, model->sha256, sizeof(stamp->sha256));
	stamp->revision = model->revision;
	stamp->catalog = catalog_changes(models->catalog);
	stamp->weights = models->weights.changes;
	weights_rates(&models->weights, false, &stamp->rates);
}

static struct answer *find_kept(const struct showings *showings, const struct showing_stamp *stamp)
{
	for (unsigned int i = 0; i < SHOWINGS_KEPT; i++)
		if (showings->kept[i].answer &&
		    !memcmp(&showings->kept[i].stamp, stamp, sizeof(*stamp)))
			return showings->kept[i].answer;
	return NULL;
}

/* Takes its reference. */
static void keep(struct showings *showings, const struct showing *showing)
{
	unsigned int which = showings->oldest++ % SHOWINGS_KEPT;

	answer_put(showings->kept[which].answer, showing->models->errands, showing->payer);
	showings->kept[which].stamp = showing->stamp;
	showings->kept[which].answer = showing->answer;
}

/*
 * Writing it, by an errand
 */

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

static json_t *holders_of(const struct showing *showing, json_t **names)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < showing->manifest->model.chunk_count; i++) {
		json_t *list = json_array();

		for (uint32_t j = showing->starts[i]; j < showing->starts[i + 1]; j++)
			json_array_append(list, names[showing->holders[j]]);
		json_array_append_new(all, list);
	}
	return all;
}

/* NULL: no memory. */
static json_t *name_holders(const struct showing *showing)
{
	json_t **names = calloc(showing->host_count + 1, sizeof(*names)), *holders;

	if (!names)
		return NULL;
	for (uint32_t i = 0; i < showing->host_count; i++)
		names[i] = json_string(showing->hosts[i]);
	holders = holders_of(showing, names);
	for (uint32_t i = 0; i < showing->host_count; i++)
		json_decref(names[i]);
	free(names);
	return holders;
}

static void write_answer(struct errand *errand)
{
	struct showing *showing = errand_in(errand, struct showing, errand);
	const struct survey_model *row = &showing->row;
	struct grouping grouping;
	json_t *users = showing->users;
	int err;

	err = grouping_take(&grouping, &showing->manifest->groupings, &showing->manifest->model,
			    &showing->stamp.rates);
	if (err) {
		grouping_clear(&grouping);
		showing->err = err;
		return;
	}
	showing->users = NULL;
	showing->err = answer_make(&showing->answer, json_pack(
		"{s:o, s:I, s:I, s:i, s:o, s:i, s:i, s:I, s:o, s:I, s:I, s:I, s:{s:f, s:f, s:f, s:f, "
		"s:f}, s:o}",
		"users", users, "uid", (json_int_t)row->access.uid, "gid",
		(json_int_t)row->access.gid, "mode", (int)row->access.mode, "manifest",
		model_manifest_tree(&showing->manifest->model), "replicas", (int)row->replicas,
		"extra_replicas", (int)row->extra, "copies", (json_int_t)row->copies, "groups",
		groups_of(&grouping), "predicted_ns", (json_int_t)grouping.predicted_ns,
		"greedy_ns", (json_int_t)grouping.greedy_ns, "bound_ns",
		(json_int_t)grouping.bound_ns, "rates", "network", grouping.rates.network, "copy",
		grouping.rates.copy, "compute", grouping.rates.compute, "transfer_cost",
		grouping.rates.transfer_cost, "launch_cost", grouping.rates.launch_cost, "holders",
		name_holders(showing)));
	grouping_clear(&grouping);
}

static void on_written(struct errand *errand)
{
	struct showing *showing = errand_in(errand, struct showing, errand);
	struct showings *showings = &showing->models->showings;

	turns_name("show: answer");
	TAILQ_REMOVE(&showings->queue, showing, link);
	/* Others of its payer may have waited for it. */
	sd_event_source_set_enabled(showings->turn, SD_EVENT_ON);
	if (showing->err) {
		fail(showing, showing->err);
		return;
	}
	client_lend(showing->exchange.client, showing->answer);
	keep(showings, showing);
	destroy(showing);
}

/*
 * Who holds its chunks
 */

/* Holders come in the same order again and again. */
static int number_host(struct showing *showing, const char *host, uint32_t hint, uint32_t *number)
{
	void *hosts;

	for (uint32_t i = 0; i < showing->host_count; i++) {
		*number = (i + hint) % showing->host_count;
		if (!strcmp(showing->hosts[*number], host))
			return 0;
	}
	hosts = reallocarray(showing->hosts, showing->host_count + 1, sizeof(*showing->hosts));
	if (!hosts)
		return -ENOMEM;
	showing->hosts = hosts;
	snprintf(showing->hosts[showing->host_count], CATALOG_HOST_LEN, "%s", host);
	*number = showing->host_count++;
	return 0;
}

static int look_at(struct showing *showing, uint32_t chunk)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	const uint8_t *digest = showing->manifest->model.chunks[chunk].digest.bytes;
	size_t count = catalog_chunk_holders(showing->models->catalog, digest, holders,
					     CATALOG_REPLICAS_MAX);
	uint32_t at = showing->starts[chunk], last = 0;
	void *more;

	if (at + CATALOG_REPLICAS_MAX > showing->room) {
		size_t room = 2 * (at + CATALOG_REPLICAS_MAX);

		more = reallocarray(showing->holders, room, sizeof(*showing->holders));
		if (!more)
			return -ENOMEM;
		showing->holders = more;
		showing->room = room;
	}
	for (size_t i = 0; i < count && i < CATALOG_REPLICAS_MAX; i++) {
		if (!holders[i].live)
			continue;
		if (number_host(showing, holders[i].host, last, &last))
			return -ENOMEM;
		showing->holders[at++] = last;
	}
	showing->starts[chunk + 1] = at;
	return 0;
}

/* 0: all is seen; 1: there is more, for another turn. */
static int look(struct showing *showing)
{
	uint32_t count = showing->manifest->model.chunk_count;
	int err;

	while (showing->next < count) {
		if (showing->next % CHUNKS_LOOKED == CHUNKS_LOOKED - 1 && turns_over()) {
			/* The next turn begins behind it. */
			err = look_at(showing, showing->next++);
			return err ? err : 1;
		}
		err = look_at(showing, showing->next++);
		if (err)
			return err;
	}
	return 0;
}

/* Does it have to wait for another one of the same user? */
static bool is_behind(const struct showings *showings, const struct showing *showing)
{
	const struct showing *other;

	TAILQ_FOREACH(other, &showings->queue, link)
		if (other != showing && other->payer == showing->payer && other->begun)
			return true;
	return false;
}

static int on_turn(sd_event_source *source, uint64_t us, void *arg)
{
	struct showings *showings = arg;
	struct showing *showing;
	struct answer *kept;
	int ret;

	(void)source;
	(void)us;
	turns_name("show: holders");
	TAILQ_FOREACH(showing, &showings->queue, link)
		if (showing->step == LOOKS && (showing->begun || !is_behind(showings, showing)))
			break;
	if (!showing) {
		sd_event_source_set_enabled(showings->turn, SD_EVENT_OFF);
		return 0;
	}
	/* While it waited, the same may have been made for another. */
	kept = showing->begun ? NULL : find_kept(showings, &showing->stamp);
	if (kept) {
		TAILQ_REMOVE(&showings->queue, showing, link);
		client_lend(showing->exchange.client, kept);
		destroy(showing);
		return 0;
	}
	showing->begun = true;
	ret = look(showing);
	/* Those of others come first. */
	TAILQ_REMOVE(&showings->queue, showing, link);
	if (ret < 0) {
		fail(showing, ret);
		return 0;
	}
	TAILQ_INSERT_TAIL(&showings->queue, showing, link);
	if (!ret) {
		showing->step = WRITES;
		showing->errand = (struct errand){ .work = write_answer, .done = on_written };
		errands_add(showing->models->errands, showing->payer, &showing->errand);
	}
	return 0;
}

/*
 * The beginning
 */

static void tell_user(const struct weights_user *user, void *arg)
{
	json_array_append_new(arg, json_pack("{s:I, s:I, s:I, s:I, s:b}", "gpu",
					     (json_int_t)user->gpu, "vgpu", (json_int_t)user->vgpu,
					     "uid", (json_int_t)user->uid, "uses",
					     (json_int_t)user->uses, "loading", user->loading));
}

static void on_survey(struct survey_wait *wait, int err)
{
	struct showing *showing = (struct showing *)((char *)wait -
						     offsetof(struct showing, wait));
	struct models *models = showing->models;
	const struct catalog_model *model;
	const struct survey_model *row;

	model = catalog_model_find(models->catalog, showing->manifest->model.name);
	row = !err && model ? survey_find(&models->survey, model) : NULL;
	/* It went meanwhile, or is another. */
	if (!err && (!row || row->manifest != showing->manifest))
		err = model ? -EAGAIN : -ENOENT;
	if (!err) {
		take_stamp(&showing->stamp, models, model);
		showing->row = *row;
		showing->users = json_array();
		showing->starts = calloc((size_t)showing->manifest->model.chunk_count + 1,
					 sizeof(*showing->starts));
		err = showing->users && showing->starts ? 0 : -ENOMEM;
	}
	if (err) {
		fail(showing, err);
		return;
	}
	weights_each_user(&models->weights, showing->manifest, tell_user, showing->users);
	showing->step = LOOKS;
	TAILQ_INSERT_TAIL(&models->showings.queue, showing, link);
	sd_event_source_set_enabled(models->showings.turn, SD_EVENT_ON);
}

static void on_gone(struct exchange *exchange)
{
	struct showing *showing = (struct showing *)exchange;

	/* What is being written is kept for the next one who asks. */
	if (showing->step == WRITES)
		return;
	if (showing->step == WAITS)
		survey_forget(&showing->models->survey, &showing->wait);
	else
		TAILQ_REMOVE(&showing->models->showings.queue, showing, link);
	destroy(showing);
}

void showing_begin(struct client *client, const struct catalog_model *model,
		   struct manifest *manifest)
{
	struct models *models = client->models;
	struct showing_stamp stamp;
	struct showing *showing;
	struct answer *kept;

	take_stamp(&stamp, models, model);
	kept = find_kept(&models->showings, &stamp);
	if (kept) {
		client_lend(client, kept);
		return;
	}
	showing = calloc(1, sizeof(*showing));
	if (!showing) {
		client_refuse(client, -ENOMEM, "out of memory");
		return;
	}
	showing->models = models;
	showing->payer = client->payer;
	showing->manifest = manifest_get(manifest);
	showing->exchange.gone = on_gone;
	showing->wait.ready = on_survey;
	client_begin(client, &showing->exchange);
	survey_ask(&models->survey, &showing->wait);
}

int showings_open(struct showings *showings, sd_event *loop)
{
	int err;

	*showings = (struct showings){ 0 };
	TAILQ_INIT(&showings->queue);
	err = turn_begin(loop, &showings->turn, on_turn, showings);
	if (!err)
		sd_event_source_set_enabled(showings->turn, SD_EVENT_OFF);
	return err;
}

void showings_close(struct showings *showings)
{
	sd_event_source_disable_unref(showings->turn);
	for (unsigned int i = 0; i < SHOWINGS_KEPT; i++)
		answer_put(showings->kept[i].answer, NULL, 0);
	*showings = (struct showings){ 0 };
}
