// SPDX-License-Identifier: MIT
/* hetsim: handshake, buffers, limits, and tests of buffers on the module only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/* The twin is handed memory; the module, whatever a process passes. */
static void test_bad_pointer(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	CHECK_EQUAL(hetsim_call(fd, HETSIM_QUERY, (void *)-4096L), -EFAULT);
}

/* A call that can't write its answer must leave no descriptor behind. */
static void refuse_answer(int fd, unsigned long cmd, const void *argument, size_t size)
{
	void *page =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int next, after;

	CHECK_FATAL(page != MAP_FAILED);
	memcpy(page, argument, size);
	CHECK_FATAL(!mprotect(page, PAGE, PROT_READ));
	next = dup(fd);
	close(next);
	CHECK_EQUAL(hetsim_call(fd, cmd, page), -EFAULT);
	after = dup(fd);
	CHECK_EQUAL(after, next);
	close(after);
	CHECK_EQUAL(munmap(page, PAGE), 0);
}

static void test_bad_answer(void)
{
	struct hetsim_export export = { .size = sizeof(export) };
	struct hetsim_fence_fd fence = { .size = sizeof(fence), .seqno = 1 };
	const struct hetsim_command nothing = { 0 };
	struct hetsim_buffer buffer = { 0 };
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	CHECK_FATAL(!hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_SYSTEM, 0, &buffer));
	export.handle = buffer.handle;
	refuse_answer(fd, HETSIM_EXPORT, &export, sizeof(export));
	fence.queue = hetsim_queue_make(fd, HETSIM_QUEUE_DMA_FENCE, 0);
	CHECK_EQUAL(hetsim_run(fd, fence.queue, &nothing), 0);
	refuse_answer(fd, HETSIM_FENCE_FD, &fence, sizeof(fence));
}

static void test_objects(void)
{
	struct hetsim_buffer buffer;
	int fd = hetsim_begin(O_RDWR);
	int n = hetsim_objects();

	if (n < 0) {
		close(fd);
		test_skip("kernel", "debugfs can't be read");
		return;
	}
	buffer = hetsim_buffer_make(fd, MIB(1), 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	CHECK_EQUAL(hetsim_bind(fd, &buffer, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_objects(), n + 2);
	CHECK_EQUAL(hetsim_unbind(fd, &buffer), 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	CHECK_EQUAL(hetsim_objects(), n + 1);
	close(fd); /* the map keeps it, and the buffer */
	CHECK_EQUAL(hetsim_objects(), n + 1);
	buffer.bytes[5] = 5;
	CHECK_EQUAL(munmap(buffer.bytes, buffer.length), 0);
	CHECK_EQUAL(hetsim_objects(), n - 1);
}

/*
 * Pages of RAM that the kernel has made write-combining: with them, entries of any map of theirs
 * are [track_pfn_insert(), lookup_memtype() and _PGMT_WC in arch/x86/mm/pat/memtype.c], while the
 * maps of a device are holes to pagemap, and the kernel's list of memory types has no RAM. The
 * debug kernel shows the entries, too (check_entries). -1: it is not to be seen here.
 */
static long combining_pages(void)
{
	static uint64_t flags[8192];
	const uint64_t arch_1 = 1ull << 38; /* KPF_ARCH of tools/vm/page-types.c */
	int file = open("/proc/kpageflags", O_RDONLY | O_CLOEXEC);
	ssize_t got = 0;
	long n = 0;
	size_t i;

	if (file < 0)
		return -1;
	while ((got = read(file, flags, sizeof(flags))) > 0)
		for (i = 0; i < (size_t)got / sizeof(flags[0]); i++)
			n += (flags[i] & arch_1) != 0;
	close(file);
	return n;
}

/* An address of a map, and the cache mode of its buffer. */
struct entry {
	const void *address;
	uint32_t cache;
	bool found;
};

static void check_entry(struct entry *entry, const char *line)
{
	bool combines = entry->cache == HETSIM_CACHE_COMBINE;

	entry->found = true;
	if (!strstr(line, " USR ") || !strstr(line, " PWT ") != !combines ||
	    strstr(line, " PCD ") || strstr(line, " PAT "))
		test_fail(__FILE__, __LINE__, "%p, of cache mode %u: %s", entry->address,
			  entry->cache, line);
}

/*
 * Checks the entries of page tables, by the kernel's dump of this process' tables
 * [arch/x86/mm/dump_pagetables.c], where it has that: PWT alone is write-combining, none of PWT,
 * PCD, PAT is write-back [_PAGE_CACHE_MODE_WC, __pte2cachemode_tbl]. It takes seconds.
 */
static void check_entries(struct entry *entries, unsigned int n)
{
	FILE *dump = fopen("/sys/kernel/debug/page_tables/current_kernel", "re");
	unsigned long begin, end;
	char line[256];
	unsigned int i;

	if (!dump)
		return;
	while (fgets(line, sizeof(line), dump)) {
		if (sscanf(line, "0x%lx-0x%lx", &begin, &end) != 2)
			continue;
		for (i = 0; i < n; i++)
			if ((uintptr_t)entries[i].address >= begin &&
			    (uintptr_t)entries[i].address < end)
				check_entry(&entries[i], line);
	}
	fclose(dump);
	for (i = 0; i < n; i++)
		CHECK(entries[i].found);
}

/* A buffer's pages have exactly the cache mode that it reports. */
static void test_combining(void)
{
	struct hetsim_buffer_create arg = { .size = sizeof(arg),
					    .length = MIB(4),
					    .place = HETSIM_PLACE_SYSTEM,
					    .cache = HETSIM_CACHE_COMBINE };
	int fd = hetsim_begin(O_RDWR);
	struct hetsim_buffer back;
	unsigned char *bytes;
	long rest = combining_pages();

	if (rest < 0 || !(hetsim_query(fd).cache_modes & 1u << HETSIM_CACHE_COMBINE)) {
		close(fd);
		test_skip("kernel", rest < 0 ? "/proc/kpageflags can't be read" :
					       "this kernel has no write-combining pages");
		return;
	}
	back = hetsim_buffer_make(fd, MIB(4), HETSIM_PLACE_SYSTEM);
	back.bytes[0] = 1;
	CHECK_EQUAL(hetsim_buffer_info(fd, back.handle).cache, HETSIM_CACHE_BACK);
	CHECK_EQUAL(combining_pages(), rest);
	CHECK_FATAL(hetsim_call(fd, HETSIM_BUFFER_CREATE, &arg) == 0);
	CHECK_EQUAL(hetsim_buffer_info(fd, arg.handle).cache, HETSIM_CACHE_COMBINE);
	CHECK_FATAL(hetsim_mmap(fd, arg.length, PROT_READ | PROT_WRITE, arg.offset, &bytes) ==
		    0);
	bytes[arg.length - 1] = 9;
	CHECK_EQUAL(combining_pages(), rest + (long)(arg.length / PAGE));
	CHECK_EQUAL(hetsim_buffer_resize(fd, arg.handle, MIB(6)), 0);
	CHECK_EQUAL(combining_pages(), rest + (long)(MIB(6) / PAGE));
	CHECK_EQUAL(hetsim_buffer_move(fd, arg.handle, 0, MIB(1), HETSIM_PLACE_SYSTEM), 0);
	CHECK_EQUAL(combining_pages(), rest + (long)(MIB(6) / PAGE));
	CHECK_EQUAL(bytes[arg.length - 1], 9);
	CHECK_EQUAL(bytes[0], 0);
	check_entries(
		(struct entry[]){ { back.bytes, HETSIM_CACHE_BACK, false },
				  { bytes, HETSIM_CACHE_COMBINE, false }, /* moved */
				  { bytes + arg.length - 1, HETSIM_CACHE_COMBINE, false } },
		3);
	CHECK_EQUAL(hetsim_buffer_resize(fd, arg.handle, MIB(1)), 0);
	CHECK_EQUAL(combining_pages(), rest + (long)(MIB(1) / PAGE));

	/* The pages are ordinary ones for their next user. */
	CHECK_EQUAL(hetsim_munmap(bytes, arg.length), 0);
	CHECK_EQUAL(hetsim_close_handle(fd, arg.handle), 0);
	CHECK_EQUAL(combining_pages(), rest);
	hetsim_buffer_drop(fd, &back);
	close(fd);
}

static const struct test tests[] = {
	{ "bad_pointer", test_bad_pointer, 0, 0 },
	{ "bad_answer", test_bad_answer, 0, 0 },
	{ "objects", test_objects, 0, 0 },
	{ "combining", test_combining, 30, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_buffers", sim_buffers_tests, tests)
