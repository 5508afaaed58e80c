// SPDX-License-Identifier: MIT
/* Reading record batches of Arrow IPC files and streams: libarrow gets the messages it needs. */
#include "arrow_file.hh"

#include <algorithm>

#include <arrow/ipc/reader.h>

namespace hetmap
{

namespace
{

/* Delivers the messages of a file that a record batch needs, in their order. */
class Selected : public arrow::ipc::MessageReader
{
      public:
	/* Bodies come by @input; headers are in no column. */
	Selected(const ArrowSource &source, std::shared_ptr<Input> input)
	    : heads_(source.disk(), PoolRef(), nullptr), input_(std::move(input)),
	      source_(source), schema_(source.head())
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
	const ArrowSource &source_;
	std::shared_ptr<arrow::Buffer> schema_; /* in place of the first message */
	size_t next_ = 0, target_ = 0;
};

Result<std::unique_ptr<arrow::ipc::Message>> Selected::ReadNextMessage()
{
	std::shared_ptr<arrow::Buffer> body;
	int64_t prefix;

	while (next_ < source_.messages() && next_ < target_ && source_.IsBatch(next_))
		next_++;
	if (next_ >= source_.messages() || next_ > target_)
		return nullptr;
	ARROW_ASSIGN_OR_RAISE(const MessageAt at, source_.Message(next_++));
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
	Status CheckSchema();

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
	auto selected = std::make_unique<Selected>(source_, input_);

	selected_ = selected.get();
	ARROW_RETURN_NOT_OK(
		arrow::ipc::RecordBatchStreamReader::Open(std::move(selected), options_)
			.Value(&reader_));
	return CheckSchema();
}

/* A file has its schema twice: before the record batches, and in its footer. */
Status ArrowCursor::CheckSchema()
{
	arrow::FieldVector expected;

	for (int i = 0; i < source_.schema()->num_fields(); i++)
		if (options_.included_fields.empty() ||
		    std::binary_search(options_.included_fields.begin(),
				       options_.included_fields.end(), i))
			expected.push_back(source_.schema()->field(i));
	if (!arrow::Schema(expected).Equals(*reader_->schema(), false))
		return Fail(-EBADMSG,
			    "the schema before the record batches (%d fields) is not "
			    "that of the footer (%zu): the file is damaged",
			    reader_->schema()->num_fields(), expected.size());
	return Status::OK();
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

} /* namespace */

Result<std::unique_ptr<Cursor>> OpenArrowCursor(ArrowSource &source, const Want &want)
{
	auto cursor = std::make_unique<ArrowCursor>(source, want);

	ARROW_RETURN_NOT_OK(cursor->Begin());
	return cursor;
}

Result<std::shared_ptr<arrow::ipc::RecordBatchStreamReader>>
ReadSchema(const ArrowSource &source, const arrow::ipc::IpcReadOptions &options)
{
	auto input = std::make_shared<Input>(source.disk(), PoolRef(), nullptr);

	return arrow::ipc::RecordBatchStreamReader::Open(
		std::make_unique<Selected>(source, input), options);
}

} /* namespace hetmap */
