// SPDX-License-Identifier: MIT
/* Memory: what libarrow decodes into, out of maps of a device. */
#include "memory.hh"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <unistd.h>

namespace hetmap
{

namespace
{

constexpr int64_t LONG = 512 << 10; /* allocations from here on have maps of their own */
constexpr int64_t PAGES = 64 << 10; /* their sizes are multiples of this, */
constexpr int64_t HUGE = 4 << 20;   /* and from here on */
constexpr int64_t STEP = 2 << 20;   /* of a huge page of most CPUs */
constexpr int64_t GROWTH = 4;       /* times its size that an allocation may have in place */

/* More than there is: sums of it and a size do not overflow. */
constexpr int64_t LIMIT_MOST = INT64_MAX / 8;

/* Part of the limit that is kept for the next allocations, at most. */
constexpr int64_t KEPT_PART = 8;

/* What allocations of 0 bytes point to. */
alignas(64) uint8_t nothing[64];

int64_t Rounded(int64_t size)
{
	int64_t step = size < HUGE ? PAGES : STEP;

	return (size + step - 1) / step * step;
}

/* Half of the memory that this process may have. */
int64_t DefaultLimit()
{
	int64_t ram = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
	FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
	int64_t most;

	if (file) {
		if (fscanf(file, "%" SCNd64, &most) == 1 && most > 0 && most < ram)
			ram = most;
		fclose(file);
	}
	return std::max<int64_t>(ram / 2, STEP);
}

} /* namespace */

bool Gauge::Add(int64_t n, int64_t limit)
{
	int64_t before = now_.load(std::memory_order_relaxed);
	int64_t peak;

	do {
		if (n > limit - before)
			return false;
	} while (!now_.compare_exchange_weak(before, before + n, std::memory_order_relaxed));
	peak = peak_.load(std::memory_order_relaxed);
	while (before + n > peak &&
	       !peak_.compare_exchange_weak(peak, before + n, std::memory_order_relaxed))
		;
	return true;
}

void Gauge::Take(int64_t n)
{
	now_.fetch_sub(n, std::memory_order_relaxed);
}

static Status OpenDevice(struct hm_device *given, struct hm_pool *pool, struct hm_device **ret)
{
	if (given || pool) {
		*ret = given ? hm_device_ref(given) : nullptr;
		return Status::OK();
	}
	RETURN_IF_REFUSED(hm_device_open("host", ret));
	return Status::OK();
}

Result<std::shared_ptr<Memory>> Memory::Make(struct hm_device *device, struct hm_pool *pool,
					     int64_t limit, int64_t kept, bool shareable)
{
	std::shared_ptr<Memory> memory(new Memory());
	struct hm_device_info info = {};
	struct hm_pool_desc desc = {};

	memory->limit_ = std::min(limit ? limit : DefaultLimit(), LIMIT_MOST);
	memory->kept_most_ = kept ? kept : memory->limit_ / KEPT_PART;
	ARROW_RETURN_NOT_OK(OpenDevice(device, pool, &memory->device_));
	if (pool) {
		memory->pool_ = hm_pool_ref(pool);
		memory->callers_ = true;
		return memory;
	}
	info.struct_size = sizeof(info);
	RETURN_IF_REFUSED(hm_device_query(memory->device_, &info));
	if (!(info.caps & HM_CAP_CREATE))
		return Fail(-EOPNOTSUPP, "%s makes no buffers for the columns of a table",
			    info.name);
	if (info.caps & HM_CAP_BRACKET)
		return Fail(
			-EOPNOTSUPP,
			"%s wants a bracket around each access of CPUs, which decode columns",
			info.name);
	if (!shareable && (info.caps & HM_CAP_PRIVATE))
		memory->flags_ = HM_BUFFER_PRIVATE;
	desc.struct_size = sizeof(desc);
	desc.name = "table";
	desc.alignment = 64;
	RETURN_IF_REFUSED(hm_pool_create(memory->device_, &desc, &memory->pool_));
	return memory;
}

Result<std::shared_ptr<Memory>> Memory::Beside(int64_t limit) const
{
	/* What a batch leaves is for the next one: the window is made of the same pages. */
	ARROW_ASSIGN_OR_RAISE(auto memory,
			      Make(device_, callers_ ? pool_ : nullptr, limit, limit, !flags_));

	memory->window_ = true;
	return memory;
}

Status Memory::Refusal(int64_t bytes) const
{
	if (window_)
		return Fail(-ENOSPC,
			    "%" PRId64 " more bytes are needed, and %" PRId64 " of %" PRId64
			    " are used",
			    bytes, used.now(), limit_);
	return Fail(-EFBIG,
		    "%" PRId64 " more bytes are needed, and %" PRId64
		    " of the limit of %" PRId64
		    " are used: raise hm_table_desc.limit, or take batches",
		    bytes, used.now(), limit_);
}

Memory::~Memory()
{
	Trim();
	hm_pool_unref(pool_);
	hm_device_unref(device_);
}

Status Memory::MakeBlock(int64_t size, Block *ret_block)
{
	struct hm_buffer_desc desc = {};
	Block block = {};
	int r;

	desc.struct_size = sizeof(desc);
	desc.flags = flags_;
	desc.size = static_cast<uint64_t>(Rounded(size));
	desc.max_size = desc.size * GROWTH;
	r = hm_buffer_create(device_, &desc, &block.buffer);
	/* Room to grow is address space, or a file's size, which may be limited. */
	if (r) {
		desc.max_size = 0;
		r = hm_buffer_create(device_, &desc, &block.buffer);
	}
	if (r)
		return FailOf(r);
	r = hm_map_create(block.buffer, nullptr, &block.map);
	if (r) {
		Status status = FailOf(r);

		hm_buffer_unref(block.buffer);
		return status;
	}
	block.base = static_cast<uint8_t *>(hm_map_address(block.map));
	block.bytes = static_cast<int64_t>(desc.size);
	/* Memory without huge pages is as good, and slower to touch first. */
	if (block.bytes >= HUGE)
		(void)hm_map_advise(block.map, 0, desc.size, HM_ADVICE_HUGEPAGE);
	*ret_block = block;
	return Status::OK();
}

void Memory::EndBlock(const Block &block)
{
	hm_map_unref(block.map);
	hm_buffer_unref(block.buffer);
}

bool Memory::TakeKept(int64_t size, Block *ret_block)
{
	std::lock_guard<std::mutex> held(lock_);
	auto found = kept_.lower_bound(size);

	if (found == kept_.end() || found->first > size + size / 2)
		return false;
	*ret_block = found->second;
	kept_.erase(found);
	kept_bytes_ -= ret_block->bytes;
	return true;
}

void Memory::Enter(const Block &block)
{
	std::lock_guard<std::mutex> held(lock_);

	blocks_[block.base] = block;
}

bool Memory::Leave(uint8_t *pointer, Block *ret_block)
{
	std::lock_guard<std::mutex> held(lock_);
	auto found = blocks_.find(pointer);

	if (found == blocks_.end())
		return false;
	*ret_block = found->second;
	blocks_.erase(found);
	return true;
}

Status Memory::Get(int64_t size, int64_t alignment, uint8_t **out)
{
	Block block;

	if (callers_ || size < LONG) {
		RETURN_IF_REFUSED(hm_pool_alloc(pool_, static_cast<uint64_t>(size),
						static_cast<uint64_t>(alignment), out));
		return Status::OK();
	}
	if (!TakeKept(size, &block)) {
		if (kept_bytes_ && used.now() + kept_bytes_ > limit_)
			Trim();
		Status status = MakeBlock(size, &block);

		if (!status.ok()) {
			/* What is kept may be what is missing. */
			Trim();
			ARROW_RETURN_NOT_OK(MakeBlock(size, &block));
		}
	}
	Enter(block);
	*out = block.base;
	return Status::OK();
}

Status Memory::Resize(int64_t keep, int64_t size, int64_t alignment, uint8_t **pointer)
{
	uint8_t *now = *pointer, *next;
	Block block;

	if (Leave(now, &block)) {
		uint64_t wanted = static_cast<uint64_t>(Rounded(size));
		bool fits = size <= block.bytes;

		if (!fits && !hm_buffer_resize(block.buffer, wanted, 0)) {
			block.bytes = static_cast<int64_t>(wanted);
			(void)hm_map_advise(block.map, 0, wanted, HM_ADVICE_HUGEPAGE);
			fits = true;
		}
		Enter(block);
		if (fits)
			return Status::OK();
	} else if (size < LONG || callers_) {
		struct hm_pointer_info info;

		if (!hm_pointer_find(now, &info) && info.base == now &&
		    static_cast<uint64_t>(size) <= info.length)
			return Status::OK();
	}
	ARROW_RETURN_NOT_OK(Get(size, alignment, &next));
	(void)hm_copy(next, now, static_cast<uint64_t>(std::min(keep, size)), 0);
	Put(now);
	*pointer = next;
	return Status::OK();
}

/* Destructors get here: a list without room keeps nothing. The lock is held. */
bool Memory::Keep(const Block &block) noexcept
{
	try {
		kept_.emplace(block.bytes, block);
	} catch (const std::bad_alloc &) {
		return false;
	}
	kept_bytes_ += block.bytes;
	return true;
}

void Memory::Put(uint8_t *pointer)
{
	Block block;

	if (!Leave(pointer, &block)) {
		(void)hm_pool_free(pool_, pointer);
		return;
	}
	{
		std::lock_guard<std::mutex> held(lock_);

		if (kept_bytes_ + block.bytes <= kept_most_ &&
		    kept_bytes_ + used.now() <= limit_ && Keep(block))
			return;
	}
	EndBlock(block);
}

void Memory::Trim()
{
	std::multimap<int64_t, Block> taken;

	{
		std::lock_guard<std::mutex> held(lock_);

		taken.swap(kept_);
		kept_bytes_ = 0;
	}
	for (const auto &entry : taken)
		EndBlock(entry.second);
}

Pool *Pool::Make(const std::shared_ptr<Memory> &memory, int64_t slack)
{
	return new Pool(memory, slack);
}

Status Pool::Refused() const
{
	int64_t bytes = beyond_.load(std::memory_order_relaxed);

	return bytes ? memory_->Refusal(bytes) : Status::OK();
}

void Pool::Hold()
{
	holds_.fetch_add(1, std::memory_order_relaxed);
}

void Pool::Drop()
{
	if (holds_.fetch_sub(1, std::memory_order_acq_rel) == 1)
		delete this;
}

Status Pool::Count(int64_t bytes)
{
	if (!memory_->used.Add(bytes, memory_->limit())) {
		int64_t none = 0;

		if (!slack_ || !memory_->used.Add(bytes, memory_->limit() + slack_))
			return memory_->Refusal(bytes);
		beyond_.compare_exchange_strong(none, bytes, std::memory_order_relaxed);
	}
	(void)used_.Add(bytes, INT64_MAX);
	return Status::OK();
}

void Pool::Uncount(int64_t bytes)
{
	memory_->used.Take(bytes);
	used_.Take(bytes);
}

Status Pool::Allocate(int64_t size, int64_t alignment, uint8_t **out)
{
	Status status;

	if (size < 0)
		return Fail(-EBADMSG, "an allocation of %" PRId64 " bytes", size);
	/* libarrow gives back what has no bytes, too. */
	if (!size) {
		*out = nothing;
		Hold();
		return Status::OK();
	}
	ARROW_RETURN_NOT_OK(Count(size));
	status = memory_->Get(size, alignment, out);
	if (!status.ok()) {
		Uncount(size);
		return status;
	}
	total_.fetch_add(size, std::memory_order_relaxed);
	allocations_.fetch_add(1, std::memory_order_relaxed);
	Hold();
	return Status::OK();
}

Status Pool::Reallocate(int64_t old_size, int64_t new_size, int64_t alignment,
			uint8_t **pointer)
{
	Status status;

	if (new_size < 0)
		return Fail(-EBADMSG, "an allocation of %" PRId64 " bytes", new_size);
	if (*pointer == nothing) {
		ARROW_RETURN_NOT_OK(Allocate(new_size, alignment, pointer));
		Drop();
		return Status::OK();
	}
	if (!new_size) {
		Hold();
		Free(*pointer, old_size, alignment);
		*pointer = nothing;
		return Status::OK();
	}
	if (new_size > old_size)
		ARROW_RETURN_NOT_OK(Count(new_size - old_size));
	status = memory_->Resize(old_size, new_size, alignment, pointer);
	if (!status.ok()) {
		if (new_size > old_size)
			Uncount(new_size - old_size);
		return status;
	}
	if (new_size < old_size)
		Uncount(old_size - new_size);
	else
		total_.fetch_add(new_size - old_size, std::memory_order_relaxed);
	return Status::OK();
}

void Pool::Free(uint8_t *buffer, int64_t size, int64_t)
{
	if (buffer != nothing) {
		memory_->Put(buffer);
		Uncount(size);
	}
	Drop();
}

} /* namespace hetmap */
