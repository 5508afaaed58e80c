// SPDX-License-Identifier: MIT
/* Buffers in two processes at once: hm_buffer_send and hm_buffer_receive. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/peer.h"
#include "lib/support.h"

#define SIZE (16 * PAGE + 40)
#define MAX_SIZE (256 * PAGE)

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* This process's side, and a peer that has opened the same device. */
struct sides {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct peer peer;
};

static struct sides begin_on(int type, const char *device, uint64_t size)
{
	struct sides s = { 0 };

	peer_start(&s.peer, type, device);
	CHECK_OK_FATAL(hm_device_open(device, &s.device));
	s.buffer =
		rig_buffer(s.device, DESC(hm_buffer_desc, .size = size, .max_size = MAX_SIZE));
	CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &s.map));
	pattern_write(hm_map_address(s.map), 0, size, 1);
	return s;
}

static struct sides begin(void)
{
	return begin_on(SOCK_STREAM, "host", SIZE);
}

/* Sent, received and mapped there. */
static void share(struct sides *s, uint32_t flags, uint32_t access)
{
	CHECK_OK_FATAL(hm_buffer_send(s->buffer, s->peer.socket, flags));
	CHECK_EQUAL(peer_call(&s->peer, peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s->peer, peer_map, access, 0, 0), 0);
}

static void drop(struct sides *s)
{
	hm_map_unref(s->map);
	hm_buffer_unref(s->buffer);
	hm_device_unref(s->device);
}

static void end(struct sides *s)
{
	peer_stop(&s->peer);
	drop(s);
}

AUTO_END(sides, end)

static void same_bytes_over(int type)
{
	AUTO(sides) s = begin_on(type, "host", SIZE);

	CHECK_EQUAL(buffer_info(s.buffer).sharing, 0);
	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_EQUAL(buffer_info(s.buffer).sharing, HM_SHARING_SENT);
	CHECK_EQUAL(buffer_info(s.buffer).exported, 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_sharing, 0, 0, 0), HM_SHARING_RECEIVED);
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), SIZE);
	CHECK_EQUAL(peer_call(&s.peer, peer_length, 0, 0, 0), SIZE);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_write, 0, SIZE, 2), 0);
	CHECK(pattern_holds(hm_map_address(s.map), 0, SIZE, 2));
	pattern_write(hm_map_address(s.map), 0, SIZE, 3);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 3), 1);
}

static void same_bytes(void)
{
	same_bytes_over(SOCK_STREAM);
	same_bytes_over(SOCK_SEQPACKET);
}

/* Each holder of the buffer sees growth inside max_size, and a shrink. */
static void growth(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_OK(hm_buffer_resize(s.buffer, 100 * PAGE, 0));
	pattern_write(hm_map_address(s.map), 0, 100 * PAGE, 4);
	CHECK_EQUAL(peer_call(&s.peer, peer_length, 0, 0, 0), SIZE); /* not asked yet */
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 100 * PAGE);
	CHECK_EQUAL(peer_call(&s.peer, peer_length, 0, 0, 0), 100 * PAGE);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, 100 * PAGE, 4), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_write, 0, 100 * PAGE, 5), 0);
	CHECK(pattern_holds(hm_map_address(s.map), 0, 100 * PAGE, 5));

	CHECK_OK(hm_buffer_resize(s.buffer, 3 * PAGE, 0));
	/* Before it is told, and after: the bytes are zero, and no signal comes. */
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, 3 * PAGE, 5), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 4 * PAGE, 90 * PAGE, 5), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 3 * PAGE);
	CHECK_EQUAL(peer_call(&s.peer, peer_length, 0, 0, 0), 3 * PAGE);
	CHECK_OK(hm_buffer_resize(s.buffer, MAX_SIZE, 0));
	CHECK(is_zero(hm_map_address(s.map), 3 * PAGE, MAX_SIZE));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), MAX_SIZE);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, 3 * PAGE, 5), 1);
}

/* Cut off and grown again between two looks: the size is the same, the bytes are not. */
static void resizes_are_counted(void)
{
	struct sides s = begin();

	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	CHECK_EQUAL(buffer_info(s.buffer).owner_resizes, 0); /* no process has it yet */
	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_EQUAL(peer_call(&s.peer, peer_resizes, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 2 * SIZE);
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 2 * SIZE);
	CHECK_EQUAL(peer_call(&s.peer, peer_resizes, 0, 0, 0), 2);
	CHECK_EQUAL(buffer_info(s.buffer).owner_resizes, 2);
	/* The slot may be another buffer's by now: as it was told last. */
	hm_map_unref(s.map);
	hm_buffer_unref(s.buffer);
	s.map = NULL;
	s.buffer = NULL;
	CHECK_EQUAL(peer_call(&s.peer, peer_resizes, 0, 0, 0), 2);
	end(&s);
}

static int map_part(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	struct hm_map *part;
	int r;

	(void)a, (void)b, (void)c;
	r = hm_map_create(world->buffer,
			  DESC(hm_map_desc, .access = HM_READ, .offset = 8 * PAGE,
			       .length = 4 * PAGE),
			  &part);
	if (r)
		return r;
	hm_map_unref(world->map);
	world->map = part;
	return 0;
}

static int part_reads(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)a, (void)b, (void)c;
	return test_read_signal(hm_map_address(world->map)) ?
		       -EFAULT :
		       is_zero(hm_map_address(world->map), 0, 4 * PAGE);
}

/* A map of a part stays when the owner cuts its bytes off: zeros are there. */
static void part_cut_off(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ);
	CHECK_EQUAL(peer_call(&s.peer, map_part, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, part_reads, 0, 0, 0), 0);
	CHECK_OK(hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), PAGE);
	CHECK_EQUAL(peer_call(&s.peer, peer_length, 0, 0, 0), 4 * PAGE);
	CHECK_EQUAL(peer_call(&s.peer, part_reads, 0, 0, 0), 1);
}

/* Calls that only the owner, or no process, may make on a shared buffer. */
static void refused(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, 2 * SIZE, HM_GROW_REPLACE));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, 2 * SIZE, HM_GROW_APPEND));
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, 2 * MAX_SIZE, HM_MAY_MOVE));
	CHECK_EQUAL(peer_call(&s.peer, peer_resize, 2 * SIZE, 0, 0), -EBUSY);
	CHECK_EQUAL(peer_call(&s.peer, peer_resize, PAGE, 0, 0), -EBUSY);
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), SIZE);
}

static int be_read_only(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	char *base = hm_map_address(world->map), path[64];
	struct hm_map *further;
	int fd, again, bad = 0;

	(void)a, (void)b, (void)c;
	bad |= (hm_map_protect(world->map, 0, PAGE, HM_READ | HM_WRITE) != -EACCES) << 0;
	bad |= (hm_map_create(world->buffer, DESC(hm_map_desc, .access = HM_READ | HM_WRITE),
			      &further) != -EACCES)
	       << 1;
	/* Without the library, too. */
	bad |= (mprotect(base, PAGE, PROT_READ | PROT_WRITE) == 0) << 2;
	bad |= (test_write_signal(base) == 0) << 3;
	if (hm_buffer_export(world->buffer, 0, &fd))
		return -1;
	bad |= (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) << 4;
	bad |= (pwrite(fd, "x", 1, 0) == 1) << 5;
	bad |= (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0) << 6;
	bad |= (ftruncate(fd, 0) == 0) << 7;
	/* A link of /proc opens the file anew, with rights of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	if (again >= 0) {
		bad |= (mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) !=
			MAP_FAILED)
		       << 8;
		bad |= (pwrite(again, "x", 1, 0) == 1) << 9;
		close(again);
	}
	close(fd);
	return bad;
}

static void read_only(void)
{
	AUTO(sides) s = begin();

	share(&s, HM_EXPORT_READ_ONLY, HM_READ);
	CHECK_EQUAL(peer_call(&s.peer, be_read_only, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	/* Its owner writes as before, by the map that he had. */
	pattern_write(hm_map_address(s.map), 0, SIZE, 6);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 6), 1);
	CHECK_OK(hm_buffer_resize(s.buffer, 30 * PAGE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 30 * PAGE);
	CHECK_ERROR(-EPERM, hm_buffer_resize(s.buffer, PAGE, 0));
	/* Each later receiver has it read-only, however it is sent. */
	CHECK_EQUAL(peer_call(&s.peer, peer_drop, 0, 0, 0), 0);
	share(&s, 0, HM_READ);
	CHECK_EQUAL(peer_call(&s.peer, be_read_only, 0, 0, 0), 0);
}

static int control_is_read_only(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	char path[300], link[64];
	struct dirent *entry;
	int fd, n = 0, bad = 0;
	DIR *dir = opendir("/proc/self/fd");
	ssize_t length;

	(void)world, (void)a, (void)b, (void)c;
	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		if (length <= 0)
			continue;
		link[length] = '\0';
		if (!strstr(link, "hetmap:control"))
			continue;
		n++;
		fd = open(path, O_RDWR | O_CLOEXEC);
		bad |= fd >= 0 && mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) !=
					  MAP_FAILED;
		bad |= fd >= 0 && pwrite(fd, "x", 1, 0) == 1;
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
	return n && !bad;
}

/* A receiver can't announce another size, although it may write the bytes. */
static void control_page(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_EQUAL(peer_call(&s.peer, control_is_read_only, 0, 0, 0), 1);
}

/* The receiver asks for it: the buffer stays unsealed for others. */
static void read_only_by_choice(void)
{
	AUTO(sides) s = begin();

	CHECK_OK_FATAL(hm_buffer_send(s.buffer, s.peer.socket, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_receive, HM_BUFFER_READ_ONLY, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_map, HM_READ | HM_WRITE, 0, 0), -EACCES);
	CHECK_EQUAL(peer_call(&s.peer, peer_map, HM_READ, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
}

/* The bytes stay, and the receiver learns of the owner's end. */
static void owner_ends(bool killed)
{
	AUTO(hm_buffer) *buffer = NULL;
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_write, 0, SIZE, 7), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, PAGE, 0));
	if (killed)
		peer_kill(&peer);
	else
		CHECK_EQUAL(peer_call(&peer, peer_drop, 0, 0, 0), 0);
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_resize(buffer, PAGE, 0));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 7));
	pattern_write(hm_map_address(map), 0, SIZE, 8);
	if (!killed)
		peer_stop(&peer);
}

static void owner_killed(void)
{
	owner_ends(true);
}

static void owner_lets_go(void)
{
	owner_ends(false);
}

static void receiver_killed(void)
{
	struct sides s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	peer_kill(&s.peer);
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	pattern_write(hm_map_address(s.map), 0, 2 * SIZE, 2);
	CHECK(pattern_holds(hm_map_address(s.map), 0, 2 * SIZE, 2));
	drop(&s);
}

/* A receiver sends the buffer on: the owner stays the same. */
static int send_on(struct peer_world *world, uint64_t flags, uint64_t b, uint64_t c)
{
	(void)b, (void)c;
	return hm_buffer_send(world->buffer, world->socket, (uint32_t)flags);
}

static void passed_on(void)
{
	struct hm_buffer *back;
	struct hm_map *map;
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_EQUAL(peer_call(&s.peer, send_on, 0, 0, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(s.device, s.peer.socket, NULL, &back));
	CHECK_OK_FATAL(hm_map_create(back, NULL, &map));
	CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 1));
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	CHECK_EQUAL(buffer_info(back).size, 2 * SIZE);
	CHECK_EQUAL(hm_map_length(map), 2 * SIZE);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(back, SIZE, 0));
	hm_map_unref(map);
	hm_buffer_unref(back);
	CHECK_OK(hm_buffer_resize(s.buffer, SIZE, 0));
}

/* A thousand sends without a receiver: messages in a socket are not ours. */
static void nobody_receives(void)
{
	struct test_holding before, after;
	unsigned int i, sent = 0, refused_ones = 0;
	int pair[2], r;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE));

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	CHECK_OK(hm_buffer_send(buffer, pair[0], 0)); /* makes the control page */
	before = test_holding_now();
	for (i = 0; i < 1000; i++) {
		r = hm_buffer_send(buffer, pair[0], 0);
		sent += !r;
		refused_ones += r == -EAGAIN || r == -ETOOMANYREFS;
	}
	CHECK_EQUAL(sent + refused_ones, 1000);
	CHECK(sent > 0 && refused_ones > 0);
	after = test_holding_now();
	CHECK_EQUAL(after.fds, before.fds);
	CHECK_EQUAL(after.mapped, before.mapped);
	close(pair[0]);
	close(pair[1]);
}

static int count_hetmap_fds(bool inherited)
{
	char path[300], link[64];
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");
	ssize_t length;
	int n = 0;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		length = readlink(path, link, sizeof(link) - 1);
		if (length <= 0)
			continue;
		link[length] = '\0';
		n += strstr(link, "hetmap:") &&
		     (!inherited || !(fcntl(atoi(entry->d_name), F_GETFD) & FD_CLOEXEC));
	}
	if (dir)
		closedir(dir);
	return n;
}

static int exec_finds(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	int status;

	(void)world, (void)a, (void)b, (void)c;
	if (count_hetmap_fds(false) < 2 || count_hetmap_fds(true))
		return -1;
	status = system("ls -l /proc/self/fd | grep -q hetmap:");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

/* No descriptor goes through exec(), neither here nor there. */
static void exec(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ);
	CHECK_EQUAL(count_hetmap_fds(true), 0);
	CHECK_EQUAL(peer_call(&s.peer, exec_finds, 0, 0, 0), 1);
}

static void child_uses(void *user)
{
	struct sides *s = user;
	struct hm_buffer_info info = { .struct_size = sizeof(info) };

	CHECK_ERROR(-EOWNERDEAD, hm_buffer_send(s->buffer, s->peer.socket, 0));
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_query(s->buffer, &info));
	CHECK(pattern_holds(hm_map_address(s->map), 0, SIZE, 1));
	hm_map_unref(s->map);
	hm_buffer_unref(s->buffer);
}

/* A child of the owner is not the owner, and ends nothing of his. */
static void fork_child(void)
{
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ);
	CHECK_EQUAL(test_fork(child_uses, &s), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_sharing, 0, 0, 0), HM_SHARING_RECEIVED);
	CHECK_OK(hm_buffer_resize(s.buffer, 2 * SIZE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 2 * SIZE);
}

#define ROUNDS 200u

static int play(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	_Atomic uint32_t *ball = hm_map_address(world->map);
	uint32_t i;

	(void)a, (void)b, (void)c;
	for (i = 0; i < ROUNDS; i++) {
		while (atomic_load(ball) != 2 * i + 1)
			sched_yield();
		atomic_store(ball, 2 * i + 2);
	}
	return 0;
}

/* One word, there and back: no call of ours is between them. */
static void ping_pong(void)
{
	_Atomic uint32_t *ball;
	uint32_t i;
	AUTO(sides) s = begin();

	share(&s, 0, HM_READ | HM_WRITE);
	ball = hm_map_address(s.map);
	atomic_store(ball, 0);
	peer_begin(&s.peer, play, 0, 0, 0);
	for (i = 0; i < ROUNDS; i++) {
		atomic_store(ball, 2 * i + 1);
		while (atomic_load(ball) != 2 * i + 2)
			sched_yield();
	}
	CHECK_EQUAL(peer_end(&s.peer), 0);
	CHECK_EQUAL(atomic_load(ball), 2 * ROUNDS);
}

/* A file: the bytes, its growth, and the offset where the buffer begins. */
static void file(void)
{
	struct sides s;
	int fd;

	peer_start(&s.peer, SOCK_SEQPACKET, "file");
	CHECK_OK_FATAL(hm_device_open("file", &s.device));
	fd = scratch_file(2 * PAGE + SIZE);
	s.buffer = rig_file(s.device, NULL, fd,
			    DESC(hm_buffer_desc, .offset = 2 * PAGE, .max_size = MAX_SIZE));
	close(fd);
	CHECK_OK_FATAL(hm_map_create(s.buffer, NULL, &s.map));
	pattern_write(hm_map_address(s.map), 0, SIZE, 1);
	share(&s, 0, HM_READ | HM_WRITE);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, SIZE, 1), 1);
	CHECK_EQUAL(peer_call(&s.peer, peer_write, 0, SIZE, 2), 0);
	CHECK(pattern_holds(hm_map_address(s.map), 0, SIZE, 2));
	CHECK_OK(hm_buffer_resize(s.buffer, 40 * PAGE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_size, 0, 0, 0), 40 * PAGE);
	pattern_write(hm_map_address(s.map), 0, 40 * PAGE, 3);
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, 40 * PAGE, 3), 1);
	/* A touch of the cut pages would kill the peer, which has not been asked. */
	CHECK_ERROR(-EBUSY, hm_buffer_resize(s.buffer, PAGE, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_holds, 0, 40 * PAGE, 3), 1);
	end(&s);
}

static void file_read_only(void)
{
	struct sides s;
	int fd;

	peer_start(&s.peer, SOCK_STREAM, "file");
	CHECK_OK_FATAL(hm_device_open("file", &s.device));
	fd = scratch_file(SIZE);
	s.buffer = rig_file(s.device, NULL, fd,
			    DESC(hm_buffer_desc, .flags = HM_BUFFER_READ_ONLY));
	CHECK_EQUAL(pwrite(fd, "abc", 3, 100), 3);
	close(fd);
	s.map = NULL;
	CHECK_OK_FATAL(hm_buffer_send(s.buffer, s.peer.socket, HM_EXPORT_READ_ONLY));
	CHECK_EQUAL(peer_call(&s.peer, peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&s.peer, peer_map, HM_READ | HM_WRITE, 0, 0), -EACCES);
	CHECK_EQUAL(peer_call(&s.peer, peer_map, HM_READ, 0, 0), 0);
	end(&s);
}

/* Memory that its device may take away is not sent. */
static void soft(void)
{
	AUTO(sides) s = begin_on(SOCK_STREAM, "soft:0", SIZE);

	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_send(s.buffer, s.peer.socket, 0));
	CHECK_EQUAL(buffer_info(s.buffer).exported, 0);
	CHECK_EQUAL(buffer_info(s.buffer).sharing, 0);
}

static void bad_arguments(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct hm_buffer *untouched = (void *)0x10, *private;
	struct hm_device *files;
	int fds[2], pair[2], udp;
	AUTO(sides) s = begin();

	CHECK_ERROR(-EINVAL, hm_buffer_send(NULL, s.peer.socket, 0));
	CHECK_ERROR(-EINVAL, hm_buffer_send(s.buffer, s.peer.socket, 1u << 7));
	CHECK_ERROR(-EBADF, hm_buffer_send(s.buffer, -1, 0));
	CHECK_FATAL(!pipe2(fds, O_CLOEXEC));
	CHECK_ERROR(-ENOTSOCK, hm_buffer_send(s.buffer, fds[1], 0));
	CHECK_ERROR(-ENOTSOCK, hm_buffer_receive(s.device, fds[0], NULL, &untouched));
	udp = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK_ERROR(-EPROTOTYPE, hm_buffer_send(s.buffer, udp, 0));
	CHECK_ERROR(-EPROTOTYPE, hm_buffer_receive(s.device, udp, NULL, &untouched));
	CHECK_EQUAL(buffer_info(s.buffer).exported, 0);
	CHECK_ERROR(-EINVAL, hm_buffer_receive(NULL, s.peer.socket, NULL, &untouched));
	CHECK_ERROR(-EINVAL, hm_buffer_receive(s.device, s.peer.socket, NULL, NULL));
	CHECK_ERROR(-EINVAL, hm_buffer_receive(s.device, s.peer.socket, &desc, &untouched));
	desc.flags = HM_BUFFER_PRIVATE;
	CHECK_OK_FATAL(hm_buffer_create(s.device, &desc, &private));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_send(private, s.peer.socket, 0));
	hm_buffer_unref(private);
	/* A receiver that reserves less, and one with another kind of device. */
	CHECK_OK_FATAL(hm_buffer_send(s.buffer, s.peer.socket, 0));
	CHECK_EQUAL(peer_call(&s.peer, peer_receive, 0, PAGE, 0), -E2BIG);
	CHECK_OK_FATAL(hm_device_open("file", &files));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair));
	CHECK_ERROR(-EAGAIN, hm_buffer_receive(s.device, pair[0], NULL, &untouched));
	CHECK_OK(hm_buffer_send(s.buffer, pair[1], 0));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_receive(files, pair[0], NULL, &untouched));
	hm_device_unref(files);
	close(pair[1]);
	CHECK_ERROR(-ECONNRESET, hm_buffer_receive(s.device, pair[0], NULL, &untouched));
	CHECK_ERROR(-EPIPE, hm_buffer_send(s.buffer, pair[0], 0));
	close(pair[0]);
	close(fds[0]);
	close(fds[1]);
	close(udp);
	CHECK(untouched == (void *)0x10);
}

static const struct test tests[] = {
	{ .name = "same_bytes", .run = same_bytes },
	{ .name = "growth", .run = growth },
	{ .name = "resizes_are_counted", .run = resizes_are_counted },
	{ .name = "part_cut_off", .run = part_cut_off },
	{ .name = "refused", .run = refused },
	{ .name = "read_only", .run = read_only },
	{ .name = "read_only_by_choice", .run = read_only_by_choice },
	{ .name = "control_page", .run = control_page },
	{ .name = "owner_killed", .run = owner_killed },
	{ .name = "owner_lets_go", .run = owner_lets_go },
	{ .name = "receiver_killed", .run = receiver_killed },
	{ .name = "passed_on", .run = passed_on },
	{ .name = "nobody_receives", .run = nobody_receives },
	{ .name = "exec", .run = exec },
	{ .name = "fork_child", .run = fork_child },
	{ .name = "ping_pong", .run = ping_pong, .seconds = 60 },
	{ .name = "file", .run = file },
	{ .name = "file_read_only", .run = file_read_only },
	{ .name = "soft", .run = soft },
	{ .name = "bad_arguments", .run = bad_arguments },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share", tests)
