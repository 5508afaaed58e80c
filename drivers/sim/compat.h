/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What the kernels that this builds on call differently; see Kbuild's probes. */
#ifndef SIM_COMPAT_H
#define SIM_COMPAT_H

#include <linux/eventfd.h>
#include <linux/mm.h>
#include <linux/module.h>

#ifndef HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}
#endif

#ifdef HAVE_IMPORT_NS_NAME
#define SIM_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#else
#define SIM_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#endif

static inline void sim_eventfd_signal(struct eventfd_ctx *eventfd)
{
#ifdef HAVE_EVENTFD_SIGNAL_COUNT
	eventfd_signal(eventfd, 1);
#else
	eventfd_signal(eventfd);
#endif
}

#endif
