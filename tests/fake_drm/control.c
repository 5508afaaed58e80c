// SPDX-License-Identifier: MIT
/* Requests of tests. All but the table's functions are called with the lock held. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"
#include "lock.h"

#define STRUCTS_MAX 64
#define TRACE_MAX (64 * 1024)

static struct {
	unsigned int n;
	_Atomic unsigned int calls; /* may be asked for while one is held back */
	int error;
	const char *failed;
	bool forbidden[FAKE_DRM_ALL], gone[FAKE_DRM_ALL], no_prime, dumb_short;
	_Atomic bool busy; /* likewise */
	unsigned int looks, leaked;

	/* The request of mutate(), and how often the struct has been read. */
	const char *name;
	unsigned int nth, times;
	size_t offset, size;
	uint64_t bits, add;

	struct {
		const char *name;
		size_t size;
		unsigned int times;
	} read[STRUCTS_MAX];
	unsigned int n_read;

	char trace[TRACE_MAX];
	size_t length;
} state;

int fake_due(const char *name)
{
	if (++state.calls != state.n)
		return 0;
	state.failed = name;
	return state.error;
}

bool fake_is_forbidden(unsigned int node)
{
	return state.forbidden[node];
}

bool fake_is_gone(unsigned int node)
{
	return state.gone[node];
}

bool fake_has_prime(void)
{
	return !state.no_prime;
}

bool fake_dumb_is_short(void)
{
	return state.dumb_short;
}

bool fake_is_busy(void)
{
	if (state.busy || !state.looks)
		return state.busy;
	state.looks--;
	return true;
}

bool fake_is_busy_for_ever(void)
{
	return state.busy;
}

void fake_leaked(unsigned int node, unsigned int handles)
{
	const char *leak = getenv("FAKE_DRM_LEAK");

	state.leaked += handles;
	if (!leak || strcmp(leak, "abort") != 0)
		return;
	fprintf(stderr, "fake_drm: renderD%u was closed with %u handles open\n",
		fake_minor(node), handles);
	abort();
}

static void count(const char *name, size_t size)
{
	unsigned int i;

	for (i = 0; i < state.n_read; i++)
		if (!strcmp(state.read[i].name, name))
			break;
	if (i == STRUCTS_MAX)
		abort();
	if (i == state.n_read)
		state.read[state.n_read++].times = 0;
	state.read[i].name = name;
	state.read[i].size = size;
	state.read[i].times++;
}

void fake_mutation(const char *name, void *data, size_t size)
{
	uint64_t value = 0;

	count(name, size);
	if (!state.name || strcmp(state.name, name) != 0 || state.times++ != state.nth)
		return;
	if (state.offset + state.size > size || state.size > sizeof(value))
		abort(); /* the test's table is wrong */
	memcpy(&value, (char *)data + state.offset, state.size);
	value = (value ^ state.bits) + state.add;
	memcpy((char *)data + state.offset, &value, state.size);
}

void fake_trace(const char *format, ...)
{
	size_t left = TRACE_MAX - state.length;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(state.trace + state.length, left, format, arguments);
	va_end(arguments);
	if (n > 0)
		state.length += (size_t)n < left ? (size_t)n : left - 1;
}

/* ---- the table ---- */

static void control_fail(unsigned int n, int error)
{
	fake_lock();
	state.n = n;
	state.error = error;
	state.calls = 0;
	state.failed = NULL;
	fake_unlock();
}

static const char *control_failed(void)
{
	return state.failed;
}

static unsigned int control_calls(void)
{
	return state.calls;
}

static void control_forbid(enum fake_drm_node node, bool forbidden)
{
	state.forbidden[node] = forbidden;
}

static void control_unplug(enum fake_drm_node node, bool gone)
{
	fake_lock();
	state.gone[node] = gone;
	fake_unlock();
}

static void control_busy(bool busy)
{
	state.busy = busy;
}

static void control_busy_looks(unsigned int n)
{
	fake_lock();
	state.looks = n;
	fake_unlock();
}

static unsigned int control_leaked(void)
{
	return state.leaked;
}

static void control_mutate(const char *name, unsigned int nth, size_t offset, size_t size,
			   uint64_t bits, uint64_t add)
{
	fake_lock();
	state.name = name;
	state.nth = nth;
	state.times = 0;
	state.offset = offset;
	state.size = size;
	state.bits = bits;
	state.add = add;
	fake_unlock();
}

static bool control_read_struct(unsigned int index, const char **ret_name, size_t *ret_size,
				unsigned int *ret_times)
{
	if (index >= state.n_read)
		return false;
	*ret_name = state.read[index].name;
	*ret_size = state.read[index].size;
	*ret_times = state.read[index].times;
	return true;
}

static const char *control_trace(void)
{
	return state.trace;
}

static void control_trace_clear(void)
{
	fake_lock();
	state.length = 0;
	state.trace[0] = '\0';
	state.n_read = 0;
	fake_unlock();
}

static void control_no_prime(bool without)
{
	fake_lock();
	state.no_prime = without;
	fake_unlock();
}

static void control_dumb_short(bool is_short)
{
	fake_lock();
	state.dumb_short = is_short;
	fake_unlock();
}

static void control_hide(enum fake_drm_node node, bool hidden)
{
	fake_hide(node, hidden);
}

static void control_carry(enum fake_drm_node node, const char *carrier)
{
	fake_carry(node, carrier);
}

extern const struct fake_drm_control fake_drm_control;
__attribute__((visibility("default"))) const struct fake_drm_control fake_drm_control = {
	.fail = control_fail,
	.failed = control_failed,
	.calls = control_calls,
	.forbid = control_forbid,
	.unplug = control_unplug,
	.plug_card = fake_plug_card,
	.no_prime = control_no_prime,
	.dumb_short = control_dumb_short,
	.sync_file = fake_sync_file_new,
	.hide = control_hide,
	.carry = control_carry,
	.busy = control_busy,
	.busy_looks = control_busy_looks,
	.handles = fake_handles,
	.leaked = control_leaked,
	.mutate = control_mutate,
	.read_struct = control_read_struct,
	.trace = control_trace,
	.trace_clear = control_trace_clear,
};

/* FAKE_DRM_FAIL=N:ERRNO */
__attribute__((constructor)) static void set_up(void)
{
	const char *fail = getenv("FAKE_DRM_FAIL");

	if (fail && sscanf(fail, "%u:%d", &state.n, &state.error) != 2)
		abort();
}
