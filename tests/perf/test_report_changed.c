// SPDX-License-Identifier: MIT
/*
 * Functions are named by the file that was recorded, and by no other that is at its path: of a
 * recording with inodes, with build IDs, and of a process in a root of its own.
 */
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "perf/written_trace.h"

#define BUILD_ID 20

/* The function to find; a test's program has its symbols. */
__attribute__((noinline, used)) static void the_function(void)
{
	__asm__ volatile("");
}

struct code {
	const char *name;
	uint32_t pid;
	uint64_t inode;
	const uint8_t *build_id; /* NULL: the inode */
};

static void put_code(struct written *written, const struct code *code)
{
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
		uint64_t address, length, offset;
		union {
			struct {
				uint32_t major, minor;
				uint64_t inode, generation;
			};
			struct {
				uint8_t n, reserved[3], id[BUILD_ID];
			};
		};
		uint32_t prot, flags;
		char name[NAME_MOST];
	} record = {
		.header.misc = PERF_RECORD_MISC_USER,
		.pid = code->pid,
		.tid = code->pid,
		.address = CODE,
		.length = UINT64_C(64) << 20,
		.inode = code->inode,
		.prot = PROT_READ | PROT_EXEC,
		.flags = MAP_PRIVATE,
	};
	size_t padded = (strlen(code->name) + 8) / 8 * 8;

	if (code->build_id) {
		record.header.misc |= PERF_RECORD_MISC_MMAP_BUILD_ID;
		record.n = BUILD_ID;
		memcpy(record.id, code->build_id, BUILD_ID);
	}
	strcpy(record.name, code->name);
	put(written, &record, PERF_RECORD_MMAP2,
	    (size_t)(record.name + padded - (char *)&record), code->pid);
}

/* Where in this program's file the function is. */
static uint64_t place_of_function(void)
{
	uint64_t at = (uintptr_t)the_function, start, end, offset;
	char line[512];
	FILE *maps = fopen("/proc/self/maps", "re");

	CHECK_FATAL(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &start, &end,
			   &offset) == 3 &&
		    at >= start && at < end)
			break;
	fclose(maps);
	return at - start + offset;
}

static int find_build_id(struct dl_phdr_info *info, size_t size, void *user)
{
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *head = &info->dlpi_phdr[i];
		const char *at = (const char *)(info->dlpi_addr + head->p_vaddr);
		const char *end = at + head->p_memsz;

		while (head->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(const void *)at;

			at += sizeof(*note) + ((note->n_namesz + 3) & ~3u);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz == BUILD_ID) {
				memcpy(user, at, BUILD_ID);
				return 2;
			}
			at += (note->n_descsz + 3) & ~3u;
		}
	}
	return 1; /* only this program's own file */
}

static char *copy_of_self(const struct written *written, const char *name)
{
	char *path = folder_path(written->folder, name), command[600];

	snprintf(command, sizeof(command), "cp /proc/%d/exe '%s'", (int)getpid(), path);
	CHECK_EQUAL(system(command), 0);
	return path;
}

static uint64_t inode_of(const char *path)
{
	struct stat st;

	CHECK_FATAL(!stat(path, &st));
	return st.st_ino;
}

/* Page faults in it; @changed: another file is there, and its functions are not told. */
static void check_named(struct written *written, const struct code *code, bool changed)
{
	uint64_t place = place_of_function(), ip = CODE + place;
	json_t *json, *site;
	char *text, words[64];

	put_name(written, code->pid, "changed", true);
	put_code(written, code);
	put_map(written, code->pid, MEMORY, MEMORY_BYTES, "//anon", false);
	put_fault(written, code->pid, MEMORY, 1, &ip);
	finish(written, json_object());
	json = json_of(written);
	site = json_array_get(json_object_get(json, "sites"), 0);
	if (strcmp(string_of(site, "function"), changed ? "" : "the_function") != 0)
		test_fail(__FILE__, __LINE__, "it is named '%s'", string_of(site, "function"));
	if (changed)
		CHECK_EQUAL((uint64_t)integer_of(site, "changed_at"), place);
	json_decref(json);
	text = report_as(written, NULL);
	snprintf(words, sizeof(words), "+0x%" PRIx64 " (changed since)", place);
	CHECK_EQUAL(strstr(text, words) != NULL, changed);
	CHECK_EQUAL(strstr(text, "not those that were recorded") != NULL, changed);
	free(text);
	text = report_as(written, "--folded");
	CHECK_EQUAL(strstr(text, "the_function") != NULL, !changed);
	free(text);
}

static void test_inode(void)
{
	struct written written;
	uint32_t other;
	char *path;

	for (other = 0; other < 2; other++) {
		begin(&written);
		path = copy_of_self(&written, "program");
		check_named(&written, &(struct code){ path, PID, inode_of(path) + other, NULL },
			    other);
		free(path);
		end(&written);
	}
}

/* The same inode, written to behind the end of the recording. */
static void test_written(void)
{
	struct timespec times[2] = { { 0 }, { 0 } };
	AUTO(written) written = { 0 };
	AUTO_TEXT *path = NULL;

	begin(&written);
	path = copy_of_self(&written, "program");
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_sec = time(NULL) + 100;
	CHECK_OK(utimensat(AT_FDCWD, path, times, 0));
	check_named(&written, &(struct code){ path, PID, inode_of(path), NULL }, true);
}

/* As perf record --buildid-mmap has it: whichever inode it is now. */
static void test_build_id(void)
{
	uint8_t build_id[BUILD_ID];
	struct written written;
	uint32_t other;
	char *path;

	if (dl_iterate_phdr(find_build_id, build_id) != 2) {
		test_skip("kernel", "this compiler makes no build IDs of 20 bytes");
		return;
	}
	for (other = 0; other < 2; other++) {
		begin(&written);
		path = copy_of_self(&written, "program");
		build_id[BUILD_ID - 1] ^= (uint8_t)other;
		check_named(&written, &(struct code){ path, PID, 0, build_id }, other);
		free(path);
		end(&written);
	}
}

/* A process that is there still has its own file at that path, which is none here. */
static void test_other_root(void)
{
	AUTO(written) written = { 0 };
	struct code code = { .name = "/hetmap-test-program" };
	int ready[2];
	pid_t child;
	char *path, byte;

	if (geteuid()) {
		test_skip("kernel", "only root can have another root");
		return;
	}
	begin(&written);
	path = copy_of_self(&written, "hetmap-test-program");
	CHECK_FATAL(!pipe2(ready, O_CLOEXEC));
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (!chroot(written.folder) && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	CHECK_FATAL(child > 0 && read(ready[0], &byte, 1) == 1);
	close(ready[0]);
	code.pid = (uint32_t)child;
	code.inode = inode_of(path);
	check_named(&written, &code, false);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	free(path);
}

static const struct test tests[] = {
	{ "inode", test_inode, 60, TEST_ONCE },
	{ "written", test_written, 60, TEST_ONCE },
	{ "build_id", test_build_id, 60, TEST_ONCE },
	{ "other_root", test_other_root, 60, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

TEST_MAIN(harness_main, "report_changed", tests)
