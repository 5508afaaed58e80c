// SPDX-License-Identifier: MIT
/*
 * Events of the page, packed: half a million as columns of numbers are 12 MB of a page, and
 * next to all of that can be foretold. Each number is said by decisions between two, whose
 * chances are learnt as they come, in the coder that LZMA has [G. N. N. Martin, Range encoding,
 * 1979]. page_events.js reads it, and foretells the same.
 *
 * An event is, in this order: the time since the one before it; its thread, and the CPU, buffer
 * and kind that the thread had last, or others; the page as a step from the thread's last one
 * in that buffer, or from the buffer's last one, which is the thread's last step, or another;
 * its cost, as of its kind; and the NUMA node that the buffer's last page was of, or another.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"

/* Chances are of 4096, and move by a 32nd of the difference. */
#define CHANCE_BITS 12
#define CHANCE_SHIFT 5
#define RANGE_LEAST (UINT32_C(1) << 24)

/* A number: how many bits it has, up to 5 of those below the first, and the others. */
#define LENGTHS 64
#define TOP_BITS 5
#define NUMBER_LENGTHS 33
struct number {
	uint16_t length[LENGTHS];
	uint16_t top[NUMBER_LENGTHS][1 << TOP_BITS];
	uint16_t low[NUMBER_LENGTHS][32];
};

enum same { SAME_THREAD, SAME_CPU, SAME_BUFFER, SAME_KIND, SAME_STEP, SAME_NODE, N_SAME };

/* Nothing but chances. */
struct models {
	uint16_t same[N_SAME][2]; /* as foretold? By whether it was so the last time. */
	struct number time, thread, cpu, buffer, kind, step, node, cost[2];
};

#define KEYS 65536
struct past {
	bool same[N_SAME];
	uint16_t thread;
	uint16_t buffer[KEYS]; /* by thread, as the next five */
	uint32_t page[KEYS], step[KEYS];
	uint8_t cpu[KEYS], kind[KEYS];
	uint32_t page_of[KEYS]; /* by buffer, as the next */
	uint8_t node_of[KEYS];
};

struct coder {
	unsigned char *bytes;
	size_t n, room;
	bool full; /* no memory */
	uint64_t low;
	uint32_t range;
	unsigned char cache;
	uint64_t pending; /* bytes that a carry may still change, the cache with them */
	struct models models;
	struct past past;
};

/* ---- decisions ---- */

static void put(struct coder *coder, unsigned int byte)
{
	unsigned char *more;

	if (coder->n == coder->room) {
		more = realloc(coder->bytes, 2 * coder->room + 65536);
		coder->full |= !more;
		if (!more)
			return;
		coder->bytes = more;
		coder->room = 2 * coder->room + 65536;
	}
	coder->bytes[coder->n++] = (unsigned char)byte;
}

static void shift(struct coder *coder)
{
	unsigned int carry = (unsigned int)(coder->low >> 32);

	if (carry || coder->low < UINT32_C(0xff000000)) {
		put(coder, coder->cache + carry);
		while (--coder->pending)
			put(coder, 0xff + carry);
		coder->cache = (unsigned char)(coder->low >> 24);
	}
	coder->pending++;
	coder->low = (coder->low & 0x00ffffff) << 8;
}

static void decide(struct coder *coder, uint16_t *chance, bool bit)
{
	uint32_t bound = (coder->range >> CHANCE_BITS) * *chance;

	if (bit) {
		coder->low += bound;
		coder->range -= bound;
		*chance = (uint16_t)(*chance - (*chance >> CHANCE_SHIFT));
	} else {
		coder->range = bound;
		*chance =
			(uint16_t)(*chance + (((1 << CHANCE_BITS) - *chance) >> CHANCE_SHIFT));
	}
	while (coder->range < RANGE_LEAST) {
		coder->range <<= 8;
		shift(coder);
	}
}

static void put_number(struct coder *coder, struct number *model, uint32_t value)
{
	int length = value ? 32 - __builtin_clz(value) : 0, below = length - 1, i;
	uint32_t node = 1;

	for (i = 5; i >= 0; i--) {
		decide(coder, &model->length[node], length >> i & 1);
		node = 2 * node + (length >> i & 1);
	}
	node = 1;
	for (i = below - 1; i >= 0; i--) {
		bool bit = value >> i & 1;

		if (below - 1 - i < TOP_BITS) {
			decide(coder, &model->top[length][node], bit);
			node = 2 * node + bit;
		} else {
			decide(coder, &model->low[length][i], bit);
		}
	}
}

/* Returns @same. */
static bool put_same(struct coder *coder, enum same what, bool same)
{
	decide(coder, &coder->models.same[what][coder->past.same[what]], same);
	return coder->past.same[what] = same;
}

/* ---- events ---- */

static void put_page(struct coder *coder, const struct page_event *event)
{
	struct models *models = &coder->models;
	struct past *past = &coder->past;
	uint16_t t = event->thread, b = event->buffer;
	uint32_t from = past->buffer[t] == b ? past->page[t] : past->page_of[b];
	uint32_t step = event->page - from;

	/* Backwards are odd numbers. */
	if (!put_same(coder, SAME_STEP, step == past->step[t]))
		put_number(coder, &models->step, step << 1 ^ (step >> 31 ? UINT32_MAX : 0));
	past->step[t] = step;
	past->page[t] = past->page_of[b] = event->page;
}

static void put_event(struct coder *coder, const struct page_event *event, uint32_t before,
		      bool nodes)
{
	struct models *models = &coder->models;
	struct past *past = &coder->past;
	uint16_t t = event->thread;

	put_number(coder, &models->time, event->time - before);
	if (!put_same(coder, SAME_THREAD, t == past->thread))
		put_number(coder, &models->thread, t);
	if (!put_same(coder, SAME_CPU, event->cpu == past->cpu[t]))
		put_number(coder, &models->cpu, event->cpu);
	if (!put_same(coder, SAME_BUFFER, event->buffer == past->buffer[t]))
		put_number(coder, &models->buffer, event->buffer);
	if (!put_same(coder, SAME_KIND, event->kind == past->kind[t]))
		put_number(coder, &models->kind, event->kind);
	put_page(coder, event);
	put_number(coder, &models->cost[event->kind & PAGE_MAJOR], event->cost_ns);
	if (nodes && !put_same(coder, SAME_NODE, event->node == past->node_of[event->buffer]))
		put_number(coder, &models->node, event->node);
	past->thread = t;
	past->cpu[t] = event->cpu;
	past->buffer[t] = event->buffer;
	past->kind[t] = event->kind;
	past->node_of[event->buffer] = event->node;
}

static struct coder *coder_create(void)
{
	struct coder *coder = calloc(1, sizeof(*coder));
	uint16_t *chance;
	size_t i;

	if (!coder)
		return NULL;
	coder->range = UINT32_MAX;
	coder->pending = 1;
	chance = (uint16_t *)&coder->models;
	for (i = 0; i < sizeof(coder->models) / sizeof(*chance); i++)
		chance[i] = 1 << (CHANCE_BITS - 1);
	return coder;
}

int page_events(const struct page_event *events, size_t n, bool nodes, json_t **ret_text)
{
	struct coder *coder = coder_create();
	json_t *text = NULL;
	size_t i;

	if (!coder)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		put_event(coder, &events[i], i ? events[i - 1].time : 0, nodes);
	for (i = 0; i < 5; i++)
		shift(coder);
	if (!coder->full)
		text = page_base64(coder->bytes, coder->n);
	free(coder->bytes);
	free(coder);
	if (!text)
		return -ENOMEM;
	*ret_text = text;
	return 0;
}
