/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * hetsim, a simulated device with memory of its own: declarations that its steps share.
 *
 * This is a fake device: its memory is the system's. Pages that stand for VRAM
 * are single ones, even where they were allocated 2 MiB at a time (huge=1), counted against
 * the device's limit and charged to the control group of the process that makes the buffer.
 *
 * Locks, from the outermost in:
 *
 *	sim_devices_lock		platform devices come and go
 *	device_lock() of one		the driver core's, around probe() and remove(). Faults and
 *					ends of attachments are waited for under it, so nothing
 *					that they need has it inside
 *	sim_opener.importing		one import of other devices' memory at a time
 *	sim_device.brackets_lock	dma-bufs come and go, are gone through, and are
 *					given to one more
 *	sim_va.change			one bind or unbind at a time; allocates
 *	sim_mirror.lock			one device fault, or change of advice, at a time; the
 *					kernel brings pages under it, which may take long
 *	sim_store.returning		one part of a store at a time: its pages come back.
 *					Nothing under it waits for a page's lock
 *	mmap_lock of a process		held by the kernel around faults and mmap
 *	dma_resv of a buffer		its dma-bufs'; held by the kernel around
 *					attachments' maps, which end when an imported
 *					buffer is freed. A job that names buffers holds those
 *					of all of them, by a ww_acquire_ctx, while it gets
 *					its number: see sim_uses.c
 *	sim_brackets.lock		one begin or end of a dma-buf's at a time; nothing
 *					under it allocates
 *	sim_lost_srcu			around a fault; the removal of a device waits for
 *					it, with the first two and nothing else
 *	sim_buffer.change		one resize or move at a time; allocates. No task
 *					holds two
 *	sim_buffer.lock			taken by faults; nothing under it touches
 *					the memory of a process, unless with page faults
 *					disabled. Only debugfs's memcpy holds two, for
 *					reading, by rising slots
 *	i_mmap_rwsem of sim_device.inode  taken by the kernel while zapping
 *	sim_va.lock			taken by the engine on its way to signalling
 *					a dma_fence: nothing under it allocates, as
 *					reclaim may wait for that fence. Also taken when the
 *					kernel takes pages back from a mirror, under any lock
 *					of memory management, and from reclaim itself
 *	sim_queue.lock			the same
 *	sim_timeline.lock		the same; one at a time
 *	sim_account.mirror_lock		around the next one
 *	sim_mirror.events_lock		the same
 *	sim_mirror.uses_lock		nothing under it allocates, or takes a lock
 *	sim_store.lock			nothing under it allocates
 *	sim_device.memory_lock		innermost
 *	sim_device.imports_lock		the same; around no exporter's callback
 *	sim_device.dump_lock		the same
 *	sim_mirrors_lock		the same; taken by reclaim, under any lock
 *	sim_timelines_lock		the same
 *
 * sim_device.lock and the locks of the xarrays are taken with none of these
 * inside them, except that debugfs tries for sim_va.change inside sim_device.lock.
 */
#ifndef SIM_H
#define SIM_H

#include <linux/atomic.h>
#include <linux/device.h>
#include <linux/dma-resv.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/memcontrol.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat.h"
#include "model/model.h"

struct dma_buf;
struct dmem_cgroup_region;
struct sim_dump;
struct sim_job;
struct sim_mirror;
struct sim_queue;
struct sim_store;
struct sim_timeline;

/* Limits that the twin does not have, because the module's users are many. */
#define SIM_MAX_COMPAT_BUFFERS (SIM_MAX_BUFFERS / 4) /* slots that 64-bit processes leave at most */
#define SIM_MAX_USER_QUEUES 128 /* in one user's openers, without CAP_SYS_RESOURCE */

/* Features that the twin does not have, or not all kernels. */
#if SIM_MIRROR
#define SIM_MORE_FEATURES ((u64)HETSIM_FEATURE_DMABUF_FENCES | HETSIM_FEATURE_MIRROR)
#else
#define SIM_MORE_FEATURES ((u64)HETSIM_FEATURE_DMABUF_FENCES)
#endif

#define SIM_FAULT_PAGES BIT(SIM_BLOCK_ORDER) /* pages that one fault may map */
static_assert(SIM_FAULT_ORDERS - 1 == SIM_BLOCK_ORDER);

/*
 * For memory that calls take: charged to the caller's control group, and -ENOMEM where that is
 * full. Without __GFP_RETRY_MAYFAIL the kernel would end a process of the group instead. Page
 * faults, mmap() and fork() allocate as they do for all memory: GFP_KERNEL_ACCOUNT.
 */
#define SIM_GFP (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/*
 * The same for kvmalloc() and its kin, which take __GFP_RETRY_MAYFAIL as a wish for pages that lie
 * behind each other, and compact memory for them. __GFP_NORETRY ends no process either.
 */
#define SIM_GFP_KV (GFP_KERNEL_ACCOUNT | __GFP_NORETRY | __GFP_NOWARN)

struct sim_counters {
	atomic64_t value[SIM_N_COUNTERS];
};

struct sim_device {
	struct kref ref; /* openers, buffers, and from probe() to remove() */
	bool gone;	 /* unbound or unplugged; never false again */
	wait_queue_head_t lost; /* of calls that wait for timelines: gone is set */
	atomic64_t n_resets; /* running work ends when this rises */
	unsigned int index;
	enum hetsim_kind kind;
	char name[24];
	struct miscdevice misc;
	struct device *parent; /* the platform device, with a reference; attached to dma-bufs */
	struct inode *inode; /* its i_mapping holds all maps of this device */
	struct dentry *debugfs;
	struct sim_counters counters;

	struct mutex lock; /* protects the members up to n_queues; nothing under it allocates */
	struct list_head openers;
	struct rb_root users; /* struct sim_user, by uid */
	unsigned int n_queues; /* in all openers */

	/*
	 * Every buffer by its slot. A slot is a window of window_pages in the
	 * space of offsets for mmap(), a handle, and a name in debugfs.
	 */
	struct xarray buffers;
	u64 window_pages;
	atomic64_t uses;  /* a clock that ticks with each use of a buffer */

	spinlock_t imports_lock; /* protects the next two members */
	struct list_head imports; /* that are attached */
	unsigned int n_attached; /* and with those that begin and end */
	wait_queue_head_t detached; /* n_attached is 0 */

	struct sim_store *store; /* of pages that moved here; NULL: none do; never changes */
	struct dmem_cgroup_region *dmem; /* that VRAM is charged in; NULL: none; never changes */

	spinlock_t dump_lock; /* protects the next member */
	struct sim_dump *dump; /* of a reset, to be given out; read without the lock, too */
	struct work_struct dump_work; /* gives it out */

	struct mutex brackets_lock; /* protects the next two members */
	struct list_head brackets; /* one for each dma-buf */
	unsigned int n_brackets; /* in that list */

	spinlock_t memory_lock; /* protects the members below, and sim_account.pages_used */
	struct sim_memory memory; /* its limits never change */
	u64 pages_pinned[SIM_N_PLACES]; /* for importers: see sim_mem_pin() */
};

/*
 * Objects and counters of an opener. Buffers keep it, because they may outlive the
 * open file that made them.
 */
struct sim_account {
	struct kref ref;
	u64 id; /* no other opener of any device has it, while the module is loaded */
	pid_t pid;
	char comm[TASK_COMM_LEN];
	atomic_t n_buffers; /* that it made and are not gone */
	bool closed; /* the open file is gone; never false again */
	atomic64_t enomem; /* injected: so many allocations from now */
	atomic64_t eintr;  /* injected: so many calls from now */
	u64 pages_used[SIM_N_PLACES]; /* under sim_device.memory_lock */
	u64 pages_pinned[SIM_N_PLACES]; /* the same, of its buffers */
	spinlock_t mirror_lock; /* protects the next member */
	struct sim_mirror *mirror; /* whose events tell of pages that come back; NULL: none */
	struct sim_counters counters;
};

/*
 * The address space of an opener on the device: a page table of four levels of
 * 512 entries, as the CPU's, and the bindings in it.
 */
struct sim_va {
	struct mutex change; /* protects the members up to lock; tables come and go under it */
	struct rb_root bindings;
	unsigned int n_bindings;
	unsigned int n_tables; /* but for the root */

	struct rw_semaphore lock; /* protects the entries and the next four members */
	u64 *root;
	u64 generation; /* counts changes of the entries: a TLB's copy of an older one is void */
	struct list_head tlbs; /* of all queues */
	struct sim_mirror *mirror; /* NULL: none; set once */

	wait_queue_head_t changed; /* entries were filled */
};

/* Pages of a buffer at an address of the device. Nothing changes in it. */
struct sim_binding {
	struct rb_node node;	 /* in sim_va.bindings */
	struct list_head link;	 /* in sim_buffer.bindings */
	struct sim_va *va;
	struct sim_buffer *buffer; /* with a reference */
	struct sim_span span;
	u64 first; /* page of the buffer */
	bool write;
	bool by_maker; /* the opener has made the buffer */
};

/*
 * An entry of the device's page tables is a page frame's number above these bits. Entries of a
 * mirror are not in the tables that bindings have, but in its chunks.
 */
#define SIM_ENTRY_PRESENT BIT_ULL(0)
#define SIM_ENTRY_WRITE BIT_ULL(1)
#define SIM_ENTRY_MOVING BIT_ULL(2) /* and nothing else: will be there again */
#define SIM_ENTRY_FOREIGN BIT_ULL(3) /* the page is another device's */
#define SIM_ENTRY_BOUND BIT_ULL(4) /* also where a shrunk buffer has no page: keeps the table */
#define SIM_ENTRY_MIRROR BIT_ULL(5) /* the page is the process's */
#define SIM_ENTRY_LARGE BIT_ULL(6) /* the first of 2^SIM_LARGE_ORDER pages */
#define SIM_ENTRY_DEVICE BIT_ULL(7) /* of a mirror: the page is in the device's memory */
#define SIM_ENTRY_COUNTED BIT_ULL(11) /* the same: each use is to be counted; is in no TLB */
#define SIM_ENTRY_WHY_SHIFT 8 /* the same: enum hetsim_why */
#define SIM_ENTRY_WHY GENMASK_ULL(10, SIM_ENTRY_WHY_SHIFT)
#define SIM_ENTRY_SHIFT 12

#define SIM_LARGE_ORDER 9

struct sim_tlb_slot {
	u64 page; /* of SIM_ENTRY_LARGE: the first */
	u64 entry; /* 0: none */
};

/*
 * Belongs to one queue: its thread uses it with va->lock held for reading. Who holds that for
 * writing takes translations out: see sim_tlb_drop().
 */
struct sim_tlb {
	struct list_head link; /* in sim_va.tlbs */
	u64 generation;
	bool mirrors; /* the work that runs may use the mirror */
	u64 hits;
	u64 misses;
	struct sim_tlb_slot slot[SIM_TLB_ENTRIES];
	struct sim_tlb_slot large[SIM_TLB_LARGE];
};

/* A mark of sim_opener.handles: maps of the buffer through that file are SIGBUS when lost. */
#define SIM_SIGNAL_WHEN_LOST XA_MARK_1

/* A user with open files of the device. Under sim_device.lock. */
struct sim_user {
	struct rb_node node;	/* in sim_device.users */
	uid_t uid;		/* in the initial user namespace */
	unsigned int n_openers; /* that the user has; the entry is freed with the last one */
	unsigned int n_queues;	/* that these openers have */
};

struct sim_opener {
	struct sim_device *dev;
	struct sim_user *user; /* the user of the process that opened the file */
	struct sim_account *account;
	struct list_head link; /* in sim_device.openers */
	bool accepted;	       /* a handshake was */
	bool zero_when_lost;   /* the answer to a loss that it asked for there */
	struct xarray handles; /* slot -> struct sim_buffer, each with a reference */
	struct mutex importing; /* from looking for a dma-buf's handle to its being there */
	struct sim_va va;
	struct xarray queues; /* number -> struct sim_queue, each with a reference */
};

struct sim_buffer {
	struct kref ref; /* handles, maps, bindings, dma-bufs, calls in it */
	struct sim_device *dev;
	struct sim_account *account; /* the maker's */
	u32 slot; /* in sim_device.buffers; 0: none yet */
	u32 cache;
	u32 place; /* where further pages go */
	struct mem_cgroup *memcg; /* the same one's, NULL where there are none */
	struct sim_import *import; /* another device's memory; NULL: this one's */
	struct dma_resv resv; /* of all its dma-bufs, but for an import: see sim_buffer_resv() */
	atomic64_t n_maps;
	atomic64_t n_evictions;
	atomic64_t last_use; /* by sim_device.uses */

	/*
	 * One resize or move at a time, however long it takes. The members below are
	 * only changed with both locks held.
	 */
	struct mutex change;
	struct list_head charges; /* to groups of dmem: see sim_dmem.c; protected by change alone */
	u64 n_charged; /* pages in these; the same */

	struct rw_semaphore lock; /* protects the members below */
	u64 n_pages;
	u64 capacity; /* in pages: how far maps may reach; n_pages or more */
	u64 pages_in[SIM_N_PLACES];
	unsigned int n_pins;	/* while any, no page moves; read without the lock, too */
	unsigned int n_exports; /* while any, it does not shrink; the same */
	unsigned int n_handles; /* that all openers have */
	unsigned int n_bindings[2]; /* by sim_binding.by_maker */
	/*
	 * The dma-bufs that exports return: read-only at 0, writable at 1. Each has a reference
	 * while the buffer has a handle, or is NULL.
	 */
	struct dma_buf *dmabufs[2];
	s64 sigbus;		/* injected: a page, -1 for none */
	s64 poison;		/* the same */
	atomic_t *accesses;	/* one for each page, while it is sampled; else NULL */
	struct page **pages;
	struct list_head bindings;
};

/* CPU accesses to a dma-buf that were begun and have not ended. */
struct sim_brackets {
	struct list_head link; /* in sim_device.brackets */
	struct sim_buffer *buffer; /* the dma-buf has a reference on it */
	struct dma_buf *dmabuf; /* that the accesses are to */

	struct mutex lock; /* protects the next two members */
	struct list_head processes; /* that have begun them */
	unsigned int n; /* accesses of all processes; read without the lock, too */
};

/*
 * A map of a buffer in a process, also when the process has split it into parts.
 * A child of fork() has one of its own.
 */
struct sim_map {
	struct kref ref; /* parts */
	struct sim_buffer *buffer; /* with a reference */
	struct mm_struct *mm; /* that the map is in; only compared */
	bool zero_when_lost;
	struct xarray zeros; /* vm_pgoff -> page, once the device is lost */
};

static inline void sim_count(struct sim_device *dev, struct sim_account *account,
			     unsigned int counter, s64 n)
{
	atomic64_add(n, &dev->counters.value[counter]);
	atomic64_add(n, &account->counters.value[counter]);
}

static inline void sim_buffer_used(struct sim_buffer *buffer)
{
	atomic64_set(&buffer->last_use, atomic64_inc_return(&buffer->dev->uses));
}

/*
 * A page of this device names its buffer, and in the low bits the place that counts it.
 * Pages of other devices name nothing.
 */
#define SIM_PAGE_PLACE 3ul

static inline u32 sim_page_place(struct page *page)
{
	return page_private(page) & SIM_PAGE_PLACE;
}

static inline struct sim_buffer *sim_page_buffer(struct page *page)
{
	return (struct sim_buffer *)(page_private(page) & ~SIM_PAGE_PLACE);
}

static inline bool sim_page_reachable(struct sim_device *dev, struct page *page)
{
	return sim_memory_reachable(&dev->memory, sim_page_place(page));
}

static inline pgoff_t sim_slot_pgoff(const struct sim_device *dev, u32 slot)
{
	return slot * dev->window_pages;
}

/*
 * Takes out the object that is stored under a caller's name; NULL if there is none. A name
 * that is only reserved stays so, because a task is about to store an object there: xa_erase()
 * would let another task have the name.
 */
static inline void *sim_name_take(struct xarray *names, u32 name)
{
	void *object;

	xa_lock(names);
	object = xa_load(names, name);
	if (object)
		__xa_erase(names, name);
	xa_unlock(names);
	return object;
}

/* A function for each call: sim_handshake(), sim_query() and so on. */
#define HETSIM_CALL(NAME, name, last) int sim_##name(struct file *file, void *argument);
#include "model/calls.h"

/* sim_main.c */
extern bool sim_test;
extern bool sim_huge;
extern bool sim_engine_cgroup;
extern unsigned int sim_fault_us;

/* sim_driver.c */
int sim_device_plug(unsigned int index);
int sim_device_unplug(struct sim_device *dev);
void sim_device_put(struct sim_device *dev);

/* sim_file.c */
extern const struct file_operations sim_fops;
int sim_fs_init(void);
void sim_fs_exit(void);
struct inode *sim_fs_inode(void);
void sim_account_put(struct sim_account *account);

/* sim_fdinfo.c */
void sim_show_fdinfo(struct seq_file *m, struct file *file);

/* sim_ioctl.c */
unsigned int sim_cache_modes(void);
u32 sim_cache_of(struct page *page);
long sim_ioctl(struct file *file, unsigned int cmd, unsigned long argument);
int sim_reply_file(void *argument, struct file *file);

/* sim_store.c, sim_migrate.c, sim_return.c: there with SIM_MIGRATION */
#if SIM_MIGRATION
int sim_stores_init(unsigned int n_devices, const char *bar, unsigned int mb);
void sim_stores_exit(void);
struct sim_store *sim_store_of(unsigned int index);
void sim_store_drain(struct sim_store *store);
void sim_store_return(struct sim_store *store, const struct sim_device *dev,
		      const struct sim_account *account);
u64 sim_store_evict(struct sim_store *store, u64 n_pages);
#else
static inline int sim_stores_init(unsigned int n_devices, const char *bar, unsigned int mb)
{
	return bar ? -EOPNOTSUPP : 0;
}

static inline void sim_stores_exit(void)
{
}

static inline struct sim_store *sim_store_of(unsigned int index)
{
	return NULL;
}

static inline void sim_store_drain(struct sim_store *store)
{
}

static inline void sim_store_return(struct sim_store *store, const struct sim_device *dev,
				    const struct sim_account *account)
{
}

static inline u64 sim_store_evict(struct sim_store *store, u64 n_pages)
{
	return 0;
}
#endif

/* sim_mem.c */
int sim_mem_reserve(struct sim_device *dev, struct sim_account *account, u32 place, u64 n_pages,
		    const u64 *leaving, bool evict, struct sim_lack *lack);
void sim_mem_release(struct sim_device *dev, struct sim_account *account, u32 place,
		     u64 n_pages);
int sim_mem_pages_get(struct sim_buffer *buffer, u32 place, struct page **pages, u64 first,
		      u64 n_pages, const u64 *leaving, bool evict, struct sim_lack *lack);
int sim_mem_make_room(struct sim_buffer *buffer, struct sim_lack *lack);
int sim_mem_pin(struct sim_buffer *buffer, bool must);
int sim_mem_pin_more(struct sim_buffer *buffer, u64 n_pages);
bool sim_mem_may_pin_more(struct sim_buffer *buffer, u64 n_pages);
void sim_mem_unpin(struct sim_buffer *buffer);
void sim_mem_pages_put(struct sim_buffer *buffer, struct page **pages, u64 n_pages);

/* sim_dmem.c: there where the kernel has this control group */
#ifdef HAVE_CGROUP_DMEM
int sim_dmem_init(struct sim_device *dev);
void sim_dmem_exit(struct sim_device *dev);
int sim_dmem_charge(struct sim_buffer *buffer, u64 n_pages);
void sim_dmem_uncharge(struct sim_buffer *buffer, u64 n_pages);
void sim_dmem_settle(struct sim_buffer *buffer);
#else
static inline int sim_dmem_init(struct sim_device *dev)
{
	return 0;
}

static inline void sim_dmem_exit(struct sim_device *dev)
{
}

static inline int sim_dmem_charge(struct sim_buffer *buffer, u64 n_pages)
{
	return 0;
}

static inline void sim_dmem_uncharge(struct sim_buffer *buffer, u64 n_pages)
{
}

static inline void sim_dmem_settle(struct sim_buffer *buffer)
{
}
#endif

/* sim_buffer.c */
struct sim_buffer *sim_buffer_new(struct sim_opener *opener, u64 n_pages);
void sim_buffer_delete(struct sim_buffer *buffer);
bool sim_slot_is_mappable(const struct sim_device *dev, u32 slot);
int sim_buffer_publish(struct sim_opener *opener, struct sim_buffer *buffer, u32 *ret_handle);
struct sim_buffer *sim_buffer_get(struct sim_opener *opener, u32 handle);
void sim_buffer_put(struct sim_buffer *buffer);
void sim_buffer_handle_put(struct sim_buffer *buffer);
void sim_buffers_close(struct sim_opener *opener);

/* sim_move.c */
void sim_buffer_pin(struct sim_buffer *buffer);
int sim_evict_part(struct sim_buffer *buffer, u64 n_pages);
int sim_evict(struct sim_buffer *except, u32 place, u64 n_pages, u64 *ret_evicted);

/* sim_mmap.c */
int sim_mmap(struct file *file, struct vm_area_struct *vma);
int sim_mmap_check(struct sim_buffer *buffer, struct vm_area_struct *vma, u64 *ret_first);
int sim_mmap_buffer(struct sim_buffer *buffer, struct vm_area_struct *vma,
		    bool zero_when_lost);
void sim_mmap_revoke(struct sim_buffer *buffer, u64 first, u64 n_pages);

/* sim_va.c */
int sim_va_init(struct sim_va *va);
void sim_va_destroy(struct sim_va *va);
void sim_va_rebind(struct sim_buffer *buffer, u64 first, u64 n_pages, bool moving);
int sim_va_translate(struct sim_va *va, struct sim_tlb *tlb, u64 address, bool write,
		     struct page **pages, unsigned int n);

/* sim_tlb.c */
void sim_tlb_add(struct sim_va *va, struct sim_tlb *tlb);
void sim_tlb_remove(struct sim_va *va, struct sim_tlb *tlb);
void sim_tlb_clear(struct sim_tlb *tlb);
u64 sim_tlb_find(struct sim_tlb *tlb, u64 page, u64 wanted);
u64 sim_tlb_put(struct sim_tlb *tlb, u64 page, u64 entry);
unsigned int sim_tlb_drop(struct sim_va *va, u64 first, u64 end);

/* sim_mirror.c, sim_mirror_fault.c: there with SIM_MIRROR */
#if SIM_MIRROR
bool sim_mirror_is_mine(struct sim_opener *opener);
void sim_mirror_destroy(struct sim_opener *opener);
u64 sim_mirror_entry(struct sim_mirror *mirror, u64 page);
unsigned int sim_mirror_chunks(struct sim_opener *opener);
int sim_mirror_fault(struct sim_queue *queue, struct sim_fault *fault, u64 length);
int sim_shrinker_init(void);
void sim_shrinker_exit(void);
#else
static inline int sim_shrinker_init(void)
{
	return 0;
}

static inline void sim_shrinker_exit(void)
{
}

static inline bool sim_mirror_is_mine(struct sim_opener *opener)
{
	return false;
}

static inline void sim_mirror_destroy(struct sim_opener *opener)
{
}

static inline u64 sim_mirror_entry(struct sim_mirror *mirror, u64 page)
{
	return 0;
}

static inline unsigned int sim_mirror_chunks(struct sim_opener *opener)
{
	return 0;
}

static inline int sim_mirror_fault(struct sim_queue *queue, struct sim_fault *fault, u64 length)
{
	return -EFAULT;
}
#endif

/* sim_queue.c */
void sim_queues_destroy(struct sim_opener *opener);

/* sim_fence.c */
void sim_fence_debugfs(struct dentry *parent);

/* sim_timeline.c */
void sim_timeline_debugfs(struct dentry *parent);

/* sim_dump.c */
void sim_dump_init(struct sim_device *dev);
void sim_dump_stop(struct sim_device *dev);

/* sim_sample.c */
void sim_sample_stop(struct sim_buffer *buffer);

/* sim_dmabuf.c */
bool sim_dmabuf_is_idle(struct sim_buffer *buffer, struct dma_buf *dmabuf);
struct dma_buf *sim_dmabuf_take(struct sim_buffer *buffer, unsigned int write, bool idle_only);
void sim_dmabufs_put(struct dma_buf **dmabufs);
void sim_dmabufs_revoke(struct sim_device *dev);
unsigned int sim_dmabufs_idle(struct sim_buffer *buffer);

/* sim_bracket.c */
void sim_brackets_add(struct sim_brackets *brackets, struct sim_buffer *buffer);
void sim_brackets_remove(struct sim_brackets *brackets);
int sim_bracket_begin(struct sim_brackets *brackets);
int sim_bracket_end(struct sim_brackets *brackets);
void sim_brackets_miss(struct sim_brackets *brackets);
void sim_brackets_look(struct sim_device *dev);

/* sim_import.c */
int sim_import_foreign(struct sim_opener *opener, struct dma_buf *dmabuf, bool write,
		       u32 *ret_handle);
void sim_import_end(struct sim_buffer *buffer);
void sim_imports_lose(struct sim_device *dev);
struct dma_resv *sim_buffer_resv(struct sim_buffer *buffer);
int sim_import_mmap(struct sim_buffer *buffer, struct vm_area_struct *vma);
ssize_t sim_import_rw(struct sim_buffer *buffer, u64 position, struct iov_iter *iter, bool write);

/* sim_lost.c */
extern struct srcu_struct sim_lost_srcu;
void sim_engines_wake(struct sim_device *dev);
void sim_device_lose(struct sim_device *dev);
vm_fault_t sim_lost_fault(struct vm_fault *vmf, struct sim_map *map);
bool sim_lost_access(const struct vm_area_struct *vma, pgoff_t index, unsigned int inside,
		     void *bytes, unsigned int n, bool write);
void sim_lost_free(struct sim_map *map);

/* sim_fault_inject.c */
bool sim_inject_due(atomic64_t *countdown);
bool sim_inject_take(atomic64_t *count);

/* sim_rw.c */
ssize_t sim_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t sim_write_iter(struct kiocb *iocb, struct iov_iter *from);

/* sim_memcpy.c */
extern const struct file_operations sim_memcpy_fops;

/* sim_debugfs.c */
void sim_debugfs_init(void);
void sim_debugfs_stop(void);
void sim_debugfs_exit(void);
void sim_debugfs_add(struct sim_device *dev);
void sim_debugfs_lose(struct sim_device *dev);
void sim_debugfs_remove(struct sim_device *dev);

#endif
