// SPDX-License-Identifier: MIT
/* Helpers that the tests of retirement share. */
#include "map/retire_support.h"

#include <sys/mman.h>
#include <unistd.h>
#include <urcu/urcu-bp.h>

#include "lib/minimal_backend.h"

static void *hold(void *user)
{
	struct section *section = user;

	urcu_bp_read_lock();
	sem_post(&section->begun);
	while (sem_wait(&section->end))
		;
	if (section->delay_us)
		usleep(section->delay_us);
	urcu_bp_read_unlock();
	return NULL;
}

void section_begin(struct section *section)
{
	section->delay_us = 0;
	sem_init(&section->begun, 0, 0);
	sem_init(&section->end, 0, 0);
	CHECK_FATAL(!pthread_create(&section->thread, NULL, hold, section));
	while (sem_wait(&section->begun))
		;
}

void section_end_later(struct section *section, unsigned int delay_us)
{
	section->delay_us = delay_us;
	sem_post(&section->end);
}

void section_join(struct section *section)
{
	pthread_join(section->thread, NULL);
	sem_destroy(&section->begun);
	sem_destroy(&section->end);
}

void section_end(struct section *section)
{
	section_end_later(section, 0);
	section_join(section);
}

void defer(uint64_t objects, uint64_t bytes)
{
	const struct hm_retire_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_RETIRE_DEFER,
		.max_objects = objects,
		.max_bytes = bytes,
	};

	CHECK_OK_FATAL(hm_retire_set(objects ? &desc : NULL));
}

struct hm_map *lone_map(struct hm_device *device, uint64_t size)
{
	struct hm_buffer *buffer;
	struct hm_map *map = NULL;

	CHECK_OK_FATAL(hm_buffer_create(device, DESC(hm_buffer_desc, .size = size), &buffer));
	CHECK_OK(hm_map_create(buffer, NULL, &map));
	hm_buffer_unref(buffer);
	CHECK_FATAL(map);
	return map;
}

static _Atomic int *counted;

static int create_counted(void *device, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = fixed_backend.create(device, desc, ret_recipe);

	if (!r)
		atomic_fetch_add(counted, 1);
	return r;
}

static void destroy_counted(void *device, struct hm_segment *segment)
{
	atomic_fetch_sub(counted, 1);
	fixed_backend.object_destroy(device, segment);
}

_Atomic int *counted_objects(void)
{
	static struct hm_backend_ops ops;

	if (counted)
		return counted;
	ops = fixed_backend;
	ops.name = "counted";
	ops.create = create_counted;
	ops.object_destroy = destroy_counted;
	counted = mmap(NULL, sizeof(*counted), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(counted != MAP_FAILED);
	CHECK_OK_FATAL(hm_backend_register(&ops));
	return counted;
}
