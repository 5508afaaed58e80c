/* SPDX-License-Identifier: MIT */
/*
 * Given: what another library hands over by the Arrow C interfaces, looked at before libarrow takes
 * it. The interfaces carry pointers without lengths: libarrow follows each.
 */
#ifndef HETMAP_TABLE_GIVEN_HH
#define HETMAP_TABLE_GIVEN_HH

#include <arrow/type.h>
#include <hetmap/arrow.h>

#include "status.hh"

namespace hetmap
{

/* The kernel can read @n bytes at @pointer: all pages, or the first and the last one. */
bool IsReadable(const void *pointer, int64_t n, bool all_pages);

/* All of @schema is there. */
Status CheckGiven(const struct ArrowSchema &schema);

/* All of @array is there, of the shape that @type has; its buffers begin and end in memory. */
Status CheckGiven(const struct ArrowArray &array, const arrow::DataType &type);

/* Lets no exception out of the end of @array. */
void Shield(struct ArrowArray *array);

} /* namespace hetmap */

#endif
