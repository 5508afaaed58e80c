/* SPDX-License-Identifier: MIT */
/* Files: bytes for libarrow, read into memory of the table, or where they lie in a map. */
#ifndef HETMAP_TABLE_FILE_HH
#define HETMAP_TABLE_FILE_HH

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include <arrow/io/interfaces.h>
#include <hetmap/table.h>

#include "memory.hh"
#include "message.hh"
#include "status.hh"

namespace hetmap
{

/* A map of a whole file. Buffers in it hold it. */
class Mapping
{
      public:
	static Result<std::shared_ptr<Mapping>> Make(int fd);
	~Mapping();
	struct hm_map *map() const
	{
		return map_;
	}
	const uint8_t *base() const
	{
		return base_;
	}
	bool Has(const uint8_t *pointer, int64_t n) const
	{
		return pointer >= base_ && pointer - base_ <= size_ &&
		       n <= size_ - (pointer - base_);
	}

      private:
	Mapping() = default;
	struct hm_map *map_ = nullptr;
	const uint8_t *base_ = nullptr;
	int64_t size_ = 0;
};

/* An open regular file, of the size that it had when it was opened. */
class Disk
{
      public:
	static Result<std::shared_ptr<Disk>> Open(const std::string &path);
	~Disk();

	/* Bytes within size(). A file that is shorter by now is -ENODATA. */
	Status Read(int64_t position, int64_t n, void *out) const;
	/* Starts to read a range. */
	void WillNeed(int64_t position, int64_t n) const;
	/* The map of all of it. Where there is none, why() has the reason. */
	std::shared_ptr<Mapping> Map();
	/* Copies bytes of the map, as Read() does. */
	Status Copy(const uint8_t *from, int64_t n, void *out) const;

	const std::string &path() const
	{
		return path_;
	}
	int64_t size() const
	{
		return size_;
	}
	int fd() const
	{
		return fd_;
	}
	int64_t bytes_read() const
	{
		return bytes_read_.load(std::memory_order_relaxed);
	}
	const std::string &why() const
	{
		return why_;
	}
	std::shared_ptr<Mapping> mapping() const
	{
		return mapping_;
	}

      private:
	Disk() = default;
	std::string path_;
	int fd_ = -1;
	int64_t size_ = 0;
	mutable std::atomic<int64_t> bytes_read_{ 0 };
	std::mutex lock_; /* protects the rest */
	std::shared_ptr<Mapping> mapping_;
	std::string why_;
};

/*
 * A file as libarrow sees it: all that it asks for is read, into memory of a pool. Without one into
 * ordinary memory: what is for libarrow alone.
 */
class Input : public arrow::io::RandomAccessFile
{
      public:
	Input(std::shared_ptr<Disk> disk, PoolRef pool, std::shared_ptr<Mapping> mapping);
	~Input() override = default;

	Result<int64_t> GetSize() override;
	Result<int64_t> ReadAt(int64_t position, int64_t n, void *out) override;
	Result<int64_t> ReadAt(int64_t position, int64_t n, bool allow_short,
			       void *out) override;
	Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t n) override;
	Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t n,
						      bool allow_short) override;
	Result<int64_t> Read(int64_t n, void *out) override;
	Result<std::shared_ptr<arrow::Buffer>> Read(int64_t n) override;
	Status WillNeed(const std::vector<arrow::io::ReadRange> &ranges) override;
	Status Seek(int64_t position) override;
	Result<int64_t> Tell() const override;
	Status Close() override;
	bool closed() const override;

	/*
	 * The body at @position, behind its header. With a mapping, the body of a record batch that
	 * is stored plainly is a slice of the map, which libarrow does not touch.
	 */
	Result<std::shared_ptr<arrow::Buffer>> Body(int64_t position, const Header &header);

      private:
	Status Clip(int64_t position, int64_t *n) const;
	Result<std::shared_ptr<arrow::Buffer>> Copied(int64_t position, int64_t n);

	std::shared_ptr<Disk> disk_;
	PoolRef pool_;
	std::shared_ptr<Mapping> mapping_;
	int64_t position_ = 0; /* of Read(), which one thread at a time calls */
	bool closed_ = false;
};

/* The format that @disk begins like. */
Status FormatOf(const Disk &disk, uint32_t *ret_format);

} /* namespace hetmap */

#endif
