"""Products by weights of 4 or 8 bits on the CPU (MatMulNBits): smelt over ONNX Runtime, both at accuracy_level 0 and 4.

usage: PYTHONPATH=build/python .venv/bin/python bench/four_bits.py [--rounds N] [--seconds S] [--threads N] [--bits 4|8]
                     [--tuning-level L] [--folder F] [--out FILE]

A model is the products of decoder layers, one behind the other, without what lies between them: two layers of hidden size 2048
(2048 and 5632 wide), in blocks of 32 with zero points, or of 128 without. Rows: 1 (a token) and 128 (a prompt). Engines
run in processes of their own, in turn (user_models.py); a row gives the lowest median of a batch of each engine, and the
largest difference from ONNX Runtime at level 0 over the largest value. At level 4 both round the rows to 8 bits. MB:
memory of smelt's process at level 0 after the first run that maps no file, less that before the session.
"""
import argparse
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import shared
import user_models
from onnx import TensorProto, helper, numpy_helper

LAYER = ((2048, 2048), (2048, 2048), (2048, 5632), (5632, 2048))    # [K, N]

MEMORY = """
import sys
import numpy as np
import smelt
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
before = anonymous()
session = smelt.Session(sys.argv[1], threads=2, tuning_level=0)
session.run(None, dict(np.load(sys.argv[2])))
print((anonymous() - before) >> 10)
"""


def model_of(path, rows, block, zeros, level, bits, layers=2):
    random = np.random.default_rng(1)
    nodes, constants, at = [], [], "x"
    for i, (k, n) in enumerate(LAYER * layers):
        blocks = k // block
        parts = [("w", random.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)),
                 ("s", (random.random((n, blocks)) * 0.3 / np.sqrt(k)).astype(np.float32))]
        if zeros:
            low, high = (0x77, 0x88) if bits == 4 else (120, 136)
            parts.append(("z", random.integers(low, high, (n, (blocks * bits + 7) // 8)).astype(np.uint8)))
        constants += [numpy_helper.from_array(t, f"{name}{i}") for name, t in parts]
        nodes.append(helper.make_node("MatMulNBits", [at, *(f"{name}{i}" for name, _ in parts)], [f"y{i}"], f"product{i}",
                                      domain="com.microsoft", K=k, N=n, bits=bits, block_size=block, accuracy_level=level))
        at = f"y{i}"
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [rows, LAYER[0][0]])],
                              [value(at, TensorProto.FLOAT, [rows, LAYER[-1][1]])], constants)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 21),
                                                                    helper.make_opsetid("com.microsoft", 1)]), path)
    np.savez(path.with_suffix(".inputs.npz"), x=random.standard_normal((rows, LAYER[0][0])).astype(np.float32))
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bits", type=int, default=4, choices=(4, 8))
    parser.add_argument("--tuning-level", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("four_bits"))
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    lines = [f"# {shared.cpu_name()}, {args.threads} threads, commit {shared.commit()}; {' '.join(sys.argv)}",
             f"{'model':24} {'smelt 0':>9} {'ORT 0':>9} {'ratio':>7} {'error':>8} {'smelt 4':>9} {'ORT 4':>9} {'ratio':>7} "
             f"{'error':>8} {'of ORT':>8} {'MB':>5}"]
    print("\n".join(lines), flush=True)
    for block, zeros in ((32, True), (128, False)):
        for rows in (1, 128):
            models = [model_of(args.folder / f"b{block}.r{rows}.l{level}.onnx", rows, block, zeros, level, args.bits)
                      for level in (0, 4)]
            engines = [user_models.Engine(name, m, args, f"{name}.{i}") for i, m in enumerate(models)
                       for name in ("smelt", "onnxruntime")]
            for _ in range(args.rounds):
                for engine in engines:
                    engine.batch(args.seconds)
                engines.reverse()
            ms = {e.name: e.ms() for e in engines}
            found = {e.name: e.outputs() for e in engines}
            for e in engines:
                e.end()
            memory = subprocess.run([sys.executable, "-c", MEMORY, models[0], models[0].with_suffix(".inputs.npz")], check=True,
                                    capture_output=True, text=True).stdout.strip()
            name = f"{rows} rows, {args.bits} bits / {block}"
            lines.append(f"{name:24}")
            for i in (0, 1):
                own, other = f"smelt.{i}", f"onnxruntime.{i}"
                errors = [user_models.error(found[e], found["onnxruntime.0"]) for e in (own, other)[:i + 1]]
                lines[-1] += f" {ms[own]:9.3f} {ms[other]:9.3f} {ms[own] / ms[other]:7.3f}"
                lines[-1] += "".join(f" {e:8.1e}" for e in errors)
            lines[-1] += f" {memory:>5}"
            print(lines[-1], flush=True)
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
