/* SPDX-License-Identifier: MIT */
/* Programs whose page faults are known. */
#ifndef HETMAP_TESTS_TRACED_H
#define HETMAP_TESTS_TRACED_H

#include <stddef.h>

/* Pages of the memory that most of them touch: 32 MiB. */
#define TRACED_PAGES 8192
/* Bytes of the memory of "large" and its like, and of "weights". */
#define TRACED_LARGE ((size_t)256 << 20)
/* Bytes of the file that HETMAP_TRACED_FILE names, which "file_..." map. */
#define TRACED_FILE ((size_t)64 << 20)
/* Made one after the other by "buffers_host", "buffers_soft", "churning": b0000 and so on. */
#define TRACED_BUFFERS 10000
/* Pages that "steps" makes usable at a time. */
#define TRACED_STEP 64
/* Each touches one page. */
#define TRACED_CHILDREN 3000
/* "forking" has this many in all, this many at a time, for this long each. */
#define TRACED_FORKS 2000
#define TRACED_AT_A_TIME 100
#define TRACED_FORK_US 250000
/* Pages of "before" and "after" that "executing" touches, before and after execve(2). */
#define TRACED_BEFORE 8
#define TRACED_AFTER 16
/* "stranger" touches TRACED_AFTER pages of "strange" as that user. */
#define TRACED_STRANGER 65534
/* Threads of "starting", each of which starts its successor and ends, over and over. */
#define TRACED_STARTING 128
#define TRACED_SUCCESSION_US 40000

/*
 * "device" touches a buffer, moves it to system memory and back, has it evicted, touches pages that
 * are sampled, and lets the engine work on it.
 */
#define TRACED_DEVICE_PAGES 256
#define TRACED_DEVICE_SAMPLES 12
#define TRACED_DEVICE_JOBS 20

/* Runs one of them: its exit status. */
int traced_main(const char *name);

int traced_device(void);
/* Memory mapped on the last processor is touched on the first one. */
int traced_migrated(void);
/*
 * The engine of soft:0 works on TRACED_PAGES pages of memory that is no buffer, with a fault for
 * each; or after a prefetch, with none.
 */
int traced_device_faults(void);
int traced_device_prefetched(void);

/* Between pages without access: beside other memory it would be one mapping with it. */
char *traced_memory(size_t size, int advice);

#endif
