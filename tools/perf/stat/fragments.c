// SPDX-License-Identifier: MIT
/*
 * Free memory broken into pieces. /proc/self/pagemap has the places of pages [proc(5)], and
 * /proc/buddyinfo the result. A page that a pipe refers to can't be moved: neither compaction
 * nor migration takes it out of its block's way [vmsplice(2)].
 */
#include "fragments.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"

#define PAGE UINT64_C(4096)
#define BLOCK_ORDER 9
#define BLOCK_PAGES (UINT64_C(1) << BLOCK_ORDER)
#define ORDERS 16
/* Left to everybody else, at least and of the machine's. */
#define LEFT_LEAST (UINT64_C(64) << 20)
#define LEFT_PART 16
#define STEP (UINT64_C(16) << 20)
/* Machines with more are not made for that. */
#define MACHINE_MOST (UINT64_C(4) << 30)
#define PIPES 16
#define PIPE_PAGES 4096
#define TOLERANCE 0.05
/* In pagemap: bits 0 to 54, if bit 63 is set. */
#define FRAME_PRESENT (UINT64_C(1) << 63)
#define FRAME_MASK ((UINT64_C(1) << 55) - 1)

struct frame {
	uint64_t number; /* the page's, in the machine's memory */
	uint64_t page;   /* in the mapping */
};

struct fragments {
	char *memory;
	uint64_t bytes;
	int pipes[PIPES][2];
	unsigned int n_pipe;
};

/* ---- free memory ---- */

static int add_zone(const char *line, struct free_memory *memory)
{
	const char *at = strstr(line, "zone");
	unsigned int order;
	uint64_t n, bytes;
	char *end;

	if (!at)
		return -EPROTO;
	at += strcspn(at, " ");
	at += strspn(at, " ");
	at += strcspn(at, " ");
	for (order = 0; order < ORDERS; order++) {
		n = strtoull(at, &end, 10);
		if (end == at)
			break;
		at = end;
		bytes = (n << order) * PAGE;
		memory->bytes += bytes;
		memory->small += order < BLOCK_ORDER ? bytes : 0;
	}
	return order ? 0 : -EPROTO;
}

int free_memory_read(struct free_memory *ret_memory)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	struct free_memory memory = { 0 };
	char line[512];
	int r = 0;

	if (!file)
		return -errno;
	while (!r && fgets(line, sizeof(line), file))
		r = add_zone(line, &memory);
	fclose(file);
	if (!r)
		*ret_memory = memory;
	return r;
}

double free_memory_share(const struct free_memory *memory)
{
	return memory->bytes ? (double)memory->small / (double)memory->bytes : 0;
}

/* ---- where it is not done ---- */

static bool is_virtual(void)
{
	FILE *file = fopen("/proc/cpuinfo", "re");
	bool found = false;
	char line[4096];

	while (file && !found && fgets(line, sizeof(line), file))
		found = !strncmp(line, "flags", 5) && strstr(line, " hypervisor");
	if (file)
		fclose(file);
	return found;
}

char *fragment_refusal(void)
{
	struct sysinfo info;
	char size[TEXT_MAX];
	uint64_t bytes;

	if (geteuid() != 0)
		return text_format("it takes root: the kernel tells only root where pages lie");
	if (sysinfo(&info))
		return text_format("sysinfo: %s", strerror(errno));
	bytes = (uint64_t)info.totalram * info.mem_unit;
	if (is_virtual() && bytes <= MACHINE_MOST)
		return NULL;
	return text_format("it takes all memory of a machine, and this one, with %s, may have "
			   "other work: make vm has a machine for it",
			   text_bytes(bytes, size));
}

/* ---- taking ---- */

/* Memory that can be had again is given up first: it would be given up under way. */
static void tell_kernel(const char *path, const char *word)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : write(fd, word, strlen(word));

	/* Without it the share comes out less exact, which is looked at. */
	(void)n;
	if (fd >= 0)
		close(fd);
}

static int take_pipes(struct fragments *fragments)
{
	int *pipe;

	for (; fragments->n_pipe < PIPES; fragments->n_pipe++) {
		pipe = fragments->pipes[fragments->n_pipe];
		if (pipe2(pipe, O_CLOEXEC | O_NONBLOCK))
			return -errno;
		if (fcntl(pipe[1], F_SETPIPE_SZ, (int)(PIPE_PAGES * PAGE)) < 0) {
			close(pipe[0]);
			close(pipe[1]);
			return -errno;
		}
	}
	return 0;
}

/* Page by page until the given number is left. */
static int take_memory(struct fragments *fragments)
{
	struct free_memory memory;
	struct sysinfo info;
	uint64_t left;
	void *mapped;
	int r;

	if (sysinfo(&info))
		return -errno;
	left = (uint64_t)info.totalram * info.mem_unit / LEFT_PART;
	if (left < LEFT_LEAST)
		left = LEFT_LEAST;
	r = free_memory_read(&memory);
	if (r)
		return r;
	if (memory.bytes < left + STEP)
		return -ENOMEM;
	mapped = mmap(NULL, memory.bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapped == MAP_FAILED)
		return -errno;
	fragments->memory = mapped;
	fragments->bytes = memory.bytes;
	if (madvise(mapped, memory.bytes, MADV_NOHUGEPAGE) && errno != EINVAL)
		return -errno;
	for (uint64_t at = 0; at + STEP <= fragments->bytes; at += STEP) {
		r = free_memory_read(&memory);
		if (r)
			return r;
		if (signals_pending())
			return -EINTR;
		if (memory.bytes < left + STEP)
			break;
		for (uint64_t page = at; page < at + STEP; page += PAGE)
			((volatile char *)mapped)[page] = 1;
	}
	return 0;
}

/* ---- places of pages ---- */

static int compare_frames(const void *a, const void *b)
{
	const struct frame *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* All pages that are there, by where they lie. */
static int read_frames(const struct fragments *fragments, struct frame *frames, uint64_t *ret_n)
{
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t words[512], page = 0, n = 0;
	off_t at = (off_t)((uintptr_t)fragments->memory / PAGE * sizeof(words[0]));
	ssize_t length = 1;
	size_t i;

	if (fd < 0)
		return -errno;
	while (page < fragments->bytes / PAGE && length > 0) {
		length = pread(fd, words, sizeof(words), at);
		for (i = 0; length > 0 && i < (size_t)length / sizeof(words[0]); i++, page++)
			if (page < fragments->bytes / PAGE && words[i] & FRAME_PRESENT)
				frames[n++] = (struct frame){ words[i] & FRAME_MASK, page };
		at += length;
	}
	close(fd);
	if (length < 0)
		return -EIO;
	qsort(frames, n, sizeof(*frames), compare_frames);
	/* Without the right to know, all are 0. */
	if (n && !frames[n - 1].number)
		return -EPERM;
	*ret_n = n;
	return 0;
}

/* Is all of the block that begins at @frames[i] in it? */
static bool is_whole(const struct frame *frames, uint64_t n, uint64_t i)
{
	return frames[i].number % BLOCK_PAGES == 0 && i + BLOCK_PAGES <= n &&
	       frames[i + BLOCK_PAGES - 1].number == frames[i].number + BLOCK_PAGES - 1;
}

static uint64_t count_whole(const struct frame *frames, uint64_t n)
{
	uint64_t i = 0, whole = 0;

	while (i < n) {
		if (is_whole(frames, n, i)) {
			whole++;
			i += BLOCK_PAGES;
		} else {
			i++;
		}
	}
	return whole;
}

/*
 * Pages that stay: those of blocks that others have a part of, and one in the middle of @broken
 * of the @whole blocks, evenly. The rest of free memory is the same for any @broken.
 */
static void choose(const struct frame *frames, uint64_t n, uint64_t whole, uint64_t broken,
		   bool *stays)
{
	uint64_t i = 0, block = 0;

	while (i < n) {
		if (!is_whole(frames, n, i)) {
			stays[frames[i++].page] = true;
			continue;
		}
		if ((block + 1) * broken / whole != block * broken / whole)
			stays[frames[i + BLOCK_PAGES / 2].page] = true;
		block++;
		i += BLOCK_PAGES;
	}
}

/* ---- giving back ---- */

/* Those that no pipe has room for stay as well, if not where they are. */
static void pin(const struct fragments *fragments, const bool *stays)
{
	uint64_t page, pinned = 0, pages = fragments->bytes / PAGE;
	struct iovec vector = { .iov_len = PAGE };
	unsigned int pipe;

	for (page = 0; page < pages; page++) {
		if (!stays[page])
			continue;
		pipe = (unsigned int)(pinned / PIPE_PAGES);
		if (pipe >= fragments->n_pipe)
			return;
		vector.iov_base = fragments->memory + page * PAGE;
		if (vmsplice(fragments->pipes[pipe][1], &vector, 1, SPLICE_F_NONBLOCK) < 0)
			return;
		pinned++;
	}
}

static int give_back(const struct fragments *fragments, const bool *stays)
{
	uint64_t page = 0, end, pages = fragments->bytes / PAGE;

	while (page < pages) {
		for (end = page; end < pages && !stays[end];)
			end++;
		if (end > page && madvise(fragments->memory + page * PAGE, (end - page) * PAGE,
					  MADV_DONTNEED))
			return -errno;
		page = end + 1;
	}
	return 0;
}

/* So many blocks that @share of the free memory is small then. */
static uint64_t blocks_for(double share, const struct free_memory *left, uint64_t whole)
{
	uint64_t pages = left->bytes / PAGE + whole * BLOCK_PAGES, small = left->small / PAGE;
	double wanted =
		(share * (double)pages - (double)small) / ((double)BLOCK_PAGES - 1 + share);

	if (wanted <= 0)
		return 0;
	return wanted < (double)whole ? (uint64_t)(wanted + 0.5) : whole;
}

static int break_up(struct fragments *fragments, double share, struct frame *frames,
		    bool *stays)
{
	struct free_memory left;
	uint64_t n, whole;
	int r = read_frames(fragments, frames, &n);

	if (!r)
		r = free_memory_read(&left);
	if (r)
		return r;
	whole = count_whole(frames, n);
	if (!whole)
		return -ENOMEM;
	choose(frames, n, whole, blocks_for(share, &left, whole), stays);
	pin(fragments, stays);
	return give_back(fragments, stays);
}

int fragment_begin(double share, struct fragments **ret_fragments,
		   struct free_memory *ret_memory)
{
	struct fragments *fragments = calloc(1, sizeof(*fragments));
	struct free_memory memory;
	struct frame *frames = NULL;
	bool *stays = NULL;
	int r = fragments ? 0 : -ENOMEM;

	if (r)
		return r;
	tell_kernel("/proc/sys/vm/drop_caches", "3");
	tell_kernel("/proc/sys/vm/compact_memory", "1");
	r = take_pipes(fragments);
	/* Its own memory comes before the machine has none: touched, as it is cleared. */
	if (!r)
		r = free_memory_read(&memory);
	if (!r) {
		frames = malloc(memory.bytes / PAGE * sizeof(*frames) + 1);
		stays = malloc(memory.bytes / PAGE + 1);
		r = frames && stays ? 0 : -ENOMEM;
	}
	if (!r) {
		memset(frames, 1, memory.bytes / PAGE * sizeof(*frames));
		memset(stays, 0, memory.bytes / PAGE);
		r = take_memory(fragments);
	}
	if (!r)
		r = fragments->bytes <= memory.bytes ?
			    break_up(fragments, share, frames, stays) :
			    -EAGAIN;
	free(frames);
	free(stays);
	if (!r)
		r = free_memory_read(&memory);
	if (!r)
		*ret_memory = memory;
	if (!r && fabs(free_memory_share(&memory) - share) > TOLERANCE)
		r = -ERANGE;
	if (r) {
		fragment_end(fragments);
		return r;
	}
	*ret_fragments = fragments;
	return 0;
}

void fragment_end(struct fragments *fragments)
{
	unsigned int i;

	if (!fragments)
		return;
	for (i = 0; i < fragments->n_pipe; i++) {
		close(fragments->pipes[i][0]);
		close(fragments->pipes[i][1]);
	}
	if (fragments->memory)
		munmap(fragments->memory, fragments->bytes);
	free(fragments);
}
