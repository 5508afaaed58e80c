/* SPDX-License-Identifier: MIT */
/* Source: a file of a table, or what stands in its place, whatever its format. */
#ifndef HETMAP_TABLE_SOURCE_HH
#define HETMAP_TABLE_SOURCE_HH

#include <memory>
#include <string>
#include <vector>

#include <arrow/chunked_array.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include "file.hh"
#include "memory.hh"
#include "status.hh"

namespace hetmap
{

/* How columns are wanted. */
struct Want {
	PoolRef pool;
	bool in_place =
		true;       /* false: nothing of what is handed out may be in a map of a file */
	uint32_t flags = 0; /* HM_TABLE_* */
	uint32_t threads = 1; /* that a cursor may use by itself */
	int64_t buffer = 0;   /* bytes to read at a time, of each column; 0: chosen */
	/* Fields of the source that will be asked for. */
	std::vector<int> fields;
};

/* A row group or record batch. */
struct Group {
	int64_t first_row = 0, rows = 0; /* -1: not known */
	int64_t stored = 0, plain = 0;
};

/* A field in a group, as it is stored. */
struct Stored {
	bool in_place = false, has_range = false;
	std::string why, codec = "none", encodings, min, max;
	int64_t stored = 0, plain = 0, nulls = -1, values = 0;
};

/* A condition on rows, of one source. */
struct Filter {
	int field;
	uint32_t compare;                     /* enum hm_table_compare */
	std::shared_ptr<arrow::Scalar> value; /* of the field's type */
};

using Columns = std::vector<std::shared_ptr<arrow::ChunkedArray>>;

/* Reads a source, in one thread. */
class Cursor
{
      public:
	virtual ~Cursor() = default;
	/* The values of @fields in @group; in some order of groups it is cheaper than in others. */
	virtual Result<Columns> Read(int64_t group, const std::vector<int> &fields) = 0;
	/* The same, @rows at a time at most, through as little memory as there may be. */
	virtual Result<std::shared_ptr<arrow::RecordBatchReader>>
	Stream(int64_t group, const std::vector<int> &fields, int64_t rows);
};

class Source
{
      public:
	virtual ~Source() = default;
	virtual uint32_t format() const = 0;
	virtual std::shared_ptr<arrow::Schema> schema() const = 0;
	virtual int64_t groups() const = 0;
	virtual Result<Group> Facts(int64_t group) = 0;
	/* Rows of all groups; -1: not known. */
	virtual Result<int64_t> Rows() = 0;
	/* Rows that a group says it has, for what is read of it to be held against; -1: none. */
	virtual Result<int64_t> RowsTold(int64_t)
	{
		return -1;
	}
	/* Each field of a group is one chunk, which costs little until it is asked for. */
	virtual bool OneByOne() const
	{
		return false;
	}
	virtual Result<std::unique_ptr<Cursor>> Open(const Want &want) = 0;
	virtual Result<Stored> Describe(int64_t group, int field) = 0;
	/* Its fields are decoded one by one, so that threads can share a group. */
	virtual bool ByField() const
	{
		return false;
	}
	/* A part of a group takes less memory than the whole (Cursor::Stream()). */
	virtual bool Divides() const
	{
		return false;
	}
	/* The field has no value: it is of @type from now on. False: it stays as it is. */
	virtual bool Adopt(int, const std::shared_ptr<arrow::DataType> &)
	{
		return false;
	}
	/* No row of the group passes @filter. */
	virtual bool Skips(int64_t, const Filter &)
	{
		return false;
	}
	/* Plainly stored chunks are used where they lie. */
	virtual bool in_place() const
	{
		return false;
	}
	/* Reason for in_place, and for what is not, in a few words. */
	virtual std::string why() const = 0;
	virtual std::string creator() const
	{
		return "";
	}
	/* What opening it has to tell (hm_warning()); "": nothing. */
	virtual std::string warning() const
	{
		return "";
	}
	std::shared_ptr<Disk> disk() const
	{
		return disk_;
	}
	/* Where an error is: the path of the file. */
	std::string where() const
	{
		return disk_ ? disk_->path() : "";
	}

      protected:
	std::shared_ptr<Disk> disk_; /* none: it is in memory */
};

struct OpenHow {
	std::shared_ptr<Memory> memory;
	uint32_t flags = 0;
	char separator = ',';
};

Result<std::unique_ptr<Source>> OpenArrow(std::shared_ptr<Disk> disk, const OpenHow &how);
Result<std::unique_ptr<Source>> OpenStream(std::shared_ptr<Disk> disk, const OpenHow &how);
Result<std::unique_ptr<Source>> OpenParquet(std::shared_ptr<Disk> disk, const OpenHow &how);
Result<std::unique_ptr<Source>> OpenCsv(std::shared_ptr<Disk> disk, const OpenHow &how);
Result<std::unique_ptr<Source>> OpenMemory(std::shared_ptr<arrow::Schema> schema,
					   arrow::RecordBatchVector batches);

/* The columns of a batch, each of one chunk. */
Columns ColumnsOf(const arrow::RecordBatch &batch, const std::vector<int> &fields);

} /* namespace hetmap */

#endif
