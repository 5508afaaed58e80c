#!/bin/sh
# SPDX-License-Identifier: MIT
# hetmap run table, hetmap inspect and hetmap bench on files that pyarrow, DuckDB and polars wrote,
# and files of ours that they read: tests/table/table_command.py, a group of its checks at a time.
set -u

suite=table_command
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/table/environment.sh
. tests/table/environment.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

groups='formats keys values filters windows devices columns inspect csv errors ours bars'

# A hetmap with no extension beside it names the package, for each command.
not_there() {
	mkdir -p "$work/alone/libexec/hetmap" && cp "$B/hetmap" "$work/alone/hetmap" &&
		cp "$B/libexec/hetmap/hetmap-bench" "$work/alone/libexec/hetmap" || return
	printf 'PAR1' >"$work/alone/a.parquet"
	for command in 'run table' inspect; do
		# shellcheck disable=SC2086 # two words
		"$work/alone/hetmap" $command "$work/alone/a.parquet" >"$work/said" 2>&1
		[ $? = 3 ] || return 1
		grep -q 'install the package hetmap-table' "$work/said" || return
	done
	"$work/alone/hetmap" bench formats >"$work/said" 2>&1
	[ $? = 3 ] && grep -q 'install the package hetmap-table' "$work/said"
}

help() {
	"$B/hetmap" run table --help >"$work/said" &&
		grep -q 'Usage: hetmap run table' "$work/said" &&
		"$B/hetmap" bench --list | grep -q '^Of the package hetmap-table, by their names' &&
		! awk 'length > 80 { print; long = 1 } END { exit !long }' "$work/said"
}

bench() {
	TMPDIR=$work "$B/hetmap" bench --short --json formats arrow_open \
		arrow_scan parquet_columns parquet_skip table_window >"$work/said" || return
	for case in formats arrow_open arrow_scan parquet_columns parquet_skip table_window; do
		grep -q "\"bench\": \"$case\".*\"value\"" "$work/said" || {
			cat "$work/said"
			return 1
		}
	done
}

check not_there not_there
if [ ! -x "$B/libexec/hetmap/table" ]; then
	skip table all 'built without libarrow and libparquet: make table'
elif ! table_peers "$work/log"; then
	skip network all "$(grep . "$work/log" | tail -n 1)"
else
	check help help
	for group in $groups; do
		check "$group" "$python" tests/table/table_command.py "$B" "$work" "$group"
	done
	check bench bench
fi
finish
