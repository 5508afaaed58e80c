/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Interfaces that differ between the kernels that this builds on; see Kbuild's probes. */
#ifndef SIM_COMPAT_H
#define SIM_COMPAT_H

#include <linux/device.h>
#include <linux/dma-map-ops.h>
#include <linux/eventfd.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#ifdef HAVE_USE_DMA_IOMMU
#include <linux/iommu-dma.h> /* wants scatterlist.h before it */
#endif
#ifdef HAVE_PFN_T
#include <linux/pfn_t.h>
#endif

#ifndef HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#ifndef HAVE_DMA_BUF_MOVE_NOTIFY
#define dma_buf_move_notify(dmabuf) dma_buf_invalidate_mappings(dmabuf)
#endif

#ifdef HAVE_IMPORT_NS_NAME
#define SIM_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#else
#define SIM_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#endif

/* sim_driver.c */
void sim_remove(struct platform_device *pdev);

/* Where remove() returns an int, the bus ignores it. */
#ifdef HAVE_PLATFORM_REMOVE_VOID
static inline void sim_platform_remove(struct platform_device *pdev)
{
	sim_remove(pdev);
}
#else
static inline int sim_platform_remove(struct platform_device *pdev)
{
	sim_remove(pdev);
	return 0;
}
#endif

#define SIM_BLOCK_ORDER 9

/* Is there the kernel's part of a mirror? Kbuild asks the same. */
#define SIM_MIRROR IS_ENABLED(CONFIG_HMM_MIRROR)
/* And that of moving pages to the memory of a device? */
#define SIM_MIGRATION (SIM_MIRROR && IS_ENABLED(CONFIG_DEVICE_MIGRATION))

#if SIM_MIGRATION
/* The page is locked afterwards, and has one reference. */
static inline void sim_zone_page_init(struct page *page, struct dev_pagemap *pagemap)
{
#ifdef HAVE_ZONE_PAGE_ORDER
	zone_device_page_init(page, pagemap, 0);
#else
	zone_device_page_init(page);
#endif
}
#endif

/*
 * Where the kernel can mark a 2 MiB entry as special: get_user_pages_fast() of other kernels
 * would take references on the pages behind it.
 */
#ifdef CONFIG_ARCH_SUPPORTS_PMD_PFNMAP
#define SIM_BLOCKS (PMD_SHIFT - PAGE_SHIFT == SIM_BLOCK_ORDER)

static inline vm_fault_t sim_insert_block(struct vm_fault *vmf, struct page *first)
{
	/* The map's own rights may lack writing: soft-dirty tracking waits for the fault. */
	bool write = vmf->flags & FAULT_FLAG_WRITE;

#ifdef HAVE_PFN_T
	return vmf_insert_pfn_pmd(vmf, pfn_to_pfn_t(page_to_pfn(first)), write);
#else
	return vmf_insert_pfn_pmd(vmf, page_to_pfn(first), write);
#endif
}
#else
#define SIM_BLOCKS false

static inline vm_fault_t sim_insert_block(struct vm_fault *vmf, struct page *first)
{
	return VM_FAULT_FALLBACK;
}
#endif

/* Is there a large entry where this fault found none, or one that is not taken back yet? */
static inline bool sim_is_block(pmd_t pmd)
{
	return SIM_BLOCKS && pmd_leaf(pmd);
}

/*
 * Is DMA memory of the device mapped by an IOMMU? Where the kernel calls the common code for IOMMUs
 * by itself, the device has no operations for it.
 */
static inline bool sim_uses_iommu(struct device *dev)
{
#ifdef HAVE_USE_DMA_IOMMU
	if (use_dma_iommu(dev))
		return true;
#endif
	return get_dma_ops(dev) && device_iommu_mapped(dev);
}

static inline void sim_eventfd_signal(struct eventfd_ctx *eventfd)
{
#ifdef HAVE_EVENTFD_SIGNAL_COUNT
	eventfd_signal(eventfd, 1);
#else
	eventfd_signal(eventfd);
#endif
}

#endif
