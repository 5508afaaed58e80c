// SPDX-License-Identifier: MIT
/* Checks: whether buffers are what their type says, without a touch of bytes in maps of files. */
#include "check.hh"

#include <cinttypes>
#include <cstring>

#include <arrow/array/array_base.h>
#include <arrow/array/util.h>
#include <arrow/extension_type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/bitmap_ops.h>

namespace hetmap
{

namespace
{

using arrow::ArrayData;
using arrow::Buffer;
using arrow::DataTypeLayout;

/* Greatest number of elements: sums and products of it and a width do not overflow. */
constexpr int64_t ELEMENTS_MOST = INT64_MAX / 64;

bool InMap(const Disk *disk, const Buffer &buffer)
{
	return disk && disk->mapping() && disk->mapping()->Has(buffer.data(), buffer.size());
}

Status Copy(const Disk *disk, const Buffer &buffer, int64_t at, int64_t n, void *to)
{
	if (disk)
		return disk->Copy(buffer.data() + at, n, to);
	std::memcpy(to, buffer.data() + at, static_cast<size_t>(n));
	return Status::OK();
}

/* Element @index of a buffer of integers of @width bytes. */
Result<int64_t> Element(const Disk *disk, const Buffer &buffer, int64_t index, int64_t width)
{
	int16_t value16;
	int32_t value32;
	int64_t value64;

	if (width == 2) {
		ARROW_RETURN_NOT_OK(Copy(disk, buffer, index * width, width, &value16));
		return value16;
	}
	if (width == 4) {
		ARROW_RETURN_NOT_OK(Copy(disk, buffer, index * width, width, &value32));
		return value32;
	}
	ARROW_RETURN_NOT_OK(Copy(disk, buffer, index * width, width, &value64));
	return value64;
}

Status CheckBuffer(const ArrayData &data, size_t i, const DataTypeLayout::BufferSpec &spec,
		   int64_t more)
{
	const auto &buffer = data.buffers[i];
	int64_t n = data.offset + data.length, wanted = 0;

	if (spec.kind == DataTypeLayout::BITMAP)
		wanted = arrow::bit_util::BytesForBits(n);
	else if (spec.kind == DataTypeLayout::FIXED_WIDTH)
		wanted = (n + more) * spec.byte_width;
	/* A column without rows needs no buffer, nor one without missing values a bitmap. */
	if (!data.length || !wanted)
		return Status::OK();
	if (!buffer) {
		if (i == 0 && spec.kind == DataTypeLayout::BITMAP &&
		    data.null_count.load() <= 0)
			return Status::OK();
		return Fail(-EBADMSG, "buffer %zu of %s is missing", i,
			    data.type->ToString().c_str());
	}
	if (buffer->size() < wanted)
		return Fail(-EBADMSG,
			    "buffer %zu of %s has %" PRId64 " bytes, and needs %" PRId64
			    " for %" PRId64 " values",
			    i, data.type->ToString().c_str(), buffer->size(), wanted, n);
	return Status::OK();
}

/* The first and the last offset are in order, and within what they point into. */
Status CheckOffsets(const ArrayData &data, int64_t width, int64_t limit, const Disk *disk)
{
	if (!data.length)
		return Status::OK();
	ARROW_ASSIGN_OR_RAISE(int64_t first,
			      Element(disk, *data.buffers[1], data.offset, width));
	ARROW_ASSIGN_OR_RAISE(int64_t last, Element(disk, *data.buffers[1],
						    data.offset + data.length, width));
	if (first < 0 || last < first || last > limit)
		return Fail(-EBADMSG,
			    "offsets of %s are from %" PRId64 " to %" PRId64
			    ", and there are %" PRId64 " elements",
			    data.type->ToString().c_str(), first, last, limit);
	return Status::OK();
}

/* The runs reach up to the last value. */
Status CheckRuns(const ArrayData &data, const Disk *disk)
{
	const ArrayData &ends = *data.child_data[0];
	int64_t width = ends.type->byte_width();

	if (!data.length)
		return Status::OK();
	if (!ends.length)
		return Fail(-EBADMSG, "%" PRId64 " values have no run", data.length);
	ARROW_ASSIGN_OR_RAISE(int64_t last, Element(disk, *ends.buffers[1],
						    ends.offset + ends.length - 1, width));
	if (last < data.offset + data.length)
		return Fail(-EBADMSG,
			    "the runs end at %" PRId64 ", and %" PRId64 " values are there",
			    last, data.offset + data.length);
	if (data.child_data[1]->length < ends.length)
		return Fail(-EBADMSG, "%" PRId64 " runs have %" PRId64 " values", ends.length,
			    data.child_data[1]->length);
	return Status::OK();
}

int64_t ChildLength(const ArrayData &data)
{
	return data.child_data.empty() ? 0 : data.child_data[0]->length;
}

/* The type that the buffers are of. */
const arrow::DataType &StorageOf(const arrow::DataType &type)
{
	if (type.id() != arrow::Type::EXTENSION)
		return type;
	return *static_cast<const arrow::ExtensionType &>(type).storage_type();
}

/* What a type has beyond the lengths of its buffers. */
Status CheckShape(const ArrayData &data, const Disk *disk)
{
	const arrow::DataType &storage = StorageOf(*data.type);
	int64_t n = data.offset + data.length, size;

	switch (storage.id()) {
	case arrow::Type::STRING:
	case arrow::Type::BINARY:
		size = data.buffers[2] ? data.buffers[2]->size() : 0;
		return CheckOffsets(data, 4, size, disk);
	case arrow::Type::LARGE_STRING:
	case arrow::Type::LARGE_BINARY:
		size = data.buffers[2] ? data.buffers[2]->size() : 0;
		return CheckOffsets(data, 8, size, disk);
	case arrow::Type::LIST:
	case arrow::Type::MAP:
		return CheckOffsets(data, 4, ChildLength(data), disk);
	case arrow::Type::LARGE_LIST:
		return CheckOffsets(data, 8, ChildLength(data), disk);
	case arrow::Type::RUN_END_ENCODED:
		return CheckRuns(data, disk);
	case arrow::Type::FIXED_SIZE_LIST:
		size = static_cast<const arrow::FixedSizeListType &>(storage).list_size();
		if (size > 0 && ChildLength(data) / size < n)
			return Fail(-EBADMSG,
				    "%" PRId64 " lists of %" PRId64 " have %" PRId64 " values",
				    n, size, ChildLength(data));
		return Status::OK();
	case arrow::Type::STRUCT:
	case arrow::Type::SPARSE_UNION:
		for (const auto &child : data.child_data)
			if (child->length < n)
				return Fail(-EBADMSG,
					    "a child of %s has %" PRId64 " values of %" PRId64,
					    data.type->ToString().c_str(), child->length, n);
		return Status::OK();
	default:
		return Status::OK();
	}
}

/* Elements that the offsets of a type have beyond its values. */
int64_t OffsetsMore(const arrow::DataType &type, size_t i)
{
	bool offsets = i == 1 && (arrow::is_base_binary_like(type.storage_id()) ||
				  arrow::is_var_length_list(type.storage_id()));

	return offsets ? 1 : 0;
}

} /* namespace */

Status CheckType(const arrow::DataType &wanted, const arrow::DataType &given)
{
	if (!given.Equals(wanted))
		return Fail(-EBADMSG, "the values are %s, and the column is %s",
			    given.ToString().c_str(), wanted.ToString().c_str());
	return Status::OK();
}

Status CheckRows(int64_t told, int64_t rows)
{
	if (told >= 0 && told != rows)
		return Fail(-EBADMSG,
			    "%" PRId64
			    " values are there, and the group says that it has %" PRId64
			    " rows",
			    rows, told);
	return Status::OK();
}

Status CheckLengths(const ArrayData &data, const Disk *disk)
{
	auto layout = data.type->layout();

	if (data.length < 0 || data.offset < 0 || data.length > ELEMENTS_MOST ||
	    data.offset > ELEMENTS_MOST)
		return Fail(-EBADMSG, "%" PRId64 " values from %" PRId64 " on", data.length,
			    data.offset);
	if (data.null_count.load() > data.length)
		return Fail(-EBADMSG, "%" PRId64 " of %" PRId64 " values are missing",
			    data.null_count.load(), data.length);
	if (data.buffers.size() < layout.buffers.size())
		return Fail(-EBADMSG, "%s has %zu buffers of %zu",
			    data.type->ToString().c_str(), data.buffers.size(),
			    layout.buffers.size());
	for (size_t i = 0; i < layout.buffers.size(); i++)
		ARROW_RETURN_NOT_OK(
			CheckBuffer(data, i, layout.buffers[i], OffsetsMore(*data.type, i)));
	for (const auto &child : data.child_data)
		ARROW_RETURN_NOT_OK(CheckLengths(*child, disk));
	if (data.dictionary)
		ARROW_RETURN_NOT_OK(CheckLengths(*data.dictionary, disk));
	return CheckShape(data, disk);
}

/* The same column, with copies of what is in the map of the file. */
static Result<std::shared_ptr<ArrayData>> OutOfMap(const ArrayData &data, const Disk *disk,
						   const PoolRef &pool)
{
	auto copy = data.Copy();

	for (auto &buffer : copy->buffers) {
		if (!buffer || !InMap(disk, *buffer))
			continue;
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Buffer> to,
				      arrow::AllocateBuffer(buffer->size(), pool.get()));
		ARROW_RETURN_NOT_OK(
			disk->Copy(buffer->data(), buffer->size(), to->mutable_data()));
		buffer = to;
	}
	for (auto &child : copy->child_data) {
		ARROW_ASSIGN_OR_RAISE(child, OutOfMap(*child, disk, pool));
	}
	if (copy->dictionary) {
		ARROW_ASSIGN_OR_RAISE(copy->dictionary,
				      OutOfMap(*copy->dictionary, disk, pool));
	}
	return copy;
}

/* Any bytes are values of the type: there are no offsets, indices or texts. */
static bool IsPlain(const arrow::DataType &type)
{
	return arrow::is_primitive(type.id()) || arrow::is_decimal(type.id()) ||
	       type.id() == arrow::Type::FIXED_SIZE_BINARY;
}

static Status CheckMissing(const ArrayData &data, const Disk *disk)
{
	int64_t told = data.null_count.load();
	auto copy = data.Copy();

	ARROW_RETURN_NOT_OK(CountMissing(copy.get(), disk));
	if (told >= 0 && told != copy->null_count.load())
		return Fail(-EBADMSG,
			    "%" PRId64 " values are missing, and the file says %" PRId64,
			    copy->null_count.load(), told);
	return Status::OK();
}

Status CheckValues(const ArrayData &data, const Disk *disk, const PoolRef &pool)
{
	if (IsPlain(StorageOf(*data.type)))
		return CheckMissing(data, disk);
	ARROW_ASSIGN_OR_RAISE(auto copy, OutOfMap(data, disk, pool));

	return arrow::MakeArray(copy)->ValidateFull();
}

Status CountMissing(ArrayData *data, const Disk *disk)
{
	const auto &bitmap = data->buffers.empty() ? nullptr : data->buffers[0];
	std::vector<uint8_t> bits;

	if (!bitmap || data->type->layout().buffers[0].kind != DataTypeLayout::BITMAP) {
		data->null_count = data->type->storage_id() == arrow::Type::NA ? data->length :
										 0;
		return Status::OK();
	}
	if (!InMap(disk, *bitmap)) {
		data->GetNullCount();
		return Status::OK();
	}
	bits.resize(static_cast<size_t>(bitmap->size()));
	ARROW_RETURN_NOT_OK(disk->Copy(bitmap->data(), bitmap->size(), bits.data()));
	data->null_count = data->length - arrow::internal::CountSetBits(
						  bits.data(), data->offset, data->length);
	return Status::OK();
}

} /* namespace hetmap */
