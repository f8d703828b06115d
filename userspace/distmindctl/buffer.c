// SPDX-License-Identifier: GPL-2.0-or-later
#include "listing.h"
#include "noun.h"

/* As "3(1000)": vgpu and user; an ended vgpu has no number any more. */
static void name_payers(const struct distmind_buffer_record *buffer, char *text, size_t room)
{
	uint32_t known = buffer->payers_known;
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < known && len < room; i++) {
		const struct distmind_payer_record *payer = &buffer->payers[i];

		if (payer->vgpu == DISTMIND_VGPU_ENDED)
			len += (size_t)snprintf(text + len, room - len, "%sended(%u)", i ? " " : "",
						payer->uid);
		else
			len += (size_t)snprintf(text + len, room - len, "%s%u(%u)", i ? " " : "",
						payer->vgpu, payer->uid);
	}
	if (buffer->payer_count > known && len < room)
		snprintf(text + len, room - len, " and %u more", buffer->payer_count - known);
}

static int print_row(const struct distmind_buffer_record *buffer, void *arg)
{
	struct print *print = arg;
	char payers[32 * DISTMIND_PAYERS_MAX];

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
	print_number(print, "exports", "EXPORTS", buffer->exports);
	name_payers(buffer, payers, sizeof(payers));
	if (payers[0])
		print_text(print, "payers", "PAYERS", payers);
	else
		print_none(print, "payers", "PAYERS");
	print_row_close(print);
	return 0;
}

static int buffer_rows(struct distmind_pool *pool, struct print *print)
{
	return distmind_pool_buffers(pool, print_row, print);
}

static int buffer_list(struct ctl *ctl, int argc, char **argv)
{
	static const struct listing buffers = {
		"buffers", buffer_rows, "no buffers; applications make them on their vgpus",
		"no buffers of yours; root sees all of them",
	};

	return listing_run(ctl, argc, argv, &buffers);
}

const struct command buffer_verbs[] = {
	{ "list", "", "Show all buffers; without privilege those that your vgpus have or pay for.", buffer_list },
	{ 0 },
};

int buffer_command(struct ctl *ctl, int argc, char **argv)
{
	return ctl_noun(ctl, buffer_verbs, argc, argv);
}
