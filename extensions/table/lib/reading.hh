/* SPDX-License-Identifier: MIT */
/* Reading: columns whose chunks lie in files, and are looked at when they are asked for. */
#ifndef HETMAP_TABLE_READING_HH
#define HETMAP_TABLE_READING_HH

#include <memory>
#include <mutex>
#include <vector>

#include "settle.hh"
#include "source.hh"

struct hm_table;
struct hm_column;

namespace hetmap
{

/* The columns of one call, which share the way into the files. */
class Reading
{
      public:
	Reading(struct hm_table *table, std::vector<uint32_t> numbers);
	~Reading();
	Reading(const Reading &) = delete;
	Reading &operator=(const Reading &) = delete;

	size_t chunks() const
	{
		return groups_.size();
	}
	/* Column number @place of the call is @column from now on. */
	void Enter(size_t place, struct hm_column *column)
	{
		columns_[place] = column;
	}
	void Leave(size_t place);
	/*
	 * Makes a chunk of @column ready, and those of the others in the same group: a batch is
	 * taken apart once. What fails of them fails again when it is asked for.
	 */
	Status Ready(struct hm_column *column, size_t chunk);

      private:
	Result<int64_t> FirstRow(size_t chunk);
	Result<Columns> Read(size_t chunk, const std::vector<size_t> &places);
	Status Take(struct hm_column *column, size_t chunk, const arrow::ChunkedArray &values,
		    int64_t rows);

	struct hm_table *table_;
	const std::vector<uint32_t> numbers_;
	const std::vector<size_t> groups_;
	PoolRef pool_;

	std::mutex lock_; /* protects the rest, and chunks that are not ready */
	std::vector<struct hm_column *> columns_; /* NULL: it has ended */
	std::vector<int64_t> first_;              /* rows before the first chunks */
	uint32_t source_ = UINT32_MAX;
	std::unique_ptr<Cursor> cursor_;
};

} /* namespace hetmap */

#endif
