#!/bin/sh
# SPDX-License-Identifier: MIT
# hetmap run graph on small graphs, written by hand, and its refusals; hetmap plan on traces.
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

explained() {
	run --accel cpu --policy plan --picture "$work/plan.json" "$work/small.json" &&
		run --accel cpu --policy plan --picture "$work/plan.html" "$work/small.json" &&
		python3 - "$work/plan.json" "$work/plan.html" <<-'END'
			import json, sys
			from html.parser import HTMLParser
			plan = json.load(open(sys.argv[1]))
			steps = plan["steps"]
			x = [s for s in steps if s.get("range") == "x"]
			assert [s["kind"] for s in x] == ["in"], x
			assert x[0]["reason"] == "one needs it", x
			come = [s["length"] for s in steps if s["kind"] == "in"]
			assert sum(come) == plan["bytes_in"] == 3700032, come
			assert [r["input"] for r in plan["ranges"]][:3] == [True, True, False]

			class Page(HTMLParser):
			    rows, pictures, text = 0, 0, ""
			    def handle_starttag(self, tag, attributes):
			        self.rows += tag == "tr"
			        self.pictures += tag == "svg"
			    def handle_data(self, text):
			        self.text += text
			page = Page()
			page.feed(open(sys.argv[2]).read())
			assert page.rows == len(steps) + 1 and page.pictures == 1, page.rows
			assert "one needs it" in page.text
		END
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

# The saxpy job measures passes with copies where the default accelerator has copies: by hand they
# cost each time.
learned_saxpy() {
	HETMAP_TRACE=$work/trace.json "$hetmap" run saxpy --quiet --size 1M --device host \
		>"$work/said" 2>&1 || { cat "$work/said" && return 1; }
	"$hetmap" plan learn -o "$work/saxpy.json" "$work/trace.json" 2>"$work/said" || return
	"$hetmap" plan try --json "$work/saxpy.json" >"$work/tried" || return
	python3 - "$work/trace.json" "$work/tried" <<-'END' || return
		import json, sys
		events = json.load(open(sys.argv[1]))
		tried = json.load(open(sys.argv[2]))
		launches = [e["args"] for e in events if e.get("cat") == "launch"]
		for way in "bytes_in", "bytes_out":
		    assert tried["by_hand"][way] == sum(e.get(way, 0) for e in launches), tried
		assert tried["launches"] * 2 == len(launches), tried
		# x and y come once, and y goes home once.
		assert tried["plan"]["bytes_in"] == 2 << 20, tried
		assert tried["plan"]["bytes_out"] == 1 << 20, tried
	END
	# The learned graph is one to run.
	run --accel cpu --policy plan "$work/saxpy.json" || { cat "$work/said" && return 1; }
}

# line NAME CATEGORY PHASE ARGS
line() {
	time=$((time + 1))
	printf '{"name":"%s","cat":"%s","ph":"%s","ts":%s,"id":"f","args":{%s}},\n' "$1" "$2" \
		"$3" "$time" "$4"
}

launch() {
	line add launch b "\"bytes_in\":$1,\"arguments\":[$2]"
	line add launch e "\"status\":$3,\"bytes_out\":$4"
}

# Buffer a is of the host, v of a device. The trace has no end, as that of a killed program.
made_trace() {
	time=0
	x='["0x10000",4096,"read"]' y='["0x20000",4096,"read write"]'
	echo '['
	line map map X '"buffer":"a","device":"host","address":"0x10000","length":65536'
	line map map X '"buffer":"b","device":"host","address":"0x20000","length":65536'
	line map map X '"buffer":"v","device":"soft:0","address":"0x90000","length":4096'
	launch 8192 "$x,$y" 0 4096
	launch 8192 "$x,$y" -5 0
	launch 8192 "$x,$y" 0 4096
	line bracket bracket b "$1"
	line copy launch b \
		'"bytes_in":0,"arguments":[["0x90000",4096,"write"],["0x18000",4096,"read"]]'
	line copy launch e '"status":0,"bytes_out":0'
	launch 4096 "[\"0x90000\",4096,\"read\"],$y" 0 4096
}

# made BRACKET TEXT: a plan of the made trace, one value a line
made() {
	made_trace "$1" >"$work/made.json"
	"$hetmap" plan try --json "$work/made.json" >"$work/tried" || return
	said=$(python3 -c '
import json, sys
t = json.load(open(sys.argv[1]))
print(t["launches"], t["ranges"], *t["by_hand"].values(), *t["plan"].values())' "$work/tried")
	[ "${said% * *}" = "$2" ] && return
	echo "$said"
	return 1
}

# a comes, y comes, v comes; y goes. By hand: two launches and a third, and a copy.
made_no_bracket() {
	made '"address":"0x2f000","length":16,"access":"write"' '3 3 24576 12288 12288 4096'
}

# The CPU changes y between: it goes, comes again and goes again.
made_bracket() {
	made '"address":"0x20010","length":16,"access":"write"' '3 4 24576 12288 16384 8192'
}

# The CPU reads x, which no node writes: it need not come again.
made_bracket_of_input() {
	made '"address":"0x10010","length":16,"access":"read"' '3 3 24576 12288 12288 4096'
}

# Each case of the extension measures, and its outputs are right.
benches() {
	for case in graph_transfer graph_overlap plan_compile plan_launch; do
		if ! "$hetmap" bench --short --rounds 2 "$case" >"$work/said" 2>&1 ||
			! grep -q "^$case: " "$work/said"; then
			cat "$work/said"
			return 1
		fi
		grep -q 'skipped' "$work/said" && cat "$work/said" && return 1
	done
	"$hetmap" bench --list | grep -q 'Of the package hetmap-plan'
}

# plan_refused TEXT ARGUMENT...
plan_refused() {
	text=$1
	shift
	"$hetmap" plan "$@" >"$work/said" 2>&1
	[ $? = 2 ] && grep -q -- "$text" "$work/said" && return
	cat "$work/said"
	return 1
}

check policies_on_cpu three_policies cpu
check policies_on_soft three_policies soft:0
check budget budget
check picture picture
check explained explained
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
check benches benches
check learned_saxpy learned_saxpy
check made_no_bracket made_no_bracket
check made_bracket made_bracket
check made_bracket_of_input made_bracket_of_input
printf '[\n{"name":"k","cat":"launch","ph":"b","ts":1,"id":"f","args":{"bytes_in":0}},\n' \
	>"$work/old.json"
printf '[\n]\n' >"$work/empty.json"
check trace_without_ranges plan_refused 'line 2' try "$work/old.json"
check trace_of_nothing plan_refused 'no launch' try "$work/empty.json"
check graph_of_model plan_refused 'nor learned' try "$work/small.json"
check no_trace plan_refused 'is no trace' learn "$work/small.json"
check no_word plan_refused 'learn or try' look
finish
