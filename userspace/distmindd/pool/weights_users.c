// SPDX-License-Identifier: GPL-2.0-or-later
/* Who uses which weights, and where they are. */
#include "weights_state.h"

size_t weights_places(const struct weights *weights, struct weights_place *places, size_t room)
{
	const struct weights_device *device;
	const struct resident *resident;
	size_t count = 0;

	for (device = weights->devices; device; device = device->next)
		for (resident = device->residents; resident && count < room;
		     resident = resident->next)
			if (resident->state == RESIDENT_READY &&
			    weights_find_resident(device, resident->manifest) == resident)
				places[count++] = (struct weights_place){
					.manifest = resident->manifest, .gpu = device->gpu,
				};
	return count;
}

static void tell_users(const struct resident *resident, uint32_t gpu,
		       void (*each)(const struct weights_user *user, void *arg), void *arg)
{
	const struct weights_use *use, *other;

	LIST_FOREACH(use, &resident->uses, link) {
		struct weights_user user = {
			.gpu = gpu, .vgpu = use->vgpu, .uid = use->uid,
			.loading = resident->state == RESIDENT_LOADING,
		};
		bool first = true;

		LIST_FOREACH(other, &resident->uses, link) {
			if (other->preload || other->vgpu != use->vgpu)
				continue;
			first &= user.uses || other == use;
			user.uses++;
		}
		if (first && !use->preload)
			each(&user, arg);
	}
}

void weights_each_user(const struct weights *weights, const struct manifest *manifest,
		       void (*each)(const struct weights_user *user, void *arg), void *arg)
{
	const struct weights_device *device;
	const struct resident *resident;

	for (device = weights->devices; device; device = device->next)
		for (resident = device->residents; resident; resident = resident->next)
			if (resident->manifest == manifest)
				tell_users(resident, device->gpu, each, arg);
}
