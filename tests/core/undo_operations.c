// SPDX-License-Identifier: MIT
/* The operations whose undo paths are walked, and the worlds they run in. */
#include "core/undo.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/minimal_backend.h"

/* ---- worlds ---- */

const char *undo_device = "host";

static void open_device(struct world *world)
{
	CHECK_OK_FATAL(hm_device_open(undo_device, &world->device));
}

static void open_file(struct world *world)
{
	CHECK_OK_FATAL(hm_device_open("file", &world->device));
	world->fd = scratch_file(SIZE);
}

static void make(struct world *world, uint32_t flags)
{
	open_device(world);
	world->buffer = rig_buffer(world->device, DESC(hm_buffer_desc, .flags = flags,
						       .size = SIZE, .max_size = MAX_SIZE));
}

static void make_map(struct world *world, uint32_t flags, uint32_t map_flags)
{
	make(world, flags);
	world->map = rig_map(world->buffer, DESC(hm_map_desc, .flags = map_flags,
						 .access = HM_READ | HM_WRITE));
	pattern_write(hm_map_address(world->map), 0, SIZE, 1);
}

static void shared_buffer(struct world *world)
{
	make(world, 0);
}

static void private_buffer(struct world *world)
{
	make(world, HM_BUFFER_PRIVATE);
}

static void shared_map(struct world *world)
{
	make_map(world, 0, 0);
}

static void private_map(struct world *world)
{
	make_map(world, HM_BUFFER_PRIVATE, 0);
}

static void huge_map(struct world *world)
{
	make_map(world, HM_BUFFER_HUGETLB, 0);
}

/* A map whose resident bytes are known. */
static void known_map(struct world *world)
{
	shared_map(world);
	world->resident = map_info(world->map, HM_MAP_RESIDENT).resident;
}

static void guarded_map(struct world *world)
{
	make_map(world, 0, HM_MAP_GUARD);
}

static void two_maps(struct world *world)
{
	shared_map(world);
	CHECK_OK_FATAL(hm_map_create(world->buffer, NULL, &world->second));
}

static void appended_map(struct world *world)
{
	shared_map(world);
	CHECK_OK_FATAL(hm_buffer_resize(world->buffer, SIZE + 4 * PAGE, HM_GROW_APPEND));
	CHECK_OK_FATAL(hm_buffer_resize(world->buffer, SIZE + 9 * PAGE, HM_GROW_APPEND));
	pattern_write(hm_map_address(world->map), 0, SIZE, 1);
}

static void appended_two_maps(struct world *world)
{
	appended_map(world);
	CHECK_OK_FATAL(hm_map_create(world->buffer, NULL, &world->second));
}

/* Several runs of rights, and locked pages where there can be. */
static void fancy(struct world *world)
{
	CHECK_OK_FATAL(hm_map_protect(world->map, 2 * PAGE, 2 * PAGE, HM_READ));
	if (buffer_info(world->buffer).caps & HM_CAP_LOCK)
		CHECK_OK_FATAL(hm_map_lock(world->map, 3 * PAGE, 3 * PAGE, 0, NULL));
}

static void fancy_map(struct world *world)
{
	shared_map(world);
	fancy(world);
}

static void fancy_private_map(struct world *world)
{
	private_map(world);
	fancy(world);
}

/* The page that a shrink cuts in two can't be written. */
static void private_read_only_page(struct world *world)
{
	private_map(world);
	CHECK_OK_FATAL(hm_map_protect(world->map, 4 * PAGE, PAGE, HM_READ));
}

/* Another map holds most of the lock budget. */
static void tight_locks(struct world *world)
{
	two_maps(world);
	CHECK_OK_FATAL(hm_map_lock(world->second, 0, 6 * PAGE, 0, NULL));
	CHECK_OK_FATAL(hm_lock_budget_set(10 * PAGE));
}

static void waiting_locks(struct world *world)
{
	tight_locks(world);
	CHECK_OK_FATAL(hm_map_lock(world->map, 0, SIZE, HM_LOCK_PRIORITY(1), NULL));
	CHECK_OK_FATAL(hm_map_unlock(world->map, 0, 4 * PAGE));
}

/* A scope over several runs of rights; another one is to begin, and to end first. */
static void scoped_map(struct world *world)
{
	fancy_map(world);
	CHECK_OK_FATAL(
		hm_map_protect_begin(world->map, PAGE, 4 * PAGE, HM_READ, &world->scope[0]));
	CHECK_OK_FATAL(
		hm_map_protect_begin(world->map, 0, 3 * PAGE, HM_READ, &world->scope[1]));
}

static int no_refusal(void *user, const struct hm_view_change *change)
{
	(void)user, (void)change;
	return 0;
}

static void viewed_map(struct world *world)
{
	static const struct hm_view_ops ops = {
		.struct_size = sizeof(ops),
		.quiesce = no_refusal,
	};

	fancy_map(world);
	CHECK_OK_FATAL(hm_view_create(world->map, 0, 0, &ops, NULL, &world->view));
}

static void shadowed_map(struct world *world)
{
	shared_map(world);
	CHECK_OK_FATAL(undo_set_loss(world));
}

static void file_map(struct world *world)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .max_size = MAX_SIZE };

	open_file(world);
	CHECK_OK_FATAL(
		hm_buffer_from_file(world->device, NULL, world->fd, &desc, &world->buffer));
	CHECK_OK_FATAL(hm_map_create(world->buffer, NULL, &world->map));
	pattern_write(hm_map_address(world->map), 0, SIZE, 1);
}

/* A device whose maps fork children do not inherit. Registered once. */
static void minimal_buffer(struct world *world)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = SIZE };

	if (hm_device_open("minimal", &world->device)) {
		CHECK_OK_FATAL(hm_backend_register(&minimal_backend));
		CHECK_OK_FATAL(hm_device_open("minimal", &world->device));
	}
	CHECK_OK_FATAL(hm_buffer_create(world->device, &desc, &world->buffer));
}

static void exported(struct world *world)
{
	make(world, 0);
	CHECK_OK_FATAL(hm_buffer_export(world->buffer, 0, &world->fd));
}

static void connect_sockets(struct world *world)
{
	CHECK_FATAL(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, world->socket));
}

static void sendable(struct world *world)
{
	shared_map(world);
	connect_sockets(world);
}

/* Twice: the message of a call that fails may be gone. */
static void sent(struct world *world)
{
	make(world, 0);
	connect_sockets(world);
	CHECK_OK_FATAL(hm_buffer_send(world->buffer, world->socket[0], 0));
	CHECK_OK_FATAL(hm_buffer_send(world->buffer, world->socket[0], 0));
}

static void sent_file(struct world *world)
{
	file_map(world);
	connect_sockets(world);
	CHECK_OK_FATAL(hm_buffer_send(world->buffer, world->socket[0], 0));
	CHECK_OK_FATAL(hm_buffer_send(world->buffer, world->socket[0], 0));
}

/* The world's buffer is the receiver's; its owner is in this process, too. */
static void received(struct world *world)
{
	sent(world);
	world->owner = world->buffer;
	world->buffer = NULL;
	CHECK_OK_FATAL(
		hm_buffer_receive(world->device, world->socket[1], NULL, &world->buffer));
	CHECK_OK_FATAL(hm_map_create(world->buffer, NULL, &world->map));
	pattern_write(hm_map_address(world->map), 0, SIZE, 1);
}

/* Faults in copies and scopes are errors. */
static void handle(struct world *world)
{
	CHECK_OK_FATAL(hm_handler_install(0));
	world->handled = true;
}

static void handled_map(struct world *world)
{
	shared_map(world);
	handle(world);
}

static void handled_two_maps(struct world *world)
{
	two_maps(world);
	handle(world);
}

static void handled_shadow(struct world *world)
{
	shadowed_map(world);
	handle(world);
}

static void handled_received(struct world *world)
{
	received(world);
	handle(world);
}

static void allocation(struct world *world)
{
	open_device(world);
	CHECK_OK_FATAL(hm_alloc(world->device, SIZE, HM_READ | HM_WRITE, &world->pointer));
	pattern_write(world->pointer, 0, SIZE, 1);
}

/* On a map that is lost, as undoing failed too, the scope ends with an error. */
static void end_scope(struct hm_scope *scope)
{
	int r = hm_map_protect_end(scope);

	CHECK(!r || r == -ENODEV);
}

/* Results first: they may hold the other objects. */
void undo_tear_down(struct world *world)
{
	CHECK_OK(hm_lock_budget_set(HM_LOCK_NO_BUDGET));
	if (world->ret_pointer != UNTOUCHED && world->ret_pointer != world->pointer)
		CHECK_OK(hm_free(world->ret_pointer));
	CHECK_OK(hm_free(world->pointer));
	hm_view_unref(world->ret_view == UNTOUCHED ? NULL : world->ret_view);
	hm_map_unref(world->ret_map == UNTOUCHED ? NULL : world->ret_map);
	hm_buffer_unref(world->ret_buffer == UNTOUCHED ? NULL : world->ret_buffer);
	hm_device_unref(world->ret_device == UNTOUCHED ? NULL : world->ret_device);
	if (world->ret_fd >= 0)
		close(world->ret_fd);
	end_scope(world->scope[0]);
	end_scope(world->scope[1]);
	hm_view_unref(world->view);
	hm_map_unref(world->second);
	hm_map_unref(world->map);
	hm_buffer_unref(world->buffer);
	hm_buffer_unref(world->owner);
	hm_device_unref(world->device);
	if (world->handled)
		CHECK_OK(hm_handler_remove());
	if (world->fd >= 0)
		close(world->fd);
	if (world->socket[0] >= 0) {
		close(world->socket[0]);
		close(world->socket[1]);
	}
}

void undo_set_up(const struct operation *operation, struct world *world)
{
	*world = (struct world){
		.fd = -1,
		.socket = { -1, -1 },
		.ret_device = UNTOUCHED,
		.ret_buffer = UNTOUCHED,
		.ret_map = UNTOUCHED,
		.ret_view = UNTOUCHED,
		.ret_pointer = UNTOUCHED,
		.ret_fd = -1,
	};
	if (operation->set_up)
		operation->set_up(world);
}

/* ---- operations ---- */

static int device_open(struct world *world)
{
	return hm_device_open(undo_device, &world->ret_device);
}

static int device_list(struct world *world)
{
	struct hm_device_info infos[8];
	uint32_t n;

	(void)world;
	infos[0].struct_size = sizeof(infos[0]);
	return hm_device_list(infos, 8, &n);
}

static int create(struct world *world, uint32_t flags, uint32_t numa_mode)
{
	return hm_buffer_create(world->device,
				DESC(hm_buffer_desc, .flags = flags, .size = SIZE,
				     .max_size = MAX_SIZE, .numa_mode = numa_mode,
				     .numa_nodes = numa_mode ? 1 : 0),
				&world->ret_buffer);
}

static int create_shared(struct world *world)
{
	return create(world, 0, HM_NUMA_DEFAULT);
}

static int create_private(struct world *world)
{
	return create(world, HM_BUFFER_PRIVATE, HM_NUMA_DEFAULT);
}

static int create_huge(struct world *world)
{
	return create(world, HM_BUFFER_HUGETLB, HM_NUMA_DEFAULT);
}

static int create_placed(struct world *world)
{
	int r = create(world, 0, HM_NUMA_BIND);

	/* The policy is applied when it is mapped. */
	return r ? r : hm_map_create(world->ret_buffer, NULL, &world->ret_map);
}

static int from_fd(struct world *world)
{
	return hm_buffer_from_file(world->device, NULL, world->fd, NULL, &world->ret_buffer);
}

static int from_path(struct world *world)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", world->fd);
	return hm_buffer_from_file(world->device, path, -1, NULL, &world->ret_buffer);
}

static int import(struct world *world)
{
	return hm_buffer_import(world->device, world->fd, NULL, &world->ret_buffer);
}

static int export_plain(struct world *world)
{
	return hm_buffer_export(world->buffer, 0, &world->ret_fd);
}

/* Does as export_plain() on a device that has no read-only export. */
static int export_read_only(struct world *world)
{
	bool can = buffer_info(world->buffer).caps & HM_CAP_READ_ONLY;

	return hm_buffer_export(world->buffer, can ? HM_EXPORT_READ_ONLY : 0, &world->ret_fd);
}

static int export_coalesced(struct world *world)
{
	return hm_buffer_export(world->buffer, HM_EXPORT_COALESCE, &world->ret_fd);
}

static int map(struct world *world, uint32_t flags, uint64_t offset, uint64_t length)
{
	return hm_map_create(world->buffer,
			     DESC(hm_map_desc, .flags = flags, .access = HM_READ | HM_WRITE,
				  .offset = offset, .length = length),
			     &world->ret_map);
}

static int map_whole(struct world *world)
{
	return map(world, 0, 0, 0);
}

static int map_guarded(struct world *world)
{
	return map(world, HM_MAP_GUARD, 0, 0);
}

static int map_populated(struct world *world)
{
	return map(world, HM_MAP_POPULATE, 0, 0);
}

static int map_part(struct world *world)
{
	return map(world, 0, PAGE, 3 * PAGE);
}

static int protect_middle(struct world *world)
{
	return hm_map_protect(world->map, PAGE, 5 * PAGE, HM_READ);
}

static int scope_begin(struct world *world)
{
	return hm_map_protect_begin(world->map, PAGE, 5 * PAGE, HM_READ, &world->scope[0]);
}

static int scope_end(struct world *world)
{
	int r = hm_map_protect_end(world->scope[0]);

	if (!r)
		world->scope[0] = NULL;
	return r;
}

static int view_create(struct world *world)
{
	static const struct hm_view_ops ops = { .struct_size = sizeof(ops) };

	return hm_view_create(world->map, 0, 0, &ops, NULL, &world->ret_view);
}

/* Releases cannot fail: the released objects are gone in any case. */
static int release_map(struct world *world)
{
	hm_map_unref(world->map);
	hm_buffer_unref(world->buffer);
	world->map = NULL;
	world->buffer = NULL;
	return 0;
}

static int release_allocation(struct world *world)
{
	int r = hm_free(world->pointer);

	if (!r)
		world->pointer = NULL;
	return r;
}

const struct operation undo_operations[] = {
	{ "device_open", NULL, device_open, false, UNDO_ANYWHERE },
	{ "device_list", NULL, device_list, false, UNDO_ANYWHERE },
	{ "create_shared", open_device, create_shared, false, UNDO_ANYWHERE },
	{ "create_private", open_device, create_private, false, UNDO_HOST },
	{ "create_huge", open_device, create_huge, false, UNDO_HOST },
	{ "create_placed", open_device, create_placed, false, UNDO_HOST },
	{ "from_fd", open_file, from_fd, false, UNDO_HOST },
	{ "from_path", open_file, from_path, false, UNDO_HOST },
	{ "import", exported, import, false, UNDO_ANYWHERE },
	{ "export_plain", shared_buffer, export_plain, false, UNDO_ANYWHERE },
	{ "export_read_only", shared_buffer, export_read_only, false, UNDO_ANYWHERE },
	{ "export_coalesced", appended_map, export_coalesced, true, UNDO_ANYWHERE },
	{ "send", sendable, undo_send_plain, false, UNDO_HOST },
	{ "send_read_only", sendable, undo_send_read_only, false, UNDO_HOST },
	{ "receive", sent, undo_receive, false, UNDO_HOST },
	{ "receive_file", sent_file, undo_receive, false, UNDO_HOST },
	{ "follow_growth", received, undo_follow_growth, true, UNDO_HOST },
	{ "follow_shrink", received, undo_follow_shrink, true, UNDO_HOST },
	{ "map_whole", shared_buffer, map_whole, false, UNDO_ANYWHERE },
	{ "map_private", private_buffer, map_whole, false, UNDO_HOST },
	{ "map_guarded", shared_buffer, map_guarded, false, UNDO_ANYWHERE },
	{ "map_populated", shared_buffer, map_populated, false, UNDO_PAGES },
	{ "map_part", shared_buffer, map_part, false, UNDO_ANYWHERE },
	{ "map_second", shared_map, map_whole, false, UNDO_ANYWHERE },
	{ "map_appended", appended_map, map_whole, false, UNDO_ANYWHERE },
	{ "map_minimal", minimal_buffer, map_whole, false, UNDO_HOST },
	{ "map_query", known_map, undo_map_query, false, UNDO_ANYWHERE },
	{ "pointer_query", shared_map, undo_pointer_query, false, UNDO_ANYWHERE },
	{ "budget_query", tight_locks, undo_budget_query, false, UNDO_LOCKS },
	{ "bracket", shared_map, undo_bracket, false, UNDO_ANYWHERE },
	{ "bracket_shadowed", shadowed_map, undo_bracket, false, UNDO_ANYWHERE },
	{ "copy_in", handled_map, undo_copy_in, false, UNDO_ANYWHERE },
	{ "copy_in_shadowed", handled_shadow, undo_copy_in, false, UNDO_ANYWHERE },
	{ "copy_out", handled_map, undo_copy_out, false, UNDO_ANYWHERE },
	{ "copy_out_blocked", handled_map, undo_copy_out_blocked, false, UNDO_ANYWHERE },
	{ "copy_out_received", handled_received, undo_copy_out, false, UNDO_HOST },
	{ "copy_between", handled_two_maps, undo_copy_between, false, UNDO_ANYWHERE },
	{ "guard", handled_map, undo_guard, false, UNDO_ANYWHERE },
	{ "guard_blocked", handled_map, undo_guard_blocked, false, UNDO_ANYWHERE },
	{ "set_loss", shared_map, undo_set_loss, false, UNDO_ANYWHERE },
	{ "shadow", shadowed_map, undo_shadow, false, UNDO_ANYWHERE },
	{ "protect", shared_map, protect_middle, false, UNDO_ANYWHERE },
	{ "protect_fancy", fancy_map, protect_middle, false, UNDO_RIGHTS },
	{ "protect_scoped", scoped_map, protect_middle, false, UNDO_RIGHTS },
	{ "scope_begin", fancy_map, scope_begin, false, UNDO_RIGHTS },
	{ "scope_end", scoped_map, scope_end, false, UNDO_RIGHTS },
	{ "seal_scoped", scoped_map, undo_seal, false, UNDO_HOST },
	{ "seal_two", two_maps, undo_seal, false, UNDO_HOST },
	{ "seal_unmapped", shared_buffer, undo_seal, false, UNDO_HOST },
	{ "lock", fancy_map, undo_lock_all, false, UNDO_LOCKS },
	{ "lock_on_fault", shared_map, undo_lock_on_fault, false, UNDO_LOCKS },
	{ "lock_evicting", tight_locks, undo_lock_evicting, false, UNDO_LOCKS },
	{ "lock_restore", waiting_locks, undo_lock_restore, false, UNDO_LOCKS },
	{ "lock_budget", waiting_locks, undo_lock_budget, false, UNDO_LOCKS },
	{ "unlock", fancy_map, undo_unlock_middle, false, UNDO_LOCKS },
	{ "advise_cold", shared_map, undo_advise_cold, false, UNDO_PAGES },
	{ "advise_huge", private_map, undo_advise_huge, false, UNDO_HOST },
	{ "prefetch_read", shared_map, undo_prefetch_read, false, UNDO_PAGES },
	{ "prefetch_write", shared_map, undo_prefetch_write, false, UNDO_PAGES },
	{ "prefetch_file", file_map, undo_prefetch_read, false, UNDO_HOST },
	{ "sync_file", file_map, undo_sync_all, false, UNDO_HOST },
	{ "grow_unmapped", shared_buffer, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_shared", shared_map, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_private", private_map, undo_grow, false, UNDO_HOST },
	{ "grow_huge", huge_map, undo_grow, false, UNDO_HOST },
	{ "grow_guarded", guarded_map, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_two", two_maps, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_fancy", fancy_map, undo_grow, false, UNDO_RIGHTS },
	{ "grow_scoped", scoped_map, undo_grow, false, UNDO_RIGHTS },
	{ "grow_viewed", viewed_map, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_appended", appended_map, undo_grow, false, UNDO_ANYWHERE },
	{ "grow_file", file_map, undo_grow, false, UNDO_HOST },
	{ "shrink_unmapped", shared_buffer, undo_shrink, false, UNDO_ANYWHERE },
	{ "shrink_shared", shared_map, undo_shrink, false, UNDO_ANYWHERE },
	{ "shrink_private", private_map, undo_shrink, false, UNDO_HOST },
	{ "shrink_fancy", fancy_map, undo_shrink, false, UNDO_RIGHTS },
	{ "shrink_fancy_private", fancy_private_map, undo_shrink, false, UNDO_HOST },
	{ "shrink_private_page", private_read_only_page, undo_shrink, false, UNDO_HOST },
	{ "shrink_two", two_maps, undo_shrink, false, UNDO_ANYWHERE },
	{ "shrink_scoped", scoped_map, undo_shrink, false, UNDO_RIGHTS },
	{ "shrink_viewed", viewed_map, undo_shrink, false, UNDO_ANYWHERE },
	{ "shrink_appended", appended_two_maps, undo_shrink, true, UNDO_ANYWHERE },
	{ "shrink_by_bytes", shared_map, undo_shrink_by_bytes, false, UNDO_ANYWHERE },
	{ "shrink_file", file_map, undo_shrink, false, UNDO_HOST },
	{ "replace", shared_map, undo_replace, false, UNDO_ANYWHERE },
	{ "replace_fancy", fancy_map, undo_replace, false, UNDO_RIGHTS },
	{ "replace_scoped", scoped_map, undo_replace, false, UNDO_RIGHTS },
	{ "replace_viewed", viewed_map, undo_replace, false, UNDO_ANYWHERE },
	{ "replace_unmapped", shared_buffer, undo_replace, false, UNDO_ANYWHERE },
	{ "append", shared_map, undo_append, false, UNDO_ANYWHERE },
	{ "append_two", two_maps, undo_append, false, UNDO_ANYWHERE },
	{ "append_fancy", fancy_map, undo_append, false, UNDO_RIGHTS },
	{ "append_scoped", scoped_map, undo_append, false, UNDO_RIGHTS },
	{ "append_again", appended_map, undo_append, false, UNDO_ANYWHERE },
	{ "move", shared_map, undo_move, false, UNDO_ANYWHERE },
	{ "move_fancy", fancy_map, undo_move, false, UNDO_RIGHTS },
	{ "move_scoped", scoped_map, undo_move, false, UNDO_RIGHTS },
	{ "move_viewed", viewed_map, undo_move, false, UNDO_ANYWHERE },
	{ "move_unmapped", shared_buffer, undo_move, false, UNDO_ANYWHERE },
	{ "view_create", shared_map, view_create, false, UNDO_ANYWHERE },
	{ "alloc", open_device, undo_alloc, false, UNDO_ANYWHERE },
	{ "realloc_grow", allocation, undo_realloc_grow, false, UNDO_ANYWHERE },
	{ "realloc_shrink", allocation, undo_realloc_shrink, false, UNDO_ANYWHERE },
	{ "realloc_move", allocation, undo_realloc_move, false, UNDO_HOST },
	{ "release_map", fancy_map, release_map, false, UNDO_RIGHTS },
	{ "release_appended", appended_map, release_map, false, UNDO_ANYWHERE },
	{ "release_allocation", allocation, release_allocation, false, UNDO_ANYWHERE },
	{ "release_retired", two_maps, undo_retire, false, UNDO_ANYWHERE },
};

const unsigned int undo_n_operation = sizeof(undo_operations) / sizeof(undo_operations[0]);

bool undo_runs_on(const struct operation *operation, const char *name)
{
	static const uint64_t needed[] = {
		[UNDO_ANYWHERE] = 0,
		[UNDO_LOCKS] = HM_CAP_LOCK,
		[UNDO_PAGES] = HM_CAP_POPULATE,
		[UNDO_RIGHTS] = HM_CAP_PROTECT,
	};
	struct hm_device_info info = { .struct_size = sizeof(info) };
	uint64_t needs = needed[operation->place];
	AUTO(hm_device) *device = NULL;

	if (operation->place == UNDO_HOST || hm_device_open(name, &device))
		return !strcmp(name, "host");
	return !hm_device_query(device, &info) && (info.caps & needs) == needs;
}
