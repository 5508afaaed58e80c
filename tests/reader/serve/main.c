// SPDX-License-Identifier: MIT
/*
 * serve_faults FOLDER FUSE-FD FAULTS-FD: serves FOLDER through /dev/fuse, which is mounted
 * already, and lets one of its files fail as the memory behind FAULTS-FD says. The server is a
 * process of its own: a process that waits for a page of such a file can't serve it.
 *
 * serve_faults --slow MILLISECONDS FOLDER MOUNT: shows FOLDER at MOUNT, as storage that takes
 * so long for each request and has several at a time (tests/perf/follow_advice.sh).
 */
#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "faults.h"

static const char *folder;
static struct serve_faults *faults;

static int real_path(const char *path, char *to, size_t size)
{
	int n = snprintf(to, size, "%s%s", folder, path);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

static int fails(const char *path)
{
	const char *slash = strrchr(path, '/');

	return !*faults->name || !strcmp(slash ? slash + 1 : path, faults->name);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* ---- the file system's operations ---- */

static void *serve_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	(void)connection;
	/* Sizes are asked for each time: they change here without the kernel's knowledge. */
	config->attr_timeout = 0;
	config->entry_timeout = 0;
	config->use_ino = 1;
	return NULL;
}

static int serve_getattr(const char *path, struct stat *st, struct fuse_file_info *info)
{
	char real[4096];
	int r = real_path(path, real, sizeof(real));

	(void)info;
	if (!r)
		r = lstat(real, st) ? -errno : 0;
	if (!r && fails(path))
		st->st_size = (off_t)least((uint64_t)st->st_size, faults->cut);
	return r;
}

static int serve_open(const char *path, struct fuse_file_info *info)
{
	char real[4096];
	int fd, r = real_path(path, real, sizeof(real));

	if (r)
		return r;
	/* The kernel asks for the rights; O_DIRECT is between it and the opener. */
	fd = open(real, (info->flags & ~O_DIRECT) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	info->fh = (uint64_t)fd;
	info->direct_io = fails(path) && faults->direct_io;
	return 0;
}

static int serve_release(const char *path, struct fuse_file_info *info)
{
	(void)path;
	close((int)info->fh);
	return 0;
}

#define AWAIT_MS 3000

/* How much of a read the file that fails gives, or a negative errno. */
static int64_t limit_read(size_t length, uint64_t offset)
{
	uint64_t end = least(offset + length, faults->cut);
	uint32_t now = ++faults->at_once, most = faults->at_most;
	int tries;

	faults->n_reads++;
	while (now > most && !atomic_compare_exchange_weak(&faults->at_most, &most, now))
		;
	if (faults->slow_ms)
		usleep(faults->slow_ms * 1000);
	for (tries = 0; faults->at_most < faults->await && tries < AWAIT_MS; tries++)
		usleep(1000);
	faults->at_once--;
	if (faults->read_error && offset < faults->bad_to &&
	    offset + length > faults->bad_from) {
		faults->n_failed++;
		return -faults->read_error;
	}
	if (offset >= end)
		return 0;
	return (int64_t)(faults->short_to ? least(end - offset, faults->short_to) :
					    end - offset);
}

static int serve_read(const char *path, char *to, size_t length, off_t offset,
		      struct fuse_file_info *info)
{
	int64_t limit = (int64_t)length;
	ssize_t n;

	if (fails(path))
		limit = limit_read(length, (uint64_t)offset);
	if (limit <= 0)
		return (int)limit;
	n = pread((int)info->fh, to, (size_t)limit, offset);
	return n < 0 ? -errno : (int)n;
}

static int serve_write(const char *path, const char *from, size_t length, off_t offset,
		       struct fuse_file_info *info)
{
	ssize_t n;

	if (fails(path)) {
		faults->n_writes++;
		while (faults->hold_writes)
			usleep(1000);
		if (faults->write_error) {
			faults->n_failed++;
			return -faults->write_error;
		}
	}
	n = pwrite((int)info->fh, from, length, offset);
	return n < 0 ? -errno : (int)n;
}

static int serve_truncate(const char *path, off_t size, struct fuse_file_info *info)
{
	char real[4096];
	int r = real_path(path, real, sizeof(real));

	(void)info;
	return r ? r : truncate(real, size) ? -errno : 0;
}

static int serve_fsync(const char *path, int data_only, struct fuse_file_info *info)
{
	(void)path, (void)data_only;
	return fsync((int)info->fh) ? -errno : 0;
}

static const struct fuse_operations operations = {
	.init = serve_init,
	.getattr = serve_getattr,
	.open = serve_open,
	.release = serve_release,
	.read = serve_read,
	.write = serve_write,
	.truncate = serve_truncate,
	.fsync = serve_fsync,
};

/* All files are slow, and do not fail. */
static struct serve_faults slow = { .cut = UINT64_MAX };

int main(int argc, char **argv)
{
	bool is_slow = argc == 5 && !strcmp(argv[1], "--slow");
	char *names[] = { argv[0], NULL };
	struct fuse_args args = FUSE_ARGS_INIT(1, names);
	struct fuse *fuse;
	char mounted[32];
	int r;

	if (argc != 4 && !is_slow) {
		fprintf(stderr, "usage: serve_faults FOLDER FUSE-FD FAULTS-FD\n"
				"       serve_faults --slow MILLISECONDS FOLDER MOUNT\n");
		return 2;
	}
	/* Kills the server with its test, so that no call waits for an answer. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == 1)
		return 1;
	folder = argv[is_slow ? 3 : 1];
	slow.slow_ms = (uint32_t)atoi(argv[2]);
	faults = is_slow ? &slow :
			   mmap(NULL, sizeof(*faults), PROT_READ | PROT_WRITE, MAP_SHARED,
				atoi(argv[3]), 0);
	if (faults == MAP_FAILED)
		return 1;
	/* The write rights of files are their own. */
	umask(0);
	fuse = fuse_new(&args, &operations, sizeof(operations), NULL);
	if (!fuse)
		return 1;
	snprintf(mounted, sizeof(mounted), "/dev/fd/%s", argv[2]);
	r = fuse_mount(fuse, is_slow ? argv[4] : mounted);
	/* Serves several requests at a time: a slow one delays no other. Until unmounted. */
	if (!r)
		r = fuse_loop_mt(fuse, 0);
	fuse_destroy(fuse);
	return r ? 1 : 0;
}
