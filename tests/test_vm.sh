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
for tool in sh basename cat dirname id mktemp realpath rm sed tail; do
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

no_such_kernel() {
	expect 3 tests/vm/kernel 2.4 && says "tests/vm/kernel: no kernel of the name '2.4': 6.1, 6.12, debug or debug-6.12"
}

no_network() {
	mkdir "$work/offline"
	printf '#!/bin/sh\necho "E: Could not resolve deb.debian.org"\nexit 100\n' \
		>"$work/offline/apt-get"
	chmod +x "$work/offline/apt-get"
	expect 3 env XDG_CACHE_HOME="$work/cache" PATH="$work/offline:$PATH" tests/vm/kernel 6.1 &&
		grep -q '^tests/vm/kernel: .*6[.]1.*Could not resolve' "$work/out" &&
		[ "$(wc -l <"$work/out")" = 1 ] && [ -z "$(ls -A "$work/cache/hetmap/kernels")" ]
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

# Words arrive as they were given, both streams and the status come back.
words_and_status() {
	# shellcheck disable=SC2016 # the guest's
	expect 7 vm -t 60 sh -c 'printf "<%s>\n" "$@"; echo error >&2; exit 7' sh \
		"it's" 'a  $b' '' '\"' &&
		says "<it's>" && says '<a  $b>' && says '<>' && says '<\">' && says error
}

host_is_safe() {
	expect 0 vm -t 60 sh -c "echo no >>'$work/file' && rm -r '$work/bin' && cat '$work/file'" &&
		says yes && says no && [ "$(cat "$work/file")" = yes ] && [ -e "$work/bin/sh" ]
}

reports_fail() {
	expect 125 vm -t 60 sh -c 'echo "<4>WARNING: this is a test" >/dev/kmsg' &&
		grep -q 'the command.s status: 0' "$work/out" && grep -q 'WARNING: this is a test' "$work/out"
}

hangs_are_killed() {
	expect 124 vm -t 25 sh -c 'echo "<6>the last words" >/dev/kmsg; sleep 100' &&
		grep -q 'killed after 25 s' "$work/out" && grep -q 'the last words' "$work/out"
}

echo yes >"$work/file"
check skips_are_counted skips_are_counted
check skips_are_forbidden skips_are_forbidden
check left_out left_out
check no_such_kernel no_such_kernel
check no_network no_network
check refreshed refreshed
check kept kept

kernel=${HETMAP_VM:-6.1}
kernel=${kernel%% *}
if [ "$kernel" = 0 ]; then
	skip vm machine 'HETMAP_VM=0 leaves it out'
elif ! why=$(tests/vm/boot -n -k "$kernel" 2>&1); then
	skip vm machine "$(echo "$why" | tail -n 1)"
else
	for name in words_and_status host_is_safe reports_fail hangs_are_killed; do
		check "$name" "$name"
	done
fi
finish
