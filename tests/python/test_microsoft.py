"""Operators of com.microsoft, as ONNX Runtime's tools write them: what ONNX Runtime computes, on kernels, or a refusal that says why."""
import importlib.util
import json
import pathlib
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
