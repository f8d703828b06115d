/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A cluster and requests for it in the form of Alibaba's cluster-trace-gpu-v2023:
 * nodes as sn,cpu_milli,memory_mib,gpu,model and pods as
 * name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec. Each node is a host with one
 * box of gpus.
 */
#ifndef DISTMIND_SIM_OPENB_H
#define DISTMIND_SIM_OPENB_H

#include "../placement/pool.h"

struct openb_node {
	uint64_t cpu, memory;
	uint32_t gpus;
	uint32_t kind;
};

struct openb {
	struct openb_node *nodes;
	uint32_t node_count;
	struct placement_need *pods;
	uint32_t pod_count;
	char kinds[PLACEMENT_KINDS_MAX][DISTMIND_NAME_LEN];
	uint32_t kind_count;
	uint64_t milli; /* of all gpus */
};

/* 0, or a negative errno with the error told (CSV_ERROR_LEN). */
int openb_read(struct openb *openb, const char *nodes, const char *pods, char *error);
void openb_free(struct openb *openb);

/*
 * A pool of the nodes, each that many times; in the order given by permutation (one
 * number for each node), or in that of the file. NULL: out of memory.
 */
struct placement_pool *openb_pool(const struct openb *openb, uint32_t times,
				  const uint32_t *permutation);

#endif
