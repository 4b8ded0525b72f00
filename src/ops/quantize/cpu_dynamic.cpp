// DynamicQuantizeLinear on the processor: the extremes by threads, then one sweep.
#include <algorithm>
#include <cmath>
#include <limits>

#include "expr/cpu.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/simd/rows.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/quantize/offer.h"
#include "ops/quantize/shifted.h"

namespace smelt::ops {
namespace {

/// saturate(round(x / scale) + zero)
expr::Program quantization() {
  using expr::Fn;
  expr::Program p;
  const expr::Ref x = p.input(DType::f32), scale = p.input(DType::f32), zero = p.input(DType::u8);
  const expr::Ref whole = p.call(Fn::round, p.call(Fn::div, x, scale));
  const expr::Ref moved = p.call(Fn::add, whole, p.cast(zero, DType::f32));
  p.output(p.cast(p.call(Fn::clip, moved, p.constant(DType::f32, 0), p.constant(DType::f32, 255)), DType::u8));
  return p;
}

class DynamicQuantizeKernel final : public Kernel {
 public:
  DynamicQuantizeKernel(int64_t count, int threads)
      : count_(count), threads_(useful_threads(threads, count / 2)), evaluator_(quantization(), simd::widest(), count) {}
  int64_t workspace() const override { return 64 * (threads_ + 1) + threads_ * aligned(evaluator_.scratch()); }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const float*>(b.inputs[0]);
    char* memory = static_cast<char*>(b.workspace);
    const auto extremes = [&](int thread) { return reinterpret_cast<float*>(memory + 64 * (thread + 1)); };
    for (int t = 0; t < threads_; ++t) extremes(t)[0] = extremes(t)[1] = 0;  // the range always holds zero
    parallel(threads_, count_, 16, [&](int64_t begin, int64_t end, int thread) {
      float low = 0, high = 0;
      row_simd().extremes(x + begin, end - begin, &low, &high);
      extremes(thread)[0] = std::min(extremes(thread)[0], low);
      extremes(thread)[1] = std::max(extremes(thread)[1], high);
    });
    float low = 0, high = 0;
    for (int t = 0; t < threads_; ++t) low = std::min(low, extremes(t)[0]), high = std::max(high, extremes(t)[1]);
    auto* scale = reinterpret_cast<float*>(memory);
    auto* zero = reinterpret_cast<uint8_t*>(memory + sizeof(float));
    *scale = high == low ? 1.0f : (high - low) / 255;
    *zero = dynamic_zero_point(low, *scale);
    if (b.outputs.size() > 1 && b.outputs[1]) *static_cast<float*>(b.outputs[1]) = *scale;
    if (b.outputs.size() > 2 && b.outputs[2]) *static_cast<uint8_t*>(b.outputs[2]) = *zero;
    if (!b.outputs[0]) return;
    auto* y = static_cast<uint8_t*>(b.outputs[0]);
    memory += 64 * (threads_ + 1);
    // In one loop, with the bits of the program's, where the scale and its inverse are ordinary numbers.
    if (simd::best() == simd::Isa::avx2 && *scale > 1e-30f && *scale < 1e30f) {
      integer::Requantization q;
      q.divisor = *scale;
      q.zero = *zero;
      q.low = -static_cast<float>(*zero);
      q.high = 255 + q.low;
      parallel(threads_, count_, 64, [&](int64_t begin, int64_t end, int) {
        avx2::integer_rows().quantize_within(q, x + begin, end - begin, y + begin);
      });
      return;
    }
    parallel(threads_, count_, 64, [&](int64_t begin, int64_t end, int thread) {
      const expr::Operand operands[] = {{x + begin, 1}, {scale, 0}, {zero, 0}};
      void* out = y + begin;
      evaluator_.run(end - begin, operands, {&out, 1}, memory + thread * aligned(evaluator_.scratch()));
    });
  }

 private:
  int64_t count_;
  int threads_;
  expr::Evaluator evaluator_;
};

}  // namespace

void offer_dynamic_quantize_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  const int64_t count = elements(b.inputs[0].shape);
  if (b.inputs[0].type != DType::f32) return offer.refuse("cpu", Reason::wrong_type, "x is {}", name(b.inputs[0].type));
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (!is_dense(x) || !is_dense(y) || x.layout != y.layout)
    return offer.refuse("cpu", Reason::wrong_layout, "images that lie otherwise, or with gaps");
  if (count == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  offer.candidates.push_back(
      {"cpu", "", 2 + static_cast<double>(count) / 2e3 / machine.threads,
       [count, threads = machine.threads] { return std::make_unique<DynamicQuantizeKernel>(count, threads); }});
}

}  // namespace smelt::ops
