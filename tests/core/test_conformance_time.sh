#!/bin/sh
# SPDX-License-Identifier: MIT
# soft:0 passes the conformance suite in under 10 s: who tests against it in each build of
# his own does not wait for it.
set -u

suite=conformance_time
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-build}
limit=$((10000 * ${HETMAP_TIME_SCALE:-1})) # ms

milliseconds() {
	echo $(($(date +%s%N) / 1000000))
}

# All of it: a suite that has lost its tests is fast, too.
soft() {
	begin=$(milliseconds)
	sums=$("$B/tests/test_conformance" 'soft*' | tail -n 1)
	took=$(($(milliseconds) - begin))
	echo "$took ms: $sums"
	[ "${sums#* passed, 0 failed}" != "$sums" ] &&
		[ "$took" -lt "$limit" ] && [ "${sums%% *}" -ge 100 ]
}

check soft_in_10_s soft
finish
