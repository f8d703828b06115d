// SPDX-License-Identifier: GPL-2.0-or-later
#include "noun.h"
#include "options.h"

static int print_row(const struct distmind_buffer_record *buffer, void *arg)
{
	struct print *print = arg;

	print_row_open(print);
	print_number(print, "id", "ID", buffer->id);
	print_number(print, "vgpu", "VGPU", buffer->vgpu);
	print_number(print, "gpu", "GPU", buffer->gpu);
	print_text(print, "kind", "KIND", distmind_buffer_kind_name(buffer->kind));
	print_size(print, "size", "SIZE", buffer->size);
	if (buffer->offset == DISTMIND_OFFSET_NONE)
		print_none(print, "offset", "OFFSET");
	else
		print_size(print, "offset", "OFFSET", buffer->offset);
	print_number(print, "pins", "PINS", buffer->pins);
	print_row_close(print);
	return 0;
}

static int buffer_list(struct ctl *ctl, int argc, char **argv)
{
	struct print print;
	int ret;

	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	if (!ctl_pool(ctl))
		return CTL_FAILED;
	ctl_print_open(ctl, &print);
	print_list_open(&print, "buffers", PRINT_TABLE);
	ret = distmind_pool_buffers(ctl->pool, print_row, &print);
	if (!print_list_close(&print) && !ret)
		ctl_hint(ctl, ctl->admin ? "no buffers; applications make them on their vgpus" :
					   "no buffers of yours; root sees all of them");
	if (ret) {
		print_close(&print);
		return ctl_fail_pool(ctl, ret, "cannot list the buffers");
	}
	return ctl_print_close(ctl, &print);
}

const struct command buffer_verbs[] = {
	{ "list", "", "Show all buffers; without privilege those of your vgpus.", buffer_list },
	{ 0 },
};

int buffer_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, buffer_verbs, argc, argv);
}
