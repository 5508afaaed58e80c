/* SPDX-License-Identifier: MIT */
/*
 * Retirement: what the last reference to a map or a buffer leaves behind (its mapping,
 * descriptors, device memory) is released by a thread, after a grace period of
 * liburcu-bp, instead of by whoever dropped the reference. Opt in, as programs count
 * descriptors and memory, unmount file systems and remove modules right after an unref, and get
 * no thread that they did not ask for. Bounded: past the bounds the caller releases it himself,
 * after a grace period of his own, which slows him down to the thread's pace.
 *
 * Whatever is handed over here has left the registry, its buffer's list and its views
 * before: nobody finds it any more, and who found it without a reference is waited for. The
 * library's own readers of the registry have no part in this: they look at type-stable memory.
 *
 * A buffer needs no grace period beyond that of its maps, by which alone it is found: a map of
 * all of it takes it along. A buffer whose last map was of a part is an entry by itself, as the
 * bound counts all of its bytes.
 */
#ifndef HETMAP_RUNTIME_RETIRE_H
#define HETMAP_RUNTIME_RETIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/wfcqueue.h>

struct retired;

typedef void retire_release(struct retired *retired);

/* Embedded in what is to be released, so that a last unref needs no memory. */
struct retired {
	struct cds_wfcq_node node;
	retire_release *release;
	uint64_t bytes;
};

/*
 * Calls @release(@retired) once, later in the thread or before this returns. @bytes of
 * memory are held until then. @now: rather before, whatever the bounds, since somebody
 * counts what it holds. The caller may hold any lock that @release does not take.
 */
void retire(struct retired *retired, uint64_t bytes, bool now, retire_release *release);

/* May what is released have to wait? Else nobody was promised a grace period. */
bool retire_is_on(void);

/*
 * Is @r, of an operation that holds no lock, a lack of something that the backlog held
 * until now? Then all of that was released, and the operation is tried again: once,
 * *@relieved is false before. For the end of a loop.
 */
bool retire_relieve(int r, bool *relieved);
/* The same of an operation that has failed on what others have mapped. */
bool retire_unmap(bool *relieved);

/*
 * HETMAP_RETIRE, read once: 0, or -EINVAL each time, with a text; -EAGAIN: no thread, and
 * it is tried again.
 */
int retire_read_environment(void);

struct retire_counts {
	uint64_t retired, in_place; /* since the start */
	uint64_t objects, bytes;    /* that wait, or are being released */
};

struct retire_counts retire_counts(void);

/* fork(2): a child has neither the thread nor the backlog, which are its parent's. */
void retire_fork_prepare(void);
void retire_fork_parent(void);
void retire_fork_child(void);

#endif
