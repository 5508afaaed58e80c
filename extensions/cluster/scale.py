#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The step of `hetmap run particles` at many ranks, by a model of measured figures.

scale.py [--set NAME=NUMBER]... [FILE]: FILE has lines "NAME NUMBER", by default
extensions/cluster/scale.measured. docs/scale.md explains the model and has what it prints.
"""
import math
import os
import sys

NAMES = (
    "latency_us",  # 8 bytes of another node
    "bandwidth_gb_s",  # 4 MiB of another node
    "progress_us",  # 8 bytes of a node whose rank computes
    "shared_us",  # 8 bytes inside a node, and a barrier there
    "particle_us",  # one particle, one step, without communication
    "ranks_per_node",
    "particles_per_rank",
    "layer_bytes",  # one layer of cells, which a neighbour reads
    "epochs",  # of a step
    "layers_read",  # of other ranks, in a step
)


def read(path):
    figures = {}
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] not in NAMES:
                sys.exit(f"scale.py: {path}:{number}: not NAME NUMBER: {line.strip()}")
            figures[words[0]] = float(words[1])
    return figures


def step(figures, ranks):
    """Microseconds of the parts of a step of one rank at the edge of its node."""
    nodes = math.ceil(ranks / figures["ranks_per_node"])
    rounds = math.ceil(math.log2(nodes)) if nodes > 1 else 0
    reads = figures["layers_read"]
    parts = {
        "compute": figures["particles_per_rank"] * figures["particle_us"],
        # Ranks of a node meet in its memory, and first ranks by a tree of messages.
        "epochs": figures["epochs"] * (figures["shared_us"] + rounds * figures["latency_us"]),
        "latency of reads": reads * (figures["latency_us"] if nodes > 1 else figures["shared_us"]),
        "bytes of reads": 0,
        "waiting for a rank that computes": 0,
    }
    if nodes > 1:
        parts["bytes of reads"] = (
            reads * figures["layer_bytes"] / figures["bandwidth_gb_s"] / 1e3
        )
        # Once a step: in an epoch the owner has ended its own work.
        parts["waiting for a rank that computes"] = max(
            0, figures["progress_us"] - figures["latency_us"]
        )
    return parts


def share(parts):
    whole = sum(parts.values())
    return (whole - parts["compute"]) / whole


def main():
    words, path = sys.argv[1:], None
    changes = {}
    while words:
        word = words.pop(0)
        if word == "--set" and words:
            name, equals, number = words.pop(0).partition("=")
            if name not in NAMES or not equals:
                sys.exit(f"scale.py: --set takes one of {', '.join(NAMES)}, and a number")
            changes[name] = float(number)
        elif word.startswith("-") or path:
            sys.exit(__doc__)
        else:
            path = word
    figures = read(path or os.path.join(os.path.dirname(__file__), "scale.measured"))
    figures.update(changes)
    missing = [name for name in NAMES if figures.get(name, 0) <= 0]
    if missing:
        sys.exit(f"scale.py: above 0 must be {', '.join(missing)}")
    print(" ranks   step ms   communication")
    for ranks in (4, 16, 64, 256, 1024):
        parts = step(figures, ranks)
        print(f"{ranks:6} {sum(parts.values()) / 1e3:9.2f} {100 * share(parts):14.1f}%")
    print(f"\nAt 1024 ranks {100 * share(parts):.1f}% (modelled), beside 17% and 6% (published)")
    for name, value in sorted(parts.items(), key=lambda part: -part[1]):
        print(f"  {name:34} {value / 1e3:9.3f} ms")
    del parts["compute"]
    print(f"First limit: {max(parts, key=parts.get)}")


if __name__ == "__main__":
    main()
