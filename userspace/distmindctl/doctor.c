// SPDX-License-Identifier: GPL-2.0-or-later
#include "doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../libdistmind/service.h"
#include "noun.h"
#include "options.h"
#include "status.h"

/* In the order in which one would repair them. */
const struct check doctor_checks[] = {
	{ "kernel", doctor_check_kernel },
	{ "secure-boot", doctor_check_secure_boot },
	{ "module", doctor_check_module },
	{ "abi", doctor_check_abi },
	{ "nodes", doctor_check_nodes },
	{ "daemon", doctor_check_daemon },
	{ "catalog", doctor_check_catalog },
	{ "spool", doctor_check_spool },
	{ "models", doctor_check_models },
	{ "gpus", doctor_check_gpus },
	{ "rdma", doctor_check_rdma },
	{ "memlock", doctor_check_memlock },
	{ "cgroup", doctor_check_cgroup },
	{ "hugepages", doctor_check_hugepages },
	{ 0 },
};

static const struct {
	const char *name;
	enum print_colour colour;
} statuses[] = {
	[DOCTOR_OK] = { "ok", PRINT_COLOUR_GOOD },
	[DOCTOR_WARN] = { "warn", PRINT_COLOUR_WARN },
	[DOCTOR_FAIL] = { "fail", PRINT_COLOUR_BAD },
	[DOCTOR_SKIP] = { "skip", PRINT_COLOUR_NONE },
};

void doctor_find(struct finding *finding, enum doctor_status status, const char *fix,
		 const char *format, ...)
{
	va_list args;

	finding->status = status;
	snprintf(finding->fix, sizeof(finding->fix), "%s", fix ? fix : "");
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}

void doctor_path(const struct doctor *doctor, char *path, size_t len, const char *format, ...)
{
	size_t used = snprintf(path, len, "%s", doctor->root);
	va_list args;

	if (used >= len)
		return;
	va_start(args, format);
	vsnprintf(path + used, len - used, format, args);
	va_end(args);
}

int doctor_read(const char *path, char *buf, size_t len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -errno;
	ret = read(fd, buf, len - 1);
	if (ret < 0)
		ret = -errno;
	else
		buf[ret] = '\0';
	close(fd);
	return ret;
}

bool doctor_module_loaded(const struct doctor *doctor)
{
	char path[256];

	doctor_path(doctor, path, sizeof(path), "/sys/module/distmind");
	return !access(path, F_OK);
}

static bool may_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return false;
	return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

int doctor_command(struct ctl *ctl, int argc, char **argv)
{
	struct doctor doctor = { .root = "", .memlock = UINT64_MAX, .may_lock = may_lock() };
	unsigned int count[] = { 0, 0, 0, 0 };
	const struct check *check;
	struct finding finding;
	struct utsname uts;
	struct rlimit limit;
	struct print print;
	char silence[DISTMIND_SERVICE_REASON_LEN];
	json_t *status, *models;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	status = status_ask(silence);
	doctor.status = status;
	doctor.silence = silence;
	models = status ? status_ask_models() : NULL;
	doctor.models = models;
	uname(&uts);
	doctor.release = uts.release;
	if (!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		doctor.memlock = limit.rlim_cur;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "checks", PRINT_PLAIN);
	for (check = doctor_checks; check->name; check++) {
		check->look(&doctor, &finding);
		count[finding.status]++;
		print_row_open(&print);
		print_state(&print, "status", "STATUS", statuses[finding.status].name,
			    statuses[finding.status].colour);
		print_text(&print, "check", "CHECK", check->name);
		print_text(&print, "finding", "FINDING", finding.text);
		print_note(&print, "fix", finding.fix);
		print_row_close(&print);
	}
	print_list_close(&print);
	json_decref(status);
	json_decref(models);
	ret = ctl_print_close(ctl, &print);
	if (!ctl->json)
		fprintf(ctl->out, "\n%u ok, %u warn, %u fail, %u skip\n", count[DOCTOR_OK],
			count[DOCTOR_WARN], count[DOCTOR_FAIL], count[DOCTOR_SKIP]);
	return count[DOCTOR_FAIL] ? CTL_FAILED : ret;
}
