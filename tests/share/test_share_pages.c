// SPDX-License-Identifier: MIT
/*
 * Buffers of others with pages that a touch does not find. dma-bufs whose exporter answers
 * a fault with a SIGBUS [amdgpu_bo_fault_reserve_notify() does for VRAM that can't be
 * moved]: played by files that are shorter than they say. And holes in huge pages.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dmabuf/dmabuf.h"
#include "share/share_scene.h"
#include "lib/support.h"
#include "base/sys.h"

#define PAGES 700ull /* more than one call brings in */

static struct {
	struct sys_table table; /* as it was */
	dev_t dev;
	ino_t ino;
} played;

static bool is_played(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_dev == played.dev && st.st_ino == played.ino;
}

static int statfs_played(int fd, struct statfs *ret_statfs)
{
	int r = played.table.fstatfs(fd, ret_statfs);

	if (!r && is_played(fd))
		ret_statfs->f_type = DMA_BUF_MAGIC;
	return r;
}

static off_t lseek_played(int fd, off_t offset, int whence)
{
	return is_played(fd) ? (off_t)(PAGES * PAGE) : played.table.lseek(fd, offset, whence);
}

static int fstat_played(int fd, struct stat *ret_stat)
{
	int r = played.table.fstat(fd, ret_stat);

	if (!r && is_played(fd))
		ret_stat->st_size = (off_t)(PAGES * PAGE);
	return r;
}

static int fcntl_played(int fd, int command, long argument)
{
	if (command != F_GET_SEALS || !is_played(fd))
		return played.table.fcntl(fd, command, argument);
	errno = EINVAL;
	return -1;
}

/* A file whose first @there pages can be had. */
static int play(uint64_t there)
{
	struct stat st;
	int fd = memfd_create("played", MFD_CLOEXEC);

	CHECK_FATAL(fd >= 0 && !ftruncate(fd, (off_t)(there * PAGE)) && !fstat(fd, &st));
	played.table = sys_table;
	played.dev = st.st_dev;
	played.ino = st.st_ino;
	sys_table.fstatfs = statfs_played;
	sys_table.lseek = lseek_played;
	sys_table.fstat = fstat_played;
	sys_table.fcntl = fcntl_played;
	return fd;
}

static void stop(int fd)
{
	sys_table = played.table;
	close(fd);
}

static void check_no_map(struct hm_buffer *buffer)
{
	struct hm_map *map = UNTOUCHED;

	test_forget_text();
	CHECK_ERROR(-EIO, hm_map_create(buffer, NULL, &map));
	CHECK(strstr(hm_errmsg(), "SIGBUS"));
	CHECK(map == UNTOUCHED);
}

/* Known when it is imported, where the first page is not there. */
static void import(void)
{
	static const uint64_t there[] = { 0, 1, 300, PAGES - 1 };
	struct hm_buffer *buffer;
	struct hm_map *map;
	size_t i;
	int fd;
	AUTO(hm_device) *device = rig_device("host");

	for (i = 0; i < ARRAY_SIZE(there); i++) {
		fd = play(there[i]);
		buffer = NULL;
		test_forget_text();
		if (there[i]) {
			CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &buffer));
			check_no_map(buffer);
			hm_buffer_unref(buffer);
		} else {
			CHECK_ERROR(-EIO, hm_buffer_import(device, fd, NULL, &buffer));
			CHECK(strstr(hm_errmsg(), "SIGBUS") && !buffer);
		}
		stop(fd);
	}
	fd = play(PAGES);
	CHECK_OK_FATAL(hm_buffer_import(device, fd, NULL, &buffer));
	CHECK_OK_FATAL(hm_map_create(buffer, NULL, &map));
	CHECK(is_zero(hm_map_address(map), 0, hm_map_length(map)));
	hm_map_unref(map);
	hm_buffer_unref(buffer);
	stop(fd);
}

/* The sender alone says that pages have to be there. */
static void receive(void)
{
	struct hm_buffer *buffer;
	AUTO(scene) scene = scene_begin(SOCK_STREAM);
	int fd = play(2);

	scene.fds[SHARE_FD_OBJECT] = fd;
	scene.message.memory = 0;
	scene.message.map_flags = HM_SEGMENT_PRESENT;
	CHECK_EQUAL(scene_deliver(&scene, &buffer), 0);
	check_no_map(buffer);
	hm_buffer_unref(buffer);
	stop(fd);
}

/* ---- huge pages ---- */

/* Without the pages that its size says, of a pool that is empty on most machines. */
static int huge_memfd(int seals)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

	if (fd < 0) {
		test_skip("kernel", "no huge pages: CONFIG_HUGETLBFS");
		return -1;
	}
	CHECK_FATAL(!ftruncate(fd, 4 * MIB(2)) && !fcntl(fd, F_ADD_SEALS, seals));
	return fd;
}

static void be_huge(struct scene *scene, int fd)
{
	struct stat st;

	CHECK_FATAL(!fstat(fd, &st));
	scene->fds[SHARE_FD_OBJECT] = fd;
	scene->message.memory |= MEMORY_HUGE;
	scene->message.page_size = (uint64_t)st.st_blksize;
	scene->message.max_size = (uint64_t)st.st_size;
	scene->message.access = HM_READ;
}

/* A writer may punch holes in them: a touch of one is a SIGBUS, if the pool is empty. */
static void huge_pages(void)
{
	static const int seals[] = { F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE };
	struct hm_buffer *buffer;
	size_t i;
	int fd, r;

	for (i = 0; i < 2; i++) {
		fd = huge_memfd(seals[i]);
		if (fd < 0)
			return;
		AUTO(scene) scene = scene_begin(SOCK_STREAM);
		be_huge(&scene, fd);
		r = scene_deliver(&scene, &buffer);
		/* With its pages taken from a pool that had some it is as any other. */
		CHECK(r == -EPERM || (!r && i));
		CHECK(r != -EPERM ||
		      strstr(scene_text, i ? "vm.nr_hugepages" : "HM_EXPORT_READ_ONLY"));
		if (!r) {
			AUTO(hm_map) *map = rig_map(buffer, NULL);
			CHECK(is_zero(hm_map_address(map), 0, hm_map_length(map)));
			hm_buffer_unref(buffer);
		}
		close(fd);
	}
}

/*
 * The library copies into a shadow without a guard: bytes that can't be read are an error.
 * Imported pages are kept from shrinking, but may have holes.
 */
static void huge_shadow(void)
{
	int fd = huge_memfd(F_SEAL_SHRINK), r;

	if (fd < 0)
		return;
	AUTO(hm_device) *device = rig_device("host");
	AUTO(hm_buffer) *buffer = rig_import(device, fd, NULL);
	r = hm_buffer_set_loss(buffer, DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW));
	/* A pool that has pages gives them. */
	CHECK(!r || r == -EIO);
	CHECK(!r || strstr(hm_errmsg(), "can't be read"));
	close(fd);
}

static const struct test tests[] = {
	{ .name = "import", .run = import },
	{ .name = "receive", .run = receive },
	{ .name = "huge_pages", .run = huge_pages },
	{ .name = "huge_shadow", .run = huge_shadow },
	{ .name = NULL },
};

TEST_MAIN(harness_main, "share_pages", tests)
