/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the verbs of "model" and "host" share: how distmindd is asked, how far something is. */
#ifndef DISTMINDCTL_MODEL_H
#define DISTMINDCTL_MODEL_H

#include "../libdistmind/service.h"
#include "ctl.h"

int model_push(struct ctl *ctl, int argc, char **argv);
int model_show(struct ctl *ctl, int argc, char **argv);

/* Is word a name that a model can have? An exit code. */
int model_name_check(struct ctl *ctl, const char *word);

/*
 * Ask distmindd; the connection is made by the first call and closed by its owner. An
 * exit code, and the reason on stderr after "cannot" and doing, such as "push mlp".
 */
int model_ask(struct ctl *ctl, struct distmind_service *service,
	      const struct distmind_service_request *request,
	      struct message *reply, const char *doing);
/* The same for a part of the reply that is not what it should be. */
int model_fail(struct ctl *ctl, const struct distmind_service *service, int error,
	       const char *doing);

/* Ask for all models and hosts, and print what is wanted of them. An exit code. */
int model_ask_list(struct ctl *ctl, const char *doing,
		   int (*print)(struct ctl *ctl, const json_t *document));

/* Of a row: whose a model is, and who else may do what. */
void model_print_access(struct print *print, uint32_t uid, uint32_t gid, unsigned int mode);
int model_mode_parse(struct ctl *ctl, const char *word, uint32_t *mode);

struct model_owner {
	uint32_t uid, gid;
	bool has_uid, has_gid; /* what is not named stays as it is */
};

int model_owner_parse(struct ctl *ctl, const char *word, struct model_owner *owner);
/* To a request. -ENOMEM. */
int model_owner_add(json_t *body, const struct model_owner *owner);

/* A row of a list of hosts. */
void host_print(struct print *print, const json_t *host);

/*
 * How far a part of the work is: a bar on a terminal, else a line now and then,
 * and nothing for JSON. All on stderr.
 */
struct model_progress {
	struct ctl *ctl;
	const char *what;
	uint64_t last_ns;
	int percent; /* that is on the terminal, or -1 */
};

void model_progress_begin(struct model_progress *progress, struct ctl *ctl, const char *what);
/* Fits struct distmind_service_request. */
void model_progress_show(uint64_t done, uint64_t total, void *progress);
void model_progress_end(struct model_progress *progress);

#endif /* DISTMINDCTL_MODEL_H */
