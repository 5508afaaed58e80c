// SPDX-License-Identifier: MIT
/* Batches of tokens that a thread keeps ahead; failures; other processes. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/inject.h"
#include "format/tokens_support.h"

#define UNTOUCHED ((void *)0x10)

/* ---- ahead ---- */

#define SLOTS 3

struct ahead {
	struct token_scene scene;
	struct hm_batches *batches;
	int32_t x[SLOTS][BATCH * BLOCK], y[SLOTS][BATCH * BLOCK];
	struct hm_batch_slot slot[SLOTS];
};

static void begin_ahead(struct ahead *ahead)
{
	int i;

	ahead->scene = token_scene_begin();
	ahead->batches = batches_make(&ahead->scene, &batches_usual);
	for (i = 0; i < SLOTS; i++)
		ahead->slot[i] = (struct hm_batch_slot){ ahead->x[i], ahead->y[i] };
	CHECK_OK_FATAL(hm_batches_start(ahead->batches, ahead->slot, SLOTS));
}

static struct hm_batch take(struct ahead *ahead)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_OK_FATAL(hm_batches_take(ahead->batches, UINT64_MAX, &batch));
	batches_check(&batch, ahead->x[batch.slot], ahead->y[batch.slot]);
	return batch;
}

/* The thread's batches are those that one's own calls give. */
static void ahead(void)
{
	static struct ahead ahead;
	struct hm_batch batch = { .struct_size = sizeof(batch) }, own;
	struct hm_batches *batches;
	uint64_t i;
	int32_t x[1];
	AUTO(rig_handler) handler = rig_handler(0);

	begin_ahead(&ahead);
	batches = batches_make(&ahead.scene, &batches_usual);
	for (i = 0; i < 50; i++) {
		batch = take(&ahead);
		own = batches_next(batches);
		CHECK_EQUAL(batch.number, i);
		CHECK_EQUAL(batch.slot, i % SLOTS);
		CHECK_EQUAL(batch.epoch, own.epoch);
		CHECK(!memcmp(batch.starts, own.starts, BATCH * sizeof(uint64_t)));
		CHECK_OK(hm_batches_give(ahead.batches, batch.slot));
	}
	CHECK_ERROR(-EBUSY, hm_batches_next(ahead.batches, x, NULL, NULL));
	CHECK_ERROR(-EBUSY, hm_batches_resize(ahead.batches, 1));
	CHECK_ERROR(-EBUSY, hm_batches_start(ahead.batches, ahead.slot, SLOTS));
	CHECK_ERROR(-EINVAL, hm_batches_give(ahead.batches, 0));
	CHECK_ERROR(-EINVAL, hm_batches_give(ahead.batches, SLOTS));
	/* All of them taken: there is nothing to wait for. */
	for (i = 0; i < SLOTS; i++)
		take(&ahead);
	CHECK_ERROR(-EBUSY, hm_batches_take(ahead.batches, UINT64_MAX, &batch));
	CHECK_OK(hm_batches_give(ahead.batches, 1));
	CHECK_OK(hm_batches_stop(ahead.batches));
	/* A batch that was filled and not taken comes again. */
	CHECK_EQUAL(batches_state(ahead.batches).position, 53 * BATCH);
	for (i = 0; i < SLOTS; i++)
		batches_next(batches);
	own = batches_next(batches);
	batch = batches_next(ahead.batches);
	CHECK(!memcmp(batch.starts, own.starts, BATCH * sizeof(uint64_t)));
	hm_batches_unref(batches);
	hm_batches_unref(ahead.batches);
	token_scene_end(&ahead.scene);
}

/* A thread that waits is let go by the end. */
static void *wait_for_one(void *user)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	static int result;

	result = hm_batches_take(user, UINT64_MAX, &batch);
	return &result;
}

static void stopped(void)
{
	static struct ahead ahead;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct hm_batch_slot one;
	pthread_t thread;
	void *result;
	int i;

	for (i = 0; i < 20; i++) {
		begin_ahead(&ahead);
		if (i % 2)
			take(&ahead);
		/* The last reference ends the thread. */
		if (i % 3)
			CHECK_OK(hm_batches_stop(ahead.batches));
		hm_batches_unref(ahead.batches);
		token_scene_end(&ahead.scene);
	}
	/* The thread fails at once, so that there is never a batch to take. */
	ahead.scene = token_scene_begin();
	ahead.batches = batches_make(&ahead.scene, &batches_usual);
	CHECK(!truncate(ahead.scene.path[0], 0));
	one = (struct hm_batch_slot){ ahead.x[0], ahead.y[0] };
	CHECK_OK_FATAL(hm_batches_start(ahead.batches, &one, 1));
	CHECK_FATAL(!pthread_create(&thread, NULL, wait_for_one, ahead.batches));
	pthread_join(thread, &result);
	CHECK_EQUAL(*(int *)result, -ENODATA);
	/* The error stays; its text, too. */
	CHECK_ERROR(-ENODATA, hm_batches_take(ahead.batches, 1000, &batch));
	CHECK(strstr(hm_errmsg(), "cut off"));
	CHECK_OK(hm_batches_stop(ahead.batches));
	CHECK_EQUAL(batches_state(ahead.batches).position, 0);
	hm_batches_unref(ahead.batches);
	token_scene_end(&ahead.scene);
}

/* A slot that is taken away from the thread: others go on in their turn only. */
static void timed_out(void)
{
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	static struct ahead ahead;
	int i;

	begin_ahead(&ahead);
	take(&ahead);
	/* Slot 0 is next after the others. */
	for (i = 1; i < SLOTS; i++) {
		batch = take(&ahead);
		if (i == 1)
			CHECK_OK(hm_batches_give(ahead.batches, batch.slot));
	}
	CHECK_ERROR(-ETIME, hm_batches_take(ahead.batches, 1000000, &batch));
	CHECK_ERROR(-ETIME, hm_batches_take(ahead.batches, 0, &batch));
	CHECK_OK(hm_batches_give(ahead.batches, 0));
	take(&ahead);
	hm_batches_unref(ahead.batches);
	token_scene_end(&ahead.scene);
}

/* ---- failures ---- */

/* A file is cut off while batches are taken: an error in each thread, and no signal. */
static void cut_off(void)
{
	struct hm_batches_desc desc = batches_usual;
	struct hm_batches *batches;
	struct token_scene scene;
	int32_t x[BATCH * BLOCK];
	int way, n, r;

	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		scene = token_scene_begin();
		desc.order = HM_BATCHES_IN_ORDER;
		batches = batches_make(&scene, &desc);
		CHECK_OK(hm_batches_next(batches, x, NULL, NULL));
		CHECK(!truncate(scene.path[2], 900));
		for (n = 0, r = 0; !r && n < 100; n++)
			r = hm_batches_next(batches, x, NULL, NULL);
		CHECK_EQUAL(r, -ENODATA);
		CHECK(strstr(hm_errmsg(), scene.path[2]));
		CHECK_ERROR(-ENODATA, hm_batches_next(batches, x, NULL, NULL));
		hm_batches_unref(batches);
		token_scene_end(&scene);
	}
	CHECK_OK(hm_handler_remove());
}

/* A caller's own scope gets no fault of the library's, and no lock stays taken. */
static __attribute__((noinline)) int next_in_a_scope(struct hm_batches *batches, void *x)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r)
		return r == -EACCES ? -ECHILD : r;
	r = hm_batches_next(batches, x, NULL, NULL);
	CHECK_OK(hm_guard_end(&guard));
	return r;
}

/* On a file system that gives no maps at all. */
static void begin_unmapped(struct token_scene *scene)
{
	struct hm_tokens_shard_info shard = { .struct_size = sizeof(shard) };

	/* The library's own maps are made before mmap() fails. */
	*scene = token_scene_begin();
	token_scene_end(scene);
	inject_always("mmap", ENODEV);
	*scene = token_scene_begin();
	inject_disarm();
	CHECK_OK(hm_tokens_shard(scene->tokens, 0, &shard));
	CHECK_FATAL(!shard.map);
}

/* The map that x is in is not to be written: out of maps, and where there are none. */
static void check_not_to_be_written(enum hm_batches_way way)
{
	AUTO(hm_batches) *batches = NULL;
	AUTO(hm_device) *device = NULL;
	AUTO(hm_buffer) *buffer = NULL;
	struct token_scene scene;
	AUTO(hm_map) *map = NULL;
	AUTO(rig_handler) handler = rig_handler(0);

	if (way == HM_BATCHES_READ)
		begin_unmapped(&scene);
	else
		scene = token_scene_begin();
	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(
		hm_buffer_create(device, DESC(hm_buffer_desc, .size = 1 << 16), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	batches = batches_make(&scene, &batches_usual);
	CHECK_OK(hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	CHECK_EQUAL(batches_info(batches).way, way);
	CHECK_OK(hm_map_protect(map, 0, 1 << 16, HM_READ));
	CHECK_ERROR(-EACCES, hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	CHECK_ERROR(-EACCES, next_in_a_scope(batches, hm_map_address(map)));
	CHECK_OK(hm_map_protect(map, 0, 1 << 16, HM_READ | HM_WRITE));
	CHECK_OK(hm_batches_next(batches, hm_map_address(map), NULL, NULL));
	token_scene_end(&scene);
}

static void not_to_be_written(void)
{
	inject_install();
	check_not_to_be_written(HM_BATCHES_MAPPED);
	check_not_to_be_written(HM_BATCHES_READ);
}

static void undone(void)
{
	int32_t x[SLOTS * BATCH * BLOCK];
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct hm_batch_slot slot[2] = { { x, NULL }, { x + BATCH * BLOCK, NULL } };
	struct hm_batches *batches;
	unsigned int n;
	bool failed;
	int r;
	AUTO(token_scene) scene = token_scene_begin();

	inject_install();
	for (n = 1, failed = true; failed; n++) {
		batches = UNTOUCHED;
		inject_arm(n, INJECT_ONE);
		r = hm_batches_create(scene.tokens, &batches_usual, &batches);
		failed = inject_disarm();
		if (r)
			CHECK(failed && batches == UNTOUCHED && *hm_errmsg());
		else
			hm_batches_unref(batches);
	}
	CHECK(n > 5);
	/* A batch that failed is the next one still; calls that only ask may fail. */
	batches = batches_make(&scene, &batches_usual);
	for (n = 1, failed = true; failed; n++) {
		uint64_t before = batches_state(batches).position;

		inject_arm(n, INJECT_ONE);
		r = hm_batches_next(batches, x, NULL, NULL);
		failed = inject_disarm();
		CHECK(!r || *hm_errmsg());
		CHECK_EQUAL(batches_state(batches).position, before + (r ? 0 : BATCH));
	}
	CHECK(n > 5);
	for (n = 1, failed = true; failed; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_batches_resize(batches, BATCH);
		failed = inject_disarm();
		CHECK(!r || failed);
	}
	for (n = 1, failed = true; failed && n < 4; n++) {
		inject_arm(n, INJECT_ONE);
		r = hm_batches_start(batches, slot, 2);
		failed = inject_disarm();
		if (!r)
			CHECK_OK(hm_batches_stop(batches));
	}
	inject_always("madvise", EINVAL);
	CHECK_OK(hm_batches_start(batches, slot, 2));
	CHECK_OK(hm_batches_take(batches, UINT64_MAX, &batch));
	inject_disarm();
	hm_batches_unref(batches);
}

/* ---- processes ---- */

static void use_in_child(void *user)
{
	struct ahead *ahead = user;
	struct hm_batch batch = { .struct_size = sizeof(batch) };

	CHECK_ERROR(-EOWNERDEAD, hm_batches_take(ahead->batches, UINT64_MAX, &batch));
	CHECK_ERROR(-EOWNERDEAD, hm_batches_next(ahead->batches, ahead->x[0], NULL, NULL));
	CHECK_ERROR(-EOWNERDEAD, hm_batches_stop(ahead->batches));
	hm_batches_unref(ahead->batches);
}

static void forked(void)
{
	static struct ahead ahead;
	int i;

	begin_ahead(&ahead);
	for (i = 0; i < 5; i++) {
		CHECK_EQUAL(test_fork(use_in_child, &ahead), 0);
		CHECK_OK(hm_batches_give(ahead.batches, take(&ahead).slot));
	}
	hm_batches_unref(ahead.batches);
	token_scene_end(&ahead.scene);
}

/* Four workers on one file, one of which is killed: the others get their batches. */
static void worker(const struct token_scene *scene, uint32_t number, int go)
{
	struct hm_batches_desc desc = batches_usual;
	const char *const *paths = (const char *const *)scene->path;
	struct hm_tokens *tokens;
	struct hm_batches *batches;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int32_t x[BATCH * BLOCK];
	uint64_t i, j;
	char byte;

	desc.worker = number;
	desc.workers = 4;
	if (hm_handler_install(0) || hm_tokens_open(paths, 3, NULL, &tokens) ||
	    hm_batches_create(tokens, &desc, &batches))
		_exit(2);
	for (i = 0; i < 200; i++) {
		if (i == 100 && read(go, &byte, 1) != 0)
			_exit(3);
		if (hm_batches_next(batches, x, NULL, &batch))
			_exit(4);
		for (j = 0; j < BATCH * BLOCK; j++)
			if (x[j] != token_at(batch.starts[j / BLOCK] + j % BLOCK))
				_exit(5);
	}
	_exit(0);
}

static void killed(void)
{
	int go[2], status;
	pid_t pid[4];
	uint32_t i;
	AUTO(token_scene) scene = token_scene_begin();

	CHECK_FATAL(!pipe(go));
	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			close(go[1]);
			worker(&scene, i, go[0]);
		}
	}
	CHECK(!kill(pid[1], SIGKILL));
	CHECK_EQUAL(waitpid(pid[1], &status, 0), pid[1]);
	close(go[1]);
	for (i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		CHECK_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
		CHECK_EQUAL(status, 0);
	}
	close(go[0]);
}

/* Tokens in RAM are announced no more after a while. */
static void quiet(void)
{
	int i;
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(token_scene) scene = token_scene_begin();
	AUTO(hm_batches) *batches = batches_make(&scene, &batches_usual);

	CHECK_EQUAL(batches_info(batches).announcing, 1);
	for (i = 0; i < 200 && batches_info(batches).announcing; i++)
		batches_next(batches);
	CHECK_EQUAL(batches_info(batches).announcing, 0);
	CHECK(batches_info(batches).announced >= 16);
	CHECK(strstr(batches_info(batches).why, "maps"));
}

/* Without maps storage is asked by another call; in Fortran's order there is nothing to ask. */
static void announced(void)
{
	char *folder = folder_make(), *path;
	uint16_t values[N];
	AUTO(token_scene) scene = { 0 };
	struct hm_batches *batches;
	unsigned int i, way;

	for (i = 0; i < N; i++)
		values[i] = token_at(i % 5 * (N / 5) + i / 5);
	path = tokens_npy(folder, "a.npy", 1, "<u2", true, "(5, 321)", values, 2 * 5 * 321);
	inject_install();
	for (way = 0; way < 2; way++) {
		if (way)
			CHECK_OK_FATAL(hm_handler_install(0));
		scene.tokens = tokens_open(path, NULL);
		batches = batches_make(&scene, &batches_usual);
		for (i = 0; i < 5; i++) {
			int32_t x[BATCH * BLOCK];

			CHECK_OK(hm_batches_next(batches, x, NULL, NULL));
		}
		CHECK_EQUAL(batches_info(batches).filled, 5);
		CHECK_EQUAL(batches_info(batches).announced, 0);
		CHECK_EQUAL(batches_info(batches).announcing, 0);
		CHECK(strstr(batches_info(batches).why, "Fortran's order"));
		hm_batches_unref(batches);
		hm_tokens_unref(scene.tokens);
	}
	CHECK_OK(hm_handler_remove());
	free(path);
	folder_remove(folder);

	begin_unmapped(&scene);
	batches = batches_make(&scene, &batches_usual);
	/* An advice that fails is no error; that it was given is seen by it. */
	inject_always("fadvise", EINVAL);
	batches_next(batches);
	CHECK(inject_disarm());
	CHECK(!strcmp(inject_failed(), "fadvise"));
	batches_next(batches);
	CHECK_EQUAL(batches_info(batches).announced, 2);
	CHECK_EQUAL(batches_info(batches).announcing, 1);
	hm_batches_unref(batches);
}

static const struct test tests[] = {
	{ "ahead", ahead, 0, 0 },
	{ "stopped", stopped, 0, 0 },
	{ "timed_out", timed_out, 0, 0 },
	{ "cut_off", cut_off, 0, 0 },
	{ "not_to_be_written", not_to_be_written, 0, 0 },
	{ "undone", undone, 0, 0 },
	{ "forked", forked, 0, 0 },
	{ "killed", killed, 0, 0 },
	{ "quiet", quiet, 0, 0 },
	{ "announced", announced, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "tokens_ahead", tests)
