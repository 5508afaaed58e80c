/* SPDX-License-Identifier: MIT */
/*
 * Tables that leave and enter: by the Arrow C interfaces, from buffers of the caller, and into
 * files.
 */
#ifndef HETMAP_TABLE_EXCHANGE_H
#define HETMAP_TABLE_EXCHANGE_H

#include <hetmap/table.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * hm_table_export - hand a table to another library, as a stream of record batches
 * @table:      [in] the stream takes a reference
 * @ret_stream: [out] the caller must end it with its release()
 *
 * Each batch is made when the other library asks for it: one for each group. No byte is copied
 * after that. The functions of the stream may be called from any thread, one at a time. A failure
 * is a positive errno of those of hm_table_column(), and get_last_error() has its text.
 *
 * Errors:
 *   -EOPNOTSUPP: the interface has no name for the type of a column.
 */
HM_API int hm_table_export(struct hm_table *table, struct ArrowArrayStream *ret_stream);

/**
 * hm_table_export_device - the same by the device interface
 * @table:      [in] the stream takes a reference
 * @ret_stream: [out] the caller must end it with its release(); arrays are on ARROW_DEVICE_CPU
 *
 * Errors: those of hm_table_export().
 */
HM_API int hm_table_export_device(struct hm_table *table,
				  struct ArrowDeviceArrayStream *ret_stream);

/**
 * hm_table_import - take a table from another library
 * @stream:    [in] taken over, also on failure: the caller must not touch it any more
 * @desc:      [in, optional] device, pool, columns, limit and HM_TABLE_CHECK count
 * @ret_table: [out] a reference; the caller must drop it with hm_table_unref()
 *
 * Takes all batches. Buffers that are in maps already are used where they are. The others are
 * copied into memory of the device when their column is asked for, so that each is a unified
 * pointer.
 *
 * The other library is not trusted: its structs, and both ends of its buffers, are looked at before
 * they are used, and its exceptions of C++ are errors. A signal in its own functions is not caught.
 *
 * Errors:
 *   -EBADMSG:    an array does not fit its schema.
 *   -EFAULT:     a pointer of the other library leads to memory that is not there, or ends early.
 *   -EIO:        the stream failed; the text has what it says.
 *   -EOPNOTSUPP: the other library uses a type that libarrow does not have.
 *   -ENOENT:     the stream has no column of desc.columns.
 *   -EINVAL:     the stream has ended already.
 *   -E2BIG:      struct_size is larger than this library knows.
 */
HM_API int hm_table_import(struct ArrowArrayStream *stream, const struct hm_table_desc *desc,
			   struct hm_table **ret_table);

/**
 * hm_table_import_device - the same by the device interface
 * @stream:    [in] taken over, also on failure
 * @desc:      [in, optional] as for hm_table_import()
 * @ret_table: [out] a reference; the caller must drop it with hm_table_unref()
 *
 * Errors:
 *   -EOPNOTSUPP: CPUs do not reach the memory: the device is neither ARROW_DEVICE_CPU nor one of
 *                the HOST kinds; or an array has an event to wait for.
 *
 * In addition the errors of hm_table_import().
 */
HM_API int hm_table_import_device(struct ArrowDeviceArrayStream *stream,
				  const struct hm_table_desc *desc,
				  struct hm_table **ret_table);

/**
 * hm_table_import_array - make a table of one array of another library
 * @schema:    [in] type of the array; taken over, also on failure
 * @array:     [in] a struct "+s" of columns, or one column; taken over, also on failure
 * @desc:      [in, optional] as for hm_table_import()
 * @ret_table: [out] a reference; the caller must drop it with hm_table_unref()
 *
 * For an array of the C data interface set device_type to ARROW_DEVICE_CPU, and the rest to 0.
 *
 * Errors: those of hm_table_import_device().
 */
HM_API int hm_table_import_array(struct ArrowSchema *schema, struct ArrowDeviceArray *array,
				 const struct hm_table_desc *desc, struct hm_table **ret_table);

/* A column in buffers of the caller. This struct is fixed, because it comes in arrays. */
struct hm_table_buffers {
	const char *name;
	/*
	 * Type, by its name in the Arrow C data interface: "f" float, "g" double, "c" to "L"
	 * integers of 1 to 8 bytes, "b" bits, "u" and "U" strings, "z" and "Z" bytes, "w:N" N
	 * bytes, "tdD" and "tdm" dates, "tsm:" timestamps, "d:P,S" decimals.
	 */
	const char *format;
	const void *validity; /* as in hm_table_chunk; NULL: all values are there */
	const void *offsets;  /* likewise; "u" and "z": int32_t, "U" and "Z": int64_t */
	const void *values;   /* likewise */
	uint64_t reserved;    /* 0 */
};

/**
 * hm_table_from_buffers - make a table of buffers of the caller
 * @columns:   [in] the columns; buffers must live as long as the table and all that came out of
 *             it, and their bytes must not change while a call reads them
 * @n_columns: [in] number of columns, from 1
 * @rows:      [in] number of rows, which may be 0
 * @desc:      [in, optional] as for hm_table_import(); all columns are selected
 * @ret_table: [out] a reference; the caller must drop it with hm_table_unref()
 *
 * Copies nothing. Such a table is what hm_table_write() and hm_table_export() take.
 *
 * Errors:
 *   -EINVAL:     a column has no name or no values, or offsets are missing, or decrease.
 *   -EOPNOTSUPP: the format is not one of the above; use hm_table_import_array().
 *   -E2BIG:      struct_size is larger than this library knows.
 */
HM_API int hm_table_from_buffers(const struct hm_table_buffers *columns, uint32_t n_columns,
				 uint64_t rows, const struct hm_table_desc *desc,
				 struct hm_table **ret_table);

/* hm_table_write_desc.flags */
/*
 * The rows go behind those of the file, in further groups. If @path is a folder, they go into a
 * further file of it.
 */
#define HM_TABLE_APPEND (1u << 0)
#define HM_TABLE_SYNC (1u << 1) /* returns when the bytes are on storage: fsync(2) */

struct hm_table_write_desc {
	uint32_t struct_size;
	uint32_t flags; /* HM_TABLE_APPEND | HM_TABLE_SYNC */
	/*
	 * HM_TABLE_ARROW, HM_TABLE_ARROW_STREAM or HM_TABLE_PARQUET; HM_TABLE_AUTO: that of the
	 * file or the folder that rows are appended to, else HM_TABLE_PARQUET.
	 */
	uint32_t format;
	int32_t level;     /* of the codec, as it defines it; 0: its own default */
	const char *codec; /* "zstd", "snappy", "lz4", "gzip", "brotli", "none"; NULL: "none" */
	uint64_t group_rows; /* most rows of a group; 0: 1 Mi (1,048,576) */
	/* Parquet: encoding of all columns without a dictionary, "PLAIN" or another name; NULL:
	 * libparquet chooses, and uses dictionaries. */
	const char *encoding;
};

struct hm_table_write_info {
	uint32_t struct_size;
	uint32_t format; /* enum hm_table_format */
	uint64_t rows;   /* rows that were written */
	uint64_t groups; /* groups that were written */
	uint64_t bytes;  /* size of the file now */
	uint64_t copied; /* bytes of the old file that an append copied; 0: shared with it */
	char path[256]; /* name of the file in a folder; "" if @path is the file, or too long */
};

/**
 * hm_table_write - write a table into a file
 * @table:    [in] any table
 * @path:     [in] path of the file; an existing one is replaced, or continued (HM_TABLE_APPEND);
 *            a symbolic link stays, and leads to the new file
 * @desc:     [in, optional] NULL: Parquet without compression
 * @ret_info: [in,out, optional] the caller must set struct_size
 *
 * Writes a new file beside @path, and renames it: after a failure @path is as before, and readers
 * of the old file keep it. An append to Parquet copies the old row groups as they are, or shares
 * their bytes where the file system can, and writes a footer for all. An append to an Arrow file
 * writes the old batches again.
 *
 * Parquet has no date64, and stores days: hm_warning() says so, if a value has a time of the day.
 *
 * Errors:
 *   -EINVAL:     the columns differ from those of the file to append to (the text names the first
 *                one), a flag is unknown, the level or the encoding is not the codec's, or the
 *                format is none to be written.
 *   -EOPNOTSUPP: the format can't store a type, or different dictionaries of one column (Arrow
 *                files), or libarrow has no such codec.
 *   -EBADMSG:    a column has offsets, indices or texts that are none (HM_TABLE_CHECK).
 *   -EAGAIN:     another program replaced or changed the file during an append.
 *   -ENOSPC:     the file system is full.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_column() and of open(2).
 */
HM_API int hm_table_write(struct hm_table *table, const char *path,
			  const struct hm_table_write_desc *desc,
			  struct hm_table_write_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
