#!/bin/sh
# SPDX-License-Identifier: MIT
# Files that the gguf package writes are read by the library, and the library's by the package,
# value for value: tests/format/gguf_peer.py. The package comes from PyPI, into a virtual
# environment in the user's cache.
set -u

suite=gguf_peer
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
release=0.19.0
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hetmap
python=$cache/gguf-$release/bin/python
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# Debian's own python3: what others put before it in PATH comes and goes.
make_environment() {
	[ -x /usr/bin/python3 ] || {
		echo 'there is no /usr/bin/python3'
		return 1
	}
	mkdir -p "$cache" && rm -rf "$cache/gguf-$release" || return
	/usr/bin/python3 -m venv "$cache/gguf-$release" &&
		"$python" -m pip -q --disable-pip-version-check install --timeout 20 \
			--retries 1 "gguf==$release"
}

if "$python" -c 'import gguf' 2>/dev/null || make_environment >"$work/log" 2>&1; then
	check both_ways "$python" tests/format/gguf_peer.py "$B/libhetmap.so" "$work" "$B/hetmap"
else
	skip network both_ways "$(grep . "$work/log" | tail -n 1)"
fi
finish
