// SPDX-License-Identifier: MIT
/* hm_device_recover() of replaced blocks: mistakes that it must not make. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "accel/accel_support.h"
#include "core/core.h"
#include "lib/inject.h"
#include "base/sys.h"
#include "fault/victim.h"

#define AT (2 * REPAIR_BLOCK - PAGE)

static void store_behind(const struct victim *victim, uint64_t offset, unsigned char byte)
{
	CHECK_FATAL(pwrite(victim->fd, &byte, 1, (off_t)offset) == 1);
}

/* ---- sizes ---- */

/* Bytes hidden by a shrink come back by a growth, and are the buffer's then. */
static void shrunk_to(uint64_t size)
{
	unsigned char byte = 0;
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	(void)victim.base[REPAIR_BLOCK + PAGE];
	victim.base[AT] = 0xaa;
	victim_cut(&victim, VICTIM_SIZE);
	CHECK_OK(hm_buffer_resize(victim.buffer, size, 0));
	CHECK_EQUAL(victim_recover(&victim, HM_RECOVER_SHADOWED).error, 0);
	CHECK_OK(hm_buffer_resize(victim.buffer, VICTIM_SIZE, 0));
	CHECK_OK(victim_bracket(&victim, AT, HM_READ));
	store_behind(&victim, AT, 0x55);
	CHECK_EQUAL(victim.base[AT], 0x55);
	CHECK_OK(hm_copy_out(&byte, (char *)victim.base + AT, 1, NULL));
	CHECK_EQUAL(byte, 0x55);
}

static void shrunk(void)
{
	shrunk_to(REPAIR_BLOCK);
	shrunk_to(REPAIR_BLOCK + 16 * PAGE);
}

/* ---- lost bytes are reported ---- */

/* The end of a bracket that makes another shadow can't have had its own bytes from the old one. */
static void unreadable_end(void)
{
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, 2 * REPAIR_BLOCK);
	(void)victim.base[2 * REPAIR_BLOCK];
	CHECK_OK(hm_map_begin_cpu(victim.map, REPAIR_BLOCK, PAGE, HM_READ | HM_WRITE));
	memset((void *)(victim.base + REPAIR_BLOCK), 0x77, PAGE);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_ERROR(-EIO, hm_map_end_cpu(victim.map, REPAIR_BLOCK, PAGE, HM_READ | HM_WRITE));
	/* Asked once or twice, of all or of a part. */
	CHECK_ERROR(-EIO, hm_buffer_shadow(victim.buffer, 0, VICTIM_SIZE));
	CHECK_ERROR(-EIO, hm_buffer_shadow(victim.buffer, 0, VICTIM_SIZE));
	CHECK_OK(hm_buffer_shadow(victim.buffer, 0, REPAIR_BLOCK));
}

/* A page that fails: -EIO until the file gives it up, and zeros from then on. */
static struct {
	int fd;
	bool broken;
	unsigned int refusals;
	ssize_t (*pread)(int fd, void *to, size_t length, off_t offset);
	int (*fallocate)(int fd, int mode, off_t offset, off_t length);
} failing;

static ssize_t failing_pread(int fd, void *to, size_t length, off_t offset)
{
	if (fd != failing.fd || !failing.broken || offset != REPAIR_BLOCK)
		return failing.pread(fd, to, length, offset);
	errno = EIO;
	return -1;
}

static int failing_fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (fd == failing.fd && !mode && failing.refusals) {
		failing.refusals--;
		errno = ENOSPC;
		return -1;
	}
	failing.broken = failing.broken && !(mode & FALLOC_FL_PUNCH_HOLE);
	return failing.fallocate(fd, mode, offset, length);
}

/* One page is @broken, and the first new pages are refused. */
static void fail_pages(const struct victim *victim, bool broken)
{
	failing.fd = victim->buffer->segment[0].fd;
	failing.broken = broken;
	failing.refusals = 1;
	failing.pread = sys_table.pread;
	failing.fallocate = sys_table.fallocate;
	sys_table.pread = failing_pread;
	sys_table.fallocate = failing_fallocate;
}

static void fail_no_more(void)
{
	sys_table.pread = failing.pread;
	sys_table.fallocate = failing.fallocate;
}

static void half_mended(void)
{
	struct hm_recover_info info;
	struct hm_map *other = NULL;
	unsigned char *bytes;
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	(void)victim.base[REPAIR_BLOCK];
	victim_cut(&victim, VICTIM_SIZE);
	bytes = mmap(NULL, VICTIM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, victim.fd, 0);
	CHECK_FATAL(bytes != MAP_FAILED);
	pattern_write(bytes, REPAIR_BLOCK, VICTIM_SIZE, 1);
	munmap(bytes, VICTIM_SIZE);
	fail_pages(&victim, true);
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.error, -ENOMEM);
	CHECK(text_has("another recovery"));
	CHECK_ERROR(-EIO, victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	/* Calls meanwhile get an error, and take no byte for the buffer's. */
	CHECK_ERROR(-EIO, hm_map_create(victim.buffer, NULL, &other));
	CHECK_OK(victim_bracket(&victim, 0, HM_READ | HM_WRITE));
	CHECK_OK(hm_buffer_shadow(victim.buffer, 0, VICTIM_SIZE));
	/* The recovery that was begun is not forgotten. */
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.error, 0);
	CHECK_EQUAL(info.bytes_shadow, PAGE);
	fail_no_more();
	CHECK(victim_holds(&victim, 0, VICTIM_SIZE, 1));
}

/* Another map of the buffer shows the same pages, and hears of their loss and recovery. */
static void other_maps(void)
{
	struct hm_recover_info info;
	AUTO(victim) victim = victim_open_host();
	AUTO(hm_map) *other = rig_map(victim.buffer, NULL);

	victim_choose(&victim, HM_LOSS_RECREATE, 0);
	/* Work of its own goes on elsewhere: it is not waited for. */
	CHECK_OK(hm_map_begin_cpu(other, 0, PAGE, HM_READ));
	victim_cut(&victim, 2 * REPAIR_BLOCK);
	(void)victim.base[2 * REPAIR_BLOCK];
	fail_pages(&victim, false);
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, -ENOMEM);
	CHECK_ERROR(-EIO, hm_map_begin_cpu(other, 2 * REPAIR_BLOCK, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(other, 0, PAGE, HM_READ));
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, 0);
	CHECK_EQUAL(info.maps_back, 2);
	CHECK_OK(hm_map_begin_cpu(other, 2 * REPAIR_BLOCK, PAGE, HM_READ));
	CHECK_OK(hm_map_end_cpu(other, 2 * REPAIR_BLOCK, PAGE, HM_READ));
	fail_no_more();
}

/* A shrink leaves less to mend. */
static void mended_less(void)
{
	struct hm_recover_info info;
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	(void)victim.base[REPAIR_BLOCK];
	fail_pages(&victim, false);
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.error, -ENOMEM);
	fail_no_more();
	CHECK_OK(hm_buffer_resize(victim.buffer, REPAIR_BLOCK + 4 * PAGE, 0));
	CHECK_OK(hm_buffer_resize(victim.buffer, VICTIM_SIZE, HM_GROW_APPEND));
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.error, 0);
	CHECK(victim_holds(&victim, 0, REPAIR_BLOCK + 4 * PAGE, 1));
	CHECK(is_zero((void *)victim.base, REPAIR_BLOCK + 4 * PAGE, VICTIM_SIZE));
}

/* A shadow in use has bytes that a shrink cut off, and their place shows zeros. */
static void cut_off(void)
{
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, 2 * REPAIR_BLOCK);
	(void)victim.base[2 * REPAIR_BLOCK];
	victim_cut(&victim, VICTIM_SIZE);
	CHECK_OK(hm_buffer_resize(victim.buffer, REPAIR_BLOCK, 0));
	CHECK_OK(hm_buffer_resize(victim.buffer, VICTIM_SIZE, 0));
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK(is_zero((void *)victim.base, REPAIR_BLOCK, 2 * REPAIR_BLOCK));
	CHECK_EQUAL(buffer_info(victim.buffer).lost & HM_LOST_STALE, 0);
}

/* ---- other buffers ---- */

static struct {
	struct hm_buffer *buffer;
	struct hm_map *map;
	_Atomic bool over;
	_Atomic uint32_t copies;
} healthy;

static void *copy_healthy(void *user)
{
	static char bytes[256 * 1024];

	(void)user;
	while (!healthy.over) {
		CHECK_OK(hm_copy_out(bytes, hm_map_address(healthy.map), sizeof(bytes), NULL));
		healthy.copies++;
	}
	return NULL;
}

/* Copies of a buffer that has lost nothing, on the same device. */
static void others_copies(void)
{
	const struct hm_buffer_desc desc = { .struct_size = sizeof(desc),
					     .size = REPAIR_BLOCK };
	pthread_t thread;
	unsigned int i;
	AUTO(victim) victim = victim_open_host();

	victim.shared = true;
	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	CHECK_OK_FATAL(hm_buffer_create(victim.device, &desc, &healthy.buffer));
	CHECK_OK_FATAL(hm_map_create(healthy.buffer, NULL, &healthy.map));
	healthy.over = false;
	healthy.copies = 0;
	CHECK_FATAL(!pthread_create(&thread, NULL, copy_healthy, NULL));
	for (i = 0; i < 20 || healthy.copies < 20; i++) {
		victim_cut(&victim, REPAIR_BLOCK);
		(void)victim.base[REPAIR_BLOCK];
		victim_recover(&victim, HM_RECOVER_SHADOWED);
		usleep(500);
	}
	healthy.over = true;
	pthread_join(thread, NULL);
	hm_map_unref(healthy.map);
	hm_buffer_unref(healthy.buffer);
}

/* Each time something is mapped there, it may not be stored to. */
static struct {
	volatile unsigned char *page;
	unsigned int looks;
	void *(*mmap)(void *address, size_t length, int prot, int flags, int fd, off_t offset);
} guarded;

static void *look_mmap(void *address, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *mapped = guarded.mmap(address, length, prot, flags, fd, offset);
	volatile unsigned char *from = mapped;

	if (mapped != MAP_FAILED && from <= guarded.page && from + length > guarded.page) {
		guarded.looks++;
		CHECK_EQUAL(test_write_signal((void *)guarded.page), SIGSEGV);
	}
	return mapped;
}

static void rights(void)
{
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	CHECK_OK(hm_map_protect(victim.map, REPAIR_BLOCK, PAGE, HM_READ));
	victim_cut(&victim, REPAIR_BLOCK);
	(void)victim.base[REPAIR_BLOCK];
	victim_cut(&victim, VICTIM_SIZE);
	guarded.page = victim.base + REPAIR_BLOCK;
	guarded.looks = 0;
	guarded.mmap = sys_table.mmap;
	sys_table.mmap = look_mmap;
	CHECK_EQUAL(victim_recover(&victim, HM_RECOVER_SHADOWED).error, 0);
	sys_table.mmap = guarded.mmap;
	CHECK(guarded.looks > 0);
}

/* ---- errors ---- */

static void errors_pass(void)
{
	struct hm_recover_info info;
	uint32_t before;
	AUTO(victim) victim = victim_open_host();

	victim.salt = 4;
	victim.answer = -EAGAIN;
	victim_choose(&victim, HM_LOSS_RECREATE, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 0);
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, -EAGAIN);
	CHECK(text_has("refill"));
	CHECK(victim_was_told(&victim, "pfl"));
	/* A failed recovery makes no pointer old. */
	before = map_info(victim.map, 0).generation;
	victim.answer = 0;
	inject_always("mmap", EAGAIN);
	info = victim_recover(&victim, 0);
	inject_disarm();
	CHECK(info.error < 0);
	CHECK_EQUAL(map_info(victim.map, 0).generation, before);
}

/* ---- one event after the other ---- */

static struct {
	struct victim victim;
	uint32_t event; /* whose callback waits */
	_Atomic bool in, go;
	char calls[32];
} slow;

static void on_slow(struct hm_buffer *buffer, enum hm_loss_event event, void *user)
{
	static const char begins[] = " trlp", ends[] = " TRLP";

	(void)buffer, (void)user;
	slow.calls[strlen(slow.calls)] = begins[event];
	if (event == slow.event && !slow.go) {
		slow.in = true;
		while (!slow.go)
			usleep(1000);
	}
	slow.calls[strlen(slow.calls)] = ends[event];
}

static void open_slow(uint32_t event)
{
	memset(&slow, 0, sizeof(slow));
	slow.event = event;
	slow.victim = victim_open_file();
	CHECK_OK_FATAL(hm_buffer_set_loss(slow.victim.buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW,
					       .lost = on_slow)));
}

static void *find_out(void *user)
{
	if (user)
		victim_recover(&slow.victim, HM_RECOVER_SHADOWED);
	else
		(void)map_info(slow.victim.map, 0);
	return NULL;
}

static void lose_block(uint64_t offset)
{
	victim_cut(&slow.victim, offset);
	(void)slow.victim.base[offset];
}

static void in_turn(void)
{
	pthread_t thread;
	uint32_t before;

	open_slow(HM_LOSS_PART);
	lose_block(2 * REPAIR_BLOCK);
	CHECK_FATAL(!pthread_create(&thread, NULL, find_out, NULL));
	while (!slow.in)
		usleep(1000);
	/* A loss meanwhile is reported afterwards, and makes one generation. */
	lose_block(REPAIR_BLOCK);
	before = map_info(slow.victim.map, 0).generation;
	CHECK_EQUAL(map_info(slow.victim.map, 0).generation, before);
	slow.go = true;
	pthread_join(thread, NULL);
	CHECK_EQUAL(map_info(slow.victim.map, 0).generation, before + 1);
	CHECK_EQUAL(strcmp(slow.calls, "pPpP"), 0);
	victim_close(&slow.victim);

	open_slow(HM_LOSS_RECOVERED);
	lose_block(2 * REPAIR_BLOCK);
	victim_cut(&slow.victim, VICTIM_SIZE);
	CHECK_FATAL(!pthread_create(&thread, NULL, find_out, &slow));
	while (!slow.in)
		usleep(1000);
	lose_block(REPAIR_BLOCK);
	(void)map_info(slow.victim.map, 0);
	slow.go = true;
	pthread_join(thread, NULL);
	(void)map_info(slow.victim.map, 0);
	CHECK_EQUAL(strcmp(slow.calls, "pPrRpP"), 0);
	victim_close(&slow.victim);
}

static const struct test tests[] = {
	{ "host.shrunk", shrunk, 0, 0 },
	{ "file.unreadable_end", unreadable_end, 0, 0 },
	{ "host.half_mended", half_mended, 0, 0 },
	{ "host.other_maps", other_maps, 0, 0 },
	{ "host.mended_less", mended_less, 0, 0 },
	{ "host.cut_off", cut_off, 0, 0 },
	{ "host.others_copies", others_copies, 60, 0 },
	{ "file.rights", rights, 0, 0 },
	{ "host.errors_pass", errors_pass, 0, 0 },
	{ "file.in_turn", in_turn, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "restored", tests)
