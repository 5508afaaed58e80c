// SPDX-License-Identifier: MIT
/* Source: what sources of all formats have in common, and the one that is in memory. */
#include "source.hh"

#include <arrow/table.h>

namespace hetmap
{

namespace
{

/* Slices of columns that are there already. */
class Slices : public arrow::RecordBatchReader
{
      public:
	Slices(std::shared_ptr<arrow::Table> table, int64_t rows)
	    : table_(std::move(table)), reader_(*table_)
	{
		reader_.set_chunksize(rows);
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return table_->schema();
	}
	Status ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override
	{
		return reader_.ReadNext(out);
	}

      private:
	std::shared_ptr<arrow::Table> table_;
	arrow::TableBatchReader reader_;
};

/* The batches of another library, or of buffers of the caller. */
class InMemory : public Source
{
      public:
	InMemory(std::shared_ptr<arrow::Schema> schema, arrow::RecordBatchVector batches)
	    : schema_(std::move(schema)), batches_(std::move(batches))
	{
		int64_t row = 0;

		for (const auto &batch : batches_) {
			first_.push_back(row);
			row += batch->num_rows();
		}
		first_.push_back(row);
	}
	uint32_t format() const override
	{
		return HM_TABLE_MEMORY;
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return schema_;
	}
	int64_t groups() const override
	{
		return static_cast<int64_t>(batches_.size());
	}
	Result<Group> Facts(int64_t group) override
	{
		Group facts;

		facts.first_row = first_[static_cast<size_t>(group)];
		facts.rows = batches_[static_cast<size_t>(group)]->num_rows();
		return facts;
	}
	Result<int64_t> Rows() override
	{
		return first_.back();
	}
	Result<int64_t> RowsTold(int64_t group) override
	{
		return batches_[static_cast<size_t>(group)]->num_rows();
	}
	Result<std::unique_ptr<Cursor>> Open(const Want &want) override;
	Result<Stored> Describe(int64_t group, int field) override
	{
		Stored stored;
		const auto &column = batches_[static_cast<size_t>(group)]->column_data(field);

		stored.in_place = true;
		stored.why = why();
		stored.values = column->length;
		stored.nulls = column->null_count;
		return stored;
	}
	bool in_place() const override
	{
		return true;
	}
	std::string why() const override
	{
		return "in memory";
	}

	const arrow::RecordBatch &batch(int64_t group) const
	{
		return *batches_[static_cast<size_t>(group)];
	}

      private:
	std::shared_ptr<arrow::Schema> schema_;
	arrow::RecordBatchVector batches_;
	std::vector<int64_t> first_;
};

class InMemoryCursor : public Cursor
{
      public:
	explicit InMemoryCursor(const InMemory &source) : source_(source)
	{
	}
	Result<Columns> Read(int64_t group, const std::vector<int> &fields) override
	{
		return ColumnsOf(source_.batch(group), fields);
	}

      private:
	const InMemory &source_;
};

Result<std::unique_ptr<Cursor>> InMemory::Open(const Want &)
{
	return std::make_unique<InMemoryCursor>(*this);
}

} /* namespace */

Columns ColumnsOf(const arrow::RecordBatch &batch, const std::vector<int> &fields)
{
	Columns columns;

	columns.reserve(fields.size());
	for (int field : fields)
		columns.push_back(std::make_shared<arrow::ChunkedArray>(batch.column(field)));
	return columns;
}

Result<std::shared_ptr<arrow::RecordBatchReader>>
Cursor::Stream(int64_t group, const std::vector<int> &fields, int64_t rows)
{
	ARROW_ASSIGN_OR_RAISE(Columns columns, Read(group, fields));
	arrow::FieldVector types;

	for (const auto &column : columns)
		types.push_back(arrow::field("", column->type()));
	return std::make_shared<Slices>(
		arrow::Table::Make(arrow::schema(std::move(types)), std::move(columns)), rows);
}

Result<std::unique_ptr<Source>> OpenMemory(std::shared_ptr<arrow::Schema> schema,
					   arrow::RecordBatchVector batches)
{
	return std::make_unique<InMemory>(std::move(schema), std::move(batches));
}

} /* namespace hetmap */
