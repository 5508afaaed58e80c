// SPDX-License-Identifier: MIT
/* A folder of the benchmark, for cases that need files. */
#include "bench_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "../hetmap/text.h"
#include "bench.h"

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)kind;
	(void)at;
	remove(path);
	return 0;
}

void bench_folder_clear(const char *path)
{
	nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void bench_folder_remove(char *folder)
{
	if (folder)
		bench_folder_clear(folder);
	free(folder);
}

char *bench_folder_make(const char *name, uint64_t bytes)
{
	const char *where = getenv("TMPDIR");
	char size[TEXT_MAX], *path, *shown;
	struct statvfs room;

	if (!where || !*where)
		where = "/tmp";
	path = text_format("%s/hetmap-bench-XXXXXX", where);
	shown = text_escape(where);
	if (!mkdtemp(path)) {
		bench_skip(name, "no folder can be made in %s: %s", shown, strerror(errno));
		goto err_free;
	}
	if (!statvfs(path, &room) && (uint64_t)room.f_bavail * room.f_frsize < bytes) {
		bench_skip(name, "%s has not the room that its files take, %s: set TMPDIR",
			   shown, text_bytes(bytes, size));
		bench_folder_remove(path);
		path = NULL;
		goto err_free;
	}
	free(shown);
	return path;

err_free:
	free(path);
	free(shown);
	return NULL;
}
