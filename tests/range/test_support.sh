#!/bin/sh
# SPDX-License-Identifier: MIT
# The column "any pointer" of docs/support.md says what the accelerators that are here say.
set -u

suite=support
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

"$HETMAP_BUILD/hetmap" devices --json >"$work/devices" || exit 3

# The 4th column of the row that begins with @1.
told() {
	awk -F '|' -v row="$1" '
		/^\|.*any pointer/ && !column {
			for (i = 1; i <= NF; i++)
				if ($i ~ /any pointer/)
					column = i
		}
		column && index($2, row) { gsub(/^ +| +$/, "", $column); print $column; exit }
	' docs/support.md
}

# has NAME: does the accelerator take any pointer?
has() {
	python3 - "$work/devices" "$1" <<-'END'
		import json, sys

		for accel in json.load(open(sys.argv[1]))["accelerators"]:
		    if accel["name"] == sys.argv[2]:
		        print("yes" if "any_pointer" in accel["capabilities"] else "no")
	END
}

# agrees ROW NAME: the row of the page is so of that accelerator
agrees() {
	row=$(told "$1")
	case $(has "$2"),$row in
	yes,yes* | no,no*) ;;
	*)
		echo "$2: $(has "$2"), and docs/support.md has \"$row\" for $1"
		return 1
		;;
	esac
}

# shellcheck disable=SC2016 # backquotes of the page
{
	check cpu agrees '`cpu`' cpu
	check soft agrees '`soft:N`' soft:0
	case $(has sim:0) in
	'') ;;
	*) check sim agrees '`sim:N`' sim:0 ;;
	esac
	if grep -q 'Portable Computing Language' "$work/devices"; then
		check pocl agrees 'PoCL' opencl:0
	else
		skip opencl pocl 'PoCL has no device here'
	fi
}
finish
