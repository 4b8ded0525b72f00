// Softmax and LogSoftmax of f32, f16 and bf16: rows whose elements lie side by side where they lie, and along other axes tiles of
// adjacent rows, transposed on their way through the cache. Of f64 a row at a time.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

constexpr int64_t tile_rows = 16;  // a cache line of floats

/// Rows whose elements lie apart. The axes are the node's with those that are normalised together last.
class SoftmaxColumns final : public Kernel {
 public:
  SoftmaxColumns(DType type, const Shape& shape, size_t kept, const std::vector<Shape>& strides, bool logarithm, int threads)
      : views_(shape, kept, strides),
        kind_(float_kind(type)),
        bytes_(bits(type) / 8),
        logarithm_(logarithm),
        threads_(useful_threads(threads, views_.rows() * views_.width() * 4)) {
    for (size_t k = 0; k < 2; ++k) step_[k] = views_.stride(k).value_or(0);
    if (kept > 0 && strides[0][kept - 1] == 1 && strides[1][kept - 1] == 1) adjacent_ = shape[kept - 1];
  }
  int64_t workspace() const override { return threads_ * thread_bytes(); }
  bool in_place(size_t) const override { return true; }

  void run(const Buffers& b) override {
    parallel(threads_, views_.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * thread_bytes();
      while (begin < end) {
        const int64_t n = std::min({tile_rows, adjacent_ - begin % adjacent_, end - begin});
        const char* x = static_cast<const char*>(b.inputs[0]) + views_.offset(begin, 0) * bytes_;
        char* y = static_cast<char*>(b.outputs[0]) + views_.offset(begin, 1) * bytes_;
        if (kind_)
          tile(*kind_, x, y, reinterpret_cast<float*>(own), n);
        else
          doubles(reinterpret_cast<const double*>(x), reinterpret_cast<double*>(y), reinterpret_cast<double*>(own), n);
        begin += n;
      }
    });
  }

 private:
  int64_t thread_bytes() const { return ((tile_rows + 2) * views_.width() + tile_rows) * (kind_ ? 4 : 8) / 64 * 64 + 64; }

  void tile(FloatKind kind, const char* x, char* y, float* rows, int64_t n) const {
    const int64_t width = views_.width();
    float* line = rows + tile_rows * width;
    float* scratch = line + tile_rows;
    for (int64_t k = 0; k < width; ++k) {
      row_simd().load(kind, x + k * step_[0] * bytes_, nullptr, nullptr, line, n);
      for (int64_t r = 0; r < n; ++r) rows[r * width + k] = line[r];
    }
    for (int64_t r = 0; r < n; ++r)
      row_simd().softmax(FloatKind::f32, rows + r * width, rows + r * width, scratch, width, logarithm_);
    for (int64_t k = 0; k < width; ++k) {
      for (int64_t r = 0; r < n; ++r) line[r] = rows[r * width + k];
      row_simd().scale(kind, line, nullptr, nullptr, y + k * step_[1] * bytes_, n);
    }
  }

  void doubles(const double* x, double* y, double* row, int64_t n) const {
    const int64_t width = views_.width();
    for (int64_t r = 0; r < n; ++r) {
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t k = 0; k < width; ++k) top = std::max(top, row[k] = x[r + k * step_[0]]);
      for (int64_t k = 0; k < width; ++k) {
        row[k] -= top;
        const double e = std::exp(row[k]);
        sum += e;
        if (!logarithm_) row[k] = e;
      }
      const double less = std::log(sum), factor = 1 / sum;
      for (int64_t k = 0; k < width; ++k) y[r + k * step_[1]] = logarithm_ ? row[k] - less : row[k] * factor;
    }
  }

  RowViews views_;
  std::optional<FloatKind> kind_;  // none: f64
  int64_t bytes_, step_[2] = {}, adjacent_ = 1;
  bool logarithm_;
  int threads_;
};

void offer_columns(const BoundNode& b, const std::vector<size_t>& axes, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  const Shape own[] = {memory_strides(x), memory_strides(y)};
  Shape shape;
  std::vector<Shape> strides(2);
  for (const bool inside : {false, true}) {
    for (size_t a = 0; a < x.shape.size(); ++a) {
      if ((std::ranges::find(axes, a) != axes.end()) != inside) continue;
      shape.push_back(x.shape[a]);
      for (size_t k = 0; k < 2; ++k) strides[k].push_back(own[k][a]);
    }
  }
  const size_t kept = shape.size() - axes.size();
  const RowViews views(shape, kept, strides);
  if (!views.stride(0) || !views.stride(1))
    return offer.refuse("cpu", Reason::wrong_layout, "the elements of a row are not equally far apart");
  offer.candidates.push_back({"cpu", "columns", 2 + static_cast<double>(elements(x.shape)) / 700 / machine.threads,
                              [type = x.type, shape, kept, strides, log = b.node->op == "LogSoftmax", threads = machine.threads] {
                                return std::make_unique<SoftmaxColumns>(type, shape, kept, strides, log, threads);
                              }});
}

}  // namespace

std::vector<size_t> softmax_axes(const Node& node, int64_t rank) {
  const bool flattens = node.opset > 0 && node.opset < 13;
  const int64_t given = node.get_int("axis", flattens ? 1 : -1);
  std::vector<size_t> axes;
  if (rank == 0 || (flattens && given == rank)) return axes;
  const int64_t axis = normalize_axis(given, rank);
  for (int64_t a = axis; a < (flattens ? rank : axis + 1); ++a) axes.push_back(static_cast<size_t>(a));
  return axes;
}

void offer_softmax_rows(const BoundNode& b, const Machine& machine, Offer& offer) {
  const BoundTensor &x = b.inputs[0], &y = b.outputs[0];
  if (!float_kind(x.type) && x.type != DType::f64)
    return offer.refuse("cpu", Reason::wrong_type, "its type is {}; expected f32, f16, bf16 or f64", name(x.type));
  if (x.shape.empty()) return offer.refuse("cpu", Reason::wrong_rank, "x is a scalar");
  if (elements(x.shape) == 0) return offer.refuse("cpu", Reason::wrong_shape, "an empty tensor");
  const std::vector<size_t> axes = softmax_axes(*b.node, static_cast<int64_t>(x.shape.size()));
  const bool whole_rows = axes == std::vector<size_t>{x.shape.size() - 1} &&
                          (x.shape.back() == 1 || (memory_strides(x).back() == 1 && memory_strides(y).back() == 1));
  if (!whole_rows || !float_kind(x.type)) return offer_columns(b, axes, machine, offer);
  offer.candidates.push_back({"cpu", "", 2 + static_cast<double>(elements(x.shape)) / 1500 / machine.threads,
                              [b, threads = machine.threads, node = *b.node] {
                                BoundNode bound = b;
                                bound.node = &node;
                                return std::make_unique<SoftmaxKernel>(bound, threads);
                              }});
}

}  // namespace smelt::ops
