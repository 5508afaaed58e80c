// SPDX-License-Identifier: MIT
/*
 * Copies to and from any address of this process, by the kernel, which stops at a bad one; and the
 * nodes of pages.
 */
#include <errno.h>
#include <numaif.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"

/* Signals in a row. */
#define RETRIES 100

/*
 * process_vm_writev(2) on this process itself, with the arbitrary address as the local end: the
 * kernel reaches that one as copy_from_user() does, by the CPU's own page table and faults, and
 * stops where the CPU may not. No wrapper of a sanitizer, which would look at the bytes itself.
 */
ssize_t sys_real_process_vm(bool write, void *own, void *other, size_t length)
{
	struct iovec any = { other, length }, ours = { own, length };

	return syscall(write ? SYS_process_vm_readv : SYS_process_vm_writev, getpid(), &any, 1,
		       &ours, 1, 0);
}

static ssize_t copy(bool write, void *ours, void *any, size_t length)
{
	ssize_t n;
	int tries = 0;

	do {
		n = sys_table.process_vm(write, ours, any, length);
	} while (n < 0 && errno == EINTR && ++tries < RETRIES);
	return n < 0 ? -errno : n;
}

int sys_page_nodes(void **pages, uint32_t n, int *ret_nodes)
{
	return sys_table.move_pages(0, n, pages, NULL, ret_nodes, 0) < 0 ? -errno : 0;
}

int sys_move_pages(void **pages, uint32_t n, const int *nodes, int *ret_status)
{
	long r = sys_table.move_pages(0, n, pages, nodes, ret_status, MPOL_MF_MOVE);

	return r < 0 ? -errno : (int)r;
}

ssize_t sys_copy_from_any(void *ours, const void *any, size_t length)
{
	return copy(false, ours, (void *)(uintptr_t)any, length);
}

ssize_t sys_copy_to_any(void *any, const void *ours, size_t length)
{
	return copy(true, (void *)(uintptr_t)ours, any, length);
}
