// SPDX-License-Identifier: MIT
/*
 * The picture of a histogram: 16 x 16 values as a heat map, and beside it the
 * entropy and the most common values. 80 columns.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "histogram.h"
#include "text.h"

#define N_COMMON 8
#define N_SHADE 5

/* From none to most; every step is a tenfold or so: see shade_of(). */
static const char *const blocks[N_SHADE] = { "  ", "\u2591\u2591", "\u2592\u2592",
					     "\u2593\u2593", "\u2588\u2588" };
static const char *const letters[N_SHADE] = { "  ", "..", "::", "++", "##" };
static const unsigned char palette[N_SHADE] = { 0, 24, 31, 74, 153 }; /* blue to pale */

/*
 * Even steps of the logarithm between the rarest value there is and the most
 * common: what is there at all is never blank.
 */
static unsigned int shade_of(uint64_t count, uint64_t least, uint64_t most)
{
	double part;

	if (!count)
		return 0;
	if (least == most)
		return N_SHADE - 1;
	part = log((double)count / (double)least) / log((double)most / (double)least);
	return 1 + (unsigned int)(part * (N_SHADE - 1.001));
}

static void print_row(const uint64_t *counts, unsigned int row, uint64_t least, uint64_t most)
{
	const char *const *shades = output.utf8 ? blocks : letters;
	unsigned int column, shade;

	printf("  %x_ ", row);
	for (column = 0; column < 16; column++) {
		shade = shade_of(counts[row * 16 + column], least, most);
		if (output.colour && shade)
			printf("\033[38;5;%um%s\033[0m", palette[shade], shades[shade]);
		else
			fputs(shades[shade], stdout);
	}
}

/* How a value is called: its character, or what it controls. */
static const char *value_name(unsigned int value, char name[8])
{
	if (value == 0)
		return "NUL";
	if (value == '\t')
		return "tab";
	if (value == '\n')
		return "newline";
	if (value == '\r')
		return "return";
	if (value == ' ')
		return "space";
	if (value < 0x21 || value > 0x7e)
		return "";
	snprintf(name, 8, "'%c'", (int)value);
	return name;
}

static const uint64_t *sorting;

static int by_count(const void *a, const void *b)
{
	unsigned int x = *(const unsigned char *)a, y = *(const unsigned char *)b;

	if (sorting[x] != sorting[y])
		return sorting[x] < sorting[y] ? 1 : -1;
	return (int)x - (int)y;
}

/* The column to the right of the map; row 0 is beside the first of its rows. */
static void print_fact(const uint64_t *counts, const unsigned char *order, unsigned int row,
		       uint64_t total, unsigned int distinct)
{
	char number[TEXT_MAX], name[8];
	unsigned int value;

	if (row == 0)
		printf("   entropy   %.3f of 8 bits a byte", histogram_entropy(counts));
	else if (row == 1)
		printf("   distinct  %u of 256 values", distinct);
	else if (row == 3)
		fputs("   most common", stdout);
	if (row < 4 || row >= 4 + N_COMMON || row - 4 >= distinct)
		return;
	value = order[row - 4];
	printf("     %02x  %-7s %7.3f %%  %14s", value, value_name(value, name),
	       (double)counts[value] * 100 / (double)total, text_count(counts[value], number));
}

void histogram_chart(const uint64_t counts[HISTOGRAM_VALUES])
{
	unsigned char order[HISTOGRAM_VALUES];
	uint64_t least = UINT64_MAX, most = 0, total = 0;
	unsigned int distinct = 0, i;
	char from[TEXT_MAX], to[TEXT_MAX];

	for (i = 0; i < HISTOGRAM_VALUES; i++) {
		order[i] = (unsigned char)i;
		total += counts[i];
		if (!counts[i])
			continue;
		distinct++;
		if (counts[i] < least)
			least = counts[i];
		if (counts[i] > most)
			most = counts[i];
	}
	if (!distinct)
		return;
	sorting = counts;
	qsort(order, HISTOGRAM_VALUES, 1, by_count);

	fputs("     ", stdout);
	for (i = 0; i < 16; i++)
		printf("_%x", i);
	putchar('\n');
	for (i = 0; i < 16; i++) {
		print_row(counts, i, least, most);
		print_fact(counts, order, i, total, distinct);
		if (i == 13 && distinct > 1)
			printf("   %s rarest: %s", output.utf8 ? blocks[1] : letters[1],
			       text_count(least, from));
		if (i == 14 && distinct > 1)
			printf("   %s most common: %s (log scale)",
			       output.utf8 ? blocks[N_SHADE - 1] : letters[N_SHADE - 1],
			       text_count(most, to));
		putchar('\n');
	}
	putchar('\n');
}
