// SPDX-License-Identifier: MIT
/* Parquet files: libparquet decodes them, a column of a row group at a time. */
#include <algorithm>
#include <cinttypes>

#include <arrow/table.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/statistics.h>

#include "filter.hh"
#include "source.hh"

namespace hetmap
{

namespace
{

using parquet::arrow::FileReader;

/* Bytes that are read at a time, of each column. A page that is larger is read whole. */
constexpr int64_t READ_MOST = 256 << 10;
constexpr int64_t READ_LEAST = 4 << 10;

class ParquetSource : public Source
{
      public:
	explicit ParquetSource(std::shared_ptr<Disk> disk)
	{
		disk_ = std::move(disk);
	}
	Status Begin(const OpenHow &how);

	uint32_t format() const override
	{
		return HM_TABLE_PARQUET;
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return schema_;
	}
	int64_t groups() const override
	{
		return metadata_->num_row_groups();
	}
	Result<Group> Facts(int64_t group) override;
	Result<int64_t> Rows() override
	{
		return first_.back();
	}
	Result<int64_t> RowsTold(int64_t group) override
	{
		auto at = static_cast<size_t>(group);

		return first_[at + 1] - first_[at];
	}
	Result<std::unique_ptr<Cursor>> Open(const Want &want) override;
	Result<Stored> Describe(int64_t group, int field) override;
	bool ByField() const override
	{
		return true;
	}
	bool Divides() const override
	{
		return true;
	}
	bool Skips(int64_t group, const Filter &filter) override;
	std::string why() const override
	{
		return "Parquet: decoded";
	}
	std::string creator() const override
	{
		return metadata_->created_by();
	}
	std::string warning() const override
	{
		return warning_;
	}

	Result<std::unique_ptr<FileReader>>
	Reader(const Want &want, std::shared_ptr<arrow::io::RandomAccessFile> input) const;
	/* The columns of a field in a group have as many values as the group has rows. */
	Status CheckValues(int64_t group, int field) const;
	const std::vector<int> &leaves(int field) const
	{
		return leaves_[static_cast<size_t>(field)];
	}
	std::vector<arrow::io::ReadRange> Ranges(int64_t group,
						 const std::vector<int> &leaves) const;

      private:
	Range Statistics(int64_t group, int leaf, const arrow::DataType &type) const;

	PoolRef pool_; /* which the metadata refer to */
	std::shared_ptr<parquet::FileMetaData> metadata_;
	std::shared_ptr<arrow::Schema> schema_;
	std::vector<std::vector<int>> leaves_; /* columns of Parquet that a field is made of */
	std::vector<int64_t> first_;
	std::string warning_;
	uint32_t flags_ = 0;
};

class ParquetCursor : public Cursor
{
      public:
	ParquetCursor(const ParquetSource &source, std::unique_ptr<FileReader> reader)
	    : source_(source), reader_(std::move(reader))
	{
	}
	Result<Columns> Read(int64_t group, const std::vector<int> &fields) override;
	Result<std::shared_ptr<arrow::RecordBatchReader>>
	Stream(int64_t group, const std::vector<int> &fields, int64_t rows) override;

      private:
	const ParquetSource &source_;
	std::unique_ptr<FileReader> reader_;
};

void AddLeaves(const parquet::arrow::SchemaField &field, std::vector<int> *leaves)
{
	if (field.is_leaf())
		leaves->push_back(field.column_index);
	for (const auto &child : field.children)
		AddLeaves(child, leaves);
}

/* Columns that were date64 when the file was written, and have only days now. */
std::string LostTimes(const parquet::arrow::SchemaManifest &manifest,
		      const arrow::Schema &schema)
{
	std::string names;

	if (!manifest.origin_schema)
		return "";
	for (const auto &field : schema.fields()) {
		auto origin = manifest.origin_schema->GetFieldByName(field->name());

		if (origin && origin->type()->id() == arrow::Type::DATE64)
			names += (names.empty() ? "" : ", ") + field->name();
	}
	if (names.empty())
		return "";
	return "Parquet has days where date64 has milliseconds: the time of the day is lost in " +
	       names + "; use timestamp[ms]";
}

Status ParquetSource::Begin(const OpenHow &how)
{
	Want want;
	int64_t row = 0;

	flags_ = how.flags;
	pool_ = PoolRef(Pool::Make(how.memory));
	want.pool = pool_;
	want.flags = flags_;
	auto input = std::make_shared<Input>(disk_, want.pool, nullptr);

	ARROW_ASSIGN_OR_RAISE(auto reader, Reader(want, input));
	metadata_ = reader->parquet_reader()->metadata();
	if (metadata_->is_encryption_algorithm_set())
		return Fail(-EOPNOTSUPP, "the file is encrypted: decrypt it first");
	for (const auto &field : reader->manifest().schema_fields) {
		leaves_.emplace_back();
		AddLeaves(field, &leaves_.back());
	}
	/* Which columns can be dictionaries is known by now. */
	if (flags_ & HM_TABLE_DICTIONARY) {
		ARROW_ASSIGN_OR_RAISE(reader, Reader(want, input));
	}
	ARROW_RETURN_NOT_OK(reader->GetSchema(&schema_));
	warning_ = LostTimes(reader->manifest(), *schema_);
	for (int i = 0; i < metadata_->num_row_groups(); i++) {
		int64_t rows = metadata_->RowGroup(i)->num_rows();

		if (rows < 0 || rows > INT64_MAX - row)
			return Fail(-EBADMSG, "row group %d has %" PRId64 " rows", i, rows);
		first_.push_back(row);
		row += rows;
	}
	first_.push_back(row);
	if (metadata_->num_rows() != row)
		return Fail(-EBADMSG,
			    "the footer has %" PRId64
			    " rows, and its %d row groups have %" PRId64 " together",
			    metadata_->num_rows(), metadata_->num_row_groups(), row);
	return Status::OK();
}

Result<std::unique_ptr<FileReader>>
ParquetSource::Reader(const Want &want,
		      std::shared_ptr<arrow::io::RandomAccessFile> input) const
{
	parquet::ReaderProperties properties(want.pool.get());
	parquet::ArrowReaderProperties arrow_properties(want.threads > 1);
	parquet::arrow::FileReaderBuilder builder;

	properties.enable_buffered_stream();
	properties.set_buffer_size(
		want.buffer ? std::clamp(want.buffer, READ_LEAST, READ_MOST) : READ_MOST);
	/* Of pages that have one. */
	properties.set_page_checksum_verification(true);
	/* Bytes of a column are read as they are decoded, and so are in a cache. */
	arrow_properties.set_pre_buffer(false);
	if ((flags_ & HM_TABLE_DICTIONARY) && metadata_) {
		for (const auto &leaves : leaves_)
			if (leaves.size() == 1 &&
			    metadata_->schema()->Column(leaves[0])->physical_type() ==
				    parquet::Type::BYTE_ARRAY)
				arrow_properties.set_read_dictionary(leaves[0], true);
	}
	ARROW_RETURN_NOT_OK(builder.Open(std::move(input), properties, metadata_));
	builder.memory_pool(want.pool.get());
	builder.properties(arrow_properties);
	return builder.Build();
}

Result<Group> ParquetSource::Facts(int64_t group)
{
	auto metadata = metadata_->RowGroup(static_cast<int>(group));
	Group facts;

	facts.first_row = first_[static_cast<size_t>(group)];
	facts.rows = metadata->num_rows();
	facts.plain = metadata->total_byte_size();
	for (int i = 0; i < metadata->num_columns(); i++)
		facts.stored += metadata->ColumnChunk(i)->total_compressed_size();
	return facts;
}

std::vector<arrow::io::ReadRange> ParquetSource::Ranges(int64_t group,
							const std::vector<int> &leaves) const
{
	auto metadata = metadata_->RowGroup(static_cast<int>(group));
	std::vector<arrow::io::ReadRange> ranges;

	for (int leaf : leaves) {
		auto chunk = metadata->ColumnChunk(leaf);
		int64_t begin = chunk->data_page_offset();

		if (chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0)
			begin = std::min(begin, chunk->dictionary_page_offset());
		ranges.push_back({ begin, chunk->total_compressed_size() });
	}
	return ranges;
}

Range ParquetSource::Statistics(int64_t group, int leaf, const arrow::DataType &type) const
{
	/* Which the column refers to. */
	auto row_group = metadata_->RowGroup(static_cast<int>(group));
	auto chunk = row_group->ColumnChunk(leaf);
	Range range;

	range.values = chunk->num_values();
	if (!chunk->is_stats_set())
		return range;
	auto statistics = chunk->statistics();

	if (!statistics)
		return range;
	if (statistics->HasNullCount())
		range.nulls = statistics->null_count();
	/* Types whose order is not that of their bytes have no scalars: libparquet says so. */
	if (statistics->HasMinMax() &&
	    !parquet::arrow::StatisticsAsScalars(*statistics, &range.min, &range.max).ok())
		range.min = range.max = nullptr;
	/* Texts may have been cut to be short, and statistics of floats leave NaN out. */
	range.exact = arrow::is_primitive(type.id()) && !arrow::is_floating(type.id());
	return range;
}

bool ParquetSource::Skips(int64_t group, const Filter &filter)
{
	const auto &own = leaves(filter.field);

	if (own.size() != 1)
		return false;
	const auto &type = *schema_->field(filter.field)->type();

	/* A list has as many values as its lists have together. */
	if (arrow::is_nested(type.storage_id()))
		return false;
	return NonePasses(Statistics(group, own[0], type), filter);
}

Result<Stored> ParquetSource::Describe(int64_t group, int field)
{
	auto metadata = metadata_->RowGroup(static_cast<int>(group));
	const auto &own = leaves(field);
	Stored stored;

	stored.why = why();
	stored.nulls = own.size() == 1 ? 0 : -1;
	for (int leaf : own) {
		auto chunk = metadata->ColumnChunk(leaf);

		stored.stored += chunk->total_compressed_size();
		stored.plain += chunk->total_uncompressed_size();
		stored.values += chunk->num_values();
		stored.codec = arrow::util::Codec::GetCodecAsString(chunk->compression());
		if (stored.codec == "uncompressed")
			stored.codec = "none";
		for (auto encoding : chunk->encodings()) {
			std::string name = parquet::EncodingToString(encoding);

			if (stored.encodings.find(name) == std::string::npos)
				stored.encodings +=
					(stored.encodings.empty() ? "" : ", ") + name;
		}
	}
	if (own.size() != 1)
		return stored;
	Range range = Statistics(group, own[0], *schema_->field(field)->type());

	stored.nulls = range.nulls;
	if (range.min && range.max) {
		stored.has_range = true;
		stored.min = range.min->ToString();
		stored.max = range.max->ToString();
	}
	return stored;
}

Result<std::unique_ptr<Cursor>> ParquetSource::Open(const Want &want)
{
	auto input = std::make_shared<Input>(disk_, want.pool, nullptr);

	ARROW_ASSIGN_OR_RAISE(auto reader, Reader(want, input));
	return std::make_unique<ParquetCursor>(*this, std::move(reader));
}

Status ParquetSource::CheckValues(int64_t group, int field) const
{
	auto metadata = metadata_->RowGroup(static_cast<int>(group));
	int64_t rows = metadata->num_rows();

	for (int leaf : leaves(field)) {
		int64_t values = metadata->ColumnChunk(leaf)->num_values();
		bool lists = metadata_->schema()->Column(leaf)->max_repetition_level() > 0;

		/* An empty list has a value in the levels, too. */
		if (lists ? values < rows : values != rows)
			return Fail(
				-EBADMSG,
				"column '%s' has %" PRId64
				" values, and the group says that it has %" PRId64 " rows",
				metadata_->schema()->Column(leaf)->path()->ToDotString().c_str(),
				values, rows);
	}
	return Status::OK();
}

Result<Columns> ParquetCursor::Read(int64_t group, const std::vector<int> &fields)
{
	Columns columns;

	for (int field : fields) {
		const auto &leaves = source_.leaves(field);

		ARROW_RETURN_NOT_OK(source_.CheckValues(group, field));
		for (const auto &range : source_.Ranges(group, leaves))
			source_.disk()->WillNeed(range.offset, range.length);
		ARROW_ASSIGN_OR_RAISE(auto table,
				      reader_->ReadRowGroup(static_cast<int>(group), leaves));
		if (table->num_columns() != 1)
			return Fail(-EBADMSG, "libparquet made %d columns of one",
				    table->num_columns());
		columns.push_back(table->column(0));
	}
	return columns;
}

Result<std::shared_ptr<arrow::RecordBatchReader>>
ParquetCursor::Stream(int64_t group, const std::vector<int> &fields, int64_t rows)
{
	std::vector<int> leaves;

	for (int field : fields) {
		const auto &own = source_.leaves(field);

		ARROW_RETURN_NOT_OK(source_.CheckValues(group, field));
		leaves.insert(leaves.end(), own.begin(), own.end());
	}
	for (const auto &range : source_.Ranges(group, leaves))
		source_.disk()->WillNeed(range.offset, std::min(range.length, READ_MOST * 4));
	reader_->set_batch_size(rows);
	ARROW_ASSIGN_OR_RAISE(auto reader, reader_->GetRecordBatchReader(
						   { static_cast<int>(group) }, leaves));
	return std::shared_ptr<arrow::RecordBatchReader>(std::move(reader));
}

} /* namespace */

Result<std::unique_ptr<Source>> OpenParquet(std::shared_ptr<Disk> disk, const OpenHow &how)
{
	auto source = std::make_unique<ParquetSource>(disk);

	ARROW_RETURN_NOT_OK(At(disk->path(), Caught([&]() { return source->Begin(how); })));
	return source;
}

} /* namespace hetmap */
