// SPDX-License-Identifier: MIT
/* Queries: what a table is, and what was done with it so far. */
#include <cinttypes>

#include <arrow/c/bridge.h>

#include "table.hh"

using namespace hetmap;

namespace
{

uint64_t Known(int64_t n)
{
	return n < 0 ? HM_TABLE_UNKNOWN : static_cast<uint64_t>(n);
}

Status CheckColumn(const struct hm_table &table, uint32_t column)
{
	if (column >= static_cast<uint32_t>(table.schema->num_fields()))
		return Fail(-ERANGE, "column %u of a table of %d columns", column,
			    table.schema->num_fields());
	return Status::OK();
}

Status CheckGroup(const struct hm_table &table, uint64_t group)
{
	if (group >= table.groups.size())
		return Fail(-ERANGE, "group %" PRIu64 " of a table of %zu groups", group,
			    table.groups.size());
	return Status::OK();
}

/* Rows of the groups that are not skipped; -1: not known. */
Result<int64_t> CountRows(const struct hm_table &table)
{
	int64_t rows = 0;

	for (size_t i = 0; i < table.groups.size(); i++) {
		const GroupAt &at = table.groups[i];

		if (at.skipped)
			continue;
		Source &source = *table.sources[at.source];
		auto facts = Caught([&]() { return source.Facts(at.in_source); });

		ARROW_RETURN_NOT_OK(table.Located(i, {}, facts.status()));
		if (facts->rows < 0)
			return -1;
		if (facts->rows > INT64_MAX - rows)
			return Fail(-EBADMSG, "%s has %" PRId64 " rows behind %" PRId64,
				    source.where().c_str(), facts->rows, rows);
		rows += facts->rows;
	}
	return rows;
}

} /* namespace */

int hm_table_query(struct hm_table *table, struct hm_table_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_info info = {};

		if (!table || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a table, and a place for its facts");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_ASSIGN_OR_RAISE(int64_t rows, CountRows(*table));
		info.format = table->sources[0]->format();
		info.columns = static_cast<uint32_t>(table->schema->num_fields());
		info.rows = Known(rows);
		info.groups = table->groups.size();
		for (const auto &at : table->groups)
			info.skipped += at.skipped;
		for (const auto &source : table->sources) {
			auto disk = source->disk();

			info.files += disk ? 1 : 0;
			info.stored += disk ? static_cast<uint64_t>(disk->size()) : 0;
			info.bytes_read += disk ? static_cast<uint64_t>(disk->bytes_read()) : 0;
		}
		info.bytes_decoded = table->decoded;
		info.bytes_placed = table->placed;
		info.memory = static_cast<uint64_t>(table->memory->used.now());
		info.peak = static_cast<uint64_t>(table->memory->used.peak());
		info.limit = static_cast<uint64_t>(table->memory->limit());
		info.threads = table->threads;
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

int hm_table_file(struct hm_table *table, uint32_t file, struct hm_table_file_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_file_info info = {};

		if (!table || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a table, and a place for its facts");
		ARROW_RETURN_NOT_OK(table->Owned());
		if (file >= table->sources.size() || !table->sources[file]->disk())
			return Fail(-ERANGE, "file %u of a table of %zu files", file,
				    table->sources[0]->disk() ? table->sources.size() : 0);
		Source &source = *table->sources[file];
		auto disk = source.disk();
		auto rows = source.Rows();
		auto mapping = disk->mapping();

		ARROW_RETURN_NOT_OK(At(source.where(), rows.status()));
		info.format = source.format();
		info.path = disk->path().c_str();
		info.map = mapping ? mapping->map() : nullptr;
		info.why = table->source_texts[file].why.c_str();
		info.creator = table->source_texts[file].creator.c_str();
		info.size = static_cast<uint64_t>(disk->size());
		info.first_group = table->first_group[file];
		info.groups = static_cast<uint64_t>(source.groups());
		info.rows = Known(*rows);
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

int hm_table_field(struct hm_table *table, uint32_t column,
		   struct hm_table_field_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_field_info info = {};

		if (!table || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a table, and a place for its facts");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_RETURN_NOT_OK(CheckColumn(*table, column));
		const auto &field = table->schema->field(static_cast<int>(column));

		info.nullable = field->nullable();
		info.name = field->name().c_str();
		info.type = table->column_texts[column].type.c_str();
		info.format = table->column_texts[column].format.c_str();
		info.bits = BitsOf(*field->type());
		info.children = static_cast<uint32_t>(field->type()->num_fields());
		info.dictionary = field->type()->id() == arrow::Type::DICTIONARY;
		info.in_place = table->sources[0]->in_place();
		info.why = table->column_texts[column].why.c_str();
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

int hm_table_find(struct hm_table *table, const char *name, uint32_t *ret_column)
{
	return Door([&]() -> Status {
		if (!table || !name || !ret_column)
			return Fail(-EINVAL, "a search needs a table, a name, and a place");
		ARROW_RETURN_NOT_OK(table->Owned());
		int least = INT32_MAX;

		for (int index : table->schema->GetAllFieldIndices(name))
			least = std::min(least, index);
		if (least == INT32_MAX)
			return Fail(-ENOENT, "the table has no column '%s'", name);
		*ret_column = static_cast<uint32_t>(least);
		return Status::OK();
	});
}

int hm_table_schema(struct hm_table *table, struct ArrowSchema *ret_schema)
{
	return Door([&]() -> Status {
		struct ArrowSchema schema = {};

		if (!table || !ret_schema)
			return Fail(-EINVAL, "a schema needs a table, and a place for it");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_RETURN_NOT_OK(arrow::ExportSchema(*table->schema, &schema));
		*ret_schema = schema;
		return Status::OK();
	});
}

int hm_table_group(struct hm_table *table, uint64_t group, struct hm_table_group_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_group_info info = {};

		if (!table || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a table, and a place for its facts");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_RETURN_NOT_OK(CheckGroup(*table, group));
		const GroupAt &at = table->groups[group];
		auto facts = Caught(
			[&]() { return table->sources[at.source]->Facts(at.in_source); });

		ARROW_RETURN_NOT_OK(table->Located(group, {}, facts.status()));
		info.file = at.source;
		info.in_file = static_cast<uint64_t>(at.in_source);
		info.first_row = Known(facts->first_row);
		info.rows = Known(facts->rows);
		info.stored = static_cast<uint64_t>(facts->stored);
		info.plain = static_cast<uint64_t>(facts->plain);
		info.skipped = at.skipped;
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

int hm_table_stored(struct hm_table *table, uint64_t group, uint32_t column,
		    struct hm_table_stored_info *ret_info)
{
	static thread_local Stored stored; /* which the result points into */

	return Door([&]() -> Status {
		struct hm_table_stored_info info = {};

		if (!table || !ret_info)
			return Fail(-EINVAL,
				    "a query needs a table, and a place for its facts");
		ARROW_RETURN_NOT_OK(table->Owned());
		ARROW_RETURN_NOT_OK(CheckGroup(*table, group));
		ARROW_RETURN_NOT_OK(CheckColumn(*table, column));
		const GroupAt &at = table->groups[group];
		auto described = Caught([&]() {
			return table->sources[at.source]->Describe(
				at.in_source, table->fields[at.source][column]);
		});

		ARROW_RETURN_NOT_OK(At(table->Where(group, { column }), described.status()));
		stored = std::move(*described);
		info.in_place = stored.in_place;
		info.why = stored.why.c_str();
		info.codec = stored.codec.c_str();
		info.encodings = stored.encodings.c_str();
		info.min = stored.has_range ? stored.min.c_str() : nullptr;
		info.max = stored.has_range ? stored.max.c_str() : nullptr;
		info.stored = static_cast<uint64_t>(stored.stored);
		info.plain = static_cast<uint64_t>(stored.plain);
		info.nulls = Known(stored.nulls);
		info.values = static_cast<uint64_t>(stored.values);
		return GiveInfo(ret_info, &info, sizeof(info));
	});
}

struct hm_table *hm_table_ref(struct hm_table *table)
{
	if (table)
		table->Hold();
	return table;
}

void hm_table_unref(struct hm_table *table)
{
	if (table && table->Drop())
		Quietly([&]() { delete table; });
}

const char *hm_table_format_name(uint32_t format)
{
	static const char *const names[] = {
		nullptr, "arrow", "arrow-stream", "parquet", "csv", "memory",
	};

	return format < sizeof(names) / sizeof(names[0]) ? names[format] : nullptr;
}
