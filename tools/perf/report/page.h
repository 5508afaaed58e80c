/* SPDX-License-Identifier: MIT */
/*
 * The page of "hetmap report --html": one file with its data in it, which a browser shows
 * without a network. Its looks are in page.html, page.css and page_*.js.
 */
#ifndef HETMAP_PAGE_H
#define HETMAP_PAGE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The data, version 1. Names may hold any text; times are relative to the trace's begin.
 *
 *	version		1
 *	command		what was traced, as typed
 *	began		seconds since 1970, a real number
 *	duration_ns
 *	machine		{kernel, cpu, thp: texts, cpus, numa_nodes, memory: integers}
 *	totals		{faults, minor, major, lost, unattributed, time_ns}
 *	sampled		true: not each fault was recorded, and numbers of them are foretold from
 *			those that were, as the patterns "" are not; null: that is not told
 *	missing		[sentences: the gaps of the trace, with reasons]
 *	threads		[{pid, tid, name}]
 *	buffers		[{name, kind ("hetmap", "file", "anon", ...), backend ("soft", "sim", ...;
 *			null: it is none of the library's), device, pid, address: "0x...",
 *			length, offset (of what is at address, in the file or device
 *			object), faults, minor, major, time_ns (null, as in totals and sites:
 *			latency was not recorded),
 *			pattern: "sequential", "strided", "random", "few" or "", stride, page_size,
 *			taken: pieces of memory, one after another, that are in this row,
 *			first_ns, last_ns, reads, writes: of those that are known, null: of none is;
 *			calls: {madvise, mprotect, mremap, munmap}, where they were recorded,
 *			nodes: {pages: {NUMA node: n}, local, remote: by CPUs of another one}, where
 *			known, on_device: as in devices, the first five, where one told}]
 *	sites		[{buffer, function, file, line, module, faults, time_ns, changed_at: where
 *			in the file, of one that is not there as it was recorded}]
 *	latency		{minor, major: {p50_ns, p99_ns, counts: [[upper_ns, n], ...] ascending}}
 *	advice		[{buffer, text, evidence, gain_ns}]
 *	advice_unknown	a sentence: what could not be looked for; null: all was
 *	devices		[{faults, accesses, moves, evictions (null: not told), bytes_moved, name,
 *			backend, submitted, completed, failed, fences, losses,
 *			job: as latency.minor}]
 *	ranges		[{name, buffer, accel, pid, address, length, first_ns, last_ns,
 *			device_faults, device_fault_pages, device_fault_ns, refused, invalidations,
 *			evictions, pages_to_device, pages_back, move_ns, prefetched_pages,
 *			prefetch_ns, prefetch_used, prefetch_wasted}]: what accelerators did by
 *			entries of their own
 *	device_sites	[{buffer, device: a name, what: "fault", "access" (sampled), "move" or
 *			"eviction", place: "vram", "system" or "window" it went to, else null, n,
 *			bytes, first_ns, last_ns, by: "code" (function, file, line and module as in
 *			sites), "engine", "other" (a process that was not traced) or "unknown"}];
 *			a page has no such table where it is not there, or empty
 *	lanes		[{name, spans: [[begin_ns, end_ns, label], ...] by begin}]
 *	events		{n, of: of how many these n are a sample, time_unit_us: 1, or more of
 *			a trace that is longer than 71 minutes, nodes: the machine has several, and
 *			node is told; packed: by page_events(), in order of time}
 *
 * A "buffer" elsewhere than in events is an index into buffers, or -1.
 */
#define PAGE_MAJOR (1u << 0)
#define PAGE_ACCESS_KNOWN (1u << 1) /* whether it was a write */
#define PAGE_WRITE (1u << 2)
#define PAGE_KERNEL (1u << 3) /* the kernel's own access */
#define PAGE_DEVICE (1u << 4) /* a device's fault */

struct page_event {
	uint32_t time;    /* time in units of time_unit_us */
	uint32_t page;    /* page of 4 KiB, from the buffer's address */
	uint32_t cost_ns; /* 0: not known */
	uint16_t buffer;  /* at or beyond the number of buffers: none */
	uint16_t thread;  /* as buffer */
	uint8_t cpu;      /* 255: not known */
	uint8_t kind;     /* PAGE_* */
	uint8_t node;     /* NUMA node of the page; 255: not known */
};

/* Packs @n events, @nodes: with their nodes, for page_events.js. 0 or -ENOMEM. */
int page_events(const struct page_event *events, size_t n, bool nodes, json_t **ret_text);

/* base64. NULL: no memory. */
json_t *page_base64(const unsigned char *bytes, size_t n);

/* Writes the page with @report in it, and flushes @out. 0 or a negative errno. */
int page_write(FILE *out, const json_t *report);

/* ---- other pages ---- */

/* page.css and page_words.js */
extern const char page_style[], page_words[];

/* The replacement of @marker: @text, or @data in a script of type application/json. */
struct page_part {
	const char *marker;
	const char *text;
	const json_t *data; /* an object or an array, where text is NULL */
};

/*
 * Writes @frame with its @n parts, whose markers are all in it, in this order, and flushes @out.
 * 0 or a negative errno.
 */
int page_fill(FILE *out, const char *frame, const struct page_part *parts, size_t n);

#endif
