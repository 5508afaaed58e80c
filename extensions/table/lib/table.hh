/* SPDX-License-Identifier: MIT */
/* Table: the objects behind the public interface. */
#ifndef HETMAP_TABLE_TABLE_HH
#define HETMAP_TABLE_TABLE_HH

#include <atomic>
#include <csignal>
#include <deque>
#include <memory>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hetmap/table.h>

#include "filter.hh"
#include "reading.hh"
#include "settle.hh"
#include "source.hh"

namespace hetmap
{

/* A counted object of the process that made it. */
class Counted
{
      public:
	void Hold()
	{
		references_.fetch_add(1, std::memory_order_relaxed);
	}
	/* True: it was the last one. */
	bool Drop()
	{
		return references_.fetch_sub(1, std::memory_order_acq_rel) == 1;
	}
	Status Owned() const
	{
		if (pid_ != getpid())
			return Fail(-EOWNERDEAD, "process %d made the object before fork()",
				    static_cast<int>(pid_));
		return Status::OK();
	}

      private:
	std::atomic<int> references_{ 1 };
	const pid_t pid_ = getpid();
};

/* A group of the table. */
struct GroupAt {
	uint32_t source;
	int64_t in_source;
	bool skipped;
};

/* Work on columns: groups and columns that @out gets, in the order of both. */
struct Piece {
	size_t group;                /* number of the group in the table */
	std::vector<size_t> columns; /* places in what was asked for */
};

} /* namespace hetmap */

struct hm_column : hetmap::Counted {
	~hm_column();
	/* The chunk is there. */
	arrow::Status Ready(uint64_t chunk);

	uint32_t number;
	std::shared_ptr<arrow::Field> field;
	std::deque<hetmap::Chunk> chunks; /* which stay where they are */

	/* Columns that are used where they lie; NULL: all chunks are ready. */
	std::shared_ptr<hetmap::Reading> reading;
	size_t place = 0; /* in the reading */
	std::unique_ptr<std::atomic<bool>[]> ready;
};

struct hm_table : hetmap::Counted {
	~hm_table();
	/* The columns @numbers of the groups @groups, through @pool. */
	arrow::Status Load(const std::vector<uint32_t> &numbers,
			   const std::vector<size_t> &groups, const hetmap::PoolRef &pool,
			   bool in_place, std::vector<std::deque<hetmap::Chunk>> *ret);
	/* All of its groups are chunks that cost little until they are asked for. */
	bool OneByOne() const;
	/* Groups that are not skipped. */
	std::vector<size_t> Kept() const;
	hetmap::PoolRef NewPool() const;
	/* Where an error is: "FILE: row group 3, column 'x'". */
	std::string Where(size_t group, const std::vector<uint32_t> &numbers) const;
	/* The same failure, which says where it is, once. */
	arrow::Status Located(size_t group, const std::vector<uint32_t> &numbers,
			      const arrow::Status &status) const;
	/* Fields of a source that the columns @numbers are. */
	std::vector<int> FieldsOf(uint32_t source, const std::vector<uint32_t> &numbers) const;

	uint32_t flags = 0, threads = 1;
	std::shared_ptr<hetmap::Memory> memory;
	std::vector<std::unique_ptr<hetmap::Source>> sources;
	std::shared_ptr<arrow::Schema> schema; /* of the selected columns */
	std::vector<std::vector<int>> fields;  /* of each source, for each column */
	std::vector<hetmap::GroupAt> groups;
	std::vector<size_t> first_group; /* of each source */
	std::atomic<uint64_t> decoded{ 0 }, placed{ 0 };

	/* Texts that hm_table_*_info point to. */
	struct Texts {
		std::string type, format, why, creator;
	};
	std::vector<Texts> column_texts, source_texts;
};

namespace hetmap
{

/* Makes a table of sources that are open. */
Status Assemble(std::vector<std::unique_ptr<Source>> sources, const struct hm_table_desc &desc,
		std::shared_ptr<Memory> memory, struct hm_table **ret_table);

/* Copies a description that was compiled with another size of it. */
Status TakeDesc(const void *given, void *own, uint32_t size);

/* The size of an information struct that is filled in, after a check of struct_size. */
Status GiveInfo(void *given, const void *own, uint32_t size);

/* Takes a description of a table, and the memory that it says. */
Status TakeTableDesc(const struct hm_table_desc *given, struct hm_table_desc *ret_desc,
		     std::shared_ptr<Memory> *ret_memory);

/* Record batches of loaded columns, the last one first: columns may be cut at different rows. */
Status BatchesOf(const std::shared_ptr<arrow::Schema> &schema,
		 const std::vector<std::deque<Chunk>> &columns, arrow::RecordBatchVector *ret);

/* Opens a file of a table, of a format or of any. */
Result<std::unique_ptr<Source>> OpenSource(const std::string &path, uint32_t format,
					   const OpenHow &how);

/* The files of a folder that are a table, by their names. */
Status FilesOf(const std::string &folder, std::vector<std::string> *ret);

/* Threads that start meanwhile take no signals but those of their own faults. */
class SignalsBlocked
{
      public:
	SignalsBlocked()
	{
		sigset_t blocked;

		sigfillset(&blocked);
		for (int signal : { SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT })
			sigdelset(&blocked, signal);
		pthread_sigmask(SIG_SETMASK, &blocked, &before_);
	}
	~SignalsBlocked()
	{
		pthread_sigmask(SIG_SETMASK, &before_, nullptr);
	}

      private:
	sigset_t before_;
};

} /* namespace hetmap */

#endif
