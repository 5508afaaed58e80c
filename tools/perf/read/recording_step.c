// SPDX-License-Identifier: MIT
/*
 * From record to record, whatever they are: perf's own need not be of a multiple of 8 bytes,
 * and some have more behind them than their size says.
 */
#include <string.h>

#include "recording_private.h"

bool recorded_is_told(uint32_t type)
{
	switch (type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_LOST:
	case PERF_RECORD_COMM:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_FORK:
	case PERF_RECORD_SAMPLE:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return true;
	default:
		return false;
	}
}

bool recorded_is_known(uint32_t type)
{
	return type <= PERF_RECORD_KERNEL_LAST ||
	       (type >= PERF_RECORD_USER_FIRST && type <= PERF_RECORD_USER_LAST);
}

bool recorded_is_compressed(uint32_t type)
{
	return type == PERF_RECORD_COMPRESSED || type == PERF_RECORD_COMPRESSED2;
}

/* The number of 8 bytes behind its head, or of 4. */
static uint64_t word_of(const char *at, size_t size)
{
	uint64_t wide = 0;
	uint32_t narrow;

	if (size == sizeof(wide)) {
		memcpy(&wide, at + sizeof(struct perf_event_header), sizeof(wide));
		return wide;
	}
	memcpy(&narrow, at + sizeof(struct perf_event_header), sizeof(narrow));
	return narrow;
}

uint64_t recorded_step(const char *at, uint64_t left)
{
	struct perf_event_header record;
	uint64_t behind = 0;

	if (left < sizeof(record))
		return 0;
	memcpy(&record, at, sizeof(record));
	switch (record.type) {
	case PERF_RECORD_TRACING_DATA:
		if (left < sizeof(record) + sizeof(uint32_t))
			return 0;
		behind = (word_of(at, sizeof(uint32_t)) + 7) & ~UINT64_C(7);
		break;
	case PERF_RECORD_AUXTRACE:
		if (left < sizeof(record) + sizeof(uint64_t))
			return 0;
		behind = word_of(at, sizeof(uint64_t));
		break;
	case PERF_RECORD_COMPRESSED2:
		if (left < sizeof(record) + sizeof(uint64_t))
			return 0;
		/* Of the longest of all, perf's size of 16 bits begins at 0 again. */
		if (!record.size && word_of(at, sizeof(uint64_t)) + 16 <= UINT16_MAX)
			return word_of(at, sizeof(uint64_t)) + 16;
		break;
	default:
		break;
	}
	if (record.size < sizeof(record) || behind > UINT64_MAX / 2)
		return UINT64_MAX;
	return record.size + behind;
}
