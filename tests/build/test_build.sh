#!/bin/sh
# SPDX-License-Identifier: MIT
# What a packager relies on: headers that stand alone, a library that shows its
# interface and nothing else, an installed tree that pkg-config finds and that
# goes away again.
set -u

suite=build
# shellcheck source=tests/lib.sh
. tests/lib.sh
build=${HETMAP_BUILD:-build}
# The checkout is built by the time this runs; its make has no say here.
unset MAKEFLAGS MAKELEVEL
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

header_alone() {
	echo "#include <hetmap/$1>" >"$work/one.c"
	cp "$work/one.c" "$work/one.cpp"
	gcc -std=c11 -pedantic -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/one.c" &&
		g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -fsyntax-only "$work/one.cpp"
}

# The extensions' headers lie beside those of the library where they are installed.
extension_header_alone() {
	echo "#include \"$1\"" >"$work/one.c"
	cp "$work/one.c" "$work/one.cpp"
	set -- "-I${1%/hetmap/*}" -Wall -Wextra -Werror -Iinclude -I. -fsyntax-only
	gcc -std=c11 -pedantic "$@" "$work/one.c" && g++ -std=c++17 "$@" "$work/one.cpp"
}

# extension_names NAME: its header, its version script and its library have the same functions.
extension_names() {
	cat "extensions/$1"/include/hetmap/*.h | sed 's/^#.*//' | tr '\n' ' ' |
		grep -o 'HM_API [^;(]*(' | sed 's/($//; s/.*[ *]//' | sort >"$work/headers"
	sed -n 's/^\t\(hm_[a-z0-9_]*\);$/\1/p' "extensions/$1/lib/libhetmap-$1.map" | sort |
		diff "$work/headers" - || return
	# It is not built where what it needs is missing.
	[ -e "$build/libhetmap-$1.so" ] || return 0
	nm -D --defined-only "$build/libhetmap-$1.so" | sed 's/.* //; s/@.*//' |
		grep -v '^HETMAP_[A-Z]*_[0-9.]*$' | sort | diff "$work/headers" - &&
		nm -g --defined-only "$build/libhetmap-$1.a" 2>/dev/null |
		sed -n 's/^[0-9a-f]* [A-Za-z] //p' | sort | diff "$work/headers" - &&
		while read -r name; do
			grep -rqw --include='*.c' "$name" tests || {
				echo "no test names $name"
				return 1
			}
		done <"$work/headers"
}

# extension_apart NAME: none of its objects has a name that the library or the command has. A build
# under a sanitizer links all of them into one program.
extension_apart() {
	set -- "$build/extensions/$1/lib"/*.o
	# It is not built where what it needs is missing.
	[ -e "$1" ] || return 0
	nm -g --defined-only "$@" | sed -n 's/^[0-9a-f]* [A-Z] //p' | sort -u >"$work/own"
	nm -g --defined-only "$build/runtime.a" "$build/tools.a" 2>/dev/null |
		sed -n 's/^[0-9a-f]* [A-Z] //p' | sort -u | comm -12 "$work/own" - >"$work/both"
	sed 's/$/: the extension and the library or command each have one/' "$work/both"
	[ ! -s "$work/both" ]
}

# Names of the functions that the headers mark HM_API, sorted.
names_in_headers() {
	cat include/hetmap/*.h | sed 's/^#.*//' | tr '\n' ' ' |
		grep -o 'HM_API [^;(]*(' | sed 's/($//; s/.*[ *]//' | sort
}

names_in_map() {
	sed -n 's/^\t\(hm_[a-z0-9_]*\);$/\1/p' runtime/libhetmap.map | sort
}

# nm's own "HETMAP_0.1" is the version node.
names_in_shared() {
	nm -D --defined-only "$build/libhetmap.so" | sed 's/.* //; s/@.*//' |
		grep -v '^HETMAP_[0-9.]*$' | sort
}

names_in_static() {
	nm -g --defined-only "$build/libhetmap.a" 2>/dev/null |
		sed -n 's/^[0-9a-f]* [A-Za-z] //p' | sort
}

same_names() {
	names_in_headers >"$work/headers"
	"$1" >"$work/found"
	diff "$work/headers" "$work/found"
}

# A test that calls it, or says what it answers: a word in one of them at least.
names_in_tests() {
	for name in $(names_in_map); do
		grep -qw "$name" tests/*/*.c && echo "$name"
	done
}

# tests/api/test_errors.c says of each what it does to the texts.
names_in_errors() {
	sed -n 's/^\tROW(\(hm_[a-z0-9_]*\), .*/\1/p' tests/api/test_errors.c | sort
}

# Code of the library calls no function that forgets its caller's texts (base/err.h): the
# references of the object files are to functions that leave them. Two are a caller's macro.
doors_inside() {
	leaves=$(sed -n 's/^\tROW(\(hm_[a-z0-9_]*\), [LUB].*/\1/p' tests/api/test_errors.c)
	find "$build/runtime" -name '*.o' -exec nm -A -P {} + | awk -v leaves="$leaves" '
		BEGIN {
			n = split(leaves " hm_guard_enter hm_queue_launch", list)
			while (n)
				may[list[n--]]
		}
		$3 == "U" && $2 ~ /^hm_/ && !($2 in may) { print $1, $2; bad = 1 }
		END { exit bad }'
}

install_tree() {
	make --no-print-directory B="$build" PREFIX=/usr DESTDIR="$work/root" "$1"
}

# place_refused SETTING TEXT: nothing is installed, and make says why.
place_refused() {
	! make -n --no-print-directory B="$build" "$1" install >"$work/said" 2>&1 &&
		grep -q "$2" "$work/said" && ! grep -q 'install -' "$work/said"
}

# A program of the examples, built as a user would who has only the packages:
# against the shared library, or the static one (of two, ld takes the shared).
installed_program() {
	flags=$(PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$work/root/usr/lib/pkgconfig \
		pkg-config --cflags --libs ${1:+"$1"} hetmap) || return
	[ -z "$1" ] || flags=$(echo "$flags" | sed 's/-lhetmap/-l:libhetmap.a/')
	# shellcheck disable=SC2086 # a list of flags
	gcc -std=c11 -Wall -Werror -o "$work/program" "$example" $flags &&
		LD_LIBRARY_PATH=$work/root/usr/lib "$work/program"
}

# What the library says of itself is what its file and pkg-config say.
installed_version() {
	version=$("$build/hetmap" version | sed -n 's/^hetmap //p')
	library=$work/root/usr/lib/libhetmap.so.$version
	told=$(PKG_CONFIG_PATH=$work/root/usr/lib/pkgconfig pkg-config --modversion hetmap)
	soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]$/\1/p')
	echo "version $version, pkg-config $told, soname $soname"
	[ -n "$version" ] && [ "$told" = "$version" ] && [ -f "$library" ] && [ ! -L "$library" ] &&
		[ "$soname" = "libhetmap.so.${version%%.*}" ]
}

# man(1) finds each function of the headers: by a page of its name, or a link to one.
page_of_each_function() {
	for name in $(names_in_headers); do
		page=$work/root/usr/share/man/man3/$name.3
		[ -f "$page" ] || { echo "$name has no page"; return 1; }
		to=$(sed -n 's/^\.so //p' "$page")
		grep -q "^\.Nm $name\( ,\)\{0,1\}\$" \
			"$work/root/usr/share/man/${to:-man3/$name.3}" ||
			{ echo "$page leads to no page of $name"; return 1; }
	done
	! command -v man >/dev/null || man -M "$work/root/usr/share/man" -w hm_launch
}

no_file_left() {
	find "$work/root" ! -type d >"$work/left"
	! [ -s "$work/left" ] || { cat "$work/left"; return 1; }
}

for header in include/hetmap/*.h; do
	check "header_$(basename "$header" .h)" header_alone "$(basename "$header")"
done
for header in extensions/*/include/hetmap/*.h; do
	name=${header#extensions/}
	name=${name%%/*}
	check "header_of_$name" extension_header_alone "$header"
	check "names_of_$name" extension_names "$name"
	check "names_apart_$name" extension_apart "$name"
done
# with_liburing yes|no: a make that finds it, or does not
with_liburing() {
	printf '#!/bin/sh\ncase $* in *--exists*liburing*) exit %d ;; esac\n%s\n' \
		"$([ "$1" = yes ] && echo 0 || echo 1)" 'exec pkg-config "$@"' >"$work/pkg-config"
	chmod +x "$work/pkg-config"
	make -s B="$work/later" PKG_CONFIG="$work/pkg-config" "$work/later/config.h"
}

# A tree that is built already sees what was installed since, and nothing is made twice.
installed_later() {
	with_liburing no && echo 'as it was' >"$work/later/config.h" &&
		with_liburing no && grep -qx 'as it was' "$work/later/config.h" &&
		with_liburing yes && ! grep -qx 'as it was' "$work/later/config.h"
}

# Jumps off a stack for signals are not held against the stack of before.
fortified_jump() {
	make -s B="$work/fortified" CFLAGS='-O2 -D_FORTIFY_SOURCE=2' \
		"$work/fortified/runtime/fault/handler.o" &&
		nm -u "$work/fortified/runtime/fault/handler.o" >"$work/undefined" &&
		grep -q longjmp "$work/undefined" && ! grep longjmp_chk "$work/undefined"
}

# fuzz_times SECONDS ARGS...: each fuzzer of make fuzz-all ARGS gets so many
fuzz_times() {
	seconds=$1
	shift
	# Nothing is built; a clang that is not there is not asked.
	make -n B="$build" "$@" fuzz-all >"$work/fuzz" &&
		grep -q -e '-max_total_time=' "$work/fuzz" &&
		! grep -e '-max_total_time=' "$work/fuzz" | grep -v -e "-max_total_time=$seconds "
}

check fuzz_half_an_hour fuzz_times 1800
check fuzz_minutes fuzz_times 120 MINUTES=2
check fuzz_seconds fuzz_times 7 FUZZ_SECONDS=7
check fortified_jump fortified_jump
check version_script same_names names_in_map
check shared_names same_names names_in_shared
check static_names same_names names_in_static
check named_in_tests same_names names_in_tests
check told_in_errors same_names names_in_errors
check doors_inside doors_inside
check man_pages sh tests/build/check_man.sh
check uapi_page sh tests/build/check_uapi_doc.sh

check installed_later installed_later
check place_blank place_refused "PREFIX=$work/p q" 'PREFIX is ".*/p q", which has white space'
check place_of_libraries place_refused 'LIBDIR=/a b' 'LIBDIR is "/a b", which has white space'
check place_destdir place_refused 'DESTDIR=/a b' 'DESTDIR is "/a b", which has white space'
check place_relative place_refused PREFIX=here 'PREFIX is "here", which does not begin with "/"'
check install install_tree install
check installed_version installed_version
check installed_pages page_of_each_function
for example in examples/*.c; do
	[ -e "$example" ] || continue
	program=$(basename "$example" .c)
	check "run_$program" "$build/examples/$program"
	check "shared_$program" installed_program ''
	check "static_$program" installed_program --static
done
check uninstall install_tree uninstall
check uninstalled no_file_left
finish
