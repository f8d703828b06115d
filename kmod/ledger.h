/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_LEDGER_H
#define _DISTMIND_LEDGER_H

enum distmind_object {
	DISTMIND_OBJECT_GPU,
	DISTMIND_OBJECT_VGPU,
	DISTMIND_OBJECT_BUFFER,
	DISTMIND_OBJECT_CLAIM,
	DISTMIND_OBJECT_TIMELINE,
	DISTMIND_OBJECT_QUEUE,
	DISTMIND_OBJECT_JOB,
	DISTMIND_OBJECT_REQUEST,
	DISTMIND_OBJECT_PAYMENT,
	DISTMIND_OBJECT__COUNT
};

void distmind_ledger_created(enum distmind_object object);
void distmind_ledger_destroyed(enum distmind_object object);

void distmind_ledger_init(void);
void distmind_ledger_exit(void);

#endif /* _DISTMIND_LEDGER_H */
