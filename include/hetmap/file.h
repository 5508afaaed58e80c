/* SPDX-License-Identifier: MIT */
/*
 * Files on other machines: kinds of file systems, and a protocol by which maps on two machines
 * come to show the same bytes.
 *
 * Maps of one machine share one page cache. Over a network each machine has a page cache of its
 * own. On NFS a map keeps showing the pages that it has. While the machine has the file open
 * for writing, as for every writable map, nothing changes that: no read, sync or second open of
 * the file beside the map. On NFS and similar file systems the library therefore refuses a
 * writable map (hm_buffer_from_file()), unless the caller passes HM_BUFFER_PUBLISH. With this
 * flag the caller promises that all machines keep to this protocol:
 *
 * 1. One machine makes the file, of its full size, and writes it out (fsync). A barrier
 *    follows. All machines open and map the file after this barrier.
 * 2. Each writer has parts of its own, which begin at multiples of 2 MiB. The reason is that a
 *    store through a map writes back all of its folio [nfs_vm_page_mkwrite()]. A folio is a
 *    page, or up to 2 MiB if the kernel keeps files of NFS in large folios, as 6.12 does and
 *    6.1 does not. These numbers are for pages of 4 KiB; with pages of 16 or 64 KiB a folio has
 *    up to 32 or 512 MiB. The writer stores its part and calls hm_file_publish().
 * 3. A barrier follows, by any means: MPI, a socket, a file that appears. A writer with an
 *    error must come to the barrier, too, and must report the error there.
 * 4. A reader calls hm_file_refresh(), and reads after that.
 *
 * The barrier is the caller's: the file system has none. All this is known of NFS. Other file
 * systems were not tried, and hm_file_refresh() refuses a file system on which it would do
 * nothing.
 */
#ifndef HETMAP_FILE_H
#define HETMAP_FILE_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Coherence: whether a shared map shows the stores of other machines to the file. */
enum hm_coherence {
	HM_COHERENCE_LOCAL = 0,   /* no other machine has the file system */
	HM_COHERENCE_LOCKS = 1,   /* a cluster's: its own locks keep maps coherent */
	HM_COHERENCE_UNKNOWN = 2, /* depends on the storage behind the file system: FUSE */
	HM_COHERENCE_NONE = 3,    /* no; on NFS the protocol helps, on other systems not */
};

struct hm_file_system_info {
	uint32_t struct_size;
	uint32_t coherence; /* enum hm_coherence */
	uint64_t type;      /* f_type of statfs(2) */
	char name[16];      /* "nfs"; "0x1234" if the type is not in the table */
};

/**
 * hm_file_system_query - describe the file system of a file or folder
 * @path:     [in] file or folder; NULL: use @fd
 * @fd:       [in] an open file or folder, if @path is NULL
 * @ret_info: [in,out] struct_size set by the caller
 *
 * The answer comes from a table of types. File systems that are not in the table count as
 * local. For an overlay, the answer describes the overlay itself, whatever its layers are. For
 * a folder that is mounted when a process enters it, the answer is "autofs", because this call
 * does not enter it.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: no file has the name @path.
 *   -EACCES: the permissions do not allow the access.
 *   -EBADF:  @fd is not an open file.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the other errors of open(2).
 *
 * Source: statfs(2).
 */
HM_API int hm_file_system_query(const char *path, int fd, struct hm_file_system_info *ret_info);

/**
 * hm_file_publish - let other machines see the stores to a range, once they refresh
 * @map:    [in] writable map of a file
 * @offset: [in] bytes, a multiple of the page size
 * @bytes:  [in] likewise, or up to the map's end
 *
 * The call writes the range back and waits for that, as hm_map_sync() does. The call does so on
 * file systems of one machine, too, so that a program needs no second way. For memory without
 * storage the call has nothing to do.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the map is a private copy (HM_BUFFER_PRIVATE, HM_BACKING_FILE_PRIVATE), which
 *                no other process sees; open the file without that flag.
 *   -EIO:        the file system failed, and not all of the range is published. Or bytes of the
 *                range were lost and replaced (hetmap/guard.h): the bytes that the map shows
 *                there are in no file.
 *   -ENOSPC:     the file system is full, and not all of the range is published.
 *   -EDQUOT:     the quota is used up, and not all of the range is published.
 *   -ESTALE:     the server no longer has the file, and not all of the range is published.
 *   -EINVAL:     the range is not page-aligned.
 *   -ERANGE:     the map ends before the end of the range.
 */
HM_API int hm_file_publish(struct hm_map *map, uint64_t offset, uint64_t bytes);

/**
 * hm_file_refresh - let a map show the bytes that other machines have published
 * @map:    [in] map of a file
 * @offset: [in] bytes, a multiple of the page size
 * @bytes:  [in] likewise, or up to the map's end
 *
 * The call takes a read lock on the range and releases it. At this lock NFS drops its pages of
 * the file [fcntl(2), F_OFD_SETLKW]. The call waits while another machine holds a write lock.
 * The kernel may drop other pages of the file, too. At a lock the kernel first writes out the
 * stores of this machine that are not published. The address stays.
 *
 * The call has nothing to do, and returns 0, on file systems of one machine, for private copies
 * that the caller asked for, and for memory. If the coherence is unknown or a cluster's, the
 * call takes the lock, and the effect depends on that file system. The first lock after a start
 * of the server may take as long as the server's grace period, 90 s.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the file system (9p, SMB, AFS, Coda, NCP, OrangeFS) keeps the pages of a map
 *                at a lock, or is not known to drop them, or gave a private copy because it has
 *                no shared maps. Drop the map and its buffer, and open the file again.
 *   -ENOLCK:     the server, or its lock manager, gives no lock. Drop the map and its buffer,
 *                and open the file again.
 *   -EIO:        the file system failed. Or bytes of the range were lost and replaced
 *                (hetmap/guard.h): the map does not show the file there any more.
 *   -ESTALE:     the server no longer has the file.
 *   -ENOTCONN:   fstatfs(2) failed, as on FUSE without its server, so that the file system is
 *                unknown.
 *   -EINVAL:     the range is not page-aligned.
 *   -ERANGE:     the map ends before the end of the range.
 *
 * In addition the other errors of fstatfs(2).
 */
HM_API int hm_file_refresh(struct hm_map *map, uint64_t offset, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
