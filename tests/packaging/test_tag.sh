#!/bin/sh
# SPDX-License-Identifier: MIT
# The text of a release's tag (packaging/tag): what CHANGELOG.md says of the version, once it has a
# date; refused where version, date or tag contradict a release.
set -u

suite=tag
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/include/hetmap" "$work/packaging"
cp packaging/tag "$work/packaging/" && cp include/hetmap/base.h "$work/include/hetmap/" || exit 3
git -C "$work" init -q 2>/dev/null || {
	skip packaging all 'git is not installed'
	finish
	exit
}
version=$(sed -n 's/^.define HM_VERSION_M[A-Z]* *//p' include/hetmap/base.h | paste -sd .)
version=$version.$(sed -n 's/^.define HM_VERSION_PATCH *//p' include/hetmap/base.h)

# changes HEADING: with an older entry behind it
changes() {
	printf '# Changes\n\n%s\n\n%s\n\n- A line.\n\n## 0.0.9, 2026-01-01\n\n- Old.\n' \
		"$1" 'Words, [more](docs/x.md).' >"$work/CHANGELOG.md"
}

text() {
	changes "## $version, 2026-12-01"
	"$work/packaging/tag" >"$work/said" || return
	printf 'hetmap %s\n\nWords, more.\n\n- A line.\n' "$version" | diff - "$work/said"
}

# refused WORDS HEADING
refused() {
	changes "$2"
	! "$work/packaging/tag" >"$work/said" 2>&1 && grep -q "$1" "$work/said"
}

tagged_before() {
	git -C "$work" -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m x &&
		git -C "$work" tag "v$version" && refused 'is there' "## $version, 2026-12-01"
}

check text text
check no_date refused 'no date' "## $version, in preparation"
check other_version refused 'begins with' '## 9.9.9, 2026-12-01'
check tagged_before tagged_before
# That of this tree, which a release begins with.
check changelog grep -q "^## $version, " CHANGELOG.md
finish
