// SPDX-License-Identifier: MIT
/* How work of an engine has ended, as a sentence. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "accel/engine/engine.h"

/* By enum hetsim_fault_reason; devices before 1.7 tell none. */
static const char *const reasons[] = {
	[HETSIM_REASON_NONE] = "it is not bound, or not for writing",
	[HETSIM_REASON_UNBOUND] = "it is not bound",
	[HETSIM_REASON_BINDING] = "it is bound, but not for that",
	[HETSIM_REASON_UNMAPPED] = "the process has nothing mapped there",
	[HETSIM_REASON_READ] = "the CPU may not read there either (PROT_NONE)",
	[HETSIM_REASON_WRITE] = "the CPU may not write there either",
	[HETSIM_REASON_NO_PAGE] = "no page is there: a file was cut, or failed",
	[HETSIM_REASON_DEVICE] = "it is memory of a device: map it with hetmap",
	[HETSIM_REASON_NO_ACCESS] = "it has the advice HM_RANGE_NO_ACCESS",
	[HETSIM_REASON_EXITED] = "the process has ended",
};

static void explain_fault(const struct engine_end *end, char *text, size_t size)
{
	const char *reason = end->reason < ARRAY_SIZE(reasons) ? reasons[end->reason] :
								 "for a reason of its own";

	snprintf(text, size, "%s address 0x%" PRIx64 ": %s",
		 end->reason ? end->write ? "writing" : "reading" : "an access of",
		 end->address, reason);
}

const char *engine_explain_end(const struct engine *engine, const struct engine_end *end,
			       char *text, size_t size)
{
	static const struct {
		int status;
		const char *text;
	} ends[] = {
		{ -ECANCELED, "the engine was reset, on request or for work before it" },
		{ -ENODEV, "the device was taken away" },
		{ -EOVERFLOW, "the device no longer knows its status, which may be a failure" },
		{ -ENOMEM, "there was no memory for an entry of the device" },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i].status == end->status)
			return ends[i].text;
	if (end->status == -EFAULT)
		explain_fault(end, text, size);
	else if (end->status == -ETIMEDOUT)
		/* A running job ends, too, when the earliest fence of its queue is due. */
		snprintf(text, size,
			 "it ran, or kept a fence waiting, for %u ms: the engine was reset",
			 engine->port->query.timeout_ms);
	else
		snprintf(text, size, "%.90s", err_name(end->status));
	return text;
}
