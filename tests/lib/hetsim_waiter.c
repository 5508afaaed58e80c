// SPDX-License-Identifier: MIT
/* A thread that waits for a submission, for tests of events meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/hetsim.h"

#define TRIES 10000 /* of a millisecond each */

static void *waiter_main(void *user)
{
	struct hetsim_waiter *waiter = user;
	uint64_t address;

	waiter->tid = (int)syscall(SYS_gettid);
	waiter->r = hetsim_wait(waiter->fd, waiter->queue, waiter->seqno, 60000,
				&waiter->status, &address);
	return NULL;
}

/* The state follows the name, which is in brackets. */
static bool is_asleep(int tid)
{
	char path[64], line[256] = "", *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return true; /* it has ended */
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	state = strrchr(line, ')');
	return state && state[1] == ' ' && state[2] == 'S';
}

void hetsim_waiter_start(struct hetsim_waiter *waiter)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	unsigned int asleep = 0, tries;

	waiter->tid = 0;
	CHECK_FATAL(!pthread_create(&waiter->thread, NULL, waiter_main, waiter));
	/* Three times in a row: a lock may hold it up for a moment before. */
	for (tries = 0; tries < TRIES && asleep < 3; tries++) {
		nanosleep(&pause, NULL);
		asleep = waiter->tid && is_asleep(waiter->tid) ? asleep + 1 : 0;
	}
	CHECK_EQUAL(asleep, 3);
}

void hetsim_waiter_end(struct hetsim_waiter *waiter)
{
	pthread_join(waiter->thread, NULL);
}
