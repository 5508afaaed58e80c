/* SPDX-License-Identifier: MIT */
/*
 * Arrays: the inside of libhetmap-cluster.
 *
 * The memory of a node holds row r at r * row_bytes, whichever rank of the node owns the row: all
 * ranks of the node map all of it, and it is sparse. So an owner changes without a copy inside a
 * node, and the window of a rank is simply its map.
 *
 *	create.c     checks, the steps of a creation, the end
 *	agree.c      ranks fail together, and with the same text
 *	layout.c     who owns which rows; ranges as runs of bytes
 *	node.c       the ranks of a node, the pages that they share
 *	meet.c       barriers, and ranks that have ended
 *	access.c     put, get, wait, epoch
 *	atomics.c    accumulate, fetch
 *	save.c       save, load
 *	move.c       parts that get another owner
 *	races.c      what HM_ARRAY_CHECK finds
 *	view.c       the whole array at one range of addresses
 *	pager.c      pages of other nodes, brought by loads
 *	mpi.c        one-sided MPI, and the thread that makes progress
 *	verbs.c      RDMA by libibverbs; verbs_open.c joins the ranks
 */
#ifndef HETMAP_CLUSTER_H
#define HETMAP_CLUSTER_H

#include <hetmap/array.h>
#include <hetmap/error.h>
#include <hetmap/hetmap.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#define PAGE 4096ull
/* Maps of NFS write back folios of up to 2 MiB (hetmap/file.h). */
#define FOLIO (2ull << 20)

/* ---- ranks fail together (agree.c) ---- */

/*
 * Collective: 0 if @r is 0 on all ranks of @comm. Else the error of the first rank that failed,
 * with its text, on all ranks.
 */
int agree(MPI_Comm comm, int r);
/* -EREMOTEIO with MPI's text, unless @code is MPI_SUCCESS. */
int mpi_error(int code, const char *what);

/* ---- rows (layout.c) ---- */

struct layout {
	uint32_t dimensions;
	uint32_t element;
	uint64_t shape[HM_ARRAY_DIMENSIONS];
	uint64_t row_bytes;
	uint64_t bytes;
	struct hm_array_part *parts; /* in the order of rows, without a gap */
	uint32_t n_parts;
	uint32_t *own; /* indices of this rank's parts */
	uint32_t n_own;
	uint64_t own_bytes;
};

int layout_divide(struct layout *layout, const struct hm_array_desc *desc, uint32_t rank,
		  uint32_t ranks);
void layout_free(struct layout *layout);
/* @to: the same with other owners of @rows rows from @row on; the two share nothing. */
int layout_move(const struct layout *layout, uint64_t row, uint64_t rows, uint32_t owner,
		uint32_t rank, struct layout *to);
/* The index of the part that has @row, which is below shape[0]. */
uint32_t layout_find(const struct layout *layout, uint64_t row);
/* Parts that begin inside a unit of @unit bytes which has rows of another node before them. */
uint32_t layout_cuts(const struct layout *layout, const uint32_t *node_of, uint64_t unit);
/* A number that differs, with all probability, if two layouts do. */
uint64_t layout_digest(const struct layout *layout);

/* A walk over the stretches of a range that lie together in one part. */
struct walk {
	const struct layout *layout;
	uint64_t run;                           /* bytes that lie together in the array */
	uint64_t start[HM_ARRAY_DIMENSIONS];    /* of the range */
	uint64_t count[HM_ARRAY_DIMENSIONS];    /* likewise */
	uint64_t position[HM_ARRAY_DIMENSIONS]; /* of the run, inside the range */
	uint32_t outer;                         /* indices that are walked */
	uint64_t offset;                        /* of what is left of the run, in the array */
	uint64_t left;                          /* bytes of it */
	uint64_t packed;                        /* where it begins in the caller's bytes */
	bool ended;
};

struct stretch {
	uint64_t offset; /* in the array */
	uint64_t packed; /* in the caller's bytes */
	uint64_t bytes;
	uint32_t rank;
};

/* -ERANGE, with a text, if the range is not inside the array. */
int walk_begin(struct walk *walk, const struct layout *layout,
	       const struct hm_array_range *range);
bool walk_next(struct walk *walk, struct stretch *ret_stretch);

/* ---- races (races.c) ---- */

enum touch { TOUCH_GET, TOUCH_PUT, TOUCH_CHANGE };

/* Bytes of the array that a rank touched in this epoch. */
struct note {
	uint64_t begin, end;
	uint32_t rank;
	uint32_t kind; /* enum touch */
};

/* Keeps what is touched, if the array is checked. */
int races_note(struct hm_array *array, const struct stretch *stretch, enum touch kind);
/* Collective: -EILSEQ with a text on all ranks if there was a race. Forgets what was kept. */
int races_find(struct hm_array *array);

/* ---- a node (node.c, meet.c) ---- */

#define MEET_TEXT 900

/*
 * Memory that the ranks of a node share beside the bytes. A barrier: each member writes its error,
 * adds itself to arrived, and waits until released changes. The first member, the head, waits for
 * all, meets the heads of the other nodes, writes the result, and adds one to released.
 */
struct control {
	uint64_t magic;
	uint32_t members;
	_Atomic uint32_t arrived;  /* futex */
	_Atomic uint32_t released; /* futex */
	_Atomic uint32_t failing;  /* 1 + index of the first member that came with an error */
	_Atomic uint32_t ended;    /* 1 + rank that was found dead, for good; 0: none */
	int32_t r;                 /* result of the barrier that ended last */
	int32_t r_rank;            /* the rank that it is of */
	char text[MEET_TEXT];      /* of r */
	char failing_text[MEET_TEXT];
	struct member {
		int32_t pid;
		int32_t rank; /* in the array's communicator */
		int32_t r;    /* that it came to the barrier with */
		int64_t call; /* that it is in */
	} member[];
};

struct node {
	MPI_Comm all;   /* the array's, for messages that a first rank has ended */
	MPI_Comm comm;  /* ranks of this node */
	MPI_Comm heads; /* first ranks of all nodes; MPI_COMM_NULL on the others */
	int index;      /* of this rank, in comm */
	int members;
	uint32_t number; /* of this node */
	uint32_t nodes;
	uint32_t rank;     /* in the array's communicator */
	uint32_t *node_of; /* rank of the array -> node */
	struct control *control;
	uint64_t control_bytes;
	int *pidfds; /* of the members; -1: own */
	bool told;   /* the other nodes, that a member has ended */
	struct hm_buffer *buffer;
	struct hm_map *map;
	unsigned char *base; /* of the map */
	uint64_t first;      /* offset in the array of the map's first byte */
};

/* Divides ranks into nodes. @apart: each rank is one. Collective. */
int node_divide(struct node *node, MPI_Comm comm, bool apart);
/* Makes the memory, or gets that of the first rank. Collective; the caller agrees on the result. */
int node_share(struct node *node, const struct hm_array_desc *desc, const struct layout *layout,
	       MPI_Comm comm);
void node_end(struct node *node);
/* Collective calls, which all ranks must be in. */
enum call {
	CALL_CREATE = 1,
	CALL_EPOCH,
	CALL_SAVE,
	CALL_LOAD,
	CALL_MOVE,
	CALL_UNREF,
};

/*
 * Waits for all ranks of all nodes, and makes their failures one. @r: this rank's; its text is set.
 * @call: an enum call, mixed with what must be the same on all ranks: else all fail.
 */
int node_meet(struct node *node, uint64_t call, int r);
/* The number of a call with two arguments. */
uint64_t call_with(enum call call, uint64_t a, uint64_t b);
/* -ECONNRESET, with a text, if a rank of the node has ended. */
int node_check(struct node *node);

/* ---- what changes an element as a whole (atomics.c) ---- */

struct number {
	uint32_t dtype;
	uint32_t bytes;
	bool has_bits; /* may be combined bit by bit */
	MPI_Datatype mpi;
	/* The bits of an element with the bits @a after @op with @b. */
	uint64_t (*combine)(uint32_t op, uint64_t a, uint64_t b);
};

/* ---- transports ---- */

#define RUNS_MOST 4096

/* Bytes that lie apart, at the same places on both sides. */
struct runs {
	int n;
	int length[RUNS_MOST];
	MPI_Aint place[RUNS_MOST];
};

/* How bytes go to and from other nodes. A transport fills all of them; MPI's are in mpi.c. */
struct transport_ops {
	const char *name;
	/* Collective: lets other ranks at @bytes from @base on. */
	int (*expose)(struct hm_array *array, void *base, uint64_t bytes);
	void (*withdraw)(struct hm_array *array, bool together);
	/* Starts a copy to or from @offset of what @rank exposed. */
	int (*put)(struct hm_array *array, uint32_t rank, uint64_t offset, const void *from,
		   uint64_t bytes);
	int (*get)(struct hm_array *array, uint32_t rank, uint64_t offset, void *to,
		   uint64_t bytes);
	/* Starts a copy of all @runs, from @from to @offset. */
	int (*put_runs)(struct hm_array *array, uint32_t rank, uint64_t offset,
			const void *from, const struct runs *runs);
	/* Starts a change of the elements at @offset; @op is an enum hm_array_op. */
	int (*accumulate)(struct hm_array *array, uint32_t rank, uint64_t offset,
			  const void *from, uint64_t bytes, const struct number *number,
			  uint32_t op);
	/* Changes one element, and waits for what it was. */
	int (*fetch_op)(struct hm_array *array, uint32_t rank, uint64_t offset,
			const void *operand, void *ret_old, const struct number *number,
			uint32_t op);
	/* All copies that this rank has started have ended, here and there. */
	int (*flush)(struct hm_array *array);
	/* Serves other ranks. */
	void (*progress)(struct hm_array *array);
};

extern const struct transport_ops transport_mpi;
/* Only where the build has libibverbs. */
extern const struct transport_ops transport_verbs;

struct verbs;

/* Transports that a user can ask for. */
enum way { WAY_MPI, WAY_VERBS };

/*
 * HETMAP_ARRAY_TRANSPORT: "mpi", which is the default, "verbs" or "verbs:DEVICE". @ret_device
 * points to the name, or to "". -EINVAL with a text.
 */
int way_asked(enum way *ret_way, const char **ret_device);

/* ---- one range of addresses (view.c) ---- */

struct pager;

struct view {
	unsigned char *base; /* address of row 0; NULL: there is no view */
	uint64_t length;     /* whole pages */
	int fd;              /* the node's pages */
	struct pager *pager; /* NULL: rows of other nodes are inaccessible */
	struct hm_array *next;
};

/* The view that @desc asks for. Collective. */
int view_make(struct hm_array *array, const struct hm_array_desc *desc);
void view_end(struct hm_array *array, bool together);
/* The view shows @rows rows from @row on where @layout has them. */
int view_follow(struct hm_array *array, const struct layout *layout, uint64_t row,
		uint64_t rows);
/* -EINVAL, with a text, if a page would have rows of two nodes. */
int view_check(const struct hm_array *array, const struct layout *layout);
/* -EINVAL, with a text, if some of the bytes are brought by a pager: MPI can't touch them. */
int view_refuse(const void *address, uint64_t bytes);
/* A rank that has the byte at @offset, and where the rows of its node end. */
uint64_t view_run(const struct hm_array *array, uint64_t offset, uint32_t *ret_rank);
/*
 * The beginning of all collective calls: waits for this rank's copies; with a pager all ranks write
 * pages back, wait for each other, and forget the pages. @r: this rank's error so far.
 */
int array_settle(struct hm_array *array, uint64_t call, int r);

/* ---- pages of other nodes (pager.c) ---- */

int pager_begin(struct hm_array *array, uint64_t room);
/* False: the thread waits in MPI, and everything stays. */
bool pager_end(struct hm_array *array, bool together);
/* Faults in [begin, end) of the view are the pager's from now on. */
int pager_take(struct view *view, uint64_t begin, uint64_t end);
/* Puts what stores changed, and forgets all pages. */
int pager_write_back(struct hm_array *array);
/* Between the two it brings nothing, and no get of its own is under way. */
void pager_hold(struct hm_array *array);
void pager_let_go(struct hm_array *array);
/* Accesses by the kernel are not served. */
bool pager_is_limited(const struct pager *pager);
void pager_tell(struct pager *pager, struct hm_array_info *info);

/* ---- calls (access.c) ---- */

/* Differs between a process and its children by fork(3). */
unsigned int array_generation(void);
/* Begins a public call: -EINVAL, -EOWNERDEAD or -ECONNRESET with a text, or 0. */
int array_check(struct hm_array *array, const void *other);
/* Bytes of a range, or 0: walk_begin() refuses it. */
uint64_t array_bytes_of(const struct hm_array *array, const struct hm_array_range *range);
/* Waits for copies up to @ticket. */
int array_complete(struct hm_array *array, uint64_t ticket);

struct hm_array {
	atomic_uint refs;
	unsigned int generation; /* of the process that made it: array_generation() */
	MPI_Comm comm;           /* its own */
	uint32_t rank;
	uint32_t ranks;
	/* Readers copy by it; a move takes it for writing while it exchanges the tables. */
	pthread_rwlock_t moving;
	struct layout layout;
	struct node node;
	struct view view;
	bool is_file;
	bool is_device; /* not of the host: the kernel may not reach its pages */

	const struct transport_ops *transport; /* NULL: there is one node */
	enum way way;                          /* the transport that was asked for */
	struct verbs *verbs;                   /* transport_verbs: what it needs */
	bool staged; /* some rank's memory is not registered: its copies go by MPI */
	MPI_Win window;
	uint64_t *first;  /* rank -> offset in the array of what it exposed */
	bool exposed;     /* the window is there */
	pthread_t thread; /* progress */
	bool has_thread;
	_Atomic int stop;

	pthread_mutex_t lock;   /* protects the transport's calls, and the next three */
	uint64_t issued;        /* tickets given */
	uint64_t completed;     /* tickets done */
	unsigned char *touched; /* rank -> it has copies that are not flushed */

	bool checks;                /* HM_ARRAY_CHECK */
	pthread_mutex_t notes_lock; /* protects the next three */
	struct note *notes;
	uint64_t n_notes, notes_room;

	uint64_t epochs;
	_Atomic uint64_t shared, sent, received, messages;
};

#endif
