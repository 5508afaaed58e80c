// SPDX-License-Identifier: MIT
/*
 * Faults of a running process by address: the kernel counts all, and takes samples, so
 * many a second that they cost little however many there are. One event and one small
 * ring for each thread: events of several CPUs can't share one.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/record/record.h"
#include "perf/record/record_ring.h"
#include "top.h"

/* Each costs a descriptor, and locked memory that a user has little of. */
#define THREADS_MOST 64
#define RING_BYTES (UINT64_C(16) << 10)
#define SAMPLES_A_SECOND 500

struct thread {
	pid_t tid;
	bool there; /* private: when they were last listed */
	uint64_t counted;
	struct ring ring;
};

struct faults {
	pid_t pid;
	bool user_only;
	struct thread threads[THREADS_MOST];
	uint32_t n;
};

/* PERF_SAMPLE_ADDR, PERF_SAMPLE_PERIOD, in that order. */
struct sample {
	struct perf_event_header header;
	uint64_t address;
	uint64_t period;
};

static int event_open(struct faults *faults, pid_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_PAGE_FAULTS,
		.freq = 1,
		.sample_freq = SAMPLES_A_SECOND,
		.sample_type = PERF_SAMPLE_ADDR | PERF_SAMPLE_PERIOD,
		.exclude_kernel = faults->user_only,
		.exclude_hv = 1,
	};
	long fd = syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	/* Those inside of system calls are not for everyone. */
	if (fd < 0 && errno == EACCES && !faults->user_only) {
		faults->user_only = true;
		return event_open(faults, tid);
	}
	return fd < 0 ? -errno : (int)fd;
}

static int add_thread(struct faults *faults, pid_t tid)
{
	struct thread *thread = &faults->threads[faults->n];
	int fd, r;

	fd = event_open(faults, tid);
	if (fd < 0)
		return fd;
	r = ring_map(&thread->ring, fd, RING_BYTES);
	if (r) {
		close(fd);
		return r;
	}
	thread->tid = tid;
	thread->there = true;
	thread->counted = 0;
	faults->n++;
	return 0;
}

static void end_thread(struct faults *faults, uint32_t at)
{
	int fd = faults->threads[at].ring.fd;

	ring_unmap(&faults->threads[at].ring, RING_BYTES);
	close(fd);
	faults->threads[at] = faults->threads[--faults->n];
}

/* 0; -E2BIG: so many that this is not for them; or a negative errno. */
static int list_threads(struct faults *faults)
{
	pid_t *tids;
	uint32_t n, i, k;
	int r;

	r = record_threads(faults->pid, &tids, &n);
	if (r)
		return r;
	for (i = 0; i < faults->n; i++)
		faults->threads[i].there = false;
	for (k = 0; k < n && !r; k++) {
		for (i = 0; i < faults->n; i++)
			if (faults->threads[i].tid == tids[k])
				break;
		if (i < faults->n)
			faults->threads[i].there = true;
		else if (faults->n == THREADS_MOST)
			r = -E2BIG;
		else
			r = add_thread(faults, tids[k]);
		if (r == -ESRCH) /* it has ended meanwhile */
			r = 0;
	}
	free(tids);
	/* Of a list that is not whole nobody is missing. */
	for (i = 0; i < faults->n && r; i++)
		faults->threads[i].there = true;
	return r;
}

int faults_open(pid_t pid, struct faults **ret_faults)
{
	struct faults *faults = calloc(1, sizeof(*faults));
	int r;

	if (!faults)
		return -ENOMEM;
	faults->pid = pid;
	r = list_threads(faults);
	if (!r && !faults->n)
		r = -ESRCH;
	if (r)
		faults_close(faults);
	else
		*ret_faults = faults;
	return r;
}

/* @n bytes from byte @from of the ring on, which may go on at its beginning. */
static void copy_out(const struct ring *ring, uint64_t from, void *to, size_t n)
{
	const char *data = (const char *)ring->page + sysconf(_SC_PAGESIZE);
	size_t first = RING_BYTES - from % RING_BYTES;

	if (first > n)
		first = n;
	memcpy(to, data + from % RING_BYTES, first);
	memcpy((char *)to + first, data, n - first);
}

static void drain(struct thread *thread,
		  void (*each)(void *user, uint64_t address, uint64_t weight), void *user)
{
	struct perf_event_mmap_page *page = thread->ring.page;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = page->data_tail;
	struct sample sample;

	while (head - tail >= sizeof(sample.header)) {
		copy_out(&thread->ring, tail, &sample, sizeof(sample.header));
		if (sample.header.size < sizeof(sample.header) ||
		    sample.header.size > head - tail)
			break;
		if (sample.header.type == PERF_RECORD_SAMPLE &&
		    sample.header.size == sizeof(sample)) {
			copy_out(&thread->ring, tail, &sample, sizeof(sample));
			each(user, sample.address, sample.period);
		}
		tail += sample.header.size;
	}
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
}

int faults_take(struct faults *faults,
		void (*each)(void *user, uint64_t address, uint64_t weight), void *user,
		uint64_t *ret_n)
{
	uint64_t sum = 0, value;
	uint32_t i;
	int r;

	for (i = 0; i < faults->n; i++) {
		struct thread *thread = &faults->threads[i];

		drain(thread, each, user);
		if (read(thread->ring.fd, &value, sizeof(value)) == sizeof(value)) {
			sum += value - thread->counted;
			thread->counted = value;
		}
	}
	r = list_threads(faults);
	for (i = faults->n; i--;)
		if (!faults->threads[i].there)
			end_thread(faults, i);
	if (!r)
		*ret_n = sum;
	return r;
}

void faults_close(struct faults *faults)
{
	if (!faults)
		return;
	while (faults->n)
		end_thread(faults, faults->n - 1);
	free(faults);
}
