// SPDX-License-Identifier: GPL-2.0-or-later
#include "client.h"

#include "../common/clock.h"
#include "check.h"
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORK_BYTES (1U << 20) /* that are checked before the network is looked at again */

struct memory_transfer {
	struct memory_load *load;
	struct memory_transfer_ops ops;
	void *arg;
	uint32_t groups_told, clear_told;
	bool ended_told;
	struct memory_transfer *next;
};

struct memory_client {
	struct memory_party party;
	struct memory_fabric *fabric;
	struct memory_client_options options;
	struct memory_reader *reader;
	struct memory_link *links[MEMORY_DONORS_MAX]; /* NULL: removed */
	char names[MEMORY_DONORS_MAX][MEMORY_NAME_LEN];
	uint32_t donor_count;
	struct memory_transfer *transfers;
	pthread_cond_t hashed;
	bool hashing; /* work() has given up the lock */
	bool told; /* the owner knows that there is news */
	bool failed;
};

static struct memory_client *client_of(struct memory_party *party)
{
	return (struct memory_client *)((char *)party - offsetof(struct memory_client, party));
}

static uint64_t run(struct memory_party *party, uint64_t now)
{
	struct memory_client *client = client_of(party);
	uint64_t next = UINT64_MAX, at;

	for (uint32_t i = 0; i < client->donor_count; i++) {
		if (!client->links[i])
			continue;
		at = memory_link_run(client->links[i], now);
		if (at < next)
			next = at;
	}
	at = memory_reader_run(client->reader, now);
	client->party.urgent = memory_reader_urgent(client->reader);
	if (!client->told && memory_reader_has_news(client->reader)) {
		client->told = true;
		memory_fabric_tell(client->fabric);
	}
	return at < next ? at : next;
}

/* The lock is given up meanwhile: the load stays, and if somebody writes it is looked at again. */
static bool check(struct memory_client *client, const struct memory_reader_check *check)
{
	bool good;

	client->hashing = true;
	pthread_mutex_unlock(&client->fabric->lock);
	if (check->kind == MEMORY_CHECK_DIGEST)
		good = memory_digest_matches(check->data, check->length, check->digest);
	else
		good = memory_checksum(check->data, check->length) == check->checksum;
	pthread_mutex_lock(&client->fabric->lock);
	client->hashing = false;
	pthread_cond_signal(&client->hashed);
	return good;
}

static bool work(struct memory_party *party)
{
	struct memory_client *client = client_of(party);
	struct memory_reader_check job;
	uint64_t bytes = 0;

	while (bytes < WORK_BYTES && memory_reader_to_check(client->reader, &job)) {
		bool good = check(client, &job);

		memory_reader_checked(client->reader, &job, good, clock_ns());
		bytes += job.length;
	}
	return bytes;
}

static void tell_damage(struct memory_client *client)
{
	struct memory_reader_report report;
	bool any;

	for (;;) {
		pthread_mutex_lock(&client->fabric->lock);
		any = memory_reader_report(client->reader, &report);
		pthread_mutex_unlock(&client->fabric->lock);
		if (!any)
			return;
		if (client->options.damaged)
			client->options.damaged(client->options.arg, report.donor, report.digest);
	}
}

static void tell_links(struct memory_client *client)
{
	struct memory_reader_donor stats;
	bool changed, up;

	for (uint32_t i = 0; i < client->donor_count; i++) {
		pthread_mutex_lock(&client->fabric->lock);
		changed = client->links[i] && memory_link_changed(client->links[i], &up);
		if (changed)
			memory_reader_donor_stats(client->reader, i, &stats);
		pthread_mutex_unlock(&client->fabric->lock);
		if (changed && client->options.donor_changed)
			client->options.donor_changed(client->options.arg, i, up,
						      up ? "" : stats.reason);
	}
}

/* No READ of it is left. */
static void drop(struct memory_client *client, struct memory_transfer *transfer)
{
	struct memory_transfer **at;

	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_forget(client->reader, transfer->load);
	pthread_mutex_unlock(&client->fabric->lock);
	for (at = &client->transfers; *at != transfer; at = &(*at)->next)
		;
	*at = transfer->next;
	free(transfer);
}

static void tell_transfer(struct memory_client *client, struct memory_transfer *transfer,
			  const struct memory_load_progress *progress)
{
	while (transfer->groups_told < progress->groups_done) {
		if (transfer->ops.group_done)
			transfer->ops.group_done(transfer->arg, transfer->groups_told);
		transfer->groups_told++;
	}
	while (transfer->clear_told < progress->groups_clear) {
		if (transfer->ops.group_clear)
			transfer->ops.group_clear(transfer->arg, transfer->clear_told);
		transfer->clear_told++;
	}
	if (progress->state != MEMORY_LOAD_RUNNING && !transfer->ended_told) {
		transfer->ended_told = true;
		if (transfer->ops.ended)
			transfer->ops.ended(transfer->arg, progress);
	}
	if (!progress->quiet)
		return;
	transfer->ops.quiet(transfer->arg, progress);
	drop(client, transfer);
}

static void dispatch(struct memory_party *party)
{
	struct memory_client *client = client_of(party);
	struct memory_load_progress progress;
	struct memory_load *load;

	tell_links(client);
	tell_damage(client);
	for (;;) {
		pthread_mutex_lock(&client->fabric->lock);
		load = memory_reader_news(client->reader);
		if (load)
			progress = load->progress;
		else
			client->told = false;
		pthread_mutex_unlock(&client->fabric->lock);
		if (!load)
			return;
		tell_transfer(client, load->owner, &progress);
	}
}

int memory_client_open(struct memory_client **result, struct memory_fabric *fabric,
		       const struct memory_client_options *options,
		       char reason[MEMORY_REASON_LEN])
{
	uint32_t read_size = options->read_size < fabric->message_max ? options->read_size :
								       fabric->message_max;
	struct memory_client *client;

	if (!options->depth || options->depth > 1024 || !read_size) {
		snprintf(reason, MEMORY_REASON_LEN,
			 "a depth of 1 to 1024 and a read size are needed");
		return -EINVAL;
	}
	client = calloc(1, sizeof(*client));
	if (client)
		client->reader = memory_reader_create(&memory_link_ops, read_size);
	if (!client || !client->reader) {
		free(client);
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	client->fabric = fabric;
	client->options = *options;
	client->party.run = run;
	client->party.work = work;
	client->party.dispatch = dispatch;
	pthread_cond_init(&client->hashed, NULL);
	pthread_mutex_lock(&fabric->lock);
	memory_fabric_join(fabric, &client->party);
	pthread_mutex_unlock(&fabric->lock);
	*result = client;
	return 0;
}

void memory_client_close(struct memory_client *client)
{
	struct memory_transfer *transfer, *next;

	if (!client)
		return;
	pthread_mutex_lock(&client->fabric->lock);
	while (client->hashing)
		pthread_cond_wait(&client->hashed, &client->fabric->lock);
	memory_fabric_leave(client->fabric, &client->party);
	for (uint32_t i = 0; i < client->donor_count; i++)
		memory_link_destroy(client->links[i]);
	pthread_mutex_unlock(&client->fabric->lock);
	memory_reader_destroy(client->reader);
	for (transfer = client->transfers; transfer; transfer = next) {
		next = transfer->next;
		free(transfer);
	}
	pthread_cond_destroy(&client->hashed);
	free(client);
}

void memory_client_fail(struct memory_client *client, int err, const char *reason)
{
	struct memory_transfer *transfer;

	client->failed = true;
	pthread_mutex_lock(&client->fabric->lock);
	while (client->hashing)
		pthread_cond_wait(&client->hashed, &client->fabric->lock);
	for (uint32_t i = 0; i < client->donor_count; i++) {
		memory_link_destroy(client->links[i]);
		client->links[i] = NULL;
		memory_reader_link_down(client->reader, i, reason);
	}
	for (transfer = client->transfers; transfer; transfer = transfer->next)
		memory_reader_abort(client->reader, transfer->load, err, reason, clock_ns());
	pthread_mutex_unlock(&client->fabric->lock);
	dispatch(&client->party);
}

static uint32_t find(const struct memory_client *client, const char *name)
{
	uint32_t i;

	for (i = 0; i < client->donor_count; i++)
		if (!strcmp(client->names[i], name))
			break;
	return i;
}

int memory_client_donor_add(struct memory_client *client, const char *name,
			    const struct sockaddr_storage *address)
{
	uint32_t index = find(client, name);
	int err = 0;

	if (strlen(name) >= MEMORY_NAME_LEN)
		return -ENAMETOOLONG;
	pthread_mutex_lock(&client->fabric->lock);
	if (index == client->donor_count) {
		err = memory_reader_donor_add(client->reader, name);
		if (err < 0)
			goto out;
		strcpy(client->names[index], name);
		client->donor_count++;
	}
	memory_link_destroy(client->links[index]);
	client->links[index] = memory_link_create(client->fabric, client->reader, index, address,
						  client->options.depth);
	err = client->links[index] ? (int)index : -ENOMEM;
out:
	pthread_mutex_unlock(&client->fabric->lock);
	memory_fabric_kick(client->fabric);
	return err;
}

void memory_client_donor_remove(struct memory_client *client, uint32_t donor)
{
	if (donor >= client->donor_count)
		return;
	pthread_mutex_lock(&client->fabric->lock);
	memory_link_destroy(client->links[donor]);
	client->links[donor] = NULL;
	memory_reader_link_down(client->reader, donor, "is not part of the pool any more");
	pthread_mutex_unlock(&client->fabric->lock);
	memory_fabric_kick(client->fabric);
}

int memory_client_donor_stats(struct memory_client *client, uint32_t donor,
			      struct memory_reader_donor *stats)
{
	if (donor >= client->donor_count)
		return -ENOENT;
	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_donor_stats(client->reader, donor, stats);
	pthread_mutex_unlock(&client->fabric->lock);
	return 0;
}

static void hurry(struct memory_client *client, const struct memory_load *load)
{
	for (uint32_t i = 0; i < load->lane_count; i++)
		if (load->lanes[i].named && client->links[i])
			memory_link_hurry(client->links[i]);
}

struct memory_transfer *memory_client_load(struct memory_client *client,
					   const struct memory_load_request *request,
					   const struct memory_transfer_ops *ops, void *arg,
					   char reason[MEMORY_REASON_LEN])
{
	struct memory_transfer *transfer = client->failed ? NULL : calloc(1, sizeof(*transfer));

	if (!transfer) {
		snprintf(reason, MEMORY_REASON_LEN, client->failed ? "the RDMA device is gone" :
								     "out of memory");
		return NULL;
	}
	transfer->ops = *ops;
	transfer->arg = arg;
	pthread_mutex_lock(&client->fabric->lock);
	transfer->load = memory_reader_submit(client->reader, request, clock_ns(), reason);
	if (transfer->load) {
		transfer->load->owner = transfer;
		hurry(client, transfer->load);
	}
	pthread_mutex_unlock(&client->fabric->lock);
	if (!transfer->load) {
		free(transfer);
		return NULL;
	}
	transfer->next = client->transfers;
	client->transfers = transfer;
	memory_fabric_kick(client->fabric);
	return transfer;
}

void memory_client_allow(struct memory_client *client, struct memory_transfer *transfer,
			 uint32_t groups)
{
	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_allow(client->reader, transfer->load, groups, clock_ns());
	pthread_mutex_unlock(&client->fabric->lock);
	memory_fabric_kick(client->fabric);
}

void memory_client_extend(struct memory_client *client, struct memory_transfer *transfer,
			  enum memory_class class, uint64_t deadline_ns)
{
	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_extend(client->reader, transfer->load, class, deadline_ns,
			     clock_ns());
	pthread_mutex_unlock(&client->fabric->lock);
	memory_fabric_kick(client->fabric);
}

void memory_client_cancel(struct memory_client *client, struct memory_transfer *transfer)
{
	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_cancel(client->reader, transfer->load, clock_ns());
	pthread_mutex_unlock(&client->fabric->lock);
	memory_fabric_kick(client->fabric);
}

void memory_client_missing(struct memory_client *client, struct memory_transfer *transfer,
			   void (*tell)(void *arg, const uint8_t *digest, const char *donor,
					const char *reason),
			   void *arg)
{
	pthread_mutex_lock(&client->fabric->lock);
	memory_reader_missing(client->reader, transfer->load, tell, arg);
	pthread_mutex_unlock(&client->fabric->lock);
}
