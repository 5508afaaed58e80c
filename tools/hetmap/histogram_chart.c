// SPDX-License-Identifier: MIT
/*
 * The picture of a histogram: 16 x 16 values as a heat map, and beside it the
 * entropy and the most common values. 80 columns.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/command.h"
#include "common/text.h"
#include "histogram.h"

#define N_COMMON 8
#define N_SHADE 5

/* None, and then by shade_of(). */
static const char *const blocks[N_SHADE] = { "  ", "\u2591\u2591", "\u2592\u2592",
					     "\u2593\u2593", "\u2588\u2588" };
static const char *const letters[N_SHADE] = { "  ", "..", "::", "++", "##" };
static const char *const meanings[N_SHADE] = { "", "< 1/2", "1/2-2", "2-8", "> 8" };
static const unsigned char palette[N_SHADE] = { 0, 24, 31, 74, 153 }; /* blue to pale */

/* Against the average of all values; random bytes are of one shade. */
static unsigned int shade_of(uint64_t count, double average)
{
	if (!count)
		return 0;
	return (double)count < average / 2 ? 1 :
	       (double)count < average * 2 ? 2 :
	       (double)count < average * 8 ? 3 :
					     4;
}

static void print_shade(unsigned int shade)
{
	const char *text = output.utf8 ? blocks[shade] : letters[shade];

	if (output.colour && shade)
		printf("\033[38;5;%um%s\033[0m", palette[shade], text);
	else
		fputs(text, stdout);
}

/* @bare: nothing stands beside it, and so it ends with its last mark. */
static void print_row(const uint64_t *counts, unsigned int row, double average, bool bare)
{
	unsigned int column, end = 16;

	while (bare && end && !counts[row * 16 + end - 1])
		end--;
	printf(bare && !end ? "  %x0" : "  %x0 ", row);
	for (column = 0; column < end; column++)
		print_shade(shade_of(counts[row * 16 + column], average));
}

/* Name of a value: its character, or the name of a control character. */
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

/* The column to the right of the map. */
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

static bool has_text(unsigned int row, unsigned int distinct)
{
	return row < 2 || row == 3 || (row >= 4 && row < 4 + N_COMMON && row - 4 < distinct) ||
	       row >= 14;
}

static void print_legend(unsigned int row, double average)
{
	unsigned int shade;
	char number[TEXT_MAX];

	if (row == 14) {
		fputs("  ", stdout);
		for (shade = 1; shade < N_SHADE; shade++) {
			putchar(' ');
			print_shade(shade);
			printf(" %s", meanings[shade]);
		}
	} else if (row == 15 && average >= 1) {
		printf("   times the average, %s", text_count((uint64_t)average, number));
	} else if (row == 15) {
		fputs("   times the average", stdout);
	}
}

void histogram_chart(const uint64_t counts[HISTOGRAM_VALUES])
{
	unsigned char order[HISTOGRAM_VALUES];
	unsigned int distinct = 0, i;
	uint64_t total = 0;
	double average;

	for (i = 0; i < HISTOGRAM_VALUES; i++) {
		order[i] = (unsigned char)i;
		total += counts[i];
		distinct += counts[i] > 0;
	}
	average = (double)total / HISTOGRAM_VALUES;
	sorting = counts;
	qsort(order, HISTOGRAM_VALUES, 1, by_count);

	puts("     0 1 2 3 4 5 6 7 8 9 a b c d e f");
	for (i = 0; i < 16; i++) {
		print_row(counts, i, average, !has_text(i, distinct));
		print_fact(counts, order, i, total, distinct);
		print_legend(i, average);
		putchar('\n');
	}
	putchar('\n');
}
