"""com.microsoft's attention and what stands beside it in sequence models: what ONNX Runtime computes, on kernels."""
import numpy as np
import pytest
import smelt
from microsoft_models import HEADS, HIDDEN, MASKS, RNG, B, D, P, S, check_node, floats, model_of, packed

pytestmark = pytest.mark.usefixtures("own_numbers")


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
