/* SPDX-License-Identifier: MIT */
/* Messages of Arrow's IPC format: where they are, and what their headers say. */
#ifndef HETMAP_TABLE_MESSAGE_HH
#define HETMAP_TABLE_MESSAGE_HH

#include <memory>
#include <vector>

#include <arrow/buffer.h>
#include <arrow/ipc/message.h>

#include "status.hh"

namespace hetmap
{

class Disk;

/* What the header of a message says. */
struct Header {
	arrow::ipc::MessageType type = arrow::ipc::MessageType::NONE;
	int64_t body = 0;  /* bytes behind the header */
	int64_t rows = -1; /* of a record batch */
	int codec = -1;    /* of its body: 0 LZ4 frame, 1 zstd; -1: not compressed */
	bool operator==(const Header &) const = default;
};

/* A message in a file. */
struct MessageAt {
	int64_t offset = 0;
	int64_t head = 0; /* bytes of prefix and header */
	Header header;
	bool known = true; /* false: offset and the header's type are all that is there */
};

/* Where a footer has the messages of a file. */
struct Places {
	std::vector<int64_t> dictionaries, batches;
};

/*
 * The length of the header that begins with @bytes, prefix included; *ret_prefix has that of the
 * prefix alone. 0: the end of a stream, or no message.
 */
int64_t HeadLength(const uint8_t *bytes, int64_t n, int64_t *ret_prefix);

/* Reads the header in @head, prefix included. libarrow checks it first. */
Result<Header> ReadHeader(const std::shared_ptr<arrow::Buffer> &head);

/* The same of a message that libarrow has checked. */
Result<Header> HeaderOf(const arrow::ipc::Message &message);

/* The message at a byte of a file, whose header and body are all in the file. */
Result<MessageAt> MessageIn(const Disk &disk, int64_t offset);

/* What a footer says, which libarrow has checked. */
Result<Places> PlacesOf(const std::shared_ptr<arrow::Buffer> &footer);

/* All messages of a file from @from on, up to the end of the stream or of the file. */
Result<std::vector<MessageAt>> Messages(const Disk &disk, int64_t from);

/* Name of a codec of a header. */
const char *CodecName(int codec);

} /* namespace hetmap */

#endif
