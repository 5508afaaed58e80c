#!/bin/sh
# SPDX-License-Identifier: MIT
# tests/record runs a command with a seed that is in the row about it, and by which it is run
# again.
set -u

suite=record
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
# A copy: record writes to its own folder.
mkdir "$work/tests" && cp tests/record "$work/tests" || exit 3
unset HETMAP_SEED

# record COMMAND: its output is $work/shown, the seed that it knew $seed, the row $row
record() {
	"$work/tests/record" 'a run' sh -c "$1" >"$work/shown"
	status=$?
	seed=$(sed -n 's/^the seed is //p' "$work/shown")
	row=$(tail -n 1 "$work/tests/runs.md")
}

# The command knows the seed, a reader sees it, the row has it.
seed_is_everywhere() {
	cat "$work/shown"
	[ "${seed:-0}" -gt 0 ] && grep -q "^a run: HETMAP_SEED=$seed\$" "$work/shown" &&
		[ "$(echo "$row" | cut -d '|' -f 5)" = " $seed " ]
}

# Not what the command says of other seeds.
# shellcheck disable=SC2016 # the command's
record 'echo INFO: Seed: 4711; echo "the seed is $HETMAP_SEED"; echo 3 passed, 0 failed, 1 skipped'
check chosen seed_is_everywhere
check clean test "$status-${row#*min }" = '0-| clean | 3 passed, 0 failed, 1 skipped |'
export HETMAP_SEED=12345
# shellcheck disable=SC2016
record 'echo "the seed is $HETMAP_SEED"; exit 7'
check given seed_is_everywhere
check given_is_it test "$seed" = 12345
check failed test "$status-${row#*min }" = '7-| FAILED, status 7 | - |'
check rows test "$(wc -l <"$work/tests/runs.md")" = 2

# The hammer, too.
said=$("${HETMAP_BUILD:-build}/tests/hammer_hetsim" --device soft:0 --seconds 1 | tail -n 1)
check hammer test "${said%%:*}-$(echo "$said" | cut -d : -f 2)" = 'hammer- seed 0x3039'
finish
