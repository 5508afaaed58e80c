/* SPDX-License-Identifier: MIT */
/* Memory: what libarrow decodes into, out of maps of a device. */
#ifndef HETMAP_TABLE_MEMORY_HH
#define HETMAP_TABLE_MEMORY_HH

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <arrow/memory_pool.h>
#include <hetmap/hetmap.h>

#include "status.hh"

namespace hetmap
{

/* A count with its greatest value so far. */
class Gauge
{
      public:
	/* False, and nothing done: the count would pass @limit. */
	bool Add(int64_t n, int64_t limit);
	void Take(int64_t n);
	int64_t now() const
	{
		return now_.load(std::memory_order_relaxed);
	}
	int64_t peak() const
	{
		return peak_.load(std::memory_order_relaxed);
	}

      private:
	std::atomic<int64_t> now_{ 0 }, peak_{ 0 };
};

/* A long allocation: a buffer and a map of its own. */
struct Block {
	struct hm_buffer *buffer;
	struct hm_map *map;
	uint8_t *base;
	int64_t bytes; /* that may be touched */
};

/*
 * The memory of a table. Short allocations come out of a pool of the device, long ones have maps of
 * their own, of huge pages where there are any, and are kept for the next ones.
 */
class Memory
{
      public:
	/* @limit: bytes, 0: half of the memory; @kept: most bytes to keep, 0: part of the limit */
	static Result<std::shared_ptr<Memory>> Make(struct hm_device *device,
						    struct hm_pool *pool, int64_t limit,
						    int64_t kept, bool shareable);
	/* Another one in the same place, a window: what is beyond its limit is -ENOSPC. */
	Result<std::shared_ptr<Memory>> Beside(int64_t limit) const;
	~Memory();
	Memory(const Memory &) = delete;
	Memory &operator=(const Memory &) = delete;

	Status Get(int64_t size, int64_t alignment, uint8_t **out);
	/* The first @keep bytes stay. */
	Status Resize(int64_t keep, int64_t size, int64_t alignment, uint8_t **pointer);
	void Put(uint8_t *pointer);
	/* Gives memory back that is kept for the next allocations. */
	void Trim();

	/* Why @bytes more are refused. */
	Status Refusal(int64_t bytes) const;

	int64_t limit() const
	{
		return limit_;
	}
	Gauge used;

      private:
	Memory() = default;
	Status MakeBlock(int64_t size, Block *ret_block);
	static void EndBlock(const Block &block);
	bool TakeKept(int64_t size, Block *ret_block);
	void Enter(const Block &block);
	bool Keep(const Block &block) noexcept;
	bool Leave(uint8_t *pointer, Block *ret_block);

	struct hm_device *device_ = nullptr;
	struct hm_pool *pool_ = nullptr;
	bool callers_ = false; /* the pool is the caller's: all comes from it */
	bool window_ = false;
	uint32_t flags_ = 0; /* of buffers of long allocations */
	int64_t limit_ = 0, kept_most_ = 0;

	std::mutex lock_; /* protects the rest */
	std::unordered_map<uint8_t *, Block> blocks_;
	std::multimap<int64_t, Block> kept_;
	std::atomic<int64_t> kept_bytes_{ 0 };
};

/*
 * A pool of libarrow's: allocations of one purpose. It ends with its last allocation and its last
 * user: buffers of libarrow refer to their pool without holding it.
 */
class Pool : public arrow::MemoryPool
{
      public:
	/*
	 * @slack: bytes that are given beyond the limit. Users that end the process when they get
	 * nothing have some, and ask Refused() instead.
	 */
	static Pool *Make(const std::shared_ptr<Memory> &memory, int64_t slack = 0);
	void Hold();
	void Drop();
	/* The first allocation that was beyond the limit, as a failure. */
	Status Refused() const;
	const std::shared_ptr<Memory> &memory() const
	{
		return memory_;
	}

	using MemoryPool::Allocate;
	using MemoryPool::Free;
	using MemoryPool::Reallocate;
	Status Allocate(int64_t size, int64_t alignment, uint8_t **out) override;
	Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
			  uint8_t **pointer) override;
	void Free(uint8_t *buffer, int64_t size, int64_t alignment) override;
	int64_t bytes_allocated() const override
	{
		return used_.now();
	}
	int64_t max_memory() const override
	{
		return used_.peak();
	}
	int64_t total_bytes_allocated() const override
	{
		return total_.load(std::memory_order_relaxed);
	}
	int64_t num_allocations() const override
	{
		return allocations_.load(std::memory_order_relaxed);
	}
	std::string backend_name() const override
	{
		return "hetmap";
	}

      private:
	Pool(const std::shared_ptr<Memory> &memory, int64_t slack)
	    : memory_(memory), slack_(slack)
	{
	}
	~Pool() override = default;
	Status Count(int64_t bytes);
	void Uncount(int64_t bytes);

	std::shared_ptr<Memory> memory_;
	const int64_t slack_;
	std::atomic<int64_t> beyond_{ 0 }; /* bytes of the first allocation beyond the limit */
	Gauge used_;
	std::atomic<int64_t> holds_{ 1 }, total_{ 0 }, allocations_{ 0 };
};

/* A user of a pool. */
class PoolRef
{
      public:
	PoolRef() = default;
	explicit PoolRef(Pool *taken) : pool_(taken)
	{
	}
	PoolRef(const PoolRef &other) : pool_(other.pool_)
	{
		if (pool_)
			pool_->Hold();
	}
	PoolRef &operator=(const PoolRef &other)
	{
		PoolRef copy(other);

		std::swap(pool_, copy.pool_);
		return *this;
	}
	~PoolRef()
	{
		if (pool_)
			pool_->Drop();
	}
	Pool *get() const
	{
		return pool_;
	}
	Pool *operator->() const
	{
		return pool_;
	}

      private:
	Pool *pool_ = nullptr;
};

} /* namespace hetmap */

#endif
