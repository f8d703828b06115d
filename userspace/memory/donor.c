// SPDX-License-Identifier: GPL-2.0-or-later
#include "donor.h"

#include "../common/clock.h"
#include "endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A host that loses its power says nothing, and READs leave no trace here: who has
 * been silent for so long is sent something that its device has to acknowledge
 * before as much time has passed again. How often ours tries is the peer's choice,
 * who may have chosen to try for ever.
 */
#define SILENCE_NS 5000000000ULL
#define SUSPECTS_MAX 64

/* A chunk is read in much less, and who comes again finds others that have it. */
#define KEEP_NS 60000000000ULL
#define KEEP_REASON "the reader keeps chunks that were freed more than a minute ago"
#define EXPELLED_MAX 16

struct peer {
	struct memory_donor *donor;
	struct sockaddr_storage address;
	uint64_t heard; /* when it last said something; 0: not connected yet */
	struct memory_endpoint *endpoint;
	struct memory_chunk **pins; /* by number; NULL: free */
	uint32_t *free; /* numbers that are */
	uint32_t free_count;
	struct peer *next;
};

struct memory_donor {
	struct memory_party party;
	struct memory_listener listener;
	struct memory_fabric *fabric;
	struct memory_arena *arena;
	struct memory_donor_options options;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct peer *peers;
	struct memory_donor_stats stats;
	uint8_t suspects[SUSPECTS_MAX][MEMORY_DIGEST_LEN]; /* that the owner has not heard of */
	uint32_t suspect_count;
	struct sockaddr_storage expelled[EXPELLED_MAX]; /* so too */
	uint32_t expelled_count;
	uint64_t looked; /* when it was, who keeps what was freed */
};

#define OWNER(pointer, member) \
	((struct memory_donor *)((char *)(pointer) - offsetof(struct memory_donor, member)))

static void violate(struct peer *peer, const char *what)
{
	peer->donor->stats.violations++;
	snprintf(peer->donor->stats.violation, MEMORY_REASON_LEN, "%s", what);
	memory_endpoint_fail(peer->endpoint, what);
}

static void greet(struct peer *peer)
{
	struct memory_wire_message hello = { .type = MEMORY_WIRE_HELLO };

	memcpy(hello.hello.donor, peer->donor->options.id, MEMORY_DONOR_ID_LEN);
	hello.hello.arena_size = memory_arena_size(peer->donor->arena);
	hello.hello.pins = peer->donor->options.pins;
	memory_endpoint_send(peer->endpoint, &hello);
}

static void established(void *arg)
{
	struct peer *peer = arg;

	peer->heard = clock_ns();
	greet(peer);
}

static void locate(struct peer *peer, const uint8_t *digest, struct memory_wire_location *location)
{
	struct memory_donor *donor = peer->donor;
	struct memory_chunk *chunk;

	*location = (struct memory_wire_location){ .state = MEMORY_WIRE_BUSY };
	if (!peer->free_count)
		return;
	if (memory_arena_pin(donor->arena, digest, &chunk)) {
		location->state = MEMORY_WIRE_MISSING;
		donor->stats.missing++;
		return;
	}
	location->state = MEMORY_WIRE_PRESENT;
	location->address = (uintptr_t)chunk->data;
	location->length = chunk->length;
	location->rkey = donor->mr->rkey;
	location->pin = peer->free[--peer->free_count];
	peer->pins[location->pin] = chunk;
	donor->stats.pins++;
	donor->stats.resolved++;
}

static void resolve(struct peer *peer, const struct memory_wire_message *question)
{
	struct memory_wire_message answer = {
		.type = MEMORY_WIRE_LOCATIONS, .id = question->id, .count = question->count,
	};

	for (uint32_t i = 0; i < question->count; i++)
		locate(peer, question->digests[i], &answer.locations[i]);
	if (memory_endpoint_send(peer->endpoint, &answer) == -EAGAIN)
		violate(peer, "the reader asks more than it takes answers");
}

static void unpin(struct peer *peer, uint32_t pin)
{
	memory_arena_unpin(peer->donor->arena, peer->pins[pin]);
	peer->pins[pin] = NULL;
	peer->free[peer->free_count++] = pin;
	peer->donor->stats.pins--;
}

static void release(struct peer *peer, const struct memory_wire_message *message)
{
	uint32_t pin;

	for (uint32_t i = 0; i < message->count; i++) {
		pin = message->pins[i];
		if (pin >= peer->donor->options.pins || !peer->pins[pin]) {
			violate(peer, "the reader releases a pin that it does not have");
			return;
		}
		unpin(peer, pin);
	}
}

/* Who has many complaints makes them again at the next load. */
static void suspect(struct memory_donor *donor, const struct memory_wire_message *message)
{
	for (uint32_t i = 0; i < message->count && donor->suspect_count < SUSPECTS_MAX; i++)
		memcpy(donor->suspects[donor->suspect_count++], message->digests[i],
		       MEMORY_DIGEST_LEN);
	donor->stats.suspected += message->count;
	memory_fabric_tell(donor->fabric);
}

static void dispatch(struct memory_party *party)
{
	struct memory_donor *donor = OWNER(party, party);
	uint8_t suspects[SUSPECTS_MAX][MEMORY_DIGEST_LEN];
	struct sockaddr_storage expelled[EXPELLED_MAX];
	uint32_t count, expelled_count;

	pthread_mutex_lock(&donor->fabric->lock);
	count = donor->suspect_count;
	memcpy(suspects, donor->suspects, count * sizeof(*suspects));
	donor->suspect_count = 0;
	expelled_count = donor->expelled_count;
	memcpy(expelled, donor->expelled, expelled_count * sizeof(*expelled));
	donor->expelled_count = 0;
	pthread_mutex_unlock(&donor->fabric->lock);
	for (uint32_t i = 0; i < count && donor->options.suspected; i++)
		donor->options.suspected(donor->options.arg, suspects[i]);
	for (uint32_t i = 0; i < expelled_count && donor->options.expelled; i++)
		donor->options.expelled(donor->options.arg, &expelled[i], KEEP_REASON);
}

static void received(void *arg, const uint8_t *bytes, size_t len)
{
	struct peer *peer = arg;
	struct memory_wire_message message;
	const char *wrong = memory_wire_decode(bytes, len, &message);

	peer->heard = clock_ns();
	if (wrong)
		violate(peer, wrong);
	else if (message.type == MEMORY_WIRE_RESOLVE)
		resolve(peer, &message);
	else if (message.type == MEMORY_WIRE_RELEASE)
		release(peer, &message);
	else if (message.type == MEMORY_WIRE_SUSPECT)
		suspect(peer->donor, &message);
	else
		violate(peer, "the reader says what only donors say");
}

static void read_done(void *arg, uint32_t count, uint64_t now)
{
	/* A donor posts no READs. */
	(void)arg;
	(void)count;
	(void)now;
}

static void peer_free(struct peer *peer)
{
	free(peer->pins);
	free(peer->free);
	free(peer);
}

/* The queue pair is gone: nothing of it can be read any more. */
static void gone(void *arg, const char *reason)
{
	struct peer *peer = arg, **at;

	(void)reason;
	for (uint32_t i = 0; i < peer->donor->options.pins; i++)
		if (peer->pins[i])
			unpin(peer, i);
	for (at = &peer->donor->peers; *at != peer; at = &(*at)->next)
		;
	*at = peer->next;
	peer->donor->stats.peers--;
	peer_free(peer);
}

static const struct memory_endpoint_ops peer_ops = {
	.established = established,
	.received = received,
	.read_done = read_done,
	.gone = gone,
};

static bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	if (a->ss_family != b->ss_family)
		return false;
	if (a->ss_family == AF_INET)
		return !memcmp(&((const struct sockaddr_in *)a)->sin_addr,
			       &((const struct sockaddr_in *)b)->sin_addr, sizeof(struct in_addr));
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

static bool may_connect(const struct memory_donor *donor, const struct rdma_cm_id *id)
{
	const struct peer *peer;
	uint32_t count = 0;

	for (peer = donor->peers; peer; peer = peer->next)
		count += same_host(&peer->address, &id->route.addr.dst_storage);
	return id->verbs == donor->fabric->verbs && donor->stats.peers < donor->options.peers &&
	       count < donor->options.host_peers;
}

static struct peer *peer_create(struct memory_donor *donor)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	if (!peer)
		return NULL;
	peer->donor = donor;
	peer->pins = calloc(donor->options.pins, sizeof(*peer->pins));
	peer->free = calloc(donor->options.pins, sizeof(*peer->free));
	if (!peer->pins || !peer->free) {
		peer_free(peer);
		return NULL;
	}
	while (peer->free_count < donor->options.pins) {
		peer->free[peer->free_count] = peer->free_count;
		peer->free_count++;
	}
	return peer;
}

static void requested(struct memory_listener *listener, struct rdma_cm_id *id, uint32_t depth)
{
	struct memory_donor *donor = OWNER(listener, listener);
	uint32_t max = donor->fabric->serve_depth_max;
	struct peer *peer = NULL;
	char reason[MEMORY_REASON_LEN];

	if (may_connect(donor, id))
		peer = peer_create(donor);
	if (!peer) {
		donor->stats.refused++;
		rdma_reject(id, NULL, 0);
		rdma_destroy_id(id);
		return;
	}
	peer->address = id->route.addr.dst_storage;
	peer->endpoint = memory_endpoint_accept(&(struct memory_endpoint_setup){
		.fabric = donor->fabric, .ops = &peer_ops, .arg = peer, .pd = donor->pd,
		.serve_depth = depth < max ? depth : max,
	}, id, reason);
	if (!peer->endpoint) {
		donor->stats.refused++;
		peer_free(peer);
		return;
	}
	peer->next = donor->peers;
	donor->peers = peer;
	donor->stats.peers++;
	donor->stats.accepted++;
}

static void expel(struct memory_donor *donor, uint64_t now)
{
	uint64_t since = memory_arena_doomed_since(donor->arena);
	struct peer *peer;

	if (!since || now < since + KEEP_NS)
		return;
	for (peer = donor->peers; peer; peer = peer->next) {
		if (!memory_arena_any_doomed(donor->arena, peer->pins, donor->options.pins,
					     now - KEEP_NS))
			continue;
		memory_endpoint_fail(peer->endpoint, KEEP_REASON);
		donor->stats.expelled++;
		if (donor->expelled_count < EXPELLED_MAX)
			donor->expelled[donor->expelled_count++] = peer->address;
		memory_fabric_tell(donor->fabric);
	}
}

/* Connections that do not come about end by themselves. */
static uint64_t run(struct memory_party *party, uint64_t now)
{
	struct memory_donor *donor = OWNER(party, party);
	uint64_t next = UINT64_MAX;
	struct peer *peer;

	/* As long as there is one it is called again after that time at the latest. */
	if (now >= donor->looked + SILENCE_NS) {
		donor->looked = now;
		expel(donor, now);
	}
	for (peer = donor->peers; peer; peer = peer->next) {
		if (!peer->heard)
			continue;
		if (now >= peer->heard + SILENCE_NS) {
			peer->heard = now;
			if (memory_endpoint_pending(peer->endpoint))
				memory_endpoint_fail(peer->endpoint,
						     "the reader is not there any more");
			else
				greet(peer);
		}
		if (peer->heard + SILENCE_NS < next)
			next = peer->heard + SILENCE_NS;
	}
	return next;
}

static int register_arena(struct memory_donor *donor, char *reason)
{
	uint64_t size = memory_arena_size(donor->arena);
	int err;

	donor->pd = ibv_alloc_pd(donor->fabric->verbs);
	if (donor->pd)
		donor->mr = ibv_reg_mr(donor->pd, memory_arena_base(donor->arena), size,
				       IBV_ACCESS_REMOTE_READ);
	if (donor->mr)
		return 0;
	err = -errno;
	snprintf(reason, MEMORY_REASON_LEN, "cannot register %llu bytes: %s%s",
		 (unsigned long long)size, strerror(-err),
		 err == -ENOMEM ? "; is RLIMIT_MEMLOCK large enough?" : "");
	return err;
}

static void dismantle(struct memory_donor *donor)
{
	if (donor->mr)
		ibv_dereg_mr(donor->mr);
	if (donor->pd)
		ibv_dealloc_pd(donor->pd);
	free(donor);
}

int memory_donor_start(struct memory_donor **result, struct memory_fabric *fabric,
		       struct memory_arena *arena, const struct memory_donor_options *options,
		       char reason[MEMORY_REASON_LEN])
{
	struct memory_donor *donor;
	int err;

	if (!options->peers || !options->host_peers || !options->pins) {
		snprintf(reason, MEMORY_REASON_LEN, "a donor needs at least one peer and one pin");
		return -EINVAL;
	}
	donor = calloc(1, sizeof(*donor));
	if (!donor) {
		snprintf(reason, MEMORY_REASON_LEN, "out of memory");
		return -ENOMEM;
	}
	donor->fabric = fabric;
	donor->arena = arena;
	donor->options = *options;
	donor->listener.requested = requested;
	donor->party.run = run;
	donor->party.dispatch = dispatch;
	err = register_arena(donor, reason);
	if (err) {
		dismantle(donor);
		return err;
	}
	pthread_mutex_lock(&fabric->lock);
	err = memory_endpoint_listen(fabric, &donor->listener,
				     (const struct sockaddr *)&options->address, reason);
	if (!err)
		memory_fabric_join(fabric, &donor->party);
	pthread_mutex_unlock(&fabric->lock);
	if (err) {
		dismantle(donor);
		return err;
	}
	*result = donor;
	return 0;
}

void memory_donor_stop(struct memory_donor *donor)
{
	struct peer *peer;

	if (!donor)
		return;
	pthread_mutex_lock(&donor->fabric->lock);
	memory_endpoint_unlisten(&donor->listener);
	for (peer = donor->peers; peer; peer = peer->next)
		memory_endpoint_fail(peer->endpoint, "the donor stops");
	memory_endpoint_bury(donor->fabric);
	memory_fabric_leave(donor->fabric, &donor->party);
	pthread_mutex_unlock(&donor->fabric->lock);
	dismantle(donor);
}

void memory_donor_stats(struct memory_donor *donor, struct memory_donor_stats *stats)
{
	pthread_mutex_lock(&donor->fabric->lock);
	*stats = donor->stats;
	pthread_mutex_unlock(&donor->fabric->lock);
}
