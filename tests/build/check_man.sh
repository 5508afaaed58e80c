#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public function and constant is named in a man page, the structs that pages show have
# the members that the headers give them, their examples name the headers of the calls
# in them, a command's page has the options of its table, in its SYNOPSIS too, and every
# page parses cleanly.
# Run from the top of the tree; exits 1 after telling all that is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
bad=0
found=$(mktemp) || exit 2
trap 'rm -f "$found"' EXIT

complain()
{
	echo "check_man: $*" >&2
	bad=1
}

# Those of extensions are in folders of their own.
headers=$(ls include/hetmap/*.h extensions/*/include/hetmap/*.h)
all_pages=$(ls man/*.[0-9] extensions/*/man/*.[0-9])
calls=$(ls man/*.3 extensions/*/man/*.3)

# shellcheck disable=SC2086 # lists of files, none of which has a blank
{
# Declarations marked HM_API, joined to one line each, down to their names.
functions=$(cat $headers | tr '\n' ' ' |
	grep -o 'HM_API [^;(]*(' | grep -v __attribute__ |
	sed 's/($//; s/.*[ *]//' | sort -u)
[ -n "$functions" ] || complain "found no HM_API function in include/hetmap"

for function in $functions; do
	grep -Eqs "^\.Nm $function( ,)?\$" $calls ||
		complain "$function has no page: put it into the NAME of one"
	grep -Eqs "^\.F[no] $function( |\$)" $calls ||
		complain "$function is in no SYNOPSIS"
done

# The other way round: what a NAME promises is in a header.
names=$(sed -n 's/^\.Nm \(hm_[a-z0-9_]*\).*/\1/p' $calls | sort -u)
for name in $names; do
	grep -qw "$name" $headers || complain "$name is in no header"
done

# A constant that a caller passes or gets is in a page. Left out are the parts of the version, and
# the long lists of types that the pages of the formats describe as a whole.
constants=$(sed -n -e 's/^#define \(HM_[A-Z0-9_]*\).*/\1/p' -e 's/^\t\(HM_[A-Z0-9_]*\) = .*/\1/p' \
	$headers | grep -Ev '^HM_(API$|VERSION_|DTYPE_|GGML_)' | sort -u)
told=$(cat $all_pages | grep -o 'HM_[A-Z0-9_]*' | sort -u)
for constant in $(printf '%s\n' "$constants" "$told" "$told" | sort | uniq -u); do
	complain "$constant is in no page"
done

# "STRUCT MEMBER" for each member of each struct in the named files.
members()
{
	sed 's,/\*.*\*/,,; s,/\*.*,,; s,^ *\t* \*.*,,' "$@" | awk '
		/^struct hm_[a-z_]* [{]$/ { name = $2; body = ""; next }
		/^[}]/ { name = "" }
		name == "" { next }
		{
			body = body " " $0
			while ((end = index(body, ";")) > 0) {
				one = substr(body, 1, end - 1)
				body = substr(body, end + 1)
				if (match(one, /\(\*[a-z_]+\)/))
					one = substr(one, RSTART + 2, RLENGTH - 3)
				sub(/\[.*/, "", one)
				sub(/.*[ \t*]/, "", one)
				print name, one
			}
		}'
}

shown=$(members $all_pages)
for name in $(echo "$shown" | cut -d ' ' -f 1 | sort -u); do
	there=$(members $headers | grep "^$name ")
	told=$(echo "$shown" | grep "^$name ")
	[ "$there" = "$told" ] || complain "struct $name differs between headers and page:" \
		"$(printf '%s\n' "$there" "$told" | sort | uniq -u | sed 's/.* //' | tr '\n' ' ')"
done

# Structs that no page shows: of plug-ins, whose page leaves the types to the header, and the guard,
# which belongs to the library but for one member.
left_to_header='hm_accel_map hm_accel_ops hm_accel_parameters hm_accel_range hm_accel_work hm_guard'
for name in $(members $headers | cut -d ' ' -f 1 | sort -u); do
	echo "$shown" | grep -q "^$name " || echo " $left_to_header " | grep -q " $name " ||
		complain "struct $name is in no page"
done

# A call and the header that declares it, for each call that examples make.
needs='errx? err.h
warnx? err.h
(f|sn)?printf stdio.h
puts stdio.h
strcmp string.h
malloc stdlib.h
sleep unistd.h'

# A page's examples name the headers of their calls: a reader copies them.
for page in $calls; do
	examples=$(sed -n '/^\.Sh EXAMPLES/,/^\.Sh ERRORS/p' "$page")
	echo "$needs" | while read -r call header; do
		if echo "$examples" | grep -Eq "(^|[^a-z_])$call\(" &&
			! echo "$examples" | grep -q "^#include <$header>"; then
			echo "$call() in the examples of $page, without <$header>"
		fi
	done
	case $examples in
	'' | *'#include <hetmap/'*) ;;
	*) echo "the examples of $page name no header of the library" ;;
	esac
done >"$found"
while read -r line; do
	complain "$line"
done <"$found"

# Long options: of the table in a source, and of a page.
options_of_table()
{
	sed -n '/^static const struct option_row rows/,/^};/p' "$1" | tr '\n' ' ' |
		grep -oE "\] = (OPTION_ROW_[A-Z]+|\{[[:space:]]*('.'|0), \"[a-z-]+\")" |
		sed 's/.*OPTION_ROW_//; s/"$//; s/.*"//' | tr '[:upper:]' '[:lower:]' | sort
}

options_of_page()
{
	sed -n 's/^\.It Fl \(. , \)\{0,1\}-\([a-z-]*\).*/\2/p' "$1" | sort
}

# options_left_out PAGE: those that its SYNOPSIS has neither by name nor by letter
options_left_out()
{
	synopsis=$(sed -n '/^\.Sh SYNOPSIS/,/^\.Sh DESCRIPTION/p' "$1")
	sed -n 's/^\.It Fl \(\(.\) , \)\{0,1\}-\([a-z-]*\).*/\3 \2/p' "$1" |
		while read -r name letter; do
			echo "$synopsis" |
				grep -Eq "Fl (-$name|[0-9a-z]*${letter:--$name}[a-z]*)( |\$)" ||
				echo "$name"
		done
}

# page_of SOURCE: of the command that the source has the options of
page_of()
{
	case $1 in
	extensions/*)
		name=${1#extensions/}
		name=${name%%/*}
		own=extensions/$name/man/hetmap-$(basename "$1" .c | tr _ -).1
		[ -e "$own" ] && echo "$own" && return
		echo "extensions/$name/man/hetmap-$name.1"
		;;
	tools/perf/*) echo "man/hetmap-$(basename "$(dirname "$1")").1" ;; # its room's
	*) echo "man/hetmap-$(basename "$1" .c).1" ;;
	esac
}

for source in tools/*/*.c tools/perf/*/*.c extensions/*/command/*.c; do
	grep -q '^static const struct option_row rows' "$source" || continue
	page=$(page_of "$source")
	there=$(options_of_table "$source")
	told=$(options_of_page "$page")
	[ -n "$there" ] || complain "found no option in $source"
	[ "$there" = "$told" ] || complain "options differ between $source and $page:" \
		"$(printf '%s\n' "$there" "$told" | sort | uniq -u | tr '\n' ' ')"
	options_left_out "$page" >"$found"
	while read -r name; do
		complain "the SYNOPSIS of $page lacks --$name"
	done <"$found"
done

pages=$(sed -n 's/^\..*Xr \(hetmap[a-z-]*\|hm_[a-z0-9_]*\) \([0-9]\).*/\1.\2/p' $all_pages |
	sort -u)
for page in $pages; do
	echo "$all_pages" | grep -q "/$page\$" ||
		complain "there is no page $page, but another refers to it"
done

if command -v mandoc >/dev/null; then
	mandoc -Tlint -Wwarning $all_pages >&2 || bad=1
else
	echo "check_man: mandoc is not installed, so the pages were not parsed" >&2
fi
}
exit $bad
