/* SPDX-License-Identifier: MIT */
/* Types of columns, by their names in the Arrow C data interface: what a job can do with each. */
#ifndef HETMAP_TABLE_TYPES_H
#define HETMAP_TABLE_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "sum.h"

enum type_class {
	TYPE_OTHER,  /* neither added up nor compared: lists, structs, decimals */
	TYPE_NUMBER, /* added up, compared, and integers are keys */
	TYPE_BOOL,   /* likewise */
	TYPE_TIME,   /* dates, times, durations: compared, and keys */
	TYPE_TEXT,   /* strings and bytes: keys, compared with == and != */
};

/* Where the offsets of a text are. */
enum text_layout {
	TEXT_NONE,
	TEXT_SMALL, /* offsets of 32 bits */
	TEXT_LARGE, /* of 64 bits */
	TEXT_VIEW,  /* views of 16 bytes, and buffers of their bytes */
};

struct column_type {
	const char *format; /* Arrow's name: "i", "tdD", "tsm:UTC" */
	enum type_class class;
	enum sum_type sum; /* width and sign of values; SUM_NONE: none of its own */
	enum text_layout layout;
	/* Units in a second, for times; 0: the unit is a day. */
	uint64_t unit;
	bool clock; /* a time of day, or a duration: no date */
};

/* The type that @format names; an unknown one is TYPE_OTHER. @format must live as long. */
struct column_type type_of_format(const char *format);

#define TYPE_TEXT_MAX 64

/* A value of integers, bools and times as people write it. Returns @text, of TYPE_TEXT_MAX. */
const char *type_value_text(const struct column_type *type, int64_t value,
			    char text[TYPE_TEXT_MAX]);

/*
 * Reads @text as a value of the type: a number, true or false, a date with or without a time.
 * -EINVAL: it is none; -ERANGE: the type can't hold it; -EOPNOTSUPP: the class has no numbers.
 */
int type_value_parse(const struct column_type *type, const char *text,
		     union sum_limit *ret_value);

#endif
