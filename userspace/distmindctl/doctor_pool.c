// SPDX-License-Identifier: GPL-2.0-or-later
/* Checks of DistMind's own parts. */
#include <distmind.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor.h"
#include "status.h"

#define DAEMON_LOCK "/run/distmind/distmindd.lock"
#define NODE_DIR    "/dev/distmind"

#define SKIP_FOR_MODULE "cannot be told while the module is not loaded"

/* As "updates/dkms/distmind.ko.xz: ..." of modules.dep names it. */
bool doctor_module_file(const struct doctor *doctor, char *path, size_t len)
{
	size_t room = 0;
	bool found = false;
	char *line = NULL;
	char *name;
	FILE *file;

	doctor_path(doctor, path, len, "/lib/modules/%s/modules.dep", doctor->release);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (!found && getline(&line, &room, file) >= 0) {
		line[strcspn(line, ":")] = '\0';
		name = strrchr(line, '/');
		name = name ? name + 1 : line;
		found = !strncmp(name, "distmind.ko", strlen("distmind.ko"));
	}
	if (found)
		doctor_path(doctor, path, len, "/lib/modules/%s/%s", doctor->release, line);
	free(line);
	fclose(file);
	return found;
}

void doctor_check_module(const struct doctor *doctor, struct finding *finding)
{
	char path[512], text[64] = "";

	if (doctor_module_loaded(doctor)) {
		doctor_path(doctor, path, sizeof(path), "/sys/module/distmind/version");
		if (doctor_read(path, text, sizeof(text)) > 0)
			text[strcspn(text, "\n")] = '\0';
		doctor_find(finding, DOCTOR_OK, NULL, "loaded%s%s", *text ? ", version " : "",
			    text);
	} else if (doctor_module_file(doctor, path, sizeof(path))) {
		doctor_find(finding, DOCTOR_FAIL, "modprobe distmind",
			    "installed for this kernel, but not loaded");
	} else {
		doctor_find(finding, DOCTOR_FAIL,
			    "make dkms (in DistMind's source), then: modprobe distmind",
			    "not installed for kernel %s", doctor->release);
	}
}

void doctor_check_abi(const struct doctor *doctor, struct finding *finding)
{
	struct distmind_query query;
	int ret;

	if (!doctor_module_loaded(doctor)) {
		doctor_find(finding, DOCTOR_SKIP, NULL, SKIP_FOR_MODULE);
		return;
	}
	ret = distmind_query(&query);
	if (ret)
		doctor_find(finding, DOCTOR_FAIL,
			    "see the check of the nodes, and the kernel log: dmesg",
			    "the module does not answer: %s", strerror(-ret));
	else if (query.version == DISTMIND_ABI_VERSION)
		doctor_find(finding, DOCTOR_OK, NULL, "version %u on both sides", query.version);
	else
		doctor_find(
			finding, DOCTOR_WARN,
			query.version < DISTMIND_ABI_VERSION ?
				"rebuild and reload the module: make dkms, then rmmod and modprobe "
				"distmind" :
				"install the userspace of the module's version: make install",
			"module has version %u, this tool %d: each can do what both know",
			query.version, DISTMIND_ABI_VERSION);
}

void doctor_check_nodes(const struct doctor *doctor, struct finding *finding)
{
	static const struct {
		const char *name;
		mode_t mode;
		const char *fix;
	} nodes[] = {
		{ "control", 0666, "chmod 0666 " NODE_DIR "/control, and check the udev rules" },
		{ "engine", 0600, "chmod 0600 " NODE_DIR "/engine, and check the udev rules" },
	};
	struct stat status;
	char path[256];
	size_t i;

	if (!doctor_module_loaded(doctor)) {
		doctor_find(finding, DOCTOR_SKIP, NULL, SKIP_FOR_MODULE);
		return;
	}
	for (i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		doctor_path(doctor, path, sizeof(path), NODE_DIR "/%s", nodes[i].name);
		if (stat(path, &status)) {
			doctor_find(
				finding, DOCTOR_FAIL,
				"mount devtmpfs on /dev; in a container, pass the device through",
				NODE_DIR "/%s: %s", nodes[i].name, strerror(errno));
			return;
		}
		/* More than intended is a hole, less a tenant without access. */
		if ((status.st_mode & 0777) != nodes[i].mode) {
			doctor_find(finding, DOCTOR_WARN, nodes[i].fix,
				    NODE_DIR "/%s has mode %04o instead of %04o", nodes[i].name,
				    (unsigned int)status.st_mode & 0777,
				    (unsigned int)nodes[i].mode);
			return;
		}
	}
	doctor_find(finding, DOCTOR_OK, NULL, NODE_DIR "/control and engine, as they should be");
}

enum running { RUNNING, STOPPED, UNKNOWN };

/* errno says why it is not known. */
static enum running daemon_runs(const struct doctor *doctor)
{
	char path[256];
	int ret;
	int fd;

	doctor_path(doctor, path, sizeof(path), DAEMON_LOCK);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? STOPPED : UNKNOWN;
	/* The daemon holds its lock exclusively as long as it lives. */
	ret = flock(fd, LOCK_SH | LOCK_NB) ? errno : 0;
	close(fd);
	errno = ret;
	return !ret ? STOPPED : ret == EWOULDBLOCK ? RUNNING : UNKNOWN;
}

void doctor_check_daemon(const struct doctor *doctor, struct finding *finding)
{
	switch (daemon_runs(doctor)) {
	case RUNNING:
		doctor_find(finding, DOCTOR_OK, NULL, "running");
		break;
	case STOPPED:
		doctor_find(finding, DOCTOR_FAIL, "systemctl start distmindd",
			    "not running: claims for vgpus go unanswered");
		break;
	case UNKNOWN:
		doctor_find(finding, DOCTOR_SKIP, "run the doctor as root", DAEMON_LOCK ": %s",
			    strerror(errno));
		break;
	}
}

void doctor_check_catalog(const struct doctor *doctor, struct finding *finding)
{
	if (doctor->status)
		status_judge_catalog(doctor->status, finding);
	else if (daemon_runs(doctor) == RUNNING)
		doctor_find(finding, DOCTOR_FAIL,
			    "see why: journalctl -u distmindd -p warning; then: systemctl restart "
			    "distmindd. If it has another socket: DISTMIND_SOCKET names it",
			    "distmindd runs, but has no memory pool or does not answer: %s",
			    doctor->silence);
	else
		doctor_find(finding, DOCTOR_SKIP, NULL,
			    "cannot be told while distmindd is not running");
}

void doctor_check_spool(const struct doctor *doctor, struct finding *finding)
{
	if (json_object_get(doctor->status, "spool"))
		status_judge_spool(doctor->status, finding);
	else
		doctor_find(finding, DOCTOR_SKIP, NULL,
			    "cannot be told while distmindd does not answer");
}

struct gpus {
	const struct doctor *doctor;
	unsigned int all;
	unsigned int lost;
	unsigned int draining;
	unsigned int failing; /* lanes of theirs do not answer */
	unsigned int stopped; /* their engines are, which the module sees when there is a job */
	struct distmind_gpu_record last_lost;
	struct distmind_gpu_record last_draining;
	struct distmind_gpu_record last_failing;
	struct distmind_gpu_record last_stopped;
};

/* As by SIGSTOP, or in a debugger. */
static bool is_stopped(const struct doctor *doctor, uint32_t pid)
{
	char path[128], text[512];
	const char *state;

	doctor_path(doctor, path, sizeof(path), "/proc/%u/stat", pid);
	if (doctor_read(path, text, sizeof(text)) < 0)
		return false;
	/* After the name, which may have brackets too. */
	state = strrchr(text, ')');
	return state && (!strncmp(state, ") T ", 4) || !strncmp(state, ") t ", 4));
}

static int count_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct gpus *gpus = arg;

	gpus->all++;
	if (gpu->state == DISTMIND_GPU_STATE_LOST) {
		gpus->lost++;
		gpus->last_lost = *gpu;
	} else if (gpu->state == DISTMIND_GPU_STATE_DRAINING) {
		gpus->draining++;
		gpus->last_draining = *gpu;
	}
	if (gpu->state != DISTMIND_GPU_STATE_LOST && gpu->lanes_out) {
		gpus->failing++;
		gpus->last_failing = *gpu;
	}
	if (gpu->state != DISTMIND_GPU_STATE_LOST && is_stopped(gpus->doctor, gpu->engine_pid)) {
		gpus->stopped++;
		gpus->last_stopped = *gpu;
	}
	return 0;
}

static void judge_gpus(const struct gpus *gpus, struct finding *finding)
{
	char fix[128];

	if (!gpus->all) {
		doctor_find(finding, DOCTOR_WARN, "distmind-engine-cpu --memory 1G",
			    "none in the pool");
	} else if (gpus->lost) {
		snprintf(fix, sizeof(fix), "restart its engine, or: distmindctl gpu remove %u",
			 gpus->last_lost.id);
		doctor_find(finding, DOCTOR_FAIL, fix, "%u of %u lost, such as gpu %u (%s)",
			    gpus->lost, gpus->all, gpus->last_lost.id, gpus->last_lost.name);
	} else if (gpus->stopped) {
		const struct distmind_gpu_record *gpu = &gpus->last_stopped;

		snprintf(fix, sizeof(fix), "let it go on: kill -CONT %u; or restart it",
			 gpu->engine_pid);
		doctor_find(finding, DOCTOR_FAIL, fix,
			    "the engine of gpu %u (%s), process %u, is stopped: the next job loses the "
			    "gpu", gpu->id, gpu->name, gpu->engine_pid);
	} else if (gpus->failing) {
		const struct distmind_gpu_record *gpu = &gpus->last_failing;

		doctor_find(finding, DOCTOR_WARN,
			    "wait for its job or the grant's process to end, or restart its engine",
			    "%u of %u lanes of gpu %u (%s) do not answer", gpu->lanes_out,
			    gpu->compute_lanes + gpu->copy_lanes, gpu->id, gpu->name);
	} else if (gpus->draining) {
		snprintf(fix, sizeof(fix), "distmindctl gpu undrain %u", gpus->last_draining.id);
		doctor_find(finding, DOCTOR_WARN, fix, "%u of %u draining, such as gpu %u (%s)",
			    gpus->draining, gpus->all, gpus->last_draining.id,
			    gpus->last_draining.name);
	} else {
		doctor_find(finding, DOCTOR_OK, NULL, "%u ready", gpus->all);
	}
}

void doctor_check_gpus(const struct doctor *doctor, struct finding *finding)
{
	struct gpus gpus = { .doctor = doctor };
	struct distmind_pool *pool;
	int ret;

	if (!doctor_module_loaded(doctor)) {
		doctor_find(finding, DOCTOR_SKIP, NULL, SKIP_FOR_MODULE);
		return;
	}
	ret = distmind_pool_open(&pool);
	if (!ret) {
		ret = distmind_pool_gpus(pool, count_gpu, &gpus);
		distmind_pool_close(pool);
	}
	if (ret)
		doctor_find(finding, DOCTOR_FAIL, "see the kernel log: dmesg",
			    "cannot list them: %s", strerror(-ret));
	else
		judge_gpus(&gpus, finding);
}
