// SPDX-License-Identifier: GPL-2.0-or-later
#include "sharding.h"

#include <stdbool.h>

/* The room that is shared out. */
struct room {
	uint32_t most; /* copies of a model */
	uint64_t left; /* bytes */
};

/* One more copy of each model that is asked for and has all before it, as far as they fit. */
static void grant(struct room *room, struct sharding_model *models, size_t count, uint32_t which,
		  bool there, uint64_t least)
{
	for (size_t i = 0; i < count; i++) {
		struct sharding_model *model = &models[i];
		uint32_t copies = model->replicas + which;

		if (model->extra + 1 != which || model->asked < which || copies > room->most ||
		    (model->copies >= copies) != there || room->left < least ||
		    room->left - least < model->bytes)
			continue;
		model->extra++;
		room->left -= model->bytes;
	}
}

void sharding_extra(struct sharding_model *models, size_t count, uint32_t donors,
		    uint64_t memory, uint64_t needed)
{
	struct room room = {
		.most = donors < SHARDING_COPIES_MAX ? donors : SHARDING_COPIES_MAX,
		.left = memory > needed ? memory - needed : 0,
	};

	for (size_t i = 0; i < count; i++)
		models[i].extra = 0;
	for (uint32_t which = 1; which < room.most; which++) {
		grant(&room, models, count, which, true, memory / SHARDING_FREE_TO_STAY);
		grant(&room, models, count, which, false, memory / SHARDING_FREE_TO_GROW);
	}
}
