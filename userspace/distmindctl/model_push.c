// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Storing a model: the files are checked and cut into chunks here, distmindd says
 * which of these nobody has, and only they are sent. The connection is the upload:
 * whatever ends this process ends the upload, and nothing stays behind.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/size.h"
#include "../model/image.h"
#include "model.h"
#include "options.h"

/* Bytes in one message, at most; the daemon takes twice as many. */
#define BATCH_MAX (32U << 20)

#define CUT_OFF "cannot %s: a file was cut off while it was read: push it again"

#define MODE_DEFAULT 0644 /* everybody may load it, and nobody but its owner delete it */

struct options {
	const char *name;
	const char *order;
	uint32_t replicas;
	const char *const *files;
	size_t file_count;
	struct model_owner owner;
	uint32_t mode;
};

struct push {
	struct ctl *ctl;
	const struct options *options;
	struct distmind_service service;
	struct model_image image;
	uint32_t *missing; /* owned: chunks that nobody has */
	uint32_t missing_count;
	uint64_t missing_bytes;
	char doing[128];
};

/*
 * Files are mapped, and a page that is no longer in its file cannot be read. Whoever was at it
 * goes on with zeros, and finds out.
 */
static volatile sig_atomic_t cut_off;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	void *begin = (void *)((uintptr_t)info->si_addr & ~(page - 1));

	(void)context;
	/* What is not this comes again, and ends the process. */
	if (info->si_code != BUS_ADRERR ||
	    mmap(begin, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	cut_off = 1;
}

/* What cannot fit need not be read. */
static int ask_room(struct push *push)
{
	struct distmind_service_request request = { 0 };
	struct message reply;
	int ret;

	request.body = json_pack("{s:s, s:I}", "op", "room", "bytes",
				 (json_int_t)push->image.manifest.size);
	ret = model_ask(push->ctl, &push->service, &request, &reply, push->doing);
	message_clear(&reply);
	return ret;
}

/* Every digest, which is also the one pass over the files that reads all of them. */
static int digest(struct push *push)
{
	const struct model_manifest *manifest = &push->image.manifest;
	struct model_progress progress;
	int err = 0;

	model_progress_begin(&progress, push->ctl, "reading");
	for (uint32_t i = 0; i < manifest->chunk_count && !err && !cut_off; i++) {
		err = model_image_digest(&push->image, i);
		model_progress_show(manifest->chunks[i].offset + manifest->chunks[i].size,
				    manifest->size, &progress);
	}
	model_progress_end(&progress);
	if (cut_off)
		return ctl_fail(push->ctl, CUT_OFF, push->doing);
	return err ? ctl_fail(push->ctl, "cannot %s: libcrypto has no SHA-256", push->doing) :
		     CTL_OK;
}

static int take_missing(struct push *push, const struct message *reply)
{
	const struct model_manifest *manifest = &push->image.manifest;
	uint64_t count;
	size_t size;
	void *data;
	int err;

	err = distmind_service_number(&push->service, reply->body, "missing", "push", &count);
	if (!err)
		err = distmind_service_read(&push->service, reply, 0, &data, &size);
	if (err)
		return model_fail(push->ctl, &push->service, err, push->doing);
	push->missing = data;
	push->missing_count = (uint32_t)count;
	if (count > manifest->chunk_count || size != count * sizeof(*push->missing))
		err = -EPROTO;
	for (uint32_t i = 0; i < count && !err; i++) {
		push->missing[i] = le32toh(push->missing[i]);
		if (push->missing[i] >= manifest->chunk_count)
			err = -EPROTO;
		else
			push->missing_bytes += manifest->chunks[push->missing[i]].size;
	}
	return err ? ctl_fail(push->ctl, "cannot %s: distmindd's reply: missing: not the chunks "
			      "of this model; use a distmindd of the same version", push->doing) :
		     CTL_OK;
}

static int announce(struct push *push)
{
	struct distmind_service_request request = { .fd_count = 1 };
	struct message reply;
	size_t len;
	char *text;
	int fd, ret;

	ret = model_manifest_encode(&push->image.manifest, &text, &len);
	if (ret)
		return ctl_fail(push->ctl, "cannot %s: %s; free memory and try again", push->doing,
				strerror(-ret));
	fd = message_memfd(text, len);
	free(text);
	if (fd < 0)
		return ctl_fail(push->ctl, "cannot %s: memfd: %s; free memory and try again",
				push->doing, strerror(-fd));
	request.fds = &fd;
	request.body = json_pack("{s:s, s:s, s:I, s:I}", "op", "push", "model",
				 push->options->name, "replicas",
				 (json_int_t)push->options->replicas, "mode",
				 (json_int_t)push->options->mode);
	if (request.body && model_owner_add(request.body, &push->options->owner)) {
		json_decref(request.body);
		request.body = NULL;
	}
	ret = model_ask(push->ctl, &push->service, &request, &reply, push->doing);
	close(fd);
	if (!ret)
		ret = take_missing(push, &reply);
	message_clear(&reply);
	return ret;
}

static int write_all(int fd, const void *data, size_t size)
{
	while (size) {
		ssize_t part = write(fd, data, size);

		if (part < 0 && errno == EINTR)
			continue;
		if (part < 0)
			return -errno;
		data = (const char *)data + part;
		size -= (size_t)part;
	}
	return 0;
}

/* As many of the missing chunks, from first on, as a message takes. */
static int fill(struct push *push, uint32_t first, uint32_t *count, uint64_t *bytes)
{
	int fd = memfd_create("chunks", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int err = fd < 0 ? -errno : 0;

	*count = 0;
	*bytes = 0;
	while (!err && first + *count < push->missing_count) {
		uint32_t chunk = push->missing[first + *count];
		uint32_t size = push->image.manifest.chunks[chunk].size;

		if (*count && *bytes + size > BATCH_MAX)
			break;
		err = write_all(fd, model_image_chunk(&push->image, chunk), size);
		/* The kernel reads for us, and says so instead of the signal. */
		if (err == -EFAULT)
			cut_off = 1;
		*bytes += size;
		++*count;
	}
	if (!err)
		err = message_seal(fd);
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	return err;
}

static int send_chunks(struct push *push)
{
	struct model_progress progress;
	uint64_t done = 0, bytes;
	uint32_t first, count;
	int ret = CTL_OK;

	model_progress_begin(&progress, push->ctl, "sending");
	for (first = 0; first < push->missing_count && !ret; first += count, done += bytes) {
		struct distmind_service_request request = { .fd_count = 1 };
		struct message reply;
		int fd = fill(push, first, &count, &bytes);

		model_progress_show(done, push->missing_bytes, &progress);
		if (cut_off) {
			ret = ctl_fail(push->ctl, CUT_OFF, push->doing);
			if (fd >= 0)
				close(fd);
			break;
		}
		if (fd < 0) {
			ret = ctl_fail(push->ctl, "cannot %s: memfd: %s; free memory and try again",
				       push->doing, strerror(-fd));
			break;
		}
		request.fds = &fd;
		request.body = json_pack("{s:s, s:I, s:I}", "op", "chunk", "first",
					 (json_int_t)first, "count", (json_int_t)count);
		ret = model_ask(push->ctl, &push->service, &request, &reply, push->doing);
		close(fd);
		message_clear(&reply);
	}
	model_progress_end(&progress);
	return ret;
}

static int report(struct push *push, uint64_t new_bytes)
{
	const struct model_manifest *manifest = &push->image.manifest;
	char size[SIZE_TEXT_LEN], added[SIZE_TEXT_LEN];
	struct print print;

	if (!push->ctl->json) {
		size_format(manifest->size, size, sizeof(size));
		size_format(new_bytes, added, sizeof(added));
		fprintf(push->ctl->out, "%s: %s in %u chunks and %u layers; %s new\n",
			manifest->name, size, manifest->chunk_count, manifest->layer_count, added);
		return CTL_OK;
	}
	ctl_print_open(push->ctl, &print);
	print_list_open(&print, "models", PRINT_RECORD);
	print_row_open(&print);
	print_text(&print, "name", "NAME", manifest->name);
	print_size(&print, "bytes", "SIZE", manifest->size);
	print_number(&print, "chunks", "CHUNKS", manifest->chunk_count);
	print_number(&print, "layers", "LAYERS", manifest->layer_count);
	print_number(&print, "sent_chunks", "SENT", push->missing_count);
	print_size(&print, "sent_bytes", "SENT SIZE", push->missing_bytes);
	print_size(&print, "new_bytes", "NEW", new_bytes);
	print_row_close(&print);
	print_list_close(&print);
	return ctl_print_close(push->ctl, &print);
}

static int commit(struct push *push)
{
	struct distmind_service_request request = { .progress = model_progress_show };
	struct message reply;
	struct model_progress progress;
	uint64_t new_bytes = 0;
	int ret, err;

	model_progress_begin(&progress, push->ctl, "storing");
	request.arg = &progress;
	request.body = json_pack("{s:s}", "op", "commit");
	ret = model_ask(push->ctl, &push->service, &request, &reply, push->doing);
	model_progress_end(&progress);
	if (!ret) {
		err = distmind_service_number(&push->service, reply.body, "new_bytes", "commit",
					      &new_bytes);
		ret = err ? model_fail(push->ctl, &push->service, err, push->doing) :
			    report(push, new_bytes);
	}
	message_clear(&reply);
	return ret;
}

static int store(struct push *push)
{
	char bytes[SIZE_TEXT_LEN];
	int ret = ask_room(push);

	if (!ret)
		ret = digest(push);
	if (!ret)
		ret = announce(push);
	if (!ret && push->ctl->dry_run) {
		size_format(push->missing_bytes, bytes, sizeof(bytes));
		return ctl_would(push->ctl, "push", "model", -1,
				 "store model %s: %u of its %u chunks, %s, are not there yet",
				 push->options->name, push->missing_count,
				 push->image.manifest.chunk_count, bytes);
	}
	if (!ret)
		ret = send_chunks(push);
	if (!ret)
		ret = commit(push);
	return ret;
}

static int push_files(struct push *push)
{
	const struct options *options = push->options;
	struct model_checkpoint checkpoint;
	char error[MODEL_ERROR_LEN];
	int ret;

	if (model_checkpoint_open(&checkpoint, options->files, options->file_count, error))
		return ctl_fail(push->ctl, "%s", error);
	if (model_image_create(&push->image, options->name, &checkpoint, options->order, error)) {
		ret = ctl_fail(push->ctl, "%s", error);
	} else {
		ret = store(push);
		model_image_destroy(&push->image);
	}
	distmind_service_close(&push->service);
	free(push->missing);
	model_checkpoint_close(&checkpoint);
	return ret;
}

static int take_owner(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	return model_owner_parse(ctl, value, option->to);
}

static int take_mode(struct ctl *ctl, const struct ctl_option *option, const char *value)
{
	return model_mode_parse(ctl, value, option->to);
}

int model_push(struct ctl *ctl, int argc, char **argv)
{
	struct options options = { .replicas = 1, .mode = MODE_DEFAULT };
	const struct ctl_option known[] = {
		{ "order", option_text, .to = &options.order },
		{ "replicas", option_number, .to = &options.replicas,
		  .min = 1, .max = DISTMIND_SERVICE_REPLICAS_MAX },
		{ "owner", take_owner, .to = &options.owner },
		{ "mode", take_mode, .to = &options.mode },
		{ 0 },
	};
	struct push push = { .ctl = ctl, .options = &options, .service.fd = -1 };
	struct sigaction guard = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO }, before;
	int ret;

	argc = ctl_options(ctl, argc, &argv, known, CTL_ANY);
	if (argc < 0)
		return ctl->status;
	if (argc < 2)
		return ctl_usage_arguments(ctl);
	options.name = argv[0];
	options.files = (const char *const *)&argv[1];
	options.file_count = (size_t)argc - 1;
	ret = model_name_check(ctl, options.name);
	if (!ret)
		ret = ctl_need_admin(ctl, "cannot push the model");
	if (ret)
		return ret;
	snprintf(push.doing, sizeof(push.doing), "push model %s", options.name);
	cut_off = 0;
	sigaction(SIGBUS, &guard, &before);
	ret = push_files(&push);
	sigaction(SIGBUS, &before, NULL);
	return ret;
}
