// SPDX-License-Identifier: MIT
/* hetsim: limits of one opener, or of all together, on the kernel; calls that take long. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/kernel_log.h"
#include "sim/sim_tests.h"

#define QUEUES 512      /* of a device */
#define USER_QUEUES 128 /* of a user without CAP_SYS_RESOURCE */

static int queue_create(int fd, uint32_t *ret_queue)
{
	struct hetsim_queue_create create = { .size = sizeof(create) };
	int r = hetsim_call(fd, HETSIM_QUEUE_CREATE, &create);

	*ret_queue = create.queue;
	return r;
}

/* Each is a thread of the kernel: openers without end must not have threads without end. */
static void test_queues(void)
{
	struct hetsim_queue_destroy destroy = { .size = sizeof(destroy) };
	int fds[QUEUES / 16 + 1], n_fds = 0, r = 0;
	unsigned int n = 0;
	uint32_t queue;

	fds[0] = hetsim_open(O_RDWR);
	if (fds[0] < 0)
		return;
	for (n_fds = 1; n_fds < QUEUES / 16 + 1; n_fds++)
		fds[n_fds] = hetsim_open(O_RDWR);
	CHECK_EQUAL(hetsim_query(fds[0]).max_queues, 16);
	while (n <= QUEUES && !r) {
		r = queue_create(fds[n / 16], &queue);
		n += !r;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(n, QUEUES);
	destroy.queue = 7;
	CHECK_EQUAL(hetsim_call(fds[3], HETSIM_QUEUE_DESTROY, &destroy), 0);
	CHECK_EQUAL(queue_create(fds[n_fds - 1], &queue), 0);
	CHECK_EQUAL(queue_create(fds[n_fds - 1], &queue), -ENOSPC);
	close(fds[0]);
	CHECK_EQUAL(queue_create(fds[n_fds - 1], &queue), 0);
	while (--n_fds)
		close(fds[n_fds]);
}

/* One user leaves queues for other users, however many files it opens. */
static void test_user_queues(void)
{
	int fds[USER_QUEUES / 16 + 1], other, r = 0;
	unsigned int n = 0, i;
	uint32_t queue;

	fds[0] = hetsim_open(O_RDWR);
	if (fds[0] < 0)
		return;
	hetsim_close(fds[0]);
	if (geteuid()) {
		test_skip("kernel", "only root can be two users");
		return;
	}
	CHECK_FATAL(!seteuid(65534));
	for (i = 0; i < USER_QUEUES / 16 + 1; i++)
		fds[i] = hetsim_open(O_RDWR);
	while (n <= USER_QUEUES && !r) {
		r = queue_create(fds[n / 16], &queue);
		n += !r;
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK_EQUAL(n, USER_QUEUES);
	CHECK_FATAL(!seteuid(0) && !seteuid(65533));
	other = hetsim_open(O_RDWR);
	CHECK_EQUAL(queue_create(other, &queue), 0);
	/* An ended queue and a closed file make room; CAP_SYS_RESOURCE needs none. */
	CHECK_FATAL(!seteuid(0));
	CHECK_EQUAL(queue_create(fds[i - 1], &queue), 0);
	CHECK_FATAL(!seteuid(65534));
	CHECK_EQUAL(queue_create(fds[i - 1], &queue), -ENOSPC);
	hetsim_close(fds[0]);
	CHECK_EQUAL(queue_create(fds[i - 1], &queue), 0);
	CHECK_FATAL(!seteuid(0));
	while (--i)
		hetsim_close(fds[i]);
	hetsim_close(other);
}

/* Number of the opener, which is in the names of its threads. */
static unsigned int client_of(int fd)
{
	char path[64], line[128];
	unsigned int client = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	CHECK_FATAL(file);
	while (!client && fgets(line, sizeof(line), file))
		sscanf(line, "hetsim-client-id: %u", &client);
	fclose(file);
	return client;
}

/* The task with that name; 0: no such task. */
static pid_t task_find(const char *name)
{
	char path[300], comm[64] = "";
	DIR *tasks = opendir("/proc");
	struct dirent *entry;
	pid_t found = 0;
	FILE *file;

	CHECK_FATAL(tasks);
	while (!found && (entry = readdir(tasks))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fgets(comm, sizeof(comm), file)) {
			comm[strcspn(comm, "\n")] = 0;
			if (!strcmp(comm, name))
				found = (pid_t)strtol(entry->d_name, NULL, 10);
		}
		fclose(file);
	}
	closedir(tasks);
	return found;
}

static void create_nicely(void *user)
{
	char name[32];
	uint32_t queue;
	pid_t thread;
	int fd;

	(void)user;
	CHECK_EQUAL(setpriority(PRIO_PROCESS, 0, 7), 0);
	fd = hetsim_open(O_RDWR);
	CHECK_EQUAL(queue_create(fd, &queue), 0);
	snprintf(name, sizeof(name), "hetsim0-%u.%u", client_of(fd), queue);
	thread = task_find(name);
	CHECK(thread > 0);
	CHECK_EQUAL(getpriority(PRIO_PROCESS, (id_t)thread), 7);
	hetsim_close(fd);
}

/* The engine's thread has the nice value of the process. */
static void test_nice(void)
{
	int fd = hetsim_begin(O_RDWR);

	hetsim_close(fd);
	CHECK_EQUAL(test_fork(create_nicely, NULL), 0);
}

static void tick(int signal)
{
	(void)signal;
}

/* Frequent signals do not keep a caller from getting memory. */
static void test_ticks(void)
{
	struct sigaction action = { .sa_handler = tick };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct itimerspec often = { .it_interval = { .tv_nsec = 5000000 },
				    .it_value = { .tv_nsec = 5000000 } };
	struct hetsim_buffer buffer = { 0 };
	timer_t timer;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	int i;
	uint64_t length = hetsim_query(fd).opener_bytes / 2;

	if (length > MIB(96))
		length = MIB(96);
	CHECK_EQUAL(sigaction(SIGUSR1, &action, NULL), 0);
	CHECK_EQUAL(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	CHECK_EQUAL(timer_settime(timer, 0, &often, NULL), 0);
	for (i = 0; i < 6; i++) {
		CHECK_EQUAL(hetsim_buffer_create(fd, length, HETSIM_PLACE_SYSTEM, 0, &buffer),
			    0);
		CHECK_EQUAL(hetsim_close_handle(fd, buffer.handle), 0);
	}
	timer_delete(timer);
}

static const struct test tests[] = {
	{ "queues", test_queues, 60, 0 },
	{ "user_queues", test_user_queues, 60, 0 },
	{ "nice", test_nice, 0, 0 },
	{ "ticks", test_ticks, 60, 0 },
	{ "nothing_said", kernel_log_test, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	kernel_log_begin();
	return hetsim_main(argc, argv, "hetsim_limits", sim_limits_tests, tests);
}
