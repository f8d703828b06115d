// SPDX-License-Identifier: GPL-2.0-or-later
/* distmindctl model, against a daemon that keeps what it was sent. */
#include "ctl_fake.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../userspace/model/manifest.h"
#include "model_files.h"
#include "model_daemon.h"

/* Two layers, of which one has a tensor of three chunks of 64 KiB, one of them shorter. */
#define HEADER                                                                           \
	"{\"b.weight\":{\"dtype\":\"F32\",\"shape\":[40000],\"data_offsets\":[0,160000]}," \
	"\"a.bias\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[160000,160016]}}"
#define DATA   160016
#define CHUNKS 4

/* What the daemon keeps of an upload, and how it behaves. */
static struct {
	struct model_manifest manifest;
	bool manifest_ok;
	uint32_t missing[8]; /* it says that these are */
	size_t missing_count;
	size_t missing_len; /* bytes of the list; 0: as many as it takes */
	unsigned int good, bad; /* chunks that came */
	bool committed;
	const char *reply; /* to everything, instead of the right one */
	const char *body;  /* in a memfd, of list, show and forget */
	const char *cut_at; /* the operation at which somebody cuts the file off */
	bool shy; /* takes descriptors only of those that it has answered */
	_Atomic bool answered;
} kept;

/* As a kernel does that refuses descriptors for who has not said that it takes them. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (kept.shy && !kept.answered && message->msg_controllen) {
		errno = EPERM;
		return -1;
	}
	return syscall(SYS_sendmsg, fd, message, flags);
}

static bool reply_with(struct model_daemon *daemon, const char *text, const void *data, size_t size)
{
	int fd = model_daemon_memfd(data, size);

	model_daemon_send(daemon, text, &fd, 1);
	close(fd);
	return true;
}

static bool answer_push(struct model_daemon *daemon, int fd)
{
	char error[MODEL_ERROR_LEN], text[64];
	size_t size, len = kept.missing_count * sizeof(uint32_t);
	char *manifest = model_daemon_read(fd, &size);

	kept.manifest_ok = !model_manifest_parse(&kept.manifest, manifest, size, error);
	free(manifest);
	snprintf(text, sizeof(text), "{\"ok\": true, \"missing\": %zu}", kept.missing_count);
	return reply_with(daemon, text, kept.missing, kept.missing_len ? kept.missing_len : len);
}

static bool answer_chunk(struct model_daemon *daemon, const json_t *request, int fd)
{
	size_t first = (size_t)json_integer_value(json_object_get(request, "first"));
	size_t count = (size_t)json_integer_value(json_object_get(request, "count"));
	size_t size, at = 0;
	char *data = model_daemon_read(fd, &size);

	for (size_t i = first; i < first + count && i < kept.missing_count; i++) {
		const struct model_chunk *chunk = &kept.manifest.chunks[kept.missing[i]];
		struct model_digest digest;

		if (at + chunk->size <= size &&
		    !model_digest_make(data + at, chunk->size, &digest) &&
		    model_digest_equal(&digest, &chunk->digest))
			kept.good++;
		else
			kept.bad++;
		at += chunk->size;
	}
	free(data);
	model_daemon_reply(daemon, at == size ? "{\"ok\": true}" :
			   "{\"ok\": false, \"errno\": \"EBADMSG\", \"reason\": \"too long\"}");
	return true;
}

static bool answer(struct model_daemon *daemon, const json_t *request, const int *fds,
		   unsigned int fd_count)
{
	const char *op = json_string_value(json_object_get(request, "op"));

	if (kept.cut_at && !strcmp(op, kept.cut_at) &&
	    truncate(files_path("m.safetensors"), 65536))
		abort();
	if (kept.reply) {
		model_daemon_reply(daemon, kept.reply);
	} else if (!strcmp(op, "state")) {
		kept.answered = true;
		model_daemon_reply(daemon, "{\"ok\": false, \"errno\": \"ENOENT\"}");
	} else if (!strcmp(op, "push") && fd_count == 1) {
		return answer_push(daemon, fds[0]);
	} else if (!strcmp(op, "chunk") && fd_count == 1) {
		return answer_chunk(daemon, request, fds[0]);
	} else if (!strcmp(op, "commit")) {
		kept.committed = true;
		model_daemon_reply(daemon, "{\"progress\": {\"done\": 1, \"total\": 2}}");
		model_daemon_reply(daemon, "{\"ok\": true, \"new_bytes\": 4096}");
	} else if (!strcmp(op, "list") || !strcmp(op, "show") || !strcmp(op, "forget")) {
		return reply_with(daemon, "{\"ok\": true}", kept.body, strlen(kept.body));
	} else {
		model_daemon_reply(daemon,
				   "{\"ok\": true, \"freed_bytes\": 1048576, \"chunks\": 3, "
				   "\"bad\": []}");
	}
	return true;
}

static int setup(void **state)
{
	memset(&kept, 0, sizeof(kept));
	return fake_setup(state);
}

static int teardown(void **state)
{
	(void)state;
	model_manifest_destroy(&kept.manifest);
	return 0;
}

static const char *write_model(const char *name)
{
	size_t size;
	uint8_t *data = files_safetensors(HEADER, DATA, &size);
	const char *path = files_write(name, data, size);

	free(data);
	return path;
}

/* The tool as the daemon's only client. The requests stay until model_daemon_end(). */
static struct outcome run(struct ctl how, const char *line)
{
	struct outcome outcome;

	model_daemon_start(answer);
	outcome = ctl_with(how, line);
	model_daemon_stop();
	return outcome;
}

static const struct ctl root = { .admin = true };

static void expect(const char *line, int status, const char *out, const char *err)
{
	struct outcome outcome = run(root, line);

	assert_says(outcome.err, err);
	assert_says(outcome.out, out);
	assert_int_equal(outcome.status, status);
	outcome_free(&outcome);
	model_daemon_end();
}

static void all_missing(void)
{
	for (uint32_t i = 0; i < CHUNKS; i++)
		kept.missing[i] = i;
	kept.missing_count = CHUNKS;
}

static void push(const char *options, int status, const char *out, const char *err)
{
	char line[512];

	snprintf(line, sizeof(line), "%s model push mlp %s", options, write_model("m.safetensors"));
	expect(line, status, out, err);
}

static void a_push_sends_what_is_missing(void **state)
{
	(void)state;
	all_missing();
	push("", CTL_OK, "mlp: 156.8K in 4 chunks and 2 layers; 4K new\n", "");
	assert_true(kept.manifest_ok);
	assert_int_equal(kept.manifest.chunk_count, CHUNKS);
	assert_int_equal(kept.good, CHUNKS);
	assert_int_equal(kept.bad, 0);
	assert_true(kept.committed);
}

static void a_push_waits_until_the_daemon_takes_descriptors(void **state)
{
	(void)state;
	all_missing();
	kept.shy = true;
	push("", CTL_OK, "mlp: 156.8K in 4 chunks and 2 layers; 4K new\n", "");
	assert_true(kept.answered);
	assert_int_equal(kept.good, CHUNKS);
	assert_true(kept.committed);
}

static void a_push_of_known_chunks_sends_none(void **state)
{
	json_t *document, *row;
	struct outcome outcome;
	char line[512];

	(void)state;
	push("", CTL_OK, "mlp:", "");
	assert_int_equal(kept.good + kept.bad, 0);
	assert_true(kept.committed);
	model_manifest_destroy(&kept.manifest);

	/* Some, in an order of the daemon's. */
	kept.missing[0] = 3;
	kept.missing[1] = 1;
	kept.missing_count = 2;
	snprintf(line, sizeof(line), "-j model push mlp %s", write_model("m.safetensors"));
	outcome = run(root, line);
	document = json_loads(outcome.out, 0, NULL);
	row = json_array_get(json_object_get(document, "models"), 0);
	assert_int_equal(json_integer_value(json_object_get(row, "sent_chunks")), 2);
	assert_int_equal(json_integer_value(json_object_get(row, "new_bytes")), 4096);
	assert_int_equal(kept.good, 2);
	assert_int_equal(kept.bad, 0);
	json_decref(document);
	outcome_free(&outcome);
	model_daemon_end();
}

static void a_dry_push_stores_nothing(void **state)
{
	(void)state;
	all_missing();
	push("--dry-run", CTL_OK, "would store model mlp: 4 of its 4 chunks, 156.3K", "");
	assert_int_equal(kept.good, 0);
	assert_false(kept.committed);
}

static void a_push_asks_for_replicas_and_order(void **state)
{
	struct outcome outcome;
	char line[1024];

	(void)state;
	files_write("order", "b\na\t100\n", 8);
	snprintf(line, sizeof(line), "model push mlp --replicas 3 --order %s %s",
		 files_path("order"), write_model("m.safetensors"));
	outcome = run(root, line);
	assert_int_equal(outcome.status, CTL_OK);
	outcome_free(&outcome);
	assert_int_equal(json_integer_value(json_object_get(model_daemon_asked(1), "replicas")), 3);
	assert_string_equal(kept.manifest.layers[0].name, "b");
	assert_int_equal(kept.manifest.layers[1].flops, 100);
	model_daemon_end();
}

static void a_push_that_cannot_fit_reads_nothing(void **state)
{
	(void)state;
	kept.reply = "{\"ok\": false, \"errno\": \"ENOSPC\", \"reason\": \"it has 9 bytes, and "
		     "all donors together give 8\"}";
	push("", CTL_FAILED, "", "cannot push model mlp: it has 9 bytes, and all donors");
	kept.reply = "{\"ok\": false, \"errno\": \"ENOSPC\", \"reason\": \"no room\"}";
	push("--dry-run", CTL_FAILED, "", "no room");
}

static void a_push_draws_a_bar_on_a_terminal_only(void **state)
{
	struct outcome outcome;
	char line[512];

	(void)state;
	all_missing();
	snprintf(line, sizeof(line), "model push mlp %s", write_model("m.safetensors"));
	outcome = run((struct ctl){ .admin = true, .terminal = true }, line);
	assert_contains(outcome.err, "\rreading  [");
	assert_contains(outcome.err, "storing  [####################....................]  50%");
	assert_string_equal(outcome.err + strlen(outcome.err) - 4, "\r\033[K");
	outcome_free(&outcome);
	model_daemon_end();
	model_manifest_destroy(&kept.manifest);
	outcome = run(root, line);
	assert_string_equal(outcome.err, "");
	outcome_free(&outcome);
	model_daemon_end();
}

/* Before it is read, and before it is sent. */
static void a_file_that_is_cut_off_meanwhile_is_refused(void **state)
{
	(void)state;
	kept.cut_at = "room";
	push("", CTL_FAILED, "", "cannot push model mlp: a file was cut off while it was read");
	assert_false(kept.manifest_ok);
	all_missing();
	kept.cut_at = "push";
	push("", CTL_FAILED, "", "cannot push model mlp: a file was cut off while it was read");
	assert_false(kept.committed);
}

static void files_that_are_wrong_are_named(void **state)
{
	size_t size;
	uint8_t *data = files_safetensors(
		"{\"a\":{\"dtype\":\"F31\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16, &size);
	char line[512], part[512];
	const char *path;

	(void)state;
	path = files_write("bad.safetensors", data, size);
	free(data);
	snprintf(line, sizeof(line), "model push mlp %s", path);
	snprintf(part, sizeof(part), "distmindctl: %s", path);
	expect(line, CTL_FAILED, "", part);
	expect(line, CTL_FAILED, "", "dtype");
	expect("model push mlp /tmp/nothing-here.safetensors", CTL_FAILED, "",
	       "/tmp/nothing-here.safetensors");
	files_write("order", "b\nc\na\n", 6);
	snprintf(line, sizeof(line), "model push mlp --order %s %s", files_path("order"),
		 write_model("m.safetensors"));
	expect(line, CTL_FAILED, "", "order:2");
	assert_false(kept.manifest_ok);
}

static void words_that_are_wrong_are_refused(void **state)
{
	(void)state;
	expect("model push mlp", CTL_USAGE, "", "[--owner USER[:GROUP]] [--mode MODE]");
	expect("model push a/b file", CTL_USAGE, "", "'a/b' cannot be a model's name");
	expect("model push mlp --replicas 0 file", CTL_USAGE, "", "--replicas 0");
	expect("model push mlp --replicas 9 file", CTL_USAGE, "", "from 1 to 8");
	expect("model push mlp --mode 0777 file", CTL_USAGE, "", "0777 is not a mode");
	expect("model push mlp --owner nobody-at-all file", CTL_USAGE, "", "not a user");
	expect("model chmod mlp 8", CTL_USAGE, "", "8 is not a mode");
	expect("model chmod mlp 64x", CTL_USAGE, "", "64x is not a mode");
	expect("model chown mlp root:", CTL_USAGE, "", "'root:' is not USER");
	expect("model chown mlp :no-such-group", CTL_USAGE, "", "not a group");
	expect("model replicas mlp none", CTL_USAGE, "", "none is not a number of replicas");
	expect("model delete", CTL_USAGE, "", "delete needs NAME");
	expect("model show ../x", CTL_USAGE, "", "cannot be a model's name");
	expect("model load mlp 3", CTL_USAGE, "", "load needs NAME [--gpu GPU]");
	assert_int_equal(model_daemon.connections, 0);
}

static void a_user_does_not_push(void **state)
{
	struct outcome outcome;
	char line[512];

	(void)state;
	snprintf(line, sizeof(line), "model push mlp %s", write_model("m.safetensors"));
	outcome = run((struct ctl){ 0 }, line);
	assert_int_equal(outcome.status, CTL_FAILED);
	assert_contains(outcome.err, "run it as root");
	assert_int_equal(model_daemon.connections, 0);
	outcome_free(&outcome);
	model_daemon_end();
}

static void the_daemons_reason_is_told(void **state)
{
	(void)state;
	kept.reply = "{\"ok\": false, \"errno\": \"ENOENT\", "
		     "\"reason\": \"model: there is no mlp\"}";
	expect("model delete mlp", CTL_FAILED, "",
	       "cannot delete model mlp: model: there is no mlp\n");
	expect("model show mlp", CTL_FAILED, "", "cannot show model mlp: model: there is no mlp\n");
	push("", CTL_FAILED, "", "cannot push model mlp: model: there is no mlp\n");
	kept.reply = "{\"ok\": false, \"errno\": \"EPERM\", \"reason\": \"no\"}";
	expect("model delete mlp", CTL_FAILED, "",
	       "cannot delete model mlp: not permitted; run it as root");
	kept.reply = "7";
	expect("model list", CTL_FAILED, "", "no JSON object");
}

static void lists_of_missing_chunks_are_checked(void **state)
{
	(void)state;
	kept.missing[0] = CHUNKS;
	kept.missing_count = 1;
	push("", CTL_FAILED, "", "missing: not the chunks of this model");
	model_manifest_destroy(&kept.manifest);
	all_missing();
	kept.missing_len = 7;
	push("", CTL_FAILED, "", "missing: not the chunks of this model");
	model_manifest_destroy(&kept.manifest);
	kept.missing_len = 0;
	kept.missing_count = 8;
	push("", CTL_FAILED, "", "missing: not the chunks of this model");
	assert_false(kept.committed);
}

static void changes_are_asked_for(void **state)
{
	static const struct {
		const char *line, *out, *request;
	} cases[] = {
		{ "model delete mlp", "freed 1M\n", "{\"op\": \"delete\", \"model\": \"mlp\"}" },
		{ "model evict mlp", "freed 1M\n", "{\"op\": \"evict\", \"model\": \"mlp\"}" },
		{ "model evict mlp --gpu cpu0", "freed 1M\n",
		  "{\"op\": \"evict\", \"model\": \"mlp\", \"gpu\": 0}" },
		{ "model load mlp", "", "{\"op\": \"preload\", \"model\": \"mlp\", \"gpu\": 0}" },
		{ "model load mlp --gpu 0", "",
		  "{\"op\": \"preload\", \"model\": \"mlp\", \"gpu\": 0}" },
		{ "model replicas mlp 2", "",
		  "{\"op\": \"replicas\", \"model\": \"mlp\", \"replicas\": 2}" },
		{ "model chmod mlp 640", "",
		  "{\"op\": \"access\", \"model\": \"mlp\", \"mode\": 416}" },
		{ "model chown mlp 1000:7", "",
		  "{\"op\": \"access\", \"model\": \"mlp\", \"uid\": 1000, \"gid\": 7}" },
		{ "model chown mlp root", "",
		  "{\"op\": \"access\", \"model\": \"mlp\", \"uid\": 0}" },
		{ "model chown mlp :7", "",
		  "{\"op\": \"access\", \"model\": \"mlp\", \"gid\": 7}" },
		{ "host forget donor2", "",
		  "{\"op\": \"forget\", \"host\": \"donor2\", \"force\": false}" },
		{ "host forget --force donor2", "",
		  "{\"op\": \"forget\", \"host\": \"donor2\", \"force\": true}" },
		{ "model verify mlp", "mlp: 3 chunks are what was pushed\n",
		  "{\"op\": \"verify\", \"model\": \"mlp\"}" },
	};

	(void)state;
	kept.body = "{\"lost_models\": []}";
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct outcome outcome = run(root, cases[i].line);
		json_t *request = json_loads(cases[i].request, 0, NULL);

		assert_string_equal(outcome.err, "");
		assert_contains(outcome.out, cases[i].out);
		assert_int_equal(outcome.status, CTL_OK);
		assert_true(json_equal(model_daemon_asked(0), request));
		json_decref(request);
		outcome_free(&outcome);
		model_daemon_end();
	}
}

static void a_dry_run_asks_nothing(void **state)
{
	(void)state;
	expect("--dry-run model delete mlp", CTL_OK, "would delete model mlp\n", "");
	expect("--dry-run model load mlp", CTL_OK, "would load model mlp to gpu 0 (cpu0)\n", "");
	expect("--dry-run host forget donor2", CTL_OK, "would forget host donor2\n", "");
	assert_int_equal(model_daemon.connections, 0);
}

static void bad_chunks_are_a_failure(void **state)
{
	(void)state;
	kept.reply = "{\"ok\": true, \"chunks\": 3, \"bad\": [{\"chunk\": \"00ff\", "
			"\"host\": \"donor1\", \"reason\": \"digest\"}]}";
	expect("model verify mlp", CTL_FAILED, "00ff  donor1 digest",
	       "1 of 3 chunks of mlp are not");
	expect("-j model verify mlp", CTL_FAILED, "\"host\": \"donor1\"",
	       "1 of 3 chunks of mlp are not");
	/* More than the daemon names, and a fix that can be carried out. */
	kept.reply = "{\"ok\": true, \"chunks\": 300, \"bad_chunks\": 200, \"bad\": [{\"chunk\": "
		     "\"00ff\", \"host\": \"\", \"reason\": \"nobody holds it\"}]}";
	expect("model verify mlp", CTL_FAILED, "nobody holds it",
	       "200 of 300 chunks of mlp are not what was pushed: if nobody has them, delete the "
	       "model and push it again");
}

static void hosts_are_listed(void **state)
{
	(void)state;
	kept.body = "{\"models\": [], \"hosts\": [{\"name\": \"donor1\", \"address\": "
		    "\"10.77.0.2\", \"memory_total\": 1073741824, \"memory_free\": 1048576, "
		    "\"memory_longest\": 65536, \"damaged\": 2, \"state\": \"live\"}, {\"name\": \"donor2\", \"address\": \"\", "
		    "\"memory_total\": 0, \"memory_free\": 0, \"state\": \"away\"}]}";
	expect("host", CTL_OK,
	       "HOST   ADDRESS   STATE GIVES FREE LONGEST DAMAGED\n"
	       "donor1 10.77.0.2 live     1G   1M     64K       2\n"
	       "donor2 -         away      0    0       0       0\n", "");
	expect("-j host list", CTL_OK,
	       "{\"host\": \"donor2\", \"address\": \"\", \"state\": \"away\", "
	       "\"memory_total\": 0, \"memory_free\": 0, \"memory_longest\": 0, "
	       "\"damaged\": 0}", "");
	kept.body = "{\"hosts\": []}";
	expect("host list", CTL_OK, "", "no hosts");
}

static void hosts_of_a_catalog_that_is_silent_are_not_called_live(void **state)
{
	(void)state;
	kept.body = "{\"models\": [], \"hosts\": [{\"name\": \"donor1\", \"address\": "
		    "\"10.77.0.2\", \"memory_total\": 1073741824, \"memory_free\": 1048576, "
		    "\"state\": \"unknown\"}], \"status\": {\"host\": \"donor1\", "
		    "\"catalog\": {\"kind\": \"etcd\", \"answers\": false, "
		    "\"silent_ms\": 40123, \"reason\": \"etcd at http://x:2379: timed out\", "
		    "\"fix\": \"etcdctl endpoint health\", \"member\": \"joined\"}}}";
	expect("host list", CTL_FAILED, "donor1 10.77.0.2 unknown", "no answer for 40 s");
	expect("host list", CTL_FAILED, "unknown", "etcd at http://x:2379: timed out");
	expect("host list", CTL_FAILED, "unknown", "fix: etcdctl endpoint health");
	expect("-j host list", CTL_FAILED, "\"state\": \"unknown\"", "no answer for 40 s");
	expect("model list", CTL_FAILED, "unknown", "no answer for 40 s");
}

static void a_host_shows_how_long_its_turns_take(void **state)
{
	(void)state;
	kept.reply = "{\"ok\": true, \"host\": \"donor1\", \"turns\": {\"count\": 3, "
		     "\"late\": 1, \"limit_us\": 20000, \"longest_us\": 31000, "
		     "\"longest_waited_us\": 4, \"longest_at\": 9, \"longest_what\": \"show\", "
		     "\"buckets\": [0, 2, 0, 1]}}";
	expect("-j host show", CTL_OK,
	       "{\"host\": \"donor1\", \"turns\": 3, \"limit_us\": 20000, \"late\": 1, ", "");
	expect("-j host show", CTL_OK,
	       "\"longest_us\": 31000, \"longest_what\": \"show\", \"longest_waited_us\": 4, "
	       "\"longest_at\": 9, \"histogram\": [0, 2, 0, 1]}", "");
	expect("host show", CTL_OK, "31ms", "");
	/* Without a spool there is nothing to say of it. */
	expect("-j host show", CTL_OK, "\"spool\": []", "");
	expect("-j host show", CTL_OK, "\"memory\": []", "");
	kept.reply = "{\"ok\": true, \"host\": \"donor1\", \"turns\": {\"buckets\": []}, "
		     "\"memory\": {\"size\": 8388608, \"used\": 4194304, \"chunks\": 3, "
		     "\"bytes\": 3145728, \"kept_chunks\": 1, \"kept_bytes\": 1048576}}";
	expect("-j host show", CTL_OK,
	       "\"memory\": [\n  {\"size\": 8388608, \"used\": 4194304, \"chunks\": 3, "
	       "\"bytes\": 3145728, \"kept_chunks\": 1, \"kept_bytes\": 1048576}", "");
	expect("host show more", CTL_USAGE, "", "does not know what to do");
}

static void a_host_shows_how_its_spool_fares(void **state)
{
	(void)state;
	kept.reply = "{\"ok\": true, \"host\": \"donor1\", \"turns\": {\"buckets\": []}, "
		     "\"spool\": {\"path\": \"/srv/spool\", \"restoring\": true, "
		     "\"files\": 200, \"restored\": 12, \"restored_bytes\": 1048576, "
		     "\"skipped\": 1, \"damaged\": 2, \"refused\": 0, \"reason\": \"\", "
		     "\"fix\": \"\"}}";
	expect("-j host show", CTL_OK,
	       "\"spool\": [\n  {\"path\": \"/srv/spool\", \"state\": \"restoring\", "
	       "\"restored\": 12, \"files\": 200, \"restored_bytes\": 1048576, "
	       "\"skipped\": 1, \"damaged\": 2, \"refused\": 0, \"reason\": \"\", "
	       "\"fix\": \"\"}", "");
	expect("host show", CTL_OK, "restoring", "");
	kept.reply = "{\"ok\": true, \"host\": \"donor1\", \"turns\": {\"buckets\": []}, "
		     "\"spool\": {\"path\": \"/srv/spool\", \"refused\": 3, "
		     "\"reason\": \"No space left on device\", \"fix\": \"make room\"}}";
	expect("host show", CTL_OK, "failing", "");
	expect("host show", CTL_OK, "make room", "");
}

static void what_is_lost_with_a_host_is_told(void **state)
{
	(void)state;
	kept.body = "{\"lost_models\": [\"bert\", \"mlp\"]}";
	expect("host forget donor2 --force", CTL_OK, "models that have lost chunks: bert,mlp\n",
	       "");
	expect("-j host forget donor2 --force", CTL_OK,
	       "{\"hosts\": [\n  {\"host\": \"donor2\", \"action\": \"forget\", "
	       "\"lost_models\": \"bert,mlp\"}\n]}\n", "");
	kept.body = "{\"lost_models\": []}";
	expect("-j host forget donor2", CTL_OK, "\"lost_models\": \"\"", "");
	/* It has no memory for the list. */
	kept.reply = "{\"ok\": true, \"lost_count\": 7}";
	expect("host forget donor2 --force", CTL_FAILED, "",
	       "host donor2 is forgotten; no memory to list what went with it");
	kept.reply = "{\"ok\": false, \"errno\": \"ENOTEMPTY\", \"reason\": \"only host donor2 "
		     "has some chunks of mlp: say --force to lose them\"}";
	expect("host forget donor2", CTL_FAILED, "",
	       "cannot forget host donor2: only host donor2 has some chunks of mlp: say --force");
	kept.reply = "{\"ok\": false, \"errno\": \"EPERM\", \"reason\": \"root only\"}";
	expect("host forget donor2", CTL_FAILED, "", "run it as root");
	expect("host forget", CTL_USAGE, "", "forget needs NAME");
	expect("host forget a/b", CTL_USAGE, "", "'a/b' cannot be a host's name");
}

static void the_list_shows_models_and_hosts(void **state)
{
	struct outcome outcome;

	(void)state;
	kept.body = "{\"models\": [{\"name\": \"mlp\", \"bytes\": 1048576, \"chunks\": 20, "
		       "\"layers\": 8, \"replicas\": 2, \"extra_replicas\": 1, \"copies\": 3, "
		       "\"state\": \"available\", "
		       "\"resident\": [0, 2], \"shared_bytes\": 4096, \"uid\": 0, "
		       "\"gid\": 0, \"mode\": 416}], "
		       "\"hosts\": [{\"name\": \"donor1\", \"address\": \"10.77.0.2\", "
		       "\"memory_total\": 1073741824, \"memory_free\": 1048576, \"state\": \"live\"}], "
		       "\"stored_bytes\": 1044480, "
		       "\"cache\": {\"size\": 8388608, \"bytes\": 1048576, \"chunks\": 20, "
		       "\"hits\": 60, \"misses\": 20, \"evictions\": 3}}";
	expect("model list", CTL_OK,
	       "NAME SIZE CHUNKS LAYERS REPLICAS EXTRA COPIES STATE     SHARED GPUS OWNER GROUP MODE\n"
	       "mlp    1M     20      8        2     1      3 available     4K 0,2  root  root  0640\n",
	       "");
	expect("model", CTL_OK, "donor1 10.77.0.2 live", "");
	expect("-j model list", CTL_OK, "\"shared_bytes\": 4096", "");
	expect("-j model list", CTL_OK,
	       "\"replicas\": 2, \"extra_replicas\": 1, \"copies\": 3", "");
	expect("-j model list", CTL_OK, "\"stored_bytes\": 1044480", "");
	expect("model list", CTL_OK,
	       "CACHE USED CHUNKS HITS MISSES EVICTIONS\n"
	       "   8M   1M     20   60     20         3\n", "");
	expect("-j model list", CTL_OK, "{\"size\": 8388608, \"bytes\": 1048576, ", "");
	kept.body = "{\"models\": [{\"name\": \"odd\", \"state\": \"unreadable\", "
		    "\"error\": \"it makes no sense\"}]}";
	expect("model list", CTL_OK, "error: it makes no sense", "");
	expect("-j model list", CTL_OK, "\"error\": \"it makes no sense\"", "");
	kept.body = "{\"models\": [], \"hosts\": [], \"stored_bytes\": 0, \"cache\": null}";
	expect("model list", CTL_OK, "stored    0\n", "no models; push one with");
	outcome = run(root, "model list");
	assert_string_equal(outcome.out, "stored    0\n");
	outcome_free(&outcome);
	model_daemon_end();
	expect("-j model list", CTL_OK, "\"cache\": []", "");
	kept.body = "[]";
	expect("model list", CTL_FAILED, "", "descriptor 0: no JSON object");
}

#define VIEW_MANIFEST_MAX 8192

/* A view of the model that was pushed, in two groups, on two hosts. */
static char *view(const char *groups, const char *holders)
{
	size_t len;
	char *manifest, *text;

	kept.missing_count = 0;
	model_manifest_destroy(&kept.manifest);
	push("", CTL_OK, "mlp:", "");
	assert_int_equal(model_manifest_encode(&kept.manifest, &manifest, &len), 0);
	text = malloc(len + VIEW_MANIFEST_MAX);
	sprintf(text, "{\"manifest\": %s, \"groups\": %s, \"replicas\": 1, "
		"\"extra_replicas\": 2, \"copies\": 0, \"predicted_ns\": 1500000, "
		"\"greedy_ns\": 2000000, \"bound_ns\": 1000000, \"rates\": {}, \"holders\": %s}",
		manifest, groups, holders);
	free(manifest);
	kept.body = text;
	return text;
}

#define GROUPS "[{\"first_layer\": 0, \"end_layer\": 1, \"first_chunk\": 0, \"end_chunk\": 1, " \
	       "\"bytes\": 16}, {\"first_layer\": 1, \"end_layer\": 2, \"first_chunk\": 1, "     \
	       "\"end_chunk\": 4, \"bytes\": 160000}]"
#define HOLDERS "[[\"donor2\"], [\"donor1\", \"donor2\"], [\"donor2\"], []]"

static void a_model_is_shown_with_its_groups(void **state)
{
	char *text = view(GROUPS, HOLDERS);

	(void)state;
	expect("model show mlp", CTL_OK, "predicted 1.5ms\n", "");
	expect("-j model show mlp", CTL_OK,
	       "\"replicas\": 1, \"extra_replicas\": 2, \"copies\": 0", "");
	expect("model show mlp", CTL_OK,
	       "GROUP LAYERS CHUNKS   SIZE FIRST LAYER LAST LAYER\n"
	       "    0      1      1    16B a           a\n"
	       "    1      1      3 156.3K b           b\n", "");
	expect("model show mlp --map", CTL_OK,
	       "GROUP  LAYERS         SIZE  a: donor1  b: donor2  CHUNKS\n"
	       "0      0-0             16B         0%       100%  b\n"
	       "1      1-1          156.3K        41%        82%  a+b-\n", "");
	expect("-j model show mlp --map", CTL_OK,
	       "{\"group\": 1, \"host\": \"donor1\", \"chunks\": 1, \"bytes\": 65536}", "");
	free(text);
}

static void a_map_is_drawn_as_a_picture(void **state)
{
	char *text = view(GROUPS, HOLDERS), line[512], *picture;
	FILE *file;
	size_t size;

	(void)state;
	snprintf(line, sizeof(line), "model show mlp --svg %s", files_path("map.svg"));
	expect(line, CTL_OK, "mlp", "");
	file = fopen(files_path("map.svg"), "r");
	assert_non_null(file);
	picture = model_daemon_read(fileno(file), &size);
	assert_memory_equal(picture, "<svg ", 5);
	assert_string_equal(picture + size - 7, "</svg>\n");
	assert_contains(picture, "class=\"c0\"><title>chunk 1, 64K, ");
	assert_contains(picture, "nobody keeps it");
	fclose(file);
	free(picture);
	free(text);
	text = view(GROUPS, HOLDERS);
	expect("model show mlp --svg /nowhere/map.svg", CTL_FAILED, "", "/nowhere/map.svg");
	free(text);
}

static void views_that_are_wrong_are_refused(void **state)
{
	static const struct {
		const char *groups, *holders, *part;
	} wrong[] = {
		{ "[]", HOLDERS, "groups" },
		{ "[{}]", HOLDERS, "groups[].first_layer" },
		{ "[{\"first_layer\": 1, \"end_layer\": 2, \"first_chunk\": 0, \"end_chunk\": 4, "
		  "\"bytes\": 1}]", HOLDERS, "groups[].first_layer" },
		{ "[{\"first_layer\": 0, \"end_layer\": 3, \"first_chunk\": 0, \"end_chunk\": 4, "
		  "\"bytes\": 1}]", HOLDERS, "groups[].end_layer" },
		{ "[{\"first_layer\": 0, \"end_layer\": 2, \"first_chunk\": 0, \"end_chunk\": 5, "
		  "\"bytes\": 1}]", HOLDERS, "groups[].end_chunk" },
		{ "[{\"first_layer\": 0, \"end_layer\": 2, \"first_chunk\": 0, \"end_chunk\": 3, "
		  "\"bytes\": 1}]", HOLDERS, "belongs to none" },
		{ GROUPS, "[[], []]", "holders: not a list per chunk" },
		{ GROUPS, "[[7], [], [], []]", "holders[0]" },
	};
	char *text;

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		text = view(wrong[i].groups, wrong[i].holders);
		expect("model show mlp --map", CTL_FAILED, "", wrong[i].part);
		free(text);
	}
	kept.body = "{\"manifest\": {}}";
	expect("model show mlp", CTL_FAILED, "", "distmindd's reply: manifest.");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_push_sends_what_is_missing),
		TEST(a_push_waits_until_the_daemon_takes_descriptors),
		TEST(a_push_of_known_chunks_sends_none),
		TEST(a_dry_push_stores_nothing),
		TEST(a_push_that_cannot_fit_reads_nothing),
		TEST(a_push_asks_for_replicas_and_order),
		TEST(a_push_draws_a_bar_on_a_terminal_only),
		TEST(a_file_that_is_cut_off_meanwhile_is_refused),
		TEST(files_that_are_wrong_are_named),
		TEST(words_that_are_wrong_are_refused),
		TEST(a_user_does_not_push),
		TEST(the_daemons_reason_is_told),
		TEST(lists_of_missing_chunks_are_checked),
		TEST(changes_are_asked_for),
		TEST(a_dry_run_asks_nothing),
		TEST(bad_chunks_are_a_failure),
		TEST(hosts_are_listed),
		TEST(hosts_of_a_catalog_that_is_silent_are_not_called_live),
		TEST(a_host_shows_how_long_its_turns_take),
		TEST(a_host_shows_how_its_spool_fares),
		TEST(what_is_lost_with_a_host_is_told),
		TEST(the_list_shows_models_and_hosts),
		TEST(a_model_is_shown_with_its_groups),
		TEST(a_map_is_drawn_as_a_picture),
		TEST(views_that_are_wrong_are_refused),
	};

	return cmocka_run_group_tests_name("ctl_model", tests, files_setup, files_teardown);
}
