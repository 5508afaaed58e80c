#!/bin/sh
# SPDX-License-Identifier: MIT
# extensions/cluster/scale.py: it prints what docs/scale.md shows, more nodes cost more, and wrong
# figures are refused.
set -u

suite=scale
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

scale=extensions/cluster/scale.py

page() {
	sed -n '/^    \$ /,/^    First limit/p' docs/scale.md | sed -e 1d -e 's/^    //' >"$work/page"
	"$scale" >"$work/printed" && diff "$work/page" "$work/printed"
}

# The share at 1024 ranks, in percent.
share() {
	"$scale" "$@" | sed -n 's/^At 1024 ranks \(.*\)% (modelled).*/\1/p'
}

slower() {
	awk -v a="$(share)" -v b="$(share --set latency_us=9000)" 'BEGIN { exit !(a > 0 && b > a) }'
}

# Two ranks of one node have no messages, however slow these are.
one_node() {
	awk -v a="$(share --set ranks_per_node=1024 --set latency_us=1e9)" 'BEGIN { exit !(a < 1) }'
}

refused() {
	echo "latency 5" >"$work/figures"
	"$scale" "$work/figures" 2>"$work/said" && return 1
	grep -q 'figures:1: not NAME NUMBER: latency 5' "$work/said" || return 1
	"$scale" --set latency_us=0 2>"$work/said" && return 1
	grep -q 'above 0 must be latency_us' "$work/said"
}

check page page
check slower slower
check one_node one_node
check refused refused
finish
