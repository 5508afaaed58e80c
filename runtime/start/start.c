// SPDX-License-Identifier: MIT
/*
 * Lists the backends and accelerators that each process has, and the modules that take part in
 * fork(2). No other file knows all of them; a room below calls the rooms above it only through
 * these tables.
 */
#include "accel/accel.h"
#include "accel/engine/engine.h"
#include "backend/drm/drm.h"
#include "backend/sim/port.h"
#include "base/fork.h"
#include "base/guard_slot.h"
#include "base/handler_phase.h"
#include "base/util.h"
#include "core/core.h"
#include "core/identity.h"
#include "fault/handler.h"
#include "hook/hook.h"
#include "loss/loss.h"
#include "loss/device_loss.h"
#include "map/lock_budget.h"
#include "map/retire.h"
#include "map/view.h"
#include "pool/pool.h"
#include "registry/registry.h"
#include "ring/ring.h"
#include "share/control.h"
#include "soft/soft.h"
#include "tell/publish.h"
#include "tell/trace.h"

/*
 * Locks are taken in this order before a fork, and released in the opposite order. Retirement
 * comes first: it waits for readers in the application, which must not wait for a lock of the
 * library.
 */
static const struct fork_part parts[] = {
	{ NULL, retire_fork_prepare, retire_fork_parent, retire_fork_child },
	{ NULL, view_fork_prepare, view_fork_after, view_fork_after },
	{ NULL, sim_ports_fork_prepare, sim_ports_fork_parent, sim_ports_fork_child },
	{ NULL, drm_fork_prepare, drm_fork_parent, drm_fork_child },
	{ NULL, engine_fork_prepare, engine_fork_after, engine_fork_after },
	{ NULL, learn_fork_prepare, learn_fork_after, learn_fork_after },
	{ NULL, registry_fork_prepare, registry_fork_parent, registry_fork_child },
	{ NULL, soft_fork_prepare, soft_fork_parent, soft_fork_child },
	{ NULL, NULL, NULL, guard_fork_child },
	{ NULL, NULL, NULL, handler_install_fork_child },
	{ NULL, NULL, NULL, handler_phase_fork_child },
	{ NULL, NULL, NULL, loss_fork_child },
	{ NULL, NULL, NULL, device_loss_fork_child },
	{ NULL, NULL, NULL, lock_budget_fork_child },
	{ NULL, NULL, NULL, hook_fork_child },
	{ NULL, identity_fork_prepare, identity_fork_after, identity_fork_after },
	{ NULL, control_fork_prepare, control_fork_parent, control_fork_child },
	{ NULL, publish_fork_prepare, publish_fork_parent, publish_fork_child },
	{ trace_init, trace_fork_prepare, trace_fork_parent, trace_fork_child },
	{ NULL, ring_fork_prepare, ring_fork_parent, ring_fork_child },
	{ NULL, pool_fork_prepare, pool_fork_after, pool_fork_child },
};

/*
 * One row a backend, in the order of hm_device_list(): backends with memory of their own first.
 */
#define BACKENDS(ROW)        \
	ROW(drm_backend)     \
	ROW(sim_backend)     \
	ROW(soft_backend)    \
	ROW(host_backend)    \
	ROW(node_backend)    \
	ROW(tier_backend)    \
	ROW(heap_backend)    \
	ROW(udmabuf_backend) \
	ROW(dax_backend)     \
	ROW(pmem_backend)    \
	ROW(file_backend)

/*
 * One row an accelerator. OpenCL's come first, programs' registered ones next, and then these.
 * Engines run only their own kernels, so they are used only when asked for by name.
 */
#define LAST_ACCELS(ROW) \
	ROW(cpu_accel)   \
	ROW(sim_accel)   \
	ROW(soft_accel)

#define DECLARE_BACKEND(ops) extern const struct hm_backend_ops ops;
#define DECLARE_ACCEL(ops) extern const struct hm_accel_ops ops;
#define ADDRESS(ops) &ops,

BACKENDS(DECLARE_BACKEND)
LAST_ACCELS(DECLARE_ACCEL)
DECLARE_ACCEL(opencl_accel)

static const struct hm_backend_ops *const backends[] = { BACKENDS(ADDRESS) };
static const struct hm_accel_ops *const last_accels[] = { LAST_ACCELS(ADDRESS) };

static const struct device_pool_ops device_pool_ops = { pool_device_put, pool_device_end };

/* Runs before constructors of the application, which may use the library. */
static __attribute__((constructor(101))) void start(void)
{
	fork_set_parts(parts, ARRAY_SIZE(parts));
	device_set_pool_ops(&device_pool_ops);
	backend_set_builtin(backends, ARRAY_SIZE(backends));
	accel_set_builtin(&opencl_accel, last_accels, ARRAY_SIZE(last_accels));
}
