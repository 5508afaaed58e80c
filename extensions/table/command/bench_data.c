// SPDX-License-Identifier: MIT
/* Tables that benchmarks measure, and the programs of the peer. */
#include "bench_data.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text.h"
#include "perf/bench/bench.h"
#include "perf/bench/program.h"

#define BARS_OF_CODE 4800
#define CODE_BYTES 11
#define MINUTE_MS 60000
#define BEGIN_MS 1704189600000 /* 2024-01-02 10:00 */
#define PYTHON "hetmap/table-peers-1/bin/python"

const char *const bars_names[BARS_COLUMNS] = { "symbol", "frame",  "open",  "high",  "low",
					       "close",  "volume", "money", "factor" };

/* xorshift64 */
static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void fill(struct bars *bars)
{
	uint64_t random = 88172645463325252u, i, code;
	float price = 0;
	char text[16];
	int k;

	for (i = 0; i < bars->rows; i++) {
		code = i / BARS_OF_CODE;
		if (i % BARS_OF_CODE == 0)
			price = (float)(10 + next_random(&random) % 9000 / 100.0);
		/* Prices move by whole hundredths, as those of a market do. */
		price += (float)((int)(next_random(&random) % 21) - 10) / 100;
		price = price < 1 ? 1 : price;
		snprintf(text, sizeof(text), "%06u.X%s", (unsigned int)(code * 7 % 1000000),
			 code % 2 ? "SHG" : "SHE");
		memcpy(bars->symbols + i * CODE_BYTES, text, CODE_BYTES);
		bars->offsets[i] = (int32_t)(i * CODE_BYTES);
		bars->frame[i] = BEGIN_MS + (int64_t)(i % BARS_OF_CODE) * MINUTE_MS;
		for (k = 0; k < 4; k++)
			bars->price[k][i] = roundf(price * 100 + (float)k) / 100;
		bars->amount[0][i] = (double)(next_random(&random) % 100000 * 100);
		bars->amount[1][i] = bars->amount[0][i] * (double)price;
		bars->amount[2][i] = 1 + (double)(code % 100) / 64;
	}
	bars->offsets[i] = (int32_t)(i * CODE_BYTES);
}

int bars_make(uint64_t rows, struct bars *ret_bars)
{
	struct bars *bars = ret_bars;
	bool there;
	int k;

	*bars = (struct bars){ .rows = rows };
	bars->offsets = malloc((rows + 1) * sizeof(*bars->offsets));
	bars->symbols = malloc(rows * CODE_BYTES + 8);
	bars->frame = malloc(rows * sizeof(*bars->frame));
	there = bars->offsets && bars->symbols && bars->frame;
	for (k = 0; k < 4; k++) {
		bars->price[k] = malloc(rows * sizeof(**bars->price));
		there &= bars->price[k] != NULL;
	}
	for (k = 0; k < 3; k++) {
		bars->amount[k] = malloc(rows * sizeof(**bars->amount));
		there &= bars->amount[k] != NULL;
	}
	if (!there)
		return -ENOMEM;
	fill(bars);
	return 0;
}

void bars_end(struct bars *bars)
{
	int k;

	free(bars->offsets);
	free(bars->symbols);
	free(bars->frame);
	for (k = 0; k < 4; k++)
		free(bars->price[k]);
	for (k = 0; k < 3; k++)
		free(bars->amount[k]);
	*bars = (struct bars){ 0 };
}

const void *bars_values(const struct bars *bars, uint32_t column, uint32_t *ret_width)
{
	*ret_width = column == 0 ? CODE_BYTES : column >= 2 && column <= 5 ? 4 : 8;
	if (column == 0)
		return bars->symbols;
	if (column == 1)
		return bars->frame;
	return column <= 5 ? (const void *)bars->price[column - 2] :
			     (const void *)bars->amount[column - 6];
}

int bars_write(const struct bars *bars, uint64_t first, uint64_t rows, bool numbers,
	       const char *path, uint32_t format, const char *codec, uint64_t group_rows)
{
	static const char *const formats[BARS_COLUMNS] = { "u", "tsm:", "f", "f", "f",
							   "f", "g",    "g", "g" };
	const struct hm_table_write_desc desc = {
		.struct_size = sizeof(desc),
		.format = format,
		.codec = codec,
		.group_rows = group_rows,
	};
	struct hm_table_buffers columns[BARS_COLUMNS];
	struct hm_table *table;
	uint32_t i, n = 0, width;
	const char *values;
	int r;

	for (i = numbers ? 1 : 0; i < BARS_COLUMNS; i++, n++) {
		values = bars_values(bars, i, &width);
		columns[n] = (struct hm_table_buffers){ .name = bars_names[i],
							.format = formats[i] };
		/* Offsets go on from where a part begins. */
		columns[n].values = i ? values + first * width : values;
		columns[n].offsets = i ? NULL : bars->offsets + first;
	}
	r = hm_table_from_buffers(columns, n, rows, NULL, &table);
	if (r)
		return r;
	r = hm_table_write(table, path, &desc, NULL);
	hm_table_unref(table);
	return r;
}

int bars_write_csv(const struct bars *bars, const char *path)
{
	FILE *file = fopen(path, "we");
	uint64_t i;
	int k, r;

	if (!file)
		return -errno;
	fputs("frame,open,high,low,close,volume,money,factor\n", file);
	for (i = 0; i < bars->rows; i++) {
		fprintf(file, "%" PRId64, bars->frame[i]);
		for (k = 0; k < 4; k++)
			fprintf(file, ",%.9g", (double)bars->price[k][i]);
		for (k = 0; k < 3; k++)
			fprintf(file, ",%.17g", bars->amount[k][i]);
		putc('\n', file);
	}
	r = ferror(file) ? -EIO : 0;
	return fclose(file) && !r ? -errno : r;
}

/* Version 1.0: the header is padded so that the data begin at a multiple of 64. */
int bars_write_npy(const struct bars *bars, uint32_t column, const char *path)
{
	uint32_t width, head;
	const void *values = bars_values(bars, column, &width);
	FILE *file = fopen(path, "we");
	char header[128];
	int n, r;

	if (!file)
		return -errno;
	n = snprintf(header, sizeof(header),
		     "{'descr': '<%c%u', 'fortran_order': False, 'shape': (%" PRIu64 ",), }",
		     column == 1 ? 'i' : 'f', width, bars->rows);
	head = (uint32_t)(sizeof(header) - 10);
	memset(header + n, ' ', (size_t)head - (size_t)n);
	header[head - 1] = '\n';
	fwrite("\x93NUMPY\1\0", 8, 1, file);
	putc((int)(head & 255), file);
	putc((int)(head >> 8), file);
	fwrite(header, head, 1, file);
	fwrite(values, width, bars->rows, file);
	r = ferror(file) ? -EIO : 0;
	return fclose(file) && !r ? -errno : r;
}

/* ---- the peer ---- */

static bool has_pyarrow(char *python, char *why, size_t size)
{
	char *argv[] = { python, (char *)"-c", (char *)"import pyarrow, numpy", NULL };
	struct program_result result;
	int r;

	if (access(python, X_OK))
		return false;
	r = program_run(argv, &result);
	if (r || result.status)
		snprintf(why, size, "%s", r ? strerror(-r) : result.errors);
	return !r && !result.status;
}

char *bench_python(const char *name)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char why[PROGRAM_TEXT] = "there is no python3", *own, *python;

	if (cache && *cache)
		own = text_format("%s/" PYTHON, cache);
	else
		own = text_format("%s/.cache/" PYTHON, home ? home : "/root");
	if (has_pyarrow(own, why, sizeof(why)))
		return own;
	free(own);
	python = strdup("/usr/bin/python3");
	if (python && has_pyarrow(python, why, sizeof(why)))
		return python;
	free(python);
	if (name)
		bench_skip(name,
			   "no python3 with pyarrow and numpy, for which "
			   "tests/table/test_table_command.sh makes an environment: %s",
			   why);
	return NULL;
}

int bench_python_run(char *python, const char *script, const char *const *arguments,
		     double *ret_ns, double *ret_more)
{
	char *argv[12] = { python, (char *)"-c", (char *)script };
	struct program_result result;
	char *end;
	int i, r;

	for (i = 0; i < 8 && arguments[i]; i++)
		argv[3 + i] = (char *)arguments[i];
	r = program_run(argv, &result);
	if (r || result.status) {
		if (!r)
			fprintf(stderr, "hetmap: the peer: %s\n", result.errors);
		return r ? r : -EPROTO;
	}
	*ret_ns = strtod(result.out, &end);
	if (ret_more)
		*ret_more = strtod(end, NULL);
	return *ret_ns > 0 ? 0 : -EPROTO;
}

/* ---- memory ---- */

uint64_t bench_memory_available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib << 10;
}

bool bench_has_memory(const char *name, uint64_t bytes)
{
	char available[TEXT_MAX], need[TEXT_MAX];
	uint64_t there = bench_memory_available();

	if (!there || there >= bytes)
		return true;
	bench_skip(name, "%s of memory are available, and it takes %s",
		   text_bytes(there, available), text_bytes(bytes, need));
	return false;
}
