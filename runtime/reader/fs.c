// SPDX-License-Identifier: MIT
/* File systems by statfs(2)'s number: their names, and what is different about them. */
#include "choose.h"

#include "util.h"

static const struct reader_fs known[] = {
	{ 0xEF53, 0, "ext4" },
	{ 0x58465342, 0, "xfs" },
	{ 0x9123683E, 0, "btrfs" },
	{ 0xF2F52010, 0, "f2fs" },
	{ 0xCA451A4E, 0, "bcachefs" },
	{ 0x2FC12FC1, 0, "zfs" },
	{ 0x794C7630, 0, "overlay" },
	{ 0x73717368, 0, "squashfs" },
	{ 0xE0F5E1E2, 0, "erofs" },
	{ 0x9660, 0, "iso9660" },
	{ 0x4D44, 0, "vfat" },
	{ 0x2011BAB0, 0, "exfat" },
	{ 0x5346544E, 0, "ntfs" },
	{ 0x7366746E, 0, "ntfs3" },
	{ 0x3153464A, 0, "jfs" },
	{ 0x52654973, 0, "reiserfs" },
	{ 0x01021994, FS_MEMORY, "tmpfs" },
	{ 0x858458F6, FS_MEMORY, "ramfs" },
	{ 0x958458F6, FS_MEMORY, "hugetlbfs" },
	{ 0x9FA0, FS_MEMORY, "proc" },
	{ 0x62656572, FS_MEMORY, "sysfs" },
	{ 0x64626720, FS_MEMORY, "debugfs" },
	{ 0x6969, FS_NETWORK, "nfs" },
	{ 0x517B, FS_NETWORK, "smb" },
	{ 0xFF534D42, FS_NETWORK, "cifs" },
	{ 0xFE534D42, FS_NETWORK, "smb2" },
	{ 0x00C36400, FS_NETWORK, "ceph" },
	{ 0x0BD00BD0, FS_NETWORK, "lustre" },
	{ 0x47504653, FS_NETWORK, "gpfs" },
	{ 0x5346414F, FS_NETWORK, "afs" },
	{ 0x6B414653, FS_NETWORK, "kafs" },
	{ 0x7461636F, FS_NETWORK, "ocfs2" },
	{ 0x01161970, FS_NETWORK, "gfs2" },
	{ 0x01021997, FS_NETWORK, "9p" },
	{ 0x65735546, FS_SERVED, "fuse" },
};

const struct reader_fs *reader_fs_find(uint32_t magic)
{
	uint32_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (known[i].magic == magic)
			return &known[i];
	return NULL;
}
