/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What distmindd says of its part of the memory pool, and what is to be said of that. */
#ifndef DISTMINDCTL_STATUS_H
#define DISTMINDCTL_STATUS_H

#include "ctl.h"
#include "doctor.h"

#include <jansson.h>

/* The answer, to be put; NULL: there is none, and why: room for DISTMIND_SERVICE_REASON_LEN. */
json_t *status_ask(char *reason);
/* The models and hosts that it lists, to be put; NULL: it does not. */
json_t *status_ask_models(void);

/* Of an answer. */
void status_judge_catalog(const json_t *status, struct finding *finding);
void status_judge_spool(const json_t *status, struct finding *finding);
/* devices: how many of them are active. */
void status_judge_rdma(const json_t *status, unsigned int devices, struct finding *finding);

/* Says on stderr what is wrong with the catalog, and the fix. False: it does not answer. */
bool status_warn(struct ctl *ctl, const json_t *status);
/* The same, for who asks distmindd for nothing else; without distmindd, nothing. */
void status_ask_and_warn(struct ctl *ctl);

#endif /* DISTMINDCTL_STATUS_H */
