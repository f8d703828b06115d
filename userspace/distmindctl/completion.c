// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * "distmindctl completion" prints the file that bash reads, which is part of
 * the program so that the two always match.
 */
#include "noun.h"
#include "options.h"

#ifndef DISTMINDCTL_COMPLETION
#define DISTMINDCTL_COMPLETION "userspace/distmindctl/distmindctl.bash"
#endif

__asm__(".pushsection .rodata\n"
	".global completion_begin\n"
	".global completion_end\n"
	"completion_begin:\n"
	".incbin \"" DISTMINDCTL_COMPLETION "\"\n"
	"completion_end:\n"
	".byte 0\n"
	".popsection\n");

extern const char completion_begin[];
extern const char completion_end[];

int completion_command(struct ctl *ctl, int argc, char **argv)
{
	if (!ctl_arguments(ctl, argc, argv, 0))
		return ctl->status;
	fwrite(completion_begin, 1, completion_end - completion_begin, ctl->out);
	return CTL_OK;
}
