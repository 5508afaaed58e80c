#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/abi takes in what is compatible, and refuses what breaks programs: on copies of the tree's
# headers, each with one change.
# shellcheck disable=SC2016 # programs of sed
set -u

suite=abi
# shellcheck source=tests/lib.sh
. tests/lib.sh
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

fresh() {
	rm -rf "$work/tree" && mkdir -p "$work/tree/runtime" "$work/tree/tools" &&
		cp -r include abi "$work/tree" && cp runtime/libhetmap.map "$work/tree/runtime" &&
		cp tools/abi "$work/tree/tools"
}

# edit FILE SED-PROGRAM: which has to change something
edit() {
	cp "$work/tree/$1" "$work/old" && sed -i "$2" "$work/tree/$1" &&
		! cmp -s "$work/old" "$work/tree/$1"
}

# abi STATUS TEXT ARGUMENT...: tools/abi of the copy ends so, and says TEXT
abi() {
	expected=$1 text=$2
	shift 2
	"$work/tree/tools/abi" "$@" >"$work/said" 2>&1
	status=$?
	if [ "$status" != "$expected" ] || ! grep -qe "$text" "$work/said"; then
		echo "status $status"
		head -n 30 "$work/said"
		return 1
	fi
}

# The check agrees, and says nothing.
quiet() {
	"$work/tree/tools/abi" >"$work/said" 2>&1 && [ ! -s "$work/said" ]
}

unchanged() {
	fresh && quiet
}

# A change that is compatible: the check asks for a record, and has none to ask for then.
taken_in() {
	abi 1 'make abi records it' check && abi 0 'recorded' record && quiet
}

# One that is not: it is refused by both, but for BREAK.
refused() {
	abi 1 'breaks programs' check && abi 1 'breaks programs' record &&
		cmp -s abi/libhetmap.so.0.*.abi "$work"/tree/abi/libhetmap.so.0.*.abi &&
		abi 0 'which breaks programs' record break && quiet
}

struct_grows() {
	fresh && edit include/hetmap/accel.h \
		'/^struct hm_accel_info {/,/^};/s/^};/\tuint64_t more;\n};/' &&
		taken_in
}

new_function() {
	fresh && edit include/hetmap/accel.h \
		'$s/^/HM_API int hm_accel_more(struct hm_accel *accel);\n/' &&
		edit runtime/libhetmap.map 's/^\thm_accel_list;/&\n\thm_accel_more;/' && taken_in
}

inserted_member() {
	fresh && edit include/hetmap/accel.h \
		'/^struct hm_accel_info {/,/^};/s/^\tuint32_t kind;/\tuint64_t more;\n&/' &&
		refused
}

wider_argument() {
	fresh && edit include/hetmap/device.h \
		'/^HM_API int hm_device_list(/s/uint32_t cap/uint64_t cap/' &&
		refused
}

lost_function() {
	fresh && edit runtime/libhetmap.map '/^\thm_accel_list;/d' && refused
}

# Nothing in it says how long it is.
bare_struct_grows() {
	fresh && edit include/hetmap/kernel.h \
		'/^struct hm_cpu_range {/,/^};/s/^};/\tuint64_t more;\n};/' &&
		refused
}

other_value() {
	fresh && edit include/uapi/hetsim_mirror.h \
		'/^enum hetsim_advice {/,/^};/s/^\tHETSIM_ADVISE_ACC/\tHETSIM_ADVISE_MORE,\n&/' &&
		refused
}

undeclared() {
	fresh && edit runtime/libhetmap.map 's/^\thm_accel_list;/&\n\thm_nowhere;/' &&
		abi 1 'hm_nowhere is in the version script, and in no header' check
}

# Another node is another interface, which has no dump yet.
other_node() {
	fresh && edit runtime/libhetmap.map 's/^HETMAP_0.1 {/HETMAP_0.2 {/' &&
		edit include/hetmap/accel.h \
		'/^struct hm_accel_info {/,/^};/s/^\tuint32_t kind;/\tuint64_t more;\n&/' &&
		abi 1 'HETMAP_0.2.abi is not there' check && abi 0 recorded record && quiet
}

if command -v abidw >/dev/null; then
	for name in unchanged struct_grows new_function inserted_member wider_argument lost_function \
		bare_struct_grows other_value undeclared other_node; do
		check "$name" "$name"
	done
else
	skip packaging all 'abigail-tools is not installed'
fi
finish
