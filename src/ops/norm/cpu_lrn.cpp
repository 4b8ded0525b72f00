// LRN on the processor: squares summed over neighbouring channels line by line, then one sweep.
#include <algorithm>
#include <type_traits>

#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/norm/offer.h"
#include "ops/pointwise/cpu_sweep.h"

namespace smelt::ops {
namespace {

/// x / (bias + alpha / size · sum)^beta
expr::Program program_of(const Node& n, DType type) {
  using expr::Fn;
  expr::Program p;
  const DType wide = type == DType::f64 ? type : DType::f32;
  const expr::Ref x = p.input(type), sum = p.input(wide);
  const auto number = [&](double v) { return p.constant(wide, v); };
  const double factor = static_cast<double>(n.get_float("alpha", 1e-4f)) / static_cast<double>(n.get_int("size", 1));
  const expr::Ref base =
      p.call(Fn::add, number(static_cast<double>(n.get_float("bias", 1.0f))), p.call(Fn::mul, number(factor), sum));
  const expr::Ref power = p.call(Fn::pow, base, number(static_cast<double>(n.get_float("beta", 0.75f))));
  p.output(p.cast(p.call(Fn::div, p.cast(x, wide), power), type));
  return p;
}

/// Channels that are summed: of any size those that there are, twice their number reaches from one end to the other.
int64_t window_of(const BoundNode& b) { return std::min(b.node->get_int("size", 1), 2 * b.inputs[0].shape[1]); }

/// Squares are summed in W: float for f32, f16 and bf16, double for f64.
template <class W> class LrnKernel final : public Kernel {
 public:
  LrnKernel(const BoundNode& b, int threads)
      : view_(around_axis(b.inputs[0].shape, 1)),
        type_(b.inputs[0].type),
        bytes_(bits(b.inputs[0].type) / 8),
        size_(window_of(b)),
        count_(elements(b.inputs[0].shape)),
        threads_(useful_threads(threads, count_ * size_)),
        sweep_(program_of(*b.node, b.inputs[0].type), {count_}, {{1}, {1}, {1}}, threads) {}
  int64_t workspace() const override { return sums_bytes() + threads_ * line_bytes() + sweep_.workspace(); }

  void run(const Buffers& b) override {
    auto* sums = static_cast<W*>(b.workspace);
    char* lines = static_cast<char*>(b.workspace) + sums_bytes();
    parallel(threads_, view_.outer * view_.extent, 1, [&](int64_t begin, int64_t end, int thread) {
      auto* line = reinterpret_cast<W*>(lines + thread * line_bytes());
      for (int64_t i = begin; i < end; ++i) {
        const int64_t o = i / view_.extent, c = i % view_.extent;
        const int64_t first = std::max<int64_t>(0, c - (size_ - 1) / 2), last = std::min(view_.extent - 1, c + size_ / 2);
        W* sum = sums + i * view_.inner;
        std::fill_n(sum, view_.inner, W{});
        for (int64_t k = first; k <= last; ++k) {
          const char* x = static_cast<const char*>(b.inputs[0]) + (o * view_.extent + k) * view_.inner * bytes_;
          add_squares(x, line, sum);
        }
      }
    });
    const void* const inputs[] = {b.inputs[0], sums};
    sweep_.run(inputs, b.outputs, lines + threads_ * line_bytes());
  }

 private:
  int64_t sums_bytes() const { return aligned(count_ * static_cast<int64_t>(sizeof(W))); }
  int64_t line_bytes() const { return aligned(view_.inner * static_cast<int64_t>(sizeof(W))); }

  void add_squares(const char* x, W* line, W* sum) const {
    const auto* row = reinterpret_cast<const W*>(x);
    if constexpr (std::is_same_v<W, double>) {
      folds().f64.lines(Fold::squares, sum, row, 0, 1, view_.inner);
    } else {
      if (type_ != DType::f32) {
        row_simd().load(required_float_kind(type_), x, nullptr, nullptr, line, view_.inner);
        row = line;
      }
      folds().f32.lines(Fold::squares, sum, row, 0, 1, view_.inner);
    }
  }

  AxisView view_;
  DType type_;
  int64_t bytes_, size_, count_;
  int threads_;
  Sweep sweep_;
};

}  // namespace

void offer_lrn_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor& x = b.inputs[0];
  if ((!float_kind(x.type) && x.type != DType::f64) || b.outputs[0].type != x.type)
    return offer.refuse("cpu", Reason::wrong_type, "its type is {}; expected f32, f64, f16 or bf16", name(x.type));
  if (const auto why = rejects_layouts(b)) return offer.refuse("cpu", *why);
  if (x.shape.size() < 2 || elements(x.shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "no channels");
  if (b.node->get_int("size", 0) < 1)
    return offer.refuse("cpu", Reason::wrong_attribute, "size is {}", b.node->get_int("size", 0));
  const double work = static_cast<double>(elements(x.shape)) * static_cast<double>(window_of(b) + 8);
  offer.candidates.push_back(
      {"cpu", "", 2 + work / 4e3 / machine.threads, [b, node = *b.node, threads = machine.threads]() -> std::unique_ptr<Kernel> {
         BoundNode bound = b;
         bound.node = &node;
         if (b.inputs[0].type == DType::f64) return std::make_unique<LrnKernel<double>>(bound, threads);
         return std::make_unique<LrnKernel<float>>(bound, threads);
       }});
}

}  // namespace smelt::ops
