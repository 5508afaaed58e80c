// SPDX-License-Identifier: MIT
/* Input: the file that a job reads, opened with everything checked. */
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <limits.h>
#include <linux/magic.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "command.h"
#include "text.h"

/* One or the other is there, and readable, on every Debian. */
static const char *const usual[] = {
	"/usr/bin/perl",
	"/usr/bin/bash",
	"/usr/bin/dpkg",
	"/usr/lib/*/libc.so.6",
	"/usr/lib/*/libcrypto.so.*",
	"/usr/lib/*/libstdc++.so.6",
	"/usr/lib/*/perl-base/*/*.so",
	"/usr/lib/locale/locale-archive",
};

static char *largest_usual(void)
{
	glob_t found;
	struct stat st;
	char *largest = NULL;
	off_t most = 0;
	size_t i;

	for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		glob(usual[i], i ? GLOB_APPEND : 0, NULL, &found);
	for (i = 0; i < found.gl_pathc; i++) {
		if (stat(found.gl_pathv[i], &st) < 0 || !S_ISREG(st.st_mode) ||
		    st.st_size <= most || access(found.gl_pathv[i], R_OK) < 0)
			continue;
		most = st.st_size;
		free(largest);
		largest = strdup(found.gl_pathv[i]);
	}
	globfree(&found);
	return largest;
}

/*
 * The bits that count: the owner's for the owner and the group's for its members, even where
 * others' allow more.
 */
static const struct {
	mode_t bit;
	const char *remedy;
} denied[] = {
	{ S_IRUSR, "allow yourself to read it (chmod u+r)" },
	{ S_IRGRP, "run it with sudo, or have its owner allow it (chmod g+r)" },
	{ S_IROTH, "run it with sudo, or have its owner allow it (chmod o+r)" },
};

/* Names the file's owner, and the way to become a user who may read it. */
static char *explain_denied(const struct stat *st)
{
	const struct passwd *owner = getpwuid(st->st_uid);
	const struct group *group = getgrgid(st->st_gid);
	bool member = st->st_gid == getegid() || group_member(st->st_gid);
	size_t class = st->st_uid == geteuid() ? 0 : member ? 1 : 2;
	char uid[16], gid[16], *join, *text;
	const char *group_name = group ? group->gr_name : gid;
	const char *remedy = denied[class].remedy;

	snprintf(uid, sizeof(uid), "%u", st->st_uid);
	snprintf(gid, sizeof(gid), "%u", st->st_gid);
	join = text_format("join the group (sudo adduser $USER %s, then log in again), or run "
			   "it with sudo",
			   group_name);
	if (st->st_mode & denied[class].bit)
		remedy = "run it with sudo"; /* more than its mode forbids it */
	else if (class == 2 && (st->st_mode & S_IRGRP) && st->st_gid)
		remedy = join;
	text = text_format("owner %s, group %s, mode %04o: %s", owner ? owner->pw_name : uid,
			   group_name, st->st_mode & 07777, remedy);
	free(join);
	return text;
}

/* Where @path leads, which is not there; NULL: it is no link. */
static char *explain_link(const char *path)
{
	char target[PATH_MAX], *shown, *text;
	ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return NULL;
	target[n] = '\0';
	shown = text_escape(target);
	text = text_format("it is a link to '%s', which is not there: get that file, or the "
			   "link, again",
			   shown);
	free(shown);
	return text;
}

static int fail_open(const char *path, const char *shown, int error)
{
	struct stat st;
	char *remedy = NULL;
	int status = STATUS_USAGE;

	switch (error) {
	case EACCES:
	case EPERM:
		if (!stat(path, &st))
			remedy = explain_denied(&st);
		else
			remedy = strdup(
				"a folder on the way to it may not be entered: run it with sudo");
		status = STATUS_ENVIRONMENT;
		break;
	case EMFILE:
	case ENFILE:
		remedy = strdup("raise RLIMIT_NOFILE (ulimit -n)");
		status = STATUS_ENVIRONMENT;
		break;
	case ENOENT:
		if (!strcmp(path, "-"))
			remedy = strdup("standard input has no address to map: name a file");
		else
			remedy = explain_link(path);
		break;
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG:
		break;
	default:
		status = STATUS_ENVIRONMENT;
	}
	fail(status, error, remedy, "cannot open '%s': %s", shown, strerror(error));
	free(remedy);
	return status;
}

static int refuse_kind(const char *shown, mode_t mode)
{
	if (S_ISDIR(mode))
		return fail(STATUS_USAGE, EISDIR, "name a file in it", "'%s' is a directory",
			    shown);
	if (S_ISFIFO(mode))
		return fail(STATUS_USAGE, ESPIPE, "write its bytes to a file first",
			    "'%s' is a FIFO: it has no bytes to map", shown);
	if (S_ISSOCK(mode))
		return fail(STATUS_USAGE, ENXIO, "name a file", "'%s' is a socket", shown);
	return fail(STATUS_USAGE, EINVAL, "copy what you need of it to a file first",
		    "'%s' is a %s device, not a regular file", shown,
		    S_ISCHR(mode) ? "character" : "block");
}

/*
 * Files of /proc say 0 bytes and have some, or can't be read where an empty file could; those of
 * /sys say a page, and are no memory either.
 */
static bool is_made_when_read(int fd, const struct stat *st)
{
	char page[4096]; /* /proc/PID/pagemap is read by words */
	struct statfs fs;
	void *mapped;
	ssize_t n;

	if (!st->st_size) {
		n = pread(fd, page, sizeof(page), 0);
		return n > 0 || (n < 0 && !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC);
	}
	mapped = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		return errno == ENODEV;
	munmap(mapped, 1);
	return false;
}

int input_open(const char *path, struct input *ret_input)
{
	char *name = path ? strdup(path) : largest_usual(), *shown;
	struct stat st;
	int fd, status;

	if (!name)
		return fail(STATUS_USAGE, ENOENT, "hetmap run histogram -- FILE",
			    "no file was named, and none of the default files can be read");
	shown = text_escape(name);

	/* Opening a FIFO waits for a writer, a device may do anything: look first. */
	if (stat(name, &st) < 0) {
		status = fail_open(name, shown, errno);
		goto err_free;
	}
	if (!S_ISREG(st.st_mode)) {
		status = refuse_kind(shown, st.st_mode);
		goto err_free;
	}
	fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0) {
		status = fail_open(name, shown, errno);
		goto err_free;
	}
	if (fstat(fd, &st) < 0) {
		status = fail_open(name, shown, errno);
		goto err_close;
	}
	if (!S_ISREG(st.st_mode)) {
		status = refuse_kind(shown, st.st_mode);
		goto err_close;
	}
	if (is_made_when_read(fd, &st)) {
		status =
			fail(STATUS_USAGE, EINVAL, "copy it to a file first",
			     "'%s' is made by the kernel as it is read: it has no bytes to map",
			     shown);
		goto err_close;
	}
	*ret_input = (struct input){ .path = name, .shown = shown, .fd = fd, .stat = st };
	return 0;

err_close:
	close(fd);
err_free:
	free(shown);
	free(name);
	return status;
}

void input_close(struct input *input)
{
	if (input->fd >= 0)
		close(input->fd);
	free(input->shown);
	free(input->path);
}

static int fail_pieces(int r)
{
	switch (-r) {
	case EBADMSG:
	case ENODATA:
	case EOVERFLOW:
		return fail_library(STATUS_WRONG, r, FILE_CUT, "the file is broken");
	case ENOENT:
	case ENOTDIR:
	case EINVAL:
	case EOPNOTSUPP:
		return fail_library(STATUS_USAGE, r, NULL, "cannot open it");
	default:
		return fail_library(STATUS_ENVIRONMENT, r, NULL, "cannot open it");
	}
}

int input_pieces(const char *path, struct hm_pieces **ret_pieces)
{
	struct hm_pieces_info info = { .struct_size = sizeof(info) };
	struct hm_pieces *pieces;
	char count[TEXT_MAX];
	int r;

	r = hm_pieces_open(path, NULL, &pieces);
	if (r)
		return fail_pieces(r);
	if (!hm_pieces_query(pieces, &info) && info.ignored && !strcmp(info.format, "npz"))
		remark("%s members of the file: ignored, as they are no arrays",
		       text_count(info.ignored, count));
	else if (info.ignored)
		remark("%s %s%s of the files: ignored, as the index does not list %s there",
		       text_count(info.ignored, count), info.word, info.ignored == 1 ? "" : "s",
		       info.ignored == 1 ? "it" : "them");
	*ret_pieces = pieces;
	return 0;
}

bool input_cut(const struct input *input)
{
	struct stat st;

	return fstat(input->fd, &st) < 0 || st.st_size < input->stat.st_size;
}

int input_map(const char *path, struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
	};
	struct hm_device *device;
	struct hm_buffer *buffer;
	int r;

	r = hm_device_open("file", &device);
	if (r)
		return r;
	r = hm_buffer_from_file(device, path, -1, &desc, &buffer);
	hm_device_unref(device);
	if (r)
		return r;
	r = hm_map_create(buffer, NULL, ret_map);
	hm_buffer_unref(buffer);
	return r;
}
