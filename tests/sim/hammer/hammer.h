/* SPDX-License-Identifier: MIT */
/*
 * hammer_hetsim: absurd calls of the simulated device from many threads and processes at once;
 * shared by its parts. All counters lie in memory that all processes share.
 */
#ifndef HETMAP_TESTS_HAMMER_H
#define HETMAP_TESTS_HAMMER_H

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <uapi/hetsim.h>

#define HAMMER_PAGE 4096ull

#define HAMMER_FILES 4 /* open files of a process that its threads fight for */
#define HAMMER_FDS 32  /* dma-bufs, sync_files, eventfds, timelines */
#define HAMMER_MAPS 24 /* places for maps in the arena */
#define HAMMER_PLACE (4ull << 20)
#define HAMMER_ARENA (HAMMER_MAPS * HAMMER_PLACE)

/* An ioctl's answer: 0, an errno; a touch's: HAMMER_SIGNAL + the signal. */
#define HAMMER_SIGNAL 140
#define HAMMER_ANSWERS 180
#define HAMMER_KINDS 64

/* Actions that are counted besides the ioctls, which come first by their rows. */
enum hammer_kind {
	HAMMER_NO_IOCTL = 32, /* a number that is none */
	HAMMER_OPEN,
	HAMMER_MMAP,
	HAMMER_MUNMAP,
	HAMMER_MREMAP,
	HAMMER_MPROTECT,
	HAMMER_MADVISE,
	HAMMER_LOCK,
	HAMMER_TOUCH,
	HAMMER_READ,
	HAMMER_WRITE,
	HAMMER_REMOTE, /* /proc/PID/mem, process_vm_readv, vmsplice */
	HAMMER_LOOK,   /* smaps, fdinfo, debugfs */
	HAMMER_SYNC,   /* brackets of a dma-buf */
	HAMMER_POLL,
	HAMMER_MERGE, /* of sync_files */
	HAMMER_FORK,
	HAMMER_EXEC,
	HAMMER_KILL,
	HAMMER_UNPLUG,
	HAMMER_ACROSS, /* memory of the other device taken in */
};

struct hammer_shared {
	_Atomic uint64_t answers[HAMMER_KINDS][HAMMER_ANSWERS];
	_Atomic bool stop;
	_Atomic uint64_t features; /* HETSIM_FEATURE_* of the device */
	/* Seen by all threads and processes at once; also passed to calls. */
	_Alignas(4096) unsigned char hot[16 * HAMMER_PAGE];
};

extern struct hammer_shared *hammer;

struct hammer_options {
	const char *device; /* a path, or soft:N */
	const char *other;  /* a path, or NULL */
	uint64_t seed;
	unsigned int seconds;
	unsigned int processes;
	unsigned int threads;
	bool unplug;
};

/* One thread's. */
struct hammer_thread {
	uint64_t random;
	unsigned int file; /* of the call that is being made */
	sigjmp_buf jump;
	volatile sig_atomic_t armed;
	volatile sig_atomic_t signal; /* that ended the guarded access */
	unsigned char *edge;          /* a page, and behind it one that is none */
	_Alignas(64) unsigned char plain[2 * HAMMER_PAGE];
};

extern __thread struct hammer_thread *hammer_me;

/* The next number of this thread's sequence, below @n. */
uint64_t hammer_random(uint64_t n);
bool hammer_chance(unsigned int one_in);
/* A number that programs get wrong. */
uint64_t hammer_odd(void);

/* Counts an answer: @r is 0, a negative errno, or the result of a system call. */
void hammer_count(unsigned int kind, long r);
/* How often that has been. */
uint64_t hammer_counted(unsigned int kind);
/* -1 and errno as a negative errno. */
long hammer_result(long r);

/*
 * The block that follows may touch anything from hammer_arm() to hammer_disarm(): a
 * signal ends it, counted as an answer of @kind. Nothing in it may return or hold a
 * lock. (ISO C allows sigsetjmp() as a whole condition, not as an argument.)
 */
#define HAMMER_GUARDED(kind)               \
	if (sigsetjmp(hammer_me->jump, 0)) \
		hammer_count_signal(kind); \
	else
void hammer_arm(void);
void hammer_disarm(void);
void hammer_count_signal(unsigned int kind);

/* ---- sync.c: timelines, waits and signals ---- */

union hetsim_argument;
struct hetsim_submit;

uint64_t hammer_now(void); /* CLOCK_MONOTONIC in ns */
void fill_timeline_create(union hetsim_argument *argument);
void fill_timeline_wait(union hetsim_argument *argument);
void fill_timeline_signal(union hetsim_argument *argument);
/* Fills the arrays; @ret_waits and @ret_signals are their addresses. */
void hammer_fill_syncs(uint32_t *ret_n_waits, uint32_t *ret_n_signals, __u64 *ret_waits,
		       __u64 *ret_signals);
/* Most descriptors are of other things: two calls of three have none. */
#define HAMMER_FILL_SYNCS(call)                                                 \
	do {                                                                    \
		if (hammer_chance(3))                                           \
			hammer_fill_syncs(&(call)->n_waits, &(call)->n_signals, \
					  &(call)->waits, &(call)->signals);    \
	} while (0)
/* One in four is a submission. */
#define HAMMER_FILL_LATER(call)                                         \
	do {                                                            \
		if (hammer_chance(4)) {                                 \
			(call)->queue = 1 + (uint32_t)hammer_random(2); \
			HAMMER_FILL_SYNCS(call);                        \
		}                                                       \
	} while (0)
/* One call of three names buffers of the file. */
void hammer_fill_uses(struct hetsim_submit *submit);
void hammer_keep_syncs(const struct hetsim_submit *submit);

/* ---- device.c: the device by its node, or its twin ---- */

/* A way to the device. Files are numbers below HAMMER_FILES. */
struct hammer_way {
	const char *name;
	bool kernel; /* any pointer may be passed, files close under calls */
	int (*open)(unsigned int file);
	int (*call)(unsigned int file, unsigned long cmd, void *argument);
	void *(*map)(unsigned int file, void *at, uint64_t length, int prot, int flags,
		     uint64_t offset);
	ssize_t (*read)(unsigned int file, void *to, uint64_t length, uint64_t offset);
	ssize_t (*write)(unsigned int file, const void *from, uint64_t length, uint64_t offset);
	/* All files closed: how many objects are left; -errno: not to be known. */
	int (*close_all)(void);
	bool (*is_there)(void);
	/* Takes the device, or one of two, away, if it is there, and plugs it in again. */
	int (*replug)(void);
};

extern const struct hammer_way hammer_kernel;
extern const struct hammer_way hammer_soft;
extern const struct hammer_way *hammer_way;
extern const char *hammer_device;
extern const char *hammer_other; /* another of the module's; NULL: none */

/* Opens anew, with a handshake. */
int hammer_open(unsigned int file);
/* The part of the space of offsets that a buffer has. */
extern _Atomic uint64_t hammer_window;

/* ---- calls.c ---- */

void hammer_call(void);
/* Buffers and queues of a file that was just opened, for calls to be about. */
void hammer_furnish(unsigned int file);
const char *hammer_kind_name(unsigned int kind);
/* Ioctls that the device has and that never succeeded in many tries: prints them. */
unsigned int hammer_calls_without_success(void);
/* A handle that @file had lately, mostly. */
uint32_t hammer_handle(unsigned int file);
/* A descriptor of the pool takes another's place; -1 only takes. */
void hammer_fd_put(int fd);
int hammer_fd_pick(void);

/* ---- maps.c ---- */

int hammer_maps_begin(void);
/* Somewhere in the arena, page-aligned. */
unsigned char *hammer_address(void);
/* As far as nothing ends it. */
void hammer_try_copy(void *to, const void *from, size_t size);
void hammer_memory(void);

#endif
