// SPDX-License-Identifier: GPL-2.0-or-later
#include "place_plan.h"

#include "../placement/reason.h"
#include "../placement/scan.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PLACES_MAX 64
/* Terms below it are not worth the room. */
#define TERM_SHOWN 0.005

static json_t *describe_need(const struct placement_need *need)
{
	return json_pack("{s:i, s:i, s:f}", "gpus", (int)need->count, "share", (int)need->share,
			 "cpus", (double)need->cpu / 1000);
}

static json_t *describe_gpus(const struct placement_pool *pool, uint32_t box, const uint32_t *gpus,
			     uint32_t count)
{
	json_t *ids = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(ids, json_integer(pool->gpus.rows[gpus[i]].id));
	return json_pack("{s:i, s:o}", "box", (int)pool->boxes.rows[box].id, "gpus", ids);
}

static json_t *describe_place(const struct placement_pool *pool,
			      const struct placement_candidate *place, uint32_t count)
{
	json_t *object = describe_gpus(pool, place->box, place->gpus, count);
	json_t *terms = json_object();

	if (count)
		json_object_set_new(
			object, "kind",
			json_string(pool->kinds[pool->gpus.rows[place->gpus[0]].kind].name));
	for (int i = 0; i < PLACEMENT_TERMS; i++)
		if (fabs(place->score.terms[i]) >= TERM_SHOWN)
			json_object_set_new(terms, placement_term_names[i],
					    json_real(place->score.terms[i]));
	json_object_set_new(object, "cost", json_real(place->score.total));
	json_object_set_new(object, "terms", terms);
	return object;
}

int place_plan_explain(struct placement *placement, const struct placement_need *need,
		       uint32_t places, json_t **answer)
{
	struct placement_claim claim = { .need = *need };
	struct placement_candidate best[PLACES_MAX];
	char reason[DISTMIND_REASON_LEN];
	json_t *array;
	int count;

	count = placement_explain(placement, &claim, best,
				  places < PLACES_MAX ? places : PLACES_MAX);
	if (count < 0)
		return count;
	array = json_array();
	for (int i = 0; i < count; i++)
		json_array_append_new(array, describe_place(placement->pool, &best[i],
							    need->count));
	*answer = json_pack("{s:o, s:o}", "need", describe_need(need), "places", array);
	if (!*answer)
		return -ENOMEM;
	if (!count) {
		placement_reason(placement->pool, &claim, reason);
		json_object_set_new(*answer, "reason", json_string(reason));
	}
	return 0;
}

static json_t *describe_move(const struct placement_pool *pool, const struct placement_move *move)
{
	uint32_t count = move->claim.need.count;
	json_t *to = move->to_box == PLACEMENT_NONE ?
			     json_null() :
			     describe_gpus(pool, move->to_box, move->to, count);

	return json_pack("{s:i, s:o, s:o, s:o, s:s}", "grant", (int)move->grant, "need",
			 describe_need(&move->claim.need), "from",
			 describe_gpus(pool, move->from_box, move->from, count), "to", to, "why",
			 move->why);
}

/* Makes the plan that a word and a number ask for. */
static int make(struct placement *placement, const char *word, size_t len, uint32_t number,
		struct placement_plan *plan)
{
	const struct placement_pool *pool = placement->pool;

	if (len == 6 && !strncmp(word, "repack", len))
		return placement_repack(placement, number, plan);
	if (len == 3 && !strncmp(word, "gpu", len) && number < pool->gpus.count)
		return placement_recover_gpu(placement, number, plan);
	if (len == 3 && !strncmp(word, "box", len) && number < pool->boxes.count)
		return placement_recover_box(placement, number, plan);
	if (len == 4 && !strncmp(word, "host", len) && number < pool->hosts.count)
		return placement_recover_host(placement, number, plan);
	return -EINVAL;
}

int place_plan_make(struct placement *placement, const char *what, json_t **answer)
{
	struct placement_plan plan = PLACEMENT_PLAN_EMPTY;
	size_t len = strcspn(what, ":");
	json_t *moves = NULL;
	unsigned long number;
	char *end;
	int err;

	errno = 0;
	number = what[len] ? strtoul(what + len + 1, &end, 10) : 0;
	if (!what[len] || errno || end == what + len + 1 || *end || number > UINT32_MAX ||
	    what[len + 1] == '-')
		return -EINVAL;
	err = make(placement, what, len, (uint32_t)number, &plan);
	if (!err) {
		moves = json_array();
		for (uint32_t i = 0; i < plan.count; i++)
			json_array_append_new(moves,
					      describe_move(placement->pool, &plan.moves[i]));
		*answer = json_pack("{s:s, s:o, s:i, s:i, s:i}", "plan", what, "moves", moves,
				    "moved", (int)(plan.count - plan.stranded), "stranded",
				    (int)plan.stranded, "freed", (int)plan.freed);
		err = *answer ? 0 : -ENOMEM;
	}
	placement_plan_undo(&plan, placement);
	placement_plan_free(&plan);
	return err;
}

/*
 * As text
 */

static int integer(const json_t *object, const char *key)
{
	return (int)json_integer_value(json_object_get(object, key));
}

static void print_need(FILE *stream, const json_t *need)
{
	if (integer(need, "gpus"))
		fprintf(stream, "%d x %d/1000, ", integer(need, "gpus"), integer(need, "share"));
	fprintf(stream, "%.4g cpus", json_real_value(json_object_get(need, "cpus")));
}

static void print_gpus(FILE *stream, const json_t *place)
{
	json_t *gpu;
	size_t i;

	fprintf(stream, "box %d", integer(place, "box"));
	json_array_foreach(json_object_get(place, "gpus"), i, gpu)
		fprintf(stream, "%s%d", i ? "," : " gpu ", (int)json_integer_value(gpu));
}

void place_plan_print_places(FILE *stream, const json_t *answer)
{
	json_t *place, *kind, *term;
	const char *name;
	size_t i;

	print_need(stream, json_object_get(answer, "need"));
	if (json_object_get(answer, "reason")) {
		fprintf(stream, ": %s\n", json_string_value(json_object_get(answer, "reason")));
		return;
	}
	fputs(": thousandths of a gpu that a place costs, the least first\n", stream);
	json_array_foreach(json_object_get(answer, "places"), i, place) {
		fprintf(stream, "%9.2f  ", json_real_value(json_object_get(place, "cost")));
		print_gpus(stream, place);
		kind = json_object_get(place, "kind");
		if (kind)
			fprintf(stream, " (%s)", json_string_value(kind));
		fputs(":", stream);
		json_object_foreach(json_object_get(place, "terms"), name, term)
			fprintf(stream, " %s %.2f", name, json_real_value(term));
		fputc('\n', stream);
	}
}

void place_plan_print_moves(FILE *stream, const json_t *answer)
{
	json_t *move, *to;
	size_t i;

	json_array_foreach(json_object_get(answer, "moves"), i, move) {
		fprintf(stream, "grant %d (", integer(move, "grant"));
		print_need(stream, json_object_get(move, "need"));
		fputs("): ", stream);
		print_gpus(stream, json_object_get(move, "from"));
		fputs(" -> ", stream);
		to = json_object_get(move, "to");
		if (json_is_null(to))
			fputs("nowhere", stream);
		else
			print_gpus(stream, to);
		fprintf(stream, ": %s\n", json_string_value(json_object_get(move, "why")));
	}
	fprintf(stream, "%s: %d moves, %d without a place, %d gpus freed\n",
		json_string_value(json_object_get(answer, "plan")), integer(answer, "moved"),
		integer(answer, "stranded"), integer(answer, "freed"));
}
