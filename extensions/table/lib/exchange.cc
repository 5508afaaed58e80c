// SPDX-License-Identifier: MIT
/* Exchange: tables leave by the Arrow C stream and device interfaces. */
#include <type_traits>

#include <arrow/array/util.h>
#include <arrow/c/bridge.h>
#include <arrow/table.h>

#include "table.hh"

namespace hetmap
{

Status BatchesOf(const std::shared_ptr<arrow::Schema> &schema,
		 const std::vector<std::deque<Chunk>> &columns, arrow::RecordBatchVector *ret)
{
	arrow::ChunkedArrayVector whole;
	std::shared_ptr<arrow::RecordBatch> batch;

	for (size_t i = 0; i < columns.size(); i++) {
		arrow::ArrayVector arrays;

		for (const auto &chunk : columns[i])
			arrays.push_back(arrow::MakeArray(chunk.data));
		whole.push_back(std::make_shared<arrow::ChunkedArray>(
			arrays, schema->field(static_cast<int>(i))->type()));
	}
	auto table = arrow::Table::Make(schema, whole);

	ARROW_RETURN_NOT_OK(table->Validate());
	arrow::TableBatchReader reader(*table);

	for (;;) {
		ARROW_RETURN_NOT_OK(reader.ReadNext(&batch));
		if (!batch)
			return Status::OK();
		ret->insert(ret->begin(), batch);
	}
}

namespace
{

/* A stream that left: the next group is made when it is asked for. */
struct Leaving {
	explicit Leaving(struct hm_table *given) : table(hm_table_ref(given))
	{
		groups = table->Kept();
		for (int i = 0; i < table->schema->num_fields(); i++)
			numbers.push_back(static_cast<uint32_t>(i));
	}
	~Leaving()
	{
		hm_table_unref(table);
	}
	Status Next(std::shared_ptr<arrow::RecordBatch> *ret);

	struct hm_table *table;
	std::vector<size_t> groups;
	std::vector<uint32_t> numbers;
	size_t next = 0;
	arrow::RecordBatchVector ready; /* of one group, last first */
	std::string error;
};

Status Leaving::Next(std::shared_ptr<arrow::RecordBatch> *ret)
{
	ARROW_RETURN_NOT_OK(table->Owned());
	while (ready.empty() && next < groups.size()) {
		std::vector<std::deque<Chunk>> columns;

		ARROW_RETURN_NOT_OK(table->Load(numbers, { groups[next] }, table->NewPool(),
						true, &columns));
		next++;
		ARROW_RETURN_NOT_OK(BatchesOf(table->schema, columns, &ready));
	}
	if (ready.empty()) {
		*ret = nullptr;
		return Status::OK();
	}
	*ret = ready.back();
	ready.pop_back();
	return Status::OK();
}

Status ExportBatch(const arrow::RecordBatch &batch, struct ArrowArray *out)
{
	return arrow::ExportRecordBatch(batch, out);
}

Status ExportBatch(const arrow::RecordBatch &batch, struct ArrowDeviceArray *out)
{
	return arrow::ExportDeviceRecordBatch(batch, nullptr, out);
}

/* No batch follows. */
void SetEnd(struct ArrowArray *out)
{
	*out = {};
}

void SetEnd(struct ArrowDeviceArray *out)
{
	*out = {};
	out->device_type = ARROW_DEVICE_CPU;
}

/* What a function of a stream answers: a positive errno, and a text. */
template <typename Stream, typename F> int Answer(Stream *stream, const F &work) noexcept
{
	auto *leaving = static_cast<Leaving *>(stream->private_data);

	try {
		Status status = Caught([&]() -> Status { return work(leaving); });

		leaving->error = TextOf(status);
		return -ErrnoOf(status);
	} catch (...) {
		return ENOMEM;
	}
}

template <typename Stream> int GetSchema(Stream *stream, struct ArrowSchema *out)
{
	return Answer(stream, [&](Leaving *leaving) {
		return arrow::ExportSchema(*leaving->table->schema, out);
	});
}

template <typename Stream, typename Array> int GetNext(Stream *stream, Array *out)
{
	return Answer(stream, [&](Leaving *leaving) -> Status {
		std::shared_ptr<arrow::RecordBatch> batch;

		ARROW_RETURN_NOT_OK(leaving->Next(&batch));
		if (batch)
			return ExportBatch(*batch, out);
		SetEnd(out);
		return Status::OK();
	});
}

template <typename Stream> const char *GetLastError(Stream *stream)
{
	auto *leaving = static_cast<Leaving *>(stream->private_data);

	return leaving->error.empty() ? nullptr : leaving->error.c_str();
}

template <typename Stream> void Release(Stream *stream)
{
	auto *leaving = static_cast<Leaving *>(stream->private_data);

	stream->release = nullptr;
	Quietly([&]() { delete leaving; });
}

template <typename Stream, typename Array>
Status Leave(struct hm_table *table, Stream *ret_stream)
{
	struct ArrowSchema schema = {};
	Stream stream = {};

	if (!table || !ret_stream)
		return Fail(-EINVAL, "an export needs a table, and a place for its stream");
	ARROW_RETURN_NOT_OK(table->Owned());
	/* A type without a name in the interface is refused here, not by the reader. */
	ARROW_RETURN_NOT_OK(arrow::ExportSchema(*table->schema, &schema));
	schema.release(&schema);
	if constexpr (std::is_same_v<Stream, struct ArrowDeviceArrayStream>)
		stream.device_type = ARROW_DEVICE_CPU;
	stream.get_schema = GetSchema<Stream>;
	stream.get_next = GetNext<Stream, Array>;
	stream.get_last_error = GetLastError<Stream>;
	stream.release = Release<Stream>;
	stream.private_data = new Leaving(table);
	*ret_stream = stream;
	return Status::OK();
}

} /* namespace */

} /* namespace hetmap */

using namespace hetmap;

int hm_table_export(struct hm_table *table, struct ArrowArrayStream *ret_stream)
{
	return Door([&]() {
		return Leave<struct ArrowArrayStream, struct ArrowArray>(table, ret_stream);
	});
}

int hm_table_export_device(struct hm_table *table, struct ArrowDeviceArrayStream *ret_stream)
{
	return Door([&]() {
		return Leave<struct ArrowDeviceArrayStream, struct ArrowDeviceArray>(
			table, ret_stream);
	});
}
