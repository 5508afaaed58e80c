// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * LEARN: the prefetch that learns from device faults, and from first uses of what it has brought.
 * A worker does it, so that the engine waits for it only where it has a fault meanwhile.
 */
#include <linux/delay.h>
#include <linux/sched/mm.h>

#include "sim_mirror.h"

/*
 * The engine has asked for pages, or uses one first after a prefetch. May be called with va->lock
 * held. When many come at once, the last ones are not learned from.
 */
void sim_learn_used(struct sim_mirror *mirror, u64 page, u64 n_pages, bool write)
{
	u64 first = page / SIM_PIECE_PAGES;
	struct sim_use use = {
		.first = first,
		.n = (page + n_pages - 1) / SIM_PIECE_PAGES - first + 1,
		.write = write,
	};
	bool added = false;
	unsigned int n;

	if (!READ_ONCE(mirror->learns))
		return;
	spin_lock(&mirror->uses_lock);
	n = mirror->n_uses;
	if (n < SIM_LEARN_USES && (!n || mirror->uses[n - 1].first != first)) {
		mirror->uses[mirror->n_uses++] = use;
		added = true;
	}
	spin_unlock(&mirror->uses_lock);
	if (added)
		schedule_work(&mirror->learn);
}

static bool sim_learn_take(struct sim_mirror *mirror, struct sim_use *ret_use)
{
	bool any;

	spin_lock(&mirror->uses_lock);
	any = mirror->n_uses;
	if (any) {
		*ret_use = mirror->uses[0];
		mirror->n_uses--;
		memmove(&mirror->uses[0], &mirror->uses[1],
			mirror->n_uses * sizeof(mirror->uses[0]));
	}
	spin_unlock(&mirror->uses_lock);
	return any;
}

/* Adds to the counters what the policy has counted since the last time. */
static void sim_learn_count(struct sim_mirror *mirror)
{
	const struct ahead_counts *now = &mirror->ahead.counts, *then = &mirror->learned;

	sim_mirror_count(mirror, SIM_LEARN_ACCESSES, now->accesses - then->accesses);
	sim_mirror_count(mirror, SIM_LEARN_SEQUENTIAL, now->sequential - then->sequential);
	sim_mirror_count(mirror, SIM_LEARN_STRIDED, now->strided - then->strided);
	sim_mirror_count(mirror, SIM_LEARN_RANDOM, now->random - then->random);
	sim_mirror_count(mirror, SIM_LEARN_PLANNED,
			 (now->planned - then->planned) * SIM_PIECE_PAGES);
	sim_mirror_count(mirror, SIM_LEARN_DOUBLED, now->doubled - then->doubled);
	sim_mirror_count(mirror, SIM_LEARN_HALVED, now->halved - then->halved);
	mirror->learned = *now;
}

/* Brings one item of a plan, chunk by chunk. */
static int sim_learn_item(struct sim_mirror *mirror, u64 page, u64 n_pages, bool write)
{
	enum hetsim_fault_reason reason;
	u64 end = page + n_pages;
	int r = 0;

	while (page < end && !r) {
		struct sim_want want = {
			.page = page,
			.n_pages = end - page,
			.write = write,
			.once = true,
			.why = HETSIM_WHY_PREFETCH,
		};

		r = sim_mirror_bring(mirror, &want, &reason);
		page = want.page + want.n_pages;
	}
	return r;
}

/* With mirror->lock held, which faults of the engine get between the items. */
static void sim_learn_bring(struct sim_mirror *mirror, const struct ahead_plan *plan, bool write)
{
	u32 i;

	for (i = 0; i < plan->count && mirror->learns; i++) {
		u64 first = plan->start + plan->stride * (s64)i;

		/* Pieces behind the addresses of a process, too: they are refused. */
		if (sim_learn_item(mirror, first * SIM_PIECE_PAGES,
				   plan->length * SIM_PIECE_PAGES, write)) {
			ahead_forget(&mirror->ahead, first, plan->length);
			break;
		}
		mutex_unlock(&mirror->lock);
		cond_resched();
		mutex_lock(&mirror->lock);
	}
}

void sim_learn_work(struct work_struct *work)
{
	struct sim_mirror *mirror = container_of(work, struct sim_mirror, learn);
	struct ahead_plan plan;
	struct sim_use use;

	if (!mmget_not_zero(mirror->mm))
		return;
	mutex_lock(&mirror->lock);
	while (sim_learn_take(mirror, &use)) {
		bool planned = mirror->learns &&
			       ahead_access(&mirror->ahead, use.first, use.n, &plan);

		if (planned && sim_fault_us) {
			mutex_unlock(&mirror->lock);
			fsleep(sim_fault_us);
			mutex_lock(&mirror->lock);
		}
		if (planned)
			sim_learn_bring(mirror, &plan, use.write);
		sim_learn_count(mirror);
	}
	mutex_unlock(&mirror->lock);
	/* The last reference ends all maps of the process: not here. */
	mmput_async(mirror->mm);
}

int sim_learn(struct file *file, void *argument)
{
	const struct hetsim_learn *learn = argument;
	struct sim_mirror *mirror = sim_mirror_of(file->private_data);

	if (IS_ERR(mirror))
		return PTR_ERR(mirror);
	if (mutex_lock_interruptible(&mirror->lock))
		return -EINTR;
	ahead_end(&mirror->ahead);
	sim_learn_count(mirror);
	ahead_init(&mirror->ahead, learn->least / SZ_64K, learn->most / SZ_64K);
	memset(&mirror->learned, 0, sizeof(mirror->learned));
	WRITE_ONCE(mirror->learns, learn->most);
	mutex_unlock(&mirror->lock);
	return 0;
}
