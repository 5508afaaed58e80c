#!/bin/sh
# SPDX-License-Identifier: MIT
# The library's static probes are those of man/hetmap-probes.7, with the arguments that the
# page gives them; a build without <sys/sdt.h> has none and is whole; and bpftrace, where it
# runs, sees by examples/bpftrace what a program did.
set -u

suite=probes
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=${HETMAP_BUILD:-build}
unset MAKEFLAGS MAKELEVEL
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
library=$(readlink -f "$build/libhetmap.so")

# "NAME ARGUMENTS" of each probe, as the page has it: ARGUMENTS is how many.
probes_of_page() {
	sed -n 's/^\.It Fn \([a-z_]*\)/\1/p' man/hetmap-probes.7 |
		awk '{ name = $1; n = gsub(/"[^"]*"/, ""); print name, n }' | sort
}

# The same of the notes in an object. An argument is SIZE@PLACE, and a place may have blanks.
probes_of_object() {
	readelf -n "$1" 2>/dev/null | awk '
		/^ *Provider: / { provider = $2 }
		/^ *Name: / { name = $2 }
		/^ *Arguments:/ && provider == "hetmap" { print name, gsub(/@/, "") }' | sort
}

# probes_agree OBJECT: each at one place
probes_agree() {
	probes_of_page >"$work/page"
	probes_of_object "$1" >"$work/object"
	[ -s "$work/page" ] && diff "$work/page" "$work/object"
}

# A build that finds no <sys/sdt.h>, or must not: its library alone, fast.
build_without() {
	mkdir -p "$work/none/sys" &&
		echo '#error not to be had here' >"$work/none/sys/sdt.h" &&
		make -s -j2 B="$work/without" CFLAGS=-O0 CPPFLAGS="-I$work/none" lib &&
		grep -q 'HAVE_SDT: no' "$work/without/config.h" &&
		probes_of_object "$work/without/libhetmap.so" >"$work/left" &&
		! [ -s "$work/left" ] &&
		nm -D --defined-only "$work/without/libhetmap.so" | grep -q hm_map_create
}

# Each probe of the page is in an example, and no example has another one.
examples_agree() {
	probes_of_page | sed 's/ .*//' >"$work/page"
	sed -n 's/^usdt:\*:hetmap:\([a-z_]*\)$/\1/p' examples/bpftrace/*.bt | sort -u \
		>"$work/examples"
	[ -s "$work/page" ] && diff "$work/page" "$work/examples"
}

build_life() {
	gcc -std=gnu11 -Wall -Werror -Iinclude -o "$work/life" tests/tell/probes/life.c \
		-L"$build" -lhetmap -Wl,-rpath,"${library%/*}"
}

runs() {
	env HETMAP_SOFT='vram_mb=16 test=1' "$work/life"
}

# The byte at a probe of process $1: that of a nop until somebody attaches to it.
byte_at() {
	base=$(sed -n "s|-[0-9a-f]* r[^ ]* 00000000 .*$library\$||p" "/proc/$1/maps" | head -n 1)
	place=$(readelf -n "$library" | awk -v name="$2" '
		/^ *Name: / { found = $2 == name }
		/^ *Location: / && found { sub(/,.*/, "", $2); print $2 }')
	dd if="/proc/$1/mem" bs=1 skip=$((0x$base + place)) count=1 2>/dev/null | od -An -tx1
}

# Until bpftrace ($2) looks at each probe of the example that process $1 has.
wait_attached() {
	sed -n 's/^usdt:\*:hetmap:\([a-z_]*\)$/\1/p' "$3" | while read -r name; do
		while [ "$(byte_at "$1" "$name")" = ' 90' ]; do
			kill -0 "$2" 2>/dev/null || return 1
			sleep 0.2
		done
	done
}

wait_loaded() {
	until grep -q "$library" "/proc/$1/maps"; do
		kill -0 "$1" 2>/dev/null || return 1
		sleep 0.1
	done
}

# seen EXAMPLE PATTERN...: bpftrace prints one line for each pattern
seen() {
	example=examples/bpftrace/$1.bt
	shift
	rm -f "$work/go"
	mkfifo "$work/go"
	HETMAP_SOFT='vram_mb=16 test=1' "$work/life" wait <"$work/go" &
	life=$!
	exec 3>"$work/go"
	wait_loaded "$life"
	timeout 300 bpftrace -p "$life" "$example" >"$work/out" 2>&1 &
	tracer=$!
	wait_attached "$life" "$tracer" "$example" && echo >&3
	exec 3>&-
	wait "$life"
	wait "$tracer" || { cat "$work/out"; return 1; }
	for pattern in "$@"; do
		n=$(grep -c -e "$pattern" "$work/out")
		[ "$n" = 1 ] && continue
		echo "$n lines have \"$pattern\", not 1:"
		cat "$work/out"
		return 1
	done
}

# Why bpftrace can't be used here; nothing if it can.
why_no_bpftrace() {
	if ! command -v bpftrace >/dev/null; then
		echo 'bpftrace is not installed (Debian: apt-get install bpftrace)'
	elif [ "$(id -u)" != 0 ]; then
		echo 'bpftrace takes root'
	elif ! [ -e /sys/bus/event_source/devices/uprobe ]; then
		echo 'this kernel has no uprobes (CONFIG_UPROBE_EVENTS), or sysfs is not mounted'
	elif ! timeout 300 bpftrace -c "${library%/*}/hetmap version" \
		-e "uprobe:${library%/*}/hetmap:main { printf(\"seen\\n\"); }" >"$work/why" 2>&1 ||
		! grep -qx seen "$work/why"; then
		# It exits 0 also where it could not attach.
		why=$(grep -v RLIMIT "$work/why" | grep -e ERROR -e open | head -n 1)
		echo "bpftrace can't attach here: $why"
	fi
}

with_bpftrace() {
	host='weights of host'
	soft='frames of soft:0'
	check bt_maps seen maps "^map $soft: 32768 bytes from 0 on at 0x" \
		"^unmap $soft: 32768 bytes" "^map $host: 32768 bytes from 0 on at 0x" \
		"^move $host: .* 131072 bytes" \
		"^unmap $host: 131072 bytes" '^@lived_us\[frames\]' '^@lived_us\[weights\]'
	check bt_resizes seen resizes "^resize $host: 32768 to 49152 bytes" \
		"^resize $host: 49152 to 131072 bytes"
	check bt_locks seen locks "^lock $host: 8192 bytes from 0 on, priority 0" \
		"^unlock $host: 8192 bytes from 0 on" '^@locked\[weights\]: 8192' \
		'^@unlocked\[weights\]: 8192'
	check bt_protects seen protects "^protect $host: 4096 bytes from 4096 on: read\$" \
		"^protect $host: 4096 bytes from 4096 on: read write\$"
	check bt_brackets seen brackets '^@brackets\[weights, host\]: 2' '^@open_us\[weights\]'
	check bt_launches seen launches '^@launches\[soft:0, fill\]: 1' '^@took_us\[fill\]'
	check bt_losses seen losses "^lost $soft: 32768 bytes at 0x.*generation 1 now" \
		"^recovered $soft: 32768 bytes at 0x"
}

if grep -q '^#define HAVE_SDT 1' "$build/config.h"; then
	check probes_of_shared probes_agree "$library"
	check probes_of_static probes_agree "$build/libhetmap.o"
	check build_without build_without
else
	skip bpftrace probes 'built without <sys/sdt.h> (Debian: apt-get install systemtap-sdt-dev)'
fi
check examples_agree examples_agree
check build_life build_life
check life runs
if ! grep -q '^#define HAVE_SDT 1' "$build/config.h"; then
	skip bpftrace examples 'this build has no probes'
else
	why=$(why_no_bpftrace)
	if [ -n "$why" ]; then
		skip bpftrace examples "$why"
	else
		with_bpftrace
	fi
fi
finish
