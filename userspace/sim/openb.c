// SPDX-License-Identifier: GPL-2.0-or-later
#include "openb.h"

#include "csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CPU_MAX 1000000000ULL
#define MIB_MAX (1ULL << 40)

static int grow(void **rows, uint32_t count, size_t size)
{
	void *grown;

	/* At powers of two. */
	if (count & (count - 1))
		return 0;
	grown = reallocarray(*rows, count ? 2 * (size_t)count : 1, size);
	if (!grown)
		return -ENOMEM;
	*rows = grown;
	return 0;
}

static int find_kind(struct openb *openb, struct csv *csv, int column, const char *name)
{
	for (uint32_t i = 0; i < openb->kind_count; i++)
		if (!strcmp(openb->kinds[i], name))
			return (int)i;
	if (openb->kind_count == PLACEMENT_KINDS_MAX)
		return csv_complain(csv, column, "\"%s\" is one kind of gpu more than %d", name,
				    PLACEMENT_KINDS_MAX);
	if (strlen(name) >= DISTMIND_NAME_LEN)
		return csv_complain(csv, column, "\"%s\" is longer than %d characters", name,
				    DISTMIND_NAME_LEN - 1);
	strcpy(openb->kinds[openb->kind_count], name);
	return (int)openb->kind_count++;
}

static int read_node(struct openb *openb, struct csv *csv, const int *columns)
{
	struct openb_node *node = &openb->nodes[openb->node_count];
	uint64_t gpus, mib;
	int err, kind;

	err = csv_number(csv, columns[0], CPU_MAX, &node->cpu);
	if (!err)
		err = csv_number(csv, columns[1], MIB_MAX, &mib);
	if (!err)
		err = csv_number(csv, columns[2], PLACEMENT_GPUS_MAX, &gpus);
	if (err)
		return err;
	node->memory = mib << 20;
	node->gpus = (uint32_t)gpus;
	node->kind = 0;
	if (gpus) {
		kind = find_kind(openb, csv, columns[3], csv->fields[columns[3]]);
		if (kind < 0)
			return kind;
		node->kind = (uint32_t)kind;
	}
	openb->milli += gpus * PLACEMENT_WHOLE;
	openb->node_count++;
	return 0;
}

static int read_kinds(struct openb *openb, struct csv *csv, int column, uint64_t *kinds)
{
	char *rest = (char *)csv->fields[column], *name;
	int kind;

	while ((name = strsep(&rest, "|"))) {
		if (!*name)
			continue;
		kind = find_kind(openb, csv, column, name);
		if (kind < 0)
			return kind;
		*kinds |= 1ULL << kind;
	}
	return 0;
}

static int read_pod(struct openb *openb, struct csv *csv, const int *columns)
{
	struct placement_need *need = &openb->pods[openb->pod_count];
	uint64_t count, milli = 0, mib;
	int err;

	*need = (struct placement_need){ .same_box = true };
	err = csv_number(csv, columns[0], CPU_MAX, &need->cpu);
	if (!err)
		err = csv_number(csv, columns[1], MIB_MAX, &mib);
	if (!err)
		err = csv_number(csv, columns[2], PLACEMENT_GPUS_MAX, &count);
	if (!err && count)
		err = csv_number(csv, columns[3], PLACEMENT_WHOLE, &milli);
	if (err)
		return err;
	if (count && !milli)
		return csv_complain(csv, columns[3], "0 of a gpu: write 1 to %u", PLACEMENT_WHOLE);
	need->memory = mib << 20;
	need->count = (uint32_t)count;
	need->share = count > 1 ? PLACEMENT_WHOLE : (uint32_t)milli;
	if (count && columns[4] >= 0)
		err = read_kinds(openb, csv, columns[4], &need->kinds);
	if (!err)
		openb->pod_count++;
	return err;
}

static int read_nodes(struct openb *openb, const char *path, char *error)
{
	static const char *const names[] = { "cpu_milli", "memory_mib", "gpu", "model" };
	int columns[4], err;
	struct csv csv;

	err = csv_open(&csv, path, error);
	if (err)
		return err;
	for (int i = 0; i < 4 && !err; i++) {
		columns[i] = csv_column(&csv, names[i]);
		err = columns[i] < 0 ? columns[i] : 0;
	}
	while (!err && (err = csv_next(&csv)) > 0) {
		err = grow((void **)&openb->nodes, openb->node_count, sizeof(*openb->nodes));
		if (!err)
			err = read_node(openb, &csv, columns);
	}
	if (!err && !openb->milli)
		err = csv_complain(&csv, -1, "there are no gpus in the file");
	csv_close(&csv);
	return err;
}

static int read_pods(struct openb *openb, const char *path, char *error)
{
	static const char *const names[] = { "cpu_milli", "memory_mib", "num_gpu", "gpu_milli" };
	uint64_t milli = 0;
	int columns[5], err;
	struct csv csv;

	err = csv_open(&csv, path, error);
	if (err)
		return err;
	for (int i = 0; i < 4 && !err; i++) {
		columns[i] = csv_column(&csv, names[i]);
		err = columns[i] < 0 ? columns[i] : 0;
	}
	columns[4] = csv_optional(&csv, "gpu_spec");
	while (!err && (err = csv_next(&csv)) > 0) {
		err = grow((void **)&openb->pods, openb->pod_count, sizeof(*openb->pods));
		if (!err)
			err = read_pod(openb, &csv, columns);
		if (!err)
			milli += placement_need_milli(&openb->pods[openb->pod_count - 1]);
	}
	if (!err && !milli)
		err = csv_complain(&csv, -1, "no pod of the file asks for a gpu");
	csv_close(&csv);
	return err;
}

int openb_read(struct openb *openb, const char *nodes, const char *pods, char *error)
{
	int err;

	*openb = (struct openb){ 0 };
	snprintf(error, CSV_ERROR_LEN, "out of memory");
	err = read_nodes(openb, nodes, error);
	if (!err)
		err = read_pods(openb, pods, error);
	if (err)
		openb_free(openb);
	return err;
}

void openb_free(struct openb *openb)
{
	free(openb->nodes);
	free(openb->pods);
	*openb = (struct openb){ 0 };
}

static int add_node(struct placement_pool *pool, const struct openb_node *node)
{
	struct placement_gpu_offer offer = { .kind = node->kind, .share = PLACEMENT_WHOLE };
	int added = placement_pool_add_host(pool, node->cpu, node->memory);

	if (added >= 0)
		added = placement_pool_add_box(pool, (uint32_t)added, 0, 0);
	if (added < 0)
		return added;
	offer.box = (uint32_t)added;
	offer.id = pool->gpus.count;
	for (uint32_t i = 0; i < node->gpus && added >= 0; i++, offer.id++)
		added = placement_pool_add_gpu(pool, &offer);
	return added;
}

struct placement_pool *openb_pool(const struct openb *openb, uint32_t times,
				  const uint32_t *permutation)
{
	struct placement_pool *pool = placement_pool_new();
	int added = 0;

	if (!pool)
		return NULL;
	for (uint32_t i = 0; i < openb->kind_count && added >= 0; i++)
		added = placement_pool_add_kind(pool, openb->kinds[i]);
	for (uint32_t t = 0; t < times; t++)
		for (uint32_t i = 0; i < openb->node_count && added >= 0; i++)
			added = add_node(pool,
					 &openb->nodes[permutation ? permutation[i] : i]);
	if (added >= 0)
		return pool;
	placement_pool_free(pool);
	return NULL;
}
