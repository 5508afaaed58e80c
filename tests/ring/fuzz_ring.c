// SPDX-License-Identifier: MIT
/*
 * libFuzzer: a ring's file of any origin, and an other end that changes it while it is in use.
 * Calls give errors, or records that are inside of the ring.
 *
 * The input: the header, both positions, then bytes for the records, from which each operation
 * takes its stores to the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ring/ring.h"

#define CAPACITY RING_CAPACITY_MIN
#define OPERATIONS 64

#define MUST(condition)           \
	do {                      \
		if (!(condition)) \
			abort();  \
	} while (0)

/* Outside of it nothing may be touched: the sanitizer sees to that. */
struct image {
	_Alignas(4096) char bytes[RING_DATA + CAPACITY + RING_LAST];
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t take(const uint8_t **data, size_t *size)
{
	uint64_t word = 0;
	size_t n = *size < sizeof(word) ? *size : sizeof(word);

	memcpy(&word, *data, n);
	*data += n;
	*size -= n;
	return word;
}

static void read_one(struct hm_ring *ring)
{
	const char *record;
	const void *data;
	uint64_t length;
	int r = hm_ring_peek(ring, 0, &data, &length);

	MUST(!r || r == -EBADMSG || r == -ETIME);
	if (r)
		return;
	record = data;
	MUST(record >= ring->data + RING_HEAD && length && length <= CAPACITY / 2);
	MUST(record + length <= ring->data + CAPACITY);
	MUST(!hm_ring_release(ring));
}

static void write_one(struct hm_ring *ring, uint64_t word)
{
	char *record;
	void *data;
	int r = hm_ring_reserve(ring, word % (CAPACITY / 2 + 16), 0, &data);

	MUST(!r || r == -EBADMSG || r == -ETIME || r == -EMSGSIZE || r == -EINVAL);
	if (r)
		return;
	record = data;
	MUST(record >= ring->data + RING_HEAD);
	MUST(record + ring->length <= ring->data + CAPACITY);
	memset(record, 0xaa, ring->length);
	MUST(!hm_ring_commit(ring, word >> 32 & 1 ? ring->length : 1));
}

static void run(struct image *image, uint32_t end, const uint8_t *data, size_t size)
{
	struct hm_ring ring = { .end = end, .lock_fd = -1 };
	struct ring_control *control = (struct ring_control *)(image->bytes + RING_CONTROL);
	uint64_t word, at;
	int i;

	object_init(&ring.object, OBJECT_RING);
	if (ring_attach(&ring, image->bytes, CAPACITY))
		return;
	MUST(ring.own % 8 == 0 && ring.other % 8 == 0);
	for (i = 0; i < OPERATIONS && size; i++) {
		word = take(&data, &size);
		switch (word >> 62) {
		case 0: /* the other end's position moves, as it should or not */
			word &= (1ull << 62) - 1;
			if (word & 1)
				word = ring.other + word % (2 * CAPACITY);
			atomic_store(end == HM_RING_WRITER ? &control->head : &control->tail,
				     word & ~7ull);
			break;
		case 1:
			at = word % CAPACITY / 8 * 8;
			word = take(&data, &size);
			memcpy(image->bytes + RING_DATA + at, &word, sizeof(word));
			break;
		default:
			if (end == HM_RING_WRITER)
				write_one(&ring, word);
			else
				read_one(&ring);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct image image;
	struct ring_control *control = (struct ring_control *)(image.bytes + RING_CONTROL);
	struct ring_header header;
	uint64_t tail, head;
	size_t n;

	if (size < sizeof(header) + 16)
		return 0;
	memcpy(&header, data, sizeof(header));
	if (!ring_check_header(&header, ring_size(header.capacity)))
		MUST(header.capacity >= RING_CAPACITY_MIN &&
		     header.capacity <= RING_CAPACITY_MAX);
	data += sizeof(header);
	size -= sizeof(header);
	tail = take(&data, &size);
	head = take(&data, &size);
	memset(&image, 0, sizeof(image));
	n = size < CAPACITY ? size : CAPACITY;
	memcpy(image.bytes + RING_DATA, data, n);
	memcpy(image.bytes + sizeof(image.bytes) - 8, RING_MAGIC, 8);
	atomic_store(&control->tail, tail);
	atomic_store(&control->head, head);
	run(&image, HM_RING_READER, data, size);
	atomic_store(&control->tail, tail);
	atomic_store(&control->head, head);
	run(&image, HM_RING_WRITER, data, size);
	return 0;
}
