// SPDX-License-Identifier: MIT
/* Batches: the rows of a table through a window of memory. */
#include <algorithm>
#include <cinttypes>
#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include <arrow/array/util.h>
#include <arrow/c/bridge.h>

#include "check.hh"
#include "table.hh"

using namespace hetmap;

namespace
{

constexpr int64_t WINDOW_LEAST = 64 << 10;
constexpr int64_t ROWS_MOST = 1 << 20;
constexpr int64_t ROWS_LEAST = 64; /* with fewer rows a batch takes hardly less */
constexpr int64_t WINDOW_ROWS = 8; /* part of the window that the rows of a batch should have */
constexpr int64_t READ_PART = 16;  /* part of the window for bytes that are read ahead */

/* A batch that is ready. */
struct Made {
	size_t group = 0;
	int64_t rows = 0; /* 0: the table has no more */
	std::deque<Chunk> chunks;
	struct ArrowArray array = {};

	Made() = default;
	Made(const Made &) = delete;
	Made &operator=(const Made &) = delete;
	~Made()
	{
		if (array.release)
			array.release(&array);
	}
};

/* How batches are made: less of each when the window turns out to be too small. */
struct Effort {
	uint32_t threads;
	int64_t rows;
};

/* Makes one batch after another, in one thread. */
class Maker
{
      public:
	Maker(struct hm_table *table, std::shared_ptr<Memory> memory, int64_t window,
	      const Effort &effort)
	    : table_(table), groups_(table->Kept()), memory_(std::move(memory)),
	      window_(window), effort_(effort)
	{
		for (int i = 0; i < table->schema->num_fields(); i++)
			numbers_.push_back(static_cast<uint32_t>(i));
	}
	/* Begins at a row of a group. */
	void Aim(size_t place, int64_t row)
	{
		End();
		place_ = place;
		done_ = row;
		skip_ = row;
	}
	/* A failure leaves a maker that may only be aimed. */
	Status Next(Made *ret);
	size_t place() const
	{
		return place_;
	}
	/* Rows of the group that were made so far. */
	int64_t done() const
	{
		return done_;
	}
	Effort &effort()
	{
		return effort_;
	}
	bool Divides() const
	{
		return table_->sources[Present().source]->Divides();
	}
	size_t group() const
	{
		return groups_[place_];
	}

      private:
	const GroupAt &Present() const
	{
		return table_->groups[groups_[place_]];
	}
	Status OpenGroup();
	Status Ready(const arrow::RecordBatch &batch, Made *ret);
	/* The reader goes before its cursor, and the pool after both. */
	void End()
	{
		reader_ = nullptr;
		cursor_ = nullptr;
		source_ = UINT32_MAX;
	}

	struct hm_table *table_;
	const std::vector<size_t> groups_;
	std::vector<uint32_t> numbers_;
	std::vector<int> places_; /* of the columns in what is read: a field is read once */
	std::shared_ptr<Memory> memory_;
	const int64_t window_;
	Effort effort_;

	PoolRef pool_;
	uint32_t source_ = UINT32_MAX;
	std::unique_ptr<Cursor> cursor_;
	std::shared_ptr<arrow::RecordBatchReader> reader_;
	size_t place_ = 0;
	int64_t done_ = 0, skip_ = 0; /* rows of the group: made, and still to be left out */
};

/* The fields without those that came before, and where each is among them. */
static std::vector<int> Once(const std::vector<int> &fields, std::vector<int> *ret_places)
{
	std::unordered_map<int, int> places;
	std::vector<int> once;

	ret_places->clear();
	for (int field : fields) {
		auto [at, fresh] = places.emplace(field, static_cast<int>(once.size()));

		if (fresh)
			once.push_back(field);
		ret_places->push_back(at->second);
	}
	return once;
}

Status Maker::OpenGroup()
{
	uint32_t number = Present().source;
	Source &source = *table_->sources[number];
	auto fields = Once(table_->FieldsOf(number, numbers_), &places_);

	if (source_ != number) {
		Want want;

		End();
		pool_ = PoolRef(Pool::Make(memory_));
		want.pool = pool_;
		want.flags = table_->flags;
		want.threads = effort_.threads;
		want.fields = fields;
		want.buffer = std::max<int64_t>(
			1, window_ / READ_PART / std::max<int64_t>(1, int64_t(fields.size())));
		ARROW_ASSIGN_OR_RAISE(cursor_, source.Open(want));
		source_ = number;
	}
	return cursor_->Stream(Present().in_source, fields, effort_.rows).Value(&reader_);
}

Status Maker::Ready(const arrow::RecordBatch &batch, Made *ret)
{
	SettleHow how = { table_->sources[Present().source].get(), pool_, table_->flags };
	std::vector<std::shared_ptr<arrow::Array>> columns;

	ret->group = group();
	ret->rows = batch.num_rows();
	for (size_t i = 0; i < numbers_.size(); i++) {
		auto column = batch.column_data(places_[i]);
		Status status = CheckType(*table_->schema->field(static_cast<int>(i))->type(),
					  *column->type);

		ret->chunks.emplace_back();
		Chunk &chunk = ret->chunks.back();

		chunk.group = group();
		if (status.ok())
			status = Settle(column, how, &chunk);
		ARROW_RETURN_NOT_OK(At(table_->Where(group(), { numbers_[i] }), status));
		columns.push_back(arrow::MakeArray(chunk.data));
	}
	return arrow::ExportRecordBatch(
		*arrow::RecordBatch::Make(table_->schema, batch.num_rows(), std::move(columns)),
		&ret->array);
}

Status Maker::Next(Made *ret)
{
	std::shared_ptr<arrow::RecordBatch> batch;

	while (place_ < groups_.size()) {
		if (!reader_)
			ARROW_RETURN_NOT_OK(OpenGroup());
		ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
		if (!batch) {
			ARROW_ASSIGN_OR_RAISE(int64_t told,
					      table_->sources[Present().source]->RowsTold(
						      Present().in_source));

			/* Those to be left out were handed out before. */
			if (!numbers_.empty())
				ARROW_RETURN_NOT_OK(CheckRows(told, done_));
			reader_ = nullptr;
			place_++;
			done_ = skip_ = 0;
			continue;
		}
		int64_t left_out = std::min(skip_, batch->num_rows());

		skip_ -= left_out;
		if (left_out == batch->num_rows())
			continue;
		batch = batch->Slice(left_out);
		ARROW_RETURN_NOT_OK(Ready(*batch, ret));
		done_ += batch->num_rows();
		return Status::OK();
	}
	return Status::OK();
}

/* Rows that suit the window, by what the first group says about its rows. */
int64_t RowsFor(const struct hm_table &table, int64_t window, uint64_t asked)
{
	int64_t most = asked && asked < ROWS_MOST ? static_cast<int64_t>(asked) : ROWS_MOST;

	for (const auto &at : table.groups) {
		auto facts =
			Caught([&]() { return table.sources[at.source]->Facts(at.in_source); });

		if (at.skipped || !facts.ok() || facts->rows <= 0)
			continue;
		int64_t width = std::max<int64_t>(1, facts->plain / facts->rows);

		return std::clamp(window / WINDOW_ROWS / width, std::min(ROWS_LEAST, most),
				  most);
	}
	return most;
}

} /* namespace */

struct hm_table_batches : Counted {
	~hm_table_batches();
	Status Begin(struct hm_table *given, const struct hm_table_batches_desc &desc);
	Status Next();
	void Work();
	Status Make(std::unique_ptr<Made> *ret);
	Status Least(const Status &refused);

	struct hm_table *table = nullptr;
	std::shared_ptr<Memory> memory;
	std::unique_ptr<Maker> maker;
	int64_t window = 0;

	std::mutex calls; /* one call at a time; protects what is below */
	std::unique_ptr<Made> present;
	uint64_t handed = 0, next_row = 0, first_row = 0;
	bool over = false;
	Status failure;
	std::atomic<int64_t> rows{ 0 }; /* of a batch, at most */

	std::mutex lock; /* of the thread that is ahead; protects the rest */
	std::condition_variable changed;
	bool ahead = false, wanted = false, ready = false, ending = false;
	std::unique_ptr<Made> coming;
	Status coming_status;
	/* Made before it is needed: then there may be no memory for it. */
	Status no_memory = Status::OutOfMemory("not enough memory is available");
	std::thread thread;
};

Status hm_table_batches::Begin(struct hm_table *given, const struct hm_table_batches_desc &desc)
{
	Effort effort;

	table = hm_table_ref(given);
	window = static_cast<int64_t>(desc.window);
	ahead = desc.ahead;
	effort.threads = table->threads;
	effort.rows = RowsFor(*table, ahead ? window / 2 : window, desc.rows);
	ARROW_ASSIGN_OR_RAISE(memory, table->memory->Beside(window));
	maker = std::make_unique<Maker>(table, memory, window, effort);
	rows = effort.rows;
	if (!ahead)
		return Status::OK();
	SignalsBlocked blocked;

	wanted = true;
	try {
		thread = std::thread([this]() { Work(); });
	} catch (const std::system_error &) {
		return Fail(-EAGAIN, "no thread could be started to be ahead");
	}
	return Status::OK();
}

hm_table_batches::~hm_table_batches()
{
	if (thread.joinable()) {
		{
			std::lock_guard<std::mutex> held(lock);

			ending = true;
		}
		changed.notify_all();
		thread.join();
	}
	coming = nullptr;
	present = nullptr;
	maker = nullptr;
	hm_table_unref(table);
}

/*
 * Where the window is too small: the same batch without any limit but the table's.
 * Its peak is the window that works.
 */
Status hm_table_batches::Least(const Status &refused)
{
	ARROW_ASSIGN_OR_RAISE(auto beside, table->memory->Beside(table->memory->limit()));
	std::unique_ptr<Made> held, made;
	Maker trial(table, beside, INT64_MAX, maker->effort());

	/* A batch of the group before may be with the caller. */
	trial.Aim(maker->place() - (ahead && maker->place()), 0);
	do {
		made = std::make_unique<Made>();
		ARROW_RETURN_NOT_OK(Caught([&]() { return trial.Next(made.get()); }));
		if (!ahead)
			made = nullptr;
		held = std::move(made);
	} while (trial.place() < maker->place() ||
		 (trial.place() == maker->place() && trial.done() <= maker->done()));
	int64_t needed = beside->used.peak();

	return Fail(-ENOSPC,
		    "a window of %" PRId64 " bytes is too small for a batch of %" PRId64
		    " rows: the least that works is %" PRId64 " (%s)",
		    window, maker->effort().rows, std::max(needed, window + 1),
		    TextOf(refused).c_str());
}

/* A batch, with less effort at a time where the window is too small. */
Status hm_table_batches::Make(std::unique_ptr<Made> *ret)
{
	for (;;) {
		auto made = std::make_unique<Made>();
		size_t place = maker->place();
		int64_t row = maker->done();
		Status status = Caught([&]() { return maker->Next(made.get()); });

		if (status.ok()) {
			rows = maker->effort().rows;
			*ret = std::move(made);
			return status;
		}
		made = nullptr;
		if (ErrnoOf(status) != -ENOSPC) {
			return table->Located(maker->group(), {}, status);
		}
		Effort &effort = maker->effort();
		bool again = false;

		/* The group may be another one by now: those before it had no rows. */
		if (maker->place() != place)
			row = 0;
		place = maker->place();
		if (effort.threads > 1) {
			effort.threads = 1;
			again = true;
		} else if (effort.rows > ROWS_LEAST && maker->Divides()) {
			effort.rows = std::max(ROWS_LEAST, effort.rows / 2);
			again = true;
		}
		maker->Aim(place, row);
		if (!again)
			return At(table->Where(maker->group(), {}), Least(status));
	}
}

/* The thread that is ahead: it makes a batch while the caller has the one before. */
void hm_table_batches::Work()
{
	std::unique_lock<std::mutex> held(lock);

	for (;;) {
		changed.wait(held, [this]() { return ending || wanted; });
		if (ending)
			return;
		wanted = false;
		held.unlock();
		std::unique_ptr<Made> made;
		Status status;
		bool answered = false;

		Quietly([&]() {
			status = Make(&made);
			answered = true;
		});
		held.lock();
		if (!answered) {
			status = std::move(no_memory);
			made = nullptr;
		}
		coming = std::move(made);
		coming_status = std::move(status);
		ready = true;
		changed.notify_all();
	}
}

Status hm_table_batches::Next()
{
	std::unique_ptr<Made> made;
	Status status;

	ARROW_RETURN_NOT_OK(failure);
	if (over)
		return Status::OK();
	if (ahead) {
		std::unique_lock<std::mutex> held(lock);

		changed.wait(held, [this]() { return ready; });
		status = coming_status;
		made = std::move(coming);
		present = nullptr;
		ready = false;
		wanted = status.ok() && made->rows;
		changed.notify_all();
	} else {
		present = nullptr;
		status = Make(&made);
	}
	if (!status.ok()) {
		failure = status;
		return status;
	}
	over = !made->rows;
	if (over)
		return Status::OK();
	present = std::move(made);
	first_row = next_row;
	next_row += static_cast<uint64_t>(present->rows);
	handed++;
	for (const auto &chunk : present->chunks) {
		table->placed += static_cast<uint64_t>(chunk.placed);
		table->decoded += static_cast<uint64_t>(chunk.copied);
	}
	return Status::OK();
}

int hm_table_batches_create(struct hm_table *table, const struct hm_table_batches_desc *given,
			    struct hm_table_batches **ret_batches)
{
	return Door([&]() -> Status {
		struct hm_table_batches_desc desc;

		if (!table || !given || !ret_batches)
			return Fail(-EINVAL,
				    "batches need a table, a description, and a place");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_RETURN_NOT_OK(TakeDesc(given, &desc, sizeof(desc)));
		if (desc.flags || desc.reserved || desc.ahead > 1 ||
		    desc.window < static_cast<uint64_t>(WINDOW_LEAST) ||
		    desc.window > INT64_MAX)
			return Fail(-EINVAL,
				    "a window of %" PRIu64
				    " bytes with %u batches ahead: at least %" PRId64
				    ", with 1 at most, and no flags",
				    desc.window, desc.ahead, WINDOW_LEAST);
		auto batches = std::make_unique<struct hm_table_batches>();

		ARROW_RETURN_NOT_OK(batches->Begin(table, desc));
		*ret_batches = batches.release();
		return Status::OK();
	});
}

int hm_table_batches_next(struct hm_table_batches *batches, struct hm_table_batch *ret_batch)
{
	return Door([&]() -> Status {
		struct hm_table_batch info = {};

		if (!batches || !ret_batch)
			return Fail(-EINVAL, "a batch needs its batches, and a place");
		ARROW_RETURN_NOT_OK(batches->Owned());
		if (ret_batch->struct_size > sizeof(info))
			return GiveInfo(ret_batch, &info, sizeof(info));
		std::lock_guard<std::mutex> held(batches->calls);

		ARROW_RETURN_NOT_OK(batches->Next());
		if (batches->present) {
			const Made &made = *batches->present;

			info.file = batches->table->groups[made.group].source;
			info.group = made.group;
			info.number = batches->handed - 1;
			info.first_row = batches->first_row;
			info.rows = static_cast<uint64_t>(made.rows);
			for (const auto &chunk : made.chunks)
				info.bytes += static_cast<uint64_t>(chunk.copied);
			info.array = &made.array;
		}
		return GiveInfo(ret_batch, &info, sizeof(info));
	});
}

int hm_table_batches_chunk(struct hm_table_batches *batches, uint32_t column,
			   struct hm_table_chunk *ret_chunk)
{
	return Door([&]() -> Status {
		struct hm_table_chunk info = {};

		if (!batches || !ret_chunk)
			return Fail(-EINVAL, "a chunk needs its batches, and a place");
		ARROW_RETURN_NOT_OK(batches->Owned());
		std::lock_guard<std::mutex> held(batches->calls);

		if (!batches->present || column >= batches->present->chunks.size())
			return Fail(-ERANGE, "column %u of %s", column,
				    batches->present ? "a batch that has fewer" : "no batch");
		batches->present->chunks[column].Describe(&info);
		return GiveInfo(ret_chunk, &info, sizeof(info));
	});
}

int hm_table_batches_query(struct hm_table_batches *batches,
			   struct hm_table_batches_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_batches_info info = {};

		if (!batches || !ret_info)
			return Fail(-EINVAL, "a query needs its batches, and a place");
		ARROW_RETURN_NOT_OK(batches->Owned());
		std::lock_guard<std::mutex> held(batches->calls);

		info.window = static_cast<uint64_t>(batches->window);
		info.rows = static_cast<uint64_t>(batches->rows.load());
		info.batches = batches->handed;
		info.peak = info.least = static_cast<uint64_t>(batches->memory->used.peak());
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

struct hm_table_batches *hm_table_batches_ref(struct hm_table_batches *batches)
{
	if (batches)
		batches->Hold();
	return batches;
}

void hm_table_batches_unref(struct hm_table_batches *batches)
{
	/* A child has no thread to end: what it inherited goes with it. */
	if (batches && batches->Drop() && batches->Owned().ok())
		Quietly([&]() { delete batches; });
}
