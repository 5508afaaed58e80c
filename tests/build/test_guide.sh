#!/bin/sh
# SPDX-License-Identifier: MIT
# The programs and commands in docs/guide do what its pages say: see check_guide.sh.
set -u

suite=guide
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL

for page in docs/guide/*.md; do
	check "$(basename "$page" .md)" sh tests/build/check_guide.sh "$page"
done
finish
