// Convolutions of floats of few channels and few outputs a group, tap by tap: taps.h.
#include <limits>

#include "base/value_of.h"
#include "ops/conv/taps.h"
#include "ops/cpu/program_end.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops::conv {
namespace {

/// What comes behind the sums and the bias, where a row of one channel can have it by itself; nothing for other programs.
std::optional<igemm::Ending> ending_of(const Request& r) {
  const auto& program = r.node.node->program;
  if (!program) return igemm::Ending{};
  if (r.problem.output != DType::f32 || program->outputs().size() != 1 || program->input_count() != 1 ||
      program->type(0) != DType::f32)
    return std::nullopt;
  const ProgramEnd end = program_end(*program);
  if (end.argument != 0 || end.end.is_scaled || end.end.activation == igemm::Activation::hard_swish) return std::nullopt;
  return end.end;
}

class FloatTapsConv final : public Kernel {
 public:
  explicit FloatTapsConv(const Request& r)
      : taps_(r.problem, r.threads),
        end_(value_of(ending_of(r), "the end of a direct convolution")),
        at_(r.at),
        x_type_(r.problem.input),
        w_type_(r.weight().type),
        y_type_(r.problem.output) {
    if (r.node.has(r.at.b) && !r.node.constant(r.at.b)) computed_bias_ = r.node.inputs[r.at.b].type;
    if (const Tensor b = bias(r.node, r.at); b.valid()) bias_ = b.cast(DType::f32);
    const Tensor& w = r.weight().constant;
    if (!w.valid()) return;  // a run packs them
    const auto make = [&] {
      Tensor to = Tensor::empty(DType::f32, {outputs(), weights()});
      taps_.pack(w.cast(DType::f32).data<float>(), to.data<float>());
      return to;
    };
    packed_ = r.node.weights ? r.node.weights->packed(w, taps_.packing().text(), make) : make();
  }

  int64_t workspace() const override {
    return taps_.workspace() + computed_bytes() + aligned(computed_bias_ ? outputs() * 4 : 0);
  }

  void run(const Buffers& b) override {
    char* computed = static_cast<char*>(b.workspace) + taps_.workspace();
    const Operands operands =
        operands_of(b, reinterpret_cast<float*>(computed), reinterpret_cast<float*>(computed + computed_bytes()));
    const auto load = [&](int64_t at, int64_t n, float* to) -> const float* {
      if (x_type_ == DType::f32) return static_cast<const float*>(b.inputs[0]) + at;
      row_simd().load(required_float_kind(x_type_), static_cast<const uint16_t*>(b.inputs[0]) + at, nullptr, nullptr, to, n);
      return to;
    };
    taps_.run(operands.weights, b.workspace, load, [&](const TapsLines& l) {
      const float start = operands.bias ? operands.bias[l.channel] : 0;
      for (int64_t h = 0; h < l.lines; ++h) finish(l.sums + h * l.step, start, b.outputs[0], l.at + h * l.columns, l);
    });
  }

 private:
  int64_t outputs() const { return taps_.form().outputs; }
  int64_t weights() const { return taps_.form().depth(); }  // of an output

  /// The packed weights and the bias of a run; no bias: nullptr.
  struct Operands {
    const float *weights, *bias;
  };
  /// Of computed weights both what they are packed to and, where they are of 16 bits, what they are as floats.
  int64_t computed_bytes() const {
    return packed_.valid() ? 0 : aligned(outputs() * weights() * 4) * (w_type_ == DType::f32 ? 1 : 2);
  }
  Operands operands_of(const Buffers& b, float* weights_to, float* bias_to) const {
    const auto floats = [&](size_t input, DType type, int64_t count, float* to) {
      if (type == DType::f32) return static_cast<const float*>(b.inputs[input]);
      row_simd().load(required_float_kind(type), static_cast<const uint16_t*>(b.inputs[input]), nullptr, nullptr, to, count);
      return static_cast<const float*>(to);
    };
    Operands o{packed_.valid() ? packed_.data<float>() : weights_to, bias_.valid() ? bias_.data<float>() : nullptr};
    const int64_t count = outputs() * weights();
    if (!packed_.valid()) taps_.pack(floats(at_.w, w_type_, count, weights_to + aligned(count * 4) / 4), weights_to);
    if (computed_bias_) o.bias = floats(at_.b, *computed_bias_, outputs(), bias_to);
    return o;
  }

  void finish(const float* sums, float start, void* y, int64_t at, const TapsLines& l) const {
    constexpr float inf = std::numeric_limits<float>::infinity();
    float* to = y_type_ == DType::f32 ? static_cast<float*>(y) + at : l.row;
    float_taps().end(sums, start, end_.activation == igemm::Activation::clamp ? end_.low : -inf,
                     end_.activation == igemm::Activation::clamp ? end_.high : inf, l.columns, to);
    if (y_type_ != DType::f32)
      row_simd().scale(required_float_kind(y_type_), l.row, nullptr, nullptr, static_cast<uint16_t*>(y) + at, l.columns);
  }

  Taps taps_;
  igemm::Ending end_;
  Arguments at_;
  Tensor bias_;
  std::optional<DType> computed_bias_;
  DType x_type_, w_type_, y_type_;
  Tensor packed_;  // not valid() where weights are computed
};

std::optional<Refusal> rejects(const Request& r) {
  const Problem& p = r.problem;
  const BoundNode& b = r.node;
  if (!float_kind(p.input) || !float_kind(p.output) || !float_kind(b.inputs[r.at.w].type))
    return refuse(Reason::wrong_type, "taps: types {} > {}", smelt::name(p.input), smelt::name(p.output));
  if (b.has(r.at.b) && !float_kind(b.inputs[r.at.b].type))
    return refuse(Reason::wrong_type, "taps: a bias of {}", smelt::name(b.inputs[r.at.b].type));
  if (auto why = Taps::rejects(b, p, r.threads)) return why;
  if (!ending_of(r)) return refuse(Reason::unsupported, "taps: a program other than an activation of floats");
  return std::nullopt;
}

double estimate_us(const Request& r) {
  const double packed = r.weight().constant.valid() ? 0 : static_cast<double>(elements(r.problem.w));
  return Taps::estimate_us(r.problem, r.threads) + 1e-3 * packed;
}

}  // namespace

void offer_float_taps(const Request& r, Offer& offer) {
  if (!float_kind(r.problem.input)) return;  // others have kernels that know them
  if (auto why = rejects(r)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "taps", estimate_us(r), [r, node = *r.node.node] {
                                Request own = r;
                                own.node.node = &node;
                                return std::make_unique<FloatTapsConv>(own);
                              }});
}

}  // namespace smelt::ops::conv
