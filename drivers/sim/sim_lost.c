// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The device is taken away, under its open files, maps, exports and queues. Held objects stay
 * allocated until they are let go; no map and no call reaches them any more. Devices that have
 * mapped a dma-buf of it do, until they unmap it: those with a dynamic attachment are told.
 */
#include <linux/highmem.h>
#include <linux/srcu.h>

#include "sim_queue.h"
#include "sim_trace.h"

/* Readers are the page faults that may be putting pages of a device into maps. */
DEFINE_SRCU(sim_lost_srcu);

/* Threads that wait for something of the device look whether it is still there. */
void sim_engines_wake(struct sim_device *dev)
{
	struct sim_opener *opener;
	struct sim_queue *queue;
	unsigned long id;

	mutex_lock(&dev->lock);
	list_for_each_entry(opener, &dev->openers, link) {
		wake_up_all(&opener->va.changed);
		xa_lock(&opener->queues);
		xa_for_each(&opener->queues, id, queue)
			wake_up_all(&queue->work);
		xa_unlock(&opener->queues);
	}
	mutex_unlock(&dev->lock);
	wake_up_all(&dev->lost);
}

/*
 * The caller has made sure that the device can't be opened any more. From here on every call
 * answers -ENODEV, the engine ends its submissions with the same, and touched maps
 * are lost. Maps that were touched before are made to be touched again.
 */
void sim_device_lose(struct sim_device *dev)
{
	trace_lost(dev);
	WRITE_ONCE(dev->gone, true);
	synchronize_srcu(&sim_lost_srcu);
	sim_engines_wake(dev);
	unmap_mapping_range(dev->inode->i_mapping, 0, 0, 1);
	sim_dmabufs_revoke(dev);
	sim_imports_lose(dev);
	sim_store_return(dev->store, dev, NULL);
}

/*
 * The page of zeros at a page of a lost map. It is the map's own, and charged to the process
 * that touches it first. NULL without memory.
 */
static struct page *sim_lost_page(struct sim_map *map, pgoff_t index)
{
	struct page *page = xa_load(&map->zeros, index), *old;

	if (page)
		return page;
	page = alloc_page(GFP_USER | __GFP_ACCOUNT | __GFP_ZERO);
	if (!page)
		return NULL;
	old = xa_cmpxchg(&map->zeros, index, NULL, page, GFP_KERNEL_ACCOUNT);
	if (old) {
		__free_page(page);
		page = xa_is_err(old) ? NULL : old;
	}
	return page;
}

/*
 * The setting of the handshake when the map was made, unless its buffer is marked. A map that
 * may have zeros is one of an opener's file.
 */
static bool sim_lost_is_zero(const struct vm_area_struct *vma, const struct sim_map *map)
{
	struct sim_opener *opener;

	if (!map->zero_when_lost)
		return false;
	opener = vma->vm_file->private_data;
	return !xa_get_mark(&opener->handles, map->buffer->slot, SIM_SIGNAL_WHEN_LOST);
}

int sim_buffer_when_lost(struct file *file, void *argument)
{
	struct hetsim_buffer_when_lost *lost = argument;
	struct sim_opener *opener = file->private_data;
	struct sim_buffer *buffer;
	int r = 0;

	xa_lock(&opener->handles);
	buffer = xa_load(&opener->handles, lost->handle);
	if (!buffer)
		r = -ENOENT;
	else if (buffer->import)
		r = -EOPNOTSUPP;
	else if (lost->when == HETSIM_WHEN_LOST_SIGNAL)
		__xa_set_mark(&opener->handles, lost->handle, SIM_SIGNAL_WHEN_LOST);
	else
		__xa_clear_mark(&opener->handles, lost->handle, SIM_SIGNAL_WHEN_LOST);
	xa_unlock(&opener->handles);
	return r;
}

vm_fault_t sim_lost_fault(struct vm_fault *vmf, struct sim_map *map)
{
	vm_fault_t ret = VM_FAULT_NOPAGE;
	struct page *page;

	if (!sim_lost_is_zero(vmf->vma, map))
		return VM_FAULT_SIGBUS;
	page = sim_lost_page(map, vmf->pgoff);
	if (!page)
		return VM_FAULT_OOM;
	/* For writing: faults that found the device still there insert its pages under it. */
	if (down_write_killable(&map->buffer->lock))
		return VM_FAULT_SIGBUS;
	if (!sim_is_block(READ_ONCE(*vmf->pmd)))
		ret = vmf_insert_pfn(vmf->vma, vmf->address & PAGE_MASK, page_to_pfn(page));
	up_write(&map->buffer->lock);
	return ret;
}

/* For a debugger: an untouched page is zero. False: a process that touches it gets a signal. */
bool sim_lost_access(const struct vm_area_struct *vma, pgoff_t index, unsigned int inside,
		     void *bytes, unsigned int n, bool write)
{
	struct sim_map *map = vma->vm_private_data;
	struct page *page;

	if (!sim_lost_is_zero(vma, map))
		return false;
	page = write ? sim_lost_page(map, index) : xa_load(&map->zeros, index);
	if (write && page)
		memcpy_to_page(page, inside, bytes, n);
	else if (page)
		memcpy_from_page(bytes, page, inside, n);
	else if (!write)
		memset(bytes, 0, n);
	return page || !write;
}

void sim_lost_free(struct sim_map *map)
{
	struct page *page;
	unsigned long index;

	xa_for_each(&map->zeros, index, page) {
		__free_page(page);
		cond_resched();
	}
	xa_destroy(&map->zeros);
}
