#!/bin/sh
# SPDX-License-Identifier: MIT
# hetmap run graph on models of ONNX, made here by the onnx package of HETMAP_PYTHON.
set -u

suite=onnx_graph
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT
python=${HETMAP_PYTHON:-python3}

# Two products and a Relu between them. x has the dimension N, "outside" its weights in a file that
# is not there, "foreign" an operation that the package knows no shape of, and "branch" an If.
make_models() {
	"$python" - "$work" <<-'END'
		import sys
		from onnx import TensorProto as T, helper as h, save
		folder = sys.argv[1]

		def value(name, *shape):
		    return h.make_tensor_value_info(name, T.FLOAT, shape)

		def weight(name, outside):
		    if not outside:
		        return h.make_tensor(name, T.FLOAT, [16, 16], [0.5] * 256)
		    tensor = T(name=name, data_type=T.FLOAT, dims=[16, 16])
		    tensor.data_location = T.EXTERNAL
		    tensor.external_data.add(key="location", value="none.bin")
		    return tensor

		def model(name, nodes, outside=False, domains=()):
		    graph = h.make_graph(nodes, name, [value("x", "N", 16)], [value("y", "N", 16)],
		                         [weight("w", outside), weight("v", outside)])
		    opsets = [h.make_opsetid(d, 1 if d else 17) for d in ("", *domains)]
		    save(h.make_model(graph, opset_imports=opsets), f"{folder}/{name}.onnx")

		def net(middle):
		    return [h.make_node("MatMul", ["x", "w"], ["a"], "first"), middle,
		            h.make_node("MatMul", ["b", "v"], ["y"], "last")]

		relu = h.make_node("Relu", ["a"], ["b"], "middle")
		model("net", net(relu))
		model("outside", net(relu), True)
		model("foreign", net(h.make_node("Twirl", ["a"], ["b"], "middle", domain="own")),
		      domains=["own"])
		model("sinus", net(h.make_node("Sin", ["a"], ["b"], "middle")))
		then = h.make_graph([relu], "then", [], [value("b", "N", 16)])
		model("branch", [h.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
		                 h.make_node("Cast", ["m"], ["c"], to=T.BOOL),
		                 h.make_node("MatMul", ["x", "w"], ["a"], "first"),
		                 h.make_node("If", ["c"], ["b"], "middle", then_branch=then,
		                             else_branch=then),
		                 h.make_node("MatMul", ["b", "v"], ["y"], "last")])
	END
}

run() {
	"$B/hetmap" run graph --quiet --accel cpu "$@" >"$work/said" 2>&1
}

# refused TEXT ARGUMENT...
refused() {
	text=$1
	shift
	run "$@"
	is=$?
	[ "$is" = 2 ] && grep -q -- "$text" "$work/said" && return
	echo "status $is:"
	cat "$work/said"
	return 1
}

runs() {
	run "$@" && grep -q 'verified  ' "$work/said" && return
	cat "$work/said"
	return 1
}

# x and two weights come, y goes; with --train the weights go, too.
bytes() {
	run --json --dim N=8 "$@" "$work/net.onnx" || { cat "$work/said" && return 1; }
	python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))["policies"]["plan"]
sizes = {False: (512 + 2048, 512), True: (512 + 2048, 512 + 2048)}[bool(sys.argv[2:])]
assert (plan["bytes_in"], plan["bytes_out"]) == sizes, plan' "$work/said" "$@"
}

if ! "$python" -c 'import onnx' 2>/dev/null; then
	skip network all "no package onnx in $python: name a Python that has it by HETMAP_PYTHON"
	finish
fi
make_models || exit 3
check dynamic_dimension refused 'dimension N: give it a size by --dim N=8' "$work/net.onnx"
check no_number refused 'is not NAME=NUMBER' --dim N=none "$work/net.onnx"
check dimension_given runs --dim N=8 "$work/net.onnx"
check bytes bytes
check bytes_of_a_step bytes --train
check weights_elsewhere runs --dim N=8 "$work/outside.onnx"
check unknown_shape refused 'the operation is not known' --dim N=8 "$work/foreign.onnx"
check no_rule_backward refused 'no rule for the operation Sin' --dim N=8 --train "$work/sinus.onnx"
check forward_alone runs --dim N=8 "$work/sinus.onnx"
check control_flow refused 'has a graph of its own' --dim N=8 "$work/branch.onnx"
check not_there refused 'there is no' "$work/none.onnx"
printf 'no model' >"$work/text.onnx"
check no_model refused 'is not a model of ONNX' "$work/text.onnx"
finish
