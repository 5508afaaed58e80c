// SPDX-License-Identifier: MIT
/*
 * Entering: tables of other libraries, by the Arrow C data, stream and device interfaces.
 *
 * Nothing that the other library hands over is trusted: its structs are looked at first
 * (given.hh), and its exceptions end at the functions below. Its functions run in this process:
 * a signal in one of them is its own.
 */
#include <cstring>
#include <type_traits>

#include <arrow/array/util.h>
#include <arrow/c/bridge.h>
#include <arrow/device.h>

#include "check.hh"
#include "given.hh"
#include "table.hh"

namespace hetmap
{

namespace
{

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

/* libarrow does not wait for events of memory of CPUs, nor does it refuse them. */
Status CheckEvent(const struct ArrowDeviceArray &array)
{
	if (array.sync_event)
		return Fail(-EOPNOTSUPP, "the array has an event to wait for: wait first");
	return Status::OK();
}

/* A failure of another library's stream is no broken file. */
Status OfStream(const Status &status)
{
	if (status.ok() || ErrnoOf(status) == -EOPNOTSUPP)
		return status;
	return Fail(-EIO, "the stream failed: %s", TextOf(status).c_str());
}

/* What the interfaces hand over ends here, whatever happens. */
template <typename T> struct Taken {
	explicit Taken(T *given) : object(given)
	{
	}
	~Taken()
	{
		if (object && object->release)
			Quietly([&]() { object->release(object); });
	}
	T *object;
};

struct ArrowArray *ArrayOf(struct ArrowArray *given)
{
	return given;
}

struct ArrowArray *ArrayOf(struct ArrowDeviceArray *given)
{
	return given ? &given->array : nullptr;
}

/* A schema as libarrow has it. The given one is the caller's to end. */
Result<std::shared_ptr<arrow::Field>> FieldOf(const struct ArrowSchema &schema)
{
	struct ArrowSchema seen = schema;

	ARROW_RETURN_NOT_OK(CheckGiven(schema));
	/* libarrow copies all of it, and would end it where no exception may pass. */
	seen.release = [](struct ArrowSchema *ended) { ended->release = nullptr; };
	return arrow::ImportField(&seen);
}

Result<std::shared_ptr<arrow::Schema>> SchemaOf(const struct ArrowSchema &schema)
{
	ARROW_ASSIGN_OR_RAISE(auto field, FieldOf(schema));
	if (field->type()->id() != arrow::Type::STRUCT)
		return Fail(-EBADMSG, "the schema is %s, and no struct of columns",
			    field->type()->ToString().c_str());
	return arrow::schema(field->type()->fields(), field->metadata());
}

/* Takes @array over where it succeeds. */
Result<std::shared_ptr<arrow::Array>> ArrayFrom(struct ArrowArray *array,
						const std::shared_ptr<arrow::DataType> &type)
{
	ARROW_RETURN_NOT_OK(CheckGiven(*array, *type));
	Shield(array);
	return arrow::ImportArray(array, type);
}

Result<std::shared_ptr<arrow::Array>> ArrayFrom(struct ArrowDeviceArray *array,
						const std::shared_ptr<arrow::DataType> &type)
{
	ARROW_RETURN_NOT_OK(CheckEvent(*array));
	ARROW_RETURN_NOT_OK(CheckDevice(array->device_type));
	ARROW_RETURN_NOT_OK(CheckGiven(array->array, *type));
	Shield(&array->array);
	return arrow::ImportDeviceArray(array, type, AsCpu);
}

/* A struct is a batch of columns. Its rows that are missing as a whole have no place in one. */
Result<std::shared_ptr<arrow::RecordBatch>> BatchOf(const std::shared_ptr<arrow::Array> &array,
						    std::shared_ptr<arrow::Schema> schema)
{
	/* The lengths first: the other checks of libarrow rely on them. */
	ARROW_RETURN_NOT_OK(CheckLengths(*array->data(), nullptr));
	if (array->null_count())
		return Fail(-EBADMSG, "%lld rows of the struct are missing",
			    static_cast<long long>(array->null_count()));
	ARROW_ASSIGN_OR_RAISE(auto batch, arrow::RecordBatch::FromStructArray(array));
	batch = arrow::RecordBatch::Make(std::move(schema), batch->num_rows(),
					 batch->columns());
	ARROW_RETURN_NOT_OK(batch->Validate());
	return batch;
}

/* The batches of a stream of either interface. */
template <typename Stream, typename Array> class Entering
{
      public:
	explicit Entering(Stream *stream) : stream_(stream)
	{
	}
	Status Begin();
	/* NULL: there are no more. */
	Result<std::shared_ptr<arrow::RecordBatch>> Next();
	const std::shared_ptr<arrow::Schema> &schema() const
	{
		return schema_;
	}

      private:
	Status Answered(int r);

	Stream *stream_; /* which the caller of the import ends */
	std::shared_ptr<arrow::Schema> schema_;
};

template <typename Stream, typename Array> Status Entering<Stream, Array>::Answered(int r)
{
	const char *text = r ? stream_->get_last_error(stream_) : nullptr;

	if (text && !IsReadable(text, 1, true))
		text = "its error has no text";
	return r ? Fail(-EIO, "%s", text ? text : std::strerror(r)) : Status::OK();
}

template <typename Stream, typename Array> Status Entering<Stream, Array>::Begin()
{
	struct ArrowSchema schema = {};
	Taken<struct ArrowSchema> taken(&schema);

	if (!stream_->get_schema || !stream_->get_next || !stream_->get_last_error)
		return Fail(-EINVAL, "the stream lacks one of its functions");
	ARROW_RETURN_NOT_OK(OfStream(Answered(stream_->get_schema(stream_, &schema))));
	if (!schema.release)
		return Fail(-EBADMSG, "the stream gave no schema");
	return SchemaOf(schema).Value(&schema_);
}

template <typename Stream, typename Array>
Result<std::shared_ptr<arrow::RecordBatch>> Entering<Stream, Array>::Next()
{
	Array array = {};
	Taken<struct ArrowArray> taken(ArrayOf(&array));

	ARROW_RETURN_NOT_OK(OfStream(Answered(stream_->get_next(stream_, &array))));
	if (!ArrayOf(&array)->release)
		return nullptr;
	ARROW_ASSIGN_OR_RAISE(auto columns,
			      ArrayFrom(&array, arrow::struct_(schema_->fields())));
	return BatchOf(columns, schema_);
}

Status MakeImported(std::shared_ptr<arrow::Schema> schema, arrow::RecordBatchVector batches,
		    const struct hm_table_desc &desc, std::shared_ptr<Memory> memory,
		    struct hm_table **ret_table)
{
	std::vector<std::unique_ptr<Source>> sources;

	ARROW_ASSIGN_OR_RAISE(auto source, OpenMemory(std::move(schema), std::move(batches)));
	sources.push_back(std::move(source));
	return Assemble(std::move(sources), desc, std::move(memory), ret_table);
}

template <typename Array, typename Stream>
Status Enter(Stream *stream, const struct hm_table_desc *given, struct hm_table **ret_table)
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
	if constexpr (std::is_same_v<Stream, struct ArrowDeviceArrayStream>)
		ARROW_RETURN_NOT_OK(CheckDevice(stream->device_type));
	Entering<Stream, Array> entering(stream);

	ARROW_RETURN_NOT_OK(entering.Begin());
	for (;;) {
		auto batch = Caught([&]() { return entering.Next(); });

		ARROW_RETURN_NOT_OK(
			At("batch " + std::to_string(batches.size()), batch.status()));
		if (!*batch)
			break;
		batches.push_back(std::move(*batch));
	}
	return MakeImported(entering.schema(), std::move(batches), desc, memory, ret_table);
}

/* One array: a struct is a batch of columns, anything else one column. */
Result<std::shared_ptr<arrow::RecordBatch>> EnterOne(const struct ArrowSchema &schema,
						     struct ArrowDeviceArray *array)
{
	ARROW_ASSIGN_OR_RAISE(auto field, FieldOf(schema));
	ARROW_ASSIGN_OR_RAISE(auto column, ArrayFrom(array, field->type()));

	if (field->type()->id() == arrow::Type::STRUCT)
		return BatchOf(column,
			       arrow::schema(field->type()->fields(), field->metadata()));
	ARROW_RETURN_NOT_OK(CheckLengths(*column->data(), nullptr));
	ARROW_RETURN_NOT_OK(column->Validate());
	return arrow::RecordBatch::Make(arrow::schema({ field }), column->length(), { column });
}

} /* namespace */

} /* namespace hetmap */

using namespace hetmap;

int hm_table_import(struct ArrowArrayStream *stream, const struct hm_table_desc *desc,
		    struct hm_table **ret_table)
{
	return Door([&]() { return Enter<struct ArrowArray>(stream, desc, ret_table); });
}

int hm_table_import_device(struct ArrowDeviceArrayStream *stream,
			   const struct hm_table_desc *desc, struct hm_table **ret_table)
{
	return Door([&]() { return Enter<struct ArrowDeviceArray>(stream, desc, ret_table); });
}

int hm_table_import_array(struct ArrowSchema *schema, struct ArrowDeviceArray *array,
			  const struct hm_table_desc *given, struct hm_table **ret_table)
{
	return Door([&]() -> Status {
		Taken<struct ArrowSchema> schema_taken(schema);
		Taken<struct ArrowArray> array_taken(ArrayOf(array));
		std::shared_ptr<Memory> memory;
		struct hm_table_desc desc;

		if (!schema || !array || !ret_table)
			return Fail(-EINVAL, "an import needs a schema, an array, and a place");
		if (!schema->release || !array->array.release)
			return Fail(-EINVAL, "the schema or the array has ended already");
		ARROW_RETURN_NOT_OK(CheckEvent(*array));
		ARROW_RETURN_NOT_OK(CheckDevice(array->device_type));
		ARROW_RETURN_NOT_OK(TakeTableDesc(given, &desc, &memory));
		ARROW_ASSIGN_OR_RAISE(auto batch, EnterOne(*schema, array));
		return MakeImported(batch->schema(), { batch }, desc, memory, ret_table);
	});
}
