// SPDX-License-Identifier: MIT
/*
 * The twin's timelines: a sealed memfd of one page, which processes share by its descriptor, and
 * sleep on by futexes. Each process has a page mapped once, as long as a job or a call names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fork.h"
#include "base/memfd.h"
#include "soft/engine.h"

#define TIMELINE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define TIMELINE_MAGIC 0x656e696c656d6974ull /* "timeline" */

/* In the memfd. A process that stops at any instruction leaves it whole. */
struct page {
	uint64_t magic;
	_Atomic uint64_t value;
	_Atomic uint64_t expected; /* the highest point that a job signals, or did */
	_Atomic uint64_t promised; /* the same of jobs of HETSIM_QUEUE_DMA_FENCE */
	_Atomic uint32_t changes;  /* of value, and times that sleepers were to look again */
};

struct soft_timeline {
	struct cds_list_head link; /* in mapped.timelines */
	uint32_t refs;             /* under mapped.lock */
	dev_t dev;                 /* of the memfd */
	ino_t ino;
	struct page *page;
};

static struct {
	pthread_mutex_t lock; /* a leaf; protects the list */
	struct cds_list_head timelines;
} mapped = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.timelines = { &mapped.timelines, &mapped.timelines },
};

void soft_timelines_lock(void)
{
	pthread_mutex_lock(&mapped.lock);
}

void soft_timelines_unlock(void)
{
	pthread_mutex_unlock(&mapped.lock);
}

static int page_map(int fd, struct page **ret_page)
{
	void *page = NULL;
	int r;

	r = sys_mmap(NULL, SIM_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0, &page);
	if (!r)
		*ret_page = page;
	return r;
}

/* Is it a file of the shape that soft_timeline_create() gives it? Its page is looked at later. */
static bool is_timeline(int fd, struct stat *ret_stat)
{
	int seals = sys_fcntl(fd, F_GET_SEALS, 0);

	return seals >= 0 && (seals & TIMELINE_SEALS) == TIMELINE_SEALS &&
	       !sys_fstat(fd, ret_stat) && ret_stat->st_size == (off_t)SIM_PAGE_SIZE;
}

static struct soft_timeline *find_locked(const struct stat *st)
{
	struct soft_timeline *timeline;

	cds_list_for_each_entry(timeline, &mapped.timelines, link)
		if (timeline->ino == st->st_ino && timeline->dev == st->st_dev)
			return timeline;
	return NULL;
}

static int map_locked(int fd, const struct stat *st, struct soft_timeline **ret_timeline)
{
	struct soft_timeline *timeline = sys_calloc(1, sizeof(*timeline));
	int r;

	if (!timeline)
		return -ENOMEM;
	r = page_map(fd, &timeline->page);
	if (r) {
		r = r == -ENOMEM ? r : -EINVAL;
		goto err_timeline;
	}
	if (timeline->page->magic != TIMELINE_MAGIC) {
		r = -EINVAL;
		goto err_page;
	}
	timeline->ino = st->st_ino;
	timeline->dev = st->st_dev;
	cds_list_add(&timeline->link, &mapped.timelines);
	*ret_timeline = timeline;
	return 0;

err_page:
	sys_munmap(timeline->page, SIM_PAGE_SIZE);
err_timeline:
	free(timeline);
	return r;
}

int soft_timeline_get(int fd, struct soft_timeline **ret_timeline)
{
	struct soft_timeline *timeline;
	struct stat st;
	int r = 0;

	if (!is_timeline(fd, &st))
		return -EINVAL;
	fork_init();
	soft_timelines_lock();
	timeline = find_locked(&st);
	if (!timeline)
		r = map_locked(fd, &st, &timeline);
	if (!r) {
		timeline->refs++;
		*ret_timeline = timeline;
	}
	soft_timelines_unlock();
	return r;
}

void soft_timeline_put(struct soft_timeline *timeline)
{
	bool last;

	soft_timelines_lock();
	last = !--timeline->refs;
	if (last)
		cds_list_del(&timeline->link);
	soft_timelines_unlock();
	if (!last)
		return;
	sys_munmap(timeline->page, SIM_PAGE_SIZE);
	free(timeline);
}

uint64_t soft_timeline_value(struct soft_timeline *timeline)
{
	return timeline->page->value;
}

static void raise_to(_Atomic uint64_t *number, uint64_t point)
{
	uint64_t now = atomic_load(number);

	while (now < point && !atomic_compare_exchange_weak(number, &now, point))
		;
}

bool soft_timeline_is_promised(struct soft_timeline *timeline, uint64_t point)
{
	return timeline->page->promised >= point || timeline->page->value >= point;
}

bool soft_timeline_is_expected(struct soft_timeline *timeline, uint64_t point)
{
	return timeline->page->expected >= point;
}

void soft_timeline_expect(struct soft_timeline *timeline, uint64_t point, bool promise)
{
	raise_to(&timeline->page->expected, point);
	if (promise)
		raise_to(&timeline->page->promised, point);
}

void soft_timeline_kick(struct soft_timeline *timeline)
{
	atomic_fetch_add(&timeline->page->changes, 1);
	sys_futex_wake(&timeline->page->changes);
}

void soft_timeline_reach(struct soft_timeline *timeline, uint64_t point)
{
	raise_to(&timeline->page->value, point);
	soft_timeline_kick(timeline);
}

uint32_t soft_timeline_changes(struct soft_timeline *timeline)
{
	return timeline->page->changes;
}

void soft_timeline_sleep(struct soft_timeline *timeline, uint32_t changes, uint64_t ns)
{
	sys_futex_wait(&timeline->page->changes, changes, ns);
}

/* ---- calls ---- */

static int file_make(uint64_t value)
{
	struct page *page = NULL;
	int fd, r;

	fd = memfd_open("timeline", 0);
	if (fd < 0)
		return fd;
	r = sys_ftruncate(fd, SIM_PAGE_SIZE);
	if (!r)
		r = page_map(fd, &page);
	if (r)
		goto err_fd;
	page->value = value;
	page->magic = TIMELINE_MAGIC;
	sys_munmap(page, SIM_PAGE_SIZE);
	r = sys_fcntl(fd, F_ADD_SEALS, TIMELINE_SEALS);
	if (r < 0)
		goto err_fd;
	return fd;

err_fd:
	sys_close(fd);
	return r;
}

int soft_timeline_create(struct soft_file *file, void *argument)
{
	struct hetsim_timeline_create *create = argument;
	int fd = file_make(create->value);

	(void)file;
	if (fd < 0)
		return fd;
	create->fd = fd;
	return 0;
}

struct caller {
	struct soft_device *dev;
	const struct soft_sync *sync;
};

/* When the device is gone, submissions that were under way still signal their points. */
static int caller_ended(void *user)
{
	const struct caller *caller = user;

	if (!caller->dev->gone ||
	    soft_timeline_is_expected(caller->sync->timeline, caller->sync->point))
		return 0;
	return -ENODEV;
}

int soft_timeline_wait(struct soft_file *file, void *argument)
{
	struct hetsim_timeline_wait *wait = argument;
	struct soft_sync sync = { .point = wait->point, .fd = -1, .kick = -1 };
	struct caller caller = { file->dev, &sync };
	int r;

	r = soft_timeline_get(wait->fd, &sync.timeline);
	if (r)
		return r;
	r = soft_sync_await(file->dev, &sync, wait->deadline_ns, caller_ended, &caller);
	wait->value = soft_timeline_value(sync.timeline);
	soft_timeline_put(sync.timeline);
	return r;
}

int soft_timeline_signal(struct soft_file *file, void *argument)
{
	struct hetsim_timeline_signal *ask = argument;
	struct soft_timeline *timeline;
	int r;

	(void)file;
	r = soft_timeline_get(ask->fd, &timeline);
	if (r)
		return r;
	soft_timeline_reach(timeline, ask->point);
	soft_timeline_put(timeline);
	return 0;
}
