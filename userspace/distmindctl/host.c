// SPDX-License-Identifier: GPL-2.0-or-later
/* The hosts of the memory pool. distmindd knows them; this is what is asked of it. */
#include <stdlib.h>
#include <string.h>

#include "latency.h"
#include "model.h"
#include "noun.h"
#include "options.h"
#include "reply.h"

#define HOST_NAME_MAX_LEN 63

void host_print(struct print *print, const json_t *host)
{
	const char *state = reply_text(host, "state");

	print_row_open(print);
	print_text(print, "host", "HOST", reply_text(host, "name"));
	print_text(print, "address", "ADDRESS", reply_text(host, "address"));
	print_state(print, "state", "STATE", state,
		    !strcmp(state, "live") ? PRINT_COLOUR_GOOD :
		    !strcmp(state, "away") ? PRINT_COLOUR_BAD : PRINT_COLOUR_WARN);
	print_size(print, "memory_total", "GIVES", reply_number(host, "memory_total"));
	print_size(print, "memory_free", "FREE", reply_number(host, "memory_free"));
	print_size(print, "memory_longest", "LONGEST", reply_number(host, "memory_longest"));
	print_number(print, "damaged", "DAMAGED", (int64_t)reply_number(host, "damaged"));
	print_row_close(print);
}

static int print_hosts(struct ctl *ctl, const json_t *document)
{
	const json_t *hosts = json_object_get(document, "hosts");
	struct print print;

	ctl_print_open(ctl, &print);
	print_list_open(&print, "hosts", PRINT_TABLE);
	for (size_t i = 0; i < json_array_size(hosts); i++)
		host_print(&print, json_array_get(hosts, i));
	if (!print_list_close(&print))
		ctl_hint(ctl, "no hosts; this one has not joined yet: see the log of distmindd");
	return ctl_print_close(ctl, &print);
}

static int host_list(struct ctl *ctl, int argc, char **argv)
{
	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	return model_ask_list(ctl, "list the hosts", print_hosts);
}

#define TURN_BUCKETS 32 /* at most; distmindd says how many there are */

static void print_turns(struct print *print, const json_t *body)
{
	const json_t *turns = json_object_get(body, "turns");
	const json_t *counts = json_object_get(turns, "buckets");
	unsigned int count = (unsigned int)json_array_size(counts);
	uint64_t buckets[TURN_BUCKETS] = { 0 };

	if (count > TURN_BUCKETS)
		count = TURN_BUCKETS;
	for (unsigned int i = 0; i < count; i++)
		buckets[i] = (uint64_t)json_integer_value(json_array_get(counts, i));
	print_row_open(print);
	print_text(print, "host", "HOST", reply_text(body, "host"));
	print_number(print, "turns", "TURNS", (int64_t)reply_number(turns, "count"));
	print_duration(print, "limit_us", "LIMIT", reply_number(turns, "limit_us"), 1000);
	print_number(print, "late", "LATE", (int64_t)reply_number(turns, "late"));
	print_duration(print, "p50_ns", "P50",
		       count ? latency_percentile(buckets, count, 50) : 0, 1);
	print_duration(print, "p99_ns", "P99",
		       count ? latency_percentile(buckets, count, 99) : 0, 1);
	print_duration(print, "longest_us", "LONGEST", reply_number(turns, "longest_us"), 1000);
	print_text(print, "longest_what", "LONGEST WAS", reply_text(turns, "longest_what"));
	print_duration(print, "longest_waited_us", "WAITED",
		       reply_number(turns, "longest_waited_us"), 1000);
	print_number(print, "longest_at", "LONGEST AT", (int64_t)reply_number(turns, "longest_at"));
	print_latency(print, "histogram", "HISTOGRAM", buckets, count);
	print_row_close(print);
}

static void print_spool_state(struct print *print, const json_t *spool)
{
	if (reply_number(spool, "refused"))
		print_state(print, "state", "STATE", "failing", PRINT_COLOUR_BAD);
	else if (json_is_true(json_object_get(spool, "restoring")))
		print_state(print, "state", "STATE", "restoring", PRINT_COLOUR_WARN);
	else
		print_state(print, "state", "STATE", "ready", PRINT_COLOUR_GOOD);
}

/* Of this host, if it has one. */
static void print_spool(struct print *print, const json_t *body)
{
	const json_t *spool = json_object_get(body, "spool");

	print_list_open(print, "spool", PRINT_RECORD);
	if (json_string_length(json_object_get(spool, "path"))) {
		print_row_open(print);
		print_text(print, "path", "SPOOL", reply_text(spool, "path"));
		print_spool_state(print, spool);
		print_number(print, "restored", "RESTORED",
			     (int64_t)reply_number(spool, "restored"));
		print_number(print, "files", "OF", (int64_t)reply_number(spool, "files"));
		print_size(print, "restored_bytes", "BYTES", reply_number(spool, "restored_bytes"));
		print_number(print, "skipped", "SKIPPED", (int64_t)reply_number(spool, "skipped"));
		print_number(print, "damaged", "DAMAGED", (int64_t)reply_number(spool, "damaged"));
		print_number(print, "refused", "REFUSED", (int64_t)reply_number(spool, "refused"));
		print_text(print, "reason", "REASON", reply_text(spool, "reason"));
		print_text(print, "fix", "FIX", reply_text(spool, "fix"));
		print_row_close(print);
	}
	print_list_close(print);
}

/* That this host gives, if it does. */
static void print_memory(struct print *print, const json_t *body)
{
	const json_t *memory = json_object_get(body, "memory");

	print_list_open(print, "memory", PRINT_RECORD);
	if (json_is_object(memory)) {
		print_row_open(print);
		print_size(print, "size", "MEMORY", reply_number(memory, "size"));
		print_size(print, "used", "USED", reply_number(memory, "used"));
		print_number(print, "chunks", "CHUNKS", (int64_t)reply_number(memory, "chunks"));
		print_size(print, "bytes", "BYTES", reply_number(memory, "bytes"));
		print_number(print, "kept_chunks", "KEPT",
			     (int64_t)reply_number(memory, "kept_chunks"));
		print_size(print, "kept_bytes", "KEPT BYTES", reply_number(memory, "kept_bytes"));
		print_row_close(print);
	}
	print_list_close(print);
}

static int host_show(struct ctl *ctl, int argc, char **argv)
{
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { 0 };
	struct message reply;
	struct print print;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	request.body = json_pack("{s:s}", "op", "turns");
	ret = model_ask(ctl, &service, &request, &reply, "show this host");
	if (!ret) {
		ctl_print_open(ctl, &print);
		print_list_open(&print, "hosts", PRINT_RECORD);
		print_turns(&print, reply.body);
		print_list_close(&print);
		print_spool(&print, reply.body);
		print_memory(&print, reply.body);
		ret = ctl_print_close(ctl, &print);
	}
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}

static int name_check(struct ctl *ctl, const char *word)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	if (*word && strlen(word) <= HOST_NAME_MAX_LEN && !word[strspn(word, letters)])
		return CTL_OK;
	return ctl_usage(ctl, "'%s' cannot be a host's name: up to %d letters, digits, '.', '_' "
			 "and '-'", word, HOST_NAME_MAX_LEN);
}

/* Separated by commas, allocated; NULL: no memory. */
static char *join(const json_t *names)
{
	char *text = NULL;
	size_t size;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return NULL;
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i));

		fprintf(file, "%s%s", i ? "," : "", name ? name : "?");
	}
	if (!fclose(file))
		return text;
	free(text);
	return NULL;
}

static int print_forgotten(struct ctl *ctl, const char *name, const char *models)
{
	struct print print;

	if (!ctl->json) {
		if (*models)
			fprintf(ctl->out, "models that have lost chunks: %s\n", models);
		return CTL_OK;
	}
	ctl_print_open(ctl, &print);
	print_list_open(&print, "hosts", PRINT_RECORD);
	print_row_open(&print);
	print_text(&print, "host", "HOST", name);
	print_text(&print, "action", "ACTION", "forget");
	print_text(&print, "lost_models", "LOST", models);
	print_row_close(&print);
	print_list_close(&print);
	return ctl_print_close(ctl, &print);
}

/* The models that lost chunks, as print_forgotten() has them; NULL: they could not be told. */
static char *lost_models(struct distmind_service *service, const struct message *reply)
{
	json_t *document;
	char *models;

	if (distmind_service_object(service, reply, 0, &document))
		return NULL;
	models = join(json_object_get(document, "lost_models"));
	json_decref(document);
	return models;
}

static int host_forget(struct ctl *ctl, int argc, char **argv)
{
	bool force = false;
	const struct ctl_option options[] = {
		{ "force", option_flag, .to = &force },
		{ 0 },
	};
	struct distmind_service service = { .fd = -1 };
	struct distmind_service_request request = { 0 };
	struct message reply;
	char doing[128], *models;
	int ret;

	argc = ctl_options(ctl, argc, &argv, options, CTL_ANY);
	if (argc < 0)
		return ctl->status;
	ret = argc == 1 ? name_check(ctl, argv[0]) : ctl_usage_arguments(ctl);
	if (ret)
		return ret;
	snprintf(doing, sizeof(doing), "forget host %s", argv[0]);
	if (ctl->dry_run)
		return ctl_would(ctl, "forget", "host", -1, "%s", doing);
	request.body = json_pack("{s:s, s:s, s:b}", "op", "forget", "host", argv[0], "force",
				 force);
	ret = model_ask(ctl, &service, &request, &reply, doing);
	if (!ret) {
		models = lost_models(&service, &reply);
		ret = models ? print_forgotten(ctl, argv[0], models) :
			       ctl_fail(ctl, "host %s is forgotten; no memory to list what went "
					     "with it, see: distmindctl model list", argv[0]);
		free(models);
	}
	message_clear(&reply);
	distmind_service_close(&service);
	return ret;
}

const struct command host_verbs[] = {
	{ "list", "", "Show the hosts, and those that are away with models in a spool.",
	  host_list },
	{ "show", "", "Show how long this host's daemon keeps others waiting, its spool and memory.",
	  host_show },
	{ "forget", "NAME [--force]", "Count no more on a host that is away for good.",
	  host_forget },
	{ 0 },
};

int host_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, host_verbs, argc, argv);
}
