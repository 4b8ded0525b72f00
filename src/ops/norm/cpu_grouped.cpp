// InstanceNormalization and GroupNormalization on the processor: a group of channels is a row of plain memory.
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/convert.h"
#include "ops/norm/offer.h"
#include "ops/norm/rows.h"

namespace smelt::ops {
namespace {

class GroupedKernel final : public Kernel {
 public:
  GroupedKernel(const BoundNode& b, int64_t groups, int threads)
      : row_(norm_row(b.inputs[0].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        epsilon_(b.node->get_float("epsilon", 1e-5f)),
        channels_(b.inputs[0].shape[1]),
        groups_(groups),
        plane_(elements(b.inputs[0].shape) / (b.inputs[0].shape[0] * channels_)),
        width_(plane_ * channels_ / groups),
        parameters_(elements(b.inputs[1].shape)),
        types_{b.inputs[1].type, b.inputs[2].type},
        short_(b.inputs[0].type == DType::f32 && parameters_ == channels_ && groups == channels_ && width_ <= ShortRows::most),
        count_(b.inputs[0].shape[0] * groups),
        threads_(useful_threads(threads, count_ * width_ * 4)),
        rows_(count_, width_, threads) {}

  int64_t workspace() const override { return 2 * aligned(parameters_ * 4) + rows_.workspace(); }

  void run(const Buffers& b) override {
    char* memory = static_cast<char*>(b.workspace);
    const void* parameters[2];  // scale and bias, of f64 or in f32
    for (size_t k = 0; k < 2; ++k, memory += aligned(parameters_ * 4)) {
      parameters[k] = types_[k] == DType::f64 ? b.inputs[k + 1] : memory;
      if (types_[k] != DType::f64) copy_as_f32(reinterpret_cast<float*>(memory), 1, b.inputs[k + 1], 1, parameters_, types_[k]);
    }
    if (short_) return run_short(b, static_cast<const float*>(parameters[0]), static_cast<const float*>(parameters[1]));
    const char* x = static_cast<const char*>(b.inputs[0]);
    char* y = static_cast<char*>(b.outputs[0]);
    const auto moments = [&](int64_t r, int64_t from, int64_t n) {
      return moments_of(*row_, x + (r * width_ + from) * bytes_, n, true);
    };
    const int64_t per_parameter = channels_ / parameters_;  // channels that share one: all of a group's before opset 21
    rows_.run(memory, moments, [&](int64_t r, int64_t from, int64_t n, const Moments& m) {
      const double inverse = 1 / std::sqrt(m.variance + epsilon_);
      const int64_t first = r % groups_ * (channels_ / groups_);
      int64_t c = from == 0 ? 0 : from / plane_;
      for (int64_t at = from, end = from + n; at < end; ++c) {
        const int64_t stop = std::min(end, (c + 1) * plane_), p = per_parameter == 1 ? first + c : (first + c) / per_parameter;
        const int64_t offset = (r * width_ + at) * bytes_;
        row_->shift(x + offset, stop - at, m.mean, inverse * number(parameters[0], p), number(parameters[1], p), y + offset);
        at = stop;
      }
    });
  }

 private:
  void run_short(const Buffers& b, const float* factors, const float* offsets) const {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    auto* y = static_cast<float*>(b.outputs[0]);
    const ShortRows rows = short_rows();
    const ShortRows::Parameters parameters{factors, offsets, channels_, static_cast<float>(epsilon_)};
    parallel(threads_, count_, 1, [&](int64_t begin, int64_t end, int) {
      rows.run(x + begin * width_, end - begin, width_, parameters, begin, y + begin * width_);
    });
  }

  double number(const void* values, int64_t i) const {
    return types_[0] == DType::f64 ? static_cast<const double*>(values)[i]
                                   : static_cast<double>(static_cast<const float*>(values)[i]);
  }

  const NormRow* row_;
  int64_t bytes_;
  double epsilon_;
  int64_t channels_, groups_, plane_, width_, parameters_;
  DType types_[2];
  bool short_;
  int64_t count_;
  int threads_;
  RowPasses rows_;
};

std::optional<Refusal> rejects(const BoundNode& b, int64_t groups) {
  const Shape& x = b.inputs[0].shape;
  for (size_t i = 0; i < 3; ++i) {
    const DType t = b.inputs[i].type;
    if (!norm_row(t)) return refuse(Reason::wrong_type, "input {} is {}; expected f32, f16, bf16 or f64", i, name(t));
    if ((t == DType::f64) != (b.inputs[0].type == DType::f64))
      return refuse(Reason::wrong_type, "input {} alone is f64 or not", i);
  }
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
