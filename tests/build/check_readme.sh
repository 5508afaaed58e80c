#!/bin/sh
# SPDX-License-Identifier: MIT
# The program in README.md is examples/saxpy.c, word for word (but for its
# licence line), what the documents link to is there, and what the library reads of
# the environment is in the tables of README.md and hetmap(7). Exits 1 after telling all
# that is wrong.
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

for page in *.md docs/*.md; do
	links=$(grep -o '](\([^)#]*\)' "$page" | sed 's/^](//' | sort -u)
	for link in $links; do
		case $link in
		http://*|https://*|mailto:*) continue ;;
		esac
		[ -e "$(dirname "$page")/$link" ] || complain "$page links to $link, which is not there"
	done
done

names=$(grep -rho 'getenv("[A-Z_]*")' runtime | sed 's/.*"\(.*\)".*/\1/' | sort -u)
[ -n "$names" ] || complain "found no getenv() in runtime"
for name in $names; do
	# shellcheck disable=SC2016 # backquotes of Markdown
	grep -q "^|.*\`$name\`.*| library |" README.md ||
		complain "README.md lacks $name in the table of its environment variables"
	grep -q "^\.It Ev .*$name" man/hetmap.7 ||
		complain "man/hetmap.7 lacks $name in ENVIRONMENT"
done
exit $bad
