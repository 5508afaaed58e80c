// SPDX-License-Identifier: MIT
/* hetsim: a sender that makes the receiver bring in pages that CPUs do not reach. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dmabuf/dmabuf.h"
#include "share/share.h"
#include "lib/rig.h"
#include "lib/sim_devices.h"

/* As hm_buffer_send() would, but that it tells of pages that have to be there. */
static void send_spoilt(struct hm_buffer *buffer, int to)
{
	struct share_message message;
	int pair[2], fds[SHARE_FDS];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_buffer_send(buffer, pair[0], 0));
	CHECK_OK_FATAL(share_message_receive(pair[1], &message, fds));
	CHECK_EQUAL(message.map_flags, 0);
	message.map_flags = HM_SEGMENT_PRESENT;
	CHECK_OK_FATAL(share_message_send(to, &message, fds));
	share_message_close(fds, SHARE_FDS);
	close(pair[0]);
	close(pair[1]);
}

/* Where all memory is in reach it is as good as any; else an error, and no signal. */
static void present(void)
{
	struct hm_map *map, *theirs = NULL;
	AUTO(hm_device) *device = NULL, *other = NULL;
	struct hm_buffer *buffer, *received;
	uint64_t window, size;
	int pair[2];

	CHECK_OK_FATAL(hm_device_open("sim:0", &device));
	/* "host" maps any dma-buf, as its sender says; the device itself knows its own. */
	CHECK_OK_FATAL(hm_device_open("host", &other));
	window = sim_query(device).window_bytes;
	size = window ? window / 2 : MIB(4);
	buffer = sim_make(device, size, 0, &map);
	sim_write(map, 0, size, 1);
	if (window)
		sim_crowd_out(device, window);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	send_spoilt(buffer, pair[0]);
	CHECK_OK_FATAL(hm_buffer_receive(other, pair[1], NULL, &received));
	test_forget_text();
	if (window) {
		CHECK_ERROR(-EIO, hm_map_create(received, NULL, &theirs));
		CHECK(strstr(hm_errmsg(), "SIGBUS"));
		CHECK(!theirs);
	} else {
		CHECK_OK_FATAL(hm_map_create(received, NULL, &theirs));
		CHECK(pattern_holds(hm_map_address(theirs), 0, size, 1));
		hm_map_unref(theirs);
	}
	hm_buffer_unref(received);
	close(pair[0]);
	close(pair[1]);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

static const struct test tests[] = {
	{ .name = "present", .run = present },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "hetsim_present", tests)
