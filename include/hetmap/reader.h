/* SPDX-License-Identifier: MIT */
/*
 * Readers: the bytes of a file of any size, through bounded memory.
 *
 * A policy says how the bytes come: the reader maps the file in windows and reads ahead of them,
 * maps the whole file and announces the ranges of a batch before it copies them, or reads into
 * memory of its own. The caller sets the policy, or the reader chooses one by the pattern of
 * access, the file system, the available memory, the device's read-ahead and the pages that are
 * resident already. hm_reader_query() reports the choice and the reason.
 *
 * A reader never takes more memory than its budget, which includes page tables. Beyond the budget
 * come only the reader itself, its rings of reads, and the paths and sizes of several files. A
 * file that is cut off and storage that fails are errors of hm_reader_gather(), and of
 * hm_reader_next() with the policies that read. The caller itself touches the bytes of a mapped
 * window. A caller that needs an error instead of a signal there must touch them in a guarded
 * scope (hetmap/guard.h).
 *
 * Thread safety of all functions: any thread; calls on one reader wait for one another.
 */
#ifndef HETMAP_READER_H
#define HETMAP_READER_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_reader; /* a file, or several files, and a policy for its bytes */

/* Order in which the caller wants bytes. */
enum hm_pattern {
	HM_PATTERN_SEQUENTIAL = 0, /* windows from begin to end, once: hm_reader_next() */
	HM_PATTERN_RANDOM = 1,     /* batches of pieces anywhere: hm_reader_gather() */
};

/* Policy: the way that bytes come. Each policy serves both patterns, if not equally well. */
enum hm_policy {
	HM_POLICY_AUTO = 0,     /* chosen: hm_reader_info has the choice and the reason */
	HM_POLICY_FAULT = 1,    /* mapped: pages come as the caller touches them */
	HM_POLICY_AHEAD = 2,    /* mapped in windows: read ahead, unmapped behind their use */
	HM_POLICY_ANNOUNCE = 3, /* mapped: starts to read all pieces, then copies them */
	HM_POLICY_POPULATE = 4, /* mapped: starts to read ahead, and brings pages in */
	HM_POLICY_READ = 5,     /* pread(2) into memory of the reader */
	HM_POLICY_URING = 6,    /* io_uring, many reads in flight */
	/*
	 * io_uring with O_DIRECT, past the page cache: by the multiples that the kernel reports
	 * for the file (Linux 6.1 and later), or of 4096 if the kernel reports none. A file may
	 * have no O_DIRECT at all.
	 */
	HM_POLICY_DIRECT = 7,
};

/* hm_reader_desc.flags */
/* Bytes of past windows leave the page cache, too, except bytes that are mapped elsewhere. */
#define HM_READER_DROP (1u << 0)

struct hm_reader_desc {
	uint32_t struct_size;
	uint32_t flags;   /* HM_READER_* */
	uint32_t pattern; /* enum hm_pattern */
	uint32_t policy;  /* enum hm_policy */
	uint64_t window;  /* bytes of a window of hm_reader_next(); 0: chosen */
	uint64_t budget;  /* bytes of memory, with page tables; 0: chosen */
};

/* Some bytes of the file. This struct is fixed, because it comes in arrays. */
struct hm_piece {
	uint64_t offset;
	uint64_t bytes;
};

/* hm_reader_info.flags */
#define HM_READER_PRIVATE_MAP (1u << 0) /* MAP_SHARED was refused: MAP_PRIVATE is used */
#define HM_READER_NO_MAP (1u << 1)      /* no map is possible: the file is read */
#define HM_READER_NETWORK (1u << 2)     /* the file system is another machine's */
#define HM_READER_GUARDED (1u << 3)     /* copies come out of the map, in a guarded scope */
/* The caller locked, narrowed or uses a part of the map: past the budget, pieces are read. */
#define HM_READER_HELD (1u << 4)

/* State of a reader, for the range that hm_reader_range() set last. */
struct hm_reader_info {
	uint32_t struct_size;
	uint32_t flags;   /* HM_READER_PRIVATE_MAP and the flags behind it */
	uint32_t policy;  /* enum hm_policy: the policy in use; never HM_POLICY_AUTO */
	uint32_t pattern; /* enum hm_pattern */
	const char *why;  /* reason, with its figures; valid until the next hm_reader_range() */
	const char *file_system; /* name, as "ext4"; "0x5a3c69f0" if it has no name here */
	struct hm_map *map;      /* map of the whole file to gather from; NULL: none */
	uint64_t size;           /* bytes of the file when the range was set */
	uint64_t begin;          /* begin of the range */
	uint64_t end;            /* end of the range */
	uint64_t position;       /* position of the next window */
	uint64_t window;         /* bytes of a window */
	uint64_t budget;         /* bytes, as given or chosen */
	uint64_t memory;         /* most bytes it has now: windows, buffers, page tables */
	uint64_t peak;           /* most bytes of memory since the open */
	uint64_t bytes;          /* bytes delivered and copied since the open */
	uint64_t read_ahead;     /* read-ahead of the device, by its bdi; 0: not known */
	uint64_t ram;            /* bytes the process may have: MemTotal, or memory.max */
	uint32_t ahead;          /* windows, or reads, that are started early */
	uint32_t resident;       /* per cent of a sample of the file, when it was checked */
};

/**
 * hm_reader_open - open a file to read it by a policy
 * @path:       [in] path of a regular file, which may be empty
 * @desc:       [in, optional] NULL: sequential, with everything chosen
 * @ret_reader: [out] a reference; the caller must drop it with hm_reader_unref()
 *
 * The range is the whole file, as by hm_reader_range(reader, 0, 0, pattern, policy). Reading
 * starts with the first hm_reader_next() or hm_reader_announce(). The size of a window is rounded
 * up to whole pages, or to O_DIRECT's multiples, and reduced if the budget or the size of the file
 * is less.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EISDIR:     the path names a directory.
 *   -EINVAL:     the path names no regular file (the text says its kind); or a pattern, policy or
 *                flag is unknown.
 *   -ENOBUFS:    the budget is less than the smallest window and its page tables; the text says
 *                how much is needed.
 *   -EOPNOTSUPP: the policy is not available: the file can't be mapped, has no O_DIRECT, or
 *                io_uring is missing. The text says which.
 *   -EMFILE:     HM_POLICY_URING or _DIRECT was asked for, and the process has no descriptor left
 *                for a ring of io_uring; raise the limit that the text names. HM_POLICY_AUTO
 *                reads without io_uring in this case, and says so in why.
 *   -ENFILE:     as -EMFILE, for the limit of the system.
 *   -ENOMEM:     as -EMFILE, for memory of the kernel.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition -ENOENT, -EACCES and the other errors of open(2).
 */
HM_API int hm_reader_open(const char *path, const struct hm_reader_desc *desc,
			  struct hm_reader **ret_reader);

/**
 * hm_reader_open_files - open several files to read them as one range of bytes
 * @paths:      [in] paths of regular files, in their order; the files may be empty
 * @n_paths:    [in] number of paths, from 1; 100,000 are fine
 * @desc:       [in, optional] as for hm_reader_open()
 * @ret_reader: [out] a reference; the caller must drop it with hm_reader_unref()
 *
 * The function checks all files, and takes their sizes from then. Only the file that is being
 * read is open. The reader opens the files again by their paths: if a path names another file by
 * then, also because the working directory changed, reading it is -ESTALE. The budget does not
 * include paths and sizes. The files come by HM_POLICY_READ. The reader puts small files together
 * into a window, and announces the next bytes across the ends of files.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the policy is neither HM_POLICY_AUTO nor HM_POLICY_READ.
 *   -EOVERFLOW:  the files have more than 2^63 bytes together.
 *
 * In addition the errors of hm_reader_open(), with the file's name.
 */
HM_API int hm_reader_open_files(const char *const *paths, uint64_t n_paths,
				const struct hm_reader_desc *desc,
				struct hm_reader **ret_reader);

/**
 * hm_reader_file - tell where a file's bytes are
 * @reader:    [in]
 * @index:     [in] number of the file's path, from 0
 * @ret_piece: [out] bytes of the file, in the range of bytes of all files
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the reader has fewer files.
 */
HM_API int hm_reader_file(struct hm_reader *reader, uint64_t index, struct hm_piece *ret_piece);

/**
 * hm_reader_range - set a range and a phase
 * @reader:  [in]
 * @begin:   [in] first of the bytes that hm_reader_next() delivers
 * @end:     [in] offset behind the last byte; 0: the file's end
 * @pattern: [in] enum hm_pattern
 * @policy:  [in] enum hm_policy; HM_POLICY_AUTO checks the file anew
 *
 * The call ends the pointers of hm_reader_next() and the map of hm_reader_info. Pieces may still
 * be anywhere in the file. If the file has grown, the reader uses its present size.
 *
 * Thread safety: any thread; calls on one reader wait for one another.
 *
 * Errors, after which nothing has changed:
 *   -ERANGE: @begin is behind @end, or @end is behind the file's end.
 *
 * In addition the errors of hm_reader_open() for the policy and the budget.
 */
HM_API int hm_reader_range(struct hm_reader *reader, uint64_t begin, uint64_t end,
			   uint32_t pattern, uint32_t policy);

/**
 * hm_reader_next - deliver the next window of the range
 * @reader:     [in]
 * @ret_data:   [out] bytes of the window, read-only; valid until the next call of this function or
 *              of hm_reader_range(), or the last hm_reader_unref()
 * @ret_offset: [out, optional] offset of the first byte in the file
 * @ret_bytes:  [out] number of bytes; 0: the range is at its end, and *ret_data is NULL
 *
 * HM_POLICY_FAULT and _AHEAD deliver a map without a check of its pages: bytes that were cut off,
 * or can't be read, raise SIGBUS when the caller touches them. The other policies deliver bytes
 * that are present. With _POPULATE the bytes are still in a map, and a process that cuts the file
 * off during their use takes them away.
 *
 * After an error earlier pointers have ended, and the next call tries the same window again.
 *
 * Thread safety: any thread; calls on one reader wait for one another.
 *
 * Errors:
 *   -ENODATA: the file was cut off before the window's end.
 *   -EIO:     storage failed.
 *   -ESTALE:  one of several files is another file now.
 *   -EINVAL:  the range is of HM_PATTERN_RANDOM; use hm_reader_gather().
 *
 * In addition the errors of hm_map_create().
 */
HM_API int hm_reader_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_offset,
			  uint64_t *ret_bytes);

/**
 * hm_reader_announce - start to read pieces that will be gathered soon
 * @reader:   [in]
 * @pieces:   [in] as for hm_reader_gather()
 * @n_pieces: [in] number of pieces
 *
 * The function waits for nothing except the device's queue. With HM_POLICY_DIRECT no memory is
 * there for the pieces yet, and the function does nothing.
 *
 * Thread safety: any thread; calls on one reader wait for one another.
 *
 * Errors:
 *   -ERANGE: a piece is not in the file.
 *   -EBUSY:  the budget is used up, and the caller keeps the reader from releasing the map, see
 *            hm_reader_query().
 */
HM_API int hm_reader_announce(struct hm_reader *reader, const struct hm_piece *pieces,
			      uint64_t n_pieces);

/**
 * hm_reader_gather - copy pieces, one behind another
 * @reader:   [in]
 * @pieces:   [in] pieces anywhere in the file as it was when the range was set, in any order,
 *            overlapping or not; a piece may have 0 bytes
 * @n_pieces: [in] number of pieces; 0: nothing is done
 * @to:       [out] memory for the bytes of all pieces: a map of a device's buffer, or any memory
 *
 * With HM_POLICY_ANNOUNCE, _AHEAD and _POPULATE the function starts to read all pieces first. With
 * HM_POLICY_READ, also over several files, it starts to read the first piece that is not in memory
 * and all pieces after it. The caller therefore needs hm_reader_announce() only if it has other
 * work to do meanwhile.
 *
 * For a range of HM_PATTERN_RANDOM the function copies out of the map, in a guarded scope, if the
 * handler was installed when the range was set (hm_handler_install) and the address space had room
 * for the whole file. Otherwise it uses pread(2). In both cases a file that was cut off, or storage
 * that fails, is an error and no signal. An error may leave a part of @to written.
 *
 * Thread safety: any thread; calls on one reader wait for one another.
 *
 * Errors:
 *   -ERANGE:    a piece was never in the file.
 *   -ENODATA:   the file was cut off before the end of a piece.
 *   -EIO:       storage failed.
 *   -EHWPOISON: memory failed.
 *   -ESTALE:    one of several files is another file now.
 *   -EFAULT:    the kernel writes to @to, and can't.
 */
HM_API int hm_reader_gather(struct hm_reader *reader, const struct hm_piece *pieces,
			    uint64_t n_pieces, void *to);

/**
 * hm_reader_query - report the choices of the reader, and their reason
 * @reader:   [in]
 * @ret_info: [in,out] the caller must set struct_size; the strings and the map live as long as
 *            @reader, unless the field says otherwise
 *
 * A caller that itself copies out of hm_reader_info.map must announce the pieces first, at most as
 * many as fit the budget: hm_reader_announce() counts the pages, and releases the touched ones when
 * the budget is used up. The address stays. A piece counts as the most that a fault may map, up to
 * the range of one page of a page table, which is 2 MiB with pages of 4 KiB.
 *
 * While the caller has locked or narrowed a part of the map (hm_map_lock(), hm_map_protect()), or
 * work or a view uses it, the reader releases nothing of the map. If the budget is used up in that
 * state, touched pages stay, hm_reader_gather() reads the other bytes, and hm_reader_announce() is
 * -EBUSY.
 *
 * Thread safety: any thread; calls on one reader wait for one another.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_reader_query(struct hm_reader *reader, struct hm_reader_info *ret_info);

/** hm_reader_ref - take a reference; returns @reader. NULL gives NULL. */
HM_API struct hm_reader *hm_reader_ref(struct hm_reader *reader);

/** hm_reader_unref - drop a reference; NULL is allowed */
HM_API void hm_reader_unref(struct hm_reader *reader);

/**
 * hm_policy_name - return the name of a policy, as the command uses it: "ahead"
 *
 * Thread safety: any thread.
 *
 * Returns: a static string. NULL: no such policy exists.
 */
HM_API const char *hm_policy_name(uint32_t policy);

#ifdef __cplusplus
}
#endif

#endif
