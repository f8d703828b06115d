/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_SUBMIT_H
#define _DISTMIND_SUBMIT_H

struct file;

int distmind_submit_call(struct file *file, void *arg, void __user *user);

#endif /* _DISTMIND_SUBMIT_H */
