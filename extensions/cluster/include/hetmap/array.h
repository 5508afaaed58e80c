/* SPDX-License-Identifier: MIT */
/*
 * Arrays: one indexed space over the ranks of an MPI job, each part where it is computed, in the
 * library libhetmap-cluster.
 *
 * The rows of an array (the first index) are divided among the ranks. A rank computes on its own
 * parts by plain pointers, reads and writes any range by copies, and meets the other ranks in
 * epochs:
 *
 *	hm_array_create(&comm, &desc, &array);
 *	for (i = 0; !hm_array_local(array, i, &part); i++)
 *		compute(part.address, part.row, part.rows);
 *	hm_array_epoch(array, 0);
 *	hm_array_get(array, &halo, bytes, NULL);
 *	hm_array_wait(array, HM_ARRAY_ALL);
 *
 * Ranks on one machine are a node. They share the pages of the array: hm_array_at() gives the
 * address of each part of the node, and puts and gets inside a node are copies without messages.
 * Between nodes bytes go by the one-sided calls of MPI. With HETMAP_ARRAY_TRANSPORT=verbs, or
 * verbs:DEVICE, in the environment of all ranks they go by RDMA (libibverbs).
 *
 * Rules of visibility: a store, or a put, of one epoch is seen by the reads of the next one, on
 * every rank. In one epoch no rank may read bytes that another rank writes. Inside a node a store
 * may be seen earlier.
 *
 * "Collective" means: all ranks of the communicator make the call, in the same order. A collective
 * call that fails on one rank fails on all ranks, with the text of the rank that failed first.
 *
 * Errors of every function below, which are not repeated there:
 *   -ECONNRESET: a rank has ended. The text names the rank. Ranks of its node tell the other nodes,
 *                in collective calls; no rank tells of a node that ends as a whole. All later
 *                calls on the array fail likewise, except hm_array_unref(), and the pages stay.
 *
 * Thread safety of all functions: any thread, one thread at a time for collective functions. The
 * program initialises MPI with MPI_THREAD_MULTIPLE. With less, an array over several nodes has no
 * thread that makes progress while this rank computes: hm_warning() says so, and one thread at a
 * time may call.
 */
#ifndef HETMAP_ARRAY_H
#define HETMAP_ARRAY_H

#include <hetmap/device.h>
#include <hetmap/pieces.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_array;

#define HM_ARRAY_DIMENSIONS 4        /* most indices of an element */
#define HM_ARRAY_PARTS_MOST 1048576u /* most parts of all ranks together */
#define HM_ARRAY_ALL UINT64_MAX      /* hm_array_wait(): all that this rank has started */

/* How rows are divided among ranks. */
enum hm_array_distribution {
	HM_ARRAY_BLOCK = 0,   /* one part a rank, as equal as chunks allow */
	HM_ARRAY_CYCLIC = 1,  /* chunk after chunk to rank after rank, round and round */
	HM_ARRAY_BY_HAND = 2, /* as hm_array_desc.parts says */
};

/* hm_array_desc.flags */
#define HM_ARRAY_NEW_FILE (1u << 0) /* path: rank 0 makes the file, or empties it */
/*
 * For tests of a program: the end of an epoch fails with -EILSEQ if one rank put or accumulated
 * what another rank put, got or accumulated, and the text names ranks, rows and epoch. Two
 * accumulates are no race. Loads and stores by address are not seen. HETMAP_ARRAY_CHECK=1 in the
 * environment of all ranks does the same.
 */
#define HM_ARRAY_CHECK (1u << 1)
/*
 * Row 0 has the same address on all ranks, hm_array_info.base, and row r the address base + r *
 * row_bytes: ranks may hand each other pointers. Parts of other nodes are inaccessible there.
 */
#define HM_ARRAY_SAME_ADDRESS (1u << 2)
/*
 * Loads and stores reach the parts of other nodes, too, behind hm_array_info.base: a load brings
 * the page, and further ones if loads go on behind it; the end of the epoch sends what stores
 * changed to the owner, and forgets the page. In one epoch no rank may load an element that
 * another rank stores, nor store one that it stores.
 * A page must have rows of one node. MPI must not be handed addresses of other nodes' rows; puts
 * and gets refuse them. A rank of another node that has ended can make a load wait for ever.
 */
#define HM_ARRAY_PAGED (1u << 3)

/* Rows of a rank. This struct is fixed, because it comes in arrays. */
struct hm_array_part {
	uint64_t row;  /* the first one */
	uint64_t rows; /* number, from 1 */
	/*
	 * hm_array_local(), hm_array_at(): the bytes, or NULL: they are on another node. A unified
	 * pointer, but with HM_ARRAY_SAME_ADDRESS or HM_ARRAY_PAGED an address of a second map,
	 * which hm_pointer_find() does not know.
	 */
	void *address;
	uint32_t rank;     /* its owner */
	uint32_t reserved; /* 0 */
};

/* Description of an array: the same on all ranks, except path and name. */
struct hm_array_desc {
	uint32_t struct_size;
	uint32_t flags;                      /* HM_ARRAY_NEW_FILE and the like */
	uint32_t dimensions;                 /* 1 to HM_ARRAY_DIMENSIONS */
	uint32_t element;                    /* bytes of an element, 1 to 4096 */
	uint64_t shape[HM_ARRAY_DIMENSIONS]; /* elements of each index, the first one are rows */
	uint32_t distribution;               /* enum hm_array_distribution */
	uint32_t n_parts;                    /* BY_HAND: entries of parts */
	uint64_t chunk;                      /* rows that stay together; 0: 1 */
	/* BY_HAND: all rows, in order, without a gap; address is not used. The call copies them. */
	const struct hm_array_part *parts;
	/*
	 * [optional] The bytes are those of this file, row after row, on every node. NULL: memory
	 * of device.
	 */
	const char *path;
	/*
	 * [optional] NULL: memory of the host. Another device has no pages to share: each rank is
	 * then a node of its own, and CPUs copy what other ranks put and get.
	 */
	struct hm_device *device;
	const char *name; /* [optional] shown in /proc/self/maps; "array" by default */
	/*
	 * HM_ARRAY_PAGED: bytes of other nodes' pages that this rank keeps at once, from 2 MiB; 0:
	 * 64 MiB. They take as much memory again. Ranks may differ.
	 */
	uint64_t page_room;
};

/* A range of indices: @count elements from @start on, of each index. */
struct hm_array_range {
	uint64_t start[HM_ARRAY_DIMENSIONS];
	uint64_t count[HM_ARRAY_DIMENSIONS];
};

/* hm_array_info.flags */
#define HM_ARRAY_PROGRESS (1u << 0) /* a thread serves other nodes while this rank computes */
#define HM_ARRAY_VERBS (1u << 1)    /* puts and gets between nodes go by libibverbs */
/* HM_ARRAY_VERBS: memory of some rank can't be registered, and what goes there goes by MPI. */
#define HM_ARRAY_STAGED (1u << 2)

struct hm_array_info {
	uint32_t struct_size;
	uint32_t flags; /* HM_ARRAY_PROGRESS and the like */
	uint32_t rank;  /* of this process */
	uint32_t ranks;
	uint32_t node; /* of this rank: nodes are numbered by their first ranks */
	uint32_t nodes;
	uint32_t parts;       /* of this rank */
	uint32_t total_parts; /* of all ranks */
	uint64_t rows;        /* of the array */
	uint64_t row_bytes;
	uint64_t bytes;     /* of the array */
	uint64_t own_bytes; /* of this rank's parts */
	uint64_t epochs;    /* that have ended */
	uint64_t shared;    /* bytes that this rank's puts and gets copied inside the node */
	uint64_t sent;      /* bytes that its puts sent to other nodes */
	uint64_t received;  /* bytes that its gets had from other nodes */
	uint64_t messages;  /* puts and gets between nodes that it started */
	uint64_t paged_in;  /* bytes of other nodes' pages that loads and stores brought */
	uint64_t paged_out; /* bytes that stores changed there, and that were sent back */
	uint64_t paged_now; /* bytes of such pages that are here */
	/* HM_ARRAY_SAME_ADDRESS, HM_ARRAY_PAGED: address of row 0; else NULL. */
	void *base;
};

/* Operations of accumulate and fetch; the type is an enum hm_dtype (hetmap/pieces.h). */
enum hm_array_op {
	HM_ARRAY_ADD = 0,
	HM_ARRAY_MIN = 1,
	HM_ARRAY_MAX = 2,
	HM_ARRAY_AND = 3, /* bits of integers */
	HM_ARRAY_OR = 4,  /* likewise */
	HM_ARRAY_XOR = 5, /* likewise */
	HM_ARRAY_REPLACE = 6,
	HM_ARRAY_KEEP = 7, /* hm_array_fetch(): reads the element as a whole */
};

/* hm_array_epoch() flags */
#define HM_ARRAY_PUBLISH (1u << 0) /* the file holds the epoch, and this machine shows it */

/**
 * hm_array_create - make an array; collective
 * @comm:      [in] address of the MPI_Comm whose ranks share the array; an intracommunicator
 * @desc:      [in] description, the same on all ranks
 * @ret_array: [out] a reference, which the caller drops with hm_array_unref()
 *
 * The bytes are zeros, or those of the file. A node maps all of the array, sparsely: memory is
 * used for the pages that hold rows of the node. If parts of different nodes do not begin at
 * pages, each of these nodes has such a page, and hm_warning() says so.
 *
 * Errors:
 *   -EINVAL:     MPI is not initialised, @comm is MPI_COMM_NULL or joins two groups, a member of
 *                @desc is out of range, parts leave rows out or name a rank that is not there, or
 *                ranks gave different descriptions; the text says which rank and member.
 *   -EPROTO:     ranks run different builds of the library.
 *   -EOVERFLOW:  the array has more than 2^47 bytes.
 *   -E2BIG:      there are more than HM_ARRAY_PARTS_MOST parts; raise chunk.
 *   -ENODATA:    the file is shorter than the array.
 *   -ENOTSUP:    the file is on a network file system, and parts of two nodes share 2 MiB of it
 *                (hetmap/file.h); give desc.chunk so many rows that parts begin at multiples of
 *                2 MiB.
 *   -EREMOTEIO:  MPI or RDMA failed; the text has its own.
 *   -EADDRNOTAVAIL: HM_ARRAY_SAME_ADDRESS, and no range is free on all ranks.
 *   -EOPNOTSUPP: HM_ARRAY_PAGED on several nodes, and userfaultfd(2) may not be had, or MPI was
 *                initialised with less than MPI_THREAD_MULTIPLE; or one of the two flags for
 *                memory of a device; or verbs were asked for, and the library was built without
 *                libibverbs.
 *   -ENODEV:     verbs were asked for, and no RDMA device, or none of that name, has an active
 *                port.
 *
 * In addition the errors of hm_buffer_create(), hm_buffer_from_file(), hm_buffer_import(),
 * hm_map_create() and open(2).
 */
HM_API int hm_array_create(const void *comm, const struct hm_array_desc *desc,
			   struct hm_array **ret_array);

/**
 * hm_array_local - describe a part of this rank
 * @array:    [in] the array
 * @index:    [in] number of the part, from 0; parts are in the order of their rows
 * @ret_part: [out] the part
 *
 * Errors:
 *   -ENOENT: this rank has no more than @index parts.
 */
HM_API int hm_array_local(struct hm_array *array, uint32_t index,
			  struct hm_array_part *ret_part);

/**
 * hm_array_at - describe the part that has a row
 * @array:    [in] the array
 * @row:      [in] any row
 * @ret_part: [out] the part; its address is NULL on another node
 *
 * Errors:
 *   -ERANGE: the array has no such row.
 */
HM_API int hm_array_at(struct hm_array *array, uint64_t row, struct hm_array_part *ret_part);

/**
 * hm_array_put - write a range, whichever ranks own it
 * @array:      [in] the array
 * @range:      [in] indices; those beyond the array's dimensions are not looked at
 * @from:       [in] the elements of the range, packed, the last index fastest
 * @ret_ticket: [out, optional] number to wait for
 *
 * The call starts the copy. @from belongs to the library until hm_array_wait() or
 * hm_array_epoch(). Other ranks see the elements in the next epoch.
 *
 * Errors:
 *   -ERANGE:    the range ends beyond the shape; the text names the index.
 *   -EINVAL:    @from has rows of another node, by HM_ARRAY_PAGED.
 *   -EREMOTEIO: MPI failed; the text has its own.
 */
HM_API int hm_array_put(struct hm_array *array, const struct hm_array_range *range,
			const void *from, uint64_t *ret_ticket);

/**
 * hm_array_get - read a range, whichever ranks own it
 * @array:      [in] the array
 * @range:      [in] as for hm_array_put()
 * @to:         [out] the elements, packed; complete after hm_array_wait() or hm_array_epoch()
 * @ret_ticket: [out, optional] number to wait for
 *
 * Errors: those of hm_array_put().
 */
HM_API int hm_array_get(struct hm_array *array, const struct hm_array_range *range, void *to,
			uint64_t *ret_ticket);

/**
 * hm_array_accumulate - combine a range with values, element by element
 * @array:      [in] the array
 * @range:      [in] as for hm_array_put()
 * @dtype:      [in] enum hm_dtype: HM_DTYPE_I32, _U32, _I64, _U64, _F32 or _F64
 * @op:         [in] enum hm_array_op, except HM_ARRAY_KEEP
 * @from:       [in] the values, packed; they belong to the library as those of hm_array_put()
 * @ret_ticket: [out, optional] number to wait for
 *
 * The change of one element is atomic against all other accumulates and fetches of this type, of
 * all ranks, in the same epoch. It is not against puts, gets and stores. If the array is on
 * several nodes, the change is made by MPI at the owner, also inside a node.
 *
 * Errors:
 *   -EINVAL:     @dtype or @op is another, bits of floating-point numbers were to be combined, or
 *                the type is not as long as an element.
 *   -EOPNOTSUPP: a minimum or maximum of unsigned numbers on several nodes, by an MPI that
 *                compares them as signed ones, as MPICH 4.0 does.
 *
 * In addition the errors of hm_array_put().
 */
HM_API int hm_array_accumulate(struct hm_array *array, const struct hm_array_range *range,
			       uint32_t dtype, uint32_t op, const void *from,
			       uint64_t *ret_ticket);

/**
 * hm_array_fetch - combine an element with a value, and return what it was
 * @array:   [in] the array
 * @index:   [in] of the element, as many numbers as the array has dimensions
 * @dtype:   [in] as for hm_array_accumulate()
 * @op:      [in] enum hm_array_op
 * @operand: [in] the value; not looked at with HM_ARRAY_KEEP
 * @ret_old: [out] the element before
 *
 * The call waits for the result. Several ranks may count by it: each gets another number.
 *
 * Errors: those of hm_array_accumulate().
 */
HM_API int hm_array_fetch(struct hm_array *array, const uint64_t *index, uint32_t dtype,
			  uint32_t op, const void *operand, void *ret_old);

/**
 * hm_array_wait - wait for puts and gets of this rank
 * @array:  [in] the array
 * @ticket: [in] of hm_array_put() or hm_array_get(): waits for it and for all before it; or
 *          HM_ARRAY_ALL
 *
 * Errors:
 *   -EINVAL:    no operation has this ticket yet.
 *   -EREMOTEIO: MPI failed; the text has its own.
 */
HM_API int hm_array_wait(struct hm_array *array, uint64_t ticket);

/**
 * hm_array_epoch - end an epoch, and begin the next one; collective
 * @array: [in] the array
 * @flags: [in] 0, or HM_ARRAY_PUBLISH for an array of a file
 *
 * The call waits for this rank's puts and gets, and for all ranks. With HM_ARRAY_PUBLISH the file
 * holds the epoch when the call returns, and a program that reads the file on this machine finds
 * the bytes of all ranks.
 *
 * Errors:
 *   -EOPNOTSUPP: HM_ARRAY_PUBLISH, and the array has no file.
 *   -EILSEQ:     HM_ARRAY_CHECK found a race. The epoch has ended, and the array is usable.
 *   -EREMOTEIO:  MPI failed; the text has its own.
 *
 * In addition, with HM_ARRAY_PUBLISH, the errors of hm_file_publish(). Over several nodes those of
 * hm_file_refresh(), too: then the epoch has ended and the file holds it, but programs of this
 * machine may read older bytes of the file.
 */
HM_API int hm_array_epoch(struct hm_array *array, uint32_t flags);

/**
 * hm_array_move - give rows another owner; collective
 * @array: [in] the array
 * @row:   [in] the first row
 * @rows:  [in] number of rows, from 1; they may be of several parts
 * @rank:  [in] the new owner
 *
 * The call ends the epoch. Addresses of rows stay on a node that has them; inside a node nothing is
 * copied. Other threads may call hm_array_get(), hm_array_at() and hm_array_local() meanwhile, and
 * find the rows at the old owner or at the new one, with the same bytes. Parts of one owner that
 * meet become one.
 *
 * Errors:
 *   -ERANGE:     the array has no such rows.
 *   -EINVAL:     there is no such rank, or ranks gave different arguments.
 *   -EOPNOTSUPP: the array is in memory of a device.
 *   -EREMOTEIO:  MPI failed; the text has its own. The owner is the old one.
 */
HM_API int hm_array_move(struct hm_array *array, uint64_t row, uint64_t rows, uint32_t rank);

/**
 * hm_array_save - write an array to a file; collective
 * @array: [in] the array
 * @path:  [in] the file, the same on all nodes; if it exists, it is replaced
 *
 * The call ends the epoch, as hm_array_epoch() does. Each rank writes its parts, row after row,
 * into PATH.new, which takes the name of @path when all of it is on storage: a job that is killed
 * leaves the old file whole. The file has the plain elements, and nothing else.
 *
 * Errors: those of open(2), pwrite(2), fsync(2), rename(2) and of hm_array_epoch().
 */
HM_API int hm_array_save(struct hm_array *array, const char *path);

/**
 * hm_array_load - read an array from a file; collective
 * @array: [in] the array, which has the shape that was saved; ranks and distribution may differ
 * @path:  [in] the file, the same on all nodes
 *
 * The call ends the epoch. Each rank reads its parts. After a failure the array may have some of
 * the file's rows.
 *
 * Errors:
 *   -EINVAL: the file has another size than the array; nothing was read.
 *   -EIO:    the file ended while it was read.
 *
 * In addition the errors of open(2), pread(2) and of hm_array_epoch().
 */
HM_API int hm_array_load(struct hm_array *array, const char *path);

/**
 * hm_array_query - report what an array is, and what this rank has copied
 * @array:    [in] the array
 * @ret_info: [in,out] struct_size set by the caller
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_array_query(struct hm_array *array, struct hm_array_info *ret_info);

/** hm_array_ref - take a further reference; returns @array. NULL gives NULL. */
HM_API struct hm_array *hm_array_ref(struct hm_array *array);

/**
 * hm_array_unref - drop a reference; the last one is collective
 *
 * With the last reference of all ranks the memory goes, and a file stays. The call waits for all
 * ranks, unless a rank has ended. Make it before MPI_Finalize(): after that the call leaves the
 * window of MPI as it is. NULL is allowed.
 */
HM_API void hm_array_unref(struct hm_array *array);

#ifdef __cplusplus
}
#endif

#endif
