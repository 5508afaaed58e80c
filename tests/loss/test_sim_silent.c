// SPDX-License-Identifier: MIT
/*
 * Another process takes the module's device away, and this one has not heard: a plain reader
 * finds the policy's bytes, if there is a shadow and a handler to put it there. The twin's
 * device goes by a call of this process, which is the same to readers.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/sim_devices.h"
#include "base/util.h"

#define SIZE MIB(5) /* three blocks of the handler's */

static bool is_module(void)
{
	return !strncmp(sim_device(), "sim", 3);
}

/* Another open file, of which the library knows nothing. */
static void take_away(struct hm_device *device)
{
	char path[32];
	int fd;

	if (!is_module()) {
		CHECK_OK_FATAL(sim_inject(device, HETSIM_INJECT_UNPLUG, 0, 0));
		return;
	}
	snprintf(path, sizeof(path), "/dev/hetsim%s", strchr(sim_device(), ':') + 1);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK_FATAL(!ioctl(fd, HETSIM_HANDSHAKE,
			   SIZED(hetsim_handshake, .version_major = HETSIM_VERSION_MAJOR,
				 .version_minor = HETSIM_VERSION_MINOR)));
	CHECK_FATAL(
		!ioctl(fd, HETSIM_INJECT, SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG)));
	close(fd);
}

static int n_taken, n_part;

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
	struct hm_map *map, *watched;
	char *base, *read_only;
};

static int set_policy(struct hm_buffer *buffer, uint32_t policy, uint32_t flags)
{
	return hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = policy, .flags = flags,
					       .lost = count));
}

/* False: it may not be taken away here, and the test was skipped. */
static bool begin(struct scene *scene, uint32_t policy, uint32_t flags)
{
	n_taken = n_part = 0;
	scene->device = sim_open();
	if (!sim_unplug(scene->device)) {
		hm_device_unref(scene->device);
		return false;
	}
	sim_plug();
	hm_device_unref(scene->device);
	scene->device = sim_open();
	scene->buffer = sim_make(scene->device, SIZE, 4 * SIZE, &scene->map);
	scene->watched =
		rig_map(scene->buffer, DESC(hm_map_desc, .access = HM_READ, .offset = MIB(1)));
	scene->base = hm_map_address(scene->map);
	scene->read_only = hm_map_address(scene->watched);
	sim_write(scene->map, 0, SIZE, 1);
	CHECK_OK_FATAL(set_policy(scene->buffer, policy, flags));
	return true;
}

/* The same, with the handler; where it was skipped there is none. */
static bool begin_handled(struct scene *scene)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	if (begin(scene, HM_LOSS_SHADOW, 0))
		return true;
	CHECK_OK(hm_handler_remove());
	return false;
}

static void end(struct scene *scene)
{
	hm_map_unref(scene->watched);
	hm_map_unref(scene->map);
	hm_buffer_unref(scene->buffer);
	hm_device_unref(scene->device);
	sim_plug();
}

/* All of its bytes, by both maps, as plain reads see them. */
static void check_shadow(const struct scene *scene, uint32_t salt)
{
	CHECK(pattern_holds(scene->base, 0, SIZE, salt));
	CHECK(pattern_holds(scene->read_only - MIB(1), MIB(1), SIZE, salt));
}

static uint32_t lost_of(const struct scene *scene)
{
	return buffer_info(scene->buffer).lost;
}

/* ---- readers ---- */

static void reads(uint32_t policy, uint32_t flags)
{
	struct scene scene;
	AUTO(rig_handler) handler = rig_handler(0);

	if (!begin(&scene, policy, flags))
		return;
	CHECK_EQUAL(lost_of(&scene), 0);
	take_away(scene.device);
	check_shadow(&scene, 1);
	/* The page is this map's own from here on. */
	scene.base[17] = 3;
	CHECK_EQUAL(scene.base[17], 3);
	CHECK_EQUAL(n_part, 0);
	/* The whole device is told, and not some blocks. */
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(scene.map, 0, PAGE, HM_READ));
	CHECK_EQUAL(n_taken, 1);
	CHECK_EQUAL(n_part, 0);
	CHECK(lost_of(&scene) & HM_LOST_BYTES);
	CHECK(pattern_holds(scene.base, PAGE, SIZE, 1));
	/* Its new objects are no zeros either. */
	sim_plug();
	CHECK_OK_FATAL(hm_device_recover(scene.device, HM_RECOVER_SHADOWED, NULL));
	check_shadow(&scene, 1);
	sim_write(scene.map, 0, SIZE, 2);
	CHECK_EQUAL(lost_of(&scene), 0);
	take_away(scene.device);
	check_shadow(&scene, 2);
	end(&scene);
	CHECK_EQUAL(n_part, 0);
}

static void test_reads(void)
{
	reads(HM_LOSS_SHADOW, 0);
	reads(HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW);
}

/* A query, and a bracket that was open. */
static void test_told(void)
{
	struct scene scene;
	AUTO(rig_handler) handler = rig_handler(0);

	if (!begin(&scene, HM_LOSS_SHADOW, 0))
		return;
	CHECK_OK(hm_map_begin_cpu(scene.map, 0, SIZE, HM_READ));
	take_away(scene.device);
	check_shadow(&scene, 1);
	CHECK_ERROR(-ENODEV, hm_map_end_cpu(scene.map, 0, SIZE, HM_READ));
	CHECK_EQUAL(n_taken, 1);
	CHECK_EQUAL(n_part, 0);
	end(&scene);
	if (!begin(&scene, HM_LOSS_SHADOW, 0))
		return;
	take_away(scene.device);
	check_shadow(&scene, 1);
	lost_of(&scene);
	CHECK_EQUAL(n_taken, 1);
	CHECK_EQUAL(n_part, 0);
	CHECK(lost_of(&scene) & HM_LOST_BYTES);
	check_shadow(&scene, 1);
	end(&scene);
}

static int in_scope(const volatile char *byte, struct hm_fault *fault)
{
	struct hm_guard guard;
	int r;

	HM_GUARD_INIT(&guard);
	r = hm_guard_begin(&guard);
	if (r) {
		*fault = guard.fault;
		return r;
	}
	(void)*byte;
	return hm_guard_end(&guard);
}

/* In a scope and in a copy it is an error; of a system call, EFAULT, or the shadow's. */
static void test_guarded(void)
{
	struct hm_fault fault = { .struct_size = sizeof(fault) };
	struct scene scene;
	static char bytes[MIB(1) + 4 * PAGE];
	char *to = bytes + MIB(1);
	int fds[2];
	ssize_t n;
	AUTO(rig_handler) handler = rig_handler(0);

	if (!begin(&scene, HM_LOSS_SHADOW, 0))
		return;
	take_away(scene.device);
	CHECK_FATAL(!pipe(fds));
	n = write(fds[1], scene.base + MIB(1), PAGE);
	if (n > 0) {
		CHECK_EQUAL(n, PAGE);
		CHECK_EQUAL(read(fds[0], to, PAGE), PAGE);
		CHECK(pattern_holds(bytes, MIB(1), MIB(1) + PAGE, 1));
	} else {
		CHECK_EQUAL(errno, EFAULT);
	}
	close(fds[0]);
	close(fds[1]);
	if (is_module())
		CHECK_EQUAL(in_scope(scene.base, &fault), -ENODEV);
	if (is_module())
		CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	CHECK_ERROR(-ENODEV, hm_copy_out(to, scene.base + MIB(2), 4 * PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	/* And where the handler has put the shadow already. */
	(void)*(volatile char *)(scene.base + MIB(4));
	CHECK_ERROR(-ENODEV, hm_copy_out(to, scene.base + MIB(4), PAGE, &fault));
	CHECK_EQUAL(fault.cause, HM_FAULT_LOST);
	check_shadow(&scene, 1);
	end(&scene);
}

/* ---- conditions ---- */

static uint32_t unheard_of(const struct scene *scene)
{
	return buffer_info(scene->buffer).unheard;
}

/* Without a handler they are zeros meanwhile, and a query says so beforehand. */
static void test_handlers(void)
{
	uint32_t zeros = is_module() ? HM_UNHEARD_ZEROS : HM_UNHEARD_NEVER;
	uint32_t policy = is_module() ? HM_UNHEARD_POLICY : HM_UNHEARD_NEVER;
	struct scene scene;

	if (!begin(&scene, HM_LOSS_SHADOW, 0))
		return;
	CHECK_EQUAL(unheard_of(&scene), zeros);
	CHECK_OK_FATAL(hm_handler_install(HM_HANDLER_NO_REPAIR));
	CHECK_EQUAL(unheard_of(&scene), zeros);
	CHECK_OK(hm_handler_remove());
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_EQUAL(unheard_of(&scene), policy);
	CHECK_OK_FATAL(hm_handler_install(0));
	CHECK_OK(hm_handler_remove());
	CHECK_EQUAL(unheard_of(&scene), policy);
	CHECK_OK(set_policy(scene.buffer, HM_LOSS_ZERO, 0));
	CHECK_EQUAL(unheard_of(&scene), policy);
	CHECK_OK(hm_handler_remove());
	CHECK_EQUAL(unheard_of(&scene), policy);
	CHECK_OK(set_policy(scene.buffer, HM_LOSS_SHADOW, 0));
	CHECK_EQUAL(unheard_of(&scene), zeros);
	CHECK_OK(hm_map_begin_cpu(scene.map, 0, PAGE, HM_READ));
	take_away(scene.device);
	if (is_module())
		CHECK(!scene.base[17] && !scene.read_only[17]);
	CHECK_ERROR(-ENODEV, hm_map_end_cpu(scene.map, 0, PAGE, HM_READ));
	check_shadow(&scene, 1);
	end(&scene);
}

/* A signal that the library has not heard of does not outlive the handler. */
static void test_removed(void)
{
	struct scene scene;

	if (!begin_handled(&scene))
		return;
	take_away(scene.device);
	CHECK_OK_FATAL(hm_handler_remove());
	check_shadow(&scene, 1);
	CHECK_ERROR(-ENODEV, hm_map_begin_cpu(scene.map, 0, PAGE, HM_READ));
	CHECK_EQUAL(n_taken, 1);
	end(&scene);
}

static void test_zeros(void)
{
	struct scene scene;
	AUTO(rig_handler) handler = rig_handler(0);

	if (begin(&scene, HM_LOSS_ZERO, 0)) {
		take_away(scene.device);
		CHECK(!scene.base[SIZE - 1] && !scene.read_only[0]);
		end(&scene);
	}
}

static void grow(uint32_t how)
{
	struct scene scene;

	if (!begin(&scene, HM_LOSS_SHADOW, 0))
		return;
	/* The second map would keep the object that is replaced. */
	hm_map_unref(scene.watched);
	scene.watched = NULL;
	CHECK_OK_FATAL(hm_buffer_resize(scene.buffer, 2 * SIZE, how));
	sim_write(scene.map, SIZE, 2 * SIZE, 1);
	take_away(scene.device);
	CHECK(pattern_holds(scene.base, 0, 2 * SIZE, 1));
	end(&scene);
}

/* Added bytes, and those that replace others, follow the same policy. */
static void test_growth(void)
{
	AUTO(rig_handler) handler = rig_handler(0);

	grow(0);
	grow(HM_GROW_APPEND);
	grow(HM_GROW_REPLACE);
}

/* ---- one object, two buffers ---- */

/* One object, taken in again, without a policy; NULL where @length is more than it has. */
static struct hm_buffer *take_in(const struct scene *scene, uint64_t length)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = length };
	struct hm_buffer *again = NULL;
	int fd;

	CHECK_OK_FATAL(hm_buffer_export(scene->buffer, 0, &fd));
	if (length > SIZE)
		CHECK_ERROR(-EINVAL, hm_buffer_import(scene->device, fd, &desc, &again));
	else
		CHECK_OK_FATAL(hm_buffer_import(scene->device, fd, &desc, &again));
	close(fd);
	return again;
}

/* False: the test was skipped. The handler is installed. */
static bool begin_two(struct scene *scene, struct rig *second)
{
	if (!begin_handled(scene))
		return false;
	*second = (struct rig){ .buffer = take_in(scene, SIZE) };
	CHECK_OK_FATAL(hm_map_create(second->buffer, NULL, &second->map));
	second->bytes = hm_map_address(second->map);
	return true;
}

static void drop_first(struct scene *scene)
{
	hm_map_unref(scene->watched);
	hm_map_unref(scene->map);
	hm_buffer_unref(scene->buffer);
	scene->watched = scene->map = NULL;
	scene->buffer = NULL;
}

static void end_two(struct scene *scene, struct rig *second)
{
	rig_drop(second);
	end(scene);
}

/* With a handler each buffer follows its own policy. */
static void test_two_of_one(void)
{
	struct rig second;
	struct scene scene;

	if (!begin_two(&scene, &second))
		return;
	take_away(scene.device);
	CHECK_EQUAL(second.bytes[MIB(3)], 0);
	check_shadow(&scene, 1);
	end_two(&scene, &second);
	CHECK_OK(hm_handler_remove());
}

/* Without a handler the kernel shows zeros, whichever buffer had asked, and when. */
static void test_handler_gone(void)
{
	struct rig second;
	struct scene scene;

	if (!begin_two(&scene, &second))
		return;
	CHECK_OK(hm_handler_remove());
	take_away(scene.device);
	CHECK_EQUAL(second.bytes[MIB(3)], 0);
	end_two(&scene, &second);
	if (!begin_two(&scene, &second))
		return;
	drop_first(&scene);
	CHECK_OK(hm_handler_remove());
	take_away(scene.device);
	CHECK_EQUAL(second.bytes[MIB(3)], 0);
	end_two(&scene, &second);
}

/* The same if the device has gone meanwhile, unheard of. */
static void test_outlived(void)
{
	struct rig second;
	struct scene scene;

	if (!begin_two(&scene, &second))
		return;
	take_away(scene.device);
	drop_first(&scene);
	CHECK_OK(hm_handler_remove());
	CHECK_EQUAL(second.bytes[MIB(3)], 0);
	end_two(&scene, &second);
}

/* The same, of a buffer that has another policy by then: the twin's is lost already. */
static void test_other_policy(void)
{
	struct scene scene;

	if (!begin_handled(&scene))
		return;
	take_away(scene.device);
	CHECK_EQUAL(set_policy(scene.buffer, HM_LOSS_ZERO, 0), is_module() ? 0 : -ENODEV);
	CHECK_OK(hm_handler_remove());
	CHECK_EQUAL(scene.base[MIB(3)], is_module() ? 0 : scene.read_only[MIB(2)]);
	end(&scene);
}

/* Another holder of the object may end, or have another policy: this one's stays. */
static void test_shared(void)
{
	struct hm_buffer *again;
	struct scene scene;
	int i;
	AUTO(rig_handler) handler = rig_handler(0);

	for (i = 0; i < 3 && begin(&scene, HM_LOSS_SHADOW, 0); i++) {
		again = take_in(&scene, i ? SIZE : 2 * SIZE);
		if (i == 2) {
			CHECK_OK(set_policy(again, HM_LOSS_SHADOW, 0));
			CHECK_OK(set_policy(again, HM_LOSS_ZERO, 0));
		} else {
			hm_buffer_unref(again);
		}
		take_away(scene.device);
		check_shadow(&scene, 1);
		if (i == 2)
			hm_buffer_unref(again);
		end(&scene);
	}
}

/* ---- where little is left ---- */

static long max_map_count(long set)
{
	int fd = open("/proc/sys/vm/max_map_count", O_RDWR | O_CLOEXEC);
	char text[32] = "";

	CHECK_FATAL(fd >= 0);
	if (set)
		CHECK(dprintf(fd, "%ld", set) > 0);
	else
		CHECK_FATAL(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10);
}

static long n_mapping(void)
{
	FILE *file = fopen("/proc/self/maps", "re");
	long n = 0;
	int c;

	CHECK_FATAL(file);
	while ((c = getc(file)) != EOF)
		n += c == '\n';
	fclose(file);
	return n;
}

/* Only the module's machine: the limit would hit every process. */
static void test_no_mappings(void)
{
	struct scene scene;
	long before;
	AUTO(rig_handler) handler = rig_handler(0);

	if (is_module() && begin(&scene, HM_LOSS_SHADOW, 0)) {
		CHECK_OK(hm_map_protect(scene.map, MIB(1), MIB(1), HM_READ));
		take_away(scene.device);
		before = max_map_count(0);
		max_map_count(n_mapping());
		/* In the middle, from which two mappings more would be left. */
		CHECK(pattern_holds(scene.base, MIB(2), MIB(2) + PAGE, 1));
		scene.base[MIB(2) + PAGE] = 77;
		check_shadow(&scene, 1);
		CHECK_EQUAL(scene.base[MIB(2) + PAGE], 77);
		max_map_count(before);
		CHECK_ERROR(-ENODEV, hm_map_begin_cpu(scene.map, 0, PAGE, HM_READ));
		CHECK_EQUAL(n_taken, 1);
		end(&scene);
	}
}

/* A failed growth changes nothing. */
static void test_failed_growth(void)
{
	struct scene scene;
	long before;
	AUTO(rig_handler) handler = rig_handler(0);

	if (is_module() && begin(&scene, HM_LOSS_SHADOW, 0)) {
		hm_map_unref(scene.watched);
		scene.watched = NULL;
		before = max_map_count(0);
		max_map_count(n_mapping() + 12);
		CHECK_ERROR(-ENOMEM, hm_buffer_resize(scene.buffer, 2 * SIZE, HM_GROW_REPLACE));
		max_map_count(before);
		take_away(scene.device);
		CHECK(pattern_holds(scene.base, 0, SIZE, 1));
		end(&scene);
	}
}

/* ---- other threads and devices ---- */

static _Atomic bool stop;
static _Atomic uint32_t n_wrong;

static __attribute__((no_sanitize("thread"))) void *read_all(void *user)
{
	const char *base = user;
	uint64_t state = test_seed(), at;

	while (!stop) {
		at = round_down(test_random(&state) % SIZE, PAGE);
		n_wrong += !pattern_holds(base, at, at + PAGE, 1);
	}
	return NULL;
}

static void *go_away(void *user)
{
	uint64_t state = test_seed();

	usleep(test_random(&state) % 30000);
	take_away(user);
	return NULL;
}

/* Its bytes are copied into a new object, again and again, and the device goes. */
static void test_replaced_meanwhile(void)
{
	pthread_t threads[2];
	struct scene scene;
	int round, i, r;
	AUTO(rig_handler) handler = rig_handler(0);

	for (round = 0; round < 8 && begin(&scene, HM_LOSS_SHADOW, 0); round++) {
		hm_map_unref(scene.watched);
		scene.watched = NULL;
		stop = false;
		n_wrong = 0;
		CHECK_FATAL(!pthread_create(&threads[0], NULL, read_all, scene.base));
		CHECK_FATAL(!pthread_create(&threads[1], NULL, go_away, scene.device));
		for (i = 0, r = 0; i < 1000 && !r; i++)
			r = hm_buffer_resize(scene.buffer, i % 2 ? SIZE : SIZE + PAGE,
					     i % 2 ? 0 : HM_GROW_REPLACE);
		CHECK_EQUAL(r, -ENODEV);
		pthread_join(threads[1], NULL);
		stop = true;
		pthread_join(threads[0], NULL);
		CHECK_EQUAL(n_wrong, 0);
		end(&scene);
	}
}

/* Another device's engine gets lost bytes: it does not begin, and its target stays. */
static void test_staged(void)
{
	struct hm_buffer *to;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_fence *fence;
	struct hm_device *soft;
	struct scene scene;
	struct hm_map *map;
	char *bytes;
	AUTO(rig_handler) handler = rig_handler(0);

	if (is_module() && begin(&scene, HM_LOSS_SHADOW, 0)) {
		CHECK_OK_FATAL(hm_device_open("soft:0", &soft));
		to = sim_make(soft, MIB(1), 0, &map);
		bytes = hm_map_address(map);
		CHECK_OK_FATAL(hm_accel_open("soft:0", NULL, &accel));
		CHECK_OK_FATAL(hm_queue_create(accel, 0, &queue));
		CHECK_OK(hm_queue_copy(queue, bytes, scene.base, MIB(1), &fence));
		CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
		hm_fence_unref(fence);
		memset(bytes, 'd', MIB(1));
		take_away(scene.device);
		CHECK_ERROR(-ENODEV, hm_queue_copy(queue, bytes, scene.base, MIB(1), &fence));
		CHECK(bytes[0] == 'd' && !memcmp(bytes, bytes + 1, MIB(1) - 1));
		CHECK_EQUAL(n_taken, 1);
		hm_queue_unref(queue);
		hm_accel_unref(accel);
		hm_map_unref(map);
		hm_buffer_unref(to);
		hm_device_unref(soft);
		end(&scene);
	}
}

static const struct sim_case cases[] = {
	{ "reads", test_reads },
	{ "told", test_told },
	{ "guarded", test_guarded },
	{ "handlers", test_handlers },
	{ "removed", test_removed },
	{ "zeros", test_zeros },
	{ "growth", test_growth },
	{ "two_of_one", test_two_of_one },
	{ "handler_gone", test_handler_gone },
	{ "outlived", test_outlived },
	{ "other_policy", test_other_policy },
	{ "shared", test_shared },
	{ "no_mappings", test_no_mappings },
	{ "failed_growth", test_failed_growth },
	{ "replaced_meanwhile", test_replaced_meanwhile },
	{ "staged", test_staged },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "sim_silent", cases)
