// Sums and means of dequantized bytes along the last axes: of the bytes themselves, which the processor adds 16 at a time. What is
// computed of the results, such as bytes again, is a sweep over them.
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>

#include "ops/core/align.h"
#include "ops/core/loops.h"
#include "ops/core/strides.h"
#include "ops/cpu/integer/program.h"
#include "ops/cpu/parallel.h"
#include "ops/pointwise/cpu_sweep.h"
#include "ops/reduce/cpu_reduce.h"

namespace smelt::ops {
namespace {

/// Of bytes without a sign once `flip` changed their bits.
int64_t sum_of(const uint8_t* x, int64_t n, uint8_t flip) {
  int64_t sum = 0, i = 0;
#ifdef __SSE2__
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  __m128i sums[2] = {};
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 2; ++k) {
      const __m128i bytes = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i + 16 * k)), flips);
      sums[k] = _mm_add_epi64(sums[k], _mm_sad_epu8(bytes, _mm_setzero_si128()));
    }
  alignas(16) int64_t parts[2];
  _mm_store_si128(reinterpret_cast<__m128i*>(parts), _mm_add_epi64(sums[0], sums[1]));
  sum = parts[0] + parts[1];
#endif
  for (; i < n; ++i) sum += x[i] ^ flip;
  return sum;
}

class ByteSums final : public Kernel {
 public:
  ByteSums(const BoundNode& b, const integer::DequantizeStep& step, const std::optional<expr::Program>& post, bool mean,
           int64_t row, int threads)
      : zero_(step.zero),
        scale_(static_cast<double>(step.scale)),
        mean_(mean),
        flip_(b.inputs[0].type == DType::i8 ? 128 : 0),
        row_(row),
        rows_(elements(b.inputs[0].shape) / row),
        threads_(useful_threads(threads, rows_ * row / 4)) {
    if (post) post_.emplace(*post, Shape{rows_}, std::vector<Shape>{{1}, {1}}, threads);
  }

  int64_t workspace() const override { return post_ ? results_bytes() + post_->workspace() : 0; }

  void run(const Buffers& b) override {
    const auto* x = static_cast<const uint8_t*>(b.inputs[0]);
    auto* y = static_cast<float*>(post_ ? b.workspace : b.outputs[0]);
    parallel(threads_, rows_, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sum = sum_of(x + i * row_, row_, flip_) - (flip_ + zero_) * row_;
        y[i] = static_cast<float>(static_cast<double>(sum) * scale_ / (mean_ ? static_cast<double>(row_) : 1));
      }
    });
    if (!post_) return;
    const void* const results = y;
    post_->run(std::span(&results, 1), b.outputs, static_cast<char*>(b.workspace) + results_bytes());
  }

 private:
  int64_t results_bytes() const { return aligned(rows_ * static_cast<int64_t>(sizeof(float))); }

  int64_t zero_;
  double scale_;
  bool mean_;
  uint8_t flip_;
  int64_t row_, rows_;
  int threads_;
  std::optional<Sweep> post_;
};

}  // namespace

bool offer_byte_sums(const BoundNode& b, const ReduceProblem& p, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const bool mean = p.kind == ReduceKind::mean;
  if ((x.type != DType::u8 && x.type != DType::i8) || (!p.post && y.type != DType::f32) || p.none || b.inputs.size() != 1 ||
      (!mean && p.kind != ReduceKind::sum) || !all_plain(b) || p.before.outputs().size() != 1)
    return false;
  const auto step = integer::as_dequantize_step(p.before, p.before.outputs()[0]);
  if (!step || step->q != 0) return false;
  const auto rank = static_cast<int64_t>(x.shape.size());
  const std::vector<int64_t> axes = normalize_axes(p.axes, rank);
  int64_t row = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != rank - static_cast<int64_t>(axes.size() - i)) return false;
    row *= x.shape[static_cast<size_t>(axes[i])];
  }
  if (axes.empty()) row = elements(x.shape);
  constexpr int64_t short_row = 32;
  if (row < short_row || elements(x.shape) == 0) return false;
  offer.candidates.push_back({"cpu", "bytes", 2 + static_cast<double>(elements(x.shape)) / 16e3 / machine.threads,
                              [b, step = *step, post = p.post, mean, row, threads = machine.threads] {
                                return std::make_unique<ByteSums>(b, step, post, mean, row, threads);
                              }});
  return true;
}

}  // namespace smelt::ops
