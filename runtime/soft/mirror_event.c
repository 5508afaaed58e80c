// SPDX-License-Identifier: MIT
/*
 * The stream of a mirror's events: a pipe. Where it is full, events are counted and left out, and
 * the next one that fits comes behind that number. (The module drops the oldest ones instead.)
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "soft/event.h"
#include "soft/mirror.h"

int soft_stream_make(struct soft_stream *stream, int *ret_fd)
{
	struct pollfd writer = { .fd = stream->fd };
	int fds[2], r;

	/* POLLERR: the reader has closed its end. */
	if (stream->fd >= 0 && sys_poll(&writer, 1, 0) <= 0)
		return -EBUSY;
	soft_stream_end(stream);
	r = sys_pipe(fds);
	if (r)
		return r;
	/* Less room than asked for only means that more is lost. */
	sys_fcntl(fds[1], F_SETPIPE_SZ, SIM_EVENTS * sizeof(struct hetsim_event));
	r = sys_fcntl(fds[1], F_SETFL, O_NONBLOCK);
	if (r < 0) {
		sys_close(fds[0]);
		sys_close(fds[1]);
		return r;
	}
	stream->fd = fds[1];
	stream->n_lost = 0;
	*ret_fd = fds[0];
	return 0;
}

void soft_stream_end(struct soft_stream *stream)
{
	if (stream->fd >= 0)
		sys_close(stream->fd);
	stream->fd = -1;
}

/*
 * Writes without the signal that a pipe without a reader raises: a caller's thread may have any
 * handler for it.
 */
static int write_event(int fd, const struct hetsim_event *event)
{
	const struct timespec now = { 0, 0 };
	sigset_t broken, before;
	ssize_t n;

	sigemptyset(&broken);
	sigaddset(&broken, SIGPIPE);
	sys_sigmask(SIG_BLOCK, &broken, &before);
	n = sys_write(fd, event, sizeof(*event));
	/* Only if it was not blocked before: a pending one may be the application's. */
	if (n == -EPIPE && !sigismember(&before, SIGPIPE))
		sigtimedwait(&broken, NULL, &now);
	sys_sigmask(SIG_SETMASK, &before, NULL);
	return n < 0 ? (int)n : 0;
}

void soft_mirror_tell(struct soft_mirror *mirror, const struct hetsim_event *event)
{
	struct soft_stream *stream = &mirror->stream;
	struct hetsim_event lost = { .kind = HETSIM_EVENT_LOST, .value = stream->n_lost };
	struct hetsim_event copy = *event;
	char accel[24];
	int r = 0;

	copy.ns = time_now_ns();
	lost.ns = copy.ns;
	snprintf(accel, sizeof(accel), "soft:%" PRIu32, mirror->file->dev->index);
	sim_event_publish(accel, &copy);
	if (likely(stream->fd < 0))
		return;
	if (stream->n_lost)
		r = write_event(stream->fd, &lost);
	if (!r) {
		stream->n_lost = 0;
		r = write_event(stream->fd, &copy);
	}
	if (r == -EPIPE)
		soft_stream_end(stream);
	else if (r)
		stream->n_lost++;
}
