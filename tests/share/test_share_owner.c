// SPDX-License-Identifier: MIT
/* Owners of shared buffers: control pages of many buffers, the owner's process, its end. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compat.h"
#include "share/control.h"
#include "lib/inject.h"
#include "share/owner.h"
#include "lib/peer.h"
#include "share/share_pages.h"
#include "lib/support.h"
#include "base/sys.h"

#define CALLS_MAX 200

static int receive_of(struct hm_device *device, const struct share_message *message,
		      const int fds[SHARE_FDS], struct hm_buffer **ret_buffer)
{
	int pair[2], r;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(share_message_send(pair[0], message, fds));
	r = hm_buffer_receive(device, pair[1], NULL, ret_buffer);
	close(pair[0]);
	close(pair[1]);
	return r;
}

/* ---- slots ---- */

/* More buffers than a page has slots, and each one's size is its own. */
static void many(void)
{
	enum { N = CONTROL_SLOTS + 5 };
	const struct rlimit room = { 2 * N, 2 * N };
	static struct hm_buffer *owned[N];
	struct hm_buffer *received[3];
	const uint32_t picked[] = { 0, CONTROL_SLOTS - 1, N - 1 };
	struct share_message messages[3];
	int fds[3][SHARE_FDS], ignored[SHARE_FDS];
	uint32_t i, k = 0;

	CHECK_FATAL(!setrlimit(RLIMIT_NOFILE, &room));
	AUTO(hm_device) *device = rig_device("host");
	for (i = 0; i < N; i++) {
		struct share_message message;

		owned[i] = share_make(device);
		share_message_of(owned[i], &message, ignored);
		if (k < 3 && picked[k] == i) {
			messages[k] = message;
			memcpy(fds[k++], ignored, sizeof(ignored));
		} else {
			share_message_close(ignored, SHARE_FDS);
		}
	}
	for (k = 0; k < 3; k++) {
		CHECK_OK_FATAL(receive_of(device, &messages[k], fds[k], &received[k]));
		CHECK_OK(hm_buffer_resize(owned[picked[k]], (k + 4) * PAGE, 0));
	}
	for (k = 0; k < 3; k++) {
		CHECK_EQUAL(buffer_info(received[k]).size, (k + 4) * PAGE);
		share_message_close(fds[k], SHARE_FDS);
	}
	/* One that was let go of leaves its slot to another, in turn, and has nothing of his. */
	for (i = 0; i < CONTROL_SLOTS; i++) {
		hm_buffer_unref(owned[N - 1]);
		owned[N - 1] = share_make(device);
		share_message_of(owned[N - 1], &messages[0], ignored);
		share_message_close(ignored, SHARE_FDS);
		if (messages[0].slot == messages[2].slot)
			break;
	}
	CHECK_FATAL(i < CONTROL_SLOTS);
	CHECK(i > CONTROL_SLOTS / 2);
	CHECK_OK(hm_buffer_resize(owned[N - 1], 9 * PAGE, 0));
	CHECK_EQUAL(buffer_info(received[2]).size, 6 * PAGE);
	CHECK_EQUAL(buffer_info(received[2]).sharing,
		    HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_EQUAL(buffer_info(received[0]).sharing, HM_SHARING_RECEIVED);
	for (k = 0; k < 3; k++)
		hm_buffer_unref(received[k]);
	for (i = 0; i < N; i++)
		hm_buffer_unref(owned[i]);
}

/* A receiver and the owner count the owner's changes alike, and the object stays the same. */
static void check_generation(struct hm_buffer *buffer, uint32_t resizes, uint64_t size)
{
	struct hm_buffer_info info = buffer_info(buffer);

	CHECK_EQUAL(info.size, size);
	CHECK_EQUAL(info.owner_resizes, resizes);
	CHECK_EQUAL(info.generation, 0);
}

static void generation(void)
{
	struct hm_buffer *buffer, *received;
	struct share_message message;
	int fds[SHARE_FDS];
	uint32_t i;
	AUTO(hm_device) *device = rig_device("host");

	buffer = share_make(device);
	CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0)); /* no process has it yet */
	share_message_of(buffer, &message, fds);
	CHECK_OK_FATAL(receive_of(device, &message, fds, &received));
	check_generation(received, 0, 2 * SIZE);
	for (i = 1; i < 4; i++) {
		CHECK_OK(hm_buffer_resize(buffer, (2 - i % 2) * SIZE, 0));
		check_generation(buffer, i, (2 - i % 2) * SIZE);
		check_generation(received, i, (2 - i % 2) * SIZE);
	}
	/* Where it can be made anew it has not been sent. */
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, 2 * SIZE, HM_GROW_REPLACE));
	hm_buffer_unref(buffer);
	check_generation(received, 3, SIZE);
	share_message_close(fds, SHARE_FDS);
	hm_buffer_unref(received);
}

/* The owner's last change shows after he has let go of the buffer, too. */
static void last_size(void)
{
	struct hm_buffer *buffer, *received;
	struct share_message message;
	int fds[SHARE_FDS];
	char *bytes;
	AUTO(hm_device) *device = rig_device("host");

	buffer = share_make(device);
	share_message_of(buffer, &message, fds);
	CHECK_OK_FATAL(receive_of(device, &message, fds, &received));
	AUTO(hm_map) *map = rig_map(received, NULL);
	CHECK_OK(hm_buffer_resize(buffer, 2 * SIZE, 0));
	hm_buffer_unref(buffer);
	AUTO(hm_buffer) *next = share_make(device);
	CHECK_EQUAL(buffer_info(received).size, 2 * SIZE);
	CHECK_EQUAL(buffer_info(received).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_EQUAL(hm_map_length(map), 2 * SIZE);
	bytes = hm_map_address(map);
	bytes[2 * SIZE - 1] = 1;
	share_message_close(fds, SHARE_FDS);
	hm_buffer_unref(received);
}

/* Sent, and let go of before it has arrived: the bytes do, with the size of then. */
static void let_go_on_the_way(void)
{
	struct hm_buffer *buffer, *received;
	struct share_message message;
	int fds[SHARE_FDS];
	AUTO(hm_device) *device = rig_device("host");

	buffer = share_make(device);
	share_message_of(buffer, &message, fds);
	hm_buffer_unref(buffer);
	AUTO(hm_buffer) *next = share_make(device);
	CHECK_OK_FATAL(receive_of(device, &message, fds, &received));
	CHECK_EQUAL(buffer_info(received).size, SIZE);
	CHECK_EQUAL(buffer_info(received).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_resize(received, PAGE, 0));
	share_message_close(fds, SHARE_FDS);
	hm_buffer_unref(received);
}

/* ---- the owner ---- */

static int use_no_pidfd(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	(void)world, (void)a, (void)b, (void)c;
	inject_always("pidfd_open", ENOSYS);
	return 0;
}

/* A receiver learns that the owner was killed: by pidfd, and without. */
static void killed(bool pidfd)
{
	AUTO(hm_buffer) *buffer = NULL;
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	if (!pidfd)
		CHECK_EQUAL(peer_call(&peer, use_no_pidfd, 0, 0, 0), 0);
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	CHECK_EQUAL(control_owner_fd(buffer->share) >= 0, pidfd);
	CHECK_EQUAL(control_owner_pid(buffer->share), peer.pid);
	CHECK_ERROR(-EBUSY, hm_buffer_resize(buffer, PAGE, 0));
	peer_kill(&peer);
	CHECK_ERROR(-EOWNERDEAD, hm_buffer_resize(buffer, PAGE, 0));
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
}

static void killed_by_pidfd(void)
{
	killed(true);
}

static void killed_by_number(void)
{
	killed(false);
}

/* The owner counts as dead for receivers, though a child of his lives on. */
static int leave_a_child(struct peer_world *world, uint64_t a, uint64_t b, uint64_t c)
{
	pid_t pid = fork();

	(void)a, (void)b, (void)c;
	if (!pid) {
		char byte;

		/* Until the first process has closed it. */
		while (read(world->socket, &byte, 1) > 0)
			;
		_exit(0);
	}
	return pid < 0 ? -EAGAIN : 0;
}

static void child_lives_on(void)
{
	AUTO(hm_buffer) *buffer = NULL;
	struct peer peer;

	peer_start(&peer, SOCK_STREAM, "host");
	AUTO(hm_device) *device = rig_device("host");
	CHECK_EQUAL(peer_call(&peer, peer_send, SIZE, MAX_SIZE, 0), 0);
	CHECK_EQUAL(peer_call(&peer, leave_a_child, 0, 0, 0), 0);
	CHECK_OK_FATAL(hm_buffer_receive(device, peer.socket, NULL, &buffer));
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED);
	peer_kill(&peer);
	CHECK_EQUAL(buffer_info(buffer).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
}

/* The first process of a pid namespace sends a buffer, and waits for its end. */
static void send_and_wait(int socket)
{
	struct hm_device *device;

	if (hm_device_open("host", &device) || hm_buffer_send(share_make(device), socket, 0))
		_exit(1);
	pause();
	_exit(0);
}

/* The owner as seen from another namespace: bits for each wrong property. */
static int look_from_outside(int socket, pid_t owner)
{
	struct hm_buffer *buffer;
	struct hm_device *device;
	int bad = 0;

	if (hm_device_open("host", &device) || hm_buffer_receive(device, socket, NULL, &buffer))
		return 1;
	/* His number is that of another process here. */
	bad |= (control_owner_pid(buffer->share) != 1) << 1;
	bad |= (buffer_info(buffer).sharing != HM_SHARING_RECEIVED) << 2;
	kill(owner, SIGKILL);
	bad |= (waitpid(owner, NULL, 0) != owner) << 3;
	bad |= (buffer_info(buffer).sharing != (HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE))
	       << 4;
	return bad;
}

#define MAY_NOT 77

static void beyond_namespaces(void)
{
	pid_t pid, owner;
	int pair[2], status;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	fflush(NULL);
	pid = fork();
	CHECK_FATAL(pid >= 0);
	if (!pid) {
		if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
			_exit(MAY_NOT);
		owner = fork();
		if (!owner)
			send_and_wait(pair[0]);
		_exit(look_from_outside(pair[1], owner));
	}
	close(pair[0]);
	close(pair[1]);
	CHECK_FATAL(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	if (WEXITSTATUS(status) == MAY_NOT)
		test_skip("kernel", "no pid namespace may be made here");
	else
		CHECK_EQUAL(WEXITSTATUS(status), 0);
}

/* ---- senders that lie ---- */

static int pidfd_of(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* The result for a page of process @pid that comes with @owner. */
static void tell(pid_t pid, int owner, int expected, uint32_t sharing)
{
	struct hm_buffer *buffer = NULL;
	struct test_holding before, after;
	int fds[SHARE_FDS], r;
	AUTO(sent) scene = sent_begin();

	fds[SHARE_FD_OBJECT] = scene.fds[SHARE_FD_OBJECT];
	fds[SHARE_FD_CONTROL] = share_page_of(pid, &scene.message);
	fds[SHARE_FD_OWNER] = owner;
	before = test_holding_now();
	r = receive_of(scene.device, &scene.message, fds, &buffer);
	CHECK_EQUAL(r, expected);
	if (!r) {
		CHECK_EQUAL(buffer_info(buffer).sharing, sharing);
		hm_buffer_unref(buffer);
	} else {
		CHECK(hm_errmsg()[0]);
		after = test_holding_now();
		CHECK_EQUAL(after.fds, before.fds);
		CHECK_EQUAL(after.mapped, before.mapped);
	}
	close(fds[SHARE_FD_CONTROL]);
	if (owner >= 0)
		close(owner);
}

static void lies(void)
{
	pid_t child = fork();
	int fd, pipes[2];

	if (!child) {
		pause();
		_exit(0);
	}
	tell(getpid(), pidfd_of(getpid()), 0, HM_SHARING_RECEIVED);
	tell(getpid(), -1, 0, HM_SHARING_RECEIVED);
	/* A process that is not seen here is unknown. */
	tell(child, -1, 0, HM_SHARING_RECEIVED);
	/* Another's life is not the owner's. */
	tell(getpid(), pidfd_of(child), -EPROTO, 0);
	tell(child, pidfd_of(getpid()), -EPROTO, 0);
	/* Descriptors that poll() might wait for, with another meaning. */
	tell(getpid(), open("/dev/null", O_RDWR | O_CLOEXEC), -EPROTO, 0);
	tell(getpid(), open("/proc/self/stat", O_RDONLY | O_CLOEXEC), -EPROTO, 0);
	CHECK_FATAL(!pipe2(pipes, O_CLOEXEC));
	tell(getpid(), pipes[0], -EPROTO, 0);
	close(pipes[1]);
	/* Nor is another's death. */
	fd = pidfd_of(child);
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	tell(getpid(), fd, -EPROTO, 0);
}

/* A process that passes a buffer on may leave out the owner's descriptor; the next one has it. */
static void told_later(void)
{
	int fds[SHARE_FDS];
	pid_t owner = fork();
	AUTO(hm_buffer) *before = NULL;
	AUTO(hm_buffer) *after = NULL;

	if (!owner) {
		pause();
		_exit(0);
	}
	AUTO(sent) scene = sent_begin();
	fds[SHARE_FD_OBJECT] = scene.fds[SHARE_FD_OBJECT];
	fds[SHARE_FD_CONTROL] = share_page_of(owner, &scene.message);
	fds[SHARE_FD_OWNER] = -1;
	CHECK_OK_FATAL(receive_of(scene.device, &scene.message, fds, &before));
	/* Another's is not his. */
	fds[SHARE_FD_OWNER] = pidfd_of(getpid());
	CHECK_OK_FATAL(receive_of(scene.device, &scene.message, fds, &after));
	hm_buffer_unref(after);
	close(fds[SHARE_FD_OWNER]);
	fds[SHARE_FD_OWNER] = pidfd_of(owner);
	CHECK_OK_FATAL(receive_of(scene.device, &scene.message, fds, &after));
	CHECK_EQUAL(buffer_info(before).sharing, HM_SHARING_RECEIVED);
	kill(owner, SIGKILL);
	CHECK(waitpid(owner, NULL, 0) == owner);
	CHECK_EQUAL(buffer_info(before).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	CHECK_EQUAL(buffer_info(after).sharing, HM_SHARING_RECEIVED | HM_SHARING_OWNER_GONE);
	close(fds[SHARE_FD_CONTROL]);
	close(fds[SHARE_FD_OWNER]);
}

/* ---- undo ---- */

/* The n-th call of a first send, and its result; shared with its process. */
struct first {
	int socket;
	unsigned int n;
	bool failed;
};

static void send_first(void *user)
{
	struct first *first = user;
	struct test_holding before, after;
	int r;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = share_make(device);

	before = test_holding_now();
	test_forget_text();
	inject_arm(first->n, INJECT_ONE);
	r = hm_buffer_send(buffer, first->socket, 0);
	first->failed = inject_disarm();
	CHECK(!r || (first->failed && hm_errmsg()[0]));
	after = test_holding_now();
	/* Once it has the page the buffer keeps it, sent or not. */
	if (r && strcmp(inject_failed(), "sendmsg") != 0) {
		CHECK_EQUAL(after.fds, before.fds);
		CHECK_EQUAL(after.mapped, before.mapped);
	}
	if (r)
		CHECK_OK(hm_buffer_send(buffer, first->socket, 0));
}

/* In processes that have no page yet: each call of a first send fails. */
static void undo_first_send(void)
{
	struct first *first;
	int pair[2];

	inject_install();
	first = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(first != MAP_FAILED);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	first->socket = pair[0];
	for (first->n = 1; first->n < CALLS_MAX; first->n++) {
		first->failed = false;
		CHECK_EQUAL(test_fork(send_first, first), 0);
		/* Empties the socket. */
		while (recv(pair[1], (char[256]){ 0 }, 256, MSG_DONTWAIT) > 0)
			;
		if (!first->failed)
			break;
	}
	CHECK(first->n > 8 && first->n < CALLS_MAX);
	close(pair[0]);
	close(pair[1]);
	munmap(first, PAGE);
}

/* Each call of the first receive from a process fails. */
static void undo_first_receive(void)
{
	struct test_holding before, after;
	int fds[SHARE_FDS], r;
	bool failed = true;
	unsigned int n;

	inject_install();
	AUTO(sent) scene = sent_begin();
	fds[SHARE_FD_OBJECT] = scene.fds[SHARE_FD_OBJECT];
	fds[SHARE_FD_OWNER] = pidfd_of(getpid());
	for (n = 1; failed && n < CALLS_MAX; n++) {
		int pair[2];

		/* One that was never seen before. */
		fds[SHARE_FD_CONTROL] = share_page_of(getpid(), &scene.message);
		CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
		CHECK_OK_FATAL(share_message_send(pair[0], &scene.message, fds));
		AUTO(hm_buffer) *buffer = NULL;
		before = test_holding_now();
		test_forget_text();
		inject_arm(n, INJECT_ONE);
		r = hm_buffer_receive(scene.device, pair[1], NULL, &buffer);
		failed = inject_disarm();
		CHECK(!r || hm_errmsg()[0]);
		after = test_holding_now();
		if (r && (after.fds != before.fds || after.mapped != before.mapped ||
			  after.objects != before.objects))
			test_fail(__FILE__, __LINE__, "call %u (%s): %d, fds %u to %u", n,
				  inject_failed(), r, before.fds, after.fds);
		CHECK(!r == !!buffer);
		CHECK(r || failed || n > 8);
		close(fds[SHARE_FD_CONTROL]);
		close(pair[0]);
		close(pair[1]);
	}
	CHECK(n < CALLS_MAX);
	close(fds[SHARE_FD_OWNER]);
}

static const struct test tests[] = {
	{ .name = "many", .run = many, .seconds = 60 },
	{ .name = "generation", .run = generation },
	{ .name = "last_size", .run = last_size },
	{ .name = "let_go_on_the_way", .run = let_go_on_the_way },
	{ .name = "killed_by_pidfd", .run = killed_by_pidfd },
	{ .name = "killed_by_number", .run = killed_by_number },
	{ .name = "child_lives_on", .run = child_lives_on },
	{ .name = "beyond_namespaces", .run = beyond_namespaces },
	{ .name = "lies", .run = lies },
	{ .name = "told_later", .run = told_later },
	{ .name = "undo_first_send", .run = undo_first_send, .seconds = 60 },
	{ .name = "undo_first_receive", .run = undo_first_receive, .seconds = 60 },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share_owner", tests)
