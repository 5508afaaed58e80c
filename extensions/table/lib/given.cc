// SPDX-License-Identifier: MIT
/*
 * Given: what another library hands over by the Arrow C interfaces.
 *
 * A null pointer, or one to memory that is not there, is an error here and would be a signal in
 * libarrow. Memory is asked of the kernel, by process_vm_readv(2) of this process. A kernel that
 * has no such call, or a filter of system calls that forbids it, leaves the pointers unchecked.
 */
#include "given.hh"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstring>
#include <sys/uio.h>
#include <unistd.h>

#include <arrow/extension_type.h>
#include <arrow/type_traits.h>
#include <arrow/util/bit_util.h>

namespace hetmap
{

namespace
{

using arrow::DataType;
using arrow::DataTypeLayout;

constexpr int64_t PAGE = 4096;
constexpr size_t AT_A_TIME = 512;       /* of IOV_MAX, 1024 */
constexpr int DEPTH_MOST = 64;          /* libarrow's own limit of nesting */
constexpr int64_t NODES_MOST = 1 << 20; /* a producer's pointers may lead in a circle */
constexpr int64_t ELEMENTS_MOST = INT64_MAX / 64;
constexpr int64_t VARIADIC_MOST = 1 << 24; /* buffers of a column of views */

/* Copies bytes of this process. False: they are not all there. */
bool Fetch(const void *from, void *to, size_t n)
{
	struct iovec local = { to, n };
	struct iovec remote = { const_cast<void *>(from), n };
	ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);

	if (got < 0 && (errno == ENOSYS || errno == EPERM)) {
		std::memcpy(to, from, n);
		return true;
	}
	return got == static_cast<ssize_t>(n);
}

Status NotThere(const char *part, const void *pointer, int64_t n)
{
	return Fail(-EFAULT,
		    "the other library's %s at %p is not in memory for all of its %" PRId64
		    " bytes",
		    part, pointer, n);
}

/* @n pointers at @from. */
template <typename T>
Status CheckPointers(const char *part, T *const *from, int64_t n, int64_t most)
{
	if (n < 0 || n > most)
		return Fail(-EBADMSG, "an array has %" PRId64 " %s", n, part);
	if (n && !from)
		return Fail(-EBADMSG, "an array has %" PRId64 " %s, and no pointer to them", n,
			    part);
	if (!IsReadable(from, n * static_cast<int64_t>(sizeof(*from)), true))
		return NotThere(part, from, n * static_cast<int64_t>(sizeof(*from)));
	return Status::OK();
}

Status CheckSchema(const struct ArrowSchema *schema, int depth, int64_t *nodes)
{
	if (!schema)
		return Fail(-EBADMSG, "a schema has a child that is NULL");
	if (!IsReadable(schema, sizeof(*schema), true))
		return NotThere("schema", schema, sizeof(*schema));
	if (depth > DEPTH_MOST || ++*nodes > NODES_MOST)
		return Fail(-EBADMSG,
			    "a schema is nested deeper than %d, or has more than %" PRId64
			    " parts",
			    DEPTH_MOST, NODES_MOST);
	if (!schema->release)
		return Fail(-EINVAL, "a schema has ended already");
	if (!schema->format)
		return Fail(-EBADMSG, "a schema has no format");
	for (const char *text : { schema->format, schema->name, schema->metadata })
		if (text && !IsReadable(text, 1, true))
			return NotThere("text of a schema", text, 1);
	ARROW_RETURN_NOT_OK(CheckPointers("children of a schema", schema->children,
					  schema->n_children, NODES_MOST));
	for (int64_t i = 0; i < schema->n_children; i++)
		ARROW_RETURN_NOT_OK(CheckSchema(schema->children[i], depth + 1, nodes));
	return schema->dictionary ? CheckSchema(schema->dictionary, depth + 1, nodes) :
				    Status::OK();
}

/* Looks at an array and its children. */
class Look
{
      public:
	Status Array(const struct ArrowArray *array, const DataType &type, int depth);

      private:
	Status Numbers(const struct ArrowArray &array, const DataType &type);
	Status Buffers(const struct ArrowArray &array, const DataType &type);
	Status Texts(const struct ArrowArray &array, const DataType &type);
	Status Views(const struct ArrowArray &array, const DataType &type);
	static Status Ends(const struct ArrowArray &array, size_t i, int64_t n,
			   const DataType &type);

	int64_t nodes_ = 0;
};

/* The first and the last page of buffer @i. A buffer that is NULL is libarrow's to judge. */
Status Look::Ends(const struct ArrowArray &array, size_t i, int64_t n, const DataType &type)
{
	if (!array.buffers[i] || IsReadable(array.buffers[i], n, false))
		return Status::OK();
	return Fail(-EFAULT,
		    "buffer %zu of %s at %p is not in memory for the %" PRId64
		    " bytes that %" PRId64 " values need",
		    i, type.ToString().c_str(), array.buffers[i], n,
		    array.length + array.offset);
}

Status Look::Numbers(const struct ArrowArray &array, const DataType &type)
{
	if (array.length < 0 || array.offset < 0 || array.length > ELEMENTS_MOST ||
	    array.offset > ELEMENTS_MOST)
		return Fail(-EBADMSG, "%s has %" PRId64 " values from %" PRId64 " on",
			    type.ToString().c_str(), array.length, array.offset);
	if (array.null_count < -1 || array.null_count > array.length)
		return Fail(-EBADMSG, "%s lacks %" PRId64 " values of %" PRId64,
			    type.ToString().c_str(), array.null_count, array.length);
	return Status::OK();
}

/* The bytes that the last offset says. libarrow takes their number from there. */
Status Look::Texts(const struct ArrowArray &array, const DataType &type)
{
	bool large = arrow::is_large_binary_like(type.id());
	int64_t width = large ? 8 : 4, n = array.length + array.offset, last = 0;
	int32_t short_last = 0;
	const char *offsets = static_cast<const char *>(array.buffers[1]);

	if (!offsets || !array.length)
		return Status::OK();
	if (!Fetch(offsets + n * width,
		   large ? static_cast<void *>(&last) : static_cast<void *>(&short_last),
		   static_cast<size_t>(width)))
		return NotThere("last offset", offsets + n * width, width);
	if (!large)
		last = short_last;
	if (last < 0)
		return Fail(-EBADMSG, "the last offset of %s is %" PRId64,
			    type.ToString().c_str(), last);
	return Ends(array, 2, last, type);
}

/* The lengths of the further buffers, which are in the last one. */
Status Look::Views(const struct ArrowArray &array, const DataType &type)
{
	int64_t n = array.n_buffers - 3, bytes;
	const auto *lengths = static_cast<const int64_t *>(array.buffers[array.n_buffers - 1]);

	if (!lengths || n <= 0)
		return Status::OK();
	if (!IsReadable(lengths, n * 8, true))
		return NotThere("lengths of buffers", lengths, n * 8);
	for (int64_t i = 0; i < n; i++) {
		std::memcpy(&bytes, lengths + i, sizeof(bytes));
		if (bytes < 0)
			return Fail(-EBADMSG, "a buffer of %s has %" PRId64 " bytes",
				    type.ToString().c_str(), bytes);
		ARROW_RETURN_NOT_OK(Ends(array, static_cast<size_t>(2 + i), bytes, type));
	}
	return Status::OK();
}

Status Look::Buffers(const struct ArrowArray &array, const DataType &type)
{
	auto layout = type.layout();
	bool views = arrow::is_binary_view_like(type.id());
	bool texts = arrow::is_base_binary_like(type.id());
	int64_t n = array.length + array.offset;
	auto count = static_cast<int64_t>(layout.buffers.size());

	/* Unions have had a bitmap, and null a buffer, in older versions: libarrow knows. */
	if (views ? array.n_buffers < count + 1 : array.n_buffers > count + 1)
		return Fail(-EBADMSG, "%s has %" PRId64 " buffers, and not %" PRId64,
			    type.ToString().c_str(), array.n_buffers, count);
	if ((views || texts || arrow::is_fixed_width(type.id())) && array.n_buffers < count)
		return Fail(-EBADMSG, "%s has %" PRId64 " buffers, and not %" PRId64,
			    type.ToString().c_str(), array.n_buffers, count);
	if (array.n_buffers < count)
		return Status::OK();
	for (size_t i = 0; i < layout.buffers.size(); i++) {
		const auto &spec = layout.buffers[i];
		bool offsets = i == 1 && (texts || arrow::is_var_length_list(type.id()));
		int64_t needed = 0;

		if (spec.kind == DataTypeLayout::BITMAP)
			needed = arrow::bit_util::BytesForBits(n);
		else if (spec.kind == DataTypeLayout::FIXED_WIDTH && spec.byte_width > 0 &&
			 n < ELEMENTS_MOST / spec.byte_width)
			needed = (n + offsets) * spec.byte_width;
		else if (spec.kind == DataTypeLayout::FIXED_WIDTH && spec.byte_width > 0)
			return Fail(-EBADMSG, "%s has %" PRId64 " values",
				    type.ToString().c_str(), n);
		if (array.length)
			ARROW_RETURN_NOT_OK(Ends(array, i, needed, type));
	}
	if (views)
		return Views(array, type);
	return texts ? Texts(array, type) : Status::OK();
}

/* The type that the buffers are of. */
const DataType &StorageOf(const DataType &type)
{
	const DataType *storage = &type;

	if (type.id() == arrow::Type::EXTENSION)
		storage = static_cast<const arrow::ExtensionType &>(type).storage_type().get();
	return *storage;
}

Status Look::Array(const struct ArrowArray *array, const DataType &given, int depth)
{
	const DataType &type = StorageOf(given);
	bool coded = type.id() == arrow::Type::DICTIONARY;

	if (!array)
		return Fail(-EBADMSG, "%s has a child that is NULL", type.ToString().c_str());
	if (!IsReadable(array, sizeof(*array), true))
		return NotThere("array", array, sizeof(*array));
	if (!array->release)
		return Fail(-EINVAL, "an array has ended already");
	if (depth > DEPTH_MOST || ++nodes_ > NODES_MOST)
		return Fail(-EBADMSG, "an array is nested deeper than %d", DEPTH_MOST);
	ARROW_RETURN_NOT_OK(Numbers(*array, type));
	ARROW_RETURN_NOT_OK(
		CheckPointers("buffers", array->buffers, array->n_buffers, VARIADIC_MOST));
	ARROW_RETURN_NOT_OK(
		CheckPointers("children", array->children, array->n_children, NODES_MOST));
	if (array->n_children != type.num_fields() || coded != !!array->dictionary)
		return Fail(-EBADMSG, "%s has %" PRId64 " children and %s dictionary",
			    type.ToString().c_str(), array->n_children,
			    array->dictionary ? "a" : "no");
	ARROW_RETURN_NOT_OK(Buffers(*array, type));
	for (int i = 0; i < type.num_fields(); i++)
		ARROW_RETURN_NOT_OK(
			Array(array->children[i], *type.field(i)->type(), depth + 1));
	if (!coded)
		return Status::OK();
	return Array(array->dictionary,
		     *static_cast<const arrow::DictionaryType &>(type).value_type(), depth + 1);
}

void EndShielded(struct ArrowArray *array)
{
	auto *given = static_cast<struct ArrowArray *>(array->private_data);

	array->release = nullptr;
	Quietly([&]() {
		if (given->release)
			given->release(given);
	});
	delete given;
}

} /* namespace */

bool IsReadable(const void *pointer, int64_t n, bool all_pages)
{
	std::array<struct iovec, AT_A_TIME> remote;
	std::array<char, AT_A_TIME> room;
	auto begin = reinterpret_cast<uintptr_t>(pointer);
	uintptr_t last = begin + static_cast<uintptr_t>(n) - 1, at = begin;
	size_t count;

	if (n <= 0)
		return true;
	if (last < begin)
		return false;
	for (bool more = true; more;) {
		for (count = 0; more && count < AT_A_TIME; count++) {
			remote[count] = { reinterpret_cast<void *>(at), 1 };
			more = at != last;
			at = all_pages ? std::min(last, (at | (PAGE - 1)) + 1) : last;
		}
		struct iovec local = { room.data(), count };
		ssize_t got = process_vm_readv(getpid(), &local, 1, remote.data(), count, 0);

		if (got < 0 && (errno == ENOSYS || errno == EPERM))
			return true;
		if (got != static_cast<ssize_t>(count))
			return false;
	}
	return true;
}

Status CheckGiven(const struct ArrowSchema &schema)
{
	int64_t nodes = 0;

	return CheckSchema(&schema, 0, &nodes);
}

Status CheckGiven(const struct ArrowArray &array, const DataType &type)
{
	return Look().Array(&array, type, 0);
}

void Shield(struct ArrowArray *array)
{
	auto *given = new struct ArrowArray(*array);

	array->release = EndShielded;
	array->private_data = given;
}

} /* namespace hetmap */
