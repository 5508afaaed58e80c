// SPDX-License-Identifier: MIT
/*
 * Arrow IPC files and streams.
 *
 * Record batches that are stored plainly, in this machine's byte order, are used where they lie.
 * All others are decoded by libarrow out of bytes that were read.
 *
 * A file is a stream between two magic words, with a footer. Both are read as streams, a message at
 * a time: libarrow's reader of files takes a header and its body by one read, and so would touch
 * the map.
 */
#include <algorithm>
#include <cinttypes>
#include <functional>

#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include "source.hh"

namespace hetmap
{

namespace
{

constexpr int64_t FILE_BEGIN = 8; /* "ARROW1" and two zeros: a stream is behind them */

bool IsBatch(const MessageAt &at)
{
	return at.header.type == arrow::ipc::MessageType::RECORD_BATCH;
}

Status Changed(const MessageAt &at)
{
	return Fail(-EBADMSG, "the message at byte %" PRId64 " has changed since the open",
		    at.offset);
}

/* Delivers the messages of a file that a record batch needs, in their order. */
class Selected : public arrow::ipc::MessageReader
{
      public:
	/* Bodies come by @input; headers are in no column. */
	Selected(std::shared_ptr<Disk> disk, std::shared_ptr<Input> input,
		 const std::vector<MessageAt> &messages, std::shared_ptr<arrow::Buffer> schema)
	    : heads_(std::move(disk), PoolRef(), nullptr), input_(std::move(input)),
	      messages_(messages), schema_(std::move(schema))
	{
	}
	/* The next record batch to deliver is message number @target. False: it is behind. */
	bool Aim(size_t target, size_t first_batch)
	{
		/* Nothing but record batches from here on. */
		if (target >= first_batch && next_ > first_batch)
			next_ = target;
		target_ = target;
		return next_ <= target;
	}
	Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override;

      private:
	Input heads_;
	std::shared_ptr<Input> input_;
	const std::vector<MessageAt> &messages_;
	std::shared_ptr<arrow::Buffer> schema_; /* in place of the first message */
	size_t next_ = 0, target_ = 0;
};

Result<std::unique_ptr<arrow::ipc::Message>> Selected::ReadNextMessage()
{
	std::shared_ptr<arrow::Buffer> body;
	int64_t prefix;

	while (next_ < messages_.size() && next_ < target_ &&
	       messages_[next_].header.type == arrow::ipc::MessageType::RECORD_BATCH)
		next_++;
	if (next_ >= messages_.size() || next_ > target_)
		return nullptr;
	const MessageAt &at = messages_[next_++];
	std::shared_ptr<arrow::Buffer> head = schema_;

	if (!schema_ || next_ > 1) {
		ARROW_ASSIGN_OR_RAISE(head, heads_.ReadAt(at.offset, at.head));
	}
	if (HeadLength(head->data(), head->size(), &prefix) != at.head)
		return Changed(at);
	if (at.header.type != arrow::ipc::MessageType::SCHEMA) {
		ARROW_ASSIGN_OR_RAISE(body, input_->Body(at.offset + at.head, at.header));
	}
	ARROW_ASSIGN_OR_RAISE(auto message, arrow::ipc::Message::Open(
						    arrow::SliceBuffer(head, prefix), body));
	ARROW_ASSIGN_OR_RAISE(Header now, HeaderOf(*message));
	/* A body that is compressed by now must not be decoded in the map. */
	if (!(now == at.header))
		return Changed(at);
	return message;
}

/* Finds the messages that a footer names: libarrow's reader of files asks for each. */
class Locator : public Input
{
      public:
	explicit Locator(std::shared_ptr<Disk> disk)
	    : Input(disk, PoolRef(), nullptr), disk_(disk)
	{
	}
	using Input::ReadAt;
	Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t n) override
	{
		uint8_t begin[8];
		int64_t prefix;
		MessageAt at;

		at.offset = position;
		if (!looking || n < 8 || position < 0 || n > disk_->size() - position)
			return Input::ReadAt(position, n);
		ARROW_RETURN_NOT_OK(disk_->Read(position, sizeof(begin), begin));
		at.head = HeadLength(begin, sizeof(begin), &prefix);
		if (at.head <= 0 || at.head > n)
			return Input::ReadAt(position, n);
		ARROW_ASSIGN_OR_RAISE(auto head, Input::ReadAt(position, at.head));
		ARROW_ASSIGN_OR_RAISE(at.header, ReadHeader(head));
		found.push_back(at);
		/* Its rows are not wanted now. */
		if (at.header.type == arrow::ipc::MessageType::RECORD_BATCH)
			return Fail(-ECANCELED, "a record batch was found");
		return Input::ReadAt(position, n);
	}

	bool looking = false;
	std::vector<MessageAt> found;

      private:
	std::shared_ptr<Disk> disk_;
};

class ArrowSource : public Source
{
      public:
	ArrowSource(std::shared_ptr<Disk> disk, bool stream) : stream_(stream)
	{
		disk_ = std::move(disk);
	}
	Status Begin(const OpenHow &how);

	uint32_t format() const override
	{
		return stream_ ? HM_TABLE_ARROW_STREAM : HM_TABLE_ARROW;
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return schema_;
	}
	int64_t groups() const override
	{
		return groups_;
	}
	Result<Group> Facts(int64_t group) override;
	Result<int64_t> Rows() override;
	Result<std::unique_ptr<Cursor>> Open(const Want &want) override;
	Result<Stored> Describe(int64_t group, int field) override;
	bool in_place() const override
	{
		return mapping_ && codec_ < 0;
	}
	std::string why() const override;

	const std::vector<MessageAt> &messages() const
	{
		return messages_;
	}
	/* The number of a group's message. */
	size_t message(int64_t group) const
	{
		return batches_[static_cast<size_t>(group)];
	}
	/* From this message on there are only record batches. */
	size_t only_batches() const
	{
		return only_batches_;
	}
	std::shared_ptr<Mapping> mapping() const
	{
		return mapping_;
	}
	/* The schema's message, where the file has none in its place; else NULL. */
	std::shared_ptr<arrow::Buffer> head() const
	{
		return head_;
	}

      private:
	Status BeginFile(const arrow::ipc::IpcReadOptions &options);
	Status BeginStream(const arrow::ipc::IpcReadOptions &options);
	Status Index(std::vector<MessageAt> messages);

	const bool stream_;
	bool swapped_ = false, read_ = false;
	int codec_ = -1; /* of the first record batch */
	int64_t groups_ = 0;
	std::shared_ptr<arrow::Schema> schema_;
	std::shared_ptr<Mapping> mapping_;
	std::shared_ptr<arrow::Buffer> head_;
	std::shared_ptr<Memory> memory_;

	size_t only_batches_ = 0;
	std::vector<MessageAt> messages_; /* a file's dictionaries are before its batches */
	std::vector<size_t> batches_;
	std::vector<int64_t> first_;
};

/* Reads the record batches of one source, whole or some of its fields. */
class ArrowCursor : public Cursor
{
      public:
	ArrowCursor(ArrowSource &source, const Want &want) : source_(source), want_(want)
	{
	}
	Status Begin();
	Result<Columns> Read(int64_t group, const std::vector<int> &fields) override;

      private:
	Result<std::shared_ptr<arrow::RecordBatch>> Batch(int64_t group);
	Status BeginReader();

	ArrowSource &source_;
	Want want_;
	bool placed_ = false; /* all fields are there, and none is decoded */
	arrow::ipc::IpcReadOptions options_;
	std::shared_ptr<Input> input_;
	Selected *selected_ = nullptr; /* of reader_, which owns it */
	std::shared_ptr<arrow::ipc::RecordBatchStreamReader> reader_;
	int64_t last_ = -1;
	std::shared_ptr<arrow::RecordBatch> batch_; /* number last_ */
};

Status ArrowSource::Begin(const OpenHow &how)
{
	auto options = arrow::ipc::IpcReadOptions::Defaults();

	memory_ = how.memory;
	options.use_threads = false;
	read_ = how.flags & HM_TABLE_READ;
	ARROW_RETURN_NOT_OK(stream_ ? BeginStream(options) : BeginFile(options));
	if (!swapped_ && !read_)
		mapping_ = disk_->Map();
	return Status::OK();
}

/*
 * A file is a stream as well, by Arrow's document. polars writes no schema of a stream, and readers
 * by the footer take such files: so does this one, where the messages are not those of the footer.
 */
Status ArrowSource::BeginFile(const arrow::ipc::IpcReadOptions &options)
{
	auto locator = std::make_shared<Locator>(disk_);

	ARROW_ASSIGN_OR_RAISE(auto reader,
			      arrow::ipc::RecordBatchFileReader::Open(locator, options));
	schema_ = reader->schema();
	groups_ = reader->num_record_batches();
	swapped_ = reader->stats().original_endianness != arrow::Endianness::Native;
	auto walked = Messages(*disk_, FILE_BEGIN);

	if (walked.ok() && !walked->empty() &&
	    walked->front().header.type == arrow::ipc::MessageType::SCHEMA &&
	    std::count_if(walked->begin(), walked->end(), IsBatch) == groups_)
		return Index(std::move(*walked));
	if (swapped_)
		return Fail(-EBADMSG, "the messages are not those of the footer");
	locator->looking = true;
	for (int i = 0; i < groups_; i++) {
		size_t before = locator->found.size();
		Status status = reader->ReadRecordBatch(i).status();

		if (locator->found.size() == before || !IsBatch(locator->found.back()))
			return status.ok() ?
				       Fail(-EBADMSG, "record batch %d is no message", i) :
				       status;
	}
	ARROW_ASSIGN_OR_RAISE(head_, arrow::ipc::SerializeSchema(*schema_));
	MessageAt first;

	first.head = head_->size();
	first.header.type = arrow::ipc::MessageType::SCHEMA;
	locator->found.insert(locator->found.begin(), first);
	return Index(std::move(locator->found));
}

Status ArrowSource::BeginStream(const arrow::ipc::IpcReadOptions &options)
{
	auto input = std::make_shared<Input>(disk_, PoolRef(), nullptr);

	ARROW_ASSIGN_OR_RAISE(auto walked, Messages(*disk_, 0));
	ARROW_RETURN_NOT_OK(Index(std::move(walked)));
	ARROW_ASSIGN_OR_RAISE(
		auto reader,
		arrow::ipc::RecordBatchStreamReader::Open(
			std::make_unique<Selected>(disk_, input, messages_, nullptr), options));
	schema_ = reader->schema();
	groups_ = static_cast<int64_t>(batches_.size());
	swapped_ = reader->stats().original_endianness != arrow::Endianness::Native;
	return Status::OK();
}

Status ArrowSource::Index(std::vector<MessageAt> messages)
{
	int64_t row = 0;

	messages_ = std::move(messages);
	/* In a file a dictionary may be behind a batch that uses it. */
	if (!stream_)
		std::stable_partition(messages_.begin(), messages_.end(), std::not_fn(IsBatch));
	for (size_t i = 0; i < messages_.size(); i++) {
		if (!IsBatch(messages_[i])) {
			only_batches_ = i + 1;
			continue;
		}
		if (messages_[i].header.rows > INT64_MAX - row)
			return Fail(-EBADMSG, "a record batch has %" PRId64 " rows",
				    messages_[i].header.rows);
		batches_.push_back(i);
		first_.push_back(row);
		row += messages_[i].header.rows;
	}
	first_.push_back(row);
	codec_ = batches_.empty() ? -1 : messages_[batches_[0]].header.codec;
	return Status::OK();
}

Result<Group> ArrowSource::Facts(int64_t group)
{
	Group facts;
	const MessageAt &at = messages_[message(group)];
	facts.first_row = first_[static_cast<size_t>(group)];
	facts.rows = at.header.rows;
	facts.stored = facts.plain = at.head + at.header.body;
	return facts;
}

Result<int64_t> ArrowSource::Rows()
{
	return first_.back();
}

std::string ArrowSource::why() const
{
	if (swapped_)
		return "other byte order: decoded";
	if (codec_ >= 0)
		return std::string("compressed by ") + CodecName(codec_) + ": decoded";
	if (read_)
		return "HM_TABLE_READ: read";
	if (!mapping_)
		return disk_->why() + ": read";
	return "stored plainly";
}

static void AddSizes(const arrow::ArrayData &data, Stored *stored)
{
	for (const auto &buffer : data.buffers)
		stored->stored += buffer ? buffer->size() : 0;
	for (const auto &child : data.child_data)
		AddSizes(*child, stored);
}

Result<Stored> ArrowSource::Describe(int64_t group, int field)
{
	Stored stored;
	Want want;

	stored.codec = CodecName(messages_[message(group)].header.codec);
	want.pool = PoolRef(Pool::Make(memory_));
	want.fields = { field };
	ARROW_ASSIGN_OR_RAISE(auto cursor, Open(want));
	ARROW_ASSIGN_OR_RAISE(auto columns, cursor->Read(group, want.fields));
	for (const auto &chunk : columns[0]->chunks()) {
		stored.values += chunk->length();
		stored.nulls = chunk->data()->null_count;
		AddSizes(*chunk->data(), &stored);
	}
	stored.plain = stored.stored;
	stored.in_place = in_place();
	stored.why = why();
	return stored;
}

Result<std::unique_ptr<Cursor>> ArrowSource::Open(const Want &want)
{
	auto cursor = std::make_unique<ArrowCursor>(*this, want);

	ARROW_RETURN_NOT_OK(cursor->Begin());
	return cursor;
}

Status ArrowCursor::Begin()
{
	placed_ = want_.in_place && source_.in_place();
	options_ = arrow::ipc::IpcReadOptions::Defaults();
	options_.memory_pool = want_.pool.get();
	options_.use_threads = want_.threads > 1;
	/* With a selection libarrow copies what it selects. */
	if (!placed_ &&
	    static_cast<int>(want_.fields.size()) < source_.schema()->num_fields()) {
		options_.included_fields = want_.fields;
		std::sort(options_.included_fields.begin(), options_.included_fields.end());
		options_.included_fields.erase(std::unique(options_.included_fields.begin(),
							   options_.included_fields.end()),
					       options_.included_fields.end());
	}
	input_ = std::make_shared<Input>(source_.disk(), want_.pool,
					 placed_ ? source_.mapping() : nullptr);
	return BeginReader();
}

Status ArrowCursor::BeginReader()
{
	auto selected = std::make_unique<Selected>(source_.disk(), input_, source_.messages(),
						   source_.head());

	selected_ = selected.get();
	return arrow::ipc::RecordBatchStreamReader::Open(std::move(selected), options_)
		.Value(&reader_);
}

Result<std::shared_ptr<arrow::RecordBatch>> ArrowCursor::Batch(int64_t group)
{
	std::shared_ptr<arrow::RecordBatch> batch;

	if (group == last_)
		return batch_;
	batch_ = nullptr;
	last_ = -1;
	size_t target = source_.message(group);

	/* A stream may have replaced dictionaries since. */
	if (!selected_->Aim(target, source_.only_batches())) {
		ARROW_RETURN_NOT_OK(BeginReader());
		selected_->Aim(target, source_.only_batches());
	}
	ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
	if (!batch)
		return Fail(-EBADMSG, "a record batch is missing");
	batch_ = batch;
	last_ = group;
	return batch;
}

Result<Columns> ArrowCursor::Read(int64_t group, const std::vector<int> &fields)
{
	ARROW_ASSIGN_OR_RAISE(auto batch, Batch(group));
	std::vector<int> numbers;

	for (int field : fields) {
		const auto &included = options_.included_fields;
		auto at = std::lower_bound(included.begin(), included.end(), field);

		numbers.push_back(included.empty() ? field :
						     static_cast<int>(at - included.begin()));
	}
	Columns columns = ColumnsOf(*batch, numbers);

	/* What is not in place must not live longer than its columns. */
	if (!placed_) {
		batch_ = nullptr;
		last_ = -1;
	}
	return columns;
}

Result<std::unique_ptr<Source>> Begun(std::shared_ptr<Disk> disk, const OpenHow &how,
				      bool stream)
{
	auto source = std::make_unique<ArrowSource>(disk, stream);

	ARROW_RETURN_NOT_OK(At(disk->path(), Caught([&]() { return source->Begin(how); })));
	return source;
}

} /* namespace */

Result<std::unique_ptr<Source>> OpenArrow(std::shared_ptr<Disk> disk, const OpenHow &how)
{
	return Begun(std::move(disk), how, false);
}

Result<std::unique_ptr<Source>> OpenStream(std::shared_ptr<Disk> disk, const OpenHow &how)
{
	return Begun(std::move(disk), how, true);
}

} /* namespace hetmap */
