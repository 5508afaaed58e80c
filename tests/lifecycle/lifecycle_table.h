/* SPDX-License-Identifier: MIT */
/*
 * The lifecycles: the states of each kind of object, and the result of each public operation
 * in each state. lifecycle.c has the table as data, builds with DEBUG=1 hold each call against
 * it (lifecycle_check.c), test_lifecycle.c walks it, and `make lifecycle` makes a page of it
 * with the comment at the head of each part (tests/lifecycle/page).
 *
 *   LIFECYCLE_STATE(noun, state, word, meaning)   in the order of the cells below
 *   LIFECYCLE_WORLD(noun, from, to, cause)        without any call of this process
 *   LIFECYCLE_OTHERS(noun, from, to, cause)       by a call of another thread's
 *   LIFECYCLE_FAILED(noun, function, from, to)    also where that call fails
 *   LIFECYCLE_OP(noun, function, variant, capability, (errors besides), cells)
 *
 * A cell, for one call with good arguments:
 *
 *   KEEPS      succeeds, and the state stays
 *   TO(state)  succeeds, and there it is
 *   TO_OR(state)  the same, or it fails with the error of its wait, and moves, too
 *   MAY(state) the same, or the state stays, where something else holds it up
 *   NO(error)  fails with that, and the state stays
 *   NO_TO(error, state)  fails with that, and there it is all the same
 *   NO2(error, error)  likewise, as the device has it
 *   FAILED(error)  fails with the error of its work; here the one that the tests make
 *   EITHER(error)  succeeds or fails, as the device has it
 *   EITHER2(error, error)  likewise, with either error
 *   WAITS      until the change or work is over, then as in the state after it
 *   MAY_WAIT   the same, or succeeds at once, as the device has it
 *   ENDS       takes a reference away: with the last one the object ends
 *   NONE       there is no such call: the state belongs to the object's making or end
 *
 * Errors besides are those of arguments, limits and the device; those that any call may meet
 * (lifecycle.c, common_errors) are not repeated. Without the capability a call that would
 * succeed is -EOPNOTSUPP. tests/lifecycle/page reads this file, too: one entry is its lines up
 * to the closing bracket, and a comment that begins with "----" is a heading and its text.
 */
/* clang-format off */

/* ---- Device
 *
 * A device is gone when it was unplugged, its driver was unbound, or it is out of order for good.
 * Its maps learn of the loss at the first call that the device refuses, except for a call in a
 * view's callback, which holds locks that are in the way. `hm_device_recover` opens the device
 * again; the loss policy of a buffer says which bytes come back (hm_loss(3)).
 *
 * A reset takes nothing away: no policy, callback or recovery has a part in it.
 *
 * | backend | a reset ends | a reset loses |
 * |---|---|---|
 * | `sim`, `soft` | the running work: -ECANCELED where the reset was asked for (`HETSIM_INJECT_RESET`), -ETIMEDOUT for work that ran too long | the bytes that this work was writing are undefined; nothing else, and no map has another generation (`reset` in `tests/loss/test_recover_told.c` and `tests/loss/test_shadow.c`) |
 * | `drm` | the work that other programs submitted to the GPU: the library submits none there | what the driver did not keep, for example VRAM after some resets. Maps stay, and show the bytes that are there. A driver tells the contexts that submitted work, and tells no program that has maps only: the library does not learn of the reset |
 * | `host`, `file`, `heap`, `udmabuf` | nothing: no device is behind them | nothing |
 */

LIFECYCLE_STATE(DEVICE, OPEN, "open", "hm_device_open made it; its driver answers")
LIFECYCLE_STATE(DEVICE, GONE, "gone",
	"it was taken away: unplugged, unbound from its driver, or out of order for good")
LIFECYCLE_STATE(DEVICE, BACK, "back",
	"it is there again, without what was on it; this object is of what it was")
LIFECYCLE_STATE(DEVICE, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_WORLD(DEVICE, OPEN, GONE, "it is taken away")
LIFECYCLE_WORLD(DEVICE, GONE, BACK, "it is plugged in again")
LIFECYCLE_WORLD(DEVICE, BACK, GONE, "it is taken away")

LIFECYCLE_OP(DEVICE, hm_device_query, "", 0, (EBADF, EINVAL, E2BIG),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_device_stats_get, "", 0, (EINVAL, E2BIG),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_device_ref, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(DEVICE, hm_device_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS)
LIFECYCLE_OP(DEVICE, hm_buffer_create, "", HM_CAP_CREATE, (EBADF, EINVAL, EOPNOTSUPP, EFBIG, ENOSPC,
		E2BIG),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_buffer_from_file, "", HM_CAP_FROM_FILE, (EPERM, EINVAL, EOPNOTSUPP, ENOENT,
		EACCES, EISDIR, ELOOP, ENODATA, EBADF, EFBIG, ENOTDIR, EROFS, ETXTBSY, ENXIO,
		ENAMETOOLONG),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_buffer_import, "", HM_CAP_IMPORT, (EPERM, EINVAL, EOPNOTSUPP, EBADF, EACCES,
		EFBIG, ENOTTY, EBUSY, EIO),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_buffer_receive, "", 0, (EPERM, EINVAL, EOPNOTSUPP, ECONNRESET, ENOTSOCK,
		EPROTOTYPE, EPROTO, E2BIG, EACCES, EBADF, EFBIG, ENOTTY, ENODATA, ENOTCONN, EISDIR),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_alloc, "", HM_CAP_CREATE, (EBADF, EINVAL, EOPNOTSUPP, EFBIG, ENOSPC, EACCES,
		EBUSY),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_pool_create, "", HM_CAP_CREATE, (EINVAL, EOPNOTSUPP, E2BIG),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_frame_pool_create, "", HM_CAP_CREATE, (EINVAL, EOPNOTSUPP, EOVERFLOW,
		E2BIG, EFBIG, ENOSPC, EACCES, EBUSY, ERANGE),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_frame_import, "", HM_CAP_IMPORT, (EPERM, EINVAL, EOPNOTSUPP, EBADF, EACCES,
		EFBIG, ENOTTY, EBUSY, EIO, ERANGE, EOVERFLOW, E2BIG),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_frame_receive, "", 0, (EPERM, EINVAL, EOPNOTSUPP, ECONNRESET, ENOTSOCK,
		EPROTOTYPE, EPROTO, E2BIG, EACCES, EBADF, EFBIG, ENOTTY, ENODATA, ENOTCONN, EISDIR,
		EIO, EBUSY),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_load_create, "", HM_CAP_CREATE, (EBADF, EINVAL, EOPNOTSUPP, EFBIG, ENOSPC,
		EACCES, ERANGE, EOVERFLOW, ENODATA, ECANCELED),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_sim_call, "", 0, (EPERM, EINVAL, EOPNOTSUPP, ENOENT, ERANGE, EBUSY, EPROTO,
		E2BIG, EBADF, ENOSPC, ETIME, EFAULT, ETIMEDOUT, EEXIST, ENOTTY, EACCES, EOVERFLOW,
		EXDEV, ENXIO, EDEADLK),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DEVICE, hm_drm_view_create, "", 0, (EINVAL, EOPNOTSUPP, ERANGE, EACCES, EFAULT,
		EDEADLK, EBUSY),
	KEEPS, NO(ENODEV), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_FAILED(DEVICE, hm_device_recover, BACK, OPEN)
LIFECYCLE_OP(DEVICE, hm_device_recover, "", 0, (EINVAL, E2BIG, EACCES, EOPNOTSUPP, EPROTO, EDEADLK,
		EBUSY),
	KEEPS, NO(ENODEV), TO(DEVICE_OPEN), NO(EOWNERDEAD))

/* ---- Buffer
 *
 * Sharing goes one way: a buffer that other processes once had never becomes this process's own
 * again. "Sealed" is the memory's own seal, which binds the sender, too; read-only memory that a
 * file or a device exports is "exported". The owner alone changes the size of a received buffer:
 * the maps of this process follow with the next call.
 */

LIFECYCLE_STATE(BUFFER, OWN, "own", "this process made it, and nobody else has it")
LIFECYCLE_STATE(BUFFER, EXPORTED, "exported",
	"a descriptor of its object has left this process's hands")
LIFECYCLE_STATE(BUFFER, PINNED, "pinned",
	"exported as a dma-buf, which keeps the pages of its memfd")
LIFECYCLE_STATE(BUFFER, SEALED, "sealed",
	"exported or sent read-only: its memfd has F_SEAL_FUTURE_WRITE")
LIFECYCLE_STATE(BUFFER, FROZEN, "frozen",
	"hm_buffer_seal: nobody changes its bytes any more, in no process")
LIFECYCLE_STATE(BUFFER, SENT, "sent", "others received it; this process owns it")
LIFECYCLE_STATE(BUFFER, RECEIVED, "received", "another process owns it")
LIFECYCLE_STATE(BUFFER, OWNER_GONE, "owner gone",
	"received, and its owner has ended or let go of it")
LIFECYCLE_STATE(BUFFER, GONE, "gone", "its device was taken away")
LIFECYCLE_STATE(BUFFER, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_WORLD(BUFFER, RECEIVED, OWNER_GONE, "its owner ends")
LIFECYCLE_WORLD(BUFFER, OWN, GONE, "the device is taken away")
LIFECYCLE_WORLD(BUFFER, EXPORTED, GONE, "the device is taken away")
LIFECYCLE_WORLD(BUFFER, SENT, GONE, "the device is taken away")
LIFECYCLE_WORLD(BUFFER, RECEIVED, GONE, "the device is taken away")
LIFECYCLE_WORLD(BUFFER, OWNER_GONE, GONE, "the device is taken away")

LIFECYCLE_OTHERS(BUFFER, GONE, OWN, "hm_device_recover")

LIFECYCLE_OP(BUFFER, hm_buffer_query, "", 0, (EINVAL, E2BIG, EPROTO, EDEADLK, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_stats_get, "", 0, (EINVAL, E2BIG),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_ref, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(BUFFER, hm_buffer_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS)
LIFECYCLE_OP(BUFFER, hm_buffer_export, "", HM_CAP_EXPORT, (EINVAL, EXDEV, EOPNOTSUPP, E2BIG, EBUSY,
		EDEADLK, EACCES, EPROTO, ENOENT, ENODEV),
	TO(BUFFER_EXPORTED), KEEPS, KEEPS, KEEPS, EITHER(EPERM), KEEPS, KEEPS, KEEPS, NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_export, "read-only", HM_CAP_READ_ONLY, (EINVAL, EXDEV, EOPNOTSUPP,
		E2BIG, EBUSY, EDEADLK, EACCES, EPROTO, ENOENT, ENODEV),
	TO(BUFFER_SEALED), TO(BUFFER_SEALED), TO(BUFFER_SEALED), KEEPS, KEEPS, TO(BUFFER_SEALED),
	KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_export, "dma-buf", HM_CAP_DMABUF, (EINVAL, EXDEV, EOPNOTSUPP, E2BIG,
		EBUSY, EDEADLK, EACCES, EPROTO, ENOENT, ENODEV),
	TO(BUFFER_PINNED), TO(BUFFER_PINNED), KEEPS, NO(EPERM), NO(EPERM), KEEPS, KEEPS, KEEPS,
	NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_send, "", HM_CAP_EXPORT, (ENOBUFS, EINVAL, EPIPE, ECONNRESET,
		ENOTCONN, ENOTSOCK, EPROTOTYPE, ETOOMANYREFS, EOPNOTSUPP, EXDEV, EFBIG, EDEADLK,
		EBUSY, EACCES, E2BIG, EBADF, EPROTO, ENOENT, ENODEV),
	TO(BUFFER_SENT), TO(BUFFER_SENT), TO(BUFFER_SENT), KEEPS, EITHER(EPERM), KEEPS, KEEPS,
	KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_send, "read-only", HM_CAP_READ_ONLY, (ENOBUFS, EINVAL, EPIPE,
		ECONNRESET, ENOTCONN, ENOTSOCK, EPROTOTYPE, ETOOMANYREFS, EOPNOTSUPP, EXDEV, EFBIG,
		EDEADLK, EBUSY, EACCES, E2BIG, EBADF, EPROTO, ENOENT, ENODEV),
	TO(BUFFER_SEALED), TO(BUFFER_SEALED), TO(BUFFER_SEALED), KEEPS, KEEPS, TO(BUFFER_SEALED),
	KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, OWN, EXPORTED)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, OWN, SEALED)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, EXPORTED, SEALED)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, OWN, SENT)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, EXPORTED, SENT)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, PINNED, SENT)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, PINNED, SEALED)
LIFECYCLE_FAILED(BUFFER, hm_buffer_send, SENT, SEALED)
LIFECYCLE_OP(BUFFER, hm_buffer_resize, "to grow", HM_CAP_RESIZE, (EINVAL, ENOSPC, EDEADLK, EBUSY,
		EFBIG, EOPNOTSUPP, EPROTO, EACCES, ENODEV, EPERM),
	KEEPS, KEEPS, KEEPS, KEEPS, NO(EOPNOTSUPP), KEEPS, NO(EBUSY), NO(EOWNERDEAD), NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_resize, "to shrink", HM_CAP_RESIZE, (EINVAL, EDEADLK, EBUSY,
		EOPNOTSUPP, EPROTO, EACCES, ENODEV, ENOSPC, EHWPOISON),
	KEEPS, EITHER(EBUSY), NO(EBUSY), NO(EPERM), NO(EOPNOTSUPP), EITHER(EBUSY), NO(EBUSY),
	NO(EOWNERDEAD), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_resize, "to the size it has", 0, (EINVAL, ENODEV),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_resize, "HM_GROW_REPLACE", HM_CAP_REPLACE, (EINVAL, ENOSPC, EDEADLK,
		EBUSY, EFBIG, EOPNOTSUPP, EPROTO, EACCES, ENODEV, EPERM),
	KEEPS, NO(EBUSY), NO(EBUSY), NO(EBUSY), NO(EOPNOTSUPP), NO(EBUSY), NO(EBUSY),
	NO(EOWNERDEAD), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_map_create, "to read", 0, (EPERM, EINVAL, ERANGE, EACCES, EBUSY, EOPNOTSUPP,
		EDEADLK, EPROTO, EFAULT, ENODEV, EOVERFLOW, EHWPOISON, EIO),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_map_create, "to write", HM_CAP_WRITE, (EPERM, EINVAL, ERANGE, EACCES, EBUSY,
		EOPNOTSUPP, EDEADLK, EPROTO, EFAULT, ENODEV, EOVERFLOW, EHWPOISON, EIO),
	KEEPS, KEEPS, KEEPS, NO(EPERM), NO(EACCES), KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_set_loss, "", 0, (EINVAL, EOPNOTSUPP, EFBIG, EDEADLK, E2BIG, EPROTO,
		EACCES, ENOSPC),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_shadow, "", 0, (EINVAL, EOPNOTSUPP, ERANGE, EPROTO, EFBIG, EDEADLK,
		ENOSPC, ENODEV),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_sim_buffer, "", 0, (EINVAL, EOPNOTSUPP, EXDEV, EDEADLK),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_drm_buffer_handle, "", 0, (EINVAL, EOPNOTSUPP, ERANGE, EACCES, E2BIG,
		EDEADLK),
	TO(BUFFER_EXPORTED), KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(BUFFER, hm_buffer_seal, "", 0, (EINVAL, EBUSY, EOPNOTSUPP, EACCES, EDEADLK, ENOENT,
		EPERM, EPROTO, ENODEV),
	TO(BUFFER_FROZEN), TO(BUFFER_FROZEN), NO(EBUSY), TO(BUFFER_FROZEN), KEEPS,
	TO(BUFFER_FROZEN), NO2(EBUSY, EOPNOTSUPP), NO2(EBUSY, EOPNOTSUPP), NO(ENODEV),
	NO(EOWNERDEAD))

/* ---- Map
 *
 * "Changing" lasts from the moment a change has frozen the map until it thaws. Other changes and
 * queries of the map wait, launches are refused, and readers and writers of the bytes notice
 * nothing, except the loss of what the change takes away. In a callback of a view the same calls
 * would wait for themselves: -EDEADLK. "In flight" means work that writes; work that only reads
 * holds up changes, not readers.
 *
 * A lost map keeps its address and its rights. Reading it after a device was taken away is no
 * fault. A store is none either, unless the kernel had no memory left to promise for it, as can
 * happen under `vm.overcommit_memory=2`: that store is a SIGSEGV until the device is recovered.
 * Where another process took the device away, plain reads meet the loss before the library has
 * heard of it: `hm_buffer_info.unheard` tells the bytes that such reads find; on `sim` these are
 * the shadow's, where there is a shadow and the handler is installed. `hm_device_recover` maps the
 * bytes again when it brings the buffer back. Otherwise the caller must unref the map, and map the
 * buffer, or a buffer of the next device, anew.
 */

LIFECYCLE_STATE(MAP, MAPPED, "mapped",
	"its bytes are at its address, with the rights that it was made with")
LIFECYCLE_STATE(MAP, NARROWED, "narrowed",
	"a protection or an open scope has taken rights away: here all of them")
LIFECYCLE_STATE(MAP, BRACKETED, "bracketed", "hm_map_begin_cpu without its end")
LIFECYCLE_STATE(MAP, IN_FLIGHT, "in flight", "submitted work writes to it, until that work's fence")
LIFECYCLE_STATE(MAP, POISONED, "poisoned",
	"a fault was repaired: a block of 2 MiB has other bytes than its buffer, and the fences "
	"of work on it are -EIO")
LIFECYCLE_STATE(MAP, CHANGING, "changing", "another thread resizes it or changes its rights")
LIFECYCLE_STATE(MAP, CALLBACK, "in a callback", "the same, asked by a callback of a view of it")
LIFECYCLE_STATE(MAP, LOST, "lost",
	"its device was taken away, or a change failed and could not be undone; the next "
	"generation")
LIFECYCLE_STATE(MAP, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_OTHERS(MAP, MAPPED, CHANGING, "another thread, or its device, changes it")
LIFECYCLE_OTHERS(MAP, NARROWED, CHANGING, "another thread, or its device, changes it")
LIFECYCLE_OTHERS(MAP, BRACKETED, CHANGING, "another thread, or its device, changes it")
LIFECYCLE_OTHERS(MAP, IN_FLIGHT, CHANGING, "another thread, or its device, changes it")
LIFECYCLE_OTHERS(MAP, POISONED, MAPPED, "hm_device_recover")
LIFECYCLE_OTHERS(MAP, POISONED, NARROWED, "hm_device_recover")
LIFECYCLE_OTHERS(MAP, POISONED, CHANGING, "another thread, or its device, changes it")
LIFECYCLE_OTHERS(MAP, CHANGING, CALLBACK, "the change tells a view")
LIFECYCLE_WORLD(MAP, IN_FLIGHT, MAPPED, "the work is done")
LIFECYCLE_WORLD(MAP, IN_FLIGHT, NARROWED, "the work is done")
LIFECYCLE_WORLD(MAP, IN_FLIGHT, BRACKETED, "the work is done")
LIFECYCLE_WORLD(MAP, MAPPED, POISONED, "a fault is repaired")
LIFECYCLE_WORLD(MAP, NARROWED, POISONED, "a fault is repaired")
LIFECYCLE_WORLD(MAP, BRACKETED, POISONED, "a fault is repaired")
LIFECYCLE_WORLD(MAP, IN_FLIGHT, POISONED, "a fault is repaired")
LIFECYCLE_WORLD(MAP, MAPPED, LOST, "the device is taken away")
LIFECYCLE_WORLD(MAP, NARROWED, LOST, "the device is taken away")
LIFECYCLE_WORLD(MAP, BRACKETED, LOST, "the device is taken away")
LIFECYCLE_WORLD(MAP, IN_FLIGHT, LOST, "the device is taken away")
LIFECYCLE_WORLD(MAP, POISONED, LOST, "the device is taken away")
LIFECYCLE_WORLD(MAP, CHANGING, LOST, "the change can't be undone")
LIFECYCLE_WORLD(MAP, CHANGING, MAPPED, "the change is over")
LIFECYCLE_WORLD(MAP, CHANGING, NARROWED, "the change is over")
LIFECYCLE_WORLD(MAP, CHANGING, BRACKETED, "the change is over")
LIFECYCLE_WORLD(MAP, CHANGING, IN_FLIGHT, "the change is over")
LIFECYCLE_WORLD(MAP, CALLBACK, CHANGING, "the callback returns")
LIFECYCLE_OTHERS(MAP, LOST, MAPPED, "hm_device_recover")
LIFECYCLE_OTHERS(MAP, LOST, NARROWED, "hm_device_recover")

LIFECYCLE_OP(MAP, hm_map_address, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(MAP, hm_map_length, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(MAP, hm_map_query, "", 0, (EINVAL, E2BIG, ENOENT, EPROTO, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_protect, "to take rights away", HM_CAP_PROTECT, (EINVAL, ERANGE, EACCES,
		EBUSY, EOPNOTSUPP, EPROTO, EPERM),
	TO(MAP_NARROWED), KEEPS, KEEPS, WAITS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_protect, "to give them back", HM_CAP_PROTECT, (EINVAL, ERANGE, EACCES,
		EBUSY, EOPNOTSUPP, EPROTO, EPERM),
	KEEPS, MAY(MAP_MAPPED), KEEPS, WAITS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_protect_begin, "", HM_CAP_PROTECT, (EINVAL, ERANGE, EACCES, EBUSY,
		EOPNOTSUPP, EPROTO, EPERM),
	MAY(MAP_NARROWED), KEEPS, KEEPS, WAITS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_lock, "", HM_CAP_LOCK, (EINVAL, ERANGE, EACCES, EOPNOTSUPP, EPROTO, EPERM,
		EBUSY),
	KEEPS, NO(EACCES), KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_unlock, "", 0, (EINVAL, ERANGE, EPROTO, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_advise, "", 0, (EINVAL, ERANGE, EOPNOTSUPP, EPROTO, EBADF, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_prefetch, "", HM_CAP_POPULATE, (EINVAL, ERANGE, EACCES, EFAULT, EOPNOTSUPP,
		EPROTO, EHWPOISON, EBUSY),
	KEEPS, NO(EACCES), KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_sync, "", 0, (EINVAL, ERANGE, ENOSPC, EDQUOT, EPROTO, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, NO(EIO), WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_persist, "", HM_CAP_PERSIST, (EINVAL, ERANGE, ENOSPC, EDQUOT, EPROTO,
		EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, NO(EIO), MAY_WAIT, EITHER(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_file_publish, "", 0, (EINVAL, ERANGE, EOPNOTSUPP, ENOSPC, EDQUOT, ESTALE,
		EPROTO, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, NO(EIO), WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_file_refresh, "", 0, (EINVAL, ERANGE, EOPNOTSUPP, ENOLCK, ESTALE, EPROTO,
		EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, NO(EIO), WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_begin_cpu, "", 0, (EINVAL, ERANGE, ETIMEDOUT, EINPROGRESS, ENOSPC, EDEADLK,
		EFAULT, ENODEV, EPROTO, EBUSY, EACCES, ECANCELED, EOVERFLOW),
	TO(MAP_BRACKETED), NO(EACCES), KEEPS, WAITS, NO(EIO), MAY_WAIT, EITHER(EDEADLK), NO(ENODEV),
	NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_map_end_cpu, "", 0, (EINVAL, ERANGE, ETIMEDOUT, ENOSPC, EDEADLK, ENODEV,
		EPROTO, EACCES),
	NO(EINVAL), NO(EINVAL), MAY(MAP_MAPPED), NO(EINVAL), NO(EINVAL), NO(EINVAL), NO(EINVAL),
	NO(EINVAL), NO(EOWNERDEAD))
LIFECYCLE_FAILED(MAP, hm_map_end_cpu, BRACKETED, MAPPED)
LIFECYCLE_FAILED(MAP, hm_map_end_cpu, BRACKETED, NARROWED)
LIFECYCLE_OP(MAP, hm_map_ref, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(MAP, hm_map_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS, ENDS)
LIFECYCLE_OP(MAP, hm_view_create, "", 0, (EINVAL, ERANGE, E2BIG, EPROTO, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_combine_create, "", 0, (EINVAL, E2BIG, EACCES, EPROTO, EDEADLK, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_tiering_create, "", 0, (EINVAL, E2BIG, EOPNOTSUPP, EPROTO, EBUSY, EDEADLK),
	EITHER2(ENODEV, EOPNOTSUPP), EITHER2(ENODEV, EOPNOTSUPP), EITHER2(ENODEV, EOPNOTSUPP),
	EITHER2(ENODEV, EOPNOTSUPP), EITHER2(ENODEV, EOPNOTSUPP), EITHER2(ENODEV, EBUSY),
	EITHER2(ENODEV, EBUSY), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_drm_view_create, "", 0, (EINVAL, EOPNOTSUPP, ERANGE, EACCES, EFAULT, EPROTO,
		EBUSY, ENODEV),
	KEEPS, NO(EACCES), KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_buffer_resize, "to shrink", HM_CAP_RESIZE, (0),
	KEEPS, KEEPS, KEEPS, WAITS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_pointer_find, "", 0, (EINVAL),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, EITHER(ENOENT))
LIFECYCLE_OP(MAP, hm_pointer_query, "", 0, (EINVAL, E2BIG, EOPNOTSUPP),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, EITHER(ENOENT))
LIFECYCLE_OP(MAP, hm_accel_way_in, "", 0, (EINVAL, ENOENT, E2BIG, EOPNOTSUPP, ERANGE, ENOSPC,
		EEXIST, EBUSY),
	KEEPS, KEEPS, KEEPS, KEEPS, KEEPS, WAITS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_queue_fill, "of its bytes", 0, (EINVAL, EFAULT, ERANGE, EACCES),
	TO(MAP_IN_FLIGHT), NO(EACCES), TO(MAP_IN_FLIGHT), KEEPS, KEEPS, NO(EBUSY), NO(EBUSY),
	NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_queue_copy, "of its bytes", 0, (EINVAL, EFAULT, ERANGE, EACCES),
	TO(MAP_IN_FLIGHT), NO(EACCES), TO(MAP_IN_FLIGHT), KEEPS, KEEPS, NO(EBUSY), NO(EBUSY),
	NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_queue_launch, "on its bytes", 0, (EINVAL, EFAULT, ERANGE, EACCES, E2BIG,
		ENOEXEC, EOPNOTSUPP),
	TO(MAP_IN_FLIGHT), NO(EACCES), TO(MAP_IN_FLIGHT), KEEPS, KEEPS, NO(EBUSY), NO(EBUSY),
	NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(MAP, hm_copy_in, "", 0, (ENOENT, ERANGE, EHWPOISON, EACCES, ENODEV, EOPNOTSUPP, EPROTO,
		EBUSY, EDEADLK, EPERM),
	KEEPS, NO(EACCES), KEEPS, KEEPS, NO(EIO), KEEPS, KEEPS, NO(ENODEV), NO2(EOWNERDEAD, ENOENT))
LIFECYCLE_OP(MAP, hm_copy_out, "", 0, (ENOENT, ERANGE, EHWPOISON, EACCES, ENODEV, EOPNOTSUPP,
		EPROTO, EBUSY, EDEADLK, EPERM),
	KEEPS, NO(EACCES), KEEPS, KEEPS, NO(EIO), KEEPS, KEEPS, NO(ENODEV), NO2(EOWNERDEAD, ENOENT))

/* ---- Protection scope
 *
 * From hm_map_protect_begin to hm_map_protect_end. Scopes overlap, nest and end in any order. The
 * scope of a lost map ends all the same, with an error that says so: the rights that the scope
 * took are given back to the bytes that the map shows now, and to those that a recovery brings
 * back.
 */

LIFECYCLE_STATE(SCOPE, OPEN, "open", "it takes rights of its range away")
LIFECYCLE_STATE(SCOPE, CALLBACK, "in a callback",
	"its map is being changed, asked by a callback of a view of it")
LIFECYCLE_STATE(SCOPE, LOST, "lost", "its map is lost")
LIFECYCLE_STATE(SCOPE, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_OTHERS(SCOPE, OPEN, CALLBACK, "its map is changed")
LIFECYCLE_WORLD(SCOPE, CALLBACK, OPEN, "the callback returns")
LIFECYCLE_WORLD(SCOPE, OPEN, LOST, "the device is taken away")
LIFECYCLE_OTHERS(SCOPE, LOST, OPEN, "hm_device_recover")

LIFECYCLE_OP(SCOPE, hm_map_protect_end, "", 0, (EBUSY, EPERM),
	ENDS, NO(EDEADLK), NO(ENODEV), NO(EOWNERDEAD))

/* ---- Bracket
 *
 * From hm_map_begin_cpu to hm_map_end_cpu. Brackets nest, exclude no other access, and end with
 * the map at the latest. The end of a bracket reports a right that was taken away while the
 * bracket was open, unless the right is back by then: a store meanwhile was a SIGSEGV, so no store
 * is lost unseen.
 *
 * Brackets and locks belong to one process and end with it, however it ends; other processes that
 * share the buffer wait for none of them. The count that the exporter of a dma-buf keeps is the
 * exporter's own: the kernel tells it of each begin and end, in the process that asks for it, and
 * of no process's end. hetsim notes the process of each begin. It closes the begins of processes
 * that have ended at the next begin or end on the dma-buf, or at the next reading of the device's
 * counters; `brackets_missed` counts them from then on, and no process can end them. A process
 * ends its own begins first, and then those of another process that still runs. udmabuf, the
 * system heap, i915 and amdgpu count no begins: their sources were read for this.
 */

LIFECYCLE_STATE(BRACKET, CLOSED, "closed", "no bracket of the map is open")
LIFECYCLE_STATE(BRACKET, OPEN, "open", "the CPU may touch the range")
LIFECYCLE_STATE(BRACKET, CUT_OFF, "cut off", "open, and the buffer was shrunk to less")
LIFECYCLE_STATE(BRACKET, WITHDRAWN, "withdrawn", "open, and rights of its range were taken away")
LIFECYCLE_STATE(BRACKET, LOST, "lost", "open, and the map was lost")

LIFECYCLE_WORLD(BRACKET, OPEN, LOST, "the device is taken away")
LIFECYCLE_WORLD(BRACKET, WITHDRAWN, LOST, "the device is taken away")
LIFECYCLE_OTHERS(BRACKET, OPEN, WITHDRAWN, "a protection, a scope or a seal takes rights away")
LIFECYCLE_OTHERS(BRACKET, WITHDRAWN, OPEN, "they are given back")
LIFECYCLE_OTHERS(BRACKET, OPEN, CUT_OFF, "the buffer shrinks")
LIFECYCLE_OTHERS(BRACKET, CUT_OFF, OPEN, "the buffer grows")

LIFECYCLE_OP(BRACKET, hm_map_begin_cpu, "", 0, (0),
	TO(BRACKET_OPEN), KEEPS, NO(ERANGE), NO(EACCES), NO(ENODEV))
LIFECYCLE_OP(BRACKET, hm_map_end_cpu, "", 0, (0),
	NO(EINVAL), TO(BRACKET_CLOSED), TO(BRACKET_CLOSED), NO_TO(EACCES, BRACKET_CLOSED),
	NO_TO(ENODEV, BRACKET_CLOSED))
LIFECYCLE_FAILED(BRACKET, hm_map_end_cpu, OPEN, CLOSED)

/* ---- View
 *
 * hm_view, a caller's own. A view is told of changes, and may refuse them. A view that is ended in
 * a callback of its own hears nothing more, and is released when the change is over.
 */

LIFECYCLE_STATE(VIEW, ATTACHED, "attached", "it is told of each change of its range")
LIFECYCLE_STATE(VIEW, CALLBACK, "in a callback",
	"its map is being changed, asked by a callback of its own")
LIFECYCLE_STATE(VIEW, LOST, "lost", "its map is lost, and it was told")
LIFECYCLE_STATE(VIEW, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_OTHERS(VIEW, ATTACHED, CALLBACK, "its map is changed")
LIFECYCLE_WORLD(VIEW, CALLBACK, ATTACHED, "the callback returns")
LIFECYCLE_WORLD(VIEW, ATTACHED, LOST, "the device is taken away")

LIFECYCLE_OP(VIEW, hm_view_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS)

/* ---- View of a DRM node
 *
 * hm_drm_view, an object of the node. It follows its map; changes of the map are -EBUSY while a
 * handle is held. A release without a hold does nothing.
 */

LIFECYCLE_STATE(DRM_VIEW, ATTACHED, "attached", "the node has an object of the range")
LIFECYCLE_STATE(DRM_VIEW, HELD, "held", "its handle stays, and changes of the map are -EBUSY")
LIFECYCLE_STATE(DRM_VIEW, CUT_OFF, "cut off", "the map has no bytes there any more")
LIFECYCLE_STATE(DRM_VIEW, GONE, "gone", "its node was taken away")
LIFECYCLE_STATE(DRM_VIEW, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_WORLD(DRM_VIEW, ATTACHED, GONE, "the node is taken away")
LIFECYCLE_WORLD(DRM_VIEW, HELD, GONE, "the node is taken away")
LIFECYCLE_OTHERS(DRM_VIEW, ATTACHED, CUT_OFF, "the buffer is shrunk")
LIFECYCLE_OTHERS(DRM_VIEW, CUT_OFF, ATTACHED, "the buffer grows")

LIFECYCLE_OP(DRM_VIEW, hm_drm_view_hold, "", 0, (EINVAL, EBUSY, E2BIG, EFAULT, EACCES, EOPNOTSUPP,
		ENOSPC),
	TO(DRM_VIEW_HELD), KEEPS, NO(ERANGE), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(DRM_VIEW, hm_drm_view_release, "", 0, (0),
	KEEPS, MAY(DRM_VIEW_ATTACHED), KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(DRM_VIEW, hm_drm_view_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS, ENDS)

/* ---- Queue
 *
 * The next launch, copy or fill of a queue waits, once, for the fences that the queue was told to
 * wait for.
 */

LIFECYCLE_STATE(QUEUE, OPEN, "open", "it takes work")
LIFECYCLE_STATE(QUEUE, WAITING, "waiting",
	"hm_queue_wait gave it a fence that its next work begins after")
LIFECYCLE_STATE(QUEUE, GONE, "gone", "its accelerator's device was taken away")
LIFECYCLE_STATE(QUEUE, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_WORLD(QUEUE, OPEN, GONE, "the device is taken away")
LIFECYCLE_WORLD(QUEUE, WAITING, GONE, "the device is taken away")

LIFECYCLE_OP(QUEUE, hm_queue_launch, "", 0, (EINVAL, EFAULT, ERANGE, EACCES, EOWNERDEAD, E2BIG,
		EBUSY, ENOEXEC, EOPNOTSUPP, ENOSPC, EEXIST),
	KEEPS, TO_OR(QUEUE_OPEN), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_queue_launch_list, "", 0, (EINVAL, EFAULT, ERANGE, EACCES, EOWNERDEAD,
		E2BIG, EBUSY, ENOEXEC, EOPNOTSUPP, ENOSPC, EEXIST),
	KEEPS, TO_OR(QUEUE_OPEN), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_queue_copy, "", 0, (EINVAL, EFAULT, ERANGE, EACCES, EOWNERDEAD, EBUSY,
		EOPNOTSUPP, ENOSPC, EEXIST),
	KEEPS, TO_OR(QUEUE_OPEN), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_queue_fill, "", 0, (EINVAL, EFAULT, ERANGE, EACCES, EOWNERDEAD, EBUSY,
		EOPNOTSUPP, ENOSPC, EEXIST),
	KEEPS, TO_OR(QUEUE_OPEN), NO(ENODEV), NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_queue_wait, "", 0, (EINVAL),
	TO(QUEUE_WAITING), KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_sim_queue, "", 0, (EINVAL, EOPNOTSUPP),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(QUEUE, hm_queue_ref, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(QUEUE, hm_queue_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS)

/* ---- Fence
 *
 * -ETIMEDOUT stands for the work's own error, which a fence keeps for good. The work goes on when
 * the last reference to its fence is dropped.
 */

LIFECYCLE_STATE(FENCE, RUNNING, "running", "its work is not done")
LIFECYCLE_STATE(FENCE, DONE, "done", "its work is done, and its maps belong to the CPU")
LIFECYCLE_STATE(FENCE, FAILED, "failed",
	"its work is over, with an error: the device was taken away, the engine reset, ...")
LIFECYCLE_STATE(FENCE, INHERITED, "inherited", "the parent's, seen by a fork child")

LIFECYCLE_WORLD(FENCE, RUNNING, DONE, "the work is done")
LIFECYCLE_WORLD(FENCE, RUNNING, FAILED, "the work fails, or its device is taken away")

LIFECYCLE_OP(FENCE, hm_fence_wait, "0 ns", 0, (EINVAL),
	NO(ETIME), KEEPS, FAILED(ETIMEDOUT), NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_wait, "for ever", 0, (EINVAL),
	WAITS, KEEPS, FAILED(ETIMEDOUT), NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_query, "", 0, (EINVAL, E2BIG),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_fd, "", 0, (EINVAL, EOPNOTSUPP, ENODEV),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_export_dmabuf, "", 0, (EINVAL, EOPNOTSUPP, ENODEV),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_export_syncobj, "", 0, (EINVAL, EOPNOTSUPP, ENOENT, ENOTTY, ENODEV),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_merge, "", 0, (EINVAL),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_frame_fence_add, "", 0, (EINVAL),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_queue_wait, "", 0, (EINVAL),
	KEEPS, KEEPS, KEEPS, NO(EOWNERDEAD))
LIFECYCLE_OP(FENCE, hm_fence_ref, "", 0, (0),
	KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(FENCE, hm_fence_unref, "", 0, (0),
	ENDS, ENDS, ENDS, ENDS)

/* ---- Lock
 *
 * A lock of a range, from hm_map_lock to hm_map_unlock. Locks do not nest, and end with their
 * process. A lock that gave way waits for `hm_lock_restore`.
 */

LIFECYCLE_STATE(LOCK, UNLOCKED, "unlocked", "its pages may be paged out")
LIFECYCLE_STATE(LOCK, LOCKED, "locked", "its pages are kept in RAM")
LIFECYCLE_STATE(LOCK, WAITING, "waiting",
	"it was unlocked for others, or for a smaller budget, and is locked again as there is room")

LIFECYCLE_OTHERS(LOCK, LOCKED, WAITING, "a lock of higher priority")

LIFECYCLE_OP(LOCK, hm_map_lock, "", HM_CAP_LOCK, (EPERM),
	TO(LOCK_LOCKED), KEEPS, NO(ENOMEM))
LIFECYCLE_OP(LOCK, hm_map_unlock, "", 0, (0),
	KEEPS, TO(LOCK_UNLOCKED), TO(LOCK_UNLOCKED))
LIFECYCLE_OP(LOCK, hm_lock_budget_set, "to nothing", 0, (EBUSY),
	KEEPS, TO(LOCK_WAITING), KEEPS)
LIFECYCLE_OP(LOCK, hm_lock_budget_set, "to no limit", 0, (EBUSY),
	KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(LOCK, hm_lock_budget_query, "", 0, (EINVAL, E2BIG, ENOENT),
	KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(LOCK, hm_lock_restore, "without room", 0, (0),
	KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(LOCK, hm_lock_restore, "with room", 0, (0),
	KEEPS, KEEPS, TO(LOCK_LOCKED))

/* ---- Handler of faults
 *
 * The process has one handler.
 */

LIFECYCLE_STATE(HANDLER, ABSENT, "absent",
	"a fault on a map ends the process, or is the application's to handle")
LIFECYCLE_STATE(HANDLER, INSTALLED, "installed",
	"hm_handler_install, more often than hm_handler_remove")
LIFECYCLE_STATE(HANDLER, ABOVE, "another above", "the application has installed one since")
LIFECYCLE_STATE(HANDLER, CHAINED, "chained", "and has promised that it forwards")

LIFECYCLE_WORLD(HANDLER, INSTALLED, ABOVE, "sigaction()")
LIFECYCLE_WORLD(HANDLER, CHAINED, ABOVE, "sigaction()")
LIFECYCLE_WORLD(HANDLER, ABOVE, INSTALLED, "sigaction(): as it was")
LIFECYCLE_WORLD(HANDLER, CHAINED, INSTALLED, "sigaction(): as it was")

LIFECYCLE_OP(HANDLER, hm_handler_install, "", 0, (EINVAL, EBUSY, EDEADLK),
	TO(HANDLER_INSTALLED), KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(HANDLER, hm_handler_remove, "", 0, (EDEADLK),
	NO(EINVAL), MAY(HANDLER_ABSENT), NO(EBUSY), NO(EBUSY))
LIFECYCLE_OP(HANDLER, hm_handler_chained, "", 0, (EINVAL, EDEADLK),
	NO(EINVAL), KEEPS, TO(HANDLER_CHAINED), KEEPS)
LIFECYCLE_OP(HANDLER, hm_handler_query, "", 0, (EINVAL, E2BIG, EDEADLK),
	KEEPS, KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(HANDLER, hm_guard_enter, "", 0, (EINVAL, EPERM),
	NO(EOPNOTSUPP), KEEPS, NO(EBUSY), KEEPS)
LIFECYCLE_OP(HANDLER, hm_copy_in, "", 0, (EINVAL, EPROTO, EBUSY, EDEADLK, EPERM),
	NO(EOPNOTSUPP), KEEPS, KEEPS, KEEPS)
LIFECYCLE_OP(HANDLER, hm_copy_out, "", 0, (EINVAL, EPROTO, EBUSY, EDEADLK, EPERM),
	NO(EOPNOTSUPP), KEEPS, KEEPS, KEEPS)

/* ---- Guarded scope
 *
 * A scope belongs to its thread.
 */

LIFECYCLE_STATE(GUARD, CLOSED, "closed", "not begun, or over")
LIFECYCLE_STATE(GUARD, OPEN, "open",
	"the innermost scope of its thread: a fault on a map is its error")
LIFECYCLE_STATE(GUARD, OUTER, "outer", "another one is open inside it")

LIFECYCLE_WORLD(GUARD, OPEN, CLOSED, "a fault")

LIFECYCLE_OP(GUARD, hm_guard_enter, "", 0, (EINVAL, EBUSY, EOPNOTSUPP, EPERM),
	TO(GUARD_OPEN), NONE, NONE)
LIFECYCLE_OP(GUARD, hm_guard_caught, "after a touch without right", 0, (ENODEV, ERANGE, EHWPOISON),
	NONE, NO(EACCES), NONE)
LIFECYCLE_FAILED(GUARD, hm_guard_caught, OPEN, CLOSED)
LIFECYCLE_OP(GUARD, hm_guard_end, "", 0, (0),
	NO(EINVAL), TO(GUARD_CLOSED), NO(EINVAL))

/* ---- Retirement
 *
 * The way in which objects of this process end: `_unref` itself never fails and never waits for
 * work.
 */

LIFECYCLE_STATE(RETIREMENT, IN_PLACE, "in place",
	"the last reference ends an object before it returns")
LIFECYCLE_STATE(RETIREMENT, DEFERRED, "deferred", "a thread ends it, soon after")

LIFECYCLE_OP(RETIREMENT, hm_retire_set, "HM_RETIRE_DEFER", 0, (EINVAL, E2BIG, EDEADLK, EOPNOTSUPP),
	TO(RETIREMENT_DEFERRED), KEEPS)
LIFECYCLE_OP(RETIREMENT, hm_retire_set, "NULL", 0, (EDEADLK),
	KEEPS, TO(RETIREMENT_IN_PLACE))
LIFECYCLE_OP(RETIREMENT, hm_retire_flush, "", 0, (EDEADLK),
	KEEPS, KEEPS)
LIFECYCLE_OP(RETIREMENT, hm_map_unref, "the last", 0, (0),
	KEEPS, KEEPS)
