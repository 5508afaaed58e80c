// SPDX-License-Identifier: MIT
/* Loading: threads share the row groups, and the columns where a format decodes them apart. */
#include <algorithm>
#include <mutex>

#include "check.hh"
#include "table.hh"

using namespace hetmap;

namespace
{

/* What the threads of a load have in common. */
struct Load {
	const struct hm_table &table;
	const std::vector<uint32_t> &numbers;
	const std::vector<size_t> &groups;
	const PoolRef &pool;
	const bool in_place;
	std::vector<Piece> pieces;
	std::atomic<size_t> next{ 0 };
	std::atomic<bool> failed{ false };
	/* chunks[column][place of the group]: each is written by one thread. */
	std::vector<std::vector<std::deque<Chunk>>> chunks;

	std::mutex lock; /* protects the rest */
	Status status;
	/* Made before it is needed: then there may be no memory for it. */
	Status no_memory = Status::OutOfMemory("not enough memory is available");
};

/* A thread's way into the file that it reads now. */
struct Way {
	uint32_t source = UINT32_MAX;
	std::unique_ptr<Cursor> cursor;
};

void MakePieces(Load *load)
{
	for (size_t place = 0; place < load->groups.size(); place++) {
		const GroupAt &at = load->table.groups[load->groups[place]];
		bool apart = load->table.sources[at.source]->ByField();
		Piece piece = { place, {} };

		for (size_t i = 0; i < load->numbers.size(); i++) {
			piece.columns.push_back(i);
			if (apart) {
				load->pieces.push_back(piece);
				piece.columns.clear();
			}
		}
		if (!piece.columns.empty())
			load->pieces.push_back(piece);
	}
}

std::vector<uint32_t> NumbersOf(const Load &load, const Piece &piece)
{
	std::vector<uint32_t> numbers;

	for (size_t column : piece.columns)
		numbers.push_back(load.numbers[column]);
	return numbers;
}

Status OpenWay(const Load &load, uint32_t source, uint32_t threads, Way *way)
{
	Want want;

	if (way->source == source)
		return Status::OK();
	way->cursor = nullptr;
	way->source = UINT32_MAX;
	want.pool = load.pool;
	want.in_place = load.in_place;
	want.flags = load.table.flags;
	want.threads = threads;
	want.fields = load.table.FieldsOf(source, load.numbers);
	ARROW_ASSIGN_OR_RAISE(way->cursor, load.table.sources[source]->Open(want));
	way->source = source;
	return Status::OK();
}

/* The chunks of a column of a group, @rows together if the group says so. */
Status Take(const arrow::DataType &type, const arrow::ChunkedArray &column, size_t group,
	    int64_t rows, const SettleHow &how, std::deque<Chunk> *to)
{
	ARROW_RETURN_NOT_OK(CheckType(type, *column.type()));
	ARROW_RETURN_NOT_OK(CheckRows(rows, column.length()));
	for (const auto &array : column.chunks()) {
		to->emplace_back();
		to->back().group = group;
		ARROW_RETURN_NOT_OK(Settle(array->data(), how, &to->back()));
	}
	return Status::OK();
}

Status Do(Load *load, const Piece &piece, uint32_t threads, Way *way)
{
	const GroupAt &at = load->table.groups[load->groups[piece.group]];
	SettleHow how = { load->table.sources[at.source].get(), load->pool, load->table.flags };

	/* Writers follow each offset and index. libparquet and the reader of CSV make their own. */
	if (!load->in_place && how.source->format() != HM_TABLE_PARQUET &&
	    how.source->format() != HM_TABLE_CSV)
		how.flags |= HM_TABLE_CHECK;

	ARROW_RETURN_NOT_OK(OpenWay(*load, at.source, threads, way));
	ARROW_ASSIGN_OR_RAISE(
		auto columns,
		way->cursor->Read(at.in_source,
				  load->table.FieldsOf(at.source, NumbersOf(*load, piece))));
	ARROW_ASSIGN_OR_RAISE(int64_t rows,
			      load->table.sources[at.source]->RowsTold(at.in_source));
	for (size_t i = 0; i < piece.columns.size(); i++) {
		auto &to = load->chunks[piece.columns[i]][piece.group];
		int number = static_cast<int>(load->numbers[piece.columns[i]]);

		Status status = Take(*load->table.schema->field(number)->type(), *columns[i],
				     load->groups[piece.group], rows, how, &to);

		if (!status.ok())
			return load->table.Located(load->groups[piece.group],
						   { load->numbers[piece.columns[i]] }, status);
		columns[i] = nullptr;
	}
	return Status::OK();
}

/* The first failure is the load's. */
void Tell(Load *load, const Piece &piece, const Status &status)
{
	if (status.ok())
		return;
	std::lock_guard<std::mutex> held(load->lock);

	load->failed = true;
	if (load->status.ok())
		load->status = load->table.Located(load->groups[piece.group],
						   NumbersOf(*load, piece), status);
}

void Work(Load *load, uint32_t threads) noexcept
{
	Way way;

	while (!load->failed.load(std::memory_order_relaxed)) {
		size_t i = load->next.fetch_add(1, std::memory_order_relaxed);

		if (i >= load->pieces.size())
			break;
		try {
			const Piece &piece = load->pieces[i];

			Tell(load, piece,
			     Caught([&]() { return Do(load, piece, threads, &way); }));
		} catch (...) {
			std::lock_guard<std::mutex> held(load->lock);

			if (load->status.ok())
				load->status = std::move(load->no_memory);
			load->failed = true;
		}
	}
	Quietly([&]() { way.cursor = nullptr; });
}

void Run(Load *load)
{
	size_t n = std::min<size_t>(load->table.threads, load->pieces.size());
	std::vector<std::thread> threads;

	/* One piece that has all columns is shared by libarrow's own threads. */
	if (n <= 1) {
		Work(load, load->table.threads);
		return;
	}
	{
		SignalsBlocked blocked;

		for (size_t i = 1; i < n; i++) {
			try {
				threads.emplace_back(Work, load, 1);
			} catch (const std::system_error &) {
				break; /* those that are there do the work */
			}
		}
	}
	Work(load, 1);
	for (auto &thread : threads)
		thread.join();
}

} /* namespace */

hm_table::~hm_table() = default;

std::vector<size_t> hm_table::Kept() const
{
	std::vector<size_t> kept;

	for (size_t i = 0; i < groups.size(); i++)
		if (!groups[i].skipped)
			kept.push_back(i);
	return kept;
}

bool hm_table::OneByOne() const
{
	return std::all_of(sources.begin(), sources.end(),
			   [](const auto &source) { return source->OneByOne(); });
}

PoolRef hm_table::NewPool() const
{
	return PoolRef(Pool::Make(memory));
}

std::string hm_table::Where(size_t group, const std::vector<uint32_t> &numbers) const
{
	const GroupAt &at = groups[group];
	std::string where = sources[at.source]->where();

	/* CSV has no groups. */
	if (sources[at.source]->format() != HM_TABLE_CSV)
		where += (where.empty() ? "group " : ": row group ") +
			 std::to_string(at.in_source);
	if (numbers.size() == 1)
		where += ", column '" + schema->field(static_cast<int>(numbers[0]))->name() +
			 "'";
	return where;
}

Status hm_table::Located(size_t group, const std::vector<uint32_t> &numbers,
			 const Status &status) const
{
	/* Which column it is may be known already. */
	if (status.ok() || TextOf(status).find(Where(group, {})) == 0)
		return status;
	/* Rows are counted from the first group on, and another one may be to blame. */
	if (TextOf(status).find("row group ") == 0)
		return At(sources[groups[group].source]->where(), status);
	return At(Where(group, numbers), status);
}

std::vector<int> hm_table::FieldsOf(uint32_t source, const std::vector<uint32_t> &numbers) const
{
	std::vector<int> own;

	for (uint32_t number : numbers)
		own.push_back(fields[source][number]);
	return own;
}

Status hm_table::Load(const std::vector<uint32_t> &numbers, const std::vector<size_t> &wanted,
		      const PoolRef &pool, bool in_place, std::vector<std::deque<Chunk>> *ret)
{
	struct Load load = { *this, numbers, wanted, pool, in_place, {}, {}, {}, {}, {}, {} };

	MakePieces(&load);
	load.chunks.resize(numbers.size());
	for (auto &column : load.chunks)
		column.resize(wanted.size());
	Run(&load);
	ARROW_RETURN_NOT_OK(load.status);
	for (auto &column : load.chunks) {
		std::deque<Chunk> all;
		uint64_t row = 0;

		for (auto &group : column) {
			for (auto &chunk : group) {
				chunk.first_row = row;
				row += static_cast<uint64_t>(chunk.data->length);
				placed += static_cast<uint64_t>(chunk.placed);
				decoded += static_cast<uint64_t>(chunk.copied);
				all.push_back(std::move(chunk));
			}
		}
		ret->push_back(std::move(all));
	}
	return Status::OK();
}
