// SPDX-License-Identifier: MIT
/*
 * The order of blocks: numbers from a counter, so that any position of any epoch is found
 * without those before it. The values must never change: users repeat runs by them.
 */
#include <string.h>

#include "format/tokens/tokens.h"

/* Purpose of a counter, in its last word. */
enum { STREAM_RANDOM = 0, STREAM_KEYS = 1 };

/*
 * Philox4x32-10 [Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3. SC
 * 2011, 3.3].
 */
void order_philox(const uint32_t counter[4], uint64_t key, uint32_t ret_number[4])
{
	uint32_t c[4], key_low = (uint32_t)key, key_high = (uint32_t)(key >> 32);
	uint64_t a, b;
	int round;

	memcpy(c, counter, sizeof(c));
	for (round = 0; round < 10; round++) {
		a = (uint64_t)c[0] * 0xd2511f53u;
		b = (uint64_t)c[2] * 0xcd9e8d57u;
		c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key_low;
		c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key_high;
		c[1] = (uint32_t)b;
		c[3] = (uint32_t)a;
		key_low += 0x9e3779b9u;
		key_high += 0xbb67ae85u;
	}
	memcpy(ret_number, c, sizeof(c));
}

static void numbers(uint64_t counter, uint32_t more, uint32_t stream, uint64_t seed,
		    uint64_t ret_number[2])
{
	const uint32_t c[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), more, stream };
	uint32_t word[4];

	order_philox(c, seed, word);
	ret_number[0] = word[0] | (uint64_t)word[1] << 32;
	ret_number[1] = word[2] | (uint64_t)word[3] << 32;
}

/* ---- a permutation of each epoch ---- */

/* Bits of each half of a block's number. */
static unsigned int half_bits(uint64_t blocks)
{
	unsigned int bits = blocks > 1 ? 64 - (unsigned int)__builtin_clzll(blocks - 1) : 1;

	return (bits + 1) / 2;
}

static void set_epoch(struct token_order *order, uint64_t epoch)
{
	uint32_t i;

	for (i = 0; i < ORDER_ROUNDS; i += 2)
		numbers(epoch, i, STREAM_KEYS, order->seed, &order->key[i]);
	order->epoch = epoch;
}

/* Any function makes the rounds a permutation: this one spreads each bit over all. */
static uint64_t spread(uint64_t value, uint64_t key)
{
	value = (value ^ key) * 0x9e3779b97f4a7c15u;
	value = (value ^ value >> 32) * 0xbf58476d1ce4e5b9u;
	return value ^ value >> 29;
}

/*
 * A Feistel network over the next power of four [Luby, Rackoff, 1988], walked until it is back
 * among the blocks [Black, Rogaway: Ciphers with Arbitrary Finite Domains. CT-RSA 2002, "cycle
 * walking"]: less than four steps on average.
 */
static uint64_t permute(const struct token_order *order, uint64_t number)
{
	unsigned int bits = half_bits(order->blocks), round;
	uint64_t mask = (1ull << bits) - 1, left, right, next;

	do {
		left = number >> bits;
		right = number & mask;
		for (round = 0; round < ORDER_ROUNDS; round++) {
			next = left ^ (spread(right, order->key[round]) & mask);
			left = right;
			right = next;
		}
		number = left << bits | right;
	} while (number >= order->blocks);
	return number;
}

/* ---- positions ---- */

void order_init(struct token_order *order, uint32_t kind, uint64_t seed, uint64_t tokens,
		uint64_t block)
{
	*order = (struct token_order){
		.kind = kind,
		.seed = seed,
		.block = block,
		.blocks = (tokens - 1) / block,
		.starts = tokens - block,
		.epoch = UINT64_MAX,
	};
}

uint64_t order_epoch(const struct token_order *order, uint64_t position)
{
	return order->kind == HM_BATCHES_RANDOM ? 0 : position / order->blocks;
}

uint64_t order_start(struct token_order *order, uint64_t position)
{
	uint64_t epoch = order_epoch(order, position), number[2];

	switch (order->kind) {
	case HM_BATCHES_RANDOM:
		/* The high part of a product: uneven by less than starts of 2^64. */
		numbers(position, 0, STREAM_RANDOM, order->seed, number);
		return (uint64_t)((unsigned __int128)number[0] * order->starts >> 64);
	case HM_BATCHES_SHUFFLED:
		if (order->epoch != epoch)
			set_epoch(order, epoch);
		return permute(order, position % order->blocks) * order->block;
	default:
		return position % order->blocks * order->block;
	}
}
