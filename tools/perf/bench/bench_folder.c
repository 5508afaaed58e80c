// SPDX-License-Identifier: MIT
/* A folder of the benchmark, for cases that need files. */
#include "bench_folder.h"

#include <errno.h>
#include <ftw.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bench.h"
#include "common/text.h"
#include "keeper.h"

struct folder {
	struct keeper keeper;
	char path[];
};

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

static void clear(void *user)
{
	bench_folder_clear(user);
}

void bench_folder_remove(char *path)
{
	struct folder *folder;

	if (!path)
		return;
	folder = (struct folder *)(void *)(path - offsetof(struct folder, path));
	keeper_end(&folder->keeper);
	free(folder);
}

static struct folder *make(const char *where)
{
	static const char name[] = "/hetmap-bench-XXXXXX";
	struct folder *folder = malloc(sizeof(*folder) + strlen(where) + sizeof(name));
	int r;

	if (!folder)
		return NULL;
	sprintf(folder->path, "%s%s", where, name);
	r = mkdtemp(folder->path) ? 0 : -errno;
	if (!r) {
		r = keeper_start(&folder->keeper, clear, folder->path);
		if (!r)
			return folder;
		rmdir(folder->path);
	}
	free(folder);
	errno = -r;
	return NULL;
}

char *bench_folder_make(const char *name, uint64_t bytes)
{
	const char *where = getenv("TMPDIR");
	char size[TEXT_MAX], *shown;
	struct folder *folder;
	struct statvfs room;

	if (!where || !*where)
		where = "/tmp";
	folder = make(where);
	shown = text_escape(where);
	if (!folder)
		bench_skip(name, "no folder can be made in %s: %s", shown, strerror(errno));
	else if (!statvfs(where, &room) && (uint64_t)room.f_bavail * room.f_frsize < bytes) {
		bench_skip(name, "%s has not the room that its files take, %s: set TMPDIR",
			   shown, text_bytes(bytes, size));
		bench_folder_remove(folder->path);
		folder = NULL;
	}
	free(shown);
	return folder ? folder->path : NULL;
}
