// SPDX-License-Identifier: MIT
/*
 * Test harness: a CUnit test whose body forks. The child runs the function twice and compares the
 * process's resources; it reports through shared memory, so that a crash loses nothing and a
 * grandchild can report, too.
 */
#include "lib/holding.h"
#include "lib/processor_share.h"
#include "lib/stacks.h"

#include <CUnit/TestRun.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <hetmap/base.h>

#define DEFAULT_SECONDS 20
#define TEXT_MAX 400
#define FAILURES_MAX 24
/* A leak grows in every round; a cache that fills late does so only once. */
#define ROUNDS_MAX 5

struct failure {
	char file[64];
	unsigned int line;
	char text[TEXT_MAX];
};

/* Shared between the parent, the child and its children. */
struct report {
	atomic_uint n_failure; /* may exceed FAILURES_MAX: the rest is only counted */
	atomic_bool finished;  /* the test function returned, or was abandoned */
	atomic_bool skipped;
	atomic_uint_least64_t seed; /* 0: the test did not ask for one */
	char skip_class[16];
	char skip_reason[TEXT_MAX];
	struct failure failure[FAILURES_MAX];
};

static struct {
	const char *suite;
	unsigned int flags; /* of all of them, too */
	const struct test *tests;
	const struct test *current;
	struct report *report;
	jmp_buf *abandon; /* where a fatal failure goes */
	unsigned int passed;
	unsigned int failed;
	unsigned int skipped;
	unsigned int scale;
	bool verbose;
} harness = { .scale = 1 };

/* Absent in programs that do not need them, or without instrumentation. */
extern const char *hm_errmsg(void) __attribute__((weak));
extern void err_clear(void) __attribute__((weak));
extern void __gcov_dump(void) __attribute__((weak));
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));

__attribute__((visibility("default"))) void __tsan_on_report(void *found);
void __tsan_on_report(void *found)
{
	(void)found;
	test_fail(__FILE__, __LINE__, "ThreadSanitizer reported, see above");
}

/*
 * reach.c waits for the locks of other buffers' maps only with that buffer's, by
 * pthread_mutex_trylock(), which TSan does not count. Nor does it see that mremap() moves pages
 * that were just read in, or the references of FFmpeg, after the last of which lent_back() comes.
 * discard_private() clears beside copies, which look afterwards whether they have to be made again.
 */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	/* Each is one function: unanchored they match parts of files' and libraries' names, too. */
	return "race:^read_pages$\nrace:^discard_private$\ndeadlock:^show_locked$\nrace:^lent_back$"
	       "\ncalled_from_lib:libavutil.so\ncalled_from_lib:libavcodec.so"
	       "\ncalled_from_lib:libavformat.so\ncalled_from_lib:libswscale.so\n";
}

/* ---- messages of a test ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void report_failure(const char *file, unsigned int line, const char *text)
{
	struct report *report = harness.report;
	unsigned int n = atomic_fetch_add(&report->n_failure, 1);

	if (n >= FAILURES_MAX)
		return;
	snprintf(report->failure[n].file, sizeof(report->failure[n].file), "%s",
		 base_name(file));
	report->failure[n].line = line;
	snprintf(report->failure[n].text, sizeof(report->failure[n].text), "%s", text);
}

void test_fail(const char *file, unsigned int line, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	report_failure(file, line, text);
}

void test_skip(const char *skip_class, const char *format, ...)
{
	struct report *report = harness.report;
	va_list args;

	if (atomic_exchange(&report->skipped, true))
		return;
	snprintf(report->skip_class, sizeof(report->skip_class), "%s", skip_class);
	va_start(args, format);
	vsnprintf(report->skip_reason, sizeof(report->skip_reason), format, args);
	va_end(args);
}

void test_abandon(void)
{
	longjmp(*harness.abandon, 1);
}

const struct test *test_current(void)
{
	return harness.current;
}

/* A text left by an earlier failure is then not taken for this one's. */
void test_forget_text(void)
{
	if (err_clear)
		err_clear();
}

static const char *last_text(void)
{
	return hm_errmsg ? hm_errmsg() : "";
}

bool test_check_ok(int r, const char *what, const char *file, unsigned int line)
{
	if (r == 0)
		return true;
	test_fail(file, line, "%s gave %s: %s", what,
		  r < 0 ? strerrorname_np(-r) : "a positive result", last_text());
	return false;
}

bool test_check_error(int r, int expected, const char *what, const char *file,
		      unsigned int line)
{
	if (r != expected) {
		test_fail(file, line, "%s gave %d (%s), not -%s", what, r,
			  r < 0 ? last_text() : "success", strerrorname_np(-expected));
		return false;
	}
	if (hm_errmsg && !hm_errmsg()[0]) {
		test_fail(file, line, "%s left no text", what);
		return false;
	}
	return true;
}

bool test_check_equal(uint64_t a, uint64_t b, const char *what, const char *file,
		      unsigned int line)
{
	if (a == b)
		return true;
	test_fail(file, line,
		  "not so: %s; %" PRIu64 " and %" PRIu64 " (0x%" PRIx64 " and 0x%" PRIx64 ")",
		  what, a, b, a, b);
	return false;
}

uint64_t test_seed(void)
{
	const char *text = getenv("HETMAP_SEED");
	uint64_t seed = atomic_load(&harness.report->seed);
	struct timespec now;

	if (seed)
		return seed;
	clock_gettime(CLOCK_REALTIME, &now);
	seed = text ? strtoull(text, NULL, 0) :
		      (uint64_t)now.tv_nsec ^ (uint64_t)getpid() << 32;
	seed = seed ? seed : 1;
	atomic_store(&harness.report->seed, seed);
	return seed;
}

unsigned int test_every(unsigned int *ret_first)
{
	const char *text = getenv("HETMAP_EVERY");
	unsigned int every = text ? (unsigned int)strtoul(text, NULL, 10) : 1;

	if (every < 2)
		every = 1;
	*ret_first = every > 1 ? (unsigned int)(test_seed() % every) : 0;
	return every;
}

uint64_t test_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ull; /* splitmix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

/* ---- the child ---- */

/* Reports the failures of CUnit's own assertions, from the one after @done on. */
static void report_cunit(unsigned int done)
{
	CU_pFailureRecord record = CU_get_failure_list();
	unsigned int n = 0;

	for (; record; record = record->pNext)
		if (n++ >= done)
			report_failure(record->strFileName, record->uiLineNumber,
				       record->strCondition);
}

/* Runs @run and comes back also from a fatal assertion, CUnit's or ours. */
static void run_guarded(void (*run)(void *user), void *user)
{
	CU_pTest test = CU_get_current_test();
	jmp_buf *outer_abandon = harness.abandon;
	jmp_buf *outer_jump = test->pJumpBuf;
	unsigned int done = CU_get_number_of_failure_records();
	jmp_buf here;

	harness.abandon = &here;
	test->pJumpBuf = &here;
	if (!setjmp(here))
		run(user);
	harness.abandon = outer_abandon;
	test->pJumpBuf = outer_jump;
	report_cunit(done);
}

static void run_current(void *user)
{
	(void)user;
	harness.current->run();
}

static void run_rounds(void)
{
	struct holding old, now;
	int round;

	run_guarded(run_current, NULL);
	if ((harness.current->flags | harness.flags) & TEST_ONCE)
		return;
	holding_take(&old);
	for (round = 1; round < ROUNDS_MAX; round++) {
		if (atomic_load(&harness.report->n_failure) ||
		    atomic_load(&harness.report->skipped))
			break;
		run_guarded(run_current, NULL);
		holding_take(&now);
		if (!holding_grown(&old, &now)) {
			holding_drop(&now);
			break;
		}
		if (round == ROUNDS_MAX - 1)
			holding_report(&old, &now);
		holding_drop(&old);
		old = now;
	}
	holding_drop(&old);
}

static void leave_child(int status) __attribute__((noreturn));
static void leave_child(int status)
{
	fflush(NULL);
	if (__gcov_dump)
		__gcov_dump();
	_exit(status);
}

static void run_child(void)
{
	struct rlimit no_core = { 0, 0 };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	setrlimit(RLIMIT_CORE, &no_core);
	/* One arena, and mappings that go when they are freed: see holding.c. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	stacks_prepare();
	run_rounds();
	if (__lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
		test_fail(harness.suite, 0, "LeakSanitizer reported, see above");
	atomic_store(&harness.report->finished, true);
	leave_child(0);
}

static int wait_result(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

/* Whether all threads but the caller sleep, of this process. */
static bool others_sleep(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	bool sleep = tasks;

	while (sleep && (entry = readdir(tasks))) {
		char path[280], line[256] = "";
		const char *state;
		FILE *file;

		if (entry->d_name[0] == '.' || atoi(entry->d_name) == gettid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/stat", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue; /* it has ended */
		if (!fgets(line, sizeof(line), file))
			line[0] = '\0';
		fclose(file);
		state = strrchr(line, ')');
		sleep = state && state[1] && state[2] == 'S';
	}
	if (tasks)
		closedir(tasks);
	return sleep;
}

/*
 * A sanitizer of gcc 12 does not care for its own locks across a fork(): one that a thread
 * holds as it starts is held for ever in the child. So threads settle before; those that
 * never do are waited for no longer than it takes to start.
 */
static void settle(void)
{
	int tries = TEST_ASAN || TEST_TSAN ? 100 : 0;

	while (tries-- > 0 && !others_sleep())
		usleep(1000);
}

int test_fork(void (*run)(void *user), void *user)
{
	/* Not SIGILL, by which it is asked for its stack: stacks.c ends it all the same. */
	static const int deadly[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE };
	size_t i;
	pid_t pid;

	fflush(NULL);
	settle();
	pid = fork();
	if (pid < 0) {
		test_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
		return -errno;
	}
	if (pid)
		return wait_result(pid);
	/* A sanitizer's handlers would turn the signal into an exit status. */
	for (i = 0; i < sizeof(deadly) / sizeof(deadly[0]); i++)
		signal(deadly[i], SIG_DFL);
	run_guarded(run, user);
	leave_child(0);
}

static sigjmp_buf probe_jump;

static void on_probe_signal(int signal)
{
	siglongjmp(probe_jump, signal);
}

/* Runs in this process: a fork child may have other maps. */
static int probe(const volatile char *read, volatile char *write)
{
	struct sigaction action = { .sa_handler = on_probe_signal }, old[2];
	int signal;

	sigaction(SIGSEGV, &action, &old[0]);
	sigaction(SIGBUS, &action, &old[1]);
	signal = sigsetjmp(probe_jump, 1);
	if (!signal) {
		if (read)
			(void)*read;
		if (write)
			*write = *write;
	}
	sigaction(SIGSEGV, &old[0], NULL);
	sigaction(SIGBUS, &old[1], NULL);
	return signal;
}

int test_read_signal(const volatile void *address)
{
	return probe(address, NULL);
}

int test_write_signal(volatile void *address)
{
	return probe(NULL, address);
}

/* ---- the parent ---- */

/* Times its limit, at most, that a test has beside other work. */
#define LIMITS_MAX 4

/*
 * Waits for the child until the time is up; true when it had to be killed. A second in which other
 * work wants the processors, too, counts only by the share left for the test.
 */
static bool wait_child(pid_t pid, unsigned int seconds, int *ret_status)
{
	const struct timespec moment = { .tv_sec = 1 };
	double begin = test_now(), last = begin, now, had = 0;
	bool killed = false;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	while (waitpid(pid, ret_status, WNOHANG) != pid) {
		now = test_now();
		had += (now - last) * processor_share();
		last = now;
		if (had >= seconds || now - begin >= LIMITS_MAX * (double)seconds) {
			stacks_print(pid);
			kill(pid, SIGKILL);
			waitpid(pid, ret_status, 0);
			killed = true;
			break;
		}
		sigtimedwait(&set, NULL, &moment); /* SIGCHLD is blocked, so none is missed */
	}
	kill(-pid, SIGKILL); /* children that it left behind */
	return killed;
}

static bool skip_is_failure(const char *skip_class)
{
	const char *list = getenv("HETMAP_FAIL_ON_SKIP");
	size_t length = strlen(skip_class);
	const char *at;

	if (!list || !list[0] || !strcmp(list, "0"))
		return false;
	if (!strcmp(list, "1"))
		return strcmp(skip_class, "sanitizer") != 0;
	for (at = list; *at; at += strspn(at, ",")) {
		if (strcspn(at, ",") == length && !strncmp(at, skip_class, length))
			return true;
		at += strcspn(at, ",");
	}
	return false;
}

static void report_end(int status, bool killed, unsigned int seconds)
{
	if (killed)
		test_fail(harness.suite, 0, "timed out after %u s", seconds);
	else if (WIFSIGNALED(status))
		test_fail(harness.suite, 0, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
	else if (!atomic_load(&harness.report->finished))
		test_fail(harness.suite, 0, "exited by itself, status %d", WEXITSTATUS(status));
}

static void print_failures(void)
{
	struct report *report = harness.report;
	unsigned int n = atomic_load(&report->n_failure);
	unsigned int i;

	for (i = 0; i < n && i < FAILURES_MAX; i++) {
		struct failure *failure = &report->failure[i];

		CU_assertImplementation(CU_FALSE, failure->line, failure->text, failure->file,
					harness.current->name, CU_FALSE);
		printf("%s %s.%s: ", i ? "   " : "FAIL", harness.suite, harness.current->name);
		if (failure->line)
			printf("%s:%u: ", failure->file, failure->line);
		printf("%s\n", failure->text);
	}
	if (n > FAILURES_MAX)
		printf("    %s.%s: and %u more\n", harness.suite, harness.current->name,
		       n - FAILURES_MAX);
	if (report->seed)
		printf("    %s.%s: HETMAP_SEED=0x%" PRIxLEAST64 "\n", harness.suite,
		       harness.current->name, atomic_load(&report->seed));
}

static void conclude(double seconds)
{
	struct report *report = harness.report;

	if (report->skipped && !report->n_failure && skip_is_failure(report->skip_class))
		test_fail(harness.suite, 0, "skip[%s] is not allowed here: %s",
			  report->skip_class, report->skip_reason);
	if (report->n_failure) {
		harness.failed++;
		print_failures();
	} else if (report->skipped) {
		harness.skipped++;
		printf("skip[%s] %s.%s: %s\n", report->skip_class, harness.suite,
		       harness.current->name, report->skip_reason);
	} else {
		harness.passed++;
		printf("pass %s.%s", harness.suite, harness.current->name);
		if (harness.verbose)
			printf("  (%.3f s)", seconds);
		putchar('\n');
	}
	fflush(stdout);
}

double test_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* The body of every CUnit test. */
static void run_one(void)
{
	const char *name = CU_get_current_test()->pName;
	unsigned int seconds;
	double begin = test_now();
	bool killed;
	pid_t pid;
	int status;

	for (harness.current = harness.tests; strcmp(harness.current->name, name) != 0;)
		harness.current++;
	seconds = harness.current->seconds ? harness.current->seconds : DEFAULT_SECONDS;
	seconds *= harness.scale;
	memset(harness.report, 0, sizeof(*harness.report));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		run_child();
	if (pid < 0) {
		test_fail(__FILE__, __LINE__, "fork: %s", strerror(errno));
	} else {
		killed = wait_child(pid, seconds, &status);
		report_end(status, killed, seconds);
	}
	conclude(test_now() - begin);
}

/*
 * HETMAP_LEAVE_OUT: patterns between blanks, of tests that have their place elsewhere; one of a
 * suite's alone begins with its name and a slash: lifecycle/file*.
 */
static bool is_left_out(const char *name)
{
	const char *text = getenv("HETMAP_LEAVE_OUT");
	char *patterns = strdup(text ? text : ""), *rest = patterns, *pattern;
	size_t length = strlen(harness.suite);
	bool left_out = false;

	while (!left_out && (pattern = strtok_r(rest, " ", &rest))) {
		if (!strncmp(pattern, harness.suite, length) && pattern[length] == '/')
			pattern += length + 1;
		left_out = !fnmatch(pattern, name, 0);
	}
	free(patterns);
	return left_out;
}

static bool is_selected(const char *name, char **patterns, int n)
{
	int i;

	if (is_left_out(name))
		return false;
	for (i = 0; i < n; i++)
		if (!fnmatch(patterns[i], name, 0))
			return true;
	return n == 0;
}

static int run_selected(char **patterns, int n)
{
	const struct test *test;
	CU_pSuite suite;

	if (CU_initialize_registry() != CUE_SUCCESS)
		return 1;
	suite = CU_add_suite(harness.suite, NULL, NULL);
	for (test = harness.tests; suite && test->name; test++)
		if (is_selected(test->name, patterns, n) &&
		    !CU_add_test(suite, test->name, run_one))
			suite = NULL;
	if (!suite)
		fprintf(stderr, "%s: %s\n", harness.suite, CU_get_error_msg());
	else if (n && !suite->uiNumberOfTests && !getenv("HETMAP_LEAVE_OUT"))
		harness.failed =
			printf("FAIL %s.%s: no such name\n", harness.suite, patterns[0]) > 0;
	else
		CU_run_all_tests();
	CU_cleanup_registry();
	printf("%u passed, %u failed, %u skipped\n", harness.passed, harness.failed,
	       harness.skipped);
	return suite && !harness.failed ? 0 : 1;
}

bool test_is_slow(void)
{
	return harness.scale > 1;
}

static unsigned int time_scale(void)
{
	const char *text = getenv("HETMAP_TIME_SCALE");
	unsigned int scale = text ? (unsigned int)strtoul(text, NULL, 10) : 1;

	scale = scale ? scale : 1;
	return TEST_ASAN || TEST_TSAN ? scale * 5 : scale;
}

int harness_main(int argc, char **argv, const char *suite, const struct test *tests)
{
	sigset_t set;
	int i;

	harness.suite = suite;
	harness.tests = tests;
	harness.scale = time_scale();
	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "-v")) {
			harness.verbose = true;
		} else if (!strcmp(argv[i], "--list")) {
			for (; tests->name; tests++)
				puts(tests->name);
			return 0;
		} else {
			fprintf(stderr, "usage: %s [-v] [--list] [PATTERN...]\n", argv[0]);
			return 2;
		}
	}
	harness.report = mmap(NULL, sizeof(*harness.report), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (harness.report == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return run_selected(argv + i, argc - i);
}

int harness_main_once(int argc, char **argv, const char *suite, const struct test *tests)
{
	harness.flags = TEST_ONCE;
	return harness_main(argc, argv, suite, tests);
}
