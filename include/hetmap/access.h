/* SPDX-License-Identifier: MIT */
/*
 * Access hook: one function of the application. The library asks the hook before an operation
 * opens, makes, maps, changes, shares or runs anything, and the hook may refuse.
 *
 * The thread that made the call runs the hook. The library has checked the call's arguments by
 * then, as far as that needs no lock. The call holds no lock of the library except a reader's,
 * and has done nothing yet, so a refusal leaves everything as it was. The figures in a request
 * are those of that moment. The library does not ask again about the internal steps of a call
 * (the new object of a resize, the host's part of an import). For hm_alloc() the library asks
 * about a create and a map, for hm_realloc() about a resize. hm_device_list() opens each device
 * to describe it, and leaves out the refused devices. hm_device_open(NULL) asks about the
 * device that it opens.
 *
 * A function that is built from other calls of the library asks about each of these calls. For
 * example, a reader, a ring and an array of tokens each open "file", make a buffer of a file
 * and map it. The library asks about every file that it opens by name for reading or writing,
 * each time it opens one, as readers of several files do. A call that only looks at a file
 * (hm_file_system_query()) does not ask. Some calls can do without something that the kernel
 * refuses. A refusal of the hook ends such a call.
 *
 * hm_sim_call() asks about the calls that make, resize, export, import and submit, as far as
 * their arguments tell. The calls that bind, move, show or end something do not ask.
 *
 * A reader may be in use (hm_reader_next() and similar calls) when the library asks about one
 * of its files. In that case the hook must not call on that reader, and must not take a lock
 * that a thread holds while it calls on that reader. If the hook refuses a file to
 * hm_reader_announce(), the library asks again when the file is read, and a refusal is an error
 * then.
 *
 * A hook may call the library, which does not ask about these calls. A hook must not set a
 * hook, and must not leave by longjmp() or pthread_exit(). If the callback of a view makes a
 * call that asks the hook, the rules of that callback hold in the hook, too.
 */
#ifndef HETMAP_ACCESS_H
#define HETMAP_ACCESS_H

#include <hetmap/base.h>

#ifdef __cplusplus
extern "C" {
#endif

enum hm_access_operation {
	HM_ACCESS_OPEN = 0, /* hm_device_open, hm_accel_open */
	HM_ACCESS_CREATE = 1,
	/*
	 * The file is open already, and is closed again on refusal. For hm_ring_create() by a
	 * name, and for hm_safetensors_write() and hm_gguf_write(), the file does not exist
	 * yet: these calls ask for HM_WRITE.
	 */
	HM_ACCESS_FROM_FILE = 2,
	HM_ACCESS_MAP = 3,
	HM_ACCESS_RESIZE = 4,
	HM_ACCESS_PROTECT = 5,
	HM_ACCESS_LOCK = 6,
	HM_ACCESS_EXPORT = 7,
	HM_ACCESS_IMPORT = 8,
	HM_ACCESS_SEND = 9,
	HM_ACCESS_RECEIVE = 10, /* the message has been read, and is gone when refused */
	HM_ACCESS_LAUNCH = 11,  /* hm_queue_launch, _copy, _fill; HETSIM_SUBMIT */
	HM_ACCESS_SEAL = 12,
};

/* Room for operations: later versions have more operations, and this many at most. */
#define HM_ACCESS_MAX 16

/*
 * Question to the hook. Strings are valid until the hook returns. A NULL string does not apply
 * to the operation.
 */
struct hm_access_request {
	uint32_t struct_size; /* set by the library */
	uint32_t operation;   /* enum hm_access_operation */

	/* Caller: this process and thread. */
	uint32_t pid;
	uint32_t thread;
	uint32_t uid; /* effective */
	uint32_t gid; /* effective */

	/* Object of the operation. */
	const char *device; /* name that opens the device: one of several possible names */
	const char *accel;  /* open, launch */
	const char *kernel; /* launch; NULL: a copy or a fill */
	const char *buffer; /* name of the buffer */
	const char *path;   /* from_file, import, receive: as /proc/self/fd has it */
	uint64_t serial;    /* serial of the buffer; 0: not made yet */

	/*
	 * Amounts, in bytes:
	 *   size:           size of the buffer as the operation would make it. For protect and
	 *                   lock it is the size of the map, for launch the bytes of all ranges
	 *                   that the arguments name.
	 *   max_size:       size to which the buffer may grow.
	 *   offset, length: place of the part (map, protect, lock).
	 */
	uint64_t size;
	uint64_t max_size;
	uint64_t offset;
	uint64_t length;
	uint32_t access; /* HM_READ | HM_WRITE that the operation would give */
	uint32_t flags;  /* flags of the call or of its description */

	/* send, receive: the process that made the socket's other end [SO_PEERCRED, unix(7)]. */
	/*
	 * Process number of the peer. 0 means that the peer is unknown, or not in this PID
	 * namespace. In that case peer_uid and peer_gid say nothing, and a peer_uid of 0 is not
	 * root. A hook that refuses some peers must refuse such a peer, too.
	 */
	uint32_t peer_pid;
	uint32_t peer_uid;
	uint32_t peer_gid;
	uint32_t place; /* create: enum hm_place that the caller asks for */
};

#define HM_ACCESS_REASON_MAX 256

/**
 * hm_access_hook - allow or refuse an operation; a function of the application
 * @user:    [in] pointer that was passed to hm_access_hook_set()
 * @request: [in] description of the operation, valid until the hook returns
 * @reason:  [out, optional] room for HM_ACCESS_REASON_MAX bytes, "" at first: a sentence for
 *           hm_errmsg() if the hook refuses
 *
 * If a hook is set and /proc does not tell the path to ask about, the call fails without
 * asking: with -ENOENT if /proc is not mounted, and with -ENAMETOOLONG if the path is too long.
 *
 * Thread safety: many threads may be in the hook at once.
 * Returns: 0 to allow the operation, or a negative errno to refuse it, normally -EACCES. The
 * refused call returns this errno. Any other value refuses with -EACCES.
 */
typedef int hm_access_hook(void *user, const struct hm_access_request *request, char *reason);

/**
 * hm_access_hook_set - set the function to ask from now on, in place of the previous hook
 * @hook: [in] the function; NULL: the library asks no function
 * @user: [in] pointer for each call of the hook; the caller keeps ownership
 *
 * Calls under way in other threads may still ask the previous hook. When this function returns,
 * the previous hook runs in no thread any more, and the library does not call it again. The
 * function therefore waits as long as the previous hook takes. A fork child inherits the hook.
 *
 * Thread safety: any thread, except in a view's callback: a thread in the previous hook may
 * wait for that callback.
 *
 * Errors:
 *   -EDEADLK: a hook made the call; set the hook outside of hooks.
 */
HM_API int hm_access_hook_set(hm_access_hook *hook, void *user);

/* Counters by enum hm_access_operation, since the process started. */
struct hm_access_counters {
	uint32_t struct_size;
	uint32_t operations; /* number of operations that this library knows */
	uint64_t asked[HM_ACCESS_MAX];
	uint64_t refused[HM_ACCESS_MAX];
};

/**
 * hm_access_query - read how often the library asked hooks, and how often hooks refused
 * @ret_counters: [in,out] struct_size set by the caller; filled on success
 *
 * The library reads each counter by itself; together the counters are not a snapshot. A fork
 * child continues the counters of its parent.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_access_query(struct hm_access_counters *ret_counters);

/**
 * hm_access_name - return the name of an operation: "open", "create", ..., as in error texts
 * @operation: [in] enum hm_access_operation
 *
 * Thread safety: any thread.
 * Returns: static text, or NULL past the last operation.
 */
HM_API const char *hm_access_name(uint32_t operation);

#ifdef __cplusplus
}
#endif

#endif
