/* SPDX-License-Identifier: MIT */
/*
 * Tables: the columns of Arrow and Parquet files as unified pointers, in the library
 * libhetmap-table.
 *
 * Columns of Arrow files that are stored plainly are used where they lie, in a map of the file.
 * All other columns are decoded once, by libarrow and libparquet, into memory of a device. In both
 * cases each buffer of a column is a unified pointer, which launches take:
 *
 *	hm_table_open(paths, n_paths, &desc, &table);
 *	hm_table_find(table, "volume", &index);
 *	hm_table_column(table, index, &column);
 *	hm_column_query(column, &info);
 *	for (i = 0; i < info.chunks; i++) {
 *		hm_column_chunk(column, i, &chunk);
 *		hm_launch(queue, sum, chunk.rows, &done, HM_IN(chunk.values), ...);
 *	}
 *
 * Tables leave and enter by the Arrow C data, stream and device interfaces (hetmap/arrow.h), so
 * that pyarrow, polars, DuckDB and R take them without a copy.
 *
 * A file that is cut off, or storage that fails, is an error of the functions below, and no
 * signal: these functions decode only bytes that they have read. The caller itself touches the
 * columns that are used where they lie. A caller that needs an error instead of a signal there
 * must touch them in a guarded scope (hetmap/guard.h).
 *
 * hetmap/table_exchange.h has tables that leave, enter and are written; hetmap/table_batches.h has
 * the rows of a table through bounded memory. This header includes both.
 *
 * Texts of errors name the file and, where they apply, the column and the row group.
 *
 * Thread safety of all functions: any thread, unless the function says otherwise.
 */
#ifndef HETMAP_TABLE_H
#define HETMAP_TABLE_H

#include <hetmap/arrow.h>
#include <hetmap/device.h>
#include <hetmap/pool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_table;  /* columns of files, of buffers, or of another library */
struct hm_column; /* a column, ready for use */

/* A number of rows that is not known yet. */
#define HM_TABLE_UNKNOWN UINT64_MAX

enum hm_table_format {
	HM_TABLE_AUTO = 0,         /* by the first bytes, never by the name */
	HM_TABLE_ARROW = 1,        /* Arrow IPC file, which is also Feather version 2 */
	HM_TABLE_ARROW_STREAM = 2, /* Arrow IPC stream */
	HM_TABLE_PARQUET = 3,
	HM_TABLE_CSV = 4,    /* text with separators: files of text that begin like no other */
	HM_TABLE_MEMORY = 5, /* of hm_table_import() and its like; not for files */
};

/* hm_table_desc.flags */
#define HM_TABLE_READ (1u << 0) /* nothing is used where it lies: files are read, not mapped */
/*
 * Each offset, index and string is checked when a column comes: without this flag only lengths and
 * the outer offsets are. Bytes that are used where they lie are read once for the check.
 */
#define HM_TABLE_CHECK (1u << 1)
#define HM_TABLE_DICTIONARY (1u << 2)    /* Parquet: strings come as dictionaries */
#define HM_TABLE_CSV_NO_HEADER (1u << 3) /* CSV: the first line has values, not names */
/*
 * Memory for columns of the host is memfds, which hm_buffer_send() takes. Without this flag it is
 * HM_BUFFER_PRIVATE, which is faster where huge pages are available.
 */
#define HM_TABLE_SHAREABLE (1u << 4)
/* CSV: the types are those of all rows, which the open reads, and not of the first 1 MiB */
#define HM_TABLE_CSV_WHOLE (1u << 5)

/* How a value of a column must be, for a row group to be read. */
enum hm_table_compare {
	HM_TABLE_EQUAL = 0,
	HM_TABLE_NOT_EQUAL = 1,
	HM_TABLE_LESS = 2,
	HM_TABLE_LESS_EQUAL = 3,
	HM_TABLE_GREATER = 4,
	HM_TABLE_GREATER_EQUAL = 5,
	HM_TABLE_NULL = 6,     /* value is not used */
	HM_TABLE_NOT_NULL = 7, /* likewise */
};

/*
 * A condition on rows. This struct is fixed, because it comes in arrays. Row groups of Parquet that
 * have no such row, by their statistics, are not read. All other row groups come whole: the caller
 * still compares the rows. A value that is not a number (NaN) is never a reason to skip.
 */
struct hm_table_filter {
	const char *column; /* name of a column of the files, selected or not */
	const char *value;  /* text of the value: "1000", "2024-01-31", "600000.XSHG" */
	uint32_t compare;   /* enum hm_table_compare */
	uint32_t reserved;  /* 0 */
};

struct hm_table_desc {
	uint32_t struct_size;
	uint32_t flags;  /* HM_TABLE_* */
	uint32_t format; /* enum hm_table_format of all files */
	/*
	 * Threads that open files, and decode row groups and columns, at a time, 64 at most; 0: one
	 * for each CPU, 8 at most. The threads exist during a call only. With 1, nothing else than
	 * the caller's thread decodes; else libarrow's own threads may help with a batch.
	 */
	uint32_t threads;
	/* Memory for columns that are decoded. NULL: the device of pool, or "host". */
	struct hm_device *device;
	struct hm_pool *pool; /* [optional] all memory for columns comes from it */
	/* [optional] Names of the columns to have, in this order. NULL: all columns. */
	const char *const *columns;
	const struct hm_table_filter *filters; /* [optional] all must hold */
	uint32_t n_columns;
	uint32_t n_filters;
	/*
	 * Most bytes that decoded columns and the work on them may have at a time; 0: half of the
	 * memory. A small file that claims to hold more is -EFBIG.
	 */
	uint64_t limit;
	char separator; /* CSV: between two values; 0: ',' */
	char reserved[7];
};

/* Totals. Pointers live as long as the table. */
struct hm_table_info {
	uint32_t struct_size;
	uint32_t format;  /* enum hm_table_format of the first file */
	uint32_t files;   /* 0: HM_TABLE_MEMORY */
	uint32_t columns; /* selected ones */
	uint64_t rows;   /* rows of the groups that are not skipped; or HM_TABLE_UNKNOWN: CSV */
	uint64_t groups; /* row groups and record batches, skipped ones included */
	uint64_t skipped;    /* row groups that filters leave out */
	uint64_t stored;     /* bytes of all files */
	uint64_t bytes_read; /* bytes that were read out of files, so far; maps do not count */
	uint64_t bytes_decoded; /* bytes of columns that were decoded or copied, so far */
	uint64_t bytes_placed; /* bytes of columns that were handed out where they lie, so far */
	uint64_t memory;       /* bytes that decoded columns and the work on them have now */
	uint64_t peak;         /* the most so far */
	uint64_t limit;        /* as given or chosen */
	uint32_t threads;      /* likewise */
	uint32_t reserved;
};

/* A file. Pointers live as long as the table. */
struct hm_table_file_info {
	uint32_t struct_size;
	uint32_t format;     /* enum hm_table_format */
	const char *path;    /* path as opened */
	struct hm_map *map;  /* map of the whole file; NULL: the file is read */
	const char *why;     /* reason for map, in a few words: "Parquet is decoded" */
	const char *creator; /* program that wrote a Parquet file; "" */
	uint64_t size;       /* bytes */
	uint64_t first_group;
	uint64_t groups;
	uint64_t rows; /* all rows, or HM_TABLE_UNKNOWN: CSV */
};

/* A column, as the files describe it. Pointers live as long as the table. */
struct hm_table_field_info {
	uint32_t struct_size;
	uint32_t nullable;  /* 1: values may be missing */
	const char *name;   /* UTF-8 */
	const char *type;   /* name of the type, for people: "timestamp[ms]" */
	const char *format; /* name of the type in the Arrow C data interface: "tsm:" */
	/*
	 * Bits of an element of hm_table_chunk.values; 0: elements have no fixed size, or are in
	 * children.
	 */
	uint32_t bits;
	uint32_t children;   /* columns inside of this one */
	uint32_t dictionary; /* 1: the values are indices into a dictionary */
	/*
	 * 1: chunks that are stored plainly are used where they lie; 0: all are decoded. What
	 * happened to a chunk is in hm_table_chunk, and tells the same for each file.
	 */
	uint32_t in_place;
	const char *why; /* reason for in_place, in a few words */
};

/* A row group of Parquet, or a record batch of Arrow. */
struct hm_table_group_info {
	uint32_t struct_size;
	uint32_t file;      /* number of the file */
	uint64_t in_file;   /* number of the group in its file */
	uint64_t first_row; /* first row in its file; HM_TABLE_UNKNOWN: CSV */
	uint64_t rows;      /* or HM_TABLE_UNKNOWN: CSV */
	uint64_t stored;    /* bytes in the file, of all of its columns */
	uint64_t plain;     /* Parquet: bytes before the compression; else as stored */
	uint32_t skipped;   /* 1: filters leave it out */
	uint32_t reserved;
};

/*
 * Part of a column in one group, as it is stored. Pointers live until the next call of
 * hm_table_stored() of the same thread. For a column with children all of its parts count.
 */
struct hm_table_stored_info {
	uint32_t struct_size;
	uint32_t in_place;     /* 1: used where it lies; 0: decoded, or copied */
	const char *why;       /* reason for in_place, in a few words */
	const char *codec;     /* "zstd"; "none" */
	const char *encodings; /* Parquet: "RLE_DICTIONARY, PLAIN"; else "" */
	const char *min;       /* least value as a text; NULL: no statistics */
	const char *max;       /* greatest value, likewise */
	uint64_t stored;       /* bytes in the file */
	uint64_t plain;        /* bytes before the compression */
	uint64_t nulls;        /* missing values; HM_TABLE_UNKNOWN: not told */
	uint64_t values; /* values with the missing ones; may be more than rows, for lists */
};

/**
 * hm_table_open - open files as one table
 * @paths:     [in] paths of regular files, or of one folder, whose files are taken in the order of
 *             their names, without those that begin with '.' or '_', and not from folders in it
 * @n_paths:   [in] number of paths, from 1
 * @desc:      [in, optional] NULL: all columns, in memory of "host"
 * @ret_table: [out] a reference; the caller must drop it with hm_table_unref()
 *
 * Reads headers and footers only: of Arrow files the footer and the header of the first batch, of
 * Arrow streams the headers of all batches, and of CSV the first block.
 * All files must have the same columns, by names and types; their order may differ, and the first
 * file's counts. Files may be of different formats.
 *
 * CSV is text whose first line has the names of the columns. The types are those of the values in
 * the first block, 1 MiB. Columns without a value in it get their type from the rest of the file,
 * which the open then reads, and columns without any value that of the same column in another file.
 * Values of the rest of the file must have the type of their column; with HM_TABLE_CSV_WHOLE the
 * types are those of all rows. Further files must have the same types.
 *
 * An Arrow file of the other byte order is decoded. Arrow's older format, Feather version 1, is
 * not read. Encrypted Parquet is not read.
 *
 * The date64 of Arrow, which counts milliseconds, is stored as date32 by writers of Parquet, which
 * counts days: the time of the day is lost when such a file is written. For columns of Parquet that
 * were date64 hm_warning() says so.
 *
 * Errors:
 *   -EBADMSG:    a file breaks a rule of its format; the text has what libarrow says.
 *   -EOPNOTSUPP: a file begins like no format that this library reads, is encrypted, or needs a
 *                codec that libarrow was built without.
 *   -ENODATA:    a file is empty, or a folder has no files.
 *   -EINVAL:     files differ in their columns; a file is not a regular file; a filter's value
 *                is no value of its column's type; or an argument is out of range.
 *   -ENOENT:     there is no such file; or no such column, which the text says with its name.
 *   -EOPNOTSUPP: the device makes no buffers, or CPUs reach them in brackets only
 *                (HM_CAP_BRACKET).
 *   -EFBIG:      the first block of a CSV file needs more than desc.limit, or the columns whose
 *                types the open takes from the whole file do.
 *   -EIO:        storage failed.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition the other errors of open(2), of hm_device_open() and of hm_buffer_from_file().
 */
HM_API int hm_table_open(const char *const *paths, uint32_t n_paths,
			 const struct hm_table_desc *desc, struct hm_table **ret_table);

/**
 * hm_table_query - report the totals, and what was done so far
 * @table:    [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_open().
 */
HM_API int hm_table_query(struct hm_table *table, struct hm_table_info *ret_info);

/**
 * hm_table_file - describe a file
 * @table:    [in]
 * @file:     [in] number of the file, from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the table has fewer files.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_query().
 */
HM_API int hm_table_file(struct hm_table *table, uint32_t file,
			 struct hm_table_file_info *ret_info);

/**
 * hm_table_field - describe a column
 * @table:    [in]
 * @column:   [in] number of the column, from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the table has fewer columns.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_table_field(struct hm_table *table, uint32_t column,
			  struct hm_table_field_info *ret_info);

/**
 * hm_table_find - find a column by its name
 * @table:      [in]
 * @name:       [in] name of the column; the first one counts if several have it
 * @ret_column: [out] number for hm_table_column()
 *
 * Errors:
 *   -ENOENT: the table has no such column.
 */
HM_API int hm_table_find(struct hm_table *table, const char *name, uint32_t *ret_column);

/**
 * hm_table_schema - return the types of all columns by the C data interface
 * @table:      [in]
 * @ret_schema: [out] a struct "+s"; the caller must end it with its release()
 *
 * The notes (metadata) of the first file are included.
 *
 * Errors:
 *   -EOPNOTSUPP: the interface has no name for a type.
 */
HM_API int hm_table_schema(struct hm_table *table, struct ArrowSchema *ret_schema);

/**
 * hm_table_group - describe a row group or record batch
 * @table:    [in]
 * @group:    [in] number of the group, from 0, in the order of the files
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the table has fewer groups.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_query().
 */
HM_API int hm_table_group(struct hm_table *table, uint64_t group,
			  struct hm_table_group_info *ret_info);

/**
 * hm_table_stored - describe a column's part in a group, as it is stored
 * @table:    [in]
 * @group:    [in] number of the group, from 0
 * @column:   [in] number of the column, from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the table has fewer groups or columns.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_column().
 */
HM_API int hm_table_stored(struct hm_table *table, uint64_t group, uint32_t column,
			   struct hm_table_stored_info *ret_info);

/** hm_table_ref - take a reference; returns @table. NULL gives NULL. */
HM_API struct hm_table *hm_table_ref(struct hm_table *table);

/**
 * hm_table_unref - drop a reference; NULL is allowed
 *
 * Columns, batches and exported arrays outlive the table.
 */
HM_API void hm_table_unref(struct hm_table *table);

/** hm_table_format_name - return the name of a format: "parquet". NULL: there is no such format. */
HM_API const char *hm_table_format_name(uint32_t format);

/* A column that is ready. */
struct hm_column_info {
	uint32_t struct_size;
	uint32_t column;   /* its number in the table */
	uint64_t chunks;   /* one for each group that is not skipped, or more */
	uint64_t rows;     /* of all chunks */
	uint64_t nulls;    /* missing values of all chunks */
	uint64_t in_place; /* chunks that are used where they lie */
	uint64_t placed;   /* bytes that are used where they lie */
	uint64_t decoded;  /* bytes that were decoded or copied */
};

/*
 * A chunk of a column. Pointers live as long as the column, or as the batch that it is in.
 *
 * Every buffer that has bytes, those of children and dictionaries included, is in a map
 * (hm_pointer_find()).
 * Element i of the chunk is element offset + i of its buffers.
 */
struct hm_table_chunk {
	uint32_t struct_size;
	uint32_t in_place;  /* 1: all are where the file, or the caller, has them */
	const char *why;    /* reason for in_place, in a few words */
	uint64_t first_row; /* first row, in the rows of the column or the batch */
	uint64_t rows;
	uint64_t nulls;
	uint64_t offset; /* elements of the buffers before the first one */
	uint64_t group;  /* number of the group */
	/*
	 * Bit for each element, the lowest bit of a byte first; 1: the value is there. NULL: all
	 * values are there, or a column of type null.
	 */
	const void *validity;
	/*
	 * Columns of strings, of bytes, of lists and of maps: int32_t or int64_t (large ones), one
	 * for each element and one behind the last. Dense unions: int32_t for each element. Else
	 * NULL.
	 */
	const void *offsets;
	/*
	 * Elements of a fixed size; bits of bool; bytes of strings; views, of 16 bytes each, whose
	 * bytes are in array->buffers[2] and the further ones; type ids of unions. NULL: the
	 * elements are in the children (lists of views have offsets and sizes in array->buffers).
	 */
	const void *values;
	uint64_t validity_bytes; /* bytes that may be read at validity */
	uint64_t offsets_bytes;
	uint64_t values_bytes;
	const struct ArrowArray *array;      /* the same with children; belongs to the column */
	const struct ArrowArray *dictionary; /* values that the elements are indices of; NULL */
};

/**
 * hm_table_column - make a column ready for use
 * @table:      [in]
 * @column:     [in] number of the column, from 0
 * @ret_column: [out] a reference; the caller must drop it with hm_column_unref()
 *
 * Chunks that are stored plainly are found in the map of the file. All other chunks are decoded
 * into memory of the table's device, several at a time. Each call decodes anew.
 *
 * A table all of whose files are used where they lie gives the column at once. Its chunks are found
 * when hm_column_chunk(), hm_column_query() or hm_column_export() asks for them, and what is wrong
 * with a chunk is an error of these calls, which then can be repeated. Such a column keeps the
 * table's files open.
 *
 * A buffer of Arrow that is not aligned for its type is copied, and hm_table_chunk.why says so.
 *
 * Errors:
 *   -ERANGE:     the table has fewer columns.
 *   -EBADMSG:    the file breaks a rule of its format, or bytes do not pass their checksum.
 *   -EFAULT:     imported buffers are not in memory any more; see hm_table_import().
 *   -EFBIG:      the decoded bytes exceed hm_table_desc.limit; the text has both numbers. Use
 *                hm_table_batches_create(), or raise the limit.
 *   -ENODATA:    the file was cut off since the open.
 *   -EIO:        storage failed.
 *   -EOPNOTSUPP: libarrow can't decode the column.
 *   -ENOMEM:     memory is exhausted.
 *
 * In addition the errors of hm_pool_alloc().
 */
HM_API int hm_table_column(struct hm_table *table, uint32_t column,
			   struct hm_column **ret_column);

/**
 * hm_table_columns - make several columns ready, all of them at a time
 * @table:       [in]
 * @columns:     [in, optional] numbers of columns; NULL: the first @n_columns ones
 * @n_columns:   [in] number of columns
 * @ret_columns: [out] array of @n_columns references
 *
 * Reads each file once. The threads share the row groups and the columns. After an error no
 * reference is returned.
 *
 * Errors: those of hm_table_column().
 */
HM_API int hm_table_columns(struct hm_table *table, const uint32_t *columns, uint32_t n_columns,
			    struct hm_column **ret_columns);

/**
 * hm_column_query - report the totals of a column
 * @column:   [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Looks at all chunks. Counts missing values where the file does not tell their number, which
 * touches the column.
 *
 * Errors:
 *   -ENODATA: the file was cut off.
 *   -E2BIG:   struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_column().
 */
HM_API int hm_column_query(struct hm_column *column, struct hm_column_info *ret_info);

/**
 * hm_column_chunk - return the buffers of a chunk
 * @column:    [in]
 * @chunk:     [in] number of the chunk, from 0
 * @ret_chunk: [in,out] the caller must set struct_size
 *
 * Errors:
 *   -ERANGE: the column has fewer chunks.
 *   -E2BIG:  struct_size is larger than this library knows.
 *
 * In addition the errors of hm_table_column().
 */
HM_API int hm_column_chunk(struct hm_column *column, uint64_t chunk,
			   struct hm_table_chunk *ret_chunk);

/**
 * hm_column_export - hand a chunk to another library
 * @column:     [in]
 * @chunk:      [in] number of the chunk, from 0
 * @ret_schema: [out, optional] type of the column; the caller must end it with its release()
 * @ret_array:  [out] the values, on ARROW_DEVICE_CPU; the caller must end array with its
 *              release(). The memory lives until then, whatever else ends before.
 *
 * Errors:
 *   -ERANGE:     the column has fewer chunks.
 *   -EOPNOTSUPP: the interface has no name for the type.
 *
 * In addition the errors of hm_table_column().
 */
HM_API int hm_column_export(struct hm_column *column, uint64_t chunk,
			    struct ArrowSchema *ret_schema, struct ArrowDeviceArray *ret_array);

/** hm_column_ref - take a reference; returns @column. NULL gives NULL. */
HM_API struct hm_column *hm_column_ref(struct hm_column *column);

/** hm_column_unref - drop a reference; NULL is allowed */
HM_API void hm_column_unref(struct hm_column *column);

#ifdef __cplusplus
}
#endif

#include <hetmap/table_batches.h>
#include <hetmap/table_exchange.h>

#endif
