#!/bin/sh
# SPDX-License-Identifier: MIT
# A further format is one folder and one row: tests/format/toy is put into a copy of the library,
# and the command inspects and loads its files, without any other change.
set -u

suite=new_format
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=${HETMAP_BUILD:-build}
unset MAKEFLAGS MAKELEVEL
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
command=$work/build/hetmap
table=runtime/format/pieces/formats.c

# With the objects that there are, and their times: only the format and its table are compiled.
copy_tree() {
	mkdir -p "$work/build" &&
		cp -pR Makefile include runtime drivers extensions packaging python tools "$work" &&
		mkdir -p "$work/tests" && cp -pR tests/vm "$work/tests" &&
		cp -pR "$build/runtime" "$build/drivers" "$build/tools" "$build/config.h" "$build/flags" \
			"$work/build"
}

add_format() {
	cp -R tests/format/toy "$work/runtime/format" &&
		sed -i '/ROW(npy_format)/{h;s/npy/toy/p;g}' "$work/$table" &&
		[ "$(diff "$table" "$work/$table" | grep -c '^[<>]')" = 1 ] &&
		[ "$(diff -rq runtime "$work/runtime" | wc -l)" = 2 ]
}

# With the flags that the objects were built with: with others all are compiled anew.
build_command() {
	werror=
	! grep -q -e ' -Werror ' "$build/flags" || werror=1
	make -C "$work" -s --no-print-directory B=build WERROR="$werror" build/hetmap
}

# "toy", two pieces, and bytes at 4096 and 5000.
make_file() {
	printf 'toy\nfirst, 4096, 904\nsecond.part, 5000, 3\n\n' >"$work/file" &&
		dd if=/dev/urandom of="$work/file" bs=1 seek=4096 count=907 2>&1
}

inspects() {
	"$command" inspect "$work/file" >"$work/out" || return 1
	cat "$work/out"
	grep -q '  toy: 2 parts of 907 bytes in 1 file' "$work/out" &&
		grep -q '  note: of a toy' "$work/out" &&
		grep -q ' 4096 .* U8 .* 904 .* first$' "$work/out" &&
		"$command" inspect --json "$work/file" | grep -q '"kind": "toy"'
}

is_listed() {
	"$command" inspect --help | grep -q '^  toy  *lines of NAME, OFFSET, LENGTH$'
}

# The command compares the bytes in the device with those of the file.
loads() {
	OCL_ICD_VENDORS=/nonexistent "$command" run load --device soft:0 --accel cpu \
		"$work/file" >"$work/out" || return 1
	cat "$work/out"
	grep -q ': 2 parts, 907 bytes, in 1 file' "$work/out" &&
		grep -q "verified  *every part's checksums" "$work/out"
}

# What all formats have is checked for it, too.
refuses() {
	printf 'toy\nfirst, 40, 904\n\n' >"$work/cut"
	"$command" inspect "$work/cut" 2>"$work/err"
	[ $? = 1 ] && grep -q 'part "first" has 904 bytes from 40 on, and' "$work/err" || return 1
	printf 'toy\na, 0, 1\na, 1, 1\n\n' >"$work/cut"
	"$command" run load "$work/cut" 2>"$work/err"
	[ $? = 1 ] && grep -q 'there are two parts of the name "a"' "$work/err"
}

check copy copy_tree
check one_folder_and_one_row add_format
check build build_command
check file make_file
check inspect inspects
check list is_listed
check load loads
check refuse refuses
finish
