/* SPDX-License-Identifier: MIT */
/*
 * Buffer: bytes in a device. It has a size, not an address; it is the only
 * thing that is resized, and lives while anyone holds a reference.
 */
#ifndef HETMAP_BUFFER_H
#define HETMAP_BUFFER_H

#include <hetmap/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_buffer;

/*
 * hm_buffer_desc.flags
 *
 * PRIVATE: anonymous memory, or a private copy of a file: one map; no export.
 * HUGETLB: pages of the huge pool; base pages, visibly, when it has too few.
 * READ_ONLY: no map of it may ever write.
 * PUBLISH: of a file; the caller keeps to the protocol of hetmap/file.h, without which
 * network file systems give nobody a map to write.
 */
#define HM_BUFFER_PRIVATE (1u << 0)
#define HM_BUFFER_HUGETLB (1u << 1)
#define HM_BUFFER_READ_ONLY (1u << 2)
#define HM_BUFFER_PUBLISH (1u << 3)

enum hm_numa_mode {
	HM_NUMA_DEFAULT = 0,
	HM_NUMA_BIND = 1,       /* only on numa_nodes */
	HM_NUMA_INTERLEAVE = 2, /* page by page over numa_nodes */
	HM_NUMA_PREFERRED = 3,  /* on the one node given, elsewhere if full */
};

/*
 * Which memory, of devices with HM_CAP_PLACE. One that this device can't have is refused;
 * one that is full may become the other: hm_buffer_info.place says so.
 */
enum hm_place {
	HM_PLACE_DEFAULT = 0, /* the device's choice; of a buffer that is there: not known */
	HM_PLACE_DEVICE = 1,  /* the device's own, where CPUs reach it */
	HM_PLACE_SYSTEM = 2,  /* the machine's, which the device reaches */
};

struct hm_buffer_desc {
	uint32_t struct_size;
	uint32_t flags;      /* HM_BUFFER_* */
	uint64_t size;       /* bytes; files: 0 is all from offset to the end */
	uint64_t max_size;   /* growth without moving; 0: size */
	uint64_t offset;     /* files: where the buffer begins; page-aligned */
	const char *name;    /* shown in /proc/self/maps; NULL: "buffer" */
	uint32_t numa_mode;  /* enum hm_numa_mode */
	uint32_t place;      /* enum hm_place, of what is created */
	uint64_t numa_nodes; /* bit n: node n, 0 to 63 */
};

/* Where the bytes are, as the kernel sees them. */
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
	uint32_t flags; /* HM_BUFFER_* that hold, not those asked for */
	uint64_t size;
	uint64_t max_size;
	uint64_t caps;         /* HM_CAP_* of this buffer */
	uint64_t page_size;    /* obtained: 4096, or the huge pool's */
	uint64_t serial;       /* unique in this process, never reused */
	uint32_t backing;      /* enum hm_backing */
	uint32_t generation;   /* changes of address or of object by this process */
	uint32_t segments;     /* device objects it is made of */
	uint32_t maps;         /* alive now */
	uint32_t exported;     /* 1: its object has left the process's hands */
	uint32_t access;       /* HM_READ | HM_WRITE a map may have */
	uint32_t sharing;      /* HM_SHARING_* */
	uint32_t place;        /* enum hm_place: as its objects were made or brought in */
	uint32_t loss;         /* enum hm_loss_policy: hetmap/lost.h */
	uint32_t lost;         /* HM_LOST_* */
	uint64_t bytes_shadow; /* memory that its shadow takes */
	uint32_t sealed;       /* HM_SEALED_*: what hm_buffer_seal obtained */
	/*
	 * Shared ones: changes of size that its owner has begun since it was first sent, which
	 * is the generation that he and all receivers see: what others have gets no other
	 * object. Of two queries that tell the same size a receiver sees by it whether bytes
	 * were cut off between. With HM_SHARING_OWNER_GONE it may be as it was told last.
	 */
	uint32_t owner_resizes;
	uint32_t unheard; /* enum hm_unheard */
	uint32_t reserved;
};

/* hm_buffer_info.sealed */
#define HM_SEALED_MEMORY (1u << 0)    /* nobody writes these bytes any more, anywhere */
#define HM_SEALED_ADDRESSES (1u << 1) /* the maps of then stay where they are for good */

/* hm_buffer_seal flags */
#define HM_SEAL_ADDRESSES (1u << 0) /* mseal(2), where the kernel has it: 6.10 and later */

/* hm_buffer_info.sharing */
#define HM_SHARING_SENT (1u << 0)       /* hm_buffer_send: this process owns it */
#define HM_SHARING_RECEIVED (1u << 1)   /* hm_buffer_receive: another does */
#define HM_SHARING_OWNER_GONE (1u << 2) /* it has ended, or let go of the buffer */

/* hm_buffer_info.lost */
#define HM_LOST_BYTES (1u << 0) /* its device was taken away, and the bytes with it */
#define HM_LOST_SEALED \
	(1u << 1) /* some map has shown the shadow: the next refresh makes another */
#define HM_LOST_STALE (1u << 2) /* the shadow could not be refreshed after a launch */
#define HM_LOST_PART (1u << 3)  /* in some map the handler has replaced blocks (lost.h) */

/*
 * What plain reads find from the time when another process, or the administrator, took the
 * device away until this one hears of it: by the next bracket, copy, launch, fence or query.
 */
enum hm_unheard {
	HM_UNHEARD_NEVER = 0,  /* its device can't go, or that is heard of at once */
	HM_UNHEARD_POLICY = 1, /* what the policy says */
	HM_UNHEARD_ZEROS = 2,  /* zeros, though there is a shadow: no handler that repairs is
				* installed, CPUs reach the bytes in part (HM_CAP_BRACKET), or
				* the driver knows nothing else */
	HM_UNHEARD_DRIVER =
		3, /* what the driver of a DRM node, or the exporter of a dma-buf that
				* was imported, has there: zeros, or a SIGBUS */
};

/* hm_buffer_resize flags */
#define HM_MAY_MOVE (1u << 0)     /* past max_size: the maps may get new addresses */
#define HM_GROW_REPLACE (1u << 1) /* a larger object, copied, same address */
#define HM_GROW_APPEND (1u << 2)  /* a further object behind the old one */

/*
 * hm_buffer_export flags
 *
 * READ_ONLY: the receiver can never write; the host's buffer can then not be
 * punched any more. COALESCE: make several objects one by copying; stays so when
 * the export then fails. DMABUF: a dma-buf, which other devices take in, or nothing;
 * without it what the device exports (hosts: a memfd). It has the pages that the
 * buffer has now, so a buffer of the host's does not shrink afterwards. From then on brackets
 * of its maps tell that dma-buf (DMA_BUF_IOCTL_SYNC), and the buffer has HM_CAP_BRACKET;
 * exported again, it is the same one, or a longer one where the buffer has grown: then
 * brackets tell that one only. It lives as long as the buffer, its pages locked in memory.
 */
#define HM_EXPORT_READ_ONLY (1u << 0)
#define HM_EXPORT_COALESCE (1u << 1)
#define HM_EXPORT_DMABUF (1u << 2)

/**
 * hm_buffer_create - make a buffer of zeroed bytes
 * @device:     [in] with HM_CAP_CREATE
 * @desc:       [in] size from 1 byte; max_size 0 or >= size
 * @ret_buffer: [out] a reference, dropped with hm_buffer_unref()
 *
 * On "host" the bytes are a memfd of max_size (sparse), sealed against
 * shrinking and growing, so that no process can pull pages from under a map
 * [memfd_create(2), fcntl(2) F_ADD_SEALS].
 *
 * Errors: -EINVAL size 0, above max_size or 2^62, an offset, HM_BUFFER_READ_ONLY, or
 * nodes that there are not; -EFBIG above RLIMIT_FSIZE; -EMFILE too many open files
 * (the text names RLIMIT_NOFILE); -ENOMEM; -ENOSPC the device has no room for it;
 * -EOPNOTSUPP the device creates none, or has no such flag or place (the text says
 * what it lacks); -ENODEV the device was taken away.
 */
HM_API int hm_buffer_create(struct hm_device *device, const struct hm_buffer_desc *desc,
			    struct hm_buffer **ret_buffer);

/**
 * hm_buffer_from_file - a regular file, or part of it, as a buffer
 * @device:     [in] with HM_CAP_FROM_FILE: "file"
 * @path:       [in] file to open; or NULL, and then
 * @fd:         [in] an open file; the library keeps a duplicate
 * @desc:       [in, optional] offset, size, flags; NULL: all of it
 * @ret_buffer: [out]
 *
 * Opened for reading and writing, or for reading only where HM_BUFFER_READ_ONLY
 * is passed. Where the file system refuses MAP_SHARED, a reader gets a private
 * map, and hm_buffer_query says so (HM_BACKING_FILE_PRIVATE).
 *
 * On file systems where maps don't show what other machines store (hetmap/file.h), a
 * map to write is refused unless HM_BUFFER_PUBLISH is passed, and one to read only is for
 * files that nobody changes: hm_errmsg() has a sentence on it then.
 *
 * Errors: -ENOENT, -ENOTDIR, -EACCES, -EISDIR, -ELOOP, -EROFS, -ETXTBSY, -EPERM and
 * the others of open(2); -EBADF @fd; -EACCES @fd is open for less than the buffer
 * would give; -ENODATA the file is empty; -EINVAL offset not a multiple of the page
 * size, the range ends beyond the file's end, or it is no regular file (FIFO,
 * device); -EOPNOTSUPP the device opens no files, or has no such flag, or the file is on a
 * network's file system, to be written without HM_BUFFER_PUBLISH; -EMFILE; -ENOMEM.
 */
HM_API int hm_buffer_from_file(struct hm_device *device, const char *path, int fd,
			       const struct hm_buffer_desc *desc,
			       struct hm_buffer **ret_buffer);

/**
 * hm_buffer_export - a file descriptor for the buffer's object
 * @buffer: [in] with HM_CAP_EXPORT
 * @flags:  [in] HM_EXPORT_*
 * @ret_fd: [out] O_CLOEXEC; the caller closes it
 *
 * Errors: -EXDEV made of several objects and HM_EXPORT_COALESCE not passed;
 * -EOPNOTSUPP private memory, or the buffer lacks HM_CAP_READ_ONLY or HM_CAP_DMABUF
 * for these flags (the text has the remedy); -E2BIG more than this kernel makes a
 * dma-buf of; -EPERM a seal forbids it; -EACCES the descriptor that the buffer is of,
 * or the file's or /dev/udmabuf's mode, does not give that; -EMFILE; -EBUSY it was
 * exported with other rights before and its device keeps those (DRM nodes); -EDEADLK
 * from a view's callback; -ENOENT "file", read-only: /proc is not mounted; -ENODEV the
 * device was taken away, or /dev/udmabuf was. HM_EXPORT_COALESCE:
 * hm_buffer_resize's with HM_GROW_REPLACE.
 */
HM_API int hm_buffer_export(struct hm_buffer *buffer, uint32_t flags, int *ret_fd);

/**
 * hm_buffer_import - a buffer around somebody else's object
 * @device:     [in] with HM_CAP_IMPORT
 * @fd:         [in] kept by duplicate. "host": a memfd with F_SEAL_SHRINK, or any
 *              dma-buf that CPUs may map; "heap:NAME", "udmabuf": any such dma-buf;
 *              "drm": a dma-buf
 * @desc:       [in, optional] size (0: all of it), name, HM_BUFFER_READ_ONLY
 * @ret_buffer: [out]
 *
 * Errors: -EPERM the memfd could be truncated under us (seal it with
 * F_SEAL_SHRINK); -EINVAL size beyond the object's, or no such object, or another flag;
 * -EOPNOTSUPP its exporter lets nobody map the dma-buf, the device takes in none, or not
 * that one; -EACCES it was exported read-only, and HM_BUFFER_READ_ONLY was not passed;
 * -EIO its exporter has no page for a touch of the first byte, now; -EBADF @fd; -EMFILE;
 * -ENOMEM; -ENODEV the device was taken away.
 */
HM_API int hm_buffer_import(struct hm_device *device, int fd, const struct hm_buffer_desc *desc,
			    struct hm_buffer **ret_buffer);

/**
 * hm_buffer_send - give another process the buffer
 * @buffer: [in] with HM_CAP_EXPORT
 * @socket: [in] connected, AF_UNIX, SOCK_STREAM or SOCK_SEQPACKET; stays the caller's
 * @flags:  [in] HM_EXPORT_*
 *
 * One message, of which all is sent or nothing: the buffer's descriptor, what it is,
 * a pidfd of its owner, and a control page by which receivers learn of its size, and of
 * the sizes of what else this process has sent. The sender is its owner:
 * he alone resizes it from here on, inside max_size, and its receivers' maps follow.
 * It counts as exported, also when the send then fails. A received buffer may be sent
 * on; its owner stays the same.
 *
 * HM_EXPORT_READ_ONLY: no receiver can ever write, on "host" by a seal of the memory
 * itself (F_SEAL_FUTURE_WRITE), which also keeps this process from making further
 * maps that may be written, and from shrinking the buffer. On "sim" the descriptor
 * can't be opened again. On "file" whoever may write the file may do so by this
 * descriptor, too: only its permissions hold [proc(5), /proc/PID/fd]. On "drm" it is
 * -EOPNOTSUPP, as who may open a node may import what is for reading there, and write it.
 * Who received the buffer to write before keeps that right. A buffer that is read-only
 * here goes with the descriptor that it has.
 *
 * Waits while a blocking socket is full. Any thread, no lock is held meanwhile.
 *
 * Errors: -EAGAIN the socket does not wait and is full, nothing was sent, nor tried
 * again; -EINTR signals kept it from sending; -EPIPE, -ECONNRESET the peer is gone;
 * -ENOTCONN; -EBADF, -ENOTSOCK; -EPROTOTYPE no such socket; -ENOBUFS, -ETOOMANYREFS too
 * much, or too many descriptors, under way; -EOPNOTSUPP private memory, one that a
 * device may cut off ("soft"), or huge pages without HM_EXPORT_READ_ONLY; -EFBIG RLIMIT_FSIZE
 * is less than a control page; -EIO only a part was sent: close the socket; and
 * hm_buffer_export's.
 */
HM_API int hm_buffer_send(struct hm_buffer *buffer, int socket, uint32_t flags);

/**
 * hm_buffer_receive - take a buffer that another process has sent
 * @device:     [in] of the sender's kind, with HM_CAP_IMPORT ("file": HM_CAP_FROM_FILE)
 * @socket:     [in] as for hm_buffer_send
 * @desc:       [in, optional] name; HM_BUFFER_READ_ONLY; max_size: the most that is
 *              taken (0: any), as address space is reserved for it
 * @ret_buffer: [out] dropped with hm_buffer_unref()
 *
 * The sender is not trusted: what the message says is checked against the descriptors
 * that came (size, seals, protection, page size; cache mode where the device tells it, else
 * his word is taken, which is a hint of how fast loads and stores are), and nothing that he can
 * do later makes a touch of memory of this machine fault; a file may be truncated, and of a
 * dma-buf its exporter says what a touch does: a device's may be a SIGBUS once the device
 * is taken away, or moves the bytes out of reach of CPUs. Huge pages are taken only where
 * they are sealed (HM_EXPORT_READ_ONLY) and all there.
 * Each call on the buffer or a map of it looks for the owner's size first; a map of
 * the whole buffer follows it; hm_map_length, hm_pointer_find and launches have the
 * size of the call before. Bytes cut off since then read zeros. On "sim" growth is
 * not seen: the device does not tell how far an object may go. What keeps the maps from
 * following is that call's error, which has done nothing else then: -EPROTO a size that
 * can't be, -EBUSY work did not end within 10 s or a view refused, -EDEADLK from a
 * view's callback, -ENOMEM. It is not repeated below.
 *
 * The bytes stay when the owner ends: see HM_SHARING_OWNER_GONE, which a pidfd of his
 * tells; where he could have none, it is found out where both processes see the same
 * process numbers.
 *
 * After an error other than -EAGAIN, -EINTR and those of desc and of the socket itself a
 * message may have been taken from it: on a SOCK_STREAM one the next may begin anywhere,
 * so close it.
 *
 * Errors: -EAGAIN the socket does not wait, and nothing is there; -EINTR signals kept it
 * from receiving; -ECONNRESET the peer has closed it; -ENOTCONN, -EINVAL it never was
 * connected; -EBADF, -ENOTSOCK; -EPROTOTYPE no such socket; -EPROTO what came is no
 * buffer, or not the one that the message tells of; -EPERM memory or control page could
 * be truncated or punched under us, or has holes that the huge pool can't fill; -E2BIG beyond
 * desc's max_size; -EOPNOTSUPP the device takes none, or not that one; -EINVAL the device knows
 * no such object, or desc; -EACCES the descriptor gives less than the message says; -EISDIR,
 * -ENODATA what came as a file is a directory, or empty; -EMFILE there was no room for the
 * descriptors, which are lost; -ENOMEM; -ENODEV the device was taken away.
 */
HM_API int hm_buffer_receive(struct hm_device *device, int socket,
			     const struct hm_buffer_desc *desc, struct hm_buffer **ret_buffer);

/**
 * hm_buffer_resize - grow or shrink a buffer; its whole maps follow
 * @buffer:   [in]
 * @new_size: [in] bytes, from 1
 * @flags:    [in] HM_MAY_MOVE, HM_GROW_REPLACE or HM_GROW_APPEND
 *
 * A map of the whole buffer keeps its address up to max_size. A map of a part
 * never changes. New bytes are zero, with the rights that the map was made with,
 * and not locked; bytes that were cut off are gone, and so are their rights and
 * locks. What was stored behind the end, in its page, is cleared when it grows, but for
 * memory that was shared read-only, whose seal forbids it; so is what receivers stored into
 * bytes that were cut off, before they heard of it, unless they store there as it grows.
 * Waits for work in flight on the maps it changes, for 10 s at most.
 *
 * Growth with HM_GROW_REPLACE, or past max_size with HM_MAY_MOVE, copies the
 * bytes: what other threads store meanwhile may be lost.
 *
 * A failure leaves the buffer, its maps and their bytes as they were. A shrink
 * over several objects goes one by one: one that fails leaves the size reached.
 * Where the kernel takes an old mapping away and refuses the new one and then the
 * old one, too, the map is lost (the text says so): its range has no access, its
 * generation changes, calls on it are -ENODEV; the buffer still has its bytes.
 *
 * Errors: -EINVAL size 0, or both HM_GROW_*; -ENOSPC past max_size without
 * HM_MAY_MOVE, or the device has no room for it, or for the new object; -EDEADLK from a
 * view's callback; -EBUSY a shrink would cut into a map of a part, or into what was
 * exported as a dma-buf, or the buffer is a file or of huge pages and was sent (a
 * receiver's touch would be a SIGBUS), work did not end in time, a view refused, a
 * map that would move is being written back (hm_map_sync()), the buffer is exported or mapped
 * twice and would need a new object, somebody else resized the file, or it was received, and is
 * its owner's to resize; -EOWNERDEAD it was received, and its owner has ended; -EFBIG above
 * RLIMIT_FSIZE; -ENOMEM (address space, vm.max_map_count, memory), -EAGAIN, -EPERM what was
 * locked can't be locked at a new object; -EOPNOTSUPP the buffer has not the capability; -EPERM
 * a seal forbids it; -ENODEV the device was taken away, or a map of it is lost: unref that
 * first; -EHWPOISON the memory in whose midst private bytes are cut off is broken.
 */
HM_API int hm_buffer_resize(struct hm_buffer *buffer, uint64_t new_size, uint32_t flags);

/**
 * hm_buffer_seal - let nobody write or change the bytes from now on, for good
 * @buffer: [in] of "host", not private, of one object, that may be written here
 * @flags:  [in] HM_SEAL_*
 *
 * The memory itself is sealed (F_SEAL_WRITE), in whatever process it is; there is no way
 * back. Maps keep address, bytes and locks, and may be read only, also by mprotect(2);
 * further maps, exports and receivers likewise. The buffer keeps its size. It waits for
 * work in flight and tells views, as hm_map_protect does. Reading goes on meanwhile; a
 * store during the call is a SIGSEGV, also where the call then fails. A shadow stays
 * (hm_buffer_set_loss).
 *
 * HM_SEAL_ADDRESSES: the mappings of the maps that there are now can't be unmapped,
 * moved or changed any more by anybody in this process, the library included: address
 * space and memory are in use until the process ends, and changes of these maps
 * fail with -EPERM. A kernel without mseal(2) leaves the buffer sealed without it:
 * hm_buffer_info.sealed, and hm_errmsg(), tell.
 *
 * Of one that is sealed already: 0, and nothing is done. A failure leaves everything as
 * it was; a map may be lost as in hm_buffer_resize. But of memory that was exported or sent
 * read-only, or that somebody who has its descriptor gave F_SEAL_FUTURE_WRITE, the kernel makes
 * no writable map again: a failure behind the point of no return, -EBUSY for others who map it
 * as a rule, leaves the buffer and its maps to be read only here (HM_BUFFER_READ_ONLY; the text
 * says so), with their bytes; the call may be made again.
 *
 * Errors: -EBUSY others map the memory so that they may write it, or could come to
 * (receivers, fork children, maps that are not the library's), it is a dma-buf's or
 * was received, work did not end within 10 s, or a view refused; -EOPNOTSUPP the kernel
 * seals no such memory; -EACCES it is read-only here; -EPERM its maker allows no further
 * seals (F_SEAL_SEAL); -EDEADLK from a view's callback; -EMFILE; -ENOMEM; -EAGAIN, -EPERM
 * what was locked can't be locked again; -ENOENT /proc is not mounted; -ENODEV a map of
 * it is lost: unref that first. Source: memfd_create(2), fcntl(2).
 */
HM_API int hm_buffer_seal(struct hm_buffer *buffer, uint32_t flags);

/**
 * hm_buffer_query - what a buffer is now
 * @buffer:   [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors: -E2BIG; -EDEADLK from a view's callback, of the buffer that is being changed.
 */
HM_API int hm_buffer_query(struct hm_buffer *buffer, struct hm_buffer_info *ret_info);

/** hm_buffer_ref - take a reference; returns @buffer. NULL gives NULL. */
HM_API struct hm_buffer *hm_buffer_ref(struct hm_buffer *buffer);

/**
 * hm_buffer_unref - drop a reference; NULL is allowed
 *
 * The bytes go with the last one. Maps hold one each.
 */
HM_API void hm_buffer_unref(struct hm_buffer *buffer);

#ifdef __cplusplus
}
#endif

#endif
