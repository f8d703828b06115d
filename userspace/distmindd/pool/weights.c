// SPDX-License-Identifier: GPL-2.0-or-later
#include "weights_state.h"

#include "../../common/clock.h"
#include "../common/log.h"
#include "../common/turns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define END_MS 60000 /* for the memory of gpus to be given back */

/*
 * Devices
 */

struct stale {
	uint32_t ids[64];
	size_t count;
};

static int note_stale(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct stale *stale = arg;

	if (!strncmp(vgpu->name, DISTMIND_WEIGHTS_PREFIX, strlen(DISTMIND_WEIGHTS_PREFIX)) &&
	    !vgpu->pid && !vgpu->clients &&
	    stale->count < sizeof(stale->ids) / sizeof(stale->ids[0]))
		stale->ids[stale->count++] = vgpu->id;
	return 0;
}

int weights_open(struct weights *weights, sd_event *loop, struct distmind_pool *kernel,
		 struct chunks *chunks, struct peers *peers, struct heat *heat)
{
	struct stale stale = { 0 };

	*weights = (struct weights){
		.loop = loop, .kernel = kernel, .chunks = chunks, .peers = peers, .heat = heat,
	};
	TAILQ_INIT(&weights->loads);
	distmind_pool_vgpus(kernel, note_stale, &stale);
	for (size_t i = 0; i < stale.count; i++)
		distmind_pool_vgpu_delete(kernel, stale.ids[i]);
	weights->errands = errands_open(loop);
	if (!weights->errands)
		return -errno;
	return keep_open(&weights->keep, loop, chunks->cache);
}

static int set_quota(struct weights_device *device, uint64_t quota)
{
	struct distmind_vgpu_record record = { .id = device->vgpu_id };
	int err;

	/* A quota of nothing is none. */
	record.memory = quota ? quota : (uint64_t)sysconf(_SC_PAGESIZE);
	err = distmind_pool_vgpu_set(device->weights->kernel, &record, DISTMIND_SET_MEMORY);
	if (!err)
		device->quota = quota;
	return err;
}

static struct weights_device *find_device(const struct weights *weights, uint32_t gpu)
{
	struct weights_device *device;

	for (device = weights->devices; device; device = device->next)
		if (device->gpu == gpu && !device->lost)
			break;
	return device;
}

static int open_device(struct weights *weights, uint32_t gpu, struct weights_device **result)
{
	struct distmind_vgpu_record record = {
		.gpu = gpu, .memory = (uint64_t)sysconf(_SC_PAGESIZE), .share = 1,
		.sched_class = DISTMIND_CLASS_BEST_EFFORT,
	};
	struct weights_device *device = calloc(1, sizeof(*device));
	struct distmind_gpu_record info;
	char path[64];
	int err = device ? distmind_pool_gpu(weights->kernel, gpu, &info) : -ENOMEM;

	if (err)
		goto err_free;
	snprintf(record.name, sizeof(record.name), DISTMIND_WEIGHTS_PREFIX "%.23s", info.name);
	err = distmind_pool_vgpu_create(weights->kernel, &record);
	if (err)
		goto err_free;
	snprintf(path, sizeof(path), "/dev/distmind/vgpu%u", record.id);
	err = distmind_vgpu_open(path, &device->vgpu);
	if (err) {
		distmind_pool_vgpu_delete(weights->kernel, record.id);
		goto err_free;
	}
	device->weights = weights;
	device->gpu = gpu;
	device->vgpu_id = record.id;
	device->memory = info.memory;
	device->copy_lanes = info.copy_lanes;
	device->next = weights->devices;
	weights->devices = device;
	*result = device;
	return 0;

err_free:
	free(device);
	return err;
}

/*
 * Residents
 */

static void unlink_resident(struct resident **list, struct resident *resident)
{
	while (*list != resident)
		list = &(*list)->next;
	*list = resident->next;
}

static void give_back(struct weights_device *device, uint64_t quota)
{
	set_quota(device, device->quota > quota ? device->quota - quota : 0);
}

static void bury(struct resident *resident)
{
	resident->cancelled = true;
	resident->device->leaving++;
	resident->device->freeing += resident->size;
	resident_destroy(resident);
}

static uint64_t evict(struct resident *resident)
{
	struct weights_device *device = resident->device;
	uint64_t size = resident->size;

	log_info("weights-evicted", LOG_S("model", resident->manifest->model.name),
		 LOG_U("gpu", device->gpu), LOG_U("bytes", size));
	keep_drop(&device->weights->keep, resident->address);
	unlink_resident(&device->residents, resident);
	/* It counts for nobody from now on; the memory follows. */
	give_back(device, size);
	bury(resident);
	return size;
}

static bool idle(const struct resident *resident)
{
	return LIST_EMPTY(&resident->uses) && !resident->borrowers && resident->quiet;
}

/* What its loss costs, for each byte that it takes. */
static double benefit(const struct resident *resident, uint64_t now)
{
	double age = (double)(now - resident->used_us) / 1e6 + 1;

	return (double)(resident->load_us + 1) * (double)resident->loads / age /
	       (double)resident->size;
}

static struct resident *least_useful(struct weights_device *device)
{
	struct resident *resident, *least = NULL;
	uint64_t now = clock_us();

	for (resident = device->residents; resident; resident = resident->next)
		if (idle(resident) && (!least || benefit(resident, now) < benefit(least, now)))
			least = resident;
	return least;
}

/*
 * As much as is needed, can be had, and takes no longer than a turn may; the kernel moves out what
 * does not fit, and the next load goes on with it.
 */
static void make_room(struct weights_device *device, uint64_t bytes)
{
	struct distmind_gpu_record gpu;
	struct resident *least;

	if (distmind_pool_gpu(device->weights->kernel, device->gpu, &gpu))
		return;
	/* What is evicted is being freed then. */
	while (gpu.memory_used + bytes > gpu.memory + device->freeing &&
	       (least = least_useful(device))) {
		evict(least);
		if (turns_over())
			break;
	}
}

static const void *find_bytes(struct weights_device *device, const struct model_chunk *chunk,
			      struct resident **lender)
{
	struct resident *resident;

	for (resident = device->residents; resident; resident = resident->next) {
		const struct model_chunk *chunks = resident->manifest->model.chunks;
		uint32_t found = manifest_chunk(resident->manifest, chunk->digest.bytes);

		if (resident->state != RESIDENT_READY || resident->damaged ||
		    found == UINT32_MAX || chunks[found].size != chunk->size)
			continue;
		*lender = resident;
		return resident->address + chunks[found].offset;
	}
	return NULL;
}

/*
 * Gpus that are to be left: what is on a lost one goes as soon as nothing touches it any
 * more, on one that is drained as soon as nobody uses it. With the last of it goes the
 * vgpu for weights, so that the gpu can be removed.
 */

static void free_device(struct weights_device *device)
{
	struct weights_device **at = &device->weights->devices;

	while (*at != device)
		at = &(*at)->next;
	*at = device->next;
	distmind_vgpu_close(device->vgpu);
	distmind_pool_vgpu_delete(device->weights->kernel, device->vgpu_id);
	free(device);
}

/*
 * Who pays
 */

/*
 * Some time has passed since the vgpu was named. If it has ended its number may be that of
 * somebody else's by now, who is not to pay.
 */
static bool is_same_payer(const struct weights_use *use)
{
	struct distmind_vgpu_record vgpu;

	return !distmind_pool_vgpu(use->resident->device->weights->kernel, use->vgpu, &vgpu) &&
	       vgpu.uid == use->uid;
}

static int begin_payment(struct weights_use *use, char *reason)
{
	const struct resident *resident = use->resident;
	int fd;

	if (use->preload || use->dmabuf >= 0)
		return 0;
	if (!is_same_payer(use)) {
		snprintf(reason, MEMORY_REASON_LEN,
			 "vgpu %u, which was to pay for it, has ended: load it for another one",
			 use->vgpu);
		return -ENXIO;
	}
	fd = resident_lend(use->resident, use->vgpu);
	if (fd >= 0) {
		use->dmabuf = fd;
		return 0;
	}
	if (fd == -EDQUOT)
		snprintf(reason, MEMORY_REASON_LEN,
			 "vgpu %u would pay %llu bytes for it, and has not so much left of its quota, or "
			 "its user of all quotas together: give it more (distmindctl vgpu set), end other "
			 "uses, or close what is left of vgpus that have ended",
			 use->vgpu, (unsigned long long)resident->size);
	else
		snprintf(reason, MEMORY_REASON_LEN, "the weights cannot be handed over: %s",
			 strerror(-fd));
	return fd;
}

/* Others may still have what it has been given. */
static void end_payment(struct weights_use *use)
{
	if (use->dmabuf >= 0)
		close(use->dmabuf);
	use->dmabuf = -1;
}

/* Nothing is there for it to use: who waits is told so, others when they ask. */
static void leave(struct weights_use *use, int err, const char *reason)
{
	end_payment(use);
	if (use->waits)
		client_refuse(use->exchange.client, err, "model %s: %s",
			      use->resident->manifest->model.name, reason);
	LIST_REMOVE(use, link);
	use->resident->device->weights->changes++;
	use->waits = false;
	use->resident = NULL;
	use->err = err;
	snprintf(use->reason, sizeof(use->reason), "%s", reason);
	if (use->preload)
		free(use);
}

static void detach(struct resident *resident, int err, const char *reason)
{
	while (!LIST_EMPTY(&resident->uses))
		leave(LIST_FIRST(&resident->uses), err, reason);
}

static void reap(struct weights_device *device)
{
	struct resident *resident = device->residents, *next;
	bool leaves = device->lost || device->draining;

	for (; resident; resident = next) {
		next = resident->next;
		if (device->lost && resident->quiet && !resident->borrowers)
			detach(resident, -EOWNERDEAD, "the gpu is lost");
		if ((leaves || resident->damaged) && idle(resident))
			evict(resident);
	}
	if (leaves && !device->residents && !device->leaving)
		free_device(device);
}

/*
 * Loads
 */

static void log_end(const struct resident *resident)
{
	const char *name = resident->manifest->model.name;

	if (resident->state == RESIDENT_READY)
		log_info("weights-loaded", LOG_S("model", name),
			 LOG_U("gpu", resident->device->gpu), LOG_U("read", resident->read_bytes),
			 LOG_U("copied", resident->copied_bytes),
			 LOG_U("groups", resident->grouping.count), LOG_U("us", resident->load_us));
	else if (resident->err != -ECANCELED)
		log_warning("load-failed", LOG_S("model", name),
			    LOG_U("gpu", resident->device->gpu), LOG_S("reason", resident->reason));
}

/* A preload is over with this. */
static void answer(struct weights_use *use, struct client *client)
{
	struct resident *resident = use->resident;
	int fds[3] = { use->dmabuf, -1, -1 }, err;

	use->waits = false;
	if (use->preload) {
		client_answer(client, json_object(), NULL, 0);
		return;
	}
	err = resident_export(resident, fds + 1);
	if (err) {
		client_refuse(client, err, "the weights cannot be handed over: %s", strerror(-err));
		return;
	}
	client_answer(client,
		      json_pack("{s:I, s:I, s:I, s:b, s:s, s:I, s:I}", "size",
				(json_int_t)resident->manifest->model.size, "groups",
				(json_int_t)resident->grouping.count, "final",
				(json_int_t)resident_final(resident), "cached", use->cached, "form",
				resident->staged ? "staged" : "direct", "predicted_ns",
				(json_int_t)resident->grouping.predicted_ns, "read_bytes",
				(json_int_t)(use->cached ? 0 : resident->read_bytes)),
		      fds, 3);
	close(fds[1]);
	close(fds[2]);
}

/* What it waits for. */
static bool is_there(const struct weights_use *use)
{
	const struct resident *resident = use->resident;

	return !resident->preparing && (resident->state == RESIDENT_READY || !use->all) &&
	       (resident->verified || !use->verify);
}

/* Answers all who wait for what is there now. */
static void answer_all(struct resident *resident)
{
	struct weights_use *use, *next;

	for (use = LIST_FIRST(&resident->uses); use; use = next) {
		next = LIST_NEXT(use, link);
		if (!use->waits || !is_there(use))
			continue;
		answer(use, use->exchange.client);
		if (!use->preload)
			continue;
		LIST_REMOVE(use, link);
		free(use);
	}
}

static void on_ended(struct resident *resident)
{
	struct weights_device *device = resident->device;
	struct weights *weights = device->weights;

	log_end(resident);
	if (resident->state == RESIDENT_READY) {
		weights_loads_remove(weights, resident);
		weights_learn_rates(weights, resident);
		heat_load(weights->heat, resident->manifest->model.name, resident->read_bytes,
			  clock_us());
		answer_all(resident);
		return;
	}
	detach(resident, resident->err, resident->reason);
	unlink_resident(&device->residents, resident);
	resident->next = weights->leaving;
	weights->leaving = resident;
	device->leaving++;
}

static void end_verify(struct resident *resident, int err)
{
	const char *reason = err == -EBADMSG ?
				     "the copy that the gpu has is damaged: load it again" :
				     strerror(-err);
	struct weights_use *use, *next;

	if (err)
		log_warning("weights-not-verified", LOG_S("model", resident->manifest->model.name),
			    LOG_U("gpu", resident->device->gpu), LOG_S("reason", reason));
	for (use = LIST_FIRST(&resident->uses); err && use; use = next) {
		next = LIST_NEXT(use, link);
		if (use->waits)
			leave(use, err, reason);
	}
	answer_all(resident);
}

static void on_verified(struct resident *resident, int err)
{
	end_verify(resident, err);
	reap(resident->device);
}

/* If somebody waits for that. */
static void verify(struct resident *resident)
{
	struct weights_use *use;
	int err;

	LIST_FOREACH(use, &resident->uses, link)
		if (use->waits)
			break;
	err = use ? resident_verify(resident) : 0;
	if (err)
		end_verify(resident, err);
}

static void on_quiet(struct resident *resident)
{
	struct weights_device *device = resident->device;
	const struct model_manifest *model = &resident->manifest->model;
	uint64_t loading = resident_quota(model, resident->staged, true);
	struct keep *keep = &device->weights->keep;

	keep_load_ends(keep);
	if (resident->state == RESIDENT_FAILED) {
		unlink_resident(&device->weights->leaving, resident);
		device->leaving--;
		give_back(device, loading);
		bury(resident);
	} else {
		give_back(device, loading - resident->size);
		keep_add(keep, resident->manifest, resident->address, resident->begun_us);
		verify(resident);
	}
	reap(device);
}

/* From now on there is something to pay for. */
static void begin_payments(struct resident *resident)
{
	struct weights_use *use, *next;
	char reason[MEMORY_REASON_LEN];
	int err;

	for (use = LIST_FIRST(&resident->uses); use; use = next) {
		next = LIST_NEXT(use, link);
		err = begin_payment(use, reason);
		if (err)
			leave(use, err, reason);
	}
	if (LIST_EMPTY(&resident->uses))
		resident_cancel(resident);
}

/* One that could not even begin was never there, and who asked for it has no use. */
static void on_prepared(struct resident *resident, int err, const char *reason)
{
	struct weights_device *device = resident->device;
	struct weights *weights = device->weights;
	struct weights_use *use;
	struct client *client;

	if (!err) {
		begin_payments(resident);
		answer_all(resident);
		weights_loads_begin(weights, resident->owner);
		return;
	}
	if (err != -ECANCELED)
		log_warning("load-failed", LOG_S("model", resident->manifest->model.name),
			    LOG_U("gpu", device->gpu), LOG_S("reason", reason));
	keep_load_ends(&weights->keep);
	while ((use = LIST_FIRST(&resident->uses))) {
		client = use->exchange.client;
		if (client && !use->preload)
			client->use = NULL;
		client_refuse(client, err, "model %s on gpu %u: %s",
			      resident->manifest->model.name, device->gpu, reason);
		LIST_REMOVE(use, link);
		free(use);
	}
	weights->changes++;
	unlink_resident(&device->residents, resident);
	give_back(device, resident_quota(&resident->manifest->model, resident->staged, true));
	bury(resident);
	reap(device);
}

static void on_gone(struct resident *resident)
{
	struct weights_device *device = resident->device;

	device->leaving--;
	device->freeing -= resident->size;
	weights_loads_remove(device->weights, resident);
	if (!device->weights->closing)
		reap(device);
}

static const struct resident_ops resident_ops = {
	.find = find_bytes, .prepared = on_prepared, .ended = on_ended, .quiet = on_quiet,
	.verified = on_verified, .gone = on_gone,
};

struct resident *weights_find_resident(const struct weights_device *device,
				       const struct manifest *manifest)
{
	struct resident *resident;

	/* A load that nobody wanted any more is not revived: it ends, and another begins. */
	for (resident = device->residents; resident; resident = resident->next)
		if (resident->manifest == manifest && !resident->cancelled && !resident->damaged)
			break;
	return resident;
}

static struct resident *begin(struct weights_device *device, const struct weights_request *request,
			      int *err, char *reason)
{
	const struct model_manifest *model = &request->manifest->model;
	uint64_t quota = resident_quota(model, request->load.staged, true);
	struct weights *weights = device->weights;
	struct resident_request load = request->load;
	struct resident *resident;

	*err = -ENOSPC;
	snprintf(reason, MEMORY_REASON_LEN,
		 "it needs %llu bytes, the gpu has %llu: use a larger one",
		 (unsigned long long)quota, (unsigned long long)device->memory);
	if (quota > device->memory)
		return NULL;
	*err = -EOPNOTSUPP;
	snprintf(reason, MEMORY_REASON_LEN, "form: the gpu has no copy lane: use direct");
	if (load.staged && !device->copy_lanes)
		return NULL;
	make_room(device, quota);
	weights_rates(weights, load.staged, &load.rates);
	load.rates.compute_ns = request->compute_ns;
	*err = set_quota(device, device->quota + quota);
	if (*err) {
		snprintf(reason, MEMORY_REASON_LEN, "%s", distmind_pool_error(weights->kernel));
		return NULL;
	}
	resident = resident_create(&(struct resident_place){
					   .device = device, .vgpu = device->vgpu,
					   .kernel = weights->kernel, .loop = weights->loop,
					   .chunks = weights->chunks, .peers = weights->peers,
					   .errands = weights->errands,
					   .payer = ERRANDS_GPU(device->gpu),
				   },
				   request->manifest, &load, &resident_ops);
	if (!resident) {
		*err = -ENOMEM;
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		give_back(device, quota);
		return NULL;
	}
	keep_load_begins(&weights->keep);
	resident->next = device->residents;
	device->residents = resident;
	weights_loads_add(weights, resident, request);
	return resident;
}

static bool uses(const struct resident *resident, uint32_t vgpu)
{
	const struct weights_use *use;

	LIST_FOREACH(use, &resident->uses, link)
		if (!use->preload && use->vgpu == vgpu)
			return true;
	return false;
}

/*
 * Before a load begins for a vgpu that could not pay for it in the end. What is being prepared
 * for it is not charged yet; of what is there the kernel knows.
 */
static int check_quota(const struct weights *weights, const struct weights_request *request,
		       const struct resident *asked, char *reason)
{
	uint64_t bytes = resident_quota(&request->manifest->model, false, false);
	const struct weights_device *device;
	const struct resident *resident;

	if (request->preload || (asked && !asked->preparing))
		return 0;
	for (device = weights->devices; device; device = device->next)
		for (resident = device->residents; resident; resident = resident->next)
			if (resident != asked && resident->preparing &&
			    uses(resident, request->vgpu))
				bytes += resident_quota(&resident->manifest->model, false, false);
	if (bytes <= request->quota)
		return 0;
	snprintf(reason, MEMORY_REASON_LEN,
		 "vgpu %u would pay %llu bytes more for models, and %llu of its quota are left: give it "
		 "more (distmindctl vgpu set), or end other uses",
		 request->vgpu, (unsigned long long)bytes, (unsigned long long)request->quota);
	return -EDQUOT;
}

void weights_load(struct weights *weights, struct client *client,
		  const struct weights_request *request)
{
	struct weights_use *use = calloc(1, sizeof(*use));
	struct weights_device *device = find_device(weights, request->gpu);
	const char *name = request->manifest->model.name;
	char reason[MEMORY_REASON_LEN] = "";
	struct resident *resident = NULL;
	int err = use ? 0 : -ENOMEM;

	if (use) {
		use->dmabuf = -1;
		use->vgpu = request->vgpu;
		use->uid = request->uid;
		use->verify = request->load.verify;
		use->preload = request->preload;
		resident = device ? weights_find_resident(device, request->manifest) : NULL;
		err = check_quota(weights, request, resident, reason);
	}
	if (!err && !device) {
		err = open_device(weights, request->gpu, &device);
		snprintf(reason, sizeof(reason), "no vgpu for the weights: %s",
			 distmind_pool_error(weights->kernel));
	}
	if (!err) {
		use->cached = resident;
		if (!resident)
			resident = begin(device, request, &err, reason);
		use->resident = resident;
	}
	if (!err && !resident->preparing)
		err = begin_payment(use, reason);
	if (!err && use->cached)
		resident_extend(resident, &request->load);
	if (err) {
		free(use);
		client_refuse(client, err, "model %s on gpu %u: %s", name, request->gpu, reason);
		return;
	}
	resident->loads++;
	resident->used_us = clock_us();
	LIST_INSERT_HEAD(&resident->uses, use, link);
	weights_loads_join(weights, use);
	weights->changes++;
	if (!use->preload)
		client->use = use;
	/* The timeline of a load without verification says nothing about who wants one. */
	use->all = request->wait;
	use->waits = !is_there(use);
	if (use->waits) {
		client_begin(client, &use->exchange);
		if (resident->quiet)
			verify(resident);
		return;
	}
	answer(use, client);
	if (!use->preload)
		return;
	LIST_REMOVE(use, link);
	free(use);
}

void weights_use_end(struct weights_use *use)
{
	struct resident *resident = use->resident;

	end_payment(use);
	if (resident) {
		LIST_REMOVE(use, link);
		resident->device->weights->changes++;
		resident->used_us = clock_us();
		if (resident->state == RESIDENT_LOADING && LIST_EMPTY(&resident->uses))
			resident_cancel(resident);
		reap(resident->device);
	}
	free(use);
}

int weights_use_state(const struct weights_use *use, const char **reason)
{
	*reason = use->reason;
	if (use->resident)
		return use->resident->state == RESIDENT_READY ? 0 : -EAGAIN;
	return use->err;
}

/*
 * Room
 */

uint64_t weights_evict(struct weights *weights, const char *model, uint32_t gpu, uint32_t *busy)
{
	struct weights_device *device;
	struct resident *resident, *next;
	struct weights_use *use;
	uint64_t freed = 0;

	*busy = 0;
	for (device = weights->devices; device; device = device->next) {
		if (gpu != DISTMIND_GPU_NONE && device->gpu != gpu)
			continue;
		for (resident = device->residents; resident; resident = next) {
			next = resident->next;
			if (strcmp(resident->manifest->model.name, model))
				continue;
			if (idle(resident))
				freed += evict(resident);
			else
				LIST_FOREACH(use, &resident->uses, link)
					++*busy;
		}
	}
	return freed;
}

static uint64_t promised(const struct inventory *inventory, uint32_t gpu)
{
	const struct inventory_vgpu *vgpu;
	uint64_t sum = 0;

	table_each(&inventory->vgpus, vgpu)
		if (vgpu->record.gpu == gpu)
			sum += vgpu->record.memory;
	return sum;
}

static bool fits_somewhere(const struct inventory *inventory, uint64_t bytes)
{
	const struct inventory_gpu *gpu;

	table_each(&inventory->gpus, gpu)
		if (gpu->record.state == DISTMIND_GPU_STATE_READY && bytes <= gpu->record.memory &&
		    promised(inventory, gpu->record.id) <= gpu->record.memory - bytes)
			return true;
	return false;
}

/*
 * On the first gpu where it helps. If that takes longer than a turn may it is not enough yet: the
 * pool has changed, so this is asked again.
 */
static bool evict_for(struct weights *weights, const struct inventory *inventory, uint64_t bytes)
{
	struct weights_device *device;
	struct resident *resident;

	for (device = weights->devices; device; device = device->next) {
		uint64_t taken = promised(inventory, device->gpu), spare = 0;

		for (resident = device->residents; resident; resident = resident->next)
			spare += idle(resident) ? resident->size : 0;
		if (device->lost || bytes > device->memory || spare > taken ||
		    taken - spare > device->memory - bytes)
			continue;
		while (taken > device->memory - bytes) {
			taken -= evict(least_useful(device));
			if (turns_over())
				break;
		}
		return true;
	}
	return false;
}

bool weights_follow(struct weights *weights, const struct inventory *inventory)
{
	const struct inventory_claim *claim;
	struct weights_device *device, *next;
	struct resident *resident;
	bool changed = false;

	for (device = weights->devices; device; device = next) {
		const struct inventory_gpu *gpu = table_find(&inventory->gpus, device->gpu);

		next = device->next;
		device->draining = gpu && gpu->record.state == DISTMIND_GPU_STATE_DRAINING;
		if (!device->lost && (!gpu || gpu->record.state == DISTMIND_GPU_STATE_LOST)) {
			log_info("weights-lost", LOG_U("gpu", device->gpu));
			device->lost = changed = true;
			for (resident = device->residents; resident; resident = resident->next)
				resident_cancel(resident);
		}
		reap(device);
	}
	table_each(&inventory->claims, claim)
		if (!claim->answered && !fits_somewhere(inventory, claim->record.memory))
			changed |= evict_for(weights, inventory, claim->record.memory);
	return changed;
}

void weights_close(struct weights *weights)
{
	struct weights_device *device;
	struct resident *resident;

	if (!weights->errands)
		return;
	/* Those that are being prepared or released come to that end first. */
	weights->closing = true;
	for (device = weights->devices; device; device = device->next)
		for (resident = device->residents; resident; resident = resident->next)
			if (resident->preparing)
				resident_cancel(resident);
	/* What a thread still has goes with the process, and so does all that belongs to it. */
	if (!errands_drain(weights->errands, END_MS)) {
		errands_close(weights->errands, 0);
		return;
	}
	keep_close(&weights->keep);
	while ((resident = weights->leaving)) {
		weights->leaving = resident->next;
		resident->device->leaving--;
		bury(resident);
	}
	for (device = weights->devices; device; device = device->next)
		while ((resident = device->residents)) {
			device->residents = resident->next;
			detach(resident, -ECANCELED, "the daemon ends");
			/* Loans are given back to residents that may be gone by now. */
			resident->lender_count = 0;
			bury(resident);
		}
	/* Memory that takes longer than that goes with the process. */
	if (!errands_close(weights->errands, END_MS))
		return;
	while (weights->devices)
		free_device(weights->devices);
}
