/* SPDX-License-Identifier: MIT */
/*
 * Files on other machines: which file systems there are, and how maps on two machines come
 * to show the same bytes.
 *
 * Maps of one machine are one page cache. Over a network each machine has its own. On NFS a
 * map goes on showing the pages that it has; and while this machine has the file open for
 * writing, as a map to write does, nothing that is read, synced or opened again beside it
 * changes that. So a map to write is refused there and on its like (hm_buffer_from_file),
 * unless all keep to a protocol, with HM_BUFFER_PUBLISH:
 *
 *   1. one makes the file, of its full size, and writes it out (fsync); a barrier; then all
 *      open and map it;
 *   2. who writes has parts of its own that begin at multiples of 2 MiB: a store through a
 *      map has all of its folio written back [nfs_vm_page_mkwrite()], which is a page, and
 *      up to 2 MiB where the kernel keeps files of NFS in large ones, as 6.12 does and 6.1
 *      does not (that is with pages of 4 KiB; of 16 or 64 KiB: 32 or 512 MiB); it stores,
 *      then hm_file_publish();
 *   3. a barrier, by whatever means: MPI, a socket, a file that appears; who failed comes to
 *      it, too, and says so there;
 *   4. who reads: hm_file_refresh(), then it reads.
 *
 * The barrier between is the caller's: the file system has none. All this is known of NFS;
 * other file systems were not tried, and hm_file_refresh() is refused where it would do
 * nothing.
 */
#ifndef HETMAP_FILE_H
#define HETMAP_FILE_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Does a shared map show what other machines store in the file? */
enum hm_coherence {
	HM_COHERENCE_LOCAL = 0,   /* no other machine has the file system */
	HM_COHERENCE_LOCKS = 1,   /* a cluster's: its own locks see to that */
	HM_COHERENCE_UNKNOWN = 2, /* it depends on what is behind it: FUSE */
	HM_COHERENCE_NONE = 3,    /* no: on NFS by the protocol, on others not */
};

struct hm_file_system_info {
	uint32_t struct_size;
	uint32_t coherence; /* enum hm_coherence */
	uint64_t type;      /* f_type of statfs(2) */
	char name[16];      /* "nfs"; "0x1234" where it is not in the table */
};

/**
 * hm_file_system_query - what file system a file or folder is on
 * @path: [in] or NULL, and then
 * @fd:   [in]
 * @ret_info: [in,out] struct_size set by the caller
 *
 * By a table of types: those that are not in it are taken for local ones. Of an overlay it is
 * the overlay's own type, whatever is below; of a folder that is mounted once somebody goes
 * in, "autofs", as this does not.
 *
 * Errors: -ENOENT, -EACCES and their like, of open(2); -EBADF; -E2BIG. Thread-safe.
 * Source: statfs(2).
 */
HM_API int hm_file_system_query(const char *path, int fd, struct hm_file_system_info *ret_info);

/**
 * hm_file_publish - have other machines see what was stored, once they refresh
 * @map:    [in] of a file, to write
 * @offset: [in] a multiple of the page size
 * @bytes:  [in] likewise, or up to the map's end
 *
 * Writes the part back and waits for it, as hm_map_sync() does, on file systems of one
 * machine, too, so that a program has one way. Nothing to do for memory without storage.
 *
 * Errors: -EOPNOTSUPP a private copy (HM_BUFFER_PRIVATE, HM_BACKING_FILE_PRIVATE), which is the
 * caller's alone: open the file without that flag; -EIO, -ENOSPC, -EDQUOT, -ESTALE of the file
 * system: not all is published; -EIO also where bytes of the part were lost and replaced
 * (hetmap/guard.h): what is there is in no file; -EINVAL not page-aligned; -ERANGE. Thread-safe.
 */
HM_API int hm_file_publish(struct hm_map *map, uint64_t offset, uint64_t bytes);

/**
 * hm_file_refresh - have a map show what other machines have published
 * @map:    [in] of a file
 * @offset: [in] a multiple of the page size
 * @bytes:  [in] likewise, or up to the map's end
 *
 * Takes a lock of the part to read and gives it back, at which NFS drops what it has of the
 * file [fcntl(2), F_OFD_SETLKW]; it waits while another machine holds one to write.
 * Other pages may be dropped, too. What this machine stored and has not published is
 * written out before, as the kernel does at a lock; the address stays. Nothing to do, and
 * 0, on file systems of one machine, for private copies that were asked for and for memory.
 * Where coherence is unknown or a cluster's the lock is taken, and what that does is the file
 * system's. The first lock after a server's start may take as long as its grace period, 90 s.
 *
 * Errors: -EOPNOTSUPP the file system (9p, SMB, AFS, Coda, NCP, OrangeFS) keeps a map's pages
 * at a lock, or is not known to drop them, or gave a private copy for want of a shared map;
 * -ENOLCK the server, or its lock manager, gives no lock: with both, drop the map and its
 * buffer, and open the file again; -EIO, -ESTALE; what fstatfs(2) answers where the file system
 * can't be told, as -ENOTCONN of FUSE without its server; -EIO also where bytes of the part were
 * lost and replaced: the map does not show the file there any more; -EINVAL not page-aligned;
 * -ERANGE.
 * Thread-safe.
 */
HM_API int hm_file_refresh(struct hm_map *map, uint64_t offset, uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
