// SPDX-License-Identifier: MIT
/* Builds of several processes and threads run one at a time, also when the builder is killed. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "base/sys.h"

#define BUILDERS 6

/* ---- folders ---- */

static char top[] = "/tmp/hetmap-build-XXXXXX"; /* the folder of this test */

/* Empties the caches of the library and of PoCL. */
static void cold_caches(void)
{
	char path[64];

	strcpy(top + strlen(top) - 6, "XXXXXX");
	CHECK_FATAL(mkdtemp(top));
	setenv("XDG_CACHE_HOME", top, 1);
	snprintf(path, sizeof(path), "%s/hetmap", top);
	CHECK_FATAL(!mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/pocl", top);
	CHECK_FATAL(!mkdir(path, 0700));
	setenv("POCL_CACHE_DIR", path, 1);
}

static void remove_caches(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", top);
	CHECK_EQUAL(system(command), 0);
}

static size_t stored(void)
{
	char pattern[64];
	glob_t found;
	size_t n;

	snprintf(pattern, sizeof(pattern), "%s/hetmap/*.clbin", top);
	CHECK_FATAL(glob(pattern, 0, NULL, &found) != GLOB_ABORTED);
	n = found.gl_pathc;
	globfree(&found);
	return n;
}

/* ---- a build on the stub driver ---- */

static void build_in(struct hm_accel *accel)
{
	AUTO(hm_kernel) *kernel = rig_kernel(DESC(hm_kernel_desc, .name = "empty",
						  .opencl = "__kernel void empty(void) { }"));

	CHECK_OK(hm_kernel_build(kernel, accel));
}

static void build(void)
{
	AUTO(hm_accel) *accel = rig_accel("opencl:0", NULL);

	build_in(accel);
}

/* Number of sources that this process has compiled. */
static unsigned int compiled(void)
{
	unsigned int (*calls)(const char *function) =
		(unsigned int (*)(const char *))stub_symbol("stub_calls");

	return calls("clCreateProgramWithSource");
}

/* ---- the holder of the lock ---- */

static pid_t holder;

/* Starts a process that holds the lock in @folder until it is killed. */
static void hold(const char *folder)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[64], byte;
	int line[2], fd;

	snprintf(path, sizeof(path), "%s/%s/hetmap.lock", top, folder);
	CHECK_FATAL(!pipe2(line, O_CLOEXEC));
	holder = fork();
	CHECK_FATAL(holder >= 0);
	if (!holder) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0 || fcntl(fd, F_SETLK, &lock) || write(line[1], "h", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(line[1]);
	CHECK_FATAL(read(line[0], &byte, 1) == 1);
	close(line[0]);
}

static void kill_holder(void)
{
	CHECK_EQUAL(kill(holder, SIGKILL), 0);
	CHECK_EQUAL(waitpid(holder, NULL, 0), holder);
}

/* ---- the library's naps ---- */

static struct sys_table real;
static _Atomic unsigned int naps;
static bool holder_dies; /* in the first nap */

static int nap(struct pollfd *files, nfds_t n_files, int timeout_ms)
{
	if (files)
		return real.poll(files, n_files, timeout_ms);
	if (!naps++ && holder_dies)
		kill_holder();
	return 0;
}

static void count_naps(bool dies)
{
	naps = 0;
	holder_dies = dies;
	real = sys_table;
	sys_table.poll = nap;
}

/* ---- tests ---- */

static void wait_for_the_holder(const char *modes, const char *folder)
{
	cold_caches();
	hold(folder);
	use_stub(modes);
	count_naps(true);
	build();
	sys_table = real;
	CHECK_EQUAL(naps, 1);
	CHECK_EQUAL(stored(), 1);
	remove_caches();
}

static void test_holder_dies(void)
{
	wait_for_the_holder("", "hetmap");
}

/* The lock protects PoCL's cache, and is in it. */
static void test_lock_of_pocl(void)
{
	wait_for_the_holder("pocl", "pocl");
}

/* A process is stopped in a build: other builds go on without the lock, and store nothing. */
static void test_holder_stays(void)
{
	cold_caches();
	hold("hetmap");
	use_stub("");
	count_naps(false);
	build();
	CHECK_EQUAL(naps, 3000);
	CHECK_EQUAL(stored(), 0);
	/* One wait is enough. */
	build();
	CHECK_EQUAL(naps, 3000);
	CHECK_EQUAL(stored(), 0);
	kill_holder();
	build();
	CHECK_EQUAL(naps, 3000);
	CHECK_EQUAL(stored(), 1);
	sys_table = real;
	remove_caches();
}

/* A build succeeds where no lock can be made. */
static void test_no_lock(void)
{
	char path[64];

	cold_caches();
	snprintf(path, sizeof(path), "%s/hetmap/hetmap.lock", top);
	CHECK_FATAL(!mkdir(path, 0700));
	use_stub("");
	build();
	CHECK_EQUAL(stored(), 0);
	remove_caches();
}

/* Runs @child in processes that begin together. Returns the sum of their exit statuses. */
static int run_together(int (*child)(void))
{
	int start[2], status, sum = 0, i;
	pid_t pid[BUILDERS];
	char byte;

	CHECK_FATAL(!pipe2(start, O_CLOEXEC));
	for (i = 0; i < BUILDERS; i++) {
		pid[i] = fork();
		CHECK_FATAL(pid[i] >= 0);
		if (!pid[i]) {
			close(start[1]);
			/* End of file starts the child. */
			_exit(read(start[0], &byte, 1) ? 100 : child());
		}
	}
	close(start[0]);
	close(start[1]);
	for (i = 0; i < BUILDERS; i++) {
		CHECK_EQUAL(waitpid(pid[i], &status, 0), pid[i]);
		if (!WIFEXITED(status))
			test_fail(__FILE__, __LINE__, "process %d: signal %d", i,
				  WTERMSIG(status));
		sum += WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	}
	return sum;
}

static int build_and_count(void)
{
	build();
	return (int)compiled();
}

/* One process compiles, and all other ones find its stored binary. */
static void test_processes(void)
{
	cold_caches();
	use_stub("slow-build");
	CHECK_EQUAL(run_together(build_and_count), 1);
	CHECK_EQUAL(stored(), 1);
	remove_caches();
}

static void *build_on_thread(void *accel)
{
	build_in(accel);
	return NULL;
}

static void test_threads(void)
{
	struct hm_accel *accel;
	pthread_t thread[BUILDERS];
	unsigned int before;
	int i;

	cold_caches();
	use_stub("slow-build");
	CHECK_OK_FATAL(hm_accel_open("opencl:0", NULL, &accel));
	before = compiled();
	for (i = 0; i < BUILDERS; i++)
		CHECK_FATAL(!pthread_create(&thread[i], NULL, build_on_thread, accel));
	for (i = 0; i < BUILDERS; i++)
		CHECK_EQUAL(pthread_join(thread[i], NULL), 0);
	CHECK_EQUAL(compiled(), before + 1);
	hm_accel_unref(accel);
	remove_caches();
}

static int end_of_child[2];
static pid_t child;

/* Forks in the middle of a build: the child inherits the state of the build. */
static int fork_and_rename(const char *from, const char *to)
{
	char byte;

	child = fork();
	if (!child) {
		close(end_of_child[1]);
		_exit((int)read(end_of_child[0], &byte, 1));
	}
	return real.rename(from, to);
}

/* A child of fork() keeps no lock, not even of a parent that is in a build. */
static void test_fork_in_a_build(void)
{
	char command[64];
	int status;

	cold_caches();
	CHECK_FATAL(!pipe2(end_of_child, O_CLOEXEC));
	use_stub("");
	count_naps(false);
	sys_table.rename = fork_and_rename;
	build();
	CHECK_FATAL(child > 0);
	sys_table.rename = real.rename;
	snprintf(command, sizeof(command), "rm %s/hetmap/*.clbin", top);
	CHECK_EQUAL(system(command), 0);
	build();
	CHECK_EQUAL(naps, 0);
	CHECK_EQUAL(stored(), 1);
	sys_table = real;
	close(end_of_child[1]);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	CHECK_EQUAL(status, 0);
	close(end_of_child[0]);
	remove_caches();
}

/* In the middle of a build: the file is opened and closed, as another copy of the library does. */
static int close_and_rename(const char *from, const char *to)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/hetmap/hetmap.lock", top);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	close(fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(fd >= 0);
	CHECK_EQUAL(fcntl(fd, F_OFD_GETLK, &lock), 0);
	CHECK_EQUAL(lock.l_type, F_WRLCK);
	close(fd);
	return real.rename(from, to);
}

/* Another copy of the library in this process neither shares the lock nor ends it. */
static void test_two_copies(void)
{
	cold_caches();
	use_stub("");
	count_naps(false);
	sys_table.rename = close_and_rename;
	build();
	sys_table = real;
	CHECK_EQUAL(stored(), 1);
	remove_caches();
}

/* ---- on PoCL ---- */

static void look_for_pocl(void *user)
{
	struct hm_accel_info infos[8];
	uint32_t n, i;

	(void)user;
	infos[0].struct_size = sizeof(infos[0]);
	CHECK_OK_FATAL(hm_accel_list(infos, 8, &n));
	for (i = 0; i < n && i < 8; i++)
		if (!strcmp(infos[i].driver, "Portable Computing Language"))
			exit(0);
	exit(77);
}

static int launch_on_pocl(void)
{
	struct accel_rig rig = accel_rig_make("opencl:0", 0, 0);
	uint32_t *p = alloc_bytes(&rig, 4096);

	RUN(&rig, FILL, 16, HM_OUT(p), HM_U32(6));
	RUN(&rig, INCREMENT, 16, HM_INOUT(p));
	return p[15] == 7 ? 0 : 101;
}

/* Without the lock PoCL aborts some processes now and then, and later ones by their binaries. */
static void test_pocl(void)
{
	if (TEST_ASAN || TEST_TSAN) {
		test_skip("sanitizer", "PoCL is not built for sanitizers");
		return;
	}
	cold_caches();
	setenv("POCL_DEVICES", "basic", 1);
	if (test_fork(look_for_pocl, NULL)) {
		test_skip("opencl", "PoCL has no device here");
		remove_caches();
		return;
	}
	CHECK_EQUAL(run_together(launch_on_pocl), 0);
	/* Both kernels and the kernel of the self-test, each once. */
	CHECK_EQUAL(stored(), 3);
	CHECK_EQUAL(run_together(launch_on_pocl), 0);
	remove_caches();
}

static const struct test tests[] = {
	{ "holder_dies", test_holder_dies, 20, 0 },
	{ "lock_of_pocl", test_lock_of_pocl, 20, 0 },
	{ "holder_stays", test_holder_stays, 20, 0 },
	{ "no_lock", test_no_lock, 20, 0 },
	{ "processes", test_processes, 60, 0 },
	{ "threads", test_threads, 60, 0 },
	{ "fork_in_a_build", test_fork_in_a_build, 20, 0 },
	{ "two_copies", test_two_copies, 20, 0 },
	{ "pocl", test_pocl, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "build_lock", tests)
