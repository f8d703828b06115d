// SPDX-License-Identifier: GPL-2.0-or-later
#include "heat.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Two loads never count more than two; three do if each is within 0.69 half-lives. */
#define HOT 2.0
#define COLD 0.5
/* What is counted at most: from here it takes four half-lives to get cold. */
#define COUNT_MAX 8.0

void heat_init(struct heat *heat, uint64_t half_life_us)
{
	*heat = (struct heat){ .half_life_us = half_life_us };
}

static void cool(struct heat *heat, uint64_t now_us)
{
	double left = exp2(-(double)(now_us - heat->us) / (double)heat->half_life_us);

	heat->us = now_us;
	for (size_t i = 0; i < HEAT_MODELS; i++) {
		heat->models[i].count *= left;
		if (heat->models[i].count < COLD)
			heat->models[i].hot = false;
	}
}

static struct heat_model *find(struct heat *heat, const char *name)
{
	for (size_t i = 0; i < HEAT_MODELS; i++)
		if (!strcmp(heat->models[i].name, name))
			return &heat->models[i];
	return NULL;
}

/* In the place of the coldest. */
static struct heat_model *add(struct heat *heat, const char *name)
{
	struct heat_model *coldest = &heat->models[0];

	for (size_t i = 1; i < HEAT_MODELS; i++)
		if (heat->models[i].count < coldest->count)
			coldest = &heat->models[i];
	*coldest = (struct heat_model){ 0 };
	snprintf(coldest->name, sizeof(coldest->name), "%s", name);
	return coldest;
}

void heat_load(struct heat *heat, const char *name, bool read, uint64_t now_us)
{
	struct heat_model *model = find(heat, name);

	cool(heat, now_us);
	if (!read && (!model || !model->hot))
		return;
	if (!model)
		model = add(heat, name);
	model->count = fmin(model->count + 1, COUNT_MAX);
	if (model->count > HOT)
		model->hot = true;
}

size_t heat_hot(struct heat *heat, uint64_t now_us, const char **names)
{
	size_t count = 0;

	cool(heat, now_us);
	for (size_t i = 0; i < HEAT_MODELS && count < CATALOG_HOT_MAX; i++)
		if (heat->models[i].hot)
			names[count++] = heat->models[i].name;
	return count;
}
