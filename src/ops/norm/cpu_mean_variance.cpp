// MeanVarianceNormalization over the innermost axes, of rows of f32, f16 and bf16 that are not long: a row stays in the L1 cache.
#include "ops/core/strides.h"
#include "ops/norm/rows.h"

namespace smelt::ops {
namespace {

class MeanVarianceRows final : public Kernel {
 public:
  MeanVarianceRows(DType type, int64_t rows, int64_t width, int threads)
      : row_(norm_row(type)),
        rows_(rows),
        width_(width),
        bytes_(bits(type) / 8),
        threads_(useful_threads(threads, rows * width * 4)) {}
  bool in_place(size_t) const override { return true; }
  void run(const Buffers& b) override {
    constexpr NormRow::Beside p{true, 0, 1e-9f, nullptr, nullptr, nullptr, nullptr};  // 1e-9: the guard of ONNX's function body
    parallel(threads_, rows_, 16, [&](int64_t begin, int64_t end, int) {
      const int64_t at = begin * width_ * bytes_;
      row_->beside(static_cast<const char*>(b.inputs[0]) + at, end - begin, width_, p, static_cast<char*>(b.outputs[0]) + at);
    });
  }

 private:
  const NormRow* row_;
  int64_t rows_, width_, bytes_;
  int threads_;
};

}  // namespace

bool offer_mean_variance_rows(const BoundNode& b, const std::vector<int64_t>& axes, const Machine& machine, Offer& offer) {
  const Shape& shape = b.inputs[0].shape;
  const NormRow* row = norm_row(b.inputs[0].type);
  if (!row || !row->beside || !is_dense(b.inputs[0]) || !is_dense(b.outputs[0])) return false;
  // Axes of one element are part of a row or not, as they like.
  int64_t width = 1, rows = 1;
  for (size_t a = shape.size(); a-- > 0;) {
    if (shape[a] == 1) continue;
    const bool normalised = std::ranges::find(axes, static_cast<int64_t>(a)) != axes.end();
    if (normalised && rows > 1) return false;
    (normalised ? width : rows) *= shape[a];
  }
  if (rows < 2 || width > NormRow::most_beside) return false;
  const double estimate = 1 + static_cast<double>(rows * (width + 8)) / 2000 / machine.threads;
  offer.candidates.push_back({"cpu", "rows", estimate, [type = b.inputs[0].type, rows, width, threads = machine.threads] {
                                return std::make_unique<MeanVarianceRows>(type, rows, width, threads);
                              }});
  return true;
}

}  // namespace smelt::ops
