// SPDX-License-Identifier: MIT
/*
 * tokens_warm, tokens_cold: batches of 64 random blocks of 1024 tokens, x and y, from uint16
 * to int64: out of RAM against numpy's memmap; from storage against reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/text.h"
#include "peer.h"
#include "program.h"

#define BLOCK 1024
#define BATCH 64
#define BYTES MIB(512)
#define BYTES_SHORT MIB(8)

struct scene {
	char *folder, *path;
	size_t bytes;
	unsigned int n; /* batches a sample */
	uint64_t seed;
	struct hm_tokens *tokens;
	struct hm_batches *batches;
	struct hm_device *device;
	int64_t *x, *y; /* a batch of each; shared by both sides */
	struct peer_tokens peer;
	int (*peer_batch)(struct peer_tokens *peer, int64_t *x, int64_t *y);
	char *why; /* numpy's own words, if it failed */
};

/* ---- the file ---- */

static int write_all(int fd, size_t bytes)
{
	static uint16_t values[MIB(1) / 2];
	uint32_t state = 1;
	size_t i, done;

	for (i = 0; i < MIB(1) / 2; i++) {
		state = state * 1664525 + 1013904223;
		values[i] = (uint16_t)((state >> 16) % 50257);
	}
	for (done = 0; done < bytes; done += MIB(1)) {
		values[0] = (uint16_t)(done >> 20);
		if (write(fd, values, MIB(1)) != (ssize_t)MIB(1))
			return errno ? -errno : -ENOSPC;
	}
	return fdatasync(fd) ? -errno : 0;
}

static int make_file(struct scene *scene)
{
	int fd, r;

	scene->path = text_format("%s/tokens", scene->folder);
	fd = open(scene->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	r = write_all(fd, scene->bytes);
	close(fd);
	return r;
}

/* Drops the file from RAM, as far as an ordinary user can. No process has it mapped. */
static int evict(const struct scene *scene)
{
	int fd = open(scene->path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	return r;
}

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Some file systems have no other place: pages that stay after that. */
static int count_resident(const struct scene *scene, size_t *ret_pages)
{
	size_t pages = scene->bytes / page_size(), i, n = 0;
	int fd = open(scene->path, O_RDONLY | O_CLOEXEC), r = 0;
	unsigned char *there = calloc(1, pages);
	void *at;

	if (fd < 0 || !there) {
		free(there);
		return fd < 0 ? -errno : -ENOMEM;
	}
	at = mmap(NULL, scene->bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || mincore(at, scene->bytes, there))
		r = -errno;
	for (i = 0; i < pages; i++)
		n += there[i] & 1;
	if (at != MAP_FAILED)
		munmap(at, scene->bytes);
	free(there);
	close(fd);
	*ret_pages = n;
	return r;
}

/* ---- ours ---- */

/*
 * Other blocks each time, as for the peers: earlier ones may still be in a cache below the file
 * system, as a hypervisor's.
 */
static int open_batches(struct scene *scene)
{
	const struct hm_batches_desc desc = {
		.struct_size = sizeof(desc),
		.order = HM_BATCHES_RANDOM,
		.block = BLOCK,
		.batch = BATCH,
		.seed = ++scene->seed,
	};
	const char *path = scene->path;
	int r;

	r = hm_tokens_open(&path, 1, NULL, &scene->tokens);
	if (!r)
		r = hm_batches_create(scene->tokens, &desc, &scene->batches);
	return r;
}

static void close_batches(struct scene *scene)
{
	hm_batches_unref(scene->batches);
	hm_tokens_unref(scene->tokens);
	scene->batches = NULL;
	scene->tokens = NULL;
}

static int take_batches(struct scene *scene, double *ret_ns)
{
	double start = bench_now();
	unsigned int i;
	int r = 0;

	for (i = 0; i < scene->n && !r; i++)
		r = hm_batches_next(scene->batches, scene->x, scene->y, NULL);
	*ret_ns = (bench_now() - start) / scene->n;
	return r;
}

static int warm_ours(void *user, double *ret_ns)
{
	return take_batches(user, ret_ns);
}

static int cold_ours(void *user, double *ret_ns)
{
	struct scene *scene = user;
	int r = evict(scene);

	if (!r)
		r = open_batches(scene);
	if (!r)
		r = take_batches(scene, ret_ns);
	close_batches(scene);
	return r;
}

/* ---- the peers ---- */

static int warm_peer(void *user, double *ret_ns)
{
	struct scene *scene = user;
	char *n = text_format("%u", scene->n), *block = text_format("%d", BLOCK);
	char *batch = text_format("%d", BATCH), *end;
	char *const argv[] = {
		"/usr/bin/python3", "-c", (char *)peer_numpy, scene->path, block, batch, n, NULL
	};
	struct program_result result;
	int r = program_run(argv, &result);

	free(n);
	free(block);
	free(batch);
	if (r)
		return r;
	*ret_ns = strtod(result.out, &end);
	if (!result.status && end > result.out)
		return 0;
	free(scene->why);
	scene->why = text_format("%s", result.errors[0] ? result.errors :
							  "/usr/bin/python3 is not there");
	return -EPROTO;
}

static int cold_peer(void *user, double *ret_ns)
{
	struct scene *scene = user;
	double start;
	unsigned int i;
	int r = evict(scene);

	start = bench_now();
	for (i = 0; i < scene->n && !r; i++)
		r = scene->peer_batch(&scene->peer, scene->x, scene->y);
	*ret_ns = (bench_now() - start) / scene->n;
	return r;
}

/* ---- both ---- */

static int begin(struct scene *scene, const char *name)
{
	int r;

	*scene = (struct scene){
		.bytes = bench_options.small ? BYTES_SHORT : BYTES,
		.peer = { .fd = -1,
			  .ring = -1,
			  .block = BLOCK,
			  .batch = BATCH,
			  .random = 88172645463325252u },
	};
	scene->peer.tokens = scene->bytes / sizeof(uint16_t);
	scene->folder = bench_folder_make(name, scene->bytes);
	if (!scene->folder)
		return -ENOSPC;
	r = make_file(scene);
	if (r)
		return bench_fail(name, r, false);
	r = hm_handler_install(0);
	if (!r)
		r = hm_device_open("host", &scene->device);
	if (!r)
		r = hm_alloc(scene->device, 2 * BATCH * BLOCK * sizeof(*scene->x),
			     HM_READ | HM_WRITE, &scene->x);
	if (r)
		return bench_fail(name, r, true);
	scene->y = scene->x + (size_t)BATCH * BLOCK;
	return 0;
}

static void end(struct scene *scene)
{
	close_batches(scene);
	hm_free(scene->x);
	hm_device_unref(scene->device);
	/* Not installed where it did not come so far: no matter. */
	hm_handler_remove();
	peer_tokens_close(&scene->peer);
	free(scene->why);
	free(scene->path);
	bench_folder_remove(scene->folder);
}

int bench_tokens_warm(void)
{
	const struct bench_pair pair = {
		.name = "a batch, int64",
		.peer = "numpy's memmap, as nanoGPT takes its batches",
		.ours = warm_ours,
		.peer_side = warm_peer,
		.rounds = 15,
		.warm_up = 2,
	};
	struct scene scene;
	double ns;
	int r;

	r = begin(&scene, pair.name);
	scene.n = bench_options.small ? 5 : 300;
	if (!r)
		r = open_batches(&scene) ? bench_fail(pair.name, -EIO, true) : 0;
	/* Tried once: numpy may be missing. */
	if (!r && warm_peer(&scene, &ns))
		bench_skip(pair.name, "no numpy for /usr/bin/python3 (python3-numpy): %s",
			   scene.why ? scene.why : "it can't be run");
	else if (!r)
		r = bench_compare(&pair, &scene, "us", 1e3, TARGET_RATIO, 0.10);
	r = scene.folder ? r : 0;
	end(&scene);
	return r;
}

static int measure_cold(struct scene *scene, bool ring)
{
	const struct bench_pair pair = {
		.name = ring ? "a batch, io_uring" : "a batch, pread()",
		.peer = ring ? "io_uring, all 64 reads in flight" : "a loop of pread()",
		.ours = cold_ours,
		.peer_side = cold_peer,
		.rounds = ring ? 21 : 11,
		.warm_up = 1,
	};
	int r = peer_tokens_open(&scene->peer, scene->path, ring);

	scene->peer_batch = ring ? peer_tokens_ring : peer_tokens_pread;
	if (ring && (r == -ENOSYS || r == -EPERM || r == -EINVAL))
		bench_skip(pair.name, "io_uring can't be had: %s", strerror(-r));
	else if (r)
		return bench_fail(pair.name, r, false);
	else
		r = bench_compare(&pair, scene, "us", 1e3, TARGET_RATIO, ring ? 1.11 : 0.20);
	peer_tokens_close(&scene->peer);
	scene->peer = (struct peer_tokens){ .fd = -1,
					    .ring = -1,
					    .block = BLOCK,
					    .batch = BATCH,
					    .random = scene->peer.random,
					    .tokens = scene->bytes / sizeof(uint16_t) };
	return r == -ENOSYS || r == -EPERM || r == -EINVAL ? 0 : r;
}

int bench_tokens_cold(void)
{
	static const char name[] = "a batch, pread()";
	struct scene scene;
	size_t pages = 0;
	int r;

	r = begin(&scene, name);
	scene.n = bench_options.small ? 2 : 50;
	if (!r)
		r = evict(&scene);
	if (!r)
		r = count_resident(&scene, &pages);
	if (!r && pages > scene.bytes / page_size() / 20) {
		bench_skip(name, "the file stays in RAM, as on tmpfs: set TMPDIR");
	} else if (!r) {
		r = measure_cold(&scene, false);
		if (!r)
			r = measure_cold(&scene, true);
	}
	r = scene.folder ? r : 0;
	end(&scene);
	return r;
}
