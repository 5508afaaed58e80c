// SPDX-License-Identifier: MIT
/*
 * Built kernels, kept in files of $XDG_CACHE_HOME/hetmap or ~/.cache/hetmap.
 *
 * A file is named by a hash of its key (FNV-1a, 128 bits) and holds the key in
 * full, so that neither a collision nor a foreign file is taken for ours:
 *
 *     struct cache_header, key, binary
 *
 * It is written beside its place and renamed, so a reader sees all or nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accel/opencl/opencl.h"
#include "base/cache_folder.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define CACHE_MAGIC "hetmapCL"
/* Version 1 may hold binaries of PoCL that were torn by another build (build_lock.c). */
#define CACHE_VERSION 2
#define BINARY_MAX MIB(256)
#define PATH_BYTES 4096

struct cache_header {
	char magic[8];
	uint64_t version;
	uint64_t key_length;
	uint64_t binary_length;
	uint64_t binary_hash[2];
};

struct hash {
	uint64_t high, low;
};

/* FNV-1a with the prime 2^88 + 0x13b, modulo 2^128. */
static struct hash hash_bytes(const void *bytes, size_t length)
{
	struct hash hash = { 0x6c62272e07bb0142, 0x62b821756295c58d };
	const unsigned char *at = bytes;
	__extension__ unsigned __int128 value;

	value = hash.high;
	value = value << 64 | hash.low;
	for (; length; length--) {
		value ^= *at++;
		value = value * 0x13b + (value << 88);
	}
	hash.high = (uint64_t)(value >> 64);
	hash.low = (uint64_t)value;
	return hash;
}

int cache_key_make(const struct opencl_device *device, const char *source, const char *options,
		   struct cache_key *ret_key)
{
	const char *const parts[] = {
		device->platform_name,
		device->platform_version,
		device->name,
		device->driver_version,
		options,
		source,
	};
	size_t length = 0, i;
	char *text, *at;

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		length += strlen(parts[i]) + 1;
	text = sys_calloc(1, length);
	if (!text)
		return -ENOMEM;
	/* Each with its terminator, so that no two keys run together. */
	for (i = 0, at = text; i < ARRAY_SIZE(parts); i++)
		at = stpcpy(at, parts[i]) + 1;
	ret_key->text = text;
	ret_key->length = length;
	return 0;
}

/* Does @word begin at @at, where lines that end in a backslash are joined? */
static bool begins(const char *at, const char *word)
{
	while (*word) {
		if (at[0] == '\\' && at[1] == '\n')
			at += 2;
		else if (at[0] == '\\' && at[1] == '\r' && at[2] == '\n')
			at += 3;
		else if (*at++ != *word++)
			return false;
	}
	return true;
}

static bool names_file(const char *text)
{
	return begins(text, "include") || begins(text, "import") || begins(text, "embed");
}

bool cache_may_read_files(const char *source, const char *options)
{
	const char *at;

	for (at = options; at && *at; at++)
		if (names_file(at))
			return true;
	/* "%:" is another '#'; blanks and comments may come between it and the word. */
	for (at = source; *at && *at != '#' && !begins(at, "%:"); at++)
		;
	for (; *at; at++)
		if (names_file(at))
			return true;
	return false;
}

static int cache_path(const struct cache_key *key, char *path, size_t size)
{
	struct hash hash = hash_bytes(key->text, key->length);
	char folder[PATH_BYTES];
	int n, r;

	r = cache_folder(folder, sizeof(folder));
	if (r)
		return r;
	n = snprintf(path, size, "%s/%016" PRIx64 "%016" PRIx64 ".clbin", folder, hash.high,
		     hash.low);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int read_all(int fd, void *to, size_t length)
{
	char *at = to;
	ssize_t n;

	while (length) {
		n = sys_read(fd, at, length);
		if (n < 0)
			return (int)n;
		if (!n)
			return -ENODATA;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

static int write_all(int fd, const void *from, size_t length)
{
	const char *at = from;
	ssize_t n;

	while (length) {
		n = sys_write(fd, at, length);
		if (n < 0)
			return (int)n;
		at += n;
		length -= (size_t)n;
	}
	return 0;
}

/* Accepts only our own file, of the size in its header. */
static int check_header(int fd, const struct cache_key *key, const struct cache_header *header)
{
	struct stat stat;
	int r = sys_fstat(fd, &stat);

	if (r)
		return r;
	if (stat.st_uid != geteuid() || memcmp(header->magic, CACHE_MAGIC, 8) != 0 ||
	    header->version != CACHE_VERSION || header->key_length != key->length ||
	    !header->binary_length || header->binary_length > BINARY_MAX ||
	    (uint64_t)stat.st_size !=
		    sizeof(*header) + header->key_length + header->binary_length)
		return -ENOENT;
	return 0;
}

static int load_body(int fd, const struct cache_key *key, const struct cache_header *header,
		     unsigned char **ret_binary)
{
	unsigned char *body;
	struct hash hash;
	int r;

	body = sys_calloc(1, max_u64(header->key_length, header->binary_length));
	if (!body)
		return -ENOMEM;
	r = read_all(fd, body, header->key_length);
	if (!r && memcmp(body, key->text, key->length) != 0)
		r = -ENOENT;
	if (!r)
		r = read_all(fd, body, header->binary_length);
	if (r)
		goto err_free;
	hash = hash_bytes(body, header->binary_length);
	if (hash.high != header->binary_hash[0] || hash.low != header->binary_hash[1]) {
		r = -ENOENT;
		goto err_free;
	}
	*ret_binary = body;
	return 0;

err_free:
	free(body);
	return r;
}

int cache_load(const struct cache_key *key, unsigned char **ret_binary, size_t *ret_length)
{
	struct cache_header header;
	char path[PATH_BYTES];
	int fd, r;

	r = cache_path(key, path, sizeof(path));
	if (r)
		return r;
	fd = sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd < 0)
		return fd;
	r = read_all(fd, &header, sizeof(header));
	if (!r)
		r = check_header(fd, key, &header);
	if (!r)
		r = load_body(fd, key, &header, ret_binary);
	if (!r)
		*ret_length = header.binary_length;
	sys_close(fd);
	return r;
}

void cache_store(const struct cache_key *key, const unsigned char *binary, size_t length)
{
	struct hash hash = hash_bytes(binary, length);
	struct cache_header header = {
		.magic = CACHE_MAGIC,
		.version = CACHE_VERSION,
		.key_length = key->length,
		.binary_length = length,
		.binary_hash = { hash.high, hash.low },
	};
	static _Atomic unsigned int turn;
	char path[PATH_BYTES], beside[PATH_BYTES];
	int fd, n, r;

	if (length > BINARY_MAX || cache_path(key, path, sizeof(path)))
		return;
	/* A write past the limit raises SIGXFSZ, which ends the process. */
	if (sizeof(header) + key->length + length > rlimits_file_size())
		return;
	n = snprintf(beside, sizeof(beside), "%s.%d.%u", path, (int)getpid(),
		     atomic_fetch_add(&turn, 1));
	if (n < 0 || (size_t)n >= sizeof(beside))
		return;
	cache_make_folders(beside);
	fd = sys_open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	r = write_all(fd, &header, sizeof(header));
	if (!r)
		r = write_all(fd, key->text, key->length);
	if (!r)
		r = write_all(fd, binary, length);
	sys_close(fd);
	if (r || sys_rename(beside, path))
		(void)sys_remove(beside);
}
