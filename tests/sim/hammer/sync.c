// SPDX-License-Identifier: MIT
/* Timelines, what submissions wait for and signal, and buffers that they name. */
#include <time.h>

#include "lib/hetsim_argument.h"
#include "hammer.h"

/* As many as a driver ever reads: unfilled entries name no timeline. */
static __thread struct hetsim_sync waits[HETSIM_MAX_SYNCS], signals[HETSIM_MAX_SYNCS];

uint64_t hammer_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static __thread struct hetsim_use uses[HETSIM_MAX_USES]; /* handle 0 is none */

/* Close to each other, so that some are reached. */
static uint64_t some_point(void)
{
	return hammer_chance(32) ? hammer_odd() : hammer_random(64);
}

void fill_timeline_create(union hetsim_argument *a)
{
	a->timeline_create.value = hammer_chance(8) ? hammer_odd() : hammer_random(4);
}

void fill_timeline_wait(union hetsim_argument *a)
{
	a->timeline_wait.fd = hammer_fd_pick();
	a->timeline_wait.point = some_point();
	a->timeline_wait.deadline_ns =
		hammer_chance(2) ? 0 : hammer_now() + hammer_random(50000000);
}

void fill_timeline_signal(union hetsim_argument *a)
{
	a->timeline_signal.fd = hammer_fd_pick();
	a->timeline_signal.point = some_point();
}

static uint32_t fill_array(struct hetsim_sync *array)
{
	uint32_t n = (uint32_t)hammer_random(3), i;

	for (i = 0; i < HETSIM_MAX_SYNCS; i++)
		array[i] = (struct hetsim_sync){ .fd = -1 };
	for (i = 0; i < n; i++) {
		array[i].kind = (uint32_t)(hammer_chance(32) ? hammer_odd() : hammer_random(2));
		array[i].fd = hammer_fd_pick();
		array[i].point = array[i].kind ? 0 : some_point();
	}
	return n;
}

void hammer_fill_syncs(uint32_t *ret_n_waits, uint32_t *ret_n_signals, __u64 *ret_waits,
		       __u64 *ret_signals)
{
	*ret_n_waits = fill_array(waits);
	*ret_n_signals = fill_array(signals);
	*ret_waits = (uintptr_t)waits;
	*ret_signals = (uintptr_t)signals;
}

void hammer_fill_uses(struct hetsim_submit *submit)
{
	uint32_t n = 1 + (uint32_t)hammer_random(3), i;

	if (!hammer_chance(3))
		return;
	for (i = 0; i < HETSIM_MAX_USES; i++)
		uses[i] = (struct hetsim_use){ 0 };
	for (i = 0; i < n; i++) {
		uses[i].handle = hammer_handle(hammer_me->file);
		uses[i].flags = (uint32_t)(hammer_chance(32) ? hammer_odd() : hammer_random(4));
	}
	submit->uses = (uintptr_t)uses;
	submit->n_uses = n;
}

/* The sync_files of a submission that succeeded, unless its argument was changed meanwhile. */
void hammer_keep_syncs(const struct hetsim_submit *submit)
{
	uint32_t i;

	if (submit->signals != (uintptr_t)signals)
		return;
	for (i = 0; i < submit->n_signals && i < HETSIM_MAX_SYNCS; i++)
		if (signals[i].kind == HETSIM_SYNC_FENCE)
			hammer_fd_put(signals[i].fd);
}
