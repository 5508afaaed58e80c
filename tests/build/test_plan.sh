#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/plan tells which rooms have changed since the last full run, and has programs of those
# begin first.
set -u

suite=plan
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# A small tree: two rooms, one of which counts for all, and a program each.
make_tree() {
	mkdir -p "$work/tests/base" "$work/tests/ring" "$work/runtime/ring" &&
		cp tests/plan "$work/tests" &&
		printf 'base* tests/base\nring runtime/ring tests/ring\n' >"$work/tests/rooms" &&
		echo 1 >"$work/tests/base/test_one.c" && echo 2 >"$work/tests/ring/test_two.c" &&
		printf 'int ring;\nchar *text = "/* no comment */";\n' \
			>"$work/runtime/ring/ring.c" && full_run
}

# As make full leaves it.
full_run() {
	"$work/tests/plan" hashes | sed 's/^/room /' >"$work/runs" &&
		printf 'seconds plain/test_one 7\nseconds plain/test_two 9\n' >>"$work/runs" &&
		mv "$work/runs" "$work/tests/full-runs"
}

# changed TEXT: what tests/plan says, as one line
changed() {
	[ "$("$work/tests/plan" changed | paste -sd ' ')" = "$1" ]
}

# first STAGE: the program that begins first
first() {
	"$work/tests/plan" order | grep "^$1/" | head -n 1
}

check tree make_tree
mv "$work/tests/full-runs" "$work/runs"
check none_recorded changed 'base counted ring counted'
mv "$work/runs" "$work/tests/full-runs"
check nothing changed 'base same ring same'
printf '/* Says\n * nothing. */\nint ring; // "\n\nchar *text = "/* no comment */";\n' \
	>"$work/runtime/ring/ring.c"
check comment changed 'base same ring same'
printf 'int\n  ring;\n char *text =\n\t"/* no comment */";' >"$work/runtime/ring/ring.c"
check layout changed 'base same ring same'
printf 'int ring;\nchar *text = "/*  no comment */";\n' >"$work/runtime/ring/ring.c"
check spaces_of_string changed 'base same ring own'
printf 'int ring;\n#define A 1\nchar *text;\n' >"$work/runtime/ring/ring.c"
full_run
printf 'int ring;\n#define A \\\n  1\nchar *text;\n' >"$work/runtime/ring/ring.c"
check macro changed 'base same ring same'
printf 'int ring;\n#define A 1 char *text;\n' >"$work/runtime/ring/ring.c"
check end_of_macro changed 'base same ring own'
printf 'int ring;\nchar *text = "/* no comment */";\n' >"$work/runtime/ring/ring.c"
full_run
printf 'int ring;\nchar *text = "/* a comment */";\n' >"$work/runtime/ring/ring.c"
check string changed 'base same ring own'
printf 'int ring2;\nchar *text = "/* no comment */";\n' >"$work/runtime/ring/ring.c"
check one changed 'base same ring own'
check own_first test "$(first plain)" = 'plain/test_two own 9'
echo 5 >"$work/tests/base/test_one.c"
check counts_for_all changed 'base own ring own'
full_run
check recorded changed 'base same ring same'
echo 6 >"$work/tests/base/test_one.c"
check counted changed 'base own ring counted'
check of_base_first test "$(first plain)" = 'plain/test_one own 7'
rm "$work/runtime/ring/ring.c"
check removed changed 'base own ring own'

# What the debug kernel runs for is one room beside those of its files.
mkdir -p "$work/drivers" && echo 7 >"$work/drivers/a.c" && echo 'sim drivers' >>"$work/tests/rooms"
full_run
check debug_same changed 'base same debug same ring same sim same'
echo 8 >"$work/drivers/a.c"
check debug_own changed 'base same debug own ring same sim own'
check seen "$work/tests/plan" seen debug
check seen_once changed 'base same debug same ring same sim own'
no_such_room() {
	"$work/tests/plan" seen nowhere
	[ $? = 2 ]
}
check no_such_room no_such_room

# record full|changed FAILED PROGRAMS [FAILURES]: as .ci/run records a run with these lines about
# programs and failures
record() {
	(
		functions=$(sed -n '/^red_[a-z]*() {/,/^}/p; /^green_rooms() {/,/^}/p
			/^write_full_runs() {/,/^}/p' .ci/run)
		cd "$work" || exit
		# shellcheck disable=SC2034 # the functions'
		log=$work/log full=$1 failed=$2 passed=9 skipped=0 always_failed=0 rules_failed=0 \
			full_runs=tests/full-runs SECONDS=60
		printf '%s\n' "$3" >"$log.programs"
		printf '%s\n' "${4-}" >"$log.failed"
		tests/plan hashes >"$log.before" && tests/plan changed >"$log.changed" &&
			eval "$functions" && write_full_runs
	)
}
recorded() {
	grep -q "$1" "$work/tests/full-runs"
}
green='plain/test_two 1 passed, 0 failed, 0 skipped (3 s)'
red='plain/test_two 0 passed, 1 failed, 0 skipped (4 s)'
check record_full record full 0 "$green"
check full_is_same changed 'base same debug same ring same sim same'
check full_seconds recorded '^seconds plain/test_two 3$'
echo 9 >"$work/tests/ring/test_two.c"
check record_red record changed 1 "$red"
check red_stays_own changed 'base same debug same ring own sim same'
check record_changed record changed 0 "$green"
check changed_is_same changed 'base same debug same ring same sim same'
check both_lines test "$(grep -c -e '^full ' -e '^changed ' "$work/tests/full-runs")" = 2
# A room that counts for all is seen by all programs only.
echo 10 >"$work/tests/base/test_one.c"
check record_base record changed 0 "$green"
check base_stays_own changed 'base own debug counted ring counted sim counted'
# With a failure of a stage that is no program's nothing is recorded.
check record_stage record full 1 "$green"
check nothing_recorded changed 'base own debug counted ring counted sim counted'
check record_program record full 1 "$red"
check others_recorded changed 'base same debug same ring own sim same'
# Except where the failure is of a room.
undo='coverage: FAIL coverage.undo_ring/open: 2 lines were never executed'
check record_coverage record full 1 "$green" "$undo"
check covered_stays_own changed 'base same debug same ring own sim same'
check record_machine record full 1 "$green" 'debug: FAIL vm.debug: status 124'
check machine_stays_own changed 'base same debug own ring same sim same'

# Each file of the library, its tests and tools is in a room.
all_in_rooms() {
	awk '!/^#/ { for (i = 2; i <= NF; i++) print $i }' tests/rooms >"$work/paths"
	git ls-files runtime tests tools drivers include 2>/dev/null | while read -r file; do
		while read -r path; do
			case $file in
			"$path" | "$path"/*) continue 2 ;;
			esac
		done <"$work/paths"
		echo "$file"
	done >"$work/nowhere"
	# What says what is tested is no room's.
	! grep -v -x -e 'tests/\(rooms\|runs.md\|flaky\|full-runs\|skips.expected\|corpus/.*\)' \
		-e '\(runtime\|tools\)/ROOMS.*' -e 'tools/directions' "$work/nowhere"
}
check all_in_rooms all_in_rooms
finish
