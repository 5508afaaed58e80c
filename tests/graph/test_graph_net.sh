#!/bin/sh
# SPDX-License-Identifier: MIT
# hetmap run graph computes small nets of convolutions for real: compared with plain loops here.
set -u

suite=graph_net
# shellcheck source=tests/lib.sh
. tests/lib.sh
B=${HETMAP_BUILD:-$PWD/build}
work=$(mktemp -d) || exit 3
trap 'rm -rf "$work"' EXIT

# net.json has each operation; other.json has one that is not known; long.json has a Conv whose
# output is larger than its window makes it; large.json has more products than are computed.
make_nets() {
	python3 - "$work" <<-'END'
	import json, sys
	tensors, nodes, index = [], [], {}

	def tensor(name, kind, *shape):
	    count = 1
	    for dim in shape:
	        count *= dim
	    index[name] = len(tensors)
	    tensors.append({"name": name, "kind": kind, "type": "float32", "shape": shape,
	                    "bytes": 4 * count})

	def node(op, inputs, output, shape, kind="temporary", **attributes):
	    tensor(output, kind, *shape)
	    inputs = [index[i] if i else -1 for i in inputs]
	    nodes.append({"name": f"{op} {output}", "op": op, "inputs": inputs,
	                  "reads": list(dict.fromkeys(i for i in inputs if i >= 0)),
	                  "writes": [index[output]], "attributes": attributes})

	tensor("x", "input", 2, 3, 17, 19)
	for name, *shape in (("w1", 6, 3, 3, 5), ("b1", 6), ("w2", 6, 3, 3, 3), ("w3", 8, 6, 1, 1),
	                     ("b3", 8), ("g1", 32, 21), ("c1", 1, 21), ("g2", 10, 21)):
	    tensor(name, "weight", *shape)
	node("Conv", ["x", "w1", "b1"], "a", (2, 6, 17, 10), pads=[1, 2, 1, 2], strides=[1, 2],
	     kernel_shape=[3, 5])
	node("Relu", ["a"], "b", (2, 6, 17, 10))
	node("Conv", ["b", "w2"], "c", (2, 6, 17, 10), pads=[2, 2, 2, 2], dilations=[2, 2],
	     group=2)
	node("Add", ["c", "b"], "d", (2, 6, 17, 10))
	node("MaxPool", ["d"], "e", (2, 6, 9, 5), kernel_shape=[3, 2], strides=[2, 2],
	     pads=[1, 0, 1, 0])
	node("AveragePool", ["e"], "f", (2, 6, 5, 3), kernel_shape=[3, 3], strides=[2, 2],
	     pads=[1, 1, 1, 1], count_include_pad=0)
	node("Conv", ["f", "w3", "b3"], "g", (2, 8, 5, 3))
	node("AveragePool", ["g"], "h", (2, 8, 2, 2), kernel_shape=[2, 2], strides=[3, 1],
	     pads=[0, 0, 0, 0], count_include_pad=1)
	node("GlobalAveragePool", ["g"], "mean", (2, 8, 1, 1), "output")
	node("Reshape", ["h"], "i", (2, 32))
	node("Dropout", ["i"], "j", (2, 32))
	node("Gemm", ["j", "g1", "c1"], "k", (2, 21))
	node("Gemm", ["k", "g2", ""], "l", (2, 10), transB=1)
	node("Softmax", ["l"], "y", (2, 10), "output")

	def write(name):
	    with open(f"{sys.argv[1]}/{name}.json", "w") as file:
	        json.dump({"format": "hetmap-graph", "version": 1, "name": name,
	                   "tensors": tensors, "nodes": nodes}, file)
	write("net")
	nodes[1]["op"] = "Twirl"
	write("other")
	nodes[1]["op"] = "Relu"
	nodes[0]["attributes"]["strides"] = [1, 3]
	write("long")
	tensors, nodes, index = [], [], {}
	tensor("x", "input", 1, 64, 64, 64)
	tensor("w", "weight", 64, 64, 5, 5)
	node("Conv", ["x", "w"], "y", (1, 64, 64, 64), "output", pads=[2, 2, 2, 2])
	write("large")
	END
}

# The numbers of the outputs by sums in double precision, from the inputs that were saved.
compare() {
	python3 - "$work/net.json" "$1" <<-'END'
	import array, json, math, sys
	graph = json.load(open(sys.argv[1]))
	shape = [t["shape"] for t in graph["tensors"]]
	value = {}

	def load(number):
	    data = array.array("f", open(f"{sys.argv[2]}/{number}.bin", "rb").read())
	    size = math.prod(shape[number])
	    assert not any(data[size:])
	    return list(data[:size])

	def window(node, x, out, lengths, number):
	    """number(n, channel, [(position in the window, row, column)]) of each output"""
	    a = node["attributes"]
	    s, d = a.get("strides", [1, 1]), a.get("dilations", [1, 1])
	    p = a.get("pads", [0, 0, 0, 0])
	    result = []
	    for n in range(out[0]):
	        for c in range(out[1]):
	            for row in range(out[2]):
	                for column in range(out[3]):
	                    places = [(i * lengths[1] + j, row * s[0] + i * d[0] - p[0],
	                               column * s[1] + j * d[1] - p[1])
	                              for i in range(lengths[0]) for j in range(lengths[1])]
	                    places = [q for q in places if 0 <= q[1] < x[2] and 0 <= q[2] < x[3]]
	                    result.append(number(n, c, places))
	    return result

	def conv(node, x, w, b=None):
	    xs, ws, out = shape[x], shape[w], shape[node["writes"][0]]
	    group = out[1] // node["attributes"].get("group", 1)
	    def number(n, c, places):
	        total = value[b][c] if b is not None else 0.0
	        for k in range(ws[1]):
	            plane = (n * xs[1] + c // group * ws[1] + k) * xs[2] * xs[3]
	            part = (c * ws[1] + k) * ws[2] * ws[3]
	            for q, row, column in places:
	                total += value[x][plane + row * xs[3] + column] * value[w][part + q]
	        return total
	    return window(node, xs, out, ws[2:], number)

	def pool(node, x):
	    xs, a = shape[x], node["attributes"]
	    lengths = a.get("kernel_shape", xs[2:])
	    def number(n, c, places):
	        plane = (n * xs[1] + c) * xs[2] * xs[3]
	        seen = [value[x][plane + r * xs[3] + k] for _, r, k in places]
	        if node["op"] == "MaxPool":
	            return max(seen)
	        return sum(seen) / (math.prod(lengths) if a.get("count_include_pad") else len(seen))
	    return window(node, xs, shape[node["writes"][0]], lengths, number)

	def gemm(node, x, w, b=None):
	    rows, columns = shape[node["writes"][0]]
	    k = shape[x][1]
	    across = node["attributes"].get("transB")
	    return [sum(value[x][r * k + i] * value[w][c * k + i if across else i * columns + c]
	                for i in range(k)) + (value[b][c] if b is not None else 0)
	            for r in range(rows) for c in range(columns)]

	def softmax(node, x):
	    n, result = shape[x][1], []
	    for r in range(shape[x][0]):
	        powers = [math.exp(v) for v in value[x][r * n:r * n + n]]
	        result += [v / sum(powers) for v in powers]
	    return result

	operations = {
	    "Conv": conv, "Gemm": gemm, "Softmax": softmax, "MaxPool": pool, "AveragePool": pool,
	    "GlobalAveragePool": pool, "Reshape": lambda _, x: value[x],
	    "Dropout": lambda _, x: value[x], "Relu": lambda _, x: [max(v, 0) for v in value[x]],
	    "Add": lambda _, x, y: [a + b for a, b in zip(value[x], value[y])]}
	for number, tensor in enumerate(graph["tensors"]):
	    if tensor["kind"] in ("input", "weight"):
	        value[number] = load(number)
	for node in graph["nodes"]:
	    inputs = [i for i in node["inputs"] if i >= 0]
	    value[node["writes"][0]] = operations[node["op"]](node, *inputs)
	for number, tensor in enumerate(graph["tensors"]):
	    if tensor["kind"] != "output":
	        continue
	    data = load(number)
	    assert max(data) - min(data) > 0.01, (tensor["name"], data)
	    for at, (a, b) in enumerate(zip(data, value[number], strict=True)):
	        assert abs(a - b) < 1e-5, (tensor["name"], at, a, b)
	END
}

run() {
	"$B/hetmap" run graph --quiet "$@" >"$work/said" 2>&1 || { cat "$work/said" && return 1; }
}

# real ACCELERATOR POLICY ARGUMENT...
real() {
	accel=$1 policy=$2
	shift 2
	rm -rf "$work/saved" && mkdir "$work/saved" || return
	run --accel "$accel" --policy "$policy" --save "$work/saved" "$@" "$work/net.json" ||
		return
	grep -q 'for real' "$work/said" || { cat "$work/said" && return 1; }
	compare "$work/saved"
}

three() {
	real "$1" plan && real "$1" up-front && real "$1" per-op
}

# Tensors leave and come back, and others move.
budget() {
	"$B/hetmap" run graph --quiet --accel "$1" --policy plan --budget 1K "$work/net.json" \
		>"$work/said" 2>&1 && return 1
	smallest=$(sed -n 's/.*alone needs \([0-9]*\).*/\1/p' "$work/said")
	real "$1" plan --budget "$smallest"
}

light() {
	run --accel cpu "$work/$1.json" && grep -q 'light' "$work/said"
}

no_folder() {
	"$B/hetmap" run graph --quiet --accel cpu --save "$work/none" "$work/net.json" \
		>"$work/said" 2>&1
	[ $? = 2 ] && grep -q 'cannot write 0.bin' "$work/said"
}

make_nets || exit 3
check cpu three cpu
check soft three soft:0
check budget_of_cpu budget cpu
check budget_of_soft budget soft:0
if "$B/hetmap" run graph --quiet --accel opencl:0 "$work/net.json" >"$work/said" 2>&1; then
	check opencl three opencl:0
elif grep -q 'cannot open the accelerator' "$work/said"; then
	skip opencl opencl "no OpenCL here"
else
	check opencl three opencl:0
fi
check unknown_operation light other
check another_size light long
check too_large light large
check no_folder no_folder
finish
