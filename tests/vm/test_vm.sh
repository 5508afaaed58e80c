#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/vm itself: what it says where it can't run, and, in a machine, what comes
# out of it. HETMAP_VM=0 leaves the machine out.
set -u

suite=vm
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# expect STATUS COMMAND...: its output goes to $work/out
expect() {
	expected=$1
	shift
	"$@" >"$work/out" 2>&1 </dev/null
	status=$?
	[ "$status" = "$expected" ] || {
		echo "status $status, not $expected:"
		cat "$work/out"
		return 1
	}
}

# says TEXT: a line of the output
says() {
	grep -qxF -- "$1" "$work/out" || {
		echo "no line '$1' in:"
		cat "$work/out"
		return 1
	}
}

# A machine that has what every Debian has, and nothing of what is asked for here.
mkdir "$work/bin"
for tool in sh basename cat date dirname id mktemp realpath rm sed tail; do
	ln -s "$(command -v $tool)" "$work/bin/$tool"
done

skips_are_counted() {
	expect 0 env HETMAP_VM='6.1 6.12' HETMAP_FAIL_ON_SKIP='' PATH="$work/bin" \
		tests/vm/check test_alloc &&
		says 'skip[vm] vm.6.12: tests/vm/boot: qemu-system-x86_64 is missing' &&
		says '0 passed, 0 failed, 2 skipped'
}

skips_are_forbidden() {
	expect 1 env HETMAP_VM='6.1 6.12' HETMAP_FAIL_ON_SKIP=vm PATH="$work/bin" \
		tests/vm/check test_alloc && says '0 passed, 2 failed, 0 skipped'
}

left_out() {
	expect 0 env HETMAP_VM=0 HETMAP_FAIL_ON_SKIP='' tests/vm/check &&
		says '0 passed, 0 failed, 1 skipped'
}

debug_is_skipped() {
	expect 0 env HETMAP_VM='' HETMAP_FAIL_ON_SKIP='' PATH="$work/bin" tests/vm/check-debug &&
		says 'skip[vm] vm.debug: tests/vm/boot: qemu-system-x86_64 is missing' &&
		says '0 passed, 0 failed, 1 skipped'
}

no_such_kernel() {
	expect 3 tests/vm/kernel 2.4 &&
		says "tests/vm/kernel: no kernel of the name '2.4': 6.1, 6.12, debug or debug-6.12"
}

# What is done until a machine runs, before it is done; without being asked, nothing.
told() {
	expect 3 offline env HETMAP_VM_TELL=1 tests/vm/kernel 6.1 &&
		grep -q '^tests/vm/kernel: fetching Linux 6[.]1 ' "$work/out" || return
	stub_kernel && expect 1 env XDG_CACHE_HOME="$work/stub" B="$work/built" HETMAP_VM_TELL=1 \
		tests/vm/module 6.1 &&
		grep -q '^tests/vm/module: building the module hetsim for ' "$work/out" &&
		expect 1 env XDG_CACHE_HOME="$work/stub" B="$work/built" tests/vm/module 6.1 &&
		! grep -q 'building' "$work/out"
}

# A kernel that is there, and has no headers to build anything with.
stub_kernel() {
	mkdir -p "$work/stub/hetmap/kernels/6.1/headers" &&
		: >"$work/stub/hetmap/kernels/6.1/image"
}

offline() {
	rm -rf "$work/offline" "$work/cache"
	mkdir "$work/offline"
	printf '#!/bin/sh\necho "E: Could not resolve deb.debian.org"\nexit 100\n' \
		>"$work/offline/apt-get"
	chmod +x "$work/offline/apt-get"
	env XDG_CACHE_HOME="$work/cache" PATH="$work/offline:$work/fake:$PATH" "$@"
}

no_network() {
	expect 3 offline tests/vm/kernel 6.1 &&
		grep -q '^tests/vm/kernel: .*6[.]1.*Could not resolve' "$work/out" &&
		[ "$(wc -l <"$work/out")" = 1 ] && [ -z "$(ls -A "$work/cache/hetmap/kernels")" ]
}

no_network_is_skipped() {
	expect 0 offline env HETMAP_VM='6.1 6.12' HETMAP_FAIL_ON_SKIP='' \
		tests/vm/check test_alloc &&
		grep -q '^skip.vm. vm[.]6[.]1: .*6[.]1.*Could not resolve' "$work/out" &&
		grep -q '^skip.vm. vm[.]6[.]12: .*6[.]12.*Could not resolve' "$work/out" &&
		says '0 passed, 0 failed, 2 skipped'
}

# A QEMU that notes which processor it was asked for. With KVM it works, fails, or ends
# before it opens what it was told to. Snapshots it knows nothing of.
mkdir "$work/fake"
cat >"$work/fake/qemu-system-x86_64" <<'END'
#!/bin/sh
for word; do
	case $word in
	file,id=console,*) console=${word#*path=} console=${console%,append=on} ;;
	file,id=status,*) status=${word#*path=} ;;
	file,id=output,*) output=${word#*path=} ;;
	esac
done
case " $* " in
' --version ' | *' -qmp '*) exit 1 ;;
*' -accel kvm '*) with=kvm ;;
*' -accel tcg,'*) with=tcg ;;
esac
echo "$with" >>"$ASKED"
case $with-$KVM in
kvm-fails) : >"$output"; exit 1 ;;
kvm-ends) exit 1 ;;
esac
echo '[    0.000000] Linux version 0' >"$console"
echo said >"$output"
echo 0 >"$status"
END
chmod +x "$work/fake/qemu-system-x86_64"

# fake_boot KERNEL
fake_boot() {
	mkdir -p "$work/$1"
	: >"$work/$1/image"
	PATH="$work/fake:$PATH" XDG_CACHE_HOME="$work/cache" ASKED="$work/asked" \
		timeout 100 tests/vm/boot -k "$work/$1" -t 60 true
}

# was_asked PROCESSOR...: for all machines since $work/asked was removed
was_asked() {
	asked=$(xargs <"$work/asked")
	[ "$asked" = "$*" ] || {
		echo "it was asked for $asked"
		return 1
	}
}

# with_kvm KVM ASKED [NODE]: what it was asked for by two kernels, the only trial before them
with_kvm() {
	rm -rf "$work/cache" "$work/asked"
	: >"$work/kvm"
	export KVM="$1" HETMAP_KVM="${3-$work/kvm}" HETMAP_VM_SNAPSHOT=0
	for name in kernel other; do
		expect 0 fake_boot "$name" && says said || return
	done
	was_asked "$2"
}

# A QEMU that has ended before its output is read.
slow_reader() {
	printf '#!/bin/sh\nsleep 0.3\nexec /bin/cat "$@"\n' >"$work/fake/cat" &&
		chmod +x "$work/fake/cat" && with_kvm ends 'kvm tcg tcg'
	set -- $?
	rm "$work/fake/cat"
	return "$1"
}

# Who comes second waits for what the first one finds.
kvm_at_once() {
	rm -rf "$work/cache" "$work/asked"
	: >"$work/kvm"
	export KVM=fails HETMAP_KVM="$work/kvm" HETMAP_VM_SNAPSHOT=0
	fake_boot kernel >/dev/null 2>&1 &
	expect 0 fake_boot other
	wait
	was_asked kvm tcg tcg
}

# What fails as a snapshot is taken is said, once, and boots as ever.
no_snapshot() {
	rm -f "$work/asked"
	export KVM=fails HETMAP_KVM="$work/none" HETMAP_VM_SNAPSHOT=''
	expect 0 fake_boot kernel && says said && was_asked tcg &&
		says 'tests/vm/boot: no snapshot can be taken: an ordinary boot instead' &&
		[ "$(wc -l <"$work/out")" = 2 ] && [ -z "$(ls "$work/kernel/snapshots")" ]
}

no_such_device() {
	expect 2 tests/vm/boot --device gpu true &&
		says "tests/vm/boot: there is no device 'gpu': ask for one of cxl cxl-ram iommu edu hmat dimm ivshmem nvdimm swiotlb vivid"
}

no_such_wire() {
	expect 2 tests/vm/boot -w serial:/tmp/wire true &&
		says "tests/vm/boot: there is no wire 'serial:/tmp/wire': give listen:SOCKET or connect:SOCKET"
}

# One line each, of a kernel's console. Those of a WARNING are followed by more.
kernel_reports() {
	cat <<'END'
[   35.104412] BUG: KASAN: use-after-free in sim_pages_move+0x1a4/0x6b0 [hetsim]
[   35.104412] BUG: KASAN: slab-out-of-bounds in sim_evictees_add+0x40/0x60 [hetsim]
[   12.000000] BUG: sleeping function called from invalid context at mm/page_alloc.c:5550
[   12.000000] BUG: scheduling while atomic: test_races/812/0x00000002
[   12.000000] BUG: Bad page state in process hammer_hetsim  pfn:1f2c3
[   12.000000] BUG: MAX_LOCKDEP_CHAINS too low!
[   12.000000] BUG kmalloc-64 (Tainted: G           O     ): Right Redzone overwritten
[  140.220000] watchdog: BUG: soft lockup - CPU#0 stuck for 134s! [test_share_kill:1204]
[   40.100000] WARNING: possible circular locking dependency detected
[   40.100000] WARNING: possible recursive locking detected
[   40.100000] WARNING: inconsistent lock state
[   40.100000] WARNING: suspicious RCU usage
[   40.100000] WARNING: lock held when returning to user space!
[   40.100000] INFO: trying to register non-static key.
[   40.100000] INFO: lockdep is turned off.
[   51.330000] WARNING: CPU: 1 PID: 88 at lib/debugobjects.c:502 debug_print_object+0xda/0x130
[   51.330000] ODEBUG: Out of memory. ODEBUG disabled
[  321.000000] rcu: INFO: rcu_preempt self-detected stall on CPU
[  321.000000] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[  321.000000] rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 0-... } 21 jiffies
[  321.000000] INFO: rcu_tasks detected stalls on tasks:
[  500.000000] INFO: task busybox:411 blocked for more than 122 seconds.
[   99.000000] kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
[   99.000000] kmemleak: Kernel memory leak detector disabled
[    7.500000] UBSAN: array-index-out-of-bounds in drivers/sim/sim_va.c:120:14
[    8.000000] kernel BUG at mm/memory.c:2105!
[    8.000000] general protection fault, probably for non-canonical address 0xdffffc0000000001
[    8.000000] BUG: unable to handle page fault for address: ffffed1000000000
[    8.000000] Oops: 0002 [#1] PREEMPT SMP KASAN NOPTI
[    8.000000] Kernel panic - not syncing: Fatal exception
[    8.000000] sysfs: cannot create duplicate filename '/devices/hetsim0'
END
}

# What kernels say, and have to: as they start, and while tests make them fail.
no_kernel_reports() {
	cat <<'END'
[    0.000000] Kernel command line: console=ttyS0 ignore_loglevel panic=-1 oops=panic
[    0.000000] kmemleak: Kernel memory leak detector initialized (mem pool available: 37021)
[    0.000000] ODEBUG: selftest passed
[    0.000000] Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
[    0.000000] kasan: KernelAddressSanitizer initialized
[    0.000000] rcu: Preemptible hierarchical RCU implementation.
[    0.000000] clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable
[    4.000000] hetsim: loading out-of-tree module taints kernel.
[    4.000000] hetsim: kind=bogus: not gpu, fpga or nic
[    9.000000] FAULT_INJECTION: forcing a failure.
[    9.000000] test_accel[711]: segfault at 0 ip 000055d0c1e0a4b1 sp 00007ffc0a error 6
[    9.000000] Memory failure: 0x2c41: recovery action for dirty LRU page: Recovered
[    9.000000] Out of memory: Killed process 902 (test_reader_cgr) total-vm:1073766400kB
[    9.000000] INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.5 msecs
[    9.000000] a DEBUG: line
END
}

pattern_matches() {
	# shellcheck source=tests/vm/reports.sh
	. tests/vm/reports.sh
	! kernel_reports | grep -vE "$reports" && ! no_kernel_reports | grep -E "$reports"
}

# Of stock drivers, and word for word.
known_is_no_report() {
	# shellcheck source=tests/vm/reports.sh
	. tests/vm/reports.sh
	bug='BUG virtio-gpu-vbufs (Tainted: G           OE     ): Objects remaining in'
	echo "[   93.7] $bug virtio-gpu-vbufs on __kmem_cache_shutdown()" >"$work/console"
	! reported "$work/console" || return
	echo "[   93.7] $bug hetsim_buffer on __kmem_cache_shutdown()" >>"$work/console"
	[ "$(reported "$work/console" | wc -l)" = 1 ] &&
		[ -n "$(what_was_said "$work/console")" ]
}

# Warnings of the kernel's own failures, while a test makes allocations fail.
known_there_only() {
	# shellcheck source=tests/vm/reports.sh
	. tests/vm/reports.sh
	warning='WARNING: CPU: 0 PID: 1001 at arch/x86/mm/init_64.c:972 add_pages+0x'
	{
		echo "[   93.7] ${warning}1"
		echo "[   93.8] $there_begins"
		echo "[   93.9] ${warning}2"
		echo "[   93.9] sysfs: cannot create duplicate filename '//platform:hetsim'"
		echo '[   93.9] WARNING: CPU: 0 PID: 1001 at mm/memremap.c:1 memremap_pages+0x4'
		echo "[   94.0] $there_ends"
		echo "[   94.1] ${warning}3"
	} >"$work/console"
	[ "$(reported "$work/console" | sed 's/.*0x//' | xargs)" = '1 4 3' ] &&
		[ "$(split_known "$work/console" known | head -n 1)" = "[   93.9] ${warning}2" ] &&
		[ "$(split_known "$work/console" known | wc -l)" = 2 ]
}

# The first of them, and of that what fits into a line; nothing of what is none.
report_is_told() {
	# shellcheck source=tests/vm/reports.sh
	. tests/vm/reports.sh
	no_kernel_reports >"$work/console"
	[ -z "$(what_was_said "$work/console")" ] || return
	kernel_reports >>"$work/console"
	said=$(what_was_said "$work/console")
	[ "$said" = ": $(kernel_reports | head -n 1)" ] || {
		echo "told of was '$said'"
		return 1
	}
}

# A sid of 40 days, and tools that make one of now, or fail to.
old_sid() {
	sid=$work/next/hetmap/sid
	rm -rf "$work/next" "$work/tools"
	mkdir -p "$sid/usr/src/linux-headers-1-amd64" "$work/tools"
	: >"$sid/usr/src/linux-headers-1-amd64/Makefile"
	touch -d '40 days ago' "$sid/ready"
	printf '#!/bin/sh\necho 0\n' >"$work/tools/id"
	printf '#!/bin/sh\nexit %s\n' "$1" >"$work/tools/wget"
	# What is built and installed in it is not looked at here.
	printf '#!/bin/sh\nexit 0\n' >"$work/tools/unshare"
	cat >"$work/tools/debootstrap" <<-'END'
		#!/bin/sh
		mkdir -p "$4/usr/src/linux-headers-2-amd64"
		: >"$4/usr/src/linux-headers-2-amd64/Makefile"
	END
	chmod +x "$work"/tools/*
}

next() {
	expect 0 env XDG_CACHE_HOME="$work/next" PATH="$work/tools:$PATH" tests/vm/next
}

refreshed() {
	old_sid 0
	next && says 2-amd64 && ! grep kept "$work/out" &&
		[ -z "$(find "$sid/ready" -mtime +30)" ] &&
		[ "$(ls "$work/next/hetmap")" = sid ] || return
	# And so it stays.
	printf '#!/bin/sh\nexit 1\n' >"$work/tools/debootstrap"
	next && says 2-amd64 && ! grep kept "$work/out"
}

kept() {
	old_sid 4
	next && says 1-amd64 &&
		grep -q '^tests/vm/next: .* is kept: .* is not reached$' "$work/out" || return
	old_sid 0
	printf '#!/bin/sh\necho "E: no such suite"\nexit 1\n' >"$work/tools/debootstrap"
	next && says 1-amd64 &&
		grep -q ' is kept: debootstrap fails: E: no such suite$' "$work/out" &&
		[ ! -e "$sid.new" ]
}

vm() {
	tests/vm/boot -k "$kernel" "$@"
}

# As the programs were built: tools/vm and make have nothing to do.
B=${HETMAP_BUILD:-build}
export B="${B#"$PWD"/}"

# Words arrive as they were given, both streams and the status come back.
words_and_status() {
	# shellcheck disable=SC2016 # the guest's
	expect 7 timeout 600 tools/vm --bar -k "$kernel" sh -c 'test -c /dev/hetsim0 || exit 8
		grep -qx 0000:00:1e.0 /sys/module/hetsim/parameters/bar || exit 9
		printf "<%s>\n" "$@"; echo error >&2; exit 7' sh "it's" 'a  $b' '' '\"' &&
		says "<it's>" && says '<a  $b>' && says '<>' && says '<\">' && says error
}

# make has a status of its own, and names the command's.
by_make() {
	# shellcheck disable=SC2016 # the guest's
	expect 2 timeout 600 make vm "B=$B" "KERNEL=$kernel" PARAMETERS='kind=nic devices=2' \
		CMD='test -c /dev/hetsim1 && echo "it'"'"'s $((6 * 7))"; exit 7' &&
		says "it's 42" && grep -q '\*\*\* .* Error 7$' "$work/out"
}

host_is_safe() {
	expect 0 vm -t 60 sh -c "echo no >>'$work/file' && rm -r '$work/bin' && cat '$work/file'" &&
		says yes && says no && [ "$(cat "$work/file")" = yes ] && [ -e "$work/bin/sh" ]
}

# shown TEXT: the shell shows it, or has ended
shown() {
	until grep -qaE "$1" "$work/out"; do
		kill -0 "$machine" 2>/dev/null || break
		sleep 1
	done
}

# What is typed before its prompt is there could be lost.
shell() {
	mkfifo "$work/typed"
	: >"$work/out"
	TERM=dumb tests/vm/boot -k "$kernel" -t 90 <"$work/typed" >"$work/out" 2>&1 &
	machine=$!
	exec 4<>"$work/typed"
	shown '[#$] $'
	# shellcheck disable=SC2016 # the guest's
	echo 'echo "a shell of $((6 * 7))"; exit 9' >&4
	wait "$machine"
	status=$?
	exec 4>&-
	cat "$work/out"
	[ "$status" = 9 ] && grep -qa '^a shell of 42' "$work/out"
}

reports_fail() {
	expect 125 vm -t 60 sh -c 'echo "<4>WARNING: this is a test" >/dev/kmsg' &&
		grep -q 'the command.s status: 0' "$work/out" &&
		grep -q 'WARNING: this is a test' "$work/out"
}

hangs_are_killed() {
	expect 124 vm -t 25 sh -c 'echo "<6>the last words" >/dev/kmsg; sleep 100' &&
		grep -q 'killed after 25 s' "$work/out" && grep -q 'the last words' "$work/out"
}

# A kernel's folder without snapshots.
own_folder() {
	folder=$(tests/vm/kernel "$kernel") && mkdir "$work/own" &&
		ln -s "$folder/image" "$folder/modules" "$work/own"
}

# with_devices: the ivshmem, the other node's latency, the time, and random numbers
with_devices() {
	# shellcheck disable=SC2016 # the guest's
	expect 0 env HETMAP_VM_SNAPSHOT='' tests/vm/boot -k "$work/own" -t 300 --device ivshmem \
		--device=hmat sh -c 'cat /sys/bus/pci/devices/*/device | grep -x 0x1110
		cat /sys/devices/system/node/node1/access0/initiators/read_latency
		date +"clock %s"; echo "random $(od -An -tx8 -N8 /dev/urandom)"' &&
		says 0x1110 && says 100 || return
	late=$(($(date +%s) - $(sed -n 's/^clock //p' "$work/out")))
	if [ "$late" -lt -1 ] || [ "$late" -gt 30 ]; then
		echo "its clock is $late s behind"
		return 1
	fi
	sed -n 's/^random //p' "$work/out" >>"$work/random"
}

# The first machine leaves it, two start from it, one finds that it can't.
snapshot() {
	own_folder && with_devices || return
	state=$(echo "$work"/own/snapshots/*/state)
	[ -e "$state" ] || [ -w "${HETMAP_KVM:-/dev/kvm}" ] || {
		echo "it has left no $state:"
		cat "$work/out"
		return 1
	}
	[ -e "$state" ] || return 0
	for _ in 1 2; do
		touch -d '2 days ago' "${state%/*}"
		with_devices || return
		if [ "$(wc -l <"$work/out")" != 4 ] ||
			[ -z "$(find "${state%/*}" -maxdepth 0 -mtime 0)" ]; then
			echo "it did not start from $state:"
			cat "$work/out"
			return 1
		fi
	done
	[ "$(sort -u "$work/random" | wc -l)" = 3 ] || {
		echo "the same random numbers:"
		cat "$work/random"
		return 75
	}
	truncate -s 20M "$state"
	with_devices && [ ! -e "$state" ] &&
		says 'tests/vm/boot: its snapshot is of no use: an ordinary boot instead'
}

echo yes >"$work/file"
check skips_are_counted skips_are_counted
check skips_are_forbidden skips_are_forbidden
check left_out left_out
check no_such_kernel no_such_kernel
check no_network no_network
check told told
check no_network_is_skipped no_network_is_skipped
check debug_is_skipped debug_is_skipped
check refreshed refreshed
check kept kept
check pattern_matches pattern_matches
check report_is_told report_is_told
check known_is_no_report known_is_no_report
check known_there_only known_there_only
check no_such_device no_such_device
check no_such_wire no_such_wire
# Where what packs a machine is missing, the machines below are skipped.
if command -v busybox >/dev/null && command -v cpio >/dev/null; then
	check kvm_works with_kvm works 'kvm kvm kvm'
	check kvm_fails with_kvm fails 'kvm tcg tcg'
	check kvm_ends_early with_kvm ends 'kvm tcg tcg'
	check slow_reader slow_reader
	check kvm_is_missing with_kvm works 'tcg tcg' "$work/none"
	check kvm_at_once kvm_at_once
	check no_snapshot no_snapshot
fi

kernel=${HETMAP_VM:-6.1}
kernel=${kernel%% *}
if [ "$kernel" = 0 ]; then
	skip vm machine 'HETMAP_VM=0 leaves it out'
elif ! why=$(tests/vm/boot -n -k "$kernel" 2>&1); then
	skip vm machine "$(echo "$why" | tail -n 1)"
else
	for name in words_and_status by_make shell host_is_safe reports_fail \
		hangs_are_killed snapshot; do
		check "$name" "$name"
	done
fi
finish
