// SPDX-License-Identifier: MIT
/* Reading: columns whose chunks lie in files, and are looked at when they are asked for. */
#include "reading.hh"

#include <cinttypes>

#include "check.hh"
#include "table.hh"

namespace hetmap
{

Reading::Reading(struct hm_table *table, std::vector<uint32_t> numbers)
    : table_(hm_table_ref(table)), numbers_(std::move(numbers)), groups_(table->Kept()),
      pool_(table->NewPool()), columns_(numbers_.size()), first_{ 0 }
{
}

Reading::~Reading()
{
	cursor_ = nullptr;
	hm_table_unref(table_);
}

void Reading::Leave(size_t place)
{
	std::lock_guard<std::mutex> held(lock_);

	columns_[place] = nullptr;
}

Result<int64_t> Reading::FirstRow(size_t chunk)
{
	while (first_.size() <= chunk) {
		size_t group = groups_[first_.size() - 1];
		const GroupAt &at = table_->groups[group];
		auto rows = table_->sources[at.source]->RowsTold(at.in_source);

		ARROW_RETURN_NOT_OK(table_->Located(group, {}, rows.status()));
		if (*rows > INT64_MAX - first_.back())
			return table_->Located(
				group, {}, Fail(-EBADMSG, "there are %" PRId64 " rows", *rows));
		first_.push_back(first_.back() + *rows);
	}
	return first_[chunk];
}

/* The values of some of the columns in a group. */
Result<Columns> Reading::Read(size_t chunk, const std::vector<size_t> &places)
{
	const GroupAt &at = table_->groups[groups_[chunk]];
	std::vector<uint32_t> numbers;

	if (source_ != at.source) {
		Want want;

		cursor_ = nullptr;
		source_ = UINT32_MAX;
		want.pool = pool_;
		want.flags = table_->flags;
		want.fields = table_->FieldsOf(at.source, numbers_);
		ARROW_ASSIGN_OR_RAISE(cursor_, table_->sources[at.source]->Open(want));
		source_ = at.source;
	}
	for (size_t place : places)
		numbers.push_back(numbers_[place]);
	auto columns = cursor_->Read(at.in_source, table_->FieldsOf(at.source, numbers));

	/* A reader that failed has lost its place. */
	if (!columns.ok())
		source_ = UINT32_MAX;
	return columns;
}

Status Reading::Take(struct hm_column *column, size_t chunk, const arrow::ChunkedArray &values,
		     int64_t rows)
{
	const GroupAt &at = table_->groups[groups_[chunk]];
	SettleHow how = { table_->sources[at.source].get(), pool_, table_->flags };
	Chunk made;

	ARROW_RETURN_NOT_OK(CheckType(*column->field->type(), *values.type()));
	ARROW_RETURN_NOT_OK(CheckRows(rows, values.length()));
	if (values.num_chunks() != 1)
		return Fail(-EBADMSG, "%d chunks are there of one", values.num_chunks());
	ARROW_ASSIGN_OR_RAISE(int64_t first, FirstRow(chunk));
	ARROW_RETURN_NOT_OK(Settle(values.chunk(0)->data(), how, &made));
	made.group = groups_[chunk];
	made.first_row = static_cast<uint64_t>(first);
	table_->placed += static_cast<uint64_t>(made.placed);
	table_->decoded += static_cast<uint64_t>(made.copied);
	column->chunks[chunk] = std::move(made);
	column->ready[chunk].store(true, std::memory_order_release);
	return Status::OK();
}

Status Reading::Ready(struct hm_column *column, size_t chunk)
{
	if (column->ready[chunk].load(std::memory_order_acquire))
		return Status::OK();
	std::lock_guard<std::mutex> held(lock_);
	std::vector<size_t> places;
	Status result;

	/* Another thread may have been here meanwhile. */
	if (column->ready[chunk].load(std::memory_order_acquire))
		return Status::OK();
	for (size_t i = 0; i < columns_.size(); i++)
		if (columns_[i] && !columns_[i]->ready[chunk].load(std::memory_order_acquire))
			places.push_back(i);
	const GroupAt &at = table_->groups[groups_[chunk]];
	auto rows =
		Caught([&]() { return table_->sources[at.source]->RowsTold(at.in_source); });

	ARROW_RETURN_NOT_OK(table_->Located(groups_[chunk], {}, rows.status()));
	auto columns = Caught([&]() { return Read(chunk, places); });

	ARROW_RETURN_NOT_OK(table_->Located(groups_[chunk], {}, columns.status()));
	for (size_t i = 0; i < places.size(); i++) {
		struct hm_column *own = columns_[places[i]];
		Status status =
			Caught([&]() { return Take(own, chunk, *(*columns)[i], *rows); });

		if (own == column)
			result = table_->Located(groups_[chunk], { own->number }, status);
	}
	return result;
}

} /* namespace hetmap */
