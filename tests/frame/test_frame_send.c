// SPDX-License-Identifier: MIT
/* Frames between processes: causes that stop a call in the middle of a frame. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "frame/frame_support.h"
#include "lib/inject.h"
#include "lib/rig.h"

static struct hm_device *host(void)
{
	return rig_device("host");
}

/* The two messages of a frame: its object is sent once more, the header returned. */
static ssize_t send_object_only(struct hm_frame *frame, const int pair[2], void *header,
				size_t room)
{
	ssize_t length;

	CHECK_OK_FATAL(hm_frame_send(frame, pair[0], 0));
	CHECK_FATAL(recv(pair[1], header, room, 0) > 0);
	length = recv(pair[1], header, room, 0);
	CHECK_FATAL(length > 0);
	CHECK_OK_FATAL(hm_buffer_send(frame_info(frame).buffer[0], pair[0], 0));
	return length;
}

static void on_signal(int signal)
{
	(void)signal;
}

struct receiver {
	struct hm_device *device;
	struct hm_frame *frame;
	int socket, r;
};

static void *receive_there(void *user)
{
	struct receiver *receiver = user;

	receiver->r = hm_frame_receive(receiver->device, receiver->socket, 0, &receiver->frame);
	return NULL;
}

/* Signals come in a burst while the header of a frame is awaited: the object is not lost. */
static void interrupted(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct receiver receiver = { .device = host() };
	struct sigaction action = { .sa_handler = on_signal }; /* without SA_RESTART */
	struct hm_frame *frame = frame_acquire(pool);
	unsigned char header[1024];
	uint64_t maps = stats_now().maps;
	struct hm_frame_info info;
	pthread_t thread;
	ssize_t length;
	int pair[2];

	inject_install();
	CHECK(!sigaction(SIGUSR1, &action, NULL));
	info = frame_info(frame);
	frame_fill(&info, 6);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair));
	length = send_object_only(frame, pair, header, sizeof(header));
	receiver.socket = pair[1];
	CHECK_FATAL(!pthread_create(&thread, NULL, receive_there, &receiver));
	while (stats_now().maps == maps)
		usleep(1000);
	usleep(20000);
	/* More in a row than the library bears without an answer. */
	inject_some("recvmsg", EINTR, 150);
	pthread_kill(thread, SIGUSR1);
	usleep(20000);
	CHECK_FATAL(send(pair[0], header, (size_t)length, 0) == length);
	pthread_join(thread, NULL);
	inject_disarm();
	CHECK_EQUAL(receiver.r, 0);
	if (!receiver.r) {
		info = frame_info(receiver.frame);
		CHECK(frame_holds(&info, 6));
	}
	hm_frame_unref(receiver.frame);
	close(pair[0]);
	close(pair[1]);
	hm_frame_unref(frame);
	hm_device_unref(receiver.device);
}

static int no_maps(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)reason;
	return request->operation == HM_ACCESS_MAP ? -EAGAIN : 0;
}

/* -EAGAIN says that nothing is there: not where something came, and could not be mapped. */
static void came_unmapped(void)
{
	AUTO(hm_frame_pool) *pool = frame_pool("host", HM_FRAME_WAIT, 1);
	struct hm_frame *frame = frame_acquire(pool), *got = NULL;
	AUTO(hm_device) *device = host();
	struct test_holding before;
	int pair[2];

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
	CHECK_OK_FATAL(hm_frame_send(frame, pair[0], 0));
	CHECK_OK_FATAL(hm_frame_receive(device, pair[1], 0, &got));
	hm_frame_unref(got);
	got = NULL;
	CHECK_OK_FATAL(hm_frame_send(frame, pair[0], 0));
	before = test_holding_now();
	/* As for mmap() beyond RLIMIT_MEMLOCK while mlockall(MCL_FUTURE) is in force. */
	inject_shared_refused(EAGAIN);
	CHECK_ERROR(-ENOMEM, hm_frame_receive(device, pair[1], 0, &got));
	inject_disarm();
	test_holding_same(&before);
	close(pair[0]);
	close(pair[1]);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair));
	CHECK_OK_FATAL(hm_frame_send(frame, pair[0], 0));
	CHECK_OK_FATAL(hm_access_hook_set(no_maps, NULL));
	CHECK_ERROR(-ENOMEM, hm_frame_receive(device, pair[1], 0, &got));
	CHECK_OK(hm_access_hook_set(NULL, NULL));
	CHECK(!got);
	close(pair[0]);
	close(pair[1]);
	hm_frame_unref(frame);
}

static const struct test tests[] = {
	{ .name = "interrupted", .run = interrupted },
	{ .name = "came_unmapped", .run = came_unmapped },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "frame_send", tests)
