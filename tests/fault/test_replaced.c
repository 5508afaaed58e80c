// SPDX-License-Identifier: MIT
/* Blocks that the handler has replaced: the reports, the work that goes on, and the recovery. */
#include <errno.h>
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
#include "fault/repair.h"
#include "lib/sim_devices.h"
#include "fault/victim.h"

/* ---- told ---- */

static void by_brackets(void)
{
	uint32_t before;
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_ZERO, 0);
	before = map_info(victim.map, 0).generation;
	CHECK_OK(hm_map_begin_cpu(victim.map, 0, VICTIM_SIZE, HM_READ));
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 0);
	/* The handler itself makes no callback. */
	CHECK(victim_was_told(&victim, ""));
	CHECK_ERROR(-EIO, hm_map_end_cpu(victim.map, 0, VICTIM_SIZE, HM_READ));
	CHECK(text_has("bytes were lost"));
	CHECK(victim_was_told(&victim, "p"));
	CHECK_EQUAL(map_info(victim.map, 0).generation, before + 1);
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART);
	CHECK_ERROR(-EIO, victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	CHECK_OK(victim_bracket(&victim, 0, HM_READ));
	CHECK(victim_was_told(&victim, ""));
	/* Once more, and once only: of another block. */
	CHECK_EQUAL(victim.base[2 * REPAIR_BLOCK], 0);
	CHECK_ERROR(-EIO, victim_bracket(&victim, 2 * REPAIR_BLOCK, HM_READ));
	CHECK(victim_was_told(&victim, "p"));
	CHECK_EQUAL(map_info(victim.map, 0).generation, before + 2);
}

static void by_others(void)
{
	struct victim victim;
	uint32_t before;
	char byte;

	/* Without a policy the generation alone tells. */
	victim = victim_open_file();
	before = map_info(victim.map, 0).generation;
	victim_cut(&victim, 0);
	CHECK_EQUAL(victim.base[0], 0);
	CHECK_EQUAL(map_info(victim.map, 0).generation, before + 1);
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART);
	victim_choose(&victim, HM_LOSS_ZERO, 0);
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 0);
	CHECK_ERROR(-EIO, hm_copy_out(&byte, (char *)victim.base, 1, NULL));
	CHECK(victim_was_told(&victim, "p"));
	CHECK_EQUAL(victim.base[2 * REPAIR_BLOCK], 0);
	(void)buffer_info(victim.buffer);
	CHECK(victim_was_told(&victim, "p"));
	victim_close(&victim);

	victim = victim_open_file();
	victim_choose(&victim, HM_LOSS_ZERO, 0);
	victim_cut(&victim, 0);
	CHECK_EQUAL(victim.base[0], 0);
	CHECK_ERROR(-EIO, hm_map_sync(victim.map, 0, VICTIM_SIZE, 0));
	CHECK(victim_was_told(&victim, "p"));
	victim_close(&victim);
}

static void by_fences(void)
{
	struct hm_fence *fence;
	struct accel_rig rig;
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_ZERO, 0);
	accel_rig_open(&rig, "cpu", 0, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_OK_FATAL(hm_launch(rig.queue, rig.kernel[FILL], VICTIM_SIZE / 4, &fence,
				 HM_OUT((void *)victim.base), HM_U32(6)));
	CHECK_ERROR(-EIO, hm_fence_wait(fence, UINT64_MAX));
	CHECK(text_has("lost"));
	CHECK(victim_was_told(&victim, "p"));
	hm_fence_unref(fence);
	accel_rig_close(&rig);
}

/* ---- the intact part goes on ---- */

static void goes_on(void)
{
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK(victim_holds(&victim, REPAIR_BLOCK, 2 * REPAIR_BLOCK, 1));
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART | HM_LOST_SEALED);
	/* The other part's brackets succeed, and another shadow has their bytes. */
	CHECK_OK(hm_map_begin_cpu(victim.map, PAGE, PAGE, HM_READ | HM_WRITE));
	pattern_write((char *)victim.base, PAGE, 2 * PAGE, 2);
	CHECK_OK(hm_map_end_cpu(victim.map, PAGE, PAGE, HM_READ | HM_WRITE));
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART);
	CHECK_OK(hm_buffer_shadow(victim.buffer, 0, PAGE));
	/* Replaced blocks stay, with their stores, whatever the new shadow has. */
	victim.base[REPAIR_BLOCK] = 77;
	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 77);
	victim_cut(&victim, 0);
	CHECK(victim_holds(&victim, 0, PAGE, 1));
	CHECK(victim_holds(&victim, PAGE, 2 * PAGE, 2));
	CHECK(victim_holds(&victim, 2 * PAGE, REPAIR_BLOCK, 1));
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 77);
	/* For bytes lost before, the new shadow has those of the old one. */
	CHECK(victim_holds(&victim, 2 * REPAIR_BLOCK, VICTIM_SIZE, 1));
}

/* A shadow that can't be had is an error of the bracket, and may be had later. */
static void no_memory(void)
{
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK(victim_holds(&victim, REPAIR_BLOCK, 2 * REPAIR_BLOCK, 1));
	inject_always("fallocate", ENOSPC);
	CHECK_ERROR(-ENOMEM, victim_bracket(&victim, 0, HM_READ | HM_WRITE));
	inject_disarm();
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART | HM_LOST_SEALED);
	CHECK(victim_holds(&victim, 2 * REPAIR_BLOCK, VICTIM_SIZE, 1));
	CHECK_OK(victim_bracket(&victim, 0, HM_READ | HM_WRITE));
	CHECK_EQUAL(buffer_info(victim.buffer).lost, HM_LOST_PART);
}

/* ---- lost bytes come back ---- */

static void grown_again(void)
{
	struct hm_recover_info info;
	uint32_t before;
	char *fresh;
	AUTO(victim) victim = victim_open_file();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	CHECK_OK(hm_map_protect(victim.map, REPAIR_BLOCK, PAGE, HM_READ));
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_EQUAL(victim.base[VICTIM_SIZE - 1], victim.base[VICTIM_SIZE - 1]);
	victim.base[REPAIR_BLOCK + PAGE] = 77;
	/* Cut still: the replaced block stays, and the application is told. */
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.buffers, 1);
	CHECK_EQUAL(info.buffers_left, 1);
	CHECK_EQUAL(info.buffers_back, 0);
	CHECK_EQUAL(info.error, -EIO);
	CHECK(text_has("still can't be read"));
	CHECK(victim_was_told(&victim, "pl"));
	CHECK_EQUAL(victim.base[REPAIR_BLOCK + PAGE], 77);
	CHECK_ERROR(-EIO, victim_bracket(&victim, REPAIR_BLOCK, HM_READ));

	victim_cut(&victim, VICTIM_SIZE);
	fresh = mmap(NULL, VICTIM_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, victim.fd, 0);
	CHECK_FATAL(fresh != MAP_FAILED);
	pattern_write(fresh, 0, VICTIM_SIZE, 5);
	before = map_info(victim.map, 0).generation;
	/* Not asked for. */
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.buffers, 1);
	CHECK_EQUAL(info.buffers_left + info.buffers_back, 0);
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.buffers, 1);
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK_EQUAL(info.maps_back, 1);
	CHECK_EQUAL(info.error, 0);
	CHECK(victim_was_told(&victim, "r"));
	CHECK_EQUAL(map_info(victim.map, 0).generation, before + 1);
	CHECK_EQUAL(buffer_info(victim.buffer).lost & HM_LOST_PART, 0);
	CHECK_EQUAL(hm_map_address(victim.map) == victim.base, true);
	CHECK(victim_holds(&victim, 0, VICTIM_SIZE, 5));
	CHECK_OK(victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	/* One page of memory, and the rights it had. */
	fresh[REPAIR_BLOCK + 3] = 9;
	CHECK_EQUAL(victim.base[REPAIR_BLOCK + 3], 9);
	CHECK_EQUAL(test_write_signal((void *)(victim.base + REPAIR_BLOCK)), SIGSEGV);
	CHECK_EQUAL(test_write_signal((void *)(victim.base + REPAIR_BLOCK + PAGE)), 0);
	/* And can be lost again. */
	victim_cut(&victim, 0);
	CHECK_EQUAL(victim.base[PAGE], victim.base[PAGE]);
	CHECK_ERROR(-EIO, victim_bracket(&victim, 0, HM_READ));
	CHECK(victim_was_told(&victim, "p"));
	munmap(fresh, VICTIM_SIZE);
}

/* Memory of the library's gets new pages, with the shadow's bytes, or the callback's, or zeros. */
static void mended(void)
{
	static const struct {
		uint32_t policy, flags, salt, found;
		const char *calls;
	} ways[] = {
		{ HM_LOSS_SHADOW, 0, 0, 1, "pr" },
		{ HM_LOSS_RECREATE, HM_LOSS_WITH_SHADOW, 0, 1, "pr" },
		{ HM_LOSS_RECREATE, 0, 4, 4, "pfffr" },
		{ HM_LOSS_RECREATE, 0, 0, 0, "pr" },
	};
	const uint64_t kept = REPAIR_BLOCK + 2 * PAGE, lost = VICTIM_SIZE - kept;
	struct hm_recover_info info;
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		AUTO(victim) victim = victim_open_host();
		victim.salt = ways[i].salt;
		victim_choose(&victim, ways[i].policy, ways[i].flags);
		victim_cut(&victim, kept);
		(void)victim.base[REPAIR_BLOCK + 5 * PAGE];
		(void)victim.base[2 * REPAIR_BLOCK];
		info = victim_recover(&victim, HM_RECOVER_SHADOWED);
		CHECK_EQUAL(info.buffers_back, 1);
		CHECK_EQUAL(info.error, 0);
		CHECK_EQUAL(info.bytes_shadow,
			    ways[i].flags || ways[i].policy == HM_LOSS_SHADOW ? lost : 0);
		CHECK_EQUAL(info.bytes_refilled, ways[i].salt ? lost : 0);
		CHECK_EQUAL(info.bytes_zero, ways[i].found ? 0 : lost);
		CHECK(victim_was_told(&victim, ways[i].calls));
		/* Intact bytes are as before. */
		CHECK(victim_holds(&victim, 0, kept, 1));
		CHECK(ways[i].found ? victim_holds(&victim, kept, VICTIM_SIZE, ways[i].found) :
				      is_zero((void *)victim.base, kept, VICTIM_SIZE));
		CHECK_OK(victim_bracket(&victim, REPAIR_BLOCK, HM_READ | HM_WRITE));
		CHECK_OK(victim_bracket(&victim, 2 * REPAIR_BLOCK, HM_READ | HM_WRITE));
	}
}

/* A callback that refuses leaves all as it was. */
static void refused(void)
{
	struct hm_recover_info info;
	AUTO(victim) victim = victim_open_host();

	victim.salt = 4;
	victim.answer = -ENODATA;
	victim_choose(&victim, HM_LOSS_RECREATE, 0);
	victim_cut(&victim, REPAIR_BLOCK);
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 0);
	victim.base[REPAIR_BLOCK] = 8;
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, -ENODATA);
	CHECK(text_has("refill"));
	CHECK(victim_was_told(&victim, "pfl"));
	CHECK_EQUAL(victim.base[REPAIR_BLOCK], 8);
	CHECK_ERROR(-EIO, victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	victim.answer = 0;
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.buffers_back, 1);
	CHECK(victim_holds(&victim, REPAIR_BLOCK, 2 * REPAIR_BLOCK, 4));
}

/* A device's memory that is in reach again. */
static void in_reach_again(void *user)
{
	struct hm_recover_info info;
	struct victim victim = { .fd = -1 };
	uint32_t handle;

	(void)user;
	setenv("HETMAP_SOFT", "vram_mb=16 system_mb=16 test=1", 1);
	AUTO(rig_handler) handler = rig_handler(0);
	CHECK_OK_FATAL(hm_device_open("soft:0", &victim.device));
	victim.buffer = sim_make(victim.device, VICTIM_SIZE, 0, &victim.map);
	victim.base = hm_map_address(victim.map);
	pattern_write((void *)victim.base, 0, VICTIM_SIZE, 1);
	CHECK_OK(hm_sim_buffer(victim.buffer, &handle));
	victim_choose(&victim, HM_LOSS_RECREATE, 0);
	CHECK_OK(sim_inject(victim.device, HETSIM_INJECT_SIGBUS, handle, PAGE));
	CHECK_EQUAL(victim.base[PAGE], 0);
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, -EIO);
	CHECK(victim_was_told(&victim, "pl"));
	/* Another page is hurt: the one of before can be had. */
	CHECK_OK(sim_inject(victim.device, HETSIM_INJECT_SIGBUS, handle, 2 * REPAIR_BLOCK));
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, 0);
	CHECK_EQUAL(info.maps_back, 1);
	CHECK(victim_was_told(&victim, "r"));
	CHECK(victim_holds(&victim, 0, 2 * REPAIR_BLOCK, 1));
	CHECK_OK(victim_bracket(&victim, PAGE, HM_READ | HM_WRITE));
	/* And the hurt one is as it is. */
	CHECK_EQUAL(victim.base[2 * REPAIR_BLOCK], 0);
	CHECK_ERROR(-EIO, victim_bracket(&victim, 2 * REPAIR_BLOCK, HM_READ));
	hm_map_unref(victim.map);
	hm_buffer_unref(victim.buffer);
	hm_device_unref(victim.device);
}

static void in_reach(void)
{
	CHECK_EQUAL(test_fork(in_reach_again, NULL), 0);
}

/* ---- beside other threads ---- */

#define ROUNDS 200
#define WORD (REPAIR_BLOCK + 3 * PAGE)

/* The file's word is @published, and the file was not cut since; 0: it may have been. */
static struct {
	struct victim victim;
	_Atomic uint32_t published, reads, failures;
	_Atomic bool over;
} beside;

/* TSan takes pages that a handler maps for a store of that thread's. */
static __attribute__((no_sanitize("thread"), noinline)) uint32_t read_word(void)
{
	return *(volatile uint32_t *)(beside.victim.base + WORD);
}

static int read_bracketed(uint32_t *ret_word)
{
	int r = hm_map_begin_cpu(beside.victim.map, WORD, sizeof(uint32_t), HM_READ);

	if (r)
		return r;
	*ret_word = read_word();
	return hm_map_end_cpu(beside.victim.map, WORD, sizeof(uint32_t), HM_READ);
}

static int read_copied(uint32_t *ret_word)
{
	return hm_copy_out(ret_word, (char *)beside.victim.base + WORD, sizeof(*ret_word),
			   NULL);
}

/* A successful read gives the file's word, not the shadow's, and no older one. */
static void *read_always(void *user)
{
	int (*read_one)(uint32_t * ret_word) = user ? read_copied : read_bracketed;
	uint32_t before, word;
	int r;

	while (!beside.over) {
		before = beside.published;
		word = 0;
		r = read_one(&word);
		if (r || !before || beside.published != before) {
			beside.failures += r == -EIO;
			continue;
		}
		beside.reads++;
		if (word != before)
			CHECK_EQUAL(word, before);
	}
	return NULL;
}

/* For a moment, most times until a reader has touched the bytes cut off. */
static void cut_under_readers(void)
{
	uint64_t before = handler_info().repaired;
	unsigned int i;

	victim_cut(&beside.victim, REPAIR_BLOCK);
	for (i = 0; i < 20 && handler_info().repaired == before; i++)
		usleep(500);
	victim_cut(&beside.victim, VICTIM_SIZE);
}

static void beside_readers(void)
{
	unsigned int rounds = test_is_slow() ? ROUNDS / 4 : ROUNDS;
	struct hm_recover_info info;
	pthread_t threads[2];
	uint32_t i, n_back = 0;
	char copied;

	memset(&beside, 0, sizeof(beside));
	beside.victim = victim_open_file();
	beside.victim.shared = true;
	victim_choose(&beside.victim, HM_LOSS_SHADOW, 0);
	for (i = 0; i < 2; i++)
		CHECK_FATAL(
			!pthread_create(&threads[i], NULL, read_always, i ? &copied : NULL));
	for (i = 1; i <= rounds; i++) {
		beside.published = 0;
		cut_under_readers();
		CHECK_FATAL(pwrite(beside.victim.fd, &i, sizeof(i), WORD) == sizeof(i));
		beside.published = i;
		usleep(500);
		info = victim_recover(&beside.victim, HM_RECOVER_SHADOWED);
		CHECK_EQUAL(info.error, 0);
		n_back += info.maps_back;
		usleep(500);
	}
	beside.over = true;
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	/* A fault of before may have been late. */
	victim_recover(&beside.victim, HM_RECOVER_SHADOWED);
	/* Or nothing was seen. */
	CHECK(n_back > 0);
	CHECK(beside.reads > 0);
	CHECK(beside.failures > 0);
	CHECK_EQUAL(read_word(), rounds);
	victim_close(&beside.victim);
}

/* A bracket that is open while blocks come back, and ends a moment later. */
static struct {
	struct victim *victim;
	uint64_t offset;
	pthread_t thread;
} open_one;

static void *end_later(void *user)
{
	(void)user;
	usleep(100000);
	CHECK_ERROR(-EIO, hm_map_end_cpu(open_one.victim->map, open_one.offset, PAGE, HM_READ));
	return NULL;
}

/* The bracket has read a replaced page. */
static void read_replaced(struct victim *victim, uint64_t offset, uint64_t size)
{
	open_one.victim = victim;
	open_one.offset = offset;
	CHECK_OK(hm_map_begin_cpu(victim->map, offset, PAGE, HM_READ));
	victim_cut(victim, size);
	CHECK_EQUAL(victim->base[offset], 0);
	CHECK_FATAL(!pthread_create(&open_one.thread, NULL, end_later, NULL));
}

static void waits_for_brackets(void)
{
	struct hm_recover_info info;
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_RECREATE, 0);
	read_replaced(&victim, 2 * REPAIR_BLOCK, 2 * REPAIR_BLOCK);
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.buffers_back, 1);
	pthread_join(open_one.thread, NULL);
}

/* Replaces a block while other ones come back, which is waited for, too. */
static int replace_more(struct hm_buffer *buffer, void *bytes, uint64_t offset, uint64_t length,
			void *user)
{
	struct victim *victim = user;

	(void)buffer, (void)bytes, (void)offset, (void)length;
	if (!open_one.victim)
		read_replaced(victim, PAGE, 0);
	return 0;
}

static void waits_for_more(void)
{
	struct victim victim;
	const struct hm_loss_desc desc = {
		.struct_size = sizeof(desc),
		.policy = HM_LOSS_RECREATE,
		.refill = replace_more,
		.user = &victim,
	};
	struct hm_recover_info info;

	victim = victim_open_host();
	open_one.victim = NULL;
	CHECK_OK_FATAL(hm_buffer_set_loss(victim.buffer, &desc));
	victim_cut(&victim, 2 * REPAIR_BLOCK);
	CHECK_EQUAL(victim.base[2 * REPAIR_BLOCK], 0);
	info = victim_recover(&victim, 0);
	CHECK_EQUAL(info.error, 0);
	CHECK_FATAL(open_one.victim != NULL);
	pthread_join(open_one.thread, NULL);
	CHECK_OK(victim_bracket(&victim, PAGE, HM_READ));
	CHECK_OK(victim_bracket(&victim, 2 * REPAIR_BLOCK, HM_READ));
	victim_close(&victim);
}

/* The @n-th call fails; how many there were. Another recovery brings it back, in any case. */
static unsigned int undo(unsigned int n)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	unsigned int calls;
	int r;
	AUTO(victim) victim = victim_open_host();

	victim_choose(&victim, HM_LOSS_SHADOW, 0);
	victim_cut(&victim, 2 * REPAIR_BLOCK - 2 * PAGE);
	(void)victim.base[2 * REPAIR_BLOCK - 1];
	inject_arm(n, INJECT_ONE);
	r = hm_device_recover(victim.device, HM_RECOVER_SHADOWED, &info);
	calls = inject_calls();
	inject_disarm();
	if (!r && info.buffers_back)
		CHECK_OK(victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	else
		CHECK_ERROR(-EIO, victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	info = victim_recover(&victim, HM_RECOVER_SHADOWED);
	CHECK_EQUAL(info.error, 0);
	CHECK(victim_holds(&victim, 0, 2 * REPAIR_BLOCK, 1));
	CHECK_OK(victim_bracket(&victim, REPAIR_BLOCK, HM_READ));
	inject_forgive();
	return calls;
}

/* Most of the many calls look at one page each: it fails the first and the last ones. */
static void undone(void)
{
	unsigned int calls = undo(1), n;

	for (n = 2; n <= calls + 1; n += n < 8 || n + 24 > calls ? 1 : 397)
		calls = max_u64(calls, undo(n));
}

static const struct test tests[] = {
	{ "file.by_brackets", by_brackets, 0, 0 },
	{ "file.by_others", by_others, 0, 0 },
	{ "file.by_fences", by_fences, 0, 0 },
	{ "file.goes_on", goes_on, 0, 0 },
	{ "file.no_memory", no_memory, 0, 0 },
	{ "file.grown_again", grown_again, 0, 0 },
	{ "host.mended", mended, 0, 0 },
	{ "host.refused", refused, 0, 0 },
	{ "soft:0.in_reach", in_reach, 0, 0 },
	{ "file.beside_readers", beside_readers, 60, 0 },
	{ "host.waits_for_brackets", waits_for_brackets, 0, 0 },
	{ "host.waits_for_more", waits_for_more, 0, 0 },
	{ "host.undone", undone, 120, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "replaced", tests)
