// SPDX-License-Identifier: GPL-2.0-or-later
#include "network.h"

#include "../../model/chunk.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PEERS MEMORY_DONORS_MAX /* all hosts that a pool can have */
#define HOST_PEERS 4 /* one is enough; more if the ends of others are not known yet */
#define PINS 4096
#define DEPTH 16
#define READ_SIZE (1U << 20)

static int open_donor(struct network *network, const struct network_request *request, char *reason)
{
	struct memory_donor_options options = {
		.peers = PEERS, .host_peers = HOST_PEERS, .pins = PINS,
		.suspected = request->suspected, .expelled = request->expelled,
		.arg = request->arg,
	};
	struct model_digest id;
	int err;

	err = memory_fabric_resolve(request->address, request->port, &options.address, reason);
	if (err)
		return err;
	if (!model_digest_make(request->name, strlen(request->name), &id))
		memcpy(options.id, id.bytes, sizeof(options.id));
	return memory_donor_start(&network->donor, network->fabric, request->arena, &options,
				  reason);
}

static int open_loader(struct network *network, const struct network_request *request,
		       char *reason)
{
	struct memory_loader_options options = {
		.depth = DEPTH, .read_size = READ_SIZE, .donor_changed = request->donor_changed,
		.damaged = request->damaged, .arg = request->arg,
	};
	int err = memory_loader_open(&network->loader, network->fabric, &options, reason);

	if (err)
		return err;
	return memory_registration_begin(&network->registration, network->fabric,
					 memory_arena_base(request->arena),
					 memory_arena_size(request->arena), -1, reason);
}

int network_open(struct network *network, const struct network_request *request,
		 char reason[MEMORY_REASON_LEN])
{
	const char *device = request->device[0] ? request->device : request->address;
	int err = -ENODEV;

	*network = (struct network){ 0 };
	snprintf(reason, MEMORY_REASON_LEN,
		 "this host has no address beside loopback: give it one in [host]");
	if (request->address[0])
		err = memory_fabric_open(&network->fabric, device, reason);
	if (!err)
		err = open_donor(network, request, reason);
	if (!err)
		err = open_loader(network, request, reason);
	if (err)
		network_close(network);
	return err;
}

void network_move(struct network *from, struct network *to)
{
	to->fabric = from->fabric;
	to->donor = from->donor;
	to->loader = from->loader;
	memory_registration_move(&from->registration, &to->registration);
	*from = (struct network){ 0 };
}

void network_stop(struct network *network)
{
	memory_loader_close(network->loader);
	network->loader = NULL;
}

void network_detach(struct network *network, struct network *to)
{
	memory_fabric_take(network->fabric);
	network_move(network, to);
}

void network_shut(struct network *network)
{
	network_stop(network);
	memory_donor_stop(network->donor);
	network->donor = NULL;
	memory_registration_end(&network->registration);
	memory_fabric_stop(network->fabric);
}

void network_close(struct network *network)
{
	network_shut(network);
	memory_fabric_close(network->fabric);
	*network = (struct network){ 0 };
}
