// SPDX-License-Identifier: MIT
/*
 * hammer_hetsim [--device PATH|soft:N] [--with PATH] [--seed N] [--seconds N]
 *               [--processes N] [--threads N] [--unplug]
 *
 * Makes random and half-right calls of the simulated device from threads of several processes,
 * which it kills in whatever state they are, and prints how many of which call ended how. With two
 * devices each takes in the other's exports. Fails when a process does not die, one dies by itself,
 * objects of the device are left, it is away at the end, or an ioctl never succeeded in many tries,
 * which shows a run that did nothing. The kernel's log is left to the caller.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "hammer.h"

#define PROCESSES_MAX 16
#define THREADS_MAX 16
#define DEATH_SECONDS 120 /* in a slow machine, with work that has to time out */
#define GUARD (1ull << 20)
#define CALLS_BETWEEN 2000 /* one time that the device is taken away, and the next */

struct hammer_shared *hammer;
__thread struct hammer_thread *hammer_me;

static struct hammer_options options = {
	.device = "/dev/hetsim0",
	.seconds = 10,
	.processes = 3,
	.threads = 3,
};

static pid_t workers[PROCESSES_MAX];
static uint64_t n_workers; /* ever: each has a sequence of its own */
static unsigned int failures;
static pthread_barrier_t all_there;

/* ---- shared by all parts ---- */

/* splitmix64 */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

uint64_t hammer_random(uint64_t n)
{
	return next(&hammer_me->random) % n;
}

bool hammer_chance(unsigned int one_in)
{
	return hammer_random(one_in) == 0;
}

uint64_t hammer_odd(void)
{
	switch (hammer_random(6)) {
	case 0:
		return hammer_random(20);
	case 1:
		return (1ull << hammer_random(64)) - hammer_random(3);
	case 2:
		return UINT64_MAX - hammer_random(2) * (HAMMER_PAGE - 1);
	case 3:
		return (1ull << hammer_random(64)) & ~(HAMMER_PAGE - 1);
	case 4:
		return hammer_random(1ull << 20) * HAMMER_PAGE;
	default:
		return next(&hammer_me->random);
	}
}

long hammer_result(long r)
{
	return r == -1 ? -errno : r;
}

void hammer_count(unsigned int kind, long r)
{
	long answer = r < 0 ? -r : 0;

	if (answer >= HAMMER_SIGNAL)
		answer = EINVAL;
	atomic_fetch_add_explicit(&hammer->answers[kind][answer], 1, memory_order_relaxed);
}

uint64_t hammer_counted(unsigned int kind)
{
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < HAMMER_ANSWERS; i++)
		n += atomic_load(&hammer->answers[kind][i]);
	return n;
}

void hammer_count_signal(unsigned int kind)
{
	atomic_fetch_add_explicit(&hammer->answers[kind][HAMMER_SIGNAL + hammer_me->signal], 1,
				  memory_order_relaxed);
}

void hammer_arm(void)
{
	hammer_me->armed = 1;
}

void hammer_disarm(void)
{
	hammer_me->armed = 0;
}

static void on_signal(int signal)
{
	struct hammer_thread *me = hammer_me;

	if (me && me->armed) {
		me->armed = 0;
		me->signal = signal;
		siglongjmp(me->jump, 1);
	}
	/* A signal of our own: our parent has to see it. */
	sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
	raise(signal);
}

static int thread_begin(uint64_t seed)
{
	struct hammer_thread *me = aligned_alloc(64, sizeof(*me));

	if (!me)
		return -ENOMEM;
	memset(me, 0, sizeof(*me));
	me->random = seed;
	me->edge = mmap(NULL, 2 * HAMMER_PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (me->edge == MAP_FAILED ||
	    mprotect(me->edge + HAMMER_PAGE, HAMMER_PAGE, PROT_NONE)) {
		free(me);
		return -ENOMEM;
	}
	hammer_me = me;
	return 0;
}

static void thread_end(void)
{
	munmap(hammer_me->edge, 2 * HAMMER_PAGE);
	free(hammer_me);
	hammer_me = NULL;
}

/* ---- a worker ---- */

static void *work(void *user)
{
	uint64_t seed = (uintptr_t)user;

	if (thread_begin(seed)) {
		fputs("hammer: no memory\n", stderr);
		_exit(1);
	}
	/* Stacks and heaps of threads to come would fall into holes of the arena. */
	pthread_barrier_wait(&all_there);
	while (!atomic_load_explicit(&hammer->stop, memory_order_relaxed)) {
		if (hammer_chance(3))
			hammer_memory();
		else
			hammer_call();
	}
	thread_end();
	return NULL;
}

static void handle_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* Threads on common files, descriptors and maps, for ever. */
static int work_together(uint64_t seed)
{
	pthread_t threads[THREADS_MAX];
	unsigned int i, n;
	int r = hammer_maps_begin();

	handle_signals();
	for (i = 0; i < HAMMER_FILES && !r; i++)
		if (hammer_open(i) == 0)
			hammer_furnish(i);
	pthread_barrier_init(&all_there, NULL, options.threads);
	for (n = 0; n < options.threads && !r; n++)
		r = -pthread_create(&threads[n], NULL, work, (void *)(uintptr_t)next(&seed));
	if (r)
		_exit(1); /* the other threads wait for it */
	while (n-- > 0)
		pthread_join(threads[n], NULL);
	return 0;
}

static void worker_start(unsigned int slot)
{
	uint64_t seed = options.seed + ++n_workers * 0x5851f42d4c957f2d;
	pid_t pid = fork();

	if (pid > 0)
		workers[slot] = pid;
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	signal(SIGCHLD, SIG_IGN);
	_exit(thread_begin(next(&seed)) || work_together(seed) ? 1 : 0);
}

/* ---- over the workers ---- */

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void complain(const char *what)
{
	printf("hammer: %s\n", what);
	failures++;
}

/* Those that are dead by now. One that was not killed has found something. */
static void reap(bool expected)
{
	unsigned int i;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (i = 0; i < options.processes; i++) {
			if (workers[i] != pid)
				continue;
			workers[i] = 0;
			if (expected || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL))
				continue;
			if (WIFSIGNALED(status))
				printf("hammer: a process died of SIG%s\n",
				       sigabbrev_np(WTERMSIG(status)));
			else
				printf("hammer: a process ended with %d\n",
				       WEXITSTATUS(status));
			failures++;
		}
	}
}

static void kill_worker(unsigned int slot)
{
	if (!workers[slot])
		return;
	hammer_count(HAMMER_KILL, hammer_result(kill(-workers[slot], SIGKILL)));
	kill(workers[slot], SIGKILL);
}

/* Prints the stacks of processes that do not die. */
static void show_stuck(void)
{
	char command[128];
	unsigned int i;

	for (i = 0; i < options.processes; i++) {
		if (!workers[i])
			continue;
		snprintf(command, sizeof(command), "head -n 30 /proc/%d/task/*/stack",
			 (int)workers[i]);
		if (system(command))
			perror("head");
	}
}

/* Kills all and waits for all, also for children that a killed process left. */
static void end_all(void)
{
	double end = seconds_now() + DEATH_SECONDS;
	unsigned int i;
	int status;

	for (i = 0; i < options.processes; i++)
		kill_worker(i);
	do {
		usleep(10000);
		reap(true);
		if (waitpid(-1, &status, WNOHANG) < 0 && errno == ECHILD)
			return;
	} while (seconds_now() < end);
	complain("a killed process does not die");
	show_stuck();
}

static uint64_t all_counted(void)
{
	uint64_t n = 0;
	unsigned int i;

	for (i = 0; i < HAMMER_KINDS; i++)
		n += hammer_counted(i);
	return n;
}

/*
 * Without the device there is not much to find: it stays for a while of calls, which
 * under emulation take long.
 */
static void replug(void)
{
	static uint64_t next_time;

	if (hammer_way->is_there() &&
	    (!options.unplug || all_counted() < next_time || !hammer_chance(2)))
		return;
	hammer_count(HAMMER_UNPLUG, hammer_way->replug());
	next_time = all_counted() + CALLS_BETWEEN;
}

static void run_processes(double end)
{
	unsigned int slot;

	while (seconds_now() < end) {
		for (slot = 0; slot < options.processes; slot++)
			if (!workers[slot])
				worker_start(slot);
		usleep((useconds_t)(50000 + hammer_random(700000)));
		if (hammer_chance(5))
			kill_worker((unsigned int)hammer_random(options.processes));
		replug();
		reap(false);
	}
	end_all();
}

/* The twin lives in this process: threads only, which end when they are told. */
static void run_threads(double end)
{
	uint64_t seed = options.seed + 1;
	pthread_t threads[THREADS_MAX];
	unsigned int i, n = options.processes * options.threads;

	handle_signals();
	if (hammer_maps_begin())
		complain("no memory");
	for (i = 0; i < HAMMER_FILES; i++)
		if (hammer_open(i) == 0)
			hammer_furnish(i);
	n = n < THREADS_MAX ? n : THREADS_MAX;
	pthread_barrier_init(&all_there, NULL, n);
	for (i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)next(&seed))) {
			complain("no memory");
			_exit(1);
		}
	}
	while (seconds_now() < end) {
		usleep((useconds_t)(50000 + hammer_random(700000)));
		replug();
	}
	atomic_store(&hammer->stop, true);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
}

/* ---- the results ---- */

static void report_kind(unsigned int kind)
{
	uint64_t sum = hammer_counted(kind), n;
	const char *name = hammer_kind_name(kind);
	unsigned int i;

	if (!name || !sum)
		return;
	printf("%-14s %8" PRIu64 ":", name, sum);
	for (i = 0; i < HAMMER_ANSWERS; i++) {
		n = atomic_load(&hammer->answers[kind][i]);
		if (!n)
			continue;
		if (!i)
			printf(" %" PRIu64, n);
		else if (i >= HAMMER_SIGNAL)
			printf(" SIG%s %" PRIu64, sigabbrev_np((int)i - HAMMER_SIGNAL), n);
		else
			printf(" %s %" PRIu64, strerrorname_np((int)i), n);
	}
	putchar('\n');
}

static void check_device(void)
{
	int i;

	for (i = 0; i < 2 && !hammer_way->is_there(); i++)
		hammer_count(HAMMER_UNPLUG, hammer_way->replug());
	if (!hammer_way->is_there())
		complain("the device was taken away and did not come back");
}

static void check_objects(void)
{
	int left = -EAGAIN, i;

	/* Files of processes are closed a little after their end. */
	for (i = 0; i < 20 && left; i++) {
		usleep(250000);
		left = hammer_way->close_all();
	}
	if (left > 0)
		complain("objects of the device are left, see above");
	else if (left < 0)
		printf("hammer: the device's objects are not to be seen: %s\n",
		       strerror(-left));
}

static int share_memory(void)
{
	/* Stray stores behind it hit nothing. */
	uint64_t length = sizeof(*hammer) + GUARD;
	void *at = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at != MAP_FAILED)
		at = mmap(at, sizeof(*hammer), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	hammer = at;
	return 0;
}

static int usage(void)
{
	fputs("usage: hammer_hetsim [--device PATH|soft:N] [--with PATH] [--seed N]\n"
	      "                     [--seconds N] [--processes N] [--threads N] [--unplug]\n",
	      stderr);
	return 2;
}

static unsigned int number(const char *text, unsigned int max)
{
	unsigned long value = text ? strtoul(text, NULL, 0) : 0;

	return value > max ? max : (unsigned int)value;
}

static int parse(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;

		if (!strcmp(argv[i], "--unplug")) {
			options.unplug = true;
			continue;
		}
		if (!value)
			return -EINVAL;
		if (!strcmp(argv[i], "--device"))
			options.device = value;
		else if (!strcmp(argv[i], "--with"))
			options.other = value;
		else if (!strcmp(argv[i], "--seed"))
			options.seed = strtoull(value, NULL, 0);
		else if (!strcmp(argv[i], "--seconds"))
			options.seconds = number(value, 1000000);
		else if (!strcmp(argv[i], "--processes"))
			options.processes = number(value, PROCESSES_MAX);
		else if (!strcmp(argv[i], "--threads"))
			options.threads = number(value, THREADS_MAX);
		else
			return -EINVAL;
		i++;
	}
	if (options.other && !strncmp(options.device, "soft:", 5))
		return -EINVAL; /* the twin takes in only its own memory */
	return options.processes && options.threads && options.seconds ? 0 : -EINVAL;
}

/* HETMAP_SEED, as for the tests, or a fresh one. */
static uint64_t choose_seed(void)
{
	const char *text = getenv("HETMAP_SEED");
	struct timespec now;

	if (text)
		return strtoull(text, NULL, 0);
	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
}

int main(int argc, char **argv)
{
	double begin;
	unsigned int i;

	options.seed = choose_seed();
	if (parse(argc, argv))
		return usage();
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (share_memory() || thread_begin(options.seed)) {
		fputs("hammer: no memory\n", stderr);
		return 1;
	}
	hammer_device = options.device;
	hammer_other = options.other;
	hammer_way = strncmp(options.device, "soft:", 5) ? &hammer_kernel : &hammer_soft;
	printf("hammer: %s%s%s of %s, seed 0x%" PRIx64 ", %u s, %u x %u threads%s\n",
	       options.device, hammer_other ? " and " : "", hammer_other ? hammer_other : "",
	       hammer_way->name, options.seed, options.seconds, options.processes,
	       options.threads, options.unplug ? ", unplugging" : "");
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	begin = seconds_now();
	if (hammer_open(0)) {
		printf("hammer: %s can't be opened\n", options.device);
		return 1;
	}
	if (hammer_way->kernel)
		run_processes(begin + options.seconds);
	else
		run_threads(begin + options.seconds);
	check_device();
	check_objects();

	for (i = 0; i < HAMMER_KINDS; i++)
		report_kind(i);
	if (options.seconds >= 20)
		failures += hammer_calls_without_success();
	printf("hammer: seed 0x%" PRIx64 ": %" PRIu64 " calls in %.0f s, %u failures\n",
	       options.seed, all_counted(), seconds_now() - begin, failures);
	thread_end();
	return failures ? 1 : 0;
}
