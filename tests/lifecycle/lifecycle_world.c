// SPDX-License-Identifier: MIT
/* Objects in each state, for the walk over the table of lifecycles. */
#include "lifecycle/lifecycle_world.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hetmap/drm.h>
#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "accel/accel.h"
#include "accel/accel_support.h"
#include "fake_drm/control.h"
#include "loss/device_loss.h"
#include "lib/minimal_backend.h"
#include "base/sys.h"

#define SIZE (UNITS * life->f.unit)
#define MAX_SIZE (2 * SIZE)

/* ---- devices that are taken away ---- */

const struct fake_drm_control *life_fake(void)
{
	return dlsym(RTLD_DEFAULT, FAKE_DRM_CONTROL);
}

/* The node of the subject's device, or FAKE_DRM_NODES. */
static int fake_node(struct life *life)
{
	const char *digits = strstr(life->f.device_info.name, "renderD");
	int node = digits ? atoi(digits + 7) - FAKE_DRM_MINOR : -1;

	return life_fake() && node >= 0 && node < FAKE_DRM_NODES ? node : FAKE_DRM_NODES;
}

static int unplug(struct life *life)
{
	return hm_sim_call(life->f.device, HETSIM_INJECT,
			   SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG));
}

/* An inject that is refused before anything happens shows that the device is simulated. */
bool life_is_simulated(struct life *life)
{
	return hm_sim_call(life->f.device, HETSIM_INJECT,
			   SIZED(hetsim_inject, .kind = HETSIM_INJECT_UNPLUG, .flags = 1)) ==
	       -EINVAL;
}

/* A node that is unbound does not come back as it was: its descriptors stay dead. */
bool life_comes_back(struct life *life)
{
	return life_can_go(life) && fake_node(life) == FAKE_DRM_NODES;
}

bool life_can_go(struct life *life)
{
	return !strcmp(life->f.device_info.name, fleeting_backend.name) ||
	       fake_node(life) != FAKE_DRM_NODES || life_is_simulated(life);
}

void life_take_away(struct life *life)
{
	struct hm_device_info info = { .struct_size = sizeof(info) };

	life->taken_away = true;
	if (!strcmp(life->f.device_info.name, fleeting_backend.name))
		fleeting_go();
	else if (fake_node(life) != FAKE_DRM_NODES)
		life_fake()->unplug((enum fake_drm_node)fake_node(life), true);
	else
		CHECK_OK_FATAL(unplug(life));
	/* The first call that the device refuses is when its maps learn of it. */
	CHECK_ERROR(-ENODEV, hm_device_query(life->f.device, &info));
}

void life_bring_back(struct life *life)
{
	if (!life->taken_away)
		return;
	life->taken_away = false;
	if (!strcmp(life->f.device_info.name, fleeting_backend.name))
		fleeting_come();
	else if (fake_node(life) != FAKE_DRM_NODES)
		life_fake()->unplug((enum fake_drm_node)fake_node(life), false);
	else
		CHECK_OK(hm_sim_plug(life->subject->device));
}

/* ---- work that waits ---- */

static sem_t *work_gate;

static int wait_at_gate(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	while (sem_wait(work_gate))
		;
	sem_post(work_gate);
	return 0;
}

static int do_nothing(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return 0;
}

int life_fail(const struct hm_cpu_range *range, const struct hm_arg *args)
{
	(void)range, (void)args;
	return -ETIMEDOUT;
}

/* For "cpu", and for engines. */
static struct hm_kernel *make_reader(void)
{
	static const struct hm_engine_step nothing = { HM_ENGINE_NOTHING,
						       HM_ENGINE_NONE,
						       HM_ENGINE_NONE,
						       HM_ENGINE_NONE,
						       HM_ENGINE_NONE,
						       HM_ENGINE_NONE,
						       0 };
	struct hm_kernel *kernel = NULL;

	CHECK_OK_FATAL(
		hm_kernel_create(DESC(hm_kernel_desc, .name = "nothing", .cpu = do_nothing,
				      .signature = "in", .engine = &nothing, .n_engine = 1),
				 &kernel));
	return kernel;
}

static void open_accel(struct life *life)
{
	CHECK_OK_FATAL(hm_accel_open("cpu", NULL, &life->accel));
	CHECK_OK_FATAL(hm_queue_create(life->accel, 0, &life->queue));
	life->kernel = make_reader();
	life->waiting_kernel = make_kernel("waiting", "inout", wait_at_gate);
}

void life_submit_waiting(struct life *life)
{
	work_gate = &life->gate;
	life->waited_for = true;
	CHECK_OK_FATAL(
		hm_launch(life->queue, life->waiting_kernel, 1, &life->fence,
			  HM_RANGE(hm_map_address(life->map), SIZE, HM_READ | HM_WRITE)));
}

/* ---- changes that wait ---- */

bool life_can_protect(struct life *life)
{
	return has(&life->f, HM_CAP_PROTECT);
}

bool life_can_change(struct life *life)
{
	return life_can_protect(life) || has(&life->f, HM_CAP_RESIZE);
}

void life_change(struct life *life)
{
	if (life_can_protect(life))
		CHECK_OK(hm_map_protect(life->map, 0, life->f.unit, HM_READ));
	else
		CHECK_OK(hm_buffer_resize(life->buffer, SIZE + life->f.unit, 0));
}

/* With an earlier failure's text, and a note of the one that is there afterwards. */
static int make_call(struct life *life, const struct life_call *call)
{
	int r;

	err_begin();
	err_set(-EIO, "%s", LIFE_EARLIER);
	r = call->call(life);
	snprintf(life->text, sizeof(life->text), "%s", hm_errmsg());
	return r;
}

static int on_quiesce(void *user, const struct hm_view_change *now)
{
	struct life *life = user;

	(void)now;
	if (life->place == LIFE_IN_CALLBACK) {
		if (life->pending) {
			life->pending_result = make_call(life, life->pending);
			life->pending_after = life_now(life);
		}
		return 0;
	}
	if (life->has_changer) {
		sem_post(&life->changing);
		while (sem_wait(&life->gate))
			;
		sem_post(&life->gate);
	}
	return 0;
}

void life_make_view(struct life *life)
{
	const struct hm_view_ops ops = { .struct_size = sizeof(ops), .quiesce = on_quiesce };

	CHECK_OK_FATAL(hm_view_create(life->map, 0, 0, &ops, life, &life->view));
}

int life_make(struct life *life, const struct life_call *call, uint32_t *ret_after)
{
	int r;

	if (life->place != LIFE_IN_CALLBACK) {
		r = make_call(life, call);
		*ret_after = life_now(life);
		return r;
	}
	life->pending = call;
	life->pending_result = 1; /* a result that no call has */
	life_change(life);
	life->pending = NULL;
	*ret_after = life->pending_after;
	return life->pending_result;
}

void life_open_gate(struct life *life)
{
	if (!life->waited_for)
		return;
	life->waited_for = false;
	sem_post(&life->gate);
	if (life->has_changer)
		pthread_join(life->changer, NULL);
}

/* ---- the present state ---- */

static uint32_t bracket_now(const struct life *life)
{
	if (!map_brackets(life->map))
		return 1u << LC_BRACKET_CLOSED;
	if (life->map->lost)
		return 1u << LC_BRACKET_LOST;
	if (life->map->length < SIZE)
		return 1u << LC_BRACKET_CUT_OFF;
	return 1u << (life->map->narrowed ? LC_BRACKET_WITHDRAWN : LC_BRACKET_OPEN);
}

static uint32_t fence_now(const struct life *life)
{
	if (life->fence->object.fork_gen != fork_generation)
		return 1u << LC_FENCE_INHERITED;
	if (!fence_is_done(life->fence))
		return 1u << LC_FENCE_RUNNING;
	return 1u << (life->fence->work.status ? LC_FENCE_FAILED : LC_FENCE_DONE);
}

static uint32_t queue_now(const struct life *life)
{
	if (life->queue->object.fork_gen != fork_generation)
		return 1u << LC_QUEUE_INHERITED;
	if (life->taken_away)
		return 1u << LC_QUEUE_GONE;
	return 1u << (life->queue->n_wait ? LC_QUEUE_WAITING : LC_QUEUE_OPEN);
}

static uint32_t lock_now(void)
{
	struct hm_lock_budget budget = { .struct_size = sizeof(budget) };

	CHECK_OK(hm_lock_budget_query(&budget));
	if (budget.used)
		return 1u << LC_LOCK_LOCKED;
	return 1u << (budget.waiting_by[0] ? LC_LOCK_WAITING : LC_LOCK_UNLOCKED);
}

static uint32_t handler_now(void)
{
	struct hm_handler_info info = handler_info();

	if (!info.installed)
		return 1u << LC_HANDLER_ABSENT;
	if (!info.above)
		return 1u << LC_HANDLER_INSTALLED;
	return 1u << (info.above == info.chained ? LC_HANDLER_CHAINED : LC_HANDLER_ABOVE);
}

uint32_t life_now(struct life *life)
{
	switch (life->noun) {
	case LC_DEVICE:
		return lifecycle_of_device(life->f.device);
	case LC_BUFFER:
		return lifecycle_of_buffer(life->buffer);
	case LC_MAP:
		return lifecycle_of_map(life->map);
	case LC_BRACKET:
		return bracket_now(life);
	case LC_QUEUE:
		return queue_now(life);
	case LC_FENCE:
		return fence_now(life);
	case LC_LOCK:
		return lock_now();
	case LC_HANDLER:
		return handler_now();
	}
	return 0; /* a view's state shows only in its calls */
}

/* ---- around it ---- */

static void make_import(struct life *life)
{
	struct hm_buffer *other = NULL;

	if (!has(&life->f, HM_CAP_EXPORT) || !(life->f.device_info.caps & HM_CAP_IMPORT))
		return;
	other = fixture_make(&life->f, SIZE, 0, NULL);
	CHECK_OK(hm_buffer_export(other, 0, &life->import));
	life->original = other; /* "soft" imports only an object that is still there */
}

/* A message that waits to be received. */
static void make_message(struct life *life)
{
	if (!life_is_sent(life))
		return;
	AUTO(hm_buffer) *other = fixture_make(&life->f, SIZE, 0, NULL);
	CHECK_OK(hm_buffer_send(other, life->pair[0], 0));
}

static void make_host_map(struct life *life)
{
	AUTO(hm_device) *host = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(host, DESC(hm_buffer_desc, .size = KIB(64)));

	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &life->host_map));
}

static uint64_t maps_now(void)
{
	struct hm_stats stats = { .struct_size = sizeof(stats) };

	CHECK_OK(hm_stats_get(&stats));
	return stats.maps;
}

void life_begin(struct life *life, const struct subject *subject, uint32_t noun)
{
	memset(life, 0, sizeof(*life));
	life->subject = subject;
	life->noun = noun;
	life->import = -1;
	life->made_fd = -1;
	life->pair[0] = -1;
	life->pair[1] = -1;
	sem_init(&life->gate, 0, 0);
	sem_init(&life->changing, 0, 0);
	life->n_before = maps_now();
	fixture_open(&life->f, subject);
	if (noun == LC_DEVICE || noun == LC_BUFFER)
		CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, life->pair));
	if (noun == LC_DEVICE || noun == LC_BUFFER)
		life->is_sent = fixture_is_sent(&life->f, 0);
	if (noun == LC_DEVICE) {
		make_import(life);
		make_message(life);
		make_host_map(life);
	} else {
		life->buffer = fixture_make(&life->f, SIZE, MAX_SIZE,
					    noun == LC_BUFFER ? NULL : &life->map);
	}
	if (noun == LC_MAP || noun == LC_QUEUE || noun == LC_FENCE)
		open_accel(life);
	if (noun == LC_MAP) {
		CHECK_OK_FATAL(hm_handler_install(0));
		life->handled = true;
	}
	if ((noun == LC_MAP || noun == LC_DRM_VIEW) && life_fake() && life_is_memfd(life) &&
	    life->f.writable)
		CHECK_OK_FATAL(hm_device_open("drm:amdgpu", &life->node));
}

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

/* If a call has dropped one reference too many, a map is missing. */
static void check_maps(const struct life *life)
{
	uint64_t held = !!life->map + !!life->made_map + !!life->host_map;

	if (maps_now() < life->n_before + held)
		test_fail(__FILE__, __LINE__,
			  "%" PRIu64 " maps are held, and the process has %" PRIu64
			  " more than before",
			  held, maps_now() - life->n_before);
}

void life_end(struct life *life)
{
	life_open_gate(life);
	hm_fence_unref(life->made_fence);
	hm_fence_unref(life->fence);
	hm_drm_view_unref(life->made_drm_view);
	hm_drm_view_unref(life->drm_view);
	hm_view_unref(life->made_view);
	hm_view_unref(life->view);
	hm_map_protect_end(life->made_scope);
	hm_map_protect_end(life->scope);
	check_maps(life);
	hm_map_unref(life->made_map);
	hm_free(life->made_memory);
	hm_map_unref(life->map);
	hm_map_unref(life->host_map);
	hm_buffer_unref(life->made_buffer);
	hm_buffer_unref(life->buffer);
	hm_buffer_unref(life->original);
	hm_queue_unref(life->queue);
	hm_kernel_unref(life->kernel);
	hm_kernel_unref(life->waiting_kernel);
	hm_accel_unref(life->accel);
	hm_device_unref(life->node);
	if (life->n_guard > 1)
		CHECK_OK(hm_guard_end(&life->inner_guard));
	if (life->n_guard)
		CHECK_OK(hm_guard_end(&life->guard));
	if (life->has_below)
		CHECK(!sigaction(SIGBUS, &life->below, NULL));
	for (; life->n_installed; life->n_installed--)
		CHECK_OK(hm_handler_remove());
	if (life->handled)
		CHECK_OK(hm_handler_remove());
	if (life->noun == LC_LOCK)
		CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
	if (life->noun == LC_RETIREMENT)
		CHECK_OK(hm_retire_set(NULL));
	close_fd(life->import);
	close_fd(life->made_fd);
	close_fd(life->pair[0]);
	close_fd(life->pair[1]);
	fixture_close(&life->f);
	life_bring_back(life);
	sem_destroy(&life->gate);
	sem_destroy(&life->changing);
}
