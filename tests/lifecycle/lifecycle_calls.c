// SPDX-License-Identifier: MIT
/* Each public operation with good arguments, for the walk over the table of lifecycles. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/load.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "accel/accel_support.h"
#include "lifecycle/lifecycle_world.h"
#include "format/safetensors_support.h"

#define SIZE (UNITS * life->f.unit)
#define UNIT (life->f.unit)

static void *base_of(struct life *life)
{
	return hm_map_address(life->map);
}

/* ---- device ---- */

static int device_query(struct life *life)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	return hm_device_query(life->f.device, &info);
}

static int device_stats(struct life *life)
{
	struct hm_device_stats stats = { .struct_size = sizeof(stats) };

	return hm_device_stats_get(life->f.device, &stats);
}

static int device_ref(struct life *life)
{
	CHECK(hm_device_ref(life->f.device) == life->f.device);
	hm_device_unref(life->f.device);
	return 0;
}

static int device_unref(struct life *life)
{
	hm_device_ref(life->f.device);
	hm_device_unref(life->f.device);
	return 0;
}

static int buffer_create(struct life *life)
{
	return hm_buffer_create(life->f.device,
				DESC(hm_buffer_desc, .size = SIZE,
				     .flags = life->f.subject->flags & ~HM_BUFFER_READ_ONLY),
				&life->made_buffer);
}

static int buffer_from_file(struct life *life)
{
	int r, fd = scratch_file(SIZE);

	r = hm_buffer_from_file(life->f.device, NULL, fd,
				DESC(hm_buffer_desc, .flags = life->f.subject->flags),
				&life->made_buffer);
	close(fd);
	return r;
}

static int buffer_import(struct life *life)
{
	/* See has_import(): any file does. */
	int fd = life->import >= 0 ? life->import : STDIN_FILENO;

	return hm_buffer_import(life->f.device, fd, NULL, &life->made_buffer);
}

static int buffer_receive(struct life *life)
{
	return hm_buffer_receive(life->f.device, life->pair[1], NULL, &life->made_buffer);
}

static int alloc(struct life *life)
{
	return hm_alloc(life->f.device, SIZE, HM_READ | (life->f.writable ? HM_WRITE : 0),
			&life->made_memory);
}

static int pool_create(struct life *life)
{
	struct hm_pool *pool;
	int r = hm_pool_create(life->f.device, NULL, &pool);

	if (!r)
		hm_pool_unref(pool);
	return r;
}

static int load_create(struct life *life)
{
	AUTO_FOLDER char *folder = folder_make();
	struct hm_load *load;
	struct hm_pieces *pieces = pieces_open(tensors_file(
		folder, "a", "{\"t\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}",
		9));
	int r = hm_load_create(life->f.device, pieces, NULL, &load);

	if (!r)
		hm_load_unref(load);
	hm_pieces_unref(pieces);
	return r;
}

static int sim_call(struct life *life)
{
	return hm_sim_call(life->f.device, HETSIM_QUERY, SIZED(hetsim_query));
}

static bool is_sim(struct life *life)
{
	return !strncmp(life->f.device_info.name, "soft:", 5) ||
	       !strncmp(life->f.device_info.name, "sim:", 4);
}

static int frame_pool_of(struct life *life, struct hm_frame_pool **ret_pool)
{
	return hm_frame_pool_create(life->f.device,
				    DESC(hm_frame_pool_desc, .fourcc = HM_FRAME_R8, .width = 16,
					 .height = 1),
				    ret_pool);
}

static int frame_pool_create(struct life *life)
{
	struct hm_frame_pool *pool;
	int r = frame_pool_of(life, &pool);

	if (!r)
		hm_frame_pool_unref(pool);
	return r;
}

static int frame_import(struct life *life)
{
	const struct hm_frame_objects objects = {
		.struct_size = sizeof(objects),
		.fourcc = HM_FRAME_R8,
		.width = 16,
		.height = 1,
		.n_planes = 1,
		.n_objects = 1,
		.fd = { life->import >= 0 ? life->import : STDIN_FILENO, -1, -1, -1 },
		.plane = { { .stride = 16 } },
	};
	struct hm_frame *frame;
	int r = hm_frame_import(life->f.device, &objects, 0, &frame);

	if (!r)
		hm_frame_unref(frame);
	return r;
}

/* A frame of the device itself; from one that makes none, the buffer that waits. */
static int frame_receive(struct life *life)
{
	struct hm_frame *frame = NULL, *received;
	struct hm_frame_pool *pool;
	int pair[2], r;

	if (frame_pool_of(life, &pool))
		return hm_frame_receive(life->f.device, life->pair[1], 0, &received);
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	CHECK_OK_FATAL(hm_frame_pool_acquire(pool, 0, &frame));
	CHECK_OK_FATAL(hm_frame_send(frame, pair[0], 0));
	r = hm_frame_receive(life->f.device, pair[1], 0, &received);
	if (!r)
		hm_frame_unref(received);
	hm_frame_unref(frame);
	hm_frame_pool_unref(pool);
	close(pair[0]);
	close(pair[1]);
	return r;
}

static bool sends_frames(struct life *life)
{
	return life_is_sent(life) && life->f.device_info.caps & HM_CAP_CREATE;
}

/* Where nothing can be imported for want of the capability, nothing that could be is needed. */
static bool has_import(struct life *life)
{
	return life->import >= 0 || !(life->f.device_info.caps & HM_CAP_IMPORT);
}

/* Memory of the host's as an object of the device, if that is a node that has the call. */
static int device_drm_view(struct life *life)
{
	return hm_drm_view_create(life->host_map, 0, 0, life->f.device, HM_READ | HM_WRITE,
				  &life->made_drm_view);
}

static bool takes_memory(struct life *life)
{
	return strstr(life->f.device_info.description, "amdgpu") ||
	       strstr(life->f.device_info.description, "i915");
}

/* ---- buffer ---- */

static int buffer_query(struct life *life)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };

	return hm_buffer_query(life->buffer, &info);
}

static int buffer_stats(struct life *life)
{
	struct hm_buffer_stats stats = { .struct_size = sizeof(stats) };

	return hm_buffer_stats_get(life->buffer, &stats);
}

static int buffer_ref(struct life *life)
{
	CHECK(hm_buffer_ref(life->buffer) == life->buffer);
	hm_buffer_unref(life->buffer);
	return 0;
}

static int buffer_unref(struct life *life)
{
	hm_buffer_ref(life->buffer);
	hm_buffer_unref(life->buffer);
	return 0;
}

static int buffer_export(struct life *life)
{
	return hm_buffer_export(life->buffer, 0, &life->made_fd);
}

static int buffer_export_read_only(struct life *life)
{
	return hm_buffer_export(life->buffer, HM_EXPORT_READ_ONLY, &life->made_fd);
}

static int buffer_export_dmabuf(struct life *life)
{
	return hm_buffer_export(life->buffer, HM_EXPORT_DMABUF, &life->made_fd);
}

static int buffer_send(struct life *life)
{
	return hm_buffer_send(life->buffer, life->pair[0], 0);
}

static int buffer_send_read_only(struct life *life)
{
	return hm_buffer_send(life->buffer, life->pair[0], HM_EXPORT_READ_ONLY);
}

static int buffer_grow(struct life *life)
{
	return hm_buffer_resize(life->buffer, SIZE + UNIT, 0);
}

static int buffer_keep_size(struct life *life)
{
	return hm_buffer_resize(life->buffer, SIZE, 0);
}

static int buffer_shrink(struct life *life)
{
	return hm_buffer_resize(life->buffer, SIZE / 2, 0);
}

static int buffer_replace(struct life *life)
{
	return hm_buffer_resize(life->buffer, SIZE + UNIT, HM_GROW_REPLACE);
}

static int map_create(struct life *life, uint32_t access)
{
	struct hm_map_desc desc = { .struct_size = sizeof(desc), .access = access };

	return hm_map_create(life->buffer, &desc, &life->made_map);
}

static int map_create_to_read(struct life *life)
{
	return map_create(life, HM_READ);
}

static int map_create_to_write(struct life *life)
{
	return map_create(life, HM_READ | HM_WRITE);
}

static int sim_buffer(struct life *life)
{
	uint32_t handle;

	return hm_sim_buffer(life->buffer, &handle);
}

static int drm_buffer_handle(struct life *life)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };

	return hm_drm_buffer_handle(life->buffer, 0, &handle);
}

static bool is_drm(struct life *life)
{
	return !strncmp(life->f.device_info.name, "drm:", 4);
}

static bool is_memory(struct life *life)
{
	return life->f.info.backing == HM_BACKING_MEMFD ||
	       life->f.info.backing == HM_BACKING_HUGETLB;
}

/* Calls that are refused before they touch the memory. */
static bool is_memory_or_gone(struct life *life)
{
	return is_memory(life) || life->state == LC_BUFFER_GONE;
}

/* Its first export leads to another state where that pins the memory. */
static bool is_plain(struct life *life)
{
	return life->state != LC_BUFFER_OWN || !life_exports_pin(life);
}

/* Where sending pins the memory, "sent" answers as "pinned". */
static bool is_sealable(struct life *life)
{
	return is_memory_or_gone(life) &&
	       (life->state != LC_BUFFER_SENT || !life_exports_pin(life));
}

/* A private copy of a file has no other reader of published bytes. */
static bool is_no_copy(struct life *life)
{
	return life->f.info.backing != HM_BACKING_FILE_PRIVATE;
}

static bool is_writable(struct life *life)
{
	return life->f.writable;
}

/* ---- map ---- */

static int map_address(struct life *life)
{
	CHECK(hm_map_address(life->map));
	return 0;
}

static int map_length(struct life *life)
{
	CHECK(hm_map_length(life->map) >= SIZE);
	return 0;
}

static int map_query(struct life *life)
{
	struct hm_map_info info = { .struct_size = sizeof(info) };

	return hm_map_query(life->map, &info);
}

static int map_protect(struct life *life)
{
	return hm_map_protect(life->map, 0, UNIT, HM_NONE);
}

static int map_unprotect(struct life *life)
{
	return hm_map_protect(life->map, 0, SIZE, HM_READ | (life->f.writable ? HM_WRITE : 0));
}

static int map_protect_begin(struct life *life)
{
	return hm_map_protect_begin(life->map, 0, UNIT, HM_NONE, &life->made_scope);
}

int life_copy_in(struct life *life)
{
	char bytes[64] = { 0 };

	return hm_copy_in((char *)base_of(life) + UNIT, bytes, sizeof(bytes), NULL);
}

int life_copy_out(struct life *life)
{
	char bytes[64];

	return hm_copy_out(bytes, (char *)base_of(life) + UNIT, sizeof(bytes), NULL);
}

int life_map_lock(struct life *life)
{
	return hm_map_lock(life->map, 0, UNIT, 0, NULL);
}

int life_map_unlock(struct life *life)
{
	return hm_map_unlock(life->map, 0, UNIT);
}

static int map_advise(struct life *life)
{
	return hm_map_advise(life->map, 0, UNIT, HM_ADVICE_NORMAL);
}

static int map_prefetch(struct life *life)
{
	return hm_map_prefetch(life->map, 0, UNIT, HM_READ);
}

static int map_sync(struct life *life)
{
	return hm_map_sync(life->map, 0, UNIT, 0);
}

static int map_persist(struct life *life)
{
	return hm_map_persist(life->map, 0, UNIT);
}

static int file_publish(struct life *life)
{
	return hm_file_publish(life->map, 0, UNIT);
}

static int file_refresh(struct life *life)
{
	return hm_file_refresh(life->map, 0, UNIT);
}

static int map_begin_cpu(struct life *life)
{
	return hm_map_begin_cpu(life->map, 0, SIZE, HM_READ);
}

static int map_end_cpu(struct life *life)
{
	return hm_map_end_cpu(life->map, 0, SIZE, HM_READ);
}

static int map_ref(struct life *life)
{
	CHECK(hm_map_ref(life->map) == life->map);
	hm_map_unref(life->map);
	return 0;
}

static int map_unref(struct life *life)
{
	hm_map_ref(life->map);
	hm_map_unref(life->map);
	return 0;
}

static int view_create(struct life *life)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops) };

	return hm_view_create(life->map, 0, 0, &ops, NULL, &life->made_view);
}

static int combine_create(struct life *life)
{
	struct hm_combine *combine;
	int r = hm_combine_create(life->map, NULL, &combine);

	if (!r)
		hm_combine_unref(combine);
	return r;
}

/* A machine with memory of one node has no tier to move bytes to. */
static int tiering_create(struct life *life)
{
	struct hm_tiering *tiering;
	int r = hm_tiering_create(life->map,
				  DESC(hm_tiering_desc, .flags = HM_TIERING_MANUAL,
				       .fast_bytes = 1 << 20, .bytes_per_second = 1 << 20),
				  &tiering);

	if (!r)
		hm_tiering_unref(tiering);
	return r;
}

static int drm_view_create(struct life *life)
{
	return hm_drm_view_create(life->map, 0, 0, life->node ? life->node : life->f.device,
				  HM_READ, &life->made_drm_view);
}

static bool has_node(struct life *life)
{
	return life->node != NULL;
}

static int pointer_find(struct life *life)
{
	struct hm_pointer_info info;

	return hm_pointer_find(base_of(life), &info);
}

static int pointer_query(struct life *life)
{
	struct hm_pointer_detail detail = { .struct_size = sizeof(detail) };

	return hm_pointer_query(base_of(life), &detail);
}

static int accel_way_in(struct life *life)
{
	uint32_t way;

	return hm_accel_way_in(life->accel, base_of(life), SIZE, &way);
}

/* Fills a page that a change of the first one leaves alone. */
int life_queue_fill(struct life *life)
{
	return hm_queue_fill(life->queue, (char *)base_of(life) + UNIT, 1, UNIT,
			     &life->made_fence);
}

int life_queue_copy(struct life *life)
{
	return hm_queue_copy(life->queue, (char *)base_of(life) + UNIT,
			     (char *)base_of(life) + 2 * UNIT, UNIT, &life->made_fence);
}

int life_queue_launch(struct life *life)
{
	const uint64_t grid[3] = { 1, 1, 1 };
	const struct hm_arg arg = HM_RANGE((char *)base_of(life) + UNIT, UNIT, HM_READ);

	return hm_queue_launch(life->queue, life->kernel, grid, &arg, 1, &life->made_fence);
}

/* ---- loss ---- */

static int device_recover(struct life *life)
{
	return hm_device_recover(life->f.device, 0, NULL);
}

static int set_loss(struct life *life, uint32_t policy)
{
	return hm_buffer_set_loss(life->buffer, DESC(hm_loss_desc, .policy = policy));
}

static int buffer_set_loss(struct life *life)
{
	return set_loss(life, HM_LOSS_ZERO);
}

static void make_shadow(struct life *life)
{
	/* A buffer whose shadow is kept can't be sealed any more. */
	if (life->state != LC_BUFFER_FROZEN)
		life->has_shadow = !set_loss(life, HM_LOSS_SHADOW);
}

static int buffer_shadow(struct life *life)
{
	return hm_buffer_shadow(life->buffer, 0, UNIT);
}

/* One that was received is another buffer, and has none. */
static bool has_shadow(struct life *life)
{
	return life->has_shadow && life->state != LC_BUFFER_RECEIVED &&
	       life->state != LC_BUFFER_OWNER_GONE;
}

static int buffer_seal(struct life *life)
{
	return hm_buffer_seal(life->buffer, 0);
}

/* ---- the table ---- */

#define CALL(noun, function, variant, call, is_supported, is_meant)               \
	{                                                                         \
		LC_##noun, #function, variant, call, is_supported, is_meant, NULL \
	}

const struct life_call life_calls[] = {
	CALL(DEVICE, hm_device_query, "", device_query, NULL, NULL),
	CALL(DEVICE, hm_device_stats_get, "", device_stats, NULL, NULL),
	CALL(DEVICE, hm_device_ref, "", device_ref, NULL, NULL),
	CALL(DEVICE, hm_device_unref, "", device_unref, NULL, NULL),
	CALL(DEVICE, hm_buffer_create, "", buffer_create, NULL, NULL),
	CALL(DEVICE, hm_buffer_from_file, "", buffer_from_file, NULL, NULL),
	CALL(DEVICE, hm_buffer_import, "", buffer_import, NULL, has_import),
	CALL(DEVICE, hm_buffer_receive, "", buffer_receive, NULL, life_is_sent),
	CALL(DEVICE, hm_alloc, "", alloc, NULL, NULL),
	CALL(DEVICE, hm_pool_create, "", pool_create, NULL, NULL),
	CALL(DEVICE, hm_frame_pool_create, "", frame_pool_create, NULL, NULL),
	CALL(DEVICE, hm_frame_import, "", frame_import, NULL, has_import),
	CALL(DEVICE, hm_frame_receive, "", frame_receive, NULL, sends_frames),
	CALL(DEVICE, hm_load_create, "", load_create, NULL, NULL),
	CALL(DEVICE, hm_sim_call, "", sim_call, is_sim, NULL),
	CALL(DEVICE, hm_drm_view_create, "", device_drm_view, takes_memory, NULL),
	CALL(BUFFER, hm_buffer_query, "", buffer_query, NULL, NULL),
	CALL(BUFFER, hm_buffer_stats_get, "", buffer_stats, NULL, NULL),
	CALL(BUFFER, hm_buffer_ref, "", buffer_ref, NULL, NULL),
	CALL(BUFFER, hm_buffer_unref, "", buffer_unref, NULL, NULL),
	CALL(BUFFER, hm_buffer_export, "", buffer_export, NULL, is_plain),
	CALL(BUFFER, hm_buffer_export, "read-only", buffer_export_read_only, NULL,
	     is_memory_or_gone),
	CALL(BUFFER, hm_buffer_export, "dma-buf", buffer_export_dmabuf, NULL,
	     is_memory_or_gone),
	CALL(BUFFER, hm_buffer_send, "", buffer_send, life_is_sent, NULL),
	CALL(BUFFER, hm_buffer_send, "read-only", buffer_send_read_only, life_is_sent,
	     is_memory_or_gone),
	CALL(BUFFER, hm_buffer_resize, "to grow", buffer_grow, NULL, NULL),
	CALL(BUFFER, hm_buffer_resize, "to shrink", buffer_shrink, NULL, NULL),
	CALL(BUFFER, hm_buffer_resize, "to the size it has", buffer_keep_size, NULL, NULL),
	CALL(BUFFER, hm_buffer_resize, "HM_GROW_REPLACE", buffer_replace, NULL, NULL),
	CALL(BUFFER, hm_map_create, "to read", map_create_to_read, NULL, NULL),
	CALL(BUFFER, hm_map_create, "to write", map_create_to_write, NULL, is_writable),
	CALL(BUFFER, hm_sim_buffer, "", sim_buffer, is_sim, NULL),
	CALL(BUFFER, hm_drm_buffer_handle, "", drm_buffer_handle, is_drm, NULL),
	CALL(MAP, hm_map_address, "", map_address, NULL, NULL),
	CALL(MAP, hm_map_length, "", map_length, NULL, NULL),
	CALL(MAP, hm_map_query, "", map_query, NULL, NULL),
	CALL(MAP, hm_map_protect, "to take rights away", map_protect, NULL, NULL),
	CALL(MAP, hm_map_protect, "to give them back", map_unprotect, NULL, NULL),
	CALL(MAP, hm_map_protect_begin, "", map_protect_begin, NULL, NULL),
	CALL(MAP, hm_map_lock, "", life_map_lock, NULL, NULL),
	CALL(MAP, hm_map_unlock, "", life_map_unlock, NULL, NULL),
	CALL(MAP, hm_map_advise, "", map_advise, NULL, NULL),
	CALL(MAP, hm_map_prefetch, "", map_prefetch, NULL, NULL),
	CALL(MAP, hm_map_sync, "", map_sync, NULL, NULL),
	CALL(MAP, hm_map_persist, "", map_persist, NULL, NULL),
	CALL(MAP, hm_file_publish, "", file_publish, is_no_copy, NULL),
	CALL(MAP, hm_file_refresh, "", file_refresh, NULL, NULL),
	CALL(MAP, hm_map_begin_cpu, "", map_begin_cpu, NULL, NULL),
	CALL(MAP, hm_map_end_cpu, "", map_end_cpu, NULL, NULL),
	CALL(MAP, hm_map_ref, "", map_ref, NULL, NULL),
	CALL(MAP, hm_map_unref, "", map_unref, NULL, NULL),
	CALL(MAP, hm_view_create, "", view_create, NULL, NULL),
	CALL(MAP, hm_combine_create, "", combine_create, NULL, is_writable),
	CALL(MAP, hm_tiering_create, "", tiering_create, NULL, NULL),
	CALL(MAP, hm_drm_view_create, "", drm_view_create, has_node, NULL),
	CALL(MAP, hm_buffer_resize, "to shrink", buffer_shrink, NULL, NULL),
	CALL(MAP, hm_pointer_find, "", pointer_find, NULL, NULL),
	CALL(MAP, hm_pointer_query, "", pointer_query, NULL, NULL),
	CALL(MAP, hm_accel_way_in, "", accel_way_in, NULL, NULL),
	CALL(MAP, hm_queue_fill, "of its bytes", life_queue_fill, NULL, is_writable),
	CALL(MAP, hm_queue_copy, "of its bytes", life_queue_copy, NULL, is_writable),
	CALL(MAP, hm_queue_launch, "on its bytes", life_queue_launch, NULL, NULL),
	CALL(MAP, hm_copy_in, "", life_copy_in, NULL, is_writable),
	CALL(MAP, hm_copy_out, "", life_copy_out, NULL, NULL),
	CALL(DEVICE, hm_device_recover, "", device_recover, NULL, NULL),
	CALL(BUFFER, hm_buffer_seal, "", buffer_seal, life_can_freeze, is_sealable),
	CALL(BUFFER, hm_buffer_set_loss, "", buffer_set_loss, NULL, NULL),
	{ LC_BUFFER, "hm_buffer_shadow", "", buffer_shadow, has_shadow, NULL, make_shadow },
	{ .call = NULL },
};
