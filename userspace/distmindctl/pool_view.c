// SPDX-License-Identifier: GPL-2.0-or-later
#include "pool_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../distmindd/common/config.h"
#include "../placement/records.h"

/* Room for one row more; NULL: no memory. */
static void *add_row(void **rows, uint32_t *count, uint32_t *room, size_t size)
{
	uint32_t wanted = *room ? 2 * *room : 16;
	void *grown;

	if (*count == *room) {
		grown = reallocarray(*rows, wanted, size);
		if (!grown)
			return NULL;
		*rows = grown;
		*room = wanted;
	}
	return (char *)*rows + size * (*count)++;
}

static int add_gpu(const struct distmind_gpu_record *gpu, void *arg)
{
	struct pool_view *view = arg;
	struct distmind_gpu_record *row = add_row((void **)&view->gpus, &view->gpu_count,
						  &view->gpu_room, sizeof(*row));

	if (!row)
		return -ENOMEM;
	*row = *gpu;
	return 0;
}

static int add_vgpu(const struct distmind_vgpu_record *vgpu, void *arg)
{
	struct pool_view *view = arg;
	struct distmind_vgpu_record *row = add_row((void **)&view->vgpus, &view->vgpu_count,
						   &view->vgpu_room, sizeof(*row));

	if (!row)
		return -ENOMEM;
	*row = *vgpu;
	return 0;
}

static int fill_gpus(struct pool_view *view, const struct config *config)
{
	struct placement_rules rules = {
		.share = config->share_overcommit,
		.memory = config->memory_overcommit,
		.spares = config->spares,
	};
	int added = 0;

	for (uint32_t i = 0; i < view->gpu_count && added >= 0; i++)
		added = placement_records_add_gpu(view->pool, &view->gpus[i], &rules);
	return added < 0 ? added : 0;
}

static int fill_vgpus(struct pool_view *view)
{
	int added;

	for (uint32_t i = 0; i < view->vgpu_count; i++) {
		uint32_t gpu = 0;

		view->grants[i] = PLACEMENT_NONE;
		while (gpu < view->gpu_count && view->gpus[gpu].id != view->vgpus[i].gpu)
			gpu++;
		if (gpu == view->gpu_count)
			continue;
		added = placement_records_add_vgpu(view->pool, &view->vgpus[i], &view->gpus[gpu],
						   gpu);
		if (added == -ENOENT)
			continue;
		if (added < 0)
			return added;
		view->grants[i] = (uint32_t)added;
	}
	return 0;
}

static int fill(struct pool_view *view, const struct config *config)
{
	int err;

	view->grants = calloc(view->vgpu_count + 1, sizeof(*view->grants));
	view->pool = placement_pool_new();
	if (!view->grants || !view->pool)
		return -ENOMEM;
	err = fill_gpus(view, config);
	if (!err)
		err = fill_vgpus(view);
	if (!err)
		err = placement_init(&view->placement, view->pool, config->policy, 1);
	for (uint32_t i = 0; i < view->vgpu_count && !err; i++) {
		struct placement_need need = placement_records_need(&view->vgpus[i]);

		if (!placement_records_is_weights(&view->vgpus[i]))
			placement_observe(&view->placement, &need);
	}
	return err;
}

int pool_view_open(struct ctl *ctl, struct pool_view *view)
{
	const char *path = ctl->daemon_config ? ctl->daemon_config : CONFIG_FILE;
	char error[CONFIG_ERROR_LEN] = "";
	struct config config;
	int ret;

	*view = (struct pool_view){ 0 };
	/* Without it a user sees vgpus of his own only, and gpus would seem to be free. */
	ret = ctl_need_admin(ctl, "cannot see what is promised to others");
	if (ret)
		return ret;
	config_default(&config);
	ret = config_read(path, &config, error);
	if (ret && ret != -ENOENT)
		return ctl_fail(ctl, "%s", error);
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ret = distmind_pool_gpus(ctl->pool, add_gpu, view);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the gpus");
	ret = distmind_pool_vgpus(ctl->pool, add_vgpu, view);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot list the vgpus");
	ret = fill(view, &config);
	if (ret)
		return ctl_fail(ctl, "cannot picture the pool: %s; free memory and try again",
				strerror(-ret));
	return CTL_OK;
}

void pool_view_close(struct pool_view *view)
{
	if (view->pool)
		placement_free(&view->placement);
	placement_pool_free(view->pool);
	free(view->grants);
	free(view->vgpus);
	free(view->gpus);
	*view = (struct pool_view){ 0 };
}

const struct distmind_vgpu_record *pool_view_holder(const struct pool_view *view, uint32_t grant)
{
	for (uint32_t i = 0; i < view->vgpu_count; i++)
		if (view->grants[i] == grant)
			return &view->vgpus[i];
	return NULL;
}

uint32_t pool_view_grant(const struct pool_view *view, uint32_t id)
{
	for (uint32_t i = 0; i < view->vgpu_count; i++)
		if (view->vgpus[i].id == id)
			return view->grants[i];
	return PLACEMENT_NONE;
}
