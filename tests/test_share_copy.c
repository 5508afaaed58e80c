// SPDX-License-Identifier: MIT
/* Copies of a buffer that its owner resizes meanwhile; and what receiving takes. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control.h"
#include "peer.h"
#include "support.h"

#define PAGE 4096ull
#define SIZE (3 * PAGE)
#define MAX_SIZE (16 * PAGE)
#define LARGE MIB(16)

/* Cuts all but a page off and lets it grow again, in the midst of a copy. */
static void *cut_and_grow(void *argument)
{
	struct hm_buffer *buffer = argument;
	static uint64_t state = 1;
	/* At another point of the copy each time. */
	struct timespec delay = { 0, (long)(test_random(&state) % 4000000) };

	nanosleep(&delay, NULL);
	CHECK_OK(hm_buffer_resize(buffer, PAGE, 0));
	CHECK_OK(hm_buffer_resize(buffer, LARGE, 0));
	return NULL;
}

/* Are they all @first? */
static bool is_one_byte(const unsigned char *bytes, uint64_t length, unsigned char first)
{
	return bytes[0] == first && !memcmp(bytes, bytes + 1, length - 1);
}

/* A copy has bytes of before a resize of @buffer, or of after it: never some of either. */
static void copy_whole(struct hm_buffer *buffer, struct hm_map *seen)
{
	unsigned char *copy = malloc(LARGE);
	int r, i, whole = 0;
	pthread_t thread;
	struct hm_map *map;

	CHECK_FATAL(copy != NULL);
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_OK_FATAL(hm_handler_install(0));
	for (i = 0; i < 20; i++) {
		memset(hm_map_address(map), 0x5a, LARGE);
		memset(copy, 1, LARGE);
		CHECK_FATAL(!pthread_create(&thread, NULL, cut_and_grow, buffer));
		r = hm_copy_out(copy, hm_map_address(seen ? seen : map), LARGE, NULL);
		CHECK(!r || r == -ERANGE || r == -EAGAIN);
		if (!r) {
			whole++;
			CHECK(is_one_byte(copy, PAGE, 0x5a));
			CHECK(is_one_byte(copy + PAGE, LARGE - PAGE, 0) ||
			      is_one_byte(copy + PAGE, LARGE - PAGE, 0x5a));
		}
		pthread_join(thread, NULL);
	}
	CHECK(whole > 0);
	CHECK_OK(hm_handler_remove());
	hm_map_unref(map);
	free(copy);
}

static void copied_whole(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LARGE };
	struct hm_buffer *buffer, *received;
	struct hm_device *device;
	struct hm_map *seen;
	int pair[2];

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(buffer, pair[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(device, pair[1], NULL, &received));
	CHECK_OK_FATAL(hm_map_create(received, NULL, &seen));
	copy_whole(buffer, seen);
	close(pair[0]);
	close(pair[1]);
	hm_map_unref(seen);
	hm_buffer_unref(received);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

/* The same where it is this process's own. */
static void copied_whole_own(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LARGE };
	const char *const devices[] = { "host", "soft:0" };
	struct hm_device *device;
	struct hm_buffer *buffer;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		CHECK_OK_FATAL(hm_device_open(devices[i], &device));
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
		copy_whole(buffer, NULL);
		hm_buffer_unref(buffer);
		hm_device_unref(device);
	}
}

static int descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int n = 0;

	while (folder && readdir(folder))
		n++;
	if (folder)
		closedir(folder);
	return n;
}

/* Of many buffers each has a descriptor, and what else came with them is closed. */
static void many_received(void)
{
	enum { MANY = 200 };
	struct hm_buffer *buffers[MANY];
	struct hm_device *device;
	struct peer peer;
	int i, before;

	peer_start(&peer, SOCK_STREAM, "host");
	CHECK_OK_FATAL(hm_device_open("host", &device));
	before = descriptors();
	for (i = 0; i < MANY; i++) {
		CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
		CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffers[i]));
	}
	CHECK(descriptors() - before < MANY + 2 * 64 + 8);
	/* Of an owner who is there his page stays, for the next one. */
	peer_kill(&peer);
	CHECK(buffer_info(buffers[0]).sharing & HM_SHARING_OWNER_GONE);
	for (i = 0; i < MANY; i++)
		hm_buffer_unref(buffers[i]);
	CHECK(descriptors() <= before);
	hm_device_unref(device);
}

/* As a resize of it by its owner begins, and ends. */
static int resize_begins(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)a, (void)b, (void)c;
	control_resizing(world->buffer->share);
	return 0;
}

static int resize_ends(struct peer_world *world, uint64_t delay_ms, uint64_t b, uint64_t c)
{
	struct timespec delay = { 0, (long)delay_ms * 1000000 };

	(void)b, (void)c;
	nanosleep(&delay, NULL);
	control_publish(world->buffer->share, SIZE);
	return 0;
}

/* Bytes go one after the other in a resize: a copy waits for its end, or its owner's. */
static void copied_behind_a_resize(void)
{
	struct hm_buffer *buffer;
	struct hm_device *device;
	unsigned char byte = 1;
	struct hm_map *map;
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_EQUAL(peer_call(&peer, resize_begins, 0, 0, 0), 0);
	CHECK_ERROR(-EAGAIN, hm_copy_out(&byte, hm_map_address(map), 1, NULL));
	CHECK(strstr(hm_errmsg(), "being resized") != NULL);
	CHECK_ERROR(-EAGAIN, hm_copy_in(hm_map_address(map), &byte, 1, NULL));

	peer_begin(&peer, resize_ends, 100, 0, 0);
	CHECK_OK(hm_copy_in(hm_map_address(map), &byte, 1, NULL));
	CHECK_EQUAL(peer_end(&peer), 0);

	CHECK_EQUAL(peer_call(&peer, resize_begins, 0, 0, 0), 0);
	peer_kill(&peer);
	CHECK_OK(hm_copy_out(&byte, hm_map_address(map), 1, NULL));
	CHECK_OK(hm_handler_remove());
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

static const struct test tests[] = {
	{ .name = "copied_whole", .run = copied_whole, .seconds = 60 },
	{ .name = "copied_whole_own", .run = copied_whole_own, .seconds = 60 },
	{ .name = "many_received", .run = many_received },
	{ .name = "copied_behind_a_resize", .run = copied_behind_a_resize },
	{ .name = NULL },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "share_copy", tests);
}
