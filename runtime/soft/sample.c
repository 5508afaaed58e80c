// SPDX-License-Identifier: MIT
/*
 * Samples which pages of a buffer CPUs use: takes their entries out of the page tables, and
 * counts pages that have one again later.
 *
 * A load maps the pages around it, too, except where userfaultfd(2) watches for write
 * protection. The twin registers for that, and never protects a page. Where the process may not
 * use userfaultfd, a load counts for its surroundings, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/rlimits.h"
#include "soft/twin.h"

/* Entries read at a time. */
#define SAMPLE_BATCH 512u

/*
 * A present page, or an entry in the place of one, such as a page that the kernel is moving:
 * both have been used [the kernel's pagemap.rst].
 */
#define PAGEMAP_ENTRY (1ull << 63 | 1ull << 62)

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1 /* Linux 5.11 */
#endif

/* The counts are in a file: the kernel copies them to the caller, and stops at a bad pointer. */
struct soft_sample {
	_Atomic uint32_t *counts; /* by page */
	uint64_t n_pages;
	int fd;      /* file of the counts */
	int pagemap; /* /proc/self/pagemap */
	int uffd;    /* negative: not available */
};

static uint64_t counts_length(uint64_t n_pages)
{
	return n_pages * sizeof(uint32_t);
}

static int counts_make(struct soft_sample *sample)
{
	uint64_t length = counts_length(sample->n_pages);
	void *counts;
	int r;

	r = rlimits_check_file_size(length);
	if (r)
		return r;
	sample->fd = sys_memfd_create("hetmap:counts", MFD_CLOEXEC);
	if (sample->fd < 0)
		return sample->fd;
	r = sys_ftruncate(sample->fd, length);
	if (r)
		goto err_fd;
	r = sys_mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, sample->fd, 0, &counts);
	if (r)
		goto err_fd;
	sample->counts = counts;
	return 0;

err_fd:
	sys_close(sample->fd);
	return r;
}

static void counts_free(struct soft_sample *sample)
{
	sys_munmap((void *)(uintptr_t)sample->counts, counts_length(sample->n_pages));
	sys_close(sample->fd);
}

/* Optional: refused in many containers, and unknown to some kernels. */
static int uffd_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = sys_userfaultfd(O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd < 0 || !sys_ioctl(fd, UFFDIO_API, &api))
		return fd;
	sys_close(fd);
	return -EOPNOTSUPP;
}

/*
 * Fails without /proc, or where it is not this user's, as in a program that has changed its
 * user.
 */
static int pagemap_open(void)
{
	int fd = sys_open("/proc/self/pagemap", O_RDONLY, 0);

	return fd == -ENOENT || fd == -EACCES || fd == -EPERM ? -EOPNOTSUPP : fd;
}

static int sample_new(uint64_t n_pages, struct soft_sample **ret_sample)
{
	struct soft_sample *sample = sys_calloc(1, sizeof(*sample));
	int r;

	if (!sample)
		return -ENOMEM;
	sample->n_pages = n_pages;
	r = counts_make(sample);
	if (r)
		goto err_sample;
	r = pagemap_open();
	if (r < 0)
		goto err_counts;
	sample->pagemap = r;
	sample->uffd = uffd_open();
	*ret_sample = sample;
	return 0;

err_counts:
	counts_free(sample);
err_sample:
	free(sample);
	return r;
}

/* Stops sampling: closing the userfaultfd unregisters its range. */
static void sample_free(struct soft_sample *sample)
{
	if (!sample)
		return;
	if (sample->uffd >= 0)
		sys_close(sample->uffd);
	sys_close(sample->pagemap);
	counts_free(sample);
	free(sample);
}

/* ---- maps ---- */

/* A look at the maps of a range of a buffer's pages. */
struct look {
	struct soft_buffer *buffer;
	uint64_t first, n_pages;
	bool count; /* count used pages; if not, only take the entries away */
};

/* Registers the range; maps that can't be written are refused, and stay unwatched. */
static void watch(const struct soft_sample *sample, char *address, uint64_t length)
{
	struct uffdio_register ask = {
		.range = { .start = (uintptr_t)address, .len = length },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};

	if (sample->uffd >= 0)
		sys_ioctl(sample->uffd, UFFDIO_REGISTER, &ask);
}

/*
 * Takes the entries away. The pages stay: the visited ranges are shared, and no replaced pages.
 */
static int forget(char *address, uint64_t length)
{
	int r = sys_madvise(address, length, MADV_DONTNEED);

	return r == -EINVAL ? -EBUSY : r; /* locked */
}

/* Counts, then forgets; an entry that appears after the look is found the next time. */
static int count_run(struct soft_sample *sample, uint64_t first, uint64_t n_pages,
		     char *address)
{
	uint64_t i;
	int r = forget(address, n_pages << SIM_PAGE_SHIFT);

	for (i = 0; i < n_pages && !r; i++)
		atomic_fetch_add(&sample->counts[first + i], 1);
	return r;
}

static int count_batch(struct soft_sample *sample, uint64_t first, uint64_t n_pages,
		       char *address)
{
	uint64_t entries[SAMPLE_BATCH], i, end;
	uint64_t at = ((uintptr_t)address >> SIM_PAGE_SHIFT) * sizeof(entries[0]);
	ssize_t n = sys_pread(sample->pagemap, entries, n_pages * sizeof(entries[0]), at);
	int r = 0;

	if (n < 0)
		return (int)n;
	n_pages = (uint64_t)n / sizeof(entries[0]);
	for (i = 0; i < n_pages && !r; i = end + 1) {
		for (end = i; end < n_pages && entries[end] & PAGEMAP_ENTRY; end++)
			;
		if (end > i)
			r = count_run(sample, first + i, end - i,
				      address + (i << SIM_PAGE_SHIFT));
	}
	return r;
}

static int count_used(struct soft_sample *sample, uint64_t first, uint64_t n_pages,
		      char *address)
{
	uint64_t done, batch;
	int r = 0;

	for (done = 0; done < n_pages && !r; done += batch) {
		batch = min_u64(n_pages - done, SAMPLE_BATCH);
		r = count_batch(sample, first + done, batch,
				address + (done << SIM_PAGE_SHIFT));
	}
	return r;
}

static int look_at(void *context, char *address, uint64_t offset, uint64_t length)
{
	const struct look *look = context;
	struct soft_buffer *buffer = look->buffer;
	uint64_t first = offset >> SIM_PAGE_SHIFT, end = first + (length >> SIM_PAGE_SHIFT);
	uint64_t from = max_u64(first, look->first);
	struct soft_sample *sample;
	int r = 0;

	pthread_rwlock_rdlock(&buffer->lock);
	sample = buffer->sample;
	if (buffer->dev->gone)
		r = -ENODEV; /* the map may become zeros of its own at any time */
	if (r || !sample)
		goto out;
	end = min_u64(end, min_u64(look->first + look->n_pages, sample->n_pages));
	if (from >= end)
		goto out;
	address += (from - first) << SIM_PAGE_SHIFT;
	watch(sample, address, (end - from) << SIM_PAGE_SHIFT);
	r = look->count ? count_used(sample, from, end - from, address) :
			  forget(address, (end - from) << SIM_PAGE_SHIFT);
out:
	pthread_rwlock_unlock(&buffer->lock);
	return r;
}

/* ---- calls ---- */

/* The caller holds buffer->change. Returns the sample before. */
static struct soft_sample *sample_set(struct soft_buffer *buffer, struct soft_sample *sample)
{
	struct soft_sample *old;

	pthread_rwlock_wrlock(&buffer->lock);
	old = buffer->sample;
	buffer->sample = sample;
	pthread_rwlock_unlock(&buffer->lock);
	return old;
}

void soft_sample_stop(struct soft_buffer *buffer)
{
	sample_free(sample_set(buffer, NULL));
}

static int stop(struct soft_buffer *buffer)
{
	pthread_mutex_lock(&buffer->change);
	soft_sample_stop(buffer);
	pthread_mutex_unlock(&buffer->change);
	return 0;
}

/* Drops the counts of a sample before this one. */
static int start(struct soft_buffer *buffer)
{
	struct look look = { .buffer = buffer, .n_pages = UINT64_MAX };
	struct soft_sample *sample = NULL;
	int r;

	pthread_mutex_lock(&buffer->change);
	r = sample_new(buffer->n_pages, &sample);
	if (!r)
		sample_free(sample_set(buffer, sample));
	pthread_mutex_unlock(&buffer->change);
	if (r)
		return r;
	r = soft_visit_maps(buffer, look_at, &look);
	if (r)
		stop(buffer);
	return r;
}

static int copy_counts(struct soft_buffer *buffer, uint64_t first, uint64_t n_pages, void *to)
{
	uint64_t length = counts_length(n_pages);
	ssize_t n = -ENOENT;

	pthread_rwlock_rdlock(&buffer->lock);
	if (buffer->sample && (first > buffer->n_pages || n_pages > buffer->n_pages - first))
		n = -ERANGE;
	else if (buffer->sample)
		n = sys_pread(buffer->sample->fd, to, length, counts_length(first));
	pthread_rwlock_unlock(&buffer->lock);
	if (n < 0)
		return (int)n;
	return (uint64_t)n == length ? 0 : -EFAULT;
}

/* Checks first that the counts can be stored: on failure nothing is forgotten. */
static int read_counts(struct soft_buffer *buffer, const struct hetsim_buffer_sample *sample)
{
	struct look look = {
		.buffer = buffer,
		.first = sample->offset >> SIM_PAGE_SHIFT,
		.n_pages = sample->length >> SIM_PAGE_SHIFT,
		.count = true,
	};
	void *to = (void *)(uintptr_t)sample->counts;
	int r;

	r = copy_counts(buffer, look.first, look.n_pages, to);
	if (!r)
		r = soft_visit_maps(buffer, look_at, &look);
	return r ? r : copy_counts(buffer, look.first, look.n_pages, to);
}

int soft_buffer_sample(struct soft_file *file, void *argument)
{
	const struct hetsim_buffer_sample *sample = argument;
	bool read = sample->action == HETSIM_SAMPLE_READ;
	struct soft_buffer *buffer;
	int r;

	buffer = soft_buffer_get(file, sample->handle);
	if (!buffer)
		return -ENOENT;
	if (buffer->account != file->account)
		r = -EPERM;
	else if (read)
		r = read_counts(buffer, sample);
	else
		r = sample->action == HETSIM_SAMPLE_START ? start(buffer) : stop(buffer);
	soft_buffer_put(buffer);
	return r;
}
