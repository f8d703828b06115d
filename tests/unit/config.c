// SPDX-License-Identifier: GPL-2.0-or-later
#include "unit.h"

#include "../../userspace/distmindd/common/config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

static char path[] = "/tmp/distmind-config-XXXXXX";
static char error[CONFIG_ERROR_LEN];

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	return close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static int read_text(const char *text, struct config *config)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	error[0] = '\0';
	return config_read(path, config, error);
}

/* The text is refused, and the message is "path:line: what". */
static void expect_error(const char *text, int line, const char *what)
{
	char start[64];
	struct config config, before;

	memset(&config, 0x5a, sizeof(config));
	before = config;
	assert_int_equal(read_text(text, &config), -EINVAL);
	snprintf(start, sizeof(start), "%s:%d: ", path, line);
	if (strncmp(error, start, strlen(start)))
		fail_msg("\"%s\" does not begin with \"%s\"", error, start);
	assert_contains(error, what);
	assert_memory_equal(&config, &before, sizeof(config));
}

static void every_key_is_read(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(read_text("# a comment\n"
				   "[placement]\n"
				   "policy = best-fit\n"
				   "share-overcommit = 150%\n"
				   "memory-overcommit=200% ; more\n"
				   "spares = cpu2,cpu3\n"
				   "\n"
				   "[pool]\n"
				   "lost-gpu-keep = 90 s\n"
				   "[log]\n"
				   "level = debug",
				   &config),
			 0);
	assert_ptr_equal(config.policy, placement_policy_by_name("best-fit"));
	assert_int_equal(config.share_overcommit, 150);
	assert_int_equal(config.memory_overcommit, 200);
	assert_string_equal(config.spares, "cpu2,cpu3");
	assert_int_equal(config.lost_gpu_keep_us, 90000000);
	assert_int_equal(config.log_level, LOG_DEBUG);
}

static void every_key_of_the_memory_pool_is_read(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(read_text("[host]\n"
				   "name = gpu-1.rack\n"
				   "address = 10.0.0.1\n"
				   "[donor]\n"
				   "memory = 8G\n"
				   "spool = /srv/spool\n"
				   "rdma-device = mlx5_0\n"
				   "rdma-port = 7000\n"
				   "[cache]\n"
				   "memory = 32G\n"
				   "[catalog]\n"
				   "kind = etcd\n"
				   "path = /srv/catalog\n"
				   "endpoints = https://a:2379,https://b:2379\n"
				   "ca = /srv/ca.pem\n"
				   "certificate = /srv/host.pem\n"
				   "key = /srv/host.key\n"
				   "pool = red\n"
				   "[models]\n"
				   "socket = /run/models\n"
				   "hot-half-life = 5min\n",
				   &config),
			 0);
	assert_string_equal(config.models.host, "gpu-1.rack");
	assert_string_equal(config.models.address, "10.0.0.1");
	assert_int_equal(config.models.donor_memory, 8ULL << 30);
	assert_string_equal(config.models.spool, "/srv/spool");
	assert_string_equal(config.models.rdma_device, "mlx5_0");
	assert_int_equal(config.models.rdma_port, 7000);
	assert_int_equal(config.models.cache_memory, 32ULL << 30);
	assert_true(config.models.etcd);
	assert_string_equal(config.models.catalog, "/srv/catalog");
	assert_string_equal(config.models.endpoints, "https://a:2379,https://b:2379");
	assert_string_equal(config.models.ca, "/srv/ca.pem");
	assert_string_equal(config.models.certificate, "/srv/host.pem");
	assert_string_equal(config.models.key, "/srv/host.key");
	assert_string_equal(config.models.pool, "red");
	assert_string_equal(config.models.socket, "/run/models");
	assert_int_equal(config.models.hot_half_life_us, 300000000);
	assert_int_equal(read_text("[host]\naddress = fd00::12\n", &config), 0);
	assert_int_equal(read_text("[donor]\nmemory = 0\n", &config), 0);
	assert_int_equal(config.models.donor_memory, 0);
}

static void errors_of_the_memory_pool_name_the_fix(void **state)
{
	char text[512];

	(void)state;
	expect_error("[host]\nname = a host\n", 2, "is not a name: write letters");
	expect_error("[host]\nname =\n", 2, "write 1 to 63 characters");
	expect_error("[host]\naddress = node3\n", 2, "\"node3\" is not an address in numbers");
	expect_error("[host]\naddress = 10.0.0.300\n", 2, "write one such as 10.0.0.12");
	expect_error("[host]\naddress = 10.0.0.1 10.0.0.2\n", 2, "is not an address in numbers");
	expect_error("[host]\naddress =\n", 2, "is not an address in numbers");
	expect_error("[donor]\nmemory = much\n", 2, "such as 8G, or 0");
	expect_error("[donor]\nmemory = 4K\n", 2, "is not an amount of memory");
	expect_error("[cache]\nmemory = all\n", 2, "memory: \"all\" is not an amount");
	expect_error("[donor]\nspool = spool\n", 2, "begin it with /");
	expect_error("[donor]\nrdma-port = 65536\n", 2, "write 1 to 65535");
	expect_error("[donor]\nrdma-port = -1\n", 2, "write 1 to 65535");
	expect_error("[catalog]\nkind = zookeeper\n", 2, "write embedded, or etcd");
	expect_error("[models]\nhot-half-life = 0s\n", 2, "is not a time: write a number and ms");
	expect_error("[models]\nhot-half-life = forever\n", 2, "such as 60s");
	expect_error("[catalog]\nkind = etcd\n", 2, "endpoints: kind = etcd needs them");
	memset(text, 0, sizeof(text));
	strcpy(text, "[models]\nsocket = /");
	memset(text + strlen(text), 'x', 108);
	expect_error(text, 2, "write 1 to 107 characters");
}

#define ETCD(endpoints) "[catalog]\nkind = etcd\nendpoints = " endpoints "\n"

static void certificates_need_their_keys_and_https(void **state)
{
	struct config config;

	(void)state;
	expect_error("[catalog]\nca = ca.pem\n", 2, "ca: \"ca.pem\" is not a path from the root");
	expect_error("[catalog]\nkey =\n", 2, "key: \"\" is not a path from the root");
	expect_error(ETCD("https://a:1") "key = /k\n", 4,
		     "key: there is no certificate for it: write both in [catalog], or neither");
	expect_error(ETCD("https://a:1") "certificate = /c\n", 4,
		     "certificate: there is no key for it: write both in [catalog], or neither");
	expect_error(ETCD("http://a:1") "certificate = /c\nkey = /k\n", 5,
		     "endpoints: http://a:1 does without the certificate that is given: write "
		     "https://");
	expect_error(ETCD("https://a:1,http://b:2,http://c:3") "ca = /ca\n", 4,
		     "endpoints: http://b:2 does without the ca that is given");
	assert_int_equal(read_text(ETCD("https://a:1") "certificate = /c\nkey = /k\n", &config),
			 0);
	assert_int_equal(read_text(ETCD("https://a:1") "ca = /ca\n", &config), 0);
	assert_int_equal(read_text(ETCD("https://a:1"), &config), 0);
	assert_int_equal(read_text(ETCD("http://a:1"), &config), 0);
}

static void what_is_left_out_has_its_default(void **state)
{
	struct config config, defaults;

	(void)state;
	memset(&config, 0x5a, sizeof(config));
	memset(&defaults, 0, sizeof(defaults));
	config_default(&defaults);
	assert_int_equal(read_text("", &config), 0);
	assert_ptr_equal(config.policy, defaults.policy);
	assert_int_equal(config.share_overcommit, 100);
	assert_int_equal(config.memory_overcommit, 100);
	assert_int_equal(config.lost_gpu_keep_us, 600000000);
	assert_int_equal(config.log_level, LOG_INFO);
}

static void times_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t us;
	} cases[] = {
		{ "500ms", 500000 },	  { "0s", 0 },	       { "10min", 600000000 },
		{ "2 h", 7200000000ULL }, { "1d", 86400000000ULL }, { "forever", CONFIG_FOREVER },
	};
	struct config config;
	char text[64];

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		snprintf(text, sizeof(text), "[pool]\nlost-gpu-keep = %s\n", cases[i].text);
		if (read_text(text, &config))
			fail_msg("%s", error);
		assert_int_equal(config.lost_gpu_keep_us, cases[i].us);
	}
}

static void errors_name_the_line_and_the_fix(void **state)
{
	(void)state;
	expect_error("[placement]\n\nshare-overcommit = lots\n", 3,
		     "share-overcommit: \"lots\" is not a percentage: write 1% to 10000%");
	expect_error("[placement]\nmemory-overcommit = 150\n", 2, "is not a percentage");
	expect_error("[placement]\nmemory-overcommit = 0%\n", 2, "is not a percentage");
	expect_error("[placement]\nmemory-overcommit = -5%\n", 2, "is not a percentage");
	expect_error("[placement]\nmemory-overcommit = 10001%\n", 2, "is not a percentage");
	expect_error("[placement]\nmemory-overcommit =\n", 2, "is not a percentage");
	expect_error("[placement]\nspares = cpu1, cpu2\n", 2, "separated by commas");
	expect_error("[placement]\nspares = cpu1,\n", 2, "separated by commas");
	expect_error("[placement]\nspares =\n", 2, "is not a list of gpus");
	expect_error("[placement]\npolicy = worst\n", 2,
		     "there is no policy \"worst\": write distmind, or best-fit");
	expect_error("[pool]\nlost-gpu-keep = 10\n", 2, "is not a time: write a number and ms");
	expect_error("[pool]\nlost-gpu-keep = soon\n", 2, "is not a time");
	expect_error("[pool]\nlost-gpu-keep = 99999999999999999999d\n", 2, "is not a time");
	expect_error("[pool]\nlost-gpu-keep = 9999999999999999d\n", 2, "is not a time");
	expect_error("[log]\nlevel = loud\n", 2, "write error, warning, info or debug");
}

static void unknown_words_are_answered_with_the_known_ones(void **state)
{
	(void)state;
	expect_error("[placement]\nshare-overcomit = 100%\n", 2,
		     "unknown key share-overcomit in [placement]: there are policy, "
		     "share-overcommit, memory-overcommit");
	expect_error("[plaecment]\npolicy = best-fit\n", 2,
		     "unknown section [plaecment]: there are [placement], [pool], [log]");
	expect_error("level = info\n", 1, "level stands before the first section");
	expect_error("[log]\nlevel = info\nlevel = debug\n", 3, "level is given twice");
}

static void what_is_no_line_of_a_config_is_told(void **state)
{
	char text[1024];

	(void)state;
	expect_error("[log]\nlevel info\nlevel = loud\n", 2, "neither \"key = value\"");
	expect_error("[log]\nlevel = loud\nlevel info\n", 2, "there is no level");
	expect_error("[log\nlevel = info\n", 1, "neither \"key = value\"");
	memset(text, 0, sizeof(text));
	memset(text, '#', 900);
	expect_error(text, 1, "too long");
}

static void a_missing_file_is_told_apart(void **state)
{
	struct config config;

	(void)state;
	assert_int_equal(config_read("/nonexistent/distmindd.conf", &config, error), -ENOENT);
	assert_contains(error, "/nonexistent/distmindd.conf: No such file");
}

/* They would be read for ever, or waited for. */
static void what_is_no_file_of_settings_is_refused(void **state)
{
	char pipe[sizeof(path) + 8];
	const char *const others[] = { "/dev/zero", "/tmp", pipe };
	struct config config;

	(void)state;
	snprintf(pipe, sizeof(pipe), "%s.pipe", path);
	assert_int_equal(mkfifo(pipe, 0600), 0);
	for (size_t i = 0; i < COUNT(others); i++) {
		assert_int_equal(config_read(others[i], &config, error), -EINVAL);
		assert_int_equal(strncmp(error, others[i], strlen(others[i])), 0);
		assert_contains(error, ": it is a directory, a device or a pipe: name a regular");
	}
	unlink(pipe);
}

/* The largest that is read, and a byte more. */
static void a_file_of_settings_has_a_limit(void **state)
{
	static char text[INI_FILE_MAX + 2];
	struct config config;

	(void)state;
	for (size_t i = 0; i < INI_FILE_MAX + 1; i++)
		text[i] = i % 64 ? '#' : '\n';
	assert_int_equal(read_text(text, &config), -EFBIG);
	assert_contains(error, "it is larger than 1048576 bytes, which no such file is: name the right");
	assert_int_equal(strncmp(error, path, strlen(path)), 0);
	text[INI_FILE_MAX] = '\0';
	assert_int_equal(read_text(text, &config), 0);
	/* It is not looked for the end of what has no end in sight. */
	assert_int_equal(truncate(path, 1LL << 40), 0);
	assert_int_equal(config_read(path, &config, error), -EFBIG);
}

static void the_sample_is_right_and_holds_the_defaults(void **state)
{
	static const char *const sample = "userspace/distmindd/distmindd.conf";
	char line[256], text[8192] = "";
	struct config config;
	FILE *file;

	(void)state;
	file = fopen(sample, "r");
	if (!file)
		skip(); /* run from elsewhere */
	/* With its comment signs taken away where a key follows. */
	while (fgets(line, sizeof(line), file))
		strcat(text, line[0] == '#' && line[1] != ' ' && strchr(line, '=') ? line + 1 :
										     line);
	fclose(file);
	if (config_read(sample, &config, error) || read_text(text, &config))
		fail_msg("%s", error);
	assert_int_equal(config.share_overcommit, 100);
	assert_int_equal(config.memory_overcommit, 100);
	assert_int_equal(config.lost_gpu_keep_us, 600000000);
	assert_int_equal(config.log_level, LOG_INFO);
	assert_int_equal(config.models.donor_memory, 64U << 20);
	assert_int_equal(config.models.rdma_port, 7471);
	assert_string_equal(config.models.catalog, "/var/lib/distmind/catalog");
	assert_int_equal(config.models.hot_half_life_us, 60000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_read),
		cmocka_unit_test(every_key_of_the_memory_pool_is_read),
		cmocka_unit_test(errors_of_the_memory_pool_name_the_fix),
		cmocka_unit_test(certificates_need_their_keys_and_https),
		cmocka_unit_test(what_is_left_out_has_its_default),
		cmocka_unit_test(times_have_units),
		cmocka_unit_test(errors_name_the_line_and_the_fix),
		cmocka_unit_test(unknown_words_are_answered_with_the_known_ones),
		cmocka_unit_test(what_is_no_line_of_a_config_is_told),
		cmocka_unit_test(a_missing_file_is_told_apart),
		cmocka_unit_test(what_is_no_file_of_settings_is_refused),
		cmocka_unit_test(a_file_of_settings_has_a_limit),
		cmocka_unit_test(the_sample_is_right_and_holds_the_defaults),
	};

	return cmocka_run_group_tests_name("config", tests, make_file, remove_file);
}
