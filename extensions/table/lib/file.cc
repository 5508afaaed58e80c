// SPDX-License-Identifier: MIT
/* Files: bytes for libarrow, read into memory of the table, or where they lie in a map. */
#include "file.hh"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <hetmap/file.h>

namespace hetmap
{

namespace
{

/* Bytes of a map of a file, which end with the last buffer. */
class Placed : public arrow::Buffer
{
      public:
	Placed(std::shared_ptr<Mapping> mapping, int64_t offset, int64_t n)
	    : Buffer(mapping->base() + offset, n), mapping_(std::move(mapping))
	{
	}

      private:
	std::shared_ptr<Mapping> mapping_;
};

const char *KindOf(mode_t mode)
{
	return S_ISDIR(mode)  ? "a folder" :
	       S_ISFIFO(mode) ? "a pipe" :
	       S_ISSOCK(mode) ? "a socket" :
				"a device";
}

} /* namespace */

Result<std::shared_ptr<Mapping>> Mapping::Make(int fd)
{
	std::shared_ptr<Mapping> mapping(new Mapping());
	struct hm_device *device = nullptr;
	struct hm_buffer *buffer = nullptr;
	struct hm_buffer_desc desc = {};
	int r;

	desc.struct_size = sizeof(desc);
	desc.flags = HM_BUFFER_READ_ONLY;
	r = hm_device_open("file", &device);
	if (!r)
		r = hm_buffer_from_file(device, nullptr, fd, &desc, &buffer);
	if (!r)
		r = hm_map_create(buffer, nullptr, &mapping->map_);
	hm_buffer_unref(buffer);
	hm_device_unref(device);
	if (r)
		return FailOf(r);
	mapping->base_ = static_cast<const uint8_t *>(hm_map_address(mapping->map_));
	mapping->size_ = static_cast<int64_t>(hm_map_length(mapping->map_));
	return mapping;
}

Mapping::~Mapping()
{
	hm_map_unref(map_);
}

Result<std::shared_ptr<Disk>> Disk::Open(const std::string &path)
{
	std::shared_ptr<Disk> disk(new Disk());
	struct stat st;

	disk->path_ = path;
	/* Does not wait for the other end of a pipe. */
	disk->fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (disk->fd_ < 0)
		return Fail(-errno, "%s: %s", path.c_str(), std::strerror(errno));
	if (fstat(disk->fd_, &st))
		return Fail(-errno, "%s: %s", path.c_str(), std::strerror(errno));
	if (!S_ISREG(st.st_mode))
		return Fail(-EINVAL, "%s is %s, and no regular file", path.c_str(),
			    KindOf(st.st_mode));
	if (!st.st_size)
		return Fail(-ENODATA, "%s is empty", path.c_str());
	disk->size_ = st.st_size;
	return disk;
}

Disk::~Disk()
{
	if (fd_ >= 0)
		close(fd_);
}

Status Disk::Read(int64_t position, int64_t n, void *out) const
{
	auto *to = static_cast<uint8_t *>(out);
	int64_t done = 0;

	while (done < n) {
		ssize_t got =
			pread(fd_, to + done, static_cast<size_t>(n - done), position + done);
		struct stat st;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return Fail(-errno, "byte %" PRId64 " can't be read: %s",
				    position + done, std::strerror(errno));
		if (!got)
			return Fail(-ENODATA,
				    "the file was cut off: it had %" PRId64
				    " bytes when it was opened, and has %" PRId64 " now",
				    size_, fstat(fd_, &st) ? -1 : int64_t{ st.st_size });
		done += got;
	}
	bytes_read_.fetch_add(n, std::memory_order_relaxed);
	return Status::OK();
}

void Disk::WillNeed(int64_t position, int64_t n) const
{
	(void)posix_fadvise(fd_, position, n, POSIX_FADV_WILLNEED);
}

/* A map shows old bytes, or none at all, where another machine has the file. */
static bool IsNetwork(int fd, std::string *why)
{
	struct hm_file_system_info info = {};

	info.struct_size = sizeof(info);
	if (hm_file_system_query(nullptr, fd, &info) || info.coherence != HM_COHERENCE_NONE)
		return false;
	*why = std::string("the file system ") + info.name + " is another machine's";
	return true;
}

std::shared_ptr<Mapping> Disk::Map()
{
	std::lock_guard<std::mutex> held(lock_);

	if (mapping_ || !why_.empty())
		return mapping_;
	if (IsNetwork(fd_, &why_))
		return nullptr;
	auto made = Mapping::Make(fd_);

	if (!made.ok()) {
		why_ = "no map: " + TextOf(made.status());
		return nullptr;
	}
	/* A file that has shrunk since the open is found by the next read. */
	if (static_cast<int64_t>(hm_map_length((*made)->map())) < size_) {
		why_ = "the file was cut off";
		return nullptr;
	}
	mapping_ = *made;
	return mapping_;
}

Status Disk::Copy(const uint8_t *from, int64_t n, void *out) const
{
	if (mapping_ && mapping_->Has(from, n))
		return Read(from - mapping_->base(), n, out);
	std::memcpy(out, from, static_cast<size_t>(n));
	return Status::OK();
}

Input::Input(std::shared_ptr<Disk> disk, PoolRef pool, std::shared_ptr<Mapping> mapping)
    : disk_(std::move(disk)), pool_(std::move(pool)), mapping_(std::move(mapping))
{
}

Result<int64_t> Input::GetSize()
{
	return disk_->size();
}

/* Leaves of @n what the file has from @position on. */
Status Input::Clip(int64_t position, int64_t *n) const
{
	if (position < 0 || *n < 0 || position > disk_->size())
		return Fail(-EBADMSG,
			    "%" PRId64 " bytes at %" PRId64 " are wanted of a file of %" PRId64
			    " bytes",
			    *n, position, disk_->size());
	*n = std::min(*n, disk_->size() - position);
	return Status::OK();
}

Result<int64_t> Input::ReadAt(int64_t position, int64_t n, void *out)
{
	ARROW_RETURN_NOT_OK(Clip(position, &n));
	ARROW_RETURN_NOT_OK(disk_->Read(position, n, out));
	return n;
}

Result<int64_t> Input::ReadAt(int64_t position, int64_t n, bool, void *out)
{
	return ReadAt(position, n, out);
}

Result<std::shared_ptr<arrow::Buffer>> Input::Copied(int64_t position, int64_t n)
{
	if (pool_.get())
		ARROW_RETURN_NOT_OK(pool_->Refused());
	ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
			      arrow::AllocateBuffer(n, pool_.get() ?
							       pool_.get() :
							       arrow::default_memory_pool()));
	ARROW_RETURN_NOT_OK(disk_->Read(position, n, buffer->mutable_data()));
	return buffer;
}

Result<std::shared_ptr<arrow::Buffer>> Input::Body(int64_t position, const Header &header)
{
	int64_t n = header.body;

	ARROW_RETURN_NOT_OK(Clip(position, &n));
	if (n < header.body)
		return Fail(-EBADMSG,
			    "a message has %" PRId64 " bytes at byte %" PRId64
			    ", and the file ends after %" PRId64,
			    header.body, position, n);
	if (mapping_ && header.type == arrow::ipc::MessageType::RECORD_BATCH &&
	    header.codec < 0)
		return std::make_shared<Placed>(mapping_, position, n);
	return Copied(position, n);
}

Result<std::shared_ptr<arrow::Buffer>> Input::ReadAt(int64_t position, int64_t n)
{
	ARROW_RETURN_NOT_OK(Clip(position, &n));
	return Copied(position, n);
}

Result<std::shared_ptr<arrow::Buffer>> Input::ReadAt(int64_t position, int64_t n, bool)
{
	return ReadAt(position, n);
}

Result<int64_t> Input::Read(int64_t n, void *out)
{
	ARROW_ASSIGN_OR_RAISE(int64_t got, ReadAt(position_, n, out));
	position_ += got;
	return got;
}

Result<std::shared_ptr<arrow::Buffer>> Input::Read(int64_t n)
{
	ARROW_RETURN_NOT_OK(Clip(position_, &n));
	ARROW_ASSIGN_OR_RAISE(auto buffer, Copied(position_, n));
	position_ += n;
	return buffer;
}

Status Input::WillNeed(const std::vector<arrow::io::ReadRange> &ranges)
{
	for (const auto &range : ranges)
		disk_->WillNeed(range.offset, range.length);
	return Status::OK();
}

Status Input::Seek(int64_t position)
{
	position_ = position;
	return Status::OK();
}

Result<int64_t> Input::Tell() const
{
	return position_;
}

Status Input::Close()
{
	closed_ = true;
	return Status::OK();
}

bool Input::closed() const
{
	return closed_;
}

/* The first bytes of formats. */
static const struct {
	const char *bytes;
	size_t n;
	uint32_t format; /* HM_TABLE_AUTO: refused */
	const char *remedy;
	bool is_text;
} begins[] = {
	{ "PAR1", 4, HM_TABLE_PARQUET, nullptr, false },
	{ "PARE", 4, HM_TABLE_AUTO, "is Parquet with an encrypted footer: decrypt it first",
	  false },
	{ "ARROW1\0\0", 8, HM_TABLE_ARROW, nullptr, false },
	{ "\xff\xff\xff\xff", 4, HM_TABLE_ARROW_STREAM, nullptr, false },
	{ "FEA1", 4, HM_TABLE_AUTO, "is Feather version 1: write it again as version 2",
	  false },
	{ "ORC", 3, HM_TABLE_AUTO, "is ORC: write it again as Parquet", false },
	{ "Obj\x01", 4, HM_TABLE_AUTO, "is Avro: write it again as Parquet", false },
	{ "\x1f\x8b", 2, HM_TABLE_AUTO, "is compressed by gzip: unpack it first", false },
	{ "\x28\xb5\x2f\xfd", 4, HM_TABLE_AUTO, "is compressed by zstd: unpack it first",
	  false },
	{ "version https://git-lfs", 23, HM_TABLE_AUTO,
	  "is a pointer of Git LFS: run git lfs pull", true },
};

/* Text has no control characters but white space. */
static bool IsText(const uint8_t *bytes, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (bytes[i] < ' ' && !std::strchr("\t\n\r\f", bytes[i] ? bytes[i] : 1))
			return false;
	return true;
}

Status FormatOf(const Disk &disk, uint32_t *ret_format)
{
	uint8_t bytes[4096];
	int64_t n = std::min<int64_t>(sizeof(bytes), disk.size()), prefix;

	ARROW_RETURN_NOT_OK(At(disk.path(), disk.Read(0, n, bytes)));
	bool is_text = IsText(bytes, n);
	bool has_lines = is_text && std::memchr(bytes, '\n', static_cast<size_t>(n));

	for (const auto &row : begins) {
		if (static_cast<size_t>(n) < row.n || std::memcmp(bytes, row.bytes, row.n) != 0)
			continue;
		/* The name of the first column of a CSV may be "PAR1" or "ORCHARD". */
		if (has_lines && !row.is_text)
			continue;
		if (row.remedy)
			return Fail(-EOPNOTSUPP, "%s %s", disk.path().c_str(), row.remedy);
		*ret_format = row.format;
		return Status::OK();
	}
	if (is_text) {
		*ret_format = HM_TABLE_CSV;
		return Status::OK();
	}
	/* A stream of Arrow before 0.15 begins with the length of its schema. */
	int64_t head = HeadLength(bytes, n, &prefix);

	if (head > 16 && head <= disk.size()) {
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
				      arrow::AllocateBuffer(head));
		ARROW_RETURN_NOT_OK(
			At(disk.path(), disk.Read(0, head, buffer->mutable_data())));
		auto header = ReadHeader(buffer);

		if (header.ok() && header->type == arrow::ipc::MessageType::SCHEMA) {
			*ret_format = HM_TABLE_ARROW_STREAM;
			return Status::OK();
		}
	}
	return Fail(
		-EOPNOTSUPP,
		"%s begins like no table: Arrow IPC, Feather version 2, Parquet and CSV are read",
		disk.path().c_str());
}

} /* namespace hetmap */
