// SPDX-License-Identifier: MIT
/*
 * /dev/udmabuf: makes pages of a memfd a dma-buf, for other devices. Its limits are parameters
 * of the module [drivers/dma-buf/udmabuf.c].
 */
#include "dmabuf/udmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/udmabuf.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/compat.h"
#include "core/core.h"
#include "map/map.h"
#include "base/proc.h"
#include "base/reserve.h"
#include "base/rlimits.h"
#include "base/sys.h"

#define NODE "/dev/udmabuf"
#define LIMIT_FILE "/sys/module/udmabuf/parameters/size_limit_mb"

static int explain_node(int r)
{
	switch (r) {
	case -ENOENT:
	case -ENXIO:
	case -ENODEV:
		return err_set(-ENODEV,
			       "there is no " NODE ": modprobe udmabuf, on a kernel with "
			       "CONFIG_UDMABUF (Debian's has it from 6.12 on); in a container: "
			       "start it with --device " NODE);
	case -EACCES:
	case -EPERM:
		return err_set(-EACCES, NODE
			       " may not be opened for reading and writing: join the "
			       "group that may (ls -l " NODE "; kvm as a rule), or chmod it; "
			       "in a container: start it with --device " NODE);
	default:
		return rlimits_explain_fd(r, NODE);
	}
}

static int open_node(void)
{
	int fd = sys_open(NODE, O_RDWR, 0);

	return fd < 0 ? err_with_name(explain_node(fd)) : fd;
}

int udmabuf_check(void)
{
	int fd = open_node();

	if (fd < 0)
		return fd;
	sys_close(fd);
	return 0;
}

static bool is_there;

static void ask(void)
{
	is_there = !sys_access(NODE, R_OK | W_OK);
}

bool udmabuf_is_there(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, ask);
	return is_there;
}

static int explain(int r, uint64_t size)
{
	char want[16], have[16];
	uint64_t limit;

	if (r == -EMFILE || r == -ENFILE)
		return rlimits_explain_fd(r, "a dma-buf of a memfd");
	if (r == -EINVAL && proc_number(LIMIT_FILE, &limit) && size > MIB(limit))
		return err_set(-E2BIG,
			       "a dma-buf of %s is more than udmabuf makes, %s: raise "
			       "size_limit_mb (echo %" PRIu64 " | sudo tee " LIMIT_FILE ")",
			       format_bytes(size, want, sizeof(want)),
			       format_bytes(MIB(limit), have, sizeof(have)),
			       (size + MIB(1) - 1) / MIB(1));
	return err_set(r, "a dma-buf of %s of a memfd (UDMABUF_CREATE): %s",
		       format_bytes(size, want, sizeof(want)), err_name(r));
}

/* Returns a descriptor. An interrupted call has made none. */
static int call(int node, int memfd, uint64_t size)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t)memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.size = size,
	};

	return sys_ioctl_again(node, UDMABUF_CREATE, &create);
}

/* ---- does it show the memfd's bytes? ---- */

#define PATTERN 0x5a

static int map_page(int fd, struct reservation *ret_range, char **ret_address)
{
	const struct hm_segment segment = {
		.length = page_size(),
		.fd = fd,
		.flags = HM_SEGMENT_SHARED,
	};

	return map_scratch(&segment, 1, 0, page_size(), page_size(), PROT_READ | PROT_WRITE,
			   ret_range, ret_address);
}

/* Are bytes that are written through one mapping read through the other? */
static bool same_bytes(char *memory, char *dmabuf)
{
	uint64_t last = page_size() - 1;

	memory[0] = PATTERN;
	dmabuf[last] = PATTERN;
	return ((volatile char *)dmabuf)[0] == PATTERN &&
	       ((volatile char *)memory)[last] == PATTERN;
}

static int compare(int memfd, int dmabuf)
{
	struct reservation memory, other;
	char *a, *b;
	int r;

	r = map_page(memfd, &memory, &a);
	if (r)
		return r;
	r = map_page(dmabuf, &other, &b);
	if (r)
		goto out;
	if (!same_bytes(a, b))
		r = err_set(-EIO, "this kernel's udmabuf shows other bytes than the memfd's: "
				  "no buffer can be exported by it");
	reserve_release(&other);
out:
	reserve_release(&memory);
	return r;
}

/* Tests scratch memory, never the bytes of a buffer. */
static int self_test(int node)
{
	int memfd, fd, r;

	memfd = sys_memfd_create("hetmap:selftest", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (memfd < 0)
		return rlimits_explain_fd(memfd, "memfd_create");
	r = sys_ftruncate(memfd, page_size());
	if (!r)
		r = sys_fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK);
	if (r) {
		r = err_set(r, "a memfd for the self-test of udmabuf: %s", err_name(r));
		goto out;
	}
	fd = call(node, memfd, page_size());
	if (fd < 0) {
		r = explain(fd, page_size());
		goto out;
	}
	r = compare(memfd, fd);
	sys_close(fd);
out:
	sys_close(memfd);
	return r;
}

/* Tests until one test has passed. */
static int check_kind(int node)
{
	static _Atomic bool tested;
	int r = 0;

	if (!tested)
		r = self_test(node);
	if (!r)
		tested = true;
	return r;
}

int udmabuf_check_seals(int memfd)
{
	int seals = sys_fcntl(memfd, F_GET_SEALS, 0);

	if (seals < 0 || !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return 0;
	return err_set(-EPERM, "the memfd was sealed against writing (hm_buffer_seal, or "
			       "exported read-only): a sealed memfd becomes no dma-buf");
}

int udmabuf_create(int memfd, uint64_t size, int *ret_fd)
{
	int node, fd, r;

	r = udmabuf_check_seals(memfd);
	if (r)
		return r;
	node = open_node();
	if (node < 0)
		return node;
	r = check_kind(node);
	if (r)
		goto out;
	fd = call(node, memfd, size);
	if (fd < 0)
		r = err_with_name(explain(fd, size));
	else
		*ret_fd = fd;
out:
	sys_close(node);
	return r;
}
