// SPDX-License-Identifier: GPL-2.0-or-later
/* Workloads: drawn ones, and traces with their mistakes. */
#include "unit.h"

#include "../../userspace/sim/quantity.h"
#include "../../userspace/sim/serve_options.h"
#include "../../userspace/sim/sim.h"
#include "../../userspace/sim/workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/sim_serve_workload.XXXXXX";
static char error[SIM_WORKLOAD_ERROR_LEN];

static struct sim_workload_source source_of(const char *name)
{
	return (struct sim_workload_source){
		.name = name, .data = sim_workload_data(), .zipf = 0.9, .flops = 14e12, .seed = 1,
	};
}

typedef int (*reader)(struct sim_workload *workload, const struct sim_workload_source *source,
		      const char *path, char *error);

static int read_text(reader read, const char *text, struct sim_workload *workload)
{
	struct sim_workload_source source = source_of("");
	FILE *file = fopen(path, "w");
	int err;

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
	memset(workload, 0, sizeof(*workload));
	*error = '\0';
	err = read(workload, &source, path, error);
	return err;
}

static void expect(reader read, const char *text, int line, const char *complaint)
{
	struct sim_workload workload;
	char start[64];

	assert_int_equal(read_text(read, text, &workload), -EINVAL);
	snprintf(start, sizeof(start), "%s:%d: ", path, line);
	assert_contains(error, start);
	assert_contains(error, complaint);
	sim_workload_destroy(&workload);
}

#define AZURE "TIMESTAMP,ContextTokens,GeneratedTokens\n"
#define GENAI "gmt_create,exec_time_seconds,checkpoint_model_version_id,num_lora\n"
#define DLRM "app_name,gpu_request,memory_request\n"

static void a_trace_keeps_its_times_and_models(void **state)
{
	struct sim_workload workload;
	struct sim_request request;

	(void)state;
	assert_int_equal(read_text(sim_workload_genai,
				   GENAI "2024-11-15 16:57:50,10.0,A,0\n"
					 "2024-11-15 16:58:50,20.0,B,2\n"
					 "2024-11-15 17:00:50,30.0,A,1\n", &workload), 0);
	assert_int_equal(workload.model_count, 2);
	/* 60 s of computation in 180 s: a third of a gpu as it is, one in a third of the time. */
	sim_workload_start(&workload, 1, 0, 1);
	assert_true(sim_workload_next(&workload, &request));
	assert_int_equal(request.arrival_ns, 0);
	assert_int_equal(request.model, 0);
	assert_true(sim_workload_next(&workload, &request));
	assert_in_range(request.arrival_ns, 19999999999, 20000000001);
	assert_int_equal(request.model, 1);
	assert_int_equal(request.compute_ns, 20000000000);
	assert_int_equal(request.extra_bytes, 300000000);
	assert_true(sim_workload_next(&workload, &request));
	assert_int_equal(request.model, 0);
	assert_false(sim_workload_next(&workload, &request));
	/* Twice as many: it begins again where it ended. */
	sim_workload_start(&workload, 1, 6, 1);
	for (int i = 0; i < 6; i++)
		assert_true(sim_workload_next(&workload, &request));
	assert_in_range(request.arrival_ns, 119999999990, 120000000010);
	assert_false(sim_workload_next(&workload, &request));
	sim_workload_destroy(&workload);
}

static void bad_traces_are_refused_with_line_and_field(void **state)
{
	(void)state;
	expect(sim_workload_azure, "", 1, "empty");
	expect(sim_workload_azure, "TIMESTAMP,ContextTokens\n", 1, "GeneratedTokens");
	expect(sim_workload_azure, AZURE, 1, "no two requests");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46.68,3\n", 2, "fields");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46.68,3,x\n", 2, "GeneratedTokens: ");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46.68,-3,1\n", 2, "ContextTokens: ");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46.68,99999999999,1\n", 2,
	       "ContextTokens: ");
	expect(sim_workload_azure, AZURE "yesterday,3,1\n", 2, "TIMESTAMP: \"yesterday\"");
	expect(sim_workload_azure, AZURE "2023-13-16 18:15:46.68,3,1\n", 2, "TIMESTAMP: ");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:nan,3,1\n", 2, "TIMESTAMP: ");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46.68Z,3,1\n", 2, "TIMESTAMP: ");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46,3,1\n2023-11-16 18:15:45,3,1\n", 3,
	       "TIMESTAMP: earlier than the line before");
	expect(sim_workload_azure, AZURE "2023-11-16 18:15:46,0,0\n2023-11-16 18:15:47,0,0\n", 3,
	       "no request takes any time");
	expect(sim_workload_genai, GENAI "2024-11-15 16:57:50,10,A,1000000\n", 2, "num_lora: ");
	expect(sim_workload_genai,
	       GENAI "2024-11-15 16:57:50,10,01234567890123456789012345678901234567890123456789"
		     "012345678901234567890,1\n",
	       2, "checkpoint_model_version_id: longer than 63");
	expect(sim_workload_dlrm, DLRM "app,0,10\n", 2, "no instance has a gpu");
	expect(sim_workload_dlrm, DLRM "app,1,0\n", 2, "memory_request: ");
	expect(sim_workload_dlrm, DLRM "app,1,inf\n", 2, "memory_request: ");
}

static void services_are_as_popular_as_they_have_gpus(void **state)
{
	struct sim_workload workload;
	struct sim_request request;
	int count[2] = { 0 };

	(void)state;
	assert_int_equal(read_text(sim_workload_dlrm,
				   DLRM "big,1,40.0\nsmall,1,20.0\nbig,2,40.0\nother,0,10\n",
				   &workload), 0);
	assert_int_equal(workload.model_count, 2);
	sim_workload_start(&workload, 4, 40000, 1);
	while (sim_workload_next(&workload, &request))
		count[request.model]++;
	assert_in_range(count[0], 29500, 30500);
	sim_workload_destroy(&workload);
}

static void popularity_falls_as_zipf_says(void **state)
{
	double weights[10], sum = 0, mean;
	struct sim_workload workload = { .model_count = COUNT(weights) };
	struct sim_request request = { 0 };
	int count[COUNT(weights)] = { 0 };
	uint64_t before = 0;

	(void)state;
	workload.usual_ns = calloc(COUNT(weights), sizeof(*workload.usual_ns));
	assert_non_null(workload.usual_ns);
	for (size_t i = 0; i < COUNT(weights); i++) {
		workload.usual_ns[i] = 10000000;
		weights[i] = pow((double)i + 1, -0.9);
		sum += weights[i];
	}
	assert_int_equal(sim_workload_zipf(&workload, 0.9), 0);
	sim_workload_start(&workload, 2, 100000, 7);
	for (int i = 0; sim_workload_next(&workload, &request); i++) {
		assert_true(request.arrival_ns >= before);
		before = request.arrival_ns;
		count[request.model]++;
	}
	for (size_t i = 0; i < COUNT(weights); i++)
		assert_float_equal(count[i] / (100000 * weights[i] / sum), 1, 0.04);
	/* 10 ms each on 2 gpus: one every 5 ms. */
	mean = (double)request.arrival_ns / 100000;
	assert_float_equal(mean / 5e6, 1, 0.02);
	assert_float_equal((double)sim_workload_length(&workload) / 5e11, 1, 1e-6);
	sim_workload_destroy(&workload);
}

static void the_data_sets_can_be_read(void **state)
{
	static const struct {
		const char *name;
		uint32_t models;
		size_t requests;
	} sets[] = {
		{ "distmind", 128, 0 }, { "azure", 16, 19366 }, { "genai", 87, 26823 },
		{ "dlrm", 156, 0 },
	};
	struct sim_workload_source source;
	struct sim_workload workload;

	(void)state;
	if (access(sim_workload_data(), R_OK)) {
		print_message("# no data sets in %s: set DISTMIND_DATA\n", sim_workload_data());
		skip();
	}
	for (size_t i = 0; i < COUNT(sets); i++) {
		source = source_of(sets[i].name);
		if (sim_workload_create(&workload, &source, error))
			fail_msg("%s", error);
		assert_int_equal(workload.model_count, sets[i].models);
		assert_int_equal(workload.trace_count, sets[i].requests);
		sim_workload_destroy(&workload);
	}
}

static void absent_files_are_named(void **state)
{
	struct sim_workload_source source = source_of("azure");
	struct sim_workload workload;

	(void)state;
	source.data = "/no/such";
	assert_int_equal(sim_workload_create(&workload, &source, error), -ENOENT);
	assert_contains(error, "/no/such/azure/");
	source.name = "distmind";
	assert_int_equal(sim_workload_create(&workload, &source, error), -ENOENT);
	assert_contains(error, "/no/such/models/");
	source.name = "nothing";
	assert_int_equal(sim_workload_create(&workload, &source, error), -EINVAL);
	assert_contains(error, "there is no workload \"nothing\"");
}

static int parse(struct sim_serve_options *options, const char *line)
{
	static char text[256];
	char *argv[32] = { (char *)"serve" }, *rest = text;
	int argc = 1;

	snprintf(text, sizeof(text), "%s", line);
	while ((argv[argc] = strsep(&rest, " ")))
		argc++;
	return sim_serve_options_parse(options, argc, argv);
}

static void options_are_understood(void **state)
{
	struct sim_serve_options options;

	(void)state;
	assert_int_equal(parse(&options, "--workload azure --policy aware,mps,ray -j "
					 "--gpu-cache 1.5G --net 25Gbit/s --h2d 0 --yield 1ms "
					 "--load 0.5 --seed 9"),
			 SIM_OK);
	assert_string_equal(options.source.name, "azure");
	assert_int_equal(options.system_count, 3);
	assert_string_equal(options.systems[2]->name, "ray");
	assert_true(options.json);
	assert_int_equal(options.config.gpu_cache, 3ULL << 29);
	assert_int_equal(options.config.host_cache, 128ULL << 30);
	assert_true(options.config.rates.network == 3.125e9);
	assert_true(options.config.rates.copy == 0);
	assert_int_equal(options.config.training.yield_ns, 1000000);
	assert_int_equal(options.config.requests, 0);
	assert_int_equal(options.source.seed, 9);
	assert_int_equal(parse(&options, "--policy all"), SIM_OK);
	assert_null(sim_system_at(options.system_count));
}

static void bad_options_are_refused(void **state)
{
	static const char *const lines[] = {
		"--workload nothing", "--policy aware,nothing", "--policy aware,", "--hosts 0",
		"--hosts 1e3", "--gpus -1", "--hosts 1000 --gpus 1000", "--gpu-cache much",
		"--net 12", "--net 0", "--net 0x10GB/s", "--net -1GB/s", "--flops 14", "--yield 1",
		"--yield 86401s", "--iteration 0", "--training never", "--load 0", "--load nan",
		"--capacity 2", "--objective -1", "--requests 5", "--seed x", "--nothing", "stray",
		"--seed 99999999999999999999999", "--workload dlrm --models 3",
		"--zipf 1 --workload genai",
	};
	struct sim_serve_options options;

	(void)state;
	/* The complaints themselves are not looked at. */
	assert_non_null(freopen("/dev/null", "w", stderr));
	for (size_t i = 0; i < COUNT(lines); i++)
		if (parse(&options, lines[i]) != SIM_USAGE)
			fail_msg("serve %s was accepted", lines[i]);
}

static int create_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_trace_keeps_its_times_and_models),
		cmocka_unit_test(bad_traces_are_refused_with_line_and_field),
		cmocka_unit_test(services_are_as_popular_as_they_have_gpus),
		cmocka_unit_test(popularity_falls_as_zipf_says),
		cmocka_unit_test(the_data_sets_can_be_read),
		cmocka_unit_test(absent_files_are_named),
		cmocka_unit_test(options_are_understood),
		cmocka_unit_test(bad_options_are_refused),
	};

	return cmocka_run_group_tests(tests, create_file, remove_file);
}
