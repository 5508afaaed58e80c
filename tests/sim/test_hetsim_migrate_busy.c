// SPDX-License-Identifier: MIT
/*
 * hetsim: the device is unplugged, its driver taken away, and its module unloaded, while threads
 * move pages of the process to its memory and back, use them by CPU and by the engine: no byte is
 * lost, no page stays behind, and the module goes once all files are closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim.h"
#include "sim/migrate_support.h"
#include "sim/module_support.h"
#include "sim/sim_tests.h"

#define WORKERS 3
#define PAGES 48u  /* of a worker, whose words are all the same */
#define COUNTS 16u /* pages behind them, each with a number that another thread counts up */
#define BYTES ((PAGES + COUNTS) * PAGE)
#define ROUNDS 6
#define RW (PROT_READ | PROT_WRITE)
#define DRIVER "/sys/bus/platform/drivers/hetsim/"

struct worker {
	pthread_t thread, counter;
	unsigned char *bytes;
	_Atomic bool *stop;
	_Atomic unsigned long moves; /* to the device, so far */
	unsigned long opened;
	uint64_t counted;
	uint32_t word;
	unsigned int cycle;
};

struct load {
	struct worker workers[WORKERS];
	_Atomic bool stop;
};

/* ---- a device that may go at any time: 0 or a negative errno ---- */

struct opened {
	int fd;
	uint32_t queue;
};

static int end_of(const struct opened *opened, uint64_t seqno)
{
	struct hetsim_wait wait = {
		.size = sizeof(wait),
		.queue = opened->queue,
		.seqno = seqno,
		.deadline_ns = UINT64_MAX,
	};
	int r = hetsim_call(opened->fd, HETSIM_WAIT, &wait);

	return r ? r : wait.status;
}

static int move(const struct opened *opened, const void *bytes, uint32_t location)
{
	struct hetsim_prefetch prefetch = {
		.size = sizeof(prefetch),
		.flags = location == HETSIM_LOCATION_DEVICE ? HETSIM_PREFETCH_WRITE : 0,
		.queue = opened->queue,
		.location = location,
		.address = (uintptr_t)bytes,
		.length = BYTES,
	};
	int r = hetsim_call(opened->fd, HETSIM_PREFETCH, &prefetch);

	return r ? r : end_of(opened, prefetch.seqno);
}

static int fill(const struct opened *opened, void *bytes, uint32_t word)
{
	struct hetsim_command command = {
		.op = HETSIM_OP_FILL,
		.destination = (uintptr_t)bytes,
		.length = PAGES * PAGE,
		.value = word,
	};
	uint64_t seqno = 0;
	int r = hetsim_submit(opened->fd, opened->queue, &command, 1, &seqno);

	return r ? r : end_of(opened, seqno);
}

static int open_one(struct opened *ret_opened)
{
	struct hetsim_queue_create queue = { .size = sizeof(queue),
					     .type = HETSIM_QUEUE_COUNTER,
					     .timeout_ms = HETSIM_MAX_TIMEOUT_MS };
	struct hetsim_mirror mirror = { .size = sizeof(mirror) };
	int fd = hetsim_open_try(O_RDWR), r;

	if (fd < 0)
		return -ENODEV;
	r = hetsim_call(fd, HETSIM_HANDSHAKE,
			SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR,
			      .version_minor = HETSIM_VERSION_MINOR));
	if (!r)
		r = hetsim_call(fd, HETSIM_MIRROR, &mirror);
	if (!r)
		r = hetsim_call(fd, HETSIM_QUEUE_CREATE, &queue);
	if (r)
		hetsim_close(fd);
	else
		*ret_opened = (struct opened){ .fd = fd, .queue = queue.queue };
	return r;
}

/* ---- the load ---- */

static void check_words(const struct worker *worker)
{
	if (!mirror_words_are(worker->bytes, PAGES * PAGE, worker->word))
		test_fail(__FILE__, __LINE__, "cycle %u: other bytes than %x", worker->cycle,
			  worker->word);
}

static void cpu_fill(struct worker *worker, uint32_t word)
{
	volatile uint32_t *words = (volatile uint32_t *)(void *)worker->bytes;
	size_t i;

	for (i = 0; i < PAGES * PAGE / 4; i++)
		words[i] = word;
	worker->word = word;
}

/* The engine writes all words: where it is taken away meanwhile, some of them. */
static int engine_fill(struct worker *worker, const struct opened *opened)
{
	const volatile uint32_t *words = (const volatile uint32_t *)(void *)worker->bytes;
	uint32_t before = worker->word, after = before + 1;
	int r = fill(opened, worker->bytes, after);
	size_t i;

	if (!r) {
		worker->word = after;
		return 0;
	}
	for (i = 0; i < PAGES * PAGE / 4; i++) {
		uint32_t word = words[i];

		if (word != before && word != after) {
			test_fail(__FILE__, __LINE__, "word %zu is %x, not %x or %x", i, word,
				  before, after);
			break;
		}
	}
	cpu_fill(worker, after);
	return r;
}

/* There, used, and every third time back: by PREFETCH or as the CPU uses the pages. */
static int cycle(struct worker *worker, const struct opened *opened)
{
	int r = move(opened, worker->bytes, HETSIM_LOCATION_DEVICE);

	if (r)
		return r;
	worker->moves++;
	worker->cycle++;
	r = engine_fill(worker, opened);
	if (!r && worker->cycle % 3 == 1)
		r = move(opened, worker->bytes, HETSIM_LOCATION_HOST);
	if (worker->cycle % 3 == 2) {
		check_words(worker);
		cpu_fill(worker, worker->word + 1);
	}
	return r;
}

/* At the end its pages are in the device's memory, as the file is closed. */
static void *work(void *user)
{
	struct worker *worker = user;
	struct opened opened;
	int r;

	while (!*worker->stop) {
		r = open_one(&opened);
		if (r == -ENODEV) {
			sched_yield();
			continue;
		}
		CHECK_EQUAL(r, 0);
		if (r)
			break;
		worker->opened++;
		while (!r && !*worker->stop)
			r = cycle(worker, &opened);
		if (!r)
			r = move(&opened, worker->bytes, HETSIM_LOCATION_DEVICE);
		if (r && r != -ENODEV)
			test_fail(__FILE__, __LINE__, "cycle %u: %d", worker->cycle, r);
		if (r)
			check_words(worker);
		hetsim_close(opened.fd);
	}
	return NULL;
}

static volatile uint64_t *count_of(const struct worker *worker, unsigned int i)
{
	return (volatile uint64_t *)(void *)(worker->bytes + (size_t)(PAGES + i) * PAGE);
}

/* Other pages of the same chunk: a CPU's stores meanwhile. */
static void *count(void *user)
{
	struct worker *worker = user;
	unsigned int i;

	while (!*worker->stop) {
		for (i = 0; i < COUNTS; i++)
			++*count_of(worker, i);
		worker->counted++;
		sched_yield();
	}
	return NULL;
}

static void load_start(struct load *load)
{
	unsigned int i;

	memset(load, 0, sizeof(*load));
	for (i = 0; i < WORKERS; i++) {
		struct worker *worker = &load->workers[i];

		worker->stop = &load->stop;
		worker->bytes = mirror_map(MIRROR_HUGE, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1);
		CHECK_EQUAL(madvise(worker->bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
		cpu_fill(worker, i << 24);
		CHECK_FATAL(!pthread_create(&worker->thread, NULL, work, worker));
		CHECK_FATAL(!pthread_create(&worker->counter, NULL, count, worker));
	}
}

/* Waits until each worker has moved its pages again. */
static void load_goes_on(struct load *load)
{
	double until = test_now() + 120;
	unsigned long before;
	unsigned int i;

	for (i = 0; i < WORKERS; i++) {
		struct worker *worker = &load->workers[i];

		before = worker->moves;
		while (worker->moves == before && test_now() < until)
			usleep(1000);
		CHECK(worker->moves > before);
	}
}

static void load_stop(struct load *load)
{
	unsigned int i;

	load->stop = true;
	for (i = 0; i < WORKERS; i++) {
		pthread_join(load->workers[i].thread, NULL);
		pthread_join(load->workers[i].counter, NULL);
	}
}

static void load_check(struct load *load)
{
	unsigned int i, j;

	for (i = 0; i < WORKERS; i++) {
		struct worker *worker = &load->workers[i];

		check_words(worker);
		for (j = 0; j < COUNTS; j++)
			CHECK_EQUAL(*count_of(worker, j), worker->counted);
		CHECK(worker->counted > 0);
		CHECK_EQUAL(munmap(worker->bytes, MIRROR_HUGE), 0);
	}
}

/* ---- changes under it ---- */

/* Tells the driver of the first device. */
static void tell(const char *file)
{
	static const char name[] = "hetsim.0";
	char path[64] = DRIVER;
	int fd;

	strcat(path, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(write(fd, name, strlen(name)), (ssize_t)strlen(name));
	close(fd);
}

static void unbind(void)
{
	tell("unbind");
	CHECK(access(HETSIM_PATH, F_OK));
	tell("bind");
}

static void unplug(void)
{
	int fd = hetsim_open(O_RDWR);

	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	CHECK(access(HETSIM_PATH, F_OK));
	hetsim_close(fd);
	hetsim_plug();
}

static bool may_take_away(void)
{
	int fd = hetsim_open(O_RDWR);
	bool may;

	if (fd < 0)
		return false;
	may = hetsim_may_unplug(fd);
	hetsim_close(fd);
	return may;
}

static void check_nothing_left(void)
{
	int fd = hetsim_open(O_RDWR);

	CHECK_EQUAL(hetsim_query(fd).vram_used, 0);
	hetsim_close(fd);
	CHECK_EQUAL(hetsim_objects(), 0);
}

static void taken_away(void (*take_away)(void))
{
	struct load load;
	unsigned int i;

	if (!may_take_away())
		return;
	load_start(&load);
	for (i = 0; i < ROUNDS; i++) {
		load_goes_on(&load);
		usleep(i * 3000);
		take_away();
	}
	load_goes_on(&load);
	load_stop(&load);
	for (i = 0; i < WORKERS; i++)
		CHECK(load.workers[i].opened > ROUNDS / 2);
	check_nothing_left();
	load_check(&load);
}

static void test_unplug(void)
{
	taken_away(unplug);
}

static void test_unbind(void)
{
	taken_away(unbind);
}

/*
 * The module stays while a file is open. Once the last file is closed it can be unloaded, although
 * no CPU has touched the pages since they were in the device's memory.
 */
static void test_unload(void)
{
	char parameters[1024];
	struct load load;
	int file, i, r;

	TEST_NEEDS(may_take_away());
	file = module_open();
	if (file < 0)
		return;
	module_parameters(parameters, sizeof(parameters));
	load_start(&load);
	load_goes_on(&load);
	for (i = 0; i < ROUNDS; i++) {
		int fd = hetsim_open(O_RDWR);

		r = module_unload();
		CHECK(r == -EWOULDBLOCK || r == -EBUSY);
		hetsim_close(fd);
		load_goes_on(&load);
	}
	load_stop(&load);
	CHECK_EQUAL(module_unload(), 0);
	module_is_gone("unloaded after moves");
	load_check(&load);
	CHECK_EQUAL(module_load(file, parameters), 0);
	close(file);
}

static const struct test tests[] = {
	{ "unplug_moving", test_unplug, 120, SIM_MIGRATES },
	{ "unbind_moving", test_unbind, 120, SIM_MIGRATES },
	{ "insmod_moving", test_unload, 120, SIM_MIGRATES },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_migrate_busy", tests, NULL)
