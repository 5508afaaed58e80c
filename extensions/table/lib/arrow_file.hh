/* SPDX-License-Identifier: MIT */
/* Arrow IPC files and streams: where their messages are. */
#ifndef HETMAP_TABLE_ARROW_FILE_HH
#define HETMAP_TABLE_ARROW_FILE_HH

#include <mutex>
#include <vector>

#include <arrow/ipc/options.h>
#include <arrow/ipc/reader.h>

#include "source.hh"

namespace hetmap
{

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
	Result<int64_t> RowsTold(int64_t group) override;
	bool OneByOne() const override
	{
		return in_place();
	}
	Result<std::unique_ptr<Cursor>> Open(const Want &want) override;
	Result<Stored> Describe(int64_t group, int field) override;
	bool in_place() const override
	{
		return mapping_ && codec_ < 0;
	}
	std::string why() const override;

	/* Reads the header of message number @i, if it is not known. */
	Result<MessageAt> Message(size_t i) const;
	size_t messages() const
	{
		return messages_.size();
	}
	/* The number of a group's message. */
	size_t message(int64_t group) const
	{
		return batches_[static_cast<size_t>(group)];
	}
	bool IsBatch(size_t i) const
	{
		return messages_[i].header.type == arrow::ipc::MessageType::RECORD_BATCH;
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
	Result<int64_t> FirstRow(int64_t group) const;

	const bool stream_;
	bool swapped_ = false, read_ = false;
	int codec_ = -1; /* of the first record batch */
	int64_t groups_ = 0;
	std::shared_ptr<arrow::Schema> schema_;
	std::shared_ptr<Mapping> mapping_;
	std::shared_ptr<arrow::Buffer> head_;
	std::shared_ptr<Memory> memory_;

	size_t only_batches_ = 0;
	std::vector<size_t> batches_;

	mutable std::mutex lock_; /* protects the rest, but for types of messages */
	/* A file's dictionaries are before its batches. Of a file only the types are known. */
	mutable std::vector<MessageAt> messages_;
	mutable std::vector<int64_t> first_; /* rows before the first groups */
};

/* A message that is not the one of the open. */
Status Changed(const MessageAt &at);

/* Reads the schema, as libarrow's reader of streams has it. */
Result<std::shared_ptr<arrow::ipc::RecordBatchStreamReader>>
ReadSchema(const ArrowSource &source, const arrow::ipc::IpcReadOptions &options);

Result<std::unique_ptr<Cursor>> OpenArrowCursor(ArrowSource &source, const Want &want);

} /* namespace hetmap */

#endif
