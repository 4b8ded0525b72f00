"""RMSNorm on GPU 0: smelt's generated kernels and the ladder of docs/ladder against PyTorch, in one run.

usage: python bench/gpu_norm.py BENCH_GPU [--out FOLDER]          (BENCH_GPU: build/bench_gpu; needs PyTorch with CUDA)

PyTorch's rows: the seven kernels that the operator is spelled with, eager; F.rms_norm; torch.compile (max-autotune). Each is
captured into a CUDA graph of many calls over inputs that together exceed three L2 caches, and replayed 30 times, as
bench_gpu does: the median and the quartiles. The order is PyTorch, smelt, PyTorch: a row of PyTorch's is the faster of its
two.
"""
import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

import shared
import torch
import torch.nn.functional as F

SHAPES = [(4096, 512), (4096, 4096), (16384, 8192), (32768, 1024), (8192, 5120), (64, 4096), (2, 4096),
          (4096, 1000), (4096, 4099), (1, 4096), (4096, 3), (64, 65536), (1, 65536)]
RESIDUAL = [(4096, 4096), (16384, 8192), (4096, 512), (2, 4096)]


def spelled(x, g):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * g


def fused(x, g):
    return F.rms_norm(x, (x.shape[-1],), g, 1e-5)


def residual(x, r, g):
    s = x + r
    return F.rms_norm(s, (s.shape[-1],), g, 1e-5), s


def time_calls(f, inputs, moved):
    """Microseconds a call: median and quartiles over replays of one CUDA graph."""
    calls = 20 if moved > 64 << 20 else 60
    copies = max(2, min(4096, 3 * torch.cuda.get_device_properties(0).L2_cache_size // moved + 1))
    sets = [[t.clone() for t in inputs] for _ in range(copies)]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for s in sets[:3]:
            f(*s)
        stream.synchronize()
        graph, kept = torch.cuda.CUDAGraph(), []
        with torch.cuda.graph(graph, stream=stream):
            for i in range(calls):
                kept.append(f(*sets[i % copies]))
                if len(kept) > copies:   # as many results as inputs: the allocator takes the oldest again
                    kept.pop(0)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        samples = []
        for i in range(32):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if i > 1:
                samples.append(begin.elapsed_time(end) * 1e3 / calls)
    del graph, kept, sets   # bench_gpu needs the memory
    torch.cuda.empty_cache()
    return statistics.quantiles(samples, n=4)


def peers():
    rows = {}
    for shape in SHAPES:
        x, g = (torch.randn(extents, device="cuda", dtype=torch.bfloat16) for extents in (shape, shape[-1:]))
        moved = 4 * x.numel()
        problem = f"rms_norm bf16 [{shape[0]}, {shape[1]}]"
        torch._dynamo.reset()
        compiled = torch.compile(spelled, mode="max-autotune-no-cudagraphs")
        rows[problem] = {"eager": time_calls(spelled, (x, g), moved), "F.rms_norm": time_calls(fused, (x, g), moved),
                         "torch.compile": time_calls(compiled, (x, g), moved)}
    for shape in RESIDUAL:
        x, r = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        g = torch.randn(shape[-1], device="cuda", dtype=torch.bfloat16)
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, r, g: (spelled(x + r, g), x + r), mode="max-autotune-no-cudagraphs")
        problem = f"residual + rms_norm bf16 [{shape[0]}, {shape[1]}]"
        rows[problem] = {"eager": time_calls(residual, (x, r, g), 8 * x.numel()),
                         "torch.compile": time_calls(compiled, (x, r, g), 8 * x.numel())}
    return rows


def ours(bench, *arguments):
    text = subprocess.run([bench, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--out", type=pathlib.Path)
    args = parser.parse_args()
    root = pathlib.Path(__file__).parent.parent
    first = peers()
    ceilings, norms = ours(args.bench, "ceilings")[0], ours(args.bench, "norm")
    ladder = ours(args.bench, "ladder", str(root / "docs/ladder"))
    second = peers()
    read, copy = (ceilings[f"{what}_bytes_per_s"] / 1e12 for what in ("read", "copy"))
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}, commit {shared.commit()}; "
          f"read {read:.2f} TB/s, copy {copy:.2f} TB/s")
    print(f"{'problem':38}{'eager':>9}{'F.rms_norm':>12}{'compile':>9}{'smelt':>9}{'IQR':>7}{'of compile':>12}{'of copy':>9}"
          "  kernel")
    result = {"device": torch.cuda.get_device_name(0), "torch": torch.__version__, "commit": shared.commit(),
              "ceilings": ceilings, "rows": []}
    for problem, peer in first.items():
        best = {k: min(v, second[problem][k], key=lambda q: q[1]) for k, v in peer.items()}
        mine = [r for r in norms if r["problem"] == problem]
        row = mine[-1]
        share = row["bytes"] / row["us"] / 1e6 / copy
        alone = f"{best['F.rms_norm'][1]:12.1f}" if "F.rms_norm" in best else f"{'':12}"
        print(f"{problem:38}{best['eager'][1]:9.1f}{alone}"
              f"{best['torch.compile'][1]:9.2f}{row['us']:9.2f}{row['q3_us'] - row['q1_us']:7.2f}"
              f"{row['us'] / best['torch.compile'][1]:12.3f}{share:9.1%}  {row['tactic']}")
        result["rows"].append({"problem": problem, "peers": best, "smelt": mine,
                               "ladder": [r for r in ladder if r["problem"] == problem]})
    print(f"\n{'ladder':38}" + "".join(f"{step:>24}" for step in ("v1", "v2", "v3", "v4")))
    for problem in first:
        steps = [r for r in ladder if r["problem"] == problem]
        if steps:
            print(f"{problem:38}" + "".join(f"{r['us']:10.1f} ({r['tactic'][3:]})".rjust(24) for r in steps))
    if args.out:
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d-%H%M")
        (args.out / f"gpu-norm-{stamp}.json").write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
