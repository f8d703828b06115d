// SPDX-License-Identifier: GPL-2.0-or-later
#include "loader.h"

#include "../common/clock.h"
#include "check.h"
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory_transfer {
	struct memory_load *load;
	struct memory_transfer_ops ops;
	void *arg;
	uint32_t groups_told;
	bool ended_told;
	struct memory_transfer *next;
};

struct memory_loader {
	struct memory_party party;
	struct memory_fabric *fabric;
	struct memory_loader_options options;
	struct memory_reader *reader;
	struct memory_link *links[MEMORY_DONORS_MAX]; /* NULL: removed */
	char names[MEMORY_DONORS_MAX][MEMORY_NAME_LEN];
	uint32_t donor_count;
	struct memory_transfer *transfers;
	pthread_cond_t hashed;
	bool hashing; /* work() has given up the lock */
	bool told; /* the owner knows that there is news */
	bool failed; /* the owner's; nothing begins any more */
	bool failing; /* and links are left, which go one after the other */
	char reason[MEMORY_REASON_LEN]; /* of that */
};

static struct memory_loader *loader_of(struct memory_party *party)
{
	return (struct memory_loader *)((char *)party - offsetof(struct memory_loader, party));
}

/* One at a time: the owner may want the lock meanwhile. */
static void end_link(struct memory_loader *loader, uint64_t now)
{
	for (uint32_t i = 0; i < loader->donor_count; i++) {
		if (!loader->links[i])
			continue;
		memory_link_destroy(loader->links[i]);
		loader->links[i] = NULL;
		memory_reader_link_down(loader->reader, i, loader->reason, now);
		return;
	}
	loader->failing = false;
	memory_fabric_tell(loader->fabric);
}

static uint64_t run(struct memory_party *party, uint64_t now)
{
	struct memory_loader *loader = loader_of(party);
	uint64_t next = UINT64_MAX, at;

	if (loader->failing) {
		end_link(loader, now);
		return now;
	}
	for (uint32_t i = 0; i < loader->donor_count; i++) {
		if (!loader->links[i])
			continue;
		at = memory_link_run(loader->links[i], now);
		if (at < next)
			next = at;
	}
	at = memory_reader_run(loader->reader, now);
	loader->party.urgent = memory_reader_urgent(loader->reader);
	if (!loader->told && memory_reader_has_news(loader->reader)) {
		loader->told = true;
		memory_fabric_tell(loader->fabric);
	}
	return at < next ? at : next;
}

static bool is_good(const struct memory_reader_check *check)
{
	if (check->kind == MEMORY_CHECK_DIGEST)
		return memory_digest_matches(check->data, check->length, check->digest);
	return chunk_checksum(check->data, check->length) == check->checksum;
}

/* The lock is given up meanwhile: the load stays, and nobody writes to the pieces. */
static bool work(struct memory_party *party)
{
	struct memory_loader *loader = loader_of(party);
	struct memory_reader_check checks[MEMORY_CHECKS_MAX];
	uint32_t count = memory_reader_to_check(loader->reader, checks);
	uint64_t now;

	if (!count)
		return false;
	loader->hashing = true;
	pthread_mutex_unlock(&loader->fabric->lock);
	for (uint32_t i = 0; i < count; i++)
		checks[i].good = is_good(&checks[i]);
	now = clock_ns();
	pthread_mutex_lock(&loader->fabric->lock);
	loader->hashing = false;
	pthread_cond_signal(&loader->hashed);
	for (uint32_t i = 0; i < count; i++)
		memory_reader_checked(loader->reader, &checks[i], now);
	return true;
}

static void tell_damage(struct memory_loader *loader)
{
	struct memory_reader_report report;
	bool any;

	for (;;) {
		pthread_mutex_lock(&loader->fabric->lock);
		any = memory_reader_report(loader->reader, &report);
		pthread_mutex_unlock(&loader->fabric->lock);
		if (!any)
			return;
		if (loader->options.damaged)
			loader->options.damaged(loader->options.arg, report.donor, report.digest);
	}
}

static void tell_links(struct memory_loader *loader)
{
	struct memory_reader_donor stats;
	bool changed, up;

	for (uint32_t i = 0; i < loader->donor_count; i++) {
		pthread_mutex_lock(&loader->fabric->lock);
		changed = loader->links[i] && memory_link_changed(loader->links[i], &up);
		if (changed)
			memory_reader_donor_stats(loader->reader, i, &stats);
		pthread_mutex_unlock(&loader->fabric->lock);
		if (changed && loader->options.donor_changed)
			loader->options.donor_changed(loader->options.arg, i, up,
						      up ? "" : stats.reason);
	}
}

/* No READ of it is left. */
static void drop(struct memory_loader *loader, struct memory_transfer *transfer)
{
	struct memory_transfer **at;

	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_forget(loader->reader, transfer->load);
	pthread_mutex_unlock(&loader->fabric->lock);
	for (at = &loader->transfers; *at != transfer; at = &(*at)->next)
		;
	*at = transfer->next;
	free(transfer);
}

static void tell_transfer(struct memory_loader *loader, struct memory_transfer *transfer,
			  const struct memory_load_progress *progress)
{
	while (transfer->groups_told < progress->groups_done) {
		if (transfer->ops.group_done)
			transfer->ops.group_done(transfer->arg, transfer->groups_told);
		transfer->groups_told++;
	}
	if (progress->state != MEMORY_LOAD_RUNNING && !transfer->ended_told) {
		transfer->ended_told = true;
		if (transfer->ops.ended)
			transfer->ops.ended(transfer->arg, progress);
	}
	if (!progress->quiet)
		return;
	transfer->ops.quiet(transfer->arg, progress);
	drop(loader, transfer);
}

static void dispatch(struct memory_party *party)
{
	struct memory_loader *loader = loader_of(party);
	struct memory_load_progress progress;
	struct memory_load *load;

	tell_links(loader);
	tell_damage(loader);
	for (;;) {
		pthread_mutex_lock(&loader->fabric->lock);
		load = memory_reader_news(loader->reader);
		if (load)
			progress = load->progress;
		else
			loader->told = false;
		pthread_mutex_unlock(&loader->fabric->lock);
		if (!load)
			return;
		tell_transfer(loader, load->owner, &progress);
	}
}

int memory_loader_open(struct memory_loader **result, struct memory_fabric *fabric,
		       const struct memory_loader_options *options,
		       char reason[MEMORY_REASON_LEN])
{
	uint32_t read_size = options->read_size < fabric->message_max ? options->read_size :
								       fabric->message_max;
	struct memory_loader *loader;

	if (!options->depth || options->depth > 1024 || !read_size) {
		snprintf(reason, MEMORY_REASON_LEN,
			 "a depth of 1 to 1024 and a read size are needed");
		return -EINVAL;
	}
	loader = calloc(1, sizeof(*loader));
	if (loader)
		loader->reader = memory_reader_create(&memory_link_ops, read_size);
	if (!loader || !loader->reader) {
		free(loader);
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	loader->fabric = fabric;
	loader->options = *options;
	loader->party.run = run;
	loader->party.work = work;
	loader->party.dispatch = dispatch;
	pthread_cond_init(&loader->hashed, NULL);
	pthread_mutex_lock(&fabric->lock);
	memory_fabric_join(fabric, &loader->party);
	pthread_mutex_unlock(&fabric->lock);
	*result = loader;
	return 0;
}

void memory_loader_close(struct memory_loader *loader)
{
	struct memory_transfer *transfer, *next;

	if (!loader)
		return;
	pthread_mutex_lock(&loader->fabric->lock);
	while (loader->hashing)
		pthread_cond_wait(&loader->hashed, &loader->fabric->lock);
	memory_fabric_leave(loader->fabric, &loader->party);
	for (uint32_t i = 0; i < loader->donor_count; i++)
		memory_link_destroy(loader->links[i]);
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_reader_destroy(loader->reader);
	for (transfer = loader->transfers; transfer; transfer = next) {
		next = transfer->next;
		free(transfer);
	}
	pthread_cond_destroy(&loader->hashed);
	free(loader);
}

void memory_loader_fail(struct memory_loader *loader, int err, const char *reason)
{
	struct memory_transfer *transfer;

	loader->failed = true;
	pthread_mutex_lock(&loader->fabric->lock);
	loader->failing = true;
	snprintf(loader->reason, sizeof(loader->reason), "%s", reason);
	for (transfer = loader->transfers; transfer; transfer = transfer->next)
		memory_reader_abort(loader->reader, transfer->load, err, reason, clock_ns());
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
}

bool memory_loader_over(struct memory_loader *loader)
{
	bool over;

	pthread_mutex_lock(&loader->fabric->lock);
	over = loader->failed && !loader->failing && !loader->transfers;
	pthread_mutex_unlock(&loader->fabric->lock);
	return over;
}

static uint32_t find(const struct memory_loader *loader, const char *name)
{
	uint32_t i;

	for (i = 0; i < loader->donor_count; i++)
		if (!strcmp(loader->names[i], name))
			break;
	return i;
}

int memory_loader_donor_add(struct memory_loader *loader, const char *name,
			    const struct sockaddr_storage *address)
{
	uint32_t index = find(loader, name);
	int err = 0;

	if (loader->failed)
		return -ENODEV;
	if (strlen(name) >= MEMORY_NAME_LEN)
		return -ENAMETOOLONG;
	pthread_mutex_lock(&loader->fabric->lock);
	if (index == loader->donor_count) {
		err = memory_reader_donor_add(loader->reader, name);
		if (err < 0)
			goto out;
		strcpy(loader->names[index], name);
		loader->donor_count++;
	}
	memory_link_destroy(loader->links[index]);
	loader->links[index] = memory_link_create(loader->fabric, loader->reader, index, address,
						  loader->options.depth);
	err = loader->links[index] ? (int)index : -ENOMEM;
out:
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
	return err;
}

void memory_loader_donor_remove(struct memory_loader *loader, uint32_t donor)
{
	if (donor >= loader->donor_count)
		return;
	pthread_mutex_lock(&loader->fabric->lock);
	memory_link_destroy(loader->links[donor]);
	loader->links[donor] = NULL;
	memory_reader_link_down(loader->reader, donor, "is not part of the pool any more",
				clock_ns());
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
}

int memory_loader_donor_stats(struct memory_loader *loader, uint32_t donor,
			      struct memory_reader_donor *stats)
{
	if (donor >= loader->donor_count)
		return -ENOENT;
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_donor_stats(loader->reader, donor, stats);
	pthread_mutex_unlock(&loader->fabric->lock);
	return 0;
}

static void hurry(struct memory_loader *loader, const struct memory_load *load)
{
	for (uint32_t i = 0; i < load->lane_count; i++)
		if (load->lanes[i].named && loader->links[i])
			memory_link_hurry(loader->links[i]);
}

void memory_loader_shape(struct memory_loader *loader, uint32_t *lane_count,
			 uint32_t *segment_size)
{
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_shape(loader->reader, lane_count, segment_size);
	pthread_mutex_unlock(&loader->fabric->lock);
}

struct memory_transfer *memory_loader_submit(struct memory_loader *loader, struct memory_load *load,
					     const struct memory_load_request *request,
					     const struct memory_transfer_ops *ops, void *arg,
					     char reason[MEMORY_REASON_LEN])
{
	struct memory_transfer *transfer = loader->failed ? NULL : calloc(1, sizeof(*transfer));

	if (!transfer) {
		snprintf(reason, MEMORY_REASON_LEN, loader->failed ? "the RDMA device is gone" :
								     "out of memory");
		memory_load_destroy(load);
		return NULL;
	}
	transfer->load = load;
	transfer->ops = *ops;
	transfer->arg = arg;
	load->owner = transfer;
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_start(loader->reader, load, request, clock_ns());
	hurry(loader, load);
	pthread_mutex_unlock(&loader->fabric->lock);
	transfer->next = loader->transfers;
	loader->transfers = transfer;
	memory_fabric_kick(loader->fabric);
	return transfer;
}

struct memory_transfer *memory_loader_load(struct memory_loader *loader,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN])
{
	uint32_t lane_count, segment_size;
	struct memory_load *load;

	memory_loader_shape(loader, &lane_count, &segment_size);
	load = memory_load_create(request, lane_count, segment_size, reason);
	return load ? memory_loader_submit(loader, load, request, ops, arg, reason) : NULL;
}

void memory_loader_allow(struct memory_loader *loader, struct memory_transfer *transfer,
			 uint32_t groups)
{
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_allow(loader->reader, transfer->load, groups, clock_ns());
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
}

void memory_loader_extend(struct memory_loader *loader, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns)
{
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_extend(loader->reader, transfer->load, class, deadline_ns,
			     clock_ns());
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
}

void memory_loader_cancel(struct memory_loader *loader, struct memory_transfer *transfer)
{
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_cancel(loader->reader, transfer->load, clock_ns());
	pthread_mutex_unlock(&loader->fabric->lock);
	memory_fabric_kick(loader->fabric);
}

void memory_loader_missing(struct memory_loader *loader, struct memory_transfer *transfer,
			   bool (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg)
{
	pthread_mutex_lock(&loader->fabric->lock);
	memory_reader_missing(loader->reader, transfer->load, tell, arg);
	pthread_mutex_unlock(&loader->fabric->lock);
}
