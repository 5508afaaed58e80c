// SPDX-License-Identifier: MIT
/*
 * hetsim, whose allocations and copies fail in turn (fail_nth.h) while pages of the process move
 * to its memory and come back: by PREFETCH, by a device fault, to make room, as a CPU or the kernel
 * uses them, at the end of the opener, and when the device goes. Whatever fails, each byte is as it
 * was, the same can be done again, and the device has nothing left.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/fail_nth.h"
#include "sim/migrate_support.h"
#include "sim/module_support.h"

#define PAGES 16u /* as many as a CPU's fault brings back */
#define BYTES (PAGES * PAGE)
#define RW (PROT_READ | PROT_WRITE)
#define NEW_WORD 0x5a5a5a5au
#define COHERENT "devices=2 vram_mb=96 system_mb=128 test=1"

/* The process and the device before a step, and how it ended. */
struct scene {
	struct mirror mirror; /* its file is -1 once a step has closed it */
	unsigned char *bytes; /* PAGES pages; the words of page i are i + 1 */
	int other;            /* another opener */
	int result;           /* of the step */
	bool writes;          /* the step makes all words NEW_WORD; where it fails, some */
	bool gone;            /* the device was taken away */
};

/* All of VRAM but PAGES pages, for steps that want it full. */
struct rest {
	int fd;
	struct hetsim_buffer buffer;
};

/* ---- steps ---- */

static void nothing(struct scene *scene)
{
	(void)scene;
}

static void moved(struct scene *scene)
{
	migrate_there(&scene->mirror, scene->bytes, BYTES);
	CHECK_EQUAL(migrate_on_device(&scene->mirror, scene->bytes, BYTES), PAGES);
}

/* The next use by the engine moves them. */
static void advised(struct scene *scene)
{
	CHECK_EQUAL(mirror_advise(&scene->mirror, scene->bytes, BYTES, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_DEVICE),
		    0);
	scene->writes = true;
}

static int advise_cache(struct scene *scene)
{
	return mirror_advise(&scene->mirror, scene->bytes, BYTES, HETSIM_ADVISE_CACHE,
			     PAGES / 2 * PAGE);
}

static void cached(struct scene *scene)
{
	CHECK_EQUAL(advise_cache(scene), 0);
}

static int run_there(struct scene *scene)
{
	return mirror_prefetch(&scene->mirror, scene->bytes, BYTES, HETSIM_LOCATION_DEVICE,
			       HETSIM_PREFETCH_WRITE)
		.status;
}

static int run_back(struct scene *scene)
{
	return mirror_prefetch(&scene->mirror, scene->bytes, BYTES, HETSIM_LOCATION_HOST, 0)
		.status;
}

static int run_fault(struct scene *scene)
{
	return mirror_fill(&scene->mirror, scene->bytes, BYTES, NEW_WORD).status;
}

/* Pages that the engine uses often move to its cache. */
static int run_cached(struct scene *scene)
{
	int i, r = 0;

	for (i = 0; i < 8 && !r; i++)
		r = mirror_read(&scene->mirror, scene->bytes + 3 * PAGE, PAGE).status;
	return r;
}

/* A device that could not make room for want of memory has none. */
static int run_evict(struct scene *scene)
{
	struct hetsim_buffer buffer;
	int r = hetsim_buffer_create(scene->other, BYTES / 2, HETSIM_PLACE_VRAM, 0, &buffer);

	return r == -ENOSPC ? -ENOMEM : r;
}

/* A CPU that finds no memory for the pages tries again. */
static int run_touch(struct scene *scene)
{
	return *(volatile uint32_t *)(scene->bytes + 5 * PAGE) == 6 ? 0 : -EINVAL;
}

/* The kernel reads the bytes for a pipe, of which there are too many where memory fails. */
static int run_kernel_read(struct scene *scene)
{
	int pipe_of[2], r = 0;

	if (pipe2(pipe_of, O_CLOEXEC))
		return errno == ENFILE ? -ENOMEM : -errno;
	if (write(pipe_of[1], scene->bytes + 7 * PAGE, PAGE) < 0)
		r = -errno;
	close(pipe_of[0]);
	close(pipe_of[1]);
	return r;
}

static bool holds(const struct scene *scene)
{
	unsigned int i;

	for (i = 0; i < PAGES; i++)
		if (!mirror_words_are(scene->bytes + (size_t)i * PAGE, PAGE, i + 1))
			return false;
	return true;
}

/* Parent and child share pages in the device's memory. */
static int run_fork(struct scene *scene)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid)
		_exit(holds(scene) ? 0 : 1);
	if (waitpid(pid, &status, 0) != pid)
		return -errno;
	return status ? -EINVAL : 0;
}

static int run_close(struct scene *scene)
{
	int fd = scene->mirror.fd;

	scene->mirror.fd = -1;
	return close(fd) ? -errno : 0;
}

static int run_unplug(struct scene *scene)
{
	int r = hetsim_inject(scene->mirror.fd, HETSIM_INJECT_UNPLUG, 0, 0);

	/* The answer could not be written, the call has had its effect. */
	scene->gone = !r || (r == -EFAULT && access(HETSIM_PATH, F_OK));
	return r;
}

/*
 * @least: failures that there are to inject, where the device's memory is its own pages, and where
 * moved pages have further memory behind them.
 */
static const struct step {
	const char *name;
	int (*run)(struct scene *scene);
	void (*before)(struct scene *scene);
	bool by_engine; /* a queue's thread meets the failures */
	bool full;      /* another opener has all of VRAM but for the pages */
	struct {
		unsigned int coherent, private;
	} least;
} steps[] = {
	{ "there", run_there, nothing, true, false, { 1, PAGES + 1 } },
	{ "device fault", run_fault, advised, true, false, { 1, PAGES + 1 } },
	{ "cached", run_cached, cached, true, false, { 1, 2 } },
	{ "back", run_back, moved, true, false, { PAGES, PAGES } },
	{ "advise cache", advise_cache, nothing, false, false, { 2, 2 } },
	{ "evict", run_evict, moved, false, true, { PAGES + PAGES / 2, PAGES + PAGES / 2 } },
	{ "touch", run_touch, moved, false, false, { 0, PAGES } },
	{ "kernel's read", run_kernel_read, moved, false, false, { 4, PAGES } },
	{ "fork", run_fork, moved, false, false, { 10, 10 } },
	{ "close", run_close, moved, false, false, { PAGES, PAGES } },
	{ "unplug", run_unplug, moved, false, false, { PAGES, PAGES } },
};

/* ---- the scene of each try ---- */

/* fail-nth of the thread of the only queue of the device. */
static int engine_open(void)
{
	char name[32] = "", path[64];
	int file = -1;
	glob_t found;
	size_t i;

	CHECK_EQUAL(glob("/proc/[0-9]*/comm", GLOB_NOSORT, NULL, &found), 0);
	for (i = found.gl_pathc; i-- && file < 0;) {
		FILE *comm = fopen(found.gl_pathv[i], "re");

		if (!comm)
			continue;
		if (fgets(name, sizeof(name), comm) && !strncmp(name, "hetsim0-", 8)) {
			snprintf(path, sizeof(path), "%.*s/fail-nth",
				 (int)strlen(found.gl_pathv[i]) - 5, found.gl_pathv[i]);
			file = open(path, O_RDWR | O_CLOEXEC);
		}
		fclose(comm);
	}
	globfree(&found);
	CHECK_FATAL(file >= 0);
	return file;
}

static void set_up(struct scene *scene)
{
	struct hetsim_mirror says;
	unsigned int i;
	size_t word;

	*scene = (struct scene){ .other = -1 };
	CHECK_FATAL(migrate_open(&scene->mirror, &says));
	scene->other = hetsim_open(O_RDWR);
	scene->bytes = mirror_map(MIRROR_HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	CHECK_EQUAL(madvise(scene->bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	for (i = 0; i < PAGES; i++)
		for (word = 0; word < PAGE / 4; word++)
			((uint32_t *)(void *)scene->bytes)[i * (PAGE / 4) + word] = i + 1;
}

/* Each word is as it was, or as the step writes it: where that was done, all are. */
static bool is_whole(const struct scene *scene)
{
	const uint32_t *words = (const uint32_t *)(const void *)scene->bytes;
	size_t i;

	if (!scene->writes)
		return holds(scene);
	if (!scene->result)
		return mirror_words_are(scene->bytes, BYTES, NEW_WORD);
	for (i = 0; i < BYTES / 4; i++)
		if (words[i] != NEW_WORD && words[i] != i / (PAGE / 4) + 1)
			return false;
	return true;
}

/* The pages can be moved again, by the same opener if its file is open, else by a new one. */
static void again(struct scene *scene)
{
	struct hetsim_mirror says;

	if (scene->gone)
		hetsim_plug();
	if (scene->mirror.fd >= 0 && !scene->gone) {
		/* Pages that a child has shared come back as the engine wants to write to them. */
		migrate_back(&scene->mirror, scene->bytes, BYTES);
		moved(scene);
		return;
	}
	if (scene->mirror.fd >= 0)
		close(scene->mirror.fd);
	CHECK_EQUAL(munmap(scene->mirror.result, PAGE), 0);
	CHECK_FATAL(migrate_open(&scene->mirror, &says));
	moved(scene);
}

static void tidy(struct scene *scene, const struct step *step, unsigned int nth,
		 const struct rest *rest)
{
	if (!is_whole(scene))
		test_fail(__FILE__, __LINE__, "%s: failure %u: other bytes", step->name, nth);
	if (!step->full)
		again(scene);
	if (!is_whole(scene))
		test_fail(__FILE__, __LINE__, "%s: failure %u: later other bytes", step->name,
			  nth);
	mirror_close(&scene->mirror);
	close(scene->other);
	CHECK_EQUAL(munmap(scene->bytes, MIRROR_HUGE), 0);
	if (!step->full) {
		CHECK_EQUAL(hetsim_objects(), 0);
		return;
	}
	CHECK_EQUAL(hetsim_buffer_move(rest->fd, rest->buffer.handle, 0, rest->buffer.length,
				       HETSIM_PLACE_VRAM),
		    0);
	CHECK_EQUAL(hetsim_query(rest->fd).vram_used, rest->buffer.length);
}

/* The device counts no page any more. */
static void check_unused(const char *name)
{
	int fd = hetsim_open(O_RDWR);
	struct hetsim_query query = hetsim_query(fd);

	if (query.vram_used || query.system_used)
		test_fail(__FILE__, __LINE__, "%s: %llu bytes of VRAM, %llu of system", name,
			  (unsigned long long)query.vram_used,
			  (unsigned long long)query.system_used);
	close(fd);
}

/* ---- failures ---- */

struct step_of_scene {
	const struct step *step;
	struct scene *scene;
};

static int run_step(void *user)
{
	const struct step_of_scene *both = user;

	both->scene->result = both->step->run(both->scene);
	return both->scene->result;
}

static struct rest rest_make(void)
{
	struct rest rest = { .fd = hetsim_open(O_RDWR) };

	CHECK_EQUAL(hetsim_buffer_create(rest.fd, hetsim_query(rest.fd).vram_bytes - BYTES,
					 HETSIM_PLACE_VRAM, 0, &rest.buffer),
		    0);
	return rest;
}

static void walk(const struct step *step, int nth_file, unsigned int least)
{
	struct rest rest = { .fd = -1 };
	struct scene scene;
	struct step_of_scene both = { step, &scene };
	bool injected = true;
	unsigned int nth;

	if (step->full)
		rest = rest_make();
	for (nth = 1; injected && nth < FAIL_NTH_MOST; nth++) {
		int engine = -1;

		set_up(&scene);
		step->before(&scene);
		if (step->by_engine)
			engine = engine_open();
		injected = fail_nth_run(step->by_engine ? engine : nth_file, step->name, nth,
					run_step, &both);
		if (step->by_engine)
			close(engine);
		tidy(&scene, step, nth, &rest);
	}
	if (step->full)
		close(rest.fd);
	fail_nth_enough(step->name, nth, least);
	check_unused(step->name);
}

/* The form of migration that the device has; HETSIM_MIGRATION_NONE, too, without a device. */
static uint32_t form_of_device(void)
{
	struct hetsim_mirror says = { .migration = HETSIM_MIGRATION_NONE };
	struct mirror mirror;

	if (migrate_open(&mirror, &says)) {
		if (!hetsim_may_unplug(mirror.fd))
			says.migration = HETSIM_MIGRATION_NONE;
		mirror_close(&mirror);
	}
	return says.migration;
}

static void walk_all(int nth_file, uint32_t form)
{
	size_t i;

	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		walk(&steps[i], nth_file,
		     form == HETSIM_MIGRATION_PRIVATE ? steps[i].least.private :
							steps[i].least.coherent);
}

static void test_walk(void)
{
	int nth_file = fail_nth_open();
	uint32_t form;

	if (nth_file < 0)
		return;
	form = form_of_device();
	if (form != HETSIM_MIGRATION_NONE)
		walk_all(nth_file, form);
	close(nth_file);
}

/* The PCI address of memory that nothing else uses: false if there is none. */
static bool find_bar(char *address, size_t size)
{
	bool is = false;
	glob_t found;
	size_t i;

	if (glob("/sys/bus/pci/devices/*/modalias", 0, NULL, &found))
		return false;
	for (i = 0; i < found.gl_pathc && !is; i++) {
		FILE *file = fopen(found.gl_pathv[i], "re");
		char alias[128] = "";

		if (!file)
			continue;
		if (fgets(alias, sizeof(alias), file))
			is = !strncmp(alias, "pci:v00001AF4d00001110", 22);
		fclose(file);
		if (is)
			snprintf(address, size, "%.12s",
				 found.gl_pathv[i] + strlen("/sys/bus/pci/devices/"));
	}
	globfree(&found);
	return is;
}

/* The same, with pages in a BAR that CPUs reach: the module is loaded anew for it. */
static void test_coherent(void)
{
	char before[1024], parameters[128], address[16];
	int nth_file = fail_nth_open(), file;

	if (nth_file < 0)
		return;
	file = find_bar(address, sizeof(address)) ? module_open() : -2;
	if (file == -2)
		test_skip("kernel", "the machine has no ivshmem: tests/vm/check-debug has");
	if (file >= 0) {
		module_parameters(before, sizeof(before));
		CHECK_EQUAL(module_unload(), 0);
		snprintf(parameters, sizeof(parameters), COHERENT " bar=%s", address);
		CHECK_EQUAL(module_load(file, parameters), 0);
		CHECK_EQUAL(form_of_device(), HETSIM_MIGRATION_COHERENT);
		walk_all(nth_file, HETSIM_MIGRATION_COHERENT);
		CHECK_EQUAL(module_unload(), 0);
		CHECK_EQUAL(module_load(file, before), 0);
		close(file);
	}
	close(nth_file);
}

static const struct test tests[] = {
	{ "walk", test_walk, 60, TEST_ONCE },
	{ "insmod_coherent", test_coherent, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "hetsim_failslab_migrate", tests)
