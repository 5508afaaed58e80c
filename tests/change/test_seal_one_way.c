// SPDX-License-Identifier: MIT
/*
 * Seals of memory that takes no writable mapping any more (F_SEAL_FUTURE_WRITE): where they
 * fail there is no way back for the maps, which can be read from then on.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "lib/inject.h"
#include "lifecycle/lifecycle.h"
#include "change/seal_support.h"

/* The maps are whole, and none can be written; a later seal may succeed. */
static void check_narrowed(const struct seal_world *w)
{
	char *bytes = hm_map_address(w->map);
	struct hm_map_desc desc = { .struct_size = sizeof(desc), .access = RW };
	struct hm_map *further;

	CHECK(strstr(hm_errmsg(), "can only read it") && !strstr(hm_errmsg(), "lost"));
	CHECK(pattern_holds(bytes, 0, SIZE, 3));
	CHECK(!memcmp(hm_map_address(w->part), bytes + 2 * PAGE, 3 * PAGE));
	CHECK_EQUAL(test_write_signal(bytes), SIGSEGV);
	CHECK_EQUAL(test_write_signal(hm_map_address(w->part)), SIGSEGV);
	CHECK_EQUAL(test_read_signal(bytes + 9 * PAGE), SIGSEGV);
	CHECK_EQUAL(map_info(w->map, HM_MAP_LOCKED).locked, 4 * PAGE);
	CHECK_EQUAL(buffer_info(w->buffer).sealed, 0);
	CHECK_EQUAL(buffer_info(w->buffer).access, HM_READ);
	CHECK_ERROR(-EACCES, hm_map_protect(w->map, 0, PAGE, RW));
	CHECK_ERROR(-EACCES, hm_map_create(w->buffer, &desc, &further));
	CHECK_ERROR(-EACCES, hm_map_begin_cpu(w->map, 0, PAGE, HM_WRITE));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(w->buffer, 12 * PAGE, 0));
}

/*
 * F_SEAL_FUTURE_WRITE, by the library or by another holder of the descriptor: the kernel makes
 * no writable map again, which a failed seal would have to put back.
 */
static void one_way(void)
{
	int by, fd;
	char *raw;

	for (by = 0; by < 2; by++) {
		AUTO(seal_world) w = seal_begin();
		CHECK_OK(hm_map_lock(w.map, 0, 4 * PAGE, 0, NULL));
		raw = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, w.fd, 0);
		CHECK_FATAL(raw != MAP_FAILED);
		if (by) {
			CHECK_OK_FATAL(hm_buffer_export(w.buffer, HM_EXPORT_READ_ONLY, &fd));
			close(fd);
		} else {
			CHECK_FATAL(!fcntl(w.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
		}
		CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
		check_narrowed(&w);
		/* Nothing else is different the second time. */
		CHECK_ERROR(-EBUSY, hm_buffer_seal(w.buffer, 0));
		check_narrowed(&w);
		munmap(raw, PAGE);
		CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
		seal_check_sealed(&w);
	}
}

/* A buffer that can't be sealed any more is refused before it changes. */
static void sealed_off(void)
{
	AUTO(seal_world) w = seal_begin();

	CHECK_FATAL(!fcntl(w.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
	CHECK_ERROR(-EPERM, hm_buffer_seal(w.buffer, 0));
	CHECK(strstr(hm_errmsg(), "F_SEAL_SEAL"));
	seal_check_whole(&w);
}

/* Each call of such a one fails: the bytes can be read, whatever was refused. */
static void one_way_undone(void)
{
	int fd, r, wrong = 0;
	bool failed = true;
	unsigned int n;

	lifecycle_is_lenient = true; /* no kernel refuses all that is asked here */
	for (n = 1; failed; n++) {
		AUTO(seal_world) w = seal_begin();
		CHECK_OK_FATAL(hm_buffer_export(w.buffer, HM_EXPORT_READ_ONLY, &fd));
		close(fd);
		inject_arm(n, INJECT_ONE);
		r = hm_buffer_seal(w.buffer, 0);
		failed = inject_disarm();
		wrong += r && !failed;
		CHECK(pattern_holds(hm_map_address(w.map), 0, SIZE, 3));
		CHECK_EQUAL(test_write_signal(hm_map_address(w.map)),
			    buffer_info(w.buffer).access & HM_WRITE ? 0 : SIGSEGV);
		CHECK_OK(hm_buffer_seal(w.buffer, 0));
		seal_check_sealed(&w);
	}
	CHECK(n > 10 && !wrong);
	lifecycle_is_lenient = false;
}

/*
 * A locked range may not be locked again: the seal fails, and its undoing leaves maps that are
 * not locked, with their bytes.
 */
static void not_locked_again(void *user)
{
	const struct rlimit less = { PAGE, PAGE };
	const bool *one_way_memory = user;
	AUTO(seal_world) w = seal_begin();

	CHECK_OK(hm_map_lock(w.map, 0, 4 * PAGE, 0, NULL));
	if (*one_way_memory)
		CHECK_FATAL(!fcntl(w.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	limit_memlock(0);
	CHECK_FATAL(!setrlimit(RLIMIT_MEMLOCK, &less));
	CHECK_ERROR(-ENOMEM, hm_buffer_seal(w.buffer, 0));
	CHECK(!strstr(hm_errmsg(), "lost"));
	CHECK_FATAL(test_read_signal(hm_map_address(w.map)) == 0);
	CHECK(pattern_holds(hm_map_address(w.map), 0, SIZE, 3));
	CHECK_EQUAL(test_write_signal(hm_map_address(w.map)), *one_way_memory ? SIGSEGV : 0);
	CHECK_EQUAL(map_info(w.map, HM_MAP_LOCKED).locked, 0);
	CHECK_OK(hm_map_unlock(w.map, 0, 4 * PAGE));
	CHECK_OK_FATAL(hm_buffer_seal(w.buffer, 0));
	seal_check_sealed(&w);
}

static void locks(void)
{
	CHECK_EQUAL(test_fork(not_locked_again, &(bool){ false }), 0);
	CHECK_EQUAL(test_fork(not_locked_again, &(bool){ true }), 0);
}

/* Another holder of the descriptor has set the seal, and closed sealing. */
static void sealed_by_another(void)
{
	int fd;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = SIZE));

	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_FATAL(!fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL));
	CHECK_OK(hm_buffer_seal(buffer, 0));
	CHECK_EQUAL(buffer_info(buffer).sealed & HM_SEALED_MEMORY, HM_SEALED_MEMORY);
	CHECK_EQUAL(buffer_info(buffer).access, HM_READ);
	close(fd);
}

static const struct test tests[] = {
	{ "one_way", one_way, 0, 0 },
	{ "sealed_off", sealed_off, 0, 0 },
	{ "locks", locks, 0, 0 },
	{ "sealed_by_another", sealed_by_another, 0, 0 },
	{ "one_way_undone", one_way_undone, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "seal_one_way", tests)
