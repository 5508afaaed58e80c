// SPDX-License-Identifier: MIT
/* The operations of undo_operations.c that say where pages are to be. */
#include "core/undo.h"

int undo_lock_all(struct world *world)
{
	return hm_map_lock(world->map, 0, SIZE, 0, NULL);
}

int undo_lock_on_fault(struct world *world)
{
	return hm_map_lock(world->map, 0, SIZE, HM_LOCK_ONFAULT, NULL);
}

int undo_lock_evicting(struct world *world)
{
	return hm_map_lock(world->map, 0, SIZE, HM_LOCK_PRIORITY(1), NULL);
}

int undo_lock_restore(struct world *world)
{
	(void)world;
	return hm_lock_restore(NULL);
}

int undo_lock_budget(struct world *world)
{
	(void)world;
	return hm_lock_budget_set(2 * PAGE);
}

int undo_unlock_middle(struct world *world)
{
	return hm_map_unlock(world->map, 3 * PAGE, 2 * PAGE);
}

int undo_advise_cold(struct world *world)
{
	return hm_map_advise(world->map, 0, SIZE, HM_ADVICE_COLD);
}

int undo_advise_huge(struct world *world)
{
	return hm_map_advise(world->map, 0, SIZE, HM_ADVICE_HUGEPAGE);
}

int undo_prefetch_read(struct world *world)
{
	return hm_map_prefetch(world->map, 0, SIZE, HM_READ);
}

int undo_prefetch_write(struct world *world)
{
	return hm_map_prefetch(world->map, 0, SIZE, HM_READ | HM_WRITE);
}

int undo_sync_all(struct world *world)
{
	return hm_map_sync(world->map, 0, SIZE, 0);
}
