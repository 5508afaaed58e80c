#!/bin/sh
# SPDX-License-Identifier: MIT
# The benchmarks are a program of their own, libexec/hetmap/hetmap-bench. hetmap bench is the same
# by another name: it finds it where it is built and where it is installed, and tells if it is
# missing.
set -u

suite=bench_program
# shellcheck source=tests/lib.sh
. tests/lib.sh
hetmap=${HETMAP_BUILD:-build}/hetmap
bench=${HETMAP_BUILD:-build}/libexec/hetmap/hetmap-bench
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# same STATUS WORD...: both print the same, and exit with that
same() {
	status=$1
	shift
	"$hetmap" bench "$@" >"$work/front" 2>&1
	[ $? = "$status" ] || return
	"$bench" "$@" >"$work/alone" 2>&1
	[ $? = "$status" ] || return
	[ -s "$work/front" ] && diff "$work/front" "$work/alone"
}

measures_alone() {
	"$bench" --short --json map_cycle >"$work/out" && grep -q '"bench": "map_cycle"' "$work/out"
}

# The benchmarks themselves run hetmap, too.
installed() {
	mkdir -p "$work/usr/bin" "$work/usr/libexec/hetmap" &&
		cp "$hetmap" "$work/usr/bin" && cp "$bench" "$work/usr/libexec/hetmap" &&
		"$work/usr/bin/hetmap" bench --list | grep -q '^map_cycle ' &&
		"$work/usr/bin/hetmap" bench --short --json report_10m >"$work/out" &&
		grep -q '"case": "time"' "$work/out"
}

missing() {
	mkdir "$work/none" && cp "$hetmap" "$work/none" || return
	"$work/none/hetmap" bench --list >"$work/out" 2>&1
	[ $? = 3 ] && grep -q '^hetmap: bench is not part of this hetmap$' "$work/out" &&
		grep -q 'install the package hetmap' "$work/out"
}

check help same 0 --help
check list same 0 --list
check peers same 0 --show-peer map_cycle
check wrong same 2 map_cycl
check wrong_json same 2 --json --rounds 0
check measures_alone measures_alone
check installed installed
check missing missing
finish
