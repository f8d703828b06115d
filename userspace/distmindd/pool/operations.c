// SPDX-License-Identifier: GPL-2.0-or-later
#include "operations.h"

#include "../../libdistmind/service.h"
#include "early.h"
#include "forget.h"
#include "listing.h"
#include "../common/turns.h"
#include "models.h"
#include "push.h"
#include "status.h"
#include "verify.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS 60000
#define DEADLINE_MAX_MS 3600000

/*
 * Fields
 */

/* NULL: the client has been told. */
static const char *model_name(struct client *client, const json_t *body)
{
	const char *name = json_string_value(json_object_get(body, "model"));

	if (name && model_name_valid(name))
		return name;
	client_refuse(client, -EINVAL,
		      "model: %s is not a name: write up to %d letters, digits, '.', '_' and '-', "
		      "beginning with a letter or a digit",
		      name ? "this" : "nothing", MODEL_NAME_MAX);
	return NULL;
}

/* False: the client has been told. Without the field it is what it was. */
static bool number(struct client *client, const json_t *body, const char *field, uint64_t min,
		   uint64_t max, bool required, uint64_t *value)
{
	const json_t *given = json_object_get(body, field);
	json_int_t read = json_integer_value(given);

	if (!given && !required)
		return true;
	if (json_is_integer(given) && read >= 0 && (uint64_t)read >= min && (uint64_t)read <= max) {
		*value = (uint64_t)read;
		return true;
	}
	client_refuse(client, -EINVAL, "%s: a number from %llu to %llu is needed", field,
		      (unsigned long long)min, (unsigned long long)max);
	return false;
}

static bool boolean(struct client *client, const json_t *body, const char *field, bool *value)
{
	const json_t *given = json_object_get(body, field);

	if (given && !json_is_boolean(given)) {
		client_refuse(client, -EINVAL, "%s: true or false is needed", field);
		return false;
	}
	*value = json_is_true(given);
	return true;
}

/* One of several words, the first one if it is not given; negative: has been told. */
static int word(struct client *client, const json_t *body, const char *field,
		const char *const *words)
{
	const json_t *given = json_object_get(body, field);
	const char *text = json_string_value(given);

	for (int i = 0; words[i]; i++)
		if (!given || (text && !strcmp(text, words[i])))
			return i;
	client_refuse(client, -EINVAL, "%s: there is no such choice: write %s", field, words[0]);
	return -EINVAL;
}

/* Why a user may not do that with a model; error has room for CATALOG_ERROR_LEN. */
static void explain_denial(const struct access_user *user, const struct catalog_model *model,
			   enum access_right right, char *error)
{
	snprintf(error, CATALOG_ERROR_LEN,
		 "user %u may not %s it: it belongs to user %u, who can change that with "
		 "distmindctl model chmod",
		 user->uid, right == ACCESS_READ ? "read" : "change", model->access.uid);
}

/* One that is there, not an upload, and that the client may do that with. NULL: has been told. */
static const struct catalog_model *model_of(struct client *client, const json_t *body,
					    enum access_right right)
{
	const char *name = model_name(client, body);
	const struct catalog_model *model;
	char error[CATALOG_ERROR_LEN];

	if (!name)
		return NULL;
	model = catalog_model_find(client->models->catalog, name);
	if (!model) {
		client_refuse(client, -ENOENT, "model: there is no model %s: see distmindctl model "
					       "list",
			      name);
		return NULL;
	}
	if (access_allows(&client->user, &model->access, right))
		return model;
	explain_denial(&client->user, model, right, error);
	client_refuse(client, -EACCES, "model %s: %s", name, error);
	return NULL;
}

/* Of one that the client may read. NULL: has been told. */
static struct manifest *manifest_of(struct client *client, const json_t *body)
{
	const struct catalog_model *model = model_of(client, body, ACCESS_READ);
	struct manifest *manifest;

	if (!model)
		return NULL;
	manifest = manifests_find(model);
	if (!manifest)
		client_refuse(client, model->error[0] ? -EBADMSG : -EAGAIN, "model %s: %s",
			      model->name,
			      model->error[0] ? model->error :
						"its manifest is still being read: try again");
	return manifest;
}

/*
 * Operations
 */

static void do_list(struct client *client, struct message *message)
{
	(void)message;
	listing_begin(client);
}

static void do_show(struct client *client, struct message *message)
{
	const char *name = json_string_value(json_object_get(message->body, "model"));
	struct manifest *manifest = manifest_of(client, message->body);

	if (manifest)
		showing_begin(client, catalog_model_find(client->models->catalog, name), manifest);
}

/* What is not given stays. False: the client has been told. */
static bool read_access(struct client *client, const json_t *body, struct catalog_access *access)
{
	uint64_t uid = access->uid, gid = access->gid, mode = access->mode;

	if (!number(client, body, "uid", 0, UINT32_MAX - 1, false, &uid) ||
	    !number(client, body, "gid", 0, UINT32_MAX - 1, false, &gid) ||
	    !number(client, body, "mode", 0, CATALOG_MODE_ALL, false, &mode))
		return false;
	if (mode & ~(uint64_t)CATALOG_MODE_ALL) {
		client_refuse(client, -EINVAL, "mode: only the rights to read and to write (0666)");
		return false;
	}
	*access = (struct catalog_access){
		.uid = (uint32_t)uid, .gid = (uint32_t)gid, .mode = (unsigned int)mode,
	};
	return true;
}

static void do_push(struct client *client, struct message *message)
{
	const char *name = model_name(client, message->body);
	struct catalog_access access = CATALOG_ACCESS_DEFAULT;
	uint64_t replicas = 1;

	access.uid = client->user.uid;
	access.gid = client->user.gid;
	if (!name || !read_access(client, message->body, &access) ||
	    !number(client, message->body, "replicas", 1, DISTMIND_SERVICE_REPLICAS_MAX, false,
		    &replicas))
		return;
	if (message->fd_count != 1)
		client_refuse(client, -EINVAL, "a memfd with the manifest is needed");
	else if (client->push)
		client_refuse(client, -EBUSY, "another push is under way on this connection");
	else
		push_begin(client, name, (uint32_t)replicas, &access, message->fds[0]);
}

static void do_room(struct client *client, struct message *message)
{
	uint64_t bytes;

	if (number(client, message->body, "bytes", 0, INT64_MAX, true, &bytes))
		push_room(client, bytes);
}

static void do_chunk(struct client *client, struct message *message)
{
	uint64_t first, count;

	if (!number(client, message->body, "first", 0, UINT32_MAX, true, &first) ||
	    !number(client, message->body, "count", 1, UINT32_MAX, true, &count))
		return;
	if (!client->push)
		client_refuse(client, -EINVAL, "no push is under way on this connection");
	else if (message->fd_count != 1)
		client_refuse(client, -EINVAL, "a memfd with the bytes is needed");
	else
		push_chunk(client, (uint32_t)first, (uint32_t)count, message->fds[0]);
}

static void do_commit(struct client *client, struct message *message)
{
	(void)message;
	if (!client->push)
		client_refuse(client, -EINVAL, "no push is under way on this connection");
	else
		push_commit(client);
}

/* A change of the catalog that somebody waits for. */
struct change {
	struct exchange exchange;
	struct models *models;
	struct survey_wait wait; /* of one that deletes, for what that frees */
	uint64_t revision; /* of what is deleted; 0: whatever it is by then */
	uint64_t freed;
	bool deletes;
	struct catalog_model_change wanted; /* of one that does not delete */
	char model[MODEL_NAME_MAX + 1];
};

static void on_changed(const struct catalog_result *result, void *arg)
{
	struct change *change = arg;
	uint32_t busy;

	if (result->err) {
		client_refuse(change->exchange.client, result->err, "model %s: %s", change->model,
			      result->error);
	} else if (change->deletes) {
		weights_evict(&change->models->weights, change->model, DISTMIND_GPU_NONE, &busy);
		client_answer(change->exchange.client,
			      json_pack("{s:I}", "freed_bytes", (json_int_t)change->freed), NULL,
			      0);
	} else {
		client_answer(change->exchange.client, json_object(), NULL, 0);
	}
	if (result->err != -ECANCELED)
		donate_poke(&change->models->donate);
	free(change);
}

static struct change *change_begin(struct client *client, const char *model)
{
	struct change *change = calloc(1, sizeof(*change));

	if (!change) {
		client_refuse(client, -ENOMEM, "out of memory");
		return NULL;
	}
	change->models = client->models;
	strcpy(change->model, model);
	client_begin(client, &change->exchange);
	return change;
}

static void change_done(struct change *change, int err)
{
	if (!err)
		return;
	client_refuse(change->exchange.client, err, "model %s: %s", change->model, strerror(-err));
	free(change);
}

static void on_survey(struct survey_wait *wait, int err)
{
	struct change *change = (struct change *)((char *)wait - offsetof(struct change, wait));
	struct catalog *catalog = change->models->catalog;
	const struct catalog_model *model = catalog_model_find(catalog, change->model);
	const struct survey_model *row;

	/* One whose manifest cannot be read can be deleted all the same. */
	row = !err && model ? survey_find(&change->models->survey, model) : NULL;
	change->exchange.gone = NULL;
	change->freed = row ? row->own : 0;
	change_done(change, catalog_model_delete(catalog, change->model, change->revision,
						 on_changed, change));
}

static void on_change_gone(struct exchange *exchange)
{
	struct change *change = (struct change *)exchange;

	survey_forget(&change->models->survey, &change->wait);
	free(change);
}

static void do_delete(struct client *client, struct message *message)
{
	const struct catalog_model *model = model_of(client, message->body, ACCESS_WRITE);
	struct change *change;

	change = model ? change_begin(client, model->name) : NULL;
	if (!change)
		return;
	change->deletes = true;
	/* It may be another by the time, and then somebody else's: that one stays. */
	change->revision = client->user.uid ? model->revision : 0;
	change->exchange.gone = on_change_gone;
	change->wait.ready = on_survey;
	survey_ask(&change->models->survey, &change->wait);
}

/*
 * Whoever may change a model is decided by the record that is changed, when it is: by this
 * host's copy of it a former owner would still be allowed to.
 */

/* NULL: nobody is there any more whose right to the change could be judged. */
static const struct access_user *user_of(const struct change *change)
{
	return change->exchange.client ? &change->exchange.client->user : NULL;
}

static int allows_replicas(const struct catalog_model *model, char *error, void *arg)
{
	const struct access_user *user = user_of(arg);

	if (!user)
		return -ECANCELED;
	if (access_allows(user, &model->access, ACCESS_WRITE))
		return 0;
	explain_denial(user, model, ACCESS_WRITE, error);
	return -EACCES;
}

/* The owner decides on the mode, root on all of it. */
static int allows_access(const struct catalog_model *model, char *error, void *arg)
{
	const struct access_user *user = user_of(arg);
	const struct catalog_model_change *wanted = &((struct change *)arg)->wanted;

	if (!user)
		return -ECANCELED;
	if (!user->uid || (user->uid == model->access.uid &&
			   (!wanted->sets_uid || wanted->access.uid == model->access.uid) &&
			   (!wanted->sets_gid || wanted->access.gid == model->access.gid)))
		return 0;
	snprintf(error, CATALOG_ERROR_LEN,
		 "its mode is for its owner to change, user %u, and owner and group for root",
		 model->access.uid);
	return -EPERM;
}

static void change_record(struct client *client, const char *model,
			  const struct catalog_model_change *wanted)
{
	struct change *change = change_begin(client, model);

	if (!change)
		return;
	change->wanted = *wanted;
	change_done(change, catalog_model_change(client->models->catalog, model, &change->wanted,
						 on_changed, change));
}

static void do_replicas(struct client *client, struct message *message)
{
	struct catalog_model_change wanted = { .allows = allows_replicas };
	const char *name;
	uint64_t replicas;

	if (!number(client, message->body, "replicas", 1, DISTMIND_SERVICE_REPLICAS_MAX, true,
		    &replicas))
		return;
	wanted.replicas = (unsigned int)replicas;
	name = model_name(client, message->body);
	if (name)
		change_record(client, name, &wanted);
}

static void do_access(struct client *client, struct message *message)
{
	const char *name = model_name(client, message->body);
	struct catalog_model_change wanted = {
		.sets_uid = json_object_get(message->body, "uid"),
		.sets_gid = json_object_get(message->body, "gid"),
		.sets_mode = json_object_get(message->body, "mode"),
		.allows = allows_access,
	};

	if (name && read_access(client, message->body, &wanted.access))
		change_record(client, name, &wanted);
}

static void do_verify(struct client *client, struct message *message)
{
	struct manifest *manifest = manifest_of(client, message->body);

	if (manifest)
		verify_begin(client, manifest);
}

/* What a vgpu must have left to use it. */
static void do_size(struct client *client, struct message *message)
{
	struct manifest *manifest = manifest_of(client, message->body);

	if (manifest)
		client_answer(client,
			      json_pack("{s:I}", "size",
					(json_int_t)resident_quota(&manifest->model, false, false)),
			      NULL, 0);
}

/* A vgpu that the client may use, its gpu and what is left of its quota; false: has been told. */
static bool read_vgpu(struct client *client, uint32_t id, struct weights_request *request)
{
	struct distmind_vgpu_record vgpu;
	int err = distmind_pool_vgpu(client->models->kernel, id, &vgpu);

	if (!err && client->user.uid && vgpu.uid != client->user.uid)
		err = -EPERM;
	if (err) {
		client_refuse(client, err, "vgpu: %u is %s", id,
			      err == -EPERM ? "somebody else's: use one of your own" :
					      "not there: see distmindctl vgpu list");
		return false;
	}
	if (vgpu.state != DISTMIND_VGPU_STATE_BOUND) {
		client_refuse(client, -ENXIO, "vgpu: no gpu backs %u at the moment: try again", id);
		return false;
	}
	request->gpu = vgpu.gpu;
	request->vgpu = id;
	request->uid = vgpu.uid;
	request->quota = vgpu.memory > vgpu.memory_used ? vgpu.memory - vgpu.memory_used : 0;
	return true;
}

static bool read_load(struct client *client, const json_t *body, struct weights_request *request)
{
	static const char *const classes[] = { "latency", "background", NULL };
	static const char *const forms[] = { "auto", "direct", "staged", NULL };
	uint64_t deadline = DEADLINE_MS;
	int class, form;

	class = word(client, body, "class", classes);
	if (class < 0)
		return false;
	form = word(client, body, "form", forms);
	if (form < 0 ||
	    !number(client, body, "deadline_ms", 1, DEADLINE_MAX_MS, false, &deadline) ||
	    !number(client, body, "compute_ns", 0, INT64_MAX / 1000, false,
		    &request->compute_ns) ||
	    !boolean(client, body, "verify", &request->load.verify) ||
	    !boolean(client, body, "wait", &request->wait))
		return false;
	request->load.class = class ? MEMORY_BACKGROUND : MEMORY_LATENCY;
	request->load.staged = form == 2;
	request->load.deadline_ns = deadline * 1000000;
	return true;
}

static void do_load(struct client *client, struct message *message)
{
	struct weights_request request = { 0 };
	const char *reason;
	uint64_t vgpu;
	int state;

	state = client->use ? weights_use_state(client->use, &reason) : 0;
	if (state && state != -EAGAIN) {
		weights_use_end(client->use);
		client->use = NULL;
	}
	if (client->use) {
		client_refuse(client, -EBUSY, "this connection is the use of a model already: open "
					      "another one");
		return;
	}
	request.manifest = manifest_of(client, message->body);
	if (request.manifest &&
	    number(client, message->body, "vgpu", 0, UINT32_MAX, true, &vgpu) &&
	    read_load(client, message->body, &request) &&
	    read_vgpu(client, (uint32_t)vgpu, &request))
		weights_load(&client->models->weights, client, &request);
}

/* Of the load whose use this connection is. */
static void do_state(struct client *client, struct message *message)
{
	const char *reason = "this connection is not the use of a model: load one first";
	int state = client->use ? weights_use_state(client->use, &reason) : -ENOENT;

	(void)message;
	if (state && state != -EAGAIN)
		client_refuse(client, state, "%s", reason);
	else
		client_answer(client, json_pack("{s:b}", "loading", state), NULL, 0);
}

static void do_preload(struct client *client, struct message *message)
{
	struct weights_request request = { .preload = true, .wait = true };
	uint64_t gpu;

	request.manifest = manifest_of(client, message->body);
	if (!request.manifest || !number(client, message->body, "gpu", 0, UINT32_MAX, true, &gpu))
		return;
	request.gpu = (uint32_t)gpu;
	request.load.class = MEMORY_BACKGROUND;
	request.load.deadline_ns = DEADLINE_MAX_MS * 1000000ULL;
	weights_load(&client->models->weights, client, &request);
}

static void do_evict(struct client *client, struct message *message)
{
	const char *name = model_name(client, message->body);
	uint64_t gpu = DISTMIND_GPU_NONE, freed;
	uint32_t busy;

	if (!name || !number(client, message->body, "gpu", 0, UINT32_MAX, false, &gpu))
		return;
	freed = weights_evict(&client->models->weights, name, (uint32_t)gpu, &busy);
	if (busy && !freed)
		client_refuse(client, -EBUSY, "model %s has %u uses: end them first", name, busy);
	else
		client_answer(client, json_pack("{s:I}", "freed_bytes", (json_int_t)freed), NULL,
			      0);
}

static void do_forget(struct client *client, struct message *message)
{
	const char *host = json_string_value(json_object_get(message->body, "host"));
	bool force;

	if (!boolean(client, message->body, "force", &force))
		return;
	forget_begin(client, host ? host : "", force);
}

static void do_status(struct client *client, struct message *message)
{
	(void)message;
	client_answer(client, status_describe(client->models), NULL, 0);
}

static void do_turns(struct client *client, struct message *message)
{
	json_t *turns = turns_describe();

	(void)message;
	client_answer(client,
		      turns ? json_pack("{s:s, s:o, s:o, s:o}", "host",
					client->models->chunks.host.name, "turns", turns, "spool",
					disk_describe(&client->models->chunks), "memory",
					status_memory(client->models)) :
			      NULL,
		      NULL, 0);
}

enum { ROOT = 1, OF_MODEL = 2 }; /* for root only; of a model that the catalog has */

static const struct operation {
	const char *name;
	unsigned int flags;
	void (*begin)(struct client *client, struct message *message);
} operations[] = {
	{ "list", 0, do_list },		      { "show", OF_MODEL, do_show },
	{ "load", OF_MODEL, do_load },	      { "push", ROOT, do_push },
	{ "chunk", ROOT, do_chunk },	      { "commit", ROOT, do_commit },
	{ "delete", OF_MODEL, do_delete },    { "replicas", OF_MODEL, do_replicas },
	{ "access", OF_MODEL, do_access },    { "size", OF_MODEL, do_size },
	{ "verify", OF_MODEL, do_verify },    { "preload", ROOT | OF_MODEL, do_preload },
	{ "evict", ROOT, do_evict },	      { "state", 0, do_state },
	{ "forget", ROOT, do_forget },	      { "turns", 0, do_turns },
	{ "status", 0, do_status },	      { "room", ROOT, do_room },
};

void operation_begin(struct client *client, struct message *message)
{
	const char *name = json_string_value(json_object_get(message->body, "op"));

	for (size_t i = 0; name && i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(operations[i].name, name))
			continue;
		turns_name(operations[i].name);
		if (operations[i].flags & ROOT && client->user.uid)
			client_refuse(client, -EPERM, "op: %s is for root only", name);
		else if (!(operations[i].flags & OF_MODEL) ||
			 !early_wait(client, message, operations[i].begin))
			operations[i].begin(client, message);
		return;
	}
	client_refuse(client, -EINVAL, "op: there is no such operation");
}
