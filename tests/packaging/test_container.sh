#!/bin/sh
# SPDX-License-Identifier: MIT
# The command in a container, as docs/install.md has it: without capabilities, without a network,
# as a user that has no name, on a root file system that is read-only. bubblewrap makes it.
set -u

suite=container
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=$(cd "${HETMAP_BUILD:-build}" && pwd -P) || exit 3
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

inside() {
	env -u HOME -u XDG_CACHE_HOME bwrap --unshare-all --uid 65534 --gid 65534 \
		--cap-drop ALL --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp \
		--tmpfs /var/tmp --ro-bind "$build" "$build" --setenv HOME /tmp \
		"$@" >"$work/said" 2>&1 </dev/null
}

# says TEXT COMMAND...
says() {
	text=$1
	shift
	if ! inside "$@" || ! grep -qe "$text" "$work/said"; then
		head -n 40 "$work/said"
		return 1
	fi
}

# What the other tests rely on: the container has none of what it should not have.
bare() {
	says '^CapEff:.0000000000000000' cat /proc/self/status &&
		grep -q '^CapBnd:.0000000000000000' "$work/said" && ! inside touch /etc/passwd
}

# It names what is missing in here, and does not fail at that.
doctor() {
	inside "$build/hetmap" doctor --json
	[ $? -le 3 ] && python3 -c 'import json, sys; assert len(json.load(open(sys.argv[1]))) > 5' \
		"$work/said"
}

if ! command -v bwrap >/dev/null; then
	skip packaging all 'bubblewrap is not installed'
elif ! inside true; then
	skip kernel all "no user namespaces here: $(head -n 1 "$work/said")"
else
	check bare bare
	check histogram says 'verified  *every count' "$build/hetmap" run histogram --accel cpu -r 1
	check tour says 'verified  *[0-9]* steps' "$build/hetmap" tour --device soft:0
	check doctor doctor
fi
finish
