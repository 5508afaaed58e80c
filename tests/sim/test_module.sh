#!/bin/sh
# SPDX-License-Identifier: MIT
# The kernel module builds without a warning (W=1, and sparse) for the kernels under test, and
# by gcc for the newest one that Debian has. HETMAP_VM=0 leaves the former out.
set -u

suite=module
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
kernels=${HETMAP_VM:-6.1 6.12}
sparse=
command -v sparse >/dev/null 2>&1 && sparse=1

# Out of the tree, and all of it anew: what is up to date tells no warnings.
builds() {
	mkdir "$work/$1"
	cp -R Kbuild drivers include "$work/$1"
	make -C "$folder/headers" M="$work/$1" W=1 ${sparse:+C=1} -j"$(nproc)" \
		--no-print-directory modules >"$work/log" 2>&1 </dev/null
	status=$?
	grep -e 'warning: ' -e 'error: ' "$work/log" && return 1
	return "$status"
}

next_builds() {
	cat "$work/next"
	[ "$status" = 0 ]
}

[ "$kernels" != 0 ] || {
	skip vm stock 'HETMAP_VM=0 leaves it out'
	kernels=
}
[ -z "$kernels" ] || [ -n "$sparse" ] ||
	skip sparse sparse 'sparse is not installed: of its warnings nothing is known'
for kernel in $kernels; do
	if folder=$(tests/vm/kernel "$kernel" 2>"$work/why"); then
		check "$kernel" builds "$kernel"
	else
		skip vm "$kernel" "$(tail -n 1 "$work/why")"
	fi
done
tests/vm/next >"$work/next" 2>&1
status=$?
if [ "$status" = 3 ]; then
	skip network next "$(tail -n 1 "$work/next")"
else
	check next next_builds
	# It was built for the newest one of a while ago.
	if kept=$(grep ' is kept: ' "$work/next"); then
		skip network next_refreshed "$kept"
	fi
fi
finish
