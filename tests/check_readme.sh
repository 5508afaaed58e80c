#!/bin/sh
# SPDX-License-Identifier: MIT
# The program in README.md is examples/saxpy.c, word for word (but for its
# licence line), and what the documents link to is there. Exits 1 after telling
# all that is wrong.
set -u
cd "$(dirname "$0")/.." || exit 2
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

for page in *.md docs/*.md; do
	links=$(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | sort -u)
	for link in $links; do
		case $link in
		http://*|https://*|mailto:*) continue ;;
		esac
		[ -e "$(dirname "$page")/$link" ] || complain "$page links to $link, which is not there"
	done
done
exit $bad
