// SPDX-License-Identifier: MIT
/* Devices that come back: buffers at the same addresses, with the bytes they had. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <hetmap/hetmap.h>

#include "lib/inject.h"
#include "lib/sim_devices.h"

#define PAGES 40
#define SIZE (PAGES * PAGE + 100)

/* The callbacks that were called, in order. */
struct told {
	char calls[32];
	struct hm_device *device;
	uint32_t salt;
	int answer;
	bool unplug;
};

static void note(struct told *told, char what)
{
	size_t n = strlen(told->calls);

	if (n + 1 < sizeof(told->calls))
		told->calls[n] = what;
}

static void on_lost(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct told *told = user;
	struct hm_recover_info info = { .struct_size = sizeof(info) };

	note(told, event == HM_LOSS_TAKEN ? 't' : event == HM_LOSS_RECOVERED ? 'r' : 'l');
	/* Without locks: calls are allowed. */
	CHECK_EQUAL(!!(buffer_info(buffer).lost & HM_LOST_BYTES), event != HM_LOSS_RECOVERED);
	if (event != HM_LOSS_TAKEN)
		CHECK_ERROR(-EDEADLK, hm_device_recover(told->device, 0, &info));
}

static int on_refill(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
		     void *user)
{
	struct told *told = user;

	note(told, 'f');
	CHECK_EQUAL(buffer_info(buffer).size, SIZE);
	if (told->unplug)
		CHECK(sim_unplug(told->device));
	if (!told->answer)
		pattern_write((char *)bytes - offset, offset, offset + length, told->salt);
	return told->answer;
}

static int set_policy(struct hm_buffer *buffer, uint32_t policy, uint32_t flags, bool refill,
		      struct told *told)
{
	return hm_buffer_set_loss(buffer,
				  DESC(hm_loss_desc, .policy = policy, .flags = flags,
				       .lost = told ? on_lost : NULL,
				       .refill = refill ? on_refill : NULL, .user = told));
}

/* ---- each policy ---- */

struct lives {
	struct told told;
	struct hm_device *device;
	struct hm_buffer *buffer;
	struct hm_map *map, *part;
	struct hm_view *view;
	char views[16];
	char *base;
};

static void on_view_lost(void *user)
{
	strcat(((struct lives *)user)->views, "l");
}

static void on_reattach(void *user, const struct hm_view_change *change)
{
	struct lives *lives = user;

	/* A resize calls it for other changes, too. */
	if (change->old_length != SIZE || change->new_length != SIZE)
		return;
	CHECK(change->new_address == lives->base);
	strcat(lives->views, "r");
}

static void make(struct lives *lives)
{
	const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.lost = on_view_lost,
		.reattach = on_reattach,
	};

	memset(lives, 0, sizeof(*lives));
	lives->device = sim_open();
	lives->told.device = lives->device;
	lives->buffer = sim_make(lives->device, SIZE, 2 * SIZE, &lives->map);
	lives->part = rig_map(lives->buffer, DESC(hm_map_desc, .access = HM_READ | HM_WRITE,
						  .flags = HM_MAP_GUARD, .offset = 8 * PAGE,
						  .length = 4 * PAGE));
	lives->base = hm_map_address(lives->map);
	CHECK_OK_FATAL(hm_view_create(lives->map, 0, 0, &ops, lives, &lives->view));
	sim_write(lives->map, 0, SIZE, 1);
	CHECK_OK(hm_map_protect(lives->map, PAGE, PAGE, HM_READ));
	memset(lives->views, 0, sizeof(lives->views));
}

static void drop(struct lives *lives)
{
	hm_view_unref(lives->view);
	hm_map_unref(lives->part);
	hm_map_unref(lives->map);
	hm_buffer_unref(lives->buffer);
	hm_device_unref(lives->device);
	CHECK_EQUAL(stats_now().bytes_shadow, 0);
	CHECK_EQUAL(stats_now().bytes_reserved, 0);
}

static void check_usable(struct lives *lives, uint32_t generation)
{
	struct hm_pointer_info found;
	uint32_t handle;
	char *part = hm_map_address(lives->part);

	CHECK(hm_map_address(lives->map) == lives->base);
	CHECK_EQUAL(hm_pointer_find(lives->base + 5, &found), 0);
	CHECK(found.map == lives->map && found.device == lives->device);
	CHECK_EQUAL(found.generation, generation);
	CHECK_EQUAL(map_info(lives->map, 0).generation, generation);
	CHECK_EQUAL(device_info(lives->device).generation, generation / 2);
	CHECK_EQUAL(buffer_info(lives->buffer).lost, 0);
	CHECK_EQUAL(buffer_info(lives->buffer).generation, generation / 2);
	/* Rights, a guard page, and one object behind both maps. */
	CHECK_EQUAL(test_write_signal(lives->base + PAGE), SIGSEGV);
	CHECK_EQUAL(test_read_signal(lives->base + PAGE), 0);
	CHECK_EQUAL(test_read_signal(part - 1), SIGSEGV);
	CHECK_EQUAL(test_read_signal(lives->base + (PAGES + 1) * PAGE), SIGSEGV);
	lives->base[9 * PAGE] ^= 1;
	CHECK_EQUAL(part[PAGE], lives->base[9 * PAGE]);
	lives->base[9 * PAGE] ^= 1;
	/* On the device as it is now. */
	CHECK_OK(hm_sim_buffer(lives->buffer, &handle));
	CHECK_EQUAL(sim_info(lives->device, handle).length, (PAGES + 1) * PAGE);
	CHECK_OK(hm_buffer_resize(lives->buffer, 2 * SIZE, 0));
	CHECK(is_zero(lives->base, SIZE, 2 * SIZE));
	CHECK_OK(hm_buffer_resize(lives->buffer, SIZE, 0));
}

/* Between it and a device that was never taken away: each is as it was when that began. */
static void check_copies(struct lives *lives)
{
	AUTO(rig_handler) handler = rig_handler(0);
	AUTO(hm_map) *map = NULL;
	AUTO(hm_device) *host = rig_device("host");
	AUTO(hm_buffer) *buffer = sim_make(host, SIZE, SIZE, &map);
	char *other = hm_map_address(map);

	CHECK_OK(hm_copy_in(other, lives->base + 2 * PAGE, PAGE, NULL));
	CHECK_OK(hm_copy_in(lives->base + 2 * PAGE, other, PAGE, NULL));
	CHECK_OK(hm_copy_out(other, lives->base + 2 * PAGE, PAGE, NULL));
	CHECK_OK(hm_copy_out(lives->base + 2 * PAGE, other, PAGE, NULL));
}

static void test_shadow(void)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct lives lives;
	uint32_t round;

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_SHADOW, 0, false, &lives.told));
	for (round = 1; round <= 3; round++) {
		sim_write(lives.map, 20 * PAGE + 7, 21 * PAGE + 9, round);
		if (!sim_unplug(lives.device))
			break;
		CHECK(!strcmp(lives.told.calls, "t"));
		CHECK_ERROR(-ENODEV, hm_device_recover(lives.device, 0, NULL));
		/* Bytes stored meanwhile are dropped. */
		pattern_write(lives.base, 10 * PAGE, 11 * PAGE, 77);
		sim_plug();
		info = sim_recover(lives.device, 0);
		CHECK_EQUAL(info.generation, round);
		CHECK_EQUAL(info.buffers, 1);
		CHECK_EQUAL(info.buffers_back + info.buffers_left, 0);
		/* The device is there, its old bytes are not. */
		CHECK_ERROR(-ENODEV, hm_map_begin_cpu(lives.map, 0, PAGE, HM_READ));
		CHECK(strstr(hm_errmsg(), "is back without its bytes"));
		CHECK(pattern_holds(lives.base, 20 * PAGE + 7, 21 * PAGE + 9, round));
		info = sim_recover(lives.device, HM_RECOVER_SHADOWED);
		CHECK_EQUAL(info.generation, round);
		CHECK_EQUAL(info.buffers_back, 1);
		CHECK_EQUAL(info.maps_back, 2);
		CHECK_EQUAL(info.bytes_shadow, SIZE);
		CHECK_EQUAL(info.error, 0);
		CHECK(!strcmp(lives.told.calls, "tr"));
		CHECK(!strcmp(lives.views, "lr"));
		CHECK(pattern_holds(lives.base, 0, 20 * PAGE + 7, 1));
		CHECK(pattern_holds(lives.base, 20 * PAGE + 7, 21 * PAGE + 9, round));
		CHECK(pattern_holds(lives.base, 21 * PAGE + 9, SIZE, 1));
		check_usable(&lives, 2 * round);
		check_copies(&lives);
		memset(lives.told.calls, 0, sizeof(lives.told.calls));
		memset(lives.views, 0, sizeof(lives.views));
	}
	drop(&lives);
}

static void test_refill(void)
{
	struct hm_recover_info info;
	struct lives lives;

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_RECREATE, 0, true, &lives.told));
	lives.told.salt = 5;
	if (sim_unplug(lives.device)) {
		CHECK(is_zero(lives.base, 0, SIZE));
		sim_plug();
		/* One that fails leaves everything as it is. */
		lives.told.answer = -EIO;
		info = sim_recover(lives.device, 0);
		CHECK_EQUAL(info.buffers_left, 1);
		CHECK_EQUAL(info.error, -EIO);
		CHECK(strstr(hm_warning(), "refill"));
		CHECK(is_zero(lives.base, 0, SIZE));
		lives.told.answer = 0;
		info = sim_recover(lives.device, 0);
		CHECK_EQUAL(info.buffers_back, 1);
		CHECK_EQUAL(info.bytes_refilled, SIZE);
		CHECK_EQUAL(info.bytes_shadow, 0);
		CHECK(pattern_holds(lives.base, 0, SIZE, 5));
		CHECK(!strcmp(lives.told.calls, "tflfr"));
		check_usable(&lives, 2);
	}
	drop(&lives);
}

/* The device goes again while refill writes: its target stays mapped. */
static void test_gone_in_refill(void)
{
	struct lives lives;
	AUTO(rig_handler) handler = rig_handler(0);

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_RECREATE, 0, true, &lives.told));
	if (sim_unplug(lives.device)) {
		sim_plug();
		lives.told.unplug = true;
		CHECK_ERROR(-ENODEV, hm_device_recover(lives.device, 0, NULL));
		CHECK(!strcmp(lives.told.calls, "tfl"));
		CHECK(is_zero(lives.base, 0, SIZE));
		lives.told.unplug = false;
		sim_plug();
		CHECK_EQUAL(sim_recover(lives.device, 0).buffers_back, 1);
		CHECK(pattern_holds(lives.base, 0, SIZE, 0));
	}
	drop(&lives);
}

/* Both: the shadow has the bytes that refill does not write, and then the new ones. */
static void test_refill_over_shadow(void)
{
	struct hm_recover_info info;
	struct lives lives;

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW, true,
				  &lives.told));
	lives.told.salt = 6;
	if (sim_unplug(lives.device)) {
		CHECK(pattern_holds(lives.base, 0, SIZE, 1));
		sim_plug();
		info = sim_recover(lives.device, 0);
		CHECK_EQUAL(info.bytes_shadow, SIZE);
		CHECK_EQUAL(info.bytes_refilled, SIZE);
		CHECK(pattern_holds(lives.base, 0, SIZE, 6));
		CHECK(sim_unplug(lives.device));
		CHECK(pattern_holds(lives.base, 0, SIZE, 6));
		sim_plug();
	}
	drop(&lives);
}

static void test_zeros(void)
{
	struct hm_recover_info info;
	struct lives lives;

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_RECREATE, 0, false, &lives.told));
	if (sim_unplug(lives.device)) {
		pattern_write(lives.base, 0, PAGE, 9);
		sim_plug();
		info = sim_recover(lives.device, 0);
		CHECK_EQUAL(info.bytes_zero, SIZE);
		CHECK(is_zero(lives.base, 0, SIZE));
		check_usable(&lives, 2);
	}
	drop(&lives);
}

/* ---- protection scopes ---- */

static struct hm_scope *begin_scope(struct lives *lives, uint64_t page, uint64_t n,
				    uint32_t access)
{
	struct hm_scope *scope = NULL;

	CHECK_OK_FATAL(hm_map_protect_begin(lives->map, page * PAGE, n * PAGE, access, &scope));
	return scope;
}

/* Rights of pages 0 to 7, "wr-": by the registry, by touch and by a bracket. */
static void check_rights(struct lives *lives, const char *rights)
{
	struct hm_pointer_info found;
	char said[9] = "", is[9] = "";
	unsigned int i;
	char *at;
	int r;

	for (i = 0; rights[i]; i++) {
		at = lives->base + i * PAGE;
		CHECK_OK_FATAL(hm_pointer_find(at, &found));
		said[i] = found.access & HM_WRITE ? 'w' : found.access & HM_READ ? 'r' : '-';
		is[i] = test_read_signal(at) ? '-' : test_write_signal(at) ? 'r' : 'w';
		if (buffer_info(lives->buffer).lost)
			continue;
		r = hm_map_begin_cpu(lives->map, i * PAGE, PAGE, HM_READ | HM_WRITE);
		CHECK_EQUAL(r, rights[i] == 'w' ? 0 : -EACCES);
		if (!r)
			CHECK_OK(
				hm_map_end_cpu(lives->map, i * PAGE, PAGE, HM_READ | HM_WRITE));
	}
	if (strcmp(said, rights) != 0 || strcmp(is, rights) != 0)
		test_fail(__FILE__, __LINE__,
			  "%s expected, the registry says %s, the kernel %s", rights, said, is);
}

/* A map whose scopes come and go; its rights at first are "wrwwwwww". */
static void make_scoped(struct lives *lives)
{
	make(lives);
	CHECK_OK_FATAL(set_policy(lives->buffer, HM_LOSS_RECREATE, 0, false, NULL));
	/* The view would hear of each scope. */
	hm_view_unref(lives->view);
	lives->view = NULL;
}

/* The end of a scope gives its rights back, also while its map is lost. */
static void test_scopes(void)
{
	struct hm_scope *a, *b;
	struct lives lives;

	make_scoped(&lives);
	a = begin_scope(&lives, 1, 3, HM_NONE);
	b = begin_scope(&lives, 3, 3, HM_READ);
	check_rights(&lives, "w---rrww");
	if (!sim_unplug(lives.device)) {
		CHECK_OK(hm_map_protect_end(a));
		CHECK_OK(hm_map_protect_end(b));
		drop(&lives);
		return;
	}
	check_rights(&lives, "w---rrww");
	/* One ends, and the other one is open still, for long. */
	CHECK_ERROR(-ENODEV, hm_map_protect_end(a));
	CHECK(strstr(hm_errmsg(), "taken away"));
	check_rights(&lives, "wrwrrrww");
	sim_plug();
	sim_recover(lives.device, 0);
	check_rights(&lives, "wrwrrrww");
	CHECK_OK(hm_map_protect_end(b));
	check_rights(&lives, "wrwwwwww");
	/* The last one ends. */
	a = begin_scope(&lives, 0, PAGES, HM_NONE);
	CHECK(sim_unplug(lives.device));
	check_rights(&lives, "--------");
	CHECK_ERROR(-ENODEV, hm_map_protect_end(a));
	check_rights(&lives, "wrwwwwww");
	sim_plug();
	sim_recover(lives.device, 0);
	check_rights(&lives, "wrwwwwww");
	/* None does, until the map has its bytes again. */
	a = begin_scope(&lives, 0, 2, HM_NONE);
	CHECK(sim_unplug(lives.device));
	sim_plug();
	sim_recover(lives.device, 0);
	check_rights(&lives, "--wwwwww");
	CHECK_OK(hm_map_protect_end(a));
	check_rights(&lives, "wrwwwwww");
	drop(&lives);
}

/* Without memory for the rights the scope stays; then it ends. */
static void test_scopes_without_memory(void)
{
	struct lives lives;
	struct hm_scope *scope;
	unsigned int n = 0;
	int r = -ENOMEM;

	make_scoped(&lives);
	scope = begin_scope(&lives, 2, 2, HM_READ);
	if (!sim_unplug(lives.device)) {
		CHECK_OK(hm_map_protect_end(scope));
		drop(&lives);
		return;
	}
	inject_install();
	while (r == -ENOMEM && n < 100) {
		check_rights(&lives, "wrrrwwww");
		inject_arm(++n, INJECT_ONE);
		r = hm_map_protect_end(scope);
		inject_disarm();
		inject_forgive();
	}
	CHECK(n > 1);
	CHECK_EQUAL(r, -ENODEV);
	sim_plug();
	sim_recover(lives.device, 0);
	check_rights(&lives, "wrwwwwww");
	drop(&lives);
}

static _Atomic bool scoping;

/* Each ends, whatever became of its map meanwhile. */
static void *scope_on(void *user)
{
	struct lives *lives = user;
	struct hm_scope *scope;
	int r;

	while (scoping) {
		if (hm_map_protect_begin(lives->map, 2 * PAGE, 2 * PAGE, HM_NONE, &scope))
			continue;
		r = hm_map_protect_end(scope);
		if (r)
			CHECK_EQUAL(r, -ENODEV);
	}
	return NULL;
}

static void test_scopes_beside_recovery(void)
{
	struct lives lives;
	pthread_t thread;
	int i;

	make_scoped(&lives);
	scoping = true;
	CHECK_FATAL(!pthread_create(&thread, NULL, scope_on, &lives));
	for (i = 0; i < 30 && sim_unplug(lives.device); i++) {
		sim_plug();
		sim_recover(lives.device, 0);
	}
	scoping = false;
	pthread_join(thread, NULL);
	check_rights(&lives, "wrwwwwww");
	drop(&lives);
}

/* ---- buffers that do not come back ---- */

static void test_left(void)
{
	AUTO(hm_device) *device = sim_open();
	struct hm_map *map, *exported_map;
	AUTO(hm_buffer) *buffer = sim_make(device, SIZE, 0, &map);
	AUTO(hm_buffer) *exported = sim_make(device, SIZE, 0, &exported_map);
	struct hm_recover_info info;
	int fd;

	CHECK_OK_FATAL(hm_buffer_export(exported, 0, &fd));
	AUTO(hm_buffer) *imported = rig_import(device, fd, NULL);
	close(fd);
	CHECK_ERROR(-EOPNOTSUPP, set_policy(imported, HM_LOSS_RECREATE, 0, false, NULL));
	CHECK_OK(set_policy(imported, HM_LOSS_SHADOW, 0, false, NULL));
	CHECK_OK(set_policy(exported, HM_LOSS_RECREATE, 0, false, NULL));
	if (sim_unplug(device)) {
		sim_plug();
		info = sim_recover(device, HM_RECOVER_SHADOWED);
		CHECK_EQUAL(info.buffers, 3);
		CHECK_EQUAL(info.buffers_left, 2);
		CHECK_EQUAL(info.buffers_back, 0);
		CHECK(info.error == -EBUSY || info.error == -EOPNOTSUPP);
		/* A new buffer is on the device as it is now. */
		hm_map_unref(map);
		hm_buffer_unref(buffer);
		buffer = sim_make(device, SIZE, 0, &map);
		sim_write(map, 0, SIZE, 3);
		CHECK(pattern_holds(hm_map_address(map), 0, SIZE, 3));
		CHECK(is_zero(hm_map_address(exported_map), 0, SIZE));
	}
	hm_map_unref(map);
	hm_map_unref(exported_map);
}

/* A device that is there: nothing happens, nothing is told. */
static void test_there(void)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	struct lives lives;

	make(&lives);
	CHECK_OK_FATAL(set_policy(lives.buffer, HM_LOSS_RECREATE, 0, true, &lives.told));
	info = sim_recover(lives.device, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.generation, 0);
	CHECK_EQUAL(info.buffers, 0);
	CHECK(!lives.told.calls[0]);
	CHECK(pattern_holds(lives.base, 0, SIZE, 1));
	CHECK_ERROR(-EINVAL, hm_device_recover(lives.device, 2, &info));
	CHECK_ERROR(-EINVAL, hm_device_recover(NULL, 0, &info));
	info.struct_size = 4;
	CHECK_ERROR(-EINVAL, hm_device_recover(lives.device, 0, &info));
	drop(&lives);
}

/* Recovers in the very callback that tells of the loss, in the thread that found out. */
static void recover_at_once(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	struct told *told = user;

	(void)buffer;
	note(told, event == HM_LOSS_TAKEN ? 't' : 'r');
	if (event != HM_LOSS_TAKEN)
		return;
	sim_plug();
	CHECK_EQUAL(sim_recover(told->device, HM_RECOVER_SHADOWED).buffers_back, 1);
}

static void test_in_callback(void)
{
	struct hm_loss_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_LOSS_SHADOW,
		.lost = recover_at_once,
	};
	struct lives lives;

	make(&lives);
	desc.user = &lives.told;
	CHECK_OK_FATAL(hm_buffer_set_loss(lives.buffer, &desc));
	if (sim_unplug(lives.device)) {
		CHECK(!strcmp(lives.told.calls, "tr"));
		CHECK(pattern_holds(lives.base, 0, SIZE, 1));
		check_usable(&lives, 2);
	}
	drop(&lives);
}

static const struct sim_case cases[] = {
	{ "shadow", test_shadow },
	{ "refill", test_refill },
	{ "gone_in_refill", test_gone_in_refill },
	{ "refill_over_shadow", test_refill_over_shadow },
	{ "zeros", test_zeros },
	{ "scopes", test_scopes },
	{ "scopes_without_memory", test_scopes_without_memory },
	{ "scopes_beside_recovery", test_scopes_beside_recovery },
	{ "left", test_left },
	{ "there", test_there },
	{ "in_callback", test_in_callback },
	{ NULL, NULL },
};

TEST_MAIN(sim_main, "recover", cases)
