// SPDX-License-Identifier: MIT
/* hetsim where each allocation fails in turn: the scene of each try, and the walk. */
#include "sim/failslab_scene.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/fail_nth.h"

int failslab_call(int fd, unsigned long cmd, void *argument)
{
	return ioctl(fd, cmd, argument) ? -errno : 0;
}

void *failslab_map(const struct failslab_scene *scene)
{
	return mmap(NULL, FAILSLAB_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, scene->fd,
		    (off_t)scene->offset);
}

int failslab_export(struct failslab_scene *scene, uint32_t flags)
{
	struct hetsim_export arg = { .size = sizeof(arg),
				     .handle = scene->handle,
				     .flags = flags };
	int r = failslab_call(scene->fd, HETSIM_EXPORT, &arg);

	if (!r)
		scene->made = arg.fd;
	return r;
}

int failslab_wait(struct failslab_scene *scene)
{
	return failslab_call(scene->fd, HETSIM_WAIT,
			     SIZED(hetsim_wait, .queue = scene->queue, .seqno = scene->seqno,
				   .deadline_ns = UINT64_MAX));
}

int failslab_unplug(struct failslab_scene *scene)
{
	struct hetsim_inject arg = { .size = sizeof(arg), .kind = HETSIM_INJECT_UNPLUG };
	int r = failslab_call(scene->fd, HETSIM_INJECT, &arg);

	/* The answer could not be written, the call has had its effect. */
	scene->gone = !r || (r == -EFAULT && access(HETSIM_PATH, F_OK));
	return r;
}

int failslab_plug(struct failslab_scene *scene)
{
	int fd = open("/sys/kernel/debug/hetsim/plug", O_WRONLY | O_CLOEXEC), r;

	if (fd < 0)
		return -errno;
	r = write(fd, "0", 1) == 1 ? 0 : -errno;
	close(fd);
	scene->gone = scene->gone && r;
	return r;
}

void failslab_no_more(struct failslab_scene *scene)
{
	(void)scene;
}

/* ---- the scene of each try ---- */

static int open_one(void)
{
	int fd = open(HETSIM_PATH, O_RDWR | O_CLOEXEC);

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(failslab_call(fd, HETSIM_HANDSHAKE,
				  SIZED(hetsim_handshake,
					.flags = HETSIM_HANDSHAKE_ZERO_WHEN_LOST,
					.version_major = HETSIM_VERSION_MAJOR)),
		    0);
	return fd;
}

static void set_up(struct failslab_scene *scene)
{
	struct hetsim_buffer_create create = { .size = sizeof(create),
					       .length = FAILSLAB_PAGES * PAGE,
					       .place = HETSIM_PLACE_SYSTEM };
	struct hetsim_bind bind = { .size = sizeof(bind),
				    .flags = HETSIM_BIND_WRITE,
				    .address = FAILSLAB_BOUND_AT,
				    .length = FAILSLAB_PAGES * PAGE };
	struct hetsim_queue_create queue = { .size = sizeof(queue) };
	struct hetsim_command nothing = { .op = HETSIM_OP_NOTHING };
	struct hetsim_submit submit = { .size = sizeof(submit),
					.commands = (uintptr_t)&nothing,
					.n_commands = 1,
					.command_size = sizeof(nothing) };

	memset(scene, 0, sizeof(*scene));
	scene->fd = open_one();
	scene->other = open_one();
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_BUFFER_CREATE, &create), 0);
	scene->handle = bind.handle = create.handle;
	scene->offset = create.offset;
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_BIND, &bind), 0);
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_QUEUE_CREATE, &queue), 0);
	scene->queue = submit.queue = queue.queue;
	CHECK_EQUAL(failslab_call(scene->fd, HETSIM_SUBMIT, &submit), 0);
	scene->seqno = submit.seqno;
	CHECK_EQUAL(failslab_wait(scene), 0);
	CHECK_EQUAL(failslab_export(scene, HETSIM_EXPORT_WRITE), 0);
	scene->dmabuf = scene->made;
	scene->eventfd = eventfd(0, EFD_CLOEXEC);
	scene->map = failslab_map(scene);
	CHECK_FATAL(scene->map != MAP_FAILED);
	scene->more = MAP_FAILED;
}

static int replug(void)
{
	struct failslab_scene scene = { .fd = open_one() };
	int r = failslab_unplug(&scene);

	return r ? r : failslab_plug(&scene);
}

/* Also descriptors that were made and could not be told of: all but @nth_file. */
static void tidy(struct failslab_scene *scene, int nth_file)
{
	munmap(scene->map, FAILSLAB_PAGES * PAGE);
	if (scene->more != MAP_FAILED)
		munmap(scene->more, FAILSLAB_PAGES * PAGE);
	CHECK_EQUAL(close_range((unsigned int)nth_file + 1, ~0u, 0), 0);
	if (scene->gone)
		CHECK_EQUAL(failslab_plug(scene), 0);
	/* The device came back without memory for its place in debugfs: once more. */
	if (hetsim_objects() < 0) {
		CHECK_EQUAL(replug(), 0);
		close_range((unsigned int)nth_file + 1, ~0u, 0);
	}
	CHECK_EQUAL(hetsim_objects(), 0);
}

/* ---- failures ---- */

struct step_of_scene {
	const struct failslab_step *step;
	struct failslab_scene *scene;
};

static int run_step(void *user)
{
	const struct step_of_scene *both = user;

	return both->step->run(both->scene);
}

static void walk(const struct failslab_step *step, int nth_file)
{
	struct failslab_scene scene;
	struct step_of_scene both = { step, &scene };
	bool injected = true;
	unsigned int nth;

	for (nth = 1; injected && nth < FAIL_NTH_MOST; nth++) {
		set_up(&scene);
		step->before(&scene);
		injected = fail_nth_run(nth_file, step->name, nth, run_step, &both);
		tidy(&scene, nth_file);
	}
	fail_nth_enough(step->name, nth, step->least);
}

void failslab_walk(const struct failslab_step *steps, size_t n)
{
	int nth_file = fail_nth_open(), fd;
	size_t i;

	if (nth_file < 0)
		return;
	fd = hetsim_open(O_RDWR);
	if (fd < 0 || hetsim_inject(fd, HETSIM_INJECT_RESET, 0, 0)) {
		if (fd >= 0)
			test_skip("kernel", "hetsim was not loaded with test=1");
		close_range((unsigned int)nth_file, ~0u, 0);
		return;
	}
	close(fd);
	for (i = 0; i < n; i++)
		walk(&steps[i], nth_file);
	close(nth_file);
}
