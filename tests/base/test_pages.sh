#!/bin/sh
# SPDX-License-Identifier: MIT
# No code assumes pages of 4 KiB: programs run with those of 16 and 64 KiB, as far as a process can
# tell (tests/base/pages/fake_pages.c), and no source has a page's size as a number.
set -u

suite=pages
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=${HETMAP_BUILD:-build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# Left out is what the kernel itself answers by its own pages: which of them are in memory, how
# large they are, and how far behind the end of a file a map may be read.
left_out='*.prefetch *.pointer_query *.stored_behind_the_end'

# with SIZE COMMAND...
with() {
	size=$1
	shift
	FAKE_PAGE=$size LD_PRELOAD=$work/pages.so "$@" >"$work/said" 2>&1
}

conformance() {
	HETMAP_LEAVE_OUT=$left_out with "$1" "$build/tests/test_conformance" 'host*' 'file*'
	tail -n 1 "$work/said" | grep -qE '^[1-9][0-9]{2,} passed, 0 failed' && return
	grep '^FAIL' "$work/said"
	tail -n 1 "$work/said"
	return 1
}

pools() {
	with "$1" "$build/tests/test_pool_model" && tail -n 1 "$work/said" | grep -q '^[1-9]'
}

tour() {
	with "$1" "$build/hetmap" tour --device host &&
		grep -q 'verified' "$work/said" && with "$1" "$build/hetmap" devices &&
		grep -q "page  *$(($1 / 1024)) KiB" "$work/said"
}

# The twin has pages of 4 KiB, and says so.
refused() {
	with "$1" "$build/hetmap" tour --device soft:0
	[ $? = 3 ] && grep -q "soft:0 has pages of 4096 bytes, this machine of $1" "$work/said"
}

# The twin's pages, units of the registry and of pools, UTF-8, and the kernel's range of errors.
no_numbers() {
	! grep -rnE '(>>|<<) ?12\b|\b4095u?\b|\b0xfff\b|PAGE_SHIFT|\bPAGE_SIZE\b|\bPAGE_MASK\b' \
		runtime extensions/*/lib --include=*.c --include=*.h --include=*.cc |
		grep -vE '^runtime/(soft|registry)/|POOL_PAGE_SHIFT|text/utf8\.c:|< -4095'
}

if ! gcc -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -shared -fPIC -o "$work/pages.so" \
	tests/base/pages/fake_pages.c -ldl; then
	fail built 'tests/base/pages/fake_pages.c does not compile'
elif nm "$build/tests/test_conformance" | grep -q ' __asan_init\| __tsan_init'; then
	skip sanitizer all 'a sanitizer maps memory of its own by pages of 4 KiB'
else
	for size in 16384 65536; do
		check "conformance_$size" conformance "$size"
		check "pools_$size" pools "$size"
		check "tour_$size" tour "$size"
		check "refused_$size" refused "$size"
	done
fi
check no_numbers no_numbers
finish
