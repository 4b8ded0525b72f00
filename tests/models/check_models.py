#!/usr/bin/env python3
"""Runs exported models through smelt, fused and operator by operator, and holds both to an oracle.

usage: check_models.py [--smelt PATH] [--work DIR] [--threads N] [--size DIM=N ...] MODEL.onnx ...

MODEL.onnx is an exported graph (weights and inputs are written into --work by fill.py beside the models, once) or a filled one
(MODEL.data and MODEL.inputs.npz beside it). The oracle is ONNX Runtime on the model widened to float32 when it is float16 or
bfloat16, and on the model itself when it is float32. Each output passes when
    error(fused) <= 2 * error(unfused) + one unit in the last place of the output's largest value
where error is the largest absolute difference from the oracle; integer outputs must be equal. Exit status 1 when one does not.
"""
import argparse, json, os, subprocess, sys, time
import numpy as np, onnx
from onnx import TensorProto, external_data_helper, helper, numpy_helper

ULP = {TensorProto.FLOAT: 2.0**-23, TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7, TensorProto.DOUBLE: 2.0**-52}
LOW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def fill(model, work, sizes):
    """The filled copy of an exported graph in `work`; the model itself when its data lies beside it."""
    stem = model[: -len(".onnx")]
    if os.path.exists(stem + ".data"):
        return model
    tag = "".join(f".{k}{v}" for k, v in sorted(sizes.items()))
    out = os.path.join(work, "fill" + tag)
    target = os.path.join(out, os.path.basename(model))
    if not os.path.exists(target):
        script = os.path.join(os.path.dirname(model), "fill.py")
        subprocess.run([sys.executable, script, model, out] + [f"{k}={v}" for k, v in sizes.items()], check=True)
    return target


def widen_type(t):
    return TensorProto.FLOAT if t in LOW else t


def widen_graph(graph):
    for values in (graph.input, graph.output, graph.value_info):
        for v in values:
            v.type.tensor_type.elem_type = widen_type(v.type.tensor_type.elem_type)
    for t in graph.initializer:
        if t.data_type in LOW:
            t.CopyFrom(numpy_helper.from_array(as_float32(numpy_helper.to_array(t)), t.name))
    for n in graph.node:
        for a in n.attribute:
            if n.op_type == "Cast" and a.name == "to" or a.name in ("dtype", "stash_type"):
                a.i = widen_type(a.i)
            if a.type == onnx.AttributeProto.TENSOR and a.t.data_type in LOW:
                a.t.CopyFrom(numpy_helper.from_array(as_float32(numpy_helper.to_array(a.t)), a.t.name))
            if a.type == onnx.AttributeProto.GRAPH:
                widen_graph(a.g)


def as_float32(x):
    """float16, ml_dtypes' bfloat16 and raw bfloat16 ('<V2') as float32."""
    if x.dtype.kind == "V" and x.dtype.itemsize == 2:
        return (np.frombuffer(x.tobytes(), "<u2").astype("<u4") << 16).view("<f4").reshape(x.shape)
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iub" else x


def oracle(path, feeds, work):
    import onnxruntime as ort
    model = onnx.load(path, load_external_data=False)
    types = {t.data_type for t in model.graph.initializer} | {i.type.tensor_type.elem_type for i in model.graph.input}
    options = ort.SessionOptions()
    options.log_severity_level = 3
    source = path
    if types & set(LOW):
        external_data_helper.load_external_data_for_model(model, os.path.dirname(path))
        widen_graph(model.graph)
        source = os.path.join(work, "wide.onnx")
        if os.path.exists(source + ".data"):
            os.remove(source + ".data")
        onnx.save(model, source, save_as_external_data=True, location="wide.onnx.data")
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, {k: as_float32(v) for k, v in feeds.items()})))


def smelt_run(command, model, inputs, target, extra):
    begin = time.time()
    done = subprocess.run(command + ["run", model, "--inputs", inputs, "--outputs", target] + extra, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip()[-600:])
    with np.load(target) as arrays:
        return {k: arrays[k] for k in arrays.files}, time.time() - begin


def distance(found, expected):
    if found.shape != expected.shape:
        return float("inf")
    if expected.size == 0:
        return 0.0
    if expected.dtype.kind in "iub":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    d = np.abs(as_float32(found).astype(np.float64) - expected.astype(np.float64))
    same_special = (np.isnan(found.astype(np.float64)) & np.isnan(expected)) | (as_float32(found) == expected)
    return float(np.max(np.where(same_special, 0.0, np.where(np.isnan(d), np.inf, d))))


def check(model, args, sizes):
    path = fill(model, args.work, sizes)
    inputs = path[: -len(".onnx")] + ".inputs.npz"
    with np.load(inputs) as arrays:
        feeds = {k: arrays[k] for k in arrays.files}
    expected = oracle(path, feeds, args.work)
    extra = ["--threads", str(args.threads), "--tuning-level", str(args.level)]
    fused, seconds = smelt_run([args.smelt], path, inputs, os.path.join(args.work, "fused.npz"), extra)
    plain, plain_seconds = smelt_run([args.smelt], path, inputs, os.path.join(args.work, "plain.npz"), extra + ["--unfused"])
    declared = {o.name: o.type.tensor_type.elem_type for o in onnx.load(path, load_external_data=False).graph.output}
    passed, rows = True, []
    for name, e in expected.items():
        unit = ULP.get(declared[name], 0) * float(np.max(np.abs(e))) if e.size and e.dtype.kind == "f" else 0.0
        error, unfused = distance(fused[name], e), distance(plain[name], e)
        good = error <= 2 * unfused + unit and np.isfinite(unfused)
        passed = passed and good
        rows.append({"output": name, "fused": error, "unfused": unfused, "ulp": unit, "passed": bool(good)})
    return {"model": os.path.basename(model), "sizes": sizes, "passed": passed, "seconds": seconds, "unfused_seconds": plain_seconds, "outputs": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--smelt", default="build/smelt")
    parser.add_argument("--work", default="build/models")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--size", action="append", default=[], help="a symbolic dimension's size, DIM=N")
    parser.add_argument("--json", help="write the results here")
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    sizes = {k: int(v) for k, v in (s.split("=") for s in args.size)}
    results = []
    for model in args.models:
        try:
            r = check(model, args, sizes)
        except Exception as e:                                # one model's failure must not hide the others' results
            r = {"model": os.path.basename(model), "passed": False, "error": f"{type(e).__name__}: {e}", "outputs": []}
        results.append(r)
        worst = max(r["outputs"], key=lambda o: (not o["passed"], o["fused"]), default=None)
        detail = r.get("error") or f"fused {worst['fused']:.3g}  unfused {worst['unfused']:.3g}  ulp {worst['ulp']:.3g}  {r['seconds']:.1f} s"
        print(f"{'pass' if r['passed'] else 'FAIL'}  {r['model']:34} {detail}", flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)
    sys.exit(0 if all(r["passed"] for r in results) else 1)


if __name__ == "__main__":
    main()
