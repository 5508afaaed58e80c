// SPDX-License-Identifier: MIT
/*
 * Is a file the one that was recorded? It may have been built anew since, or the process have
 * had another one at that path, in a mount namespace of its own: its functions are others.
 */
#include "symbols_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_of_build(int fd, const struct code_file *file)
{
	const void *id = NULL;
	bool same = false;
	ssize_t n;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	n = elf ? dwelf_elf_gnu_build_id(elf, &id) : -1;
	/* The kernel's records have up to 20 bytes of it. */
	if (n > 0 && id && n >= file->n_build_id)
		same = !memcmp(id, file->build_id, file->n_build_id);
	elf_end(elf);
	return same;
}

/* A number may be another file's by now: some file systems count them anew each time. */
static bool is_of_generation(int fd, uint64_t generation)
{
	int now = 0;

	return !generation || ioctl(fd, FS_IOC_GETVERSION, &now) || !now ||
	       (uint32_t)now == (uint32_t)generation;
}

enum symbols_file symbols_file_look(const char *path, const struct code_file *file,
				    uint64_t recorded_ns)
{
	uint64_t written_ns;
	struct stat st;
	bool same;
	int fd;

	/* The name comes from a recording: nothing that waits or acts is opened. */
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return SYMBOLS_FILE_GONE;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return SYMBOLS_FILE_GONE;
	if (file->n_build_id) {
		same = is_of_build(fd, file);
	} else {
		written_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000u +
			     (uint64_t)st.st_mtim.tv_nsec;
		same = (!file->inode || file->inode == st.st_ino) &&
		       is_of_generation(fd, file->generation) &&
		       (!recorded_ns || written_ns <= recorded_ns);
	}
	close(fd);
	return same ? SYMBOLS_FILE_SAME : SYMBOLS_FILE_OTHER;
}
