// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * /proc/PID/fdinfo of an open file: the standard keys of Documentation/gpu/drm-usage-stats.rst
 * first, which tools for all devices read, and then the device's own, which begin with hetsim-.
 */
#include <linux/seq_file.h>

#include "sim.h"

#define SIM_FDINFO_LOOKS 256u /* at buffers, while other tasks wait for the handles */

/* Regions of memory by the names of these keys, in which "memory" is the system's. */
enum {
	SIM_REGION_VRAM, /* with the window, which is a part of it */
	SIM_REGION_MEMORY,
	SIM_N_REGIONS
};

/* Pages of an opener's buffers in a region. */
enum {
	SIM_TOTAL,    /* of the buffers that are to be there */
	SIM_SHARED,   /* of these, the ones that other openers have a handle of, too */
	SIM_RESIDENT, /* that are there now */
	SIM_N_SUMS
};

struct sim_region_sums {
	u64 n_pages[SIM_N_SUMS];
};

static const char * const sim_region_keys[SIM_N_REGIONS][SIM_N_SUMS] = {
	[SIM_REGION_VRAM] = { "drm-total-vram", "drm-shared-vram", "drm-resident-vram" },
	[SIM_REGION_MEMORY] = { "drm-total-memory", "drm-shared-memory", "drm-resident-memory" },
};

static void sim_show_pages(struct seq_file *m, const char *key, u64 n_pages)
{
	seq_printf(m, "%s:\t%llu KiB\n", key, n_pages << (PAGE_SHIFT - 10));
}

static unsigned int sim_region_of(u32 place)
{
	return place == HETSIM_PLACE_SYSTEM ? SIM_REGION_MEMORY : SIM_REGION_VRAM;
}

/*
 * The buffer's lock is not taken, since a move may hold it for long: the sums may be of before and
 * after one. Memory of another device counts as the system's, and its own driver tells where it is.
 */
static void sim_region_add(struct sim_region_sums *sums, const struct sim_buffer *buffer)
{
	u32 place = buffer->import ? HETSIM_PLACE_SYSTEM : READ_ONCE(buffer->place);
	struct sim_region_sums *sum = &sums[sim_region_of(place)];
	u64 n_pages = READ_ONCE(buffer->n_pages);

	sum->n_pages[SIM_TOTAL] += n_pages;
	if (buffer->import || READ_ONCE(buffer->n_handles) > 1)
		sum->n_pages[SIM_SHARED] += n_pages;
	for (place = 0; place < SIM_N_PLACES; place++)
		sums[sim_region_of(place)].n_pages[SIM_RESIDENT] +=
			READ_ONCE(buffer->pages_in[place]);
}

/*
 * Sums up the buffers that the opener has handles of. Shows the evicted ones and their numbers of
 * evictions, by the offsets of their maps: a reader has these from /proc/PID/maps.
 */
static void sim_show_buffers(struct seq_file *m, struct sim_opener *opener)
{
	u64 span = opener->dev->window_pages << PAGE_SHIFT;
	struct sim_region_sums sums[SIM_N_REGIONS] = {};
	struct sim_buffer *buffer;
	unsigned int looks = 0, i, j;
	unsigned long slot;

	/* A buffer that has a handle is not freed before the lock is given up. */
	xa_lock(&opener->handles);
	xa_for_each(&opener->handles, slot, buffer) {
		s64 n = atomic64_read(&buffer->n_evictions);

		sim_region_add(sums, buffer);
		if (n)
			seq_printf(m, "hetsim-evicted:\t%llx-%llx %lld\n", slot * span,
				   (slot + 1) * span, n);
		if (++looks % SIM_FDINFO_LOOKS)
			continue;
		xa_unlock(&opener->handles);
		cond_resched();
		xa_lock(&opener->handles);
	}
	xa_unlock(&opener->handles);

	for (i = 0; i < SIM_N_REGIONS; i++)
		for (j = 0; j < SIM_N_SUMS; j++)
			sim_show_pages(m, sim_region_keys[i][j], sums[i].n_pages[j]);
}

/* All queues are engines of one kind, each of which can be busy beside another. */
static void sim_show_standard(struct seq_file *m, const struct sim_account *account)
{
	seq_printf(m, "drm-driver:\t%s\n", KBUILD_MODNAME);
	seq_printf(m, "drm-client-id:\t%llu\n", account->id);
	seq_printf(m, "drm-engine-compute:\t%lld ns\n",
		   atomic64_read(&account->counters.value[SIM_ENGINE_NS]));
	seq_printf(m, "drm-engine-capacity-compute:\t%u\n", SIM_MAX_DEVICE_QUEUES);
}

static void sim_show_memory(struct seq_file *m, const struct sim_opener *opener)
{
	static const char * const keys[] = {
		[HETSIM_PLACE_VRAM] = "hetsim-memory-vram",
		[HETSIM_PLACE_SYSTEM] = "hetsim-memory-system",
		[HETSIM_PLACE_WINDOW] = "hetsim-memory-window",
	};
	struct sim_device *dev = opener->dev;
	u64 used[SIM_N_PLACES];
	unsigned int i;

	spin_lock(&dev->memory_lock);
	memcpy(used, opener->account->pages_used, sizeof(used));
	spin_unlock(&dev->memory_lock);

	for (i = 0; i < SIM_N_PLACES; i++)
		sim_show_pages(m, keys[i], used[i]);
	sim_show_pages(m, "hetsim-memory-limit", dev->memory.opener_limit);
	sim_show_pages(m, "hetsim-memory-system-limit", dev->memory.opener_system_limit);
}

void sim_show_fdinfo(struct seq_file *m, struct file *file)
{
	static const struct {
		const char *key;
		enum sim_counter counter;
	} counts[] = {
		{ "hetsim-faults", SIM_FAULTS },
		{ "hetsim-evictions", SIM_EVICTIONS },
		{ "hetsim-device-faults", SIM_MIRROR_FAULTS },
		{ "hetsim-invalidations", SIM_MIRROR_INVALIDATIONS },
		{ "hetsim-migrated", SIM_PAGES_MIGRATED },
		{ "hetsim-returned", SIM_PAGES_RETURNED },
	};
	struct sim_opener *opener = file->private_data;
	struct sim_account *account = opener->account;
	unsigned int i;

	sim_show_standard(m, account);
	seq_printf(m, "hetsim-device:\t%s\n", opener->dev->name);
	seq_printf(m, "hetsim-client-id:\t%llu\n", account->id);
	sim_show_memory(m, opener);
	for (i = 0; i < ARRAY_SIZE(counts); i++)
		seq_printf(m, "%s:\t%lld\n", counts[i].key,
			   atomic64_read(&account->counters.value[counts[i].counter]));
	seq_printf(m, "hetsim-engine:\t%lld ns\n",
		   atomic64_read(&account->counters.value[SIM_ENGINE_NS]));
	sim_show_buffers(m, opener);
}
