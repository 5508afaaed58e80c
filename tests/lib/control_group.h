/* SPDX-License-Identifier: MIT */
/* A control group of the test's own, for what memory and CPU time is charged to whom. As root. */
#ifndef HETMAP_TESTS_CONTROL_GROUP_H
#define HETMAP_TESTS_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* One that may have @most bytes. False: the test was skipped. */
bool control_group_make(uint64_t most);
/* Makes it wait for what it has beyond @most. */
void control_group_throttle(uint64_t most);
/* Its limit from now on. */
void control_group_limit(uint64_t most);
/* Puts this process into it. */
void control_group_enter(void);
/* What is charged to it, give or take what each processor has charged ahead. */
uint64_t control_group_bytes(void);
#define CONTROL_GROUP_AHEAD (1024ull * 1024)
/* @room bytes more than what it can't do without, and none charged ahead. */
void control_group_leave(uint64_t room);
/* How many processes of it the kernel has ended for want of memory. */
uint64_t control_group_kills(void);
/* Puts this process back into the group of all. */
void control_group_go(void);
/* Its tasks may have so many per cent of a CPU. False: the kernel has no such limit. */
bool control_group_cpu_limit(unsigned int percent);
/* CPU time that its tasks have had, in microseconds. */
uint64_t control_group_cpu_us(void);
/* How many processes it has, threads of the kernel included. */
unsigned int control_group_tasks(void);
/* Nobody is in it any more. */
void control_group_remove(void);

#endif
