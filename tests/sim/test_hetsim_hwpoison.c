// SPDX-License-Identifier: MIT
/*
 * Memory that the hardware reports as broken, which the kernel plays on request:
 * MADV_HWPOISON takes the page away for good, so this is for machines that are thrown
 * away, as those of tests/vm are.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/rig.h"
#include "lib/support.h"

#define SIZE (16 * PAGE)

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif

struct memory {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	volatile unsigned char *base;
};

/* On a machine that stays, a page would be gone until the next boot. */
static bool is_for_once(void)
{
	char name[64] = "";

	gethostname(name, sizeof(name) - 1);
	if (!strcmp(name, "hetmap-vm"))
		return true;
	test_skip("vm", "breaks memory of the machine: only in those of tests/vm");
	return false;
}

/* A test ends where it is not permitted. */
static struct memory memory_open(uint32_t flags)
{
	struct memory memory = { 0 };

	TEST_NEEDS(is_for_once());
	CHECK_OK_FATAL(hm_handler_install(0));
	memory.device = rig_device("host");
	memory.buffer =
		rig_buffer(memory.device, DESC(hm_buffer_desc, .size = SIZE, .flags = flags));
	memory.map = rig_map(memory.buffer, NULL);
	memory.base = hm_map_address(memory.map);
	pattern_write(hm_map_address(memory.map), 0, SIZE, 1);
	return memory;
}

static void memory_close(struct memory *memory)
{
	hm_map_unref(memory->map);
	hm_buffer_unref(memory->buffer);
	hm_device_unref(memory->device);
	CHECK_OK(hm_handler_remove());
}

AUTO_END(memory, memory_close)

static bool break_page(const struct memory *memory, uint64_t offset)
{
	if (!madvise((void *)(memory->base + offset), PAGE, MADV_HWPOISON))
		return true;
	test_skip("kernel", "MADV_HWPOISON: %s: needs root and CONFIG_MEMORY_FAILURE",
		  strerror(errno));
	return false;
}

/* The same where nothing is to be replaced: later kernels signal this very thread. */
static bool break_guarded(const struct memory *memory, uint64_t offset)
{
	struct hm_guard guard;
	bool broken;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r) {
		CHECK_EQUAL(r, -EHWPOISON);
		return true;
	}
	broken = break_page(memory, offset);
	CHECK_OK(hm_guard_end(&guard));
	return broken;
}

static void guarded_of(uint32_t flags)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	unsigned char bytes[SIZE];
	struct hm_guard guard;
	int r;
	AUTO(memory) memory = memory_open(flags);

	if (!break_guarded(&memory, 3 * PAGE))
		return;
	CHECK_ERROR(-EHWPOISON, hm_copy_out(bytes, (char *)memory.base, SIZE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_BROKEN);
	CHECK_EQUAL(fault.signal, SIGBUS);
	CHECK_EQUAL(fault.code, BUS_MCEERR_AR);
	CHECK_EQUAL(fault.offset / PAGE, 3);
	CHECK_OK(hm_copy_out(bytes, (char *)memory.base, 3 * PAGE, &fault));
	CHECK(pattern_holds(bytes, 0, 3 * PAGE, 1));
	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (!r)
		(void)memory.base[3 * PAGE];
	CHECK_EQUAL(r, -EHWPOISON);
}

static void guarded(void)
{
	guarded_of(0);
}

static void guarded_private(void)
{
	guarded_of(HM_BUFFER_PRIVATE);
}

/* In private memory the last page is cleared behind the end: a fault there waited for ever. */
static void cut_off(void)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	AUTO(memory) memory = memory_open(HM_BUFFER_PRIVATE);

	if (!break_guarded(&memory, SIZE - PAGE))
		return;
	CHECK_ERROR(-EHWPOISON, hm_buffer_resize(memory.buffer, SIZE - 100, 0));
	CHECK(strstr(hm_errmsg(), "multiple of 4096") != NULL);
	CHECK_OK(hm_buffer_query(memory.buffer, &info));
	CHECK_EQUAL(info.size, SIZE);
	CHECK_OK(hm_buffer_resize(memory.buffer, SIZE - PAGE, 0));
	CHECK_OK(hm_buffer_resize(memory.buffer, SIZE, 0));
	CHECK_EQUAL(memory.base[SIZE - 1], 0);
	CHECK(pattern_holds((char *)memory.base, 0, SIZE - PAGE, 1));
}

/* Outside of guards the block is replaced, and brackets tell. */
static void replaced(void)
{
	struct memory memory = memory_open(0);

	CHECK_OK(hm_map_begin_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
	if (!break_page(&memory, 3 * PAGE))
		goto out;
	CHECK_EQUAL(memory.base[3 * PAGE + 5], 0);
	memory.base[3 * PAGE + 5] = 1;
	CHECK_EQUAL(memory.base[3 * PAGE + 5], 1);
	CHECK_ERROR(-EIO, hm_map_end_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
out:
	memory_close(&memory);
}

/* With a shadow it is replaced by the bytes of the last refresh. */
static void shadowed(void)
{
	AUTO(memory) memory = memory_open(0);

	CHECK_OK_FATAL(hm_buffer_set_loss(memory.buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	if (!break_page(&memory, 3 * PAGE))
		return;
	CHECK(pattern_holds((void *)memory.base, 0, SIZE, 1));
	CHECK_ERROR(-EIO, hm_map_begin_cpu(memory.map, 3 * PAGE, 1, HM_READ));
}

/* In a machine of tests/vm, which has none by itself. */
static bool huge_pages(void)
{
	FILE *file = fopen("/proc/sys/vm/nr_hugepages", "w");
	bool done = file && fputs("4\n", file) >= 0;

	if (file)
		fclose(file);
	if (!done)
		test_skip("vm", "no huge pages can be set aside");
	return done;
}

struct told {
	uint32_t part, recovered, refilled;
};

static void on_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct told *told = user;

	(void)buffer;
	told->part += event == HM_LOSS_PART;
	told->recovered += event == HM_LOSS_RECOVERED;
}

static int on_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		     void *user)
{
	struct told *told = user;

	(void)buffer;
	told->refilled += (uint32_t)(length / PAGE);
	pattern_write((char *)bytes - offset, offset, offset + length, 7);
	return 0;
}

/* The page is given up, another has its bytes, and the map shows the same. */
static void recovered_by(uint32_t policy, bool refill)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct told told = { 0 };
	const uint32_t salt = refill ? 7 : 1;
	struct memory memory = memory_open(0);

	CHECK_OK_FATAL(hm_buffer_set_loss(
		memory.buffer, DESC(hm_loss_desc, .policy = policy, .lost = on_lost,
				    .refill = refill ? on_refill : NULL, .user = &told)));
	if (!break_page(&memory, 3 * PAGE))
		goto out;
	(void)memory.base[3 * PAGE];
	CHECK_ERROR(-EIO, hm_map_begin_cpu(memory.map, 0, SIZE, HM_READ));
	CHECK_EQUAL(told.part, 1);
	/* Broken bytes can't be shadowed, and the rest can. */
	if (policy == HM_LOSS_SHADOW) {
		CHECK_ERROR(-EIO, hm_buffer_shadow(memory.buffer, 0, SIZE));
		CHECK_OK(hm_buffer_shadow(memory.buffer, 4 * PAGE, PAGE));
	}
	CHECK_OK(hm_device_recover(memory.device, HM_RECOVER_SHADOWED, &info));
	CHECK_EQUAL(info.error, 0);
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(refill ? info.bytes_refilled : info.bytes_shadow, PAGE);
	CHECK_EQUAL(told.recovered, 1);
	CHECK_EQUAL(told.refilled, refill ? 1 : 0);
	CHECK(pattern_holds((void *)memory.base, 0, 3 * PAGE, 1));
	CHECK(pattern_holds((void *)memory.base, 3 * PAGE, 4 * PAGE, salt));
	CHECK(pattern_holds((void *)memory.base, 4 * PAGE, SIZE, 1));
	CHECK_OK(hm_map_begin_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
	memory.base[3 * PAGE] = 5;
	CHECK_OK(hm_map_end_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
out:
	memory_close(&memory);
}

/*
 * A huge page is given up as a whole: its readable part stays. Before Linux 6.6 none is readable.
 */
static void recovered_huge(void)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	AUTO(memory) memory = { 0 };

	TEST_NEEDS(is_for_once() && huge_pages());
	memory = memory_open(HM_BUFFER_HUGETLB);
	CHECK_OK_FATAL(hm_buffer_set_loss(memory.buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_RECREATE)));
	if (!break_page(&memory, 3 * PAGE))
		return;
	(void)memory.base[3 * PAGE];
	CHECK_ERROR(-EIO, hm_map_begin_cpu(memory.map, 0, SIZE, HM_READ));
	CHECK_OK(hm_device_recover(memory.device, 0, &info));
	CHECK_EQUAL(info.error, 0);
	CHECK_EQUAL(info.buffers_back, 1);
	if (!is_zero((void *)memory.base, 0, PAGE)) {
		CHECK(pattern_holds((void *)memory.base, 0, 3 * PAGE, 1));
		CHECK(pattern_holds((void *)memory.base, 4 * PAGE, SIZE, 1));
	}
	CHECK(is_zero((void *)memory.base, 3 * PAGE, 4 * PAGE));
	CHECK_OK(hm_map_begin_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_end_cpu(memory.map, 0, SIZE, HM_READ | HM_WRITE));
}

static void recovered(void)
{
	recovered_by(HM_LOSS_SHADOW, false);
	recovered_by(HM_LOSS_RECREATE, true);
}

/* Reported early, before any touch: a touch is reported again. */
static void told_early(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	char byte;
	AUTO(memory) memory = memory_open(0);

	CHECK(!prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0));
	if (break_guarded(&memory, 5 * PAGE))
		CHECK_ERROR(-EHWPOISON,
			    hm_copy_out(&byte, (char *)memory.base + 5 * PAGE, 1, &fault));
	CHECK(!prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_DEFAULT, 0, 0));
}

static const struct test tests[] = {
	{ "guarded", guarded, 0, TEST_ONCE },
	{ "guarded_private", guarded_private, 0, TEST_ONCE },
	{ "cut_off", cut_off, 0, TEST_ONCE },
	{ "replaced", replaced, 0, TEST_ONCE },
	{ "shadowed", shadowed, 0, TEST_ONCE },
	{ "recovered", recovered, 0, TEST_ONCE },
	{ "recovered_huge", recovered_huge, 0, TEST_ONCE },
	{ "told_early", told_early, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_hwpoison", tests)
