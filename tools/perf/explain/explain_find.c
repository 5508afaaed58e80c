// SPDX-License-Identifier: MIT
/*
 * The causes of a slow map: a sentence for each, with its evidence and the remedy. Costs in
 * them were measured on this machine, by calibrate().
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hetmap/base.h>

#include "common/text.h"
#include "explain.h"
#include "perf/top/top.h"

#define HUGE_BYTES (UINT64_C(2) << 20)
/* The kernel's default of fault_around_bytes. */
#define AROUND_BYTES (UINT64_C(64) << 10)
/* Too little read-ahead to keep a disk busy. */
#define READ_AHEAD_LITTLE (UINT64_C(128) << 10)
/* Mappings in a map: more than its rights can be worth. */
#define MAPPINGS_MANY 64

struct found {
	struct finding *findings;
	size_t n;
};

/* @text and @remedy are this function's. */
static void add(struct found *found, enum finding_class class, const char *kind, double gain_ns,
		char *text, char *remedy)
{
	if (found->n == FINDINGS_MOST) {
		free(text);
		free(remedy);
		return;
	}
	found->findings[found->n++] = (struct finding){ class, kind, gain_ns, text, remedy };
}

static double cost(const struct subject *subject, const char *name)
{
	const json_t *value = json_object_get(subject->of->costs, name);

	return json_is_number(value) ? json_number_value(value) : 0;
}

static uint64_t length_of(const struct subject *subject)
{
	return subject->end - subject->start;
}

/* Without the part behind the end of its file. */
static uint64_t touchable(const struct subject *subject)
{
	return length_of(subject) - subject->behind_end;
}

static const char *percent(uint64_t part, uint64_t whole, char text[TEXT_MAX])
{
	double share = whole ? 100 * (double)part / (double)whole : 0;

	snprintf(text, TEXT_MAX, share < 10 && share > 0 ? "%.1f %%" : "%.0f %%", share);
	return text;
}

/* ---- lost ---- */

static void find_lost(const struct subject *subject, struct found *found)
{
	const struct hm_published_entry *entry = subject->map ? &subject->map->entry : NULL;
	char length[TEXT_MAX], span[TEXT_MAX];

	if (entry && entry->flags & HM_PUBLISHED_LOST)
		add(found, FINDING_LOST, "lost", 0,
		    text_format("the map is lost, in generation %" PRIu32
				": its device was taken away, or a change of it could not be "
				"undone",
				entry->generation),
		    text_format("hm_device_recover() brings it back where the device is there "
				"again"));
	if (entry && subject->asked && subject->address >= subject->end)
		add(found, FINDING_LOST, "reserved", 0,
		    text_format(
			    "the address is behind the map's end: %s are reserved, and %s of "
			    "them may be touched",
			    text_bytes(entry->span, span), text_bytes(entry->length, length)),
		    text_format("hm_buffer_resize() makes the buffer larger in place"));
	else if (!subject->first)
		add(found, FINDING_LOST, "unmapped", 0,
		    text_format("nothing is mapped there: an access is a SIGSEGV"), NULL);
	else if (subject->no_access)
		add(found, FINDING_LOST, "no_access", 0,
		    text_format("its rights are %s: an access is a SIGSEGV",
				subject->first->rights),
		    text_format(
			    "hm_map_protect(), or mprotect(2) where it is not the library's"));
}

static void find_behind_end(const struct subject *subject, struct found *found)
{
	char bytes[TEXT_MAX];

	if (!subject->behind_end)
		return;
	add(found, FINDING_LOST, "behind_end", 0,
	    text_format("%s of it are behind the file's end: an access there is a SIGBUS%s",
			text_bytes(subject->behind_end, bytes),
			subject->asked && subject->address - subject->start >=
						  touchable(subject) ?
				", and the address is there" :
				""),
	    text_format("make the file longer (ftruncate(2)), or map no more than it has"));
}

/* ---- storage ---- */

static void find_swap(const struct subject *subject, struct found *found)
{
	char swapped[TEXT_MAX], share[TEXT_MAX];

	if (subject->swap == EXPLAIN_UNKNOWN || !subject->swap)
		return;
	add(found, FINDING_STORAGE, "swap", 0,
	    text_format(
		    "%s of it (%s) are in swap: the first access to each page there waits for "
		    "storage%s",
		    text_bytes(subject->swap, swapped),
		    percent(subject->swap, length_of(subject), share),
		    subject->page_swapped ? ", and the address is one of them" : ""),
	    text_format("hm_map_lock() the bytes that must stay, or give the process more "
			"memory"));
}

static void find_uncached(const struct subject *subject, struct found *found)
{
	uint64_t length = touchable(subject), missing;
	char bytes[TEXT_MAX], share[TEXT_MAX], ahead[TEXT_MAX];

	if (subject->kind != MEMORY_FILE)
		return;
	missing = subject->cached == EXPLAIN_UNKNOWN || subject->cached > length ?
			  0 :
			  length - subject->cached;
	if (missing)
		add(found, FINDING_STORAGE, "not_cached", 0,
		    text_format(
			    "%s of it (%s) are not in memory: they are read from %s%s as they "
			    "are touched",
			    text_bytes(missing, bytes), percent(missing, length, share),
			    subject->file_system[0] ? subject->file_system : "storage",
			    subject->network ? ", over a network," : ""),
		    text_format("hm_map_prefetch(), or madvise(MADV_WILLNEED), before it is "
				"needed"));
	else if (subject->network)
		add(found, FINDING_OTHER, "network", 0,
		    text_format("its file is on %s, a network's: pages that leave memory are "
				"fetched from there again",
				subject->file_system),
		    text_format("copy the file to a local disk"));
	if (missing && subject->random)
		add(found, FINDING_STORAGE, "random", 0,
		    text_format(
			    "MADV_RANDOM is set: nothing is read ahead, and each page waits "
			    "for storage by itself"),
		    text_format("madvise(MADV_NORMAL), or MADV_SEQUENTIAL, if it is read in "
				"order"));
	else if (missing && subject->read_ahead <= READ_AHEAD_LITTLE)
		add(found, FINDING_STORAGE, "read_ahead", 0,
		    text_format("its device reads %s ahead (read_ahead_kb of %u:%u): little "
				"for reads in order",
				text_bytes(subject->read_ahead, ahead), subject->first->major,
				subject->first->minor),
		    text_format("madvise(MADV_SEQUENTIAL) doubles it; or write 4096 to "
				"/sys/class/bdi/%u:%u/read_ahead_kb",
				subject->first->major, subject->first->minor));
}

/* ---- faults to come ---- */

/* Pages without an entry in the page tables: a fault each, or one for some of a file's. */
static void find_absent(const struct subject *subject, struct found *found)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), length = touchable(subject), absent;
	bool file = subject->kind == MEMORY_FILE;
	double fault = cost(subject, file ? "file_fault_ns" : "anon_fault_ns");
	double populate = cost(subject, file ? "file_populate_ns" : "anon_populate_ns");
	double faults, gain, whole;
	char bytes[TEXT_MAX], share[TEXT_MAX], one[TEXT_MAX], all[TEXT_MAX], there[TEXT_MAX];
	char count[TEXT_MAX];

	/* A file's pages that are not even in memory are another finding. */
	if (subject->kind == MEMORY_HUGETLB)
		page = subject->sum.page_size ? subject->sum.page_size : page;
	absent = subject->sum.resident + subject->behind_end +
		 (subject->swap == EXPLAIN_UNKNOWN ? 0 : subject->swap);
	absent = absent < subject->sum.mapped ? subject->sum.mapped - absent : 0;
	if (file && subject->cached != EXPLAIN_UNKNOWN)
		absent = absent < length - subject->cached ?
				 0 :
				 absent - (length - subject->cached);
	if (absent < page || subject->kind == MEMORY_DEVICE || subject->no_access)
		return;
	faults = (double)absent / (double)(file ? AROUND_BYTES : page);
	if (faults < 1)
		faults = 1;
	whole = faults * fault;
	gain = whole - (double)absent / (double)page * populate;
	text_bytes(absent, bytes);
	percent(absent, length, share);
	if (subject->kind == MEMORY_HUGETLB || fault <= 0) {
		add(found, FINDING_OTHER, "not_resident", 0,
		    text_format("%s of it (%s) are not there: a fault for each %s", bytes,
				share, text_bytes(page, one)),
		    text_format("hm_map_prefetch(), or madvise(MADV_POPULATE_WRITE), before"));
		return;
	}
	text_count((uint64_t)faults, count);
	text_seconds(fault / 1e9, one);
	text_seconds(whole / 1e9, all);
	text_seconds((double)absent / (double)page * populate / 1e9, there);
	add(found, FINDING_MEASURED, "not_resident", gain > 0 ? gain : 0,
	    text_format(
		    "%s of it (%s) are not resident%s: about %s faults, one of which costs %s "
		    "here%s, %s in all",
		    bytes, share,
		    subject->page_known && !subject->page_present && !subject->page_swapped &&
				    subject->address - subject->start < length ?
			    ", the address among them" :
			    "",
		    count, one,
		    file                           ? ", measured on cached pages" :
		    subject->kind == MEMORY_SHARED ? ", measured on private memory" :
						     ", measured",
		    all),
	    populate > 0 && gain > 0 ?
		    text_format("hm_map_prefetch(), or madvise(%s), before: %s in one call",
				file ? "MADV_POPULATE_READ" : "MADV_POPULATE_WRITE", there) :
		    text_format("hm_map_prefetch() before it is needed"));
}

/* ---- huge pages ---- */

static bool holds_huge(const struct subject *subject)
{
	uint64_t first = (subject->start + HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES;

	return first >= subject->start && first + HUGE_BYTES <= subject->end;
}

static char *no_huge_by_setting(const struct subject *subject, char **ret_remedy)
{
	bool shared = subject->kind == MEMORY_SHARED;
	const char *setting = shared ? subject->shmem_thp : subject->thp;
	const char *file = shared ? "shmem_enabled" : "enabled";
	bool on_advice = !strcmp(setting, shared ? "advise" : "madvise");
	/* HM_CAP_HUGETLB is the host's alone. */
	bool has_pool = subject->map && !strcmp(subject->map->entry.device, "host");

	if (!setting[0]) {
		*ret_remedy = text_format("a kernel with CONFIG_TRANSPARENT_HUGEPAGE");
		return text_format("this kernel has no transparent huge pages");
	}
	if (!strcmp(setting, "never") || !strcmp(setting, "deny")) {
		*ret_remedy =
			text_format("write %s to /sys/kernel/mm/transparent_hugepage/%s%s",
				    shared ? "advise" : "madvise", file,
				    has_pool ? ", or use HM_BUFFER_HUGETLB" : "");
		return text_format("/sys/kernel/mm/transparent_hugepage/%s is %s", file,
				   setting);
	}
	if (on_advice && !subject->huge_wanted) {
		*ret_remedy = text_format("madvise(MADV_HUGEPAGE) on it, before it is touched");
		return text_format("/sys/kernel/mm/transparent_hugepage/%s is %s, and no "
				   "madvise() asked for them here",
				   file, setting);
	}
	return NULL;
}

char *explain_no_huge(const struct subject *subject, char **ret_remedy)
{
	char *why, huge[TEXT_MAX], resident[TEXT_MAX];

	if ((subject->kind != MEMORY_PRIVATE && subject->kind != MEMORY_SHARED) ||
	    length_of(subject) < HUGE_BYTES || subject->no_access ||
	    (subject->sum.resident && subject->sum.huge >= subject->sum.resident / 2))
		return NULL;
	if (!holds_huge(subject)) {
		*ret_remedy = text_format("map it at a multiple of 2 MiB");
		return text_format("it begins at 0x%" PRIx64
				   " and has no whole 2 MiB at a multiple of that",
				   subject->start);
	}
	if (subject->thp_disabled) {
		*ret_remedy = text_format("prctl(PR_SET_THP_DISABLE, 0) in the process");
		return text_format("the process has them switched off (THP_enabled is 0)");
	}
	if (subject->huge_refused) {
		*ret_remedy = text_format("madvise(MADV_HUGEPAGE) on it");
		return text_format("MADV_NOHUGEPAGE is set on it");
	}
	why = no_huge_by_setting(subject, ret_remedy);
	if (why)
		return why;
	if (!subject->eligible) {
		*ret_remedy = text_format("map it in one piece of 2 MiB or more");
		return text_format("the kernel finds none of its %" PRIu64
				   " mapping%s eligible (THPeligible is 0)",
				   subject->n_mapping, subject->n_mapping == 1 ? "" : "s");
	}
	/* Nothing was touched yet: they may still come. */
	if (!subject->sum.resident)
		return NULL;
	*ret_remedy =
		text_format("madvise(MADV_COLLAPSE) makes them now; hetmap stat shows free "
			    "memory's fragmentation");
	return text_format("it may have them, and %s of %s are: it was touched before it was "
			   "allowed, or none were free",
			   text_bytes(subject->sum.huge, huge),
			   text_bytes(subject->sum.resident, resident));
}

static void find_no_huge(const struct subject *subject, struct found *found)
{
	double fault = cost(subject, "anon_fault_ns"), huge = cost(subject, "anon_huge_ns");
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), absent;
	char *remedy = NULL, *why = explain_no_huge(subject, &remedy);
	char small[TEXT_MAX], large[TEXT_MAX], size[TEXT_MAX];
	double gain;

	if (!why)
		return;
	absent = subject->sum.mapped > subject->sum.resident ?
			 subject->sum.mapped - subject->sum.resident :
			 0;
	gain = (double)absent / (double)page * (fault - huge);
	text_bytes(page, size);
	if (subject->kind == MEMORY_PRIVATE && fault > 0 && huge > 0 && gain > 0)
		add(found, FINDING_MEASURED, "no_huge_pages", gain,
		    text_format("it has pages of %s, as %s: to touch %s costs %s here, in huge "
				"pages %s, measured",
				size, why, text_bytes(HUGE_BYTES, size),
				text_seconds((double)HUGE_BYTES / (double)page * fault / 1e9,
					     small),
				text_seconds((double)HUGE_BYTES / (double)page * huge / 1e9,
					     large)),
		    remedy);
	else
		add(found, FINDING_OTHER, "no_huge_pages", 0,
		    text_format("it has pages of %s, as %s: more faults and TLB misses (hetmap "
				"stat counts them)",
				size, why),
		    remedy);
	free(why);
}

/* ---- the rest ---- */

static void find_remote(const struct subject *subject, struct found *found)
{
	uint64_t far = 0, all = 0;
	uint32_t i, node = 0;
	char bytes[TEXT_MAX], share[TEXT_MAX];

	for (i = 0; i < subject->n_node; i++) {
		all += subject->node_bytes[i];
		if (!subject->node_bytes[i] || subject->near_nodes >> i & 1)
			continue;
		far += subject->node_bytes[i];
		node = i;
	}
	if (!far || !subject->near_nodes)
		return;
	add(found, FINDING_OTHER, "remote_node", 0,
	    text_format("%s of it (%s) are on NUMA nodes that no thread of the process runs on, "
			"node %" PRIu32 " among them",
			text_bytes(far, bytes), percent(far, all, share), node),
	    text_format("hm_buffer_desc.numa_nodes, or numactl --cpunodebind=%" PRIu32, node));
}

static void find_cache(const struct subject *subject, struct found *found)
{
	uint32_t cache = subject->map ? subject->map->entry.cache : HM_CACHE_WRITE_BACK;

	if (cache != HM_CACHE_WRITE_COMBINING && cache != HM_CACHE_UNCACHED)
		return;
	add(found, FINDING_OTHER, "cache_mode", 0,
	    text_format("it is mapped %s: each load of the CPU goes to the device by itself",
			cache == HM_CACHE_UNCACHED ? "uncached" : "write-combining"),
	    text_format(
		    "let an accelerator copy it to host memory before the CPU reads it; stores "
		    "in order are %s",
		    cache == HM_CACHE_UNCACHED ? "slow, too" : "fast"));
}

static void find_dirty(const struct subject *subject, struct found *found)
{
	char dirty[TEXT_MAX];

	if (subject->kind != MEMORY_FILE || !subject->shared ||
	    subject->dirty == EXPLAIN_UNKNOWN || !subject->dirty)
		return;
	add(found, FINDING_OTHER, "dirty", 0,
	    text_format(
		    "%s of it are dirty: the kernel writes them to %s, and the first store to "
		    "each page after that faults again",
		    text_bytes(subject->dirty, dirty),
		    subject->file_system[0] ? subject->file_system : "storage"),
	    text_format("work in memory (device host) and write the file at the end"));
}

static void find_users(const struct subject *subject, struct found *found)
{
	const struct live_map *map = subject->map;

	if (!map || !map->counted)
		return;
	if (map->in_flight)
		add(found, FINDING_OTHER, "in_flight", 0,
		    text_format("work that uses it is in flight (%" PRIu32
				" launches, copies or "
				"fills): begins of CPU access and changes wait for it",
				map->in_flight),
		    text_format(
			    "hm_fence_wait() where the result is needed, or split the buffer"));
	if (map->brackets)
		add(found, FINDING_OTHER, "brackets", 0,
		    text_format("%" PRIu32 " bracket%s of CPU access %s open: the device "
				"need not see its stores until %s",
				map->brackets, map->brackets == 1 ? "" : "s",
				map->brackets == 1 ? "is" : "are",
				map->brackets == 1 ? "it ends" : "they end"),
		    text_format("hm_map_end_cpu() as soon as the CPU is done with it"));
}

/* Counted in the process itself. */
static void find_evictions_counted(const struct live_map *map, struct found *found)
{
	char count[TEXT_MAX];

	if (!map->counted || !map->evictions)
		return;
	add(found, FINDING_OTHER, "evictions", 0,
	    text_format("evictions of it by %s, for lack of memory: %s. Evicted bytes come "
			"back as they are used",
			map->entry.device, text_count(map->evictions, count)),
	    text_format("have less on the device at a time"));
}

/* Pages that went to the system's memory so that others had room, and come back when used. */
static void find_evictions(const struct subject *subject, struct found *found)
{
	const struct hm_published_entry *entry = subject->map ? &subject->map->entry : NULL;
	char count[TEXT_MAX], all[TEXT_MAX], since[TEXT_MAX], time[TEXT_MAX];
	char here[TEXT_MAX], there[TEXT_MAX];
	const struct openers *openers = &subject->of->openers;
	uint64_t device, offset, before, n;
	char *just_now = NULL;
	struct opener opener;

	if (entry && entry->evictions) {
		find_evictions_counted(subject->map, found);
		return;
	}
	if (!entry || !openers_device(entry->device, &device) || !subject->first)
		return;
	offset = subject->first->offset;
	if (subject->start > subject->first->smaps.start)
		offset += subject->start - subject->first->smaps.start;
	n = openers_evicted(openers, device, offset);
	if (n == FIGURE_UNKNOWN || !n)
		return;
	before = openers_evicted(&subject->of->openers_before, device, offset);
	/* Its file may have been opened meanwhile. */
	if (before <= n)
		just_now = text_format(", %s of them in the last %s",
				       text_count(n - before, since),
				       text_seconds(subject->of->seconds, time));
	opener = openers_of(openers, device);
	add(found, FINDING_OTHER, "evictions", 0,
	    text_format("evictions of it by %s, for lack of memory: %s%s; of all the process's "
			"buffers: %s. Of these %s are in its memory, %s in the system's, and "
			"come back as they are used",
			entry->device, text_count(n, count), just_now ? just_now : "",
			text_count(opener.evictions, all),
			text_bytes(opener.vram == FIGURE_UNKNOWN ? 0 : opener.vram * 1024,
				   here),
			text_bytes(opener.system == FIGURE_UNKNOWN ? 0 : opener.system * 1024,
				   there)),
	    text_format("have less on the device at a time; hetmap trace -p %d, as root, "
			"shows when its pages go, and which code needed the room",
			(int)subject->of->pid));
	free(just_now);
}

static void find_others(const struct subject *subject, struct found *found)
{
	char length[TEXT_MAX];

	if (subject->userfault)
		add(found, FINDING_OTHER, "userfaultfd", 0,
		    text_format(
			    "its faults go to a userfaultfd: a thread of some process answers "
			    "each, in tens of microseconds"),
		    text_format("let that thread bring in more than a page at a time"));
	if (subject->n_mapping > MAPPINGS_MANY &&
	    subject->n_mapping > length_of(subject) / HUGE_BYTES)
		add(found, FINDING_OTHER, "mappings", 0,
		    text_format("its %s are cut into %" PRIu64 " mappings by their rights or "
				"advice: no huge page lies across them, and changes take longer",
				text_bytes(length_of(subject), length), subject->n_mapping),
		    text_format("change rights of larger ranges"));
}

static int compare(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->class != y->class)
		return (int)x->class - (int)y->class;
	return (x->gain_ns < y->gain_ns) - (x->gain_ns > y->gain_ns);
}

size_t explain_find(const struct subject *subject, struct finding findings[FINDINGS_MOST])
{
	struct found found = { .findings = findings };

	find_lost(subject, &found);
	if (!found.n) {
		find_behind_end(subject, &found);
		find_swap(subject, &found);
		find_uncached(subject, &found);
		find_absent(subject, &found);
		find_no_huge(subject, &found);
		find_remote(subject, &found);
		find_cache(subject, &found);
		find_dirty(subject, &found);
		find_evictions(subject, &found);
		find_others(subject, &found);
		find_users(subject, &found);
	}
	qsort(findings, found.n, sizeof(*findings), compare);
	return found.n;
}
