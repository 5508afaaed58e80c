# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced by tests/vm/boot: machines that start from a snapshot. It is taken of the first one of
# its kind, once that has loaded its modules, and mounted nothing yet; that machine goes on then.
# What a machine is to do comes by its port "orders", where tests/vm/init says "ready" before,
# and "started" when it has them all. Snapshots are folders beside the kernel:
#   state     of the machine, as $packer writes it
#   console   what its kernel had said
# accelerator emulated here kernel more_modules not_saved work: of tests/vm/boot
# shellcheck disable=SC2154
snapshots_kept=4
said_before='' # the console of the snapshot that a machine starts from
patience=100 # seconds for each step, and ten times as many for a kernel to start

list_words() {
	printf '%s\n' "$@"
}

# What a snapshot belongs to: none of it may be another. Only $work has a new name each time.
kind_of_machine() {
	{
		qemu-system-x86_64 --version
		echo "$packer"
		run=list_words machine "$emulated" |
			sed "s|$work|WORK|g; s/,server=off,/,server=on,/"
		{
			list_words "$kernel/image" "$here/boot" "$here/snapshot.sh"
			# shellcheck disable=SC2086 # a list of names
			"$here/initramfs" -l "$kernel" $more_modules
		} | xargs -d '\n' sha256sum
	} | sha256sum | cut -c 1-24
}

# Sets $snapshot, or fails where machines start from the beginning: none are wanted, a device has
# none, KVM is there, by which they are fast enough, or a tool is missing. Perl is the machine's:
# see tests/vm/init.
find_snapshot() {
	[ "${HETMAP_VM_SNAPSHOT-}" != 0 ] && [ -z "$not_saved" ] &&
		[ "$accelerator" = "$emulated" ] || return
	for packer in zstd gzip none; do
		! command -v "$packer" >/dev/null 2>&1 || break
	done
	[ "$packer" != none ] && command -v flock >/dev/null 2>&1 &&
		command -v perl >/dev/null 2>&1 || return
	snapshots=$kernel/snapshots
	snapshot=$snapshots/$(kind_of_machine)
}

# wait_for SECONDS COMMAND...: until it succeeds; fails after so long, and once the machine ended.
wait_for() {
	steps=$(($1 * 10))
	shift
	until "$@"; do
		[ "$steps" -gt 0 ] && [ ! -e "$work/ended" ] || return
		steps=$((steps - 1))
		sleep 0.1
	done
}

has_said() {
	grep -q "^$1" "$work/orders.out"
}

# What a FIFO holds is lost while nobody has it open: QEMU opens it later.
meet_qemu() {
	exec 7<>"$work/qmp.in"
	tell_qemu qmp_capabilities
}

# tell_qemu COMMAND [ARGUMENTS]: what it answers is in $work/qmp.out.
tell_qemu() {
	printf '{"execute": "%s"%s}\n' "$1" "${2:+, \"arguments\": $2}" >&7
}

has_answered() {
	grep -qE "$1" "$work/qmp.out"
}

# One that is still being read has to be told again.
runs() {
	tell_qemu cont
	tell_qemu query-status
	has_answered '"running": true'
}

# The packer's shell renames what was written to its end, which may be QEMU's failure.
is_saved() {
	has_answered '"error"|"failed"' ||
		{ has_answered '"completed"' && [ -e "$work/new/state" ]; }
}

# Puts the whole folder $new in its place, and clears away what was used least lately, and what
# somebody who was killed left.
keep() {
	rm -rf "$snapshot"
	mv -T "$new" "$snapshot" || return
	find "$snapshots" -mindepth 1 -maxdepth 1 -name '.new.*' -mmin +60 -exec rm -rf {} +
	# shellcheck disable=SC2012 # hashes
	ls -t "$snapshots" | tail -n "+$((snapshots_kept + 1))" |
		while read -r name; do rm -rf "${snapshots:?}/$name"; done
}

# Sets $why if it fails.
save() {
	if reported "$work/console" >/dev/null; then
		why='the kernel reported something as it started'
		return 1
	fi
	why="$snapshots can't be written"
	cp "$work/console" "$new/console" && ln -sfn "$new" "$work/new" || return
	tell_qemu migrate-set-capabilities \
		'{"capabilities": [{"capability": "events", "state": true}]}'
	tell_qemu stop
	tell_qemu migrate \
		"{\"uri\": \"exec:cd '$work/new' && $packer -q -1 >part && mv part state\"}"
	if ! wait_for "$patience" is_saved || has_answered '"error"|"failed"'; then
		why="QEMU can't save it: $(grep -m 1 '"error"' "$work/qmp.out" || echo 'no answer')"
		return 1
	fi
	keep
}

# The machine has all it needs, or it is ended. Who writes its orders may wait for it for ever.
go_on() {
	if wait_for "$patience" runs; then
		cat "$work/archive" >"$work/orders.in" &
		wait_for "$patience" has_said started && return
	fi
	tell_qemu quit
}

take() {
	meet_qemu
	if wait_for $((10 * patience)) has_said ready; then
		save || [ -e "$work/ended" ] || say "no snapshot is kept: $why"
	fi
	flock -u 9
	go_on
}

restore() {
	meet_qemu
	go_on
}

# machine_with DRIVER QEMU-OPTION...: fails if that machine did not get to its orders, for a
# reason that the next one need not have.
machine_with() {
	driver=$1
	shift
	rm -f "$work/ended"
	: >"$work/qmp.out"
	: >"$work/orders.out"
	$driver &
	driver=$!
	machine_for_command "$emulated" -qmp "pipe:$work/qmp" \
		-chardev "pipe,id=orders,path=$work/orders" \
		-device virtserialport,chardev=orders,name=orders "$@" 9>&-
	ended=$?
	: >"$work/ended"
	: <>"$work/orders.in"
	wait "$driver"
	has_said started || [ "$ended" = 124 ] || [ "$ended" = 137 ]
}

# shellcheck disable=SC2034 # tests/vm/boot's console begins with $said_before
start_from_it() {
	tell 'going on from the snapshot of an earlier machine'
	touch -c "$snapshot"
	ln -sfn "$snapshot" "$work/from"
	said_before=$snapshot/console
	machine_with restore -incoming "exec:$packer -q -d -c <'$work/from/state'" && return
	said_before=
	say 'its snapshot is of no use: an ordinary boot instead'
	rm -rf "$snapshot"
	return 1
}

# While somebody else takes one, machines start without.
start_and_take() {
	if ! mkdir -p "$snapshots" 2>/dev/null || ! [ -w "$snapshots" ]; then
		say "no snapshot is kept: $snapshots can't be written"
		return 1
	fi
	exec 9>"$snapshots/.lock"
	flock -n 9 || return
	if [ -e "$snapshot/state" ]; then
		flock -u 9
		start_from_it
		return
	fi
	tell 'keeping a snapshot of this one on the way, from which the next ones start'
	new=$(mktemp -d "$snapshots/.new.XXXXXX") || return
	mkdir -p "$work/no files"
	# shellcheck disable=SC2086 # a list of names
	"$here/initramfs" "$kernel" "$work/no files" $more_modules >"$work/initramfs" || return
	machine_with take -initrd "$work/initramfs" && return
	reported "$work/console" >/dev/null && return
	say 'no snapshot can be taken: an ordinary boot instead'
	return 1
}

# machine_by_snapshot [COMMAND...]: its status is $ended. Fails where it has to boot.
machine_by_snapshot() {
	find_snapshot && list_files "$@" &&
		dd if=/dev/urandom of="$work/files/seed" bs=64 count=1 2>/dev/null &&
		(cd "$work/files" && find . | cpio -o -H newc -R 0:0 2>/dev/null) \
			>"$work/archive" &&
		mkfifo "$work/qmp.in" "$work/orders.in" || return
	if [ -e "$snapshot/state" ]; then
		start_from_it
	else
		start_and_take
	fi
}
