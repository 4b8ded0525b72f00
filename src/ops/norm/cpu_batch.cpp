// BatchNormalization by given statistics, on the processor: factors of the channels, then one sweep (x - mean) · factor + bias; of planes
// of f32 and f64 one line each.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/norm/offer.h"
#include "ops/norm/rows.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops {
namespace {

/// Parameters are in W: float, or double where all tensors are f64.
template <class W> class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const BoundNode& b, const expr::Program& program, const Shape& shape, const std::vector<Shape>& strides,
                  int64_t channels, int threads)
      : sweep_(program, shape, strides, threads), channels_(channels), epsilon_(b.node->get_float("epsilon", 1e-5f)) {
    const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
    if (x.type == dtype_of<W>::value && y.type == x.type && x.shape.size() > 1 && all_plain(b))
      plane_ = elements(x.shape) / std::max<int64_t>(1, x.shape[0] * channels);
    planes_ = x.shape.empty() ? 0 : x.shape[0] * channels;
    threads_ = useful_threads(threads, elements(x.shape));
    for (size_t i = 1; i < 5; ++i) types_.push_back(b.inputs[i].type);
  }
  int64_t workspace() const override { return 4 * parameter_bytes() + sweep_.workspace(); }
  bool in_place(size_t i) const override { return i == 0; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    W* p[4];  // scale, bias, mean, variance
    for (size_t i = 0; i < 4; ++i, memory += parameter_bytes()) {
      p[i] = reinterpret_cast<W*>(memory);
      if constexpr (std::is_same_v<W, double>)
        std::copy_n(static_cast<const double*>(b.inputs[i + 1]), channels_, p[i]);
      else
        copy_as_f32(p[i], 1, b.inputs[i + 1], 1, channels_, types_[i]);
    }
    for (int64_t c = 0; c < channels_; ++c)
      p[0][c] = static_cast<W>(static_cast<double>(p[0][c]) / std::sqrt(static_cast<double>(p[3][c]) + epsilon_));
    if (plane_ >= short_plane) return run_planes(b, p[0], p[1], p[2]);
    const void* const inputs[] = {b.inputs[0], p[2], p[0], p[1]};
    sweep_.run(inputs, b.outputs, memory);
  }

 private:
  static constexpr int64_t short_plane = 8;

  void run_planes(const Buffers& b, const W* factors, const W* biases, const W* means) const {
    const auto* x = static_cast<const W*>(b.inputs[0]);
    auto* y = static_cast<W*>(b.outputs[0]);
    const NormRow& row = *norm_row(dtype_of<W>::value);
    parallel(threads_, planes_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t plane = begin, c = begin % channels_; plane < end; ++plane, c = c + 1 == channels_ ? 0 : c + 1) {
        const auto mean = static_cast<double>(means[c]), factor = static_cast<double>(factors[c]),
                   bias = static_cast<double>(biases[c]);
        row.shift(x + plane * plane_, plane_, mean, factor, bias, y + plane * plane_);
      }
    });
  }

  int64_t parameter_bytes() const { return aligned(channels_ * static_cast<int64_t>(sizeof(W))); }

  Sweep sweep_;
  int64_t channels_, planes_ = 0, plane_ = 0;  // plane_: elements of one; 0 where they are no planes of W
  int threads_ = 1;
  double epsilon_;
  std::vector<DType> types_;
};

expr::Program program_of(DType x, DType y) {
  expr::Program p;
  const DType wide = x == DType::f64 ? x : DType::f32;
  const expr::Ref in = p.input(x), mean = p.input(wide), factor = p.input(wide), bias = p.input(wide);
  const expr::Ref centred = p.call(expr::Fn::sub, p.cast(in, wide), mean);
  p.output(p.cast(p.call(expr::Fn::add, p.call(expr::Fn::mul, centred, factor), bias), y));
  return p;
}

std::optional<Refusal> rejects(const BoundNode& b) {
  if (b.node->get_int("training_mode", 0) != 0) return refuse(Reason::wrong_attribute, "it trains");
  for (size_t o = 1; o < b.outputs.size(); ++o)
    if (b.outputs[o].type != DType::undefined) return refuse(Reason::unsupported, "it returns statistics");
  for (size_t i = 0; i < 5; ++i) {
    const DType t = b.inputs[i].type;
    if (b.inputs[0].type == DType::f64) {
      if (t != DType::f64) return refuse(Reason::wrong_type, "input {} is {} beside f64", i, name(t));
    } else if (t != DType::f32 && t != DType::f16 && t != DType::bf16)
      return refuse(Reason::wrong_type, "input {} is {}; expected f32, f16 or bf16", i, name(t));
    if (i > 0 && !is_dense(b.inputs[i])) return refuse(Reason::wrong_layout, "parameters that are apart");
  }
  return std::nullopt;
}

}  // namespace

void offer_batch_norm_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  Shape by_channel(x.shape.size(), 0);
  if (x.shape.size() > 1) by_channel[1] = 1;
  const std::vector<Shape> strides = {memory_strides(x), by_channel, by_channel, by_channel, memory_strides(y)};
  const expr::Program program = program_of(x.type, y.type);
  if (const auto why = Sweep::rejects(program, y.shape, std::span(strides).subspan(4))) return offer.refuse("cpu", *why);
  const int64_t channels = x.shape.size() > 1 ? x.shape[1] : 1;
  const double estimate = 1 + Sweep(program, y.shape, strides, machine.threads).estimate_us();
  const auto prepare = [b, node = *b.node, program, strides, channels,
                        threads = machine.threads]<class W>(W) -> std::unique_ptr<Kernel> {
    BoundNode bound = b;
    bound.node = &node;
    return std::make_unique<BatchNormKernel<W>>(bound, program, b.outputs[0].shape, strides, channels, threads);
  };
  offer.candidates.push_back({"cpu", "", estimate, [prepare, is_wide = x.type == DType::f64] {
                                return is_wide ? prepare(double{}) : prepare(float{});
                              }});
}

}  // namespace smelt::ops
