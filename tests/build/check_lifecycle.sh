#!/bin/sh
# SPDX-License-Identifier: MIT
# Every public function that takes a device, buffer, map, view, queue or fence has a row in
# tests/lifecycle/lifecycle_table.h; every row there is of a public function, and builds with
# DEBUG=1 check it; and the page that tests/lifecycle/page makes of the table is whole.
# Run from the top of the tree; exits 1 after telling all that is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
table=tests/lifecycle/lifecycle_table.h
checks=tests/lifecycle/lifecycle_check.c
bad=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

complain()
{
	echo "check_lifecycle: $*" >&2
	bad=1
}

sh tests/lifecycle/page --entries >"$work/entries"
sh tests/lifecycle/page >"$work/page" || complain "tests/lifecycle/page failed"
# A state that the table lacks is an empty word in a cell.
! grep -n -F '****' "$work/page" >&2 || complain "a cell of $table names a state that is not there"
nouns=$(sed -n 's/^STATE|\([A-Z_]*\),.*/\1/p' "$work/entries" | sort -u)
[ "$(echo "$nouns" | wc -w)" = "$(grep -c '^| state |' "$work/page")" ] ||
	complain "the page of $table lacks the table of a noun, of: $(echo "$nouns" | tr '\n' ' ')"

# "FUNCTION PARAMETERS" of each public function.
cat include/hetmap/*.h | sed 's,/\*.*\*/,,' | tr '\n\t' '  ' | grep -o 'HM_API [^;]*;' |
	grep -v __attribute__ | sed 's/(/ ( /' >"$work/public"
function_names=$(sed -n 's/^\t\(hm_[a-z0-9_]*\);/\1/p' runtime/libhetmap.map)

# rows_for NOUN TYPE: each function with a parameter of that type has a row.
rows_for()
{
	for function in $function_names; do
		grep "[ *]$function (" "$work/public" |
			grep -q "struct $2 \*[a-z*]*[,)]\|struct $2 \*const \*" ||
			continue
		grep -q "^OP|$1, $function," "$work/entries" ||
			complain "$function takes a struct $2: $table has no row for it"
	done
}

rows_for DEVICE hm_device
rows_for BUFFER hm_buffer
rows_for MAP hm_map
rows_for SCOPE hm_scope
rows_for VIEW hm_view
rows_for DRM_VIEW hm_drm_view
rows_for QUEUE hm_queue
rows_for FENCE hm_fence
rows_for GUARD hm_guard

rows=$(sed -n 's/^OP|[A-Z_]*, \(hm_[a-z0-9_]*\),.*/\1/p' "$work/entries" | sort -u)
for function in $rows; do
	echo "$function_names" | grep -qx "$function" ||
		complain "$table has a row for $function, which is not public"
done

# Calls that no check can be for: a call without an object, or with several; with a list of
# arguments; with the result of the caller's own function; of a scope that is closed.
unchecked='hm_map_address hm_map_length hm_accel_way_in hm_pointer_find hm_pointer_query'
unchecked="$unchecked hm_copy_in hm_copy_out hm_fence_merge hm_queue_launch_list"
unchecked="$unchecked hm_load_create hm_guard_caught hm_frame_fence_add"
for entry in $rows; do
	case " $unchecked " in
	*" $entry "*) continue ;;
	esac
	grep -q "^CHECKED[A-Z_]*([A-Z_]*, $entry," "$checks" ||
		complain "$entry is in $table: $checks does not check it"
done
exit $bad
