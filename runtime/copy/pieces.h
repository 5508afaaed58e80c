/* SPDX-License-Identifier: MIT */
/*
 * Parts of lines: by aligned loads or stores of 1 to 16 bytes, each byte once, the lowest address
 * first. Volatile, as a compiler would otherwise put memcpy() in their place, which touches bytes
 * twice.
 */
#ifndef HETMAP_PIECES_OF_LINES_H
#define HETMAP_PIECES_OF_LINES_H

#include <stdint.h>
#include <string.h>

#define PIECE_MOST 16u

typedef uint64_t piece_16 __attribute__((vector_size(16), may_alias));
typedef uint64_t piece_8 __attribute__((may_alias));
typedef uint32_t piece_4 __attribute__((may_alias));
typedef uint16_t piece_2 __attribute__((may_alias));

/* The largest piece that begins at @address, of at most @length bytes, which is not 0. */
static inline size_t piece_at(uintptr_t address, size_t length)
{
	size_t aligned = (address | PIECE_MOST) & -(address | PIECE_MOST);
	size_t fits = length >= PIECE_MOST ? PIECE_MOST :
					     (size_t)1 << (63 - __builtin_clzll(length));

	return aligned < fits ? aligned : fits;
}

#define STORE_PIECE(type, to, from)                     \
	do {                                            \
		type piece;                             \
                                                        \
		memcpy(&piece, from, sizeof(piece));    \
		*(volatile type *)(void *)(to) = piece; \
	} while (0)

#define LOAD_PIECE(type, to, from)                                         \
	do {                                                               \
		type piece = *(const volatile type *)(const void *)(from); \
                                                                           \
		memcpy(to, &piece, sizeof(piece));                         \
	} while (0)

#define EACH_PIECE(aligned, to, from, length, MOVE)                   \
	do {                                                          \
		size_t each = piece_at((uintptr_t)(aligned), length); \
                                                                      \
		switch (each) {                                       \
		case 16:                                              \
			MOVE(piece_16, to, from);                     \
			break;                                        \
		case 8:                                               \
			MOVE(piece_8, to, from);                      \
			break;                                        \
		case 4:                                               \
			MOVE(piece_4, to, from);                      \
			break;                                        \
		case 2:                                               \
			MOVE(piece_2, to, from);                      \
			break;                                        \
		default:                                              \
			MOVE(uint8_t, to, from);                      \
			break;                                        \
		}                                                     \
		(to) += each;                                         \
		(from) += each;                                       \
		(length) -= each;                                     \
	} while (0)

/* Returns the number of stores. */
static inline uint32_t pieces_store(char *to, const char *from, size_t length)
{
	uint32_t n = 0;

	for (; length; n++)
		EACH_PIECE(to, to, from, length, STORE_PIECE);
	return n;
}

static inline void pieces_load(char *to, const char *from, size_t length)
{
	while (length)
		EACH_PIECE(from, to, from, length, LOAD_PIECE);
}

/* Bytes from @address to the next line, at most @length. */
static inline size_t pieces_head(const void *address, size_t length)
{
	size_t head = -(uintptr_t)address & 63;

	return head < length ? head : length;
}

#endif
