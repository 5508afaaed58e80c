// SPDX-License-Identifier: MIT
/* The simulated devices sim:N and soft:N: names, handshake, sharing, limits, fork. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backend/sim/port.h"
#include "lib/sim_devices.h"
#include "base/sys.h"

static bool text_has(const char *part)
{
	return strstr(hm_errmsg(), part) != NULL;
}

/* "soft" of "soft:0". */
static const char *kind(void)
{
	static char name[64];

	snprintf(name, sizeof(name), "%s", sim_device());
	name[strcspn(name, ":")] = '\0';
	return name;
}

static void test_names(void)
{
	static const char *const bad[] = { ":00", ":-1", ":+1",    ": 0",  ":x",
					   ":0x", ":15", ":99999", ":1e9", ":4294967296" };
	struct hm_device *device = sim_open(), *none = NULL;
	char name[64];
	size_t i;
	struct hm_device_info info = device_info(device);

	CHECK(!strcmp(info.name, sim_device()));
	CHECK(!strcmp(info.backend, kind()));
	CHECK(strstr(info.description, "simulated GPU") != NULL);
	CHECK_EQUAL(info.memory_total, sim_query(device).vram_bytes);
	CHECK_EQUAL(info.granule, sim_query(device).granule_min);
	hm_device_unref(device);
	/* Without a number it is the first one. */
	CHECK_OK_FATAL(hm_device_open(kind(), &device));
	CHECK_EQUAL(sim_query(device).index, 0);
	hm_device_unref(device);
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(name, sizeof(name), "%s%s", kind(), bad[i]);
		CHECK_ERROR(-ENODEV, hm_device_open(name, &none));
	}
	CHECK(!none);
}

/* A simulated device has to be named, also where there is no other one. */
static void test_not_default(void)
{
	struct hm_device *device;

	CHECK_OK_FATAL(hm_device_open(NULL, &device));
	CHECK(!strcmp(device_info(device).name, "host"));
	hm_device_unref(device);
	CHECK(!setenv("HETMAP_DEVICE", sim_device(), 1));
	CHECK_OK_FATAL(hm_device_open(NULL, &device));
	CHECK(!strcmp(device_info(device).name, sim_device()));
	hm_device_unref(device);
	CHECK(!unsetenv("HETMAP_DEVICE"));
}

/* All openers of a device's name share one open file, and so its handles. */
static void test_shared_port(void)
{
	struct hm_device *first = sim_open(), *second = sim_open();
	struct hm_buffer *buffer = sim_make(first, 3 * PAGE + 5, 0, NULL);
	uint32_t handle = 0;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	CHECK_EQUAL(sim_info(second, handle).length, 4 * PAGE);
	CHECK_EQUAL(sim_query(second).opener_used, 4 * PAGE);
	hm_device_unref(first);
	CHECK_EQUAL(sim_info(second, handle).length, 4 * PAGE);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(sim_query(second).opener_used, 0);
	hm_device_unref(second);
}

static void test_calls(void)
{
	struct hetsim_query query = { .size = 4 };
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_buffer) *buffer = sim_make(device, PAGE, 16 * PAGE, NULL);
	uint32_t handle = 4711;

	CHECK_ERROR(-EINVAL, hm_sim_call(device, HETSIM_QUERY, NULL));
	CHECK_ERROR(-EINVAL, hm_sim_call(NULL, HETSIM_QUERY, &query));
	CHECK_ERROR(-EINVAL, hm_sim_call(device, HETSIM_QUERY, &query));
	CHECK(strstr(hm_errmsg(), "HETSIM_QUERY") && strstr(hm_errmsg(), "too short"));
	CHECK_ERROR(-ENOTTY, hm_sim_call(device, 0, &query));
	CHECK(strstr(hm_errmsg(), "call 0x0"));
	CHECK_ERROR(-EPERM, hm_sim_call(device, HETSIM_HANDSHAKE, SIZED(hetsim_handshake)));
	AUTO(hm_device) *host = rig_device("host");
	CHECK_ERROR(-EOPNOTSUPP, hm_sim_call(host, HETSIM_QUERY, &query));
	AUTO(hm_buffer) *other = sim_make(host, PAGE, 0, NULL);
	CHECK_ERROR(-EOPNOTSUPP, hm_sim_buffer(other, &handle));
	CHECK_ERROR(-EINVAL, hm_sim_buffer(NULL, &handle));
	CHECK_ERROR(-EINVAL, hm_sim_buffer(buffer, NULL));
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, HM_GROW_APPEND));
	CHECK_ERROR(-EXDEV, hm_sim_buffer(buffer, &handle));
	CHECK_EQUAL(handle, 4711);
	CHECK_ERROR(-EINVAL, hm_sim_plug(NULL));
	CHECK_ERROR(-EINVAL, hm_sim_plug("host"));
	CHECK_ERROR(-EINVAL, hm_sim_plug("soft:0x"));
	CHECK_ERROR(-EEXIST, hm_sim_plug("soft:0"));
}

/* ---- memory ---- */

/* Growth inside max_size keeps the object, and the device gets cut bytes back. */
static void test_capacity(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map;
	struct hm_buffer *buffer = sim_make(device, MIB(1), MIB(8), &map);
	uint32_t handle, again;
	char *base = hm_map_address(map);

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	pattern_write(base, 0, MIB(1), 1);
	CHECK_OK(hm_buffer_resize(buffer, MIB(8), 0));
	CHECK_EQUAL(sim_query(device).opener_used, MIB(8));
	CHECK(pattern_holds(base, 0, MIB(1), 1));
	CHECK(is_zero(base, MIB(1), MIB(8)));
	CHECK_OK(hm_buffer_resize(buffer, 5, 0));
	CHECK_EQUAL(sim_query(device).opener_used, PAGE);
	CHECK_OK(hm_buffer_resize(buffer, MIB(2), 0));
	CHECK(is_zero(base, 5, MIB(2)));
	CHECK_OK(hm_sim_buffer(buffer, &again));
	CHECK_EQUAL(handle, again);
	CHECK(hm_map_address(map) == base);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	CHECK_EQUAL(sim_query(device).opener_used, 0);
}

static int make_of(struct hm_device *device, uint64_t size, uint64_t max_size,
		   struct hm_buffer **ret_buffer)
{
	return hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = size, .max_size = max_size), ret_buffer);
}

/* The text has the limit, and how much of it is used. */
static void test_limits(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hetsim_query query = sim_query(device);
	struct hm_buffer *large, *none = NULL;
	struct hm_map *map;
	void *bytes;

	CHECK_ERROR(-ENOSPC, make_of(device, query.max_buffer + PAGE, 0, &none));
	CHECK(text_has("than a buffer can have"));
	CHECK_ERROR(-ENOSPC, make_of(device, PAGE, query.max_buffer + PAGE, &none));
	CHECK(text_has("than a buffer can have"));
	/* A short way that finds its default room too large takes less. */
	if (query.max_buffer < MIB(64)) {
		CHECK_OK_FATAL(hm_alloc(device, PAGE, HM_READ | HM_WRITE, &bytes));
		CHECK(strstr(hm_warning(), "reserved") != NULL);
		CHECK_OK(hm_free(bytes));
	}
	/* With the module's defaults this would be all of a machine's memory. */
	if (query.opener_bytes <= MIB(64)) {
		large = sim_make(device, MIB(30), MIB(32), &map);
		CHECK_ERROR(-ENOSPC, make_of(device, MIB(12), 0, &none));
		CHECK(text_has("30 MiB of 40 MiB") && text_has("opener_mb"));
		CHECK_ERROR(-ENOSPC, make_of(device, MIB(10) + PAGE, 0, &none));
		CHECK_OK_FATAL(make_of(device, MIB(9), 0, &none));
		CHECK_ERROR(-ENOSPC, hm_buffer_resize(large, MIB(32), 0));
		CHECK(text_has("39 MiB of 40 MiB"));
		CHECK_EQUAL(hm_map_length(map), MIB(30));
		hm_buffer_unref(none);
		CHECK_OK(hm_buffer_resize(large, MIB(32), 0));
		CHECK(is_zero(hm_map_address(map), MIB(30), MIB(32)));
		hm_map_unref(map);
		hm_buffer_unref(large);
		none = NULL;
	}
	CHECK(!none);
	CHECK_EQUAL(sim_query(device).opener_used, 0);
}

/* ---- sharing ---- */

/* A device has one name for a buffer, which its last holder gives up. */
static void test_import_twice(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map, *second_map;
	struct hm_buffer *buffer = sim_make(device, 2 * PAGE, 0, &map), *second, *third;
	uint32_t handle, same;
	int fd;

	CHECK_OK_FATAL(hm_sim_buffer(buffer, &handle));
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &second));
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &third));
	close(fd);
	CHECK_OK(hm_sim_buffer(second, &same));
	CHECK_EQUAL(same, handle);
	hm_buffer_unref(third);
	pattern_write(hm_map_address(map), 0, 2 * PAGE, 1);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	/* The maker's object is still there by its other name. */
	CHECK_EQUAL(sim_info(device, handle).length, 2 * PAGE);
	CHECK_OK_FATAL(hm_map_create(second, NULL, &second_map));
	CHECK(pattern_holds(hm_map_address(second_map), 0, 2 * PAGE, 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(second, PAGE, 0));
	hm_map_unref(second_map);
	hm_buffer_unref(second);
	CHECK_EQUAL(sim_query(device).opener_used, 0);
}

/*
 * A read-only descriptor. A holder can open the twin's again for writing: the library gives
 * none, the device does.
 */
static int export_read_only(struct hm_device *device, struct hm_buffer *buffer)
{
	struct hetsim_export ask = { .size = sizeof(ask) };
	int fd = -1;
	struct hm_device_info info = device_info(device);

	if (info.caps & HM_CAP_READ_ONLY) {
		CHECK_OK_FATAL(hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &fd));
		return fd;
	}
	CHECK(!strcmp(kind(), "soft"));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, HM_EXPORT_READ_ONLY, &fd));
	CHECK(text_has("\"soft:0\"") && text_has("without HM_EXPORT_READ_ONLY") &&
	      text_has("on \"host\""));
	CHECK_EQUAL(fd, -1);
	CHECK_OK_FATAL(hm_sim_buffer(buffer, &ask.handle));
	CHECK_OK_FATAL(hm_sim_call(device, HETSIM_EXPORT, &ask));
	return ask.fd;
}

static void test_read_only(void)
{
	struct hm_buffer_desc reader = {
		.struct_size = sizeof(reader),
		.flags = HM_BUFFER_READ_ONLY,
	};
	struct hm_buffer_desc fresh = reader;
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map, *read_map;
	struct hm_buffer *buffer = sim_make(device, 2 * PAGE, 0, &map), *none = NULL;
	uint32_t handle = 4711;
	int fd;

	fresh.size = PAGE;
	CHECK_ERROR(-EINVAL, hm_buffer_create(device, &fresh, &none));
	pattern_write(hm_map_address(map), 0, 2 * PAGE, 1);
	fd = export_read_only(device, buffer);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	CHECK_ERROR(-EACCES, hm_buffer_import(device, fd, NULL, &none));
	CHECK(text_has("HM_BUFFER_READ_ONLY"));
	CHECK(!none);
	AUTO(hm_buffer) *seen = rig_import(device, fd, &reader);
	close(fd);
	CHECK_EQUAL(buffer_info(seen).access, HM_READ);
	CHECK_EQUAL(buffer_info(seen).size, 2 * PAGE);
	CHECK_OK_FATAL(hm_map_create(seen, NULL, &read_map));
	CHECK(pattern_holds(hm_map_address(read_map), 0, 2 * PAGE, 1));
	CHECK_ERROR(-EACCES, hm_map_protect(read_map, 0, PAGE, HM_READ | HM_WRITE));
	CHECK_ERROR(-EOPNOTSUPP, hm_sim_buffer(seen, &handle));
	CHECK_EQUAL(handle, 4711);
	pattern_write(hm_map_address(map), 0, 2 * PAGE, 2);
	CHECK(pattern_holds(hm_map_address(read_map), 0, 2 * PAGE, 2));
	hm_map_unref(read_map);
	hm_buffer_unref(seen);
	/* One that may be written is taken in as one that may not. */
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_OK_FATAL(hm_buffer_import(device, fd, &reader, &seen));
	close(fd);
	CHECK_EQUAL(buffer_info(seen).access, HM_READ);
	CHECK_OK(hm_sim_buffer(seen, &handle));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
}

/* ---- fork ---- */

static void child(void *user)
{
	AUTO(hm_map) *map = NULL;

	CHECK_ERROR(-EOWNERDEAD, hm_sim_call(user, HETSIM_QUERY, SIZED(hetsim_query)));
	AUTO(hm_device) *device = sim_open();
	/* Nothing of the parent's is its own. */
	CHECK_EQUAL(sim_query(device).opener_used, 0);
	AUTO(hm_buffer) *buffer = sim_make(device, MIB(1), MIB(2), &map);
	pattern_write(hm_map_address(map), 0, MIB(1), 3);
	CHECK_OK(hm_buffer_resize(buffer, MIB(2), 0));
	CHECK(pattern_holds(hm_map_address(map), 0, MIB(1), 3));
	hm_device_unref(user);
}

static void test_fork_child(void)
{
	AUTO(hm_device) *device = sim_open();
	AUTO(hm_map) *map = NULL;
	AUTO(hm_buffer) *buffer = sim_make(device, MIB(1), 0, &map);

	pattern_write(hm_map_address(map), 0, MIB(1), 1);
	CHECK_EQUAL(test_fork(child, device), 0);
	CHECK(pattern_holds(hm_map_address(map), 0, MIB(1), 1));
	CHECK_EQUAL(sim_query(device).opener_used, MIB(1));
}

/* ---- a foreign file answers ---- */

static struct sys_table real;
static struct hetsim_handshake answer;
static int open_error;

static int fake_open(const char *path, int flags, mode_t mode)
{
	if (strncmp(path, "/dev/hetsim", 11) != 0)
		return real.open(path, flags, mode);
	if (!open_error)
		return real.open("/dev/null", flags, mode);
	errno = open_error;
	return -1;
}

static int fake_ioctl(int fd, unsigned long cmd, void *argument)
{
	struct hetsim_handshake *shake = argument;

	(void)fd;
	CHECK_EQUAL(cmd, HETSIM_HANDSHAKE);
	CHECK_EQUAL(shake->version_major, HETSIM_VERSION_MAJOR);
	CHECK_EQUAL(shake->version_minor, HETSIM_VERSION_MINOR);
	shake->driver_major = answer.driver_major;
	shake->driver_minor = answer.driver_minor;
	shake->driver_features = answer.driver_features;
	shake->minimum_minor = answer.minimum_minor;
	shake->accepted = answer.accepted;
	return 0;
}

static void test_handshake(void)
{
	static const struct {
		struct hetsim_handshake answer;
		const char *text;
	} rows[] = {
		{ { .driver_major = 2, .driver_minor = 7, .driver_features = 63, .accepted = 1 },
		  "version 2.7" },
		{ { .driver_major = 1,
		    .driver_minor = 9,
		    .driver_features = 63,
		    .minimum_minor = 4 },
		  "from 1.4 on" },
		{ { .driver_major = 1, .driver_features = 62, .accepted = 1 },
		  "without buffers" },
	};
	struct hm_device *device = NULL;
	char own[32];
	size_t i;

	open_error = 0;
	real = sys_table;
	sys_table.open = fake_open;
	sys_table.ioctl = fake_ioctl;
	snprintf(own, sizeof(own), "this library %d.%d", HETSIM_VERSION_MAJOR,
		 HETSIM_VERSION_MINOR);
	/* A device that this process has not open. */
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		answer = rows[i].answer;
		CHECK_ERROR(-EPROTO, hm_device_open("sim:9", &device));
		CHECK(text_has(rows[i].text) && text_has(own));
	}
	open_error = EACCES;
	CHECK_ERROR(-EACCES, hm_device_open("sim:9", &device));
	CHECK(text_has("chmod") && text_has("/dev/hetsim9"));
	open_error = ENOENT;
	CHECK_ERROR(-ENODEV, hm_device_open("sim:9", &device));
	CHECK(text_has("make vm") && text_has("soft:0"));
	sys_table = real;
	CHECK(!device);
}

/* ---- signals ---- */

#define TRIES 100 /* from hetmap/base.h */
#define LATE UINT64_C(50000000)
#define MORE (2 * TRIES + TRIES / 2)

static const struct sim_port_ops *port_ops;
static unsigned long always;         /* this call is interrupted always; 0: none is */
static _Atomic unsigned int some;    /* and so are so many WAITs from now */
static _Atomic unsigned int n_eintr; /* answers of -EINTR */

static int interrupt(void)
{
	atomic_fetch_add(&n_eintr, 1);
	return -EINTR;
}

static int call_interrupted(void *file, unsigned long cmd, void *argument)
{
	int r;

	if (cmd == always)
		return interrupt();
	if (cmd == HETSIM_WAIT && some) {
		some--;
		return interrupt();
	}
	r = port_ops->call(file, cmd, argument);
	return r == -EINTR ? interrupt() : r;
}

static int submit_interrupted(void *file, struct hetsim_submit *submit)
{
	return always == HETSIM_SUBMIT ? interrupt() : port_ops->submit(file, submit);
}

/* How many there were since it was last asked. */
static unsigned int interruptions(void)
{
	return atomic_exchange(&n_eintr, 0);
}

/* A device with an engine, whose calls all go through the above, and its buffer. */
struct watched_device {
	struct hm_device *device;
	struct hm_accel *accel;
	struct sim_port_ops ops;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char *bytes;
};

static void watch(struct watched_device *watched)
{
	struct sim_port *port;

	watched->device = sim_open();
	/* Before that, as a later open of the name looks for the old ops. */
	CHECK_OK_FATAL(hm_accel_open(sim_device(), NULL, &watched->accel));
	port = sim_port_of(watched->device);
	port_ops = port->ops;
	watched->ops = *port_ops;
	watched->ops.call = call_interrupted;
	if (port_ops->submit)
		watched->ops.submit = submit_interrupted;
	port->ops = &watched->ops;
	always = 0;
	some = 0;
	interruptions();
}

static void make(struct watched_device *watched)
{
	watched->buffer = sim_make(watched->device, MIB(1), MIB(2), &watched->map);
	watched->bytes = hm_map_address(watched->map);
}

static void unwatch(struct watched_device *watched)
{
	hm_map_unref(watched->map);
	hm_buffer_unref(watched->buffer);
	CHECK_EQUAL(sim_query(watched->device).opener_used, 0);
	sim_port_of(watched->device)->ops = port_ops;
	hm_accel_unref(watched->accel);
	hm_device_unref(watched->device);
}

/* Late, so that there is something to wait for. */
static struct hm_queue *late_queue(struct watched_device *watched)
{
	struct hm_queue *queue;
	uint32_t number;

	CHECK_OK_FATAL(hm_queue_create(watched->accel, 0, &queue));
	CHECK_OK_FATAL(hm_sim_queue(queue, &number));
	CHECK_OK(sim_inject(watched->device, HETSIM_INJECT_LATENCY, number, LATE));
	return queue;
}

/* The device interrupts each call once, and no caller gets -EINTR. */
static void test_interrupted(void)
{
	struct watched_device watched;
	struct hm_queue *queue;
	struct hm_fence *fence;

	watch(&watched);
	CHECK_OK(sim_inject(watched.device, HETSIM_INJECT_EINTR, 0, 1));
	make(&watched);
	CHECK_EQUAL(interruptions(), 1);
	CHECK_OK(sim_inject(watched.device, HETSIM_INJECT_EINTR, 0, 1));
	CHECK_OK(hm_buffer_resize(watched.buffer, MIB(2), 0));
	CHECK_EQUAL(interruptions(), 1);
	CHECK_EQUAL(sim_query(watched.device).opener_used, MIB(2));

	queue = late_queue(&watched);
	CHECK_OK(sim_inject(watched.device, HETSIM_INJECT_EINTR, 0, 1));
	CHECK_OK_FATAL(hm_queue_fill(queue, watched.bytes, 0x07070707, MIB(1), &fence));
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_EQUAL(interruptions(), 1);
	CHECK_OK(hm_map_begin_cpu(watched.map, 0, MIB(1), HM_READ));
	CHECK(watched.bytes[0] == 7 && watched.bytes[MIB(1) - 1] == 7);
	CHECK_OK(hm_map_end_cpu(watched.map, 0, MIB(1), HM_READ));
	hm_fence_unref(fence);
	hm_queue_unref(queue);
	unwatch(&watched);
}

/* Calls that are interrupted each time end after so many tries, and have done nothing. */
static void test_interrupted_always(void)
{
	struct watched_device watched;
	struct hm_buffer *none = NULL;
	struct hm_queue *queue = NULL;
	struct hm_fence *fence = NULL;

	watch(&watched);
	always = HETSIM_BUFFER_CREATE;
	CHECK_ERROR(-EINTR, make_of(watched.device, MIB(1), 0, &none));
	CHECK(!none && text_has("signals came all the time"));
	CHECK_EQUAL(interruptions(), TRIES);
	CHECK_EQUAL(sim_query(watched.device).opener_used, 0);
	always = 0;
	make(&watched);

	always = HETSIM_BUFFER_RESIZE;
	CHECK_ERROR(-EINTR, hm_buffer_resize(watched.buffer, MIB(2), 0));
	CHECK(text_has("signals came all the time"));
	CHECK_EQUAL(interruptions(), TRIES);
	CHECK_EQUAL(hm_map_length(watched.map), MIB(1));
	always = 0;
	CHECK_OK(hm_buffer_resize(watched.buffer, MIB(2), 0));

	always = HETSIM_QUEUE_CREATE;
	CHECK_ERROR(-EINTR, hm_queue_create(watched.accel, 0, &queue));
	CHECK_EQUAL(interruptions(), TRIES);
	CHECK(!queue);
	always = 0;
	queue = late_queue(&watched);

	always = HETSIM_SUBMIT;
	CHECK_ERROR(-EINTR, hm_queue_fill(queue, watched.bytes, 0x07070707, MIB(1), &fence));
	CHECK_EQUAL(interruptions(), TRIES);
	CHECK(!fence);
	always = 0;
	CHECK_OK_FATAL(hm_queue_fill(queue, watched.bytes, 0x07070707, MIB(1), &fence));
	/* A query gets the error; a wait goes on for as long as its timeout. */
	always = HETSIM_WAIT;
	CHECK_ERROR(-EINTR, hm_fence_wait(fence, 0));
	CHECK_EQUAL(interruptions(), TRIES);
	always = 0;
	some = MORE;
	CHECK_OK(hm_fence_wait(fence, UINT64_MAX));
	CHECK_EQUAL(interruptions(), MORE);
	hm_fence_unref(fence);
	hm_queue_unref(queue);
	unwatch(&watched);
}

static const struct sim_case cases[] = {
	{ "names", test_names },
	{ "best", test_not_default },
	{ "shared_port", test_shared_port },
	{ "calls", test_calls },
	{ "capacity", test_capacity },
	{ "limits", test_limits },
	{ "import_twice", test_import_twice },
	{ "read_only", test_read_only },
	{ "fork_child", test_fork_child },
	{ "handshake", test_handshake },
	{ "interrupted", test_interrupted },
	{ "interrupted_always", test_interrupted_always },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "sim_device", cases)
