# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# Sourced: what is done while somebody waits for a machine, where HETMAP_VM_TELL=1 asks for it, as
# make vm and tools/vm do.

# tell SENTENCE...: on standard error
tell() {
	[ "${HETMAP_VM_TELL-}" != 1 ] || printf 'tests/vm/%s: %s\n' "${0##*/}" "$*" >&2
}
