/* SPDX-License-Identifier: MIT */
/* Filters: which row groups have no row that a caller wants. */
#ifndef HETMAP_TABLE_FILTER_HH
#define HETMAP_TABLE_FILTER_HH

#include "source.hh"

namespace hetmap
{

/* What statistics say about the values of a group. */
struct Range {
	std::shared_ptr<arrow::Scalar> min, max; /* none: not told */
	int64_t nulls = -1;                      /* -1: not told */
	int64_t values = -1;                     /* with the missing ones; -1: not told */
	bool exact = false;                      /* both ends are values of the group */
};

/* A value of a type, by its text. */
Result<std::shared_ptr<arrow::Scalar>> ParseValue(const std::shared_ptr<arrow::DataType> &type,
						  const char *text);

/* No value in @range passes @filter. */
bool NonePasses(const Range &range, const Filter &filter);

} /* namespace hetmap */

#endif
