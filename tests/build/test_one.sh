#!/bin/sh
# SPDX-License-Identifier: MIT
# What tests/one makes of programs that end as tests do, and as they must not.
set -u

suite=one
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# one NAME COMMAND: its output is $work/shown, its sums are $sums
one() {
	tests/one "$work/log" stage "$1" sh -c "$2" >"$work/shown"
	sums=$(cat "$work/log.stage.$1.sums")
}

# says SUMS PATTERN: of the last one
says() {
	cat "$work/shown"
	[ "$sums" = "$1" ] && grep -q "$2" "$work/shown"
}

one good 'echo pass a.b; echo 1 passed, 0 failed, 0 skipped'
check passes says '1 0 0' '^stage/good *1 passed, 0 failed, 0 skipped ('
one bad 'echo FAIL a.b: wrong; echo 3 passed, 1 failed, 2 skipped; exit 1'
check fails says '3 1 2' '^FAIL a.b: wrong$'
one gone 'echo 1 passed, 0 failed, 0 skipped; echo more; kill -SEGV $$'
check ends_early says '0 1 0' 'status 139 before its closing line'
one status 'echo 1 passed, 0 failed, 0 skipped; exit 4'
check status_of_its_own says '1 1 0' 'status 4 although no test failed'
one race 'echo WARNING: ThreadSanitizer: data race; echo 1 passed, 0 failed, 0 skipped'
check sanitizer says '1 1 0' 'the sanitizer reported'

# With time-outs and comparisons alone it is to be run again, with anything else it has failed.
export HETMAP_AGAIN=1
one slow 'echo "FAIL a.b: timed out after 5 s"; echo in step 3; echo 1 passed, 1 failed, 0 skipped
	exit 1'
check again says '0 0 0' '^again stage/slow: a.b: timed out after 5 s$'
check again_tells says '0 0 0' '^    in step 3$'
check again_marked test -s "$work/log.stage.slow.again"
one odd 'echo "FAIL a.b: t.c:1: not so: x; 1 and 2"; echo "FAIL a.c: killed by SIGSEGV"
	echo 1 passed, 2 failed, 0 skipped; exit 1'
check not_again says '1 2 0' '^FAIL a.c: killed'
one lost 'echo "FAIL a.b: t.c:1: not so: x; 1 and 2"; echo "ERROR: LeakSanitizer: detected"
	echo 1 passed, 1 failed, 0 skipped; exit 1'
check leak_not_again says '1 1 0' '^FAIL a.b:'
unset HETMAP_AGAIN

# A program begins if 1.5 times what it took is over in time; of a changed room, the other deadline.
printf '%s\n' '*/test_short same' '*/test_long own' 'stage/test_short same 10' \
	'stage/test_long own 100' >"$work/plan"
export HETMAP_PLAN="$work/plan"
HETMAP_DEADLINE=$(($(date +%s) + 60)) HETMAP_DEADLINE_OWN=$(($(date +%s) + 600))
export HETMAP_DEADLINE HETMAP_DEADLINE_OWN
one test_short 'echo 1 passed, 0 failed, 0 skipped'
check has_time says '1 0 0' '^stage/test_short'
one test_long 'echo 1 passed, 0 failed, 0 skipped'
check own_has_time says '1 0 0' '^stage/test_long'
HETMAP_DEADLINE_OWN=$(($(date +%s) + 140))
one test_long 'echo 1 passed, 0 failed, 0 skipped'
check own_left says '0 0 0' '^left stage/test_long (own)$'
one test_unknown 'echo 1 passed, 0 failed, 0 skipped'
check unknown_left says '0 0 0' '^left stage/test_unknown (same)$'
unset HETMAP_PLAN HETMAP_DEADLINE HETMAP_DEADLINE_OWN

# All write to one file, at one position: as much as makes them meet.
at_once() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		for name in 1 2 3 4 5 6 7 8; do
			tests/one "$work/log" stage "$name" sh -c \
				'seq 100000; echo 0 passed, 1 failed, 0 skipped; exit 1' &
		done >"$work/all"
		wait
		[ "$(wc -l <"$work/all")" = $((8 * 100001)) ] || return
	done
}
check at_once at_once
finish
