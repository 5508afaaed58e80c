// SPDX-License-Identifier: MIT
/*
 * Pages of the process that move to a device's memory, be it the module's or the twin's: moves by
 * prefetch, advice and counters, memory that does not move, room and accounts, and events.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/harness.h"
#include "lib/hetsim.h"
#include "lib/rig.h"
#include "sim/migrate_support.h"
#include "sim/sim_tests.h"

#define PIECE (64u << 10)
#define HUGE_PAGES (MIRROR_HUGE / PAGE)
#define PRIVATE (MAP_PRIVATE | MAP_ANONYMOUS)
#define RW (PROT_READ | PROT_WRITE)

/* ---- moves ---- */

static void test_there_and_back(void)
{
	struct hetsim_counters counters;
	struct hetsim_mirror says;
	unsigned char *bytes;
	AUTO(mirror) mirror = migrate_begin(&says);

	CHECK(says.migration_bytes >= MIRROR_HUGE);
	bytes = migrate_map(MIRROR_HUGE, 7);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES);
	CHECK_EQUAL(mirror_page(&mirror, bytes).moves, 1);
	CHECK_EQUAL(mirror_counters(&mirror).pages_migrated, HUGE_PAGES);
	/* The engine's own bytes, then the CPU's. */
	CHECK_DONE(mirror_fill(&mirror, bytes + PAGE, PAGE, 3));
	CHECK_EQUAL(mirror_counters(&mirror).pages_returned, 0);
	migrate_back(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), 0);
	counters = mirror_counters(&mirror);
	CHECK_EQUAL(counters.pages_returned, HUGE_PAGES);
	CHECK_EQUAL(counters.pages_evicted, 0);
	CHECK(migrate_is(bytes, PAGE, 7));
	CHECK(mirror_words_are(bytes + PAGE, PAGE, 3));
	CHECK(migrate_is(bytes + 2 * PAGE, MIRROR_HUGE - 2 * PAGE, 7));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* A device fault moves the chunk's present pages, and no more. */
static void test_advice(void)
{
	unsigned char there[HUGE_PAGES];
	struct hetsim_mirror says;
	unsigned int i, n = 0;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = mirror_map(MIRROR_HUGE, RW, PRIVATE, -1);

	CHECK_EQUAL(madvise(bytes, MIRROR_HUGE, MADV_NOHUGEPAGE), 0);
	memset(bytes, 5, 16 * PAGE);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_DEVICE),
		    0);
	CHECK_DONE(mirror_fill(&mirror, bytes + 4 * PAGE, PAGE, 6));
	CHECK_EQUAL(migrate_pages(&mirror), 16);
	/* One that was not there begins with zeros. */
	CHECK_DONE(mirror_read(&mirror, bytes + 100 * PAGE, PAGE));
	CHECK_EQUAL(migrate_on_device(&mirror, bytes + 100 * PAGE, PAGE), 1);
	CHECK_EQUAL(migrate_pages(&mirror), 17);
	CHECK_EQUAL(mincore(bytes, MIRROR_HUGE, there), 0);
	for (i = 17; i < HUGE_PAGES; i++)
		n += i != 100 && there[i] & 1;
	CHECK_EQUAL(n, 0);
	CHECK(migrate_is(bytes, 4 * PAGE, 5));
	CHECK(mirror_words_are(bytes + 4 * PAGE, PAGE, 6));
	CHECK(migrate_is(bytes + 5 * PAGE, 11 * PAGE, 5));
	CHECK(migrate_is(bytes + 100 * PAGE, PAGE, 0));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Pages that a child had, too, are the process's own as the engine may write to them. */
static void test_shared(void)
{
	struct hetsim_mirror says;
	int status = -1;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);
	pid_t child = fork();

	if (!child)
		_exit(0);
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	migrate_there(&mirror, bytes, PIECE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, PIECE), PIECE / PAGE);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 6));
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, PIECE), PIECE / PAGE);
	CHECK(mirror_words_are(bytes, PAGE, 6));
	CHECK(migrate_is(bytes + PAGE, MIRROR_HUGE - PAGE, 5));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_advice_host(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIB(1), HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_HOST),
		    0);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIB(1)), 0);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes + MIB(1), MIB(1)), MIB(1) / PAGE);
	/* The entries are there all the same. */
	CHECK_EQUAL(mirror_page(&mirror, bytes).location, HETSIM_LOCATION_HOST);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* The piece of 64 KiB that is used often moves, and none of its neighbours. */
static void test_counter(void)
{
	struct hetsim_mirror says;
	int i;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIRROR_HUGE, HETSIM_ADVISE_COUNTER, 64), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, MIRROR_HUGE, 1));
	CHECK_EQUAL(migrate_pages(&mirror), 0);
	for (i = 0; i < 8; i++)
		CHECK_DONE(mirror_fill(&mirror, bytes + 3 * PIECE, PIECE, (uint32_t)i));
	CHECK_EQUAL(migrate_on_device(&mirror, bytes + 3 * PIECE, PIECE), PIECE / PAGE);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), PIECE / PAGE);
	CHECK_EQUAL(mirror_counters(&mirror).access_notices, 1);
	CHECK(mirror_words_are(bytes + 3 * PIECE, PIECE, 7));
	CHECK(mirror_words_are(bytes, 3 * PIECE, 1));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_counter_off(void)
{
	struct hetsim_mirror says;
	int i;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_COUNTER, 65536),
		    -EINVAL);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_CACHE + 1, 1), -EINVAL);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_COUNTER, 2), 0);
	/* The location that is advised goes before, and so does that there is no advice. */
	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_HOST),
		    0);
	for (i = 0; i < 8; i++)
		CHECK_DONE(mirror_fill(&mirror, bytes, 2 * PIECE, (uint32_t)i));
	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_LOCATION,
				  HETSIM_LOCATION_NONE),
		    0);
	CHECK_EQUAL(mirror_advise(&mirror, bytes, PIECE, HETSIM_ADVISE_COUNTER, 0), 0);
	for (i = 0; i < 8; i++)
		CHECK_DONE(mirror_fill(&mirror, bytes, 2 * PIECE, (uint32_t)i));
	CHECK_EQUAL(mirror_counters(&mirror).access_notices, 0);
	CHECK_EQUAL(migrate_pages(&mirror), 0);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* ---- memory that does not move ---- */

static void test_file(void)
{
	int file = memfd_create("migrate", MFD_CLOEXEC);
	unsigned char *shared, *own;
	struct hetsim_mirror says;
	struct mirror mirror;

	CHECK_FATAL(file >= 0 && ftruncate(file, MIRROR_HUGE) == 0);
	mirror = migrate_begin(&says);
	shared = mirror_map(MIRROR_HUGE, RW, MAP_SHARED, file);
	own = mirror_map(MIRROR_HUGE, RW, MAP_PRIVATE, file);
	memset(shared, 3, MIRROR_HUGE);
	migrate_there(&mirror, shared, MIRROR_HUGE);
	CHECK_EQUAL(migrate_on_device(&mirror, shared, MIRROR_HUGE), 0);
	CHECK_EQUAL(mirror_page(&mirror, shared).location, HETSIM_LOCATION_HOST);
	CHECK_DONE(mirror_fill(&mirror, shared, PAGE, 4));
	CHECK(mirror_words_are(own, PAGE, 4));
	/* Copies that the process has of a file's pages are memory like other memory. */
	memset(own + PAGE, 9, PAGE);
	CHECK_DONE(mirror_prefetch(&mirror, own, MIRROR_HUGE, HETSIM_LOCATION_DEVICE, 0));
	CHECK(migrate_on_device(&mirror, own, MIRROR_HUGE) <= 1);
	CHECK(migrate_is(own + PAGE, PAGE, 9));
	CHECK(migrate_is(shared + PAGE, MIRROR_HUGE - PAGE, 3));
	CHECK_EQUAL(munmap(shared, MIRROR_HUGE), 0);
	CHECK_EQUAL(munmap(own, MIRROR_HUGE), 0);
	mirror_close(&mirror);
	close(file);
}

static void test_rights(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	CHECK_EQUAL(mprotect(bytes, MIB(1), PROT_READ), 0);
	CHECK_DONE(mirror_prefetch(&mirror, bytes, MIB(1), HETSIM_LOCATION_DEVICE, 0));
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIB(1)), MIB(1) / PAGE);
	CHECK_FAULT(mirror_fill(&mirror, bytes, PAGE, 1), HETSIM_REASON_WRITE, bytes, 1);
	CHECK(migrate_is(bytes, MIB(1), 5));
	CHECK_EQUAL(mprotect(bytes, MIB(1), RW), 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 1));
	CHECK(mirror_words_are(bytes, PAGE, 1));
	CHECK_EQUAL(mirror_advise(&mirror, bytes, MIB(1), HETSIM_ADVISE_NO_ACCESS, 1), 0);
	CHECK_FAULT(mirror_prefetch(&mirror, bytes, MIB(1), HETSIM_LOCATION_DEVICE, 0),
		    HETSIM_REASON_NO_ACCESS, bytes, 0);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Pages before a hole have moved. */
static void test_hole(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(2 * MIRROR_HUGE, 5);

	CHECK_EQUAL(munmap(bytes + MIRROR_HUGE, PAGE), 0);
	CHECK_FAULT(mirror_prefetch(&mirror, bytes, 2 * MIRROR_HUGE, HETSIM_LOCATION_DEVICE, 0),
		    HETSIM_REASON_UNMAPPED, bytes + MIRROR_HUGE, 0);
	CHECK_EQUAL(migrate_on_device(&mirror, bytes, MIRROR_HUGE), HUGE_PAGES);
	/* On the way back a hole is nothing that could fail. */
	migrate_back(&mirror, bytes, 2 * MIRROR_HUGE);
	CHECK_EQUAL(migrate_pages(&mirror), 0);
	CHECK(migrate_is(bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(munmap(bytes, 2 * MIRROR_HUGE), 0);
}

/* ---- room ---- */

/* Pages in the device's memory count as its opener's VRAM, as long as they are there. */
static void test_account(void)
{
	struct hetsim_query before, after;
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	before = hetsim_query(mirror.fd);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_DONE(mirror_read(&mirror, bytes, MIRROR_HUGE));
	after = hetsim_query(mirror.fd);
	CHECK_EQUAL(after.opener_used - before.opener_used, MIRROR_HUGE);
	CHECK_EQUAL(after.vram_used - before.vram_used, MIRROR_HUGE);
	migrate_back(&mirror, bytes, MIB(1));
	CHECK_EQUAL(hetsim_query(mirror.fd).opener_used - before.opener_used,
		    MIRROR_HUGE - MIB(1));
	CHECK_EQUAL(madvise(bytes + MIB(1), MIB(1) / 2, MADV_DONTNEED), 0);
	/* A look of the engine's tells the twin that they are gone. */
	CHECK_DONE(mirror_read(&mirror, bytes + MIB(1), MIB(1) / 2));
	CHECK(migrate_is(bytes + MIB(1), MIB(1) / 2, 0));
	CHECK_EQUAL(hetsim_query(mirror.fd).opener_used - before.opener_used, MIB(1) / 2);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

static void test_close(void)
{
	struct hetsim_query after;
	struct hetsim_mirror says;
	AUTO_HETSIM fd = hetsim_begin(O_RDWR);
	struct hetsim_query before = hetsim_query(fd);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);
	struct mirror mirror = migrate_begin(&says);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 6));
	CHECK_EQUAL(migrate_pages(&mirror), HUGE_PAGES);
	mirror_close(&mirror);
	after = hetsim_query(fd);
	CHECK_EQUAL(after.vram_used, before.vram_used);
	CHECK(mirror_words_are(bytes, PAGE, 6));
	CHECK(migrate_is(bytes + PAGE, MIRROR_HUGE - PAGE, 5));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* More than fits: the pages that came first leave, and no byte is lost. */
static void test_pressure(void)
{
	struct hetsim_counters counters;
	struct hetsim_mirror says;
	uint64_t room, length, at;
	unsigned char *bytes;
	AUTO(mirror) mirror = migrate_begin(&says);
	struct hetsim_query query = hetsim_query(mirror.fd);

	room = says.migration_bytes < query.vram_bytes ? says.migration_bytes :
							 query.vram_bytes;
	length = (room + 4 * MIRROR_HUGE) & ~(uint64_t)(MIRROR_HUGE - 1);
	bytes = mirror_map(length, RW, PRIVATE, -1);
	CHECK_EQUAL(madvise(bytes, length, MADV_NOHUGEPAGE), 0);
	for (at = 0; at < length; at += MIRROR_HUGE) {
		memset(bytes + at, (int)(at / MIRROR_HUGE + 1), MIRROR_HUGE);
		migrate_there(&mirror, bytes + at, MIRROR_HUGE);
		CHECK_EQUAL(migrate_on_device(&mirror, bytes + at, MIRROR_HUGE), HUGE_PAGES);
	}
	counters = mirror_counters(&mirror);
	CHECK(counters.pages_evicted >= 4 * HUGE_PAGES);
	CHECK(migrate_pages(&mirror) * PAGE <= room);
	/* Blocks leave in the order in which pages came to them, and may have two ranges'. */
	CHECK(migrate_on_device(&mirror, bytes, 4 * MIRROR_HUGE) <= 2 * HUGE_PAGES);
	for (at = 0; at < length; at += MIRROR_HUGE)
		CHECK(migrate_is(bytes + at, MIRROR_HUGE, (int)(at / MIRROR_HUGE + 1)));
	CHECK_EQUAL(munmap(bytes, length), 0);
}

/* Buffers have the right of way. */
static void test_buffers_first(void)
{
	struct hetsim_buffer buffer = { 0 };
	struct hetsim_mirror says;
	struct mirror mirror = migrate_begin(&says);
	struct hetsim_query query = hetsim_query(mirror.fd);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(hetsim_buffer_create(mirror.fd, query.vram_bytes - query.vram_used,
					 HETSIM_PLACE_VRAM, 0, &buffer),
		    0);
	CHECK_EQUAL(migrate_pages(&mirror), 0);
	CHECK_EQUAL(mirror_counters(&mirror).pages_evicted, HUGE_PAGES);
	/* Without room, pages are used where they are. */
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_EQUAL(migrate_pages(&mirror), 0);
	CHECK_EQUAL(mirror_page(&mirror, bytes).location, HETSIM_LOCATION_HOST);
	CHECK(migrate_is(bytes, MIRROR_HUGE, 5));
	CHECK_EQUAL(hetsim_close_handle(mirror.fd, buffer.handle), 0);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
	mirror_close(&mirror);
}

/* ---- events, and two openers ---- */

/* The next event of one of two kinds, or of kind LOST: none came in time. */
static struct hetsim_event next_event(int stream, uint32_t kind, uint32_t other)
{
	struct hetsim_event event = { .kind = HETSIM_EVENT_LOST };

	while (read(stream, &event, sizeof(event)) == sizeof(event))
		if (event.kind == kind || event.kind == other)
			return event;
	return (struct hetsim_event){ .kind = HETSIM_EVENT_LOST };
}

static void check_move(int stream, const void *bytes, uint64_t n, uint64_t location)
{
	struct hetsim_event event;
	uint64_t begun = 0, moved = 0;

	while (moved < n / PAGE) {
		event = next_event(stream, HETSIM_EVENT_MIGRATE_BEGIN,
				   HETSIM_EVENT_MIGRATE_END);
		CHECK_FATAL(event.kind != HETSIM_EVENT_LOST);
		CHECK(event.address >= (uintptr_t)bytes &&
		      event.address + event.length <= (uintptr_t)bytes + n);
		if (event.kind == HETSIM_EVENT_MIGRATE_END) {
			moved += event.value;
			continue;
		}
		CHECK_EQUAL(event.value, location);
		begun += event.length / PAGE;
		CHECK(begun > moved);
	}
	CHECK_EQUAL(moved, n / PAGE);
}

static void test_events(void)
{
	struct hetsim_mirror_events ask = { .size = sizeof(ask) };
	struct hetsim_mirror says;
	unsigned char *bytes;
	struct mirror mirror = migrate_begin(&says);

	CHECK_EQUAL(hetsim_call(mirror.fd, HETSIM_MIRROR_EVENTS, &ask), 0);
	CHECK_EQUAL(fcntl(ask.fd, F_SETFL, O_NONBLOCK), 0);
	bytes = migrate_map(MIRROR_HUGE, 5);
	migrate_there(&mirror, bytes, MIRROR_HUGE);
	check_move(ask.fd, bytes, MIRROR_HUGE, HETSIM_LOCATION_DEVICE);
	migrate_back(&mirror, bytes, MIB(1));
	check_move(ask.fd, bytes, MIB(1), HETSIM_LOCATION_HOST);
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
	mirror_close(&mirror);
	close(ask.fd);
}

/* Pages that one opener has moved are used by another one, and not moved again. */
static void test_two_openers(void)
{
	struct hetsim_mirror says;
	AUTO(mirror) mirror = migrate_begin(&says);
	struct mirror other = migrate_begin(&says);
	unsigned char *bytes = migrate_map(MIRROR_HUGE, 5);

	migrate_there(&mirror, bytes, MIRROR_HUGE);
	CHECK_DONE(mirror_fill(&other, bytes, MIB(1), 6));
	CHECK_EQUAL(mirror_counters(&other).pages_migrated, 0);
	CHECK_DONE(mirror_fill(&mirror, bytes, PAGE, 7));
	mirror_close(&other);
	CHECK(mirror_words_are(bytes, PAGE, 7));
	CHECK(mirror_words_are(bytes + PAGE, MIB(1) - PAGE, 6));
	CHECK(migrate_is(bytes + MIB(1), MIB(1), 5));
	CHECK_EQUAL(munmap(bytes, MIRROR_HUGE), 0);
}

/* Any order of moves, work and uses matches the model. */
static void test_orders(void)
{
	static uint32_t model[4 * MIRROR_HUGE / PAGE];
	const unsigned int n = 4 * MIRROR_HUGE / PAGE;
	uint64_t state = test_seed();
	struct hetsim_mirror says;
	unsigned int i, j;
	AUTO(mirror) mirror = migrate_begin(&says);
	unsigned char *bytes = migrate_map(4 * MIRROR_HUGE, 0);

	memset(model, 0, sizeof(model));
	for (i = 0; i < 400; i++) {
		unsigned int first = (unsigned int)(test_random(&state) % n);
		unsigned int count = 1 + (unsigned int)(test_random(&state) % 64);
		unsigned char *at = bytes + (size_t)first * PAGE;

		count = count < n - first ? count : n - first;
		switch (test_random(&state) % 5) {
		case 0:
			migrate_there(&mirror, at, (size_t)count * PAGE);
			break;
		case 1:
			migrate_back(&mirror, at, (size_t)count * PAGE);
			break;
		case 2:
			CHECK_DONE(mirror_fill(&mirror, at, (size_t)count * PAGE, i));
			for (j = first; j < first + count; j++)
				model[j] = i;
			break;
		case 3:
			for (j = 0; j < PAGE / 4; j++)
				((uint32_t *)at)[j] = i;
			model[first] = i;
			break;
		default:
			CHECK(mirror_words_are(at, PAGE, model[first]));
			break;
		}
	}
	for (i = 0; i < n; i++)
		CHECK(mirror_words_are(bytes + (size_t)i * PAGE, PAGE, model[i]));
	CHECK_EQUAL(munmap(bytes, 4 * MIRROR_HUGE), 0);
}

const struct test sim_migrate_tests[] = {
	{ "there_and_back", test_there_and_back, 0, SIM_MIGRATES },
	{ "advice", test_advice, 0, SIM_MIGRATES },
	{ "shared", test_shared, 0, SIM_MIGRATES },
	{ "advice_host", test_advice_host, 0, SIM_MIGRATES },
	{ "counter", test_counter, 0, SIM_MIGRATES },
	{ "counter_off", test_counter_off, 0, SIM_MIGRATES },
	{ "file", test_file, 0, SIM_MIGRATES },
	{ "rights", test_rights, 0, SIM_MIGRATES },
	{ "hole", test_hole, 0, SIM_MIGRATES },
	{ "account", test_account, 0, SIM_MIGRATES },
	{ "close", test_close, 0, SIM_MIGRATES },
	{ "pressure", test_pressure, 60, SIM_MIGRATES | SIM_SMALL },
	{ "buffers_first", test_buffers_first, 0, SIM_MIGRATES | SIM_SMALL | SIM_REACHED },
	{ "events", test_events, 0, SIM_MIGRATES },
	{ "two_openers", test_two_openers, 0, SIM_MIGRATES },
	{ "orders", test_orders, 0, SIM_MIGRATES },
	{ NULL, NULL, 0, 0 },
};
