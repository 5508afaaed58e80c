// SPDX-License-Identifier: MIT
/* The state after a failed operation: the old one, whole and in order. */
#include <stdio.h>
#include <string.h>

#include "core/undo.h"

void undo_take_shape(const struct world *world, struct undo_shape *shape)
{
	memset(shape, 0, sizeof(*shape));
	if (world->buffer)
		shape->buffer = buffer_info(world->buffer);
	if (world->map)
		shape->map = map_info(world->map, 0);
	if (world->second)
		shape->second = map_info(world->second, 0);
	shape->stats = stats_now();
	shape->locked = test_status_bytes("VmLck");
}

#define SAME(field)                                                      \
	do {                                                             \
		if (a->field != b->field)                                \
			test_fail(__FILE__, __LINE__,                    \
				  "%s: " #field " changed, 0x%llx "      \
				  "to 0x%llx",                           \
				  context, (unsigned long long)a->field, \
				  (unsigned long long)b->field);         \
	} while (0)

static void compare_maps(const struct hm_map_info *a, const struct hm_map_info *b,
			 const char *context)
{
	SAME(length);
	SAME(reserved_length);
	SAME(offset);
	SAME(access);
	SAME(runs);
	SAME(generation);
	SAME(views);
	SAME(brackets);
	if (a->address != b->address)
		test_fail(__FILE__, __LINE__, "%s: the address changed", context);
}

static void compare(const struct undo_shape *a, const struct undo_shape *b, const char *context)
{
	SAME(buffer.size);
	SAME(buffer.max_size);
	SAME(buffer.caps);
	SAME(buffer.flags);
	SAME(buffer.access);
	SAME(buffer.sealed);
	SAME(buffer.generation);
	SAME(buffer.segments);
	SAME(buffer.maps);
	SAME(stats.devices);
	SAME(stats.buffers);
	SAME(stats.maps);
	SAME(stats.views);
	SAME(stats.bytes_mapped);
	SAME(stats.bytes_locked);
	SAME(locked);
	compare_maps(&a->map, &b->map, context);
	compare_maps(&a->second, &b->second, context);
}

static void check_results_untouched(const struct world *world, const char *context)
{
	/* create_placed makes a buffer before the step that may fail. */
	if (world->ret_device != UNTOUCHED || world->ret_map != UNTOUCHED ||
	    world->ret_view != UNTOUCHED || world->ret_pointer != UNTOUCHED ||
	    world->ret_fd != -1)
		test_fail(__FILE__, __LINE__, "%s: a result was written", context);
}

void undo_check_bytes(struct hm_map *map, const char *context)
{
	struct hm_pointer_info found;
	uint64_t at, length;
	char *base;

	if (!map)
		return;
	base = hm_map_address(map);
	length = hm_map_length(map);
	if (!pattern_holds(base, 0, length < SIZE ? length : SIZE, 1) && length >= SIZE)
		test_fail(__FILE__, __LINE__, "%s: bytes changed", context);
	for (at = 0; at < length; at += PAGE) {
		if (hm_pointer_find(base + at, &found) || found.map != map ||
		    found.length != length) {
			test_fail(__FILE__, __LINE__, "%s: the registry differs at 0x%llx",
				  context, (unsigned long long)at);
			return;
		}
		if (found.access & HM_WRITE)
			((volatile char *)base)[at] = base[at];
	}
}

static void check_page(volatile char *page, uint32_t access, const char *context)
{
	if (!test_read_signal(page) != !!(access & HM_READ) ||
	    !test_write_signal(page) != !!(access & HM_WRITE))
		test_fail(__FILE__, __LINE__, "%s: page %p has not the rights 0x%x", context,
			  (void *)page, access);
}

/* The kernel grants the rights that the registry has, and none behind the map's end. */
static void check_rights(struct hm_map *map, const char *context)
{
	struct hm_pointer_info found;
	uint64_t at, length;
	char *base;

	if (!map)
		return;
	base = hm_map_address(map);
	length = hm_map_length(map);
	for (at = 0; at < length && !hm_pointer_find(base + at, &found); at += PAGE)
		check_page(base + at, found.access, context);
	if (at < map_info(map, 0).reserved_length)
		check_page(base + at, HM_NONE, context);
}

void undo_check_failure(const struct operation *operation, struct world *world,
			const struct undo_shape *before, const char *context)
{
	struct undo_shape after;

	if (!hm_errmsg()[0])
		test_fail(__FILE__, __LINE__, "%s: no text", context);
	check_results_untouched(world, context);
	if (world->ret_buffer != UNTOUCHED) {
		hm_buffer_unref(world->ret_buffer);
		world->ret_buffer = UNTOUCHED;
	}
	undo_take_shape(world, &after);
	if (!operation->stepwise)
		compare(before, &after, context);
	undo_check_bytes(world->map, context);
	undo_check_bytes(world->second, context);
	check_rights(world->map, context);
	check_rights(world->second, context);
	if (world->pointer && !pattern_holds(world->pointer, 0, SIZE, 1))
		test_fail(__FILE__, __LINE__, "%s: bytes changed", context);
	/* And it works once the cause is gone. */
	if (operation->run(world))
		test_fail(__FILE__, __LINE__, "%s: still fails afterwards: %s", context,
			  hm_errmsg());
}
