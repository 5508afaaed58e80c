// SPDX-License-Identifier: MIT
/* Writing: tables into files, new ones and such as there are. */
#include "write.hh"

#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <sys/stat.h>

using namespace hetmap;

namespace
{

constexpr uint32_t FLAGS = HM_TABLE_APPEND | HM_TABLE_SYNC;
constexpr int64_t GROUP_ROWS = 1 << 20;
constexpr int PARTS_MOST = 100000; /* files of a folder that rows are appended to */

/* Where the rows go. */
struct Target {
	std::string path; /* of the file */
	bool replace = true;
	bool in_folder = false;
	std::shared_ptr<Disk> old; /* the file that is continued */
};

const char *EndingOf(uint32_t format)
{
	return format == HM_TABLE_PARQUET ? ".parquet" :
	       format == HM_TABLE_ARROW   ? ".arrow" :
					    ".arrows";
}

/* A new name in a folder, behind those that are there. */
Status NameIn(const std::string &folder, uint32_t format, int number, Target *target)
{
	char name[32];

	snprintf(name, sizeof(name), "/part-%05d", number);
	target->path = folder + name + EndingOf(format);
	target->replace = false;
	target->in_folder = true;
	return Status::OK();
}

/* The number behind the last "part-N" of a folder, and the format of its first file. */
Status LookInto(const std::string &folder, int *ret_next, uint32_t *format)
{
	std::vector<std::string> files;
	Status status = FilesOf(folder, &files);
	int next = 0, number;

	if (!status.ok() && ErrnoOf(status) != -ENODATA)
		return status;
	for (const auto &file : files) {
		const char *name = file.c_str() + file.rfind('/') + 1;

		if (sscanf(name, "part-%d", &number) == 1 && number >= 0 && number < PARTS_MOST)
			next = std::max(next, number + 1);
	}
	*ret_next = next;
	if (files.empty() || *format != HM_TABLE_AUTO)
		return Status::OK();
	ARROW_ASSIGN_OR_RAISE(auto disk, Disk::Open(files[0]));
	return FormatOf(*disk, format);
}

Status Continue(const std::string &path, uint32_t *format, Target *target)
{
	uint32_t is = HM_TABLE_AUTO;

	ARROW_ASSIGN_OR_RAISE(target->old, Disk::Open(path));
	ARROW_RETURN_NOT_OK(FormatOf(*target->old, &is));
	if (*format != HM_TABLE_AUTO && *format != is)
		return Fail(-EINVAL, "%s has the format %s, and %s is to be appended",
			    path.c_str(), hm_table_format_name(is),
			    hm_table_format_name(*format));
	*format = is;
	return Status::OK();
}

Status Find(const char *path, uint32_t flags, uint32_t *format, Target *target)
{
	struct stat st;
	int number = 0;

	target->path = path;
	if (stat(path, &st))
		return Status::OK();
	/* A link stays, and the file that it leads to is replaced. */
	std::unique_ptr<char, decltype(&std::free)> real(realpath(path, nullptr), std::free);

	if (real && S_ISREG(st.st_mode))
		target->path = real.get();
	if (S_ISDIR(st.st_mode)) {
		if (!(flags & HM_TABLE_APPEND))
			return Fail(-EISDIR,
				    "%s is a folder: HM_TABLE_APPEND adds a file to it", path);
		ARROW_RETURN_NOT_OK(LookInto(path, &number, format));
		if (*format == HM_TABLE_AUTO)
			*format = HM_TABLE_PARQUET;
		return NameIn(path, *format, number, target);
	}
	if (!S_ISREG(st.st_mode))
		return Fail(-EINVAL, "%s is no regular file", path);
	return flags & HM_TABLE_APPEND ? Continue(path, format, target) : Status::OK();
}

Status CheckSame(const arrow::Schema &old, const arrow::Schema &own)
{
	int n = std::min(old.num_fields(), own.num_fields());

	for (int i = 0; i < n; i++)
		if (old.field(i)->name() != own.field(i)->name() ||
		    !old.field(i)->type()->Equals(*own.field(i)->type()))
			return Fail(-EINVAL,
				    "column %s differs from column %s of the file to append to",
				    own.field(i)->ToString().c_str(),
				    old.field(i)->ToString().c_str());
	if (old.num_fields() != own.num_fields())
		return Fail(-EINVAL, "the file to append to has %d columns, and the table %d",
			    old.num_fields(), own.num_fields());
	return Status::OK();
}

/* All groups of a table into a sink. Nothing of a file is touched in its map. */
Status Pour(struct hm_table *table, Sink *sink, uint64_t *rows)
{
	std::vector<uint32_t> numbers;

	for (int i = 0; i < table->schema->num_fields(); i++)
		numbers.push_back(static_cast<uint32_t>(i));
	for (size_t group : table->Kept()) {
		std::vector<std::deque<Chunk>> columns;
		arrow::RecordBatchVector batches;

		ARROW_RETURN_NOT_OK(
			table->Load(numbers, { group }, table->NewPool(), false, &columns));
		ARROW_RETURN_NOT_OK(BatchesOf(table->schema, columns, &batches));
		columns.clear();
		while (!batches.empty()) {
			*rows += static_cast<uint64_t>(batches.back()->num_rows());
			ARROW_RETURN_NOT_OK(sink->Write(*batches.back()));
			batches.pop_back();
		}
	}
	return Status::OK();
}

/* The batches of an Arrow file that is continued, again. */
Status PourOld(const struct hm_table &table, const std::shared_ptr<Disk> &old, uint32_t format,
	       Sink *sink)
{
	std::vector<std::unique_ptr<Source>> sources;
	struct hm_table_desc desc = {};
	struct hm_table *before = nullptr;
	uint64_t rows = 0;
	OpenHow how;
	Status status;

	how.memory = table.memory;
	how.flags = HM_TABLE_READ;
	desc.flags = HM_TABLE_READ;
	ARROW_ASSIGN_OR_RAISE(auto source, OpenSource(old->path(), format, how));
	ARROW_RETURN_NOT_OK(CheckSame(*source->schema(), *table.schema));
	sources.push_back(std::move(source));
	ARROW_RETURN_NOT_OK(Assemble(std::move(sources), desc, table.memory, &before));
	status = Pour(before, sink, &rows);
	hm_table_unref(before);
	return status;
}

/* Rows that another writer has put into the file meanwhile must not get lost. */
Status CheckStill(const Target &target)
{
	struct stat now, then;

	if (!target.old)
		return Status::OK();
	if (fstat(target.old->fd(), &then) || stat(target.path.c_str(), &now) ||
	    now.st_dev != then.st_dev || now.st_ino != then.st_ino ||
	    now.st_size != target.old->size())
		return Fail(-EAGAIN, "another program wrote the file meanwhile: append again");
	return Status::OK();
}

Status TakeWriting(const struct hm_table_write_desc &desc, uint32_t format, Writing *ret)
{
	if (desc.group_rows > INT32_MAX)
		return Fail(-EINVAL, "groups of %" PRIu64 " rows: at most %d", desc.group_rows,
			    INT32_MAX);
	ret->format = format;
	ret->level = desc.level;
	ret->codec = desc.codec ? desc.codec : "none";
	ret->encoding = desc.encoding ? desc.encoding : "";
	ret->group_rows = desc.group_rows ? static_cast<int64_t>(desc.group_rows) : GROUP_ROWS;
	return Status::OK();
}

Status Write(struct hm_table *table, const Target &target, const Writing &writing,
	     const struct hm_table_write_desc &desc, struct hm_table_write_info *info)
{
	std::unique_ptr<Sink> sink;
	int64_t copied = 0;

	ARROW_ASSIGN_OR_RAISE(auto file, NewFile::Make(target.path));
	if (writing.format == HM_TABLE_PARQUET) {
		if (target.old)
			ARROW_RETURN_NOT_OK(
				file->Begin(*target.old, target.old->size(), &copied));
		ARROW_ASSIGN_OR_RAISE(sink, MakeParquetSink(table->schema, writing,
							    file->stream(), target.old));
	} else {
		ARROW_ASSIGN_OR_RAISE(sink,
				      MakeArrowSink(table->schema, writing, file->stream()));
		if (target.old) {
			ARROW_RETURN_NOT_OK(
				PourOld(*table, target.old, writing.format, sink.get()));
			copied = target.old->size();
		}
	}
	int64_t before = sink->groups();

	ARROW_RETURN_NOT_OK(Pour(table, sink.get(), &info->rows));
	ARROW_RETURN_NOT_OK(sink->Close());
	ARROW_ASSIGN_OR_RAISE(int64_t size, file->Size());
	info->groups = static_cast<uint64_t>(sink->groups() - before);
	info->bytes = static_cast<uint64_t>(size);
	info->copied = static_cast<uint64_t>(copied);
	info->format = writing.format;
	if (target.in_folder && target.path.size() < sizeof(info->path))
		std::memcpy(info->path, target.path.c_str(), target.path.size() + 1);
	ARROW_RETURN_NOT_OK(CheckStill(target));
	return file->Keep(target.path, target.replace, desc.flags & HM_TABLE_SYNC);
}

} /* namespace */

int hm_table_write(struct hm_table *table, const char *path,
		   const struct hm_table_write_desc *given,
		   struct hm_table_write_info *ret_info)
{
	return Door([&]() -> Status {
		struct hm_table_write_desc desc = {};
		struct hm_table_write_info info = {};
		Target target;
		Writing writing;
		Status status;

		if (!table || !path || !*path)
			return Fail(-EINVAL, "a write needs a table and a path");
		ARROW_RETURN_NOT_OK(table->Owned());
		if (given)
			ARROW_RETURN_NOT_OK(TakeDesc(given, &desc, sizeof(desc)));
		if (ret_info && ret_info->struct_size > sizeof(info))
			return GiveInfo(ret_info, &info, sizeof(info));
		if (desc.flags & ~FLAGS)
			return Fail(-EINVAL, "unknown flags %#x of a write", desc.flags);
		uint32_t format = desc.format;

		ARROW_RETURN_NOT_OK(Find(path, desc.flags, &format, &target));
		if (format == HM_TABLE_AUTO)
			format = HM_TABLE_PARQUET;
		if (format > HM_TABLE_PARQUET)
			return Fail(-EINVAL, "files of format %u are not written", format);
		ARROW_RETURN_NOT_OK(TakeWriting(desc, format, &writing));
		writing.pool = table->NewPool();
		const auto write = [&]() { return Write(table, target, writing, desc, &info); };

		status = Caught(write);
		/* Another writer may have taken the name in a folder: the next one is free. */
		for (int i = 0;
		     i < PARTS_MOST && target.in_folder && ErrnoOf(status) == -EEXIST; i++) {
			info = {};
			ARROW_RETURN_NOT_OK(Find(path, desc.flags, &format, &target));
			status = Caught(write);
		}
		ARROW_RETURN_NOT_OK(At(target.path, status));
		return ret_info ? GiveInfo(ret_info, &info, sizeof(info)) : Status::OK();
	});
}
