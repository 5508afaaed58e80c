/* SPDX-License-Identifier: MIT */
/* Writing: a new file beside the old one, and what goes into it. */
#ifndef HETMAP_TABLE_WRITE_HH
#define HETMAP_TABLE_WRITE_HH

#include <memory>
#include <string>

#include <arrow/io/file.h>
#include <arrow/record_batch.h>

#include "table.hh"

namespace hetmap
{

/* What a file is to be, after all choices. */
struct Writing {
	uint32_t format = HM_TABLE_PARQUET;
	std::string codec = "none", encoding;
	int level = 0;
	int64_t group_rows = 1 << 20;
	PoolRef pool;
};

/* A file that has another name until it is whole. It goes away where nobody keeps it. */
class NewFile
{
      public:
	/* Beside @path, with the rights of an existing file of that name. */
	static Result<std::unique_ptr<NewFile>> Make(const std::string &path);
	~NewFile();
	/* Gives it the name. @replace: an old file of that name goes; else that is -EEXIST. */
	Status Keep(const std::string &path, bool replace, bool sync);
	/* Copies the first @n bytes of @disk to its begin, or shares them. */
	Status Begin(const Disk &disk, int64_t n, int64_t *ret_copied);
	std::shared_ptr<arrow::io::FileOutputStream> stream() const
	{
		return stream_;
	}
	Result<int64_t> Size() const;

      private:
	NewFile() = default;
	std::string name_;
	int fd_ = -1; /* stream_ owns it */
	bool kept_ = false;
	std::shared_ptr<arrow::io::FileOutputStream> stream_;
};

/* Takes record batches, and makes a file of them. */
class Sink
{
      public:
	virtual ~Sink() = default;
	virtual Status Write(const arrow::RecordBatch &batch) = 0;
	/* The file is whole after it. */
	virtual Status Close() = 0;
	virtual int64_t groups() const = 0;
};

/* @old: the Parquet file whose row groups are before the new ones; else NULL. */
Result<std::unique_ptr<Sink>> MakeParquetSink(const std::shared_ptr<arrow::Schema> &schema,
					      const Writing &writing,
					      std::shared_ptr<arrow::io::OutputStream> stream,
					      std::shared_ptr<Disk> old);
Result<std::unique_ptr<Sink>> MakeArrowSink(const std::shared_ptr<arrow::Schema> &schema,
					    const Writing &writing,
					    std::shared_ptr<arrow::io::OutputStream> stream);

} /* namespace hetmap */

#endif
