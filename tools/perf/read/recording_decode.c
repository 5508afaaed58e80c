// SPDX-License-Identifier: MIT
/* The contents of a record: the fields of a sample by its event's sample_type. */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "recording_private.h"

/* From the front of a record, or of its trailer; never beyond its end. */
struct cursor {
	const char *at, *end;
	bool short_of; /* more was asked for than there is */
};

static uint64_t take(struct cursor *cursor)
{
	uint64_t word = 0;

	if (cursor->end - cursor->at < (ptrdiff_t)sizeof(word)) {
		cursor->short_of = true;
		return 0;
	}
	memcpy(&word, cursor->at, sizeof(word));
	cursor->at += sizeof(word);
	return word;
}

/* Of a damaged record: sums of them stay numbers. */
#define PERIOD_MOST UINT32_MAX

static uint32_t low(uint64_t word)
{
	return (uint32_t)word;
}

static const struct recorded_attr *by_id(const struct recorded_attrs *attrs, uint64_t id)
{
	uint64_t first = 0, behind = attrs->n_id;

	while (first < behind) {
		uint64_t middle = first + (behind - first) / 2;

		if (attrs->ids[middle].id == id)
			return &attrs->attr[attrs->ids[middle].attr];
		if (attrs->ids[middle].id < id)
			first = middle + 1;
		else
			behind = middle;
	}
	return NULL;
}

static struct cursor body(const struct perf_event_header *record)
{
	const char *at = (const char *)record;

	return (struct cursor){ .at = at + sizeof(*record), .end = at + record->size };
}

/* Where a sample of that type says of which event it is, from its beginning; 0: it doesn't. */
uint32_t recorded_id_at(uint64_t sample_type)
{
	const uint64_t fields = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
				PERF_SAMPLE_ADDR;

	if (sample_type & PERF_SAMPLE_IDENTIFIER)
		return sizeof(struct perf_event_header);
	if (!(sample_type & PERF_SAMPLE_ID))
		return 0;
	return (uint32_t)(sizeof(struct perf_event_header) +
			  (size_t)__builtin_popcountll(sample_type & fields) *
				  sizeof(uint64_t));
}

/* Whose sample it is: by the id, which all have at one place if there are several events. */
static const struct recorded_attr *attr_of(const struct recorded_attrs *attrs,
					   const struct perf_event_header *record)
{
	uint32_t at = recorded_id_at(attrs->attr[0].sample_type);
	uint64_t id;

	if (attrs->n == 1)
		return &attrs->attr[0];
	if (record->size < at + sizeof(id))
		return NULL;
	memcpy(&id, (const char *)record + at, sizeof(id));
	return by_id(attrs, id);
}

/* A tracepoint's data: their length in 4 bytes, then they, by the recording's own format. */
static bool decode_raw(const struct point_layout *point, const struct cursor *cursor,
		       struct recorded_event *event)
{
	uint32_t length, i;

	if (cursor->end - cursor->at < (ptrdiff_t)sizeof(length))
		return false;
	memcpy(&length, cursor->at, sizeof(length));
	if (length > (uint64_t)(cursor->end - cursor->at) - sizeof(length))
		return false;
	for (i = 0; i < POINT_FIELDS; i++)
		if (point_value(point, i, cursor->at + sizeof(length), length,
				&event->value[i]))
			event->known |= 1u << i;
	return true;
}

/* The fields between a call chain and the physical address, of one word and of many. */
#define WORDS_BEFORE_PHYSICAL                                                    \
	(PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC | \
	 PERF_SAMPLE_TRANSACTION)
#define BEFORE_STACK (PERF_SAMPLE_READ | PERF_SAMPLE_RAW | PERF_SAMPLE_BRANCH_STACK)
#define LONG_FIELDS \
	(BEFORE_STACK | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_REGS_INTR)

/* The first word of a sample's stack, which stands behind its registers; 0: it has none. */
static uint64_t stack_top(const struct recorded_attr *attr, struct cursor cursor)
{
	uint64_t words = 0, size, top = 0;

	if (attr->sample_type & PERF_SAMPLE_REGS_USER && take(&cursor))
		words = (uint64_t)__builtin_popcountll(attr->registers);
	if (words > (uint64_t)(cursor.end - cursor.at) / sizeof(top))
		return 0;
	cursor.at += words * sizeof(top);
	size = take(&cursor);
	if (size < sizeof(top) || size > (uint64_t)(cursor.end - cursor.at))
		return 0;
	memcpy(&top, cursor.at, sizeof(top));
	cursor.at += size;
	/* The number of bytes that were there. */
	return take(&cursor) >= sizeof(top) ? top : 0;
}

/* Words behind the marker of a part that comes later are no addresses. */
static uint32_t addresses(const uint64_t *chain, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (chain[i] == PERF_CHAIN_DEFERRED)
			return i;
	return n;
}

/* Fields that are of use here, in the kernel's order [perf_event_open(2)]. */
static bool decode_sample(const struct recorded_attr *attr,
			  const struct perf_event_header *record, struct recorded_event *event)
{
	uint64_t type = attr->sample_type, word;
	struct cursor cursor = body(record);
	int n;

	if (type & PERF_SAMPLE_IDENTIFIER)
		event->id = take(&cursor);
	if (type & PERF_SAMPLE_IP)
		event->ip = take(&cursor);
	if (type & PERF_SAMPLE_TID) {
		word = take(&cursor);
		event->pid = low(word);
		event->tid = low(word >> 32);
	}
	if (type & PERF_SAMPLE_TIME)
		event->time = take(&cursor);
	if (type & PERF_SAMPLE_ADDR)
		event->address = take(&cursor);
	if (type & PERF_SAMPLE_ID)
		event->id = take(&cursor);
	if (type & PERF_SAMPLE_STREAM_ID)
		take(&cursor);
	if (type & PERF_SAMPLE_CPU)
		event->cpu = low(take(&cursor));
	event->period = type & PERF_SAMPLE_PERIOD ? take(&cursor) : attr->period;
	if (!event->period || event->period > PERIOD_MOST)
		event->period = event->period ? PERIOD_MOST : 1;
	event->in_kernel = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) ==
			   PERF_RECORD_MISC_KERNEL;
	/* Values that are read with a sample have a form of their own, and no use here. */
	if (type & PERF_SAMPLE_CALLCHAIN && !(type & PERF_SAMPLE_READ)) {
		uint64_t frames = take(&cursor);

		if (frames > (uint64_t)(cursor.end - cursor.at) / sizeof(uint64_t))
			return false;
		event->chain = (const uint64_t *)(const void *)cursor.at;
		event->n_chain = addresses(event->chain, low(frames));
		cursor.at += frames * sizeof(uint64_t);
	}
	if (attr->point && type & PERF_SAMPLE_RAW && !(type & PERF_SAMPLE_READ))
		return !cursor.short_of && decode_raw(attr->point, &cursor, event);
	if (type & PERF_SAMPLE_STACK_USER && !(type & BEFORE_STACK))
		event->stack_top = stack_top(attr, cursor);
	if (type & PERF_SAMPLE_PHYS_ADDR && !(type & LONG_FIELDS)) {
		for (n = __builtin_popcountll(type & WORDS_BEFORE_PHYSICAL); n; n--)
			take(&cursor);
		event->physical = take(&cursor);
	}
	return !cursor.short_of;
}

/* The trailer ends the record: its fields are counted from the end. */
static uint64_t trailer_size(uint64_t type)
{
	const uint64_t fields = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
				PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU |
				PERF_SAMPLE_IDENTIFIER;

	return (uint64_t)__builtin_popcountll(type & fields) * sizeof(uint64_t);
}

static bool decode_trailer(const struct recorded_attr *attr,
			   const struct perf_event_header *record, struct recorded_event *event)
{
	uint64_t size = trailer_size(attr->sample_type), type = attr->sample_type, word;
	struct cursor cursor = body(record);

	if (!attr->trailer || (uint64_t)(cursor.end - cursor.at) < size)
		return false;
	cursor.at = cursor.end - size;
	if (type & PERF_SAMPLE_TID) {
		word = take(&cursor);
		event->pid = low(word);
		event->tid = low(word >> 32);
	}
	if (type & PERF_SAMPLE_TIME)
		event->time = take(&cursor);
	if (type & PERF_SAMPLE_ID)
		take(&cursor);
	if (type & PERF_SAMPLE_STREAM_ID)
		take(&cursor);
	if (type & PERF_SAMPLE_CPU)
		event->cpu = low(take(&cursor));
	return true;
}

/* Behind those of its fields that stand before it. */
uint32_t recorded_time_at(uint64_t sample_type)
{
	const uint64_t fields = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID;

	if (!(sample_type & PERF_SAMPLE_TIME))
		return 0;
	return (uint32_t)(sizeof(struct perf_event_header) +
			  (size_t)__builtin_popcountll(sample_type & fields) *
				  sizeof(uint64_t));
}

bool recorded_time(const struct recorded_attrs *attrs, const struct perf_event_header *record,
		   uint64_t *ret_time, const struct recorded_attr **ret_attr)
{
	const struct recorded_attr *attr = &attrs->attr[0];
	struct recorded_event event = { 0 };

	if (record->type != PERF_RECORD_SAMPLE) {
		/* Records that perf puts at the beginning count as from before it. */
		*ret_time = decode_trailer(attr, record, &event) ? event.time : 0;
		*ret_attr = attr;
		return true;
	}
	attr = attr_of(attrs, record);
	if (!attr || !attr->time_at || record->size < attr->time_at + sizeof(*ret_time))
		return false;
	memcpy(ret_time, (const char *)record + attr->time_at, sizeof(*ret_time));
	*ret_attr = attr;
	return true;
}

/* A name that ends inside of the record. */
static const char *name_at(const char *at, const char *end)
{
	return at < end && memchr(at, '\0', (size_t)(end - at)) ? at : NULL;
}

/* It stands in place of device, inode and generation, which are not told then. */
static void take_build_id(const char *behind, bool short_of, struct recorded_event *event)
{
	const uint8_t *at = (const uint8_t *)behind - 24;

	event->device_major = event->device_minor = 0;
	event->inode = event->generation = 0;
	if (short_of || at[0] > sizeof(event->build_id))
		return;
	event->n_build_id = at[0];
	memcpy(event->build_id, at + 4, at[0]);
}

static bool decode_map(const struct perf_event_header *record, struct recorded_event *event)
{
	struct cursor cursor = body(record);
	uint64_t word = take(&cursor);

	event->kind = RECORDED_MAP;
	event->pid = low(word);
	event->tid = low(word >> 32);
	event->address = take(&cursor);
	event->length = take(&cursor);
	event->offset = take(&cursor);
	event->executable = !(record->misc & PERF_RECORD_MISC_MMAP_DATA);
	event->writable = true;
	if (record->type == PERF_RECORD_MMAP2) {
		word = take(&cursor);
		event->device_major = low(word);
		event->device_minor = low(word >> 32);
		event->inode = take(&cursor);
		event->generation = take(&cursor);
		if (record->misc & PERF_RECORD_MISC_MMAP_BUILD_ID)
			take_build_id(cursor.at, cursor.short_of, event);
		event->writable = take(&cursor) & PROT_WRITE;
	}
	event->name = name_at(cursor.at, cursor.end);
	return !cursor.short_of && event->name && event->length &&
	       event->address + event->length > event->address;
}

static bool decode_name(const struct perf_event_header *record, struct recorded_event *event)
{
	struct cursor cursor = body(record);
	uint64_t word = take(&cursor);

	event->kind = RECORDED_NAME;
	event->pid = low(word);
	event->tid = low(word >> 32);
	event->name = name_at(cursor.at, cursor.end);
	event->new_program = record->misc & PERF_RECORD_MISC_COMM_EXEC;
	return !cursor.short_of && event->name;
}

static bool decode_task(const struct perf_event_header *record, struct recorded_event *event)
{
	struct cursor cursor = body(record);
	uint64_t pids = take(&cursor), tids = take(&cursor);

	event->kind = record->type == PERF_RECORD_FORK ? RECORDED_FORK : RECORDED_EXIT;
	event->pid = low(pids);
	event->parent_pid = low(pids >> 32);
	event->tid = low(tids);
	event->parent_tid = low(tids >> 32);
	return !cursor.short_of;
}

static bool decode_lost(const struct perf_event_header *record, struct recorded_event *event)
{
	struct cursor cursor = body(record);

	event->kind = RECORDED_LOST;
	if (record->type == PERF_RECORD_LOST)
		take(&cursor);
	event->lost = take(&cursor);
	event->filtered = record->type == PERF_RECORD_LOST_SAMPLES &&
			  record->misc & PERF_RECORD_LOST_TO_FILTER;
	return !cursor.short_of;
}

/* Whose it is stands in its trailer. */
static bool decode_switch(const struct recorded_attr *attr,
			  const struct perf_event_header *record, struct recorded_event *event)
{
	event->kind = RECORDED_SWITCH;
	event->off_cpu = record->misc & PERF_RECORD_MISC_SWITCH_OUT;
	event->preempted = record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
	return attr->trailer && attr->sample_type & PERF_SAMPLE_TID && event->tid;
}

bool recorded_decode(const struct recorded_attr *attr, const struct perf_event_header *record,
		     struct recorded_event *ret_event)
{
	*ret_event = (struct recorded_event){ 0 };
	if (record->type == PERF_RECORD_SAMPLE) {
		if (!attr->fault && !attr->point)
			return false;
		ret_event->kind = attr->point ? RECORDED_POINT : attr->kind;
		if (attr->point)
			ret_event->point = attr->point->point;
		return decode_sample(attr, record, ret_event);
	}
	decode_trailer(attr, record, ret_event);
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return decode_map(record, ret_event);
	case PERF_RECORD_COMM:
		return decode_name(record, ret_event);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return decode_task(record, ret_event);
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return decode_switch(attr, record, ret_event);
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		return decode_lost(record, ret_event);
	default:
		return false;
	}
}
