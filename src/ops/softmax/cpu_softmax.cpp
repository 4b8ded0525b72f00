// Softmax and LogSoftmax of f32, f16 and bf16: many rows a call where their elements lie side by side, and along other axes many
// adjacent columns a call. Of f64 a row at a time.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "expr/simd/isa.h"
#include "ops/core/align.h"
#include "ops/core/strides.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/rows/rows.h"
#include "ops/softmax/offer.h"
#include "ops/softmax/simd/softmax.h"

namespace smelt::ops {
namespace {

const SoftmaxSimd& table() {
  if (simd::widest() == simd::Isa::avx512) return avx512::softmax_simd();
  return simd::best() == simd::Isa::avx2 ? avx2::softmax_simd() : base::softmax_simd();
}

/// Floats that a row of so many elements takes in scratch memory, as bytes.
int64_t row_bytes(int64_t width) { return aligned(row_floats(width) * 4); }

class SoftmaxKernel final : public Kernel {
 public:
  SoftmaxKernel(const BoundNode& b, int threads)
      : views_(b.inputs[0].shape, b.inputs[0].shape.size() - 1, {memory_strides(b.inputs[0]), memory_strides(b.outputs[0])}),
        type_(required_float_kind(b.inputs[0].type)),
        bytes_(bits(b.inputs[0].type) / 8),
        logarithm_(b.node->op == "LogSoftmax"),
        threads_(useful_threads(threads, views_.rows() * views_.width() * 4)) {
    const Shape& shape = b.inputs[0].shape;
    const bool dense = is_dense(b.inputs[0]) && is_dense(b.outputs[0]);
    if (shape.size() > 1) apart_ = dense ? views_.rows() : shape[shape.size() - 2];
    for (size_t k = 0; k < 2 && shape.size() > 1; ++k)
      step_[k] = dense ? views_.width() : memory_strides(k ? b.outputs[0] : b.inputs[0])[shape.size() - 2];
  }
  int64_t workspace() const override { return threads_ * row_bytes(views_.width()); }
  bool in_place(size_t) const override { return true; }
  void run(const Buffers& b) override {
    parallel(threads_, views_.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      float* row = reinterpret_cast<float*>(static_cast<char*>(b.workspace) + thread * row_bytes(views_.width()));
      while (begin < end) {
        const int64_t n = std::min(apart_ - begin % apart_, end - begin);
        table().rows(type_, static_cast<const char*>(b.inputs[0]) + views_.offset(begin, 0) * bytes_, step_[0],
                     static_cast<char*>(b.outputs[0]) + views_.offset(begin, 1) * bytes_, step_[1], n, views_.width(), row,
                     logarithm_);
        begin += n;
      }
    });
  }

 private:
  RowViews views_;
  FloatKind type_;
  int64_t bytes_;
  int64_t apart_ = 1, step_[2] = {};  // so many rows lie equally far apart, and how far
  bool logarithm_;
  int threads_;
};

constexpr int64_t tile_columns = 2 * softmax_columns;

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
    side_by_side_ = kind_ && step_[0] == 1 && step_[1] == 1;
    for (size_t a = kept; a-- > 0;) {
      if (shape[a] == 1) continue;
      if (side_by_side_ && together_ == 1) row_step_[0] = strides[0][a], row_step_[1] = strides[1][a];
      for (size_t k = 0; k < 2; ++k)
        if (strides[k][a] != row_step_[k] * together_) return;
      together_ *= shape[a];
    }
  }
  int64_t workspace() const override { return threads_ * thread_bytes(); }
  bool in_place(size_t) const override { return true; }

  void run(const Buffers& b) override {
    parallel(threads_, views_.rows(), 1, [&](int64_t begin, int64_t end, int thread) {
      char* own = static_cast<char*>(b.workspace) + thread * thread_bytes();
      while (begin < end) {
        const int64_t n = std::min({side_by_side_ ? together_ : tile_columns, together_ - begin % together_, end - begin});
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
  int64_t thread_bytes() const {
    return kind_ ? std::max(row_bytes(views_.width()), aligned(column_floats(views_.width()) * 4)) : aligned(views_.width() * 8);
  }

  void tile(FloatKind kind, const char* x, char* y, float* scratch, int64_t n) const {
    if (side_by_side_)
      table().rows(kind, x, row_step_[0], y, row_step_[1], n, views_.width(), scratch, logarithm_);
    else
      table().columns(kind, x, step_[0], y, step_[1], n, views_.width(), scratch, logarithm_);
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
  int64_t bytes_, step_[2] = {};
  bool side_by_side_ = false;  // the elements of a row
  // So many rows lie equally far apart, and how far: where their elements are not side by side, they are adjacent.
  int64_t together_ = 1, row_step_[2] = {1, 1};
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
