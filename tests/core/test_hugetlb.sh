#!/bin/sh
# SPDX-License-Identifier: MIT
# The conformance suite on real pages of the huge pool. The other runs meet an
# empty pool, as machines have it, and so the fallback to base pages. Here the
# pool is filled for a moment, which takes root and enough contiguous memory.
set -u

suite=hugetlb
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-build}
pool=/proc/sys/vm/nr_hugepages
wanted=256

before=$(cat "$pool" 2>/dev/null)
restore() {
	[ -n "$before" ] && [ -w "$pool" ] && echo "$before" >"$pool"
}

if [ -z "$before" ] || [ ! -w "$pool" ]; then
	skip kernel conformance "$pool is not there, or not ours to write"
	finish
fi
trap restore EXIT
echo "$wanted" >"$pool" 2>/dev/null
if [ "$(cat "$pool")" -lt "$wanted" ]; then
	skip kernel conformance "no $wanted contiguous huge pages are to be had"
	finish
fi
check conformance "$B/tests/test_conformance" 'host-hugetlb.*'
free=$(sed -n 's/^HugePages_Free: *//p' /proc/meminfo)
check all_given_back test "$free" = "$wanted"
finish
