// SPDX-License-Identifier: MIT
/*
 * The ioctls: arguments that are almost right, then spoilt, in places that are not
 * quite memory.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/hetsim_argument.h"
#include "hammer.h"

#define COMMANDS 16

/*
 * Behind them are some that no device takes: the twin, which reads until there is one,
 * stays here whatever number and size it is told.
 */
static __thread struct hetsim_command commands[COMMANDS + 3];

/* ---- shared by all calls ---- */

static _Atomic int pool[HAMMER_FDS];

/* 0 is no descriptor of ours: it stands for none. */
void hammer_fd_put(int fd)
{
	int old = atomic_exchange(&pool[hammer_random(HAMMER_FDS)], fd > 0 ? fd : 0);

	if (old > 0)
		close(old);
}

int hammer_fd_pick(void)
{
	int fd = atomic_load(&pool[hammer_random(HAMMER_FDS)]);

	return fd > 0 ? fd : -1;
}

#define HANDLES 6

static _Atomic uint32_t handles[HAMMER_FILES][HANDLES];

uint32_t hammer_handle(unsigned int file)
{
	return atomic_load(&handles[file][hammer_random(HANDLES)]);
}

static void keep_handle(uint32_t handle)
{
	atomic_store(&handles[hammer_me->file][hammer_random(HANDLES)], handle);
}

static uint32_t some_handle(void)
{
	if (hammer_chance(32))
		return hammer_chance(2) ? (uint32_t)hammer_odd() : (uint32_t)hammer_random(20);
	return hammer_handle(hammer_me->file);
}

/* Numbers are given out from 1 on. */
static uint32_t some_queue(void)
{
	return hammer_chance(64) ? (uint32_t)hammer_odd() : 1 + (uint32_t)hammer_random(2);
}

static uint64_t some_seqno(void)
{
	return hammer_chance(64) ? hammer_odd() : hammer_random(hammer_chance(2) ? 4 : 64);
}

static uint64_t some_pages(void)
{
	uint64_t pages = 1 + hammer_random(hammer_chance(16) ? 8192 : 40);

	return hammer_chance(64) ? hammer_odd() : pages * HAMMER_PAGE;
}

/* That most buffers have. */
static uint64_t few_pages(void)
{
	return hammer_chance(4) ? some_pages() : (1 + hammer_random(4)) * HAMMER_PAGE;
}

static uint64_t some_offset(void)
{
	return hammer_chance(2) ? 0 : hammer_random(32) * HAMMER_PAGE;
}

static uint64_t some_address(void)
{
	return hammer_chance(64) ? hammer_odd() : (uintptr_t)hammer_address();
}

/* ---- one ioctl each: sensible arguments ---- */

static void fill_query(union hetsim_argument *a)
{
	(void)a;
}

static void fill_handshake(union hetsim_argument *a)
{
	a->handshake.flags = hammer_chance(2) ? HETSIM_HANDSHAKE_ZERO_WHEN_LOST : 0;
	a->handshake.version_major = hammer_chance(64) ? 2 : HETSIM_VERSION_MAJOR;
	a->handshake.features = hammer_chance(4) ? HETSIM_FEATURE_BUFFERS : 0;
}

static void fill_counters(union hetsim_argument *a)
{
	a->counters.scope = (uint32_t)hammer_random(2);
}

static void fill_buffer_create(union hetsim_argument *a)
{
	a->buffer_create.length = some_pages();
	a->buffer_create.place =
		(uint32_t)(hammer_chance(8) ? hammer_random(3) : hammer_random(2));
	a->buffer_create.cache = hammer_chance(4) ? HETSIM_CACHE_COMBINE : HETSIM_CACHE_BACK;
	a->buffer_create.capacity = hammer_chance(2) ? 0 :
						       a->buffer_create.length + some_offset();
}

static void fill_buffer_close(union hetsim_argument *a)
{
	a->buffer_close.handle = some_handle();
}

static void fill_buffer_resize(union hetsim_argument *a)
{
	a->buffer_resize.handle = some_handle();
	a->buffer_resize.length = few_pages();
}

static void fill_buffer_info(union hetsim_argument *a)
{
	a->buffer_info.handle = some_handle();
}

static void fill_buffer_when_lost(union hetsim_argument *a)
{
	a->buffer_when_lost.handle = some_handle();
	a->buffer_when_lost.when = (uint32_t)hammer_random(3);
}

static void fill_buffer_move(union hetsim_argument *a)
{
	a->buffer_move.handle = some_handle();
	a->buffer_move.place = (uint32_t)hammer_random(3);
	a->buffer_move.offset = some_offset();
	a->buffer_move.length = few_pages();
	HAMMER_FILL_LATER(&a->buffer_move);
}

static void fill_buffer_sample(union hetsim_argument *a)
{
	a->buffer_sample.handle = some_handle();
	a->buffer_sample.action = (uint32_t)hammer_random(3);
	if (a->buffer_sample.action == HETSIM_SAMPLE_READ) {
		a->buffer_sample.offset = some_offset();
		a->buffer_sample.length = (1 + hammer_random(8)) * HAMMER_PAGE;
		a->buffer_sample.counts = hammer_chance(4) && hammer_way->kernel ?
						  some_address() :
						  (uintptr_t)hammer->hot;
	}
}

static void fill_export(union hetsim_argument *a)
{
	a->export.handle = some_handle();
	a->export.flags = hammer_chance(4) ? 0 : HETSIM_EXPORT_WRITE;
}

static void fill_import(union hetsim_argument *a)
{
	a->import.fd = hammer_fd_pick();
}

static void fill_bind(union hetsim_argument *a)
{
	a->bind.flags = hammer_chance(4) ? 0 : HETSIM_BIND_WRITE;
	a->bind.source = hammer_chance(32) ? HETSIM_SOURCE_PROCESS_RANGE : 0;
	a->bind.handle = some_handle();
	a->bind.address = some_address();
	a->bind.offset = hammer_chance(4) ? some_offset() : 0;
	a->bind.length = few_pages();
	HAMMER_FILL_LATER(&a->bind);
}

static void fill_unbind(union hetsim_argument *a)
{
	a->unbind.address = some_address() & ~(HAMMER_PLACE - 1);
	a->unbind.length = hammer_chance(2) ? HAMMER_PLACE * 2 : some_pages();
	HAMMER_FILL_LATER(&a->unbind);
}

static void fill_queue_create(union hetsim_argument *a)
{
	a->queue_create.type = (uint32_t)hammer_random(2);
	a->queue_create.timeout_ms = 1 + (uint32_t)hammer_random(200);
}

static void fill_queue_destroy(union hetsim_argument *a)
{
	a->queue_destroy.queue = some_queue() + (hammer_chance(4) ? 0 : 2);
}

static void fill_submit(union hetsim_argument *a)
{
	size_t n = 1 + hammer_random(COMMANDS), i;

	memset(commands, 0, COMMANDS * sizeof(commands[0]));
	memset(commands + COMMANDS, 0xff, sizeof(commands) - COMMANDS * sizeof(commands[0]));
	for (i = 0; i < n; i++) {
		struct hetsim_command *command = &commands[i];

		command->op = (uint32_t)hammer_random(HETSIM_OP_COMPARE + 1);
		if (command->op == HETSIM_OP_NOTHING)
			continue;
		command->destination = some_address();
		if (command->op != HETSIM_OP_FILL)
			command->source = some_address();
		if (command->op == HETSIM_OP_ADD || command->op == HETSIM_OP_XOR ||
		    command->op == HETSIM_OP_COMPARE)
			command->source2 = some_address();
		if (command->op == HETSIM_OP_FILL || command->op == HETSIM_OP_SCALE ||
		    command->op == HETSIM_OP_AXPY)
			command->value = hammer_random(1ull << 32);
		command->length = hammer_chance(4) ? some_pages() : 64 + hammer_random(64) * 64;
		if (hammer_chance(64))
			((uint64_t *)command)[hammer_random(6)] = hammer_odd();
	}
	a->submit.queue = some_queue();
	a->submit.commands = hammer_chance(32) && hammer_way->kernel ? some_address() :
								       (uintptr_t)commands;
	a->submit.n_commands = (uint32_t)n;
	a->submit.command_size = sizeof(commands[0]);
	HAMMER_FILL_SYNCS(&a->submit);
	hammer_fill_uses(&a->submit);
}

static void fill_wait(union hetsim_argument *a)
{
	a->wait.queue = some_queue();
	a->wait.seqno = some_seqno();
	a->wait.deadline_ns = hammer_chance(4) ? 0 : hammer_now() + hammer_random(50000000);
	if (hammer_chance(16))
		a->wait.deadline_ns = UINT64_MAX;
}

static void fill_fence_fd(union hetsim_argument *a)
{
	a->fence_fd.queue = some_queue();
	a->fence_fd.seqno = some_seqno();
}

static void fill_queue_event(union hetsim_argument *a)
{
	int fd = hammer_fd_pick();

	if (hammer_chance(2)) {
		fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		hammer_fd_put(fd);
	}
	a->queue_event.queue = some_queue();
	a->queue_event.seqno = some_seqno();
	a->queue_event.eventfd = fd;
}

/* Never takes the device away, which an option does, or a spoilt argument by chance. */
static void fill_inject(union hetsim_argument *a)
{
	a->inject.kind = (uint32_t)hammer_random(HETSIM_INJECT_UNPLUG);
	switch (a->inject.kind) {
	case HETSIM_INJECT_LATENCY:
		a->inject.target = some_queue();
		a->inject.value = hammer_random(2000000);
		break;
	case HETSIM_INJECT_STUCK:
	case HETSIM_INJECT_LOST_INTERRUPT:
		a->inject.target = some_queue();
		a->inject.value = hammer_random(3);
		break;
	case HETSIM_INJECT_SIGBUS:
	case HETSIM_INJECT_POISON:
		a->inject.target = some_handle();
		a->inject.value = hammer_chance(2) ? UINT64_MAX : some_offset();
		break;
	case HETSIM_INJECT_EVICTION:
		a->inject.target = some_handle();
		a->inject.value = some_pages();
		break;
	case HETSIM_INJECT_ENOMEM:
	case HETSIM_INJECT_EINTR:
		a->inject.value = hammer_random(8);
		break;
	default:
		break;
	}
}

static void fill_mirror(union hetsim_argument *a)
{
	(void)a;
}

static void fill_advise(union hetsim_argument *a)
{
	a->advise.advice = (uint32_t)hammer_random(HETSIM_ADVISE_CACHE + 1);
	a->advise.address = some_address() & ~(HAMMER_PAGE - 1);
	a->advise.length = some_pages();
	a->advise.value = hammer_random(2);
	if (a->advise.advice == HETSIM_ADVISE_GRANULE)
		a->advise.value = hammer_chance(2) ? 1u << 12 : 1u << 16;
	else if (a->advise.advice == HETSIM_ADVISE_CACHE)
		a->advise.value = hammer_random(64) * HAMMER_PAGE;
}

static void fill_prefetch(union hetsim_argument *a)
{
	a->prefetch.flags = hammer_chance(2) ? HETSIM_PREFETCH_WRITE : 0;
	a->prefetch.queue = some_queue();
	a->prefetch.location = HETSIM_LOCATION_HOST + (uint32_t)hammer_random(2);
	a->prefetch.address = some_address() & ~(HAMMER_PAGE - 1);
	a->prefetch.length = few_pages();
}

static void fill_range_query(union hetsim_argument *a)
{
	a->range_query.address = some_address() & ~(HAMMER_PAGE - 1);
	a->range_query.length = few_pages();
	a->range_query.pages = hammer_way->kernel ? some_address() : 0;
}

static void fill_mirror_events(union hetsim_argument *a)
{
	(void)a;
}

static void fill_learn(union hetsim_argument *a)
{
	a->learn.least = (1 + hammer_random(2)) << 16;
	a->learn.most = hammer_random(8) << 16;
}

static const struct row {
	const char *name;
	unsigned long cmd;
	size_t size;
	void (*fill)(union hetsim_argument *argument);
} rows[HETSIM_N_CALLS] = {
#define HETSIM_CALL(NAME, name, last) \
	{ #NAME, HETSIM_##NAME, sizeof(struct hetsim_##name), fill_##name },
#include "model/calls.h"
};

_Static_assert((int)HETSIM_N_CALLS <= (int)HAMMER_NO_IOCTL, "ioctls come before all else");

/* Features that a device needs for the call to succeed. */
static const uint64_t features[HETSIM_N_CALLS] = {
	[HETSIM_ROW_BUFFER_CREATE] = HETSIM_FEATURE_BUFFERS,
	[HETSIM_ROW_BUFFER_CLOSE] = HETSIM_FEATURE_BUFFERS,
	[HETSIM_ROW_BUFFER_RESIZE] = HETSIM_FEATURE_BUFFERS,
	[HETSIM_ROW_BUFFER_INFO] = HETSIM_FEATURE_BUFFERS,
	[HETSIM_ROW_BUFFER_MOVE] = HETSIM_FEATURE_MOVE,
	[HETSIM_ROW_BUFFER_SAMPLE] = HETSIM_FEATURE_SAMPLE,
	[HETSIM_ROW_BUFFER_WHEN_LOST] = HETSIM_FEATURE_BUFFERS,
	[HETSIM_ROW_EXPORT] = HETSIM_FEATURE_DMABUF,
	[HETSIM_ROW_IMPORT] = HETSIM_FEATURE_DMABUF,
	[HETSIM_ROW_BIND] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_UNBIND] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_QUEUE_CREATE] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_QUEUE_DESTROY] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_SUBMIT] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_WAIT] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_FENCE_FD] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_QUEUE_EVENT] = HETSIM_FEATURE_ENGINE,
	[HETSIM_ROW_TIMELINE_CREATE] = HETSIM_FEATURE_TIMELINE,
	[HETSIM_ROW_TIMELINE_WAIT] = HETSIM_FEATURE_TIMELINE,
	[HETSIM_ROW_TIMELINE_SIGNAL] = HETSIM_FEATURE_TIMELINE,
	[HETSIM_ROW_INJECT] = HETSIM_FEATURE_INJECT,
	[HETSIM_ROW_MIRROR] = HETSIM_FEATURE_MIRROR,
	[HETSIM_ROW_ADVISE] = HETSIM_FEATURE_MIRROR,
	[HETSIM_ROW_PREFETCH] = HETSIM_FEATURE_MIRROR,
	[HETSIM_ROW_RANGE_QUERY] = HETSIM_FEATURE_MIRROR,
	[HETSIM_ROW_MIRROR_EVENTS] = HETSIM_FEATURE_MIRROR,
	[HETSIM_ROW_LEARN] = HETSIM_FEATURE_MIRROR,
};

/* Offsets of the pointers in a call's argument; 0: it has none, or no more. */
static const uint32_t pointers[HETSIM_N_CALLS][4] = {
	[HETSIM_ROW_BUFFER_SAMPLE] = { offsetof(struct hetsim_buffer_sample, counts) },
	[HETSIM_ROW_BUFFER_MOVE] = { offsetof(struct hetsim_buffer_move, waits),
				     offsetof(struct hetsim_buffer_move, signals) },
	[HETSIM_ROW_BIND] = { offsetof(struct hetsim_bind, waits),
			      offsetof(struct hetsim_bind, signals) },
	[HETSIM_ROW_UNBIND] = { offsetof(struct hetsim_unbind, waits),
				offsetof(struct hetsim_unbind, signals) },
	[HETSIM_ROW_SUBMIT] = { offsetof(struct hetsim_submit, commands),
				offsetof(struct hetsim_submit, waits),
				offsetof(struct hetsim_submit, signals),
				offsetof(struct hetsim_submit, uses) },
	[HETSIM_ROW_RANGE_QUERY] = { offsetof(struct hetsim_range_query, pages) },
};

/* Calls that the rest need before they reach anything. */
#define ROW(NAME) HETSIM_ROW_##NAME
static const uint8_t often[] = {
	ROW(BUFFER_CREATE),
	ROW(BUFFER_CREATE),
	ROW(BUFFER_CREATE),
	ROW(BUFFER_RESIZE),
	ROW(BUFFER_MOVE),
	ROW(EXPORT),
	ROW(BIND),
	ROW(BIND),
	ROW(BIND),
	ROW(SUBMIT),
	ROW(SUBMIT),
	ROW(SUBMIT),
	ROW(SUBMIT),
	ROW(SUBMIT),
	ROW(WAIT),
	ROW(WAIT),
	ROW(FENCE_FD),
	ROW(QUEUE_CREATE),
	ROW(TIMELINE_CREATE),
};

/* With two devices: calls that attach each to the other's memory, and end that. */
static const uint8_t across[] = { ROW(EXPORT), ROW(IMPORT), ROW(IMPORT), ROW(BUFFER_CLOSE) };
#undef ROW

static size_t some_row(void)
{
	if (hammer_other && hammer_chance(6))
		return across[hammer_random(sizeof(across))];
	return hammer_chance(2) ? often[hammer_random(sizeof(often))] :
				  hammer_random(HETSIM_N_CALLS);
}

const char *hammer_kind_name(unsigned int kind)
{
	static const char *const others[] = {
		"no ioctl", "open",  "mmap", "munmap", "mremap",    "mprotect",  "madvise",
		"lock",     "touch", "read", "write",  "from afar", "looked at", "bracket",
		"poll",     "merge", "fork", "exec",   "kill",      "unplug",    "across",
	};

	if (kind < HETSIM_N_CALLS)
		return rows[kind].name;
	return kind >= HAMMER_NO_IOCTL && kind <= HAMMER_ACROSS ?
		       others[kind - HAMMER_NO_IOCTL] :
		       NULL;
}

/* Some calls succeed at most once in a hundred tries. */
#define TRIES_LEAST 1000

unsigned int hammer_calls_without_success(void)
{
	unsigned int n = 0, i;

	for (i = 0; i < HETSIM_N_CALLS; i++) {
		if ((features[i] & hammer->features) != features[i] ||
		    atomic_load(&hammer->answers[i][0]) || hammer_counted(i) < TRIES_LEAST)
			continue;
		printf("%s never succeeded\n", rows[i].name);
		n++;
	}
	if (hammer_other && !hammer_counted(HAMMER_ACROSS)) {
		puts("no device has taken in the other's memory");
		n++;
	}
	return n;
}

/* ---- spoiling ---- */

static void spoil(union hetsim_argument *a, size_t size)
{
	unsigned int n = 1 + (unsigned int)hammer_random(2);
	uint64_t odd;
	size_t at;

	while (n--) {
		at = 4 * hammer_random(size / 4);
		odd = hammer_odd();
		memcpy((char *)a + at, &odd, at % 8 || at + 8 > size ? 4 : 8);
	}
}

/*
 * The twin finds that nothing is mapped somewhere, but not that a mapping may not be touched
 * (runtime/soft/queue.c), such as an arena's holes and a sanitizer's shadow: its spoilt pointers go
 * only to addresses that a program never has.
 */
static void mend_pointer(union hetsim_argument *a, uint32_t at,
			 const union hetsim_argument *right)
{
	static const uint64_t nowhere[] = { 0, 1ull << 63, UINT64_MAX };
	const char *from = (const char *)right + at;
	char *pointer = (char *)a + at;

	if (!memcmp(pointer, from, sizeof(uint64_t)))
		return;
	memcpy(pointer, &nowhere[hammer_random(sizeof(nowhere) / sizeof(nowhere[0]))],
	       sizeof(uint64_t));
}

static uint32_t odd_size(size_t size)
{
	const uint32_t sizes[] = { 0,
				   4,
				   (uint32_t)size - 8,
				   (uint32_t)size - 1,
				   (uint32_t)size + 1,
				   (uint32_t)size + 8,
				   HAMMER_PAGE,
				   HAMMER_PAGE + 1,
				   UINT32_MAX };

	return sizes[hammer_random(sizeof(sizes) / sizeof(sizes[0]))];
}

/* Where the argument is passed: mostly in memory. */
static void *some_place(const union hetsim_argument *a, size_t size)
{
	unsigned char *at = hammer_me->plain;

	memset(at, 0, sizeof(hammer_me->plain));
	memcpy(at, a, sizeof(*a));
	if (hammer_chance(32))
		at[size] = 1; /* a member that the driver does not know */
	if (!hammer_way->kernel || !hammer_chance(10))
		return at;
	switch (hammer_random(5)) {
	case 0: /* up to the end of a page, or beyond */
		at = hammer_me->edge + HAMMER_PAGE -
		     (hammer_chance(2) ? size : size / 2 & ~7ul);
		memcpy(at, a, (size_t)(hammer_me->edge + HAMMER_PAGE - at));
		return at;
	case 1:
		return NULL;
	case 2:
		return (void *)(uintptr_t)hammer_odd();
	case 3: /* under the eyes of all threads */
		at = hammer->hot + 8 * hammer_random(64);
		memcpy(at, a, size);
		return at;
	default: /* in a map of the device itself, maybe; if not, it is as it is */
		at = hammer_address();
		hammer_try_copy(at, a, size);
		return at;
	}
}

/* No place of this device's has a byte of it: it is the other's. */
static void count_across(uint32_t handle)
{
	struct hetsim_buffer_info info = { .size = sizeof(info), .handle = handle };

	if (!hammer_way->call(hammer_me->file, HETSIM_BUFFER_INFO, &info) && !info.vram_bytes &&
	    !info.system_bytes && !info.window_bytes)
		hammer_count(HAMMER_ACROSS, 0);
}

/* Keeps the result of a call as an argument of later ones. */
static void keep_result(const struct row *row, void *where)
{
	union hetsim_argument a;

	if (where != hammer_me->plain)
		return; /* it may have changed by now: a descriptor stays open */
	memcpy(&a, where, sizeof(a));
	if (row->cmd == HETSIM_EXPORT) {
		hammer_fd_put(a.export.fd);
	} else if (row->cmd == HETSIM_FENCE_FD) {
		hammer_fd_put(a.fence_fd.fd);
	} else if (row->cmd == HETSIM_TIMELINE_CREATE) {
		hammer_fd_put(a.timeline_create.fd);
	} else if (row->cmd == HETSIM_SUBMIT) {
		hammer_keep_syncs(&a.submit);
	} else if (row->cmd == HETSIM_BUFFER_CREATE) {
		keep_handle(a.buffer_create.handle);
	} else if (row->cmd == HETSIM_IMPORT) {
		keep_handle(a.import.handle);
		if (hammer_other)
			count_across(a.import.handle);
	}
}

static void call_none(unsigned int file)
{
	unsigned long cmd = hammer_random(1ull << 32);

	if (hammer_chance(2))
		cmd = _IOC(hammer_random(4), HETSIM_TYPE, hammer_random(0x50),
			   hammer_random(128));
	memset(hammer_me->plain, (int)hammer_random(256), 256);
	hammer_count(HAMMER_NO_IOCTL, hammer_way->call(file, cmd, hammer_me->plain));
}

static int call_right(size_t which)
{
	const struct row *row = &rows[which];
	void *where = hammer_me->plain;
	union hetsim_argument a;
	int r;

	memset(&a, 0, sizeof(a));
	row->fill(&a);
	a.size = (uint32_t)row->size;
	memset(where, 0, sizeof(hammer_me->plain));
	memcpy(where, &a, sizeof(a));
	r = hammer_way->call(hammer_me->file, row->cmd, where);
	hammer_count((unsigned int)which, r);
	if (!r)
		keep_result(row, where);
	return r;
}

void hammer_furnish(unsigned int file)
{
	unsigned int i;

	hammer_me->file = file;
	for (i = 0; i < HANDLES; i++)
		call_right(HETSIM_ROW_BUFFER_CREATE);
	call_right(HETSIM_ROW_QUEUE_CREATE);
	call_right(HETSIM_ROW_QUEUE_CREATE);
	/* Some of the pool are the other device's, or no dma-bufs. */
	for (i = 0; hammer_other && i < 4; i++) {
		call_right(HETSIM_ROW_EXPORT);
		call_right(HETSIM_ROW_IMPORT);
	}
}

/* A file has no handshake if its device was away when the file was to make one. */
static bool is_lost(int r)
{
	return r == -ENODEV || r == -EPROTO;
}

void hammer_call(void)
{
	unsigned int file = (unsigned int)hammer_random(HAMMER_FILES);
	union hetsim_argument a, right;
	const struct row *row;
	size_t which, i;
	void *where;
	int r;

	if (hammer_chance(256)) {
		hammer_open(file);
		if (hammer_chance(2))
			hammer_furnish(file);
		return;
	}
	if (hammer_chance(64)) {
		call_none(file);
		return;
	}
	which = some_row();
	row = &rows[which];
	hammer_me->file = file;
	memset(&a, 0, sizeof(a));
	row->fill(&a);
	a.size = (uint32_t)row->size;
	right = a;
	if (hammer_chance(12))
		spoil(&a, row->size);
	for (i = 0; i < 4 && pointers[which][i] && !hammer_way->kernel; i++)
		mend_pointer(&a, pointers[which][i], &right);
	/* The point may never be signalled. */
	if (row->cmd == HETSIM_TIMELINE_WAIT)
		a.timeline_wait.deadline_ns = right.timeline_wait.deadline_ns;
	if (hammer_chance(32))
		a.size = odd_size(row->size);
	where = some_place(&a, row->size);
	r = hammer_way->call(file, row->cmd, where);
	hammer_count((unsigned int)which, r);
	if (!r)
		keep_result(row, where);
	else if (is_lost(r) && hammer_chance(4) && !hammer_open(file))
		hammer_furnish(file);
}
