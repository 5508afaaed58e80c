// SPDX-License-Identifier: MIT
/*
 * EINTR, EAGAIN, ENOMEM and their kin: each operation with each of its system calls failing so,
 * a few times, and for ever. A repeated call succeeds as if nothing had been; an error that
 * comes back is the one that the headers name.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <hetmap/sim.h>
#include <uapi/hetsim.h>

#include "lib/inject.h"
#include "core/undo.h"

/* Those that the library makes again after EINTR. */
static const char *const repeated[] = {
	"munmap",       "mprotect",  "madvise",   "mlock2",  "munlock",    "msync",
	"mbind",        "open",      "fcntl",     "dup3",    "fstat",      "fstatfs",
	"memfd_create", "ftruncate", "fallocate", "read",    "write",      "pread",
	"pwrite",       "pipe2",     "eventfd",   "sendmsg", "recvmsg",    "readlink",
	"move_pages",   "lseek",     "prctl",     "mseal",   "getsockopt", "poll",
	"ioctl",
};

#define REPEATED (sizeof(repeated) / sizeof(repeated[0]))

/* The holding before this run, and after the one before it. */
static struct test_holding before;

static int run(const struct operation *operation, const char *name, int error,
	       unsigned int times, bool *ret_failed)
{
	struct test_holding after;
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
	/* Objects made once are made in the run that fails no call. */
	if (times && (after.fds != before.fds || after.locked != before.locked ||
		      after.objects != before.objects || after.mapped > before.mapped))
		test_fail(__FILE__, __LINE__, "%s, %s: something is left over", operation->name,
			  name);
	before = after;
	return r;
}

static bool runs_here[200]; /* each of undo_operations, on undo_device */

/* Makes the objects that are made once. */
static void begin(const char *device)
{
	bool failed;
	unsigned int i;

	CHECK_FATAL(undo_n_operation <= sizeof(runs_here) / sizeof(runs_here[0]));
	undo_device = device;
	inject_install();
	for (i = 0; i < undo_n_operation; i++) {
		runs_here[i] = undo_runs_on(&undo_operations[i], device);
		if (runs_here[i])
			CHECK_OK(run(&undo_operations[i], "none", 0, 0, &failed));
	}
}

/* A few interruptions are nobody's business; calls that can't be repeated get none. */
static void interrupt(const char *device, unsigned int least_hits)
{
	unsigned int i, k, hits = 0;
	bool failed;
	int r;

	begin(device);
	for (i = 0; i < undo_n_operation; i++)
		for (k = 0; runs_here[i] && k < REPEATED; k++) {
			r = run(&undo_operations[i], repeated[k], EINTR, 3, &failed);
			hits += failed;
			if (r)
				test_fail(__FILE__, __LINE__, "%s, %s interrupted: %d (%s)",
					  undo_operations[i].name, repeated[k], r, hm_errmsg());
		}
	if (hits < least_hits)
		test_fail(__FILE__, __LINE__, "only %u operations were interrupted", hits);
}

/* Bytes that can't be unlocked do not give way: the error is a shortage. */
static bool is_shortage(const char *operation, const char *call, int r)
{
	return !strcmp(call, "munlock") &&
	       ((r == -ENOMEM && !strcmp(operation, "lock_evicting")) ||
		(r == -EBUSY && !strcmp(operation, "lock_budget")));
}

/* For ever: it ends all the same, as done (a help failed only), or with -EINTR. */
static void interrupt_for_ever(const char *device)
{
	unsigned int i, k;
	bool failed;
	int r;

	begin(device);
	for (i = 0; i < undo_n_operation; i++)
		for (k = 0; runs_here[i] && k < REPEATED; k++) {
			r = run(&undo_operations[i], repeated[k], EINTR, ~0u, &failed);
			if (r && r != -EINTR &&
			    !is_shortage(undo_operations[i].name, repeated[k], r))
				test_fail(__FILE__, __LINE__, "%s, %s interrupted: %d (%s)",
					  undo_operations[i].name, repeated[k], r, hm_errmsg());
		}
}

static void on_host(void)
{
	interrupt("host", 100);
}

static void on_host_for_ever(void)
{
	interrupt_for_ever("host");
}

static void on_soft(void)
{
	interrupt("soft:0", 60);
}

static void on_soft_for_ever(void)
{
	interrupt_for_ever("soft:0");
}

static void on_sim(void)
{
	interrupt("sim:0", 60);
}

static void on_sim_for_ever(void)
{
	interrupt_for_ever("sim:0");
}

/* ---- a device that was taken away, and is there again ---- */

static void lost_buffer(struct world *world)
{
	struct hetsim_inject unplug = { .size = sizeof(unplug), .kind = HETSIM_INJECT_UNPLUG };

	CHECK_OK_FATAL(hm_device_open("soft:0", &world->device));
	world->buffer = rig_buffer(world->device,
				   DESC(hm_buffer_desc, .size = SIZE, .max_size = MAX_SIZE));
	CHECK_OK_FATAL(hm_map_create(world->buffer, NULL, &world->map));
	pattern_write(hm_map_address(world->map), 0, SIZE, 1);
	CHECK_OK_FATAL(hm_buffer_set_loss(world->buffer,
					  DESC(hm_loss_desc, .policy = HM_LOSS_SHADOW)));
	CHECK_OK_FATAL(hm_sim_call(world->device, HETSIM_INJECT, &unplug));
	CHECK_OK_FATAL(hm_sim_plug("soft:0"));
}

/* The error that keeps a buffer from coming back counts, too. */
static int run_recover(struct world *world)
{
	struct hm_recover_info info = { .struct_size = sizeof(info) };
	int r = hm_device_recover(world->device, HM_RECOVER_SHADOWED, &info);

	return r ? r : info.error;
}

static const struct operation recover = { "recover", lost_buffer, run_recover, false,
					  UNDO_HOST };

/* Errors that come back, and errors that a later try makes good. */
static const struct row {
	const char *operation, *call;
	int error;
	int some; /* result if the first 3 calls fail so */
	int ever; /* result if all of them do */
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
	/* The socket does not wait: the caller waits in poll(). */
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
	/* "The kernel is temporarily out of resources" [mincore(2)]. */
	{ "pointer_query", "mincore", EAGAIN, 0, -EAGAIN },
	{ "pointer_query", "mincore", ENOMEM, -ENOMEM, -ENOMEM },
	{ "pointer_query", "read", EIO, -EIO, -EIO },
	{ "map_query", "read", EIO, -EIO, -EIO },
	{ "budget_query", "open", EMFILE, -EMFILE, -EMFILE },
	{ "budget_query", "open", ENOENT, -ENOENT, -ENOENT },
	{ "budget_query", "read", EIO, -EIO, -EIO },
	{ "copy_out", "pthread_sigmask", ENOSYS, -EPERM, -EPERM },
	{ "guard_blocked", "pthread_sigmask", EACCES, -EPERM, -EPERM },
	{ "set_loss", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "set_loss", "memfd_create", EMFILE, -EMFILE, -EMFILE },
	{ "set_loss", "memfd_create", ENFILE, -ENFILE, -ENFILE },
	{ "set_loss", "ftruncate", EFBIG, -EFBIG, -EFBIG },
	{ "set_loss", "mmap", ENOMEM, -ENOMEM, -ENOMEM },
	{ "set_loss", "fallocate", ENOSPC, -ENOMEM, -ENOMEM },
	{ "set_loss", "fallocate", ENOMEM, -ENOMEM, -ENOMEM },
	{ "set_loss", "pwrite", EIO, -EIO, -EIO },
	{ "set_loss", "pwrite", ENOMEM, -ENOMEM, -ENOMEM },
	{ "shadow", "pwrite", EIO, -EIO, -EIO },
	{ "shadow", "pwrite", ENOMEM, -ENOMEM, -ENOMEM },
	/* As of hm_device_open(), or of the one buffer. */
	{ "recover", "calloc", ENOMEM, -ENOMEM, -ENOMEM },
	{ "recover", "memfd_create", EMFILE, -EMFILE, -EMFILE },
	{ "recover", "memfd_create", ENFILE, -ENFILE, -ENFILE },
	{ "recover", "mmap", ENOMEM, -ENOMEM, -ENOMEM },
};

static const struct operation *find(const char *name)
{
	unsigned int i;

	for (i = 0; i < undo_n_operation; i++)
		if (!strcmp(undo_operations[i].name, name))
			return &undo_operations[i];
	if (!strcmp(recover.name, name))
		return &recover;
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
	bool failed;
	size_t i;

	begin("host");
	CHECK_OK(run(&recover, "none", 0, 0, &failed));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		expect(&rows[i], 3, rows[i].some);
		expect(&rows[i], ~0u, rows[i].ever);
	}
}

/* Once is enough for the last tests, which run in machines: each run checks what it leaves. */
static struct test tests[] = {
	{ "host.interrupted", on_host, 120, 0 },
	{ "host.interrupted_for_ever", on_host_for_ever, 120, 0 },
	{ "host.given_back", given_back, 60, 0 },
	{ "soft.interrupted", on_soft, 120, 0 },
	{ "soft.interrupted_for_ever", on_soft_for_ever, 120, 0 },
	{ "sim.interrupted", on_sim, 120, TEST_ONCE },
	{ "sim.interrupted_for_ever", on_sim_for_ever, 120, TEST_ONCE },
	{ NULL, NULL, 0, 0 },
};

#define SIM_TESTS 2

int main(int argc, char **argv)
{
	struct hm_device *device;

	setenv("HETMAP_SOFT", "test=1", 1);
	if (hm_device_open("sim:0", &device))
		tests[sizeof(tests) / sizeof(tests[0]) - 1 - SIM_TESTS].name = NULL;
	else
		hm_device_unref(device);
	return harness_main(argc, argv, "errno", tests);
}
