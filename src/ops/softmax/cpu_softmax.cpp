// Softmax and LogSoftmax along the last axis, of f32, f16 and bf16.
#include <fmt/core.h>

#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/softmax/offer.h"

namespace smelt::ops {
namespace {

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const BoundNode& b, int threads)
      : views_(b.inputs[0].shape, b.inputs[0].shape.size() - 1, {memory_strides(b.inputs[0]), memory_strides(b.outputs[0])}),
        type_(required_float_kind(b.inputs[0].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        logarithm_(b.node->op == "LogSoftmax"),
        threads_(useful_threads(threads, views_.rows() * views_.width() * 4)),
        row_bytes_((views_.width() * 4 + 63) / 64 * 64) {}
  int64_t workspace() const override { return threads_ * row_bytes_; }
  bool in_place(size_t) const override { return true; }
  void run(const Buffers& b) override {
    parallel(threads_, views_.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      float* row = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * row_bytes_);
      for (int64_t r = begin; r < end; ++r)
        row_simd().softmax(type_, static_cast<const char*>(b.inputs[0]) + views_.offset(r, 0) * bytes_,
                           static_cast<char*>(b.outputs[0]) + views_.offset(r, 1) * bytes_, row, views_.width(), logarithm_);
    });
  }

 private:
  RowViews views_;
  FloatKind type_;
  int64_t bytes_;
  bool logarithm_;
  int threads_;
  int64_t row_bytes_;
};

}  // namespace

void offer_softmax_rows(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const auto rank = static_cast<int64_t>(x.shape.size());
  if (!float_kind(x.type))
    return offer.refuse("cpu", Reason::wrong_type, "its type is {}; expected f32, f16 or bf16", name(x.type));
  if (rank == 0) return offer.refuse("cpu", Reason::wrong_rank, "x is a scalar");
  if (x.layout != Layout::plain || y.layout != Layout::plain)
    return offer.refuse("cpu", Reason::wrong_layout, "a tensor is not plain");
  const int64_t axis = normalize_axis(b.node->get_int("axis", -1), rank);
  if (axis != rank - 1) return offer.refuse("cpu", Reason::wrong_axis, "axis {} is not the last of {}", axis, rank);
  if (x.shape.back() > 1 && (memory_strides(x).back() != 1 || memory_strides(y).back() != 1))
    return offer.refuse("cpu", Reason::wrong_layout, "the elements of a row are apart");
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(x.shape)) / 1500 / machine.threads,
                              [b, threads = machine.threads, node = *b.node] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<SoftmaxKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
