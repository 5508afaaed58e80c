// SPDX-License-Identifier: MIT
/* load: a model of 2 GiB into the memory of soft:0, and the memory that it takes beside. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <hetmap/hetmap.h>
#include <hetmap/load.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/process_memory.h"
#include "common/text.h"
#include "peer.h"

#define TENSORS 64
#define BYTES GIB(2)
#define BYTES_SHORT MIB(16)
/* Copies of these bytes that are in memory at a time. */
#define COPIES 3

struct model {
	char *path;
	uint64_t bytes; /* bytes of all tensors */
	uint64_t size;  /* bytes of the file */
	struct hm_device *device;
	bool cold;
	/* At its most, while a side runs; NULL: it is timed, and nothing is looked at. */
	struct process_memory *most;
};

/* ---- the file ---- */

static int write_all(int fd, const char *bytes, size_t length)
{
	size_t done = 0;
	ssize_t n;

	while (done < length) {
		n = write(fd, bytes + done, length - done);
		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return 0;
}

static char *make_header(uint64_t each)
{
	char *header = text_format("{\"__metadata__\":{}"), *longer;
	unsigned int i;

	for (i = 0; i < TENSORS; i++) {
		longer = text_format("%s,\"model.layers.%u.weight\":{\"dtype\":\"F16\","
				     "\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64
				     ",%" PRIu64 "]}",
				     header, i, each / 2, i * each, (i + 1) * each);
		free(header);
		header = longer;
	}
	longer = text_format("%s}", header);
	free(header);
	return longer;
}

/* Written out, so that its pages can be dropped. */
static int write_model(struct model *model)
{
	int fd = open(model->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint64_t each = model->bytes / TENSORS, length, done, i;
	char *header = make_header(each), *block = malloc(MIB(1));
	int r = fd < 0 ? -errno : block ? 0 : -ENOMEM;

	length = strlen(header);
	model->size = sizeof(length) + length + model->bytes;
	if (!r)
		r = write_all(fd, (const char *)&length, sizeof(length));
	if (!r)
		r = write_all(fd, header, length);
	for (done = 0; !r && done < model->bytes; done += i) {
		i = model->bytes - done < MIB(1) ? model->bytes - done : MIB(1);
		memset(block, (int)(done >> 20) + 1, i);
		r = write_all(fd, block, i);
	}
	if (!r && fsync(fd))
		r = -errno;
	if (fd >= 0)
		close(fd);
	free(block);
	free(header);
	return r;
}

/* Out of the page cache, or into it. */
static int prepare_file(const struct model *model)
{
	int fd = open(model->path, O_RDONLY | O_CLOEXEC), r = fd < 0 ? -errno : 0;

	if (!r && model->cold)
		r = -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fd >= 0)
		close(fd);
	if (!r && !model->cold)
		r = peer_read_all(model->path);
	return r;
}

static bool is_on_disk(const struct model *model)
{
	struct statfs fs;

	return !statfs(model->path, &fs) && fs.f_type != TMPFS_MAGIC;
}

/* ---- the two sides ---- */

static void look(const struct model *model)
{
	struct process_memory now;

	if (!model->most)
		return;
	now = process_memory_now();
	process_memory_most(model->most, &now);
}

static int step(uint64_t bytes, uint64_t total, void *user)
{
	(void)bytes;
	(void)total;
	look(user);
	return 0;
}

static int load_it(struct model *model, double *ret_ns, struct hm_load **ret_load)
{
	const struct hm_load_desc desc = {
		.struct_size = sizeof(desc),
		.progress = model->most ? step : NULL,
		.user = model,
	};
	struct hm_pieces *pieces;
	double start = bench_now();
	int r;

	r = hm_pieces_open(model->path, NULL, &pieces);
	if (r)
		return r;
	r = hm_load_create(model->device, pieces, &desc, ret_load);
	*ret_ns = bench_now() - start;
	look(model);
	hm_pieces_unref(pieces);
	return r;
}

/* Releases outside of the time, and before the next sample. */
static int load_ours(void *user, double *ret_ns)
{
	struct hm_load *load;
	int r;

	r = prepare_file(user);
	if (!r)
		r = load_it(user, ret_ns, &load);
	if (!r) {
		hm_load_unref(load);
		hm_retire_flush();
	}
	return r;
}

static int load_peer(void *user, double *ret_ns)
{
	struct model *model = user;
	char *bytes = NULL, *to = NULL;
	double start;
	int r;

	r = prepare_file(model);
	start = bench_now();
	if (!r)
		r = hm_alloc(model->device, model->size, HM_READ | HM_WRITE, &to);
	if (!r)
		r = peer_load(model->path, to, &bytes);
	*ret_ns = bench_now() - start;
	look(model);
	free(bytes);
	hm_free(to);
	hm_retire_flush();
	return r;
}

/* ---- memory ---- */

static uint64_t field_bytes(const char *path, const char *field)
{
	FILE *file = fopen(path, "re");
	uint64_t value = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':')
			value = strtoull(line + strlen(field) + 1, NULL, 10) << 10;
	if (file)
		fclose(file);
	return value;
}

/* The cost of one side; memory beside the device's is counted alike for both. */
struct cost {
	struct process_memory before, most;
	double mib; /* beside */
};

static int cost_of(struct model *model, bench_side *side, struct cost *ret_cost)
{
	struct cost cost;
	double ns;
	int r;

	/* Memory that free() has kept would be reused, and cost nothing. */
	malloc_trim(0);
	r = process_memory_reset_peak();
	if (r)
		return r;
	cost.before = process_memory_now();
	cost.most = cost.before;
	model->most = &cost.most;
	r = side(model, &ns);
	model->most = NULL;
	cost.mib =
		(double)process_memory_beside(&cost.before, &cost.most, model->size) / MIB(1);
	*ret_cost = cost;
	return r;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / MIB(1);
}

/* The parts of the value, so that readers can compute it again. */
static char *note_of(const struct model *model, const struct cost *cost)
{
	const struct process_memory *most = &cost->most, *before = &cost->before;

	return text_format(
		"beside the device's memory: a window of 64 MiB and one tensor are "
		"allowed; a peak of %.1f MiB (VmHWM), at most %.1f of files "
		"(RssFile), %.1f anonymous (RssAnon) and %.1f shared (RssShmem), where "
		"%.1f, %.1f and %.1f were before; the file has %.1f, and what is shared "
		"grew by the device's",
		mib(most->peak), mib(most->file), mib(most->anonymous), mib(most->shared),
		mib(before->file), mib(before->anonymous), mib(before->shared),
		mib(model->size));
}

static int measure_memory(struct model *model)
{
	struct bench_result result = {
		.name = "memory, at its most",
		.unit = "MiB",
		.peer = "the same file, read into malloc()ed memory",
		.kind = TARGET_VALUE,
	};
	int r = process_memory_reset_peak();
	struct cost ours, peer;
	char *note;

	if (r) {
		bench_skip(result.name, "/proc/self/clear_refs can't be written: %s",
			   strerror(-r));
		return 0;
	}
	result.target = 64 + mib(model->bytes / TENSORS);
	r = cost_of(model, load_ours, &ours);
	if (!r)
		r = cost_of(model, load_peer, &peer);
	if (r)
		return bench_fail(result.name, r, true);
	note = note_of(model, &ours);
	result.value = ours.mib;
	result.peer_value = peer.mib;
	result.note = note;
	bench_report(&result);
	free(note);
	return 0;
}

static int measure(struct model *model)
{
	struct bench_pair pair = {
		.name = bench_options.small ? "16 MiB, warm" : "2 GiB, warm",
		.peer = "read() into malloc()ed memory, and a copy",
		.ours = load_ours,
		.peer_side = load_peer,
		.rounds = 9,
		.warm_up = 1,
	};
	int r;

	r = bench_compare(&pair, model, "ms", 1e6, TARGET_RATIO, 0.6);
	pair.name = bench_options.small ? "16 MiB, cold" : "2 GiB, cold";
	model->cold = true;
	if (!r && is_on_disk(model))
		r = bench_compare(&pair, model, "ms", 1e6, TARGET_RATIO, 0.6);
	else if (!r)
		bench_skip(pair.name, "TMPDIR is in memory, and has nothing to read from");
	model->cold = false;
	return r ? r : measure_memory(model);
}

int bench_load_model(void)
{
	const char *name = bench_options.small ? "16 MiB, warm" : "2 GiB, warm";
	struct hm_device_info info = { .struct_size = sizeof(info) };
	struct model model = { .bytes = bench_options.small ? BYTES_SHORT : BYTES };
	uint64_t available = field_bytes("/proc/meminfo", "MemAvailable");
	char *folder, size[TEXT_MAX], need[TEXT_MAX];
	int r;

	r = hm_device_open("soft:0", &model.device);
	if (!r)
		r = hm_device_query(model.device, &info);
	if (r) {
		bench_fail(name, r, true);
		goto out;
	}
	if (info.memory_total < model.bytes + MIB(64)) {
		bench_skip(name, "soft:0 has %s: HETMAP_SOFT=vram_mb=3072",
			   text_bytes(info.memory_total, size));
		goto out;
	}
	/* The file's pages, the device's memory, and the peer's memory. */
	if (available && available < COPIES * model.bytes) {
		bench_skip(name, "%s of memory are available, and it takes %s",
			   text_bytes(available, size), text_bytes(COPIES * model.bytes, need));
		goto out;
	}
	folder = bench_folder_make(name, model.bytes + MIB(64));
	if (!folder)
		goto out;
	model.path = text_format("%s/model.safetensors", folder);
	r = write_model(&model);
	r = r ? bench_fail("its file", r, false) : measure(&model);
	free(model.path);
	bench_folder_remove(folder);
out:
	hm_device_unref(model.device);
	return r;
}
