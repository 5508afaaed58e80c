/* SPDX-License-Identifier: MIT */
/* What is known of an open file, asked of the kernel. */
#ifndef HETMAP_READER_FACTS_H
#define HETMAP_READER_FACTS_H

#include <sys/stat.h>

#include "reader/choose.h"
#include "core/core.h"

/* "0x5a3c69f0", for a file system without a name here. */
#define FS_NAME_MAX 16

/*
 * Of the file at @fd, whose range has @length bytes; @whole, a map of all of it, or NULL, is
 * what a sample is taken by. @fs_name is where facts->fs may point to. What can't be found
 * out is as unknown as it is: nothing here fails.
 */
void facts_find(int fd, const struct stat *st, uint64_t length, const struct hm_map *whole,
		char fs_name[FS_NAME_MAX], struct reader_facts *ret_facts);

/*
 * The most bytes of the file at @fd that one fault maps. fault_around_bytes, 64 KiB, is that
 * where its page cache has single pages; where it may have large folios, it is what one page
 * of a page table maps, 2 MiB with pages of 4 KiB:
 *
 * - Since Linux 6.18 each folio of those around is mapped from end to end [mm/filemap.c,
 *   filemap_map_folio_range(), commit 357b92761d94; mm/memory.c, finish_fault(), commit
 *   19773df031bc]. A byte of a file that was written to ext4 in one piece maps 2 MiB of it
 *   there, also with MADV_RANDOM and MADV_NOHUGEPAGE.
 * - Before that, folios of tmpfs [finish_fault(): of shared memory without a name since 6.11, of
 *   files later], and those as large as a huge page of any file system are [filemap_map_pmd(),
 *   do_set_pmd(); 6.1 and 6.12 do]. MADV_NOHUGEPAGE prevents the latter since 6.12 only
 *   [commit 2b0f922323cc].
 * - No fault goes beyond the page table of its address, whatever fault_around_bytes is
 *   [do_fault_around()].
 *
 * Nothing tells whether there are large folios of a file, and whoever else reads or writes it
 * may put them there later. So that there can be none has to be known: of file systems that
 * had none, by the kernel's version (file_system.h). With CONFIG_READ_ONLY_THP_FOR_FS those
 * have huge ones, too, of what somebody maps to be executed, which data is not.
 */
uint64_t facts_fault_most(int fd);

/* What the process may have: MemTotal, or the least memory.max above it, if that is less. */
uint64_t facts_ram(void);

/* Of @length bytes at @offset of @whole: are all resident? Where it can't be told: no. */
bool facts_are_resident(const struct hm_map *whole, uint64_t offset, uint64_t length);

#endif
