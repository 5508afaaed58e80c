// SPDX-License-Identifier: MIT
/*
 * hetmap bench: what the ranks of its jobs do. Rank 0 measures, and rank 1 waits in MPI, where it
 * serves both sides alike.
 */
#include <errno.h>
#include <fcntl.h>
#include <hetmap/array.h>
#include <hetmap/error.h>
#include <jansson.h>
#include <linux/userfaultfd.h>
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench_cluster.h"
#include "perf/bench/bench.h"
#include "perf/bench/peer.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGE 4096u
#define ROW MIB(4)
#define PAGES (ROW / PAGE)
#define SCATTERED 32u    /* pages of a sample that are no neighbours */
#define MOST_NS 50000000 /* of a sample of many copies */

struct side {
	struct hm_array *array;
	MPI_Win window;        /* the peer's */
	unsigned char *there;  /* what it exposes */
	unsigned char *buffer; /* of this rank, ROW bytes */
	unsigned char *shared; /* rank 1's row, inside a node; else NULL */
	int rank;
	unsigned int rounds;
	json_t *rows;
};

struct size {
	const char *label;
	uint64_t bytes;
	unsigned int copies; /* of a sample */
};

static const struct size sizes[] = {
	{ "8 B", 8, 2000 },
	{ "4 KiB", KIB(4), 500 },
	{ "64 KiB", KIB(64), 100 },
	{ "4 MiB", ROW, 4 },
};

/* ---- array_put, array_get, array_page: the peer ---- */

static int peer_copy_far(struct side *side, bool put, uint64_t bytes)
{
	int n = (int)bytes;

	if (put)
		MPI_Put(side->buffer, n, MPI_BYTE, 1, 0, n, MPI_BYTE, side->window);
	else
		MPI_Get(side->buffer, n, MPI_BYTE, 1, 0, n, MPI_BYTE, side->window);
	return MPI_Win_flush(1, side->window) ? -EREMOTEIO : 0;
}

static int peer_copy_near(struct side *side, bool put, uint64_t bytes)
{
	memcpy(put ? side->shared : side->buffer, put ? side->buffer : side->shared, bytes);
	/* The copy is not left out. */
	__asm__ volatile("" ::: "memory");
	return 0;
}

/* Pages that a bare userfaultfd brings by MPI_Get. */
struct faults {
	struct side *side;
	int fd;
	unsigned char *area;
	unsigned char page[PAGE];
	pthread_t thread;
	atomic_int stop;
};

static void *peer_serve(void *user)
{
	struct faults *faults = user;
	struct pollfd one = { .fd = faults->fd, .events = POLLIN };
	struct uffd_msg message;

	while (!atomic_load(&faults->stop)) {
		if (poll(&one, 1, 50) <= 0 ||
		    read(faults->fd, &message, sizeof(message)) != sizeof(message))
			continue;
		uint64_t address = message.arg.pagefault.address & ~(uint64_t)(PAGE - 1);
		struct uffdio_copy copy = { .dst = address,
					    .src = (uintptr_t)faults->page,
					    .len = PAGE };

		MPI_Get(faults->page, PAGE, MPI_BYTE, 1,
			(MPI_Aint)(address - (uintptr_t)faults->area), PAGE, MPI_BYTE,
			faults->side->window);
		MPI_Win_flush(1, faults->side->window);
		ioctl(faults->fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

static int peer_faults_begin(struct faults *faults)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register range = { .range.len = ROW,
					 .mode = UFFDIO_REGISTER_MODE_MISSING };

	faults->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (faults->fd < 0)
		faults->fd = (int)syscall(SYS_userfaultfd,
					  O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	faults->area =
		mmap(NULL, ROW, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	range.range.start = (uintptr_t)faults->area;
	if (faults->fd < 0 || faults->area == MAP_FAILED ||
	    ioctl(faults->fd, UFFDIO_API, &api) < 0 ||
	    ioctl(faults->fd, UFFDIO_REGISTER, &range) < 0)
		return -errno;
	return -pthread_create(&faults->thread, NULL, peer_serve, faults);
}

static void peer_faults_end(struct faults *faults)
{
	atomic_store(&faults->stop, 1);
	pthread_join(faults->thread, NULL);
	close(faults->fd);
	munmap(faults->area, ROW);
}

/* ---- the job ---- */

static int begin(struct side *side, uint64_t page_rows)
{
	struct hm_array_desc desc = { .struct_size = sizeof(desc),
				      .dimensions = 2,
				      .element = 1,
				      .shape = { 2 * page_rows, ROW / page_rows } };
	MPI_Comm comm = MPI_COMM_WORLD;
	struct hm_array_part part;
	int r;

	desc.flags = page_rows > 1 ? HM_ARRAY_PAGED : 0;
	MPI_Comm_rank(comm, &side->rank);
	side->rows = json_array();
	side->there = aligned_alloc(PAGE, ROW);
	side->buffer = aligned_alloc(PAGE, ROW);
	if (!side->there || !side->buffer)
		return hm_error_set(-ENOMEM, "no memory for %u bytes", (unsigned int)ROW);
	memset(side->there, 1, ROW);
	memset(side->buffer, 2, ROW);
	r = hm_array_create(&comm, &desc, &side->array);
	if (!r)
		r = hm_array_local(side->array, 0, &part);
	if (r)
		return r;
	memset(part.address, 3, ROW);
	r = hm_array_at(side->array, page_rows, &part);
	side->shared = part.address;
	MPI_Win_create(side->there, ROW, 1, MPI_INFO_NULL, comm, &side->window);
	MPI_Win_lock_all(MPI_MODE_NOCHECK, side->window);
	return r ? r : hm_array_epoch(side->array, 0);
}

/* Rank 1 serves until rank 0 has measured. */
static void meet(const struct side *side)
{
	char byte = 0;

	if (side->rank)
		MPI_Recv(&byte, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	else
		MPI_Send(&byte, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
}

static json_t *row_begin(struct side *side, const char *name)
{
	json_t *row = json_pack("{s:s, s:[], s:[]}", "name", name, "ours", "peer");

	json_array_append_new(side->rows, row);
	return row;
}

static void add(json_t *row, const char *of, double ns)
{
	json_array_append_new(json_object_get(row, of), json_real(ns));
}

/* ---- copies ---- */

static int copy_ours(struct side *side, bool put, uint64_t bytes)
{
	struct hm_array_range range = { .start = { 1 }, .count = { 1, bytes } };
	int r = put ? hm_array_put(side->array, &range, side->buffer, NULL) :
		      hm_array_get(side->array, &range, side->buffer, NULL);

	return r ? r : hm_array_wait(side->array, HM_ARRAY_ALL);
}

/* The time of one copy. */
static int sample(struct side *side, bool ours, bool put, const struct size *size,
		  double *ret_ns)
{
	double from = bench_now(), now = from;
	unsigned int i;
	int r = 0;

	for (i = 0; !r && i < size->copies && now - from < MOST_NS; i++) {
		r = ours         ? copy_ours(side, put, size->bytes) :
		    side->shared ? peer_copy_near(side, put, size->bytes) :
				   peer_copy_far(side, put, size->bytes);
		/* The clock is looked at by both sides, and rarely by short copies. */
		if (i % 16 == 15 || size->copies < 16)
			now = bench_now();
	}
	*ret_ns = (bench_now() - from) / (i ? i : 1);
	return r;
}

static int measure_copies(struct side *side)
{
	static const char *const names[] = { "get", "put" };
	double ours = 0, peer = 0;
	char name[64];
	unsigned int k, round;
	int r = 0, put;

	for (put = 0; put < 2; put++)
		for (k = 0; !r && k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			json_t *row;

			snprintf(name, sizeof(name), "%s, %s", names[put], sizes[k].label);
			row = row_begin(side, name);
			/* The first round warms both up. */
			for (round = 0; !r && round <= side->rounds; round++) {
				bool first = round % 2;

				r = sample(side, first, put, &sizes[k], first ? &ours : &peer);
				if (!r)
					r = sample(side, !first, put, &sizes[k],
						   first ? &peer : &ours);
				if (!r && round) {
					add(row, "ours", ours);
					add(row, "peer", peer);
				}
			}
		}
	return r;
}

static int copies(struct side *side)
{
	int r = begin(side, 1);

	if (!r && !side->rank)
		r = measure_copies(side);
	meet(side);
	return r;
}

/* ---- pages ---- */

static double touch(const unsigned char *bytes, bool in_order)
{
	double from = bench_now();
	unsigned int i, n = in_order ? PAGES : SCATTERED;

	/* Downwards, and never a neighbour: what reads ahead has nothing to read. */
	for (i = 0; i < n; i++)
		(void)*(const volatile unsigned char
				*)&bytes[(size_t)PAGE * (in_order ? i : PAGES - 1 - 3 * i)];
	return (bench_now() - from) / (in_order ? 1 : n);
}

static double peer_touch_pages(struct faults *faults)
{
	madvise(faults->area, ROW, MADV_DONTNEED);
	return touch(faults->area, false);
}

static int measure_pages(struct side *side, struct faults *faults, bool in_order, json_t *row)
{
	struct hm_array_info info = { .struct_size = sizeof(info) };
	double ours, peer, from;
	unsigned int round;
	int r = hm_array_query(side->array, &info);

	for (round = 0; !r && round <= side->rounds; round++) {
		if (!side->rank) {
			ours = touch((unsigned char *)info.base + ROW, in_order);
			from = bench_now();
			if (in_order)
				r = peer_copy_far(side, false, ROW);
			peer = in_order ? bench_now() - from : peer_touch_pages(faults);
			if (round) {
				add(row, "ours", ours);
				add(row, "peer", peer);
			}
		}
		meet(side);
		/* It forgets the pages. */
		r = hm_array_epoch(side->array, 0) ?: r;
	}
	return r;
}

static int pages(struct side *side)
{
	static const char *const names[] = { "first touch of a page",
					     "4 MiB of pages in order" };
	struct faults faults = { .side = side };
	int r = begin(side, PAGES), order, begun = -1;

	if (!r && !side->rank)
		begun = r = peer_faults_begin(&faults);
	for (order = 0; !r && order < 2; order++)
		r = measure_pages(side, &faults, order, row_begin(side, names[order]));
	if (!begun)
		peer_faults_end(&faults);
	return r;
}

int bench_rank_main(char **argv)
{
	struct side side = { .rounds = (unsigned int)strtoul(argv[1], NULL, 10) };
	int level, r;

	MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
	r = !strcmp(argv[0], "copies") ? copies(&side) : pages(&side);
	if (r)
		fprintf(stderr, "rank %d: %s\n", side.rank,
			*hm_errmsg() ? hm_errmsg() : strerror(-r));
	else if (!side.rank)
		r = json_dump_file(side.rows, argv[2], 0) ? -EIO : 0;
	fflush(NULL);
	if (r)
		MPI_Abort(MPI_COMM_WORLD, 1);
	json_decref(side.rows);
	hm_array_unref(side.array);
	MPI_Win_unlock_all(side.window);
	MPI_Win_free(&side.window);
	free(side.there);
	free(side.buffer);
	MPI_Finalize();
	return 0;
}
