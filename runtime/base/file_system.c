// SPDX-License-Identifier: MIT
/* The table of file systems: those of linux/magic.h, and those that modules bring along. */
#include "base/file_system.h"

#include <stddef.h>

#include "base/util.h"

static const struct file_system table[] = {
	{ 0xef53, "ext4", HM_COHERENCE_LOCAL, FS_PAGES_BEFORE_6_16 },
	{ 0x58465342, "xfs", HM_COHERENCE_LOCAL, 0 },
	{ 0x9123683e, "btrfs", HM_COHERENCE_LOCAL, FS_PAGES_BEFORE_6_16 },
	{ 0xf2f52010, "f2fs", HM_COHERENCE_LOCAL, 0 },
	{ 0xca451a4e, "bcachefs", HM_COHERENCE_LOCAL, 0 },
	{ 0x2fc12fc1, "zfs", HM_COHERENCE_LOCAL, 0 },
	{ 0x794c7630, "overlay", HM_COHERENCE_LOCAL, 0 },
	{ 0x73717368, "squashfs", HM_COHERENCE_LOCAL, 0 },
	{ 0xe0f5e1e2, "erofs", HM_COHERENCE_LOCAL, 0 },
	{ 0x9660, "iso9660", HM_COHERENCE_LOCAL, 0 },
	{ 0x4d44, "vfat", HM_COHERENCE_LOCAL, 0 },
	{ 0x2011bab0, "exfat", HM_COHERENCE_LOCAL, 0 },
	{ 0x5346544e, "ntfs", HM_COHERENCE_LOCAL, 0 },
	{ 0x7366746e, "ntfs3", HM_COHERENCE_LOCAL, 0 },
	{ 0x3153464a, "jfs", HM_COHERENCE_LOCAL, 0 },
	{ 0x52654973, "reiserfs", HM_COHERENCE_LOCAL, 0 },
	{ 0x01021994, "tmpfs", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x858458f6, "ramfs", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x958458f6, "hugetlbfs", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x9fa0, "proc", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x62656572, "sysfs", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x64626720, "debugfs", HM_COHERENCE_LOCAL, FS_MEMORY },
	{ 0x0bd00bd0, "lustre", HM_COHERENCE_LOCKS, FS_NETWORK },
	{ 0x47504653, "gpfs", HM_COHERENCE_LOCKS, FS_NETWORK },
	{ 0x01161970, "gfs2", HM_COHERENCE_LOCKS, FS_NETWORK },
	{ 0x7461636f, "ocfs2", HM_COHERENCE_LOCKS, FS_NETWORK },
	{ 0x65735546, "fuse", HM_COHERENCE_UNKNOWN, FS_SERVED },
	{ 0x00c36400, "ceph", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x19830326, "beegfs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x786f4256, "vboxsf", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0xbacbacbc, "vmhgfs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x7c7c6673, "prl_fs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0xaad7aaea, "panfs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x61636673, "acfs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0xbeefdead, "snfs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x013111a8, "ibrix", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	/*
	 * statfs(2) of an O_PATH descriptor does not trigger the mount, so its file system is
	 * unknown.
	 */
	{ 0x0187, "autofs", HM_COHERENCE_UNKNOWN, FS_NETWORK },
	{ 0x6969, "nfs", HM_COHERENCE_NONE, FS_NETWORK | FS_LOCK_DROPS },
	{ 0x517b, "smb", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0xff534d42, "cifs", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0xfe534d42, "smb2", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x01021997, "9p", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x5346414f, "afs", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x6b414653, "kafs", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x73757245, "coda", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x564c, "ncp", HM_COHERENCE_NONE, FS_NETWORK },
	{ 0x20030528, "orangefs", HM_COHERENCE_NONE, FS_NETWORK },
};

const struct file_system *file_system_find(uint32_t type)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].type == type)
			return &table[i];
	return NULL;
}
