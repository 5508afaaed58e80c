// SPDX-License-Identifier: MIT
/* Small backends: for the answers of those that lack things. */
#include "lib/minimal_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/units.h"

#define GROWTH (HM_CAP_RESIZE | HM_CAP_APPEND | HM_CAP_REPLACE | HM_CAP_MULTI_MAP)

static int device_open(const char *rest, void **ret_device)
{
	*ret_device = NULL;
	return *rest ? -ENODEV : 0;
}

static void device_close(void *device)
{
	(void)device;
}

static int device_query(void *device, struct hm_device_info *info)
{
	(void)device, (void)info;
	return 0;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	uint64_t length = (desc->max_size + PAGE - 1) / PAGE * PAGE;
	int fd = memfd_create("minimal", MFD_CLOEXEC);

	(void)device;
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)length)) {
		close(fd);
		return -ENOMEM;
	}
	*ret_recipe = (struct hm_recipe){
		.segment = {
			.length = length,
			.fd = fd,
			.flags = HM_SEGMENT_SHARED,
		},
		.page_size = PAGE,
		.caps = HM_CAP_CONTIGUOUS | HM_CAP_WRITE,
		.access = HM_READ | HM_WRITE,
	};
	return 0;
}

static int create_growing(void *device, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = create(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps |= GROWTH;
	return r;
}

static int create_fixed(void *device, const struct hm_buffer_desc *desc,
			struct hm_recipe *ret_recipe)
{
	struct hm_buffer_desc now = *desc;
	int r;

	now.max_size = desc->size;
	r = create_growing(device, &now, ret_recipe);
	if (r)
		return r;
	ret_recipe->segment.flags |= HM_SEGMENT_FROM_START | HM_SEGMENT_PRESENT;
	ret_recipe->caps |= HM_CAP_RESIZE_REPLACES | HM_CAP_PROTECT;
	ret_recipe->max_size = (desc->max_size + PAGE - 1) / PAGE * PAGE;
	return 0;
}

/*
 * The file is sparse and as long as can be: growing only has to drop bytes stored behind the end.
 */
static int resize(void *device, struct hm_segment *segment, uint64_t old_size,
		  uint64_t new_size)
{
	uint64_t from = old_size < new_size ? old_size : new_size;

	(void)device;
	if (from == segment->length)
		return 0;
	return fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			 (off_t)(segment->length - from)) ?
		       -errno :
		       0;
}

static void object_destroy(void *device, struct hm_segment *segment)
{
	(void)device;
	close(segment->fd);
}

const struct hm_backend_ops minimal_backend = {
	.size = offsetof(struct hm_backend_ops, from_file), /* as an old plug-in has it */
	.name = "minimal",
	.description = "the smallest backend there can be",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create,
};

const struct hm_backend_ops growing_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "growing",
	.description = "a small backend whose buffers grow",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | GROWTH,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create_growing,
	.resize = resize,
};

/* ---- fleeting ---- */

/* How often it was taken away: an opened one is of its time. */
static char fleeting_times[4096];
static unsigned int fleeting_time;
static bool fleeting_there = true;

void fleeting_go(void)
{
	fleeting_there = false;
	fleeting_time = (fleeting_time + 1) % sizeof(fleeting_times);
}

void fleeting_come(void)
{
	fleeting_there = true;
}

static int check_fleeting(void *device)
{
	return fleeting_there && device == &fleeting_times[fleeting_time] ? 0 : -ENODEV;
}

static int open_fleeting(const char *rest, void **ret_device)
{
	if (*rest || !fleeting_there)
		return -ENODEV;
	*ret_device = &fleeting_times[fleeting_time];
	return 0;
}

static int query_fleeting(void *device, struct hm_device_info *info)
{
	(void)info;
	return check_fleeting(device);
}

static int create_fleeting(void *device, const struct hm_buffer_desc *desc,
			   struct hm_recipe *ret_recipe)
{
	int r = check_fleeting(device);

	return r ? r : create_growing(device, desc, ret_recipe);
}

const struct hm_backend_ops fleeting_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "fleeting",
	.description = "a small backend whose device goes",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | GROWTH | HM_BACKEND_LOSS,
	.device_open = open_fleeting,
	.device_close = device_close,
	.device_query = query_fleeting,
	.device_check = check_fleeting,
	.object_destroy = object_destroy,
	.create = create_fleeting,
	.resize = resize,
};

/* ---- unheard ---- */

static bool unheard_there = true, unheard_heard;
static struct hm_segment unheard_last; /* of the last buffer */
unsigned int unheard_asked;

void unheard_go(void)
{
	unheard_there = false;
	fallocate(unheard_last.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		  (off_t)unheard_last.length);
}

void unheard_come(void)
{
	unheard_there = true;
	unheard_heard = false;
}

static int open_unheard(const char *rest, void **ret_device)
{
	*ret_device = &unheard_there;
	return *rest || !unheard_there ? -ENODEV : 0;
}

static int check_unheard(void *device)
{
	(void)device;
	return unheard_heard ? -ENODEV : 0;
}

static int query_unheard(void *device, struct hm_device_info *info)
{
	(void)info;
	unheard_asked++;
	unheard_heard = !unheard_there;
	return check_unheard(device);
}

static int ask_unheard(void *device)
{
	struct hm_device_info info;

	return query_unheard(device, &info);
}

static int create_unheard(void *device, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = create_growing(device, desc, ret_recipe);

	if (!r)
		unheard_last = ret_recipe->segment;
	return r;
}

const struct hm_backend_ops unheard_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "unheard",
	.description = "a small backend whose device goes without a word",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | GROWTH | HM_BACKEND_LOSS |
		HM_BACKEND_LOSS_ASK,
	.device_open = open_unheard,
	.device_close = device_close,
	.device_query = query_unheard,
	.device_check = check_unheard,
	.device_ask = ask_unheard,
	.object_destroy = object_destroy,
	.create = create_unheard,
	.resize = resize,
};

const struct hm_backend_ops fixed_backend = {
	.size = sizeof(struct hm_backend_ops),
	.name = "fixed",
	.description = "a small backend whose objects have a length for life",
	.caps = HM_CAP_CREATE | HM_CAP_CONTIGUOUS | HM_CAP_WRITE | GROWTH |
		HM_CAP_RESIZE_REPLACES | HM_CAP_PROTECT,
	.device_open = device_open,
	.device_close = device_close,
	.device_query = device_query,
	.object_destroy = object_destroy,
	.create = create_fixed,
	.resize = resize,
};
