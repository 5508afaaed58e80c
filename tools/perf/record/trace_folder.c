// SPDX-License-Identifier: MIT
/*
 * The folder that a trace is in: made, and never made over something else. It is made under
 * a name of its own, and comes to its place as a whole and locked: whoever finds it there can
 * tell that it is written to, for as long as the one who traces lives.
 */
#include "trace_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/command.h"
#include "common/text.h"
#include "record_file.h"

char *trace_folder_file(const char *path, const char *name)
{
	return text_format("%s/%s", path, name);
}

/* Nothing is in it that a trace has not. */
static bool is_trace(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	bool only = folder;

	while (only && (entry = readdir(folder)))
		only = entry->d_name[0] == '.' || !strcmp(entry->d_name, "perf.data") ||
		       !strcmp(entry->d_name, "maps") || !strcmp(entry->d_name, "about.json");
	if (folder)
		closedir(folder);
	return only;
}

static void remove_files(const char *path, const char *prefix)
{
	DIR *folder = opendir(path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (!strncmp(entry->d_name, prefix, strlen(prefix)) && entry->d_name[0] != '.')
			unlinkat(dirfd(folder), entry->d_name, 0);
	if (folder)
		closedir(folder);
}

/* The files of a trace only: a folder with anything else in it stays. */
static void remove_trace(const char *path)
{
	char *maps = trace_folder_file(path, "maps");

	remove_files(maps, "maps.");
	rmdir(maps);
	free(maps);
	remove_files(path, "perf.data");
	remove_files(path, "about.json");
	rmdir(path);
}

/*
 * A descriptor, with its lock, of the trace there, if a new one may replace it. -ENOENT:
 * nothing is there, or nothing that can be seen; -EEXIST: it is no trace; -EBUSY: another
 * program writes it.
 */
static int claim(const char *path)
{
	struct stat st, held;
	int fd;

	for (;;) {
		if (lstat(path, &st))
			return -ENOENT;
		if (!S_ISDIR(st.st_mode) || !is_trace(path))
			return -EEXIST;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && errno != ENOENT)
			return -errno;
		if (fd < 0)
			continue;
		/* Where folders have no locks, as on NFS, that fails with something else. */
		if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
			close(fd);
			return -EBUSY;
		}
		/* Another one may have come there meanwhile. */
		if (!fstat(fd, &held) && !lstat(path, &st) && held.st_dev == st.st_dev &&
		    held.st_ino == st.st_ino)
			return fd;
		close(fd);
	}
}

static int fail_busy(const char *shown, const char *suffix)
{
	return fail(STATUS_OWN, EBUSY,
		    "wait until it has ended, or name another folder with -o",
		    "another hetmap trace writes to '%s%s'", shown, suffix);
}

static int fail_make(int r, const char *shown)
{
	return fail(STATUS_OWN, r, "name another folder with -o", "cannot make '%s': %s", shown,
		    strerror(-r));
}

/* Where the trace before it is to go: in the place of nothing but another one. */
static int check_old(const char *path, const char *shown)
{
	char *old = text_format("%s.old", path);
	int fd = claim(old), status = 0;

	if (fd >= 0)
		close(fd);
	else if (fd == -EBUSY)
		status = fail_busy(shown, ".old");
	else if (fd != -ENOENT)
		status = fail(STATUS_OWN, EEXIST, "name another folder with -o",
			      "cannot rename '%s' to '%s.old': that is no trace", shown, shown);
	free(old);
	return status;
}

/* *ret_fd: as of claim(); -ENOENT: its place is free. A status. */
static int check_place(const char *path, const char *shown, int *ret_fd)
{
	int fd = claim(path), status;

	if (fd == -EEXIST)
		return fail(STATUS_OWN, EEXIST, "name another folder with -o",
			    "'%s' exists and is no trace", shown);
	if (fd == -EBUSY)
		return fail_busy(shown, "");
	if (fd < 0 && fd != -ENOENT)
		return fail_make(fd, shown);
	status = fd >= 0 ? check_old(path, shown) : 0;
	if (status)
		close(fd);
	else
		*ret_fd = fd;
	return status;
}

/* Of a file system that has no other way, as NFS: by the folder @between, which is made. */
static int exchange_by(const char *between, const char *a, const char *b)
{
	int r;

	if (rename(b, between)) {
		r = -errno;
		rmdir(between);
		return r;
	}
	if (rename(a, b)) {
		r = -errno;
		if (rename(between, b))
			remark("the earlier trace is now '%s': %s", between, strerror(errno));
		return r;
	}
	return rename(between, a) ? -errno : 0;
}

/* Both are folders, which change their names. */
static int exchange(const char *a, const char *b)
{
	char *between;
	int r;

	if (!renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	between = text_format("%s.XXXXXX", b);
	r = mkdtemp(between) ? exchange_by(between, a, b) : -errno;
	free(between);
	return r;
}

/* The folder @made, which has files in it, gets the name @path. A status. */
static int put_in_place(struct trace_folder *folder, char *made, const char *path,
			const char *shown)
{
	int status, fd = -1, r;

	do {
		status = check_place(path, shown, &fd);
		if (status)
			return status;
		if (fd >= 0)
			r = exchange(made, path);
		else
			r = rename(made, path) ? -errno : 0;
		/* A trace put aside has a name that nobody else looks for. */
		if (fd >= 0)
			close(fd);
	} while (fd < 0 && (r == -EEXIST || r == -ENOTEMPTY || r == -ENOTDIR));
	if (r)
		return fail_make(r, shown);
	if (fd >= 0)
		folder->aside = made;
	else
		free(made);
	return 0;
}

/* Locked, with its first files. 0 or a negative errno. */
static int make(struct trace_folder *folder, char *path)
{
	if (!mkdtemp(path))
		return -errno;
	folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder->fd < 0) {
		int r = -errno;

		rmdir(path);
		return r;
	}
	/* Nobody else has it: a file system that refuses has no locks. */
	flock(folder->fd, LOCK_EX | LOCK_NB);
	if (mkdirat(folder->fd, "maps", 0700))
		return -errno;
	folder->data_fd =
		openat(folder->fd, "perf.data", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return folder->data_fd < 0 ? -errno : 0;
}

static void close_files(struct trace_folder *folder)
{
	if (folder->data_fd >= 0)
		close(folder->data_fd);
	if (folder->fd >= 0)
		close(folder->fd);
}

int trace_folder_create(const char *path, struct trace_folder *ret_folder)
{
	struct trace_folder folder = { .fd = -1, .data_fd = -1 };
	char *shown = text_escape(path), *bare = strdup(path), *made;
	size_t end = strlen(path);
	int status, r;

	while (end > 1 && bare[end - 1] == '/')
		bare[--end] = '\0';
	made = text_format("%s.XXXXXX", bare);
	r = make(&folder, made);
	status = r ? fail_make(r, shown) : put_in_place(&folder, made, bare, shown);
	if (status) {
		if (folder.fd >= 0)
			remove_trace(made);
		free(made);
		close_files(&folder);
		goto out;
	}
	folder.path = realpath(bare, NULL);
	if (!folder.path) {
		status = fail(STATUS_OWN, errno, NULL, "'%s': %s", shown, strerror(errno));
		folder.path = strdup(bare);
		trace_folder_close(&folder, false);
		goto out;
	}
	*ret_folder = folder;
out:
	free(bare);
	free(shown);
	return status;
}

int trace_folder_about(const struct trace_folder *folder, const json_t *about)
{
	char *text = json_dumps(about, JSON_INDENT(1));
	int fd, r;

	if (!text)
		return -ENOMEM;
	fd = openat(folder->fd, "about.json", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	r = fd < 0 ? -errno : write_at(fd, text, strlen(text), 0);
	if (fd >= 0 && close(fd) && !r)
		r = -errno;
	/* Half of it says nothing. */
	if (r)
		unlinkat(folder->fd, "about.json", 0);
	free(text);
	return r;
}

void trace_folder_begun(struct trace_folder *folder)
{
	char *old;
	int fd;

	folder->begun = true;
	/* A folder that was empty is no trace to keep. */
	if (folder->aside && rmdir(folder->aside)) {
		old = text_format("%s.old", folder->path);
		fd = claim(old);
		if (fd >= 0) {
			remove_trace(old);
			close(fd);
		}
		if (rename(folder->aside, old))
			remark("the earlier trace is now '%s': %s", folder->aside,
			       strerror(errno));
		free(old);
	}
	free(folder->aside);
	folder->aside = NULL;
}

void trace_folder_close(struct trace_folder *folder, bool whole)
{
	int r = 0;

	if (whole)
		trace_folder_begun(folder);
	if (!folder->begun && folder->aside)
		r = exchange(folder->aside, folder->path);
	if (r)
		remark("the earlier trace is now '%s': %s", folder->aside, strerror(-r));
	if (!folder->begun)
		remove_trace(folder->aside && !r ? folder->aside : folder->path);
	close_files(folder);
	free(folder->aside);
	free(folder->path);
	*folder = (struct trace_folder){ .fd = -1, .data_fd = -1 };
}
