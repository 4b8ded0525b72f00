// RotaryEmbedding, ONNX's and ONNX Runtime's, of f32, f16 and bf16: a row of one head at a time, its angles taken by position.
#include "base/error.h"
#include "ops/attention/offer.h"
#include "ops/attention/rotary.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops {
namespace {

class RotaryOperator final : public Kernel {
 public:
  RotaryOperator(const BoundNode& b, int threads)
      : r_(rotary_of(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape)),
        type_(required_float_kind(b.inputs[0].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        interleaved_(b.node->get_int("interleaved", 0) != 0),
        scale_(b.node->get_float("scale", 1)),
        threads_(useful_threads(threads, elements(b.inputs[0].shape))) {
    if (b.inputs.size() > r_.position_input && b.inputs[r_.position_input].type != DType::undefined) {
      positions_ = elements(b.inputs[r_.position_input].shape);
      wide_positions_ = b.inputs[r_.position_input].type == DType::i64;
      if (positions_ > 1 && positions_ != r_.batch * r_.steps)
        fail("{} positions, expected {} for {} sequences of {}", positions_, r_.batch * r_.steps, r_.batch, r_.steps);
    }
    cache_rows_ = elements(b.inputs[r_.cos_input].shape) / (r_.rotated / 2);
  }
  int64_t workspace() const override { return threads_ * 2 * table_bytes(); }

  void run(const Buffers& b) override {
    for (int64_t i = 0; i < r_.batch * r_.steps; ++i)  // throws before threads begin
      if (const int64_t row = cache_row(b, i); row < 0 || row >= cache_rows_)
        fail("position {} is outside the cache's {} rows", row, cache_rows_);
    parallel(threads_, r_.batch * r_.steps, 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * 2 * table_bytes();
      for (int64_t i = begin; i < end; ++i) {
        const float *cos = table(b.inputs[r_.cos_input], cache_row(b, i), own),
                    *sin = table(b.inputs[r_.sin_input], cache_row(b, i), own + table_bytes());
        for (int64_t h = 0; h < r_.heads; ++h) head(b, i, h, cos, sin);
      }
    });
  }

 private:
  int64_t table_bytes() const { return aligned(r_.rotated / 2 * 4); }

  int64_t position(const Buffers& b, int64_t i) const {
    const void* p = b.inputs[r_.position_input];
    return wide_positions_ ? static_cast<const int64_t*>(p)[i] : static_cast<const int32_t*>(p)[i];
  }
  /// Of token i of all sequences.
  int64_t cache_row(const Buffers& b, int64_t i) const {
    if (positions_ == 0) return i;  // a cache of [batch, steps, half]
    if (positions_ > 1) return position(b, i);
    const int64_t first = position(b, 0);
    return first < 0 || first >= cache_rows_ ? first : first + i % r_.steps;  // a wild one is refused as it is: sums may wrap
  }

  const float* table(const void* cache, int64_t row, void* widened) const {
    const int64_t half = r_.rotated / 2;
    const char* at = static_cast<const char*>(cache) + row * half * bytes_;
    if (type_ == FloatKind::f32 && scale_ == 1) return reinterpret_cast<const float*>(at);
    float* to = static_cast<float*>(widened);
    row_simd().load(type_, at, nullptr, nullptr, to, half);
    for (int64_t k = 0; k < half; ++k) to[k] *= scale_;
    return to;
  }

  void head(const Buffers& b, int64_t i, int64_t h, const float* cos, const float* sin) const {
    const int64_t n = i / r_.steps, s = i % r_.steps;
    const int64_t at = (r_.packed ? i * r_.heads + h : (n * r_.heads + h) * r_.steps + s) * r_.size * bytes_;
    const char* x = static_cast<const char*>(b.inputs[0]) + at;
    char* y = static_cast<char*>(b.outputs[0]) + at;
    row_simd().rotate(type_, x, cos, sin, y, r_.rotated / 2, true, interleaved_);
    if (r_.rotated < r_.size)
      std::memcpy(y + r_.rotated * bytes_, x + r_.rotated * bytes_, static_cast<size_t>((r_.size - r_.rotated) * bytes_));
  }

  Rotary r_;
  FloatKind type_;
  int64_t bytes_, positions_ = 0, cache_rows_ = 0;
  bool interleaved_, wide_positions_ = true;
  float scale_;
  int threads_;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  const DType type = b.inputs[0].type;
  if (!float_kind(type)) return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(type));
  const Rotary r = rotary_of(*b.node, b.inputs[0].shape, b.inputs[1].shape, b.inputs[2].shape);
  for (const size_t i : {r.cos_input, r.sin_input})
    if (b.inputs[i].type != type) return refuse(Reason::wrong_type, "its caches are not of its type, {}", name(type));
  if (b.inputs[r.cos_input].shape != b.inputs[r.sin_input].shape)
    return refuse(Reason::wrong_shape, "its caches differ in shape");
  if (elements(b.inputs[0].shape) == 0 || r.rotated == 0) return refuse(Reason::wrong_shape, "an empty tensor");
  return rejects_layouts(b);
}

}  // namespace

void offer_rotary_operator_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(b.inputs[0].shape)) / 2000 / machine.threads,
                              [b, threads = machine.threads, node = *b.node] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<RotaryOperator>(bound, threads);
                              }});
}

}  // namespace smelt::ops
