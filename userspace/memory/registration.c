// SPDX-License-Identifier: GPL-2.0-or-later
#include "registration.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct ibv_mr *register_dmabuf(struct memory_fabric *fabric, void *address,
				      uint64_t length, int fd)
{
	struct ibv_mr *mr;

	if (fd < 0 || fabric->no_dmabuf)
		return NULL;
	mr = ibv_reg_dmabuf_mr(fabric->pd, 0, length, (uintptr_t)address, fd,
			       IBV_ACCESS_LOCAL_WRITE);
	if (!mr && (errno == EOPNOTSUPP || errno == ENOSYS))
		fabric->no_dmabuf = true;
	return mr;
}

int memory_registration_make(struct memory_registration *registration,
			     struct memory_fabric *fabric, void *address, uint64_t length,
			     int dmabuf_fd, char reason[MEMORY_REASON_LEN])
{
	struct ibv_mr *mr = register_dmabuf(fabric, address, length, dmabuf_fd);
	bool dmabuf = mr;
	int err;

	if (!mr)
		mr = ibv_reg_mr(fabric->pd, address, length, IBV_ACCESS_LOCAL_WRITE);
	if (!mr) {
		err = -errno;
		snprintf(reason, MEMORY_REASON_LEN, "cannot register %llu bytes: %s%s",
			 (unsigned long long)length, strerror(-err),
			 err == -ENOMEM ? "; is RLIMIT_MEMLOCK large enough?" : "");
		return err;
	}
	*registration = (struct memory_registration){
		.mr = mr, .lkey = mr->lkey, .dmabuf = dmabuf,
	};
	return 0;
}

void memory_registration_unmake(struct memory_registration *registration)
{
	if (registration->mr)
		ibv_dereg_mr(registration->mr);
	*registration = (struct memory_registration){ 0 };
}

void memory_registration_adopt(struct memory_registration *registration,
			       struct memory_fabric *fabric)
{
	if (!registration->mr)
		return;
	registration->owned = true;
	LIST_INSERT_HEAD(&fabric->registrations, registration, link);
}

void memory_registration_let_go(struct memory_registration *registration)
{
	if (registration->owned)
		LIST_REMOVE(registration, link);
	registration->owned = false;
}

int memory_registration_begin(struct memory_registration *registration,
			      struct memory_fabric *fabric, void *address, uint64_t length,
			      int dmabuf_fd, char reason[MEMORY_REASON_LEN])
{
	int err = memory_registration_make(registration, fabric, address, length, dmabuf_fd,
					   reason);

	if (!err)
		memory_registration_adopt(registration, fabric);
	return err;
}

void memory_registration_move(struct memory_registration *from, struct memory_registration *to)
{
	*to = *from;
	if (from->owned) {
		LIST_INSERT_BEFORE(from, to, link);
		LIST_REMOVE(from, link);
	}
	*from = (struct memory_registration){ 0 };
}

void memory_registration_end(struct memory_registration *registration)
{
	memory_registration_let_go(registration);
	memory_registration_unmake(registration);
}
