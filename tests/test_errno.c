// SPDX-License-Identifier: MIT
/*
 * EINTR, EAGAIN, ENOMEM and their kin: each operation with each system call that it
 * makes failing so, a few times, and for ever. What is made again succeeds as if nothing
 * had been; what is given back is what the headers say.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject.h"
#include "undo.h"

/* Those that the library makes again after EINTR. */
static const char *const repeated[] = {
	"munmap",       "mprotect",  "madvise",   "mlock2",  "munlock",    "msync",
	"mbind",        "open",      "fcntl",     "dup3",    "fstat",      "fstatfs",
	"memfd_create", "ftruncate", "fallocate", "read",    "write",      "pread",
	"pwrite",       "pipe2",     "eventfd",   "sendmsg", "recvmsg",    "readlink",
	"move_pages",   "lseek",     "prctl",     "mseal",   "getsockopt",
};

#define REPEATED (sizeof(repeated) / sizeof(repeated[0]))

static int run(const struct operation *operation, const char *name, int error,
	       unsigned int times, bool *ret_failed)
{
	struct test_holding before = test_holding_now(), after;
	struct world world;
	int r;

	undo_set_up(operation, &world);
	test_forget_text();
	inject_some(name, error, times);
	r = operation->run(&world);
	*ret_failed = inject_disarm();
	if (r && !hm_errmsg()[0])
		test_fail(__FILE__, __LINE__, "%s, %s: %d without a text", operation->name,
			  name, r);
	undo_tear_down(&world);
	inject_forgive();
	after = test_holding_now();
	if (!times)
		return r; /* what is made once was made */
	if (after.fds != before.fds || after.locked != before.locked ||
	    after.objects != before.objects || after.mapped > before.mapped)
		test_fail(__FILE__, __LINE__, "%s, %s: something is left over", operation->name,
			  name);
	return r;
}

/* Makes what is made once. */
static void begin(void)
{
	bool failed;
	unsigned int i;

	undo_device = "host";
	inject_install();
	for (i = 0; i < undo_n_operation; i++)
		CHECK_OK(run(&undo_operations[i], "none", 0, 0, &failed));
}

/* A few interruptions are nobody's business; calls that can't be repeated get none. */
static void interrupted(void)
{
	unsigned int i, k, hits = 0;
	bool failed;
	int r;

	begin();
	for (i = 0; i < undo_n_operation; i++)
		for (k = 0; k < REPEATED; k++) {
			r = run(&undo_operations[i], repeated[k], EINTR, 3, &failed);
			hits += failed;
			if (r)
				test_fail(__FILE__, __LINE__, "%s, %s interrupted: %d (%s)",
					  undo_operations[i].name, repeated[k], r, hm_errmsg());
		}
	CHECK(hits > 100);
}

/* What can't be unlocked does not give way: that is what is told. */
static bool is_shortage(const char *operation, const char *call, int r)
{
	return !strcmp(call, "munlock") &&
	       ((r == -ENOMEM && !strcmp(operation, "lock_evicting")) ||
		(r == -EBUSY && !strcmp(operation, "lock_budget")));
}

/* For ever: it ends all the same, as done (a help failed only), or with -EINTR. */
static void interrupted_for_ever(void)
{
	unsigned int i, k;
	bool failed;
	int r;

	begin();
	for (i = 0; i < undo_n_operation; i++)
		for (k = 0; k < REPEATED; k++) {
			r = run(&undo_operations[i], repeated[k], EINTR, ~0u, &failed);
			if (r && r != -EINTR &&
			    !is_shortage(undo_operations[i].name, repeated[k], r))
				test_fail(__FILE__, __LINE__, "%s, %s interrupted: %d (%s)",
					  undo_operations[i].name, repeated[k], r, hm_errmsg());
		}
}

/* What is given back, and what a later try makes good. */
static const struct row {
	const char *operation, *call;
	int error;
	int some; /* of an operation whose first 3 calls fail so */
	int ever; /* all of them */
} rows[] = {
	/* "A kernel resource was temporarily unavailable" [madvise(2)]. */
	{ "advise_cold", "madvise", EAGAIN, 0, -EAGAIN },
	{ "prefetch_read", "madvise", EAGAIN, 0, -EAGAIN },
	{ "advise_cold", "madvise", EINVAL, -EOPNOTSUPP, -EOPNOTSUPP },
	{ "prefetch_read", "madvise", EFAULT, -EFAULT, -EFAULT },
	{ "prefetch_read", "madvise", ENOMEM, -ENOMEM, -ENOMEM },
	/* No memory for pages [mlock(2)]: a later call, or by the page on fault. */
	{ "lock", "mlock2", EAGAIN, -EAGAIN, -EAGAIN },
	{ "lock", "mlock2", ENOMEM, -ENOMEM, -ENOMEM },
	{ "lock", "mlock2", EPERM, -EPERM, -EPERM },
	{ "lock_evicting", "mlock2", EAGAIN, -EAGAIN, -EAGAIN },
	{ "lock_restore", "mlock2", ENOMEM, 0, 0 },
	{ "unlock", "munlock", ENOMEM, -ENOMEM, -ENOMEM },
	/* Under mlockall(MCL_FUTURE) [mmap(2)]: not for the moment. */
	{ "map_whole", "mmap", EAGAIN, -EAGAIN, -EAGAIN },
	{ "map_whole", "mmap", ENOMEM, -ENOMEM, -ENOMEM },
	{ "map_whole", "mmap", EPERM, -EPERM, -EPERM },
	{ "protect", "mprotect", ENOMEM, -ENOMEM, -ENOMEM },
	{ "protect", "mprotect", EACCES, -EACCES, -EACCES },
	{ "scope_begin", "mprotect", ENOMEM, -ENOMEM, -ENOMEM },
	{ "create_shared", "memfd_create", EMFILE, -EMFILE, -EMFILE },
	{ "create_shared", "memfd_create", ENFILE, -ENFILE, -ENFILE },
	{ "create_shared", "memfd_create", ENOMEM, -ENOMEM, -ENOMEM },
	{ "from_path", "open", EMFILE, -EMFILE, -EMFILE },
	{ "from_path", "open", EACCES, -EACCES, -EACCES },
	{ "export_plain", "fcntl", EMFILE, -EMFILE, -EMFILE },
	/* The socket does not wait: for who waits in poll(). */
	{ "send", "sendmsg", EAGAIN, -EAGAIN, -EAGAIN },
	{ "send", "sendmsg", EPIPE, -EPIPE, -EPIPE },
	{ "send", "sendmsg", ETOOMANYREFS, -ETOOMANYREFS, -ETOOMANYREFS },
	{ "receive", "recvmsg", EAGAIN, -EAGAIN, -EAGAIN },
	{ "receive", "recvmsg", ECONNRESET, -ECONNRESET, -ECONNRESET },
	{ "sync_file", "msync", EIO, -EIO, -EIO },
	{ "sync_file", "msync", ENOSPC, -ENOSPC, -ENOSPC },
	{ "sync_file", "msync", EDQUOT, -EDQUOT, -EDQUOT },
	{ "map_query", "open", ENOENT, -ENOENT, -ENOENT },
	{ "shrink_shared", "fallocate", EPERM, -EPERM, -EPERM },
	/* A number that open() is about to give out [dup(2)]. */
	{ "seal_two", "dup3", EBUSY, 0, -EBUSY },
	{ "seal_two", "mremap", ENOMEM, -ENOMEM, -ENOMEM },
	{ "replace", "mremap", ENOMEM, -ENOMEM, -ENOMEM },
	{ "lock", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "scope_begin", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "seal_two", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "map_whole", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "create_shared", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
};

static const struct operation *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < undo_n_operation; i++)
		if (!strcmp(undo_operations[i].name, name))
			return &undo_operations[i];
	test_fail(__FILE__, __LINE__, "there is no operation %s", name);
	test_abandon();
}

static void expect(const struct row *row, unsigned int times, int expected)
{
	bool failed;
	int r = run(find(row->operation), row->call, row->error, times, &failed);

	if (!failed)
		test_fail(__FILE__, __LINE__, "%s makes no %s", row->operation, row->call);
	if (r != expected)
		test_fail(__FILE__, __LINE__, "%s, %s with %d %s: %d instead of %d (%s)",
			  row->operation, row->call, row->error,
			  times == 3 ? "3 times" : "for ever", r, expected, hm_errmsg());
}

static void given_back(void)
{
	size_t i;

	begin();
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		expect(&rows[i], 3, rows[i].some);
		expect(&rows[i], ~0u, rows[i].ever);
	}
}

static const struct test tests[] = {
	{ "interrupted", interrupted, 120, 0 },
	{ "interrupted_for_ever", interrupted_for_ever, 120, 0 },
	{ "given_back", given_back, 60, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	return harness_main(argc, argv, "errno", tests);
}
