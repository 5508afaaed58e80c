// SPDX-License-Identifier: MIT
/* hetsim: the memory that one opener leaves to others. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/control_group.h"
#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/* In a group that is let have little at a time: a page in VRAM becomes a quarter of it. */
static void grow_slowly(bool *grown)
{
	struct hetsim_buffer buffer = { 0 };
	int fd;

	control_group_enter();
	fd = hetsim_open(O_RDWR);
	if (!hetsim_buffer_create(fd, PAGE, HETSIM_PLACE_VRAM, 0, &buffer) &&
	    !hetsim_buffer_resize(fd, buffer.handle, hetsim_query(fd).vram_bytes / 4))
		__atomic_store_n(grown, true, __ATOMIC_RELEASE);
	pause();
}

/* A buffer that changes slowly does not hold up a caller that finds room elsewhere. */
static void test_slow_change(void)
{
	struct hetsim_buffer idle = { 0 }, buffer = { 0 };
	int fd = hetsim_begin(O_RDWR);
	int status;
	pid_t child;
	bool *grown;
	uint64_t vram = hetsim_query(fd).vram_bytes;

	if (vram > MIB(256) || !control_group_make(vram)) {
		close(fd); /* tests/vm/variants has small ones */
		return;
	}
	control_group_throttle(MIB(2));
	grown = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(grown != MAP_FAILED);
	child = fork();
	CHECK_FATAL(child >= 0);
	if (child == 0) {
		grow_slowly(grown);
		_exit(1);
	}
	/* The new pages are counted first. */
	while (hetsim_query(fd).vram_used < vram / 4)
		usleep(1000);
	CHECK_EQUAL(hetsim_buffer_create(fd, vram / 2, HETSIM_PLACE_VRAM, 0, &idle), 0);
	CHECK_EQUAL(hetsim_buffer_create(fd, vram / 2, HETSIM_PLACE_VRAM, 0, &buffer), 0);
	CHECK(!__atomic_load_n(grown, __ATOMIC_ACQUIRE));
	CHECK_EQUAL(hetsim_buffer_info(fd, idle.handle).system_bytes, vram / 4);

	CHECK_EQUAL(kill(child, SIGKILL), 0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK(WIFSIGNALED(status));
	CHECK_EQUAL(hetsim_query(fd).vram_used, vram / 4 * 3);
	control_group_remove();
	CHECK_EQUAL(munmap(grown, PAGE), 0);
	close(fd);
}

static const struct test tests[] = {
	{ "slow_change", test_slow_change, 120, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_neighbours", sim_neighbours_tests, tests)
