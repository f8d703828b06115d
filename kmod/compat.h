/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What older kernels lack of the newest one's interface, as kmod/probe/ found
 * out. The rest of the module is written for the newest kernel.
 */
#ifndef _DISTMIND_COMPAT_H
#define _DISTMIND_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>

#ifndef HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set, vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

#ifndef HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#ifdef HAVE_EVENTFD_SIGNAL_ONE
#define distmind_eventfd_signal(ctx) eventfd_signal(ctx)
#else
#define distmind_eventfd_signal(ctx) eventfd_signal(ctx, 1)
#endif

/* The device that a devnode callback is given. */
#ifdef HAVE_DEVNODE_CONST
#define devnode_device const struct device
#else
#define devnode_device struct device
#endif

#ifdef HAVE_IMPORT_NS_STRING
#define DISTMIND_IMPORT_NS(ns) MODULE_IMPORT_NS(#ns)
#else
#define DISTMIND_IMPORT_NS(ns) MODULE_IMPORT_NS(ns)
#endif

#endif /* _DISTMIND_COMPAT_H */
