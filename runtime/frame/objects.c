// SPDX-License-Identifier: MIT
/* Frames as descriptors: for other devices, libraries and processes. */
#include <inttypes.h>
#include <string.h>

#include "api/api.h"
#include "base/sys.h"
#include "frame/frame.h"

/* ---- export ---- */

static void close_all(struct hm_frame_objects *objects)
{
	uint32_t i;

	for (i = 0; i < HM_FRAME_PLANES; i++)
		if (objects->fd[i] >= 0)
			sys_close(objects->fd[i]);
}

void frame_describe(struct hm_frame *frame, struct hm_frame_objects *objects)
{
	const struct hm_frame_layout *layout = &frame->layout;
	uint32_t i;

	*objects = (struct hm_frame_objects){
		.fourcc = layout->fourcc,
		.modifier = layout->modifier,
		.width = layout->width,
		.height = layout->height,
		.n_planes = layout->n_planes,
		.n_objects = frame->n_memory,
		.fields = HM_FRAME_VISIBLE | HM_FRAME_COLOUR | HM_FRAME_TIME,
	};
	memcpy(objects->plane, layout->plane, sizeof(objects->plane));
	for (i = 0; i < HM_FRAME_PLANES; i++)
		objects->fd[i] = -1;
	for (i = 0; i < frame->n_memory; i++)
		objects->size[i] = hm_map_length(frame->memory[i].map);
	pthread_mutex_lock(&frame->lock);
	objects->props = frame->props;
	pthread_mutex_unlock(&frame->lock);
}

int hm_frame_export(struct hm_frame *frame, uint32_t flags,
		    struct hm_frame_objects *ret_objects)
{
	struct hm_frame_objects objects;
	uint32_t i;
	int r;

	err_begin();
	r = object_check((struct hm_object *)frame, OBJECT_FRAME);
	if (r)
		return r;
	if (!ret_objects)
		return err_set(-EINVAL, "hm_frame_export: ret_objects is NULL");
	r = struct_check_out(ret_objects->struct_size, sizeof(objects), sizeof(objects),
			     "hm_frame_objects");
	if (r)
		return r;
	frame_describe(frame, &objects);
	for (i = 0; i < frame->n_memory; i++) {
		r = buffer_export(frame->memory[i].buffer, flags, &objects.fd[i]);
		if (r) {
			close_all(&objects);
			return r;
		}
	}
	struct_write(ret_objects, &objects, ret_objects->struct_size);
	return 0;
}

/* ---- import ---- */

void memory_end(struct frame_memory *memory, uint32_t n)
{
	while (n--) {
		hm_map_unref(memory[n].map);
		hm_buffer_unref(memory[n].buffer);
	}
}

int memory_map(struct hm_buffer *buffer, uint32_t flags, struct frame_memory *memory,
	       uint64_t *ret_size)
{
	struct hm_buffer_info info = { .struct_size = sizeof(info) };
	struct hm_map_desc desc = { .struct_size = sizeof(desc) };
	int r;

	r = buffer_query(buffer, &info);
	desc.length = info.size;
	desc.access = flags & HM_BUFFER_READ_ONLY ? HM_READ : info.access;
	if (!r)
		r = map_create(buffer, &desc, &memory->map);
	if (r) {
		hm_buffer_unref(buffer);
		return r;
	}
	memory->buffer = buffer;
	*ret_size = info.size;
	return 0;
}

static int import_memory(struct hm_device *device, int fd, uint64_t size, uint32_t flags,
			 struct frame_memory *memory, uint64_t *ret_size)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = flags,
		.size = size,
		.name = "frame",
	};
	struct hm_buffer *buffer;
	int r = buffer_import(device, fd, &desc, &buffer);

	return r ? r : memory_map(buffer, flags, memory, ret_size);
}

/* One object may have several descriptors; each object becomes one buffer. */
static int find_same(const int32_t *fds, uint32_t i, uint32_t *ret_same)
{
	struct stat all[HM_FRAME_PLANES];
	uint32_t k;
	int r;

	for (k = 0; k <= i; k++) {
		r = sys_fstat(fds[k], &all[k]);
		if (r)
			return err_set(r, "object %" PRIu32 ": descriptor %d: %s", k, fds[k],
				       err_name(r));
	}
	for (k = 0; k < i; k++)
		if (all[k].st_dev == all[i].st_dev && all[k].st_ino == all[i].st_ino)
			break;
	*ret_same = k;
	return 0;
}

static int import_all(struct hm_device *device, const struct hm_frame_objects *objects,
		      uint32_t flags, struct frame_import *to)
{
	uint32_t i, same = 0;
	int r = 0;

	for (i = 0; i < objects->n_objects && !r; i++) {
		r = find_same(objects->fd, i, &same);
		if (!r && same < i) {
			to->of[i] = to->of[same];
			continue;
		}
		if (!r)
			r = import_memory(device, objects->fd[i], objects->size[i], flags,
					  &to->memory[to->n], &to->size[to->n]);
		if (!r)
			to->of[i] = to->n++;
	}
	if (!r)
		return 0;
	memory_end(to->memory, to->n);
	return err_prefix(r, "object %" PRIu32 " of a frame", i - 1);
}

static int fill_layout(const struct hm_frame_objects *objects, const struct frame_import *from,
		       struct hm_frame_layout *layout)
{
	uint32_t i;

	*layout = (struct hm_frame_layout){
		.fourcc = objects->fourcc,
		.n_planes = objects->n_planes,
		.modifier = objects->modifier,
		.width = objects->width,
		.height = objects->height,
	};
	for (i = 0; i < objects->n_planes; i++) {
		layout->plane[i] = objects->plane[i];
		if (objects->plane[i].object >= objects->n_objects)
			return err_set(-EINVAL,
				       "plane %" PRIu32 " is in object %" PRIu32
				       ", and there are %" PRIu32,
				       i, objects->plane[i].object, objects->n_objects);
		layout->plane[i].object = from->of[objects->plane[i].object];
	}
	for (i = 0; i < from->n; i++)
		layout->bytes += from->size[i];
	return planes_check(layout, from->n, from->size);
}

int frame_check_flags(const char *what, uint32_t flags)
{
	if (flags & ~HM_BUFFER_READ_ONLY)
		return err_set(-EINVAL, "%s: flags 0x%x: only HM_BUFFER_READ_ONLY is possible",
			       what, flags);
	return 0;
}

int frame_check_objects(const struct hm_frame_objects *objects)
{
	if (!objects->width || !objects->height)
		return err_set(-EINVAL,
			       "a picture of %" PRIu32 " x %" PRIu32 " pixels has no pixel",
			       objects->width, objects->height);
	if (!objects->n_planes || objects->n_planes > HM_FRAME_PLANES || !objects->n_objects ||
	    objects->n_objects > HM_FRAME_PLANES)
		return err_set(-EINVAL,
			       "%" PRIu32 " planes in %" PRIu32 " objects are not 1 to %d each",
			       objects->n_planes, objects->n_objects, HM_FRAME_PLANES);
	return 0;
}

int frame_wrap(const struct hm_frame_objects *objects, const struct frame_import *from,
	       struct hm_frame **ret_frame)
{
	const struct hm_frame_rect whole = { .width = objects->width,
					     .height = objects->height };
	struct hm_frame_layout layout;
	struct hm_frame_props props;
	int r;

	r = fill_layout(objects, from, &layout);
	props_init(&props, &whole);
	if (!r)
		r = props_set(&props, objects->fields, &objects->props, &layout);
	if (!r)
		r = frame_make(&layout, &whole, from->n, from->memory, ret_frame);
	if (!r)
		(*ret_frame)->props = props;
	return r;
}

static int import(struct hm_device *device, const struct hm_frame_objects *objects,
		  uint32_t flags, struct hm_frame **ret_frame)
{
	struct frame_import all = { 0 };
	struct hm_frame *frame;
	int r;

	r = import_all(device, objects, flags, &all);
	if (r)
		return r;
	r = frame_wrap(objects, &all, &frame);
	if (r) {
		memory_end(all.memory, all.n);
		return r;
	}
	*ret_frame = frame;
	return 0;
}

int hm_frame_import(struct hm_device *device, const struct hm_frame_objects *from,
		    uint32_t flags, struct hm_frame **ret_frame)
{
	struct hm_frame_objects objects;
	int r;

	err_begin();
	r = object_check((struct hm_object *)device, OBJECT_DEVICE);
	if (r)
		return r;
	if (!from || !ret_frame)
		return err_set(-EINVAL, "hm_frame_import: %s is NULL",
			       from ? "ret_frame" : "objects");
	r = struct_read(&objects, sizeof(objects), from, from->struct_size,
			offsetof(struct hm_frame_objects, props), "hm_frame_objects");
	if (!r)
		r = frame_check_flags("hm_frame_import", flags);
	if (!r)
		r = frame_check_objects(&objects);
	return r ? r : import(device, &objects, flags, ret_frame);
}
