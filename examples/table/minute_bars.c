// SPDX-License-Identifier: MIT
/*
 * Bars of minutes: the days of several codes, a file of Parquet for each day, read back as one
 * table. Arrow's date64 counts milliseconds, but Parquet keeps it as a number of days: the minute
 * is lost, and the library warns. With a second argument the bars have a timestamp, which keeps it.
 *
 *	minute_bars FOLDER [timestamp]
 */
#include <err.h>
#include <hetmap/hetmap.h>
#include <hetmap/table.h>
#include <stdio.h>
#include <string.h>

#define DAYS 3
#define CODES 2
#define MINUTES 240 /* of a day: 9:31 to 11:30, 13:01 to 15:00 */
#define ROWS (CODES * MINUTES)
#define DAY_MS 86400000ll
#define MINUTE_MS 60000ll
#define FIRST_DAY 19724 /* 2024-01-02 */

/* The columns of a day, the codes one behind another. */
static struct {
	int32_t symbol_end[ROWS + 1];
	char symbol[ROWS * 11];
	int64_t frame[ROWS];
	float open[ROWS], high[ROWS], low[ROWS], close[ROWS];
	double volume[ROWS], money[ROWS], factor[ROWS];
} bars;

static void fill(int day)
{
	static const char *const codes[CODES] = { "000001.XSHE", "600000.XSHG" };
	int code, minute, row = 0;

	for (code = 0; code < CODES; code++)
		for (minute = 0; minute < MINUTES; minute++, row++) {
			float price = (float)(10 * (code + 1)) + (float)minute / 100;

			memcpy(bars.symbol + row * 11, codes[code], 11);
			bars.symbol_end[row + 1] = (row + 1) * 11;
			bars.frame[row] =
				(FIRST_DAY + day) * DAY_MS +
				(9 * 60 + 31 + minute + (minute < 120 ? 0 : 90)) * MINUTE_MS;
			bars.open[row] = bars.low[row] = price;
			bars.high[row] = bars.close[row] = price + 0.01f;
			bars.volume[row] = 100 * (minute + 1);
			bars.money[row] = bars.volume[row] * (double)price;
			bars.factor[row] = 1;
		}
}

static void write_day(const char *folder, int day, const char *frame_format)
{
	const struct hm_table_buffers columns[] = {
		{ .name = "symbol",
		  .format = "u",
		  .offsets = bars.symbol_end,
		  .values = bars.symbol },
		{ .name = "frame", .format = frame_format, .values = bars.frame },
		{ .name = "open", .format = "f", .values = bars.open },
		{ .name = "high", .format = "f", .values = bars.high },
		{ .name = "low", .format = "f", .values = bars.low },
		{ .name = "close", .format = "f", .values = bars.close },
		{ .name = "volume", .format = "g", .values = bars.volume },
		{ .name = "money", .format = "g", .values = bars.money },
		{ .name = "factor", .format = "g", .values = bars.factor },
	};
	struct hm_table *table;
	char path[4096];

	snprintf(path, sizeof(path), "%s/2024-01-%02d.parquet", folder, day + 2);
	fill(day);
	if (hm_table_from_buffers(columns, 9, ROWS, NULL, &table) ||
	    hm_table_write(table, path, NULL, NULL))
		errx(1, "%s", hm_errmsg());
	if (!day && *hm_warning())
		printf("warning: %s\n", hm_warning());
	hm_table_unref(table);
}

/* Days, or milliseconds, since 1970: by the width of an element. */
static long long milliseconds(const struct hm_table_chunk *chunk, uint64_t i, uint32_t bits)
{
	i += chunk->offset;
	return bits == 32 ? ((const int32_t *)chunk->values)[i] * DAY_MS :
			    ((const int64_t *)chunk->values)[i];
}

/* All days as one table: how many rows kept their minute, and the sum of all volumes. */
static void read_days(const char *folder)
{
	static const char *const names[] = { "frame", "volume" };
	const struct hm_table_desc desc = { .struct_size = sizeof(desc),
					    .columns = names,
					    .n_columns = 2 };
	struct hm_table_field_info field = { .struct_size = sizeof(field) };
	struct hm_table_info info = { .struct_size = sizeof(info) };
	struct hm_table_chunk frame = { .struct_size = sizeof(frame) };
	struct hm_table_chunk volume = { .struct_size = sizeof(volume) };
	struct hm_column_info column = { .struct_size = sizeof(column) };
	struct hm_column *columns[2];
	struct hm_table *table;
	unsigned long long rows = 0, minutes = 0;
	double sum = 0;

	if (hm_table_open(&folder, 1, &desc, &table) || hm_table_query(table, &info) ||
	    hm_table_field(table, 0, &field) || hm_table_columns(table, NULL, 2, columns) ||
	    hm_column_query(columns[0], &column))
		errx(1, "%s", hm_errmsg());
	for (uint64_t i = 0; i < column.chunks; i++) {
		if (hm_column_chunk(columns[0], i, &frame) ||
		    hm_column_chunk(columns[1], i, &volume))
			errx(1, "%s", hm_errmsg());
		for (uint64_t k = 0; k < frame.rows; k++, rows++) {
			minutes += milliseconds(&frame, k, field.bits) % DAY_MS != 0;
			sum += ((const double *)volume.values)[volume.offset + k];
		}
	}
	printf("%u files, %llu rows: frame is %s, %llu rows have their minute, volume %.0f\n",
	       info.files, rows, field.type, minutes, sum);
	hm_column_unref(columns[0]), hm_column_unref(columns[1]);
	hm_table_unref(table);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		errx(2, "usage: minute_bars FOLDER [timestamp]");
	for (int day = 0; day < DAYS; day++)
		write_day(argv[1], day, argc > 2 ? "tsm:" : "tdm");
	read_days(argv[1]);
	return 0;
}
