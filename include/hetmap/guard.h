/* SPDX-License-Identifier: MIT */
/*
 * Guards: errors in the place of SIGBUS and SIGSEGV on maps, so that a fault need not end the
 * process.
 *
 * Bytes of a map may become unreachable: a process cuts a file off, storage cannot be reached,
 * a device is taken away, or memory breaks. A touch of such bytes through a map raises SIGBUS.
 * With the handler installed, the touch becomes an error of hm_copy_in(), hm_copy_out() or a
 * guarded scope. Everywhere else the handler replaces the whole block of 2 MiB, with the bytes
 * that the buffer's loss policy says. From then on hm_fence_wait() and brackets fail with -EIO
 * for this block: these calls never succeed over lost data.
 *
 * If a thread blocks SIGBUS and touches such bytes, the kernel ends the process, whatever the
 * handler. Threads of some OpenCL drivers block SIGBUS. The library finds these threads, and
 * copies for them all bytes that may be cut off (HM_WAY_COPY). The thread that submits makes
 * these copies.
 */
#ifndef HETMAP_GUARD_H
#define HETMAP_GUARD_H

#include <setjmp.h>

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* hm_handler_install flags */
/* Faults outside of guards go to the previous handler. */
#define HM_HANDLER_NO_REPAIR (1u << 0)

/* hm_handler_info.above: signals for which another handler is above the library's */
#define HM_HANDLER_SIGBUS (1u << 0)
#define HM_HANDLER_SIGSEGV (1u << 1)

struct hm_handler_info {
	uint32_t struct_size;
	uint32_t installed; /* installations that are not removed yet */
	uint32_t flags;     /* HM_HANDLER_NO_REPAIR */
	uint32_t above;     /* HM_HANDLER_SIGBUS | HM_HANDLER_SIGSEGV */
	uint32_t chained;   /* signals of above with a promise by hm_handler_chained() */
	uint32_t reserved;
	uint64_t guarded;   /* faults that became an error, since the start */
	uint64_t repaired;  /* blocks that were replaced, since the start */
	uint64_t forwarded; /* faults handed to the previous handler, since the start */
};

/* Reason why bytes of a map could not be touched. */
enum hm_fault_cause {
	HM_FAULT_NONE = 0,
	HM_FAULT_END = 1,         /* -ERANGE: past the present end of the file or buffer */
	HM_FAULT_LOST = 2,        /* -ENODEV: device or map is lost, or became so meanwhile */
	HM_FAULT_UNREACHABLE = 3, /* -EIO: storage failed, no CPU access, or cut and grown */
	HM_FAULT_BROKEN = 4,      /* -EHWPOISON: the hardware reports broken memory */
	HM_FAULT_RIGHTS = 5,      /* -EACCES: forbidden by the map or a scope (protect.h) */
	HM_FAULT_REPAIRED = 6,    /* -EIO: replaced after an earlier fault elsewhere */
};

struct hm_fault {
	uint32_t struct_size;
	uint32_t cause; /* enum hm_fault_cause */
	void *address;
	uint64_t offset;     /* bytes from the start of the map to address */
	uint64_t serial;     /* serial of the map's buffer */
	uint32_t generation; /* generation of the map */
	int32_t signal;      /* SIGBUS or SIGSEGV; 0: no signal was raised */
	int32_t code;        /* si_code of the signal [sigaction(2)] */
	uint32_t reserved;
};

/*
 * Scope, on the stack of the function that opens it. All fields except fault belong to the
 * library.
 */
struct hm_guard {
	uint32_t struct_size; /* sizeof(struct hm_guard): HM_GUARD_INIT */
	uint32_t state;
	struct hm_guard *outer;
	struct hm_fault fault; /* fault that ended the scope */
	void *base;            /* base of the map with the fault */
	jmp_buf env;
};

/* Initializes a struct hm_guard. The caller need not initialize the rest of the struct. */
#define HM_GUARD_INIT(guard) ((guard)->struct_size = (uint32_t)sizeof(*(guard)))

/**
 * hm_handler_install - install the handler of faults on maps, for the whole process
 * @flags: [in] HM_HANDLER_*
 *
 * The call installs a handler of SIGBUS and SIGSEGV, with SA_ONSTACK. The previous handler gets
 * faults that are not on a map, as it would have got them without the library, default and
 * SIG_IGN included. The previous handler runs on the thread's alternate stack if the thread has
 * one. The library counts installations: the first call installs the handler, the last
 * hm_handler_remove() ends it. Call this function after all code that installs handlers, such
 * as compilers of OpenCL drivers.
 *
 * The handler runs on any thread and on any stack. However, if a thread blocks SIGBUS and
 * touches lost bytes, the kernel ends the thread with its process, whatever the handler
 * [signal(7)]. hm_copy_*() and guarded scopes unblock SIGBUS while they run. "hetmap doctor"
 * reports the threads of drivers that block it.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:  a flag is unknown.
 *   -EBUSY:   the handler is installed already, with other flags.
 *   -EDEADLK: a view's callback made the call.
 *   -ENOMEM:  not enough memory is available.
 */
HM_API int hm_handler_install(uint32_t flags);

/**
 * hm_handler_remove - undo one hm_handler_install()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:  the handler is not installed.
 *   -EBUSY:   another handler was installed since; remove that handler first. Nothing has
 *             changed.
 *   -EDEADLK: a view's callback made the call.
 */
HM_API int hm_handler_remove(void);

/**
 * hm_handler_chained - promise that the handlers installed since forward faults
 *
 * By this call the application promises that the handlers above the library's call the
 * library's handler for faults that are not their own. The promise does not hold for handlers
 * that are installed later.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:  the handler is not installed, or nothing except the signal's default is above it.
 *   -EDEADLK: a view's callback made the call.
 */
HM_API int hm_handler_chained(void);

/**
 * hm_handler_query - describe the handling of faults, and count the faults
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:   struct_size is larger than this library knows.
 *   -EDEADLK: a view's callback made the call.
 */
HM_API int hm_handler_query(struct hm_handler_info *ret_info);

/**
 * hm_copy_in - copy into a map, with an error in place of a signal
 * @dst_in_map: [in] destination; all @length bytes are in one map, which must live until the
 *              copy returns
 * @src:        [in] source, anywhere; if the source is in a map, that map must live until the
 *              copy returns, and the source is guarded, too
 * @length:     [in] bytes, from 1
 * @fault:      [in,out, optional] struct_size set by the caller; filled if -ERANGE, -ENODEV,
 *              -EIO, -EHWPOISON or -EACCES is about the map's bytes, untouched by other errors
 *
 * The call copies as memcpy() does: it makes no bracket, and does not wait for work in flight.
 * Source and destination must have no byte in common, whether in one map or in two maps of the
 * same bytes. An error may leave part of the bytes copied.
 *
 * A buffer may be cut off during the copy (hm_buffer_resize()). No copy has bytes from before a
 * cut together with bytes from after it. The copy waits for the end of a cut of its bytes that
 * is under way, and starts again after a cut, for a second at most. If another process owns the
 * buffer, the copy reads the size before and after: for bytes that the owner has cut off the
 * copy fails with -ERANGE, and does not return zeros. After the copy the library asks a device
 * of "sim" or a DRM node whether it still exists (hetmap/loss.h), which is a system call. If
 * the device is gone, the copy fails with -ENODEV, and does not return zeros.
 *
 * If the thread blocks SIGBUS or SIGSEGV, the copy unblocks them while it runs. For this the
 * copy must look at the signal mask, which is one system call outside of guarded scopes. As a
 * rule the copy omits this call if it begins within 20 ns of the end of the thread's last copy,
 * because no system call fits into that time. The CPU's counter measures the time (RDTSC, if
 * the kernel itself relied on the counter when the handler was installed).
 *
 * A signal handler that interrupts a copy may change the mask to which it returns (uc_sigmask).
 * Copies that begin 1 ms or more after the end of the interrupted copy see the changed mask. If
 * a thread forbids itself the counter [PR_SET_TSC(2const)] after it has made a copy, its next
 * copy raises SIGSEGV, as clock_gettime() does.
 *
 * A fault that is not on a map goes to the application's handler, which may jump out of the
 * copy.
 *
 * Thread safety: any thread, any stack.
 *
 * Errors:
 *   -EOPNOTSUPP: the handler is not installed; call hm_handler_install() first.
 *   -ENOENT:     @dst_in_map is in no map.
 *   -EOWNERDEAD: the parent made the map before fork().
 *   -EAGAIN:     a map was being changed or cut off during all tries; or its owner ended during
 *                a cut and this process cannot see that, see hm_buffer_receive(); or 4096
 *                threads or more are in scopes. Call again.
 *   -EPERM:      the thread's signal mask cannot be read or changed, see hm_guard_begin().
 *   -ERANGE:     the map ends before the end of the range, or HM_FAULT_END.
 *   -ENODEV:     HM_FAULT_LOST.
 *   -EIO:        HM_FAULT_UNREACHABLE or HM_FAULT_REPAIRED.
 *   -EHWPOISON:  HM_FAULT_BROKEN.
 *   -EACCES:     HM_FAULT_RIGHTS.
 *   -EINVAL:     @length is 0, or source and destination overlap.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * The call does not check whether another handler is above the library's: see hm_guard_begin().
 */
HM_API int hm_copy_in(void *dst_in_map, const void *src, uint64_t length,
		      struct hm_fault *fault);

/**
 * hm_copy_out - copy out of a map, with an error in place of a signal
 * @dst:        [in] destination, anywhere; guarded, too, if the destination is in a map
 * @src_in_map: [in] source; all @length bytes are in one map, which must live until the copy
 *              returns
 * @length:     [in] bytes, from 1
 * @fault:      [in,out, optional] as for hm_copy_in()
 *
 * Promises, thread safety and errors are those of hm_copy_in().
 */
HM_API int hm_copy_out(void *dst, const void *src_in_map, uint64_t length,
		       struct hm_fault *fault);

/**
 * hm_guard_begin - open a scope in which faults on maps are errors
 * @guard: [in,out] scope on the stack of the calling function, initialized by HM_GUARD_INIT()
 *
 * The call is a macro, in which setjmp() returns. The macro returns 0, or the error that
 * forbids a scope. After a fault the macro returns again, with the error of the fault and
 * guard->fault filled. The scope is over then, without hm_guard_end().
 *
 * Variables of the function that change inside the scope and are read after a fault must be
 * volatile [setjmp(3)]. Locks taken inside the scope stay taken. No C++ object with a
 * destructor may live inside the scope. Only hm_guard_end() or a fault may end the scope: the
 * function must not leave the scope by return, longjmp(), pthread_exit() or an exception.
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
 * Scopes nest, and each scope belongs to one thread and one function. The innermost scope of
 * the thread gets the fault. Inside a scope the thread blocks neither SIGBUS nor SIGSEGV: the
 * outermost scope unblocks both signals, and its end blocks them again. A fault that is not on
 * a map does not belong to the scope.
 *
 * The library may call a function of the application inside a scope (an access hook, the
 * callback of a view or of a loss policy). Such a function runs outside of the scope, and may
 * open its own.
 *
 * Thread safety: any thread; each thread has its own scopes.
 *
 * Errors:
 *   -EOPNOTSUPP: the handler is not installed; call hm_handler_install() first.
 *   -EBUSY:      (the thread's outermost scope only) another handler was installed since: see
 *                hm_handler_chained().
 *   -EAGAIN:     4096 threads or more are in scopes.
 *   -EPERM:      (the thread's outermost scope only) the thread's signal mask cannot be read or
 *                changed, for example under a seccomp filter: a fault might end the process.
 *   -EINVAL:     @guard was not initialized by HM_GUARD_INIT().
 *
 * After a fault: the error of the fault, see enum hm_fault_cause.
 */
#define hm_guard_begin(guard) \
	(setjmp((guard)->env) ? hm_guard_caught(guard) : hm_guard_enter(guard))

/** hm_guard_enter - serve hm_guard_begin() alone, which has the documentation. */
HM_API int hm_guard_enter(struct hm_guard *guard);

/** hm_guard_caught - serve hm_guard_begin() alone, which has the documentation. */
HM_API int hm_guard_caught(struct hm_guard *guard);

/**
 * hm_guard_end - close the innermost scope
 * @guard: [in] scope of the same thread
 *
 * Thread safety: the thread that opened the scope.
 *
 * Errors:
 *   -EINVAL: the scope is not the innermost scope of this thread, or is over already.
 */
HM_API int hm_guard_end(struct hm_guard *guard);

#ifdef __cplusplus
}
#endif

#endif
