/* SPDX-License-Identifier: MIT */
/* Checks: whether buffers are what their type says, without a touch of bytes in maps of files. */
#ifndef HETMAP_TABLE_CHECK_HH
#define HETMAP_TABLE_CHECK_HH

#include <arrow/array/data.h>

#include "file.hh"
#include "memory.hh"

namespace hetmap
{

/* The buffers are as long as length and offset want them; so are those of children. */
Status CheckLengths(const arrow::ArrayData &data, const Disk *disk);

/* A column is of the type that its table says. */
Status CheckType(const arrow::DataType &wanted, const arrow::DataType &given);

/* A group has as many rows as it says; @told is -1 where it does not say. */
Status CheckRows(int64_t told, int64_t rows);

/* All that libarrow can check: it does so on a copy of what is in the map of @disk. */
Status CheckValues(const arrow::ArrayData &data, const Disk *disk, const PoolRef &pool);

/* Sets the number of missing values, where the file does not tell it. */
Status CountMissing(arrow::ArrayData *data, const Disk *disk);

} /* namespace hetmap */

#endif
