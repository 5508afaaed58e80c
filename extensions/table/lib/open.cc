// SPDX-License-Identifier: MIT
/* Opening: files, a folder, or what stands in their place, become one table. */
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>

#include <arrow/c/bridge.h>

#include "table.hh"

namespace hetmap
{

namespace
{

constexpr uint32_t THREADS_MOST = 8; /* where the caller leaves it to the library */
constexpr uint32_t THREADS_LIMIT = 64;
constexpr uint32_t FLAGS = HM_TABLE_READ | HM_TABLE_CHECK | HM_TABLE_DICTIONARY |
			   HM_TABLE_CSV_NO_HEADER | HM_TABLE_SHAREABLE | HM_TABLE_CSV_WHOLE;

using Opener = Result<std::unique_ptr<Source>> (*)(std::shared_ptr<Disk>, const OpenHow &);

const struct {
	uint32_t format;
	Opener open;
} openers[] = {
	{ HM_TABLE_ARROW, OpenArrow },
	{ HM_TABLE_ARROW_STREAM, OpenStream },
	{ HM_TABLE_PARQUET, OpenParquet },
	{ HM_TABLE_CSV, OpenCsv },
};

} /* namespace */

Result<std::unique_ptr<Source>> OpenSource(const std::string &path, uint32_t format,
					   const OpenHow &how)
{
	ARROW_ASSIGN_OR_RAISE(auto disk, Disk::Open(path));
	if (format == HM_TABLE_AUTO)
		ARROW_RETURN_NOT_OK(FormatOf(*disk, &format));
	for (const auto &opener : openers)
		if (opener.format == format)
			return opener.open(disk, how);
	return Fail(-EINVAL, "format %u of a file is unknown", format);
}

Status FilesOf(const std::string &folder, std::vector<std::string> *ret)
{
	DIR *dir = opendir(folder.c_str());
	std::vector<std::string> paths;
	struct dirent *entry;
	struct stat st;

	if (!dir)
		return Fail(-errno, "%s: %s", folder.c_str(), std::strerror(errno));
	while ((entry = readdir(dir))) {
		std::string path = folder + "/" + entry->d_name;

		if (entry->d_name[0] == '.' || entry->d_name[0] == '_')
			continue;
		if (!stat(path.c_str(), &st) && S_ISREG(st.st_mode))
			paths.push_back(path);
	}
	closedir(dir);
	if (paths.empty())
		return Fail(-ENODATA, "%s has no files of a table", folder.c_str());
	std::sort(paths.begin(), paths.end());
	*ret = std::move(paths);
	return Status::OK();
}

namespace
{

Status PathsOf(const char *const *given, uint32_t n, std::vector<std::string> *ret)
{
	struct stat st;

	for (uint32_t i = 0; i < n; i++) {
		if (!given[i])
			return Fail(-EINVAL, "path %u of a table is NULL", i);
		ret->emplace_back(given[i]);
	}
	if (n == 1 && !stat(given[0], &st) && S_ISDIR(st.st_mode))
		return FilesOf(given[0], ret);
	return Status::OK();
}

uint32_t ThreadsOf(uint32_t asked)
{
	uint32_t n = std::thread::hardware_concurrency();

	if (asked)
		return asked;
	return std::clamp(n, 1u, THREADS_MOST);
}

/* The columns of the first source that the caller wants. */
Status Select(const arrow::Schema &schema, const struct hm_table_desc &desc,
	      const std::string &where, std::vector<int> *ret)
{
	if (!desc.columns) {
		for (int i = 0; i < schema.num_fields(); i++)
			ret->push_back(i);
		return Status::OK();
	}
	for (uint32_t i = 0; i < desc.n_columns; i++) {
		std::vector<int> found;

		if (!desc.columns[i])
			return Fail(-EINVAL, "column %u of a table is NULL", i);
		found = schema.GetAllFieldIndices(desc.columns[i]);
		if (found.empty())
			return Fail(-ENOENT, "%s has no column '%s'", where.c_str(),
				    desc.columns[i]);
		ret->push_back(*std::min_element(found.begin(), found.end()));
	}
	return Status::OK();
}

/* The fields of a name, in their order. */
std::vector<int> FieldsNamed(const arrow::Schema &schema, const std::string &name)
{
	auto found = schema.GetAllFieldIndices(name);

	std::sort(found.begin(), found.end());
	return found;
}

/* The fields @own of the first source in a further one, by their names. */
Status Match(const arrow::Schema &first, const std::vector<int> &own, Source &source,
	     std::vector<int> *ret)
{
	for (int number : own) {
		const auto &field = first.field(number);
		auto named = FieldsNamed(first, field->name());
		auto found = FieldsNamed(*source.schema(), field->name());
		/* Of columns with one name it is the first, the second and so on in both. */
		auto at = static_cast<size_t>(std::find(named.begin(), named.end(), number) -
					      named.begin());

		if (at >= found.size())
			return Fail(-EINVAL, "%s has no column '%s', which the first file has",
				    source.where().c_str(), field->name().c_str());
		int index = found[at];

		source.Adopt(index, field->type());
		auto type = source.schema()->field(index)->type();

		if (!type->Equals(*field->type()))
			return Fail(-EINVAL, "%s: column '%s' is %s, and %s in the first file",
				    source.where().c_str(), field->name().c_str(),
				    type->ToString().c_str(),
				    field->type()->ToString().c_str());
		ret->push_back(index);
	}
	return Status::OK();
}

/* Columns of the first file without a value have the type of a further file that has one. */
void AdoptTypes(const std::vector<std::unique_ptr<Source>> &sources)
{
	for (int i = 0; i < sources[0]->schema()->num_fields(); i++) {
		auto field = sources[0]->schema()->field(i);

		for (size_t k = 1; k < sources.size() && field->type()->id() == arrow::Type::NA;
		     k++) {
			auto other = sources[k]->schema()->GetFieldByName(field->name());

			if (other && other->type()->id() != arrow::Type::NA &&
			    sources[0]->Adopt(i, other->type()))
				break;
		}
	}
}

Status FiltersOf(const Source &source, const struct hm_table_desc &desc,
		 std::vector<Filter> *ret)
{
	for (uint32_t i = 0; i < desc.n_filters; i++) {
		const struct hm_table_filter &given = desc.filters[i];
		Filter filter = {};
		bool has_value = given.compare < HM_TABLE_NULL;

		if (!given.column || given.reserved || given.compare > HM_TABLE_NOT_NULL ||
		    (has_value && !given.value))
			return Fail(-EINVAL,
				    "filter %u has no column or value, or an unknown "
				    "comparison %u",
				    i, given.compare);
		auto found = source.schema()->GetAllFieldIndices(given.column);

		if (found.empty())
			return Fail(-ENOENT, "%s has no column '%s' for a filter",
				    source.where().c_str(), given.column);
		filter.field = *std::min_element(found.begin(), found.end());
		filter.compare = given.compare;
		if (has_value) {
			auto value = ParseValue(source.schema()->field(filter.field)->type(),
						given.value);

			ARROW_RETURN_NOT_OK(At(std::string("column '") + given.column + "'",
					       value.status()));
			filter.value = *value;
		}
		ret->push_back(filter);
	}
	return Status::OK();
}

Status AddGroups(struct hm_table *table, const struct hm_table_desc &desc, uint32_t number)
{
	Source &source = *table->sources[number];
	std::vector<Filter> filters;

	ARROW_RETURN_NOT_OK(FiltersOf(source, desc, &filters));
	table->first_group.push_back(table->groups.size());
	for (int64_t i = 0; i < source.groups(); i++) {
		auto skipped = Caught([&]() -> Result<bool> {
			return std::any_of(filters.begin(), filters.end(),
					   [&](const Filter &f) { return source.Skips(i, f); });
		});

		ARROW_RETURN_NOT_OK(At(source.where(), skipped.status()));
		table->groups.push_back({ number, i, *skipped });
	}
	return Status::OK();
}

/* The name of a type in the C data interface; "" where it has none. */
std::string FormatText(const arrow::DataType &type)
{
	struct ArrowSchema schema = {};
	std::string text;

	if (!arrow::ExportType(type, &schema).ok())
		return "";
	text = schema.format;
	schema.release(&schema);
	return text;
}

void MakeTexts(struct hm_table *table)
{
	for (const auto &field : table->schema->fields()) {
		hm_table::Texts texts;

		texts.type = field->type()->ToString();
		texts.format = FormatText(*field->type());
		texts.why = table->sources[0]->why();
		table->column_texts.push_back(texts);
	}
	for (const auto &source : table->sources) {
		hm_table::Texts texts;

		texts.why = source->why();
		texts.creator = source->creator();
		table->source_texts.push_back(texts);
	}
}

/* Opens the files, several at a time. The first one in their order that fails is the failure. */
Status OpenAll(const std::vector<std::string> &names, const struct hm_table_desc &desc,
	       const OpenHow &how, std::vector<std::unique_ptr<Source>> *ret)
{
	std::vector<Status> failures(names.size());
	std::vector<std::thread> threads;
	std::atomic<size_t> next{ 0 };
	std::atomic<bool> failed{ false };
	auto work = [&]() noexcept {
		for (size_t i; !failed && (i = next.fetch_add(1)) < names.size();) {
			/* Without memory for the failure, too, there is neither. */
			Quietly([&]() {
				failures[i] = Caught([&]() -> Status {
					return OpenSource(names[i], desc.format, how)
						.Value(&(*ret)[i]);
				});
			});
			if (!(*ret)[i])
				failed = true;
		}
	};
	size_t n = std::min<size_t>(ThreadsOf(desc.threads), names.size());

	ret->resize(names.size());
	{
		SignalsBlocked blocked;

		for (size_t i = 1; i < n; i++) {
			try {
				threads.emplace_back(work);
			} catch (const std::exception &) {
				break; /* those that are there do the work */
			}
		}
	}
	work();
	for (auto &thread : threads)
		thread.join();
	for (const auto &failure : failures)
		ARROW_RETURN_NOT_OK(failure);
	return failed ? Status::OutOfMemory("not enough memory is available") : Status::OK();
}

void TellWarnings(const struct hm_table &table)
{
	size_t more = 0;
	std::string first;

	for (const auto &source : table.sources) {
		std::string text = source->warning();

		if (text.empty())
			continue;
		if (first.empty())
			first = source->where() + ": " + text;
		else
			more++;
	}
	if (first.empty())
		return;
	Warn(more ? first + " (and in " + std::to_string(more) + " further files)" : first);
}

} /* namespace */

Status TakeDesc(const void *given, void *own, uint32_t size)
{
	uint32_t given_size, i;

	std::memcpy(&given_size, given, sizeof(given_size));
	if (given_size < sizeof(given_size))
		return Fail(-EINVAL, "struct_size is %u", given_size);
	for (i = size; i < given_size; i++)
		if (static_cast<const unsigned char *>(given)[i])
			return Fail(-E2BIG, "struct_size is %u, and this library knows %u",
				    given_size, size);
	std::memset(own, 0, size);
	std::memcpy(own, given, std::min(size, given_size));
	return Status::OK();
}

Status GiveInfo(void *given, const void *own, uint32_t size)
{
	uint32_t given_size;

	std::memcpy(&given_size, given, sizeof(given_size));
	if (given_size > size)
		return Fail(-E2BIG, "struct_size is %u, and this library knows %u", given_size,
			    size);
	if (given_size < sizeof(given_size))
		return Fail(-EINVAL, "struct_size is %u", given_size);
	std::memcpy(static_cast<char *>(given) + sizeof(given_size),
		    static_cast<const char *>(own) + sizeof(given_size),
		    given_size - sizeof(given_size));
	return Status::OK();
}

Status TakeTableDesc(const struct hm_table_desc *given, struct hm_table_desc *ret_desc,
		     std::shared_ptr<Memory> *ret_memory)
{
	struct hm_table_desc desc = {};

	if (given)
		ARROW_RETURN_NOT_OK(TakeDesc(given, &desc, sizeof(desc)));
	if (desc.flags & ~FLAGS)
		return Fail(-EINVAL, "unknown flags %#x of a table", desc.flags);
	if (desc.threads > THREADS_LIMIT)
		return Fail(-EINVAL, "%u threads for a table: it has at most %u", desc.threads,
			    THREADS_LIMIT);
	if ((desc.n_columns && !desc.columns) || (desc.n_filters && !desc.filters))
		return Fail(-EINVAL, "a number of columns or filters, and none of them");
	if (desc.limit > INT64_MAX)
		return Fail(-EINVAL, "a limit of %" PRIu64 " bytes", desc.limit);
	ARROW_ASSIGN_OR_RAISE(*ret_memory, Memory::Make(desc.device, desc.pool,
							static_cast<int64_t>(desc.limit), 0,
							desc.flags & HM_TABLE_SHAREABLE));
	*ret_desc = desc;
	return Status::OK();
}

Status Assemble(std::vector<std::unique_ptr<Source>> sources, const struct hm_table_desc &desc,
		std::shared_ptr<Memory> memory, struct hm_table **ret_table)
{
	auto table = std::make_unique<struct hm_table>();
	arrow::FieldVector selected;
	std::vector<int> own;

	table->flags = desc.flags;
	table->threads = ThreadsOf(desc.threads);
	table->memory = std::move(memory);
	table->sources = std::move(sources);
	AdoptTypes(table->sources);
	const Source &first = *table->sources[0];

	ARROW_RETURN_NOT_OK(Select(*first.schema(), desc, first.where(), &own));
	for (int index : own)
		selected.push_back(first.schema()->field(index));
	table->schema = arrow::schema(selected, first.schema()->metadata());
	table->fields.push_back(own);
	for (size_t i = 1; i < table->sources.size(); i++) {
		table->fields.emplace_back();
		ARROW_RETURN_NOT_OK(
			Match(*first.schema(), own, *table->sources[i], &table->fields.back()));
	}
	for (uint32_t i = 0; i < table->sources.size(); i++)
		ARROW_RETURN_NOT_OK(AddGroups(table.get(), desc, i));
	MakeTexts(table.get());
	TellWarnings(*table);
	*ret_table = table.release();
	return Status::OK();
}

} /* namespace hetmap */

using namespace hetmap;

int hm_table_open(const char *const *paths, uint32_t n_paths, const struct hm_table_desc *given,
		  struct hm_table **ret_table)
{
	return Door([&]() -> Status {
		std::vector<std::unique_ptr<Source>> sources;
		std::vector<std::string> names;
		struct hm_table_desc desc;
		OpenHow how;

		if (!paths || !n_paths || !ret_table)
			return Fail(-EINVAL, "a table needs paths, and a place for it");
		ARROW_RETURN_NOT_OK(TakeTableDesc(given, &desc, &how.memory));
		how.flags = desc.flags;
		how.separator = desc.separator;
		ARROW_RETURN_NOT_OK(PathsOf(paths, n_paths, &names));
		ARROW_RETURN_NOT_OK(OpenAll(names, desc, how, &sources));
		return Assemble(std::move(sources), desc, how.memory, ret_table);
	});
}
