// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * "distmindctl pool explain": what placement would answer to a claim, or for a vgpu that is
 * there; every place that would do with the terms of its score, and why the others would not.
 * A place is a gpu, or for several gpus of one box a box.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../common/size.h"
#include "../placement/reason.h"
#include "../placement/records.h"
#include "../placement/scan.h"
#include "noun.h"
#include "parse.h"
#include "pool_view.h"
#include "terms.h"

struct question {
	const char *vgpu; /* NULL: a claim */
	const char *kind; /* NULL: any */
	struct terms terms;
	uint32_t count; /* 0: one, without saying so */
	bool same_box;
};

struct explanation {
	struct ctl *ctl;
	const struct pool_view *view;
	struct placement_claim claim;
	bool by_box; /* places are boxes */
	uint32_t here; /* the gpu that it is on, or PLACEMENT_NONE */
	struct placement_answer answer;
	int refused; /* of the answer */
	bool no_kind; /* the pool has never had the one that is wanted */
	struct placement_candidate *candidates;
	uint32_t count;
	bool shown[PLACEMENT_TERMS]; /* terms that some place has */
	struct print print;
};

/* False: the command ends with ctl->status. */
static bool parse(struct ctl *ctl, int argc, char **argv, struct question *question)
{
	const struct ctl_option known[] = {
		TERMS_OPTIONS(&question->terms),
		{ "kind", option_label, .to = &question->kind },
		{ "count", option_number, .to = &question->count,
		  .min = 1, .max = DISTMIND_ACQUIRE_MAX },
		{ "same-box", option_flag, .to = &question->same_box },
		{ 0 },
	};

	argc = ctl_options(ctl, argc, &argv, known, CTL_ANY);
	if (argc < 0)
		return false;
	question->vgpu = argv[0];
	if (argc > 1)
		ctl->status = ctl_usage(ctl, "explain needs one vgpu, not %d", argc);
	else if (!argc)
		ctl->status = terms_complete(ctl, &question->terms);
	else if (question->terms.fields || question->kind || question->count ||
		 question->same_box)
		ctl->status = ctl_usage(ctl, "a vgpu has its terms: explain it, or a claim");
	else
		ctl->status = CTL_OK;
	return ctl->status == CTL_OK;
}

/*
 * The places
 */

static bool chosen(const struct explanation *explanation, uint32_t gpu)
{
	for (uint32_t i = 0; !explanation->refused && i < explanation->answer.count; i++)
		if (explanation->answer.gpus[i] == gpu)
			return true;
	return false;
}

/* Why a gpu cannot have a part of the claim. */
static void say_unfit(const struct explanation *explanation, uint32_t number, char *text,
		      size_t len)
{
	const struct placement_need *need = &explanation->claim.need;
	const struct placement_pool *pool = explanation->view->pool;
	const struct placement_gpu *gpu = &pool->gpus.rows[number];
	char size[SIZE_TEXT_LEN], share[16];

	size_format(gpu->memory_one, size, sizeof(size));
	share_format(placement_gpu_share_left(gpu), share, sizeof(share));
	if (gpu->state != PLACEMENT_READY) {
		snprintf(text, len, "is %s",
			 distmind_gpu_state_name(explanation->view->gpus[number].state));
	} else if (explanation->no_kind ||
		   (need->kinds && !(need->kinds & 1ULL << gpu->kind))) {
		snprintf(text, len, "is of kind %s", pool->kinds[gpu->kind].name);
	} else if (gpu->memory_one < need->gpu_memory) {
		snprintf(text, len, "has only %s of memory", size);
	} else if (placement_gpu_memory_left(gpu) < need->gpu_memory) {
		size_format(placement_gpu_memory_left(gpu), size, sizeof(size));
		snprintf(text, len, "has %s of memory left", size);
	} else if (placement_gpu_share_left(gpu) < need->share) {
		snprintf(text, len, "has %s left", share);
	} else {
		snprintf(text, len, "would do by itself");
	}
}

static void say_unfit_box(const struct explanation *explanation, uint32_t box, char *text,
			  size_t len)
{
	const struct placement_pool *pool = explanation->view->pool;
	uint32_t fit = 0;

	placement_each_gpu(pool, box, number) {
		const struct placement_gpu *gpu = &pool->gpus.rows[number];
		struct placement_hole hole = placement_gpu_hole(gpu);

		fit += gpu->state == PLACEMENT_READY && !explanation->no_kind &&
		       placement_fits_hole(pool, &hole, &explanation->claim.need);
	}
	snprintf(text, len, "has %u of %u gpus that would do", fit,
		 explanation->claim.need.count);
}

/* What a place costs beyond what was chosen, and what for. */
static void say_lost(const struct explanation *explanation,
		     const struct placement_candidate *candidate, char *text, size_t len)
{
	const struct placement_policy *policy = explanation->view->placement.policy;
	const struct placement_score *best = &explanation->candidates[0].score;
	double more = candidate->score.total - best->total, most = 0;
	int term = -1;

	if (policy->score) {
		snprintf(text, len, "would do; policy %s takes another", policy->name);
		return;
	}
	for (int i = 0; i < PLACEMENT_TERMS; i++)
		if (candidate->score.terms[i] - best->terms[i] > most) {
			most = candidate->score.terms[i] - best->terms[i];
			term = i;
		}
	if (more <= 0 || term < 0)
		snprintf(text, len, "would do as well; the first is taken");
	else
		snprintf(text, len, "would do; costs %.2f more, most of it for %s", more,
			 placement_term_names[term]);
}

/*
 * Output
 */

/* In thousandths of a gpu for people, in millionths as a whole number in JSON; NULL: none. */
static void print_cost(struct print *print, const char *key, const char *heading,
		       const double *cost)
{
	char text[32];

	if (print->json && cost) {
		print_number(print, key, heading, llround(*cost * 1000));
	} else if (print->json) {
		print_none(print, key, heading);
	} else {
		if (cost)
			snprintf(text, sizeof(text), "%8.2f", *cost);
		else
			snprintf(text, sizeof(text), "%8s", "-");
		print_text(print, key, heading, text);
	}
}

static void print_gpus(struct explanation *explanation, const uint32_t *gpus, uint32_t count)
{
	char text[DISTMIND_ACQUIRE_MAX * 11 + 1] = "";
	uint64_t ids[DISTMIND_ACQUIRE_MAX];
	size_t len = 0;

	for (uint32_t i = 0; i < count; i++) {
		ids[i] = explanation->view->gpus[gpus[i]].id;
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%" PRIu64,
					i ? "," : "", ids[i]);
	}
	if (!explanation->print.json)
		print_text(&explanation->print, "gpus", "GPU", text);
	else if (count)
		print_latency(&explanation->print, "gpus", NULL, ids, count);
	else
		print_none(&explanation->print, "gpus", NULL);
}

/* score NULL: it would not do. */
static void print_place(struct explanation *explanation, const uint32_t *gpus, uint32_t count,
			uint32_t box, const struct placement_score *score, const char *verdict,
			const char *why)
{
	struct print *print = &explanation->print;
	char key[32], heading[16];

	print_row_open(print);
	print_gpus(explanation, gpus, count);
	print_number(print, "box", "BOX", explanation->view->pool->boxes.rows[box].id);
	print_state(print, "verdict", "VERDICT", verdict,
		    !strcmp(verdict, "chosen") ? PRINT_COLOUR_GOOD :
		    score		       ? PRINT_COLOUR_NONE :
						 PRINT_COLOUR_WARN);
	print_cost(print, "cost_ppm", "COST", score ? &score->total : NULL);
	for (int i = 0; i < PLACEMENT_TERMS; i++) {
		if (!explanation->shown[i] && !print->json)
			continue;
		snprintf(key, sizeof(key), "%s_ppm", placement_term_names[i]);
		snprintf(heading, sizeof(heading), "%s", placement_term_names[i]);
		for (char *c = heading; *c; c++)
			*c = (char)toupper((unsigned char)*c);
		print_cost(print, key, heading, score ? &score->terms[i] : NULL);
	}
	print_text(print, "why", "WHY", why);
	print_row_close(print);
}

static void print_candidates(struct explanation *explanation)
{
	const struct placement_policy *policy = explanation->view->placement.policy;
	uint32_t gpus = explanation->by_box ? explanation->claim.need.count : 1;
	char why[128];

	for (uint32_t i = 0; i < explanation->count; i++) {
		const struct placement_candidate *place = &explanation->candidates[i];
		const uint32_t *taken = place->gpus;
		bool is_chosen = chosen(explanation, taken[0]);

		/* Among equals of a box it may be others. */
		if (explanation->by_box && !explanation->refused &&
		    place->box == explanation->answer.box) {
			is_chosen = true;
			taken = explanation->answer.gpus;
		}
		if (!is_chosen)
			say_lost(explanation, place, why, sizeof(why));
		else if (policy->score)
			snprintf(why, sizeof(why), "by policy %s", policy->name);
		else
			snprintf(why, sizeof(why), "%scosts least",
				 gpus < explanation->answer.count ? "of those left " : "");
		print_place(explanation, taken, gpus, place->box, &place->score,
			    place->gpus[0] == explanation->here ? "here" :
			    is_chosen				? "chosen" :
								  "possible",
			    why);
	}
}

static void print_unfit(struct explanation *explanation)
{
	const struct placement_pool *pool = explanation->view->pool;
	char why[128];

	for (uint32_t box = 0; box < pool->boxes.count; box++) {
		uint32_t i = 0;

		if (explanation->by_box) {
			while (i < explanation->count && explanation->candidates[i].box != box)
				i++;
			if (i < explanation->count)
				continue;
			say_unfit_box(explanation, box, why, sizeof(why));
			print_place(explanation, NULL, 0, box, NULL, "unfit", why);
			continue;
		}
		placement_each_gpu(pool, box, gpu) {
			for (i = 0; i < explanation->count; i++)
				if (explanation->candidates[i].gpus[0] == gpu)
					break;
			if (i < explanation->count)
				continue;
			say_unfit(explanation, gpu, why, sizeof(why));
			print_place(explanation, &gpu, 1, box, NULL,
				    gpu == explanation->here ? "here" : "unfit", why);
		}
	}
}

static void print_answer(struct explanation *explanation)
{
	struct ctl *ctl = explanation->ctl;
	const struct placement_answer *answer = &explanation->answer;

	if (ctl->json) {
		print_list_open(&explanation->print, "answer", PRINT_RECORD);
		print_row_open(&explanation->print);
		print_bool(&explanation->print, "placed", NULL, !explanation->refused);
		print_gpus(explanation, answer->gpus, explanation->refused ? 0 : answer->count);
		print_text(&explanation->print, "reason", NULL, answer->reason);
		print_row_close(&explanation->print);
		print_list_close(&explanation->print);
		return;
	}
	if (explanation->view->gpu_count)
		fputc('\n', ctl->out);
	if (explanation->refused) {
		fprintf(ctl->out, "refused: %s\n", answer->reason);
		return;
	}
	fprintf(ctl->out, "%s gpu%s ",
		explanation->here == PLACEMENT_NONE ? "goes to" : "is best on",
		answer->count == 1 ? "" : "s");
	for (uint32_t i = 0; i < answer->count; i++)
		fprintf(ctl->out, "%s%u", i ? ", " : "",
			explanation->view->gpus[answer->gpus[i]].id);
	if (chosen(explanation, explanation->here))
		fputs(", where it is", ctl->out);
	fputc('\n', ctl->out);
}

static int print_explanation(struct explanation *explanation)
{
	for (uint32_t i = 0; i < explanation->count; i++)
		for (int term = 0; term < PLACEMENT_TERMS; term++)
			/* What rounds to nothing is not worth a column. */
			if (fabs(explanation->candidates[i].score.terms[term]) >= 0.005)
				explanation->shown[term] = true;
	ctl_print_open(explanation->ctl, &explanation->print);
	print_list_open(&explanation->print, "candidates", PRINT_TABLE);
	print_candidates(explanation);
	print_unfit(explanation);
	print_list_close(&explanation->print);
	print_answer(explanation);
	return ctl_print_close(explanation->ctl, &explanation->print);
}

/*
 * The question
 */

/* Decide, and score every place: of several gpus anywhere, each is placed by itself. */
static int explain(struct explanation *explanation, struct pool_view *view)
{
	struct placement_claim claim = explanation->claim;
	int ret = 0;

	explanation->candidates =
		calloc(view->gpu_count + 1, sizeof(*explanation->candidates));
	if (!explanation->candidates)
		return -ENOMEM;
	if (!explanation->refused)
		explanation->refused =
			placement_decide(&view->placement, &claim, &explanation->answer);
	if (explanation->refused == -ENOMEM)
		return -ENOMEM;
	explanation->by_box = claim.need.count > 1 && placement_need_one_box(&claim.need);
	if (!explanation->by_box)
		claim.need.count = 1;
	if (!explanation->no_kind && explanation->refused != -EINVAL)
		ret = placement_explain(&view->placement, &claim, explanation->candidates,
					view->gpu_count);
	explanation->count = ret > 0 ? (uint32_t)ret : 0;
	return ret < 0 ? ret : 0;
}

static void ask_claim(struct explanation *explanation, struct pool_view *view,
			const struct question *question)
{
	const struct terms *terms = &question->terms;
	int kind;

	explanation->claim.need = (struct placement_need){
		.count = question->count ? question->count : 1,
		.share = terms->share,
		.gpu_memory = terms->memory,
		.objective_ns = terms->objective_ns,
		.same_box = question->same_box,
	};
	kind = question->kind ? placement_pool_find_kind(view->pool, question->kind) : 0;
	if (kind >= 0) {
		explanation->claim.need.kinds = question->kind ? 1ULL << kind : 0;
		/* The daemon counts a claim before it decides. */
		placement_observe(&view->placement, &explanation->claim.need);
		return;
	}
	placement_reason_kind(view->pool, question->kind, explanation->answer.reason);
	explanation->no_kind = true;
	explanation->refused = -ENOSPC;
}

/* As if it were not there yet; where it is, it costs no move. */
static int ask_vgpu(struct explanation *explanation, struct pool_view *view, const char *word)
{
	struct distmind_vgpu_record vgpu;
	uint32_t grant;
	int ret = vgpu_find(explanation->ctl, word, &vgpu);

	if (ret)
		return ret;
	grant = pool_view_grant(view, vgpu.id);
	if (grant == PLACEMENT_NONE) {
		explanation->claim.need = placement_records_need(&vgpu);
		return CTL_OK;
	}
	explanation->here = view->pool->holds.rows[view->pool->grants.rows[grant].first_hold].gpu;
	explanation->claim = view->pool->grants.rows[grant].claim;
	explanation->claim.moves = true;
	explanation->claim.from = explanation->here;
	placement_pool_release(view->pool, grant);
	return CTL_OK;
}

int pool_explain_command(struct ctl *ctl, int argc, char **argv)
{
	struct explanation explanation = { .ctl = ctl, .here = PLACEMENT_NONE };
	struct question question = { 0 };
	struct pool_view view;
	int ret;

	if (!parse(ctl, argc, argv, &question))
		return ctl->status;
	ret = pool_view_open(ctl, &view);
	if (ret)
		goto out;
	explanation.view = &view;
	if (question.vgpu)
		ret = ask_vgpu(&explanation, &view, question.vgpu);
	else
		ask_claim(&explanation, &view, &question);
	if (ret)
		goto out;
	ret = explain(&explanation, &view);
	if (ret)
		ret = ctl_fail(ctl, "cannot decide: %s; free memory and try again",
			       strerror(-ret));
	else
		ret = print_explanation(&explanation);
out:
	free(explanation.candidates);
	pool_view_close(&view);
	return ret;
}
