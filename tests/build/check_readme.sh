#!/bin/sh
# SPDX-License-Identifier: MIT
# README.md has 160 lines at most, and its program is examples/saxpy.c, word for word (but for its
# licence line). Links in the documents lead to files and headings that are there. Each variable
# that the library and the command read of the environment is in hetmap(7), and in no table beside.
# Exits 1 after telling all that is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
bad=0

complain()
{
	echo "check_readme: $*" >&2
	bad=1
}

# The first block of C in README.md.
# shellcheck disable=SC2016 # a pattern, not a command
shown=$(sed -n '/^```c$/,/^```$/p' README.md | sed '1d; /^```$/,$d')
program=$(sed 1d examples/saxpy.c)
if [ "$shown" != "$program" ]; then
	complain "the program in README.md is not examples/saxpy.c (less its first line)"
fi
lines=$(wc -l <README.md)
[ "$lines" -le 160 ] || complain "README.md has $lines lines; 160 are the most"

# The anchors of a page's headings, as they are made on a page of the repository: in small letters,
# a blank is a dash, and only letters, digits, dashes and low lines are left.
# shellcheck disable=SC2016 # backquotes of Markdown
anchors()
{
	sed -n '/^```/,/^```/d; s/^##* //p' "$1" | tr '[:upper:] ' '[:lower:]-' |
		sed 's/[^a-z0-9_-]//g'
}

for page in *.md docs/*.md docs/guide/*.md docs/guide/*/*.md \
	tools/perf/bench/results/*.md tests/*.md; do
	links=$(grep -o '](\([^)]*\)' "$page" | sed 's/^](//' | sort -u)
	for link in $links; do
		case $link in
		http://*|https://*|mailto:*) continue ;;
		esac
		to=$(dirname "$page")/${link%%#*}
		case $link in
		'#'*) to=$page ;;
		esac
		if ! [ -e "$to" ]; then
			complain "$page links to $link, which is not there"
			continue
		fi
		case $link in
		*.md'#'* | '#'*)
			anchors "$to" | grep -qxF -e "${link#*#}" ||
				complain "$page links to $link: $to has no such heading"
			;;
		esac
	done
done
# Pictures.
for page in *.md docs/*.md docs/guide/*.md docs/guide/*/*.md \
	tools/perf/bench/results/*.md tests/*.md; do
	pictures=$(sed -n 's/.* \(src\|srcset\)="\([^"]*\)".*/\2/p' "$page")
	for picture in $pictures; do
		[ -e "$(dirname "$page")/$picture" ] || complain "$page shows $picture, which is not there"
	done
done

names=$(grep -rhoE '(getenv|env_get)\("[A-Z_]*"\)' runtime tools |
	sed 's/.*"\(.*\)".*/\1/' | sort -u)
echo "$names" | grep -qx HETMAP_SOFT || complain "found no env_get() in runtime"
for name in $names; do
	grep -Eq "^\.It Ev (.* )?$name( |\$)" man/hetmap.7 ||
		complain "man/hetmap.7 lacks $name in ENVIRONMENT"
	# shellcheck disable=SC2016 # backquotes of Markdown
	tables=$(grep -l "^| *\`$name\`" ./*.md docs/*.md docs/guide/*.md)
	[ -z "$tables" ] || complain "$name is in hetmap(7), and again in" "$tables"
done
exit $bad
