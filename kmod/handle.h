/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _DISTMIND_HANDLE_H
#define _DISTMIND_HANDLE_H

#include <linux/types.h>

struct distmind_buffer;
struct distmind_client;
struct distmind_payment;

/* What a handle can stand for; each has a row in handle.c. */
enum distmind_handle_type {
	DISTMIND_HANDLE_BUFFER,
	DISTMIND_HANDLE_QUEUE,
	DISTMIND_HANDLE_TIMELINE,
	DISTMIND_HANDLE__COUNT
};

int distmind_handle_add(struct distmind_client *client, enum distmind_handle_type type,
			void *object, bool writable, u32 *number);
int distmind_handle_add_import(struct distmind_client *client, struct distmind_buffer *buffer,
			       struct distmind_payment *payment, bool writable, u32 *number);
struct distmind_buffer *distmind_handle_get_buffer(struct distmind_client *client,
						   unsigned long number, bool *writable,
						   struct distmind_payment **payment);
void *distmind_handle_get(struct distmind_client *client, enum distmind_handle_type type,
			  unsigned long number, bool *writable);
int distmind_handle_destroy(struct distmind_client *client, enum distmind_handle_type type,
			    u32 number);
bool distmind_handle_drop_one(struct distmind_client *client);
void distmind_handle_for_each(struct distmind_client *client, enum distmind_handle_type type,
			      void (*show)(void *object, void *arg), void *arg);

#endif /* _DISTMIND_HANDLE_H */
