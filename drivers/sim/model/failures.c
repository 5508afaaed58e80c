// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The failures that a queue remembers.
 */
#include "model.h"

static bool sim_fault_is(const struct sim_fault *a, const struct sim_fault *b)
{
	return a->address == b->address && a->reason == b->reason && a->write == b->write;
}

/* Failures in a row that end in one way are one record: all of a queue may be cancelled. */
void sim_failures_add(struct sim_failures *failures, u64 seqno, int status,
		      const struct sim_fault *fault)
{
	struct sim_failure *record = &failures->record[(failures->n_records - 1) % SIM_FAILURES];

	failures->n++;
	/* Before the first record there is an empty one, with a status of 0. */
	if (record->last + 1 == seqno && record->status == status &&
	    sim_fault_is(&record->fault, fault)) {
		record->last = seqno;
		return;
	}
	record = &failures->record[failures->n_records++ % SIM_FAILURES];
	record->first = seqno;
	record->last = seqno;
	record->status = status;
	record->fault = *fault;
}

int sim_failures_find(const struct sim_failures *failures, u64 seqno,
		      struct sim_fault *ret_fault)
{
	u64 n = failures->n_records, i;

	for (i = 1; i <= n && i <= SIM_FAILURES; i++) {
		const struct sim_failure *record = &failures->record[(n - i) % SIM_FAILURES];

		if (record->last < seqno)
			return 0;
		if (record->first <= seqno) {
			*ret_fault = record->fault;
			return record->status;
		}
	}
	return n > SIM_FAILURES ? -EOVERFLOW : 0;
}
