// SPDX-License-Identifier: MIT
/* Sinks: libarrow and libparquet make files of record batches. */
#include <algorithm>
#include <cinttypes>

#include <arrow/array/array_primitive.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/compression.h>
#include <parquet/arrow/writer.h>
#include <parquet/arrow/schema.h>
#include <parquet/file_reader.h>
#include <parquet/file_writer.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include "same.hh"
#include "write.hh"

namespace hetmap
{

namespace
{

constexpr int64_t DAY_MS = 86400000;

Result<arrow::Compression::type> CodecOf(const std::string &name)
{
	if (name == "none")
		return arrow::Compression::UNCOMPRESSED;
	auto type = arrow::util::Codec::GetCompressionType(name);

	if (!type.ok())
		return Fail(-EINVAL, "there is no codec '%s'", name.c_str());
	if (!arrow::util::Codec::IsAvailable(*type))
		return Fail(-EOPNOTSUPP, "libarrow was built without the codec '%s'",
			    name.c_str());
	return type;
}

Result<parquet::Encoding::type> EncodingOf(const std::string &name)
{
	using E = parquet::Encoding;

	for (E::type type :
	     { E::PLAIN, E::RLE, E::DELTA_BINARY_PACKED, E::DELTA_LENGTH_BYTE_ARRAY,
	       E::DELTA_BYTE_ARRAY, E::BYTE_STREAM_SPLIT })
		if (parquet::EncodingToString(type) == name)
			return type;
	return Fail(-EINVAL, "there is no encoding '%s'", name.c_str());
}

/*
 * A stream that goes on behind the bytes of another file. libparquet begins only where a stream is
 * at 0: after that, it wants to know where it is.
 */
class Continued : public arrow::io::OutputStream
{
      public:
	explicit Continued(std::shared_ptr<arrow::io::OutputStream> stream)
	    : stream_(std::move(stream))
	{
	}
	using Writable::Write;
	Status Write(const void *data, int64_t n) override
	{
		begun_ = true;
		return stream_->Write(data, n);
	}
	Result<int64_t> Tell() const override
	{
		return begun_ ? stream_->Tell() : 0;
	}
	Status Flush() override
	{
		return stream_->Flush();
	}
	Status Close() override
	{
		return stream_->Close();
	}
	bool closed() const override
	{
		return stream_->closed();
	}

      private:
	std::shared_ptr<arrow::io::OutputStream> stream_;
	bool begun_ = false;
};

class ParquetSink : public Sink
{
      public:
	Status Begin(const std::shared_ptr<arrow::Schema> &schema, const Writing &writing,
		     std::shared_ptr<arrow::io::OutputStream> stream,
		     std::shared_ptr<Disk> old);
	Status Write(const arrow::RecordBatch &batch) override;
	Status Close() override;
	int64_t groups() const override
	{
		return groups_;
	}

      private:
	void LookForTimes(const arrow::RecordBatch &batch);

	std::shared_ptr<arrow::io::OutputStream> stream_;
	std::unique_ptr<parquet::arrow::FileWriter> writer_;
	std::shared_ptr<parquet::FileMetaData> before_; /* of the file that is continued */
	std::string lost_; /* the first column that loses the time of the day */
	std::string zone_; /* the first column whose time zone the file has by another name */
	int64_t groups_ = 0;
};

/* The columns of a file, as its schema has them. */
parquet::schema::NodeVector RootFields(const parquet::FileMetaData &metadata)
{
	const auto &root = *metadata.schema()->group_node();
	parquet::schema::NodeVector fields;

	for (int i = 0; i < root.field_count(); i++)
		fields.push_back(root.field(i));
	return fields;
}

Status ParquetSink::Begin(const std::shared_ptr<arrow::Schema> &schema, const Writing &writing,
			  std::shared_ptr<arrow::io::OutputStream> stream,
			  std::shared_ptr<Disk> old)
{
	parquet::WriterProperties::Builder properties;
	parquet::ArrowWriterProperties::Builder arrow_properties;

	ARROW_ASSIGN_OR_RAISE(auto codec, CodecOf(writing.codec));
	stream_ = std::move(stream);
	properties.memory_pool(writing.pool.get());
	properties.compression(codec);
	if (writing.level)
		properties.compression_level(writing.level);
	properties.max_row_group_length(writing.group_rows);
	properties.enable_write_page_index();
	if (!writing.encoding.empty()) {
		ARROW_ASSIGN_OR_RAISE(auto encoding, EncodingOf(writing.encoding));

		properties.disable_dictionary();
		properties.encoding(encoding);
	}
	/* Types that Parquet does not have come back as they were. */
	arrow_properties.store_schema();
	auto made = properties.build();
	auto arrow_made = arrow_properties.build();

	if (!old)
		return parquet::arrow::FileWriter::Open(*schema, writing.pool.get(), stream_,
							made, arrow_made)
			.Value(&writer_);
	std::shared_ptr<parquet::SchemaDescriptor> own;

	before_ = parquet::ReadMetaData(std::make_shared<Input>(old, writing.pool, nullptr));
	ARROW_RETURN_NOT_OK(
		parquet::arrow::ToParquetSchema(schema.get(), *made, *arrow_made, &own));
	ARROW_RETURN_NOT_OK(CheckSame(*before_, *own, *schema, &zone_));
	stream_ = std::make_shared<Continued>(std::move(stream_));
	/* The schema of the file, as it is there: libparquet compares all of it at the end. */
	auto root = parquet::schema::GroupNode::Make(
		before_->schema()->name(), parquet::Repetition::REQUIRED, RootFields(*before_));

	return parquet::arrow::FileWriter::Make(
		writing.pool.get(),
		parquet::ParquetFileWriter::Open(
			stream_, std::static_pointer_cast<parquet::schema::GroupNode>(root),
			made),
		schema, arrow_made, &writer_);
}

/* Days that are stored as milliseconds lose nothing. */
void ParquetSink::LookForTimes(const arrow::RecordBatch &batch)
{
	for (int i = 0; i < batch.num_columns() && lost_.empty(); i++) {
		if (batch.column(i)->type_id() != arrow::Type::DATE64)
			continue;
		const auto &column = static_cast<const arrow::Date64Array &>(*batch.column(i));

		for (int64_t row = 0; row < column.length(); row++)
			if (!column.IsNull(row) && column.Value(row) % DAY_MS) {
				lost_ = batch.column_name(i);
				break;
			}
	}
}

Status ParquetSink::Write(const arrow::RecordBatch &batch)
{
	LookForTimes(batch);
	return writer_->WriteRecordBatch(batch);
}

Status ParquetSink::Close()
{
	ARROW_RETURN_NOT_OK(writer_->Close());
	auto own = writer_->metadata();

	groups_ = own->num_row_groups();
	if (!lost_.empty())
		Warn("Parquet has days where date64 has milliseconds: the time of the day is "
		     "lost in " +
		     lost_ + "; use timestamp[ms]");
	if (!zone_.empty())
		Warn(zone_);
	if (!before_)
		return Status::OK();
	/* A further footer, for the old row groups and the new ones. */
	before_->AppendRowGroups(*own);
	parquet::WriteFileMetaData(*before_, stream_.get());
	return Status::OK();
}

class ArrowSink : public Sink
{
      public:
	Status Begin(const std::shared_ptr<arrow::Schema> &schema, const Writing &writing,
		     std::shared_ptr<arrow::io::OutputStream> stream);
	Status Write(const arrow::RecordBatch &batch) override;
	Status Close() override;
	int64_t groups() const override
	{
		return groups_;
	}

      private:
	std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
	std::shared_ptr<arrow::Schema> schema_;
	int64_t group_rows_ = 0, groups_ = 0;
};

Status ArrowSink::Begin(const std::shared_ptr<arrow::Schema> &schema, const Writing &writing,
			std::shared_ptr<arrow::io::OutputStream> stream)
{
	auto options = arrow::ipc::IpcWriteOptions::Defaults();

	ARROW_ASSIGN_OR_RAISE(auto codec, CodecOf(writing.codec));
	if (codec == arrow::Compression::LZ4)
		codec = arrow::Compression::LZ4_FRAME;
	if (codec != arrow::Compression::UNCOMPRESSED && codec != arrow::Compression::ZSTD &&
	    codec != arrow::Compression::LZ4_FRAME)
		return Fail(-EINVAL, "Arrow files have no codec '%s': zstd and lz4 are those",
			    writing.codec.c_str());
	if (!writing.encoding.empty())
		return Fail(-EINVAL, "Arrow files have no encoding '%s'",
			    writing.encoding.c_str());
	if (codec != arrow::Compression::UNCOMPRESSED) {
		ARROW_ASSIGN_OR_RAISE(
			auto made,
			arrow::util::Codec::Create(
				codec, writing.level ?
					       writing.level :
					       arrow::util::kUseDefaultCompressionLevel));
		options.codec = std::move(made);
	}
	/* As wide as a cache line, so that devices take a column by itself. */
	options.alignment = 64;
	options.memory_pool = writing.pool.get();
	schema_ = schema;
	group_rows_ = writing.group_rows;
	return (writing.format == HM_TABLE_ARROW ?
			arrow::ipc::MakeFileWriter(std::move(stream), schema, options) :
			arrow::ipc::MakeStreamWriter(std::move(stream), schema, options))
		.Value(&writer_);
}

Status ArrowSink::Write(const arrow::RecordBatch &batch)
{
	for (int64_t row = 0; row < batch.num_rows(); row += group_rows_) {
		int64_t rows = std::min(group_rows_, batch.num_rows() - row);
		auto part = batch.Slice(row, rows);

		Status status = writer_->WriteRecordBatch(*part);

		/* libarrow has no code of its own for it. */
		if (TextOf(status).find("Dictionary replacement") != std::string::npos)
			return Fail(
				-EOPNOTSUPP,
				"an Arrow file has one dictionary for a column, and groups of "
				"the table have others: write a stream, or open the table "
				"without HM_TABLE_DICTIONARY");
		ARROW_RETURN_NOT_OK(status);
		groups_++;
	}
	return Status::OK();
}

Status ArrowSink::Close()
{
	return writer_->Close();
}

} /* namespace */

Result<std::unique_ptr<Sink>> MakeParquetSink(const std::shared_ptr<arrow::Schema> &schema,
					      const Writing &writing,
					      std::shared_ptr<arrow::io::OutputStream> stream,
					      std::shared_ptr<Disk> old)
{
	auto sink = std::make_unique<ParquetSink>();

	ARROW_RETURN_NOT_OK(sink->Begin(schema, writing, std::move(stream), std::move(old)));
	return sink;
}

Result<std::unique_ptr<Sink>> MakeArrowSink(const std::shared_ptr<arrow::Schema> &schema,
					    const Writing &writing,
					    std::shared_ptr<arrow::io::OutputStream> stream)
{
	auto sink = std::make_unique<ArrowSink>();

	ARROW_RETURN_NOT_OK(sink->Begin(schema, writing, std::move(stream)));
	return sink;
}

} /* namespace hetmap */
