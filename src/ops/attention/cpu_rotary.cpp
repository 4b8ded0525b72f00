// ai.smelt.RotaryEmbedding of f32, f16 and bf16, a row at a time.
#include <fmt/core.h>

#include "ops/attention/offer.h"
#include "ops/attention/shape.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"

namespace smelt::ops {
namespace {

std::vector<Shape> row_strides(const BoundNode& b) {
  const size_t rank = b.inputs[0].shape.size();
  return {memory_strides(b.inputs[0]), memory_strides(b.outputs[0]), broadcast_strides(b.inputs[1], rank),
          broadcast_strides(b.inputs[2], rank)};
}

class RotaryKernel final : public Kernel {
 public:
  RotaryKernel(const BoundNode& b, int threads)
      : views_(b.inputs[0].shape, b.inputs[0].shape.size() - 1, row_strides(b)),
        type_(required_float_kind(b.inputs[0].type)),
        table_type_(required_float_kind(b.inputs[1].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        table_bytes_(bits(b.inputs[1].type) / 8),
        table_width_(b.inputs[1].shape.back()),
        interleaved_(b.node->get_int("interleaved", 0) != 0),
        threads_(useful_threads(threads, views_.rows() * views_.width())),
        row_bytes_((views_.width() * 4 + 63) / 64 * 64) {}
  int64_t workspace() const override { return threads_ * 2 * row_bytes_; }
  void run(const Buffers& b) override {
    parallel(threads_, views_.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      float* widened = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * 2 * row_bytes_);
      for (int64_t r = begin; r < end; ++r) {
        const float* tables[2];
        for (size_t t = 0; t < 2; ++t) {
          const char* at = static_cast<const char*>(b.inputs[t + 1]) + views_.offset(r, t + 2) * table_bytes_;
          float* to = widened + static_cast<int64_t>(t) * row_bytes_ / 4;
          if (table_type_ != FloatKind::f32) row_simd().load(table_type_, at, nullptr, nullptr, to, table_width_);
          tables[t] = table_type_ == FloatKind::f32 ? reinterpret_cast<const float*>(at) : to;
        }
        row_simd().rotate(type_, static_cast<const char*>(b.inputs[0]) + views_.offset(r, 0) * bytes_, tables[0], tables[1],
                          static_cast<char*>(b.outputs[0]) + views_.offset(r, 1) * bytes_, views_.width() / 2,
                          table_width_ != views_.width(), interleaved_);
      }
    });
  }

 private:
  RowViews views_;
  FloatKind type_, table_type_;
  int64_t bytes_, table_bytes_, table_width_;
  bool interleaved_;
  int threads_;
  int64_t row_bytes_;
};

std::optional<Refusal> rejects(const BoundNode& b) {
  if (!float_kind(b.inputs[0].type))
    return refuse(Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(b.inputs[0].type));
  if (!float_kind(b.inputs[1].type) || b.inputs[1].type != b.inputs[2].type)
    return refuse(Reason::wrong_type, "its tables are not both f32, f16 or bf16");
  const int64_t d = b.inputs[0].shape.back();
  for (size_t i = 1; i < 3; ++i) {
    const Shape& s = b.inputs[i].shape;
    if (s.empty() || s.back() != b.inputs[1].shape.back() || (s.back() != d && s.back() != d / 2) || s.back() < 2)
      return refuse(Reason::wrong_shape, "input {} has shape {}, whose last extent is neither {} nor {}", i, to_string(s), d,
                    d / 2);
  }
  for (const auto* tensors : {&b.inputs, &b.outputs})
    for (const BoundTensor& t : *tensors)
      if (t.layout != Layout::plain || memory_strides(t).back() != 1)
        return refuse(Reason::wrong_layout, "the elements of a row are apart");
  return std::nullopt;
}

}  // namespace

void offer_rotary_cpu(const BoundNode& b, const Machine& machine, Offer& offer) {
  if (const auto why = rejects(b)) return offer.refuse("cpu", *why);
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(b.inputs[0].shape)) / 2000 / machine.threads,
                              [b, threads = machine.threads, node = *b.node] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<RotaryKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
