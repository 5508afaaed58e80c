// SPDX-License-Identifier: MIT
/*
 * seq_cold and seq_warm: all bytes of a file, one after another, by a reader that chooses its
 * policy. POSIX_FADV_DONTNEED makes the file cold: no privilege is needed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <hetmap/reader.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/command.h"
#include "common/text.h"
#include "keeper.h"
#include "peer.h"

/* Of struct peers below: it is shown, and not to be met. */
#define NO_TARGET (-1.0)

#define SIZE GIB(2)
#define SIZE_SHORT MIB(32)

/* KiB of read-ahead of the device, for both cases; 0: as it is. */
static const unsigned int read_aheads[] = { 128, 8192 };

struct reading {
	char *path;
	int fd;
	bool cold;
	uint64_t sum;       /* expected sum of all words */
	const void *mapped; /* all of it, with its page tables */
	size_t size;
	char why[512];
};

/* ---- the file ---- */

static int write_file(struct reading *reading, size_t size)
{
	uint64_t *block = malloc(MIB(1)), state = 1;
	size_t at, i;
	int r = 0;

	if (!block)
		return -ENOMEM;
	for (at = 0; !r && at < size; at += MIB(1)) {
		if (signals_pending())
			r = -EINTR;
		for (i = 0; i < MIB(1) / sizeof(*block); i++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			block[i] = state;
		}
		reading->sum += peer_add_up(block, MIB(1));
		if (pwrite(reading->fd, block, MIB(1), (off_t)at) != (ssize_t)MIB(1))
			r = errno ? -errno : -EIO;
	}
	free(block);
	/* Bytes that are not written out yet can't be dropped. */
	if (!r && fsync(reading->fd))
		r = -errno;
	return r;
}

static void prepare(const struct reading *reading)
{
	if (reading->cold)
		posix_fadvise(reading->fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- the sides ---- */

static int check_sum(const struct reading *reading, uint64_t sum)
{
	return sum == reading->sum ? 0 : -EBADMSG;
}

static int add_up_all(struct hm_reader *reader, uint64_t *ret_sum)
{
	const void *data;
	uint64_t bytes;
	int r;

	do {
		r = hm_reader_next(reader, &data, NULL, &bytes);
		if (r)
			return r;
		*ret_sum += peer_add_up(data, bytes);
	} while (bytes);
	return 0;
}

static int read_by(struct reading *reading, uint32_t policy, double *ret_ns)
{
	const struct hm_reader_desc desc = { .struct_size = sizeof(desc), .policy = policy };
	struct hm_reader_info info = { .struct_size = sizeof(info) };
	struct hm_reader *reader;
	uint64_t sum = 0;
	double start;
	int r;

	prepare(reading);
	start = bench_now();
	r = hm_reader_open(reading->path, &desc, &reader);
	if (r)
		return r;
	r = add_up_all(reader, &sum);
	if (!r && policy == HM_POLICY_AUTO && !hm_reader_query(reader, &info))
		snprintf(reading->why, sizeof(reading->why), "%s", info.why);
	hm_reader_unref(reader);
	*ret_ns = bench_now() - start;
	return r ? r : check_sum(reading, sum);
}

static int reader_ours(void *user, double *ret_ns)
{
	return read_by(user, HM_POLICY_AUTO, ret_ns);
}

/* The ways that the reader may choose: its choice is good if none of these is faster. */
static int fault_peer(void *user, double *ret_ns)
{
	return read_by(user, HM_POLICY_FAULT, ret_ns);
}

static int ahead_peer(void *user, double *ret_ns)
{
	return read_by(user, HM_POLICY_AHEAD, ret_ns);
}

static bool can_direct(const struct reading *reading)
{
	const struct hm_reader_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_POLICY_DIRECT,
	};
	struct hm_reader *reader;
	int r = hm_reader_open(reading->path, &desc, &reader);

	if (!r)
		hm_reader_unref(reader);
	return r != -EOPNOTSUPP;
}

static int direct_peer(void *user, double *ret_ns)
{
	return read_by(user, HM_POLICY_DIRECT, ret_ns);
}

static int read_peer(void *user, double *ret_ns)
{
	const struct reading *reading = user;
	uint64_t sum = 0;
	double start;
	int r;

	prepare(reading);
	start = bench_now();
	r = peer_read_file(reading->path, &sum);
	*ret_ns = bench_now() - start;
	return r ? r : check_sum(reading, sum);
}

static int map_advised(const struct reading *reading, int advice, double *ret_ns)
{
	uint64_t sum = 0;
	double start;
	int r;

	prepare(reading);
	start = bench_now();
	r = peer_map_file(reading->path, advice, &sum);
	*ret_ns = bench_now() - start;
	return r ? r : check_sum(reading, sum);
}

static int map_peer(void *user, double *ret_ns)
{
	return map_advised(user, MADV_NORMAL, ret_ns);
}

static int sequential_peer(void *user, double *ret_ns)
{
	return map_advised(user, MADV_SEQUENTIAL, ret_ns);
}

/* The bound of all readers: nothing is copied, and nothing is mapped any more. */
static int mapped_ours(void *user, double *ret_ns)
{
	const struct reading *reading = user;
	double start = bench_now();
	uint64_t sum = peer_add_up(reading->mapped, reading->size);

	*ret_ns = bench_now() - start;
	return check_sum(reading, sum);
}

/* ---- the device's read-ahead ---- */

static char *read_ahead_path(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	return text_format("/sys/class/bdi/%u:%u/read_ahead_kb", major(st.st_dev),
			   minor(st.st_dev));
}

/* KiB; 0: can't be told. */
static unsigned int get_read_ahead(const char *path)
{
	FILE *file = path ? fopen(path, "re") : NULL;
	unsigned int kib = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%u", &kib) != 1)
		kib = 0;
	fclose(file);
	return kib;
}

static bool set_read_ahead(const char *path, unsigned int kib)
{
	FILE *file = path ? fopen(path, "we") : NULL;

	if (!file)
		return false;
	fprintf(file, "%u", kib);
	return !fclose(file);
}

/* The setting before. */
struct read_ahead {
	const char *path;
	unsigned int kib;
};

static void restore_read_ahead(void *user)
{
	const struct read_ahead *before = user;

	set_read_ahead(before->path, before->kib);
}

/* ---- measuring ---- */

/*
 * Compares with each map by itself: the faster of two runs in each round would be the time of
 * neither, but the rest of both their spreads.
 */
static int measure(struct reading *reading, unsigned int kib)
{
	static const struct {
		const char *name, *peer;
		bench_side *side;
		double cold, warm; /* targets; 0: no peer there */
	} peers[] = {
		{ "read", "read() of 1 MiB at a time", read_peer, 0.67, 0.59 },
		{ "a map", "mmap()", map_peer, 1.05, 1.05 },
		{ "MADV_SEQUENTIAL", "mmap(), MADV_SEQUENTIAL", sequential_peer, 1.05, 1.05 },
		{ "fault", "the reader, policy \"fault\"", fault_peer, 1.05, 0 },
		{ "ahead", "the reader, policy \"ahead\"", ahead_peer, 1.05, 0 },
		/* No target: it leaves nothing in memory for the next pass. */
		{ "direct", "the reader, policy \"direct\"", direct_peer, NO_TARGET, 0 },
	};
	size_t i;
	int r = 0;

	for (i = 0; !r && i < sizeof(peers) / sizeof(peers[0]); i++) {
		char name[64];
		const struct bench_pair pair = {
			.name = name,
			.peer = peers[i].peer,
			.ours = reader_ours,
			.peer_side = peers[i].side,
			.rounds = reading->cold ? 9 : 15,
			.warm_up = 1,
		};
		double target = reading->cold ? peers[i].cold : peers[i].warm;

		if (target == 0)
			continue;
		snprintf(name, sizeof(name), "against %s, %u KiB ahead", peers[i].name, kib);
		if (peers[i].side == direct_peer && !can_direct(reading)) {
			bench_skip(name, "%s", hm_errmsg());
			continue;
		}
		r = bench_compare(&pair, reading, "ms", 1e6,
				  target == NO_TARGET ? TARGET_NONE : TARGET_RATIO, target);
	}
	return r;
}

/* Set for the whole device, and so put back, however this ends. */
static int measure_at_each(struct reading *reading)
{
	char *path = read_ahead_path(reading->fd);
	unsigned int before = get_read_ahead(path), i;
	struct keeper keeper = { .line = -1 };
	int r = 0;

	if (!before || !set_read_ahead(path, before)) {
		bench_skip("other read-ahead",
			   "%s can't be written: that takes root, and a "
			   "file system with a device",
			   path ? path : "/sys/class/bdi");
		r = measure(reading, before);
		goto out;
	}
	r = keeper_start(&keeper, restore_read_ahead, &(struct read_ahead){ path, before });
	if (r) {
		bench_fail("other read-ahead", r, false);
		goto out;
	}
	for (i = 0; !r && i < sizeof(read_aheads) / sizeof(read_aheads[0]); i++) {
		set_read_ahead(path, read_aheads[i]);
		r = measure(reading, read_aheads[i]);
	}
	keeper_end(&keeper);
out:
	free(path);
	return r;
}

static int measure_mapped(struct reading *reading)
{
	const struct bench_pair pair = {
		.name = "mapped before, against read",
		.peer = "read() of 1 MiB at a time",
		.ours = mapped_ours,
		.peer_side = read_peer,
		.rounds = 15,
		.warm_up = 1,
	};
	void *mapped = mmap(NULL, reading->size, PROT_READ, MAP_SHARED, reading->fd, 0);
	int r;

	if (mapped == MAP_FAILED)
		return -errno;
	reading->mapped = mapped;
	/* The first pass brings its tables. */
	peer_add_up(mapped, reading->size);
	r = bench_compare(&pair, reading, "ms", 1e6, TARGET_NONE, 0);
	munmap(mapped, reading->size);
	return r;
}

static int run(bool cold)
{
	size_t size = bench_options.small ? SIZE_SHORT : SIZE;
	struct reading reading = { .cold = cold, .size = size };
	char *folder = bench_folder_make("against read", size);
	int r;

	if (!folder)
		return 0;
	reading.path = text_format("%s/data", folder);
	reading.fd = open(reading.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	r = reading.fd < 0 ? -errno : write_file(&reading, size);
	if (r) {
		bench_fail("a file to read", r, false);
		goto out;
	}
	r = measure_at_each(&reading);
	if (!r && !cold)
		r = measure_mapped(&reading);
	if (!r && bench_options.verbose)
		fprintf(stderr, "  %s\n", reading.why);
out:
	if (reading.fd >= 0)
		close(reading.fd);
	free(reading.path);
	bench_folder_remove(folder);
	return r;
}

int bench_seq_cold(void)
{
	return run(true);
}

int bench_seq_warm(void)
{
	return run(false);
}
