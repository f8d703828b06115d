// SPDX-License-Identifier: GPL-2.0-or-later
/* What the memory pool keeps, as distmindd lists it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "reply.h"

/* How many of the models are in this state, and the first of these. */
static unsigned int count_state(const json_t *models, const char *state, const char **first)
{
	unsigned int count = 0;

	for (size_t i = 0; i < json_array_size(models); i++) {
		const json_t *model = json_array_get(models, i);

		if (strcmp(reply_text(model, "state"), state))
			continue;
		if (!count++)
			*first = reply_text(model, "name");
	}
	return count;
}

/* A host that had bytes other than were pushed. */
static const json_t *find_damaged(const json_t *hosts)
{
	for (size_t i = 0; i < json_array_size(hosts); i++)
		if (reply_number(json_array_get(hosts, i), "damaged"))
			return json_array_get(hosts, i);
	return NULL;
}

/* former: this host had another name. */
static void judge(const json_t *models, const json_t *hosts, bool former, struct finding *finding)
{
	size_t all = json_array_size(models);
	const json_t *damaged = find_damaged(hosts);
	const char *name = "";
	unsigned int count;
	char fix[512];

	if ((count = count_state(models, "unreadable", &name))) {
		snprintf(fix, sizeof(fix),
			 "if a newer distmindd pushed it, update this one; else, as root: "
			 "distmindctl model delete %s, and push it again", name);
		doctor_find(finding, DOCTOR_FAIL, fix,
			    "%u of %zu cannot be read, such as %s: until it is gone no host gives "
			    "up what nobody needs any more", count, all, name);
	} else if ((count = count_state(models, "missing", &name))) {
		snprintf(fix, sizeof(fix),
			 "if a host that had it is still starting, wait; else: distmindctl model "
			 "delete %s, and push it again", name);
		doctor_find(finding, DOCTOR_FAIL, fix,
			    "%u of %zu cannot be loaded, such as %s: nobody has all of it", count,
			    all, name);
	} else if ((count = count_state(models, "away", &name))) {
		doctor_find(finding, DOCTOR_FAIL,
			    former ? "see the fix of the catalog: the host that is away is this "
				     "one under its former name" :
				     "start distmindd on the hosts that are away: distmindctl "
				     "host list",
			    "%u of %zu cannot be loaded, such as %s: hosts that have it are away",
			    count, all, name);
	} else if (damaged) {
		doctor_find(finding, DOCTOR_WARN,
			    "look at its memory and disk (dmesg there), then: distmindctl model "
			    "verify NAME",
			    "host %s had %" PRIu64 " chunks with other bytes than were pushed",
			    reply_text(damaged, "name"), reply_number(damaged, "damaged"));
	} else if ((count = count_state(models, "scarce", &name))) {
		snprintf(fix, sizeof(fix),
			 "start more donors or give them more memory, or: distmindctl model replicas "
			 "%s N", name);
		doctor_find(finding, DOCTOR_WARN, fix,
			    "%u of %zu have fewer copies than asked for, such as %s", count, all,
			    name);
	} else {
		doctor_find(finding, DOCTOR_OK, NULL, all ? "%zu, all there" : "none", all);
	}
}

void doctor_check_models(const struct doctor *doctor, struct finding *finding)
{
	const json_t *catalog = json_object_get(doctor->status, "catalog");

	if (!doctor->models)
		doctor_find(finding, DOCTOR_SKIP, NULL,
			    "cannot be told while distmindd does not answer");
	else if (!json_is_true(json_object_get(catalog, "answers")))
		doctor_find(finding, DOCTOR_SKIP, NULL,
			    "cannot be told while the catalog does not answer");
	else
		judge(json_object_get(doctor->models, "models"),
		      json_object_get(doctor->models, "hosts"),
		      json_string_length(json_object_get(catalog, "former")), finding);
}
