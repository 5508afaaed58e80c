/* SPDX-License-Identifier: MIT */
/*
 * Readers: the bytes of a file, however large, through bounded memory.
 *
 * How bytes come is a policy: mapped in windows with reading begun ahead, mapped whole with
 * a batch's ranges announced before they are copied, or read into memory of the reader's
 * own. It is chosen by the pattern of access, the file system, the memory there is, the
 * device's read-ahead and what is resident already, or set by hand; what was chosen, and
 * why, can be asked.
 *
 * A reader never has more memory than its budget, page tables included; but for the reader
 * itself, its rings of reads, and the paths and sizes of several files. A file that is cut
 * off and storage that fails are errors of hm_reader_gather(), and of hm_reader_next() where
 * it reads. Bytes of a mapped window are touched by the caller, in a guarded scope
 * (hetmap/guard.h) where that has to be an error, too.
 *
 * All functions may be called from any thread; calls on one reader wait for one another.
 */
#ifndef HETMAP_READER_H
#define HETMAP_READER_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_reader; /* a file, and how its bytes come */

/* In which order bytes are wanted. */
enum hm_pattern {
	HM_PATTERN_SEQUENTIAL = 0, /* from begin to end, once: hm_reader_next() */
	HM_PATTERN_RANDOM = 1,     /* batches of pieces anywhere: hm_reader_gather() */
};

/* How bytes come. Each serves both patterns, if not equally well. */
enum hm_policy {
	HM_POLICY_AUTO = 0,     /* chosen: hm_reader_info says what, and why */
	HM_POLICY_FAULT = 1,    /* mapped: pages come as they are touched */
	HM_POLICY_AHEAD = 2,    /* mapped in windows: read ahead of use, unmapped behind it */
	HM_POLICY_ANNOUNCE = 3, /* mapped: reading of all pieces begins, then they are copied */
	HM_POLICY_POPULATE = 4, /* mapped: reading begins ahead, and pages are brought in */
	HM_POLICY_READ = 5,     /* pread(2) into memory of the reader's own */
	HM_POLICY_URING = 6,    /* io_uring, many reads in flight */
	/*
	 * The same with O_DIRECT, past the page cache: by the multiples that the kernel
	 * reports for the file (Linux 6.1 and later), which may be none at all, or of 4096.
	 */
	HM_POLICY_DIRECT = 7,
};

/* hm_reader_desc.flags */
#define HM_READER_DROP (1u << 0) /* what windows had leaves the page cache, too */

struct hm_reader_desc {
	uint32_t struct_size;
	uint32_t flags;   /* HM_READER_* */
	uint32_t pattern; /* enum hm_pattern */
	uint32_t policy;  /* enum hm_policy */
	uint64_t window;  /* bytes that hm_reader_next() gives at a time; 0: chosen */
	uint64_t budget;  /* bytes of memory, page tables included; 0: chosen */
};

/* Some bytes of the file. This struct is fixed: it comes in arrays. */
struct hm_piece {
	uint64_t offset;
	uint64_t bytes;
};

/* hm_reader_info.flags */
#define HM_READER_PRIVATE_MAP (1u << 0) /* MAP_SHARED was refused: mapped MAP_PRIVATE */
#define HM_READER_NO_MAP (1u << 1)      /* no kind of map: it is read */
#define HM_READER_NETWORK (1u << 2)     /* the file system is another machine's */
#define HM_READER_GUARDED (1u << 3)     /* copies are out of the map, in a guarded scope */
/* The user has locked or narrowed a part of the map, or uses it: it is read beyond the budget. */
#define HM_READER_HELD (1u << 4)

/* Of the range that hm_reader_range() set last. */
struct hm_reader_info {
	uint32_t struct_size;
	uint32_t flags;   /* HM_READER_PRIVATE_MAP and those behind it */
	uint32_t policy;  /* enum hm_policy: what is done; never HM_POLICY_AUTO */
	uint32_t pattern; /* enum hm_pattern */
	const char *why;  /* a sentence with its figures; until the next hm_reader_range() */
	const char *file_system; /* "ext4"; "0x5a3c69f0" for one that has no name here */
	struct hm_map *map;      /* of the whole file, that is gathered from; NULL: none */
	uint64_t size;           /* of the file when the range was set, bytes */
	uint64_t begin;          /* of the range */
	uint64_t end;
	uint64_t position;   /* of the next window */
	uint64_t window;     /* bytes */
	uint64_t budget;     /* bytes, as asked for or chosen */
	uint64_t memory;     /* that it has now at most: windows, buffers, page tables */
	uint64_t peak;       /* the most of that since it was opened */
	uint64_t bytes;      /* given and copied so far, since it was opened */
	uint64_t read_ahead; /* of the device, by its bdi; 0: it does not say */
	uint64_t ram;        /* that the process may have: MemTotal, or its memory.max */
	uint32_t ahead;      /* windows, or reads, that are begun before they are wanted */
	uint32_t resident;   /* per cent of a sample of the file, when it was looked at */
};

/**
 * hm_reader_open - open a file to read it by a policy
 * @path:       [in] a regular file, also an empty one
 * @desc:       [in, optional] NULL: sequential, everything chosen
 * @ret_reader: [out] a reference, dropped with hm_reader_unref()
 *
 * The range is the whole file, as by hm_reader_range(reader, 0, 0, pattern, policy).
 * Reading begins with the first hm_reader_next() or hm_reader_announce().
 *
 * A window is rounded up to whole pages, or O_DIRECT's multiples, and made smaller where the
 * budget asks for it, or the file has less.
 *
 * Errors: -ENOENT, -EACCES and their like, of open(2); -EISDIR; -EINVAL no regular file
 * (the text says what it is), an unknown pattern, policy or flag; -ENOBUFS the budget is
 * less than the least window and what goes with it (the text says how much that is);
 * -EOPNOTSUPP the policy can't be had: no map of this file, no O_DIRECT for it, or no io_uring
 * here (the text says which); of HM_POLICY_URING and _DIRECT -EMFILE, -ENFILE and -ENOMEM,
 * there is io_uring, and no room for a ring (the text says which limit to raise);
 * HM_POLICY_AUTO reads without it then, and its `why` says so; -E2BIG.
 */
HM_API int hm_reader_open(const char *path, const struct hm_reader_desc *desc,
			  struct hm_reader **ret_reader);

/**
 * hm_reader_open_files - open several files, to read them as one range of bytes
 * @paths:      [in] of regular files, in their order; also empty ones
 * @n_paths:    [in] from 1; 100,000 are fine
 * @desc:       [in, optional] as of hm_reader_open()
 * @ret_reader: [out] a reference, dropped with hm_reader_unref()
 *
 * All are looked at, none is kept open but the one that is read: their sizes are what they
 * were then. They are opened again by their paths: what has another file's name by then,
 * also as the working directory changed, is -ESTALE when it is read. Paths and sizes are not
 * in the budget. They come by HM_POLICY_READ, small ones together in a window, and those that
 * come next are announced across the ends of files.
 *
 * Errors: as of hm_reader_open(), with the file's name; -EOPNOTSUPP another policy but
 * HM_POLICY_AUTO; -EOVERFLOW they have more than 2^63 bytes together.
 */
HM_API int hm_reader_open_files(const char *const *paths, uint64_t n_paths,
				const struct hm_reader_desc *desc,
				struct hm_reader **ret_reader);

/**
 * hm_reader_file - where a file's bytes are
 * @reader:    [in]
 * @index:     [in] of its path, from 0
 * @ret_piece: [out] in the range of bytes that all of them are
 *
 * Errors: -ERANGE there are fewer.
 */
HM_API int hm_reader_file(struct hm_reader *reader, uint64_t index, struct hm_piece *ret_piece);

/**
 * hm_reader_range - set a range and a phase
 * @reader:  [in]
 * @begin:   [in] of the bytes that hm_reader_next() gives
 * @end:     [in] behind the last one; 0: the file's end
 * @pattern: [in] enum hm_pattern
 * @policy:  [in] enum hm_policy; HM_POLICY_AUTO looks at the file anew
 *
 * What was given before is gone: pointers of hm_reader_next() end, and so does the map of
 * hm_reader_info. Pieces may still be anywhere in the file. A file that has grown is taken
 * as it is now.
 *
 * Errors: -ERANGE @begin is behind @end, or @end behind the file's; and hm_reader_open's of
 * policy and budget. After an error all is as it was.
 */
HM_API int hm_reader_range(struct hm_reader *reader, uint64_t begin, uint64_t end,
			   uint32_t pattern, uint32_t policy);

/**
 * hm_reader_next - the next window of the range
 * @reader:     [in]
 * @ret_data:   [out] its bytes, until the next call of this function or hm_reader_range(),
 *              or the last hm_reader_unref(); read-only
 * @ret_offset: [out, optional] of its first byte, in the file
 * @ret_bytes:  [out] how many; 0: the range is at its end, and *ret_data is NULL
 *
 * HM_POLICY_FAULT and _AHEAD give a map whose pages are not looked at: bytes that were
 * cut off since, or can't be read, raise SIGBUS where they are touched. The others give
 * bytes that are there: by _POPULATE they are in a map still, and whoever cuts the file off
 * while they are in use takes them away.
 *
 * Errors: -ENODATA the file was cut off before the window's end; -EIO; -ESTALE one of several
 * files is another one now; -EINVAL the range
 * is of HM_PATTERN_RANDOM; hm_map_create's. After an error what was given before is gone,
 * and the next call tries the same window again.
 */
HM_API int hm_reader_next(struct hm_reader *reader, const void **ret_data, uint64_t *ret_offset,
			  uint64_t *ret_bytes);

/**
 * hm_reader_announce - pieces are going to be gathered soon
 * @reader:   [in]
 * @pieces:   [in] as of hm_reader_gather()
 * @n_pieces: [in]
 *
 * Their reading begins; nothing waits for it, but for the device's queue. With
 * HM_POLICY_DIRECT there is no place for them yet, and it does nothing.
 *
 * Errors: -ERANGE a piece is not in the file; -EBUSY the budget is used up, and the user keeps
 * the map from being given back: hm_reader_query().
 */
HM_API int hm_reader_announce(struct hm_reader *reader, const struct hm_piece *pieces,
			      uint64_t n_pieces);

/**
 * hm_reader_gather - copy pieces one behind another
 * @reader:   [in]
 * @pieces:   [in] anywhere in the file as it was when the range was set, in any order,
 *            overlapping or not; 0 bytes are allowed
 * @n_pieces: [in] 0: nothing is done
 * @to:       [in] as many bytes as all pieces have; a map of a device's buffer, or any memory
 *
 * By HM_POLICY_ANNOUNCE, _AHEAD and _POPULATE the reading of all of them is begun first, by
 * HM_POLICY_READ, also over several files, that of the first one that is not in memory and of
 * all after it; so it need not be announced, unless there is other work to do meanwhile.
 * Copies of a range of HM_PATTERN_RANDOM are out of the map, in a guarded scope, where the
 * handler was installed when the range was set (hm_handler_install), and the address space had
 * room for all of the file, and by pread(2) otherwise: a file that was cut off, or storage that
 * fails, is an error and no signal either way. An error may leave a part of @to written.
 *
 * Errors: -ERANGE a piece was never in the file; -ENODATA the file was cut off before its
 * end; -EIO; -EHWPOISON; -ESTALE one of several files is another one now; -EFAULT @to can't
 * be written, as far as the kernel writes it.
 */
HM_API int hm_reader_gather(struct hm_reader *reader, const struct hm_piece *pieces,
			    uint64_t n_pieces, void *to);

/**
 * hm_reader_query - what was chosen, and why
 * @reader:   [in]
 * @ret_info: [in,out] struct_size set by the caller; its strings and its map live as long as
 *            @reader, or as said
 *
 * Whoever copies out of hm_reader_info.map himself announces the pieces before, at most as
 * many as fit the budget: hm_reader_announce() is what keeps account, and gives back what
 * was touched when the budget is used up. The address stays. What a piece touches is counted
 * by the most that a fault may map, which is up to what one page of a page table maps, 2 MiB
 * with pages of 4 KiB. While he has locked or narrowed a part of it (hm_map_lock(),
 * hm_map_protect()), or work or a view uses it, nothing of it is given back: what is touched
 * when the budget is used up stays so, hm_reader_gather() reads the rest, and
 * hm_reader_announce() is -EBUSY.
 *
 * Errors: -E2BIG.
 */
HM_API int hm_reader_query(struct hm_reader *reader, struct hm_reader_info *ret_info);

/** hm_reader_ref - take a reference; returns @reader. NULL gives NULL. */
HM_API struct hm_reader *hm_reader_ref(struct hm_reader *reader);

/** hm_reader_unref - drop a reference; NULL is allowed */
HM_API void hm_reader_unref(struct hm_reader *reader);

/**
 * hm_policy_name - "ahead", as the command has it
 *
 * Returns: static storage. NULL: there is no such policy.
 */
HM_API const char *hm_policy_name(uint32_t policy);

#ifdef __cplusplus
}
#endif

#endif
