// SPDX-License-Identifier: MIT
/* Arrays: the ranks of a node, and the pages that they share. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cluster.h"

#define CONTROL_MAGIC 0x31646f6e2d6d68ull

/* The message of a node's head to its other ranks. */
struct offer {
	int32_t r; /* 0, or it has nothing to offer */
	int32_t pid;
	int32_t control; /* its descriptors */
	int32_t memory;  /* -1: a file, which each rank opens */
	uint64_t magic;
};

/* Ranks of a node for tests: HETMAP_ARRAY_NODE; 0: as MPI says. */
static int members_asked(bool apart)
{
	const char *text = getenv("HETMAP_ARRAY_NODE");

	if (apart)
		return 1;
	return text && atoi(text) > 0 ? atoi(text) : 0;
}

int node_divide(struct node *node, MPI_Comm comm, bool apart)
{
	int members = members_asked(apart), rank, ranks, index, number = 0, nodes = 0, code;
	MPI_Comm machine;

	node->comm = node->heads = MPI_COMM_NULL;
	node->all = comm;
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	node->rank = (uint32_t)rank;
	node->node_of = calloc((size_t)ranks, sizeof(*node->node_of));
	/* All calls below are collective: a rank without memory goes through them, too. */
	code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &machine);
	if (code)
		return mpi_error(code, "MPI_Comm_split_type");
	MPI_Comm_rank(machine, &index);
	code = MPI_Comm_split(machine, members ? index / members : 0, rank, &node->comm);
	MPI_Comm_free(&machine);
	if (code)
		return mpi_error(code, "MPI_Comm_split");
	MPI_Comm_rank(node->comm, &node->index);
	MPI_Comm_size(node->comm, &node->members);
	code = MPI_Comm_split(comm, node->index ? MPI_UNDEFINED : 0, rank, &node->heads);
	if (code)
		return mpi_error(code, "MPI_Comm_split");
	if (!node->index) {
		MPI_Comm_rank(node->heads, &number);
		MPI_Comm_size(node->heads, &nodes);
	}
	MPI_Bcast(&number, 1, MPI_INT, 0, node->comm);
	MPI_Bcast(&nodes, 1, MPI_INT, 0, node->comm);
	node->number = (uint32_t)number;
	node->nodes = (uint32_t)nodes;
	if (agree(comm,
		  node->node_of ? 0 : hm_error_set(-ENOMEM, "no memory for %d ranks", ranks)))
		return -ENOMEM;
	code = MPI_Allgather(&node->number, 1, MPI_UINT32_T, node->node_of, 1, MPI_UINT32_T,
			     comm);
	return mpi_error(code, "MPI_Allgather");
}

/* ---- the control page ---- */

static int map_control(struct node *node, int fd)
{
	void *address =
		mmap(NULL, node->control_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (address == MAP_FAILED)
		return hm_error_set(-errno, "mapping %llu bytes that ranks of a node share: %s",
				    (unsigned long long)node->control_bytes, strerror(errno));
	node->control = address;
	return 0;
}

static int make_control(struct node *node, int *ret_fd)
{
	int fd = memfd_create("hetmap-array-control", MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return hm_error_set(-errno, "memfd_create: %s", strerror(errno));
	if (ftruncate(fd, (off_t)node->control_bytes))
		r = hm_error_set(-errno, "%llu bytes of a memfd: %s",
				 (unsigned long long)node->control_bytes, strerror(errno));
	else
		r = map_control(node, fd);
	if (r) {
		close(fd);
		return r;
	}
	node->control->magic = CONTROL_MAGIC;
	node->control->members = (uint32_t)node->members;
	*ret_fd = fd;
	return 0;
}

/* A descriptor of the head's. */
static int open_of(const struct offer *offer, int number, int *ret_fd)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", offer->pid, number);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return hm_error_set(
			-errno,
			"%s of the first rank of the node: %s; ranks of a machine need "
			"one user and one PID namespace, or HETMAP_ARRAY_NODE=1, "
			"which makes each rank a node of its own",
			path, strerror(errno));
	*ret_fd = fd;
	return 0;
}

static int take_control(struct node *node, const struct offer *offer)
{
	struct stat stat;
	int fd, r;

	r = open_of(offer, offer->control, &fd);
	if (r)
		return r;
	if (fstat(fd, &stat) || (uint64_t)stat.st_size != node->control_bytes)
		r = hm_error_set(-EPROTO, "process %d is not the first rank of this node",
				 offer->pid);
	else
		r = map_control(node, fd);
	close(fd);
	if (!r && node->control->magic != offer->magic)
		r = hm_error_set(-EPROTO, "process %d has another build of the library",
				 offer->pid);
	return r;
}

/* ---- the bytes ---- */

/* Bytes of the array that a map of this rank alone has: from its first part to its last. */
static void own_span(const struct layout *layout, uint64_t *ret_first, uint64_t *ret_bytes)
{
	const struct hm_array_part *last;

	*ret_first = 0;
	*ret_bytes = layout->row_bytes;
	if (!layout->n_own)
		return;
	last = &layout->parts[layout->own[layout->n_own - 1]];
	*ret_first = layout->parts[layout->own[0]].row * layout->row_bytes;
	*ret_bytes = (last->row + last->rows) * layout->row_bytes - *ret_first;
}

static int open_file(struct node *node, const struct hm_array_desc *desc,
		     const struct layout *layout)
{
	struct hm_buffer_desc buffer = { .struct_size = sizeof(buffer),
					 .flags = HM_BUFFER_PUBLISH,
					 .size = layout->bytes,
					 .name = desc->name };
	struct hm_device *device;
	struct stat stat_of;
	int r;

	if (stat(desc->path, &stat_of))
		return hm_error_set(-errno, "%s: %s", desc->path, strerror(errno));
	if (S_ISREG(stat_of.st_mode) && (uint64_t)stat_of.st_size < layout->bytes)
		return hm_error_set(
			-ENODATA,
			"%s has %llu bytes, and the array %llu; HM_ARRAY_NEW_FILE makes "
			"a file of that size",
			desc->path, (unsigned long long)stat_of.st_size,
			(unsigned long long)layout->bytes);
	r = hm_device_open("file", &device);
	if (r)
		return r;
	r = hm_buffer_from_file(device, desc->path, -1, &buffer, &node->buffer);
	hm_device_unref(device);
	return r;
}

static int make_memory(struct node *node, const struct hm_array_desc *desc,
		       const struct layout *layout)
{
	struct hm_buffer_desc buffer = { .struct_size = sizeof(buffer),
					 .size = layout->bytes,
					 .name = desc->name ? desc->name : "array" };
	struct hm_device *device = hm_device_ref(desc->device);
	int r = 0;

	if (device)
		own_span(layout, &node->first, &buffer.size);
	else
		r = hm_device_open("host", &device);
	if (r)
		return r;
	r = hm_buffer_create(device, &buffer, &node->buffer);
	hm_device_unref(device);
	return r;
}

static int take_memory(struct node *node, const struct offer *offer, const char *name)
{
	struct hm_buffer_desc buffer = { .struct_size = sizeof(buffer),
					 .name = name ? name : "array" };
	struct hm_device *device;
	int fd, r;

	r = open_of(offer, offer->memory, &fd);
	if (r)
		return r;
	r = hm_device_open("host", &device);
	if (!r) {
		r = hm_buffer_import(device, fd, &buffer, &node->buffer);
		hm_device_unref(device);
	}
	close(fd);
	return r;
}

/* Descriptors of the members tell when they end, whatever process has their number later. */
static int watch_members(struct node *node)
{
	int i;

	node->pidfds = calloc((size_t)node->members, sizeof(*node->pidfds));
	if (!node->pidfds)
		return hm_error_set(-ENOMEM, "no memory for %d ranks", node->members);
	for (i = 0; i < node->members; i++)
		node->pidfds[i] = -1;
	for (i = 0; i < node->members; i++) {
		int pid = node->control->member[i].pid;

		if (i == node->index)
			continue;
		node->pidfds[i] = (int)syscall(SYS_pidfd_open, pid, 0);
		if (node->pidfds[i] < 0)
			return hm_error_set(-errno, "process %d of rank %d: %s", pid,
					    node->control->member[i].rank, strerror(errno));
	}
	return 0;
}

int node_share(struct node *node, const struct hm_array_desc *desc, const struct layout *layout,
	       MPI_Comm comm)
{
	struct offer offer = { .pid = getpid(), .control = -1, .memory = -1 };
	int r = 0;

	offer.magic = CONTROL_MAGIC;
	node->control_bytes = sizeof(*node->control) +
			      (uint64_t)node->members * sizeof(node->control->member[0]);
	if (desc->path)
		r = open_file(node, desc, layout);
	else if (!node->index)
		r = make_memory(node, desc, layout);
	if (!r && !node->index && !desc->path && node->members > 1)
		r = hm_buffer_export(node->buffer, 0, &offer.memory);
	if (!r && !node->index)
		r = make_control(node, &offer.control);
	r = agree(comm, r);
	if (r)
		goto out;
	MPI_Bcast(&offer, sizeof(offer), MPI_BYTE, 0, node->comm);
	if (node->index) {
		r = take_control(node, &offer);
		if (!r && !desc->path)
			r = take_memory(node, &offer, desc->name);
	}
	if (!r)
		r = hm_map_create(node->buffer, NULL, &node->map);
	if (!r) {
		node->base = hm_map_address(node->map);
		node->control->member[node->index].pid = getpid();
		node->control->member[node->index].rank = (int32_t)node->rank;
	}
	/* The head's descriptors are needed up to here; the numbers of processes are there. */
	r = agree(comm, r);
	if (!r)
		r = agree(comm, watch_members(node));
out:
	if (!node->index && offer.control >= 0)
		close(offer.control);
	if (!node->index && offer.memory >= 0)
		close(offer.memory);
	return r;
}

void node_end(struct node *node)
{
	int i;

	for (i = 0; node->pidfds && i < node->members; i++)
		if (node->pidfds[i] >= 0)
			close(node->pidfds[i]);
	free(node->pidfds);
	hm_map_unref(node->map);
	hm_buffer_unref(node->buffer);
	if (node->control)
		munmap(node->control, node->control_bytes);
	free(node->node_of);
	memset(node, 0, sizeof(*node));
	node->comm = node->heads = MPI_COMM_NULL;
}
