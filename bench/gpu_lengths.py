"""What a new length of a cache costs on a GPU: llama7b_decode (two layers, f16), its caches grown in place, token after token.

usage: python bench/gpu_lengths.py [--model FILE] [--first 129] [--tokens 128] [--batch 2]       (needs PyTorch with CUDA)

The weights are zeros: only times are looked at. A line a length: milliseconds of the first run at it until the call returned and
until its result was there, then the least of 5 more runs at it.
"""
import argparse
import pathlib
import shutil
import statistics
import tempfile
import time

import onnx
import shared
import smelt
import torch


def with_zeros(path, folder):
    """A copy of a graph in `folder`, its external weights a sparse file of zeros. Returns the copy's path."""
    sizes = {}
    for t in onnx.load(path, load_external_data=False).graph.initializer:
        where = {e.key: e.value for e in t.external_data}
        if where:
            end = int(where["offset"]) + int(where["length"])
            sizes[where["location"]] = max(sizes.get(where["location"], 0), end)
    for name, size in sizes.items():
        with open(folder / name, "wb") as file:
            file.truncate(size)
    return shutil.copy(path, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=shared.MODELS / "llama7b_decode.dyn.fp16.onnx",
                        help="a graph with the inputs ids, pos and past_*, and the output logits")
    parser.add_argument("--first", type=int, default=129, help="the first length of the past")
    parser.add_argument("--tokens", type=int, default=128, help="how many lengths")
    parser.add_argument("--batch", type=int, default=2)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="smelt-") as folder:
        session = smelt.Session(with_zeros(a.model, pathlib.Path(folder)), device="gpu", tune_new_shapes=True)
    caches = {i.name: torch.zeros(a.batch, i.shape[1], a.first + a.tokens, i.shape[3], dtype=torch.float16, device="cuda")
              for i in session.get_inputs() if i.name.startswith("past_")}
    feeds = {"ids": torch.ones(a.batch, 1, dtype=torch.int64, device="cuda"),
             "pos": torch.zeros(a.batch, dtype=torch.int64, device="cuda")}

    def once(length):
        bound = [smelt.Cache(name, name.removeprefix("past_"), memory, length) for name, memory in caches.items()]
        begin = time.perf_counter()
        session.run_tensors(["logits"], feeds, caches=bound)
        returned = time.perf_counter()
        torch.cuda.synchronize()
        return [(t - begin) * 1e3 for t in (returned, time.perf_counter())]

    first_runs = []
    for length in range(a.first, a.first + a.tokens):
        new, again = once(length), min((once(length) for _ in range(5)), key=lambda t: t[1])
        first_runs.append(new[1])
        print(f"past {length}: new {new[0]:8.2f} {new[1]:8.2f}   again {again[0]:6.3f} {again[1]:6.3f}", flush=True)
    gpu, median = torch.cuda.get_device_name(), statistics.median(first_runs)
    print(f"{gpu}, smelt {smelt.__version__}: new, median of {len(first_runs)}: {median:.2f} ms")


if __name__ == "__main__":
    main()
