// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * This host in the catalog: its lease and its generation.
 *
 * absent -> joining (lease, then generation and record) -> joined -> joining again when
 * the lease ended, or fenced for good when the generation is another's.
 */
#include "encode.h"
#include "../common/hex.h"
#include "report.h"
#include "update.h"

#include <errno.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RETRY_US 500000

struct registration {
	struct catalog_update update;
	struct catalog *catalog;
	uint64_t lease;
	uint64_t generation;
	char nonce[33];
};

static void arm(sd_event_source *timer, uint64_t us)
{
	sd_event_source_set_time_relative(timer, us);
	sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}

static void ignore(const struct catalog_result *result, void *arg)
{
	(void)result;
	(void)arg;
}

static void set_state(struct catalog *catalog, enum catalog_member_state state, const char *why)
{
	catalog->member.state = state;
	snprintf(catalog->member.trouble, sizeof(catalog->member.trouble), "%s", why);
	if (catalog->options.member && !catalog->closing)
		catalog->options.member(state, why, catalog->options.arg);
}

void catalog_member_fence(struct catalog *catalog)
{
	struct member *member = &catalog->member;
	static const char why[] = "another process has joined under this host's name: give one of "
				  "them another name";

	if (member->state == CATALOG_FENCED)
		return;
	if (member->lease)
		catalog_store_lease_revoke(catalog->store, member->lease, ignore, NULL);
	member->lease = 0;
	member->host.generation = 0;
	sd_event_source_set_enabled(member->keep, SD_EVENT_OFF);
	set_state(catalog, CATALOG_FENCED, why);
	catalog_report_wake(catalog);
}

void catalog_member_seen(struct catalog *catalog, const struct catalog_host *host)
{
	struct member *member = &catalog->member;

	if (member->state == CATALOG_JOINED && !strcmp(host->name, member->host.name) &&
	    host->generation > member->host.generation)
		catalog_member_fence(catalog);
}

static uint64_t keep_us(const struct member *member)
{
	return member->ttl_s * 1000000ULL / 3;
}

static int prepare_registration(struct catalog_update *update, const struct catalog_entry *entry,
				struct catalog_batch *batch)
{
	struct registration *registration = (struct registration *)update;
	struct catalog *catalog = registration->catalog;
	struct catalog_host host = catalog->member.host;
	json_t *record = entry ? json_loadb(entry->value, entry->size, 0, NULL) : NULL;
	const char *nonce = json_string_value(json_object_get(record, "nonce"));
	uint64_t generation = 0;
	bool mine = nonce && !strcmp(nonce, registration->nonce);
	bool good = catalog_json_u64(record, "generation", &generation) && generation < INT64_MAX;
	char text[128];

	json_decref(record);
	if (mine) {
		registration->generation = generation;
		return 1;
	}
	if (!good || (entry && !generation)) {
		snprintf(update->error, sizeof(update->error),
			 "%s: not a generation: delete the key", update->key);
		return -EBADMSG;
	}
	registration->generation = generation + 1;
	host.generation = generation + 1;
	snprintf(text, sizeof(text), "{\"generation\":%llu,\"nonce\":\"%s\"}",
		 (unsigned long long)host.generation, registration->nonce);
	catalog_batch_put(batch, text, strlen(text), 0, "%s", update->key);
	catalog_host_put(catalog, batch, &host, registration->lease);
	return 0;
}

static void on_registered(struct catalog_update *update, const struct catalog_result *result)
{
	struct registration *registration = (struct registration *)update;
	struct catalog *catalog = registration->catalog;
	struct member *member = &catalog->member;

	if (!catalog->closing && (result->err || member->state != CATALOG_JOINING))
		catalog_store_lease_revoke(catalog->store, registration->lease, ignore, NULL);
	if (!catalog->closing && member->state == CATALOG_JOINING) {
		catalog_heard(catalog, result);
		if (result->err) {
			snprintf(member->trouble, sizeof(member->trouble), "%s", result->error);
			arm(member->keep, RETRY_US);
		} else {
			member->lease = registration->lease;
			member->host.generation = registration->generation;
			member->fence = result->revision;
			member->uncertain = false;
			memcpy(member->nonce, registration->nonce, sizeof(member->nonce));
			arm(member->keep, keep_us(member));
			catalog_report_all(catalog);
			set_state(catalog, CATALOG_JOINED, "");
		}
	}
	free(registration);
}

static int prepare_refence(struct catalog_update *update, const struct catalog_entry *entry,
			   struct catalog_batch *batch)
{
	struct registration *registration = (struct registration *)update;

	if (!entry || !memmem(entry->value, entry->size, registration->nonce,
			      strlen(registration->nonce)))
		return -EOWNERDEAD;
	catalog_batch_put(batch, entry->value, entry->size, 0, "%s", update->key);
	return 0;
}

static void on_refenced(struct catalog_update *update, const struct catalog_result *result)
{
	struct registration *registration = (struct registration *)update;
	struct catalog *catalog = registration->catalog;
	struct member *member = &catalog->member;
	bool current = member->state == CATALOG_JOINED &&
		       !strcmp(member->nonce, registration->nonce);

	free(registration);
	if (catalog->closing)
		return;
	if (current && !result->err)
		member->fence = result->revision;
	if (current && result->err == -EOWNERDEAD)
		catalog_member_fence(catalog);
	catalog_report_fenced(catalog, result->err);
}

int catalog_member_refence(struct catalog *catalog)
{
	struct registration *registration = calloc(1, sizeof(*registration));
	char key[CATALOG_KEY_MAX];
	int err;

	if (!registration)
		return -ENOMEM;
	registration->update.prepare = prepare_refence;
	registration->update.done = on_refenced;
	registration->catalog = catalog;
	memcpy(registration->nonce, catalog->member.nonce, sizeof(registration->nonce));
	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, catalog->member.host.name);
	err = catalog_update_start(&registration->update, catalog->store, key);
	if (err)
		free(registration);
	return err;
}

static void on_granted(const struct catalog_result *result, void *arg)
{
	struct catalog *catalog = arg;
	struct member *member = &catalog->member;
	struct registration *registration;
	char key[CATALOG_KEY_MAX];
	uint8_t nonce[16];

	if (catalog->closing)
		return;
	catalog_heard(catalog, result);
	if (!result->err && member->state != CATALOG_JOINING) {
		catalog_store_lease_revoke(catalog->store, result->lease, ignore, NULL);
		return;
	}
	registration = result->err ? NULL : calloc(1, sizeof(*registration));
	if (!registration || RAND_bytes(nonce, sizeof(nonce)) != 1)
		goto fail;
	registration->update.prepare = prepare_registration;
	registration->update.done = on_registered;
	registration->catalog = catalog;
	registration->lease = result->lease;
	hex_format(nonce, sizeof(nonce), registration->nonce);
	snprintf(key, sizeof(key), "%s/generation/%s", catalog->pool, member->host.name);
	if (!catalog_update_start(&registration->update, catalog->store, key))
		return;
fail:
	free(registration);
	if (member->state != CATALOG_JOINING)
		return;
	snprintf(member->trouble, sizeof(member->trouble), "%s",
		 result->err ? result->error : "no memory");
	arm(member->keep, RETRY_US);
}

void catalog_member_rejoin(struct catalog *catalog, const char *why)
{
	struct member *member = &catalog->member;

	member->lease = 0;
	member->host.generation = 0;
	set_state(catalog, CATALOG_JOINING, why);
	arm(member->keep, 0);
}

static void on_kept(const struct catalog_result *result, void *arg)
{
	struct catalog *catalog = arg;
	struct member *member = &catalog->member;

	if (catalog->closing || member->state != CATALOG_JOINED ||
	    member->lease != member->kept_lease)
		return;
	catalog_heard(catalog, result);
	if (result->err == -ENOENT)
		catalog_member_rejoin(catalog, result->error);
	else
		arm(member->keep, result->err ? RETRY_US : keep_us(member));
}

static int on_keep(sd_event_source *source, uint64_t us, void *arg)
{
	struct catalog *catalog = arg;
	struct member *member = &catalog->member;
	int err = 0;

	(void)source;
	(void)us;
	if (member->state == CATALOG_JOINING)
		err = catalog_store_lease_grant(catalog->store, member->ttl_s, on_granted, catalog);
	if (member->state == CATALOG_JOINED) {
		member->kept_lease = member->lease;
		err = catalog_store_lease_keep(catalog->store, member->lease, on_kept, catalog);
	}
	if (err)
		arm(member->keep, RETRY_US);
	return 0;
}

bool catalog_address_is_good(const char *address)
{
	return !address[0] || catalog_name_is_good(address, CATALOG_ADDRESS_LEN, ":[]%");
}

int catalog_join(struct catalog *catalog, const struct catalog_host *host, unsigned int ttl_s,
		 bool spooled)
{
	struct member *member = &catalog->member;

	if (!catalog_name_is_good(host->name, CATALOG_HOST_LEN, "") ||
	    !catalog_address_is_good(host->address) ||
	    !catalog_address_is_good(host->rdma_address) ||
	    host->memory_total > INT64_MAX || host->memory_free > host->memory_total || ttl_s < 1 ||
	    ttl_s > 86400)
		return -EINVAL;
	if (member->state != CATALOG_ABSENT)
		return -EALREADY;
	member->host = *host;
	member->memory_free = host->memory_free;
	if (member->full)
		member->host.memory_free = 0;
	member->host.generation = 0;
	member->host.hot_count = 0;
	member->ttl_s = ttl_s;
	member->spooled = spooled;
	member->state = CATALOG_JOINING;
	arm(member->keep, 0);
	return 0;
}

enum catalog_member_state catalog_member_state(const struct catalog *catalog)
{
	return catalog->member.state;
}

const char *catalog_member_trouble(const struct catalog *catalog)
{
	return catalog->member.state == CATALOG_JOINED ? "" : catalog->member.trouble;
}

uint64_t catalog_member_generation(const struct catalog *catalog)
{
	return catalog->member.host.generation;
}

int catalog_leave(struct catalog *catalog, catalog_done done, void *arg)
{
	struct member *member = &catalog->member;
	int err;

	if (member->state != CATALOG_JOINED)
		return -ENOTCONN;
	err = catalog_store_lease_revoke(catalog->store, member->lease, done, arg);
	if (err)
		return err;
	member->lease = 0;
	member->host.generation = 0;
	member->state = CATALOG_ABSENT;
	sd_event_source_set_enabled(member->keep, SD_EVENT_OFF);
	catalog_report_wake(catalog);
	return 0;
}

int catalog_member_open(struct catalog *catalog)
{
	struct member *member = &catalog->member;
	int err = catalog_report_open(catalog);

	if (err)
		return err;
	err = sd_event_add_time(catalog->loop, &member->keep, CLOCK_BOOTTIME, 0, 1000, on_keep,
				catalog);
	if (err < 0)
		return err;
	sd_event_source_set_enabled(member->keep, SD_EVENT_OFF);
	return 0;
}

void catalog_member_close(struct catalog *catalog)
{
	sd_event_source_disable_unref(catalog->member.keep);
	catalog_report_close(catalog);
}
