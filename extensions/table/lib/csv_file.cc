// SPDX-License-Identifier: MIT
/*
 * CSV files: libarrow parses them.
 *
 * The types are those of the first block, 1 MiB. Columns that have no value in it get theirs from
 * the rest of the file, and with HM_TABLE_CSV_WHOLE all columns do. A value of another type is an
 * error, which says where it is.
 */
#include <algorithm>
#include <cstdlib>
#include <set>

#include <arrow/csv/options.h>
#include <arrow/csv/reader.h>
#include <arrow/table.h>
#include <arrow/type_traits.h>

#include "source.hh"

namespace hetmap
{

namespace
{

constexpr int64_t BLOCK_MOST = 1 << 20;
constexpr int64_t BLOCK_LEAST = 64 << 10;
/* What libarrow may have for a block beyond the limit, so that it finds the limit by a failure. */
constexpr int64_t SLACK = 32 << 20;

/*
 * libarrow's parser of CSV ends the process where it gets no memory for a block. So it gets it, the
 * next block is a failure (Input), and so are the rows that were made (Within()).
 */
PoolRef LenientPool(const std::shared_ptr<Memory> &memory, uint32_t threads)
{
	return PoolRef(Pool::Make(memory, SLACK * (1 + (threads > 1 ? threads : 0))));
}

/* A result that was made within the limit. */
template <typename T> Result<T> Within(const PoolRef &pool, Result<T> result)
{
	ARROW_RETURN_NOT_OK(pool->Refused());
	return result;
}

/* At most so many rows of each batch at a time. */
class Shorter : public arrow::RecordBatchReader
{
      public:
	Shorter(std::shared_ptr<arrow::RecordBatchReader> whole, int64_t rows)
	    : whole_(std::move(whole)), rows_(rows)
	{
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return whole_->schema();
	}
	Status ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override
	{
		while (!batch_ || row_ >= batch_->num_rows()) {
			ARROW_RETURN_NOT_OK(whole_->ReadNext(&batch_));
			row_ = 0;
			if (!batch_) {
				*out = nullptr;
				return Status::OK();
			}
		}
		*out = batch_->Slice(row_, rows_);
		row_ += (*out)->num_rows();
		return Status::OK();
	}

      private:
	std::shared_ptr<arrow::RecordBatchReader> whole_;
	std::shared_ptr<arrow::RecordBatch> batch_;
	const int64_t rows_;
	int64_t row_ = 0;
};

class CsvSource : public Source
{
      public:
	explicit CsvSource(std::shared_ptr<Disk> disk)
	{
		disk_ = std::move(disk);
	}
	Status Begin(const OpenHow &how);

	uint32_t format() const override
	{
		return HM_TABLE_CSV;
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return schema_;
	}
	int64_t groups() const override
	{
		return 1;
	}
	Result<Group> Facts(int64_t) override
	{
		Group facts;

		facts.first_row = facts.rows = -1;
		facts.stored = facts.plain = disk_->size();
		return facts;
	}
	Result<int64_t> Rows() override
	{
		return -1;
	}
	Result<std::unique_ptr<Cursor>> Open(const Want &want) override;
	bool Adopt(int field, const std::shared_ptr<arrow::DataType> &type) override;
	Result<Stored> Describe(int64_t, int) override
	{
		Stored stored;

		stored.why = why();
		return stored;
	}
	bool Divides() const override
	{
		return true;
	}
	std::string why() const override
	{
		return "CSV: parsed";
	}

	arrow::csv::ReadOptions Reading(bool threads, int64_t block) const;
	arrow::csv::ParseOptions Parsing() const;
	arrow::csv::ConvertOptions Converting(const std::vector<int> &fields) const;
	/* A failure of libarrow, in the words of this library. */
	Status Explain(const Status &status) const;

      private:
	Status LookForRepeats();
	Status TypesOfAll(const PoolRef &pool);
	std::string NameOf(int field) const;

	std::shared_ptr<arrow::Schema> schema_;
	uint32_t flags_ = 0;
	char separator_ = ',';
	bool repeats_ = false; /* two columns have one name: they are read by their numbers */
};

class CsvCursor : public Cursor
{
      public:
	CsvCursor(const CsvSource &source, const Want &want) : source_(source), want_(want)
	{
		want_.pool = LenientPool(want.pool->memory(), want.threads);
	}
	Result<Columns> Read(int64_t group, const std::vector<int> &fields) override;
	Result<std::shared_ptr<arrow::RecordBatchReader>>
	Stream(int64_t group, const std::vector<int> &fields, int64_t rows) override;

      private:
	Result<std::shared_ptr<arrow::Table>> Parse(const std::vector<int> &fields,
						    bool threads);

	const CsvSource &source_;
	Want want_;
};

arrow::csv::ReadOptions CsvSource::Reading(bool threads, int64_t block) const
{
	auto options = arrow::csv::ReadOptions::Defaults();

	options.use_threads = threads;
	options.block_size = static_cast<int32_t>(
		block ? std::clamp(block, BLOCK_LEAST, BLOCK_MOST) : BLOCK_MOST);
	options.autogenerate_column_names = flags_ & HM_TABLE_CSV_NO_HEADER;
	if (!repeats_)
		return options;
	for (int i = 0; i < schema_->num_fields(); i++)
		options.column_names.push_back(NameOf(i));
	options.skip_rows_after_names = 1;
	return options;
}

std::string CsvSource::NameOf(int field) const
{
	return repeats_ ? std::to_string(field) : schema_->field(field)->name();
}

arrow::csv::ParseOptions CsvSource::Parsing() const
{
	auto options = arrow::csv::ParseOptions::Defaults();

	options.delimiter = separator_;
	return options;
}

arrow::csv::ConvertOptions CsvSource::Converting(const std::vector<int> &fields) const
{
	auto options = arrow::csv::ConvertOptions::Defaults();

	for (int field : fields)
		options.include_columns.push_back(NameOf(field));
	for (int i = 0; i < schema_->num_fields(); i++)
		options.column_types[NameOf(i)] = schema_->field(i)->type();
	return options;
}

/* libarrow says "In CSV column #1: Row #7: CSV conversion error to int64: invalid value 'x'". */
Status CsvSource::Explain(const Status &status) const
{
	static const char error[] = "CSV conversion error to ";
	std::string text = TextOf(status), row;
	size_t at = text.find(error), value = text.find(": ", at);
	size_t column = text.find("column #"), number = text.find("Row #");

	if (status.ok() || at == std::string::npos || column > at || value == std::string::npos)
		return status;
	int field = std::atoi(text.c_str() + column + sizeof("column #") - 1);

	if (field < 0 || field >= schema_->num_fields())
		return status;
	if (number < at)
		row = ", row " + std::to_string(std::atoll(text.c_str() + number + 5)) +
		      " of the file";
	at += sizeof(error) - 1;
	return Fail(-EBADMSG, "column '%s'%s: %s for the type %s, %s",
		    schema_->field(field)->name().c_str(), row.c_str(),
		    text.substr(value + 2).c_str(), text.substr(at, value - at).c_str(),
		    flags_ & HM_TABLE_CSV_WHOLE ?
			    "which the file had when it was opened" :
			    "which the first 1 MiB has: HM_TABLE_CSV_WHOLE takes the types of "
			    "all rows");
}

/* A column without any value is of each type. */
bool CsvSource::Adopt(int field, const std::shared_ptr<arrow::DataType> &type)
{
	if (schema_->field(field)->type()->id() != arrow::Type::NA ||
	    arrow::is_nested(type->id()))
		return false;
	auto changed = schema_->SetField(field, schema_->field(field)->WithType(type));

	if (changed.ok())
		schema_ = *changed;
	return changed.ok();
}

/* The types of columns that the first block does not tell: the rest of the file has them. */
Status CsvSource::TypesOfAll(const PoolRef &pool)
{
	bool whole = flags_ & HM_TABLE_CSV_WHOLE;
	std::vector<int> fields;

	for (int i = 0; i < schema_->num_fields(); i++)
		if (whole || schema_->field(i)->type()->id() == arrow::Type::NA)
			fields.push_back(i);
	if (fields.empty() || disk_->size() <= BLOCK_MOST)
		return Status::OK();
	auto converting = Converting(fields);

	converting.column_types.clear();
	ARROW_ASSIGN_OR_RAISE(
		auto reader,
		arrow::csv::TableReader::Make(arrow::io::IOContext(pool.get()),
					      std::make_shared<Input>(disk_, pool, nullptr),
					      Reading(false, 0), Parsing(), converting));
	ARROW_ASSIGN_OR_RAISE(auto table, Within(pool, reader->Read()));
	for (size_t i = 0; i < fields.size(); i++) {
		const auto &type = table->column(static_cast<int>(i))->type();

		ARROW_ASSIGN_OR_RAISE(
			schema_, schema_->SetField(fields[i],
						   schema_->field(fields[i])->WithType(type)));
	}
	return Status::OK();
}

Status CsvSource::LookForRepeats()
{
	std::set<std::string> names;
	uint8_t first = 0;

	for (const auto &field : schema_->fields())
		names.insert(field->name());
	repeats_ = static_cast<int>(names.size()) < schema_->num_fields();
	if (!repeats_)
		return Status::OK();
	/* The line with the names must be the first one then. */
	ARROW_RETURN_NOT_OK(disk_->Read(0, 1, &first));
	if (first == '\n' || first == '\r')
		return Fail(-EOPNOTSUPP,
			    "two columns have one name, and the first line is empty: name each "
			    "column once");
	return Status::OK();
}

Status CsvSource::Begin(const OpenHow &how)
{
	std::shared_ptr<arrow::csv::StreamingReader> first;
	PoolRef pool = LenientPool(how.memory, 1);

	flags_ = how.flags;
	separator_ = how.separator ? how.separator : ',';
	auto reader = arrow::csv::StreamingReader::Make(
		arrow::io::IOContext(pool.get()), std::make_shared<Input>(disk_, pool, nullptr),
		Reading(false, 0), Parsing(), arrow::csv::ConvertOptions::Defaults());

	ARROW_RETURN_NOT_OK(Within(pool, std::move(reader)).Value(&first));
	schema_ = first->schema();
	ARROW_RETURN_NOT_OK(LookForRepeats());
	return Explain(TypesOfAll(pool));
}

Result<std::unique_ptr<Cursor>> CsvSource::Open(const Want &want)
{
	return std::make_unique<CsvCursor>(*this, want);
}

Result<std::shared_ptr<arrow::Table>> CsvCursor::Parse(const std::vector<int> &fields,
						       bool threads)
{
	ARROW_ASSIGN_OR_RAISE(
		auto reader,
		arrow::csv::TableReader::Make(arrow::io::IOContext(want_.pool.get()),
					      std::make_shared<Input>(source_.disk(),
								      want_.pool, nullptr),
					      source_.Reading(threads, 0), source_.Parsing(),
					      source_.Converting(fields)));
	return Within(want_.pool, reader->Read());
}

Result<Columns> CsvCursor::Read(int64_t, const std::vector<int> &fields)
{
	auto table = Parse(fields, want_.threads > 1);

	/* Only one thread by itself knows the number of the row. */
	if (want_.threads > 1 && ErrnoOf(table.status()) == -EBADMSG)
		table = Parse(fields, false);
	ARROW_RETURN_NOT_OK(source_.Explain(table.status()));
	return (*table)->columns();
}

/* Tells of failures in the words of the source. */
class Explained : public arrow::RecordBatchReader
{
      public:
	Explained(std::shared_ptr<arrow::RecordBatchReader> reader, const CsvSource &source,
		  const PoolRef &pool)
	    : reader_(std::move(reader)), source_(source), pool_(pool)
	{
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return reader_->schema();
	}
	Status ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override
	{
		Status status = reader_->ReadNext(out);

		ARROW_RETURN_NOT_OK(pool_->Refused());
		return source_.Explain(status);
	}

      private:
	std::shared_ptr<arrow::RecordBatchReader> reader_;
	const CsvSource &source_; /* of the table that the reader is for */
	PoolRef pool_;
};

Result<std::shared_ptr<arrow::RecordBatchReader>>
CsvCursor::Stream(int64_t, const std::vector<int> &fields, int64_t rows)
{
	auto reader = arrow::csv::StreamingReader::Make(
		arrow::io::IOContext(want_.pool.get()),
		std::make_shared<Input>(source_.disk(), want_.pool, nullptr),
		source_.Reading(false, want_.buffer), source_.Parsing(),
		source_.Converting(fields));

	ARROW_RETURN_NOT_OK(want_.pool->Refused());
	ARROW_RETURN_NOT_OK(source_.Explain(reader.status()));
	return std::make_shared<Explained>(std::make_shared<Shorter>(*reader, rows), source_,
					   want_.pool);
}

} /* namespace */

Result<std::unique_ptr<Source>> OpenCsv(std::shared_ptr<Disk> disk, const OpenHow &how)
{
	auto source = std::make_unique<CsvSource>(disk);

	ARROW_RETURN_NOT_OK(At(disk->path(), Caught([&]() { return source->Begin(how); })));
	return source;
}

} /* namespace hetmap */
