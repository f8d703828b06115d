// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks of the kernel and the machine. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/size.h"
#include "doctor.h"
#include "status.h"

#define SECURE_BOOT_VARIABLE                                                                       \
	"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

void doctor_check_kernel(const struct doctor *doctor, struct finding *finding)
{
	unsigned int major = 0, minor = 0;

	sscanf(doctor->release, "%u.%u", &major, &minor);
	if (major > 6 || (major == 6 && minor >= 1))
		doctor_find(finding, DOCTOR_OK, NULL, "%s", doctor->release);
	else
		doctor_find(
			finding, DOCTOR_FAIL,
			"install a kernel from 6.1 on (Debian 12: linux-image-amd64) and reboot",
			"%s is older than 6.1", doctor->release);
}

/* The word in brackets, as of "none [integrity] confidentiality". */
static bool locked_down(const struct doctor *doctor)
{
	char path[256], text[128];

	doctor_path(doctor, path, sizeof(path), "/sys/kernel/security/lockdown");
	return doctor_read(path, text, sizeof(text)) > 0 && strchr(text, '[') &&
	       !strstr(text, "[none]");
}

/* A signature is at the end of the file; inside a compressed one it cannot be seen. */
static bool unsigned_module(const struct doctor *doctor)
{
	static const char magic[] = "~Module signature appended~\n";
	char path[512], end[sizeof(magic)] = "";
	bool is_unsigned = false;
	size_t len;
	FILE *file;

	if (!doctor_module_file(doctor, path, sizeof(path)))
		return false;
	len = strlen(path);
	if (len < 3 || strcmp(path + len - 3, ".ko"))
		return false;
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fseek(file, -(long)strlen(magic), SEEK_END) &&
	    fread(end, 1, strlen(magic), file) == strlen(magic))
		is_unsigned = strcmp(end, magic) != 0;
	fclose(file);
	return is_unsigned;
}

void doctor_check_secure_boot(const struct doctor *doctor, struct finding *finding)
{
	char path[256], text[16];
	const char *what;
	bool enabled;

	doctor_path(doctor, path, sizeof(path), SECURE_BOOT_VARIABLE);
	/* Four bytes of attributes come before the variable's one. */
	enabled = doctor_read(path, text, sizeof(text)) >= 5 && text[4] == 1;
	if (!enabled && !locked_down(doctor)) {
		doctor_find(finding, DOCTOR_OK, NULL, "off: modules need no signature");
		return;
	}
	what = enabled ? "Secure Boot is on" : "the kernel is locked down";
	if (doctor_module_loaded(doctor))
		doctor_find(finding, DOCTOR_OK, NULL, "%s, and the module is loaded", what);
	else if (unsigned_module(doctor))
		doctor_find(finding, DOCTOR_FAIL,
			    "make dkms (DKMS signs what it builds), then: "
			    "mokutil --import /var/lib/dkms/mok.pub, reboot and enroll the key",
			    "%s, and the module has no signature", what);
	else
		doctor_find(
			finding, DOCTOR_WARN,
			"mokutil --import /var/lib/dkms/mok.pub, then reboot and enroll the key",
			"%s: only modules signed with an enrolled key load", what);
}

static bool port_active(const struct doctor *doctor, const char *device, const char *port)
{
	char path[512], text[32];

	doctor_path(doctor, path, sizeof(path), "/sys/class/infiniband/%s/ports/%s/state", device,
		    port);
	return doctor_read(path, text, sizeof(text)) > 0 && atoi(text) == 4;
}

static bool device_active(const struct doctor *doctor, const char *device)
{
	const struct dirent *entry;
	bool active = false;
	char path[512];
	DIR *dir;

	doctor_path(doctor, path, sizeof(path), "/sys/class/infiniband/%s/ports", device);
	dir = opendir(path);
	if (!dir)
		return false;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			active |= port_active(doctor, device, entry->d_name);
	}
	closedir(dir);
	return active;
}

void doctor_check_rdma(const struct doctor *doctor, struct finding *finding)
{
	unsigned int devices = 0, active = 0;
	char path[256], down[64] = "";
	const struct dirent *entry;
	DIR *dir;

	doctor_path(doctor, path, sizeof(path), "/sys/class/infiniband");
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		devices++;
		if (device_active(doctor, entry->d_name))
			active++;
		else
			snprintf(down, sizeof(down), "%.63s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (!devices)
		doctor_find(finding, DOCTOR_WARN,
			    "install the NIC's driver, or use soft-RoCE: modprobe rdma_rxe && "
			    "rdma link add rxe0 type rxe netdev DEVICE",
			    "no RDMA device: other hosts cannot be reached");
	else if (!active)
		doctor_find(finding, DOCTOR_WARN,
			    "see: rdma link; set its network device up: ip link set DEVICE up",
			    "no port of %s is active", down);
	else if (active < devices)
		doctor_find(finding, DOCTOR_WARN,
			    "see: rdma link; set its network device up: ip link set DEVICE up",
			    "%u of %u devices active, %s is not", active, devices, down);
	else if (doctor->status)
		status_judge_rdma(doctor->status, devices, finding);
	else
		doctor_find(finding, DOCTOR_OK, NULL, "%u device%s active", devices,
			    devices == 1 ? "" : "s");
}

void doctor_check_memlock(const struct doctor *doctor, struct finding *finding)
{
	char text[SIZE_TEXT_LEN];

	if (doctor->memlock == UINT64_MAX) {
		doctor_find(finding, DOCTOR_OK, NULL, "no limit");
		return;
	}
	size_format(doctor->memlock, text, sizeof(text));
	if (doctor->may_lock)
		doctor_find(finding, DOCTOR_OK, NULL,
			    "limit %s, which does not bind this user (CAP_IPC_LOCK)", text);
	else
		doctor_find(
			finding, DOCTOR_WARN,
			"echo '* - memlock unlimited' >/etc/security/limits.d/distmind.conf and "
			"log in again; in a systemd unit: LimitMEMLOCK=infinity",
			"limit %s: buffers beyond it cannot be registered for RDMA", text);
}

void doctor_check_cgroup(const struct doctor *doctor, struct finding *finding)
{
	char path[256], text[256];
	char *word, *state;

	doctor_path(doctor, path, sizeof(path), "/sys/fs/cgroup/cgroup.controllers");
	if (doctor_read(path, text, sizeof(text)) < 0) {
		doctor_find(
			finding, DOCTOR_WARN,
			"boot with systemd.unified_cgroup_hierarchy=1 on the kernel command line",
			"no cgroup v2: memory is charged to nobody's limit");
		return;
	}
	for (word = strtok_r(text, " \n", &state); word; word = strtok_r(NULL, " \n", &state)) {
		if (!strcmp(word, "memory")) {
			doctor_find(finding, DOCTOR_OK, NULL, "v2 with the memory controller");
			return;
		}
	}
	doctor_find(finding, DOCTOR_WARN,
		    "boot with cgroup_enable=memory on the kernel command line",
		    "v2 without the memory controller: memory is charged to nobody's limit");
}

void doctor_check_hugepages(const struct doctor *doctor, struct finding *finding)
{
	char path[256], text[4096];
	unsigned int pages = 0;
	const char *line;

	doctor_path(doctor, path, sizeof(path), "/proc/meminfo");
	if (doctor_read(path, text, sizeof(text)) > 0) {
		line = strstr(text, "HugePages_Total:");
		if (line)
			sscanf(line, "HugePages_Total: %u", &pages);
	}
	/* Nothing needs them; they save address translations of a NIC. */
	if (pages)
		doctor_find(finding, DOCTOR_OK, NULL, "%u reserved", pages);
	else
		doctor_find(finding, DOCTOR_OK, NULL, "none reserved; they are optional");
}
