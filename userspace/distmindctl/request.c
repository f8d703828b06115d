// SPDX-License-Identifier: GPL-2.0-or-later
#include "noun.h"
#include "options.h"
#include "parse.h"

void request_print(struct print *print, const struct distmind_request_record *request)
{
	print_number(print, "id", "ID", request->id);
	print_text(print, "name", "NAME", request->name);
	print_number(print, "count", "COUNT", request->count);
	print_size(print, "memory", "MEMORY", request->memory);
	print_share(print, "share", "SHARE", request->share);
	print_text(print, "class", "CLASS", distmind_class_name(request->sched_class));
	if (request->objective_ns)
		print_duration(print, "objective_ns", "OBJECTIVE", request->objective_ns, 1);
	else
		print_none(print, "objective_ns", "OBJECTIVE");
	print_text(print, "kind", "KIND", request->kind);
	print_user(print, "uid", "USER", request->uid);
	print_number(print, "pid", "PID", request->pid);
	print_duration(print, "remaining_ms", "REMAINING", request->remaining_ms, NSEC_PER_MSEC);
	print_detail(print);
	print_bool(print, "same_box", "SAME-BOX", request->flags & DISTMIND_REQUEST_FLAGS_SAME_BOX);
	print_group(print, "gid", "GROUP", request->gid);
}

static int print_row(const struct distmind_request_record *request, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	request_print(print, request);
	print_row_close(print);
	return 0;
}

static int request_list(struct ctl *ctl, int argc, char **argv)
{
	struct print print;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "requests", PRINT_TABLE);
	ret = distmind_pool_requests(ctl->pool, print_row, &print);
	if (!print_list_close(&print) && !ret)
		ctl_hint(ctl, ctl->admin ? "no requests wait" :
					   "no requests of yours wait; root sees all of them");
	if (ret) {
		print_close(&print);
		return ctl_fail_pool(ctl, ret, "cannot list the requests");
	}
	return ctl_print_close(ctl, &print);
}

const struct command request_verbs[] = {
	{ "list", "", "Show the requests that wait for an answer.", request_list },
	{ 0 },
};

int request_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, request_verbs, argc, argv);
}
