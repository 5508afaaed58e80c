// SPDX-License-Identifier: MIT
/* Files of tables, by their first bytes; folders by the names in them, and CSV by its name. */
#include "table_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD 16

static const struct {
	const char *bytes;
	size_t length;
	size_t offset; /* of further bytes; 0: none */
	const char *further;
	size_t further_length;
	const char *kind;
} marks[] = {
	{ "ARROW1\0\0", 8, 0, NULL, 0, "a file of Arrow" },
	{ "FEA1", 4, 0, NULL, 0, "a file of Feather" },
	{ "PAR1", 4, 0, NULL, 0, "a file of Parquet" },
	{ "PARE", 4, 0, NULL, 0, "an encrypted file of Parquet" },
	/* A message: its length, and the begin of its description [Arrow, IPC format]. */
	{ "\xff\xff\xff\xff", 4, 8, "\x10\0\0\0\0\0\x0a\0", 8, "a stream of Arrow" },
};

static const struct {
	const char *end;
	bool in_folder; /* files of that name make a folder one of tables */
	const char *kind;
} names[] = {
	{ ".parquet", true, "a folder of Parquet" },
	{ ".arrow", true, "a folder of Arrow" },
	{ ".arrows", true, "a folder of Arrow" },
	{ ".feather", true, "a folder of Feather" },
	{ ".csv", false, "a file of CSV" },
	{ ".tsv", false, "a file of CSV" },
};

static const char *kind_of_name(const char *name, bool in_folder)
{
	const char *dot = strrchr(name, '.');
	size_t i;

	for (i = 0; dot && i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].in_folder == in_folder && !strcasecmp(dot, names[i].end))
			return names[i].kind;
	return NULL;
}

static const char *kind_of_bytes(const char *head, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (n >= marks[i].length && !memcmp(head, marks[i].bytes, marks[i].length) &&
		    (!marks[i].offset || (n >= marks[i].offset + marks[i].further_length &&
					  !memcmp(head + marks[i].offset, marks[i].further,
						  marks[i].further_length))))
			return marks[i].kind;
	return NULL;
}

/* A model's folder has its own files, and a description in JSON beside. */
static const char *kind_of_folder(int fd)
{
	DIR *folder = fdopendir(fd);
	const char *kind = NULL;
	struct dirent *entry;

	if (!folder) {
		close(fd);
		return NULL;
	}
	while (!kind && (entry = readdir(folder)))
		kind = kind_of_name(entry->d_name, true);
	closedir(folder);
	return kind;
}

const char *table_file_kind(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	const char *kind = NULL;
	char head[HEAD];
	struct stat st = { 0 };
	ssize_t n;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
		return kind_of_folder(fd);
	n = S_ISREG(st.st_mode) ? pread(fd, head, sizeof(head), 0) : 0;
	close(fd);
	kind = n > 0 ? kind_of_bytes(head, (size_t)n) : NULL;
	return kind || n <= 0 ? kind : kind_of_name(path, false);
}
