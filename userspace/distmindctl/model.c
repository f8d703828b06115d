// SPDX-License-Identifier: GPL-2.0-or-later
/* The models of the memory pool. distmindd has them; this is what is asked of it. */
#include "model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/size.h"
#include "../model/manifest.h"
#include "noun.h"
#include "options.h"
#include "parse.h"
#include "reply.h"
#include "status.h"

int model_fail(struct ctl *ctl, const struct distmind_service *service, int error,
	       const char *doing)
{
	/* What only root may do; who may not do it with this model is told so by the daemon. */
	if (error == -EPERM)
		return ctl_fail(ctl, "cannot %s: not permitted; run it as root", doing);
	return ctl_fail(ctl, "cannot %s: %s", doing, service->reason);
}

int model_ask(struct ctl *ctl, struct distmind_service *service,
	      const struct distmind_service_request *request,
	      struct message *reply, const char *doing)
{
	int err = 0;

	*reply = (struct message){ 0 };
	if (service->fd < 0)
		err = distmind_service_open(service);
	if (err)
		json_decref(request->body);
	else
		err = distmind_service_ask(service, request, reply);
	return err ? model_fail(ctl, service, err, doing) : CTL_OK;
}

int model_name_check(struct ctl *ctl, const char *word)
{
	if (model_name_valid(word))
		return CTL_OK;
	return ctl_usage(ctl, "'%s' cannot be a model's name: up to %d letters, digits, '.', '_' "
			 "and '-', beginning with a letter or a digit", word, MODEL_NAME_MAX);
}

void model_print_access(struct print *print, uint32_t uid, uint32_t gid, unsigned int mode)
{
	char text[8];

	snprintf(text, sizeof(text), "%04o", mode & 0777);
	print_user(print, "uid", "OWNER", uid);
	print_group(print, "gid", "GROUP", gid);
	print_text(print, "mode", "MODE", text);
}

/* Octal digits; an exit code. */
int model_mode_parse(struct ctl *ctl, const char *word, uint32_t *mode)
{
	char *end;
	unsigned long value = strtoul(word, &end, 8);

	*mode = (uint32_t)value;
	if (*word >= '0' && *word <= '7' && !*end && strlen(word) <= 4 && !(value & ~0666UL))
		return CTL_OK;
	return ctl_usage(ctl, "%s is not a mode: octal digits, of the rights to read (4) and write "
			 "(2) of owner, group and others, such as 0640", word);
}

/* USER, USER:GROUP or :GROUP; what is not named stays as it is. An exit code. */
int model_owner_parse(struct ctl *ctl, const char *word, struct model_owner *owner)
{
	const char *colon = strchr(word, ':');
	size_t len = colon ? (size_t)(colon - word) : strlen(word);
	char user[64];

	*owner = (struct model_owner){ 0 };
	if (!*word || len >= sizeof(user) || (colon && !colon[1]))
		return ctl_usage(ctl, "'%s' is not USER, USER:GROUP or :GROUP", word);
	memcpy(user, word, len);
	user[len] = '\0';
	owner->has_uid = len;
	owner->has_gid = colon;
	if (len && user_parse(user, &owner->uid))
		return ctl_usage(ctl, "%s is not a user", user);
	if (colon && group_parse(colon + 1, &owner->gid))
		return ctl_usage(ctl, "%s is not a group", colon + 1);
	return CTL_OK;
}

int model_owner_add(json_t *body, const struct model_owner *owner)
{
	if (owner->has_uid && json_object_set_new(body, "uid", json_integer(owner->uid)))
		return -ENOMEM;
	if (owner->has_gid && json_object_set_new(body, "gid", json_integer(owner->gid)))
		return -ENOMEM;
	return 0;
}

static enum print_colour state_colour(const char *state)
{
	if (!strcmp(state, "available"))
		return PRINT_COLOUR_GOOD;
	if (!strcmp(state, "missing") || !strcmp(state, "unreadable"))
		return PRINT_COLOUR_BAD;
	return PRINT_COLOUR_WARN;
}

static void print_model(struct print *print, const json_t *model)
{
	const char *error = json_string_value(json_object_get(model, "error"));
	const json_t *resident = json_object_get(model, "resident");
	char gpus[128] = "";

	for (size_t i = 0; i < json_array_size(resident); i++) {
		size_t used = strlen(gpus);

		snprintf(gpus + used, sizeof(gpus) - used, "%s%" JSON_INTEGER_FORMAT,
			 i ? "," : "", json_integer_value(json_array_get(resident, i)));
	}
	print_row_open(print);
	print_text(print, "name", "NAME", reply_text(model, "name"));
	print_size(print, "bytes", "SIZE", reply_number(model, "bytes"));
	print_number(print, "chunks", "CHUNKS", (int64_t)reply_number(model, "chunks"));
	print_number(print, "layers", "LAYERS", (int64_t)reply_number(model, "layers"));
	print_number(print, "replicas", "REPLICAS", (int64_t)reply_number(model, "replicas"));
	print_number(print, "extra_replicas", "EXTRA",
		     (int64_t)reply_number(model, "extra_replicas"));
	print_number(print, "copies", "COPIES", (int64_t)reply_number(model, "copies"));
	print_state(print, "state", "STATE", reply_text(model, "state"),
		    state_colour(reply_text(model, "state")));
	print_size(print, "shared_bytes", "SHARED", reply_number(model, "shared_bytes"));
	print_text(print, "resident", "GPUS", gpus);
	model_print_access(print, (uint32_t)reply_number(model, "uid"),
			   (uint32_t)reply_number(model, "gid"),
			   (unsigned int)reply_number(model, "mode"));
	print_note(print, "error", error ? error : "");
	print_row_close(print);
}

static void print_cache(struct print *print, const json_t *cache)
{
	print_row_open(print);
	print_size(print, "size", "CACHE", reply_number(cache, "size"));
	print_size(print, "bytes", "USED", reply_number(cache, "bytes"));
	print_number(print, "chunks", "CHUNKS", (int64_t)reply_number(cache, "chunks"));
	print_number(print, "hits", "HITS", (int64_t)reply_number(cache, "hits"));
	print_number(print, "misses", "MISSES", (int64_t)reply_number(cache, "misses"));
	print_number(print, "evictions", "EVICTIONS", (int64_t)reply_number(cache, "evictions"));
	print_row_close(print);
}

static int print_lists(struct ctl *ctl, const json_t *document)
{
	const json_t *models = json_object_get(document, "models");
	const json_t *hosts = json_object_get(document, "hosts");
	const json_t *cache = json_object_get(document, "cache");
	struct print print;

	ctl_print_open(ctl, &print);
	print_list_open(&print, "models", PRINT_TABLE);
	for (size_t i = 0; i < json_array_size(models); i++)
		print_model(&print, json_array_get(models, i));
	if (!print_list_close(&print))
		ctl_hint(ctl, "no models; push one with: distmindctl model push NAME FILE");
	print_list_open(&print, "hosts", PRINT_TABLE);
	for (size_t i = 0; i < json_array_size(hosts); i++)
		host_print(&print, json_array_get(hosts, i));
	print_list_close(&print);
	print_list_open(&print, "pool", PRINT_RECORD);
	print_row_open(&print);
	print_size(&print, "stored_bytes", "STORED", reply_number(document, "stored_bytes"));
	print_row_close(&print);
	print_list_close(&print);
	print_list_open(&print, "cache", PRINT_TABLE);
	if (json_is_object(cache))
		print_cache(&print, cache);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

int model_ask_list(struct ctl *ctl, const char *doing,
		   int (*print)(struct ctl *ctl, const json_t *document))
{
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { .body = json_pack("{s:s}", "op", "list") };
	struct message reply;
	json_t *document = NULL;
	int ret;

	ret = model_ask(ctl, &service, &request, &reply, doing);
	if (!ret) {
		ret = distmind_service_object(&service, &reply, 0, &document);
		ret = ret ? model_fail(ctl, &service, ret, doing) : print(ctl, document);
		/* What is listed is what there was, and a script has to know. */
		if (!status_warn(ctl, json_object_get(document, "status")))
			ret = CTL_FAILED;
		json_decref(document);
	}
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}

static int model_list(struct ctl *ctl, int argc, char **argv)
{
	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	return model_ask_list(ctl, "list the models", print_lists);
}

/* The only gpu that there is, if none was named. */
struct choice {
	struct distmind_gpu_record gpu;
	unsigned int count;
};

static int choose_ready(const struct distmind_gpu_record *gpu, void *arg)
{
	struct choice *choice = arg;

	if (gpu->state == DISTMIND_GPU_STATE_LOST)
		return 0;
	choice->gpu = *gpu;
	choice->count++;
	return 0;
}

static int choose_gpu(struct ctl *ctl, const char *word, struct distmind_gpu_record *gpu)
{
	struct choice choice = { 0 };
	int ret;

	if (word)
		return gpu_find(ctl, word, gpu);
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ret = distmind_pool_gpus(ctl->pool, choose_ready, &choice);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	if (!choice.count)
		return ctl_fail(ctl, GPU_HINT);
	if (choice.count > 1)
		return ctl_usage(ctl, "there are %u gpus; say which with --gpu GPU", choice.count);
	*gpu = choice.gpu;
	return CTL_OK;
}

/* NAME [--gpu GPU], of load and evict. False: the command ends with ctl->status. */
static bool parse_on_gpu(struct ctl *ctl, int argc, char **argv, const char **name,
			 const char **gpu)
{
	const struct ctl_option options[] = {
		{ "gpu", option_text, .to = gpu },
		{ 0 },
	};

	*gpu = NULL;
	argc = ctl_options(ctl, argc, &argv, options, CTL_ANY);
	if (argc < 0)
		return false;
	*name = argv[0];
	ctl->status = argc == 1 ? model_name_check(ctl, argv[0]) : ctl_usage_arguments(ctl);
	return ctl->status == CTL_OK;
}

/* What a verb changes: the request, its words, and what it says when it is done. */
struct change {
	json_t *body;
	char doing[128];
	const char *progress; /* what the daemon tells of, or NULL */
	const char *verb;     /* for --dry-run and JSON */
	const char *name;
};

static int dry(struct ctl *ctl, struct change *change)
{
	json_decref(change->body);
	return ctl_would(ctl, change->verb, "model", -1, "%s", change->doing);
}

static int finish(struct ctl *ctl, const struct change *change, const json_t *body)
{
	const json_t *freed = json_object_get(body, "freed_bytes");
	char size[SIZE_TEXT_LEN];
	struct print print;

	if (!ctl->json) {
		size_format(reply_number(body, "freed_bytes"), size, sizeof(size));
		if (freed)
			fprintf(ctl->out, "freed %s\n", size);
		return CTL_OK;
	}
	ctl_print_open(ctl, &print);
	print_list_open(&print, "models", PRINT_RECORD);
	print_row_open(&print);
	print_text(&print, "name", "NAME", change->name);
	print_text(&print, "action", "ACTION", change->verb);
	if (freed)
		print_size(&print, "freed_bytes", "FREED", reply_number(body, "freed_bytes"));
	print_row_close(&print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

static int carry_out(struct ctl *ctl, struct change *change)
{
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { .body = change->body };
	struct message reply;
	struct model_progress progress;
	int ret;

	if (ctl->dry_run)
		return dry(ctl, change);
	model_progress_begin(&progress, ctl, change->progress ? change->progress : "");
	if (change->progress) {
		request.progress = model_progress_show;
		request.arg = &progress;
	}
	ret = model_ask(ctl, &service, &request, &reply, change->doing);
	model_progress_end(&progress);
	if (!ret)
		ret = finish(ctl, change, reply.body);
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}

/* The name of a model, and what stands behind it. NULL: ctl->status says what is wrong. */
static char **name_and_more(struct ctl *ctl, int argc, char **argv, int count,
			    struct change *change)
{
	argv = ctl_arguments(ctl, argc, argv, count);
	if (!argv)
		return NULL;
	change->name = argv[0];
	ctl->status = model_name_check(ctl, change->name);
	return ctl->status ? NULL : argv;
}

static int model_delete(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "delete" };

	argv = name_and_more(ctl, argc, argv, 1, &change);
	if (!argv)
		return ctl->status;
	snprintf(change.doing, sizeof(change.doing), "delete model %s", change.name);
	change.body = json_pack("{s:s, s:s}", "op", "delete", "model", change.name);
	return carry_out(ctl, &change);
}

static int model_replicas(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "replicas" };
	uint32_t replicas;

	argv = name_and_more(ctl, argc, argv, 2, &change);
	if (!argv)
		return ctl->status;
	if (number_parse(argv[1], 1, DISTMIND_SERVICE_REPLICAS_MAX, &replicas))
		return ctl_usage(ctl, "%s is not a number of replicas from 1 to %d", argv[1],
				 DISTMIND_SERVICE_REPLICAS_MAX);
	snprintf(change.doing, sizeof(change.doing), "keep %u of each chunk of model %s", replicas,
		 change.name);
	change.body = json_pack("{s:s, s:s, s:I}", "op", "replicas", "model", change.name,
				"replicas", (json_int_t)replicas);
	change.progress = "copying";
	return carry_out(ctl, &change);
}

static int model_chmod(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "chmod" };
	uint32_t mode;
	int ret;

	argv = name_and_more(ctl, argc, argv, 2, &change);
	if (!argv)
		return ctl->status;
	ret = model_mode_parse(ctl, argv[1], &mode);
	if (ret)
		return ret;
	snprintf(change.doing, sizeof(change.doing), "give model %s the mode %04o", change.name,
		 mode);
	change.body = json_pack("{s:s, s:s, s:I}", "op", "access", "model", change.name, "mode",
				(json_int_t)mode);
	return carry_out(ctl, &change);
}

static int model_chown(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "chown" };
	struct model_owner owner;
	int ret;

	argv = name_and_more(ctl, argc, argv, 2, &change);
	if (!argv)
		return ctl->status;
	ret = model_owner_parse(ctl, argv[1], &owner);
	if (ret)
		return ret;
	snprintf(change.doing, sizeof(change.doing), "give model %s to %s", change.name, argv[1]);
	change.body = json_pack("{s:s, s:s}", "op", "access", "model", change.name);
	if (change.body && model_owner_add(change.body, &owner)) {
		json_decref(change.body);
		change.body = NULL;
	}
	return carry_out(ctl, &change);
}

static int model_load(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "load", .progress = "loading" };
	struct distmind_gpu_record gpu;
	const char *word;
	int ret;

	if (!parse_on_gpu(ctl, argc, argv, &change.name, &word))
		return ctl->status;
	ret = choose_gpu(ctl, word, &gpu);
	if (ret)
		return ret;
	snprintf(change.doing, sizeof(change.doing), "load model %s to gpu %u (%s)", change.name,
		 gpu.id, gpu.name);
	change.body = json_pack("{s:s, s:s, s:I}", "op", "preload", "model", change.name, "gpu",
				(json_int_t)gpu.id);
	return carry_out(ctl, &change);
}

static int model_evict(struct ctl *ctl, int argc, char **argv)
{
	struct change change = { .verb = "evict" };
	struct distmind_gpu_record gpu;
	const char *word;
	int ret;

	if (!parse_on_gpu(ctl, argc, argv, &change.name, &word))
		return ctl->status;
	if (word) {
		ret = gpu_find(ctl, word, &gpu);
		if (ret)
			return ret;
		snprintf(change.doing, sizeof(change.doing), "evict model %s from gpu %u (%s)",
			 change.name, gpu.id, gpu.name);
		change.body = json_pack("{s:s, s:s, s:I}", "op", "evict", "model", change.name,
					"gpu", (json_int_t)gpu.id);
	} else {
		snprintf(change.doing, sizeof(change.doing), "evict model %s from all gpus",
			 change.name);
		change.body = json_pack("{s:s, s:s}", "op", "evict", "model", change.name);
	}
	return carry_out(ctl, &change);
}

static int print_verdict(struct ctl *ctl, const char *name, const json_t *body)
{
	const json_t *bad = json_object_get(body, "bad");
	uint64_t chunks = reply_number(body, "chunks"), bad_chunks = json_array_size(bad);
	struct print print;
	int ret;

	/* Not all of many are named, and several copies of one may be. */
	if (json_object_get(body, "bad_chunks"))
		bad_chunks = reply_number(body, "bad_chunks");

	if (!ctl->json && !bad_chunks) {
		fprintf(ctl->out, "%s: %" PRIu64 " chunks are what was pushed\n", name, chunks);
		return CTL_OK;
	}
	ctl_print_open(ctl, &print);
	print_list_open(&print, "bad", PRINT_TABLE);
	for (size_t i = 0; i < json_array_size(bad); i++) {
		const json_t *row = json_array_get(bad, i);

		print_row_open(&print);
		print_text(&print, "chunk", "CHUNK", reply_text(row, "chunk"));
		print_text(&print, "host", "HOST", reply_text(row, "host"));
		print_text(&print, "reason", "REASON", reply_text(row, "reason"));
		print_row_close(&print);
	}
	print_list_close(&print);
	ret = ctl_print_close(ctl, &print);
	if (!ret && bad_chunks)
		ret = ctl_fail(ctl, "%" PRIu64 " of %" PRIu64 " chunks of %s are not what was "
			       "pushed: if nobody has them, delete the model and push it again",
			       bad_chunks, chunks, name);
	return ret;
}

static int model_verify(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { .progress = model_progress_show };
	struct message reply;
	struct model_progress progress;
	char doing[128];
	int ret;

	argv = ctl_arguments(ctl, argc, argv, 1);
	if (!argv)
		return ctl->status;
	ret = model_name_check(ctl, argv[0]);
	if (ret)
		return ret;
	snprintf(doing, sizeof(doing), "verify model %s", argv[0]);
	model_progress_begin(&progress, ctl, "checking");
	request.arg = &progress;
	request.body = json_pack("{s:s, s:s}", "op", "verify", "model", argv[0]);
	ret = model_ask(ctl, &service, &request, &reply, doing);
	model_progress_end(&progress);
	if (!ret)
		ret = print_verdict(ctl, argv[0], reply.body);
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}

const struct command model_verbs[] = {
	{ "list", "", "Show the models and the hosts that keep them.", model_list },
	{ "show", "NAME [--map] [--svg FILE]",
	  "Show a model, its groups, and with --map who keeps what.", model_show },
	{ "push", "NAME FILE... [--order FILE] [--replicas N] [--owner USER[:GROUP]]\n"
	  "          [--mode MODE]",
	  "Store a model; of chunks that are there already nothing is sent.", model_push },
	{ "verify", "NAME", "Compare every chunk with its digest.", model_verify },
	{ "delete", "NAME", "Forget a model, and free what no other one shares.", model_delete },
	{ "load", "NAME [--gpu GPU]", "Bring a model into a gpu's memory.", model_load },
	{ "evict", "NAME [--gpu GPU]", "Put a model out of the memory of gpus.", model_evict },
	{ "replicas", "NAME N", "Keep every chunk of a model N times.", model_replicas },
	{ "chmod", "NAME MODE", "Say who may load a model, and who may delete it.", model_chmod },
	{ "chown", "NAME USER[:GROUP]", "Give a model to somebody else.", model_chown },
	{ 0 },
};

int model_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, model_verbs, argc, argv);
}
