// SPDX-License-Identifier: MIT
/* The access hook: its requests, and that a refused call leaves no trace. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "hook/access_world.h"
#include "lib/inject.h"

#define UNTOUCHED ((void *)0x10)
#define EVERY (~0u)

/* ---- the operations ---- */

/* Drops the new buffer at once; a failure has left *@made alone. */
static int drop_buffer(int r, struct hm_buffer **made)
{
	if (r)
		CHECK(*made == UNTOUCHED);
	else
		hm_buffer_unref(*made);
	return r;
}

static int op_open(struct access_world *w)
{
	struct hm_device *made = UNTOUCHED;
	int r = hm_device_open(w->device_name, &made);

	if (r)
		CHECK(made == UNTOUCHED);
	else
		hm_device_unref(made);
	return r;
}

static int op_open_accel(struct access_world *w)
{
	struct hm_accel *made = UNTOUCHED;
	int r = hm_accel_open(w->accel_name, NULL, &made);

	if (r)
		CHECK(made == UNTOUCHED);
	else
		hm_accel_unref(made);
	return r;
}

static int create(struct access_world *w, uint32_t flags)
{
	struct hm_buffer *made = UNTOUCHED;

	return drop_buffer(hm_buffer_create(w->device,
					    DESC(hm_buffer_desc, .flags = flags, .size = PAGE,
						 .name = "made"),
					    &made),
			   &made);
}

static int op_create(struct access_world *w)
{
	return create(w, HM_BUFFER_PRIVATE);
}

static int op_create_shared(struct access_world *w)
{
	return create(w, 0);
}

static int op_from_file(struct access_world *w)
{
	const struct hm_buffer_desc desc = {
		.struct_size = sizeof(desc),
		.flags = HM_BUFFER_READ_ONLY,
		.offset = PAGE,
	};
	struct hm_buffer *made = UNTOUCHED;

	return drop_buffer(hm_buffer_from_file(w->files, w->link, -1, &desc, &made), &made);
}

static int op_map(struct access_world *w)
{
	struct hm_map *made = UNTOUCHED;
	int r = hm_map_create(w->buffer, DESC(hm_map_desc, .access = HM_READ, .offset = PAGE),
			      &made);

	if (r)
		CHECK(made == UNTOUCHED);
	else
		hm_map_unref(made);
	return r;
}

static int op_resize(struct access_world *w)
{
	int r = hm_buffer_resize(w->buffer, 5 * PAGE, HM_MAY_MOVE);

	if (r)
		return r;
	CHECK_EQUAL(hm_map_length(w->map), 5 * PAGE);
	return hm_buffer_resize(w->buffer, WORLD_SIZE, HM_MAY_MOVE);
}

static int op_protect(struct access_world *w)
{
	int r = hm_map_protect(w->map, PAGE, PAGE, HM_READ);

	if (r)
		return r;
	CHECK_EQUAL(map_info(w->map, 0).runs, 3);
	return hm_map_protect(w->map, PAGE, PAGE, HM_READ | HM_WRITE);
}

static int op_protect_begin(struct access_world *w)
{
	struct hm_scope *scope = UNTOUCHED;
	int r = hm_map_protect_begin(w->map, PAGE, PAGE, HM_READ, &scope);

	if (r) {
		CHECK(scope == UNTOUCHED);
		return r;
	}
	CHECK_EQUAL(map_info(w->map, 0).runs, 3);
	r = hm_map_protect_end(scope);
	/* One that the system did not let end is there still. */
	return r ? hm_map_protect_end(scope) : 0;
}

static int op_lock(struct access_world *w)
{
	int r = hm_map_lock(w->map, 2 * PAGE, PAGE, HM_LOCK_PARTIAL, NULL);

	return r ? r : hm_map_unlock(w->map, 2 * PAGE, PAGE);
}

static int op_export(struct access_world *w)
{
	int fd = -7, r = hm_buffer_export(w->buffer, 0, &fd);

	if (r)
		CHECK_EQUAL(fd, -7);
	else
		close(fd);
	return r;
}

/* The seal must fail when the hook allows it: other operations write the world's buffer. */
static int op_seal(struct access_world *w)
{
	void *raw = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, w->fd, 0);
	int r;

	CHECK_FATAL(raw != MAP_FAILED);
	r = hm_buffer_seal(w->buffer, 0);
	munmap(raw, PAGE);
	return r == -EBUSY ? 0 : r;
}

static int op_import(struct access_world *w)
{
	struct hm_buffer *made = UNTOUCHED;

	return drop_buffer(hm_buffer_import(w->device, w->fd, NULL, &made), &made);
}

static int op_send(struct access_world *w)
{
	AUTO(hm_buffer) *back = NULL;
	int r = hm_buffer_send(w->buffer, w->socket[0], 0);

	if (r)
		return r;
	CHECK_OK_FATAL(hm_access_hook_set(NULL, NULL));
	CHECK_OK_FATAL(hm_buffer_receive(w->device, w->socket[1], NULL, &back));
	return 0;
}

static int drop_fence(int r, struct hm_fence *fence)
{
	if (r)
		CHECK(fence == UNTOUCHED);
	else
		finish(fence);
	return r;
}

static int op_launch(struct access_world *w)
{
	char *base = hm_map_address(w->map);
	struct hm_fence *fence = UNTOUCHED;
	int r = hm_launch(w->queue, w->kernel, 1, &fence, HM_IN(base + 5),
			  HM_RANGE(base, 100, HM_READ | HM_WRITE));

	return drop_fence(r, fence);
}

/* If arguments go by copy, two of them may not be the same bytes. */
static int op_launch_apart(struct access_world *w)
{
	char *base = hm_map_address(w->map);
	struct hm_fence *fence = UNTOUCHED;
	int r = hm_launch(w->queue, w->kernel, 1, &fence, HM_RANGE(base + PAGE, 64, HM_READ),
			  HM_RANGE(base, 100, HM_READ | HM_WRITE));

	return drop_fence(r, fence);
}

static int op_copy(struct access_world *w)
{
	char *base = hm_map_address(w->map);
	struct hm_fence *fence = UNTOUCHED;
	int r = hm_queue_copy(w->queue, base, base + PAGE, 64, &fence);

	if (r)
		CHECK(fence == UNTOUCHED);
	else
		finish(fence);
	return r;
}

static int op_fill(struct access_world *w)
{
	struct hm_fence *fence = UNTOUCHED;
	int r = hm_queue_fill(w->queue, hm_map_address(w->map), 0, 32, &fence);

	if (r)
		CHECK(fence == UNTOUCHED);
	else
		finish(fence);
	return r;
}

/* The first request of each call; strings are "" if unset, "*" for the world's file. */
static const struct operation {
	int (*run)(struct access_world *w);
	uint32_t operation;
	const char *device, *accel, *kernel, *buffer, *path;
	uint64_t size, max_size, offset, length;
	uint32_t access, flags;
} operations[] = {
	{ op_open, HM_ACCESS_OPEN, "host", "", "", "", "", 0, 0, 0, 0, 0, 0 },
	{ op_open_accel, HM_ACCESS_OPEN, "", "cpu", "", "", "", 0, 0, 0, 0, 0, 0 },
	{ op_create, HM_ACCESS_CREATE, "host", "", "", "made", "", PAGE, PAGE, 0, 0, 3,
	  HM_BUFFER_PRIVATE },
	{ op_from_file, HM_ACCESS_FROM_FILE, "file", "", "", "link", "*", WORLD_SIZE - PAGE,
	  WORLD_SIZE - PAGE, PAGE, 0, HM_READ, HM_BUFFER_READ_ONLY },
	{ op_map, HM_ACCESS_MAP, "host", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE,
	  PAGE, WORLD_SIZE - PAGE, HM_READ, 0 },
	{ op_resize, HM_ACCESS_RESIZE, "host", "", "", "subject", "", 5 * PAGE, WORLD_MAX_SIZE,
	  0, 0, 3, HM_MAY_MOVE },
	{ op_protect, HM_ACCESS_PROTECT, "host", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, PAGE, PAGE, HM_READ, 0 },
	{ op_protect_begin, HM_ACCESS_PROTECT, "host", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, PAGE, PAGE, HM_READ, 0 },
	{ op_lock, HM_ACCESS_LOCK, "host", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE,
	  2 * PAGE, PAGE, 0, HM_LOCK_PARTIAL },
	{ op_export, HM_ACCESS_EXPORT, "host", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, 0, 0, 3, 0 },
	{ op_import, HM_ACCESS_IMPORT, "host", "", "", "buffer",
	  "/memfd:hetmap:subject (deleted)", WORLD_MAX_SIZE, WORLD_MAX_SIZE, 0, 0, 3, 0 },
	{ op_send, HM_ACCESS_SEND, "host", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE, 0,
	  0, 3, 0 },
	{ op_launch, HM_ACCESS_LAUNCH, "", "cpu", "idle", "", "", WORLD_SIZE + 100, 0, 0, 0, 3,
	  0 },
	{ op_copy, HM_ACCESS_LAUNCH, "", "cpu", "", "", "", 128, 0, 0, 0, 3, 0 },
	{ op_fill, HM_ACCESS_LAUNCH, "", "cpu", "", "", "", 32, 0, 0, 0, HM_WRITE, 0 },
	{ op_seal, HM_ACCESS_SEAL, "host", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE, 0,
	  0, HM_READ, 0 },
};

/* Operations of a device with its own engine; an exported buffer does not shrink. */
static const struct operation soft_operations[] = {
	{ op_open, HM_ACCESS_OPEN, "soft:0", "", "", "", "", 0, 0, 0, 0, 0, 0 },
	{ op_open_accel, HM_ACCESS_OPEN, "", "soft:0", "", "", "", 0, 0, 0, 0, 0, 0 },
	{ op_create_shared, HM_ACCESS_CREATE, "soft:0", "", "", "made", "", PAGE, PAGE, 0, 0, 3,
	  0 },
	{ op_map, HM_ACCESS_MAP, "soft:0", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE,
	  PAGE, WORLD_SIZE - PAGE, HM_READ, 0 },
	{ op_protect, HM_ACCESS_PROTECT, "soft:0", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, PAGE, PAGE, HM_READ, 0 },
	{ op_protect_begin, HM_ACCESS_PROTECT, "soft:0", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, PAGE, PAGE, HM_READ, 0 },
	{ op_lock, HM_ACCESS_LOCK, "soft:0", "", "", "subject", "", WORLD_SIZE, WORLD_MAX_SIZE,
	  2 * PAGE, PAGE, 0, HM_LOCK_PARTIAL },
	{ op_export, HM_ACCESS_EXPORT, "soft:0", "", "", "subject", "", WORLD_SIZE,
	  WORLD_MAX_SIZE, 0, 0, 3, 0 },
	{ op_import, HM_ACCESS_IMPORT, "soft:0", "", "", "buffer",
	  "/memfd:hetmap:soft (deleted)", 4 * PAGE, 4 * PAGE, 0, 0, 3, 0 },
	{ op_launch_apart, HM_ACCESS_LAUNCH, "", "soft:0", "idle", "", "", 64 + 100, 0, 0, 0, 3,
	  0 },
	{ op_copy, HM_ACCESS_LAUNCH, "", "soft:0", "", "", "", 128, 0, 0, 0, 3, 0 },
	{ op_fill, HM_ACCESS_LAUNCH, "", "soft:0", "", "", "", 32, 0, 0, 0, HM_WRITE, 0 },
};

#define N(table) (sizeof(table) / sizeof((table)[0]))

static void check_asked(const struct access_log *log, const struct operation *op,
			const struct access_world *w)
{
	CHECK_EQUAL(log->last.operation, op->operation);
	CHECK_EQUAL(log->last.struct_size, sizeof(log->last));
	CHECK_EQUAL(log->last.pid, getpid());
	CHECK_EQUAL(log->last.thread, gettid());
	CHECK_EQUAL(log->last.uid, geteuid());
	CHECK_EQUAL(log->last.gid, getegid());
	CHECK_TEXT(log->device, op->device);
	CHECK_TEXT(log->accel, op->accel);
	CHECK_TEXT(log->kernel, op->kernel);
	CHECK_TEXT(log->buffer, op->buffer);
	CHECK_TEXT(log->path, *op->path == '*' ? w->path : op->path);
	CHECK_EQUAL(log->last.serial,
		    !strcmp(op->buffer, "subject") ? buffer_info(w->buffer).serial : 0);
	CHECK_EQUAL(log->last.size, op->size);
	CHECK_EQUAL(log->last.max_size, op->max_size);
	CHECK_EQUAL(log->last.offset, op->offset);
	CHECK_EQUAL(log->last.length, op->length);
	CHECK_EQUAL(log->last.access, op->access);
	CHECK_EQUAL(log->last.flags, op->flags);
	CHECK_EQUAL(log->last.peer_pid, op->operation == HM_ACCESS_SEND ? getpid() : 0);
	CHECK_EQUAL(log->last.place, HM_PLACE_DEFAULT);
}

/*
 * Refuses the first request, which so must be the expected one; and runs the call once more
 * allowed, so that it can be done at all.
 */
static void ask_all(const char *device, const char *accel, const struct operation *table,
		    size_t n)
{
	struct test_holding held, now;
	struct hm_access_counters before, after;
	struct hm_stats stats, stats_after;
	size_t i;
	AUTO(access_world) w = access_world_begin_on(device, accel);

	/* Objects that are made once stay: the checks below count. */
	for (i = 0; i < n; i++)
		CHECK_OK(table[i].run(&w));
	for (i = 0; i < n; i++) {
		const struct operation *op = &table[i];
		struct access_log log = { .refuse = EVERY, .r = -EACCES };

		before = access_counters_now();
		held = test_holding_now();
		stats = stats_now();
		CHECK_OK(hm_access_hook_set(access_log_hook, &log));
		CHECK_ERROR(-EACCES, op->run(&w));
		CHECK(text_has("the access hook refused"));
		CHECK(text_has(hm_access_name(op->operation)));
		CHECK_EQUAL(log.n, 1);
		CHECK_OK(hm_access_hook_set(NULL, NULL));
		after = access_counters_now();
		now = test_holding_now();
		stats_after = stats_now();
		check_asked(&log, op, &w);
		CHECK_EQUAL(after.asked[op->operation], before.asked[op->operation] + 1);
		CHECK_EQUAL(after.refused[op->operation], before.refused[op->operation] + 1);
		CHECK_EQUAL(now.fds, held.fds);
		CHECK_EQUAL(now.mappings, held.mappings);
		CHECK_EQUAL(now.mapped, held.mapped);
		CHECK_EQUAL(now.locked, held.locked);
		CHECK_EQUAL(now.objects, held.objects);
		CHECK(!memcmp(&stats, &stats_after, sizeof(stats)));
		CHECK_EQUAL(buffer_info(w.buffer).size, WORLD_SIZE);
		CHECK_EQUAL(map_info(w.map, 0).runs, 1);
		CHECK(pattern_holds(hm_map_address(w.map), PAGE, WORLD_SIZE, 1));

		log = (struct access_log){ .refuse = 0 };
		CHECK_OK(hm_access_hook_set(access_log_hook, &log));
		CHECK_OK(op->run(&w));
		CHECK(log.n >= 1);
	}
}

static void every_operation(void)
{
	ask_all("host", "cpu", operations, N(operations));
}

static void every_operation_on_soft(void)
{
	ask_all("soft:0", "soft:0", soft_operations, N(soft_operations));
}

/* ---- requests inside of calls ---- */

/* Only devices with a choice have a place: the hook hears of it where it is made. */
static void place_is_told(void)
{
	struct access_log log = { .refuse = 0 };
	struct hm_buffer *buffer;
	AUTO(hm_device) *device = rig_device("soft:0");

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_OK_FATAL(hm_buffer_create(
		device, DESC(hm_buffer_desc, .size = PAGE, .place = HM_PLACE_SYSTEM), &buffer));
	CHECK_EQUAL(log.last.place, HM_PLACE_SYSTEM);
	hm_buffer_unref(buffer);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static void short_way(void)
{
	struct access_log log = { .refuse = 0 };
	struct hm_stats stats;
	void *pointer;
	AUTO(access_world) w = access_world_begin();

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_OK_FATAL(hm_alloc(w.device, PAGE, HM_READ, &pointer));
	CHECK_TEXT(log.order, "create map ");
	CHECK(!strncmp(log.buffer, "alloc-", 6));
	CHECK_EQUAL(log.last.length, PAGE);
	CHECK_EQUAL(log.last.access, HM_READ);
	CHECK_OK(hm_realloc(pointer, 2 * PAGE, 0, NULL));
	CHECK_TEXT(log.order, "create map resize ");
	CHECK_EQUAL(log.last.size, 2 * PAGE);
	CHECK_OK(hm_free(pointer));

	/* The buffer of a refused map is gone again. */
	stats = stats_now();
	log.refuse = 1u << HM_ACCESS_MAP;
	log.r = -EACCES;
	pointer = UNTOUCHED;
	CHECK_ERROR(-EACCES, hm_alloc(w.device, PAGE, HM_READ, &pointer));
	CHECK(pointer == UNTOUCHED);
	CHECK_EQUAL(stats_now().buffers, stats.buffers);
}

/* A larger object in the place of another is the resize's own. */
static void replaced(void)
{
	struct access_log log = { .refuse = 0 };
	AUTO(access_world) w = access_world_begin();
	AUTO(hm_buffer) *buffer = NULL;

	CHECK_OK_FATAL(
		hm_buffer_create(w.device, DESC(hm_buffer_desc, .size = WORLD_SIZE), &buffer));
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_OK(hm_buffer_resize(buffer, 4 * WORLD_MAX_SIZE, HM_MAY_MOVE));
	CHECK_TEXT(log.order, "resize ");
}

/* A file by its descriptor; and without the path nothing is asked, nor done. */
static void descriptors(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = PAGE };
	struct access_log log = { .refuse = 0 };
	struct hm_buffer *buffer = UNTOUCHED;
	AUTO(access_world) w = access_world_begin();
	int fd = scratch_file(WORLD_SIZE);

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_OK_FATAL(hm_buffer_from_file(w.files, NULL, fd, &desc, &buffer));
	CHECK(strstr(log.path, " (deleted)") != NULL);
	CHECK_EQUAL(log.last.size, PAGE);
	hm_buffer_unref(buffer);
	buffer = UNTOUCHED;

	inject_always("readlink", EACCES);
	CHECK_ERROR(-EACCES, hm_buffer_from_file(w.files, NULL, fd, &desc, &buffer));
	CHECK(text_has("the access hook must be told which file this is"));
	CHECK_ERROR(-EACCES, hm_buffer_import(w.device, w.fd, NULL, &buffer));
	CHECK_OK(hm_buffer_send(w.buffer, w.socket[0], 0));
	CHECK_ERROR(-EACCES, hm_buffer_receive(w.device, w.socket[1], NULL, &buffer));
	CHECK(inject_disarm());
	inject_always("fstat", EIO);
	CHECK_ERROR(-EIO, hm_buffer_import(w.device, w.fd, NULL, &buffer));
	CHECK(inject_disarm());
	CHECK(buffer == UNTOUCHED);
	CHECK_EQUAL(log.n, 2); /* from_file, send */
	close(fd);
}

/* Each operation with its n-th call of the system failing, while a hook is asked. */
static void undone(void)
{
	struct test_holding held, now;
	struct access_log log;
	unsigned int n;
	bool failed;
	size_t i;
	AUTO(access_world) w = access_world_begin();

	for (i = 0; i < N(operations); i++) {
		if (operations[i].run == op_send)
			continue; /* receives, too */
		if (operations[i].run == op_seal)
			continue; /* fails here by itself: test_undo.c has it */
		CHECK_OK(operations[i].run(&w));
		held = test_holding_now();
		for (n = 1, failed = true; failed && n < 100; n++) {
			log = (struct access_log){ .refuse = 0 };
			CHECK_OK(hm_access_hook_set(access_log_hook, &log));
			inject_arm(n, INJECT_ONE);
			(void)operations[i].run(&w);
			failed = inject_disarm();
			inject_forgive();
			now = test_holding_now();
			CHECK_EQUAL(now.fds, held.fds);
			CHECK_EQUAL(now.objects, held.objects);
			/* The call may have been done half way. */
			CHECK_OK(hm_buffer_resize(w.buffer, WORLD_SIZE, 0));
			CHECK_OK(hm_map_protect(w.map, 0, WORLD_SIZE, HM_READ | HM_WRITE));
			CHECK_OK(hm_map_unlock(w.map, 0, WORLD_SIZE));
		}
		CHECK(n < 100);
	}
}

/* ---- devices ---- */

static int no_soft(void *user, const struct hm_access_request *request, char *reason)
{
	(void)user, (void)reason;
	return request->device && !strncmp(request->device, "soft", 4) ? -EACCES : 0;
}

static void devices(void)
{
	struct access_log log = { .refuse = EVERY, .r = -EACCES };
	struct hm_device_info infos[32] = { { .struct_size = sizeof(infos[0]) } };
	struct hm_device *device = UNTOUCHED;
	uint32_t all, some, i;

	CHECK_OK(hm_device_list(NULL, 0, &all));
	CHECK_OK(hm_access_hook_set(no_soft, NULL));
	CHECK_OK(hm_device_list(infos, 32, &some));
	CHECK_EQUAL(some, all - 1);
	for (i = 0; i < some; i++)
		CHECK(strcmp(infos[i].name, "soft:0") != 0);
	CHECK_ERROR(-EACCES, hm_device_open("soft", &device));
	CHECK(text_has("the access hook refused open \"soft\": EACCES"));

	/* Without a name the hook is asked about the default device. */
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_ERROR(-EACCES, hm_device_open(NULL, &device));
	CHECK(text_has("the access hook refused open \"host\""));
	CHECK_EQUAL(log.n, 1);
	CHECK(device == UNTOUCHED);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

/* ---- answers of a hook ---- */

static void answers(void)
{
	static const struct {
		int answer, result;
	} rows[] = {
		{ -EACCES, -EACCES }, { -EPERM, -EPERM },   { -4095, -4095 },
		{ -4096, -EACCES },   { INT_MIN, -EACCES }, { 1, -EACCES },
		{ INT_MAX, -EACCES },
	};
	char longest[2 * HM_ACCESS_REASON_MAX];
	struct access_log log = { .refuse = EVERY };
	struct hm_device *device = UNTOUCHED;
	size_t i;

	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		log.r = rows[i].answer;
		CHECK_ERROR(rows[i].result, hm_device_open("host", &device));
		CHECK(device == UNTOUCHED);
	}
	log.r = -EPERM;
	CHECK_ERROR(-EPERM, hm_device_open("host", &device));
	CHECK_TEXT(hm_errmsg(), "the access hook refused open \"host\": EPERM (Operation not "
				"permitted)");
	log.reason = "rule 7 says so";
	CHECK_ERROR(-EPERM, hm_device_open("host", &device));
	CHECK_TEXT(hm_errmsg(), "the access hook refused open \"host\": rule 7 says so");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	log.reason = longest;
	CHECK_ERROR(-EPERM, hm_device_open("host", &device));
	CHECK_EQUAL(strlen(strchr(hm_errmsg(), 'x')), HM_ACCESS_REASON_MAX - 1);
	CHECK_OK(hm_access_hook_set(NULL, NULL));
}

static void arguments(void)
{
	struct hm_access_counters counters = { .struct_size = sizeof(counters) + 8 };
	struct access_log log = { .refuse = 0 };
	struct hm_buffer *buffer;
	uint32_t i;
	AUTO(access_world) w = access_world_begin();

	CHECK_ERROR(-EINVAL, hm_access_query(NULL));
	CHECK_ERROR(-E2BIG, hm_access_query(&counters));
	counters.struct_size = 8;
	CHECK_ERROR(-EINVAL, hm_access_query(&counters));
	counters = access_counters_now();
	CHECK_EQUAL(counters.operations, HM_ACCESS_SEAL + 1);
	for (i = 0; i < HM_ACCESS_MAX; i++)
		CHECK((hm_access_name(i) != NULL) == (i < counters.operations));
	CHECK(!hm_access_name(UINT32_MAX));

	/* The hook is not asked about wrong calls. */
	CHECK_OK(hm_access_hook_set(access_log_hook, &log));
	CHECK_ERROR(-EINVAL, hm_buffer_create(w.device, NULL, &buffer));
	CHECK_ERROR(-EINVAL, hm_buffer_resize(w.buffer, 0, 0));
	CHECK_ERROR(-EINVAL, hm_map_protect(w.map, 0, PAGE, 77));
	CHECK_ERROR(-EINVAL, hm_buffer_export(w.buffer, 1u << 30, &w.socket[0]));
	CHECK_ERROR(-EINVAL, hm_queue_fill(w.queue, hm_map_address(w.map), 0, 3, NULL));
	CHECK_ERROR(-ENOENT, hm_buffer_from_file(w.files, "/nonexistent", -1, NULL, &buffer));
	CHECK_EQUAL(log.n, 0);

	/* More than there is: the sum does not wrap, and the launch names the error. */
	CHECK_ERROR(-EFAULT,
		    hm_launch(w.queue, w.kernel, 1, NULL, HM_RANGE(&w, UINT64_MAX, HM_READ),
			      HM_RANGE(&w, UINT64_MAX, HM_READ | HM_WRITE)));
	CHECK_EQUAL(log.last.size, UINT64_MAX);
}

static const struct test tests[] = {
	{ "every_operation", every_operation, 60, 0 },
	{ "every_operation_on_soft", every_operation_on_soft, 60, 0 },
	{ "place_is_told", place_is_told, 0, 0 },
	{ "short_way", short_way, 0, 0 },
	{ "replaced", replaced, 0, 0 },
	{ "descriptors", descriptors, 0, 0 },
	{ "undone", undone, 60, 0 },
	{ "devices", devices, 0, 0 },
	{ "answers", answers, 0, 0 },
	{ "arguments", arguments, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "access", tests)
