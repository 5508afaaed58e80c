# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# For tests that are shell scripts (tests/ROOM/test_*.sh): the same lines, the same
# classes of skips and the same closing line as tests/lib/harness.c prints.
# The script sets $suite. It runs in the checkout with $HETMAP_BUILD, the build
# folder.

# shellcheck disable=SC2154
passed=0 failed=0 skipped=0

# What a trap of EXIT removes is removed after these, too: dash runs none for a signal. Who has
# children that outlive him has traps of his own.
trap 'exit 130' INT
trap 'exit 143' TERM

pass() {
	passed=$((passed + 1))
	printf 'pass %s.%s\n' "$suite" "$1"
}

# fail NAME WHY
fail() {
	failed=$((failed + 1))
	printf 'FAIL %s.%s: %s\n' "$suite" "$1" "$2"
}

# skip CLASS NAME WHY
skip() {
	case ,${HETMAP_FAIL_ON_SKIP-}, in
	*",$1,"* | ,1,)
		if [ "${HETMAP_FAIL_ON_SKIP-}" != 1 ] || [ "$1" != sanitizer ]; then
			fail "$2" "skip[$1] is not allowed here: $3"
			return
		fi
		;;
	esac
	skipped=$((skipped + 1))
	printf 'skip[%s] %s.%s: %s\n' "$1" "$suite" "$2" "$3"
}

# check NAME COMMAND...: passes when the command succeeds, else shows its output
check() {
	name=$1
	shift
	if output=$("$@" 2>&1); then
		pass "$name"
	else
		fail "$name" "status $?: $*"
		printf '%s\n' "$output" | sed 's/^/    /'
	fi
}

processors_before=0

# note_times NAME SECONDS: a line more in $HETMAP_STAGE_TIMES, if there is that: how long NAME
# took, and the seconds of processors of what this shell has waited for since the last one.
note_times() {
	[ -n "${HETMAP_STAGE_TIMES-}" ] || return 0
	# Not in a substitution: of a subshell's own nothing was waited for.
	times >"$HETMAP_STAGE_TIMES.now"
	processors_now=$(awk 'NR == 2 { split($0, part, /[ms ]+/)
		printf "%.0f", 60 * part[1] + part[2] + 60 * part[3] + part[4] }' "$HETMAP_STAGE_TIMES.now")
	echo "$1 $2 $((processors_now - processors_before))" >>"$HETMAP_STAGE_TIMES"
	processors_before=$processors_now
}

# budget MINUTES WHAT NAME...: what the parts of those names in $HETMAP_STAGE_TIMES took of the
# machine. They run beside each other, and share its processors: it is the minutes in which
# they would keep all of these busy, and behind that how long they took so.
budget() {
	minutes=$1 what=$2
	shift 2
	for name; do grep "^$name " "$HETMAP_STAGE_TIMES"; done |
		awk -v what="$what" -v minutes="$minutes" -v processors="$(nproc)" '
			{ took += $2; used += $3 }
			END { busy = used / 60 / processors
				printf "%-22s %6.1f min of %2d, in %.1f%s\n", what,
				busy, minutes, took / 60, (busy > minutes ? "  over" : "") }'
}

# The sums of the last closing line that is read, "PASSED FAILED SKIPPED"; nothing without.
counts_of() {
	sed -n '/^[0-9]* passed, [0-9]* failed, [0-9]* skipped$/h
		$ { x; s/^\([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p; }'
}

# add_counts PASSED FAILED SKIPPED
add_counts() {
	passed=$((passed + $1))
	failed=$((failed + $2))
	skipped=$((skipped + $3))
}

# is_test NAME: there is a program or script of tests with that name, in whichever room.
is_test() {
	for file in tests/*/"$1".c tests/*/"$1".sh; do
		[ ! -e "$file" ] || return 0
	done
	return 1
}

finish() {
	printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
	[ "$failed" = 0 ]
	exit
}
