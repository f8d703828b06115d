// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>

#include "../common/clock.h"
#include "../common/size.h"
#include "model.h"
#include "parse.h"

#define BAR_WIDTH 40
#define LINE_NS	  (2 * NSEC_PER_SEC) /* between two lines where there is no terminal */

void model_progress_begin(struct model_progress *progress, struct ctl *ctl, const char *what)
{
	*progress = (struct model_progress){ .ctl = ctl, .what = what, .last_ns = clock_ns(),
					     .percent = -1 };
}

static void draw(struct model_progress *progress, int percent, const char *done, const char *total)
{
	char bar[BAR_WIDTH + 1];

	if (percent == progress->percent)
		return;
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i * 100 < percent * BAR_WIDTH ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	fprintf(progress->ctl->err, "\r%-8s [%s] %3d%%  %s of %s\033[K", progress->what, bar,
		percent, done, total);
	fflush(progress->ctl->err);
	progress->percent = percent;
}

void model_progress_show(uint64_t done, uint64_t total, void *arg)
{
	struct model_progress *progress = arg;
	char done_text[SIZE_TEXT_LEN], total_text[SIZE_TEXT_LEN];
	int percent = total ? (int)((double)done / (double)total * 100) : 100;
	uint64_t now = clock_ns();

	if (progress->ctl->json)
		return;
	size_format(done, done_text, sizeof(done_text));
	size_format(total, total_text, sizeof(total_text));
	if (percent > 100)
		percent = 100;
	if (progress->ctl->terminal) {
		draw(progress, percent, done_text, total_text);
	} else if (now - progress->last_ns >= LINE_NS) {
		fprintf(progress->ctl->err, "%s: %s of %s, %d%%\n", progress->what, done_text,
			total_text, percent);
		progress->last_ns = now;
	}
}

void model_progress_end(struct model_progress *progress)
{
	if (progress->percent < 0)
		return;
	fputs("\r\033[K", progress->ctl->err);
	fflush(progress->ctl->err);
}
