// SPDX-License-Identifier: MIT
/* hm_errmsg() and hm_warning() after each public function, as hm_errmsg(3) says. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include <hetmap/accel_ops.h>
#include <hetmap/backend.h>
#include <hetmap/drm.h>
#include <hetmap/load.h>
#include <hetmap/pieces.h>
#include <hetmap/ring.h>
#include <hetmap/sim.h>
#include <hetmap/tokens.h>

#include "lib/support.h"
#include "base/err.h"

#define EARLIER "an earlier call failed"
#define WARNED "an earlier call gave less"

enum kind {
	CLEARS,          /* forgets both texts when it begins */
	LEAVES,          /* touches neither */
	UNLESS_IT_FAILS, /* likewise, but its own failure sets a text */
	BY_HAND,         /* takes no zeros: see below */
};

typedef uintptr_t any_function(uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t, uintptr_t,
			       uintptr_t);

#define ROW(function, kind)                               \
	{                                                 \
#function, (void (*)(void))function, kind \
	}

/* All of runtime/libhetmap.map: tests/build/test_build.sh compares the names. */
static const struct row {
	const char *name;
	void (*function)(void);
	enum kind kind;
} rows[] = {
	ROW(hm_accel_list, CLEARS),
	ROW(hm_accel_open, CLEARS),
	ROW(hm_accel_query, CLEARS),
	ROW(hm_accel_ref, LEAVES),
	ROW(hm_accel_register, CLEARS),
	ROW(hm_accel_unref, LEAVES),
	ROW(hm_accel_way_in, CLEARS),
	ROW(hm_access_hook_set, CLEARS),
	ROW(hm_access_name, LEAVES),
	ROW(hm_access_query, CLEARS),
	ROW(hm_alloc, CLEARS),
	ROW(hm_backend_register, CLEARS),
	ROW(hm_batches_create, CLEARS),
	ROW(hm_batches_get, CLEARS),
	ROW(hm_batches_give, CLEARS),
	ROW(hm_batches_next, CLEARS),
	ROW(hm_batches_query, CLEARS),
	ROW(hm_batches_ref, LEAVES),
	ROW(hm_batches_resize, CLEARS),
	ROW(hm_batches_set, CLEARS),
	ROW(hm_batches_start, CLEARS),
	ROW(hm_batches_stop, CLEARS),
	ROW(hm_batches_take, CLEARS),
	ROW(hm_batches_unref, LEAVES),
	ROW(hm_buffer_create, CLEARS),
	ROW(hm_buffer_export, CLEARS),
	ROW(hm_buffer_from_file, CLEARS),
	ROW(hm_buffer_import, CLEARS),
	ROW(hm_buffer_query, CLEARS),
	ROW(hm_buffer_receive, CLEARS),
	ROW(hm_buffer_ref, LEAVES),
	ROW(hm_buffer_resize, CLEARS),
	ROW(hm_buffer_seal, CLEARS),
	ROW(hm_buffer_send, CLEARS),
	ROW(hm_buffer_set_loss, CLEARS),
	ROW(hm_buffer_shadow, CLEARS),
	ROW(hm_buffer_stats_get, CLEARS),
	ROW(hm_buffer_unref, LEAVES),
	ROW(hm_combine_create, CLEARS),
	ROW(hm_combine_discard, CLEARS),
	ROW(hm_combine_flush, CLEARS),
	ROW(hm_combine_query, CLEARS),
	ROW(hm_combine_ref, LEAVES),
	ROW(hm_combine_unref, LEAVES),
	ROW(hm_combine_write, CLEARS),
	ROW(hm_copy, CLEARS),
	ROW(hm_copy_in, CLEARS),
	ROW(hm_copy_out, CLEARS),
	ROW(hm_copy_query, CLEARS),
	ROW(hm_device_list, CLEARS),
	ROW(hm_device_open, CLEARS),
	ROW(hm_device_query, CLEARS),
	ROW(hm_device_recover, CLEARS),
	ROW(hm_device_ref, LEAVES),
	ROW(hm_device_stats_get, CLEARS),
	ROW(hm_device_unref, LEAVES),
	ROW(hm_drm_buffer_handle, CLEARS),
	ROW(hm_drm_list, CLEARS),
	ROW(hm_drm_view_create, CLEARS),
	ROW(hm_drm_view_hold, CLEARS),
	ROW(hm_drm_view_release, LEAVES),
	ROW(hm_drm_view_unref, LEAVES),
	ROW(hm_dtype_bits, LEAVES),
	ROW(hm_dtype_name, LEAVES),
	ROW(hm_errmsg, LEAVES),
	ROW(hm_error_begin, BY_HAND),
	ROW(hm_error_set, BY_HAND),
	ROW(hm_fence_export_dmabuf, CLEARS),
	ROW(hm_fence_export_syncobj, CLEARS),
	ROW(hm_fence_fd, CLEARS),
	ROW(hm_fence_import_dmabuf, CLEARS),
	ROW(hm_fence_import_fd, CLEARS),
	ROW(hm_fence_import_syncobj, CLEARS),
	ROW(hm_fence_merge, CLEARS),
	ROW(hm_fence_query, CLEARS),
	ROW(hm_fence_ref, LEAVES),
	ROW(hm_fence_unref, LEAVES),
	ROW(hm_fence_wait, CLEARS),
	ROW(hm_file_publish, CLEARS),
	ROW(hm_file_refresh, CLEARS),
	ROW(hm_file_system_query, CLEARS),
	ROW(hm_frame_export, CLEARS),
	ROW(hm_frame_fence_add, CLEARS),
	ROW(hm_frame_fence_get, CLEARS),
	ROW(hm_frame_import, CLEARS),
	ROW(hm_frame_layout_query, CLEARS),
	ROW(hm_frame_pool_acquire, CLEARS),
	ROW(hm_frame_pool_create, CLEARS),
	ROW(hm_frame_pool_end, CLEARS),
	ROW(hm_frame_pool_query, CLEARS),
	ROW(hm_frame_pool_ref, LEAVES),
	ROW(hm_frame_pool_take, CLEARS),
	ROW(hm_frame_pool_trim, CLEARS),
	ROW(hm_frame_pool_unref, LEAVES),
	ROW(hm_frame_publish, CLEARS),
	ROW(hm_frame_query, CLEARS),
	ROW(hm_frame_receive, CLEARS),
	ROW(hm_frame_ref, LEAVES),
	ROW(hm_frame_send, CLEARS),
	ROW(hm_frame_set, CLEARS),
	ROW(hm_frame_unref, LEAVES),
	ROW(hm_frame_wait, CLEARS),
	ROW(hm_free, UNLESS_IT_FAILS),
	ROW(hm_gguf_at, CLEARS),
	ROW(hm_gguf_element, CLEARS),
	ROW(hm_gguf_file, CLEARS),
	ROW(hm_gguf_find, CLEARS),
	ROW(hm_gguf_metadata, CLEARS),
	ROW(hm_gguf_metadata_find, CLEARS),
	ROW(hm_gguf_open, CLEARS),
	ROW(hm_gguf_query, CLEARS),
	ROW(hm_gguf_read, CLEARS),
	ROW(hm_gguf_ref, LEAVES),
	ROW(hm_gguf_tensor, CLEARS),
	ROW(hm_gguf_type, CLEARS),
	ROW(hm_gguf_unref, LEAVES),
	ROW(hm_gguf_write, CLEARS),
	ROW(hm_guard_caught, BY_HAND),
	ROW(hm_guard_end, UNLESS_IT_FAILS),
	ROW(hm_guard_enter, CLEARS),
	ROW(hm_handler_chained, CLEARS),
	ROW(hm_handler_install, CLEARS),
	ROW(hm_handler_query, CLEARS),
	ROW(hm_handler_remove, CLEARS),
	ROW(hm_kernel_build, CLEARS),
	ROW(hm_kernel_create, CLEARS),
	ROW(hm_kernel_ref, LEAVES),
	ROW(hm_kernel_unref, LEAVES),
	ROW(hm_load_create, CLEARS),
	ROW(hm_load_find, CLEARS),
	ROW(hm_load_piece, CLEARS),
	ROW(hm_load_query, CLEARS),
	ROW(hm_load_ref, LEAVES),
	ROW(hm_load_unref, LEAVES),
	ROW(hm_lock_budget_query, CLEARS),
	ROW(hm_lock_budget_set, CLEARS),
	ROW(hm_lock_restore, CLEARS),
	ROW(hm_map_address, LEAVES),
	ROW(hm_map_advise, CLEARS),
	ROW(hm_map_begin_cpu, CLEARS),
	ROW(hm_map_create, CLEARS),
	ROW(hm_map_end_cpu, CLEARS),
	ROW(hm_map_length, LEAVES),
	ROW(hm_map_lock, CLEARS),
	ROW(hm_map_prefetch, CLEARS),
	ROW(hm_map_protect, CLEARS),
	ROW(hm_map_protect_begin, CLEARS),
	ROW(hm_map_protect_end, CLEARS),
	ROW(hm_map_query, CLEARS),
	ROW(hm_map_ref, LEAVES),
	ROW(hm_map_persist, CLEARS),
	ROW(hm_map_sync, CLEARS),
	ROW(hm_map_unlock, CLEARS),
	ROW(hm_map_unref, LEAVES),
	ROW(hm_npy_query, CLEARS),
	ROW(hm_pieces_at, CLEARS),
	ROW(hm_pieces_file, CLEARS),
	ROW(hm_pieces_find, CLEARS),
	ROW(hm_pieces_format, CLEARS),
	ROW(hm_pieces_metadata, CLEARS),
	ROW(hm_pieces_open, CLEARS),
	ROW(hm_pieces_probe, CLEARS),
	ROW(hm_pieces_query, CLEARS),
	ROW(hm_pieces_ref, LEAVES),
	ROW(hm_pieces_unref, LEAVES),
	ROW(hm_pointer_find, LEAVES),
	ROW(hm_pointer_query, CLEARS),
	ROW(hm_policy_name, LEAVES),
	ROW(hm_pool_alloc, CLEARS),
	ROW(hm_pool_create, CLEARS),
	ROW(hm_pool_free, UNLESS_IT_FAILS),
	ROW(hm_pool_query, CLEARS),
	ROW(hm_pool_realloc, CLEARS),
	ROW(hm_pool_ref, LEAVES),
	ROW(hm_pool_trim, CLEARS),
	ROW(hm_pool_unref, LEAVES),
	ROW(hm_queue_copy, CLEARS),
	ROW(hm_queue_create, CLEARS),
	ROW(hm_queue_fill, CLEARS),
	ROW(hm_queue_launch, CLEARS),
	ROW(hm_queue_launch_list, BY_HAND),
	ROW(hm_queue_ref, LEAVES),
	ROW(hm_queue_unref, LEAVES),
	ROW(hm_queue_wait, CLEARS),
	ROW(hm_range_advise, CLEARS),
	ROW(hm_range_counts_get, CLEARS),
	ROW(hm_range_events_close, LEAVES),
	ROW(hm_range_events_open, CLEARS),
	ROW(hm_range_events_read, CLEARS),
	ROW(hm_range_learn, CLEARS),
	ROW(hm_range_prefetch, CLEARS),
	ROW(hm_range_query, CLEARS),
	ROW(hm_reader_announce, CLEARS),
	ROW(hm_reader_file, CLEARS),
	ROW(hm_reader_gather, CLEARS),
	ROW(hm_reader_next, CLEARS),
	ROW(hm_reader_open, CLEARS),
	ROW(hm_reader_open_files, CLEARS),
	ROW(hm_reader_query, CLEARS),
	ROW(hm_reader_range, CLEARS),
	ROW(hm_reader_ref, LEAVES),
	ROW(hm_reader_unref, LEAVES),
	ROW(hm_realloc, CLEARS),
	ROW(hm_retire_flush, CLEARS),
	ROW(hm_retire_set, CLEARS),
	ROW(hm_ring_commit, CLEARS),
	ROW(hm_ring_create, CLEARS),
	ROW(hm_ring_open, CLEARS),
	ROW(hm_ring_peek, CLEARS),
	ROW(hm_ring_query, CLEARS),
	ROW(hm_ring_read, CLEARS),
	ROW(hm_ring_ref, LEAVES),
	ROW(hm_ring_release, CLEARS),
	ROW(hm_ring_reserve, CLEARS),
	ROW(hm_ring_sync, CLEARS),
	ROW(hm_ring_unref, LEAVES),
	ROW(hm_ring_write, CLEARS),
	ROW(hm_safetensors_find, CLEARS),
	ROW(hm_safetensors_metadata, CLEARS),
	ROW(hm_safetensors_metadata_find, CLEARS),
	ROW(hm_safetensors_open, CLEARS),
	ROW(hm_safetensors_query, CLEARS),
	ROW(hm_safetensors_read, CLEARS),
	ROW(hm_safetensors_ref, LEAVES),
	ROW(hm_safetensors_shard, CLEARS),
	ROW(hm_safetensors_tensor, CLEARS),
	ROW(hm_safetensors_unref, LEAVES),
	ROW(hm_safetensors_view, CLEARS),
	ROW(hm_safetensors_write, CLEARS),
	ROW(hm_sim_buffer, CLEARS),
	ROW(hm_sim_call, CLEARS),
	ROW(hm_sim_plug, CLEARS),
	ROW(hm_sim_queue, CLEARS),
	ROW(hm_stats_get, CLEARS),
	ROW(hm_tensor_address, LEAVES),
	ROW(hm_tensor_query, CLEARS),
	ROW(hm_tensor_ref, LEAVES),
	ROW(hm_tensor_unref, LEAVES),
	ROW(hm_tier_bad_clear, CLEARS),
	ROW(hm_tier_bad_ranges, CLEARS),
	ROW(hm_tier_list, CLEARS),
	ROW(hm_tiering_create, CLEARS),
	ROW(hm_tiering_moves, CLEARS),
	ROW(hm_tiering_query, CLEARS),
	ROW(hm_tiering_ref, LEAVES),
	ROW(hm_tiering_step, CLEARS),
	ROW(hm_tiering_unref, LEAVES),
	ROW(hm_tokens_document, CLEARS),
	ROW(hm_tokens_open, CLEARS),
	ROW(hm_tokens_query, CLEARS),
	ROW(hm_tokens_read, CLEARS),
	ROW(hm_tokens_ref, LEAVES),
	ROW(hm_tokens_shard, CLEARS),
	ROW(hm_tokens_unref, LEAVES),
	ROW(hm_version, LEAVES),
	ROW(hm_view_create, CLEARS),
	ROW(hm_view_unref, LEAVES),
	ROW(hm_warning, LEAVES),
};

static void set_earlier(void)
{
	err_begin();
	err_warn(WARNED);
	err_set(-EIO, EARLIER);
}

static bool text_stayed(void)
{
	return !strcmp(hm_errmsg(), EARLIER);
}

static bool warning_stayed(void)
{
	return !strcmp(hm_warning(), WARNED);
}

static bool none_left(void)
{
	return !*hm_errmsg() && !*hm_warning();
}

static bool is_right(const struct row *row, int r)
{
	switch (row->kind) {
	case LEAVES:
		return text_stayed() && warning_stayed();
	case UNLESS_IT_FAILS:
		return warning_stayed() && (r ? !text_stayed() && *hm_errmsg() : text_stayed());
	default:
		return !*hm_warning() && (r ? !text_stayed() && *hm_errmsg() : !*hm_errmsg());
	}
}

/* With zeros most functions fail, and the warning tells whether the door came first. */
static void every_function(void)
{
	const struct row *row;
	uintptr_t r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		row = &rows[i];
		if (row->kind == BY_HAND)
			continue;
		set_earlier();
		r = ((any_function *)row->function)(0, 0, 0, 0, 0, 0, 0);
		if (!is_right(row, (int)r))
			test_fail(
				__FILE__, __LINE__,
				"%s() gave %d and left the text \"%s\" and the warning \"%s\"",
				row->name, (int)r, hm_errmsg(), hm_warning());
	}
}

/* Those that take no zeros. */
static void by_hand(void)
{
	struct hm_guard guard;

	set_earlier();
	hm_error_begin();
	CHECK(!*hm_errmsg() && !*hm_warning());

	set_earlier();
	CHECK_EQUAL(hm_error_set(-EIO, "%s", "it broke"), -EIO);
	CHECK(!strcmp(hm_errmsg(), "it broke") && warning_stayed());
	set_earlier();
	CHECK_EQUAL(hm_error_set(0, "%s", "it copies"), 0);
	CHECK(!*hm_errmsg() && !strcmp(hm_warning(), WARNED "; it copies"));
	/* An errno without its sign is a failure nevertheless. */
	set_earlier();
	CHECK_ERROR(-EINVAL, hm_error_set(EIO, "%s", "it broke"));
	CHECK(strstr(hm_errmsg(), "it broke") && strstr(hm_errmsg(), "5") && warning_stayed());

	set_earlier();
	CHECK_ERROR(-EINVAL, hm_queue_launch_list(NULL, NULL, 0, NULL, hm_arg_end()));
	CHECK(!text_stayed() && !*hm_warning());

	/* As the macro of a guarded scope calls it after a fault. */
	AUTO(rig_handler) handler = rig_handler(0);
	HM_GUARD_INIT(&guard);
	CHECK_OK_FATAL(hm_guard_enter(&guard));
	CHECK_OK(hm_guard_end(&guard));
	set_earlier();
	CHECK(hm_guard_caught(&guard));
	CHECK(!text_stayed() && *hm_errmsg());
}

struct things {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	struct hm_pool *pool;
	unsigned char *bytes, *pooled;
};

static void make(struct things *things)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = MIB(1) };

	CHECK_OK_FATAL(hm_device_open("host", &things->device));
	CHECK_OK_FATAL(hm_buffer_create(things->device, &desc, &things->buffer));
	CHECK_OK_FATAL(hm_map_create(things->buffer, NULL, &things->map));
	CHECK_OK_FATAL(hm_pool_create(things->device, NULL, &things->pool));
	CHECK_OK_FATAL(hm_alloc(things->device, 4096, HM_READ | HM_WRITE, &things->bytes));
	CHECK_OK_FATAL(hm_pool_alloc(things->pool, 4096, 0, &things->pooled));
}

/* A success leaves no text, whatever was tried and given up inside. */
#define CLEARED(call)               \
	do {                        \
		set_earlier();      \
		CHECK_OK(call);     \
		CHECK(none_left()); \
	} while (0)

#define LEFT(call)                                        \
	do {                                              \
		set_earlier();                            \
		call;                                     \
		CHECK(text_stayed() && warning_stayed()); \
	} while (0)

static void successes(void)
{
	struct hm_pointer_detail detail = { .struct_size = sizeof(detail) };
	struct hm_buffer_info buffer = { .struct_size = sizeof(buffer) };
	struct hm_device_info device = { .struct_size = sizeof(device) };
	struct hm_map_info map = { .struct_size = sizeof(map) };
	struct hm_combine_info counts = { .struct_size = sizeof(counts) };
	struct hm_copy_info way = { .struct_size = sizeof(way) };
	struct hm_combine *combine;
	unsigned char copy[16] = { 1 };
	struct things it = { 0 };
	struct hm_pointer_info info;
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	struct hm_guard guard;
	struct hm_scope *scope;
	uint64_t locked;
	uint32_t n;

	make(&it);
	CLEARED(hm_device_query(it.device, &device));
	CLEARED(hm_device_list(NULL, 0, &n));
	CLEARED(hm_buffer_query(it.buffer, &buffer));
	CLEARED(hm_buffer_resize(it.buffer, 4096, 0));
	CLEARED(hm_buffer_resize(it.buffer, MIB(1), 0));
	CLEARED(hm_map_query(it.map, &map));
	CLEARED(hm_map_protect(it.map, 0, 4096, HM_READ));
	CLEARED(hm_map_protect_begin(it.map, 4096, 4096, HM_READ, &scope));
	CLEARED(hm_map_protect_end(scope));
	CLEARED(hm_map_lock(it.map, 0, 4096, 0, &locked));
	CLEARED(hm_map_unlock(it.map, 0, 4096));
	CLEARED(hm_map_advise(it.map, 0, 4096, HM_ADVICE_NORMAL));
	CLEARED(hm_map_prefetch(it.map, 4096, 4096, HM_READ));
	CLEARED(hm_map_begin_cpu(it.map, 4096, 4096, HM_WRITE));
	CLEARED(hm_map_end_cpu(it.map, 4096, 4096, HM_WRITE));
	CLEARED(hm_pointer_query(it.bytes, &detail));
	CLEARED(hm_realloc(it.bytes, 8192, 0, NULL));
	CLEARED(hm_pool_realloc(it.pool, it.pooled, 8192, HM_MAY_MOVE, &it.pooled));
	CLEARED(hm_pool_trim(it.pool, 0, NULL));
	CLEARED(hm_handler_install(0));
	HM_GUARD_INIT(&guard);
	CLEARED(hm_guard_enter(&guard));
	LEFT(CHECK_OK(hm_guard_end(&guard)));
	CLEARED(hm_copy_in(it.bytes, copy, sizeof(copy), &fault));
	CLEARED(hm_copy_out(copy, it.bytes, sizeof(copy), &fault));
	CLEARED(hm_handler_remove());
	CLEARED(hm_copy(it.bytes, copy, sizeof(copy), 0));
	CLEARED(hm_copy_query(it.bytes, copy, sizeof(copy), &way));
	CLEARED(hm_combine_create(it.map, NULL, &combine));
	CLEARED(hm_combine_write(combine, 4096, copy, sizeof(copy)));
	CLEARED(hm_combine_flush(combine, &fault));
	CLEARED(hm_combine_query(combine, &counts));
	CLEARED(hm_combine_discard(combine));
	LEFT(CHECK(hm_combine_ref(combine) == combine));
	LEFT(hm_combine_unref(combine));
	CHECK_OK(hm_combine_write(combine, 8192, copy, sizeof(copy)));
	LEFT(hm_combine_unref(combine));
	LEFT(CHECK_OK(hm_pointer_find(it.bytes, &info)));
	LEFT(CHECK(hm_map_address(it.map) && hm_map_length(it.map)));
	LEFT(CHECK(hm_map_ref(it.map) == it.map));
	LEFT(hm_map_unref(it.map));
	LEFT(CHECK_OK(hm_free(it.bytes)));
	LEFT(CHECK_OK(hm_pool_free(it.pool, it.pooled)));
	LEFT(hm_pool_unref(it.pool));
	LEFT(hm_map_unref(it.map));
	LEFT(hm_buffer_unref(it.buffer));
	LEFT(hm_device_unref(it.device));
}

/* A call fails, the program releases its objects, and then prints the text. */
static void released_first(void)
{
	struct things it = { 0 };

	make(&it);
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(it.buffer, MIB(2), 0));
	CHECK_OK(hm_pool_free(it.pool, it.pooled));
	hm_pool_unref(it.pool);
	CHECK_OK(hm_free(it.bytes));
	hm_map_unref(it.map);
	hm_buffer_unref(it.buffer);
	hm_device_unref(it.device);
	CHECK(strstr(hm_errmsg(), "2097152 bytes are beyond max_size"));
}

/* An old failure is no warning, and a warning no failure. */
static void less_than_asked(void)
{
	struct rlimit limit, low;
	struct things it = { 0 };
	unsigned char *bytes;

	make(&it);
	CHECK_ERROR(-ENOSPC, hm_buffer_resize(it.buffer, MIB(2), 0));
	CHECK_FATAL(!getrlimit(RLIMIT_FSIZE, &limit));
	low = (struct rlimit){ .rlim_cur = MIB(8), .rlim_max = limit.rlim_max };
	CHECK_FATAL(!setrlimit(RLIMIT_FSIZE, &low));
	CHECK_OK_FATAL(hm_alloc(it.device, MIB(1), HM_READ | HM_WRITE, &bytes));
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
	CHECK(!*hm_errmsg());
	CHECK(strstr(hm_warning(), "8 MiB of address space were reserved for growth"));
	LEFT(CHECK_OK(hm_free(bytes)));
	CLEARED(hm_alloc(it.device, MIB(1), HM_READ | HM_WRITE, &bytes));
	CHECK_OK(hm_free(bytes));
	CHECK_OK(hm_pool_free(it.pool, it.pooled));
	hm_pool_unref(it.pool);
	CHECK_OK(hm_free(it.bytes));
	hm_map_unref(it.map);
	hm_buffer_unref(it.buffer);
	hm_device_unref(it.device);
}

/* ---- functions of the program ---- */

struct program {
	struct hm_map *other;
	bool heard;
};

static int quiesce(void *user, const struct hm_view_change *change)
{
	struct program *program = user;

	(void)change;
	/* The surrounding call has no text yet. */
	CHECK_ERROR(-EINVAL, hm_map_advise(program->other, 0, 0, UINT32_MAX));
	CHECK(strstr(hm_errmsg(), "advice"));
	return -EAGAIN;
}

static int agree(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return 0;
}

static void reattach(void *user, const struct hm_view_change *change)
{
	struct program *program = user;

	(void)change;
	CHECK_OK(hm_map_advise(program->other, 0, 4096, HM_ADVICE_NORMAL));
	program->heard = true;
}

/* A function that the library calls makes calls of its own: the outer call's text stays. */
static void callbacks(void)
{
	static const struct hm_view_ops first = {
		.struct_size = sizeof(first),
		.quiesce = agree,
		.reattach = reattach,
	};
	static const struct hm_view_ops second = {
		.struct_size = sizeof(second),
		.quiesce = quiesce,
	};
	struct program program = { 0 };
	struct hm_view *views[2];
	struct things it = { 0 };
	struct hm_map *other;

	make(&it);
	CHECK_OK_FATAL(hm_map_create(it.buffer, NULL, &other));
	program.other = other;
	CHECK_OK_FATAL(hm_view_create(it.map, 0, 4096, &first, &program, &views[0]));
	CHECK_OK_FATAL(hm_view_create(it.map, 0, 4096, &second, &program, &views[1]));
	CHECK_ERROR(-EBUSY, hm_map_protect(it.map, 0, 4096, HM_READ));
	CHECK(strstr(hm_errmsg(), "refused the change"));
	hm_view_unref(views[1]);
	program.heard = false;
	CLEARED(hm_map_protect(it.map, 0, 4096, HM_READ));
	CHECK(program.heard);
	hm_view_unref(views[0]);
	hm_map_unref(other);
	CHECK_OK(hm_pool_free(it.pool, it.pooled));
	hm_pool_unref(it.pool);
	CHECK_OK(hm_free(it.bytes));
	hm_map_unref(it.map);
	hm_buffer_unref(it.buffer);
	hm_device_unref(it.device);
}

static const struct test tests[] = {
	{ "every_function", every_function, 0, 0 },
	{ "by_hand", by_hand, 0, 0 },
	{ "successes", successes, 0, 0 },
	{ "released_first", released_first, 0, 0 },
	{ "less_than_asked", less_than_asked, 0, 0 },
	{ "callbacks", callbacks, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "errors", tests)
