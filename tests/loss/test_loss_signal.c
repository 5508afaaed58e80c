// SPDX-License-Identifier: MIT
/*
 * Backends whose maps are zeros once their device is gone, and a SIGBUS on request: by a small
 * one in this process, which can refuse the request, and go away at any call.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/minimal_backend.h"
#include "core/segments.h"
#include "lib/support.h"
#include "base/util.h"

#define SIZE (16 * PAGE)
#define OBJECTS 8

static struct object {
	int fd;       /* 0: none */
	bool signals; /* is asked for it */
} objects[OBJECTS];

static bool there = true, heard;
static int refusal;       /* answer to each request, if not 0 */
static unsigned int goes; /* at which call of lost_signal from now on; 0: none */
static int n_taken, n_part;

static struct object *object_of(int fd)
{
	unsigned int i;

	for (i = 0; i < OBJECTS && objects[i].fd != fd; i++)
		;
	CHECK_FATAL(i < OBJECTS);
	return &objects[i];
}

static unsigned int n_object(void)
{
	unsigned int i, n = 0;

	for (i = 0; i < OBJECTS; i++)
		n += objects[i].fd != 0;
	return n;
}

/* Bytes that are not there any more are a SIGBUS; or zeros, as those of a hole are. */
static void go(void)
{
	struct stat st;
	unsigned int i;

	there = false;
	for (i = 0; i < OBJECTS; i++) {
		if (!objects[i].fd)
			continue;
		CHECK(!fstat(objects[i].fd, &st) && !ftruncate(objects[i].fd, 0));
		if (!objects[i].signals)
			CHECK(!ftruncate(objects[i].fd, st.st_size));
	}
}

static int ask(void *device)
{
	(void)device;
	heard = heard || !there;
	return heard ? -ENODEV : 0;
}

static int check(void *device)
{
	(void)device;
	return heard ? -ENODEV : 0;
}

static int query(void *device, struct hm_device_info *info)
{
	(void)info;
	return ask(device);
}

static int open_device(const char *rest, void **ret_device)
{
	*ret_device = &there;
	return *rest || !there ? -ENODEV : 0;
}

static int create(void *device, const struct hm_buffer_desc *desc, struct hm_recipe *ret_recipe)
{
	int r = growing_backend.create(device, desc, ret_recipe);

	if (!r)
		*object_of(0) = (struct object){ .fd = ret_recipe->segment.fd };
	return r;
}

static void destroy(void *device, struct hm_segment *segment)
{
	*object_of(segment->fd) = (struct object){ 0 };
	growing_backend.object_destroy(device, segment);
}

static int lost_signal(void *device, const struct hm_segment *segment)
{
	unsigned int i;
	int r = 0;

	if (segment) {
		if (goes && !--goes)
			go();
		if (refusal || ask(device))
			return refusal ? refusal : -ENODEV;
		object_of(segment->fd)->signals = true;
		return 0;
	}
	for (i = 0; i < OBJECTS; i++) {
		if (objects[i].signals && ask(device))
			r = -ENODEV;
		else
			objects[i].signals = false;
	}
	return r;
}

static void count(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	(void)buffer;
	(void)user;
	n_taken += event == HM_LOSS_TAKEN;
	n_part += event == HM_LOSS_PART;
}

struct scene {
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *base;
};

static void set_policy(struct scene *scene, uint32_t policy)
{
	CHECK_OK_FATAL(hm_buffer_set_loss(scene->buffer,
					  DESC(hm_loss_desc, .policy = policy, .lost = count)));
}

static struct scene begin(void)
{
	struct scene scene = { 0 };

	there = true;
	heard = false;
	refusal = 0;
	goes = 0;
	n_taken = n_part = 0;
	CHECK_OK_FATAL(hm_device_open("signals", &scene.device));
	scene.buffer = rig_buffer(scene.device,
				  DESC(hm_buffer_desc, .size = SIZE, .max_size = 4 * SIZE));
	CHECK_OK_FATAL(hm_map_create(scene.buffer, NULL, &scene.map));
	scene.base = hm_map_address(scene.map);
	pattern_write(scene.base, 0, SIZE, 1);
	set_policy(&scene, HM_LOSS_SHADOW);
	return scene;
}

static void end(struct scene *scene)
{
	hm_map_unref(scene->map);
	hm_buffer_unref(scene->buffer);
	hm_device_unref(scene->device);
	CHECK_EQUAL(n_object(), 0);
}

AUTO_END(scene, end)

static uint32_t unheard_of(const struct scene *scene)
{
	return buffer_info(scene->buffer).unheard;
}

static bool shows_shadow(const struct scene *scene)
{
	return pattern_holds(scene->base, 0, SIZE, 1);
}

/* ---- readers ---- */

static void by_handler(void)
{
	AUTO(scene) scene = begin();

	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_ZEROS);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_POLICY);
	go();
	CHECK(shows_shadow(&scene));
	/* All of it is told of, and not a part. */
	CHECK(buffer_info(scene.buffer).lost & HM_LOST_BYTES);
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(scene.map, 0, 1, HM_READ));
	CHECK_EQUAL(n_taken, 1);
	CHECK_EQUAL(n_part, 0);
	CHECK(shows_shadow(&scene));
}

/* The buffer keeps its zeros, and a query says so. */
static void refused(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(scene) scene = begin();

	refusal = -EOPNOTSUPP;
	set_policy(&scene, HM_LOSS_SHADOW);
	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_ZEROS);
	refusal = 0;
	set_policy(&scene, HM_LOSS_SHADOW);
	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_POLICY);
	set_policy(&scene, HM_LOSS_ZERO);
	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_POLICY);
	go();
	CHECK(is_zero(scene.base, 0, SIZE));
}

/* Bytes that the device can't take back are replaced, without a callback meanwhile. */
static void handler_goes(void)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	AUTO(scene) scene = begin();
	go();
	CHECK_OK_FATAL(hm_handler_remove());
	CHECK_EQUAL(n_taken, 0);
	CHECK(shows_shadow(&scene));
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(scene.map, 0, 1, HM_READ));
	CHECK_EQUAL(n_taken, 1);
}

/* ---- growth ---- */

static void grown(uint32_t how)
{
	struct scene scene = begin();

	CHECK_OK_FATAL(hm_buffer_resize(scene.buffer, 2 * SIZE, how));
	CHECK_EQUAL(unheard_of(&scene), HM_UNHEARD_POLICY);
	CHECK_OK(hm_map_begin_cpu(scene.map, SIZE, SIZE, HM_READ | HM_WRITE));
	pattern_write(scene.base, SIZE, 2 * SIZE, 1);
	CHECK_OK(hm_map_end_cpu(scene.map, SIZE, SIZE, HM_READ | HM_WRITE));
	go();
	CHECK(pattern_holds(scene.base, 0, 2 * SIZE, 1));
	end(&scene);
	/* The device goes as the new object is made: no map shows it, and nothing has grown. */
	scene = begin();
	goes = 1;
	CHECK_ERROR(-ENODEV, hm_buffer_resize(scene.buffer, 2 * SIZE, how));
	CHECK_EQUAL(buffer_info(scene.buffer).size, SIZE);
	CHECK_EQUAL(n_object(), 1);
	CHECK_EQUAL(n_taken, 1);
	CHECK(shows_shadow(&scene));
	end(&scene);
}

static void growth(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	grown(HM_GROW_REPLACE);
	grown(HM_GROW_APPEND);
}

/* The device goes before the old object is read: the text names signals, not a file. */
static void gone_before(void)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(scene) scene = begin();

	go();
	CHECK_ERROR(-ENODEV, hm_buffer_resize(scene.buffer, 2 * SIZE, HM_GROW_REPLACE));
	CHECK(strstr(hm_errmsg(), "signals"));
	CHECK_EQUAL(n_object(), 1);
	CHECK(shows_shadow(&scene));
}

/* A handler that looks at a list of objects ends none: the next sweep does, or the buffer's end. */
static void looked_at(void)
{
	AUTO(scene) scene = begin();
	struct segment_list *list = segments_look(scene.buffer);

	CHECK_OK_FATAL(hm_buffer_resize(scene.buffer, 2 * SIZE, HM_GROW_REPLACE));
	CHECK_EQUAL(n_object(), 2);
	segments_leave(list);
	CHECK_EQUAL(n_object(), 2);
}

static const struct test tests[] = {
	{ "by_handler", by_handler, 0, TEST_ONCE },
	{ "refused", refused, 0, TEST_ONCE },
	{ "handler_goes", handler_goes, 0, TEST_ONCE },
	{ "growth", growth, 0, TEST_ONCE },
	{ "gone_before", gone_before, 0, TEST_ONCE },
	{ "looked_at", looked_at, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	struct hm_backend_ops ops = growing_backend;

	ops.name = "signals";
	ops.device_open = open_device;
	ops.device_query = query;
	ops.device_check = check;
	ops.device_ask = ask;
	ops.create = create;
	ops.object_destroy = destroy;
	ops.lost_signal = lost_signal;
	ops.caps |= HM_BACKEND_LOSS | HM_BACKEND_LOSS_ASK | HM_BACKEND_LOSS_SIGNAL;
	if (hm_backend_register(&ops))
		return 1;
	return harness_main(argc, argv, "loss_signal", tests);
}
