// SPDX-License-Identifier: GPL-2.0-or-later
#include "peers.h"

#include "../common/log.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer {
	char host[CATALOG_HOST_LEN];
	char address[CATALOG_ADDRESS_LEN];
	uint16_t port;
	uint64_t generation;
	int index; /* negative: it cannot be connected to */
	bool live;
	bool seen; /* by the update under way */
};

void peers_open(struct peers *peers, struct chunks *chunks)
{
	*peers = (struct peers){ .chunks = chunks };
}

void peers_close(struct peers *peers)
{
	free(peers->rows);
	*peers = (struct peers){ 0 };
}

void peers_reset(struct peers *peers)
{
	for (size_t i = 0; i < peers->count; i++)
		peers->rows[i].live = false;
}

static struct peer *row_of(const struct peers *peers, const char *host)
{
	for (size_t i = 0; i < peers->count; i++)
		if (!strcmp(peers->rows[i].host, host))
			return &peers->rows[i];
	return NULL;
}

static struct peer *row_add(struct peers *peers, const char *host)
{
	struct peer *rows = realloc(peers->rows, (peers->count + 1) * sizeof(*rows));

	if (!rows)
		return NULL;
	peers->rows = rows;
	rows[peers->count] = (struct peer){ .index = -ENOENT };
	snprintf(rows[peers->count].host, sizeof(rows->host), "%s", host);
	return &rows[peers->count++];
}

/* Addresses in the catalog are numeric: asking a name server would block the loop. */
static int parse_address(const char *text, uint16_t port, struct sockaddr_storage *address)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	char service[8];

	snprintf(service, sizeof(service), "%u", port);
	if (getaddrinfo(text, service, &hints, &found))
		return -EINVAL;
	memcpy(address, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return 0;
}

static void see(const struct catalog_host *host, void *arg)
{
	struct peers *peers = arg;
	struct sockaddr_storage address = { 0 };
	struct peer *peer;

	if (!host->rdma_address[0] || !strcmp(host->name, peers->chunks->host.name))
		return;
	peer = row_of(peers, host->name);
	if (!peer)
		peer = row_add(peers, host->name);
	if (!peer)
		return;
	peer->seen = true;
	if (peer->live && peer->generation == host->generation && peer->port == host->rdma_port &&
	    !strcmp(peer->address, host->rdma_address))
		return;
	peer->live = true;
	peer->generation = host->generation;
	peer->port = host->rdma_port;
	snprintf(peer->address, sizeof(peer->address), "%s", host->rdma_address);
	peer->index = parse_address(peer->address, peer->port, &address);
	if (!peer->index)
		peer->index = memory_loader_donor_add(peers->chunks->network.loader, peer->host, &address);
	if (peer->index < 0)
		log_warning("donor-refused", LOG_S("host", peer->host),
			    LOG_S("address", peer->address),
			    LOG_S("reason", strerror(-peer->index)));
}

void peers_update(struct peers *peers, const struct catalog *catalog)
{
	if (!peers->chunks->network.loader)
		return;
	catalog_host_each(catalog, see, peers);
	for (size_t i = 0; i < peers->count; i++) {
		struct peer *peer = &peers->rows[i];

		if (peer->live && !peer->seen) {
			peer->live = false;
			if (peer->index >= 0)
				memory_loader_donor_remove(peers->chunks->network.loader,
							   (uint32_t)peer->index);
		}
		peer->seen = false;
	}
}

int peers_find(const struct peers *peers, const char *host)
{
	const struct peer *peer = row_of(peers, host);

	return peer && peer->live ? peer->index : -ENOENT;
}

uint32_t peers_of_chunk(const struct peers *peers, struct catalog *catalog, const uint8_t *digest,
			uint32_t *donors)
{
	struct catalog_holder holders[CATALOG_REPLICAS_MAX];
	size_t count = catalog_chunk_holders(catalog, digest, holders, CATALOG_REPLICAS_MAX);
	uint32_t found = 0;

	if (count > CATALOG_REPLICAS_MAX)
		count = CATALOG_REPLICAS_MAX;
	for (size_t i = 0; i < count && found < MEMORY_REPLICAS_MAX; i++) {
		int index = holders[i].live ? peers_find(peers, holders[i].host) : -ENOENT;

		if (index < 0)
			continue;
		donors[found++] = (uint32_t)index;
	}
	return found;
}
