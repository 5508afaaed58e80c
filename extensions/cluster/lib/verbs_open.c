// SPDX-License-Identifier: MIT
/*
 * Arrays: the RDMA device of a rank, its registered memory, and its connections.
 *
 * Each rank has a reliable connection to each, also to itself: the changes of elements that a
 * device makes are atomic against each other, and against no CPU's. Ranks tell each other by MPI
 * where they are.
 */
#ifdef HAVE_VERBS
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define READS_MOST 16u
/*
 * About 1 s for an answer, and 7 s until a connection fails: a machine that is emulated may stand
 * still for seconds. One try more would be for ever with rdma_rxe: callers would wait for a rank
 * that has ended.
 */
#define TIMEOUT 18
#define TRIES 6
#define NOT_READY_TRIES 7

/* ---- the device ---- */

/* A port that is active, from 1; 0: none. */
static uint8_t active_port(struct ibv_context *context, const struct ibv_device_attr *device)
{
	struct ibv_port_attr attr;
	uint8_t port;

	for (port = 1; port <= device->phys_port_cnt; port++)
		if (!ibv_query_port(context, port, &attr) && attr.state == IBV_PORT_ACTIVE)
			return port;
	return 0;
}

static int open_device(struct verbs *verbs, const char *name, struct ibv_device_attr *ret_attr)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i;

	for (i = 0; list && list[i] && !verbs->context; i++) {
		if (*name && strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		verbs->context = ibv_open_device(list[i]);
		if (!verbs->context)
			continue;
		if (!ibv_query_device(verbs->context, ret_attr))
			verbs->port = active_port(verbs->context, ret_attr);
		if (verbs->port)
			break;
		ibv_close_device(verbs->context);
		verbs->context = NULL;
	}
	if (list)
		ibv_free_device_list(list);
	if (verbs->context)
		return 0;
	return hm_error_set(-ENODEV,
			    "no RDMA device%s%s that can be opened has an active port: see "
			    "/sys/class/infiniband, or leave HETMAP_ARRAY_TRANSPORT out",
			    *name ? " " : "", name);
}

/* How good an address is between machines. */
static int score(const struct ibv_gid_entry *entry)
{
	static const unsigned char ipv4[12] = { [10] = 0xff, [11] = 0xff };

	if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
		return 1;
	return memcmp(entry->gid.raw, ipv4, sizeof(ipv4)) ? 2 : 3;
}

static int find_address(struct verbs *verbs, struct exposure *mine)
{
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	int i, best = 0, r;

	r = ibv_query_port(verbs->context, verbs->port, &port);
	if (r)
		return hm_error_set(-r, "port %u of an RDMA device: %s", verbs->port,
				    strerror(r));
	mine->mtu = port.active_mtu;
	mine->lid = port.lid;
	mine->global = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	for (i = 0; i < port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(verbs->context, verbs->port, (uint32_t)i, &entry, 0) ||
		    score(&entry) <= best)
			continue;
		best = score(&entry);
		verbs->gid_index = i;
		mine->gid = entry.gid;
	}
	if (mine->global && !best)
		return hm_error_set(
			-EADDRNOTAVAIL,
			"port %u of RDMA device %s has no address: give its network "
			"card one",
			verbs->port, ibv_get_device_name(verbs->context->device));
	return 0;
}

/* ---- memory ---- */

/* Memory of a device is registered as a dma-buf, if its pages have no other way. */
static struct ibv_mr *register_dmabuf(const struct hm_array *array, void *base, uint64_t bytes)
{
	struct ibv_mr *memory;
	int fd, saved;

	if (hm_buffer_export(array->node.buffer, HM_EXPORT_DMABUF, &fd)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	memory = ibv_reg_dmabuf_mr(array->verbs->pd, 0, bytes, (uintptr_t)base, fd, ACCESS);
	saved = errno;
	close(fd);
	errno = saved;
	return memory;
}

/*
 * Memory that the device refuses is no error: its copies go by MPI. A limit on locked memory is an
 * error, as the user can raise it.
 */
static int register_memory(struct hm_array *array, void *base, uint64_t bytes)
{
	struct verbs *verbs = array->verbs;

	if (array->is_device)
		verbs->memory = register_dmabuf(array, base, bytes);
	if (!verbs->memory)
		verbs->memory = ibv_reg_mr(verbs->pd, base, bytes, ACCESS);
	if (!verbs->memory && errno == ENOMEM)
		return hm_error_set(
			-ENOMEM,
			"registering %llu bytes for RDMA: raise RLIMIT_MEMLOCK "
			"(ulimit -l) to as many, or leave HETMAP_ARRAY_TRANSPORT out",
			(unsigned long long)bytes);
	return 0;
}

static int make_slots(struct verbs *verbs)
{
	/* Shared: a child of this process would take private pages away from the device. */
	void *bytes = mmap(NULL, SLOTS_BYTES, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return hm_error_set(-errno, "%u bytes for copies under way: %s", SLOTS_BYTES,
				    strerror(errno));
	verbs->bytes = bytes;
	verbs->buffer = ibv_reg_mr(verbs->pd, bytes, SLOTS_BYTES, IBV_ACCESS_LOCAL_WRITE);
	if (!verbs->buffer)
		return hm_error_set(-errno,
				    "registering %u bytes for RDMA: %s; raise RLIMIT_MEMLOCK "
				    "(ulimit -l)",
				    SLOTS_BYTES, strerror(errno));
	return 0;
}

/* ---- connections ---- */

static int make_end(struct verbs *verbs, struct peer *peer, uint32_t salt)
{
	struct ibv_qp_init_attr made = {
		.send_cq = verbs->cq,
		.recv_cq = verbs->cq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = SLOTS,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = verbs->port,
				    .qp_access_flags = ACCESS };
	int r;

	peer->qp = ibv_create_qp(verbs->pd, &made);
	if (!peer->qp)
		return hm_error_set(-errno, "a connection for RDMA: %s", strerror(errno));
	r = ibv_modify_qp(peer->qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	if (r)
		return hm_error_set(-r, "a connection for RDMA: %s", strerror(r));
	peer->here.number = peer->qp->qp_num;
	peer->here.first = (peer->qp->qp_num * 2654435761u ^ salt) & 0xffffff;
	return 0;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The two ends of a connection know each other, and bytes may go. */
static int connect_end(struct verbs *verbs, struct peer *peer, const struct exposure *mine,
		       const struct ends *there, uint32_t rank)
{
	uint8_t reads = (uint8_t)least(mine->reads, peer->exposure.reads);
	struct ibv_qp_attr ready = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = (enum ibv_mtu)least(mine->mtu, peer->exposure.mtu),
		.dest_qp_num = there->number,
		.rq_psn = there->first,
		.max_dest_rd_atomic = reads,
		.min_rnr_timer = 12,
		.ah_attr = { .dlid = (uint16_t)peer->exposure.lid,
			     .port_num = verbs->port,
			     .is_global = mine->global != 0,
			     .grh = { .dgid = peer->exposure.gid,
				      .sgid_index = (uint8_t)verbs->gid_index,
				      .hop_limit = 64 } },
	};
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = peer->here.first,
		.timeout = TIMEOUT,
		.retry_cnt = TRIES,
		.rnr_retry = NOT_READY_TRIES,
		.max_rd_atomic = reads,
	};
	int r;

	r = ibv_modify_qp(peer->qp, &ready,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER);
	if (!r)
		r = ibv_modify_qp(peer->qp, &send,
				  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					  IBV_QP_MAX_QP_RD_ATOMIC);
	return r ? hm_error_set(-r, "an RDMA connection to rank %u: %s", rank, strerror(r)) : 0;
}

/* This rank's part, before others are told of it. */
static int prepare(struct hm_array *array, void *base, uint64_t bytes, struct exposure *mine)
{
	struct verbs *verbs = array->verbs;
	struct ibv_device_attr device;
	const char *name;
	enum way way;
	uint32_t rank;
	int r;

	if (!verbs || !verbs->peers)
		return hm_error_set(-ENOMEM, "no memory for %u connections", array->ranks);
	r = way_asked(&way, &name);
	if (!r)
		r = open_device(verbs, name, &device);
	if (!r)
		r = find_address(verbs, mine);
	if (r)
		return r;
	verbs->pd = ibv_alloc_pd(verbs->context);
	verbs->cq = verbs->pd ? ibv_create_cq(verbs->context, SLOTS + 1, NULL, NULL, 0) : NULL;
	if (!verbs->cq)
		return hm_error_set(-errno, "RDMA device %s: %s",
				    ibv_get_device_name(verbs->context->device),
				    strerror(errno));
	r = register_memory(array, base, bytes);
	if (!r)
		r = make_slots(verbs);
	for (rank = 0; !r && rank < array->ranks; rank++)
		r = make_end(verbs, &verbs->peers[rank], (uint32_t)getpid());
	mine->address = (uintptr_t)base;
	mine->ready = verbs->memory != NULL;
	mine->rkey = verbs->memory ? verbs->memory->rkey : 0;
	mine->atomics = device.atomic_cap != IBV_ATOMIC_NONE;
	mine->reads = least(READS_MOST, (uint32_t)least((uint32_t)device.max_qp_rd_atom,
							(uint32_t)device.max_qp_init_rd_atom));
	return r;
}

/* Tells all ranks, and connects with them. */
static int join(struct hm_array *array, const struct exposure *mine)
{
	struct verbs *verbs = array->verbs;
	struct exposure *all = calloc(array->ranks, sizeof(*all));
	struct ends *here = calloc(array->ranks, sizeof(*here));
	struct ends *there = calloc(array->ranks, sizeof(*there));
	uint32_t rank;
	int code, r = 0;

	if (!all || !here || !there)
		r = hm_error_set(-ENOMEM, "no memory for %u connections", array->ranks);
	r = agree(array->comm, r);
	if (r)
		goto out;
	for (rank = 0; rank < array->ranks; rank++)
		here[rank] = verbs->peers[rank].here;
	code = MPI_Allgather(mine, sizeof(*mine), MPI_BYTE, all, sizeof(*mine), MPI_BYTE,
			     array->comm);
	if (!code)
		code = MPI_Alltoall(here, sizeof(*here), MPI_BYTE, there, sizeof(*there),
				    MPI_BYTE, array->comm);
	if (code) {
		r = mpi_error(code, "MPI_Alltoall");
		goto out;
	}
	verbs->atomics = true;
	for (rank = 0; !r && rank < array->ranks; rank++) {
		verbs->peers[rank].exposure = all[rank];
		verbs->atomics &= all[rank].atomics != 0;
		array->staged |= !all[rank].ready;
		r = connect_end(verbs, &verbs->peers[rank], mine, &there[rank], rank);
	}
	/* No rank sends before all can receive. */
	r = agree(array->comm, r);
out:
	free(all);
	free(here);
	free(there);
	return r;
}

int verbs_open(struct hm_array *array, void *base, uint64_t bytes)
{
	struct exposure mine;
	int r;

	memset(&mine, 0, sizeof(mine));
	array->verbs = calloc(1, sizeof(*array->verbs));
	if (array->verbs)
		array->verbs->peers = calloc(array->ranks, sizeof(*array->verbs->peers));
	r = agree(array->comm, prepare(array, base, bytes, &mine));
	return r ? r : join(array, &mine);
}

void verbs_close(struct hm_array *array)
{
	struct verbs *verbs = array->verbs;
	uint32_t rank;

	if (!verbs)
		return;
	for (rank = 0; verbs->peers && rank < array->ranks; rank++)
		if (verbs->peers[rank].qp)
			ibv_destroy_qp(verbs->peers[rank].qp);
	if (verbs->cq)
		ibv_destroy_cq(verbs->cq);
	if (verbs->buffer)
		ibv_dereg_mr(verbs->buffer);
	if (verbs->memory)
		ibv_dereg_mr(verbs->memory);
	if (verbs->pd)
		ibv_dealloc_pd(verbs->pd);
	if (verbs->context)
		ibv_close_device(verbs->context);
	if (verbs->bytes)
		munmap(verbs->bytes, SLOTS_BYTES);
	free(verbs->peers);
	free(verbs);
	array->verbs = NULL;
}
#else
typedef int no_verbs;
#endif
