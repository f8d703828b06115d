// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Goes into the User-Mode Linux kernel instead of its own flush_tlb_mm(), which walks the
 * tree of the areas of an address space to find out from where to where it goes. Whoever
 * takes pages away from others by unmap_mapping_range() comes here as well, and has no lock
 * that would keep the owner of the address space from changing the tree, or from exiting:
 * that ended in a fault once in some thousand kills. The limits need no tree; what is not
 * there between them is skipped when the host's mappings are brought up to date.
 */
#include <linux/mm.h>
#include <asm/tlbflush.h>

void flush_tlb_mm(struct mm_struct *mm)
{
	um_tlb_mark_sync(mm, 0, TASK_SIZE);
}
