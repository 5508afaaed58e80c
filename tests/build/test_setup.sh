#!/bin/sh
# SPDX-License-Identifier: MIT
# The two commands of README.md: what they do on a machine where nothing is
# installed, and that a file's name reaches the main job as it was typed.
set -u

suite=setup
# shellcheck source=tests/lib.sh
. tests/lib.sh
unset MAKEFLAGS MAKELEVEL
root=$PWD
B=${HETMAP_BUILD:-$root/build}
export B
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# A machine without compiler, make, dpkg or apt, for a user who is not root.
mkdir "$work/bin"
for tool in sh dirname cat awk; do
	ln -s "$(command -v $tool)" "$work/bin/$tool"
done
printf '#!/bin/sh\necho 1000\n' >"$work/bin/id"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/apt-get"
chmod +x "$work/bin/id" "$work/bin/apt-get"

# expect_status STATUS COMMAND...: its output goes to $work/out
expect_status() {
	expected=$1
	shift
	"$@" >"$work/out" 2>&1
	status=$?
	[ "$status" = "$expected" ] || {
		echo "status $status, not $expected:"
		cat "$work/out"
		return 1
	}
}

# What is missing is named in one line, nothing is made, and the status is 3.
nothing_there() {
	expect_status 3 env PATH="$work/bin" B="$work/none" "tools/$1" || return
	line=$(grep 'apt-get .*install' "$work/out")
	for package in gcc make libdrm-dev ocl-icd-opencl-dev $2; do
		case "$line " in
		*" $package "*) ;;
		*)
			echo "$package is not in: $line"
			return 1
			;;
		esac
	done
	[ "$(grep -c 'apt-get .*install' "$work/out")" = 1 ] && ! [ -e "$work/none" ]
}

cannot_write() {
	expect_status 3 env B=/proc/hetmap tools/run && grep -q "can't be written" "$work/out"
}

main_job() {
	expect_status 0 "$root/tools/run" "$@"
}

# After the job one buffer of the best device there is goes through its life.
tour_follows() {
	main_job && grep -q '^  verified     every count' "$work/out" &&
		grep -q '^One buffer of 16 MiB through its life$' "$work/out" &&
		grep -q '^  verified     [0-9]* steps by' "$work/out"
}

# The blocks of README.md, also where no locale is named, or one that is not there; letters where
# that is asked for.
shows_blocks() {
	env -u LC_ALL -u LC_CTYPE -u LANG "$@" "$root/tools/run" >"$work/out" 2>&1 &&
		grep -q '██' "$work/out" && grep -q '✓ map' "$work/out"
}

shows_letters() {
	expect_status 0 env LC_ALL=C "$root/tools/run" && ! grep -q '██' "$work/out"
}

# What keeps the tour from its device is said, and is not the job's failure.
tour_stops() {
	expect_status 0 env HETMAP_SOFT=wrong=1 "$root/tools/run" || return
	[ -e /dev/hetsim0 ] || grep -q 'there is no setting "wrong"' "$work/out"
}

# From another folder, so that the name is taken relative to where the user is.
odd_name() {
	mkdir -p "$work/here" && cd "$work/here" && printf 'some bytes' >"./$1" &&
		main_job "$1" && cd "$root" && grep -qF -e "$1" "$work/out"
}

# A file may be named as an option is; what is neither is told as what it looks like.
unknown_option() {
	expect_status 2 tools/run -x && grep -q "unknown option '-x'" "$work/out" &&
		expect_status 2 tools/run -- -x && grep -q 'no such file: -x' "$work/out"
}

check run_without_packages nothing_there run ''
check check_without_packages nothing_there check libcunit1-dev
check unwritable cannot_write
check usage expect_status 2 tools/run one two
check unknown_option unknown_option
check main_job tour_follows
check tour_stops tour_stops
check bare_locale shows_blocks
check missing_locale shows_blocks LANG=xx_YY.UTF-8 LC_ALL=xx_YY.utf8
check plain_locale shows_letters
# shellcheck disable=SC2016 # the names are meant
for name in 'a b' '$HOME' '-rf' '--json' "it's" '*'; do
	check "name_$(printf %s "$name" | tr -c 'a-zA-Z\n' _)" odd_name "$name"
	cd "$root" || exit 3
done
check missing_file expect_status 2 tools/run "$work/absent"
check folder expect_status 2 tools/run "$work"
finish
