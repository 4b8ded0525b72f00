"""Runs a model in a process of its own, with smelt or with ONNX Runtime, on several inputs one after the other.

usage: engines.py REQUEST.json        (what the check writes; the reply goes to standard output as one line of JSON)

One Session runs every input: symbolic dimensions take a new size each time. A process of its own, because its peak memory is one
of the results, and because a crash must be one model's failure only.
"""
import json
import os
import resource
import subprocess
import sys
import time

import numpy as np


def load(path):
    with np.load(path, allow_pickle=True) as arrays:
        return {k: arrays[k] for k in arrays.files}


def smelt_session(request):
    import smelt
    return smelt.Session(request["model"], **request["options"])


def ort_session(request):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = request["options"].get("threads", 0)
    if not request["options"].get("optimize", True):
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])


def work(request):
    begin = time.time()
    session = {"smelt": smelt_session, "ort": ort_session}[request["engine"]](request)
    reply = {"build_s": time.time() - begin, "run_s": []}
    names = [o.name for o in session.get_outputs()]
    for inputs, outputs in zip(request["inputs"], request["outputs"]):
        feeds = load(inputs)
        begin = time.time()
        results = session.run(None, feeds)
        reply["run_s"].append(time.time() - begin)
        np.savez(outputs, **{n: np.asarray(r) for n, r in zip(names, results)})
    reply["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return reply


def run(engine, model, inputs, outputs, options, python_path=""):
    """Starts this file on a request and returns its reply. Raises RuntimeError with the last lines that the process wrote."""
    request = outputs[0] + ".request.json"
    with open(request, "w") as f:
        json.dump({"engine": engine, "model": str(model), "inputs": inputs, "outputs": outputs, "options": options}, f)
    env = dict(os.environ)
    env["PYTHONPATH"] = os.pathsep.join(p for p in (str(python_path), env.get("PYTHONPATH", "")) if p)
    done = subprocess.run([sys.executable, os.path.abspath(__file__), request], capture_output=True, text=True, env=env)
    os.remove(request)
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise RuntimeError(f"{engine}: exit {done.returncode}: " + " | ".join(lines[-2:])[-500:])
    return json.loads(done.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        print(json.dumps(work(json.load(f))))
