"""Convolutions of concatenated inputs with bias and relu on GPU 0: PyTorch beside `bench_gpu conv concatenated…`, in one run.

usage: python bench/concatenated.py BENCH_GPU [CANDIDATES [kernels|models]]
       (BENCH_GPU: build/bench_gpu; needs PyTorch with CUDA)

f16, channels-last, inputs in L2: KERNELS.md's six shapes, and those of unet and detector of examples/models, one image. PyTorch's
columns: eager; torch.compile (max-autotune); the convolution with relu alone of an input that is concatenated already (cuDNN's
best of those that it tries), and the concatenation alone. Each is captured into a CUDA graph of 40 calls, replayed 30 times: the
median. smelt: the fastest of its candidates, CANDIDATES of each tactic (8); behind it its time over torch.compile's, and over
that of cuDNN behind the separate concatenation. Ends with the geometric means.
"""
import math
import re
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F

# images, channels of the inputs, size, channels of the result, taps along a side
KERNELS = [(1, (64, 64), 80, 64, 3), (1, (128, 128), 40, 128, 3), (1, (256, 256), 20, 256, 3), (1, (256, 128), 80, 128, 3),
           (8, (64, 64), 80, 64, 3), (8, (128, 256), 40, 128, 3)]
MODELS = [(1, (256, 256), 32, 256, 3), (1, (128, 128), 64, 128, 3), (1, (64, 64), 128, 64, 3), (1, (32, 32), 256, 32, 3),
          (1, (32, 32), 160, 64, 1), (1, (64, 64), 80, 128, 1), (1, (128, 128), 40, 256, 1), (1, (256, 256), 20, 512, 1),
          (1, (256, 256), 40, 256, 3), (1, (128, 128), 80, 128, 3), (1, (128, 128), 40, 256, 3), (1, (256, 256), 20, 512, 3)]
CALLS, REPLAYS = 40, 30


def microseconds(f):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            f()
    times = []
    for _ in range(REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / CALLS)
    return statistics.median(times)


def fused(*x, w, b):
    return F.relu(F.conv2d(torch.cat(x, 1), w, b, padding=w.shape[2] // 2))


def convolved(x, w, b):
    pad = w.shape[2] // 2
    return torch.cudnn_convolution_relu(x, w, b, (1, 1), (pad, pad), (1, 1), 1)


def row(n, channels, size, m, taps):
    def image(c):
        return torch.randn(n, c, size, size, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last)

    x = [image(c) for c in channels]
    w = torch.randn(m, sum(channels), taps, taps, device="cuda", dtype=torch.float16).to(memory_format=torch.channels_last) / 30
    b = torch.randn(m, device="cuda", dtype=torch.float16)
    whole = torch.cat(x, 1)
    compiled = torch.compile(fused, mode="max-autotune-no-cudagraphs", dynamic=False)
    return [microseconds(f) for f in (lambda: fused(*x, w=w, b=b), lambda: compiled(*x, w=w, b=b),
                                      lambda: convolved(whole, w, b), lambda: torch.cat(x, 1))]


def ours(command, what, images, candidates):
    """{(images, channels, size, result's channels, taps): (µs, configuration)}"""
    arguments = [command, "conv", what, str(images), candidates, "f16"]
    text = subprocess.run(arguments, check=True, text=True, capture_output=True).stdout
    number = r"\s+([\d.]+)"
    found = {}
    for line in text.splitlines():
        if match := re.match(r"\s*(\d+)x([\d+]+)x(\d+)x\d+ -> (\d+) (\d)x\d s1" + number * 5 + r"\s+(.*)", line):
            problem = (int(match[1]), tuple(map(int, match[2].split("+"))), *map(int, match.group(3, 4, 5)))
            us = [float(x) or math.inf for x in match.group(6, 7, 8)]   # hopper, walked, cuda
            names = match[11].split("; ")
            found[problem] = min(zip(us, (names[0], names[2], names[4]), strict=True))
    return found


@torch.inference_mode()
def main():
    torch.backends.cudnn.benchmark = True
    command, candidates = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "8"
    which = sys.argv[3] if len(sys.argv) > 3 else ""
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}")
    print(f"{'images x channels x size -> channels':>40} {'eager':>8} {'compiled':>8} {'conv':>8} {'concat':>8} {'smelt':>8} "
          f"{'/compil.':>8} {'/cuDNN':>8}")
    for what, shapes in (("concatenated", KERNELS), ("concatenated_in_models", MODELS)):
        if which and (which == "kernels") != (what == "concatenated"):
            continue
        times, over_compiled, over_cudnn = {}, [], []
        for n in sorted({s[0] for s in shapes}):
            times |= ours(command, what, n, candidates)
        for shape in shapes:
            eager, compiled, conv, concat = row(*shape)
            us, name = times[shape]
            over_compiled.append(us / compiled)
            over_cudnn.append(us / (conv + concat))
            n, channels, size, m, taps = shape
            text = f"{n} x {'+'.join(map(str, channels))} x {size} -> {m}, {taps}x{taps}"
            print(f"{text:>40} " + " ".join(f"{t:8.2f}" for t in (eager, compiled, conv, concat, us)) +
                  f" {over_compiled[-1]:8.2f} {over_cudnn[-1]:8.2f}  {name}", flush=True)
        means = [math.exp(statistics.fmean(map(math.log, r))) for r in (over_compiled, over_cudnn)]
        print(f"{what}: smelt takes {means[0]:.3f} of torch.compile's time, {means[1]:.3f} of cuDNN's behind a concatenation "
              f"(geometric means of {len(shapes)}; at most {max(over_compiled):.2f}, {max(over_cudnn):.2f})", flush=True)


main()
