/* SPDX-License-Identifier: MIT */
/* Facts about an open file, from the kernel. */
#ifndef HETMAP_READER_FACTS_H
#define HETMAP_READER_FACTS_H

#include <sys/stat.h>

#include "reader/choose.h"
#include "core/core.h"

/* Room for a name like "0x5a3c69f0", for a file system without a name here. */
#define FS_NAME_MAX 16

/*
 * Finds the facts of the file at @fd and its range of @length bytes. @whole, a map of all of it,
 * or NULL, is used for a sample. facts->fs may point to @fs_name. Facts that can't be found stay
 * unknown: the function never fails.
 */
void facts_find(int fd, const struct stat *st, uint64_t length, const struct hm_map *whole,
		char fs_name[FS_NAME_MAX], struct reader_facts *ret_facts);

/*
 * The most bytes of the file at @fd that one fault maps: fault_around_bytes, 64 KiB, where its
 * page cache has single pages; where it may have large folios, the range of one page of a page
 * table, 2 MiB with pages of 4 KiB:
 *
 * - Since Linux 6.18 each folio nearby is mapped from end to end [mm/filemap.c,
 *   filemap_map_folio_range(), commit 357b92761d94; mm/memory.c, finish_fault(), commit
 *   19773df031bc]. A byte of a file that was written to ext4 in one piece maps 2 MiB of it
 *   there, also with MADV_RANDOM and MADV_NOHUGEPAGE.
 * - Before that, folios of tmpfs [finish_fault(): of shared memory without a name since 6.11, of
 *   files later], and, in any file system, folios as large as a huge page are
 *   [filemap_map_pmd(), do_set_pmd(); 6.1 and 6.12 do]. MADV_NOHUGEPAGE prevents the latter
 *   since 6.12 only [commit 2b0f922323cc].
 * - No fault goes beyond the page table of its address, whatever fault_around_bytes is
 *   [do_fault_around()].
 *
 * The kernel does not tell whether a file has large folios, and any later reader or writer may
 * add some. The smaller figure therefore needs a file system known to have none, by the kernel's
 * version (file_system.h). With CONFIG_READ_ONLY_THP_FOR_FS those have huge ones, too, for files
 * that are mapped to be executed, which data is not.
 */
uint64_t facts_fault_most(int fd);

/* Memory that the process may use: MemTotal, or the least memory.max above it, if less. */
uint64_t facts_ram(void);
/* The same, with the swap that the process may use. */
uint64_t facts_ram_and_swap(void);

/* Are all @length bytes at @offset of @whole resident? False where the kernel does not tell. */
bool facts_are_resident(const struct hm_map *whole, uint64_t offset, uint64_t length);

#endif
