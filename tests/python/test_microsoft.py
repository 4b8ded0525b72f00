"""Operators of com.microsoft, as ONNX Runtime's tools write them: what ONNX Runtime computes, on kernels, or a refusal that says why."""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys

import hostile
import numpy as np
import onnx
import onnxruntime as ort
import pytest
import smelt
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(0)
B, S, P, HEADS, D = 2, 5, 3, 4, 8
HIDDEN = HEADS * D


@pytest.fixture(autouse=True)
def own_numbers():
    """Each test draws the same numbers whether or not others ran before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def floats(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def model_of(op, inputs, attributes, outputs=1, constants=(), domain="com.microsoft", opset=17, symbolic=False):
    """A model of one node. `inputs`: arrays by name, or None where one is left out; those in `constants` are initializers.
    `outputs`: how many, or whether each is wanted."""
    names, values, initializers = [], [], []
    for name, x in inputs.items():
        names.append("" if x is None else name)
        if x is None:
            continue
        if name in constants:
            initializers.append(numpy_helper.from_array(x, name))
        else:
            dims = [f"{name}_{i}" if symbolic and i < 2 else d for i, d in enumerate(x.shape)]
            values.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), dims))
    made = [f"y{i}" if given else "" for i, given in enumerate([True] * outputs if isinstance(outputs, int) else outputs)]
    results = [helper.make_empty_tensor_value_info(name) for name in made if name]
    node = helper.make_node(op, names, made, name="node", domain=domain, **attributes)
    graph = helper.make_graph([node], "g", values, results, initializers)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", opset),
                                                                helper.make_opsetid("com.microsoft", 1)])


def steps_in_reference(command, path):
    said = command("explain", path, "--kernels", "--json", "--tuning-level", 0, "--no-cache", "--threads", 2).stdout
    return [row["step"] for row in json.loads(said)["tactics"]
            if row["result"] == "runs" and row["tactic"].startswith("reference")]


def check(folder, model, feeds, tolerance=2e-5, command=None):
    path = folder / "m.onnx"
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")   # else 8-bit sums saturate on processors without VNNI
    want = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)
    for optimize in (False, True):
        got = smelt.Session(path, optimize=optimize, tuning_level=0).run(None, feeds)
        for g, w in zip(got, want, strict=True):
            assert g.shape == w.shape and g.dtype == w.dtype
            np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)
    if command:
        assert steps_in_reference(command, path) == []


def check_node(folder, op, inputs, attributes, outputs=1, constants=(), command=None, tolerance=2e-5, **options):
    for symbolic in (False, True):
        model = model_of(op, inputs, attributes, outputs, constants, symbolic=symbolic, **options)
        feeds = {n: x for n, x in inputs.items() if x is not None and n not in constants}
        check(folder, model, feeds, tolerance, None if symbolic else command)


MASKS = {"none": None, "lengths": np.array([5, 3], np.int32), "ends and starts": np.array([5, 4, 0, 2], np.int32),
         "keys": np.array([[1, 1, 0, 1, 1], [1, 0, 1, 0, 0]], np.int32),   # a row that is hidden whole has 3 digits left
         "pairs": np.maximum(RNG.integers(0, 2, (B, S, S)), np.eye(S)).astype(np.int32)}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("causal", [0, 1])
def test_attention(tmp_path, command, mask, causal):
    inputs = {"x": floats(B, S, 24), "w": floats(24, 3 * HIDDEN) / 5, "b": floats(3 * HIDDEN), "mask": MASKS[mask], "past": None,
              "bias": floats(1, HEADS, S, S) if mask in ("none", "keys") else None}
    check_node(tmp_path, "Attention", inputs, {"num_heads": HEADS, "unidirectional": causal}, constants=("w", "b"), command=command)


@pytest.mark.parametrize("scale", [0.0, 0.2])
def test_attention_with_a_cache(tmp_path, scale):
    inputs = {"x": floats(B, S, 24), "w": floats(24, 3 * HIDDEN) / 5, "b": floats(3 * HIDDEN),
              "mask": np.array([[1, 0, 1, 0, 1, 1, 1, 1], [1] * 8], np.int32), "past": floats(2, B, HEADS, P, D)}
    check_node(tmp_path, "Attention", inputs, {"num_heads": HEADS, "unidirectional": 1, "scale": scale}, outputs=2,
               constants=("w", "b"))


def test_attention_with_values_of_another_width(tmp_path):
    inputs = {"x": floats(B, S, 24), "w": floats(24, 2 * HIDDEN + 16) / 5, "b": floats(2 * HIDDEN + 16)}
    check_node(tmp_path, "Attention", inputs, {"num_heads": HEADS, "qkv_hidden_sizes": [HIDDEN, HIDDEN, 16]}, constants=("w", "b"))


@pytest.mark.parametrize("mask", ["none", "lengths", "keys", "pairs"])
@pytest.mark.parametrize("biased", [False, True])
def test_multi_head_attention(tmp_path, command, mask, biased):
    inputs = {"q": floats(B, S, HIDDEN), "k": floats(B, S, HIDDEN), "v": floats(B, S, HIDDEN),
              "b": floats(3 * HIDDEN) if biased else None, "mask": MASKS[mask],
              "bias": floats(B, HEADS, S, S) if mask == "none" else None}
    check_node(tmp_path, "MultiHeadAttention", inputs, {"num_heads": HEADS}, constants=("b",), command=command)


@pytest.mark.parametrize("causal", [0, 1])
def test_multi_head_attention_with_a_cache(tmp_path, causal):
    inputs = {"q": floats(B, S, HIDDEN), "k": floats(B, S, HIDDEN), "v": floats(B, S, HIDDEN), "b": None, "mask": None, "bias": None,
              "past_k": floats(B, HEADS, P, D), "past_v": floats(B, HEADS, P, D)}
    check_node(tmp_path, "MultiHeadAttention", inputs, {"num_heads": HEADS, "unidirectional": causal}, outputs=3)


def test_multi_head_attention_over_a_cache_of_other_keys(tmp_path):
    inputs = {"q": floats(B, S, HIDDEN), "k": floats(B, HEADS, 7, D), "v": floats(B, HEADS, 7, D)}
    check_node(tmp_path, "MultiHeadAttention", inputs, {"num_heads": HEADS})


GROUPED = {
    "plain": {}, "rotary": {"do_rotary": 1}, "interleaved": {"do_rotary": 1, "rotary_interleaved": 1},
    "window": {"local_window_size": 2}, "softcap": {"softcap": 5.0}, "smooth": {"smooth_softmax": 1}, "scale": {"scale": 0.1}}


@pytest.mark.parametrize("form", GROUPED)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("batch, steps, past", [(2, 5, 0), (1, 1, 6), (1, 3, 4), (2, 1, 6)])
def test_group_query_attention(tmp_path, form, packed, batch, steps, past):
    kv, total = 2, steps + past
    q, k, v = floats(batch, steps, HEADS * 16), floats(batch, steps, kv * 16), floats(batch, steps, kv * 16)
    rotary = GROUPED[form].get("do_rotary", 0)
    angles = np.outer(np.arange(32), 1 / 100 ** (np.arange(8) / 8)).astype(np.float32)
    inputs = {"q": np.concatenate([q, k, v], 2) if packed else q, "k": None if packed else k, "v": None if packed else v,
              "past_k": floats(batch, kv, past, 16), "past_v": floats(batch, kv, past, 16),
              "lengths": np.full(batch, total - 1, np.int32), "total": np.array(total, np.int32),
              "cos": np.cos(angles) if rotary else None, "sin": np.sin(angles) if rotary else None}
    check_node(tmp_path, "GroupQueryAttention", inputs, {"num_heads": HEADS, "kv_num_heads": kv, **GROUPED[form]}, outputs=3,
               constants=("cos", "sin"))


@pytest.mark.parametrize("given", [(), ("segments",), ("segments", "mask"), ("mask", "places")])
def test_embed_layer_normalization(tmp_path, command, given):
    ids = {n: RNG.integers(0, 4, (B, S)).astype(np.int32) for n in ("ids", "segments", "places")}
    inputs = {"ids": ids["ids"], "segments": ids["segments"] if "segments" in given else None, "word": floats(9, 16),
              "position": floats(8, 16), "segment": floats(4, 16) if "segments" in given else None, "gamma": floats(16),
              "beta": floats(16), "mask": np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32) if "mask" in given else None,
              "places": ids["places"] if "places" in given else None}
    check_node(tmp_path, "EmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=3 if "mask" in given else 2,
               constants=("word", "position", "segment", "gamma", "beta"), command=command)


def test_attention_in_8_bits(tmp_path, command):
    weights = RNG.integers(-50, 50, (24, 3 * HIDDEN)).astype(np.int8)
    inputs = {"x": RNG.integers(0, 255, (B, S, 24)).astype(np.uint8), "w": weights, "b": floats(3 * HIDDEN),
              "x_scale": np.float32(0.02), "w_scale": np.full(3 * HIDDEN, 0.01, np.float32), "mask": MASKS["lengths"],
              "x_zero": np.uint8(120), "w_zero": np.zeros(3 * HIDDEN, np.int8)}
    check_node(tmp_path, "QAttention", {n: np.asarray(x) for n, x in inputs.items()}, {"num_heads": HEADS},
               constants=("w", "b", "x_scale", "w_scale", "x_zero", "w_zero"), command=command, tolerance=1e-4)


@pytest.mark.parametrize("form", ["", "beta", "bias", "sum"])
def test_skip_layer_normalization(tmp_path, command, form):
    inputs = {"x": floats(B, S, 16), "skip": floats(B, S, 16), "gamma": floats(16), "beta": floats(16) if form else None,
              "bias": floats(16) if form in ("bias", "sum") else None}
    check_node(tmp_path, "SkipLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=[1, 0, 0, 1] if form == "sum" else 1,
               constants=("gamma", "beta", "bias"), command=command)


@pytest.mark.parametrize("op, domain, opset", [("LayerNormalization", "", 13), ("SimplifiedLayerNormalization", "", 13),
                                               ("SkipSimplifiedLayerNormalization", "com.microsoft", 13)])
def test_norms_before_onnx_had_them(tmp_path, command, op, domain, opset):
    inputs = {"x": floats(B, S, 16), "gamma": floats(16), "beta": floats(16)}
    if op.startswith("Skip"):
        inputs = {"x": floats(B, S, 16), "skip": floats(B, S, 16), "gamma": floats(16)}
    elif op.startswith("Simplified"):
        del inputs["beta"]
    check_node(tmp_path, op, inputs, {"epsilon": 1e-5}, constants=("gamma", "beta"), domain=domain, opset=opset, command=command)


@pytest.mark.parametrize("activation, parameters", [("Relu", None), ("Sigmoid", None), ("Tanh", None), ("LeakyRelu", [0.3]),
                                                    ("Clip", [0.0, 6.0]), ("HardSigmoid", [0.3, 0.6])])
def test_fused_convolutions_run_on_kernels(tmp_path, command, activation, parameters):
    inputs = {"x": floats(1, 16, 9, 9), "w": floats(16, 16, 3, 3) / 10, "b": floats(16),
              "z": floats(1, 16, 9, 9) if activation == "Relu" else None}
    attributes = {"activation": activation, "pads": [1, 1, 1, 1]}
    if parameters:
        attributes["activation_params"] = parameters
    check_node(tmp_path, "FusedConv", inputs, attributes, constants=("w", "b"), command=command)


@pytest.mark.parametrize("flags", [{}, {"transB": 1}, {"transA": 1, "alpha": 0.5}, {"transBatchA": 1}, {"transBatchB": 1, "transB": 1}])
def test_fused_matmul(tmp_path, command, flags):
    a, b = floats(2, 3, 4, 5), floats(2, 3, 5, 6)
    for x, name in (("a", "A"), ("b", "B")):
        value = a if x == "a" else b
        if flags.get(f"trans{name}"):
            value = value.swapaxes(-1, -2)
        if flags.get(f"transBatch{name}"):
            value = np.moveaxis(value, -2, 0)
        a, b = (value, b) if x == "a" else (a, value)
    check_node(tmp_path, "FusedMatMul", {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b)}, flags, command=command)


def scalars(**values):
    return {n: np.array(v, np.uint8 if n.endswith("zero") else np.float32) for n, v in values.items()}


def test_where_in_8_bits(tmp_path):
    inputs = {"c": RNG.integers(0, 2, (2, 1, 5)).astype(bool), "x": RNG.integers(0, 255, (2, 3, 5)).astype(np.uint8),
              **scalars(x_scale=0.02, x_zero=100), "y": np.array(7, np.uint8),
              **scalars(y_scale=0.5, y_zero=3, z_scale=0.03, z_zero=90)}
    check_node(tmp_path, "QLinearWhere", inputs, {}, constants=[n for n in inputs if n[1:]])


@pytest.mark.parametrize("mask", [False, True])
def test_embed_layer_normalization_in_8_bits(tmp_path, command, mask):
    tables = {n: RNG.integers(0, 255, shape).astype(np.uint8)
              for n, shape in {"word": (9, 16), "position": (8, 16), "segment": (4, 16), "gamma": (16,), "beta": (16,)}.items()}
    ids = {n: RNG.integers(0, 4, (B, S)).astype(np.int32) for n in ("ids", "segments")}
    inputs = {**ids, **tables, "mask": np.ones((B, S), np.int32) if mask else None,
              **scalars(**{f"{n}_scale": 0.02 for n in tables}, **{f"{n}_zero": 110 for n in tables})}
    check_node(tmp_path, "QEmbedLayerNormalization", inputs, {"epsilon": 1e-5}, outputs=2,
               constants=[n for n in inputs if n.split("_")[0] in tables], command=command)


def packed(values, bits):
    """[.., n] of small numbers in bytes, the lowest bits first, each row from a byte of its own."""
    each = 8 // bits
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
    parts = values.reshape(*values.shape[:-1], -1, each).astype(np.uint8)
    return np.bitwise_or.reduce(parts << (np.arange(each, dtype=np.uint8) * bits), -1).astype(np.uint8)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("k, n, block", [(64, 24, 32), (96, 7, 32), (80, 16, 16), (70, 12, 32)])
@pytest.mark.parametrize("rows", [1, 9])
def test_matmul_n_bits(tmp_path, command, bits, zeros, k, n, block, rows):
    blocks = -(-k // block)
    w = RNG.integers(0, 2**bits, (n, blocks, block))
    inputs = {"a": floats(2, rows, k), "w": packed(w, bits), "scales": floats(n, blocks) / 10,
              "zeros": packed(RNG.integers(0, 2**bits, (n, blocks)), bits) if zeros else None, "g_idx": None, "bias": floats(n)}
    check_node(tmp_path, "MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block},
               constants=("w", "scales", "zeros", "bias"), command=command, tolerance=2e-3 if bits == 8 else 2e-4)


@pytest.mark.parametrize("zeros, ordered", [("none", False), ("bytes", False), ("floats", False), ("floats", True)])
@pytest.mark.parametrize("k, n, block", [(96, 24, 32), (70, 12, 16)])
def test_matmul_n_bits_by_groups_in_any_order_and_zero_points_that_are_floats(tmp_path, command, zeros, ordered, k, n, block):
    """As GPTQ orders weights by their activations, and as HQQ rounds them."""
    blocks = -(-k // block)
    w, of_bytes = RNG.integers(0, 16, (n, blocks, block)), RNG.integers(0, 16, (n, blocks))
    inputs = {"a": floats(2, 3, k), "w": packed(w, 4), "scales": floats(n, blocks) / 10,
              "zeros": {"none": None, "bytes": packed(of_bytes, 4), "floats": 7 + floats(n, blocks)}[zeros],
              "g_idx": None if ordered else RNG.permutation(np.arange(k) // block).astype(np.int32), "bias": floats(n)}
    attributes, constants = {"K": k, "N": n, "bits": 4, "block_size": block}, ("w", "scales", "zeros", "g_idx", "bias")
    if zeros != "bytes":
        return check_node(tmp_path, "MatMulNBits", inputs, attributes, constants=constants, command=command, tolerance=2e-4)
    # Beside g_idx the processor's kernel of ONNX Runtime takes 8 for each zero point that is given as bytes.
    group = inputs["g_idx"]
    wide = (w.reshape(n, -1)[:, :k] - of_bytes[:, group]) * inputs["scales"][:, group]
    found = smelt.Session(model_of("MatMulNBits", inputs, attributes, constants=constants), tuning_level=0)
    np.testing.assert_allclose(found.run(None, {"a": inputs["a"]})[0], inputs["a"] @ wide.T + inputs["bias"], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("k, n, block", [(1024, 65, 32), (270, 256, 16), (400, 192, 128)])
@pytest.mark.parametrize("rows", [1, 40])
def test_matmul_n_bits_reads_the_weights_as_they_are(tmp_path, command, bits, zeros, k, n, block, rows):
    blocks = -(-k // block)
    inputs = {"a": floats(rows, k), "w": packed(RNG.integers(0, 2**bits, (n, blocks, block)), bits),
              "scales": floats(n, blocks) / 10, "zeros": packed(RNG.integers(0, 2**bits, (n, blocks)), bits) if zeros else None}
    model = model_of("MatMulNBits", inputs, {"K": k, "N": n, "bits": bits, "block_size": block}, constants=("w", "scales", "zeros"))
    onnx.save(model, tmp_path / "m.onnx")
    plan = tmp_path / "plan.onnx"
    command("optimize", tmp_path / "m.onnx", "-o", plan, "--tuning-level", 0, "--no-cache")
    assert [n.op_type for n in onnx.load(plan).graph.node] == ["BlockMatMul"]
    assert steps_in_reference(command, tmp_path / "m.onnx") == []
    want = smelt.Session(tmp_path / "m.onnx", optimize=False).run(None, {"a": inputs["a"]})[0]
    for path in (tmp_path / "m.onnx", plan):
        got = smelt.Session(path, tuning_level=0).run(None, {"a": inputs["a"]})[0]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


MEMORY_OF_A_SESSION = """
import sys
import numpy as np
import smelt
def anonymous():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("RssAnon"))
before = anonymous()
session = smelt.Session(sys.argv[1], threads=2, tuning_level=0)
session.run(None, {"a": np.ones((int(sys.argv[2]), 4096), np.float32)})
print((anonymous() - before) >> 10)
"""


@pytest.mark.skipif(hostile.SANITIZED, reason="AddressSanitizer keeps what is freed")
@pytest.mark.parametrize("rows", [1, 64])
def test_weights_of_4_bits_take_no_memory_as_floats(tmp_path, rows):
    k, n, block, products = 4096, 4096, 32, 3    # 192 MB in f32, 24 in 4 bits
    inputs = {"a": floats(rows, k)}
    nodes, constants = [], []
    for i in range(products):
        tables = {f"w{i}": RNG.integers(0, 256, (n, k // block, block // 2)).astype(np.uint8), f"s{i}": floats(n, k // block) / 100}
        constants += [numpy_helper.from_array(t, name) for name, t in tables.items()]
        nodes.append(helper.make_node("MatMulNBits", [f"y{i - 1}" if i else "a", *tables], [f"y{i}"], domain="com.microsoft", K=k,
                                      N=n, bits=4, block_size=block))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("a", 1, [rows, k])], [value(f"y{products - 1}", 1, [rows, n])], constants)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 21),
                                                                    helper.make_opsetid("com.microsoft", 1)]), tmp_path / "m.onnx")
    done = subprocess.run([sys.executable, "-c", MEMORY_OF_A_SESSION, tmp_path / "m.onnx", str(inputs["a"].shape[0])],
                          capture_output=True, text=True, check=True)
    assert int(done.stdout) < 96, done.stdout


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_gather_block_quantized(tmp_path, command, bits, zeros):
    inputs = {"data": packed(RNG.integers(0, 2**bits, (11, 64)), bits), "indices": np.array([[3, 10], [0, -1]], np.int64),
              "scales": floats(11, 2), "zeros": packed(RNG.integers(0, 2**bits, (11, 2)), bits) if zeros else None}
    check_node(tmp_path, "GatherBlockQuantized", inputs, {"bits": bits, "block_size": 32, "gather_axis": 0, "quantize_axis": 1},
               constants=("data", "scales", "zeros"), command=command, opset=21)


def test_layouts_of_one_machine_are_refused_with_what_to_do(tmp_path):
    path = tmp_path / "m.onnx"
    model = model_of("ReorderOutput", {"x": floats(1, 8, 2, 2)}, {"channels": 8}, domain="com.microsoft.nchwc")
    model.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    onnx.save(model, path)
    with pytest.raises(smelt.UnsupportedError, match="ORT_ENABLE_EXTENDED"):
        smelt.Session(path)


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_distances_of_rows(tmp_path, command, metric, kind):
    a, b = (floats(n, 16).astype({"f32": np.float32, "f64": np.float64}[kind]) for n in (9, 13))
    check_node(tmp_path, "CDist", {"a": a, "b": b}, {"metric": metric}, command=command, tolerance=1e-4)


@pytest.mark.parametrize("attributes", [{}, {"mode": "bicubic"}, {"mode": "nearest", "padding_mode": "border", "align_corners": 1}])
def test_samples_of_a_grid(tmp_path, command, attributes):
    given = {"x": floats(B, 3, 6, 7), "grid": floats(B, 4, 5, 2)}
    check_node(tmp_path, "GridSample", given, attributes, command=command)


def test_values_in_the_order_in_which_they_are_met(tmp_path):
    check_node(tmp_path, "Unique", {"x": RNG.integers(0, 6, 40).astype(np.float32)}, {}, outputs=3)


@pytest.mark.parametrize("quant_type", [0, 1])
@pytest.mark.parametrize("block, n, k", [(16, 6, 32), (64, 5, 48)])
def test_weights_of_bitsandbytes(tmp_path, command, quant_type, block, n, k):
    codes = RNG.integers(0, 256, (n * k + 1) // 2).astype(np.uint8)
    largest = np.abs(floats((n * k + block - 1) // block))
    check_node(tmp_path, "MatMulBnb4", {"a": floats(B, 7, k), "b": codes, "absmax": largest},
               {"K": k, "N": n, "block_size": block, "quant_type": quant_type}, constants=("b", "absmax"), command=command)


def strings(op, texts, attributes, domain="com.microsoft"):
    value = helper.make_tensor_value_info("x", TensorProto.STRING, [len(texts)])
    node = helper.make_node(op, ["x"], ["y"], domain=domain, **attributes)
    model = helper.make_model(helper.make_graph([node], "g", [value], [helper.make_empty_tensor_value_info("y")]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)])
    feeds = {"x": np.array(texts, dtype=object)}
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    got = smelt.Session(model, tuning_level=0).run(None, feeds)[0]
    assert got.shape == want.shape and np.array_equal(got, want)


def random_expression(draw, depth=1):
    parts = ["a", "b", "c", "x", "[ab]", "[^a]", "[[:alpha:]]", ".", "\\w", "\\s", "\\pL", "\\d", "\\b", "^", "$", "é", "(?i)A"]
    expression = ""
    for _ in range(draw.integers(1, 4)):
        nested = depth and draw.integers(3) == 0
        expression += f"(?:{random_expression(draw, 0)}|{random_expression(draw, 0)})" if nested else draw.choice(parts)
        expression += draw.choice(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?"])
    return expression


@pytest.mark.parametrize("seed", range(40))
def test_expressions_of_re2(seed):
    draw = np.random.default_rng(seed)
    texts = ["".join(draw.choice(list("abcAé -x1\n"), draw.integers(0, 10))) for _ in range(6)]
    strings("RegexFullMatch", texts, {"pattern": random_expression(draw)}, domain="")
    given = {"mark": int(draw.integers(2)), "mincharnum": int(draw.integers(1, 3)), "pad_value": "#"}
    strings("Tokenizer", texts, {"tokenexp": random_expression(draw), **given})
    strings("Tokenizer", texts, {"separators": [random_expression(draw) for _ in range(draw.integers(1, 4))], **given})


def test_multi_head_attention_in_a_shared_buffer(tmp_path):
    inputs = {"q": floats(B, 2, HIDDEN), "k": floats(B, 2, HIDDEN), "v": floats(B, 2, HIDDEN), "b": None, "mask": None, "bias": None,
              "past_k": floats(B, HEADS, 7, D), "past_v": floats(B, HEADS, 7, D), "filled": np.array([3], np.int32)}
    check_node(tmp_path, "MultiHeadAttention", inputs, {"num_heads": HEADS}, outputs=3)


@pytest.mark.parametrize("given", ["plain", "mask", "bias"])
def test_decoder_masked_multi_head_attention(tmp_path, given):
    inputs = {"q": floats(B, 1, HIDDEN), "k": floats(B, 1, HIDDEN), "v": floats(B, 1, HIDDEN),
              "mask": np.array([[1, 0, 1, 1], [1, 1, 1, 1]], np.int32) if given == "mask" else None, "added": None,
              "past_k": floats(B, HEADS, 7, D), "past_v": floats(B, HEADS, 7, D), "filled": np.array([3], np.int32), "beams": None,
              "indirection": None, "bias": floats(3 * HIDDEN) if given == "bias" else None}
    check_node(tmp_path, "DecoderMaskedMultiHeadAttention", inputs, {"num_heads": HEADS, "past_present_share_buffer": 1}, outputs=3,
               constants=("bias",))


EARLY = {"Affine": {"alpha": 2.0, "beta": 3.0}, "ScaledTanh": {"alpha": 2.0, "beta": 0.5}, "Scale": {"scale": 3.0},
         "ParametricSoftplus": {"alpha": 2.0, "beta": 0.5}, "ImageScaler": {"scale": 2.0, "bias": [1.0, 2.0, 3.0]},
         "Crop": {"border": [1, 0, 2, 1]}, "ThresholdedRelu": {"alpha": 0.5}}


@pytest.mark.parametrize("op", EARLY)
def test_operators_that_onnx_had_for_trial(tmp_path, op):
    check_node(tmp_path, op, {"x": floats(2, 3, 5, 6)}, EARLY[op], domain="", opset=9)


def test_early_operators_with_other_inputs(tmp_path):
    check_node(tmp_path, "Crop", {"x": floats(2, 3, 5, 6)}, {"border": [1, 0, 2, 1], "scale": [2, 3]}, domain="", opset=9)
    given = {"x": floats(4, 5), "starts": np.array([1, 0], np.int64), "ends": np.array([3, -1], np.int64),
             "axes": np.array([0, 1], np.int64)}
    check_node(tmp_path, "DynamicSlice", given, {}, domain="", opset=9)


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 5, 7, 7)])
def test_inverse(tmp_path, shape):
    check_node(tmp_path, "Inverse", {"x": floats(*shape) + 3 * np.eye(shape[-1], dtype=np.float32)}, {}, tolerance=1e-4)
    check_node(tmp_path, "Inverse", {"x": floats(*shape).astype(np.float64)}, {}, tolerance=1e-9)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (9, 2)])
@pytest.mark.parametrize("known", [True, False])
def test_crop_and_resize(tmp_path, mode, size, known):
    inputs = {"x": floats(2, 3, 6, 7), "boxes": RNG.uniform(-0.2, 1.2, (5, 4)).astype(np.float32),
              "images": np.array([0, 1, 1, 0, 1], np.int32), "size": np.array(size, np.int32)}
    check_node(tmp_path, "CropAndResize", inputs, {"mode": mode, "extrapolation_value": 0.5}, constants=("size",) if known else ())


@pytest.mark.parametrize("size", [1, 2, 3, 9])
def test_ngram_repeat_block(tmp_path, size):
    inputs = {"ids": RNG.integers(0, 4, (3, 8)), "scores": floats(3, 5)}
    check_node(tmp_path, "NGramRepeatBlock", inputs, {"ngram_size": size})


@pytest.mark.parametrize("positive", [0, 1])
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64])
def test_murmur_hash(tmp_path, positive, kind):
    check_node(tmp_path, "MurmurHash3", {"x": RNG.integers(0, 1 << 30, (3, 4)).astype(kind)}, {"positive": positive, "seed": 7})
    strings("MurmurHash3", ["", "a", "ab", "abc", "abcd", "abcde", "longer text, é"], {"positive": positive})


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1), (6, 9), (1, 7, 5)])
@pytest.mark.parametrize("ties", [False, True])
def test_dynamic_time_warping(tmp_path, shape, ties):
    check_node(tmp_path, "DynamicTimeWarping", {"x": np.round(floats(*shape)) if ties else floats(*shape)}, {})


@pytest.mark.parametrize("rank", [2, 3])
def test_products_of_16_bit_integers(tmp_path, rank):
    a, b = (RNG.integers(-300, 300, (2,) * (rank - 2) + shape).astype(np.int16) for shape in ((5, 7), (7, 3)))
    check_node(tmp_path, "MatMulInteger16", {"a": a, "b": b}, {})


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("size, step", [(1, 1), (3, 2), (4, 1)])
def test_unfold_tensor(tmp_path, dim, size, step):
    check_node(tmp_path, "UnfoldTensor", {"x": floats(4, 6, 5)}, {"dim": dim, "size": size, "step": step})


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_transposed_convolution_with_pads_as_input(tmp_path, axes, known):
    inputs = {"x": floats(1, 4, *[6, 7][:axes]), "w": floats(4, 3, *[3, 4][:axes]),
              "pads": np.array([1, 0, 2, 1] if axes == 2 else [1, 2], np.int64), "b": floats(3)}
    check_node(tmp_path, "ConvTransposeWithDynamicPads", inputs, {"strides": [2] * axes, "output_padding": [1] * axes},
               constants=("w", "b", "pads") if known else ("w", "b"))


@pytest.mark.parametrize("form", ["plain", "past", "last", "dilated"])
def test_causal_convolution_with_a_state(tmp_path, form):
    channels, taps, dilation = 6, 4, 2 if form == "dilated" else 1
    state = (taps - 1) * dilation
    x, past = floats(B, channels, 9), floats(B, channels, state)
    if form == "last":
        x, past = (np.ascontiguousarray(t.swapaxes(1, 2)) for t in (x, past))
    inputs = {"x": x, "w": floats(channels, 1, taps), "b": floats(channels), "past": None if form == "plain" else past}
    attributes = {"activation": "silu" if form == "past" else "none"}
    if form in ("last", "dilated"):
        attributes |= {"channels_last": 1} if form == "last" else {"dilation": 2}
    check_node(tmp_path, "CausalConvWithState", inputs, attributes, outputs=2, constants=("w", "b"))


def test_gates_of_sequence_models(tmp_path):
    a, b = floats(B, S, 4), floats(B, S, 4)
    check_node(tmp_path, "LinearAttentionGate", {"a": a, "bias": floats(4), "scale": -np.abs(floats(4)), "b": b}, {}, outputs=2)
    check_node(tmp_path, "GatedAdd", {"x": floats(B, S, 8), "y": floats(B, S, 8), "gate": floats(B, S, 1)}, {})
    check_node(tmp_path, "ScaledSiLU", {"x": floats(B, S, 8)}, {"alpha": 1.5})
    check_node(tmp_path, "ScaledSiLU", {"x": floats(B, S, 8), "scale": np.array(0.5, np.float32)}, {})
    for activation in ("silu", "swish", "sigmoid"):
        inputs = {"x": floats(B, S, 16), "scale": floats(8), "gate": floats(B, S, 16)}
        check_node(tmp_path, "GatedRMSNorm", inputs, {"activation": activation, "epsilon": 1e-3}, constants=("scale",))


@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding_by_three_positions(tmp_path, layout, rank, interleaved):
    heads, half, steps = 2, 8, 5
    angles = np.outer(np.arange(20), 1 / 100 ** (np.arange(half) / half)).astype(np.float32)
    inputs = {"x": floats(B, steps, heads * 2 * half) if rank == 3 else floats(B, heads, steps, 2 * half),
              "positions": RNG.integers(0, 20, (3, B, steps)), "cos": np.cos(angles), "sin": np.sin(angles)}
    attributes = {"mrope_section": [4, 2, 2], "mrope_layout": layout, "interleaved": interleaved, "num_heads": heads if rank == 3 else 0}
    check_node(tmp_path, "MRotaryEmbedding", inputs, attributes, constants=("cos", "sin"))


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("queries, keys, values", [(4, 4, 4), (4, 2, 2), (2, 2, 4)])
@pytest.mark.parametrize("past", [False, True])
def test_linear_attention(tmp_path, rule, queries, keys, values, past):
    dk, dv = 8, 6
    inputs = {"q": floats(B, S, queries * dk), "k": floats(B, S, keys * dk) / 4, "v": floats(B, S, values * dv),
              "past": floats(B, values, dk, dv) if past else None,
              "decay": -np.abs(floats(B, S, values * (dk if past else 1))) if "gated" in rule else None,
              "beta": np.abs(floats(B, S, 1 if past else values)) / 4 if "delta" in rule else None}
    check_node(tmp_path, "LinearAttention", inputs, {"q_num_heads": queries, "kv_num_heads": values, "update_rule": rule}, outputs=2)


@pytest.mark.parametrize("version", [1, 2, 4])
@pytest.mark.parametrize("text", [False, True])
def test_category_mapper(tmp_path, version, text):
    x = np.array(["b", "a", "zz", "c"], dtype=object) if text else np.array([7, 0, 5, -9], np.int64)
    value = helper.make_tensor_value_info("x", TensorProto.STRING if text else TensorProto.INT64, [4])
    node = helper.make_node("CategoryMapper", ["x"], ["y"], domain="ai.onnx.ml", cats_strings=["a", "b", "c"], cats_int64s=[5, 0, 7],
                            **({"default_int64": -3} if text else {"default_string": "?"}))
    model = helper.make_model(helper.make_graph([node], "g", [value], [helper.make_empty_tensor_value_info("y")]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", version)])
    want = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    got = smelt.Session(model, tuning_level=0).run(None, {"x": x})[0]
    assert got.dtype == want.dtype and np.array_equal(got, want)


EXPERTS, WIDE, INNER = 4, 32, 64


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity", "swiglu"])
@pytest.mark.parametrize("k, normalised", [(1, 0), (2, 1), (3, 0)])
@pytest.mark.parametrize("biased", [False, True])
def test_mixture_of_experts(tmp_path, activation, k, normalised, biased):
    gated = activation == "swiglu"
    inputs = {"x": floats(B, S, WIDE), "router": floats(B * S, EXPERTS), "w1": floats(EXPERTS, INNER * (1 + gated), WIDE) / 5,
              "b1": floats(EXPERTS, INNER * (1 + gated)) if biased else None, "w2": floats(EXPERTS, WIDE, INNER) / 5,
              "b2": floats(EXPERTS, WIDE) if biased else None}
    attributes = {"k": k, "activation_type": activation, "normalize_routing_weights": normalised}
    if gated:
        attributes |= {"swiglu_fusion": 1, "activation_alpha": 1.5, "activation_beta": 1.0, "swiglu_limit": 2.0}
    check_node(tmp_path, "MoE", inputs, attributes, constants=("w1", "b1", "w2", "b2"), tolerance=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("block", [0, 32])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("gated", [False, True])
def test_mixture_of_experts_in_bits(tmp_path, bits, block, zeros, gated):
    rows = [(INNER * (1 + gated), WIDE), (WIDE, INNER)]

    def table(n, k, of):
        shape = (EXPERTS, n, k // block) if block else (EXPERTS, n)
        if of == "scales":
            return np.abs(floats(*shape)) / 50
        return packed(RNG.integers(0, 1 << bits, shape), bits) if zeros else None
    inputs = {"x": floats(B * S, WIDE), "router": floats(B * S, EXPERTS)}
    for i, (n, k) in enumerate(rows, 1):
        inputs |= {f"w{i}": packed(RNG.integers(0, 1 << bits, (EXPERTS, n, k)), bits), f"s{i}": table(n, k, "scales"),
                   f"b{i}": floats(EXPERTS, n)}
    inputs |= {"w3": None, "s3": None, "b3": None, "z1": table(*rows[0], "zeros"), "z2": table(*rows[1], "zeros")}
    attributes = {"k": 2, "activation_type": "swiglu" if gated else "silu", "expert_weight_bits": bits, "normalize_routing_weights": 1}
    if block:
        attributes["block_size"] = block
    if gated:
        attributes["swiglu_fusion"] = 1
    constants = [n for n in inputs if n[0] in "wsbz"]
    if not (bits == 8 and block):
        return check_node(tmp_path, "QMoE", inputs, attributes, constants=constants, tolerance=1e-3)
    # ONNX Runtime rounds activations to 8 bits there: held to MoE by the same weights as floats.
    feeds, wide = {n: inputs[n] for n in ("x", "router")}, {n: inputs[n] for n in ("x", "router")}
    for i, (n, k) in enumerate(rows, 1):
        of_block = (EXPERTS, n, k // block, block)
        zero = inputs[f"z{i}"][..., None].astype(np.float32) if zeros else 128
        floats_of = (inputs[f"w{i}"].reshape(of_block).astype(np.float32) - zero) * inputs[f"s{i}"][..., None]
        wide |= {f"w{i}": floats_of.reshape(EXPERTS, n, k).astype(np.float32), f"b{i}": inputs[f"b{i}"]}
    of_floats = {n: a for n, a in attributes.items() if n not in ("expert_weight_bits", "block_size")}
    want = smelt.Session(model_of("MoE", wide, of_floats), tuning_level=0).run(None, wide)[0]
    got = smelt.Session(model_of("QMoE", inputs, attributes, constants=constants), tuning_level=0).run(None, feeds)[0]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


TRANSFORMER = """<ir_version: 8, opset_import: ["" : 13]> g (float[1, 6, 64] x) => (float[1, 6, 64] y) {
    a = Tanh(x) mean = ReduceMean <axes = [-1]> (a) d = Sub(a, mean) sq = Pow(d, two)
    var = ReduceMean <axes = [-1]> (sq) ve = Add(var, e) s = Sqrt(ve) n = Div(d, s)
    ng = Mul(n, gamma) norm = Add(ng, beta) h0 = MatMul(norm, w1) h1 = Add(h0, b1)
    q = Div(h1, r) er = Erf(q) e1 = Add(er, one) h2 = Mul(h1, e1) h = Mul(h2, half) o0 = MatMul(h, w2) o = Add(o0, b2)
    y = Add(o, a) }"""
IMAGE = """<ir_version: 8, opset_import: ["" : 13]> g (float[1, 8, 12, 12] x) => (float[1, 6] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1) b = Relu(a) c = Conv <pads = [1, 1, 1, 1]> (b, w3, b3) d = Add(c, b) e = Sigmoid(d)
    p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e) m = GlobalAveragePool(p) f = Flatten(m) y = Gemm <transB = 1> (f, w2, b2) }"""


@pytest.fixture(scope="module")
def tools():
    spec = importlib.util.spec_from_file_location("tools", ROOT / "bench/tools.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("tool", ["ort_basic", "ort_extended", "transformers", "transformers_fp16", "fp16", "dynamic", "dynamic_s8",
                                  "dynamic_optimised", "qdq_s8", "qdq_optimised", "qoperator", "qoperator_s8",
                                  "qoperator_optimised", "initializers_as_inputs", "opset17", "opset21"])
@pytest.mark.parametrize("text", [TRANSFORMER, IMAGE], ids=["transformer", "image"])
def test_what_tools_write_runs_on_kernels(tmp_path, command, tools, text, tool):
    model = onnx.parser.parse_model(text)
    for i, node in enumerate(model.graph.node):   # the converter to float16 goes by names
        node.name = f"node{i}"
    shapes = {"gamma": [64], "beta": [64], "w1": [64, 128], "b1": [128], "w2": [128, 64], "b2": [64]} if text is TRANSFORMER else \
        {"w1": [8, 8, 3, 3], "b1": [8], "w3": [8, 8, 3, 3], "b3": [8], "w2": [6, 8], "b2": [6]}
    model.graph.initializer.extend(numpy_helper.from_array(floats(*shape) / 8, name) for name, shape in shapes.items())
    numbers = {"two": 2, "e": 1e-5, "r": 2**0.5, "half": 0.5, "one": 1} if text is TRANSFORMER else {}
    model.graph.initializer.extend(numpy_helper.from_array(np.float32(x), name) for name, x in numbers.items())
    source, path = tmp_path / "m.onnx", tmp_path / f"m.{tool}.onnx"
    onnx.save(model, source)
    feeds = {"x": floats(*(d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim))}
    np.savez(source.with_suffix(".inputs.npz"), **feeds)
    why = tools.write(source, tool, path)
    if why == "leaves it as it was":
        return
    assert why is None
    check(tmp_path, onnx.load(path), feeds, 2e-5 if tool.startswith(("ort", "opset", "init")) or tool == "transformers" else 5e-2,
          command)


def test_nodes_that_a_tool_left_unsorted(tmp_path):
    """onnxruntime's converter to float16 puts the casts of inputs behind the nodes that read them."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    nodes = [helper.make_node("Neg", ["b"], ["y"]), helper.make_node("Exp", ["a"], ["b"]), helper.make_node("Abs", ["x"], ["a"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    check(tmp_path, model, {"x": floats(2, 3)})


@pytest.mark.parametrize("attributes, inputs, said", [
    ({"do_rotary": 1}, {}, "do_rotary is 1, expected 0"),
    ({"past_present_share_buffer": 1}, {}, "past_present_share_buffer is 1, expected 0"),
    ({}, {"mask": np.ones((B, 1, S, S), np.int32)}, "has rank 4, expected 1 to 3"),
])
def test_what_is_not_supported_is_named(tmp_path, attributes, inputs, said):
    given = {"x": floats(B, S, 24), "w": floats(24, 3 * HIDDEN), "b": floats(3 * HIDDEN), **inputs}
    path = pathlib.Path(tmp_path) / "m.onnx"
    onnx.save(model_of("Attention", given, {"num_heads": HEADS, **attributes}), path)
    with pytest.raises(smelt.UnsupportedError, match=f"'node' \\(com.microsoft::Attention\\): .*{said}"):
        smelt.Session(path)


REFUSED = [
    ("Inverse", {"x": (2, 3)}, {}, "expected square matrices"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 3), "images": (5,), "size": (2,)}, {}, "expected \\[boxes, 4\\]"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 4), "images": (4,), "size": (2,)}, {}, "for 5 boxes"),
    ("CropAndResize", {"x": (2, 3, 6, 7), "boxes": (5, 4), "images": (5,), "size": (2,)}, {"mode": "cubic"}, "expected 'bilinear'"),
    ("NGramRepeatBlock", {"ids": (3, 8), "scores": (2, 5)}, {"ngram_size": 2}, "expected the same batch"),
    ("NGramRepeatBlock", {"ids": (3, 8), "scores": (3, 5)}, {"ngram_size": 0}, "expected 1 or more"),
    ("DynamicTimeWarping", {"x": (2, 3, 4)}, {}, "expected \\[M, N\\]"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 4, 8), "v": (2, 5, 8)}, {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear"},
     "expected \\[B, T, width\\]"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 5, 8), "v": (2, 5, 8)}, {"q_num_heads": 3, "kv_num_heads": 2, "update_rule": "linear"},
     "expected one to divide the other"),
    ("LinearAttention", {"q": (2, 5, 8), "k": (2, 5, 8), "v": (2, 5, 8)}, {"q_num_heads": 2, "kv_num_heads": 2}, "needs input 4"),
    ("MoE", {"x": (5, 8), "router": (4, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {}, "expected \\[5, experts\\]"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 7), "b1": None, "w2": (3, 8, 8)}, {}, "expected \\[3, 8, 8\\]"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {"k": 4}, "k is 4 of 3 experts"),
    ("MoE", {"x": (5, 8), "router": (5, 3), "w1": (3, 8, 8), "b1": None, "w2": (3, 8, 8)}, {"activation_type": "swiglu"},
     "swiglu_fusion is 0"),
    ("UnfoldTensor", {"x": (4, 5)}, {"dim": 2, "size": 1}, "dim is 2 of rank 2"),
    ("UnfoldTensor", {"x": (4, 5)}, {"dim": 1, "size": 0}, "size 0"),
    ("ConvTransposeWithDynamicPads", {"x": (1, 4, 6), "w": (4, 3, 3), "pads": (3,)}, {}, "has 3 elements|have 3 elements"),
    ("CausalConvWithState", {"x": (1, 4, 6), "w": (4, 1, 3)}, {"dilation": 1 << 62}, "dilation is"),
    ("MRotaryEmbedding", {"x": (1, 2, 3, 8), "p": (3, 1, 3), "cos": (9, 4), "sin": (9, 4)}, {"mrope_section": [4, 4, 4]}, "whose sum"),
]
INTEGERS = {"images": np.int32, "size": np.int32, "ids": np.int64, "pads": np.int64, "p": np.int64}


@pytest.mark.parametrize("op, shapes, attributes, said", REFUSED, ids=[f"{i}-{row[0]}" for i, row in enumerate(REFUSED)])
def test_wrong_shapes_and_attributes_are_named(op, shapes, attributes, said):
    inputs = {n: None if s is None else np.ones(s, INTEGERS.get(n, np.float32)) for n, s in shapes.items()}
    outputs = 2 if op in ("LinearAttention", "CausalConvWithState") else 1
    with pytest.raises(smelt.Error, match=said):
        smelt.Session(model_of(op, inputs, attributes, outputs, constants=("w", "size")), tuning_level=0).run(None, {
            n: x for n, x in inputs.items() if x is not None and n not in ("w", "size")})


@pytest.mark.parametrize("op, inputs, attributes, said", [
    ("Inverse", {"x": np.ones((1, 2, 2), np.float32)}, {}, "matrix 0 has no inverse"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([2], np.int32),
                       "size": np.array([2, 2], np.int32)}, {}, "is of image 2, expected 0 to 1"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([0], np.int32),
                       "size": np.array([0, 2], np.int32)}, {}, "expected 1 or more"),
    ("CropAndResize", {"x": np.ones((2, 1, 3, 3), np.float32), "boxes": np.ones((1, 4), np.float32), "images": np.array([0], np.int32),
                       "size": np.array([2**31 - 1, 2**31 - 1], np.int32)}, {}, "memory|elements|bytes"),
    ("NGramRepeatBlock", {"ids": np.array([[9, 9, 9]]), "scores": np.ones((1, 5), np.float32)}, {"ngram_size": 2}, "token 9 at"),
])
def test_wrong_values_are_named(op, inputs, attributes, said):
    session = smelt.Session(model_of(op, inputs, attributes), tuning_level=0)
    with pytest.raises(smelt.Error, match=said):
        session.run(None, inputs)


def test_places_that_are_no_numbers_lie_outside():
    inputs = {"x": np.ones((1, 1, 3, 3), np.float32), "boxes": np.array([[np.nan, 0, np.inf, 1]], np.float32), "images": np.zeros(1, np.int32),
              "size": np.array([3, 3], np.int32)}
    got = smelt.Session(model_of("CropAndResize", inputs, {"extrapolation_value": 7.0}), tuning_level=0).run(None, inputs)[0]
    assert np.all(got == 7)


def kernels_of_onnx_runtime():
    """The operators that it registers for its processor: names by domain, with the newest version that a kernel takes."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state
    newest = {}
    for kernel in state.get_all_opkernel_def():
        if kernel.provider == "CPUExecutionProvider" and kernel.domain in ("", "ai.onnx.ml", "com.microsoft"):
            key = kernel.domain, kernel.op_name
            newest[key] = max(newest.get(key, 0), kernel.version_range[0])
    schemas = {}
    for schema in state.get_all_operator_schema():
        schemas.setdefault((schema.domain, schema.name), []).append(schema)
    return newest, schemas


def test_what_onnx_runtime_runs_runs_or_is_listed_with_a_reason():
    newest, schemas = kernels_of_onnx_runtime()
    text = (ROOT / "docs/onnxruntime.md").read_text().split("## Refused")[1].split("\n## ")[0]
    refused = {name for row in re.findall(r"^\| ([A-Za-z0-9, ]+) \|", text, re.MULTILINE) for name in row.split(", ")}
    unknown = set()
    for (domain, op), since in newest.items():
        # ONNX's operators for trial are of the opsets below 10.
        known = [s for s in schemas.get((domain, op), []) if s.since_version <= since]
        count = max((s.min_input for s in known), default=1)
        values = [helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, ["n"]) for i in range(max(count, 1))]
        opset = 8 if not domain and since < 7 else since if not domain else 17
        node = helper.make_node(op, [v.name for v in values], ["y"], domain=domain)
        model = helper.make_model(
            helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info("y")]), ir_version=9,
            opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", since if domain == "ai.onnx.ml" else 3),
                           helper.make_opsetid("com.microsoft", 1)])
        try:
            smelt.Session(model, tuning_level=0)
        except smelt.Error as e:
            if "smelt cannot run" in str(e):
                unknown.add(op)
    assert len(newest) > 250
    assert unknown - refused == set(), "neither run nor stand in docs/onnxruntime.md with a reason"
    assert refused - unknown - {"operators"} == set(), "run: take them off docs/onnxruntime.md"
