// SPDX-License-Identifier: GPL-2.0-or-later
#include "resident.h"

#include "../../common/clock.h"
#include "../common/log.h"
#include "../common/turns.h"
#include "../../common/message.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* While the memory for a load is made. */
struct preparation {
	struct resident_place place;
	struct resident_request request;
	int err;
	char reason[MEMORY_REASON_LEN];
};

static uint64_t whole_pages(uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return (size + page - 1) / page * page;
}

uint64_t resident_quota(const struct model_manifest *model, bool staged, bool loading)
{
	uint64_t size = whole_pages(model->size);

	return staged && loading ? size + staging_size(model) : size;
}

uint64_t resident_final(const struct resident *resident)
{
	return resident->grouping.count;
}

/*
 * The end of a load
 */

static void return_loans(struct resident *resident)
{
	while (resident->lender_count)
		resident->lenders[--resident->lender_count]->borrowers--;
}

static void end(struct resident *resident, int err, const char *reason)
{
	if (resident->state != RESIDENT_LOADING)
		return;
	resident->state = err ? RESIDENT_FAILED : RESIDENT_READY;
	resident->err = err;
	resident->load_us = clock_us() - resident->begun_us;
	resident->moving_us = clock_us() - resident->moving_us;
	snprintf(resident->reason, sizeof(resident->reason), "%s", reason);
	if (err) {
		/* Fails all that is not there yet; jobs that wait for it fail with it. */
		distmind_timeline_fail(resident->timeline,
				       distmind_timeline_value(resident->timeline) + 1, err);
	}
	resident->ops->ended(resident);
}

static void release(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	staging_destroy(resident->staging);
}

static void on_released(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	resident->staging = NULL;
	return_loans(resident);
	resident->quiet = true;
	resident->ops->quiet(resident);
}

/* Both the fill and, if staged, the copies. What only the load needed is given back. */
static void settle(struct resident *resident)
{
	if (resident->fill || resident->state == RESIDENT_LOADING || resident->settled)
		return;
	resident->settled = true;
	memory_registration_end(&resident->registration);
	resident->copied_source = sd_event_source_disable_unref(resident->copied_source);
	resident->errand = (struct errand){ .work = release, .done = on_released };
	errands_add(resident->errands, resident->payer, &resident->errand);
}

static void on_groups(void *arg, uint32_t done)
{
	struct resident *resident = arg;
	uint64_t begin = clock_us();
	int err = resident->staged ? staging_arrived(resident->staging, done) :
				     distmind_timeline_signal(resident->timeline, done);

	resident->signal_us += clock_us() - begin;
	resident->signals++;
	if (err)
		log_warning("load-not-signalled", LOG_S("model", resident->manifest->model.name),
			    LOG_S("reason", strerror(-err)));
}

static void on_ended(void *arg, int err, const char *reason)
{
	struct resident *resident = arg;

	if (err || !resident->staged)
		end(resident, err, reason);
}

static void on_spoiled(void *arg)
{
	struct resident *resident = arg;

	resident->damaged = true;
	resident->verified = false;
	log_warning("weights-damaged", LOG_S("model", resident->manifest->model.name),
		    LOG_S("fix", "whoever uses it should load it again"));
}

static void on_quiet(void *arg)
{
	struct resident *resident = arg;

	resident->fill = NULL;
	settle(resident);
}

/* Groups leave the staging when they have been copied and nobody can write to them. */
static void allow_more(struct resident *resident)
{
	uint32_t left = resident->copied < resident->clear ? resident->copied : resident->clear;

	if (resident->fill)
		fill_allow(resident->fill, staging_allowed(resident->staging, left));
}

static void on_clear(void *arg, uint32_t groups)
{
	struct resident *resident = arg;

	resident->clear = groups;
	if (resident->staged)
		allow_more(resident);
}

static int on_copied(sd_event_source *source, int fd, uint32_t revents, void *arg)
{
	struct resident *resident = arg;
	int err;

	(void)fd;
	(void)revents;
	turns_name("load: staged");
	while (!(err = distmind_timeline_status(resident->timeline, resident->awaited)) &&
	       resident->awaited < resident_final(resident)) {
		resident->copied = resident->awaited;
		resident->awaited = staging_next(resident->staging, resident->copied);
	}
	if (err == -EAGAIN) {
		allow_more(resident);
		err = distmind_timeline_poll(resident->timeline, resident->awaited);
		if (!err)
			return 0;
	}
	sd_event_source_set_enabled(source, SD_EVENT_OFF);
	end(resident, err, err ? "a copy into the gpu's memory failed" : "");
	/* It would wait for places that do not become free. */
	if (err)
		resident_cancel(resident);
	settle(resident);
	return 0;
}

void resident_extend(struct resident *resident, const struct resident_request *request)
{
	if (resident->fill)
		fill_extend(resident->fill, request->class, request->deadline_ns);
}

void resident_cancel(struct resident *resident)
{
	resident->cancelled = true;
	if (resident->fill)
		fill_cancel(resident->fill);
}

static void on_audited(void *arg, int err)
{
	struct resident *resident = arg;

	resident->audit = NULL;
	resident->verified = !err;
	resident->damaged = err == -EBADMSG;
	resident->ops->verified(resident, err);
}

int resident_verify(struct resident *resident)
{
	if (!resident->audit)
		resident->audit = audit_begin(resident->chunks->worker, &resident->manifest->model,
					      resident->address, on_audited, resident);
	return resident->audit ? 0 : -ENOMEM;
}

static void give_back(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	staging_destroy(resident->staging);
	distmind_timeline_destroy(resident->timeline);
	distmind_buffer_destroy(resident->buffer);
	if (resident->tensors >= 0)
		close(resident->tensors);
	grouping_clear(&resident->grouping);
}

static void on_given_back(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	resident->ops->gone(resident->device, resident->size);
	manifest_put(resident->manifest);
	free(resident);
}

void resident_destroy(struct resident *resident)
{
	fill_destroy(resident->fill);
	audit_cancel(resident->audit);
	return_loans(resident);
	memory_registration_end(&resident->registration);
	resident->copied_source = sd_event_source_disable_unref(resident->copied_source);
	resident->errand = (struct errand){ .work = give_back, .done = on_given_back };
	errands_add(resident->errands, resident->payer, &resident->errand);
}

/*
 * Its beginning
 */

static const void *find(void *arg, const struct model_chunk *chunk)
{
	struct resident *resident = arg, *lender;
	const void *bytes = resident->ops->find(resident->device, chunk, &lender);

	if (!bytes)
		return NULL;
	for (uint32_t i = 0; i < resident->lender_count; i++)
		if (resident->lenders[i] == lender)
			return bytes;
	if (resident->lender_count == RESIDENT_LENDERS)
		return NULL;
	resident->lenders[resident->lender_count++] = lender;
	lender->borrowers++;
	return bytes;
}

/* Those who use it keep it; nobody else gets it. */
static void lied(void *arg, const void *bytes)
{
	struct resident *resident = arg;

	for (uint32_t i = 0; i < resident->lender_count; i++) {
		struct resident *lender = resident->lenders[i];

		if ((const uint8_t *)bytes < lender->address ||
		    (const uint8_t *)bytes >= lender->address + lender->manifest->model.size)
			continue;
		lender->damaged = true;
		lender->verified = false;
		log_warning("weights-damaged", LOG_S("model", lender->manifest->model.name),
			    LOG_S("fix", "whoever uses it should load it again"));
	}
}

static int register_memory(struct resident *resident, struct distmind_buffer *buffer, void *address,
			   char *reason)
{
	int dmabuf, err;

	if (!resident->chunks->network.fabric)
		return 0;
	dmabuf = distmind_buffer_export(buffer, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	err = memory_registration_begin(&resident->registration, resident->chunks->network.fabric,
					address, distmind_buffer_size(buffer), dmabuf, reason);
	if (dmabuf >= 0)
		close(dmabuf);
	return err;
}

static int open_staging(struct resident *resident)
{
	const struct model_manifest *model = &resident->manifest->model;
	int err = grouping_cut(&resident->grouping, model, staging_group_max(model), UINT32_MAX);

	return err ? err :
		     staging_create(&resident->staging, resident->preparation->place.vgpu, model,
				    &resident->grouping, resident->buffer, resident->timeline);
}

static int await_copies(struct resident *resident, sd_event *loop)
{
	int err;

	resident->awaited = staging_next(resident->staging, 0);
	err = distmind_timeline_poll(resident->timeline, resident->awaited);
	if (!err)
		err = sd_event_add_io(loop, &resident->copied_source,
				      distmind_timeline_fd(resident->timeline), EPOLLIN, on_copied,
				      resident);
	return err < 0 ? err : 0;
}

/* One for each group: between its chunks there is nothing but the zeros of the image. */
static int install_extents(struct resident *resident, struct distmind_pool *kernel)
{
	const struct grouping *grouping = &resident->grouping;
	struct distmind_extent_record *extents = calloc(grouping->count, sizeof(*extents));
	const struct model_chunk *chunks = resident->manifest->model.chunks;
	struct distmind_buffer_info info;
	uint32_t count = 0, first = 0;
	int err = extents ? distmind_buffer_info(resident->buffer, &info) : -ENOMEM;

	for (uint32_t i = 0; i < grouping->count && !err; i++) {
		uint32_t end = grouping->groups[i].end_chunk;

		/* All chunks of its layers may be of the groups before. */
		if (end == first)
			continue;
		extents[count].offset = chunks[first].offset;
		extents[count].size = chunks[end - 1].offset + chunks[end - 1].size -
				      chunks[first].offset;
		extents[count++].value = i + 1;
		first = end;
	}
	if (!err)
		err = distmind_pool_extents_add(kernel, info.id,
						distmind_timeline_fd(resident->timeline), extents,
						count);
	free(extents);
	return err;
}

static uint8_t *place(void *arg, uint32_t chunk)
{
	const struct resident *resident = arg;

	return resident->staged ? staging_place(resident->staging, chunk) :
				  resident->address + resident->manifest->model.chunks[chunk].offset;
}

static int begin_fill(struct resident *resident, const struct resident_request *request,
		      struct peers *peers, char *reason)
{
	static const struct fill_ops ops = {
		.groups = on_groups, .clear = on_clear, .ended = on_ended,
		.spoiled = on_spoiled, .quiet = on_quiet,
	};
	const struct fill_request fill = {
		.manifest = &resident->manifest->model, .grouping = &resident->grouping,
		.lkey = resident->registration.lkey,
		.allowed = resident->staged ? staging_allowed(resident->staging, 0) : 0,
		.class = request->class, .deadline_ns = request->deadline_ns,
		.verify = request->verify, .begun_us = resident->begun_us,
		.place = place, .find = find, .lied = lied,
	};
	int err;

	resident->fill = fill_create(resident->chunks, peers, &fill, &ops, resident, &err, reason);
	if (!resident->fill)
		return err;
	resident->read_bytes = fill_read_bytes(resident->fill);
	resident->copied_bytes = fill_copied_bytes(resident->fill);
	return 0;
}

/* By an errand: the memory, and whatever else takes long. */
static void prepare(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);
	struct preparation *preparation = resident->preparation;
	const struct model_manifest *model = &resident->manifest->model;
	struct distmind_vgpu *vgpu = preparation->place.vgpu;
	int err = grouping_take(&resident->grouping, &resident->manifest->groupings, model,
				&preparation->request.rates);

	if (!err)
		err = distmind_buffer_create(vgpu, model->size, DISTMIND_BUFFER_WEIGHTS,
					     &resident->buffer);
	if (!err)
		err = distmind_buffer_map(resident->buffer, (void **)&resident->address);
	if (!err)
		err = distmind_timeline_create(vgpu, 0, &resident->timeline);
	if (!err && resident->staged)
		err = open_staging(resident);
	preparation->err = err;
	if (err) {
		snprintf(preparation->reason, MEMORY_REASON_LEN,
			 "no room for %llu bytes on the gpu: %s", (unsigned long long)model->size,
			 strerror(-err));
		return;
	}
	resident->size = distmind_buffer_size(resident->buffer);
}

static int begin_load(struct resident *resident, char *reason)
{
	struct preparation *preparation = resident->preparation;
	int err = preparation->err;

	if (!err && resident->cancelled) {
		snprintf(reason, MEMORY_REASON_LEN, "nobody wants it any more");
		return -ECANCELED;
	}
	if (!err && resident->staged)
		err = register_memory(resident, staging_buffer(resident->staging),
				      staging_address(resident->staging), reason);
	else if (!err)
		err = register_memory(resident, resident->buffer, resident->address, reason);
	if (!err && resident->staged) {
		err = await_copies(resident, preparation->place.loop);
		if (err)
			snprintf(reason, MEMORY_REASON_LEN, "%s", strerror(-err));
	}
	if (!err)
		err = begin_fill(resident, &preparation->request, preparation->place.peers, reason);
	if (err)
		return err;
	err = install_extents(resident, preparation->place.kernel);
	if (err) {
		snprintf(reason, MEMORY_REASON_LEN, "the kernel does not take the extents: %s",
			 distmind_pool_error(preparation->place.kernel));
		return err;
	}
	resident->moving_us = clock_us();
	err = fill_start(resident->fill, preparation->place.loop, reason);
	if (err)
		resident->fill = NULL;
	return err;
}

static void on_prepared(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);
	struct preparation *preparation = resident->preparation;
	int err;

	turns_name("load: begin");
	err = begin_load(resident, preparation->reason);
	resident->preparing = false;
	resident->preparation = NULL;
	resident->ops->prepared(resident, err, preparation->reason);
	free(preparation);
}

struct resident *resident_create(const struct resident_place *place, struct manifest *manifest,
				 const struct resident_request *request,
				 const struct resident_ops *ops)
{
	struct resident *resident = calloc(1, sizeof(*resident));
	struct preparation *preparation = calloc(1, sizeof(*preparation));

	if (!resident || !preparation) {
		free(resident);
		free(preparation);
		return NULL;
	}
	preparation->place = *place;
	preparation->request = *request;
	resident->preparation = preparation;
	resident->preparing = true;
	resident->device = place->device;
	resident->errands = place->errands;
	resident->payer = place->payer;
	resident->tensors = -1;
	resident->ops = ops;
	resident->chunks = place->chunks;
	resident->staged = request->staged;
	resident->verified = request->verify;
	resident->manifest = manifest_get(manifest);
	resident->begun_us = clock_us();
	resident->errand = (struct errand){ .work = prepare, .done = on_prepared };
	errands_add(resident->errands, resident->payer, &resident->errand);
	return resident;
}

/*
 * For those who use it
 */

/* It has no control characters. */
static void write_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc(*text, out);
	}
	fputc('"', out);
}

static void write_tensor(FILE *out, const struct resident *resident,
			 const struct model_manifest_tensor *tensor)
{
	const struct model_manifest *model = &resident->manifest->model;
	/* After the last bytes there may be empty ones, which the manifest aligns as well. */
	uint64_t offset = tensor->size ? tensor->offset : 0, value = 0;

	if (tensor->size) {
		uint64_t last = tensor->offset + tensor->size - 1;
		uint32_t chunk = model_manifest_chunk_at(model, last);

		value = grouping_find(&resident->grouping, chunk) + 1;
	}
	fputs("{\"name\":", out);
	write_text(out, tensor->name);
	fprintf(out, ",\"dtype\":\"%s\",\"shape\":[", model_dtype_name(tensor->shape.dtype));
	for (uint32_t i = 0; i < tensor->shape.rank; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", tensor->shape.extent[i]);
	fprintf(out, "],\"offset\":%" PRIu64 ",\"size\":%" PRIu64 ",\"value\":%" PRIu64 "}",
		offset, tensor->size, value);
}

/* There may be tens of thousands: as text at once, which takes a fifth of what a tree takes. */
static int list_tensors(const struct resident *resident)
{
	const struct model_manifest *model = &resident->manifest->model;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	int fd = -ENOMEM;

	if (!out)
		return -ENOMEM;
	fputs("{\"tensors\":[", out);
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (i)
			fputc(',', out);
		write_tensor(out, resident, &model->tensors[i]);
	}
	fputs("]}", out);
	if (!fclose(out))
		fd = message_memfd(text, len);
	free(text);
	return fd;
}

/* Made once: a model that is loaded again and again has many of them. */
static int export_tensors(struct resident *resident)
{
	int fd;

	if (resident->tensors < 0)
		resident->tensors = list_tensors(resident);
	if (resident->tensors < 0)
		return resident->tensors;
	fd = fcntl(resident->tensors, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int resident_export(struct resident *resident, int fds[3])
{
	int err;

	fds[0] = distmind_buffer_export(resident->buffer, DISTMIND_EXPORT_CLOEXEC);
	fds[1] = distmind_timeline_export(resident->timeline, DISTMIND_EXPORT_CLOEXEC);
	fds[2] = export_tensors(resident);
	for (int i = 0; i < 3; i++) {
		if (fds[i] >= 0)
			continue;
		err = fds[i];
		for (int j = 0; j < 3; j++)
			if (fds[j] >= 0)
				close(fds[j]);
		return err;
	}
	return 0;
}
