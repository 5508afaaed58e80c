// SPDX-License-Identifier: MIT
/* The choice of a policy, from facts to figures, without a file. */
#include <errno.h>
#include <string.h>

#include "reader/account.h"
#include "reader/choose.h"

#include "lib/harness.h"

static struct reader_facts facts_of(uint64_t size)
{
	return (struct reader_facts){
		.size = size,
		.length = size,
		.ram = GIB(16),
		.read_ahead = KIB(128),
		.resident = 0,
		.fs = "ext4",
		.mappable = true,
		.guarded = true,
		.direct = PAGE,
		.page = PAGE,
		.fault = KIB(64),
	};
}

static uint32_t chosen(const struct reader_facts *facts, uint32_t pattern)
{
	struct reader_wish wish = { .pattern = pattern };
	struct reader_choice choice;

	CHECK_OK_FATAL(reader_choose(facts, &wish, &choice));
	CHECK(strstr(choice.why, hm_policy_name(choice.policy)) == choice.why);
	CHECK(strstr(choice.why, facts->fs) != NULL);
	return choice.policy;
}

static void test_table(void)
{
	struct reader_facts facts = facts_of(GIB(4));

	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_ANNOUNCE);
	facts.resident = 89;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.resident = 90;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_FAULT);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_FAULT);
	facts.read_ahead = MIB(8);
	facts.resident = RESIDENT_UNKNOWN;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_ANNOUNCE);
	facts.fs_flags = FS_MEMORY;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_FAULT);
	facts.fs_flags = FS_NETWORK;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_URING);
	facts.uring = -ENOSYS;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_READ);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_READ);
	facts.fs_flags = FS_SERVED;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_READ);
	facts.fs_flags = 0;
	facts.mappable = false;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_READ);
	facts.uring = 0;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_URING);
	facts.resident = 100;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_READ);
}

/* From begin to end, and more than memory has room for. */
static void test_larger_than_memory(void)
{
	struct reader_facts facts = facts_of(GIB(16) + PAGE);
	struct reader_wish wish = { .window = MIB(8) - PAGE };
	struct reader_choice choice;

	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_DIRECT);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_RANDOM), HM_POLICY_ANNOUNCE);
	/* The range counts, not the file. */
	facts.length = GIB(16);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.length = facts.size;
	facts.resident = 100;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_FAULT);
	facts.resident = 10;
	/* Nothing that it would be refused for. */
	facts.direct = 0;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.direct = 3 * PAGE;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.direct = PAGE;
	facts.uring = -EPERM;
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.uring = 0;
	/* In small windows, or little memory, the device would wait. */
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.policy, HM_POLICY_AHEAD);
	wish.window = 0;
	wish.budget = MIB(24);
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.policy, HM_POLICY_AHEAD);
	wish.budget = MIB(25);
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.policy, HM_POLICY_DIRECT);
	CHECK_EQUAL(choice.window, MIB(8));
	CHECK_EQUAL(choice.budget, MIB(25));
	/* The process's own windows take at most an eighth of its memory. */
	wish.budget = 0;
	wish.window = MIB(682);
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.policy, HM_POLICY_AHEAD);
	wish.window = MIB(640);
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.policy, HM_POLICY_DIRECT);
	facts.ram = MIB(192);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_AHEAD);
	facts.ram = MIB(200);
	CHECK_EQUAL(chosen(&facts, HM_PATTERN_SEQUENTIAL), HM_POLICY_DIRECT);
}

static void test_refused(void)
{
	struct reader_wish wish = { .policy = HM_POLICY_AHEAD };
	struct reader_choice choice = { .policy = 99 };
	struct reader_facts facts = facts_of(GIB(4));

	facts.mappable = false;
	for (wish.policy = HM_POLICY_FAULT; wish.policy <= HM_POLICY_POPULATE; wish.policy++)
		CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "populate") && strstr(hm_errmsg(), "ext4"));
	facts = facts_of(GIB(4));
	facts.uring = -EPERM;
	wish.policy = HM_POLICY_URING;
	CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "kernel.io_uring_disabled") != NULL);
	facts.uring = -EMFILE;
	CHECK_ERROR(-EMFILE, reader_choose(&facts, &wish, &choice));
	facts.uring = -ENOSYS;
	wish.policy = HM_POLICY_DIRECT;
	CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	facts.uring = 0;
	facts.direct = 0;
	CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "O_DIRECT") != NULL);
	facts.direct = 12288;
	CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "multiples of 12288 bytes") != NULL);
	facts.direct = MIB(2);
	CHECK_ERROR(-EOPNOTSUPP, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "2097152") && strstr(hm_errmsg(), "up to 1048576"));
	wish = (struct reader_wish){ .budget = 100 };
	CHECK_ERROR(-ENOBUFS, reader_choose(&facts, &wish, &choice));
	CHECK(strstr(hm_errmsg(), "100 bytes") && strstr(hm_errmsg(), "20480"));
	CHECK_EQUAL(choice.policy, 99);
}

/* Windows as large as they can be asked for: no larger than the file, and no overflow. */
static void test_windows(void)
{
	static const uint64_t sizes[] = {
		0, 1, PAGE + 1, GIB(4), 0x5555555555556000, INT64_MAX
	};
	static const uint64_t windows[] = { INT64_MAX, UINT64_MAX - PAGE + 2, UINT64_MAX };
	struct reader_wish wish = { .pattern = HM_PATTERN_SEQUENTIAL };
	struct reader_facts facts;
	struct reader_choice choice;
	uint64_t total;
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (j = 0; j < ARRAY_SIZE(windows); j++)
			for (wish.policy = 0; wish.policy <= HM_POLICY_DIRECT; wish.policy++) {
				facts = facts_of(sizes[i]);
				wish.window = windows[j];
				CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
				CHECK(choice.window >= PAGE);
				CHECK_EQUAL(choice.window % PAGE, 0);
				CHECK(choice.window < sizes[i] + 2 * PAGE);
				CHECK(!__builtin_mul_overflow(choice.window,
							      choice.ahead + 9ull, &total));
			}
}

/* In a control group with little memory: chosen windows are small, and the sentence says both. */
static void test_little_memory(void)
{
	struct reader_facts facts = facts_of(MIB(512));
	struct reader_wish wish = { .pattern = HM_PATTERN_SEQUENTIAL };
	struct reader_choice choice;

	facts.ram = MIB(160);
	for (wish.policy = 0; wish.policy <= HM_POLICY_DIRECT; wish.policy++) {
		CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
		CHECK((choice.ahead + 1) * choice.window <= facts.ram / 8);
		CHECK(choice.window >= MIB(1));
		CHECK(strstr(choice.why, "memory 160") != NULL);
	}
	/* A window is at least a page. */
	facts.ram = MIB(1) / 16;
	wish.policy = HM_POLICY_AHEAD;
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.window, PAGE);
	/* A window that the caller asks for is given. */
	wish.window = MIB(64);
	CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
	CHECK_EQUAL(choice.window, MIB(64));
}

/* Whatever the wish: windows are whole pages, and the budget covers their cost. */
static void test_budgets(void)
{
	static const uint64_t sizes[] = { 0, 1, PAGE, MIB(3), GIB(4), GIB(1) << 10 };
	struct reader_facts facts;
	struct reader_choice choice;
	struct reader_wish wish;
	uint64_t budget, cost;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		facts = facts_of(sizes[i]);
		for (budget = 5 * PAGE; budget < GIB(1); budget += budget / 3 + 1)
			for (wish.policy = 1; wish.policy <= HM_POLICY_DIRECT; wish.policy++) {
				wish.pattern = HM_PATTERN_SEQUENTIAL;
				wish.window = budget & 1 ? 0 : GIB(2);
				wish.budget = budget;
				CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
				CHECK_EQUAL(choice.window % PAGE, 0);
				CHECK(choice.window >= PAGE);
				CHECK_EQUAL(choice.budget, budget);
				cost = choice.mapped ? choice.window :
						       choice.window * (choice.ahead + 1);
				CHECK(reader_mapped_cost(cost, PAGE) <= budget);
				wish.budget = 0;
				CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
				cost = choice.mapped ? choice.window :
						       choice.window * (choice.ahead + 1);
				CHECK(reader_mapped_cost(cost, PAGE) <= choice.budget);
			}
	}
}

static void test_pieces(void)
{
	struct reader_facts facts = facts_of(GIB(1) << 10);
	struct reader_wish wish = { .pattern = HM_PATTERN_RANDOM };
	struct reader_choice choice;

	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	CHECK_EQUAL(choice.budget, GIB(4));
	facts.size = MIB(1);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.budget < MIB(2));
	/* No handler would make a fault an error. */
	facts.guarded = false;
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	CHECK(strstr(choice.why, "pread(2)") != NULL);
	/* A map needs the account and two faults at least. */
	facts = facts_of(GIB(1) << 10);
	facts.guarded = true;
	wish.policy = HM_POLICY_FAULT;
	wish.budget = MIB(1);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	wish.budget = MIB(4);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	/* A fault may map a page table's range, and so may one beside it. */
	facts.fault = MIB(2);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	wish.budget = MIB(5);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	/* Enough for all of a file is enough. */
	facts.size = MIB(2);
	wish.budget = reader_mapped_cost(MIB(2), PAGE);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	wish.budget--;
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	/* Where it is not asked for, to give back a terabyte every few pieces is not worth it. */
	facts = facts_of(GIB(1) << 10);
	facts.fault = MIB(2);
	wish.policy = HM_POLICY_AUTO;
	wish.budget = MIB(500);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	wish.budget = 0;
	facts.ram = GIB(1);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.copied_from_map);
	CHECK(choice.budget <= GIB(1) / 4);
	wish.budget = MIB(600);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	facts.fault = KIB(64);
	wish.budget = MIB(20);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.copied_from_map);
	wish.policy = HM_POLICY_DIRECT;
	wish.budget = KIB(64);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(reader_mapped_cost(choice.ahead * choice.read, PAGE) <= KIB(64));
	wish.budget = KIB(16);
	CHECK_ERROR(-ENOBUFS, reader_choose(&facts, &wish, &choice));
}

/* O_DIRECT's unit: windows and reads are multiples of it, and the budget covers aligning. */
static void check_unit(const struct reader_facts *facts, uint32_t pattern, uint64_t budget)
{
	struct reader_wish wish = { .pattern = pattern, .policy = HM_POLICY_DIRECT };
	struct reader_choice choice;
	uint64_t memory;
	int r;

	wish.budget = budget;
	wish.window = budget % 3 * 5000;
	r = reader_choose(facts, &wish, &choice);
	if (r) {
		/* -ENOBUFS only below the smallest reads and the cost of aligning. */
		CHECK_EQUAL(r, -ENOBUFS);
		CHECK(budget && budget < reader_mapped_cost(2 * facts->direct + KIB(16), PAGE));
		return;
	}
	CHECK_EQUAL(choice.unit, facts->direct);
	CHECK_EQUAL(choice.read % choice.unit, 0);
	CHECK(choice.read && choice.ahead <= 64);
	memory = choice.ahead * choice.read;
	if (pattern == HM_PATTERN_SEQUENTIAL) {
		CHECK_EQUAL(choice.window % choice.unit, 0);
		CHECK_EQUAL(choice.window % PAGE, 0);
		CHECK(choice.read <= choice.window);
		memory = (choice.ahead + 1) * choice.window;
	}
	memory = reader_read_memory(&choice, memory, PAGE);
	CHECK(reader_mapped_cost(memory, PAGE) <= choice.budget);
	CHECK(!budget || choice.budget == budget);
	CHECK(strstr(choice.why, "in multiples of ") != NULL);
}

static void test_units(void)
{
	static const uint64_t sizes[] = { 0, 1, MIB(3) + 5, GIB(4) };
	struct reader_facts facts;
	uint64_t unit, budget;
	uint32_t pattern;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++)
		for (unit = 1; unit <= MIB(1); unit *= 2)
			for (pattern = 0; pattern < 2; pattern++) {
				facts = facts_of(sizes[i]);
				facts.direct = unit;
				check_unit(&facts, pattern, 0);
				for (budget = PAGE; budget < MIB(64); budget += budget / 3 + 1)
					check_unit(&facts, pattern, budget);
			}
}

/* Pieces of all that fits for certain, across the ends of blocks, and of tables. */
static void check_account(uint64_t size, uint64_t budget, uint64_t page, uint64_t fault,
			  const char *address)
{
	struct account account;
	uint64_t line;

	for (line = MIB(2); line < size / 2; line *= 4) {
		CHECK_OK_FATAL(account_begin(&account, address, size, budget, page, fault));
		CHECK_FATAL(!account.unlimited);
		CHECK(account.most >= fault && account.most < budget);
		CHECK(account_add(&account, line - 1, account.most));
		CHECK(account.cost >= account.most && account.cost <= budget);
		CHECK(account_add(&account, line - 1, account.most));
		CHECK(!account_add(&account, size / 2 + 1, budget));
		account_end(&account);
	}
}

/*
 * In the least budget a block fits wherever it is, with pages of any size, and maps anywhere:
 * where tables end is by the address.
 */
static void test_account(void)
{
	uint64_t page, fault, table, size, budget, i;
	static char *const address[] = { NULL, (char *)MIB(2), (char *)(GIB(5) - KIB(64)) };

	for (page = KIB(4); page <= KIB(64); page *= 4) {
		table = page / 8 * page;
		size = 64 * table;
		for (fault = KIB(64); fault; fault = fault < table ? table : 0)
			for (budget = reader_account_least(size, page, fault);
			     budget < 32 * table; budget += budget / 3)
				for (i = 0; i < ARRAY_SIZE(address); i++)
					check_account(size, budget, page, fault, address[i]);
	}
}

/* A byte in the next table is another fault's, though only a page lies between them. */
static void test_account_address(void)
{
	const uint64_t size = GIB(1), budget = MIB(64);
	struct account account;
	uint64_t cost;

	CHECK_OK_FATAL(
		account_begin(&account, (char *)(GIB(4) - PAGE), size, budget, PAGE, MIB(2)));
	CHECK(account_add(&account, 0, PAGE));
	cost = account.cost;
	CHECK(account_add(&account, PAGE - 1, 1));
	CHECK_EQUAL(account.cost, cost);
	CHECK(account_add(&account, PAGE, 1));
	/* With its table, and the next table of tables. */
	CHECK_EQUAL(account.cost, cost + MIB(2) + 2 * PAGE);
	CHECK(account_add(&account, MIB(2), PAGE));
	CHECK_EQUAL(account.cost, cost + MIB(2) + 2 * PAGE);
	account_end(&account);
}

/* A device that reads little ahead by itself is told more often. */
static void test_ahead(void)
{
	struct reader_facts facts = facts_of(GIB(4));
	struct reader_wish wish = { .pattern = HM_PATTERN_SEQUENTIAL };
	struct reader_choice choice;

	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.begins && choice.ahead == 2);
	CHECK(strstr(choice.why, "MADV_WILLNEED") != NULL);
	facts.read_ahead = MIB(8);
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.begins && !choice.ahead);
	CHECK(strstr(choice.why, "the kernel's own") != NULL);
	wish.policy = HM_POLICY_POPULATE;
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.begins);
	wish.policy = HM_POLICY_FAULT;
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(!choice.begins);
	/* Unknown is as little. */
	facts.read_ahead = 0;
	wish.policy = HM_POLICY_AHEAD;
	CHECK_OK(reader_choose(&facts, &wish, &choice));
	CHECK(choice.begins);
}

static void test_file_systems(void)
{
	CHECK(!strcmp(file_system_find(0xEF53)->name, "ext4"));
	CHECK(file_system_find(0x6969)->flags & FS_NETWORK);
	CHECK_EQUAL(file_system_find(0x01021997)->flags, FS_NETWORK);
	CHECK_EQUAL(file_system_find(0x01021994)->flags, FS_MEMORY);
	CHECK_EQUAL(file_system_find(0x65735546)->flags, FS_SERVED);
	CHECK(file_system_find(1) == NULL);
}

/*
 * If the device reads enough ahead by itself, the chosen policy asks the kernel for no other
 * calls than "fault" does: it can't be slower.
 */
static void test_ahead_is_fault(void)
{
	struct reader_wish wish = { .pattern = HM_PATTERN_SEQUENTIAL };
	struct reader_wish fault = { .pattern = HM_PATTERN_SEQUENTIAL,
				     .policy = HM_POLICY_FAULT };
	struct reader_facts facts = facts_of(GIB(4));
	struct reader_choice choice, by_fault;
	uint64_t kib;

	for (kib = 2048; kib <= 65536; kib *= 2) {
		facts.read_ahead = KIB(kib);
		CHECK_OK_FATAL(reader_choose(&facts, &wish, &choice));
		CHECK_OK_FATAL(reader_choose(&facts, &fault, &by_fault));
		CHECK_EQUAL(choice.policy, HM_POLICY_AHEAD);
		CHECK(choice.mapped && by_fault.mapped);
		CHECK(!choice.begins && !by_fault.begins);
		CHECK_EQUAL(choice.ahead, by_fault.ahead);
		CHECK_EQUAL(choice.window, by_fault.window);
		CHECK_EQUAL(choice.budget, by_fault.budget);
	}
}

static const struct test tests[] = {
	{ "larger_than_memory", test_larger_than_memory, 10, 0 },
	{ "table", test_table, 10, 0 },
	{ "refused", test_refused, 10, 0 },
	{ "windows", test_windows, 10, 0 },
	{ "little_memory", test_little_memory, 10, 0 },
	{ "budgets", test_budgets, 20, 0 },
	{ "random", test_pieces, 10, 0 },
	{ "units", test_units, 10, 0 },
	{ "account", test_account, 10, 0 },
	{ "account_address", test_account_address, 10, 0 },
	{ "ahead_is_fault", test_ahead_is_fault, 0, 0 },
	{ "ahead", test_ahead, 10, 0 },
	{ "fs", test_file_systems, 10, 0 },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "reader_choose", tests)
