// SPDX-License-Identifier: GPL-2.0-or-later
#include "service.h"

#include "../../libdistmind/service.h"
#include "forget.h"
#include "listing.h"
#include "../common/log.h"
#include "../common/turns.h"
#include "models.h"
#include "push.h"
#include "status.h"
#include "verify.h"

#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define DEADLINE_MS 60000
#define DEADLINE_MAX_MS 3600000
/* Bytes as the kernel counts them, of a few answers. */
#define UNREAD_MAX 8192

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

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

/* One that is there, not an upload, and that the client may do that with. NULL: has been told. */
static const struct catalog_model *model_of(struct client *client, const json_t *body,
					    enum access_right right)
{
	const char *name = model_name(client, body);
	const struct catalog_model *model;

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
	client_refuse(client, -EACCES,
		      "model %s: user %u may not %s it: it belongs to user %u, who can change that "
		      "with distmindctl model chmod",
		      name, client->user.uid, right == ACCESS_READ ? "read" : "change",
		      model->access.uid);
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

static void do_replicas(struct client *client, struct message *message)
{
	const struct catalog_model *model;
	struct change *change;
	uint64_t replicas;

	if (!number(client, message->body, "replicas", 1, DISTMIND_SERVICE_REPLICAS_MAX, true,
		    &replicas))
		return;
	model = model_of(client, message->body, ACCESS_WRITE);
	change = model ? change_begin(client, model->name) : NULL;
	if (change)
		change_done(change, catalog_model_set_replicas(client->models->catalog,
							       change->model,
							       (unsigned int)replicas, on_changed,
							       change));
}

/* Owner, group and mode: the owner decides on the mode, root on all of it. */
static void do_access(struct client *client, struct message *message)
{
	const char *name = model_name(client, message->body);
	const struct catalog_model *model;
	struct catalog_access access;
	struct change *change;

	model = name ? catalog_model_find(client->models->catalog, name) : NULL;
	if (name && !model)
		client_refuse(client, -ENOENT, "model: there is no model %s: see distmindctl model "
					       "list",
			      name);
	if (!model)
		return;
	access = model->access;
	if (!read_access(client, message->body, &access))
		return;
	if (client->user.uid &&
	    (client->user.uid != model->access.uid || access.uid != model->access.uid ||
	     access.gid != model->access.gid)) {
		client_refuse(client, -EPERM,
			      "model %s: its mode is for its owner to change, user %u, and owner and "
			      "group for root",
			      name, model->access.uid);
		return;
	}
	change = change_begin(client, name);
	if (change)
		change_done(change, catalog_model_set_access(client->models->catalog, change->model,
							     &access, on_changed, change));
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
		      turns ? json_pack("{s:s, s:o}", "host", client->models->chunks.host.name,
					"turns", turns) :
			      NULL,
		      NULL, 0);
}

static const struct operation {
	const char *name;
	bool root;
	void (*begin)(struct client *client, struct message *message);
} operations[] = {
	{ "list", false, do_list },	    { "show", false, do_show },
	{ "load", false, do_load },	    { "push", true, do_push },
	{ "chunk", true, do_chunk },	    { "commit", true, do_commit },
	{ "delete", false, do_delete },	    { "replicas", false, do_replicas },
	{ "access", false, do_access },	    { "size", false, do_size },
	{ "verify", false, do_verify },	    { "preload", true, do_preload },
	{ "evict", true, do_evict },	    { "state", false, do_state },
	{ "forget", true, do_forget },	    { "turns", false, do_turns },
	{ "status", false, do_status },	    { "room", true, do_room },
};

static void dispatch(struct client *client, struct message *message)
{
	const char *name = json_string_value(json_object_get(message->body, "op"));

	for (size_t i = 0; name && i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (strcmp(operations[i].name, name))
			continue;
		turns_name(operations[i].name);
		if (operations[i].root && client->user.uid)
			client_refuse(client, -EPERM, "op: %s is for root only", name);
		else
			operations[i].begin(client, message);
		return;
	}
	client_refuse(client, -EINVAL, "op: there is no such operation");
}

/*
 * Connections
 */

static void close_socket(struct errand *errand)
{
	struct client *client = errand_in(errand, struct client, closing);

	close(client->fd);
}

static void on_closed(struct errand *errand)
{
	struct client *client = errand_in(errand, struct client, closing), **at;
	struct service *service = &client->models->service;

	for (at = &service->clients; *at != client; at = &(*at)->next)
		;
	*at = client->next;
	service->count--;
	access_user_close(&client->user);
	free(client);
}

/* All that it had ends at once; it is gone when its socket is closed. */
static void client_end(struct client *client)
{
	if (client->exchange) {
		struct exchange *exchange = client->exchange;

		exchange->client = NULL;
		client->exchange = NULL;
		if (exchange->gone)
			exchange->gone(exchange);
	}
	push_end(client->push);
	if (client->use)
		weights_use_end(client->use);
	client->use = NULL;
	client->source = sd_event_source_disable_unref(client->source);
	client->ending = true;
	/* The other side sees the end now, however long the rest takes. */
	shutdown(client->fd, SHUT_RDWR);
	client->closing = (struct errand){ .work = close_socket, .done = on_closed };
	errands_add(client->models->errands, client->payer, &client->closing);
}

/*
 * Answers that nobody reads pile up, each with the memfd that it brings: who has left a few
 * gets no more of them.
 */
static bool reads_answers(const struct client *client)
{
	int unread;

	return ioctl(client->fd, SIOCOUTQ, &unread) || unread <= UNREAD_MAX;
}

static void handle(struct client *client, struct message *message, int err, const char *why)
{
	if (err == -EBADMSG)
		client_refuse(client, err, "this is not a message: %s", why);
	else if (!err && (client->exchange || !reads_answers(client)))
		err = -EPROTO; /* answers could not be told apart */
	else if (!err)
		dispatch(client, message);
	if (err)
		client_end(client);
}

/* A message that brings descriptors. The client outlives it: its socket is closed later. */
struct reception {
	struct errand errand;
	struct client *client;
	struct message message;
	int err;
	const char *why;
};

static void receive_message(struct errand *errand)
{
	struct reception *reception = errand_in(errand, struct reception, errand);

	reception->err = message_receive(reception->client->fd, &reception->message,
					 &reception->why);
}

static void clear_message(struct errand *errand)
{
	message_clear(&errand_in(errand, struct reception, errand)->message);
}

static void free_reception(struct errand *errand)
{
	free(errand_in(errand, struct reception, errand));
}

static void on_received(struct errand *errand)
{
	struct reception *reception = errand_in(errand, struct reception, errand);
	struct client *client = reception->client;
	uint64_t payer = client->payer;

	if (!client->ending) {
		sd_event_source_set_enabled(client->source, SD_EVENT_ON);
		if (reception->err != -EAGAIN)
			handle(client, &reception->message, reception->err, reception->why);
	}
	reception->errand = (struct errand){ .work = clear_message, .done = free_reception };
	errands_add(client->models->errands, payer, &reception->errand);
}

static void receive_elsewhere(struct client *client)
{
	struct reception *reception = malloc(sizeof(*reception));

	if (!reception) {
		client_end(client);
		return;
	}
	reception->client = client;
	reception->errand = (struct errand){ .work = receive_message, .done = on_received };
	sd_event_source_set_enabled(client->source, SD_EVENT_OFF);
	errands_add(client->models->errands, client->payer, &reception->errand);
}

static int on_message(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct client *client = arg;
	struct message message;
	bool descriptors;
	const char *why;
	int err;

	(void)source;
	(void)revents;
	turns_name("message");
	err = message_peek(fd, &descriptors);
	if (err == -EAGAIN)
		return 0;
	if (!err && descriptors) {
		receive_elsewhere(client);
		return 0;
	}
	if (!err) {
		err = message_receive(fd, &message, &why);
		handle(client, &message, err, why);
		message_clear(&message);
	} else {
		client_end(client);
	}
	return 0;
}

/* One user cannot keep the others out. */
static bool is_crowded(const struct service *service, uint32_t uid)
{
	const struct client *other;
	uint32_t same = 0;

	for (other = service->clients; other; other = other->next)
		same += other->user.uid == uid;
	if (!uid)
		return service->count >= SERVICE_CLIENTS_MAX;
	return same >= SERVICE_CLIENTS_USER ||
	       service->count >= SERVICE_CLIENTS_MAX - SERVICE_CLIENTS_ROOT;
}

/*
 * Who has no use for descriptors need not be able to send any: connections begin without,
 * and only root's get them. Kernels before 6.16 cannot do that.
 */
static void let_descriptors(int fd, int let)
{
	setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &let, sizeof(let));
}

/* Somebody who is not let in. */
struct farewell {
	struct errand errand;
	struct service *service;
	int fd;
};

static void close_farewell(struct errand *errand)
{
	close(errand_in(errand, struct farewell, errand)->fd);
}

static void on_farewell(struct errand *errand)
{
	struct farewell *farewell = errand_in(errand, struct farewell, errand);
	struct service *service = farewell->service;

	free(farewell);
	service->turned_away--;
	if (service->source)
		sd_event_source_set_enabled(service->source, SD_EVENT_ON);
}

/* Who keeps us busy with closing gets no further until that is done. */
static void turn_away(struct service *service, int fd, uint64_t payer)
{
	struct farewell *farewell = malloc(sizeof(*farewell));

	shutdown(fd, SHUT_RDWR);
	if (!farewell) {
		close(fd);
		return;
	}
	*farewell = (struct farewell){
		.errand = { .work = close_farewell, .done = on_farewell },
		.service = service, .fd = fd,
	};
	if (++service->turned_away == SERVICE_TURNED_AWAY)
		sd_event_source_set_enabled(service->source, SD_EVENT_OFF);
	errands_add(service->models->errands, payer, &farewell->errand);
}

static void refuse_crowd(int fd, uint32_t uid)
{
	char reason[128];
	json_t *body;

	snprintf(reason, sizeof(reason),
		 "there are too many connections, of user %u or in all: close others", uid);
	body = json_pack("{s:b, s:s, s:s}", "ok", 0, "errno", "EUSERS", "reason", reason);
	if (body)
		message_send(fd, body, NULL, 0);
	json_decref(body);
}

static int client_create(struct service *service, int fd, struct access_user *user)
{
	struct client *client = calloc(1, sizeof(*client));
	int err;

	if (!client)
		return -ENOMEM;
	client->models = service->models;
	client->fd = fd;
	client->user = *user;
	client->payer = user->uid;
	if (!user->uid)
		let_descriptors(fd, 1);
	err = sd_event_add_io(service->models->loop, &client->source, fd, EPOLLIN, on_message,
			      client);
	if (err < 0) {
		free(client);
		return err;
	}
	/* The client's from here on. */
	*user = (struct access_user){ 0 };
	client->next = service->clients;
	service->clients = client;
	service->accepted++;
	service->count++;
	return 0;
}

static int on_connect(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct service *service = arg;
	int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct access_user user;

	(void)source;
	(void)revents;
	turns_name("connect");
	if (client < 0)
		return 0;
	if (access_user_open(&user, client)) {
		turn_away(service, client, ERRANDS_DAEMON);
		return 0;
	}
	if (is_crowded(service, user.uid)) {
		refuse_crowd(client, user.uid);
		turn_away(service, client, user.uid);
	} else if (client_create(service, client, &user)) {
		turn_away(service, client, user.uid);
	}
	access_user_close(&user);
	return 0;
}

/* The usual limit is below what this many connections and their models need. */
static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

int service_open(struct service *service, struct models *models, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *other = getenv(SERVICE_ENV);
	int err;

	*service = (struct service){ .models = models, .fd = -1 };
	snprintf(service->path, sizeof(service->path), "%s", other && *other ? other : path);
	strcpy(address.sun_path, service->path);
	raise_limit();
	service->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (service->fd < 0)
		goto err;
	let_descriptors(service->fd, 0);
	/* What is there is of a daemon that died: the lock says that there is no other. */
	unlink(service->path);
	if (bind(service->fd, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(service->path, 0666) || listen(service->fd, 64))
		goto err;
	err = sd_event_add_io(models->loop, &service->source, service->fd, EPOLLIN, on_connect,
			      service);
	if (err >= 0)
		return 0;
	errno = -err;
err:
	err = -errno;
	log_error("no-model-socket", LOG_S("path", service->path), LOG_S("reason", strerror(-err)));
	return err;
}

void service_close(struct service *service)
{
	struct client *client;

	if (service->fd < 0)
		return;
	for (client = service->clients; client; client = client->next)
		if (!client->ending)
			client_end(client);
	service->source = sd_event_source_disable_unref(service->source);
	close(service->fd);
	unlink(service->path);
	service->fd = -1;
}
