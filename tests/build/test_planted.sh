#!/bin/sh
# SPDX-License-Identifier: MIT
# A test of the tests: each bug of tests/planted is put into a copy of the library, and
# the test that its patch names has to fail there; without it, it passes. Each takes some
# seconds of compiling: five by default, PLANTED=all or names ("torn_repair") for others.
# Whether the patches still apply is looked at for all of them each time.
set -u

suite=planted
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=${HETMAP_BUILD:-build}
unset MAKEFLAGS MAKELEVEL
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# With the objects that there are, and their times: only what a patch touches is built.
copy_tree() {
	mkdir -p "$work/build/tests" &&
		cp -pR Makefile include runtime drivers extensions packaging python tests tools \
			"$work" &&
		cp -pR "$build/runtime" "$build/drivers" "$build/config.h" "$build/flags" \
			"$work/build" &&
		(cd "$build" &&
			find tests -name '*.[od]' -exec cp -p --parents -t "$work/build" {} +) &&
		cp -p "$build/tests/fake_drm.so" "$work/build/tests"
}

# program_of PATCH: what finds it, and the pattern of the test.
program_of() {
	sed -n 's/^# Found-by: \([a-z_]*\) .*/\1/p' "$1"
}

pattern_of() {
	sed -n 's/^# Found-by: [a-z_]* //p' "$1"
}

build_program() {
	make -C "$work" -s --no-print-directory B=build "build/tests/$1" >"$work/make" 2>&1 || {
		tail -n 20 "$work/make"
		return 1
	}
}

# run_program PROGRAM PATTERN: its status; what it printed is in $work/log.
run_program() {
	HETMAP_BUILD=$work/build timeout 120 "$work/build/tests/$1" "$2" >"$work/log" 2>&1
}

# Of all of them, also of those that are not built: a patch that is not looked at grows stale.
applies() {
	patch -s --dry-run -p1 -d "$work" <"$1" >"$work/patched" 2>&1 && return
	cat "$work/patched"
	echo 'the library has changed there: plant it anew'
	return 1
}

is_found() {
	patch=$1
	program=$(program_of "$patch")
	pattern=$(pattern_of "$patch")
	applies "$patch" || return 1
	patch -s -p1 -d "$work" <"$patch" || return 1
	found=1
	if build_program "$program"; then
		run_program "$program" "$pattern"
		status=$?
		# Its own verdict: not that it could not be run.
		[ "$status" != 1 ] || ! grep -q '^FAIL ' "$work/log" || found=0
		[ "$found" = 0 ] || {
			tail -n 20 "$work/log"
			echo "$program $pattern did not find it: status $status"
		}
	fi
	patch -s -R -p1 -d "$work" <"$patch" && return "$found"
}

passes_without() {
	build_program "$1" && run_program "$1" "$2" && return
	tail -n 20 "$work/log"
	return 1
}

five='double_release left_rights lost_generation open_bracket torn_repair'
check copy copy_tree
for patch in tests/planted/*.patch; do
	bug=$(basename "$patch" .patch)
	check "$bug.applies" applies "$patch"
	case " ${PLANTED:-$five} " in
	*" $bug "* | *" all "*) ;;
	*) continue ;;
	esac
	check "$bug" is_found "$patch"
	check "$bug.without" passes_without "$(program_of "$patch")" "$(pattern_of "$patch")"
done
finish
