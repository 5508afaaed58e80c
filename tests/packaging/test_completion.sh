#!/bin/sh
# SPDX-License-Identifier: MIT
# Completion for bash and zsh offers the commands, jobs and options that `hetmap --help` prints.
set -u

suite=completion
# shellcheck source=tests/lib.sh
. tests/lib.sh
hetmap=${HETMAP_BUILD:-build}/hetmap
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# offered WORD...: what bash offers for the last one of these words, one a line
offered() {
	bash -c '
		. "$1"
		shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_hetmap
		printf "%s\n" "${COMPREPLY[@]}"' bash "$work/bash" "$@"
}

# The same of zsh, whose functions of completion print their words here.
offered_by_zsh() {
	zsh -f -c '
		file=$1
		shift
		words=("$@") CURRENT=$#
		_describe() {
			[[ $1 == -o ]] && shift
			print -l -- "${(@)${(@P)2}%%:*}"
		}
		compadd() { shift; print -l -- "$@" }
		_files() { print files }
		complete_it() { . $file }
		complete_it' zsh "$work/zsh" "$@"
}

# Read anew, and otherwise than packaging/completion does.
commands() {
	"$hetmap" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

options_of() {
	"$hetmap" "$1" --help | grep -oE '^ {2,6}(-[a-z0-9], )?--[a-z-]*' |
		grep -oE -- '-[a-z0-9]\b|--[a-z-]+' |
		sort -u
}

made() {
	packaging/completion bash "$hetmap" >"$work/bash" &&
		packaging/completion zsh "$hetmap" >"$work/zsh" && bash -n "$work/bash"
}

# agrees FUNCTION: it offers the commands, and for each of them its options
agrees() {
	"$1" hetmap '' | sort >"$work/got"
	commands | sort >"$work/wanted"
	[ "$(wc -l <"$work/wanted")" -gt 10 ] || return
	diff "$work/wanted" "$work/got" || return
	for command in $(commands | grep -v -e help -e version); do
		"$1" hetmap "$command" - | sort -u >"$work/got"
		options_of "$command" >"$work/wanted"
		[ -s "$work/wanted" ] || return
		diff "$work/wanted" "$work/got" || {
			echo "options of $command"
			return 1
		}
	done
	[ "$("$1" hetmap run '' | sort | head -n 3 | paste -sd ' ')" = 'graph histogram load' ] &&
		"$1" hetmap run saxpy --accel '' | grep -qx cpu &&
		"$1" hetmap run saxpy -d '' | grep -qx soft:0
}

# Half a word, and an option whose argument is a file: its name is readline's, or zsh's, to find.
words_and_files() {
	[ "$(offered hetmap doc)" = doctor ] && [ "$(offered hetmap run --pol)" = --policy ] &&
		[ -z "$(offered hetmap run --policy '')" ] && [ -z "$(offered hetmap inspect '')" ]
}

refuses_others() {
	packaging/completion fish "$hetmap" >"$work/out" 2>&1
	[ $? = 2 ] && grep -q 'bash or zsh' "$work/out"
}

check made made
check bash agrees offered
check bash_words words_and_files
if command -v zsh >/dev/null; then
	check zsh agrees offered_by_zsh
	check zsh_files [ "$(offered_by_zsh hetmap inspect '')" = files ]
else
	skip packaging zsh 'zsh is not installed'
	skip packaging zsh_files 'zsh is not installed'
fi
check refuses_others refuses_others
finish
