// SPDX-License-Identifier: GPL-2.0-or-later
#include "resident.h"

#include "../../common/clock.h"
#include "../common/log.h"
#include "../common/turn.h"
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

#define EXTENTS_AT_ONCE 256
#define COPY_FAILED "a copy into the gpu's memory failed"

/* While the memory for a load is made. */
struct preparation {
	struct resident_place place;
	struct resident_request request;
	int err;
	char reason[MEMORY_REASON_LEN];
	/* When all is prepared, the kernel is told of the extents, in turns. */
	struct distmind_extent_record *extents; /* owned */
	uint32_t extent_count, extent_next;
	uint32_t buffer; /* its id */
	sd_event_source *turn;
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

/*
 * Memory is registered, and pinned with that, by errands. As long as one has the registration the
 * device is held.
 */
static void let_go(struct resident *resident)
{
	if (resident->registration.owned) {
		resident->held = resident->chunks->network.fabric;
		memory_fabric_hold(resident->held);
	}
	memory_registration_let_go(&resident->registration);
}

static void release_device(struct resident *resident)
{
	if (resident->held)
		memory_fabric_release(resident->held);
	resident->held = NULL;
}

static void release(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	memory_registration_unmake(&resident->registration);
	staging_destroy(resident->staging);
}

static void on_released(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	release_device(resident);
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
	let_go(resident);
	resident->copied_source = sd_event_source_disable_unref(resident->copied_source);
	resident->errand = (struct errand){
		.work = release, .done = on_released, .first = true,
	};
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

static void on_quiet(void *arg)
{
	struct resident *resident = arg;

	resident->fill = NULL;
	settle(resident);
}

/* Groups leave the staging when they have been copied. */
static void allow_more(struct resident *resident)
{
	if (resident->fill)
		fill_allow(resident->fill, staging_allowed(resident->staging, resident->copied));
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
	/* Nobody has it yet: prepared() says that it failed, and nothing else may. */
	if (resident->preparing) {
		fill_fail(resident->fill, err ? err : -EIO, COPY_FAILED);
		return 0;
	}
	end(resident, err, err ? COPY_FAILED : "");
	/* It would wait for places that do not become free. */
	if (err)
		resident_cancel(resident);
	settle(resident);
	return 0;
}

void resident_extend(struct resident *resident, const struct resident_request *request)
{
	struct resident_request *first;

	if (resident->fill) {
		fill_extend(resident->fill, request->class, request->deadline_ns);
	} else if (resident->preparation) {
		/* The fill is made from it, by the loop; an errand looks at neither of these. */
		first = &resident->preparation->request;
		if (request->class < first->class)
			first->class = request->class;
		if (request->deadline_ns > first->deadline_ns)
			first->deadline_ns = request->deadline_ns;
	}
}

static void free_preparation(struct preparation *preparation)
{
	if (!preparation)
		return;
	sd_event_source_disable_unref(preparation->turn);
	free(preparation->extents);
	free(preparation);
}

static void give_back(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	memory_registration_unmake(&resident->registration);
	staging_destroy(resident->staging);
	distmind_timeline_destroy(resident->timeline);
	distmind_buffer_destroy(resident->buffer);
	if (resident->tensors >= 0)
		close(resident->tensors);
}

static void on_given_back(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);

	release_device(resident);
	resident->ops->gone(resident);
	grouping_clear(&resident->grouping);
	manifest_put(resident->manifest);
	free(resident);
}

static void begin_give_back(struct resident *resident)
{
	/* One that was never begun is gone without waiting for the errands of others. */
	resident->errand = (struct errand){
		.work = resident->buffer ? give_back : NULL, .done = on_given_back, .first = true,
	};
	errands_add(resident->errands, resident->payer, &resident->errand);
}

static void on_audited(void *arg, int err)
{
	struct resident *resident = arg;

	resident->audit = NULL;
	if (resident->ending) {
		begin_give_back(resident);
		return;
	}
	/* Meanwhile somebody who copied from it may have found damage. */
	resident->damaged |= err == -EBADMSG;
	resident->verified = !err && !resident->damaged;
	resident->ops->verified(resident, resident->damaged ? -EBADMSG : err);
}

int resident_verify(struct resident *resident)
{
	if (!resident->audit)
		resident->audit = audit_begin(resident->chunks->worker, &resident->manifest->model,
					      resident->address, on_audited, resident);
	return resident->audit ? 0 : -ENOMEM;
}

void resident_destroy(struct resident *resident)
{
	fill_destroy(resident->fill);
	free_preparation(resident->preparation);
	resident->preparation = NULL;
	return_loans(resident);
	let_go(resident);
	resident->copied_source = sd_event_source_disable_unref(resident->copied_source);
	resident->ending = true;
	/* A thread that looks at the memory comes to an end first: on_audited() follows. */
	if (audit_cancel(resident->audit))
		begin_give_back(resident);
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

/* By an errand. */
static int register_memory(struct resident *resident, char *reason)
{
	struct distmind_buffer *buffer = resident->buffer;
	void *address = resident->address;
	int dmabuf, err;

	if (!resident->held)
		return 0;
	if (resident->staged) {
		buffer = staging_buffer(resident->staging);
		address = staging_address(resident->staging);
	}
	dmabuf = distmind_buffer_export(buffer, DISTMIND_EXPORT_CLOEXEC | DISTMIND_EXPORT_RDWR);
	err = memory_registration_make(&resident->registration, resident->held, address,
				       distmind_buffer_size(buffer), dmabuf, reason);
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
static int list_extents(struct resident *resident)
{
	const struct grouping *grouping = &resident->grouping;
	const struct model_chunk *chunks = resident->manifest->model.chunks;
	struct preparation *preparation = resident->preparation;
	struct distmind_extent_record *extents = calloc(grouping->count + 1, sizeof(*extents));
	struct distmind_buffer_info info;
	uint32_t count = 0, first = 0;
	int err = extents ? distmind_buffer_info(resident->buffer, &info) : -ENOMEM;

	preparation->extents = extents;
	if (err)
		return err;
	for (uint32_t i = 0; i < grouping->count; i++) {
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
	preparation->extent_count = count;
	preparation->buffer = info.id;
	return 0;
}

static uint8_t *place(void *arg, uint32_t chunk)
{
	const struct resident *resident = arg;

	return resident->staged ? staging_place(resident->staging, chunk) :
				  resident->address + resident->manifest->model.chunks[chunk].offset;
}

/* What was prepared has come to its end, good or bad. */
static void end_preparation(struct resident *resident, int err, const char *reason)
{
	struct preparation *preparation = resident->preparation;

	if (reason != preparation->reason)
		snprintf(preparation->reason, MEMORY_REASON_LEN, "%s", reason);
	resident->preparing = false;
	resident->preparation = NULL;
	resident->ops->prepared(resident, err, preparation->reason);
	free_preparation(preparation);
}

/* Some of them; true: there are more. */
static bool install_extents(struct resident *resident, int *err)
{
	struct preparation *preparation = resident->preparation;
	uint32_t count = preparation->extent_count - preparation->extent_next;

	if (count > EXTENTS_AT_ONCE)
		count = EXTENTS_AT_ONCE;
	if (!count)
		return false;
	*err = distmind_pool_extents_add(preparation->place.kernel, preparation->buffer,
					 distmind_timeline_fd(resident->timeline),
					 preparation->extents + preparation->extent_next, count);
	if (*err)
		snprintf(preparation->reason, MEMORY_REASON_LEN,
			 "the kernel does not take the extents: %s",
			 distmind_pool_error(preparation->place.kernel));
	preparation->extent_next += count;
	return !*err;
}

static int on_install(sd_event_source *source, uint64_t us, void *arg)
{
	struct resident *resident = arg;
	char *reason = resident->preparation->reason;
	int err = 0;

	(void)us;
	turns_name("load: extents");
	while (install_extents(resident, &err))
		if (turns_over())
			return 0;
	sd_event_source_set_enabled(source, SD_EVENT_OFF);
	if (err) {
		fill_fail(resident->fill, err, reason);
		return 0;
	}
	resident->moving_us = clock_us();
	if (fill_start(resident->fill))
		end_preparation(resident, 0, "");
	return 0;
}

static void on_ready(void *arg, int err, const char *reason)
{
	struct resident *resident = arg;
	struct preparation *preparation = resident->preparation;

	turns_name("load: begin");
	if (err) {
		resident->fill = NULL;
		end_preparation(resident, err, reason);
		return;
	}
	resident->read_bytes = fill_read_bytes(resident->fill);
	resident->copied_bytes = fill_copied_bytes(resident->fill);
	err = list_extents(resident);
	if (!err)
		err = turn_begin(preparation->place.loop, &preparation->turn, on_install, resident);
	if (err)
		fill_fail(resident->fill, err, strerror(-err));
}

/* on_ready() follows. */
static int begin_fill(struct resident *resident, char *reason)
{
	static const struct fill_ops ops = {
		.ready = on_ready, .groups = on_groups, .ended = on_ended, .quiet = on_quiet,
	};
	const struct resident_place *where = &resident->preparation->place;
	const struct resident_request *request = &resident->preparation->request;
	const struct fill_request fill = {
		.manifest = &resident->manifest->model, .grouping = &resident->grouping,
		.registration = &resident->registration,
		.allowed = resident->staged ? staging_allowed(resident->staging, 0) : 0,
		.class = request->class, .deadline_ns = request->deadline_ns,
		.verify = request->verify, .begun_us = resident->begun_us,
		.place = place, .find = find, .lied = lied,
	};

	resident->fill = fill_create(resident->chunks, where->peers, where->loop, &fill, &ops,
				     resident);
	if (resident->fill)
		return 0;
	snprintf(reason, MEMORY_REASON_LEN, "out of memory");
	return -ENOMEM;
}

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

/* By an errand, before each step that takes long: nobody is to pay for what nobody wants. */
static int unwanted(const struct resident *resident)
{
	return resident->cancelled ? -ECANCELED : 0;
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
		err = unwanted(resident);
	if (!err)
		err = distmind_buffer_create(vgpu, model->size, DISTMIND_BUFFER_WEIGHTS,
					     &resident->buffer);
	if (!err)
		err = distmind_buffer_map(resident->buffer, (void **)&resident->address);
	if (!err)
		err = distmind_timeline_create(vgpu, 0, &resident->timeline);
	if (!err && resident->staged)
		err = open_staging(resident);
	if (!err) {
		resident->tensors = list_tensors(resident);
		err = resident->tensors < 0 ? resident->tensors : 0;
	}
	preparation->err = err;
	if (err) {
		snprintf(preparation->reason, MEMORY_REASON_LEN,
			 "no room for %llu bytes on the gpu: %s", (unsigned long long)model->size,
			 strerror(-err));
		return;
	}
	resident->size = distmind_buffer_size(resident->buffer);
	preparation->err = unwanted(resident);
	if (!preparation->err)
		preparation->err = register_memory(resident, preparation->reason);
}

static int begin_load(struct resident *resident, char *reason)
{
	struct preparation *preparation = resident->preparation;
	int err = preparation->err;

	if (resident->cancelled) {
		snprintf(reason, MEMORY_REASON_LEN, "nobody wants it any more");
		return -ECANCELED;
	}
	if (!err && resident->held && resident->held != resident->chunks->network.fabric) {
		snprintf(reason, MEMORY_REASON_LEN, "the RDMA device is gone: try again");
		err = -ENODEV;
	}
	/* With an error, give_back() unmakes it. */
	if (!err && resident->held) {
		memory_registration_adopt(&resident->registration, resident->held);
		release_device(resident);
	}
	if (!err && resident->staged) {
		err = await_copies(resident, preparation->place.loop);
		if (err)
			snprintf(reason, MEMORY_REASON_LEN, "%s", strerror(-err));
	}
	return err ? err : begin_fill(resident, reason);
}

static void on_prepared(struct errand *errand);

static void register_late(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);
	struct preparation *preparation = resident->preparation;

	preparation->err = unwanted(resident);
	if (!preparation->err)
		preparation->err = register_memory(resident, preparation->reason);
}

/* A device has come since the load began: READs need memory that is registered with it. */
static bool must_register(struct resident *resident)
{
	struct memory_fabric *fabric = resident->chunks->network.fabric;

	if (resident->preparation->err || resident->cancelled || resident->held || !fabric)
		return false;
	resident->held = fabric;
	memory_fabric_hold(fabric);
	resident->errand = (struct errand){ .work = register_late, .done = on_prepared };
	errands_add(resident->errands, resident->payer, &resident->errand);
	return true;
}

static void on_prepared(struct errand *errand)
{
	struct resident *resident = errand_in(errand, struct resident, errand);
	int err;

	turns_name("load: begin");
	if (must_register(resident))
		return;
	err = begin_load(resident, resident->preparation->reason);
	if (err)
		end_preparation(resident, err, resident->preparation->reason);
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
	return resident;
}

void resident_begin(struct resident *resident)
{
	resident->begun = true;
	resident->held = resident->chunks->network.fabric;
	if (resident->held)
		memory_fabric_hold(resident->held);
	resident->begun_us = clock_us();
	resident->errand = (struct errand){ .work = prepare, .done = on_prepared };
	errands_add(resident->errands, resident->payer, &resident->errand);
}

void resident_cancel(struct resident *resident)
{
	resident->cancelled = true;
	if (!resident->begun) {
		resident->begun = true;
		resident->errand = (struct errand){ .done = on_prepared };
		errands_add(resident->errands, resident->payer, &resident->errand);
	} else if (resident->fill) {
		fill_fail(resident->fill, -ECANCELED, "nobody wants it any more");
	} else if (resident->preparing) {
		errands_skip(resident->errands, resident->payer, &resident->errand);
	}
}

/*
 * For those who use it
 */

int resident_lend(struct resident *resident, uint32_t payer)
{
	return distmind_buffer_export_paid(resident->buffer, DISTMIND_EXPORT_CLOEXEC, payer);
}

int resident_export(struct resident *resident, int fds[2])
{
	int err;

	fds[0] = distmind_timeline_export(resident->timeline, DISTMIND_EXPORT_CLOEXEC);
	if (fds[0] < 0)
		return fds[0];
	fds[1] = fcntl(resident->tensors, F_DUPFD_CLOEXEC, 0);
	if (fds[1] >= 0)
		return 0;
	err = -errno;
	close(fds[0]);
	return err;
}
