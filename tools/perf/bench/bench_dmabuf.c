// SPDX-License-Identifier: MIT
/* dmabuf_bracket: the begin and end of an access of the CPU's, against bare ioctls. */
#include <errno.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define DEVICE "heap:system"
#define BYTES MIB(1)
/* In one sample: one pair is not much more than the clock. */
#define BRACKETS 1000

struct bracket {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	int fd; /* descriptor of the same dma-buf */
};

static int bracket_ours(void *user, double *ret_ns)
{
	const struct bracket *bracket = user;
	double start = bench_now();
	int i, r = 0;

	for (i = 0; i < BRACKETS && !r; i++) {
		r = hm_map_begin_cpu(bracket->map, 0, BYTES, HM_READ | HM_WRITE);
		if (!r)
			r = hm_map_end_cpu(bracket->map, 0, BYTES, HM_READ | HM_WRITE);
	}
	*ret_ns = (bench_now() - start) / BRACKETS;
	return r;
}

static int bracket_peer(void *user, double *ret_ns)
{
	const struct bracket *bracket = user;
	double start = bench_now();
	int i, r = 0;

	for (i = 0; i < BRACKETS && !r; i++)
		r = peer_bracket(bracket->fd);
	*ret_ns = (bench_now() - start) / BRACKETS;
	return r;
}

static int open_bracket(struct bracket *bracket)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = BYTES };
	int r;

	r = hm_buffer_create(bracket->device, &desc, &bracket->buffer);
	if (!r)
		r = hm_buffer_export(bracket->buffer, HM_EXPORT_DMABUF, &bracket->fd);
	if (!r)
		r = hm_map_create(bracket->buffer, NULL, &bracket->map);
	return r;
}

static void close_bracket(struct bracket *bracket)
{
	hm_map_unref(bracket->map);
	if (bracket->fd >= 0)
		close(bracket->fd);
	hm_buffer_unref(bracket->buffer);
	hm_device_unref(bracket->device);
}

int bench_dmabuf_bracket(void)
{
	const struct bench_pair pair = {
		.name = "begin and end",
		.peer = "two DMA_BUF_IOCTL_SYNC",
		.ours = bracket_ours,
		.peer_side = bracket_peer,
		.rounds = 51,
		.warm_up = 3,
	};
	struct bracket bracket = { .fd = -1 };
	struct bench_figures figures;
	int r;

	r = hm_device_open(DEVICE, &bracket.device);
	if (r == -ENODEV) {
		bench_skip(pair.name, "%s", hm_errmsg());
		return 0;
	}
	if (!r)
		r = open_bracket(&bracket);
	if (r) {
		bench_fail(pair.name, r, true);
		goto out;
	}
	r = bench_measure(&pair, &bracket, &figures);
	if (!r)
		bench_report_pair(&pair, &figures, "us", 1e3, TARGET_RATIO, 1.10);
out:
	close_bracket(&bracket);
	return r;
}
