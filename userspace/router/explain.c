// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>
#include <stdio.h>

#include "state.h"

static double ms(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e6 : 0;
}

void router_explain(const struct router *router, const struct router_request *request, uint64_t now,
		    const struct router_decision *decision, char *reason, size_t len)
{
	static const char *const where[] = { "in its memory", "in its host", "in the pool" };
	double wait = ms(now, decision->free_ns), load = ms(now, decision->ready_ns);

	snprintf(reason, len,
		 "no gpu can do this in %.1f ms: the best is gpu %" PRIu32 " in %.1f ms "
		 "(its queue takes %.1f, the model, %s, %.1f, the computation %.1f); %s",
		 ms(now, request->deadline_ns), decision->gpu, ms(now, decision->finish_ns), wait,
		 where[decision->tier], load, (double)request->compute_ns / 1e6,
		 router->models[request->model].lead_ns[decision->tier] + request->compute_ns >
				 (request->deadline_ns > now ? request->deadline_ns - now : 0) ?
			 "ask for a longer objective" :
			 "ask again later or add gpus");
}
