// SPDX-License-Identifier: GPL-2.0-or-later
#include "link.h"

#include "../common/clock.h"
#include "endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000ULL
#define CONNECT_NS (3000 * NS_PER_MS)
#define RETRY_FIRST_NS (50 * NS_PER_MS)
#define RETRY_MAX_NS (5000 * NS_PER_MS)

struct memory_link {
	struct memory_fabric *fabric;
	struct memory_reader *reader;
	struct memory_endpoint *endpoint; /* NULL: between two attempts */
	struct sockaddr_storage address;
	uint32_t donor;
	uint32_t depth;
	bool up, changed;
	uint64_t since;	   /* beginning of the attempt */
	uint64_t retry_at; /* the next one */
	uint64_t retry_ns; /* how long to wait after it; doubles */
};

static int link_resolve(void *arg, uint32_t id, const uint8_t (*digests)[MEMORY_DIGEST_LEN],
			uint32_t count)
{
	struct memory_link *link = arg;
	struct memory_wire_message message = {
		.type = MEMORY_WIRE_RESOLVE, .id = id, .count = count,
	};

	memcpy(message.digests, digests, count * sizeof(*digests));
	return memory_endpoint_send(link->endpoint, &message);
}

static int link_release(void *arg, const uint32_t *pins, uint32_t count)
{
	struct memory_link *link = arg;
	struct memory_wire_message message = { .type = MEMORY_WIRE_RELEASE, .count = count };

	memcpy(message.pins, pins, count * sizeof(*pins));
	return memory_endpoint_send(link->endpoint, &message);
}

static int link_suspect(void *arg, const uint8_t (*digests)[MEMORY_DIGEST_LEN], uint32_t count)
{
	struct memory_link *link = arg;
	struct memory_wire_message message = { .type = MEMORY_WIRE_SUSPECT, .count = count };

	memcpy(message.digests, digests, count * sizeof(*digests));
	return memory_endpoint_send(link->endpoint, &message);
}

static int link_read(void *arg, const struct memory_read *reads, uint32_t count)
{
	struct memory_link *link = arg;

	return memory_endpoint_read(link->endpoint, reads, count);
}

static void link_abandon(void *arg, const char *reason)
{
	struct memory_link *link = arg;

	memory_endpoint_fail(link->endpoint, reason);
}

const struct memory_reader_ops memory_link_ops = {
	.resolve = link_resolve,
	.release = link_release,
	.suspect = link_suspect,
	.read = link_read,
	.abandon = link_abandon,
};

static void established(void *arg)
{
	/* The donor speaks first. */
	(void)arg;
}

static void greet(struct memory_link *link, const struct memory_wire_message *message)
{
	struct memory_link_limits limits = { .depth = link->depth, .pins = message->hello.pins };

	if (memory_reader_link_up(link->reader, link->donor, link, &limits)) {
		memory_endpoint_fail(link->endpoint, "out of memory");
		return;
	}
	link->up = link->changed = true;
	link->retry_ns = RETRY_FIRST_NS;
	memory_fabric_tell(link->fabric);
}

static void received(void *arg, const uint8_t *bytes, size_t len)
{
	struct memory_link *link = arg;
	struct memory_wire_message message;
	const char *wrong = memory_wire_decode(bytes, len, &message);

	if (!wrong && message.type == MEMORY_WIRE_HELLO) {
		/* A later one only asks the network whether we are still there. */
		if (!link->up)
			greet(link, &message);
		return;
	}
	if (!wrong && message.type == MEMORY_WIRE_LOCATIONS && link->up)
		wrong = memory_reader_located(link->reader, link->donor, &message,
					      clock_ns());
	else if (!wrong)
		wrong = "the donor says what it should not say now";
	if (wrong)
		memory_endpoint_fail(link->endpoint, wrong);
}

static void read_done(void *arg, uint32_t count, uint64_t now)
{
	struct memory_link *link = arg;

	memory_reader_read_done(link->reader, link->donor, count, now);
}

static void down(struct memory_link *link, const char *reason)
{
	uint64_t now = clock_ns();

	memory_reader_link_down(link->reader, link->donor, reason, now);
	link->endpoint = NULL;
	link->changed = true;
	link->up = false;
	link->retry_at = now + link->retry_ns;
	link->retry_ns = 2 * link->retry_ns < RETRY_MAX_NS ? 2 * link->retry_ns : RETRY_MAX_NS;
	memory_fabric_tell(link->fabric);
}

static void gone(void *arg, const char *reason)
{
	down(arg, reason);
}

static const struct memory_endpoint_ops endpoint_ops = {
	.established = established,
	.received = received,
	.read_done = read_done,
	.gone = gone,
};

struct memory_link *memory_link_create(struct memory_fabric *fabric, struct memory_reader *reader,
				       uint32_t donor, const struct sockaddr_storage *address,
				       uint32_t depth)
{
	struct memory_link *link = calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->fabric = fabric;
	link->reader = reader;
	link->donor = donor;
	link->address = *address;
	link->depth = depth;
	link->retry_ns = RETRY_FIRST_NS;
	return link;
}

void memory_link_destroy(struct memory_link *link)
{
	if (!link)
		return;
	if (link->endpoint) {
		memory_endpoint_fail(link->endpoint, "the reader closes the connection");
		memory_endpoint_bury(link->fabric);
	}
	free(link);
}

static void attempt(struct memory_link *link, uint64_t now)
{
	char reason[MEMORY_REASON_LEN];

	link->since = now;
	link->endpoint = memory_endpoint_connect(&(struct memory_endpoint_setup){
		.fabric = link->fabric, .ops = &endpoint_ops, .arg = link,
		.pd = link->fabric->pd, .read_depth = link->depth,
	}, (const struct sockaddr *)&link->address, reason);
	if (!link->endpoint)
		down(link, reason);
}

uint64_t memory_link_run(struct memory_link *link, uint64_t now)
{
	if (link->up)
		return UINT64_MAX;
	if (link->endpoint && now >= link->since + CONNECT_NS)
		memory_endpoint_fail(link->endpoint, "it does not answer");
	else if (!link->endpoint && now >= link->retry_at)
		attempt(link, now);
	return link->endpoint ? link->since + CONNECT_NS : link->retry_at;
}

void memory_link_hurry(struct memory_link *link)
{
	link->retry_at = 0;
}

bool memory_link_changed(struct memory_link *link, bool *up)
{
	bool changed = link->changed;

	link->changed = false;
	*up = link->up;
	return changed;
}
