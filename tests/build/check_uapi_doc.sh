#!/bin/sh
# shellcheck disable=SC2086 # $headers is a list of names
# SPDX-License-Identifier: MIT
# hetsim(4) and the driver say the same: the constants and structures of
# include/uapi/*.h, the errnos it gives meanings to, the module's parameters,
# tracepoints and files in debugfs, the keys in fdinfo.
# Run from the top of the tree; exits 1 after telling all that is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
headers=$(echo include/uapi/*.h)
page=man/hetsim.4
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
bad=0

# compare WHAT: the lines of $work/there and $work/told, in any order
compare() {
	sort -u "$work/there" >"$work/a"
	sort -u "$work/told" >"$work/b"
	[ -s "$work/a" ] || echo "check_uapi_doc: found no $1 in the sources" >&2
	comm -23 "$work/a" "$work/b" | sed "s|^|check_uapi_doc: $page lacks the $1 |" >&2
	comm -13 "$work/a" "$work/b" | sed "s|^|check_uapi_doc: $page makes up the $1 |" >&2
	[ -s "$work/a" ] && cmp -s "$work/a" "$work/b" || bad=1
}

# "STRUCT N TYPE MEMBER" for each member of each structure, the N-th of it.
members() {
	cat "$@" | sed 's,/\*.*\*/,,' | awk '
		/^struct hetsim_[a-z_0-9]+ [{]$/ { name = $2; n = 0; next }
		/^[}]/ { name = "" }
		name != "" && NF == 2 { print name, ++n, $1, $2 }'
}

# part FROM TO: the lines of the page between these
part() {
	sed -n "/$1/,/$2/p" "$page"
}

sed -n -e 's/^#define \(HETSIM_[A-Z0-9_]*\) .*/\1/p' \
	-e 's/^\t\(HETSIM_[A-Z0-9_]*\)\( = .*\)\{0,1\},$/\1/p' \
	$headers >"$work/there"
grep -ow 'HETSIM_[A-Z0-9_]*' "$page" >"$work/told"
compare constant

sed -n 's/^\t\(HETSIM_NR_[A-Z0-9_]* = 0x[0-9a-f]*\),$/\1/p' $headers >"$work/there"
grep '^HETSIM_NR_' "$page" >"$work/told"
compare number

members $headers >"$work/there"
members "$page" >"$work/told"
compare member

# EFBIG is the twin's only, whose buffers are files.
{
	sed -n 's/^ \*  - \(E[A-Z0-9]*\): .*/\1/p' $headers
	grep -ohw EFBIG runtime/soft/*.c
} >"$work/there"
sed -n 's/^\.It Bq Er \(E[A-Z0-9]*\)$/\1/p' "$page" >"$work/told"
compare errno

sed -n 's/^module_param[a-z_]*(\([a-z_]*\),.*/\1/p' drivers/sim/*.c >"$work/there"
part '^\.Ss Module parameters' '^\.El' | sed -n 's/^\.It Cm \([a-z_]*\)$/\1/p' >"$work/told"
compare parameter

sed -n 's/^TRACE_EVENT(\([a-z_]*\),.*/\1/p; s/^DEFINE_EVENT([a-z_]*, \([a-z_]*\),.*/\1/p' \
	drivers/sim/sim_trace.h >"$work/there"
part 'tracing\/events\/hetsim' '^\.El' | sed -n 's/^\.Cm \([a-z_]*\).*/\1/p' >"$work/told"
compare tracepoint

sed -n 's/.*debugfs_create_file("\([a-z_]*\)",.*/\1/p' drivers/sim/*.c >"$work/there"
sed -n 's/^\.\(It \)\{0,1\}Pa \/sys\/kernel\/debug\/hetsim\/\(hetsimN\/\)\{0,1\}\([a-z_]*\)$/\3/p' \
	"$page" >"$work/told"
compare 'file in debugfs'

grep -o '"\(drm\|hetsim\)-[a-z-]*' drivers/sim/sim_fdinfo.c | tr -d '"' >"$work/there"
sed -n 's/^\.Li \(\(drm\|hetsim\)-[a-z-]*\).*/\1/p' "$page" >"$work/told"
compare 'key in fdinfo'

exit "$bad"
