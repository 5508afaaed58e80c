// SPDX-License-Identifier: MIT
/* Registration of backends: what is refused, and what a small one gets. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "minimal_backend.h"
#include "support.h"
#include "sys.h"

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

/* A shorter table, of an older plug-in, works; what it lacks is -EOPNOTSUPP. */
static void shorter(void)
{
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 5000 };
	struct hm_device *device;
	struct hm_buffer *buffer, *other = NULL;
	struct hm_map *map;
	int fd = -7;

	/* Registered for the life of the process: the second round finds it there. */
	CHECK_FATAL(hm_device_open("minimal", &device) == 0 ||
		    (hm_backend_register(&minimal_backend) == 0 &&
		     hm_device_open("minimal", &device) == 0));
	CHECK_ERROR(-EEXIST, hm_backend_register(&minimal_backend));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	pattern_write(hm_map_address(map), 0, 5000, 1);
	CHECK(pattern_holds(hm_map_address(map), 0, 5000, 1));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_from_file(device, "/etc/passwd", -1, NULL, &other));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_import(device, 0, NULL, &other));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_export(buffer, 0, &fd));
	CHECK_ERROR(-EOPNOTSUPP, hm_buffer_resize(buffer, 1, 0));
	CHECK(!other && fd == -7);
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
}

static int (*real_fstat)(int fd, struct stat *ret_stat);

/* As tmpfs answers where shared memory may have huge pages (shmem_enabled). */
static int huge_fstat(int fd, struct stat *ret_stat)
{
	int r = real_fstat(fd, ret_stat);

	ret_stat->st_blksize = 2 << 20;
	return r;
}

/* Only what comes from the huge pool is imported as such. */
static void import_is_not_huge(void)
{
	struct hm_buffer *buffer, *other;
	struct hm_buffer_desc desc = { .struct_size = sizeof(desc), .size = 5000 };
	struct hm_device *device;
	int fd;

	CHECK_OK_FATAL(hm_device_open("host", &device));
	CHECK_OK_FATAL(hm_buffer_create(device, &desc, &buffer));
	CHECK_OK_FATAL(hm_buffer_export(buffer, 0, &fd));
	real_fstat = sys_table.fstat;
	sys_table.fstat = huge_fstat;
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &other));
	sys_table.fstat = real_fstat;
	CHECK_EQUAL(buffer_info(other).page_size, buffer_info(buffer).page_size);
	CHECK_EQUAL(buffer_info(other).flags, 0);
	CHECK(buffer_info(other).caps & HM_CAP_LOCK);
	hm_buffer_unref(other);
	hm_buffer_unref(buffer);
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
	{ "shorter", shorter, 0, 0 },
	{ "import_is_not_huge", import_is_not_huge, 0, 0 },
	{ "full", full, 0, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "backend", tests);
}
