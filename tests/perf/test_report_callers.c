// SPDX-License-Identifier: MIT
/*
 * The caller of a function of the C library is the word at the top of the stack if the function
 * keeps nothing there and has no frame pointer. The call chain of such a fault goes on with the
 * caller's caller.
 */
#include <inttypes.h>

#include "perf/written_trace.h"

/* A function like memset(); one that has saved a register; and one with a frame pointer. */
__asm__(".pushsection .text\n"
	".type leaf,@function\n.type framed,@function\n"
	"leaf: .cfi_startproc\n"
	"nop\n"
	"push %rbx\n.cfi_adjust_cfa_offset 8\n"
	"deep: nop\n"
	"pop %rbx\n.cfi_adjust_cfa_offset -8\n"
	"ret\n.cfi_endproc\n.size leaf, . - leaf\n"
	"framed: .cfi_startproc\n"
	"push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbp, 0\n"
	"mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
	"inside: nop\n"
	"pop %rbp\n.cfi_def_cfa %rsp, 8\n"
	"ret\n.cfi_endproc\n.size framed, . - framed\n"
	".popsection\n");
extern const char leaf[], deep[], framed[], inside[];

__attribute__((noinline, used)) static void the_caller(void)
{
	__asm__ volatile("nop");
}

__attribute__((noinline, used)) static void callers_caller(void)
{
	__asm__ volatile("nop; nop");
}

/* The offset of @code in this program's file. */
static uint64_t offset_of(const void *code)
{
	uint64_t at = (uintptr_t)code, start, end, offset, found = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	CHECK_FATAL(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end,
			   &offset) == 3 &&
		    at >= start && at < end)
			found = at - start + offset;
	fclose(maps);
	CHECK_FATAL(found);
	return found;
}

/* This program, under the name @library, is mapped at CODE. */
static void begin_as(struct written *written, const char *library)
{
	char command[600], *path;

	begin(written);
	path = folder_path(written->folder, library);
	snprintf(command, sizeof(command), "cp /proc/%d/exe '%s'", (int)getpid(), path);
	CHECK_EQUAL(system(command), 0);
	written->inode = 0;
	put_name(written, PID, "program", true);
	put_map(written, PID, CODE, UINT64_C(64) << 20, path, true);
	put_map(written, PID, MEMORY, MEMORY_BYTES, "/data", false);
	free(path);
}

static void check_text(const char *text, const char *expected)
{
	if (strcmp(text, expected))
		test_fail(__FILE__, __LINE__, "'%s', not '%s'", text, expected);
}

/* Checks the report of one fault at @instruction, with @top at the stack's top; 0: unknown. */
static void check_named(const char *library, const char *instruction, uint64_t top,
			const char *function, const char *line)
{
	const uint64_t chain[] = { CODE + offset_of(instruction),
				   CODE + offset_of((const void *)callers_caller) + 1 };
	AUTO(written) written = { 0 };
	AUTO_TEXT *folded = NULL;
	AUTO(json_t) *json = NULL;

	begin_as(&written, library);
	written.stack_top = top;
	put_fault(&written, PID, MEMORY, 2, chain);
	finish(&written, json_object());
	json = json_of(&written);
	CHECK_EQUAL(json_array_size(json_object_get(json, "sites")), 1);
	check_text(string_of(json_array_get(json_object_get(json, "sites"), 0), "function"),
		   function);
	folded = report_as(&written, "--folded");
	check_text(folded, line);
}

static void test_top(void)
{
	uint64_t caller = CODE + offset_of((const void *)the_caller) + 1;

	check_named("libc.so.6", leaf, caller, "the_caller",
		    "program;callers_caller;the_caller;leaf;/data 1\n");
	/*
	 * Functions of other files are reported themselves: they have frame pointers, or are
	 * unknown.
	 */
	check_named("program", leaf, caller, "leaf", "program;callers_caller;leaf;/data 1\n");
}

/* If the caller is unknown, no other function is named. */
static void test_not_told(void)
{
	uint64_t caller = CODE + offset_of((const void *)the_caller) + 1;
	static const char line[] = "program;callers_caller;leaf;/data 1\n";

	check_named("libc.so.6", leaf, 0, "leaf", line);
	check_named("libc.so.6", leaf, MEMORY, "leaf", line);
	check_named("libc.so.6", deep, caller, "leaf", line);
}

static void test_frame_pointer(void)
{
	uint64_t caller = CODE + offset_of((const void *)the_caller) + 1;

	check_named("libc.so.6", inside, caller, "callers_caller",
		    "program;callers_caller;framed;/data 1\n");
}

/* Words at the top of the stack that are no code do not make call sites of their own. */
static void test_many_words(void)
{
	const uint64_t chain[] = { CODE + offset_of(deep) };
	struct analysis analysis;
	AUTO(written) written = { 0 };
	uint64_t i;

	begin_as(&written, "libc.so.6");
	for (i = 0; i < 100; i++) {
		written.stack_top = MEMORY + i;
		put_fault(&written, PID, MEMORY + i * PAGE, 1, chain);
	}
	finish(&written, json_object());
	CHECK_EQUAL(analysis_read(written.trace.path, ANALYSIS_STACKS, NULL, &analysis), 0);
	CHECK_EQUAL(analysis.n_site, 1);
	analysis_free(&analysis);
}

static const struct test tests[] = {
	{ "top", test_top, 60, TEST_ONCE },
	{ "not_told", test_not_told, 60, TEST_ONCE },
	{ "frame_pointer", test_frame_pointer, 60, TEST_ONCE },
	{ "many_words", test_many_words, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_callers", tests)
