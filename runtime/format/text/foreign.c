// SPDX-License-Identifier: MIT
/* Knows files of other kinds by their first bytes: see foreign.h. */
#include "format/text/foreign.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/util.h"

/* Bytes that a file of a kind has at an offset. */
struct mark {
	uint16_t offset, length;
	const char *bytes;
};

#define AT(offset, bytes)                        \
	{                                        \
		offset, sizeof(bytes) - 1, bytes \
	}
#define BEGINS(bytes) AT(0, bytes)

#define TABLE                                                                                  \
	"libhetmap-table reads it, hetmap run table and hetmap inspect, too; to have tokens, " \
	"save their column with pyarrow and numpy.save()"
#define BESIDE "name the .bin file beside it, which has the tokens"
#define UNPACK "unpack it, and name the files that were in it"
#define SERVER \
	"a server sent it instead of the file: get the file again, logged in if it must be"

/* So many of the first kinds stand in for the wanted file, which is somewhere else. */
#define STAND_INS 6

static const struct {
	struct mark mark[2]; /* a file must have both; the second one may be empty */
	const char *what, *remedy;
} kinds[] = {
	/* Pointers, which stand for a file [github.com/git-lfs/git-lfs, docs/spec.md]. */
	{ { BEGINS("version https://git-lfs.github.com/spec/v1") },
	  "a pointer of Git LFS, which stands for the file",
	  "run \"git lfs pull\" in its folder" },
	{ { BEGINS("/annex/objects/") },
	  "a pointer of git-annex, which stands for the file",
	  "run \"git annex get\" for it" },
	{ { BEGINS("<!DOCTYPE html") }, "a page of HTML", SERVER },
	{ { BEGINS("<!doctype html") }, "a page of HTML", SERVER },
	{ { BEGINS("<html") }, "a page of HTML", SERVER },
	{ { BEGINS("<?xml") }, "a text of XML", SERVER },
	/*
	 * Data in other formats. A stream of Arrow begins with a message's length, not with a name.
	 */
	{ { BEGINS("ARROW1\0\0") }, "a file of Arrow", TABLE },
	{ { BEGINS("\xff\xff\xff\xff"), AT(8, "\x10\0\0\0\0\0\x0a\0") },
	  "a stream of Arrow, as the datasets package keeps them",
	  TABLE },
	{ { BEGINS("PAR1") }, "a file of Parquet", TABLE },
	{ { BEGINS("PARE") }, "a file of Parquet, encrypted", TABLE },
	{ { BEGINS("\x89HDF\r\n\x1a\n") },
	  "a file of HDF5",
	  "read it with h5py, and save what is wanted by numpy.save()" },
	{ { BEGINS("GGUF") }, "a model of GGUF", "hm_gguf(3) and hm_pieces(3) read those" },
	{ { BEGINS("\x93NUMPY") }, "a .npy file", "hm_npy(3) and hm_tokens(3) read those" },
	{ { BEGINS("MMIDIDX\0\0") }, "an index of Megatron (.idx)", BESIDE },
	{ { BEGINS("TNTIDX\0\0") }, "an index of fairseq (.idx)", BESIDE },
	/* torch.save() before version 1.6: a pickle of the format's magic number. */
	{ { BEGINS("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.") },
	  "a checkpoint of PyTorch, a pickle, which runs code when it is read",
	  "get the model in the form of safetensors" },
	/* Archives and compressed files. */
	{ { AT(257, "ustar") }, "an archive of tar", UNPACK },
	{ { BEGINS("PK\3\4") }, "an archive of zip, as .npz and .pt are", UNPACK },
	{ { BEGINS("\x1f\x8b\x08\0") }, "compressed by gzip", "run gunzip first" },
	{ { BEGINS("\x1f\x8b\x08\x08") }, "compressed by gzip", "run gunzip first" },
	{ { BEGINS("\x28\xb5\x2f\xfd") }, "compressed by zstd", "run unzstd first" },
	{ { BEGINS("\xfd\x37zXZ\0") }, "compressed by xz", "run unxz first" },
};

static bool has(const char *bytes, size_t n, const struct mark *mark)
{
	return (size_t)mark->offset + mark->length <= n &&
	       (!mark->length || !memcmp(bytes + mark->offset, mark->bytes, mark->length));
}

/* Compares the bytes with the first @n_kind kinds. */
static int check(const void *bytes, size_t n, size_t n_kind)
{
	size_t i;

	for (i = 0; i < n_kind; i++)
		if (has(bytes, n, &kinds[i].mark[0]) && has(bytes, n, &kinds[i].mark[1]))
			return err_set(-EOPNOTSUPP, "it is %s: %s", kinds[i].what,
				       kinds[i].remedy);
	return 0;
}

int foreign_check(const void *bytes, size_t n)
{
	return check(bytes, n, ARRAY_SIZE(kinds));
}

int foreign_check_stand_in(const void *bytes, size_t n)
{
	return check(bytes, n, STAND_INS);
}
