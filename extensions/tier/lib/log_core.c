// SPDX-License-Identifier: MIT
/* The log as bytes: its format, appends, and what an interrupted one leaves. */
#include "log_core.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char magic[8] = "hetmaplg";

struct header {
	char magic[8];
	uint32_t version;
	uint32_t checksum; /* of the header with 0 here */
	uint64_t size;
};

struct state {
	uint64_t sequence;
	uint64_t epoch;
	uint32_t root_length;
	uint32_t checksum; /* of the state with 0 here */
	char root[HM_LOG_ROOT_MAX];
};

struct record {
	uint64_t epoch;
	uint64_t number;
	uint64_t length;
	uint32_t checksum; /* of the three above, and of the bytes */
	uint32_t reserved;
};

#define STATE(i) (256u + 256u * (i))

_Static_assert(sizeof(struct header) <= LOG_LINE, "a header is one line");
_Static_assert(sizeof(struct state) <= 256, "a state has its place");
_Static_assert(sizeof(struct record) == 32, "the comment of hm_log_info says 32");

/* CRC-32C, which finds each error of up to 32 bits in a row [RFC 3720, appendix B.4]. */
static uint32_t crc_of(uint32_t crc, const void *bytes, uint64_t length)
{
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
		0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const unsigned char *at = bytes, *end = at + length;

	crc = ~crc;
	for (; at < end; at++) {
		crc ^= *at;
		crc = table[crc & 15] ^ crc >> 4;
		crc = table[crc & 15] ^ crc >> 4;
	}
	return ~crc;
}

static uint32_t sum_of_state(const struct state *state)
{
	struct state copy = *state;

	copy.checksum = 0;
	return crc_of(0, &copy, sizeof(copy));
}

static uint32_t sum_of_header(const struct header *header)
{
	struct header copy = *header;

	copy.checksum = 0;
	return crc_of(0, &copy, sizeof(copy));
}

static uint32_t sum_of_record(const struct record *record, const void *bytes)
{
	return crc_of(crc_of(0, record, offsetof(struct record, checksum)), bytes,
		      record->length);
}

static uint64_t round_line(uint64_t bytes)
{
	return (bytes + LOG_LINE - 1) & ~(uint64_t)(LOG_LINE - 1);
}

static void store(struct log_core *core, uint64_t offset, const void *from, uint64_t length)
{
	core->engine->store(core->user, core->base + offset, from, length);
}

/* After an error nobody knows what lasts: the log takes nothing more. */
static int settle(struct log_core *core, uint64_t offset, uint64_t length)
{
	int r = core->engine->flush(core->user, core->base + offset, length);

	if (!r)
		r = core->engine->fence(core->user);
	if (r)
		core->failed = r;
	return r;
}

/* ---- state ---- */

/* Writes over the older state, so that the newer one stays until this one is whole. */
static int write_state(struct log_core *core, uint64_t epoch, const void *root,
		       uint32_t root_length)
{
	struct state state = {
		.sequence = core->sequence + 1,
		.epoch = epoch,
		.root_length = root_length,
	};
	uint64_t at = STATE(state.sequence & 1);
	int r;

	if (core->failed)
		return core->failed;
	memcpy(state.root, root, root_length);
	state.checksum = sum_of_state(&state);
	store(core, at, &state, sizeof(state));
	r = settle(core, at, sizeof(state));
	if (r)
		return r;
	core->sequence = state.sequence;
	core->epoch = epoch;
	memcpy(core->root, state.root, sizeof(core->root));
	core->root_length = root_length;
	return 0;
}

static bool read_state(const struct log_core *core, uint32_t i, struct state *state)
{
	memcpy(state, core->base + STATE(i), sizeof(*state));
	return state->sequence && (state->sequence & 1) == i &&
	       state->root_length <= HM_LOG_ROOT_MAX && state->checksum == sum_of_state(state);
}

int log_core_root_set(struct log_core *core, const void *bytes, uint32_t length)
{
	return write_state(core, core->epoch, bytes, length);
}

int log_core_clear(struct log_core *core)
{
	int r = write_state(core, core->epoch + 1, core->root, core->root_length);

	if (r)
		return r;
	core->n_record = 0;
	core->end = LOG_RECORDS;
	return 0;
}

/* ---- records ---- */

int log_core_record(const struct log_core *core, uint64_t at, uint64_t number,
		    const void **ret_bytes, uint64_t *ret_length, uint64_t *ret_next)
{
	const char *bytes = core->base + at + sizeof(struct record);
	struct record record;
	uint64_t room;

	if (at > core->size || core->size - at < sizeof(record))
		return -ENOENT;
	room = core->size - at - sizeof(record);
	memcpy(&record, core->base + at, sizeof(record));
	if (record.epoch != core->epoch || (number && record.number != number) ||
	    !record.length || record.length > room ||
	    record.checksum != sum_of_record(&record, bytes))
		return -ENOENT;
	*ret_bytes = bytes;
	*ret_length = record.length;
	*ret_next = round_line(at + sizeof(record) + record.length);
	return 0;
}

int log_core_append(struct log_core *core, const void *bytes, uint64_t length)
{
	struct record record = {
		.epoch = core->epoch,
		.number = core->n_record + 1,
		.length = length,
	};
	uint64_t at = core->end;
	int r;

	if (core->failed)
		return core->failed;
	if (at > core->size || core->size - at < sizeof(record) ||
	    core->size - at - sizeof(record) < length)
		return -ENOSPC;
	record.checksum = sum_of_record(&record, bytes);
	store(core, at + sizeof(record), bytes, length);
	store(core, at, &record, sizeof(record));
	r = settle(core, at, sizeof(record) + length);
	if (r)
		return r;
	core->n_record++;
	core->end = round_line(at + sizeof(record) + length);
	return 0;
}

static void find_records(struct log_core *core)
{
	const void *bytes;
	uint64_t length;

	core->n_record = 0;
	core->end = LOG_RECORDS;
	while (!log_core_record(core, core->end, core->n_record + 1, &bytes, &length,
				&core->end))
		core->n_record++;
}

/* ---- the whole ---- */

/* The header comes last: without it there is no log. An old log's header goes first. */
int log_core_format(struct log_core *core, uint64_t epoch)
{
	static const char zeros[LOG_RECORDS];
	struct header header = { .version = LOG_VERSION, .size = core->size };
	int r;

	core->failed = 0;
	core->sequence = 0;
	store(core, 0, zeros, LOG_LINE);
	r = settle(core, 0, LOG_LINE);
	if (r)
		return r;
	store(core, LOG_LINE, zeros + LOG_LINE, LOG_RECORDS - LOG_LINE);
	r = settle(core, LOG_LINE, LOG_RECORDS - LOG_LINE);
	if (!r)
		r = write_state(core, epoch, zeros, 0);
	if (r)
		return r;
	memcpy(header.magic, magic, sizeof(magic));
	header.checksum = sum_of_header(&header);
	store(core, 0, &header, sizeof(header));
	r = settle(core, 0, sizeof(header));
	find_records(core);
	return r;
}

static bool is_zero(const char *bytes, uint64_t length)
{
	while (length--)
		if (*bytes++)
			return false;
	return true;
}

int log_core_open(struct log_core *core, uint32_t *ret_version)
{
	struct state states[2];
	struct header header;
	bool there[2];
	uint32_t i;

	memcpy(&header, core->base, sizeof(header));
	if (memcmp(header.magic, magic, sizeof(magic)) != 0)
		return is_zero(core->base, LOG_LINE) ? -ENODATA : -EMEDIUMTYPE;
	if (header.checksum != sum_of_header(&header))
		return -EMEDIUMTYPE;
	*ret_version = header.version;
	if (header.version != LOG_VERSION)
		return -EPROTO;
	if (header.size > core->size)
		return -EMEDIUMTYPE;
	core->size = header.size;
	for (i = 0; i < 2; i++)
		there[i] = read_state(core, i, &states[i]);
	if (!there[0] && !there[1])
		return -EMEDIUMTYPE;
	i = there[0] && there[1] ? states[1].sequence > states[0].sequence : there[1];
	core->failed = 0;
	core->sequence = states[i].sequence;
	core->epoch = states[i].epoch;
	core->root_length = states[i].root_length;
	memcpy(core->root, states[i].root, sizeof(core->root));
	find_records(core);
	return 0;
}
