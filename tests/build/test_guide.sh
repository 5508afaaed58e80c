#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs and commands in README.md and all other documents do what these pages say: see
# check_guide.sh. Blocks of Python are run by tests/python/test_guide.py, the Dockerfile of
# docs/install.md by tests/packaging/image.
set -u

suite=guide
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL

work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
export GUIDE_SKIPS="$work/skips"
: >"$GUIDE_SKIPS"

# README.md has no such lines: its readers read it as it is. Python's part of it is run by
# tests/python/test_guide.py.
readme() {
	sed -e 's/^```c$/<!-- keep file=saxpy.c -->\n&/' \
		-e 's|^    \$ ./tools/run$|<!-- skip: tests/build/test_setup.sh runs it -->\n&|' \
		-e 's/^    \$ cc saxpy.c /<!-- run -->\n&/' README.md >"$work/README.md"
	sh tests/build/check_guide.sh "$work/README.md"
}

check readme readme
for page in [!R]*.md docs/*.md docs/guide/*.md docs/guide/*/*.md tools/perf/bench/results/*.md \
	tests/*.md python/*.md; do
	check "$(basename "$page" .md)" sh tests/build/check_guide.sh "$page"
done
while read -r page _ line why; do
	skip guide "$(basename "$page" .md)_${line%:}" "$why"
done <"$GUIDE_SKIPS"
finish
