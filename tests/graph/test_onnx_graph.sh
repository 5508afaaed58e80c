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

# x and two weights come, and the sizes of three operations that are computed for real; y goes. With
# --train the weights go, too.
bytes() {
	run --json --dim N=8 "$@" "$work/net.onnx" || { cat "$work/said" && return 1; }
	python3 -c '
import json, sys
plan = json.load(open(sys.argv[1]))["policies"]["plan"]
sizes = {False: (512 + 2048 + 3 * 64, 512), True: (512 + 2048, 512 + 2048)}[bool(sys.argv[2:])]
assert (plan["bytes_in"], plan["bytes_out"]) == sizes, plan' "$work/said" "$@"
}

# A net of convolutions, whose numbers are those of the package's own evaluator. The weights are
# the command's.
computed() {
	mkdir "$work/saved" || return
	"$python" - "$work/real.onnx" <<-'END' || return
		import sys
		from onnx import TensorProto as T, helper as h, save

		def value(name, *shape):
		    return h.make_tensor_value_info(name, T.FLOAT, shape)

		def weight(name, *shape):
		    count = 1
		    for dim in shape:
		        count *= dim
		    return h.make_tensor(name, T.FLOAT, shape, [0.0] * count)

		nodes = [h.make_node("Conv", ["x", "w", "b"], ["a"], pads=[1, 2, 1, 2],
		                     strides=[2, 1],
		                     kernel_shape=[3, 3], dilations=[1, 2]),
		         h.make_node("Relu", ["a"], ["c"]),
		         h.make_node("MaxPool", ["c"], ["d"], kernel_shape=[2, 3], strides=[2, 2]),
		         h.make_node("Conv", ["d", "v"], ["e"], group=2, pads=[1, 1, 1, 1]),
		         h.make_node("Add", ["e", "d"], ["f"]),
		         h.make_node("AveragePool", ["f"], ["g"], kernel_shape=[2, 2]),
		         h.make_node("Flatten", ["g"], ["h"]),
		         h.make_node("Gemm", ["h", "m", "n"], ["i"], transB=1),
		         h.make_node("Softmax", ["i"], ["y"], axis=1)]
		weights = [weight("w", 8, 3, 3, 3), weight("b", 8), weight("v", 8, 4, 3, 3),
		           weight("m", 10, 72), weight("n", 10)]
		graph = h.make_graph(nodes, "real", [value("x", "N", 3, 15, 10)],
		                     [value("y", "N", 10)], weights)
		save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)]), sys.argv[1])
	END
	"$python" "$B/libexec/hetmap/onnx-graph" --dim N=2 -o "$work/real.json" \
		"$work/real.onnx" && run --save "$work/saved" "$work/real.json" || return
	grep -q 'for real' "$work/said" || { cat "$work/said" && return 1; }
	"$python" - "$work" <<-'END'
		import json, sys
		import numpy as np
		import onnx
		from onnx.reference import ReferenceEvaluator
		folder = sys.argv[1]
		tensors = {}
		for number, t in enumerate(json.load(open(f"{folder}/real.json"))["tensors"]):
		    if t["kind"] != "temporary":
		        data = np.fromfile(f"{folder}/saved/{number}.bin", t["type"])
		        tensors[t["name"]] = data[:int(np.prod(t["shape"]))].reshape(t["shape"])
		model = onnx.load(f"{folder}/real.onnx")
		for i, weight in enumerate(model.graph.initializer):
		    model.graph.initializer[i].CopyFrom(
		        onnx.numpy_helper.from_array(tensors[weight.name], weight.name))
		y, = ReferenceEvaluator(model).run(None, {"x": tensors["x"]})
		assert np.ptp(y) > 0.01, y
		assert np.allclose(y, tensors["y"], atol=1e-5), (y, tensors["y"])
	END
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
check computed computed
check not_there refused 'there is no' "$work/none.onnx"
printf 'no model' >"$work/text.onnx"
check no_model refused 'is not a model of ONNX' "$work/text.onnx"
finish
