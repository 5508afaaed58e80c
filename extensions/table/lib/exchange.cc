// SPDX-License-Identifier: MIT
/* Exchange: tables leave and enter by the Arrow C stream and device interfaces. */
#include <cinttypes>
#include <cstring>
#include <type_traits>

#include <arrow/array/util.h>
#include <arrow/c/bridge.h>
#include <arrow/device.h>
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
template <typename Stream>
int Answer(Stream *stream, const std::function<Status(Leaving *)> &work) noexcept
{
	auto *leaving = static_cast<Leaving *>(stream->private_data);

	try {
		Status status = work(leaving);

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

/* CPUs reach memory of these kinds. */
bool CpuReaches(ArrowDeviceType type)
{
	return type == ARROW_DEVICE_CPU || type == ARROW_DEVICE_CUDA_HOST ||
	       type == ARROW_DEVICE_ROCM_HOST;
}

Status CheckDevice(ArrowDeviceType type)
{
	if (!CpuReaches(type))
		return Fail(
			-EOPNOTSUPP,
			"the table is on a device of type %d, whose memory CPUs do not reach: "
			"copy it to the CPU first",
			type);
	return Status::OK();
}

/* Memory that CPUs reach is the CPU's. */
Result<std::shared_ptr<arrow::MemoryManager>> AsCpu(ArrowDeviceType type, int64_t)
{
	ARROW_RETURN_NOT_OK(CheckDevice(type));
	return arrow::default_cpu_memory_manager();
}

/* What the interfaces hand over ends here, whatever happens. */
template <typename T> struct Taken {
	explicit Taken(T *given) : object(given)
	{
	}
	~Taken()
	{
		if (object && Releaser())
			Releaser()(object);
	}
	auto Releaser() -> void (*&)(T *)
	{
		return object->release;
	}
	T *object;
};

struct TakenArray {
	explicit TakenArray(struct ArrowDeviceArray *given) : object(given)
	{
	}
	~TakenArray()
	{
		if (object && object->array.release)
			object->array.release(&object->array);
	}
	struct ArrowDeviceArray *object;
};

Status MakeImported(std::shared_ptr<arrow::Schema> schema, arrow::RecordBatchVector batches,
		    const struct hm_table_desc &desc, std::shared_ptr<Memory> memory,
		    struct hm_table **ret_table)
{
	std::vector<std::unique_ptr<Source>> sources;

	ARROW_ASSIGN_OR_RAISE(auto source, OpenMemory(std::move(schema), std::move(batches)));
	sources.push_back(std::move(source));
	return Assemble(std::move(sources), desc, std::move(memory), ret_table);
}

/* A failure of another library's stream is no broken file. */
Status OfStream(const Status &status)
{
	if (status.ok() || ErrnoOf(status) == -EOPNOTSUPP)
		return status;
	return Fail(-EIO, "the stream failed: %s", TextOf(status).c_str());
}

template <typename Stream>
Status Enter(Stream *stream, const struct hm_table_desc *given,
	     Result<std::shared_ptr<arrow::RecordBatchReader>> (*import)(Stream *),
	     struct hm_table **ret_table)
{
	Taken<Stream> taken(stream);
	std::shared_ptr<Memory> memory;
	struct hm_table_desc desc;
	arrow::RecordBatchVector batches;

	if (!stream || !ret_table)
		return Fail(-EINVAL, "an import needs a stream, and a place for its table");
	if (!stream->release)
		return Fail(-EINVAL, "the stream has ended already");
	ARROW_RETURN_NOT_OK(TakeTableDesc(given, &desc, &memory));
	auto reader = import(stream);

	ARROW_RETURN_NOT_OK(reader.status());
	for (;;) {
		std::shared_ptr<arrow::RecordBatch> batch;

		ARROW_RETURN_NOT_OK(OfStream((*reader)->ReadNext(&batch)));
		if (!batch)
			break;
		ARROW_RETURN_NOT_OK(batch->Validate());
		batches.push_back(batch);
	}
	return MakeImported((*reader)->schema(), std::move(batches), desc, memory, ret_table);
}

Result<std::shared_ptr<arrow::RecordBatchReader>> ImportStream(struct ArrowArrayStream *stream)
{
	return arrow::ImportRecordBatchReader(stream);
}

/* libarrow does not wait for events of memory of CPUs, nor does it refuse them. */
Status CheckEvent(const struct ArrowDeviceArray &array)
{
	if (array.sync_event)
		return Fail(-EOPNOTSUPP, "the array has an event to wait for: wait first");
	return Status::OK();
}

/* The arrays of a device stream, each looked at before libarrow takes it. */
class DeviceReader : public arrow::RecordBatchReader
{
      public:
	explicit DeviceReader(struct ArrowDeviceArrayStream *stream) : stream_(stream)
	{
	}
	Status Begin()
	{
		struct ArrowSchema schema = {};

		ARROW_RETURN_NOT_OK(OfStream(Answered(stream_->get_schema(stream_, &schema))));
		return arrow::ImportSchema(&schema).Value(&schema_);
	}
	std::shared_ptr<arrow::Schema> schema() const override
	{
		return schema_;
	}
	Status ReadNext(std::shared_ptr<arrow::RecordBatch> *out) override
	{
		struct ArrowDeviceArray array = {};
		TakenArray taken(&array);

		*out = nullptr;
		ARROW_RETURN_NOT_OK(Answered(stream_->get_next(stream_, &array)));
		if (!array.array.release)
			return Status::OK();
		ARROW_RETURN_NOT_OK(CheckEvent(array));
		ARROW_RETURN_NOT_OK(CheckDevice(array.device_type));
		return arrow::ImportDeviceRecordBatch(&array, schema_, AsCpu).Value(out);
	}

      private:
	Status Answered(int r)
	{
		const char *text = r ? stream_->get_last_error(stream_) : nullptr;

		return r ? Fail(-EIO, "%s", text ? text : std::strerror(r)) : Status::OK();
	}

	struct ArrowDeviceArrayStream *stream_; /* which the caller of the import ends */
	std::shared_ptr<arrow::Schema> schema_;
};

Result<std::shared_ptr<arrow::RecordBatchReader>>
ImportDeviceStream(struct ArrowDeviceArrayStream *stream)
{
	ARROW_RETURN_NOT_OK(CheckDevice(stream->device_type));
	auto reader = std::make_shared<DeviceReader>(stream);

	ARROW_RETURN_NOT_OK(reader->Begin());
	return reader;
}

/* One array: a struct is a batch of columns, anything else one column. */
Result<std::shared_ptr<arrow::RecordBatch>> ImportOne(struct ArrowSchema *schema,
						      struct ArrowDeviceArray *array)
{
	ARROW_ASSIGN_OR_RAISE(auto field, arrow::ImportField(schema));

	if (field->type()->id() == arrow::Type::STRUCT)
		return arrow::ImportDeviceRecordBatch(
			array, arrow::schema(field->type()->fields(), field->metadata()),
			AsCpu);
	ARROW_ASSIGN_OR_RAISE(auto column,
			      arrow::ImportDeviceArray(array, field->type(), AsCpu));
	return arrow::RecordBatch::Make(arrow::schema({ field }), column->length(), { column });
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

int hm_table_import(struct ArrowArrayStream *stream, const struct hm_table_desc *desc,
		    struct hm_table **ret_table)
{
	return Door([&]() { return Enter(stream, desc, ImportStream, ret_table); });
}

int hm_table_import_device(struct ArrowDeviceArrayStream *stream,
			   const struct hm_table_desc *desc, struct hm_table **ret_table)
{
	return Door([&]() { return Enter(stream, desc, ImportDeviceStream, ret_table); });
}

int hm_table_import_array(struct ArrowSchema *schema, struct ArrowDeviceArray *array,
			  const struct hm_table_desc *given, struct hm_table **ret_table)
{
	return Door([&]() -> Status {
		Taken<struct ArrowSchema> schema_taken(schema);
		TakenArray array_taken(array);
		std::shared_ptr<Memory> memory;
		struct hm_table_desc desc;

		if (!schema || !array || !ret_table)
			return Fail(-EINVAL, "an import needs a schema, an array, and a place");
		if (!schema->release || !array->array.release)
			return Fail(-EINVAL, "the schema or the array has ended already");
		ARROW_RETURN_NOT_OK(CheckEvent(*array));
		ARROW_RETURN_NOT_OK(CheckDevice(array->device_type));
		ARROW_RETURN_NOT_OK(TakeTableDesc(given, &desc, &memory));
		ARROW_ASSIGN_OR_RAISE(auto batch, ImportOne(schema, array));
		ARROW_RETURN_NOT_OK(batch->Validate());
		return MakeImported(batch->schema(), { batch }, desc, memory, ret_table);
	});
}
