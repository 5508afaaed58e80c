// SPDX-License-Identifier: MIT
/* What is kept for a thread: where its scopes are found, and what its signal mask was. */
#include <errno.h>
#include <hetmap/guard.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat.h"
#include "guard_support.h"
#include "handler.h"
#include "inject.h"
#include "others_handler.h"

#define PAGE 4096ull
#define SIZE (8 * PAGE)
#define STACK (2ull << 20) /* sanitizers take their part */

/* ---- threads end ---- */

static void no_key(void)
{
	inject_always("pthread_key_create", EAGAIN);
	CHECK_ERROR(-EAGAIN, hm_handler_install(0));
	CHECK(strstr(hm_errmsg(), "PTHREAD_KEYS_MAX") != NULL);
	CHECK(inject_disarm());
	/* Nothing was installed. */
	CHECK_ERROR(-EINVAL, hm_handler_remove());
	CHECK_OK(hm_handler_install(0));
	CHECK_OK(hm_handler_remove());
	/* Once is enough. */
	inject_always("pthread_key_create", EAGAIN);
	CHECK_OK(hm_handler_install(0));
	CHECK(!inject_disarm());
	CHECK_OK(hm_handler_remove());
}

static void *copy_unregistered(void *user)
{
	char *base = user, byte;

	inject_always("pthread_setspecific", ENOMEM);
	CHECK_ERROR(-ENOMEM, hm_copy_out(&byte, base, 1, NULL));
	CHECK(!guard_innermost());
	CHECK(inject_disarm());
	CHECK_OK(hm_copy_out(&byte, base, 1, NULL));
	CHECK(guard_innermost() != NULL);
	/* Until it ends. */
	inject_always("pthread_setspecific", ENOMEM);
	CHECK_OK(hm_copy_out(&byte, base, 1, NULL));
	CHECK(!inject_disarm());
	return NULL;
}

static void unregistered(void)
{
	struct file_map file;
	pthread_t thread;

	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	CHECK_FATAL(!pthread_create(&thread, NULL, copy_unregistered, file.base));
	pthread_join(thread, NULL);
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

static pthread_t run_on(char *stack, void *(*run)(void *), void *user)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	CHECK_FATAL(!pthread_attr_setstack(&attr, stack, STACK));
	CHECK_FATAL(!pthread_create(&thread, &attr, run, user));
	pthread_attr_destroy(&attr);
	return thread;
}

static void *end_inside(void *user)
{
	struct hm_guard guard;

	(void)user;
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	return NULL;
}

static void *begin_and_end(void *user)
{
	struct hm_guard guard;

	(void)user;
	/* A fault would be the dead thread's scope's. */
	CHECK(!guard_innermost());
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_guard_begin(&guard));
	CHECK(*guard_innermost() == &guard);
	CHECK_OK(hm_guard_end(&guard));
	CHECK(!*guard_innermost());
	return NULL;
}

/* A thread's name is an address at the end of its stack: two have it, one after the other. */
static void same_name(void)
{
	char *stack;

	CHECK_OK_FATAL(hm_handler_install(0));
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(stack != MAP_FAILED);
	pthread_join(run_on(stack, end_inside, NULL), NULL);
	pthread_join(run_on(stack, begin_and_end, NULL), NULL);
	munmap(stack, STACK);
	CHECK_OK(hm_handler_remove());
}

static struct {
	pthread_key_t key;
	const char *base;
	int times;
} late;

/* Each time anew, until the C library has had enough of it [PTHREAD_DESTRUCTOR_ITERATIONS]. */
static void copy_late(void *user)
{
	char byte;

	CHECK_OK(hm_copy_out(&byte, late.base, 1, NULL));
	late.times++;
	/* TSan's own of the thread goes in the last of them. */
	if (!TEST_TSAN || late.times < 2)
		pthread_setspecific(late.key, user);
}

static void *end_with_copies(void *user)
{
	pthread_setspecific(late.key, user);
	return NULL;
}

static void *copy_one(void *user)
{
	char byte;

	CHECK_OK(hm_copy_out(&byte, user, 1, NULL));
	CHECK(!*guard_innermost());
	return NULL;
}

/* Copies while the thread ends, behind what is told of the end, too. */
static void late_copies(void)
{
	struct file_map file;
	char *stack;

	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	late.base = file.base;
	late.times = 0;
	CHECK_FATAL(!pthread_key_create(&late.key, copy_late));
	stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(stack != MAP_FAILED);
	pthread_join(run_on(stack, end_with_copies, file.base), NULL);
	CHECK(late.times > 1);
	pthread_join(run_on(stack, copy_one, file.base), NULL);
	munmap(stack, STACK);
	pthread_key_delete(late.key);
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

/* ---- as many as there may be ---- */

#define SLOTS 8192 /* guard.c */

static struct {
	const char *base;
	_Atomic unsigned int there, refused;
	pthread_mutex_t gate; /* held while they are to stay */
} crowd = { .gate = PTHREAD_MUTEX_INITIALIZER };

static void *copy_and_stay(void *user)
{
	char byte;

	(void)user;
	if (hm_copy_out(&byte, crowd.base, 1, NULL))
		atomic_fetch_add(&crowd.refused, 1);
	atomic_fetch_add(&crowd.there, 1);
	pthread_mutex_lock(&crowd.gate);
	pthread_mutex_unlock(&crowd.gate);
	return NULL;
}

/* Each thread has room of its own; one more is told, and has it when one has ended. */
static void crowded(void)
{
	static pthread_t threads[SLOTS];
	struct file_map file;
	struct hm_guard guard;
	pthread_attr_t small;
	unsigned int i, n;
	char byte;

	if (TEST_TSAN || TEST_ASAN) {
		test_skip("sanitizer", "sanitizers have not room for so many threads");
		return;
	}
	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	crowd.base = file.base;
	pthread_mutex_lock(&crowd.gate);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (n = 0; n < SLOTS; n++)
		if (pthread_create(&threads[n], &small, copy_and_stay, NULL))
			break;
	pthread_attr_destroy(&small);
	while (atomic_load(&crowd.there) < n)
		usleep(1000);
	CHECK_EQUAL(crowd.refused, 0);
	if (n == SLOTS) {
		HM_GUARD_INIT(&guard);
		CHECK_ERROR(-EAGAIN, hm_guard_begin(&guard));
		CHECK(strstr(hm_errmsg(), "8192 threads") != NULL);
		CHECK_ERROR(-EAGAIN, hm_copy_out(&byte, file.base, 1, NULL));
	}
	pthread_mutex_unlock(&crowd.gate);
	for (i = 0; i < n; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
	if (n < SLOTS)
		test_skip("resources", "no room for 8192 threads");
}

/* ---- looks at the mask ---- */

/* Longer than the kernel's clock takes to tick. */
static void await_tick(void)
{
	usleep(50000);
}

static void block_all(void)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void block_none(void)
{
	sigset_t none;

	sigemptyset(&none);
	pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* The second of two copies by one call, where no look at the mask is answered any more. */
static int copy_unseen(const char *from, bool wait)
{
	volatile int i; /* one call: a compiler might make two of it */
	char byte;
	int r = 0;

	for (i = 0; i < 2; i++) {
		if (i) {
			inject_always("pthread_sigmask", ENOSYS);
			if (wait)
				await_tick();
		}
		r = hm_copy_out(&byte, from, 1, NULL);
		if (!i)
			CHECK_EQUAL(r, 0);
	}
	inject_disarm();
	return r;
}

static void look_holds(void)
{
	struct file_map file;
	int tries;

	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	/* The clock may tick in between. */
	for (tries = 0; copy_unseen(file.base, false) && tries < 1000; tries++)
		;
	CHECK(tries < 1000);
	CHECK_EQUAL(copy_unseen(file.base, true), -EPERM);
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

/* By one call, from a frame that lies @deep further on. */
static __attribute__((noinline)) int copy_deep(const char *from, int deep)
{
	volatile int here = deep;
	char byte;
	int r;

	r = deep ? copy_deep(from, deep - 1) : hm_copy_out(&byte, from, 1, NULL);
	return here == deep ? r : -1;
}

/* Whatever else there is but the same call from the same frame. */
static void look_again(void)
{
	struct hm_guard guard;
	struct file_map file;
	char byte;

	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	HM_GUARD_INIT(&guard);
	CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
	inject_always("pthread_sigmask", ENOSYS);
	CHECK_ERROR(-EPERM, hm_copy_out(&byte, file.base, 1, NULL));
	inject_disarm();
	CHECK_OK(copy_deep(file.base, 0));
	inject_always("pthread_sigmask", ENOSYS);
	CHECK_EQUAL(copy_deep(file.base, 1), -EPERM);
	CHECK_ERROR(-EPERM, hm_guard_begin(&guard));
	inject_disarm();
	/* As whoever knows no more than that copies are guarded. */
	CHECK(!ftruncate(file.fd, PAGE));
	CHECK_OK(hm_copy_out(&byte, file.base, 1, NULL));
	block_all();
	CHECK_ERROR(-ERANGE, hm_copy_out(&byte, file.base + PAGE, 1, NULL));
	block_none();
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

/* In a loop, where a thread blocks what it had not: a tick later at the latest. */
static void look_later(void)
{
	struct file_map file;
	volatile int i;
	char byte;

	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	CHECK(!ftruncate(file.fd, PAGE));
	for (i = 0; i < 8; i++) {
		CHECK_EQUAL(hm_copy_out(&byte, file.base + (i & 1) * PAGE, 1, NULL),
			    i & 1 ? -ERANGE : 0);
		if (i & 1) {
			block_none();
			continue;
		}
		block_all();
		await_tick();
	}
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

/* A handler that jumps out of a copy, and leaves blocked what was while it ran. */
static void look_after_jump(void)
{
	struct sigaction action = { .sa_handler = on_plain };
	struct file_map file;
	static const int wanted[3] = { 0, 1, -ERANGE };
	const char *from[3];
	volatile int i, r;
	char byte, *no;

	seen_calls = 0;
	sigfillset(&action.sa_mask);
	CHECK_FATAL(!sigaction(SIGSEGV, &action, NULL));
	CHECK_OK_FATAL(hm_handler_install(0));
	open_file_map(&file, SIZE);
	CHECK(!ftruncate(file.fd, PAGE));
	no = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(no != MAP_FAILED);
	from[0] = file.base;
	from[1] = file.base;
	from[2] = file.base + PAGE;
	for (i = 0; i < 3; i++) {
		r = 1;
		if (!sigsetjmp(back, 0))
			r = hm_copy_out(i == 1 ? no : &byte, from[i], 1, NULL);
		CHECK_EQUAL(r, wanted[i]);
	}
	CHECK_EQUAL(seen_calls, 1);
	CHECK_EQUAL(mask_now(SIGSEGV), 15);
	block_none();
	munmap(no, PAGE);
	close_file_map(&file);
	CHECK_OK(hm_handler_remove());
}

static const struct test tests[] = {
	{ "no_key", no_key, 0, TEST_ONCE },
	{ "unregistered", unregistered, 0, 0 },
	{ "same_name", same_name, 0, 0 },
	{ "late_copies", late_copies, 0, 0 },
	{ "crowded", crowded, 60, TEST_ONCE },
	{ "look_holds", look_holds, 60, 0 },
	{ "look_again", look_again, 0, 0 },
	{ "look_later", look_later, 0, 0 },
	{ "look_after_jump", look_after_jump, 0, 0 },
	{ NULL, NULL, 0, 0 },
};

int main(int argc, char **argv)
{
	inject_install();
	return harness_main(argc, argv, "guard_threads", tests);
}
