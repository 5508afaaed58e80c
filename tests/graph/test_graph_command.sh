#!/bin/sh
# SPDX-License-Identifier: MIT
# hetmap run graph on small graphs, written by hand, and its refusals; tools/graph on a model where
# the onnx package is installed.
set -u

suite=graph_command
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
hetmap=$B/hetmap

# tensor NAME KIND BYTES
tensor() {
	printf '{"name":"%s","kind":"%s","bytes":%s}' "$1" "$2" "$3"
}

# node NAME READS WRITES
node() {
	printf '{"name":"%s","reads":[%s],"writes":[%s]}' "$1" "$2" "$3"
}

# A small net: two layers, a sum of a long tensor into a short one, and an update in place.
{
	printf '{"format":"hetmap-graph","version":1,"name":"small","train":true,"tensors":['
	tensor x input 3000000 && printf ,
	tensor w state 700000 && printf ,
	tensor a temporary 3000000 && printf ,
	tensor b temporary 1500000 && printf ,
	tensor loss output 4 && printf ,
	tensor g temporary 700000
	printf '],"nodes":['
	node one 0,1 2 && printf ,
	node two 2 3 && printf ,
	node sum 3 4 && printf ,
	node back 2,4 5 && printf ,
	node update 1,5 1
	printf ']}'
} >"$work/small.json"

# run ARGUMENT...: what it printed is in $work/said
run() {
	"$hetmap" run graph --quiet "$@" >"$work/said" 2>&1
}

three_policies() {
	run --accel "$1" --json "$work/small.json" || { cat "$work/said" && return 1; }
	python3 - "$work/said" <<-'END'
		import json, sys
		said = json.load(open(sys.argv[1]))
		plan, up, per = (said["policies"][p] for p in ("plan", "up-front", "per-op"))
		assert said["verified"] is True
		# x and w come, w and the loss go: lengths are whole cache lines.
		assert plan["bytes_in"] == 3000000 + 700032, plan
		assert plan["bytes_out"] == 700032 + 64, plan
		assert plan["peak"] < up["peak"]
		assert up["bytes_in"] > plan["bytes_in"] < per["bytes_in"]
	END
}

budget() {
	run --accel cpu --policy plan --budget 1K "$work/small.json"
	[ $? = 2 ] || return 1
	grep -q 'that is the smallest budget' "$work/said" || return
	smallest=$(sed -n 's/.*alone needs \([0-9]*\).*/\1/p' "$work/said")
	run --accel cpu --policy plan --budget "$smallest" "$work/small.json" &&
		! run --accel cpu --policy plan --budget $((smallest - 1)) "$work/small.json"
}

picture() {
	run --accel cpu --policy plan --picture "$work/plan.svg" "$work/small.json" &&
		python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
			"$work/plan.svg" &&
		grep -q '<title>x, 2.9 MiB</title>' "$work/plan.svg"
}

# refused STATUS TEXT ARGUMENT...
refused() {
	status=$1 text=$2
	shift 2
	run "$@"
	is=$?
	[ "$is" = "$status" ] && grep -q -- "$text" "$work/said" && return
	echo "status $is:"
	cat "$work/said"
	return 1
}

# Without the package of Python, the remedy is told.
no_onnx() {
	printf '#!/bin/sh\nshift\nexec python3 -I -S "%s" "$@"\n' "$B/libexec/hetmap/onnx-graph" \
		>"$work/python" && chmod +x "$work/python" || return
	HETMAP_PYTHON=$work/python refused 3 'pip install onnx' model.onnx &&
		HETMAP_PYTHON=$work/none refused 3 'HETMAP_PYTHON' model.onnx
}

not_there() {
	mkdir "$work/alone" && cp "$hetmap" "$work/alone/hetmap" || return
	"$work/alone/hetmap" run graph "$work/small.json" >"$work/said" 2>&1
	[ $? = 3 ] && grep -q 'install the package hetmap-plan' "$work/said"
}

help() {
	"$hetmap" run graph --help >"$work/said" &&
		grep -q 'Usage: hetmap run graph' "$work/said" &&
		! awk 'length > 90 { print; long = 1 } END { exit !long }' "$work/said"
}

check policies_on_cpu three_policies cpu
check policies_on_soft three_policies soft:0
check budget budget
check picture picture
printf '{"format":"other"}' >"$work/other.json"
printf '{' >"$work/broken.json"
sed 's/"reads":\[2\]/"reads":[99]/' "$work/small.json" >"$work/far.json"
sed 's/"reads":\[0,1\]/"reads":[5]/' "$work/small.json" >"$work/undefined.json"
check other_json refused 2 'no hetmap-graph' "$work/other.json"
check broken_json refused 2 'broken.json' "$work/broken.json"
check unknown_tensor refused 2 'does not exist' "$work/far.json"
check undefined_bytes refused 2 'node one reads range g' "$work/undefined.json"
check missing_file refused 2 'cannot open' "$work/none.json"
check no_file refused 2 'needs a model'
check unknown_policy refused 2 'up-front' --policy best "$work/small.json"
check train_of_json refused 2 'tools/graph' --train "$work/small.json"
check no_onnx no_onnx
check not_there not_there
check help help
finish
