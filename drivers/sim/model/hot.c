// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Hot pages: slots, which are found by hashing, and the sketch that counts uses.
 */
#include "hot.h"

#define HOT_LOOKS 8u   /* slots that a new page is compared with */
#define HOT_MARGIN 1u  /* a change of places moves two pages: it has to be worth it */
#define HOT_SHARE 8u   /* counters for each slot, at least */
#define HOT_FIRST 2u   /* uses of a page that comes where there is room */
#define HOT_FULL 255u  /* of a counter */
#define HOT_END U32_MAX /* of a chain */

/* The least power of 2 that is enough counters. */
static u32 hot_counters(u32 n_slots)
{
	u32 n = HOT_SHARE;

	while (n / HOT_SHARE < n_slots)
		n *= 2;
	return n;
}

size_t hot_size(u32 n_slots)
{
	size_t n = hot_counters(n_slots);

	return sizeof(struct hot) + n_slots * sizeof(struct hot_slot) +
	       n / HOT_SHARE * sizeof(u32) + n;
}

struct hot *hot_init(void *memory, u32 n_slots)
{
	struct hot *hot = memory;
	u32 i, n = hot_counters(n_slots);

	memset(memory, 0, hot_size(n_slots));
	hot->n_slots = n_slots;
	hot->mask = n - 1;
	hot->slot = (struct hot_slot *)(hot + 1);
	hot->chain = (u32 *)(hot->slot + n_slots);
	hot->counter = (u8 *)(hot->chain + n / HOT_SHARE);
	for (i = 0; i < n / HOT_SHARE; i++)
		hot->chain[i] = HOT_END;
	for (i = 0; i < n_slots; i++)
		hot->slot[i].next = i + 1 < n_slots ? i + 1 : HOT_END;
	return hot;
}

static u64 hot_hash(u64 page)
{
	page ^= page >> 31;
	page *= 0x9e3779b97f4a7c15ull;
	return page ^ page >> 29;
}

/* ---- the sketch ---- */

static u8 *hot_counter(const struct hot *hot, u64 page, unsigned int which)
{
	u64 hash = hot_hash(page);

	return &hot->counter[(which ? hash >> 32 : hash) & hot->mask];
}

static u8 hot_count(const struct hot *hot, u64 page)
{
	u8 a = *hot_counter(hot, page, 0), b = *hot_counter(hot, page, 1);

	return a < b ? a : b;
}

/* Counts a use: only the smaller counter rises, as the larger one is other pages', too. */
static u8 hot_count_up(struct hot *hot, u64 page)
{
	u8 *a = hot_counter(hot, page, 0), *b = hot_counter(hot, page, 1);
	u8 least = *a < *b ? *a : *b;

	hot->counter[hot->aged] /= 2;
	hot->aged = (hot->aged + 1) & hot->mask;
	if (least == HOT_FULL)
		return least;
	if (*a == least)
		++*a;
	if (b != a && *b == least)
		++*b;
	return least + 1;
}

/* ---- slots ---- */

/* The link that leads to the page's slot, or to the end of its chain. */
static u32 *hot_link(const struct hot *hot, u64 page)
{
	u32 *link = &hot->chain[(hot_hash(page) >> 16) & (hot->mask / HOT_SHARE)];

	while (*link != HOT_END && hot->slot[*link].page != page)
		link = &hot->slot[*link].next;
	return link;
}

static struct hot_slot *hot_find(const struct hot *hot, u64 page)
{
	u32 at = *hot_link(hot, page);

	return at == HOT_END ? NULL : &hot->slot[at];
}

/* The slot of a page that has none yet; one is free. */
static void hot_take(struct hot *hot, u64 page)
{
	u32 *link = hot_link(hot, page), at = hot->free;
	struct hot_slot *slot = &hot->slot[at];

	hot->free = slot->next;
	hot->n_used++;
	slot->page = page;
	slot->next = HOT_END;
	slot->used = true;
	slot->fresh = true;
	*link = at;
}

void hot_drop(struct hot *hot, u64 page)
{
	u32 *link = hot_link(hot, page), at = *link;

	if (at == HOT_END)
		return;
	*link = hot->slot[at].next;
	hot->slot[at].used = false;
	hot->slot[at].fresh = false;
	hot->slot[at].next = hot->free;
	hot->free = at;
	hot->n_used--;
}

/* The page of the slots at hand that counts least, and less than @count; HOT_NONE. */
static u64 hot_least(struct hot *hot, u8 count)
{
	u64 least = HOT_NONE;
	u32 i;

	for (i = 0; i < HOT_LOOKS && i < hot->n_slots; i++) {
		const struct hot_slot *slot = &hot->slot[hot->hand];
		u8 its = hot_count(hot, slot->page);

		hot->hand = hot->hand + 1 < hot->n_slots ? hot->hand + 1 : 0;
		if (!slot->used || slot->fresh || its + HOT_MARGIN >= count)
			continue;
		count = its + HOT_MARGIN;
		least = slot->page;
	}
	return least;
}

enum hot_answer hot_use(struct hot *hot, u64 page, bool there, u64 *ret_leaves)
{
	struct hot_slot *slot = hot_find(hot, page);
	bool fresh = slot && slot->fresh;
	u8 count;

	if (fresh && there) {
		slot->fresh = false;
		return HOT_COUNTED;
	}
	/* It went back, or could not come: then it has to be used often again. */
	if (slot && !there)
		hot_drop(hot, page);
	if (fresh) {
		*hot_counter(hot, page, 0) = 0;
		return HOT_COUNTED;
	}
	count = hot_count_up(hot, page);
	if (there)
		return HOT_HIT;
	if (count < HOT_FIRST)
		return HOT_MISS;
	*ret_leaves = HOT_NONE;
	if (hot->n_used == hot->n_slots) {
		*ret_leaves = hot_least(hot, count);
		if (*ret_leaves == HOT_NONE)
			return HOT_MISS;
		hot_drop(hot, *ret_leaves);
	}
	hot_take(hot, page);
	return HOT_COMES;
}

bool hot_comes(const struct hot *hot, u64 page)
{
	const struct hot_slot *slot = hot_find(hot, page);

	return slot && slot->fresh;
}

void hot_came(struct hot *hot, u64 page)
{
	struct hot_slot *slot = hot_find(hot, page);

	if (slot)
		slot->fresh = false;
}

u64 hot_next(const struct hot *hot, u32 *at)
{
	while (*at < hot->n_slots) {
		const struct hot_slot *slot = &hot->slot[(*at)++];

		if (slot->used)
			return slot->page;
	}
	return HOT_NONE;
}
