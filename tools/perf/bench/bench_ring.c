// SPDX-License-Identifier: MIT
/* ipc_ring: records from this process to another one, through a ring in a file. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/ring.h>

#include "bench.h"
#include "bench_folder.h"
#include "bench_options.h"
#include "common/text.h"
#include "peer.h"

#define CAPACITY MIB(4)
#define LARGE MIB(1)
#define FOR_EVER UINT64_MAX

enum way { WAY_RING, WAY_RING_COPIED, WAY_PIPE, WAY_SOCKETS, WAYS };

/* An order to read, for the other process. It answers with an int after the last record. */
struct order {
	enum way way;
	uint32_t n;
	size_t length;
};

struct ipc {
	char *folder, *path;
	struct hm_ring *ring;
	int fds[WAYS][2]; /* the peers' descriptors: to read from, to write to */
	int orders;
	pid_t process;
	char *record;
	struct order order; /* order of the measured pair */
	enum way peer;
};

/* ---- the other process ---- */

/* Looks at both ends of a record: its number, and its completeness. */
static bool is_record(const char *record, size_t length, uint32_t number)
{
	uint32_t first, last;

	memcpy(&first, record, sizeof(first));
	memcpy(&last, record + length - sizeof(last), sizeof(last));
	return first == number && last == number;
}

static int read_in_place(struct hm_ring *ring, const struct order *order, uint32_t number)
{
	const void *record;
	uint64_t length;
	int r;

	r = hm_ring_peek(ring, FOR_EVER, &record, &length);
	if (r)
		return r;
	if (length != order->length || !is_record(record, length, number))
		return -EIO;
	return hm_ring_release(ring);
}

static int read_copied(struct hm_ring *ring, const struct order *order, uint32_t number,
		       char *to)
{
	uint64_t length;
	int r;

	r = hm_ring_read(ring, to, LARGE, FOR_EVER, &length);
	if (!r && (length != order->length || !is_record(to, length, number)))
		r = -EIO;
	return r;
}

static int read_peer(int fd, const struct order *order, uint32_t number, char *to)
{
	int r = peer_record_read(fd, to, order->length);

	return r || is_record(to, order->length, number) ? r : -EIO;
}

static int obey(struct ipc *ipc, const struct order *order)
{
	uint32_t i;
	int r = 0;

	for (i = 0; i < order->n && !r; i++) {
		if (order->way == WAY_RING)
			r = read_in_place(ipc->ring, order, i);
		else if (order->way == WAY_RING_COPIED)
			r = read_copied(ipc->ring, order, i, ipc->record);
		else
			r = read_peer(ipc->fds[order->way][0], order, i, ipc->record);
	}
	return r;
}

static int serve(struct ipc *ipc, int orders)
{
	struct order order;
	int r;

	r = hm_ring_open(ipc->path, -1, HM_RING_READER, &ipc->ring);
	if (write(orders, &r, sizeof(r)) != sizeof(r) || r)
		return 1;
	while (read(orders, &order, sizeof(order)) == sizeof(order)) {
		r = obey(ipc, &order);
		/* After an error no more is read: a writer would wait for ever. */
		if (write(orders, &r, sizeof(r)) != sizeof(r) || r)
			return 1;
	}
	return 0;
}

/* ---- this one ---- */

static int answer(const struct ipc *ipc)
{
	int r;

	return read(ipc->orders, &r, sizeof(r)) == sizeof(r) ? r : -EPIPE;
}

static void produce(char *record, size_t length, bool all, uint32_t number)
{
	uint64_t word = (uint64_t)number << 32 | number, *words = (uint64_t *)record;
	size_t i;

	words[0] = words[length / sizeof(word) - 1] = word;
	for (i = 1; all && i < length / sizeof(word) - 1; i++)
		words[i] = word + i;
}

/* The peer makes the record in a buffer, and we make it in place. */
static int write_one(struct ipc *ipc, const struct order *order, uint32_t number)
{
	char *record = ipc->record;
	void *room;
	int r;

	if (order->way == WAY_RING) {
		r = hm_ring_reserve(ipc->ring, order->length, FOR_EVER, &room);
		if (r)
			return r;
		produce(room, order->length, true, number);
		return hm_ring_commit(ipc->ring, order->length);
	}
	produce(record, order->length, ipc->order.way == WAY_RING, number);
	if (order->way == WAY_RING_COPIED)
		return hm_ring_write(ipc->ring, record, order->length, FOR_EVER);
	return peer_record_write(ipc->fds[order->way][1], record, order->length);
}

static int send_all(struct ipc *ipc, enum way way, double *ret_ns)
{
	struct order order = ipc->order;
	double start;
	uint32_t i;
	int r = 0, theirs;

	order.way = way;
	start = bench_now();
	if (write(ipc->orders, &order, sizeof(order)) != sizeof(order))
		return -EPIPE;
	for (i = 0; i < order.n && !r; i++)
		r = write_one(ipc, &order, i);
	/* A reader that is gone has said why, if it could. */
	theirs = r && r != -EPIPE ? 0 : answer(ipc);
	*ret_ns = (bench_now() - start) / order.n;
	return theirs ? theirs : r;
}

static int send_ours(void *user, double *ret_ns)
{
	struct ipc *ipc = user;

	return send_all(ipc, ipc->order.way, ret_ns);
}

static int send_peer(void *user, double *ret_ns)
{
	struct ipc *ipc = user;

	return send_all(ipc, ipc->peer, ret_ns);
}

/* ---- set-up, by itself ---- */

static int set_up_ours(void *user, double *ret_ns)
{
	const struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = CAPACITY };
	struct ipc *ipc = user;
	struct hm_ring *reader, *writer;
	char *path = text_format("%s/set_up", ipc->folder);
	double start = bench_now();
	int r;

	r = hm_ring_create(path, -1, &desc);
	if (r)
		goto out;
	r = hm_ring_open(path, -1, HM_RING_READER, &reader);
	if (r)
		goto out_unlink;
	r = hm_ring_open(path, -1, HM_RING_WRITER, &writer);
	if (!r)
		hm_ring_unref(writer);
	hm_ring_unref(reader);
	*ret_ns = bench_now() - start;
out_unlink:
	/* The time in which a file system gives its storage back is no part of the set-up. */
	unlink(path);
out:
	free(path);
	return r;
}

static int set_up_peer(void *user, double *ret_ns)
{
	double start = bench_now();
	int fds[2], r;

	(void)user;
	r = peer_pipe_open(fds);
	if (r)
		return r;
	close(fds[0]);
	close(fds[1]);
	*ret_ns = bench_now() - start;
	return 0;
}

/* ---- both ---- */

static void close_one(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int start_process(struct ipc *ipc)
{
	int orders[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, orders))
		return -errno;
	ipc->process = fork();
	if (!ipc->process) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[0]);
		close(ipc->fds[WAY_PIPE][1]);
		close(ipc->fds[WAY_SOCKETS][1]);
		_exit(serve(ipc, orders[1]));
	}
	close(orders[1]);
	ipc->orders = orders[0];
	close_one(&ipc->fds[WAY_PIPE][0]);
	close_one(&ipc->fds[WAY_SOCKETS][0]);
	if (ipc->process < 0)
		return -EAGAIN;
	r = answer(ipc);
	return r ? r : hm_ring_open(ipc->path, -1, HM_RING_WRITER, &ipc->ring);
}

static void end_process(const struct ipc *ipc)
{
	if (ipc->orders >= 0)
		close(ipc->orders);
	if (ipc->process <= 0)
		return;
	/* After an error it may wait for a record that won't come. */
	kill(ipc->process, SIGKILL);
	waitpid(ipc->process, NULL, 0);
}

static int prepare(struct ipc *ipc)
{
	const struct hm_ring_desc desc = { .struct_size = sizeof(desc), .capacity = CAPACITY };
	int r;

	ipc->record = calloc(1, LARGE);
	if (!ipc->record)
		return -ENOMEM;
	ipc->path = text_format("%s/ring", ipc->folder);
	r = hm_ring_create(ipc->path, -1, &desc);
	if (!r)
		r = peer_pipe_open(ipc->fds[WAY_PIPE]);
	if (!r)
		r = peer_sockets_open(ipc->fds[WAY_SOCKETS]);
	return r ? r : start_process(ipc);
}

static void drop(struct ipc *ipc)
{
	size_t i, k;

	end_process(ipc);
	hm_ring_unref(ipc->ring);
	for (i = WAY_PIPE; i < WAYS; i++)
		for (k = 0; k < 2; k++)
			close_one(&ipc->fds[i][k]);
	free(ipc->record);
	free(ipc->path);
	bench_folder_remove(ipc->folder);
}

static int measure(struct ipc *ipc)
{
	static const struct {
		const char *name, *peer;
		enum way way, peer_way;
		size_t length;
	} rows[] = {
		{ "64 bytes, pipe", "write(), read()", WAY_RING_COPIED, WAY_PIPE, 64 },
		{ "64 bytes, socketpair", "write(), read()", WAY_RING_COPIED, WAY_SOCKETS, 64 },
		{ "1 MiB in place, pipe", "made in a buffer, write(), read()", WAY_RING,
		  WAY_PIPE, LARGE },
		{ "1 MiB in place, socketpair", "made in a buffer, write(), read()", WAY_RING,
		  WAY_SOCKETS, LARGE },
		{ "1 MiB copied, pipe", "write(), read()", WAY_RING_COPIED, WAY_PIPE, LARGE },
		{ "1 MiB copied, socketpair", "write(), read()", WAY_RING_COPIED, WAY_SOCKETS,
		  LARGE },
	};
	struct bench_pair pair = {
		.ours = send_ours,
		.peer_side = send_peer,
		.rounds = 21,
		.warm_up = 2,
	};
	struct bench_pair set_up = {
		.name = "set-up",
		.peer = "pipe2(), F_SETPIPE_SZ, close()",
		.ours = set_up_ours,
		.peer_side = set_up_peer,
		.rounds = 51,
		.warm_up = 2,
	};
	size_t i;
	int r = 0;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]) && !r; i++) {
		pair.name = rows[i].name;
		pair.peer = rows[i].peer;
		ipc->peer = rows[i].peer_way;
		ipc->order = (struct order){
			.way = rows[i].way,
			.length = rows[i].length,
			.n = rows[i].length == LARGE ? 64 : 50000,
		};
		if (bench_options.small)
			ipc->order.n /= 32;
		r = bench_compare(&pair, ipc, "us", 1e3, TARGET_RATIO, 0.50);
	}
	return r ? r : bench_compare(&set_up, ipc, "us", 1e3, TARGET_NONE, 0);
}

int bench_ipc_ring(void)
{
	struct ipc ipc = {
		.orders = -1,
		.fds = { [WAY_PIPE] = { -1, -1 }, [WAY_SOCKETS] = { -1, -1 } },
	};
	int r;

	ipc.folder = bench_folder_make("64 bytes, pipe", 2 * CAPACITY);
	if (!ipc.folder)
		return 0;
	r = prepare(&ipc);
	if (r)
		bench_fail("64 bytes, pipe", r, true);
	else
		r = measure(&ipc);
	drop(&ipc);
	return r;
}
