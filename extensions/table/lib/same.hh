/* SPDX-License-Identifier: MIT */
/* Same: whether rows of a table may go behind those of a Parquet file. */
#ifndef HETMAP_TABLE_SAME_HH
#define HETMAP_TABLE_SAME_HH

#include <string>

#include <arrow/type.h>
#include <parquet/metadata.h>

#include "status.hh"

namespace hetmap
{

/*
 * The columns @own of @schema are stored as those of the file @old are, and readers of the file
 * will give back what was appended. *ret_zone: a sentence where a time zone will have another name.
 */
Status CheckSame(const parquet::FileMetaData &old, const parquet::SchemaDescriptor &own,
		 const arrow::Schema &schema, std::string *ret_zone);

} /* namespace hetmap */

#endif
