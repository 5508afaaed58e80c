#!/bin/sh
# SPDX-License-Identifier: MIT
# check_lifecycle.sh [--write]: the tables and pictures of docs/lifecycle.md are those of
# tests/lifecycle/lifecycle_table.h (--write makes them so); every public function that takes a
# device, buffer, map, view, queue or fence has a row there, and every row is of a public
# function; and every row is checked by builds with DEBUG=1.
# Run from the top of the tree; exits 1 after telling all that is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 2
table=tests/lifecycle/lifecycle_table.h
page=docs/lifecycle.md
checks=tests/lifecycle/lifecycle_check.c
bad=0
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT

complain()
{
	echo "check_lifecycle: $*" >&2
	bad=1
}

# One entry of the table a line: KIND|NOUN|then its arguments, as they are.
entries()
{
	sed 's,/\*.*\*/,,; /^\/\*/,/\*\//d' "$table" | awk '
		/^LIFECYCLE_/ { entry = "" }
		{ gsub(/^[ \t]+/, ""); entry = entry (entry == "" ? "" : " ") $0 }
		/\)$/ && entry ~ /^LIFECYCLE_/ {
			kind = entry
			sub(/\(.*/, "", kind)
			sub(/^LIFECYCLE_/, "", kind)
			sub(/^[A-Z_]*\(/, "", entry)
			sub(/\)$/, "", entry)
			print kind "|" entry
			entry = ""
		}'
}

# The part of the page for one noun.
part()
{
	awk -F '|' -v noun="$1" '
	# Takes the next argument off rest: up to a comma outside of quotes and brackets.
	function next_one(    i, c, depth, quoted, one) {
		for (i = 1; i <= length(rest); i++) {
			c = substr(rest, i, 1)
			if (c == "\"") quoted = !quoted
			else if (quoted) continue
			else if (c == "(") depth++
			else if (c == ")") depth--
			else if (c == "," && !depth) break
		}
		one = substr(rest, 1, i - 1)
		rest = substr(rest, i + 1)
		gsub(/^ +| +$/, "", one)
		gsub(/"/, "", one)
		return one
	}
	function word_of(state) {
		sub("^" noun "_", "", state)
		return word[state]
	}
	function shown(cell, inside) {
		inside = cell
		sub(/^[A-Z0-9_]*\(/, "", inside)
		sub(/\)$/, "", inside)
		if (cell == "KEEPS") return "stays"
		if (cell == "WAITS") return "waits"
		if (cell == "MAY_WAIT") return "may wait"
		if (cell == "ENDS") return "drops one"
		if (cell == "NONE") return "."
		if (cell ~ /^TO\(/) return "**" word_of(inside) "**"
		if (cell ~ /^TO_OR\(/) return "**" word_of(inside) "**, also if it fails"
		if (cell ~ /^MAY\(/) return "**" word_of(inside) "**, or stays"
		if (cell ~ /^NO\(/) return "-" inside
		if (cell ~ /^NO_TO\(/) {
			split(inside, both, /, */)
			return "-" both[1] ", **" word_of(both[2]) "**"
		}
		if (cell ~ /^FAILED\(/) {
			gsub(/^FAILED\(|\)$/, "", cell)
			return "as its work: -" cell ", ..."
		}
		if (cell ~ /^NO2\(/) {
			sub(/, */, " or -", inside)
			return "-" inside
		}
		return "stays, or -" inside
	}
	{
		kind = $1
		rest = substr($0, length(kind) + 2)
		if (next_one() != noun) next
	}
	kind == "STATE" {
		name[++n] = next_one()
		word[name[n]] = next_one()
		meaning[n] = next_one()
		next
	}
	kind == "WORLD" || kind == "OTHERS" {
		from = next_one()
		edge[++n_edge] = from " --> " next_one() " : " next_one()
		next
	}
	kind == "FAILED" {
		call = next_one()
		from = next_one()
		failed[++n_failed] = "- `" call "` of what is " word[from] ": also " word[next_one()]
		next
	}
	kind == "OP" {
		row_function = next_one()
		variant = next_one()
		capability = next_one()
		errors = next_one()
		label = "`" row_function "`" (variant == "" ? "" : " " variant)
		row = "| " label " |"
		for (i = 1; i <= n; i++) {
			cell = next_one()
			row = row " " shown(cell) " |"
			if (cell ~ /^(TO|MAY)\(/) {
				to = cell
				sub(/^[A-Z]*\(/, "", to)
				sub(/\)$/, "", to)
				sub("^" noun "_", "", to)
				call = row_function
				edge[++n_edge] = name[i] " --> " to " : " call \
					(variant == "" ? "" : " " variant)
			}
		}
		gsub(/[()]/, "", errors)
		if (errors == "0") errors = ""
		rows[++n_row] = row " " (capability == "0" ? "" : "`" capability "`") " | " errors " |"
	}
	END {
		print "| state | what it is |\n|---|---|"
		for (i = 1; i <= n; i++) print "| " word[name[i]] " | " meaning[i] " |"
		if (n_edge) {
			print "\n```mermaid\nstateDiagram-v2"
			for (i = 1; i <= n; i++) print "    state \"" word[name[i]] "\" as " name[i]
			for (i = 1; i <= n_edge; i++) {
				pair = edge[i]
				sub(/ : .*/, "", pair)
				text = edge[i]
				sub(/^[^:]* : /, "", text)
				if (!(pair in label_of)) order[++n_order] = pair
				if (index(", " label_of[pair] ", ", ", " text ", ")) continue
				label_of[pair] = label_of[pair] (label_of[pair] == "" ? "" : ", ") text
			}
			for (i = 1; i <= n_order; i++)
				print "    " order[i] " : " label_of[order[i]]
			print "```"
		}
		head = "\n| operation |"
		line = "|---|"
		for (i = 1; i <= n; i++) {
			head = head " " word[name[i]] " |"
			line = line "---|"
		}
		print head " needs | errors besides |"
		print line "---|---|"
		for (i = 1; i <= n_row; i++) print rows[i]
		if (n_failed) print "\nWhere a call that failed has changed the state all the same:\n"
		for (i = 1; i <= n_failed; i++) print failed[i]
	}' "$work/entries"
}

# The page with the tables that it should have.
page_as_it_should_be()
{
	skipping=
	while IFS= read -r line; do
		case $line in
		'<!-- end -->') skipping= ;;
		esac
		[ -n "$skipping" ] || printf '%s\n' "$line"
		case $line in
		'<!-- table: '*)
			noun=${line#'<!-- table: '}
			part "${noun%' -->'}"
			skipping=1
			;;
		esac
	done <"$page"
}

entries >"$work/entries"
page_as_it_should_be >"$work/page"
if [ "${1-}" = --write ]; then
	cp "$work/page" "$page"
elif ! cmp -s "$work/page" "$page"; then
	diff "$page" "$work/page" | head -n 20 >&2
	complain "$page is not what $table says: run tests/build/check_lifecycle.sh --write"
fi
nouns=$(sed -n 's/^STATE|\([A-Z_]*\),.*/\1/p' "$work/entries" | sort -u)
for noun in $nouns; do
	grep -q "^<!-- table: $noun -->\$" "$page" || complain "$page has no table of $noun"
done

# "FUNCTION PARAMETERS" of each public function.
cat include/hetmap/*.h | sed 's,/\*.*\*/,,' | tr '\n\t' '  ' | grep -o 'HM_API [^;]*;' |
	grep -v __attribute__ | sed 's/(/ ( /' >"$work/public"
function_names=$(sed -n 's/^\t\(hm_[a-z0-9_]*\);/\1/p' runtime/libhetmap.map)

# rows_for NOUN TYPE: each function with a parameter of that type has a row.
rows_for()
{
	for function in $function_names; do
		grep "[ *]$function (" "$work/public" | grep -q "struct $2 \*[a-z*]*[,)]\|struct $2 \*const \*" ||
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

# Those that can't be: no call by an object, or by several; or with a list of arguments; or
# one that ends with whatever its caller's function returned; or of a scope that is closed.
unchecked='hm_map_address hm_map_length hm_accel_way_in hm_pointer_find hm_pointer_query'
unchecked="$unchecked hm_copy_in hm_copy_out hm_fence_merge hm_queue_launch_list hm_load_create hm_guard_caught"
for entry in $rows; do
	case " $unchecked " in
	*" $entry "*) continue ;;
	esac
	grep -q "^CHECKED[A-Z_]*([A-Z_]*, $entry," "$checks" ||
		complain "$entry is in $table: $checks does not check it"
done
exit $bad
