// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "noun.h"
#include "options.h"

static const char *const names[] = {
	[DISTMIND_EVENT_GPU_ADD] = "gpu-add",
	[DISTMIND_EVENT_GPU_CHANGE] = "gpu-change",
	[DISTMIND_EVENT_GPU_DEL] = "gpu-del",
	[DISTMIND_EVENT_VGPU_ADD] = "vgpu-add",
	[DISTMIND_EVENT_VGPU_CHANGE] = "vgpu-change",
	[DISTMIND_EVENT_VGPU_DEL] = "vgpu-del",
	[DISTMIND_EVENT_CLAIM_ADD] = "claim-add",
	[DISTMIND_EVENT_CLAIM_DEL] = "claim-del",
	[DISTMIND_EVENT_PREEMPT] = "preempt",
	[DISTMIND_EVENT_OVERRUN] = "overrun",
};

static void print_preempt(struct print *print, const struct distmind_preempt_record *preempt)
{
	print_text(print, "rung", NULL, distmind_preempt_rung_name(preempt->rung));
	print_number(print, "gpu", "GPU", preempt->gpu);
	print_number(print, "lane", "LANE", preempt->lane);
	print_number(print, "vgpu", "VGPU", preempt->vgpu);
	print_number(print, "job", "JOB", preempt->job);
	if (preempt->rung == DISTMIND_PREEMPT_RUNG_YIELDED)
		print_duration(print, "latency_ns", "LATENCY", preempt->latency_ns, 1);
}

static void print_event(const struct distmind_event *event, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	print_time(print);
	print_text(print, "event", NULL, names[event->type]);
	switch (event->type) {
	case DISTMIND_EVENT_GPU_ADD:
	case DISTMIND_EVENT_GPU_CHANGE:
	case DISTMIND_EVENT_GPU_DEL:
		gpu_print(print, &event->gpu);
		break;
	case DISTMIND_EVENT_VGPU_ADD:
	case DISTMIND_EVENT_VGPU_CHANGE:
	case DISTMIND_EVENT_VGPU_DEL:
		vgpu_print(print, &event->vgpu);
		break;
	case DISTMIND_EVENT_CLAIM_ADD:
	case DISTMIND_EVENT_CLAIM_DEL:
		claim_print(print, &event->claim);
		break;
	case DISTMIND_EVENT_PREEMPT:
		print_preempt(print, &event->preempt);
		break;
	case DISTMIND_EVENT_OVERRUN:
		print_text(print, "text", NULL, "events were lost; list the pool anew");
		break;
	}
	print_row_close(print);
}

/* Ends only with an error: a signal, or the reader's end of a pipe, ends the process. */
int monitor_command(struct ctl *ctl, int argc, char **argv)
{
	bool preempt = false;
	const struct ctl_option known[] = {
		{ "preempt", option_flag, .to = &preempt },
		{ 0 },
	};
	struct pollfd pollfd = { .events = POLLIN };
	struct print print;
	int ret;

	if (ctl_options(ctl, argc, &argv, known, 0) < 0)
		return ctl->status;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ret = preempt ? distmind_pool_subscribe_preempt(ctl->pool) :
			distmind_pool_subscribe(ctl->pool);
	if (ret)
		return ctl_fail_pool(ctl, ret, "cannot watch the pool");
	ctl_print_open(ctl, &print);
	print_list_open(&print, "events", PRINT_EVENT);
	pollfd.fd = distmind_pool_event_fd(ctl->pool);
	do {
		ret = poll(&pollfd, 1, -1);
		if (ret < 0 && errno != EINTR)
			return ctl_fail(ctl, "cannot wait for events: %s; start it again",
					strerror(errno));
		ret = distmind_pool_dispatch(ctl->pool, print_event, &print);
	} while (ret >= 0 && !ferror(ctl->out));
	print_list_close(&print);
	if (ret < 0)
		return ctl_fail_pool(ctl, ret, "cannot read events");
	return ctl_print_close(ctl, &print);
}
