/* SPDX-License-Identifier: MIT */
/*
 * Retirement: the thread of a queue, instead of the caller, releases the resources of a map or
 * buffer after its last reference (the mapping, descriptors, device memory), after a grace
 * period of liburcu-bp. It is opt-in, because programs count descriptors and memory, unmount
 * file systems and remove modules right after an unref, and get no thread that they did not ask
 * for. It is bounded: past the bounds the caller releases the object itself, after a grace
 * period of its own, which slows it down to the thread's pace.
 *
 * An object that is handed over here has left the registry, its buffer's list and its views
 * before: no thread finds it any more, and threads that found it without a reference are waited
 * for. The library's own readers of the registry have no part in this: they look at type-stable
 * memory.
 *
 * A buffer needs no grace period beyond that of its maps, through which alone it is found: a
 * map of all of it takes it along. A buffer whose last map was of a part is an entry by itself,
 * as the bound counts all of its bytes.
 */
#ifndef HETMAP_RUNTIME_RETIRE_H
#define HETMAP_RUNTIME_RETIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/wfcqueue.h>

struct retired;

typedef void retire_release(struct retired *retired);

/* Embedded in the object to be released, so that a last unref needs no memory. */
struct retired {
	struct cds_wfcq_node node;
	retire_release *release;
	uint64_t bytes;
};

/*
 * Calls @release(@retired) once, later in the thread or before this returns. @bytes of memory
 * are held until then. @now: before this returns, even if there is room, because locked bytes
 * count until the release, or peers of a shared buffer must learn of the end; inside a read-side
 * critical section the thread does it all the same. The caller may hold any lock that @release
 * does not take.
 */
void retire(struct retired *retired, uint64_t bytes, bool now, retire_release *release);

/* May objects have to wait? If not, no reader was promised a grace period. */
bool retire_is_on(void);

/*
 * Does an operation that holds no lock have to be tried again? True: @r was a lack of a resource,
 * which the backlog may have held then, and all of the backlog was released, here or in the
 * meantime. True once only: the caller sets *@relieved to false first. For the end of a loop.
 */
bool retire_relieve(int r, bool *relieved);
/* The same for an operation that failed because of other mappings. */
bool retire_unmap(bool *relieved);

/*
 * Reads HETMAP_RETIRE once.
 * -EINVAL: each time, with a text.
 * -EAGAIN: no thread; the next call tries again.
 */
int retire_read_environment(void);

struct retire_counts {
	uint64_t retired, in_place; /* since the start */
	uint64_t objects, bytes;    /* waiting, or being released */
};

struct retire_counts retire_counts(void);

/* fork(2): a child has neither the parent's thread nor its backlog. */
void retire_fork_prepare(void);
void retire_fork_parent(void);
void retire_fork_child(void);

#endif
