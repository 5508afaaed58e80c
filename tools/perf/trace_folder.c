// SPDX-License-Identifier: MIT
/* The folder that a trace is in: made, and never made over something else. */
#include "trace_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../hetmap/command.h"
#include "../hetmap/text.h"
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

/* Only what a trace is made of: a folder with anything else in it stays. */
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

/* Where the trace before it is to go: in the place of nothing but another one. */
static bool may_replace(const char *path)
{
	struct stat st;

	return lstat(path, &st) || (S_ISDIR(st.st_mode) && is_trace(path));
}

/* Under a name of its own, until the new trace has begun: see trace_folder_begun(). */
static int put_aside(const char *path, const char *shown, char **ret_aside)
{
	char *old = text_format("%s.old", path), *aside = text_format("%s.XXXXXX", path);
	int status = 0;

	if (!may_replace(old))
		status = fail(STATUS_OWN, EEXIST, "name another folder with -o",
			      "cannot rename '%s' to '%s.old': that is no trace", shown, shown);
	else if (!mkdtemp(aside) || rename(path, aside))
		status = fail(STATUS_OWN, errno, "name another folder with -o",
			      "cannot rename '%s': %s", shown, strerror(errno));
	free(old);
	if (status) {
		rmdir(aside);
		free(aside);
		return status;
	}
	*ret_aside = aside;
	return 0;
}

static void put_back(const char *path, const char *aside)
{
	if (rename(aside, path))
		remark("the trace that was there is '%s' now: %s", aside, strerror(errno));
}

static int make(const char *path, const char *shown, char **ret_aside)
{
	struct stat st;
	int status;

	if (!lstat(path, &st)) {
		if (!S_ISDIR(st.st_mode) || !is_trace(path))
			return fail(STATUS_OWN, EEXIST, "name another folder with -o",
				    "'%s' exists and is no trace", shown);
		status = put_aside(path, shown, ret_aside);
		if (status)
			return status;
	}
	if (mkdir(path, 0700))
		return fail(STATUS_OWN, errno, "name another folder with -o",
			    "cannot make '%s': %s", shown, strerror(errno));
	return 0;
}

int trace_folder_create(const char *path, struct trace_folder *ret_folder)
{
	struct trace_folder folder = { .data_fd = -1 };
	char *shown = text_escape(path), *maps = NULL, *data = NULL;
	size_t end = strlen(path);
	char *bare = strdup(path);
	int status;

	while (end > 1 && bare[end - 1] == '/')
		bare[--end] = '\0';
	status = make(bare, shown, &folder.aside);
	if (status)
		goto err_put_back;
	folder.path = realpath(bare, NULL);
	if (!folder.path) {
		status = fail(STATUS_OWN, errno, NULL, "'%s': %s", shown, strerror(errno));
		goto err_remove;
	}
	maps = trace_folder_file(folder.path, "maps");
	data = trace_folder_file(folder.path, "perf.data");
	if (!mkdir(maps, 0700))
		folder.data_fd = open(data, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (folder.data_fd < 0) {
		status = fail(STATUS_OWN, errno, "name another folder with -o",
			      "cannot write into '%s': %s", shown, strerror(errno));
		goto err_remove;
	}
	*ret_folder = folder;
	goto out;

err_remove:
	remove_trace(bare);
err_put_back:
	if (folder.aside)
		put_back(bare, folder.aside);
	free(folder.aside);
	free(folder.path);
out:
	free(data);
	free(maps);
	free(bare);
	free(shown);
	return status;
}

int trace_folder_about(const struct trace_folder *folder, const json_t *about)
{
	char *path = trace_folder_file(folder->path, "about.json");
	char *text = json_dumps(about, JSON_INDENT(1));
	int fd, r = -ENOMEM;

	if (!text)
		goto out;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	r = fd < 0 ? -errno : write_at(fd, text, strlen(text), 0);
	if (fd >= 0 && close(fd) && !r)
		r = -errno;
	/* Half of it says nothing. */
	if (r)
		unlink(path);
out:
	free(text);
	free(path);
	return r;
}

void trace_folder_begun(struct trace_folder *folder)
{
	char *old;

	folder->begun = true;
	if (!folder->aside)
		return;
	old = text_format("%s.old", folder->path);
	if (is_trace(old))
		remove_trace(old);
	if (rename(folder->aside, old))
		remark("the trace that was there is '%s' now: %s", folder->aside,
		       strerror(errno));
	free(old);
	free(folder->aside);
	folder->aside = NULL;
}

void trace_folder_close(struct trace_folder *folder, bool whole)
{
	if (folder->data_fd >= 0)
		close(folder->data_fd);
	if (whole)
		trace_folder_begun(folder);
	else if (!folder->begun)
		remove_trace(folder->path);
	if (folder->aside)
		put_back(folder->path, folder->aside);
	free(folder->aside);
	free(folder->path);
	*folder = (struct trace_folder){ .data_fd = -1 };
}
