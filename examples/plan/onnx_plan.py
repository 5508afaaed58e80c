#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A graph of ONNX becomes a plan: onnx_plan.py [MODEL.onnx]; without one, a small net is made.

Its nodes compute by numpy in the plan's memory, and the outputs are compared with numpy's own.
It needs libhetmap-plan, numpy and onnx. A graph of torch.fx has the same parts: for each node of
graph.nodes the names of node.all_input_nodes, and the shape in node.meta["tensor_meta"].
"""
import ctypes as c
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPS = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract, "MatMul": np.matmul,
       "Relu": lambda x: np.maximum(x, 0)}
READ, WRITE, INPUT, OUTPUT, COPY = 1, 2, 1, 2, 1
U32, U64, POINTER = c.c_uint32, c.c_uint64, c.c_void_p


def struct(*fields):
    return type("Struct", (c.Structure,), {"_fields_": list(fields)})


ARG = struct(("kind", c.c_uint8), ("access", c.c_uint8), ("type", c.c_uint16), ("bytes", U32),
             ("pointer", POINTER), ("rest", U64), ("length", U64))
PLAN_ARG = struct(("range", U32), ("access", U32), ("value", ARG))
RANGE = struct(("size", U32), ("flags", U32), ("name", c.c_char_p), ("home", POINTER),
               ("length", U64), ("parent", U32), ("reserved", U32), ("offset", U64))
NODE = struct(("size", U32), ("flags", U32), ("name", c.c_char_p), ("kernel", POINTER),
              ("call", POINTER), ("user", POINTER), ("grid", U64 * 3), ("args", POINTER),
              ("after", POINTER), ("n_arg", U32), ("n_after", U32))
OPTIONS = struct(("size", U32), ("flags", U32), ("policy", U32), ("reserved", U32),
                 ("budget", U64), ("device", POINTER))
CALL = c.CFUNCTYPE(c.c_int, POINTER, c.POINTER(ARG), U32, POINTER, POINTER)

core = c.CDLL("libhetmap.so.0", mode=c.RTLD_GLOBAL)
plan_library = c.CDLL("libhetmap-plan.so.0")
core.hm_errmsg.restype = c.c_char_p


def call(name, *args, out=POINTER):
    """Calls a function of the library, whose last parameter is a result unless out is None."""
    function = getattr(plan_library if name.split("_")[1] in ("plan", "run") else core, name)
    result = out() if out else None
    if function(*args, *([c.byref(result)] if out else [])):
        sys.exit(core.hm_errmsg().decode())
    return result


def small_net():
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal(shape, dtype="float32"), name)
               for name, shape in (("w1", (64, 128)), ("b1", (128,)), ("w2", (128, 10)))]
    nodes = [helper.make_node("MatMul", ["x", "w1"], ["a"]),
             helper.make_node("Add", ["a", "b1"], ["b"]),
             helper.make_node("Relu", ["b"], ["h"]),
             helper.make_node("MatMul", ["h", "w2"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
            for n, s in (("x", (32, 64)), ("y", (32, 10))))
    return helper.make_model(helper.make_graph(nodes, "small net", [x], [y], weights))


model = onnx.load(sys.argv[1]) if len(sys.argv) > 1 else small_net()
graph = onnx.shape_inference.infer_shapes(model).graph
weights = {w.name: np.ascontiguousarray(numpy_helper.to_array(w)) for w in graph.initializer}
shapes = {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
          for v in [*graph.input, *graph.value_info, *graph.output]}
shapes.update({name: w.shape for name, w in weights.items()})
outputs = {v.name: np.zeros(shapes[v.name], "float32") for v in graph.output}
inputs = {v.name: np.random.default_rng(0).standard_normal(shapes[v.name], dtype="float32")
          for v in graph.input if v.name not in weights}
homes = {**weights, **inputs, **outputs}

plan = call("hm_plan_create", 0)
ranges = {}
for name, shape in shapes.items():
    home = homes[name].ctypes.data if name in homes else None
    flags = OUTPUT if name in outputs else INPUT if home else 0
    desc = RANGE(c.sizeof(RANGE), flags, name.encode(), home, 4 * int(np.prod(shape)), 0, 0, 0)
    ranges[name] = call("hm_plan_range", plan, c.byref(desc), out=U32)

expected = {**weights, **inputs}
keep = []  # the library keeps pointers to the functions
for i, node in enumerate(graph.node):
    if node.op_type not in OPS:
        sys.exit(f"node {node.name or i}: this example has no {node.op_type}")
    names = [*node.input, *node.output]

    def compute(_queue, args, _n, _user, _fence, op=OPS[node.op_type], names=names):
        """In the plan's memory: the arguments are pointers there."""
        views = [np.ctypeslib.as_array(c.cast(args[k].pointer, c.POINTER(c.c_float)),
                                       shapes[name]) for k, name in enumerate(names)]
        views[-1][...] = op(*views[:-1])
        return 0

    args = (PLAN_ARG * len(names))(*[
        PLAN_ARG(ranges[n], READ if n in node.input else WRITE, ARG()) for n in names])
    keep.append(CALL(compute))
    desc = NODE(c.sizeof(NODE), 0, f"{node.op_type} {i}".encode(), None,
                c.cast(keep[-1], POINTER), None, (U64 * 3)(), c.cast(args, POINTER), None,
                len(names), 0)
    call("hm_plan_node", plan, c.byref(desc), None, out=None)
    expected[names[-1]] = OPS[node.op_type](*[expected[n] for n in node.input])

accel = call("hm_accel_open", b"cpu", None)
options = OPTIONS(c.sizeof(OPTIONS), COPY, 0, 0, 0, None)
schedule = call("hm_plan_compile", plan, accel, c.byref(options))
text = call("hm_plan_explain", schedule, 0, out=c.c_char_p)
print(text.value.decode())
run = call("hm_plan_run", schedule, None, 0)
call("hm_run_wait", run, U64(2**64 - 1), out=None)
for name, y in outputs.items():
    if not np.allclose(y, expected[name], rtol=1e-5, atol=1e-5):
        sys.exit(f"output {name} differs")
    print(f"verified    {name} is numpy's own")
