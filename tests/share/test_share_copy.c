// SPDX-License-Identifier: MIT
/* Copies of a buffer that its owner resizes meanwhile; and costs of receiving. */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "share/control.h"
#include "lib/peer.h"
#include "lib/support.h"

#define SIZE (3 * PAGE)
#define MAX_SIZE (16 * PAGE)
#define LARGE (test_is_slow() ? MIB(4) : MIB(16))

struct cut {
	struct hm_buffer *buffer;
	uint64_t size; /* size in between */
	uint64_t most_ns;
};

/* Cuts bytes off and lets them grow again, in the midst of a copy: at another point each time. */
static void *cut_and_grow(void *argument)
{
	static uint64_t state = 1;
	const struct cut *cut = argument;
	struct timespec delay = { 0, (long)(test_random(&state) % cut->most_ns) };

	nanosleep(&delay, NULL);
	CHECK_OK(hm_buffer_resize(cut->buffer, cut->size, 0));
	CHECK_OK(hm_buffer_resize(cut->buffer, LARGE, 0));
	return NULL;
}

/* Are they all @first? */
static bool is_one_byte(const unsigned char *bytes, uint64_t length, unsigned char first)
{
	return bytes[0] == first && !memcmp(bytes, bytes + 1, length - 1);
}

/* Twice the time of an undisturbed copy, but less than a second. */
static uint64_t time_copy(int (*copy)(void *to, const void *from), void *to, const void *from)
{
	uint64_t start = time_now_ns();

	CHECK_OK(copy(to, from));
	return min_u64(2 * (time_now_ns() - start) + 1, 999999999);
}

static int copy_out(void *to, const void *from)
{
	return hm_copy_out(to, from, LARGE, NULL);
}

/* @to is in a map, too, and the one that is named. */
static int copy_in(void *to, const void *from)
{
	return hm_copy_in(to, from, LARGE, NULL);
}

/*
 * A copy into @to has bytes of before a resize of @buffer, or of after it: never some of
 * either.
 */
static void copy_whole(struct hm_buffer *buffer, struct hm_map *seen, unsigned char *to,
		       int (*copy)(void *to, const void *from))
{
	/* In whole pages, and in the midst of one, which no fault tells of. */
	const uint64_t sizes[] = { PAGE, PAGE + 100, LARGE - 100 };
	struct cut cut = { .buffer = buffer };
	pthread_t thread;
	const void *from;
	int r, i;

	AUTO(hm_map) *map = rig_map(buffer, NULL);
	from = hm_map_address(seen ? seen : map);
	memset(hm_map_address(map), 0x5a, LARGE);
	cut.most_ns = time_copy(copy, to, from);
	for (i = 0; i < 30; i++) {
		memset(hm_map_address(map), 0x5a, LARGE);
		memset(to, 1, LARGE);
		cut.size = sizes[i % ARRAY_SIZE(sizes)];
		CHECK_FATAL(!pthread_create(&thread, NULL, cut_and_grow, &cut));
		r = copy(to, from);
		CHECK(!r || r == -ERANGE || r == -EAGAIN);
		if (!r) {
			CHECK(is_one_byte(to, cut.size, 0x5a));
			CHECK(is_one_byte(to + cut.size, LARGE - cut.size, 0) ||
			      is_one_byte(to + cut.size, LARGE - cut.size, 0x5a));
		}
		pthread_join(thread, NULL);
	}
	CHECK_OK(copy(to, from));
}

static void copied_whole(void)
{
	AUTO_FREE unsigned char *to = malloc(LARGE);
	int pair[2];
	AUTO(hm_buffer) *received = NULL;

	CHECK_FATAL(to != NULL);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = LARGE));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(buffer, pair[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(device, pair[1], NULL, &received));
	AUTO(hm_map) *seen = rig_map(received, NULL);
	copy_whole(buffer, seen, to, copy_out);
	close(pair[0]);
	close(pair[1]);
}

/* The same where it is this process's own. */
static void copied_whole_own(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LARGE };
	const char *const devices[] = { "host", "soft:0" };
	size_t i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		AUTO(hm_device) *device = rig_device(devices[i]);
		AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
		AUTO(hm_buffer) *other = rig_buffer(device, &desc);
		AUTO(hm_map) *to = rig_map(other, NULL);
		copy_whole(buffer, NULL, hm_map_address(to), copy_out);
		copy_whole(buffer, NULL, hm_map_address(to), copy_in);
	}
}

static void *cut_a_bit(void *argument)
{
	const struct cut *cut = argument;
	static uint64_t state = 2;
	struct timespec delay = { 0, (long)(test_random(&state) % cut->most_ns) };

	nanosleep(&delay, NULL);
	CHECK_OK(hm_buffer_resize(cut->buffer, cut->size, 0));
	return NULL;
}

/* Bytes that a copy stores behind a new end, in its page, do not show after a later growth. */
static void copied_behind_the_end(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = LARGE };
	const uint32_t flags[] = { 0, HM_BUFFER_PRIVATE };
	AUTO_FREE unsigned char *from = malloc(LARGE);
	struct cut cut;
	pthread_t thread;
	size_t i, j;
	char *to;
	int r;

	CHECK_FATAL(from != NULL);
	memset(from, 0x77, LARGE);
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_device) *device = rig_device("host");
	for (i = 0; i < ARRAY_SIZE(flags); i++) {
		desc.flags = flags[i];
		cut.size = LARGE - 100;
		CHECK_OK_FATAL(hm_buffer_create(device, &desc, &cut.buffer));
		AUTO(hm_map) *map = rig_map(cut.buffer, NULL);
		to = hm_map_address(map);
		cut.most_ns = time_copy(copy_in, to, from);
		for (j = 0; j < 20; j++) {
			CHECK_FATAL(!pthread_create(&thread, NULL, cut_a_bit, &cut));
			r = hm_copy_in(to, from, LARGE, NULL);
			CHECK(!r || r == -ERANGE);
			pthread_join(thread, NULL);
			CHECK_OK(hm_buffer_resize(cut.buffer, LARGE, 0));
			CHECK(is_zero(to, LARGE - 100, LARGE));
		}
		hm_buffer_unref(cut.buffer);
	}
}

/* Bytes that a cut leaves are copied beside it; of those that it takes its end is waited for. */
static void beside_a_cut(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault), .cause = 77 };
	char bytes[2 * PAGE];
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(rig) r = rig_make("host", DESC(hm_buffer_desc, .size = 4 * PAGE));

	/* As resize_cut_begin() does. */
	r.buffer->cut_to = PAGE;
	r.buffer->cuts++;
	CHECK_OK(hm_copy_out(bytes, r.bytes, PAGE, &fault));
	CHECK_OK(hm_copy_in(r.bytes, bytes, PAGE, &fault));
	CHECK_ERROR(-EAGAIN, hm_copy_out(bytes, r.bytes, PAGE + 1, &fault));
	CHECK_ERROR(-EAGAIN, hm_copy_in(r.bytes + 3 * PAGE, bytes, 1, &fault));
	CHECK_EQUAL(fault.cause, 77);
	r.buffer->cuts_over = r.buffer->cuts;
	CHECK_OK(hm_copy_out(bytes, r.bytes, 2 * PAGE, &fault));
}

/* A map of a part keeps its length when the owner cuts into it: it has fewer bytes all the same. */
static void part_cut_off(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	AUTO(hm_buffer) *buffer = NULL;
	unsigned char bytes[2 * PAGE];
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	AUTO(hm_map) *part = rig_map(buffer, DESC(hm_map_desc, .access = HM_READ,
						  .offset = PAGE, .length = 2 * PAGE));
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_OK(hm_copy_out(bytes, hm_map_address(part), 2 * PAGE, NULL));
	CHECK_EQUAL(peer_call(&peer, peer_resize, 2 * PAGE, 0, 0), 0);
	CHECK_OK(hm_copy_out(bytes, hm_map_address(part), PAGE, NULL));
	CHECK_ERROR(-ERANGE, hm_copy_out(bytes, hm_map_address(part), 2 * PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_END);
	CHECK_EQUAL(fault.offset, PAGE);
	peer_kill(&peer);
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

/* Each of many buffers has a descriptor, and the others that came with it are closed. */
static void many_received(void)
{
	enum { MANY = 200 };
	struct hm_buffer *buffers[MANY];
	struct peer peer;
	int i, before;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	before = descriptors();
	for (i = 0; i < MANY; i++) {
		CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
		CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffers[i]));
	}
	CHECK(descriptors() - before < MANY + 2 * 64 + 8);
	/* The page of a living owner stays, for the next buffer. */
	peer_kill(&peer);
	CHECK(buffer_info(buffers[0]).sharing & HM_SHARING_OWNER_GONE);
	for (i = 0; i < MANY; i++)
		hm_buffer_unref(buffers[i]);
	CHECK(descriptors() <= before);
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
	AUTO(hm_buffer) *buffer = NULL;
	unsigned char byte = 1;
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_EQUAL(peer_call(&peer, resize_begins, 0, 0, 0), 0);
	CHECK_ERROR(-EAGAIN, hm_copy_out(&byte, hm_map_address(map), 1, NULL));
	CHECK(strstr(hm_errmsg(), "being cut off") != NULL);
	CHECK_ERROR(-EAGAIN, hm_copy_in(hm_map_address(map), &byte, 1, NULL));

	peer_begin(&peer, resize_ends, 20, 0, 0);
	CHECK_OK(hm_copy_in(hm_map_address(map), &byte, 1, NULL));
	CHECK_EQUAL(peer_end(&peer), 0);

	CHECK_EQUAL(peer_call(&peer, resize_begins, 0, 0, 0), 0);
	peer_kill(&peer);
	CHECK_OK(hm_copy_out(&byte, hm_map_address(map), 1, NULL));
}

/* A receiver stores by its old map, without a call since the cut: no byte comes back. */
static void stored_into_what_was_cut(void)
{
	int pair[2];
	AUTO(rig) r =
		rig_make("host", DESC(hm_buffer_desc, .size = MAX_SIZE, .max_size = MAX_SIZE));
	AUTO(hm_buffer) *received = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(r.buffer, pair[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(r.device, pair[1], NULL, &received));
	AUTO(hm_map) *seen = rig_map(received, NULL);
	pattern_write(hm_map_address(r.map), 0, SIZE + 5, 1);
	CHECK_OK(hm_buffer_resize(r.buffer, SIZE + 5, 0));
	memset((char *)hm_map_address(seen) + SIZE + 5, 0x55, MAX_SIZE - SIZE - 5);
	CHECK_OK(hm_buffer_resize(r.buffer, MAX_SIZE - PAGE, 0));
	CHECK(pattern_holds(hm_map_address(r.map), 0, SIZE + 5, 1));
	CHECK(is_zero(hm_map_address(r.map), SIZE + 5, MAX_SIZE - PAGE));
	CHECK_OK(hm_buffer_resize(r.buffer, MAX_SIZE, 0));
	CHECK(is_zero(hm_map_address(r.map), SIZE + 5, MAX_SIZE));
	CHECK(is_zero(hm_map_address(seen), SIZE + 5, MAX_SIZE));
	close(pair[0]);
	close(pair[1]);
}

static const struct test tests[] = {
	{ .name = "copied_whole", .run = copied_whole, .seconds = 60 },
	{ .name = "copied_whole_own", .run = copied_whole_own, .seconds = 60 },
	{ .name = "copied_behind_the_end", .run = copied_behind_the_end, .seconds = 60 },
	{ .name = "beside_a_cut", .run = beside_a_cut },
	{ .name = "part_cut_off", .run = part_cut_off },
	{ .name = "stored_into_what_was_cut", .run = stored_into_what_was_cut },
	{ .name = "many_received", .run = many_received },
	{ .name = "copied_behind_a_resize", .run = copied_behind_a_resize },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share_copy", tests)
