/* SPDX-License-Identifier: MIT */
/*
 * Pieces: the contents of a file, whatever its format.
 *
 * A piece is a name, a type, a shape, and a range of bytes in a file: a tensor of a model, an
 * array of numpy's, a file of tokens. The library finds the format of a file in one table, by the
 * file's first bytes, then by its name. hm_load_create() brings pieces of any format into a
 * device. hetmap/safetensors.h, hetmap/gguf.h, hetmap/npy.h and hetmap/tokens.h have functions
 * that only one format has.
 *
 * Thread safety of all functions: any thread. The description of an open file never changes.
 */
#ifndef HETMAP_PIECES_H
#define HETMAP_PIECES_H

#include <hetmap/map.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hm_pieces; /* the pieces of a file, or of the files of a model */
struct hm_tokens_desc;

/* Types of elements, by their names in files. F4 and F6 take 4 and 6 bits. */
enum hm_dtype {
	HM_DTYPE_BOOL = 0,
	HM_DTYPE_F4 = 1,
	HM_DTYPE_F6_E2M3 = 2,
	HM_DTYPE_F6_E3M2 = 3,
	HM_DTYPE_U8 = 4,
	HM_DTYPE_I8 = 5,
	HM_DTYPE_F8_E5M2 = 6,
	HM_DTYPE_F8_E4M3 = 7,
	HM_DTYPE_F8_E8M0 = 8,
	HM_DTYPE_F8_E4M3FNUZ = 9,
	HM_DTYPE_F8_E5M2FNUZ = 10,
	HM_DTYPE_I16 = 11,
	HM_DTYPE_U16 = 12,
	HM_DTYPE_F16 = 13,
	HM_DTYPE_BF16 = 14,
	HM_DTYPE_I32 = 15,
	HM_DTYPE_U32 = 16,
	HM_DTYPE_F32 = 17,
	HM_DTYPE_C64 = 18,
	HM_DTYPE_F64 = 19,
	HM_DTYPE_I64 = 20,
	HM_DTYPE_U64 = 21,
	HM_DTYPE_OPAQUE = 0xffff, /* known to its format only, by a name and blocks */
};

/* A format, as a row of the library's table. */
struct hm_format_info {
	uint32_t struct_size;
	uint32_t reserved;
	const char *name; /* "safetensors" */
	const char *text; /* the format in a few words, and the names of its files */
	const char *word; /* word for one of its pieces, such as "tensor" */
};

struct hm_pieces_desc {
	uint32_t struct_size;
	uint32_t flags; /* 0 */
	/*
	 * [optional] Description of raw numbers (hetmap/tokens.h). A file of no other format is
	 * read as such numbers. NULL: such a file is an error. Its dtype also names the type of
	 * .npy and .npz arrays of plain bytes (HM_NPY_BYTES).
	 */
	const struct hm_tokens_desc *raw;
	/* [optional] Paths of further files. All files together are one array of tokens. */
	const char *const *more;
	uint32_t n_more;
	uint32_t reserved; /* 0 */
};

/* Totals. Pointers live as long as the queried object. */
struct hm_pieces_info {
	uint32_t struct_size;
	uint32_t files;
	const char *format; /* name of the format */
	const char *word;   /* word for a piece of these files, such as "tensor" */
	uint64_t pieces;
	uint64_t metadata; /* number of the files' own notes */
	uint64_t bytes;    /* bytes of all pieces */
	uint64_t ignored;  /* number of entries of the files that are no pieces of the model */
};

/* One of the files. */
struct hm_pieces_file_info {
	uint32_t struct_size;
	uint32_t reserved;
	const char *path;     /* path as opened */
	struct hm_map *map;   /* map of the whole file; NULL: the file is read, not mapped */
	uint64_t size;        /* size of the file */
	uint64_t data_offset; /* offset of the header's end */
	uint64_t first;       /* index of its first piece */
	uint64_t pieces;
};

/* A piece. Pointers live as long as the queried object. */
struct hm_piece_info {
	uint32_t struct_size;
	uint32_t dtype; /* enum hm_dtype */
	uint32_t rank;
	uint32_t file;
	const char *name;      /* UTF-8; no other piece has it */
	const char *type;      /* name of the type: "BF16", or the format's own name for it */
	const uint64_t *shape; /* rank dimensions, the slowest first */
	uint64_t index;
	uint64_t offset; /* offset of the first byte, in its file */
	uint64_t bytes;
	uint64_t alignment; /* alignment of offset: a power of two, up to the page size */
	/*
	 * The elements of a type are stored in blocks: 1 element of 2 bytes for BF16, 4 elements of
	 * 3 bytes for F6_E2M3, 32 elements of 18 bytes for some quantised types.
	 */
	uint64_t block_elements;
	uint64_t block_bytes;
};

/* A note of a file. This struct is fixed, because it comes in arrays. */
struct hm_metadata {
	const char *key;
	const char *value;
};

/**
 * hm_pieces_format - describe a format that the library reads
 * @index:    [in] row of the table, from 0
 * @ret_info: [in,out] the caller must set struct_size; the strings are static
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: the table has fewer formats.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_pieces_format(uint32_t index, struct hm_format_info *ret_info);

/**
 * hm_pieces_probe - find the format of a file
 * @path:     [in] path of a file, or of a folder with a model
 * @desc:     [in, optional] as for hm_pieces_open(); further files are not looked at
 * @ret_info: [in,out] the caller must set struct_size; the strings are static
 *
 * Looks at the first bytes, and only then at the name. The file may still break the format's rules.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EOPNOTSUPP: the file begins like one of a format that the library does not read, such as a
 *                pointer of Git LFS; the text names the format and the remedy.
 *   -EINVAL:     the file is of no known format, and the text lists the known ones; or the path
 *                names no regular file.
 *   -ENODATA:    the file is empty.
 *   -EIO:        storage failed.
 *   -E2BIG:      struct_size is larger than this library knows.
 *
 * In addition -ENOENT, -EACCES and the other errors of open(2).
 */
HM_API int hm_pieces_probe(const char *path, const struct hm_pieces_desc *desc,
			   struct hm_format_info *ret_info);

/**
 * hm_pieces_open - open a file of any format, and list its pieces
 * @path: [in] path of a file, an index of files, or a folder with a model
 * @desc: [in, optional] NULL: one file, or one model, of a format with types of its own
 * @ret_pieces: [out] a reference; the caller must drop it with hm_pieces_unref()
 *
 * Reads headers only, maps the files, and does not touch the bytes of pieces. The pieces are in the
 * order of the files. After the open, a touch of bytes that were cut off raises SIGBUS, unless
 * hetmap/guard.h handles the fault.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -EBADMSG: the file breaks a rule of its format, or has two pieces of one name; the text names
 *             the rule and the piece.
 *   -ENOMEM:  memory is exhausted.
 *
 * In addition the errors of hm_pieces_probe(), of the function that opens the format
 * (hm_safetensors_open(), hm_gguf_open(), hm_npy_query(), hm_tokens_open()), of
 * hm_buffer_from_file() and of hm_map_create().
 */
HM_API int hm_pieces_open(const char *path, const struct hm_pieces_desc *desc,
			  struct hm_pieces **ret_pieces);

/**
 * hm_pieces_query - report the format and the totals
 * @pieces:   [in]
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -E2BIG: struct_size is larger than this library knows.
 */
HM_API int hm_pieces_query(struct hm_pieces *pieces, struct hm_pieces_info *ret_info);

/**
 * hm_pieces_file - describe one of the files
 * @pieces:   [in]
 * @file:     [in] number of the file, from 0
 * @ret_info: [in,out] the caller must set struct_size
 *
 * A reference to the file's map keeps the map valid after the last hm_pieces_unref().
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: there are fewer files.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_pieces_file(struct hm_pieces *pieces, uint32_t file,
			  struct hm_pieces_file_info *ret_info);

/**
 * hm_pieces_at - describe a piece
 * @pieces:   [in]
 * @index:    [in] index from 0, in the order of the files
 * @ret_info: [in,out] the caller must set struct_size
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: there are fewer pieces.
 *   -E2BIG:  struct_size is larger than this library knows.
 */
HM_API int hm_pieces_at(struct hm_pieces *pieces, uint64_t index,
			struct hm_piece_info *ret_info);

/**
 * hm_pieces_find - find a piece by its name
 * @pieces:    [in]
 * @name:      [in] name of the piece
 * @ret_index: [out] index for hm_pieces_at()
 *
 * The time of a search does not depend on the number of pieces.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ENOENT: no piece has that name.
 */
HM_API int hm_pieces_find(struct hm_pieces *pieces, const char *name, uint64_t *ret_index);

/**
 * hm_pieces_metadata - return one of the files' own notes
 * @pieces:       [in]
 * @index:        [in] index from 0
 * @ret_metadata: [out] strings, which live as long as @pieces
 *
 * The notes are __metadata__ of safetensors, and the keys of GGUF, with the lengths of arrays only.
 * For .npy and .npz files and tokens the library adds a note where the order of the elements or of
 * their bytes differs from that of C on this machine, and for GGUF where that of the bytes does;
 * for .npz files another one where arrays are not aligned for their type, and for tokens with an
 * index the number of documents.
 *
 * Thread safety: any thread.
 *
 * Errors:
 *   -ERANGE: there are fewer notes.
 */
HM_API int hm_pieces_metadata(struct hm_pieces *pieces, uint64_t index,
			      struct hm_metadata *ret_metadata);

/** hm_pieces_ref - take a reference; returns @pieces. NULL gives NULL. */
HM_API struct hm_pieces *hm_pieces_ref(struct hm_pieces *pieces);

/** hm_pieces_unref - drop a reference; NULL is allowed */
HM_API void hm_pieces_unref(struct hm_pieces *pieces);

/** hm_dtype_name - return the name of a type in files: "BF16". NULL: the enum has no such name. */
HM_API const char *hm_dtype_name(uint32_t dtype);

/** hm_dtype_bits - return the number of bits of an element. 0: the enum does not tell. */
HM_API uint32_t hm_dtype_bits(uint32_t dtype);

#ifdef __cplusplus
}
#endif

#endif
