/* SPDX-License-Identifier: MIT */
/* A control group of the test's own, to see which memory and CPU time is charged to it. As root. */
#ifndef HETMAP_TESTS_CONTROL_GROUP_H
#define HETMAP_TESTS_CONTROL_GROUP_H

#include <stdbool.h>
#include <stdint.h>

/* One that may have @most bytes. False: the test was skipped. */
bool control_group_make(uint64_t most);
/* Makes it wait for its memory beyond @most. */
void control_group_throttle(uint64_t most);
/* Its limit from now on. */
void control_group_limit(uint64_t most);
/* Puts this process into it. */
void control_group_enter(void);
/* Bytes charged to it, give or take the charges that each processor made ahead. */
uint64_t control_group_bytes(void);
#define CONTROL_GROUP_AHEAD (1024ull * 1024)
/* Leaves @room bytes more than the memory it needs, and none charged ahead. */
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
/* The group is empty by now. */
void control_group_remove(void);

#endif
