// SPDX-License-Identifier: MIT
/*
 * A 32-bit process at work with /dev/hetsim0, without a C library, which may not be
 * there for 32 bits. Its exit status is the line that failed; 0: all went well. The arguments are
 * descriptors of dma-bufs: one that such a process takes in, and one that it must not take in.
 */
#include <asm/unistd_32.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <uapi/hetsim.h>

#define MIB (1u << 20)

void work(const long *stack);
void *memset(void *bytes, int value, unsigned int n);

/* Compilers call it where there is none. */
void *memset(void *bytes, int value, unsigned int n)
{
	volatile unsigned char *at = bytes;

	while (n--)
		*at++ = (unsigned char)value;
	return bytes;
}

static long call6(long number, long a, long b, long c, long d, long e, long f)
{
	long six[2] = { number, f };
	long r;

	/* The sixth goes in the register that the compiler may address the stack with. */
	__asm__ volatile(
		"push %%ebp; mov 4(%%eax), %%ebp; mov (%%eax), %%eax; int $0x80; pop %%ebp"
		: "=a"(r)
		: "a"(six), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
		: "memory");
	return r;
}

static void require(int so, int line)
{
	if (!so)
		call6(__NR_exit, line & 0xff ? line & 0xff : 1, 0, 0, 0, 0, 0);
}

#define REQUIRE(condition) require(!!(condition), __LINE__)

static long hetsim(long fd, unsigned long cmd, void *argument)
{
	return call6(__NR_ioctl, fd, (long)cmd, (long)argument, 0, 0, 0);
}

/* One that a 64-bit process exported: its offset is one of mmap2(). */
static void take_in(long fd, long dmabuf)
{
	struct hetsim_import import = { .size = sizeof(import), .fd = (int)dmabuf };
	long bytes;

	REQUIRE(hetsim(fd, HETSIM_IMPORT, &import) == 0 && import.length == 4096);
	bytes = call6(__NR_mmap2, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      (long)(import.offset >> 12));
	REQUIRE((unsigned long)bytes < -4096ul);
}

/* The same, whose offset is none. */
static void refuse_import(long fd, long dmabuf)
{
	struct hetsim_import import = { .size = sizeof(import), .fd = (int)dmabuf };

	REQUIRE(hetsim(fd, HETSIM_IMPORT, &import) == -95); /* EOPNOTSUPP */
}

/* The descriptor in an argument, from 1; -1 if there is none. */
static long descriptor_of(const long *stack, int which)
{
	const char *text = stack[0] > which ? (const char *)stack[1 + which] : "";
	long n = *text ? 0 : -1;

	while (*text >= '0' && *text <= '9')
		n = n * 10 + *text++ - '0';
	return n;
}

__asm__(".globl _start\n_start: mov %esp, %eax; push %eax; call work");

void work(const long *stack)
{
	struct hetsim_handshake shake = { .size = sizeof(shake),
					  .version_major = HETSIM_VERSION_MAJOR };
	struct hetsim_query query = { .size = sizeof(query) };
	struct hetsim_buffer_create create = { .size = sizeof(create), .length = MIB };
	struct hetsim_buffer_info info = { .size = sizeof(info) };
	struct hetsim_bind bind = { .size = sizeof(bind),
				    .flags = HETSIM_BIND_WRITE,
				    .length = MIB };
	struct hetsim_queue_create queue = { .size = sizeof(queue) };
	struct hetsim_command fill = { .op = HETSIM_OP_FILL,
				       .length = MIB,
				       .value = 0x80000001u };
	struct hetsim_submit submit = { .size = sizeof(submit),
					.n_commands = 1,
					.command_size = sizeof(fill) };
	struct hetsim_wait wait = { .size = sizeof(wait), .deadline_ns = ~0ull };
	unsigned int *words, i;
	long fd;

	fd = call6(__NR_open, (long)"/dev/hetsim0", O_RDWR, 0, 0, 0, 0);
	REQUIRE(fd >= 0);
	REQUIRE(hetsim(fd, HETSIM_HANDSHAKE, &shake) == 0 && shake.accepted == 1);
	REQUIRE(hetsim(fd, HETSIM_QUERY, &query) == 0);
	REQUIRE(query.page_size == 4096 && query.max_pending && query.vram_bytes);
	create.place = HETSIM_PLACE_SYSTEM;
	REQUIRE(hetsim(fd, HETSIM_BUFFER_CREATE, &create) == 0 && create.handle);
	REQUIRE(create.offset >> 12 <= 0xffffffffu);
	words = (unsigned int *)call6(__NR_mmap2, 0, MIB, PROT_READ | PROT_WRITE, MAP_SHARED,
				      fd, (long)(create.offset >> 12));
	REQUIRE((unsigned long)words < -4096ul);
	words[0] = 5;
	bind.handle = create.handle;
	bind.address = (unsigned long)words;
	REQUIRE(hetsim(fd, HETSIM_BIND, &bind) == 0);
	REQUIRE(hetsim(fd, HETSIM_QUEUE_CREATE, &queue) == 0);
	fill.destination = (unsigned long)words;
	submit.queue = queue.queue;
	submit.commands = (unsigned long)&fill;
	REQUIRE(hetsim(fd, HETSIM_SUBMIT, &submit) == 0 && submit.seqno == 1);
	wait.queue = queue.queue;
	wait.seqno = submit.seqno;
	REQUIRE(hetsim(fd, HETSIM_WAIT, &wait) == 0 && wait.status == 0);
	for (i = 0; i < MIB / 4; i++)
		REQUIRE(words[i] == 0x80000001u);
	info.handle = create.handle;
	REQUIRE(hetsim(fd, HETSIM_BUFFER_INFO, &info) == 0);
	REQUIRE(info.length == MIB && info.offset == create.offset && info.maps == 1);
	if (descriptor_of(stack, 1) >= 0)
		take_in(fd, descriptor_of(stack, 1));
	if (descriptor_of(stack, 2) >= 0)
		refuse_import(fd, descriptor_of(stack, 2));
	info.size = 4;
	REQUIRE(hetsim(fd, HETSIM_BUFFER_INFO, &info) == -22);     /* EINVAL */
	REQUIRE(hetsim(fd, HETSIM_BUFFER_INFO, (void *)8) == -14); /* EFAULT */
	call6(__NR_exit, 0, 0, 0, 0, 0, 0);
	__builtin_unreachable();
}
