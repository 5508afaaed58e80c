// SPDX-License-Identifier: MIT
/* Tables of buffers of the caller. */
#include <cinttypes>

#include <arrow/c/bridge.h>

#include "check.hh"
#include "table.hh"

using namespace hetmap;

namespace
{

/* The type of a name of the C data interface. */
Result<std::shared_ptr<arrow::DataType>> TypeOf(const struct hm_table_buffers &column)
{
	struct ArrowSchema schema = {};

	/* Of strings that are constant: nothing is to be released. */
	schema.format = column.format;
	schema.name = column.name;
	schema.flags = ARROW_FLAG_NULLABLE;
	schema.release = [](struct ArrowSchema *ended) { ended->release = nullptr; };
	auto type = arrow::ImportType(&schema);

	if (!type.ok() || (*type)->num_fields() || arrow::is_binary_view_like((*type)->id()) ||
	    (*type)->id() == arrow::Type::NA)
		return Fail(
			-EOPNOTSUPP,
			"column '%s' has the format '%s', which is none of a column in three "
			"buffers: use hm_table_import_array()",
			column.name, column.format);
	return type;
}

std::shared_ptr<arrow::Buffer> Wrapped(const void *pointer, int64_t n)
{
	if (!pointer)
		return nullptr;
	return std::make_shared<arrow::Buffer>(static_cast<const uint8_t *>(pointer), n);
}

template <typename T>
Status CheckOrder(const struct hm_table_buffers &column, int64_t rows, int64_t *ret_bytes)
{
	auto *offsets = static_cast<const T *>(column.offsets);

	if (offsets[0] < 0)
		return Fail(-EINVAL, "column '%s' begins at offset %" PRId64, column.name,
			    int64_t{ offsets[0] });
	for (int64_t i = 0; i < rows; i++)
		if (offsets[i + 1] < offsets[i])
			return Fail(-EINVAL, "offsets of column '%s' decrease at row %" PRId64,
				    column.name, i);
	*ret_bytes = offsets[rows];
	return Status::OK();
}

/* A column of strings or bytes. */
Status Texts(const struct hm_table_buffers &column, const arrow::DataType &type, int64_t rows,
	     std::vector<std::shared_ptr<arrow::Buffer>> *buffers)
{
	bool large = arrow::is_large_binary_like(type.id());
	int64_t bytes = 0;

	if (!column.offsets)
		return Fail(-EINVAL, "column '%s' has no offsets", column.name);
	ARROW_RETURN_NOT_OK(large ? CheckOrder<int64_t>(column, rows, &bytes) :
				    CheckOrder<int32_t>(column, rows, &bytes));
	if (bytes && !column.values)
		return Fail(-EINVAL, "column '%s' has no values", column.name);
	buffers->push_back(Wrapped(column.offsets, (rows + 1) * (large ? 8 : 4)));
	buffers->push_back(Wrapped(column.values ? column.values : "", bytes));
	return Status::OK();
}

Result<std::shared_ptr<arrow::ArrayData>> ColumnOf(const struct hm_table_buffers &column,
						   const std::shared_ptr<arrow::DataType> &type,
						   int64_t rows)
{
	std::vector<std::shared_ptr<arrow::Buffer>> buffers;
	int64_t bits;

	buffers.push_back(Wrapped(column.validity, (rows + 7) / 8));
	if (arrow::is_base_binary_like(type->id())) {
		ARROW_RETURN_NOT_OK(Texts(column, *type, rows, &buffers));
	} else {
		if (!arrow::is_fixed_width(type->id()))
			return Fail(-EOPNOTSUPP, "column '%s' has the format '%s'", column.name,
				    column.format);
		if (rows && !column.values)
			return Fail(-EINVAL, "column '%s' has no values", column.name);
		bits = type->bit_width();
		if (rows > INT64_MAX / (bits ? bits : 1))
			return Fail(-EINVAL, "column '%s' of %" PRId64 " rows", column.name,
				    rows);
		buffers.push_back(
			Wrapped(column.values ? column.values : "", (rows * bits + 7) / 8));
	}
	auto data = arrow::ArrayData::Make(type, rows, std::move(buffers),
					   column.validity ? arrow::kUnknownNullCount : 0);

	ARROW_RETURN_NOT_OK(CountMissing(data.get(), nullptr));
	return data;
}

} /* namespace */

int hm_table_from_buffers(const struct hm_table_buffers *columns, uint32_t n_columns,
			  uint64_t rows, const struct hm_table_desc *given,
			  struct hm_table **ret_table)
{
	return Door([&]() -> Status {
		std::vector<std::shared_ptr<arrow::ArrayData>> data;
		std::vector<std::unique_ptr<Source>> sources;
		std::shared_ptr<Memory> memory;
		struct hm_table_desc desc;
		arrow::FieldVector fields;

		if (!columns || !n_columns || !ret_table || rows > INT64_MAX / 64)
			return Fail(-EINVAL,
				    "a table needs columns, rows that they can have, and a "
				    "place for it");
		ARROW_RETURN_NOT_OK(TakeTableDesc(given, &desc, &memory));
		for (uint32_t i = 0; i < n_columns; i++) {
			const struct hm_table_buffers &column = columns[i];

			if (!column.name || !column.format || column.reserved)
				return Fail(-EINVAL, "column %u has no name or no format", i);
			ARROW_ASSIGN_OR_RAISE(auto type, TypeOf(column));
			ARROW_ASSIGN_OR_RAISE(auto own, ColumnOf(column, type,
								 static_cast<int64_t>(rows)));
			fields.push_back(arrow::field(column.name, type));
			data.push_back(std::move(own));
		}
		auto schema = arrow::schema(std::move(fields));
		auto batch = arrow::RecordBatch::Make(schema, static_cast<int64_t>(rows),
						      std::move(data));

		desc.columns = nullptr;
		ARROW_ASSIGN_OR_RAISE(auto source, OpenMemory(schema, { batch }));
		sources.push_back(std::move(source));
		return Assemble(std::move(sources), desc, memory, ret_table);
	});
}
