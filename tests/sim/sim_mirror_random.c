// SPDX-License-Identifier: MIT
/*
 * Random operations of four threads and two openers, of two devices where there are two, against a
 * model of each page. Pages of all threads lie between each other, so that each operation is one
 * next to what the others do.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/mirror_support.h"
#include "sim/sim_tests.h"

#define RW (PROT_READ | PROT_WRITE)
#define THREADS 4
#define DEVICES 2
#define PAGES 1024       /* of all threads: two of the largest chunks */
#define OPERATIONS 10000 /* less where each takes longest: see test_every() */

/* What a page must be like. */
struct page {
	bool mapped, of_file;
	int prot;
	uint32_t word;      /* all of its words, where it is mapped */
	uint32_t file_word; /* those of the file's page of that number */
	bool no_access[DEVICES];
};

static struct {
	unsigned char *arena;
	int file;
	struct page pages[PAGES];
	struct mirror mirrors[DEVICES];
} world;

struct worker {
	unsigned int number;
	uint64_t random;
	uint32_t queue[DEVICES];
	unsigned char *own; /* a page for what is copied out */
	pthread_t thread;
	unsigned int n_operations;
};

static unsigned char *at(unsigned int page)
{
	return world.arena + (size_t)page * PAGE;
}

static unsigned int pick(struct worker *worker, unsigned int n)
{
	return (unsigned int)(test_random(&worker->random) % n);
}

/* ---- what the model expects of the engine ---- */

static uint32_t refusal(const struct page *page, unsigned int device, bool write)
{
	if (page->no_access[device])
		return HETSIM_REASON_NO_ACCESS;
	if (!page->mapped)
		return HETSIM_REASON_UNMAPPED;
	if (!(page->prot & PROT_READ))
		return HETSIM_REASON_READ;
	return write && !(page->prot & PROT_WRITE) ? HETSIM_REASON_WRITE : HETSIM_REASON_NONE;
}

static void expect(const struct worker *worker, struct mirror_end end, unsigned int number,
		   unsigned int device, bool write, const char *what)
{
	const struct page *page = &world.pages[number];
	uint32_t reason = refusal(page, device, write);
	bool right = reason ? end.status == -EFAULT && end.reason == reason &&
				      end.address == (uintptr_t)at(number) :
			      end.status == 0;

	if (!right)
		test_fail(
			__FILE__, __LINE__,
			"thread %u, page %u, device %u, %s: status %d, reason %u at %llx, not "
			"reason %u at %p",
			worker->number, number, device, what, end.status, end.reason,
			(unsigned long long)end.address, reason, (void *)at(number));
}

static struct mirror_end run(const struct worker *worker, unsigned int device,
			     const struct hetsim_command *command)
{
	return mirror_run_on(&world.mirrors[device], worker->queue[device], command);
}

/* ---- operations on a page of the thread ---- */

static void device_write(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];
	unsigned int device = pick(worker, DEVICES);
	struct hetsim_command command = {
		.op = HETSIM_OP_FILL,
		.destination = (uintptr_t)at(number),
		.length = PAGE,
		.value = (uint32_t)test_random(&worker->random),
	};

	expect(worker, run(worker, device, &command), number, device, true, "write");
	if (!refusal(page, device, true))
		page->word = (uint32_t)command.value;
}

static void device_read(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];
	unsigned int device = pick(worker, DEVICES);
	struct hetsim_command command = {
		.op = HETSIM_OP_COPY,
		.destination = (uintptr_t)worker->own,
		.source = (uintptr_t)at(number),
		.length = PAGE,
	};

	memset(worker->own, 0xa5, PAGE);
	expect(worker, run(worker, device, &command), number, device, false, "read");
	if (!refusal(page, device, false) && !mirror_words_are(worker->own, PAGE, page->word))
		test_fail(__FILE__, __LINE__, "thread %u, page %u: the device read %x, not %x",
			  worker->number, number, *(uint32_t *)worker->own, page->word);
}

static void cpu_check(struct worker *worker, unsigned int number)
{
	const struct page *page = &world.pages[number];

	if (page->mapped && page->prot & PROT_READ &&
	    !mirror_words_are(at(number), PAGE, page->word))
		test_fail(__FILE__, __LINE__, "thread %u, page %u: the CPU read %x, not %x",
			  worker->number, number, *(uint32_t *)at(number), page->word);
}

static void cpu_write(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];
	uint32_t *words = (uint32_t *)at(number);
	size_t i;

	if (!page->mapped || page->prot != RW)
		return;
	page->word = (uint32_t)test_random(&worker->random);
	for (i = 0; i < PAGE / 4; i++)
		words[i] = page->word;
}

static void protect(struct worker *worker, unsigned int number)
{
	static const int prots[] = { PROT_NONE, PROT_READ, RW, RW };
	struct page *page = &world.pages[number];

	if (!page->mapped)
		return;
	page->prot = prots[pick(worker, 4)];
	CHECK_EQUAL(mprotect(at(number), PAGE, page->prot), 0);
}

static void forget(struct page *page)
{
	if (page->mapped && page->of_file)
		page->file_word = page->word;
	page->mapped = false;
}

static void map(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];
	int flags = MAP_FIXED;

	forget(page);
	page->of_file = pick(worker, 2);
	page->mapped = true;
	page->prot = RW;
	page->word = page->of_file ? page->file_word : 0;
	flags |= page->of_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	CHECK_EQUAL(mmap(at(number), PAGE, RW, flags, page->of_file ? world.file : -1,
			 page->of_file ? (off_t)number * PAGE : 0) == at(number),
		    true);
}

static void unmap(struct worker *worker, unsigned int number)
{
	(void)worker;
	forget(&world.pages[number]);
	CHECK_EQUAL(munmap(at(number), PAGE), 0);
}

static void give_up(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];

	(void)worker;
	if (!page->mapped)
		return;
	CHECK_EQUAL(madvise(at(number), PAGE, MADV_DONTNEED), 0);
	if (!page->of_file)
		page->word = 0;
}

static void move(struct worker *worker, unsigned int number)
{
	unsigned int other = pick(worker, PAGES / THREADS) * THREADS + worker->number;
	struct page *from = &world.pages[number], *to = &world.pages[other];

	/* A page of the file is to stay at the place of its number. */
	if (!from->mapped || from->of_file || other == number)
		return;
	forget(to);
	CHECK_EQUAL(mremap(at(number), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at(other)) ==
			    at(other),
		    true);
	to->mapped = true;
	to->of_file = false;
	to->prot = from->prot;
	to->word = from->word;
	from->mapped = false;
}

static void advise(struct worker *worker, unsigned int number)
{
	struct page *page = &world.pages[number];
	unsigned int device = pick(worker, DEVICES), kind = pick(worker, 10);
	const struct mirror *mirror = &world.mirrors[device];

	if (kind < 4) {
		page->no_access[device] = !kind;
		CHECK_EQUAL(mirror_advise(mirror, at(number), PAGE, HETSIM_ADVISE_NO_ACCESS,
					  !kind),
			    0);
	} else if (kind < 6) {
		CHECK_EQUAL(mirror_advise(mirror, at(number), PAGE,
					  kind == 4 ? HETSIM_ADVISE_ACCESSED_BY :
						      HETSIM_ADVISE_READ_MOSTLY,
					  pick(worker, 2)),
			    0);
	} else if (kind < 8) {
		/* Where pages can move to the device: up to 24, and seldom another limit. */
		CHECK_EQUAL(mirror_advise(mirror, at(number), PAGE, HETSIM_ADVISE_CACHE,
					  (uint64_t)(pick(worker, 16) ? 24 : pick(worker, 4)) *
						  PAGE),
			    0);
	} else {
		CHECK_EQUAL(mirror_advise(mirror, at(number), PAGE, HETSIM_ADVISE_GRANULE, 0),
			    0);
	}
}

static void prefetch(struct worker *worker, unsigned int number)
{
	unsigned int device = pick(worker, DEVICES);
	bool write = pick(worker, 2);
	struct mirror mirror = world.mirrors[device];

	mirror.queue = worker->queue[device];
	expect(worker,
	       mirror_prefetch(&mirror, at(number), PAGE, HETSIM_LOCATION_DEVICE,
			       write ? HETSIM_PREFETCH_WRITE : 0),
	       number, device, write, "prefetch");
}

/* Over pages of all threads: it may end anywhere, but for a reason that there can be. */
static void read_all(struct worker *worker, unsigned int number)
{
	unsigned int device = pick(worker, DEVICES);
	struct hetsim_command command = {
		.op = HETSIM_OP_CRC32,
		.destination = (uintptr_t)worker->own,
		.source = (uintptr_t)at(number),
		.length = (uint64_t)(PAGES - number < 32 ? PAGES - number : 32) * PAGE,
	};
	struct mirror_end end = run(worker, device, &command);

	if (end.status && (end.status != -EFAULT || (end.reason != HETSIM_REASON_UNMAPPED &&
						     end.reason != HETSIM_REASON_READ &&
						     end.reason != HETSIM_REASON_NO_ACCESS)))
		test_fail(__FILE__, __LINE__, "over all: status %d, reason %u", end.status,
			  end.reason);
}

/* A child shares the pages until one of the two writes. */
static void branch(struct worker *worker, unsigned int number)
{
	const struct page *page = &world.pages[number];
	int status = 0;
	pid_t child;

	if (worker->number || pick(worker, 8))
		return;
	child = fork();
	if (!child)
		_exit(page->mapped && page->prot & PROT_READ &&
				      !mirror_words_are(at(number), PAGE, page->word) ?
			      1 :
			      0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
}

static const struct {
	void (*run)(struct worker *worker, unsigned int number);
	unsigned int weight;
} operations[] = {
	{ device_write, 24 }, { device_read, 24 }, { cpu_check, 8 }, { cpu_write, 12 },
	{ protect, 10 },      { map, 12 },         { unmap, 3 },     { give_up, 6 },
	{ move, 5 },          { advise, 6 },       { prefetch, 6 },  { read_all, 3 },
	{ branch, 2 },
};

#define N_OPERATIONS (sizeof(operations) / sizeof(operations[0]))

static void *work(void *user)
{
	struct worker *worker = user;
	unsigned int i, total = 0, which, left;

	for (i = 0; i < N_OPERATIONS; i++)
		total += operations[i].weight;
	for (i = 0; i < worker->n_operations; i++) {
		left = pick(worker, total);
		for (which = 0; left >= operations[which].weight; which++)
			left -= operations[which].weight;
		operations[which].run(worker,
				      pick(worker, PAGES / THREADS) * THREADS + worker->number);
	}
	for (i = worker->number; i < PAGES; i += THREADS)
		cpu_check(worker, i);
	return NULL;
}

static bool world_make(void)
{
	unsigned int i;
	int fd = -1;

	if (!mirror_open(&world.mirrors[0]))
		return false;
	if (!hetsim_soft_has(world.mirrors[0].fd))
		fd = open(HETSIM_SECOND, O_RDWR | O_CLOEXEC);
	if (fd >= 0) {
		CHECK_EQUAL(hetsim_call(fd, HETSIM_HANDSHAKE,
					SIZED(hetsim_handshake,
					      .version_major = HETSIM_VERSION_MAJOR,
					      .version_minor = HETSIM_VERSION_MINOR)),
			    0);
	} else {
		fd = hetsim_open(O_RDWR);
	}
	CHECK_FATAL(fd >= 0 && mirror_start(&world.mirrors[1], fd));
	world.file = memfd_create("mirror", MFD_CLOEXEC);
	CHECK_FATAL(world.file >= 0 && ftruncate(world.file, (off_t)PAGES * PAGE) == 0);
	world.arena = mirror_map((size_t)PAGES * PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1);
	memset(world.pages, 0, sizeof(world.pages));
	for (i = 0; i < PAGES; i++)
		world.pages[i] = (struct page){ .mapped = true, .prot = RW };
	return true;
}

static void test_random_operations(void)
{
	struct worker workers[THREADS];
	uint64_t seed = test_seed();
	unsigned int i, j, first, every = test_every(&first);

	if (!world_make())
		return;
	printf("seed %llu\n", (unsigned long long)seed);
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){ .number = i,
					      .random = seed + i * 7919,
					      .n_operations = OPERATIONS / THREADS /
							      (every > 3 ? every : 1) };
		for (j = 0; j < DEVICES; j++)
			workers[i].queue[j] = hetsim_queue_make(world.mirrors[j].fd,
								HETSIM_QUEUE_COUNTER, 30000);
		workers[i].own = mmap(NULL, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK_FATAL(workers[i].own != MAP_FAILED);
	}
	for (i = 0; i < THREADS; i++)
		CHECK_FATAL(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	for (i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < THREADS; i++)
		CHECK_EQUAL(munmap(workers[i].own, PAGE), 0);
	CHECK_EQUAL(munmap(world.arena, (size_t)PAGES * PAGE), 0);
	close(world.file);
	for (j = 0; j < DEVICES; j++)
		mirror_close(&world.mirrors[j]);
}

const struct test sim_mirror_random_tests[] = {
	{ "operations", test_random_operations, 60, 0 },
	{ NULL, NULL, 0, 0 },
};
