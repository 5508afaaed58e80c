// SPDX-License-Identifier: MIT
/* Registration of backends: refused tables, and the defaults of a small one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"
#include "lib/minimal_backend.h"
#include "lib/support.h"
#include "base/sys.h"

static void refused(void)
{
	struct hm_backend_ops ops = minimal_backend;

	ops.size = sizeof(ops);
	CHECK_ERROR(-EINVAL, hm_backend_register(NULL));
	ops.name = NULL;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	ops.name = "host";
	CHECK_ERROR(-EEXIST, hm_backend_register(&ops));
	ops.name = "refused";
	ops.size = 3;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	ops.size = sizeof(ops) + 64;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	ops.size = sizeof(ops);
	ops.device_close = NULL;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "device_close"));
	ops.device_close = minimal_backend.device_close;
	ops.object_destroy = NULL;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	ops.object_destroy = minimal_backend.object_destroy;
	ops.caps |= HM_CAP_EXPORT; /* a bit without its op */
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "export"));
	ops.caps = HM_CAP_WRITE; /* an op without its bit */
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "create"));
	ops.create = NULL; /* no way to make a buffer */
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
}

#define OP(op, cap)                                                 \
	{                                                           \
#op, #cap, cap, offsetof(struct hm_backend_ops, op) \
	}

/* Each optional op and its bit: one without the other is refused, and the text names both. */
static void ops_and_bits(void)
{
	static const struct {
		const char *op, *cap_name;
		uint64_t cap;
		size_t offset;
	} optional[] = {
		OP(create, HM_CAP_CREATE),           OP(from_file, HM_CAP_FROM_FILE),
		OP(import_fd, HM_CAP_IMPORT),        OP(export_fd, HM_CAP_EXPORT),
		OP(resize, HM_CAP_RESIZE),           OP(each_device, HM_BACKEND_LIST),
		OP(device_check, HM_BACKEND_LOSS),   OP(hidden, HM_BACKEND_REACH),
		OP(begin_cpu, HM_CAP_BRACKET),       OP(end_cpu, HM_BACKEND_BRACKET_END),
		OP(map_keep, HM_BACKEND_MAP_CACHE),  OP(evictions, HM_BACKEND_EVICTIONS),
		OP(device_ask, HM_BACKEND_LOSS_ASK), OP(lost_signal, HM_BACKEND_LOSS_SIGNAL),
	};
	void (*const any)(void) = ops_and_bits;
	struct hm_backend_ops ops;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(optional); i++) {
		ops = growing_backend;
		ops.name = "refused";
		ops.caps |= optional[i].cap;
		memset((char *)&ops + optional[i].offset, 0, sizeof(any));
		CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
		CHECK(strstr(hm_errmsg(), optional[i].op) &&
		      strstr(hm_errmsg(), optional[i].cap_name));
		ops.caps &= ~optional[i].cap;
		memcpy((char *)&ops + optional[i].offset, &any, sizeof(any));
		CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
		CHECK(strstr(hm_errmsg(), optional[i].op) &&
		      strstr(hm_errmsg(), optional[i].cap_name));
	}
}

static int any_device(void *device)
{
	(void)device;
	return 0;
}

static int any_signal(void *device, const struct hm_segment *segment)
{
	(void)device, (void)segment;
	return 0;
}

static int any_bracket(void *device, const struct hm_segment *segments, uint32_t n_segment,
		       uint64_t offset, uint64_t length, uint32_t access)
{
	(void)device, (void)segments, (void)n_segment, (void)offset, (void)length, (void)access;
	return 0;
}

static int any_keep(void *device, const struct hm_segment *segment, void *address)
{
	(void)device, (void)segment, (void)address;
	return -ENOSPC;
}

/* A bit that needs another one is refused without it, and the text names both. */
static void bits_and_bits(void)
{
	struct hm_backend_ops ops = growing_backend;

	ops.name = "refused";
	ops.device_ask = any_device;
	ops.caps = growing_backend.caps | HM_BACKEND_LOSS_ASK;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "HM_BACKEND_LOSS_ASK, which needs HM_BACKEND_LOSS,"));
	ops.device_ask = NULL;
	ops.device_check = any_device;
	ops.lost_signal = any_signal;
	ops.caps = growing_backend.caps | HM_BACKEND_LOSS | HM_BACKEND_LOSS_SIGNAL;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "HM_BACKEND_LOSS_SIGNAL, which needs HM_BACKEND_LOSS_ASK,"));
	ops = growing_backend;
	ops.name = "refused";
	ops.end_cpu = any_bracket;
	ops.caps |= HM_BACKEND_BRACKET_END;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "HM_BACKEND_BRACKET_END, which needs HM_CAP_BRACKET,"));
	ops.end_cpu = NULL;
	ops.begin_cpu = any_bracket;
	ops.caps = growing_backend.caps | HM_CAP_BRACKET | HM_BACKEND_BRACKET_DMABUF;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(),
		     "HM_BACKEND_BRACKET_DMABUF, which needs HM_BACKEND_BRACKET_END,"));
	/* The two ops of one bit. */
	ops = growing_backend;
	ops.name = "refused";
	ops.map_keep = any_keep;
	ops.caps |= HM_BACKEND_MAP_CACHE;
	CHECK_ERROR(-EINVAL, hm_backend_register(&ops));
	CHECK(strstr(hm_errmsg(), "map_take") && strstr(hm_errmsg(), "HM_BACKEND_MAP_CACHE"));
}

/* Registration takes all of the library's own tables: they are there already. */
static void builtin(void)
{
	const struct hm_backend_ops *ops;
	size_t i;

	for (i = 0; (ops = backend_builtin(i)); i++)
		CHECK_ERROR(-EEXIST, hm_backend_register(ops));
	CHECK(i);
}

/* A shorter table, of an older plug-in, works; its missing operations are -EOPNOTSUPP. */
static void shorter(void)
{
	AUTO(hm_device) *device = NULL;
	struct hm_buffer *other = NULL;
	int fd = -7;

	/* Registered for the life of the process: the second round finds it there. */
	CHECK_FATAL(hm_device_open("minimal", &device) == 0 ||
		    (hm_backend_register(&minimal_backend) == 0 &&
		     hm_device_open("minimal", &device) == 0));
	CHECK_ERROR(-EEXIST, hm_backend_register(&minimal_backend));
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = 5000));
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	pattern_write(hm_map_address(map), 0, 5000, 1);
	CHECK(pattern_holds(hm_map_address(map), 0, 5000, 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_from_file(device, "/etc/passwd", -1, NULL, &other));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_import(device, 0, NULL, &other));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &fd));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 1, 0));
	CHECK(!other && fd == -7);
}

static int (*real_fstat)(int fd, struct stat *ret_stat);

/* As tmpfs answers where shared memory may have huge pages (shmem_enabled). */
static int huge_fstat(int fd, struct stat *ret_stat)
{
	int r = real_fstat(fd, ret_stat);

	ret_stat->st_blksize = 2 << 20;
	return r;
}

/* Only memory of the huge pool is imported as such. */
static void import_is_not_huge(void)
{
	int fd;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_buffer(device, DESC(hm_buffer_desc, .size = 5000));

	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	real_fstat = sys_table.fstat;
	sys_table.fstat = huge_fstat;
	AUTO(hm_buffer) *other = rig_import(device, fd, NULL);
	sys_table.fstat = real_fstat;
	CHECK_EQUAL(buffer_info(other).page_size, buffer_info(buffer).page_size);
	CHECK_EQUAL(buffer_info(other).flags, 0);
	CHECK(buffer_info(other).caps & HM_CAP_LOCK);
	close(fd);
}

static uint32_t described;

static int create_described(void *device, const struct hm_buffer_desc *desc,
			    struct hm_recipe *ret_recipe)
{
	int r = growing_backend.create(device, desc, ret_recipe);

	if (!r) {
		ret_recipe->memory = described;
		ret_recipe->caps |= HM_BACKEND_CAPS;
	}
	return r;
}

/*
 * A backend tells properties of its memory, and programs the kind that follows from them. The
 * bits that are the library's alone are not shown.
 */
static void described_memory(void)
{
	static const struct {
		uint32_t memory, backing;
	} rows[] = {
		{ 0, HM_BACKING_DEVICE },
		{ HM_MEMORY_SPARSE, HM_BACKING_DEVICE },
		{ HM_MEMORY_STORAGE, HM_BACKING_FILE },
		{ HM_MEMORY_SEALED | HM_MEMORY_SPARSE, HM_BACKING_MEMFD },
	};
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 5000 };
	struct hm_backend_ops ops = growing_backend;
	AUTO(hm_device) *device = NULL;
	size_t i;

	ops.name = "described";
	ops.create = create_described;
	ops.device_check = any_device;
	ops.caps |= HM_BACKEND_LOSS;
	/* The second round finds it there. */
	CHECK_FATAL(
		hm_device_open("described", &device) == 0 ||
		(hm_backend_register(&ops) == 0 && hm_device_open("described", &device) == 0));
	CHECK_EQUAL(device_info(device).caps, growing_backend.caps);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		described = rows[i].memory;
		AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
		CHECK_EQUAL(buffer_info(buffer).backing, rows[i].backing);
		CHECK_EQUAL(buffer_info(buffer).caps & HM_BACKEND_CAPS, 0);
	}
}

static int export_described(void *device, const struct hm_segment *segment, uint32_t flags,
			    int *ret_fd)
{
	(void)device, (void)flags;
	*ret_fd = dup(segment->fd);
	return *ret_fd < 0 ? -errno : 0;
}

static int create_exported(void *device, const struct hm_buffer_desc *desc,
			   struct hm_recipe *ret_recipe)
{
	int r = create_described(device, desc, ret_recipe);

	if (!r)
		ret_recipe->caps |= HM_CAP_EXPORT;
	return r;
}

/* Growth does nothing here: the sparse file has the bytes already. */
static int resize_sparse(void *device, struct hm_segment *segment, uint64_t old_size,
			 uint64_t new_size)
{
	return new_size > old_size ?
		       0 :
		       growing_backend.resize(device, segment, old_size, new_size);
}

/* Where holes can be punched, stores of another process behind the end do not show in a growth. */
static void strays_go(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .size = 4096,
				       .max_size = 3 * 4096 };
	struct hm_backend_ops ops = growing_backend;
	AUTO(hm_device) *device = NULL;
	int fd;

	ops.name = "sparse";
	ops.create = create_exported;
	ops.export_fd = export_described;
	ops.resize = resize_sparse;
	ops.caps |= HM_CAP_EXPORT;
	described = HM_MEMORY_SPARSE;
	/* The second round finds it there. */
	CHECK_FATAL(hm_device_open("sparse", &device) == 0 ||
		    (hm_backend_register(&ops) == 0 && hm_device_open("sparse", &device) == 0));
	AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
	AUTO(hm_map) *map = rig_map(buffer, NULL);
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	CHECK_EQUAL(pwrite(fd, "stray", 5, 8192), 5);
	CHECK_OK(hm_buffer_resize(buffer, desc.max_size, 0));
	CHECK_EQUAL(((char *)hm_map_address(map))[8192], 0);
	close(fd);
}

/* A backend whose ops fail without a text, as plug-ins' do, if told to. */
static bool failing;
static int destroyed;

static int fail_open(const char *rest, void **ret_device)
{
	(void)rest;
	*ret_device = NULL;
	return failing ? -EIO : 0;
}

static int fail_create(void *device, const struct hm_buffer_desc *desc,
		       struct hm_recipe *ret_recipe)
{
	return failing ? -EIO : growing_backend.create(device, desc, ret_recipe);
}

static int fail_from_file(void *device, int fd, const struct hm_buffer_desc *desc,
			  struct hm_recipe *ret_recipe)
{
	int r = fail_create(device, &(struct hm_buffer_desc){ .max_size = 1 }, ret_recipe);

	(void)desc;
	if (!r)
		close(fd); /* the backend owns it, and needs it no more */
	return r;
}

static int fail_resize(void *device, struct hm_segment *segment, uint64_t old_size,
		       uint64_t new_size)
{
	return failing ? -EIO : growing_backend.resize(device, segment, old_size, new_size);
}

static void count_destroy(void *device, struct hm_segment *segment)
{
	destroyed++;
	growing_backend.object_destroy(device, segment);
}

static void *(*real_calloc)(size_t count, size_t size);

/* Fails only the buffer, which is made after the backend's object. */
static void *no_buffer(size_t count, size_t size)
{
	return size == sizeof(struct hm_buffer) ? NULL : real_calloc(count, size);
}

/* The text that the core makes for an op that can't set one. */
#define CHECK_EXPLAINED(op, call)                        \
	do {                                             \
		hm_device_open("nothing here", &nobody); \
		CHECK_ERROR(-EIO, call);                 \
		CHECK(strstr(hm_errmsg(), "failing"));   \
		CHECK(strstr(hm_errmsg(), op));          \
	} while (0)

static void plug_in_fails(void)
{
	struct hm_backend_ops ops = growing_backend;
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
				       .size = 5000,
				       .max_size = 20000 };
	struct hm_device *device, *nobody;
	struct hm_buffer *other = NULL;
	int fd = scratch_file(5000), export = -7;

	ops.name = "failing";
	ops.device_open = fail_open;
	ops.create = fail_create;
	ops.from_file = fail_from_file;
	ops.resize = fail_resize;
	ops.object_destroy = count_destroy;
	ops.caps |= HM_CAP_FROM_FILE;
	failing = false;
	destroyed = 0;
	/* The second round finds it there. */
	CHECK_FATAL(
		hm_device_open("failing", &device) == 0 ||
		(hm_backend_register(&ops) == 0 && hm_device_open("failing", &device) == 0));
	AUTO(hm_buffer) *buffer = rig_buffer(device, &desc);
	failing = true;
	CHECK_EXPLAINED("device_open", hm_device_open("failing", &nobody));
	CHECK_EXPLAINED("create", hm_buffer_create(device, &desc, &other));
	CHECK_EXPLAINED("from_file", hm_buffer_from_file(device, NULL, fd, NULL, &other));
	CHECK_EXPLAINED("resize", hm_buffer_resize(buffer, 10000, 0));
	CHECK_EXPLAINED("create", hm_buffer_resize(buffer, 10000, HM_GROW_REPLACE));
	failing = false;

	/* The backend's object is destroyed when the core can't use it. */
	real_calloc = sys_table.calloc;
	sys_table.calloc = no_buffer;
	CHECK_ERROR(-ENOMEM, hm_buffer_from_file(device, NULL, fd, NULL, &other));
	sys_table.calloc = real_calloc;
	CHECK_EQUAL(destroyed, 1);
	CHECK(!other);

	/* A new object gives no capability that the device lacks. */
	CHECK_OK(hm_buffer_resize(buffer, 10000, HM_GROW_REPLACE));
	CHECK(!(buffer_info(buffer).caps & HM_CAP_EXPORT));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &export));
	hm_device_unref(device);
	close(fd);
}

/* The table has an end, and says so. */
static void full(void)
{
	static char names[32][16];
	struct hm_backend_ops ops = minimal_backend;
	int i, r = 0;

	for (i = 0; i < 32 && !r; i++) {
		snprintf(names[i], sizeof(names[i]), "many%d", i);
		ops.name = names[i];
		r = hm_backend_register(&ops);
	}
	CHECK_EQUAL(r, -ENOSPC);
	CHECK(hm_errmsg()[0]);
}

static const struct test tests[] = {
	{ "refused", refused, 0, 0 },
	{ "ops_and_bits", ops_and_bits, 0, 0 },
	{ "bits_and_bits", bits_and_bits, 0, 0 },
	{ "described_memory", described_memory, 0, 0 },
	{ "strays_go", strays_go, 0, 0 },
	{ "builtin", builtin, 0, 0 },
	{ "shorter", shorter, 0, 0 },
	{ "import_is_not_huge", import_is_not_huge, 0, 0 },
	{ "plug_in_fails", plug_in_fails, 0, 0 },
	{ "full", full, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "backend", tests)
