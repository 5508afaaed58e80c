#!/bin/sh
# SPDX-License-Identifier: MIT
# check_guide.sh PAGE: builds the programs of a page of docs/guide, and runs them and its commands,
# in the page's order and in one folder. $HETMAP_BUILD is the build folder. A line before a block
# says how:
#
#   <!-- run [file=NAME] [VARIABLE=VALUE...] [ARGUMENT...] -->
#       ```c: the program is kept as NAME, and runs once with each argument: by default with
#       "host" and with "soft:0". ```sh: a shell runs the commands and stops at the first failure.
#       A console block (indented, "$ " before each command): a shell runs its commands, and they
#       print its other lines, but for "...", which is left out. Settings of a console block:
#       figures=any: numbers and their units may differ; status=N: the last command ends so;
#       needs=A,B: commands, or files of the build folder. Where one is missing, the block is left
#       out, and a line of the file $GUIDE_SKIPS says so.
#   <!-- keep file=NAME -->  ```c: the program is kept, and a later console block compiles it
#   <!-- skip: REASON -->    the block is not run
#   <!-- prints -->          ```text: lines that the block before printed; "..." is left out
#
# A block of C, of shell or of a console without such a line is a mistake. In it, "build" is the
# build folder, and "examples" the folder of the checkout. Exits 1 after telling all that is wrong.
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
# A console block becomes N.sh, its commands, and N.text, what they print.
mkdir "$work/blocks" "$work/here" || exit 3
ln -s "$build" "$work/here/build"
ln -s "$root/examples" "$work/here/examples"
awk -v to="$work/blocks" '
	function start(kind) {
		name = sprintf("%s/%03d", to, ++n)
		body = name "." kind
		printf "" >body
		print marker >(name ".marker")
		print NR >(name ".line")
	}
	console && /^(    |$)/ {
		line = substr($0, 5)
		if (more || sub(/^[$#] /, "", line)) {
			print line >(name ".sh")
			more = line ~ /\\$/
		} else if (line != "") {
			print line >(name ".text")
		}
		next
	}
	console {
		console = 0
		close(name ".sh")
		close(name ".text")
	}
	!inside && /^    [$#] / {
		start("sh")
		printf "" >(name ".text")
		marker = ""
		line = substr($0, 7)
		print line >body
		more = line ~ /\\$/
		console = 1
		next
	}
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
		if (kind == "c" || kind == "sh" || (kind == "text" && marker == "prints"))
			start(kind)
		marker = ""
		next
	}
	/^<!-- .* -->$/ {
		marker = substr($0, 6, length($0) - 9)
		next
	}
	NF { marker = "" }' "$page"

# For programs that are built as a user would, who has installed the library.
cat >"$work/hetmap.pc" <<END
Name: hetmap
Description: the library of the checkout
Version: 0
Libs: -L$build -lhetmap -Wl,-rpath,$build
Cflags: -I$root/include
END
for library in "$build"/libhetmap-*.so; do
	name=${library##*/libhetmap-}
	name=${name%.so}
	[ -d "$root/extensions/$name/include" ] || continue
	sed "s|-lhetmap|-lhetmap-$name|; s|^Cflags.*|Cflags: -I$root/extensions/$name/include|" \
		"$work/hetmap.pc" >"$work/hetmap-$name.pc"
done
export PKG_CONFIG_PATH="$work" PATH="$build:$PATH"
flags=$(pkg-config --cflags --libs hetmap) || exit 3

# run COMMAND...: in the page's folder, with $settings; its output goes to $work/said, too.
run()
{
	# shellcheck disable=SC2086 # a list of settings
	(cd "$work/here" && exec env $settings timeout $((60 * ${HETMAP_TIME_SCALE:-1})) "$@") \
		>"$work/one" 2>&1 </dev/null
	status=$?
	cat "$work/one" >>"$work/said"
	[ "$status" = "${ends:-0}" ] && return
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

# With single blanks; without addresses, numbers and their units, where figures may differ.
plain()
{
	sed -E 's/[ \t]+/ /g; s/^ //' | if [ "$figures" = any ]; then
		sed -E 's/0x[0-9a-f]+/X/g; s/[0-9][0-9,.]*/N/g; s/-N/N/g
			s/N (ns|us|ms|s)\>/N T/g; s/N (bytes|[KMGT]iB)\>/N B/g'
	else
		cat
	fi
}

# Lines of the page that were not printed. A terminal breaks them where a file does not.
look_for()
{
	plain <"$work/said" | tr '\n' ' ' >"$work/plain"
	plain <"$block.text" >"$work/wanted"
	while read -r text; do
		[ "$text" = ... ] || grep -qF -e "$text" "$work/plain" ||
			complain "line $line: nothing printed '$text'"
	done <"$work/wanted"
}

# Each of these is a command, or a file of the build folder.
have()
{
	for need; do
		command -v "$need" >/dev/null || [ -e "$build/$need" ] || {
			echo "$page line $line: there is no $need" >>"${GUIDE_SKIPS:-/dev/stderr}"
			return 1
		}
	done
}

for marker in "$work"/blocks/*.marker; do
	[ -e "$marker" ] || continue
	block=${marker%.marker}
	read -r line <"$block.line"
	file=${block##*/}.c settings='' arguments='' figures='' ends='' needs=''
	# shellcheck disable=SC2046 # words
	set -- $(cat "$marker")
	case ${1-} in
	skip:) continue ;;
	prints)
		look_for
		continue
		;;
	run) shift ;;
	keep)
		cp "$block.c" "$work/here/${2#file=}"
		continue
		;;
	*)
		complain "line $line: the block has no <!-- run --> and no <!-- skip: reason -->"
		continue
		;;
	esac
	for word; do
		case $word in
		file=*) file=${word#file=} ;;
		figures=*) figures=${word#figures=} ;;
		status=*) ends=${word#status=} ;;
		needs=*) needs=$(echo "${word#needs=}" | tr , ' ') ;;
		*=*) settings="$settings $word" ;;
		*) arguments="$arguments $word" ;;
		esac
	done
	# shellcheck disable=SC2086 # a list of names
	have $needs || continue
	: >"$work/said"
	if [ -e "$block.c" ]; then
		run_program
	else
		run sh -e "$block.sh"
		[ ! -e "$block.text" ] || look_for
	fi
done
exit $bad
