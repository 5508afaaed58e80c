/* SPDX-License-Identifier: MIT */
/*
 * Buffer: bytes in a device. A buffer has a size, not an address. Buffers are the only objects
 * that are resized. A buffer lives as long as a reference to it exists.
 */
#ifndef HETMAP_BUFFER_H
#define HETMAP_BUFFER_H

#include <hetmap/device.h>
#include <hetmap/tier.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_buffer;

/*
 * hm_buffer_desc.flags
 *
 *   PRIVATE:   anonymous memory, or a private copy of a file. The buffer has one map, and
 *              cannot be exported.
 *   HUGETLB:   pages of the huge page pool. If the pool has too few pages, the buffer gets base
 *              pages, and hm_buffer_query() reports them.
 *   READ_ONLY: no map of the buffer may ever write.
 *   PUBLISH:   for files: the caller promises to keep to the protocol of hetmap/file.h. Without
 *              this promise the library gives no writable map of a file on a network file
 *              system.
 */
#define HM_BUFFER_PRIVATE (1u << 0)
#define HM_BUFFER_HUGETLB (1u << 1)
#define HM_BUFFER_READ_ONLY (1u << 2)
#define HM_BUFFER_PUBLISH (1u << 3)

enum hm_numa_mode {
	HM_NUMA_DEFAULT = 0,
	HM_NUMA_BIND = 1,       /* only on numa_nodes */
	HM_NUMA_INTERLEAVE = 2, /* page by page over numa_nodes */
	HM_NUMA_PREFERRED = 3,  /* on the one node given, elsewhere if that node is full */
	HM_NUMA_WEIGHTED = 4,   /* over numa_nodes in proportion to their bandwidths */
};

/*
 * Memory to use, on devices with HM_CAP_PLACE. The library refuses a place that this device
 * cannot have. If a place is full, the driver may use the other place: hm_buffer_info.place
 * reports the place obtained.
 */
enum hm_place {
	HM_PLACE_DEFAULT = 0, /* the device's choice; in hm_buffer_info: not known */
	HM_PLACE_DEVICE = 1,  /* the device's own memory, within reach of CPUs */
	HM_PLACE_SYSTEM = 2,  /* the machine's memory, within reach of the device */
};

struct hm_buffer_desc {
	uint32_t struct_size;
	uint32_t flags;      /* HM_BUFFER_* */
	uint64_t size;       /* bytes; files: 0 is all bytes from offset to the end */
	uint64_t max_size;   /* bytes to which the buffer grows without moving; 0: size */
	uint64_t offset;     /* files: start of the buffer in the file; page-aligned */
	const char *name;    /* shown in /proc/self/maps; NULL: "buffer" */
	uint32_t numa_mode;  /* enum hm_numa_mode */
	uint32_t place;      /* enum hm_place, for hm_buffer_create */
	uint64_t numa_nodes; /* bit n: node n, 0 to 63 */
	uint32_t tier;       /* enum hm_tier_word; binds to its node, instead of numa_mode */
	uint32_t persist;    /* enum hm_persist: the coarsest unit that is allowed; 0: any */
};

/* Location of the bytes, as the kernel sees it. */
enum hm_backing {
	HM_BACKING_MEMFD = 0,
	HM_BACKING_ANON = 1,
	HM_BACKING_HUGETLB = 2,
	HM_BACKING_FILE = 3,
	HM_BACKING_FILE_PRIVATE = 4,
	HM_BACKING_DEVICE = 5,
};

struct hm_buffer_info {
	uint32_t struct_size;
	uint32_t flags; /* HM_BUFFER_* in force, not those that the caller asked for */
	uint64_t size;
	uint64_t max_size;
	uint64_t caps;         /* HM_CAP_* of this buffer */
	uint64_t page_size;    /* page size obtained: 4096, or the huge pool's */
	uint64_t serial;       /* unique in this process, never reused */
	uint32_t backing;      /* enum hm_backing */
	uint32_t generation;   /* changes of address or of object by this process */
	uint32_t segments;     /* number of device objects */
	uint32_t maps;         /* alive now */
	uint32_t exported;     /* 1: the object has left the hands of this process */
	uint32_t access;       /* HM_READ | HM_WRITE a map may have */
	uint32_t sharing;      /* HM_SHARING_* */
	uint32_t place;        /* enum hm_place, when the objects were made or imported */
	uint32_t loss;         /* enum hm_loss_policy: hetmap/loss.h */
	uint32_t lost;         /* HM_LOST_* */
	uint64_t bytes_shadow; /* memory of the buffer's shadow */
	uint32_t sealed;       /* HM_SEALED_*: the seals that hm_buffer_seal obtained */
	/*
	 * Number of resizes that the owner of a shared buffer has started since it first sent
	 * the buffer. This number is the generation that the owner and all receivers see,
	 * because a shared buffer never gets another object. If two queries report the same
	 * size, the number tells a receiver whether bytes were cut off in between. With
	 * HM_SHARING_OWNER_GONE it may be the number that this process read last.
	 */
	uint32_t owner_resizes;
	uint32_t unheard; /* enum hm_unheard */
	uint32_t persist; /* enum hm_persist: unit that hm_map_persist() makes last */
};

/* hm_buffer_info.sealed */
#define HM_SEALED_MEMORY (1u << 0)    /* no process writes these bytes any more */
#define HM_SEALED_ADDRESSES (1u << 1) /* the maps at the time of the seal never move */

/* hm_buffer_seal flags */
#define HM_SEAL_ADDRESSES (1u << 0) /* mseal(2), on kernels that have it: 6.10 and later */

/* hm_buffer_info.sharing */
#define HM_SHARING_SENT (1u << 0)       /* hm_buffer_send: this process is the owner */
#define HM_SHARING_RECEIVED (1u << 1)   /* hm_buffer_receive: another process is */
#define HM_SHARING_OWNER_GONE (1u << 2) /* the owner has ended, or dropped the buffer */

/* hm_buffer_info.lost */
#define HM_LOST_BYTES (1u << 0)  /* the device was taken away, and the bytes with it */
#define HM_LOST_SEALED (1u << 1) /* a map has shown the shadow: a refresh makes a new one */
#define HM_LOST_STALE (1u << 2)  /* the shadow could not be refreshed after a launch */
#define HM_LOST_PART (1u << 3)   /* in some map the handler has replaced blocks (loss.h) */

/*
 * Bytes that plain reads find after another process, or the administrator, took the device
 * away, until this process hears of the loss. This process hears of the loss by the next
 * bracket, copy, launch, fence or query.
 */
enum hm_unheard {
	/* The device cannot go away, or the library hears of the loss at once. */
	HM_UNHEARD_NEVER = 0,
	/* The bytes that the policy says. */
	HM_UNHEARD_POLICY = 1,
	/*
	 * Zeros, although the buffer has a shadow. The cause is one of three: no handler is
	 * installed, or one with HM_HANDLER_NO_REPAIR (guard.h); "sim" has bar_mb, so that CPUs
	 * reach only a part of the bytes; or the driver knows nothing else.
	 */
	HM_UNHEARD_ZEROS = 2,
	/*
	 * The bytes that the driver of a DRM node, or the exporter of an imported dma-buf,
	 * provides: zeros, or a SIGBUS.
	 */
	HM_UNHEARD_DRIVER = 3,
};

/* hm_buffer_resize flags */
#define HM_MAY_MOVE (1u << 0)     /* past max_size: the maps may get new addresses */
#define HM_GROW_REPLACE (1u << 1) /* a larger object, copied, at the same address */
#define HM_GROW_APPEND (1u << 2)  /* a further object behind the old one */

/*
 * hm_buffer_export flags
 *
 *   READ_ONLY: gives the receiver no way to write. No hole can be punched into a buffer of
 *              "host" any more, so that a shrink fails with -EPERM.
 *   COALESCE:  makes one object of several by copying. The buffer stays that way if the export
 *              then fails.
 *   DMABUF:    returns a dma-buf, which other devices can import, or fails. Without this flag
 *              the device chooses the kind of descriptor ("host": a memfd).
 *
 * A dma-buf has the pages that the buffer has now, so a buffer of "host" cannot shrink
 * afterwards. From then on brackets of the buffer's maps inform that dma-buf
 * (DMA_BUF_IOCTL_SYNC), and the buffer has HM_CAP_BRACKET. A further export returns the same
 * dma-buf. If the buffer has grown, a further export returns a longer dma-buf, and brackets
 * inform only that one. The dma-buf lives as long as the buffer, with its pages locked in
 * memory.
 */
#define HM_EXPORT_READ_ONLY (1u << 0)
#define HM_EXPORT_COALESCE (1u << 1)
#define HM_EXPORT_DMABUF (1u << 2)

/**
 * hm_buffer_create - make a buffer of zeroed bytes
 * @device:     [in] device with HM_CAP_CREATE
 * @desc:       [in] size from 1 byte; max_size 0 or >= size
 * @ret_buffer: [out] a reference, which the caller drops with hm_buffer_unref()
 *
 * On "host" the bytes are a sparse memfd of max_size bytes. The memfd is sealed against
 * shrinking and growing, so that no process can pull pages from under a map [memfd_create(2),
 * fcntl(2) F_ADD_SEALS].
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     size is 0, above max_size or above 2^62; @desc has an offset or
 *                HM_BUFFER_READ_ONLY; or a node does not exist.
 *   -EFBIG:      the size is above RLIMIT_FSIZE; raise that limit.
 *   -EMFILE:     the process has too many open files; raise RLIMIT_NOFILE, which the text
 *                names.
 *   -ENOMEM:     not enough memory is available.
 *   -ENOSPC:     the device has no room for the buffer.
 *   -EOPNOTSUPP: the device creates no buffers, or does not have this flag or place; the text
 *                names the missing thing.
 *   -ENODEV:     the device was taken away.
 */
HM_API int hm_buffer_create(struct hm_device *device, const struct hm_buffer_desc *desc,
			    struct hm_buffer **ret_buffer);

/**
 * hm_buffer_from_file - make a buffer of a regular file, or of a part of it
 * @device:     [in] device with HM_CAP_FROM_FILE: "file"
 * @path:       [in] file to open; NULL: use @fd
 * @fd:         [in] an open file, if @path is NULL; the library keeps a duplicate
 * @desc:       [in, optional] offset, size, flags; NULL: the whole file
 * @ret_buffer: [out] a reference, which the caller drops with hm_buffer_unref()
 *
 * The call opens the file for reading and writing, or for reading only with
 * HM_BUFFER_READ_ONLY. If the file system refuses MAP_SHARED, a reader gets a private map, and
 * hm_buffer_query() reports HM_BACKING_FILE_PRIVATE. The end of a buffer closes a descriptor of
 * the file, which releases all locks of the process on that file by fcntl(2).
 *
 * On some file systems maps do not show the stores of other machines (hetmap/file.h). The
 * library refuses a writable map there unless the caller passes HM_BUFFER_PUBLISH. A read-only
 * map is for files that do not change any more; hm_warning() then has a sentence about this.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT:     no file has the name @path.
 *   -ENOTDIR:    a component of @path is not a directory.
 *   -EACCES:     the permissions of @path do not allow the access, or @fd or a seal of its
 *                memory permits less access than the buffer would give.
 *   -EISDIR:     @path is a directory.
 *   -ELOOP:      @path has too many symbolic links.
 *   -EROFS:      the file system is read-only; pass HM_BUFFER_READ_ONLY.
 *   -ETXTBSY:    the file is a program that is being executed.
 *   -EPERM:      open(2) does not permit the access.
 *   -EBADF:      @fd is not an open file, or was opened with O_PATH.
 *   -ENODATA:    the file is empty.
 *   -EINVAL:     the offset is not a multiple of the page size, the range ends beyond the end
 *                of the file, or the file is not a regular file (FIFO, device).
 *   -EOPNOTSUPP: the device opens no files, or does not have this flag; or the file is on a
 *                network file system, and the buffer would be writable without
 *                HM_BUFFER_PUBLISH.
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 *
 * In addition the other errors of open(2).
 */
HM_API int hm_buffer_from_file(struct hm_device *device, const char *path, int fd,
			       const struct hm_buffer_desc *desc,
			       struct hm_buffer **ret_buffer);

/**
 * hm_buffer_export - return a file descriptor for the buffer's object
 * @buffer: [in] buffer with HM_CAP_EXPORT
 * @flags:  [in] HM_EXPORT_*
 * @ret_fd: [out] O_CLOEXEC; the caller must close it
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EXDEV:      the buffer has several objects; pass HM_EXPORT_COALESCE.
 *   -EOPNOTSUPP: the memory is private, or the buffer lacks HM_CAP_READ_ONLY or HM_CAP_DMABUF
 *                for these flags; the text has the remedy.
 *   -E2BIG:      the buffer is larger than a dma-buf of this kernel can be.
 *   -EPERM:      a seal forbids the export.
 *   -EACCES:     the descriptor that the buffer was made of does not permit the access, or the
 *                mode of the file or of /dev/udmabuf does not.
 *   -EMFILE:     the process has too many open files.
 *   -EBUSY:      the buffer was exported with other rights before, and its device keeps those
 *                (DRM nodes).
 *   -EDEADLK:    a view's callback made the call.
 *   -ENOENT:     "file", read-only: /proc is not mounted.
 *   -ENODEV:     the device, or /dev/udmabuf, was taken away.
 *
 * With HM_EXPORT_COALESCE in addition the errors of hm_buffer_resize() with HM_GROW_REPLACE.
 */
HM_API int hm_buffer_export(struct hm_buffer *buffer, uint32_t flags, int *ret_fd);

/**
 * hm_buffer_import - make a buffer of an object of another process or library
 * @device:     [in] device with HM_CAP_IMPORT
 * @fd:         [in] descriptor of the object; the library keeps a duplicate. "host": a memfd
 *              with F_SEAL_SHRINK, or any dma-buf that CPUs may map; "heap:NAME", "udmabuf":
 *              any such dma-buf; "drm": a dma-buf
 * @desc:       [in, optional] size (0: the whole object), name, HM_BUFFER_READ_ONLY
 * @ret_buffer: [out] a reference, which the caller drops with hm_buffer_unref()
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EPERM:      another process could truncate the memfd; seal it with F_SEAL_SHRINK.
 *   -EINVAL:     the size is beyond the object's, @fd is no such object, or @desc has another
 *                flag.
 *   -EOPNOTSUPP: the exporter of the dma-buf does not let CPUs map it, or the device imports no
 *                dma-bufs, or not this one.
 *   -EACCES:     the descriptor, or a seal of the memory, permits reading only; pass
 *                HM_BUFFER_READ_ONLY. A write-only descriptor can't be mapped at all.
 *   -EIO:        the exporter of the dma-buf has no page now for a touch of the first byte.
 *   -EBADF:      @fd is not an open file, or was opened with O_PATH.
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 *   -ENODEV:     the device was taken away.
 */
HM_API int hm_buffer_import(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
			    struct hm_buffer **ret_buffer);

/**
 * hm_buffer_send - give the buffer to another process
 * @buffer: [in] buffer with HM_CAP_EXPORT
 * @socket: [in] connected, AF_UNIX, SOCK_STREAM or SOCK_SEQPACKET; the caller keeps it
 * @flags:  [in] HM_EXPORT_*
 *
 * The buffer goes in one message, which is sent as a whole or not at all. The message has the
 * buffer's descriptor, a description of the buffer, a pidfd of its owner, and a control page.
 * By the control page receivers learn of the buffer's size, and of the sizes of the other
 * buffers that this process has sent. The sender is the owner of the buffer: from here on only
 * the owner can resize the buffer, inside max_size, and the maps of its receivers follow. The
 * buffer counts as exported, even if the send then fails. A received buffer may be sent on; its
 * owner stays the same.
 *
 * With HM_EXPORT_READ_ONLY no receiver can ever write. The protection depends on the device:
 *
 * - "host": the memory itself is sealed (F_SEAL_FUTURE_WRITE). The seal also keeps this process
 *   from making further writable maps, and from shrinking the buffer.
 * - "sim": the descriptor cannot be opened again.
 * - "file": a process that may write the file may do so by this descriptor, too. Only the
 *   permissions of the file protect its bytes [proc(5), /proc/PID/fd].
 * - "drm": the call fails with -EOPNOTSUPP, because a process that may open a node may import
 *   there an object that is for reading only, and write it.
 *
 * A receiver that got the buffer for writing earlier keeps that right. A buffer that is
 * read-only in this process is sent with its existing descriptor.
 *
 * The call waits while a blocking socket is full.
 *
 * Thread safety: any thread; the call holds no lock while it waits.
 *
 * Errors:
 *   -EAGAIN:       the socket is non-blocking and full; nothing was sent, and the send was not
 *                  repeated. Poll the socket, and call again.
 *   -EINTR:        signals kept the call from sending; call again.
 *   -EPIPE:        the peer is gone.
 *   -ECONNRESET:   the peer is gone.
 *   -ENOTCONN:     the socket is not connected.
 *   -EBADF:        @socket is not an open descriptor.
 *   -ENOTSOCK:     @socket is not a socket.
 *   -EPROTOTYPE:   the socket is of another kind.
 *   -ENOBUFS:      too much data is under way.
 *   -ETOOMANYREFS: too many descriptors are under way.
 *   -EOPNOTSUPP:   the memory is private, a device may cut the memory off ("soft"), or the
 *                  buffer has huge pages and HM_EXPORT_READ_ONLY was not passed.
 *   -EFBIG:        RLIMIT_FSIZE is less than a control page; raise that limit.
 *   -EIO:          only a part of the message was sent; the caller must close the socket.
 *
 * In addition the errors of hm_buffer_export().
 */
HM_API int hm_buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags);

/**
 * hm_buffer_receive - take a buffer that another process has sent
 * @device:     [in] device of the sender's kind, with HM_CAP_IMPORT ("file": HM_CAP_FROM_FILE)
 * @socket:     [in] as for hm_buffer_send(); the caller keeps it
 * @desc:       [in, optional] name; HM_BUFFER_READ_ONLY; max_size: the largest max_size that
 *              the call accepts (0: any), because the call reserves address space for it
 * @ret_buffer: [out] a reference, which the caller drops with hm_buffer_unref()
 *
 * A receiver does not trust the sender. The call compares the message with the received
 * descriptors: size, seals, protection, page size. The call compares the cache mode, too, if
 * the device reports it. If not, the call believes the message: the cache mode is a hint of how
 * fast loads and stores are. Nothing that the sender can do later makes a touch of memory of
 * this machine fault. A file may be truncated, however. The exporter of a dma-buf decides the
 * effect of a touch: memory of a device may be a SIGBUS once the device is taken away, or moves
 * the bytes out of reach of CPUs. The call accepts huge pages only if the pages are sealed
 * (HM_EXPORT_READ_ONLY) and all present.
 *
 * Each call on the buffer, or on a map of it, first reads the owner's size. A map of the whole
 * buffer follows that size. hm_map_length(), hm_pointer_find() and launches use the size that
 * the previous call read. Bytes that the owner has cut off since then read as zeros. On "sim"
 * receivers do not see growth, because the device does not report how far an object may go. If
 * the maps cannot follow, the call fails and has done nothing else: with -EPROTO if the owner
 * has written an impossible size, with -EBUSY if work did not end within 10 s or a view
 * refused, with -EDEADLK in a view's callback, or with -ENOMEM. The comments below do not
 * repeat these errors.
 *
 * The bytes stay when the owner ends. HM_SHARING_OWNER_GONE reports the owner's end, which the
 * library learns by the owner's pidfd. If the owner could have no pidfd, the library learns of
 * the end if both processes see the same process numbers.
 *
 * If the call fails with an error other than -EAGAIN, -EINTR and those of @desc and of the
 * socket itself, it may have taken a message from the socket. On a SOCK_STREAM socket the next
 * message may then begin anywhere, so the caller must close the socket.
 *
 * Thread safety: any thread; the call holds no lock while it waits.
 *
 * Errors:
 *   -EAGAIN:     the socket is non-blocking, and nothing is there. Poll the socket, and call
 *                again.
 *   -EINTR:      signals kept the call from receiving; call again.
 *   -ECONNRESET: the peer has closed the socket.
 *   -ENOTCONN:   the socket was never connected.
 *   -EBADF:      @socket is not an open descriptor.
 *   -ENOTSOCK:   @socket is not a socket.
 *   -EPROTOTYPE: the socket is of another kind.
 *   -EPROTO:     the received message is no buffer, or does not describe the received
 *                descriptors.
 *   -EPERM:      another process could truncate or punch the memory or the control page, or the
 *                memory has holes that the huge page pool cannot fill.
 *   -E2BIG:      the buffer may grow beyond the max_size in @desc.
 *   -EOPNOTSUPP: the device receives no buffers, or not this one.
 *   -EINVAL:     the device knows no such object; @desc has a wrong value; or the socket was
 *                never connected.
 *   -EACCES:     the descriptor permits less than the message says.
 *   -EISDIR:     the received file is a directory.
 *   -ENODATA:    the received file is empty.
 *   -EMFILE:     the process had no room for the descriptors, which are lost; raise
 *                RLIMIT_NOFILE, and have the buffer sent again.
 *   -ENOMEM:     not enough memory is available.
 *   -ENODEV:     the device was taken away.
 */
HM_API int hm_buffer_receive(struct hm_device *device, int socket,
			     const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer);

/**
 * hm_buffer_resize - grow or shrink a buffer; its whole maps follow
 * @buffer:   [in] buffer
 * @new_size: [in] bytes, from 1
 * @flags:    [in] 0, HM_MAY_MOVE, HM_GROW_REPLACE or HM_GROW_APPEND
 *
 * A map of the whole buffer keeps its address up to max_size. A map of a part never changes.
 * New bytes are zero, have the rights that the map was made with, and are not locked. Bytes
 * that are cut off are gone, and so are their rights and locks.
 *
 * Growth clears the rest of the page in which the buffer ended, where CPUs may have stored.
 * Memory that was shared read-only is an exception, because its seal forbids this. Growth also
 * clears the bytes that receivers stored into the part that was cut off before they heard of
 * the cut. A store of a receiver that races with the growth may stay.
 *
 * The call waits for work in flight on the maps it changes, for 10 s at most.
 *
 * Growth with HM_GROW_REPLACE, or past max_size with HM_MAY_MOVE, copies the bytes. Stores that
 * other threads make during the copy may be lost.
 *
 * A failure leaves the buffer, its maps and their bytes as they were, with two exceptions. A
 * shrink over several objects goes object by object, and a failure leaves the size reached. The
 * kernel may also remove an old mapping, refuse the new one, and then refuse the old one, too.
 * In that case the map is lost, and the text says so: its range has no access, its generation
 * changes, and calls on the map fail with -ENODEV. The buffer still has its bytes.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EINVAL:     @new_size is 0, or @flags has both HM_GROW_*.
 *   -ENOSPC:     growth past max_size needs HM_MAY_MOVE; or the device has no room for the
 *                bytes, or for the new object.
 *   -EDEADLK:    a view's callback made the call.
 *   -EBUSY:      a shrink would cut into a map of a part, which must end first; a shrink would
 *                cut into bytes that were exported as a dma-buf; the buffer is a file or of
 *                huge pages and was sent, so that a touch by a receiver would raise SIGBUS;
 *                work did not end in time; a view refused; hm_map_sync() is writing back a map
 *                that would move; the buffer needs a new object, but is exported or mapped
 *                twice; code outside the library resized the file; or the buffer was received,
 *                and only its owner can resize it.
 *   -EOWNERDEAD: the buffer was received, and its owner has ended.
 *   -EFBIG:      the size is above RLIMIT_FSIZE; raise that limit.
 *   -ENOMEM:     address space, vm.max_map_count or memory is used up.
 *   -EAGAIN:     locked bytes cannot be locked at a new object.
 *   -EPERM:      locked bytes cannot be locked at a new object; or a seal forbids the change.
 *   -EOPNOTSUPP: the buffer lacks the capability.
 *   -ENODEV:     the device was taken away, or a map of the buffer is lost; drop the reference
 *                to that map first.
 *   -EHWPOISON:  a shrink would cut private bytes off, and the memory around the cut is broken.
 */
HM_API int hm_buffer_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);

/**
 * hm_buffer_seal - make the bytes read-only in every process, for good
 * @buffer: [in] buffer of "host" that is not private, has one object, and may be written here
 * @flags:  [in] HM_SEAL_*
 *
 * The kernel seals the memory itself (F_SEAL_WRITE), whichever process uses it; no way back
 * exists. Maps keep address, bytes and locks, and allow reading only, also through mprotect(2).
 * The same holds for further maps, exports and receivers. The buffer keeps its size. The call
 * waits for work in flight and informs views, as hm_map_protect() does. Reading goes on during
 * the call. A store during the call raises SIGSEGV, even if the call then fails. A shadow stays
 * (hm_buffer_set_loss()).
 *
 * With HM_SEAL_ADDRESSES the current mappings of the buffer's maps are sealed, too. No code in
 * this process, the library included, can unmap, move or change them any more. Their address
 * space and memory are in use until the process ends, and changes of these maps fail with
 * -EPERM. A kernel without mseal(2) seals the buffer without its addresses:
 * hm_buffer_info.sealed and hm_warning() report this.
 *
 * On a buffer that is sealed already the call returns 0 and does nothing. A failure leaves
 * everything as it was, except that a map may be lost as in hm_buffer_resize(). One further
 * exception is memory that was exported or sent read-only, or that got F_SEAL_FUTURE_WRITE from
 * another holder of its descriptor. The kernel makes no writable map of such memory again. A
 * failure behind the point of no return, as a rule -EBUSY because other maps of the memory
 * exist, leaves the buffer and its maps read-only in this process, with their bytes
 * (HM_BUFFER_READ_ONLY; the text says so). The caller may make the call again.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBUSY:      the memory is mapped elsewhere and may be written there, or could come to be
 *                (receivers, fork children, maps outside the library); the memory belongs to a
 *                dma-buf or was received; work did not end within 10 s; or a view refused.
 *   -EOPNOTSUPP: the kernel cannot seal such memory.
 *   -EACCES:     the buffer is read-only in this process; a process that may write the buffer
 *                can seal it.
 *   -EPERM:      the maker of the memory allows no further seals (F_SEAL_SEAL); or locked bytes
 *                cannot be locked again.
 *   -EDEADLK:    a view's callback made the call.
 *   -EMFILE:     the process has too many open files.
 *   -ENOMEM:     not enough memory is available.
 *   -EAGAIN:     locked bytes cannot be locked again.
 *   -ENOENT:     /proc is not mounted.
 *   -ENODEV:     a map of the buffer is lost; drop the reference to that map first.
 *
 * Source: memfd_create(2), fcntl(2).
 */
HM_API int hm_buffer_seal(struct hm_buffer *buffer, uint32_t flags);

/**
 * hm_buffer_query - describe the current state of a buffer
 * @buffer:   [in] buffer
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG:   struct_size is larger than this library knows.
 *   -EDEADLK: a view's callback made the call on the buffer that is being changed.
 */
HM_API int hm_buffer_query(struct hm_buffer *buffer, struct hm_buffer_info *ret_info);

/** hm_buffer_ref - take a reference, and return @buffer. NULL gives NULL. */
HM_API struct hm_buffer *hm_buffer_ref(struct hm_buffer *buffer);

/**
 * hm_buffer_unref - drop a reference; NULL is allowed
 * @buffer: [in] buffer
 *
 * The bytes go with the last reference. Each map holds one.
 *
 * Thread safety: any thread.
 */
HM_API void hm_buffer_unref(struct hm_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
