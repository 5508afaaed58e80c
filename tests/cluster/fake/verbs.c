// SPDX-License-Identifier: MIT
#include "cluster/fake/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <unistd.h>

#define QUEUE 256
#define ANY (-1ul)

struct fake_verbs fake_verbs = { .refuses_dmabuf = EOPNOTSUPP };

struct connection {
	struct ibv_qp qp;
	enum ibv_qp_state state;
	uint32_t process; /* at the other end */
	uint32_t number;  /* the connection's number there */
};

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context;
static struct ibv_pd domain = { .context = &context };
static struct ibv_cq queue = { .context = &context };
static struct ibv_wc ended[QUEUE];
static unsigned int first, n_ended;
static uint32_t last_number;
static uint64_t operations;

struct ibv_device **ibv_get_device_list(int *ret_n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (list && !fake_verbs.missing)
		list[0] = &device;
	if (ret_n)
		*ret_n = !fake_verbs.missing;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

int ibv_query_device(struct ibv_context *of, struct ibv_device_attr *ret_attr)
{
	(void)of;
	memset(ret_attr, 0, sizeof(*ret_attr));
	ret_attr->phys_port_cnt = 2;
	ret_attr->atomic_cap = fake_verbs.without_atomics ? IBV_ATOMIC_NONE : IBV_ATOMIC_HCA;
	ret_attr->max_qp_rd_atom = 128;
	ret_attr->max_qp_init_rd_atom = 4;
	return 0;
}

/* The first of two ports has no wire. */
#undef ibv_query_port
int ibv_query_port(struct ibv_context *of, uint8_t port, struct _compat_ibv_port_attr *ret_attr)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)ret_attr;

	(void)of;
	attr->state = port == 2 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	attr->active_mtu = IBV_MTU_1024;
	attr->gid_tbl_len = 3;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

/* The second address is the one between machines; its end is this process. */
int _ibv_query_gid_ex(struct ibv_context *of, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *ret_entry, uint32_t flags, size_t size)
{
	uint32_t process = (uint32_t)getpid();

	(void)of;
	(void)port;
	(void)flags;
	memset(ret_entry, 0, size);
	ret_entry->gid_type = index ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
	if (index == 1) {
		ret_entry->gid.raw[10] = ret_entry->gid.raw[11] = 0xff;
		memcpy(ret_entry->gid.raw + 12, &process, sizeof(process));
	}
	return 0;
}

/* ---- memory ---- */

static struct ibv_mr *add(void *address, size_t bytes)
{
	struct ibv_mr *memory = calloc(1, sizeof(*memory));

	if (!memory)
		return NULL;
	fake_verbs.open++;
	memory->context = &context;
	memory->pd = &domain;
	memory->addr = address;
	memory->length = bytes;
	memory->lkey = memory->rkey = (uint32_t)(uintptr_t)memory | 1;
	return memory;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t bytes, int access)
{
	(void)pd;
	if (access & IBV_ACCESS_REMOTE_READ && fake_verbs.refuses_memory) {
		errno = fake_verbs.refuses_memory;
		return NULL;
	}
	return add(address, bytes);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
				 uint64_t address, int fd, int access)
{
	(void)pd;
	(void)access;
	errno = fake_verbs.refuses_dmabuf;
	if (!errno && (fcntl(fd, F_GETFD) < 0 || offset || !bytes))
		errno = EINVAL;
	if (errno)
		return NULL;
	fake_verbs.dmabufs++;
	return add((void *)(uintptr_t)address, bytes);
}

int ibv_dereg_mr(struct ibv_mr *memory)
{
	fake_verbs.open--;
	free(memory);
	return 0;
}

/* ---- work ---- */

static int copy_there(uint32_t process, uint64_t address, void *bytes, size_t n, bool write)
{
	char path[64];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/mem", process);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	got = write ? pwrite(fd, bytes, n, (off_t)address) :
		      pread(fd, bytes, n, (off_t)address);
	close(fd);
	return got == (ssize_t)n ? 0 : -EIO;
}

/* All processes of a program change elements one after another. */
static int change_there(uint32_t process, const struct ibv_send_wr *work, uint64_t *old)
{
	uint64_t address = work->wr.atomic.remote_addr, new;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), r;

	if (fd < 0 || flock(fd, LOCK_EX))
		return -errno;
	r = copy_there(process, address, old, sizeof(*old), false);
	new = work->wr.atomic.compare_add;
	if (work->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		new += *old;
	else
		new = *old == new ? work->wr.atomic.swap : *old;
	r = r || address % 8 ? -EIO : copy_there(process, address, &new, sizeof(new), true);
	close(fd);
	return r;
}

static int do_work(struct connection *at, const struct ibv_send_wr *work)
{
	const struct ibv_sge *place = work->sg_list;
	void *here = (void *)(uintptr_t)place->addr;

	if (++operations == fake_verbs.fail_after || !place->lkey)
		return -EIO;
	switch (work->opcode) {
	case IBV_WR_RDMA_WRITE:
		fake_verbs.writes++;
		return copy_there(at->process, work->wr.rdma.remote_addr, here, place->length,
				  true);
	case IBV_WR_RDMA_READ:
		fake_verbs.reads++;
		return copy_there(at->process, work->wr.rdma.remote_addr, here, place->length,
				  false);
	default:
		fake_verbs.changes++;
		return fake_verbs.without_atomics ? -EIO :
						    change_there(at->process, work, here);
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *work, struct ibv_send_wr **ret_bad)
{
	struct connection *at = (struct connection *)qp;
	struct ibv_wc *wc = &ended[(first + n_ended) % QUEUE];

	*ret_bad = work;
	if (at->state != IBV_QPS_RTS)
		return EINVAL;
	if (n_ended == QUEUE || work->next)
		return ENOMEM;
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = work->wr_id;
	wc->qp_num = qp->qp_num;
	if (do_work(at, work))
		wc->status = IBV_WC_RETRY_EXC_ERR;
	n_ended++;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *ret_wc)
{
	int i;

	(void)cq;
	for (i = 0; i < n && n_ended; i++, n_ended--)
		ret_wc[i] = ended[first++ % QUEUE];
	return i;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "other";
}

/* ---- objects ---- */

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	/* Processes of the same user may reach this one's memory. */
	prctl(PR_SET_PTRACER, ANY, 0, 0, 0);
	memset(&context, 0, sizeof(context));
	context.device = of;
	context.ops.post_send = post_send;
	context.ops.poll_cq = poll_cq;
	fake_verbs.open++;
	return &context;
}

int ibv_close_device(struct ibv_context *of)
{
	(void)of;
	fake_verbs.open--;
	return 0;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *of)
{
	(void)of;
	fake_verbs.open++;
	return &domain;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	fake_verbs.open--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *of, int n, void *user,
			     struct ibv_comp_channel *channel, int vector)
{
	(void)user;
	(void)channel;
	(void)vector;
	queue.context = of;
	queue.cqe = n;
	fake_verbs.open++;
	return &queue;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	fake_verbs.open--;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct connection *made = calloc(1, sizeof(*made));

	if (!made)
		return NULL;
	made->qp.context = pd->context;
	made->qp.qp_type = attr->qp_type;
	made->qp.qp_num = ++last_number;
	fake_verbs.open++;
	return &made->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct connection *at = (struct connection *)qp;

	if (!(mask & IBV_QP_STATE) || attr->qp_state != at->state + 1)
		return EINVAL;
	if (attr->qp_state == IBV_QPS_RTR) {
		if (!(mask & IBV_QP_AV) || attr->ah_attr.grh.dgid.raw[11] != 0xff ||
		    attr->ah_attr.grh.sgid_index != 1 || attr->max_dest_rd_atomic > 4)
			return EINVAL;
		memcpy(&at->process, attr->ah_attr.grh.dgid.raw + 12, sizeof(at->process));
		at->number = attr->dest_qp_num;
	}
	at->state = attr->qp_state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	fake_verbs.open--;
	free(qp);
	return 0;
}
