/* SPDX-License-Identifier: MIT */
/* Settling: columns of libarrow become columns whose buffers are unified pointers. */
#ifndef HETMAP_TABLE_SETTLE_HH
#define HETMAP_TABLE_SETTLE_HH

#include <arrow/array/data.h>
#include <arrow/c/bridge.h>
#include <hetmap/table.h>

#include "source.hh"

namespace hetmap
{

/* A chunk of a column that is ready. */
class Chunk
{
      public:
	Chunk() = default;
	~Chunk();
	Chunk(Chunk &&other) noexcept;
	Chunk &operator=(Chunk &&other) noexcept;
	Chunk(const Chunk &) = delete;
	Chunk &operator=(const Chunk &) = delete;

	/* Fills in @ret, whose struct_size is set, but for the numbers of rows and groups. */
	void Describe(struct hm_table_chunk *ret) const;

	std::shared_ptr<arrow::ArrayData> data;
	uint64_t group = 0, first_row = 0;
	bool in_place = true;
	std::string why;
	int64_t placed = 0, copied = 0; /* bytes that are where they lie, and others */
	/* The same by the C data interface: for pointers into it that live as long as the chunk. */
	struct ArrowArray exported = {};
};

struct SettleHow {
	const Source *source = nullptr;
	PoolRef pool;
	uint32_t flags = 0; /* HM_TABLE_* */
};

/*
 * Makes a chunk of @data: checks that the buffers are as long as the type wants them, copies those
 * that are in no map or not aligned, and exports it.
 */
Status Settle(const std::shared_ptr<arrow::ArrayData> &data, const SettleHow &how, Chunk *ret);

/* The bytes of a fixed-size element of the values; 0: it has none. In bits, since bool has one. */
uint32_t BitsOf(const arrow::DataType &type);

} /* namespace hetmap */

#endif
