// SPDX-License-Identifier: MIT
/* Many reads in flight, by io_uring. */
#include "reader/uring.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "config.h"
#include "base/err.h"
#include "base/sys.h"
#include "base/util.h"

/* ---- reasons for a missing io_uring ---- */

#ifdef HAVE_LIBURING
#define ENOSYS_MEANS                                                                 \
	"a kernel before 5.1, or without CONFIG_IO_URING; or a container's seccomp " \
	"filter hides it"
#else
#define ENOSYS_MEANS "this is a build without liburing"
#endif

/* Errors of io_uring_setup(2), and their remedies. */
static const struct remedy {
	int error;
	int resource; /* resource with the limit to show; -1: none */
	const char *text;
} remedies[] = {
	{ -EMFILE, RLIMIT_NOFILE, "raise RLIMIT_NOFILE (ulimit -n)" },
	{ -ENFILE, -1, "the system's table of open files is full: raise fs.file-max" },
	/* [README of liburing, "ulimit settings"] */
	{ -ENOMEM, RLIMIT_MEMLOCK,
	  "memory is short; or, before Linux 5.12, RLIMIT_MEMLOCK (ulimit -l): raise it" },
	{ -ENOSYS, -1, ENOSYS_MEANS },
	{ -EPERM, -1, "see kernel.io_uring_disabled, and a container's seccomp filter" },
	{ -EACCES, -1, "see the system's security module" },
};

const char *uring_explain(int r, char *text, size_t size)
{
	const struct remedy *remedy = remedies, *end = remedies + ARRAY_SIZE(remedies);
	struct rlimit limit;

	while (remedy < end && remedy->error != r)
		remedy++;
	if (remedy == end)
		snprintf(text, size, "%s", err_name(r));
	else if (remedy->resource < 0 || getrlimit(remedy->resource, &limit) ||
		 limit.rlim_cur == RLIM_INFINITY)
		snprintf(text, size, "%s: %s", err_name(r), remedy->text);
	else
		snprintf(text, size, "%s: %s, now %" PRIu64, err_name(r), remedy->text,
			 (uint64_t)limit.rlim_cur);
	return text;
}

/* ---- a ring ---- */

#ifdef HAVE_LIBURING

#include <liburing.h>

/* Tries of a read that the kernel gives back unfinished without a reason to stop. */
#define TRIES 100

struct slot {
	struct uring_read read;
	uint32_t done;
	uint32_t tries;
	uint32_t next_free;
};

struct uring {
	struct io_uring uring;
	uint32_t depth;
	uint32_t in_flight; /* queued and not over: includes reads not submitted yet */
	uint32_t free;      /* depth: none */
	struct slot slot[];
};

int uring_open(uint32_t depth, struct uring **ret_ring)
{
	struct uring *ring = sys_calloc(1, sizeof(*ring) + depth * sizeof(*ring->slot));
	char text[URING_TEXT_MAX];
	uint32_t i;
	int r;

	if (!ring)
		return err_set(-ENOMEM, "no memory for %u reads in flight", depth);
	r = sys_uring_init(&ring->uring, depth);
	if (r) {
		free(ring);
		return err_set(r, "io_uring for %u reads in flight: %s", depth,
			       uring_explain(r, text, sizeof(text)));
	}
	/* A child must not have it: its memory is the kernel's side of this process. */
	io_uring_ring_dontfork(&ring->uring);
	ring->depth = depth;
	for (i = 0; i < depth; i++)
		ring->slot[i].next_free = i + 1;
	*ret_ring = ring;
	return 0;
}

void uring_close(struct uring *ring)
{
	if (!ring)
		return;
	uring_drain(ring);
	io_uring_queue_exit(&ring->uring);
	free(ring);
}

static void prepare(struct uring *ring, struct slot *slot)
{
	const struct uring_read *read = &slot->read;
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	/* Never NULL: the queue has as many entries as there are slots. */
	io_uring_prep_read(sqe, read->fd, read->to + slot->done, read->length - slot->done,
			   read->offset + slot->done);
	io_uring_sqe_set_data64(sqe, (uint64_t)(slot - ring->slot));
}

static void end(struct uring *ring, struct slot *slot, int r)
{
	const struct uring_read *read = &slot->read;

	if (!r && read->copy_to)
		memcpy(read->copy_to, read->to + read->skip, read->wanted - read->skip);
	if (r && !read->group->error) {
		read->group->error = r;
		read->group->where = read->offset + slot->done;
	}
	read->group->pending--;
	ring->in_flight--;
	slot->next_free = ring->free;
	ring->free = (uint32_t)(slot - ring->slot);
}

/* Handles one completion; some reads need another try. */
static void complete(struct uring *ring, struct slot *slot, int result)
{
	bool again = result == -EAGAIN || result == -EINTR;

	/* A read ends so when its thread has ended: the waiting thread makes the next try. */
	if (slot->read.own && (result == -ECANCELED || result == -EFAULT))
		again = true;

	if (result > 0) {
		slot->done += (uint32_t)result;
		if (slot->done >= slot->read.wanted)
			end(ring, slot, 0);
		else if (slot->done % slot->read.unit)
			end(ring, slot, -ENODATA);
		else
			prepare(ring, slot);
	} else if (again && slot->tries++ < TRIES) {
		prepare(ring, slot);
	} else {
		end(ring, slot, result ? result : -ENODATA);
	}
}

static void reap(struct uring *ring)
{
	struct io_uring_cqe *cqe;
	uint64_t slot;
	int result;

	while (!io_uring_peek_cqe(&ring->uring, &cqe)) {
		slot = io_uring_cqe_get_data64(cqe);
		result = cqe->res;
		io_uring_cqe_seen(&ring->uring, cqe);
		complete(ring, &ring->slot[slot], result);
	}
}

static int submit(struct uring *ring, uint32_t wait)
{
	int r = sys_uring_submit(&ring->uring, wait);

	if (r < 0)
		return err_set(r, "io_uring with %u reads in flight: %s", ring->in_flight,
			       err_name(r));
	reap(ring);
	return 0;
}

int uring_slot(struct uring *ring, uint32_t *ret_slot)
{
	int r;

	while (ring->free == ring->depth) {
		r = submit(ring, 1);
		if (r)
			return r;
	}
	*ret_slot = ring->free;
	return 0;
}

void uring_read(struct uring *ring, uint32_t number, const struct uring_read *read)
{
	struct slot *slot = &ring->slot[number];

	ring->free = slot->next_free;
	*slot = (struct slot){ .read = *read };
	read->group->pending++;
	ring->in_flight++;
	prepare(ring, slot);
}

int uring_submit(struct uring *ring)
{
	return submit(ring, 0);
}

int uring_wait(struct uring *ring, const struct uring_group *group)
{
	int r;

	while (group->pending) {
		r = submit(ring, 1);
		if (r)
			return r;
	}
	return 0;
}

void uring_drain(struct uring *ring)
{
	struct io_uring_cqe *cqe;
	int r;

	/* Reads that were never submitted never run. */
	while (ring->in_flight > io_uring_sq_ready(&ring->uring)) {
		/* Enters the kernel, submits nothing. */
		r = io_uring_wait_cqe(&ring->uring, &cqe);
		if (!r) {
			struct slot *slot = &ring->slot[io_uring_cqe_get_data64(cqe)];

			io_uring_cqe_seen(&ring->uring, cqe);
			end(ring, slot, -ECANCELED);
		} else if (r != -EINTR) {
			sched_yield();
		}
	}
}

#else

int uring_open(uint32_t depth, struct uring **ret_ring)
{
	char text[URING_TEXT_MAX];

	(void)depth, (void)ret_ring;
	return err_set(-ENOSYS, "io_uring: %s", uring_explain(-ENOSYS, text, sizeof(text)));
}

void uring_close(struct uring *ring)
{
	(void)ring;
}

int uring_slot(struct uring *ring, uint32_t *ret_slot)
{
	(void)ring, (void)ret_slot;
	return -EOPNOTSUPP;
}

void uring_read(struct uring *ring, uint32_t slot, const struct uring_read *read)
{
	(void)ring, (void)slot, (void)read;
}

int uring_submit(struct uring *ring)
{
	(void)ring;
	return -EOPNOTSUPP;
}

int uring_wait(struct uring *ring, const struct uring_group *group)
{
	(void)ring, (void)group;
	return -EOPNOTSUPP;
}

void uring_drain(struct uring *ring)
{
	(void)ring;
}

#endif
