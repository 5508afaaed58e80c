// SPDX-License-Identifier: MIT
/* Small things that every step uses. */
#include "base/util.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

uint64_t page_size(void)
{
	static _Atomic uint64_t cached;
	uint64_t size = cached;

	if (unlikely(!size)) {
		size = (uint64_t)sysconf(_SC_PAGESIZE);
		cached = size;
	}
	return size;
}

uint64_t time_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

const char *format_bytes(uint64_t bytes, char *text, size_t size)
{
	static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		snprintf(text, size, "%u bytes", (unsigned int)bytes);
		return text;
	}
	for (value /= 1024; value >= 1024 && i + 1 < ARRAY_SIZE(units); i++)
		value /= 1024;
	snprintf(text, size, value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
		 units[i]);
	return text;
}

void name_copy(char *to, size_t size, const char *from)
{
	size_t i;

	/* Most names are shorter than the path into libc's two functions. */
	for (i = 0; i < size - 1 && from[i]; i++)
		to[i] = (unsigned char)from[i] < ' ' || from[i] == '\177' ? '?' : from[i];
	to[i] = '\0';
}

int struct_read(void *to, size_t known, const void *from, uint32_t from_size, size_t least,
		const char *what)
{
	const char *bytes = from;
	size_t i;

	if (from_size < least)
		return err_set(-EINVAL,
			       "%s: struct_size is %u, at least %zu is needed: set it "
			       "to sizeof(struct %s)",
			       what, from_size, least, what);
	for (i = known; i < from_size; i++)
		if (bytes[i])
			return err_set(-E2BIG,
				       "%s: struct_size is %u, this library knows %zu "
				       "bytes and byte %zu is not zero: the program needs a "
				       "newer library",
				       what, from_size, known, i);
	memset(to, 0, known);
	memcpy(to, from, from_size < known ? from_size : known);
	return 0;
}

int struct_check_out(uint32_t size, size_t known, size_t least, const char *what)
{
	if (size < least)
		return err_set(-EINVAL,
			       "%s: struct_size is %u, at least %zu is needed: set it "
			       "to sizeof(struct %s)",
			       what, size, least, what);
	if (size > known)
		return err_set(-E2BIG,
			       "%s: struct_size is %u, this library fills %zu bytes: "
			       "the program needs a newer library",
			       what, size, known);
	return 0;
}

void struct_write(void *to, const void *from, uint32_t to_size)
{
	/* Leaves the struct_size that the caller set. */
	memcpy((char *)to + sizeof(uint32_t), (const char *)from + sizeof(uint32_t),
	       to_size - sizeof(uint32_t));
}
