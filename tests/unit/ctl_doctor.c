// SPDX-License-Identifier: GPL-2.0-or-later
#include <ftw.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "../../userspace/distmindctl/doctor.h"
#include "ctl_fake.h"

#define SECURE_BOOT "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

static char root[64];
static struct doctor doctor;

/* A host that is as it should be; tests break it. */
static void file(const char *path, const void *text, size_t len)
{
	char whole[512];
	char *slash;
	FILE *out;

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	for (slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(whole, 0755);
		*slash = '/';
	}
	out = fopen(whole, "w");
	assert_non_null(out);
	fwrite(text, 1, len, out);
	fclose(out);
}

static void text_file(const char *path, const char *text)
{
	file(path, text, strlen(text));
}

static void mode(const char *path, mode_t bits)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	assert_int_equal(chmod(whole, bits), 0);
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *ftw)
{
	(void)status;
	(void)flag;
	(void)ftw;
	return remove(path);
}

static void drop(const char *path)
{
	char whole[512];

	snprintf(whole, sizeof(whole), "%s%s", root, path);
	nftw(whole, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static int host_setup(void **state)
{
	fake_setup(state);
	fake.gpu_count = 1;
	fake.gpus[0].lanes_out = 0;
	strcpy(root, "/tmp/ctl_doctor.XXXXXX");
	assert_non_null(mkdtemp(root));
	doctor =
		(struct doctor){ .root = root, .release = "6.1.0-37-amd64", .memlock = UINT64_MAX };
	text_file("/sys/module/distmind/version", "0.1.0\n");
	text_file("/dev/distmind/control", "");
	mode("/dev/distmind/control", 0666);
	text_file("/dev/distmind/engine", "");
	mode("/dev/distmind/engine", 0600);
	text_file("/sys/class/infiniband/rxe0/ports/1/state", "4: ACTIVE\n");
	text_file("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n");
	text_file("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
	text_file("/proc/meminfo", "MemTotal: 1 kB\nHugePages_Total:       8\n");
	return 0;
}

static int host_teardown(void **state)
{
	(void)state;
	drop("");
	return 0;
}

static struct finding look(const char *name)
{
	const struct check *check;
	struct finding finding = { 0 };

	for (check = doctor_checks; check->name; check++) {
		if (!strcmp(check->name, name)) {
			check->look(&doctor, &finding);
			/* Nothing that is wrong goes without a fix. */
			assert_true(finding.status == DOCTOR_OK || finding.status == DOCTOR_SKIP ||
				    *finding.fix);
			return finding;
		}
	}
	fail_msg("no check %s", name);
	return finding;
}

static void expect(const char *name, enum doctor_status status, const char *text, const char *fix)
{
	struct finding finding = look(name);

	if (!strstr(finding.text, text))
		fail_msg("%s: no \"%s\" in: %s", name, text, finding.text);
	if (!strstr(finding.fix, fix))
		fail_msg("%s: no \"%s\" in: %s", name, fix, finding.fix);
	assert_int_equal(finding.status, status);
}

static void a_sound_host_has_no_complaints(void **state)
{
	const struct check *check;

	(void)state;
	/* No daemon runs here, nor can one be asked for its catalog and its spool. */
	for (check = doctor_checks; check->name; check++) {
		if (strcmp(check->name, "daemon") && strcmp(check->name, "catalog") &&
		    strcmp(check->name, "spool") && strcmp(check->name, "models"))
			assert_int_equal(look(check->name).status, DOCTOR_OK);
	}
}

static void old_kernels_fail(void **state)
{
	static const char *const old[] = { "5.15.0", "6.0.9-amd64", "4.19", "rubbish" };
	static const char *const new[] = { "6.1.0", "6.12.1+bpo-amd64", "7.0", "10.2" };
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++) {
		doctor.release = old[i];
		expect("kernel", DOCTOR_FAIL, "older than 6.1", "install a kernel");
		doctor.release = new[i];
		expect("kernel", DOCTOR_OK, new[i], "");
	}
}

static void a_module_is_loaded_or_installed_or_missing(void **state)
{
	(void)state;
	expect("module", DOCTOR_OK, "version 0.1.0", "");
	drop("/sys/module/distmind");
	expect("module", DOCTOR_FAIL, "not installed for kernel 6.1.0-37-amd64", "make dkms");
	text_file("/lib/modules/6.1.0-37-amd64/modules.dep", "kernel/net/foo.ko: "
							     "kernel/net/bar.ko\nupdates/dkms/"
							     "distmind_nv.ko:\n");
	expect("module", DOCTOR_FAIL, "not installed", "make dkms");
	text_file("/lib/modules/6.1.0-37-amd64/modules.dep", "kernel/net/foo.ko:\nupdates/dkms/"
							     "distmind.ko.xz:\n");
	expect("module", DOCTOR_FAIL, "not loaded", "modprobe distmind");
	expect("abi", DOCTOR_SKIP, "", "");
	expect("nodes", DOCTOR_SKIP, "", "");
	expect("gpus", DOCTOR_SKIP, "", "");
}

static void secure_boot_wants_a_signed_module(void **state)
{
	(void)state;
	file(SECURE_BOOT, "\6\0\0\0\1", 5);
	expect("secure-boot", DOCTOR_OK, "Secure Boot is on, and the module is loaded", "");
	drop("/sys/module/distmind");
	expect("secure-boot", DOCTOR_WARN, "Secure Boot is on", "mokutil --import");
	text_file("/lib/modules/6.1.0-37-amd64/modules.dep", "extra/distmind.ko:\n");
	text_file("/lib/modules/6.1.0-37-amd64/extra/distmind.ko",
		  "an object file of some length, without what belongs at its end");
	expect("secure-boot", DOCTOR_FAIL, "the module has no signature", "make dkms");
	text_file("/lib/modules/6.1.0-37-amd64/extra/distmind.ko",
		  "an object file~Module signature appended~\n");
	expect("secure-boot", DOCTOR_WARN, "signed with an enrolled key", "mokutil --import");
	file(SECURE_BOOT, "\6\0\0\0\0", 5);
	expect("secure-boot", DOCTOR_OK, "off", "");
	text_file("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
	expect("secure-boot", DOCTOR_WARN, "locked down", "mokutil --import");
}

static void nodes_have_their_modes(void **state)
{
	(void)state;
	mode("/dev/distmind/engine", 0666);
	expect("nodes", DOCTOR_WARN, "engine has mode 0666 instead of 0600", "chmod 0600");
	mode("/dev/distmind/engine", 0600);
	mode("/dev/distmind/control", 0600);
	expect("nodes", DOCTOR_WARN, "control has mode 0600 instead of 0666", "chmod 0666");
	drop("/dev/distmind/control");
	expect("nodes", DOCTOR_FAIL, "/dev/distmind/control: No such file", "devtmpfs");
}

static void the_daemon_holds_its_lock(void **state)
{
	char path[128];
	int fd;

	(void)state;
	expect("daemon", DOCTOR_FAIL, "not running", "systemctl start distmindd");
	text_file("/run/distmind/distmindd.lock", "");
	expect("daemon", DOCTOR_FAIL, "not running", "systemctl start distmindd");
	snprintf(path, sizeof(path), "%s/run/distmind/distmindd.lock", root);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	expect("daemon", DOCTOR_OK, "running", "");
	close(fd);
	expect("daemon", DOCTOR_FAIL, "not running", "systemctl start distmindd");
}

static void versions_of_the_interface_are_compared(void **state)
{
	(void)state;
	fake.query.version = DISTMIND_ABI_VERSION + 1;
	expect("abi", DOCTOR_WARN, "each can do what both know", "make install");
	fake.query.version = DISTMIND_ABI_VERSION - 1;
	expect("abi", DOCTOR_WARN, "each can do what both know", "make dkms");
	fake.open_error = -EACCES;
	expect("abi", DOCTOR_FAIL, "does not answer: Permission denied", "nodes");
}

static void lost_failing_and_draining_gpus_are_told(void **state)
{
	(void)state;
	fake.gpu_count = 2;
	expect("gpus", DOCTOR_FAIL, "1 of 2 lost, such as gpu 1 (cpu1)", "gpu remove 1");
	fake.gpus[1].state = DISTMIND_GPU_STATE_DRAINING;
	fake.gpus[0].lanes_out = 1;
	expect("gpus", DOCTOR_WARN, "1 of 3 lanes of gpu 0 (cpu0) do not answer",
	       "restart its engine");
	fake.gpus[0].lanes_out = 0;
	expect("gpus", DOCTOR_WARN, "1 of 2 draining", "gpu undrain 1");
	fake.gpu_count = 0;
	expect("gpus", DOCTOR_WARN, "none", "distmind-engine-cpu --memory 1G");
}

/* The module cannot tell before somebody wants something of it. */
static void an_engine_that_is_stopped_is_told(void **state)
{
	(void)state;
	fake.gpus[0].engine_pid = 4711;
	text_file("/proc/4711/stat", "4711 (engine) T) S 1 4711 4711 0 -1\n");
	expect("gpus", DOCTOR_OK, "1 ready", "");
	text_file("/proc/4711/stat", "4711 (engine) S) T 1 4711 4711 0 -1\n");
	expect("gpus", DOCTOR_FAIL, "the engine of gpu 0 (cpu0), process 4711, is stopped",
	       "kill -CONT 4711");
}

static void rdma_ports_must_be_active(void **state)
{
	(void)state;
	expect("rdma", DOCTOR_OK, "1 device active", "");
	text_file("/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
	expect("rdma", DOCTOR_WARN, "1 of 2 devices active, mlx5_0 is not", "rdma link");
	drop("/sys/class/infiniband/rxe0");
	expect("rdma", DOCTOR_WARN, "no port of mlx5_0 is active", "rdma link");
	drop("/sys/class/infiniband");
	expect("rdma", DOCTOR_WARN, "no RDMA device", "rdma link add");
}

/* What distmindd says, until the next. */
static void daemon_says(const char *text)
{
	json_decref((json_t *)doctor.status);
	doctor.status = text ? json_loads(text, 0, NULL) : NULL;
	assert_true(!text || doctor.status);
}

#define SAYS(catalog, rdma)                                                                 \
	"{\"host\": \"donor1\", \"catalog\": {\"kind\": \"etcd\", " catalog                 \
	"}, \"rdma\": {" rdma "}}"
#define SOUND "\"answers\": true, \"silent_ms\": 0, \"reason\": \"\", \"fix\": \"\", "

static void a_catalog_that_does_not_answer_is_told(void **state)
{
	(void)state;
	/* Nobody runs here who could be asked. */
	expect("catalog", DOCTOR_SKIP, "not running", "");
	daemon_says(SAYS(SOUND "\"member\": \"joined\", \"member_reason\": \"\"", ""));
	expect("catalog", DOCTOR_OK, "in it as donor1", "");
	daemon_says(SAYS("\"answers\": false, \"silent_ms\": 40000, \"reason\": \"etcd at "
			 "http://x:2379: timed out\", \"fix\": \"see whether etcd runs\", "
			 "\"member\": \"joined\", \"member_reason\": \"\"", ""));
	expect("catalog", DOCTOR_FAIL, "no answer for 40 s", "see whether etcd runs");
	expect("catalog", DOCTOR_FAIL, "http://x:2379: timed out", "");
	daemon_says(SAYS(SOUND "\"member\": \"fenced\", \"member_reason\": \"\"", ""));
	expect("catalog", DOCTOR_FAIL, "another host has joined as donor1", "another name");
	daemon_says(SAYS(SOUND "\"member\": \"joining\", \"member_reason\": \"pool/generation/"
			 "donor1: not a generation: delete the key\"", ""));
	expect("catalog", DOCTOR_FAIL, "delete the key", "pool-left");
	daemon_says(NULL);
}

static void an_etcd_that_refuses_writes_is_told(void **state)
{
	(void)state;
	daemon_says(SAYS("\"answers\": true, \"alarm\": \"etcd has raised its NOSPACE alarm\", "
			 "\"fix\": \"alarm disarm\", \"member\": \"joined\"", ""));
	expect("catalog", DOCTOR_FAIL, "NOSPACE alarm: nothing can be pushed", "alarm disarm");
	daemon_says(SAYS("\"answers\": true, \"alarm\": \"\", \"fix\": \"\", "
			 "\"member\": \"joined\"", ""));
	expect("catalog", DOCTOR_OK, "in it as donor1", "");
	daemon_says(NULL);
}

#define FORMER \
	SAYS("\"answers\": true, \"alarm\": \"\", \"former\": \"donor0\", \"fix\": " \
	     "\"host forget donor0\", \"member\": \"joined\"", "")

static void daemon_lists(const char *models, const char *hosts)
{
	char text[1024];

	json_decref((json_t *)doctor.models);
	snprintf(text, sizeof(text), "{\"models\": [%s], \"hosts\": [%s]}", models, hosts);
	doctor.models = json_loads(text, 0, NULL);
	assert_non_null(doctor.models);
}

#define MODEL(name, state) "{\"name\": \"" name "\", \"state\": \"" state "\"}"
#define HOST(name, damaged) "{\"name\": \"" name "\", \"state\": \"live\", \"damaged\": " damaged "}"

static void models_that_cannot_be_loaded_are_told(void **state)
{
	(void)state;
	expect("models", DOCTOR_SKIP, "while distmindd does not answer", "");
	daemon_says(SAYS(SOUND "\"member\": \"joined\"", ""));
	daemon_lists("", HOST("donor1", "0"));
	expect("models", DOCTOR_OK, "none", "");
	daemon_lists(MODEL("a", "available") "," MODEL("b", "uploading"), HOST("donor1", "0"));
	expect("models", DOCTOR_OK, "2, all there", "");
	daemon_lists(MODEL("a", "missing") "," MODEL("b", "unreadable"), HOST("donor1", "0"));
	expect("models", DOCTOR_FAIL,
	       "1 of 2 cannot be read, such as b: until it is gone no host gives up",
	       "as root: distmindctl model delete b");
	daemon_lists(MODEL("a", "available") "," MODEL("b", "scarce"), HOST("donor1", "0"));
	expect("models", DOCTOR_WARN, "1 of 2 have fewer copies than asked for, such as b",
	       "model replicas b N");
	daemon_lists(MODEL("a", "scarce"), HOST("donor1", "0") "," HOST("donor2", "3"));
	expect("models", DOCTOR_WARN, "host donor2 had 3 chunks with other bytes", "verify");
	daemon_lists(MODEL("a", "away"), HOST("donor2", "3"));
	expect("models", DOCTOR_FAIL, "such as a: hosts that have it are away", "host list");
	daemon_lists(MODEL("a", "away") "," MODEL("b", "missing"), HOST("donor1", "0"));
	expect("models", DOCTOR_FAIL, "1 of 2 cannot be loaded, such as b: nobody has all of it",
	       "model delete b, and push it again");
	/* What was known may not be so any more. */
	daemon_says(SAYS("\"answers\": false, \"member\": \"joined\"", ""));
	expect("models", DOCTOR_SKIP, "while the catalog does not answer", "");
	daemon_says(NULL);
	json_decref((json_t *)doctor.models);
	doctor.models = NULL;
}

static void a_former_name_of_the_host_is_told(void **state)
{
	(void)state;
	daemon_says(FORMER);
	expect("catalog", DOCTOR_WARN, "as donor1, and was as donor0 before", "host forget donor0");
	daemon_lists(MODEL("a", "away"), HOST("donor1", "0"));
	expect("models", DOCTOR_FAIL, "such as a: hosts that have it are away",
	       "this one under its former name");
	daemon_says(NULL);
	json_decref((json_t *)doctor.models);
	doctor.models = NULL;
}

static void a_spool_that_fails_is_told(void **state)
{
	(void)state;
	expect("spool", DOCTOR_SKIP, "while distmindd does not answer", "");
	daemon_says("{\"spool\": {\"path\": \"\"}}");
	expect("spool", DOCTOR_OK, "none", "");
	daemon_says("{\"spool\": {\"path\": \"/srv/spool\", \"restoring\": true, "
		    "\"files\": 200, \"restored\": 12, \"reason\": \"\"}}");
	expect("spool", DOCTOR_OK, "/srv/spool is read: 12 of 200 chunks are there", "");
	daemon_says("{\"spool\": {\"path\": \"/srv/spool\", \"refused\": 7, "
		    "\"reason\": \"No space left on device\", \"fix\": \"make room\"}}");
	expect("spool", DOCTOR_FAIL, "7 were refused: No space left on device", "make room");
	daemon_says("{\"spool\": {\"path\": \"/srv/spool\", \"refused\": 0, "
		    "\"reason\": \"3 files were damaged\", \"fix\": \"rm them\"}}");
	expect("spool", DOCTOR_WARN, "/srv/spool: 3 files were damaged", "rm them");
	daemon_says("{\"spool\": {\"path\": \"/srv/spool\", \"restored\": 200, "
		    "\"reason\": \"\"}}");
	expect("spool", DOCTOR_OK, "200 chunks were restored", "");
	daemon_says(NULL);
}

static void a_device_that_is_not_used_is_told(void **state)
{
	(void)state;
	daemon_says(SAYS(SOUND "\"member\": \"joined\"", "\"device\": \"rxe0\", \"reason\": "
								 "\"\""));
	expect("rdma", DOCTOR_OK, "distmindd uses rxe0", "");
	daemon_says(SAYS(SOUND "\"member\": \"joined\"",
			 "\"device\": \"\", \"reason\": \"no RDMA device has 10.0.0.1\""));
	expect("rdma", DOCTOR_FAIL, "distmindd uses none: no RDMA device has 10.0.0.1",
	       "distmindd.conf");
	/* One that is not there cannot be used. */
	drop("/sys/class/infiniband");
	expect("rdma", DOCTOR_WARN, "no RDMA device", "rdma link add");
	daemon_says(NULL);
}

static void a_memlock_limit_is_told(void **state)
{
	(void)state;
	doctor.memlock = 8 << 20;
	expect("memlock", DOCTOR_WARN, "limit 8M", "LimitMEMLOCK=infinity");
	doctor.may_lock = true;
	expect("memlock", DOCTOR_OK, "limit 8M", "");
}

static void memory_wants_its_controller(void **state)
{
	(void)state;
	text_file("/sys/fs/cgroup/cgroup.controllers", "cpu hugetlb_memory\n");
	expect("cgroup", DOCTOR_WARN, "without the memory controller", "cgroup_enable=memory");
	drop("/sys/fs/cgroup");
	expect("cgroup", DOCTOR_WARN, "no cgroup v2", "unified_cgroup_hierarchy");
}

static void the_report_is_json_too(void **state)
{
	struct outcome outcome = ctl("-j doctor");
	json_t *document = json_loads(outcome.out, JSON_REJECT_DUPLICATES, NULL);
	json_t *row;
	size_t index;
	bool failed = false;

	(void)state;
	assert_non_null(document);
	json_array_foreach (json_object_get(document, "checks"), index, row) {
		assert_string_equal(json_string_value(json_object_get(row, "check")),
				    doctor_checks[index].name);
		assert_non_null(json_object_get(row, "finding"));
		assert_non_null(json_object_get(row, "fix"));
		failed |= !strcmp(json_string_value(json_object_get(row, "status")), "fail");
	}
	assert_null(doctor_checks[index].name);
	assert_int_equal(outcome.status, failed ? CTL_FAILED : CTL_OK);
	json_decref(document);
	outcome_free(&outcome);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_sound_host_has_no_complaints, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(old_kernels_fail, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(a_module_is_loaded_or_installed_or_missing,
						host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(secure_boot_wants_a_signed_module, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(nodes_have_their_modes, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(the_daemon_holds_its_lock, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(versions_of_the_interface_are_compared, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(lost_failing_and_draining_gpus_are_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(an_engine_that_is_stopped_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(rdma_ports_must_be_active, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(models_that_cannot_be_loaded_are_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(a_catalog_that_does_not_answer_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(an_etcd_that_refuses_writes_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(a_former_name_of_the_host_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(a_spool_that_fails_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(a_device_that_is_not_used_is_told, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(a_memlock_limit_is_told, host_setup, host_teardown),
		cmocka_unit_test_setup_teardown(memory_wants_its_controller, host_setup,
						host_teardown),
		cmocka_unit_test_setup_teardown(the_report_is_json_too, host_setup, host_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
