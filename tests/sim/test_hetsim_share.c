// SPDX-License-Identifier: MIT
/* hetsim: a buffer in two processes, over its dma-buf. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/peer.h"
#include "share/share.h"
#include "lib/rig.h"
#include "lib/support.h"

#define SIZE (16 * PAGE)
#define MAX_SIZE (256 * PAGE)

struct sides {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct peer peer;
};

static struct sides begin(uint32_t flags, uint32_t access)
{
	struct sides s = { 0 };

	peer_start(&s.peer, SOCK_STREAM, "sim:0");
	CHECK_OK_FATAL(hm_device_open("sim:0", &s.device));
	CHECK_OK_FATAL(hm_buffer_create(
		s.device, DESC(hm_buffer_desc, .size = SIZE, .max_size = MAX_SIZE), &s.buffer));
	CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &s.map));
	pattern_write(hm_map_address(s.map), 0, SIZE, 1);
	CHECK_OK_FATAL(hm_buffer_send(s.buffer, s.peer.socket, flags));
	CHECK_EQUAL(peer_call(&s.peer, peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_map, access, 0, 0), 0);
	return s;
}

static void end(struct sides *s)
{
	peer_stop(&s->peer);
	hm_map_unref(s->map);
	hm_buffer_unref(s->buffer);
	hm_device_unref(s->device);
}

AUTO_END(sides, end)

static void same_bytes(void)
{
	AUTO(sides) s = begin(0, HM_READ | HM_WRITE);

	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_write, 0, SIZE, 2), 0);
	CHECK(pattern_holds(hm_map_address(s.map), 0, SIZE, 2));
}

/* The device does not let a receiver's memory shrink: no touch of it may fault. */
static void sizes(void)
{
	AUTO(sides) s = begin(0, HM_READ | HM_WRITE);

	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_resize, PAGE, 0, 0), -EBUSY);
	CHECK_OK(hm_buffer_resize(s.buffer, 40 * PAGE, 0));
	/* How far it may grow the device does not tell. */
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), SIZE);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_drop, 0, 0, 0), 0);
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
}

static int be_read_only(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	char *base = hm_map_address(world->map), path[64];
	int fd, again, bad = 0;

	(void)a, (void)b, (void)c;
	bad |= (hm_map_protect(world->map, 0, PAGE, HM_READ | HM_WRITE) != -EACCES) << 0;
	bad |= (mprotect(base, PAGE, PROT_READ | PROT_WRITE) == 0) << 1;
	bad |= (test_write_signal(base) == 0) << 2;
	if (hm_buffer_export(world->buffer, 0, &fd))
		return bad | 1 << 5;
	bad |= (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) << 3;
	/* A dma-buf has no open() to give a second file of other rights. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	bad |= (again >= 0) << 4;
	if (again >= 0)
		close(again);
	close(fd);
	return bad;
}

/* The descriptor as it came, before the library has made anything of it. */
static int raw_is_read_only(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct share_message message;
	int fds[SHARE_FDS], again, bad = 0;
	char path[64];

	(void)a, (void)b, (void)c;
	if (share_message_receive(world->socket, &message, fds))
		return -1;
	bad |= (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0) != MAP_FAILED)
	       << 0;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	again = open(path, O_RDWR | O_CLOEXEC);
	bad |= (again >= 0) << 1;
	if (again >= 0)
		close(again);
	close(fds[0]);
	close(fds[1]);
	return bad;
}

static void read_only(void)
{
	struct sides s = begin(HM_EXPORT_READ_ONLY, HM_READ);

	CHECK_EQUAL(peer_call(&s.peer, be_read_only, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_OK(hm_buffer_send(s.buffer, s.peer.socket, HM_EXPORT_READ_ONLY));
	CHECK_EQUAL(peer_call(&s.peer, raw_is_read_only, 0, 0, 0), 0);
	end(&s);
}

static void owner_killed(void)
{
	AUTO(hm_buffer) *buffer = NULL;
	AUTO(hm_device) *device = NULL;
	AUTO(hm_map) *map = NULL;
	struct peer peer;

	peer_start(&peer, SOCK_SEQPACKET, "sim:0");
	CHECK_OK_FATAL(hm_device_open("sim:0", &device));
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_write, 0, SIZE, 7), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	peer_kill(&peer);
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 7));
	pattern_write(hm_map_address(map), 0, SIZE, 8);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 8));
}

static const struct test tests[] = {
	{ .name = "same_bytes", .run = same_bytes },
	{ .name = "sizes", .run = sizes },
	{ .name = "read_only", .run = read_only },
	{ .name = "owner_killed", .run = owner_killed },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "hetsim_share", tests)
