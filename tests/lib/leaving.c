// SPDX-License-Identifier: MIT
/* The library's objects that a program still has when it ends. */
#include "lib/leaving.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "accel/engine_support.h"

#define SIZE (4 * PAGE)

struct leaving {
	struct hm_device *device, *host;
	struct hm_buffer *buffer; /* with a shadow, of which a page is locked */
	struct hm_map *map;
	struct hm_view *view;
	struct hm_scope *scope;
	struct hm_accel *accel;
	struct hm_queue *queue;
	struct hm_kernel *kernel;
	struct hm_fence *fence;
	struct hm_buffer *sent, *received;
	struct hm_map *received_map;
	int ends[2];
};

static void must(int r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "leaving: %s: %d, %s\n", what, r, hm_errmsg());
	exit(3);
}

#define MUST(call) must((call), #call)

/* A call that not every device supports; -ENOSYS passes, as old valgrinds know no mlock2(). */
static void may(int r, const char *what)
{
	must(r == -EOPNOTSUPP || r == -ENOSYS ? 0 : r, what);
}

#define MAY(call) may((call), #call)

static int allow(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)request, (void)reason;
	return 0;
}

static int agree(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return 0;
}

static int store(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range;
	*(uint32_t *)args[0].pointer = args[2].u32;
	return 0;
}

static void make_map(struct leaving *l, const char *name)
{
	static const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = agree };

	MUST(hm_device_open(name, &l->device));
	MUST(hm_buffer_create(l->device, DESC(hm_buffer_desc, .size = SIZE), &l->buffer));
	MUST(hm_map_create(l->buffer, NULL, &l->map));
	MAY(hm_buffer_set_loss(l->buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	MAY(hm_map_lock(l->map, 0, PAGE, HM_LOCK_PARTIAL, NULL));
	MUST(hm_view_create(l->map, 0, 0, &ops, NULL, &l->view));
	MAY(hm_map_protect_begin(l->map, PAGE, PAGE, HM_READ, &l->scope));
}

static void make_work(struct leaving *l, const char *name)
{
	bool engine = !strncmp(name, "soft:", 5);

	MUST(hm_accel_open(engine ? name : "cpu", NULL, &l->accel));
	MUST(hm_queue_create(l->accel, 0, &l->queue));
	l->kernel = engine ? kernel_of_fill() : make_kernel("store", "out u64 u32", store);
	MUST(hm_launch(l->queue, l->kernel, 1, &l->fence,
		       HM_RANGE(hm_map_address(l->map), PAGE, HM_WRITE), HM_U64(PAGE),
		       HM_U32(7)));
	MUST(hm_fence_wait(l->fence, UINT64_MAX));
}

static void make_received(struct leaving *l)
{
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, l->ends), "socketpair");
	MUST(hm_device_open("host", &l->host));
	MUST(hm_buffer_create(l->host, DESC(hm_buffer_desc, .size = SIZE), &l->sent));
	MUST(hm_buffer_send(l->sent, l->ends[0], 0));
	MUST(hm_buffer_receive(l->host, l->ends[1], NULL, &l->received));
	MUST(hm_map_create(l->received, NULL, &l->received_map));
}

static void make(struct leaving *l, const char *name)
{
	memset(l, 0, sizeof(*l));
	make_map(l, name);
	make_work(l, name);
	make_received(l);
}

static void drop_queue(struct leaving *l)
{
	hm_fence_unref(l->fence);
	hm_queue_unref(l->queue);
	hm_accel_unref(l->accel);
	l->fence = NULL;
	l->queue = NULL;
	l->accel = NULL;
}

static void drop(struct leaving *l)
{
	hm_map_unref(l->received_map);
	hm_buffer_unref(l->received);
	hm_buffer_unref(l->sent);
	hm_device_unref(l->host);
	close(l->ends[0]);
	close(l->ends[1]);
	drop_queue(l);
	hm_kernel_unref(l->kernel);
	MUST(hm_map_protect_end(l->scope));
	hm_view_unref(l->view);
	hm_map_unref(l->map);
	hm_buffer_unref(l->buffer);
	hm_device_unref(l->device);
}

void leaving_with(const char *name)
{
	static struct leaving kept; /* where a leak checker finds it */
	struct leaving gone;

	MUST(hm_handler_install(0));
	MUST(hm_handler_install(0));
	MUST(hm_handler_remove());
	MUST(hm_access_hook_set(allow, NULL));
	make(&gone, name);
	drop(&gone);
	/* A node that ends with something on it is an error of its own. */
	make(&kept, strncmp(name, "drm:", 4) != 0 ? name : "host");
	/*
	 * A queue has threads, and fences are parts of its allocations: valgrind may take memory of
	 * a running thread, or memory known by an inner address, for lost.
	 */
	if (!TEST_ASAN && !TEST_TSAN)
		drop_queue(&kept);
}
