// SPDX-License-Identifier: MIT
/* Was a command shown to the one who traces it? */
#include "untraced.h"

#include <linux/perf_event.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/text.h"

/* Some of the time is never theirs: executing, and the end of the memory. */
bool counters_were_taken(uint64_t enabled_ns, uint64_t cpu_ns)
{
	return enabled_ns < cpu_ns / 10;
}

void untraced_begin(struct untraced *untraced, const struct child *child)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.disabled = 1,
		.inherit = 1,
		.enable_on_exec = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};

	*untraced = (struct untraced){ .fd = -1 };
	child_cost(child, &untraced->before);
	untraced->fd = (int)syscall(SYS_perf_event_open, &attr, child->pid, -1, -1,
				    PERF_FLAG_FD_CLOEXEC);
}

static uint64_t less(uint64_t value, uint64_t before)
{
	return value > before ? value - before : 0;
}

/*
 * By time, not by faults: many a command's are in the kernel, where most users see none, or
 * of pages that it has the kernel bring in, which are no event.
 */
void untraced_take(struct untraced *untraced, const struct rusage *usage)
{
	uint64_t reading[2]; /* its count, which is 0, and the time it was there */

	untraced->faults = less((uint64_t)usage->ru_minflt + (uint64_t)usage->ru_majflt,
				untraced->before.minor + untraced->before.major);
	if (untraced->fd < 0 || read(untraced->fd, reading, sizeof(reading)) != sizeof(reading))
		return;
	untraced->taken = counters_were_taken(reading[1], less(child_cpu_ns(usage),
							       untraced->before.cpu_ns));
}

char *untraced_missing(const struct untraced *untraced, uint64_t counted)
{
	char had[TEXT_MAX], told[TEXT_MAX];

	if (!untraced->taken)
		return NULL;
	return text_format(
		"the command had %s page faults, and %s were recorded: the kernel lets no "
		"ordinary user look into a program with other rights than the user's "
		"(set-user-ID, file capabilities), or one that the user may not read. Trace "
		"it as root (sudo hetmap trace)",
		text_count(untraced->faults, had), text_count(counted, told));
}

void untraced_end(struct untraced *untraced)
{
	if (untraced->fd >= 0)
		close(untraced->fd);
	untraced->fd = -1;
}
