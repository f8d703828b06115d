/* SPDX-License-Identifier: MIT */
/*
 * Netlink attributes as records. Pure: nothing but memory is read, any bytes
 * are safe. Unknown attributes are skipped, for a newer kernel may have more.
 * -EBADMSG: an attribute has the wrong form, or the id is missing.
 */
#ifndef LIBDISTMIND_RECORD_H
#define LIBDISTMIND_RECORD_H

#include "distmind.h"

struct nlattr;

/* What they all look like; record points to a struct of the kind concerned. */
typedef int (*distmind_record_parser)(struct nlattr *head, int len, void *record);

int distmind_record_gpu(struct nlattr *head, int len, void *record);
int distmind_record_vgpu(struct nlattr *head, int len, void *record);
int distmind_record_buffer(struct nlattr *head, int len, void *record);
int distmind_record_claim(struct nlattr *head, int len, void *record);
int distmind_record_limit(struct nlattr *head, int len, void *record);
int distmind_record_preempt(struct nlattr *head, int len, void *record);

#endif
