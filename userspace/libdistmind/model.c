// SPDX-License-Identifier: MIT
#include "service.h"
#include "vgpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_DEFAULT_MS 30000
#define SIZE_MS 30000
/* What the daemon has left to say after its own deadline. */
#define REPLY_EXTRA_MS 5000

/* The descriptors of a reply. */
enum { FD_BUFFER, FD_TIMELINE, FD_TENSORS, FD__COUNT };

/*
 * Owns everything in it but the vgpu. The connection is the use of the weights: it
 * is closed last.
 */
struct distmind_model {
	struct distmind_service service;
	struct distmind_buffer *buffer;
	struct distmind_timeline *timeline;
	struct distmind_model_info info;
	json_t *described; /* the texts of the tensors are in here */
	struct distmind_tensor *tensors;
	const struct distmind_tensor **by_name;
	size_t count;
};

static const struct {
	const char *name;
	unsigned int bytes;
} dtypes[] = {
	{ "BOOL", 1 }, { "U8", 1 },  { "I8", 1 },   { "F8_E5M2", 1 }, { "F8_E4M3", 1 },
	{ "F8_E8M0", 1 }, { "U16", 2 }, { "I16", 2 }, { "F16", 2 },	 { "BF16", 2 },
	{ "U32", 4 },  { "I32", 4 }, { "F32", 4 },  { "U64", 8 },     { "I64", 8 },
	{ "F64", 8 },  { "C64", 8 },
};

static int wrong(struct distmind_model *model, size_t tensor, const char *field, const char *what)
{
	return distmind_service_fail(&model->service, -EPROTO,
				     "distmindd's reply: tensors[%zu].%s: %s: use a distmindd of "
				     "the same version", tensor, field, what);
}

static unsigned int dtype_bytes(const char *name)
{
	for (size_t i = 0; name && i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
		if (!strcmp(dtypes[i].name, name))
			return dtypes[i].bytes;
	return 0;
}

/* What the shape says, compared with the size. */
static int read_shape(struct distmind_model *model, size_t index, const json_t *shape)
{
	struct distmind_tensor *tensor = &model->tensors[index];
	uint64_t bytes = dtype_bytes(tensor->dtype);

	if (!bytes)
		return wrong(model, index, "dtype", "not known");
	if (!json_is_array(shape) || json_array_size(shape) > DISTMIND_TENSOR_RANK)
		return wrong(model, index, "shape", "not a list of up to 8 numbers");
	tensor->rank = (uint32_t)json_array_size(shape);
	for (uint32_t i = 0; i < tensor->rank; i++) {
		const json_t *extent = json_array_get(shape, i);

		if (!json_is_integer(extent) || json_integer_value(extent) < 0)
			return wrong(model, index, "shape", "not numbers of 0 or more");
		tensor->shape[i] = (uint64_t)json_integer_value(extent);
		if (__builtin_mul_overflow(bytes, tensor->shape[i], &bytes))
			return wrong(model, index, "shape", "too large");
	}
	return bytes == tensor->size ? 0 : wrong(model, index, "size", "not what the shape needs");
}

static int read_tensor(struct distmind_model *model, size_t index, const json_t *described)
{
	struct distmind_tensor *tensor = &model->tensors[index];
	struct distmind_service *service = &model->service;
	int err;

	if (!json_is_object(described))
		return wrong(model, index, "name", "the tensor is no object");
	tensor->name = json_string_value(json_object_get(described, "name"));
	tensor->dtype = json_string_value(json_object_get(described, "dtype"));
	if (!tensor->name)
		return wrong(model, index, "name", "not a text");
	err = distmind_service_number(service, described, "offset", "tensors[]", &tensor->offset);
	if (!err)
		err = distmind_service_number(service, described, "size", "tensors[]",
					      &tensor->size);
	if (!err)
		err = distmind_service_number(service, described, "value", "tensors[]",
					      &tensor->value);
	if (err)
		return err;
	if (tensor->offset > model->info.size || tensor->size > model->info.size - tensor->offset)
		return wrong(model, index, "offset", "behind the end of the weights");
	if (tensor->value > model->info.final)
		return wrong(model, index, "value", "never reached");
	return read_shape(model, index, json_object_get(described, "shape"));
}

static int by_name(const void *a, const void *b)
{
	const struct distmind_tensor *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static int read_tensors(struct distmind_model *model, const struct message *reply)
{
	const json_t *tensors;
	int err = distmind_service_object(&model->service, reply, FD_TENSORS, &model->described);

	if (err)
		return err;
	tensors = json_object_get(model->described, "tensors");
	model->count = json_array_size(tensors);
	if (!model->count)
		return distmind_service_fail(&model->service, -EPROTO,
					     "distmindd's reply: tensors: there are none");
	model->tensors = calloc(model->count, sizeof(*model->tensors));
	model->by_name = calloc(model->count, sizeof(*model->by_name));
	if (!model->tensors || !model->by_name)
		return distmind_service_fail(&model->service, -ENOMEM, "out of memory");
	for (size_t i = 0; i < model->count && !err; i++) {
		model->by_name[i] = &model->tensors[i];
		err = read_tensor(model, i, json_array_get(tensors, i));
	}
	if (err)
		return err;
	qsort(model->by_name, model->count, sizeof(*model->by_name), by_name);
	for (size_t i = 1; i < model->count; i++)
		if (!by_name(&model->by_name[i - 1], &model->by_name[i]))
			return wrong(model, (size_t)(model->by_name[i] - model->tensors), "name",
				     "another one has it too");
	return 0;
}

static int read_info(struct distmind_model *model, const json_t *body)
{
	struct distmind_service *service = &model->service;
	struct distmind_model_info *info = &model->info;
	const char *form = json_string_value(json_object_get(body, "form"));
	const struct {
		const char *key;
		uint64_t *number;
	} numbers[] = {
		{ "size", &info->size },
		{ "groups", &info->groups },
		{ "final", &info->final },
		{ "predicted_ns", &info->predicted_ns },
		{ "read_bytes", &info->read_bytes },
	};
	int err = 0;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) && !err; i++)
		err = distmind_service_number(service, body, numbers[i].key, "load",
					      numbers[i].number);
	info->cached = json_is_true(json_object_get(body, "cached"));
	info->staged = form && !strcmp(form, "staged");
	return err;
}

static int take(struct distmind_model *model, struct distmind_vgpu *vgpu,
		const struct message *reply)
{
	struct distmind_service *service = &model->service;
	int err = read_info(model, reply->body);

	if (!err && reply->fd_count != FD__COUNT)
		err = distmind_service_fail(service, -EPROTO,
					    "distmindd's reply: %u descriptors where %d belong: "
					    "use a distmindd of the same version",
					    reply->fd_count, FD__COUNT);
	if (!err)
		err = read_tensors(model, reply);
	if (err)
		return err;
	err = distmind_buffer_import(vgpu, reply->fds[FD_BUFFER], &model->buffer);
	if (err)
		return distmind_service_fail(service, err, "the buffer of the weights: %s",
					     strerror(-err));
	if (distmind_buffer_size(model->buffer) < model->info.size)
		return distmind_service_fail(service, -EPROTO,
					     "distmindd's reply: size: more than the buffer has");
	err = distmind_timeline_import(vgpu, reply->fds[FD_TIMELINE], &model->timeline);
	if (err)
		return distmind_service_fail(service, err, "the timeline of the load: %s",
					     strerror(-err));
	return 0;
}

static json_t *describe(const char *name, uint32_t vgpu,
			const struct distmind_model_options *options, uint32_t deadline_ms)
{
	static const char *const forms[] = {
		[DISTMIND_MODEL_AUTO] = "auto",
		[DISTMIND_MODEL_DIRECT] = "direct",
		[DISTMIND_MODEL_STAGED] = "staged",
	};
	json_t *body = json_pack("{s:s, s:s, s:I, s:s, s:I, s:b, s:s, s:b}", "op", "load", "model",
				 name, "vgpu", (json_int_t)vgpu, "class",
				 options->background ? "background" : "latency", "deadline_ms",
				 (json_int_t)deadline_ms, "verify", options->verify, "form",
				 forms[options->form], "wait", options->wait);

	if (body && options->compute_ns && options->compute_ns <= INT64_MAX &&
	    json_object_set_new(body, "compute_ns",
				json_integer((json_int_t)options->compute_ns))) {
		json_decref(body);
		body = NULL;
	}
	return body;
}

static int load(struct distmind_model *model, struct distmind_vgpu *vgpu, const char *name,
		const struct distmind_model_options *options)
{
	struct distmind_service *service = &model->service;
	struct distmind_service_request request = { 0 };
	struct message reply;
	struct distmind_vgpu_info info;
	uint32_t deadline_ms = options->deadline_ms ? options->deadline_ms : DEADLINE_DEFAULT_MS;
	int err;

	if ((unsigned int)options->form > DISTMIND_MODEL_STAGED)
		return distmind_service_fail(service, -EINVAL, "form: there is no such one");
	err = distmind_vgpu_info(vgpu, &info);
	if (err)
		return distmind_service_fail(service, err, "the vgpu: %s", strerror(-err));
	err = distmind_service_open(service);
	if (err)
		return err;
	request.body = describe(name, info.id, options, deadline_ms);
	request.timeout_ms = deadline_ms < UINT32_MAX - REPLY_EXTRA_MS ?
				     deadline_ms + REPLY_EXTRA_MS : UINT32_MAX;
	err = distmind_service_ask(service, &request, &reply);
	if (!err)
		err = take(model, vgpu, &reply);
	message_clear(&reply);
	return err;
}

int distmind_model_load(struct distmind_vgpu *vgpu, const char *name,
			const struct distmind_model_options *options,
			struct distmind_model **model, char *reason)
{
	static const struct distmind_model_options usual;
	struct distmind_model *made = calloc(1, sizeof(*made));
	int err;

	if (reason)
		snprintf(reason, DISTMIND_REASON_LEN, "%s", made ? "" : strerror(ENOMEM));
	if (!made)
		return -ENOMEM;
	made->service.fd = -1;
	err = load(made, vgpu, name, options ? options : &usual);
	if (!err) {
		*model = made;
		return 0;
	}
	if (reason)
		snprintf(reason, DISTMIND_REASON_LEN, "%.*s", DISTMIND_REASON_LEN - 1,
			 made->service.reason);
	distmind_model_release(made);
	return err;
}

int distmind_model_size(const char *name, uint64_t *size, char *reason)
{
	struct distmind_service_request request = { .timeout_ms = SIZE_MS };
	struct distmind_service service;
	struct message reply = { 0 };
	int err = distmind_service_open(&service);

	if (!err) {
		request.body = json_pack("{s:s, s:s}", "op", "size", "model", name);
		err = distmind_service_ask(&service, &request, &reply);
	}
	if (!err)
		err = distmind_service_number(&service, reply.body, "size", "size", size);
	if (reason)
		snprintf(reason, DISTMIND_REASON_LEN, "%.*s", DISTMIND_REASON_LEN - 1,
			 err ? service.reason : "");
	message_clear(&reply);
	distmind_service_close(&service);
	return err;
}

void distmind_model_release(struct distmind_model *model)
{
	if (!model)
		return;
	distmind_timeline_destroy(model->timeline);
	distmind_buffer_destroy(model->buffer);
	distmind_service_close(&model->service);
	free(model->by_name);
	free(model->tensors);
	json_decref(model->described);
	free(model);
}

int distmind_model_tensor(const struct distmind_model *model, const char *name,
			  struct distmind_tensor *tensor)
{
	const struct distmind_tensor wanted = { .name = name }, *key = &wanted;
	const struct distmind_tensor **found;

	found = bsearch(&key, model->by_name, model->count, sizeof(key), by_name);
	if (!found)
		return -ENOENT;
	*tensor = **found;
	return 0;
}

size_t distmind_model_count(const struct distmind_model *model)
{
	return model->count;
}

int distmind_model_at(const struct distmind_model *model, size_t index,
		      struct distmind_tensor *tensor)
{
	if (index >= model->count)
		return -EINVAL;
	*tensor = model->tensors[index];
	return 0;
}

void distmind_model_info(const struct distmind_model *model, struct distmind_model_info *info)
{
	*info = model->info;
}

struct distmind_buffer *distmind_model_buffer(const struct distmind_model *model)
{
	return model->buffer;
}

struct distmind_timeline *distmind_model_timeline(const struct distmind_model *model)
{
	return model->timeline;
}

int distmind_model_state(struct distmind_model *model, char *reason)
{
	struct distmind_service_request request = { .timeout_ms = REPLY_EXTRA_MS };
	struct message reply;
	bool loading = false;
	int err;

	request.body = json_pack("{s:s}", "op", "state");
	err = distmind_service_ask(&model->service, &request, &reply);
	if (!err)
		loading = json_is_true(json_object_get(reply.body, "loading"));
	message_clear(&reply);
	if (reason)
		snprintf(reason, DISTMIND_REASON_LEN, "%.*s", DISTMIND_REASON_LEN - 1,
			 err ? model->service.reason : "");
	return loading ? -EAGAIN : err;
}

int distmind_model_wait(struct distmind_model *model, uint64_t value, uint32_t timeout_ms)
{
	return distmind_timeline_wait(model->timeline, value ? value : model->info.final,
				      timeout_ms);
}
