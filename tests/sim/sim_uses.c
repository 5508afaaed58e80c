// SPDX-License-Identifier: MIT
/*
 * The simulated device, be it the module or its twin: submissions that name buffers wait
 * for the fences of these, and leave theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "sim/sim_tests.h"
#include "sim/sync_support.h"
#include "lib/rig.h"

#define READ 0u
#define WRITE HETSIM_USE_WRITE
#define WAIT HETSIM_USE_WAIT_ONLY
#define FENCES HETSIM_QUEUE_DMA_FENCE

/* A file with two buffers, and a queue for work that may have to wait. */
struct scene {
	int fd;
	struct hetsim_buffer one, two;
	uint32_t queue;
};

static struct scene scene_make(void)
{
	struct scene scene = { 0 };

	scene.fd = hetsim_begin(O_RDWR);
	scene.one = hetsim_buffer_make(scene.fd, PAGE, HETSIM_PLACE_SYSTEM);
	scene.two = hetsim_buffer_make(scene.fd, PAGE, HETSIM_PLACE_SYSTEM);
	scene.queue = hetsim_queue_make(scene.fd, FENCES, 60000);
	return scene;
}

static void scene_end(struct scene *scene)
{
	hetsim_buffer_drop(scene->fd, &scene->one);
	hetsim_buffer_drop(scene->fd, &scene->two);
	hetsim_close(scene->fd);
}

AUTO_END(scene, scene_end)

/* Each kind of use after each other: only of two readers the second does not wait. */
static void test_rules(void)
{
	static const struct {
		uint32_t first, second;
		bool waits;
	} pairs[] = {
		{ READ, READ, false },          { READ, WRITE, true },
		{ WRITE, READ, true },          { WRITE, WRITE, true },
		{ WRITE, READ | WAIT, true },   { READ, READ | WAIT, false },
		{ READ, WRITE | WAIT, true },   { READ | WAIT, WRITE, false },
		{ WRITE | WAIT, WRITE, false },
	};
	uint64_t first, second;
	uint32_t stuck;
	size_t i;
	AUTO(scene) scene = scene_make();

	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		stuck = sync_make_stuck(scene.fd, FENCES);
		first = sync_use(scene.fd, stuck, scene.one.handle, pairs[i].first);
		second = sync_use(scene.fd, scene.queue, scene.one.handle, pairs[i].second);
		if (pairs[i].waits)
			CHECK(sync_is_waiting(scene.fd, scene.queue, second));
		else
			CHECK_EQUAL(sync_status(scene.fd, scene.queue, second), 0);
		CHECK(sync_is_waiting(scene.fd, stuck, first));
		sync_destroy_queue(scene.fd, stuck);
		CHECK_EQUAL(sync_status(scene.fd, scene.queue, second), 0);
	}
	CHECK_EQUAL(hetsim_counters(scene.fd, HETSIM_SCOPE_OPENER).resets, 0);
}

/* Work that names no buffer, or another one, does not wait; nor does a queue for itself. */
static void test_apart(void)
{
	uint64_t seqno = 0;
	AUTO(scene) scene = scene_make();
	uint32_t stuck = sync_make_stuck(scene.fd, FENCES);

	sync_use(scene.fd, stuck, scene.one.handle, WRITE);
	CHECK_EQUAL(hetsim_run(scene.fd, scene.queue, &sync_nothing), 0);
	seqno = sync_use(scene.fd, scene.queue, scene.two.handle, WRITE);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
	sync_use(scene.fd, scene.queue, scene.two.handle, WRITE);
	sync_use(scene.fd, scene.queue, scene.two.handle, READ);
	seqno = sync_use(scene.fd, scene.queue, scene.two.handle, WRITE);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
	sync_destroy_queue(scene.fd, stuck);
}

/* Several waits at once, and a reader that came while another one was there. */
static void test_several(void)
{
	struct hetsim_use both[2];
	uint32_t stuck[3], i;
	uint64_t seqno = 0;
	AUTO(scene) scene = scene_make();

	for (i = 0; i < 3; i++)
		stuck[i] = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck[0], scene.one.handle, READ);
	sync_use(scene.fd, stuck[1], scene.one.handle, READ);
	sync_use(scene.fd, stuck[2], scene.two.handle, WRITE);
	both[0] = (struct hetsim_use){ scene.one.handle, WRITE };
	both[1] = (struct hetsim_use){ scene.two.handle, READ };
	CHECK_EQUAL(sync_submit_uses(scene.fd, scene.queue, &sync_nothing, both, 2, &seqno), 0);
	for (i = 0; i < 3; i++) {
		CHECK(sync_is_waiting(scene.fd, scene.queue, seqno));
		sync_destroy_queue(scene.fd, stuck[i]);
	}
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
}

/* A buffer that is named twice counts as one, with the most that is asked of it. */
static void test_twice(void)
{
	struct hetsim_use uses[HETSIM_MAX_USES];
	uint32_t stuck, i;
	uint64_t seqno = 0, behind;
	AUTO(scene) scene = scene_make();

	for (i = 0; i < HETSIM_MAX_USES; i++)
		uses[i] = (struct hetsim_use){ scene.one.handle, i == 3 ? WRITE : READ | WAIT };
	stuck = sync_make_stuck(scene.fd, FENCES);
	CHECK_EQUAL(sync_submit_uses(scene.fd, stuck, &sync_nothing, uses, HETSIM_MAX_USES,
				     &seqno),
		    0);
	behind = sync_use(scene.fd, scene.queue, scene.one.handle, READ);
	CHECK(sync_is_waiting(scene.fd, scene.queue, behind));
	sync_destroy_queue(scene.fd, stuck);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, behind), 0);

	/* It waits as a writer, and stays as a reader. */
	uses[0] = (struct hetsim_use){ scene.one.handle, WRITE | WAIT };
	uses[1] = (struct hetsim_use){ scene.one.handle, READ };
	stuck = sync_make_stuck(scene.fd, FENCES);
	CHECK_EQUAL(sync_submit_uses(scene.fd, stuck, &sync_nothing, uses, 2, &seqno), 0);
	behind = sync_use(scene.fd, scene.queue, scene.one.handle, READ);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, behind), 0);
	sync_destroy_queue(scene.fd, stuck);
}

/* A queue whose work may wait for user space waits, but nothing waits for it by a buffer. */
static void test_counter(void)
{
	struct hetsim_use use;
	uint32_t stuck, counter, type;
	uint64_t seqno = 0;
	AUTO(scene) scene = scene_make();

	counter = hetsim_queue_make(scene.fd, HETSIM_QUEUE_COUNTER, 60000);
	for (type = READ; type <= WRITE; type++) {
		use = (struct hetsim_use){ scene.one.handle, type };
		CHECK_EQUAL(sync_submit_uses(scene.fd, counter, &sync_nothing, &use, 1, &seqno),
			    -EOPNOTSUPP);
	}
	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.one.handle, WRITE);
	seqno = sync_use(scene.fd, counter, scene.one.handle, READ | WAIT);
	CHECK_EQUAL(seqno, 1);
	CHECK(sync_is_waiting(scene.fd, counter, seqno));
	sync_destroy_queue(scene.fd, stuck);
	CHECK_EQUAL(sync_status(scene.fd, counter, seqno), 0);
}

/* All openers that have a buffer see its fences. */
static void test_openers(void)
{
	struct hetsim_import import;
	uint64_t seqno;
	uint32_t stuck;
	AUTO(scene) scene = scene_make();
	int other = hetsim_open(O_RDWR);
	int dmabuf = hetsim_export(scene.fd, scene.one.handle, HETSIM_EXPORT_WRITE);

	CHECK_FATAL(dmabuf >= 0);
	CHECK_EQUAL(hetsim_import(other, dmabuf, &import), 0);
	close(dmabuf);
	stuck = sync_make_stuck(other, FENCES);
	sync_use(other, stuck, import.handle, READ);
	seqno = sync_use(scene.fd, scene.queue, scene.one.handle, WRITE);
	CHECK(sync_is_waiting(scene.fd, scene.queue, seqno));
	/* The work goes with its opener. */
	hetsim_close(other);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
}

/* Two queues that hand a word to each other, without anybody who waits between. */
static void test_handed_over(void)
{
	enum { ROUNDS = 200 };
	const uint64_t late = TEST_TSAN ? 0 : 200000; /* ns of each command of one of them */
	struct hetsim_use writes, reads;
	struct hetsim_command fill = { .op = HETSIM_OP_FILL };
	struct hetsim_command copy = { .op = HETSIM_OP_COPY };
	uint64_t align, seqno = 0;
	uint32_t other, i;
	AUTO(scene) scene = scene_make();

	align = hetsim_query(scene.fd).dma_align;
	other = hetsim_queue_make(scene.fd, FENCES, 60000);
	CHECK_EQUAL(hetsim_bind(scene.fd, &scene.one, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_bind(scene.fd, &scene.two, HETSIM_BIND_WRITE), 0);
	CHECK_EQUAL(hetsim_inject(scene.fd, HETSIM_INJECT_LATENCY, scene.queue, late), 0);
	writes = (struct hetsim_use){ scene.one.handle, WRITE };
	reads = (struct hetsim_use){ scene.one.handle, READ };
	fill.destination = copy.source = (uintptr_t)scene.one.bytes;
	fill.length = copy.length = align;
	for (i = 0; i < ROUNDS; i++) {
		fill.value = i + 1;
		copy.destination = (uintptr_t)scene.two.bytes + i % (PAGE / align) * align;
		CHECK_EQUAL(sync_submit_uses(scene.fd, scene.queue, &fill, &writes, 1, &seqno),
			    0);
		CHECK_EQUAL(sync_submit_uses(scene.fd, other, &copy, &reads, 1, &seqno), 0);
	}
	CHECK_EQUAL(sync_status(scene.fd, other, seqno), 0);
	for (i = ROUNDS - (uint32_t)(PAGE / align < ROUNDS ? PAGE / align : ROUNDS); i < ROUNDS;
	     i++) {
		uint32_t word;

		memcpy(&word, scene.two.bytes + i % (PAGE / align) * align, 4);
		CHECK_EQUAL(word, i + 1);
	}
	CHECK_EQUAL(hetsim_unbind(scene.fd, &scene.one), 0);
	CHECK_EQUAL(hetsim_unbind(scene.fd, &scene.two), 0);
}

/* ---- ends ---- */

/* Failed work lets others go on, and hides its failure from none that asks. */
static void test_failed(void)
{
	uint64_t first = 0, second;
	AUTO(scene) scene = scene_make();
	uint32_t late = sync_make_late(scene.fd, FENCES);
	struct hetsim_use use = (struct hetsim_use){ scene.one.handle, WRITE };

	CHECK_EQUAL(sync_submit_uses(scene.fd, late, &sync_bad, &use, 1, &first), 0);
	second = sync_use(scene.fd, scene.queue, scene.one.handle, READ);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, second), 0);
	CHECK_EQUAL(sync_status(scene.fd, late, first), -EFAULT);
}

/* The time is up in the wait: it ends without a reset, and so do those behind it. */
static void test_timeout(void)
{
	uint64_t seqno, behind, after;
	uint32_t stuck, queue;
	AUTO(scene) scene = scene_make();

	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.one.handle, WRITE);
	queue = hetsim_queue_make(scene.fd, FENCES, SIM_TIMEOUT_MS);
	seqno = sync_use(scene.fd, queue, scene.one.handle, WRITE);
	behind = sync_use(scene.fd, queue, scene.two.handle, WRITE);
	after = sync_use(scene.fd, scene.queue, scene.two.handle, WRITE);
	CHECK_EQUAL(sync_status(scene.fd, queue, seqno), -ETIMEDOUT);
	CHECK_EQUAL(sync_status(scene.fd, queue, behind), -ECANCELED);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, after), 0);
	CHECK_EQUAL(hetsim_run(scene.fd, queue, &sync_nothing), 0);
	CHECK_EQUAL(hetsim_counters(scene.fd, HETSIM_SCOPE_OPENER).resets, 0);
	sync_destroy_queue(scene.fd, stuck);
}

/* A fence that others may wait for is due one time-out after it was left. */
static void test_due(void)
{
	uint64_t seqno = 0;
	int i;
	AUTO(scene) scene = scene_make();
	uint32_t queue = hetsim_queue_make(scene.fd, FENCES, 5 * SIM_TIMEOUT_MS);

	CHECK_EQUAL(hetsim_inject(scene.fd, HETSIM_INJECT_LATENCY, queue,
				  2 * SIM_TIMEOUT_MS * (SYNC_NS_PER_S / 1000)),
		    0);
	for (i = 0; i < 20; i++) /* each takes 0.4 of the time */
		CHECK_EQUAL(hetsim_submit(scene.fd, queue, &sync_nothing, 1, &seqno), 0);
	seqno = sync_use(scene.fd, queue, scene.one.handle, WRITE);
	CHECK_EQUAL(sync_status(scene.fd, queue, seqno), -ECANCELED);
	CHECK_EQUAL(hetsim_counters(scene.fd, HETSIM_SCOPE_OPENER).resets, 1);
}

/* The waiting queue is destroyed, and the buffer is gone before its fence. */
static void test_destroy(void)
{
	uint32_t stuck, queue;
	uint64_t begin, seqno;
	struct scene scene = scene_make();

	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.one.handle, WRITE);
	queue = hetsim_queue_make(scene.fd, FENCES, 60000);
	seqno = sync_use(scene.fd, queue, scene.one.handle, WRITE);
	CHECK(sync_is_waiting(scene.fd, queue, seqno));
	begin = sync_now_ns();
	sync_destroy_queue(scene.fd, queue);
	CHECK(sync_now_ns() - begin < 30 * SYNC_NS_PER_S);
	seqno = sync_use(scene.fd, scene.queue, scene.one.handle, WRITE);
	CHECK(sync_is_waiting(scene.fd, scene.queue, seqno));
	hetsim_buffer_drop(scene.fd, &scene.one);
	sync_destroy_queue(scene.fd, stuck);
	CHECK_EQUAL(sync_status(scene.fd, scene.queue, seqno), 0);
	hetsim_buffer_drop(scene.fd, &scene.two);
	hetsim_close(scene.fd);
}

/* The device is taken away while work waits. */
static void test_lost(void)
{
	struct hetsim_waiter waiter = { 0 };
	uint32_t stuck;
	struct scene scene = scene_make();

	TEST_NEEDS(hetsim_may_unplug(scene.fd));
	stuck = sync_make_stuck(scene.fd, FENCES);
	sync_use(scene.fd, stuck, scene.one.handle, WRITE);
	waiter.fd = scene.fd;
	waiter.queue = scene.queue;
	waiter.seqno = sync_use(scene.fd, scene.queue, scene.one.handle, WRITE);
	hetsim_waiter_start(&waiter);
	CHECK_EQUAL(hetsim_inject(scene.fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);
	hetsim_waiter_end(&waiter);
	CHECK(waiter.r == -ENODEV || (!waiter.r && waiter.status == -ENODEV));
	hetsim_munmap(scene.one.bytes, scene.one.length);
	hetsim_munmap(scene.two.bytes, scene.two.length);
	hetsim_close(scene.fd);
	hetsim_plug();
}

/* ---- two at once ---- */

struct taker {
	struct scene *scene;
	uint32_t queue;
	struct hetsim_use uses[2];
	uint64_t last;
};

#define TAKES (TEST_TSAN || TEST_ASAN ? 300 : 1500) /* fewer than a queue takes */

static void *take(void *user)
{
	struct taker *taker = user;
	int i;

	for (i = 0; i < TAKES; i++)
		CHECK_EQUAL(sync_submit_uses(taker->scene->fd, taker->queue, &sync_nothing,
					     taker->uses, 2, &taker->last),
			    0);
	return NULL;
}

/* The same two buffers, in opposite order: all work is done. */
static void test_opposite(void)
{
	struct taker takers[4];
	pthread_t threads[4];
	int i;
	AUTO(scene) scene = scene_make();

	for (i = 0; i < 4; i++) {
		takers[i] = (struct taker){ .scene = &scene };
		takers[i].queue = hetsim_queue_make(scene.fd, FENCES, 60000);
		takers[i].uses[i % 2] = (struct hetsim_use){ scene.one.handle, WRITE };
		takers[i].uses[!(i % 2)] = (struct hetsim_use){ scene.two.handle, WRITE };
		CHECK_FATAL(!pthread_create(&threads[i], NULL, take, &takers[i]));
	}
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < 4; i++) {
		CHECK_EQUAL(takers[i].last, TAKES);
		CHECK_EQUAL(sync_status(scene.fd, takers[i].queue, TAKES), 0);
	}
}

/* ---- refusals ---- */

static void refuse(const struct scene *scene, struct hetsim_use first, int expected)
{
	struct hetsim_use uses[2] = { { scene->two.handle, WRITE }, first };
	uint64_t seqno = 0;

	CHECK_EQUAL(sync_submit_uses(scene->fd, scene->queue, &sync_nothing, uses, 2, &seqno),
		    expected);
}

/* Nothing is queued, and no buffer has a fence, also of those before the wrong one. */
static void test_bad_input(void)
{
	struct hetsim_submit call = { .size = sizeof(call),
				      .commands = (uintptr_t)&sync_nothing,
				      .n_commands = 1,
				      .command_size = sizeof(sync_nothing) };
	struct hetsim_import import;
	int reader, dmabuf;
	uint64_t seqno;
	uint32_t queue;
	AUTO(scene) scene = scene_make();

	CHECK_EQUAL(hetsim_inject(scene.fd, HETSIM_INJECT_STUCK, scene.queue, 1), 0);
	refuse(&scene, (struct hetsim_use){ 0, WRITE }, -ENOENT);
	refuse(&scene, (struct hetsim_use){ 4711, READ }, -ENOENT);
	refuse(&scene, (struct hetsim_use){ UINT32_MAX, READ }, -ENOENT);
	refuse(&scene, (struct hetsim_use){ scene.one.handle, 4 }, -EINVAL);
	refuse(&scene, (struct hetsim_use){ scene.one.handle, UINT32_MAX }, -EINVAL);
	call.queue = scene.queue;
	call.n_uses = HETSIM_MAX_USES + 1;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), -EINVAL);
	call.n_uses = UINT32_MAX;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), -EINVAL);
	call.n_uses = 1;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), -EFAULT);
	call.uses = 64;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), -EFAULT);
	call.uses = UINT64_MAX - 3;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), -EFAULT);
	queue = hetsim_queue_make(scene.fd, FENCES, 60000);
	seqno = sync_use(scene.fd, queue, scene.two.handle, WRITE);
	CHECK_EQUAL(sync_status(scene.fd, queue, seqno), 0);
	/* An older caller has no such members. */
	call.size = offsetof(struct hetsim_submit, uses);
	call.queue = queue;
	CHECK_EQUAL(hetsim_call(scene.fd, HETSIM_SUBMIT, &call), 0);

	/* Who may not write is no writer. */
	reader = hetsim_open(O_RDONLY);
	dmabuf = hetsim_export(scene.fd, scene.one.handle, 0);
	CHECK_FATAL(reader >= 0 && dmabuf >= 0);
	CHECK_EQUAL(hetsim_import(reader, dmabuf, &import), 0);
	close(dmabuf);
	queue = hetsim_queue_make(reader, FENCES, 60000);
	CHECK_EQUAL(sync_submit_uses(reader, queue, &sync_nothing,
				     &(struct hetsim_use){ import.handle, WRITE }, 1, &seqno),
		    -EACCES);
	seqno = sync_use(reader, queue, import.handle, READ);
	CHECK_EQUAL(sync_status(reader, queue, seqno), 0);
	hetsim_close(reader);
}

const struct test sim_uses_tests[] = {
	{ "rules", test_rules, 0, 0 },
	{ "apart", test_apart, 0, 0 },
	{ "several", test_several, 0, 0 },
	{ "twice", test_twice, 0, 0 },
	{ "counter", test_counter, 0, 0 },
	{ "openers", test_openers, 0, 0 },
	{ "handed_over", test_handed_over, 0, 0 },
	{ "failed", test_failed, 0, 0 },
	{ "timeout", test_timeout, 0, 0 },
	{ "due", test_due, 60, 0 },
	{ "destroy", test_destroy, 0, 0 },
	{ "lost", test_lost, 0, 0 },
	{ "opposite", test_opposite, 60, 0 },
	{ "bad_input", test_bad_input, 0, 0 },
	{ NULL, NULL, 0, 0 },
};
