// SPDX-License-Identifier: MIT
/* Arrays: the steps of a creation, and the end. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster.h"

/* Counts changes of what ranks tell each other. */
#define PROTOCOL 3u
#define FLAGS (HM_ARRAY_NEW_FILE | HM_ARRAY_CHECK | HM_ARRAY_SAME_ADDRESS | HM_ARRAY_PAGED)

/* The first message of each rank. */
struct greeting {
	uint64_t digest; /* of the description */
	uint32_t version;
	uint32_t protocol;
	uint32_t flags;
	uint32_t is_file;
	uint32_t has_device;
	uint32_t way;    /* enum way */
	uint32_t failed; /* it refuses its description, and the rest means nothing */
};

static int check_comm(const void *comm)
{
	int ready = 0, ended = 0, inter;

	MPI_Initialized(&ready);
	MPI_Finalized(&ended);
	if (!ready || ended)
		return hm_error_set(-EINVAL, "MPI is %s: call MPI_Init_thread() first",
				    ended ? "finalized" : "not initialised");
	if (*(const MPI_Comm *)comm == MPI_COMM_NULL)
		return hm_error_set(
			-EINVAL,
			"the communicator of an array is MPI_COMM_NULL: this process is "
			"no rank of it");
	MPI_Comm_test_inter(*(const MPI_Comm *)comm, &inter);
	if (inter)
		return hm_error_set(-EINVAL, "the communicator of an array joins two groups: "
					     "merge them by MPI_Intercomm_merge()");
	return 0;
}

static int check_desc(const struct hm_array_desc *given, struct hm_array_desc *ret_desc)
{
	const unsigned char *bytes = (const void *)given;
	const char *check = getenv("HETMAP_ARRAY_CHECK");
	uint32_t size, i;

	if (!given || given->struct_size < sizeof(given->struct_size))
		return hm_error_set(-EINVAL, "an array needs a description with its size");
	for (i = sizeof(*given); i < given->struct_size; i++)
		if (bytes[i])
			return hm_error_set(-E2BIG,
					    "struct_size is %u, and this library knows %zu",
					    given->struct_size, sizeof(*given));
	size = given->struct_size < sizeof(*given) ? given->struct_size : sizeof(*given);
	memcpy(ret_desc, given, size);
	if (check && *check && strcmp(check, "0") != 0)
		ret_desc->flags |= HM_ARRAY_CHECK;
	if (ret_desc->flags & ~FLAGS)
		return hm_error_set(-EINVAL, "unknown flags %#x of an array", ret_desc->flags);
	if (ret_desc->flags & HM_ARRAY_NEW_FILE && !ret_desc->path)
		return hm_error_set(-EINVAL, "HM_ARRAY_NEW_FILE without a path");
	if (ret_desc->path && ret_desc->device)
		return hm_error_set(
			-EINVAL, "an array is in a file or in a device: give path or device");
	return 0;
}

static int compare(const struct greeting *mine, const struct greeting *other, uint32_t rank)
{
	if (other->version != mine->version || other->protocol != mine->protocol)
		return hm_error_set(
			-EPROTO,
			"rank %u has hetmap %#x with protocol %u, and this rank %#x "
			"with %u: run one build on all ranks",
			rank, other->version, other->protocol, mine->version, mine->protocol);
	if (mine->failed || other->failed)
		return 0;
	if (other->is_file != mine->is_file || other->has_device != mine->has_device ||
	    other->flags != mine->flags)
		return hm_error_set(
			-EINVAL,
			"rank %u has another description: path, device and flags must be "
			"there on all ranks, or on none",
			rank);
	if (other->way != mine->way)
		return hm_error_set(-EINVAL,
				    "rank %u has another transport: set HETMAP_ARRAY_TRANSPORT "
				    "on all ranks, or on none",
				    rank);
	if (other->digest != mine->digest)
		return hm_error_set(-EINVAL,
				    "rank %u has another shape, element or distribution", rank);
	return 0;
}

int way_asked(enum way *ret_way, const char **ret_device)
{
	const char *text = getenv("HETMAP_ARRAY_TRANSPORT");

	*ret_way = WAY_MPI;
	*ret_device = "";
	if (!text || !*text || !strcmp(text, "mpi"))
		return 0;
	if (strcmp(text, "verbs") != 0 && strncmp(text, "verbs:", 6) != 0)
		return hm_error_set(
			-EINVAL,
			"HETMAP_ARRAY_TRANSPORT is '%s': give it as mpi, verbs or verbs:DEVICE",
			text);
#ifdef HAVE_VERBS
	*ret_way = WAY_VERBS;
	if (text[5])
		*ret_device = text + 6;
	return 0;
#else
	return hm_error_set(
		-EOPNOTSUPP,
		"HETMAP_ARRAY_TRANSPORT is '%s', and this library was built without "
		"libibverbs (libibverbs-dev)",
		text);
#endif
}

/* All ranks have the same description, or all fail. @r: this rank's own checks. */
static int greet(struct hm_array *array, const struct hm_array_desc *desc, int r)
{
	struct greeting mine = { .version = hm_version(),
				 .protocol = PROTOCOL,
				 .flags = desc->flags,
				 .is_file = desc->path != NULL,
				 .has_device = desc->device != NULL,
				 .way = (uint32_t)array->way,
				 .failed = r != 0,
				 .digest = r ? 0 : layout_digest(&array->layout) };
	struct greeting first = mine;
	int code;

	/* The first rank's is what the others are compared with. */
	code = MPI_Bcast(&first, sizeof(first), MPI_BYTE, 0, array->comm);
	if (code)
		return mpi_error(code, "MPI_Bcast");
	if (!r)
		r = compare(&mine, &first, 0);
	return agree(array->comm, r);
}

/* On a network file system a folio has the stores of one machine. */
static int check_folios(const struct hm_array *array, const char *path)
{
	struct hm_file_system_info system = { .struct_size = sizeof(system) };
	uint32_t n = array->node.nodes > 1 ?
			     layout_cuts(&array->layout, array->node.node_of, FOLIO) :
			     0;
	int r;

	if (!n)
		return 0;
	r = hm_file_system_query(path, -1, &system);
	if (r || system.coherence == HM_COHERENCE_LOCAL ||
	    system.coherence == HM_COHERENCE_LOCKS)
		return r;
	return hm_error_set(
		-ENOTSUP,
		"%s is on %s, and %u parts share 2 MiB of it with a part of another "
		"node: give hm_array_desc.chunk a multiple of %llu rows of %llu bytes",
		path, system.name, n,
		(unsigned long long)((FOLIO + array->layout.row_bytes - 1) /
				     array->layout.row_bytes),
		(unsigned long long)array->layout.row_bytes);
}

static int make_file(const struct hm_array *array, const struct hm_array_desc *desc)
{
	int fd, r = 0;

	if (array->rank || !(desc->flags & HM_ARRAY_NEW_FILE))
		return 0;
	fd = open(desc->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return hm_error_set(-errno, "%s: %s", desc->path, strerror(errno));
	if (ftruncate(fd, (off_t)array->layout.bytes) || fsync(fd))
		r = hm_error_set(-errno, "%s of %llu bytes: %s", desc->path,
				 (unsigned long long)array->layout.bytes, strerror(errno));
	close(fd);
	return r;
}

/* Facts that other nodes need. */
static int open_transport(struct hm_array *array)
{
	uint64_t bytes = hm_map_length(array->node.map);
	int code, r = 0;

	array->touched = calloc(array->ranks, 1);
	array->first = calloc(array->ranks, sizeof(*array->first));
	if (!array->touched || !array->first)
		r = hm_error_set(-ENOMEM, "no memory for %u ranks", array->ranks);
	r = agree(array->comm, r);
	if (r)
		return r;
	code = MPI_Allgather(&array->node.first, 1, MPI_UINT64_T, array->first, 1, MPI_UINT64_T,
			     array->comm);
	if (code)
		return mpi_error(code, "MPI_Allgather");
	array->transport = &transport_mpi;
#ifdef HAVE_VERBS
	if (array->way == WAY_VERBS)
		array->transport = &transport_verbs;
#endif
	return agree(array->comm, array->transport->expose(array, array->node.base, bytes));
}

/* Warnings come last: calls of the library forget them. */
static void warn(const struct hm_array *array)
{
	uint32_t n;

	if (array->node.nodes < 2)
		return;
	n = array->is_file ? 0 : layout_cuts(&array->layout, array->node.node_of, PAGE);
	if (n)
		hm_error_set(
			0,
			"%u parts begin inside a page of another node's part: each of the "
			"nodes has such a page; give hm_array_desc.chunk rows of a multiple "
			"of %llu bytes",
			n, PAGE);
	if (array->view.pager && pager_is_limited(array->view.pager))
		hm_error_set(0,
			     "userfaultfd is for accesses of this program only: a system call "
			     "that reads or writes rows of another node fails with EFAULT");
	if (array->staged)
		hm_error_set(
			0,
			"memory of some ranks can't be registered for RDMA, as that of files "
			"can't: what goes there goes by MPI");
	if (!array->has_thread)
		hm_error_set(0,
			     "MPI has no MPI_THREAD_MULTIPLE: other nodes wait for this rank "
			     "while it computes");
}

static void end(struct hm_array *array, bool together)
{
	/* The pager uses the transport. */
	view_end(array, together);
	if (array->transport)
		array->transport->withdraw(array, together);
	if (together) {
		if (array->node.heads != MPI_COMM_NULL)
			MPI_Comm_free(&array->node.heads);
		if (array->node.comm != MPI_COMM_NULL)
			MPI_Comm_free(&array->node.comm);
		if (array->comm != MPI_COMM_NULL)
			MPI_Comm_free(&array->comm);
	}
	node_end(&array->node);
	layout_free(&array->layout);
	free(array->first);
	free(array->touched);
	pthread_mutex_destroy(&array->lock);
	pthread_rwlock_destroy(&array->moving);
	pthread_mutex_destroy(&array->notes_lock);
	free(array->notes);
	free(array);
}

static int make(struct hm_array *array, const struct hm_array_desc *given)
{
	struct hm_array_desc desc = { 0 };
	const char *device;
	int r = check_desc(given, &desc);

	if (!r)
		r = way_asked(&array->way, &device);
	if (!r)
		r = layout_divide(&array->layout, &desc, array->rank, array->ranks);
	r = greet(array, &desc, r);
	if (r)
		return r;
	array->is_file = desc.path != NULL;
	array->is_device = desc.device != NULL;
	array->checks = desc.flags & HM_ARRAY_CHECK;
	r = node_divide(&array->node, array->comm, desc.device != NULL);
	if (!r)
		r = agree(array->comm, make_file(array, &desc));
	if (!r)
		r = agree(array->comm, desc.path ? check_folios(array, desc.path) : 0);
	if (!r)
		r = node_share(&array->node, &desc, &array->layout, array->comm);
	if (!r && array->node.nodes > 1)
		r = open_transport(array);
	if (!r)
		r = view_make(array, &desc);
	if (!r)
		r = node_meet(&array->node, call_with(CALL_CREATE, 0, 0), 0);
	return r;
}

int hm_array_create(const void *comm, const struct hm_array_desc *desc,
		    struct hm_array **ret_array)
{
	struct hm_array *array;
	int rank, ranks, code, r;

	hm_error_begin();
	if (!comm || !ret_array)
		return hm_error_set(-EINVAL,
				    "an array needs a communicator, and a place for it");
	r = check_comm(comm);
	if (r)
		return r;
	array = calloc(1, sizeof(*array));
	if (!array)
		return hm_error_set(-ENOMEM, "no memory for an array");
	array->comm = array->node.comm = array->node.heads = MPI_COMM_NULL;
	pthread_mutex_init(&array->lock, NULL);
	pthread_rwlock_init(&array->moving, NULL);
	pthread_mutex_init(&array->notes_lock, NULL);
	atomic_init(&array->refs, 1);
	array->generation = array_generation();
	array->view.fd = -1;
	code = MPI_Comm_dup(*(const MPI_Comm *)comm, &array->comm);
	if (code) {
		r = mpi_error(code, "MPI_Comm_dup");
		end(array, false);
		return r;
	}
	MPI_Comm_set_errhandler(array->comm, MPI_ERRORS_RETURN);
	MPI_Comm_rank(array->comm, &rank);
	MPI_Comm_size(array->comm, &ranks);
	array->rank = (uint32_t)rank;
	array->ranks = (uint32_t)ranks;
	r = make(array, desc);
	if (r) {
		end(array, r != -ECONNRESET && r != -EREMOTEIO);
		return r;
	}
	warn(array);
	*ret_array = array;
	return 0;
}

struct hm_array *hm_array_ref(struct hm_array *array)
{
	if (array)
		atomic_fetch_add_explicit(&array->refs, 1, memory_order_relaxed);
	return array;
}

void hm_array_unref(struct hm_array *array)
{
	int ended = 0;

	if (!array || atomic_fetch_sub_explicit(&array->refs, 1, memory_order_acq_rel) != 1)
		return;
	/* Window and ranks are the parent's: a child ends none of them. */
	if (array->generation != array_generation())
		return;
	MPI_Finalized(&ended);
	if (!ended)
		ended = node_check(&array->node) ||
			node_meet(&array->node, call_with(CALL_UNREF, 0, 0), 0);
	end(array, !ended);
}
