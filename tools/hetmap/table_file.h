/* SPDX-License-Identifier: MIT */
/* Files of tables: which hetmap inspect leaves to the extension that reads them. */
#ifndef HETMAP_TABLE_FILE_H
#define HETMAP_TABLE_FILE_H

/*
 * "a file of Parquet", for a file that begins as one of Arrow or Parquet does, for a folder of
 * such files, and for a file that is named as CSV. NULL: it is none, or can't be read.
 */
const char *table_file_kind(const char *path);

#endif
