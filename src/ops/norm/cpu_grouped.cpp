// InstanceNormalization and GroupNormalization on the processor: a group of channels is a row of plain memory.
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/norm/offer.h"

namespace smelt::ops {
namespace {

class GroupedKernel final : public Kernel {
 public:
  GroupedKernel(const BoundNode& b, int64_t groups, int threads)
      : type_(required_float_kind(b.inputs[0].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        epsilon_(b.node->get_float("epsilon", 1e-5f)),
        channels_(b.inputs[0].shape[1]),
        groups_(groups),
        plane_(elements(b.inputs[0].shape) / (b.inputs[0].shape[0] * channels_)),
        rows_(b.inputs[0].shape[0] * groups),
        width_(plane_ * channels_ / groups),
        parameters_(elements(b.inputs[1].shape)),
        scale_type_(b.inputs[1].type),
        bias_type_(b.inputs[2].type),
        threads_(useful_threads(threads, rows_ * width_ * 4)) {}

  int64_t workspace() const override { return 2 * padded(parameters_) + threads_ * padded(width_); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    auto *scale = reinterpret_cast<float*>(memory), *bias = reinterpret_cast<float*>(memory + padded(parameters_));
    copy_as_f32(scale, 1, b.inputs[1], 1, parameters_, scale_type_);
    copy_as_f32(bias, 1, b.inputs[2], 1, parameters_, bias_type_);
    memory += 2 * padded(parameters_);
    const int64_t per_parameter = channels_ / parameters_;  // channels that share one: all of a group's before opset 21
    parallel(threads_, rows_, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* row = reinterpret_cast<float*>(memory + thread * padded(width_));
      for (int64_t r = begin; r < end; ++r) {
        row_simd().load(type_, static_cast<const char*>(b.inputs[0]) + r * width_ * bytes_, nullptr, nullptr, row, width_);
        row_simd().normalize(row, width_, true, epsilon_);
        const int64_t first = r % groups_ * (channels_ / groups_);
        for (int64_t c = 0; c < channels_ / groups_; ++c) {
          const float s = scale[(first + c) / per_parameter], t = bias[(first + c) / per_parameter];
          float* line = row + c * plane_;
          for (int64_t i = 0; i < plane_; ++i) line[i] = line[i] * s + t;
        }
        row_simd().scale(type_, row, nullptr, nullptr, static_cast<char*>(b.outputs[0]) + r * width_ * bytes_, width_);
      }
    });
  }

 private:
  static int64_t padded(int64_t floats) { return (floats * 4 + 63) / 64 * 64; }

  FloatKind type_;
  int64_t bytes_;
  double epsilon_;
  int64_t channels_, groups_, plane_, rows_, width_, parameters_;
  DType scale_type_, bias_type_;
  int threads_;
};

std::optional<Refusal> rejects(const BoundNode& b, int64_t groups) {
  const Shape& x = b.inputs[0].shape;
  for (size_t i = 0; i < 3; ++i)
    if (!float_kind(b.inputs[i].type))
      return refuse(Reason::wrong_type, "input {} is {}; expected f32, f16 or bf16", i, name(b.inputs[i].type));
  if (b.outputs[0].type != b.inputs[0].type) return refuse(Reason::wrong_type, "a result of another type");
  if (auto why = rejects_layouts(b)) return why;
  if (x.size() < 2 || elements(x) == 0) return refuse(Reason::wrong_shape, "nothing to normalise");
  if (groups < 1 || x[1] % groups != 0) return refuse(Reason::wrong_attribute, "{} groups of {} channels", groups, x[1]);
  const int64_t parameters = elements(b.inputs[1].shape);
  if (parameters != elements(b.inputs[2].shape) || parameters == 0 || x[1] % parameters != 0)
    return refuse(Reason::wrong_shape, "{} scales of {} channels", parameters, x[1]);
  return std::nullopt;
}

}  // namespace

void offer_grouped_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const Shape& x = b.inputs[0].shape;
  const bool instance = b.node->op == "InstanceNormalization";
  const int64_t groups = instance ? (x.size() > 1 ? x[1] : 0) : b.node->get_int("num_groups", 1);
  if (const auto why = rejects(b, groups)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(x)) / 1500 / machine.threads,
                              [b, node = *b.node, groups, threads = machine.threads] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<GroupedKernel>(bound, groups, threads);
                              }});
}

}  // namespace smelt::ops
