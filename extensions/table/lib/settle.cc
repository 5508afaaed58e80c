// SPDX-License-Identifier: MIT
/*
 * Settling: columns of libarrow become columns whose buffers are unified pointers.
 *
 * Bytes in the map of a file may be cut off at any time. Nothing here touches them: what must be
 * looked at, or copied, is read from the file (Disk::Copy()).
 */
#include "settle.hh"

#include <cinttypes>
#include <cstring>

#include <arrow/array/util.h>
#include <arrow/array/validate.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>

#include "check.hh"
#include "given.hh"

namespace hetmap
{

namespace
{

using arrow::ArrayData;
using arrow::Buffer;
using arrow::DataType;
using arrow::DataTypeLayout;

constexpr int64_t ALIGN_MOST = 8; /* of any type: Arrow's format asks for no more */

/* Copies one column, as far as it must be. */
class Settler
{
      public:
	Settler(const SettleHow &how, Chunk *chunk) : how_(how), chunk_(chunk)
	{
	}
	Result<std::shared_ptr<ArrayData>> Column(const std::shared_ptr<ArrayData> &data,
						  bool dictionary);

      private:
	Status One(const DataTypeLayout::BufferSpec &spec, bool dictionary,
		   std::shared_ptr<Buffer> *buffer);
	Result<std::shared_ptr<Buffer>> Copied(const Buffer &buffer);

	const SettleHow &how_;
	Chunk *chunk_;
};

/* Where an element of @spec may begin. */
int64_t AlignmentOf(const DataTypeLayout::BufferSpec &spec)
{
	int64_t alignment = 1;

	if (spec.kind != DataTypeLayout::FIXED_WIDTH)
		return 1;
	while (alignment < ALIGN_MOST && spec.byte_width % (2 * alignment) == 0)
		alignment *= 2;
	return alignment;
}

Result<std::shared_ptr<Buffer>> Settler::Copied(const Buffer &buffer)
{
	const auto &disk = how_.source->disk();

	/* Another library, or the caller, may have ended its memory. */
	if (!disk && !IsReadable(buffer.data(), buffer.size(), true))
		return Fail(-EFAULT, "a buffer of %" PRId64 " bytes at %p is not in memory",
			    buffer.size(), static_cast<const void *>(buffer.data()));
	ARROW_ASSIGN_OR_RAISE(std::shared_ptr<Buffer> copy,
			      arrow::AllocateBuffer(buffer.size(), how_.pool.get()));
	if (disk)
		ARROW_RETURN_NOT_OK(
			disk->Copy(buffer.data(), buffer.size(), copy->mutable_data()));
	else
		std::memcpy(copy->mutable_data(), buffer.data(),
			    static_cast<size_t>(buffer.size()));
	return copy;
}

Status Settler::One(const DataTypeLayout::BufferSpec &spec, bool dictionary,
		    std::shared_ptr<Buffer> *buffer)
{
	const Buffer *now = buffer->get();
	struct hm_pointer_info info;
	const char *why = nullptr;
	const auto &disk = how_.source->disk();
	auto mapping = disk ? disk->mapping() : nullptr;
	bool placed;

	if (!now || !now->size())
		return Status::OK();
	if (!now->is_cpu())
		return Fail(-EOPNOTSUPP, "a buffer is in memory that CPUs do not reach");
	auto base = reinterpret_cast<uintptr_t>(now->data());

	if (hm_pointer_find(now->data(), &info) ||
	    static_cast<uint64_t>(now->size()) >
		    info.length - (base - reinterpret_cast<uintptr_t>(info.base)))
		why = "in no map: copied";
	else if (base % static_cast<uintptr_t>(AlignmentOf(spec)))
		why = "not aligned for its type: copied";
	placed = !why && (!disk || (mapping && mapping->Has(now->data(), now->size())));
	if (why) {
		ARROW_ASSIGN_OR_RAISE(*buffer, Copied(*now));
	}
	if (placed)
		chunk_->placed += now->size();
	else
		chunk_->copied += buffer->get()->size();
	/* A dictionary is read once for all chunks: the values are the indices. */
	if (!placed && !dictionary && chunk_->in_place) {
		chunk_->in_place = false;
		chunk_->why = why && how_.source->in_place() ? why : how_.source->why();
	}
	return Status::OK();
}

Result<std::shared_ptr<ArrayData>> Settler::Column(const std::shared_ptr<ArrayData> &data,
						   bool dictionary)
{
	auto layout = data->type->layout();
	auto copy = data->Copy();

	for (size_t i = 0; i < copy->buffers.size(); i++) {
		DataTypeLayout::BufferSpec spec = i < layout.buffers.size() ?
							  layout.buffers[i] :
							  DataTypeLayout::VariableWidth();

		ARROW_RETURN_NOT_OK(One(spec, dictionary, &copy->buffers[i]));
	}
	for (auto &child : copy->child_data) {
		ARROW_ASSIGN_OR_RAISE(child, Column(child, dictionary));
	}
	if (copy->dictionary) {
		ARROW_ASSIGN_OR_RAISE(copy->dictionary, Column(copy->dictionary, true));
	}
	return copy;
}

} /* namespace */

Chunk::~Chunk()
{
	if (exported.release)
		exported.release(&exported);
}

Chunk::Chunk(Chunk &&other) noexcept
    : data(std::move(other.data)), group(other.group), first_row(other.first_row),
      in_place(other.in_place), why(std::move(other.why)), placed(other.placed),
      copied(other.copied), exported(other.exported)
{
	other.exported.release = nullptr;
}

Chunk &Chunk::operator=(Chunk &&other) noexcept
{
	std::swap(data, other.data);
	std::swap(group, other.group);
	std::swap(first_row, other.first_row);
	std::swap(in_place, other.in_place);
	std::swap(why, other.why);
	std::swap(placed, other.placed);
	std::swap(copied, other.copied);
	std::swap(exported, other.exported);
	return *this;
}

uint32_t BitsOf(const DataType &type)
{
	const DataType *storage = &type;

	if (type.id() == arrow::Type::EXTENSION)
		storage = static_cast<const arrow::ExtensionType &>(type).storage_type().get();
	if (storage->id() == arrow::Type::DICTIONARY)
		return BitsOf(
			*static_cast<const arrow::DictionaryType &>(*storage).index_type());
	if (arrow::is_binary_view_like(storage->id()))
		return 128;
	if (!arrow::is_fixed_width(storage->id()) ||
	    storage->id() == arrow::Type::FIXED_SIZE_LIST)
		return 0;
	return static_cast<uint32_t>(storage->bit_width());
}

/* Which buffer is what, as hm_table_chunk has them: numbers of buffers, or -1. */
static void RolesOf(const DataType &type, int *offsets, int *values)
{
	const DataType *storage = &type;

	if (type.id() == arrow::Type::EXTENSION)
		storage = static_cast<const arrow::ExtensionType &>(type).storage_type().get();
	*offsets = *values = -1;
	switch (storage->id()) {
	case arrow::Type::STRING:
	case arrow::Type::BINARY:
	case arrow::Type::LARGE_STRING:
	case arrow::Type::LARGE_BINARY:
		*offsets = 1;
		*values = 2;
		break;
	case arrow::Type::LIST:
	case arrow::Type::LARGE_LIST:
	case arrow::Type::MAP:
		*offsets = 1;
		break;
	case arrow::Type::DENSE_UNION:
		*values = 1;
		*offsets = 2;
		break;
	case arrow::Type::SPARSE_UNION:
		*values = 1;
		break;
	case arrow::Type::LIST_VIEW:
	case arrow::Type::LARGE_LIST_VIEW:
	case arrow::Type::NA:
	case arrow::Type::STRUCT:
	case arrow::Type::FIXED_SIZE_LIST:
	case arrow::Type::RUN_END_ENCODED:
		break;
	default:
		*values = 1;
	}
}

static void Take(const ArrayData &data, int number, const void **ret, uint64_t *ret_bytes)
{
	*ret = nullptr;
	*ret_bytes = 0;
	if (number < 0 || static_cast<size_t>(number) >= data.buffers.size() ||
	    !data.buffers[static_cast<size_t>(number)])
		return;
	*ret = data.buffers[static_cast<size_t>(number)]->data();
	*ret_bytes = static_cast<uint64_t>(data.buffers[static_cast<size_t>(number)]->size());
}

void Chunk::Describe(struct hm_table_chunk *ret) const
{
	int offsets, values;
	bool has_validity = data->type->layout().buffers[0].kind == DataTypeLayout::BITMAP;

	RolesOf(*data->type, &offsets, &values);
	ret->in_place = in_place;
	ret->why = why.c_str();
	ret->first_row = first_row;
	ret->rows = static_cast<uint64_t>(data->length);
	ret->nulls = static_cast<uint64_t>(exported.null_count);
	ret->offset = static_cast<uint64_t>(data->offset);
	ret->group = group;
	Take(*data, has_validity ? 0 : -1, &ret->validity, &ret->validity_bytes);
	Take(*data, offsets, &ret->offsets, &ret->offsets_bytes);
	Take(*data, values, &ret->values, &ret->values_bytes);
	ret->array = &exported;
	ret->dictionary = exported.dictionary;
}

Status Settle(const std::shared_ptr<ArrayData> &data, const SettleHow &how, Chunk *ret)
{
	ret->why = how.source->why();
	ARROW_RETURN_NOT_OK(CheckLengths(*data, how.source->disk().get()));
	ARROW_ASSIGN_OR_RAISE(ret->data, Settler(how, ret).Column(data, false));
	if (how.flags & HM_TABLE_CHECK)
		ARROW_RETURN_NOT_OK(
			CheckValues(*ret->data, how.source->disk().get(), how.pool));
	if (ret->data->null_count.load() < 0)
		ARROW_RETURN_NOT_OK(CountMissing(ret->data.get(), how.source->disk().get()));
	return arrow::ExportArray(*arrow::MakeArray(ret->data), &ret->exported);
}

} /* namespace hetmap */
