// Parts of gated linear attention and of state-space models: CausalConvWithState, the gates around LinearAttention, rotary embedding by
// three positions.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

Name swapped(Call& c, const Name& x) {
  return c.before("Transpose", {x}, {MakeAttribute("perm", std::vector<int64_t>{0, 2, 1})});
}

/// x times its sigmoid.
Name silu(Call& c, const Name& x) { return c.before("Mul", {x, c.before("Sigmoid", {x})}); }

}  // namespace

// input [B, C, L], weight [C, 1, k], bias?, past [B, C, (k - 1) * dilation]? → output [B, C, L], what the next call gets as past
void causal_conv_with_state(Call& c) {
  if (const int64_t axes = c.integer("ndim", 1); axes != 1) c.refuse("ndim is {}, expected 1", axes);
  c.refuse_flag("state_window");
  const bool last = c.integer("channels_last", 0) != 0;
  const int64_t dilation = c.integer("dilation", 1);
  const auto taps = c.extent(1, 2), channels = c.extent(1, 0);
  if (!taps || !channels) c.refuse("the extents of its weights '{}' are not known", c.input(1));
  constexpr int64_t longest = int64_t{1} << 40;
  if (dilation < 1 || *taps < 1 || *taps > longest / dilation) c.refuse("dilation is {} for {} taps", dilation, *taps);
  const int64_t state = (*taps - 1) * dilation;
  const Name x = last ? swapped(c, c.input(0)) : c.input(0);
  const Name whole =
      c.has(3) ? c.before("Concat", {last ? swapped(c, c.input(3)) : c.input(3), x}, {MakeAttribute("axis", int64_t{2})})
               : c.before("Pad", {x, c.constant({0, 0, state, 0, 0, 0})});
  std::vector<Name> inputs{whole, c.input(1)};
  if (c.has(2)) inputs.push_back(c.input(2));
  Name y =
      c.before("Conv", inputs, {MakeAttribute("group", *channels), MakeAttribute("dilations", std::vector<int64_t>{dilation})});
  if (const std::string activation = c.text("activation", "none"); activation == "silu" || activation == "swish")
    y = silu(c, y);
  else if (activation != "none")
    c.refuse("activation is '{}', expected none, silu or swish", activation);
  const Name length = extent_of(c, whole, 2);
  const Name kept = c.before("Slice", {whole, c.before("Sub", {length, c.constant({state})}), length, c.constant({2})});
  c.give(1, last ? swapped(c, kept) : kept);
  c.become("Identity", {last ? swapped(c, y) : y});
}

// a, dt_bias, decay_scale, b? → decay_scale * softplus(a + dt_bias), sigmoid(b)
void linear_attention_gate(Call& c) {
  if (c.wants(1)) {
    if (!c.has(3)) c.refuse("its output 1 (beta) needs its input 3 (b)");
    c.give(1, c.before("Sigmoid", {c.input(3)}));
  }
  const auto wide = [&](int i) {
    return c.before("Cast", {c.input(i)}, {MakeAttribute("to", int64_t{onnx::TensorProto::FLOAT})});
  };
  const Name soft = c.before("Softplus", {c.before("Add", {wide(0), c.input(1)})});
  c.become("CastLike", {c.before("Mul", {soft, c.input(2)}), c.input(0)});
}

// The RMS norm of each C elements of x, C being the length of the scale, times an activation of the gate.
void gated_rms_norm(Call& c) {
  const auto width = c.extent(1, 0);
  if (!width) c.refuse("the extent of its scale '{}' is not known", c.input(1));
  const Name shape = c.before("Shape", {c.input(0)});
  const Name rows = c.before("Reshape", {c.input(0), c.constant({-1, *width})});
  const Name norm = c.before("SimplifiedLayerNormalization", {rows, c.input(1)},
                             {MakeAttribute("axis", int64_t{-1}), MakeAttribute("epsilon", c.number("epsilon", 1e-5f))});
  const std::string activation = c.text("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    c.refuse("activation is '{}', expected silu, swish or sigmoid", activation);
  const Name gate = activation == "sigmoid" ? c.before("Sigmoid", {c.input(2)}) : silu(c, c.input(2));
  c.become("Mul", {c.before("Reshape", {norm, shape}), gate});
}

// X + Y * gate
void gated_add(Call& c) { c.become("Add", {c.input(0), c.before("Mul", {c.input(1), c.input(2)})}); }

// z = x * scale, z * sigmoid(z)
void scaled_silu(Call& c) {
  const Name by =
      c.has(1) ? c.before("CastLike", {c.input(1), c.input(0)}) : c.score_scalar(static_cast<double>(c.number("alpha", 1)));
  c.become("Identity", {silu(c, c.before("Mul", {c.input(0), by}))});
}

// x, positions [3, B, S], cos [rows, half], sin: the angles of an element are by the position (of time, height or width) that
// mrope_section gives it.
void multimodal_rotary_embedding(Call& c) {
  c.refuse_flag("is_packed_batching");
  if (const float by = c.number("scale", 1); by != 1) c.refuse("scale is {}, expected 1", by);
  const auto sections = c.integers("mrope_section").value_or(std::vector<int64_t>());
  const auto half = c.extent(2, 1);
  if (sections.size() != 3 || !half)
    c.refuse("mrope_section has {} elements, expected 3, or its cos_cache no known width", sections.size());
  if (std::ranges::any_of(sections, [&](int64_t s) { return s < 0 || s > *half; }) ||
      sections[0] + sections[1] + sections[2] != *half)
    c.refuse("mrope_section has {}, {} and {}, whose sum is not the cos_cache's width of {}", sections[0], sections[1],
             sections[2], *half);
  std::vector<size_t> position(static_cast<size_t>(*half), 0);  // which of the three
  if (c.integer("mrope_layout", 0) == 0) {
    for (int64_t i = sections[0]; i < *half; ++i) position[static_cast<size_t>(i)] = i < sections[0] + sections[1] ? 1 : 2;
  } else {
    for (size_t of : {size_t{1}, size_t{2}})
      for (size_t i = of; i < static_cast<size_t>(std::min(3 * sections[of], *half)); i += 3) position[i] = of;
  }
  const auto angles = [&](int cache) {
    const Name all = c.before("Gather", {c.input(cache), c.input(1)});  // [3, B, S, half]
    std::vector<float> chosen(3 * position.size(), 0);
    for (size_t i = 0; i < position.size(); ++i) chosen[position[i] * position.size() + i] = 1;
    const Name mask = c.before("CastLike", {c.keep(Tensor::of<float>({3, 1, 1, *half}, chosen)), c.input(0)});
    return c.before("ReduceSum", {c.before("Mul", {all, mask}), c.constant({0})}, {MakeAttribute("keepdims", int64_t{0})});
  };
  std::vector<onnx::AttributeProto> attributes{MakeAttribute("interleaved", c.integer("interleaved", 0))};
  if (c.rank(0) == 3) {
    const int64_t heads = c.integer("num_heads", 0);
    if (heads < 1) c.refuse("num_heads is {} for an input of rank 3, expected 1 or more", heads);
    attributes.push_back(MakeAttribute("num_heads", heads));
  }
  if (const int64_t size = c.integer("rotary_embedding_dim", 0); size > 0)
    attributes.push_back(MakeAttribute("rotary_embedding_dim", size));
  c.become("RotaryEmbedding", {c.input(0), angles(2), angles(3)}, attributes);
}

}  // namespace smelt::importer::microsoft
