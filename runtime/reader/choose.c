// SPDX-License-Identifier: MIT
/*
 * Chooses a policy, its window and its memory. The figures behind the choice are those of
 * "hetmap bench seq_cold seq_warm" in tools/perf/bench/results/notes.md: maps beat reads wherever
 * this kernel answers a fault, and announced pieces beat all else where they are not resident.
 * O_DIRECT is faster on some machines, and slower on others; it leaves nothing in memory for the
 * next pass.
 */
#include "reader/choose.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "reader/uring.h"

/* Per cent of a sample from which on the file counts as resident. */
#define RESIDENT_ENOUGH 90

/* A window's map costs about 20 us, 1 % of the time for its bytes. */
#define WINDOW_MAPPED MIB(32)
/* read(2) is best where its buffer stays in the cache. */
#define WINDOW_READ MIB(1)
#define WINDOW_QUEUED MIB(8)

#define AHEAD_WINDOWS 2
/*
 * From this size on the kernel's own read-ahead keeps the device busy, and uses large folios where
 * the file system has them. Announced windows come in pages of 4 KiB: 0.7 of the time at 128 KiB,
 * but 1.5 times at 8 MiB, and twice the CPU's. MADV_SEQUENTIAL gains nothing there, and takes 1.5
 * times as long on a busy machine.
 */
#define READ_AHEAD_ENOUGH MIB(2)
/*
 * Windows whose size the reader chooses take at most this part of the process's memory: in a small
 * control group their pages, which are locked while they are read, would be most of it.
 */
#define RAM_PART 8
/* More than any address space has: sums of such windows don't overflow. */
#define WINDOW_MOST (GIB(1) << 20)
/* io_uring: windows in memory, including the one in use. */
#define QUEUED_WINDOWS 3

/* One read of io_uring: large ones for windows, and bounce buffers of O_DIRECT for pieces. */
#define READ_WINDOW MIB(1)
#define READ_PIECE KIB(256)
#define READ_PIECE_LEAST KIB(16)
#define IN_FLIGHT 64
/* For O_DIRECT: a read of a window is a multiple of the unit. */
#define UNIT_MOST READ_WINDOW

uint64_t reader_mapped_cost(uint64_t bytes, uint64_t page)
{
	uint64_t whole = round_up(bytes, page);

	/*
	 * A table for each 2 MiB, one more where the bytes begin inside, and the two levels
	 * above.
	 */
	return whole + (whole / MIB(2) + 4) * page;
}

uint64_t reader_account_least(uint64_t size, uint64_t page, uint64_t fault)
{
	/* Two blocks, a table, and the pages that account_begin() takes off at both ends. */
	uint64_t touched = 2 * fault + 9 * page;

	return min_u64(reader_mapped_cost(size, page),
		       touched + reader_account_bytes(size, fault));
}

/*
 * Blocks of 2 MiB that giving back may cost a piece. repair_claim_each() and similar loops take
 * some 5 ns a block: 10 us a piece at most, where a read(2) costs a microsecond more than a copy
 * out of a map.
 */
#define BLOCKS_A_PIECE 2000

uint64_t reader_account_worth(uint64_t size, uint64_t page, uint64_t fault)
{
	uint64_t worth = size / MIB(2) / BLOCKS_A_PIECE * (fault + page);

	return max_u64(reader_account_least(size, page, fault),
		       min_u64(worth, reader_mapped_cost(size, page)));
}

/* The most bytes with a cost within @budget, in whole pages; 0: none. */
static uint64_t mapped_within(uint64_t budget, uint64_t page)
{
	uint64_t rest = budget > 4 * page ? budget - 4 * page : 0;
	uint64_t tables = rest / (MIB(2) + page);

	return round_down(min_u64(rest - tables * page, (tables + 1) * MIB(2) - page), page);
}

static const char *of_resident(const struct reader_facts *facts, char *text, size_t size)
{
	if (facts->resident == RESIDENT_UNKNOWN)
		snprintf(text, size, "resident pages are unknown");
	else
		snprintf(text, size, "%u %% of a sample is resident", facts->resident);
	return text;
}

static bool is_resident(const struct reader_facts *facts)
{
	return facts->fs_flags & FS_MEMORY ||
	       (facts->resident != RESIDENT_UNKNOWN && facts->resident >= RESIDENT_ENOUGH);
}

/* ---- the policy ---- */

/* Many reads at a time, where io_uring is available and there is something to wait for. */
static uint32_t read_by(const struct reader_facts *facts)
{
	return facts->uring || is_resident(facts) ? HM_POLICY_READ : HM_POLICY_URING;
}

static bool is_unit(uint64_t unit)
{
	return unit && unit <= UNIT_MOST && !(unit & (unit - 1));
}

/*
 * Should reads bypass the page cache? Bytes that memory has no room for leave it before they are
 * read again, and push out other bytes: bypassing takes two thirds of the time. Not for reads so
 * small, or so few, that the device waits for them.
 */
static bool goes_past_memory(const struct reader_facts *facts, const struct reader_wish *wish)
{
	uint64_t window = max_u64(wish->window, WINDOW_QUEUED);
	/* This memory is the process's own: unlike page cache, the kernel can't take it back. */
	uint64_t most = wish->budget ? wish->budget : facts->ram / 8;

	return facts->length > facts->ram && !facts->uring && is_unit(facts->direct) &&
	       (!wish->window || wish->window >= WINDOW_QUEUED) &&
	       reader_mapped_cost(window, facts->page) <= most / QUEUED_WINDOWS;
}

/* The first row that applies; each has its reason, to which the figures are added. */
static uint32_t pick(const struct reader_facts *facts, const struct reader_wish *wish,
		     const char **reason)
{
	if (facts->several) {
		*reason = "one of several files is open at a time, and the next ones are "
			  "announced";
		return HM_POLICY_READ;
	}
	if (facts->fs_flags & FS_NETWORK) {
		*reason = "a network file system's errors are signals in a map, and its maps "
			  "show old bytes";
		return read_by(facts);
	}
	if (facts->fs_flags & FS_SERVED) {
		*reason = "each fault of a map is a question to the process that serves it";
		return read_by(facts);
	}
	if (!facts->mappable) {
		*reason = "the file can't be mapped";
		return read_by(facts);
	}
	if (is_resident(facts)) {
		*reason = "its bytes are in memory already, and mapping copies none of them";
		return HM_POLICY_FAULT;
	}
	if (wish->pattern == HM_PATTERN_RANDOM) {
		*reason = "all pieces of a batch are read at once when they are announced";
		return HM_POLICY_ANNOUNCE;
	}
	if (goes_past_memory(facts, wish)) {
		*reason = "memory has no room for all of it, and would only lose other pages";
		return HM_POLICY_DIRECT;
	}
	*reason = "reading ahead of a map overlaps with its use and copies nothing";
	return HM_POLICY_AHEAD;
}

/* Tells a missing io_uring from one that there is no room for now. */
static int refuse_uring(int r, uint32_t policy)
{
	bool none = r == -ENOSYS || r == -EPERM || r == -EACCES;
	char text[URING_TEXT_MAX];

	return err_set(none ? -EOPNOTSUPP : r,
		       "policy \"%s\": io_uring can't be had, %s; take \"read\"",
		       hm_policy_name(policy), uring_explain(r, text, sizeof(text)));
}

static int check_direct(const struct reader_facts *facts)
{
	uint64_t unit = facts->direct;

	if (!unit)
		return err_set(-EOPNOTSUPP,
			       "policy \"direct\": the file system, %s, has no O_DIRECT for "
			       "this file: \"uring\" reads by the page cache",
			       facts->fs);
	if (!is_unit(unit))
		return err_set(-EOPNOTSUPP,
			       "policy \"direct\": O_DIRECT on %s is by multiples of %" PRIu64
			       " bytes for this file, here by powers of two up to %" PRIu64
			       ": \"uring\" reads by the page cache",
			       facts->fs, unit, (uint64_t)UNIT_MOST);
	return 0;
}

static int check_policy(const struct reader_facts *facts, uint32_t policy)
{
	int r;

	if (facts->several && policy != HM_POLICY_READ)
		return err_set(-EOPNOTSUPP,
			       "policy \"%s\" is for one file, and there are several: take "
			       "\"read\", which needs no maps",
			       hm_policy_name(policy));
	switch (policy) {
	case HM_POLICY_FAULT:
	case HM_POLICY_AHEAD:
	case HM_POLICY_ANNOUNCE:
	case HM_POLICY_POPULATE:
		if (!facts->mappable)
			return err_set(-EOPNOTSUPP,
				       "policy \"%s\" maps the file, and its file system, %s, "
				       "does not let it be mapped: \"read\" and \"uring\" do "
				       "without",
				       hm_policy_name(policy), facts->fs);
		return 0;
	case HM_POLICY_DIRECT:
		r = check_direct(facts);
		if (r)
			return r;
		/* fall through */
	case HM_POLICY_URING:
		return facts->uring ? refuse_uring(facts->uring, policy) : 0;
	default:
		return 0;
	}
}

/* ---- sizes ---- */

static int refuse_budget(const struct reader_wish *wish, uint64_t least, const char *what)
{
	return err_set(-ENOBUFS,
		       "a budget of %" PRIu64 " bytes is too small for %s: %" PRIu64
		       " are the least",
		       wish->budget, what, least);
}

/* The default size of @n windows that are in memory at a time: @usual, or less in little memory. */
static uint64_t default_window(const struct reader_facts *facts, uint64_t usual, uint32_t n)
{
	return max_u64(round_down(min_u64(usual, facts->ram / RAM_PART / n), facts->page),
		       facts->page);
}

/* The wanted window, but at most @most, in whole @grains; @chosen where none is wanted. */
static uint64_t window_of(const struct reader_wish *wish, uint64_t chosen, uint64_t most,
			  uint64_t grain)
{
	uint64_t window = wish->window ? min_u64(wish->window, max_u64(most, 1)) : chosen;

	return round_up(min_u64(window, WINDOW_MOST), grain);
}

/* Windows that are mapped, one at a time. */
static int size_mapped(const struct reader_facts *facts, const struct reader_wish *wish,
		       struct reader_choice *choice)
{
	uint64_t least = reader_mapped_cost(facts->page, facts->page);
	uint64_t most = wish->budget ? mapped_within(wish->budget, facts->page) : UINT64_MAX;
	uint64_t chosen;

	if (!most || (wish->budget && wish->budget < least))
		return refuse_budget(wish, least, "a mapped page and its tables");
	choice->mapped = true;
	choice->begins =
		choice->policy != HM_POLICY_FAULT &&
		(choice->policy != HM_POLICY_AHEAD || facts->read_ahead < READ_AHEAD_ENOUGH);
	choice->ahead = choice->begins ? AHEAD_WINDOWS : 0;
	chosen = default_window(facts, WINDOW_MAPPED, choice->ahead + 1);
	choice->window = min_u64(window_of(wish, chosen, facts->size, facts->page), most);
	/* A window of whole page tables needs fewer of them. */
	if (!wish->window && choice->window > MIB(2))
		choice->window = round_down(choice->window, MIB(2));
	choice->budget = wish->budget ? wish->budget :
					reader_mapped_cost(choice->window, facts->page);
	return 0;
}

/* Windows in memory of the reader's own. */
static int size_read(const struct reader_facts *facts, const struct reader_wish *wish,
		     struct reader_choice *choice)
{
	bool queued = choice->policy != HM_POLICY_READ;
	uint32_t n = queued ? QUEUED_WINDOWS : 1;
	uint64_t usual = queued ? WINDOW_QUEUED : WINDOW_READ, chosen, window, most;
	uint64_t grain = max_u64(facts->page, choice->unit);
	uint64_t least = reader_read_memory(choice, grain, facts->page);

	chosen = min_u64(default_window(facts, usual, n), max_u64(facts->length, 1));
	window = window_of(wish, chosen, facts->length, grain);
	if (wish->budget) {
		/* This memory has page tables, too. */
		most = mapped_within(wish->budget, facts->page);
		if (most < least)
			return refuse_budget(wish, reader_mapped_cost(least, facts->page),
					     "a page, or O_DIRECT's unit, to read into");
		most -= least - grain;
		while (n > 1 && most / n < grain)
			n--;
		window = min_u64(window, round_down(most / n, grain));
	}
	choice->window = window;
	choice->ahead = n - 1;
	choice->read = min_u64(READ_WINDOW, window);
	choice->budget = wish->budget;
	if (!choice->budget)
		choice->budget = reader_mapped_cost(
			reader_read_memory(choice, window * n, facts->page), facts->page);
	return 0;
}

/* Memory of places for @n reads of @bytes. */
static uint64_t bounces(const struct reader_facts *facts, const struct reader_choice *choice,
			uint64_t n, uint64_t bytes)
{
	return reader_mapped_cost(reader_read_memory(choice, n * bytes, facts->page),
				  facts->page);
}

/* Gives each read in flight a place to land in. */
static int size_bounces(const struct reader_facts *facts, const struct reader_wish *wish,
			struct reader_choice *choice)
{
	uint64_t least = max_u64(READ_PIECE_LEAST, choice->unit);

	choice->read = max_u64(READ_PIECE, choice->unit);
	while (choice->ahead > 1 &&
	       bounces(facts, choice, choice->ahead, least) > choice->budget)
		choice->ahead /= 2;
	while (choice->read > least &&
	       bounces(facts, choice, choice->ahead, choice->read) > choice->budget)
		choice->read /= 2;
	if (choice->budget < bounces(facts, choice, 1, least))
		return refuse_budget(wish, bounces(facts, choice, 1, least),
				     "a piece to be read past the page cache");
	return 0;
}

/* Pieces: copied out of a map of the whole file, or read to their destination. */
static int size_random(const struct reader_facts *facts, const struct reader_wish *wish,
		       struct reader_choice *choice)
{
	uint64_t least = reader_account_least(facts->size, facts->page, facts->fault);
	uint64_t worth = reader_account_worth(facts->size, facts->page, facts->fault);
	uint64_t usual = max_u64(
		min_u64(facts->ram / 4, reader_mapped_cost(facts->size, facts->page)), least);
	bool map = choice->policy <= HM_POLICY_POPULATE;

	choice->window = facts->page;
	choice->copied_from_map = map && facts->guarded &&
				  (wish->budget ? wish->budget : usual) >=
					  (wish->policy ? least : worth);
	choice->ahead = IN_FLIGHT;
	choice->read = READ_PIECE;
	choice->budget = wish->budget;
	if (!choice->budget)
		choice->budget =
			choice->copied_from_map ?
				usual :
				reader_mapped_cost(IN_FLIGHT * READ_PIECE, facts->page);
	return choice->policy == HM_POLICY_DIRECT ? size_bounces(facts, wish, choice) : 0;
}

/* ---- reasons ---- */

static void explain(const struct reader_facts *facts, const struct reader_wish *wish,
		    const char *reason, struct reader_choice *choice)
{
	char size[16], ram[16], ahead[16], window[16], budget[16], resident[48], how[96] = "";
	char unit[48] = "", without[URING_TEXT_MAX + 32] = "", text[URING_TEXT_MAX];

	if (choice->policy == HM_POLICY_AHEAD && choice->mapped)
		snprintf(how, sizeof(how), ", %s",
			 choice->begins ? "by MADV_WILLNEED" :
					  "by the kernel's own read-ahead");
	if (choice->policy == HM_POLICY_DIRECT)
		snprintf(unit, sizeof(unit), " in multiples of %" PRIu64 " bytes",
			 choice->unit);
	if (wish->pattern == HM_PATTERN_RANDOM)
		snprintf(how, sizeof(how), ", %s%s",
			 choice->copied_from_map           ? "copied out of a map" :
			 choice->policy >= HM_POLICY_URING ? "by io_uring" :
							     "copied by pread(2)",
			 wish->policy || !choice->copied_from_map ?
				 "" :
				 ", looked at again now and then");
	/* For the policy that would have been chosen otherwise. */
	if (!wish->policy && choice->policy == HM_POLICY_READ && facts->uring &&
	    !facts->several && !is_resident(facts))
		snprintf(without, sizeof(without), ", and io_uring can't be had, %s",
			 uring_explain(facts->uring, text, sizeof(text)));
	snprintf(choice->why, sizeof(choice->why),
		 "%s%s%s, because %s%s: %s on %s, %s, read-ahead %s, memory %s; windows of %s, "
		 "budget %s",
		 hm_policy_name(choice->policy), unit, how, reason, without,
		 format_bytes(facts->size, size, sizeof(size)), facts->fs,
		 of_resident(facts, resident, sizeof(resident)),
		 facts->read_ahead ? format_bytes(facts->read_ahead, ahead, sizeof(ahead)) :
				     "unknown",
		 format_bytes(facts->ram, ram, sizeof(ram)),
		 format_bytes(choice->window, window, sizeof(window)),
		 format_bytes(choice->budget, budget, sizeof(budget)));
}

int reader_choose(const struct reader_facts *facts, const struct reader_wish *wish,
		  struct reader_choice *ret_choice)
{
	struct reader_choice choice = { .policy = wish->policy };
	const char *reason = "the caller chose it";
	int r;

	if (choice.policy == HM_POLICY_AUTO)
		choice.policy = pick(facts, wish, &reason);
	r = check_policy(facts, choice.policy);
	if (r)
		return r;
	choice.unit = choice.policy == HM_POLICY_DIRECT ? facts->direct : 1;
	if (wish->pattern == HM_PATTERN_RANDOM)
		r = size_random(facts, wish, &choice);
	else if (choice.policy <= HM_POLICY_POPULATE)
		r = size_mapped(facts, wish, &choice);
	else
		r = size_read(facts, wish, &choice);
	if (r)
		return r;
	explain(facts, wish, reason, &choice);
	*ret_choice = choice;
	return 0;
}

const char *hm_policy_name(uint32_t policy)
{
	static const char *const names[] = {
		[HM_POLICY_AUTO] = "auto",         [HM_POLICY_FAULT] = "fault",
		[HM_POLICY_AHEAD] = "ahead",       [HM_POLICY_ANNOUNCE] = "announce",
		[HM_POLICY_POPULATE] = "populate", [HM_POLICY_READ] = "read",
		[HM_POLICY_URING] = "uring",       [HM_POLICY_DIRECT] = "direct",
	};

	return policy < ARRAY_SIZE(names) ? names[policy] : NULL;
}
