# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced: an NFS server in a machine, of programs that are fetched into the user's cache.
# $work is tests/vm/apt's folder; die is the script's.
# shellcheck disable=SC2154
nfs_programs=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hetmap/nfs-server
# netbase has the names of services, which a machine as from debootstrap lacks.
nfs_packages='netbase nfs-kernel-server nfs-common rpcbind libtirpc3 libtirpc-common libnfsidmap1
	libevent-core-2.1-7 libwrap0 libkeyutils1 libdevmapper1.02.1 libgssapi-krb5-2 libkrb5-3
	libk5crypto3 libkrb5support0 libcom-err2'

# On the host, after tests/vm/apt. Whole, or not there.
fetch_nfs_server() {
	[ ! -e "$nfs_programs" ] || return 0
	# shellcheck disable=SC2086 # a list of names
	apt_begin && unpack "$work/root" $nfs_packages && mkdir -p "${nfs_programs%/*}" || return
	mv -T "$work/root" "$nfs_programs" 2>/dev/null || [ -e "$nfs_programs" ]
}

# take_nfs_programs FOLDER: in a machine, whose own disk is memory, and gone with it. /sbin and
# /lib may be links there.
take_nfs_programs() {
	for folder in "$1"/*; do
		cp -af "$folder/." "/${folder##*/}/" || die 'the programs can not be put in place'
	done
	for module in lockd nfs nfsv3 nfsv4; do
		busybox modprobe "$module" || die "no module $module"
	done
}

# serve_export ADDRESSES MIB: in a machine with the programs, serves /export, which is in memory.
serve_export() {
	busybox modprobe nfsd || die 'no module nfsd'
	mkdir -p /export /var/lib/nfs/v4recovery /run/rpcbind /run/sendsigs.omit.d
	: >/var/lib/nfs/etab
	: >/var/lib/nfs/rmtab
	mount -t tmpfs -o "size=$2M" export /export
	mount -t nfsd nfsd /proc/fs/nfsd || die 'no nfsd file system'
	# Locks of vers=3 are a protocol and a daemon of their own.
	echo 1 >/proc/sys/fs/nfs/nlm_grace_period
	mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak
	# With delegations one client is told of the other, which no two machines are sure of; and
	# the first lock would wait for the grace period.
	echo 0 >/proc/sys/fs/leases-enable
	echo 10 >/proc/fs/nfsd/nfsv4leasetime
	echo 10 >/proc/fs/nfsd/nfsv4gracetime
	# The user that its package makes.
	echo '_rpc:x:990:65534::/run/rpcbind:/usr/sbin/nologin' >>/etc/passwd
	rpcbind || die 'no rpcbind'
	echo "/export $1(rw,no_root_squash,insecure,no_subtree_check,fsid=0)" >/etc/exports
	exportfs -r || die 'no export'
	rpc.nfsd -V 3 2 || die 'no nfsd'
	rpc.mountd -V 3 || die 'no mountd'
	rpc.statd --no-notify || die 'no statd'
	echo Y >/proc/fs/nfsd/v4_end_grace
}
