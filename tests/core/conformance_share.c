// SPDX-License-Identifier: MIT
/* Conformance: buffers sent to another process, and senders that tell of another one. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/conformance.h"
#include "lib/peer.h"
#include "share/share.h"

#define BYTES (UNITS * f->unit)

/* ---- in the other process ---- */

/* Bits for each property that differs from the sender's. */
static int peer_differs(struct peer_world *world, uint64_t size, uint64_t page_size,
			uint64_t cache)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_map_info map_now = { .struct_size = sizeof(map_now) };
	int r = hm_buffer_query(world->buffer, &info);

	if (!r)
		r = hm_map_query(world->map, &map_now);
	if (r)
		return r;
	return (info.size != size) << 0 | (info.page_size != page_size) << 1 |
	       (map_now.cache != cache) << 2 | (map_now.length != size) << 3 |
	       (info.sharing != HM_SHARING_RECEIVED) << 4;
}

static int peer_reads(struct peer_world *world, uint64_t from, uint64_t to, uint64_t salt)
{
	int holds, r;

	r = hm_map_begin_cpu(world->map, from, to - from, HM_READ);
	if (r)
		return r;
	holds = peer_holds(world, from, to, salt);
	r = hm_map_end_cpu(world->map, from, to - from, HM_READ);
	return r ? r : holds;
}

static int peer_writes(struct peer_world *world, uint64_t from, uint64_t to, uint64_t salt)
{
	int r = hm_map_begin_cpu(world->map, from, to - from, HM_WRITE);

	if (r)
		return r;
	peer_write(world, from, to, salt);
	return hm_map_end_cpu(world->map, from, to - from, HM_WRITE);
}

/* Bits for each way to write all the same, with the library or without. */
static int peer_can_write(struct peer_world *world, uint64_t unit, uint64_t b, uint64_t c)
{
	char *base = hm_map_address(world->map);
	struct hm_map *further;
	int fd, bad = 0;

	(void)b, (void)c;
	bad |= (hm_map_protect(world->map, 0, unit, HM_READ | HM_WRITE) == 0) << 0;
	bad |= (hm_map_create(world->buffer, DESC(hm_map_desc, .access = HM_READ | HM_WRITE),
			      &further) != -EACCES)
	       << 1;
	bad |= (mprotect(base, unit, PROT_READ | PROT_WRITE) == 0) << 2;
	/* A receiver may pass its buffer on. */
	if (hm_buffer_export(world->buffer, 0, &fd))
		return bad | 1 << 5;
	bad |= (mmap(NULL, unit, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) << 3;
	bad |= (pwrite(fd, "x", 1, 0) == 1) << 4;
	close(fd);
	return bad;
}

/* ---- sent and received ---- */

static void put_bracketed(struct fixture *f, struct hm_map *map, uint32_t salt)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, BYTES, HM_WRITE));
	put(f, hm_map_address(map), 0, BYTES, salt);
	CHECK_OK(hm_map_end_cpu(map, 0, BYTES, HM_WRITE));
}

static void check_bracketed(struct fixture *f, struct hm_map *map, uint32_t salt)
{
	CHECK_OK(hm_map_begin_cpu(map, 0, BYTES, HM_READ));
	CHECK(holds(f, hm_map_address(map), 0, BYTES, salt));
	CHECK_OK(hm_map_end_cpu(map, 0, BYTES, HM_READ));
}

/* A buffer that can't be sent is refused with a reason, and nothing is sent. */
static void check_refused(struct hm_buffer *buffer, uint32_t flags)
{
	char byte;
	int pair[2];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_send(buffer, pair[0], flags));
	CHECK(recv(pair[1], &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	CHECK_EQUAL(buffer_info(buffer).sharing, 0);
	close(pair[0]);
	close(pair[1]);
}

static void send_receive(struct fixture *f)
{
	uint64_t access = f->writable ? HM_READ | HM_WRITE : HM_READ;
	struct hm_map *map;
	struct peer peer;
	struct hm_buffer *buffer = fixture_make(f, BYTES, 2 * BYTES, &map);

	if (!fixture_is_sent(f, 0)) {
		check_refused(buffer, 0);
		goto out;
	}
	peer_start(&peer, SOCK_STREAM, f->subject->device);
	put_bracketed(f, map, 1);
	CHECK_OK_FATAL(hm_buffer_send(buffer, peer.socket, 0));
	CHECK_EQUAL(peer_call(&peer, peer_receive, 0, 0, 0), 0);
	if (!f->writable)
		CHECK_EQUAL(peer_call(&peer, peer_map, HM_READ | HM_WRITE, 0, 0), -EACCES);
	CHECK_EQUAL(peer_call(&peer, peer_map, access, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_differs, BYTES, f->unit, map_info(map, 0).cache), 0);
	if (f->writable) {
		CHECK_EQUAL(peer_call(&peer, peer_reads, 0, BYTES, 1), 1);
		CHECK_EQUAL(peer_call(&peer, peer_writes, 0, BYTES, 2), 0);
		check_bracketed(f, map, 2);
		put_bracketed(f, map, 3);
		CHECK_EQUAL(peer_call(&peer, peer_reads, 0, BYTES, 3), 1);
	}
	CHECK(peer_call(&peer, peer_resize, f->unit, 0, 0) < 0);
	/* The owner goes first: the receiver keeps the bytes. */
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	map = NULL;
	buffer = NULL;
	if (f->writable)
		CHECK_EQUAL(peer_call(&peer, peer_reads, 0, BYTES, 3), 1);
	peer_stop(&peer);
out:
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static void send_read_only(struct fixture *f)
{
	struct hm_map *map;
	struct peer peer;
	struct hm_buffer *buffer = fixture_make(f, BYTES, BYTES, &map);

	if (!fixture_is_sent(f, HM_EXPORT_READ_ONLY) || !has(f, HM_CAP_READ_ONLY)) {
		check_refused(buffer, HM_EXPORT_READ_ONLY);
		goto out;
	}
	peer_start(&peer, SOCK_SEQPACKET, f->subject->device);
	put_bracketed(f, map, 1);
	CHECK_OK_FATAL(hm_buffer_send(buffer, peer.socket, HM_EXPORT_READ_ONLY));
	CHECK_EQUAL(peer_call(&peer, peer_receive, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_map, HM_READ | HM_WRITE, 0, 0), -EACCES);
	CHECK_EQUAL(peer_call(&peer, peer_map, HM_READ, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_can_write, f->unit, 0, 0), 0);
	if (f->writable) {
		put_bracketed(f, map, 2);
		CHECK_EQUAL(peer_call(&peer, peer_reads, 0, BYTES, 2), 1);
	}
	peer_stop(&peer);
out:
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

/* ---- senders that lie ---- */

/* A good message, to be changed before it is sent on. */
struct lie {
	struct share_message message;
	int fds[SHARE_FDS];
};

static void lie_begin(struct hm_buffer *buffer, struct lie *lie)
{
	int pair[2];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(buffer, pair[0], 0));
	CHECK_OK_FATAL(share_message_receive(pair[1], &lie->message, lie->fds));
	close(pair[0]);
	close(pair[1]);
}

static void lie_end(const struct lie *lie)
{
	share_message_close(lie->fds, SHARE_FDS);
}

static int tell(struct fixture *f, const struct lie *lie)
{
	AUTO(hm_buffer) *buffer = NULL;
	int pair[2], r;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(share_message_send(pair[0], &lie->message, lie->fds));
	r = hm_buffer_receive(f->device, pair[1], NULL, &buffer);
	CHECK(!r == !!buffer);
	CHECK(!r || hm_errmsg()[0]);
	close(pair[0]);
	close(pair[1]);
	return r;
}

/* Another object than the one the message is about. */
static int tell_of(struct fixture *f, const struct lie *lie, int fd)
{
	struct lie other = *lie;

	other.fds[SHARE_FD_OBJECT] = fd;
	return tell(f, &other);
}

/* The cache mode that the device tells of an import. */
static uint32_t cache_of_import(struct fixture *f, const struct lie *lie)
{
	struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = lie->message.access & HM_WRITE ? 0 : HM_BUFFER_READ_ONLY,
	};

	if (lie->message.memory & HM_MEMORY_STORAGE)
		return lie->message.cache;
	AUTO(hm_buffer) *buffer = rig_import(f->device, lie->fds[SHARE_FD_OBJECT], &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	return map_info(map, 0).cache;
}

/* A hint where the device does not tell; compared where it does. */
static void lies_about_cache(struct fixture *f, const struct lie *lie)
{
	int other = cache_of_import(f, lie) == HM_CACHE_UNKNOWN ? 0 : -EPROTO;
	struct lie changed = *lie;

	for (changed.message.cache = 0; changed.message.cache <= HM_CACHE_UNCACHED;
	     changed.message.cache++)
		CHECK_EQUAL(tell(f, &changed),
			    changed.message.cache == lie->message.cache ? 0 : other);
	CHECK_EQUAL(changed.message.cache, HM_CACHE_UNKNOWN);
	CHECK_EQUAL(tell(f, &changed), 0);
	changed.message.cache++;
	CHECK_EQUAL(tell(f, &changed), -EPROTO);
}

static void lies(struct fixture *f)
{
	struct hm_buffer *small;
	struct lie lie, changed;
	int fd, unsealed;

	if (!fixture_is_sent(f, 0))
		return;
	AUTO(hm_buffer) *buffer = fixture_make(f, BYTES, BYTES, NULL);
	lie_begin(buffer, &lie);
	CHECK_EQUAL(tell(f, &lie), 0);

	changed = lie;
	changed.message.memory ^= HM_MEMORY_SEALED;
	CHECK(tell(f, &changed) < 0);
	lies_about_cache(f, &lie);
	changed = lie;
	changed.message.page_size /= 2;
	CHECK_EQUAL(tell(f, &changed), -EPROTO);
	changed = lie;
	changed.message.max_size = f->unit; /* less than the control page says */
	CHECK_EQUAL(tell(f, &changed), -EPROTO);

	/* Objects of another size, and of another kind. */
	small = fixture_make(f, f->unit, f->unit, NULL);
	CHECK_OK_FATAL(hm_buffer_export(small, 0, &fd));
	if (lseek(fd, 0, SEEK_END) < (off_t)BYTES)
		CHECK(tell_of(f, &lie, fd) < 0);
	close(fd);
	hm_buffer_unref(small);
	unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK_FATAL(unsealed >= 0 && !ftruncate(unsealed, (off_t)BYTES));
	if (f->info.backing != HM_BACKING_FILE)
		CHECK(tell_of(f, &lie, unsealed) < 0);
	close(unsealed);
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK(tell_of(f, &lie, fd) < 0);
	close(fd);
	lie_end(&lie);
}

const struct conformance_case conformance_share[] = {
	{ "send_receive", send_receive },
	{ "send_read_only", send_read_only },
	{ "lies", lies },
	{ NULL, NULL },
};
