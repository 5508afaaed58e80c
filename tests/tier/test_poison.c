// SPDX-License-Identifier: MIT
/*
 * Broken memory: pages that the kernel is told to take for broken (MADV_HWPOISON), below buffers
 * of each kind. Copies and scopes have an error with the offset, and all other bytes stay. Such
 * pages are lost until the machine ends, so this runs in the machine of tests/vm/tiers only.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"

#define SIZE (16u * PAGE)
#define BROKEN 5u /* page */

static struct hm_buffer *create(const char *device_name, uint32_t flags, uint64_t size)
{
	AUTO(hm_device) *device = rig_device(device_name);

	return rig_buffer(device, DESC(hm_buffer_desc, .flags = flags, .size = size));
}

static void check_fault(const struct hm_fault *fault, const char *base, uint64_t offset)
{
	CHECK_EQUAL(fault->cause, HM_FAULT_BROKEN);
	CHECK_EQUAL(fault->signal, SIGBUS);
	CHECK_EQUAL(fault->code, BUS_MCEERR_AR);
	CHECK_EQUAL(fault->offset / PAGE, offset / PAGE);
	CHECK_EQUAL((uint64_t)((const char *)fault->address - base), fault->offset);
}

/* Returns the result of a scope that reads a byte of @address. */
static int read_in_scope(const volatile char *address, struct hm_fault *ret_fault)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		(void)*address;
		r = hm_guard_end(&guard);
	}
	*ret_fault = guard.fault;
	return r;
}

/*
 * Takes a page for broken. From 6.11 on the advice itself raises the signal; so does that for a
 * DAX device. 0, or -EHWPOISON with the fault.
 */
static int break_page(char *address, struct hm_fault *ret_fault)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r) {
		CHECK_EQUAL(madvise(address, PAGE, MADV_HWPOISON), 0);
		r = hm_guard_end(&guard);
	}
	*ret_fault = guard.fault;
	return r;
}

/* A page of a buffer in memory of the machine, shared or private, on either node. */
static void check_memory(const char *device, uint32_t flags)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	static char bytes[SIZE];
	int r;
	struct hm_buffer *buffer = create(device, flags, SIZE);
	struct hm_map *map = rig_map(buffer, NULL);
	char *address = hm_map_address(map);

	pattern_write(address, 0, SIZE, 3);
	/* A fault outside of copies and scopes ends this test. */
	CHECK_OK_FATAL(hm_handler_install(HM_HANDLER_NO_REPAIR));
	r = break_page(address + BROKEN * PAGE, &fault);
	CHECK(!r || r == -EHWPOISON);
	if (r)
		check_fault(&fault, address, BROKEN * PAGE);
	fault = (struct hm_fault){ .struct_size = sizeof(fault) };
	CHECK_ERROR(-EHWPOISON, hm_copy_out(bytes, address, SIZE, &fault));
	check_fault(&fault, address, BROKEN * PAGE);
	CHECK(strstr(hm_errmsg(), "broken") != NULL);
	CHECK_ERROR(-EHWPOISON, hm_copy_in(address + BROKEN * PAGE + 64, "x", 1, NULL));
	CHECK_ERROR(-EHWPOISON, read_in_scope(address + BROKEN * PAGE + 100, &fault));
	check_fault(&fault, address, BROKEN * PAGE);
	/* The other pages are as they were. */
	CHECK_OK(hm_copy_out(bytes, address, BROKEN * PAGE, NULL));
	CHECK(pattern_holds(bytes, 0, BROKEN * PAGE, 3));
	CHECK(pattern_holds(address, (BROKEN + 1) * PAGE, SIZE, 3));
	CHECK_ERROR(-EHWPOISON, hm_map_prefetch(map, 0, SIZE, HM_READ));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_OK(hm_handler_remove());
	/* A new buffer has whole pages. */
	buffer = create(device, flags, SIZE);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(is_zero(hm_map_address(map), 0, SIZE));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void test_shared(void)
{
	check_memory("host", 0);
}

static void test_private(void)
{
	check_memory("host", HM_BUFFER_PRIVATE);
}

static void test_far(void)
{
	check_memory("node:1", 0);
}

static void test_dax(void)
{
	AUTO(hm_buffer) *buffer = create("dax:/dev/dax1.0", 0, 4u << 20);
	struct hm_fault fault;
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	char *address = hm_map_address(map);
	AUTO(rig_handler) handler = rig_handler(HM_HANDLER_NO_REPAIR);

	pattern_write(address, 0, 4u << 20, 9);
	CHECK(break_page(address + (2u << 20), &fault) == -EHWPOISON);
	check_fault(&fault, address, 2u << 20);
	CHECK(pattern_holds(address, 0, 2u << 20, 9));
}

static const struct test tests[] = {
	{ .name = "shared", .run = test_shared },
	{ .name = "private", .run = test_private },
	{ .name = "far", .run = test_far },
	{ .name = "dax", .run = test_dax },
	{ 0 },
};

TEST_MAIN(harness_main, "poison", tests)
