/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What people write, and the numbers that it stands for. */
#ifndef DISTMINDCTL_PARSE_H
#define DISTMINDCTL_PARSE_H

#include <stddef.h>
#include <stdint.h>

#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC  1000000000ULL

/* "10ms", "1.5s", "2min"; the unit is needed. -EINVAL, -ERANGE. */
int duration_parse(const char *text, uint64_t *ns);
void duration_format(uint64_t ns, char *buf, size_t len);

/* Percent of a gpu, "50", "50%" or "12.5", as thousandths. -EINVAL, -ERANGE. */
int share_parse(const char *text, uint32_t *thousandths);
void share_format(uint32_t thousandths, char *buf, size_t len);

/* A decimal number from min to max. -EINVAL, -ERANGE. */
int number_parse(const char *text, uint32_t min, uint32_t max, uint32_t *number);

/* A label as the kernel takes it: [A-Za-z0-9._-], fits DISTMIND_NAME_LEN. */
int label_check(const char *text);

/* A user or group by name or number. -ENOENT: there is none of that name. */
int user_parse(const char *text, uint32_t *uid);
int group_parse(const char *text, uint32_t *gid);

#endif /* DISTMINDCTL_PARSE_H */
