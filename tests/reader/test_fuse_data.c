// SPDX-License-Identifier: MIT
/*
 * Maps, tokens, tensors and models on a file system that fails: an error each, which names the
 * object; the process and its other threads live on, and the same objects work again.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/fuse_support.h"
#include "fault/guard_support.h"
#include "format/load_support.h"
#include "format/tokens_support.h"

/* Files with a header fail far behind it: the kernel reads 128 KiB and more at a time. */
#define BAD_FROM (300 * PAGE)
#define BAD_TO (BAD_FROM + PAGE)

struct world {
	struct fuse_scene scene;
	struct fuse_bystander other;
	char *path; /* the failing file, "a" */
};

static bool begin(struct world *world)
{
	if (!fuse_begin(&world->scene, "a"))
		return false;
	world->path = folder_path(world->scene.mount, "a");
	make_table();
	fuse_bystander_begin(&world->scene, &world->other);
	return true;
}

static void end(struct world *world)
{
	fuse_bystander_end(&world->other);
	free(world->path);
	fuse_end(&world->scene);
}

static void fail(struct world *world)
{
	fuse_forget(world->path);
	fuse_fail_reads(&world->scene, EIO, BAD_FROM, BAD_TO);
}

static void mend(struct world *world)
{
	CHECK(world->scene.faults->n_failed > 0);
	fuse_fail_reads(&world->scene, 0, 0, 0);
}

/* The text has the file, and the error. */
static void check_text(const struct world *world, const char *text)
{
	if (!strstr(hm_errmsg(), world->path) || !strstr(hm_errmsg(), text))
		test_fail(__FILE__, __LINE__, "neither \"%s\" nor \"%s\": %s", world->path,
			  text, hm_errmsg());
}

/* ---- maps ---- */

#define MAPPED (512 * PAGE)

static struct hm_map *map_file(const struct world *world, uint32_t flags)
{
	AUTO(hm_buffer) *buffer = NULL;
	struct hm_map *map;
	AUTO(hm_device) *device = rig_device("file");

	CHECK_OK_FATAL(hm_buffer_from_file(device, world->path, -1,
					   DESC(hm_buffer_desc, .flags = flags), &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	return map;
}

static void write_source(const struct world *world)
{
	AUTO_TEXT *bytes = malloc(MAPPED);

	CHECK_FATAL(bytes != NULL);
	pattern_write(bytes, 0, MAPPED, 1);
	file_write(world->scene.source, "a", bytes, MAPPED);
}

static void test_copies(void)
{
	char *out = malloc(MAPPED), *base;
	struct hm_fault fault;
	struct world world;
	struct hm_map *map;

	CHECK_FATAL(out != NULL);
	if (begin(&world)) {
		write_source(&world);
		map = map_file(&world, HM_BUFFER_READ_ONLY);
		base = hm_map_address(map);
		fail(&world);
		fault = no_fault();
		CHECK_ERROR(-EIO, hm_copy_out(out, base, MAPPED, &fault));
		CHECK_EQUAL(fault.cause, HM_FAULT_UNREACHABLE);
		CHECK_EQUAL(fault.signal, SIGBUS);
		CHECK_EQUAL(fault.offset / PAGE, BAD_FROM / PAGE);
		/* Bytes before the bad page can still be read. */
		CHECK_OK(hm_copy_out(out, base, BAD_FROM, &fault));
		CHECK(pattern_holds(out, 0, BAD_FROM, 1));
		mend(&world);
		CHECK_OK(hm_copy_out(out, base, MAPPED, &fault));
		CHECK(pattern_holds(out, 0, MAPPED, 1));
		hm_map_unref(map);
		end(&world);
	}
	free(out);
}

/* An access without a guard: zeros replace the block, and every later call says so. */
static void test_not_guarded(void)
{
	struct hm_fault fault = no_fault();
	volatile unsigned char *base;
	struct world world;
	struct hm_map *map;
	char out[64];

	if (!begin(&world))
		return;
	write_source(&world);
	map = map_file(&world, HM_BUFFER_READ_ONLY);
	base = hm_map_address(map);
	fail(&world);
	CHECK_EQUAL(base[BAD_FROM + 5], 0);
	mend(&world);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(map, BAD_FROM, PAGE, HM_READ));
	CHECK_ERROR(-EIO, hm_copy_out(out, (const char *)base + BAD_FROM, 64, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_REPAIRED);
	hm_map_unref(map);
	/* A fresh map is of the file again. */
	map = map_file(&world, HM_BUFFER_READ_ONLY);
	CHECK(pattern_holds(hm_map_address(map), 0, MAPPED, 1));
	hm_map_unref(map);
	end(&world);
}

/* ---- written back ---- */

static bool source_has(const struct world *world, uint32_t salt)
{
	AUTO_TEXT *path = folder_path(world->scene.source, "a"), *bytes = calloc(1, MAPPED);
	FILE *file = fopen(path, "r");
	bool holds;

	CHECK_FATAL(bytes && file);
	holds = fread(bytes, 1, MAPPED, file) == MAPPED &&
		pattern_holds(bytes, 0, MAPPED, salt);
	fclose(file);
	return holds;
}

#define WRITES (MAPPED / 4096) /* most writes of one sync */

static void check_sync(struct world *world, struct hm_map *map, int error, uint32_t salt)
{
	char *base = hm_map_address(map);
	uint64_t i;
	int r;

	pattern_write(base, 0, MAPPED, salt);
	world->scene.faults->write_error = error;
	CHECK_ERROR(-error, hm_map_sync(map, 0, MAPPED, 0));
	CHECK(strstr(hm_errmsg(), "writing back 2097152 bytes") != NULL);
	CHECK(strstr(hm_errmsg(), "of a from 0 on") &&
	      strstr(hm_errmsg(), strerrorname_np(error)));
	CHECK(!source_has(world, salt));
	/*
	 * The map still has the bytes, clean by the kernel's account: the error comes once, and
	 * they are not written again. Stored again, they get there. One sync is many writes,
	 * and the kernel reports the first failure while other writes are under way: the next
	 * sync reports theirs [fuse_fsync()].
	 */
	world->scene.faults->write_error = 0;
	CHECK(pattern_holds(base, 0, MAPPED, salt));
	for (i = 0; (r = hm_map_sync(map, 0, MAPPED, 0)) == -error && i < WRITES; i++)
		;
	CHECK_OK(r);
	CHECK(!source_has(world, salt));
	pattern_write(base, 0, MAPPED, salt);
	CHECK_OK(hm_map_sync(map, 0, MAPPED, 0));
	CHECK(source_has(world, salt));
}

static void test_sync(void)
{
	struct world world;
	struct hm_map *map;

	if (!begin(&world))
		return;
	write_source(&world);
	map = map_file(&world, 0);
	check_sync(&world, map, ENOSPC, 2);
	check_sync(&world, map, EIO, 3);
	check_sync(&world, map, ENOSPC, 4);
	CHECK(world.scene.faults->n_failed > 0);
	hm_map_unref(map);
	end(&world);
}

struct syncing {
	struct hm_map *map;
	bool publish;
	int r;
	_Atomic bool over;
};

static void *sync_all(void *user)
{
	struct syncing *syncing = user;

	syncing->r = syncing->publish ? hm_file_publish(syncing->map, 0, MAPPED) :
					hm_map_sync(syncing->map, 0, MAPPED, 0);
	syncing->over = true;
	return NULL;
}

/* A server that does not answer holds up the sync, and no other call. */
static void check_held(struct world *world, struct hm_map *map, bool publish, uint32_t salt)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };
	struct syncing syncing = { .map = map, .publish = publish };
	uint64_t before = world->scene.faults->n_writes;
	struct hm_scope *scope;
	pthread_t thread;

	pattern_write(hm_map_address(map), 0, MAPPED, salt);
	world->scene.faults->hold_writes = 1;
	CHECK_FATAL(!pthread_create(&thread, NULL, sync_all, &syncing));
	while (world->scene.faults->n_writes == before)
		usleep(1000);
	CHECK_OK(hm_map_query(map, &info));
	CHECK_OK(hm_map_protect(map, 0, MAPPED, HM_READ));
	CHECK_OK(hm_map_protect(map, 0, MAPPED, HM_READ | HM_WRITE));
	CHECK_OK(hm_map_protect_begin(map, 0, PAGE, HM_READ, &scope));
	CHECK_OK(hm_map_protect_end(scope));
	CHECK_OK(hm_map_begin_cpu(map, 0, MAPPED, HM_READ));
	CHECK(pattern_holds(hm_map_address(map), 0, MAPPED, salt));
	CHECK_OK(hm_map_end_cpu(map, 0, MAPPED, HM_READ));
	CHECK_OK(hm_handler_install(0));
	CHECK_OK(hm_handler_remove());
	CHECK(!syncing.over);
	world->scene.faults->hold_writes = 0;
	pthread_join(thread, NULL);
	CHECK_EQUAL(syncing.r, 0);
	CHECK(source_has(world, salt));
}

static void test_sync_held(void)
{
	struct world world;
	struct hm_map *map;

	if (!fuse_begin(&world.scene, "a"))
		return;
	world.path = folder_path(world.scene.mount, "a");
	write_source(&world);
	map = map_file(&world, 0);
	check_held(&world, map, false, 5);
	check_held(&world, map, true, 6);
	hm_map_unref(map);
	free(world.path);
	fuse_end(&world.scene);
}

/* ---- tokens ---- */

#define TOKENS 1000000ull
#define BAD_TOKEN (BAD_FROM / 2 + 7)

static void test_tokens(void)
{
	int64_t values[100];
	struct hm_tokens *tokens;
	struct world world;
	uint64_t i;

	if (!begin(&world))
		return;
	free(tokens_file(world.scene.source, "a", 0, TOKENS));
	tokens = tokens_open(world.path, NULL);
	fail(&world);
	CHECK_ERROR(-EIO, hm_tokens_read(tokens, BAD_TOKEN, 100, HM_DTYPE_I64, values));
	check_text(&world, "storage failed");
	CHECK_OK(hm_tokens_read(tokens, 0, 100, HM_DTYPE_I64, values));
	CHECK_EQUAL(values[99], token_at(99));
	mend(&world);
	CHECK_OK(hm_tokens_read(tokens, BAD_TOKEN, 100, HM_DTYPE_I64, values));
	for (i = 0; i < 100; i++)
		CHECK_EQUAL(values[i], token_at(BAD_TOKEN + i));
	hm_tokens_unref(tokens);
	end(&world);
}

#define BLOCKS 50 /* of 16 tokens, a batch */

/* Batches up to the one that fails, which stays the next one. */
static void test_batches(void)
{
	struct hm_batches_desc desc = batches_usual;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	int32_t x[64 * BLOCK], y[64 * BLOCK];
	struct hm_batches *batches;
	struct hm_tokens *tokens;
	uint64_t n = 0, tries;
	struct world world;
	int r = 0;

	if (!begin(&world))
		return;
	free(tokens_file(world.scene.source, "a", 0, TOKENS));
	tokens = tokens_open(world.path, NULL);
	desc.batch = BLOCKS;
	CHECK_OK_FATAL(hm_batches_create(tokens, &desc, &batches));
	fail(&world);
	for (tries = 0; !r && tries < TOKENS / BLOCK / BLOCKS; tries++) {
		r = hm_batches_next(batches, x, y, &batch);
		if (!r)
			batches_check(&batch, x, y);
	}
	CHECK_EQUAL(r, -EIO);
	check_text(&world, "storage failed");
	n = batches_state(batches).position;
	CHECK_ERROR(-EIO, hm_batches_next(batches, x, y, &batch));
	CHECK_EQUAL(batches_state(batches).position, n);
	mend(&world);
	/* The same one, and all behind it. */
	for (; tries < TOKENS / BLOCK / BLOCKS; tries++)
		batches_next(batches);
	hm_batches_unref(batches);
	hm_tokens_unref(tokens);
	end(&world);
}

/* The thread that keeps them ahead ends with the error; begun again, it goes on. */
static void test_batches_ahead(void)
{
	static int32_t x[2][64 * BLOCK], y[2][64 * BLOCK];
	const struct hm_batch_slot slots[2] = { { x[0], y[0] }, { x[1], y[1] } };
	struct hm_batches_desc desc = batches_usual;
	struct hm_batch batch = { .struct_size = sizeof(batch) };
	struct hm_batches *batches;
	struct hm_tokens *tokens;
	struct world world;
	uint64_t n;
	int r;

	if (!begin(&world))
		return;
	free(tokens_file(world.scene.source, "a", 0, TOKENS));
	tokens = tokens_open(world.path, NULL);
	desc.batch = BLOCKS;
	CHECK_OK_FATAL(hm_batches_create(tokens, &desc, &batches));
	fail(&world);
	CHECK_OK_FATAL(hm_batches_start(batches, slots, 2));
	for (n = 0; !(r = hm_batches_take(batches, UINT64_MAX, &batch)); n++) {
		batches_check(&batch, x[batch.slot], y[batch.slot]);
		CHECK_OK(hm_batches_give(batches, batch.slot));
	}
	CHECK_EQUAL(r, -EIO);
	check_text(&world, "storage failed");
	CHECK_ERROR(-EIO, hm_batches_take(batches, UINT64_MAX, &batch));
	CHECK_OK(hm_batches_stop(batches));
	mend(&world);
	CHECK_OK_FATAL(hm_batches_start(batches, slots, 2));
	for (n += 10; n; n--) {
		CHECK_OK_FATAL(hm_batches_take(batches, UINT64_MAX, &batch));
		batches_check(&batch, x[batch.slot], y[batch.slot]);
		CHECK_OK(hm_batches_give(batches, batch.slot));
	}
	CHECK_OK(hm_batches_stop(batches));
	hm_batches_unref(batches);
	hm_tokens_unref(tokens);
	end(&world);
}

/* ---- tensors and models ---- */

static const uint64_t four[] = { 100000, 0, 7, 3 * 1024 * 1024 + 1 };

static void test_tensors(void)
{
	unsigned char *out = malloc(four[3]);
	struct hm_safetensors *model = UNTOUCHED;
	struct hm_tensor *tensor;
	struct hm_fault fault = no_fault();
	struct world world;
	uint64_t index, i;

	CHECK_FATAL(out != NULL);
	if (!begin(&world)) {
		free(out);
		return;
	}
	load_file(world.scene.source, four, 4);
	/* Its header can't be read. */
	fuse_fail_reads(&world.scene, EIO, 0, 8);
	CHECK_ERROR(-EIO, hm_safetensors_open(world.path, 0, &model));
	CHECK(model == UNTOUCHED);
	check_text(&world, "EIO");
	mend(&world);
	model = tensors_open(world.path);
	CHECK_OK_FATAL(hm_safetensors_find(model, "t3", &index));
	CHECK_OK_FATAL(hm_safetensors_view(model, index, NULL, 0, 0, 0, &tensor));
	fail(&world);
	CHECK_ERROR(-EIO, hm_safetensors_read(model, index, NULL, 0, out, four[3]));
	check_text(&world, "EIO");
	/* In place, it is its reader's to look in a scope. */
	CHECK_ERROR(-EIO, hm_copy_out(out, hm_tensor_address(tensor), four[3], &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_UNREACHABLE);
	CHECK_EQUAL(fault.offset / PAGE, BAD_FROM / PAGE);
	mend(&world);
	CHECK_OK(hm_copy_out(out, hm_tensor_address(tensor), four[3], &fault));
	for (i = 0; i < four[3] && out[i] == data_byte(100007 + i); i++)
		;
	CHECK_EQUAL(i, four[3]);
	CHECK_OK(hm_safetensors_read(model, index, NULL, 0, out, four[3]));
	hm_tensor_unref(tensor);
	hm_safetensors_unref(model);
	end(&world);
	free(out);
}

static void test_load(void)
{
	struct hm_load_desc desc = load_small_steps(2);
	struct hm_pieces *model;
	struct hm_load *load = UNTOUCHED;
	struct hm_device *device;
	struct world world;

	if (!begin(&world))
		return;
	load_file(world.scene.source, four, 4);
	CHECK_OK_FATAL(hm_device_open("soft:0", &device));
	model = pieces_open(world.path);
	fail(&world);
	CHECK_ERROR(-EIO, hm_load_create(device, model, &desc, &load));
	CHECK(load == UNTOUCHED);
	check_text(&world, "reading");
	/* Cut off by the server, of which the kernel hears late. */
	world.scene.faults->read_error = 0;
	fuse_forget(world.path);
	world.scene.faults->cut = BAD_FROM;
	CHECK_ERROR(-ENODATA, hm_load_create(device, model, &desc, &load));
	CHECK(load == UNTOUCHED);
	check_text(&world, "cut off");
	world.scene.faults->cut = UINT64_MAX;
	mend(&world);
	fuse_forget(world.path);
	CHECK_OK_FATAL(hm_load_create(device, model, &desc, &load));
	load_check_file(load, four, 4);
	hm_load_unref(load);
	hm_pieces_unref(model);
	hm_device_unref(device);
	end(&world);
}

static const struct test tests[] = {
	{ "copies", test_copies, 30, 0 },
	{ "not_guarded", test_not_guarded, 30, 0 },
	{ "sync", test_sync, 30, 0 },
	{ "sync_held", test_sync_held, 30, 0 },
	{ "tokens", test_tokens, 30, 0 },
	{ "batches", test_batches, 60, 0 },
	{ "batches_ahead", test_batches_ahead, 60, 0 },
	{ "tensors", test_tensors, 60, 0 },
	{ "load", test_load, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "fuse_data", tests)
