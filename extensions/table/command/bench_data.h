/* SPDX-License-Identifier: MIT */
/* Tables that benchmarks measure: bars of a minute of several codes, and the programs beside. */
#ifndef HETMAP_TABLE_BENCH_DATA_H
#define HETMAP_TABLE_BENCH_DATA_H

#include <stdbool.h>

#include <hetmap/table.h>

#define BARS_COLUMNS 9
#define BARS_NUMBERS 8 /* without the first one, the symbol */
/* Bytes that a row has in memory. */
#define BARS_ROW (11 + 4 + 8 + 4 * 4 + 3 * 8)

/*
 * symbol string, frame timestamp[ms], open, high, low, close float, volume, money, factor double:
 * codes of 4,800 bars each, one behind another.
 */
struct bars {
	uint64_t rows;
	int32_t *offsets; /* of the symbols */
	char *symbols;
	int64_t *frame;
	float *price[4];
	double *amount[3];
};

extern const char *const bars_names[BARS_COLUMNS];

/* 0, or -ENOMEM. bars_end(), whatever comes of it. */
int bars_make(uint64_t rows, struct bars *ret_bars);
void bars_end(struct bars *bars);
/* A column's values; the symbols' bytes. *@ret_width: bytes of one. */
const void *bars_values(const struct bars *bars, uint32_t column, uint32_t *ret_width);
/* Writes a part of the rows; @numbers: without the symbol. @codec: NULL: none. */
int bars_write(const struct bars *bars, uint64_t first, uint64_t rows, bool numbers,
	       const char *path, uint32_t format, const char *codec, uint64_t group_rows);
/* A file of numbers as text, with a line of names. */
int bars_write_csv(const struct bars *bars, const char *path);
/* A column as FOLDER/NAME.npy. */
int bars_write_npy(const struct bars *bars, uint32_t column, const char *path);

/* ---- the peer ---- */

/*
 * The python with pyarrow that tests/table makes, or else Debian's own: free() it. NULL: there is
 * none, and the case @name was told as skipped, unless it is NULL.
 */
char *bench_python(const char *name);

/*
 * Runs @script by it with @arguments up to NULL. 0 and the ns that it printed; *@ret_more
 * [optional]: a further number. A negative errno.
 */
int bench_python_run(char *python, const char *script, const char *const *arguments,
		     double *ret_ns, double *ret_more);

/* Bytes of memory that are to be had; 0: unknown. */
uint64_t bench_memory_available(void);
/* False, with the case @name told as skipped: @bytes of memory are not to be had. */
bool bench_has_memory(const char *name, uint64_t bytes);

#endif
