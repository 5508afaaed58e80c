// SPDX-License-Identifier: MIT
/*
 * Arrays: a load of a row of another node brings its page (HM_ARRAY_PAGED).
 *
 * A thread has the page faults of these rows by userfaultfd. It gets a run of pages from the other
 * node, keeps a copy of it, the twin, and gives it to the thread that waits. At the end of an
 * epoch, or where room is needed, it takes a run away by one mremap(), so that no store is lost
 * between its look and the end, compares it with its twin, and puts the elements that differ: two
 * nodes may store into elements of one page.
 *
 * Twins lie in a ring, in the order in which runs came. The oldest run goes first.
 *
 * Where faults follow each other, the get of the next run begins before a run is given out: the
 * other node sends the next run while this one maps pages. The thread receives that run while no
 * fault waits, and gives it out at the fault of its first page. The end of an epoch and a move of
 * rows drop it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cluster.h"

#define ROOM (64ull << 20) /* default of hm_array_desc.page_room */
#define AHEAD_MOST 256u    /* pages of a run, and an eighth of the room */
#define ROOM_LEAST (2ull << 20)
#define EVENTS 16

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* A run of pages that are here. */
struct frame {
	uint64_t page; /* the first one, in the array */
	uint32_t pages;
	uint32_t skipped; /* pages of the ring in front of its twin, which are not used */
};

struct pager {
	int uffd;
	int wake; /* eventfd: the thread shall end */
	bool user_only;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock; /* protects what follows; taken before the array's lock */
	unsigned char *twins; /* ring of room pages */
	struct frame *frames; /* ring of room frames: none has less than a page */
	uint64_t room;        /* pages */
	uint64_t head, tail;  /* pages of the ring given and given back */
	uint64_t first, end;  /* frames likewise */
	unsigned char *here;  /* a bit a page */
	uint64_t here_bytes;
	unsigned char *scratch; /* AHEAD_MOST pages: where runs are taken to */
	uint64_t next;          /* page behind the run that was brought last */
	uint32_t ahead;         /* pages of it */
	uint32_t most;          /* pages that a run may have */
	struct frame coming;    /* the run behind it, if it has pages: a get began, */
	unsigned char *to;      /* to this twin, */
	_Atomic bool under_way; /* and has not ended, */
	int coming_status;      /* or with this */
	uint64_t now;           /* pages that are here */
	struct runs runs;       /* of the twin that is looked at */
	int failed;             /* since the last epoch: a page could not be brought */
	char text[300];
	uint64_t in, out; /* bytes brought, and sent back */
};

static bool is_here(const struct pager *pager, uint64_t page)
{
	return pager->here[page / 8] >> page % 8 & 1;
}

static void set_here(struct pager *pager, const struct frame *frame, bool here)
{
	uint64_t page;

	for (page = frame->page; page < frame->page + frame->pages; page++)
		if (here)
			pager->here[page / 8] |= (unsigned char)(1 << page % 8);
		else
			pager->here[page / 8] &= (unsigned char)~(1 << page % 8);
	pager->now += here ? frame->pages : -(uint64_t)frame->pages;
}

static void fail(struct pager *pager, int r)
{
	if (pager->failed)
		return;
	pager->failed = r;
	snprintf(pager->text, sizeof(pager->text),
		 "a page of another node was not brought, and loads found zeros: %s",
		 hm_errmsg());
}

/* ---- back to the owner ---- */

/* Puts the runs of a twin that are kept. The array's lock is held. */
static int put_runs(struct hm_array *array, uint64_t offset, const unsigned char *twin)
{
	struct runs *runs = &array->view.pager->runs;
	uint32_t rank;
	int r;

	if (!runs->n)
		return 0;
	view_run(array, offset, &rank);
	array->touched[rank] = 1;
	atomic_fetch_add_explicit(&array->messages, 1, memory_order_relaxed);
	r = array->transport->put_runs(array, rank, offset - array->first[rank], twin, runs);
	runs->n = 0;
	return r;
}

/* Keeps [begin, end) of a twin to be put. */
static int add_run(struct hm_array *array, uint64_t offset, const unsigned char *twin,
		   uint64_t begin, uint64_t end)
{
	struct pager *pager = array->view.pager;

	pager->runs.place[pager->runs.n] = (MPI_Aint)begin;
	pager->runs.length[pager->runs.n++] = (int)(end - begin);
	pager->out += end - begin;
	return pager->runs.n == RUNS_MOST ? put_runs(array, offset, twin) : 0;
}

/* Puts the elements that are other in @now than in @twin. */
static int put_changes(struct hm_array *array, uint64_t offset, unsigned char *twin,
		       const unsigned char *now, uint64_t bytes)
{
	uint64_t element = array->layout.element, at = 0, begin = 0, end;
	bool open = false, differs;
	int r = 0;

	while (!r && at < bytes) {
		/* Pages that nobody stored into are left fast. */
		if (!open && at % PAGE == 0 && at + PAGE <= bytes &&
		    !memcmp(twin + at, now + at, PAGE)) {
			at += PAGE;
			continue;
		}
		end = at + element - (offset + at) % element;
		if (at / PAGE != (end - 1) / PAGE)
			end = (at / PAGE + 1) * PAGE;
		if (end > bytes)
			end = bytes;
		differs = memcmp(twin + at, now + at, end - at) != 0;
		if (differs && !open)
			begin = at;
		if (!differs && open)
			r = add_run(array, offset, twin, begin, at);
		if (differs)
			memcpy(twin + at, now + at, end - at);
		open = differs;
		at = end;
	}
	if (!r && open)
		r = add_run(array, offset, twin, begin, bytes);
	return r ? r : put_runs(array, offset, twin);
}

static unsigned char *twin_of(const struct pager *pager, uint64_t position)
{
	return pager->twins + position % pager->room * PAGE;
}

/*
 * Takes the oldest run away. The array's lock is held; the twin is used up to the next flush. By
 * the system call: UCX, which MPI loads, takes mremap() over, and passes no new address on.
 */
static int take_oldest(struct hm_array *array, uint64_t *tail)
{
	struct pager *pager = array->view.pager;
	struct frame *frame = &pager->frames[pager->first % pager->room];
	uint64_t offset = frame->page * PAGE, bytes = frame->pages * PAGE;
	int r;

	if (syscall(SYS_mremap, array->view.base + offset, bytes, bytes,
		    MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, pager->scratch) < 0)
		return hm_error_set(-errno, "taking %llu bytes of another node's rows away: %s",
				    (unsigned long long)bytes, strerror(errno));
	*tail += frame->skipped;
	if (bytes > array->layout.bytes - offset)
		bytes = array->layout.bytes - offset;
	r = put_changes(array, offset, twin_of(pager, *tail), pager->scratch, bytes);
	madvise(pager->scratch, AHEAD_MOST * PAGE, MADV_DONTNEED);
	*tail += frame->pages;
	set_here(pager, frame, false);
	pager->first++;
	return r;
}

/* Takes runs away until @pages of the ring are free. The pager's lock is held. */
static int make_room(struct hm_array *array, uint64_t pages)
{
	struct pager *pager = array->view.pager;
	uint64_t tail = pager->tail;
	int r = 0, flushed;

	pthread_mutex_lock(&array->lock);
	while (!r && pager->first < pager->end && pager->room - (pager->head - tail) < pages)
		r = take_oldest(array, &tail);
	/* Twins are read by MPI until then. */
	flushed = array->transport->flush(array);
	if (!flushed)
		array->completed = array->issued;
	pthread_mutex_unlock(&array->lock);
	pager->tail = tail;
	if (pager->first == pager->end)
		pager->head = pager->tail = 0;
	return r ? r : flushed;
}

/* ---- from the owner ---- */

/* The bytes are there once end_get() has returned. */
static int begin_get(struct hm_array *array, const struct frame *frame, unsigned char *to)
{
	uint64_t offset = frame->page * PAGE, bytes = frame->pages * PAGE;
	uint32_t rank;
	int r = node_check(&array->node);

	if (r)
		return r;
	if (bytes > array->layout.bytes - offset) {
		bytes = array->layout.bytes - offset;
		memset(to + bytes, 0, frame->pages * PAGE - bytes);
	}
	view_run(array, offset, &rank);
	pthread_mutex_lock(&array->lock);
	array->touched[rank] = 1;
	r = array->transport->get(array, rank, offset - array->first[rank], to, bytes);
	pthread_mutex_unlock(&array->lock);
	atomic_fetch_add_explicit(&array->messages, 1, memory_order_relaxed);
	return r;
}

static int end_get(struct hm_array *array)
{
	int r;

	pthread_mutex_lock(&array->lock);
	r = array->transport->flush(array);
	if (!r)
		array->completed = array->issued;
	pthread_mutex_unlock(&array->lock);
	return r;
}

/* Waits for the run that is under way. The pager's lock is held. */
static void receive(struct hm_array *array)
{
	struct pager *pager = array->view.pager;

	if (!pager->under_way)
		return;
	pager->coming_status = end_get(array);
	pager->under_way = false;
}

/* Its twin is anyone's again. The pager's lock is held. */
static void forget_coming(struct hm_array *array)
{
	receive(array);
	array->view.pager->coming.pages = 0;
}

int pager_write_back(struct hm_array *array)
{
	struct pager *pager = array->view.pager;
	int r = 0;

	pthread_mutex_lock(&pager->lock);
	pthread_rwlock_rdlock(&array->moving);
	forget_coming(array);
	if (pager->first < pager->end)
		r = make_room(array, pager->room);
	pthread_rwlock_unlock(&array->moving);
	if (!r && pager->failed)
		r = hm_error_set(pager->failed, "%s", pager->text);
	pager->failed = 0;
	pthread_mutex_unlock(&pager->lock);
	return r;
}

/* Pages to bring from @page on: more and more while faults follow each other. */
static uint32_t run_length(struct hm_array *array, uint64_t page)
{
	struct pager *pager = array->view.pager;
	uint32_t most = page == pager->next ? 2 * pager->ahead : 1, n, rank;
	uint64_t end = (view_run(array, page * PAGE, &rank) + PAGE - 1) / PAGE;

	if (most > pager->most)
		most = pager->most;
	for (n = 1; n < most && page + n < end && !is_here(pager, page + n); n++)
		;
	return n;
}

/* Gives the run to the threads that wait for it. */
static int place(const struct hm_array *array, uint64_t page, uint64_t pages, const void *from)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)array->view.base + page * PAGE,
		.src = (uintptr_t)from,
		.len = pages * PAGE,
	};

	/* -EAGAIN: another thread changes mappings; the kernel says how far it came. */
	while (ioctl(array->view.pager->uffd, UFFDIO_COPY, &copy) < 0) {
		if (errno != EAGAIN)
			return hm_error_set(-errno, "UFFDIO_COPY of %llu pages: %s",
					    (unsigned long long)pages, strerror(errno));
		if (copy.copy > 0) {
			copy.dst += (uint64_t)copy.copy;
			copy.src += (uint64_t)copy.copy;
			copy.len -= (uint64_t)copy.copy;
		}
		copy.copy = 0;
	}
	return 0;
}

static void wake_up(const struct hm_array *array, uint64_t page)
{
	struct uffdio_range range = {
		.start = (uintptr_t)array->view.base + page * PAGE,
		.len = PAGE,
	};

	ioctl(array->view.pager->uffd, UFFDIO_WAKE, &range);
}

/* Puts the run's twin behind the others. Where the ring has no room for it, the oldest go. */
static bool has_twin(struct hm_array *array, struct frame *frame, bool may_take)
{
	struct pager *pager = array->view.pager;
	uint64_t position = pager->head % pager->room;
	int r;

	frame->skipped = 0;
	if (position + frame->pages > pager->room)
		frame->skipped = (uint32_t)(pager->room - position);
	/* An eighth at once, so that one flush serves many. */
	if (may_take &&
	    pager->room - (pager->head - pager->tail) < frame->skipped + frame->pages) {
		r = make_room(array, frame->skipped + pager->room / 8);
		if (r)
			fail(pager, r);
		if (!pager->head)
			frame->skipped = 0;
	}
	return pager->room - (pager->head - pager->tail) >= frame->skipped + frame->pages;
}

/* Begins the get of the run behind the last one, if that is of another node, and there is room. */
static void look_ahead(struct hm_array *array)
{
	struct pager *pager = array->view.pager;
	struct frame frame = { .page = pager->next };
	uint32_t rank;

	if (frame.page * PAGE >= array->layout.bytes || is_here(pager, frame.page))
		return;
	view_run(array, frame.page * PAGE, &rank);
	if (array->node.node_of[rank] == array->node.number)
		return;
	frame.pages = run_length(array, frame.page);
	if (!has_twin(array, &frame, false))
		return;
	pager->to = twin_of(pager, pager->head + frame.skipped);
	/* If it can't begin, the fault says why. */
	if (begin_get(array, &frame, pager->to))
		return;
	pager->coming = frame;
	pager->under_way = true;
}

static void keep(struct pager *pager, const struct frame *frame)
{
	pager->head += frame->skipped + frame->pages;
	pager->frames[pager->end++ % pager->room] = *frame;
	set_here(pager, frame, true);
	pager->in += frame->pages * PAGE;
	pager->next = frame->page + frame->pages;
	pager->ahead = frame->pages;
}

/* Undoes keep() of the run that was kept last. */
static void lose(struct pager *pager, const struct frame *frame)
{
	pager->head -= frame->skipped + frame->pages;
	pager->end--;
	set_here(pager, frame, false);
	pager->in -= frame->pages * PAGE;
	pager->next = UINT64_MAX;
}

/* The run from @page on, in its twin. False: there is no room. */
static bool fetch_run(struct hm_array *array, uint64_t page, struct frame *frame)
{
	struct pager *pager = array->view.pager;
	unsigned char *twin;
	int r;

	if (pager->coming.pages && pager->coming.page == page) {
		receive(array);
		*frame = pager->coming;
		twin = pager->to;
		r = pager->coming_status;
		pager->coming.pages = 0;
	} else {
		forget_coming(array);
		frame->page = page;
		frame->pages = run_length(array, page);
		if (!has_twin(array, frame, true))
			return false;
		twin = twin_of(pager, pager->head + frame->skipped);
		r = begin_get(array, frame, twin);
		r = r ? r : end_get(array);
	}
	if (r) {
		fail(pager, r);
		memset(twin, 0, frame->pages * PAGE);
	}
	return true;
}

static void bring(struct hm_array *array, uint64_t page)
{
	struct pager *pager = array->view.pager;
	bool in_order = page == pager->next;
	struct frame frame;
	int r;

	/* Where no run could be taken away there is no room: the ring's order breaks. */
	if (!fetch_run(array, page, &frame)) {
		wake_up(array, page);
		return;
	}
	keep(pager, &frame);
	if (in_order)
		look_ahead(array);
	r = place(array, page, frame.pages, twin_of(pager, pager->head - frame.pages));
	if (r) {
		/* The thread tries again. */
		forget_coming(array);
		lose(pager, &frame);
		fail(pager, r);
		wake_up(array, page);
	}
}

static void serve(struct hm_array *array, uint64_t address)
{
	struct pager *pager = array->view.pager;
	uint64_t page = (address - (uintptr_t)array->view.base) / PAGE;

	pthread_mutex_lock(&pager->lock);
	pthread_rwlock_rdlock(&array->moving);
	if (is_here(pager, page))
		wake_up(array, page);
	else
		bring(array, page);
	pthread_rwlock_unlock(&array->moving);
	pthread_mutex_unlock(&pager->lock);
}

static void *serve_all(void *user)
{
	struct hm_array *array = user;
	struct pager *pager = array->view.pager;
	struct uffd_msg events[EVENTS];
	struct pollfd wait[2] = {
		{ .fd = pager->uffd, .events = POLLIN },
		{ .fd = pager->wake, .events = POLLIN },
	};
	ssize_t got, i;

	for (;;) {
		/* The next run is received while no fault waits. */
		if (pager->under_way && !poll(wait, 2, 0)) {
			pthread_mutex_lock(&pager->lock);
			receive(array);
			pthread_mutex_unlock(&pager->lock);
		}
		if (poll(wait, 2, -1) < 0 && errno != EINTR)
			break;
		if (wait[1].revents)
			break;
		got = read(pager->uffd, events, sizeof(events));
		for (i = 0; got > 0 && i < got / (ssize_t)sizeof(events[0]); i++)
			if (events[i].event == UFFD_EVENT_PAGEFAULT)
				serve(array, events[i].arg.pagefault.address);
	}
	/* Its twin may be unmapped now. */
	pthread_mutex_lock(&pager->lock);
	forget_coming(array);
	pthread_mutex_unlock(&pager->lock);
	return NULL;
}

void pager_hold(struct hm_array *array)
{
	pthread_mutex_lock(&array->view.pager->lock);
	forget_coming(array);
}

void pager_let_go(struct hm_array *array)
{
	pthread_mutex_unlock(&array->view.pager->lock);
}

/* ---- beginning and end ---- */

int pager_take(struct view *view, uint64_t begin, uint64_t end)
{
	struct uffdio_register wanted = {
		.range = { .start = (uintptr_t)view->base + begin, .len = end - begin },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	unsigned char *at = view->base + begin;

	if (mmap(at, end - begin, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return hm_error_set(-errno, "%llu bytes for rows of another node: %s",
				    (unsigned long long)(end - begin), strerror(errno));
	madvise(at, end - begin, MADV_DONTFORK);
	madvise(at, end - begin, MADV_NOHUGEPAGE);
	/* Accessible once faults are ours: nobody finds zeros. */
	if (ioctl(view->pager->uffd, UFFDIO_REGISTER, &wanted) < 0 ||
	    mprotect(at, end - begin, PROT_READ | PROT_WRITE))
		return hm_error_set(-errno, "userfaultfd for %llu bytes: %s",
				    (unsigned long long)(end - begin), strerror(errno));
	return 0;
}

static int open_uffd(struct pager *pager)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 && errno == EPERM) {
		fd = (int)syscall(SYS_userfaultfd,
				  O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
		pager->user_only = fd >= 0;
	}
	if (fd < 0)
		return hm_error_set(
			-EOPNOTSUPP,
			"HM_ARRAY_PAGED needs userfaultfd: %s; allow it (sysctl "
			"vm.unprivileged_userfaultfd=1, a seccomp filter that lets it through, "
			"CONFIG_USERFAULTFD), or use hm_array_get()",
			strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) < 0) {
		close(fd);
		return hm_error_set(-EOPNOTSUPP, "HM_ARRAY_PAGED needs userfaultfd: %s",
				    strerror(errno));
	}
	pager->uffd = fd;
	return 0;
}

static void *pages_for(uint64_t bytes)
{
	void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return got == MAP_FAILED ? NULL : got;
}

static void release(struct pager *pager)
{
	if (pager->uffd >= 0)
		close(pager->uffd);
	if (pager->wake >= 0)
		close(pager->wake);
	if (pager->twins)
		munmap(pager->twins, pager->room * PAGE);
	if (pager->scratch)
		munmap(pager->scratch, AHEAD_MOST * PAGE);
	if (pager->here)
		munmap(pager->here, pager->here_bytes);
	free(pager->frames);
	pthread_mutex_destroy(&pager->lock);
	free(pager);
}

int pager_begin(struct hm_array *array, uint64_t room)
{
	struct pager *pager = calloc(1, sizeof(*pager));
	int r;

	if (!pager)
		return hm_error_set(-ENOMEM, "no memory for the pages of other nodes");
	pthread_mutex_init(&pager->lock, NULL);
	pager->uffd = pager->wake = -1;
	room = room ? room : ROOM;
	pager->room = (room < ROOM_LEAST ? ROOM_LEAST : room) / PAGE;
	pager->most = pager->room / 8 < AHEAD_MOST ? (uint32_t)(pager->room / 8) : AHEAD_MOST;
	pager->next = UINT64_MAX;
	r = open_uffd(pager);
	if (r)
		goto err;
	pager->here_bytes = (array->view.length / PAGE + 8) / 8;
	pager->wake = eventfd(0, EFD_CLOEXEC);
	pager->twins = pages_for(pager->room * PAGE);
	pager->scratch = pages_for(AHEAD_MOST * PAGE);
	pager->here = pages_for(pager->here_bytes);
	pager->frames = calloc(pager->room, sizeof(*pager->frames));
	if (pager->wake < 0 || !pager->twins || !pager->scratch || !pager->here ||
	    !pager->frames) {
		r = hm_error_set(-ENOMEM, "no memory for %llu pages of other nodes",
				 (unsigned long long)pager->room);
		goto err;
	}
	array->view.pager = pager;
	r = -pthread_create(&pager->thread, NULL, serve_all, array);
	if (!r) {
		pager->has_thread = true;
		return 0;
	}
	array->view.pager = NULL;
	r = hm_error_set(r, "a thread that brings pages: %s", strerror(-r));
err:
	release(pager);
	return r;
}

bool pager_end(struct hm_array *array, bool together)
{
	struct pager *pager = array->view.pager;
	struct timespec until;
	uint64_t one = 1;

	if (write(pager->wake, &one, sizeof(one)) != sizeof(one))
		return false;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += together ? 60 : 1;
	if (pager->has_thread && pthread_timedjoin_np(pager->thread, NULL, &until))
		return false;
	release(pager);
	array->view.pager = NULL;
	return true;
}

bool pager_is_limited(const struct pager *pager)
{
	return pager->user_only;
}

void pager_tell(struct pager *pager, struct hm_array_info *info)
{
	pthread_mutex_lock(&pager->lock);
	info->paged_in = pager->in;
	info->paged_out = pager->out;
	info->paged_now = pager->now * PAGE;
	pthread_mutex_unlock(&pager->lock);
}
