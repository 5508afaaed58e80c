// SPDX-License-Identifier: MIT
/*
 * Arrow IPC files and streams.
 *
 * Record batches that are stored plainly, in this machine's byte order, are used where they lie.
 * All others are decoded by libarrow out of bytes that were read.
 *
 * A file is a stream between two magic words, with a footer that has the places of all messages.
 * Opening one reads the footer and the header of the first batch; the other headers are read when
 * their batches are asked for. libarrow's reader of files has no part in that: it takes a header
 * and its body by one read, and so would touch the map. A stream has no footer: all headers are
 * read.
 */
#include "arrow_file.hh"

#include <algorithm>
#include <cinttypes>
#include <functional>

#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/future.h>

namespace hetmap
{

namespace
{

constexpr int64_t FILE_BEGIN = 8; /* "ARROW1" and two zeros: a stream is behind them */

using arrow::ipc::MessageType;

/* Keeps what libarrow read last by one call: the footer, which it then checks. */
class Watched : public Input
{
      public:
	explicit Watched(std::shared_ptr<Disk> disk)
	    : Input(std::move(disk), PoolRef(), nullptr)
	{
	}
	using Input::ReadAt;
	/* Other threads would take longer to start than these bytes take to be read. */
	arrow::Future<std::shared_ptr<arrow::Buffer>>
	ReadAsync(const arrow::io::IOContext &, int64_t position, int64_t n) override
	{
		return ReadAt(position, n);
	}
	Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t n) override
	{
		ARROW_ASSIGN_OR_RAISE(last, Input::ReadAt(position, n));
		return last;
	}

	std::shared_ptr<arrow::Buffer> last;
};

/* The messages that a footer names, with their types and places only. */
std::vector<MessageAt> Named(const Places &places)
{
	std::vector<MessageAt> messages;
	MessageAt at;

	at.known = false;
	at.header.type = MessageType::DICTIONARY_BATCH;
	for (int64_t offset : places.dictionaries) {
		at.offset = offset;
		messages.push_back(at);
	}
	at.header.type = MessageType::RECORD_BATCH;
	for (int64_t offset : places.batches) {
		at.offset = offset;
		messages.push_back(at);
	}
	return messages;
}

} /* namespace */

Status Changed(const MessageAt &at)
{
	return Fail(-EBADMSG, "the message at byte %" PRId64 " has changed since the open",
		    at.offset);
}

Status ArrowSource::Begin(const OpenHow &how)
{
	auto options = arrow::ipc::IpcReadOptions::Defaults();

	memory_ = how.memory;
	options.use_threads = false;
	read_ = how.flags & HM_TABLE_READ;
	ARROW_RETURN_NOT_OK(stream_ ? BeginStream(options) : BeginFile(options));
	if (!batches_.empty()) {
		auto first = Message(batches_[0]);

		ARROW_RETURN_NOT_OK(At("row group 0", first.status()));
		codec_ = first->header.codec;
	}
	if (!swapped_ && !read_)
		mapping_ = disk_->Map();
	return Status::OK();
}

/*
 * A file is a stream as well, by Arrow's document. polars writes no schema of a stream, and readers
 * by the footer take such files: so does this one.
 */
Status ArrowSource::BeginFile(const arrow::ipc::IpcReadOptions &options)
{
	auto input = std::make_shared<Watched>(disk_);

	ARROW_ASSIGN_OR_RAISE(auto reader,
			      arrow::ipc::RecordBatchFileReader::Open(input, options));
	schema_ = reader->schema();
	swapped_ = reader->stats().original_endianness != arrow::Endianness::Native;
	ARROW_ASSIGN_OR_RAISE(auto places, PlacesOf(input->last));
	if (static_cast<int64_t>(places.batches.size()) != reader->num_record_batches())
		return Fail(-EBADMSG, "the footer has changed meanwhile");
	auto messages = Named(places);
	auto first = MessageIn(*disk_, FILE_BEGIN);

	if (!first.ok() || first->header.type != MessageType::SCHEMA) {
		if (swapped_)
			return Fail(-EBADMSG, "the messages are not those of the footer");
		ARROW_ASSIGN_OR_RAISE(head_, arrow::ipc::SerializeSchema(*schema_));
		first = MessageAt();
		first->head = head_->size();
		first->header.type = MessageType::SCHEMA;
	}
	messages.insert(messages.begin(), *first);
	return Index(std::move(messages));
}

Status ArrowSource::BeginStream(const arrow::ipc::IpcReadOptions &options)
{
	ARROW_ASSIGN_OR_RAISE(auto walked, Messages(*disk_, 0));
	ARROW_RETURN_NOT_OK(Index(std::move(walked)));
	ARROW_ASSIGN_OR_RAISE(auto reader, ReadSchema(*this, options));
	schema_ = reader->schema();
	swapped_ = reader->stats().original_endianness != arrow::Endianness::Native;
	return Status::OK();
}

Status ArrowSource::Index(std::vector<MessageAt> messages)
{
	messages_ = std::move(messages);
	for (size_t i = 0; i < messages_.size(); i++) {
		if (IsBatch(i))
			batches_.push_back(i);
		else
			only_batches_ = i + 1;
	}
	groups_ = static_cast<int64_t>(batches_.size());
	return Status::OK();
}

Result<MessageAt> ArrowSource::Message(size_t i) const
{
	std::lock_guard<std::mutex> held(lock_);
	MessageAt &at = messages_[i];

	if (at.known)
		return at;
	ARROW_ASSIGN_OR_RAISE(MessageAt found, MessageIn(*disk_, at.offset));
	if (found.header.type != at.header.type)
		return Fail(-EBADMSG,
			    "the footer has a message at byte %" PRId64
			    ", and there is none of its type",
			    at.offset);
	at = found;
	return at;
}

/* Rows of the groups before @group, or of all. */
Result<int64_t> ArrowSource::FirstRow(int64_t group) const
{
	for (;;) {
		size_t next;

		{
			std::lock_guard<std::mutex> held(lock_);

			if (first_.empty())
				first_.push_back(0);
			next = first_.size();
			if (next > static_cast<size_t>(group))
				return first_[static_cast<size_t>(group)];
		}
		auto at = Message(batches_[next - 1]);

		ARROW_RETURN_NOT_OK(At("row group " + std::to_string(next - 1), at.status()));
		std::lock_guard<std::mutex> held(lock_);

		/* Another thread may have been here meanwhile. */
		if (first_.size() != next)
			continue;
		if (at->header.rows > INT64_MAX - first_.back())
			return Fail(-EBADMSG, "row group %zu has %" PRId64 " rows", next - 1,
				    at->header.rows);
		first_.push_back(first_.back() + at->header.rows);
	}
}

Result<Group> ArrowSource::Facts(int64_t group)
{
	Group facts;

	ARROW_ASSIGN_OR_RAISE(facts.first_row, FirstRow(group));
	ARROW_ASSIGN_OR_RAISE(MessageAt at, Message(message(group)));
	facts.rows = at.header.rows;
	facts.stored = facts.plain = at.head + at.header.body;
	return facts;
}

Result<int64_t> ArrowSource::Rows()
{
	return FirstRow(groups_);
}

Result<int64_t> ArrowSource::RowsTold(int64_t group)
{
	ARROW_ASSIGN_OR_RAISE(MessageAt at, Message(message(group)));
	return at.header.rows;
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

	ARROW_ASSIGN_OR_RAISE(MessageAt at, Message(message(group)));
	stored.codec = CodecName(at.header.codec);
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
	return OpenArrowCursor(*this, want);
}

namespace
{

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
