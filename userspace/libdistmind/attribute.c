// SPDX-License-Identifier: MIT
#include "attribute.h"

#include "distmind.h"

#include <stddef.h>

/*
 * Those that claims have; nobody is blamed for the others. Not the ids: what
 * is wrong with an id is that there is no such object, and the text says which.
 */
static const char *const gpu[] = {
	[DISTMIND_A_GPU_DRAIN] = "drain",
	[DISTMIND_A_GPU_POLICY] = "policy",
	[DISTMIND_A_GPU_HANG] = "hang",
	[DISTMIND_A_GPU_GRACE] = "grace",
};

static const char *const vgpu[] = {
	[DISTMIND_A_VGPU_NAME] = "name",
	[DISTMIND_A_VGPU_GPU] = "gpu",
	[DISTMIND_A_VGPU_UID] = "uid",
	[DISTMIND_A_VGPU_GID] = "gid",
	[DISTMIND_A_VGPU_MEMORY] = "memory",
	[DISTMIND_A_VGPU_SHARE] = "share",
	[DISTMIND_A_VGPU_CLASS] = "class",
	[DISTMIND_A_VGPU_OBJECTIVE] = "objective",
	[DISTMIND_A_VGPU_CAPPED] = "capped",
};

static const char *const claim[] = {
	[DISTMIND_A_CLAIM_GPU] = "gpu",
	[DISTMIND_A_CLAIM_ERROR] = "error",
	[DISTMIND_A_CLAIM_REASON] = "reason",
};

static const char *const extents[] = {
	[DISTMIND_A_EXTENTS_TIMELINE] = "timeline",
	[DISTMIND_A_EXTENTS_EXTENT] = "extent",
};

#define NAME(set, attribute)                                                          \
	((attribute) >= 0 && (attribute) < (int)(sizeof(set) / sizeof((set)[0])) ?    \
		 (set)[attribute] :                                                   \
		 NULL)

const char *distmind_attribute_name(uint8_t command, int attribute)
{
	switch (command) {
	case DISTMIND_CMD_GPU_SET:
		return NAME(gpu, attribute);
	case DISTMIND_CMD_VGPU_NEW:
	case DISTMIND_CMD_VGPU_SET:
		return NAME(vgpu, attribute);
	case DISTMIND_CMD_CLAIM_ANSWER:
		return NAME(claim, attribute);
	case DISTMIND_CMD_EXTENTS_ADD:
		return NAME(extents, attribute);
	default:
		return NULL;
	}
}
