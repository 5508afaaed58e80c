// SPDX-License-Identifier: MIT
/* The way into each state, for the walk over the table of lifecycles. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "accel/accel_support.h"
#include "fake_drm/control.h"
#include "lifecycle/lifecycle_world.h"
#include "loss/losing_move.h"

#define SIZE (UNITS * life->f.unit)
#define MAX_SIZE (2 * SIZE)

/* ---- the way into states ---- */

static bool always(struct life *life)
{
	(void)life;
	return true;
}

static void stay(struct life *life)
{
	(void)life;
}

static bool is_writable(struct life *life)
{
	return life->f.writable;
}

/* A buffer of memory that has seals. */
bool life_is_memfd(struct life *life)
{
	return life->f.info.backing == HM_BACKING_MEMFD ||
	       life->f.info.backing == HM_BACKING_HUGETLB;
}

/* udmabuf: its buffers always export a dma-buf. */
bool life_exports_pin(struct life *life)
{
	return life->f.info.backing == HM_BACKING_MEMFD && has(&life->f, HM_CAP_DMABUF) &&
	       !has(&life->f, HM_CAP_READ_ONLY);
}

static bool can_export(struct life *life)
{
	return has(&life->f, HM_CAP_EXPORT) && !life_exports_pin(life);
}

static bool can_seal(struct life *life)
{
	return life_is_memfd(life) && has(&life->f, HM_CAP_READ_ONLY);
}

bool life_can_freeze(struct life *life)
{
	return life_is_memfd(life) && life->f.info.segments == 1;
}

static void enter_frozen(struct life *life)
{
	CHECK_OK_FATAL(hm_buffer_seal(life->buffer, 0));
}

static bool can_pin(struct life *life)
{
	return life->f.info.backing == HM_BACKING_MEMFD && has(&life->f, HM_CAP_DMABUF);
}

bool life_is_sent(struct life *life)
{
	return life->is_sent;
}

static void export_as(struct life *life, uint32_t flags)
{
	int fd = -1;

	CHECK_OK_FATAL(hm_buffer_export(life->buffer, flags, &fd));
	close(fd);
}

static void enter_exported(struct life *life)
{
	export_as(life, 0);
}

static void enter_pinned(struct life *life)
{
	export_as(life, HM_EXPORT_DMABUF);
}

static void enter_sealed(struct life *life)
{
	export_as(life, HM_EXPORT_READ_ONLY);
}

static void drain(struct life *life)
{
	char byte[256];
	struct iovec data = { byte, sizeof(byte) };
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header;
	int fds[4];
	size_t i, n;

	if (recvmsg(life->pair[1], &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
		return;
	header = CMSG_FIRSTHDR(&message);
	if (!header)
		return;
	n = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	memcpy(fds, CMSG_DATA(header), n * sizeof(int));
	for (i = 0; i < n; i++)
		close(fds[i]);
}

static void enter_sent(struct life *life)
{
	CHECK_OK_FATAL(hm_buffer_send(life->buffer, life->pair[0], 0));
	drain(life);
}

/* This process is the owner, too: all that a receiver is told is the same. */
static void enter_received(struct life *life)
{
	struct hm_buffer *received = NULL;

	CHECK_OK_FATAL(hm_buffer_send(life->buffer, life->pair[0], 0));
	CHECK_OK_FATAL(hm_buffer_receive(life->f.device, life->pair[1], NULL, &received));
	life->original = life->buffer;
	life->buffer = received;
}

static void enter_owner_gone(struct life *life)
{
	enter_received(life);
	hm_buffer_unref(life->original);
	life->original = NULL;
}

static void enter_gone(struct life *life)
{
	life_take_away(life);
}

static void enter_back(struct life *life)
{
	life_take_away(life);
	life_bring_back(life);
}

static void enter_bracketed(struct life *life)
{
	CHECK_OK_FATAL(hm_map_begin_cpu(life->map, 0, SIZE, HM_READ));
}

static void enter_in_flight(struct life *life)
{
	life_submit_waiting(life);
}

static void *changer(void *user)
{
	life_change(user);
	return NULL;
}

static void enter_changing(struct life *life)
{
	life_make_view(life);
	life->has_changer = true;
	life->waited_for = true;
	CHECK_FATAL(!pthread_create(&life->changer, NULL, changer, life));
	while (sem_wait(&life->changing))
		;
}

static void fail_undo(struct life *life)
{
	losing_move_begin();
	CHECK_ERROR(-ENOMEM, hm_buffer_resize(life->buffer, MAX_SIZE, HM_GROW_REPLACE));
	losing_move_end();
}

static bool can_be_lost(struct life *life)
{
	return life_can_go(life) || has(&life->f, HM_CAP_REPLACE);
}

static void enter_lost(struct life *life)
{
	if (life_can_go(life))
		life_take_away(life);
	else
		fail_undo(life);
}

/* Bytes of its first block are gone from under it, touched, and replaced by a handler. */
static bool can_be_poisoned(struct life *life)
{
	/* No faults can be injected into the memory of another device. */
	return life->f.writable && !has(&life->f, HM_CAP_BRACKET) &&
	       !life->f.subject->exporter &&
	       (life->f.info.backing == HM_BACKING_FILE || life_is_simulated(life));
}

static void enter_poisoned(struct life *life)
{
	struct hetsim_inject inject = {
		.size = sizeof(inject),
		.kind = HETSIM_INJECT_SIGBUS,
	};

	if (life_is_simulated(life)) {
		CHECK_OK_FATAL(hm_sim_buffer(life->buffer, &inject.target));
		CHECK_OK_FATAL(hm_sim_call(life->f.device, HETSIM_INJECT, &inject));
	} else {
		CHECK_FATAL(!ftruncate(life->buffer->segment[0].fd, 0));
	}
	CHECK_EQUAL(*(volatile char *)hm_map_address(life->map), 0);
	if (life_is_simulated(life))
		return;
	CHECK_FATAL(!ftruncate(life->buffer->segment[0].fd, (off_t)SIZE));
}

static void enter_narrowed(struct life *life)
{
	CHECK_OK_FATAL(hm_map_protect(life->map, 0, SIZE, HM_NONE));
}

static void enter_scope(struct life *life)
{
	CHECK_OK_FATAL(hm_map_protect_begin(life->map, 0, SIZE, HM_NONE, &life->scope));
}

static void enter_scope_with_view(struct life *life)
{
	enter_scope(life);
	life_make_view(life);
}

static bool can_lose_scope(struct life *life)
{
	return life_can_protect(life) && can_be_lost(life);
}

static void enter_lost_scope(struct life *life)
{
	enter_scope(life);
	enter_lost(life);
}

static void enter_cut_off(struct life *life)
{
	CHECK_OK_FATAL(hm_map_begin_cpu(life->map, SIZE - life->f.unit, life->f.unit, HM_READ));
	CHECK_OK_FATAL(hm_buffer_resize(life->buffer, SIZE / 2, 0));
}

static bool can_shrink(struct life *life)
{
	return has(&life->f, HM_CAP_RESIZE);
}

static void enter_withdrawn(struct life *life)
{
	enter_bracketed(life);
	enter_narrowed(life);
}

static void enter_lost_bracket(struct life *life)
{
	enter_bracketed(life);
	enter_lost(life);
}

static bool takes_drm_view(struct life *life)
{
	return life->node != NULL;
}

static void enter_drm_view(struct life *life)
{
	CHECK_OK_FATAL(hm_drm_view_create(life->map, SIZE / 2, SIZE / 2, life->node,
					  HM_READ | HM_WRITE, &life->drm_view));
}

static void enter_held(struct life *life)
{
	struct hm_drm_handle handle = { .struct_size = sizeof(handle) };

	enter_drm_view(life);
	CHECK_OK_FATAL(hm_drm_view_hold(life->drm_view, &handle));
}

static void enter_cut_view(struct life *life)
{
	enter_drm_view(life);
	CHECK_OK_FATAL(hm_buffer_resize(life->buffer, SIZE / 2, 0));
}

static void enter_gone_view(struct life *life)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	enter_drm_view(life);
	life_fake()->unplug(FAKE_AMDGPU, true);
	CHECK_ERROR(-ENODEV, hm_device_query(life->node, &info));
	life_fake()->unplug(FAKE_AMDGPU, false);
}

static void enter_view(struct life *life)
{
	life_make_view(life);
}

static void enter_lost_view(struct life *life)
{
	life_make_view(life);
	enter_lost(life);
}

static void enter_waiting(struct life *life)
{
	AUTO(hm_queue) *other = rig_queue(life->accel, 0);

	CHECK_OK_FATAL(hm_launch(other, life->kernel, 1, &life->fence,
				 HM_RANGE(hm_map_address(life->map), SIZE, HM_READ)));
	CHECK_OK_FATAL(hm_queue_wait(life->queue, life->fence));
}

static void enter_running(struct life *life)
{
	life_submit_waiting(life);
}

static void enter_done(struct life *life)
{
	CHECK_OK_FATAL(hm_launch(life->queue, life->kernel, 1, &life->fence,
				 HM_RANGE(hm_map_address(life->map), SIZE, HM_READ)));
	CHECK_OK(hm_fence_wait(life->fence, UINT64_MAX));
}

static void enter_failed(struct life *life)
{
	AUTO(hm_kernel) *failing = make_kernel("failing", "in", life_fail);

	CHECK_OK_FATAL(hm_launch(life->queue, failing, 1, &life->fence,
				 HM_RANGE(hm_map_address(life->map), SIZE, HM_READ)));
	CHECK_ERROR(-ETIMEDOUT, hm_fence_wait(life->fence, UINT64_MAX));
}

/* The engine of the subject's device, with a queue, instead of "cpu". */
static bool has_engine(struct life *life)
{
	return life_is_simulated(life);
}

static void enter_gone_queue(struct life *life)
{
	hm_queue_unref(life->queue);
	hm_accel_unref(life->accel);
	CHECK_OK_FATAL(hm_accel_open(life->subject->device, NULL, &life->accel));
	CHECK_OK_FATAL(hm_queue_create(life->accel, 0, &life->queue));
	life_take_away(life);
}

/* ---- states of the process ---- */

static bool can_lock(struct life *life)
{
	return has(&life->f, HM_CAP_LOCK);
}

static void enter_locked(struct life *life)
{
	CHECK_OK_FATAL(hm_map_lock(life->map, 0, life->f.unit, 0, NULL));
}

static void enter_lock_waiting(struct life *life)
{
	enter_locked(life);
	CHECK_OK_FATAL(hm_lock_budget_set(0));
}

/* States of the process are walked once. */
static bool is_first(struct life *life)
{
	return !strcmp(life->subject->name, "host");
}

static void enter_installed(struct life *life)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	life->handled = true;
}

static void ignore(int signal)
{
	(void)signal;
}

static void enter_above(struct life *life)
{
	struct sigaction other = { .sa_handler = ignore };

	enter_installed(life);
	CHECK_FATAL(!sigaction(SIGBUS, &other, &life->below));
	life->has_below = true;
}

static void enter_chained(struct life *life)
{
	enter_above(life);
	CHECK_OK_FATAL(hm_handler_chained());
}

static void enter_guard(struct life *life)
{
	enter_installed(life);
	HM_GUARD_INIT(&life->guard);
	/* No fault comes here, so no jump returns to this frame. */
	CHECK_OK_FATAL(hm_guard_begin(&life->guard));
	life->n_guard = 1;
}

static void enter_outer_guard(struct life *life)
{
	enter_guard(life);
	HM_GUARD_INIT(&life->inner_guard);
	CHECK_OK_FATAL(hm_guard_begin(&life->inner_guard));
	life->n_guard = 2;
}

static void enter_deferred(struct life *life)
{
	(void)life;
	CHECK_OK_FATAL(hm_retire_set(DESC(hm_retire_desc, .flags = HM_RETIRE_DEFER)));
}

#define STATE(noun_, state_, place_, is_reached_, enter_)                      \
	{                                                                      \
		LC_##noun_, LC_##noun_##_##state_, place_, is_reached_, enter_ \
	}

const struct life_state life_states[] = {
	STATE(DEVICE, OPEN, LIFE_HERE, always, stay),
	STATE(DEVICE, GONE, LIFE_HERE, life_can_go, enter_gone),
	STATE(DEVICE, BACK, LIFE_HERE, life_comes_back, enter_back),
	STATE(DEVICE, INHERITED, LIFE_IN_CHILD, always, stay),
	STATE(BUFFER, OWN, LIFE_HERE, always, stay),
	STATE(BUFFER, EXPORTED, LIFE_HERE, can_export, enter_exported),
	STATE(BUFFER, PINNED, LIFE_HERE, can_pin, enter_pinned),
	STATE(BUFFER, SEALED, LIFE_HERE, can_seal, enter_sealed),
	STATE(BUFFER, FROZEN, LIFE_HERE, life_can_freeze, enter_frozen),
	STATE(BUFFER, SENT, LIFE_HERE, life_is_sent, enter_sent),
	STATE(BUFFER, RECEIVED, LIFE_HERE, life_is_sent, enter_received),
	STATE(BUFFER, OWNER_GONE, LIFE_HERE, life_is_sent, enter_owner_gone),
	STATE(BUFFER, GONE, LIFE_HERE, life_can_go, enter_gone),
	STATE(BUFFER, INHERITED, LIFE_IN_CHILD, always, stay),
	STATE(MAP, MAPPED, LIFE_HERE, always, stay),
	STATE(MAP, NARROWED, LIFE_HERE, life_can_protect, enter_narrowed),
	STATE(MAP, BRACKETED, LIFE_HERE, always, enter_bracketed),
	STATE(MAP, IN_FLIGHT, LIFE_HERE, is_writable, enter_in_flight),
	STATE(MAP, POISONED, LIFE_HERE, can_be_poisoned, enter_poisoned),
	STATE(MAP, CHANGING, LIFE_HERE, life_can_change, enter_changing),
	STATE(MAP, CALLBACK, LIFE_IN_CALLBACK, life_can_change, life_make_view),
	STATE(MAP, LOST, LIFE_HERE, can_be_lost, enter_lost),
	STATE(MAP, INHERITED, LIFE_IN_CHILD, always, stay),
	STATE(SCOPE, OPEN, LIFE_HERE, life_can_protect, enter_scope),
	STATE(SCOPE, CALLBACK, LIFE_IN_CALLBACK, life_can_protect, enter_scope_with_view),
	STATE(SCOPE, LOST, LIFE_HERE, can_lose_scope, enter_lost_scope),
	STATE(SCOPE, INHERITED, LIFE_IN_CHILD, life_can_protect, enter_scope),
	STATE(BRACKET, CLOSED, LIFE_HERE, always, stay),
	STATE(BRACKET, OPEN, LIFE_HERE, always, enter_bracketed),
	STATE(BRACKET, CUT_OFF, LIFE_HERE, can_shrink, enter_cut_off),
	STATE(BRACKET, WITHDRAWN, LIFE_HERE, life_can_protect, enter_withdrawn),
	STATE(BRACKET, LOST, LIFE_HERE, can_be_lost, enter_lost_bracket),
	STATE(VIEW, ATTACHED, LIFE_HERE, always, enter_view),
	STATE(VIEW, CALLBACK, LIFE_IN_CALLBACK, life_can_change, enter_view),
	STATE(VIEW, LOST, LIFE_HERE, can_be_lost, enter_lost_view),
	STATE(VIEW, INHERITED, LIFE_IN_CHILD, always, enter_view),
	STATE(DRM_VIEW, ATTACHED, LIFE_HERE, takes_drm_view, enter_drm_view),
	STATE(DRM_VIEW, HELD, LIFE_HERE, takes_drm_view, enter_held),
	STATE(DRM_VIEW, CUT_OFF, LIFE_HERE, takes_drm_view, enter_cut_view),
	STATE(DRM_VIEW, GONE, LIFE_HERE, takes_drm_view, enter_gone_view),
	STATE(DRM_VIEW, INHERITED, LIFE_IN_CHILD, takes_drm_view, enter_drm_view),
	STATE(QUEUE, OPEN, LIFE_HERE, always, stay),
	STATE(QUEUE, WAITING, LIFE_HERE, always, enter_waiting),
	STATE(QUEUE, GONE, LIFE_HERE, has_engine, enter_gone_queue),
	STATE(QUEUE, INHERITED, LIFE_IN_CHILD, always, stay),
	STATE(FENCE, RUNNING, LIFE_HERE, is_writable, enter_running),
	STATE(FENCE, DONE, LIFE_HERE, always, enter_done),
	STATE(FENCE, FAILED, LIFE_HERE, always, enter_failed),
	STATE(FENCE, INHERITED, LIFE_IN_CHILD, always, enter_done),
	STATE(LOCK, UNLOCKED, LIFE_HERE, can_lock, stay),
	STATE(LOCK, LOCKED, LIFE_HERE, can_lock, enter_locked),
	STATE(LOCK, WAITING, LIFE_HERE, can_lock, enter_lock_waiting),
	STATE(HANDLER, ABSENT, LIFE_HERE, is_first, stay),
	STATE(HANDLER, INSTALLED, LIFE_HERE, is_first, enter_installed),
	STATE(HANDLER, ABOVE, LIFE_HERE, is_first, enter_above),
	STATE(HANDLER, CHAINED, LIFE_HERE, is_first, enter_chained),
	STATE(GUARD, CLOSED, LIFE_HERE, is_first, enter_installed),
	STATE(GUARD, OPEN, LIFE_HERE, is_first, enter_guard),
	STATE(GUARD, OUTER, LIFE_HERE, is_first, enter_outer_guard),
	STATE(RETIREMENT, IN_PLACE, LIFE_HERE, is_first, stay),
	STATE(RETIREMENT, DEFERRED, LIFE_HERE, is_first, enter_deferred),
	{ .enter = NULL },
};
