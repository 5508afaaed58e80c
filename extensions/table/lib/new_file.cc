// SPDX-License-Identifier: MIT
/* A new file beside an old one, which takes its name when it is whole. */
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "write.hh"

namespace hetmap
{

namespace
{

constexpr int TRIES = 100; /* for a name that nobody has */

std::string FolderOf(const std::string &path)
{
	size_t slash = path.rfind('/');

	return slash == std::string::npos ? "." : slash ? path.substr(0, slash) : "/";
}

std::string NameBeside(const std::string &path)
{
	size_t slash = path.rfind('/');
	std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
	uint32_t number = 0;
	char text[16];

	(void)getrandom(&number, sizeof(number), 0);
	snprintf(text, sizeof(text), "%08x", number);
	return FolderOf(path) + "/." + name.substr(0, 200) + "." + text;
}

Status SyncFolder(const std::string &path)
{
	int fd = open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;

	if (fd < 0 || fsync(fd))
		r = -errno;
	if (fd >= 0)
		close(fd);
	if (r)
		return Fail(r, "the folder of %s can't be written back: %s", path.c_str(),
			    std::strerror(-r));
	return Status::OK();
}

} /* namespace */

Result<std::unique_ptr<NewFile>> NewFile::Make(const std::string &path)
{
	std::unique_ptr<NewFile> file(new NewFile());
	struct stat st;

	for (int i = 0; i < TRIES && file->fd_ < 0; i++) {
		file->name_ = NameBeside(path);
		file->fd_ =
			open(file->name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (file->fd_ < 0 && errno != EEXIST)
			break;
	}
	if (file->fd_ < 0)
		return Fail(-errno, "%s can't be made beside: %s", path.c_str(),
			    std::strerror(errno));
	/* The rights of the file that it replaces, as far as that is allowed. */
	if (!stat(path.c_str(), &st))
		(void)!fchmod(file->fd_, st.st_mode & 07777);
	auto stream = arrow::io::FileOutputStream::Open(file->fd_);

	if (!stream.ok()) {
		close(file->fd_);
		return stream.status();
	}
	file->stream_ = *stream;
	return file;
}

NewFile::~NewFile()
{
	if (stream_ && !stream_->closed())
		(void)stream_->Close();
	if (!kept_ && !name_.empty())
		(void)unlink(name_.c_str());
}

Status NewFile::Keep(const std::string &path, bool replace, bool sync)
{
	int r;

	ARROW_RETURN_NOT_OK(stream_->Flush());
	if (sync && fsync(fd_))
		return Fail(-errno, "%s can't be written back: %s", path.c_str(),
			    std::strerror(errno));
	ARROW_RETURN_NOT_OK(stream_->Close());
	/* A link fails where the name is taken, as no rename of every file system does. */
	r = replace ? rename(name_.c_str(), path.c_str()) : link(name_.c_str(), path.c_str());
	if (r)
		return Fail(-errno, "%s: %s", path.c_str(), std::strerror(errno));
	kept_ = replace;
	return sync ? SyncFolder(path) : Status::OK();
}

Status NewFile::Begin(const Disk &disk, int64_t n, int64_t *ret_copied)
{
	std::vector<uint8_t> bytes(1 << 20);

	*ret_copied = 0;
	if (!ioctl(fd_, FICLONE, disk.fd())) {
		if (ftruncate(fd_, n) || lseek(fd_, n, SEEK_SET) != n)
			return Fail(-errno, "%s", std::strerror(errno));
		return Status::OK();
	}
	for (int64_t at = 0; at < n;) {
		int64_t part = std::min<int64_t>(n - at, static_cast<int64_t>(bytes.size()));

		ARROW_RETURN_NOT_OK(disk.Read(at, part, bytes.data()));
		ARROW_RETURN_NOT_OK(stream_->Write(bytes.data(), part));
		at += part;
		*ret_copied += part;
	}
	return Status::OK();
}

Result<int64_t> NewFile::Size() const
{
	struct stat st;

	ARROW_RETURN_NOT_OK(stream_->Flush());
	if (fstat(fd_, &st))
		return Fail(-errno, "%s", std::strerror(errno));
	return st.st_size;
}

} /* namespace hetmap */
