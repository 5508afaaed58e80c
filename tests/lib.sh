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
		status=$?
		# 75, as sysexits.h has it: a comparison that another try may answer (tests/one).
		[ "$status" = 75 ] && why='not so' || why="status $status"
		fail "$name" "$why: $*"
		printf '%s\n' "$output" | sed 's/^/    /'
	fi
}

# fits STAGE/PROGRAM: it may begin: what it took in the last full run, and half of that again, is
# over before the deadline. Those of changed rooms have until $HETMAP_DEADLINE_OWN, the others until
# $HETMAP_DEADLINE (seconds since 1970). Without $HETMAP_PLAN, which tests/plan made, all fit.
# Sets $class.
fits() {
	[ -n "${HETMAP_PLAN-}" ] || return 0
	# shellcheck disable=SC2046 # three words
	set -- $(awk -v key="$1" -v any="*/${1##*/}" '
		$1 == any { class = $2 }
		$1 == key { took = $3; if (class == "") class = $2 }
		END { print class == "" ? "same" : class, took == "" ? 60 : took }' "$HETMAP_PLAN")
	class=$1 until=${HETMAP_DEADLINE:-0}
	[ "$class" != own ] || until=${HETMAP_DEADLINE_OWN:-0}
	[ $(($(date +%s) + $2 * 3 / 2)) -le "$until" ] || [ "$until" = 0 ]
}

# check_skips FILE...: more skips than tests/skips.expected allows are a failure.
check_skips() {
	while read -r skips allowed; do
		case $skips in
		'#'* | '') continue ;;
		esac
		count=$(cat "$@" 2>/dev/null | grep -c "^skip\[$skips\]")
		if [ "$count" -gt "$allowed" ]; then
			fail "skips_$skips" "$count, tests/skips.expected allows $allowed"
		else
			pass "skips_$skips" >/dev/null
		fi
	done <tests/skips.expected
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
