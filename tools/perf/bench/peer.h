/* SPDX-License-Identifier: MIT */
/*
 * The peers: what a program without the library would do. Each does the work
 * that our side does, with the same flags and the same touches. All return 0
 * or a negative errno.
 */
#ifndef HETMAP_PEER_H
#define HETMAP_PEER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hetmap/pointer.h>

/*
 * Puts this file into the program as a text, for --show-peer: what is shown is
 * what was compiled. The parts are headed by a comment "---- CASE ----".
 */
#define PEER_SOURCE(symbol) PEER_SOURCE_OF(symbol, __FILE__)
#define PEER_SOURCE_OF(symbol, file)                  \
	__asm__(".pushsection .rodata\n"              \
		".global " #symbol "\n"               \
		".hidden " #symbol "\n" #symbol ":\n" \
		".incbin \"" file "\"\n"              \
		".byte 0\n"                           \
		".popsection\n")

extern const char peer_maps_source[];
extern const char peer_pointer_source[];
extern const char peer_opencl_source[];
extern const char peer_sim_source[];
extern const char peer_dmabuf_source[];
extern const char peer_drm_source[];
extern const char peer_trace_source[];
extern const char peer_file_source[];
extern const char peer_tokens_source[];
extern const char peer_model_source[];
extern const char peer_ipc_source[];
extern const char peer_pool_source[];
extern const char peer_frames_source[];
extern const char peer_range_source[];
extern const char peer_tier_source[];

/* ---- peer_tier.c ---- */

int peer_tier_cycle(const char *device, int node, size_t length, size_t stride);
int peer_interleave(uint64_t nodes, size_t length, size_t stride);
/* Reads a byte of each of @n lines of 64 bytes; returns their sum. */
uint64_t peer_tiering_read(const char *address, const uint32_t *lines, size_t n);
/* Follows numbers of lines of 64 bytes from @at on; returns the last. */
uint32_t peer_cxl_chase(const char *base, uint32_t at, size_t steps);

/* ---- peer_maps.c ---- */

int peer_map_cycle(size_t length, size_t stride);

/* Bare memory for the rest: @used bytes of a memfd, in @reserved of address space. */
struct peer_map {
	int fd;
	char *address;
	size_t length;
	size_t reserved;
};

int peer_map_create(struct peer_map *map, size_t used, size_t reserved);
void peer_map_destroy(struct peer_map *map);
int peer_protect_pair(char *address, size_t length);
int peer_lock_pair(const char *address, size_t length);
int peer_grow(struct peer_map *map, size_t length);
int peer_grow_realloc(char **address, size_t old_length, size_t length, size_t stride);
int peer_first_touch(struct peer_map *map, size_t length);
/* New memory that may have huge pages, every page written; ended by munmap(). */
int peer_touch_huge(size_t length, char **ret_address);
/* Ended by munmap(). */
int peer_fresh_copy(const char *from, size_t length, char **ret_to);
/* What a program does between two copies, in none of their memory. */
void peer_other_work(size_t turns);
/* @n copies of @length bytes, one after another in @bytes; other work behind each. */
void peer_copies(char *to, const char *from, size_t length, size_t bytes, size_t n,
		 size_t turns);
/* Offset of the @i-th write of @length bytes into @window: all of them come, in no order. */
size_t peer_scattered(size_t i, size_t length, size_t window);
void peer_scatter(char *to, size_t length, size_t window, size_t n);

/* ---- peer_pointer.c ---- */

/* A registry as one would write it: sorted array, binary search, rwlock. */
struct peer_registry {
	pthread_rwlock_t lock;
	struct hm_pointer_info *maps; /* by base; offsets are those of the base */
	size_t n;
};

int peer_pointer_find(struct peer_registry *registry, const void *pointer,
		      struct hm_pointer_info *ret_info);

/* ---- peer_opencl.c ---- */

struct peer_opencl;

/* On the device of that platform and name; NULL without text: the first there is. */
int peer_opencl_open(const char *platform, const char *device, const char *source,
		     const char *kernel, struct peer_opencl **ret_peer);
void peer_opencl_close(struct peer_opencl *peer);
int peer_launch(struct peer_opencl *peer);
/* x and y in buffers of their own: written, computed on, read back. */
int peer_copy_create(struct peer_opencl *peer, size_t bytes);
int peer_copy_saxpy(struct peer_opencl *peer, float a, const float *x, float *y, size_t bytes);
/* x and y where they are: CL_MEM_USE_HOST_PTR. */
int peer_host_create(struct peer_opencl *peer, float *x, float *y, size_t bytes);
int peer_host_saxpy(struct peer_opencl *peer, float a, size_t bytes);

/* ---- peer_dmabuf.c ---- */

/* An access of the CPU's to the dma-buf is begun and ended. 0 or -errno. */
int peer_bracket(int fd);

/* A received object, mapped. */
struct peer_share {
	int fd;
	char *address;
	size_t length;
};

int peer_share_send(int socket, int fd);
int peer_share_receive(int socket, struct peer_share *ret_share);
void peer_share_drop(const struct peer_share *share);

/* ---- peer_drm.c ---- */

struct peer_drm {
	int fd;
	bool dumb; /* a card node, by dumb buffers; else one of virtio_gpu */
};

int peer_drm_open(struct peer_drm *drm, const char *path, bool dumb);
void peer_drm_close(struct peer_drm *drm);
int peer_drm_cycle(const struct peer_drm *drm, size_t length, size_t stride);

/* ---- peer_sim.c ---- */

struct peer_echo;

/* Another thread, which answers through an eventfd what it is told through one. */
int peer_echo_open(struct peer_echo **ret_echo);
void peer_echo_close(struct peer_echo *echo);
int peer_echo(struct peer_echo *echo);

int peer_fault_map(size_t length, char **ret_address);
void peer_fault_unmap(char *address, size_t length);

struct peer_copy {
	int fd;
	char what[32];
};

int peer_copy_open(struct peer_copy *copy, uint32_t to, uint32_t from);
void peer_copy_close(struct peer_copy *copy);
int peer_copy(struct peer_copy *copy, double *ret_ns);

struct peer_transfer {
	int fd;
	off_t offset; /* in it, of the buffer */
	uint32_t *stage;
};

int peer_transfer_open(struct peer_transfer *transfer, const char *device, int fd);
void peer_transfer_close(struct peer_transfer *transfer);
int peer_transfer(struct peer_transfer *transfer, size_t length, uint32_t seed,
		  void (*produce)(uint32_t *words, size_t n, uint32_t seed));

/* ---- peer_trace.c ---- */

/* New memory, a page at a time: 0 and how long that took, or a negative errno. */
int peer_fault(size_t length, bool write, double *ret_ns);
/* A command line, up to NULL: a file, "--" and a program are to follow. */
extern const char *const peer_perf[];
/* Reads a file. 0 or a negative errno. */
int peer_read_all(const char *path);

/* ---- peer_file.c ---- */

/* The sum of all words: what is done with the bytes that are read. */
uint64_t peer_add_up(const void *bytes, size_t length);
/* By read(2) of 1 MiB at a time; by a map of all of it, with @advice of madvise(2). */
int peer_read_file(const char *path, uint64_t *ret_sum);
int peer_map_file(const char *path, int advice, uint64_t *ret_sum);

/* ---- peer_tokens.c ---- */

/* A Python program: its arguments are file, block, batch, batches; prints ns a batch. */
extern const char peer_numpy[];

struct io_uring_sqe;
struct io_uring_cqe;

struct peer_tokens {
	int fd, ring;
	uint64_t tokens;     /* of the file, uint16 */
	size_t block, batch; /* tokens of a block, blocks of a batch */
	uint16_t *bytes;
	uint64_t random; /* not 0 */
	void *queue;
	size_t queue_length, sqes_length;
	unsigned int *sq_tail, *sq_array, *cq_head, *cq_tail, sq_mask, cq_mask;
	struct io_uring_sqe *sqe;
	struct io_uring_cqe *cqe;
};

int peer_tokens_open(struct peer_tokens *peer, const char *path, bool ring);
void peer_tokens_close(struct peer_tokens *peer);
/* A batch of random blocks, x and y, to int64. */
int peer_tokens_pread(struct peer_tokens *peer, int64_t *x, int64_t *y);
int peer_tokens_ring(struct peer_tokens *peer, int64_t *x, int64_t *y);

/* ---- peer_model.c ---- */

/* A program for python3; arguments: a file and the name of a tensor. */
extern const char peer_safetensors_open[];
extern const char peer_gguf_open[];
/*
 * Maps the file, walks its header from length to length, and reads the first element of the tensor
 * @wanted. -ENOENT.
 */
int peer_gguf_pass(const char *path, const char *wanted, float *ret_value);
/* Into @to, and into memory that the caller frees. */
int peer_load(const char *path, char *to, char **ret_bytes);

/* ---- peer_ipc.c ---- */

/* To read from, to write to: O_CLOEXEC. */
int peer_pipe_open(int ret_fds[2]);
int peer_sockets_open(int ret_fds[2]);
int peer_record_write(int fd, const char *record, size_t length);
int peer_record_read(int fd, char *record, size_t length);

/* ---- peer_pool.c ---- */

struct peer_pool {
	const char *name; /* of the peer */
	void *pool;       /* UMF's; NULL: malloc() */
	void *(*allocate)(void *pool, size_t size);
	int (*release)(void *pool, void *bytes);
};

/* UMF's where its library is found; it stays loaded. */
int peer_pool_open(struct peer_pool *pool);
int peer_pool_cycle(struct peer_pool *pool, size_t size, size_t n);

/* ---- peer_range.c ---- */

struct peer_cycles;

int peer_cycle_times(double *ret_ns);
int peer_cycles_open(struct peer_cycles **ret_cycles);
int peer_cycles_ask(struct peer_cycles *cycles, double *ret_ns);
void peer_cycles_close(struct peer_cycles *cycles);
int peer_faults(size_t length, double *ret_ns);
/* Copies bytes to @there and back, @piece by @piece: the time. */
double peer_there_and_back(char *bytes, char *there, size_t length, size_t piece);
void peer_touch(char *bytes, size_t length);
/* Takes the right to write from the range, and gives it back: the first, a page. */
int peer_take_pages(char *bytes, size_t length, double *ret_ns);
int peer_take_rights(char *bytes, size_t length, double *ret_ns);
int peer_file_made(size_t length); /* a descriptor */
int peer_cold(int fd, const void *bytes, size_t length);

#endif
