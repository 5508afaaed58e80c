// SPDX-License-Identifier: MIT
/* dmabuf_share: a dma-buf on its way to another process, until that has read of it. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/hetmap.h>

#include "bench.h"
#include "peer.h"

#define DEVICE "heap:system"
#define BYTES MIB(1)

/* Orders to the other process; it answers each with an int. */
enum order { ORDER_TAKE_OURS, ORDER_TAKE_PEERS, ORDER_DROP };

struct sharing {
	struct hm_device *device;
	struct hm_buffer *buffer;
	int fd;     /* descriptor of the same dma-buf */
	bool fresh; /* another one for each sample */
	int first;  /* its first byte */
	int socket; /* for buffers */
	int orders;
	pid_t process;
};

/* ---- the other process ---- */

struct taken {
	int socket;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct peer_share peer;
};

/* Its first byte, or a negative errno. */
static int take_ours(struct taken *taken)
{
	int r;

	r = hm_buffer_receive(taken->device, taken->socket, NULL, &taken->buffer);
	if (!r)
		r = hm_map_create(taken->buffer, NULL, &taken->map);
	return r ? r : *(volatile unsigned char *)hm_map_address(taken->map);
}

static int take_peers(struct taken *taken)
{
	int r = peer_share_receive(taken->socket, &taken->peer);

	return r ? r : *(volatile unsigned char *)taken->peer.address;
}

static int drop(struct taken *taken)
{
	hm_map_unref(taken->map);
	hm_buffer_unref(taken->buffer);
	taken->map = NULL;
	taken->buffer = NULL;
	if (taken->peer.address)
		peer_share_drop(&taken->peer);
	taken->peer.address = NULL;
	return 0;
}

static int serve(int socket, int orders)
{
	static int (*const run[])(struct taken *) = {
		[ORDER_TAKE_OURS] = take_ours,
		[ORDER_TAKE_PEERS] = take_peers,
		[ORDER_DROP] = drop,
	};
	struct taken taken = { .socket = socket };
	char order;
	int r;

	if (hm_device_open(DEVICE, &taken.device))
		return 1;
	while (read(orders, &order, 1) == 1) {
		r = run[(int)order](&taken);
		if (write(orders, &r, sizeof(r)) != sizeof(r))
			return 1;
	}
	return 0;
}

/* ---- this one ---- */

static int give_order(const struct sharing *sharing, enum order order)
{
	char byte = (char)order;

	return write(sharing->orders, &byte, 1) == 1 ? 0 : -EPIPE;
}

static int answer(const struct sharing *sharing)
{
	int r;

	return read(sharing->orders, &r, sizeof(r)) == sizeof(r) ? r : -EPIPE;
}

static int make_buffer(struct sharing *sharing)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = BYTES };
	struct hm_map *map;
	int r;

	r = hm_buffer_create(sharing->device, &desc, &sharing->buffer);
	if (!r)
		r = hm_buffer_export(sharing->buffer, HM_EXPORT_DMABUF, &sharing->fd);
	if (!r)
		r = hm_map_create(sharing->buffer, NULL, &map);
	if (r)
		return r;
	sharing->first = (sharing->first + 1) % 256;
	*(volatile unsigned char *)hm_map_address(map) = (unsigned char)sharing->first;
	hm_map_unref(map);
	return 0;
}

static void drop_buffer(struct sharing *sharing)
{
	if (sharing->fd >= 0)
		close(sharing->fd);
	hm_buffer_unref(sharing->buffer);
	sharing->fd = -1;
	sharing->buffer = NULL;
}

static int share(struct sharing *sharing, bool ours, double *ret_ns)
{
	double start;
	int r = 0, first;

	if (sharing->fresh) {
		drop_buffer(sharing);
		r = make_buffer(sharing);
	}
	if (!r)
		r = give_order(sharing, ours ? ORDER_TAKE_OURS : ORDER_TAKE_PEERS);
	if (r)
		return r;
	start = bench_now();
	r = ours ? hm_buffer_send(sharing->buffer, sharing->socket, 0) :
		   peer_share_send(sharing->socket, sharing->fd);
	if (r)
		return r;
	first = answer(sharing);
	*ret_ns = bench_now() - start;
	if (first < 0)
		return first;
	r = give_order(sharing, ORDER_DROP);
	if (!r)
		r = answer(sharing);
	return r || first == sharing->first ? r : -EIO;
}

static int share_ours(void *user, double *ret_ns)
{
	return share(user, true, ret_ns);
}

static int share_peer(void *user, double *ret_ns)
{
	return share(user, false, ret_ns);
}

static int start_process(struct sharing *sharing)
{
	int pair[2], orders[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return -errno;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders)) {
		close(pair[0]);
		close(pair[1]);
		return -EMFILE;
	}
	sharing->process = fork();
	if (!sharing->process) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		close(orders[0]);
		_exit(serve(pair[1], orders[1]));
	}
	close(pair[1]);
	close(orders[1]);
	sharing->socket = pair[0];
	sharing->orders = orders[0];
	return sharing->process < 0 ? -EAGAIN : 0;
}

static void end_process(const struct sharing *sharing)
{
	if (sharing->orders < 0)
		return;
	close(sharing->socket);
	close(sharing->orders);
	if (sharing->process > 0)
		waitpid(sharing->process, NULL, 0);
}

int bench_dmabuf_share(void)
{
	static const struct bench_pair pairs[] = {
		{ .name = "the first time",
		  .peer = "a bare SCM_RIGHTS message",
		  .ours = share_ours,
		  .peer_side = share_peer,
		  .rounds = 101,
		  .warm_up = 5 },
		{ .name = "once more",
		  .peer = "a bare SCM_RIGHTS message",
		  .ours = share_ours,
		  .peer_side = share_peer,
		  .rounds = 101,
		  .warm_up = 5 },
	};
	struct sharing sharing = { .fd = -1, .orders = -1 };
	size_t i;
	int r;

	r = hm_device_open(DEVICE, &sharing.device);
	if (r == -ENODEV) {
		bench_skip(pairs[0].name, "%s", hm_errmsg());
		return 0;
	}
	if (!r)
		r = make_buffer(&sharing);
	if (r) {
		bench_fail(pairs[0].name, r, true);
		goto out;
	}
	r = start_process(&sharing);
	if (r)
		bench_fail(pairs[0].name, r, false);
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]) && !r; i++) {
		sharing.fresh = !i;
		r = bench_compare(&pairs[i], &sharing, "us", 1e3, TARGET_RATIO, 1.20);
	}
	end_process(&sharing);
out:
	drop_buffer(&sharing);
	hm_device_unref(sharing.device);
	return r;
}
