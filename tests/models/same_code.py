#!/usr/bin/env python3
"""Shows that smelt's kernels compile to the same code in every process, whatever else compiles there; needs a GPU and cuDNN.

usage: same_code.py SMELT GRAPH [--work DIR]

SMELT is a command or a build folder that holds one, GRAPH a graph of examples/models in whose plan cuDNN compiles engines:
sd15_unet.fp16. Runs it at tuning level 0 with an empty cache each time: twice as it is, twice without the driver's and NVRTC's
own caches (cuDNN then compiles in that process), and once without cuDNN. The kernels that two runs have in common must be equal
byte for byte, and the outputs of all but the last bit for bit. Exit status 1 where they are not.

    tests/models/same_code.py build sd15_unet.fp16
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import time

import subjects
from same_bits import command_of, digest

COLD = {"CUDA_CACHE_DISABLE": "1"}
RUNS = {"first": ({}, []), "second": ({}, []), "cold": (COLD, []), "cold again": (COLD, []), "no cuDNN": (COLD, ["--tactics=-cudnn"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("smelt")
    parser.add_argument("graph")
    parser.add_argument("--work", default=subjects.ROOT / "build" / "same_code")
    args = parser.parse_args()
    command, work = command_of(args.smelt), pathlib.Path(args.work).resolve()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subject = subjects.subject(args.graph, work)
    outputs, kernels = {}, {}
    for name, (environment, options) in RUNS.items():
        cache, written, begin = work / "cache", work / "outputs.npz", time.time()
        shutil.rmtree(cache, ignore_errors=True)
        subprocess.run([command, "run", subject.model, "--inputs", subject.inputs[0], "--outputs", written, "--device", "gpu",
                        "--tuning-level", "0", *options], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, SMELT_CACHE_DIR=str(cache), **environment))
        outputs[name] = digest(written)
        kernels[name] = {path.name: path.read_bytes() for path in cache.rglob("*.cubin")}
        print(f"{name:12}{len(kernels[name]):4} kernels{time.time() - begin:7.1f} s", flush=True)
    failed = not all(kernels.values())
    for name in list(RUNS)[1:]:
        common = kernels["first"].keys() & kernels[name].keys()
        differ = sum(kernels["first"][key] != kernels[name][key] for key in common)
        same = outputs[name] == outputs["first"]
        failed |= differ > 0 or not common or (not same and name != "no cuDNN")
        print(f"{name:12}{differ:4} of {len(common)} kernels differ from the first run's, outputs are {'equal' if same else 'others'}")
    shutil.rmtree(work)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
