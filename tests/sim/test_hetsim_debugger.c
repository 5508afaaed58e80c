// SPDX-License-Identifier: MIT
/*
 * hetsim: a debugger's ways into maps, ptrace(2) and /proc/PID/mem, which are none around
 * rights, and fail where the process itself would get a signal.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "sim/sim_tests.h"

/* A process that is traced, and stopped: it has its parent's maps. */
struct tracee {
	pid_t pid;
	int mem;
};

/* Its exit status, once it goes on, is a byte of its map. */
static struct tracee tracee_start(const volatile unsigned char *byte)
{
	struct tracee tracee;
	char path[64];
	int status = 0;

	tracee.pid = fork();
	CHECK_FATAL(tracee.pid >= 0);
	if (tracee.pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(*byte);
	}
	CHECK_FATAL(waitpid(tracee.pid, &status, 0) == tracee.pid);
	CHECK_FATAL(WIFSTOPPED(status));
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)tracee.pid);
	tracee.mem = open(path, O_RDWR | O_CLOEXEC);
	CHECK_FATAL(tracee.mem >= 0);
	return tracee;
}

/* Goes on; the byte that it found. */
static int tracee_end(struct tracee *tracee)
{
	int status = 0;

	close(tracee->mem);
	CHECK_EQUAL(ptrace(PTRACE_CONT, tracee->pid, NULL, NULL), 0);
	CHECK_EQUAL(waitpid(tracee->pid, &status, 0), tracee->pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void tracee_kill(struct tracee *tracee)
{
	close(tracee->mem);
	CHECK_EQUAL(kill(tracee->pid, SIGKILL), 0);
	CHECK_EQUAL(waitpid(tracee->pid, NULL, 0), tracee->pid);
}

/* A word of it; 0 or a negative errno. */
static int peek(const struct tracee *tracee, const unsigned char *at, long *ret_word)
{
	errno = 0;
	*ret_word = ptrace(PTRACE_PEEKDATA, tracee->pid, at, NULL);
	return -errno;
}

static int poke(const struct tracee *tracee, unsigned char *at, long word)
{
	return ptrace(PTRACE_POKEDATA, tracee->pid, at, word) ? -errno : 0;
}

/* So many bytes by /proc/PID/mem, all of which are @value; or a negative errno. */
static ssize_t read_mem(const struct tracee *tracee, const unsigned char *at, size_t length,
			unsigned char value)
{
	static unsigned char bytes[4 * PAGE];
	ssize_t n = pread(tracee->mem, bytes, length, (off_t)(uintptr_t)at), i;

	for (i = 0; i < n; i++)
		if (bytes[i] != value)
			return i;
	return n < 0 ? -errno : n;
}

static ssize_t write_mem(const struct tracee *tracee, unsigned char *at, size_t length,
			 unsigned char value)
{
	static unsigned char bytes[4 * PAGE];
	ssize_t n;

	memset(bytes, value, length);
	n = pwrite(tracee->mem, bytes, length, (off_t)(uintptr_t)at);
	return n < 0 ? -errno : n;
}

/*
 * From @end on the process would get a signal, and the page before it, which is @value
 * throughout, is reached.
 */
static void check_ends(const struct tracee *tracee, unsigned char *end, unsigned char value)
{
	long word = 0, all;

	memset(&all, value, sizeof(all));
	CHECK_EQUAL(peek(tracee, end - 8, &word), 0);
	CHECK_EQUAL(word, all);
	CHECK_EQUAL(poke(tracee, end - 8, all), 0);
	CHECK_EQUAL(peek(tracee, end - 4, &word), -EIO);
	CHECK_EQUAL(peek(tracee, end, &word), -EIO);
	CHECK_EQUAL(poke(tracee, end, 0), -EIO);
	CHECK_EQUAL(peek(tracee, end + PAGE - 8, &word), -EIO);
	CHECK_EQUAL(read_mem(tracee, end - PAGE, 2 * PAGE, value), PAGE);
	CHECK_EQUAL(read_mem(tracee, end - 100, 200, value), 100);
	CHECK_EQUAL(read_mem(tracee, end, 1, value), -EIO);
	CHECK_EQUAL(write_mem(tracee, end - 100, 200, value), 100);
	CHECK_EQUAL(write_mem(tracee, end, 1, value), -EIO);
}

static void test_proc_mem(void)
{
	unsigned char bytes[6000], *readable;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int mem;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	memset(buffer.bytes, 0x33, 16384);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	CHECK_FATAL(mem >= 0);
	CHECK_EQUAL(pread(mem, bytes, sizeof(bytes), (off_t)(uintptr_t)(buffer.bytes + 100)),
		    sizeof(bytes));
	CHECK(bytes[0] == 0x33 && bytes[5999] == 0x33);
	memset(bytes, 0x44, sizeof(bytes));
	CHECK_EQUAL(pwrite(mem, bytes, sizeof(bytes), (off_t)(uintptr_t)(buffer.bytes + 100)),
		    sizeof(bytes));
	CHECK(buffer.bytes[100] == 0x44 && buffer.bytes[6099] == 0x44);
	CHECK_EQUAL(buffer.bytes[6100], 0x33);

	readable = mmap(NULL, MIB(1), PROT_READ, MAP_SHARED, fd, (off_t)buffer.offset);
	CHECK_FATAL(readable != MAP_FAILED);
	CHECK(pwrite(mem, bytes, 1, (off_t)(uintptr_t)readable) == -1);
	CHECK_EQUAL(readable[0], 0x33);
	CHECK_EQUAL(munmap(readable, MIB(1)), 0);
	close(mem);
}

static void test_traced(void)
{
	const long mark = 0x0123456789abcdef;
	struct tracee tracee;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	long word = 0;
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	unsigned char *readable =
		mmap(NULL, MIB(1), PROT_READ, MAP_SHARED, fd, (off_t)buffer.offset);

	CHECK_FATAL(readable != MAP_FAILED);
	tracee = tracee_start(buffer.bytes);
	/* Neither its map nor this one was touched before; across pages, too. */
	CHECK_EQUAL(poke(&tracee, buffer.bytes + PAGE - 3, mark), 0);
	CHECK(!memcmp(buffer.bytes + PAGE - 3, &mark, sizeof(mark)));
	CHECK_EQUAL(peek(&tracee, readable + PAGE - 3, &word), 0);
	CHECK_EQUAL(word, mark);
	CHECK_EQUAL(poke(&tracee, readable, mark), -EIO);
	CHECK_EQUAL(buffer.bytes[0], 0);
	buffer.bytes[0] = 5;
	CHECK_EQUAL(read_mem(&tracee, readable, 1, 5), 1);
	CHECK_EQUAL(write_mem(&tracee, buffer.bytes, 1, 6), 1);
	CHECK_EQUAL(tracee_end(&tracee), 6);
	CHECK_EQUAL(buffer.bytes[0], 6);
	CHECK_EQUAL(munmap(readable, MIB(1)), 0);
}

/* Maps reach to the capacity; the buffer, which changes its length meanwhile, does not. */
static void test_length(void)
{
	struct hetsim_buffer buffer = { 0 };
	struct tracee tracee;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	CHECK_FATAL(!hetsim_buffer_create(fd, MIB(1), HETSIM_PLACE_SYSTEM, MIB(2), &buffer));
	CHECK_FATAL(
		!hetsim_mmap(fd, MIB(2), PROT_READ | PROT_WRITE, buffer.offset, &buffer.bytes));
	memset(buffer.bytes, 0x33, MIB(1));
	tracee = tracee_start(buffer.bytes);
	check_ends(&tracee, buffer.bytes + MIB(1), 0x33);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(1) / 2), 0);
	check_ends(&tracee, buffer.bytes + MIB(1) / 2, 0x33);
	CHECK_EQUAL(hetsim_buffer_resize(fd, buffer.handle, MIB(2)), 0);
	CHECK_EQUAL(read_mem(&tracee, buffer.bytes + MIB(1) / 2, PAGE, 0), PAGE);
	CHECK_EQUAL(write_mem(&tracee, buffer.bytes + MIB(2) - PAGE, PAGE, 7), PAGE);
	CHECK_EQUAL(buffer.bytes[MIB(2) - 1], 7);
	tracee_kill(&tracee);
	buffer.length = MIB(2);
	hetsim_buffer_drop(fd, &buffer);
}

/* A page that answers CPUs with a signal on request, and answers them again later. */
static void hurt(int fd, uint32_t kind)
{
	struct hetsim_buffer buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	struct tracee tracee;

	memset(buffer.bytes, 0x33, 8 * PAGE);
	tracee = tracee_start(buffer.bytes);
	CHECK_EQUAL(hetsim_inject(fd, kind, buffer.handle, 3 * PAGE), 0);
	check_ends(&tracee, buffer.bytes + 3 * PAGE, 0x33);
	CHECK_EQUAL(read_mem(&tracee, buffer.bytes + 4 * PAGE, PAGE, 0x33), PAGE);
	CHECK_EQUAL(hetsim_inject(fd, kind, buffer.handle, UINT64_MAX), 0);
	CHECK_EQUAL(read_mem(&tracee, buffer.bytes + 2 * PAGE, 3 * PAGE, 0x33), 3 * PAGE);
	CHECK_EQUAL(tracee_end(&tracee), 0x33);
	hetsim_buffer_drop(fd, &buffer);
}

static void test_hurt(void)
{
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);

	hurt(fd, HETSIM_INJECT_SIGBUS);
	hurt(fd, HETSIM_INJECT_POISON);
}

/* No CPU reaches VRAM outside of the window. */
static void test_window(void)
{
	struct tracee tracee;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	AUTO(hetsim_buffer) buffer = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);

	memset(buffer.bytes, 0x33, MIB(1));
	tracee = tracee_start(buffer.bytes);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, MIB(1) / 2, MIB(1) / 2,
				       HETSIM_PLACE_VRAM),
		    0);
	check_ends(&tracee, buffer.bytes + MIB(1) / 2, 0x33);
	CHECK_EQUAL(hetsim_buffer_move(fd, buffer.handle, MIB(1) / 2, MIB(1) / 2,
				       HETSIM_PLACE_WINDOW),
		    0);
	CHECK_EQUAL(read_mem(&tracee, buffer.bytes + MIB(1) / 2, PAGE, 0x33), PAGE);
	CHECK_EQUAL(tracee_end(&tracee), 0x33);
}

/* As the handshake of each asked: nothing, or zeros that are the map's own. */
static void test_unplugged(void)
{
	struct hetsim_buffer zeros, gone;
	struct tracee tracee;
	int fd = hetsim_open_zero(), other;
	long word = 1;

	if (fd < 0)
		return;
	other = hetsim_open(O_RDWR);
	zeros = hetsim_buffer_make(fd, MIB(1), HETSIM_PLACE_VRAM);
	gone = hetsim_buffer_make(other, MIB(1), HETSIM_PLACE_VRAM);
	memset(zeros.bytes, 0x33, MIB(1));
	memset(gone.bytes, 0x33, MIB(1));
	tracee = tracee_start(zeros.bytes);
	CHECK_EQUAL(read_mem(&tracee, zeros.bytes, PAGE, 0x33), PAGE);
	CHECK_EQUAL(read_mem(&tracee, gone.bytes, PAGE, 0x33), PAGE);
	CHECK_EQUAL(hetsim_inject(fd, HETSIM_INJECT_UNPLUG, 0, 0), 0);

	CHECK_EQUAL(peek(&tracee, gone.bytes, &word), -EIO);
	CHECK_EQUAL(poke(&tracee, gone.bytes, 0), -EIO);
	CHECK_EQUAL(read_mem(&tracee, gone.bytes + PAGE, 1, 0), -EIO);
	CHECK_EQUAL(write_mem(&tracee, gone.bytes + PAGE, 1, 0), -EIO);

	CHECK_EQUAL(peek(&tracee, zeros.bytes, &word), 0);
	CHECK_EQUAL(word, 0);
	CHECK_EQUAL(read_mem(&tracee, zeros.bytes + PAGE, 3 * PAGE, 0), 3 * PAGE);
	CHECK_EQUAL(write_mem(&tracee, zeros.bytes + 2 * PAGE - 100, 200, 7), 200);
	CHECK_EQUAL(read_mem(&tracee, zeros.bytes + 2 * PAGE - 100, 200, 7), 200);
	CHECK_EQUAL(read_mem(&tracee, zeros.bytes + 2 * PAGE + 100, 100, 0), 100);
	CHECK_EQUAL(zeros.bytes[2 * PAGE], 0);
	CHECK_EQUAL(write_mem(&tracee, zeros.bytes, 1, 9), 1);
	hetsim_plug();
	CHECK_EQUAL(tracee_end(&tracee), 9);
	CHECK_EQUAL(zeros.bytes[0], 0);
	hetsim_munmap(zeros.bytes, zeros.length);
	hetsim_munmap(gone.bytes, gone.length);
	close(other);
	close(fd);
}

static const struct test tests[] = {
	{ "proc_mem", test_proc_mem, 0, 0 },
	{ "traced", test_traced, 0, 0 },
	{ "length", test_length, 0, 0 },
	{ "hurt", test_hurt, 0, 0 },
	{ "window", test_window, 0, SIM_WINDOWED },
	{ "unplugged", test_unplugged, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(hetsim_main, "hetsim_debugger", tests, NULL)
