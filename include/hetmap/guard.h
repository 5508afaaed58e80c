/* SPDX-License-Identifier: MIT */
/*
 * Guards: a fault on a map need not end the process.
 *
 * A file that somebody cuts off, storage that can't be reached, a device that is
 * taken away, memory that is broken: touching such bytes through a map raises SIGBUS.
 * With the handler installed it becomes an error of hm_copy_in(), hm_copy_out() or a
 * guarded scope; and everywhere else what the buffer's loss policy says takes the
 * place of the bytes, for the whole block of 2 MiB, and hm_fence_wait() and brackets
 * answer -EIO for it from then on: never success over lost data.
 *
 * On a thread that blocks SIGBUS such a touch ends the process, whatever the handler. Some
 * OpenCL drivers' threads do: the library finds them out, and copies for them, on the thread
 * that submits, what may be cut off (HM_WAY_COPY).
 */
#ifndef HETMAP_GUARD_H
#define HETMAP_GUARD_H

#include <setjmp.h>

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hm_handler_install flags */
#define HM_HANDLER_NO_REPAIR (1u << 0) /* faults outside of guards go on to others */

/* hm_handler_info.above: of which signals another handler is above the library's */
#define HM_HANDLER_SIGBUS (1u << 0)
#define HM_HANDLER_SIGSEGV (1u << 1)

struct hm_handler_info {
	uint32_t struct_size;
	uint32_t installed; /* installations that are not removed yet */
	uint32_t flags;     /* HM_HANDLER_NO_REPAIR */
	uint32_t above;     /* HM_HANDLER_SIGBUS | HM_HANDLER_SIGSEGV */
	uint32_t chained;   /* of these, those that hm_handler_chained() answered for */
	uint32_t reserved;
	uint64_t guarded;   /* faults that became an error, since the start */
	uint64_t repaired;  /* blocks that were replaced, likewise */
	uint64_t forwarded; /* handed to the handler that was there before, likewise */
};

/* Why bytes of a map could not be touched. */
enum hm_fault_cause {
	HM_FAULT_NONE = 0,
	HM_FAULT_END = 1,         /* -ERANGE: beyond what the file or the buffer has now */
	HM_FAULT_LOST = 2,        /* -ENODEV: the device or the map is lost, or was meanwhile */
	HM_FAULT_UNREACHABLE = 3, /* -EIO: the storage failed, or CPUs don't reach it now */
	HM_FAULT_BROKEN = 4,      /* -EHWPOISON: the hardware says that the memory is broken */
	HM_FAULT_RIGHTS = 5,   /* -EACCES: the map, or a scope (protect.h), does not give it */
	HM_FAULT_REPAIRED = 6, /* -EIO: was replaced after an earlier fault elsewhere */
};

struct hm_fault {
	uint32_t struct_size;
	uint32_t cause; /* enum hm_fault_cause */
	void *address;
	uint64_t offset;     /* of the address in its map */
	uint64_t serial;     /* of the map's buffer */
	uint32_t generation; /* of the map */
	int32_t signal;      /* SIGBUS or SIGSEGV; 0: no signal was raised */
	int32_t code;        /* its si_code [sigaction(2)] */
	uint32_t reserved;
};

/* A scope: on the stack of the function that opens it. All but fault is the library's. */
struct hm_guard {
	uint32_t struct_size; /* sizeof(struct hm_guard): HM_GUARD_INIT */
	uint32_t state;
	struct hm_guard *outer;
	struct hm_fault fault; /* what hm_guard_begin() answered for */
	void *base;            /* of the map that it is of */
	jmp_buf env;
};

/* To begin a struct hm_guard with; the rest of it need not be initialised. */
#define HM_GUARD_INIT(guard) ((guard)->struct_size = (uint32_t)sizeof(*(guard)))

/**
 * hm_handler_install - have faults on maps dealt with, in the whole process
 * @flags: [in] HM_HANDLER_*
 *
 * Installs a handler of SIGBUS and SIGSEGV, with SA_ONSTACK; what was there before is
 * called for faults that are none of a map, as it would have been without (but on the
 * thread's alternate stack where it has one), default and SIG_IGN included. Counted: the
 * first one installs, the last hm_handler_remove() ends it. Best called after all that
 * installs handlers, as OpenCL drivers' compilers do.
 *
 * The handler runs on any thread and any stack. But a thread that blocks SIGBUS and
 * touches lost bytes is ended by the kernel, with its process, whatever the handler
 * [signal(7)]: hm_copy_* and guarded scopes unblock it while they run; for threads of
 * drivers see "hetmap doctor".
 *
 * Errors: -EINVAL unknown flags; -EBUSY installed already, with other flags; -EDEADLK from a
 * view's callback; -ENOMEM.
 */
HM_API int hm_handler_install(uint32_t flags);

/**
 * hm_handler_remove - undo one hm_handler_install()
 *
 * Errors: -EINVAL it is not installed; -EBUSY another handler was installed since, which
 * has to go first: nothing has changed; -EDEADLK from a view's callback.
 */
HM_API int hm_handler_remove(void);

/**
 * hm_handler_chained - promise that handlers installed since forward
 *
 * Those that are above the library's now call it for faults that are not theirs. It
 * does not hold for others that are installed later.
 *
 * Errors: -EINVAL it is not installed, or there is none above it but the signal's default;
 * -EDEADLK from a view's callback.
 */
HM_API int hm_handler_chained(void);

/**
 * hm_handler_query - what handles faults now, and how many were
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG; -EDEADLK from a view's callback.
 */
HM_API int hm_handler_query(struct hm_handler_info *ret_info);

/**
 * hm_copy_in - copy into a map, with an error instead of a signal
 * @dst_in_map: [in] in one map, which lives meanwhile, all @length bytes
 * @src:        [in] anywhere; in a map, which lives meanwhile, it is guarded, too
 * @length:     [in] from 1
 * @fault:      [in,out, optional] struct_size set by the caller; filled where -ERANGE, -ENODEV,
 *              -EIO, -EHWPOISON or -EACCES is about the map's bytes, untouched by other errors
 *
 * As memcpy(): no bracket, no waiting for work in flight. An error may leave part of
 * the bytes copied. Where a buffer that has an end of it is cut off (hm_buffer_resize()), bytes
 * of before and of after that are in no copy together: it waits for the end of a cut of them
 * that is under way, and is made again after one, for a second at most. Of a buffer that
 * another process owns the size is read anew before and after: bytes that the owner has cut
 * off are -ERANGE, and not zeros. A device of "sim" and a DRM node are asked afterwards whether
 * they are there still (hetmap/lost.h), which is a system call: -ENODEV, and not zeros. Any
 * thread, any stack. Where the thread blocks SIGBUS or
 * SIGSEGV they are unblocked meanwhile, which takes a look at the mask (one system call)
 * outside of guarded scopes; but as a rule none where a copy begins within 20 ns of the end of
 * the thread's last one, by the CPU's counter (RDTSC, where the kernel itself relied on it when
 * the handler was installed), as no system call fits in there. What a signal's handler changes
 * in the mask that it returns to (uc_sigmask), into a copy, is seen by copies that begin 1 ms
 * after the end of that one. Where a thread that has made a copy has the counter forbidden to
 * itself [PR_SET_TSC(2const)], its next one is SIGSEGV, as clock_gettime() is.
 * A handler of the application's that a fault elsewhere than on a map goes to may jump out
 * of the copy.
 *
 * Errors: -EOPNOTSUPP the handler is not installed; -ENOENT @dst_in_map is in no map;
 * -EAGAIN a map was being changed, or cut off, all the time (or its owner ended in the
 * midst of that where it can't be seen, see hm_buffer_receive()), or 4096 threads or more are
 * in scopes; -EPERM as of hm_guard_begin(); -ERANGE the map ends before, or as HM_FAULT_END;
 * -ENODEV; -EIO; -EHWPOISON; -EACCES: see enum hm_fault_cause; -EINVAL length 0; -E2BIG.
 * Whether another handler is above the library's is not checked: see hm_guard_begin().
 */
HM_API int hm_copy_in(void *dst_in_map, const void *src, uint64_t length,
		      struct hm_fault *fault);

/**
 * hm_copy_out - copy out of a map, with an error instead of a signal
 *
 * As hm_copy_in(); @dst is anywhere, and guarded in a map, too.
 */
HM_API int hm_copy_out(void *dst, const void *src_in_map, uint64_t length,
		       struct hm_fault *fault);

/**
 * hm_guard_begin - open a scope in which faults on maps are errors
 * @guard: [in,out] begun with HM_GUARD_INIT(), of the calling function
 *
 * A macro, in which setjmp() returns: once with 0, or with what forbids a scope;
 * and, after a fault, again with the fault's error, guard->fault filled: then the scope
 * is over, without hm_guard_end(). Variables of the function that were changed inside
 * the scope and are read after a fault have to be volatile [setjmp(3)]; locks that were
 * taken inside stay taken, and no C++ object with a destructor may live in between. It is
 * left by its end or by a fault, never by return, longjmp(), pthread_exit() or an
 * exception.
 *
 *	struct hm_guard guard;
 *	int r;
 *
 *	HM_GUARD_INIT(&guard);
 *	r = hm_guard_begin(&guard);
 *	if (r)
 *		return r;
 *	sum = add_up(map);
 *	return hm_guard_end(&guard);
 *
 * Scopes nest, in one thread and one function each; the innermost one gets the fault.
 * Inside it the thread blocks neither SIGBUS nor SIGSEGV: the outermost one unblocks
 * them and its end blocks them again. A fault elsewhere than on a map is not its. Nor is
 * one in a function of the application's that the library calls inside of the scope (an
 * access hook, a view's or a loss policy's callback): that is as outside of scopes, but
 * for those that it opens itself.
 *
 * Errors: -EOPNOTSUPP the handler is not installed; -EBUSY (of the thread's outermost
 * scope) another handler was installed since: see hm_handler_chained(); -EAGAIN 4096
 * threads or more are in scopes; -EPERM (of the outermost one) the thread's signal mask can't be
 * looked at, or changed, as under a seccomp filter: a fault might end the process; -EINVAL;
 * and of a fault: see enum hm_fault_cause.
 */
#define hm_guard_begin(guard) \
	(setjmp((guard)->env) ? hm_guard_caught(guard) : hm_guard_enter(guard))

/** hm_guard_enter - of hm_guard_begin(), which see. */
HM_API int hm_guard_enter(struct hm_guard *guard);

/** hm_guard_caught - of hm_guard_begin(), which see. */
HM_API int hm_guard_caught(struct hm_guard *guard);

/**
 * hm_guard_end - close the innermost scope
 * @guard: [in] of the same thread
 *
 * Errors: -EINVAL it is not the innermost one of this thread, or over already.
 */
HM_API int hm_guard_end(struct hm_guard *guard);

#ifdef __cplusplus
}
#endif

#endif
