// SPDX-License-Identifier: MIT
/*
 * Messages of Arrow's IPC format: where they are, and what their headers say.
 *
 * libarrow reads messages, and has no function for three facts: how many rows a record batch has,
 * whether its body is compressed, and where a footer has its batches. They are fields of
 * flatbuffers that libarrow has checked, which are read here. Source: format/Message.fbs and
 * File.fbs of Arrow, and the flatbuffers' document "FlatBuffer Internals".
 */
#include "message.hh"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <strings.h>

#include <arrow/util/key_value_metadata.h>

#include "file.hh"

namespace hetmap
{

namespace
{

constexpr uint32_t CONTINUES = 0xffffffff; /* before the length, since Arrow 0.15 */

/* Fields of the table RecordBatch, and of BodyCompression. */
enum { BATCH_LENGTH = 0, BATCH_COMPRESSION = 3, COMPRESSION_CODEC = 0 };

/* Those of the table Footer. */
enum { FOOTER_DICTIONARIES = 2, FOOTER_BATCHES = 3 };

constexpr size_t BLOCK_BYTES = 24; /* of the struct Block */

template <typename T> T Load(const uint8_t *from)
{
	T value;

	std::memcpy(&value, from, sizeof(value));
	return value;
}

/* A field of a table that was checked. NULL: the table leaves it out. */
const uint8_t *Field(const uint8_t *table, int field)
{
	const uint8_t *slots = table - Load<int32_t>(table);
	size_t at = 4 + 2 * static_cast<size_t>(field);
	uint16_t offset;

	if (at + 2 > Load<uint16_t>(slots))
		return nullptr;
	offset = Load<uint16_t>(slots + at);
	return offset ? table + offset : nullptr;
}

void ReadBatch(const uint8_t *table, Header *header)
{
	const uint8_t *length = Field(table, BATCH_LENGTH);
	const uint8_t *compression = Field(table, BATCH_COMPRESSION);
	const uint8_t *codec;

	header->rows = length ? Load<int64_t>(length) : 0;
	if (!compression)
		return;
	codec = Field(compression + Load<uint32_t>(compression), COMPRESSION_CODEC);
	header->codec = codec ? Load<int8_t>(codec) : 0;
}

/* Arrow 0.17 wrote the codec beside the message, which libarrow still reads. */
int OldCodec(const arrow::ipc::Message &message)
{
	const auto &metadata = message.custom_metadata();

	if (message.metadata_version() != arrow::ipc::MetadataVersion::V4 || !metadata)
		return -1;
	auto name = metadata->Get("ARROW:experimental_compression");

	if (!name.ok())
		return -1;
	return strcasecmp(name->c_str(), "zstd") == 0;
}

} /* namespace */

int64_t HeadLength(const uint8_t *bytes, int64_t n, int64_t *ret_prefix)
{
	int64_t prefix = 4;
	int32_t length;

	if (n < 4)
		return 0;
	if (Load<uint32_t>(bytes) == CONTINUES) {
		prefix = 8;
		if (n < 8)
			return 0;
	}
	length = Load<int32_t>(bytes + prefix - 4);
	if (length <= 0)
		return 0;
	*ret_prefix = prefix;
	return prefix + length;
}

Result<Header> ReadHeader(const std::shared_ptr<arrow::Buffer> &head)
{
	int64_t prefix = 0;

	if (HeadLength(head->data(), head->size(), &prefix) != head->size())
		return Header();
	ARROW_ASSIGN_OR_RAISE(auto message, arrow::ipc::Message::Open(
						    arrow::SliceBuffer(head, prefix), nullptr));
	return HeaderOf(*message);
}

Result<Header> HeaderOf(const arrow::ipc::Message &message)
{
	Header header;

	header.type = message.type();
	header.body = message.body_length();
	if (header.type == arrow::ipc::MessageType::RECORD_BATCH && message.header())
		ReadBatch(static_cast<const uint8_t *>(message.header()), &header);
	if (header.codec < 0)
		header.codec = OldCodec(message);
	if (header.body < 0 || header.rows < -1)
		return Fail(-EBADMSG, "a message has %" PRId64 " rows in %" PRId64 " bytes",
			    header.rows, header.body);
	return header;
}

Result<MessageAt> MessageIn(const Disk &disk, int64_t offset)
{
	/* Most headers are shorter. */
	alignas(8) uint8_t begin[1024];
	int64_t prefix = 0, n;
	MessageAt message;

	if (offset < 0 || offset > disk.size())
		return Fail(-EBADMSG,
			    "a message is at byte %" PRId64
			    ", and the file ends after %" PRId64,
			    offset, disk.size());
	n = std::min<int64_t>(sizeof(begin), disk.size() - offset);
	ARROW_RETURN_NOT_OK(disk.Read(offset, n, begin));
	message.offset = offset;
	message.head = HeadLength(begin, n, &prefix);
	if (!message.head)
		return message;
	if (message.head > disk.size() - offset)
		return Fail(-EBADMSG,
			    "the header of a message at byte %" PRId64 " has %" PRId64
			    " bytes, and the file ends after %" PRId64,
			    offset, message.head, disk.size() - offset);
	auto head = std::make_shared<arrow::Buffer>(begin, message.head);

	if (message.head > n) {
		ARROW_ASSIGN_OR_RAISE(head, arrow::AllocateBuffer(message.head));
		ARROW_RETURN_NOT_OK(disk.Read(offset, message.head, head->mutable_data()));
	}
	ARROW_ASSIGN_OR_RAISE(message.header, ReadHeader(head));
	if (message.header.body > disk.size() - offset - message.head)
		return Fail(-EBADMSG,
			    "a message at byte %" PRId64 " has %" PRId64
			    " bytes, and the file ends after %" PRId64,
			    offset, message.header.body, disk.size() - offset - message.head);
	return message;
}

Result<std::vector<MessageAt>> Messages(const Disk &disk, int64_t from)
{
	std::vector<MessageAt> messages;
	int64_t at = from;

	while (disk.size() - at >= 4) {
		ARROW_ASSIGN_OR_RAISE(MessageAt message, MessageIn(disk, at));
		if (!message.head)
			break;
		at += message.head + message.header.body;
		messages.push_back(message);
	}
	return messages;
}

/* The offsets of blocks: structs {int64_t offset; int32_t head; int64_t body}. */
static std::vector<int64_t> Offsets(const uint8_t *table, int field)
{
	const uint8_t *vector = Field(table, field);
	std::vector<int64_t> offsets;
	uint32_t n;

	if (!vector)
		return offsets;
	vector += Load<uint32_t>(vector);
	n = Load<uint32_t>(vector);
	for (uint32_t i = 0; i < n; i++)
		offsets.push_back(Load<int64_t>(vector + 4 + i * BLOCK_BYTES));
	return offsets;
}

Result<Places> PlacesOf(const std::shared_ptr<arrow::Buffer> &footer)
{
	Places places;

	if (!footer || footer->size() < 8)
		return Fail(-EBADMSG, "the file has no footer");
	const uint8_t *table = footer->data() + Load<uint32_t>(footer->data());

	places.dictionaries = Offsets(table, FOOTER_DICTIONARIES);
	places.batches = Offsets(table, FOOTER_BATCHES);
	return places;
}

const char *CodecName(int codec)
{
	return codec < 0 ? "none" : codec == 0 ? "lz4" : codec == 1 ? "zstd" : "unknown";
}

} /* namespace hetmap */
