// SPDX-License-Identifier: GPL-2.0-or-later
/* The library's side of a load, against a daemon that tells the truth or does not. */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include "../../userspace/libdistmind/distmind.h"
#include "../../userspace/libdistmind/service.h"
#include "model_daemon.h"

/* The kernel's side: a vgpu, one buffer, one timeline. */
struct distmind_vgpu {
	uint32_t id;
};

static struct {
	int vgpu_error;
	int import_error;
	uint64_t buffer_size;
	int buffers, timelines; /* that are there */
	uint64_t waited;
} kernel;

int distmind_vgpu_info(struct distmind_vgpu *vgpu, struct distmind_vgpu_info *info)
{
	*info = (struct distmind_vgpu_info){ .id = vgpu->id };
	return kernel.vgpu_error;
}

int distmind_buffer_import(struct distmind_vgpu *vgpu, int fd, struct distmind_buffer **buffer)
{
	(void)vgpu;
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	if (kernel.import_error)
		return kernel.import_error;
	kernel.buffers++;
	*buffer = (struct distmind_buffer *)&kernel.buffers;
	return 0;
}

void distmind_buffer_destroy(struct distmind_buffer *buffer)
{
	kernel.buffers -= !!buffer;
}

uint64_t distmind_buffer_size(const struct distmind_buffer *buffer)
{
	(void)buffer;
	return kernel.buffer_size;
}

int distmind_timeline_import(struct distmind_vgpu *vgpu, int fd,
			     struct distmind_timeline **timeline)
{
	(void)vgpu;
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	kernel.timelines++;
	*timeline = (struct distmind_timeline *)&kernel.timelines;
	return 0;
}

void distmind_timeline_destroy(struct distmind_timeline *timeline)
{
	kernel.timelines -= !!timeline;
}

int distmind_timeline_wait(struct distmind_timeline *timeline, uint64_t value, uint32_t timeout_ms)
{
	(void)timeline;
	(void)timeout_ms;
	kernel.waited = value;
	return 0;
}

#define HEAD "{\"ok\": true, \"size\": 8192, \"groups\": 2, \"final\": 9, \"cached\": false, " \
	     "\"form\": \"staged\", \"predicted_ns\": 123456, \"read_bytes\": 4096}"
#define TENSOR(name, dtype, shape, offset, size, value)                                      \
	"{\"name\": \"" name "\", \"dtype\": \"" dtype "\", \"shape\": " shape ", \"offset\": " \
	#offset ", \"size\": " #size ", \"value\": " #value "}"
#define FIRST  TENSOR("first.weight", "F32", "[16, 64]", 0, 4096, 8)
#define SECOND TENSOR("a.bias", "BF16", "[100]", 4096, 200, 9)
#define TENSORS "{\"tensors\": [" FIRST ", " SECOND "]}"

/* What the daemon says. */
static struct {
	const char *head;
	const char *tensors;
	unsigned int fds;
	unsigned int progress;
	bool close;
} script;

static bool answer(struct model_daemon *daemon, const json_t *request, const int *given,
		   unsigned int given_count)
{
	int fds[] = { open("/dev/null", O_RDONLY | O_CLOEXEC),
		      open("/dev/null", O_RDONLY | O_CLOEXEC),
		      model_daemon_memfd(script.tensors, strlen(script.tensors)),
		      open("/dev/null", O_RDONLY | O_CLOEXEC),
		      open("/dev/null", O_RDONLY | O_CLOEXEC) };

	(void)request;
	(void)given;
	(void)given_count;
	for (unsigned int i = 0; i < script.progress; i++)
		model_daemon_reply(daemon, "{\"progress\": {\"done\": 1, \"total\": 2}}");
	if (!script.close)
		model_daemon_send(daemon, script.head, fds, script.fds);
	for (size_t i = 0; i < COUNT(fds); i++)
		close(fds[i]);
	return !script.close;
}

static unsigned int open_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned int count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int setup(void **state)
{
	(void)state;
	memset(&kernel, 0, sizeof(kernel));
	kernel.buffer_size = 8192;
	memset(&script, 0, sizeof(script));
	script.head = HEAD;
	script.tensors = TENSORS;
	script.fds = 3;
	return 0;
}

static struct distmind_vgpu vgpu = { .id = 7 };

/* One load, which must fail and leave nothing behind. */
static void refused(int error, const char *part)
{
	unsigned int before = open_descriptors();
	struct distmind_model *model;
	char reason[DISTMIND_REASON_LEN];

	model_daemon_start(answer);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, reason), error);
	model_daemon_stop();
	model_daemon_end();
	assert_contains(reason, part);
	assert_int_equal(kernel.buffers, 0);
	assert_int_equal(kernel.timelines, 0);
	assert_int_equal(open_descriptors(), before);
}

static void a_load_gives_tensors_a_buffer_and_a_timeline(void **state)
{
	unsigned int before = open_descriptors();
	struct distmind_model *model;
	struct distmind_model_info info;
	struct distmind_tensor tensor;
	char reason[DISTMIND_REASON_LEN];

	(void)state;
	model_daemon_start(answer);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, reason), 0);
	assert_string_equal(reason, "");
	assert_int_equal(distmind_model_count(model), 2);
	assert_int_equal(distmind_model_at(model, 0, &tensor), 0);
	assert_string_equal(tensor.name, "first.weight");
	assert_string_equal(tensor.dtype, "F32");
	assert_int_equal(tensor.rank, 2);
	assert_int_equal(tensor.shape[0], 16);
	assert_int_equal(tensor.shape[1], 64);
	assert_int_equal(tensor.value, 8);
	assert_int_equal(distmind_model_at(model, 2, &tensor), -EINVAL);
	assert_int_equal(distmind_model_tensor(model, "a.bias", &tensor), 0);
	assert_int_equal(tensor.offset, 4096);
	assert_int_equal(tensor.size, 200);
	assert_int_equal(distmind_model_tensor(model, "a.bia", &tensor), -ENOENT);
	assert_ptr_equal(distmind_model_buffer(model), &kernel.buffers);
	assert_ptr_equal(distmind_model_timeline(model), &kernel.timelines);
	distmind_model_info(model, &info);
	assert_int_equal(info.size, 8192);
	assert_int_equal(info.groups, 2);
	assert_int_equal(info.predicted_ns, 123456);
	assert_int_equal(info.read_bytes, 4096);
	assert_true(info.staged);
	assert_false(info.cached);
	distmind_model_release(model);
	model_daemon_stop();
	model_daemon_end();
	assert_int_equal(kernel.buffers, 0);
	assert_int_equal(kernel.timelines, 0);
	assert_int_equal(open_descriptors(), before);
}

static void the_request_says_what_is_wanted(void **state)
{
	struct distmind_model_options options = { .deadline_ms = 1500, .background = true,
		.verify = true, .wait = true, .form = DISTMIND_MODEL_STAGED, .compute_ns = 77 };
	struct distmind_model *model;
	json_t *usual, *special;

	(void)state;
	model_daemon_start(answer);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, NULL), 0);
	distmind_model_release(model);
	assert_int_equal(distmind_model_load(&vgpu, "other", &options, &model, NULL), 0);
	distmind_model_release(model);
	model_daemon_stop();
	usual = json_pack("{s:s, s:s, s:i, s:s, s:i, s:b, s:s, s:b}", "op", "load", "model", "mlp",
			  "vgpu", 7, "class", "latency", "deadline_ms", 30000, "verify", 0, "form",
			  "auto", "wait", 0);
	special = json_pack("{s:s, s:s, s:i, s:s, s:i, s:b, s:s, s:b, s:i}", "op", "load", "model",
			    "other", "vgpu", 7, "class", "background", "deadline_ms", 1500,
			    "verify", 1, "form", "staged", "wait", 1, "compute_ns", 77);
	assert_true(json_equal(model_daemon_asked(0), usual));
	assert_true(json_equal(model_daemon_asked(1), special));
	assert_int_equal(model_daemon.connections, 2);
	json_decref(usual);
	json_decref(special);
	model_daemon_end();
}

static void a_wait_is_for_a_value_or_for_all(void **state)
{
	struct distmind_model *model;

	(void)state;
	model_daemon_start(answer);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, NULL), 0);
	assert_int_equal(distmind_model_wait(model, 8, 100), 0);
	assert_int_equal(kernel.waited, 8);
	assert_int_equal(distmind_model_wait(model, 0, 100), 0);
	assert_int_equal(kernel.waited, 9);
	distmind_model_release(model);
	model_daemon_stop();
	model_daemon_end();
}

static void progress_before_the_reply_is_no_reply(void **state)
{
	struct distmind_model *model;

	(void)state;
	script.progress = 3;
	model_daemon_start(answer);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, NULL), 0);
	distmind_model_release(model);
	model_daemon_stop();
	model_daemon_end();
}

static void a_refusal_has_the_daemons_words(void **state)
{
	(void)state;
	script.fds = 0;
	script.head = "{\"ok\": false, \"errno\": \"ENOENT\", "
		      "\"reason\": \"model: mlp is unknown\"}";
	refused(-ENOENT, "model: mlp is unknown");
	script.head = "{\"ok\": false, \"errno\": \"ENOSPC\"}";
	refused(-ENOSPC, "No space left");
	script.head = "{\"ok\": false, \"errno\": \"EWHATEVER\", \"reason\": \"x\"}";
	refused(-EREMOTEIO, "x");
}

static void a_long_reason_is_cut(void **state)
{
	char head[1000] = "{\"ok\": false, \"errno\": \"EIO\", \"reason\": \"";
	size_t len = strlen(head);

	(void)state;
	memset(head + len, 'x', 500);
	strcpy(head + len + 500, "\"}");
	script.head = head;
	script.fds = 0;
	refused(-EIO, "xxxx");
}

static void a_daemon_that_is_not_there_is_named(void **state)
{
	struct distmind_model *model;
	char reason[DISTMIND_REASON_LEN];

	(void)state;
	setenv("DISTMIND_SOCKET", "/tmp/distmind-nobody/socket", 1);
	assert_int_equal(distmind_model_load(&vgpu, "mlp", NULL, &model, reason), -ENOENT);
	assert_contains(reason, "/tmp/distmind-nobody/socket: start it");
}

/* Both requests at once, when the second has come. */
static bool answer_late(struct model_daemon *daemon, const json_t *request, const int *fds,
			unsigned int fd_count)
{
	(void)request;
	(void)fds;
	(void)fd_count;
	if (json_array_size(daemon->asked) < 2)
		return true;
	model_daemon_reply(daemon, "{\"progress\": {\"done\": 1, \"total\": 2}}");
	model_daemon_reply(daemon, "{\"ok\": false, \"errno\": \"EIO\"}");
	model_daemon_reply(daemon, "{\"ok\": true, \"number\": 2}");
	return true;
}

static void a_reply_that_comes_too_late_is_of_no_other_request(void **state)
{
	struct distmind_service_request request = { .timeout_ms = 1 };
	struct message reply;
	struct distmind_service service;

	(void)state;
	model_daemon_start(answer_late);
	assert_int_equal(distmind_service_open(&service), 0);
	request.body = json_pack("{s:s}", "op", "first");
	assert_int_equal(distmind_service_ask(&service, &request, &reply), -ETIMEDOUT);
	message_clear(&reply);
	request = (struct distmind_service_request){ .body = json_pack("{s:s}", "op", "second") };
	assert_int_equal(distmind_service_ask(&service, &request, &reply), 0);
	assert_int_equal(json_integer_value(json_object_get(reply.body, "number")), 2);
	message_clear(&reply);
	distmind_service_close(&service);
	model_daemon_stop();
	model_daemon_end();
}

static void a_daemon_that_goes_away_is_an_error(void **state)
{
	(void)state;
	script.close = true;
	refused(-ECONNRESET, "closed the connection");
}

static void the_kernels_refusals_are_told(void **state)
{
	(void)state;
	kernel.import_error = -EXDEV;
	refused(-EXDEV, "the buffer of the weights");
	kernel.import_error = 0;
	kernel.vgpu_error = -ENODEV;
	refused(-ENODEV, "the vgpu");
}

static void heads_that_are_wrong_are_refused(void **state)
{
	static const struct {
		const char *head, *part;
	} wrong[] = {
		{ "", "closed the connection" },
		{ "{", "no JSON object" },
		{ "[true]", "no JSON object" },
		{ "{}", "ok" },
		{ "{\"ok\": 1}", "ok" },
		{ "{\"ok\": true, \"ok\": true}", "no JSON object" },
		{ "{\"progress\": {\"done\": -1, \"total\": 2}}", "progress.done" },
		{ "{\"progress\": {\"done\": 1}}", "progress.total" },
		{ "{\"ok\": true}", "load.size" },
		{ "{\"ok\": true, \"size\": \"8192\"}", "load.size" },
		{ "{\"ok\": true, \"size\": -1}", "load.size" },
		{ "{\"ok\": true, \"size\": 1.5}", "load.size" },
		{ "{\"ok\": true, \"size\": 99999999999999999999}", "no JSON object" },
		{ "{\"ok\": true, \"size\": 8192, \"groups\": 2}", "load.final" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		script.head = wrong[i].head;
		refused(*wrong[i].head ? -EPROTO : -ECONNRESET, wrong[i].part);
	}
}

static void descriptors_that_are_wrong_are_refused(void **state)
{
	(void)state;
	for (script.fds = 0; script.fds < 3; script.fds++)
		refused(-EPROTO, "descriptors");
	script.fds = 4;
	refused(-EPROTO, "4 descriptors");
	script.fds = 5;
	refused(-EPROTO, "more than 4 descriptors");
	script.fds = 3;
	kernel.buffer_size = 4096;
	refused(-EPROTO, "size: more than the buffer has");
}

static void tensors_that_are_wrong_are_refused(void **state)
{
#define ONE(tensor) "{\"tensors\": [" tensor "]}"
	static const struct {
		const char *tensors, *part;
	} wrong[] = {
		{ "", "no JSON object" },
		{ "[]", "no JSON object" },
		{ "{}", "tensors: there are none" },
		{ "{\"tensors\": []}", "tensors: there are none" },
		{ "{\"tensors\": {\"a\": 1}}", "tensors: there are none" },
		{ ONE("7"), "tensors[0]" },
		{ ONE("{\"name\": 7}"), "tensors[0].name" },
		{ ONE("{\"name\": \"a\"}"), "offset" },
		{ ONE(TENSOR("a", "F31", "[4]", 0, 16, 1)), "tensors[0].dtype" },
		{ ONE(TENSOR("a", "F32", "4", 0, 16, 1)), "tensors[0].shape" },
		{ ONE(TENSOR("a", "F32", "[-4]", 0, 16, 1)), "tensors[0].shape" },
		{ ONE(TENSOR("a", "F32", "[1,1,1,1,1,1,1,1,4]", 0, 16, 1)), "tensors[0].shape" },
		{ ONE(TENSOR("a", "F32", "[4611686018427387905, 4]", 0, 16, 1)),
		  "shape: too large" },
		{ ONE(TENSOR("a", "F32", "[5]", 0, 16, 1)), "tensors[0].size" },
		{ ONE(TENSOR("a", "F32", "[4]", 8184, 16, 1)), "tensors[0].offset" },
		{ ONE(TENSOR("a", "F32", "[4]", 9223372036854775807, 16, 1)), "tensors[0].offset" },
		{ ONE(TENSOR("a", "F32", "[4]", -8, 16, 1)), "offset" },
		{ ONE(TENSOR("a", "F32", "[4]", 0, 16, 10)), "tensors[0].value" },
		{ ONE(FIRST ", " FIRST), "another one has it too" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		script.tensors = wrong[i].tensors;
		refused(-EPROTO, wrong[i].part);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_load_gives_tensors_a_buffer_and_a_timeline, setup),
		cmocka_unit_test_setup(the_request_says_what_is_wanted, setup),
		cmocka_unit_test_setup(a_wait_is_for_a_value_or_for_all, setup),
		cmocka_unit_test_setup(progress_before_the_reply_is_no_reply, setup),
		cmocka_unit_test_setup(a_refusal_has_the_daemons_words, setup),
		cmocka_unit_test_setup(a_long_reason_is_cut, setup),
		cmocka_unit_test_setup(a_daemon_that_is_not_there_is_named, setup),
		cmocka_unit_test_setup(a_daemon_that_goes_away_is_an_error, setup),
		cmocka_unit_test_setup(a_reply_that_comes_too_late_is_of_no_other_request, setup),
		cmocka_unit_test_setup(the_kernels_refusals_are_told, setup),
		cmocka_unit_test_setup(heads_that_are_wrong_are_refused, setup),
		cmocka_unit_test_setup(descriptors_that_are_wrong_are_refused, setup),
		cmocka_unit_test_setup(tensors_that_are_wrong_are_refused, setup),
	};

	return cmocka_run_group_tests_name("model_client", tests, NULL, NULL);
}
