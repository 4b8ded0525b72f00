"""What the drivers of this folder share."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "examples" / "models"


# The models that GPU results are about: bench/gpu_models.py's rows.
GPU_MODELS = ("resnet50.fp16", "resnet50_b32.fp16", "mobilenet_v3_large.fp16", "unet.fp16", "detector.fp16", "vit_b_16.fp16",
              "bert_base.fp16", "llama_gpt.bf16", "dit_xl_2.fp16")
# Those of CPU results: bench/cpu_models.py's rows.
CPU_MODELS = tuple(f"{name}.fp32" for name in
                   ("resnet50", "mobilenet_v3_large", "unet", "detector", "vit_b_16", "bert_base", "llama_gpt", "dit_xl_2"))

# The end of a worker's source that has a `session` and its `feeds`: it reads a number of seconds a line, and answers with the
# seconds of each run in a batch that long, after `pause` seconds and a run that does not count.
BATCHES = """
session.run(None, feeds)
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    time.sleep(pause)
    session.run(None, feeds)
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < float(line):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - start)
    print(json.dumps(times), flush=True)
"""


class Worker:
    """A process of Python that runs `source`: it writes a line of JSON once it is ready, and one to each line that it reads."""

    def __init__(self, name, source, arguments, environment=None):
        self.name = name
        self.process = subprocess.Popen([sys.executable, "-c", source, *map(str, arguments)], env=environment,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with status {self.process.wait()}")
        return json.loads(line)

    def ask(self, question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        return self._answer()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def interval(a, b, draws=2000):
    """95 % bootstrap interval of median(a) / median(b), each an array of [rounds, runs]; rounds are drawn as pairs."""
    random = np.random.default_rng(1)
    index = random.integers(0, len(a), (draws, len(a)))
    ratios = np.median(a[index].reshape(draws, -1), axis=1) / np.median(b[index].reshape(draws, -1), axis=1)
    return np.percentile(ratios, 2.5), np.percentile(ratios, 97.5)


def commit():
    """The commit that is measured: SMELT_COMMIT, for a copy without its history; else git's description of this tree."""
    if given := os.environ.get("SMELT_COMMIT"):
        return given
    try:
        return subprocess.check_output(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], text=True,
                                       stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def measured_rows(names, row_of, text_of, lines):
    """({name: row}, the names without one): row_of(name) of each. Its line, or what went wrong, is printed and added to lines."""
    rows, failed = {}, []
    for name in names:
        try:
            rows[name] = row_of(name)
            lines.append(text_of(name, rows[name]))
        except (RuntimeError, subprocess.CalledProcessError) as e:
            failed.append(name)
            lines.append(f"{name:26} {e}")
        print(lines[-1], flush=True)
    return rows, failed


def write_table(out, lines, rows):
    """The lines to a file, the rows to .json beside it; nothing where `out` is None."""
    if out:
        out.write_text("\n".join(lines) + "\n")
        out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n")


def filled(name, folder):
    """The path of a model of examples/models with weights and inputs; made when it is missing."""
    path = pathlib.Path(folder) / f"{name}.onnx"
    if not path.with_suffix(".inputs.npz").exists():
        subprocess.run([sys.executable, str(MODELS / "fill.py"), str(MODELS / f"{name}.onnx"), str(folder)], check=True,
                       stdout=subprocess.DEVNULL)
    return path
