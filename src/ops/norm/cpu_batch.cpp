// BatchNormalization by given statistics, on the processor: factors of the channels, then one sweep (x - mean) · factor + bias.
#include <cmath>

#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/norm/offer.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops {
namespace {

class BatchNormKernel final : public Kernel {
 public:
  BatchNormKernel(const BoundNode& b, const expr::Program& program, const Shape& shape, const std::vector<Shape>& strides,
                  int64_t channels, int threads)
      : sweep_(program, shape, strides, threads), channels_(channels), epsilon_(b.node->get_float("epsilon", 1e-5f)) {
    for (size_t i = 1; i < 5; ++i) types_.push_back(b.inputs[i].type);
  }
  int64_t workspace() const override { return 4 * parameter_bytes() + sweep_.workspace(); }
  bool in_place(size_t i) const override { return i == 0; }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    float* p[4];  // scale, bias, mean, variance
    for (size_t i = 0; i < 4; ++i, memory += parameter_bytes()) {
      p[i] = reinterpret_cast<float*>(memory);
      copy_as_f32(p[i], 1, b.inputs[i + 1], 1, channels_, types_[i]);
    }
    for (int64_t c = 0; c < channels_; ++c)
      p[0][c] = static_cast<float>(p[0][c] / std::sqrt(static_cast<double>(p[3][c]) + epsilon_));
    const void* const inputs[] = {b.inputs[0], p[2], p[0], p[1]};
    sweep_.run(inputs, b.outputs, memory);
  }

 private:
  int64_t parameter_bytes() const { return aligned(channels_ * 4); }

  Sweep sweep_;
  int64_t channels_;
  double epsilon_;
  std::vector<DType> types_;
};

expr::Program program_of(DType x, DType y) {
  expr::Program p;
  const expr::Ref in = p.input(x), mean = p.input(DType::f32), factor = p.input(DType::f32), bias = p.input(DType::f32);
  const expr::Ref centred = p.call(expr::Fn::sub, p.cast(in, DType::f32), mean);
  p.output(p.cast(p.call(expr::Fn::add, p.call(expr::Fn::mul, centred, factor), bias), y));
  return p;
}

std::optional<Refusal> rejects(const BoundNode& b) {
  if (b.node->get_int("training_mode", 0) != 0) return refuse(Reason::wrong_attribute, "it trains");
  for (size_t o = 1; o < b.outputs.size(); ++o)
    if (b.outputs[o].type != DType::undefined) return refuse(Reason::unsupported, "it returns statistics");
  for (size_t i = 0; i < 5; ++i) {
    const DType t = b.inputs[i].type;
    if (t != DType::f32 && t != DType::f16 && t != DType::bf16)
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
  offer.candidates.push_back({"cpu", "", estimate, [b, node = *b.node, program, strides, channels, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<BatchNormKernel>(bound, program, b.outputs[0].shape, strides, channels,
                                                                         threads);
                              }});
}

}  // namespace smelt::ops
