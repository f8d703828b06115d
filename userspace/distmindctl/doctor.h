/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is this host fit for DistMind? A check per question, each with its fix. */
#ifndef DISTMINDCTL_DOCTOR_H
#define DISTMINDCTL_DOCTOR_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum doctor_status {
	DOCTOR_OK,
	DOCTOR_WARN,	/* works, but not all of it */
	DOCTOR_FAIL,	/* does not work */
	DOCTOR_SKIP,	/* cannot be told before another fix */
};

/* The host that is looked at. Tests fabricate one. */
struct doctor {
	const char *root;	/* what paths begin with; "" for this host */
	const char *release;	/* the kernel's, as uname -r says */
	uint64_t memlock;	/* bytes; UINT64_MAX for no limit */
	bool may_lock;		/* CAP_IPC_LOCK: the limit does not count */
	const json_t *status;	/* what distmindd says; NULL: nothing, and why */
	const char *silence;
	const json_t *models;	/* what it lists, with the hosts; NULL: nothing */
};

struct finding {
	enum doctor_status status;
	char text[512];
	char fix[512];		/* empty if nothing is to be done */
};

struct check {
	const char *name;
	void (*look)(const struct doctor *doctor, struct finding *finding);
};

extern const struct check doctor_checks[];	/* ends with a NULL name */

/* What a check found; text and fix are formats. */
void doctor_find(struct finding *finding, enum doctor_status status, const char *fix,
		 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The path on the host that is looked at. */
void doctor_path(const struct doctor *doctor, char *path, size_t len, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* The first bytes of a file, NUL-terminated. Their number, or a negative errno. */
int doctor_read(const char *path, char *buf, size_t len);
bool doctor_module_loaded(const struct doctor *doctor);
/* The module's file for this kernel. False: it is not installed. */
bool doctor_module_file(const struct doctor *doctor, char *path, size_t len);

/* doctor_host.c: the kernel and the machine */
void doctor_check_kernel(const struct doctor *doctor, struct finding *finding);
void doctor_check_secure_boot(const struct doctor *doctor, struct finding *finding);
void doctor_check_rdma(const struct doctor *doctor, struct finding *finding);
void doctor_check_memlock(const struct doctor *doctor, struct finding *finding);
void doctor_check_cgroup(const struct doctor *doctor, struct finding *finding);
void doctor_check_hugepages(const struct doctor *doctor, struct finding *finding);

/* doctor_pool.c: DistMind's own parts */
void doctor_check_module(const struct doctor *doctor, struct finding *finding);
void doctor_check_abi(const struct doctor *doctor, struct finding *finding);
void doctor_check_nodes(const struct doctor *doctor, struct finding *finding);
void doctor_check_daemon(const struct doctor *doctor, struct finding *finding);
void doctor_check_catalog(const struct doctor *doctor, struct finding *finding);
void doctor_check_spool(const struct doctor *doctor, struct finding *finding);
void doctor_check_gpus(const struct doctor *doctor, struct finding *finding);

/* doctor_models.c */
void doctor_check_models(const struct doctor *doctor, struct finding *finding);

#endif /* DISTMINDCTL_DOCTOR_H */
