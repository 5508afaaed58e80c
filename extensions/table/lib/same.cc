// SPDX-License-Identifier: MIT
/*
 * Same: whether rows of a table may go behind those of a Parquet file.
 *
 * Two things must agree. Columns must be stored alike: by physical type, meaning (logical type) and
 * levels. Older names of a meaning (converted types) and numbers of fields do not count: writers
 * differ in them. And readers must not take the new values for others: the first writer may have
 * kept types of Arrow that Parquet does not have beside the footer (ARROW:schema), and these hold
 * for all row groups. A duration is only there; Parquet has its number.
 */
#include "same.hh"

#include <algorithm>

#include <arrow/extension_type.h>
#include <parquet/arrow/schema.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

namespace hetmap
{

namespace
{

using arrow::DataType;
using arrow::Type;

/* How a column of Parquet is stored, for people. */
std::string StorageOf(const parquet::ColumnDescriptor &column)
{
	std::string text = parquet::TypeToString(column.physical_type());

	if (column.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY)
		text += "(" + std::to_string(column.type_length()) + ")";
	if (column.logical_type() && !column.logical_type()->is_none())
		text += " " + column.logical_type()->ToString();
	if (!column.max_definition_level())
		text += ", never missing";
	return text;
}

/* The same meaning. Of timestamps zone and unit count, and not how they are written down. */
bool MeanAlike(const parquet::LogicalType &a, const parquet::LogicalType &b)
{
	if (!a.is_timestamp() || !b.is_timestamp())
		return a.Equals(b);
	const auto &one = static_cast<const parquet::TimestampLogicalType &>(a);
	const auto &other = static_cast<const parquet::TimestampLogicalType &>(b);

	return one.is_adjusted_to_utc() == other.is_adjusted_to_utc() &&
	       one.time_unit() == other.time_unit();
}

bool AreStoredAlike(const parquet::ColumnDescriptor &a, const parquet::ColumnDescriptor &b)
{
	const auto &one = a.logical_type(), &other = b.logical_type();
	bool none = !one || one->is_none(), other_none = !other || other->is_none();

	bool fixed = a.physical_type() == parquet::Type::FIXED_LEN_BYTE_ARRAY;

	if (a.physical_type() != b.physical_type() ||
	    (fixed && a.type_length() != b.type_length()) ||
	    a.max_definition_level() != b.max_definition_level() ||
	    a.max_repetition_level() != b.max_repetition_level() ||
	    a.path()->ToDotString() != b.path()->ToDotString() || none != other_none)
		return false;
	return none || MeanAlike(*one, *other);
}

Status CheckStorage(const parquet::SchemaDescriptor &old, const parquet::SchemaDescriptor &own)
{
	int n = std::min(old.num_columns(), own.num_columns());

	for (int i = 0; i < n; i++)
		if (!AreStoredAlike(*old.Column(i), *own.Column(i)))
			return Fail(
				-EINVAL,
				"column '%s' (%s) differs from column '%s' (%s) of the file to "
				"append to",
				own.Column(i)->path()->ToDotString().c_str(),
				StorageOf(*own.Column(i)).c_str(),
				old.Column(i)->path()->ToDotString().c_str(),
				StorageOf(*old.Column(i)).c_str());
	if (old.num_columns() != own.num_columns())
		return Fail(
			-EINVAL,
			"column '%s' is not in both: the file to append to has %d columns, and "
			"the table %d",
			(old.num_columns() > n ? old : own)
				.Column(n)
				->path()
				->ToDotString()
				.c_str(),
			old.num_columns(), own.num_columns());
	return Status::OK();
}

/* The type of the values: how they are shared, or repeated, is another matter. */
const DataType &ValuesOf(const DataType &type)
{
	if (type.id() == Type::DICTIONARY)
		return *static_cast<const arrow::DictionaryType &>(type).value_type();
	if (type.id() == Type::RUN_END_ENCODED)
		return *static_cast<const arrow::RunEndEncodedType &>(type).value_type();
	return type;
}

/* Parquet has no such type: readers take it from what the first writer kept beside. */
bool IsOnlyBeside(const DataType &type)
{
	return type.id() == Type::DURATION || type.id() == Type::FIXED_SIZE_LIST ||
	       type.id() == Type::EXTENSION;
}

bool MeanTheSame(const DataType &old_type, const DataType &own_type)
{
	const DataType &old = ValuesOf(old_type), &own = ValuesOf(own_type);

	if (IsOnlyBeside(old) || IsOnlyBeside(own)) {
		if (old.id() != own.id() || old.id() != Type::FIXED_SIZE_LIST)
			return old.Equals(own);
		if (static_cast<const arrow::FixedSizeListType &>(old).list_size() !=
		    static_cast<const arrow::FixedSizeListType &>(own).list_size())
			return false;
	}
	if (old.num_fields() != own.num_fields())
		return false;
	for (int i = 0; i < old.num_fields(); i++)
		if (!MeanTheSame(*old.field(i)->type(), *own.field(i)->type()))
			return false;
	return true;
}

/* The zone of a timestamp; "": it has none. */
std::string ZoneOf(const DataType &type)
{
	if (type.id() != Type::TIMESTAMP)
		return "";
	return static_cast<const arrow::TimestampType &>(type).timezone();
}

} /* namespace */

Status CheckSame(const parquet::FileMetaData &old, const parquet::SchemaDescriptor &own,
		 const arrow::Schema &schema, std::string *ret_zone)
{
	std::shared_ptr<arrow::Schema> read; /* as readers have the file */

	ARROW_RETURN_NOT_OK(CheckStorage(*old.schema(), own));
	ARROW_RETURN_NOT_OK(parquet::arrow::FromParquetSchema(
		old.schema(), parquet::default_arrow_reader_properties(),
		old.key_value_metadata(), &read));
	if (read->num_fields() != schema.num_fields())
		return Fail(-EINVAL, "the file to append to has %d columns, and the table %d",
			    read->num_fields(), schema.num_fields());
	for (int i = 0; i < schema.num_fields(); i++) {
		const DataType &type = *schema.field(i)->type(),
			       &other = *read->field(i)->type();

		if (!MeanTheSame(other, type))
			return Fail(-EINVAL,
				    "column '%s' is %s, and %s in the file to append to",
				    schema.field(i)->name().c_str(), type.ToString().c_str(),
				    other.ToString().c_str());
		if (ret_zone->empty() && ZoneOf(type) != ZoneOf(other))
			*ret_zone = "column '" + schema.field(i)->name() +
				    "' has the time zone " + ZoneOf(type) +
				    ", and the file keeps " + ZoneOf(other) +
				    ": the instants are the same";
	}
	return Status::OK();
}

} /* namespace hetmap */
