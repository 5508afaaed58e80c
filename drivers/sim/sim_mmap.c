// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Maps of buffers in processes. Their page-table entries are special ones: the
 * kernel takes no references on the pages behind them, so pages can be taken back
 * at any time, and get_user_pages() refuses them.
 *
 * A fault maps the 2 MiB around it: by one entry where the kernel can mark such an
 * entry as special (SIM_BLOCKS) and the pages lie behind each other, by 512 entries
 * elsewhere. Pages lie so with the module's parameter huge. It is off by default: buffers
 * that begin at multiples of 2 MiB share places in the TLB of an emulated machine, which
 * has one way, and work on two of them takes 10 to 50 times as long.
 *
 * apply_to_page_range() must not meet a large entry. All faults at one time must therefore
 * choose the same size. The choice depends on the map's bounds, which the kernel keeps from
 * changing under faults, and on state that changes with buffer->lock held for writing only:
 * pages, samples and injected faults. A change of that state takes back the former entries,
 * but not at once: a fault that still finds a large one lets the access try again.
 */
#include <linux/highmem.h>
#include <linux/log2.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>

#include "sim.h"
#include "sim_trace.h"

/* For all devices: how often injected poison makes the kernel print its line. */
static struct ratelimit_state sim_poisonings =
	RATELIMIT_STATE_INIT_FLAGS(sim_poisonings, 5 * HZ, 100, RATELIMIT_MSG_ON_RELEASE);

static struct sim_map *sim_map_new(struct sim_buffer *buffer, struct mm_struct *mm,
				   bool zero_when_lost)
{
	struct sim_map *map = kzalloc(sizeof(*map), GFP_KERNEL_ACCOUNT);

	if (!map)
		return NULL;
	kref_init(&map->ref);
	kref_get(&buffer->ref);
	map->buffer = buffer;
	map->mm = mm;
	map->zero_when_lost = zero_when_lost;
	xa_init(&map->zeros);
	return map;
}

static void sim_map_free(struct kref *ref)
{
	struct sim_map *map = container_of(ref, struct sim_map, ref);

	sim_lost_free(map);
	sim_buffer_put(map->buffer);
	kfree(map);
}

/*
 * A child begins without entries: its parent's may lead to pages that are gone when the parent's
 * map is. VM_WIPEONFORK says so, but madvise(MADV_KEEPONFORK) takes that away. The kernel has then
 * copied the entries before it calls sim_vm_open(), or looks at the flag again afterwards,
 * depending on its version.
 */
static void sim_vm_wipe(struct vm_area_struct *vma, struct sim_buffer *buffer)
{
	if (vma->vm_flags & VM_WIPEONFORK)
		return;
	vm_flags_set(vma, VM_WIPEONFORK);
	sim_mmap_revoke(buffer, vma->vm_pgoff - sim_slot_pgoff(buffer->dev, buffer->slot),
			vma_pages(vma));
}

static void sim_vm_open(struct vm_area_struct *vma)
{
	struct sim_map *map = vma->vm_private_data;

	if (!map)
		return;
	if (map->mm == vma->vm_mm) {
		kref_get(&map->ref);
	} else {
		sim_vm_wipe(vma, map->buffer);
		/* fork() has no way to fail here: without memory, the child's map is dead. */
		map = sim_map_new(map->buffer, vma->vm_mm, map->zero_when_lost);
		vma->vm_private_data = map;
		if (!map)
			return;
	}
	atomic64_inc(&map->buffer->n_maps);
}

static void sim_vm_close(struct vm_area_struct *vma)
{
	struct sim_map *map = vma->vm_private_data;

	if (!map)
		return;
	atomic64_dec(&map->buffer->n_maps);
	kref_put(&map->ref, sim_map_free);
}

/* Was a fault injected into that page? With buffer->lock held. */
static bool sim_page_hurt(struct sim_buffer *buffer, pgoff_t index)
{
	return buffer->sigbus == index || buffer->poison == index;
}

/* The answer to a touch of such a page. */
static vm_fault_t sim_fault_hurt(struct sim_buffer *buffer, pgoff_t index)
{
	/* The kernel prints a line about each poisoning, injected or not. */
	if (buffer->poison == index && __ratelimit(&sim_poisonings))
		return VM_FAULT_HWPOISON;
	return VM_FAULT_SIGBUS;
}

/* Can one entry map the pages of a buffer from @index on? With buffer->lock held. */
static bool sim_fault_is_block(struct sim_buffer *buffer, pgoff_t index)
{
	struct page **pages = buffer->pages + index;
	unsigned int i;

	if (index + SIM_FAULT_PAGES > buffer->n_pages || buffer->accesses ||
	    !IS_ALIGNED(page_to_pfn(pages[0]), SIM_FAULT_PAGES))
		return false;
	for (i = 0; i < SIM_FAULT_PAGES; i++) {
		if (pages[i] != pages[0] + i || !sim_page_reachable(buffer->dev, pages[i]) ||
		    sim_page_hurt(buffer, index + i))
			return false;
	}
	return true;
}

/* The entries of one fault: of @buffer's pages from @index on, from @start on in the map. */
struct sim_insert {
	struct vm_area_struct *vma;
	struct sim_buffer *buffer;
	unsigned long start;
	pgoff_t index;
	unsigned int n_pages; /* how many of them are there now */
};

/* Called by apply_to_page_range(), with the page table locked. Present entries stay. */
static int sim_insert_entry(pte_t *entry, unsigned long address, void *data)
{
	struct sim_insert *insert = data;
	struct sim_buffer *buffer = insert->buffer;
	pgoff_t index = insert->index + ((address - insert->start) >> PAGE_SHIFT);
	struct page *page = buffer->pages[index];

	if (!sim_page_reachable(buffer->dev, page) || sim_page_hurt(buffer, index))
		return 0;
	if (pte_none(ptep_get(entry)))
		set_pte_at(insert->vma->vm_mm, address, entry,
			   pte_mkspecial(pfn_pte(page_to_pfn(page), insert->vma->vm_page_prot)));
	insert->n_pages++;
	return 0;
}

/*
 * Maps the page that was touched and, as far as the map and the buffer go, the
 * SIM_FAULT_PAGES around it: a process that touches one byte of a device's memory goes
 * on to the next. With buffer->lock held, which keeps pages from being taken
 * back between the look-up and the insertion.
 *
 * By apply_to_page_range(), as i915 does (i915_mm.c): vmf_insert_pfn() walks the page
 * table, takes its lock, and looks the cache mode of the page up among all memory, for
 * each page anew. Here one walk and one lock do, and vm_page_prot has the cache mode.
 */
static vm_fault_t sim_fault_insert(struct vm_fault *vmf, struct sim_buffer *buffer,
				   unsigned int *ret_n_pages, bool *ret_huge)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long touched = vmf->address & PAGE_MASK;
	unsigned long window = SIM_FAULT_PAGES << PAGE_SHIFT;
	unsigned long start = max(ALIGN_DOWN(touched, window), vma->vm_start);
	unsigned long end = min(ALIGN_DOWN(touched, window) + window, vma->vm_end);
	pgoff_t index = vmf->pgoff - sim_slot_pgoff(buffer->dev, buffer->slot);
	struct sim_insert insert = { .vma = vma, .buffer = buffer };
	/* Once: another fault may put a block there meanwhile. */
	pmd_t pmd = READ_ONCE(*vmf->pmd);
	int r;

	if (index >= buffer->n_pages ||
	    !sim_page_reachable(buffer->dev, buffer->pages[index]))
		return VM_FAULT_SIGBUS;
	if (sim_page_hurt(buffer, index))
		return sim_fault_hurt(buffer, index);
	if (sim_is_block(pmd)) {
		*ret_n_pages = SIM_FAULT_PAGES;
		return VM_FAULT_NOPAGE;
	}
	insert.index = index - ((touched - start) >> PAGE_SHIFT);
	if (SIM_BLOCKS && sim_huge && end - start == window && pmd_none(pmd) &&
	    sim_fault_is_block(buffer, insert.index)) {
		*ret_n_pages = SIM_FAULT_PAGES;
		*ret_huge = true;
		return sim_insert_block(vmf, buffer->pages[insert.index]);
	}
	if (buffer->accesses) {
		insert.index = index;
		start = touched;
		end = touched + PAGE_SIZE;
	}
	insert.start = start;
	end = min_t(u64, end, start + ((buffer->n_pages - insert.index) << PAGE_SHIFT));
	r = apply_to_page_range(vma->vm_mm, start, end - start, sim_insert_entry, &insert);
	if (r)
		return r == -ENOMEM ? VM_FAULT_OOM : VM_FAULT_NOPAGE;
	*ret_n_pages = insert.n_pages;
	if (buffer->accesses) {
		atomic_inc(&buffer->accesses[index]);
		trace_access(buffer, index);
	}
	return VM_FAULT_NOPAGE;
}

static vm_fault_t sim_fault(struct vm_fault *vmf, struct sim_buffer *buffer)
{
	unsigned int n_pages = 0;
	bool huge = false;
	vm_fault_t ret;

	/* A killed process does not see the answer. */
	if (down_read_killable(&buffer->lock))
		return VM_FAULT_SIGBUS;
	sim_buffer_used(buffer);
	ret = sim_fault_insert(vmf, buffer, &n_pages, &huge);
	up_read(&buffer->lock);

	trace_fault(buffer, vmf->pgoff - sim_slot_pgoff(buffer->dev, buffer->slot), n_pages);
	sim_count(buffer->dev, buffer->account, SIM_FAULTS, 1);
	if (huge)
		sim_count(buffer->dev, buffer->account, SIM_FAULTS_HUGE, 1);
	if (n_pages) {
		sim_count(buffer->dev, buffer->account, SIM_FAULT_PAGES_MAPPED, n_pages);
		sim_count(buffer->dev, buffer->account, SIM_FAULTS_BY_ORDER + ilog2(n_pages), 1);
	} else {
		sim_count(buffer->dev, buffer->account, SIM_FAULTS_REFUSED, 1);
	}
	return ret;
}

static vm_fault_t sim_vm_fault(struct vm_fault *vmf)
{
	struct sim_map *map = vmf->vma->vm_private_data;
	vm_fault_t ret;
	int lock;

	if (!map)
		return VM_FAULT_SIGBUS;
	lock = srcu_read_lock(&sim_lost_srcu);
	if (READ_ONCE(map->buffer->dev->gone))
		ret = sim_lost_fault(vmf, map);
	else
		ret = sim_fault(vmf, map->buffer);
	srcu_read_unlock(&sim_lost_srcu, lock);
	return ret;
}

/* With buffer->lock held. False: a process that touches the page gets a signal. */
static bool sim_access_page(struct sim_buffer *buffer, pgoff_t index, unsigned int inside,
			    void *bytes, unsigned int n, bool write)
{
	if (index >= buffer->n_pages || sim_page_hurt(buffer, index) ||
	    !sim_page_reachable(buffer->dev, buffer->pages[index]))
		return false;
	if (write)
		memcpy_to_page(buffer->pages[index], inside, bytes, n);
	else
		memcpy_from_page(bytes, buffer->pages[index], inside, n);
	return true;
}

/*
 * A debugger, or /proc/PID/mem: get_user_pages() does not reach these pages. A debugger gets
 * the bytes that the process would at that address, up to where that would get a signal. Only
 * one right that mprotect() has taken away is asked for, the right to write
 * [__access_remote_vm() reads other memory of PROT_NONE, too].
 */
static int sim_vm_access(struct vm_area_struct *vma, unsigned long address, void *bytes,
			 int length, int write)
{
	struct sim_map *map = vma->vm_private_data;
	struct sim_buffer *buffer;
	pgoff_t base;
	int done = 0;

	if (!map || (write && !(vma->vm_flags & VM_WRITE)))
		return -EFAULT;
	buffer = map->buffer;
	base = sim_slot_pgoff(buffer->dev, buffer->slot);
	if (down_read_killable(&buffer->lock))
		return -EINTR;
	length = min_t(unsigned long, length, vma->vm_end - address);
	while (done < length) {
		pgoff_t pgoff = vma->vm_pgoff + ((address - vma->vm_start) >> PAGE_SHIFT);
		unsigned int inside = offset_in_page(address);
		int n = min_t(int, length - done, PAGE_SIZE - inside);
		bool there;

		if (READ_ONCE(buffer->dev->gone))
			there = sim_lost_access(vma, pgoff, inside, bytes + done, n, write);
		else
			there = sim_access_page(buffer, pgoff - base, inside, bytes + done, n,
						write);
		if (!there)
			break;
		address += n;
		done += n;
	}
	up_read(&buffer->lock);
	return done ? done : -EFAULT;
}

/*
 * No .mremap: nothing here keeps a map's address. A fault finds its page by vmf->pgoff, and
 * the zeros of a lost map likewise, an access by vm_pgoff and how far it is from vm_start,
 * revocation by vm_pgoff; all of that moves with the map. VM_DONTEXPAND keeps it from growing.
 *
 * No .may_split: a map may be cut at any page, as each part has its own vm_pgoff and, by
 * .open, its own reference. The kernel takes away a large entry that a cut goes through, or
 * that mremap() can't move as a whole (__split_huge_pmd()): it has no table of single ones to
 * put there. The next fault brings those: a block is mapped only where all of it is inside the
 * map, at multiples of its size.
 */
static const struct vm_operations_struct sim_vm_ops = {
	.open	= sim_vm_open,
	.close	= sim_vm_close,
	.fault	= sim_vm_fault,
	.access	= sim_vm_access,
};

/* The range from vma->vm_pgoff has to lie in the buffer; the map must be no private copy. */
int sim_mmap_check(struct sim_buffer *buffer, struct vm_area_struct *vma, u64 *ret_first)
{
	u64 first = vma->vm_pgoff - sim_slot_pgoff(buffer->dev, buffer->slot);
	u64 n_pages;

	/* The kernel takes a private copy of a special entry for a bug. */
	if (is_cow_mapping(vma->vm_flags))
		return -EINVAL;
	down_read(&buffer->lock);
	n_pages = buffer->capacity;
	up_read(&buffer->lock);
	if (first >= n_pages || vma_pages(vma) > n_pages - first)
		return -ERANGE;
	*ret_first = first;
	return 0;
}

/* Maps the range of the buffer from vma->vm_pgoff. */
int sim_mmap_buffer(struct sim_buffer *buffer, struct vm_area_struct *vma,
		    bool zero_when_lost)
{
	struct sim_map *map;
	u64 first;
	int r;

	r = sim_mmap_check(buffer, vma, &first);
	if (r)
		return r;

	map = sim_map_new(buffer, vma->vm_mm, zero_when_lost);
	if (!map)
		return -ENOMEM;

	/*
	 * VM_WIPEONFORK: a child begins without entries, and so never with the
	 * zeros that its parent's map has once the device is lost.
	 */
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP | VM_WIPEONFORK);
	if (buffer->cache == HETSIM_CACHE_COMBINE)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = map;
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
	if (READ_ONCE(opener->dev->gone))
		return -ENODEV;
	if (slot > SIM_MAX_BUFFERS)
		return -ENOENT;
	buffer = sim_buffer_get(opener, slot);
	if (!buffer)
		return -ENOENT;
	if (buffer->import)
		r = sim_import_mmap(buffer, vma);
	else
		r = sim_mmap_buffer(buffer, vma, READ_ONCE(opener->zero_when_lost));
	sim_buffer_put(buffer);
	return r;
}

/* Takes the pages, and no other pages, out of all processes that have mapped them. */
void sim_mmap_revoke(struct sim_buffer *buffer, u64 first, u64 n_pages)
{
	struct sim_device *dev = buffer->dev;
	loff_t start = (loff_t)(sim_slot_pgoff(dev, buffer->slot) + first) << PAGE_SHIFT;

	unmap_mapping_range(dev->inode->i_mapping, start, n_pages << PAGE_SHIFT, 1);
}
