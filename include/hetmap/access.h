/* SPDX-License-Identifier: MIT */
/*
 * Access hook: one function of the application that is asked before the library
 * opens, makes, maps, changes, shares or runs anything, and may refuse.
 *
 * It is asked by the thread that made the call, once its arguments have been checked
 * as far as that needs no lock, while the call holds no lock of the library but a
 * reader's, and
 * before it has done anything: what is refused leaves everything as it was. Figures
 * are those of that moment. What a call does inside itself (the new object of a
 * resize, the host's part of an import) is not asked about again; hm_alloc() is a
 * create and a map, hm_realloc() a resize. hm_device_list() opens each device to describe
 * it, and leaves out what is refused; hm_device_open(NULL) asks for the one that it opens.
 *
 * What is made out of other calls of the library asks what they ask: a reader, a ring, an
 * array of tokens opens "file", and then makes a buffer of a file and maps it. Every file
 * that is opened by name to be read or written is asked about, each time that this is done,
 * as readers of several files do it; one that is only looked at (hm_file_system_query) is
 * not. Where a call does without what the kernel refuses, a hook's refusal ends it.
 *
 * hm_sim_call() asks for those calls that make, resize, export, import and submit, with what
 * their arguments tell; what they bind, move, show and end is not asked about.
 *
 * While a reader is used (hm_reader_next and its like), a hook that is asked about one of
 * its files must not call on that reader, nor take a lock that others hold who do. What is
 * refused to hm_reader_announce() is asked about again, and is an error, when it is read.
 *
 * A hook may call the library; what it calls is not asked about. It may neither set a
 * hook nor leave by longjmp() or pthread_exit(), and what holds in a view's callback
 * holds in a hook that such a callback's calls come to.
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
	 * The file is open already, and is closed again. Of hm_ring_create() by a name and of
	 * hm_safetensors_write() it is not there yet: they want to write.
	 */
	HM_ACCESS_FROM_FILE = 2,
	HM_ACCESS_MAP = 3,
	HM_ACCESS_RESIZE = 4,
	HM_ACCESS_PROTECT = 5,
	HM_ACCESS_LOCK = 6,
	HM_ACCESS_EXPORT = 7,
	HM_ACCESS_IMPORT = 8,
	HM_ACCESS_SEND = 9,
	HM_ACCESS_RECEIVE = 10, /* its message is read, and is gone when refused */
	HM_ACCESS_LAUNCH = 11,  /* hm_queue_launch, _copy, _fill; HETSIM_SUBMIT */
	HM_ACCESS_SEAL = 12,
};

/* Room for operations; later versions have more of them, and this many at most. */
#define HM_ACCESS_MAX 16

/* What is asked. Strings are valid until the hook returns; NULL: says nothing here. */
struct hm_access_request {
	uint32_t struct_size; /* set by the library */
	uint32_t operation;   /* enum hm_access_operation */

	/* Who: this process and thread. */
	uint32_t pid;
	uint32_t thread;
	uint32_t uid; /* effective */
	uint32_t gid; /* likewise */

	/* What. */
	const char *device; /* the name that it is opened by, of several that it may have */
	const char *accel;  /* open, launch */
	const char *kernel; /* launch; NULL: a copy or a fill */
	const char *buffer; /* its name */
	const char *path;   /* from_file, import, receive: as /proc/self/fd has it */
	uint64_t serial;    /* of the buffer; 0: not made yet */

	/*
	 * How much, in bytes. size: of the buffer as it would be; protect and lock: of the
	 * map; launch: of all ranges that its arguments name. max_size: what it may grow
	 * to. offset, length: of the part (map, protect, lock).
	 */
	uint64_t size;
	uint64_t max_size;
	uint64_t offset;
	uint64_t length;
	uint32_t access; /* HM_READ | HM_WRITE that somebody would get */
	uint32_t flags;  /* of the call or of its description */

	/* send, receive: who made the other end of the socket [SO_PEERCRED, unix(7)]. */
	/*
	 * 0: unknown, or not in this PID namespace: the others then say nothing, and 0 of
	 * peer_uid is not root. Who refuses somebody has to refuse these, too.
	 */
	uint32_t peer_pid;
	uint32_t peer_uid;
	uint32_t peer_gid;
	uint32_t place; /* create: enum hm_place that is asked for */
};

#define HM_ACCESS_REASON_MAX 256

/**
 * hm_access_hook - the application's function
 * @user:    [in] as it was set
 * @request: [in]
 * @reason:  [out, optional] HM_ACCESS_REASON_MAX bytes, "" at first: a sentence for
 *           hm_errmsg() when it refuses
 *
 * Called by many threads at once.
 *
 * Returns: 0 to allow it, or a negative errno, normally -EACCES, which the call
 * returns then. Anything else refuses with -EACCES. Where there is a hook and /proc does
 * not tell the path that it is to be asked about, the call fails without asking: -ENOENT
 * /proc is not mounted, -ENAMETOOLONG.
 */
typedef int hm_access_hook(void *user, const struct hm_access_request *request, char *reason);

/**
 * hm_access_hook_set - have a function asked from now on, instead of the last one
 * @hook: [in] or NULL: nobody is asked
 * @user: [in] handed to each call
 *
 * Calls under way in other threads may still ask the last one; when this returns it
 * does not run any more, and is not called again. So it waits for as long as that one
 * takes, and is not for a view's callback, which others may wait for. A fork child
 * inherits the hook.
 *
 * Errors: -EDEADLK called by a hook.
 */
HM_API int hm_access_hook_set(hm_access_hook *hook, void *user);

/* By enum hm_access_operation, since the process started. */
struct hm_access_counters {
	uint32_t struct_size;
	uint32_t operations; /* that this library knows */
	uint64_t asked[HM_ACCESS_MAX];
	uint64_t refused[HM_ACCESS_MAX];
};

/**
 * hm_access_query - how often hooks were asked, and refused
 * @ret_counters: [in,out] struct_size set by the caller; filled on success
 *
 * Each counter is read by itself; together they are not a snapshot. A fork child goes
 * on from its parent's.
 *
 * Errors: -E2BIG struct_size is larger than this library knows.
 */
HM_API int hm_access_query(struct hm_access_counters *ret_counters);

/**
 * hm_access_name - "open", "create", ..., as error texts have it
 * @operation: [in] enum hm_access_operation
 *
 * Returns: static text; NULL past the last operation.
 */
HM_API const char *hm_access_name(uint32_t operation);

#ifdef __cplusplus
}
#endif

#endif
