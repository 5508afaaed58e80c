#!/bin/bash
# SPDX-License-Identifier: MIT
# Is what a report foretells what following it gains? The histogram of a file that is read
# from storage: traced, as it is, and with what the advice says, in turns. By hand, as root,
# on a quiet machine:
#
#     tests/perf/follow_advice.sh [FOLDER]
#
# FOLDER (default: /var/tmp) is on the storage. MIB, ROUNDS and WINDOW are the file's size
# (1024), how many turns (5) and what is read ahead (64M). RATE (MB/s) holds the reading to
# that rate, by a group of the block layer, and IOPS to so many requests a second, as clouds
# do: storage faster than its user computes, or an image in its host's RAM, has little to
# gain. SLOW (ms) has the file on storage that takes so long for each request and has ten at a
# time, as disks over a network do, by FUSE. READ_AHEAD (KiB) sets the device's meanwhile.
# Ends with 0 where the gain's median is within 30 % of what was foretold.
set -u
export LC_ALL=C.UTF-8
folder=${1:-/var/tmp}
mib=${MIB:-1024} rounds=${ROUNDS:-5} window=${WINDOW:-64M} rate=${RATE:-}
iops=${IOPS:-} ahead=${READ_AHEAD:-}
slow=${SLOW:-} server=''
build=${B:-$(dirname -- "$0")/../../build}
command=$build/hetmap
[ -x "$command" ] || { echo "no $command: make" >&2; exit 2; }
# What is written about it is not on the same storage, if that can be.
place=$(mktemp -d "$folder/hetmap.XXXXXX") && work=$(mktemp -d) || exit 2
file=$place/data group='' before='' bdi='' device=''

# shellcheck disable=SC2317 # by the trap
leave() {
	[ -z "$before" ] || echo "$before" >"$bdi"
	if [ -n "$group" ]; then
		echo $$ >"${group%/*}/cgroup.procs"
		rmdir "$group"
	fi
	if [ -n "$server" ]; then
		umount -l "$place/slow"
		kill "$server" 2>/dev/null
	fi
	rm -rf "$place" "$work"
}
trap leave EXIT

# Of this process and its children: a group of the block layer's, by either version of groups.
group_begin() {
	local root
	for root in /sys/fs/cgroup/blkio /sys/fs/cgroup; do
		group=$root/hetmap.$$
		mkdir "$group" 2>/dev/null || continue
		[ -e "$group/blkio.throttle.read_bps_device" ] || [ -e "$group/io.max" ] ||
			echo +io >"$root/cgroup.subtree_control"
		echo $$ >"$group/cgroup.procs"
		return
	done
	group=''
	return 1
}

# throttle bps|iops A_SECOND
throttle() {
	[ -n "$group" ] || group_begin || return
	if [ -e "$group/blkio.throttle.read_$1_device" ]; then
		echo "$device $2" >"$group/blkio.throttle.read_$1_device"
	else
		echo "$device r$1=$2" >"$group/io.max"
	fi
}

drop() {
	dd if="$file" iflag=nocache count=0 status=none
}

# seconds OPTION...: what the job takes, cold
seconds() {
	local begin=$EPOCHREALTIME
	"$command" run histogram --accel cpu --rounds 1 --quiet "$@" "$file" >/dev/null ||
		return 1
	awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", b - a }'
}

# The report's first advice: what it would gain, seconds; 0 where there is none.
foretold() {
	"$command" trace -o "$work/trace" -- "$command" run histogram --accel cpu --rounds 1 \
		--quiet "$file" >/dev/null 2>&1 || return 1
	drop
	"$command" report --json "$work/trace" >"$work/report.json" || return 1
	rm -rf "$work/trace"
	jq -r '[.advice[] | select(.text | contains("read ahead of the use")) | .gain_ns][0] // 0 |
		. / 1e9' "$work/report.json"
}

# Who reads it from now on waits that long for each request.
slow_begin() {
	local i
	mkdir "$place/slow" || return
	"$build/tests/serve_faults" --slow "$slow" "$place" "$place/slow" &
	server=$!
	for ((i = 0; i < 100; i++)); do
		mountpoint -q "$place/slow" && break
		sleep 0.1
	done
	file=$place/slow/data
	[ -e "$file" ]
}

find_device() {
	device=$(stat -c %d "$file")
	device=$((device >> 8 & 0xfff)):$((device & 0xff | device >> 12 & 0xfff00))
	bdi=/sys/class/bdi/$device/read_ahead_kb
}

median() {
	sort -g | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'
}

head -c "${mib}M" /dev/urandom >"$file" && sync "$file" || exit 2
if [ -n "$slow" ] && ! slow_begin; then
	echo "no file system by FUSE: it takes root, /dev/fuse and make tests" >&2
	exit 2
fi
find_device
if [ -n "$ahead" ]; then
	before=$(cat "$bdi")
	echo "$ahead" >"$bdi" || exit 2
fi
if { [ -n "$rate" ] && ! throttle bps "$rate"000000; } ||
	{ [ -n "$iops" ] && ! throttle iops "$iops"; }; then
	echo "no group of the block layer can be made: it takes root and its controller" >&2
	exit 2
fi
how=${rate:+, held to $rate MB/s}${iops:+, held to $iops requests/s}${slow:+, $slow ms a request}
printf '%s MiB on %s, read-ahead %s KiB%s\n%10s %10s %10s %10s\n' "$mib" "$device" \
	"$(cat "$bdi")" "$how" foretold 'as it is' "ahead $window" gain
for ((i = 0; i < rounds; i++)); do
	drop
	said=$(foretold) || exit 2
	drop
	bare=$(seconds) || exit 2
	drop
	told=$(seconds --ahead "$window") || exit 2
	awk -v s="$said" -v b="$bare" -v a="$told" \
		'BEGIN { printf "%8.3f s %8.3f s %8.3f s %8.3f s\n", s, b, a, b - a }' |
		tee -a "$work/rows"
done
said=$(awk '{ print $1 }' "$work/rows" | median)
gain=$(awk '{ print $7 }' "$work/rows" | median)
awk -v s="$said" -v g="$gain" 'BEGIN {
	ok = (s > 0 && g >= 0.7 * s && g <= 1.3 * s)
	printf "medians: foretold %.3f s, gained %.3f s: %s\n", s, g,
		(s > 0 ? sprintf("%.0f %% of it", 100 * g / s) : "nothing was foretold")
	exit !ok
}'
