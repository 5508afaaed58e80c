// SPDX-License-Identifier: MIT
/* Ranges on the host: advice by madvise(2) and mbind(2), pages by pagemap and mincore(2). */
#include <fcntl.h>
#include <inttypes.h>
#include <numaif.h>
#include <sys/mman.h>

#include "base/rlimits.h"
#include "base/sys.h"
#include "base/vmas.h"
#include "range/range.h"

#define PAGE 4096ull
#define BATCH 512u /* pages asked for at a time */

/* Bytes of one madvise(2), which a signal may have to wait for. */
#define STEP MIB(4)

/* ---- advice ---- */

struct hole {
	uint64_t at; /* everything before is mapped */
};

static int note_mapped(void *user, const struct vma *vma)
{
	struct hole *hole = user;

	if (vma->start > hole->at)
		return 1;
	hole->at = vma->end;
	return 0;
}

/* madvise(2) and mbind(2) go on behind a hole, and then say that there was one. */
static int check_mapped(const struct range_pages *pages, const char *what)
{
	uint64_t end = pages->address + pages->length;
	struct hole hole = { .at = pages->address };
	int r;

	r = vmas_each(pages->address, end, note_mapped, &hole);
	if (r < 0)
		return r;
	if (hole.at >= end)
		return 0;
	return err_set(-ENOENT, "%s: nothing is mapped at 0x%" PRIx64, what, hole.at);
}

static int explain(const struct range_pages *pages, int r, const char *what)
{
	if (r == -EINVAL || r == -EBADF)
		return err_set(-EOPNOTSUPP,
			       "this kernel, or memory of this kind at 0x%" PRIx64
			       ", takes no %s",
			       pages->address, what);
	return err_set(r, "%s for %" PRIu64 " bytes at 0x%" PRIx64 ": %s", what, pages->length,
		       pages->address, err_name(r));
}

static int advise(const struct range_pages *pages, int advice, const char *what)
{
	void *address = (void *)(uintptr_t)pages->address;
	int r = sys_madvise(address, pages->length, advice);

	return r ? explain(pages, r, what) : 0;
}

/* A wish: the kernel takes other nodes where that one has no memory. */
static int prefer_node(const struct range_pages *pages, int mode, uint64_t node)
{
	void *address = (void *)(uintptr_t)pages->address;
	int r;

	if (node > 63)
		return err_set(-EINVAL,
			       "hm_range_advise: NUMA node %" PRIu64 ": 0 to 63 are known",
			       node);
	r = sys_mbind(address, pages->length, mode, mode == MPOL_DEFAULT ? 0 : 1ull << node);
	if (r == -EINVAL)
		return err_set(r,
			       "hm_range_advise: this process may not have memory of NUMA node "
			       "%" PRIu64 ": see Mems_allowed in /proc/self/status",
			       node);
	return r ? explain(pages, r, "NUMA policy (mbind)") : 0;
}

int host_advise(const struct range_pages *pages, uint32_t advice, uint64_t value)
{
	int r = check_mapped(pages, "hm_range_advise");

	if (r)
		return r;
	switch (advice) {
	case HM_RANGE_NORMAL:
		r = advise(pages, MADV_NORMAL, "MADV_NORMAL");
		/* A kernel without NUMA has no policy to take away. */
		if (!r && sys_mbind((void *)(uintptr_t)pages->address, pages->length,
				    MPOL_DEFAULT, 0) == -EPERM)
			err_warn("the NUMA policy of the range stays: mbind: EPERM");
		return r;
	case HM_RANGE_PREFER_HOST:
		return prefer_node(pages, MPOL_PREFERRED, value);
	case HM_RANGE_ACCESSED_BY:
		return advise(pages, MADV_WILLNEED, "MADV_WILLNEED");
	case HM_RANGE_GRANULE:
		return value < MIB(2) ? advise(pages, MADV_NOHUGEPAGE, "MADV_NOHUGEPAGE") :
					advise(pages, MADV_HUGEPAGE, "MADV_HUGEPAGE");
	default:
		return err_set(-EOPNOTSUPP,
			       "hm_range_advise: the host has no such advice: HM_RANGE_NORMAL, "
			       "_PREFER_HOST, _ACCESSED_BY and _GRANULE are for it; rights are "
			       "set by hm_map_protect() or mprotect(2)");
	}
}

/* ---- prefetch ---- */

/* The first page of the step that can't come. */
static uint64_t find_bad(uint64_t at, uint64_t end, int advice)
{
	while (at < end && !sys_madvise((void *)(uintptr_t)at, PAGE, advice))
		at += PAGE;
	return at;
}

/* Not memory that the CPU may use so, or a kind that can't be brought in at all? */
static int refuse(uint64_t at, uint64_t end, uint32_t access, int r)
{
	const int advice = access & HM_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	uint64_t bad = find_bad(at, end, advice);
	struct vma vma;

	if (r == -EINVAL && !vma_find(-1, bad, &vma) && !(access & ~vma.access))
		return err_set(-EOPNOTSUPP,
			       "memory at 0x%" PRIx64 " is no memory that can be brought in (a "
			       "device's), or the kernel is older than 5.14",
			       bad);
	return err_set(-EFAULT,
		       "0x%" PRIx64 " can't be brought in: nothing is mapped there, or the CPU "
		       "may not do that, or a file was cut",
		       bad);
}

int host_prefetch(const struct range_pages *pages, uint32_t access)
{
	const int advice = access & HM_WRITE ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
	uint64_t at, next, end = pages->address + pages->length;
	int r;

	for (at = pages->address; at < end; at = next) {
		next = min_u64(end, round_down(at, STEP) + STEP);
		r = sys_madvise((void *)(uintptr_t)at, next - at, advice);
		if (!r)
			continue;
		if (r == -EINVAL || r == -ENOMEM || r == -EFAULT || r == -EHWPOISON)
			return refuse(at, next, access, r);
		return rlimits_explain_map(r, next - at, 0, "bringing pages in");
	}
	return 0;
}

/* ---- query ---- */

#define PAGEMAP_PRESENT (1ull << 63) /* [pagemap.rst] */
#define PAGEMAP_SWAPPED (1ull << 62)

struct query {
	uint64_t start, end;
	struct hm_range_page *pages;
	int fd; /* pagemap; -1: it can't be read */
};

/* Where the page of a mapping is. @resident: mincore(2)'s bit. */
static uint8_t place_of(const struct vma *vma, uint64_t entry, bool resident)
{
	if (entry & PAGEMAP_PRESENT)
		return HM_RANGE_HOST;
	if (entry & PAGEMAP_SWAPPED)
		return HM_RANGE_ON_DISK;
	if (resident)
		return HM_RANGE_CACHED;
	return vma->ino ? HM_RANGE_ON_DISK : HM_RANGE_ABSENT;
}

static void add_nodes(uint64_t at, uint32_t n, struct hm_range_page *pages)
{
	void *address[BATCH];
	int node[BATCH];
	uint32_t i;

	for (i = 0; i < n; i++)
		address[i] = (void *)(uintptr_t)(at + i * PAGE);
	/* A kernel without NUMA, or a filter: not known. */
	if (sys_page_nodes(address, n, node))
		return;
	for (i = 0; i < n; i++)
		if (node[i] >= 0)
			pages[i].node = node[i];
}

static void query_batch(const struct query *query, const struct vma *vma, uint64_t at,
			uint32_t n)
{
	struct hm_range_page *pages = &query->pages[(at - query->start) / PAGE];
	unsigned char resident[BATCH];
	uint64_t entry[BATCH];
	bool known;
	uint32_t i;

	known = query->fd >= 0 &&
		sys_pread(query->fd, entry, n * sizeof(entry[0]),
			  at / PAGE * sizeof(entry[0])) == (ssize_t)(n * sizeof(entry[0]));
	if (sys_mincore((void *)(uintptr_t)at, n * PAGE, resident))
		return;
	for (i = 0; i < n; i++) {
		pages[i].access = (uint8_t)vma->access;
		pages[i].place = place_of(vma, known ? entry[i] : 0, resident[i] & 1);
	}
	add_nodes(at, n, pages);
}

static int query_vma(void *user, const struct vma *vma)
{
	const struct query *query = user;
	uint64_t at = max_u64(vma->start, query->start), end = min_u64(vma->end, query->end), n;

	for (; at < end; at += n * PAGE) {
		n = min_u64((end - at) / PAGE, BATCH);
		query_batch(query, vma, at, (uint32_t)n);
	}
	return 0;
}

int host_query(const struct range_pages *pages, struct hm_range_page *ret_pages)
{
	struct query query = {
		.start = pages->address,
		.end = pages->address + pages->length,
		.pages = ret_pages,
	};
	uint64_t i;
	int r;

	for (i = 0; i < pages->length / PAGE; i++)
		ret_pages[i] = (struct hm_range_page){ .node = -1 };
	query.fd = sys_open("/proc/self/pagemap", O_RDONLY, 0);
	r = vmas_each(query.start, query.end, query_vma, &query);
	if (query.fd >= 0)
		sys_close(query.fd);
	return r;
}
