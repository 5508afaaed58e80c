// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Chunks of mirrors go when the kernel is short of memory: a device fault makes them again.
 *
 * Reclaim runs under locks that the end of a notifier may wait for, so a worker frees the chunks,
 * the oldest of each mirror first. The pages of buffers stay, since they are the only copy.
 */
#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/shrinker.h> /* wants both before it */

#include "sim_mirror.h"

static DEFINE_SPINLOCK(sim_mirrors_lock); /* protects the next list; innermost */
static LIST_HEAD(sim_mirrors);

/* Chunks that no reclaim has asked for yet. */
static unsigned long sim_mirror_free_chunks(struct sim_mirror *mirror)
{
	unsigned int n = READ_ONCE(mirror->n_chunks), asked = atomic_read(&mirror->n_asked);

	return n - min(n, asked);
}

static unsigned long sim_shrinker_count(struct shrinker *shrinker, struct shrink_control *control)
{
	struct sim_mirror *mirror;
	unsigned long n = 0;

	spin_lock(&sim_mirrors_lock);
	list_for_each_entry(mirror, &sim_mirrors, mirrors_link)
		n += sim_mirror_free_chunks(mirror);
	spin_unlock(&sim_mirrors_lock);
	return n ?: SHRINK_EMPTY;
}

/* A mirror that was asked goes to the end of the list, so that it is another one's turn next. */
static unsigned long sim_shrinker_scan(struct shrinker *shrinker, struct shrink_control *control)
{
	struct sim_mirror *mirror, *last;
	unsigned long asked = 0, n;

	spin_lock(&sim_mirrors_lock);
	last = list_empty(&sim_mirrors) ? NULL :
					  list_last_entry(&sim_mirrors, struct sim_mirror,
							  mirrors_link);
	while (last && asked < control->nr_to_scan) {
		mirror = list_first_entry(&sim_mirrors, struct sim_mirror, mirrors_link);
		list_move_tail(&mirror->mirrors_link, &sim_mirrors);
		n = min(control->nr_to_scan - asked, sim_mirror_free_chunks(mirror));
		if (n) {
			atomic_add(n, &mirror->n_asked);
			schedule_work(&mirror->reap);
		}
		asked += n;
		if (mirror == last)
			break;
	}
	spin_unlock(&sim_mirrors_lock);
	control->nr_scanned = asked;
	return asked ?: SHRINK_STOP;
}

void sim_mirror_shrinks(struct sim_mirror *mirror)
{
	spin_lock(&sim_mirrors_lock);
	list_add(&mirror->mirrors_link, &sim_mirrors);
	spin_unlock(&sim_mirrors_lock);
}

/* From here on no reclaim asks the worker. */
void sim_mirror_shrinks_no_more(struct sim_mirror *mirror)
{
	spin_lock(&sim_mirrors_lock);
	list_del(&mirror->mirrors_link);
	spin_unlock(&sim_mirrors_lock);
}

#ifdef HAVE_SHRINKER_ALLOC
static struct shrinker *sim_shrinker;

int sim_shrinker_init(void)
{
	sim_shrinker = shrinker_alloc(0, "hetsim-chunks");
	if (!sim_shrinker)
		return -ENOMEM;
	sim_shrinker->count_objects = sim_shrinker_count;
	sim_shrinker->scan_objects = sim_shrinker_scan;
	shrinker_register(sim_shrinker);
	return 0;
}

void sim_shrinker_exit(void)
{
	shrinker_free(sim_shrinker);
}
#else
static struct shrinker sim_shrinker = {
	.count_objects = sim_shrinker_count,
	.scan_objects = sim_shrinker_scan,
	.seeks = DEFAULT_SEEKS,
};

int sim_shrinker_init(void)
{
	return register_shrinker(&sim_shrinker, "hetsim-chunks");
}

void sim_shrinker_exit(void)
{
	unregister_shrinker(&sim_shrinker);
}
#endif
