// SPDX-License-Identifier: GPL-2.0-or-later
#include "donors.h"

#include <errno.h>
#include <stdlib.h>

static int by_id(const void *a, const void *b, void *arg)
{
	const struct sharding_donor *list = arg;
	uint64_t x = list[*(const uint32_t *)a].id, y = list[*(const uint32_t *)b].id;

	return (x > y) - (x < y);
}

static int check_chunks(const struct sharding_chunk *chunks, size_t count)
{
	if (count >= UINT32_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		if (!chunks[i].size || chunks[i].copies > SHARDING_COPIES_MAX ||
		    (i && chunks[i].group < chunks[i - 1].group))
			return -EINVAL;
	return 0;
}

int sharding_donors_create(struct sharding_donors *donors, const struct sharding_donor *list,
			   size_t count, const struct sharding_chunk *chunks, size_t chunk_count)
{
	int err = check_chunks(chunks, chunk_count);

	if (err)
		return err;
	if (!count || count >= UINT32_MAX)
		return -EINVAL;
	for (size_t i = 0; i < count; i++)
		if (!(list[i].bandwidth > 0 && list[i].bandwidth <= SHARDING_BANDWIDTH_MAX))
			return -EINVAL;
	*donors = (struct sharding_donors){
		.list = list, .count = (uint32_t)count,
		.by_id = calloc(count, sizeof(*donors->by_id)),
	};
	if (!donors->by_id)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		donors->by_id[i] = i;
	qsort_r(donors->by_id, count, sizeof(*donors->by_id), by_id, (void *)list);
	for (size_t i = 1; i < count; i++)
		if (list[donors->by_id[i - 1]].id == list[donors->by_id[i]].id) {
			sharding_donors_destroy(donors);
			return -EINVAL;
		}
	return 0;
}

void sharding_donors_destroy(struct sharding_donors *donors)
{
	free(donors->by_id);
	*donors = (struct sharding_donors){ 0 };
}

uint32_t sharding_donors_find(const struct sharding_donors *donors, uint64_t id)
{
	uint32_t low = 0, high = donors->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (donors->list[donors->by_id[middle]].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	if (low < donors->count && donors->list[donors->by_id[low]].id == id)
		return donors->by_id[low];
	return SHARDING_NOBODY;
}
