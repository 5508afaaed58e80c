// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Maps of buffers in processes. Their page-table entries are special ones: the
 * kernel takes no references on what is behind them, so pages can be taken back
 * at any time, and get_user_pages() refuses them.
 */
#include <linux/highmem.h>
#include <linux/log2.h>

#include "sim.h"

static void sim_vm_open(struct vm_area_struct *vma)
{
	struct sim_buffer *buffer = vma->vm_private_data;

	kref_get(&buffer->ref);
	atomic64_inc(&buffer->n_maps);
}

static void sim_vm_close(struct vm_area_struct *vma)
{
	struct sim_buffer *buffer = vma->vm_private_data;

	atomic64_dec(&buffer->n_maps);
	sim_buffer_put(buffer);
}

/*
 * Maps the page that was touched and, as far as the map and the buffer go, the
 * SIM_FAULT_PAGES around it: whoever touches one byte of a device's memory goes
 * on to the next. With buffer->lock held, which keeps pages from being taken
 * back between the look-up and the insertion.
 */
static vm_fault_t sim_fault_insert(struct vm_fault *vmf, struct sim_buffer *buffer,
				   unsigned int *ret_n_pages)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long touched = vmf->address & PAGE_MASK;
	unsigned long window = SIM_FAULT_PAGES << PAGE_SHIFT;
	unsigned long start = max(ALIGN_DOWN(touched, window), vma->vm_start);
	unsigned long end = min(ALIGN_DOWN(touched, window) + window, vma->vm_end);
	pgoff_t base = sim_slot_pgoff(buffer->dev, buffer->slot);
	pgoff_t index = vmf->pgoff - base;
	unsigned long address;
	vm_fault_t ret;

	if (index >= buffer->n_pages ||
	    !sim_page_reachable(buffer->dev, buffer->pages[index]))
		return VM_FAULT_SIGBUS;
	ret = vmf_insert_pfn(vma, touched, page_to_pfn(buffer->pages[index]));
	if (ret != VM_FAULT_NOPAGE)
		return ret;
	*ret_n_pages = 1;

	index -= (touched - start) >> PAGE_SHIFT;
	for (address = start; address < end; address += PAGE_SIZE, index++) {
		if (address == touched)
			continue;
		if (index >= buffer->n_pages)
			break;
		if (!sim_page_reachable(buffer->dev, buffer->pages[index]))
			continue;
		/* Only the touched page is owed: what is there stays, what fails waits. */
		if (vmf_insert_pfn(vma, address, page_to_pfn(buffer->pages[index])) !=
		    VM_FAULT_NOPAGE)
			break;
		++*ret_n_pages;
	}
	return VM_FAULT_NOPAGE;
}

static vm_fault_t sim_vm_fault(struct vm_fault *vmf)
{
	struct sim_buffer *buffer = vmf->vma->vm_private_data;
	unsigned int n_pages = 0;
	vm_fault_t ret;

	/* Who is killed does not see what is answered. */
	if (down_read_killable(&buffer->lock))
		return VM_FAULT_SIGBUS;
	sim_buffer_used(buffer);
	ret = sim_fault_insert(vmf, buffer, &n_pages);
	up_read(&buffer->lock);

	sim_count(buffer->dev, buffer->account, SIM_FAULTS, 1);
	if (n_pages) {
		sim_count(buffer->dev, buffer->account, SIM_FAULT_PAGES_MAPPED, n_pages);
		sim_count(buffer->dev, buffer->account, SIM_FAULTS_BY_ORDER + ilog2(n_pages), 1);
	} else {
		sim_count(buffer->dev, buffer->account, SIM_FAULTS_REFUSED, 1);
	}
	return ret;
}

/* A debugger, or /proc/PID/mem: get_user_pages() does not reach these pages. */
static int sim_vm_access(struct vm_area_struct *vma, unsigned long address, void *bytes,
			 int length, int write)
{
	struct sim_buffer *buffer = vma->vm_private_data;
	pgoff_t base = sim_slot_pgoff(buffer->dev, buffer->slot);
	int done = 0;

	if (write && !(vma->vm_flags & VM_WRITE))
		return -EFAULT;
	if (down_read_killable(&buffer->lock))
		return -EINTR;
	length = min_t(unsigned long, length, vma->vm_end - address);
	while (done < length) {
		pgoff_t index = vma->vm_pgoff + ((address - vma->vm_start) >> PAGE_SHIFT) - base;
		unsigned int inside = offset_in_page(address);
		int n = min_t(int, length - done, PAGE_SIZE - inside);

		if (index >= buffer->n_pages ||
		    !sim_page_reachable(buffer->dev, buffer->pages[index]))
			break;
		if (write)
			memcpy_to_page(buffer->pages[index], inside, bytes + done, n);
		else
			memcpy_from_page(bytes + done, buffer->pages[index], inside, n);
		address += n;
		done += n;
	}
	up_read(&buffer->lock);
	return done ? done : -EFAULT;
}

static const struct vm_operations_struct sim_vm_ops = {
	.open	= sim_vm_open,
	.close	= sim_vm_close,
	.fault	= sim_vm_fault,
	.access	= sim_vm_access,
};

/* Maps what vma->vm_pgoff says of the buffer. */
int sim_mmap_buffer(struct sim_buffer *buffer, struct vm_area_struct *vma)
{
	u64 first = vma->vm_pgoff - sim_slot_pgoff(buffer->dev, buffer->slot);
	u64 n_pages;

	/* A private copy of a special entry is a bug to the kernel. */
	if (is_cow_mapping(vma->vm_flags))
		return -EINVAL;
	down_read(&buffer->lock);
	n_pages = buffer->n_pages;
	up_read(&buffer->lock);
	if (first >= n_pages || vma_pages(vma) > n_pages - first)
		return -ERANGE;

	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP);
	if (buffer->cache == HETSIM_CACHE_COMBINE)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	kref_get(&buffer->ref);
	vma->vm_private_data = buffer;
	vma->vm_ops = &sim_vm_ops;
	atomic64_inc(&buffer->n_maps);
	return 0;
}

int sim_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;
	u64 slot = vma->vm_pgoff / opener->dev->window_pages;
	int r;

	if (!READ_ONCE(opener->accepted))
		return -EPROTO;
	if (slot > SIM_MAX_BUFFERS)
		return -ENOENT;
	buffer = sim_buffer_get(opener, slot);
	if (!buffer)
		return -ENOENT;
	r = sim_mmap_buffer(buffer, vma);
	sim_buffer_put(buffer);
	return r;
}

/* Takes the pages out of all processes that have mapped them, and no others. */
void sim_mmap_revoke(struct sim_buffer *buffer, u64 first, u64 n_pages)
{
	struct sim_device *dev = buffer->dev;
	loff_t start = (loff_t)(sim_slot_pgoff(dev, buffer->slot) + first) << PAGE_SHIFT;

	unmap_mapping_range(dev->inode->i_mapping, start, n_pages << PAGE_SHIFT, 1);
}
