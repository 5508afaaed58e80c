// SPDX-License-Identifier: MIT
/* Control pages that are known again by their names and senders. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compat.h"
#include "share/share_pages.h"
#include "base/sys.h"

static int (*real_fstat)(int fd, struct stat *st);
static unsigned int n_fstat;

static int count_fstat(int fd, struct stat *st)
{
	n_fstat++;
	return real_fstat(fd, st);
}

/* Receives a buffer of process @owner; returns the calls of fstat() that this took. */
static unsigned int receive_over(const int pair[2], const struct sent *scene,
				 const struct share_message *message, const int fds[SHARE_FDS],
				 pid_t owner)
{
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_OK_FATAL(share_message_send(pair[0], message, fds));
	n_fstat = 0;
	CHECK_OK_FATAL(hm_buffer_receive(scene->device, pair[1], NULL, &buffer));
	CHECK_EQUAL(control_owner_pid(buffer->share), owner);
	return n_fstat;
}

/*
 * A page is known again by its sender's name for it; over another socket the name alone is not
 * enough.
 */
static void named(void)
{
	int pair[2], other[2], fds[SHARE_FDS];
	struct share_message foreign;
	unsigned int looks;
	struct stat st;
	AUTO(sent) scene = sent_begin();

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other));
	CHECK_FATAL(!fstat(scene.fds[SHARE_FD_CONTROL], &st));
	CHECK_EQUAL(scene.message.page, st.st_ino);
	real_fstat = sys_table.fstat;
	sys_table.fstat = count_fstat;
	looks = receive_over(pair, &scene, &scene.message, scene.fds, getpid());
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, scene.fds, getpid()), looks - 1);

	foreign = scene.message;
	fds[SHARE_FD_OBJECT] = scene.fds[SHARE_FD_OBJECT];
	fds[SHARE_FD_CONTROL] = share_page_of(1, &foreign);
	fds[SHARE_FD_OWNER] = -1;
	/* And once more with its seals on, as it is a new one. */
	CHECK_EQUAL(receive_over(other, &scene, &foreign, fds, 1), looks + 1);
	/* Nor does it help to have come over that one: the last one counts. */
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, scene.fds, getpid()), looks - 1);
	sys_table.fstat = real_fstat;
	close(fds[SHARE_FD_CONTROL]);
	close(pair[0]);
	close(pair[1]);
	close(other[0]);
	close(other[1]);
}

/*
 * A page of another process is known again, too: a descriptor that comes with the name is
 * closed, whatever it is. Over another socket the same page is looked at once more.
 */
static void named_of_others(void)
{
	int pair[2], other[2], fds[SHARE_FDS], page;
	struct test_holding before, after;
	unsigned int looks;
	struct stat st;
	AUTO(sent) scene = sent_begin();
	AUTO(hm_buffer) *held = NULL;

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, other));
	page = share_page_of(1, &scene.message);
	CHECK_FATAL(!fstat(page, &st));
	scene.message.page = st.st_ino;
	fds[SHARE_FD_OBJECT] = scene.fds[SHARE_FD_OBJECT];
	fds[SHARE_FD_CONTROL] = page;
	fds[SHARE_FD_OWNER] = -1;
	CHECK_OK_FATAL(share_message_send(pair[0], &scene.message, fds));
	CHECK_OK_FATAL(hm_buffer_receive(scene.device, pair[1], NULL, &held));
	real_fstat = sys_table.fstat;
	sys_table.fstat = count_fstat;
	before = test_holding_now();
	looks = receive_over(pair, &scene, &scene.message, fds, 1);
	fds[SHARE_FD_CONTROL] = open("/dev/null", O_RDWR | O_CLOEXEC);
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, fds, 1), looks);
	close(fds[SHARE_FD_CONTROL]);
	fds[SHARE_FD_CONTROL] = page;
	CHECK_EQUAL(receive_over(other, &scene, &scene.message, fds, 1), looks + 1);
	CHECK_EQUAL(receive_over(other, &scene, &scene.message, fds, 1), looks);
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, fds, 1), looks + 1);
	after = test_holding_now();
	CHECK_EQUAL(after.fds, before.fds);
	CHECK_EQUAL(after.mapped, before.mapped);
	sys_table.fstat = real_fstat;
	CHECK_EQUAL(control_owner_pid(held->share), 1);
	close(page);
	close(pair[0]);
	close(pair[1]);
	close(other[0]);
	close(other[1]);
}

static int (*real_getsockopt)(int fd, int level, int option, void *value, socklen_t *length);

static int getsockopt_of_5_9(int fd, int level, int option, void *value, socklen_t *length)
{
	if (option == SO_NETNS_COOKIE) {
		errno = ENOPROTOOPT;
		return -1;
	}
	return real_getsockopt(fd, level, option, value, length);
}

/* Where two sockets may have one number no page is known by its name. */
static void named_before_5_10(void)
{
	unsigned int looks;
	int pair[2];
	AUTO(sent) scene = sent_begin();

	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	real_getsockopt = sys_table.getsockopt;
	sys_table.getsockopt = getsockopt_of_5_9;
	real_fstat = sys_table.fstat;
	sys_table.fstat = count_fstat;
	looks = receive_over(pair, &scene, &scene.message, scene.fds, getpid());
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, scene.fds, getpid()), looks);
	sys_table.getsockopt = real_getsockopt;
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, scene.fds, getpid()), looks);
	CHECK_EQUAL(receive_over(pair, &scene, &scene.message, scene.fds, getpid()), looks - 1);
	sys_table.fstat = real_fstat;
	close(pair[0]);
	close(pair[1]);
}

static const struct test tests[] = {
	{ .name = "own", .run = named },
	{ .name = "of_others", .run = named_of_others },
	{ .name = "before_5_10", .run = named_before_5_10 },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share_names", tests)
