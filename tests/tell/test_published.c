// SPDX-License-Identifier: MIT
/* The published table of maps: entries that other processes read, and when. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hetmap/published.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "lib/command.h"
#include "lib/holding.h"
#include "lib/inject.h"
#include "lib/support.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define WALKED 42 /* the exit status of a child that met no failure */
#define LINK "/memfd:hetmap:maps (deleted)"

/* The descriptor of this process's table, for reading; -1: there is none. */
static int open_table(void)
{
	DIR *folder = opendir("/proc/self/fd");
	struct dirent *entry;
	char link[64];
	int fd = -1;

	CHECK_FATAL(folder != NULL);
	while (fd < 0 && (entry = readdir(folder))) {
		ssize_t n = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link));

		if (n == (ssize_t)strlen(LINK) && !memcmp(link, LINK, (size_t)n))
			fd = openat(dirfd(folder), entry->d_name, O_RDONLY | O_CLOEXEC);
	}
	closedir(folder);
	return fd;
}

static struct hm_published_head head_of(int fd)
{
	struct hm_published_head head = { 0 };

	CHECK_EQUAL(pread(fd, &head, sizeof(head), 0), sizeof(head));
	CHECK_EQUAL(head.magic, HM_PUBLISHED_MAGIC);
	CHECK_EQUAL(head.version, HM_PUBLISHED_VERSION);
	CHECK_EQUAL(head.entry_size, sizeof(struct hm_published_entry));
	CHECK(head.used <= head.n_entry);
	return head;
}

/* The last entry of a buffer @name before map @serial; all zeros if there is none. */
static struct hm_published_entry entry_before(int fd, const char *name, uint64_t serial)
{
	struct hm_published_head head = head_of(fd);
	struct hm_published_entry entry, found = { 0 };
	uint64_t i;

	for (i = 0; i < head.used; i++) {
		CHECK_EQUAL(pread(fd, &entry, sizeof(entry),
				  (off_t)(HM_PUBLISHED_FIRST + i * sizeof(entry))),
			    sizeof(entry));
		CHECK(!(entry.sequence & 1));
		if (!strcmp(entry.name, name) && entry.serial > found.serial &&
		    entry.serial < serial)
			found = entry;
	}
	return found;
}

static struct hm_published_entry entry_of(int fd, const char *name)
{
	return entry_before(fd, name, UINT64_MAX);
}

static struct hm_buffer *make(struct hm_device *device, const char *name, uint64_t size,
			      struct hm_map **ret_map)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc), .size = size, .max_size = 64 * PAGE, .name = name
	};
	struct hm_buffer *buffer;

	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, ret_map));
	return buffer;
}

static const volatile uint64_t *at(uint64_t address)
{
	return (const volatile uint64_t *)(uintptr_t)address;
}

static void life_on(const char *name)
{
	struct hm_published_entry entry, ended;
	struct hm_map *map;
	AUTO(hm_device) *device = rig_device(name);
	AUTO(hm_buffer) *buffer = make(device, "life", 8 * PAGE, &map);
	int fd = open_table();

	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(head_of(fd).pid, getpid());
	entry = entry_of(fd, "life");
	CHECK_EQUAL(entry.address, (uintptr_t)hm_map_address(map));
	CHECK_EQUAL(entry.length, 8 * PAGE);
	CHECK(entry.span >= 64 * PAGE);
	CHECK_EQUAL(entry.offset, 0);
	CHECK_EQUAL(entry.buffer, buffer_info(buffer).serial);
	CHECK(!strcmp(entry.device, name));
	CHECK(entry.begin_ns && !entry.end_ns);
	CHECK_EQUAL(entry.generation, map_info(map, 0).generation);
	CHECK_EQUAL(entry.flags & HM_PUBLISHED_LOST, 0);
	/* Its counters are where it says, and count. */
	CHECK_EQUAL((uint32_t)*at(entry.brackets), 0);
	CHECK_OK(hm_map_begin_cpu(map, 0, PAGE, HM_READ));
	CHECK_EQUAL((uint32_t)*at(entry.brackets), 1);
	CHECK_OK(hm_map_end_cpu(map, 0, PAGE, HM_READ));
	CHECK_EQUAL((uint32_t)*at(entry.brackets), 0);
	CHECK_EQUAL(*(const volatile uint32_t *)at(entry.in_flight), 0);
	/* The host's memory makes no room for other bytes. */
	CHECK(!entry.evictions == !strcmp(name, "host"));
	CHECK_OK(hm_buffer_resize(buffer, 64 * PAGE, 0));
	CHECK_EQUAL(entry_of(fd, "life").length, 64 * PAGE);
	CHECK_EQUAL(entry_of(fd, "life").serial, entry.serial);
	hm_map_unref(map);
	ended = entry_of(fd, "life");
	CHECK_EQUAL(ended.serial, entry.serial);
	CHECK(ended.end_ns > ended.begin_ns);
	close(fd);
}

static void life(void)
{
	life_on("host");
	life_on("soft:0");
}

/* Another object's are counted elsewhere. */
static void evictions(void)
{
	struct hetsim_inject out = { .size = sizeof(out),
				     .kind = HETSIM_INJECT_EVICTION,
				     .value = PAGE };
	struct hm_published_entry entry;
	uint64_t pages;
	AUTO(rig) r =
		rig_make("soft:0", DESC(hm_buffer_desc, .size = 8 * PAGE, .name = "evicted"));
	int fd = open_table();

	CHECK_FATAL(fd >= 0);
	for (pages = 64; pages <= 4096; pages *= 8) {
		entry = entry_of(fd, "evicted");
		CHECK_FATAL(entry.evictions != 0);
		CHECK_EQUAL(*at(entry.evictions), 0);
		CHECK_OK(hm_sim_buffer(r.buffer, &out.target));
		CHECK_OK(hm_sim_call(r.device, HETSIM_INJECT, &out));
		CHECK_EQUAL(*at(entry.evictions), 1);
		CHECK_OK(hm_buffer_resize(r.buffer, pages * PAGE, HM_MAY_MOVE));
	}
	close(fd);
}

/* One that moves is another entry, and the old one has ended. */
static void moved(void)
{
	struct hm_published_entry before, after, old;
	AUTO(hm_map) *map = NULL;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, "moved", PAGE, &map);
	int fd = open_table();

	CHECK_FATAL(fd >= 0);
	before = entry_of(fd, "moved");
	CHECK_OK(hm_buffer_resize(buffer, 4096 * PAGE, HM_MAY_MOVE));
	after = entry_of(fd, "moved");
	CHECK_EQUAL(after.address, (uintptr_t)hm_map_address(map));
	CHECK_EQUAL(after.length, 4096 * PAGE);
	CHECK(after.address != before.address);
	old = entry_before(fd, "moved", after.serial);
	CHECK_EQUAL(old.serial, before.serial);
	CHECK_EQUAL(old.address, before.address);
	CHECK(old.end_ns && old.end_ns <= after.begin_ns);
	close(fd);
}

/* No other process can write to it, change its size, or undo that. */
static void sealed(void)
{
	AUTO(hm_map) *map = NULL;
	int fd, again;
	char path[32];
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, "sealed", PAGE, &map);

	fd = open_table();
	CHECK_FATAL(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	CHECK(again >= 0);
	CHECK_EQUAL(fcntl(fd, F_GET_SEALS) & SEALS, SEALS);
	CHECK(pwrite(again, "x", 1, 0) < 0);
	CHECK(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0) == MAP_FAILED);
	CHECK(ftruncate(again, 0) < 0);
	close(again);
	close(fd);
}

static void in_child(void *user)
{
	AUTO(hm_map) *map = NULL;
	int fd;

	(void)user;
	CHECK(open_table() < 0);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, "child", PAGE, &map);
	fd = open_table();
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(head_of(fd).pid, getpid());
	CHECK_EQUAL(entry_of(fd, "child").length, PAGE);
	CHECK_EQUAL(entry_of(fd, "parent").serial, 0);
	close(fd);
}

static void forked(void)
{
	AUTO(hm_map) *map = NULL;
	int fd;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, "parent", PAGE, &map);

	CHECK_EQUAL(test_fork(in_child, NULL), 0);
	fd = open_table();
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(entry_of(fd, "child").serial, 0);
	CHECK_EQUAL(entry_of(fd, "parent").flags & HM_PUBLISHED_INHERITED,
		    HM_PUBLISHED_INHERITED);
	close(fd);
}

/* More maps than are remembered: the oldest are forgotten, and counted. */
static void history(void)
{
	struct hm_published_head head;
	struct hm_map *map;
	char name[16];
	int fd, i;
	AUTO(hm_device) *device = rig_device("host");

	for (i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		AUTO(hm_buffer) *buffer = make(device, name, PAGE, &map);
		hm_map_unref(map);
	}
	fd = open_table();
	CHECK_FATAL(fd >= 0);
	head = head_of(fd);
	CHECK(head.used < 4200);
	CHECK(head.forgotten >= 800);
	CHECK_EQUAL(head.left_out, 0);
	CHECK_EQUAL(entry_of(fd, "h0").serial, 0);
	CHECK(entry_of(fd, "h1000").end_ns != 0);
	CHECK_EQUAL(stats_now().unpublished, 0);
	close(fd);
}

/* In a folder it is a file; "0" is none; and where it can't be made, maps work without. */
static void as_wished(void *user)
{
	const char *wish = user;
	struct hm_map *map;
	bool none = !strcmp(wish, "0");
	char path[512];
	int fd;

	setenv("HETMAP_PUBLISH", wish, 1);
	AUTO(hm_device) *device = rig_device("host");
	CHECK(!strstr(hm_warning(), "HETMAP_PUBLISH: no table") ==
	      !!strcmp(wish, "/nonexistent"));
	AUTO(hm_buffer) *buffer = make(device, "wish", PAGE, &map);
	snprintf(path, sizeof(path), "%s/maps.%d", wish, (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (none) {
		CHECK(open_table() < 0);
		CHECK_EQUAL(stats_now().unpublished, 1);
	} else if (!strcmp(wish, "/nonexistent")) {
		CHECK(fd < 0);
		fd = open_table();
		CHECK(fd >= 0);
	}
	if (fd >= 0)
		CHECK_EQUAL(entry_of(fd, "wish").length, PAGE);
	else
		CHECK(none);
	hm_map_unref(map);
	if (fd >= 0)
		CHECK(entry_of(fd, "wish").end_ns != 0);
	close(fd);
}

/* The file is cut off, and written to by another: the process goes on as it was. */
static void in_hostile_folder(void *user)
{
	const char *folder = user;
	struct hm_buffer *buffer;
	struct hm_map *map;
	char path[512];
	int fd, i;

	setenv("HETMAP_PUBLISH", folder, 1);
	AUTO(hm_device) *device = rig_device("host");
	buffer = make(device, "first", PAGE, &map);
	snprintf(path, sizeof(path), "%s/maps.%d", folder, (int)getpid());
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK_OK(ftruncate(fd, 0));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	for (i = 0; i < 100; i++)
		CHECK_EQUAL(pwrite(fd, &(uint64_t){ UINT64_MAX }, 8, i * 64), 8);
	for (i = 0; i < 1000; i++) {
		buffer = make(device, "more", PAGE, &map);
		CHECK(is_zero(hm_map_address(map), 0, PAGE));
		hm_map_unref(map);
		hm_buffer_unref(buffer);
	}
	close(fd);
}

static uint64_t changes_in(int fd)
{
	struct hm_published_head head;

	CHECK_EQUAL(pread(fd, &head, sizeof(head), 0), (ssize_t)sizeof(head));
	return head.changes;
}

/* Each change shows in the file, too: tools that watch it look at this one number. */
static void changes_in_folder(void *user)
{
	const char *folder = user;
	uint64_t changes;
	struct hm_map *map;
	char path[512];
	int fd;

	setenv("HETMAP_PUBLISH", folder, 1);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = make(device, "watched", PAGE, &map);
	snprintf(path, sizeof(path), "%s/maps.%d", folder, (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	changes = changes_in(fd);
	CHECK(changes > 0);
	CHECK_OK(hm_buffer_resize(buffer, 2 * PAGE, 0));
	CHECK(changes_in(fd) > changes);
	changes = changes_in(fd);
	hm_map_unref(map);
	CHECK(changes_in(fd) > changes);
	close(fd);
}

static void folder_changes(void)
{
	AUTO_FOLDER char *folder = folder_make();

	CHECK_EQUAL(test_fork(changes_in_folder, folder), 0);
}

static void hostile_folder(void)
{
	AUTO_FOLDER char *folder = folder_make();

	CHECK_EQUAL(test_fork(in_hostile_folder, folder), 0);
}

static void wishes(void)
{
	AUTO_FOLDER char *folder = folder_make();

	CHECK_EQUAL(test_fork(as_wished, folder), 0);
	CHECK_EQUAL(test_fork(as_wished, (void *)(uintptr_t) "0"), 0);
	CHECK_EQUAL(test_fork(as_wished, (void *)(uintptr_t) "/nonexistent"), 0);
}

/* The number of the table's descriptor: of the memfd, or of a file in @folder; -1: none. */
static int number_of_table(const char *folder)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *entry;
	char link[512], path[512];
	int number = -1;

	CHECK_FATAL(fds != NULL);
	snprintf(path, sizeof(path), "%s/maps.%d", folder ? folder : "", (int)getpid());
	while (number < 0 && (entry = readdir(fds))) {
		ssize_t n = readlinkat(dirfd(fds), entry->d_name, link, sizeof(link) - 1);

		link[n < 0 ? 0 : n] = '\0';
		if (!strcmp(link, folder ? path : LINK))
			number = atoi(entry->d_name);
	}
	closedir(fds);
	return number;
}

#define MANY 1000 /* some entries have no storage yet */

static void is_still_open(void *user)
{
	CHECK(fcntl(*(int *)user, F_GETFD) >= 0);
}

/* The program closes all unknown descriptors, and a log takes a number of the library's. */
static void with_log(void *user)
{
	const char *folder = user;
	struct hm_buffer *first, *buffers[MANY];
	struct hm_map *map, *maps[MANY];
	int number, log, i;
	struct stat st;

	if (folder)
		setenv("HETMAP_PUBLISH", folder, 1);
	else
		unsetenv("HETMAP_PUBLISH");
	AUTO(hm_device) *device = rig_device("host");
	first = make(device, "first", PAGE, &map);
	number = number_of_table(folder);
	CHECK_FATAL(number >= 0);
	log = fileno(tmpfile());
	CHECK_EQUAL(dup2(log, number), number);
	CHECK_EQUAL(write(number, "line\n", 5), 5);
	CHECK_OK(hm_buffer_resize(first, 2 * PAGE, 0));
	for (i = 0; i < MANY; i++)
		buffers[i] = make(device, "more", PAGE, &maps[i]);
	CHECK(stats_now().unpublished > 0);
	for (i = 0; i < MANY; i++) {
		hm_map_unref(maps[i]);
		hm_buffer_unref(buffers[i]);
	}
	hm_map_unref(map);
	hm_buffer_unref(first);
	CHECK(!fstat(number, &st));
	CHECK_EQUAL(st.st_size, 5);
	/* The log is the child's, too. */
	CHECK_EQUAL(test_fork(is_still_open, &number), 0);
}

static void descriptor_reused(void)
{
	AUTO_FOLDER char *folder = folder_make();

	CHECK_EQUAL(test_fork(with_log, folder), 0);
	CHECK_EQUAL(test_fork(with_log, NULL), 0);
}

static uint64_t address_space(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	CHECK_FATAL(file != NULL);
	CHECK_EQUAL(fscanf(file, "%lu", &pages), 1);
	fclose(file);
	return (uint64_t)pages * PAGE;
}

/* Under a trace it takes no more address space than without. */
static void takes_little(void *user)
{
	const uint64_t room = UINT64_C(16) << 20;
	uint64_t before;
	AUTO(hm_map) *map = NULL;

	setenv("HETMAP_PUBLISH", user, 1);
	AUTO(hm_device) *device = rig_device("host");
	before = address_space();
	AUTO(hm_buffer) *buffer = make(device, "first", PAGE, &map);
	CHECK(number_of_table(user) >= 0);
	CHECK(address_space() - before < room);
}

static void address_space_of_file(void)
{
	AUTO_FOLDER char *folder = folder_make();

	CHECK_EQUAL(test_fork(takes_little, folder), 0);
}

static const char *scarce_folder; /* that the table is to be in; NULL: in memory */

/* The @user-th call of the first map fails: it is in a table, in none, or is no map. */
static void with_failure(void *user)
{
	unsigned int n = *(unsigned int *)user;
	struct test_holding before;
	struct hm_map *map;
	int fd, r;

	if (scarce_folder)
		setenv("HETMAP_PUBLISH", scarce_folder, 1);
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer =
		rig_buffer(device, DESC(hm_buffer_desc, .size = PAGE, .name = "first"));
	before = test_holding_now();
	inject_install();
	inject_arm(n, INJECT_ONE);
	r = hm_map_create(buffer, NULL, &map);
	/* All calls of it went well: the walk is over. */
	if (!inject_disarm())
		_exit(WALKED);
	if (!r) {
		CHECK(is_zero(hm_map_address(map), 0, PAGE));
		fd = open_table();
		if (scarce_folder && number_of_table(scarce_folder) >= 0) {
			CHECK(stats_now().unpublished <= 1);
		} else if (fd >= 0) {
			CHECK_EQUAL(stats_now().unpublished, 0);
			CHECK_EQUAL(entry_of(fd, "first").length, PAGE);
			close(fd);
		} else {
			CHECK_EQUAL(stats_now().unpublished, 1);
			CHECK_EQUAL(test_holding_now().fds, before.fds);
		}
		hm_map_unref(map);
	}
}

static void walk_scarce(const char *folder)
{
	unsigned int n = 1;
	int status;

	scarce_folder = folder;
	do
		status = test_fork(with_failure, &n);
	while (!status && n++ < 100);
	CHECK_EQUAL(status, -WALKED);
	CHECK(n > 5);
}

static void scarce(void)
{
	AUTO_FOLDER char *folder = folder_make();

	walk_scarce(NULL);
	walk_scarce(folder);
}

static const struct test tests[] = {
	{ "life", life, 0, 0 },
	{ "evictions", evictions, 0, 0 },
	{ "moved", moved, 0, 0 },
	{ "sealed", sealed, 0, 0 },
	{ "forked", forked, 0, 0 },
	{ "history", history, 60, TEST_ONCE },
	{ "wishes", wishes, 0, 0 },
	{ "folder_changes", folder_changes, 0, 0 },
	{ "hostile_folder", hostile_folder, 0, 0 },
	{ "descriptor_reused", descriptor_reused, 60, TEST_ONCE },
	{ "address_space_of_file", address_space_of_file, 0, TEST_ONCE },
	{ "scarce", scarce, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "published", tests)
