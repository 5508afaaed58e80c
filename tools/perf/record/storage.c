// SPDX-License-Identifier: MIT
/*
 * How fast a file's storage reads: some of it, read past the page cache by a few threads
 * at a time, as read-ahead of large windows does.
 */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4
#define PIECE ((size_t)1 << 20)
#define BYTES_MOST ((uint64_t)128 << 20)
#define BYTES_LEAST ((uint64_t)16 << 20)
#define NS_MOST 300000000u
/* The alignment of direct I/O: a page does for every device. */
#define ALIGNMENT 4096

bool storage_boot(char id[STORAGE_BOOT_MAX])
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
	bool known = file && fgets(id, STORAGE_BOOT_MAX, file);

	if (file)
		fclose(file);
	if (known)
		id[strcspn(id, "\n")] = '\0';
	return known;
}

struct reading {
	int fd;
	uint64_t size, begin_ns;
	_Atomic uint64_t next, done;
	_Atomic int error;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *read_pieces(void *user)
{
	struct reading *reading = user;
	void *bytes = aligned_alloc(ALIGNMENT, PIECE);
	uint64_t offset;
	ssize_t n;

	while (bytes && !reading->error && now_ns() - reading->begin_ns < NS_MOST) {
		offset = atomic_fetch_add(&reading->next, PIECE);
		if (offset + PIECE > reading->size)
			break;
		do
			n = pread(reading->fd, bytes, PIECE, (off_t)offset);
		while (n < 0 && errno == EINTR);
		if (n == (ssize_t)PIECE)
			reading->done += PIECE;
		else
			reading->error = n < 0 ? -errno : -ENODATA;
	}
	free(bytes);
	return NULL;
}

static int open_it(const char *path, uint64_t inode, uint64_t *ret_size)
{
	int fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	int r = 0;

	if (fd < 0)
		return errno == EINVAL ? -EOPNOTSUPP : -errno;
	if (fstat(fd, &st))
		r = -errno;
	else if (!S_ISREG(st.st_mode) || (inode && st.st_ino != inode))
		r = -ESTALE;
	else if ((uint64_t)st.st_size < BYTES_LEAST)
		r = -EOPNOTSUPP;
	if (r) {
		close(fd);
		return r;
	}
	*ret_size = (uint64_t)st.st_size;
	return fd;
}

int storage_measure(const char *path, uint64_t inode, double *ret_bytes_per_ns)
{
	struct reading reading = { 0 };
	pthread_t threads[THREADS];
	uint64_t took;
	int i, n = 0;

	reading.fd = open_it(path, inode, &reading.size);
	if (reading.fd < 0)
		return reading.fd;
	if (reading.size > BYTES_MOST)
		reading.size = BYTES_MOST;
	reading.begin_ns = now_ns();
	while (n < THREADS && !pthread_create(&threads[n], NULL, read_pieces, &reading))
		n++;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	took = now_ns() - reading.begin_ns;
	close(reading.fd);
	if (reading.error)
		return reading.error == -EINVAL ? -EOPNOTSUPP : reading.error;
	if (!n || !reading.done || !took)
		return -EAGAIN;
	*ret_bytes_per_ns = (double)reading.done / (double)took;
	return 0;
}

int storage_rate(struct storage_rates *rates, const char *path, uint64_t inode,
		 double *ret_bytes_per_ns)
{
	struct stat st;
	double rate;
	unsigned int i;
	int r;

	if (lstat(path, &st))
		return -errno;
	for (i = 0; i < rates->n; i++)
		if (rates->known[i].device == st.st_dev) {
			*ret_bytes_per_ns = rates->known[i].bytes_per_ns;
			return 0;
		}
	if (rates->n_measured == STORAGE_MEASURED_MOST)
		return -EAGAIN;
	rates->n_measured++;
	r = rates->measure(path, inode, &rate);
	if (r)
		return r;
	rates->known[rates->n].device = st.st_dev;
	rates->known[rates->n++].bytes_per_ns = rate;
	*ret_bytes_per_ns = rate;
	return 0;
}
