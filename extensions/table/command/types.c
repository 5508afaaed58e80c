// SPDX-License-Identifier: MIT
/* Types of columns, and their values as text [Arrow, The Arrow C data interface]. */
#include "types.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY 86400

/* Formats without a parameter; all others are TYPE_OTHER, except for timestamps. */
static const struct column_type types[] = {
	{ "b", TYPE_BOOL, SUM_BIT, TEXT_NONE, 0, false },
	{ "c", TYPE_NUMBER, SUM_I8, TEXT_NONE, 0, false },
	{ "C", TYPE_NUMBER, SUM_U8, TEXT_NONE, 0, false },
	{ "s", TYPE_NUMBER, SUM_I16, TEXT_NONE, 0, false },
	{ "S", TYPE_NUMBER, SUM_U16, TEXT_NONE, 0, false },
	{ "i", TYPE_NUMBER, SUM_I32, TEXT_NONE, 0, false },
	{ "I", TYPE_NUMBER, SUM_U32, TEXT_NONE, 0, false },
	{ "l", TYPE_NUMBER, SUM_I64, TEXT_NONE, 0, false },
	{ "L", TYPE_NUMBER, SUM_U64, TEXT_NONE, 0, false },
	{ "e", TYPE_NUMBER, SUM_F16, TEXT_NONE, 0, false },
	{ "f", TYPE_NUMBER, SUM_F32, TEXT_NONE, 0, false },
	{ "g", TYPE_NUMBER, SUM_F64, TEXT_NONE, 0, false },
	{ "z", TYPE_TEXT, SUM_NONE, TEXT_SMALL, 0, false },
	{ "Z", TYPE_TEXT, SUM_NONE, TEXT_LARGE, 0, false },
	{ "vz", TYPE_TEXT, SUM_NONE, TEXT_VIEW, 0, false },
	{ "u", TYPE_TEXT, SUM_NONE, TEXT_SMALL, 0, false },
	{ "U", TYPE_TEXT, SUM_NONE, TEXT_LARGE, 0, false },
	{ "vu", TYPE_TEXT, SUM_NONE, TEXT_VIEW, 0, false },
	{ "tdD", TYPE_TIME, SUM_I32, TEXT_NONE, 0, false },
	{ "tdm", TYPE_TIME, SUM_I64, TEXT_NONE, 1000, false },
	{ "tts", TYPE_TIME, SUM_I32, TEXT_NONE, 1, true },
	{ "ttm", TYPE_TIME, SUM_I32, TEXT_NONE, 1000, true },
	{ "ttu", TYPE_TIME, SUM_I64, TEXT_NONE, 1000000, true },
	{ "ttn", TYPE_TIME, SUM_I64, TEXT_NONE, 1000000000, true },
	{ "tDs", TYPE_TIME, SUM_I64, TEXT_NONE, 1, true },
	{ "tDm", TYPE_TIME, SUM_I64, TEXT_NONE, 1000, true },
	{ "tDu", TYPE_TIME, SUM_I64, TEXT_NONE, 1000000, true },
	{ "tDn", TYPE_TIME, SUM_I64, TEXT_NONE, 1000000000, true },
};

#define N_TYPE (sizeof(types) / sizeof(types[0]))

/* Behind these comes the name of a time zone, or nothing. */
static const struct {
	const char *begin;
	uint64_t unit;
} timestamps[] = {
	{ "tss:", 1 },
	{ "tsm:", 1000 },
	{ "tsu:", 1000000 },
	{ "tsn:", 1000000000 },
};

#define N_TIMESTAMP (sizeof(timestamps) / sizeof(timestamps[0]))

struct column_type type_of_format(const char *format)
{
	struct column_type type = { .format = format };
	size_t i;

	for (i = 0; i < N_TYPE; i++)
		if (!strcmp(format, types[i].format))
			type = types[i];
	for (i = 0; i < N_TIMESTAMP; i++)
		if (!strncmp(format, timestamps[i].begin, strlen(timestamps[i].begin)))
			type = (struct column_type){ .class = TYPE_TIME,
						     .sum = SUM_I64,
						     .unit = timestamps[i].unit };
	type.format = format;
	return type;
}

/* ---- dates ---- */

/* Days since 1970 of a day of the Gregorian calendar [Howard Hinnant, chrono dates]. */
static int64_t days_of(int64_t year, unsigned int month, unsigned int day)
{
	int64_t era, days;
	uint64_t of_era, of_year;

	year -= month <= 2;
	era = (year >= 0 ? year : year - 399) / 400;
	of_era = (uint64_t)(year - era * 400);
	of_year = (153 * (month + (month > 2 ? -3u : 9u)) + 2) / 5 + day - 1;
	days = (int64_t)(of_era * 365 + of_era / 4 - of_era / 100 + of_year);
	return era * 146097 + days - 719468;
}

static void date_of(int64_t days, int64_t *ret_year, unsigned int *ret_month,
		    unsigned int *ret_day)
{
	int64_t shifted = days + 719468, era;
	uint64_t of_era, year, of_year, month;

	era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	of_era = (uint64_t)(shifted - era * 146097);
	year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	of_year = of_era - (365 * year + year / 4 - year / 100);
	month = (5 * of_year + 2) / 153;
	*ret_day = (unsigned int)(of_year - (153 * month + 2) / 5 + 1);
	*ret_month = (unsigned int)(month < 10 ? month + 3 : month - 9);
	*ret_year = (int64_t)year + era * 400 + (*ret_month <= 2);
}

/* Rounds down, also below 0. */
static int64_t divide(int64_t value, int64_t by, int64_t *ret_rest)
{
	int64_t quotient = value / by, rest = value % by;

	if (rest < 0) {
		rest += by;
		quotient--;
	}
	*ret_rest = rest;
	return quotient;
}

static int digits_of(uint64_t unit)
{
	int digits = 0;

	for (; unit > 1; unit /= 10)
		digits++;
	return digits;
}

static const char *time_text(const struct column_type *type, int64_t value,
			     char text[TYPE_TEXT_MAX])
{
	int64_t seconds, fraction = 0, of_day = 0, days, year, unit = (int64_t)type->unit;
	unsigned int month, day;
	int n = 0;

	if (!unit) {
		days = value;
	} else {
		seconds = divide(value, unit, &fraction);
		days = divide(seconds, DAY, &of_day);
	}
	if (!type->clock) {
		date_of(days, &year, &month, &day);
		n = snprintf(text, TYPE_TEXT_MAX, "%04" PRId64 "-%02u-%02u", year, month, day);
	} else if (days) {
		n = snprintf(text, TYPE_TEXT_MAX, "%" PRId64 "d", days);
	}
	if (!unit || (!type->clock && !of_day && !fraction))
		return text;
	n += snprintf(text + n, (size_t)(TYPE_TEXT_MAX - n), "%s%02d:%02d:%02d", n ? "T" : "",
		      (int)(of_day / 3600), (int)(of_day / 60 % 60), (int)(of_day % 60));
	if (fraction)
		snprintf(text + n, (size_t)(TYPE_TEXT_MAX - n), ".%0*" PRId64,
			 digits_of(type->unit), fraction);
	return text;
}

const char *type_value_text(const struct column_type *type, int64_t value,
			    char text[TYPE_TEXT_MAX])
{
	if (type->class == TYPE_TIME)
		return time_text(type, value, text);
	if (type->class == TYPE_BOOL)
		snprintf(text, TYPE_TEXT_MAX, "%s", value ? "true" : "false");
	else if (type->sum == SUM_U64)
		snprintf(text, TYPE_TEXT_MAX, "%" PRIu64, (uint64_t)value);
	else
		snprintf(text, TYPE_TEXT_MAX, "%" PRId64, value);
	return text;
}

/* ---- from text ---- */

/* "12:34", "12:34:56", "12:34:56.789", to units. */
static int parse_clock(const char *text, uint64_t unit, int64_t *ret_value)
{
	unsigned int hours, minutes, seconds = 0;
	int64_t value, digit;
	int n = 0, m = 0;

	if (sscanf(text, "%2u:%2u%n", &hours, &minutes, &n) < 2 || !n || hours > 24 ||
	    minutes > 59)
		return -EINVAL;
	text += n;
	if (*text == ':') {
		if (sscanf(text, ":%2u%n", &seconds, &m) < 1 || !m || seconds > 59)
			return -EINVAL;
		text += m;
	}
	value = (int64_t)((hours * 60ull + minutes) * 60 + seconds) * (int64_t)unit;
	if (*text == '.')
		for (text++; *text >= '0' && *text <= '9'; text++) {
			unit /= 10;
			digit = *text - '0';
			/* The type has no room for a finer time. */
			if (!unit && digit)
				return -ERANGE;
			value += digit * (int64_t)unit;
		}
	if (!strcmp(text, "Z"))
		text++;
	if (*text)
		return -EINVAL;
	*ret_value = value;
	return 0;
}

static int parse_time(const struct column_type *type, const char *text, int64_t *ret_value)
{
	int64_t days, clock = 0;
	unsigned int month, day;
	int year, n = 0, r;

	if (type->clock)
		return parse_clock(text, type->unit, ret_value);
	if (sscanf(text, "%d-%2u-%2u%n", &year, &month, &day, &n) < 3 || !n || month < 1 ||
	    month > 12 || day < 1 || day > 31)
		return -EINVAL;
	days = days_of(year, month, day);
	text += n;
	if (*text == 'T' || *text == ' ') {
		r = parse_clock(text + 1, type->unit ? type->unit : 1, &clock);
		if (r || (!type->unit && clock))
			return r ? r : -ERANGE;
	} else if (*text) {
		return -EINVAL;
	}
	if (!type->unit)
		*ret_value = days;
	else if (__builtin_mul_overflow(days, (int64_t)type->unit * DAY, ret_value) ||
		 __builtin_add_overflow(*ret_value, clock, ret_value))
		return -ERANGE;
	return 0;
}

/* A column of floats has no closer value: the library compares it with the same one. */
static int parse_real(const struct column_type *type, const char *text, double *ret_value)
{
	char *end;
	double value;

	value = strtod(text, &end);
	if (end == text || *end)
		return -EINVAL;
	*ret_value = type->sum == SUM_F32 ? (double)(float)value : value;
	return 0;
}

/* Reads an integer that fits the bits and the sign of the type. */
static int parse_integer(const struct column_type *type, const char *text,
			 union sum_limit *ret_value)
{
	uint32_t bits = sum_type_bits(type->sum);
	bool is_signed = type->sum == SUM_I8 || type->sum == SUM_I16 || type->sum == SUM_I32 ||
			 type->sum == SUM_I64;
	long long value;
	char *end;

	errno = 0;
	if (type->sum == SUM_U64) {
		ret_value->u64 = strtoull(text, &end, 10);
		if (end == text || *end)
			return -EINVAL;
		return errno || strchr(text, '-') ? -ERANGE : 0;
	}
	value = strtoll(text, &end, 10);
	if (end == text || *end)
		return -EINVAL;
	if (errno ||
	    (is_signed && bits < 64 &&
	     (value >> (bits - 1) != 0 && value >> (bits - 1) != -1)) ||
	    (!is_signed && (value < 0 || value >> bits)))
		return -ERANGE;
	ret_value->i64 = value;
	return 0;
}

int type_value_parse(const struct column_type *type, const char *text,
		     union sum_limit *ret_value)
{
	switch (type->class) {
	case TYPE_BOOL:
		if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
			return -EINVAL;
		ret_value->i64 = *text == 't';
		return 0;
	case TYPE_TIME:
		return parse_time(type, text, &ret_value->i64);
	case TYPE_NUMBER:
		if (sum_type_is_float(type->sum))
			return parse_real(type, text, &ret_value->f64);
		return parse_integer(type, text, ret_value);
	default:
		return -EOPNOTSUPP;
	}
}
