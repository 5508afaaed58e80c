/* SPDX-License-Identifier: MIT */
/* Kernel constants newer than Debian 12's libc headers, or not in all of them. */
#ifndef HETMAP_COMPAT_H
#define HETMAP_COMPAT_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif
#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71 /* Linux 5.14 */
#endif
#ifndef MFD_HUGETLB
#define MFD_HUGETLB 0x0004U
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020 /* Linux 6.3 */
#endif
#ifndef MADV_COLD
#define MADV_COLD 20 /* Linux 5.4 */
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21 /* Linux 5.4 */
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24 /* Linux 5.18 */
#endif
#ifndef SYS_mseal
#define SYS_mseal 462 /* Linux 6.10 */
#endif
#ifndef MLOCK_ONFAULT
#define MLOCK_ONFAULT 1U
#endif
#ifndef MAP_SYNC
#define MAP_SYNC 0x080000
#endif
#ifndef MAP_SHARED_VALIDATE
#define MAP_SHARED_VALIDATE 0x03
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 /* Linux 4.17 */
#endif
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31) /* Linux 4.7 */
#endif
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0 /* Linux 5.17 with CONFIG_ANON_VMA_NAME */
#endif

#ifndef MPOL_WEIGHTED_INTERLEAVE
#define MPOL_WEIGHTED_INTERLEAVE 6 /* Linux 6.9 */
#endif

#endif
