#include "ops/conv/int8_problem.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/conv/conv.h"
#include "ops/core/channel_blocks.h"
#include "ops/core/channels_last.h"
#include "ops/core/quantized_program.h"
#include "ops/core/strides.h"

namespace smelt::ops::conv {
namespace {

/// Where an operator keeps its parameters.
struct Positions {
  size_t x, w, b, x_scale, x_zero, w_scale, w_zero, operands;
};

Positions positions(const Node& n) {
  if (n.domain == smelt_domain) {
    const auto k = static_cast<size_t>(n.get_int("segments", 1));
    return {0, k, k + 1, k + 2, k + 3, k + 4, k + 5, k + 6};
  }
  return {0, 3, 8, 1, 2, 4, 5, 9};
}

/// All of the problem but its window and its quantization.
Request request_of(const BoundNode& b, const std::shared_ptr<Node>& node, const Arguments& at, int threads) {
  Request r;
  r.node = b;
  r.node.node = node.get();
  r.own = node;
  r.at = at;
  r.threads = threads;
  Problem& p = r.problem;
  p.input = b.inputs[at.x].type;
  p.output = b.outputs[0].type;
  for (size_t i = 0; i < at.segments; ++i) p.x.push_back({b.inputs[at.x + i].shape, 1, gaps(b.inputs[at.x + i])});
  p.w = b.inputs[at.w].shape;
  p.y = b.outputs[0].shape;
  p.y_strides = gaps(b.outputs[0]);
  p.group = node->get_int("group", 1);
  p.from = b.inputs[at.x].layout;
  p.to = b.outputs[0].layout;
  return r;
}

/// f(output channel, weight less its zero point) of all weights, as they lie.
template <class F> void each_weight(const Request& r, F&& f) {
  const Tensor& w = r.weight().constant;
  const std::vector<int32_t>& zeros = r.quantization().b_zeros;
  const int64_t outputs = r.problem.outputs(), each = elements(w.shape()) / std::max<int64_t>(outputs, 1);
  const auto all = [&](const auto* at) {
    for (int64_t m = 0; m < outputs; ++m) {
      const int32_t zero = zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(m)];
      for (int64_t i = 0; i < each; ++i) f(m, *at++ - zero);
    }
  };
  w.type() == DType::u8 ? all(w.data<uint8_t>()) : all(w.data<int8_t>());
}

void set_window(Problem& p, const Node& n) {
  const Window w = window_of(n, spatial_of(p.w), spatial_of(p.x[0].shape));
  p.stride = w.stride;
  p.dilation = w.dilation;
  p.pad_begin = w.pad_begin;
  p.pad_end = w.pad_end;
}

}  // namespace

Result<Request> int8_request(const BoundNode& b, int threads) {
  const Node& n = *b.node;
  const Positions at = positions(n);
  const bool onnx = n.domain != smelt_domain;
  const auto constant = [&](size_t i) { return i < b.inputs.size() ? b.inputs[i].constant : Tensor{}; };
  const auto left_out = [&](size_t i) { return i >= b.inputs.size() || b.inputs[i].type == DType::undefined; };
  if (onnx && (!constant(6).valid() || (!left_out(7) && !constant(7).valid())))
    return refuse(Reason::not_constant, "the output's scale or zero point is not constant");
  for (size_t i : {at.b, at.w_zero})
    if (!left_out(i) && !constant(i).valid()) return refuse(Reason::not_constant, "the bias or a zero point is not constant");
  const size_t segments = onnx ? 1 : at.w;
  const bool computed_zero = !left_out(at.x_zero) && !constant(at.x_zero).valid();
  if (computed_zero && (onnx || segments > 1 || elements(b.inputs[at.x_zero].shape) != 1))
    return refuse(Reason::not_constant, "the image's zero point is not constant");
  for (size_t i : {at.w, at.x_scale, at.w_scale})
    if (!constant(i).valid()) return refuse(Reason::not_constant, "the weight or a scale is not constant");

  Quantization q;
  if (computed_zero)
    q.a_zero_input = at.x_zero;
  else
    q.a_zero = left_out(at.x_zero) ? 0 : quantized_integers(constant(at.x_zero))[0];
  q.b_zeros = left_out(at.w_zero) ? std::vector<int32_t>{0} : quantized_integers(constant(at.w_zero));
  if (!left_out(at.b)) q.bias = quantized_integers(constant(at.b));
  const std::vector<float> x_scales = quantized_floats(constant(at.x_scale));
  const auto scaled_by = [&](float x_scale) {
    std::vector<float> scales = quantized_floats(constant(at.w_scale));
    for (float& s : scales) s *= x_scale;
    return scales;
  };
  q.scales = scaled_by(x_scales[0]);
  for (size_t i = 1; i < segments; ++i)
    q.more.push_back({left_out(at.x_zero) ? 0 : quantized_integers(constant(at.x_zero))[i], scaled_by(x_scales[i])});
  auto node = std::make_shared<Node>(n);
  if (onnx) {
    const float y_scale = quantized_floats(constant(6))[0];
    for (float& s : q.scales) s /= y_scale;
    node->program = round_and_saturate(b.outputs[0].type, left_out(7) ? 0 : quantized_integers(constant(7))[0]);
  }
  if (!node->program) node->program = expr::conversion(DType::f32, b.outputs[0].type);
  Request r = request_of(b, node, {.segments = segments, .x = at.x, .w = at.w, .b = b.inputs.size(), .operands = at.operands},
                         threads);  // the bias is in the sums
  Problem& p = r.problem;
  if (n.get_int("blocked", 0) != 0) {
    p.blocked = true;
    // The image as one of channels last, of whose pixels a block's channels lie side by side.
    BoundTensor& x = r.node.inputs[at.x];
    p.x[0].shape = x.shape = without_blocks(x.shape);
    p.y = without_blocks(p.y);
    if (!p.x[0].strides.empty() || !p.y_strides.empty() || p.from != Layout::plain || p.to != Layout::plain)
      return refuse(Reason::wrong_layout, "images in blocks that are slices, or lie in another order");
    x.strides.assign(x.shape.size(), channel_block);
    x.strides[1] = 1;
    for (size_t a = x.shape.size() - 1; a-- > 2;) x.strides[a] = x.strides[a + 1] * x.shape[a + 1];
    x.strides[0] = elements(x.shape) / std::max<int64_t>(x.shape[0], 1);
    p.from = p.to = Layout::nhwc;
  }
  set_window(p, n);
  p.quantization = std::move(q);
  return r;
}

Result<Request> integer_request(const BoundNode& b, int threads) {
  const auto left_out = [&](size_t i) { return !b.has(i); };
  if (!b.inputs[1].constant.valid()) return refuse(Reason::not_constant, "the weight is not constant");
  if (!left_out(3) && !b.inputs[3].constant.valid())
    return refuse(Reason::not_constant, "the weight's zero point is not constant");
  if (!left_out(2) && elements(b.inputs[2].shape) != 1) return refuse(Reason::wrong_shape, "several zero points of the image");
  Quantization q;
  if (!left_out(2) && b.inputs[2].constant.valid())
    q.a_zero = quantized_integers(b.inputs[2].constant)[0];
  else if (!left_out(2))
    q.a_zero_input = 2;
  q.b_zeros = left_out(3) ? std::vector<int32_t>{0} : quantized_integers(b.inputs[3].constant);
  const size_t none = b.inputs.size();
  Request r =
      request_of(b, std::make_shared<Node>(*b.node), {.segments = 1, .x = 0, .w = 1, .b = none, .operands = none}, threads);
  set_window(r.problem, *b.node);
  r.problem.quantization = std::move(q);
  return r;
}

ImageZero::ImageZero(const Request& r)
    : value_(r.quantization().a_zero), input_(r.quantization().a_zero_input), is_signed_(r.problem.input == DType::i8) {}

int32_t ImageZero::of(const Buffers& b) const {
  if (!input_) return value_;
  const void* zero = b.inputs[*input_];
  return is_signed_ ? *static_cast<const int8_t*>(zero) : *static_cast<const uint8_t*>(zero);
}

int64_t depth(const Problem& p) { return elements(p.w) / std::max<int64_t>(1, p.w[0]); }

int16_t int8_weight(const Request& r, int64_t m, int64_t c, int64_t tap) {
  const Shape& w = r.problem.w;
  int64_t taps = 1;
  for (size_t a = 2; a < w.size(); ++a) taps *= w[a];
  return r.quantization().less_zero(r.weight().constant, (m * w[1] + c) * taps + tap, m);
}

std::vector<float> int8_weights_as_floats(const Request& r) {
  std::vector<float> all;
  all.reserve(static_cast<size_t>(elements(r.problem.w)));
  each_weight(r, [&](int64_t, int32_t w) { all.push_back(static_cast<float>(w)); });
  return all;
}

bool has_narrow_weights(const Request& r) { return r.weight().type == DType::i8 && r.quantization().is_symmetric(); }

bool fit_8_bits(const Request& r) {
  const std::vector<int32_t>& zeros = r.quantization().b_zeros;
  return has_narrow_weights(r) ||
         (r.weight().type == DType::u8 && std::ranges::all_of(zeros, [](int32_t z) { return z == 128; }));
}

std::vector<int32_t> start_of_sums(const Request& r) {
  std::vector<int32_t> s = r.quantization().bias;
  s.resize(static_cast<size_t>(r.problem.outputs() + igemm::tile_columns), 0);
  return s;
}

std::vector<int32_t> sums_of_weights(const Request& r) {
  std::vector<int32_t> s(static_cast<size_t>(r.problem.outputs() + igemm::tile_columns), 0);
  each_weight(r, [&](int64_t m, int32_t w) { s[static_cast<size_t>(m)] += w; });
  return s;
}

std::optional<Refusal> rejects_float_sums(const Request& r, bool with_bias) {
  const Problem& p = r.problem;
  constexpr int64_t most_exact = int64_t{1} << 24;
  constexpr int64_t most_weights = int64_t{1} << 16;  // each offer looks at all of them, and a kernel keeps them as floats
  if (elements(p.w) > most_weights)
    return refuse(Reason::wrong_shape, "{} weights, more than {} kept as floats", elements(p.w), most_weights);
  const int32_t zero = r.quantization().a_zero, low = p.input == DType::i8 ? -128 : 0;
  const int64_t highest = ImageZero(r).is_computed() ? 255 : std::max(std::abs(low - zero), std::abs(low + 255 - zero));
  std::vector<int64_t> largest(static_cast<size_t>(p.outputs()), 0);
  each_weight(r, [&](int64_t m, int32_t w) { largest[static_cast<size_t>(m)] += highest * std::abs(w); });
  const std::vector<int32_t>& bias = r.quantization().bias;
  for (size_t m = 0; m < largest.size(); ++m) {
    if (with_bias && !bias.empty()) largest[m] += std::abs(int64_t{bias[bias.size() == 1 ? 0 : m]});
    if (largest[m] >= most_exact)
      return refuse(Reason::wrong_shape, "sums of up to {}, and floats are exact below {}", largest[m], most_exact);
  }
  return std::nullopt;
}

Key int8_packing(const Request& r, std::string_view form) {
  const std::vector<int32_t>& zeros = r.quantization().b_zeros;
  Key key(form);
  key.field(r.problem.w).option("g", r.problem.group);
  if (!r.quantization().is_symmetric()) key.option(",", Shape(zeros.begin(), zeros.end()));
  return key;
}

std::optional<Refusal> rejects_int8(const Request& r, bool wraps) {
  const Problem& p = r.problem;
  if (!igemm::supported()) return refuse(Reason::wrong_machine, "this CPU has no AVX2");
  if (auto why = rejects_sums(p.input, r.weight().type, wraps ? 1 : depth(p))) return why;
  if (p.spatial() != 2) return refuse(Reason::wrong_rank, "{} spatial axes; it knows 2", p.spatial());
  if (elements(p.y) == 0 || elements(p.w) == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  // The image's layout does not matter where it is copied. The output's does.
  if (!is_channels_last(r.node.outputs[0])) return refuse(Reason::wrong_layout, "output layout {}; it writes nhwc", name(p.to));
  if (auto why = rejects_operands(r.node.inputs.size() - std::min(r.node.inputs.size(), r.at.operands))) return why;
  return std::nullopt;
}

}  // namespace smelt::ops::conv
