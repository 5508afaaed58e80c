// SPDX-License-Identifier: MIT
/* The mirror of the process for its tests. */
#include "sim/mirror_support.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#define FOR_EVER UINT64_MAX

bool mirror_start(struct mirror *mirror, int fd)
{
	struct hetsim_mirror on = { .size = sizeof(on) };
	int r;

	memset(mirror, 0, sizeof(*mirror));
	mirror->fd = fd;
	r = hetsim_call(fd, HETSIM_MIRROR, &on);
	if (r) {
		if (r == -EOPNOTSUPP)
			test_skip("kernel", "a device without HETSIM_FEATURE_MIRROR");
		else
			test_fail(__FILE__, __LINE__, "HETSIM_MIRROR: %d", r);
		hetsim_close(fd);
		mirror->fd = -1;
		return false;
	}
	CHECK_EQUAL(on.chunks, MIRROR_HUGE | 64u << 10 | PAGE);
	mirror->segment = hetsim_query(fd).max_segment & ~(uint64_t)(PAGE - 1);
	mirror->queue = hetsim_queue_make(fd, HETSIM_QUEUE_COUNTER, HETSIM_MAX_TIMEOUT_MS);
	mirror->result =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK_FATAL(mirror->result != MAP_FAILED);
	return true;
}

bool mirror_open(struct mirror *mirror)
{
	int fd = hetsim_open(O_RDWR);

	return fd >= 0 && mirror_start(mirror, fd);
}

struct mirror mirror_begin(void)
{
	struct mirror mirror;

	if (!mirror_open(&mirror))
		test_abandon();
	return mirror;
}

void mirror_close(struct mirror *mirror)
{
	if (mirror->fd < 0)
		return;
	hetsim_close(mirror->fd);
	CHECK_EQUAL(munmap(mirror->result, PAGE), 0);
	mirror->fd = -1;
}

struct mirror_end mirror_end_of(const struct mirror *mirror, uint32_t queue, uint64_t seqno)
{
	struct hetsim_wait wait = {
		.size = sizeof(wait),
		.queue = queue,
		.seqno = seqno,
		.deadline_ns = FOR_EVER,
	};

	CHECK_EQUAL(hetsim_call(mirror->fd, HETSIM_WAIT, &wait), 0);
	return (struct mirror_end){
		.status = wait.status,
		.reason = wait.fault_reason,
		.write = wait.fault_write,
		.address = wait.fault_address,
	};
}

struct mirror_end mirror_run_on(const struct mirror *mirror, uint32_t queue,
				const struct hetsim_command *command)
{
	uint64_t seqno = 0;
	int r = hetsim_submit(mirror->fd, queue, command, 1, &seqno);

	CHECK_EQUAL(r, 0);
	if (r)
		return (struct mirror_end){ .status = r };
	return mirror_end_of(mirror, queue, seqno);
}

/* Runs the command over a range that may be longer than one command's. */
static struct mirror_end run_long(const struct mirror *mirror, struct hetsim_command command,
				  uint64_t length)
{
	struct mirror_end end = { 0 };
	bool moves = command.op != HETSIM_OP_CRC32;

	while (length && !end.status) {
		command.length = length < mirror->segment ? length : mirror->segment;
		end = mirror_run_on(mirror, mirror->queue, &command);
		command.destination += moves ? command.length : 0;
		command.source += command.op == HETSIM_OP_FILL ? 0 : command.length;
		length -= command.length;
	}
	return end;
}

struct mirror_end mirror_read(const struct mirror *mirror, const void *from, size_t n)
{
	return run_long(mirror,
			(struct hetsim_command){ .op = HETSIM_OP_CRC32,
						 .destination = (uintptr_t)mirror->result,
						 .source = (uintptr_t)from },
			n);
}

struct mirror_end mirror_fill(const struct mirror *mirror, void *to, size_t n, uint32_t value)
{
	return run_long(mirror,
			(struct hetsim_command){ .op = HETSIM_OP_FILL,
						 .destination = (uintptr_t)to,
						 .value = value },
			n);
}

struct mirror_end mirror_copy(const struct mirror *mirror, void *to, const void *from, size_t n)
{
	return run_long(mirror,
			(struct hetsim_command){ .op = HETSIM_OP_COPY,
						 .destination = (uintptr_t)to,
						 .source = (uintptr_t)from },
			n);
}

bool mirror_words_are(const void *bytes, size_t n, uint32_t value)
{
	const volatile uint32_t *words = bytes;
	size_t i;

	for (i = 0; i < n / sizeof(*words); i++)
		if (words[i] != value)
			return false;
	return true;
}

struct hetsim_page mirror_page(const struct mirror *mirror, const void *address)
{
	struct hetsim_page page = { 0 };
	struct hetsim_range_query query = {
		.size = sizeof(query),
		.address = (uintptr_t)address & ~(uintptr_t)(PAGE - 1),
		.length = PAGE,
		.pages = (uintptr_t)&page,
	};

	CHECK_EQUAL(hetsim_call(mirror->fd, HETSIM_RANGE_QUERY, &query), 0);
	return page;
}

int mirror_advise(const struct mirror *mirror, const void *address, size_t n, uint32_t advice,
		  uint64_t value)
{
	struct hetsim_advise advise = {
		.size = sizeof(advise),
		.advice = advice,
		.address = (uintptr_t)address,
		.length = n,
		.value = value,
	};

	return hetsim_call(mirror->fd, HETSIM_ADVISE, &advise);
}

struct mirror_end mirror_prefetch(const struct mirror *mirror, const void *address, size_t n,
				  uint32_t location, uint32_t flags)
{
	struct hetsim_prefetch prefetch = {
		.size = sizeof(prefetch),
		.flags = flags,
		.queue = mirror->queue,
		.location = location,
		.address = (uintptr_t)address,
		.length = n,
	};
	int r = hetsim_call(mirror->fd, HETSIM_PREFETCH, &prefetch);

	CHECK_EQUAL(r, 0);
	if (r)
		return (struct mirror_end){ .status = r };
	return mirror_end_of(mirror, mirror->queue, prefetch.seqno);
}

struct hetsim_counters mirror_counters(const struct mirror *mirror)
{
	return hetsim_counters(mirror->fd, HETSIM_SCOPE_OPENER);
}

void *mirror_map(size_t n, int prot, int flags, int file)
{
	char *bytes =
		mmap(NULL, n + MIRROR_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before, after;

	CHECK_FATAL(bytes != MAP_FAILED);
	before = -(uintptr_t)bytes & (MIRROR_HUGE - 1);
	after = MIRROR_HUGE - before;
	if (before)
		CHECK_EQUAL(munmap(bytes, before), 0);
	if (after)
		CHECK_EQUAL(munmap(bytes + before + n, after), 0);
	CHECK_FATAL(mmap(bytes + before, n, prot, flags | MAP_FIXED, file, 0) ==
		    bytes + before);
	return bytes + before;
}
