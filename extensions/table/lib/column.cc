// SPDX-License-Identifier: MIT
/* Columns that are ready, and their chunks. */
#include <cinttypes>

#include <arrow/array/util.h>
#include <arrow/c/bridge.h>

#include "table.hh"

using namespace hetmap;

namespace
{

/* The chunk of a number, ready. */
Status GetChunk(struct hm_column *column, uint64_t number, Chunk **ret)
{
	ARROW_RETURN_NOT_OK(column->Owned());
	if (number >= column->chunks.size())
		return Fail(-ERANGE, "chunk %" PRIu64 " of a column of %zu chunks", number,
			    column->chunks.size());
	ARROW_RETURN_NOT_OK(column->Ready(number));
	*ret = &column->chunks[number];
	return Status::OK();
}

/* Columns that are used where they lie: their chunks are looked at when they are asked for. */
void Promise(struct hm_table *table, const std::vector<uint32_t> &numbers,
	     std::vector<std::unique_ptr<struct hm_column>> *columns)
{
	auto reading = std::make_shared<Reading>(table, numbers);
	size_t n = reading->chunks();

	for (size_t i = 0; i < numbers.size(); i++) {
		struct hm_column *column = (*columns)[i].get();

		column->chunks.resize(n);
		column->ready = std::make_unique<std::atomic<bool>[]>(n);
		column->place = i;
		column->reading = reading;
		reading->Enter(i, column);
	}
}

Status Ready(struct hm_table *table, const std::vector<uint32_t> &numbers,
	     struct hm_column **ret_columns)
{
	std::vector<std::unique_ptr<struct hm_column>> columns;
	std::vector<std::deque<Chunk>> chunks;

	ARROW_RETURN_NOT_OK(table->Owned());
	for (uint32_t number : numbers)
		if (number >= static_cast<uint32_t>(table->schema->num_fields()))
			return Fail(-ERANGE, "column %u of a table of %d columns", number,
				    table->schema->num_fields());
	for (uint32_t number : numbers) {
		columns.push_back(std::make_unique<struct hm_column>());
		columns.back()->number = number;
		columns.back()->field = table->schema->field(static_cast<int>(number));
	}
	if (table->OneByOne()) {
		Promise(table, numbers, &columns);
	} else {
		ARROW_RETURN_NOT_OK(
			table->Load(numbers, table->Kept(), table->NewPool(), true, &chunks));
		for (size_t i = 0; i < numbers.size(); i++)
			columns[i]->chunks = std::move(chunks[i]);
	}
	for (size_t i = 0; i < numbers.size(); i++)
		ret_columns[i] = columns[i].release();
	return Status::OK();
}

} /* namespace */

hm_column::~hm_column()
{
	/* A child never reads: the lock may be of a thread that it does not have. */
	if (reading && Owned().ok())
		reading->Leave(place);
}

Status hm_column::Ready(uint64_t chunk)
{
	return reading ? reading->Ready(this, chunk) : Status::OK();
}

int hm_table_column(struct hm_table *table, uint32_t column, struct hm_column **ret_column)
{
	return Door([&]() -> Status {
		if (!table || !ret_column)
			return Fail(-EINVAL, "a column needs a table, and a place for it");
		return Ready(table, { column }, ret_column);
	});
}

int hm_table_columns(struct hm_table *table, const uint32_t *columns, uint32_t n_columns,
		     struct hm_column **ret_columns)
{
	return Door([&]() -> Status {
		std::vector<uint32_t> numbers;

		if (!table || (!ret_columns && n_columns))
			return Fail(-EINVAL, "columns need a table, and places for them");
		for (uint32_t i = 0; i < n_columns; i++)
			numbers.push_back(columns ? columns[i] : i);
		return Ready(table, numbers, ret_columns);
	});
}

int hm_column_query(struct hm_column *column, struct hm_column_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_column_info info = {};

		if (!column || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a column, and a place for its facts");
		ARROW_RETURN_NOT_OK(column->Owned());
		info.column = column->number;
		info.chunks = column->chunks.size();
		for (uint64_t i = 0; i < info.chunks; i++) {
			ARROW_RETURN_NOT_OK(column->Ready(i));
			const Chunk &chunk = column->chunks[i];

			info.rows += static_cast<uint64_t>(chunk.data->length);
			info.nulls += static_cast<uint64_t>(chunk.exported.null_count);
			info.in_place += chunk.in_place;
			info.placed += static_cast<uint64_t>(chunk.placed);
			info.decoded += static_cast<uint64_t>(chunk.copied);
		}
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

int hm_column_chunk(struct hm_column *column, uint64_t chunk, struct hm_table_chunk *ret_chunk)
{
	return Door([&]() -> Status {
		struct hm_table_chunk info = {};
		Chunk *found;

		if (!column || !ret_chunk)
			return Fail(-EINVAL, "a chunk needs a column, and a place for it");
		ARROW_RETURN_NOT_OK(GetChunk(column, chunk, &found));
		found->Describe(&info);
		return GiveInfo(ret_chunk, &info, sizeof(info));
	});
}

int hm_column_export(struct hm_column *column, uint64_t chunk, struct ArrowSchema *ret_schema,
		     struct ArrowDeviceArray *ret_array)
{
	return Door([&]() -> Status {
		struct ArrowDeviceArray array = {};
		struct ArrowSchema schema = {};
		Chunk *found;

		if (!column || !ret_array)
			return Fail(-EINVAL,
				    "an export needs a column, and a place for its values");
		ARROW_RETURN_NOT_OK(GetChunk(column, chunk, &found));
		if (ret_schema)
			ARROW_RETURN_NOT_OK(arrow::ExportField(*column->field, &schema));
		Status status = arrow::ExportDeviceArray(*arrow::MakeArray(found->data),
							 nullptr, &array);

		if (!status.ok()) {
			if (schema.release)
				schema.release(&schema);
			return status;
		}
		if (ret_schema)
			*ret_schema = schema;
		*ret_array = array;
		return Status::OK();
	});
}

struct hm_column *hm_column_ref(struct hm_column *column)
{
	if (column)
		column->Hold();
	return column;
}

void hm_column_unref(struct hm_column *column)
{
	if (column && column->Drop())
		Quietly([&]() { delete column; });
}
