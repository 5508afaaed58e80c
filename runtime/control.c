// SPDX-License-Identifier: MIT
/* The page by which receivers of a buffer learn what its owner does with it. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compat.h"
#include "memfd.h"
#include "rlimits.h"
#include "share.h"
#include "sys.h"

/*
 * FUTURE_WRITE: the owner's map, made before, is the one that may write; nobody can
 * have a second [mm/memfd.c, shmem_mmap()]. SHRINK: no peer's map can fault.
 */
#define CONTROL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Not page_size(), which both sides need not have alike. */
#define CONTROL_BYTES 65536 /* a page of any machine */

#define PID_BITS 22 /* PID_MAX_LIMIT [include/linux/threads.h] */

/*
 * When process @pid began: field 22 of its stat, behind the name, which may have
 * blanks and parentheses of its own [proc(5)]. 0: it is not there, or ended and not
 * yet waited for, or /proc does not tell.
 */
static uint64_t process_start(uint64_t pid)
{
	char path[40], text[512], *at;
	char state = 0;
	uint64_t start = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRIu64 "/stat", pid);
	fd = sys_open(path, O_RDONLY, 0);
	if (fd < 0)
		return 0;
	n = sys_read(fd, text, sizeof(text) - 1);
	sys_close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	at = strrchr(text, ')');
	if (!at || sscanf(at + 1,
			  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
			  "%*s %*s %*s %" SCNu64,
			  &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

/*
 * Has a receiver found this process by that start before? Then the pid means the same in
 * both, which /proc need not be asked for again. A child may be in another pid namespace.
 */
static _Atomic uint64_t seen_owner;
static _Atomic uint32_t seen_generation; /* written after it */

static bool owner_is_seen(uint64_t pid, uint64_t start)
{
	uint64_t key = start << PID_BITS | pid;

	if (!start || !pid || pid >> PID_BITS || start >> (64 - PID_BITS))
		return false;
	if (seen_generation == fork_generation && seen_owner == key)
		return true;
	if (process_start(pid) != start)
		return false;
	seen_owner = key;
	seen_generation = fork_generation;
	return true;
}

/* When this process began. */
static uint64_t own_start(void)
{
	static _Atomic uint64_t start;
	static _Atomic uint32_t generation; /* written after it */

	if (!start || generation != fork_generation) {
		start = process_start((uint64_t)getpid());
		generation = fork_generation;
	}
	return start;
}

/* What is in it is at its beginning; and it is going to be read. */
static int map_page(int fd, int prot, struct control_page **ret_page)
{
	void *mapped;
	int r;

	r = sys_mmap(NULL, page_size(), prot, MAP_SHARED | MAP_POPULATE, fd, 0, &mapped);
	if (r)
		return rlimits_explain_map(r, page_size(), "mapping a control page");
	*ret_page = mapped;
	return 0;
}

int control_create(uint64_t serial, uint64_t size, struct share **ret_share)
{
	struct control_page *page;
	struct share *share;
	int r;

	share = sys_calloc(1, sizeof(*share));
	if (!share)
		return err_set(-ENOMEM, "no memory to share a buffer");
	share->object_fd = -1;
	share->fd = memfd_open("control", 0);
	if (share->fd < 0) {
		r = share->fd;
		goto err_free;
	}
	r = rlimits_check_file_size(CONTROL_BYTES);
	if (r)
		goto err_close;
	r = sys_ftruncate(share->fd, CONTROL_BYTES);
	if (r) {
		r = err_set(r, "a control page: ftruncate: %s", err_name(r));
		goto err_close;
	}
	r = map_page(share->fd, PROT_READ | PROT_WRITE, &share->page);
	if (r)
		goto err_close;
	r = sys_fcntl(share->fd, F_ADD_SEALS, CONTROL_SEALS);
	if (r) {
		r = err_set(r, "sealing a control page: %s", err_name(r));
		goto err_unmap;
	}
	page = share->page;
	page->magic = CONTROL_MAGIC;
	page->version = CONTROL_VERSION;
	page->serial = serial;
	page->owner_pid = (uint64_t)getpid();
	page->owner_start = own_start();
	atomic_store_explicit(&page->size, size, memory_order_release);
	*ret_share = share;
	return 0;

err_unmap:
	sys_munmap(share->page, page_size());
err_close:
	sys_close(share->fd);
err_free:
	free(share);
	return r;
}

/* That a touch of the page can't fault, and that its size is its owner's alone. */
static int check_page_fd(int fd)
{
	struct stat st;
	int seals, r;

	seals = sys_fcntl(fd, F_GET_SEALS, 0);
	if (seals < 0)
		return err_set(-EPROTO, "what was sent as control page is no memfd (%s)",
			       err_name(seals));
	if ((seals & (F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE)) !=
	    (F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE))
		return err_set(-EPERM,
			       "the control page that was sent is not sealed (seals 0x%x): "
			       "its sender could cut it off under us",
			       seals);
	r = sys_fstat(fd, &st);
	if (r)
		return err_set(r, "a control page: fstat: %s", err_name(r));
	/* Also keeps out huge pages, which a fault may fail to get. */
	if (st.st_size != CONTROL_BYTES)
		return err_set(-EPROTO,
			       "the control page that was sent has %" PRIu64
			       " bytes: it must be %d",
			       (uint64_t)st.st_size, CONTROL_BYTES);
	return 0;
}

int control_open(int fd, struct share **ret_share)
{
	const struct control_page *page;
	struct share *share;
	uint64_t pid;
	int r;

	r = check_page_fd(fd);
	if (r)
		return r;
	share = sys_calloc(1, sizeof(*share));
	if (!share)
		return err_set(-ENOMEM, "no memory to share a buffer");
	r = map_page(fd, PROT_READ, &share->page);
	if (r)
		goto err_free;
	page = share->page;
	if (page->magic != CONTROL_MAGIC || page->version != CONTROL_VERSION) {
		r = err_set(-EPROTO,
			    "the control page that was sent begins with 0x%" PRIx32
			    ", version %" PRIu32 ": 0x%x, version %d are known",
			    page->magic, page->version, CONTROL_MAGIC, CONTROL_VERSION);
		goto err_unmap;
	}
	share->fd = fd;
	share->object_fd = -1;
	share->received = true;
	pid = page->owner_pid;
	/* In another pid namespace the number means somebody else, or nobody. */
	share->owner_seen = owner_is_seen(pid, page->owner_start);
	*ret_share = share;
	return 0;

err_unmap:
	sys_munmap(share->page, page_size());
err_free:
	free(share);
	return r;
}

void control_end(struct share *share)
{
	if (!share)
		return;
	if (!share->received)
		share->page->owner_pid = 0;
	sys_munmap(share->page, page_size());
	sys_close(share->fd);
	if (share->object_fd >= 0)
		sys_close(share->object_fd);
	free(share);
}

bool control_owner_gone(const struct share *share)
{
	uint64_t pid = share->page->owner_pid;

	if (!pid)
		return true;
	return share->owner_seen && process_start(pid) != share->page->owner_start;
}
