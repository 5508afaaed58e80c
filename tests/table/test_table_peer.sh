#!/bin/sh
# SPDX-License-Identifier: MIT
# libhetmap-table beside pyarrow: files that one writes and the other reads, value for value;
# damaged files; batches. The cases are in tests/table/peer_*.py.
set -u

suite=table_peer
# shellcheck source=tests/lib.sh
. tests/lib.sh
# shellcheck source=tests/table/environment.sh
. tests/table/environment.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# shellcheck disable=SC2154 # environment.sh sets $python
if [ ! -e "$B/libhetmap-table.so" ]; then
	skip table all 'Arrow C++ was not there when it was built: make table'
elif ! table_peers "$work/log"; then
	skip network all "$(grep . "$work/log" | tail -n 1)"
else
	export PYTHONDONTWRITEBYTECODE=1
	for case in $("$python" tests/table/table_peer.py --list); do
		mkdir "$work/$case"
		check "$case" "$python" tests/table/table_peer.py "$B" "$work/$case" "$case"
		rm -rf "${work:?}/$case"
	done
fi
finish
