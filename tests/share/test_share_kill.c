// SPDX-License-Identifier: MIT
/*
 * Three processes have one buffer, and one of them, which may be its owner, is killed at some
 * moment: before it has the buffer, inside a bracket, in a resize. The others go on, know of
 * it, and when they have let go, too, nothing is left. The brackets that it had open on a
 * dma-buf of hetsim's are ended.
 *
 * HETMAP_ROUNDS: so many kills a device, 1000 for the long form.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dmabuf/dmabuf_support.h"
#include "lib/hetsim.h"
#include "lib/peer.h"
#include "share/share.h"
#include "base/smaps.h"
#include "lib/support.h"

#define BYTES (16 * PAGE)
#define MAX_BYTES (64 * PAGE)
#define PROCESSES 3u
#define ROUNDS_SHORT 40u
#define LATEST_US 6000u

enum { OWNER, FIRST, SECOND };

/* Memory that the processes share, mapped before fork(). */
static struct {
	_Atomic bool stop;
	_Atomic uint32_t received, finished;
} * common;

/* ---- the work of each process ---- */

/* Results that are allowed while others resize, and the owner ends. */
static bool is_expected(int r)
{
	return !r || r == -EBUSY || r == -EOWNERDEAD || r == -ERANGE || r == -EOPNOTSUPP ||
	       r == -EPERM || r == -ENOSPC || r == -EXDEV;
}

static int bracket_and_write(struct peer_world *world, uint64_t *state)
{
	uint64_t at = test_random(state) % BYTES;
	int r = hm_map_begin_cpu(world->map, at, 1, HM_READ | HM_WRITE);

	if (r)
		return r;
	((volatile unsigned char *)hm_map_address(world->map))[at]++;
	return hm_map_end_cpu(world->map, at, 1, HM_READ | HM_WRITE);
}

/* Begun, and left to whatever ends the process. */
static int bracket_open(struct peer_world *world, uint64_t *state)
{
	(void)state;
	return hm_map_begin_cpu(world->map, 0, PAGE, HM_READ | HM_WRITE);
}

static int lock(struct peer_world *world, uint64_t *state)
{
	(void)state;
	return hm_map_lock(world->map, 0, PAGE, 0, NULL);
}

static int map_again(struct peer_world *world, uint64_t *state)
{
	struct hm_map *map;
	int r = hm_map_create(world->buffer, NULL, &map);

	(void)state;
	if (!r)
		hm_map_unref(map);
	return r;
}

static int resize(struct peer_world *world, uint64_t *state)
{
	uint64_t pages = 1 + test_random(state) % (MAX_BYTES / PAGE);

	return hm_buffer_resize(world->buffer, max_u64(pages * PAGE, BYTES), 0);
}

static int query(struct peer_world *world, uint64_t *state)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };

	(void)state;
	return hm_buffer_query(world->buffer, &info);
}

/* Sends the buffer to itself, as to any other process. */
static int send_on(struct peer_world *world, uint64_t *state)
{
	struct hm_buffer *again;
	int pair[2], r;

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	r = hm_buffer_send(world->buffer, pair[0], 0);
	if (!r)
		r = hm_buffer_receive(world->device, pair[1], NULL, &again);
	if (!r)
		hm_buffer_unref(again);
	close(pair[0]);
	close(pair[1]);
	return r;
}

static int work(struct peer_world *world, uint64_t seed)
{
	static int (*const steps[])(struct peer_world * world, uint64_t * state) = {
		bracket_and_write,
		bracket_and_write,
		query,
		map_again,
		bracket_open,
		resize,
		send_on,
		lock,
	};
	uint64_t state = seed;
	int r;

	while (!common->stop) {
		r = steps[test_random(&state) % ARRAY_SIZE(steps)](world, &state);
		if (!is_expected(r)) {
			fprintf(stderr, "%d: %s\n", r, hm_errmsg());
			return r;
		}
	}
	return 0;
}

/* A process that did not get the buffer has no work: the sender was killed before. */
static int live(struct peer_world *world, int r, uint64_t seed)
{
	if (!r)
		r = hm_map_create(world->buffer, NULL, &world->map);
	if (!r) {
		common->received++;
		r = work(world, seed);
	}
	common->finished++;
	return r;
}

/* @fd: of a file, as these are not made, or -1. */
static int own(struct peer_world *world, uint64_t seed, uint64_t fd, uint64_t c)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.size = BYTES,
		.max_size = MAX_BYTES,
	};
	int r = (int)fd < 0 ? hm_buffer_create(world->device, &desc, &world->buffer) :
			      hm_buffer_from_file(world->device, NULL, (int)fd, &desc,
						  &world->buffer);

	(void)c;
	if (!r)
		r = hm_buffer_send(world->buffer, world->socket, 0);
	return live(world, r, seed);
}

static int take(struct peer_world *world, uint64_t seed, uint64_t b, uint64_t c)
{
	int r = hm_buffer_receive(world->device, world->socket, NULL, &world->buffer);

	(void)b, (void)c;
	if (r == -ECONNRESET) {
		common->finished++;
		return 0;
	}
	return live(world, r, seed);
}

/* ---- checks in the others afterwards ---- */

/* Bits for each wrong property; 0 in a process that never had the buffer. */
static int look(struct peer_world *world, uint64_t who, uint64_t owner_killed, uint64_t c)
{
	uint32_t gone = owner_killed ? HM_SHARING_OWNER_GONE : 0;
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	uint64_t state = 1;
	int r, bad = 0;

	(void)c;
	if (!world->map)
		return 0;
	if (hm_buffer_query(world->buffer, &info))
		return 1 << 0;
	bad |= (info.sharing != (who == OWNER ? HM_SHARING_SENT : HM_SHARING_RECEIVED | gone))
	       << 1;
	bad |= (info.size < BYTES - 1 || info.size > MAX_BYTES) << 2;
	bad |= (hm_map_length(world->map) != info.size) << 3;
	/* Brackets of the killed process hold up no other. */
	bad |= (bracket_and_write(world, &state) != 0) << 4;
	bad |= (map_again(world, &state) != 0) << 5;
	r = hm_buffer_resize(world->buffer, info.size - 1, 0);
	if (who == OWNER)
		bad |= !is_expected(r) << 6;
	else
		bad |= (r != (owner_killed ? -EOWNERDEAD : -EBUSY)) << 7;
	return bad;
}

/* ---- the killed process ---- */

struct killer {
	pid_t pid;
	bool late; /* all have the buffer, in a machine that has the time */
	unsigned int after_us;
};

static void *kill_later(void *user)
{
	const struct killer *killer = user;
	int tries;

	for (tries = 0; killer->late && common->received < PROCESSES && tries < 20000; tries++)
		usleep(1000);
	usleep(killer->after_us);
	kill(killer->pid, SIGKILL);
	return NULL;
}

/* Passes the owner's message on to the other processes; the owner may be dead by then. */
static void pass_on(struct peer peers[PROCESSES])
{
	struct share_message message;
	int fds[SHARE_FDS];

	if (share_message_receive(peers[OWNER].socket, &message, fds)) {
		shutdown(peers[FIRST].socket, SHUT_RDWR);
		shutdown(peers[SECOND].socket, SHUT_RDWR);
		return;
	}
	/* -EPIPE where that one was killed. */
	(void)share_message_send(peers[FIRST].socket, &message, fds);
	(void)share_message_send(peers[SECOND].socket, &message, fds);
	share_message_close(fds, SHARE_FDS);
}

/* The survivors find the right bytes, and end. */
static void look_and_stop(struct peer *peers, unsigned int victim)
{
	unsigned int i;

	for (i = 0; i < PROCESSES; i++)
		if (i != victim)
			CHECK_EQUAL(peer_call(&peers[i], look, i, victim == OWNER, 0), 0);
	for (i = 0; i < PROCESSES; i++)
		if (i != victim)
			peer_stop(&peers[i]);
}

/* Returns how many had the buffer when the one was killed. */
static uint32_t kill_one(const char *device, bool late, uint64_t *state)
{
	uint32_t i, victim = (uint32_t)(test_random(state) % PROCESSES), received;
	struct killer killer = {
		.late = late,
		.after_us = (unsigned int)(test_random(state) % LATEST_US),
	};
	struct peer peers[PROCESSES];
	/* The file loses its name here, before any process can be killed. */
	int fd = strcmp(device, "file") != 0 ? -1 : scratch_file(BYTES);
	pthread_t thread;
	int r;

	memset(common, 0, sizeof(*common));
	for (i = 0; i < PROCESSES; i++)
		peer_start(&peers[i], SOCK_SEQPACKET, device);
	if (fd >= 0)
		close(fd);
	for (i = 0; i < PROCESSES; i++)
		peer_begin(&peers[i], i == OWNER ? own : take, test_random(state), (uint64_t)fd,
			   0);
	killer.pid = peers[victim].pid;
	CHECK_FATAL(!pthread_create(&thread, NULL, kill_later, &killer));
	pass_on(peers);
	pthread_join(thread, NULL);
	received = common->received;
	common->stop = true;
	for (i = 0; i < PROCESSES; i++) {
		if (i == victim)
			continue;
		r = peer_end(&peers[i]);
		if (r)
			test_fail(__FILE__, __LINE__, "process %u: %d", i, r);
	}
	peer_kill(&peers[victim]);
	look_and_stop(peers, victim);
	return received;
}

static void rounds(const char *device)
{
	const char *text = getenv("HETMAP_ROUNDS");
	unsigned int i, n = text ? (unsigned int)strtoul(text, NULL, 10) : ROUNDS_SHORT;
	uint64_t state = test_seed(), had = 0;

	common = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(common != MAP_FAILED);
	for (i = 0; i < n; i++)
		had += kill_one(device, i % 2 == 0, &state);
	/* Or all were killed before anything was shared: every other round, all three have it. */
	CHECK(had > n);
	munmap(common, PAGE);
}

/* The machine's counts tell something if no other program runs: in a machine of its own. */
static void rounds_alone(const char *device)
{
	bool alone = !access("/dev/hetsim0", F_OK);
	struct given before = { 0 };

	if (alone)
		before = given_now();
	rounds(device);
	if (alone)
		check_given_back(&before);
}

/* ---- a process dies with pages locked and a bracket open ---- */

#define HELD_BYTES (1024 * PAGE)

/* Those of them that the process may lock; the bracket is of all. */
static int hold(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t locked = 0;
	int r = world->map ? 0 : hm_map_create(world->buffer, NULL, &world->map);

	(void)a, (void)b, (void)c;
	if (!r)
		r = hm_map_lock(world->map, 0, HELD_BYTES, HM_LOCK_PARTIAL, &locked);
	if (!r && (!locked || test_status_bytes("VmLck") < locked))
		r = -ENOLCK;
	return r ? r : hm_map_begin_cpu(world->map, 0, HELD_BYTES, HM_READ | HM_WRITE);
}

/* All that a lock or a bracket of the dead one's could be in the way of. */
static int go_on(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int r = world->map ? 0 : hm_map_create(world->buffer, NULL, &world->map);

	(void)a, (void)b, (void)c;
	if (!r)
		r = hm_map_begin_cpu(world->map, 0, HELD_BYTES, HM_READ | HM_WRITE);
	if (!r)
		r = hm_map_end_cpu(world->map, 0, HELD_BYTES, HM_READ | HM_WRITE);
	if (!r)
		r = hm_map_lock(world->map, 0, PAGE, 0, NULL);
	if (!r)
		r = hm_map_unlock(world->map, 0, PAGE);
	if (!r && map_info(world->map, 0).brackets)
		r = -EBADE;
	if (!r)
		r = hm_buffer_resize(world->buffer, 2 * HELD_BYTES, 0);
	return r ? r : hm_buffer_resize(world->buffer, HELD_BYTES, 0);
}

/* Waits for the locked pages of all processes: the kernel counts some of them later. */
static bool mlocked_becomes(bool more, uint64_t bytes)
{
	int tries;

	for (tries = 0; tries < 400 && (meminfo_read("Mlocked") > bytes) != more; tries++)
		usleep(50000);
	return tries < 400;
}

static void die_holding(uint32_t victim)
{
	bool alone = !access("/dev/hetsim0", F_OK);
	uint64_t before = meminfo_read("Mlocked");
	struct peer peers[PROCESSES];
	uint32_t i;
	int r;

	for (i = 0; i < PROCESSES; i++)
		peer_start(&peers[i], SOCK_SEQPACKET, "host");
	CHECK_EQUAL(peer_call(&peers[OWNER], peer_send, HELD_BYTES, 2 * HELD_BYTES, 0), 0);
	pass_on(peers);
	for (i = FIRST; i < PROCESSES; i++)
		CHECK_EQUAL(peer_call(&peers[i], peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peers[victim], hold, 0, 0, 0), 0);
	if (alone)
		CHECK(mlocked_becomes(true, before + HELD_BYTES / 2));
	peer_kill(&peers[victim]);
	if (alone)
		CHECK(mlocked_becomes(false, before + HELD_BYTES / 2));
	for (i = 0; i < PROCESSES; i++) {
		if (i == victim)
			continue;
		r = peer_call(&peers[i], go_on, 0, 0, 0);
		CHECK_EQUAL(r, i == OWNER ? 0 : victim == OWNER ? -EOWNERDEAD : -EBUSY);
		r = peer_call(&peers[i], peer_sharing, 0, 0, 0);
		CHECK_EQUAL(r, i == OWNER      ? HM_SHARING_SENT :
			       victim == OWNER ? HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE :
						 HM_SHARING_RECEIVED);
	}
	for (i = 0; i < PROCESSES; i++)
		if (i != victim)
			peer_stop(&peers[i]);
}

/* ---- a process dies in brackets of a dma-buf ---- */

/* The buffer's dma-buf, in each process that has it. */
static int dmabuf = -1;

/* From the owner to the first process. */
static int send_dmabuf(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int r = hm_buffer_export(world->buffer, HM_EXPORT_DMABUF, &dmabuf);

	(void)a, (void)b, (void)c;
	if (!r)
		send_fd(world->socket, dmabuf);
	return r;
}

static int receive_dmabuf(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)a, (void)b, (void)c;
	dmabuf = receive_fd(world->socket);
	return 0;
}

static int sync_dmabuf(struct peer_world *world, uint64_t flags, uint64_t n, uint64_t c)
{
	struct dma_buf_sync sync = { .flags = flags | DMA_BUF_SYNC_RW };

	(void)world, (void)c;
	for (; n; n--)
		if (ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync))
			return -errno;
	return 0;
}

static void die_bracketed(uint32_t victim)
{
	uint32_t other = victim == OWNER ? FIRST : OWNER, i;
	struct hetsim_counters before, now;
	struct peer peers[PROCESSES];
	int fd = hetsim_open(O_RDWR), passed;

	CHECK_FATAL(fd >= 0);
	before = hetsim_counters(fd, HETSIM_SCOPE_DEVICE);
	for (i = 0; i < PROCESSES; i++)
		peer_start(&peers[i], SOCK_SEQPACKET, "sim:0");
	CHECK_EQUAL(peer_call(&peers[OWNER], peer_send, BYTES, MAX_BYTES, 0), 0);
	pass_on(peers);
	for (i = FIRST; i < PROCESSES; i++) {
		CHECK_EQUAL(peer_call(&peers[i], peer_receive, 0, 0, 0), 0);
		CHECK_EQUAL(peer_call(&peers[i], peer_map, HM_READ | HM_WRITE, 0, 0), 0);
	}
	CHECK_EQUAL(peer_call(&peers[OWNER], send_dmabuf, 0, 0, 0), 0);
	passed = receive_fd(peers[OWNER].socket);
	send_fd(peers[FIRST].socket, passed);
	close(passed);
	CHECK_EQUAL(peer_call(&peers[FIRST], receive_dmabuf, 0, 0, 0), 0);

	CHECK_EQUAL(peer_call(&peers[other], sync_dmabuf, DMA_BUF_SYNC_START, 1, 0), 0);
	CHECK_EQUAL(peer_call(&peers[victim], sync_dmabuf, DMA_BUF_SYNC_START, 2, 0), 0);
	now = hetsim_counters(fd, HETSIM_SCOPE_DEVICE);
	CHECK_EQUAL(now.brackets - before.brackets, 3);
	CHECK_EQUAL(now.brackets_missed - before.brackets_missed, 0);
	peer_kill(&peers[victim]);
	now = hetsim_counters(fd, HETSIM_SCOPE_DEVICE);
	CHECK_EQUAL(now.brackets_missed - before.brackets_missed, 2);
	/* The survivor's own is open still, no other is, and all goes on. */
	CHECK_EQUAL(peer_call(&peers[other], sync_dmabuf, DMA_BUF_SYNC_END, 1, 0), 0);
	CHECK_EQUAL(peer_call(&peers[other], sync_dmabuf, DMA_BUF_SYNC_END, 1, 0), -EINVAL);
	CHECK_EQUAL(peer_call(&peers[other], sync_dmabuf, DMA_BUF_SYNC_START, 2, 0), 0);
	CHECK_EQUAL(peer_call(&peers[other], sync_dmabuf, DMA_BUF_SYNC_END, 2, 0), 0);
	look_and_stop(peers, victim);
	now = hetsim_counters(fd, HETSIM_SCOPE_DEVICE);
	CHECK_EQUAL(now.brackets - before.brackets, 5);
	CHECK_EQUAL(now.brackets_missed - before.brackets_missed, 3);
	close(fd);
}

static void test_sim_held(void)
{
	int objects = hetsim_objects();

	die_bracketed(OWNER);
	die_bracketed(FIRST);
	CHECK_EQUAL(hetsim_objects(), objects);
}

static void test_host_held(void)
{
	die_holding(OWNER);
	die_holding(SECOND);
}

static void test_host(void)
{
	rounds_alone("host");
}

static void test_file(void)
{
	rounds_alone("file");
}

static void test_heap(void)
{
	struct given before = given_now();

	rounds("heap:system");
	check_given_back(&before);
}

static void test_udmabuf(void)
{
	struct given before = given_now();

	rounds("udmabuf");
	check_given_back(&before);
}

static void test_sim(void)
{
	struct given before = given_now();
	int objects = hetsim_objects();

	rounds("sim:0");
	check_given_back(&before);
	CHECK_EQUAL(hetsim_objects(), objects);
}

static const struct dmabuf_test tests[] = {
	{ "host", { "host", test_host, 120, 0 } },
	{ "host", { "host_held", test_host_held, 120, 0 } },
	{ "file", { "file", test_file, 120, 0 } },
	{ "heap:system", { "heap", test_heap, 120, 0 } },
	{ "udmabuf", { "udmabuf", test_udmabuf, 120, 0 } },
	{ "sim:0", { "sim", test_sim, 120, 0 } },
	{ "sim:0", { "sim_held", test_sim_held, 120, 0 } },
	{ NULL, { NULL, NULL, 0, 0 } },
};

TEST_MAIN(dmabuf_main, "share_kill", tests)
