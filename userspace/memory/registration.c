// SPDX-License-Identifier: GPL-2.0-or-later
#include "registration.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_registration_entry {
	uint64_t key;
	void *address;
	uint64_t length;
	struct ibv_mr *mr;
	bool dmabuf, dropped;
	uint32_t users;
	struct memory_registration_entry *next; /* the most recently used one is the first */
};

struct memory_registrations {
	struct ibv_pd *pd;
	struct memory_registration_entry *entries;
	uint64_t idle, idle_max;
	bool no_dmabuf; /* the device has said so */
};

struct memory_registrations *memory_registrations_create(struct memory_fabric *fabric,
							 uint64_t idle_bytes)
{
	struct memory_registrations *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->pd = fabric->pd;
	cache->idle_max = idle_bytes;
	return cache;
}

static void entry_free(struct memory_registration_entry *entry)
{
	ibv_dereg_mr(entry->mr);
	free(entry);
}

static void unlink_entry(struct memory_registrations *cache,
			 struct memory_registration_entry *entry)
{
	struct memory_registration_entry **at;

	for (at = &cache->entries; *at != entry; at = &(*at)->next)
		;
	*at = entry->next;
}

/* From the end: what has not been used for longest. */
static void shrink(struct memory_registrations *cache)
{
	struct memory_registration_entry *entry, *oldest;

	while (cache->idle > cache->idle_max) {
		oldest = NULL;
		for (entry = cache->entries; entry; entry = entry->next)
			if (!entry->users)
				oldest = entry;
		unlink_entry(cache, oldest);
		cache->idle -= oldest->length;
		entry_free(oldest);
	}
}

void memory_registrations_destroy(struct memory_registrations *cache)
{
	if (!cache)
		return;
	cache->idle_max = 0;
	shrink(cache);
	free(cache);
}

static struct ibv_mr *register_dmabuf(struct memory_registrations *cache, void *address,
				      uint64_t length, int fd)
{
	struct ibv_mr *mr;

	if (fd < 0 || cache->no_dmabuf)
		return NULL;
	mr = ibv_reg_dmabuf_mr(cache->pd, 0, length, (uintptr_t)address, fd,
			       IBV_ACCESS_LOCAL_WRITE);
	if (!mr && (errno == EOPNOTSUPP || errno == ENOSYS))
		cache->no_dmabuf = true;
	return mr;
}

static int entry_create(struct memory_registrations *cache, uint64_t key, void *address,
			uint64_t length, int dmabuf_fd, struct memory_registration_entry **result,
			char *reason)
{
	struct memory_registration_entry *entry = calloc(1, sizeof(*entry));
	int err;

	if (!entry) {
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	entry->key = key;
	entry->address = address;
	entry->length = length;
	entry->mr = register_dmabuf(cache, address, length, dmabuf_fd);
	entry->dmabuf = entry->mr;
	if (!entry->mr)
		entry->mr = ibv_reg_mr(cache->pd, address, length, IBV_ACCESS_LOCAL_WRITE);
	if (!entry->mr) {
		err = -errno;
		snprintf(reason, MEMORY_REASON_LEN, "cannot register %llu bytes: %s%s",
			 (unsigned long long)length, strerror(-err),
			 err == -ENOMEM ? "; is RLIMIT_MEMLOCK large enough?" : "");
		free(entry);
		return err;
	}
	entry->next = cache->entries;
	cache->entries = entry;
	*result = entry;
	return 0;
}

static struct memory_registration_entry *find(struct memory_registrations *cache, uint64_t key,
					      void *address, uint64_t length)
{
	struct memory_registration_entry *entry;

	for (entry = cache->entries; entry; entry = entry->next)
		if (!entry->dropped && entry->key == key && entry->address == address &&
		    entry->length == length)
			return entry;
	return NULL;
}

int memory_registration_get(struct memory_registrations *cache, uint64_t key, void *address,
			    uint64_t length, int dmabuf_fd, struct memory_registration *result,
			    char reason[MEMORY_REASON_LEN])
{
	struct memory_registration_entry *entry = find(cache, key, address, length);
	int err;

	if (entry) {
		if (!entry->users)
			cache->idle -= entry->length;
		unlink_entry(cache, entry);
		entry->next = cache->entries;
		cache->entries = entry;
	} else {
		err = entry_create(cache, key, address, length, dmabuf_fd, &entry, reason);
		if (err)
			return err;
	}
	entry->users++;
	*result = (struct memory_registration){
		.lkey = entry->mr->lkey, .dmabuf = entry->dmabuf, .entry = entry,
	};
	return 0;
}

void memory_registration_put(struct memory_registrations *cache,
			     struct memory_registration *registration)
{
	struct memory_registration_entry *entry = registration->entry;

	registration->entry = NULL;
	if (--entry->users)
		return;
	if (entry->dropped) {
		unlink_entry(cache, entry);
		entry_free(entry);
		return;
	}
	cache->idle += entry->length;
	shrink(cache);
}

void memory_registration_drop(struct memory_registrations *cache, uint64_t key)
{
	struct memory_registration_entry **at = &cache->entries, *entry;

	while ((entry = *at)) {
		if (entry->key != key) {
			at = &entry->next;
		} else if (entry->users) {
			entry->dropped = true;
			at = &entry->next;
		} else {
			*at = entry->next;
			cache->idle -= entry->length;
			entry_free(entry);
		}
	}
}

uint64_t memory_registrations_idle(const struct memory_registrations *cache)
{
	return cache->idle;
}
