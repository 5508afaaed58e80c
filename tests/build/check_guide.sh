#!/bin/sh
# SPDX-License-Identifier: MIT
# check_guide.sh PAGE: builds the programs of a page of docs/guide, and runs them and its commands,
# in the page's order and in one folder. $HETMAP_BUILD is the build folder. A line before a block
# says how:
#
#   <!-- run [file=NAME] [VARIABLE=VALUE...] [ARGUMENT...] -->
#       ```c: the program is kept as NAME, and runs once with each argument: by default with
#       "host" and with "soft:0". ```sh: a shell runs the commands and stops at the first failure.
#   <!-- skip: REASON -->    the block is not run
#   <!-- prints -->          ```text: lines that the block before printed; "..." is left out
#
# A block of C or of shell without such a line is a mistake. Exits 1 after telling all that is
# wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
root=$PWD
page=$1
case ${HETMAP_BUILD:-build} in
/*) build=$HETMAP_BUILD ;;
*) build=$root/${HETMAP_BUILD:-build} ;;
esac
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
bad=0

complain()
{
	echo "$page: $*" >&2
	bad=1
}

# Block N becomes the files N.marker, N.KIND and N.line; a language that is not checked is left out.
mkdir "$work/blocks" "$work/here" || exit 3
awk -v to="$work/blocks" '
	/^```/ && inside {
		close(body)
		inside = 0
		next
	}
	inside {
		if (body != "")
			print >body
		next
	}
	/^```/ {
		inside = 1
		body = ""
		kind = substr($0, 4)
		if (kind == "c" || kind == "sh" || (kind == "text" && marker == "prints")) {
			name = sprintf("%s/%03d", to, ++n)
			body = name "." kind
			printf "" >body
			print marker >(name ".marker")
			print NR >(name ".line")
		}
		marker = ""
		next
	}
	/^<!-- .* -->$/ {
		marker = substr($0, 6, length($0) - 9)
		next
	}
	{ marker = "" }' "$page"

# For programs that are built as a user would, who has installed the library.
cat >"$work/hetmap.pc" <<END
Name: hetmap
Description: the library of the checkout
Version: 0
Libs: -L$build -lhetmap -Wl,-rpath,$build
Cflags: -I$root/include
END
export PKG_CONFIG_PATH="$work" PATH="$build:$PATH"
flags=$(pkg-config --cflags --libs hetmap) || exit 3

# run COMMAND...: in the page's folder, with $settings; its output goes to $work/said, too.
run()
{
	# shellcheck disable=SC2086 # a list of settings
	(cd "$work/here" && exec env $settings timeout 60 "$@") >"$work/one" 2>&1 </dev/null
	status=$?
	cat "$work/one" >>"$work/said"
	[ "$status" = 0 ] && return
	complain "line $line: status $status of: $*"
	sed 's/^/    /' "$work/one" >&2
}

run_program()
{
	cp "$block.c" "$work/here/$file"
	# shellcheck disable=SC2086 # a list of flags
	if ! ${CC:-cc} -std=c11 -Wall -Wextra -Werror -o "$work/here/${file%.c}" \
		"$work/here/$file" $flags 2>"$work/one"; then
		complain "line $line: the program does not compile"
		sed 's/^/    /' "$work/one" >&2
		return
	fi
	for argument in ${arguments:-host soft:0}; do
		run "./${file%.c}" "$argument"
	done
}

# Lines of the page that were not printed.
look_for()
{
	while read -r text; do
		[ "$text" = ... ] || grep -qF -e "$text" "$work/said" ||
			complain "line $line: nothing printed '$text'"
	done <"$block.text"
}

for marker in "$work"/blocks/*.marker; do
	[ -e "$marker" ] || continue
	block=${marker%.marker}
	read -r line <"$block.line"
	# shellcheck disable=SC2046 # words
	set -- $(cat "$marker")
	case ${1-} in
	skip:) continue ;;
	prints)
		look_for
		continue
		;;
	run) shift ;;
	*)
		complain "line $line: the block has no <!-- run --> and no <!-- skip: reason -->"
		continue
		;;
	esac
	file=${block##*/}.c settings='' arguments=''
	for word; do
		case $word in
		file=*) file=${word#file=} ;;
		*=*) settings="$settings $word" ;;
		*) arguments="$arguments $word" ;;
		esac
	done
	: >"$work/said"
	if [ -e "$block.c" ]; then
		run_program
	else
		run sh -e "$block.sh"
	fi
done
exit $bad
