// SPDX-License-Identifier: GPL-2.0-only
/*
 * Handles: the numbers by which an open file of a vgpu names its buffers, queues and
 * timelines. All types share one table, so a number means one thing.
 *
 * The lock of the client's xarray guards the table, and nothing sleeps under it. A
 * handle holds a reference to its object, which leaves the table with it; who looks
 * one up gets a reference of its own, so it works on, whoever destroys the handle. What
 * a handle of a buffer holds beside it is who pays for that, see payment.c.
 *
 * When a vgpu is dead nobody finds a handle any more, and they are taken away by and by,
 * see distmind_client_drop_handles(). A handle that is added at the same moment is either
 * found by that, or finds out itself that the vgpu is dead: that is looked at again after
 * the handle is in the table.
 */
#include <linux/err.h>
#include <linux/slab.h>

#include "account.h"
#include "buffer.h"
#include "client.h"
#include "handle.h"
#include "payment.h"
#include "queue.h"
#include "timeline.h"
#include "vgpu.h"

/* A map offset is a handle and an offset into its buffer, below those of queues. */
#define HANDLE_MAX	((DISTMIND_QUEUE_MAP_OFFSET >> DISTMIND_BUFFER_MAX_SHIFT) - 1)

/* Of a queue: it goes before what its jobs hold. */
#define FIRST_TO_GO	XA_MARK_1

/**
 * struct handle - what a number stands for
 * @type: of @object
 * @writable: a buffer may be written, a timeline be signalled
 * @object: held
 * @payment: of a buffer that somebody else pays for; held
 */
struct handle {
	enum distmind_handle_type type;
	bool writable;
	void *object;
	struct distmind_payment *payment;
};

static void buffer_hold(void *object)
{
	distmind_buffer_get(object);
}

static void buffer_drop(void *object, bool writable)
{
	distmind_buffer_put(object);
}

static void queue_hold(void *object)
{
	distmind_queue_get(object);
}

/* A queue ends with its handle. */
static void queue_drop(void *object, bool writable)
{
	distmind_queue_end(object, -ECANCELED);
	distmind_queue_put(object);
}

static void timeline_hold(void *object)
{
	distmind_timeline_get(object);
}

static void timeline_drop(void *object, bool writable)
{
	if (writable)
		distmind_timeline_writer_put(object);
	distmind_timeline_put(object);
}

static const struct {
	void (*hold)(void *object);
	/* With the handle's reference, without a lock. */
	void (*drop)(void *object, bool writable);
} types[DISTMIND_HANDLE__COUNT] = {
	[DISTMIND_HANDLE_BUFFER] = { buffer_hold, buffer_drop },
	[DISTMIND_HANDLE_QUEUE] = { queue_hold, queue_drop },
	[DISTMIND_HANDLE_TIMELINE] = { timeline_hold, timeline_drop },
};

static void handle_drop(struct distmind_client *client, struct handle *handle)
{
	distmind_payment_put(handle->payment);
	types[handle->type].drop(handle->object, handle->writable);
	kfree(handle);
	distmind_account_uncharge(client->account, DISTMIND_LIMIT_HANDLE, 1);
}

/* Why there is no such handle. */
static int missing(const struct distmind_client *client)
{
	return READ_ONCE(client->vgpu->dead) ? -ENODEV : -ENOENT;
}

/* Under the table's lock; NULL: there is none of that type, or there are none any more. */
static struct handle *handle_find(struct distmind_client *client, enum distmind_handle_type type,
				  unsigned long number)
{
	struct handle *handle = xa_load(&client->handles, number);

	if (!handle || handle->type != type || READ_ONCE(client->vgpu->dead))
		return NULL;
	return handle;
}

static int handle_add(struct distmind_client *client, enum distmind_handle_type type,
		      void *object, bool writable, struct distmind_payment *payment, u32 *number)
{
	struct handle *handle;
	int err;

	err = distmind_account_charge(client->account, DISTMIND_LIMIT_HANDLE, 1);
	if (err)
		goto err_drop;
	handle = kmalloc(sizeof(*handle), GFP_KERNEL_ACCOUNT);
	if (!handle) {
		err = -ENOMEM;
		goto err_uncharge;
	}
	handle->type = type;
	handle->writable = writable;
	handle->object = object;
	handle->payment = payment;
	xa_lock(&client->handles);
	/* This lets go of the lock if it has to sleep. */
	err = __xa_alloc(&client->handles, number, handle, XA_LIMIT(1, HANDLE_MAX),
			 GFP_KERNEL_ACCOUNT);
	if (!err && READ_ONCE(client->vgpu->dead)) {
		__xa_erase(&client->handles, *number);
		err = -ENODEV;
	}
	if (!err && type == DISTMIND_HANDLE_QUEUE)
		__xa_set_mark(&client->handles, *number, FIRST_TO_GO);
	xa_unlock(&client->handles);
	if (err)
		handle_drop(client, handle);
	return err == -EBUSY ? -ENOSPC : err;

err_uncharge:
	distmind_account_uncharge(client->account, DISTMIND_LIMIT_HANDLE, 1);
err_drop:
	distmind_payment_put(payment);
	types[type].drop(object, writable);
	return err;
}

/* Takes over the reference to @object, and the right to write, also if it fails. */
int distmind_handle_add(struct distmind_client *client, enum distmind_handle_type type,
			void *object, bool writable, u32 *number)
{
	return handle_add(client, type, object, writable, NULL, number);
}

/* The same, of a buffer that was imported; takes over @payment, too, which may be NULL. */
int distmind_handle_add_import(struct distmind_client *client, struct distmind_buffer *buffer,
			       struct distmind_payment *payment, bool writable, u32 *number)
{
	return handle_add(client, DISTMIND_HANDLE_BUFFER, buffer, writable, payment, number);
}

/* The object, with a reference, or why there is none. */
void *distmind_handle_get(struct distmind_client *client, enum distmind_handle_type type,
			  unsigned long number, bool *writable)
{
	struct handle *handle;
	void *object;

	xa_lock(&client->handles);
	handle = handle_find(client, type, number);
	if (handle) {
		object = handle->object;
		types[type].hold(object);
		if (writable)
			*writable = handle->writable;
	} else {
		object = ERR_PTR(missing(client));
	}
	xa_unlock(&client->handles);
	return object;
}

/* The same of a buffer, with a reference to who pays for it, or NULL. */
struct distmind_buffer *distmind_handle_get_buffer(struct distmind_client *client,
						   unsigned long number, bool *writable,
						   struct distmind_payment **payment)
{
	struct distmind_buffer *buffer;
	struct handle *handle;

	xa_lock(&client->handles);
	handle = handle_find(client, DISTMIND_HANDLE_BUFFER, number);
	if (handle) {
		buffer = handle->object;
		distmind_buffer_get(buffer);
		*payment = distmind_payment_get(handle->payment);
		*writable = handle->writable;
	} else {
		buffer = ERR_PTR(missing(client));
	}
	xa_unlock(&client->handles);
	return buffer;
}

int distmind_handle_destroy(struct distmind_client *client, enum distmind_handle_type type,
			    u32 number)
{
	struct handle *handle;

	xa_lock(&client->handles);
	handle = handle_find(client, type, number);
	if (handle)
		__xa_erase(&client->handles, number);
	xa_unlock(&client->handles);
	if (!handle)
		return missing(client);
	handle_drop(client, handle);
	return 0;
}

/* Returns false if there was none left. */
bool distmind_handle_drop_one(struct distmind_client *client)
{
	unsigned long number = 0;
	struct handle *handle;

	xa_lock(&client->handles);
	handle = xa_find(&client->handles, &number, ULONG_MAX, FIRST_TO_GO);
	if (!handle)
		handle = xa_find(&client->handles, &number, ULONG_MAX, XA_PRESENT);
	if (handle)
		__xa_erase(&client->handles, number);
	xa_unlock(&client->handles);
	if (!handle)
		return false;
	handle_drop(client, handle);
	return true;
}

/* Others get the table's lock after each. */
void distmind_handle_for_each(struct distmind_client *client, enum distmind_handle_type type,
			      void (*show)(void *object, void *arg), void *arg)
{
	unsigned long number = 0;
	struct handle *handle;

	for (;; number++) {
		xa_lock(&client->handles);
		handle = xa_find(&client->handles, &number, ULONG_MAX, XA_PRESENT);
		if (handle && handle->type == type)
			show(handle->object, arg);
		xa_unlock(&client->handles);
		if (!handle)
			return;
		cond_resched();
	}
}
